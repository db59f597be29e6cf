//! Calls that a Live service leads: the real binary, a telephone over real SIP and RTP, and the service that this test plays; and its sessions
//! without a call around them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use recado::app::LiveModel;
use recado::cognition::models::{AudioFormat, Command, Model, OutputKind};
use recado::demo::{Caller, Ear, patiently};
use recado::g711::Codec;
use recado_core::ResponseId;
use recado_core::conversation::input::ModelEvent;
use recado_core::ledger::DeliveryState;
use serde_json::{Value, json};

use super::live_service::{Act, Conduct, LiveService};
use super::service::sound_of;
use super::stage::*;
use super::talker::{A, B};
use super::validator::{self, Tap};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_is_greeted_heard_at_all_times_and_answered() {
    validator::check(&[is_led("pcmu", true).await, is_led("pcm24k", false).await]);
}

/// A whole call, in one of the service's formats.
async fn is_led(format: &str, sends_silence: bool) -> Tap {
    let acts = [Act::Speak(GREETING, 1_500), Act::Deviate(ANSWER, 2_000)].into();
    let service = LiveService::start(vec![Conduct { sends_silence, acts, ..Conduct::default() }]).await;
    let stage = stage(&service, &format!("format = '{format}'")).await;
    let boxed = stage.box_runs().await;
    let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
    hears_to_the_end(&caller).await;
    let said = says(&caller, "interruption").await;
    let (_, ear) = caller.hang_up().await.unwrap();
    // What comes as it is spoken may come late on a busy machine, which makes a pause. Nothing is lost, said twice or moved.
    let (said_on, _) = without_pauses(&ear);
    for (words, ms) in [(GREETING, 1_500), (ANSWER, 2_000)] {
        assert_eq!(said_on.find(&sound_of(words, ms)).len(), 1, "{format}: {words}");
    }

    let sent = service.seen.sent_by_clients();
    let heard: usize =
        of(&sent, "session.input_audio.append").map(|event| STANDARD.decode(event["audio"].as_str().unwrap()).unwrap().len()).sum();
    let heard_ms = heard / if format == "pcmu" { 8 } else { 48 };
    assert!(heard_ms >= 4_000, "{format}: silence is heard too, and not {heard_ms} ms in all");
    if format == "pcmu" {
        let bytes = of(&sent, "session.input_audio.append").flat_map(|event| STANDARD.decode(event["audio"].as_str().unwrap()).unwrap());
        let heard = Ear { samples: bytes.map(|octet| Codec::Pcmu.decode_sample(octet)).collect() };
        is_heard(&said, &heard);
    }
    let settings = &of(&sent, "session.start").next().expect("settings")["session"];
    assert!(settings["instructions"].as_str().is_some_and(|text| text.starts_with("You answer the telephone. ")), "{settings}");
    assert_eq!(service.seen.connections(), 1, "one session for the whole call");
    boxed.log.seen("what the session took", |line| line["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0)).await.unwrap();
    Tap::seen(&service.seen)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_model_delegates_is_done_and_told_by_the_box_once_though_the_model_talks_over_it() {
    if !speaks() {
        return;
    }
    let task = "I would like what I had yesterday. ";
    let acts = [Act::Speak(GREETING, 1_000), Act::Delegate { says: ANSWER, ms: 600, caller_said: task }].into();
    let service = LiveService::start(vec![Conduct { sends_silence: true, acts, ..Conduct::default() }]).await;
    let stage = stage(&service, "").await;
    let boxed = stage.box_runs().await;
    let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
    hears_to_the_end(&caller).await;
    caller.line.say(&speech("request"));
    stage.tools.asked("order", 1).await.unwrap();
    hears_to_the_end(&caller).await;
    let knows = |events: &[Value]| events.iter().any(|event| event.to_string().contains(NUMBER));
    assert!(!knows(&service.seen.sent_by_clients()), "nobody has a result yet");
    let result = json!({ "number": NUMBER, "of_no_concern": "swordfish" });
    assert_eq!(stage.tools.report("order", result).await.unwrap(), 200);
    // While the box says it, the model begins to speak of something else.
    boxed.log.seen("the box to say the closing", |line| line["message"] == "speak" && line["text"] == CLOSING).await.unwrap();
    service.act(Act::Speak(MURMUR, 2_500));
    patiently("the model to be told what the caller was told", service.seen.until(knows)).await.unwrap();
    boxed.log.seen("the closing to be settled", |line| line["message"] == "delivery settled").await.unwrap();
    let not_heard = |events: &[Value]| {
        thoughts(events).any(|thought| {
            thought["content"].as_str().is_some_and(|text| text.contains("did not hear this") && text.contains(MURMUR.trim()))
        })
    };
    patiently("the model to be told what was not heard", service.seen.until(not_heard)).await.unwrap();
    let (_, ear) = caller.hang_up().await.unwrap();
    assert_eq!(without_pauses(&ear).0.find(&sound_of(ANSWER, 400)).len(), 1);
    for said in [ACCEPTED, CLOSING] {
        assert_eq!(ear.find(&spoken(said).await).len(), 1, "{said}");
    }
    for (n, piece) in sound_of(MURMUR, 2_400).chunks_exact(1_600).enumerate() {
        assert_eq!(ear.find(piece).len(), 0, "the model's {n}th fifth of a second over the closing");
    }
    boxed.log.seen("the call to be settled", |line| line["message"] == "call settled").await.unwrap();
    assert_eq!(states(&stage.history()), [DeliveryState::Spoken]);
    assert_eq!(stage.tools.effects("order"), 1);
    let asked = stage.tools.all();
    assert_eq!((asked.len(), &asked[0].arguments), (1, &json!({ "request": task.trim() })), "{asked:?}");

    let sent = service.seen.sent_by_clients();
    let of_task: Vec<&Value> = thoughts(&sent).filter(|thought| !thought["delegation_id"].is_null()).collect();
    assert!(of_task[0]["content"].as_str().is_some_and(|text| text.starts_with("It runs.")), "{of_task:?}");
    let told = |text: &str| thoughts(&sent).filter(|thought| thought["content"].as_str().is_some_and(|told| told.contains(text))).count();
    assert_eq!((told(ACCEPTED), told(CLOSING)), (1, 1), "what the box says the model knows, once");
    assert!(!sent.iter().any(|event| event.to_string().contains("swordfish")), "what was not told is nobody's");
    validator::check(&[Tap::seen(&service.seen)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_who_breaks_in_is_listened_to_though_the_model_does_not_stop() {
    let acts = [Act::Speak(GREETING, 20_000), Act::Speak(ANSWER, 1_000)].into();
    let service = LiveService::start(vec![Conduct { talks_over: true, acts, ..Conduct::default() }]).await;
    let stage = stage(&service, "").await;
    let boxed = stage.box_runs().await;
    let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
    patiently("the greeting", caller.line.hears_voice(2_000)).await.unwrap();
    caller.line.say(&speech("interruption"));
    let cut = |events: &[Value]| {
        thoughts(events).any(|thought| thought["content"].as_str().is_some_and(|text| text.starts_with("You were cut off")))
    };
    patiently("the greeting to be cut", service.seen.until(cut)).await.unwrap();
    patiently("the caller to have said it", caller.line.has_said()).await.unwrap();
    hears_to_the_end(&caller).await;
    let (_, ear) = caller.hang_up().await.unwrap();
    assert_eq!(without_pauses(&ear).0.find(&sound_of(ANSWER, 800)).len(), 1);
    // What the model said between the cut and its answer is no part of the call.
    let greeting = sound_of(GREETING, 20_000);
    let heard: Vec<usize> = (0..100).filter(|n| !ear.find(&greeting[n * 1_600..(n + 1) * 1_600]).is_empty()).collect();
    let last = heard.last().copied().expect("the greeting was heard");
    assert!(last * 200 < 10_000 && heard.len() + 2 > last, "{heard:?}");
    validator::check(&[Tap::seen(&service.seen)]);
}

#[tokio::test]
async fn a_session_that_ends_is_replaced_by_one_that_knows_what_was_said() {
    let first = Conduct { acts: [Act::Speak(GREETING, 300), Act::Close("expired")].into(), ..Conduct::default() };
    let second = Conduct { acts: [Act::Cut].into(), ..Conduct::default() };
    let third = Conduct { acts: [Act::Speak(ANSWER, 300)].into(), sends_silence: true, ..Conduct::default() };
    let service = LiveService::start(vec![first, second, third]).await;
    let model = model(&service.url(), "");
    assert_eq!(model.capabilities().output, OutputKind::PacedAudio(AudioFormat::Pcmu));
    assert!(model.capabilities().hears_audio && !model.capabilities().cancel && !model.capabilities().truncate);
    let mut session = open(&model);
    greet(&session, A);
    assert_eq!(end_of(&mut session, A).await, ModelEvent::Complete { response: A });
    for response in [B, ResponseId(3)] {
        greet(&session, response);
        let ModelEvent::Failed { reason, .. } = end_of(&mut session, response).await else { panic!("it was cut off") };
        assert!(reason.contains("expired") || !reason.is_empty(), "{reason}");
        session.handle.tell(Command::Told { delivery: recado_core::DeliveryId(1), text: "It is ready.".into() }).unwrap();
    }
    greet(&session, ResponseId(4));
    assert_eq!(end_of(&mut session, ResponseId(4)).await, ModelEvent::Complete { response: ResponseId(4) });
    let sent = service.seen.sent_by_clients();
    let starts: Vec<&Value> = of(&sent, "session.start").collect();
    assert_eq!(starts.len(), 3);
    assert!(starts[2]["session"]["input"].to_string().contains("It is ready."), "{}", starts[2]);
    validator::check(&[Tap::seen(&service.seen)]);
}

#[tokio::test]
async fn where_the_service_refuses_the_session_each_response_fails_at_once() {
    let service = LiveService::start(vec![Conduct { refuses: Some("unknown_model"), ..Conduct::default() }]).await;
    let mut session = open(&model(&service.url(), ""));
    for response in [A, B] {
        greet(&session, response);
        let ModelEvent::Failed { reason, .. } = end_of(&mut session, response).await else { panic!("nobody is there to answer") };
        assert!(reason.contains("unknown_model"), "{reason}");
    }
    assert_eq!(service.seen.connections(), 1);
    validator::check(&[Tap::seen(&service.seen)]);
}

/// For a box whose calls the service leads, and which looks at it in calls alone; `more` are further settings of it.
async fn stage(service: &LiveService, more: &str) -> Stage {
    let model = format!(
        "[model]\nkind = 'live'\n[cloud.live]\nurl = '{}'\nmodel = 'lives'\ndelegate_tool = 'order'\n{more}\n[standby]\nwatch = false",
        service.url()
    );
    Stage::with_model(&model, "parameters = { type = 'object', required = ['request'], properties = { request = { type = 'string' } } }")
        .await
}

/// The model of a box whose calls the service at `url` leads.
fn model(url: &str, more: &str) -> LiveModel {
    let settings = format!("[model]\nkind = 'live'\n[cloud.live]\nurl = '{url}'\nmodel = 'lives'\n{more}\n");
    configured(&settings, |config| LiveModel::new(config).unwrap())
}

/// What the model is told without being asked to speak.
fn thoughts(events: &[Value]) -> impl Iterator<Item = &Value> {
    of(events, "session.thinking.append")
}

const MURMUR: &str = "By the way, the weather is going to change tomorrow. ";
