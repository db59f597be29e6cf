//! A conversation: one per call. The four clocks, barge-in, heard text, and the asking of the gate.
//!
//! It never changes an operation (I5): it asks the ledger and is told.

pub mod effect;
pub mod input;

pub use effect::{Cause, Decision, Effect, HeardText, Measure, MeasureName, Purpose, ToolStatus};
pub use input::{
    Acoustic, AcousticEdge, AcousticEpoch, Channel, Content, Evidence, Generation, Input, ModelEvent, PlaybackEvent, SegmentRef, ToolCall,
    Word,
};
