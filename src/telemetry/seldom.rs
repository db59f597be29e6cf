//! A line of the log that anybody on the network can cause is written now and then, with a count of those left out.

use std::time::{Duration, Instant};

/// One kind of such lines.
#[derive(Debug, Default)]
pub struct Seldom {
    last: Option<Instant>,
    left_out: u64,
    all: u64,
    /// So many of the first are written in any case.
    freely: u64,
}

impl Seldom {
    /// The same, for lines of which the first few are written whenever they come.
    pub fn after(freely: u64) -> Self {
        Self { freely, ..Self::default() }
    }

    /// How many times it happened, all in all.
    pub fn all(&self) -> u64 {
        self.all
    }

    /// Something happened. Says how many times before it was left out, if it is to be written now.
    pub fn happened(&mut self, now: Instant) -> Option<u64> {
        self.all += 1;
        if self.all > self.freely && self.last.is_some_and(|last| now.saturating_duration_since(last) < EVERY) {
            self.left_out += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.left_out))
    }
}

/// Often enough to be seen while it lasts, and some thousand lines a day at most.
const EVERY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_one_line_and_a_count() {
        let (mut seldom, now) = (Seldom::default(), Instant::now());
        assert_eq!(seldom.happened(now), Some(0));
        assert!((0..1_000).all(|_| seldom.happened(now + EVERY / 2).is_none()));
        assert_eq!(seldom.happened(now + EVERY), Some(1_000));
        assert_eq!(seldom.happened(now + EVERY * 2), Some(0));
        assert_eq!(seldom.all(), 1_003);
    }

    #[test]
    fn the_first_few_are_written_whenever_they_come() {
        let (mut seldom, now) = (Seldom::after(3), Instant::now());
        assert!((0..3).all(|_| seldom.happened(now) == Some(0)));
        assert_eq!(seldom.happened(now), None);
        assert_eq!((seldom.happened(now + EVERY), seldom.all()), (Some(1), 5));
    }
}
