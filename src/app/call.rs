//! One call: the task that owns its conversation, its voice and its model's session.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use recado_core::conversation::{
    Channel, Clocks, Content, Conversation, Effect, Evidence, Identity, Input, Measure, MeasureName, ModelEvent, Pin, Settings,
    VerificationOutcome,
};
use recado_core::ids::{BootId, PartyId, ResponseId, SessionId};
use recado_core::ledger::{News, say_refused};
use recado_core::policy::Language;
use recado_trace::subject::ConversationStart;
use tokio::sync::{mpsc, oneshot};
use tracing::{Instrument, debug, info, info_span, warn};

use super::clock::{Clock, wall};
use super::ledger_task::FromCalls;
use super::model_speech::ModelSpeech;
use super::services::Services;
use super::switchboard::HangUp;
use crate::cognition::models::{AudioFormat, Command, Model, ModelSession, Opening, Output, audible_ms};
use crate::cognition::tools::Schemas;
use crate::coordination::Moment;
use crate::g711::Codec;
use crate::identity::Verifier;
use crate::surface::media::{CallMedia, CallerFrame, Hearing, MediaEvent, Remote};
use crate::surface::speech::pieces::Piece;
use crate::surface::voice::{Speaker, Voice};
use crate::telemetry::Measures;
use crate::text::clauses;
use crate::traces::{Traced, Traces};

/// What every call needs of the house.
pub struct House {
    pub clock: Clock,
    /// This life of the process.
    pub boot: BootId,
    /// Who says whether a PIN is right, where there are any.
    pub verifier: Option<Verifier>,
    pub model: Box<dyn Model>,
    pub speaker: Arc<Speaker>,
    pub schemas: Schemas,
    pub settings: Settings,
    pub language: Language,
    pub call_ms_max: u64,
    pub to_ledger: mpsc::Sender<FromCalls>,
    pub measures: Measures,
    pub traces: Traces,
    pub services: Services,
}

/// A call that is up.
pub struct Call {
    pub session: SessionId,
    pub party: Option<PartyId>,
    /// Whether somebody who is trusted vouches for the party.
    pub verified: bool,
    pub media: CallMedia,
    pub remote: Remote,
    /// What the signalling says of it. Closed when the call is over.
    pub signalling: mpsc::Receiver<Signal>,
    /// Ends the call from our side.
    pub hang_up: HangUp,
}

/// What the signalling tells a call.
#[derive(Debug, Clone, Copy)]
pub enum Signal {
    /// The media was renegotiated: hold, resume, another address.
    Renegotiated(Remote),
    /// Somebody else is on the line than at its beginning.
    AnotherCaller,
    /// A key that came by SIP INFO.
    Digit(char),
    /// The call is over.
    Ended,
}

struct Running<'a> {
    house: &'a House,
    voice: Voice,
    model: Option<ModelSession>,
    speech: ModelSpeech,
    conversation: Traced<Conversation>,
    hang_up: HangUp,
    party: Option<PartyId>,
    /// What a PIN came to: by attempt.
    outcomes: mpsc::Sender<(u32, VerificationOutcome)>,
    on_hold: bool,
    /// The response that was asked for last.
    due: Option<ResponseId>,
    /// Inputs that follow from effects: at most one for each effect that asks a model that is gone.
    again: VecDeque<Input>,
    shown: Option<Clocks>,
    latency: Latency,
    decisions: BTreeMap<recado_core::DeliveryId, recado_core::gate::DeliveryDecision>,
}

/// The stages of a turn's latency budget (ms), each from the end of the one before; the first from the end of the caller's speech.
#[derive(Debug, Clone, Copy, Default)]
struct Latency {
    turn_end_ms: u64,
    first_piece_ms: u64,
    ready_ms: u64,
    first_audio_ms: u64,
}

/// Runs a call to its end: until its evidence is settled and the ledger knows.
pub async fn run(house: Arc<House>, call: Call) {
    let span = info_span!("call", session_id = %call.session);
    run_in_span(&house, call).instrument(span).await;
}

async fn run_in_span(house: &House, call: Call) {
    let Call { session, party, verified, mut media, remote, mut signalling, hang_up } = call;
    let mut hearing = media.hearing.take();
    let (voice, mut events) = Voice::new(media, remote.codec, Arc::clone(&house.speaker));
    let (news, mut told) = mpsc::channel(NEWS_MAX);
    if house.to_ledger.send(FromCalls::Begin(session, news)).await.is_err() {
        return; // The box is stopping.
    }
    let capabilities = house.model.capabilities();
    let model = house.model.open(Opening { session, party: party.clone(), language: house.language });
    let settings = Settings { silence_ms: capabilities.silence_after_ms, ..house.settings.clone() };
    let channel =
        Channel { session, party: party.clone(), language: house.language, best: Evidence::Received, far_buffer_ms: FAR_BUFFER_MS };
    info!(party_id = ?party.as_ref().map(|party| &party.0), "call up");
    let start = ConversationStart { settings, channel };
    let (outcomes, mut verifications) = mpsc::channel(OUTCOMES_MAX);
    let (conversation, effects) = Traced::<Conversation>::begin(&house.traces, &session.to_string(), &mut house.clock.step(), start);
    let mut running = Running {
        house,
        voice,
        model: Some(model),
        speech: ModelSpeech::new(capabilities.output),
        conversation,
        hang_up,
        party,
        outcomes,
        on_hold: !remote.direction.sends(),
        due: None,
        again: VecDeque::new(),
        shown: None,
        latency: Latency::default(),
        decisions: BTreeMap::new(),
    };
    running.carry_out(effects).await;
    if verified {
        running.input(Input::Identified(Identity::Verified)).await;
    }
    // What the party is owed is known before the greeting sounds: it may ride on it. The ledger's task never waits, so this ends.
    let (taken, was_taken) = oneshot::channel();
    if house.to_ledger.send(FromCalls::Taken(taken)).await.is_ok() {
        let _ = was_taken.await;
    }
    if running.on_hold {
        running.input(Input::Hold(true)).await;
    }
    let ends = tokio::time::sleep(Duration::from_millis(house.call_ms_max));
    tokio::pin!(ends);
    let (mut over, mut media_ended) = (false, false);
    while !running.conversation.finished() {
        while let Some(input) = running.again.pop_front() {
            running.input(input).await;
        }
        let deadline = running.conversation.deadline().map(|at| house.clock.instant(at).into());
        let input = tokio::select! {
            biased;
            event = events.recv(), if !media_ended => match event {
                Some(event) => {
                    if let MediaEvent::Acoustic(_) = event {
                        // What was heard before it comes before it.
                        while let Some(frame) = hearing.as_mut().and_then(Hearing::waiting) {
                            running.let_hear(&frame);
                        }
                    }
                    running.heard(event).await
                }
                None => {
                    media_ended = true;
                    if !over {
                        warn!("the call's media has ended: the call is ended");
                        running.hang_up.ask();
                    }
                    Some(Input::ChannelOver)
                }
            },
            signal = signalling.recv(), if !over => match signal {
                Some(Signal::Renegotiated(remote)) => running.renegotiated(remote),
                Some(Signal::AnotherCaller) => Some(Input::Identified(Identity::Unknown)),
                Some(Signal::Digit(digit)) => Some(Input::Digit(digit)),
                Some(Signal::Ended) | None => Some(Input::ChannelOver),
            },
            news = told.recv() => Some(match news {
                Some(news) => Input::News(news),
                // The ledger has given this call up.
                None => { running.hang_up.ask(); Input::ChannelOver }
            }),
            Some((attempt, outcome)) = verifications.recv() => Some(Input::Verified { attempt, outcome }),
            event = running.voice.told() => Some(Input::Playback(event)),
            frame = next_frame(&mut hearing) => {
                match frame {
                    Some(frame) => running.let_hear(&frame),
                    None => hearing = None,
                }
                None
            }
            output = ModelSession::next(&mut running.model) => { running.said(output).await; None }
            () = super::sleep_until(deadline) => Some(Input::Wake),
            () = &mut ends, if !over => {
                info!(call_ms_max = house.call_ms_max, "the call has lasted as long as it may");
                running.hang_up.ask();
                Some(Input::ChannelOver)
            }
        };
        if let Some(input) = input {
            if input == Input::ChannelOver && !over {
                over = true;
                // Dropping the model's session ends it; operations go on.
                running.model = None;
                running.voice.close();
            }
            running.input(input).await;
        }
        if told.is_closed() && told.is_empty() && over {
            break;
        }
    }
    if running.conversation.finished() {
        running.conversation.end();
    }
    info!("call settled");
}

impl Running<'_> {
    async fn input(&mut self, input: Input) {
        let effects = self.conversation.handle(&mut self.house.clock.step(), input);
        self.carry_out(effects).await;
    }

    /// What the media path heard.
    async fn heard(&mut self, event: MediaEvent) -> Option<Input> {
        Some(match event {
            MediaEvent::Acoustic(edge) => {
                if let Some(model) = &self.model {
                    // One that does not listen is found out with the next command that matters.
                    let _ = model.handle.tell(Command::Acoustic(edge));
                }
                Input::Acoustic(edge)
            }
            MediaEvent::Playback(event) => Input::Playback(event),
            MediaEvent::Digit { digit, .. } => {
                debug!("digit");
                Input::Digit(digit)
            }
            MediaEvent::Foreign { source, remote: Remote { rtp, signalled_from, .. } } => {
                warn!(
                    %source, sdp_names = %rtp.ip(), %signalled_from,
                    "RTP comes from an address that is neither the one of the SDP nor that of the signalling: it is not listened to; \
                     if it is the caller's, admit it: [media] also_from = [\"{}\"]", source.ip()
                );
                return None;
            }
            MediaEvent::FarEndSilent { since } => {
                let silent_ms = self.house.clock.now().since(since);
                info!(silent_ms, "nothing has come from the far end: the call is ended");
                self.hang_up.ask();
                self.input(Input::FarEndSilent { since }).await;
                Input::ChannelOver
            }
        })
    }

    fn renegotiated(&mut self, remote: Remote) -> Option<Input> {
        self.voice.renegotiated(remote);
        let on_hold = !remote.direction.sends();
        let changed = std::mem::replace(&mut self.on_hold, on_hold) != on_hold;
        info!(on_hold, rtp = %remote.rtp, "media renegotiated");
        changed.then_some(Input::Hold(on_hold))
    }

    /// What the model said. Its clauses are split, so that the first is heard while the next are rendered; its own speech is cut into pieces.
    async fn said(&mut self, output: Option<Output>) {
        if let Some(Output::Event(_)) = &output
            && let Some((response, piece)) = self.speech.end()
        {
            // It comes before what follows.
            self.say_piece(response, piece).await;
        }
        match output {
            Some(Output::Words { response, text }) => self.speech.words(response, &text, self.voice.codec()),
            Some(Output::Event(ModelEvent::Clause { response, content: Content::Text { text, language } })) => {
                for clause in clauses(&text) {
                    let content = Content::Text { text: clause.to_owned(), language };
                    self.input(Input::Model(ModelEvent::Clause { response, content })).await;
                }
            }
            Some(Output::Event(ModelEvent::ToolCall { response, call })) => match self.house.schemas.check(&call.tool, &call.arguments) {
                Ok(()) => self.input(Input::Model(ModelEvent::ToolCall { response, call })).await,
                Err(refused) => {
                    warn!(response_id = %response, tool = call.tool, reason = refused.reason(), "arguments refused");
                    let (call_id, reason) = (call.call_id, refused.reason().to_owned());
                    let say = say_refused(self.house.language);
                    self.input(Input::News(News::Refused { call_id, response, reason, say })).await;
                }
            },
            Some(Output::Event(event)) => self.input(Input::Model(event)).await,
            Some(Output::Audio { response, bytes }) => {
                for piece in self.speech.audio(response, &bytes, self.voice.codec()) {
                    self.say_piece(response, piece).await;
                }
            }
            Some(Output::TakenOver { response, reason }) => {
                warn!(response_id = %response, reason, "the response is given by the dialogue that stands by");
                self.house.services.taken_over(&reason);
            }
            Some(Output::Answered { .. }) => self.house.services.answers(),
            Some(Output::TakesMessage(takes)) => debug!(takes, "what the caller says is a message"),
            Some(Output::WantsMessage { .. }) => warn!("the model wants a message taken, and nobody takes any"),
            // Whoever knows the service says it.
            Some(Output::Availability(_)) => {}
            None => {
                warn!("the model has ended its session");
                self.model = None;
                self.unanswered();
            }
        }
    }

    async fn say_piece(&mut self, response: ResponseId, piece: Piece) {
        let format = match piece.audio.codec {
            Codec::Pcmu => AudioFormat::Pcmu,
            Codec::Pcma => AudioFormat::Pcma,
        };
        let audible_ms = audible_ms(&piece.audio.octets, format);
        let content = Content::Speech { piece: self.voice.hold(response, &piece), audible_ms, text: piece.text };
        self.input(Input::Model(ModelEvent::Clause { response, content })).await;
    }

    /// Gives the model what the caller says.
    fn let_hear(&self, frame: &CallerFrame) {
        if let Some(audio) = self.model.as_ref().and_then(|model| model.handle.audio.as_ref()) {
            audio.push(frame);
        }
    }

    fn tell_model(&mut self, command: Command) {
        if let Command::Respond { response, .. } = &command {
            self.due = Some(*response);
        }
        let told = self.model.as_ref().map(|model| model.handle.tell(command));
        if let Some(Err(error)) = &told {
            warn!(%error, "the model does not listen");
            self.model = None;
        }
        if self.model.is_none() {
            self.unanswered();
        }
    }

    /// Has it found out whether these keys are the party's PIN. The call goes on meanwhile; its conversation waits no longer than it says.
    fn verify(&mut self, attempt: u32, keys: Pin) {
        let (Some(verifier), Some(party)) = (self.house.verifier.clone(), self.party.clone()) else {
            return self.again.push_back(Input::Verified { attempt, outcome: VerificationOutcome::Unavailable });
        };
        let at = Moment { boot: self.house.boot, now: self.house.clock.now(), wall: wall() };
        let outcomes = self.outcomes.clone();
        let found_out = async move {
            let outcome = verifier.verify(party, keys, at).await;
            // A call that is over needs it no more.
            let _ = outcomes.send((attempt, outcome)).await;
        };
        tokio::spawn(found_out.in_current_span());
    }

    /// Nobody is there to give the response that is due: the conversation need not wait for it.
    fn unanswered(&mut self) {
        if let Some(response) = self.due.take() {
            let failed = ModelEvent::Failed { response, reason: "the model has ended its session".to_owned() };
            self.again.push_back(Input::Model(failed));
        }
    }

    async fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Speak { segment, content, purpose, epoch } => {
                    let (playback_id, index) = (segment.playback, segment.index);
                    info!(%playback_id, index, ?purpose, "speak");
                    debug!(target: WORDS, %playback_id, index, text = content.text(), "speak");
                    self.voice.speak(segment, &content, epoch);
                }
                Effect::Resume { playback, epoch } => self.voice.resume(playback, epoch),
                Effect::Clear { playback } => {
                    info!(playback_id = %playback, "clear");
                    self.voice.clear(playback);
                }
                Effect::Ledger(input) => {
                    // The ledger's task never waits for a call, so this ends; the channel closes when the box stops.
                    if self.house.to_ledger.send(FromCalls::Input(*input)).await.is_err() {
                        debug!("the ledger has stopped");
                    }
                }
                Effect::Verify { attempt, digits } => self.verify(attempt, digits),
                Effect::HangUp => {
                    info!("the agent hangs up");
                    self.hang_up.ask();
                }
                Effect::Decided(decision) => {
                    let known = self.decisions.insert(decision.delivery, decision.answer);
                    if known != Some(decision.answer) {
                        info!(target: "recado::gate", delivery_id = %decision.delivery, answer = ?decision.answer, blocker = ?decision.blocker, "gate");
                    }
                }
                Effect::Measured(measure) => {
                    self.house.measures.record(measure);
                    self.show_latency(measure);
                }
                Effect::Heard(heard) => {
                    let (playback_id, index) = (heard.segment.playback, heard.segment.index);
                    info!(%playback_id, index, heard_ms = heard.heard_ms, standing = ?heard.standing, "heard");
                    debug!(target: WORDS, %playback_id, index, text = heard.text, "heard");
                    self.tell_model(Command::Heard(heard));
                }
                Effect::Doubted { segment, doubt } => {
                    info!(playback_id = %segment.playback, index = segment.index, ?doubt, "evidence doubted");
                    self.house.measures.record(doubt);
                }
                other => match Command::try_from(other) {
                    Ok(command) => self.tell_model(command),
                    Err(effect) => debug!(?effect, "an effect for nobody"),
                },
            }
        }
        self.show_clocks();
    }

    /// The latency budget of a turn in the log, a line for each: its stages are measured together, the whole of them last.
    fn show_latency(&mut self, Measure { name, value }: Measure) {
        let stages = &mut self.latency;
        match name {
            MeasureName::SpeechStopToTurnEndMs => stages.turn_end_ms = value,
            MeasureName::TurnEndToFirstPieceMs => stages.first_piece_ms = value,
            MeasureName::FirstPieceToReadyMs => stages.ready_ms = value,
            MeasureName::ReadyToFirstAudioMs => stages.first_audio_ms = value,
            MeasureName::SpeechStopToFirstAudioMs => {
                let Latency { turn_end_ms, first_piece_ms, ready_ms, first_audio_ms } = *stages;
                info!(turn_id = %self.conversation.turn(), turn_end_ms, first_piece_ms, ready_ms, first_audio_ms, in_all_ms = value, "turn answered");
            }
            _ => {}
        }
    }

    /// The clocks in the log, whenever one has moved: what the timeline of a call is drawn from.
    fn show_clocks(&mut self) {
        let clocks = self.conversation.clocks();
        if self.shown.replace(clocks) != Some(clocks) {
            let Clocks { acoustic, generation, playback } = clocks;
            debug!(target: "recado::clocks", ?acoustic, ?generation, ?playback, "clocks");
        }
    }
}

async fn next_frame(hearing: &mut Option<Hearing>) -> Option<CallerFrame> {
    match hearing {
        Some(hearing) => hearing.recv().await,
        None => std::future::pending().await,
    }
}

/// Where the words of a call are logged, at debug: they are its parties' own, and not for every log.
const WORDS: &str = "recado::words";

/// News that may wait for a call: far more than deliveries and operations that one call can have open.
const NEWS_MAX: usize = 1_024;

/// Outcomes of PINs that may wait for a call: as many as it may try.
const OUTCOMES_MAX: usize = 16;

/// What may lie in a telephone's jitter buffer and on the way to it (ms).
const FAR_BUFFER_MS: u64 = 120;
