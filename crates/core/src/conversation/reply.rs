//! The generation clock: one response of the model, from being asked for to its last word being given to the voice.

use std::collections::{BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use super::effect::Cause;
use super::playback::Piece;
use crate::ids::{BatchId, ResponseId};
use crate::time::Time;
use crate::timers;

/// States of a generation. `Complete` says nothing about what was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GenerationState {
    /// Asked for.
    Requested,
    /// The model answers.
    Generating,
    /// The model has ended it.
    Complete,
    /// We ended it.
    Cancelled,
    /// It failed, or was silent for too long.
    Failed,
}

/// The response that is being answered with.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    pub(super) response: ResponseId,
    pub(super) state: GenerationState,
    /// Whether it opens the call: what rides on it comes last, after the greeting.
    pub(super) greeting: bool,
    /// When the model was last heard of.
    last_event: Time,
    /// What waits to be given to the voice, in the model's order.
    pub(super) queue: VecDeque<Queued>,
    /// What is said after everything else of it.
    pub(super) tail: VecDeque<Piece>,
    /// Whether any of its audio has been released: until then its turn is open.
    pub(super) audio_released: bool,
    /// Whether the model has said or asked for anything: until then its turn has no answer, whatever rides on it.
    pub(super) answers: bool,
    /// Whether it asked for operations, whose batch must be sealed.
    pub(super) asked_operations: bool,
    /// Batches whose acceptance has been said: one acceptance per batch.
    pub(super) accepted: BTreeSet<BatchId>,
    /// Whether a refusal has been said.
    pub(super) refused: bool,
    /// Whether the place of an acceptance was given up before the ledger had answered: it is said when it comes.
    pub(super) acceptances_given_up: bool,
    /// Whether the call should end after it.
    pub(super) hang_up: bool,
}

/// One thing that waits to be given to the voice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Queued {
    /// Words.
    Piece(Piece),
    /// The place of an acceptance that is not durable yet (R1): what follows waits for it.
    Acceptance { call_id: String, since: Time },
}

impl Queued {
    /// The words, where there are any yet.
    pub(super) fn piece(self) -> Option<Piece> {
        match self {
            Queued::Piece(piece) => Some(piece),
            Queued::Acceptance { .. } => None,
        }
    }

    fn given_up_at(&self) -> Option<Time> {
        match self {
            Queued::Acceptance { since, .. } => Some(since.plus(timers::ACCEPT_MAX)),
            Queued::Piece(_) => None,
        }
    }
}

impl Reply {
    pub(super) fn new(response: ResponseId, cause: &Cause, now: Time) -> Self {
        Self {
            response,
            state: GenerationState::Requested,
            greeting: *cause == Cause::Greeting,
            last_event: now,
            queue: VecDeque::new(),
            tail: VecDeque::new(),
            audio_released: false,
            answers: false,
            asked_operations: false,
            accepted: BTreeSet::new(),
            refused: false,
            acceptances_given_up: false,
            hang_up: false,
        }
    }

    /// The model has been heard of.
    pub(super) fn event(&mut self, now: Time) {
        self.last_event = now;
        if self.state == GenerationState::Requested {
            self.state = GenerationState::Generating;
        }
    }

    /// Whether more may come from the model.
    pub(super) fn generating(&self) -> bool {
        matches!(self.state, GenerationState::Requested | GenerationState::Generating)
    }

    /// When it is taken for failed, unless the model is heard of.
    pub(super) fn fails_at(&self) -> Option<Time> {
        self.generating().then(|| self.last_event.plus(timers::GENERATION_SILENT_MAX))
    }

    /// Whether nothing of it is left to be given to the voice, nor will come.
    pub(super) fn exhausted(&self) -> bool {
        !self.generating() && self.queue.is_empty() && self.tail.is_empty()
    }

    /// The next piece for the voice; none while it waits for the model or for an acceptance.
    pub(super) fn next_piece(&mut self) -> Option<Piece> {
        match self.queue.pop_front() {
            Some(Queued::Piece(piece)) => Some(piece),
            Some(waiting @ Queued::Acceptance { .. }) => {
                self.queue.push_front(waiting);
                None
            }
            None if self.generating() => None,
            None => self.tail.pop_front(),
        }
    }

    /// The words that it still had to say.
    pub(super) fn into_words(self) -> VecDeque<Piece> {
        self.queue.into_iter().filter_map(Queued::piece).chain(self.tail).collect()
    }

    /// When an acceptance stops holding back what follows it.
    pub(super) fn acceptance_due(&self) -> Option<Time> {
        self.queue.iter().find_map(Queued::given_up_at)
    }

    /// What follows an acceptance that the ledger takes too long for goes on.
    pub(super) fn give_up_acceptances(&mut self, now: Time) {
        let before = self.queue.len();
        self.queue.retain(|queued| queued.given_up_at().is_none_or(|at| at > now));
        self.acceptances_given_up |= self.queue.len() < before;
    }

    /// Puts a piece where the acceptance of `call_id` has its place, or at the end where that place was given up.
    pub(super) fn resolve(&mut self, call_id: &str, piece: Option<Piece>) {
        let place = self.queue.iter().position(|queued| matches!(queued, Queued::Acceptance { call_id: id, .. } if id == call_id));
        match (place, piece) {
            (Some(at), Some(piece)) => {
                if let Some(queued) = self.queue.get_mut(at) {
                    *queued = Queued::Piece(piece);
                }
            }
            (Some(at), None) => {
                self.queue.remove(at);
            }
            (None, Some(piece)) => self.queue.push_back(Queued::Piece(piece)),
            (None, None) => {}
        }
    }
}

/// Pieces of one reply that may wait for the voice: some ten minutes of speech. A model that says more is out of hand.
pub(super) const QUEUE_MAX: usize = 256;
