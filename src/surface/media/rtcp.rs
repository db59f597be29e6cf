//! RTCP: what the box reports about itself and the caller, and what it reads (RFC 3550 6).

use rtcp_types::{ReceiverReport, ReportBlock, RtcpPacketParser, SenderReport};

use super::clock::Nanos;
use super::reception::Block;

/// What a sender report says of our stream at the moment of its sending.
#[derive(Debug, Clone, Copy)]
pub(super) struct SenderInfo {
    pub(super) ntp: u64,
    pub(super) timestamp: u32,
    pub(super) packets: u32,
    pub(super) octets: u32,
}

/// The last sender report of the far end: its middle 32 bits and when it came.
#[derive(Debug, Clone, Copy)]
pub(super) struct LastSenderReport {
    pub(super) ntp_middle: u32,
    pub(super) came: Nanos,
}

/// A compound packet to send: a sender or receiver report, our name, and at the end of the call a goodbye.
#[derive(Debug, Clone, Copy)]
pub(super) struct Report<'a> {
    pub(super) ssrc: u32,
    /// None where nothing was sent lately: then it is a receiver report (RFC 3550 6.4).
    pub(super) sender: Option<SenderInfo>,
    pub(super) block: Option<(Block, Option<LastSenderReport>)>,
    pub(super) cname: &'a str,
    pub(super) goodbye: bool,
}

impl Report<'_> {
    /// Writes the packet; returns its length. [`REPORT_OCTETS_MAX`] are enough.
    pub(super) fn write(&self, now: Nanos, buffer: &mut [u8; REPORT_OCTETS_MAX]) -> usize {
        let mut out = Writer { buffer, at: 0 };
        let start = out.header(if self.sender.is_some() { SENDER_REPORT } else { RECEIVER_REPORT }, u8::from(self.block.is_some()));
        out.u32(self.ssrc);
        if let Some(sender) = self.sender {
            out.u32((sender.ntp >> 32) as u32);
            out.u32(sender.ntp as u32);
            out.u32(sender.timestamp);
            out.u32(sender.packets);
            out.u32(sender.octets);
        }
        if let Some((block, last)) = self.block {
            out.u32(block.ssrc);
            out.u32(u32::from(block.fraction_lost) << 24 | block.cumulative_lost as u32 & 0x00FF_FFFF);
            out.u32(block.highest);
            out.u32(block.jitter);
            out.u32(last.map_or(0, |last| last.ntp_middle));
            // In units of 1/65536 s.
            out.u32(last.map_or(0, |last| (u128::from(now.0.saturating_sub(last.came.0)) * 65_536 / 1_000_000_000) as u32));
        }
        out.finish(start);

        let start = out.header(SOURCE_DESCRIPTION, 1);
        out.u32(self.ssrc);
        let cname = self.cname.as_bytes();
        let cname = &cname[..cname.len().min(CNAME_OCTETS_MAX)];
        out.bytes(&[CNAME_ITEM, cname.len() as u8]);
        out.bytes(cname);
        // At least one zero octet ends the items, and more fill the word.
        out.bytes(&[0; 4][..4 - out.at % 4]);
        out.finish(start);

        if self.goodbye {
            let start = out.header(GOODBYE, 1);
            out.u32(self.ssrc);
            out.finish(start);
        }
        out.at
    }
}

/// Something of interest in a compound packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    /// The far end sent a sender report.
    Sender { ssrc: u32, ntp_middle: u32 },
    /// The far end received our stream.
    Received { about: u32, highest: u32, cumulative_lost: i32 },
}

/// Reads a compound packet; `false` if it is none, and then nothing was read (RFC 3550 A.2).
pub(super) fn read(data: &[u8], mut found: impl FnMut(Read)) -> bool {
    if !is_compound(data) {
        return false;
    }
    for packet in packets(data) {
        match packet.get(1) {
            Some(&SENDER_REPORT) => {
                if let Ok(report) = SenderReport::parse(packet) {
                    found(Read::Sender { ssrc: report.ssrc(), ntp_middle: (report.ntp_timestamp() >> 16) as u32 });
                    report.report_blocks().for_each(|block| found(received(&block)));
                }
            }
            Some(&RECEIVER_REPORT) => {
                if let Ok(report) = ReceiverReport::parse(packet) {
                    report.report_blocks().for_each(|block| found(received(&block)));
                }
            }
            _ => {}
        }
    }
    true
}

fn received(block: &ReportBlock<'_>) -> Read {
    // The crate returns the 24 bits unsigned; they are a signed number.
    let cumulative_lost = (block.cumulative_lost() << 8) as i32 >> 8;
    Read::Received { about: block.ssrc(), highest: block.extended_sequence_number(), cumulative_lost }
}

/// The packets of a compound, by their length fields; it ends where they do.
fn packets(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = data;
    std::iter::from_fn(move || {
        let &[_, _, high, low] = rest.first_chunk::<4>()?;
        let (packet, after) = rest.split_at_checked((usize::from(u16::from_be_bytes([high, low])) + 1) * 4)?;
        rest = after;
        Some(packet)
    })
}

/// Version 2 throughout, a report first, and lengths that add up.
fn is_compound(data: &[u8]) -> bool {
    let first_is_report = matches!(data.get(1), Some(&(SENDER_REPORT | RECEIVER_REPORT)));
    first_is_report
        && packets(data).all(|packet| packet.first().is_some_and(|first| first >> 6 == 2))
        && packets(data).map(<[u8]>::len).sum::<usize>() == data.len()
}

/// Whether a packet that came to the RTP port is RTCP (RFC 5761 4).
pub(super) fn is_rtcp(data: &[u8]) -> bool {
    matches!(data.get(1), Some(192..=223))
}

/// When to report: every five seconds or so, the first time after half of it (RFC 3550 6.2, 6.3.1).
#[derive(Debug)]
pub(super) struct Schedule {
    next: Nanos,
    random: u64,
}

impl Schedule {
    pub(super) fn new(now: Nanos, seed: u64) -> Self {
        let mut schedule = Self { next: now, random: seed | 1 };
        schedule.advance(now, INTERVAL_MS / 2);
        schedule
    }

    /// Whether a report is due; the next one is then set.
    pub(super) fn due(&mut self, now: Nanos) -> bool {
        let due = now >= self.next;
        if due {
            self.advance(now, INTERVAL_MS);
        }
        due
    }

    fn advance(&mut self, now: Nanos, interval_ms: u64) {
        // xorshift64: half to one and a half of the interval, divided by e - 3/2.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let spread_ms = interval_ms / 2 + self.random % interval_ms;
        self.next = now.plus_ms(spread_ms * 100_000 / 121_828);
    }
}

struct Writer<'a> {
    buffer: &'a mut [u8; REPORT_OCTETS_MAX],
    at: usize,
}

impl Writer<'_> {
    /// Begins a packet whose length [`Self::finish`] fills in.
    fn header(&mut self, packet_type: u8, count: u8) -> usize {
        let start = self.at;
        self.bytes(&[0x80 | count, packet_type, 0, 0]);
        start
    }

    fn u32(&mut self, value: u32) {
        self.bytes(&value.to_be_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        if let Some(target) = self.buffer.get_mut(self.at..self.at + bytes.len()) {
            target.copy_from_slice(bytes);
            self.at += bytes.len();
        }
    }

    fn finish(&mut self, start: usize) {
        let words = ((self.at - start) / 4).saturating_sub(1) as u16;
        if let Some(target) = self.buffer.get_mut(start + 2..start + 4) {
            target.copy_from_slice(&words.to_be_bytes());
        }
    }
}

/// Sender report with one block (52), a name (8 + 2 + 64, filled up to words with one zero at least: 76), goodbye (8).
pub(super) const REPORT_OCTETS_MAX: usize = 136;
const CNAME_OCTETS_MAX: usize = 64;
const CNAME_ITEM: u8 = 1;
const SENDER_REPORT: u8 = 200;
const RECEIVER_REPORT: u8 = 201;
const SOURCE_DESCRIPTION: u8 = 202;
const GOODBYE: u8 = 203;
/// The least interval of RFC 3550 6.2; two parties never need a longer one.
const INTERVAL_MS: u64 = 5_000;

#[cfg(test)]
mod tests {
    use super::*;
    use rtcp_types::{Compound, Packet};

    fn block() -> Block {
        Block { ssrc: 0xCA11, fraction_lost: 12, cumulative_lost: -3, highest: 0x1_2345, jitter: 77 }
    }

    fn written(report: &Report<'_>, now: Nanos) -> Vec<u8> {
        let mut buffer = [0; REPORT_OCTETS_MAX];
        let length = report.write(now, &mut buffer);
        buffer[..length].to_vec()
    }

    #[test]
    fn an_independent_reader_finds_all_that_was_written() {
        for cname in ["", "a", "ab", "abc", "abcd", "recado@192.0.2.1", &"x".repeat(80)] {
            let sender = SenderInfo { ntp: 0x0102_0304_0506_0708, timestamp: 99, packets: 5, octets: 800 };
            let last = LastSenderReport { ntp_middle: 0xABCD_0123, came: Nanos::from_ms(1_000) };
            let report = Report { ssrc: 7, sender: Some(sender), block: Some((block(), Some(last))), cname, goodbye: true };
            let data = written(&report, Nanos::from_ms(1_500));
            let packets: Vec<_> = Compound::parse(&data).unwrap().map(Result::unwrap).collect();
            let [Packet::Sr(sr), Packet::Sdes(sdes), Packet::Bye(bye)] = &packets[..] else { panic!("{packets:?}") };
            assert_eq!((sr.ssrc(), sr.ntp_timestamp(), sr.rtp_timestamp()), (7, 0x0102_0304_0506_0708, 99));
            assert_eq!((sr.packet_count(), sr.octet_count()), (5, 800));
            let read = sr.report_blocks().next().unwrap();
            assert_eq!((read.ssrc(), read.fraction_lost(), read.cumulative_lost()), (0xCA11, 12, 0xFF_FFFD));
            assert_eq!((read.extended_sequence_number(), read.interarrival_jitter()), (0x1_2345, 77));
            assert_eq!((read.last_sender_report_timestamp(), read.delay_since_last_sender_report_timestamp()), (0xABCD_0123, 32_768));
            let chunk = sdes.chunks().next().unwrap();
            assert_eq!(chunk.items().next().unwrap().value(), &cname.as_bytes()[..cname.len().min(64)]);
            assert_eq!(bye.ssrcs().collect::<Vec<_>>(), [7]);
        }
    }

    #[test]
    fn cumulative_loss_is_read_with_its_sign() {
        let report = Report { ssrc: 7, sender: None, block: Some((block(), None)), cname: "x", goodbye: false };
        let mut found = Vec::new();
        assert!(read(&written(&report, Nanos(0)), |read| found.push(read)));
        assert_eq!(found, [Read::Received { about: 0xCA11, highest: 0x1_2345, cumulative_lost: -3 }]);
    }

    #[test]
    fn what_is_no_compound_is_not_read() {
        let report = Report { ssrc: 7, sender: None, block: None, cname: "x", goodbye: false };
        let good = written(&report, Nanos(0));
        assert!(read(&good, |_| ()));
        assert!(!read(&good[..good.len() - 1], |_| ()), "cut short");
        assert!(!read(&good[8..], |_| ()), "no report first");
        assert!(!read(&[], |_| ()));
        let mut old = good.clone();
        old[8] = 0x41;
        assert!(!read(&old, |_| ()), "version 1 inside");
    }

    #[test]
    fn inputs_that_broke_other_readers_are_survived() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/cases/c_malformed/webrtc-fuzz-corpus/rtcp");
        let Ok(files) = std::fs::read_dir(folder) else { return println!("skipped: {folder} is missing") };
        let count = files.flatten().filter_map(|file| std::fs::read(file.path()).ok()).map(|data| read(&data, |_| ())).count();
        assert!(count > 0);
    }

    #[test]
    fn reports_are_spread_over_the_intervals_of_the_rfc() {
        for seed in 1..50 {
            let mut schedule = Schedule::new(Nanos(0), seed * 7_919);
            let mut due = Vec::new();
            for ms in (0..60_000).step_by(20) {
                if schedule.due(Nanos::from_ms(ms)) {
                    due.push(ms);
                }
            }
            assert!((1_020..=3_100).contains(&due[0]), "{due:?}");
            assert!(due.windows(2).all(|pair| (2_040..=6_180).contains(&(pair[1] - pair[0]))), "{due:?}");
        }
    }
}
