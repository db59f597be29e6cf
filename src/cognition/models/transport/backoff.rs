//! How long is waited between two tries.

use std::time::Duration;

/// Waits that double, up to a longest one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Backoff {
    tries: u32,
}

impl Backoff {
    /// How long to wait before the next try, and no less than the service asked for, as long as that is bearable.
    pub fn next(&mut self, asked: Option<Duration>) -> Duration {
        let doubled = FIRST.saturating_mul(1 << self.tries.min(DOUBLINGS_MAX));
        self.tries = self.tries.saturating_add(1);
        doubled.max(asked.unwrap_or_default().min(ASKED_MAX))
    }

    /// A try has come to something.
    pub fn reset(&mut self) {
        self.tries = 0;
    }
}

/// A service that restarts is back after that.
const FIRST: Duration = Duration::from_millis(500);
/// Up to 8 s: a caller may still be there.
const DOUBLINGS_MAX: u32 = 4;
/// A service that asks for more has no place for this call.
const ASKED_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_eight_seconds_and_begin_anew_after_a_try_that_came_to_something() {
        let mut backoff = Backoff::default();
        let waits: Vec<u128> = (0..7).map(|_| backoff.next(None).as_millis()).collect();
        assert_eq!(waits, [500, 1_000, 2_000, 4_000, 8_000, 8_000, 8_000]);
        backoff.reset();
        assert_eq!(backoff.next(Some(Duration::from_secs(20))), Duration::from_secs(20));
        assert_eq!(backoff.next(Some(Duration::from_secs(3_600))), Duration::from_secs(60));
    }
}
