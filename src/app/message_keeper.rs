//! Messages of callers on their way to the shelf: written on a thread that may wait, named in the log by their identifier alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
    /// Whether the last one could not be written, or the trial after it.
    failed: Arc<AtomicBool>,
}

impl MessageKeeper {
    /// Keeps them where a box with this configuration does.
    pub fn new(config: &Config, health: HealthState) -> Self {
        Self { shelf: Arc::new(shelf(config)), health, failed: Arc::default() }
    }

    /// Removes what a power cut left half written, and shows in health whether another message can be kept. Runs until it is dropped.
    pub async fn follow_room(self) {
        let keeper = self.clone();
        let removed = tokio::task::spawn_blocking(move || keeper.shelf.remove_unfinished()).await;
        if let Ok(Err(error)) = removed {
            warn!(%error, "what is left of a message that was never kept can't be removed");
        }
        let mut looks = watch::every(LOOK_EVERY);
        loop {
            looks.tick().await;
            let keeper = self.clone();
            // Where it fails, the next one tells.
            let _ = tokio::task::spawn_blocking(move || keeper.look()).await;
        }
    }

    /// Looks once. That there is room says nothing of a disk that took nothing: whether it does now is tried.
    fn look(&self) {
        let room = self.shelf.has_room();
        self.show(if self.failed.load(Ordering::Relaxed) { room.and_then(|()| self.shelf.try_writing()) } else { room });
    }

    fn show(&self, result: Result<(), ShelfError>) {
        if !matches!(result, Err(ShelfError::Full { .. })) {
            self.failed.store(result.is_err(), Ordering::Relaxed);
        }
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

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use recado_core::SessionId;

    use super::*;

    #[tokio::test]
    async fn a_directory_that_takes_nothing_is_complained_of_until_it_does() {
        let health = HealthState::new(Instant::now());
        // Nobody, whatever they may do, makes a file there.
        let keeper =
            MessageKeeper { shelf: Arc::new(Shelf::new("/proc".into(), 10, 1 << 24)), health: health.clone(), failed: Arc::default() };
        let problems = || health.report(Instant::now()).problems;
        keeper.look();
        assert_eq!(problems(), [""; 0], "there is room, as far as is known");
        let message = Message { session: SessionId(1), party: None, samples: vec![0; 8_000], is_cut: false };
        assert!(matches!(keeper.keep(message.clone()).await, Err(NotKept::Failed(_))));
        keeper.look();
        let said = problems();
        assert!(said.len() == 1 && said[0].starts_with("messages: /proc"), "{said:?}");
        let folder = tempfile::tempdir().unwrap();
        let keeper = MessageKeeper { shelf: Arc::new(Shelf::new(folder.path().to_owned(), 10, 1 << 24)), ..keeper };
        keeper.look();
        assert_eq!((problems().len(), std::fs::read_dir(folder.path()).unwrap().count()), (0, 0));
    }
}
