//! A program of the box's owner as a speech engine: run for each utterance, with the text at its input and the audio at its output.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::error::SpeechError;
use super::port::{SpeechAudio, Synthesis, Synthesiser, Utterance};
use super::process::{self, SECONDS_MAX};
use super::text::{has_words, sayable};
use super::wav;
use crate::config::{CommandOutput, SpeechCommand, Voices, code_of};

/// Runs the program of `[speech.command]` once for each utterance, a few at a time.
#[derive(Debug)]
pub struct CommandEngine {
    program: PathBuf,
    arguments: Vec<String>,
    voices: Voices,
    /// The rate of samples without a header (Hz); none where it writes WAV.
    raw_hz: Option<u32>,
    timeout: Duration,
    running: Semaphore,
}

impl CommandEngine {
    /// The engine that is configured.
    pub fn new(command: &SpeechCommand) -> Self {
        Self {
            program: command.program.clone(),
            arguments: command.arguments.clone(),
            voices: command.voices.clone(),
            raw_hz: command.rate_hz.filter(|_| command.output == CommandOutput::Raw),
            timeout: Duration::from_millis(command.timeout_ms),
            running: Semaphore::new(PROCESSES_MAX),
        }
    }

    async fn speak(&self, utterance: &Utterance) -> Result<SpeechAudio, SpeechError> {
        let text = sayable(utterance)?;
        if !has_words(&text) {
            return Err(SpeechError::NothingToSay);
        }
        let arguments = self.arguments(utterance)?;
        let work = async {
            // The semaphore is never closed; were it, running unbounded would still be right for this utterance.
            let _place = self.running.acquire().await.ok();
            process::run(&self.program, &arguments, &text, self.output_bytes_max(), INSTALL).await
        };
        // The whole way counts, the wait for a free place included: a caller is listening to the silence.
        let output = tokio::time::timeout(self.timeout, work).await.unwrap_or(Err(SpeechError::TimedOut(self.timeout)))?;
        if output.is_empty() {
            return Err(SpeechError::Silent);
        }
        let samples = match self.raw_hz {
            Some(rate_hz) => wav::read_raw(&output[..], rate_hz),
            None => wav::read(&output[..]),
        };
        SpeechAudio::of_words(Arc::clone(&utterance.text), samples.map_err(SpeechError::EngineAudio)?)
    }

    /// Its arguments for `utterance`. What is put in is never looked at again: a voice's name can't name another.
    fn arguments(&self, utterance: &Utterance) -> Result<Vec<String>, SpeechError> {
        let voice = self.voices.of(utterance.language);
        if voice.is_none() && self.arguments.iter().any(|argument| argument.contains(VOICE)) {
            return Err(SpeechError::NoVoiceFor { engine: "command", language: utterance.language, setting: "speech.command.voices" });
        }
        let words_per_minute = utterance.voice.words_per_minute.to_string();
        let values =
            [(VOICE, voice.unwrap_or_default()), ("{language}", code_of(utterance.language)), ("{words_per_minute}", &words_per_minute)];
        Ok(self.arguments.iter().map(|argument| filled(argument, &values)).collect())
    }

    /// As much as a playback holds, in the widest samples of the rate, and a byte more to notice that it was more.
    fn output_bytes_max(&self) -> u64 {
        SECONDS_MAX * u64::from(self.raw_hz.unwrap_or(RATE_HZ_MOST)) * 2 + HEADER_BYTES + 1
    }
}

impl Synthesiser for CommandEngine {
    fn synthesise<'a>(&'a self, utterance: &'a Utterance) -> Synthesis<'a> {
        Box::pin(self.speak(utterance))
    }
}

/// `template` with each name replaced by its value.
fn filled(template: &str, values: &[(&str, &str)]) -> String {
    let mut filled = String::new();
    let mut rest = template;
    while let Some(next) = rest.chars().next() {
        match values.iter().find(|(name, _)| rest.starts_with(name)) {
            Some((name, value)) => {
                filled.push_str(value);
                rest = rest.get(name.len()..).unwrap_or_default();
            }
            None => {
                filled.push(next);
                rest = rest.get(next.len_utf8()..).unwrap_or_default();
            }
        }
    }
    filled
}

const VOICE: &str = "{voice}";
const INSTALL: &str = "install it, or correct speech.command.program";
/// Media has the other cores.
const PROCESSES_MAX: usize = 2;
/// Of what a WAV file may hold.
const RATE_HZ_MOST: u32 = 48_000;
/// What may stand before the samples of a WAV file.
const HEADER_BYTES: u64 = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_into_an_argument_is_not_looked_at_again() {
        let values = [("{voice}", "{language}"), ("{language}", "es")];
        assert_eq!(filled("--voice={voice}/{language} {x} ñ{", &values), "--voice={language}/es {x} ñ{");
    }
}
