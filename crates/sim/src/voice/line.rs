//! The network between the box and the far end. What becomes of each packet is drawn from its number and the line's seed, so
//! that it is the same whenever it is asked.

use recado_voice::FRAME_MS;
use serde::{Deserialize, Serialize};

/// How a line treats packets. By default it is ideal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// What its accidents are drawn from.
    pub seed: u64,
    /// How long every packet takes, either way (ms).
    pub delay_ms: u64,
    /// How much longer some take (ms): up to this, evenly.
    pub jitter_ms: u64,
    /// Of a thousand packets, so many are lost.
    pub lost: u32,
    /// Of a thousand packets, so many come twice.
    pub repeated: u32,
    /// Of a thousand packets, so many are overtaken by the next one or two.
    pub overtaken: u32,
    /// Of a thousand reports, so many are lost.
    pub reports_lost: u32,
    /// How long the far end's jitter buffer holds what comes (ms).
    pub buffer_ms: u64,
}

/// What becomes of a packet: when it arrives, if it does, and whether a copy of it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fate {
    pub(super) arrives: Option<u64>,
    pub(super) repeated: bool,
}

impl Line {
    /// The longest that a packet that is not lost takes from the box to the ear, and word of it back (ms).
    pub fn round_trip_ms(&self) -> u64 {
        let overtaken_ms = if self.overtaken > 0 { OVERTAKEN_MS } else { 0 };
        2 * self.delay_ms + self.jitter_ms + overtaken_ms + self.buffer_ms
    }

    /// From now on nothing is lost, repeated or overtaken; delays stay.
    pub fn heal(&mut self) {
        (self.lost, self.repeated, self.overtaken, self.reports_lost) = (0, 0, 0, 0);
    }

    /// Whether every packet takes as long as the other.
    pub(super) fn is_even(&self) -> bool {
        self.jitter_ms == 0 && self.lost == 0 && self.repeated == 0 && self.overtaken == 0
    }

    /// What becomes of a packet of ours that leaves at `now`.
    pub(super) fn fate(&self, packet: u64, now: u64) -> Fate {
        if self.is_even() {
            return Fate { arrives: Some(now + self.delay_ms), repeated: false };
        }
        let draw = mix(self.seed ^ packet);
        let permille = |shift: u32| ((draw >> shift) & 0x3FF) as u32 * 1_000 / 1_024;
        let jitter_ms = (draw >> 40) % (self.jitter_ms + 1);
        let overtaken_ms = if permille(20) < self.overtaken { OVERTAKEN_MS } else { 0 };
        let arrives = (permille(0) >= self.lost).then_some(now + self.delay_ms + jitter_ms + overtaken_ms);
        Fate { arrives, repeated: permille(10) < self.repeated }
    }

    /// Whether a far end that hangs up at `now` reports a last time.
    pub(super) fn says_goodbye(&self, now: u64) -> bool {
        mix(self.seed ^ now ^ GOODBYE) & 1 == 1
    }

    /// When a report that the far end sends at `now` arrives, if it does.
    pub(super) fn report(&self, now: u64) -> Option<u64> {
        let draw = mix(self.seed ^ now ^ REPORTS) % 1_000;
        (draw >= u64::from(self.reports_lost)).then_some(now + self.delay_ms)
    }
}

/// SplitMix64's output function.
pub(super) fn mix(of: u64) -> u64 {
    let mut z = of.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

const OVERTAKEN_MS: u64 = FRAME_MS + FRAME_MS / 2;
/// Tells the accidents of reports from those of packets.
const REPORTS: u64 = 1 << 63;
const GOODBYE: u64 = 1 << 62;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ideal_line_is_as_if_it_were_not_there() {
        let line = Line::default();
        assert_eq!(line.fate(7, 40), Fate { arrives: Some(40), repeated: false });
        assert_eq!(line.report(90), Some(90));
    }

    #[test]
    fn accidents_are_as_frequent_as_they_should_be_and_the_same_every_time() {
        let line = Line { seed: 3, delay_ms: 10, jitter_ms: 20, lost: 100, repeated: 50, overtaken: 30, ..Line::default() };
        let fates: Vec<Fate> = (0..10_000).map(|packet| line.fate(packet, 0)).collect();
        let count = |which: fn(&Fate) -> bool| fates.iter().filter(|fate| which(fate)).count();
        assert!((800..1_200).contains(&count(|fate| fate.arrives.is_none())));
        assert!((400..600).contains(&count(|fate| fate.repeated)));
        assert!((200..400).contains(&count(|fate| fate.arrives.is_some_and(|at| at > 30))));
        assert!(fates.iter().all(|fate| fate.arrives.is_none_or(|at| (10..=60).contains(&at))));
        assert_eq!(fates[17], line.fate(17, 0));
    }
}
