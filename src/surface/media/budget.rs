//! How many packets of one source, and how many keys, are looked at: what comes faster than anybody speaks is a flood or a fault.

use super::clock::Nanos;

/// A budget of packets that refills with time.
#[derive(Debug)]
pub(super) struct Budget {
    /// Nanoseconds for which one packet is due.
    interval_ns: u64,
    burst_ns: u64,
    /// What has been saved up, as time.
    saved_ns: u64,
    at: Nanos,
}

impl Budget {
    /// For RTP.
    pub(super) fn of_rtp(now: Nanos) -> Self {
        Self::new(now, RTP_PER_S, RTP_BURST)
    }

    /// For RTCP.
    pub(super) fn of_rtcp(now: Nanos) -> Self {
        Self::new(now, RTCP_PER_S, RTCP_BURST)
    }

    /// For keys.
    pub(super) fn of_keys(now: Nanos) -> Self {
        Self::new(now, KEYS_PER_S, KEYS_BURST)
    }

    fn new(now: Nanos, per_s: u64, burst: u64) -> Self {
        let interval_ns = 1_000_000_000 / per_s;
        let burst_ns = interval_ns * burst;
        Self { interval_ns, burst_ns, saved_ns: burst_ns, at: now }
    }

    /// Whether a packet that comes now is within it; it is then spent.
    pub(super) fn admits(&mut self, now: Nanos) -> bool {
        let passed = now.0.saturating_sub(self.at.0);
        self.at = self.at.max(now);
        self.saved_ns = self.saved_ns.saturating_add(passed).min(self.burst_ns);
        match self.saved_ns.checked_sub(self.interval_ns) {
            Some(left) => {
                self.saved_ns = left;
                true
            }
            None => false,
        }
    }
}

/// Twice what the shortest usual packet time, 10 ms, makes.
const RTP_PER_S: u64 = 200;
/// What a network that stood still for four seconds lets go at once.
const RTP_BURST: u64 = 400;
/// One in five seconds is usual, several in a second with feedback (RFC 4585).
const RTCP_PER_S: u64 = 20;
const RTCP_BURST: u64 = 40;
/// A dialler's shortest key and pause are 40 ms each (ITU-T Q.24).
const KEYS_PER_S: u64 = 12;
/// A number that was dialled into a network that stood still.
const KEYS_BURST: u64 = 40;

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(budget: &mut Budget, every_ns: u64, packets: u64) -> usize {
        (1..=packets).filter(|n| budget.admits(Nanos(n * every_ns))).count()
    }

    #[test]
    fn speech_is_admitted_whole_after_a_pause_too_and_a_flood_at_its_rate() {
        let mut budget = Budget::of_rtp(Nanos(0));
        assert_eq!(admitted(&mut budget, 10_000_000, 6_000), 6_000, "a minute of speech");
        let later = Nanos(70_000_000_000);
        assert_eq!((0..1_000).filter(|_| budget.admits(later)).count(), 400, "a burst");
        let mut budget = Budget::of_rtp(Nanos(0));
        let flood = admitted(&mut budget, 10_000, 1_000_000);
        assert!((2_395..=2_400).contains(&flood), "{flood} in ten seconds: the burst, and what is due");
    }
}
