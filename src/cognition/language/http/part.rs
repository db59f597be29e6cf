//! The two parts: what writes down, and what answers.

use std::time::Duration;

use recado_core::policy;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use tokio::sync::mpsc;

use super::super::wire::{
    AnswerEvent, ChatReader, Line, ResponsesReader, Transcript, TranscriptReader, Unusable, chat_request, responses_request,
    transcription_form,
};
use super::endpoint::Endpoint;
use super::exchange::{Exchange, Piece};
use super::fault::Fault;
use crate::cognition::models::FunctionTool;
use crate::cognition::models::Role;
use crate::config::{HttpPart, LanguageApi, LanguageModel, LanguageService, TranscriptionService};
use crate::outward::ServiceSetupError;
use crate::text::{Left, Thoughts};

/// What writes down what the caller says.
#[derive(Debug)]
pub struct Transcription {
    endpoint: Endpoint,
    service: TranscriptionService,
    language: policy::Language,
}

/// What answers.
#[derive(Debug)]
pub struct Language {
    endpoint: Endpoint,
    model: LanguageModel,
}

impl Transcription {
    /// The service that is configured, for callers who speak `language` where its settings name no other.
    ///
    /// # Errors
    /// What of its settings can't be used.
    pub fn new(service: &TranscriptionService, language: policy::Language) -> Result<Self, ServiceSetupError> {
        let endpoint = Endpoint::new(&service.part(), "audio/transcriptions")?;
        Ok(Self { endpoint, service: service.clone(), language: service.language.unwrap_or(language) })
    }

    /// Where it is.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Whether it can be asked, within this time: it may have to write down a moment of silence to show it.
    ///
    /// # Errors
    /// Why not.
    pub async fn look(&self, patience: Duration) -> Result<(), Fault> {
        self.endpoint.look_within(patience, async { self.transcript(&[0; SILENCE_SAMPLES]).await.map(drop) }).await
    }

    /// The words of `samples` (16 bits, 8 kHz).
    ///
    /// # Errors
    /// Why there are none.
    pub async fn write_down(&self, samples: &[i16]) -> Result<Transcript, Fault> {
        let came_of_it = self.transcript(samples).await;
        self.endpoint.learnt(&came_of_it);
        came_of_it
    }

    async fn transcript(&self, samples: &[i16]) -> Result<Transcript, Fault> {
        let form = transcription_form(&self.service, self.language, samples);
        let request = self.endpoint.service.post().header(CONTENT_TYPE, form.content_type).body(form.body);
        let mut exchange = Exchange::begin(&self.endpoint, request).await?;
        let mut reader = TranscriptReader::default();
        while let Some(piece) = exchange.next().await? {
            match piece {
                Piece::Whole(body) => return TranscriptReader::whole(&body).map_err(|unusable| self.endpoint.fault(unusable)),
                Piece::Event(data) => reader.read(&data).map_err(|unusable| self.endpoint.fault(unusable))?,
            }
            if let Some(transcript) = reader.done() {
                return Ok(transcript);
            }
        }
        Err(Fault::failing("the service's answer ended before the words were complete"))
    }
}

impl Language {
    /// The service that is configured.
    ///
    /// # Errors
    /// What of its settings can't be used.
    pub fn new(service: &LanguageService) -> Result<Self, ServiceSetupError> {
        Self::of(&service.part(), service.language_model())
    }

    /// This model, of the service that is reached so.
    ///
    /// # Errors
    /// What of the settings can't be used.
    pub fn of(part: &HttpPart<'_>, model: LanguageModel) -> Result<Self, ServiceSetupError> {
        let name = match model.api {
            LanguageApi::ChatCompletions => "chat/completions",
            LanguageApi::Responses => "responses",
        };
        Ok(Self { endpoint: Endpoint::new(part, name)?, model })
    }

    /// Where it is.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Whether it can be asked, within this time: it may have to begin an answer to a greeting to show it.
    ///
    /// # Errors
    /// Why not.
    pub async fn look(&self, patience: Duration) -> Result<(), Fault> {
        let request = async {
            // What comes first is enough, and nobody takes more.
            let (says, mut came) = mpsc::channel(1);
            let greeting = [Line::message(Role::User, "Hello.")];
            tokio::select! {
                biased;
                Some(_) = came.recv() => Ok(()),
                answered = self.events("Answer with one word.", &[], &greeting, &says, std::convert::identity) => answered,
            }
        };
        self.endpoint.look_within(patience, request).await
    }

    /// The answer to `lines`, of a model that is told `instructions` and offered `functions`: each event goes to `says` as it comes, the
    /// answer's end among them, as what `event` makes of it.
    ///
    /// # Errors
    /// Why there is none, or no more of it.
    pub async fn answer<T>(
        &self,
        instructions: &str,
        functions: &[FunctionTool],
        lines: &[Line],
        says: &mpsc::Sender<T>,
        event: impl Fn(AnswerEvent) -> T,
    ) -> Result<(), Fault> {
        let came_of_it = self.events(instructions, functions, lines, says, event).await;
        self.endpoint.learnt(&came_of_it);
        came_of_it
    }

    async fn events<T>(
        &self,
        instructions: &str,
        functions: &[FunctionTool],
        lines: &[Line],
        says: &mpsc::Sender<T>,
        event: impl Fn(AnswerEvent) -> T,
    ) -> Result<(), Fault> {
        let (body, mut reader) = match self.model.api {
            LanguageApi::ChatCompletions => {
                (chat_request(&self.model, instructions, functions, lines), Reader::Chat(ChatReader::default()))
            }
            LanguageApi::Responses => {
                (responses_request(&self.model, instructions, functions, lines), Reader::Responses(ResponsesReader::default()))
            }
        };
        let request = self.endpoint.service.post().header(ACCEPT, "text/event-stream").json(&body);
        let mut exchange = Exchange::begin(&self.endpoint, request).await?;
        let (mut ended, mut thoughts) = (false, Thoughts::default());
        loop {
            let piece = match exchange.next().await {
                Ok(Some(piece)) => piece,
                Ok(None) => break,
                // All that was asked for has come.
                Err(_) if ended => return Ok(()),
                Err(fault) => return Err(fault),
            };
            let (Piece::Event(data) | Piece::Whole(data)) = piece;
            let events = match reader.read(&data) {
                Ok(events) => events,
                Err(_) if ended => return Ok(()),
                Err(unusable) => return Err(self.endpoint.fault(unusable)),
            };
            for came in events {
                ended |= matches!(came, AnswerEvent::Ended { .. });
                for came in without_thoughts(&mut thoughts, came) {
                    // Nobody waits for it where the call is over.
                    let _ = says.send(event(self.endpoint.hiding_key(came))).await;
                }
            }
        }
        // Neither a connection that closes nor a last event says that an answer is complete.
        if ended { Ok(()) } else { Err(Fault::failing("the service's answer broke off before its end")) }
    }
}

/// What of an event is an answer.
fn without_thoughts(thoughts: &mut Thoughts, came: AnswerEvent) -> Vec<AnswerEvent> {
    let (left, last) = match came {
        AnswerEvent::Text(text) => (thoughts.leave_out(&text), None),
        AnswerEvent::Ended { .. } => (Left { text: thoughts.end(), ..Left::default() }, Some(came)),
        AnswerEvent::WasThought | AnswerEvent::Usage(_) => (Left::default(), Some(came)),
    };
    let first = left.all_before_was_thought.then_some(AnswerEvent::WasThought);
    let text = Some(left.text).filter(|text| !text.is_empty()).map(AnswerEvent::Text);
    first.into_iter().chain(text).chain(last).collect()
}

enum Reader {
    Chat(ChatReader),
    Responses(ResponsesReader),
}

impl Reader {
    fn read(&mut self, data: &str) -> Result<Vec<AnswerEvent>, Unusable> {
        match self {
            Self::Chat(reader) => reader.read(data),
            Self::Responses(reader) => reader.read(data),
        }
    }
}

/// A second of nothing, at 8 kHz: some services take no less.
const SILENCE_SAMPLES: usize = 8_000;
