//! recado: a telephone agent in a box that accepts work, keeps talking, and tells each result once.
//!
//! The map of the house. Three planes around a pure core ([`recado_core`]); dependencies point inwards and
//! only [`app`] knows all of them:
//!
//! ```text
//!   caller ⇄ surface (sip · media · listen · speech · voice) ⇄ app ⇄ recado-core (conversation · ledger · gate)
//!                                                              ⇅
//!                          cognition (models · tools · executor) · coordination (store · recovery)
//! ```

pub mod admin;
pub mod app;
pub mod cognition;
pub mod config;
pub mod coordination;
pub mod demo;
pub mod g711;
pub mod identity;
pub mod messages;
mod outward;
mod process;
pub mod simulate;
pub mod surface;
pub mod telemetry;
pub mod text;
pub mod traces;
