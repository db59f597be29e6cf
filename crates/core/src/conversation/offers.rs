//! What waits to be told: the asking of the gate, claims, and news of progress.

use std::cmp::Reverse;

use super::barge_in::Why;
use super::effect::{Decision, Effect, Purpose};
use super::input::Content;
use super::playback::{Of, Piece, Playback};
use super::speaking::give_next;
use super::{Conversation, Cx};
use crate::faults::{Fault, fault};
use crate::gate::{self, Asked, Blocker, ChannelSnapshot, DeliveryDecision};
use crate::ids::{DeliveryId, PlaybackId, ResponseId};
use crate::ledger::{self, DeliveryEnvelope, DeliveryKind, Route, SpokenClause};
use crate::policy::Priority;
use crate::time::Time;
use crate::timers::Timer;

/// A delivery that this conversation may tell.
#[derive(Debug)]
pub(super) struct Offer {
    envelope: DeliveryEnvelope,
    /// Since when it waits here.
    since: Time,
    /// The gate's last answer, so that only changes are recorded.
    answered: Option<(DeliveryDecision, Option<Blocker>)>,
    /// Not claimed again before this, after a claim that was not granted.
    not_before: Option<Time>,
}

/// A claim that the ledger has been asked for.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) envelope: DeliveryEnvelope,
    pub(super) route: Route,
    pub(super) since: Time,
    /// Since when it waited to be told.
    pub(super) offered: Time,
    /// Whether the reply waits for it, so that it can ride there.
    holds_reply: bool,
}

/// News of how far an operation is: told where the moment allows it, otherwise dropped.
#[derive(Debug)]
pub(super) struct Update {
    envelope: DeliveryEnvelope,
    text: String,
    since: Time,
}

impl Offer {
    /// What it waits for, as the gate answered last.
    pub(super) fn blocker(&self) -> Option<Blocker> {
        self.answered.and_then(|(_, blocker)| blocker)
    }
}

impl Conversation {
    pub(super) fn offered(&mut self, cx: &mut Cx, envelope: DeliveryEnvelope) {
        if !fault(Fault::ProgressAfterFinal) {
            self.drop_updates(cx, |purpose| matches!(purpose, Purpose::Progress { batch, .. } if *batch == envelope.batch));
        }
        if fault(Fault::DroppedWhileSpeaking) && !self.acoustic.quiet() {
            return;
        }
        let waits = self.offers.get(&envelope.sequence).map(|offer| offer.since);
        let since = self.waited.remove(&envelope.delivery).or(waits).unwrap_or(cx.now);
        self.offers.insert(envelope.sequence, Offer { envelope, since, answered: None, not_before: None });
    }

    /// A delivery is no longer to be told here; one that is being spoken stops at once (I10).
    pub(super) fn withdrawn(&mut self, cx: &mut Cx, delivery: DeliveryId) {
        self.offers.retain(|_, offer| offer.envelope.delivery != delivery);
        self.waited.remove(&delivery);
        if let Some(claim) = self.claim.take_if(|claim| claim.envelope.delivery == delivery) {
            self.give_up(&claim);
        }
        self.closing_not_granted(delivery);
        self.telling.remove(&delivery);
        self.stop_telling(cx, delivery);
        self.drop_updates(cx, |purpose| matches!(purpose, Purpose::Progress { delivery: of, .. } if *of == delivery));
    }

    /// Asks the gate for every delivery: urgent ones first, then the oldest.
    pub(super) fn ask_gate(&mut self, cx: &mut Cx) {
        let mut order: Vec<(Reverse<Priority>, u64)> =
            self.offers.iter().map(|(sequence, offer)| (Reverse(offer.envelope.priority), *sequence)).collect();
        order.sort_unstable();
        for (_, sequence) in order {
            let Some(offer) = self.offers.get_mut(&sequence) else { continue };
            offer.not_before = offer.not_before.filter(|at| *at > cx.now);
            let (envelope, since, waits) = (offer.envelope.clone(), offer.since, offer.not_before.is_some());
            let snapshot = self.snapshot(cx.now);
            let (mut answer, mut blocker) = gate::decide(&self.asked(cx, &envelope, since), &snapshot);
            let speaks = matches!(answer, DeliveryDecision::DeliverNow { .. } | DeliveryDecision::AttachToNextResponse);
            if speaks && (self.delivery_active(&answer) || waits) {
                (answer, blocker) = (DeliveryDecision::QueueAfterPlayback, Some(Blocker::DeliveryActive));
            }
            self.record(cx, sequence, Decision { delivery: envelope.delivery, answer, blocker, snapshot, at: cx.now });
            match answer {
                DeliveryDecision::SuppressAndPersist => {
                    self.offers.remove(&sequence);
                    self.closing_not_granted(envelope.delivery);
                    self.ask_ledger(cx, ledger::Input::Suppress { delivery: envelope.delivery });
                }
                DeliveryDecision::DeliverNow { .. } => self.ask_claim(cx, envelope, since, Route::Announce),
                DeliveryDecision::AttachToNextResponse => self.ask_claim(cx, envelope, since, Route::Ride),
                _ => {}
            }
        }
    }

    fn record(&mut self, cx: &mut Cx, sequence: u64, decision: Decision) {
        let Some(offer) = self.offers.get_mut(&sequence) else { return };
        let answered = (decision.answer, decision.blocker);
        if offer.answered.replace(answered) != Some(answered) {
            cx.out.push(Effect::Decided(decision));
        }
    }

    fn ask_claim(&mut self, cx: &mut Cx, envelope: DeliveryEnvelope, offered: Time, route: Route) {
        let (session, delivery) = (self.channel.session, envelope.delivery);
        // A reply of which some is being said already does not wait: what was asked for has its place in it.
        let holds_reply = route == Route::Ride && self.reply.as_ref().is_some_and(|reply| !reply.audio_released);
        self.claim = Some(Claim { envelope, route, since: cx.now, offered, holds_reply });
        self.ask_ledger(cx, ledger::Input::Claim { session, delivery, route });
    }

    /// The claim is durable. The gate is asked once more; refused now, the claim goes back and no attempt is spent.
    pub(super) fn claimed(&mut self, cx: &mut Cx, delivery: DeliveryId, clauses: Vec<SpokenClause>) {
        let waited = self.offers.values().find(|offer| offer.envelope.delivery == delivery).map(|offer| offer.since);
        self.offers.retain(|_, offer| offer.envelope.delivery != delivery);
        let late = self.given_up.iter().position(|(of, _)| *of == delivery).and_then(|at| self.given_up.remove(at));
        let claim = match self.claim.take() {
            // Of a claim that was given up: it serves the one that was asked for since, if that is for the same route. Its own
            // answer is then the late one.
            Some(claim) if claim.envelope.delivery == delivery && late.is_none_or(|(_, route)| route == claim.route) => {
                self.given_up.extend(late);
                claim
            }
            other => {
                self.claim = other;
                return self.give_back(cx, delivery, waited.unwrap_or(cx.now));
            }
        };
        let snapshot = self.snapshot(cx.now);
        let (answer, blocker) = gate::decide(&self.asked(cx, &claim.envelope, claim.offered), &snapshot);
        cx.out.push(Effect::Decided(Decision { delivery, answer, blocker, snapshot, at: cx.now }));
        let granted = match (claim.route, answer) {
            (Route::Announce, DeliveryDecision::DeliverNow { interrupt }) => {
                if interrupt {
                    self.cut_current(cx, Why::Urgent);
                } else {
                    let shared = self.window_since.filter(|since| cx.now.since(*since) < self.ms(Timer::WindowMax));
                    self.window_since = Some(shared.unwrap_or(cx.now));
                }
                true
            }
            (Route::Ride, DeliveryDecision::AttachToNextResponse) => true,
            _ => false,
        };
        if !granted || clauses.is_empty() {
            self.closing_not_granted(delivery);
            return self.give_back(cx, delivery, claim.offered);
        }
        self.tell(cx, claim, clauses);
    }

    /// Gives a claim back of which nothing was said: the delivery goes on waiting since `since`.
    pub(super) fn give_back(&mut self, cx: &mut Cx, delivery: DeliveryId, since: Time) {
        self.waited.insert(delivery, since);
        self.ask_ledger(cx, ledger::Input::Release { session: self.channel.session, delivery });
    }

    pub(super) fn claim_refused(&mut self, now: Time, delivery: DeliveryId) {
        if fault(Fault::ClaimLatched) {
            return;
        }
        if let Some(at) = self.given_up.iter().position(|(of, _)| *of == delivery) {
            self.given_up.remove(at);
        } else if let Some(claim) = self.claim.take_if(|claim| claim.envelope.delivery == delivery) {
            self.put_off(now, &claim);
        }
    }

    pub(super) fn give_back_overdue_claim(&mut self, cx: &mut Cx) {
        let claim_max = self.ms(Timer::ClaimMax);
        if let Some(claim) = self.claim.take_if(|claim| cx.now.since(claim.since) >= claim_max) {
            self.put_off(cx.now, &claim);
            self.give_up(&claim);
        }
    }

    /// Its answer is still to come: should it be granted after all, it is given back then.
    fn give_up(&mut self, claim: &Claim) {
        if self.given_up.len() >= GIVEN_UP_MAX {
            self.given_up.pop_front();
        }
        self.given_up.push_back((claim.envelope.delivery, claim.route));
    }

    fn put_off(&mut self, now: Time, claim: &Claim) {
        let again = now.plus(self.ms(Timer::ClaimAgain));
        if let Some(offer) = self.offers.get_mut(&claim.envelope.sequence) {
            offer.not_before = Some(again);
        }
        self.closing_not_granted(claim.envelope.delivery);
    }

    /// Whether a delivery waits here to be told to who is on the line, or is being claimed.
    pub(super) fn waits_here(&self, delivery: DeliveryId) -> bool {
        self.offers.values().any(|offer| offer.envelope.delivery == delivery && self.may_hear(offer))
    }

    /// Deliveries that wait here for somebody who is known better.
    pub(super) fn withheld(&self) -> Vec<DeliveryId> {
        self.offers.values().filter(|offer| !self.may_hear(offer)).map(|offer| offer.envelope.delivery).collect()
    }

    /// What the gate is asked about those deliveries that this caller is not known well enough to hear, and when it has been quiet for long enough
    /// for each.
    pub(super) fn withheld_asked(&self, cx: &Cx) -> Vec<(Asked, Time)> {
        let quiet_since = self.quiet_since();
        let withheld = self.offers.values().filter(|offer| !self.may_hear(offer));
        withheld
            .map(|offer| {
                let asked = self.asked(cx, &offer.envelope, offer.since);
                (asked, quiet_since.plus(self.min_quiet_ms(&offer.envelope)))
            })
            .collect()
    }

    /// Whether anything waits here to be told.
    pub(super) fn something_waits(&self) -> bool {
        !self.offers.is_empty()
    }

    fn may_hear(&self, offer: &Offer) -> bool {
        gate::known_well_enough(offer.envelope.audience, self.identity, self.channel.party.is_some())
    }

    /// Whether a delivery is being told as a part of this response.
    pub(super) fn rides_on(&self, delivery: DeliveryId, response: ResponseId) -> bool {
        let of_it = |purpose: &Purpose| matches!(purpose, Purpose::Clause { delivery: of, .. } if *of == delivery);
        let waits = self.reply.as_ref().is_some_and(|reply| reply.response == response && reply.waits_to_say(of_it));
        let sounds = |playback: &Playback| playback.of == Of::Response(response) && playback.says(of_it);
        waits || self.current.as_ref().is_some_and(sounds)
    }

    /// What the gate is asked about a delivery that waits here since `since`.
    fn asked(&self, cx: &Cx, envelope: &DeliveryEnvelope, since: Time) -> Asked {
        let age_ms = match envelope.ready_at {
            Some(ready_at) => Some(cx.now.since(ready_at)),
            // Ready since before this boot: only two synchronised clocks can tell.
            None => cx.wall.age_ms(envelope.ready_wall),
        };
        let asked_for = self.reply.as_ref().is_some_and(|reply| reply.asks_for(envelope.delivery));
        Asked {
            terminal: false,
            stale: matches!((envelope.stale_after_ms, age_ms), (Some(limit), Some(age)) if age > limit && !fault(Fault::StaleTold)),
            priority: envelope.priority,
            can_interrupt: envelope.can_interrupt,
            ride_only: envelope.ride_only,
            audience: envelope.audience,
            min_quiet_ms: self.min_quiet_ms(envelope),
            rides_late: asked_for || cx.now.since(since) >= envelope.max_wait_ms,
            droppable: envelope.kind == DeliveryKind::Progress,
        }
    }

    /// Quiet before something is announced: by its policy, or by its kind.
    fn min_quiet_ms(&self, envelope: &DeliveryEnvelope) -> u64 {
        let timer = if envelope.kind == DeliveryKind::Progress { Timer::MinQuietProgress } else { Timer::MinQuiet };
        envelope.min_quiet_ms.unwrap_or(self.ms(timer))
    }

    pub(super) fn snapshot(&self, now: Time) -> ChannelSnapshot {
        let words_wait = !self.deferred.is_empty();
        let reply_waits = self.reply.as_ref().is_some_and(|reply| reply.audio_released && !reply.queue.is_empty());
        let playing = self.current.as_ref().map(|playback| playback.priority);
        ChannelSnapshot {
            live: self.over.is_none() && !self.voicemail,
            identity: self.identity,
            has_party: self.channel.party.is_some(),
            on_hold: self.on_hold(),
            floor_held: self.floor_held(),
            acoustic: self.acoustic.state,
            turn_open: self.reply.as_ref().is_some_and(|reply| !reply.audio_released) && playing.is_none_or(|_| self.reply_is_queued()),
            playback: playing.or((words_wait || reply_waits).then_some(Priority::Normal)),
            reply_unfinished: self.reply.is_some(),
            quiet_ms: now.since(self.quiet_since()),
            window_open: self.window_since.is_some_and(|since| now.since(since) < self.ms(Timer::WindowMax)),
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
        let waits = self.reply.as_ref().is_some_and(|reply| reply.waits_to_say(clause));
        let speaks = *answer != DeliveryDecision::DeliverNow { interrupt: true }
            && self.current.as_ref().is_some_and(|playback| playback.has_left_to_say(clause));
        self.claim.is_some() || waits || speaks
    }

    /// Until when the reply waits for a delivery that is about to ride on it.
    pub(super) fn ride_hold_ends(&self) -> Option<Time> {
        self.claim.as_ref().filter(|claim| claim.holds_reply).map(|claim| claim.since.plus(self.ms(Timer::RideHoldMax)))
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
        let quiet_since = self.quiet_since();
        self.offers
            .values()
            .flat_map(|offer| {
                let envelope = &offer.envelope;
                let quiet_at = quiet_since.plus(self.min_quiet_ms(envelope));
                let quiet = matches!(offer.answered, Some((_, Some(Blocker::QuietTooShort)))).then_some(quiet_at);
                let limit = envelope.stale_after_ms.filter(|_| !fault(Fault::StaleTold));
                let stale = envelope.ready_at.zip(limit).map(|(ready, limit)| ready.plus(limit.saturating_add(1)));
                // Only a reply that is being said makes it matter whether it has waited for long enough to ride.
                let behind_reply = matches!(offer.answered, Some((DeliveryDecision::QueueAfterPlayback, _))) && self.reply.is_some();
                let overdue = offer.since.plus(envelope.max_wait_ms);
                let overdue = (behind_reply && offer.blocker() != Some(Blocker::DeliveryActive)).then_some(overdue);
                [quiet, offer.not_before, stale, overdue]
            })
            .flatten()
            .min()
    }

    /// News of how far an operation is. The model gets it as context; the caller hears it where the moment allows it.
    pub(super) fn updated(&mut self, cx: &mut Cx, envelope: DeliveryEnvelope, text: String) {
        if self.over.is_some() {
            return;
        }
        cx.out.push(Effect::Update { delivery: envelope.delivery, text: text.clone() });
        if (envelope.kind != DeliveryKind::Progress && !fault(Fault::SilentNewsSaid)) || text.is_empty() {
            return;
        }
        // What comes later about the same operations says it better.
        self.updates.retain(|update| update.envelope.operations != envelope.operations);
        if self.updates.len() >= UPDATES_MAX {
            self.updates.pop_front();
        }
        self.updates.push_back(Update { envelope, text, since: cx.now });
    }

    /// Asks the gate for every piece of news: it is said now, waits a little for quiet, or is dropped.
    pub(super) fn tell_updates(&mut self, cx: &mut Cx) {
        let patience_ms = self.ms(Timer::ProgressMax);
        let mut says = false;
        for update in std::mem::take(&mut self.updates) {
            let snapshot = self.snapshot(cx.now);
            let (mut answer, mut blocker) = gate::decide(&self.asked(cx, &update.envelope, update.since), &snapshot);
            if self.delivery_active(&answer) {
                (answer, blocker) = (DeliveryDecision::Drop, Some(Blocker::DeliveryActive));
            }
            match answer {
                DeliveryDecision::DeliverNow { .. } => {
                    self.say_update(cx, &update);
                    says = true;
                }
                DeliveryDecision::QueueUntilQuiet { .. } if cx.now.since(update.since) < patience_ms => {
                    self.updates.push_back(update);
                    continue;
                }
                _ => answer = DeliveryDecision::Drop,
            }
            cx.out.push(Effect::Decided(Decision { delivery: update.envelope.delivery, answer, blocker, snapshot, at: cx.now }));
        }
        if says {
            // What waited for quiet waits for the end of this from now on.
            self.ask_gate(cx);
        }
    }

    fn say_update(&mut self, cx: &mut Cx, update: &Update) {
        let Update { envelope, text, .. } = update;
        let purpose = Purpose::Progress { delivery: envelope.delivery, batch: envelope.batch };
        let content = Content::Text { text: text.clone(), language: self.channel.language };
        let mut playback = Playback::new(PlaybackId(cx.ids.draw()), Of::Announcement, Priority::Normal);
        playback.to_give.push_back(Piece { purpose, content });
        give_next(cx, &mut playback, self.acoustic.epoch);
        self.current = Some(playback);
    }

    /// When time alone decides about news.
    pub(super) fn updates_due(&self) -> Option<Time> {
        let (quiet_since, patience_ms) = (self.quiet_since(), self.ms(Timer::ProgressMax));
        self.updates.iter().map(|update| quiet_since.plus(self.min_quiet_ms(&update.envelope)).min(update.since.plus(patience_ms))).min()
    }

    /// News that is overtaken is neither said nor said to its end (I19).
    fn drop_updates(&mut self, cx: &mut Cx, overtaken: impl Fn(&Purpose) -> bool) {
        let purpose = |update: &Update| Purpose::Progress { delivery: update.envelope.delivery, batch: update.envelope.batch };
        self.updates.retain(|update| !overtaken(&purpose(update)));
        if self.current.as_ref().is_some_and(|playback| playback.has_left_to_say(overtaken)) {
            self.cut_current(cx, Why::Withdrawn);
        }
    }
}

/// Claims whose answers are still to come at once: a store that leaves so many open answers none of them in time.
const GIVEN_UP_MAX: usize = 64;

/// News that waits for quiet at once: more than anybody wants to hear in the few seconds that it may wait.
const UPDATES_MAX: usize = 16;
