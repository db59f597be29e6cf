//! What other voice agents lose, met in calls that a Realtime service leads: each told by what the caller heard, what the service was
//! sent, what the tools were asked, and the store.

use recado::demo::{BoxProcess, Caller, Ear, patiently};
use recado_core::conversation::Settings;
use recado_core::ledger::{DeliveryState, OperationState};
use serde_json::{Value, json};

use super::service::{BURST, Conduct, Reply, Service, sound_of};
use super::stage::*;
use super::validator::{self, Tap};

const LONG: &str = "While you wait I tell you of the house by the sea, which was built a hundred years ago. ";
const AGAIN: &str = "Here I am again, what else may it be? ";
const LAST: &str = "And with that we have everything, thank you. ";

/// What the dialogue that stands by says.
const LATER: &str = "Please call again later.";

/// What answers in the service's place.
enum StandsBy {
    Nothing,
    Dialogue,
}

/// A call that goes on, and all that judges it.
struct Talk {
    service: Service,
    stage: Stage,
    boxed: BoxProcess,
    caller: Caller,
}

/// What is left of one.
struct Over {
    service: Service,
    stage: Stage,
    ear: Ear,
    sent: Vec<Value>,
}

impl Talk {
    /// The caller has been greeted. It is the service alone, and what the box makes of it.
    async fn begins(conducts: Vec<Conduct>) -> Self {
        Self::begins_with(conducts, StandsBy::Nothing).await
    }

    async fn begins_with(conducts: Vec<Conduct>, stands_by: StandsBy) -> Self {
        let service = Service::start(conducts).await;
        let standby = match stands_by {
            StandsBy::Nothing => "enabled = false",
            StandsBy::Dialogue => "silent_ms = 1500\ndialogue = 'standby.toml'",
        };
        let stage = Stage::set(&service.url(), &format!("[standby]\nwatch = false\n{standby}")).await;
        std::fs::write(stage.folder.path().join("standby.toml"), format!("[otherwise]\nsay = {{ en = '{LATER}' }}\n")).unwrap();
        let boxed = stage.box_runs().await;
        let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
        hears_to_the_end(&caller).await;
        Self { service, stage, boxed, caller }
    }

    /// The caller has been greeted, and has ordered something; what the service says to that is over.
    async fn has_an_order(conducts: Vec<Conduct>, stands_by: StandsBy) -> Self {
        let talk = Self::begins_with(conducts, stands_by).await;
        talk.says("request").await;
        talk.stage.tools.asked("order", 1).await.unwrap();
        hears_to_the_end(&talk.caller).await;
        talk
    }

    /// The caller says something to its end.
    async fn says(&self, name: &str) {
        self.caller.line.say(&speech(name));
        patiently("the caller to have said it", self.caller.line.has_said()).await.unwrap();
    }

    /// So many responses have been asked for.
    async fn asks(&self, responses: usize) {
        let asked = self.service.seen.until(|events| of(events, "response.create").count() >= responses);
        patiently("a response to be asked for", asked).await.unwrap();
    }

    /// The caller breaks in on what is being said, and it has been cut.
    async fn breaks_in(&self) {
        patiently("the box to speak", self.caller.line.hears_voice(1_000)).await.unwrap();
        let before = of(&self.service.seen.sent_by_clients(), "response.cancel").count();
        self.caller.line.say(&speech("interruption"));
        let cut = self.service.seen.until(|events| of(events, "response.cancel").count() > before);
        patiently("what is said to be cut", cut).await.unwrap();
        patiently("the caller to have said it", self.caller.line.has_said()).await.unwrap();
    }

    /// A tool reports, and the caller has been told: for certain, and so many times with this.
    async fn is_told(&self, tool: &str, result: Value, times: usize) {
        assert_eq!(self.stage.tools.report(tool, result).await.unwrap(), 200);
        self.settled(times).await;
    }

    async fn settled(&self, times: usize) {
        self.boxed.log.seen_times("evidence of the closing", times, |line| line["message"] == "delivery settled").await.unwrap();
    }

    /// Waits until something is logged that is logged from now on.
    async fn logged_next(&self, what: &str, is: impl Fn(&Value) -> bool) {
        let before = self.boxed.log.all().iter().filter(|line| is(line)).count();
        self.boxed.log.seen_times(what, before + 1, is).await.unwrap();
    }

    async fn ends(self) -> Over {
        let Self { service, stage, mut boxed, caller } = self;
        let (_, ear) = caller.hang_up().await.unwrap();
        boxed.log.seen("the call to be settled", |line| line["message"] == "call settled").await.unwrap();
        assert!(boxed.runs());
        let sent = service.seen.sent_by_clients();
        Over { service, stage, ear, sent }
    }
}

impl Over {
    /// How often this was heard from beginning to end.
    fn times(&self, sound: &[i16]) -> usize {
        self.ear.find(sound).len()
    }

    async fn once(&self, said: &[&str]) {
        for text in said {
            assert_eq!(self.times(&spoken(text).await), 1, "{text}");
        }
    }

    /// Whoever stands by has something better to say.
    async fn never_says_sorry(&self) {
        assert_eq!(self.times(&spoken(&sorry()).await), 0);
    }

    /// How much of a service's speech was heard from its beginning on without a gap (ms), in fifths of a second. Nothing of the rest was.
    fn heard_ms(&self, words: &str, ms: usize) -> usize {
        let whole = sound_of(words, ms);
        let pieces: Vec<usize> = whole.chunks_exact(1_600).map(|piece| self.times(piece)).collect();
        let heard = pieces.iter().take_while(|times| **times == 1).count();
        assert!(pieces[heard..].iter().all(|times| *times == 0), "after the cut: {pieces:?}");
        heard * 200
    }

    /// The outputs of calls that the service was given.
    fn outputs(&self) -> Vec<Value> {
        let outputs = self.sent.iter().filter(|event| event["item"]["type"] == "function_call_output");
        outputs.map(|event| serde_json::from_str(event["item"]["output"].as_str().unwrap()).unwrap()).collect()
    }

    fn operations(&self) -> Vec<OperationState> {
        self.stage.history().operations.iter().map(|operation| operation.state).collect()
    }

    /// Each order was carried out once and closed once, and the service was asked for nothing that it can't give.
    fn is_whole(&self, effects: &[(&str, usize)], deliveries: usize) -> Tap {
        for (tool, times) in effects {
            assert_eq!((self.stage.tools.effects(tool), self.stage.tools.cancels(tool)), (*times, 0), "{tool}");
        }
        let history = self.stage.history();
        assert_eq!(states(&history), vec![DeliveryState::Spoken; deliveries]);
        assert!(self.operations().iter().all(|state| *state == OperationState::Succeeded), "{:?}", self.operations());
        let complaints = self.service.seen.complaints();
        let ours = ["conversation_already_has_active_response", "no_tool_output_found"];
        assert!(!complaints.iter().any(|code| ours.contains(&code.as_str())), "{complaints:?}");
        Tap::of(&self.service)
    }
}

/// How the box says that there is no answer.
fn sorry() -> String {
    let sorry = Settings::default().say_no_answer.en.expect("words");
    sorry.split_inclusive('.').next().expect("a sentence").to_owned()
}

/// Whether the service was told that the caller has been told this.
fn knows(events: &[Value], text: &str) -> bool {
    of(events, "conversation.item.create").any(|event| event["item"]["content"][0]["text"].as_str().is_some_and(|note| note.contains(text)))
}

/// S21.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_service_asked_for_and_took_back_is_done_and_told_and_the_service_is_not_left_waiting() {
    if !speaks() {
        return;
    }
    let (cut, own) = tokio::join!(is_taken_back_when_cut(), is_taken_back_at_once());
    validator::check(&[cut, own]);
}

async fn is_taken_back_when_cut() -> Tap {
    let long = Reply::CallTakenBackWhenCut("order", LONG, 12_000);
    let talk = Talk::begins(vec![replies(&[Reply::Speak(GREETING, 1_000), long, Reply::Speak(ANSWER, 1_000)])]).await;
    talk.says("request").await;
    talk.stage.tools.asked("order", 1).await.unwrap();
    talk.breaks_in().await;
    talk.asks(3).await;
    hears_to_the_end(&talk.caller).await;
    talk.is_told("order", json!({ "number": NUMBER }), 1).await;
    let over = talk.ends().await;
    over.once(&[CLOSING]).await;
    assert_eq!(over.times(&sound_of(ANSWER, 1_000)), 1);
    assert!(over.heard_ms(LONG, 12_000) < 10_000);
    assert_eq!(over.outputs().len(), 1, "its output was given while the call was known");
    assert!(knows(&over.sent, CLOSING));
    over.is_whole(&[("order", 1)], 1)
}

async fn is_taken_back_at_once() -> Tap {
    let conduct = replies(&[Reply::Speak(GREETING, 1_000), Reply::CallTakenBack("order", "{}"), Reply::Speak(ANSWER, 1_000)]);
    let talk = Talk::has_an_order(vec![conduct], StandsBy::Nothing).await;
    talk.is_told("order", json!({ "number": NUMBER }), 1).await;
    talk.says("interruption").await;
    talk.asks(3).await;
    hears_to_the_end(&talk.caller).await;
    let over = talk.ends().await;
    over.once(&[ACCEPTED, CLOSING]).await;
    assert_eq!(over.times(&sound_of(ANSWER, 1_000)), 1);
    // The service may refuse the output, and only that.
    assert!(over.service.seen.complaints().iter().all(|code| code == "invalid_tool_call_id"), "{:?}", over.service.seen.complaints());
    assert!(knows(&over.sent, CLOSING));
    over.is_whole(&[("order", 1)], 1)
}

/// S25.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn speech_that_comes_late_of_a_response_that_was_cut_is_not_heard_and_the_cut_is_of_that_response() {
    let talk = Talk::begins(vec![replies(&[
        Reply::Speak(GREETING, 1_000),
        Reply::PacedAndLate(LONG, 12_000),
        Reply::Speak(ANSWER, 1_500),
        Reply::PacedAndLate(AGAIN, 12_000),
        Reply::Speak(LAST, 1_500),
    ])])
    .await;
    talk.says("request").await;
    talk.breaks_in().await;
    talk.asks(3).await;
    hears_to_the_end(&talk.caller).await;
    talk.says("again").await;
    talk.breaks_in().await;
    talk.asks(5).await;
    hears_to_the_end(&talk.caller).await;
    let over = talk.ends().await;
    for (words, ms) in [(GREETING, 1_000), (ANSWER, 1_500), (LAST, 1_500)] {
        assert_eq!(over.heard_ms(words, ms), ms / 200 * 200, "{words}");
    }
    let truncated: Vec<&Value> = of(&over.sent, "conversation.item.truncate").collect();
    let tap = over.service.seen.tap();
    for (n, words) in [LONG, AGAIN].into_iter().enumerate() {
        let heard_ms = over.heard_ms(words, 12_000);
        assert!((600..10_000).contains(&heard_ms), "{heard_ms}");
        let item = truncated[n]["item_id"].as_str().unwrap();
        let of_words = |line: &&String| line.contains(item) && line.contains("output_audio_transcript.delta");
        assert!(tap.iter().find(of_words).is_some_and(|line| line.contains(words.trim())), "{words}: {item}");
        let cut_ms = truncated[n]["audio_end_ms"].as_u64().unwrap() as usize;
        assert!(cut_ms <= heard_ms + 200 && cut_ms + 500 >= heard_ms, "{cut_ms} of {heard_ms}");
    }
    assert_eq!(truncated.len(), 2, "{truncated:?}");
    validator::check(&[over.is_whole(&[], 0)]);
}

/// S29.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_waits_is_told_whatever_becomes_of_the_session_with_the_service() {
    if !speaks() {
        return;
    }
    let [broken, expired, gone] = lost_sessions().map(loses_its_session);
    let (broken, expired, gone) = tokio::join!(broken, expired, gone);
    validator::check(&[broken, expired, gone]);
}

/// How a session is lost after an order, and what comes of the next one.
fn lost_sessions() -> [[Conduct; 2]; 3] {
    let refused = Some((401, None, "wrong key"));
    [(Reply::Cut, None), (Reply::Expire, None), (Reply::Cut, refused)].map(|(by, answers)| {
        let first = replies(&[Reply::Speak(GREETING, 1_000), Reply::SpeakAndCall(ANSWER, "order", "{}"), by]);
        [first, Conduct { answers, ..replies(&[Reply::Speak(AGAIN, 1_000)]) }]
    })
}

async fn loses_its_session(conducts: [Conduct; 2]) -> Tap {
    let comes_back = conducts[1].answers.is_none();
    let talk = Talk::has_an_order(conducts.into(), StandsBy::Nothing).await;
    let speaks = |line: &Value| line["message"] == "clocks" && line["acoustic"] == "Speaking";
    let (_, said) = tokio::join!(talk.logged_next("the caller to speak", speaks), async { talk.caller.line.say(&speech("small_talk")) });
    assert!(said.as_secs() > 5);
    assert_eq!(talk.stage.tools.report("order", json!({ "number": NUMBER })).await.unwrap(), 200);
    let waits =
        |line: &Value| line["message"] == "gate" && line["blocker"].as_str().is_some_and(|blocker| blocker.contains("CallerSpeaking"));
    talk.boxed.log.seen("the closing to wait for the caller", waits).await.unwrap();
    talk.settled(1).await;
    talk.says("interruption").await;
    hears_to_the_end(&talk.caller).await;
    let over = talk.ends().await;
    over.once(&[ACCEPTED, CLOSING]).await;
    if comes_back {
        assert_eq!(over.times(&sound_of(AGAIN, 1_000)), 1);
        assert_eq!(over.service.seen.connections(), 2);
        let second: Vec<usize> =
            over.sent.iter().enumerate().filter(|(_, event)| event["type"] == "session.update").map(|(n, _)| n).collect();
        assert!(knows(&over.sent[second[1]..], CLOSING), "the new session knows what was told");
    }
    over.is_whole(&[("order", 1)], 1)
}

/// S29, where something stands by.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_comes_as_the_session_is_lost_is_told_once_whoever_answers_in_its_place() {
    if !speaks() {
        return;
    }
    let [broken, expired, gone] = lost_sessions().map(loses_its_session_and_is_stood_in_for);
    let (broken, expired, gone) = tokio::join!(broken, expired, gone);
    validator::check(&[broken, expired, gone]);
}

async fn loses_its_session_and_is_stood_in_for(conducts: [Conduct; 2]) -> Tap {
    let comes_back = conducts[1].answers.is_none();
    let talk = Talk::has_an_order(conducts.into(), StandsBy::Dialogue).await;
    talk.says("again").await;
    talk.asks(3).await;
    talk.is_told("order", json!({ "number": NUMBER }), 1).await;
    patiently("the box to have spoken", talk.caller.line.hears_silence(900)).await.unwrap();
    talk.says("interruption").await;
    hears_to_the_end(&talk.caller).await;
    let over = talk.ends().await;
    over.once(&[ACCEPTED, CLOSING, LOST]).await;
    over.never_says_sorry().await;
    let (by_the_dialogue, by_the_service) = if comes_back { (1, 1) } else { (2, 0) };
    assert_eq!(over.times(&spoken(LATER).await), by_the_dialogue);
    assert_eq!(over.times(&sound_of(AGAIN, 1_000)), by_the_service);
    if comes_back {
        assert!(knows(&over.sent, CLOSING), "it knows what was told");
    }
    over.is_whole(&[("order", 1)], 1)
}

/// S33.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn minutes_of_speech_at_once_are_said_at_the_pace_of_speech_and_what_was_not_said_is_not_remembered() {
    let talk = Talk::begins(vec![replies(&[Reply::Speak(GREETING, 1_000), Reply::Burst(712_000), Reply::Speak(ANSWER, 1_500)])]).await;
    let before = talk.boxed.resident_kib().unwrap();
    talk.says("request").await;
    patiently("the burst", talk.caller.line.hears_voice(12_000)).await.unwrap();
    let grown_kib = talk.boxed.resident_kib().unwrap().saturating_sub(before);
    talk.caller.line.say(&speech("interruption"));
    let cut = talk.service.seen.until(|events| of(events, "conversation.item.truncate").count() == 1);
    patiently("it to be cut", cut).await.unwrap();
    patiently("the caller to have said it", talk.caller.line.has_said()).await.unwrap();
    talk.asks(3).await;
    hears_to_the_end(&talk.caller).await;
    let over = talk.ends().await;
    // Twelve minutes are 6 MB, which come as 8 MB of base64.
    assert!(grown_kib < 64 << 10, "{grown_kib} KiB for what was said at once");
    let burst = sound_of(BURST, 30_000);
    assert_eq!(over.times(&burst[..11_000 * 8]), 1, "as it was, and at its pace");
    let heard_ms = over.heard_ms(BURST, 30_000);
    let cut_ms = of(&over.sent, "conversation.item.truncate").next().unwrap()["audio_end_ms"].as_u64().unwrap() as usize;
    assert!((11_000..25_000).contains(&heard_ms) && cut_ms <= heard_ms + 200 && cut_ms + 500 >= heard_ms, "{cut_ms} of {heard_ms}");
    assert_eq!(over.heard_ms(ANSWER, 1_500), 1_400);
    validator::check(&[over.is_whole(&[], 0)]);
}

/// S39.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_asked_for_together_is_accepted_in_one_phrase_and_a_pause_is_filled_with_nothing() {
    if !speaks() {
        return;
    }
    let calls = &[("order", r#"{"of":"bread"}"#), ("order", r#"{"of":"milk"}"#), ("taxi", "{}")];
    let talk = Talk::begins(vec![replies(&[Reply::Speak(GREETING, 1_000), Reply::SpeakAndCalls(ANSWER, calls)])]).await;
    let said = [trimmed(speech("interruption")), vec![0; 600 * 8], trimmed(speech("request"))].concat();
    talk.caller.line.say(&said);
    patiently("the caller to have said it", talk.caller.line.has_said()).await.unwrap();
    talk.stage.tools.asked("order", 2).await.unwrap();
    talk.stage.tools.asked("taxi", 1).await.unwrap();
    hears_to_the_end(&talk.caller).await;
    let spoken_for = |purpose: &str| {
        talk.boxed
            .log
            .all()
            .iter()
            .filter(|line| line["message"] == "speak" && line["purpose"].as_str().is_some_and(|p| p.contains(purpose)))
            .count()
    };
    assert_eq!((spoken_for("Acceptance"), spoken_for("Clause"), spoken_for("Progress")), (1, 0, 0));
    let (orders, taxi) =
        tokio::join!(talk.stage.tools.report("order", json!({ "number": NUMBER })), talk.stage.tools.report("taxi", json!({})));
    assert_eq!((orders.unwrap(), taxi.unwrap()), (200, 200));
    talk.settled(1).await;
    let over = talk.ends().await;
    over.once(&[ACCEPTED, TAXI_CLOSING]).await;
    assert_eq!(over.times(&spoken(TAXI_ACCEPTED).await), 0);
    assert_eq!(over.times(&spoken(CLOSING).await), 2, "one for each order");
    assert_eq!(of(&over.sent, "response.create").count(), 2, "the pause was no turn");
    assert_eq!(over.outputs().len(), 3, "one for each, though the service says each call twice");
    validator::check(&[over.is_whole(&[("order", 2), ("taxi", 1)], 1)]);
}

/// S41.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_has_one_output_before_another_response_and_two_results_at_once_ask_for_none() {
    if !speaks() {
        return;
    }
    let talk = Talk::begins(vec![replies(&[
        Reply::Speak(GREETING, 1_000),
        Reply::CallWhenCut("order", LONG, 12_000),
        Reply::SpeakAndCalls(ANSWER, &[("order", "{}"), ("taxi", "{}")]),
        Reply::Speak(AGAIN, 1_000),
    ])])
    .await;
    talk.says("request").await;
    talk.breaks_in().await;
    talk.stage.tools.asked("order", 1).await.unwrap();
    talk.stage.tools.asked("taxi", 1).await.unwrap();
    hears_to_the_end(&talk.caller).await;
    let (order, taxi) =
        tokio::join!(talk.stage.tools.report("order", json!({ "number": NUMBER })), talk.stage.tools.report("taxi", json!({})));
    assert_eq!((order.unwrap(), taxi.unwrap()), (200, 200));
    talk.settled(1).await;
    assert_eq!(of(&talk.service.seen.sent_by_clients(), "response.create").count(), 3, "the box tells what came of it");
    talk.says("again").await;
    talk.asks(4).await;
    hears_to_the_end(&talk.caller).await;
    let over = talk.ends().await;
    over.once(&[CLOSING, TAXI_CLOSING]).await;
    assert_eq!(over.times(&sound_of(AGAIN, 1_000)), 1);
    let outputs = over.outputs();
    let statuses: Vec<&str> = outputs.iter().map(|output| output["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["not_accepted", "running", "running"], "{outputs:?}");
    validator::check(&[over.is_whole(&[("order", 1), ("taxi", 1)], 1)]);
}

/// S42.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_is_told_by_the_box_also_where_the_service_never_speaks_again_of_itself() {
    if !speaks() {
        return;
    }
    let (stalls, silent) = tokio::join!(falls_silent(Reply::Stall, StandsBy::Nothing), falls_silent(Reply::Silent, StandsBy::Nothing));
    validator::check(&[stalls, silent]);
}

/// S42, where something stands by.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_is_told_once_by_the_box_also_where_somebody_else_answers_for_a_service_that_has_fallen_silent() {
    if !speaks() {
        return;
    }
    let (stalls, silent) = tokio::join!(falls_silent(Reply::Stall, StandsBy::Dialogue), falls_silent(Reply::Silent, StandsBy::Dialogue));
    validator::check(&[stalls, silent]);
}

async fn falls_silent(how: Reply, stands_by: StandsBy) -> Tap {
    let first = [Reply::Speak(GREETING, 1_000), Reply::Call("order", "{}"), how];
    let again = [Reply::Speak(AGAIN, 1_000)];
    let is_stood_in_for = matches!(stands_by, StandsBy::Dialogue);
    let conducts = if is_stood_in_for { vec![replies(&first), replies(&again)] } else { vec![replies(&[&first[..], &again].concat())] };
    let talk = Talk::has_an_order(conducts, stands_by).await;
    talk.says("again").await;
    talk.asks(3).await;
    // It says nothing, and meanwhile there is a result.
    talk.is_told("order", json!({ "number": NUMBER }), 1).await;
    if is_stood_in_for {
        let set_anew = talk.service.seen.until(|events| of(events, "session.update").count() == 2);
        patiently("another connection", set_anew).await.unwrap();
        patiently("the box to have spoken", talk.caller.line.hears_silence(900)).await.unwrap();
    } else {
        let over_with = talk.service.seen.until(|events| of(events, "response.cancel").count() == 1);
        patiently("the silent response to be given up", over_with).await.unwrap();
        hears_to_the_end(&talk.caller).await;
    }
    talk.says("interruption").await;
    talk.asks(4).await;
    hears_to_the_end(&talk.caller).await;
    let over = talk.ends().await;
    over.once(&[ACCEPTED, CLOSING]).await;
    if is_stood_in_for {
        over.once(&[AWAY, LATER]).await;
        over.never_says_sorry().await;
    } else {
        over.once(&[&sorry()]).await;
    }
    assert_eq!(over.times(&sound_of(AGAIN, 1_000)), 1, "and it is asked again");
    over.is_whole(&[("order", 1)], 1)
}

/// S45.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_says_nothing_makes_no_model_ask_again() {
    if !speaks() {
        return;
    }
    let twice = &[("taxi", "{}"), ("taxi", "{ }")];
    let talk = Talk::begins(vec![replies(&[
        Reply::Speak(GREETING, 1_000),
        Reply::SpeakAndCalls(ANSWER, twice),
        Reply::SpeakAndCall(AGAIN, "taxi", "{}"),
    ])])
    .await;
    talk.says("request").await;
    talk.stage.tools.asked("taxi", 1).await.unwrap();
    hears_to_the_end(&talk.caller).await;
    // While it runs, the model asks for it in another turn.
    talk.says("again").await;
    talk.asks(3).await;
    hears_to_the_end(&talk.caller).await;
    talk.is_told("taxi", json!({}), 1).await;
    patiently("the model to be told", talk.service.seen.until(|events| knows(events, TAXI_CLOSING))).await.unwrap();
    let over = talk.ends().await;
    over.once(&[TAXI_CLOSING]).await;
    let asked = over.stage.tools.all();
    assert_eq!((asked.len(), asked[0].requests), (1, 1), "{asked:?}");
    let outputs = over.outputs();
    assert_eq!(outputs.iter().map(|output| &output["status"]).collect::<Vec<_>>(), ["running", "already_running", "already_running"]);
    for output in &outputs {
        assert!(
            output["retryable"] == false && output["message"].as_str().is_some_and(|words| words.contains("do not call it again")),
            "{output}"
        );
    }
    validator::check(&[over.is_whole(&[("taxi", 1)], 1)]);
}

/// Without the silence before and after it.
fn trimmed(samples: Vec<i16>) -> Vec<i16> {
    let loud: Vec<usize> = samples.chunks(160).enumerate().filter(|(_, frame)| loud(frame)).map(|(n, _)| n).collect();
    samples[loud[0] * 160..].iter().take((loud[loud.len() - 1] + 1 - loud[0]) * 160).copied().collect()
}
