//! What can go wrong between a text and its audio.

use std::path::PathBuf;
use std::time::Duration;

use super::wav::WavFault;

/// Why there is no audio, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum SpeechError {
    /// The engine's program is not on this box: install it.
    #[error("{} is not installed: run `{install}`", program.display())]
    EngineMissing {
        /// The program that was looked for.
        program: PathBuf,
        /// The command that installs it.
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
    /// The engine refused: read its own message.
    #[error("the speech engine failed ({status}): {stderr}")]
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
    /// The phrases to keep ready don't fit: raise the bound of the cache, or keep fewer ready.
    #[error("the phrases to keep ready need more than the cache's {bytes_max} bytes")]
    PhrasesFull {
        /// The bound in bytes.
        bytes_max: usize,
    },
}

impl SpeechError {
    /// Whether the engine is to blame, and not what it was asked for.
    pub fn is_the_engines(&self) -> bool {
        matches!(
            self,
            Self::EngineMissing { .. }
                | Self::EngineIo { .. }
                | Self::VoiceMissing { .. }
                | Self::EngineFailed { .. }
                | Self::EngineAudio(_)
                | Self::TimedOut(_)
        )
    }
}
