//! Deliveries being told: what they are made of, where they stop, and what became of each clause.

use std::collections::BTreeMap;

use super::asked::Closing;
use super::barge_in::Why;
use super::effect::{Effect, Measure, MeasureName, Purpose};
use super::input::Content;
use super::offers::Claim;
use super::playback::{Of, Piece, Playback};
use super::reply::{Asked, Queued};
use super::speaking::give_next;
use super::{Conversation, Cx};
use crate::faults::{Fault, fault};
use crate::gate;
use crate::ids::{DeliveryId, PlaybackId};
use crate::ledger::{self, ClauseEvidence, ClauseVerdict, DeliveryEnvelope, Route, SpokenClause};
use crate::policy::{Audience, RidePosition};
use crate::time::Time;

/// A delivery that has been given to the voice.
#[derive(Debug)]
pub(super) struct Telling {
    pub(super) envelope: DeliveryEnvelope,
    /// Since when it waited to be told.
    offered: Time,
    /// What is known of each clause.
    pub(super) clauses: BTreeMap<u32, Option<ClauseVerdict>>,
    /// When the first of its frames was released.
    first_frame: Option<Time>,
    /// Whether its audio could not be made: that spends an attempt, so that it does not go on for ever.
    failed: bool,
    /// Its words, for the model.
    text: String,
}

impl Telling {
    /// Since when it is being said.
    pub(super) fn begun(&self) -> Option<Time> {
        self.first_frame
    }

    /// Whether it was begun, and nothing is known that speaks against its having been heard.
    pub(super) fn may_have_been_told(&self) -> bool {
        self.first_frame.is_some()
            && !self.failed
            && self.clauses.values().all(|verdict| matches!(verdict, None | Some(ClauseVerdict::Heard(_))))
    }

    /// Its words.
    pub(super) fn words(&self) -> &str {
        &self.text
    }

    /// Who may hear it.
    pub(super) fn audience(&self) -> Audience {
        self.envelope.audience
    }
}

impl Conversation {
    pub(super) fn tell(&mut self, cx: &mut Cx, claim: Claim, clauses: Vec<SpokenClause>) {
        let Claim { envelope, route, offered, .. } = claim;
        let (delivery, language, priority) = (envelope.delivery, self.channel.language, envelope.priority);
        let telling = Telling {
            offered,
            clauses: clauses.iter().filter_map(|spoken| spoken.clause).map(|clause| (clause, told_already())).collect(),
            first_frame: None,
            failed: false,
            text: clauses.iter().map(|spoken| spoken.text.as_str()).collect::<Vec<_>>().join(" "),
            envelope,
        };
        let position = telling.envelope.ride;
        self.telling.insert(delivery, telling);
        let pieces = clauses.into_iter().map(|spoken| Piece {
            purpose: Purpose::Clause { delivery, clause: spoken.clause },
            content: Content::Text { text: spoken.text, language },
        });
        match (route, self.reply.as_mut()) {
            (Route::Ride, Some(reply)) if reply.asks_for(delivery) => {
                reply.resolve(&Asked::Closing(delivery), pieces);
            }
            (Route::Ride, Some(reply)) if position == RidePosition::First && !reply.greeting => {
                for piece in pieces.rev() {
                    reply.queue.push_front(Queued::Piece(piece));
                }
            }
            (Route::Ride, Some(reply)) => reply.tail.extend(pieces),
            (_, reply) => {
                if let Some(reply) = reply {
                    // It cuts the very response that asks for it, and is its answer.
                    reply.resolve_nothing(&Asked::Closing(delivery));
                }
                let mut playback = Playback::new(PlaybackId(cx.ids.draw()), Of::Announcement, priority);
                playback.to_give.extend(pieces);
                give_next(cx, &mut playback, self.acoustic.epoch);
                self.current = Some(playback);
            }
        }
    }

    pub(super) fn first_frame(&mut self, cx: &mut Cx, delivery: DeliveryId, at: Time) {
        let session = self.channel.session;
        let Some(telling) = self.telling.get_mut(&delivery) else { return };
        if telling.first_frame.is_some() {
            return;
        }
        telling.first_frame = Some(at);
        // Told again after a cut, it has had its first audio.
        if let Some(ready_at) = telling.envelope.ready_at.filter(|_| telling.envelope.attempt == 0) {
            cx.out.push(Effect::Measured(Measure { name: MeasureName::DeliveryReadyToFirstAudioMs, value: at.since(ready_at) }));
        }
        self.ask_ledger(cx, ledger::Input::FirstFrame { session, delivery });
    }

    /// Nothing more of a delivery is said, wherever it stands; what was said of it is judged as usual.
    pub(super) fn stop_telling(&mut self, cx: &mut Cx, delivery: DeliveryId) {
        let of_it = |purpose: &Purpose| matches!(purpose, Purpose::Clause { delivery: of, .. } if *of == delivery);
        let mut stopped: Vec<Purpose> = Vec::new();
        if let Some(reply) = self.reply.as_mut() {
            let waiting = reply.queue.iter().filter_map(|queued| match queued {
                Queued::Piece(piece) => Some(piece.purpose),
                Queued::Answer { .. } => None,
            });
            stopped.extend(waiting.chain(reply.tail.iter().map(|piece| piece.purpose)).filter(of_it));
            reply.queue.retain(|queued| !matches!(queued, Queued::Piece(piece) if of_it(&piece.purpose)));
            reply.tail.retain(|piece| !of_it(&piece.purpose));
        }
        for purpose in stopped {
            self.unheard(&purpose);
        }
        if self.current.as_ref().is_some_and(|playback| playback.has_left_to_say(of_it)) {
            self.cut_current(cx, Why::Withdrawn);
        }
    }

    /// Deliveries that are with the voice, or about to be.
    pub(super) fn being_told(&self) -> Vec<DeliveryId> {
        self.telling.keys().copied().collect()
    }

    /// Deliveries that are being told to somebody who is not known well enough any more.
    pub(super) fn told_without_right(&self) -> Vec<DeliveryId> {
        let has_party = self.channel.party.is_some();
        let may_not = |telling: &&Telling| !gate::known_well_enough(telling.envelope.audience, self.identity, has_party);
        self.telling.values().filter(may_not).map(|telling| telling.envelope.delivery).collect()
    }

    /// Words that will not be heard. Only a clause's fate matters beyond the conversation.
    pub(super) fn unheard(&mut self, purpose: &Purpose) {
        self.set_verdict(purpose, ClauseVerdict::Unheard);
    }

    pub(super) fn audio_failed(&mut self, purpose: &Purpose) {
        if let Purpose::Clause { delivery, .. } = purpose
            && let Some(telling) = self.telling.get_mut(delivery)
        {
            telling.failed = true;
        }
        self.unheard(purpose);
    }

    pub(super) fn set_verdict(&mut self, purpose: &Purpose, verdict: ClauseVerdict) {
        if let Purpose::Clause { delivery, clause: Some(clause) } = purpose
            && let Some(known) = self.telling.get_mut(delivery).and_then(|telling| telling.clauses.get_mut(clause))
        {
            known.get_or_insert(verdict);
        }
    }

    /// Tells the ledger of each delivery of which every clause is decided.
    pub(super) fn settle_told(&mut self, cx: &mut Cx) {
        let session = self.channel.session;
        let decided: Vec<DeliveryId> =
            self.telling.iter().filter(|(_, telling)| telling.clauses.values().all(Option::is_some)).map(|(id, _)| *id).collect();
        for delivery in decided {
            let Some(telling) = self.telling.remove(&delivery) else { continue };
            // What late evidence decided may be sounding again.
            self.stop_telling(cx, delivery);
            let clauses: Vec<ClauseEvidence> = telling
                .clauses
                .iter()
                .filter_map(|(clause, verdict)| verdict.map(|verdict| ClauseEvidence { clause: *clause, verdict }))
                .collect();
            let unheard = clauses.iter().all(|clause| clause.verdict == ClauseVerdict::Unheard);
            if unheard && telling.first_frame.is_none() && !telling.failed {
                // Nothing of it was released: the claim goes back, no attempt spent.
                self.give_back(cx, delivery, telling.offered);
                continue;
            }
            if clauses.iter().all(|clause| matches!(clause.verdict, ClauseVerdict::Heard(_))) {
                self.last_told = Some(Closing { text: telling.text.clone(), audience: telling.envelope.audience });
                cx.out.push(Effect::Told { delivery, text: telling.text });
            }
            self.ask_ledger(cx, ledger::Input::Settled { session, delivery, clauses });
        }
    }
}

/// What is known of a clause that has just been given to the voice: nothing.
fn told_already() -> Option<ClauseVerdict> {
    fault(Fault::ExposureIsTelling).then_some(ClauseVerdict::Heard(super::input::Evidence::Received))
}
