//! What executes an operation.
//!
//! A tool is asked for exactly one attempt at a time and says how it went; whether another one follows is the
//! ledger's decision, never this room's. Everything that comes back from a tool is bounded and judged before it
//! becomes an [`AttemptOutcome`](recado_core::ledger::AttemptOutcome): where it is not certain that nothing was done,
//! the outcome says so.
//!
//! * [`Schemas`] checks the arguments of a call before anything is accepted.
//! * [`Executor`] runs attempts within limits and reports each of them; what is down ([`Endpoint`]) it leaves alone for a while.
//! * [`HttpTool`] carries out an attempt over HTTP, asks how it stands, and asks to cancel or to undo one.
//! * [`delegates`] have it answered by a larger model, [`commands`] have it carried out by a program on the box, [`mcp_tools`] by a server of
//!   the Model Context Protocol, whose tools that nobody has named are found by [`McpServers::discover`]; [`slots()`] are all of them.
//! * [`router`] takes results that come later, news of progress, and results that are taken back.
//! * [`Webhook`] is the other way for a closing that nobody has come to hear.

mod asking;
mod breaker;
mod callbacks;
mod command;
mod command_limits;
mod delegate;
mod error;
mod executor;
mod http;
mod http_cancel;
mod load;
mod mcp;
mod port;
mod replays;
mod reply;
mod schema;
mod signature;
mod slots;
mod status;
mod tls;
mod token;
mod webhook;

#[cfg(test)]
mod callback_faults;
#[cfg(test)]
mod command_faults;
#[cfg(test)]
mod http_faults;
#[cfg(test)]
mod tls_faults;
#[cfg(test)]
mod webhook_faults;

pub use breaker::{Endpoint, FAULTS_MAX, Standing};
pub use callbacks::{Callback, CallbackAddress, Report, Signers, refusing_router, router};
pub use command::commands;
pub use delegate::delegates;
pub use error::ToolError;
pub use executor::{Executor, Slot};
pub(in crate::cognition) use http::{Body, read};
pub use http::{HttpTool, http_tools};
pub use load::{Load, ToolLoad};
pub use mcp::{Discovered, McpServers, mcp_tools, with_kept};
pub use port::{AttemptFuture, CancelFuture, InquiryFuture, Sent, ToolPort};
pub use schema::{ArgumentsRefused, Schemas};
pub use slots::slots;
pub use token::{BoxSecret, CallbackToken};
pub use webhook::{Webhook, not_handed_off};
