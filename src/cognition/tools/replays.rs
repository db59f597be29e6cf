//! Signed reports that have been taken, so that one that comes again goes nowhere.
//!
//! Who is not sure that a report arrived sends it again, under the same `webhook-id`; so does somebody who has overheard it. Either is answered as the
//! first time, and nothing follows: news are not told twice, and a result that came after one was taken back is not taken back with it.
//!
//! The latest [`TAKEN_MAX`] are known, and none after a restart. What is older is refused for the time that it was signed at, where this box
//! knows the time; and a result that is on record is answered as such by the ledger in any case.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use recado_core::OperationId;
use sha2::{Digest, Sha256};

/// What has been taken, by whose and which message.
#[derive(Debug, Default)]
pub(super) struct Replays(Mutex<Taken>);

#[derive(Debug, Default)]
struct Taken {
    digests: HashMap<Message, Content>,
    /// Oldest first.
    order: VecDeque<Message>,
}

/// The tool, and its name for the message, in one digest: what is kept of each is bounded.
type Message = [u8; 32];
/// The operation and the body, in one digest.
type Content = [u8; 32];

/// What is known of a message that comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// It is new, or as good as new.
    Never,
    /// It has been taken.
    Before,
    /// Another message had this name.
    AsAnother,
}

impl Replays {
    pub fn seen(&self, tool: &str, id: &str, operation: OperationId, body: &[u8]) -> Seen {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match taken.digests.get(&message(tool, id)) {
            None => Seen::Never,
            Some(known) if *known == content(operation, body) => Seen::Before,
            Some(_) => Seen::AsAnother,
        }
    }

    /// It has been taken, and answered so.
    pub fn remember(&self, tool: &str, id: &str, operation: OperationId, body: &[u8]) {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let message = message(tool, id);
        if taken.digests.insert(message, content(operation, body)).is_some() {
            return;
        }
        taken.order.push_back(message);
        if taken.order.len() > TAKEN_MAX
            && let Some(oldest) = taken.order.pop_front()
        {
            taken.digests.remove(&oldest);
        }
    }
}

fn message(tool: &str, id: &str) -> Message {
    // The name of a tool holds no `|`.
    Sha256::digest(format!("{tool}|{id}").as_bytes()).into()
}

fn content(operation: OperationId, body: &[u8]) -> Content {
    Sha256::new().chain_update(operation.to_string()).chain_update(b"|").chain_update(body).finalize().into()
}

/// Many times what a box is told within the five minutes of a signature.
const TAKEN_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_is_known_by_its_tool_its_name_and_what_it_says() {
        let replays = Replays::default();
        assert_eq!(replays.seen("order", "msg_1", OperationId(1), b"a"), Seen::Never);
        replays.remember("order", "msg_1", OperationId(1), b"a");
        assert_eq!(replays.seen("order", "msg_1", OperationId(1), b"a"), Seen::Before);
        assert_eq!(replays.seen("order", "msg_1", OperationId(1), b"b"), Seen::AsAnother);
        assert_eq!(replays.seen("order", "msg_1", OperationId(2), b"a"), Seen::AsAnother);
        assert_eq!(replays.seen("pay", "msg_1", OperationId(1), b"a"), Seen::Never);
    }

    #[test]
    fn the_oldest_gives_way() {
        let replays = Replays::default();
        for n in 0..=TAKEN_MAX {
            replays.remember("order", &n.to_string(), OperationId(1), b"a");
            replays.remember("order", &n.to_string(), OperationId(1), b"a");
        }
        assert_eq!(replays.seen("order", "0", OperationId(1), b"a"), Seen::Never);
        assert_eq!(replays.seen("order", "1", OperationId(1), b"a"), Seen::Before);
        assert_eq!(replays.0.lock().unwrap().digests.len(), TAKEN_MAX);
    }
}
