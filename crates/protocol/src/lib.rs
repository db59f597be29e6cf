//! The delivery protocol, model-checked.

pub mod action;
pub mod alphabet;
pub mod conformance;
pub mod graph;
pub mod laws;
pub mod model;
pub mod real;
pub mod scope;
pub mod specification;
pub mod world;
