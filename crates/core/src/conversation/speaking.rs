//! Words to the voice, and what became of them.

use super::barge_in::{HeardOf, Why};
use super::effect::{Edge, Effect, Measure, MeasureName, Purpose};
use super::input::{AcousticEpoch, PlaybackEvent, SegmentRef};
use super::playback::{Audio, Of, Piece, Playback, PlaybackState, Stage, Start};
use super::{Conversation, Cx};
use crate::faults::{Fault, fault};
use crate::ids::PlaybackId;
use crate::ledger;
use crate::policy::Priority;
use crate::time::Time;

impl Conversation {
    /// Gives the voice what waits, as long as the caller is quiet. What was cut goes first.
    pub(super) fn speak_what_waits(&mut self, cx: &mut Cx) {
        if self.over.is_some() || self.on_hold() || !self.acoustic.quiet() || self.ride_hold_ends().is_some() {
            return;
        }
        if let Some(playback) = self.current.as_mut() {
            give_next(cx, playback, self.acoustic.epoch);
        }
        while self.current.as_ref().is_none_or(|playback| playback.takes_more(self.acoustic.epoch)) {
            let Some((piece, of)) = self.next_piece() else { return };
            let playback = self.current.get_or_insert_with(|| Playback::new(PlaybackId(cx.ids.draw()), of, Priority::Normal));
            give(cx, playback, piece, self.acoustic.epoch);
        }
    }

    /// The next piece that may follow what is being said, with what it belongs to.
    fn next_piece(&mut self) -> Option<(Piece, Of)> {
        let replying = self.reply.as_ref().map(|reply| Of::Response(reply.response));
        let speaking = self.current.as_ref().map(|playback| playback.of);
        if speaking == Some(Of::Announcement) && !fault(Fault::Mixed) {
            return None; // It is not mixed with anything.
        }
        if let Some(piece) = self.deferred.front() {
            let of = match piece.purpose {
                Purpose::Reply { response } => Of::Response(response),
                // An acceptance or a refusal goes with whatever is said next.
                _ => speaking.or(replying).unwrap_or(Of::Leftover),
            };
            if speaking.is_some_and(|speaking| speaking != of) {
                return None;
            }
            return self.deferred.pop_front().map(|piece| (piece, of));
        }
        if speaking.is_some() && speaking != replying && !fault(Fault::Mixed) {
            return None; // What is left of an earlier response is finished first.
        }
        let reply = self.reply.as_mut()?;
        if reply.next_is_silence() && self.current.as_ref().is_some_and(Playback::has_silence_enough) {
            return None; // What comes instead of it is heard soon.
        }
        reply.next_piece().zip(replying)
    }

    pub(super) fn playback_event(&mut self, cx: &mut Cx, event: PlaybackEvent) {
        match event {
            PlaybackEvent::Ready { segment, duration_ms, words, near_silent } => {
                if let Some(known) = self.current_mut(segment) {
                    known.audio = Some(Audio { ready_at: cx.now, duration_ms, words, near_silent });
                }
            }
            PlaybackEvent::Failed { segment, reason: _ } => self.lost(cx, segment),
            PlaybackEvent::Started { segment, at, packet, generation } => {
                self.started(cx, segment, Start { at, packet, generation });
            }
            PlaybackEvent::Sent { segment, at, packet, generation } => {
                let Some(playback) = self.playback_mut(segment.playback) else { return };
                let Some(known) = playback.segment(segment.index) else { return };
                if known.stage == Stage::Sent {
                    return;
                }
                known.stage = Stage::Sent;
                let (sent, piece) = (known.sent(at, packet, generation), known.piece.clone());
                let near_silent = known.audio.as_ref().is_none_or(|audio| audio.near_silent);
                let purpose = piece.purpose;
                self.playback_ended = self.playback_ended.max(at);
                self.await_evidence(cx, segment, piece, sent);
                if let Purpose::ReadBack { read_back } = purpose {
                    self.read_back_said(cx, read_back, near_silent);
                }
                self.drain(cx, segment.playback);
            }
            PlaybackEvent::Paused { segment, released_ms, at } => {
                let suspected = self.suspected_at.take();
                let Some(playback) = self.current.as_mut().filter(|playback| playback.id == segment.playback) else { return };
                playback.to(PlaybackState::Paused, &mut cx.edges);
                // The suspicion was over before the pause was told.
                playback.told_to_resume = (self.acoustic.quiet() && self.held_since.is_none()).then_some(cx.now);
                if let Some(known) = playback.segment(segment.index) {
                    known.stage = Stage::Playing { released_ms };
                }
                if let Some(suspected) = suspected {
                    cx.out.push(Effect::Measured(Measure { name: MeasureName::BargeInToPlaybackStopMs, value: at.since(suspected) }));
                }
            }
            PlaybackEvent::Resumed { segment, at } => {
                if let Some(playback) = self.current.as_mut().filter(|playback| playback.id == segment.playback) {
                    playback.resumed(segment.index, at, &mut cx.edges);
                }
            }
            PlaybackEvent::Cleared { playback, cut, at: _ } => {
                if let Some(clearing) = self.clearing.remove(&playback) {
                    self.cleared(cx, clearing, cut);
                }
            }
            PlaybackEvent::Refused { segment, epoch } => self.voice_refused(cx, segment, epoch),
            PlaybackEvent::Marked { segment, back, at } => self.marked(cx, segment, back, at),
            PlaybackEvent::Report { generation, highest_packet, cumulative_lost, at } => {
                self.reports.add(generation, highest_packet, cumulative_lost, at);
            }
        }
    }

    /// The voice refused to begin a segment, or to go on in it. What was paused stays so: the sound that made the command
    /// stale is told, and so is its end.
    fn voice_refused(&mut self, cx: &mut Cx, segment: SegmentRef, epoch: AcousticEpoch) {
        let Some(playback) = self.current.as_mut().filter(|playback| playback.id == segment.playback) else { return };
        let Some(known) = playback.segment(segment.index).filter(|known| known.stage == Stage::Given) else { return };
        if known.epoch == epoch {
            return self.lost(cx, segment); // It was not stale: the voice has no room for it.
        }
        if playback.of == Of::Announcement && playback.silent() {
            return self.cut_current(cx, Why::Refused); // The gate is asked again; no attempt is spent.
        }
        playback.refused(segment.index, &mut cx.edges);
    }

    fn started(&mut self, cx: &mut Cx, segment: SegmentRef, start: Start) {
        let Some(playback) = self.playback_mut(segment.playback) else { return };
        let of = playback.of;
        playback.to(PlaybackState::Playing, &mut cx.edges);
        let Some(known) = playback.segment(segment.index) else { return };
        if known.started.is_some() {
            return;
        }
        known.started = Some(start);
        known.stage = Stage::Playing { released_ms: 0 };
        let (purpose, silence) = (known.piece.purpose, known.piece.content.is_silence());
        let ready_at = known.audio.as_ref().map(|audio| audio.ready_at);
        if let Some(reply) = self.reply.as_mut().filter(|reply| of == Of::Response(reply.response)) {
            reply.audio_released = true;
            // A caller who hears silence still waits.
            let latency = reply.latency.take_if(|_| !silence);
            cx.out.extend(latency.into_iter().flat_map(|latency| latency.measured(purpose, ready_at, start.at)));
        }
        if let Some(ready_at) = ready_at {
            cx.out.push(Effect::Measured(Measure { name: MeasureName::GeneratedToPlayedGapMs, value: start.at.since(ready_at) }));
        }
        match purpose {
            Purpose::Acceptance { .. } => {
                if let Some(stopped) = self.speech_stopped_at.take() {
                    let name = MeasureName::SpeechStopToAcceptanceAudioMs;
                    cx.out.push(Effect::Measured(Measure { name, value: start.at.since(stopped) }));
                }
            }
            Purpose::Clause { delivery, .. } => self.first_frame(cx, delivery, start.at),
            Purpose::Reply { .. }
            | Purpose::Refusal
            | Purpose::Cancellation
            | Purpose::ReadBack { .. }
            | Purpose::Information { .. }
            | Purpose::Identity
            | Purpose::Progress { .. } => {}
        }
    }

    /// A segment whose audio could not be made is skipped: what follows goes on.
    fn lost(&mut self, cx: &mut Cx, segment: SegmentRef) {
        let Some(playback) = self.playback_mut(segment.playback) else { return };
        let Some(known) = playback.segment(segment.index) else { return };
        if known.gone() {
            return;
        }
        known.stage = Stage::Lost;
        let purpose = known.piece.purpose;
        self.audio_failed(&purpose);
        if let Purpose::ReadBack { read_back } = purpose {
            self.read_back_unheard(cx, read_back);
        }
        self.drain(cx, segment.playback);
        self.settle_told(cx);
    }

    /// The voice takes too long over a segment, or to go on. It is stopped: nothing of it must come out later, out of place.
    /// Where it was stopped, or that the last frame has left after all, is told with the clear.
    pub(super) fn stop_what_is_stuck(&mut self, cx: &mut Cx) {
        let timers = &self.settings.timers;
        let due = |at: Option<Time>| at.is_some_and(|at| at <= cx.now);
        let Some(playback) = self.current.as_mut() else { return };
        let (stuck, paused) = (due(playback.stuck_at(timers)), due(playback.resume_due(timers)));
        // What can't go on is no fault of its words: they are said anew.
        if stuck && let Some(head) = playback.head().and_then(|head| playback.segment(head)) {
            head.stuck = true;
        }
        if stuck || paused {
            self.cut_current(cx, Why::Stuck);
        }
    }

    /// A playback that has left the box is no longer current: it holds nobody up.
    fn drain(&mut self, cx: &mut Cx, id: PlaybackId) {
        let Some(mut playback) = self.current.take_if(|playback| playback.id == id && playback.all_left()) else { return };
        if playback.segments.iter().all(|segment| segment.stage != Stage::Sent) {
            return playback.to(PlaybackState::Lost, &mut cx.edges);
        }
        if let Of::Response(response) = playback.of {
            let mut heard = HeardOf::default();
            for segment in playback.segments.iter().filter(|segment| segment.stage == Stage::Sent) {
                heard.add(playback.of, segment, segment.duration_ms());
            }
            self.heard_more_of(response, heard);
        }
        playback.to(PlaybackState::Drained, &mut cx.edges);
        self.drained.insert(id, playback.heard_ms);
    }

    pub(super) fn finish_drained(&mut self, cx: &mut Cx) {
        let settled = |id: &PlaybackId| !self.awaiting.iter().any(|awaiting| !awaiting.settled && awaiting.segment.playback == *id);
        let finished: Vec<PlaybackId> = self.drained.keys().copied().filter(settled).collect();
        for playback in finished {
            if let Some(heard_ms) = self.drained.remove(&playback) {
                let (from, to) = (PlaybackState::Drained, PlaybackState::Finished { heard_ms });
                cx.edges.push(Edge::Playback { playback, from, to });
            }
        }
    }

    pub(super) fn playback_mut(&mut self, id: PlaybackId) -> Option<&mut Playback> {
        match &mut self.current {
            Some(playback) if playback.id == id => Some(playback),
            _ => self.clearing.get_mut(&id).map(|clearing| &mut clearing.playback),
        }
    }

    fn current_mut(&mut self, segment: SegmentRef) -> Option<&mut super::playback::Segment> {
        self.playback_mut(segment.playback)?.segment(segment.index)
    }

    pub(super) fn news(&mut self, cx: &mut Cx, news: ledger::News) {
        match news {
            ledger::News::Accepted(acceptance) => self.accepted(cx, acceptance),
            ledger::News::Refused { call_id, response, reason: _, say } => self.refused(cx, call_id, response, say),
            ledger::News::ReadBack { call_id, response, read_back, say } => self.read_back(cx, call_id, response, read_back, say),
            ledger::News::Work { asked, work } => self.work(cx, asked, work),
            ledger::News::Offered(envelope) => self.offered(cx, envelope),
            ledger::News::Withdrawn { delivery } => self.withdrawn(cx, delivery),
            ledger::News::Claimed { delivery, clauses } => self.claimed(cx, delivery, clauses),
            ledger::News::ClaimRefused { delivery } => self.claim_refused(cx.now, delivery),
            ledger::News::Update { envelope, text } => self.updated(cx, envelope, text),
            ledger::News::Cancelling(cancellation) => self.cancelling(cx, cancellation),
        }
    }
}

/// Gives the voice what comes next in a playback, as far as it takes it.
pub(super) fn give_next(cx: &mut Cx, playback: &mut Playback, epoch: AcousticEpoch) {
    while playback.takes_more(epoch)
        && let Some(piece) = playback.to_give.pop_front()
    {
        give(cx, playback, piece, epoch);
    }
}

/// Gives the voice a piece, as the next segment of a playback.
fn give(cx: &mut Cx, playback: &mut Playback, piece: Piece, epoch: AcousticEpoch) {
    let (purpose, content) = (piece.purpose, piece.content.clone());
    let segment = playback.give(piece, cx.now, epoch);
    cx.out.push(Effect::Speak { segment, content, purpose, epoch });
}
