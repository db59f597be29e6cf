//! A conversation with a service that does what a test says.

use std::collections::{BTreeMap, BTreeSet};

use recado_core::conversation::effect::{Cause, HeardText, Purpose, Standing, ToolStatus};
use recado_core::conversation::input::{Acoustic, AcousticEdge, AcousticEpoch, Evidence, SegmentRef, ToolCall};
use recado_core::ledger::Cancellation;
use recado_core::{BatchId, DeliveryId, OperationId, PlaybackId, TurnId};
use serde_json::{Value, json};

use super::*;
use crate::cognition::models::link::Session as _;
use crate::cognition::models::message::{LeftMessage, WhyNotKept};
use crate::cognition::models::transport::ServerMessage as _;

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
        let setup = Setup::new(&service, "Sé breve.".into(), &[tool.unwrap()], true).unwrap();
        Self { session: Session::new(setup), now: Time(1_000) }
    }

    /// With a connection, and the session set.
    fn ready(settings: &str) -> Self {
        let mut stage = Self::new(settings);
        stage.connect();
        stage
    }

    /// What is sent when a connection stands, after the session's settings, which come first.
    fn connect(&mut self) -> Vec<Value> {
        self.connects().1
    }

    fn connects(&mut self) -> (Value, Vec<Value>) {
        let set = sent(&self.give(Line::Connected));
        let [set] = &set[..] else { panic!("{set:?}") };
        let ready = self.server(json!({ "setupComplete": {} }));
        assert!(ready.iter().any(|action| matches!(action, Action::Said(Said::Ready { .. }))));
        (set["setup"].clone(), sent(&ready))
    }

    fn give(&mut self, input: impl Into<Input>) -> Vec<Action> {
        self.session.handle(self.now, input)
    }

    fn server(&mut self, message: Value) -> Vec<Action> {
        match LiveMessage::read(&message.to_string()).unwrap() {
            Some(message) => self.give(Line::Server(message)),
            None => vec![],
        }
    }

    fn content(&mut self, content: Value) -> Vec<Action> {
        self.server(json!({ "serverContent": content }))
    }

    fn tell(&mut self, command: Command) -> Vec<Action> {
        self.give(Told::Command(command))
    }

    fn respond(&mut self, response: ResponseId, cause: Cause) -> Vec<Action> {
        self.tell(Command::Respond { response, cause })
    }

    fn cancel(&mut self, response: ResponseId) -> Vec<Action> {
        self.tell(Command::CancelResponse { response })
    }

    fn acoustic(&mut self, to: Acoustic) -> Vec<Action> {
        self.tell(Command::Acoustic(AcousticEdge { to, epoch: AcousticEpoch(1), at: self.now }))
    }

    fn hears(&mut self, frames: usize) -> Vec<Action> {
        (0..frames).flat_map(|_| self.give(Told::Caller(vec![7; FRAME]))).collect()
    }

    /// The caller speaks for so long, and stops.
    fn caller_speaks(&mut self, frames: usize) -> Vec<Action> {
        let mut actions = self.acoustic(Acoustic::Suspected);
        actions.extend(self.acoustic(Acoustic::Speaking));
        actions.extend(self.hears(frames));
        actions.extend(self.acoustic(Acoustic::Trailing));
        actions.extend(self.acoustic(Acoustic::Quiet));
        actions
    }

    /// The model says so many milliseconds.
    fn speaks(&mut self, words: &str, ms: usize) -> Vec<Action> {
        use base64::Engine;
        let data = base64::engine::general_purpose::STANDARD.encode(vec![7u8; ms * 48]);
        let mut actions = self.content(json!({ "outputTranscription": { "text": words } }));
        let parts = json!([{ "inlineData": { "mimeType": "audio/pcm;rate=24000", "data": data } }]);
        actions.extend(self.content(json!({ "modelTurn": { "role": "model", "parts": parts } })));
        actions
    }

    /// All of it is made, and the service takes it for said.
    fn ends(&mut self) -> Vec<Action> {
        let mut actions = self.content(json!({ "outputTranscription": { "finished": true } }));
        actions.extend(self.content(json!({ "generationComplete": true })));
        actions.extend(self.content(json!({ "turnComplete": true })));
        actions
    }

    fn calls(&mut self, call_id: &str, name: &str, args: Value) -> Vec<Action> {
        self.server(json!({ "toolCall": { "functionCalls": [{ "id": call_id, "name": name, "args": args }] } }))
    }

    /// The model asks for an operation, which is taken.
    fn asks_for_operation(&mut self, call_id: &str) {
        self.calls(call_id, "order", json!({ "item": "pan" }));
        self.tell(output(call_id, ToolStatus::Running));
    }

    fn resumable(&mut self, handle: &str) -> Vec<Action> {
        self.server(json!({ "sessionResumptionUpdate": { "newHandle": handle, "resumable": true } }))
    }

    fn later(&mut self, ms: u64) -> Vec<Action> {
        self.now = self.now.plus(ms);
        self.give(Line::Wake)
    }
}

fn output(call_id: &str, status: ToolStatus) -> Command {
    let operation = (status != ToolStatus::Refused).then_some(OperationId(1));
    Command::ToolOutput { call_id: call_id.into(), operation, status }
}

fn sent(actions: &[Action]) -> Vec<Value> {
    let messages = actions.iter().filter_map(|action| match action {
        Action::Send(message) => Some(serde_json::to_value(message).unwrap()),
        _ => None,
    });
    messages.collect()
}

/// What is sent, in short.
fn kinds(actions: &[Action]) -> Vec<String> {
    let kind = |message: &Value| {
        let (name, what) = message.as_object().unwrap().iter().next().map(|(name, what)| (name.clone(), what.clone())).unwrap();
        match name.as_str() {
            "realtimeInput" => what.as_object().unwrap().keys().next().unwrap().clone(),
            "clientContent" => format!("content{}", if what["turnComplete"] == true { "!" } else { "" }),
            _ => name,
        }
    };
    let mut kinds: Vec<String> = sent(actions).iter().map(kind).collect();
    kinds.dedup();
    kinds
}

/// All text that is sent.
fn texts(actions: &[Action]) -> Vec<String> {
    fn of(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => fields.iter().for_each(|(name, value)| match value.as_str() {
                Some(text) if name == "text" => found.push(text.to_owned()),
                _ => of(value, found),
            }),
            Value::Array(values) => values.iter().for_each(|value| of(value, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    sent(actions).iter().for_each(|message| of(message, &mut found));
    found
}

fn audio_sent(actions: &[Action]) -> usize {
    let bytes = actions.iter().map(|action| match action {
        Action::Send(ClientMessage::RealtimeInput(crate::cognition::models::gemini::wire::RealtimeInput::Audio(audio))) => audio.data.len(),
        _ => 0,
    });
    bytes.sum()
}

fn events(actions: &[Action]) -> Vec<ModelEvent> {
    let events = actions.iter().filter_map(|action| match action {
        Action::Said(Said::Output(Output::Event(event))) => Some(event.clone()),
        _ => None,
    });
    events.collect()
}

/// The words and the bytes of speech that are said.
fn said(actions: &[Action]) -> (String, usize) {
    let mut all = (String::new(), 0);
    for action in actions {
        match action {
            Action::Said(Said::Output(Output::Words { text, .. })) => all.0.push_str(text),
            Action::Said(Said::Output(Output::Audio { bytes, .. })) => all.1 += bytes.len(),
            _ => {}
        }
    }
    all
}

/// What the service is told of calls: their name, the status, whether more comes, how it is scheduled.
fn told(actions: &[Action]) -> Vec<(String, String, Value, Value)> {
    let responses =
        sent(actions).into_iter().flat_map(|message| message["toolResponse"]["functionResponses"].as_array().cloned().unwrap_or_default());
    responses
        .map(|response| {
            let status = response["response"]["output"]["status"].as_str().unwrap().to_owned();
            (response["id"].as_str().unwrap_or("-").to_owned(), status, response["willContinue"].clone(), response["scheduling"].clone())
        })
        .collect()
}

fn failure(actions: &[Action]) -> String {
    match &events(actions)[..] {
        [.., ModelEvent::Failed { reason, .. }] => reason.clone(),
        other => panic!("{other:?}"),
    }
}

fn complete(response: ResponseId) -> Vec<ModelEvent> {
    vec![ModelEvent::Complete { response }]
}

const A: ResponseId = ResponseId(1);
const B: ResponseId = ResponseId(2);
const TURN: Cause = Cause::Turn { turn: TurnId(1) };
/// 20 ms.
const FRAME: usize = 640;

#[test]
fn what_is_asked_for_before_there_is_a_session_waits_for_it() {
    let mut stage = Stage::new("voice = 'Kore'");
    assert_eq!(stage.respond(A, Cause::Greeting), []);
    let (set, sent) = stage.connects();
    assert_eq!((&set["model"], &set["tools"][0]["functionDeclarations"][0]["behavior"]), (&json!("models/m"), &json!("NON_BLOCKING")));
    assert_eq!(set["generationConfig"]["speechConfig"]["voiceConfig"]["prebuiltVoiceConfig"]["voiceName"], "Kore");
    assert_eq!(
        (&set["sessionResumption"], &set["realtimeInputConfig"]["automaticActivityDetection"]["disabled"]),
        (&json!({}), &json!(true))
    );
    let asked = json!([{ "role": "user", "parts": [{ "text": "[The call has begun and nobody has spoken yet. Greet the caller.]" }] }]);
    assert_eq!(sent, [json!({ "clientContent": { "turns": asked, "turnComplete": true } })]);
    assert_eq!(Stage::new("resumption = false").connects().0["sessionResumption"], json!(null));
}

#[test]
fn a_turn_is_an_activity_from_before_speech_was_certain_to_where_it_is_answered() {
    let mut stage = Stage::ready("");
    stage.hears(100);
    assert_eq!(stage.acoustic(Acoustic::Suspected), [], "it may be no speech, and would interrupt the model");
    let begun = stage.acoustic(Acoustic::Speaking);
    assert_eq!((kinds(&begun), audio_sent(&begun)), (vec!["activityStart".to_owned(), "audio".to_owned()], 25 * FRAME));
    assert_eq!(audio_sent(&stage.hears(10)), 10 * FRAME);
    stage.acoustic(Acoustic::Trailing);
    stage.acoustic(Acoustic::Quiet);
    assert_eq!(audio_sent(&stage.hears(10)), 0, "silence is charged for too");
    let asked = stage.respond(A, TURN);
    assert_eq!(kinds(&asked), ["activityEnd"]);
    let (words, bytes) = said(&stage.speaks("Claro que sí. ", 200));
    assert_eq!((words.as_str(), bytes), ("Claro que", 200 * 48));
    let done = stage.ends();
    assert_eq!((said(&done).0.as_str(), events(&done)), (" sí. ", complete(A)));
}

#[test]
fn what_was_no_speech_is_never_sent() {
    let mut stage = Stage::ready("");
    for _ in 0..20 {
        stage.hears(10);
        assert_eq!(stage.acoustic(Acoustic::Suspected), []);
        assert_eq!(stage.hears(10), []);
        assert_eq!(stage.acoustic(Acoustic::Quiet), []);
    }
}

#[test]
fn a_response_ends_when_all_of_it_is_made_and_its_last_words_are_waited_for_no_longer_than_a_moment() {
    let mut stage = Stage::ready("");
    stage.respond(A, Cause::Greeting);
    stage.speaks("Hola, buenas.", 2_000);
    assert_eq!(events(&stage.content(json!({ "generationComplete": true }))), []);
    let last = stage.content(json!({ "outputTranscription": { "text": " Tardes.", "finished": true } }));
    assert_eq!(events(&last), complete(A), "and not when the service takes it for played");
    assert!(said(&last).0.ends_with("Tardes."));
    assert_eq!(stage.content(json!({ "turnComplete": true })), []);

    stage.respond(B, Cause::Greeting);
    stage.speaks("Hola.", 2_000);
    stage.content(json!({ "generationComplete": true }));
    assert_eq!(stage.session.deadline(), Some(stage.now.plus(250)));
    assert_eq!(events(&stage.later(250)), complete(B));
}

#[test]
fn nothing_interrupts_a_response_that_is_wanted() {
    let mut stage = Stage::ready("");
    stage.respond(A, Cause::Greeting);
    stage.speaks("Hola. ", 200);
    let mut actions = stage.caller_speaks(10);
    actions.extend(stage.tell(Command::Told { delivery: DeliveryId(1), text: "Hecho.".into() }));
    actions.extend(stage.tell(Command::Truncate { response: A, heard_ms: 90, heard_text: "Ho".into() }));
    actions.extend(stage.respond(B, TURN));
    assert_eq!(actions, []);
    stage.caller_speaks(3);
    let next = stage.ends();
    assert_eq!(events(&next), complete(A));
    assert_eq!(kinds(&next), ["content", "activityStart", "audio", "activityEnd"]);
    assert_eq!(audio_sent(&next), 10 * FRAME, "what was said after it is not mixed into it");
    assert_eq!(texts(&next).len(), 2);
    assert_eq!(kinds(&stage.ends()), ["activityStart", "audio"]);
}

#[test]
fn a_caller_who_breaks_in_interrupts_the_model_and_what_comes_late_is_dropped_until_it_has_ended() {
    // As the protocol says; without the second part; where it had ended just before; and where it says nothing of it.
    for ends in [&["interrupted", "turnComplete"][..], &["interrupted"], &["turnComplete"], &[]] {
        let mut stage = Stage::ready("");
        stage.respond(A, Cause::Greeting);
        stage.speaks("Le digo que no. ", 400);
        stage.acoustic(Acoustic::Suspected);
        assert_eq!(stage.acoustic(Acoustic::Speaking), [], "the conversation has not said so yet");
        let cut = stage.cancel(A);
        assert!(cut.contains(&Action::Said(Said::Cancelled { response: A })));
        assert_eq!(kinds(&cut), ["activityStart"]);
        assert_eq!(said(&stage.speaks("Nada de esto. ", 400)), (String::new(), 0));
        stage.hears(20);
        stage.tell(Command::Truncate { response: A, heard_ms: 300, heard_text: "Le".into() });
        stage.now = stage.now.plus(1_500);
        for end in ends {
            assert_eq!(events(&stage.content(json!({ *end: true }))), []);
        }
        stage.now = stage.now.plus(500);
        let asked = stage.respond(B, TURN);
        assert_eq!(kinds(&asked), ["text", "activityEnd"], "{ends:?}");
        assert!(texts(&asked)[0].contains("the caller heard this and no more: \"Le\""));
        let (words, bytes) = said(&stage.speaks("Dígame usted. ", 400));
        assert_eq!((words.as_str(), bytes), ("Dígame", 400 * 48), "{ends:?}");
        assert_eq!(events(&stage.ends()), complete(B), "{ends:?}");
        assert_eq!(stage.session.totals().unasked, 0);
    }
}

#[test]
fn the_end_of_an_earlier_turn_that_comes_after_the_next_is_asked_for_does_not_end_that() {
    for ends in [&["interrupted", "turnComplete"][..], &["turnComplete"]] {
        let mut stage = Stage::ready("");
        stage.respond(A, Cause::Greeting);
        stage.speaks("Le digo que no. ", 400);
        stage.cancel(A);
        stage.respond(B, Cause::Silence { quiet_ms: 8_000 });
        assert_eq!(said(&stage.speaks("Nada de esto. ", 400)), (String::new(), 0));
        for end in ends {
            assert_eq!(events(&stage.content(json!({ *end: true }))), []);
        }
        assert_eq!(said(&stage.speaks("¿Sigue ahí? ", 100)).1, 4_800);
        assert_eq!(events(&stage.ends()), complete(B));
    }
    // Where the service never says so, it is not waited for for ever.
    let mut stage = Stage::ready("");
    stage.respond(A, Cause::Greeting);
    stage.speaks("Le digo que no. ", 400);
    stage.cancel(A);
    stage.respond(B, Cause::Greeting);
    assert_eq!(stage.session.deadline(), Some(stage.now.plus(2_000)));
    stage.later(2_000);
    assert_eq!(said(&stage.speaks("Hola, buenas. ", 100)).1, 4_800);
}

#[test]
fn a_turn_that_was_interrupted_before_anything_came_of_it_may_never_end_and_the_next_one_is_heard_all_the_same() {
    let mut stage = Stage::ready("");
    stage.caller_speaks(10);
    stage.respond(A, TURN);
    stage.acoustic(Acoustic::Suspected);
    stage.acoustic(Acoustic::Speaking);
    stage.cancel(A);
    stage.now = stage.now.plus(600);
    assert_eq!(kinds(&stage.respond(B, TURN)), ["activityEnd"]);
    assert_eq!(said(&stage.speaks("Dígame usted. ", 100)).1, 4_800);
    assert_eq!(events(&stage.ends()), complete(B));
}

#[test]
fn a_response_that_the_service_breaks_off_or_gives_a_reason_for_has_failed() {
    let mut stage = Stage::ready("");
    stage.respond(A, Cause::Greeting);
    stage.speaks("Le digo", 100);
    assert!(failure(&stage.content(json!({ "interrupted": true }))).contains("broke off"));
    stage.content(json!({ "turnComplete": true }));
    stage.respond(B, Cause::Greeting);
    assert!(
        failure(&stage.content(json!({ "turnComplete": true, "turnCompleteReason": "RESPONSE_REJECTED" }))).contains("RESPONSE_REJECTED")
    );
    stage.respond(A, Cause::Greeting);
    let parts = json!([{ "inlineData": { "mimeType": "audio/pcm;rate=16000", "data": "AAA=" } }]);
    assert!(failure(&stage.content(json!({ "modelTurn": { "parts": parts } }))).contains("16000 Hz"));
    stage.content(json!({ "turnComplete": true }));
    stage.respond(B, Cause::Greeting);
    let complaint = json!({ "error": { "code": 8, "status": "RESOURCE_EXHAUSTED", "message": "Too many." } });
    assert_eq!(failure(&stage.server(complaint.clone())), "the service says: RESOURCE_EXHAUSTED: Too many.");
    stage.respond(A, Cause::Greeting);
    assert_eq!(said(&stage.speaks("Hola, buenas. ", 100)).1, 4_800, "it is not waited for to end");
    stage.ends();
    assert!(matches!(stage.server(complaint)[..], [Action::Said(Said::Trouble(_))]));
}

#[test]
fn a_turn_that_goes_on_in_the_background_has_not_ended() {
    let mut stage = Stage::ready("");
    stage.respond(A, Cause::Greeting);
    assert_eq!(events(&stage.content(json!({ "turnComplete": true, "interactionStatus": "IN_PROGRESS" }))), []);
    assert_eq!(said(&stage.speaks("Ya lo tengo. ", 100)).1, 4_800);
    assert_eq!(events(&stage.content(json!({ "turnComplete": true, "interactionStatus": "IDLE" }))), complete(A));
}

#[test]
fn what_the_model_says_without_being_asked_is_not_heard_and_counted_once() {
    let mut stage = Stage::ready("");
    for _ in 0..3 {
        assert_eq!(said(&stage.speaks("¿Oiga? ", 100)), (String::new(), 0));
    }
    let answer = stage.calls("c", "order", json!({ "item": "pan" }));
    assert_eq!((events(&answer), told(&answer)[0].1.as_str()), (vec![], "not_accepted"));
    assert_eq!(events(&stage.ends()), []);
    assert_eq!(stage.session.totals().unasked, 1);
    stage.respond(A, Cause::Greeting);
    assert_eq!(said(&stage.speaks("Hola, buenas. ", 100)).1, 4_800);
    assert_eq!(events(&stage.ends()), complete(A));
}

#[test]
fn a_call_that_the_model_does_not_wait_for_is_answered_at_once_and_once_more_without_a_word_of_what_came_of_it() {
    let mut stage = Stage::ready("");
    stage.respond(A, TURN);
    let called = stage.calls("c", "order", json!({ "item": "pan" }));
    let call = ToolCall { call_id: "c".into(), tool: "order".into(), arguments: json!({ "item": "pan" }), confirmed: false };
    assert_eq!(events(&called), [ModelEvent::ToolCall { response: A, call }]);
    assert_eq!(told(&called), [("c".into(), "pending".into(), json!(true), json!("SILENT"))]);
    assert_eq!(events(&stage.calls("c", "order", json!({ "item": "pan" }))), [], "said twice, it is one");
    let taken = stage.tell(output("c", ToolStatus::Running));
    assert_eq!(told(&taken), [("c".into(), "running".into(), json!(false), json!("SILENT"))]);
    assert_eq!(stage.tell(output("c", ToolStatus::Told)), [], "it waits for what is asked next");
    stage.tell(Command::Told { delivery: DeliveryId(1), text: "Su número es 4729.".into() });
    assert_eq!(events(&stage.ends()), complete(A));
    let next = stage.respond(B, Cause::Greeting);
    assert_eq!(kinds(&next), ["content!"]);
    assert!(texts(&next)[1].contains("4729"), "{:?}", texts(&next));
}

#[test]
fn a_call_that_is_said_again_once_its_response_is_over_has_its_answer_and_keeps_its_standing() {
    for calls in ["blocking", "non-blocking"] {
        let mut stage = Stage::ready(&format!("calls = '{calls}'"));
        stage.respond(A, TURN);
        stage.asks_for_operation("c");
        stage.content(json!({ "generationComplete": true }));
        stage.later(250);
        assert_eq!(told(&stage.calls("c", "order", json!({ "item": "pan" }))), [], "{calls}");
        stage.tell(output("c", ToolStatus::Told));
        assert_eq!(stage.session.calls.under_way().count(), 0, "{calls}: no other session is told that it runs");
        assert_eq!(told(&stage.calls("d", "order", json!({ "item": "pan" })))[0].1, "not_accepted", "{calls}: that one is new");
    }
}

#[test]
fn a_call_that_the_model_waits_for_is_answered_once_and_in_any_case_soon() {
    let mut stage = Stage::ready("calls = 'blocking'");
    stage.respond(A, TURN);
    for (call_id, status) in [("c", ToolStatus::Running), ("d", ToolStatus::NeedsConfirmation), ("e", ToolStatus::Refused)] {
        assert_eq!(told(&stage.calls(call_id, "order", json!({ "item": "pan" }))), []);
        let answer = told(&stage.tell(output(call_id, status)));
        assert_eq!((answer.len(), &answer[0].2, &answer[0].3), (1, &json!(null), &json!(null)));
        assert_eq!(told(&stage.tell(output(call_id, status))), []);
    }
    stage.calls("f", "order", json!({ "item": "pan" }));
    assert_eq!(stage.session.open_calls.deadline(), Some(stage.now.plus(1_000)));
    assert_eq!(told(&stage.later(1_000))[0].1, "pending", "the model is never left waiting");
    assert_eq!(told(&stage.tell(output("f", ToolStatus::Running))), []);
    assert_eq!(stage.session.open_calls.deadline(), None);
    // It goes on in the same response.
    assert_eq!(said(&stage.speaks("Me pongo con ello. ", 100)).1, 4_800);
    assert_eq!(events(&stage.ends()), complete(A));
}

#[test]
fn a_pending_call_is_answered_before_the_caller_who_breaks_in_is_heard() {
    let mut stage = Stage::ready("calls = 'blocking'");
    stage.respond(A, TURN);
    stage.calls("c", "order", json!({ "item": "pan" }));
    stage.acoustic(Acoustic::Suspected);
    stage.acoustic(Acoustic::Speaking);
    let cut = stage.cancel(A);
    assert_eq!(kinds(&cut), ["toolResponse", "activityStart"], "a service that waits for an answer takes no audio, or waits for ever");
    assert_eq!(told(&cut)[0].1, "pending");
}

#[test]
fn that_the_service_cancels_a_call_ends_no_operation_and_what_comes_of_it_is_told_with_what_the_caller_says_next() {
    for calls in ["blocking", "non-blocking"] {
        let mut stage = Stage::ready(&format!("calls = '{calls}'"));
        stage.respond(A, TURN);
        stage.calls("c", "order", json!({ "item": "pan" }));
        let cancelled = stage.server(json!({ "toolCallCancellation": { "ids": ["c", "unknown"] } }));
        assert_eq!((events(&cancelled), sent(&cancelled)), (vec![], vec![]), "the conversation is told nothing of it");
        assert_eq!(stage.session.open_calls.deadline(), None);
        assert_eq!(stage.tell(output("c", ToolStatus::Running)), [], "the service takes no answer of that name");
        stage.cancel(A);
        stage.tell(Command::Told { delivery: DeliveryId(1), text: "Su número es 4729.".into() });
        let next = stage.caller_speaks(10);
        assert_eq!(kinds(&next), ["content", "activityStart", "audio"]);
        let texts = texts(&next);
        assert!(texts[0].contains("changes nothing") && texts[1].contains("It runs.") && texts[2].contains("4729"), "{texts:?}");
        assert_eq!(kinds(&stage.respond(B, TURN)), ["activityEnd"]);
        assert_eq!(stage.session.totals().calls_cancelled, 1);
    }
}

#[test]
fn a_message_that_the_model_wants_taken_is_no_turn_of_the_callers_and_what_became_of_it_is_asked_to_be_told() {
    let mut stage = Stage::ready("");
    stage.respond(A, TURN);
    let called = stage.calls("c1", "take_message", json!({}));
    assert!(called.contains(&Action::Said(Said::Output(Output::WantsMessage { response: A }))), "{called:?}");
    assert_eq!(told(&called)[0].1, "taking");
    assert_eq!(events(&stage.ends()), complete(A));
    let left = LeftMessage::NotKept { seconds: 4, why: WhyNotKept::Full };
    let asked = stage.tell(Command::TellOfMessage { response: B, left });
    assert_eq!(kinds(&asked), ["content!"], "nothing of the caller's");
    assert!(texts(&asked)[0].contains("4 seconds of it, is not kept: there is no room"), "{:?}", texts(&asked));
}

#[test]
fn the_boxes_own_functions_are_answered_at_once_and_a_call_that_cannot_be_taken_is_asked_for_again_twice() {
    let mut stage = Stage::ready("");
    stage.respond(A, TURN);
    let over = stage.server(json!({ "toolCall": { "functionCalls": [{ "name": "end_call" }] } }));
    assert_eq!(events(&over), [ModelEvent::HangUp { response: A }]);
    assert_eq!(told(&over), [("-".into(), "done".into(), json!(false), json!("SILENT"))], "it has no name, and needs none");
    assert_eq!(events(&stage.ends()), complete(A));
    stage.respond(B, TURN);
    for n in 0..3 {
        let refused = stage.calls(&format!("c{n}"), "order", json!({ "item": 1 }));
        assert_eq!((events(&refused), told(&refused)[0].1.as_str()), (vec![], "not_accepted"));
        let ended = stage.ends();
        if n < 2 {
            assert_eq!((kinds(&ended), events(&ended)), (vec!["content!".to_owned()], vec![]));
            assert!(texts(&ended)[0].contains("Correct it"), "{:?}", texts(&ended));
        } else {
            assert!(failure(&ended).contains("in a way that can't be taken"));
        }
    }
    // One that the model has corrected itself is none.
    stage.respond(A, TURN);
    stage.calls("d", "order", json!({}));
    stage.calls("e", "order", json!({ "item": "pan" }));
    assert_eq!(events(&stage.ends()), complete(A));
    stage.respond(B, TURN);
    let again = stage.content(json!({ "turnComplete": true, "turnCompleteReason": "MALFORMED_FUNCTION_CALL" }));
    assert_eq!(kinds(&again), ["content!"]);
}

#[test]
fn keys_that_were_pressed_are_asked_about_in_what_the_caller_is_saying_or_by_themselves() {
    let mut stage = Stage::ready("");
    let keys = Cause::Digits { digits: "42".into(), complete: true, turn: TurnId(1) };
    let asked = stage.respond(A, keys.clone());
    assert_eq!(texts(&asked), ["(The caller keyed in 42, which is all that was asked for.)"]);
    stage.ends();
    // What was no turn after all has been sent, and stays open.
    stage.caller_speaks(10);
    let asked = stage.respond(B, keys);
    assert_eq!(kinds(&asked), ["text", "activityEnd"]);
}

#[test]
fn a_turn_of_which_nothing_was_heard_is_answered_all_the_same() {
    let mut stage = Stage::ready("");
    let asked = stage.respond(A, TURN);
    assert_eq!(kinds(&asked), ["content!"]);
    assert!(texts(&asked)[0].contains("could not be heard"));
}

#[test]
fn a_service_that_takes_no_content_is_told_everything_in_activities() {
    let mut stage = Stage::ready("text = 'realtime'");
    assert_eq!(kinds(&stage.respond(A, Cause::Greeting)), ["activityStart", "text", "activityEnd"]);
    stage.speaks("Hola. ", 100);
    stage.ends();
    stage.tell(Command::Update { delivery: DeliveryId(1), text: "Va.".into() });
    assert_eq!(kinds(&stage.caller_speaks(10)), ["activityStart", "text", "audio"]);
    stage.tell(Command::Update { delivery: DeliveryId(1), text: "Ya casi.".into() });
    assert_eq!(kinds(&stage.respond(B, TURN)), ["text", "activityEnd"]);
    stage.give(Line::Lost { reason: "broke".into() });
    let (set, told) = stage.connects();
    assert_eq!(set["historyConfig"], json!({ "initialHistoryInClientContent": true }));
    assert_eq!(told[0]["clientContent"]["turnComplete"], true, "which ends the history, and asks for nothing");
    assert_eq!(Stage::new("text = 'realtime'").connects().0["historyConfig"], json!(null));
}

fn heard(n: u64, purpose: Purpose, text: &str, standing: Standing) -> Command {
    let segment = SegmentRef { playback: PlaybackId(u128::from(n)), index: 0 };
    Command::Heard(HeardText { segment, purpose, text: text.into(), heard_ms: 90, standing })
}

/// A conversation in which something was said, heard, asked for and told.
fn conversation() -> Stage {
    let mut stage = Stage::ready("");
    stage.respond(A, Cause::Greeting);
    stage.speaks("Hola. ", 100);
    stage.ends();
    stage.tell(heard(1, Purpose::Reply { response: A }, "Hola.", Standing::Settled(Evidence::Received)));
    stage.caller_speaks(10);
    stage.content(json!({ "inputTranscription": { "text": "Quiero " } }));
    stage.respond(B, TURN);
    stage.content(json!({ "inputTranscription": { "text": "pan.", "finished": true } }));
    stage.asks_for_operation("c");
    stage.ends();
    stage.tell(heard(2, Purpose::Acceptance { batch: BatchId(1) }, "Me pongo con ello.", Standing::Provisional));
    stage
}

#[test]
fn what_the_box_said_itself_is_told_to_the_model_as_its_own_words_when_that_is_settled() {
    let mut stage = conversation();
    stage.tell(heard(2, Purpose::Acceptance { batch: BatchId(1) }, "Me pongo", Standing::Settled(Evidence::Received)));
    stage.tell(heard(3, Purpose::Clause { delivery: DeliveryId(1), clause: Some(0) }, "Su número", Standing::Settled(Evidence::Received)));
    let next = sent(&stage.respond(A, Cause::Greeting));
    let turns = next[0]["clientContent"]["turns"].as_array().unwrap().clone();
    assert_eq!(turns[0], json!({ "role": "model", "parts": [{ "text": "Me pongo" }] }));
    assert_eq!((turns.len(), &turns[1]["role"]), (2, &json!("user")));
}

#[test]
fn a_new_session_is_told_what_was_heard_and_what_runs() {
    let mut stage = conversation();
    stage.give(Line::Lost { reason: "broke".into() });
    stage.tell(Command::Cancelling(Cancellation { cancelling: vec![], ended: vec![], refused: vec![], say: "Lo cancelo.".into() }));
    let (set, history) = stage.connects();
    assert_eq!(set["sessionResumption"], json!({}));
    let content = &history[0]["clientContent"];
    assert_eq!((history.len(), &content["turnComplete"]), (1, &json!(false)));
    let said: Vec<(String, String)> = content["turns"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|turn| {
            turn["parts"]
                .as_array()
                .unwrap()
                .iter()
                .map(|part| (turn["role"].as_str().unwrap().to_owned(), part["text"].as_str().unwrap().to_owned()))
        })
        .collect();
    let expected = [
        ("user", "[What follows is what has been said"),
        ("model", "Hola."),
        ("user", "Quiero pan."),
        ("user", "[This is being said to the caller"),
        ("user", "[What the caller's wish to cancel"),
        ("user", "[order was called earlier in this call."),
    ];
    assert_eq!(said.len(), expected.len(), "{said:?}");
    for ((role, text), (expected_role, begins)) in said.iter().zip(expected) {
        assert!(role == expected_role && text.starts_with(begins), "{role} {text}");
    }
    // A result of the call of another connection comes in words.
    assert_eq!(stage.tell(output("c", ToolStatus::Told)), []);
    assert_eq!(told(&stage.respond(B, Cause::Greeting)).len(), 0);
}

#[test]
fn a_session_is_gone_on_with_only_where_nothing_has_happened_since_the_service_said_how() {
    let mut stage = conversation();
    stage.resumable("h1");
    stage.tell(Command::Told { delivery: DeliveryId(1), text: "Su número es 4729.".into() });
    stage.give(Line::Lost { reason: "broke".into() });
    let (set, told) = stage.connects();
    assert_eq!((&set["sessionResumption"], told.len()), (&json!({ "handle": "h1" }), 0));
    let asked = stage.respond(A, Cause::Greeting);
    assert!(texts(&asked)[0].contains("4729"), "what it had not been told yet it is told now");
    // What the service knows of is cut by what was heard of it.
    stage.resumable("h2");
    stage.speaks("Hola. ", 100);
    assert_eq!(stage.session.renewal.handle, None, "a response was under way");
    stage.ends();
    stage.resumable("h3");
    stage.acoustic(Acoustic::Suspected);
    stage.acoustic(Acoustic::Speaking);
    stage.give(Line::Lost { reason: "broke".into() });
    assert_eq!(stage.connects().0["sessionResumption"], json!({}), "the caller had begun to speak");
    stage.server(json!({ "sessionResumptionUpdate": { "newHandle": "", "resumable": false } }));
    assert_eq!(stage.session.renewal.handle, None);
}

#[test]
fn a_handle_that_the_service_does_not_take_is_tried_once() {
    let mut stage = conversation();
    stage.resumable("h1");
    stage.give(Line::Lost { reason: "broke".into() });
    let set = sent(&stage.give(Line::Connected));
    assert_eq!(set[0]["setup"]["sessionResumption"], json!({ "handle": "h1" }));
    let refused = TransportError::Closed { code: 1008, reason: ": no such session".into() };
    assert!(stage.session.may_help(&refused));
    stage.give(Line::Lost { reason: refused.to_string() });
    let set = sent(&stage.give(Line::Connected));
    assert_eq!(set[0]["setup"]["sessionResumption"], json!({}));
    assert!(!stage.session.may_help(&refused), "what it does not take now, it never will");
    stage.give(Line::Gone { reason: refused.to_string() });
    assert!(failure(&stage.respond(A, Cause::Greeting)).contains("no such session"));
}

#[test]
fn a_service_that_closes_what_it_took_is_tried_again_as_often_as_it_may_help() {
    let closed = TransportError::Closed { code: 1008, reason: String::new() };
    let mut stage = Stage::ready("");
    for _ in 0..3 {
        assert!(stage.session.may_help(&closed));
        stage.give(Line::Lost { reason: "closed".into() });
        stage.connect();
    }
    assert!(!stage.session.may_help(&closed));
    stage.respond(A, Cause::Greeting);
    stage.speaks("Hola. ", 100);
    stage.ends();
    assert!(stage.session.may_help(&closed), "it has answered");
    assert!(!stage.session.may_help(&TransportError::Unauthorised { status: 401, detail: String::new() }));
}

#[test]
fn a_connection_that_the_service_ends_is_replaced_between_two_turns_and_the_session_gone_on_with() {
    let mut stage = conversation();
    stage.respond(A, Cause::Greeting);
    stage.speaks("Hola. ", 100);
    assert_eq!(stage.server(json!({ "goAway": { "timeLeft": "20s" } })), [], "a response is under way");
    let ended = stage.ends();
    assert!(!ended.iter().any(|action| matches!(action, Action::Reconnect { .. })), "the service may say how it is resumed");
    assert_eq!(stage.session.deadline(), Some(stage.now.plus(2_000)));
    let renewed = stage.resumable("h1");
    assert!(matches!(renewed[..], [Action::Reconnect { .. }]));
    assert_eq!(stage.connects().0["sessionResumption"], json!({ "handle": "h1" }));
    // Where it says nothing, it is not waited for.
    stage.server(json!({ "goAway": { "timeLeft": "20s" } }));
    assert!(matches!(stage.later(2_000)[..], [Action::Reconnect { .. }]));
    assert_eq!(stage.connects().0["sessionResumption"], json!({}));
    // And a connection is not left to grow too old.
    stage.later(9 * 60_000);
    assert!(matches!(stage.later(2_000)[..], [Action::Reconnect { .. }]));
}

#[test]
fn at_last_a_connection_is_replaced_in_the_middle_of_what_the_caller_says_which_is_heard_on_the_next_one() {
    let mut stage = Stage::ready("");
    stage.server(json!({ "goAway": { "timeLeft": "10s" } }));
    stage.acoustic(Acoustic::Suspected);
    stage.acoustic(Acoustic::Speaking);
    stage.hears(10);
    assert_eq!(stage.session.deadline(), Some(stage.now.plus(2_000)));
    stage.later(2_000);
    let renewed = stage.later(6_000);
    assert!(matches!(renewed[..], [Action::Reconnect { .. }]));
    stage.hears(10);
    let sent = stage.connect();
    assert_eq!(sent[0]["realtimeInput"], json!({ "activityStart": {} }));
    assert_eq!(sent.len(), 2);
    assert_eq!(kinds(&stage.respond(A, TURN)), ["activityEnd"]);
}

#[test]
fn a_turn_that_was_asked_for_is_lost_with_its_connection_and_one_that_waited_is_not() {
    let mut stage = Stage::ready("");
    stage.respond(A, Cause::Greeting);
    stage.caller_speaks(10);
    stage.respond(B, TURN);
    let lost = stage.give(Line::Lost { reason: "the connection broke".into() });
    assert_eq!(events(&lost), [ModelEvent::Failed { response: A, reason: "the connection broke".into() }]);
    let sent = stage.connect();
    assert_eq!(sent.first().unwrap()["realtimeInput"], json!({ "activityStart": {} }));
    assert_eq!(sent.last().unwrap()["realtimeInput"], json!({ "activityEnd": {} }));
    // One that is cancelled before it is asked for is part of what the caller goes on to say.
    stage.ends();
    stage.respond(A, Cause::Greeting);
    stage.caller_speaks(10);
    stage.respond(B, TURN);
    stage.cancel(B);
    let heard = stage.cancel(A);
    assert_eq!((kinds(&heard), audio_sent(&heard)), (vec!["activityStart".to_owned(), "audio".to_owned()], 10 * FRAME));
}

#[test]
fn a_service_that_does_not_answer_is_given_up_and_what_it_complains_of_before_it_is_set_ends_it() {
    let mut stage = Stage::new("answer_timeout_ms = 500");
    stage.give(Line::Connected);
    assert!(matches!(stage.later(500)[..], [Action::Reconnect { .. }]));
    let mut stage = Stage::new("");
    stage.respond(A, Cause::Greeting);
    stage.give(Line::Connected);
    let refused = stage.server(json!({ "error": { "code": 3, "status": "INVALID_ARGUMENT", "message": "No such voice." } }));
    assert_eq!(failure(&refused), "the service says: INVALID_ARGUMENT: No such voice.");
}

#[test]
fn tokens_of_all_responses_are_counted() {
    let mut stage = Stage::ready("");
    for _ in 0..2 {
        stage.server(json!({ "usageMetadata": { "promptTokenCount": 5, "responseTokenCount": 7, "totalTokenCount": 12 } }));
    }
    let usage = stage.session.totals().usage;
    assert_eq!((usage.input_audio, usage.output_audio), (10, 14));
}

proptest::proptest! {
    /// Whatever a service says, in whatever order: no panic, nothing of a response after its end, nothing that interrupts a wanted one, no
    /// call left without its one last answer, and audio only in activities, which begin and end in turns.
    #[test]
    fn no_order_of_messages_breaks_what_a_session_keeps_to(
        steps in proptest::collection::vec((0u8..25, 0u8..4), 1..140),
        blocking: bool,
        realtime: bool,
    ) {
        let settings = format!(
            "calls = '{}'\ntext = '{}'",
            if blocking { "blocking" } else { "non-blocking" },
            if realtime { "realtime" } else { "content" }
        );
        let mut stage = Stage::ready(&settings);
        let mut keeps = Keeps { blocking, ..Keeps::default() };
        let mut next = 10u128;
        for (step, n) in steps {
            let response = ResponseId(next.saturating_sub(u128::from(n)));
            let call_id = format!("call_{n}_{}", keeps.connection);
            let n = usize::from(n);
            let actions = match step {
                0 | 1 => {
                    next += 1;
                    keeps.asked(ResponseId(next));
                    stage.respond(ResponseId(next), [TURN, TURN, Cause::Greeting, Cause::Silence { quiet_ms: 9_000 }][n].clone())
                }
                2 => {
                    keeps.wanted.remove(&response);
                    stage.cancel(response)
                }
                3 => stage.tell(Command::Truncate { response, heard_ms: 90, heard_text: ["", "x", "y", "z"][n].into() }),
                4 => stage.tell(output(&call_id, [ToolStatus::Running, ToolStatus::Told, ToolStatus::Refused, ToolStatus::Rejected][n])),
                5 | 6 => stage.speaks("Una frase. Otra. ", 100),
                7 => {
                    *keeps.calls.entry(call_id.clone()).or_default() += 1;
                    stage.calls(&call_id, ["order", "order", "end_call", "cancel_work"][n], [json!({ "item": "pan" }), json!({}), json!({}), json!({})][n].clone())
                }
                8 => {
                    if keeps.calls.contains_key(&call_id) {
                        keeps.cancelled.insert(call_id.clone());
                    }
                    stage.server(json!({ "toolCallCancellation": { "ids": [call_id] } }))
                }
                9 => stage.content(json!({ "interrupted": true })),
                10 => stage.content(json!({ "generationComplete": true })),
                11 => stage.content(json!({ "turnComplete": true, "interactionStatus": (["IDLE", "IN_PROGRESS", "IDLE", "IDLE"][n]) })),
                12 => stage.content(json!({ "turnComplete": true, "turnCompleteReason": (["MALFORMED_FUNCTION_CALL", "RESPONSE_REJECTED", "", "NEED_MORE_INPUT"][n]) })),
                13 => stage.content(json!({ "outputTranscription": { "text": "Más. ", "finished": n == 0 }, "inputTranscription": { "text": "Sí. " } })),
                14 => {
                    let lost = stage.give(Line::Lost { reason: "broke".into() });
                    keeps.check(&lost);
                    keeps.connects();
                    stage.give(Line::Connected)
                }
                15 => stage.server(json!({ "setupComplete": {} })),
                16 => stage.later([100, 700, 3_000, 20_000][n]),
                17 => stage.caller_speaks(10),
                18 => stage.acoustic([Acoustic::Suspected, Acoustic::Speaking, Acoustic::Trailing, Acoustic::Quiet][n]),
                19 => stage.server(json!({ "goAway": { "timeLeft": (["1s", "5s", "60s", "?"][n]) } })),
                20 => stage.resumable("h"),
                21 => stage.server(json!({ "error": { "status": "UNAVAILABLE" } })),
                22 => stage.tell(Command::AnsweredElsewhere),
                23 if n == 0 => stage.tell(Command::Reconnect),
                _ => stage.tell(Command::Told { delivery: DeliveryId(1), text: "Hecho.".into() }),
            };
            keeps.check(&actions);
            for _ in 0..8 {
                if stage.session.deadline().is_none_or(|at| at > stage.now) {
                    break;
                }
                keeps.check(&stage.later(0));
            }
            let deadline = stage.session.deadline();
            assert!(deadline.is_none_or(|at| at > stage.now), "woken at {:?}, it wants to be woken at {deadline:?}", stage.now);
        }
        keeps.check(&stage.later(1_000));
        assert_eq!(stage.session.open_calls.deadline(), None, "the service is not left waiting");
    }
}

/// What is checked after every step.
#[derive(Default)]
struct Keeps {
    blocking: bool,
    connection: u64,
    /// Responses that were asked for, and neither cancelled nor ended.
    wanted: BTreeSet<ResponseId>,
    ended: BTreeSet<ResponseId>,
    /// A response was asked of the service, and has not ended.
    under_way: bool,
    activity: bool,
    /// Calls of this connection, and how often each was made.
    calls: BTreeMap<String, u32>,
    answered: BTreeMap<String, u32>,
    cancelled: BTreeSet<String>,
}

impl Keeps {
    fn asked(&mut self, response: ResponseId) {
        self.wanted.insert(response);
    }

    fn connects(&mut self) {
        (self.under_way, self.activity) = (false, false);
        self.connection += 1;
        self.calls.clear();
        self.answered.clear();
        self.cancelled.clear();
    }

    fn check(&mut self, actions: &[Action]) {
        // It is asked once more, as the model's own turn is over.
        let mut reconnects = false;
        let mut again = texts(actions).iter().any(|text| text.contains("Your last call came to nothing"));
        for action in actions {
            match action {
                Action::Said(Said::Cancelled { response }) => {
                    self.under_way = false;
                    self.ends(*response);
                }
                Action::Said(Said::Output(Output::Event(event))) => match event {
                    ModelEvent::Complete { response } | ModelEvent::Failed { response, .. } => self.ends(*response),
                    ModelEvent::ToolCall { response, .. } | ModelEvent::HangUp { response } | ModelEvent::CancelIntent { response, .. } => {
                        self.goes_on(*response);
                    }
                    other => panic!("{other:?}"),
                },
                Action::Said(Said::Output(Output::Audio { response, .. } | Output::Words { response, .. })) => self.goes_on(*response),
                // What fails with it comes after it.
                Action::Reconnect { .. } => reconnects = true,
                Action::Send(message) => {
                    self.under_way &= !std::mem::take(&mut again);
                    self.sent(&serde_json::to_value(message).unwrap());
                }
                _ => {}
            }
        }
        if reconnects {
            self.connects();
        }
    }

    fn sent(&mut self, message: &Value) {
        if let Some(responses) = message["toolResponse"]["functionResponses"].as_array() {
            for response in responses {
                let (id, will_continue) = (response["id"].as_str().unwrap().to_owned(), response["willContinue"] == true);
                assert!(!(self.blocking && will_continue));
                assert!(!self.cancelled.contains(&id) || self.calls[&id] > 1, "{id} was cancelled");
                if !will_continue {
                    let answered = self.answered.entry(id.clone()).or_default();
                    *answered += 1;
                    assert!(*answered <= self.calls[&id], "{id} is answered once");
                }
            }
        }
        if let Some(content) = message.get("clientContent") {
            assert!(!self.activity && !self.under_way, "it would interrupt: {message}");
            let of_history = content["turns"].to_string().contains("What follows is what has been said");
            self.under_way = content["turnComplete"] == true && !of_history;
        }
        let input = &message["realtimeInput"];
        if input.get("activityStart").is_some() {
            assert!(!self.activity && !self.under_way, "it would interrupt");
            self.activity = true;
        }
        if input.get("audio").is_some() || input.get("text").is_some() {
            assert!(self.activity, "{message}");
        }
        if input.get("activityEnd").is_some() {
            assert!(self.activity);
            (self.activity, self.under_way) = (false, true);
        }
    }

    fn goes_on(&self, response: ResponseId) {
        assert!(self.under_way && !self.ended.contains(&response), "{response} says something after its end");
    }

    fn ends(&mut self, response: ResponseId) {
        assert!(self.ended.insert(response), "{response} ends once");
        // One that waits for its turn may be refused while another one is under way.
        self.under_way &= self.wanted.first() != Some(&response);
        self.wanted.remove(&response);
    }
}

#[test]
fn of_calls_without_end_some_are_taken_the_others_refused_at_once_and_the_session_goes_on() {
    for kind in ["blocking", "non-blocking"] {
        let mut stage = Stage::ready(&format!("calls = '{kind}'"));
        let many = |name: &str| -> Vec<Value> {
            (0..1_000).map(|n| json!({ "id": format!("{name}{n}"), "name": "order", "args": { "item": "pan" } })).collect()
        };
        let unasked = stage.server(json!({ "toolCall": { "functionCalls": many("u") } }));
        assert_eq!((told(&unasked).len(), events(&unasked)), (1_000, vec![]));
        assert!(sent(&unasked).len() <= 33, "{}", sent(&unasked).len());
        stage.ends();
        stage.respond(A, TURN);
        let asked = stage.server(json!({ "toolCall": { "functionCalls": many("c") } }));
        assert_eq!(events(&asked).len(), 32, "{kind}");
        assert!(sent(&asked).len() <= 33, "{}", sent(&asked).len());
        assert_eq!(told(&asked).iter().filter(|told| told.1 == "not_accepted").count(), 968, "{kind}");
        let one_more = stage.calls("d", "order", json!({ "item": "pan" }));
        assert_eq!((events(&one_more), told(&one_more)[0].1.as_str()), (vec![], "not_accepted"), "{kind}");
        for n in 0..32 {
            assert_eq!(
                told(&stage.tell(output(&format!("c{n}"), ToolStatus::Refused))).len(),
                1,
                "{kind}: each that was taken has its output"
            );
        }
        assert_eq!(events(&stage.ends()), complete(A));
    }
}
