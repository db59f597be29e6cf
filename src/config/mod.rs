//! Typed settings: what a box is told before it starts. Checked here, once, with file, line and remedy; the rest of the
//! house gets values that are right.

pub mod tool;

pub use tool::Tool;
