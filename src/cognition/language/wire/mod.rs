//! What goes over HTTP, as bytes and JSON: sent in exactly the documented form, read liberally. Pure.
//!
//! What a service adds that is not known here is ignored, and what one leaves out another one need not say.

mod chat;
mod form;
mod line;
mod reader;
mod responses;
mod sse;
mod tokens;
mod transcript;

pub use chat::{ChatReader, chat_request};
pub use form::{Form, transcription_form, wav};
pub use line::{Line, MadeCall};
pub use reader::{AnswerEvent, AskedCall, ServiceFault, Unusable};
pub use responses::{ResponsesReader, responses_request};
pub use sse::{Sse, looks_like_events};
pub use tokens::Tokens;
pub use transcript::{Transcript, TranscriptReader};
