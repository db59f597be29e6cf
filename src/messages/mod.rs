//! Messages that callers have left, as files: each is whole and on the disk before its caller is told that it is kept.
//!
//! * `file`: one message as a WAV that any player plays, with who left it and when.
//! * [`Shelf`]: the directory that they are in, bounded in number and bytes.
//!
//! No word of a message and nobody's number enters a log: there it is named by its identifier alone.

mod file;
mod shelf;

pub use file::{Label, MessageId};
pub use shelf::{Kept, Shelf, ShelfError};
