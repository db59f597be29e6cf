//! The one place where clocks are read and randomness is drawn.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use recado_core::time::{Step, Time, Wall};

/// The process's clock: monotonic since it was made.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    pub(super) origin: Instant,
}

impl Clock {
    /// A clock that begins now.
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// The present on the monotonic clock.
    pub fn now(&self) -> Time {
        self.at(Instant::now())
    }

    /// A moment on the monotonic clock.
    pub fn at(&self, instant: Instant) -> Time {
        Time(u64::try_from(instant.saturating_duration_since(self.origin).as_millis()).unwrap_or(u64::MAX))
    }

    /// When a time of this clock is.
    pub fn instant(&self, time: Time) -> Instant {
        // A time further away than the platform can say is as good as never: a day.
        self.origin.checked_add(std::time::Duration::from_millis(time.0)).unwrap_or_else(|| Instant::now() + FAR)
    }

    /// The origin of [`Time`] on this clock.
    pub fn origin(&self) -> Instant {
        self.origin
    }

    /// What comes with an input now.
    pub fn step(&self) -> Step {
        Step::new(self.now(), wall(), random())
    }
}

/// The wall clock, and whether the kernel holds it to be synchronised.
pub fn wall() -> Wall {
    let unix_ms = match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
    };
    Wall { unix_ms, synchronised: synchronised() }
}

/// A number that nobody can guess. Identifiers grow from it.
pub fn random() -> u128 {
    let mut bytes = [0; 16];
    // Without randomness no identifier is safe to use: better not to run. Linux gives it from early boot on.
    getrandom::fill(&mut bytes).expect("the kernel has a source of randomness");
    u128::from_ne_bytes(bytes)
}

#[allow(unsafe_code)]
fn synchronised() -> bool {
    // SAFETY: `timex` is plain data for which zeroes are valid; with `modes` 0 the call only reads the clock's state into it.
    let (state, clock) = unsafe {
        let mut clock: libc::timex = std::mem::zeroed();
        (libc::adjtimex(&mut clock), clock)
    };
    state >= 0 && state != libc::TIME_ERROR && clock.status & libc::STA_UNSYNC == 0
}

const FAR: std::time::Duration = std::time::Duration::from_secs(86_400);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_the_instant_that_it_came_from() {
        let clock = Clock::start();
        let later = clock.origin() + std::time::Duration::from_millis(1_234);
        assert_eq!(clock.at(later), Time(1_234));
        assert_eq!(clock.instant(Time(1_234)), later);
    }
}
