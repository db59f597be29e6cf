//! The generation clock: one response of the model, from being asked for to its last word being given to the voice.

use std::collections::{BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use super::effect::{Cause, Edge, Purpose};
use super::input::Content;
use super::latency::Latency;
use super::life::Life;
use super::playback::Piece;
use crate::ids::{BatchId, DeliveryId, ResponseId};
use crate::time::Time;
use crate::timers::{Timer, Timers};

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
    /// Whether it answers what the caller said, rather than a key or a silence.
    pub(super) answers_speech: bool,
    /// Whether it answers a turn of the caller's: what they said, or keys.
    pub(super) answers_turn: bool,
    /// Whether its turn held no words.
    pub(super) to_noise: bool,
    /// Whether it wants keys collected.
    pub(super) collects: bool,
    /// When it was asked for.
    asked_at: Time,
    /// Whether the model still answers.
    life: Life,
    /// What waits to be given to the voice, in the model's order.
    pub(super) queue: VecDeque<Queued>,
    /// What is said after everything else of it.
    pub(super) tail: VecDeque<Piece>,
    /// What the caller has waited for so far, while that can be measured.
    pub(super) latency: Option<Latency>,
    /// Whether any of its audio has been released: until then its turn is open.
    pub(super) audio_released: bool,
    /// Whether the model has made anything of it, were it silence.
    pub(super) made: bool,
    /// Whether the model has given the box something to say or to do.
    asks: bool,
    /// When it last asked for an operation of a batch that is to be sealed.
    pub(super) asked_operations: Option<Time>,
    /// Batches whose acceptance has been said: one acceptance per batch.
    pub(super) accepted: BTreeSet<BatchId>,
    /// Whether a refusal has been said.
    pub(super) refused: bool,
    /// What is said, once, where there is no answer.
    pub(super) no_answer: Option<Piece>,
    /// Whether the place of an answer was given up before the ledger had given it: it is said when it comes.
    pub(super) answers_given_up: bool,
    /// Whether the call should end after it.
    pub(super) hang_up: bool,
}

/// One thing that waits to be given to the voice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Queued {
    /// Words.
    Piece(Piece),
    /// The place of what the ledger will answer when it is durable (R1, R4, R6): what follows waits for it. Should the answer
    /// be too long in coming, there may be something to say instead.
    Answer { to: Asked, instead: Option<Piece>, since: Time },
}

/// What the ledger has been asked by a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Asked {
    /// To accept this call of a tool.
    Accept(String),
    /// For the closing of what is asked for again.
    Closing(DeliveryId),
    /// What runs for the caller.
    Work,
    /// To put a wish to cancel on record. Answers name no wish: the first that waits takes the next.
    Cancel,
}

impl Queued {
    /// The words, where there are any yet.
    pub(super) fn piece(self) -> Option<Piece> {
        match self {
            Queued::Piece(piece) => Some(piece),
            Queued::Answer { instead, .. } => instead,
        }
    }

    /// Whether it is the model's own speech, and nothing of it can be heard.
    pub(super) fn is_silence(&self) -> bool {
        matches!(self, Queued::Piece(piece) if piece.content.is_silence())
    }

    fn given_up_at(&self, timers: &Timers) -> Option<Time> {
        let Queued::Answer { to, since, .. } = self else { return None };
        let timer = match to {
            Asked::Accept(_) | Asked::Closing(_) | Asked::Work => Timer::AcceptMax,
            Asked::Cancel => Timer::CancelMax,
        };
        Some(since.plus(timers.ms(timer)))
    }
}

impl Reply {
    pub(super) fn new(response: ResponseId, cause: &Cause, no_answer: Option<Piece>, now: Time) -> Self {
        Self {
            response,
            state: GenerationState::Requested,
            greeting: *cause == Cause::Greeting,
            answers_speech: matches!(cause, Cause::Turn { .. }),
            answers_turn: matches!(cause, Cause::Turn { .. } | Cause::Digit { .. } | Cause::Digits { .. }),
            to_noise: false,
            collects: false,
            asked_at: now,
            life: Life::new(now),
            queue: VecDeque::new(),
            tail: VecDeque::new(),
            latency: None,
            audio_released: false,
            made: false,
            asks: false,
            asked_operations: None,
            accepted: BTreeSet::new(),
            refused: false,
            no_answer,
            answers_given_up: false,
            hang_up: false,
        }
    }

    /// Takes it to another state.
    pub(super) fn to(&mut self, to: GenerationState, edges: &mut Vec<Edge>) {
        let from = std::mem::replace(&mut self.state, to);
        if from != to {
            edges.push(Edge::Generation { response: self.response, from, to });
        }
    }

    /// Takes what the model says, in its order.
    pub(super) fn takes(&mut self, now: Time, queued: Queued) {
        match &queued {
            Queued::Piece(Piece { content: Content::Speech { audible_ms, .. }, .. }) => {
                self.life.sounds(now, *audible_ms, SLOWER_MAX);
            }
            // What the box says in the model's place is not kept waiting by silence that came before.
            Queued::Piece(_) => {
                self.drop_silence();
                self.asks = true;
            }
            Queued::Answer { .. } => self.asks = true,
        }
        self.made = true;
        if matches!(queued, Queued::Piece(_)) && !queued.is_silence() {
            self.has_words(now);
        }
        self.queue.push_back(queued);
    }

    /// Nothing more of the model's own speech comes: the silence at its end is not waited for.
    pub(super) fn drop_silence(&mut self) {
        while self.queue.back().is_some_and(Queued::is_silence) {
            self.queue.pop_back();
        }
    }

    /// Whether it answers: until then its turn has no answer, whatever rides on it. Silence is none, nor is a scrap of speech.
    pub(super) fn answers(&self) -> bool {
        self.asks || self.life.answers()
    }

    /// Whether silence comes next.
    pub(super) fn next_is_silence(&self) -> bool {
        self.queue.front().is_some_and(Queued::is_silence)
    }

    /// The model answers.
    pub(super) fn generates(&mut self, edges: &mut Vec<Edge>) -> &mut Self {
        if self.state == GenerationState::Requested {
            self.to(GenerationState::Generating, edges);
        }
        self
    }

    /// There is something to say.
    pub(super) fn has_words(&mut self, now: Time) {
        self.latency.iter_mut().for_each(|latency| latency.piece(now));
    }

    /// The model has been heard of.
    pub(super) fn heard_of(&mut self, now: Time) {
        self.life.heard_of(now);
    }

    /// Whether more may come from the model.
    pub(super) fn generating(&self) -> bool {
        matches!(self.state, GenerationState::Requested | GenerationState::Generating)
    }

    /// When it is taken for failed, unless the model is heard of.
    pub(super) fn fails_at(&self, timers: &Timers) -> Option<Time> {
        let silent = self.life.since().plus(timers.ms(Timer::GenerationSilentMax));
        self.generating().then(|| silent.min(self.asked_at.plus(timers.ms(Timer::GenerationMax))))
    }

    /// When the batch that it has asked for is sealed, though it goes on.
    pub(super) fn seals_at(&self, timers: &Timers) -> Option<Time> {
        self.asked_operations.map(|at| at.plus(timers.ms(Timer::BatchOpenMax)))
    }

    /// Whether nothing of it is left to be given to the voice, nor will come.
    pub(super) fn exhausted(&self) -> bool {
        !self.generating() && self.queue.is_empty() && self.tail.is_empty()
    }

    /// The next piece for the voice; none while it waits for the model or for the ledger.
    pub(super) fn next_piece(&mut self) -> Option<Piece> {
        match self.queue.pop_front() {
            Some(Queued::Piece(piece)) => Some(piece),
            Some(waiting @ Queued::Answer { .. }) => {
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

    /// When an answer stops holding back what follows it.
    pub(super) fn answer_due(&self, timers: &Timers) -> Option<Time> {
        self.queue.iter().filter_map(|queued| queued.given_up_at(timers)).min()
    }

    /// What follows an answer that the ledger takes too long for goes on.
    pub(super) fn give_up_answers(&mut self, now: Time, timers: &Timers) {
        let queue = std::mem::take(&mut self.queue);
        for queued in queue {
            if queued.given_up_at(timers).is_none_or(|at| at > now) {
                self.queue.push_back(queued);
                continue;
            }
            let instead = match queued {
                Queued::Answer { to: Asked::Cancel, .. } => self.no_answer.take(),
                queued => queued.piece(),
            };
            match instead {
                Some(instead) => self.queue.push_back(Queued::Piece(instead)),
                None => self.answers_given_up = true,
            }
        }
    }

    /// Puts pieces where the answer to `asked` has its place, or at the end where that place was given up.
    pub(super) fn resolve(&mut self, asked: &Asked, pieces: impl IntoIterator<Item = Piece>) {
        let place = self.queue.iter().position(|queued| matches!(queued, Queued::Answer { to, .. } if to == asked));
        let at = place.unwrap_or(self.queue.len());
        let rest = self.queue.split_off(at);
        self.queue.extend(pieces.into_iter().map(Queued::Piece));
        self.queue.extend(rest.into_iter().skip(usize::from(place.is_some())));
    }

    /// Gives up the place of the answer to `asked`: it is answered in another way.
    pub(super) fn resolve_nothing(&mut self, asked: &Asked) {
        self.queue.retain(|queued| !matches!(queued, Queued::Answer { to, .. } if to == asked));
    }

    /// Whether anything for a purpose like this waits to be given to the voice.
    pub(super) fn waits_to_say(&self, purpose: impl Fn(&Purpose) -> bool) -> bool {
        let queued = self.queue.iter().filter_map(|queued| match queued {
            Queued::Piece(piece) => Some(piece),
            Queued::Answer { .. } => None,
        });
        queued.chain(&self.tail).any(|piece| purpose(&piece.purpose))
    }

    /// Whether a closing that was asked for has its place here.
    pub(super) fn asks_for(&self, delivery: DeliveryId) -> bool {
        self.queue.iter().any(|queued| matches!(queued, Queued::Answer { to: Asked::Closing(asked), .. } if *asked == delivery))
    }
}

/// A model's own speech may come so many times slower than it sounds. It is seen in pieces, late; whoever has another model stand by sees all of it, and
/// is less patient.
const SLOWER_MAX: u64 = 12;

/// Pieces of one reply that may wait for the voice: four minutes of a model's own speech, which comes in pieces of 400 ms, and services make up
/// to three and a half at a time. A model that says more is out of hand.
pub(super) const QUEUE_MAX: usize = 640;
