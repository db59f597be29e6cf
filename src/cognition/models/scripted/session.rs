//! A dialogue being held.

use std::collections::VecDeque;
use std::sync::Arc;

use recado_core::conversation::effect::Cause;
use recado_core::conversation::input::{ModelEvent, ToolCall};
use recado_core::{ResponseId, TurnId};
use tokio::sync::mpsc;

use super::dialogue::{AfterTurns, Dialogue};
use super::step::{Cancel, Collect, Facts, Step};
use crate::cognition::models::port::{Capabilities, Command, Model, ModelSession, Opening, Output, OutputKind};

/// The built-in model: holds the same dialogue with every caller.
#[derive(Debug, Clone)]
pub struct Scripted {
    dialogue: Arc<Dialogue>,
}

impl Scripted {
    /// A model that holds `dialogue`.
    pub fn new(dialogue: Dialogue) -> Self {
        Self { dialogue: Arc::new(dialogue) }
    }
}

impl Model for Scripted {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            output: OutputKind::Text,
            hears_audio: false,
            owns_turns: false,
            cancel: true,
            // It has no memory of words that could be cut.
            truncate: false,
            silence_after_ms: self.dialogue.silence_after_ms(),
        }
    }

    fn open(&self, opening: Opening) -> ModelSession {
        let (session, commands, said) = ModelSession::new(None);
        tokio::spawn(hold(Held::new(self.dialogue.clone(), opening), commands, said));
        session
    }
}

async fn hold(mut held: Held, mut commands: mpsc::Receiver<Command>, said: mpsc::Sender<Output>) {
    let mut pending = VecDeque::new();
    loop {
        tokio::select! {
            // Commands first, so that a cancel comes before what it cancels.
            biased;
            command = commands.recv(), if pending.len() < PENDING_MAX => match command {
                Some(command) => held.take(command, &mut pending),
                None => return,
            },
            place = said.reserve(), if !pending.is_empty() => match (place, pending.pop_front()) {
                (Ok(place), Some(event)) => place.send(Output::Event(event)),
                _ => return,
            },
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
    calls: u64,
}

impl Held {
    fn new(dialogue: Arc<Dialogue>, opening: Opening) -> Self {
        Self { dialogue, opening, turns: 0, last_turn: None, silences: 0, collecting: None, calls: 0 }
    }

    fn take(&mut self, command: Command, events: &mut VecDeque<ModelEvent>) {
        match command {
            Command::Respond { response, cause } => self.respond(response, &cause, events),
            Command::CancelResponse { response } => events.retain(|event| response_of(event) != Some(response)),
            // What a dialogue says next depends on turns alone.
            Command::Truncate { .. }
            | Command::ToolOutput { .. }
            | Command::Told { .. }
            | Command::Update { .. }
            | Command::Cancelling(_)
            | Command::Heard(_)
            | Command::Acoustic(_) => {}
        }
    }

    fn respond(&mut self, response: ResponseId, cause: &Cause, events: &mut VecDeque<ModelEvent>) {
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
        if let Some(step) = step {
            self.perform(step, response, keys, events);
        }
        events.push_back(ModelEvent::Complete { response });
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

    fn perform(&mut self, step: &Step, response: ResponseId, keys: Keys<'_>, events: &mut VecDeque<ModelEvent>) {
        if let Some(cancel) = &step.cancel {
            let tool = match cancel {
                Cancel::All => None,
                Cancel::Tool(tool) => Some(tool.clone()),
            };
            events.push_back(ModelEvent::CancelIntent { response, tool });
        }
        let said = step.say.iter().filter_map(|say| say.content(self.opening.language));
        events.extend(said.map(|content| ModelEvent::Clause { response, content }));
        for call in &step.calls {
            self.calls += 1;
            // A party is the box's account and the caller's number: a tool is given the number.
            let party = self.opening.party.as_ref().map_or("", |party| party.0.as_str());
            let caller = party.split_once('/').map_or(party, |(_, number)| number);
            let arguments = call.arguments(Facts { caller, turn: self.turns, digit: keys.digit, digits: keys.digits });
            let call = ToolCall { call_id: format!("call_{}", self.calls), tool: call.tool.clone(), arguments, confirmed: false };
            events.push_back(ModelEvent::ToolCall { response, call });
        }
        if let Some(collect) = &step.collect {
            let Collect { digits_max, end, wait_ms, .. } = **collect;
            events.push_back(ModelEvent::CollectDigits { response, digits_max, end, wait_ms });
            self.collecting = Some(collect.clone());
        }
        if step.hang_up {
            events.push_back(ModelEvent::HangUp { response });
        }
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

fn response_of(event: &ModelEvent) -> Option<ResponseId> {
    match event {
        ModelEvent::Clause { response, .. }
        | ModelEvent::ToolCall { response, .. }
        | ModelEvent::Complete { response }
        | ModelEvent::Failed { response, .. }
        | ModelEvent::CancelIntent { response, .. }
        | ModelEvent::CollectDigits { response, .. }
        | ModelEvent::HangUp { response } => Some(*response),
        ModelEvent::TurnWasNoise { .. } | ModelEvent::WantsToSpeak => None,
    }
}

/// Two whole steps: one generation at a time waits, and one that has just been cancelled.
const PENDING_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use recado_core::conversation::input::Content;
    use recado_core::policy::Language;
    use recado_core::{PartyId, SessionId};
    use serde_json::json;

    use super::*;
    use crate::cognition::tools::Schemas;
    use crate::config::Tool;

    #[test]
    fn the_nth_turn_gets_the_nth_answer_and_further_ones_the_one_for_all_others() {
        let mut held = held("");
        let said: Vec<String> = (1..=5).map(|turn| words(&respond(&mut held, turn_of(turn)))).collect();
        assert_eq!(said, ["uno", "dos|dos bis", "otro", "otro", "otro"]);
    }

    #[test]
    fn a_dialogue_that_cycles_begins_again_from_its_first_turn() {
        let mut held = held("after_turns = 'cycle'\n");
        let said: Vec<String> = (1..=5).map(|turn| words(&respond(&mut held, turn_of(turn)))).collect();
        assert_eq!(said, ["uno", "dos|dos bis", "uno", "dos|dos bis", "uno"]);
    }

    #[test]
    fn a_turn_that_is_answered_again_is_counted_once() {
        let mut held = held("");
        assert_eq!(words(&respond(&mut held, turn_of(1))), "uno");
        assert_eq!(words(&respond(&mut held, turn_of(1))), "uno");
        assert_eq!(words(&respond(&mut held, turn_of(2))), "dos|dos bis");
    }

    #[test]
    fn a_key_has_its_own_step_counts_as_no_turn_and_fills_in_what_it_calls() {
        let mut held = held("");
        let events = respond(&mut held, Cause::Digit { turn: TurnId(1), digit: '7' });
        let expected = ToolCall {
            call_id: "call_1".into(),
            tool: "order".into(),
            arguments: json!({ "item": "7", "by": "+34600", "turn": "0" }),
            confirmed: false,
        };
        assert_eq!(events[0], ModelEvent::CancelIntent { response: R, tool: Some("order".into()) });
        assert_eq!(events[2], ModelEvent::ToolCall { response: R, call: expected });
        assert_eq!(words(&respond(&mut held, Cause::Digit { turn: TurnId(2), digit: '8' })), "otro");
        assert_eq!(words(&respond(&mut held, turn_of(3))), "uno");
    }

    #[test]
    fn keys_that_a_step_wants_are_collected_and_their_step_is_told_them() {
        let mut held = held("");
        let asks = respond(&mut held, Cause::Digit { turn: TurnId(1), digit: '9' });
        assert_eq!(asks[1], ModelEvent::CollectDigits { response: R, digits_max: 4, end: Some('#'), wait_ms: 5_000 });
        let digits = |digits: &str, complete| Cause::Digits { turn: TurnId(2), digits: digits.into(), complete };
        let events = respond(&mut held, digits("1234", true));
        assert!(matches!(&events[0], ModelEvent::ToolCall { call, .. } if call.arguments == json!({ "item": "1234" })), "{events:?}");
        respond(&mut held, Cause::Digit { turn: TurnId(3), digit: '9' });
        assert_eq!(words(&respond(&mut held, digits("12", false))), "faltan");
        assert_eq!(respond(&mut held, digits("12", true)), [ModelEvent::Complete { response: R }], "nobody asked for any");
    }

    #[test]
    fn silences_in_a_row_get_on_and_anything_from_the_caller_begins_them_anew() {
        let mut held = held("");
        let silence = |quiet_ms| Cause::Silence { quiet_ms };
        assert_eq!(words(&respond(&mut held, silence(4_999))), "");
        assert_eq!(words(&respond(&mut held, silence(5_000))), "¿hola?");
        assert_eq!(words(&respond(&mut held, silence(9_000))), "", "the second one takes longer");
        let last = respond(&mut held, silence(10_000));
        assert_eq!(words(&last), "adiós");
        assert_eq!(last[last.len() - 2..], [ModelEvent::HangUp { response: R }, ModelEvent::Complete { response: R }]);
        assert_eq!(words(&respond(&mut held, silence(10_000))), "adiós", "the last one stands for all further ones");
        respond(&mut held, turn_of(1));
        assert_eq!(words(&respond(&mut held, silence(5_000))), "¿hola?");
    }

    #[test]
    fn every_response_ends_also_one_that_has_nothing_to_say() {
        let mut held = held("");
        assert_eq!(respond(&mut held, Cause::Greeting), [ModelEvent::Complete { response: R }]);
    }

    #[test]
    fn the_same_commands_give_the_same_events() {
        let run = || {
            let mut held = held("");
            (1..20)
                .flat_map(|n| respond(&mut held, if n % 3 == 0 { Cause::Digit { turn: TurnId(n), digit: '7' } } else { turn_of(n) }))
                .collect::<Vec<_>>()
        };
        assert_eq!(run(), run());
    }

    #[tokio::test]
    async fn a_session_says_its_events_in_order() {
        let mut session = Scripted::new(dialogue("")).open(opening());
        session.handle.tell(Command::Respond { response: R, cause: turn_of(2) }).unwrap();
        let mut said = Vec::new();
        while said.last() != Some(&ModelEvent::Complete { response: R }) {
            match session.outputs.recv().await {
                Some(Output::Event(event)) => said.push(event),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(words(&said), "uno");
    }

    #[tokio::test]
    async fn a_session_that_is_dropped_ends_also_in_the_middle_of_a_response() {
        let (session, commands, said) = ModelSession::new(None);
        let holding = tokio::spawn(hold(Held::new(Arc::new(dialogue("")), opening()), commands, said));
        for turn in 1..100 {
            session.handle.tell(Command::Respond { response: R, cause: turn_of(turn) }).unwrap();
        }
        tokio::task::yield_now().await;
        assert!(!holding.is_finished(), "more is to be said than anybody takes");
        drop(session);
        holding.await.unwrap();
    }

    #[tokio::test]
    async fn nothing_more_of_a_cancelled_response_is_said() {
        let mut session = Scripted::new(dialogue("")).open(opening());
        let other = ResponseId(2);
        // The session's task runs only when this test waits: the cancel is there before the first event goes out.
        session.handle.tell(Command::Respond { response: R, cause: turn_of(1) }).unwrap();
        session.handle.tell(Command::CancelResponse { response: R }).unwrap();
        session.handle.tell(Command::Respond { response: other, cause: turn_of(2) }).unwrap();
        loop {
            match session.outputs.recv().await {
                Some(Output::Event(event)) => {
                    assert_eq!(response_of(&event), Some(other), "{event:?}");
                    if event == (ModelEvent::Complete { response: other }) {
                        return;
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }

    const R: ResponseId = ResponseId(1);

    fn turn_of(turn: u128) -> Cause {
        Cause::Turn { turn: TurnId(turn) }
    }

    fn respond(held: &mut Held, cause: Cause) -> Vec<ModelEvent> {
        let mut events = VecDeque::new();
        held.take(Command::Respond { response: R, cause }, &mut events);
        events.into()
    }

    fn words(events: &[ModelEvent]) -> String {
        let texts: Vec<&str> = events
            .iter()
            .filter_map(|event| match event {
                ModelEvent::Clause { content: Content::Text { text, language: Language::Es }, .. } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        texts.join("|")
    }

    fn held(head: &str) -> Held {
        Held::new(Arc::new(dialogue(head)), opening())
    }

    fn opening() -> Opening {
        Opening { session: SessionId(1), party: Some(PartyId("+34600".into())), language: Language::Es }
    }

    fn dialogue(head: &str) -> Dialogue {
        let order: Tool = serde_json::from_value(json!({ "name": "order", "url": "http://127.0.0.1:1/" })).unwrap();
        let text = format!("{head}{DIALOGUE}");
        Dialogue::parse(&text, &Schemas::compile(&[order]).unwrap()).unwrap()
    }

    const DIALOGUE: &str = r#"
[[turn]]
say = { es = "uno", en = "one" }
[[turn]]
say = [{ es = "dos" }, { es = "dos bis" }]
[otherwise]
say = { es = "otro" }
[digit.7]
cancel = "order"
say = { es = "siete" }
call = { tool = "order", arguments = { item = "{{digit}}", by = "{{caller}}", turn = "{{turn}}" } }
[digit.9]
say = { es = "su clave" }
[digit.9.collect]
digits = 4
end = '#'
wait_s = 5
then = { call = { tool = "order", arguments = { item = "{{digits}}" } } }
missing = { say = { es = "faltan" } }
[[silence]]
after_s = 5
say = { es = "¿hola?" }
[[silence]]
after_s = 10
say = { es = "adiós" }
hang_up = true
"#;
}
