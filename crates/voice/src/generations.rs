//! Which generation a packet belongs to: evidence of one never credits another.

use std::collections::VecDeque;

use recado_core::conversation::Generation;

/// The generations of a call and the packets that they begin with.
#[derive(Debug)]
pub(crate) struct Generations {
    known: VecDeque<Known>,
}

#[derive(Debug)]
struct Known {
    generation: Generation,
    first_packet: u64,
    /// Whether the far end that receives this generation also received the one before: then its report on a packet of this
    /// one tells all about that one, too.
    same_receiver: bool,
    /// Whether a report has covered it to its end.
    closed: bool,
}

impl Generations {
    pub(crate) fn new(first_packet: u64) -> Self {
        let mut known = VecDeque::with_capacity(KNOWN_MAX);
        known.push_back(Known { generation: Generation::default(), first_packet, same_receiver: false, closed: false });
        Self { known }
    }

    /// The generation now.
    pub(crate) fn current(&self) -> Generation {
        self.known.back().map_or_else(Generation::default, |known| known.generation)
    }

    /// Another begins with `first_packet`. Its receiver is the same as before after a clear; after a re-INVITE or an SSRC
    /// change it may be anybody.
    pub(crate) fn begin(&mut self, first_packet: u64, same_receiver: bool) {
        let generation = Generation(self.current().0.wrapping_add(1));
        if self.known.len() >= KNOWN_MAX {
            self.known.pop_front();
        }
        self.known.push_back(Known { generation, first_packet, same_receiver, closed: false });
    }

    /// A report says that packets up to `highest` were received. Tells, oldest first, the generations that it is about and the
    /// highest packet of each: that of its own, and to their ends those before it that the same receiver got.
    pub(crate) fn report(&mut self, highest: u64, mut about: impl FnMut(Generation, u64)) {
        let Some(own) = self.known.iter().rposition(|known| known.first_packet <= highest) else { return };
        let mut from = own;
        while from > 0 && self.known.get(from).is_some_and(|known| known.same_receiver) {
            from -= 1;
        }
        for index in from..own {
            let end = self.known.get(index + 1).map_or(highest, |next| next.first_packet.saturating_sub(1));
            if let Some(known) = self.known.get_mut(index).filter(|known| !known.closed && known.first_packet <= end) {
                known.closed = true;
                about(known.generation, end);
            }
        }
        if let Some(known) = self.known.get(own) {
            about(known.generation, highest);
        }
    }
}

/// Generations between two reports that are told apart; older ones have been settled long since.
const KNOWN_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn report(generations: &mut Generations, highest: u64) -> Vec<(u32, u64)> {
        let mut told = Vec::new();
        generations.report(highest, |generation, packet| told.push((generation.0, packet)));
        told
    }

    #[test]
    fn after_clears_the_next_report_closes_the_generations_before_once() {
        let mut generations = Generations::new(100);
        assert_eq!(report(&mut generations, 150), [(0, 150)]);
        generations.begin(200, true);
        generations.begin(300, true);
        assert_eq!(report(&mut generations, 180), [(0, 180)], "a report that was under way");
        assert_eq!(report(&mut generations, 320), [(0, 199), (1, 299), (2, 320)]);
        assert_eq!(report(&mut generations, 340), [(2, 340)]);
    }

    #[test]
    fn another_receiver_says_nothing_about_what_the_one_before_heard() {
        let mut generations = Generations::new(100);
        generations.begin(200, false);
        generations.begin(250, true);
        assert_eq!(report(&mut generations, 260), [(1, 249), (2, 260)]);
        assert_eq!(report(&mut generations, 150), [(0, 150)], "a late one of the first still counts for its own");
        assert_eq!(report(&mut generations, 99), []);
    }

    #[test]
    fn a_generation_without_a_packet_is_not_reported() {
        let mut generations = Generations::new(100);
        generations.begin(200, true);
        generations.begin(200, true);
        assert_eq!(report(&mut generations, 210), [(0, 199), (2, 210)]);
    }
}
