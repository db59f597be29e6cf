//! One call's playback, frame by frame.

use std::ops::Range;

use recado_core::conversation::{Acoustic, AcousticEdge, AcousticEpoch, Generation, PlaybackEvent, SegmentRef};
use recado_core::faults::{Fault, fault};
use recado_core::ids::PlaybackId;
use recado_core::time::Time;

use crate::audio::Audio;
use crate::command::PlaybackCommand;
use crate::generations::Generations;
use crate::packets::Packets;
use crate::playback::{Appended, Playback, SEGMENTS_MAX, Taken};

/// What is said on one call, and what is told of it.
///
/// Give it [`command`](Self::command)s, the caller's [`edge`](Self::edge)s and what the far end [`report`](Self::report)s
/// as they come, and every 20 ms either [`frame`](Self::frame) or, where it has none, [`silence`](Self::silence); on hold
/// neither, for then no packet leaves. `tell` is called with what happened, in order. None of this allocates or frees:
/// take what is [`spent`](Self::spent) and free it elsewhere.
#[derive(Debug)]
pub struct Mouth<A> {
    playback: Playback<A>,
    packets: Packets,
    generations: Generations,
    acoustic: Acoustic,
    epoch: AcousticEpoch,
    /// Whether packets may leave; on hold they may not.
    sends: bool,
    /// The voice was paused because the call is on hold, by nobody else.
    paused_by_hold: bool,
    closed: bool,
}

/// A frame that left in a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Released {
    /// The packet, by extended sequence number.
    pub packet: u64,
    /// The segment that it is of.
    pub segment: SegmentRef,
}

impl<A: Audio> Mouth<A> {
    /// A mouth whose first packet has this sequence number, and that may speak if the call is not on hold.
    pub fn new(first_sequence: u16, sends: bool) -> Self {
        let packets = Packets::new(first_sequence);
        Self {
            playback: Playback::new(),
            packets,
            generations: Generations::new(packets.next()),
            acoustic: Acoustic::Quiet,
            epoch: AcousticEpoch::default(),
            sends,
            paused_by_hold: false,
            closed: false,
        }
    }

    /// The caller's acoustic clock moved. A suspicion pauses what there is to pause.
    pub fn edge(&mut self, edge: AcousticEdge, at: Time, tell: &mut impl FnMut(PlaybackEvent)) {
        (self.acoustic, self.epoch) = (edge.to, edge.epoch);
        if edge.to == Acoustic::Suspected && !fault(Fault::NotPaused) {
            self.pause(at, tell);
        }
    }

    /// The voice wants something.
    pub fn command(&mut self, command: PlaybackCommand<A>, at: Time, tell: &mut impl FnMut(PlaybackEvent)) {
        match command {
            PlaybackCommand::Speak { segment, audio, last, epoch } => {
                if (epoch != self.epoch && !fault(Fault::StaleCommandObeyed)) || self.closed {
                    self.playback.discard(audio);
                    return self.refuse(segment, tell);
                }
                if !self.playback.speak(segment, audio, last) {
                    self.refuse(segment, tell);
                }
            }
            PlaybackCommand::Append { segment, audio, last } => match self.playback.append(segment, audio, last) {
                Appended::Queued | Appended::Unknown => {}
                Appended::Ended(packet) => {
                    tell(PlaybackEvent::Sent { segment, at, packet, generation: self.generation() });
                }
                Appended::Full => self.clear(segment.playback, at, tell),
            },
            PlaybackCommand::Resume { playback, epoch } => {
                let segment = self.playback.head().filter(|segment| segment.playback == playback);
                if epoch != self.epoch && !fault(Fault::StaleCommandObeyed) {
                    return self.refuse(segment.unwrap_or(SegmentRef { playback, index: 0 }), tell);
                }
                if segment.is_some() && self.sends {
                    self.resume(at, tell);
                } else if segment.is_some() {
                    self.paused_by_hold = true;
                }
            }
            PlaybackCommand::Clear { playback } if fault(Fault::ClearIgnored) => {
                tell(PlaybackEvent::Cleared { playback, cut: None, at });
            }
            PlaybackCommand::Clear { playback } => self.clear(playback, at, tell),
        }
    }

    /// Lets the next frame leave, if there is one; `sink` is given its audio, piece by piece. A segment's last frame may be
    /// short: the rest of it is silence.
    pub fn frame(&mut self, at: Time, sink: impl FnMut(&A, Range<usize>), tell: &mut impl FnMut(PlaybackEvent)) -> Option<Released> {
        let Taken { segment, first, last } = self.playback.take(self.packets.next(), sink)?;
        let (packet, generation) = (self.packets.leave(1), self.generation());
        if first {
            tell(PlaybackEvent::Started { segment, at, packet, generation });
        }
        if last {
            tell(PlaybackEvent::Sent { segment, at, packet, generation });
        }
        Some(Released { packet, segment })
    }

    /// So many packets of silence leave, one in each frame interval in which there was no [`frame`](Self::frame). Returns the
    /// number of the first.
    pub fn silence(&mut self, packets: u64) -> u64 {
        self.playback.breathe(packets);
        self.packets.leave(packets)
    }

    /// A re-INVITE was agreed on: whoever hears now may be somebody else. Off hold, what only the hold had paused goes on.
    pub fn renegotiated(&mut self, sends: bool, at: Time, tell: &mut impl FnMut(PlaybackEvent)) {
        let sent = std::mem::replace(&mut self.sends, sends);
        self.another_receiver();
        if sent
            && !sends
            && let Some((segment, released_ms)) = self.playback.pause()
        {
            self.paused_by_hold = true;
            tell(PlaybackEvent::Paused { segment, released_ms, at });
        }
        if !sent && sends && self.paused_by_hold && self.acoustic == Acoustic::Quiet {
            self.resume(at, tell);
        }
    }

    /// The far end's source changed: whoever hears now may be somebody else.
    pub fn another_receiver(&mut self) {
        self.generations.begin(self.packets.next(), false);
    }

    /// The far end reports what it received (RFC 3550 6.4.1): its extended highest sequence number, and packets lost since it
    /// began to count.
    pub fn report(&mut self, extended_highest: u32, cumulative_lost: i64, at: Time, tell: &mut impl FnMut(PlaybackEvent)) {
        let Some(packet) = self.packets.sent(extended_highest) else { return };
        self.generations.report(packet, |generation, highest_packet| {
            tell(PlaybackEvent::Report { generation, highest_packet, cumulative_lost, at });
        });
    }

    /// The call is over: everything is discarded, and nothing is accepted any more.
    pub fn close(&mut self) {
        self.closed = true;
        self.playback.clear_all();
    }

    /// Audio that is done with.
    pub fn spent(&mut self) -> Option<A> {
        self.playback.spent()
    }

    /// After how many frame intervals of silence a frame would leave; none where nothing would be said.
    pub fn next_frame_in(&self) -> Option<u64> {
        self.playback.next_frame_in()
    }

    /// Whether anything waits to be said.
    pub fn is_empty(&self) -> bool {
        self.playback.head().is_none()
    }

    /// The caller's acoustic state, as the media path knows it.
    pub fn acoustic(&self) -> Acoustic {
        self.acoustic
    }

    /// The epoch that a command to sound must carry.
    pub fn epoch(&self) -> AcousticEpoch {
        self.epoch
    }

    /// The generation now.
    pub fn generation(&self) -> Generation {
        self.generations.current()
    }

    fn pause(&mut self, at: Time, tell: &mut impl FnMut(PlaybackEvent)) {
        self.paused_by_hold = false;
        if let Some((segment, released_ms)) = self.playback.pause() {
            tell(PlaybackEvent::Paused { segment, released_ms, at });
        }
    }

    fn resume(&mut self, at: Time, tell: &mut impl FnMut(PlaybackEvent)) {
        self.paused_by_hold = false;
        if let Some(segment) = self.playback.resume() {
            tell(PlaybackEvent::Resumed { segment, at });
        }
    }

    fn clear(&mut self, playback: PlaybackId, at: Time, tell: &mut impl FnMut(PlaybackEvent)) {
        let (discarded, cut) = self.playback.clear(playback);
        if discarded {
            self.generations.begin(self.packets.next(), true);
        }
        tell(PlaybackEvent::Cleared { playback, cut, at });
    }

    fn refuse(&self, segment: SegmentRef, tell: &mut impl FnMut(PlaybackEvent)) {
        tell(PlaybackEvent::Refused { segment, epoch: self.epoch });
    }
}

/// What everything that waits may still lead to without another command: a start and an end of each segment, a pause, a
/// resumption, and some room.
pub const WAITING_EVENTS_MAX: usize = 2 * SEGMENTS_MAX + 4;

#[cfg(test)]
mod tests;
