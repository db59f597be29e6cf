//! Text on its way to be spoken: cut where a speaker would pause, and freed of what nobody reads aloud. Pure.
//!
//! Here, because those who write it (`cognition`) and those who speak it (`surface`) cut it by the same rules.

mod clauses;
mod sentences;
mod spoken;
mod thoughts;

pub use clauses::{CLAUSE_CHARS_MAX, clauses};
pub use sentences::{Break, Sentences};
pub use spoken::spoken;
pub use thoughts::{Left, Thoughts};

/// A text as it may come: in parts of so many characters, again and again.
#[cfg(test)]
fn in_parts(text: &str, sizes: &[usize]) -> Vec<String> {
    let mut chars = text.chars();
    let parts = sizes.iter().cycle().map(|size| chars.by_ref().take(*size).collect());
    parts.take_while(|part: &String| !part.is_empty()).collect()
}
