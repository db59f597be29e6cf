//! The conversation contract as pure state machines.
//!
//! Nothing in this crate does I/O, reads a clock, starts a thread, or draws randomness: time, wall clock and fresh
//! identifiers arrive with every input ([`Step`]), and everything that must happen leaves as an effect. The same inputs
//! give the same effects, byte for byte, which is what makes a call simulable, replayable and explainable.
//!
//! Two machines, one loop contract: **give one input, carry out every effect in order, give the next input**.
//!
//! * [`conversation::Conversation`]: one per call. The four clocks, barge-in, heard text, and the asking of the gate.
//! * [`ledger::Ledger`]: one per box, alive without calls. Operations, batches, deliveries, claims, and what is
//!   committed together (R1–R6).
//!
//! A conversation never changes an operation; it asks the ledger ([`ledger::Input`]) and is told ([`ledger::News`]).

pub mod conversation;
pub mod faults;
pub mod gate;
pub mod ids;
pub mod ledger;
pub mod policy;
pub mod time;
pub mod timers;

pub use ids::{BatchId, BootId, DeliveryId, IntentKey, OperationId, PartyId, PlaybackId, ResponseId, SessionId, TurnId};
pub use time::{Step, Time, Wall};
