//! A conversation with a service that does what a test says.

use std::collections::BTreeSet;

use recado_core::conversation::effect::{Cause, HeardText, Purpose, Standing, ToolStatus};
use recado_core::conversation::input::{Acoustic, AcousticEdge, AcousticEpoch, Evidence, ModelEvent, SegmentRef};
use recado_core::policy::Language;
use recado_core::{BatchId, DeliveryId, OperationId, PlaybackId, ResponseId, Time, TurnId};
use serde_json::{Value, json};

use super::*;
use crate::cognition::models::link::Session as _;
use crate::cognition::models::transport::ServerMessage;

const A: ResponseId = ResponseId(1);
const B: ResponseId = ResponseId(2);
const TURN: Cause = Cause::Turn { turn: TurnId(1) };

/// A session and its service.
struct Stage {
    session: Session,
    now: Time,
}

impl Stage {
    fn with(settings: &str, tools: &str, began_unix_s: Option<u64>) -> Self {
        let service = toml::from_str(&format!("url = 'ws://127.0.0.1/'\nmodel = 'm'\n{settings}")).unwrap();
        let tools: toml::Table = toml::from_str(tools).unwrap();
        let tools: Vec<_> = tools.get("tools").into_iter().flat_map(|tools| tools.as_array().unwrap().clone()).collect();
        let tools: Vec<_> = tools.into_iter().map(|tool| tool.try_into().unwrap()).collect();
        let setup = Setup::new(&service, Language::Es, "Sé breve.", &tools).unwrap();
        Self { session: Session::new(setup, began_unix_s), now: Time(1_000) }
    }

    fn new() -> Self {
        Self::with("", TOOL, None)
    }

    /// With a connection, and the session started.
    fn ready() -> Self {
        let mut stage = Self::new();
        stage.connect();
        stage
    }

    /// The session that is started when a connection stands, and what is done when it has.
    fn connect(&mut self) -> (Value, Vec<Action>) {
        let start = self.give(Line::Connected);
        assert_eq!(types(&start), ["session.start"]);
        let ready = self.server(json!({ "type": "session.started", "event_id": "e", "session": { "id": "s", "expires_at": 2_000 } }));
        assert!(ready.contains(&Action::Said(Said::Ready)));
        (sent(&start)[0]["session"].clone(), ready)
    }

    fn give(&mut self, input: impl Into<Input>) -> Vec<Action> {
        self.session.handle(self.now, input)
    }

    fn server(&mut self, event: Value) -> Vec<Action> {
        self.give(Line::Server(ServerEvent::read(&event.to_string()).unwrap().unwrap()))
    }

    fn tell(&mut self, command: Command) -> Vec<Action> {
        self.give(Told::Command(command))
    }

    fn respond(&mut self, response: ResponseId, cause: Cause) -> Vec<Action> {
        self.tell(Command::Respond { response, cause })
    }

    /// The model says this, in so many milliseconds.
    fn speaks(&mut self, words: &str, ms: usize) -> Vec<Action> {
        let mut actions = match words {
            "" => Vec::new(),
            words => self.server(json!({ "type": "session.output_transcript.delta", "event_id": "e", "delta": words, "start_ms": self.now.0, "end_ms": self.now.0 })),
        };
        actions.extend(self.sound(0x20, ms));
        actions
    }

    /// The model sends so much silence.
    fn silence(&mut self, ms: usize) -> Vec<Action> {
        self.sound(0xff, ms)
    }

    /// So much audio, of this octet and the same with the other sign.
    fn sound(&mut self, octet: u8, ms: usize) -> Vec<Action> {
        use base64::Engine;
        let audio: Vec<u8> = (0..ms * 8).map(|n| if n % 2 == 0 { octet } else { octet ^ 0x80 }).collect();
        let delta = base64::engine::general_purpose::STANDARD.encode(audio);
        self.server(json!({ "type": "session.output_audio.delta", "delta": delta }))
    }

    /// The caller says this, as the service writes it down.
    fn caller(&mut self, start_ms: u64, words: &str) -> Vec<Action> {
        self.server(json!({ "type": "session.input_transcript.delta", "event_id": "e", "delta": words, "start_ms": start_ms, "end_ms": start_ms + 10 }))
    }

    fn delegates(&mut self, id: &str, offset_ms: u64) -> Vec<Action> {
        self.server(json!({
            "type": "session.delegation.created", "event_id": "e", "offset_ms": offset_ms,
            "delegation": { "id": id, "target": "client", "type": "delegation" },
        }))
    }

    fn later(&mut self, ms: u64) -> Vec<Action> {
        self.now = self.now.plus(ms);
        self.give(Line::Wake)
    }

    /// Time passes, and it is woken when it wants to be.
    fn pass(&mut self, ms: u64) -> Vec<Action> {
        let end = self.now.plus(ms);
        let mut actions = Vec::new();
        while let Some(at) = self.session.deadline().filter(|at| *at <= end) {
            assert!(at >= self.now);
            self.now = at;
            actions.extend(self.give(Line::Wake));
            assert!(self.session.deadline().is_none_or(|next| next > at), "woken at {at:?}, it wants to be woken again");
        }
        self.now = end;
        actions.extend(self.give(Line::Wake));
        actions
    }
}

const TOOL: &str = "[[tools]]\nname = 'order'\ndescription = 'Orders what is asked for.'\nurl = 'http://127.0.0.1/'\n\
     parameters = { type = 'object', required = ['request'], properties = { request = { type = 'string' } } }";

fn sent(actions: &[Action]) -> Vec<Value> {
    let events = actions.iter().filter_map(|action| match action {
        Action::Send(event) => Some(serde_json::to_value(&event.body).unwrap()),
        _ => None,
    });
    events.collect()
}

fn types(actions: &[Action]) -> Vec<String> {
    sent(actions).iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

/// What the model is told, and of which task.
fn thought(actions: &[Action]) -> Vec<(String, Value)> {
    let told = sent(actions).into_iter().filter(|event| event["type"] == "session.thinking.append");
    told.map(|event| (event["content"].as_str().unwrap().to_owned(), event["delegation_id"].clone())).collect()
}

fn events(actions: &[Action]) -> Vec<ModelEvent> {
    let events = actions.iter().filter_map(|action| match action {
        Action::Said(Said::Output(Output::Event(event))) => Some(event.clone()),
        _ => None,
    });
    events.collect()
}

fn spoken(actions: &[Action]) -> String {
    let words = actions.iter().filter_map(|action| match action {
        Action::Said(Said::Output(Output::Words { text, .. })) => Some(text.as_str()),
        _ => None,
    });
    words.collect()
}

fn audio_ms(actions: &[Action], of: ResponseId) -> usize {
    let bytes = actions.iter().map(|action| match action {
        Action::Said(Said::Output(Output::Audio { response, bytes })) if *response == of => bytes.len(),
        Action::Said(Said::Output(Output::Audio { response, .. })) => panic!("{response}"),
        _ => 0,
    });
    bytes.sum::<usize>() / 8
}

fn call(response: ResponseId, id: &str, request: &str) -> ModelEvent {
    let arguments = json!({ "request": request });
    let call = recado_core::conversation::ToolCall { call_id: id.into(), tool: "order".into(), arguments, confirmed: false };
    ModelEvent::ToolCall { response, call }
}

#[test]
fn a_session_is_started_with_its_settings_and_then_hears_all_that_the_caller_says() {
    let mut stage = Stage::with("voice = 'marin'\nformat = 'pcm16k'\nacknowledgement_delay_ms = 700", TOOL, None);
    assert_eq!(types(&stage.give(Told::Caller(vec![1; 640]))), [""; 0], "there is no session");
    let (session, ready) = stage.connect();
    assert_eq!(session["audio"], json!({ "format": { "type": "audio/pcm", "rate": 16_000 }, "output": { "voice": "marin" } }));
    assert_eq!(session["delegation"], json!({ "type": "client", "acknowledgement_delay_ms": 700 }));
    assert_eq!(session["instructions"], "Sé breve.\n\nThe call is held in Spanish. What you can delegate: Orders what is asked for.");
    assert_eq!((session.get("input"), &session["store"]), (None, &json!(false)));
    assert_eq!(types(&ready), ["session.input_audio.append"], "what was said before it is heard");
    assert_eq!(types(&stage.give(Told::Caller(vec![0; 640]))), ["session.input_audio.append"], "silence too");
    let without = Stage::with("", "", None).give(Line::Connected);
    assert!(sent(&without)[0]["session"]["instructions"].as_str().unwrap().ends_with("There is nothing that you can delegate."));
}

#[test]
fn a_greeting_is_asked_for_once_there_is_a_session_and_ends_when_the_model_has_been_quiet() {
    let mut stage = Stage::new();
    assert_eq!(stage.respond(A, Cause::Greeting), []);
    let (_, ready) = stage.connect();
    let asked = &sent(&ready)[0];
    assert_eq!((&asked["type"], &asked["delegation_id"]), (&json!("session.commentary.append"), &Value::Null));
    assert!(asked["content"].as_str().unwrap().contains("Greet the caller"));
    assert_eq!(stage.silence(100), [], "silence before the first word is not passed on");
    let said = stage.speaks("Hola, dígame. ", 600);
    assert_eq!((spoken(&said).as_str(), audio_ms(&said, A)), ("Hola,", 600));
    let paused = stage.later(300);
    assert_eq!(spoken(&paused), " dígame. ", "what has come is said");
    assert!(paused.contains(&Action::Said(Said::Output(Output::Audio { response: A, bytes: vec![] }))), "{paused:?}");
    assert_eq!(audio_ms(&stage.silence(100), A), 100, "a pause is part of it");
    stage.later(300);
    assert_eq!(audio_ms(&stage.silence(100), A), 0, "and no longer than that");
    let ended = stage.pass(200);
    assert_eq!((spoken(&ended).as_str(), events(&ended)), ("", vec![ModelEvent::Complete { response: A }]));
    assert_eq!(stage.pass(5_000), [], "nothing more comes of it");
}

#[test]
fn a_word_alone_does_not_wait_for_another_one() {
    let mut stage = Stage::ready();
    stage.respond(A, TURN);
    assert_eq!(audio_ms(&stage.speaks("Sí.", 300), A), 0, "more of it may come");
    let said = stage.pass(120);
    assert_eq!((spoken(&said).as_str(), audio_ms(&said, A), events(&said)), ("Sí.", 300, vec![]));
}

#[test]
fn an_answer_that_began_before_the_turn_was_known_to_be_over_is_passed_on_whole() {
    let mut stage = Stage::ready();
    let first = stage.speaks("Claro. ", 200);
    assert_eq!(events(&first), [ModelEvent::WantsToSpeak]);
    stage.later(200);
    let more = stage.speaks("Ahora mismo. ", 200);
    assert_eq!((audio_ms(&more, A), spoken(&more).as_str()), (0, ""));
    stage.later(500);
    let asked = stage.respond(A, TURN);
    assert_eq!((spoken(&asked).as_str(), audio_ms(&asked, A)), ("Claro. Ahora mismo. ", 400));
    assert_eq!(events(&stage.pass(800)), [ModelEvent::Complete { response: A }]);
}

#[test]
fn what_nobody_asks_for_is_dropped_and_the_model_knows_that_it_was_not_heard() {
    let mut stage = Stage::ready();
    stage.speaks("Por cierto, hoy cerramos. ", 500);
    let wishes = events(&stage.pass(1_499)).into_iter().filter(|event| *event == ModelEvent::WantsToSpeak).count();
    assert!((3..=6).contains(&wishes), "it is asked again, and not all the time: {wishes}");
    let dropped = stage.pass(1);
    let told = thought(&dropped);
    assert!(told[0].0.contains("did not hear this") && told[0].0.contains("Por cierto, hoy cerramos.") && told[0].1.is_null());
    assert_eq!(stage.session.totals().dropped_ms, 500);
    assert_eq!(stage.respond(A, TURN), [], "it is not said later");
    stage.tell(Command::CancelResponse { response: A });
    stage.speaks("Ajá. ", 100);
    assert_eq!(thought(&stage.pass(3_000)), [], "a word alone is worth no word");
}

#[test]
fn the_model_is_let_speak_of_its_own_accord_and_a_response_with_nothing_to_say_ends() {
    let mut stage = Stage::ready();
    stage.speaks("Se me olvidaba. ", 300);
    assert_eq!(audio_ms(&stage.respond(A, Cause::OwnAccord), A), 300);
    assert_eq!(events(&stage.pass(800)), [ModelEvent::Complete { response: A }]);
    assert_eq!(events(&stage.respond(B, Cause::OwnAccord)), [ModelEvent::Complete { response: B }], "nobody waits for it");
    // Words that come late are no reason to speak.
    let late =
        stage.server(json!({ "type": "session.output_transcript.delta", "event_id": "e", "delta": " Adiós.", "start_ms": 9, "end_ms": 9 }));
    assert_eq!(late, []);
}

#[test]
fn nothing_is_heard_of_a_cancelled_response_until_the_model_has_been_quiet_or_is_asked_again() {
    let mut stage = Stage::ready();
    stage.respond(A, TURN);
    stage.speaks("Le cuento una historia larga. ", 1_000);
    assert_eq!(stage.tell(Command::CancelResponse { response: A }), []);
    for _ in 0..10 {
        stage.later(100);
        assert_eq!(stage.speaks("Y entonces. ", 100), []);
    }
    let cut = stage.tell(Command::Truncate { response: A, heard_ms: 400, heard_text: "Le cuento".into() });
    assert_eq!(thought(&cut)[0].0, "You were cut off: of what you were saying, the caller heard this and no more: \"Le cuento\"");
    assert_eq!(thought(&stage.tell(Command::Truncate { response: B, heard_ms: 0, heard_text: String::new() })), [], "it never said that");
    stage.later(500);
    assert_eq!(events(&stage.speaks("Dígame ya. ", 100)), [ModelEvent::WantsToSpeak]);
    assert_eq!(audio_ms(&stage.respond(B, TURN), B), 100);
    stage.tell(Command::CancelResponse { response: B });
    stage.later(50);
    assert_eq!(stage.speaks("y ", 50), []);
    stage.respond(ResponseId(3), TURN);
    assert_eq!(audio_ms(&stage.speaks("Sí, claro. ", 100), ResponseId(3)), 100);
    assert_eq!(stage.session.totals().dropped_ms, 1_050);
}

#[test]
fn a_task_becomes_a_call_in_the_callers_words_once_they_are_written_down() {
    let mut stage = Stage::ready();
    stage.caller(100, "Quiero pan");
    stage.respond(A, TURN);
    assert_eq!(events(&stage.delegates("dlg_1", 2_000)), []);
    stage.later(100);
    assert_eq!(events(&stage.caller(1_500, " y vino.")), []);
    assert_eq!(events(&stage.pass(500)), [call(A, "dlg_1", "Quiero pan y vino.")]);
    assert_eq!(events(&stage.delegates("dlg_1", 2_000)), [], "it is said twice");
    let same = stage.delegates("dlg_2", 2_100);
    assert_eq!(events(&same), []);
    let refused = stage.pass(600);
    assert!(thought(&refused)[0].0.starts_with("Nothing was done: all that the caller said was given on"), "{refused:?}");
    assert_eq!(thought(&refused)[0].1, "dlg_2");
    assert_eq!(events(&refused), []);
    // What it is saying meanwhile is not cut in two.
    stage.caller(2_200, " Y agua.");
    stage.delegates("dlg_4", 2_500);
    for _ in 0..8 {
        assert_eq!(events(&stage.speaks("Muy bien. ", 100)), []);
        assert_eq!(events(&stage.pass(100)), []);
    }
    assert_eq!(events(&stage.pass(100)), [call(A, "dlg_4", "Y agua.")]);
    let accepted =
        stage.tell(Command::ToolOutput { call_id: "dlg_1".into(), operation: Some(OperationId(1)), status: ToolStatus::Running });
    let told = thought(&accepted);
    assert!(told.iter().all(|(text, of)| text.len() <= 500 && of == "dlg_1") && told[0].0.starts_with("It runs."), "{told:?}");
    assert_eq!(events(&stage.pass(800)), [ModelEvent::Complete { response: A }]);
}

#[test]
fn a_task_that_nobody_has_a_moment_for_waits_for_one_and_not_for_ever() {
    let mut stage = Stage::ready();
    stage.caller(100, "Quiero pan.");
    assert_eq!(events(&stage.delegates("dlg_1", 2_000)), [ModelEvent::WantsToSpeak]);
    assert_eq!(events(&stage.pass(1_000)).len(), 2, "it asks again");
    let made = stage.respond(A, TURN);
    assert_eq!(events(&made), [call(A, "dlg_1", "Quiero pan.")]);
    stage.pass(1_000);
    stage.caller(3_000, " Y sal.");
    stage.delegates("dlg_2", 4_000);
    let given_up = stage.pass(15_000);
    assert_eq!(thought(&given_up), [("Nothing was done: there was no moment for it: delegate it again.".to_owned(), json!("dlg_2"))]);
    // Without a word of the caller's there is nothing to do, and a response is not kept open for longer than a service that answers takes.
    let mut stage = Stage::ready();
    stage.respond(B, TURN);
    stage.speaks("Un momento. ", 500);
    stage.pass(700);
    stage.delegates("dlg_3", 9_000);
    let not_understood = stage.pass(2_000);
    assert!(thought(&not_understood)[0].0.contains("was not understood"));
    assert_eq!(events(&not_understood), [ModelEvent::Complete { response: B }]);
    let mut without = Stage::with("", "", None);
    without.connect();
    assert!(thought(&without.delegates("dlg_1", 1))[0].0.contains("nothing here that could do it"));
}

#[test]
fn what_the_box_has_told_is_context_in_pieces_that_a_service_takes_and_no_result_comes_before() {
    let mut stage = Stage::ready();
    let told = thought(&stage.tell(Command::Told { delivery: DeliveryId(1), text: "La mesa está reservada. ".repeat(40) }));
    assert!(told.len() > 1 && told.iter().all(|(text, of)| text.len() <= 500 && of.is_null()));
    assert!(told[0].0.starts_with("The caller has been told this, in your name; do not repeat it:"));
    let update = thought(&stage.tell(Command::Update { delivery: DeliveryId(2), text: "Falta poco.".into() }));
    assert!(update[0].0.contains("which is no result"));
    let heard = |purpose, standing, text: &str| {
        let segment = SegmentRef { playback: PlaybackId(1), index: 0 };
        Command::Heard(HeardText { segment, purpose, text: text.into(), heard_ms: 500, standing })
    };
    let acceptance = Purpose::Acceptance { batch: BatchId(1) };
    assert_eq!(thought(&stage.tell(heard(acceptance, Standing::Provisional, "Ahora se lo pido."))), []);
    let settled = thought(&stage.tell(heard(acceptance, Standing::Settled(Evidence::Received), "Ahora se lo pido.")));
    assert!(settled[0].0.ends_with("do not repeat it: \"Ahora se lo pido.\""));
    stage.respond(A, TURN);
    stage.speaks("Bien. ", 100);
    let own = |standing| heard(Purpose::Reply { response: A }, standing, "Bien.");
    assert_eq!(thought(&stage.tell(own(Standing::Settled(Evidence::Received)))), [], "it knows its own words");
    assert!(thought(&stage.tell(own(Standing::Uncertain)))[0].0.contains("is not known"));
    // The box speaks in its name where it failed.
    let apology = heard(Purpose::Reply { response: B }, Standing::Settled(Evidence::Received), "Perdone.");
    assert!(thought(&stage.tell(apology))[0].0.contains("do not repeat it: \"Perdone.\""));
}

#[test]
fn a_new_session_is_told_what_was_heard_and_what_runs_and_is_not_answered_for_another_ones_tasks() {
    let mut stage = Stage::ready();
    stage.caller(100, "Quiero");
    stage.caller(200, " pan.");
    stage.respond(A, TURN);
    stage.delegates("dlg_1", 2_000);
    stage.pass(600);
    stage.tell(Command::ToolOutput { call_id: "dlg_1".into(), operation: Some(OperationId(1)), status: ToolStatus::Running });
    let heard = HeardText {
        segment: SegmentRef { playback: PlaybackId(1), index: 0 },
        purpose: Purpose::Reply { response: A },
        text: "Ahora mismo".into(),
        heard_ms: 700,
        standing: Standing::Settled(Evidence::Received),
    };
    stage.tell(Command::Heard(heard));
    stage.tell(Command::Told { delivery: DeliveryId(1), text: "Hay pan.".into() });
    stage.delegates("dlg_2", 2_500);
    let lost = stage.give(Line::Lost { reason: "the connection broke".into() });
    assert_eq!(events(&lost), [ModelEvent::Failed { response: A, reason: "the connection broke".into() }]);
    assert_eq!(stage.session.deadline(), None);
    let (session, ready) = stage.connect();
    let input: Vec<(&str, &str)> = session["input"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| (item["role"].as_str().unwrap(), item["content"][0]["text"].as_str().unwrap()))
        .collect();
    assert_eq!(input[..2], [("user", "Quiero pan."), ("assistant", "Ahora mismo")]);
    assert_eq!(input[2], ("developer", "The caller has been told this, in your name; do not repeat it: \"Hay pan.\""));
    assert!(input[3].1.contains("has not been done"), "{input:?}");
    assert!(input[4].1.starts_with("order (\"Quiero pan.\") was called earlier in this call."), "{input:?}");
    assert_eq!(session["input"][1]["content"][0]["type"], "output_text");
    assert_eq!(events(&ready), []);
    let later = stage.tell(Command::ToolOutput { call_id: "dlg_1".into(), operation: Some(OperationId(1)), status: ToolStatus::Told });
    assert_eq!(
        thought(&later),
        [(
            "About order (\"Quiero pan.\"), which was called before: The caller has been told its result already: do not call it again."
                .into(),
            Value::Null
        )]
    );
}

#[test]
fn a_call_that_came_too_late_for_its_response_is_known_to_have_done_nothing_and_can_be_made_again() {
    for taken in [false, true] {
        let mut stage = Stage::ready();
        stage.caller(100, "Quiero pan.");
        stage.respond(A, TURN);
        stage.delegates("dlg_1", 2_000);
        assert_eq!(events(&stage.pass(600)).len(), 1);
        stage.tell(Command::CancelResponse { response: A });
        if taken {
            // It was accepted, and the model hears of it a little later.
            stage.tell(Command::ToolOutput { call_id: "dlg_1".into(), operation: Some(OperationId(1)), status: ToolStatus::Running });
        }
        let told = thought(&stage.pass(4_000));
        assert_eq!(told.len(), usize::from(!taken), "{told:?}");
        assert!(told.iter().all(|(text, of)| text.starts_with("Nothing was done: the caller had begun to speak") && of == "dlg_1"));
        stage.respond(B, TURN);
        stage.delegates("dlg_2", 9_000);
        let again = [call(B, "dlg_2", "Quiero pan.")];
        assert_eq!(events(&stage.pass(600)), if taken { &again[..0] } else { &again });
    }
}

#[test]
fn a_task_that_is_lost_with_the_session_is_known_to_be_and_is_delegated_again_in_the_callers_words() {
    let mut stage = Stage::ready();
    stage.caller(100, "Quiero pan.");
    stage.respond(A, TURN);
    stage.delegates("dlg_1", 2_000);
    stage.pass(600);
    stage.caller(5_000, " Y vino");
    stage.caller(5_400, " tinto.");
    stage.delegates("dlg_2", 6_000);
    stage.give(Line::Lost { reason: "the connection broke".into() });
    let (session, _) = stage.connect();
    assert!(session["input"].to_string().contains("has not been done: delegate it again"), "{session}");
    stage.respond(B, TURN);
    stage.caller(50, " Y sal.");
    stage.delegates("dlg_1", 100);
    assert_eq!(events(&stage.pass(600)), [call(B, "dlg_1", "Y vino tinto. Y sal.")], "what was taken is not done again");
    let before = stage.session.memory.restore([]).len();
    stage.pass(5_000);
    stage.give(Line::Lost { reason: "the connection broke".into() });
    assert_eq!(stage.session.memory.restore([]).len(), before, "nothing was lost this time");
}

#[test]
fn a_session_that_ends_or_is_about_to_is_replaced_while_nobody_speaks() {
    let mut stage = Stage::with("", TOOL, Some(1_000));
    stage.connect();
    // It ends at 2,000 s, of which 1,000 had passed when this began.
    assert_eq!(stage.session.deadline(), Some(Time(940_000)));
    stage.tell(Command::Acoustic(AcousticEdge { to: Acoustic::Speaking, epoch: AcousticEpoch(1), at: stage.now }));
    assert_eq!(stage.pass(940_000), []);
    let quiet = stage.tell(Command::Acoustic(AcousticEdge { to: Acoustic::Quiet, epoch: AcousticEpoch(2), at: stage.now }));
    assert_eq!(quiet, [Action::Reconnect { reason: "the session is near its limit".into() }]);
    stage.connect();
    let usage = |seconds: f64| json!({ "type": "session.usage.updated", "event_id": "e", "usage": { "seconds": seconds }, "context_window": { "usage_ratio": 0.5 } });
    stage.server(usage(20.0));
    stage.server(usage(30.0));
    stage.respond(A, TURN);
    let closed = stage.server(json!({ "type": "session.closed", "event_id": "e", "reason": "expired", "usage": { "seconds": 31.0 } }));
    assert!(matches!(&closed[0], Action::Reconnect { reason } if reason.ends_with("expired")), "{closed:?}");
    assert!(matches!(&events(&closed[1..])[..], [ModelEvent::Failed { response: A, .. }]), "it has failed for that: {closed:?}");
    stage.connect();
    stage.server(usage(5.0));
    let totals = stage.session.totals();
    assert_eq!((totals.seconds, totals.context_ratio), (36.0, Some(0.5)));
}

#[test]
fn a_service_that_does_not_take_the_session_is_not_asked_again_and_one_that_is_overloaded_is() {
    let fault =
        |kind: &str, code: &str| json!({ "type": "error", "event_id": "e", "error": { "type": kind, "code": code, "message": "No." } });
    let mut stage = Stage::new();
    stage.respond(A, Cause::Greeting);
    stage.give(Line::Connected);
    let overloaded = stage.server(fault("server_error", "overloaded"));
    assert!(matches!(&overloaded[0], Action::Reconnect { .. }) && events(&overloaded).is_empty(), "{overloaded:?}");
    stage.give(Line::Connected);
    let refused = stage.server(fault("invalid_request_error", "unknown_parameter"));
    assert!(
        matches!(&events(&refused)[..], [ModelEvent::Failed { response: A, .. }]) && matches!(refused[1], Action::Said(Said::Refused(_)))
    );
    assert!(matches!(&events(&stage.respond(B, TURN))[..], [ModelEvent::Failed { response: B, .. }]));
    let mut stage = Stage::ready();
    assert!(matches!(stage.server(fault("invalid_request_error", "odd"))[..], [Action::Said(Said::Trouble(_))]));
    let mut stage = Stage::new();
    stage.give(Line::Connected);
    assert!(matches!(&stage.later(10_000)[..], [Action::Reconnect { reason }] if reason.contains("has started")));
}

#[test]
fn what_another_model_answered_is_not_sent_and_a_session_that_is_to_be_replaced_is() {
    let mut stage = Stage::new();
    stage.give(Told::Caller(vec![0; 160]));
    assert_eq!(stage.tell(Command::Reconnect), [], "there is no connection");
    stage.tell(Command::AnsweredElsewhere);
    let (session, ready) = stage.connect();
    assert_eq!(types(&ready), [""; 0]);
    assert!(session["input"][0]["content"][0]["text"].as_str().unwrap().contains("has answered in your place"), "{session}");
    assert_eq!(thought(&stage.tell(Command::AnsweredElsewhere)).len(), 1);
    assert!(matches!(&stage.tell(Command::Reconnect)[..], [Action::Reconnect { .. }]));
}

#[test]
fn what_the_service_does_not_acknowledge_is_said_once() {
    let mut stage = Stage::ready();
    let told = stage.tell(Command::Told { delivery: DeliveryId(1), text: "Hecho.".into() });
    let Action::Send(event) = &told[0] else { panic!("{told:?}") };
    stage.now = stage.now.plus(70);
    let taken = stage.server(
        json!({ "type": "session.thinking.appended", "event_id": "e", "client_event_id": event.event_id, "start_ms": 0, "end_ms": 0 }),
    );
    assert_eq!(taken, [Action::Said(Said::Acknowledged { after_ms: 70 })]);
    assert_eq!(stage.pass(20_000), []);
    stage.tell(Command::Told { delivery: DeliveryId(1), text: "Hecho.".into() });
    stage.tell(Command::Told { delivery: DeliveryId(1), text: "Hecho.".into() });
    assert_eq!(stage.pass(20_000), [Action::Said(Said::Unacknowledged { appends: 2 })]);
}

proptest::proptest! {
    /// Whatever a service says, in whatever order: no panic, nothing of a response before it is asked for or after its end, at most one call of
    /// each task, no append that is too long, and no wish to be woken in the past.
    #[test]
    fn no_order_of_events_breaks_what_a_session_keeps_to(steps in proptest::collection::vec((0u8..17, 0u8..4), 1..150)) {
        let mut stage = Stage::new();
        let mut keeps = Keeps::default();
        let mut next = 10u128;
        for (step, n) in steps {
            let task = format!("dlg_{n}");
            let response = ResponseId(next.saturating_sub(u128::from(n)));
            let starts = stage.session.connection;
            let actions = match step {
                0 => {
                    next += 1;
                    keeps.open = Some(ResponseId(next));
                    stage.respond(ResponseId(next), [TURN, Cause::Greeting, Cause::OwnAccord, Cause::Silence { quiet_ms: 9 }][usize::from(n)].clone())
                }
                1 => {
                    let actions = stage.tell(Command::CancelResponse { response });
                    keeps.open = keeps.open.filter(|open| *open != response);
                    actions
                }
                2 => stage.tell(Command::Truncate { response, heard_ms: 90, heard_text: "x ".repeat(600) }),
                3 => stage.tell(Command::ToolOutput { call_id: task, operation: Some(OperationId(1)), status: ToolStatus::Running }),
                4 | 5 => stage.speaks("Una frase. Otra. ", 100),
                6 => stage.speaks("", 700),
                7 => stage.silence(100),
                8 => stage.caller(stage.now.0, "Quiero algo. "),
                9 => stage.delegates(&task, stage.now.0),
                10 => {
                    let code = ["odd", "session_expired", "x", "y"][usize::from(n)];
                    stage.server(json!({ "type": "error", "error": { "type": "server_error", "code": code } }))
                }
                11 => stage.give(Line::Lost { reason: "broke".into() }),
                12 => stage.give(Line::Connected),
                13 => stage.server(json!({ "type": "session.started" })),
                14 => stage.later([100, 700, 3_000, 20_000][usize::from(n)]),
                15 => stage.give(Told::Caller(vec![0; 160])),
                _ => stage.server(json!({ "type": "session.closed", "reason": "expired" })),
            };
            if stage.session.connection != starts {
                keeps.tasks.clear();
            }
            keeps.check(&actions);
            let woken = stage.pass(0);
            keeps.check(&woken);
        }
    }
}

/// What is checked after every step.
#[derive(Default)]
struct Keeps {
    /// The response that was asked for and has not ended.
    open: Option<ResponseId>,
    /// The tasks of this connection that became calls.
    tasks: BTreeSet<String>,
}

impl Keeps {
    fn check(&mut self, actions: &[Action]) {
        for action in actions {
            match action {
                Action::Said(Said::Output(Output::Event(event))) => match event {
                    ModelEvent::Complete { response } | ModelEvent::Failed { response, .. } => {
                        assert_eq!(self.open.take(), Some(*response));
                    }
                    ModelEvent::ToolCall { response, call } => {
                        assert_eq!(self.open, Some(*response));
                        assert!(self.tasks.insert(call.call_id.clone()), "{} is called twice", call.call_id);
                    }
                    ModelEvent::WantsToSpeak => {}
                    other => panic!("{other:?}"),
                },
                Action::Said(Said::Output(Output::Words { response, .. } | Output::Audio { response, .. })) => {
                    assert_eq!(self.open, Some(*response));
                }
                Action::Send(event) => {
                    let event = serde_json::to_value(&event.body).unwrap();
                    assert!(event["content"].as_str().is_none_or(|content| !content.is_empty() && content.len() <= 500), "{event}");
                }
                _ => {}
            }
        }
    }
}
