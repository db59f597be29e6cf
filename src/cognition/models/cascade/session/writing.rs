//! What the caller said, on its way to words.

use std::sync::Arc;

use recado_core::Time;

use super::asking::{Retries, Retry, Turn};
use super::{Action, JobId, Part, Session};
use crate::cognition::language::http::Fault;
use crate::cognition::language::wire::{Tokens, Transcript};

/// A turn that is being written down, or is.
#[derive(Debug)]
pub(super) struct Writing {
    samples: Arc<[i16]>,
    /// The request that is under way.
    job: Option<JobId>,
    pub retries: Retries,
    /// What it came to.
    pub result: Option<Result<String, String>>,
    /// What the conversation's memory calls the turn, once it has one.
    pub name: Option<String>,
}

impl Writing {
    pub fn new(samples: Arc<[i16]>, now: Time, patience_ms: u64) -> Self {
        Self { samples, job: None, retries: Retries::new(now, patience_ms), result: None, name: None }
    }

    pub fn deadline(&self) -> Option<Time> {
        [self.retries.at, self.given_up_at()].into_iter().flatten().min()
    }

    /// When nobody waits for it any longer: what is begun ahead is dropped sooner.
    fn given_up_at(&self) -> Option<Time> {
        (self.name.is_some() && self.result.is_none()).then(|| self.retries.until())
    }

    /// The words, where it has come to some.
    pub fn words(&self) -> Option<&str> {
        self.result.as_ref().and_then(|result| result.as_deref().ok()).filter(|words| holds_words(words))
    }

    /// Whether it turned out that nothing was said.
    pub fn is_noise(&self) -> bool {
        matches!(&self.result, Some(Ok(words)) if !holds_words(words))
    }

    /// Whether it needs a request now.
    fn is_due(&self, now: Time) -> bool {
        self.result.is_none() && self.job.is_none() && self.retries.at.is_none_or(|at| now >= at)
    }
}

/// Whether there is a word in what was written down. Of noise, models write what it sounds like, in brackets.
fn holds_words(text: &str) -> bool {
    let mut depth = 0usize;
    text.chars().any(|c| {
        match c {
            '[' | '(' => depth += 1,
            ']' | ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && c.is_alphanumeric()
    })
}

impl Session {
    /// Has everything written down that waits for it, and gives up what nobody waits for any longer: what is said later waits for it too.
    pub(super) fn advance_writings(&mut self, now: Time) {
        let in_vain = |writing: &&mut Writing| writing.given_up_at().is_some_and(|at| now >= at);
        let mut aborted = Vec::new();
        for writing in self.writings.iter_mut().filter(in_vain) {
            aborted.push(writing.job.take().map(Action::Abort));
            writing.result = Some(Err(format!("it took longer than {} ms", self.setup.patience_ms)));
        }
        if !aborted.is_empty() {
            self.actions.extend(aborted.into_iter().flatten());
            self.give_up(now, Part::Transcription);
            self.settle_writings();
        }
        let due = |writing: &&mut Writing| writing.is_due(now);
        let writings = self.writings.iter_mut().chain(self.ahead.as_mut().map(|ahead| &mut ahead.writing));
        for writing in writings.filter(due) {
            self.jobs += 1;
            let job = JobId(self.jobs);
            writing.job = Some(job);
            writing.retries.at = None;
            if self.lengths.len() == LENGTHS_MAX {
                self.lengths.pop_front();
            }
            self.lengths.push_back((job, writing.samples.len() as u64 / SAMPLES_PER_MS));
            self.actions.push(Action::WriteDown { job, samples: Arc::clone(&writing.samples) });
        }
    }

    pub(super) fn written_down(&mut self, now: Time, job: JobId, result: Result<Transcript, Fault>) {
        if let Ok(transcript) = &result {
            self.works(Part::Transcription);
            // Also of what nobody waits for any more: it costs the same.
            self.totals.transcription.add(&transcript.usage.written_down());
            let length = self.lengths.iter().find(|(of, _)| *of == job && transcript.usage == Tokens::default());
            self.totals.transcription.audio_ms += length.map_or(0, |(_, ms)| *ms);
        }
        let mut writings = self.writings.iter_mut().chain(self.ahead.as_mut().map(|ahead| &mut ahead.writing));
        let Some(writing) = writings.find(|writing| writing.job == Some(job)) else { return };
        writing.job = None;
        match result {
            Ok(transcript) => {
                writing.result = Some(Ok(transcript.text.trim().to_owned()));
            }
            Err(fault) => {
                let retry = writing.retries.next(now, &fault);
                if retry == Retry::Never {
                    writing.result = Some(Err(fault.reason.clone()));
                }
                self.trouble(now, Part::Transcription, &fault, retry);
            }
        }
        self.settle_writings();
    }

    /// What turns that the conversation has asked about have come to goes into its memory, and to the response that waits for it.
    pub(super) fn settle_writings(&mut self) {
        let named = |writing: &mut Writing| writing.name.is_some() && writing.result.is_some();
        let settled: Vec<Writing> = self.writings.extract_if(.., named).collect();
        for writing in settled {
            let noise = writing.is_noise();
            let (Some(name), Some(result)) = (writing.name, writing.result) else { continue };
            let came_to = match result {
                Ok(_) if noise => {
                    self.memory.caller_said(&name, String::new());
                    Turn::Noise
                }
                Ok(words) => {
                    self.owed = true;
                    self.memory.caller_said(&name, words);
                    Turn::Known
                }
                // That something was said is remembered; not what.
                Err(reason) => Turn::Lost(reason),
            };
            let active = self.active.as_mut().map(|active| &mut active.request);
            for request in active.into_iter().chain(&mut self.waiting) {
                if matches!(&request.turn, Turn::WrittenDown { name: waits_for, .. } if *waits_for == name) {
                    request.turn = came_to.clone();
                }
            }
        }
    }

    /// Nobody waits any more for what is not written down yet.
    pub(super) fn drop_writings(&mut self) {
        for writing in std::mem::take(&mut self.writings) {
            self.abort_writing(&writing);
        }
    }

    /// A request is no longer wanted.
    pub(super) fn abort_writing(&mut self, writing: &Writing) {
        if let Some(job) = writing.job {
            self.act(Action::Abort(job));
        }
    }
}

/// Many more than are under way at a time.
const LENGTHS_MAX: usize = 16;
/// What is written down is sampled at 8 kHz.
const SAMPLES_PER_MS: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_models_write_of_noise_are_no_words() {
        for noise in ["", " ", "...", "[BLANK_AUDIO]", "(música)", "♪ ♪", "[ruido] (tos) ."] {
            assert!(!holds_words(noise), "{noise}");
        }
        for words in ["Sí.", "4", "(tos) Hola", "¿Eh?"] {
            assert!(holds_words(words), "{words}");
        }
    }
}
