//! Whole conversations, each with a service of its own; what went over the wire comes back.

use recado::cognition::models::realtime::session::{RenderId, Said};
use recado::cognition::models::realtime::{News, Told};
use recado::cognition::models::{Command, Output};
use recado_core::OperationId;
use recado_core::conversation::effect::{Cause, ToolStatus};
use recado_core::conversation::input::ModelEvent;

use super::service::{Conduct, Reply, Service};
use super::talker::*;
use super::validator::{self, Tap};

fn replies(replies: &[Reply]) -> Conduct {
    Conduct { replies: replies.iter().cloned().collect(), ..Conduct::default() }
}

async fn service(wanted: &[Reply]) -> Service {
    Service::start(vec![replies(wanted)]).await
}

/// The name of the call that was made.
fn called(events: &[ModelEvent]) -> String {
    let call = events.iter().find_map(|event| match event {
        ModelEvent::ToolCall { call, .. } => Some(call.call_id.clone()),
        _ => None,
    });
    call.expect("a call")
}

/// A turn, a call, its output, and an answer.
async fn a_turn_with_a_call() -> Tap {
    let service =
        service(&[Reply::SpeakAndCall("Se lo pido ahora. ", "order", r#"{"item":"pan"}"#), Reply::Speak("Está pedido. Adiós.", 500)]).await;
    let mut talker = Talker::open(&service.url(), "transcription_model = 'scribe'\nvoice = 'clear'");
    talker.ready().await;
    talker.speak();
    talker.respond(A, TURN);
    let (events, bytes) = talker.response(A).await;
    assert_eq!((words(&events).as_str(), bytes), ("Se lo pido ahora. ", 2_400));
    let call_id = called(&events);
    for status in [ToolStatus::Running, ToolStatus::Told] {
        talker.tell(Command::ToolOutput { call_id: call_id.clone(), operation: Some(OperationId(1)), status });
    }
    talker.respond(B, Cause::Greeting);
    let (events, bytes) = talker.response(B).await;
    assert_eq!((words(&events).as_str(), bytes), ("Está pedido. Adiós.", 4_000));
    let totals = talker.end().await;
    assert_eq!((totals.usage.input_tokens, totals.usage.output_token_details.audio_tokens), (20, 30));
    assert_eq!(totals.rate_limits[0].remaining, Some(98));
    Tap::of(&service)
}

/// A response is cut while it is spoken, and truncated at what was heard.
async fn a_cut_in_the_middle() -> Tap {
    let service = service(&[Reply::Long { confirms: true }, Reply::Speak("Dígame.", 100)]).await;
    let mut talker = Talker::open(&service.url(), "");
    talker.respond(A, Cause::Greeting);
    talker.until(|news| matches!(news, News::Said(Said::Output(Output::Audio { .. }))).then_some(())).await;
    talker.tell(Command::CancelResponse { response: A });
    talker.tell(Command::Truncate { response: A, heard_ms: 120, heard_text: "uno,".into() });
    talker.respond(B, Cause::Greeting);
    let confirmed = talker.until(|news| match news {
        News::Said(Said::Cancelled { response: A, confirmed }) => Some(*confirmed),
        _ => None,
    });
    assert!(confirmed.await);
    let (events, _) = talker.response(B).await;
    assert!(!events.has_words_of(A) && events.len() == 1, "nothing more of it: {events:?}");
    Tap::of(&service)
}

/// The service has something under way that nobody asked for.
async fn somebody_elses_response() -> Tap {
    let service = service(&[Reply::Busy, Reply::Speak("Por fin.", 100)]).await;
    let mut talker = Talker::open(&service.url(), "");
    talker.respond(A, Cause::Greeting);
    let (events, _) = talker.response(A).await;
    assert_eq!(words(&events), "Por fin.");
    Tap::of(&service)
}

/// Texts read aloud beside the conversation, while it goes on.
async fn reading_aloud() -> Tap {
    let service = service(&[Reply::Speak("Una respuesta.", 200)]).await;
    let mut talker = Talker::open(&service.url(), "format = 'pcm'");
    talker.ready().await;
    talker.0.handle.tell(Told::Render { render: RenderId(1), text: "Son las tres.".into() }).unwrap();
    talker.respond(A, Cause::Greeting);
    let (mut rendered, mut ended, mut complete) = (0, None, false);
    while ended.is_none() || !complete {
        match talker.next().await {
            News::Said(Said::Rendered { render: RenderId(1), bytes }) => rendered += bytes.len(),
            News::Said(Said::RenderEnded { result, .. }) => ended = Some(result),
            News::Said(Said::Output(Output::Event(ModelEvent::Complete { .. }))) => complete = true,
            _ => {}
        }
    }
    assert_eq!((rendered, ended), (400 * 48, Some(Ok(()))));
    Tap::of(&service)
}

/// A minute of sound in one event.
async fn a_burst() -> Tap {
    let service = service(&[Reply::Burst(60_000)]).await;
    let mut talker = Talker::open(&service.url(), "");
    talker.respond(A, Cause::Greeting);
    let (events, bytes) = talker.response(A).await;
    assert_eq!((events.last(), bytes), (Some(&ModelEvent::Complete { response: A }), 480_000));
    Tap::of(&service)
}

/// The connection breaks in a response; the next one is told the history.
async fn a_broken_connection() -> Tap {
    let service = Service::start(vec![
        replies(&[Reply::Call("order", r#"{"item":"pan"}"#), Reply::Cut]),
        replies(&[Reply::Speak("Sigo aquí.", 100)]),
    ])
    .await;
    let mut talker = Talker::open(&service.url(), "");
    talker.ready().await;
    talker.speak();
    talker.respond(A, TURN);
    let call_id = called(&talker.response(A).await.0);
    talker.tell(Command::ToolOutput { call_id, operation: Some(OperationId(1)), status: ToolStatus::Running });
    talker.respond(B, Cause::Greeting);
    let (events, _) = talker.response(B).await;
    assert!(failure(&events).contains("closed the connection (1006)") || failure(&events).contains("broke"), "{events:?}");
    talker.ready().await;
    talker.respond(A, Cause::Greeting);
    let (events, _) = talker.response(A).await;
    assert_eq!(words(&events), "Sigo aquí.");
    assert_eq!(service.seen.connections(), 2);
    let told = service.seen.sent_by_clients();
    let told = told.iter().filter_map(|event| event["item"]["content"][0]["text"].as_str());
    assert_eq!(told.filter(|text| text.starts_with("order was called earlier in this call.")).count(), 1);
    Tap::of(&service)
}

/// The session is too old; the next one is asked for at once.
async fn an_expired_session() -> Tap {
    let service = Service::start(vec![replies(&[Reply::Expire]), Conduct::default()]).await;
    let mut talker = Talker::open(&service.url(), "");
    talker.respond(A, Cause::Greeting);
    let (events, _) = talker.response(A).await;
    assert!(failure(&events).contains("too old"), "{events:?}");
    talker.ready().await;
    talker.respond(B, Cause::Greeting);
    assert!(matches!(talker.response(B).await.0.last(), Some(ModelEvent::Complete { .. })));
    Tap::of(&service)
}

/// Responses that fail, each in its way, and one that does not after them.
async fn failures() -> Tap {
    let service =
        service(&[Reply::Fail("rate_limit_exceeded"), Reply::Filtered, Reply::Call("order", "{}"), Reply::Speak("Ahora sí.", 100)]).await;
    let mut talker = Talker::open(&service.url(), "");
    talker.respond(A, Cause::Greeting);
    assert!(failure(&talker.response(A).await.0).contains("rate_limit_exceeded"));
    talker.respond(B, Cause::Greeting);
    assert!(failure(&talker.response(B).await.0).contains("not allowed"));
    talker.respond(A, Cause::Greeting);
    let (events, _) = talker.response(A).await;
    assert_eq!(events.last(), Some(&ModelEvent::Complete { response: A }), "the model has corrected its call");
    assert_eq!(words(&events), "Ahora sí.");
    Tap::of(&service)
}

/// Names, parts and events as other services have them.
async fn another_services_ways() -> Tap {
    let service = service(&[Reply::Deviate]).await;
    let mut talker = Talker::open(&service.url(), "");
    talker.respond(A, Cause::Greeting);
    let (events, bytes) = talker.response(A).await;
    assert_eq!((words(&events).as_str(), bytes), ("Hecho así.", 160));
    let calls: Vec<_> = events.iter().filter(|event| matches!(event, ModelEvent::ToolCall { .. })).collect();
    assert_eq!(calls.len(), 1, "{events:?}");
    talker.tell(Command::ToolOutput { call_id: "call_d".into(), operation: None, status: ToolStatus::Refused });
    service.seen.until(|events| events.iter().any(|event| event["item"]["type"] == "function_call_output")).await;
    Tap::of(&service)
}

/// The service detects turns.
async fn turns_of_the_service() -> Tap {
    let service = Service::start(vec![Conduct { detects_after: Some(4_000), ..Conduct::default() }]).await;
    let mut talker = Talker::open(&service.url(), "turn_detection = 'server_vad'");
    talker.ready().await;
    talker.speak();
    talker.respond(A, TURN);
    assert!(matches!(talker.response(A).await.0.last(), Some(ModelEvent::Complete { .. })));
    Tap::of(&service)
}

macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        $(mod $name {
            #[tokio::test]
            async fn goes_well() {
                super::$name().await;
            }
        })*

        /// Each of them once more, and what went over the wire held against the vendor's types.
        #[tokio::test]
        async fn every_event_of_both_sides_is_what_the_vendors_types_say() {
            let mut taps = Vec::new();
            $(taps.push($name().await);)*
            validator::check(&taps);
        }
    };
}

scenarios![
    a_turn_with_a_call,
    a_cut_in_the_middle,
    somebody_elses_response,
    reading_aloud,
    a_burst,
    a_broken_connection,
    an_expired_session,
    failures,
    another_services_ways,
    turns_of_the_service,
];
