//! Evidence: whether the far end got what was sent. Generated is not heard.

use std::collections::VecDeque;

use super::effect::Doubt;
use super::input::{Evidence, Generation};
use crate::faults::{Fault, fault};
use crate::time::Time;
use crate::timers::{Timer, Timers};

/// What the far end reported, of the current generations.
#[derive(Debug, Clone, Default)]
pub(super) struct Reports {
    kept: VecDeque<Report>,
    receivers: u32,
}

#[derive(Debug, Clone, Copy)]
struct Report {
    at: Time,
    generation: Generation,
    /// Who counts the loss: a clear ends a generation, and its receiver goes on counting in the next one.
    receiver: u32,
    highest_packet: u64,
    /// Up to where the loss is counted: where several generations are told of at once, to the end of the last.
    counted_to: u64,
    cumulative_lost: i64,
}

/// A segment whose last frame has left the box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SentSegment {
    pub(super) first_packet: u64,
    pub(super) last_packet: u64,
    pub(super) first_generation: Generation,
    pub(super) generation: Generation,
    pub(super) started_at: Time,
    pub(super) sent_at: Time,
    pub(super) near_silent: bool,
    pub(super) duration_ms: u64,
    /// Whether its mark came back before its last frame had left.
    pub(super) mark_too_soon: bool,
}

/// A verdict on a segment: heard, on this evidence; or in doubt, and why.
pub(super) type Verdict = Result<Evidence, Doubt>;

/// What a delivery and its channel ask of evidence.
#[derive(Debug, Clone, Copy)]
pub(super) struct Needs {
    /// The strongest that the channel can give.
    pub(super) best: Evidence,
    /// Whether nothing less will do.
    pub(super) strict: bool,
    /// What may lie in the far end's jitter buffer (ms).
    pub(super) grace_ms: u64,
}

impl Reports {
    /// Takes a report. The oldest are forgotten: none of their segments waits any more.
    ///
    /// A report is told once for each generation that its receiver got, at one time and with one count: so those have one receiver.
    /// Two that come at one time, because they had to wait, are told apart by their counts.
    pub(super) fn add(&mut self, generation: Generation, highest_packet: u64, cumulative_lost: i64, at: Time) {
        let again = |report: &Report| report.at == at && report.cumulative_lost == cumulative_lost;
        let same = |report: &&Report| report.generation == generation || again(report);
        let receiver = match self.kept.iter().rfind(same) {
            Some(report) => report.receiver,
            None => {
                self.receivers = self.receivers.saturating_add(1);
                self.receivers
            }
        };
        for told in self.kept.iter_mut().filter(|report| again(report)) {
            told.counted_to = told.counted_to.max(highest_packet);
        }
        if self.kept.len() >= REPORTS_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(Report { at, generation, receiver, highest_packet, counted_to: highest_packet, cumulative_lost });
    }

    /// The verdict of a report on a segment; none while no report covers it.
    pub(super) fn verdict(&self, segment: &SentSegment) -> Option<Verdict> {
        if segment.first_generation != segment.generation && !fault(Fault::CreditAcrossGenerations) {
            return None; // It straddles two generations: no report speaks for the whole of it.
        }
        let same = |report: &Report| report.generation == segment.generation || fault(Fault::CreditAcrossGenerations);
        let covers = |report: &&Report| same(report) && report.highest_packet >= segment.last_packet;
        let after = self.kept.iter().find(covers)?;
        // The loss between the two reports around the segment is charged wholly to it.
        let (lost, copies) = self.between(self.before(after, segment.first_packet), after);
        // Where there was any, copies may have hidden as much again (RFC 3550 6.4.1): in doubt, less was heard.
        let lost = if lost > 0 { lost.saturating_add(copies) } else { 0 };
        // Packets of silence, sent while it was paused, are none of its own.
        let between = segment.last_packet.saturating_sub(segment.first_packet) + 1;
        let packets = between.min(segment.duration_ms.div_ceil(PACKET_MS));
        Some(if segment.near_silent {
            Err(Doubt::NearSilent)
        } else if lost * 100 > packets * LOSS_PERCENT_MAX {
            Err(Doubt::Lost)
        } else {
            Ok(Evidence::Received)
        })
    }

    /// The verdict without a report, when there is none to wait for any more. `end` is when the far end was last known to hear
    /// us: when the call ended or was put on hold, or now.
    pub(super) fn verdict_without(&self, segment: &SentSegment, needs: &Needs, end: Time) -> Verdict {
        if segment.near_silent {
            return Err(Doubt::NearSilent);
        }
        if segment.mark_too_soon {
            return Err(Doubt::MarkTooSoon);
        }
        if segment.first_generation != segment.generation {
            return Err(Doubt::Generations);
        }
        if end < segment.played_at(needs) {
            return Err(Doubt::LeftTooLate);
        }
        if self.not_reached(segment, needs) {
            return Err(Doubt::NotReached);
        }
        // A channel with marks sends every one back: none says something.
        if (needs.strict && needs.best > Evidence::Sent) || needs.best == Evidence::Marked {
            return Err(Doubt::NotBest);
        }
        self.healthy(end).map(|()| Evidence::Sent)
    }

    /// What was lost from the report before a segment to the one after it, as far as no copies of packets hid it; and the most that
    /// copies have made the count of this receiver fall from one report to the next.
    fn between(&self, before: Option<&Report>, after: &Report) -> (u64, u64) {
        let (mut lost, mut copies, mut known) = (0_u64, 0_u64, 0_i64);
        for report in self.kept.iter().filter(|report| report.receiver == after.receiver) {
            let rise = report.cumulative_lost.saturating_sub(known);
            known = report.cumulative_lost;
            copies = copies.max(rise.min(0).unsigned_abs());
            if before.is_none_or(|before| report.at > before.at) && report.at <= after.at {
                lost = lost.saturating_add(rise.max(0).unsigned_abs());
            }
        }
        (lost, copies)
    }

    /// The last report of the same receiver that came before `after` and counts nothing from `packet` on.
    fn before(&self, after: &Report, packet: u64) -> Option<&Report> {
        let earlier = |report: &&Report| report.receiver == after.receiver && report.at < after.at && report.counted_to < packet;
        self.kept.iter().rfind(earlier)
    }

    /// Whether the far end went on reporting when the segment must have reached it, and none of these reports knows its end.
    fn not_reached(&self, segment: &SentSegment, needs: &Needs) -> bool {
        let there_by = segment.sent_at.plus(needs.grace_ms).plus(ROUND_TRIP_MS);
        // Of whatever generation: one that never came is told of by reports on those before it.
        let highest = self.kept.iter().filter(|report| report.at >= there_by).map(|report| report.counted_to).max();
        highest.is_some_and(|highest| highest < segment.last_packet)
    }

    /// Whether the far end never reported, or its last report is of late and showed no more loss than is allowed. Who
    /// reported and then fell silent may be gone.
    fn healthy(&self, end: Time) -> Result<(), Doubt> {
        let Some(last) = self.kept.back() else { return Ok(()) };
        if end.since(last.at) > REPORT_OVERDUE_MS {
            return Err(Doubt::FellSilent);
        }
        let (packets, lost) = match self.before(last, u64::MAX) {
            Some(before) => {
                (last.highest_packet.saturating_sub(before.counted_to), last.cumulative_lost.saturating_sub(before.cumulative_lost))
            }
            // The first report counts from a sequence number that this room does not know.
            None => (REPORT_PACKETS, last.cumulative_lost),
        };
        if lost.max(0).unsigned_abs() * 100 > packets.max(1) * LOSS_PERCENT_MAX { Err(Doubt::LossRising) } else { Ok(()) }
    }
}

impl SentSegment {
    /// When it is settled without a report.
    pub(super) fn settles_at(&self, needs: &Needs, timers: &Timers) -> Time {
        if needs.best > Evidence::Sent { self.sent_at.plus(timers.ms(Timer::EvidenceMax)) } else { self.played_at(needs) }
    }

    /// When the far end has played it, at the latest: a report covers what still lies in its jitter buffer, and it throws that away
    /// when it hangs up or puts the call on hold.
    pub(super) fn played_at(&self, needs: &Needs) -> Time {
        self.sent_at.plus(needs.grace_ms)
    }

    /// The verdict of its mark, which came back played at `at`. It can't have been played before it was sent.
    pub(super) fn played(&self, at: Time) -> Verdict {
        if self.near_silent {
            Err(Doubt::NearSilent)
        } else if self.mark_too_soon || at < self.started_at.plus(self.duration_ms) {
            Err(Doubt::MarkTooSoon)
        } else {
            Ok(Evidence::Marked)
        }
    }
}

/// Reports kept: more than come in the time that a segment waits.
const REPORTS_MAX: usize = 32;

/// Loss within a segment up to which it counts as received (percent of its packets). Concealment hides about as much.
const LOSS_PERCENT_MAX: u64 = 10;

/// What a packet carries (ms).
const PACKET_MS: u64 = 20;

/// How old the last report of a far end that reports may be: two of the usual intervals of five seconds, and some delay.
const REPORT_OVERDUE_MS: u64 = 11_000;

/// How long a packet and the report on it are under way together: longer than on a line that people can talk over.
const ROUND_TRIP_MS: u64 = 1_000;

/// Packets between two reports, by the usual interval of five seconds.
const REPORT_PACKETS: u64 = 250;

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: SentSegment = SentSegment {
        first_packet: 1000,
        last_packet: 1099,
        first_generation: Generation(1),
        generation: Generation(1),
        started_at: Time(8_020),
        sent_at: Time(10_000),
        near_silent: false,
        duration_ms: 2_000,
        mark_too_soon: false,
    };

    const NEEDS: Needs = Needs { best: Evidence::Received, strict: false, grace_ms: 200 };

    fn reports(list: &[(u32, u64, i64)]) -> Reports {
        let mut reports = Reports::default();
        for (&(generation, highest, lost), n) in list.iter().zip(1..) {
            reports.add(Generation(generation), highest, lost, Time(n * 5_000));
        }
        reports
    }

    #[test]
    fn a_report_that_reaches_the_last_packet_is_evidence() {
        assert_eq!(reports(&[(1, 1098, 0)]).verdict(&SEGMENT), None);
        assert_eq!(reports(&[(1, 1099, 0)]).verdict(&SEGMENT), Some(Ok(Evidence::Received)));
    }

    #[test]
    fn loss_between_the_two_reports_around_a_segment_is_charged_to_it() {
        assert_eq!(reports(&[(1, 990, 40), (1, 1200, 50)]).verdict(&SEGMENT), Some(Ok(Evidence::Received)));
        assert_eq!(reports(&[(1, 990, 40), (1, 1200, 51)]).verdict(&SEGMENT), Some(Err(Doubt::Lost)));
        assert_eq!(
            reports(&[(1, 1050, 0), (1, 1200, 11)]).verdict(&SEGMENT),
            Some(Err(Doubt::Lost)),
            "a report inside it is not before it"
        );
        assert_eq!(
            reports(&[(1, 990, 9), (1, 1200, -3)]).verdict(&SEGMENT),
            Some(Ok(Evidence::Received)),
            "duplicates make the count go down"
        );
    }

    #[test]
    fn copies_of_packets_hide_no_loss_that_another_report_has_shown() {
        // Nine were lost in the first half; copies came in the second.
        assert_eq!(reports(&[(1, 990, 0), (1, 1_050, 9), (1, 1_200, 0)]).verdict(&SEGMENT), Some(Err(Doubt::Lost)));
        // The line has been seen to make three in the time of a report: they may hide as many of the nine.
        assert_eq!(reports(&[(1, 700, 0), (1, 990, -3), (1, 1_200, 6)]).verdict(&SEGMENT), Some(Err(Doubt::Lost)));
        assert_eq!(reports(&[(1, 700, 0), (1, 990, -3), (1, 1_200, 4)]).verdict(&SEGMENT), Some(Ok(Evidence::Received)));
    }

    #[test]
    fn reports_that_had_to_wait_and_come_at_one_time_hide_no_loss() {
        let mut reports = Reports::default();
        for (at, highest, lost) in [(5_000, 990, 0), (15_000, 1_050, 0), (15_000, 1_200, 11)] {
            reports.add(Generation(1), highest, lost, Time(at));
        }
        assert_eq!(reports.verdict(&SEGMENT), Some(Err(Doubt::Lost)));
        // One is of whoever heard before a re-INVITE, and counted more.
        let mut reports = Reports::default();
        reports.add(Generation(0), 900, 40, Time(15_000));
        reports.add(Generation(1), 1_200, 11, Time(15_000));
        assert_eq!(reports.verdict(&SEGMENT), Some(Err(Doubt::Lost)));
    }

    #[test]
    fn evidence_of_one_generation_never_credits_another() {
        assert_eq!(reports(&[(2, 5000, 0)]).verdict(&SEGMENT), None);
        let straddling = SentSegment { first_generation: Generation(0), ..SEGMENT };
        assert_eq!(reports(&[(1, 5000, 0)]).verdict(&straddling), None);
        assert_eq!(reports(&[(1, 5000, 0)]).verdict_without(&straddling, &NEEDS, Time(60_000)), Err(Doubt::Generations));
    }

    #[test]
    fn packets_that_were_sent_during_a_pause_dilute_no_loss() {
        let paused = SentSegment { last_packet: 1_299, ..SEGMENT };
        assert_eq!(reports(&[(1, 990, 0), (1, 1_400, 10)]).verdict(&paused), Some(Ok(Evidence::Received)));
        assert_eq!(reports(&[(1, 990, 0), (1, 1_400, 11)]).verdict(&paused), Some(Err(Doubt::Lost)));
    }

    #[test]
    fn the_loss_of_a_generation_that_was_cleared_is_not_charged_to_the_next_one_of_the_same_receiver() {
        let mut reports = Reports::default();
        reports.add(Generation(0), 500, 40, Time(5_000));
        // One report, told for both generations that its receiver got.
        reports.add(Generation(0), 899, 41, Time(10_000));
        reports.add(Generation(1), 1_200, 41, Time(10_000));
        assert_eq!(reports.verdict(&SEGMENT), Some(Ok(Evidence::Received)));
        // Of that report, the part about the generation before knows of losses in this one.
        let mut reports = Reports::default();
        reports.add(Generation(0), 899, 30, Time(10_000));
        reports.add(Generation(1), 1_050, 30, Time(10_000));
        reports.add(Generation(1), 1_300, 30, Time(15_000));
        assert_eq!(reports.verdict(&SEGMENT), Some(Err(Doubt::Lost)));
        // After a re-INVITE it may be somebody else who counts, from nought.
        let mut reports = Reports::default();
        reports.add(Generation(0), 500, 40, Time(5_000));
        reports.add(Generation(1), 1_200, 41, Time(10_000));
        assert_eq!(reports.verdict(&SEGMENT), Some(Err(Doubt::Lost)));
    }

    #[test]
    fn near_silent_audio_convinces_nobody() {
        let silent = SentSegment { near_silent: true, ..SEGMENT };
        assert_eq!(reports(&[(1, 2000, 0)]).verdict(&silent), Some(Err(Doubt::NearSilent)));
        assert_eq!(reports(&[]).verdict_without(&silent, &NEEDS, Time(60_000)), Err(Doubt::NearSilent));
    }

    #[test]
    fn without_a_report_sent_plus_grace_counts_if_nothing_speaks_against_it() {
        let none = reports(&[]);
        assert_eq!(none.verdict_without(&SEGMENT, &NEEDS, Time(10_200)), Ok(Evidence::Sent));
        assert_eq!(none.verdict_without(&SEGMENT, &NEEDS, Time(10_199)), Err(Doubt::LeftTooLate));
        let healthy = reports(&[(1, 500, 0), (1, 750, 25)]);
        assert_eq!(healthy.verdict_without(&SEGMENT, &NEEDS, Time(20_000)), Ok(Evidence::Sent));
        let rising = reports(&[(1, 500, 0), (1, 750, 26)]);
        assert_eq!(rising.verdict_without(&SEGMENT, &NEEDS, Time(20_000)), Err(Doubt::LossRising));
    }

    #[test]
    fn a_far_end_that_reported_and_fell_silent_is_not_believed_to_have_heard() {
        let fell_silent = reports(&[(1, 500, 0), (1, 750, 0)]);
        assert_eq!(fell_silent.verdict_without(&SEGMENT, &NEEDS, Time(21_000)), Ok(Evidence::Sent));
        assert_eq!(fell_silent.verdict_without(&SEGMENT, &NEEDS, Time(25_000)), Err(Doubt::FellSilent));
    }

    #[test]
    fn a_far_end_that_goes_on_reporting_and_never_gets_the_segment_has_not_heard_it() {
        let stuck = |at: u64, generation: u32, highest: u64| {
            let mut reports = Reports::default();
            for at in [9_000, at] {
                reports.add(Generation(generation), highest, 0, Time(at));
            }
            reports.verdict_without(&SEGMENT, &NEEDS, Time(at))
        };
        assert_eq!(stuck(14_000, 1, 900), Err(Doubt::NotReached));
        assert_eq!(stuck(14_000, 1, 1_098), Err(Doubt::NotReached), "all but its end");
        assert_eq!(stuck(14_000, 0, 900), Err(Doubt::NotReached), "nothing of its generation ever came");
        assert_eq!(stuck(11_200, 1, 900), Err(Doubt::NotReached));
        assert_eq!(stuck(11_199, 1, 900), Ok(Evidence::Sent), "its packets, or the report, may have been under way");
    }

    #[test]
    fn a_strict_policy_is_content_with_nothing_less_than_the_channels_best() {
        let strict = Needs { strict: true, ..NEEDS };
        assert_eq!(reports(&[]).verdict_without(&SEGMENT, &strict, Time(25_000)), Err(Doubt::NotBest));
        let sent_is_best = Needs { best: Evidence::Sent, ..strict };
        assert_eq!(reports(&[]).verdict_without(&SEGMENT, &sent_is_best, Time(25_000)), Ok(Evidence::Sent));
    }

    #[test]
    fn a_mark_that_comes_back_sooner_than_the_audio_could_have_played_convinces_nobody() {
        assert_eq!(SEGMENT.played(Time(10_020)), Ok(Evidence::Marked));
        assert_eq!(SEGMENT.played(Time(10_019)), Err(Doubt::MarkTooSoon));
        let before_its_end = SentSegment { mark_too_soon: true, ..SEGMENT };
        assert_eq!(before_its_end.played(Time(30_000)), Err(Doubt::MarkTooSoon));
        assert_eq!(SentSegment { near_silent: true, ..SEGMENT }.played(Time(30_000)), Err(Doubt::NearSilent));
    }

    #[test]
    fn where_every_mark_comes_back_one_that_does_not_is_doubted() {
        let marks = Needs { best: Evidence::Marked, ..NEEDS };
        assert_eq!(reports(&[]).verdict_without(&SEGMENT, &marks, Time(25_000)), Err(Doubt::NotBest));
    }

    #[test]
    fn a_report_up_to_the_first_packet_counts_a_loss_of_that_packet() {
        assert_eq!(reports(&[(1, 999, 11), (1, 1_200, 11)]).verdict(&SEGMENT), Some(Ok(Evidence::Received)));
        assert_eq!(reports(&[(1, 1_000, 11), (1, 1_200, 11)]).verdict(&SEGMENT), Some(Err(Doubt::Lost)));
    }

    #[test]
    fn a_report_that_reaches_the_end_of_a_segment_says_that_it_was_reached() {
        let at = Time(SEGMENT.sent_at.0 + NEEDS.grace_ms + ROUND_TRIP_MS);
        for (highest, verdict) in [(1_098, Err(Doubt::NotReached)), (1_099, Ok(Evidence::Sent))] {
            let mut reports = Reports::default();
            reports.add(Generation(0), highest, 0, at);
            assert_eq!(reports.verdict_without(&SEGMENT, &NEEDS, at), verdict);
        }
    }

    #[test]
    fn a_channel_without_reports_waits_for_none() {
        let sent = Needs { best: Evidence::Sent, ..NEEDS };
        assert_eq!(SEGMENT.settles_at(&sent, &Timers::default()), Time(10_200));
        assert_eq!(SEGMENT.settles_at(&NEEDS, &Timers::default()), Time(25_000));
    }
}
