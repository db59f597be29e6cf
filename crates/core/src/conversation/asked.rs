//! What the caller asks the box itself: what runs for them, and what they were told last. It is said by the box, and nothing that is said so
//! counts as a closing.

use super::barge_in::Why;
use super::effect::{Effect, NamedWork, Purpose};
use super::input::Content;
use super::playback::Piece;
use super::reply::{Asked, Queued};
use super::{Conversation, Cx};
use crate::gate;
use crate::ids::{DeliveryId, OperationId, ResponseId};
use crate::ledger::{self, WorkItem};
use crate::policy::Audience;

/// A closing that was told to its end in this call.
#[derive(Debug)]
pub(super) struct Closing {
    pub(super) text: String,
    pub(super) audience: Audience,
}

impl Conversation {
    /// What of the party's runs, or waits to be told. The model gets it as context; the caller hears it where they have asked.
    pub(super) fn work(&mut self, cx: &mut Cx, asked: bool, work: Vec<WorkItem>) {
        let may = |item: &WorkItem| self.known_well_enough(item.audience);
        let work: Vec<WorkItem> = work.into_iter().filter(may).collect();
        let said = asked.then(|| ledger::say_work(work.iter(), self.channel.language));
        let audience = strictest(work.iter().map(|item| item.audience));
        let work: Vec<NamedWork> = work
            .into_iter()
            .map(|item| NamedWork {
                name: self.name_of_work(item.operation),
                operation: item.operation,
                tool: item.tool,
                arguments: item.arguments,
                age_ms: item.age_ms,
                state: item.state,
            })
            .collect();
        if asked || !work.is_empty() {
            cx.out.push(Effect::Work { work });
        }
        if let Some(text) = said.filter(|_| self.over.is_none()) {
            let content = Content::Text { text, language: self.channel.language };
            let piece = Piece { purpose: Purpose::Information { audience }, content };
            match self.reply.as_mut() {
                Some(reply) => {
                    reply.has_words(cx.now);
                    reply.resolve(&Asked::Work, [piece]);
                }
                None => self.deferred.push_back(piece),
            }
        }
    }

    /// The short name of an operation in this call: `w1` is the first that was told of.
    fn name_of_work(&mut self, operation: OperationId) -> String {
        let known = self.work_names.iter().position(|named| *named == operation);
        let place = known.unwrap_or_else(|| {
            if self.work_names.len() < NAMES_MAX {
                self.work_names.push(operation);
            }
            self.work_names.len().saturating_sub(1)
        });
        match self.work_names.get(place) {
            Some(named) if *named == operation => format!("w{}", place.saturating_add(1)),
            _ => String::new(),
        }
    }

    /// The operation of this short name.
    pub(super) fn named_work(&self, name: &str) -> Option<OperationId> {
        let number: usize = name.trim().strip_prefix(['w', 'W'])?.parse().ok()?;
        self.work_names.get(number.checked_sub(1)?).copied()
    }

    /// The caller wants what they were told last once more.
    pub(super) fn repeat_last(&mut self, cx: &mut Cx, response: ResponseId) {
        let told = self.closing_told();
        let audience = strictest(told.iter().map(|(_, audience)| *audience));
        let text = ledger::say_again(told.map(|(text, _)| text), self.channel.language);
        let content = Content::Text { text, language: self.channel.language };
        self.takes(cx, response, Queued::Piece(Piece { purpose: Purpose::Information { audience }, content }));
    }

    /// The last closing that was told to its end and that who is on the line may hear: also one whose evidence is still awaited.
    fn closing_told(&self) -> Option<(&str, Audience)> {
        let awaited = self.telling.iter().filter(|(delivery, telling)| telling.may_have_been_told() && !self.has_words_left(**delivery));
        let latest = awaited.max_by_key(|(_, telling)| telling.begun()).map(|(_, telling)| (telling.words(), telling.audience()));
        let told = self.last_told.as_ref().map(|closing| (closing.text.as_str(), closing.audience));
        latest.or(told).filter(|(_, audience)| self.known_well_enough(*audience))
    }

    /// Whether anything of a delivery has not left the box.
    fn has_words_left(&self, delivery: DeliveryId) -> bool {
        let of_it = |purpose: &Purpose| matches!(purpose, Purpose::Clause { delivery: of, .. } if *of == delivery);
        let waits = self.reply.as_ref().is_some_and(|reply| reply.waits_to_say(of_it));
        waits || self.current.as_ref().is_some_and(|playback| playback.has_left_to_say(of_it))
    }

    /// The box's own words that may not be said here any more are dropped, wherever they stand: what may not be heard by who is on the line
    /// now (I14), and questions that are over. The rest of what is being said goes on.
    pub(super) fn drop_own_words(&mut self, cx: &mut Cx) {
        let may = self.own_words();
        let may_piece = |piece: &Piece| may.be_said(&piece.purpose);
        if let Some(reply) = self.reply.as_mut() {
            reply.queue.retain(|queued| !matches!(queued, Queued::Piece(piece) if !may_piece(piece)));
            reply.tail.retain(may_piece);
        }
        self.deferred.retain(may_piece);
        self.cut_by_caller.retain(may_piece);
        if self.current.as_ref().is_some_and(|playback| playback.has_left_to_say(|purpose| !may.be_said(purpose))) {
            self.cut_current(cx, Why::Withdrawn);
        }
    }

    /// What the box may say now of its own words.
    pub(super) fn own_words(&self) -> OwnWords {
        OwnWords {
            asked: self.questions().collect(),
            audiences: [Audience::SameParty, Audience::SameCall, Audience::VerifiedParty].map(|of| (of, self.known_well_enough(of))),
        }
    }

    fn known_well_enough(&self, audience: Audience) -> bool {
        !self.voicemail && gate::known_well_enough(audience, self.identity, self.channel.party.is_some())
    }
}

/// What may be said of the box's own words.
#[derive(Debug)]
pub(super) struct OwnWords {
    /// The questions that wait to be said, or to be answered.
    asked: Vec<u64>,
    /// For whom information may be said.
    audiences: [(Audience, bool); 3],
}

impl OwnWords {
    /// Whether what is for this purpose may be said.
    pub(super) fn be_said(&self, purpose: &Purpose) -> bool {
        match purpose {
            Purpose::ReadBack { read_back } => self.asked.contains(read_back),
            Purpose::Information { audience } => self.audiences.contains(&(*audience, true)),
            _ => true,
        }
    }
}

/// Who may hear what is for all of these audiences.
fn strictest(audiences: impl Iterator<Item = Audience>) -> Audience {
    let careful = |audience: &Audience| match audience {
        Audience::SameCall => 0,
        Audience::SameParty => 1,
        Audience::VerifiedParty => 2,
    };
    audiences.max_by_key(careful).unwrap_or(Audience::SameCall)
}

/// Operations of one call that have names: a model that cancels more than that by name is out of hand.
const NAMES_MAX: usize = 256;
