//! `recado cloud test` with a Live service, as people run it.

use serde_json::Value;

use super::command::{cloud_test, said, without_times};
use super::live_service::{Act, Conduct, LiveService};
use super::stage::speaks;
use super::validator::{self, Tap};

const TASK: &str = "Mire el pedido cuatro siete dos nueve. ";

fn conduct(acts: &[Act]) -> Conduct {
    Conduct { acts: acts.iter().cloned().collect(), ..Conduct::default() }
}

/// What a model that does what it is told does: it delegates once, and answers whatever is asked for after that.
fn obedient() -> Conduct {
    conduct(&[Act::Delegate { says: "Un momento. ", ms: 300, caller_said: TASK }, Act::Speak("Está en camino. ", 300)])
}

fn settings(service: &LiveService, language: &str, more: &str) -> String {
    format!(
        "box.language = '{language}'\n[model]\nkind = 'live'\n[cloud.live]\nurl = '{}'\nmodel = 'lives'\n{more}\n{TOOLS}",
        service.url()
    )
}

/// The box's own tools, which are not asked for anything.
const TOOLS: &str = "delegate_tool = 'ask'\n[[tools]]\nname = 'ask'\nurl = 'http://127.0.0.1:9/'\n\
                     parameters = { type = 'object', properties = { text = { type = 'string' } } }\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_service_that_works_is_said_to_work_and_what_its_protocol_can_t_tell_is_not_known() {
    if !speaks() {
        return;
    }
    let spanish = LiveService::start(vec![obedient()]).await;
    let english = LiveService::start(vec![Conduct { sends_silence: true, ..obedient() }]).await;
    let linear = LiveService::start(vec![obedient()]).await;
    let (in_spanish, in_english, in_linear) = tokio::join!(
        async { cloud_test(&settings(&spanish, "es", "key_file = 'key'")).await },
        async { cloud_test(&settings(&english, "en", "format = 'pcma'")).await },
        async { cloud_test(&settings(&linear, "en", "format = 'pcm24k'")).await },
    );
    let text = said(&in_spanish);
    let seconds = text.split_once("se cobra: ").and_then(|(_, rest)| rest.split_once(" s.")).map_or("none", |(seconds, _)| seconds);
    assert_eq!(
        without_times(&text),
        format!(
            "El modelo lives de {}:\n  \
             conexión: establecida en N ms\n  \
             sesión: aceptada en N ms\n  \
             voz: primer sonido N ms después de la última palabra (Un momento.)\n  \
             encargo: hecho N ms después de la última palabra ({{\"request\":\"{}\"}})\n  \
             respuesta tras la herramienta: primer sonido a los N ms (Está en camino.)\n  \
             lo que se le dice al modelo: confirmado en N ms como mucho\n  \
             cancelación: no se sabe: el protocolo no la tiene. La central no deja oír lo que el modelo siga diciendo cuando se le interrumpe\n\
             Audio que se cobra: {seconds} s.\n\
             Memoria del modelo ocupada: 1 %.\n\
             Todo lo que se ha podido probar funciona.\n",
            spanish.address,
            TASK.trim()
        )
    );
    assert!(seconds.parse::<f64>().is_ok_and(|seconds| (1.0..60.0).contains(&seconds)), "{text}");
    let text = said(&in_english);
    assert!(text.contains("\n  delegation: made ") && text.contains("\n  what the model is told: acknowledged in "), "{text}");
    assert!(text.ends_with("All that could be tried works.\n"), "{text}");
    for output in [&in_spanish, &in_english, &in_linear] {
        assert_eq!(output.status.code(), Some(0), "{}", said(output));
    }
    let sent = spanish.seen.sent_by_clients();
    let told: Vec<&Value> = sent.iter().filter(|event| event["type"].as_str().is_some_and(|kind| kind.ends_with(".append"))).collect();
    let about = |kind: &str| {
        let kind = format!("session.{kind}.append");
        told.iter().filter(move |event| event["type"] == kind)
    };
    assert!(about("thinking").any(|event| event["delegation_id"].is_string()), "{told:?}");
    assert_eq!(about("commentary").count(), 1, "{told:?}");
    assert!(!sent.iter().any(|event| event.to_string().contains("\"ask\"")), "the box's own tools are not offered");
    validator::check(&[Tap::seen(&spanish.seen), Tap::seen(&english.seen), Tap::seen(&linear.seen)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_thing_of_a_live_service_that_does_not_work_is_said_with_its_remedy_in_one_language() {
    if !speaks() {
        return;
    }
    let answers = |status, body| Conduct { answers: Some((status, None, body)), ..Conduct::default() };
    let delegates = Act::Delegate { says: "Un momento. ", ms: 300, caller_said: TASK };
    let unwritten = Act::Delegate { says: "Un momento. ", ms: 300, caller_said: "" };
    let wrong_key = r#"{"error":{"message":"Incorrect API key provided: s3cr3t-key.","code":"invalid_api_key"}}"#;
    for (conduct, in_english, in_spanish) in [
        (
            answers(401, wrong_key),
            "connection: does not work: the service refuses the key (401): Incorrect API key provided: ***. Look at cloud.live.key_file",
            "conexión: no funciona: el servicio rechaza la clave (401): Incorrect API key provided: ***. Mire cloud.live.key_file",
        ),
        (
            answers(403, ""),
            "connection: does not work: the service refuses the key (403). Look at cloud.live.key_file",
            "conexión: no funciona: el servicio rechaza la clave (403). Mire cloud.live.key_file",
        ),
        (
            Conduct { refuses: Some("model_not_found"), ..Conduct::default() },
            "session: does not work: the service says: model_not_found: No. Correct cloud.live.model, or",
            "sesión: no funciona: el servicio dice: model_not_found: No. Corrija cloud.live.model o",
        ),
        (
            Conduct { stalls: true, ..Conduct::default() },
            "session: does not work: the service did not say in time that the session has started. ",
            "sesión: no funciona: el servicio no ha dicho a tiempo que la sesión haya empezado. ",
        ),
        (
            Conduct { ends: Some("content"), ..Conduct::default() },
            "speech: does not work: the service has ended the session: content. ",
            "voz: no funciona: el servicio ha terminado la sesión: content. ",
        ),
        (
            conduct(&[]),
            "speech: does not work: no sound has come for 2000 ms. Where the service is only slow, raise answer_timeout_ms in [cloud.live]; else look",
            "voz: no funciona: no ha llegado ningún sonido en 2000 ms. Si el servicio solo es lento, suba answer_timeout_ms en [cloud.live]; si no, mire",
        ),
        (
            conduct(&[Act::Write("Un momento. ")]),
            "speech: does not work: no sound has come for 2000 ms. ",
            "voz: no funciona: no ha llegado ningún sonido en 2000 ms. ",
        ),
        (
            conduct(&[Act::Speak("No hago eso. ", 300)]),
            "delegation: does not work: the model has not called the tool; it said \"No hago eso. \". Try again; if it happens again, choose a model that delegates",
            "encargo: no funciona: el modelo no ha llamado a la herramienta; ha dicho \"No hago eso. \". Pruebe otra vez; si se repite, elija un modelo que haga encargos",
        ),
        (
            conduct(&[unwritten]),
            "delegation: does not work: the model has delegated a task, but the service has written down nothing ",
            "encargo: no funciona: el modelo ha hecho un encargo, pero el servicio no ha escrito nada ",
        ),
        (
            conduct(&[delegates.clone(), Act::Cut]),
            "answer after the tool: does not work: the ",
            "respuesta tras la herramienta: no funciona: ",
        ),
        (
            conduct(&[delegates]),
            "answer after the tool: does not work: no sound has come for 2000 ms. ",
            "respuesta tras la herramienta: no funciona: no ha llegado ningún sonido en 2000 ms. ",
        ),
    ] {
        for (language, expected, verdict, not_known) in [
            ("en", in_english, "\nNot all of it works.\n", "what the model is told: not known: the talk did not come to it\n"),
            ("es", in_spanish, "\nNo todo funciona.\n", "lo que se le dice al modelo: no se sabe: no se ha llegado a probar\n"),
        ] {
            let service = LiveService::start(vec![conduct.clone()]).await;
            let output = cloud_test(&settings(&service, language, "key_file = 'key'\nanswer_timeout_ms = 2000")).await;
            let text = said(&output);
            assert!(text.contains(&format!("\n  {expected}")) && text.ends_with(verdict), "{conduct:?}: {text}");
            assert!(text.contains(not_known), "{text}");
            assert_eq!(output.status.code(), Some(3), "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_live_service_does_not_acknowledge_the_model_may_know_or_not() {
    if !speaks() {
        return;
    }
    let service = LiveService::start(vec![Conduct { acknowledges_nothing: true, ..obedient() }]).await;
    let output = cloud_test(&settings(&service, "en", "answer_timeout_ms = 2000")).await;
    let text = said(&output);
    let expected = "\n  what the model is told: not known: the service has not acknowledged 3 of the things that the model was told\n";
    assert!(text.contains(expected) && text.ends_with("All that could be tried works.\n"), "{text}");
    assert_eq!(output.status.code(), Some(0), "{text}");
}
