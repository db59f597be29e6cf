//! What the caller asks the box itself: what runs for them, and what they were told last. It is said by the box, and nothing that is said so
//! counts as a closing.

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
            let piece = Piece { purpose: Purpose::Information, content };
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
        let told = self.closing_told().map(str::to_owned);
        let text = ledger::say_again(told.as_deref(), self.channel.language);
        let content = Content::Text { text, language: self.channel.language };
        self.takes(cx, response, Queued::Piece(Piece { purpose: Purpose::Information, content }));
    }

    /// The last closing that was told to its end and that who is on the line may hear: also one whose evidence is still awaited.
    fn closing_told(&self) -> Option<&str> {
        let awaited = self.telling.iter().filter(|(delivery, telling)| telling.may_have_been_told() && !self.has_words_left(**delivery));
        let latest = awaited.max_by_key(|(_, telling)| telling.begun()).map(|(_, telling)| (telling.words(), telling.audience()));
        let told = self.last_told.as_ref().map(|closing| (closing.text.as_str(), closing.audience));
        latest.or(told).filter(|(_, audience)| self.known_well_enough(*audience)).map(|(text, _)| text)
    }

    /// Whether anything of a delivery has not left the box.
    fn has_words_left(&self, delivery: DeliveryId) -> bool {
        let of_it = |purpose: &Purpose| matches!(purpose, Purpose::Clause { delivery: of, .. } if *of == delivery);
        let waits = self.reply.as_ref().is_some_and(|reply| reply.waits_to_say(of_it));
        waits || self.current.as_ref().is_some_and(|playback| playback.has_left_to_say(of_it))
    }

    fn known_well_enough(&self, audience: Audience) -> bool {
        !self.voicemail && gate::known_well_enough(audience, self.identity, self.channel.party.is_some())
    }
}

/// Operations of one call that have names: a model that cancels more than that by name is out of hand.
const NAMES_MAX: usize = 256;
