//! What the events of the services have in common, as JSON.

use serde::{Deserialize, Deserializer};

use crate::config::Secret;
use crate::outward::bounded_text;

/// What the service says went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct ServerFault {
    /// What kind of thing.
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub kind: String,
    /// Which one.
    pub code: Option<String>,
    /// In words.
    #[serde(deserialize_with = "or_default")]
    pub message: String,
    /// Which event of ours it is about.
    #[serde(alias = "client_event_id")]
    pub event_id: Option<String>,
}

/// A message that is no event. It is not repeated: it may hold words of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// It is not JSON.
    #[error("the service sent something that is not JSON")]
    NotJson,
    /// It lacks something that an event of its type has, or has something else in its place.
    #[error("the service sent an event that lacks what its type says, or none")]
    NoEvent,
}

/// Reads an event.
///
/// # Errors
/// The text is none.
pub(super) fn read<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, Unreadable> {
    serde_json::from_str(text).map_err(|error| if error.is_data() { Unreadable::NoEvent } else { Unreadable::NotJson })
}

impl ServerFault {
    /// Takes `secret` out of what is said of it.
    pub fn hide(&mut self, secret: &Secret) {
        let Self { kind, code, message, event_id: _ } = self;
        *message = secret.hidden_in(message);
        for name in std::iter::once(kind).chain(code) {
            *name = secret.hidden_in_name(name);
        }
    }

    /// Whether the same may be taken a little later: the service is overloaded, or has no room.
    pub(super) fn passes(&self) -> bool {
        matches!(self.kind.as_str(), "server_error" | "session_limit_reached")
            || matches!(self.code(), "rate_limit_exceeded" | "session_limit_reached")
    }

    /// Its code, or what kind of thing it is where it has none.
    pub fn code(&self) -> &str {
        self.code.as_deref().filter(|code| !code.is_empty()).unwrap_or(&self.kind)
    }

    /// Its name and what it says, on one line that is not too long.
    pub fn words(&self) -> String {
        bounded_text(&match (self.code(), self.message.trim()) {
            ("", message) => message.to_owned(),
            (code, "") => code.to_owned(),
            (code, message) => format!("{code}: {message}"),
        })
    }
}

/// What is `null` is as if it were not there.
pub(in crate::cognition) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Audio: base64 (RFC 4648 4).
pub(super) mod audio {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes it.
    pub fn serialize<S: Serializer>(audio: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(audio))
    }

    /// Reads it.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        STANDARD.decode(text.as_bytes()).map_err(D::Error::custom)
    }
}
