//! Calls in which a cascade begins an answer when the caller pauses, over real SIP: it is the one that is said where the turn is over, and
//! nothing where they go on.

use std::sync::atomic::{AtomicUsize, Ordering};

use recado::demo::{BoxProcess, Caller, Ear, patiently};
use serde_json::{Value, json};

use super::http_service::{Conduct, HttpService, chat};
use super::stage::{Stage, hears_to_the_end, speaks, speech, spoken};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answer_that_was_begun_in_the_pause_is_the_one_that_is_said_turn_after_turn() {
    if !speaks() {
        return;
    }
    let answered = AtomicUsize::new(0);
    let service = HttpService::start_with(move |request| match String::from_utf8_lossy(&request.body) {
        _ if request.transcribes() => Conduct::wrote("A table, please."),
        told if told.contains("Greet the caller") => Conduct::says(GREETING),
        // No two requests have the same answer: which one is heard says which one was said.
        _ => Conduct::says(ANSWERS.get(answered.fetch_add(1, Ordering::Relaxed)).unwrap_or(&"That was one too many.")),
    })
    .await;
    let call = Call::begin(&service).await;
    for turn in 0..ANSWERS.len() {
        hears_to_the_end(&call.caller).await;
        call.caller.line.say(&phrase());
        patiently("an answer to be begun", service.seen.until(|seen| seen.asked().len() == turn + 2)).await.unwrap();
        assert_eq!(call.turns_ended(), turn, "it is asked for before the turn is over");
        call.boxed.log.seen_times("the turn to be answered", turn + 1, |line| line["message"] == "turn answered").await.unwrap();
        assert_eq!((call.turns_ended(), service.seen.asked().len()), (turn + 1, turn + 2), "and it is not asked for again");
    }
    hears_to_the_end(&call.caller).await;
    let (ear, totals) = call.end().await;
    for said in [&[GREETING][..], &ANSWERS].concat() {
        assert_eq!(ear.find(&spoken(said).await).len(), 1, "{said}");
    }
    assert_eq!((&totals["begun_ahead"], &totals["dropped"]), (&json!(ANSWERS.len()), &json!(0)), "{totals}");
    // Nobody has reported that what was just said was heard, and the model knows of it, and of all that was said before.
    let asked = service.seen.asked();
    for (turn, said) in [GREETING, ANSWERS[0], ANSWERS[1]].iter().enumerate() {
        let told = asked[turn + 1].messages();
        let text = told[2 * turn]["content"].as_str().unwrap();
        assert!(text.starts_with("This is being said to the caller") && text.contains(said), "{told:#?}");
        for later in &asked[turn + 1..] {
            assert!(later.messages()[2 * turn]["content"].as_str().unwrap().contains(said), "{:#?}", later.messages());
        }
    }
    let told = asked.last().expect("requests").messages();
    assert_eq!(told.len(), 6, "{told:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_what_was_begun_in_a_pause_nothing_is_left_when_the_caller_goes_on() {
    if !speaks() {
        return;
    }
    // It would order, and it would say so, for longer than the caller pauses.
    let early = chat(&format!("{EARLY} {}", "And there is more to it. ".repeat(40)), &[("order", "{}")]);
    let answers = vec![Conduct::says(GREETING), Conduct::events(&early).in_pieces(2_000, 1_000), Conduct::says(ANSWERS[0])];
    let answers = answers.into_iter().chain([Conduct::says(ANSWERS[1])]).collect();
    let writes = vec![Conduct::wrote("A table"), Conduct::wrote("A table, for four, please.")];
    let service = HttpService::start(writes, answers).await;
    let call = Call::begin(&service).await;
    hears_to_the_end(&call.caller).await;
    call.caller.line.say(&phrase());
    patiently("an answer to be begun", service.seen.until(|seen| seen.asked().len() == 2)).await.unwrap();
    call.caller.line.say(&phrase());
    patiently("the request to be given up", service.seen.until(|seen| seen.left() == 1)).await.unwrap();
    assert_eq!(call.turns_ended(), 0, "it is one turn");
    for turn in 1..3 {
        patiently("an answer to the whole of it", service.seen.until(|seen| seen.asked().len() == turn + 2)).await.unwrap();
        assert_eq!(call.turns_ended(), turn - 1);
        call.boxed.log.seen_times("the turn to be answered", turn, |line| line["message"] == "turn answered").await.unwrap();
        hears_to_the_end(&call.caller).await;
        if turn == 1 {
            call.caller.line.say(&phrase());
        }
    }
    let orders = call.stage.tools.effects("order");
    let (ear, totals) = call.end().await;
    for (said, times) in [(GREETING, 1), (EARLY, 0), (ANSWERS[0], 1), (ANSWERS[1], 1)] {
        assert_eq!(ear.find(&spoken(said).await).len(), times, "{said}");
    }
    assert_eq!((orders, &totals["begun_ahead"], &totals["dropped"]), (0, &json!(3), &json!(1)), "{totals}");
    let asked = service.seen.asked();
    assert_eq!(asked.len(), 4);
    assert_eq!(asked[1].messages().last(), Some(&json!({ "role": "user", "content": "A table" })));
    let told = asked[3].messages();
    let of_callers: Vec<&Value> = told.iter().filter(|message| message["role"] == "user").map(|message| &message["content"]).collect();
    assert_eq!(of_callers, ["A table, for four, please."; 2]);
    assert!(!told.iter().any(|message| message.to_string().contains(EARLY) || message["role"] == "tool"), "{told:#?}");
}

/// A call of somebody who takes their time, and whose telephone reports nothing of what it has received.
struct Call {
    stage: Stage,
    boxed: BoxProcess,
    caller: Caller,
}

impl Call {
    async fn begin(service: &HttpService) -> Self {
        // The longest that there is: all that a pause holds is to be seen before the turn is over, also on a machine that stands still for seconds.
        let stage = Stage::with_model(&service.settings("", "[listen]\nend_silence_ms = 5_000"), "").await;
        let boxed = stage.box_runs().await;
        let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
        caller.line.withhold_reports();
        Self { stage, boxed, caller }
    }

    /// How many turns were found to be over so far.
    fn turns_ended(&self) -> usize {
        let log = self.boxed.log.all();
        let clocks: Vec<&Value> = log.iter().filter(|line| line["message"] == "clocks").map(|line| &line["acoustic"]).collect();
        clocks.windows(2).filter(|moved| *moved[0] == "Trailing" && *moved[1] == "Quiet").count()
    }

    /// Hangs up. What the caller heard, and what the session took.
    async fn end(self) -> (Ear, Value) {
        let (_, ear) = self.caller.hang_up().await.unwrap();
        let ended = |line: &Value| line["message"] == "the cascade's session has ended";
        (ear, self.boxed.log.seen("what the session took", ended).await.unwrap())
    }
}

/// What the caller says, a second without a pause.
fn phrase() -> Vec<i16> {
    speech("small_talk")[44 * 160..95 * 160].to_vec()
}

const GREETING: &str = "Good morning from the kitchen.";
const EARLY: &str = "I am far too early with this.";
const ANSWERS: [&str; 3] = ["That is a fine choice indeed.", "It will be there very soon.", "You are most welcome today."];
