//! What everything that asks somebody over a network needs: whom a secure connection trusts, the HTTP client, how a service of `[cloud]` is asked, and
//! what is said where nothing comes of it. What is asked, and what an answer means, is not known here; of the other rooms it knows `config` alone.

mod client;
mod service;
mod setup;
mod trust;
mod words;

pub(crate) use client::{Connections, USER_AGENT, plain_client};
pub(crate) use service::HttpService;
pub use setup::ServiceSetupError;
pub(crate) use setup::key_and_headers;
pub(crate) use trust::{ClientFault, SystemAuthorities, distrust};
pub(crate) use words::{bounded_text, host_and_port, out_of_reach, quoted, reason_given, retry_after_ms, status_words, transport_fault};
