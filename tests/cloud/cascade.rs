//! A cascade as the model of a call, without a call around it, against services that keep to the interface and such that do everything else.

use std::sync::Arc;
use std::time::Duration;

use recado::cognition::models::cascade::session::Part;
use recado::cognition::models::cascade::{Cascade, Observer};
use recado::cognition::models::{Availability, CALLER_FRAME_SAMPLES, Command, Model, ModelSession, Output, OutputKind, Usage};
use recado_core::conversation::effect::Cause;
use recado_core::conversation::input::{Acoustic, AcousticEdge, AcousticEpoch, ModelEvent};
use recado_core::{ResponseId, Time, TurnId};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::http_service::{Conduct, End, HttpService, chat};
use super::stage::{configured, open};
use super::talker::{A, B};
use super::validator::{self, Tap};

/// The model of a box with these settings.
pub fn model(settings: &str) -> Cascade {
    model_seen_by(settings, None)
}

fn model_seen_by(settings: &str, observer: Option<Arc<dyn Observer>>) -> Cascade {
    let tool = "[[tools]]\nname = 'order'\nurl = 'http://127.0.0.1/'\nsay_done.es = 'Hecho.'\n\
                parameters = { type = 'object', required = ['item'], properties = { item = { type = 'string' } } }\n";
    configured(&format!("{settings}{tool}"), |config| Cascade::new(config, "Sé breve.".to_owned(), observer).unwrap())
}

fn acoustic(session: &ModelSession, to: Acoustic) {
    session.handle.tell(Command::Acoustic(AcousticEdge { to, epoch: AcousticEpoch(0), at: Time(0) })).unwrap();
}

/// The caller says something for half a second, and pauses.
fn pauses(session: &ModelSession) {
    says(session, &[1_000; 25 * CALLER_FRAME_SAMPLES]);
}

/// The caller says this, and pauses.
pub fn says(session: &ModelSession, samples: &[i16]) {
    acoustic(session, Acoustic::Suspected);
    acoustic(session, Acoustic::Speaking);
    for frame in samples.chunks_exact(CALLER_FRAME_SAMPLES) {
        session.handle.audio.as_ref().unwrap().push(frame.try_into().unwrap());
    }
    acoustic(session, Acoustic::Trailing);
}

pub fn respond(session: &ModelSession, response: ResponseId, cause: Cause) {
    session.handle.tell(Command::Respond { response, cause }).unwrap();
}

pub fn turn_ends(session: &ModelSession, response: ResponseId) {
    acoustic(session, Acoustic::Quiet);
    respond(session, response, Cause::Turn { turn: TurnId(response.0) });
}

/// What came of a response, its end included.
pub async fn all_of(session: &mut ModelSession, of: ResponseId) -> (String, Vec<ModelEvent>) {
    let (mut words, mut events) = (String::new(), Vec::new());
    loop {
        let output = tokio::time::timeout(Duration::from_secs(60), session.outputs.recv()).await.expect("an end within a minute");
        let event = match output.expect("a session that goes on") {
            Output::Event(event) => event,
            Output::Availability(_) => continue,
            other => panic!("it makes no sound, and gives everything itself: {other:?}"),
        };
        if let ModelEvent::Clause { response, content } = &event {
            assert_eq!(*response, of);
            words.push_str(content.text());
        }
        let ended = matches!(event, ModelEvent::Complete { .. } | ModelEvent::Failed { .. });
        events.push(event);
        if ended {
            return (words, events);
        }
    }
}

pub fn failure(events: &[ModelEvent]) -> &str {
    match events.last() {
        Some(ModelEvent::Failed { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

pub fn complete(events: &[ModelEvent]) -> bool {
    matches!(events.last(), Some(ModelEvent::Complete { .. }))
}

/// Says which part has given all of what it was asked for, each time.
#[derive(Debug)]
struct Comes(mpsc::UnboundedSender<Part>);

impl Observer for Comes {
    fn stands(&self, part: Part, _: &Availability) {
        // Nobody waits for more than the test does.
        let _ = self.0.send(part);
    }

    fn took(&self, _: Part, _: &Usage) {}

    fn known(&self, _: Part) -> Availability {
        Availability::Ready
    }
}

const SETTINGS: &str =
    "speculate = false\nconnect_timeout_ms = 500\nanswer_timeout_ms = 700\nstall_timeout_ms = 700\nwhole_timeout_ms = 2500";

#[tokio::test]
async fn what_is_sent_is_what_the_vendors_types_say_and_what_comes_is_said_in_sentences() {
    let answers = vec![
        Conduct::says("Buenos días. ¿Qué desea?"),
        Conduct::events(&chat("Ahora mismo.", &[("order", "{\"item\":\"paella\"}")])),
        Conduct::says("Dígame."),
    ];
    let service = HttpService::start(vec![Conduct::wrote(" Una paella, por favor.")], answers).await;
    let model = model(&service.settings(
        "key_file = 'key'\nprompt = 'Una mesa.'\nkeywords = ['Aranjuez']",
        "key_file = 'key'\nkey_header = 'api-key'\ntokens_max = 99\nspeculate = false",
    ));
    let can = model.capabilities();
    assert!(can.output == OutputKind::Text && can.hears_audio && can.cancel && can.truncate && !can.owns_turns);
    let mut session = open(&model);
    respond(&session, A, Cause::Greeting);
    let (words, events) = all_of(&mut session, A).await;
    assert_eq!((words.as_str(), events.len()), ("Buenos días. ¿Qué desea?", 3));
    pauses(&session);
    turn_ends(&session, B);
    let (words, events) = all_of(&mut session, B).await;
    assert_eq!(words, "Ahora mismo.");
    assert!(matches!(&events[1], ModelEvent::ToolCall { call, .. } if call.arguments == json!({ "item": "paella" })), "{events:?}");
    respond(&session, A, Cause::Silence { quiet_ms: 9_000 });
    assert_eq!(all_of(&mut session, A).await.0, "Dígame.");

    let heard = &service.seen.heard()[0];
    let text = String::from_utf8_lossy(&heard.body);
    assert_eq!(heard.path, "/v1/audio/transcriptions");
    assert!(heard.head.contains("authorization: bearer s3cr3t-key") && heard.head.contains("content-type: multipart/form-data; boundary="));
    for field in [
        "name=\"model\"\r\n\r\nhears",
        "name=\"language\"\r\n\r\nes",
        "name=\"keywords[]\"\r\n\r\nAranjuez",
        "name=\"prompt\"\r\n\r\nUna mesa.",
    ] {
        assert!(text.contains(field), "{field}");
    }
    let wav = heard.body.windows(4).position(|window| window == b"RIFF").unwrap();
    let samples = recado::surface::speech::wav::read(&heard.body[wav..]).unwrap();
    assert!(samples.iter().filter(|sample| **sample == 1_000).count() > 20 * CALLER_FRAME_SAMPLES, "what was said is in it");
    let asked = service.seen.asked();
    assert!(asked.iter().all(|request| request.path == "/v1/chat/completions" && request.head.contains("api-key: s3cr3t-key")));
    assert_eq!(asked[1].messages(), [json!({ "role": "user", "content": "Una paella, por favor." })], "nobody has heard the greeting");
    let called = &asked[2].messages()[1..3];
    assert_eq!(called[0]["tool_calls"][0]["function"], json!({ "name": "order", "arguments": "{\"item\":\"paella\"}" }));
    assert_eq!(called[1]["tool_call_id"], called[0]["tool_calls"][0]["id"]);
    let lines = |side: &str, events: Vec<Value>| -> Vec<String> {
        events.into_iter().map(|event| json!({ "side": side, "event": event }).to_string()).collect()
    };
    let sent = lines("chat-request", asked.iter().map(|request| request.json()).collect());
    let came = lines("chat-chunk", chat("Ahora mismo.", &[("order", "{\"item\":\"paella\"}")]));
    validator::check(&[Tap::of_lines(sent), Tap::of_lines(came)]);
}

#[tokio::test]
async fn the_other_interface_is_spoken_too() {
    let stream: String = [
        json!({ "type": "response.created", "sequence_number": 0, "response": { "id": "resp_1", "status": "in_progress" } }),
        json!({ "type": "response.output_text.delta", "sequence_number": 1, "item_id": "m", "output_index": 0, "content_index": 0, "delta": "Buenos días." }),
        json!({ "type": "response.output_item.added", "sequence_number": 2, "output_index": 1, "item": { "type": "function_call", "id": "f", "call_id": "c", "name": "order", "arguments": "" } }),
        json!({ "type": "response.function_call_arguments.done", "sequence_number": 3, "item_id": "f", "output_index": 1, "arguments": "{\"item\":\"pan\"}" }),
        json!({ "type": "response.completed", "sequence_number": 4, "response": { "id": "resp_1", "status": "completed", "output": [] } }),
    ]
    .iter()
    .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
    .collect();
    let cut = Conduct::stream(stream.split_once("event: response.completed").unwrap().0);
    // Nothing that was said is taken back: only before that, another try is one.
    let early = Conduct::stream(stream.split_once("event: response.output_text").unwrap().0);
    let service = HttpService::start(vec![Conduct::wrote("Pan.")], vec![early, Conduct::stream(stream).in_pieces(7, 1), cut]).await;
    let mut session = open(&model(&service.settings("", &format!("api = 'responses'\n{SETTINGS}"))));
    respond(&session, A, Cause::Greeting);
    let (words, events) = all_of(&mut session, A).await;
    assert_eq!(words, "Buenos días.");
    assert!(matches!(&events[1], ModelEvent::ToolCall { call, .. } if call.arguments == json!({ "item": "pan" })), "{events:?}");
    let asked = service.seen.asked();
    assert_eq!((asked.len(), asked[1].path.as_str()), (2, "/v1/responses"));
    let request = asked[1].json();
    assert_eq!((&request["store"], &request["stream"], request["tools"][0]["name"].as_str()), (&json!(false), &json!(true), Some("order")));
    pauses(&session);
    turn_ends(&session, B);
    assert!(failure(&all_of(&mut session, B).await.1).contains("broke off"));
    let input = service.seen.asked()[2].json()["input"].clone();
    let kinds: Vec<&str> = input.as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["function_call", "function_call_output", "message"]);
    validator::check(&[Tap::of_lines(vec![json!({ "side": "responses-request", "event": request }).to_string()])]);
}

#[tokio::test]
async fn what_goes_by_is_tried_again_and_then_answered_as_if_nothing_had_been() {
    let well = || Conduct::says("Buenos días. ¿Qué desea?");
    let text = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Bue";
    for (what, conduct) in [
        ("429", Conduct::json(429, &json!({ "error": { "message": "Slow down." } })).with("retry-after: 1")),
        ("503", Conduct::json(503, &json!({})).with("retry-after: 0")),
        ("500", Conduct::new(500, "", b"<html>oh</html>".to_vec())),
        ("no head", Conduct::says("").ends(End::NoHead)),
        ("a head and nothing", Conduct::stream("").ends(End::Cut)),
        ("a head and silence", Conduct::stream("").ends(End::Silence)),
        ("a piece and a cut", Conduct::stream(text).ends(End::Cut)),
        ("a piece and silence", Conduct::stream(text).ends(End::Silence)),
        ("no end", Conduct::stream(format!("{text}nos \"}}}}]}}\n\ndata: [DONE]\n\n"))),
        ("a corrupt chunk", Conduct::stream(format!("{text}nos \"}}}}]}}\n\ndata: {{\"choices\":[{{\u{fffd}\n\n"))),
        ("no JSON at all", Conduct::new(200, "content-type: text/html\r\n", b"<html>proxy</html>".to_vec())),
        ("an error in the stream", Conduct::events(&[json!({ "error": { "message": "Oh.", "type": "server_error" } })])),
        ("an answer of nothing", Conduct::says("")),
    ] {
        let service = HttpService::start(vec![Conduct::wrote("")], vec![conduct, well()]).await;
        let mut session = open(&model(&service.settings("", SETTINGS)));
        respond(&session, A, Cause::Greeting);
        let (words, events) = all_of(&mut session, A).await;
        assert_eq!((words.as_str(), complete(&events)), ("Buenos días. ¿Qué desea?", true), "{what}: {events:?}");
        let asked = service.seen.asked();
        assert_eq!((asked.len(), asked[0].json()), (2, asked[1].json()), "{what}");
        if what == "429" {
            assert!(asked[1].at - asked[0].at >= Duration::from_secs(1), "not before the service allows it");
        }
    }
}

#[tokio::test]
async fn a_key_that_is_part_of_what_comes_harms_none_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("dummy");
    // A local server takes any key; people write the shortest.
    std::fs::write(&key, "e").unwrap();
    let stop = json!({ "choices": [{ "index": 0, "delta": { "content": "Me alegro." }, "finish_reason": "stop" }] });
    let service = HttpService::start(vec![Conduct::wrote("")], vec![Conduct::events(&[stop])]).await;
    let mut session = open(&model(&service.settings("", &format!("key_file = '{}'\n{SETTINGS}", key.display()))));
    respond(&session, A, Cause::Greeting);
    let (words, events) = all_of(&mut session, A).await;
    assert_eq!((words.as_str(), events.last()), ("Me alegro.", Some(&ModelEvent::Complete { response: A })));
}

#[tokio::test]
async fn what_stays_is_said_at_once_and_never_with_the_key() {
    let endless = format!("data: {{\"x\":\"{}", "x".repeat(400_000));
    let said = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Buenos días a todos. ¿Qué \"}}]}\n\n";
    let echo = json!({ "error": { "message": "Incorrect API key provided: s3cr3t-key", "code": "invalid_api_key" } });
    let escaped = br#"{"error":{"message":"No key: s3cr3t\u002dkey, s3cr3t%2Dkey, QmVhcmVyIHMzY3IzdC1rZXk=, \u0073\u0033cr3t-key"}}"#;
    let quota = json!({ "error": { "message": "Pay.", "code": "insufficient_quota" } });
    let finish = |reason: &str| Conduct::events(&[json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] })]);
    for (what, conduct, reason) in [
        ("401", Conduct::json(401, &echo), "the service refuses the key (401): Incorrect API key provided: ***"),
        ("escaped", Conduct::new(401, "", escaped.to_vec()), "the service refuses the key (401): No key: ***, ***, ***, ***"),
        ("404", Conduct::json(404, &json!({ "detail": "Not Found" })), "the service knows no such address or model (404): Not Found"),
        ("400", Conduct::json(400, &json!({ "error": "No." })), "the service answers 400: No."),
        ("307", Conduct::new(307, "location: /v2\r\n", vec![]), "the service answers 307"),
        ("a long wait", Conduct::json(429, &json!({})).with("retry-after: 30"), "the service takes no more requests for now (429)"),
        ("no money", Conduct::json(429, &quota).with("retry-after: 0"), "the service takes no more requests for now (429): Pay."),
        ("a large body", Conduct::new(200, "", vec![b'{'; 9 << 20]), "the service's answer is larger than 8388608 bytes"),
        ("an endless event", Conduct::stream(endless), "the service sent an event that is too long"),
        (
            "a slow drip",
            Conduct::stream(": ping\n".repeat(100)).in_pieces(7, 100),
            "the service did not send its whole answer within 2500 ms",
        ),
        ("too long", finish("length"), "the answer is longer than the service or tokens_max allows, and was cut off"),
        ("filtered", finish("content_filter"), "the service cut the answer off: its content is not allowed there"),
        (
            "refused in the stream",
            Conduct::events(std::slice::from_ref(&echo)),
            "the service says: invalid_api_key: Incorrect API key provided: ***",
        ),
        ("said and cut", Conduct::stream(said).ends(End::Cut), "the connection to the service broke: "),
        ("said and silent", Conduct::stream(said).ends(End::Silence), "the service sent nothing more within 700 ms"),
        ("said and broken", Conduct::stream(format!("{said}data: {{\n\n")), "the service sent what can't be read: "),
        ("said without an end", Conduct::stream(format!("{said}data: [DONE]\n\n")), "the service's answer broke off before its end"),
    ] {
        let service = HttpService::start(vec![Conduct::wrote("")], vec![conduct]).await;
        let mut session = open(&model(&service.settings("", &format!("key_file = 'key'\n{SETTINGS}"))));
        respond(&session, A, Cause::Greeting);
        let (words, events) = all_of(&mut session, A).await;
        assert!(failure(&events).starts_with(reason) && !failure(&events).contains("s3cr3t"), "{what}: {events:?}");
        assert_eq!(words, if what.starts_with("said") { "Buenos días a todos. " } else { "" }, "{what}");
        let tries = if what == "a slow drip" { 2 } else { 1 };
        assert!(service.seen.asked().len() <= tries, "{what}");
    }
}

#[tokio::test]
async fn an_answer_is_begun_in_time_with_its_head_and_what_comes_first_of_it() {
    // Two seconds between any two of the times: a machine may well stand still for one.
    let late = Conduct::stream("").after(4_000).ends(End::Silence);
    let service = HttpService::start(vec![Conduct::wrote("")], vec![late]).await;
    let settings = "answer_timeout_ms = 6000\nwhole_timeout_ms = 8000";
    let mut session = open(&model(&service.settings("", settings)));
    respond(&session, A, Cause::Greeting);
    let (_, events) = all_of(&mut session, A).await;
    assert_eq!(failure(&events), "the service began no answer within 6000 ms");
}

#[tokio::test]
async fn where_nobody_answers_at_all_the_response_fails_within_the_callers_patience() {
    let service = HttpService::start(vec![Conduct::wrote("")], vec![Conduct::says("")]).await;
    let settings = service.settings("", SETTINGS);
    drop(service);
    tokio::task::yield_now().await;
    let mut session = open(&model(&settings));
    respond(&session, A, Cause::Greeting);
    let (_, events) = all_of(&mut session, A).await;
    assert!(failure(&events).starts_with("no connection to the service's host"), "{events:?}");
}

#[tokio::test]
async fn a_connection_that_does_not_come_to_be_is_waited_for_no_longer_than_any_service_is_that_a_dialogue_stands_in_for() {
    // Nobody takes the connections that wait there, and there is no place for another one.
    let full = HttpService::closed().listen(1).unwrap();
    let address = full.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(connection) = std::net::TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
        waiting.push(connection);
        assert!(waiting.len() < 64);
    }
    let service = HttpService::start(vec![Conduct::wrote("")], vec![Conduct::says("")]).await;
    let patient = "connect_timeout_ms = 59000\nanswer_timeout_ms = 60000\n[standby]\ntakeover_ms = 300";
    let mut session = open(&model(&service.settings_beside("", address, patient)));
    respond(&session, A, Cause::Greeting);
    let ends = tokio::time::timeout(Duration::from_secs(40), all_of(&mut session, A));
    let (_, events) = ends.await.expect("it does not wait for a minute");
    assert_eq!(failure(&events), "the service's host `127.0.0.1` does not answer to a connection");
}

#[tokio::test]
async fn thoughts_are_neither_said_nor_kept_whatever_pieces_they_come_in() {
    let thinks = "<think>The caller wants a table. Maybe for four?</think>\n\nMuy bien. ¿Para cuántos?";
    for answer in [thinks.to_owned(), thinks.replace("<think>", "<THINK>"), format!("Muy bien. ¿Para cuántos? {}", &thinks[..40])] {
        let service = HttpService::start(vec![Conduct::wrote("")], vec![Conduct::says(&answer)]).await;
        let mut session = open(&model(&service.settings("", SETTINGS)));
        respond(&session, A, Cause::Greeting);
        let (words, events) = all_of(&mut session, A).await;
        assert_eq!((words.trim_end(), complete(&events)), ("Muy bien. ¿Para cuántos?", true), "{answer}");
    }
}

#[tokio::test]
async fn of_thoughts_that_were_begun_in_the_prompt_nothing_is_said_once_that_is_known() {
    let thinks = "The caller wants a table. Maybe for four?</think>\n\nMuy bien. ¿Para cuántos?";
    let service = HttpService::start(vec![Conduct::wrote("")], vec![Conduct::says(thinks)]).await;
    let mut session = open(&model(&service.settings("", SETTINGS)));
    respond(&session, A, Cause::Greeting);
    let (words, _) = all_of(&mut session, A).await;
    assert!(words.ends_with("Muy bien. ¿Para cuántos?") && !words.contains("think>"), "{words}");
    respond(&session, B, Cause::Greeting);
    let (words, events) = all_of(&mut session, B).await;
    assert_eq!((words.trim_end(), complete(&events)), ("Muy bien. ¿Para cuántos?", true));
}

#[tokio::test]
async fn an_answer_is_over_when_the_service_says_so_and_nobody_waits_for_its_last_event() {
    let stream = chat("Buenos días.", &[]).iter().take(5).map(|event| format!("data: {event}\r\n\r\n")).collect::<String>();
    let end = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] });
    let silent = Conduct::stream(format!("{stream}data: {end}\n\n")).ends(End::Silence);
    let service = HttpService::start(vec![Conduct::wrote("")], vec![silent]).await;
    let mut session = open(&model(&service.settings("", "speculate = false\nstall_timeout_ms = 60000")));
    respond(&session, A, Cause::Greeting);
    let (words, events) = all_of(&mut session, A).await;
    assert_eq!((words.as_str(), complete(&events)), ("Buenos días.", true));
}

#[tokio::test]
async fn words_and_calls_are_whole_wherever_the_stream_is_cut() {
    let calls = [("order", "{\"item\":\"piñón\"}"), ("cancel_work", "{}")];
    let answer = || Conduct::events(&chat("¿Piñón? Sí, señor. Así sea.", &calls));
    let conducts = [1, 2, 3, 7, 64].map(|bytes| answer().in_pieces(bytes, 0));
    let service = HttpService::start(vec![Conduct::wrote("")], conducts.to_vec()).await;
    let mut session = open(&model(&service.settings("", "speculate = false")));
    for n in 1..=5 {
        respond(&session, ResponseId(n), Cause::Greeting);
        let (words, events) = all_of(&mut session, ResponseId(n)).await;
        assert_eq!(words, "¿Piñón? Sí, señor. Así sea.");
        let called = &events[events.len() - 3..];
        assert!(matches!(&called[0], ModelEvent::ToolCall { call, .. } if call.arguments == json!({ "item": "piñón" })), "{called:?}");
        assert!(matches!(called, [_, ModelEvent::CancelIntent { tool: None, .. }, ModelEvent::Complete { .. }]), "{called:?}");
    }
    let connections: Vec<u64> = service.seen.requests().iter().map(|request| request.connection).collect();
    // The next request may come before the last event of the one before.
    assert!(connections.iter().all(|connection| *connection <= 2), "connections are kept: {connections:?}");
}

#[tokio::test]
async fn a_call_that_can_not_be_taken_is_told_to_the_model_which_may_try_again() {
    let bad = Conduct::events(&chat("", &[("ordr", "{\"item\":\"pan\"}"), ("order", "{\"item\":")]));
    let service =
        HttpService::start(vec![Conduct::wrote("")], vec![bad, Conduct::events(&chat("", &[("order", "{\"item\":\"pan\"}")]))]).await;
    let mut session = open(&model(&service.settings("", "speculate = false")));
    respond(&session, A, Cause::Greeting);
    let (_, events) = all_of(&mut session, A).await;
    assert!(matches!(&events[..], [ModelEvent::ToolCall { .. }, ModelEvent::Complete { .. }]), "{events:?}");
    let told = service.seen.asked()[1].messages();
    let outputs: Vec<&str> =
        told.iter().filter(|message| message["role"] == "tool").map(|message| message["content"].as_str().unwrap()).collect();
    assert!(outputs[0].contains("there is no tool `ordr`") && outputs[1].contains("the arguments are not JSON"), "{outputs:?}");
}

#[tokio::test]
async fn words_come_whole_or_in_pieces_or_after_another_try_and_noise_is_none() {
    let done = json!({ "type": "transcript.text.done", "text": "Una mesa.", "usage": { "type": "duration", "seconds": 2 } });
    let stream = [json!({ "type": "transcript.text.delta", "delta": "Una" }), done];
    let writes = vec![
        Conduct::wrote("Una mesa."),
        Conduct::events(&stream),
        Conduct::new(200, "", b"data: {\"type\":\"transcript.text.done\",\"text\":\"Una mesa.\"}".to_vec()),
        Conduct::new(500, "", vec![]),
        Conduct::wrote("Una mesa."),
        Conduct::events(&stream[..1]),
        Conduct::wrote("Una mesa."),
        Conduct::wrote(" [BLANK_AUDIO]"),
        Conduct::json(400, &json!({ "error": { "message": "No audio." } })),
    ];
    let service = HttpService::start(writes, vec![Conduct::says("Muy bien.")]).await;
    let mut session = open(&model(&service.settings("stream = true", "speculate = false")));
    for n in 1..=5 {
        pauses(&session);
        turn_ends(&session, ResponseId(n));
        let (words, events) = all_of(&mut session, ResponseId(n)).await;
        assert_eq!((words.as_str(), complete(&events)), ("Muy bien.", true), "{n}: {events:?}");
        let asked = service.seen.asked();
        assert_eq!(asked.len(), n as usize);
        assert_eq!(asked.last().unwrap().messages()[0]["content"].as_str().unwrap(), vec!["Una mesa."; n as usize].join(" "));
    }
    pauses(&session);
    turn_ends(&session, A);
    let (_, events) = all_of(&mut session, A).await;
    assert_eq!(events, [ModelEvent::TurnWasNoise { turn: TurnId(A.0) }, ModelEvent::Complete { response: A }]);
    pauses(&session);
    turn_ends(&session, B);
    let (_, events) = all_of(&mut session, B).await;
    assert_eq!(failure(&events), "what the caller said could not be written down: the service answers 400: No audio.");
    assert_eq!((service.seen.heard().len(), service.seen.asked().len()), (9, 5));
    assert!(String::from_utf8_lossy(&service.seen.heard()[0].body).contains("name=\"stream\"\r\n\r\ntrue"));
}

#[tokio::test]
async fn a_response_that_is_cancelled_ends_its_request_and_the_next_one_is_asked_for() {
    let long = Conduct::events(&chat(&"Una frase muy larga sigue aquí. ".repeat(200), &[])).in_pieces(200, 50);
    let service = HttpService::start(vec![Conduct::wrote("")], vec![long, Conduct::says("Diga.")]).await;
    let mut session = open(&model(&service.settings("", "speculate = false")));
    assert_eq!(session.outputs.recv().await, Some(Output::Availability(Availability::Ready)), "it says at once that it can be asked");
    respond(&session, A, Cause::Greeting);
    let first = session.outputs.recv().await;
    assert!(matches!(first, Some(Output::Event(ModelEvent::Clause { response: A, .. }))), "{first:?}");
    session.handle.tell(Command::CancelResponse { response: A }).unwrap();
    service.seen.until(|seen| seen.left() == 1).await;
    while session.outputs.try_recv().is_ok() {}
    respond(&session, B, Cause::Greeting);
    assert_eq!(all_of(&mut session, B).await.0, "Diga.");
}

#[tokio::test]
async fn an_answer_is_begun_in_a_pause_said_when_it_is_asked_for_and_dropped_when_the_caller_goes_on() {
    let long =
        Conduct::events(&chat(&"Una frase muy larga sigue aquí. ".repeat(200), &[("order", "{\"item\":\"pan\"}")])).in_pieces(200, 50);
    let service =
        HttpService::start(vec![Conduct::wrote("Una"), Conduct::wrote("Una mesa.")], vec![long, Conduct::says("Muy bien.")]).await;
    let (tells, mut has_come) = mpsc::unbounded_channel();
    let mut session = open(&model_seen_by(&service.settings("", ""), Some(Arc::new(Comes(tells)))));
    assert_eq!(session.outputs.recv().await, Some(Output::Availability(Availability::Ready)));
    pauses(&session);
    service.seen.until(|seen| seen.asked().len() == 1).await;
    acoustic(&session, Acoustic::Speaking);
    service.seen.until(|seen| seen.left() == 1).await;
    acoustic(&session, Acoustic::Trailing);
    for part in [Part::Transcription, Part::Transcription, Part::Language] {
        let come = tokio::time::timeout(Duration::from_secs(60), has_come.recv()).await;
        assert_eq!(come.expect("it comes within a minute"), Some(part), "the words twice, and the second answer to its end");
    }
    assert!(session.outputs.try_recv().is_err(), "nothing is said before it is asked for");
    turn_ends(&session, A);
    let (words, events) = all_of(&mut session, A).await;
    assert_eq!((words.as_str(), events.len()), ("Muy bien.", 2));
    let asked: Vec<Vec<Value>> = service.seen.asked().iter().map(|request| request.messages()).collect();
    assert_eq!(asked, [[json!({ "role": "user", "content": "Una" })], [json!({ "role": "user", "content": "Una mesa." })]]);
    assert_eq!(service.seen.heard().len(), 2, "it is not written down again");
}

#[tokio::test]
async fn a_call_that_is_over_ends_its_requests_and_a_call_that_takes_nothing_holds_nothing_up() {
    let long = Conduct::events(&chat(&"Una frase muy larga sigue aquí. ".repeat(2_000), &[]));
    let service = HttpService::start(vec![Conduct::wrote("")], vec![long.in_pieces(2_000, 2), Conduct::says("Diga.")]).await;
    let mut session = open(&model(&service.settings("", "speculate = false")));
    respond(&session, A, Cause::Greeting);
    // Nobody takes what comes, and the model still hears.
    service.seen.until(|seen| seen.asked().len() == 1).await;
    session.handle.tell(Command::CancelResponse { response: A }).unwrap();
    service.seen.until(|seen| seen.left() == 1).await;
    drop(session.handle);
    let ended = async { while session.outputs.recv().await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(60), ended).await.expect("its outputs end within a minute");
}

#[tokio::test]
async fn a_part_that_refuses_its_list_of_models_is_away_only_where_it_refuses_what_it_is_there_for() {
    for (status, works) in [(401, true), (403, true), (501, true), (429, false), (401, false)] {
        let refusal = Conduct::json(status, &json!({ "error": { "message": "Missing scopes." } }));
        let answers = if works { Conduct::says("Hola.") } else { refusal.clone() };
        let service = HttpService::start(vec![Conduct::wrote("")], vec![answers]).await;
        *service.seen.list.lock().unwrap() = refusal;
        let cascade = model(&service.settings("", SETTINGS));
        assert_eq!(cascade.look(Part::Transcription).await, Ok(()), "{status}");
        let found = cascade.look(Part::Language).await;
        assert_eq!(found.is_ok(), works, "{status}: {found:?}");
        assert_eq!(service.seen.looks(), 2);
    }
}
