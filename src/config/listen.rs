//! `[listen]`.

use serde::Deserialize;

use super::check::Checker;
use super::tree::Path;
use crate::surface::listen::{Profile, ProfileError};

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
    /// The profile's numbers, with those overridden that are given.
    pub fn profile(&self) -> Profile {
        let profile = match self.profile {
            ProfileName::Responsive => Profile::responsive(),
            ProfileName::Balanced => Profile::balanced(),
            ProfileName::Patient => Profile::patient(),
        };
        let or = |given: Option<u64>, default: u32| given.map_or(default, |given| u32::try_from(given).unwrap_or(u32::MAX));
        Profile {
            suspect_voiced_ms: or(self.suspect_voiced_ms, profile.suspect_voiced_ms),
            confirm_voiced_ms: or(self.confirm_voiced_ms, profile.confirm_voiced_ms),
            confirm_window_ms: or(self.confirm_window_ms, profile.confirm_window_ms),
            retract_ms: or(self.retract_ms, profile.retract_ms),
            end_silence_ms: or(self.end_silence_ms, profile.end_silence_ms),
            ..profile
        }
    }

    pub(super) fn check(&self, checker: &mut Checker<'_>) {
        let at = |key| Path::of("listen").join(key);
        let (confirm, window) = (self.profile().confirm_voiced_ms.into(), self.profile().confirm_window_ms.into());
        for (key, value, range, fits) in [
            ("suspect_voiced_ms", self.suspect_voiced_ms, 10..=VOICED_MS_MAX, confirm),
            ("confirm_voiced_ms", self.confirm_voiced_ms, CONFIRM_MS_LEAST..=VOICED_MS_MAX, window),
            ("confirm_window_ms", self.confirm_window_ms, CONFIRM_MS_LEAST..=CONFIRM_WINDOW_MS_MAX, u64::MAX),
            ("retract_ms", self.retract_ms, 200..=RETRACT_MS_MAX, u64::MAX),
            ("end_silence_ms", self.end_silence_ms, 100..=5_000, u64::MAX),
        ] {
            if let Some(value) = value {
                checker.within_and_fit(&at(key), value, range, fits);
            }
        }
        let mut contradicts = false;
        if let (Some(voiced), Some(window)) = (self.confirm_voiced_ms, self.confirm_window_ms)
            && voiced > window
        {
            contradicts = true;
            let what = format!("{voiced} ms of voice never fit into confirm_window_ms = {window}");
            let half = window.clamp(CONFIRM_MS_LEAST, CONFIRM_WINDOW_MS_MAX) / 2;
            checker.error(&at("confirm_voiced_ms"), what, format!("confirm_voiced_ms = {}", half.max(CONFIRM_MS_LEAST)));
        }
        if let (Some(suspect), Some(confirm)) = (self.suspect_voiced_ms, self.confirm_voiced_ms)
            && suspect > confirm
        {
            let what = format!("speech would be confirmed (at {confirm} ms) before it is suspected");
            let confirm = confirm.clamp(CONFIRM_MS_LEAST, VOICED_MS_MAX);
            checker.error(&at("suspect_voiced_ms"), what, format!("suspect_voiced_ms = {confirm}"));
        }
        // What is given may still not fit the profile's other numbers.
        if let (false, Err(error @ ProfileError::Contradiction { .. })) = (contradicts, self.profile().check()) {
            checker.error(&Path::of("listen"), error.to_string(), "both of them, or another profile");
        }
    }
}

/// One frame of the network that confirms.
const CONFIRM_MS_LEAST: u64 = 16;
/// Half a second of voice: nobody who interrupts waits longer.
const VOICED_MS_MAX: u64 = 500;
/// What the listener remembers.
const CONFIRM_WINDOW_MS_MAX: u64 = 496;
/// The contract's: a false start is retracted after a second at the latest.
const RETRACT_MS_MAX: u64 = 1_000;
