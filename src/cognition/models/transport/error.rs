//! Why there is no connection, or no longer.

use std::time::Duration;

use crate::outward::ServiceSetupError;

/// Why there is no connection to the service, or no longer. None of these shows the key.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The service can't be asked as it is configured: correct what is named.
    #[error(transparent)]
    Setup(#[from] ServiceSetupError),
    /// The host can't be found or reached: check the network, the address, and that the service runs.
    #[error("{host} can't be reached: {reason}")]
    Unreachable {
        /// The host and its port.
        host: String,
        /// Why.
        reason: String,
    },
    /// The secure connection failed; the reason says what to do.
    #[error("{0}")]
    Untrusted(String),
    /// The connection takes too long: check the network, or raise the table's `connect_timeout_ms`.
    #[error("no connection to {host} within {ms} ms")]
    TooSlow {
        /// The host and its port.
        host: String,
        /// How long was waited (ms).
        ms: u64,
    },
    /// The service refuses the key: check that it is right, of this service, and not revoked.
    #[error("the service refuses the key ({status}){detail}")]
    Unauthorised {
        /// HTTP status.
        status: u16,
        /// What it says.
        detail: String,
    },
    /// The service knows no such address or model: check both.
    #[error("the service knows no such address or model ({status}){detail}")]
    NotFound {
        /// HTTP status.
        status: u16,
        /// What it says.
        detail: String,
    },
    /// The service takes no more for now: the account's limit is reached, or its credit is used up.
    #[error("the service takes no more requests for now ({status}){detail}")]
    RateLimited {
        /// HTTP status.
        status: u16,
        /// How long it asks to be left alone.
        after: Option<Duration>,
        /// What it says.
        detail: String,
    },
    /// The service answers otherwise than with a connection.
    #[error("the service answers {status}{detail}")]
    Answered {
        /// HTTP status.
        status: u16,
        /// What it says.
        detail: String,
    },
    /// What answers there is no such service.
    #[error("what answers at {host} speaks no WebSocket: {reason}")]
    NoWebSocket {
        /// The host and its port.
        host: String,
        /// What it did.
        reason: String,
    },
    /// The service closed the connection.
    #[error("the service closed the connection ({code}){reason}")]
    Closed {
        /// Its close code (RFC 6455 7.4).
        code: u16,
        /// What it says.
        reason: String,
    },
    /// The service sent a message that is larger than any that is taken.
    #[error("the service sent a message of more than {0} bytes")]
    TooLarge(usize),
    /// The connection broke.
    #[error("the connection to the service broke: {0}")]
    Broken(String),
    /// Nothing came, not even an answer to a ping.
    #[error("nothing has come from the service for {0} ms")]
    Silent(u64),
    /// The service takes nothing.
    #[error("the service has not taken what was sent for {0} ms")]
    Stuck(u64),
}

impl TransportError {
    /// Whether another connection may help.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Setup(_) | Self::Unauthorised { .. } | Self::NotFound { .. } | Self::NoWebSocket { .. } => false,
            // A clock that is wrong after a boot is right a little later.
            Self::Untrusted(_)
            | Self::Unreachable { .. }
            | Self::TooSlow { .. }
            | Self::RateLimited { .. }
            | Self::TooLarge(_)
            | Self::Broken(_)
            | Self::Silent(_)
            | Self::Stuck(_) => true,
            Self::Answered { status, .. } => *status >= 500 || *status == 408,
            Self::Closed { code, .. } => RETRYABLE_CLOSES.contains(code),
        }
    }

    /// How long the service asks to be left alone.
    pub fn asked_wait(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { after, .. } => *after,
            _ => None,
        }
    }
}

/// Closes after which a new connection is as good as any: the service went away, restarts, is overloaded, or nobody knows (RFC 6455 7.4.1).
/// A close that is called normal is one too: it is this box that ends sessions.
const RETRYABLE_CLOSES: [u16; 8] = [1000, 1001, 1005, 1006, 1011, 1012, 1013, 1015];
