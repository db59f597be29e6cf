//! A line of the log that anybody on the network can cause is written now and then, with a count of those left out.

use std::time::{Duration, Instant};

/// One kind of such lines.
#[derive(Debug, Default)]
pub struct Seldom {
    last: Option<Instant>,
    left_out: u64,
}

impl Seldom {
    /// Something happened. Says how many times before it was left out, if it is to be written now.
    pub fn happened(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < EVERY) {
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
    }
}
