//! `recado cloud test` with a cascade, as people run it.

use serde_json::json;

use super::command::{cloud_test, said, without_times};
use super::http_service::{Conduct, HttpService, Received, chat};
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
    let refused =
        "no funciona: the service refuses the key (401): Incorrect API key provided: ***. Corrija en [cloud.language] lo que se nombra";
    assert!(text.contains("  transcripción: a los ") && text.contains(refused), "{text}");

    let talks = parts(|request| (!request.transcribes()).then(|| Conduct::says("I can't."))).await;
    let text = said(&cloud_test(&settings(&talks, "en")).await);
    assert!(text.contains("the model has not called it; it said \"I can't.\". Choose a model in [cloud.language]"), "{text}");
}
