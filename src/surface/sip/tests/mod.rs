//! Scenarios on a virtual clock.

mod calls;
mod flood;
mod fuzz;
mod lossy;
mod media;
mod order;
mod random;
mod refusals;
pub mod rig;
mod routing;
