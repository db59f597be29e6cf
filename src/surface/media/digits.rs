//! Keys of the caller by telephone-event (RFC 4733).

/// Turns telephone-event packets into keys, each pressed key once.
///
/// A key is known by its timestamp, which all its packets share; it is told at the first packet that comes, whether or not
/// that one carries the marker, and whether or not its end ever comes.
#[derive(Debug, Default)]
pub(super) struct Digits {
    /// Timestamps of the last keys: updates of one may come after the first packet of the next.
    told: [Option<u32>; TOLD_MAX],
    next: usize,
}

impl Digits {
    /// The payload of a telephone-event packet; returns the key if this is news.
    pub(super) fn packet(&mut self, timestamp: u32, payload: &[u8]) -> Option<char> {
        let [event, ..] = *payload.first_chunk::<EVENT_OCTETS>()?;
        let digit = *KEYS.get(usize::from(event))?;
        if self.told.contains(&Some(timestamp)) {
            return None;
        }
        self.told[self.next] = Some(timestamp);
        self.next = (self.next + 1) % TOLD_MAX;
        Some(char::from(digit))
    }

    /// The source restarted: its timestamps may mean other keys now.
    pub(super) fn restarted(&mut self) {
        *self = Self::default();
    }
}

/// Events 0 to 15 (RFC 4733 3.2).
const KEYS: &[u8; 16] = b"0123456789*#ABCD";
/// Event, flags and volume, duration.
const EVENT_OCTETS: usize = 4;
/// More keys than anybody presses within the time that packets are late.
const TOLD_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_told_once_however_many_packets_repeat_it() {
        let mut digits = Digits::default();
        assert_eq!(digits.packet(1_000, &[5, 10, 0, 160]), Some('5'));
        assert_eq!(digits.packet(1_000, &[5, 10, 1, 64]), None);
        assert_eq!(digits.packet(1_000, &[5, 138, 1, 64]), None);
        assert_eq!(digits.packet(4_000, &[5, 10, 0, 160]), Some('5'), "pressed again");
        assert_eq!(digits.packet(1_000, &[5, 138, 1, 64]), None, "a late end of the first");
    }

    #[test]
    fn only_the_end_arriving_is_enough_and_what_is_no_key_is_none() {
        let mut digits = Digits::default();
        assert_eq!(digits.packet(7, &[11, 138, 3, 32]), Some('#'));
        assert_eq!(digits.packet(8, &[16, 10, 0, 160]), None, "a hook flash");
        assert_eq!(digits.packet(9, &[1, 10]), None, "cut short");
    }
}
