//! What of a text an engine is given.

use super::error::SpeechError;
use super::port::Utterance;

/// The text of `utterance` with everything taken out that an engine would obey instead of reading: control characters (espeak-ng takes
/// U+0001 for a command, others a line break for the end of the text) and square brackets (`[[...]]` are phonemes); also what has no
/// sound, as direction marks.
///
/// # Errors
/// The text is longer than an utterance may be, or nothing is left of it.
pub fn sayable(utterance: &Utterance) -> Result<String, SpeechError> {
    let chars = utterance.text.chars().count();
    if chars > UTTERANCE_CHARS_MAX {
        return Err(SpeechError::TextTooLong { chars, chars_max: UTTERANCE_CHARS_MAX });
    }
    let text: String = (utterance.text.chars())
        .filter(|c| !matches!(c, '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}'))
        .map(|c| if c.is_control() || matches!(c, '[' | ']') { ' ' } else { c })
        .collect();
    if text.trim().is_empty() { Err(SpeechError::NothingToSay) } else { Ok(text) }
}

/// Whether there is something to be pronounced, and not only signs.
pub fn has_words(text: &str) -> bool {
    text.contains(char::is_alphanumeric)
}

/// Characters of one utterance: about 40 s of ordinary text, several clauses.
pub const UTTERANCE_CHARS_MAX: usize = 600;
