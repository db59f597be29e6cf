//! A message that a caller leaves, on its way to where it is kept.
//!
//! * `taking`: a message while it is being said.
//! * `kept`: what is known of one afterwards, and how long that may take.

mod kept;
mod taking;

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;

use recado_core::{PartyId, SessionId};

pub(super) use self::kept::{KEPT_WITHIN, finished, keeping, keeping_within};
pub use self::kept::{LeftMessage, WhyNotKept};
pub(super) use self::taking::{MESSAGE_PAUSE_MS, MESSAGE_S, Taking};

/// What a caller has said for somebody else to hear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The conversation.
    pub session: SessionId,
    /// Who said it, where that is known.
    pub party: Option<PartyId>,
    /// How it sounds: 16-bit linear samples at 8 kHz.
    pub samples: Vec<i16>,
    /// Whether it went on for longer than was wanted, and its end is missing.
    pub is_cut: bool,
}

/// Where messages are kept.
pub trait Messages: Send + Sync + Debug {
    /// Keeps a message. Once this says that it is kept, it is there after a power cut.
    fn keep(&self, message: Message) -> Keeping;
}

/// A message on its way to the disk.
pub type Keeping = Pin<Box<dyn Future<Output = Result<(), NotKept>> + Send>>;

/// Why a message is not kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotKept {
    /// There are as many as there may be: listen to some, and delete them.
    #[error("there is no room for another message")]
    Full,
    /// It could not be written: the reason says why.
    #[error("the message could not be written: {0}")]
    Failed(String),
    /// Nobody keeps messages here.
    #[error("nobody keeps messages here")]
    Nobody,
}
