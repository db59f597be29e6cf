//! `recado cloud test` with a cascade, as people run it.

use serde_json::json;

use super::command::{cloud_test, said, without_times};
use super::http_service::{Conduct, End, HttpService, Received, chat};
use super::stage::speaks;

/// Parts that do what they are asked, but for what is said otherwise.
async fn parts(otherwise: impl Fn(&Received) -> Option<Conduct> + Send + Sync + 'static) -> HttpService {
    HttpService::start_with(move |request| {
        otherwise(request).unwrap_or_else(|| match String::from_utf8_lossy(&request.body) {
            _ if request.transcribes() => Conduct::wrote("Good morning, buenos días: puede mirar el pedido, look up the order 4729."),
            told if told.contains("tool_call_id") => Conduct::says("Está en camino."),
            told if told.contains("4729") || told.contains("cuatro siete") || told.contains("four seven") => {
                Conduct::events(&chat("", &[("look_up_order", "{\"number\":\"4729\"}")]))
            }
            _ => Conduct::says("Con la cocina."),
        })
    })
    .await
}

fn settings(service: &HttpService, language: &str) -> String {
    format!("box.language = '{language}'\n{}", service.settings("key_file = 'key'", "key_file = 'key'"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cascade_that_works_is_said_to_work_part_by_part_in_both_languages() {
    if !speaks() {
        return;
    }
    let service = parts(|_| None).await;
    let at = service.address;
    let heard = "Good morning, buenos días: puede mirar el pedido, look up the order 4729.";
    let spanish = cloud_test(&settings(&service, "es")).await;
    assert_eq!(
        without_times(&said(&spanish)),
        format!(
            "El modelo answers de {at}, que lee lo que hears de {at} escribe:\n  transcripción: a los N ms ({heard})\n  \
             primera palabra de una respuesta: a los N ms (Con la cocina.)\n  herramienta: a los N ms ({{\"number\":\"4729\"}})\n  \
             primera palabra tras la herramienta: a los N ms (Está en camino.)\nTokens: 314 de entrada (0 ya conocidos) y 63 de salida.\nTodo funciona.\n"
        )
    );
    assert_eq!(spanish.status.code(), Some(0));
    let english = cloud_test(&settings(&service, "en")).await;
    let text = without_times(&said(&english));
    assert!(text.starts_with(&format!("The model answers at {at}, which reads what hears at {at} writes down:\n")), "{text}");
    assert!(text.contains("\n  first word of an answer: after N ms (Con la cocina.)\n") && text.ends_with("All of it works.\n"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_work_is_said_with_what_mends_it_and_the_rest_is_tried_all_the_same() {
    if !speaks() {
        return;
    }
    let deaf = parts(|request| request.transcribes().then(|| Conduct::wrote("[música]"))).await;
    let output = cloud_test(&settings(&deaf, "en")).await;
    let text = said(&output);
    assert!(text.contains("transcription: does not work: it wrote \"[música]\". Try another model"), "{text}");
    assert!(text.contains("  tool: after ") && text.ends_with("Not all of it works.\n"), "{text}");
    assert_eq!(output.status.code(), Some(3));

    let echo = json!({ "error": { "message": "Incorrect API key provided: s3cr3t-key", "code": "invalid_api_key" } });
    let locked = parts(move |request| (!request.transcribes()).then(|| Conduct::json(401, &echo))).await;
    let text = said(&cloud_test(&settings(&locked, "es")).await);
    let refused = "no funciona: el servicio rechaza la clave (401): Incorrect API key provided: ***. Mire cloud.language.key_file";
    assert!(text.contains("  transcripción: a los ") && text.contains(refused), "{text}");

    let talks = parts(|request| (!request.transcribes()).then(|| Conduct::says("I can't."))).await;
    let text = said(&cloud_test(&settings(&talks, "en")).await);
    assert!(text.contains("the model has not called it; it said \"I can't.\". Choose a model in [cloud.language]"), "{text}");
    assert!(text.contains("\n  first word after the tool: not known: the talk did not come to it\n"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_mends_a_part_of_a_cascade_is_what_its_fault_is_about() {
    if !speaks() {
        return;
    }
    let said_so = |status, message: &str, code: &str| Conduct::json(status, &json!({ "error": { "message": message, "code": code } }));
    for (conduct, in_english, in_spanish) in [
        (
            said_so(403, "You may not.", "forbidden"),
            "the service refuses the key (403): You may not. Look at cloud.language.key_file",
            "el servicio rechaza la clave (403): You may not. Mire cloud.language.key_file",
        ),
        (
            said_so(404, "No such model.", "model_not_found"),
            "the service knows no such address or model (404): No such model. Correct cloud.language.model, or the address in url.",
            "el servicio no conoce esa dirección o ese modelo (404): No such model. Corrija cloud.language.model o la dirección en url.",
        ),
        (
            said_so(429, "You exceeded your current quota.", "insufficient_quota"),
            "the service takes no more requests for now (429): You exceeded your current quota. Wait, or raise",
            "el servicio no admite más peticiones por ahora (429): You exceeded your current quota. Espere, o amplíe",
        ),
        (
            said_so(503, "Overloaded.", ""),
            "the service answers 503: Overloaded. Try again in a while",
            "el servicio responde 503: Overloaded. Pruebe otra vez dentro de un rato",
        ),
        (
            said_so(400, "temperature is not supported.", "unsupported_parameter"),
            "the service answers 400: temperature is not supported. Correct in [cloud.language] what is named.",
            "el servicio responde 400: temperature is not supported. Corrija en [cloud.language] lo que se nombra.",
        ),
        (
            Conduct::stream("").ends(End::Silence),
            "the service began no answer within 600 ms. Check the network; where it is only slow, raise answer_timeout_ms, stall_timeout_ms or",
            "el servicio no ha empezado ninguna respuesta en 600 ms. Compruebe la red; si solo es lenta, suba answer_timeout_ms, stall_timeout_ms o",
        ),
    ] {
        let service = parts(move |request| (!request.transcribes()).then(|| conduct.clone())).await;
        for (language, no, expected) in [("en", "does not work", in_english), ("es", "no funciona", in_spanish)] {
            let settings =
                format!("box.language = '{language}'\n{}", service.settings("", "connect_timeout_ms = 500\nanswer_timeout_ms = 600"));
            let output = cloud_test(&settings).await;
            let text = said(&output);
            assert!(text.contains(&format!("{no}: {expected}")), "{text}");
            assert_eq!(output.status.code(), Some(3), "{text}");
        }
    }
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nowhere = format!(
        "[cloud.transcription]\nurl = 'http://{unused}/v1'\nmodel = 'm'\n[cloud.language]\nurl = 'http://{unused}/v1'\nmodel = 'm'\n"
    );
    let text = said(&cloud_test(&nowhere).await);
    let expected =
        "no hay conexión con el servidor `127.0.0.1` del servicio: rechaza la conexión. Compruebe la red y cloud.transcription.url";
    assert!(text.contains(expected), "{text}");
}
