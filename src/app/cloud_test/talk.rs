//! The talk itself: a sentence, a call of a tool, an answer, a response that is cut, a text that is read aloud.

use std::collections::VecDeque;
use std::time::Duration;

use recado_core::conversation::effect::{Cause, ToolStatus};
use recado_core::conversation::input::{Acoustic, AcousticEdge, AcousticEpoch, ModelEvent, ToolCall};
use recado_core::policy::Language;
use recado_core::{DeliveryId, OperationId, ResponseId, Time, TurnId};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use super::audio::Sentence;
use super::report::{Fault, Step, Talked, Works};
use super::words;
use crate::cognition::models::realtime::session::{RenderId, Said, Session, Setup};
use crate::cognition::models::realtime::{Link, News, Told};
use crate::cognition::models::transport::Endpoint;
use crate::cognition::models::{Command, Output};
use crate::config::{Realtime, TurnDetection};

/// A talk.
pub(super) struct Talk {
    link: Link,
    began: Instant,
    line: Line,
    language: Language,
    connect_timeout: Duration,
    answer_timeout: Duration,
    service_detects: bool,
    talked: Talked,
}

/// The caller's end: a piece every 20 ms, speech where there is some and silence otherwise.
struct Line {
    every: Interval,
    speech: VecDeque<Vec<u8>>,
    silence: Vec<u8>,
    /// When the last piece of speech was sent.
    ended: Option<Instant>,
}

/// What came of one response.
#[derive(Default)]
struct Answer {
    words: String,
    first_sound: Option<Instant>,
    call: Option<(Instant, ToolCall)>,
}

impl Talk {
    pub fn new(endpoint: Endpoint, setup: Setup, service: &Realtime, sentence: Sentence) -> Self {
        let mut every = interval(FRAME);
        every.set_missed_tick_behavior(MissedTickBehavior::Burst);
        Self {
            language: setup.language(),
            began: Instant::now(),
            link: Link::open(endpoint, Session::new(setup)),
            line: Line { every, speech: sentence.frames.into(), silence: sentence.silence, ended: None },
            connect_timeout: Duration::from_millis(service.connect_timeout_ms),
            answer_timeout: Duration::from_millis(service.answer_timeout_ms),
            service_detects: service.turn_detection != TurnDetection::None,
            talked: Talked::default(),
        }
    }

    /// Holds it, as far as it goes.
    pub async fn hold(mut self) -> Talked {
        // What does not work ends it: what follows would only fail for the same reason.
        let _ = self.steps().await;
        let Link { handle, mut news } = self.link;
        drop(handle);
        while let Some(last) = news.recv().await {
            match last {
                News::Ended(totals) => self.talked.totals = totals,
                News::Said(Said::Trouble(fault)) => self.talked.troubles.push(fault),
                _ => {}
            }
        }
        self.talked
    }

    async fn steps(&mut self) -> Option<()> {
        let connected = self.connected().await;
        self.done(Step::Connect, connected)?;
        let ready = self.ready().await;
        self.done(Step::Session, ready)?;
        let first = match self.say().await {
            Ok(()) => self.collect(FIRST, Cause::Turn { turn: TurnId(1) }).await,
            Err(fault) => Err(fault),
        };
        let first = match first {
            Ok(first) => first,
            Err(fault) => return self.done(Step::Hear, Err(fault)),
        };
        let ended = self.line.ended.unwrap_or(self.began);
        let hear = |answer: &Answer| answer.works_since(ended);
        // A model that calls at once says something only when it has the output: the caller waits so long.
        let calls_at_once = first.first_sound.is_none() && first.call.is_some();
        if !calls_at_once {
            self.done(Step::Hear, hear(&first))?;
        }
        let Some((called, call)) = first.call else { return self.done(Step::Call, Err(Fault::NoCall(first.words))) };
        self.done(Step::Call, Ok(Works { ms: ms(ended, called), said: Some(call.arguments.to_string()) }))?;
        let asked = Instant::now();
        let second = match self.answer(call).await {
            Ok(second) => second,
            Err(fault) => return self.done(Step::Answer, Err(fault)),
        };
        if calls_at_once {
            self.done(Step::Hear, hear(&second))?;
        }
        self.done(Step::Answer, second.works_since(asked))?;
        let cancelled = self.cancel().await;
        self.done(Step::Cancel, cancelled)?;
        let read = self.read_aloud().await;
        self.done(Step::ReadAloud, read)
    }

    /// Notes what came of a step; none where it does not work.
    fn done(&mut self, step: Step, result: Result<Works, Fault>) -> Option<()> {
        let works = result.is_ok();
        self.talked.steps.push((step, result));
        works.then_some(())
    }

    async fn connected(&mut self) -> Result<Works, Fault> {
        // The connection has its own time, and says so itself.
        let until = self.began + self.connect_timeout + GRACE;
        loop {
            if let News::Connected = self.next(until).await? {
                return Ok(Works { ms: ms(self.began, Instant::now()), said: None });
            }
        }
    }

    async fn ready(&mut self) -> Result<Works, Fault> {
        let asked = Instant::now();
        // The session has its own time for each of two answers, and says so itself.
        let until = asked + self.answer_timeout * 2 + GRACE;
        loop {
            if let News::Said(Said::Ready) = self.next(until).await? {
                return Ok(Works { ms: ms(asked, Instant::now()), said: None });
            }
        }
    }

    /// Says the sentence at the pace of speech. A service that detects turns then hears that it is over.
    async fn say(&mut self) -> Result<(), Fault> {
        self.acoustic(Acoustic::Suspected)?;
        self.acoustic(Acoustic::Speaking)?;
        self.line.every.reset();
        let until = Instant::now() + FRAME * u32::try_from(self.line.speech.len()).unwrap_or(u32::MAX) + self.answer_timeout;
        while !self.line.speech.is_empty() {
            self.step(until).await?;
        }
        self.acoustic(Acoustic::Trailing)?;
        let over = Instant::now() + if self.service_detects { TRAILING } else { Duration::ZERO };
        while Instant::now() < over {
            self.step(over + GRACE).await?;
        }
        self.acoustic(Acoustic::Quiet)
    }

    /// Gives the call its output and some news, and hears what the model makes of them.
    async fn answer(&mut self, call: ToolCall) -> Result<Answer, Fault> {
        self.tell(Command::ToolOutput { call_id: call.call_id, operation: Some(OperationId(1)), status: ToolStatus::Running })?;
        self.tell(Command::Update { delivery: DeliveryId(1), text: words::news(self.language).to_owned() })?;
        self.collect(SECOND, Cause::Digit { turn: TurnId(2), digit: '1' }).await
    }

    /// Asks for a long response, and cuts it after its first sound.
    async fn cancel(&mut self) -> Result<Works, Fault> {
        self.tell(Command::Respond { response: THIRD, cause: Cause::Digit { turn: TurnId(3), digit: '2' } })?;
        let until = Instant::now() + self.answer_timeout;
        loop {
            match self.next(until).await? {
                News::Said(Said::Output(Output::Audio { response: THIRD, .. })) => break,
                News::Said(Said::Output(Output::Event(event))) if end_of(&event, THIRD)? => return Err(Fault::NoSound),
                _ => {}
            }
        }
        let asked = Instant::now();
        self.tell(Command::CancelResponse { response: THIRD })?;
        self.tell(Command::Truncate { response: THIRD, heard_ms: HEARD_MS, heard_text: String::new() })?;
        let until = asked + self.answer_timeout;
        loop {
            match self.next(until).await? {
                News::Said(Said::Cancelled { response: THIRD, confirmed: true }) => {
                    return Ok(Works { ms: ms(asked, Instant::now()), said: None });
                }
                News::Said(Said::Cancelled { response: THIRD, confirmed: false }) => return Err(Fault::NotConfirmed),
                News::Said(Said::Output(Output::Event(event))) if end_of(&event, THIRD)? => return Err(Fault::EndedBefore),
                _ => {}
            }
        }
    }

    async fn read_aloud(&mut self) -> Result<Works, Fault> {
        let asked = Instant::now();
        self.give(Told::Render { render: RenderId(1), text: words::read_aloud(self.language).to_owned() })?;
        let mut first_sound = None;
        // The session has its own time for it, and says so itself.
        let until = asked + self.answer_timeout * 2 + GRACE;
        loop {
            match self.next(until).await? {
                News::Said(Said::Rendered { .. }) => first_sound = first_sound.or(Some(Instant::now())),
                News::Said(Said::RenderEnded { result: Err(reason), .. }) => return Err(Fault::Failed(reason)),
                News::Said(Said::RenderEnded { result: Ok(()), .. }) => {
                    return first_sound.map(|at| Works { ms: ms(asked, at), said: None }).ok_or(Fault::NoSound);
                }
                _ => {}
            }
        }
    }

    /// Asks for a response, and takes everything of it until its end.
    async fn collect(&mut self, wanted: ResponseId, cause: Cause) -> Result<Answer, Fault> {
        self.tell(Command::Respond { response: wanted, cause })?;
        let mut answer = Answer::default();
        let mut until = Instant::now() + self.answer_timeout;
        loop {
            let News::Said(Said::Output(output)) = self.next(until).await? else { continue };
            match output {
                Output::Audio { response, .. } if response == wanted => answer.first_sound = answer.first_sound.or(Some(Instant::now())),
                Output::Words { response, text } if response == wanted => answer.words.push_str(&text),
                Output::Event(ModelEvent::ToolCall { response, call }) if response == wanted && answer.call.is_none() => {
                    answer.call = Some((Instant::now(), call));
                }
                Output::Event(event) if end_of(&event, wanted)? => return Ok(answer),
                _ => {}
            }
            // Each sign of life counts.
            until = Instant::now() + self.answer_timeout;
        }
    }

    /// The next news.
    async fn next(&mut self, until: Instant) -> Result<News, Fault> {
        loop {
            if let Some(news) = self.step(until).await? {
                return Ok(news);
            }
        }
    }

    /// News, or nothing while the caller's line goes on; what ends everything is a fault.
    async fn step(&mut self, until: Instant) -> Result<Option<News>, Fault> {
        tokio::select! {
            biased;
            news = self.link.news.recv() => match news {
                Some(News::Disconnected { error, .. }) => Err(Fault::Transport(error)),
                Some(News::Reconnecting { reason }) => Err(Fault::Failed(reason)),
                Some(News::Said(Said::Refused(fault))) => Err(Fault::Service(fault)),
                Some(News::Said(Said::Trouble(fault))) => {
                    self.talked.troubles.push(fault);
                    Ok(None)
                }
                Some(news) => Ok(Some(news)),
                None => Err(Fault::Failed("the session has ended".to_owned())),
            },
            _ = self.line.every.tick() => {
                let piece = self.line.piece();
                self.give(Told::Caller(piece)).map(|()| None)
            }
            () = tokio::time::sleep_until(until) => Err(Fault::Nothing(self.answer_timeout.as_millis() as u64)),
        }
    }

    fn acoustic(&self, to: Acoustic) -> Result<(), Fault> {
        let at = Time(ms(self.began, Instant::now()));
        self.tell(Command::Acoustic(AcousticEdge { to, epoch: AcousticEpoch(0), at }))
    }

    fn tell(&self, command: Command) -> Result<(), Fault> {
        self.give(Told::Command(command))
    }

    fn give(&self, told: Told) -> Result<(), Fault> {
        self.link.handle.tell(told).map_err(|error| Fault::Failed(error.to_string()))
    }
}

impl Line {
    /// The next piece: speech where there is some.
    fn piece(&mut self) -> Vec<u8> {
        match self.speech.pop_front() {
            Some(speech) => {
                self.ended = Some(Instant::now());
                speech
            }
            None => self.silence.clone(),
        }
    }
}

impl Answer {
    fn works_since(&self, asked: Instant) -> Result<Works, Fault> {
        let at = self.first_sound.ok_or(Fault::NoSound)?;
        Ok(Works { ms: ms(asked, at), said: Some(self.words.clone()).filter(|words| !words.is_empty()) })
    }
}

/// Whether this is the end of the response; a bad one is a fault.
fn end_of(event: &ModelEvent, of: ResponseId) -> Result<bool, Fault> {
    match event {
        ModelEvent::Complete { response } => Ok(*response == of),
        ModelEvent::Failed { response, reason } if *response == of => Err(Fault::Failed(reason.clone())),
        _ => Ok(false),
    }
}

fn ms(from: Instant, to: Instant) -> u64 {
    u64::try_from(to.saturating_duration_since(from).as_millis()).unwrap_or(u64::MAX)
}

const FIRST: ResponseId = ResponseId(1);
const SECOND: ResponseId = ResponseId(2);
const THIRD: ResponseId = ResponseId(3);
/// A piece of the caller's line.
const FRAME: Duration = Duration::from_millis(20);
/// So much silence ends what a caller says.
const TRAILING: Duration = Duration::from_millis(800);
/// Who has its own time says itself that it is over.
const GRACE: Duration = Duration::from_secs(1);
/// How much of the response that is cut was heard, were it a call (ms).
const HEARD_MS: u64 = 100;
