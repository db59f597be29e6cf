//! Durable coordination: the store that survives a power cut, and what a restart reads back from it.
//!
//! It knows records only (`recado_core::ledger`), no conversation, no channel and no executor.
//!
//! One file, one thread that writes ([`Writer`]), readers beside it ([`Reader`]). **Once a commit is answered `Ok`, it will
//! be there after a power cut**: every acknowledged transaction has been flushed to the disk. What the contract rules out (a second
//! closing of a batch, a second claim, an attempt that goes down, a state after the last) the schema refuses, whoever asks.

mod ahead;
mod backup;
mod check;
mod connection;
mod error;
mod examine;
mod files;
mod group;
mod header;
mod log;
mod loss;
mod mend;
mod reader;
mod recovery;
mod reserve;
mod retention;
mod rows;
mod salvage;
mod schema;
mod secret;
mod set_aside;
mod standing;
mod stats;
mod store;
mod verification;
mod writer;

pub use backup::{backups, is_backup_due, make_backup};
pub use check::{Findings, UnreadableRow, find as check_store};
pub use error::{BackupError, CommitError, OpenError, ReadError};
pub use examine::{Backup, BrokenRule, Contents, Examination, SHOWN_MAX, Waiting, examine};
pub use files::is_gone;
pub use header::is_missing;
pub use loss::Loss;
pub use mend::{in_the_way, mend};
pub use reader::{Counts, History, Pending, PendingDelivery, ROWS_MAX, Reader};
pub use recovery::Recovered;
pub use reserve::{ROOM_BYTES as RESERVE_ROOM_BYTES, is_disk_full};
pub use retention::Keep;
pub use rows::Claim;
pub use secret::CallbackSecret;
pub use set_aside::{listed as lost_stores, was_missing};
pub use standing::foreign_files;
pub use stats::{FLUSHES_KEPT, StoreStats, Tally};
pub use store::{Options, Store};
pub use verification::{LockOut, Moment, Trial, Verdict, Verification};
pub use writer::{Answer, Writer};
