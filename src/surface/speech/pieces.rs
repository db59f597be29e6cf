//! Speech that a model makes itself, as it comes: cut into pieces that the voice says one after another, each with the words that it says.
//!
//! A model sends its speech faster than it sounds, and beside it the words, which run ahead of the sound. So words are dealt to pieces no faster
//! than people speak: of a piece that was cut, in doubt, less was heard.

use super::level::is_near_silent;
use crate::g711::Codec;
use crate::surface::media::Coded;
use crate::surface::media::resample::{ResampleError, Resampler};

/// How a model's speech is coded.
#[derive(Debug)]
pub enum Source {
    /// G.711, an octet a sample at 8 kHz: it is passed on as it is.
    Law(Codec),
    /// 16-bit little-endian samples, brought to 8 kHz, for a telephone that takes this law.
    Linear {
        /// From the model's rate to 8 kHz.
        resampler: Box<Resampler>,
        /// The telephone's law.
        codec: Codec,
    },
}

impl Source {
    /// Linear samples at `rate_hz`, for a telephone that takes `codec`.
    ///
    /// # Errors
    /// The rate can't be brought to 8 kHz.
    pub fn linear(rate_hz: u32, codec: Codec) -> Result<Self, ResampleError> {
        Ok(Self::Linear { resampler: Box::new(Resampler::new(rate_hz, 8_000)?), codec })
    }
}

/// How fast a model sends its speech.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Faster than it sounds.
    Ahead,
    /// As it is spoken.
    AsSpoken,
}

/// A piece of speech.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The audio.
    pub audio: Coded,
    /// The words that it says; they may end in the middle of a sentence, and be none.
    pub text: String,
    /// Whether it has words that nobody can have heard: of the speech so far, from its first sound to its last, most is below -60 dBFS. A piece in which
    /// a model only pauses for breath is none of these.
    pub near_silent: bool,
}

/// Cuts one response of a model into pieces.
#[derive(Debug)]
pub struct Pieces {
    source: Source,
    /// What is not in a piece yet: octets of G.711.
    octets: Vec<u8>,
    /// The first half of a linear sample that came in two parts.
    half: Option<u8>,
    /// Words that are in no piece yet, and how many of them may have sounded by the end of the last piece, in characters that were not dealt.
    words: String,
    owed: usize,
    /// How long the next piece is to be, and how much is in pieces already (samples).
    length: usize,
    cut: usize,
    /// How long a piece that follows another one is at most (samples).
    longest: usize,
    /// Whether the next piece goes on from the last one.
    continues: bool,
    /// Whether the resampler still holds the end of what came.
    lags: bool,
    /// How much of what the resampler holds sounded in a pause already (samples).
    sounded_ahead: usize,
    sounded: Sounded,
}

/// How much of the speech so far sounded, in frames of 20 ms.
#[derive(Debug, Default)]
struct Sounded {
    /// Frames that sounded.
    voiced: usize,
    /// All frames from the first that sounded to the last.
    between: usize,
    /// Frames since the last that sounded.
    silent: usize,
}

impl Sounded {
    /// More of the speech. How much of it sounds (samples).
    fn add(&mut self, octets: &[u8], codec: Codec) -> usize {
        let mut sounds = 0;
        for frame in octets.chunks(FRAME_SAMPLES) {
            let samples: Vec<i16> = frame.iter().map(|octet| codec.decode_sample(*octet)).collect();
            self.silent += 1;
            if !is_near_silent(&samples) {
                self.voiced += 1;
                self.between += if self.voiced == 1 { 1 } else { self.silent };
                self.silent = 0;
                sounds += frame.len();
            }
        }
        sounds
    }

    fn near_silent(&self) -> bool {
        self.voiced == 0 || self.voiced * 2 < self.between
    }
}

impl Pieces {
    /// The pieces of a response that is about to come.
    pub fn new(source: Source, pace: Pace) -> Self {
        let (first, longest) = match pace {
            Pace::Ahead => (FIRST_SAMPLES, PIECE_SAMPLES),
            Pace::AsSpoken => (FIRST_PACED_SAMPLES, PACED_SAMPLES),
        };
        Self {
            source,
            octets: Vec::new(),
            half: None,
            words: String::new(),
            owed: 0,
            length: first,
            cut: 0,
            longest,
            continues: false,
            lags: false,
            sounded_ahead: 0,
            sounded: Sounded::default(),
        }
    }

    /// More words of the response, in order.
    pub fn words(&mut self, text: &str) {
        // So many without their sound are no speech: what comes beyond them is not told as heard.
        if self.words.len() + text.len() <= WORDS_BYTES_MAX {
            self.words.push_str(text);
        }
    }

    /// More of its speech, in order: the pieces that are whole with that.
    pub fn audio(&mut self, bytes: &[u8]) -> Vec<Piece> {
        match &mut self.source {
            Source::Law(_) => self.octets.extend_from_slice(bytes),
            Source::Linear { resampler, codec } => {
                let whole: Vec<u8> = self.half.take().into_iter().chain(bytes.iter().copied()).collect();
                let (samples, rest) = whole.as_chunks::<2>();
                self.half = rest.first().copied();
                let samples: Vec<i16> = samples.iter().map(|sample| i16::from_le_bytes(*sample)).collect();
                let mut telephone = Vec::with_capacity(resampler.output_samples_max(samples.len()));
                resampler.process(&samples, &mut telephone);
                self.lags |= !samples.is_empty();
                let ahead = self.sounded_ahead.min(telephone.len());
                self.sounded_ahead -= ahead;
                self.octets.extend(telephone.iter().skip(ahead).map(|sample| codec.encode_sample(*sample)));
            }
        }
        let mut pieces = Vec::new();
        loop {
            let length = self.length;
            if self.octets.len() < length {
                return pieces;
            }
            self.cut += length;
            self.length = self.cut.min(self.longest);
            let octets = self.octets.drain(..length).collect::<Vec<u8>>();
            // In silence nothing is said.
            self.owed += self.sounded.add(&octets, self.codec()) * CHARACTERS_PER_S / SAMPLES_PER_S;
            let text = self.deal();
            pieces.push(self.piece(&octets, text));
        }
    }

    /// The model pauses: what there is, with all the words that there are. Should it go on, that goes on from this.
    pub fn pause(&mut self) -> Option<Piece> {
        self.catch_up();
        let octets = std::mem::take(&mut self.octets);
        if octets.is_empty() {
            return None;
        }
        self.owed = 0;
        self.cut += octets.len();
        self.sounded.add(&octets, self.codec());
        let text = std::mem::take(&mut self.words);
        Some(self.piece(&octets, text))
    }

    /// The response is over, or something else is to be said next: what there is, with all the words that there are.
    pub fn end(&mut self) -> Option<Piece> {
        self.catch_up();
        let (octets, text) = (std::mem::take(&mut self.octets), std::mem::take(&mut self.words));
        self.owed = 0;
        // Words without any sound were not heard.
        if octets.is_empty() {
            return None;
        }
        self.sounded.add(&octets, self.codec());
        let piece = self.piece(&octets, text);
        self.continues = false;
        Some(piece)
    }

    /// Takes the end of what came out of the resampler, which lags behind by a few milliseconds: it sounds now, as if silence followed. Should
    /// something else follow, it does not sound again.
    fn catch_up(&mut self) {
        if let (Source::Linear { resampler, codec }, true) = (&self.source, std::mem::take(&mut self.lags)) {
            let telephone = rest_of(resampler.as_ref().clone());
            let ahead = std::mem::replace(&mut self.sounded_ahead, telephone.len());
            self.octets.extend(telephone.iter().skip(ahead).map(|sample| codec.encode_sample(*sample)));
        }
    }

    /// Takes the words that may have sounded by now: whole ones.
    fn deal(&mut self) -> String {
        let limit = self.words.char_indices().nth(self.owed).map_or(self.words.len(), |(at, _)| at);
        let is_all = limit == self.words.len();
        // More may come of the last word.
        let said = self.words.get(..limit).unwrap_or_default();
        let end = said.char_indices().rfind(|(_, ch)| ch.is_whitespace()).map_or(0, |(at, ch)| at + ch.len_utf8());
        let end = if is_all && self.words.ends_with(char::is_whitespace) { limit } else { end };
        let dealt: String = self.words.drain(..end).collect();
        self.owed = if is_all { 0 } else { self.owed.saturating_sub(dealt.chars().count()) };
        dealt
    }

    fn piece(&mut self, octets: &[u8], text: String) -> Piece {
        let continues = std::mem::replace(&mut self.continues, true);
        let near_silent = !text.trim().is_empty() && self.sounded.near_silent();
        Piece { audio: Coded { codec: self.codec(), octets: octets.into(), continues }, text, near_silent }
    }

    fn codec(&self) -> Codec {
        match &self.source {
            Source::Law(codec) | Source::Linear { codec, .. } => *codec,
        }
    }
}

const SAMPLES_PER_S: usize = 8_000;

/// Some twenty minutes of speech.
const WORDS_BYTES_MAX: usize = 32 << 10;

/// 20 ms.
const FRAME_SAMPLES: usize = 160;

/// 100 ms: the sooner the first can sound, the sooner the caller hears an answer. Each further one is as long as all before it: speech that
/// comes at twice the pace at which it sounds is there in time, with 50 ms to spare.
const FIRST_SAMPLES: usize = 800;

/// 400 ms: a few to the second, for what was heard is known to the word only within a piece.
const PIECE_SAMPLES: usize = 3_200;

/// 320 ms: of speech that comes as it is spoken, so much is there before the first of it sounds. Each further piece is shorter, so that it is
/// there in time, though the network makes it late by as much as the difference.
const FIRST_PACED_SAMPLES: usize = 2_560;

/// 160 ms.
const PACED_SAMPLES: usize = 1_280;

/// Fast speech, in Spanish as in English.
const CHARACTERS_PER_S: usize = 18;

/// What a resampler still holds, as if silence followed.
fn rest_of(mut resampler: Resampler) -> Vec<i16> {
    let (mut telephone, wanted) = (Vec::new(), resampler.delay_samples());
    while telephone.len() < wanted {
        resampler.process(&[0], &mut telephone);
    }
    telephone
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loud sample of either law.
    const SOUND: u8 = 0x2a;

    const TEXT: &str = "Su reserva está hecha para las nueve y media, y le esperan en la terraza del fondo. ";

    fn texts(pieces: &[Piece]) -> Vec<&str> {
        pieces.iter().map(|piece| piece.text.as_str()).collect()
    }

    #[test]
    fn nothing_is_lost_added_or_moved_however_it_comes() {
        let octets: Vec<u8> = (0..40_000_u32).map(|n| (n % 251) as u8).collect();
        for step in [1, 7, 160, 801, 5_000, 40_000] {
            let mut pieces = Pieces::new(Source::Law(Codec::Pcmu), Pace::Ahead);
            pieces.words(TEXT);
            let mut cut: Vec<Piece> = octets.chunks(step).flat_map(|chunk| pieces.audio(chunk)).collect();
            cut.extend(pieces.end());
            assert!(pieces.end().is_none());
            assert_eq!(cut.iter().flat_map(|piece| piece.audio.octets.to_vec()).collect::<Vec<u8>>(), octets, "{step}");
            assert_eq!(texts(&cut).concat(), TEXT, "{step}");
            let lengths: Vec<usize> = cut.iter().map(|piece| piece.audio.octets.len()).collect();
            assert_eq!(lengths[..5], [800, 800, 1_600, 3_200, 3_200]);
            let goes_on: Vec<bool> = cut.iter().map(|piece| piece.audio.continues).collect();
            assert!(!goes_on[0] && goes_on[1..].iter().all(|goes_on| *goes_on), "{goes_on:?}");
        }
    }

    #[test]
    fn each_piece_of_speech_that_comes_as_it_is_spoken_is_there_before_the_one_before_it_has_sounded() {
        let mut pieces = Pieces::new(Source::Law(Codec::Pcmu), Pace::AsSpoken);
        // What sounds when the next piece has come, where all sounds from the moment when its first piece has.
        let (mut first_at, mut sent) = (None, 0);
        for now in (0..40_000).step_by(160) {
            for piece in pieces.audio(&[SOUND; 160]) {
                let sounded = now - *first_at.get_or_insert(now);
                assert!(sent == 0 || sounded + 1_280 <= sent, "{sounded} of {sent} have sounded");
                sent += piece.audio.octets.len();
            }
        }
        assert_eq!(first_at, Some(2_400), "a third of a second");
    }

    #[test]
    fn a_pause_in_what_comes_adds_loses_and_moves_no_sample() {
        let linear: Vec<u8> = (0..24_000_i32).flat_map(|n| ((n * 37 % 8_000 - 4_000) as i16).to_le_bytes()).collect();
        let cut = |step: usize, stop: Option<fn(&mut Pieces) -> Option<Piece>>| {
            let mut pieces = Pieces::new(Source::linear(24_000, Codec::Pcmu).unwrap(), Pace::AsSpoken);
            pieces.words(TEXT);
            let mut cut = Vec::new();
            for chunk in linear.chunks(step) {
                cut.extend(pieces.audio(chunk));
                cut.extend(stop.and_then(|stop| stop(&mut pieces)));
            }
            cut.extend(pieces.end());
            (cut.iter().flat_map(|piece| piece.audio.octets.to_vec()).collect::<Vec<u8>>(), cut)
        };
        let (without, _) = cut(1_700, None);
        let delay = Resampler::new(24_000, 8_000).unwrap().delay_samples();
        // The last are of less than what the resampler holds.
        for step in [1_700, 240, 18] {
            for stop in [Pieces::pause, Pieces::end] {
                let (whole, pieces) = cut(step, Some(stop));
                assert_eq!(whole.len(), without.len(), "{step}");
                // Next to a pause it sounds as if silence followed.
                let differ = whole.iter().zip(&without).filter(|(a, b)| a != b).count();
                assert!(differ <= pieces.len() * delay, "{differ} samples beside {} pauses", pieces.len());
                assert_eq!(texts(&pieces).concat(), TEXT);
            }
        }
        let (_, paused) = cut(1_700, Some(Pieces::pause));
        assert!(paused[1..].iter().all(|piece| piece.audio.continues));
    }

    #[test]
    fn words_that_run_ahead_are_dealt_no_faster_than_people_speak() {
        let mut pieces = Pieces::new(Source::Law(Codec::Pcma), Pace::Ahead);
        pieces.words(TEXT);
        let cut = pieces.audio(&[SOUND; 8 * 4_500]);
        // After 100, 200 and 400 ms, and then every 400 ms: whole words.
        assert_eq!(texts(&cut)[..5], ["", "", "Su ", "reserva ", "está "]);
        let mut said = 0;
        for (number, piece) in cut.iter().enumerate() {
            said += piece.text.chars().count();
            let sounds_ms: usize = cut[..=number].iter().map(|piece| piece.audio.octets.len() / 8).sum();
            assert!(said <= sounds_ms * 18 / 1_000, "{said} characters after {number} pieces");
        }
        assert!(said > 60, "and not much slower: {said}");
    }

    #[test]
    fn words_that_come_late_go_to_what_sounds_then() {
        let mut pieces = Pieces::new(Source::Law(Codec::Pcma), Pace::Ahead);
        assert_eq!(texts(&pieces.audio(&[SOUND; 800])), [""]);
        pieces.words("Hola, bue");
        assert_eq!(texts(&pieces.audio(&[SOUND; 800 + 1_600 + 3_200])), ["", "", "Hola, "]);
        pieces.words("nas");
        assert_eq!(pieces.audio(&[SOUND; 100]), []);
        let last = pieces.end().unwrap();
        assert_eq!((last.text.as_str(), last.audio.octets.len()), ("buenas", 100));
    }

    #[test]
    fn what_comes_after_something_else_was_said_does_not_go_on_from_it() {
        let mut pieces = Pieces::new(Source::Law(Codec::Pcma), Pace::Ahead);
        let cut = pieces.audio(&[SOUND; 2_500]);
        let last = pieces.end().unwrap();
        let after = pieces.audio(&[SOUND; 6_400]);
        let goes_on: Vec<bool> = cut.iter().chain([&last]).chain(&after).map(|piece| piece.audio.continues).collect();
        assert_eq!(goes_on, [false, true, true, false, true]);
    }

    #[test]
    fn a_pause_for_breath_is_no_reason_to_doubt_what_was_said_and_silence_all_along_is() {
        let silence = Codec::Pcma.silence();
        let said = |parts: &[(u8, usize)]| {
            let mut pieces = Pieces::new(Source::Law(Codec::Pcma), Pace::Ahead);
            pieces.words(TEXT);
            let mut cut: Vec<Piece> = parts.iter().flat_map(|(octet, ms)| pieces.audio(&vec![*octet; ms * 8])).collect();
            cut.extend(pieces.end());
            cut
        };
        let breathes = said(&[(silence, 900), (SOUND, 2_000), (silence, 700), (SOUND, 1_500), (silence, 3_000)]);
        assert!(breathes.iter().all(|piece| !piece.near_silent), "{breathes:?}");
        assert_eq!(texts(&breathes)[..3].concat(), "", "nothing is said before it sounds");
        assert_eq!(texts(&breathes).concat(), TEXT);
        let mute = said(&[(silence, 5_000)]);
        assert!(mute.last().unwrap().near_silent && !texts(&mute).concat().is_empty());
        let clicks = said(&[(SOUND, 40), (silence, 3_000), (SOUND, 40)]);
        assert!(clicks.last().unwrap().near_silent, "{clicks:?}");
    }

    #[test]
    fn words_are_parted_at_any_white_space_and_bounded_whatever_the_model_sends() {
        // A space of two bytes, and one of three.
        let mut pieces = Pieces::new(Source::Law(Codec::Pcma), Pace::Ahead);
        pieces.words("Sí\u{a0}señor,\u{3000}ahora mismo");
        let loud = [Codec::Pcma.encode_sample(8_000), Codec::Pcma.encode_sample(-8_000)].repeat(4_000);
        let mut cut = pieces.audio(&loud);
        cut.extend(pieces.end());
        assert_eq!(texts(&cut).concat(), "Sí\u{a0}señor,\u{3000}ahora mismo");
        for _ in 0..1_000 {
            pieces.words(&"palabra ".repeat(100));
        }
        assert!(pieces.words.len() <= WORDS_BYTES_MAX);
    }

    #[test]
    fn words_without_sound_are_not_said() {
        let mut pieces = Pieces::new(Source::Law(Codec::Pcma), Pace::Ahead);
        pieces.words("Hola");
        assert_eq!(pieces.end(), None);
    }

    #[test]
    fn linear_speech_is_brought_to_the_telephone_whatever_its_parts_are() {
        let samples: Vec<i16> =
            (0..48_000).map(|n| (f64::from(n) / 24_000.0 * 440.0 * std::f64::consts::TAU).sin() * 8_000.0).map(|x| x as i16).collect();
        let bytes: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        let whole = |step: usize| {
            let mut pieces = Pieces::new(Source::linear(24_000, Codec::Pcma).unwrap(), Pace::Ahead);
            let mut cut: Vec<Piece> = bytes.chunks(step).flat_map(|chunk| pieces.audio(chunk)).collect();
            cut.extend(pieces.end());
            cut.iter().flat_map(|piece| piece.audio.octets.to_vec()).collect::<Vec<u8>>()
        };
        let at_once = whole(bytes.len());
        let lag = Resampler::new(24_000, 8_000).unwrap().delay_samples();
        assert_eq!(at_once.len(), 16_000 + lag, "the end of it too");
        let last = &at_once[at_once.len() - 40..];
        assert!(last.iter().any(|octet| Codec::Pcma.decode_sample(*octet).unsigned_abs() > 7_000), "which sounds");
        assert_eq!(whole(333), at_once, "a sample that comes in two parts");
        let loudest = at_once.iter().map(|octet| Codec::Pcma.decode_sample(*octet).unsigned_abs()).max().unwrap();
        assert!((7_500..8_500).contains(&loudest), "{loudest}");
    }
}
