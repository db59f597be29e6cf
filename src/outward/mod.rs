//! What everything that asks somebody over a network needs: whom a secure connection is trusted by, and what is said where nothing comes of it.

mod trust;
mod words;

pub(crate) use trust::{ClientFault, SystemAuthorities, distrust, tls};
pub(crate) use words::{bounded_text, reason_given, retry_after_ms, status_words, transport_fault};
