//! recado in virtual time: the real ledger and the real conversations, between callers, networks, tools, models and disks
//! that misbehave. What the caller heard is counted in a simulated ear, never in the box's own state.
//!
//! No I/O, no clock and no randomness of its own enters here: what happens is decided by who drives it, a test or a
//! [`Script`], which is drawn from a seed before anything is played. So a seed is a whole story, and a failure is a list that is cut
//! until nothing in it can go.
//!
//! * [`script`] draws what happens · [`trace`] writes and reads it · [`play`](mod@play) plays it · [`shrink`](mod@shrink) cuts it ·
//!   [`explore`](mod@explore) goes through seeds
//! * [`world`] does what a script says to a box · [`liveness`] lets it come to its end
//! * [`rig`] is the box · [`drive`] what is done to it · [`call`] one call · [`voice`] its voice and ear · [`store`], [`tools`]
//! * [`week`] is a story of its own: seven days of calls, errands and restarts
//! * [`journal`] is the trace that it leaves, as a real box does · [`watch`] checks the contract's invariants after every step · [`edges`] the table of its state machines ·
//!   [`violation`] what is found

pub mod action;
#[cfg(feature = "faults")]
pub mod bite;
pub mod call;
pub mod drive;
pub mod edges;
pub mod explore;
pub mod journal;
mod late;
pub mod liveness;
pub mod play;
pub mod random;
pub mod rig;
pub mod script;
pub mod shrink;
pub mod store;
pub mod tools;
pub mod trace;
pub mod violation;
pub mod voice;
pub mod watch;
pub mod week;
pub mod world;

pub use call::Call;
pub use drive::policies;
pub use explore::{Failure, Plan, Report, explore};
pub use play::{Outcome, play};
pub use rig::Rig;
pub use script::Script;
pub use shrink::shrink;
pub use violation::{Invariant, Violation};
