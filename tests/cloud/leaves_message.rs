//! Callers who leave a message with a service that leads calls: what is kept, what the service is told of it and what the caller hears.

use recado::demo::{BoxProcess, Caller, Ear, patiently};
use recado_core::ledger::DeliveryState;
use serde_json::{Value, json};

use super::away::{is_kept, recordings};
use super::service::{Reply, Service, sound_of};
use super::stage::*;
use super::validator::{self, Tap};

/// The caller asks for something, and the service wants a message taken.
async fn is_asked_for_a_message(service: &Service, caller: &Caller) -> Vec<i16> {
    let asks = speech("interruption");
    caller.line.say(&asks);
    patiently("the caller to have said it", caller.line.has_said()).await.unwrap();
    let takes = |events: &[Value]| events.iter().any(is_taking);
    patiently("the service to know that a message is taken", service.seen.until(takes)).await.unwrap();
    patiently("the box to have spoken", caller.line.hears_silence(900)).await.unwrap();
    asks
}

fn is_taking(event: &Value) -> bool {
    event["item"]["type"] == "function_call_output" && event["item"]["output"].to_string().contains("taking")
}

async fn begins(boxed: &BoxProcess) -> Caller {
    let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
    hears_to_the_end(&caller).await;
    caller
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_kept_whole_nobody_else_hears_it_and_what_is_owed_waits_for_its_end() {
    if !speaks() {
        return;
    }
    let orders = Reply::SpeakAndCall(ANSWER, "order", "{}");
    let takes = Reply::SpeakAndCall(SPEAK_NOW, "take_message", "{}");
    let told = [Reply::Speak(KEPT, 1_500), Reply::Speak(ANSWER, 1_000)];
    let service = Service::start(vec![replies(&[&[Reply::Speak(GREETING, 1_000), orders, takes], &told[..]].concat())]).await;
    let stage = Stage::set(&service.url(), "format = 'pcmu'\n").await;
    let boxed = stage.box_runs().await;
    let caller = begins(&boxed).await;
    caller.line.say(&speech("small_talk"));
    stage.tools.asked("order", 1).await.unwrap();
    hears_to_the_end(&caller).await;
    is_asked_for_a_message(&service, &caller).await;
    let before = service.seen.sent_by_clients().len();
    let message = speech("request");
    caller.line.say(&message);
    // In the middle of it there is a result.
    assert_eq!(stage.tools.report("order", json!({ "number": NUMBER })).await.unwrap(), 200);
    patiently("the caller to have said it", caller.line.has_said()).await.unwrap();
    boxed.log.seen("the message to be kept", is_kept).await.unwrap();
    boxed.log.seen("the closing to be settled", |line| line["message"] == "delivery settled").await.unwrap();
    // What the caller says then is the service's.
    let after = says(&caller, "small_talk").await;
    let (_, ear) = caller.hang_up().await.unwrap();
    boxed.log.seen("the call to be settled", |line| line["message"] == "call settled").await.unwrap();

    let (said_on, _) = without_pauses(&ear);
    assert_eq!(said_on.find(&sound_of(KEPT, 1_500)).len(), 1);
    assert_eq!(times(&ear, CLOSING).await, 1);
    // Not in the gap before the message, nor in its pauses.
    let log = boxed.log.all();
    let told: Vec<usize> =
        log.iter().enumerate().filter(|(_, line)| line["message"] == "speak" && line["text"] == CLOSING).map(|(at, _)| at).collect();
    let kept = log.iter().position(is_kept).unwrap();
    assert!(told.len() == 1 && told[0] > kept, "told at {told:?}, kept at {kept}");
    assert_eq!(states(&stage.history()), [DeliveryState::Spoken]);
    let recorded = recordings(&stage);
    assert_eq!(recorded.len(), 1);
    is_heard(&message, &recorded[0]);

    let sent = service.seen.sent_by_clients();
    assert_eq!(of(&sent, "response.create").count(), 5, "the greeting, three turns, and what became of the message");
    let since = &sent[before..];
    let note = since.iter().position(|event| event["item"].to_string().contains("It is recorded and kept."));
    let asked = since.iter().position(|event| event["type"] == "response.create");
    assert!(note.is_some() && note < asked, "it is told before it is asked: {note:?}, {asked:?}");
    let until_told = &since[..asked.unwrap()];
    for kind in ["input_audio_buffer.append", "input_audio_buffer.commit"] {
        assert_eq!(of(until_told, kind).count(), 0, "{kind}");
    }
    let hears = Ear { samples: audio(&sent, "pcmu") };
    assert_eq!(pieces_heard(&message, &hears).0, 0);
    is_heard(&after, &hears);
    validator::check(&[Tap::of(&service)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_hangs_up_in_the_middle_has_left_a_message_and_so_has_one_whose_service_goes_away() {
    if !speaks() {
        return;
    }
    let takes = || vec![replies(&[Reply::Speak(GREETING, 1_000), Reply::SpeakAndCall(SPEAK_NOW, "take_message", "{}")])];
    let service = Service::start(takes()).await;
    let stage = Stage::set(&service.url(), "[standby]\nwatch = false\n").await;
    let boxed = stage.box_runs().await;
    let caller = begins(&boxed).await;
    is_asked_for_a_message(&service, &caller).await;
    let message = speech("request");
    caller.line.say(&message);
    patiently("the caller to have said it", caller.line.has_said()).await.unwrap();
    caller.hang_up().await.unwrap();
    boxed.log.seen("the message to be kept", is_kept).await.unwrap();
    drop(boxed);
    let recorded = recordings(&stage);
    assert_eq!(recorded.len(), 1);
    is_heard(&message, &recorded[0]);

    let service = Service::start(takes()).await;
    let stage = Stage::set(&service.url(), "[standby]\nwatch = false\n").await;
    let boxed = stage.box_runs().await;
    let caller = begins(&boxed).await;
    is_asked_for_a_message(&service, &caller).await;
    caller.line.say(&message);
    drop(service);
    patiently("the caller to have said it", caller.line.has_said()).await.unwrap();
    boxed.log.seen("the message to be kept", is_kept).await.unwrap();
    hears_to_the_end(&caller).await;
    let (_, ear) = caller.hang_up().await.unwrap();
    boxed.log.seen("the call to be settled", |line| line["message"] == "call settled").await.unwrap();
    assert_eq!(times(&ear, "Your message is kept.").await, 1);
    assert_eq!(times(&ear, "You can leave a message now.").await, 0, "they have left one");
    let recorded = recordings(&stage);
    assert_eq!(recorded.len(), 1);
    is_heard(&message, &recorded[0]);
}

const SPEAK_NOW: &str = "Please say your message now. ";
const KEPT: &str = "Your message has been kept, and it will be passed on. ";
