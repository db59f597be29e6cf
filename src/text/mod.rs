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
