//! Time as it is passed in: monotonic for decisions, wall clock only for ages of what outlives a boot.

use serde::{Deserialize, Serialize};

use crate::ids::FreshIds;

/// A point on the monotonic clock, in milliseconds since an origin that the runtime chose at start.
///
/// It never goes back and says nothing about the wall clock. It is not persisted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Time(pub u64);

impl Time {
    /// This point, `ms` milliseconds later.
    pub fn plus(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to this point; zero when `earlier` is later.
    pub fn since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The wall clock as the box knows it. Boxes have no battery-backed clock and boot in the past.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Wall {
    /// Milliseconds since the Unix epoch.
    pub unix_ms: i64,
    /// Whether the clock is known to be synchronised. An age is judged only between two synchronised readings.
    pub synchronised: bool,
}

impl Wall {
    /// Milliseconds from `earlier` to this reading, where both are known to be synchronised and in order.
    pub fn age_ms(self, earlier: Wall) -> Option<u64> {
        if self.synchronised && earlier.synchronised { u64::try_from(self.unix_ms.checked_sub(earlier.unix_ms)?).ok() } else { None }
    }
}

/// What comes with every input: the time it is handled at, and identifiers nobody has used before.
#[derive(Debug, Clone)]
pub struct Step {
    /// Monotonic time.
    pub now: Time,
    /// Wall clock.
    pub wall: Wall,
    /// Fresh identifiers for whatever this input creates.
    pub ids: FreshIds,
}

impl Step {
    /// A step at `now` whose identifiers grow from `seed`, which the runtime draws from a secure source.
    pub fn new(now: Time, wall: Wall, seed: u128) -> Self {
        Self { now, wall, ids: FreshIds::new(seed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_needs_two_synchronised_readings_in_order() {
        let at = |unix_ms, synchronised| Wall { unix_ms, synchronised };
        assert_eq!(at(5_000, true).age_ms(at(2_000, true)), Some(3_000));
        assert_eq!(at(5_000, false).age_ms(at(2_000, true)), None);
        assert_eq!(at(5_000, true).age_ms(at(2_000, false)), None);
        assert_eq!(at(2_000, true).age_ms(at(5_000, true)), None);
    }
}
