//! A dialogue being held.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use recado_core::conversation::effect::Cause;
use recado_core::conversation::input::{Acoustic, Content, ModelEvent, ToolCall};
use recado_core::policy::Language;
use recado_core::{ResponseId, TurnId};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{Instrument, Span, warn};

use super::dialogue::{AfterTurns, Dialogue};
use super::step::{Cancel, Collect, Facts, Step, TakeMessage};
use super::telling::{Kept, Telling};
use crate::cognition::models::audio::{CallerAudio, CallerFrame, caller_audio};
use crate::cognition::models::message::{KEPT_WITHIN, Keeping, LeftMessage, Message, Messages, Taking, finished, keeping, keeping_within};
use crate::cognition::models::port::{Capabilities, Command, Model, ModelSession, Opening, Output, OutputKind};
use crate::cognition::models::sleep_until;

/// The built-in model: holds the same dialogue with every caller.
#[derive(Debug, Clone)]
pub struct Scripted {
    dialogue: Arc<Dialogue>,
    messages: Option<Arc<dyn Messages>>,
    /// How long a caller waits to be told what became of a message.
    kept_within: Duration,
}

impl Scripted {
    /// A model that holds `dialogue`. Messages are kept by `messages`; without it, none is.
    pub fn new(dialogue: Dialogue, messages: Option<Arc<dyn Messages>>) -> Self {
        Self { dialogue: Arc::new(dialogue), messages, kept_within: KEPT_WITHIN }
    }
}

impl Model for Scripted {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            output: OutputKind::Text,
            // It understands nothing, and keeps what it is told.
            hears_audio: self.dialogue.takes_messages(),
            owns_turns: false,
            cancel: true,
            // It remembers no words: only of what it says of a message it follows whether that was heard.
            truncate: false,
            silence_after_ms: self.dialogue.silence_after_ms(),
        }
    }

    fn open(&self, opening: Opening) -> ModelSession {
        let (heard, hears) = caller_audio();
        let (session, commands, said) = ModelSession::new(self.dialogue.takes_messages().then_some(heard));
        let holding = Holding {
            held: Held::new(self.dialogue.clone(), opening),
            messages: self.messages.clone(),
            kept_within: self.kept_within,
            asked: Instant::now(),
            ends: None,
            keeping: None,
            pending: VecDeque::new(),
        };
        tokio::spawn(holding.hold(commands, hears, said).instrument(Span::current()));
        session
    }
}

/// The task's own.
struct Holding {
    held: Held,
    messages: Option<Arc<dyn Messages>>,
    kept_within: Duration,
    /// When a response was last asked for.
    asked: Instant,
    /// When the message that is being taken has come to its end, unless the caller goes on.
    ends: Option<Instant>,
    /// The message that is on its way to the disk.
    keeping: Option<Keeping>,
    pending: VecDeque<Output>,
}

impl Holding {
    async fn hold(mut self, mut commands: mpsc::Receiver<Command>, mut hears: CallerAudio, said: mpsc::Sender<Output>) {
        loop {
            tokio::select! {
                // Commands first, so that a cancel comes before what it cancels.
                biased;
                command = commands.recv(), if self.pending.len() < PENDING_MAX => match command {
                    Some(command) => self.take(command),
                    None => break,
                },
                place = said.reserve(), if !self.pending.is_empty() => match (place, self.pending.pop_front()) {
                    (Ok(place), Some(output)) => place.send(output),
                    _ => break,
                },
                () = sleep_until(self.ends) => self.keep(),
                result = finished(&mut self.keeping), if self.keeping.is_some() => {
                    self.keeping = None;
                    if let Err(error) = &result {
                        // It may be there all the same, a little later: whoever keeps it logs that too.
                        warn!(%error, "the caller is told that their message is not kept");
                    }
                    self.held.kept(result.is_ok(), &mut self.pending);
                    self.await_end();
                }
                Some(frame) = hears.next() => self.held.hear(&frame),
            }
        }
        self.end(hears).await;
    }

    fn take(&mut self, command: Command) {
        if matches!(command, Command::Respond { .. }) {
            self.asked = Instant::now();
        }
        self.held.take(command, &mut self.pending);
        self.await_end();
    }

    /// Where a response waits for the message's end, that comes after a pause.
    fn await_end(&mut self) {
        let after = self.held.message_ends_after();
        self.ends = after.map(|pause| (Instant::now() + pause).min(self.asked + ENDS_WITHIN));
    }

    /// The caller has paused for long enough: the message is whole.
    fn keep(&mut self) {
        self.ends = None;
        if let Some(message) = self.held.end_message() {
            self.keeping = Some(keeping_within(self.kept_within, self.messages.as_ref(), message));
        }
    }

    /// The call is over. What the caller has said by then for a message is one: many hang up after their last word.
    async fn end(mut self, mut hears: CallerAudio) {
        // What of it has been heard is there.
        while let Some(frame) = hears.next().await {
            self.held.hear(&frame);
        }
        if let Some(keeping) = self.keeping.take() {
            let _ = keeping.await;
        }
        if let Some(message) = self.held.end_message() {
            let _ = keeping(self.messages.as_ref(), message).await;
        }
    }
}

/// Where a dialogue stands. No clock, no randomness, no I/O.
#[derive(Debug)]
struct Held {
    dialogue: Arc<Dialogue>,
    opening: Opening,
    /// Turns that have been counted, and the last one: asked for again, it gets the same answer.
    turns: u64,
    last_turn: Option<TurnId>,
    /// Silences since the caller last did something.
    silences: usize,
    /// The keys that were asked for last.
    collecting: Option<Box<Collect>>,
    /// What the caller does.
    acoustic: Acoustic,
    /// The message that is being taken.
    taking: Option<Taking<Box<TakeMessage>>>,
    /// The message that is on its way to the disk: what follows, and the response that waits for that, unless it was cancelled.
    keeping: Option<(Kept, Option<ResponseId>)>,
    /// What is said of the last message, until the caller has heard it.
    telling: Option<Telling>,
    calls: u64,
    /// What the last step with calls called, for the caller to confirm.
    called: Vec<ToolCall>,
}

impl Held {
    fn new(dialogue: Arc<Dialogue>, opening: Opening) -> Self {
        Self {
            dialogue,
            opening,
            turns: 0,
            last_turn: None,
            silences: 0,
            collecting: None,
            acoustic: Acoustic::Quiet,
            taking: None,
            keeping: None,
            telling: None,
            calls: 0,
            called: Vec::new(),
        }
    }

    fn take(&mut self, command: Command, outputs: &mut VecDeque<Output>) {
        match command {
            Command::Respond { response, cause } => self.respond(response, &cause, outputs),
            Command::CancelResponse { response } => {
                outputs.retain(|output| !matches!(output, Output::Event(event) if event.response() == Some(response)));
                // The caller goes on.
                for due in [self.taking.as_mut().map(|taking| &mut taking.due), self.keeping.as_mut().map(|(_, due)| due)] {
                    due.and_then(|due| due.take_if(|due| *due == response));
                }
                // It had not come as far as the voice.
                self.broke_in(response, "", outputs);
            }
            Command::Acoustic(edge) => {
                self.acoustic = edge.to;
                self.taking.iter_mut().for_each(|taking| taking.edge(edge.to));
                self.telling.take_if(|telling| telling.edge(edge.to));
            }
            Command::Truncate { response, heard_ms: _, heard_text } => self.broke_in(response, &heard_text, outputs),
            Command::TellOfMessage { response, left } => {
                let (language, text) = (self.opening.language, what_became(self.opening.language, &left));
                outputs.push_back(Output::Event(ModelEvent::Clause { response, content: Content::Text { text, language } }));
                outputs.push_back(Output::Event(ModelEvent::Complete { response }));
            }
            // What a dialogue says next depends on turns alone, but for what is said of a message.
            Command::ToolOutput { .. }
            | Command::Told { .. }
            | Command::Update { .. }
            | Command::Work(_)
            | Command::Verification(_)
            | Command::Cancelling(_)
            | Command::Heard(_)
            | Command::AnsweredElsewhere
            | Command::Reconnect => {}
        }
    }

    fn hear(&mut self, frame: &CallerFrame) {
        let rest = self.telling.iter_mut().filter_map(|telling| telling.rest.as_mut());
        self.taking.iter_mut().chain(rest).for_each(|taking| taking.hear(frame));
    }

    /// How long from now the message that is being taken is whole, where the caller may have come to its end.
    fn message_ends_after(&self) -> Option<Duration> {
        let taking = self.taking.as_ref().filter(|taking| taking.due.is_some())?;
        // A sound may be the caller, who goes on.
        Some(if self.acoustic == Acoustic::Quiet { Duration::from_millis(taking.step.pause_ms) } else { ENDS_WITHIN })
    }

    /// The message that was taken, if anything was said for one.
    fn end_message(&mut self) -> Option<Message> {
        let taking = self.taking.take().filter(Taking::has_begun)?;
        let (step, due, is_cut) = (taking.step.clone(), taking.due, taking.is_cut());
        // Who goes on before they are told what became of it leaves another one; of one that was cut they have been too long.
        self.taking = (!is_cut).then(|| Taking::new(step.clone(), step.seconds, self.acoustic));
        self.keeping = Some((Kept { step, is_cut, is_kept: None }, due));
        let Opening { session, party, .. } = self.opening.clone();
        Some(Message { session, party, samples: taking.into_samples(), is_cut })
    }

    /// Whether the message is kept is known: the caller is told, now or with the next response.
    fn kept(&mut self, is_kept: bool, outputs: &mut VecDeque<Output>) {
        let Some((kept, due)) = &mut self.keeping else { return };
        kept.is_kept = Some(is_kept);
        if let Some(response) = due.take() {
            self.message_settled(response, outputs);
        }
    }

    /// What became of the message is known. Where the caller has gone on meanwhile, the rest is to be kept too before they are told.
    fn message_settled(&mut self, response: ResponseId, outputs: &mut VecDeque<Output>) {
        let is_kept = self.keeping.as_ref().is_some_and(|(kept, _)| kept.is_kept());
        match self.taking.as_mut().filter(|taking| is_kept && taking.has_begun()) {
            Some(rest) => {
                rest.due = Some(response);
                self.keeping = None;
            }
            None => self.tell_kept(response, outputs),
        }
    }

    fn tell_kept(&mut self, response: ResponseId, outputs: &mut VecDeque<Output>) {
        if let Some((kept, _)) = self.keeping.take() {
            self.tell(kept, response, outputs);
        }
    }

    /// The caller is told what became of the message. Until they have heard it, what they add belongs to it.
    fn tell(&mut self, kept: Kept, response: ResponseId, outputs: &mut VecDeque<Output>) {
        // It has heard what may be the first sound of that.
        let rest = self.taking.take().filter(|_| kept.has_rest());
        outputs.push_back(Output::TakesMessage(false));
        let before = outputs.len();
        if kept.is_kept() && kept.is_cut {
            let language = self.opening.language;
            let text = cut(language, kept.step.seconds);
            outputs.push_back(Output::Event(ModelEvent::Clause { response, content: Content::Text { text, language } }));
        }
        self.perform(kept.follows(), response, Keys::default(), outputs);
        let words = words(outputs.iter().skip(before));
        self.telling = Some(Telling::new(kept, response, words, rest));
        outputs.push_back(Output::Event(ModelEvent::Complete { response }));
    }

    /// The caller broke in on a response, and heard so much of it.
    fn broke_in(&mut self, response: ResponseId, heard_text: &str, outputs: &mut VecDeque<Output>) {
        let Some(telling) = self.telling.as_mut() else { return };
        if !telling.cut(response, heard_text, self.acoustic) {
            return;
        }
        let took = self.taking.is_some();
        if let Some(rest) = telling.rest.take() {
            self.taking = Some(rest);
        }
        if !took {
            // What they say is for nobody else.
            outputs.push_back(Output::TakesMessage(true));
        }
    }

    fn respond(&mut self, response: ResponseId, cause: &Cause, outputs: &mut VecDeque<Output>) {
        if let Some((kept, due)) = &mut self.keeping {
            // What became of the message comes first.
            *due = Some(response);
            if kept.is_kept.is_some() {
                self.message_settled(response, outputs);
            }
            return;
        }
        let mut unheard = self.telling.take().and_then(Telling::into_unheard);
        if let Some(lost) = unheard.take_if(|kept| !kept.has_rest()) {
            return self.tell(lost, response, outputs);
        }
        if let Some(taking) = self.taking.as_mut().filter(|taking| taking.has_begun()) {
            taking.due = Some(response);
            return;
        }
        if let Some(kept) = unheard {
            return self.tell(kept, response, outputs);
        }
        let dialogue = self.dialogue.clone();
        let collecting;
        let mut keys = Keys::default();
        let step = match cause {
            Cause::Greeting => Some(&dialogue.greeting),
            Cause::Turn { turn } => {
                self.silences = 0;
                if self.last_turn != Some(*turn) {
                    self.last_turn = Some(*turn);
                    self.turns += 1;
                }
                Some(turn_step(&dialogue, self.turns))
            }
            Cause::Digit { digit, .. } => {
                self.silences = 0;
                keys.digit = Some(*digit);
                Some(dialogue.digits.get(digit).unwrap_or(&dialogue.otherwise))
            }
            Cause::Digits { digits, complete, .. } => {
                self.silences = 0;
                keys.digits = complete.then_some(digits.as_str());
                collecting = self.collecting.take();
                collecting.as_ref().map(|collect| if *complete { &collect.then } else { &collect.missing })
            }
            Cause::Silence { quiet_ms } => self.silence_step(&dialogue, *quiet_ms),
            // It never wants to.
            Cause::OwnAccord => None,
        };
        // Whoever says nothing may still say their message.
        let waiting = matches!(cause, Cause::Silence { .. }).then(|| self.taking.take()).flatten();
        if let Some(step) = step {
            self.perform(step, response, keys, outputs);
        }
        if self.taking.is_none() {
            self.taking = waiting;
        }
        outputs.push_back(Output::Event(ModelEvent::Complete { response }));
    }

    /// The first silence in a row gets the first step, the next one the second, and any further one the last.
    fn silence_step<'a>(&mut self, dialogue: &'a Dialogue, quiet_ms: u64) -> Option<&'a Step> {
        let (after_ms, step) = dialogue.silences.get(self.silences).or(dialogue.silences.last())?;
        if quiet_ms < *after_ms {
            return None;
        }
        self.silences = self.silences.saturating_add(1);
        Some(step)
    }

    fn perform(&mut self, step: &Step, response: ResponseId, keys: Keys<'_>, outputs: &mut VecDeque<Output>) {
        let mut events = Vec::new();
        if let Some(cancel) = &step.cancel {
            let tool = match cancel {
                Cancel::All => None,
                Cancel::Tool(tool) => Some(tool.clone()),
            };
            events.push(ModelEvent::CancelIntent { response, tool, work: None });
        }
        let said = step.say.iter().filter_map(|say| say.content(self.opening.language));
        events.extend(said.map(|content| ModelEvent::Clause { response, content }));
        if !step.calls.is_empty() {
            self.called.clear();
        }
        for confirmed in if step.confirms { std::mem::take(&mut self.called) } else { Vec::new() } {
            self.calls += 1;
            let call = ToolCall { call_id: format!("call_{}", self.calls), confirmed: true, ..confirmed };
            events.push(ModelEvent::ToolCall { response, call });
        }
        for call in &step.calls {
            self.calls += 1;
            // A party is the box's account and the caller's number: a tool is given the number.
            let party = self.opening.party.as_ref().map_or("", |party| party.0.as_str());
            let caller = party.split_once('/').map_or(party, |(_, number)| number);
            let arguments = call.arguments(Facts { caller, turn: self.turns, digit: keys.digit, digits: keys.digits });
            let call = ToolCall { call_id: format!("call_{}", self.calls), tool: call.tool.clone(), arguments, confirmed: false };
            self.called.push(call.clone());
            events.push(ModelEvent::ToolCall { response, call });
        }
        if let Some(collect) = &step.collect {
            let Collect { digits_max, end, wait_ms, .. } = **collect;
            events.push(ModelEvent::CollectDigits { response, digits_max, end, wait_ms });
            self.collecting = Some(collect.clone());
        }
        if step.hang_up {
            events.push(ModelEvent::HangUp { response });
        }
        let took = self.taking.is_some();
        self.taking = step.message.clone().map(|message| {
            let seconds = message.seconds;
            Taking::new(message, seconds, self.acoustic)
        });
        // It is known before the caller can begin.
        if took != self.taking.is_some() {
            outputs.push_back(Output::TakesMessage(!took));
        }
        outputs.extend(events.into_iter().map(Output::Event));
    }
}

/// What the caller pressed, as far as a step is told.
#[derive(Debug, Clone, Copy, Default)]
struct Keys<'a> {
    digit: Option<char>,
    digits: Option<&'a str>,
}

fn turn_step(dialogue: &Dialogue, turn: u64) -> &Step {
    let counted = usize::try_from(turn.saturating_sub(1)).unwrap_or(usize::MAX);
    let place = match dialogue.after_turns {
        AfterTurns::Cycle => counted.checked_rem(dialogue.turns.len()).unwrap_or_default(),
        AfterTurns::Otherwise => counted,
    };
    dialogue.turns.get(place).unwrap_or(&dialogue.otherwise)
}

/// All the words that are said with these outputs.
fn words<'a>(outputs: impl Iterator<Item = &'a Output>) -> String {
    let said = outputs.filter_map(|output| match output {
        Output::Event(ModelEvent::Clause { content, .. }) => Some(content.text()),
        _ => None,
    });
    said.collect::<Vec<_>>().join(" ")
}

/// However often something sounds like the caller going on, a message has ended after that; with what follows, it is within the time that a
/// response may take to begin.
const ENDS_WITHIN: Duration = Duration::from_millis(2_500);

/// What is said of a message that was too long.
fn cut(language: Language, seconds: u32) -> String {
    match language {
        Language::Es => format!("Su recado era largo: se guardan los primeros {seconds} segundos."),
        Language::En => format!("Your message was long: its first {seconds} seconds are kept."),
    }
}

/// What is said of a message that was left with another model, which can't say it.
fn what_became(language: Language, left: &LeftMessage) -> String {
    let said = match (language, left) {
        (Language::Es, LeftMessage::Kept { is_cut: false, .. }) => "Gracias. Su recado queda guardado.",
        (Language::En, LeftMessage::Kept { is_cut: false, .. }) => "Thank you. Your message is kept.",
        (_, LeftMessage::Kept { seconds, is_cut: true }) => return cut(language, *seconds),
        (Language::Es, LeftMessage::NotKept { .. }) => "Lo siento, no he podido guardar su recado.",
        (Language::En, LeftMessage::NotKept { .. }) => "Sorry, I could not keep your message.",
        (Language::Es, LeftMessage::NothingSaid { .. }) => "No he oído ningún recado.",
        (Language::En, LeftMessage::NothingSaid { .. }) => "I have heard no message.",
    };
    said.to_owned()
}

/// Two whole steps: one generation at a time waits, and one that has just been cancelled.
const PENDING_MAX: usize = 64;

#[cfg(test)]
mod tests;
