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
    /// Wait after which a result may also ride on the next response (ms).
    pub max_wait_ms: u64,
}

impl Default for Gate {
    fn default() -> Self {
        Self { min_quiet_ms: 650, max_wait_ms: 8_000 }
    }
}

impl Gate {
    pub(super) fn check(&self, checker: &mut Checker<'_>) {
        let at = |key| Path::of("gate").join(key);
        checker.within(&at("min_quiet_ms"), self.min_quiet_ms, 100..=MIN_QUIET_MS_MAX);
        checker.within(&at("max_wait_ms"), self.max_wait_ms, 0..=MAX_WAIT_MS_MAX);
    }
}

/// With more, a conversation has no window at all.
const MIN_QUIET_MS_MAX: u64 = 10_000;
/// Ten minutes: with more, the ride would never be a route.
const MAX_WAIT_MS_MAX: u64 = 600_000;
