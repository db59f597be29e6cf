//! Dialogs (RFC 3261 section 12) and the call that lives in each.
//!
//! What may not enter: sockets, transactions' state, what the application does with a call.

mod call;
mod route;
mod state;

pub use call::{Accepted, Call, CallState, PendingInvite};
pub use state::{Dialog, DialogKey};
