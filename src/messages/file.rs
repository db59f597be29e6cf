//! A message as a file: mono, 16-bit linear at 8 kHz, with a list of who left it, in which conversation and when (RIFF's `LIST` of `INFO`).

use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

use recado_core::{PartyId, SessionId};

/// What a message is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u64);

/// What stands on a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// The conversation that it was left in.
    pub session: SessionId,
    /// Who left it, where that is known.
    pub party: Option<PartyId>,
    /// When (ms since 1970), where the clock was known to be right.
    pub unix_ms: Option<i64>,
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message_{:016x}", self.0)
    }
}

/// This is not what a message is called: `message_` and 16 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not what a message is called: write message_ and its 16 digits, as `recado messages` shows them")]
pub struct NoMessageId;

impl FromStr for MessageId {
    type Err = NoMessageId;

    fn from_str(text: &str) -> Result<Self, NoMessageId> {
        let digits =
            text.strip_prefix("message_").filter(|digits| digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).map(Self).ok_or(NoMessageId)
    }
}

/// The whole file.
pub(super) fn written(label: &Label, samples: &[i16]) -> Vec<u8> {
    let mut info = Vec::from(*b"INFO");
    text(&mut info, *b"ISRC", &label.session.to_string());
    text(&mut info, *b"IART", label.party.as_ref().map_or("", |party| &party.0));
    text(&mut info, *b"ICRD", &label.unix_ms.map(|at| at.to_string()).unwrap_or_default());
    let mut format = Vec::with_capacity(16);
    // PCM, one channel, 8,000 samples and 16,000 bytes a second, 2 bytes a sample of 16 bits.
    for part in [1_u16, 1] {
        format.extend(part.to_le_bytes());
    }
    for part in [RATE_HZ, RATE_HZ * 2] {
        format.extend(part.to_le_bytes());
    }
    for part in [2_u16, 16] {
        format.extend(part.to_le_bytes());
    }
    let data: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
    let mut body = Vec::from(*b"WAVE");
    for (name, content) in [(*b"fmt ", &format), (*b"LIST", &info), (*b"data", &data)] {
        chunk(&mut body, name, content);
    }
    let mut file = Vec::new();
    chunk(&mut file, *b"RIFF", &body);
    file
}

fn text(into: &mut Vec<u8>, name: [u8; 4], text: &str) {
    let ended: Vec<u8> = text.bytes().filter(|byte| *byte != 0).take(TEXT_BYTES_MAX).chain([0]).collect();
    chunk(into, name, &ended);
}

/// A chunk: its name, its length, its content, and a byte more where that is odd.
fn chunk(into: &mut Vec<u8>, name: [u8; 4], content: &[u8]) {
    into.extend(name);
    // A message is minutes long: far from four gigabytes.
    into.extend(u32::try_from(content.len()).unwrap_or(u32::MAX).to_le_bytes());
    into.extend(content);
    into.extend(std::iter::repeat_n(0, content.len() % 2));
}

/// What stands on a file, and how long it is (ms).
///
/// # Errors
/// Where it can't be read, or is no message.
pub(super) fn read(mut file: impl Read) -> io::Result<(Label, u64)> {
    let strange = |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("it is no message of this box: {what}"));
    let mut head = [0; 12];
    file.read_exact(&mut head)?;
    if !(head.starts_with(b"RIFF") && head.ends_with(b"WAVE")) {
        return Err(strange("it is no WAV"));
    }
    let (mut session, mut party, mut unix_ms) = (None, None, None);
    loop {
        let (name, length) = header(&mut file)?;
        match &name {
            b"data" => {
                let session = session.ok_or_else(|| strange("it names no conversation"))?;
                return Ok((Label { session, party, unix_ms }, u64::from(length) / 2 * 1_000 / u64::from(RATE_HZ)));
            }
            b"LIST" if length >= 4 && length as usize <= LIST_BYTES_MAX => {
                let mut list = vec![0; length as usize];
                file.read_exact(&mut list)?;
                let mut list = list.get(4..).unwrap_or_default();
                while let Ok((name, length)) = header(&mut list) {
                    let Some(content) = list.get(..length as usize) else { break };
                    let text = String::from_utf8_lossy(content).trim_end_matches('\0').to_owned();
                    match &name {
                        b"ISRC" => session = text.parse().ok(),
                        b"IART" => party = Some(text).filter(|text| !text.is_empty()).map(PartyId),
                        b"ICRD" => unix_ms = text.parse().ok(),
                        _ => {}
                    }
                    list = list.get(length as usize + length as usize % 2..).unwrap_or_default();
                }
            }
            _ if length as usize <= LIST_BYTES_MAX => {
                io::copy(&mut (&mut file).take(u64::from(length + length % 2)), &mut io::sink())?;
            }
            _ => return Err(strange("it has a part of a length that none has")),
        }
    }
}

fn header(file: &mut impl Read) -> io::Result<([u8; 4], u32)> {
    let (mut name, mut length) = ([0; 4], [0; 4]);
    file.read_exact(&mut name)?;
    file.read_exact(&mut length)?;
    Ok((name, u32::from_le_bytes(length)))
}

/// The telephone's.
const RATE_HZ: u32 = 8_000;
/// No party has a longer name.
const TEXT_BYTES_MAX: usize = 1_024;
/// What stands on a message, all together.
const LIST_BYTES_MAX: usize = 16 * 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_a_wav_that_says_who_left_it_and_when() {
        let samples: Vec<i16> = (0..8_001).map(|n| n as i16 - 4_000).collect();
        for (party, unix_ms) in [(Some(PartyId("main/+34600".into())), Some(1_700_000_000_123)), (None, None)] {
            let label = Label { session: SessionId(7), party, unix_ms };
            let file = written(&label, &samples);
            assert_eq!(file.len() % 2, 0);
            assert_eq!(u32::from_le_bytes(file[4..8].try_into().unwrap()) as usize, file.len() - 8);
            assert_eq!(read(file.as_slice()).unwrap(), (label, 1_000));
            let mut wav = hound::WavReader::new(file.as_slice()).unwrap();
            assert_eq!((wav.spec().sample_rate, wav.spec().channels), (8_000, 1));
            assert!(wav.samples::<i16>().map(Result::unwrap).eq(samples.iter().copied()));
        }
    }

    #[test]
    fn what_is_no_message_is_not_taken_for_one() {
        let whole = written(&Label { session: SessionId(7), party: None, unix_ms: None }, &[1, 2, 3]);
        for length in 0..whole.len() - 6 {
            assert!(read(&whole[..length]).is_err(), "{length}");
        }
        for place in 0..whole.len() - 6 {
            let mut damaged = whole.clone();
            damaged[place] ^= 0xff;
            let _ = read(damaged.as_slice());
        }
        assert!(read(&b"RIFF\x04\0\0\0WAVEdata\0\0\0\0"[..]).unwrap_err().to_string().contains("names no conversation"));
    }

    #[test]
    fn its_name_is_read_as_it_is_shown() {
        let id = MessageId(0x12ab);
        assert_eq!((id.to_string().as_str(), id.to_string().parse()), ("message_00000000000012ab", Ok(id)));
        for other in ["", "message_", "message_12ab", "../message_00000000000012ab", "message_+0000000000012ab"] {
            assert_eq!(other.parse::<MessageId>(), Err(NoMessageId), "{other}");
        }
    }
}
