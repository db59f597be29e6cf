//! The confirmation: whether ordered audio is speech, by a small network. Slow (some 100 ms of sound) and hard to fool.

use earshot::Detector;

use super::reflex::level_db;

/// Scores ordered 20 ms frames at 8 kHz in hops of 16 ms, and remembers which of the last hops were speech.
pub(super) struct Confirm {
    detector: Box<Detector>,
    input: Input,
    score_min: f32,
    /// One bit a hop, the newest lowest.
    speech: u32,
    /// The last frames, so that a sound's beginning is judged too, and the network has warmed up.
    preroll: [[i16; FRAME]; PREROLL_FRAMES],
    preroll_next: usize,
    running: bool,
    /// What was skipped and is not a whole hop yet (ms).
    skipped_ms: u32,
}

impl Confirm {
    pub(super) fn new(score_min: f32) -> Self {
        Self {
            detector: Box::default(),
            input: Input::new(),
            score_min,
            speech: 0,
            preroll: [[0; FRAME]; PREROLL_FRAMES],
            preroll_next: 0,
            running: false,
            skipped_ms: 0,
        }
    }

    /// Takes the next frame; runs the network only where `wanted`, and while something is `sounding`. Returns how much speech is
    /// new (ms).
    pub(super) fn frame(&mut self, frame: &[i16; FRAME], wanted: bool, sounding: bool) -> u32 {
        let mut hops = 0;
        if wanted && !self.running {
            self.detector.reset();
            self.input = Input::new();
            self.speech = 0;
            for age in 0..PREROLL_FRAMES {
                let earlier = self.preroll[(self.preroll_next + age) % PREROLL_FRAMES];
                hops += self.judge(&earlier);
            }
        }
        self.running = wanted;
        if wanted && !sounding {
            // In a pause there is nothing to ask the network about.
            self.skipped_ms += FRAME_MS;
            self.speech <<= self.skipped_ms / HOP_MS;
            self.skipped_ms %= HOP_MS;
        } else if wanted {
            hops += self.judge(frame);
        }
        self.preroll[self.preroll_next] = *frame;
        self.preroll_next = (self.preroll_next + 1) % PREROLL_FRAMES;
        hops * HOP_MS
    }

    /// Speech within the last `window_ms` (ms).
    pub(super) fn speech_ms(&self, window_ms: u32) -> u32 {
        let hops = (window_ms / HOP_MS).clamp(1, 31);
        (self.speech & ((1 << hops) - 1)).count_ones() * HOP_MS
    }

    /// Forgets what was heard: what comes next is another sound.
    pub(super) fn forget(&mut self) {
        self.speech = 0;
    }

    fn judge(&mut self, frame: &[i16; FRAME]) -> u32 {
        let mut spoken = 0;
        self.input.prepare(frame);
        while let Some(hop) = self.input.hop() {
            let is_speech = self.detector.predict_i16(hop) >= self.score_min;
            self.speech = self.speech << 1 | u32::from(is_speech);
            spoken += u32::from(is_speech);
        }
        spoken
    }
}

/// Makes of telephone audio what the network was trained on.
///
/// It was trained on 16 kHz. Telephone audio has nothing above 4 kHz and, where a line is muted, nothing at all; both are
/// foreign to it, and after digital silence it calls any noise speech (99 % of a boat's engine; 1 % this way). So samples
/// are interpolated linearly, which leaves an image above 4 kHz, with a little noise. And music is told from speech the better
/// the quieter it comes, speech being recognised down to -36 dBFS: so what is louder is turned down.
struct Input {
    hop: [i16; HOP],
    /// Interpolated samples that wait, the first `filled` of them valid; a hop and what one frame leaves over.
    waiting: [i16; HOP + 2 * FRAME],
    filled: usize,
    previous: f32,
    loudest_db: f32,
    noise: u32,
}

impl Input {
    fn new() -> Self {
        Self { hop: [0; HOP], waiting: [0; HOP + 2 * FRAME], filled: 0, previous: 0.0, loudest_db: COMFORTABLE_DB, noise: 1 }
    }

    fn prepare(&mut self, frame: &[i16; FRAME]) {
        self.loudest_db = level_db(frame).max(self.loudest_db - DECAY_DB_PER_FRAME).max(COMFORTABLE_DB);
        let gain = 10f32.powf((COMFORTABLE_DB - self.loudest_db) / 20.0);
        for &sample in frame {
            let sample = f32::from(sample) * gain;
            self.push((self.previous + sample) / 2.0);
            self.push(sample);
            self.previous = sample;
        }
    }

    fn push(&mut self, sample: f32) {
        // Numerical Recipes' quick generator; its high bits are noise enough.
        self.noise = self.noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let noise = (self.noise >> 28) as f32 - 7.5;
        if let Some(slot) = self.waiting.get_mut(self.filled) {
            *slot = (sample + noise) as i16;
            self.filled += 1;
        }
    }

    /// The next whole hop.
    fn hop(&mut self) -> Option<&[i16; HOP]> {
        if self.filled < HOP {
            return None;
        }
        self.hop.copy_from_slice(&self.waiting[..HOP]);
        self.waiting.copy_within(HOP..self.filled, 0);
        self.filled -= HOP;
        Some(&self.hop)
    }
}

/// 20 ms at 8 kHz.
const FRAME: usize = 160;
const FRAME_MS: u32 = 20;
/// The network's own hop: 256 samples at 16 kHz.
const HOP: usize = 256;
const HOP_MS: u32 = 16;
/// 160 ms: three hops of context and a few for the network's memory.
const PREROLL_FRAMES: usize = 8;
/// Speech at this level is recognised as well as louder speech, music less.
const COMFORTABLE_DB: f32 = -34.0;
/// 6 dB a second.
const DECAY_DB_PER_FRAME: f32 = 0.12;
