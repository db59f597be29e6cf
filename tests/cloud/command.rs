//! `recado cloud test`, as people run it.

use std::process::{Command, Output};

use super::service::{Conduct, Hello, Reply, Service};
use super::stage::speaks;
use super::validator::{self, Tap};

/// What the model is asked for, as a model that does what it is told gives it.
fn obedient() -> Conduct {
    let call = Reply::SpeakAndCall("Un momento. ", "look_up_order", r#"{"number":"4729"}"#);
    Conduct { replies: [call, Reply::Speak("Está en camino.", 300), Reply::Long { confirms: true }].into(), ..Conduct::default() }
}

/// Runs the command against a service.
pub async fn cloud_test(settings: &str) -> Output {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("recado.toml"), settings).unwrap();
    std::fs::write(directory.path().join("dialogue.toml"), "").unwrap();
    std::fs::write(directory.path().join("key"), "s3cr3t-key").unwrap();
    let file = directory.path().join("recado.toml");
    let run = move || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_recado"));
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.args(["cloud", "test", "-c"]).arg(&file).output().unwrap()
    };
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    assert!(!said(&output).contains("s3cr3t"), "{}", said(&output));
    output
}

pub fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn configured(service: &Service, language: &str, more: &str) -> String {
    format!("box.language = '{language}'\n[cloud.realtime]\nurl = '{}'\nmodel = 'speaks'\n{more}", service.url())
}

/// The text with every number of milliseconds taken out of it.
pub fn without_times(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let times = |n: usize| words.get(n + 1).is_some_and(|next| next.starts_with("ms")) && words[n].parse::<u64>().is_ok();
    (0..words.len()).map(|n| if times(n) { "N" } else { words[n] }).collect::<Vec<_>>().join(" ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_works_is_said_to_work_step_by_step_in_both_languages() {
    if !speaks() {
        return;
    }
    let spanish = Service::start(vec![obedient()]).await;
    let english = Service::start(vec![Conduct { detects_after: Some(16_000), ..obedient() }]).await;
    let linear = Service::start(vec![obedient()]).await;
    let (in_spanish, in_english, in_linear) = tokio::join!(
        async { cloud_test(&configured(&spanish, "es", "key_file = 'key'")).await },
        async { cloud_test(&configured(&english, "en", "turn_detection = 'server_vad'\nlanguage = 'es'")).await },
        async { cloud_test(&configured(&linear, "es", "format = 'pcm'")).await },
    );
    assert_eq!(
        without_times(&said(&in_spanish)),
        format!(
            "El modelo speaks de {}:\n  \
             conexión: establecida en N ms\n  \
             sesión: aceptada en N ms\n  \
             voz: primer sonido N ms después de la última palabra (Un momento.)\n  \
             herramienta: llamada N ms después de la última palabra ({{\"number\":\"4729\"}})\n  \
             respuesta tras la herramienta: primer sonido a los N ms (Está en camino.)\n  \
             cancelación: confirmada en N ms\n  \
             lectura de un texto: primer sonido a los N ms\n\
             Tokens: 40 de entrada (24 de audio, 16 de texto, 8 ya conocidos) y 80 de salida (60 de audio, 20 de texto).\n\
             Límite del servicio (requests): quedan 96 de 100.\n\
             Todo funciona.\n",
            spanish.address
        )
    );
    assert_eq!(in_spanish.status.code(), Some(0));
    let text = said(&in_english);
    assert!(text.ends_with("All of it works.\n") && text.contains("answer after the tool: first sound after "), "{text}");
    assert_eq!((in_english.status.code(), in_linear.status.code()), (Some(0), Some(0)), "{}", said(&in_linear));
    let sent = spanish.seen.sent_by_clients();
    let bytes: usize = sent.iter().filter_map(|event| event["audio"].as_str()).map(|audio| audio.len() * 3 / 4).sum();
    assert!((16_000..80_000).contains(&bytes), "a sentence of some seconds: {bytes} bytes");
    validator::check(&[Tap::of(&spanish), Tap::of(&english), Tap::of(&linear)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_that_calls_before_it_speaks_is_heard_after_its_call() {
    if !speaks() {
        return;
    }
    let replies =
        [Reply::Call("look_up_order", r#"{"number":"4729"}"#), Reply::Speak("Está en camino.", 300), Reply::Long { confirms: true }];
    let service = Service::start(vec![Conduct { replies: replies.into(), ..Conduct::default() }]).await;
    let output = cloud_test(&configured(&service, "es", "")).await;
    let text = said(&output);
    let place = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what} in {text}"));
    assert!(place("herramienta: llamada") < place("voz: primer sonido") && place("voz: primer sonido") < place("respuesta tras"), "{text}");
    assert_eq!(output.status.code(), Some(0), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_thing_that_does_not_work_is_said_with_its_remedy_and_the_code_is_three() {
    if !speaks() {
        return;
    }
    let answers = |status, body| Conduct { answers: Some((status, None, body)), ..Conduct::default() };
    let hello = |hello| Conduct { hello, ..Conduct::default() };
    let with = |reply: &[Reply]| Conduct { replies: reply.iter().cloned().collect(), ..Conduct::default() };
    let wrong_key = r#"{"error":{"message":"Incorrect API key provided: s3cr3t-key.","code":"invalid_api_key"}}"#;
    let cases = [
        (
            answers(401, wrong_key),
            "connection: does not work: the service refuses the key (401): Incorrect API key provided: ***. Look at cloud.realtime.key_file",
        ),
        (answers(404, ""), "connection: does not work: the service knows no such address or model (404). Correct cloud.realtime.model"),
        (answers(429, ""), "connection: does not work: the service takes no more requests for now (429). Wait, or raise"),
        (
            hello(Hello::Complaint { kind: "invalid_request_error", code: "model_not_found", close: 4000 }),
            "session: does not work: the service says: model_not_found: The service complains. Correct cloud.realtime.model",
        ),
        (
            hello(Hello::RefusesSettings { code: "invalid_value" }),
            "session: does not work: the service says: invalid_value: The service complains. Correct in [cloud.realtime] what is named",
        ),
        (hello(Hello::Close(4000)), "session: does not work: the service closed the connection (4000): because. "),
        (hello(Hello::Nothing), "session: does not work: the service did not answer in time that the session is set. "),
        (
            with(&[Reply::Fail("insufficient_quota")]),
            "speech: does not work: the service says: insufficient_quota: Not now. Wait, or raise",
        ),
        (with(&[Reply::Stall]), "speech: does not work: nothing has come for 2000 ms. Check the network"),
        (
            with(&[Reply::Speak("No hago eso.", 200)]),
            "tool: does not work: the model has not called the tool; it said \"No hago eso.\". Try again",
        ),
        (with(&[Reply::Call("look_up_order", r#"{"number":"1"}"#), Reply::Cut]), "answer after the tool: does not work: the "),
        (
            with(&[Reply::Call("look_up_order", r#"{"number":"1"}"#), Reply::Speak("Está en camino.", 100), Reply::Speak("Uno.", 0)]),
            "cancel: does not work: the response has ended without a sound. ",
        ),
    ];
    for (conduct, expected) in cases {
        let service = Service::start(vec![conduct.clone()]).await;
        let output = cloud_test(&configured(&service, "en", "key_file = 'key'\nanswer_timeout_ms = 2000")).await;
        let text = said(&output);
        assert!(text.contains(&format!("\n  {expected}")) && text.ends_with("\nNot all of it works.\n"), "{conduct:?}: {text}");
        assert_eq!(output.status.code(), Some(3), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_is_not_there_names_what_to_check() {
    if !speaks() {
        return;
    }
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = cloud_test(&format!("[cloud.realtime]\nurl = 'ws://{unused}/'\nmodel = 'speaks'\n")).await;
    let text = said(&output);
    assert!(text.contains(&format!("conexión: no funciona: no se llega a {unused}: rechaza la conexión. Compruebe la red")), "{text}");
    assert!(text.contains("lectura de un texto: no se sabe: no se ha llegado a probar\n"), "{text}");
    assert_eq!(output.status.code(), Some(3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_keeps_a_service_from_being_tried_is_said_on_stderr_and_the_code_is_one() {
    for (settings, expected) in [
        ("", "no service is configured: write a table [cloud.realtime]"),
        (
            "[cloud.realtime]\nurl = 'ws://127.0.0.1:9/'\nmodel = 'm'\nkey_file = 'no-such-file'\n",
            "cloud.realtime.key_file: the credential file ",
        ),
        ("[cloud.realtime]\nurl = 'ws://127.0.0.1:9/'\nmodel = 'm'\n[speech]\nprogram = '/nonexistent/engine'\n", "can't be spoken: "),
    ] {
        let output = cloud_test(settings).await;
        assert!(String::from_utf8_lossy(&output.stderr).contains(expected), "{}", said(&output));
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{}", said(&output));
    }
}
