//! The one table of timers: each with its meaning, its default and what ends it. All in milliseconds.

/// How long after the end of a call its evidence is waited for.
pub const EVIDENCE_AFTER_END: u64 = 1_000;
