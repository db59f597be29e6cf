//! Barge-in: selective, and in two steps. Suspicion pauses the voice and cancels nothing; confirmed speech cancels the
//! response and clears the playback. Operations go on.

use std::collections::VecDeque;

use super::acoustic::Movement;
use super::effect::{Cause, Effect, HeardText, Measure, MeasureName, Purpose};
use super::input::{AcousticEdge, SegmentRef};
use super::playback::{Of, Piece, Playback, PlaybackState, Stage};
use super::{Conversation, Cx};
use crate::ids::TurnId;
use crate::ledger::ClauseVerdict;
use crate::time::Time;
use crate::timers;

/// A playback that was told to stop, until the voice says where it did.
#[derive(Debug)]
pub(super) struct Clearing {
    pub(super) playback: Playback,
    pub(super) why: Why,
    pub(super) since: Time,
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
        match self.acoustic.edge(edge) {
            Movement::None | Movement::Paused | Movement::WentOn => {}
            Movement::Suspected => {
                self.suspected_at = Some(edge.at);
                self.window_since = None;
            }
            Movement::Retracted => self.retracted(cx),
            Movement::TurnBegan => self.turn_began(cx),
            Movement::TurnEnded => {
                self.speech_stopped_at = Some(self.acoustic.last_sound);
                let turn = self.turn;
                // An urgent announcement that was let through over the caller goes on; the reply follows it.
                if self.current.as_ref().is_some_and(|playback| playback.of != Of::Announcement) {
                    self.cut_current(cx, Why::Caller);
                }
                self.request(cx, Cause::Turn { turn });
            }
        }
    }

    /// The suspicion was none: the voice goes on from the sample that it stopped at (I11).
    pub(super) fn retracted(&mut self, cx: &mut Cx) {
        self.suspected_at = None;
        if let Some(playback) = &self.current {
            cx.out.push(Effect::Resume { playback: playback.id, epoch: self.acoustic.epoch });
        }
    }

    fn turn_began(&mut self, cx: &mut Cx) {
        self.turn = TurnId(cx.ids.draw());
        self.hang_up = None;
        self.window_since = None;
        self.late = None;
        self.cut_current(cx, Why::Caller);
        let mut left = std::mem::take(&mut self.deferred);
        left.extend(self.close_reply(cx));
        self.cut_by_caller = left;
        self.settle_told(cx);
    }

    /// Nothing was said in the turn: the reply that it cut goes on at its unheard part.
    pub(super) fn was_noise(&mut self) {
        for clearing in self.clearing.values_mut().filter(|clearing| clearing.why == Why::Caller) {
            clearing.why = Why::Noise;
        }
        let rest = std::mem::take(&mut self.cut_by_caller);
        self.deferred.extend(rest);
    }

    /// A key is a turn of its own: it cuts the voice and is answered.
    pub(super) fn digit(&mut self, cx: &mut Cx, digit: char) {
        if self.over.is_some() {
            return;
        }
        self.turn_began(cx);
        let turn = self.turn;
        self.speech_stopped_at = Some(cx.now);
        self.request(cx, Cause::Digit { turn, digit });
    }

    /// Stops what is being said. Needs no commit and waits for none.
    pub(super) fn cut_current(&mut self, cx: &mut Cx, why: Why) {
        let Some(playback) = self.current.take() else { return };
        if let (Why::Caller, Some(suspected), PlaybackState::Playing) = (why, self.suspected_at, playback.state) {
            // The voice did not report a pause: it stops now.
            cx.out.push(Effect::Measured(Measure { name: MeasureName::BargeInToPlaybackStopMs, value: cx.now.since(suspected) }));
        }
        cx.out.push(Effect::Clear { playback: playback.id });
        self.clearing.insert(playback.id, Clearing { playback, why, since: cx.now });
    }

    /// The voice says where it stopped; `cut` is the segment and how much of it had left (ms).
    pub(super) fn cleared(&mut self, cx: &mut Cx, clearing: Clearing, cut: Option<(u32, u64)>) {
        self.settle_cleared(cx, clearing, cut, ClauseVerdict::Unheard);
    }

    /// `begun` is the verdict on a clause of which a frame has left, and of whose last one nothing is known.
    fn settle_cleared(&mut self, cx: &mut Cx, clearing: Clearing, cut: Option<(u32, u64)>, begun: ClauseVerdict) {
        let Clearing { playback, why, .. } = clearing;
        let in_flight_ms = self.channel.far_buffer_ms;
        let (mut generated_ms, mut heard_ms, mut heard_words) = (0, 0, String::new());
        let mut rest: VecDeque<Piece> = VecDeque::new();
        for (index, segment) in (0u32..).zip(&playback.segments) {
            generated_ms += segment.duration_ms();
            let released_ms = match (segment.stage, cut) {
                (Stage::Sent, _) => {
                    // Evidence settles it; until then all of it counts as heard, provisionally.
                    heard_ms += segment.duration_ms();
                    append(&mut heard_words, segment.piece.content.text());
                    continue;
                }
                (Stage::Lost | Stage::Refused, _) => continue,
                (_, Some((at, released_ms))) if at == index => released_ms,
                (Stage::Playing { released_ms }, None) => released_ms,
                _ => 0,
            };
            // What had left but not arrived, and what lay in the far end's jitter buffer, was not heard.
            let heard_here = released_ms.saturating_sub(in_flight_ms);
            heard_ms += heard_here;
            let text = segment.heard(heard_here).to_owned();
            append(&mut heard_words, &text);
            if !text.is_empty() {
                let segment = SegmentRef { playback: playback.id, index };
                cx.out.push(Effect::Heard(HeardText { segment, text, heard_ms: heard_here }));
            }
            let purpose = &segment.piece.purpose;
            if segment.started.is_some() {
                self.set_verdict(purpose, begun);
            }
            if segment.stuck {
                self.audio_failed(purpose);
            } else if let Purpose::Clause { .. } = purpose {
                self.unheard(purpose);
            } else {
                rest.extend(segment.rest(heard_here));
            }
        }
        let not_given = self.without_clauses(playback.to_give);
        rest.extend(not_given);
        if generated_ms > heard_ms {
            cx.out.push(Effect::Measured(Measure { name: MeasureName::CancelledResponseUnheardMs, value: generated_ms - heard_ms }));
        }
        if let (Of::Response(response), Why::Caller | Why::Noise) = (playback.of, why) {
            cx.out.push(Effect::Truncate { response, heard_ms, heard_text: heard_words });
        }
        match why {
            Why::Caller => prepend(&mut self.cut_by_caller, rest),
            Why::Over => {}
            Why::Noise | Why::Urgent | Why::Hold | Why::Refused | Why::Stuck | Why::Withdrawn => prepend(&mut self.deferred, rest),
        }
        self.playback_ended = self.playback_ended.max(cx.now);
        self.settle_told(cx);
    }

    /// A clear that the voice never confirmed is taken as done where it was last seen; whether more was heard is not known.
    pub(super) fn confirm_overdue_clears(&mut self, cx: &mut Cx) {
        while let Some(id) = self.clearing.iter().find(|(_, c)| cx.now.since(c.since) >= timers::CLEAR_MAX).map(|(id, _)| *id) {
            if let Some(clearing) = self.clearing.remove(&id) {
                self.settle_cleared(cx, clearing, None, ClauseVerdict::Uncertain);
            }
        }
    }
}

fn append(text: &mut String, more: &str) {
    if !text.is_empty() && !more.is_empty() {
        text.push(' ');
    }
    text.push_str(more);
}

fn prepend(queue: &mut VecDeque<Piece>, first: VecDeque<Piece>) {
    for piece in first.into_iter().rev() {
        queue.push_front(piece);
    }
}
