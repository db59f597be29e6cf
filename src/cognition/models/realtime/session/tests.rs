//! A conversation with a service that does what a test says.

use std::collections::{BTreeMap, BTreeSet};

use recado_core::conversation::effect::{Cause, HeardText, Purpose, Standing, ToolStatus};
use recado_core::conversation::input::{Acoustic, AcousticEdge, AcousticEpoch, Evidence, ModelEvent, SegmentRef, ToolCall};
use recado_core::ledger::Cancellation;
use recado_core::policy::Language;
use recado_core::{BatchId, DeliveryId, OperationId, PlaybackId, ResponseId, Time, TurnId};
use serde_json::{Value, json};

use super::*;
use crate::cognition::models::link::Session as _;
use crate::cognition::models::message::LeftMessage;

/// A session and its service.
struct Stage {
    session: Session,
    now: Time,
}

impl Stage {
    fn new(settings: &str) -> Self {
        let service = toml::from_str(&format!("url = 'ws://127.0.0.1/'\nmodel = 'm'\n{settings}")).unwrap();
        let tool = toml::from_str(
            "name = 'order'\ndescription = 'Orders'\nurl = 'http://127.0.0.1/'\n\
             parameters = { type = 'object', required = ['item'], additionalProperties = false, properties = { item = { type = 'string' } } }",
        );
        let setup = Setup::new(&service, Language::Es, "Sé breve.".into(), &[tool.unwrap()], true).unwrap();
        Self { session: Session::new(setup), now: Time(1_000) }
    }

    /// With a connection, and the session set.
    fn ready(settings: &str) -> Self {
        let mut stage = Self::new(settings);
        stage.connect();
        stage
    }

    /// What is sent when a connection stands, after the session's settings.
    fn connect(&mut self) -> Vec<Value> {
        assert_eq!(self.give(Line::Connected), []);
        let set = self.server(json!({ "type": "session.created", "session": { "id": "sess_1" } }));
        assert_eq!(sent(&set)[0]["type"], "session.update");
        let ready = self.server(json!({ "type": "session.updated", "session": {} }));
        assert!(ready.contains(&Action::Said(Said::Ready)));
        sent(&ready)
    }

    fn give(&mut self, input: impl Into<Input>) -> Vec<Action> {
        self.session.handle(self.now, input)
    }

    fn server(&mut self, event: Value) -> Vec<Action> {
        self.give(Line::Server(ServerEvent::read(&event.to_string()).unwrap()))
    }

    fn tell(&mut self, command: Command) -> Vec<Action> {
        self.give(Told::Command(command))
    }

    fn respond(&mut self, response: ResponseId, cause: Cause) -> Vec<Action> {
        self.tell(Command::Respond { response, cause })
    }

    fn acoustic(&mut self, to: Acoustic) -> Vec<Action> {
        self.tell(Command::Acoustic(AcousticEdge { to, epoch: AcousticEpoch(1), at: self.now }))
    }

    /// The caller speaks for so long, and stops.
    fn caller_speaks(&mut self, frames: usize) {
        self.acoustic(Acoustic::Suspected);
        self.acoustic(Acoustic::Speaking);
        (0..frames).for_each(|_| drop(self.give(Told::Caller(vec![0x55; 160]))));
        self.acoustic(Acoustic::Trailing);
        self.acoustic(Acoustic::Quiet);
    }

    /// The response that was asked for last begins under this name.
    fn begins(&mut self, id: &str, response: ResponseId) -> Vec<Action> {
        self.server(json!({
            "type": "response.created",
            "response": { "id": id, "status": "in_progress", "metadata": { "recado_response": response.to_string() } },
        }))
    }

    /// It ends.
    fn ends(&mut self, id: &str, status: &str) -> Vec<Action> {
        self.server(json!({ "type": "response.done", "response": { "id": id, "status": status } }))
    }

    /// It says so many milliseconds.
    fn speaks(&mut self, id: &str, item: &str, words: &str, ms: usize) -> Vec<Action> {
        use base64::Engine;
        let audio = base64::engine::general_purpose::STANDARD.encode(vec![0x55u8; ms * 8]);
        let mut actions = self.server(json!({
            "type": "response.output_audio_transcript.delta", "response_id": id, "item_id": item, "delta": words,
        }));
        actions.extend(self.server(json!({
            "type": "response.output_audio.delta", "response_id": id, "item_id": item, "content_index": 0, "delta": audio,
        })));
        actions
    }

    fn calls(&mut self, id: &str, call_id: &str, name: &str, arguments: &str) -> Vec<Action> {
        self.server(json!({
            "type": "response.function_call_arguments.done", "response_id": id, "item_id": format!("item_{call_id}"),
            "call_id": call_id, "name": name, "arguments": arguments,
        }))
    }

    fn later(&mut self, ms: u64) -> Vec<Action> {
        self.now = self.now.plus(ms);
        self.give(Line::Wake)
    }
}

/// What was sent, without the events' names.
fn sent(actions: &[Action]) -> Vec<Value> {
    let events = actions.iter().filter_map(|action| match action {
        Action::Send(event) => Some(serde_json::to_value(&event.body).unwrap()),
        _ => None,
    });
    events.collect()
}

/// The types of what was sent.
fn types(actions: &[Action]) -> Vec<String> {
    sent(actions).iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

/// The name of the first event that was sent of this type.
fn event_id(actions: &[Action], kind: &str) -> String {
    let event = actions.iter().find_map(|action| match action {
        Action::Send(event) if serde_json::to_value(&event.body).unwrap()["type"] == kind => Some(event.event_id.clone()),
        _ => None,
    });
    event.unwrap()
}

fn events(actions: &[Action]) -> Vec<ModelEvent> {
    let events = actions.iter().filter_map(|action| match action {
        Action::Said(Said::Output(Output::Event(event))) => Some(event.clone()),
        _ => None,
    });
    events.collect()
}

fn audio_bytes(actions: &[Action]) -> usize {
    let bytes = actions.iter().map(|action| match action {
        Action::Said(Said::Output(Output::Audio { bytes, .. })) => bytes.len(),
        _ => 0,
    });
    bytes.sum()
}

/// The words of the items that are created.
/// The words of its speech.
fn spoken(actions: &[Action]) -> Vec<String> {
    let words = actions.iter().filter_map(|action| match action {
        Action::Said(Said::Output(Output::Words { text, .. })) => Some(text.clone()),
        _ => None,
    });
    words.collect()
}

fn words(events: &[Value]) -> Vec<String> {
    let created = events.iter().filter(|event| event["type"] == "conversation.item.create");
    created
        .map(|event| format!("{}: {}", event["item"]["role"].as_str().unwrap(), event["item"]["content"][0]["text"].as_str().unwrap()))
        .collect()
}

/// The output of a call that was sent first.
fn output_of(actions: &[Action]) -> String {
    sent(actions)[0]["item"]["output"].as_str().unwrap().to_owned()
}

fn failure(actions: &[Action]) -> String {
    match &events(actions)[..] {
        [.., ModelEvent::Failed { reason, .. }] => reason.clone(),
        other => panic!("{other:?}"),
    }
}

fn fault(code: &str, event_id: Option<&str>) -> Value {
    json!({ "type": "error", "error": { "type": "invalid_request_error", "code": code, "message": "m", "event_id": event_id } })
}

const A: ResponseId = ResponseId(1);
const B: ResponseId = ResponseId(2);
const TURN: Cause = Cause::Turn { turn: TurnId(1) };

#[test]
fn what_is_asked_for_before_there_is_a_session_waits_for_it() {
    let mut stage = Stage::new("");
    assert_eq!(stage.respond(A, Cause::Greeting), []);
    let sent = stage.connect();
    assert_eq!(words(&sent), ["system: The call has begun and nobody has spoken yet. Greet the caller."]);
    assert_eq!(sent[1], json!({ "type": "response.create", "response": { "metadata": { "recado_response": A.to_string() } } }));
}

#[test]
fn a_turn_makes_an_item_of_what_the_caller_said_and_asks_for_a_response_to_it() {
    let mut stage = Stage::ready("");
    stage.acoustic(Acoustic::Suspected);
    assert_eq!(types(&stage.give(Told::Caller(vec![0; 160]))), ["input_audio_buffer.append"]);
    stage.caller_speaks(10);
    let asked = stage.respond(A, TURN);
    assert_eq!(types(&asked), ["input_audio_buffer.commit", "response.create"]);
    stage.begins("resp_1", A);
    let said = stage.speaks("resp_1", "item_1", "Claro que sí. ", 200);
    assert_eq!((spoken(&said).as_slice(), events(&said).as_slice()), (["Claro que".to_owned()].as_slice(), [].as_slice()));
    assert_eq!(audio_bytes(&said), 1_600);
    let done = stage.ends("resp_1", "completed");
    assert_eq!(spoken(&done), [" sí. "]);
    assert_eq!(events(&done), [ModelEvent::Complete { response: A }]);
}

#[test]
fn a_turn_without_enough_audio_for_an_item_is_asked_about_all_the_same() {
    let mut stage = Stage::ready("");
    assert_eq!(types(&stage.respond(A, TURN)), ["response.create"]);
}

#[test]
fn one_response_at_a_time_is_asked_for_and_the_next_one_when_it_has_ended() {
    let mut stage = Stage::ready("");
    assert_eq!(types(&stage.respond(A, TURN)), ["response.create"]);
    stage.caller_speaks(10);
    assert_eq!(types(&stage.respond(B, TURN)), ["input_audio_buffer.commit"], "what was said is not mixed with what comes next");
    stage.begins("resp_1", A);
    let next = stage.ends("resp_1", "completed");
    assert_eq!(types(&next), ["response.create"]);
    assert_eq!(sent(&next)[0]["response"]["metadata"]["recado_response"], B.to_string());
}

#[test]
fn a_response_that_nobody_asked_for_is_waited_for_and_then_ours_is_asked_for_again() {
    let mut stage = Stage::ready("");
    let asked = stage.respond(A, Cause::Greeting);
    let refused = stage.server(fault("conversation_already_has_active_response", Some(&event_id(&asked, "response.create"))));
    assert_eq!(refused, []);
    stage.server(json!({ "type": "response.created", "response": { "id": "resp_foreign", "conversation_id": "conv" } }));
    let foreign = stage.speaks("resp_foreign", "item_1", "Nobody asked. Really. ", 20);
    assert_eq!((events(&foreign), spoken(&foreign)), (vec![], vec![]));
    let again = stage.ends("resp_foreign", "completed");
    assert_eq!(types(&again), ["response.create"], "the model is told once why");
    // And where its end is never heard of, a little later.
    stage.server(fault("conversation_already_has_active_response", None));
    assert_eq!(stage.session.deadline(), Some(stage.now.plus(1_000)));
    assert_eq!(types(&stage.later(1_000)), ["response.create"]);
    for _ in 0..2 {
        stage.server(fault("conversation_already_has_active_response", None));
        stage.later(1_000);
    }
    let last = stage.server(fault("conversation_already_has_active_response", None));
    assert!(failure(&last).contains("nobody asked for"), "{last:?}");
}

#[test]
fn a_response_of_somebody_else_that_begins_while_ours_is_awaited_is_not_taken_for_ours() {
    let mut stage = Stage::ready("");
    let foreign = json!({ "type": "response.created", "response": { "id": "resp_foreign", "conversation_id": "conv" } });
    // A service that does not say whose a response is may mislead, until it complains.
    let asked = stage.respond(A, Cause::Greeting);
    stage.server(foreign.clone());
    stage.server(fault("conversation_already_has_active_response", Some(&event_id(&asked, "response.create"))));
    let again = stage.ends("resp_foreign", "completed");
    assert_eq!((types(&again), events(&again)), (vec!["response.create".to_owned()], vec![]));
    stage.server(fault("conversation_already_has_active_response", Some(&event_id(&asked, "response.create"))));
    stage.begins("resp_1", A);
    assert_eq!(events(&stage.ends("resp_1", "completed")), [ModelEvent::Complete { response: A }], "the complaint came twice");
    // From one that does say so, it is not even taken for ours.
    stage.respond(B, TURN);
    stage.server(foreign);
    assert_eq!(events(&stage.ends("resp_foreign", "completed")), []);
    stage.begins("resp_2", B);
    assert_eq!(events(&stage.ends("resp_2", "completed")), [ModelEvent::Complete { response: B }]);
}

#[test]
fn nothing_more_of_a_cancelled_response_is_heard_and_the_next_one_waits_until_it_has_ended() {
    let mut stage = Stage::ready("");
    stage.respond(A, TURN);
    stage.begins("resp_1", A);
    stage.speaks("resp_1", "item_1", "Uno dos ", 100);
    let cancelled = stage.tell(Command::CancelResponse { response: A });
    assert_eq!(sent(&cancelled), [json!({ "type": "response.cancel", "response_id": "resp_1" })]);
    assert_eq!(stage.respond(B, TURN), []);
    assert_eq!(stage.speaks("resp_1", "item_1", "tres. Cuatro. ", 100), []);
    let called = stage.calls("resp_1", "call_1", "order", r#"{"item":"pan"}"#);
    assert_eq!((events(&called), types(&called)), (vec![], vec!["conversation.item.create".to_owned()]));
    assert!(output_of(&called).contains("not_accepted"), "the model knows that nothing was done");
    assert_eq!(stage.calls("resp_1", "call_1", "order", r#"{"item":"pan"}"#), []);
    let ended = stage.ends("resp_1", "cancelled");
    assert_eq!(types(&ended), ["response.create"]);
    assert!(ended.contains(&Action::Said(Said::Cancelled { response: A, confirmed: true })));
    stage.begins("resp_2", B);
    assert_eq!(stage.speaks("resp_1", "item_1", "cinco. Seis. ", 100), [], "late");
    assert_eq!(audio_bytes(&stage.speaks("resp_2", "item_2", "Dígame usted. ", 100)), 800);
}

#[test]
fn a_cancel_before_the_response_began_cancels_it_when_it_begins_all_the_same() {
    let mut stage = Stage::ready("");
    stage.respond(A, TURN);
    let cancelled = stage.tell(Command::CancelResponse { response: A });
    assert_eq!(sent(&cancelled), [json!({ "type": "response.cancel" })]);
    let nothing = stage.server(fault("response_cancel_not_active", Some(&event_id(&cancelled, "response.cancel"))));
    assert_eq!(nothing, [Action::Said(Said::Cancelled { response: A, confirmed: true })]);
    assert_eq!(sent(&stage.begins("resp_1", A)), [json!({ "type": "response.cancel", "response_id": "resp_1" })]);
    assert_eq!(stage.speaks("resp_1", "item_1", "Uno. Dos. ", 100), []);
}

#[test]
fn a_response_that_is_cancelled_before_it_was_asked_for_is_not_asked_for() {
    let mut stage = Stage::new("");
    stage.respond(A, Cause::Greeting);
    stage.tell(Command::CancelResponse { response: A });
    assert_eq!(stage.connect(), [] as [Value; 0]);
}

#[test]
fn a_cancel_that_the_service_says_nothing_about_holds_nobody_up() {
    let mut stage = Stage::ready("");
    stage.respond(A, TURN);
    stage.begins("resp_1", A);
    stage.tell(Command::CancelResponse { response: A });
    stage.respond(B, TURN);
    assert_eq!(stage.session.deadline(), Some(stage.now.plus(2_000)));
    let later = stage.later(2_000);
    assert_eq!(types(&later), ["response.create"]);
    assert!(later.contains(&Action::Said(Said::Cancelled { response: A, confirmed: false })));
}

#[test]
fn a_cancel_that_came_too_late_is_not_said_to_be_confirmed() {
    let mut stage = Stage::ready("");
    stage.respond(A, TURN);
    stage.begins("resp_1", A);
    stage.tell(Command::CancelResponse { response: A });
    assert_eq!(stage.ends("resp_1", "completed"), [Action::Said(Said::Cancelled { response: A, confirmed: false })]);
}

#[test]
fn the_item_that_was_playing_is_cut_where_it_was_heard_and_what_was_behind_it_is_removed() {
    let mut stage = Stage::ready("");
    stage.respond(A, TURN);
    stage.begins("resp_1", A);
    for (item, ms) in [("item_1", 400), ("item_2", 600), ("item_3", 300)] {
        stage.speaks("resp_1", item, "Una frase más. ", ms);
    }
    stage.ends("resp_1", "completed");
    let cut = stage.tell(Command::Truncate { response: A, heard_ms: 650, heard_text: "Una frase más. Una".into() });
    assert_eq!(
        sent(&cut)[..2],
        [
            json!({ "type": "conversation.item.truncate", "item_id": "item_2", "content_index": 0, "audio_end_ms": 250 }),
            json!({ "type": "conversation.item.delete", "item_id": "item_3" }),
        ]
    );
    assert_eq!(
        words(&sent(&cut)),
        ["system: You were cut off: of what you were saying, the caller heard this and no more: \"Una frase más. Una\""]
    );
    let again = stage.tell(Command::Truncate { response: A, heard_ms: 900, heard_text: String::new() });
    assert_eq!(again, [], "never beyond what is left of it");
}

#[test]
fn nothing_is_cut_beyond_the_audio_that_came_and_nothing_of_a_response_that_had_none() {
    let mut stage = Stage::ready("");
    stage.respond(A, TURN);
    stage.begins("resp_1", A);
    stage.speaks("resp_1", "item_1", "Una frase. ", 100);
    assert_eq!(stage.tell(Command::Truncate { response: A, heard_ms: 100, heard_text: "Una frase.".into() }), []);
    assert_eq!(stage.tell(Command::Truncate { response: A, heard_ms: 5_000, heard_text: "Una frase.".into() }), []);
    assert_eq!(stage.tell(Command::Truncate { response: B, heard_ms: 50, heard_text: "Una".into() }), []);
    let nothing_heard = stage.tell(Command::Truncate { response: A, heard_ms: 0, heard_text: String::new() });
    assert_eq!(sent(&nothing_heard), [json!({ "type": "conversation.item.delete", "item_id": "item_1" })]);
}

#[test]
fn a_call_is_taken_once_and_answered_once_at_once_and_never_with_a_result() {
    let mut stage = Stage::ready("");
    stage.respond(A, TURN);
    stage.begins("resp_1", A);
    let item =
        json!({ "id": "item_call_1", "type": "function_call", "name": "order", "call_id": "call_1", "arguments": r#"{"item":"pan"}"# });
    stage.server(json!({ "type": "response.output_item.added", "response_id": "resp_1", "item": { "id": "item_call_1", "type": "function_call", "name": "order" } }));
    let called = stage.server(json!({
        "type": "response.function_call_arguments.done", "response_id": "resp_1", "item_id": "item_call_1", "call_id": "call_1",
        "arguments": r#"{"item":"pan"}"#,
    }));
    let call = ToolCall { call_id: "call_1".into(), tool: "order".into(), arguments: json!({ "item": "pan" }), confirmed: false };
    assert_eq!(events(&called), [ModelEvent::ToolCall { response: A, call }]);
    assert_eq!(stage.server(json!({ "type": "response.output_item.done", "response_id": "resp_1", "item": item })), []);
    let output = |status| Command::ToolOutput { call_id: "call_1".into(), operation: Some(OperationId(7)), status };
    let answered = sent(&stage.tell(output(ToolStatus::Running)));
    assert_eq!((&answered[0]["item"]["type"], &answered[0]["item"]["call_id"]), (&json!("function_call_output"), &json!("call_1")));
    let said: Value = serde_json::from_str(answered[0]["item"]["output"].as_str().unwrap()).unwrap();
    assert_eq!((&said["status"], &said["retryable"]), (&json!("running"), &json!(false)));
    assert_eq!(events(&stage.ends("resp_1", "completed")), [ModelEvent::Complete { response: A }]);
    let news = sent(&stage.tell(output(ToolStatus::Told)));
    assert_eq!(news.len(), 1);
    assert!(words(&news)[0].starts_with("system: About order, which was called before: The caller has been told its result"), "{news:?}");
}

#[test]
fn a_call_of_which_nothing_has_been_said_is_answered_before_the_model_is_asked_again() {
    let mut stage = Stage::ready("");
    stage.respond(A, TURN);
    stage.begins("resp_1", A);
    stage.calls("resp_1", "call_1", "order", r#"{"item":"pan"}"#);
    stage.ends("resp_1", "completed");
    let asked = stage.respond(B, TURN);
    assert_eq!(types(&asked), ["conversation.item.create", "response.create"]);
    assert!(output_of(&asked).contains("\"status\":\"pending\""), "{asked:?}");
    let output = Command::ToolOutput { call_id: "call_1".into(), operation: Some(OperationId(1)), status: ToolStatus::Running };
    assert_eq!(sent(&stage.tell(output))[0]["item"]["type"], "message", "and has its one output");
}

#[test]
fn a_call_that_was_cut_off_in_the_middle_is_none() {
    let mut stage = Stage::ready("");
    stage.respond(A, TURN);
    stage.begins("resp_1", A);
    let item = json!({ "id": "item_1", "type": "function_call", "status": "incomplete", "name": "order", "call_id": "call_1", "arguments": "{\"it" });
    assert_eq!(stage.server(json!({ "type": "response.output_item.done", "response_id": "resp_1", "item": item })), []);
}

#[test]
fn two_calls_of_one_name_get_an_output_each() {
    let mut stage = Stage::ready("");
    let output =
        |operation| Command::ToolOutput { call_id: "call_1".into(), operation: Some(OperationId(operation)), status: ToolStatus::Running };
    let mut outputs = Vec::new();
    for (id, response) in [("resp_1", A), ("resp_2", B)] {
        outputs.extend(sent(&stage.respond(response, TURN)));
        stage.begins(id, response);
        stage.calls(id, "call_1", "order", r#"{"item":"pan"}"#);
        stage.ends(id, "completed");
    }
    // The first has its output already, as the model was asked again: what is said of it is news.
    outputs.extend([1, 2, 2].into_iter().flat_map(|operation| sent(&stage.tell(output(operation)))));
    let kinds: Vec<&Value> =
        outputs.iter().filter(|event| event["type"] == "conversation.item.create").map(|event| &event["item"]["type"]).collect();
    assert_eq!(kinds, ["function_call_output", "message", "function_call_output", "message"]);
}

#[test]
fn a_call_that_cannot_be_taken_is_answered_with_the_reason_and_the_model_asked_again_twice() {
    let mut stage = Stage::ready("");
    stage.respond(A, TURN);
    for (n, (name, arguments)) in [("order", "{\"item\":"), ("order", "{}"), ("pay", "{}")].into_iter().enumerate() {
        let id = format!("resp_{n}");
        stage.begins(&id, A);
        let refused = stage.calls(&id, &format!("call_{n}"), name, arguments);
        assert_eq!(events(&refused), []);
        let output: Value = serde_json::from_str(sent(&refused)[0]["item"]["output"].as_str().unwrap()).unwrap();
        assert_eq!(output["status"], "not_accepted", "{output}");
        let ended = stage.ends(&id, "completed");
        if n < 2 {
            assert_eq!((types(&ended), events(&ended)), (vec!["response.create".to_owned()], vec![]));
        } else {
            assert!(failure(&ended).contains("`pay`") || failure(&ended).contains("pay"), "{ended:?}");
        }
    }
}

#[test]
fn a_repeat_that_the_caller_has_confirmed_is_said_apart_from_the_arguments() {
    let mut stage = Stage::ready("");
    stage.respond(A, TURN);
    stage.begins("resp_1", A);
    let called = stage.calls("resp_1", "call_1", "order", r#"{"item":"pan","caller_confirmed":true}"#);
    let call = ToolCall { call_id: "call_1".into(), tool: "order".into(), arguments: json!({ "item": "pan" }), confirmed: true };
    assert_eq!(events(&called), [ModelEvent::ToolCall { response: A, call }]);
}

#[test]
fn the_boxs_own_functions_become_events_and_are_answered_at_once() {
    let mut stage = Stage::ready("");
    stage.respond(A, TURN);
    stage.begins("resp_1", A);
    for (n, (name, arguments, expected)) in [
        ("end_call", "", ModelEvent::HangUp { response: A }),
        ("cancel_work", r#"{"tool":"order"}"#, ModelEvent::CancelIntent { response: A, tool: Some("order".into()), work: None }),
        ("cancel_work", "{}", ModelEvent::CancelIntent { response: A, tool: None, work: None }),
        ("cancel_work", r#"{"work":"w2"}"#, ModelEvent::CancelIntent { response: A, tool: None, work: Some("w2".into()) }),
        ("list_work", "{}", ModelEvent::ListWork { response: A }),
        ("repeat_last", "{}", ModelEvent::RepeatLast { response: A }),
        ("ask_for_pin", "{}", ModelEvent::AskForPin { response: A }),
        ("verify_caller", r#"{"pin":"4 7-15"}"#, ModelEvent::VerifyCaller { response: A, pin: "4715".to_owned().into() }),
        (
            "collect_keys",
            r##"{"digits_max":4,"end_key":"#"}"##,
            ModelEvent::CollectDigits { response: A, digits_max: 4, end: Some('#'), wait_ms: 5_000 },
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let called = stage.calls("resp_1", &format!("call_{n}"), name, arguments);
        assert_eq!(events(&called), [expected]);
        assert_eq!(sent(&called)[0]["item"]["type"], "function_call_output");
        let output = sent(&called)[0]["item"]["output"].as_str().unwrap().to_owned();
        let status = if matches!(name, "ask_for_pin" | "verify_caller") { "pending" } else { "done" };
        assert!(output.contains(&format!("\"status\":\"{status}\"")), "{name}: {output}");
    }
    for (n, arguments) in
        [r#"{"digits_max":0}"#, r#"{"digits_max":400}"#, r#"{"digits_max":4,"end_key":"7"}"#, "{}"].into_iter().enumerate()
    {
        assert_eq!(events(&stage.calls("resp_1", &format!("wrong_{n}"), "collect_keys", arguments)), []);
    }
}

#[test]
fn a_message_that_the_model_wants_taken_is_no_turn_of_the_callers_and_what_became_of_it_is_asked_to_be_told() {
    let mut stage = Stage::ready("");
    stage.respond(A, TURN);
    stage.begins("resp_1", A);
    let called = stage.calls("resp_1", "call_1", "take_message", "{}");
    assert!(called.contains(&Action::Said(Said::Output(Output::WantsMessage { response: A }))), "{called:?}");
    let output = &sent(&called)[0]["item"];
    assert!(output["type"] == "function_call_output" && output["output"].as_str().unwrap().contains("\"taking\""), "{output}");
    stage.ends("resp_1", "completed");
    let asked = sent(&stage.tell(Command::TellOfMessage { response: B, left: LeftMessage::Kept { seconds: 4, is_cut: false } }));
    let kinds: Vec<&str> = asked.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["conversation.item.create", "response.create"], "nothing of the caller's");
    assert!(asked[0]["item"].to_string().contains("4 seconds long. It is recorded and kept."), "{}", asked[0]);
}

#[test]
fn what_happens_beside_the_speech_is_told_as_items_of_the_box() {
    let mut stage = Stage::ready("");
    let cancellation = Cancellation { cancelling: vec![], ended: vec![], refused: vec![], say: "Lo cancelo.".into() };
    for (command, said) in [
        (Command::Told { delivery: DeliveryId(1), text: "Pan pedido.".into() }, "do not repeat it: \"Pan pedido.\""),
        (
            Command::Update { delivery: DeliveryId(2), text: "Va por la mitad.".into() },
            "the caller has not been told: \"Va por la mitad.\"",
        ),
        (Command::Cancelling(cancellation), "the caller is told this, in your name: \"Lo cancelo.\""),
    ] {
        let told = words(&sent(&stage.tell(command)));
        assert!(told[0].starts_with("system: ") && told[0].ends_with(said), "{told:?}");
    }
    for (cause, said) in [
        (Cause::Digit { turn: TurnId(1), digit: '5' }, "user: (The caller pressed the key 5.)"),
        (
            Cause::Digits { turn: TurnId(1), digits: "12".into(), complete: false },
            "user: (The caller keyed in 12 and then nothing more: it is less than was asked for.)",
        ),
        (
            Cause::Silence { quiet_ms: 8_000 },
            "system: Nobody has spoken for 8 seconds. Ask, in a few words, whether the caller is still there.",
        ),
    ] {
        let mut stage = Stage::ready("");
        assert_eq!(words(&sent(&stage.respond(A, cause))), [said]);
    }
}

#[test]
fn what_the_box_speaks_in_the_models_name_is_marked_until_it_is_settled() {
    let mut stage = Stage::ready("");
    let segment = SegmentRef { playback: PlaybackId(1), index: 0 };
    let heard = |text: &str, purpose, standing| Command::Heard(HeardText { segment, purpose, text: text.into(), heard_ms: 500, standing });
    let acceptance = Purpose::Acceptance { batch: BatchId(1) };
    let saying = sent(&stage.tell(heard("Lo pido", acceptance, Standing::Provisional)));
    assert!(words(&saying)[0].starts_with("system: This is being said to the caller"), "{saying:?}");
    let name = saying[0]["item"]["id"].clone();
    assert!(name.as_str().unwrap().len() <= 32);
    let settled = sent(&stage.tell(heard("Lo pido y le digo.", acceptance, Standing::Settled(Evidence::Received))));
    assert_eq!(settled[0], json!({ "type": "conversation.item.delete", "item_id": name }));
    assert_eq!(words(&settled), ["assistant: Lo pido y le digo."]);
    stage.respond(A, TURN);
    stage.begins("resp_1", A);
    stage.ends("resp_1", "completed");
    let reply = Purpose::Reply { response: A };
    let segment = SegmentRef { playback: PlaybackId(1), index: 1 };
    let own = |standing| Command::Heard(HeardText { segment, purpose: reply, text: "Claro".into(), heard_ms: 500, standing });
    assert_eq!(stage.tell(own(Standing::Provisional)), [], "the service has the model's own words");
    let doubted = sent(&stage.tell(own(Standing::Uncertain)));
    assert_eq!(words(&doubted), ["system: Whether the caller heard this is not known: \"Claro\""]);
    let name = doubted[0]["item"]["id"].clone();
    assert_eq!(
        sent(&stage.tell(own(Standing::Settled(Evidence::Received)))),
        [json!({ "type": "conversation.item.delete", "item_id": name })]
    );
}

#[test]
fn what_the_caller_hears_in_the_place_of_a_response_that_failed_is_told_to_the_model() {
    let mut stage = Stage::ready("");
    stage.respond(A, TURN);
    stage.begins("resp_1", A);
    assert!(!failure(&stage.ends("resp_1", "failed")).is_empty());
    let segment = SegmentRef { playback: PlaybackId(1), index: 0 };
    let (purpose, standing) = (Purpose::Reply { response: A }, Standing::Settled(Evidence::Received));
    let heard = Command::Heard(HeardText { segment, purpose, text: "Deje un recado.".into(), heard_ms: 500, standing });
    assert_eq!(words(&sent(&stage.tell(heard))), ["assistant: Deje un recado."]);
    // What it had said itself before it failed, it knows.
    stage.respond(B, TURN);
    stage.begins("resp_2", B);
    stage.speaks("resp_2", "item_2", "Claro que sí. ", 900);
    stage.ends("resp_2", "failed");
    let (segment, purpose) = (SegmentRef { playback: PlaybackId(2), index: 0 }, Purpose::Reply { response: B });
    let heard = Command::Heard(HeardText { segment, purpose, text: "Claro que sí.".into(), heard_ms: 500, standing });
    assert_eq!(stage.tell(heard), []);
}

#[test]
fn what_was_answered_elsewhere_is_forgotten_on_this_connection_and_every_later_one_and_what_was_answered_here_is_not() {
    let deleted = |actions: &[Action]| {
        let deletes = sent(actions).into_iter().filter(|event| event["type"] == "conversation.item.delete");
        deletes.map(|event| event["item_id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let turn = |stage: &mut Stage, response, item: &str, id: &str| {
        stage.caller_speaks(10);
        stage.respond(response, TURN);
        stage.server(json!({ "type": "input_audio_buffer.committed", "item_id": item }));
        stage.begins(id, response);
    };
    let written = |stage: &mut Stage, item: &str, words: &str| {
        stage.server(json!({ "type": "conversation.item.input_audio_transcription.completed", "item_id": item, "transcript": words }));
    };
    let mut stage = Stage::ready("transcription_model = 'scribe'");
    turn(&mut stage, A, "item_u1", "resp_1");
    stage.speaks("resp_1", "item_1", "Claro. ", 500);
    stage.ends("resp_1", "completed");
    turn(&mut stage, B, "item_u2", "resp_2");
    stage.ends("resp_2", "failed");
    assert_eq!(deleted(&stage.tell(Command::AnsweredElsewhere)), ["item_u2"]);
    // What is written down late is forgotten all the same.
    written(&mut stage, "item_u1", "Hola.");
    written(&mut stage, "item_u2", "Quiero pan.");
    stage.give(Line::Lost { reason: "broke".into() });
    let told = words(&stage.connect());
    assert!(told[0] == "user: Hola." && !told.iter().any(|words| words.contains("pan")), "{told:?}");
    assert!(told[1].contains("could not hear or answer"), "{told:?}");
    // One that was lost with its connection, and is known to the next one.
    turn(&mut stage, A, "item_u3", "resp_3");
    written(&mut stage, "item_u3", "Quiero vino.");
    stage.give(Line::Lost { reason: "broke".into() });
    let restored = stage.connect();
    let wine = restored.iter().find(|event| event.to_string().contains("vino")).expect("it is told");
    assert_eq!(deleted(&stage.tell(Command::AnsweredElsewhere)), [wine["item"]["id"].as_str().expect("it has a name")]);
    assert_eq!(deleted(&stage.tell(Command::AnsweredElsewhere)), [""; 0]);
}

#[test]
fn what_is_settled_on_a_new_connection_takes_the_place_of_what_it_was_told_and_what_it_was_not_is_told() {
    let mut stage = Stage::ready("");
    stage.respond(A, TURN);
    stage.begins("resp_1", A);
    stage.speaks("resp_1", "item_1", "Una frase. Otra frase. ", 900);
    stage.ends("resp_1", "completed");
    let heard = |index, purpose, standing| {
        let segment = SegmentRef { playback: PlaybackId(1), index };
        Command::Heard(HeardText { segment, purpose, text: format!("frase {index}"), heard_ms: 500, standing })
    };
    let settled = Standing::Settled(Evidence::Received);
    let (reply, acceptance) = (Purpose::Reply { response: A }, Purpose::Acceptance { batch: BatchId(1) });
    let first = sent(&stage.tell(heard(0, acceptance, Standing::Provisional)));
    stage.tell(heard(1, reply, Standing::Provisional));
    stage.give(Line::Lost { reason: "broke".into() });
    let restored = stage.connect();
    assert_eq!(words(&restored).len(), 2);
    let names: Vec<&Value> = restored.iter().map(|event| &event["item"]["id"]).collect();
    assert!(names.iter().all(|name| name.is_string() && **name != first[0]["item"]["id"]), "{restored:?}");
    for (index, purpose) in [(0, acceptance), (1, reply)] {
        let sent = sent(&stage.tell(heard(index, purpose, settled)));
        assert_eq!(sent[0], json!({ "type": "conversation.item.delete", "item_id": names[index as usize] }));
        assert_eq!(words(&sent), [format!("assistant: frase {index}")]);
    }
    stage.give(Line::Lost { reason: "broke again".into() });
    let restored = stage.connect();
    let again = sent(&stage.tell(heard(1, reply, settled)));
    assert_eq!(again[0], json!({ "type": "conversation.item.delete", "item_id": restored[1]["item"]["id"] }), "evidence that came late");
    let late = sent(&stage.tell(heard(2, reply, settled)));
    assert_eq!((late.len(), words(&late)), (1, vec!["assistant: frase 2".to_owned()]));
}

#[test]
fn noise_is_forgotten_by_the_service() {
    let mut stage = Stage::ready("");
    stage.acoustic(Acoustic::Suspected);
    stage.give(Told::Caller(vec![0; 160]));
    assert_eq!(types(&stage.acoustic(Acoustic::Quiet)), ["input_audio_buffer.clear"]);
}

#[test]
fn a_text_is_rendered_beside_the_conversation_and_told_apart_by_its_name() {
    let mut stage = Stage::ready("");
    stage.respond(A, TURN);
    stage.begins("resp_1", A);
    let asked = sent(&stage.give(Told::Render { render: RenderId(7), text: "Son 3,50 euros.".into() }));
    let response = &asked[0]["response"];
    assert_eq!((&response["conversation"], &response["metadata"]), (&json!("none"), &json!({ "recado_render": "7" })));
    assert_eq!(response["input"][0]["content"], json!([{ "type": "input_text", "text": "Son 3,50 euros." }]));
    assert_eq!(response["tool_choice"], "none");
    stage.server(json!({ "type": "response.created", "response": { "id": "resp_2", "metadata": { "recado_render": "7" } } }));
    let rendered = stage.speaks("resp_2", "item_2", "Son 3,50 euros.", 20);
    assert_eq!(rendered, [Action::Said(Said::Rendered { render: RenderId(7), bytes: vec![0x55; 160] })]);
    assert_eq!(audio_bytes(&stage.speaks("resp_1", "item_1", "Dígame usted. ", 20)), 160, "the conversation goes on");
    assert_eq!(stage.ends("resp_2", "completed"), [Action::Said(Said::RenderEnded { render: RenderId(7), result: Ok(()) })]);
}

#[test]
fn a_text_that_is_not_rendered_is_said_to_be_so() {
    let ended = |actions: &[Action]| match actions {
        [.., Action::Said(Said::RenderEnded { render: RenderId(7), result: Err(reason) })] => reason.clone(),
        other => panic!("{other:?}"),
    };
    let render = || Told::Render { render: RenderId(7), text: "Hola.".into() };
    let created = json!({ "type": "response.created", "response": { "id": "resp_2", "metadata": { "recado_render": "7" } } });
    assert!(ended(&Stage::new("").give(render())).contains("no connection"));
    let mut stage = Stage::ready("");
    let asked = stage.give(render());
    assert!(ended(&stage.server(fault("invalid_value", Some(&event_id(&asked, "response.create"))))).contains("invalid_value"));
    stage.give(render());
    stage.server(created.clone());
    assert!(ended(&stage.ends("resp_2", "completed")).contains("nothing"), "no audio came");
    stage.give(render());
    stage.server(created);
    assert_eq!(stage.session.deadline(), Some(stage.now.plus(20_000)));
    let late = stage.later(20_000);
    assert!(ended(&late).contains("in time"));
    assert_eq!(sent(&late), [json!({ "type": "response.cancel", "response_id": "resp_2" })]);
    stage.give(render());
    assert!(ended(&stage.give(Line::Lost { reason: "gone".into() })).contains("gone"));
}

#[test]
fn a_response_that_ends_otherwise_than_complete_has_failed_with_the_reason() {
    for (response, said) in [
        (
            json!({ "id": "resp_1", "status": "failed", "status_details": { "error": { "code": "rate_limit_exceeded", "message": "Slow down." } } }),
            "rate_limit_exceeded: Slow down.",
        ),
        (json!({ "id": "resp_1", "status": "incomplete", "status_details": { "reason": "content_filter" } }), "not allowed"),
        (json!({ "id": "resp_1", "status": "incomplete", "status_details": { "reason": "max_output_tokens" } }), "longer"),
        (json!({ "id": "resp_1", "status": "cancelled", "status_details": { "reason": "turn_detected" } }), "nobody asked for"),
        (json!({ "id": "resp_1", "status": "exploded" }), "exploded"),
    ] {
        let mut stage = Stage::ready("");
        stage.respond(A, TURN);
        stage.begins("resp_1", A);
        let reason = failure(&stage.server(json!({ "type": "response.done", "response": response })));
        assert!(reason.contains(said), "{reason}");
    }
}

#[test]
fn an_error_about_what_was_asked_for_fails_it_and_one_about_something_else_is_passed_on() {
    let mut stage = Stage::ready("");
    let asked = stage.respond(A, TURN);
    let other = stage.server(fault("odd", Some("recado_of_another_life")));
    assert!(matches!(&other[..], [Action::Said(Said::Trouble(fault))] if fault.code() == "odd"), "{other:?}");
    assert!(failure(&stage.server(fault("odd", Some(&event_id(&asked, "response.create"))))).contains("odd"));
    stage.respond(B, TURN);
    assert!(failure(&stage.server(fault("odd", None))).contains("odd"), "many services don't say what it is about");
    for code in ["response_cancel_not_active", "input_audio_buffer_commit_empty"] {
        assert_eq!(stage.server(fault(code, None)), []);
    }
}

#[test]
fn a_session_that_the_service_refuses_is_refused_for_good_and_everybody_is_told_why() {
    let mut stage = Stage::new("");
    stage.respond(A, Cause::Greeting);
    stage.give(Line::Connected);
    let set = stage.server(json!({ "type": "session.created" }));
    let refused = stage.server(fault("invalid_value", Some(&event_id(&set, "session.update"))));
    assert!(failure(&refused[..1]).contains("invalid_value"));
    assert!(matches!(&refused[1..], [Action::Said(Said::Refused(fault))] if fault.code() == "invalid_value"), "{refused:?}");
    assert!(failure(&stage.respond(B, TURN)).contains("invalid_value"));
    stage.give(Line::Connected);
    assert_eq!(stage.session.deadline(), None);
    let mut stage = Stage::new("");
    stage.give(Line::Connected);
    assert!(matches!(&stage.server(fault("model_not_found", None))[..], [Action::Said(Said::Refused(_))]));
}

#[test]
fn a_session_that_an_overloaded_service_refuses_is_asked_for_again() {
    for (kind, code) in [("server_error", "odd"), ("invalid_request_error", "rate_limit_exceeded"), ("session_limit_reached", "")] {
        let mut stage = Stage::new("");
        stage.respond(A, Cause::Greeting);
        stage.give(Line::Connected);
        let refused = stage.server(json!({ "type": "error", "error": { "type": kind, "code": code, "message": "m" } }));
        assert!(matches!(&refused[..], [Action::Reconnect { .. }, Action::Said(Said::Trouble(_))]), "{refused:?}");
        assert_eq!(stage.connect().last().unwrap()["type"], "response.create", "what was asked for still is");
    }
}

#[test]
fn a_service_that_does_not_answer_is_given_up_for_another_connection() {
    let mut stage = Stage::new("answer_timeout_ms = 700");
    stage.give(Line::Connected);
    assert_eq!(stage.later(699), []);
    assert!(matches!(&stage.later(1)[..], [Action::Reconnect { .. }]));
    stage.give(Line::Connected);
    stage.server(json!({ "type": "session.created" }));
    assert!(matches!(&stage.later(700)[..], [Action::Reconnect { .. }]));
}

#[test]
fn a_session_near_its_limit_gets_a_new_connection_between_two_turns_and_never_within_one() {
    let mut stage = Stage::ready("renew_after_ms = 60000");
    assert_eq!(stage.session.deadline(), Some(stage.now.plus(60_000)));
    stage.acoustic(Acoustic::Suspected);
    stage.acoustic(Acoustic::Speaking);
    (0..20).for_each(|_| drop(stage.give(Told::Caller(vec![0; 160]))));
    assert_eq!(stage.later(60_000), []);
    assert_eq!(stage.session.deadline(), None, "it waits for an input, and does not spin");
    stage.acoustic(Acoustic::Trailing);
    stage.acoustic(Acoustic::Quiet);
    stage.respond(A, TURN);
    stage.begins("resp_1", A);
    let ended = stage.ends("resp_1", "completed");
    assert_eq!(events(&ended), [ModelEvent::Complete { response: A }]);
    assert!(matches!(ended.last(), Some(Action::Reconnect { .. })), "{ended:?}");
    stage.connect();
    assert_eq!(stage.session.deadline(), Some(stage.now.plus(60_000)));
}

#[test]
fn an_expired_session_gets_a_new_connection_at_once() {
    let mut stage = Stage::ready("");
    stage.respond(A, TURN);
    stage.begins("resp_1", A);
    let expired = stage.server(fault("session_expired", None));
    assert!(failure(&expired).contains("too old"));
    assert!(matches!(expired.first(), Some(Action::Reconnect { .. })), "before what fails with the connection: {expired:?}");
}

#[test]
fn a_new_connection_is_told_what_was_heard_and_what_runs_and_answers_no_call_of_the_old_one() {
    let mut stage = Stage::ready("transcription_model = 'scribe'");
    stage.caller_speaks(10);
    stage.respond(A, TURN);
    stage.server(json!({ "type": "input_audio_buffer.committed", "item_id": "item_u1" }));
    stage.begins("resp_1", A);
    stage.speaks("resp_1", "item_1", "Ahora mismo se lo pido, dijo. ", 2_000);
    stage.calls("resp_1", "call_1", "order", r#"{"item":"pan"}"#);
    stage.calls("resp_1", "call_2", "order", r#"{"item":"vino"}"#);
    stage.calls("resp_1", "call_3", "order", r#"{"item":"agua"}"#);
    stage.server(json!({ "type": "conversation.item.input_audio_transcription.completed", "item_id": "item_u1", "transcript": "Quiero pan y vino.", "usage": { "type": "tokens", "input_tokens": 9, "output_tokens": 4 } }));
    stage.ends("resp_1", "completed");
    let output = |call: &str, status| Command::ToolOutput { call_id: call.into(), operation: Some(OperationId(7)), status };
    stage.tell(output("call_1", ToolStatus::Running));
    let segment = SegmentRef { playback: PlaybackId(1), index: 0 };
    let heard = HeardText {
        segment,
        purpose: Purpose::Reply { response: A },
        text: "Ahora mismo".into(),
        heard_ms: 700,
        standing: Standing::Settled(Evidence::Received),
    };
    stage.tell(Command::Heard(heard));
    stage.tell(Command::Told { delivery: DeliveryId(1), text: "El pan está pedido.".into() });
    stage.give(Line::Lost { reason: "the connection broke".into() });
    assert_eq!(stage.tell(output("call_2", ToolStatus::Running)), []);
    let history = stage.connect();
    assert_eq!(
        words(&history)[..3],
        [
            "user: Quiero pan y vino.".to_owned(),
            "assistant: Ahora mismo".to_owned(),
            "system: The caller has been told this, in your name; do not repeat it: \"El pan está pedido.\"".to_owned(),
        ]
    );
    assert_eq!(words(&history)[3..].iter().filter(|words| words.starts_with("system: order was called earlier in this call.")).count(), 2);
    for (call, status) in [("call_2", ToolStatus::Told), ("call_3", ToolStatus::Refused)] {
        let later = sent(&stage.tell(output(call, status)));
        assert_eq!(later[0]["item"]["type"], "message", "the new connection knows no such call");
    }
    assert_eq!(stage.session.totals().transcription_usage.input_tokens, 9);
}

#[test]
fn what_the_caller_was_saying_when_the_connection_broke_is_heard_on_the_next_one() {
    let mut stage = Stage::ready("");
    stage.acoustic(Acoustic::Suspected);
    stage.acoustic(Acoustic::Speaking);
    (0..10).for_each(|_| drop(stage.give(Told::Caller(vec![0; 160]))));
    stage.give(Line::Lost { reason: "broke".into() });
    (0..10).for_each(|_| drop(stage.give(Told::Caller(vec![0; 160]))));
    stage.acoustic(Acoustic::Trailing);
    stage.acoustic(Acoustic::Quiet);
    assert_eq!(stage.respond(A, TURN), []);
    let sent = stage.connect();
    let kinds: Vec<&str> = sent.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["input_audio_buffer.append", "input_audio_buffer.commit", "response.create"]);
    assert_eq!(sent[0]["audio"].as_str().unwrap().len(), 20 * 160 * 4 / 3 + 4 - (20 * 160 * 4 / 3) % 4);
}

#[test]
fn a_turn_whose_item_was_lost_with_its_connection_has_failed_and_what_was_under_way_too() {
    let mut stage = Stage::ready("");
    stage.respond(A, TURN);
    stage.begins("resp_1", A);
    stage.caller_speaks(10);
    stage.respond(B, TURN);
    let lost = stage.give(Line::Lost { reason: "the connection broke".into() });
    assert_eq!(events(&lost), [ModelEvent::Failed { response: A, reason: "the connection broke".into() }]);
    stage.give(Line::Connected);
    stage.server(json!({ "type": "session.created" }));
    let ready = stage.server(json!({ "type": "session.updated" }));
    assert!(failure(&ready).contains("lost with the connection"));
}

#[test]
fn a_service_that_detects_turns_is_waited_for_until_it_has_made_an_item_of_what_it_heard() {
    let mut stage = Stage::ready("turn_detection = 'server_vad'");
    assert_eq!(types(&stage.give(Told::Caller(vec![0; 160]))), ["input_audio_buffer.append"], "it is sent all that is heard");
    (0..10).for_each(|_| drop(stage.give(Told::Caller(vec![0; 160]))));
    stage.server(json!({ "type": "input_audio_buffer.speech_started", "audio_start_ms": 0, "item_id": "item_u1" }));
    assert_eq!(stage.respond(A, TURN), []);
    let made = stage.server(json!({ "type": "input_audio_buffer.committed", "item_id": "item_u1" }));
    assert_eq!(types(&made), ["response.create"]);
    stage.begins("resp_1", A);
    stage.ends("resp_1", "completed");
    stage.server(json!({ "type": "input_audio_buffer.speech_started", "audio_start_ms": 0, "item_id": "item_u2" }));
    (0..10).for_each(|_| drop(stage.give(Told::Caller(vec![0; 160]))));
    assert_eq!(stage.respond(B, TURN), []);
    assert_eq!(stage.session.deadline(), Some(stage.now.plus(3_000)));
    assert_eq!(types(&stage.later(3_000)), ["input_audio_buffer.commit", "response.create"], "and not for ever");
}

#[test]
fn a_turn_that_the_service_was_making_an_item_of_when_the_connection_broke_is_heard_on_the_next_one() {
    let mut stage = Stage::ready("turn_detection = 'server_vad'");
    (0..50).for_each(|_| drop(stage.give(Told::Caller(vec![0; 160]))));
    stage.server(json!({ "type": "input_audio_buffer.speech_started", "audio_start_ms": 0, "item_id": "item_u1" }));
    (0..50).for_each(|_| drop(stage.give(Told::Caller(vec![0; 160]))));
    stage.respond(A, TURN);
    stage.give(Line::Lost { reason: "broke".into() });
    assert_eq!(stage.session.deadline(), None, "nothing is to be done until there is another connection");
    let sent = stage.connect();
    let kinds: Vec<&str> = sent.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds[kinds.len() - 2..], ["input_audio_buffer.commit", "response.create"]);
    assert_eq!(kinds[0], "input_audio_buffer.append");
}

#[test]
fn a_turn_that_the_service_had_made_an_item_of_is_lost_with_the_connection() {
    let mut stage = Stage::ready("turn_detection = 'server_vad'");
    stage.respond(A, Cause::Greeting);
    stage.server(json!({ "type": "input_audio_buffer.speech_started", "audio_start_ms": 0, "item_id": "item_u1" }));
    stage.respond(B, TURN);
    stage.server(json!({ "type": "input_audio_buffer.committed", "item_id": "item_u1" }));
    stage.give(Line::Lost { reason: "broke".into() });
    stage.give(Line::Connected);
    stage.server(json!({ "type": "session.created" }));
    assert!(failure(&stage.server(json!({ "type": "session.updated" }))).contains("lost with the connection"));
}

#[test]
fn tokens_of_all_responses_are_counted_by_kind_and_the_latest_limits_kept() {
    let mut stage = Stage::ready("");
    let usage = json!({ "input_tokens": 5, "output_tokens": 7, "input_token_details": { "audio_tokens": 5 }, "output_token_details": { "audio_tokens": 6, "text_tokens": 1 } });
    for id in ["resp_1", "resp_2"] {
        stage.server(json!({ "type": "response.done", "response": { "id": id, "status": "completed", "usage": usage } }));
    }
    let counted = stage.session.totals().usage;
    assert_eq!((counted.input_tokens, counted.output_tokens), (10, 14));
    assert_eq!((counted.input_token_details.audio_tokens, counted.output_token_details.audio_tokens), (10, 12));
    stage.server(json!({ "type": "rate_limits.updated", "rate_limits": [{ "name": "requests", "limit": 100, "remaining": 99, "reset_seconds": 0.6 }] }));
    assert_eq!(stage.session.totals().rate_limits[0].remaining, Some(99));
}

proptest::proptest! {
    /// Whatever a service says, in whatever order: no panic, no second response at a time, no output more than there are calls, no cut
    /// beyond the audio, and nothing of a response after its end.
    #[test]
    fn no_order_of_events_breaks_what_a_session_keeps_to(steps in proptest::collection::vec((0u8..18, 0u8..4), 1..120)) {
        let mut stage = Stage::ready(if steps.len() % 2 == 0 { "" } else { "turn_detection = 'server_vad'" });
        let mut keeps = Keeps::default();
        let mut next = 10u128;
        for (step, n) in steps {
            let (id, item, call) = (format!("resp_{n}"), format!("item_{n}"), format!("call_{n}"));
            let response = ResponseId(next.saturating_sub(u128::from(n)));
            let n = usize::from(n);
            let actions = match step {
                0 => {
                    next += 1;
                    stage.respond(ResponseId(next), TURN)
                }
                1 => stage.tell(Command::CancelResponse { response }),
                2 => stage.tell(Command::Truncate { response, heard_ms: 90 * n as u64, heard_text: "x".into() }),
                3 => stage.tell(Command::ToolOutput { call_id: call, operation: Some(OperationId(1)), status: ToolStatus::Running }),
                4 => stage.begins(&id, response),
                5 => {
                    keeps.open = None;
                    stage.ends(&id, ["completed", "cancelled", "failed", "incomplete"][n])
                }
                6 | 7 => {
                    *keeps.audio_ms.entry(item.clone()).or_default() += 100;
                    stage.speaks(&id, &item, "Una frase. Otra. ", 100)
                }
                8 => {
                    *keeps.calls.entry(call.clone()).or_default() += 1;
                    stage.calls(&id, &call, "order", [r#"{"item":"pan"}"#, "{}", "[", r#"{"item":1}"#][n])
                }
                9 => {
                    keeps.open = None;
                    let codes = ["conversation_already_has_active_response", "response_cancel_not_active", "odd", "session_expired"];
                    stage.server(fault(codes[n], None))
                }
                10 => {
                    keeps = Keeps { ended: keeps.ended, ..Keeps::default() };
                    let lost = stage.give(Line::Lost { reason: "broke".into() });
                    keeps.check(&lost);
                    stage.give(Line::Connected)
                }
                11 => stage.server(json!({ "type": "session.created" })),
                12 => stage.server(json!({ "type": "session.updated" })),
                13 => stage.later([100, 700, 3_000, 20_000][n]),
                14 => {
                    stage.caller_speaks(10);
                    vec![]
                }
                15 => stage.server(json!({ "type": "input_audio_buffer.speech_started", "audio_start_ms": 0 })),
                16 => stage.server(json!({ "type": "input_audio_buffer.committed" })),
                _ => stage.give(Told::Render { render: RenderId(n as u64), text: "Hola.".into() }),
            };
            keeps.check(&actions);
            if stage.session.deadline().is_some_and(|at| at <= stage.now) {
                keeps.check(&stage.later(0));
                let deadline = stage.session.deadline();
                assert!(deadline.is_none_or(|at| at > stage.now), "woken at {:?}, it wants to be woken at {deadline:?}", stage.now);
            }
        }
    }
}

/// What is checked after every step.
#[derive(Default)]
struct Keeps {
    /// The response that was asked for and has not ended.
    open: Option<String>,
    ended: BTreeSet<ResponseId>,
    /// Outputs that a call may still get, by its name.
    calls: BTreeMap<String, u32>,
    audio_ms: BTreeMap<String, u64>,
}

impl Keeps {
    fn check(&mut self, actions: &[Action]) {
        for action in actions {
            match action {
                Action::Said(Said::Cancelled { response, .. }) => self.ends(*response),
                Action::Said(Said::Output(Output::Event(event))) => match event {
                    ModelEvent::Complete { response } | ModelEvent::Failed { response, .. } => {
                        self.goes_on(*response);
                        self.ends(*response);
                    }
                    ModelEvent::ToolCall { response, .. } => self.goes_on(*response),
                    other => panic!("{other:?}"),
                },
                Action::Said(Said::Output(Output::Words { response, .. } | Output::Audio { response, .. })) => self.goes_on(*response),
                Action::Send(event) => self.sent(&serde_json::to_value(&event.body).unwrap()),
                _ => {}
            }
        }
    }

    fn sent(&mut self, event: &Value) {
        match event["type"].as_str().unwrap() {
            "conversation.item.truncate" => {
                let came = self.audio_ms.get(event["item_id"].as_str().unwrap()).copied().unwrap_or_default();
                assert!(event["audio_end_ms"].as_u64().unwrap() <= came, "{event} of {came} ms");
            }
            "conversation.item.create" if event["item"]["type"] == "function_call_output" => {
                let left = self.calls.get_mut(event["item"]["call_id"].as_str().unwrap()).expect("a call of this connection");
                *left = left.checked_sub(1).expect("an output for each call");
            }
            "response.create" if event["response"]["conversation"] != "none" => {
                let asked = event["response"]["metadata"]["recado_response"].as_str().unwrap().to_owned();
                assert_eq!(self.open.replace(asked), None, "one at a time");
            }
            _ => {}
        }
    }

    fn goes_on(&self, response: ResponseId) {
        assert!(!self.ended.contains(&response), "{response} says something after its end");
    }

    fn ends(&mut self, response: ResponseId) {
        self.ended.insert(response);
        self.open.take_if(|open| *open == response.to_string());
    }
}

#[test]
fn what_is_charged_is_told_apart_by_kind_and_what_has_none_is_taken_for_the_dearer_one() {
    let totals = |usage: Value, transcription: Value| Totals {
        usage: serde_json::from_value(usage).unwrap(),
        transcription_usage: serde_json::from_value(transcription).unwrap(),
        rate_limits: Vec::new(),
    };
    let cached = json!({ "text_tokens": 20, "audio_tokens": 10 });
    let input = json!({ "text_tokens": 50, "audio_tokens": 45, "cached_tokens": 30, "cached_tokens_details": cached });
    let output = json!({ "text_tokens": 7, "audio_tokens": 9 });
    let usage = json!({ "input_tokens": 100, "output_tokens": 16, "input_token_details": input, "output_token_details": output });
    let expected = models::Usage {
        input_text: 30,
        input_audio: 40,
        cached_text: 20,
        cached_audio: 10,
        output_text: 7,
        output_audio: 9,
        transcription: 5,
        audio_ms: 2_500,
    };
    assert_eq!(totals(usage, json!({ "input_tokens": 3, "output_tokens": 2, "seconds": 2.5 })).charged(), expected);
    let untold = totals(json!({ "input_tokens": 10, "output_tokens": 6 }), json!({})).charged();
    assert_eq!(untold, models::Usage { input_audio: 10, output_audio: 6, ..models::Usage::default() });
}

#[test]
fn of_a_response_that_calls_without_end_some_are_taken_the_others_answered_and_the_session_goes_on() {
    let mut stage = Stage::ready("");
    stage.respond(A, Cause::Greeting);
    stage.begins("r", A);
    let (mut taken, mut answered) = (Vec::new(), Vec::new());
    for n in 0..1_000 {
        for said in 0..2 {
            let actions = stage.calls("r", &format!("c{n}"), "order", r#"{"item":"pan"}"#);
            assert!(said == 0 || actions.is_empty(), "{n}: said twice, it is one");
            taken.extend(events(&actions));
            answered.extend(sent(&actions));
        }
    }
    assert_eq!(taken.len(), 32);
    assert_eq!(answered.len(), 256, "what is beside all measure is not even answered");
    assert!(answered.iter().all(|item| item["item"]["output"].as_str().is_some_and(|output| output.contains("not_accepted"))));
    for n in 0..32 {
        let told = stage.tell(Command::ToolOutput { call_id: format!("c{n}"), operation: None, status: ToolStatus::Refused });
        assert_eq!(sent(&told).len(), 1, "each that was taken still gets its output");
    }
    assert_eq!(events(&stage.ends("r", "completed")), [ModelEvent::Complete { response: A }]);
    assert_eq!(sent(&stage.respond(B, Cause::Greeting)).last().unwrap()["type"], "response.create");
}
