//! `[store]`.

use std::time::Duration;

use serde::Deserialize;

use super::check::Checker;
use super::tree::Path;

/// How the store keeps itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Store {
    /// Backups that are kept beside it, one a day and one before a change of its schema; 0 makes none.
    pub backups: u32,
    /// Days that what is over is kept; 0 keeps it for ever.
    pub keep_days: u32,
}

impl Default for Store {
    fn default() -> Self {
        Self { backups: 3, keep_days: 30 }
    }
}

impl Store {
    /// How long what is over is kept; for ever where there is none.
    pub fn keep(&self) -> Option<Duration> {
        (self.keep_days > 0).then(|| Duration::from_secs(u64::from(self.keep_days) * 86_400))
    }

    pub(super) fn check(&self, checker: &mut Checker<'_>) {
        let table = Path::of("store");
        checker.within(&table.join("backups"), self.backups.into(), 0..=BACKUPS_MAX);
        checker.within(&table.join("keep_days"), self.keep_days.into(), 0..=KEEP_DAYS_MAX);
    }
}

/// Each is as large as the store.
const BACKUPS_MAX: u64 = 30;

/// Ten years.
const KEEP_DAYS_MAX: u64 = 3_650;
