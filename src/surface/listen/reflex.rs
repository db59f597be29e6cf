//! The reflex: whether a packet that just arrived may be speech. Quick and credulous.

use webrtc_vad::{SampleRate, Vad, VadMode};

use super::tone;

/// Judges frames of 10, 20 or 30 ms at 8 kHz, in the order of their arrival.
pub(super) struct Reflex {
    vad: SendVad,
    floor: NoiseFloor,
}

impl Reflex {
    pub(super) fn new() -> Self {
        Self { vad: SendVad(Vad::new_with_rate_and_mode(SampleRate::Rate8kHz, VadMode::Aggressive)), floor: NoiseFloor::new() }
    }

    /// Whether `frame` (80, 160 or 240 samples) may be speech: voiced, louder than the room, and, where `unless_tone`, no tone.
    pub(super) fn voiced(&mut self, frame: &[i16], unless_tone: bool) -> bool {
        if !matches!(frame.len(), 80 | 160 | 240) {
            return false;
        }
        let level_db = level_db(frame);
        if level_db < NOTHING_DB {
            return false;
        }
        let loud = self.floor.above(level_db, frame.len() as f32 / SAMPLES_PER_S);
        // The detector adapts to what it hears, so it hears everything.
        let voiced = self.vad.0.is_voice_segment(frame).unwrap_or(false);
        voiced && loud && !(unless_tone && tone::is_tone(frame))
    }
}

/// Splits what a packet holds into frames that the reflex can judge; a rest below 10 ms is left out.
pub(super) fn frames(samples: &[i16]) -> impl Iterator<Item = &[i16]> {
    let mut rest = samples;
    std::iter::from_fn(move || {
        let length = match rest.len() {
            240 => 240,
            160.. => 160,
            80.. => 80,
            _ => return None,
        };
        let (frame, after) = rest.split_at(length);
        rest = after;
        Some(frame)
    })
}

/// Level of a frame in dB below full scale.
pub(super) fn level_db(frame: &[i16]) -> f32 {
    let power = frame.iter().map(|&s| f32::from(s) * f32::from(s)).sum::<f32>() / frame.len().max(1) as f32;
    10.0 * (power / FULL_SCALE_POWER + 1e-10).log10()
}

/// The level of the room: falls quickly to what is quieter, rises slowly.
struct NoiseFloor {
    level_db: f32,
}

impl NoiseFloor {
    fn new() -> Self {
        Self { level_db: FLOOR_START_DB }
    }

    /// Whether `level_db` stands out of the room; the room is learned on the way.
    fn above(&mut self, level_db: f32, seconds: f32) -> bool {
        let above = level_db > (self.level_db + MARGIN_DB).max(LEAST_DB);
        if level_db < self.level_db {
            self.level_db += (level_db - self.level_db) * (seconds / FALL_S).min(1.0);
        } else {
            self.level_db += RISE_DB_PER_S * seconds;
        }
        self.level_db = self.level_db.clamp(FLOOR_MIN_DB, FLOOR_MAX_DB);
        above
    }
}

/// libfvad's state is plain memory behind a pointer that this type alone holds.
struct SendVad(Vad);

// SAFETY: the C state has no thread affinity: no thread-local storage, no locks, no handles; it is only ever used
// through `&mut self`, so moving it to another thread moves sole access with it.
#[allow(unsafe_code)]
unsafe impl Send for SendVad {}

const SAMPLES_PER_S: f32 = 8_000.0;
const FULL_SCALE_POWER: f32 = 32_768.0 * 32_768.0;
/// A quiet line, so that the first word of a call is heard.
const FLOOR_START_DB: f32 = -60.0;
const FLOOR_MIN_DB: f32 = -75.0;
/// However loud the room, a caller who speaks into the telephone is louder.
const FLOOR_MAX_DB: f32 = -30.0;
/// Speech is at least this much louder than the room, or nobody could follow it.
const MARGIN_DB: f32 = 6.0;
/// Below it there is nothing to hear on a telephone.
const LEAST_DB: f32 = -57.0;
/// A muted line: neither a room to learn nor anything that the detector would learn from.
const NOTHING_DB: f32 = -78.0;
/// Time constant of the fall: one pause between words.
const FALL_S: f32 = 0.1;
/// Slow against a sentence (5 s: 10 dB), quick against a room that became loud.
const RISE_DB_PER_S: f32 = 2.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(amplitude: i32, samples: usize) -> Vec<i16> {
        let mut state = 1u32;
        (0..samples)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                ((state >> 16) as i32 % (2 * amplitude + 1) - amplitude) as i16
            })
            .collect()
    }

    #[test]
    fn packets_of_any_length_are_split_into_frames_that_can_be_judged() {
        let lengths = |n| frames(&vec![0; n]).map(<[i16]>::len).collect::<Vec<_>>();
        assert_eq!(lengths(80), [80]);
        assert_eq!(lengths(160), [160]);
        assert_eq!(lengths(240), [240]);
        assert_eq!(lengths(320), [160, 160]);
        assert_eq!(lengths(480), [160, 80, 240].iter().map(|_| 160).take(3).collect::<Vec<usize>>());
        assert_eq!(lengths(100), [80]);
        assert_eq!(lengths(7), Vec::<usize>::new());
    }

    #[test]
    fn silence_and_what_is_too_short_to_judge_are_not_voiced() {
        let mut reflex = Reflex::new();
        assert!(!reflex.voiced(&[0; 160], true));
        assert!(!reflex.voiced(&[9_000; 37], true));
    }

    #[test]
    fn a_room_that_stays_loud_is_learned() {
        let mut floor = NoiseFloor::new();
        let level = level_db(&noise(600, 160));
        assert!(floor.above(level, 0.02));
        let heard = (0..50 * 15).filter(|_| floor.above(level, 0.02)).count();
        assert!(heard < 50 * 12, "{heard} of {} frames", 50 * 15);
        assert!(!floor.above(level, 0.02));
        assert!(floor.above(level + 10.0, 0.02));
    }
}
