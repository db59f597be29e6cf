//! Calls that a cascade leads: the real binary, a telephone over real SIP and RTP, and services that this test plays.

use recado::demo::{Caller, Ear, patiently};
use recado_core::ledger::DeliveryState;
use serde_json::{Value, json};

use super::away;
use super::http_service::{Conduct, HttpService, Received, chat};
use super::stage::{
    ACCEPTED, AWAY, CLOSING, NUMBER, Stage, hears_to_the_end, is_heard, measures, says, speaks, speech, spoken, states, times,
};
use super::validator::{self, Tap};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_is_greeted_heard_and_answered_and_what_is_asked_for_is_done_and_told_once() {
    if !speaks() {
        return;
    }
    // By what is told, since an answer may be begun more than once.
    let service = HttpService::start_with(|request| match String::from_utf8_lossy(&request.body) {
        _ if request.transcribes() => Conduct::wrote("Please order it."),
        told if told.contains("Greet the caller") => Conduct::says(GREETING),
        told if told.contains(NUMBER) => Conduct::says(THANKS),
        _ => Conduct::events(&chat(ANSWER, &[("order", "{}")])),
    })
    .await;
    let stage = Stage::with_model(&service.settings("", ""), "").await;
    let boxed = stage.box_runs().await;
    let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
    hears_to_the_end(&caller).await;
    let said = speech("interruption");
    caller.line.say(&said);
    stage.tools.asked("order", 1).await.unwrap();
    hears_to_the_end(&caller).await;
    let knows = |requests: &[Received]| requests.iter().any(|request| String::from_utf8_lossy(&request.body).contains(NUMBER));
    assert!(!knows(&service.seen.requests()), "nobody has a result yet");
    assert_eq!(stage.tools.report("order", json!({ "number": NUMBER, "of_no_concern": "swordfish" })).await.unwrap(), 200);
    boxed.log.seen("the closing to be settled", |line| line["message"] == "delivery settled").await.unwrap();
    // What the model is told of it is seen when it is asked again.
    caller.line.say(&said);
    patiently("the model to be asked again", service.seen.until(|seen| knows(&seen.asked()))).await.unwrap();
    patiently("the caller to have said it", caller.line.has_said()).await.unwrap();
    hears_to_the_end(&caller).await;
    let (_, ear) = caller.hang_up().await.unwrap();
    for (words, times) in [(GREETING, 1), (ACCEPTED, 1), (CLOSING, 1), (ANSWER, 1), (THANKS, 1)] {
        assert_eq!(ear.find(&spoken(words).await).len(), times, "{words}");
    }
    boxed.log.seen("the call to be settled", |line| line["message"] == "call settled").await.unwrap();
    assert_eq!(states(&stage.history()), [DeliveryState::Spoken]);
    assert_eq!(stage.tools.effects("order"), 1);

    // The caller pauses in the middle: what was begun there is only a part of it.
    let heard = service.seen.heard().into_iter().max_by_key(|request| request.body.len()).expect("requests");
    let wav = heard.body.windows(4).position(|window| window == b"RIFF").expect("a file");
    let heard = Ear { samples: recado::surface::speech::wav::read(&heard.body[wav..]).unwrap() };
    is_heard(&said, &heard);
    let asked = service.seen.asked();
    let last = asked.last().expect("requests").messages();
    let outputs: Vec<&Value> = last.iter().filter(|message| message["role"] == "tool").collect();
    assert!(outputs.len() == 1 && outputs[0]["content"].as_str().is_some_and(|output| output.contains("\"running\"")), "{outputs:?}");
    let told = last
        .iter()
        .position(|message| message["role"] == "system" && message["content"].as_str().is_some_and(|text| text.contains(CLOSING)));
    assert!(told.is_some_and(|told| told + 1 == last.len() || last[told..].iter().any(|message| message["role"] == "user")), "{last:?}");
    assert!(!asked.iter().any(|request| String::from_utf8_lossy(&request.body).contains("swordfish")), "what was not told is nobody's");
    let ended = |line: &Value| line["message"] == "the cascade's session has ended";
    let totals = boxed.log.seen("what the session took", ended).await.unwrap();
    assert!(totals["output_tokens"].as_u64() >= Some(60) && totals["transcription_tokens"].as_u64() >= Some(34), "{totals}");
    let sent = asked.iter().map(|request| json!({ "side": "chat-request", "event": request.json() }).to_string());
    validator::check(&[Tap::of_lines(sent.collect())]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_who_breaks_in_is_listened_to_and_the_model_is_told_what_was_heard_and_no_more() {
    if !speaks() {
        return;
    }
    let service = HttpService::start(vec![Conduct::wrote("Wait a moment.")], vec![Conduct::says(LONG), Conduct::says(ANSWER)]).await;
    let stage = Stage::with_model(&service.settings("", ""), "").await;
    let boxed = stage.box_runs().await;
    let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
    patiently("the greeting", caller.line.hears_voice(3_000)).await.unwrap();
    caller.line.say(&speech("interruption"));
    patiently("the caller to have said it", caller.line.has_said()).await.unwrap();
    patiently("an answer to be asked for", service.seen.until(|seen| seen.asked().len() >= 2)).await.unwrap();
    hears_to_the_end(&caller).await;
    let (_, ear) = caller.hang_up().await.unwrap();
    assert_eq!(ear.find(&spoken(ANSWER).await).len(), 1);

    let told = service.seen.asked().last().expect("requests").messages();
    println!("the model is told: {told:#?}");
    let greeting: String =
        told.iter().filter(|message| message["role"] == "assistant").filter_map(|message| message["content"].as_str()).collect();
    let text = |message: &Value| message["content"].as_str().unwrap_or_default().to_owned();
    let provisional = |message: &&Value| message["role"] == "system" && text(message).starts_with("This is being said");
    let all: String = told.iter().filter(provisional).map(text).collect::<String>() + &greeting;
    assert!(all.contains("Good morning"), "{told:#?}");
    let sentences: Vec<&str> = LONG.split_inclusive(". ").collect();
    for sentence in &sentences {
        let heard = !ear.find(&spoken(sentence).await).is_empty();
        let remembered = all.contains(sentence.trim());
        assert!(heard || !remembered, "not heard, and remembered: {sentence}");
    }
    let last = sentences.last().expect("sentences").trim();
    assert!(!all.contains(last) && !told.iter().any(|message| text(message).contains(last)), "{told:#?}");
    assert!(told.iter().any(|message| text(message).starts_with("You were cut off: ")), "{told:#?}");
    assert_eq!(told.last(), Some(&json!({ "role": "user", "content": "Wait a moment." })));
    let sent = service.seen.asked().iter().map(|request| json!({ "side": "chat-request", "event": request.json() }).to_string()).collect();
    validator::check(&[Tap::of_lines(sent)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_part_that_answers_refuses_connections_the_dialogue_does_and_it_is_taken_up_again_at_the_next_turn() {
    if !speaks() {
        return;
    }
    let writes = HttpService::start(vec![Conduct::wrote("Please order it.")], vec![Conduct::says("Nobody asks this.")]).await;
    let closed = HttpService::closed();
    let prices = "prices = { currency = 'EUR', output_text = 1_000_000 }\n[standby]\nwatch = false\ndialogue = 'standby.toml'";
    let stage = Stage::with_model(&writes.settings_beside("", closed.local_addr().unwrap(), prices), "").await;
    std::fs::write(stage.folder.path().join("standby.toml"), away::DIALOGUE).unwrap();
    let boxed = stage.box_runs().await;
    let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
    hears_to_the_end(&caller).await;
    let problems = boxed.health().await.unwrap()["problems"].to_string();
    assert!(problems.contains("cloud.language: cannot be reached: no connection to the service's host"), "{problems}");
    assert!(problems.contains(": calls are answered by the local dialogue") && !problems.contains("cloud.transcription"), "{problems}");
    says(&caller, "request").await;
    // Nobody is waited for: the greeting and the turn go to the dialogue because there is no connection, and not because nothing came.
    let taken_over = |line: &Value| line["message"] == "the response is given by the dialogue that stands by";
    boxed.log.seen_times("the turn to go to the dialogue", 2, taken_over).await.unwrap();
    let reasons: Vec<String> = boxed.log.all().iter().filter(|line| taken_over(line)).map(|line| line["reason"].to_string()).collect();
    assert!(reasons.len() == 2 && reasons.iter().all(|reason| reason.contains("no connection to the service's host")), "{reasons:?}");
    stage.tools.asked("order", 1).await.unwrap();
    assert_eq!(stage.tools.report("order", json!({ "number": NUMBER })).await.unwrap(), 200);
    boxed.log.seen("the closing to be settled", |line| line["message"] == "delivery settled").await.unwrap();
    patiently("the closing to be over", caller.line.hears_silence(900)).await.unwrap();

    // It is back, and has been seen to be.
    let answers = HttpService::serve(closed.listen(64).unwrap(), |_| Conduct::says(ANSWER));
    patiently("it to be looked at", answers.seen.until(|seen| seen.looks() > 0)).await.unwrap();
    let well = async {
        while boxed.health().await.unwrap()["problems"].to_string().contains("cloud.language") {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    patiently("the box to know that it is back", well).await.unwrap();
    says(&caller, "small_talk").await;
    let (_, ear) = caller.hang_up().await.unwrap();
    boxed.log.seen("the call to be settled", |line| line["message"] == "call settled").await.unwrap();

    let first = ear.find(&spoken(AWAY).await);
    assert_eq!(first.len(), 1, "the caller is told once");
    for said in ["This is the answering machine of the kitchen.", "I pass that on.", ACCEPTED, CLOSING, ANSWER] {
        assert_eq!(times(&ear, said).await, 1, "{said}");
    }
    assert_eq!((stage.tools.effects("order"), states(&stage.history())), (1, vec![DeliveryState::Spoken]));
    // It is told what was said meanwhile, and by whom.
    let asked = answers.seen.asked();
    let told = String::from_utf8_lossy(&asked.last().expect("requests").body).into_owned();
    for known in ["This is the answering machine of the kitchen.", "the telephone system has answered", CLOSING] {
        assert!(told.contains(known), "{known} is not in {told}");
    }
    // What it took is counted as that of other services is.
    let costs = |line: &Value| line["message"] == "what the call's session costs" && line["table"] == "cloud.language";
    let cost = boxed.log.seen("what the call costs", costs).await.unwrap();
    assert!(cost["currency"] == "EUR" && cost["cost"] != "0.000000", "{cost}");
    let text = measures(&boxed).await;
    for part in ["recado_service_away 0", "recado_service_takeovers_total 2", "recado_service_tokens_total{kind=\"output_text\"} "] {
        assert!(text.contains(&format!("\n{part}")), "{part} is not in {text}");
    }
    assert!(!text.contains("recado_service_tokens_total{kind=\"output_text\"} 0\n") && text.contains("{currency=\"EUR\"}"), "{text}");
}

const GREETING: &str = "Good morning from the kitchen.";
const ANSWER: &str = "That is a fine choice indeed.";
const THANKS: &str = "You are most welcome today.";
const LONG: &str = "Good morning from the kitchen. Today we have fresh fish from the harbour. There is a soup of the season too. \
                    The bread was baked this very morning. And for dessert we have almond cake.";
