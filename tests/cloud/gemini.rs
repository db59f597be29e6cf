//! The Gemini Live protocol: sessions over loopback, with a real WebSocket, and calls that a service leads, over real SIP. What both sides
//! send is held against the types of Google's own package, and the service holds its client to the protocol (`gemini_service`).

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use recado::cognition::models::gemini::session::{Said, Session, Setup};
use recado::cognition::models::gemini::{Link, News, Told};
use recado::cognition::models::transport::Endpoint;
use recado::cognition::models::{Command, Output};
use recado::config::{Gemini, Tool};
use recado::demo::{Caller, Ear, patiently};
use recado::surface::media::resample::Resampler;
use recado_core::ResponseId;
use recado_core::conversation::effect::Cause;
use recado_core::conversation::input::ModelEvent;
use recado_core::ledger::DeliveryState;
use serde_json::{Value, json};

use super::gemini_service::{Conduct, Reply, Service};
use super::service::sound_of;
use super::stage::*;
use super::validator::{self, Tap};

fn conduct(replies: &[Reply]) -> Conduct {
    Conduct { replies: replies.iter().cloned().collect(), ..Conduct::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_is_greeted_by_the_service_heard_by_it_and_answered() {
    let service = Service::start(vec![conduct(&[Reply::Speak(GREETING, 1_500), Reply::Speak(ANSWER, 2_000)])]).await;
    let stage = Stage::led_by("gemini", &service.url(), "key_file = 'key'\nvoice = 'Kore'").await;
    std::fs::write(stage.folder.path().join("key"), "s3cr3t-key\n").unwrap();
    let boxed = stage.box_runs().await;
    let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
    hears_to_the_end(&caller).await;
    let said = speech("interruption");
    caller.line.say(&said);
    patiently("the caller to have said it", caller.line.has_said()).await.unwrap();
    patiently("an answer to be asked for", service.seen.until(|sent| realtime(sent, "activityEnd").count() == 1)).await.unwrap();
    hears_to_the_end(&caller).await;
    let (_, ear) = caller.hang_up().await.unwrap();
    for (words, ms) in [(GREETING, 1_500), (ANSWER, 2_000)] {
        assert_eq!(heard_pieces(&ear, words, ms), ms / 200, "{words}");
    }

    let request = &service.seen.requests()[0];
    assert!(request.contains("\"x-goog-api-key\": \"s3cr3t-key\"") && !request.split(' ').next().unwrap().contains("key="), "{request}");
    let sent = service.seen.sent_by_clients();
    let heard = Ear { samples: audio_at_8_khz(&sent) };
    is_heard(&said, &heard);
    assert!(sent[0]["setup"].to_string().contains("You answer the telephone. "), "{}", sent[0]);
    boxed.log.seen("what the session took", |line| line["output_tokens"] == 40).await.unwrap();
    assert!(!boxed.log.all().iter().any(|line| line.to_string().contains("s3cr3t")));
    validator::check_gemini(&[Tap::of_gemini(&service)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_model_asks_for_is_done_and_told_by_the_box_once_and_the_model_knows_the_result_only_then() {
    if !speaks() {
        return;
    }
    for calls in ["non-blocking", "blocking"] {
        let asks = Reply::SpeakAndCall(ANSWER, "order", "{}");
        let service = Service::start(vec![conduct(&[Reply::Speak(GREETING, 1_000), asks])]).await;
        let stage = Stage::led_by("gemini", &service.url(), &format!("calls = '{calls}'")).await;
        let boxed = stage.box_runs().await;
        let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
        hears_to_the_end(&caller).await;
        caller.line.say(&speech("request"));
        stage.tools.asked("order", 1).await.unwrap();
        hears_to_the_end(&caller).await;
        assert_eq!(stage.tools.report("order", json!({ "number": NUMBER, "of_no_concern": "swordfish" })).await.unwrap(), 200);
        boxed.log.seen("the closing to be settled", |line| line["message"] == "delivery settled").await.unwrap();
        assert!(!knows(&service.seen.sent_by_clients(), NUMBER), "nothing is said to the model in between");
        caller.line.say(&speech("small_talk"));
        patiently("the model to be told what the caller was told", service.seen.until(|sent| knows(sent, NUMBER))).await.unwrap();
        hears_to_the_end(&caller).await;
        let (_, ear) = caller.hang_up().await.unwrap();
        for said in [ACCEPTED, CLOSING] {
            assert_eq!(ear.find(&spoken(said).await).len(), 1, "{calls}: {said}");
        }
        boxed.log.seen("the call to be settled", |line| line["message"] == "call settled").await.unwrap();
        assert_eq!(states(&stage.history()), [DeliveryState::Spoken]);
        assert_eq!(stage.tools.effects("order"), 1);

        let sent = service.seen.sent_by_clients();
        let statuses: Vec<String> = answers(&sent).map(|answer| answer["response"]["output"]["status"].to_string()).collect();
        let expected: &[&str] = if calls == "blocking" { &["\"running\""] } else { &["\"pending\"", "\"running\""] };
        assert_eq!(statuses, expected, "{calls}");
        assert!(!knows(&sent, "swordfish"), "what was not told is nobody's");
        validator::check_gemini(&[Tap::of_gemini(&service)]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_who_breaks_in_is_listened_to_and_the_model_is_told_how_much_of_it_was_heard() {
    let service = Service::start(vec![conduct(&[Reply::Paced(GREETING, 20_000), Reply::Speak(ANSWER, 1_000)])]).await;
    let stage = Stage::led_by("gemini", &service.url(), "").await;
    let boxed = stage.box_runs().await;
    let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
    patiently("the greeting", caller.line.hears_voice(2_000)).await.unwrap();
    caller.line.say(&speech("interruption"));
    patiently("the caller to have said it", caller.line.has_said()).await.unwrap();
    patiently("an answer to be asked for", service.seen.until(|sent| realtime(sent, "activityEnd").count() == 1)).await.unwrap();
    hears_to_the_end(&caller).await;
    let (_, ear) = caller.hang_up().await.unwrap();
    assert_eq!(heard_pieces(&ear, ANSWER, 1_000), 5);
    assert_eq!(heard_pieces(&ear, "too late", 200), 0, "what comes late of it is not heard");
    let sent = service.seen.sent_by_clients();
    let told: Vec<&str> = realtime(&sent, "text").filter_map(Value::as_str).filter(|text| text.contains("You were cut off")).collect();
    assert!(matches!(told[..], [one] if one.contains("Good morning")), "{told:?}");
    validator::check_gemini(&[Tap::of_gemini(&service)]);
}

/// S21: elsewhere the result is lost with the turn that asked for it, or the session waits for it for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_who_breaks_in_ends_the_services_call_and_not_the_operation_whose_result_is_told_once() {
    if !speaks() {
        return;
    }
    for calls in ["blocking", "non-blocking"] {
        let asks = Reply::CallUntilInterrupted("order", "{}");
        let service = Service::start(vec![conduct(&[Reply::Speak(GREETING, 1_000), asks, Reply::Speak(ANSWER, 1_000)])]).await;
        let stage = Stage::led_by("gemini", &service.url(), &format!("calls = '{calls}'")).await;
        let boxed = stage.box_runs().await;
        let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
        hears_to_the_end(&caller).await;
        caller.line.say(&speech("request"));
        stage.tools.asked("order", 1).await.unwrap();
        // The service has its answer, and says nothing: the model thinks on, and the caller does not wait for it.
        caller.line.say(&speech("interruption"));
        let cancelled = || service.seen.tap().iter().any(|line| line.contains("toolCallCancellation"));
        patiently("the caller to have said it", caller.line.has_said()).await.unwrap();
        patiently("the model to be asked again", service.seen.until(|sent| realtime(sent, "activityEnd").count() == 2)).await.unwrap();
        assert!(cancelled(), "{calls}");
        patiently("the box to have spoken", caller.line.hears_silence(1_500)).await.unwrap();
        assert_eq!(stage.tools.report("order", json!({ "number": NUMBER })).await.unwrap(), 200);
        boxed.log.seen("the closing to be settled", |line| line["message"] == "delivery settled").await.unwrap();
        let (_, ear) = caller.hang_up().await.unwrap();
        assert_eq!(heard_pieces(&ear, ANSWER, 1_000), 5, "{calls}: the model is not left waiting");
        assert_eq!(ear.find(&spoken(CLOSING).await).len(), 1, "{calls}");
        boxed.log.seen("the call to be settled", |line| line["message"] == "call settled").await.unwrap();
        assert_eq!(states(&stage.history()), [DeliveryState::Spoken]);
        assert_eq!((stage.tools.effects("order"), stage.tools.cancels("order")), (1, 0), "{calls}");
        assert!(knows(&service.seen.sent_by_clients(), "changes nothing"), "{calls}");
        boxed.log.seen("what the session took", |line| line["calls_cancelled"] == 1).await.unwrap();
        validator::check_gemini(&[Tap::of_gemini(&service)]);
    }
}

/// S23: elsewhere a result waits until the service is idle, which it never is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_is_told_though_the_service_is_never_idle_and_what_it_rambles_is_not_heard() {
    if !speaks() {
        return;
    }
    let replies = [Reply::Speak(GREETING, 1_000), Reply::SpeakAndCall(ANSWER, "order", "{}"), Reply::SpeakAndRamble(ANSWER, 1_000)];
    let service = Service::start(vec![conduct(&replies)]).await;
    let stage = Stage::led_by("gemini", &service.url(), "").await;
    let boxed = stage.box_runs().await;
    let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
    hears_to_the_end(&caller).await;
    for said in ["request", "small_talk"] {
        caller.line.say(&speech(said));
        patiently("the caller to have said it", caller.line.has_said()).await.unwrap();
        hears_to_the_end(&caller).await;
    }
    assert_eq!(stage.tools.report("order", json!({ "number": NUMBER })).await.unwrap(), 200);
    boxed.log.seen("the closing to be settled", |line| line["message"] == "delivery settled").await.unwrap();
    let (_, ear) = caller.hang_up().await.unwrap();
    assert_eq!(ear.find(&spoken(CLOSING).await).len(), 1);
    assert_eq!(heard_pieces(&ear, "And another thing. ", 2_000), 0);
    boxed.log.seen("what the session took", |line| line["unasked"] == 1).await.unwrap();
    validator::check_gemini(&[Tap::of_gemini(&service)]);
}

#[tokio::test]
async fn a_session_goes_on_on_another_connection_when_the_service_ends_one_and_is_told_what_was_heard_where_it_can_not() {
    let first = conduct(&[Reply::SpeakAndGoAway("Good morning. ", 300)]);
    let second = conduct(&[Reply::Speak("Yes. ", 200), Reply::Close(1008)]);
    let service = Service::start(vec![first, second, Conduct::default()]).await;
    let mut talker = Talker::open(&service.url(), "");
    assert_eq!(talker.asks(1).await, ("Good morning. ".to_owned(), true));
    assert!(talker.ready().await, "with its session");
    assert!(talker.asks(2).await.1);
    assert!(!talker.asks(3).await.1, "it closed");
    assert!(!talker.ready().await, "it had said nothing of how it is resumed since");
    assert_eq!(talker.asks(4).await, ("As you say. ".to_owned(), true));
    let set: Vec<Value> = service.seen.sent_by_clients().into_iter().filter(|message| message["setup"].is_object()).collect();
    let handles: Vec<&Value> = set.iter().map(|message| &message["setup"]["sessionResumption"]["handle"]).collect();
    assert_eq!(handles, [&Value::Null, &json!("handle_1"), &Value::Null]);
    validator::check_gemini(&[Tap::of_gemini(&service)]);
}

#[tokio::test]
async fn what_the_service_closes_a_connection_with_before_it_is_set_is_why_no_response_is_given_and_a_handle_is_tried_once() {
    let refuses = |code, reason| Conduct { refuses: Some((code, reason)), ..Conduct::default() };
    let service = Service::start(vec![refuses(1007, "API key not valid.")]).await;
    let mut talker = Talker::open(&service.url(), "");
    talker.begin(1, Cause::Greeting);
    assert_eq!(talker.failure(1).await, "the service closed the connection (1007): API key not valid.");
    talker.begin(2, Cause::Greeting);
    assert_eq!(talker.failure(2).await, "the service closed the connection (1007): API key not valid.", "at once");

    let goes_away = conduct(&[Reply::SpeakAndGoAway("Good morning. ", 300)]);
    let service = Service::start(vec![goes_away, refuses(1008, "no such session"), Conduct::default()]).await;
    let mut talker = Talker::open(&service.url(), "");
    talker.asks(1).await;
    assert!(!talker.ready().await, "with a new session");
    assert!(talker.asks(2).await.1);
}

/// A session, and what comes of it.
pub struct Talker {
    pub link: Link,
    /// The first time that it is ready has been waited for.
    was_ready: bool,
}

/// What came of a response.
pub struct Whole {
    pub words: String,
    /// Of speech.
    pub bytes: usize,
    pub events: Vec<ModelEvent>,
}

impl Talker {
    fn open(url: &str, more: &str) -> Self {
        Self::with(url, more, &[])
    }

    pub fn with(url: &str, more: &str, tools: &[Tool]) -> Self {
        let gemini: Gemini = toml::from_str(&format!("url = '{url}'\nmodel = 'speaks'\n{more}")).unwrap();
        let setup = Setup::new(&gemini, "Be brief.".into(), tools, false).unwrap();
        Self { link: Link::open(Endpoint::new(&gemini).unwrap(), Session::new(setup)), was_ready: false }
    }

    pub fn begin(&self, response: u128, cause: Cause) {
        let respond = Command::Respond { response: ResponseId(response), cause };
        self.link.handle.tell(Told::Command(respond)).unwrap();
    }

    async fn next(&mut self) -> News {
        tokio::time::timeout(Duration::from_secs(60), self.link.news.recv()).await.expect("news within a minute").expect("news")
    }

    /// Waits for such news.
    pub async fn until(&mut self, wanted: impl Fn(&News) -> bool) -> News {
        loop {
            let news = self.next().await;
            if wanted(&news) {
                return news;
            }
        }
    }

    /// Whether the next session that is ready goes on with the last one.
    async fn ready(&mut self) -> bool {
        self.was_ready = true;
        matches!(self.until(|news| matches!(news, News::Said(Said::Ready { .. }))).await, News::Said(Said::Ready { resumed: true }))
    }

    /// What comes of a response, to its end.
    pub async fn whole(&mut self, response: u128, cause: Cause) -> Whole {
        if !self.was_ready {
            self.ready().await;
        }
        self.begin(response, cause);
        let mut whole = Whole { words: String::new(), bytes: 0, events: Vec::new() };
        loop {
            match self.next().await {
                News::Said(Said::Output(Output::Words { text, .. })) => whole.words.push_str(&text),
                News::Said(Said::Output(Output::Audio { bytes, .. })) => whole.bytes += bytes.len(),
                News::Said(Said::Output(Output::Event(event))) => {
                    let over = matches!(event, ModelEvent::Complete { .. } | ModelEvent::Failed { .. });
                    whole.events.push(event);
                    if over {
                        return whole;
                    }
                }
                _ => {}
            }
        }
    }

    /// The words of a greeting, and whether it was given.
    async fn asks(&mut self, response: u128) -> (String, bool) {
        let whole = self.whole(response, Cause::Greeting).await;
        (whole.words, matches!(whole.events.last(), Some(ModelEvent::Complete { .. })))
    }

    async fn failure(&mut self, of: u128) -> String {
        loop {
            match self.next().await {
                News::Said(Said::Output(Output::Event(ModelEvent::Failed { response, reason }))) if response == ResponseId(of) => {
                    return reason;
                }
                _ => {}
            }
        }
    }
}

/// What is said of the caller by this name.
fn realtime<'a>(sent: &'a [Value], name: &'a str) -> impl Iterator<Item = &'a Value> {
    sent.iter().map(move |message| &message["realtimeInput"][name]).filter(|input| !input.is_null())
}

/// What the service was told of calls.
fn answers(sent: &[Value]) -> impl Iterator<Item = &Value> {
    sent.iter().filter_map(|message| message["toolResponse"]["functionResponses"].as_array()).flatten()
}

fn knows(sent: &[Value], what: &str) -> bool {
    sent.iter().any(|message| message.to_string().contains(what))
}

/// How many fifths of a second of these words were heard, each once.
fn heard_pieces(ear: &Ear, words: &str, ms: usize) -> usize {
    let whole = sound_of(words, ms);
    let times: Vec<usize> = whole.chunks_exact(1_600).map(|piece| ear.find(piece).len()).collect();
    assert!(times.iter().all(|times| *times <= 1), "{words}: {times:?}");
    times.iter().sum()
}

/// All that the service was sent of the caller, as the telephone's samples.
fn audio_at_8_khz(sent: &[Value]) -> Vec<i16> {
    let bytes: Vec<u8> = realtime(sent, "audio").flat_map(|audio| STANDARD.decode(audio["data"].as_str().unwrap()).unwrap()).collect();
    let samples: Vec<i16> = bytes.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect();
    let mut brought = Vec::new();
    Resampler::new(16_000, 8_000).unwrap().process(&samples, &mut brought);
    brought
}
