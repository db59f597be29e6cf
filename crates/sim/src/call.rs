//! One call: a conversation, its voice and its caller's ear.

use std::collections::VecDeque;

use recado_core::conversation::{Acoustic, Cause, Conversation, Decision, Effect, HeardText, Identity, Input, PlaybackState};
use recado_core::ids::{PartyId, ResponseId, SessionId};

use recado_core::timers::{Timer, Timers};

use crate::journal::Journal;
use crate::voice::{FRAME, Voice};
use crate::watch::CallWatch;

/// One call: a conversation, its voice and its caller's ear.
pub struct Call {
    /// Its conversation's name.
    pub session: SessionId,
    /// The real conversation.
    pub conversation: Conversation,
    /// When it wants to be woken, as it last said (ms).
    pub(crate) due: Option<u64>,
    /// What its playback clock shows.
    pub(crate) shows: Option<PlaybackState>,
    /// Its voice, the media path and the far end.
    pub voice: Voice,
    /// Who is on the line, where that is known.
    pub party: Option<PartyId>,
    /// What the caller is about to do: when, what, and when the sound was that showed it (ms).
    pub edges: VecDeque<(u64, Acoustic, u64)>,
    pub(crate) to_conversation: VecDeque<(u64, Input)>,
    /// Responses that the model was asked for.
    pub asked: Vec<(ResponseId, Cause)>,
    /// When the latest was asked for (ms).
    pub asked_at: u64,
    /// Responses that the model was told to stop.
    pub cancelled: Vec<ResponseId>,
    /// What of a response the model was told was heard: so much (ms), these words.
    pub truncated: Vec<(ResponseId, u64, String)>,
    /// Other effects, in their order.
    pub outputs: Vec<Effect>,
    /// What the model was told that the caller was told.
    pub told: Vec<String>,
    /// Settled history.
    pub history: Vec<HeardText>,
    /// The gate's answers.
    pub decisions: Vec<Decision>,
    /// Whether the agent hung up.
    pub hung_up: bool,
    /// Whether the far end has put the call on hold.
    pub on_hold: bool,
    /// Whether the floor is held.
    pub floor_held: bool,
    /// Who is on the line, as far as the conversation has been told.
    pub identity: Identity,
    /// The PINs that the verifier has been given and that are the caller's who is on the line now, oldest first.
    pub pins: VecDeque<u32>,
    /// Whether a machine has answered.
    pub voicemail: bool,
    /// Since when less may be told here than before (ms).
    pub lowered_at: Option<u64>,
    /// The conversation's timers.
    pub timers: Timers,
    /// Whether the call is over.
    pub over: bool,
    /// What was seen of it.
    pub watch: CallWatch,
    /// The conversation's trace.
    pub(crate) journal: Option<Journal<Conversation>>,
}

impl Call {
    /// Its conversation has taken an input in.
    pub(crate) fn handled(&mut self) {
        self.due = self.conversation.deadline().map(|at| at.0);
        self.shows = self.conversation.clocks().playback;
    }

    /// What its voice and the media path tell is on its way to the conversation.
    pub(crate) fn tells(&mut self, arrives: u64) {
        while let Some(event) = self.voice.told() {
            self.to_conversation.push_back((arrives, Input::Playback(event)));
        }
    }

    /// Whether nothing goes on here, seen from outside.
    pub(crate) fn quiet(&self) -> bool {
        let still = self.to_conversation.is_empty() && self.edges.is_empty() && !self.voice.busy();
        still
            && !self.watch.collecting
            && self.watch.read_backs.is_empty()
            && !self.watch.asks_pin
            && self.watch.open.is_none()
            && self.voice.acoustic() == Acoustic::Quiet
            && !self.on_hold
            && !self.floor_held
            && !self.hung_up
    }

    /// Whether the caller's clock has stood still for so long that it is not believed any more.
    pub(crate) fn disbelieved(&self, now: u64) -> bool {
        let timer = match self.voice.acoustic() {
            Acoustic::Quiet => return false,
            Acoustic::Suspected => Timer::SuspectedMax,
            Acoustic::Speaking => Timer::SpeakingMax,
            Acoustic::Trailing => Timer::TrailingMax,
        };
        now >= self.voice.acoustic_since + self.timers.ms(timer)
    }

    /// The conversation's trace so far, where it leaves one.
    pub fn trace(&self) -> Option<&str> {
        self.journal.as_ref().map(Journal::text)
    }

    /// When the caller has said what they are about to say.
    pub(crate) fn silent_from(&self, now: u64) -> u64 {
        self.edges.back().map_or(now, |(at, ..)| now.max(at + FRAME))
    }
}
