//! Reception statistics of one source (RFC 3550 A.1, A.3, A.8).

use super::clock::Nanos;

/// What is known of the packets of one synchronisation source.
#[derive(Debug, Clone)]
pub(super) struct Reception {
    ssrc: u32,
    base: u64,
    /// Extended highest sequence number received; starts one cycle up, so that late packets of the first cycle fit.
    highest: u64,
    received: u64,
    expected_before: u64,
    received_before: u64,
    /// The sequence number that would prove a restart, if it comes next (RFC 3550 A.1 `bad_seq`).
    restart_at: Option<u16>,
    transit: Option<i64>,
    /// Interarrival jitter, scaled by 16.
    jitter_q4: u32,
}

/// What a packet is in the order of its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// In order, late, or a duplicate: part of the stream.
    Valid,
    /// Far off: dropped until the next one proves a restart.
    Stray,
    /// The source restarted its numbering: everything begins anew with this packet.
    Restarted,
}

/// The numbers of a report block (RFC 3550 6.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) ssrc: u32,
    pub(super) fraction_lost: u8,
    pub(super) cumulative_lost: i32,
    pub(super) highest: u32,
    pub(super) jitter: u32,
}

impl Reception {
    pub(super) fn new(ssrc: u32, sequence: u16) -> Self {
        let first = CYCLE + u64::from(sequence);
        Self {
            ssrc,
            base: first,
            highest: first - 1,
            received: 0,
            expected_before: 0,
            received_before: 0,
            restart_at: None,
            transit: None,
            jitter_q4: 0,
        }
    }

    pub(super) fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// A packet came; `timed` says whether its timestamp tells of its sending (a telephone-event's does not).
    pub(super) fn packet(&mut self, now: Nanos, sequence: u16, timestamp: u32, timed: bool) -> Order {
        let ahead = sequence.wrapping_sub(self.highest as u16);
        let mut order = Order::Valid;
        if ahead < DROPOUT_MAX {
            self.highest += u64::from(ahead);
            self.restart_at = None;
        } else if ahead <= u16::MAX - MISORDER_MAX {
            if self.restart_at != Some(sequence) {
                self.restart_at = Some(sequence.wrapping_add(1));
                return Order::Stray;
            }
            *self = Self::new(self.ssrc, sequence);
            self.highest = self.base;
            order = Order::Restarted;
        }
        self.received += 1;
        if timed {
            self.interarrival(now, timestamp);
        }
        order
    }

    /// The block of the next report; the fraction is counted from the report before.
    pub(super) fn block(&mut self) -> Block {
        let expected = (self.highest + 1).saturating_sub(self.base);
        let lost = expected as i64 - self.received as i64;
        let expected_interval = expected.saturating_sub(self.expected_before) as i64;
        let received_interval = self.received.saturating_sub(self.received_before) as i64;
        self.expected_before = expected;
        self.received_before = self.received;
        let lost_interval = expected_interval - received_interval;
        let fraction = if expected_interval <= 0 || lost_interval <= 0 { 0 } else { (lost_interval << 8) / expected_interval };
        Block {
            ssrc: self.ssrc,
            fraction_lost: fraction.min(255) as u8,
            cumulative_lost: lost.clamp(-0x80_0000, 0x7F_FFFF) as i32,
            highest: self.highest.wrapping_sub(CYCLE) as u32,
            jitter: self.jitter_q4 >> 4,
        }
    }

    fn interarrival(&mut self, now: Nanos, timestamp: u32) {
        // Only differences matter, so the 32 bits may wrap on either side.
        let transit = i64::from((now.samples() as u32).wrapping_sub(timestamp) as i32);
        if let Some(before) = self.transit.replace(transit) {
            let difference = i64::from((transit - before) as i32).unsigned_abs();
            if difference < JUMP_SAMPLES {
                let jitter = i64::from(self.jitter_q4);
                self.jitter_q4 = (jitter + difference as i64 - ((jitter + 8) >> 4)).max(0) as u32;
            }
        }
    }
}

const CYCLE: u64 = 1 << 16;
/// RFC 3550 A.1: one minute ahead is a restart, two seconds behind are late packets.
const DROPOUT_MAX: u16 = 3_000;
const MISORDER_MAX: u16 = 100;
/// A change of transit time by 4 s is a new timeline, not jitter.
const JUMP_SAMPLES: u64 = 32_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(reception: &mut Reception, numbers: impl IntoIterator<Item = u16>) -> Vec<Order> {
        numbers.into_iter().map(|n| reception.packet(Nanos::from_ms(u64::from(n) * 20), n, u32::from(n) * 160, true)).collect()
    }

    #[test]
    fn loss_is_counted_over_the_wrap_of_the_sequence_number() {
        let mut reception = Reception::new(9, 65_530);
        feed(&mut reception, [65_530, 65_531, 65_533, 65_535, 0, 1, 2]);
        let block = reception.block();
        assert_eq!((block.cumulative_lost, block.highest), (2, 0x1_0002));
        assert_eq!(block.fraction_lost, (2 * 256 / 9) as u8);
        feed(&mut reception, [3, 4]);
        assert_eq!(reception.block().fraction_lost, 0);
    }

    #[test]
    fn duplicates_make_the_loss_negative_and_late_packets_repair_it() {
        let mut reception = Reception::new(9, 5);
        feed(&mut reception, [5, 6, 6, 6]);
        assert_eq!(reception.block().cumulative_lost, -2);
        let mut reception = Reception::new(9, 5);
        feed(&mut reception, [5, 7, 6]);
        assert_eq!(reception.block().cumulative_lost, 0);
    }

    #[test]
    fn one_stray_packet_changes_nothing_and_two_in_order_are_a_restart() {
        let mut reception = Reception::new(9, 100);
        feed(&mut reception, 100..110);
        assert_eq!(feed(&mut reception, [30_000]), [Order::Stray]);
        assert_eq!(feed(&mut reception, [110]), [Order::Valid]);
        assert_eq!(feed(&mut reception, [30_000, 30_001, 30_002]), [Order::Stray, Order::Restarted, Order::Valid]);
        assert_eq!(reception.block(), Block { ssrc: 9, fraction_lost: 0, cumulative_lost: 0, highest: 30_002, jitter: 0 });
    }

    #[test]
    fn jitter_is_zero_on_a_steady_line_and_approaches_the_mean_deviation_on_an_unsteady_one() {
        let mut reception = Reception::new(9, 0);
        for n in 0..400u16 {
            let late_ms = if n % 2 == 0 { 0 } else { 10 };
            reception.packet(Nanos::from_ms(u64::from(n) * 20 + late_ms), n, u32::from(n).wrapping_mul(160), true);
        }
        let jitter = reception.block().jitter;
        assert!((75..=80).contains(&jitter), "{jitter} samples for 80");
    }
}
