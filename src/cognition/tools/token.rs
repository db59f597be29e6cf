//! The secret that lets a tool report a result, and nobody else.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use recado_core::OperationId;
use sha2::Sha256;
use subtle::ConstantTimeEq;

/// The box's own secret, from which the token of each operation is derived: it outlives restarts, so tokens do too.
#[derive(Clone)]
pub struct BoxSecret {
    bytes: [u8; SECRET_BYTES],
}

/// What a tool must present to report the result of one operation: HMAC-SHA-256 of the operation's identifier under
/// the box's secret (RFC 2104), as 64 hexadecimal digits.
pub struct CallbackToken {
    hex: String,
}

impl BoxSecret {
    /// A secret from `bytes`, which come from a secure random source and are kept as the box's other secrets are.
    pub fn new(bytes: [u8; SECRET_BYTES]) -> Self {
        Self { bytes }
    }

    /// The token of `operation`.
    pub fn token(&self, operation: OperationId) -> CallbackToken {
        self.token_of(&operation.to_string())
    }

    /// Whether `presented` is the token of the operation that is called `name`, in time that does not depend on where
    /// they differ. `name` need not be an identifier: no token was ever issued for one that is not.
    pub(super) fn admits(&self, name: &str, presented: &str) -> bool {
        let expected = self.token_of(name);
        expected.hex.as_bytes().ct_eq(presented.as_bytes()).into()
    }

    /// What shows that the operation `name` is this tool's: it stands in the address that the tool was given. No proof of who sends.
    pub(super) fn binding(&self, name: &str, tool: &str) -> CallbackToken {
        // No identifier of an operation holds a `|`.
        self.token_of(&format!("{name}|{tool}"))
    }

    /// Whether `presented` is that.
    pub(super) fn binds(&self, name: &str, tool: &str, presented: &str) -> bool {
        let expected = self.binding(name, tool);
        !name.contains('|') && expected.hex.as_bytes().ct_eq(presented.as_bytes()).into()
    }

    fn token_of(&self, name: &str) -> CallbackToken {
        // RFC 2104 pads a short key with zeros to the hash's block, which is what makes this the same key.
        let mut block = [0; BLOCK_BYTES];
        block[..SECRET_BYTES].copy_from_slice(&self.bytes);
        let mut mac = <Hmac<Sha256> as KeyInit>::new(&block.into());
        mac.update(name.as_bytes());
        CallbackToken { hex: hex(&mac.finalize().into_bytes()) }
    }
}

impl CallbackToken {
    /// The token's text, to be sent to the tool and nowhere else.
    pub fn expose(&self) -> &str {
        &self.hex
    }
}

impl fmt::Debug for BoxSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BoxSecret(..)")
    }
}

impl fmt::Debug for CallbackToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallbackToken(..)")
    }
}

/// `bytes` as lower-case hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    use fmt::Write;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Length of the secret: that of the hash's output, as RFC 2104 section 3 recommends.
pub const SECRET_BYTES: usize = 32;

/// Length of SHA-256's block.
const BLOCK_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference value comes from `openssl dgst -sha256 -mac HMAC -macopt hexkey:0b…0b`.
    #[test]
    fn a_token_is_the_hmac_of_the_operations_identifier() {
        let secret = BoxSecret::new([0x0b; SECRET_BYTES]);
        assert_eq!(secret.token(OperationId(7)).expose(), "33e0ed50d05c16f75d934d6488446ac1b8fce9725aea618ddb2a48ffc437edd0");
    }

    #[test]
    fn a_token_admits_its_own_operation_only() {
        let secret = BoxSecret::new([1; SECRET_BYTES]);
        let (one, other) = (OperationId(1), OperationId(2));
        let token = secret.token(one);
        assert!(secret.admits(&one.to_string(), token.expose()));
        assert!(!secret.admits(&other.to_string(), token.expose()));
        assert!(!secret.admits(&one.to_string(), ""));
        assert!(!secret.admits(&one.to_string(), &token.expose()[..63]));
        assert!(!BoxSecret::new([2; SECRET_BYTES]).admits(&one.to_string(), token.expose()));
        let (name, binding) = (one.to_string(), secret.binding(&one.to_string(), "order"));
        assert!(secret.binds(&name, "order", binding.expose()));
        assert!(!secret.binds(&name, "pay", binding.expose()) && !secret.binds(&other.to_string(), "order", binding.expose()));
        assert!(!secret.admits(&name, binding.expose()), "the address is no token");
        assert!(!secret.binds(&name, "order", token.expose()));
    }

    #[test]
    fn secrets_do_not_show_in_debug_output() {
        let secret = BoxSecret::new([0x41; SECRET_BYTES]);
        assert_eq!(format!("{secret:?} {:?}", secret.token(OperationId(1))), "BoxSecret(..) CallbackToken(..)");
    }
}
