//! Telemetry: logs with the contract's ids, and the contract's measures. It observes and decides nothing.
//!
//! Whatever is measured goes through [`Measures`]; whatever is logged goes through `tracing`, with the names of [`fields`].
//! Credentials, transcripts and arguments of operations don't come here.

pub mod fields;
pub mod logs;
pub mod measures;
mod seldom;
mod service;
mod settled;
mod tools;
mod utc;

pub use measures::{Measures, Observation};
pub use seldom::Seldom;
pub use service::ServiceMeasures;
pub use settled::settled;
pub use tools::ToolMeasures;
pub use utc::utc;

/// Why telemetry can't be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// `[log] level` is not a list of levels: write it as in `info,recado::surface::sip=debug`.
    #[error("the log level {level:?} can't be read: {error}")]
    Level {
        /// What was given.
        level: String,
        /// Why it can't be read.
        error: tracing_subscriber::filter::ParseError,
    },
    /// Logs have been set up before in this process: do it once, first of all.
    #[error("logs have been set up before")]
    LogsTwice,
    /// A measure's buckets were refused: each needs at least one.
    #[error("measures can't be set up: {0}")]
    Measures(#[from] metrics_exporter_prometheus::BuildError),
}
