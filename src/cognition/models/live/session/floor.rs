//! What the model says, and whether anybody has asked for it.
//!
//! The model speaks when it sees fit, and nothing stops it. What it says while a response is asked for is of that response, until it has
//! been quiet for a while. What it says unasked is held back for a moment, in which the conversation is asked for a response; where there is
//! none, it is dropped. After a response that was cancelled, nothing is heard of it until it has been quiet, or is asked again.

use std::collections::VecDeque;

use recado_core::conversation::input::ModelEvent;
use recado_core::{ResponseId, Time};

use super::{Said, Session, State};
use crate::cognition::models::audible::audible_ms;
use crate::cognition::models::notes::{self, Note, Role};
use crate::cognition::models::words::{Piece, Words};

#[derive(Debug, Default)]
pub(super) struct Floor {
    asked: Option<Asked>,
    unasked: Option<Unasked>,
    /// Words that came before any sound of them, when they came, and where they begin on the service's timeline.
    early: VecDeque<(Time, u64, String)>,
    /// What it says is of a response that was cancelled.
    muted: bool,
    /// When it was last heard.
    heard: Time,
    /// The last responses in which it spoke, oldest first.
    spoke_in: VecDeque<ResponseId>,
    /// How much of what it said nobody heard (bytes).
    pub dropped_bytes: u64,
}

/// The response that is asked for.
#[derive(Debug)]
struct Asked {
    response: ResponseId,
    /// What the model is told before, once there is a session.
    note: Option<String>,
    /// Whether this session has been asked.
    given: bool,
    /// Whether it has answered anything.
    answered: bool,
    /// Whether it has not paused since it last made a sound.
    flowing: bool,
    words: Words,
}

/// What it says unasked.
#[derive(Debug)]
struct Unasked {
    began: Time,
    /// When the conversation was last asked for a response.
    wished: Time,
    /// What was said so far, until it is dropped.
    held: VecDeque<Held>,
    /// Whether it was held for too long.
    dropped: bool,
    words: String,
}

#[derive(Debug)]
enum Held {
    Words(u64, String),
    Audio(Vec<u8>),
}

impl Floor {
    /// When what it says may have ended; a response does not end while there are tasks.
    pub fn deadline(&self, no_tasks: bool) -> Option<Time> {
        let quiet_at = self.heard.plus(QUIET_MS);
        let asked = self.asked.as_ref().and_then(|asked| match asked {
            Asked { flowing: true, .. } => Some(self.heard.plus(PAUSES_MS)),
            asked => (asked.answered && no_tasks).then_some(quiet_at),
        });
        let unasked = self.unasked.as_ref().map(|unasked| match unasked.dropped {
            true => quiet_at,
            false => unasked.began.plus(HELD_MS_MAX).min(unasked.wished.plus(WISH_AGAIN_MS)),
        });
        asked.into_iter().chain(unasked).min()
    }

    /// After a response that was cancelled, it has been quiet for long enough to speak of something else.
    pub fn unmute(&mut self, now: Time) {
        self.muted &= now.since(self.heard) < MUTED_QUIET_MS;
    }

    /// The response that this session was asked for.
    pub fn response(&self) -> Option<ResponseId> {
        self.asked.as_ref().filter(|asked| asked.given).map(|asked| asked.response)
    }

    /// Whether it is neither asked nor says anything.
    pub fn is_idle(&self) -> bool {
        self.asked.is_none() && self.unasked.is_none()
    }

    /// When it will have finished what it is saying, if it says no more than it has said.
    pub fn finishes_at(&self) -> Time {
        self.heard.plus(FINISHED_MS)
    }

    /// It has done something.
    pub fn heard_of(&mut self, now: Time) {
        self.heard = now;
    }

    /// It has answered with something other than speech.
    pub fn answers(&mut self, now: Time) {
        self.heard = now;
        if let Some(asked) = &mut self.asked {
            asked.answered = true;
        }
    }

    /// Whether it spoke in this response, in this session.
    pub fn spoke_in(&self, response: ResponseId) -> bool {
        self.spoke_in.contains(&response)
    }

    fn speaks_in(&mut self, response: ResponseId) {
        if !self.spoke_in(response) {
            if self.spoke_in.len() == SPOKE_IN_MAX {
                self.spoke_in.pop_front();
            }
            self.spoke_in.push_back(response);
        }
    }
}

impl Session {
    /// A response is asked for.
    pub(super) fn respond(&mut self, now: Time, response: ResponseId, note: Option<Note>, answered: bool) {
        if let State::Gone { reason } = &self.state {
            let reason = reason.clone();
            return self.failed(response, &reason);
        }
        let note = note.map(|Note { text, role, .. }| {
            if role == Role::User {
                self.memory.note(text.clone());
            }
            text
        });
        self.floor.asked = Some(Asked { response, note, given: false, answered, flowing: false, words: Words::default() });
        self.floor.muted = false;
        self.ask(now);
    }

    /// Asks the model for what is asked for, where there is a session.
    pub(super) fn ask(&mut self, now: Time) {
        if !self.ready() {
            return;
        }
        let Some(asked) = self.floor.asked.as_mut().filter(|asked| !asked.given) else { return };
        asked.given = true;
        if let Some(note) = asked.note.take() {
            self.outbox.comment(now, &note);
        }
        // It may have begun to answer before the caller's turn was known to be over.
        let Some(unasked) = self.floor.unasked.take() else { return };
        self.unheard(now, &unasked);
        for held in unasked.held {
            match held {
                Held::Words(start_ms, words) => self.words_of_response(start_ms, words),
                Held::Audio(audio) => self.audio_of_response(now, audio),
            }
        }
    }

    /// Nothing more of this response is wanted. The model can't be told, and does not stop.
    pub(super) fn cancel(&mut self, response: ResponseId) {
        if self.floor.asked.take_if(|asked| asked.response == response).is_some() {
            self.floor.muted = true;
        }
    }

    pub(super) fn words(&mut self, now: Time, start_ms: u64, words: String) {
        if self.floor.muted {
            return;
        }
        if self.floor.response().is_some() {
            self.floor.heard = now;
            return self.words_of_response(start_ms, words);
        }
        match &mut self.floor.unasked {
            Some(unasked) => unasked.say(start_ms, words),
            // A sound may follow. Words of what was said before may come late, and are no reason to ask for anything.
            None => {
                if self.floor.early.len() == EARLY_MAX {
                    self.floor.early.pop_front();
                }
                self.floor.early.push_back((now, start_ms, words));
            }
        }
    }

    pub(super) fn audio(&mut self, now: Time, audio: Vec<u8>) {
        let sounds = audible_ms(&audio, self.setup.format.audio()) > 0;
        let pause_ms = now.since(self.floor.heard);
        if sounds {
            self.floor.heard = now;
        }
        if self.floor.muted {
            self.floor.dropped_bytes += audio.len() as u64;
            return;
        }
        if let Some(asked) = self.floor.asked.as_ref().filter(|asked| asked.given) {
            // A pause in what is said is part of it; silence before and after it is not.
            if sounds || asked.answered && pause_ms < PAUSE_MS {
                self.audio_of_response(now, audio);
            }
            return;
        }
        match &mut self.floor.unasked {
            Some(unasked) if unasked.dropped => self.floor.dropped_bytes += audio.len() as u64,
            Some(unasked) => unasked.hold(Held::Audio(audio), self.setup.format.bytes_per_ms()),
            None if sounds => {
                let early = std::mem::take(&mut self.floor.early);
                let mut unasked = Unasked { began: now, wished: now, held: VecDeque::new(), dropped: false, words: String::new() };
                for (_, start_ms, words) in early.into_iter().filter(|(came, ..)| now.since(*came) < EARLY_MS_MAX) {
                    unasked.say(start_ms, words);
                }
                unasked.held.push_back(Held::Audio(audio));
                self.floor.unasked = Some(unasked);
                self.wish();
            }
            None => {}
        }
    }

    /// Time has passed, or something has happened: what it says may have ended.
    pub(super) fn pass(&mut self, now: Time) {
        let quiet_ms = now.since(self.floor.heard);
        if let Some(asked) = self.floor.asked.as_mut().filter(|asked| quiet_ms >= PAUSES_MS && asked.flowing) {
            asked.flowing = false;
            let response = asked.response;
            let mut pieces = asked.words.finish();
            pieces.push(Piece::Audio(Vec::new()));
            self.say_pieces(response, pieces);
        }
        if quiet_ms >= QUIET_MS && self.tasks.is_empty() && self.floor.asked.as_ref().is_some_and(|asked| asked.answered) {
            self.complete();
        }
        let Some(unasked) = &mut self.floor.unasked else { return };
        if now.since(unasked.began) >= HELD_MS_MAX && !unasked.dropped {
            self.floor.dropped_bytes += unasked.drop_held();
        } else if !unasked.dropped && now.since(unasked.wished) >= WISH_AGAIN_MS {
            // There may be room now.
            unasked.wished = now;
            self.wish();
        }
        if quiet_ms >= QUIET_MS
            && let Some(unasked) = self.floor.unasked.take_if(|unasked| unasked.dropped)
        {
            self.unheard(now, &unasked);
        }
    }

    /// The session is gone, and what was under way in it.
    pub(super) fn end_speech(&mut self, reason: &str) {
        self.floor.unasked = None;
        self.floor.early.clear();
        self.floor.muted = false;
        self.floor.spoke_in.clear();
        if let Some(asked) = self.floor.asked.take_if(|asked| asked.given) {
            self.failed(asked.response, reason);
        }
    }

    /// There will be no session: what is still asked for is not given.
    pub(super) fn fail_asked(&mut self, reason: &str) {
        if let Some(asked) = self.floor.asked.take() {
            self.failed(asked.response, reason);
        }
    }

    /// Asks the conversation for a response.
    pub(super) fn wish(&mut self) {
        self.say_event(ModelEvent::WantsToSpeak);
    }

    fn complete(&mut self) {
        let Some(Asked { response, mut words, .. }) = self.floor.asked.take() else { return };
        let pieces = words.finish();
        self.say_pieces(response, pieces);
        self.say_event(ModelEvent::Complete { response });
    }

    fn words_of_response(&mut self, start_ms: u64, words: String) {
        let Some(asked) = &mut self.floor.asked else { return };
        let (response, pieces) = (asked.response, asked.words.add(&words));
        self.transcript.model(start_ms, words);
        self.say_pieces(response, pieces);
    }

    fn audio_of_response(&mut self, now: Time, audio: Vec<u8>) {
        let Some(asked) = &mut self.floor.asked else { return };
        let response = asked.response;
        asked.answered = true;
        let early = std::mem::take(&mut self.floor.early);
        self.floor.speaks_in(response);
        for (_, start_ms, words) in early.into_iter().filter(|(came, ..)| now.since(*came) < EARLY_MS_MAX) {
            self.words_of_response(start_ms, words);
        }
        let Some(asked) = &mut self.floor.asked else { return };
        asked.flowing |= audible_ms(&audio, self.setup.format.audio()) > 0;
        let pieces = asked.words.audio(audio, self.setup.format.bytes_per_ms());
        self.say_pieces(response, pieces);
    }

    fn say_pieces(&mut self, response: ResponseId, pieces: Vec<Piece>) {
        for piece in pieces {
            self.outbox.say(Said::Output(piece.of(response)));
        }
    }

    /// The model believes that the caller has heard what was dropped. A word alone is worth no word.
    fn unheard(&mut self, now: Time, unasked: &Unasked) {
        if unasked.dropped && self.ready() && unasked.words.split_whitespace().nth(1).is_some() {
            self.outbox.think(now, &notes::not_heard(unasked.words.trim()), None);
        }
    }
}

impl Unasked {
    fn say(&mut self, start_ms: u64, words: String) {
        if self.words.len() < WORDS_BYTES_MAX {
            self.words.push_str(&words);
        }
        if !self.dropped && self.held.len() < HELD_MAX {
            self.held.push_back(Held::Words(start_ms, words));
        }
    }

    /// Keeps more of its speech, as far as there is room: a service may send it much faster than it is spoken.
    fn hold(&mut self, audio: Held, bytes_per_ms: usize) {
        if self.held.len() < HELD_MAX && self.held_bytes() < (HELD_SPEECH_MS_MAX * bytes_per_ms) as u64 {
            self.held.push_back(audio);
        }
    }

    /// It was held for too long. How much it was.
    fn drop_held(&mut self) -> u64 {
        self.dropped = true;
        let bytes = self.held_bytes();
        self.held.clear();
        bytes
    }

    fn held_bytes(&self) -> u64 {
        let bytes = self.held.iter().map(|held| match held {
            Held::Words(..) => 0,
            Held::Audio(audio) => audio.len() as u64,
        });
        bytes.sum()
    }
}

/// A model that has been quiet for so long has said what it had to say (ms).
pub(super) const QUIET_MS: u64 = 800;
/// A model that makes no sound for so long pauses (ms): what has come of its speech is said before the voice has nothing more to say.
const PAUSES_MS: u64 = 120;
/// What it is saying is finished when it has paused for so long (ms).
const FINISHED_MS: u64 = 200;
/// A pause in what it says is sent on for so long (ms); where it comes as it is spoken, the rest of it passes by itself.
const PAUSE_MS: u64 = 400;
/// After a cancelled response, it speaks of something else once it has been quiet for so long (ms).
const MUTED_QUIET_MS: u64 = 500;
/// The box knows so much later than the model that the caller's turn is over, at most (ms). What was held for longer is stale.
pub(super) const HELD_MS_MAX: u64 = 1_500;
/// So often is the conversation asked for a response meanwhile (ms).
const WISH_AGAIN_MS: u64 = 250;
/// So much speech is held at a time (ms).
const HELD_SPEECH_MS_MAX: usize = 20_000;
/// In so many deltas.
const HELD_MAX: usize = 2_048;
/// Words that come so much before any sound are of something else (ms).
const EARLY_MS_MAX: u64 = 1_000;
/// As many deltas of words, before any sound.
const EARLY_MAX: usize = 64;
/// So much of what nobody heard is told.
const WORDS_BYTES_MAX: usize = 400;
/// The last few can still be cut to what was heard.
const SPOKE_IN_MAX: usize = 8;
