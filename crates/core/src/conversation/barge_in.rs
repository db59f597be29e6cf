//! Barge-in: selective, and in two steps. Suspicion pauses the voice and cancels nothing; confirmed speech cancels the
//! response and clears the playback. Operations go on.

use std::collections::VecDeque;

use super::acoustic::Movement;
use super::effect::{Cause, Doubt, Edge, Effect, HeardText, Measure, MeasureName, Purpose, Standing};
use super::input::{Acoustic, AcousticEdge, Evidence, SegmentRef};
use super::latency::Latency;
use super::playback::{Of, Piece, Playback, PlaybackState, Segment, Stage};
use super::{Conversation, Cx};
use crate::faults::{Fault, fault};
use crate::ids::{ResponseId, TurnId};
use crate::ledger::{self, ClauseVerdict};
use crate::time::Time;
use crate::timers::Timer;

/// A playback that was told to stop, until the voice says where it did.
#[derive(Debug)]
pub(super) struct Clearing {
    pub(super) playback: Playback,
    pub(super) why: Why,
    pub(super) since: Time,
    /// When the call was put on hold meanwhile: the far end did not listen from then on.
    pub(super) heard_until: Option<Time>,
}

/// What was heard of a response in the playbacks of it that were cut: its rest may go on in another one.
#[derive(Debug, Default)]
pub(super) struct HeardOf {
    ms: u64,
    text: String,
}

impl HeardOf {
    /// Adds so much of a segment, where it is of the response itself.
    pub(super) fn add(&mut self, of: Of, segment: &Segment, heard_ms: u64) {
        if matches!((of, segment.piece.purpose), (Of::Response(of), Purpose::Reply { response }) if of == response) {
            self.ms = self.ms.saturating_add(heard_ms);
            append(&mut self.text, segment.heard(heard_ms));
        }
    }
}

/// Why a playback was told to stop: what becomes of its unheard words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// The caller speaks: they are dropped, unless the turn turns out to be noise.
    Caller,
    /// The caller seemed to speak, and it was noise: they go on.
    Noise,
    /// An urgent delivery takes the floor: they follow it.
    Urgent,
    /// The call was put on hold: they follow it.
    Hold,
    /// The voice refused an announcement before it began, because the caller had begun to make a sound: it goes back.
    Refused,
    /// The voice does not get a segment out: it is given up, and what follows it is said anew.
    Stuck,
    /// A delivery in it may no longer be told: the response's own words go on.
    Withdrawn,
    /// The call is over.
    Over,
}

impl Conversation {
    pub(super) fn acoustic_edge(&mut self, cx: &mut Cx, edge: AcousticEdge) {
        if self.over.is_some() {
            return;
        }
        let from = self.acoustic.state;
        let movement = self.acoustic.edge(edge);
        self.caller_moved(cx, from, movement);
        if movement == Movement::Suspected {
            self.suspected_at = Some(edge.at);
        }
    }

    /// The caller's clock stands in one state for too long.
    pub(super) fn acoustic_overdue(&mut self, cx: &mut Cx) {
        let from = self.acoustic.state;
        let movement = self.acoustic.overdue(cx.now);
        self.caller_moved(cx, from, movement);
    }

    fn caller_moved(&mut self, cx: &mut Cx, from: Acoustic, movement: Movement) {
        let to = self.acoustic.state;
        if from != to {
            cx.edges.push(Edge::Acoustic { from, to });
        }
        match movement {
            Movement::None | Movement::Paused | Movement::WentOn => {}
            Movement::Suspected => {
                if fault(Fault::FalseStartCancels) {
                    self.turn_began(cx);
                }
                self.window_since = None;
                self.stop_measuring();
                if let Some(playback) = &mut self.current {
                    playback.told_to_resume = None;
                }
            }
            Movement::Retracted => self.retracted(cx),
            Movement::TurnBegan => self.turn_began(cx),
            // Only a pause before it says when the caller stopped.
            Movement::TurnEnded => self.turn_ended(cx, from == Acoustic::Trailing),
            Movement::TurnPassed => {
                self.turn_began(cx);
                self.turn_ended(cx, false);
            }
        }
        if to == Acoustic::Trailing && movement != Movement::None {
            // The turn may be over: an answer that is begun now is to know what the request for one will.
            self.tell_provisional(cx);
        }
    }

    /// The suspicion was none: the voice goes on from the sample that it stopped at (I11).
    fn retracted(&mut self, cx: &mut Cx) {
        self.suspected_at = None;
        if let Some(playback) = &mut self.current {
            playback.told_to_resume = (playback.state == PlaybackState::Paused).then_some(cx.now);
            cx.out.push(Effect::Resume { playback: playback.id, epoch: self.acoustic.epoch });
        }
    }

    pub(super) fn turn_began(&mut self, cx: &mut Cx) {
        self.turn = TurnId(cx.ids.draw());
        if fault(Fault::BargeInCancels) {
            self.ask_ledger(cx, ledger::Input::Cancel { session: self.channel.session, tool: None, operation: None, verified: true });
        }
        self.hang_up = None;
        self.window_since = None;
        self.late = None;
        self.verifying.turn_began(cx.now);
        let response = self.reply.as_ref().map(|reply| reply.response);
        let cut = self.current.is_some();
        self.cut_current(cx, Why::Caller);
        let mut left = std::mem::take(&mut self.deferred);
        left.retain(|piece| piece.purpose != Purpose::Identity);
        let unsaid = self.close_reply(cx);
        if let Some(response) = response.filter(|_| !cut)
            && unsaid.iter().any(|piece| matches!(piece.purpose, Purpose::Reply { .. }))
        {
            self.truncate(cx, response);
        }
        left.extend(unsaid);
        self.cut_by_caller = left;
        self.settle_told(cx);
    }

    /// `paused`: when the caller was last heard is known.
    fn turn_ended(&mut self, cx: &mut Cx, paused: bool) {
        self.speech_stopped_at = Some(self.acoustic.last_sound);
        let turn = self.turn;
        // An urgent announcement that was let through over the caller goes on; the reply follows it.
        if self.current.as_ref().is_some_and(|playback| playback.of != Of::Announcement) {
            self.cut_current(cx, Why::Caller);
        }
        if !fault(Fault::TurnUnanswered) {
            self.request(cx, Cause::Turn { turn });
            let delayed = self.current.is_some() || self.on_hold() || !self.acoustic.quiet();
            if let (Some(reply), true, false) = (self.reply.as_mut(), paused, delayed) {
                reply.latency = Some(Latency::new(self.acoustic.last_sound, cx.now));
            }
        }
    }

    /// Something else than the answer's own stages delays it.
    pub(super) fn stop_measuring(&mut self) {
        self.reply.iter_mut().for_each(|reply| reply.latency = None);
    }

    /// Nothing was said in the turn: the reply that it cut goes on at its unheard part.
    pub(super) fn was_noise(&mut self, cx: &mut Cx) {
        self.consent_is_no_noise(cx);
        self.verifying.turn_was_noise();
        for clearing in self.clearing.values_mut().filter(|clearing| clearing.why == Why::Caller) {
            clearing.why = Why::Noise;
        }
        let rest = std::mem::take(&mut self.cut_by_caller);
        self.deferred.extend(rest);
        if let Some(reply) = self.reply.as_mut() {
            reply.to_noise = true;
            reply.latency = None;
        }
    }

    /// Stops what is being said. Needs no commit and waits for none.
    pub(super) fn cut_current(&mut self, cx: &mut Cx, why: Why) {
        let Some(playback) = self.current.take() else { return };
        if let (Why::Caller, Some(suspected), PlaybackState::Playing) = (why, self.suspected_at, playback.state) {
            // The voice did not report a pause: it stops now.
            cx.out.push(Effect::Measured(Measure { name: MeasureName::BargeInToPlaybackStopMs, value: cx.now.since(suspected) }));
        }
        cx.out.push(Effect::Clear { playback: playback.id });
        self.clearing.insert(playback.id, Clearing { playback, why, since: cx.now, heard_until: None });
    }

    /// The voice says where it stopped; `cut` is the segment and how much of it had left (ms).
    pub(super) fn cleared(&mut self, cx: &mut Cx, clearing: Clearing, cut: Option<(u32, u64)>) {
        let begun = if fault(Fault::ClearedIsHeard) { ClauseVerdict::Heard(Evidence::Received) } else { ClauseVerdict::Unheard };
        self.settle_cleared(cx, clearing, cut, begun);
    }

    /// `begun` is the verdict on a clause of which a frame has left, and of whose last one nothing is known.
    fn settle_cleared(&mut self, cx: &mut Cx, clearing: Clearing, cut: Option<(u32, u64)>, begun: ClauseVerdict) {
        let Clearing { mut playback, why, .. } = clearing;
        let in_flight_ms = self.channel.far_buffer_ms;
        let (mut generated_ms, mut heard_ms) = (0, 0);
        let mut of_response = HeardOf::default();
        let mut rest: VecDeque<Piece> = VecDeque::new();
        for (index, segment) in (0u32..).zip(&playback.segments) {
            generated_ms += segment.duration_ms();
            let released_ms = match (segment.stage, cut) {
                (Stage::Sent, _) => {
                    // Evidence settles it; until then all of it counts as heard, provisionally.
                    heard_ms += segment.duration_ms();
                    of_response.add(playback.of, segment, segment.duration_ms());
                    continue;
                }
                (Stage::Lost | Stage::Refused, _) => continue,
                (_, Some((at, released_ms))) if at == index => released_ms,
                (Stage::Playing { released_ms }, None) => released_ms,
                _ => 0,
            };
            // What had left but not arrived, and what lay in the far end's jitter buffer, was not heard.
            let heard_here = match released_ms.saturating_sub(in_flight_ms) {
                _ if fault(Fault::GeneratedIsHistory) => segment.duration_ms(),
                _ if fault(Fault::HeardForgotten) => 0,
                heard_ms => heard_ms,
            };
            heard_ms += heard_here;
            let text = segment.heard(heard_here).to_owned();
            of_response.add(playback.of, segment, heard_here);
            if !text.is_empty() {
                let (segment, purpose) = (SegmentRef { playback: playback.id, index }, segment.piece.purpose);
                let standing = Standing::Settled(Evidence::Sent);
                cx.out.push(Effect::Heard(HeardText { segment, purpose, text, heard_ms: heard_here, standing }));
            }
            let purpose = &segment.piece.purpose;
            if segment.started.is_some() {
                if begun == ClauseVerdict::Uncertain {
                    let segment = SegmentRef { playback: playback.id, index };
                    cx.out.push(Effect::Doubted { segment, doubt: Doubt::ClearUnconfirmed });
                }
                self.set_verdict(purpose, begun);
            }
            if segment.stuck {
                self.audio_failed(purpose);
            } else if matches!(purpose, Purpose::Clause { .. }) {
                self.unheard(purpose);
            } else {
                rest.extend(segment.rest(heard_here));
            }
        }
        rest.append(&mut playback.to_give);
        let rest = self.without_clauses(rest);
        playback.to(PlaybackState::Cleared { heard_ms }, &mut cx.edges);
        if generated_ms > heard_ms {
            cx.out.push(Effect::Measured(Measure { name: MeasureName::CancelledResponseUnheardMs, value: generated_ms - heard_ms }));
        }
        if let Of::Response(response) = playback.of {
            self.heard_more_of(response, of_response);
            if matches!(why, Why::Caller | Why::Noise) {
                self.truncate(cx, response);
            }
        }
        match why {
            Why::Caller => prepend(&mut self.cut_by_caller, rest),
            Why::Over => {}
            Why::Noise | Why::Urgent | Why::Hold | Why::Refused | Why::Stuck | Why::Withdrawn => prepend(&mut self.deferred, rest),
        }
        self.playback_ended = self.playback_ended.max(cx.now);
        self.settle_told(cx);
    }

    /// Adds what was heard of a response in one playback to what was heard of it in those before.
    pub(super) fn heard_more_of(&mut self, response: ResponseId, heard: HeardOf) {
        match self.heard_of.iter_mut().find(|(of, _)| *of == response) {
            Some((_, known)) => {
                known.ms = known.ms.saturating_add(heard.ms);
                append(&mut known.text, &heard.text);
            }
            None => {
                if self.heard_of.len() >= HEARD_OF_MAX {
                    self.heard_of.pop_front();
                }
                self.heard_of.push_back((response, heard));
            }
        }
    }

    /// The model's memory of a response is cut to what was heard of it, over all its playbacks. What the box said itself in
    /// them, acceptances and closings, is none of the model's.
    pub(super) fn truncate(&self, cx: &mut Cx, response: ResponseId) {
        let heard = self.heard_of.iter().find(|(of, _)| *of == response).map(|(_, heard)| heard);
        let (heard_ms, heard_text) = heard.map(|heard| (heard.ms, heard.text.clone())).unwrap_or_default();
        cx.out.push(Effect::Truncate { response, heard_ms, heard_text });
    }

    /// A clear that the voice never confirmed is taken as done where it was last seen; whether more was heard is not known.
    pub(super) fn confirm_overdue_clears(&mut self, cx: &mut Cx) {
        while let Some(id) = self.clearing.iter().find(|(_, c)| cx.now.since(c.since) >= self.ms(Timer::ClearMax)).map(|(id, _)| *id) {
            if let Some(clearing) = self.clearing.remove(&id) {
                self.settle_cleared(cx, clearing, None, ClauseVerdict::Uncertain);
            }
        }
    }
}

fn append(text: &mut String, more: &str) {
    // Clauses bring the white space with them that stood between them.
    if !text.is_empty() && !more.is_empty() && !text.ends_with(char::is_whitespace) && !more.starts_with(char::is_whitespace) {
        text.push(' ');
    }
    text.push_str(more);
}

fn prepend(queue: &mut VecDeque<Piece>, first: VecDeque<Piece>) {
    for piece in first.into_iter().rev() {
        queue.push_front(piece);
    }
}

/// Responses that were cut and whose rest may still be said: the last one, and the one before where its turn was noise.
const HEARD_OF_MAX: usize = 4;
