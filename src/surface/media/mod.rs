//! Media: what carries audio between the box and a channel.

pub mod g711;
pub mod resample;
