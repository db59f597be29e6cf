//! Calls whose cascade has a part that hangs, or has no room, while it gives its list of models all the same: who answers, what the box
//! says of it, and when it is taken up again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use recado::demo::{BoxProcess, Caller, patiently};
use recado::surface::speech::wav;
use serde_json::Value;

use super::http_service::{Conduct, End, HttpService, Received};
use super::stage::{ACCEPTED, AWAY, Stage, hears_to_the_end, loud, says, speaks, times};

/// A dialogue that orders in the first turn, and has a word for each other one.
const DIALOGUE: &str = "[greeting]\nsay = { en = 'This is the answering machine of the kitchen.' }\n\
    [[turn]]\nsay = { en = 'I pass that on.' }\ncall = { tool = 'order' }\n\
    [otherwise]\nsay = { en = 'Please call again later.' }\n";
const GREETING: &str = "Good morning from the kitchen.";
const ANSWER: &str = "That is a fine choice indeed.";
const WORDS: &str = "Please order it.";

/// A cascade of which one part fails for as long as `fails` holds.
struct Parts {
    service: HttpService,
    fails: Arc<AtomicBool>,
}

impl Parts {
    async fn start(transcription: bool, failure: Conduct) -> Self {
        let fails = Arc::new(AtomicBool::new(false));
        let failing = fails.clone();
        let conduct = move |request: &Received| match request.transcribes() {
            of if of == transcription && failing.load(Ordering::Relaxed) => failure.clone(),
            true => Conduct::wrote(WORDS),
            false if String::from_utf8_lossy(&request.body).contains("Greet the caller") => Conduct::says(GREETING),
            false => Conduct::says(ANSWER),
        };
        Self { service: HttpService::start_with(conduct).await, fails }
    }

    async fn stage(&self) -> Stage {
        let standby = "[standby]\nwatch = false\nsilent_ms = 1500\ndialogue = 'standby.toml'";
        let stage = Stage::with_model(&self.service.settings("", standby), "").await;
        std::fs::write(stage.folder.path().join("standby.toml"), DIALOGUE).unwrap();
        stage
    }

    /// How often something of the conversation was asked of the parts: what the caller said, or an answer to it.
    fn asked_for_turns(&self) -> usize {
        let of_turn = |request: &&Received| match request.transcribes() {
            true => holds_speech(&request.body),
            false => String::from_utf8_lossy(&request.body).contains(WORDS),
        };
        self.service.seen.requests().iter().filter(of_turn).count()
    }
}

/// Whether there is anything to be written down.
fn holds_speech(body: &[u8]) -> bool {
    let wav = body.windows(4).position(|window| window == b"RIFF").expect("a file");
    wav::read(&body[wav..]).unwrap().chunks(1_600).any(loud)
}

async fn problems(boxed: &BoxProcess) -> String {
    boxed.health().await.unwrap()["problems"].to_string()
}

async fn healthy(boxed: &BoxProcess, table: &str) {
    let until = async {
        while problems(boxed).await.contains(table) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    patiently("the box to know that it is back", until).await.unwrap();
}

/// A call in which a part fails from the first turn on, and is back for the last one.
async fn fails_and_comes_back(transcription: bool, failure: Conduct, reason: &str) -> Vec<Received> {
    let table = if transcription { "cloud.transcription" } else { "cloud.language" };
    let parts = Parts::start(transcription, failure).await;
    let stage = parts.stage().await;
    let boxed = stage.box_runs().await;
    let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
    hears_to_the_end(&caller).await;
    assert_eq!(problems(&boxed).await.matches("cloud.").count(), 0);

    parts.fails.store(true, Ordering::Relaxed);
    says(&caller, "request").await;
    stage.tools.asked("order", 1).await.unwrap();
    let known = problems(&boxed).await;
    assert!(known.contains(&format!("{table}: cannot be reached: {reason}")), "{known}");
    assert!(known.contains(": calls are answered by the local dialogue"), "{known}");
    // The next turns are nobody else's: nothing of them is asked of the cascade.
    let asked = parts.asked_for_turns();
    assert!(asked > 0);
    for _ in 0..2 {
        says(&caller, "small_talk").await;
        assert!(problems(&boxed).await.contains(table), "it is away until a request works, whatever a look says");
    }
    assert_eq!(parts.asked_for_turns(), asked);

    // So is the next call, from its first word on.
    let other = Caller::dial(boxed.sip, "600999999").await.unwrap();
    hears_to_the_end(&other).await;
    let (_, ear) = other.hang_up().await.unwrap();
    assert_eq!((times(&ear, "This is the answering machine of the kitchen.").await, times(&ear, GREETING).await), (1, 0));
    assert_eq!(parts.asked_for_turns(), asked);

    parts.fails.store(false, Ordering::Relaxed);
    healthy(&boxed, table).await;
    says(&caller, "small_talk").await;
    let (_, ear) = caller.hang_up().await.unwrap();
    for (words, heard) in [(GREETING, 1), (AWAY, 1), ("I pass that on.", 1), (ACCEPTED, 1), ("Please call again later.", 2), (ANSWER, 1)] {
        assert_eq!(times(&ear, words).await, heard, "{words}");
    }
    let warned = |line: &&Value| line["message"] == "a service that leads calls can't be reached";
    assert_eq!(boxed.log.all().iter().filter(warned).count(), 1, "health does not come and go");
    assert_eq!(stage.tools.effects("order"), 1);
    parts.service.seen.requests()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_that_hangs_costs_one_turn_its_time_and_is_taken_up_again_when_a_request_works() {
    if !speaks() {
        return;
    }
    let hangs = || Conduct::stream("").ends(End::Silence);
    let reason = "the service did not answer within 1500 ms";
    tokio::join!(fails_and_comes_back(false, hangs(), reason), fails_and_comes_back(true, hangs(), reason));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_that_has_no_room_is_not_asked_before_it_wants_to_be_and_is_taken_up_again_when_a_request_works() {
    if !speaks() {
        return;
    }
    let full = Conduct::json(503, &serde_json::json!({ "error": { "message": "no room" } })).with("retry-after: 3");
    let requests = fails_and_comes_back(true, full, "the service answers 503: no room").await;
    let writes: Vec<&Received> = requests.iter().filter(|request| request.transcribes()).collect();
    let pauses: Vec<Duration> = writes.windows(2).map(|pair| pair[1].at - pair[0].at).collect();
    // What it was asked for again while it had no room: no request came within the time that it wanted.
    assert!(pauses.first().is_some_and(|pause| *pause >= Duration::from_secs(3)), "{pauses:?}");
}
