//! Identities. Newtypes, never bare strings or numbers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Why a text is not an identifier of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an identifier of the form `{prefix}_` and 32 hexadecimal digits")]
pub struct IdError {
    text: String,
    prefix: &'static str,
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(into = "String", try_from = "String")]
        pub struct $name(pub u128);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "_{:032x}"), self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                parse(text, $prefix).map(Self)
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.to_string()
            }
        }
    };
}

id!(
    /// A conversation: one call on one channel.
    SessionId, "ses"
);
id!(
    /// An intervention of the caller.
    TurnId, "trn"
);
id!(
    /// A generation of the model, which can be cancelled.
    ResponseId, "rsp"
);
id!(
    /// Audio that was sent, heard or removed.
    PlaybackId, "pbk"
);
id!(
    /// A query or effect being followed.
    OperationId, "op"
);
id!(
    /// Operations that close together.
    BatchId, "bat"
);
id!(
    /// One closing to be heard.
    DeliveryId, "dlv"
);
id!(
    /// One life of the process: what a claim's owner is checked against after a restart.
    BootId, "boot"
);

/// What makes an effect "the same one": party, tool, canonical arguments and occurrence.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IntentKey(pub String);

/// The person or account that a delivery belongs to. A delivery outlives its session and belongs to its party.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PartyId(pub String);

impl fmt::Display for IntentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for PartyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A supply of identifiers that grows from one seed, so that a step is reproducible from its input.
#[derive(Debug, Clone)]
pub struct FreshIds {
    next: u128,
}

impl FreshIds {
    /// A supply that starts at `seed`. Distinct random seeds give distinct identifiers.
    pub fn new(seed: u128) -> Self {
        Self { next: seed }
    }

    /// The seed from which the rest of the supply grows: as long as nothing is drawn, it stays what it is.
    pub fn seed(&self) -> u128 {
        self.next
    }

    /// The next identifier's value.
    pub fn draw(&mut self) -> u128 {
        let drawn = self.next;
        // An odd step visits every value before it repeats one.
        self.next = self.next.wrapping_add(STEP);
        drawn
    }
}

fn parse(text: &str, prefix: &'static str) -> Result<u128, IdError> {
    let error = || IdError { text: text.chars().take(TEXT_SHOWN_MAX).collect(), prefix };
    let digits = text.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('_')).ok_or_else(error)?;
    if digits.len() != 32 || !digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(error());
    }
    u128::from_str_radix(digits, 16).map_err(|_| error())
}

/// 2^128 divided by the golden ratio, made odd: neighbouring draws differ in their leading digits.
const STEP: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;

/// How much of a text that is no identifier is repeated in the error (characters).
const TEXT_SHOWN_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_reads_back_what_it_prints() {
        let id = OperationId(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
        assert_eq!(id.to_string(), "op_0123456789abcdef0011223344556677");
        assert_eq!(id.to_string().parse::<OperationId>(), Ok(id));
    }

    #[test]
    fn an_identifier_of_another_kind_is_refused() {
        assert!(DeliveryId(7).to_string().parse::<OperationId>().is_err());
        assert!("op_7".parse::<OperationId>().is_err());
        assert!("op_+123456789abcdef0011223344556677".parse::<OperationId>().is_err());
        assert!("op_é123456789abcdef001122334455667".parse::<OperationId>().is_err());
    }

    #[test]
    fn draws_from_one_seed_differ() {
        let mut ids = FreshIds::new(u128::MAX);
        let drawn: std::collections::BTreeSet<u128> = (0..1000).map(|_| ids.draw()).collect();
        assert_eq!(drawn.len(), 1000);
    }
}
