//! Whether a model still answers, by what a caller can hear of it. A conversation asks that, and so does whoever has another model stand by.

use crate::time::Time;

/// So much of a model's own speech, as far as it can be heard, is an answer (ms): less is a scrap of one, after which a caller still waits.
pub const ANSWER_MS_LEAST: u64 = 1_000;

/// From when on a model that gives a response may be silent.
#[derive(Debug, Clone, Copy)]
pub struct Life {
    since: Time,
    audible_ms: u64,
}

impl Life {
    /// Of a model that is asked at `now`.
    pub fn new(now: Time) -> Self {
        Self { since: now, audible_ms: 0 }
    }

    /// It has said or done something whole.
    pub fn heard_of(&mut self, now: Time) {
        self.since = now;
    }

    /// More of its own speech has come, of which so much can be heard: silence is what a caller hears of a model that says nothing. Where it begins to
    /// speak all of its time begins anew; from then on speech that comes more than `slower_max` times slower than it sounds does not make up
    /// for the time that it takes, for nobody can follow it.
    pub fn sounds(&mut self, now: Time, audible_ms: u64, slower_max: u64) {
        let began = self.audible_ms >= BEGINS_MS;
        self.audible_ms = self.audible_ms.saturating_add(audible_ms);
        let begins = !began && self.audible_ms >= BEGINS_MS;
        self.since = if begins { now } else { now.min(self.since.plus(audible_ms.saturating_mul(slower_max))) };
    }

    /// From when on it may be silent.
    pub fn since(&self) -> Time {
        self.since
    }

    /// Whether anything could be heard of its own speech.
    pub fn speaks(&self) -> bool {
        self.audible_ms > 0
    }

    /// Whether its own speech is an answer.
    pub fn answers(&self) -> bool {
        self.audible_ms >= ANSWER_MS_LEAST
    }
}

/// The first that a call says of a model's speech.
const BEGINS_MS: u64 = 100;
