//! How our packets are counted: by extended RTP sequence number (RFC 3550 A.1), from the first one's 16 bits on.

/// The numbers of the packets of one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packets {
    first: u64,
    next: u64,
}

impl Packets {
    pub(crate) fn new(first_sequence: u16) -> Self {
        Self { first: u64::from(first_sequence), next: u64::from(first_sequence) }
    }

    /// The number that the next packet will have.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// So many packets leave; returns the number of the first.
    pub(crate) fn leave(&mut self, packets: u64) -> u64 {
        let first = self.next;
        self.next += packets;
        first
    }

    /// What a far end's extended highest sequence number means in our own numbering: the latest packet sent with its lower
    /// 16 bits. The far end counts cycles from the first packet that it saw, so its upper bits say nothing here.
    pub(crate) fn sent(&self, extended_highest: u32) -> Option<u64> {
        let last = self.next.checked_sub(1).filter(|last| *last >= self.first)?;
        let behind = (last as u16).wrapping_sub(extended_highest as u16);
        last.checked_sub(u64::from(behind)).filter(|packet| *packet >= self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_on_over_the_wrap_of_the_sequence_number() {
        let mut packets = Packets::new(0xFFFE);
        assert_eq!((packets.leave(1), packets.leave(2), packets.next()), (0xFFFE, 0xFFFF, 0x1_0001));
    }

    #[test]
    fn a_report_is_matched_to_our_own_numbering_whatever_its_cycles() {
        let mut packets = Packets::new(0xFFF0);
        assert_eq!(packets.sent(0xFFF0), None);
        packets.leave(32);
        assert_eq!(packets.sent(0x0001_0005), Some(0x1_0005));
        assert_eq!(packets.sent(0x0000_0005), Some(0x1_0005));
        assert_eq!(packets.sent(0x0000_FFF3), Some(0xFFF3));
        assert_eq!(packets.sent(0x0000_FFEF), None, "before our first");
        assert_eq!(packets.sent(0x0001_0011), None, "not sent yet");
    }
}
