//! The caller's ear: what was heard, found in the recording by its sound, without believing anybody.

/// Samples per second of everything here.
pub const RATE: usize = 8_000;

/// What the caller's side of a call recorded.
#[derive(Debug, Clone, Default)]
pub struct Ear {
    /// What was heard, from the first tick of the call on.
    pub samples: Vec<i16>,
}

/// One place where a phrase was heard to its end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PhraseHeard {
    /// Where it begins (ms since the call began).
    pub at_ms: u64,
    /// How well the least similar fifth of a second fits, from 0 to 1.
    pub likeness: f64,
}

impl Ear {
    /// Where `phrase` was heard whole: at these places every voiced fifth of a second of it fits the recording.
    ///
    /// The phrase's most energetic eighth of a second is looked for at every sample (normalised cross-correlation); what
    /// was spoken fits with 1.0, other speech with about 0.1.
    pub fn find(&self, phrase: &[i16]) -> Vec<PhraseHeard> {
        let Some(anchor_at) = most_energetic(phrase, ANCHOR) else { return Vec::new() };
        let Some(anchor) = phrase.get(anchor_at..anchor_at + ANCHOR) else { return Vec::new() };
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(window) = self.samples.get(at..at + ANCHOR) {
            if !resembles(window, anchor) || likeness(window, anchor) < LIKENESS_MIN {
                at += 1;
                continue;
            }
            // A vowel resembles itself a pitch period later: the best place nearby is the place.
            let here = |at: &usize| self.samples.get(*at..at + ANCHOR).map_or(0.0, |window| likeness(window, anchor));
            let best = (at..at + ANCHOR).max_by(|a, b| here(a).total_cmp(&here(b))).unwrap_or(at);
            let whole = best.checked_sub(anchor_at).and_then(|begin| Some((begin, self.samples.get(begin..begin + phrase.len())?)));
            let heard = whole.map(|(begin, heard)| (begin, least_likeness(heard, phrase)));
            at = match heard {
                Some((begin, likeness)) if likeness >= LIKENESS_MIN => {
                    found.push(PhraseHeard { at_ms: (begin * 1_000 / RATE) as u64, likeness });
                    begin + phrase.len()
                }
                _ => best + ANCHOR,
            };
        }
        found
    }
}

/// How well the least similar fifth of a second fits, of those in which something is said; and what the last packet carries, however
/// little that is: who was not sent it has not heard all.
fn least_likeness(heard: &[i16], said: &[i16]) -> f64 {
    let fifths = heard.chunks(FIFTH).zip(said.chunks(FIFTH)).filter(|(_, said)| voiced(said));
    let end = heard.chunks(PACKET).zip(said.chunks(PACKET)).next_back().filter(|(_, said)| said.iter().any(|sample| *sample != 0));
    fifths.chain(end).map(|(heard, said)| likeness(heard, said)).fold(1.0, f64::min)
}

/// Normalised cross-correlation at one place.
fn likeness(heard: &[i16], said: &[i16]) -> f64 {
    let (mut product, mut heard_energy, mut said_energy) = (0_i64, 0_i64, 0_i64);
    for (a, b) in heard.iter().zip(said) {
        let (a, b) = (i64::from(*a), i64::from(*b));
        product += a * b;
        heard_energy += a * a;
        said_energy += b * b;
    }
    if heard_energy == 0 || said_energy == 0 {
        return 0.0;
    }
    product as f64 / ((heard_energy as f64) * (said_energy as f64)).sqrt()
}

/// Whether it is worth a closer look: what is unlike is mostly seen by a few samples, and nearly always by some more.
fn resembles(heard: &[i16], said: &[i16]) -> bool {
    [40, 8].into_iter().all(|step| {
        let (mut product, mut heard_energy, mut said_energy) = (0_i64, 0_i64, 0_i64);
        let mut at = 0;
        while let (Some(a), Some(b)) = (heard.get(at), said.get(at)) {
            let (a, b) = (i64::from(*a), i64::from(*b));
            product += a * b;
            heard_energy += a * a;
            said_energy += b * b;
            at += step;
        }
        product > 0 && (product as f64).powi(2) >= RESEMBLANCE_MIN.powi(2) * heard_energy as f64 * said_energy as f64
    })
}

/// Whether a piece is loud enough to be compared: the end of a phrase is mostly silence.
pub fn voiced(samples: &[i16]) -> bool {
    let energy: i64 = samples.iter().map(|sample| i64::from(*sample) * i64::from(*sample)).sum();
    energy > VOICED_RMS * VOICED_RMS * samples.len() as i64
}

fn most_energetic(samples: &[i16], length: usize) -> Option<usize> {
    let energy = |at: &usize| samples.get(*at..at + length).map(|piece| piece.iter().map(|s| i64::from(*s) * i64::from(*s)).sum::<i64>());
    (0..samples.len().checked_sub(length)?).step_by(length / 4).max_by_key(energy)
}

/// An eighth of a second.
const ANCHOR: usize = RATE / 8;

/// What a packet carries: 20 ms.
const PACKET: usize = RATE / 50;

/// A fifth of a second.
const FIFTH: usize = RATE / 5;

/// What was spoken fits with 1.0 but for what was lost on the way; other speech of the same voice stays below 0.5.
const LIKENESS_MIN: f64 = 0.8;

/// By a few samples, what is alike comes out a little more or less so.
const RESEMBLANCE_MIN: f64 = 0.7;

/// Above line noise and codec silence.
const VOICED_RMS: i64 = 300;

#[cfg(test)]
mod tests {
    use super::*;

    /// Noise that no other seed's noise resembles.
    fn noise(seed: u64, samples: usize) -> Vec<i16> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        (0..samples)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 52) as i16 * 4 - 8_192
            })
            .collect()
    }

    #[test]
    fn a_phrase_is_heard_where_it_was_spoken_and_nowhere_else() {
        let (phrase, other) = (noise(1, RATE), noise(2, RATE));
        let ear = Ear { samples: [other.clone(), phrase.clone(), other.clone(), phrase.clone()].concat() };
        let at: Vec<u64> = ear.find(&phrase).iter().map(|heard| heard.at_ms).collect();
        assert_eq!(at, [1_000, 3_000]);
        assert!(Ear { samples: other }.find(&phrase).is_empty());
    }

    #[test]
    fn a_phrase_that_was_cut_was_not_heard() {
        let phrase = noise(3, RATE);
        let cut = [&phrase[..RATE * 7 / 10], &vec![0; RATE][..]].concat();
        assert!(Ear { samples: cut }.find(&phrase).is_empty());
    }

    #[test]
    fn a_phrase_whose_last_packet_was_not_sent_was_not_heard_though_hardly_anything_is_in_it() {
        let mut phrase = noise(4, RATE + 120);
        phrase[RATE..].iter_mut().for_each(|sample| *sample /= 128);
        let heard = |samples: &[i16]| Ear { samples: [samples, &[0; RATE]].concat() }.find(&phrase).len();
        assert_eq!((heard(&phrase), heard(&phrase[..RATE])), (1, 0));
    }
}
