//! Sound: what is spoken, as the box's own engine speaks it, and what a recording holds of it.

use std::path::Path;
use std::sync::Arc;

use recado::demo::Ear;
use recado::surface::speech::espeak::EspeakNg;
use recado::surface::speech::{Synthesiser, Utterance, Voice};
use recado_core::policy::Language;

/// Samples per millisecond.
pub const MS: usize = 8;

/// What the box plays when it says `text`.
pub async fn phrase(text: &str) -> Vec<i16> {
    speak(Utterance::new(text, Language::En)).await
}

/// `text` in another voice than the box's.
pub async fn callers_speech(text: &str) -> Vec<i16> {
    let voice = Voice { name: Some("en-us+f3".into()), ..Voice::default() };
    speak(Utterance { voice, ..Utterance::new(text, Language::En) }).await
}

async fn speak(utterance: Utterance) -> Vec<i16> {
    EspeakNg::default().synthesise(&utterance).await.expect("espeak-ng speaks").samples_8khz.to_vec()
}

/// A recording of a call.
pub struct Recording {
    pub samples: Vec<i16>,
}

impl Recording {
    /// Where `phrase` was heard whole (ms since the beginning).
    pub fn find(&self, phrase: &[i16]) -> Vec<usize> {
        Ear { samples: self.samples.clone(), ..Ear::default() }.find(phrase).iter().map(|heard| heard.at_ms as usize).collect()
    }

    /// Where `phrase` was heard whole, and that it was heard so once.
    pub fn once(&self, what: &str, phrase: &[i16]) -> usize {
        match self.find(phrase)[..] {
            [at_ms] => at_ms,
            ref places => panic!("{what} was heard at {places:?} ms, not once"),
        }
    }

    /// Where pieces of `phrase` were heard, each `PIECE_MS` long (ms since the beginning).
    pub fn find_pieces(&self, phrase: &[i16]) -> Vec<usize> {
        let mut places: Vec<usize> = phrase.chunks_exact(PIECE_MS * MS).flat_map(|piece| self.find(piece)).collect();
        places.sort_unstable();
        places
    }

    /// The recording without the one pause that was made in `phrase`, and how long that was (ms).
    pub fn without_pause_in(&self, phrase: &[i16]) -> (Self, usize) {
        let pieces: Vec<&[i16]> = phrase.chunks_exact(PIECE_MS * MS).collect();
        let [first, last] = [0, pieces.len() - 1].map(|piece| self.once("a piece of the phrase", pieces[piece]));
        let paused = (last - first).saturating_sub((pieces.len() - 1) * PIECE_MS);
        // It is made of whole frames; the places are of whole milliseconds.
        let paused_ms = (paused + 10) / 20 * 20;
        let begins = self.longest_silence(first, last);
        let mut samples = self.samples.clone();
        samples.drain(begins..begins + paused_ms * MS);
        (Self { samples }, paused_ms)
    }

    /// Where the longest silence between these places (ms) begins (samples).
    fn longest_silence(&self, from_ms: usize, to_ms: usize) -> usize {
        let (mut longest, mut begin) = (0..0, from_ms * MS);
        for at in from_ms * MS..to_ms * MS {
            if self.samples[at].unsigned_abs() > SILENT {
                begin = at + 1;
            } else if at + 1 - begin > longest.len() {
                longest = begin..at + 1;
            }
        }
        longest.start
    }

    /// The first moment in this stretch (ms) at which there is voice.
    pub fn voice_within(&self, from_ms: usize, to_ms: usize) -> Option<usize> {
        let stretch = self.samples.get(from_ms * MS..(to_ms * MS).min(self.samples.len()))?;
        Some(from_ms + stretch.chunks(FRAME).position(voiced)? * FRAME / MS)
    }
}

/// A burst of noise that fades, and no word.
pub fn cough() -> Vec<i16> {
    let (mut state, mut smooth) = (1_u32, 0.0);
    let faded = |at: usize| 1.0 - at as f32 / (COUGH_MS * MS) as f32;
    (0..COUGH_MS * MS)
        .map(|at| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            smooth += 0.25 * ((state >> 16) as f32 / 2.0 - 16_384.0 - smooth);
            (smooth * faded(at)) as i16
        })
        .collect()
}

/// Whether a piece is loud enough to be somebody's voice.
pub fn voiced(samples: &[i16]) -> bool {
    let energy: i64 = samples.iter().map(|sample| i64::from(*sample) * i64::from(*sample)).sum();
    energy > VOICED_RMS * VOICED_RMS * samples.len() as i64
}

/// Writes a WAV for baresip, which hangs up at its end: silence follows for longer than any scene.
pub fn write_wav(path: &Path, samples: &[i16]) {
    let spec = hound::WavSpec { channels: 1, sample_rate: 8_000, bits_per_sample: 16, sample_format: hound::SampleFormat::Int };
    let mut writer = hound::WavWriter::create(path, spec).expect("a WAV");
    for sample in samples.iter().copied().chain(std::iter::repeat_n(0, SILENCE_S * 1_000 * MS)) {
        writer.write_sample(sample).expect("written");
    }
    writer.finalize().expect("finished");
}

/// The samples of a WAV that is being written: its header does not know its length yet.
pub fn growing_wav(path: Option<Arc<Path>>) -> Vec<i16> {
    let octets = path.and_then(|path| std::fs::read(path).ok()).unwrap_or_default();
    let data = octets.get(WAV_HEADER..).unwrap_or_default();
    data.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect()
}

/// 20 ms.
pub const FRAME: usize = 20 * MS;

/// Above line noise and codec silence.
const VOICED_RMS: i64 = 300;

/// More than it takes to be noticed.
const COUGH_MS: usize = 120;

/// What decoders make of the codec's silence stays below.
const SILENT: u16 = 8;

/// Long enough to be told from any other piece of speech.
const PIECE_MS: usize = 400;

/// Longer than any scene (s).
const SILENCE_S: usize = 180;

/// libsndfile's header of a plain WAV.
const WAV_HEADER: usize = 44;
