//! The floor held for something else: consent, another's announcement, keys that the model wants collected. No delivery is
//! told meanwhile.

use super::effect::Cause;
use super::{Conversation, Cx};
use crate::faults::{Fault, fault};
use crate::time::Time;
use crate::timers::Timer;

/// Keys that are being collected. They may be a PIN: they are handed to the model and forgotten.
#[derive(Clone)]
pub(super) struct Collecting {
    since: Time,
    digits: String,
    digits_max: usize,
    end: Option<char>,
    wait_ms: u64,
    /// When the last key came.
    last_key: Option<Time>,
}

impl std::fmt::Debug for Collecting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Collecting {{ {} of {} }}", self.digits.len(), self.digits_max)
    }
}

impl Conversation {
    /// Whether anything holds the floor.
    pub(super) fn floor_held(&self) -> bool {
        self.floor_held_since.is_some() || self.collecting.is_some() || self.consent_awaited() || self.verifying.holds_floor()
    }

    /// The floor is held for something outside, or free again of that.
    pub(super) fn hold_floor(&mut self, now: Time, held: bool) {
        if held {
            self.floor_held_since.get_or_insert(now);
        } else if !fault(Fault::FloorLatched) {
            self.floor_held_since = None;
        }
        self.window_since = None;
    }

    /// Begins to collect keys.
    pub(super) fn collect_digits(&mut self, now: Time, digits_max: u8, end: Option<char>, wait_ms: u64) {
        let digits_max = usize::from(digits_max).clamp(1, DIGITS_MAX);
        self.verifying.keys_are_the_models();
        let end = end.filter(|end| matches!(end, '*' | '#'));
        let wait_ms = wait_ms.max(WAIT_MS_MIN);
        self.collecting = Some(Collecting { since: now, digits: String::new(), digits_max, end, wait_ms, last_key: None });
        self.window_since = None;
    }

    /// The model wants no keys any more.
    pub(super) fn stop_collecting(&mut self) {
        self.collecting = None;
    }

    /// A key. Where none are collected it is a turn of its own: it cuts the voice and is answered.
    pub(super) fn digit(&mut self, cx: &mut Cx, digit: char) {
        if self.over.is_some() {
            return;
        }
        if self.key_of_pin(cx, digit) {
            return;
        }
        let Some(collecting) = self.collecting.as_mut() else {
            self.turn_began(cx);
            let turn = self.turn;
            self.speech_stopped_at = Some(cx.now);
            return self.request(cx, Cause::Digit { turn, digit });
        };
        let first = collecting.last_key.replace(cx.now).is_none();
        let ended = collecting.end == Some(digit);
        if !ended {
            collecting.digits.push(digit);
        }
        let complete = ended || collecting.digits.len() >= collecting.digits_max;
        if first {
            // The keys together are one turn: the first of them cuts what asks for them.
            self.turn_began(cx);
        }
        if complete {
            self.collected(cx, true);
        }
    }

    /// When whoever holds the floor outside loses it, whatever else happens.
    pub(super) fn floor_held_due(&self) -> Option<Time> {
        self.floor_held_since.map(|since| since.plus(self.ms(Timer::FloorMax)))
    }

    /// When the collecting of keys ends, whatever else happens.
    pub(super) fn collecting_due(&self) -> Option<Time> {
        let collecting = self.collecting.as_ref()?;
        let latest = collecting.since.plus(self.ms(Timer::FloorMax));
        // A pause counts from the end of what we say, and of what the caller says instead.
        let busy = self.current.is_some() || self.reply.is_some() || !self.acoustic.quiet() || self.on_hold();
        let paused = self.quiet_since().max(collecting.last_key.unwrap_or(collecting.since)).plus(collecting.wait_ms);
        Some(if busy { latest } else { paused.min(latest) })
    }

    pub(super) fn free_floor_in_time(&mut self, now: Time) {
        if self.floor_held_due().is_some_and(|due| due <= now) {
            self.floor_held_since = None;
        }
    }

    pub(super) fn end_collecting_in_time(&mut self, cx: &mut Cx) {
        if self.over.is_none() && self.collecting_due().is_some_and(|due| due <= cx.now) {
            self.collected(cx, false);
        }
    }

    /// The keys have come, or no more of them come. The model is asked what follows.
    fn collected(&mut self, cx: &mut Cx, complete: bool) {
        let Some(Collecting { digits, .. }) = self.collecting.take() else { return };
        if complete || self.acoustic.quiet() {
            if self.current.is_some() || self.reply.is_some() {
                self.turn_began(cx);
            }
            let turn = self.turn;
            self.speech_stopped_at = Some(cx.now);
            self.request(cx, Cause::Digits { turn, digits, complete });
        }
    }
}

/// Keys that can be collected at once: longer than an account number.
const DIGITS_MAX: usize = 32;

/// The shortest pause that may end the collecting (ms): nobody finds the next key sooner.
const WAIT_MS_MIN: u64 = 1_000;
