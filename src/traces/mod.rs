//! Traces: each conversation, and the ledger of each boot, leaves one in the data directory. What a trace is, and how it is
//! drawn and replayed, is in [`recado_trace`]; here they are written, found and read.
//!
//! * [`Traced`]: a machine that is recorded while it runs · `keeper`: the thread that writes, with everything bounded
//! * `library`: the traces that are there · [`show`]: `recado trace` and `recado replay`
//!
//! Recording observes and decides nothing: it never blocks a machine, and what can't be written is counted.

mod keeper;
mod library;
pub mod show;
mod terminal;
mod traced;

pub use keeper::{Keeper, Kept, Traces};
pub use library::{Library, ReadError, default_directory};
pub use terminal::terminal;
pub use traced::Traced;
