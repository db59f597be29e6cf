//! `[listen]`.

use serde::Deserialize;

use super::check::Checker;
use super::tree::Path;

/// When the caller is taken to speak, and to have finished: a profile, and numbers of its that are overridden.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Listen {
    /// The profile that numbers come from which are not given.
    pub profile: ProfileName,
    /// Voiced time after which speech is suspected and our voice pauses (ms).
    pub suspect_voiced_ms: Option<u64>,
    /// Voiced time within the window that confirms speech (ms).
    pub confirm_voiced_ms: Option<u64>,
    /// The window (ms).
    pub confirm_window_ms: Option<u64>,
    /// Time after which a suspicion without confirmation is retracted (ms).
    pub retract_ms: Option<u64>,
    /// Silence that ends the caller's turn (ms).
    pub end_silence_ms: Option<u64>,
}

/// The profiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProfileName {
    /// Yields and answers early.
    Responsive,
    /// In between.
    #[default]
    Balanced,
    /// Waits for people who pause.
    Patient,
}

impl ProfileName {
    /// The word that stands in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Responsive => "responsive",
            Self::Balanced => "balanced",
            Self::Patient => "patient",
        }
    }
}

impl Listen {
    pub(super) fn check(&self, checker: &mut Checker<'_>) {
        let at = |key| Path::of("listen").join(key);
        for (key, value, least, most) in [
            ("suspect_voiced_ms", self.suspect_voiced_ms, 10, 500),
            ("confirm_voiced_ms", self.confirm_voiced_ms, 20, 2_000),
            ("confirm_window_ms", self.confirm_window_ms, 20, 2_000),
            ("retract_ms", self.retract_ms, 100, RETRACT_MS_MAX),
            ("end_silence_ms", self.end_silence_ms, 100, 5_000),
        ] {
            if let Some(value) = value {
                checker.within(&at(key), value, least..=most);
            }
        }
        if let (Some(voiced), Some(window)) = (self.confirm_voiced_ms, self.confirm_window_ms)
            && voiced > window
        {
            let what = format!("{voiced} ms of voice never fit into confirm_window_ms = {window}");
            checker.error(&at("confirm_voiced_ms"), what, format!("confirm_voiced_ms = {}", window / 2));
        }
        if let (Some(suspect), Some(confirm)) = (self.suspect_voiced_ms, self.confirm_voiced_ms)
            && suspect > confirm
        {
            let what = format!("speech would be confirmed (at {confirm} ms) before it is suspected");
            checker.error(&at("suspect_voiced_ms"), what, format!("suspect_voiced_ms = {confirm}"));
        }
    }
}

/// The contract's: a false start is retracted after a second at the latest.
const RETRACT_MS_MAX: u64 = 1_000;
