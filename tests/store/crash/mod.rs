//! Power cuts and disk errors at each input/output operation of the real store, in this process.
//!
//! A run is recorded once: an SQLite VFS notes every write, flush, truncation and deletion, and the test notes every commit that
//! was acknowledged. A cut after any of them is then a matter of memory: what was flushed is on the disk, of the rest nothing, all,
//! some, or some sectors. The real store opens what is left.

mod cuts;
pub mod disk;
mod errors;
pub mod rig;
mod story;
mod vfs;
