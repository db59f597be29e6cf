//! The media clock: monotonic nanoseconds, finer than the core's milliseconds because jitter is smaller than those.

use recado_core::time::Time;
pub(super) use recado_voice::{FRAME_MS, FRAME_SAMPLES};

/// A point on the monotonic clock in nanoseconds, with the same origin as [`Time`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nanos(pub u64);

impl Nanos {
    /// A point this many milliseconds after the origin.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms.saturating_mul(NANOS_PER_MS))
    }

    /// This point, `ms` milliseconds later.
    pub const fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms.saturating_mul(NANOS_PER_MS)))
    }

    /// Whole milliseconds from `earlier` to this point; zero when `earlier` is later.
    pub const fn ms_since(self, earlier: Nanos) -> u64 {
        self.0.saturating_sub(earlier.0) / NANOS_PER_MS
    }

    /// The same point as the core counts it.
    pub const fn time(self) -> Time {
        Time(self.0 / NANOS_PER_MS)
    }

    /// This point in RTP timestamp units of telephone audio (8 kHz).
    pub const fn samples(self) -> i64 {
        (self.0 / NANOS_PER_SAMPLE) as i64
    }
}

const NANOS_PER_MS: u64 = 1_000_000;
const NANOS_PER_SAMPLE: u64 = 125_000;
