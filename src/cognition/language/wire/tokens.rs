//! What services count.

use crate::cognition::models::Usage;

/// Tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tokens {
    /// What went in.
    pub input: u64,
    /// Of that, what the service knew already, and charges less for.
    pub cached: u64,
    /// What came out.
    pub output: u64,
}

impl Tokens {
    /// Counts those of another request.
    pub fn add(&mut self, other: Self) {
        let add = |count: &mut u64, more: u64| *count = count.saturating_add(more);
        add(&mut self.input, other.input);
        add(&mut self.cached, other.cached);
        add(&mut self.output, other.output);
    }

    /// As those of an answer are charged for.
    pub fn answered(&self) -> Usage {
        let Self { input, cached, output } = *self;
        Usage { input_text: input.saturating_sub(cached), cached_text: cached, output_text: output, ..Usage::default() }
    }

    /// As those of writing something down are charged for.
    pub fn written_down(&self) -> Usage {
        Usage { transcription: self.input.saturating_add(self.output), ..Usage::default() }
    }
}
