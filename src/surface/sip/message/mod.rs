//! SIP messages (RFC 3261 sections 7, 19, 20 and 25): bytes in, typed values out, and back.
//!
//! Framing and normalising come first ([`frame`]): line folding, compact names, white space around the colon,
//! comma lists, `Content-Length`, hard limits. Only then are values typed ([`Request`], [`Response`]). Header values
//! stay bytes, so what is not UTF-8 is echoed exactly as it came. Nothing here knows a transaction or a dialog.

mod frame;
mod headers;
mod method;
mod name_addr;
mod params;
mod reply;
mod request;
mod response;
mod text;
mod uri;
mod via;

pub use frame::{Message, Rejection, parse};
pub use headers::{Headers, name, print};
pub use method::{CSeq, Method};
pub use name_addr::NameAddr;
pub use reply::Reply;
pub use request::Request;
pub use response::Response;
use response::reason_phrase;
pub use text::split_outside;
pub use uri::{Host, Uri};
pub use via::{DEFAULT_PORT, MAGIC_COOKIE, Via};

/// A value that does not follow its grammar; the text names it for the log and the reason phrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

#[cfg(test)]
mod corpus_tests;
