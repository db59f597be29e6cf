//! The voice: the single owner of a channel's mouth.
//!
//! It carries out Speak, Resume and Clear in the order in which they come, renders words on the way, and decides nothing; the
//! order is kept by [`recado_voice::Voice`]. What becomes of the audio is told by the media path; what is told here is only that
//! audio exists, or could not be made.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use recado_core::conversation::{AcousticEpoch, Content, PlaybackEvent, SegmentRef, Word};
use recado_core::ids::{PlaybackId, ResponseId};
use recado_core::policy::Language;
use recado_voice::Rendered;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use super::media::{CallCommands, CallEvents, CallMedia, Coded, Remote};
use super::speech::level::is_near_silent;
use super::speech::pieces::Piece;
use super::speech::{SpeechAudio, SpeechError, Synthesis, Synthesiser, Utterance};
use crate::g711::Codec;

/// What every voice of the box speaks with.
pub struct Speaker {
    engine: Arc<dyn Synthesiser>,
    voices: BTreeMap<Language, super::speech::Voice>,
    /// In both laws, so that calls share one copy.
    prompts: BTreeMap<String, [Rendered<Coded>; 2]>,
    state: watch::Sender<SpeechState>,
}

/// What is wrong with what the box speaks with, in sentences that say what to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpeechState {
    /// The languages that the engine did not speak the last time, or that another one spoke for it.
    pub engine: BTreeMap<Language, String>,
    /// The voices that it has not: the languages' own are heard instead. It is not asked for them again.
    pub voices: BTreeMap<Language, String>,
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
        Self { engine, voices, prompts, state: watch::Sender::default() }
    }

    /// Renders words beforehand, so that they are at hand when they are needed.
    ///
    /// # Errors
    /// What keeps the engine from speaking.
    pub async fn warm_up(&self, text: &str, language: Language) -> Result<(), SpeechError> {
        self.synthesise(&*self.engine, &self.utterance(text, language)).await.map(drop)
    }

    /// Looks whether the engine that is meant speaks, whatever is at hand.
    ///
    /// # Errors
    /// What keeps it from speaking.
    pub async fn look(&self, text: &str, language: Language) -> Result<(), SpeechError> {
        self.asked(&*self.engine, &self.utterance(text, language), |engine, utterance| engine.ask_anew(utterance)).await.map(drop)
    }

    /// What is wrong with the speech engine and its voices, if anything.
    pub fn state(&self) -> watch::Receiver<SpeechState> {
        self.state.subscribe()
    }

    /// The engine for one playback.
    fn engine_for_a_playback(&self) -> Arc<dyn Synthesiser> {
        self.engine.for_a_reply().unwrap_or_else(|| Arc::clone(&self.engine))
    }

    async fn synthesise(&self, engine: &dyn Synthesiser, utterance: &Utterance) -> Result<SpeechAudio, SpeechError> {
        self.asked(engine, utterance, |engine, utterance| engine.synthesise(utterance)).await
    }

    /// What comes of asking `engine`, in this way. What is wrong with it is known then.
    async fn asked(&self, engine: &dyn Synthesiser, utterance: &Utterance, ask: Ask) -> Result<SpeechAudio, SpeechError> {
        let mut audio = ask(engine, utterance).await;
        if let (Some(_), Err(error @ SpeechError::VoiceMissing { .. })) = (&utterance.voice.name, &audio) {
            let problem = format!("{error}; until then the language's own voice is heard");
            self.state.send_if_modified(|state| state.voices.insert(utterance.language, problem).is_none());
            audio = ask(engine, &in_own_voice(utterance.clone())).await;
        }
        let problem = match &audio {
            Ok(_) => engine.impaired(utterance.language),
            Err(error) if error.is_the_engines() => Some(error.to_string()),
            // A text that can't be spoken says nothing about the engine.
            Err(_) => return audio,
        };
        self.state.send_if_modified(|state| {
            let changed = state.engine.get(&utterance.language) != problem.as_ref();
            match problem {
                Some(problem) => drop(state.engine.insert(utterance.language, problem)),
                None => drop(state.engine.remove(&utterance.language)),
            }
            changed
        });
        audio
    }

    /// What the engine is asked for these words.
    fn utterance(&self, text: &str, language: Language) -> Utterance {
        let voice = self.voices.get(&language).cloned().unwrap_or_default();
        let utterance = Utterance { text: text.into(), language, voice };
        let missing = self.state.borrow().voices.contains_key(&language);
        if missing { in_own_voice(utterance) } else { utterance }
    }
}

/// How an engine is asked.
type Ask = for<'a> fn(&'a dyn Synthesiser, &'a Utterance) -> Synthesis<'a>;

/// In the voice that the engine has for the language by itself.
fn in_own_voice(mut utterance: Utterance) -> Utterance {
    utterance.voice.name = None;
    utterance
}

/// The voice of one call. Not `Clone`, and the only one that holds the call's mouth.
pub struct Voice {
    mouth: CallCommands,
    codec: Codec,
    speaker: Arc<Speaker>,
    /// What speaks the playback that was asked for last.
    engine: Option<(PlaybackId, Arc<dyn Synthesiser>)>,
    order: recado_voice::Voice<Coded, Remote>,
    rendering: JoinSet<(SegmentRef, Result<Rendered<Coded>, String>)>,
    /// Who renders what.
    renders: Vec<(SegmentRef, Render)>,
    /// Speech of the model.
    held: Held,
}

/// A rendering under way; nobody needs it any more when this is dropped.
struct Render(AbortHandle);

impl Drop for Render {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Voice {
    /// The voice of a call that speaks `codec`, and what the call's media tells.
    pub fn new(media: CallMedia, codec: Codec, speaker: Arc<Speaker>) -> (Self, CallEvents) {
        let CallMedia { commands: mouth, events, .. } = media;
        let voice = Self {
            mouth,
            codec,
            speaker,
            engine: None,
            order: recado_voice::Voice::default(),
            rendering: JoinSet::new(),
            renders: Vec::new(),
            held: Held::default(),
        };
        (voice, events)
    }

    /// What the telephone takes now.
    pub fn codec(&self) -> Codec {
        self.codec
    }

    /// Says a segment after those already asked for, unless the acoustic clock has left `epoch` when it could begin.
    pub fn speak(&mut self, segment: SegmentRef, content: &Content, epoch: AcousticEpoch) {
        if !self.order.speak(segment, epoch) {
            return;
        }
        let codec = self.codec;
        if !matches!(content, Content::Speech { .. }) {
            self.held.interrupted();
        }
        match content {
            Content::Prompt { name, .. } => {
                let both = self.speaker.prompts.get(name);
                let rendered = match both.and_then(|both| both.iter().find(|rendered| rendered.audio.codec == codec)) {
                    Some(rendered) => Ok(rendered.clone()),
                    None => Err(format!("there is no prompt `{name}`: name it under [prompts] in the dialogue")),
                };
                self.rendered(segment, rendered);
            }
            Content::Speech { piece, .. } => {
                let rendered = self.held.give(*piece).ok_or_else(|| format!("piece {piece} of the model's speech is not held any more"));
                self.rendered(segment, rendered);
            }
            Content::Text { text, language } => {
                let utterance = self.speaker.utterance(text, *language);
                let speaker = Arc::clone(&self.speaker);
                let engine = self.engine_of(segment.playback);
                let render = self.rendering.spawn(async move {
                    let audio = speaker.synthesise(&*engine, &utterance).await;
                    (segment, audio.map(|audio| render(&audio, codec)).map_err(|error| error.to_string()))
                });
                self.renders.push((segment, Render(render)));
            }
        }
    }

    /// What speaks `playback`: the same for all of it.
    fn engine_of(&mut self, playback: PlaybackId) -> Arc<dyn Synthesiser> {
        let known = self.engine.as_ref().filter(|(known, _)| *known == playback);
        let engine = known.map_or_else(|| self.speaker.engine_for_a_playback(), |(_, engine)| Arc::clone(engine));
        self.engine = Some((playback, Arc::clone(&engine)));
        engine
    }

    /// Holds a piece of speech that the model made for `response`, and says by which number it is asked for. What was held of a response before
    /// and never asked for stays for a while: what cut it may turn out to be noise, and then its rest is said after all. A piece beyond
    /// those that a conversation lets wait is not held.
    pub fn hold(&mut self, response: ResponseId, piece: &Piece) -> u64 {
        self.held.hold(response, of_model(piece))
    }

    /// Goes on with a paused playback, unless the acoustic clock has left `epoch`.
    pub fn resume(&mut self, playback: PlaybackId, epoch: AcousticEpoch) {
        self.order.resume(playback, epoch);
        self.pass_on();
    }

    /// Stops: what of this playback has not left the box is discarded.
    pub fn clear(&mut self, playback: PlaybackId) {
        self.held.interrupted();
        self.order.clear(playback);
        self.pass_on();
    }

    /// Changes where and how the media goes, as a re-INVITE agreed.
    pub fn renegotiated(&mut self, remote: Remote) {
        self.codec = remote.codec;
        self.order.renegotiated(remote);
        self.pass_on();
    }

    /// The call is over: nothing more is sent.
    pub fn close(&mut self) {
        self.order.close();
        self.pass_on();
    }

    /// The next thing to be told of audio that was asked for. Cancel-safe.
    pub async fn told(&mut self) -> PlaybackEvent {
        loop {
            if let Some(event) = self.order.told() {
                return event;
            }
            if self.order.holds_back() {
                tokio::time::sleep(MOUTH_FULL_WAIT).await;
                self.pass_on();
                continue;
            }
            match self.rendering.join_next().await {
                Some(Ok((segment, rendered))) => self.rendered(segment, rendered),
                Some(Err(broken)) => self.broken_off(&broken),
                None => std::future::pending().await,
            }
        }
    }

    /// A rendering ended without an answer: what waits behind it must not wait for ever. One that was aborted is no longer waited for.
    fn broken_off(&mut self, broken: &tokio::task::JoinError) {
        let its = self.renders.iter().find(|(_, render)| render.0.id() == broken.id());
        if let Some(segment) = its.map(|(segment, _)| *segment) {
            self.rendered(segment, Err(broken.to_string()));
        }
    }

    fn rendered(&mut self, segment: SegmentRef, rendered: Result<Rendered<Coded>, String>) {
        if let (true, Err(reason)) = (self.order.awaits(segment), &rendered) {
            tracing::warn!(playback_id = %segment.playback, index = segment.index, reason, "no audio for a segment");
        }
        self.order.rendered(segment, rendered);
        self.pass_on();
    }

    /// Gives the mouth what it has room for, and ends the renderings that nobody waits for.
    fn pass_on(&mut self) {
        self.renders.retain(|(segment, _)| self.order.awaits(*segment));
        while let Some(command) = self.order.command() {
            if let Err(command) = self.mouth.send(command) {
                return self.order.hold_back(command);
            }
        }
    }
}

/// Pieces of a model's speech, until they can't be asked for any more.
#[derive(Debug, Default)]
struct Held {
    pieces: VecDeque<HeldPiece>,
    last: u64,
    /// The piece that was asked for last, where nothing else was since, and whether it goes on from the one before it.
    asked_for: Option<(u64, bool)>,
}

#[derive(Debug)]
struct HeldPiece {
    number: u64,
    response: ResponseId,
    rendered: Rendered<Coded>,
    /// Whether it was asked for. It may be asked for again, where it was cut and the rest is said after all.
    given: bool,
}

impl Held {
    fn hold(&mut self, response: ResponseId, rendered: Rendered<Coded>) -> u64 {
        let mut may_be_asked_for = vec![response];
        for piece in self.pieces.iter().rev() {
            if may_be_asked_for.len() < HELD_RESPONSES_MAX && !may_be_asked_for.contains(&piece.response) {
                may_be_asked_for.push(piece.response);
            }
        }
        self.pieces.retain(|piece| piece.given || may_be_asked_for.contains(&piece.response));
        if self.pieces.len() >= HELD_PIECES_MAX {
            // The response that comes is likelier to be said than what was cut.
            if let Some(at) = self.pieces.iter().position(|piece| !piece.given && piece.response != response) {
                self.pieces.remove(at);
            }
        }
        self.last += 1;
        // What came first is said first.
        if self.pieces.len() < HELD_PIECES_MAX {
            self.pieces.push_back(HeldPiece { number: self.last, response, rendered, given: false });
        }
        self.last
    }

    /// A piece that is asked for. It goes on from the one before it only where nothing is said between the two.
    fn give(&mut self, number: u64) -> Option<Rendered<Coded>> {
        let piece = self.pieces.iter_mut().find(|piece| piece.number == number)?;
        piece.given = true;
        let mut rendered = piece.rendered.clone();
        let follows = match self.asked_for {
            Some((before, _)) if before + 1 == number => true,
            // One that was refused is asked for again.
            Some((same, follows)) if same == number => follows,
            _ => false,
        };
        self.asked_for = Some((number, follows));
        rendered.audio.continues &= follows;
        let given = self.pieces.iter().filter(|piece| piece.given).count();
        for _ in GIVEN_PIECES_MAX..given {
            if let Some(oldest) = self.pieces.iter().position(|piece| piece.given) {
                self.pieces.remove(oldest);
            }
        }
        Some(rendered)
    }

    /// Something else is said now, or what was said is stopped.
    fn interrupted(&mut self) {
        self.asked_for = None;
    }
}

/// A piece of a model's speech, with what is known of it. It has no map of its words: it is short.
fn of_model(piece: &Piece) -> Rendered<Coded> {
    let Piece { audio, near_silent, .. } = piece;
    let duration_ms = (audio.octets.len() / SAMPLES_PER_MS) as u64;
    Rendered { audio: audio.clone(), duration_ms, words: Vec::new(), near_silent: *near_silent }
}

/// Audio as the telephone takes it, with what is known of it.
fn render(audio: &SpeechAudio, codec: Codec) -> Rendered<Coded> {
    let mut octets = vec![0; audio.samples_8khz.len()];
    codec.encode(&audio.samples_8khz, &mut octets);
    let words = audio
        .text_to_time
        .iter()
        .map(|mark| Word { end_byte: clamp(mark.byte_range.end), end_ms: clamp(mark.end_sample / SAMPLES_PER_MS) })
        .collect();
    let near_silent = near_silent(&audio.samples_8khz);
    Rendered { audio: Coded { codec, octets: octets.into(), continues: false }, duration_ms: audio.duration_ms(), words, near_silent }
}

/// Whether most of the audio is below -60 dBFS: it convinces nobody that something was said.
fn near_silent(samples: &[i16]) -> bool {
    let frames = samples.chunks(SAMPLES_PER_MS * 20);
    let all = frames.len();
    frames.filter(|frame| is_near_silent(frame)).count() * 2 > all
}

fn clamp(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

const SAMPLES_PER_MS: usize = 8;

/// Pieces that may be asked for again: more than are given ahead of what sounds.
const GIVEN_PIECES_MAX: usize = 32;

/// Pieces that are held at all: more than a conversation lets a response wait with (640), and those that may be asked for again. 2 MB.
const HELD_PIECES_MAX: usize = 704;

/// Responses whose pieces may be asked for: the one that comes, and those that turns cut which may all have been noise. As many as a conversation
/// knows what was heard of.
const HELD_RESPONSES_MAX: usize = 4;

/// A mouth that is full takes the next command a few frames later.
const MOUTH_FULL_WAIT: std::time::Duration = std::time::Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// An engine that has no voices but the languages' own, or none at all; it notes which it was asked for.
    struct Engine {
        asked: Mutex<Vec<Option<String>>>,
        speaks: bool,
    }

    impl Synthesiser for Engine {
        fn synthesise<'a>(&'a self, utterance: &'a Utterance) -> Synthesis<'a> {
            let name = utterance.voice.name.as_deref().map(str::to_owned);
            self.asked.lock().unwrap().push(name.clone());
            let missing = |voice: String| SpeechError::VoiceMissing { program: "engine".into(), voice };
            let audio = match name {
                Some(voice) => Err(missing(voice)),
                None if self.speaks => SpeechAudio::from_engine(utterance.text.clone(), [3_000, -3_000].repeat(800)),
                None => Err(missing("es".to_owned())),
            };
            Box::pin(async { audio })
        }
    }

    fn speaker(speaks: bool) -> (Arc<Engine>, Speaker) {
        let engine = Arc::new(Engine { asked: Mutex::default(), speaks });
        let klingon = super::super::speech::Voice { name: Some("klingon".into()), ..Default::default() };
        (Arc::clone(&engine), Speaker::new(engine, [(Language::Es, klingon)].into(), BTreeMap::new()))
    }

    #[tokio::test]
    async fn where_the_engine_has_not_the_voice_the_languages_own_is_heard_and_it_is_said_until_the_box_starts_again() {
        let (engine, speaker) = speaker(true);
        let mut state = speaker.state();
        speaker.warm_up("hola", Language::Es).await.unwrap();
        assert!(state.has_changed().unwrap());
        let said = state.borrow_and_update().clone();
        assert_eq!((said.engine.len(), said.voices.keys().collect::<Vec<_>>()), (0, vec![&Language::Es]));
        assert!(
            said.voices[&Language::Es].contains("engine has no voice \"klingon\"") && said.voices[&Language::Es].contains("speech.voices")
        );
        speaker.warm_up("adiós", Language::Es).await.unwrap();
        speaker.warm_up("hello", Language::En).await.unwrap();
        assert_eq!(
            *engine.asked.lock().unwrap(),
            [Some("klingon".to_owned()), None, None, None],
            "it is not asked again for what it has not"
        );
        assert!(!state.has_changed().unwrap() && speaker.state().borrow().voices.len() == 1);
    }

    #[tokio::test]
    async fn an_engine_without_the_languages_own_voice_does_not_work() {
        let (engine, speaker) = speaker(false);
        let failed = speaker.warm_up("hola", Language::Es).await.unwrap_err();
        assert!(matches!(&failed, SpeechError::VoiceMissing { voice, .. } if voice == "es"), "{failed}");
        assert_eq!(engine.asked.lock().unwrap().len(), 2);
        assert!(speaker.state().borrow().engine[&Language::Es].contains("no voice \"es\""));
    }

    #[test]
    fn a_models_speech_is_held_until_it_can_not_be_asked_for_any_more() {
        let coded = |octet: u8| Coded { codec: Codec::Pcma, octets: [octet; 800].into(), continues: false };
        let audio = |octet: u8| of_model(&Piece { audio: coded(octet), text: String::new(), near_silent: false });
        let mut held = Held::default();
        let numbers: Vec<u64> = (0..200).map(|octet| held.hold(ResponseId(1), audio(octet))).collect();
        for (number, octet) in numbers.iter().zip(0..200) {
            let given = held.give(*number).expect("none is let go before it was asked for");
            assert_eq!((given.audio.octets[0], given.duration_ms), (octet, 100));
        }
        let still: Vec<u64> = numbers.iter().copied().filter(|number| held.give(*number).is_some()).collect();
        assert_eq!(still, numbers[200 - GIVEN_PIECES_MAX..], "the last may be asked for again");

        let given_up: Vec<u64> = (0..10).map(|octet| held.hold(ResponseId(2), audio(octet))).collect();
        assert!(held.give(given_up[0]).is_some());
        let next = held.hold(ResponseId(6), audio(7));
        for response in 7..10 {
            held.hold(ResponseId(response), audio(7));
        }
        assert_eq!(given_up.iter().filter(|number| held.give(**number).is_some()).count(), 1);
        assert!(held.give(next).is_some() && held.pieces.len() <= GIVEN_PIECES_MAX + 3);

        let at_once: Vec<u64> = (0..2_000).map(|_| held.hold(ResponseId(10), audio(7))).collect();
        assert_eq!(held.pieces.len(), HELD_PIECES_MAX, "a model that never ends fills no memory");
        assert!(at_once[..650].iter().all(|number| held.give(*number).is_some()), "and what came first is there");
    }

    #[test]
    fn the_rest_of_a_response_that_noise_had_cut_is_still_there_when_something_was_said_meanwhile() {
        let coded = |octet: u8| Coded { codec: Codec::Pcma, octets: [octet; 800].into(), continues: false };
        let audio = |octet: u8| of_model(&Piece { audio: coded(octet), text: String::new(), near_silent: false });
        let mut held = Held::default();
        // A response of which a part was asked for when the caller seemed to speak; what the model said to that; and so once more.
        let cut: Vec<u64> = (0..40).map(|octet| held.hold(ResponseId(1), audio(octet))).collect();
        assert!(cut[..16].iter().all(|number| held.give(*number).is_some()));
        for response in [2, 3] {
            let pardon = held.hold(ResponseId(response), audio(200));
            assert!(held.give(pardon).is_some());
        }
        // It was noise: the rest follows.
        let rest: Vec<u8> = cut[16..].iter().filter_map(|number| Some(held.give(*number)?.audio.octets[0])).collect();
        assert_eq!(rest, (16..40).collect::<Vec<u8>>());
    }

    #[test]
    fn a_piece_goes_on_from_the_one_before_it_only_where_nothing_comes_between_them() {
        let coded = Coded { codec: Codec::Pcma, octets: [7; 800].into(), continues: true };
        let mut held = Held::default();
        let numbers: Vec<u64> = (0..6)
            .map(|_| held.hold(ResponseId(1), of_model(&Piece { audio: coded.clone(), text: String::new(), near_silent: false })))
            .collect();
        let mut goes_on = |n: usize, between: bool| {
            if between {
                held.interrupted();
            }
            held.give(numbers[n]).unwrap().audio.continues
        };
        assert!(!goes_on(0, false), "nothing was said before");
        assert!(goes_on(1, false));
        assert!(goes_on(1, false), "it was refused");
        assert!(!goes_on(2, true));
        assert!(goes_on(3, false));
        assert!(!goes_on(5, false), "one is missing");
    }

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
