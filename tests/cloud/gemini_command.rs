//! `recado cloud test` with a Gemini Live service, as people run it.

use super::command::{cloud_test, said, without_times};
use super::gemini_service::{Conduct, Reply, Service};
use super::stage::speaks;
use super::validator::{self, Tap};

fn conduct(replies: &[Reply]) -> Conduct {
    Conduct { replies: replies.iter().cloned().collect(), ..Conduct::default() }
}

/// What a model that does what it is told does.
fn obedient() -> Conduct {
    conduct(&[CALL, Reply::Speak("Está en camino. ", 300), Reply::Paced("Uno, dos, tres. ", 20_000), Reply::Speak("En camino. ", 300)])
}

const CALL: Reply = Reply::SpeakAndCall("Un momento. ", "look_up_order", r#"{"number":"4729"}"#);

fn settings(service: &Service, language: &str, more: &str) -> String {
    format!("box.language = '{language}'\n[model]\nkind = 'gemini'\n[cloud.gemini]\nurl = '{}'\nmodel = 'speaks'\n{more}\n", service.url())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gemini_service_that_works_is_said_to_work_with_both_kinds_of_calls() {
    if !speaks() {
        return;
    }
    let goes_on = Service::start(vec![obedient()]).await;
    let waits = Service::start(vec![obedient()]).await;
    let (going_on, waiting) = tokio::join!(async { cloud_test(&settings(&goes_on, "es", "key_file = 'key'")).await }, async {
        cloud_test(&settings(&waits, "en", "calls = 'blocking'\ntext = 'realtime'")).await
    },);
    assert_eq!(
        without_times(&said(&going_on)),
        format!(
            "El modelo speaks de {}:\n  \
             conexión: establecida en N ms\n  \
             sesión: aceptada en N ms\n  \
             voz: primer sonido N ms después de la última palabra (Un momento.)\n  \
             herramienta: llamada N ms después de la última palabra ({{\"number\":\"4729\"}})\n  \
             respuesta tras la herramienta: primer sonido a los N ms (Está en camino.)\n  \
             respuesta tras cortar otra: primer sonido a los N ms (En camino.)\n  \
             cancelación: no se sabe: el protocolo no la confirma, y el servicio puede seguir generando lo que ya nadie oye\n\
             Tokens: 30 de entrada (0 ya conocidos) y 60 de salida (60 de audio).\n\
             Todo lo que se ha podido probar funciona.\n",
            goes_on.address
        )
    );
    let text = said(&waiting);
    assert!(text.contains("\n  tool: called ") && text.ends_with("All that could be tried works.\n"), "{text}");
    assert_eq!((going_on.status.code(), waiting.status.code()), (Some(0), Some(0)), "{text}");
    for (service, statuses) in [(&goes_on, ["pending", "running"].as_slice()), (&waits, &["running"])] {
        let sent = service.seen.sent_by_clients();
        let answers = sent.iter().filter_map(|message| message["toolResponse"]["functionResponses"].as_array()).flatten();
        let told: Vec<&str> = answers.filter_map(|answer| answer["response"]["output"]["status"].as_str()).collect();
        assert_eq!(told, statuses, "a call is answered at once");
    }
    validator::check_gemini(&[Tap::of_gemini(&goes_on), Tap::of_gemini(&waits)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_thing_of_a_gemini_service_that_does_not_work_is_said_with_its_remedy_in_one_language() {
    if !speaks() {
        return;
    }
    let answers = |status, body| Conduct { answers: Some((status, None, body)), ..Conduct::default() };
    let refuses = |code, reason| Conduct { refuses: Some((code, reason)), ..Conduct::default() };
    let wrong_key = r#"{"error":{"message":"API key s3cr3t-key not valid.","status":"PERMISSION_DENIED"}}"#;
    for (conduct, in_english, in_spanish) in [
        (
            answers(401, ""),
            "connection: does not work: the service refuses the key (401). Look at cloud.gemini.key_file",
            "conexión: no funciona: el servicio rechaza la clave (401). Mire cloud.gemini.key_file",
        ),
        (
            answers(403, wrong_key),
            "connection: does not work: the service refuses the key (403): API key *** not valid. Look at cloud.gemini.key_file",
            "conexión: no funciona: el servicio rechaza la clave (403): API key *** not valid. Mire cloud.gemini.key_file",
        ),
        (
            refuses(1007, "API key not valid. Please pass a valid API key."),
            "session: does not work: the service closed the connection (1007): API key not valid. Please pass a valid API key. Look at cloud.gemini.key_file",
            "sesión: no funciona: el servicio ha cerrado la conexión (1007): API key not valid. Please pass a valid API key. Mire cloud.gemini.key_file",
        ),
        (
            refuses(1008, "models/speaks is not found for API version v1beta, or is not supported for bidiGenerateContent."),
            "session: does not work: the service closed the connection (1008): models/speaks is not found for API version v1beta, or is not supported for bidiGenerateContent. Correct cloud.gemini.model, or",
            "sesión: no funciona: el servicio ha cerrado la conexión (1008): models/speaks is not found for API version v1beta, or is not supported for bidiGenerateContent. Corrija cloud.gemini.model o",
        ),
        (
            refuses(1000, ""),
            "session: does not work: the service closed the connection (1000). Try again in a while",
            "sesión: no funciona: el servicio ha cerrado la conexión (1000). Pruebe otra vez dentro de un rato",
        ),
        (
            Conduct { stalls: true, ..Conduct::default() },
            "session: does not work: the service did not answer in time that the session is set. ",
            "sesión: no funciona: el servicio no ha dicho a tiempo que la sesión esté preparada. ",
        ),
        (
            conduct(&[Reply::Stall]),
            "speech: does not work: nothing has come for 2000 ms. Check the network",
            "voz: no funciona: no ha llegado nada en 2000 ms. Compruebe la red",
        ),
        (
            conduct(&[Reply::Speak("Un momento. ", 0)]),
            "speech: does not work: the response has ended without a sound. Try again; if it happens again, look at voice in [cloud.gemini]",
            "voz: no funciona: la respuesta ha terminado sin ningún sonido. Pruebe otra vez; si se repite, mire voice en [cloud.gemini]",
        ),
        (
            conduct(&[Reply::Speak("No hago eso. ", 200)]),
            "tool: does not work: the model has not called the tool; it said \"No hago eso. \". Try again; if it happens again, try calls = \"blocking\"",
            "herramienta: no funciona: el modelo no ha llamado a la herramienta; ha dicho \"No hago eso. \". Pruebe otra vez; si se repite, pruebe calls = \"blocking\"",
        ),
        (
            conduct(&[CALL, Reply::Close(1011)]),
            "answer after the tool: does not work: the service closed the connection (1011): because. ",
            "respuesta tras la herramienta: no funciona: el servicio ha cerrado la conexión (1011): because. ",
        ),
        (
            conduct(&[CALL, Reply::Speak("En camino. ", 100), Reply::Speak("Uno. ", 0)]),
            "answer after one that was cut: does not work: the response has ended without a sound. ",
            "respuesta tras cortar otra: no funciona: la respuesta ha terminado sin ningún sonido. ",
        ),
    ] {
        for (language, expected, verdict) in [("en", in_english, "\nNot all of it works.\n"), ("es", in_spanish, "\nNo todo funciona.\n")] {
            let service = Service::start(vec![conduct.clone()]).await;
            let output = cloud_test(&settings(&service, language, "key_file = 'key'\nanswer_timeout_ms = 2000")).await;
            let text = said(&output);
            assert!(text.contains(&format!("\n  {expected}")) && text.ends_with(verdict), "{conduct:?}: {text}");
            assert_eq!(output.status.code(), Some(3), "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_that_says_little_can_t_be_cut_and_whether_it_could_be_is_not_known() {
    if !speaks() {
        return;
    }
    let service = Service::start(vec![conduct(&[CALL, Reply::Speak("En camino. ", 100), Reply::Speak("Uno. ", 100)])]).await;
    let output = cloud_test(&settings(&service, "en", "")).await;
    let text = said(&output);
    let expected = "\n  answer after one that was cut: not known: the response had ended before it could be cut\n";
    assert!(text.contains(expected) && text.ends_with("All that could be tried works.\n"), "{text}");
    assert_eq!(output.status.code(), Some(0), "{text}");
}
