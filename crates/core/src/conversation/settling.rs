//! Segments that have left the box, from there to being settled: what the model is told of them meanwhile, and the evidence
//! that decides.

use super::effect::{Doubt, Effect, HeardText, Purpose, Standing};
use super::evidence::{Needs, SentSegment, Verdict};
use super::input::{Evidence, Mark, SegmentRef};
use super::playback::{Piece, Stage};
use super::{Conversation, Cx};
use crate::faults::{Fault, fault};
use crate::ledger::{self, ClauseEvidence, ClauseVerdict};
use crate::time::Time;
use crate::timers::Timer;

/// A segment that has left the box and waits for evidence.
#[derive(Debug)]
pub(super) struct Awaiting {
    pub(super) segment: SegmentRef,
    piece: Piece,
    sent: SentSegment,
    needs: Needs,
    /// What its mark said, on a channel that has marks.
    mark: Option<Returned>,
    /// When the far end stopped listening, after it.
    heard_until: Option<Time>,
    /// How much of it the model has been told that was heard, provisionally (ms).
    told_ms: Option<u64>,
    /// Whether it was settled as uncertain; a late report may still decide it.
    pub(super) settled: bool,
}

#[derive(Debug, Clone, Copy)]
enum Returned {
    Played(Verdict),
    Cleared,
}

/// What evidence came to.
#[derive(Debug, Clone, Copy)]
enum Settled {
    Heard(Evidence),
    Doubted(Doubt),
    /// The far end threw it away, or there was nobody to hear it.
    Unheard,
}

impl From<Verdict> for Settled {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Ok(evidence) => Self::Heard(evidence),
            Err(doubt) => Self::Doubted(doubt),
        }
    }
}

impl Conversation {
    pub(super) fn await_evidence(&mut self, cx: &mut Cx, segment: SegmentRef, piece: Piece, sent: SentSegment) {
        if self.voicemail && !fault(Fault::MachineIsCredited) {
            cx.out.push(Effect::Doubted { segment, doubt: Doubt::Voicemail });
            return self.unheard(&piece.purpose);
        }
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
        if fault(Fault::SentIsHeard) {
            self.set_verdict(&piece.purpose, ClauseVerdict::Heard(Evidence::Received));
        }
        // What a hold cut, and is told of only now, was still on its way when the hold began, whether or not that has ended.
        let heard_until = self.clearing.get(&segment.playback).and_then(|clearing| clearing.heard_until);
        let (mark, told_ms, settled) = (None, None, false);
        self.awaiting.push(Awaiting { segment, piece, sent, needs, mark, heard_until, told_ms, settled });
    }

    /// A mark came back.
    pub(super) fn marked(&mut self, cx: &mut Cx, segment: SegmentRef, back: Mark, at: Time) {
        if let Some(awaiting) = self.awaiting.iter_mut().find(|awaiting| awaiting.segment == segment) {
            awaiting.mark = Some(match back {
                Mark::Played => Returned::Played(awaiting.sent.played(at)),
                Mark::Cleared if fault(Fault::ClearedMarkIsPlayed) => Returned::Played(Ok(Evidence::Marked)),
                Mark::Cleared => Returned::Cleared,
            });
            return;
        }
        let sounding = self.playback_mut(segment.playback).and_then(|playback| playback.segment(segment.index));
        match (sounding, back) {
            (Some(sounding), Mark::Played) => {
                sounding.mark_too_soon = true;
                cx.out.push(Effect::Doubted { segment, doubt: Doubt::MarkTooSoon });
            }
            // The clear says itself what became of it.
            (Some(_), Mark::Cleared) => {}
            (None, _) => cx.out.push(Effect::Doubted { segment, doubt: Doubt::MarkNeverSent }),
        }
    }

    pub(super) fn settles_at(&self, awaiting: &Awaiting) -> Option<Time> {
        let at = awaiting.sent.settles_at(&awaiting.needs, &self.settings.timers);
        let at = self.over.map_or(at, |over| at.min(over.plus(self.ms(Timer::EvidenceAfterEnd))));
        let reported = || awaiting.needs.best == Evidence::Received && self.reports.verdict(&awaiting.sent).is_some();
        (!awaiting.settled).then(|| if reported() { at.min(awaiting.sent.played_at(&awaiting.needs)) } else { at })
    }

    pub(super) fn settle_evidence(&mut self, cx: &mut Cx) {
        let mut waiting = std::mem::take(&mut self.awaiting);
        // A far end of which nothing was heard any more may have been gone since then.
        let end = self.silent_since.unwrap_or(cx.now).min(self.over.unwrap_or(cx.now));
        let late_ms = self.ms(Timer::EvidenceLateMax);
        let over = self.over.unwrap_or(Time(u64::MAX));
        let listened_until = |awaiting: &Awaiting| awaiting.heard_until.map_or(over, |until| over.min(until));
        waiting.retain_mut(|awaiting| {
            let played_at = awaiting.sent.played_at(&awaiting.needs);
            let due = self.settles_at(awaiting).is_some_and(|at| at <= cx.now);
            let settled = match (awaiting.mark, awaiting.needs.best) {
                (Some(Returned::Cleared), _) => Some(Settled::Unheard),
                (Some(Returned::Played(verdict)), _) => Some(verdict.into()),
                (None, Evidence::Received) => match self.reports.verdict(&awaiting.sent) {
                    Some(Ok(_)) if listened_until(awaiting) < played_at => Some(Settled::Doubted(Doubt::LeftTooLate)),
                    Some(Ok(_)) if cx.now < played_at => None,
                    verdict => verdict.map(Settled::from),
                },
                (None, _) => None,
            };
            let end = awaiting.heard_until.map_or(end, |until| end.min(until));
            let settled = match settled {
                Some(settled) => settled,
                None if due => self.reports.verdict_without(&awaiting.sent, &awaiting.needs, end).into(),
                None => return cx.now.since(awaiting.sent.sent_at) < late_ms,
            };
            self.decide_segment(cx, awaiting, settled) && cx.now.since(awaiting.sent.sent_at) < late_ms
        });
        self.awaiting = waiting;
        self.finish_drained(cx);
        self.settle_told(cx);
    }

    /// Records what evidence came to; whether the segment goes on waiting for late evidence.
    fn decide_segment(&mut self, cx: &mut Cx, awaiting: &mut Awaiting, settled: Settled) -> bool {
        let (segment, purpose) = (awaiting.segment, awaiting.piece.purpose);
        let heard_ms = awaiting.sent.duration_ms;
        let heard = |standing| {
            let text = awaiting.piece.content.text().to_owned();
            Effect::Heard(HeardText { segment, purpose, text, heard_ms, standing })
        };
        match settled {
            Settled::Heard(evidence) => {
                cx.out.extend((!fault(Fault::ReportIgnored)).then(|| heard(Standing::Settled(evidence))));
                if let Some(playback) = self.playback_mut(segment.playback) {
                    playback.heard_ms = playback.heard_ms.saturating_add(heard_ms);
                } else if let Some(known_ms) = self.drained.get_mut(&segment.playback) {
                    *known_ms = known_ms.saturating_add(heard_ms);
                }
                let verdict = ClauseVerdict::Heard(evidence);
                if awaiting.settled {
                    self.heard_late(cx, &purpose, verdict);
                } else {
                    self.set_verdict(&purpose, verdict);
                }
                awaiting.settled = true;
                false
            }
            Settled::Doubted(doubt) => {
                if !std::mem::replace(&mut awaiting.settled, true) {
                    self.question_unheard(cx, &purpose);
                    cx.out.push(Effect::Doubted { segment, doubt });
                    cx.out.push(heard(Standing::Uncertain));
                    self.set_verdict(&purpose, ClauseVerdict::Uncertain);
                }
                true
            }
            Settled::Unheard => {
                if !std::mem::replace(&mut awaiting.settled, true) {
                    self.question_unheard(cx, &purpose);
                    self.unheard(&purpose);
                }
                false
            }
        }
    }

    fn question_unheard(&mut self, cx: &mut Cx, purpose: &Purpose) {
        if let Purpose::ReadBack { read_back } = *purpose {
            self.read_back_unheard(cx, read_back);
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
    }

    /// From `at` on the far end does not listen: on hold, nothing that was on its way is credited, nor what it had not played.
    pub(super) fn nothing_is_heard_from(&mut self, at: Time) {
        let sent = self.awaiting.iter_mut().filter(|awaiting| !awaiting.settled).map(|awaiting| &mut awaiting.heard_until);
        let cut = self.clearing.values_mut().map(|clearing| &mut clearing.heard_until);
        for heard_until in sent.chain(cut) {
            heard_until.get_or_insert(at);
        }
    }

    /// Nobody heard what has been sent, whatever is reported on it.
    pub(super) fn nothing_was_heard(&mut self, cx: &mut Cx) {
        if fault(Fault::MachineIsCredited) {
            return;
        }
        for awaiting in std::mem::take(&mut self.awaiting) {
            if !awaiting.settled {
                cx.out.push(Effect::Doubted { segment: awaiting.segment, doubt: Doubt::Voicemail });
                self.unheard(&awaiting.piece.purpose);
            }
        }
        self.finish_drained(cx);
        self.settle_told(cx);
    }

    /// Tells the model what was heard by the send clock, as far as that is not settled: the tail of its history, which evidence
    /// replaces segment by segment.
    pub(super) fn tell_provisional(&mut self, cx: &mut Cx) {
        let (now, in_flight_ms) = (cx.now, self.channel.far_buffer_ms);
        for awaiting in self.awaiting.iter_mut().filter(|awaiting| !awaiting.settled) {
            let duration_ms = awaiting.sent.duration_ms;
            let heard_ms = duration_ms.saturating_sub(in_flight_ms.saturating_sub(now.since(awaiting.sent.sent_at)));
            if awaiting.told_ms.replace(heard_ms) == Some(heard_ms) {
                continue;
            }
            // Its map of words is gone by now: it is cut as if the text were spread evenly.
            let text = super::history::heard_text(awaiting.piece.content.text(), &[], duration_ms, heard_ms).to_owned();
            let (segment, purpose, standing) = (awaiting.segment, awaiting.piece.purpose, Standing::Provisional);
            cx.out.push(Effect::Heard(HeardText { segment, purpose, text, heard_ms, standing }));
        }
        let Some(playback) = &self.current else { return };
        for (index, sounding) in (0_u32..).zip(&playback.segments) {
            let heard_ms = sounding.released_ms(now).saturating_sub(in_flight_ms);
            let text = sounding.heard(heard_ms).to_owned();
            if !text.is_empty() && sounding.stage != Stage::Sent {
                let (segment, purpose, standing) =
                    (SegmentRef { playback: playback.id, index }, sounding.piece.purpose, Standing::Provisional);
                cx.out.push(Effect::Heard(HeardText { segment, purpose, text, heard_ms, standing }));
            }
        }
    }
}

/// Segments that may wait for evidence at once. A segment is seldom shorter than a second, and waits at most sixteen.
const AWAITING_MAX: usize = 256;
