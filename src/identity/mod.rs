//! Who is on the line: the PINs of parties, and whether what somebody keyed in is one.
//!
//! No PIN stays here longer than its comparison takes, and none is written, logged or told; hashes are in one file, which
//! `recado pin` writes. How often somebody has failed is the store's business (`coordination`), so that neither a restart nor
//! a second call gives more guesses. Nothing here may be waited for on the media path.

mod hash;
mod party;
mod pins;
mod verifier;

pub use crate::coordination::LockOut;
pub use hash::{HashError, PinRules, hash};
pub use party::{party, user};
pub use pins::{Pins, PinsError, keep};
pub use verifier::{VERIFICATIONS_MAX, Verifier};

/// The fewest digits that a PIN may have: with fewer, what a lock-out leaves are guesses enough.
pub const PIN_DIGITS_LEAST: u8 = 4;
/// The most: nobody keys in more without a slip.
pub const PIN_DIGITS_MOST: u8 = 12;
