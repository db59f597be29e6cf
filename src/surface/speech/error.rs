//! What can go wrong between a text and its audio.

use std::path::PathBuf;
use std::time::Duration;

use recado_core::policy::Language;

use super::wav::WavFault;
use crate::config::code_of;

/// Why there is no audio, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum SpeechError {
    /// The engine's program is not on this box: install it.
    #[error("{} is not installed: {install}", program.display())]
    EngineMissing {
        /// The program that was looked for.
        program: PathBuf,
        /// What to do.
        install: &'static str,
    },
    /// The engine could not be started or read, for a reason of the operating system: mend what it names.
    #[error("{} could not be run: {source}", program.display())]
    EngineIo {
        /// The program that was run.
        program: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The engine has no such voice: install it, or name another one.
    #[error("{} has no voice {voice:?}: name one that `espeak-ng --voices` lists under speech.voices, and start the box again", program.display())]
    VoiceMissing {
        /// The program that was run.
        program: PathBuf,
        /// The voice, by the engine's own name.
        voice: String,
    },
    /// The engine has no voice for the language: name one in its table.
    #[error("{engine} has no voice for the language {}: name one under {setting}, and start the box again", code_of(*language))]
    NoVoiceFor {
        /// The engine, by its name in a configuration.
        engine: &'static str,
        /// The language.
        language: Language,
        /// The setting that names voices.
        setting: &'static str,
    },
    /// The engine is not ready yet: ask again in a moment.
    #[error("the voice {} is being loaded", model.display())]
    Loading {
        /// The voice.
        model: PathBuf,
    },
    /// The engine's program does not run: the words say why.
    #[error("{0}")]
    NotRunning(String),
    /// The engine has more to say than it can: use fewer calls at a time, or a faster engine.
    #[error("the speech engine has too much to say at a time")]
    Busy,
    /// The service can't be reached or trusted: the words say why, and what to do.
    #[error("{0}")]
    ServiceUnreachable(String),
    /// The service refused: read its own message.
    #[error("the speech service answered {status}{detail}")]
    ServiceRefused {
        /// The status, in words.
        status: String,
        /// What it said, after a colon; empty where it said nothing.
        detail: String,
        /// How long it asks not to be asked.
        retry_after: Option<Duration>,
    },
    /// The service sent something that is not what was asked for: check `cloud.speech.response_format` and its model.
    #[error("the speech service sent no usable audio: {0}")]
    ServiceAudio(String),
    /// The engine's audio has no sound in it, though there are words: check its voice.
    #[error("the speech engine's audio is silent")]
    Silent,
    /// The engine refused: read its own message.
    #[error("the speech engine failed ({status}){}", said(stderr))]
    EngineFailed {
        /// The exit status in words.
        status: String,
        /// The beginning of what it wrote to its error output.
        stderr: String,
    },
    /// The engine's audio could not be understood: check its version.
    #[error("the speech engine wrote no usable audio: {0}")]
    EngineAudio(WavFault),
    /// The engine hung, or the box is overloaded: say something else, try later.
    #[error("the speech engine gave no audio within {0:?}")]
    TimedOut(Duration),
    /// The text is longer than one utterance may be: split it with [`clauses`](crate::text::clauses()).
    #[error("the text has {chars} characters, more than the {chars_max} of one utterance: split it into clauses")]
    TextTooLong {
        /// Its length in characters.
        chars: usize,
        /// The limit in characters.
        chars_max: usize,
    },
    /// The text takes longer to say than its length lets expect, such as rows of digits: split it, or say less.
    #[error("the text takes more than {seconds_max} s to say: split it or shorten it")]
    AudioTooLong {
        /// The limit in seconds.
        seconds_max: u64,
    },
    /// The text has nothing that can be pronounced: give it words.
    #[error("the text has no words to speak")]
    NothingToSay,
    /// A voice option is outside of its range: correct the configuration.
    #[error("voice option {option} is {value}: it must be {allowed}")]
    VoiceOption {
        /// The option's name.
        option: &'static str,
        /// The refused value.
        value: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// A prompt file can't be used: mend the file as the message says.
    #[error("prompt {}: {fault}", path.display())]
    Prompt {
        /// The file.
        path: PathBuf,
        /// What is wrong in it, where, and how to mend it.
        fault: WavFault,
    },
}

/// What a program wrote to its error output, after what became of it.
fn said(stderr: &str) -> String {
    if stderr.is_empty() { ", and said nothing of why: run it by hand with a word at its input".to_owned() } else { format!(": {stderr}") }
}

impl SpeechError {
    /// Whether the engine is to blame, and not what it was asked for.
    pub fn is_the_engines(&self) -> bool {
        match self {
            Self::EngineMissing { .. }
            | Self::EngineIo { .. }
            | Self::VoiceMissing { .. }
            | Self::NoVoiceFor { .. }
            | Self::Loading { .. }
            | Self::NotRunning(_)
            | Self::Busy
            | Self::ServiceUnreachable(_)
            | Self::ServiceRefused { .. }
            | Self::ServiceAudio(_)
            | Self::Silent
            | Self::EngineFailed { .. }
            | Self::EngineAudio(_)
            | Self::TimedOut(_) => true,
            Self::TextTooLong { .. } | Self::AudioTooLong { .. } | Self::NothingToSay | Self::VoiceOption { .. } | Self::Prompt { .. } => {
                false
            }
        }
    }

    /// How long the engine asks not to be asked.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::ServiceRefused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_without_a_word_is_said_to() {
        let failed = |stderr: &str| SpeechError::EngineFailed { status: "exit status: 1".into(), stderr: stderr.into() }.to_string();
        assert_eq!(failed("no such voice"), "the speech engine failed (exit status: 1): no such voice");
        assert_eq!(
            failed(""),
            "the speech engine failed (exit status: 1), and said nothing of why: run it by hand with a word at its input"
        );
    }
}
