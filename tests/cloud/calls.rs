//! Calls that a service leads: the real binary, a telephone over real SIP and RTP, and the service that this test plays.
//!
//! They are judged by what the caller heard, by what the service was told, by what the tool was asked, and by the store.

use std::collections::BTreeSet;

use recado::demo::{Caller, Ear, patiently};
use recado_core::conversation::Settings;
use recado_core::ledger::DeliveryState;
use serde_json::{Value, json};

use super::service::{Reply, Service, sound_of};
use super::stage::*;
use super::validator::{self, Tap};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_is_greeted_by_the_service_heard_by_it_and_answered() {
    validator::check(&[is_led("pcmu").await, is_led("pcm").await]);
}

/// A whole call, in one of the service's formats.
async fn is_led(format: &str) -> Tap {
    let service = Service::start(vec![replies(&[Reply::Speak(GREETING, 1_500), Reply::Speak(ANSWER, 2_000)])]).await;
    let stage = Stage::set(&service.url(), &format!("format = '{format}'")).await;
    let boxed = stage.box_runs().await;
    let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
    hears_to_the_end(&caller).await;
    // Short, and without a pause that could be taken for its end.
    let said = speech("interruption");
    caller.line.say(&said);
    patiently("the caller to have said it", caller.line.has_said()).await.unwrap();
    patiently("an answer to be asked for", service.seen.until(|events| of(events, "response.create").count() == 2)).await.unwrap();
    hears_to_the_end(&caller).await;
    let (_, ear) = caller.hang_up().await.unwrap();
    // Where a busy machine's service sends the next piece only when the last one has sounded, there is a pause. Nowhere else is one, and nothing
    // is lost, said twice or moved.
    let (said_on, runs) = without_pauses(&ear);
    for (words, ms) in [(GREETING, 1_500), (ANSWER, 2_000)] {
        assert_eq!(said_on.find(&sound_of(words, ms)).len(), 1, "{format}: {words}");
    }
    let speaks = boxed.log.all().into_iter().filter(|line| line["message"] == "speak" && line["playback_id"].is_string());
    let playbacks: BTreeSet<String> = speaks.map(|line| line["playback_id"].to_string()).collect();
    assert!(runs <= playbacks.len(), "{format}: {runs} runs of speech in {} playbacks", playbacks.len());

    let sent = service.seen.sent_by_clients();
    let heard = Ear { samples: audio(&sent, format) };
    is_heard(&said, &heard);
    let place = |kind: &str| sent.iter().rposition(|event| event["type"] == kind).expect("it was sent");
    assert!(place("input_audio_buffer.append") < place("input_audio_buffer.commit"), "{format}");
    assert!(place("input_audio_buffer.commit") < place("response.create"), "{format}");
    let settings = &of(&sent, "session.update").next().expect("settings")["session"];
    assert!(settings["instructions"].as_str().is_some_and(|text| text.starts_with("You answer the telephone. ")), "{settings}");
    assert!(settings["tools"].to_string().contains("\"order\""), "{settings}");
    boxed.log.seen("what the session took", |line| line["output_tokens"] == 40).await.unwrap();
    Tap::of(&service)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_model_asks_for_is_done_and_told_by_the_box_once_and_the_model_knows_the_result_only_then() {
    if !speaks() {
        return;
    }
    let service = Service::start(vec![replies(&[Reply::Speak(GREETING, 1_000), Reply::SpeakAndCall(ANSWER, "order", "{}")])]).await;
    let stage = Stage::set(&service.url(), "").await;
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
    patiently("the model to be told what the caller was told", service.seen.until(knows)).await.unwrap();
    assert!(boxed.log.all().iter().any(|line| line["message"] == "speak" && line["text"] == CLOSING), "before the caller was");
    boxed.log.seen("the closing to be settled", |line| line["message"] == "delivery settled").await.unwrap();
    let (_, ear) = caller.hang_up().await.unwrap();
    assert_eq!(ear.find(&sound_of(ANSWER, 300)).len(), 1);
    for said in [ACCEPTED, CLOSING] {
        assert_eq!(ear.find(&spoken(said).await).len(), 1, "{said}");
    }
    boxed.log.seen("the call to be settled", |line| line["message"] == "call settled").await.unwrap();
    assert_eq!(states(&stage.history()), [DeliveryState::Spoken]);
    assert_eq!(stage.tools.effects("order"), 1);

    let sent = service.seen.sent_by_clients();
    let outputs: Vec<&Value> = sent.iter().filter(|event| event["item"]["type"] == "function_call_output").collect();
    assert_eq!(outputs.len(), 1, "{outputs:?}");
    assert!(outputs[0]["item"]["output"].as_str().is_some_and(|output| output.contains("\"running\"")), "{outputs:?}");
    assert!(!sent.iter().any(|event| event.to_string().contains("swordfish")), "what was not told is nobody's");
    validator::check(&[Tap::of(&service)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_who_breaks_in_is_listened_to_and_the_model_remembers_what_was_heard() {
    let service = Service::start(vec![replies(&[Reply::Paced(GREETING, 20_000), Reply::Speak(ANSWER, 1_000)])]).await;
    let stage = Stage::set(&service.url(), "").await;
    let boxed = stage.box_runs().await;
    let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
    patiently("the greeting", caller.line.hears_voice(2_000)).await.unwrap();
    caller.line.say(&speech("interruption"));
    patiently("the greeting to be cut", service.seen.until(|events| of(events, "conversation.item.truncate").count() == 1)).await.unwrap();
    patiently("the caller to have said it", caller.line.has_said()).await.unwrap();
    patiently("an answer to be asked for", service.seen.until(|events| of(events, "response.create").count() == 2)).await.unwrap();
    hears_to_the_end(&caller).await;
    let (_, ear) = caller.hang_up().await.unwrap();
    assert_eq!(ear.find(&sound_of(ANSWER, 1_000)).len(), 1);

    // How much of the greeting the caller heard: what follows it is the answer.
    let greeting = sound_of(GREETING, 20_000);
    let heard_ms = (1..100).take_while(|n| !ear.find(&greeting[..n * 1_600]).is_empty()).count() * 200;
    let sent = service.seen.sent_by_clients();
    let cut = of(&sent, "conversation.item.truncate").next().expect("one");
    let cut_ms = cut["audio_end_ms"].as_u64().expect("a number") as usize;
    println!("of the greeting {heard_ms} ms were heard, and {cut_ms} ms are remembered");
    assert!((1_800..10_000).contains(&heard_ms), "{heard_ms}");
    // To a fifth of a second, and what may lie in the telephone's buffer was not heard for certain.
    assert!(cut_ms <= heard_ms + 200 && cut_ms + 500 >= heard_ms, "{cut_ms} of {heard_ms}");
    assert_eq!(of(&sent, "response.cancel").count(), 1);
    validator::check(&[Tap::of(&service)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_the_service_is_away_the_call_is_answered_told_what_is_owed_and_takes_a_message() {
    if !speaks() {
        return;
    }
    let service = Service::start(vec![replies(&[Reply::Speak(GREETING, 1_000), Reply::SpeakAndCall(ANSWER, "order", "{}")])]).await;
    let stage = Stage::set(&service.url(), "").await;
    let mut boxed = stage.box_runs().await;
    let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
    hears_to_the_end(&caller).await;
    caller.line.say(&speech("request"));
    stage.tools.asked("order", 1).await.unwrap();
    caller.hang_up().await.unwrap();
    boxed.log.seen("the call to be settled", |line| line["message"] == "call settled").await.unwrap();
    assert_eq!(stage.tools.report("order", json!({ "number": NUMBER })).await.unwrap(), 200);

    drop(service);
    let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
    let away = |line: &Value| line["message"] == "no connection to the speech model's service" && line["again_in_ms"].is_u64();
    boxed.log.seen("the service to be away", away).await.unwrap();
    hears_to_the_end(&caller).await;
    caller.line.say(&speech("small_talk"));
    patiently("the caller to have said it", caller.line.has_said()).await.unwrap();
    hears_to_the_end(&caller).await;
    let (_, ear) = caller.hang_up().await.unwrap();
    assert_eq!(ear.find(&spoken(CLOSING).await).len(), 1, "what is owed is told all the same");
    // It is said in sentences.
    for said in [AWAY, "You can leave a message now.", "Your message is kept."] {
        assert_eq!(ear.find(&spoken(said).await).len(), 1, "{said}");
    }
    let sorry = Settings::default().say_no_answer.en.expect("words");
    let first = sorry.split_inclusive('.').next().expect("a sentence");
    assert_eq!(ear.find(&spoken(first).await).len(), 0, "the caller is not left with an excuse");
    assert!(boxed.runs());
    boxed.log.seen_times("the call to be settled", 2, |line| line["message"] == "call settled").await.unwrap();
    assert_eq!(states(&stage.history()), [DeliveryState::Spoken]);
}
