//! `recado demo`: the box's main job on loopback, in one command and with no configuration.
//!
//! The box is a process of its own, killed and started again; the tools are a local service; the caller dials in over real
//! SIP and RTP, speaks recordings, reports what it received, and keeps what it heard. What the box claims is compared with
//! the caller's ear and with the service's own count of effects, never with the box's word alone.
//!
//! The tests that run the real binary use the same parts.

mod caller;
mod ear;
mod events;
mod line;
mod process;
mod report;
mod self_test;
mod story;
mod tools;

use std::path::PathBuf;

use recado_core::policy::Language;

pub use caller::{Caller, Signalling};
pub use ear::{Ear, PhraseHeard};
pub use events::{Events, WAIT, patiently};
pub use line::Line;
pub use process::{BoxProcess, command, health};
pub use tools::{Asked, Manner, Manners, Tools};

/// What the demo is asked for.
#[derive(Debug, Clone)]
pub struct Options {
    /// The language that the caller and the box speak.
    pub language: Language,
    /// Where the call is written as a stereo WAV: the caller left, the box right.
    pub wav: PathBuf,
    /// A directory to keep the store, the configuration and the log in; a temporary one is removed at the end.
    pub keep: Option<PathBuf>,
}

/// Why the demo did not end well.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// Something that the story waits for did not happen.
    #[error("waited in vain for {0}; the box's log has the rest (--keep DIR keeps it)")]
    Waited(String),
    /// The box could not be started.
    #[error("the box did not start: {0}")]
    Box(String),
    /// The caller got another answer than it should have.
    #[error("the caller was answered: {0}")]
    Answer(String),
    /// The speech engine is needed to know what to listen for.
    #[error(transparent)]
    Speech(#[from] crate::surface::speech::SpeechError),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] crate::coordination::ReadError),
    /// The recording can't be written.
    #[error("{} can't be written: {error}; name another file with --wav", file.display())]
    Recording {
        /// Where it was to be.
        file: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The system refused something.
    #[error("{what}: {error}")]
    System {
        /// What.
        what: &'static str,
        /// Why.
        error: std::io::Error,
    },
    /// The story went to its end, and the contract was broken.
    #[error("{0} of the contract's checks failed")]
    Contract(usize),
}

/// Plays the story to its end and prints what happened.
///
/// # Errors
/// What went wrong; [`DemoError::Contract`] when a check of the contract failed.
pub fn run(options: &Options) -> Result<(), DemoError> {
    block_on(story::play(options))
}

/// Tests the box on this machine, without a speech engine, in a few seconds.
///
/// # Errors
/// What went wrong; [`DemoError::Contract`] when a check failed.
pub fn self_test() -> Result<(), DemoError> {
    block_on(self_test::run())
}

/// A client for plain HTTP on loopback.
fn client() -> Result<reqwest::Client, DemoError> {
    // The same provider may be installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().tls_certs_only([]).build().map_err(|error| DemoError::Answer(error.to_string()))
}

fn block_on(story: impl Future<Output = Result<(), DemoError>>) -> Result<(), DemoError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| DemoError::System { what: "threads", error })?;
    runtime.block_on(story)
}
