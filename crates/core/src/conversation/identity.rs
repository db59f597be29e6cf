//! Who is on the line, proved by keys: a caller whom the box knows by their word alone is asked, once a call, for the PIN
//! that only the party knows. Until it is right they learn at most that there is something for them.
//!
//! The box asks by itself, whatever the model does: the keys go to the verifier, and to nobody else. What is right is
//! decided outside, and so is who is locked out: here is only when it is asked, and what follows.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::effect::{Cause, Effect, Purpose};
use super::input::{Content, Identity};
use super::playback::{Of, Piece, Playback};
use super::speaking::give_next;
use super::{Conversation, Cx};
use crate::gate::{self, Blocker, DeliveryDecision};
use crate::ids::PlaybackId;
use crate::policy::{Audience, Localised, Priority};
use crate::time::Time;
use crate::timers::Timer;

/// How callers are verified, and what they are told of what waits for whoever they say they are. None of these texts may
/// say anything that is the party's own matter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verification {
    /// Whether somebody who is not known well enough is told that there is a message.
    pub announce_waiting: bool,
    /// Fewer keys than this are no PIN: they are asked for again, and compared with nothing.
    #[serde(default)]
    pub digits_min: u8,
    /// So many keys are all of a PIN (1 to 32); `#` ends it before, `*` begins it anew.
    pub digits_max: u8,
    /// How often a caller may try in a call.
    pub attempts_max: u8,
    /// How long a pause may be, from the end of what we say or from the last key (ms).
    pub wait_ms: u64,
    /// Says that there is a message, and asks for the PIN and `#`.
    pub say_ask: Localised,
    /// That PIN was not right: asks again.
    pub say_again: Localised,
    /// The caller could not be verified; the message stays.
    pub say_not_verified: Localised,
    /// Says to a machine that there is a message.
    pub say_waiting: Localised,
}

impl Default for Verification {
    fn default() -> Self {
        let both = |es: &str, en: &str| Localised { es: Some(es.into()), en: Some(en.into()) };
        Self {
            announce_waiting: true,
            digits_min: 4,
            digits_max: 12,
            attempts_max: 3,
            wait_ms: 8_000,
            say_ask: both(
                "Hay un mensaje para usted. Para oírlo, marque su PIN y almohadilla.",
                "There is a message for you. To hear it, key in your PIN and the hash key.",
            ),
            say_again: both("No ha podido ser. Márquelo otra vez, y almohadilla.", "That did not work. Key it in again, and the hash key."),
            say_not_verified: both(
                "No puedo comprobar quién es usted. El mensaje se queda guardado.",
                "I can't verify who you are. The message stays.",
            ),
            say_waiting: both("Hay un mensaje para usted. Llámenos, por favor.", "There is a message for you. Please call us."),
        }
    }
}

/// Keys that are to prove who somebody is. They are shown nowhere, and written nowhere: as JSON they are a zero for each key.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Pin(String);

impl Pin {
    /// The keys, for whoever compares them.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Pin {
    fn from(keys: String) -> Self {
        Self(keys)
    }
}

impl Serialize for Pin {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&"0".repeat(self.0.chars().count()))
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pin(hidden)")
    }
}

/// What a verification came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerificationOutcome {
    /// It is the party.
    Verified,
    /// It is not known to be: the PIN is wrong, or the party has none. Which of them is not told.
    NotVerified,
    /// There were too many failures: nothing is compared for now.
    Locked,
    /// It can't be looked up now.
    Unavailable,
}

/// How far the verification of a caller is.
#[derive(Debug, Default)]
pub(super) struct Verifying {
    /// Whether the caller has been asked, or a machine told: that is done once a call.
    announced: bool,
    /// How many PINs have been given to the verifier.
    attempts: u32,
    /// How often there were too few keys for one.
    too_short: u32,
    /// The last one that somebody else may have keyed in: somebody less well known was on the line since.
    void: u32,
    /// When it has been quiet for long enough to ask for the first.
    due: Option<Time>,
    /// Whether it is the model that has asked for what is awaited.
    by_model: bool,
    /// The latest attempt that the model wants to know the outcome of.
    models_attempt: u32,
    /// Whether the model knows an outcome that it has not been asked to speak of.
    unspoken: bool,
    at: Stage,
    /// The floor is not held for it any more, and it goes on all the same.
    aside: Option<Aside>,
    /// Whether keys have been awaited in this call.
    keys_awaited: bool,
    /// Then, while one that comes may still be of a PIN.
    tail: Option<Tail>,
}

/// The caller does something else than to key the PIN in, or takes their time over it.
#[derive(Debug, Clone, Copy)]
struct Aside {
    since: Time,
    /// Whether it is for what the caller says.
    for_turn: bool,
}

/// Keys that come too late, or are too many, are as secret as the PIN: nobody is told of them.
#[derive(Debug, Clone, Copy)]
struct Tail {
    since: Time,
    /// The last key, or what we said about them.
    latest: Time,
}

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Nothing,
    Keys {
        since: Time,
        keys: Pin,
        last_key: Option<Time>,
    },
    Outcome {
        since: Time,
    },
    /// The outcome came while the caller did something else: it is told once there is room.
    Untold(VerificationOutcome),
}

impl Verifying {
    /// Whether the floor is held for it.
    pub(super) fn holds_floor(&self) -> bool {
        matches!(self.at, Stage::Keys { .. } | Stage::Outcome { .. }) && self.aside.is_none()
    }

    /// Whether a key that comes now may be one of a PIN.
    fn takes_keys(&self) -> bool {
        self.tail.is_some() || matches!(self.at, Stage::Keys { .. } | Stage::Outcome { .. })
    }

    /// The call is over: nothing of it is waited for.
    pub(super) fn over(&mut self) {
        self.stop();
        self.tail = None;
    }

    /// It is not wanted any more. What the verifier still says of a PIN counts.
    fn stop(&mut self) {
        (self.at, self.aside) = (Stage::Nothing, None);
        (self.by_model, self.unspoken) = (false, false);
    }

    /// Who talks instead of keying a PIN in is listened to. Keys are still those of the PIN, and what it comes to is told later.
    pub(super) fn turn_began(&mut self, now: Time) {
        self.unspoken = false;
        if matches!(self.at, Stage::Keys { .. } | Stage::Outcome { .. }) {
            self.aside = Some(Aside { since: now, for_turn: true });
        }
    }

    /// Nothing was said in the turn: it goes on where it was.
    pub(super) fn turn_was_noise(&mut self) {
        self.aside = self.aside.filter(|aside| !aside.for_turn);
    }

    /// The model asks for keys of its own: those that come are for it.
    pub(super) fn keys_are_the_models(&mut self) {
        if self.holds_floor() {
            return;
        }
        self.tail = None;
        if matches!(self.at, Stage::Keys { .. }) {
            self.stop();
        }
    }

    fn key_came(&mut self, now: Time) {
        let since = self.tail.map(|tail| tail.since).filter(|_| !matches!(self.at, Stage::Keys { .. }));
        self.tail = Some(Tail { since: since.unwrap_or(now), latest: now });
    }

    fn tail_begins(&mut self, now: Time) {
        self.tail = self.keys_awaited.then_some(Tail { since: now, latest: now });
    }

    /// Somebody else may be on the line: what the verifier still says is about who was there before.
    pub(super) fn another_caller(&mut self) {
        self.void = self.attempts;
    }
}

impl Conversation {
    /// Asks for a PIN where nothing but that keeps a delivery from being told now; tells a machine that there is a message.
    pub(super) fn ask_who_it_is(&mut self, cx: &mut Cx) {
        let Some(settings) = self.settings.verification.as_ref().filter(|settings| settings.announce_waiting) else { return };
        if self.voicemail {
            let say = settings.say_waiting.clone();
            if !self.verifying.announced && self.something_waits() && self.has_room() {
                self.verifying.announced = true;
                self.say_of_identity(cx, &say);
            }
        } else if self.may_ask_for_pin() {
            let say = settings.say_ask.clone();
            let (now, due) = self.moment_to_ask(cx);
            self.verifying.due = due;
            if now {
                self.verifying.announced = true;
                self.take_keys(cx, &say);
            }
        }
    }

    /// When time alone makes it the moment to ask.
    pub(super) fn ask_who_it_is_due(&self) -> Option<Time> {
        let announces = self.settings.verification.as_ref().is_some_and(|settings| settings.announce_waiting);
        (announces && self.may_ask_for_pin()).then_some(self.verifying.due).flatten()
    }

    fn may_ask_for_pin(&self) -> bool {
        !self.verifying.announced
            && !self.voicemail
            && self.identity == Identity::CallersWord
            && self.channel.party.is_some()
            && self.has_room()
    }

    /// Whether the gate would let a delivery for a verified party be told now, if this caller were verified; and when it would where nothing but the
    /// quiet is too short.
    fn moment_to_ask(&self, cx: &Cx) -> (bool, Option<Time>) {
        let known = gate::ChannelSnapshot { identity: Identity::Verified, ..self.snapshot(cx.now) };
        let withheld = self.withheld_asked(cx).into_iter().filter(|(asked, _)| asked.audience == Audience::VerifiedParty);
        let mut moment = (false, None);
        for (asked, quiet_at) in withheld {
            match gate::decide(&asked, &known) {
                (DeliveryDecision::DeliverNow { interrupt: false }, None) => moment.0 = true,
                (_, Some(Blocker::QuietTooShort)) => moment.1 = Some(moment.1.map_or(quiet_at, |at: Time| at.min(quiet_at))),
                _ => {}
            }
        }
        moment
    }

    fn take_keys(&mut self, cx: &mut Cx, say: &Localised) {
        self.await_keys(cx);
        self.say_of_identity(cx, say);
    }

    fn await_keys(&mut self, cx: &Cx) {
        self.verifying.at = Stage::Keys { since: cx.now, keys: Pin(String::new()), last_key: None };
        (self.verifying.aside, self.verifying.keys_awaited) = (None, true);
        self.verifying.tail_begins(cx.now);
        self.window_since = None;
    }

    /// The model wants the caller to key in a PIN, and says so itself.
    pub(super) fn model_asks_for_pin(&mut self, cx: &mut Cx) {
        match self.known_without_pin() {
            Some(outcome) => self.tell_model_of_verification(cx, outcome),
            None => {
                (self.verifying.announced, self.verifying.by_model) = (true, true);
                self.await_keys(cx);
            }
        }
    }

    /// The model was told a PIN.
    pub(super) fn model_heard_pin(&mut self, cx: &mut Cx, pin: Pin) {
        match self.known_without_pin() {
            Some(outcome) => self.tell_model_of_verification(cx, outcome),
            None => {
                self.verifying.announced = true;
                self.window_since = None;
                if self.is_too_short(&pin) {
                    let outcome = self.counts_as_too_short();
                    return self.tell_model_of_verification(cx, outcome);
                }
                self.verifying.by_model = true;
                self.verify(cx, pin);
            }
        }
    }

    /// What a verification comes to that needs no PIN, or can't have one.
    fn known_without_pin(&self) -> Option<VerificationOutcome> {
        let Some(settings) = &self.settings.verification else { return Some(VerificationOutcome::Unavailable) };
        match self.identity {
            Identity::Verified => Some(VerificationOutcome::Verified),
            Identity::CallersWord if self.channel.party.is_some() && !self.voicemail => {
                let tries = self.verifying.attempts.max(self.verifying.too_short);
                (tries >= u32::from(settings.attempts_max)).then_some(VerificationOutcome::Locked)
            }
            _ => Some(VerificationOutcome::NotVerified),
        }
    }

    fn tell_model_of_verification(&mut self, cx: &mut Cx, outcome: VerificationOutcome) {
        cx.out.push(Effect::Verification { outcome });
        (self.verifying.by_model, self.verifying.unspoken) = (false, true);
    }

    /// Who is on the line is known otherwise, or nobody is. A model that waits for what its question comes to is told that.
    pub(super) fn stop_verifying(&mut self, cx: &mut Cx) {
        let asked = self.verifying.by_model;
        self.verifying.stop();
        if asked {
            let verified = self.identity == Identity::Verified && !self.voicemail;
            let outcome = if verified { VerificationOutcome::Verified } else { VerificationOutcome::NotVerified };
            self.tell_model_of_verification(cx, outcome);
        }
    }

    /// What a PIN came to is told once there is room, where the caller did something else meanwhile.
    pub(super) fn tell_outcome(&mut self, cx: &mut Cx) {
        if let Stage::Untold(outcome) = self.verifying.at
            && self.has_room()
        {
            self.not_verified(cx, outcome);
        }
    }

    /// The model speaks of what a verification came to, once there is room for it; what the caller says before then it answers knowing it.
    pub(super) fn let_model_speak_of_verification(&mut self, cx: &mut Cx) {
        if self.verifying.unspoken && self.has_room() {
            self.verifying.unspoken = false;
            self.request(cx, Cause::OwnAccord);
        }
    }

    fn say_of_identity(&mut self, cx: &mut Cx, say: &Localised) {
        let language = self.channel.language;
        let Some(text) = say.text(language) else { return };
        let piece = Piece { purpose: Purpose::Identity, content: Content::Text { text: text.to_owned(), language } };
        if self.current.is_some() || !self.acoustic.quiet() || self.on_hold() {
            return self.deferred.push_back(piece);
        }
        let mut playback = Playback::new(PlaybackId(cx.ids.draw()), Of::Announcement, Priority::Normal);
        playback.to_give.push_back(piece);
        give_next(cx, &mut playback, self.acoustic.epoch);
        self.current = Some(playback);
    }

    /// Whether the next key is one of a PIN, or behind one: nobody but the verifier may learn which it is.
    pub fn next_key_is_secret(&self) -> bool {
        self.settings.verification.is_some() && self.over.is_none() && self.verifying.takes_keys()
    }

    /// Takes a key, where a PIN is awaited or being looked up.
    pub(super) fn key_of_pin(&mut self, cx: &mut Cx, key: char) -> bool {
        let Some(digits_max) = self.settings.verification.as_ref().map(|settings| usize::from(settings.digits_max).clamp(1, 32)) else {
            return false;
        };
        if !self.verifying.takes_keys() {
            return false;
        }
        self.verifying.key_came(cx.now);
        let (first, complete) = match &mut self.verifying.at {
            // A key too many, behind the PIN, or one that comes too late.
            Stage::Nothing | Stage::Outcome { .. } | Stage::Untold(_) => return true,
            // Behind a PIN that was all there is, it comes late.
            Stage::Keys { keys: Pin(keys), .. } if key == '#' && keys.is_empty() => return true,
            Stage::Keys { keys: Pin(keys), last_key, .. } => {
                let first = last_key.replace(cx.now).is_none();
                match key {
                    '0'..='9' => keys.push(key),
                    '*' => keys.clear(),
                    _ => {}
                }
                (first, key == '#' || keys.len() >= digits_max)
            }
        };
        if first {
            // The keys are no turn: nobody but the verifier is told of them. What asks for them has been understood.
            self.deferred.retain(|piece| piece.purpose != Purpose::Identity);
            if self.current.as_ref().is_some_and(|playback| playback.has_left_to_say(|purpose| *purpose == Purpose::Identity)) {
                self.cut_current(cx, super::barge_in::Why::Caller);
            }
        }
        if complete {
            self.give_pin(cx);
        }
        true
    }

    fn give_pin(&mut self, cx: &mut Cx) {
        let floor_max = self.ms(Timer::FloorMax);
        let is_last_chance = matches!(&self.verifying.at, Stage::Keys { since, .. } if cx.now >= since.plus(floor_max));
        match std::mem::take(&mut self.verifying.at) {
            Stage::Keys { keys, .. } if self.is_too_short(&keys) && !keys.0.is_empty() => {
                let outcome = self.counts_as_too_short();
                self.not_verified(cx, outcome);
            }
            Stage::Keys { keys, .. } if !keys.0.is_empty() => self.verify(cx, keys),
            // Nothing was keyed in in time: the caller does not want to.
            _ if self.verifying.by_model => {
                self.verifying.stop();
                self.tell_model_of_verification(cx, VerificationOutcome::NotVerified);
            }
            // Or has to look for it: the floor is free, and keys that come now are of the PIN.
            keys @ Stage::Keys { .. } if !is_last_chance => {
                self.verifying.at = keys;
                self.verifying.aside = Some(Aside { since: cx.now, for_turn: false });
            }
            // Not for ever.
            Stage::Keys { .. } => {}
            other => self.verifying.at = other,
        }
    }

    /// Whether there are fewer keys than any PIN has: the verifier's time, and a failure on record, would be for nothing.
    fn is_too_short(&self, keys: &Pin) -> bool {
        self.settings.verification.as_ref().is_some_and(|settings| keys.0.chars().count() < usize::from(settings.digits_min))
    }

    /// Whoever keys in too little is asked again, but not for ever.
    fn counts_as_too_short(&mut self) -> VerificationOutcome {
        self.verifying.too_short = self.verifying.too_short.saturating_add(1);
        self.known_without_pin().unwrap_or(VerificationOutcome::NotVerified)
    }

    /// The caller has done something else for long enough.
    fn end_aside(&mut self, cx: &mut Cx, aside: Aside) {
        match &self.verifying.at {
            // Many leave the last key out.
            Stage::Keys { last_key: Some(last_key), .. } if *last_key > aside.since => self.give_pin(cx),
            _ if self.verifying.by_model => {
                self.verifying.stop();
                self.tell_model_of_verification(cx, VerificationOutcome::NotVerified);
            }
            _ => self.verifying.stop(),
        }
    }

    fn verify(&mut self, cx: &mut Cx, digits: Pin) {
        let attempt = self.verifying.attempts.saturating_add(1);
        self.verifying.attempts = attempt;
        if self.verifying.by_model {
            self.verifying.models_attempt = attempt;
        }
        (self.verifying.at, self.verifying.aside) = (Stage::Outcome { since: cx.now }, None);
        cx.out.push(Effect::Verify { attempt, digits });
    }

    /// The verifier says what a PIN came to.
    pub(super) fn verified(&mut self, cx: &mut Cx, attempt: u32, outcome: VerificationOutcome) {
        // Whoever is on the line by now may be another one, or nobody.
        let same_caller = self.identity == Identity::CallersWord && !self.voicemail && self.over.is_none();
        if !same_caller || attempt <= self.verifying.void || attempt > self.verifying.attempts {
            return;
        }
        if outcome == VerificationOutcome::Verified {
            let asked = std::mem::take(&mut self.verifying.by_model);
            self.identified(cx, Identity::Verified);
            if asked || attempt == self.verifying.models_attempt {
                self.tell_model_of_verification(cx, outcome);
            }
            return;
        }
        if attempt == self.verifying.attempts && matches!(self.verifying.at, Stage::Outcome { .. }) {
            if self.verifying.aside.is_some() && !self.verifying.by_model {
                (self.verifying.at, self.verifying.aside) = (Stage::Untold(outcome), None);
            } else {
                self.not_verified(cx, outcome);
            }
        }
    }

    fn not_verified(&mut self, cx: &mut Cx, outcome: VerificationOutcome) {
        let may_try_again = outcome == VerificationOutcome::NotVerified;
        let by_model = self.verifying.by_model;
        self.verifying.stop();
        self.verifying.tail_begins(cx.now);
        if by_model {
            return self.tell_model_of_verification(cx, outcome);
        }
        let Some(settings) = self.settings.verification.clone() else { return };
        if may_try_again && self.verifying.attempts < u32::from(settings.attempts_max) {
            self.take_keys(cx, &settings.say_again);
        } else {
            self.say_of_identity(cx, &settings.say_not_verified);
        }
    }

    /// When the keys, or what the verifier says of them, are not waited for any longer; when a key is none of a PIN any more.
    pub(super) fn verification_due(&self) -> Option<Time> {
        let wait_ms = self.settings.verification.as_ref().map_or(0, |settings| settings.wait_ms);
        let floor_max = self.ms(Timer::FloorMax);
        match &self.verifying.at {
            Stage::Nothing | Stage::Untold(_) => self.verifying.tail.map(|tail| tail.latest.plus(wait_ms).min(tail.since.plus(floor_max))),
            Stage::Outcome { since } => Some(since.plus(self.ms(Timer::VerifyMax))),
            Stage::Keys { since, last_key, .. } => {
                let latest = since.plus(floor_max);
                if let Some(aside) = self.verifying.aside {
                    return Some(aside.since.max(last_key.unwrap_or(aside.since)).plus(wait_ms).min(latest));
                }
                let busy = self.current.is_some() || self.reply.is_some() || !self.acoustic.quiet() || self.on_hold();
                let paused = self.quiet_since().max(last_key.unwrap_or(*since)).plus(wait_ms);
                Some(if busy { latest } else { paused.min(latest) })
            }
        }
    }

    /// While we say something about a PIN, keys may follow it.
    pub(super) fn keep_tail(&mut self, now: Time) {
        let of_identity = |purpose: &Purpose| *purpose == Purpose::Identity;
        if let Some(tail) = &mut self.verifying.tail
            && (self.current.as_ref().is_some_and(|playback| playback.says(of_identity))
                || self.deferred.iter().any(|piece| of_identity(&piece.purpose)))
        {
            tail.latest = now;
        }
    }

    pub(super) fn end_verification_in_time(&mut self, cx: &mut Cx) {
        if self.verification_due().is_none_or(|due| due > cx.now) {
            return;
        }
        match (&self.verifying.at, self.verifying.aside) {
            (Stage::Keys { .. }, Some(aside)) => self.end_aside(cx, aside),
            // Many leave the last key out.
            (Stage::Keys { .. }, None) => self.give_pin(cx),
            (Stage::Outcome { .. }, Some(_)) if !self.verifying.by_model => {
                (self.verifying.at, self.verifying.aside) = (Stage::Untold(VerificationOutcome::Unavailable), None);
            }
            (Stage::Outcome { .. }, _) => self.not_verified(cx, VerificationOutcome::Unavailable),
            (Stage::Nothing | Stage::Untold(_), _) => self.verifying.tail = None,
        }
    }
}
