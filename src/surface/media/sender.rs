//! The RTP stream that leaves the box: one timeline from the first packet to the last (RFC 3550 5.1).

use rtp_rs::{RtpPacketBuilder, Seq};

use super::clock::FRAME_SAMPLES;
use crate::g711::Codec;

/// Writes the outgoing packets.
///
/// The timestamp goes on with every frame interval, sent or not; the sequence number, which the mouth counts, only with packets.
/// The marker is set on the first packet and on the first after a gap (RFC 3551 4.1).
#[derive(Debug)]
pub(super) struct Sender {
    ssrc: u32,
    timestamp: u32,
    marker: bool,
    packets: u32,
    octets: u32,
}

impl Sender {
    pub(super) fn new(ssrc: u32, first_timestamp: u32) -> Self {
        Self { ssrc, timestamp: first_timestamp, marker: true, packets: 0, octets: 0 }
    }

    /// Writes the packet of this frame interval, whose extended sequence number is `packet`, into `buffer`; returns its length.
    pub(super) fn packet(&mut self, packet: u64, codec: Codec, payload: &[u8; FRAME_SAMPLES], buffer: &mut [u8]) -> Option<usize> {
        let length = RtpPacketBuilder::new()
            .payload_type(codec.payload_type())
            .marked(self.marker)
            .sequence(Seq::from(packet as u16))
            .timestamp(self.timestamp)
            .ssrc(self.ssrc)
            .payload(payload)
            .build_into(buffer)
            .ok()?;
        self.packets = self.packets.wrapping_add(1);
        self.octets = self.octets.wrapping_add(FRAME_SAMPLES as u32);
        self.marker = false;
        self.interval();
        Some(length)
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

    /// Timestamp of the next frame interval.
    pub(super) fn timestamp(&self) -> u32 {
        self.timestamp
    }

    /// Packets and payload octets sent so far, as a sender report counts them (RFC 3550 6.4.1).
    pub(super) fn counts(&self) -> (u32, u32) {
        (self.packets, self.octets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtp_rs::RtpReader;

    fn send(sender: &mut Sender, packet: u64) -> (u16, u32, bool) {
        let mut buffer = [0; 172];
        let length = sender.packet(packet, Codec::Pcmu, &[0xFF; 160], &mut buffer).unwrap();
        let rtp = RtpReader::new(&buffer[..length]).unwrap();
        assert_eq!((length, rtp.ssrc(), rtp.payload_type()), (172, 7, 0));
        (rtp.sequence_number().into(), rtp.timestamp(), rtp.mark())
    }

    #[test]
    fn sequence_and_timestamp_wrap() {
        let mut sender = Sender::new(7, u32::MAX - 200);
        assert_eq!(send(&mut sender, 0xFFFE), (0xFFFE, u32::MAX - 200, true));
        assert_eq!(send(&mut sender, 0xFFFF), (0xFFFF, u32::MAX - 40, false));
        assert_eq!(send(&mut sender, 0x1_0000), (0, 119, false));
        assert_eq!(sender.counts(), (3, 480));
    }

    #[test]
    fn a_gap_moves_the_timestamp_only_and_marks_the_next_packet() {
        let mut sender = Sender::new(7, 0);
        send(&mut sender, 10);
        sender.gap();
        sender.gap();
        assert_eq!(send(&mut sender, 11), (11, 480, true));
        assert_eq!(send(&mut sender, 12), (12, 640, false));
    }
}
