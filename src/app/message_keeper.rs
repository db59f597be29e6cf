//! Messages of callers on their way to the shelf: written on a thread that may wait, named in the log by their identifier alone.

use std::sync::Arc;
use std::time::Duration;

use tracing::{info, warn};

use super::clock::{random, wall};
use super::watch;
use crate::admin::{HealthState, Impact};
use crate::cognition::models::{Keeping, Message, Messages, NotKept};
use crate::config::Config;
use crate::messages::{Label, MessageId, Shelf, ShelfError};

/// Keeps messages on the shelf.
#[derive(Debug, Clone)]
pub struct MessageKeeper {
    shelf: Arc<Shelf>,
    health: HealthState,
}

impl MessageKeeper {
    /// Keeps them where a box with this configuration does.
    pub fn new(config: &Config, health: HealthState) -> Self {
        Self { shelf: Arc::new(shelf(config)), health }
    }

    /// Shows in health whether there is room for another message. Runs until it is dropped.
    pub async fn follow_room(self) {
        let mut looks = watch::every(LOOK_EVERY);
        loop {
            looks.tick().await;
            let shelf = Arc::clone(&self.shelf);
            if let Ok(room) = tokio::task::spawn_blocking(move || shelf.has_room()).await {
                self.show(room);
            }
        }
    }

    fn show(&self, result: Result<(), ShelfError>) {
        match result {
            Ok(()) => self.health.clear(PART),
            Err(error) => self.health.raise(PART, Impact::Degrades, format!("{error}; callers are told that theirs is not kept")),
        }
    }
}

impl Messages for MessageKeeper {
    fn keep(&self, message: Message) -> Keeping {
        let keeper = self.clone();
        let id = MessageId(random() as u64);
        // Whoever stops waiting for it does not stop it.
        let kept = tokio::task::spawn_blocking(move || {
            let Message { session, party, samples, is_cut } = message;
            let now = wall();
            let label = Label { session, party, unix_ms: now.synchronised.then_some(now.unix_ms) };
            let kept = keeper.shelf.keep(id, &label, &samples);
            let ms = samples.len() as u64 / SAMPLES_PER_MS;
            match &kept {
                Ok(()) => info!(message_id = %id, session_id = %session, ms, is_cut, "a caller's message is kept"),
                Err(error) => warn!(message_id = %id, session_id = %session, ms, %error, "a caller's message is not kept"),
            }
            let not_kept = kept.as_ref().err().map(|error| match error {
                ShelfError::Full { .. } => NotKept::Full,
                error => NotKept::Failed(error.to_string()),
            });
            keeper.show(kept);
            not_kept.map_or(Ok(()), Err)
        });
        Box::pin(async move { kept.await.unwrap_or_else(|error| Err(NotKept::Failed(error.to_string()))) })
    }
}

/// The shelf of a box with this configuration.
pub(super) fn shelf(config: &Config) -> Shelf {
    Shelf::new(config.this_box.messages(), config.messages.files_max, config.messages.bytes_max)
}

/// What health calls it.
pub(super) const PART: &str = "messages";
/// Whoever deletes some sees health follow.
const LOOK_EVERY: Duration = Duration::from_secs(30);
const SAMPLES_PER_MS: u64 = 8;
