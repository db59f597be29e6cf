//! The wiring: the one place that knows all planes.
//!
//! [`run()`] opens the store (and refuses calls until that is done), lets the ledger recover, starts the tools, the media path and the signalling, in this order, and
//! stops them in the reverse one. Nothing is decided here.

mod call;
mod cascade_model;
mod clock;
mod cloud_audio;
mod cloud_test;
mod discovered;
mod doctor;
mod engines;
mod gemini_model;
mod ledger_task;
mod live_model;
mod message_keeper;
mod messages;
mod model_speech;
mod opening;
mod pending;
mod pins;
mod prepare;
mod realtime_model;
mod run;
mod running;
mod services;
mod session_log;
mod speech_model;
mod switchboard;
mod tools_command;
mod upkeep;
mod watch;

pub use clock::{Clock, random, wall};
pub use cloud_test::{CloudReport, CloudTestError, cloud_test};
pub use doctor::{Diagnosis, doctor};
pub use engines::Answer;
pub use gemini_model::GeminiModel;
pub use live_model::LiveModel;
pub use messages::{MessagesAsked, MessagesError, messages};
pub use pending::{PendingError, pending};
pub use pins::{PinAsked, PinError, pin};
pub use prepare::{CheckError, Checked, Prepared, check, prepare};
pub use realtime_model::RealtimeModel;
pub use run::{AppError, run};
pub use speech_model::SpeechModelError;
pub use tools_command::{Call, ToolsError, called, explained, listed, with_offered};

/// Sleeps until a deadline; for ever where there is none.
async fn sleep_until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Waits until this holds; a test that waits for what never comes fails here.
#[cfg(test)]
async fn until(holds: impl Fn() -> bool) {
    let waits = async {
        while !holds() {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), waits).await.expect("it holds within a minute");
}

/// How long attempts that are under way may take to end when the box stops. Those that don't are found again at the next
/// start.
const STOP_GRACE: std::time::Duration = std::time::Duration::from_secs(2);

/// How a command is told where a box that runs under systemd keeps its store.
const UNDER_SYSTEMD: &str = "--set box.data_dir=/var/lib/recado";
