//! The delivery protocol, model-checked.

pub mod action;
pub mod alphabet;
pub mod conformance;
pub mod laws;
pub mod model;
pub mod real;
pub mod specification;
pub mod world;
