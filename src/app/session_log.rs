//! What is logged of a speech model's session. What its service can cause as often as it likes is a few lines, then one now and then, and a count at
//! the end.

use std::time::{Duration, Instant};

use tracing::{info, warn};

use crate::cognition::models::transport::TransportError;
use crate::telemetry::Seldom;

/// The lines of one session.
#[derive(Debug)]
pub struct SessionLog {
    complaints: Seldom,
    not_done: Seldom,
    connection: Seldom,
    disconnections: u64,
}

/// What happened in a session, all in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Frames of the caller that the service never heard.
    pub frames_lost: u64,
    /// How often the service complained of something that ended nothing.
    pub complaints: u64,
    /// How often there was no connection, or no longer.
    pub disconnections: u64,
}

impl Default for SessionLog {
    fn default() -> Self {
        Self { complaints: Seldom::after(FREELY), not_done: Seldom::after(FREELY), connection: Seldom::after(FREELY), disconnections: 0 }
    }
}

impl SessionLog {
    /// The service complains of something that ends nothing.
    pub fn complaint(&mut self, says: &str) {
        if let Some(left_out) = self.complaints.happened(Instant::now()) {
            warn!(says, left_out, "the speech model's service complains");
        }
    }

    /// Nothing is done of something that the model has delegated.
    pub fn not_done(&mut self, reason: &str) {
        if let Some(left_out) = self.not_done.happened(Instant::now()) {
            info!(reason, left_out, "nothing is done of what the speech model has delegated");
        }
    }

    /// A connection stands.
    pub fn connected(&mut self) {
        if let Some(left_out) = self.connection.happened(Instant::now()) {
            info!(left_out, "connected to the speech model's service");
        }
    }

    /// There is no connection, or no longer.
    pub fn disconnected(&mut self, error: &TransportError, again_in: Option<Duration>) {
        self.disconnections += 1;
        let Some(wait) = again_in else {
            return warn!(%error, "no connection to the speech model's service, and no other one is tried in this call");
        };
        if let Some(left_out) = self.connection.happened(Instant::now()) {
            warn!(%error, again_in_ms = wait.as_millis() as u64, left_out, "no connection to the speech model's service");
        }
    }

    /// The session gives up its connection for another one.
    pub fn reconnecting(&mut self, reason: &str) {
        self.disconnections += 1;
        if let Some(left_out) = self.connection.happened(Instant::now()) {
            warn!(reason, left_out, "the connection to the speech model's service is replaced");
        }
    }

    /// What happened, all in all.
    pub fn counts(&self, frames_lost: u64) -> Counts {
        Counts { frames_lost, complaints: self.complaints.all(), disconnections: self.disconnections }
    }
}

/// So many lines of each kind are written whenever they come.
const FREELY: u64 = 8;
