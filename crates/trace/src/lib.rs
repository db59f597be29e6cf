//! Traces: what a conversation or the ledger was told, what it decided and why, in a few hundred bytes an input.
//!
//! A trace is text, one JSON object a line: a [`line::Header`] with what the machine began with, then an [`line::Entry`] for
//! each input with a digest of its effects and, in clear, the decisions. [`replay()`] gives the inputs to today's core and
//! compares; [`story`] and [`draw`] show people the four clocks and what each delivery waited for.
//!
//! Nothing here does I/O or reads a clock. Unless the box is told otherwise, what callers and tools say is made unreadable
//! before it is written ([`redact`]), in such a way that the core decides the same about it.

pub mod digest;
pub mod draw;
pub mod fact;
mod lanes;
pub mod life;
pub mod line;
mod place;
mod plain;
mod pseudonym;
pub mod read;
pub mod record;
pub mod redact;
pub mod replay;
pub mod story;
pub mod subject;

pub use fact::Fact;
pub use line::{Mode, Moment};
pub use plain::plain;
pub use read::{Trace, TraceError};
pub use record::{Scribe, Taken};
pub use redact::Redactor;
pub use replay::{Verdict, replay};
pub use subject::{Subject, SubjectKind};
