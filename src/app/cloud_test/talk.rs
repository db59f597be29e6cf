//! The talk itself: a sentence, a call of a tool, an answer, and what else the protocol can do.

use std::collections::VecDeque;
use std::time::Duration;

use recado_core::conversation::effect::{Cause, ToolStatus};
use recado_core::conversation::input::{Acoustic, AcousticEdge, AcousticEpoch, ModelEvent, ToolCall};
use recado_core::policy::Language;
use recado_core::{DeliveryId, OperationId, ResponseId, Time, TurnId};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use super::audio::Sentence;
use super::kind::{Notice, Tried};
use super::report::{Fault, Outcome, Step, Taken, Talked, Unknown, Works};
use super::words;
use crate::cognition::models::link::{self, Link, News};
use crate::cognition::models::transport::Endpoint;
use crate::cognition::models::{Command, Output};

/// A talk.
pub(super) struct Talk<S: Tried> {
    link: Link<S>,
    began: Instant,
    line: Line,
    manner: Manner,
    talked: Talked,
    /// How many things that the model was told the service has taken, and how long the slowest took (ms).
    acknowledged: (usize, u64),
    /// Whether the long response was cut, and had not ended by itself.
    was_cut: bool,
}

/// How it is held.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    /// What is spoken.
    pub language: Language,
    pub connect_timeout_ms: u64,
    pub answer_timeout_ms: u64,
    /// Whether the service finds the end of turns, and has to hear that one is over.
    pub service_detects: bool,
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
    /// The model has delegated something of which nothing can be made.
    not_done: bool,
}

/// What does not work, or can't be told, and ends the talk.
struct Over;

impl<S: Tried> Talk<S> {
    /// One over the session at `endpoint`.
    pub fn new(endpoint: Endpoint, session: S, manner: Manner, sentence: Sentence) -> Self {
        let mut every = interval(FRAME);
        every.set_missed_tick_behavior(MissedTickBehavior::Burst);
        Self {
            began: Instant::now(),
            link: Link::open(endpoint, session),
            line: Line { every, speech: sentence.frames.into(), silence: sentence.silence, ended: None },
            manner,
            talked: Talked { steps: Vec::new(), troubles: Vec::new(), taken: Taken::Nothing },
            acknowledged: (0, 0),
            was_cut: false,
        }
    }

    /// Holds it, as far as it goes.
    pub async fn hold(mut self) -> Talked {
        if self.steps().await.is_ok() {
            // What the last of it took is said after it.
            let until = Instant::now() + AFTERWARDS;
            while self.step(until).await.is_ok() {}
        }
        // What does not work ended it: what follows would only fail for the same reason.
        let tried: Vec<Step> = self.talked.steps.iter().map(|(step, _)| *step).collect();
        let wanted = [Step::Connect, Step::Session, Step::Hear, S::CALLS, Step::Answer].into_iter().chain(S::LAST.iter().copied());
        let left = wanted.filter(|step| !tried.contains(step)).map(|step| (step, Outcome::NotKnown(Unknown::NotTried)));
        self.talked.steps.extend(left);
        self.talked.steps.extend(S::CANT_TELL.map(|(step, unknown)| (step, Outcome::NotKnown(unknown))));
        let Link { handle, mut news } = self.link;
        drop(handle);
        while let Some(last) = news.recv().await {
            match last {
                News::Ended(totals) => self.talked.taken = S::taken(totals),
                News::Said(said) => {
                    if let Notice::Trouble(says) = S::notice(said) {
                        self.talked.troubles.push(says);
                    }
                }
                _ => {}
            }
        }
        self.talked
    }

    async fn steps(&mut self) -> Result<(), Over> {
        let connected = self.connected().await;
        self.done(Step::Connect, connected)?;
        let ready = self.ready().await;
        self.done(Step::Session, ready)?;
        self.talk().await?;
        for step in S::LAST {
            let outcome = match step {
                Step::Cancel => self.cancel().await.into(),
                Step::ReadAloud => self.read_aloud().await.into(),
                Step::Notes => self.notes().await,
                Step::CutOff => self.cut_off().await,
                // They have been.
                Step::Connect | Step::Session | Step::Hear | Step::Call | Step::Delegate | Step::Answer => continue,
            };
            self.note(*step, outcome)?;
        }
        Ok(())
    }

    /// The sentence, the call that it asks for, and what the model says after that.
    async fn talk(&mut self) -> Result<(), Over> {
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
        let calls_at_once = first.first_sound.is_none() && (first.call.is_some() || first.not_done);
        if !calls_at_once {
            self.done(Step::Hear, hear(&first))?;
        }
        let Some((called, call)) = first.call else {
            let fault = if first.not_done { Fault::NoTask } else { Fault::NoCall(first.words) };
            return self.done(S::CALLS, Err(fault));
        };
        self.done(S::CALLS, Ok(Works { ms: ms(ended, called), said: Some(call.arguments.to_string()) }))?;
        let asked = Instant::now();
        let second = match self.ask_after().await {
            Ok(second) => second,
            Err(fault) => return self.done(Step::Answer, Err(fault)),
        };
        if calls_at_once {
            self.done(Step::Hear, hear(&second))?;
        }
        self.done(Step::Answer, second.works_since(asked))
    }

    /// Notes what came of a step; over where it does not work.
    fn done(&mut self, step: Step, result: Result<Works, Fault>) -> Result<(), Over> {
        self.note(step, result.into())
    }

    fn note(&mut self, step: Step, outcome: Outcome) -> Result<(), Over> {
        let fails = matches!(outcome, Outcome::Fails(_));
        self.talked.steps.push((step, outcome));
        if fails { Err(Over) } else { Ok(()) }
    }

    async fn connected(&mut self) -> Result<Works, Fault> {
        // The connection has its own time, and says so itself.
        let until = self.began + Duration::from_millis(self.manner.connect_timeout_ms) + GRACE;
        loop {
            if let Happened::Connected = self.next(until).await? {
                return Ok(Works { ms: ms(self.began, Instant::now()), said: None });
            }
        }
    }

    async fn ready(&mut self) -> Result<Works, Fault> {
        let asked = Instant::now();
        // The session has its own time for each of two answers, and says so itself.
        let until = asked + self.answer_timeout() * 2 + GRACE;
        loop {
            if let Happened::Said(Notice::Ready) = self.next(until).await? {
                return Ok(Works { ms: ms(asked, Instant::now()), said: None });
            }
        }
    }

    /// Says the sentence at the pace of speech. A service that detects turns then hears that it is over.
    async fn say(&mut self) -> Result<(), Fault> {
        self.acoustic(Acoustic::Suspected)?;
        self.acoustic(Acoustic::Speaking)?;
        self.line.every.reset();
        let until = Instant::now() + FRAME * u32::try_from(self.line.speech.len()).unwrap_or(u32::MAX) + self.answer_timeout();
        while !self.line.speech.is_empty() {
            self.step(until).await?;
        }
        self.acoustic(Acoustic::Trailing)?;
        let over = Instant::now() + if self.manner.service_detects { TRAILING } else { Duration::ZERO };
        while Instant::now() < over {
            self.step(over + GRACE).await?;
        }
        self.acoustic(Acoustic::Quiet)
    }

    /// Gives some news of what the call is about, and hears what the model makes of them.
    async fn ask_after(&mut self) -> Result<Answer, Fault> {
        self.tell(Command::Update { delivery: DeliveryId(1), text: words::news(self.manner.language).to_owned() })?;
        self.collect(SECOND, Cause::Digit { turn: TurnId(2), digit: '1' }).await
    }

    /// Asks for a long response, cuts it after its first sound, and waits until it is known to be over.
    async fn cancel(&mut self) -> Result<Works, Fault> {
        self.cut().await?;
        let asked = Instant::now();
        let until = asked + self.answer_timeout();
        loop {
            match self.next(until).await? {
                Happened::Said(Notice::Cancelled { response: THIRD, confirmed: true }) => {
                    return Ok(Works { ms: ms(asked, Instant::now()), said: None });
                }
                Happened::Said(Notice::Cancelled { response: THIRD, confirmed: false }) => return Err(Fault::NotConfirmed),
                Happened::Said(Notice::Output(Output::Event(event))) if end_of(&event, THIRD)? => return Err(Fault::EndedBefore),
                _ => {}
            }
        }
    }

    /// Cuts a long response, asks for another one, and waits for that.
    async fn cut_off(&mut self) -> Outcome {
        if let Err(fault) = self.cut().await {
            return Outcome::Fails(fault);
        }
        let asked = Instant::now();
        let next = self.collect(FOURTH, Cause::Digit { turn: TurnId(4), digit: '1' }).await;
        match next.and_then(|answer| answer.works_since(asked)) {
            // A model that says little can't be cut.
            Ok(_) if !self.was_cut => Outcome::NotKnown(Unknown::EndedBefore),
            came_of_it => came_of_it.into(),
        }
    }

    /// Asks for a long response, and cuts it after its first sound.
    async fn cut(&mut self) -> Result<(), Fault> {
        self.tell(Command::Respond { response: THIRD, cause: Cause::Digit { turn: TurnId(3), digit: '2' } })?;
        let until = Instant::now() + self.answer_timeout();
        loop {
            match self.next(until).await? {
                Happened::Said(Notice::Output(Output::Audio { response: THIRD, .. })) => break,
                Happened::Said(Notice::Output(Output::Event(event))) if end_of(&event, THIRD)? => return Err(Fault::NoSound),
                _ => {}
            }
        }
        self.tell(Command::CancelResponse { response: THIRD })?;
        self.tell(Command::Truncate { response: THIRD, heard_ms: HEARD_MS, heard_text: String::new() })
    }

    async fn read_aloud(&mut self) -> Result<Works, Fault> {
        let asked = Instant::now();
        if let Some(told) = S::read_aloud(words::read_aloud(self.manner.language)) {
            self.give(told)?;
        }
        let mut first_sound = None;
        // The session has its own time for it, and says so itself.
        let until = asked + self.answer_timeout() * 2 + GRACE;
        loop {
            match self.next(until).await? {
                Happened::Said(Notice::Read) => first_sound = first_sound.or(Some(Instant::now())),
                Happened::Said(Notice::ReadEnded(Err(reason))) => return Err(Fault::Failed(reason)),
                Happened::Said(Notice::ReadEnded(Ok(()))) => {
                    return first_sound.map(|at| Works { ms: ms(asked, at), said: None }).ok_or(Fault::NoSound);
                }
                _ => {}
            }
        }
    }

    /// Waits until the service has taken all that the model was told: how its task stands, some news, and that a key was pressed.
    async fn notes(&mut self) -> Outcome {
        let until = Instant::now() + self.answer_timeout();
        while self.acknowledged.0 < NOTES {
            match self.next(until).await {
                Ok(_) => {}
                Err(Fault::Nothing(_)) => return Outcome::NotKnown(Unknown::Unacknowledged(NOTES - self.acknowledged.0)),
                Err(fault) => return Outcome::Fails(fault),
            }
        }
        Outcome::Works(Works { ms: self.acknowledged.1, said: None })
    }

    /// Asks for a response, and takes everything of it until its end. A call is answered at once, as a call's operation would be.
    async fn collect(&mut self, wanted: ResponseId, cause: Cause) -> Result<Answer, Fault> {
        self.tell(Command::Respond { response: wanted, cause })?;
        let mut answer = Answer::default();
        let at_last = Instant::now() + ANSWER_MAX;
        let mut until = Instant::now() + self.answer_timeout();
        loop {
            let happened = match self.next(until.min(at_last)).await {
                Err(Fault::Nothing(_)) if Instant::now() >= at_last => return Err(Fault::Endless(ms(at_last - ANSWER_MAX, at_last))),
                Err(Fault::Nothing(_)) if answer.first_sound.is_none() && !answer.words.is_empty() => return Err(Fault::NoSound),
                Err(Fault::Nothing(ms)) if answer.first_sound.is_none() && !S::WORDS_ALONE => return Err(Fault::Silence(ms)),
                happened => happened?,
            };
            match happened {
                Happened::Said(Notice::Output(output)) => match output {
                    Output::Audio { response, bytes } if response == wanted => {
                        answer.first_sound = answer.first_sound.or((!bytes.is_empty()).then(Instant::now));
                    }
                    Output::Words { response, text } if response == wanted => answer.words.push_str(&text),
                    Output::Event(ModelEvent::ToolCall { response, call }) if response == wanted && answer.call.is_none() => {
                        let call_id = call.call_id.clone();
                        answer.call = Some((Instant::now(), call));
                        self.tell(Command::ToolOutput { call_id, operation: Some(OperationId(1)), status: ToolStatus::Running })?;
                    }
                    Output::Event(event) if end_of(&event, wanted)? => return Ok(answer),
                    _ => continue,
                },
                Happened::Said(Notice::NotDone) => {
                    answer.not_done = true;
                    return Ok(answer);
                }
                _ => continue,
            }
            // Each sign of life counts.
            until = Instant::now() + self.answer_timeout();
        }
    }

    /// What happens next.
    async fn next(&mut self, until: Instant) -> Result<Happened, Fault> {
        loop {
            if let Some(happened) = self.step(until).await? {
                return Ok(happened);
            }
        }
    }

    /// Something that happens, or nothing while the caller's line goes on; what ends everything is a fault.
    async fn step(&mut self, until: Instant) -> Result<Option<Happened>, Fault> {
        tokio::select! {
            biased;
            news = self.link.news.recv() => match news {
                Some(News::Disconnected { error, .. }) => Err(Fault::Transport(error)),
                Some(News::Reconnecting { reason }) => Err(Fault::Failed(reason)),
                Some(News::Connected) => Ok(Some(Happened::Connected)),
                Some(News::Said(said)) => self.said(S::notice(said)),
                Some(News::Ended(_)) | None => Err(Fault::Ended),
            },
            _ = self.line.every.tick() => {
                let piece = self.line.piece();
                self.give(link::Told::Caller(piece).into()).map(|()| None)
            }
            () = tokio::time::sleep_until(until) => Err(Fault::Nothing(self.manner.answer_timeout_ms)),
        }
    }

    fn said(&mut self, notice: Notice) -> Result<Option<Happened>, Fault> {
        match notice {
            Notice::Refused(says) => return Err(Fault::Service(says)),
            Notice::Trouble(says) => {
                self.talked.troubles.push(says);
                return Ok(None);
            }
            Notice::Acknowledged(after_ms) => {
                let (count, slowest_ms) = self.acknowledged;
                self.acknowledged = (count + 1, slowest_ms.max(after_ms));
            }
            Notice::Cancelled { response: THIRD, .. } => self.was_cut = true,
            _ => {}
        }
        Ok(Some(Happened::Said(notice)))
    }

    fn answer_timeout(&self) -> Duration {
        Duration::from_millis(self.manner.answer_timeout_ms)
    }

    fn acoustic(&self, to: Acoustic) -> Result<(), Fault> {
        let at = Time(ms(self.began, Instant::now()));
        self.tell(Command::Acoustic(AcousticEdge { to, epoch: AcousticEpoch(0), at }))
    }

    fn tell(&self, command: Command) -> Result<(), Fault> {
        self.give(link::Told::Command(command).into())
    }

    fn give(&self, told: S::Told) -> Result<(), Fault> {
        self.link.handle.tell(told).map_err(|error| Fault::Failed(error.to_string()))
    }
}

/// Something that happens to a talk.
enum Happened {
    /// A connection stands.
    Connected,
    /// The session says something.
    Said(Notice),
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
const FOURTH: ResponseId = ResponseId(4);
/// How its task stands, some news, a key.
const NOTES: usize = 3;
/// A piece of the caller's line.
const FRAME: Duration = Duration::from_millis(20);
/// So much silence ends what a caller says.
const TRAILING: Duration = Duration::from_millis(800);
/// Who has its own time says itself that it is over.
const GRACE: Duration = Duration::from_secs(1);
/// How long a service may take to say what its last response took.
const AFTERWARDS: Duration = Duration::from_secs(1);
/// Nobody listens longer to one sentence.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// How much of the response that is cut was heard, were it a call (ms).
const HEARD_MS: u64 = 100;
