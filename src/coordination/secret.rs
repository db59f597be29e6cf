//! The box's secret: what callback tokens are signed with.

use std::fmt;

/// 32 random bytes, made when the store was created. They are never printed and never leave the box.
#[derive(Clone, PartialEq, Eq)]
pub struct CallbackSecret(pub(super) [u8; CallbackSecret::BYTES]);

impl CallbackSecret {
    /// Its length.
    pub const BYTES: usize = 32;

    /// The bytes, for a message authentication code.
    pub fn expose(&self) -> &[u8; Self::BYTES] {
        &self.0
    }
}

impl fmt::Debug for CallbackSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallbackSecret(..)")
    }
}
