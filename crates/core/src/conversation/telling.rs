//! Deliveries in a conversation: offers, the asking of the gate, claims, and what was told.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::barge_in::Why;
use super::effect::{Decision, Effect, HeardText, Measure, MeasureName, Purpose, ToolStatus};
use super::evidence::{Needs, SentSegment};
use super::input::{Content, Evidence, SegmentRef};
use super::playback::{Of, Piece, Playback};
use super::reply::{GenerationState, Queued};
use super::speaking::give_next;
use super::{Conversation, Cx};
use crate::gate::{self, Asked, Blocker, ChannelSnapshot, DeliveryDecision};
use crate::ids::{DeliveryId, PlaybackId, ResponseId};
use crate::ledger::{self, ClauseEvidence, ClauseVerdict, DeliveryEnvelope, Route, SpokenClause};
use crate::policy::RidePosition;
use crate::time::Time;
use crate::timers;

/// A delivery that this conversation may tell.
#[derive(Debug)]
pub(super) struct Offer {
    envelope: DeliveryEnvelope,
    /// The gate's last answer, so that only changes are recorded.
    answered: Option<(DeliveryDecision, Option<Blocker>)>,
    /// Not claimed again before this, after a claim that was not granted.
    not_before: Option<Time>,
}

/// A claim that the ledger has been asked for.
#[derive(Debug)]
pub(super) struct Claim {
    envelope: DeliveryEnvelope,
    pub(super) route: Route,
    pub(super) since: Time,
    /// Whether the reply waits for it, so that it can ride there.
    holds_reply: bool,
}

/// A delivery that has been given to the voice.
#[derive(Debug)]
pub(super) struct Telling {
    envelope: DeliveryEnvelope,
    /// What is known of each clause.
    clauses: BTreeMap<u32, Option<ClauseVerdict>>,
    /// Whether any of its frames has been released.
    first_frame: bool,
    /// Whether its audio could not be made: that spends an attempt, so that it does not go on for ever.
    failed: bool,
    /// Its words, for the model.
    text: String,
}

/// A segment that has left the box and waits for evidence.
#[derive(Debug)]
pub(super) struct Awaiting {
    segment: SegmentRef,
    piece: Piece,
    sent: SentSegment,
    needs: Needs,
    /// Whether it was settled as uncertain; a late report may still decide it.
    pub(super) settled: bool,
}

impl Conversation {
    pub(super) fn offered(&mut self, envelope: DeliveryEnvelope) {
        self.offers.insert(envelope.sequence, Offer { envelope, answered: None, not_before: None });
    }

    /// A delivery is no longer to be told here; one that is being spoken stops at once (I10).
    pub(super) fn withdrawn(&mut self, cx: &mut Cx, delivery: DeliveryId) {
        self.offers.retain(|_, offer| offer.envelope.delivery != delivery);
        self.claim = self.claim.take().filter(|claim| claim.envelope.delivery != delivery);
        self.telling.remove(&delivery);
        let of_it = |purpose: &Purpose| matches!(purpose, Purpose::Clause { delivery: of, .. } if *of == delivery);
        if let Some(reply) = self.reply.as_mut() {
            reply.queue.retain(|queued| !matches!(queued, Queued::Piece(piece) if of_it(&piece.purpose)));
            reply.tail.retain(|piece| !of_it(&piece.purpose));
        }
        if self.current.as_ref().is_some_and(|playback| playback.has_left_to_say(of_it)) {
            self.cut_current(cx, Why::Withdrawn);
        }
    }

    /// Asks the gate for every delivery: urgent ones first, then the oldest.
    pub(super) fn ask_gate(&mut self, cx: &mut Cx) {
        let mut order: Vec<(Reverse<crate::policy::Priority>, u64)> =
            self.offers.iter().map(|(sequence, offer)| (Reverse(offer.envelope.priority), *sequence)).collect();
        order.sort_unstable();
        for (_, sequence) in order {
            let Some(offer) = self.offers.get_mut(&sequence) else { continue };
            offer.not_before = offer.not_before.filter(|at| *at > cx.now);
            let (envelope, waits) = (offer.envelope.clone(), offer.not_before.is_some());
            let (mut answer, mut blocker) = gate::decide(&self.asked(cx, &envelope), &self.snapshot(cx.now));
            let speaks = matches!(answer, DeliveryDecision::DeliverNow { .. } | DeliveryDecision::AttachToNextResponse);
            if speaks && (self.delivery_active(&answer) || waits) {
                (answer, blocker) = (DeliveryDecision::QueueAfterPlayback, Some(Blocker::DeliveryActive));
            }
            self.record(cx, sequence, answer, blocker);
            match answer {
                DeliveryDecision::SuppressAndPersist => {
                    self.offers.remove(&sequence);
                    self.ask_ledger(cx, ledger::Input::Suppress { delivery: envelope.delivery });
                }
                DeliveryDecision::DeliverNow { .. } => self.ask_claim(cx, envelope, Route::Announce),
                DeliveryDecision::AttachToNextResponse => self.ask_claim(cx, envelope, Route::Ride),
                _ => {}
            }
        }
    }

    fn record(&mut self, cx: &mut Cx, sequence: u64, answer: DeliveryDecision, blocker: Option<Blocker>) {
        let Some(offer) = self.offers.get_mut(&sequence) else { return };
        if offer.answered.replace((answer, blocker)) != Some((answer, blocker)) {
            cx.out.push(Effect::Decided(Decision { delivery: offer.envelope.delivery, answer, blocker, at: cx.now }));
        }
    }

    fn ask_claim(&mut self, cx: &mut Cx, envelope: DeliveryEnvelope, route: Route) {
        let (session, delivery) = (self.channel.session, envelope.delivery);
        self.claim = Some(Claim { envelope, route, since: cx.now, holds_reply: route == Route::Ride });
        self.ask_ledger(cx, ledger::Input::Claim { session, delivery, route });
    }

    /// The claim is durable. The gate is asked once more; refused now, the claim goes back and no attempt is spent.
    pub(super) fn claimed(&mut self, cx: &mut Cx, delivery: DeliveryId, clauses: Vec<SpokenClause>) {
        self.offers.retain(|_, offer| offer.envelope.delivery != delivery);
        let session = self.channel.session;
        let claim = match self.claim.take() {
            Some(claim) if claim.envelope.delivery == delivery => claim,
            other => {
                self.claim = other;
                return self.ask_ledger(cx, ledger::Input::Release { session, delivery });
            }
        };
        let (answer, blocker) = gate::decide(&self.asked(cx, &claim.envelope), &self.snapshot(cx.now));
        cx.out.push(Effect::Decided(Decision { delivery, answer, blocker, at: cx.now }));
        let granted = match (claim.route, answer) {
            (Route::Announce, DeliveryDecision::DeliverNow { interrupt }) => {
                if interrupt {
                    self.cut_current(cx, Why::Urgent);
                } else {
                    self.window_since.get_or_insert(cx.now);
                }
                true
            }
            (Route::Ride, DeliveryDecision::AttachToNextResponse) => true,
            _ => false,
        };
        if !granted || clauses.is_empty() {
            return self.ask_ledger(cx, ledger::Input::Release { session, delivery });
        }
        self.tell(cx, claim, clauses);
    }

    fn tell(&mut self, cx: &mut Cx, claim: Claim, clauses: Vec<SpokenClause>) {
        let Claim { envelope, route, .. } = claim;
        let (delivery, language, priority) = (envelope.delivery, self.channel.language, envelope.priority);
        let telling = Telling {
            clauses: clauses.iter().filter_map(|spoken| spoken.clause).map(|clause| (clause, None)).collect(),
            first_frame: false,
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
            (Route::Ride, Some(reply)) if position == RidePosition::First && !reply.greeting => {
                for piece in pieces.rev() {
                    reply.queue.push_front(Queued::Piece(piece));
                }
            }
            (Route::Ride, Some(reply)) => reply.tail.extend(pieces),
            _ => {
                let mut playback = Playback::new(PlaybackId(cx.ids.draw()), Of::Announcement, priority);
                playback.to_give.extend(pieces);
                give_next(cx, &mut playback, self.acoustic.epoch);
                self.current = Some(playback);
            }
        }
    }

    pub(super) fn claim_refused(&mut self, now: Time, delivery: DeliveryId) {
        if let Some(claim) = self.claim.take_if(|claim| claim.envelope.delivery == delivery) {
            self.put_off(now, claim.envelope.sequence);
        }
    }

    pub(super) fn give_back_overdue_claim(&mut self, cx: &mut Cx) {
        if let Some(claim) = self.claim.take_if(|claim| cx.now.since(claim.since) >= timers::CLAIM_MAX) {
            // Should it be granted after all, it is given back then.
            self.put_off(cx.now, claim.envelope.sequence);
        }
    }

    fn put_off(&mut self, now: Time, sequence: u64) {
        if let Some(offer) = self.offers.get_mut(&sequence) {
            offer.not_before = Some(now.plus(timers::CLAIM_AGAIN));
        }
    }

    pub(super) fn first_frame(&mut self, cx: &mut Cx, delivery: DeliveryId, at: Time) {
        let session = self.channel.session;
        let Some(telling) = self.telling.get_mut(&delivery) else { return };
        if std::mem::replace(&mut telling.first_frame, true) {
            return;
        }
        // Told again after a cut, it has had its first audio.
        if let Some(ready_at) = telling.envelope.ready_at.filter(|_| telling.envelope.attempt == 0) {
            cx.out.push(Effect::Measured(Measure { name: MeasureName::DeliveryReadyToFirstAudioMs, value: at.since(ready_at) }));
        }
        self.ask_ledger(cx, ledger::Input::FirstFrame { session, delivery });
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
            let clauses: Vec<ClauseEvidence> = telling
                .clauses
                .iter()
                .filter_map(|(clause, verdict)| verdict.map(|verdict| ClauseEvidence { clause: *clause, verdict }))
                .collect();
            let unheard = clauses.iter().all(|clause| clause.verdict == ClauseVerdict::Unheard);
            if unheard && !telling.first_frame && !telling.failed {
                // Nothing of it was released: the claim goes back, no attempt spent.
                self.ask_ledger(cx, ledger::Input::Release { session, delivery });
                continue;
            }
            if clauses.iter().all(|clause| matches!(clause.verdict, ClauseVerdict::Heard(_))) {
                cx.out.push(Effect::Told { delivery, text: telling.text });
            }
            self.ask_ledger(cx, ledger::Input::Settled { session, delivery, clauses });
        }
    }

    pub(super) fn await_evidence(&mut self, segment: SegmentRef, piece: Piece, sent: SentSegment) {
        let strict = match &piece.purpose {
            Purpose::Clause { delivery, .. } => self.telling.get(delivery).is_some_and(|telling| telling.envelope.strict),
            _ => false,
        };
        let needs = Needs { best: self.channel.best, strict, grace_ms: self.channel.far_buffer_ms };
        if self.awaiting.len() >= AWAITING_MAX {
            let oldest = self.awaiting.remove(0);
            if !oldest.settled {
                self.set_verdict(&oldest.piece.purpose, ClauseVerdict::Uncertain);
            }
        }
        self.awaiting.push(Awaiting { segment, piece, sent, needs, settled: false });
    }

    pub(super) fn settles_at(&self, awaiting: &Awaiting) -> Option<Time> {
        let at = awaiting.sent.settles_at(&awaiting.needs);
        let at = self.over.map_or(at, |over| at.min(over.plus(timers::EVIDENCE_AFTER_END)));
        (!awaiting.settled).then_some(at)
    }

    pub(super) fn settle_evidence(&mut self, cx: &mut Cx) {
        let mut waiting = std::mem::take(&mut self.awaiting);
        // A far end of which nothing was heard any more may have been gone since then.
        let end = self.silent_since.unwrap_or(cx.now).min(self.over.unwrap_or(cx.now));
        waiting.retain_mut(|awaiting| {
            let due = self.settles_at(awaiting).is_some_and(|at| at <= cx.now);
            let by_report = if awaiting.needs.best > Evidence::Sent { self.reports.verdict(&awaiting.sent) } else { None };
            let verdict = match by_report {
                Some(verdict) => verdict,
                None if due => self.reports.verdict_without(&awaiting.sent, &awaiting.needs, end),
                None => return cx.now.since(awaiting.sent.sent_at) < timers::EVIDENCE_LATE_MAX,
            };
            self.decide_segment(cx, awaiting, verdict)
        });
        self.awaiting = waiting;
        self.settle_told(cx);
    }

    /// Records the verdict on a segment; whether it goes on waiting for late evidence.
    fn decide_segment(&mut self, cx: &mut Cx, awaiting: &mut Awaiting, verdict: ClauseVerdict) -> bool {
        let purpose = awaiting.piece.purpose;
        match verdict {
            ClauseVerdict::Heard(_) => {
                let text = awaiting.piece.content.text().to_owned();
                cx.out.push(Effect::Heard(HeardText { segment: awaiting.segment, text, heard_ms: awaiting.sent.duration_ms }));
                if awaiting.settled {
                    self.heard_late(cx, &purpose, verdict);
                } else {
                    self.set_verdict(&purpose, verdict);
                }
                false
            }
            ClauseVerdict::Uncertain | ClauseVerdict::Unheard => {
                if !awaiting.settled {
                    awaiting.settled = true;
                    self.set_verdict(&purpose, verdict);
                }
                cx.now.since(awaiting.sent.sent_at) < timers::EVIDENCE_LATE_MAX
            }
        }
    }

    /// Late evidence of its own generation still counts, and stops a repeat that is under way.
    fn heard_late(&mut self, cx: &mut Cx, purpose: &Purpose, verdict: ClauseVerdict) {
        let Purpose::Clause { delivery, clause: Some(clause) } = *purpose else { return };
        let repeated = self.telling.get_mut(&delivery).and_then(|telling| telling.clauses.get_mut(&clause));
        let Some(known) = repeated else {
            let (session, clauses) = (self.channel.session, vec![ClauseEvidence { clause, verdict }]);
            return self.ask_ledger(cx, ledger::Input::Settled { session, delivery, clauses });
        };
        // The claim is the repeat's now: what is known belongs to its account.
        *known = Some(verdict);
        let heard = |known: &Option<ClauseVerdict>| matches!(known, Some(ClauseVerdict::Heard(_)));
        if self.telling.get(&delivery).is_some_and(|telling| telling.clauses.values().all(heard)) {
            self.settle_told(cx);
            self.withdrawn(cx, delivery);
        }
    }

    pub(super) fn accepted(&mut self, cx: &mut Cx, acceptance: ledger::Acceptance) {
        let ledger::Acceptance { call_id, response, operation, batch, repeated, say } = acceptance;
        let status = if repeated { ToolStatus::AlreadyRunning } else { ToolStatus::Running };
        cx.out.push(Effect::ToolOutput { call_id: call_id.clone(), operation: Some(operation), status });
        let language = self.channel.language;
        let Some(reply) = self.reply_being_answered(response) else { return };
        let first = reply.accepted.insert(batch);
        let content = Content::Text { text: say, language };
        reply.resolve(&call_id, first.then_some(Piece { purpose: Purpose::Acceptance { batch }, content }));
        self.say_late();
    }

    pub(super) fn refused(&mut self, cx: &mut Cx, call_id: &str, response: ResponseId, say: String) {
        cx.out.push(Effect::ToolOutput { call_id: call_id.to_owned(), operation: None, status: ToolStatus::Refused });
        let language = self.channel.language;
        let Some(reply) = self.reply_being_answered(response) else { return };
        let first = !std::mem::replace(&mut reply.refused, true);
        reply.resolve(call_id, first.then_some(Piece { purpose: Purpose::Refusal, content: Content::Text { text: say, language } }));
        self.say_late();
    }

    /// The reply to which the ledger's answer belongs: the one that is being said, or the last one if it went without.
    fn reply_being_answered(&mut self, response: ResponseId) -> Option<&mut super::reply::Reply> {
        let replies = [self.reply.as_mut(), self.late.as_mut()];
        replies.into_iter().flatten().find(|reply| reply.response == response && reply.state != GenerationState::Cancelled)
    }

    /// What the ledger answered after the reply had ended is said all the same.
    fn say_late(&mut self) {
        let late = self.late.as_mut().map(|late| std::mem::take(&mut late.queue)).unwrap_or_default();
        self.deferred.extend(late.into_iter().filter_map(Queued::piece));
    }

    fn asked(&self, cx: &Cx, envelope: &DeliveryEnvelope) -> Asked {
        let age_ms = match envelope.ready_at {
            Some(ready_at) => Some(cx.now.since(ready_at)),
            // Ready since before this boot: only two synchronised clocks can tell.
            None => cx.wall.age_ms(envelope.ready_wall),
        };
        Asked {
            terminal: false,
            stale: matches!((envelope.stale_after_ms, age_ms), (Some(limit), Some(age)) if age > limit),
            priority: envelope.priority,
            can_interrupt: envelope.can_interrupt,
            ride_only: envelope.ride_only,
        }
    }

    fn snapshot(&self, now: Time) -> ChannelSnapshot {
        let words_wait = !self.deferred.is_empty();
        let reply_waits = self.reply.as_ref().is_some_and(|reply| reply.audio_released && !reply.queue.is_empty());
        let playing = self.current.as_ref().map(|playback| playback.priority);
        ChannelSnapshot {
            live: self.over.is_none(),
            identified: true,
            on_hold: self.on_hold,
            floor_held: self.floor_held,
            acoustic: self.acoustic.state,
            turn_open: self.reply.as_ref().is_some_and(|reply| !reply.audio_released) && playing.is_none_or(|_| self.reply_is_queued()),
            playback: playing.or((words_wait || reply_waits).then_some(crate::policy::Priority::Normal)),
            reply_unfinished: self.reply.is_some(),
            quiet_ms: now.since(self.quiet_since()),
            window_open: self.window_since.is_some_and(|since| now.since(since) < timers::WINDOW_MAX),
            min_quiet_ms: self.settings.min_quiet_ms,
        }
    }

    /// Whether what the voice has is the reply itself, none of it released yet.
    fn reply_is_queued(&self) -> bool {
        match (&self.current, &self.reply) {
            (Some(playback), Some(reply)) => playback.of == Of::Response(reply.response),
            _ => false,
        }
    }

    /// Whether another delivery is being claimed, waits to be spoken, or is being spoken. An urgent one may cut the latter.
    fn delivery_active(&self, answer: &DeliveryDecision) -> bool {
        let clause = |purpose: &Purpose| matches!(purpose, Purpose::Clause { .. });
        let waits = self.reply.as_ref().is_some_and(|reply| {
            reply.tail.iter().any(|piece| clause(&piece.purpose))
                || reply.queue.iter().any(|queued| matches!(queued, Queued::Piece(piece) if clause(&piece.purpose)))
        });
        let speaks = *answer != DeliveryDecision::DeliverNow { interrupt: true }
            && self.current.as_ref().is_some_and(|playback| playback.has_left_to_say(clause));
        self.claim.is_some() || waits || speaks
    }

    /// Until when the reply waits for a delivery that is about to ride on it.
    pub(super) fn ride_hold_ends(&self) -> Option<Time> {
        self.claim.as_ref().filter(|claim| claim.holds_reply).map(|claim| claim.since.plus(timers::RIDE_HOLD_MAX))
    }

    /// The reply goes without what was to ride on it.
    pub(super) fn end_ride_hold(&mut self, now: Time) {
        if self.ride_hold_ends().is_some_and(|ends| ends <= now)
            && let Some(claim) = self.claim.as_mut()
        {
            claim.holds_reply = false;
        }
    }

    /// When time alone may change an answer of the gate.
    pub(super) fn gate_due(&self) -> Option<Time> {
        let quiet_at = self.quiet_since().plus(self.settings.min_quiet_ms);
        self.offers
            .values()
            .flat_map(|offer| {
                let quiet = matches!(offer.answered, Some((_, Some(Blocker::QuietTooShort)))).then_some(quiet_at);
                let stale =
                    offer.envelope.ready_at.zip(offer.envelope.stale_after_ms).map(|(ready, limit)| ready.plus(limit.saturating_add(1)));
                [quiet, offer.not_before, stale]
            })
            .flatten()
            .min()
    }
}

/// Segments that may wait for evidence at once. A segment is seldom shorter than a second, and waits at most sixteen.
const AWAITING_MAX: usize = 256;
