//! Scenarios on a virtual clock.

mod calls;
mod flood;
mod fuzz;
mod media;
mod order;
mod refusals;
pub mod rig;
mod routing;
