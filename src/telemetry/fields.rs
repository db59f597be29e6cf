//! Names of log fields: the contract's identities. A line carries those that apply, and no others for the same thing:
//!
//! ```
//! use recado::telemetry::fields::DELIVERY_ID;
//! # let delivery = "d";
//! tracing::info!({ DELIVERY_ID } = %delivery, "told");
//! ```

/// A conversation.
pub const SESSION_ID: &str = "session_id";
/// An intervention of the caller.
pub const TURN_ID: &str = "turn_id";
/// A generation that can be cancelled.
pub const RESPONSE_ID: &str = "response_id";
/// Audio that was sent, heard or removed.
pub const PLAYBACK_ID: &str = "playback_id";
/// A query or effect being followed.
pub const OPERATION_ID: &str = "operation_id";
/// Operations that close together.
pub const BATCH_ID: &str = "batch_id";
/// One closing to be heard.
pub const DELIVERY_ID: &str = "delivery_id";
