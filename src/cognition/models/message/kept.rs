//! What is known of a message once it has been said, and how long that may take.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::{Keeping, Message, Messages, NotKept};

/// What became of what a caller wanted to leave, for whoever tells them. Never what they said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeftMessage {
    /// It is on the disk.
    Kept {
        /// How long it is (s).
        seconds: u32,
        /// Whether it went on for longer than was wanted, and its end is missing.
        is_cut: bool,
    },
    /// What was said last of it is not kept; what was said before that is, where there was a pause that ended it.
    NotKept {
        /// How long that was (s).
        seconds: u32,
        /// Why not.
        why: WhyNotKept,
    },
    /// The caller said nothing, for too long or until they pressed a key.
    NothingSaid {
        /// The key, or none.
        digits: String,
    },
}

/// Why a message is not kept, as far as a caller is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhyNotKept {
    /// There are as many as there may be.
    Full,
    /// It could not be written, or the disk takes too long.
    NotWritten,
}

impl From<NotKept> for WhyNotKept {
    fn from(error: NotKept) -> Self {
        match error {
            NotKept::Full => Self::Full,
            NotKept::Failed(_) | NotKept::Nobody => Self::NotWritten,
        }
    }
}

/// Has a message kept, where anybody keeps any.
pub fn keeping(messages: Option<&Arc<dyn Messages>>, message: Message) -> Keeping {
    match messages {
        Some(messages) => messages.keep(message),
        None => Box::pin(std::future::ready(Err(NotKept::Nobody))),
    }
}

/// The same for a caller who waits to be told: no longer than this. It may be there all the same, a little later.
pub fn keeping_within(within: Duration, messages: Option<&Arc<dyn Messages>>, message: Message) -> Keeping {
    let keeping = keeping(messages, message);
    Box::pin(async move {
        let late = |_| Err(NotKept::Failed("the disk takes too long".to_owned()));
        timeout(within, keeping).await.unwrap_or_else(late)
    })
}

/// What came of a message that is on its way to the disk; for ever nothing, where none is.
pub async fn finished(keeping: &mut Option<Keeping>) -> Result<(), NotKept> {
    match keeping {
        Some(keeping) => keeping.await,
        None => std::future::pending().await,
    }
}

/// The caller waits no longer to be told what became of a message.
pub const KEPT_WITHIN: Duration = Duration::from_secs(2);
