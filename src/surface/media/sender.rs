//! The RTP stream that leaves the box: one timeline from the first packet to the last (RFC 3550 5.1).

use rtp_rs::{RtpPacketBuilder, Seq};

use super::clock::FRAME_SAMPLES;
use super::g711::Codec;

/// Numbers the outgoing packets.
///
/// The timestamp goes on with every frame interval, sent or not; the sequence number only with packets. The marker is set on
/// the first packet and on the first after a gap (RFC 3551 4.1).
#[derive(Debug)]
pub(super) struct Sender {
    ssrc: u32,
    /// Extended sequence number of the next packet (RFC 3550 A.1, counted from the first one's 16 bits).
    next_packet: u64,
    first_packet: u64,
    timestamp: u32,
    marker: bool,
    octets: u32,
}

impl Sender {
    pub(super) fn new(ssrc: u32, first_sequence: u16, first_timestamp: u32) -> Self {
        let first_packet = u64::from(first_sequence);
        Self { ssrc, next_packet: first_packet, first_packet, timestamp: first_timestamp, marker: true, octets: 0 }
    }

    /// Writes the packet of this frame interval into `buffer`; returns its length and its extended sequence number.
    pub(super) fn packet(&mut self, codec: Codec, payload: &[u8; FRAME_SAMPLES], buffer: &mut [u8]) -> Option<(usize, u64)> {
        let length = RtpPacketBuilder::new()
            .payload_type(codec.payload_type())
            .marked(self.marker)
            .sequence(Seq::from(self.next_packet as u16))
            .timestamp(self.timestamp)
            .ssrc(self.ssrc)
            .payload(payload)
            .build_into(buffer)
            .ok()?;
        let packet = self.next_packet;
        self.next_packet += 1;
        self.octets = self.octets.wrapping_add(FRAME_SAMPLES as u32);
        self.marker = false;
        self.interval();
        Some((length, packet))
    }

    /// A frame interval passes without a packet.
    pub(super) fn gap(&mut self) {
        self.marker = true;
        self.interval();
    }

    fn interval(&mut self) {
        self.timestamp = self.timestamp.wrapping_add(FRAME_SAMPLES as u32);
    }

    pub(super) fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// Extended sequence number that the next packet will have.
    pub(super) fn next_packet(&self) -> u64 {
        self.next_packet
    }

    /// Timestamp of the next frame interval.
    pub(super) fn timestamp(&self) -> u32 {
        self.timestamp
    }

    /// Packets and payload octets sent so far, as a sender report counts them (RFC 3550 6.4.1).
    pub(super) fn counts(&self) -> (u32, u32) {
        ((self.next_packet - self.first_packet) as u32, self.octets)
    }

    /// What a far end's extended highest sequence number means in our own numbering: the latest packet sent with its lower
    /// 16 bits. The far end counts cycles from the first packet that it saw, so its upper bits say nothing here.
    pub(super) fn sent_packet(&self, extended_highest: u32) -> Option<u64> {
        let last = self.next_packet.checked_sub(1).filter(|last| *last >= self.first_packet)?;
        let behind = (last as u16).wrapping_sub(extended_highest as u16);
        last.checked_sub(u64::from(behind)).filter(|packet| *packet >= self.first_packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtp_rs::RtpReader;

    fn send(sender: &mut Sender) -> (u16, u32, bool, u64) {
        let mut buffer = [0; 172];
        let (length, packet) = sender.packet(Codec::Pcmu, &[0xFF; 160], &mut buffer).unwrap();
        let rtp = RtpReader::new(&buffer[..length]).unwrap();
        assert_eq!((length, rtp.ssrc(), rtp.payload_type()), (172, 7, 0));
        (rtp.sequence_number().into(), rtp.timestamp(), rtp.mark(), packet)
    }

    #[test]
    fn sequence_and_timestamp_wrap_and_the_extended_number_goes_on() {
        let mut sender = Sender::new(7, 0xFFFE, u32::MAX - 200);
        assert_eq!(send(&mut sender), (0xFFFE, u32::MAX - 200, true, 0xFFFE));
        assert_eq!(send(&mut sender), (0xFFFF, u32::MAX - 40, false, 0xFFFF));
        assert_eq!(send(&mut sender), (0, 119, false, 0x1_0000));
        assert_eq!(sender.counts(), (3, 480));
    }

    #[test]
    fn a_gap_moves_the_timestamp_only_and_marks_the_next_packet() {
        let mut sender = Sender::new(7, 10, 0);
        send(&mut sender);
        sender.gap();
        sender.gap();
        assert_eq!(send(&mut sender), (11, 480, true, 11));
        assert_eq!(send(&mut sender), (12, 640, false, 12));
    }

    #[test]
    fn a_report_is_matched_to_our_own_numbering_whatever_its_cycles() {
        let mut sender = Sender::new(7, 0xFFF0, 0);
        assert_eq!(sender.sent_packet(0xFFF0), None);
        for _ in 0..32 {
            send(&mut sender);
        }
        assert_eq!(sender.sent_packet(0x0001_0005), Some(0x1_0005));
        assert_eq!(sender.sent_packet(0x0000_0005), Some(0x1_0005));
        assert_eq!(sender.sent_packet(0x0000_FFF3), Some(0xFFF3));
        assert_eq!(sender.sent_packet(0x0000_FFEF), None, "before our first");
        assert_eq!(sender.sent_packet(0x0001_0011), None, "not sent yet");
    }
}
