//! A PIN and its hash: Argon2id, as a PHC string. A PIN has few digits, so whoever has the file can guess them all: the hash
//! only makes that dear, and the file is the box's alone.

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

/// Why a PIN can't be one, or has no hash. None of them repeats it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HashError {
    /// It is no PIN: write digits, and as many as that.
    #[error("a PIN has {least} to {most} digits and nothing else")]
    NotDigits {
        /// The fewest.
        least: u8,
        /// The most.
        most: u8,
    },
    /// It is among the first that anybody tries: take another.
    #[error("this PIN is among the first that anybody would try (one digit repeated, or digits in a row): take another")]
    Guessed,
    /// The system refuses what hashing needs.
    #[error("the PIN could not be hashed: {0}")]
    System(String),
}

/// What a PIN may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PinRules {
    /// The fewest digits.
    pub digits_min: u8,
    /// The most.
    pub digits_max: u8,
}

impl PinRules {
    /// Whether `pin` may be set.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self, pin: &str) -> Result<(), HashError> {
        let digits = pin.as_bytes();
        let count = usize::from(self.digits_min)..=usize::from(self.digits_max);
        if !count.contains(&digits.len()) || !digits.iter().all(u8::is_ascii_digit) {
            return Err(HashError::NotDigits { least: self.digits_min, most: self.digits_max });
        }
        let steps: Vec<i16> = digits.windows(2).filter_map(|pair| Some(i16::from(*pair.get(1)?) - i16::from(*pair.first()?))).collect();
        let same = |step: i16| steps.iter().all(|found| *found == step);
        if same(0) || same(1) || same(-1) { Err(HashError::Guessed) } else { Ok(()) }
    }
}

/// The hash of a PIN, under a salt of its own. It takes a while: never on a thread that others wait for.
///
/// # Errors
/// The system gives no randomness or no memory.
pub fn hash(pin: &str) -> Result<String, HashError> {
    let hasher = Argon2::new(Algorithm::Argon2id, Version::V0x13, params()?);
    let hash: PasswordHash = hasher.hash_password(pin.as_bytes()).map_err(|error| HashError::System(error.to_string()))?;
    Ok(hash.to_string())
}

/// Whether `keys` are the PIN of this hash. Where there is none, as much is computed, and it never is. It takes a while.
pub(super) fn is_pin(keys: &str, hash: Option<&str>) -> bool {
    let known = hash.and_then(|hash| PasswordHash::new(hash).ok());
    let has_one = known.is_some();
    let Some(hash) = known.or_else(nobodys) else { return false };
    // The outputs are compared in constant time.
    let same = Argon2::default().verify_password(keys.as_bytes(), &hash).is_ok();
    same && has_one
}

/// Whether a text is a hash that the box may compare with: an unbounded one would take its memory, or its time, in a call.
pub(super) fn is_usable(text: &str) -> bool {
    let Ok(hash) = PasswordHash::new(text) else { return false };
    let Ok(params) = Params::try_from(&hash) else { return false };
    let whole = hash.salt.is_some() && hash.hash.as_ref().is_some_and(|output| output.as_bytes().len() >= OUTPUT_BYTES_LEAST);
    whole
        && hash.algorithm.as_str() == "argon2id"
        && (MEMORY_KIB_LEAST..=MEMORY_KIB_MOST).contains(&params.m_cost())
        && (1..=PASSES_MOST).contains(&params.t_cost())
        && (1..=LANES_MOST).contains(&params.p_cost())
}

/// The hash of no PIN: its output is random, and costs as much to compare with as another's.
fn nobodys() -> Option<PasswordHash> {
    let mut bytes = [0_u8; 48];
    getrandom::fill(&mut bytes).ok()?;
    let (salt, output) = bytes.split_at(16);
    let (salt, output) = (STANDARD_NO_PAD.encode(salt), STANDARD_NO_PAD.encode(output));
    PasswordHash::new(&format!("$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p={LANES}${salt}${output}")).ok()
}

fn params() -> Result<Params, HashError> {
    Params::new(MEMORY_KIB, PASSES, LANES, None).map_err(|error| HashError::System(error.to_string()))
}

/// OWASP's smallest recommendation for Argon2id: well below 300 ms on a Raspberry Pi.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const LANES: u32 = 1;

/// Bounds for what somebody else has hashed.
const MEMORY_KIB_LEAST: u32 = 1024;
const MEMORY_KIB_MOST: u32 = 64 * 1024;
const PASSES_MOST: u32 = 10;
const LANES_MOST: u32 = 4;
const OUTPUT_BYTES_LEAST: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_is_told_from_any_other_and_its_hash_says_nothing_of_it() {
        let hash_of_it = hash("4715").unwrap();
        assert!(is_usable(&hash_of_it) && !hash_of_it.contains("4715"));
        assert_ne!(hash_of_it, hash("4715").unwrap(), "each has a salt of its own");
        assert!(is_pin("4715", Some(&hash_of_it)));
        for other in ["4716", "47150", "471", ""] {
            assert!(!is_pin(other, Some(&hash_of_it)), "{other}");
        }
        assert!(!is_pin("4715", None));
    }

    #[test]
    fn what_is_compared_with_for_nobody_costs_what_a_hash_of_ours_does() {
        let (nobodys, ours) = (nobodys().unwrap(), hash("4715").unwrap());
        assert!(is_usable(&nobodys.to_string()));
        let costs = |hash: &PasswordHash| Params::try_from(hash).map(|params| (params.m_cost(), params.t_cost(), params.p_cost())).unwrap();
        assert_eq!(costs(&nobodys), costs(&PasswordHash::new(&ours).unwrap()));
    }

    #[test]
    fn what_anybody_would_try_first_is_no_pin() {
        let rules = PinRules { digits_min: 4, digits_max: 6 };
        for guessed in ["0000", "1234", "987654"] {
            assert_eq!(rules.check(guessed), Err(HashError::Guessed), "{guessed}");
        }
        for wrong in ["123", "1234567", "12a4", "12 4", ""] {
            assert_eq!(rules.check(wrong), Err(HashError::NotDigits { least: 4, most: 6 }), "{wrong}");
        }
        assert_eq!(rules.check("4715"), Ok(()));
    }

    #[test]
    fn a_hash_that_would_take_the_boxs_memory_or_time_is_not_used() {
        let with = |costs: &str| format!("$argon2id$v=19${costs}$c2FsdHNhbHRzYWx0$MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE");
        assert!(is_usable(&with("m=19456,t=2,p=1")));
        for costs in ["m=4194304,t=2,p=1", "m=19456,t=4000,p=1", "m=8,t=1,p=1", "m=65536,t=2,p=200"] {
            assert!(!is_usable(&with(costs)), "{costs}");
        }
        assert!(!is_usable("4715") && !is_usable("$2b$12$abcdefghijklmnopqrstuu"));
    }
}
