//! The far end: it counts what arrives as RFC 3550 has it, reports that, and plays it out of a jitter buffer to an ear.

use std::collections::{BTreeMap, VecDeque};

use recado_core::conversation::{Mark, SegmentRef};
use recado_voice::FRAME_MS;

use super::line::Line;

/// The far end of a call.
#[derive(Debug)]
pub struct FarEnd {
    /// How the network treats packets, and how deep the jitter buffer is.
    pub line: Line,
    /// Whether it reports.
    pub rtcp: bool,
    /// When it reports next (ms).
    pub next_report: u64,
    /// Packets that it counts as lost besides those that were.
    pub lost: i64,
    /// So many of the next packets with words in them are lost on the way.
    pub losing: u64,
    /// Nothing of ours reaches it any more, while its reports go on.
    pub cut_off: bool,
    /// Frames that were audible, and when, in their order.
    pub ear: Vec<(u64, SegmentRef)>,
    /// What became of each segment's frames.
    pub counts: BTreeMap<SegmentRef, Count>,
    /// Whether it sends back the mark behind each segment once that was played, or was thrown away.
    marks: bool,
    /// Marks on their way back, and when they arrive.
    back: VecDeque<(u64, SegmentRef, Mark)>,
    on_the_way: VecDeque<Run>,
    reports: VecDeque<(u64, Report)>,
    reception: Option<Reception>,
    /// Copies that came since the box last had a report of this receiver: who counts packets takes them for others that were lost.
    copies: u64,
    /// Segments that no report covers yet.
    uncovered: BTreeMap<SegmentRef, Packets>,
    /// What a packet waits for from when it is sent until it is played out.
    playout_ms: Option<u64>,
    gone_at: Option<u64>,
}

/// What became of a segment's frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// In all.
    pub frames: u64,
    /// Left the box.
    pub released: u64,
    /// Lost on the way.
    pub lost: u64,
    /// Lost before the receiver had got anything: no report counts them.
    pub unseen: u64,
    /// Came too late for the jitter buffer: no report tells of that.
    pub late: u64,
    /// In the jitter buffer or on the way when the far end hung up.
    pub cut_off: u64,
    /// Audible.
    pub audible: u64,
    /// The place after the last audible one, from 0.
    pub audible_to: u64,
    /// Copies of packets that came between the reports around it: they hide as much of its loss.
    pub hidden: u64,
}

impl Count {
    /// How many frames may count as heard: not those that came to a far end that was gone. What a network loses
    /// is not subtracted: up to a limit, that counts as received.
    pub fn credit(&self) -> u64 {
        self.released - self.cut_off
    }

    /// Whether the ear heard it: nine of ten frames of it, those apart of whose loss no far end can tell.
    pub fn heard(&self) -> bool {
        let missing = self.frames - self.released + self.lost.saturating_sub(self.hidden) + self.cut_off;
        self.frames > 0 && missing * 10 <= self.frames
    }
}

/// Packets that follow each other, 20 ms apart.
#[derive(Debug)]
struct Run {
    arrives: u64,
    first: u64,
    packets: u64,
    /// Whether they have come before.
    again: bool,
}

/// The first and the latest packet of a segment.
#[derive(Debug, Clone, Copy)]
struct Packets {
    first: u64,
    last: u64,
}

/// What a receiver report says (RFC 3550 6.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) extended_highest: u32,
    pub(super) cumulative_lost: i64,
}

#[derive(Debug)]
struct Reception {
    base: u64,
    highest: u64,
    received: u64,
    copies: u64,
}

impl FarEnd {
    pub(super) fn new(now: u64, line: Line, marks: bool) -> Self {
        Self {
            line,
            marks,
            back: VecDeque::new(),
            rtcp: true,
            next_report: now + REPORT_MS,
            lost: 0,
            losing: 0,
            cut_off: false,
            ear: Vec::new(),
            counts: BTreeMap::new(),
            on_the_way: VecDeque::new(),
            reports: VecDeque::new(),
            reception: None,
            copies: 0,
            uncovered: BTreeMap::new(),
            playout_ms: None,
            gone_at: None,
        }
    }

    /// A segment is going to be said.
    pub(super) fn expect(&mut self, segment: SegmentRef, frames: u64) {
        self.counts.insert(segment, Count { frames, ..Count::default() });
    }

    /// Packets of silence left the box, the first at `now`, 20 ms apart.
    pub(super) fn silence(&mut self, first: u64, packets: u64, now: u64) {
        if self.cut_off {
            return;
        }
        if self.line.is_even() {
            self.playout_ms.get_or_insert(self.line.delay_ms + self.line.buffer_ms);
            return self.travels(Run { arrives: now + self.line.delay_ms, first, packets, again: false });
        }
        for n in 0..packets {
            self.sent(first + n, now + n * FRAME_MS);
        }
    }

    /// A packet with a segment's frame number `frame` left the box.
    pub(super) fn frame(&mut self, packet: u64, segment: SegmentRef, frame: u64, now: u64) {
        let lost = self.losing > 0 || self.cut_off;
        self.losing = self.losing.saturating_sub(1);
        let arrives = if lost { None } else { self.sent(packet, now) };
        let seen = self.reception.is_some() || !self.on_the_way.is_empty();
        let plays = now + self.playout_ms.unwrap_or(self.line.delay_ms + self.line.buffer_ms);
        let copies = self.copies;
        let count = self.counts.entry(segment).or_default();
        self.uncovered
            .entry(segment)
            .or_insert_with(|| {
                count.hidden = copies;
                Packets { first: packet, last: packet }
            })
            .last = packet;
        count.released += 1;
        match arrives {
            None if seen => count.lost += 1,
            None => count.unseen += 1,
            Some(arrives) if arrives > plays => count.late += 1,
            Some(_) => {
                count.audible += 1;
                count.audible_to = frame + 1;
                self.ear.push((plays, segment));
            }
        }
    }

    /// A packet left the box; says when it arrives, if it does.
    fn sent(&mut self, packet: u64, now: u64) -> Option<u64> {
        let fate = self.line.fate(packet, now);
        let arrives = fate.arrives?;
        self.playout_ms.get_or_insert(arrives - now + self.line.buffer_ms);
        self.travels(Run { arrives, first: packet, packets: 1, again: false });
        if fate.repeated {
            self.travels(Run { arrives: arrives + 1, first: packet, packets: 1, again: true });
        }
        Some(arrives)
    }

    fn travels(&mut self, run: Run) {
        let at = self.on_the_way.iter().rposition(|before| before.arrives <= run.arrives).map_or(0, |before| before + 1);
        self.on_the_way.insert(at, run);
    }

    /// A re-INVITE: another source is heard from now on, and its receiver counts anew if it is somebody else. Nobody tells the box
    /// which: what the same receiver had counted before may be charged to what is said next.
    pub(super) fn renegotiated(&mut self, somebody_else: bool, now: u64) {
        self.advance(now);
        self.playout_ms = None;
        self.uncovered.clear();
        if somebody_else {
            self.reception = None;
            self.on_the_way.clear();
        }
        self.copies = self.reception.as_ref().map_or(0, |reception| reception.copies);
    }

    /// The far end hangs up: what it has not played out is heard by nobody. It may report a last time, with its goodbye (RFC 3550 6.6).
    pub(super) fn hang_up(&mut self, now: u64) {
        self.advance(now);
        if self.line.says_goodbye(now) {
            self.next_report = self.next_report.min(now);
            self.advance(now);
        }
        self.gone_at = Some(now);
        self.back.clear();
        self.throws_away(now);
    }

    /// The last frame of a segment has left: the mark behind it comes back when that was played.
    pub(super) fn mark_behind(&mut self, segment: SegmentRef, now: u64) {
        if self.marks {
            let plays = now + self.playout_ms.unwrap_or(self.line.delay_ms + self.line.buffer_ms);
            self.back.push_back((plays + FRAME_MS + self.line.delay_ms, segment, Mark::Played));
        }
    }

    /// A clear leaves the box. On a channel with marks it empties the far end's buffer, and brings the marks in there back.
    pub(super) fn clear(&mut self, now: u64) {
        if !self.marks {
            return;
        }
        let arrives = now + self.line.delay_ms;
        let returns = arrives + self.line.delay_ms;
        for (at, _, back) in self.back.iter_mut().filter(|(at, ..)| *at > returns) {
            (*at, *back) = (returns, Mark::Cleared);
        }
        self.throws_away(arrives);
    }

    /// The next mark that has come back by `now`.
    pub(super) fn mark(&mut self, now: u64) -> Option<(SegmentRef, Mark)> {
        let (arrives, segment, back) = *self.back.front()?;
        (arrives <= now).then(|| self.back.pop_front())?;
        Some((segment, back))
    }

    /// What it has not played out at `now` is heard by nobody.
    fn throws_away(&mut self, now: u64) {
        let Self { ear, counts, .. } = self;
        ear.retain(|(plays, segment)| {
            let played = *plays + FRAME_MS <= now;
            if let (false, Some(count)) = (played, counts.get_mut(segment)) {
                count.audible -= 1;
                count.audible_to -= 1;
                count.cut_off += 1;
            }
            played
        });
    }

    /// When a report arrives next, unless something happens before that.
    pub(super) fn next(&self) -> Option<u64> {
        let to_come = (self.rtcp && self.gone_at.is_none()).then_some(self.next_report + self.line.delay_ms);
        let mark = self.back.front().map(|(arrives, ..)| *arrives);
        self.reports.front().map(|(arrives, _)| *arrives).into_iter().chain(mark).chain(to_come).min()
    }

    /// The next report that has arrived by `now`.
    pub(super) fn report(&mut self, now: u64) -> Option<Report> {
        self.advance(now);
        let (arrives, report) = *self.reports.front()?;
        (arrives <= now).then(|| self.reports.pop_front())?;
        Some(report)
    }

    /// Takes in what has arrived by `now`, and reports on the way.
    fn advance(&mut self, now: u64) {
        while self.gone_at.is_none() && self.next_report <= now {
            let at = self.next_report;
            self.next_report += REPORT_MS;
            self.receive(at);
            let arrives = self.line.report(at).filter(|_| self.rtcp);
            if let (Some(reception), Some(arrives)) = (&self.reception, arrives) {
                let expected = reception.highest + 1 - reception.base;
                let lost = i64::try_from(expected).unwrap_or(i64::MAX) - i64::try_from(reception.received).unwrap_or(i64::MAX);
                // Cycles are counted from the first packet that it saw (RFC 3550 A.1).
                let extended_highest = (reception.highest - (reception.base & !0xFFFF)) as u32;
                self.reports.push_back((arrives, Report { extended_highest, cumulative_lost: lost + self.lost }));
                let highest = reception.highest;
                self.covers(highest);
            }
        }
        if self.gone_at.is_none() {
            self.receive(now);
        }
    }

    /// A report that the box gets counts up to this packet.
    fn covers(&mut self, highest: u64) {
        self.copies = 0;
        let Self { uncovered, counts, .. } = self;
        uncovered.retain(|segment, packets| {
            let Some(count) = counts.get_mut(segment) else { return false };
            if highest < packets.first {
                count.hidden = 0;
            }
            highest < packets.last || count.released < count.frames
        });
    }

    /// Counts what has arrived by `now` (RFC 3550 A.3).
    fn receive(&mut self, now: u64) {
        while let Some(run) = self.on_the_way.front_mut().filter(|run| run.arrives <= now) {
            let arrived = ((now - run.arrives) / FRAME_MS + 1).min(run.packets);
            let (first, last, again) = (run.first, run.first + arrived - 1, run.again);
            run.arrives += arrived * FRAME_MS;
            run.first += arrived;
            run.packets -= arrived;
            if run.packets == 0 {
                self.on_the_way.pop_front();
            } else if let Some(rest) = self.on_the_way.pop_front() {
                self.travels(rest);
            }
            let reception = self.reception.get_or_insert(Reception { base: first, highest: first, received: 0, copies: 0 });
            reception.highest = reception.highest.max(last);
            reception.received += arrived;
            if again {
                reception.copies += arrived;
                self.copies += arrived;
                for segment in self.uncovered.keys() {
                    self.counts.entry(*segment).or_default().hidden += arrived;
                }
            }
        }
    }
}

/// Reports come every five seconds (RFC 3550 6.2).
const REPORT_MS: u64 = 5_000;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use recado_core::ids::PlaybackId;

    const SEGMENT: SegmentRef = SegmentRef { playback: PlaybackId(1), index: 0 };

    fn far_end(line: Line) -> FarEnd {
        let mut far_end = FarEnd::new(0, line, false);
        far_end.expect(SEGMENT, 10);
        far_end
    }

    #[test]
    fn a_report_tells_what_had_arrived_when_it_was_sent() {
        let mut far_end = far_end(Line { delay_ms: 30, ..Line::default() });
        far_end.silence(65_500, 300, 0);
        assert_eq!(far_end.next(), Some(5_030));
        assert_eq!(far_end.report(5_029), None);
        // Sent by 4,970, and counted from the cycle of the first.
        assert_eq!(far_end.report(5_030), Some(Report { extended_highest: 65_500 + 248, cumulative_lost: 0 }));
        far_end.losing = 3;
        for frame in 0..10 {
            far_end.frame(65_800 + frame, SEGMENT, frame, 6_000 + frame * 20);
        }
        let count = far_end.counts[&SEGMENT];
        assert_eq!((count.lost, count.audible, count.audible_to), (3, 7, 10));
        assert!(!count.heard() && Count { hidden: 2, ..count }.heard());
        assert_eq!(far_end.report(10_030), Some(Report { extended_highest: 65_809, cumulative_lost: 3 }));
    }

    /// A far end hangs up with a part of a segment in its jitter buffer; says whether it reports a last time.
    fn hangs_up(seed: u64) -> bool {
        let mut far_end = far_end(Line { seed, delay_ms: 20, buffer_ms: 40, ..Line::default() });
        for frame in 0..10 {
            far_end.frame(100 + frame, SEGMENT, frame, frame * 20);
        }
        assert_eq!(far_end.ear.first(), Some(&(60, SEGMENT)));
        far_end.hang_up(200);
        let count = far_end.counts[&SEGMENT];
        assert_eq!((count.audible, count.cut_off), (7, 3));
        assert!(!count.heard());
        // The last report of those that report with their goodbye covers what they had got and not played.
        let last = far_end.line.says_goodbye(200).then_some(Report { extended_highest: 109, cumulative_lost: 0 });
        assert_eq!(far_end.report(220), last);
        assert_eq!((far_end.next(), far_end.report(9_000)), (None, None), "nobody is left who could report");
        last.is_some()
    }

    #[test]
    fn what_lies_in_the_jitter_buffer_at_the_end_is_heard_by_nobody() {
        let report: BTreeSet<bool> = (0..20).map(hangs_up).collect();
        assert_eq!(report, BTreeSet::from([false, true]), "some far ends report with their goodbye");
    }

    #[test]
    fn a_late_packet_is_received_and_not_audible_and_a_copy_makes_the_loss_negative() {
        let mut far_end = far_end(Line { seed: 5, overtaken: 300, repeated: 300, ..Line::default() });
        for frame in 0..10 {
            far_end.frame(100 + frame, SEGMENT, frame, frame * 20);
        }
        let count = far_end.counts[&SEGMENT];
        assert!(count.late > 0 && count.audible + count.late == 10, "{count:?}");
        let report = far_end.report(5_000).unwrap();
        let copies = far_end.counts[&SEGMENT].hidden;
        assert!(copies > 0);
        assert_eq!(report, Report { extended_highest: 109, cumulative_lost: -i64::try_from(copies).unwrap() });
    }

    #[test]
    fn somebody_else_counts_from_the_first_packet_that_they_get() {
        let mut far_end = far_end(Line::default());
        far_end.silence(0, 200, 0);
        far_end.renegotiated(true, 4_000);
        far_end.losing = 2;
        for frame in 0..10 {
            far_end.frame(200 + frame, SEGMENT, frame, 4_000 + frame * 20);
        }
        let count = far_end.counts[&SEGMENT];
        assert_eq!((count.unseen, count.lost, count.audible), (2, 0, 8));
        assert_eq!(far_end.report(5_000), Some(Report { extended_highest: 209, cumulative_lost: 0 }));
    }
}
