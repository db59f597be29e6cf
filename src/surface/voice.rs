//! The voice: the single owner of a channel's mouth.
//!
//! It carries out Speak, Resume and Clear in the order in which they come, renders words on the way, and decides nothing.
//! What becomes of the audio is told by the media path; what is told here is only that audio exists, or could not be made.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use recado_core::conversation::{AcousticEpoch, Content, PlaybackEvent, SegmentRef, Word};
use recado_core::ids::PlaybackId;
use recado_core::policy::Language;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use super::media::{CallCommands, CallEvents, CallMedia, Codec, Command};
use super::speech::{SpeechAudio, SpeechError, Synthesiser, Utterance};

/// What every voice of the box speaks with.
pub struct Speaker {
    engine: Arc<dyn Synthesiser>,
    voices: BTreeMap<Language, super::speech::Voice>,
    /// In both laws, so that calls share one copy.
    prompts: BTreeMap<String, [Rendered; 2]>,
    /// What is wrong with the engine, if it did not work the last time.
    state: watch::Sender<Option<String>>,
}

impl Speaker {
    /// A speaker with this engine, these voices per language and these recorded prompts.
    pub fn new(
        engine: Arc<dyn Synthesiser>,
        voices: BTreeMap<Language, super::speech::Voice>,
        prompts: BTreeMap<String, SpeechAudio>,
    ) -> Self {
        let both = |audio| [Codec::Pcmu, Codec::Pcma].map(|codec| render(&audio, codec));
        let prompts = prompts.into_iter().map(|(name, audio)| (name, both(audio))).collect();
        Self { engine, voices, prompts, state: watch::Sender::new(None) }
    }

    /// Renders words beforehand, so that they are at hand when they are needed.
    ///
    /// # Errors
    /// What keeps the engine from speaking.
    pub async fn warm_up(&self, text: &str, language: Language) -> Result<(), SpeechError> {
        self.synthesise(&self.utterance(text, language)).await.map(drop)
    }

    /// What is wrong with the speech engine, if anything, in a sentence that says what to do.
    pub fn state(&self) -> watch::Receiver<Option<String>> {
        self.state.subscribe()
    }

    async fn synthesise(&self, utterance: &Utterance) -> Result<SpeechAudio, SpeechError> {
        let audio = self.engine.synthesise(utterance).await;
        let problem = match &audio {
            Ok(_) => None,
            Err(error) if error.is_the_engines() => Some(error.to_string()),
            // A text that can't be spoken says nothing about the engine.
            Err(_) => return audio,
        };
        self.state.send_if_modified(|state| {
            let changed = *state != problem;
            *state = problem;
            changed
        });
        audio
    }

    /// What the engine is asked for these words.
    fn utterance(&self, text: &str, language: Language) -> Utterance {
        let voice = self.voices.get(&language).cloned().unwrap_or_default();
        Utterance { text: text.into(), language, voice }
    }
}

/// The voice of one call. Not `Clone`, and the only one that holds the call's mouth.
pub struct Voice {
    mouth: CallCommands,
    codec: Codec,
    speaker: Arc<Speaker>,
    /// What was asked for and has not gone to the mouth, in order.
    queue: VecDeque<Pending>,
    rendering: JoinSet<(SegmentRef, Result<Rendered, String>)>,
    told: VecDeque<PlaybackEvent>,
    /// Commands that found the mouth full. Their order is kept.
    held_back: VecDeque<Command>,
}

struct Pending {
    segment: SegmentRef,
    epoch: AcousticEpoch,
    audio: Option<Rendered>,
    /// Who renders it.
    render: Option<Render>,
}

/// A rendering under way; nobody needs it any more when this is dropped.
struct Render(AbortHandle);

impl Drop for Render {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[derive(Clone)]
struct Rendered {
    codec: Codec,
    octets: Arc<[u8]>,
    duration_ms: u64,
    words: Vec<Word>,
    near_silent: bool,
}

impl Voice {
    /// The voice of a call that speaks `codec`, and what the call's media tells.
    pub fn new(media: CallMedia, codec: Codec, speaker: Arc<Speaker>) -> (Self, CallEvents) {
        let CallMedia { commands: mouth, events, .. } = media;
        let voice = Self {
            mouth,
            codec,
            speaker,
            queue: VecDeque::new(),
            rendering: JoinSet::new(),
            told: VecDeque::new(),
            held_back: VecDeque::new(),
        };
        (voice, events)
    }

    /// Says a segment after those already asked for, unless the acoustic clock has left `epoch` when it could begin.
    pub fn speak(&mut self, segment: SegmentRef, content: &Content, epoch: AcousticEpoch) {
        if self.queue.len() >= QUEUE_MAX {
            let reason = format!("{QUEUE_MAX} segments wait for the speech engine already");
            return self.told.push_back(PlaybackEvent::Failed { segment, reason });
        }
        self.queue.push_back(Pending { segment, epoch, audio: None, render: None });
        let codec = self.codec;
        match content {
            Content::Prompt { name, .. } => {
                let rendered = match self.speaker.prompts.get(name).and_then(|both| both.iter().find(|audio| audio.codec == codec)) {
                    Some(audio) => Ok(audio.clone()),
                    None => Err(format!("there is no prompt `{name}`: name it under [prompts] in the dialogue")),
                };
                self.rendered(segment, rendered);
            }
            Content::Text { text, language } => {
                let utterance = self.speaker.utterance(text, *language);
                let speaker = Arc::clone(&self.speaker);
                let render = self.rendering.spawn(async move {
                    let audio = speaker.synthesise(&utterance).await;
                    (segment, audio.map(|audio| render(&audio, codec)).map_err(|error| error.to_string()))
                });
                if let Some(pending) = self.queue.back_mut() {
                    pending.render = Some(Render(render));
                }
            }
        }
    }

    /// Goes on with a paused playback, unless the acoustic clock has left `epoch`.
    pub fn resume(&mut self, playback: PlaybackId, epoch: AcousticEpoch) {
        self.command(Command::Resume { playback, epoch });
    }

    /// Stops: what of this playback has not left the box is discarded.
    pub fn clear(&mut self, playback: PlaybackId) {
        self.queue.retain(|pending| pending.segment.playback != playback);
        self.held_back.retain(|command| !matches!(command, Command::Speak { segment, .. } if segment.playback == playback));
        self.command(Command::Clear { playback });
    }

    /// Changes where and how the media goes, as a re-INVITE agreed.
    pub fn renegotiated(&mut self, remote: super::media::Remote) {
        self.codec = remote.codec;
        self.command(Command::Remote(remote));
    }

    /// The call is over: nothing more is sent.
    pub fn close(&mut self) {
        self.queue.clear();
        self.rendering.abort_all();
        self.command(Command::Close);
    }

    /// The next thing to be told of audio that was asked for. Cancel-safe.
    pub async fn told(&mut self) -> PlaybackEvent {
        loop {
            if let Some(event) = self.told.pop_front() {
                return event;
            }
            if self.held_back.is_empty() {
                match self.rendering.join_next().await {
                    Some(Ok((segment, rendered))) => self.rendered(segment, rendered),
                    Some(Err(broken)) => self.broken_off(&broken),
                    None => std::future::pending().await,
                }
            } else {
                tokio::time::sleep(MOUTH_FULL_WAIT).await;
                self.retry();
            }
        }
    }

    /// A rendering ended without an answer: what waits behind it must not wait for ever. One that was aborted is no longer waited for.
    fn broken_off(&mut self, broken: &tokio::task::JoinError) {
        let is_its = |pending: &&Pending| pending.render.as_ref().is_some_and(|render| render.0.id() == broken.id());
        if let Some(segment) = self.queue.iter().find(is_its).map(|pending| pending.segment) {
            self.rendered(segment, Err(broken.to_string()));
        }
    }

    fn rendered(&mut self, segment: SegmentRef, rendered: Result<Rendered, String>) {
        let Some(at) = self.queue.iter().position(|pending| pending.segment == segment) else {
            return; // It was cleared meanwhile.
        };
        match rendered {
            Ok(audio) => {
                let (duration_ms, words, near_silent) = (audio.duration_ms, audio.words.clone(), audio.near_silent);
                self.told.push_back(PlaybackEvent::Ready { segment, duration_ms, words, near_silent });
                if let Some(pending) = self.queue.get_mut(at) {
                    pending.audio = Some(audio);
                }
            }
            Err(reason) => {
                tracing::warn!(playback_id = %segment.playback, index = segment.index, reason, "no audio for a segment");
                self.queue.remove(at);
                self.told.push_back(PlaybackEvent::Failed { segment, reason });
            }
        }
        self.release();
    }

    /// Gives the mouth what is rendered, in order.
    fn release(&mut self) {
        while self.queue.front().is_some_and(|pending| pending.audio.is_some()) {
            let Some(Pending { segment, epoch, audio: Some(audio), .. }) = self.queue.pop_front() else { return };
            self.command(Command::Speak { segment, codec: audio.codec, audio: audio.octets, last: true, epoch });
        }
    }

    fn command(&mut self, command: Command) {
        self.held_back.push_back(command);
        self.retry();
    }

    fn retry(&mut self) {
        while let Some(command) = self.held_back.pop_front() {
            if let Err(command) = self.mouth.send(command) {
                self.held_back.push_front(command);
                return;
            }
        }
    }
}

/// Audio as the telephone takes it, with what is known of it.
fn render(audio: &SpeechAudio, codec: Codec) -> Rendered {
    let mut octets = vec![0; audio.samples_8khz.len()];
    codec.encode(&audio.samples_8khz, &mut octets);
    let words = audio
        .text_to_time
        .iter()
        .map(|mark| Word { end_byte: clamp(mark.byte_range.end), end_ms: clamp(mark.end_sample / SAMPLES_PER_MS) })
        .collect();
    Rendered { codec, octets: octets.into(), duration_ms: audio.duration_ms(), words, near_silent: near_silent(&audio.samples_8khz) }
}

/// Whether most of the audio is below -60 dBFS: it convinces nobody that something was said.
fn near_silent(samples: &[i16]) -> bool {
    let frames = samples.chunks(SAMPLES_PER_MS * 20);
    let (mut silent, mut all) = (0_usize, 0_usize);
    for frame in frames {
        let energy: i64 = frame.iter().map(|sample| i64::from(*sample) * i64::from(*sample)).sum();
        all += 1;
        // -60 dBFS is a thousandth of full scale.
        silent += usize::from(energy < SILENT_RMS * SILENT_RMS * frame.len() as i64);
    }
    silent * 2 > all
}

fn clamp(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

const SAMPLES_PER_MS: usize = 8;

/// A thousandth of full scale.
const SILENT_RMS: i64 = 33;

/// Segments that may wait for the speech engine: more than a minute of speech.
const QUEUE_MAX: usize = 64;

/// A mouth that is full takes the next command a few frames later.
const MOUTH_FULL_WAIT: std::time::Duration = std::time::Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audio_that_is_mostly_below_minus_sixty_is_near_silent() {
        let loud: Vec<i16> = (0..1_600).map(|at| if at % 2 == 0 { 3_000 } else { -3_000 }).collect();
        let faint = vec![20_i16; 1_600];
        assert!(!near_silent(&loud));
        assert!(near_silent(&faint));
        assert!(near_silent(&[faint.clone(), faint, loud.clone()].concat()));
        assert!(!near_silent(&[loud.clone(), loud, vec![0; 1_600]].concat()));
    }
}
