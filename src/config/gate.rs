//! `[gate]`.

use recado_core::policy::Language;
use recado_core::timers::{Timer, Timers};
use serde::Deserialize;

use super::check::Checker;
use super::tree::Path;

/// When a result may be told.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Gate {
    /// Quiet that an announcement waits for (ms), counted from the end of whatever was last heard.
    pub min_quiet_ms: u64,
    /// The same for calls in Spanish, where it is another (ms).
    pub min_quiet_ms_es: Option<u64>,
    /// The same for calls in English, where it is another (ms).
    pub min_quiet_ms_en: Option<u64>,
    /// Quiet that news of progress waits for (ms).
    pub progress_min_quiet_ms: u64,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            min_quiet_ms: Timer::MinQuiet.default_ms(),
            min_quiet_ms_es: None,
            min_quiet_ms_en: None,
            progress_min_quiet_ms: Timer::MinQuietProgress.default_ms(),
        }
    }
}

impl Gate {
    /// The timers of a call in this language.
    pub fn timers(&self, language: Language) -> Timers {
        let of_language = match language {
            Language::Es => self.min_quiet_ms_es,
            Language::En => self.min_quiet_ms_en,
        };
        Timers::default()
            .with(Timer::MinQuiet, of_language.unwrap_or(self.min_quiet_ms))
            .with(Timer::MinQuietProgress, self.progress_min_quiet_ms)
    }

    pub(super) fn check(&self, checker: &mut Checker<'_>) {
        let quiet = [
            ("min_quiet_ms", Some(self.min_quiet_ms)),
            ("min_quiet_ms_es", self.min_quiet_ms_es),
            ("min_quiet_ms_en", self.min_quiet_ms_en),
            ("progress_min_quiet_ms", Some(self.progress_min_quiet_ms)),
        ];
        for (name, ms) in quiet {
            if let Some(ms) = ms {
                checker.within(&Path::of("gate").join(name), ms, MIN_QUIET_MS);
            }
        }
    }
}

/// Less is within a word; with more, a conversation has no window at all (ms).
pub(super) const MIN_QUIET_MS: std::ops::RangeInclusive<u64> = 100..=10_000;
