//! What a conversation is told.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::identity::{Pin, VerificationOutcome};
use super::life::ANSWER_MS_LEAST;
use crate::ids::{PartyId, PlaybackId, ResponseId, SessionId, TurnId};
use crate::ledger::News;
use crate::policy::Language;
use crate::time::Time;

/// One input of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Input {
    /// The call is over: nothing more will be heard, and evidence still comes for [`crate::timers::EVIDENCE_AFTER_END`].
    ChannelOver,
    /// Nothing at all has come from the far end since then: whether it still is there is not known.
    FarEndSilent {
        /// When something last came.
        since: Time,
    },
    /// The far end put the call on hold, or took it back.
    Hold(bool),
    /// The floor is held for something else (consent, another's announcement), or free again. Keys that a model wants are
    /// collected by [`ModelEvent::CollectDigits`].
    FloorHeld(bool),
    /// Who is on the line is known better, or less well, than before.
    Identified(Identity),
    /// What the keys of an [`super::Effect::Verify`] came to.
    Verified {
        /// Which attempt of this call it is about.
        attempt: u32,
        /// What it came to.
        outcome: VerificationOutcome,
    },
    /// A machine answered: nobody hears what is said from now on, or heard what was said before.
    Voicemail,
    /// The caller's acoustic clock moved.
    Acoustic(AcousticEdge),
    /// The caller pressed a key: `0`–`9`, `*`, `#`, `A`–`D`.
    Digit(char),
    /// Something happened to audio of ours.
    Playback(PlaybackEvent),
    /// The model said something.
    Model(ModelEvent),
    /// The ledger tells this conversation something.
    News(News),
    /// A deadline that [`super::Conversation::deadline`] named may have come.
    Wake,
}

/// How well it is known who is on the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Identity {
    /// Not at all.
    Unknown,
    /// By the caller's word: the number that the call says it comes from.
    CallersWord,
    /// Verified, by something that only the party knows or has.
    Verified,
}

/// The channel that a conversation lives on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channel {
    /// The conversation.
    pub session: SessionId,
    /// Who is on the line, where it is known.
    pub party: Option<PartyId>,
    /// The language that the call is held in.
    pub language: Language,
    /// The strongest evidence that this channel can give.
    pub best: Evidence,
    /// What may lie in the far end's jitter buffer when a packet has left the box (ms).
    pub far_buffer_ms: u64,
}

/// Evidence that audio reached the far end, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// Samples exist.
    Generated,
    /// They left the box, paced.
    Sent,
    /// The far end has them: an RTCP receiver report covers them.
    Received,
    /// The far end played them.
    Marked,
    /// The loudspeaker played them.
    Device,
}

/// States of the caller's acoustic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Acoustic {
    /// Silence.
    #[default]
    Quiet,
    /// Something that may be speech; the voice is paused.
    Suspected,
    /// Speech, confirmed by so many voiced milliseconds.
    Speaking,
    /// A pause inside or at the end of speech.
    Trailing,
}

/// Counts acoustic transitions. A command to sound carries the epoch that it was decided in and is refused when stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct AcousticEpoch(pub u64);

/// One transition of the acoustic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcousticEdge {
    /// The state entered.
    pub to: Acoustic,
    /// The epoch that begins with it.
    pub epoch: AcousticEpoch,
    /// When the sound that made it happened: speech that ended is dated back to its last voiced frame.
    pub at: Time,
}

/// Ends with a clear, a re-INVITE or an SSRC change: evidence of one generation never credits another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Generation(pub u32);

/// One segment of a playback: a clause, with its own start and end on the media timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SegmentRef {
    /// The playback.
    pub playback: PlaybackId,
    /// Its place in the playback, from 0.
    pub index: u32,
}

/// A word of a segment, on the segment's own timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Word {
    /// Where the word ends in the segment's text (bytes).
    pub end_byte: u32,
    /// When it ends in the segment's audio (ms).
    pub end_ms: u32,
}

/// What happened to audio of ours. Packets are counted by extended RTP sequence number (RFC 3550 6.4.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlaybackEvent {
    /// The segment's audio exists.
    Ready {
        /// The segment.
        segment: SegmentRef,
        /// Its length (ms).
        duration_ms: u64,
        /// Where its words end; empty where the engine gives no map.
        words: Vec<Word>,
        /// Whether most of it is near silent (below -60 dBFS): such audio convinces nobody.
        near_silent: bool,
    },
    /// The segment's audio could not be made.
    Failed {
        /// The segment.
        segment: SegmentRef,
        /// Why, in words.
        reason: String,
    },
    /// The segment's first frame has left the box.
    Started {
        /// The segment.
        segment: SegmentRef,
        /// When.
        at: Time,
        /// The packet that carried it.
        packet: u64,
        /// The generation that it belongs to.
        generation: Generation,
    },
    /// The segment's last frame has left the box.
    Sent {
        /// The segment.
        segment: SegmentRef,
        /// When.
        at: Time,
        /// The packet that carried it.
        packet: u64,
        /// The generation that it belongs to.
        generation: Generation,
    },
    /// The voice stopped at a frame boundary because speech is suspected; nothing was discarded.
    Paused {
        /// The segment that it stopped in.
        segment: SegmentRef,
        /// How much of that segment has left the box (ms).
        released_ms: u64,
        /// When.
        at: Time,
    },
    /// The voice goes on from the sample that it stopped at.
    Resumed {
        /// The segment.
        segment: SegmentRef,
        /// When.
        at: Time,
    },
    /// Everything of this playback that had not left the box is discarded.
    Cleared {
        /// The playback.
        playback: PlaybackId,
        /// The segment that was cut, and how much of it had left the box (ms); none if nothing had begun.
        cut: Option<(u32, u64)>,
        /// When.
        at: Time,
    },
    /// A command to sound was refused: the acoustic clock has moved on since it was decided.
    Refused {
        /// The segment that it was about.
        segment: SegmentRef,
        /// The epoch now.
        epoch: AcousticEpoch,
    },
    /// The mark behind a segment came back, on a channel that has marks.
    Marked {
        /// The segment that it stood behind.
        segment: SegmentRef,
        /// What brought it back.
        back: Mark,
        /// When.
        at: Time,
    },
    /// The far end reported what it received (RTCP receiver report, RFC 3550 6.4.2).
    Report {
        /// The generation that it is about.
        generation: Generation,
        /// Extended highest sequence number received.
        highest_packet: u64,
        /// Cumulative number of packets lost; may be negative with duplicates.
        cumulative_lost: i64,
        /// When it came.
        at: Time,
    },
}

/// What brought a mark back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// The far end played everything before it.
    Played,
    /// A clear: what it stood behind was thrown away, and it is no evidence.
    Cleared,
}

/// What a model says. Audio bytes never come here; text does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ModelEvent {
    /// The next clause of a response, to be spoken.
    Clause {
        /// The response.
        response: ResponseId,
        /// What it says.
        content: Content,
    },
    /// The response asks for an operation.
    ToolCall {
        /// The response.
        response: ResponseId,
        /// What it asks for.
        call: ToolCall,
    },
    /// The response ends; nothing more comes under this id.
    Complete {
        /// The response.
        response: ResponseId,
    },
    /// The response failed.
    Failed {
        /// The response.
        response: ResponseId,
        /// Why, in words.
        reason: String,
    },
    /// After this response the call should end.
    HangUp {
        /// The response.
        response: ResponseId,
    },
    /// The caller asks what runs for them: the box tells them, and the model.
    ListWork {
        /// The response.
        response: ResponseId,
    },
    /// The caller wants to hear once more what they were told last: the box says it.
    RepeatLast {
        /// The response.
        response: ResponseId,
    },
    /// The caller asked to cancel operations: one, this tool's, or all that run.
    CancelIntent {
        /// The response.
        response: ResponseId,
        /// The tool whose operations are meant, or all.
        tool: Option<String>,
        /// The short name of the one operation that is meant, as [`super::NamedWork::name`] gives it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        work: Option<String>,
    },
    /// After this response the floor is held until the caller has pressed some keys: a PIN, an account number. No delivery
    /// is told meanwhile, and the keys open no turns of their own. It ends with the last key, with a pause that is too long,
    /// and with the next answer to something that the caller says; [`super::Cause::Digits`] asks for the response.
    CollectDigits {
        /// The response.
        response: ResponseId,
        /// So many keys are all (1 to 32).
        digits_max: u8,
        /// The key that ends them before: `*` or `#`.
        end: Option<char>,
        /// How long a pause may be, from the end of what we say or from the last key (ms).
        wait_ms: u64,
    },
    /// After this response the caller keys in their PIN, which no model is told; [`super::Effect::Verification`] says what it came to.
    AskForPin {
        /// The response.
        response: ResponseId,
    },
    /// The caller has told the model a PIN; [`super::Effect::Verification`] says what it came to.
    VerifyCaller {
        /// The response.
        response: ResponseId,
        /// The PIN.
        pin: Pin,
    },
    /// The turn held no words: it was noise.
    TurnWasNoise {
        /// The turn.
        turn: TurnId,
    },
    /// It wants to say something of its own accord, now. Where there is room for it, [`super::Cause::OwnAccord`] asks for the
    /// response; where there is none, nothing comes of it, now or later.
    WantsToSpeak,
}

impl ModelEvent {
    /// The response that it belongs to; none where it is about the caller's turn.
    pub fn response(&self) -> Option<ResponseId> {
        match self {
            Self::Clause { response, .. }
            | Self::ToolCall { response, .. }
            | Self::Complete { response }
            | Self::Failed { response, .. }
            | Self::CancelIntent { response, .. }
            | Self::ListWork { response }
            | Self::RepeatLast { response }
            | Self::CollectDigits { response, .. }
            | Self::AskForPin { response }
            | Self::VerifyCaller { response, .. }
            | Self::HangUp { response } => Some(*response),
            Self::TurnWasNoise { .. } | Self::WantsToSpeak => None,
        }
    }
}

/// What a segment says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// Words for the speech engine.
    Text {
        /// The words.
        text: String,
        /// Their language.
        language: Language,
    },
    /// A recorded prompt of the configuration, with the words that it says, where they are known.
    Prompt {
        /// Its name.
        name: String,
        /// The words.
        text: String,
    },
    /// A piece of speech that the model made itself: the voice has it, and knows it by its number.
    Speech {
        /// Its number among the pieces of this call.
        piece: u64,
        /// How much of it can be heard (ms); none where it is silence. What was recorded before this was told counts as an answer.
        #[serde(default = "an_answer_ms")]
        audible_ms: u64,
        /// The words that it says, as far as the model has said which; they may end in the middle of a word.
        text: String,
    },
}

impl Content {
    /// The words.
    pub fn text(&self) -> &str {
        match self {
            Content::Text { text, .. } | Content::Prompt { text, .. } | Content::Speech { text, .. } => text,
        }
    }

    /// Whether it is silence: a model may send that too, and nobody takes it for an answer.
    pub fn is_silence(&self) -> bool {
        matches!(self, Content::Speech { audible_ms: 0, .. })
    }
}

fn an_answer_ms() -> u64 {
    ANSWER_MS_LEAST
}

/// A request of a model to run a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The model's own name for the call; not unique, only handed back.
    pub call_id: String,
    /// The tool.
    pub tool: String,
    /// Its arguments, validated against the tool's schema.
    pub arguments: Value,
    /// Whether the caller has confirmed that it is to be done: once more, or at all. It counts only where they were asked for that in
    /// an earlier turn.
    #[serde(default)]
    pub confirmed: bool,
}
