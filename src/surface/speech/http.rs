//! A speech service in a network as a speech engine: OpenAI's `POST /audio/speech`, as many servers speak it.
//!
//! Each clause is a request. Its audio is read as it comes, within bounds of time and size, and given on as a whole: whoever says it must know its length
//! and its words beforehand. Nothing is tried twice here: what a service does not speak in time, another engine does.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use recado_core::policy::Language;
use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::error::SpeechError;
use super::port::{SpeechAudio, Synthesis, Synthesiser, Utterance};
use super::process::SECONDS_MAX;
use super::text::{has_words, sayable};
use super::wav;
use crate::config::{CloudSpeech, ResponseFormat, Secret, Voices};
use crate::outward::{Connections, HttpService, ServiceSetupError, quoted, retry_after_ms, status_words};

/// The service of `[cloud.speech]`.
#[derive(Debug)]
pub struct SpeechService {
    service: HttpService,
    model: String,
    voices: Voices,
    format: ResponseFormat,
    speed: Option<f64>,
    instructions: Option<String>,
    first_audio_timeout: Duration,
    timeout: Duration,
    asking: Semaphore,
}

/// What the service is asked: OpenAI's `SpeechCreateParams`.
#[derive(Debug, Serialize)]
struct Request<'a> {
    model: &'a str,
    input: &'a str,
    voice: &'a str,
    response_format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    speed: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<&'a str>,
}

impl SpeechService {
    /// The service that is configured. Reads its key, and the authorities that are trusted; nothing is connected to.
    ///
    /// # Errors
    /// What of the configuration can't be used.
    pub fn new(service: &CloudSpeech) -> Result<Self, ServiceSetupError> {
        // A connection that stands saves the next clause two or three ways to the service and back. That the first audio comes in time is waited
        // for, the connection included.
        let connections = Connections { connect_timeout: None, idle_kept: IDLE_CONNECTION_KEPT, idle_max: Some(REQUESTS_MAX) };
        Ok(Self {
            service: HttpService::new(service.endpoint(), service.address(), connections)?,
            model: service.model.clone(),
            voices: service.voices.clone(),
            format: service.response_format,
            speed: service.speed,
            instructions: service.instructions.clone(),
            first_audio_timeout: Duration::from_millis(service.first_audio_timeout_ms),
            timeout: Duration::from_millis(service.timeout_ms),
            asking: Semaphore::new(REQUESTS_MAX),
        })
    }

    async fn speak(&self, utterance: &Utterance) -> Result<SpeechAudio, SpeechError> {
        let text = sayable(utterance)?;
        // What of signs alone is made is the service's guess.
        if !has_words(&text) {
            return Err(SpeechError::NothingToSay);
        }
        let body = self.request(&text, utterance.language)?;
        let began = Instant::now();
        let deadline = began + self.timeout;
        // A reply asks for all its clauses at once: what waits for a place here is not asked for yet, and no fault of the service.
        let place = timeout_at(deadline.min(began + self.first_audio_timeout), self.asking.acquire());
        // The semaphore is never closed; were it, asking unbounded would still be right for this utterance.
        let _place = place.await.map_err(|_| SpeechError::Busy)?.ok();
        let first = deadline.min(Instant::now() + self.first_audio_timeout);
        let asked = self.service.post().header(CONTENT_TYPE, JSON).body(body).send();
        let response = match timeout_at(first, asked).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(self.unreachable(&error)),
            Err(_) => return Err(SpeechError::TimedOut(self.first_audio_timeout)),
        };
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        let rate_hz = rate_of_samples(response.headers(), self.service.key())?;
        let audio = self.read(response, first, deadline).await?;
        let samples = match (self.format, audio.starts_with(RIFF)) {
            (ResponseFormat::Pcm, false) if is_compressed(&audio) => {
                return Err(SpeechError::ServiceAudio("it is compressed, whatever it was asked for".to_owned()));
            }
            (ResponseFormat::Pcm, false) => wav::read_raw(&audio[..], rate_hz),
            // A server that knows no format but this sends it whatever it is asked for.
            (ResponseFormat::Pcm, true) | (ResponseFormat::Wav, _) => wav::read(&audio[..]),
        };
        let samples = samples.map_err(|fault| SpeechError::ServiceAudio(fault.to_string()))?;
        SpeechAudio::of_words(Arc::clone(&utterance.text), samples)
    }

    /// What is asked for `text`.
    fn request(&self, text: &str, language: Language) -> Result<Vec<u8>, SpeechError> {
        let missing = SpeechError::NoVoiceFor { engine: "http", language, setting: "cloud.speech.voices" };
        let request = Request {
            model: &self.model,
            input: text,
            voice: self.voices.of(language).ok_or(missing)?,
            response_format: match self.format {
                ResponseFormat::Pcm => "pcm",
                ResponseFormat::Wav => "wav",
            },
            speed: self.speed,
            instructions: self.instructions.as_deref(),
        };
        serde_json::to_vec(&request).map_err(|error| SpeechError::ServiceAudio(error.to_string()))
    }

    /// Reads the audio, the first of it until `first`; no pause may be longer than that, and all of it must be there at `deadline`.
    async fn read(&self, mut response: Response, first: Instant, deadline: Instant) -> Result<Vec<u8>, SpeechError> {
        let too_long = SpeechError::AudioTooLong { seconds_max: SECONDS_MAX };
        if response.content_length().is_some_and(|bytes| bytes > AUDIO_BYTES_MAX as u64) {
            return Err(too_long);
        }
        let (mut audio, mut until) = (Vec::new(), first);
        loop {
            let chunk: Option<Bytes> = match timeout_at(until, response.chunk()).await {
                Ok(Ok(chunk)) => chunk,
                Ok(Err(error)) => return Err(self.unreachable(&error)),
                Err(_) if until == deadline => return Err(SpeechError::TimedOut(self.timeout)),
                Err(_) => return Err(SpeechError::TimedOut(self.first_audio_timeout)),
            };
            let Some(chunk) = chunk else { break };
            if audio.len() + chunk.len() > AUDIO_BYTES_MAX {
                return Err(too_long);
            }
            audio.extend_from_slice(&chunk);
            until = deadline.min(Instant::now() + self.first_audio_timeout);
        }
        if audio.is_empty() { Err(SpeechError::ServiceAudio("it is empty".to_owned())) } else { Ok(audio) }
    }

    async fn refused(&self, mut response: Response) -> SpeechError {
        let status = status_words(response.status());
        let retry_after = retry_after_ms(response.headers(), SystemTime::now()).map(Duration::from_millis);
        let mut body = Vec::new();
        let until = Instant::now() + REASON_WITHIN;
        while let Ok(Ok(Some(chunk))) = timeout_at(until, response.chunk()).await {
            body.extend_from_slice(&chunk);
            if body.len() > REASON_BYTES_MAX {
                break;
            }
        }
        let detail = self.service.reason_given(&body).map(|reason| format!(": {reason}")).unwrap_or_default();
        SpeechError::ServiceRefused { status, detail, retry_after }
    }

    fn unreachable(&self, error: &reqwest::Error) -> SpeechError {
        SpeechError::ServiceUnreachable(self.service.transport_fault(error, "the speech service"))
    }
}

impl Synthesiser for SpeechService {
    fn synthesise<'a>(&'a self, utterance: &'a Utterance) -> Synthesis<'a> {
        Box::pin(self.speak(utterance))
    }
}

/// The rate of samples without a header, as far as the answer says one; an error where it says that it holds something else.
fn rate_of_samples(headers: &HeaderMap, key: Option<&Secret>) -> Result<u32, SpeechError> {
    let Some(said) = headers.get(CONTENT_TYPE) else { return Ok(RATE_HZ) };
    let said = said.to_str().unwrap_or_default().to_lowercase();
    let mut parts = said.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    let samples = essence.strip_prefix("audio/").is_some_and(|kind| !COMPRESSED.contains(&kind));
    if !samples && essence != "application/octet-stream" && essence != "binary/octet-stream" {
        return Err(SpeechError::ServiceAudio(format!("it is {}", quoted(essence, key))));
    }
    let rate = parts.find_map(|part| part.strip_prefix("rate=")?.parse().ok());
    Ok(rate.unwrap_or(RATE_HZ))
}

/// Whether audio that goes by the name of samples begins as a file of compressed audio does: as samples it would be noise.
fn is_compressed(audio: &[u8]) -> bool {
    let is_mp3 = matches!(audio, [0xFF, 0xE2 | 0xE3 | 0xF2 | 0xF3 | 0xFA | 0xFB, rates, ..] if !matches!(rates >> 4, 0 | 15));
    is_mp3 || [&b"ID3"[..], b"OggS", b"fLaC"].iter().any(|begins| audio.starts_with(begins))
}

const JSON: &str = "application/json";
/// How a WAV file begins.
const RIFF: &[u8] = b"RIFF";
/// The rate of OpenAI's samples without a header.
const RATE_HZ: u32 = 24_000;
/// What is never samples.
const COMPRESSED: [&str; 10] = ["mpeg", "mp3", "mp4", "aac", "ogg", "opus", "flac", "x-flac", "webm", "mpeg3"];
/// As many clauses as a reply has, over all calls; services count what is asked at a time.
const REQUESTS_MAX: usize = 4;
/// As much as a playback holds, at 48 kHz and 16 bits.
const AUDIO_BYTES_MAX: usize = SECONDS_MAX as usize * 48_000 * 2;
/// A refusal that takes longer is none that is waited for.
const REASON_WITHIN: Duration = Duration::from_millis(300);
/// A reason is a sentence.
const REASON_BYTES_MAX: usize = 8 * 1_024;
/// Services keep an idle connection for a minute and more; one that they have closed is noticed, and another one made.
const IDLE_CONNECTION_KEPT: Duration = Duration::from_secs(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_to_be_something_else_is_no_audio_and_a_rate_that_is_said_counts() {
        let said = |text: &'static str| {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, reqwest::header::HeaderValue::from_static(text))]);
            rate_of_samples(&headers, None).ok()
        };
        assert_eq!(rate_of_samples(&HeaderMap::new(), None).ok(), Some(24_000));
        for (text, rate) in [
            ("audio/pcm", Some(24_000)),
            ("audio/pcm; rate=16000", Some(16_000)),
            ("Audio/WAV", Some(24_000)),
            ("application/octet-stream", Some(24_000)),
            ("application/json", None),
            ("text/html; charset=utf-8", None),
            ("audio/mpeg", None),
            ("audio/ogg; codecs=opus", None),
        ] {
            assert_eq!(said(text), rate, "{text}");
        }
    }

    #[tokio::test]
    async fn the_wait_for_a_free_place_is_none_for_the_service_and_is_bounded() {
        let service = toml::from_str("url = 'http://127.0.0.1:1/v1'\nmodel = 'm'\nvoices.es = 'v'\nfirst_audio_timeout_ms = 30").unwrap();
        let engine = SpeechService::new(&service).unwrap();
        let utterance = Utterance::new("hola", Language::Es);
        let all = engine.asking.acquire_many(REQUESTS_MAX as u32).await.unwrap();
        assert!(matches!(engine.synthesise(&utterance).await, Err(SpeechError::Busy)));
        drop(all);
        assert!(matches!(engine.synthesise(&utterance).await, Err(SpeechError::ServiceUnreachable(_) | SpeechError::TimedOut(_))));
    }
}
