//! Typed settings: what a box is told before it starts. Checked here, once, with file, line and remedy; the rest of the
//! house gets values that are right.
//!
//! [`Config::load`] lays the layers over one another (`source`, `tree`), gives them types (`decode`), and checks them: each
//! table checks itself (`check` holds what that needs). Every problem is reported, with its place and what to write instead.
//! Nothing here may be reached while a call is up, and no credential passes through here but as a [`Secret`].

mod check;
mod cloud;
mod cloud_language;
mod cloud_speech;
mod cloud_transcription;
mod decode;
pub mod endpoint;
mod engines;
mod example;
mod file;
mod gate;
mod gemini;
mod hand_off;
mod headers;
mod http;
mod http_part;
mod identity;
mod known_services;
mod listen;
mod live;
mod load;
mod log;
mod mcp;
mod meant;
mod media;
mod model;
mod plain_words;
mod port_range;
mod prices;
mod problem;
mod repeated;
mod secret;
mod settings;
mod sip;
mod source;
mod speech;
mod speech_model;
mod standby;
mod store;
mod summary;
mod template;
mod this_box;
pub mod tool;
mod tool_check;
mod tool_command;
mod tool_delegate;
mod trace;
mod tree;
mod wording;

#[cfg(test)]
mod tests;

pub use cloud::{Cloud, CloudAudio, Realtime, TurnDetection};
pub use cloud_language::{LanguageApi, LanguageModel, LanguageService};
pub use cloud_speech::{CloudSpeech, ResponseFormat};
pub use cloud_transcription::TranscriptionService;
pub use endpoint::KeyHeader;
pub use engines::{CommandOutput, Models, Piper, SpeechCommand};
pub use file::{open_file, read_text};
pub use gate::Gate;
pub use gemini::{Gemini, GeminiCalls, GeminiText};
pub use hand_off::HandOff;
pub use http::Http;
pub use http_part::HttpPart;
pub use identity::Identity;
pub use listen::{Listen, ProfileName};
pub use live::{Delegate, Live, LiveAudio, NoDelegate};
pub use load::Depth;
pub use log::{Log, LogFormat};
pub use mcp::McpServer;
pub use media::Media;
pub use model::{Model, ModelKind};
pub(crate) use plain_words::plainly;
pub use port_range::PortRange;
pub use prices::{Price, Prices};
pub use problem::{Place, Problem, Problems, Severity};
pub use secret::{Secret, SecretError};
pub use settings::Config;
pub(crate) use settings::TOOLS_MAX;
pub use sip::Sip;
pub use source::Sources;
pub(crate) use speech::NO_SUCH_VOICE;
pub use speech::{Engine, Fallback, Speech, Voices};
pub use speech_model::SpeechModel;
pub use standby::{MESSAGES_DIRECTORY, Messages, SILENT_MS_MOST, Standby};
pub use store::Store;
pub use this_box::{STORE_FILE, TRACES_DIRECTORY, ThisBox};
pub use tool::{Tool, Way};
pub(crate) use tool_check::{CONFIRMED, NAME_BYTES_MAX, OWN_HEADERS, code_of};
pub use tool_command::{END_OF_OPTIONS, OnTerminate, Piece, ToolCommand, ToolInput, ToolOutput, pieces};
pub use tool_delegate::DelegateService;
pub use trace::{Trace, TraceMode};
