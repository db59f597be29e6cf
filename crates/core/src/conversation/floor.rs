//! The floor held for something else: consent, another's announcement, keys that the model wants collected. No delivery is
//! told meanwhile.

use super::effect::Cause;
use super::{Conversation, Cx};
use crate::faults::{Fault, fault};
use crate::time::Time;
use crate::timers::Timer;

/// Why the floor is held, and since when.
#[derive(Debug, Clone)]
pub(super) struct Floor {
    since: Time,
    collecting: Option<Collecting>,
}

/// Keys that are being collected. They may be a PIN: they are handed to the model and forgotten.
#[derive(Clone)]
struct Collecting {
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
    /// The floor is held for something outside, or free again.
    pub(super) fn hold_floor(&mut self, now: Time, held: bool) {
        match (held, &self.floor) {
            (true, None) => self.floor = Some(Floor { since: now, collecting: None }),
            (false, Some(floor)) if floor.collecting.is_none() && !fault(Fault::FloorLatched) => self.floor = None,
            _ => {}
        }
        self.window_since = None;
    }

    /// Begins to collect keys.
    pub(super) fn collect_digits(&mut self, now: Time, digits_max: u8, end: Option<char>, wait_ms: u64) {
        let digits_max = usize::from(digits_max).clamp(1, DIGITS_MAX);
        let end = end.filter(|end| matches!(end, '*' | '#'));
        let collecting = Collecting { digits: String::new(), digits_max, end, wait_ms: wait_ms.max(WAIT_MS_MIN), last_key: None };
        self.floor = Some(Floor { since: now, collecting: Some(collecting) });
        self.window_since = None;
    }

    /// The model wants no keys any more.
    pub(super) fn stop_collecting(&mut self) {
        self.floor = self.floor.take().filter(|floor| floor.collecting.is_none());
    }

    /// A key. Where none are collected it is a turn of its own: it cuts the voice and is answered.
    pub(super) fn digit(&mut self, cx: &mut Cx, digit: char) {
        if self.over.is_some() {
            return;
        }
        let Some(collecting) = self.floor.as_mut().and_then(|floor| floor.collecting.as_mut()) else {
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

    /// When the floor is free again, whatever else happens.
    pub(super) fn floor_due(&self) -> Option<Time> {
        let floor = self.floor.as_ref()?;
        let latest = floor.since.plus(self.ms(Timer::FloorMax));
        let Some(collecting) = &floor.collecting else { return Some(latest) };
        // A pause counts from the end of what we say, and of what the caller says instead.
        let busy = self.current.is_some() || self.reply.is_some() || !self.acoustic.quiet() || self.on_hold;
        let paused = self.quiet_since().max(collecting.last_key.unwrap_or(floor.since)).plus(collecting.wait_ms);
        Some(if busy { latest } else { paused.min(latest) })
    }

    pub(super) fn free_floor_in_time(&mut self, cx: &mut Cx) {
        if self.floor_due().is_none_or(|due| due > cx.now) {
            return;
        }
        if self.floor.as_ref().is_some_and(|floor| floor.collecting.is_some()) && self.over.is_none() {
            self.collected(cx, false);
        } else {
            self.floor = None;
        }
    }

    /// The keys have come, or no more of them come. The model is asked what follows.
    fn collected(&mut self, cx: &mut Cx, complete: bool) {
        let Some(Collecting { digits, .. }) = self.floor.take().and_then(|floor| floor.collecting) else { return };
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
