//! `[gate]`.

use serde::Deserialize;

use super::check::Checker;
use super::tree::Path;

/// When a result may be told.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Gate {
    /// Quiet that an announcement waits for (ms), counted from the end of whatever was last heard.
    pub min_quiet_ms: u64,
}

impl Default for Gate {
    fn default() -> Self {
        Self { min_quiet_ms: 650 }
    }
}

impl Gate {
    pub(super) fn check(&self, checker: &mut Checker<'_>) {
        checker.within(&Path::of("gate").join("min_quiet_ms"), self.min_quiet_ms, MIN_QUIET_MS);
    }
}

/// Less is within a word; with more, a conversation has no window at all (ms).
pub(super) const MIN_QUIET_MS: std::ops::RangeInclusive<u64> = 100..=10_000;
