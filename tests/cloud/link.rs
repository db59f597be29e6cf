//! How connections come to be and to an end: what is tried again, when, and what is not.

use std::time::Duration;

use recado::cognition::models::Command;
use recado::cognition::models::realtime::session::Said;
use recado::cognition::models::realtime::{News, Told};
use recado::cognition::models::transport::{Endpoint, TransportError};
use recado_core::conversation::effect::Cause;

use super::service::{Conduct, Hello, Reply, Service};
use super::talker::*;

fn hello(hello: Hello) -> Conduct {
    Conduct { hello, ..Conduct::default() }
}

fn answers(status: u16, header: Option<(&'static str, &'static str)>, body: &'static str) -> Conduct {
    Conduct { answers: Some((status, header, body)), ..Conduct::default() }
}

#[tokio::test]
async fn the_connection_is_asked_for_with_the_model_the_key_and_no_beta_header() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("key");
    std::fs::write(&file, "s3cr3t\n").unwrap();
    for (more, expected) in [("", "\"authorization\": \"Bearer s3cr3t\""), ("key_header = 'api-key'\n", "\"api-key\": \"s3cr3t\"")] {
        let service = Service::start(vec![Conduct::default()]).await;
        let mut talker = Talker::open(&service.url(), &format!("key_file = '{}'\n{more}headers = {{ X-Shop = '7' }}", file.display()));
        talker.ready().await;
        let request = &service.seen.requests()[0];
        assert!(request.starts_with("/v1/realtime?model=speaks {"), "{request}");
        assert!(
            request.contains(expected) && request.contains("\"x-shop\": \"7\"") && request.contains("\"user-agent\": \"recado/"),
            "{request}"
        );
        assert!(!request.to_lowercase().contains("beta"), "{request}");
    }
}

#[tokio::test]
async fn an_answer_that_is_no_connection_says_what_it_means_and_only_what_may_pass_is_tried_again() {
    for (conduct, expected, again) in [
        (
            answers(401, None, r#"{"error":{"message":"Incorrect API key provided.","code":"invalid_api_key"}}"#),
            "refuses the key (401): Incorrect API key provided.",
            false,
        ),
        (answers(403, None, "no"), "refuses the key (403): no", false),
        (answers(404, None, ""), "no such address or model (404)", false),
        (
            answers(400, None, r#"{"error":{"message":"No such model.","code":"model_not_found"}}"#),
            "no such address or model (400): No such model.",
            false,
        ),
        (
            answers(429, Some(("retry-after", "20")), r#"{"error":{"message":"Slow down."}}"#),
            "takes no more requests for now (429): Slow down.",
            true,
        ),
        (answers(503, None, "busy"), "the service answers 503: busy", true),
        (answers(410, None, "gone"), "the service answers 410: gone", false),
    ] {
        let service = Service::start(vec![conduct]).await;
        let (error, again_in) = Talker::open(&service.url(), "").disconnected().await;
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(again_in.is_some(), again, "{error}");
        if let TransportError::RateLimited { .. } = error {
            assert_eq!(again_in, Some(Duration::from_secs(20)));
        }
    }
}

#[tokio::test]
async fn a_close_is_followed_by_another_connection_only_where_its_code_says_that_it_may_help() {
    for (code, again) in
        [(1000, true), (1001, true), (1011, true), (1012, true), (1013, true), (1008, false), (1002, false), (4000, false), (3000, false)]
    {
        let service = Service::start(vec![hello(Hello::Close(code))]).await;
        let (error, again_in) = Talker::open(&service.url(), "").disconnected().await;
        assert_eq!(error.to_string(), format!("the service closed the connection ({code}): because"));
        assert_eq!(again_in.is_some(), again, "{code}");
    }
}

#[tokio::test]
async fn waits_between_tries_grow_and_begin_anew_after_a_session_that_spoke() {
    let closed = || hello(Hello::Close(1012));
    let service = Service::start(vec![closed(), closed(), Conduct { replies: [Reply::Cut].into(), ..Conduct::default() }, closed()]).await;
    let mut talker = Talker::open(&service.url(), "");
    let mut waits = Vec::new();
    for _ in 0..2 {
        waits.push(talker.disconnected().await.1.unwrap().as_millis());
    }
    talker.ready().await;
    talker.respond(A, Cause::Greeting);
    for _ in 0..2 {
        waits.push(talker.disconnected().await.1.unwrap().as_millis());
    }
    assert_eq!(waits, [500, 1_000, 500, 1_000]);
}

#[tokio::test]
async fn a_service_that_takes_every_session_and_ends_it_at_once_is_asked_less_and_less_often() {
    let service = Service::start(vec![hello(Hello::SessionAndClose(1012))]).await;
    let mut talker = Talker::open(&service.url(), "");
    let mut waits = Vec::new();
    for _ in 0..3 {
        talker.ready().await;
        waits.push(talker.disconnected().await.1.unwrap().as_millis());
    }
    assert_eq!(waits, [500, 1_000, 2_000]);
}

#[tokio::test]
async fn a_session_that_is_refused_is_not_asked_for_again_and_one_that_is_overloaded_is() {
    for refusing in [
        hello(Hello::Complaint { kind: "invalid_request_error", code: "model_not_found", close: 4000 }),
        hello(Hello::RefusesSettings { code: "invalid_value" }),
    ] {
        let service = Service::start(vec![refusing]).await;
        let mut talker = Talker::open(&service.url(), "");
        talker.respond(A, Cause::Greeting);
        let reason = failure(&talker.response(A).await.0).to_owned();
        assert!(reason.contains("The service complains."), "{reason}");
        talker.until(|news| matches!(news, News::Said(Said::Refused(_))).then_some(())).await;
        talker.respond(B, Cause::Greeting);
        assert_eq!(failure(&talker.response(B).await.0), reason, "at once, and for the same reason");
        assert_eq!(service.seen.connections(), 1);
    }
    let overloaded = Hello::Complaint { kind: "invalid_request_error", code: "rate_limit_exceeded", close: 1013 };
    let service = Service::start(vec![hello(overloaded), Conduct::default()]).await;
    let mut talker = Talker::open(&service.url(), "");
    talker.respond(A, Cause::Greeting);
    let (events, _) = talker.response(A).await;
    assert_eq!(words(&events), "Lo que usted diga. Adelante.");
}

#[tokio::test]
async fn a_service_that_says_nothing_is_given_up_for_another_connection() {
    let service = Service::start(vec![hello(Hello::Nothing), Conduct::default()]).await;
    let mut talker = Talker::open(&service.url(), "answer_timeout_ms = 500");
    talker.until(|news| matches!(news, News::Reconnecting { .. }).then_some(())).await;
    talker.ready().await;
}

#[tokio::test]
async fn a_host_that_is_not_there_is_not_a_websocket_or_takes_too_long_is_told_apart() {
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (error, again_in) = Talker::open(&format!("ws://{unused}"), "").disconnected().await;
    assert!(matches!(&error, TransportError::Unreachable { host, .. } if *host == unused.to_string()), "{error}");
    assert!(again_in.is_some());
    let (error, _) = Talker::open("ws://no-such-host.invalid/", "").disconnected().await;
    assert_eq!(error.to_string(), "no-such-host.invalid:80 can't be reached: its name does not resolve");

    let other = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", other.local_addr().unwrap());
    let mut waiting = Talker::open(&url, "connect_timeout_ms = 500");
    let (_silent, _) = other.accept().await.unwrap();
    let (error, again_in) = waiting.disconnected().await;
    assert!(error.to_string().contains("within 500 ms") && again_in.is_some(), "{error}");

    drop(waiting);

    for (answer, expected) in [
        (&b"220 mail.example ESMTP\r\n"[..], "speaks no WebSocket"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>", "the service answers 200"),
    ] {
        let other = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut talker = Talker::open(&format!("ws://{}", other.local_addr().unwrap()), "");
        let (mut socket, _) = other.accept().await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut socket, answer).await.unwrap();
        let (error, again_in) = talker.disconnected().await;
        assert!(error.to_string().contains(expected) && again_in.is_none(), "{error}");
    }
}

#[tokio::test]
async fn a_caller_who_hears_nothing_holds_up_neither_cancels_nor_memory() {
    let service = Service::start(vec![Conduct { replies: [Reply::Long { confirms: true }].into(), ..Conduct::default() }]).await;
    let talker = Talker::open(&service.url(), "");
    talker.respond(A, Cause::Greeting);
    // Nobody takes what comes, and the service stops being read; the caller's audio and the cancel go out all the same.
    service.seen.until_there_are(500).await;
    talker.speak();
    talker.tell(Command::CancelResponse { response: A });
    service.seen.until(|events| events.iter().any(|event| event["type"] == "response.cancel")).await;
    assert!(service.seen.sent_by_clients().iter().any(|event| event["type"] == "input_audio_buffer.append"));
}

#[tokio::test]
async fn a_key_is_shown_by_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("key");
    std::fs::write(&file, "s3cr3t-key").unwrap();
    let key = format!("key_file = '{}'", file.display());
    let service = Service::start(vec![answers(401, None, "wrong key: s3cr3t-key")]).await;
    let settings = settings(&service.url(), &key);
    assert!(!format!("{:?} {settings:?}", Endpoint::new(&settings).unwrap()).contains("s3cr3t"));
    let (error, _) = Talker::open(&service.url(), &key).disconnected().await;
    assert!(error.to_string().ends_with("wrong key: ***") && !format!("{error:?}").contains("s3cr3t"), "{error}");
    std::fs::write(&file, "bad\nkey").unwrap();
    let error = Endpoint::new(&settings).unwrap_err();
    assert!(error.to_string().starts_with("cloud.realtime.key_file: the credential file "), "{error}");
}

#[tokio::test]
async fn a_session_whose_handle_is_dropped_closes_its_connection_and_says_what_it_took() {
    let service = Service::start(vec![Conduct::default()]).await;
    let mut talker = Talker::open(&service.url(), "");
    talker.ready().await;
    talker.0.handle.tell(Told::Caller(vec![0; 160])).unwrap();
    assert_eq!(talker.end().await, Default::default());
}
