//! How patient the box listens: named numbers, three sets of them.

use serde::{Deserialize, Serialize};

/// The numbers of the caller's acoustic clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Profile {
    /// Voiced sound in a row after which speech is suspected and the voice pauses (ms).
    pub suspect_voiced_ms: u32,
    /// Score of the confirming network from which a hop counts as speech, 0 to 1.
    pub confirm_score: f32,
    /// Speech within [`Self::confirm_window_ms`] that confirms a suspicion (ms).
    pub confirm_voiced_ms: u32,
    /// The window in which confirming speech is counted (ms), at most 500.
    pub confirm_window_ms: u32,
    /// Silence after which a suspicion is retracted before its time (ms).
    pub retract_silence_ms: u32,
    /// Time after which an unconfirmed suspicion is retracted in any case (ms), at most 1,000 as the contract has it.
    pub retract_ms: u32,
    /// A pause of this length inside speech is `Trailing` (ms).
    pub trail_ms: u32,
    /// Speech that takes `Trailing` back to `Speaking` (ms).
    pub resume_voiced_ms: u32,
    /// Silence that ends a turn (ms), counted from the last speech.
    pub end_silence_ms: u32,
}

/// Why a profile is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// A number is out of its range: choose one inside of it.
    #[error("`{name}` must be between {min} and {max}")]
    OutOfRange {
        /// The setting.
        name: &'static str,
        /// Its least value.
        min: u32,
        /// Its greatest value.
        max: u32,
    },
    /// Two numbers contradict each other: raise the second or lower the first.
    #[error("`{lesser}` must not be greater than `{greater}`")]
    Contradiction {
        /// The setting that must not be greater.
        lesser: &'static str,
        /// The setting that bounds it.
        greater: &'static str,
    },
}

impl Profile {
    /// Stops at once and answers early. For callers who talk to the box as to a colleague, on good lines.
    pub fn responsive() -> Self {
        Self { suspect_voiced_ms: 40, confirm_voiced_ms: 112, confirm_window_ms: 240, end_silence_ms: 500, ..Self::balanced() }
    }

    /// The default.
    pub fn balanced() -> Self {
        Self {
            suspect_voiced_ms: 60,
            confirm_score: 0.6,
            confirm_voiced_ms: 128,
            confirm_window_ms: 256,
            retract_silence_ms: 240,
            retract_ms: 1_000,
            trail_ms: 160,
            resume_voiced_ms: 48,
            end_silence_ms: 700,
        }
    }

    /// Waits for callers who think while they speak, and puts up with noisy rooms.
    pub fn patient() -> Self {
        Self { suspect_voiced_ms: 100, confirm_voiced_ms: 192, confirm_window_ms: 320, end_silence_ms: 1_200, ..Self::balanced() }
    }

    /// Checks that the numbers can work together.
    pub fn check(&self) -> Result<(), ProfileError> {
        let range = |name, value: u32, min, max| {
            if (min..=max).contains(&value) { Ok(()) } else { Err(ProfileError::OutOfRange { name, min, max }) }
        };
        range("suspect_voiced_ms", self.suspect_voiced_ms, 10, 500)?;
        range("confirm_voiced_ms", self.confirm_voiced_ms, 16, 500)?;
        range("confirm_window_ms", self.confirm_window_ms, 16, WINDOW_MS_MAX)?;
        range("retract_silence_ms", self.retract_silence_ms, 40, 1_000)?;
        range("retract_ms", self.retract_ms, 200, 1_000)?;
        range("trail_ms", self.trail_ms, 40, 1_000)?;
        range("resume_voiced_ms", self.resume_voiced_ms, 16, 500)?;
        range("end_silence_ms", self.end_silence_ms, 100, 5_000)?;
        if !(0.0..=1.0).contains(&self.confirm_score) {
            return Err(ProfileError::OutOfRange { name: "confirm_score", min: 0, max: 1 });
        }
        let order = |lesser, a: u32, greater, b: u32| if a <= b { Ok(()) } else { Err(ProfileError::Contradiction { lesser, greater }) };
        order("confirm_voiced_ms", self.confirm_voiced_ms, "confirm_window_ms", self.confirm_window_ms)?;
        order("resume_voiced_ms", self.resume_voiced_ms, "confirm_window_ms", self.confirm_window_ms)?;
        order("trail_ms", self.trail_ms, "end_silence_ms", self.end_silence_ms)
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self::balanced()
    }
}

/// 31 hops of 16 ms: the window is kept in the bits of one word.
const WINDOW_MS_MAX: u32 = 496;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_profiles_are_valid_and_differ_in_patience() {
        for profile in [Profile::responsive(), Profile::balanced(), Profile::patient()] {
            assert_eq!(profile.check(), Ok(()));
        }
        assert!(Profile::responsive().end_silence_ms < Profile::balanced().end_silence_ms);
        assert!(Profile::balanced().end_silence_ms < Profile::patient().end_silence_ms);
    }

    #[test]
    fn numbers_that_cannot_work_are_refused_by_name() {
        let late = Profile { retract_ms: 1_500, ..Profile::balanced() };
        assert_eq!(late.check(), Err(ProfileError::OutOfRange { name: "retract_ms", min: 200, max: 1_000 }));
        let never = Profile { confirm_voiced_ms: 300, ..Profile::balanced() };
        assert_eq!(never.check(), Err(ProfileError::Contradiction { lesser: "confirm_voiced_ms", greater: "confirm_window_ms" }));
        assert!(Profile { confirm_score: f32::NAN, ..Profile::balanced() }.check().is_err());
    }

    #[test]
    fn an_unknown_setting_is_an_error_and_a_missing_one_has_its_default() {
        let profile: Profile = toml::from_str("end_silence_ms = 900").unwrap();
        assert_eq!(profile, Profile { end_silence_ms: 900, ..Profile::balanced() });
        assert!(toml::from_str::<Profile>("end_silence = 900").is_err());
    }
}
