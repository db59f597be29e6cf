//! Cognitive execution plane: models and tools. It may work for hours and may never speak: what it has to say goes to
//! `recado-core` as an input, and the gate decides when it is heard.
//!
//! Nothing of `surface` may be reached from this room, and nothing of `coordination`: neither model nor tool knows what
//! is durable, and neither decides whether something is tried again.

pub mod language;
pub mod models;
pub mod tools;
