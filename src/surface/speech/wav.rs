//! Prompt files: any usual WAV recording as 8 kHz mono samples.
//!
//! Read as a stream, block by block: a long studio recording needs no memory but for its telephone version.

use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use super::error::SpeechError;
use crate::config::open_file;
use crate::g711::Codec;
use crate::surface::media::resample::{ResampleError, Resampler};

/// Reads the prompt file at `path`. Blocks on the disk: call it at start or on a blocking thread.
pub fn load(path: &Path) -> Result<Arc<[i16]>, SpeechError> {
    let samples = open_file(path).map_err(WavFault::from).and_then(|file| read(BufReader::new(file)));
    samples.map(Arc::from).map_err(|fault| SpeechError::Prompt { path: path.into(), fault })
}

/// Reads WAV from `source`: PCM of 8, 16 or 24 bits, µ-law or A-law, one or two channels (mixed), 8 kHz or more. A
/// data length of 0 or beyond 2 GiB, as programs write that stream into a pipe, means up to the end.
pub fn read(mut source: impl Read) -> Result<Vec<i16>, WavFault> {
    let mut head = [0; 12];
    fill(&mut source, &mut head, 0)?;
    if &head[..4] != b"RIFF" || &head[8..] != b"WAVE" {
        return Err(WavFault::NotWav);
    }
    let mut format = None;
    let mut at = 12;
    for _ in 0..CHUNKS_MAX {
        let mut chunk = [0; 8];
        fill(&mut source, &mut chunk, at)?;
        let length = u32_at(&chunk, 4);
        at += 8;
        match (&chunk[..4], format) {
            (b"fmt ", _) => format = Some(Format::read(&mut source, length, at)?),
            (b"data", Some(format)) => return samples(source, format, length, at),
            (b"data", None) => return Err(WavFault::NoFormat { at }),
            _ => skip(&mut source, padded(length), at)?,
        }
        at += padded(length);
    }
    Err(WavFault::NoData)
}

/// Reads 16-bit little-endian mono samples at `rate_hz` from `source`, up to its end.
pub fn read_raw(source: impl Read, rate_hz: u32) -> Result<Vec<i16>, WavFault> {
    samples(source, Format { encoding: Encoding::Signed16, channels: 1, rate: rate_hz }, 0, 0)
}

/// What is wrong in a WAV file, where, and how to mend it.
#[derive(Debug, thiserror::Error)]
pub enum WavFault {
    /// The file can't be opened or read: check its path and its permissions.
    #[error("can't be read: {0}")]
    Io(#[from] io::Error),
    /// It is something else, such as MP3.
    #[error("is not a WAV file (it does not begin with RIFF and WAVE); {MEND}")]
    NotWav,
    /// It ends early: copy it again.
    #[error("ends at byte {at}, in the middle of what its header announces; copy or export it again")]
    Truncated {
        /// Where the unfinished part begins or the file ends.
        at: u64,
    },
    /// The `data` chunk comes before any `fmt ` chunk.
    #[error("has its data at byte {at} before its format (fmt chunk); {MEND}")]
    NoFormat {
        /// Byte offset of the data.
        at: u64,
    },
    /// There is no `data` chunk among the first chunks.
    #[error("has no data chunk among its first {CHUNKS_MAX} chunks; {MEND}")]
    NoData,
    /// An encoding that is not read here.
    #[error("is of WAV format {tag} with {bits} bits in {channels} channel(s) (byte {at}); {MEND}")]
    Format {
        /// The format tag (1 PCM, 3 float, 6 A-law, 7 µ-law, ...).
        tag: u16,
        /// Bits per sample.
        bits: u16,
        /// Number of channels.
        channels: u16,
        /// Byte offset of the format.
        at: u64,
    },
    /// A rate that can't be converted to 8 kHz.
    #[error("{0}; {MEND}")]
    Rate(#[from] ResampleError),
    /// It plays longer than a prompt may.
    #[error("plays longer than {SECONDS_MAX} s; cut it into shorter prompts")]
    TooLong,
}

#[derive(Debug, Clone, Copy)]
struct Format {
    encoding: Encoding,
    channels: usize,
    rate: u32,
}

#[derive(Debug, Clone, Copy)]
enum Encoding {
    Unsigned8,
    Signed16,
    Signed24,
    G711(Codec),
}

impl Format {
    fn read(source: &mut impl Read, length: u32, at: u64) -> Result<Self, WavFault> {
        let mut body = [0; 40];
        let used = (length as usize).min(body.len());
        if used < 16 {
            return Err(WavFault::Truncated { at });
        }
        fill(source, &mut body[..used], at)?;
        skip(source, padded(length) - used as u64, at)?;
        let (channels, rate, bits) = (u16_at(&body, 2), u32_at(&body, 4), u16_at(&body, 14));
        let tag = match u16_at(&body, 0) {
            // WAVE_FORMAT_EXTENSIBLE: the real tag begins the sub-format.
            0xFFFE if used == body.len() => u16_at(&body, 24),
            tag => tag,
        };
        let encoding = match (tag, bits) {
            (1, 8) => Encoding::Unsigned8,
            (1, 16) => Encoding::Signed16,
            (1, 24) => Encoding::Signed24,
            (6, 8) => Encoding::G711(Codec::Pcma),
            (7, 8) => Encoding::G711(Codec::Pcmu),
            _ => {
                return Err(WavFault::Format { tag, bits, channels, at });
            }
        };
        if !(1..=2).contains(&channels) {
            return Err(WavFault::Format { tag, bits, channels, at });
        }
        Ok(Self { encoding, channels: usize::from(channels), rate })
    }

    fn frame_bytes(self) -> usize {
        self.channels * self.encoding.bytes()
    }

    /// One frame as one sample: the channels' mean.
    fn mixed(self, frame: &[u8]) -> i16 {
        let sum: i32 = frame.chunks_exact(self.encoding.bytes()).map(|s| i32::from(self.encoding.sample(s))).sum();
        (sum / self.channels as i32) as i16
    }
}

impl Encoding {
    fn bytes(self) -> usize {
        match self {
            Encoding::Unsigned8 | Encoding::G711(_) => 1,
            Encoding::Signed16 => 2,
            Encoding::Signed24 => 3,
        }
    }

    fn sample(self, bytes: &[u8]) -> i16 {
        match (self, bytes) {
            (Encoding::Unsigned8, &[value]) => (i16::from(value) - 128) << 8,
            (Encoding::G711(codec), &[octet]) => codec.decode_sample(octet),
            (Encoding::Signed16, &[low, high]) | (Encoding::Signed24, &[_, low, high]) => i16::from_le_bytes([low, high]),
            _ => 0,
        }
    }
}

fn samples(source: impl Read, format: Format, length: u32, at: u64) -> Result<Vec<i16>, WavFault> {
    let streamed = length == 0 || length >= STREAMED_LENGTH_MIN;
    let mut resampler = Resampler::new(format.rate, RATE)?;
    let (mut output, mut mixed) = (Vec::new(), Vec::with_capacity(BLOCK_FRAMES));
    let mut source = source.take(if streamed { u64::MAX } else { u64::from(length) });
    let (mut block, mut frames_read, mut bytes_read) = (Vec::new(), 0, 0u64);
    loop {
        block.clear();
        let wanted = (BLOCK_FRAMES * format.frame_bytes()) as u64;
        let got = source.by_ref().take(wanted).read_to_end(&mut block)? as u64;
        bytes_read += got;
        mixed.clear();
        mixed.extend(block.chunks_exact(format.frame_bytes()).map(|frame| format.mixed(frame)));
        frames_read += mixed.len();
        if frames_read > SECONDS_MAX * format.rate as usize {
            return Err(WavFault::TooLong);
        }
        resampler.process(&mixed, &mut output);
        if got < wanted {
            break;
        }
    }
    if !streamed && bytes_read < u64::from(length) {
        return Err(WavFault::Truncated { at: at + bytes_read });
    }
    resampler.finish(frames_read, &mut output);
    Ok(output)
}

fn fill(source: &mut impl Read, buffer: &mut [u8], at: u64) -> Result<(), WavFault> {
    source.read_exact(buffer).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => WavFault::Truncated { at },
        _ => WavFault::Io(error),
    })
}

fn skip(source: &mut impl Read, bytes: u64, at: u64) -> Result<(), WavFault> {
    let skipped = io::copy(&mut source.take(bytes), &mut io::sink())?;
    if skipped < bytes { Err(WavFault::Truncated { at }) } else { Ok(()) }
}

/// Chunks begin at even offsets.
fn padded(length: u32) -> u64 {
    u64::from(length) + u64::from(length % 2)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|b| b.try_into().ok()).map_or(0, u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

const MEND: &str = "convert it: sox FILE -r 8000 -c 1 -b 16 -e signed-integer PROMPT.wav";
const RATE: u32 = 8_000;
/// A prompt is not a concert: 10 minutes are 9.6 MB in memory.
const SECONDS_MAX: usize = 600;
/// Chunks of description that may come before the data.
const CHUNKS_MAX: usize = 64;
const BLOCK_FRAMES: usize = 4_096;
/// espeak-ng announces 0x7FFF_F000 bytes, others the largest number they can.
const STREAMED_LENGTH_MIN: u32 = 0x7FFF_0000;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;

    const TONE_SAMPLES: usize = 8_000;

    fn tone(rate: u32) -> impl Iterator<Item = f32> {
        (0..rate).map(move |n| 0.5 * (n as f32 * 2.0 * std::f32::consts::PI * 500.0 / rate as f32).sin())
    }

    fn pcm(rate: u32, bits: u16, channels: u16) -> Vec<u8> {
        let spec = hound::WavSpec { channels, sample_rate: rate, bits_per_sample: bits, sample_format: hound::SampleFormat::Int };
        let mut bytes = io::Cursor::new(Vec::new());
        let mut writer = hound::WavWriter::new(&mut bytes, spec).unwrap();
        for value in tone(rate) {
            let full = f32::from(2u16).powi(i32::from(bits) - 1) - 1.0;
            for channel in 0..channels {
                // The second channel at half level: mixed down to three quarters.
                writer.write_sample((value * full / f32::from(channel + 1)) as i32).unwrap();
            }
        }
        writer.finalize().unwrap();
        bytes.into_inner()
    }

    fn riff(tag: u16, bits: u16, rate: u32, data_length: u32, data: &[u8]) -> Vec<u8> {
        let mut bytes = b"RIFF\0\0\0\0WAVELIST\x03\0\0\0abc\0fmt \x12\0\0\0".to_vec();
        bytes.extend(tag.to_le_bytes());
        bytes.extend(1u16.to_le_bytes());
        bytes.extend(rate.to_le_bytes());
        bytes.extend((rate * u32::from(bits) / 8).to_le_bytes());
        bytes.extend((bits / 8).to_le_bytes());
        bytes.extend(bits.to_le_bytes());
        bytes.extend([0, 0]);
        bytes.extend(b"data");
        bytes.extend(data_length.to_le_bytes());
        bytes.extend(data);
        bytes
    }

    /// The largest difference from the 500 Hz tone at 8 kHz, the filter's edges left out.
    fn error(samples: &[i16], level: f32) -> i32 {
        let exact = tone(8_000).map(|value| (value * level * 32_767.0) as i32);
        samples.iter().zip(exact).skip(200).take(TONE_SAMPLES - 400).map(|(&s, e)| (i32::from(s) - e).abs()).max().unwrap()
    }

    #[test]
    fn every_depth_rate_and_channel_count_gives_the_same_telephone_audio() {
        for (rate, bits, channels, allowed) in
            [(8_000, 16, 1, 2), (8_000, 8, 1, 400), (16_000, 24, 1, 30), (22_050, 16, 2, 30), (44_100, 24, 2, 30), (48_000, 16, 1, 30)]
        {
            let samples = read(&pcm(rate, bits, channels)[..]).unwrap();
            assert_eq!(samples.len(), TONE_SAMPLES, "{rate}");
            let off = error(&samples, if channels == 2 { 0.75 } else { 1.0 });
            assert!(off <= allowed, "{rate} Hz, {bits} bits, {channels} channels: off by {off}");
        }
    }

    #[test]
    fn samples_without_a_header_are_read_up_to_their_end_at_the_rate_that_is_said() {
        for (rate, allowed) in [(8_000, 2), (22_050, 30), (24_000, 30), (48_000, 30)] {
            let bytes: Vec<u8> = tone(rate).flat_map(|value| ((value * 32_767.0) as i16).to_le_bytes()).collect();
            let samples = read_raw(&bytes[..], rate).unwrap();
            assert_eq!(samples.len(), TONE_SAMPLES, "{rate}");
            assert!(error(&samples, 1.0) <= allowed, "{rate}: off by {}", error(&samples, 1.0));
        }
        assert!(read_raw(&[1, 0, 1][..], 8_000).is_ok_and(|samples| samples == [1]), "half a sample is none");
        assert!(matches!(read_raw(&[0; 8][..], 4_000), Err(WavFault::Rate(_))));
    }

    #[test]
    fn both_laws_of_g711_are_read() {
        for (tag, codec) in [(6, Codec::Pcma), (7, Codec::Pcmu)] {
            let octets: Vec<u8> = tone(8_000).map(|value| codec.encode_sample((value * 32_767.0) as i16)).collect();
            let samples = read(&riff(tag, 8, 8_000, octets.len() as u32, &octets)[..]).unwrap();
            assert!(error(&samples, 1.0) < 600, "{}", error(&samples, 1.0));
        }
    }

    #[test]
    fn a_streamed_length_means_up_to_the_end_and_a_wrong_one_is_an_error() {
        let data = [1, 0].repeat(800);
        for length in [0, 1_600, 0x7FFF_F000, u32::MAX] {
            assert_eq!(read(&riff(1, 16, 8_000, length, &data)[..]).unwrap(), vec![1; 800], "{length:x}");
        }
        let cut = read(&riff(1, 16, 8_000, 1_700, &data)[..]).unwrap_err();
        let end = riff(1, 16, 8_000, 1_700, &data).len() as u64;
        assert!(matches!(cut, WavFault::Truncated { at } if at == end), "{cut}");
    }

    #[test]
    fn each_fault_says_what_where_and_how_to_mend_it() {
        let directory = tempfile::tempdir().unwrap();
        let fault = |name: &str, bytes: &[u8]| {
            let path = directory.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            load(&path).unwrap_err().to_string()
        };
        for (bytes, what) in [
            (b"ID3\x04 this is an mp3 file".to_vec(), "not a WAV file"),
            (b"RIFF".to_vec(), "ends at byte 0"),
            (riff(3, 32, 8_000, 4, &[0; 4]), "WAV format 3 with 32 bits in 1 channel(s) (byte 32)"),
            (riff(1, 16, 4_000, 4, &[0; 4]), "4000 Hz"),
            (b"RIFF\0\0\0\0WAVEdata\x04\0\0\0abcd".to_vec(), "before its format"),
            (riff(7, 8, 8_000, 0, &vec![0xFF; 600 * 8_000 + 1]), "longer than 600 s"),
        ] {
            let message = fault("prompt.wav", &bytes);
            assert!(message.contains(what) && message.contains("prompt.wav"), "{message}");
            assert!(message.contains("sox") || message.contains("again") || message.contains("shorter"), "{message}");
        }
        assert!(load(&directory.path().join("none.wav")).unwrap_err().to_string().contains("No such file"));
        assert!(load(directory.path()).is_err());
    }

    #[test]
    fn files_made_by_sox_are_read() {
        let directory = tempfile::tempdir().unwrap();
        for (name, arguments) in [
            ("mu-law", "-r 8000 -c 1 -e mu-law"),
            ("a-law", "-r 8000 -c 1 -e a-law"),
            ("extensible", "-r 48000 -c 2 -b 24"),
            ("eight", "-r 11025 -c 1 -b 8 -e unsigned"),
        ] {
            let path = directory.path().join(format!("{name}.wav"));
            let made = Command::new("sox")
                .args("-n -D".split(' '))
                .args(arguments.split(' '))
                .arg(&path)
                .args("synth 1 sine 500 vol 0.5".split(' '))
                .status();
            if !made.is_ok_and(|status| status.success()) {
                eprintln!("skipped: sox is not installed");
                return;
            }
            let samples = load(&path).unwrap();
            assert_eq!(samples.len(), TONE_SAMPLES, "{name}");
            assert!(error(&samples, 1.0) < 600, "{name}: off by {}", error(&samples, 1.0));
        }
    }

    #[test]
    fn recorded_prompts_are_read_at_their_full_length() {
        let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/cases/a_audio/prompts_es");
        let Ok(files) = std::fs::read_dir(&cases) else {
            eprintln!("skipped: {} is missing", cases.display());
            return;
        };
        for path in files.map(|file| file.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "wav")) {
            let bytes = std::fs::metadata(&path).unwrap().len();
            let samples = load(&path).unwrap();
            assert!((bytes - 200..bytes).contains(&(samples.len() as u64)), "{}", path.display());
        }
    }

    proptest! {
        #[test]
        fn no_input_makes_reading_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), at in 0usize..80) {
            let _ = read(&bytes[..]);
            let mut damaged = riff(1, 16, 16_000, 100, &[7; 100]);
            damaged.splice(at..(at + bytes.len().min(4)).min(damaged.len()), bytes.iter().copied().take(4));
            let _ = read(&damaged[..]);
        }
    }
}
