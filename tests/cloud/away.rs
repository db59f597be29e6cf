//! Calls whose service is away, goes away or comes back: what the caller hears instead, and what becomes of what they say.

use std::process::Command;

use recado::demo::{BoxProcess, Caller, Ear, patiently};
use serde_json::{Value, json};

use super::http_service::HttpService;
use super::service::{Conduct, Hello, Reply, Service, sound_of};
use super::stage::*;
use super::validator::{self, Tap};

/// A dialogue that orders in the first turn, and takes a message in the second.
pub const DIALOGUE: &str = "[greeting]\nsay = { en = 'This is the answering machine of the kitchen.' }\n\
    [[turn]]\nsay = { en = 'I pass that on.' }\ncall = { tool = 'order' }\n\
    [[turn]]\nsay = { en = 'Then say your message.' }\n\
    [turn.message]\nkept = { say = { en = 'It is written down.' } }\nnot_kept = { say = { en = 'There is no room for it.' } }\n\
    [otherwise]\nsay = { en = 'Goodbye.' }\n";

/// A stage whose box follows the dialogue while its service is away, and looks at nothing by itself.
async fn stage(service: &Service, more: &str) -> Stage {
    let stage = Stage::set(
        &service.url(),
        &format!("prices = {{ currency = 'EUR', output_audio = 1_000_000 }}\n[standby]\nwatch = false\ndialogue = 'standby.toml'\n{more}"),
    )
    .await;
    std::fs::write(stage.folder.path().join("standby.toml"), DIALOGUE).unwrap();
    stage
}

fn refuses(status: u16) -> Conduct {
    Conduct { answers: Some((status, None, "not now")), ..Conduct::default() }
}

/// What the box prints of its callers' messages.
fn messages(stage: &Stage, more: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_recado"));
    let output = command.args(["messages", "-c"]).arg(stage.folder.path().join("recado.toml")).args(more).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What is recorded in a message's file.
fn recording(path: &str) -> Ear {
    let mut wav = hound::WavReader::open(path.trim()).unwrap();
    Ear { samples: wav.samples::<i16>().map(Result::unwrap).collect() }
}

/// The recordings of all messages.
pub fn recordings(stage: &Stage) -> Vec<Ear> {
    let listed = messages(stage, &[]);
    let ids = listed.lines().skip(1).map(|line| line.split(' ').next().unwrap());
    ids.map(|id| recording(&messages(stage, &["--path", id]))).collect()
}

/// The caller leaves a message, after so many earlier ones, and goes on with more of it as soon as they are told that it is kept.
async fn goes_on_over_the_thanks(caller: &Caller, boxed: &BoxProcess, earlier: usize) -> (Vec<i16>, Vec<i16>) {
    let (message, more) = (speech("request"), speech("second_request"));
    caller.line.say(&message);
    patiently("the caller to have said it", caller.line.has_said()).await.unwrap();
    boxed.log.seen_times("the message to be kept", earlier + 1, is_kept).await.unwrap();
    patiently("the thanks to begin", caller.line.hears_voice(60)).await.unwrap();
    caller.line.say(&more);
    patiently("the caller to have said more", caller.line.has_said()).await.unwrap();
    (message, more)
}

pub fn is_kept(line: &Value) -> bool {
    line["message"] == "a caller's message is kept"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_goes_on_over_the_thanks_for_a_message_leaves_one_more_and_hears_that_it_is_kept_when_both_are() {
    if !speaks() {
        return;
    }
    let service = Service::start(vec![refuses(401)]).await;
    // The box's own dialogue.
    let stage = Stage::set(&service.url(), "[standby]\nwatch = false\n").await;
    let boxed = stage.box_runs().await;
    for (hangs_up, earlier) in [(false, 0), (true, 2)] {
        let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
        hears_to_the_end(&caller).await;
        let (message, more) = goes_on_over_the_thanks(&caller, &boxed, earlier).await;
        if !hangs_up {
            hears_to_the_end(&caller).await;
        }
        let (_, ear) = caller.hang_up().await.unwrap();
        let settled = |line: &Value| line["message"] == "call settled";
        boxed.log.seen_times("the call to be settled", 1 + usize::from(hangs_up), settled).await.unwrap();
        assert_eq!(times(&ear, "You can leave a message now.").await, 1);
        assert_eq!(times(&ear, "Your message is kept.").await, usize::from(!hangs_up));
        boxed.log.seen_times("both parts to be kept", earlier + 2, is_kept).await.unwrap();
        let mut kept = recordings(&stage);
        assert_eq!(kept.len(), 2);
        // Without a clock that is right they have no order.
        kept.sort_by_key(|part| pieces_heard(&more, part).0);
        is_heard(&message, &kept[0]);
        is_heard(&more, &kept[1]);
        for line in messages(&stage, &[]).lines().skip(1) {
            messages(&stage, &["--delete", line.split(' ').next().unwrap()]);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_box_that_is_killed_while_the_caller_goes_on_has_the_first_part_whole() {
    if !speaks() {
        return;
    }
    let service = Service::start(vec![refuses(401)]).await;
    let stage = Stage::set(&service.url(), "[standby]\nwatch = false\n").await;
    let boxed = stage.box_runs().await;
    let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
    hears_to_the_end(&caller).await;
    let (message, _) = goes_on_over_the_thanks(&caller, &boxed, 0).await;
    boxed.kill();
    drop(caller.dropped());
    let again = stage.box_runs().await;
    let kept = recordings(&stage);
    assert_eq!(kept.len(), 1);
    is_heard(&message, &kept[0]);
    drop(again);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_comes_back_while_a_message_is_taken_is_told_nothing_of_it_and_answers_what_comes_after() {
    if !speaks() {
        return;
    }
    let closed = HttpService::closed();
    let url = format!("ws://{}/v1/realtime", closed.local_addr().unwrap());
    let stage = Stage::set(&url, "format = 'pcmu'\n[standby]\nwatch = false\n").await;
    let boxed = stage.box_runs().await;
    let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
    hears_to_the_end(&caller).await;
    let message = speech("request");
    caller.line.say(&message);
    patiently("the caller to have begun", caller.line.has_said()).await.unwrap();
    // In the middle of it the service is there again.
    let service = Service::serve(closed.listen(64).unwrap(), vec![replies(&[Reply::Speak(ANSWER, 1_500)])], None);
    let is_set = |events: &[Value]| of(events, "session.update").count() == 1;
    let mut is_back = std::pin::pin!(patiently("its session to be set", service.seen.until(is_set)));
    loop {
        tokio::select! {
            back = &mut is_back => break back.unwrap(),
            () = caller.line.has_said() => drop(caller.line.say(&message)),
        }
    }
    patiently("the caller to have said it", caller.line.has_said()).await.unwrap();
    let (message, more) = goes_on_over_the_thanks(&caller, &boxed, 0).await;
    hears_to_the_end(&caller).await;
    boxed.log.seen_times("both parts to be kept", 2, is_kept).await.unwrap();
    let in_vain = service.seen.sent_by_clients();
    let asked = ["input_audio_buffer.commit", "response.create"].map(|kind| of(&in_vain, kind).count());
    assert_eq!(asked, [0, 0], "{in_vain:?}");

    // What the caller says then is the service's.
    let after = says(&caller, "small_talk").await;
    let (_, ear) = caller.hang_up().await.unwrap();
    boxed.log.seen("the call to be settled", |line| line["message"] == "call settled").await.unwrap();
    for (said, heard) in [("You can leave a message now.", 1), ("Your message is kept.", 1)] {
        assert_eq!(times(&ear, said).await, heard, "{said}");
    }
    assert_eq!(ear.find(&sound_of(ANSWER, 1_500)).len(), 1);
    let sent = service.seen.sent_by_clients();
    let hears = Ear { samples: audio(&sent, "pcmu") };
    is_heard(&after, &hears);
    let mut kept = recordings(&stage);
    assert_eq!(kept.len(), 2);
    kept.sort_by_key(|part| pieces_heard(&more, part).0);
    is_heard(&message, &kept[0]);
    is_heard(&more, &kept[1]);
    // The message is nobody else's, but for the first moment of what was added before it was known to be that.
    assert_eq!(pieces_heard(&message, &hears).0, 0);
    let (of_more, pieces) = pieces_heard(&more, &hears);
    assert!(of_more * 3 < pieces, "{of_more} of {pieces} pieces were sent");
    validator::check(&[Tap::of(&service)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_the_service_refuses_the_dialogue_answers_at_once_calls_tools_tells_what_is_owed_and_takes_a_message() {
    if !speaks() {
        return;
    }
    let service = Service::start(vec![refuses(401)]).await;
    let stage = stage(&service, "").await;
    let boxed = stage.box_runs().await;
    let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
    hears_to_the_end(&caller).await;
    let problems = boxed.health().await.unwrap()["problems"].to_string();
    assert!(problems.contains("cloud.realtime: cannot be reached: the service refuses the key (401)"), "{problems}");
    assert!(problems.contains(": calls are answered by the local dialogue"), "{problems}");
    says(&caller, "request").await;
    stage.tools.asked("order", 1).await.unwrap();
    assert_eq!(stage.tools.report("order", json!({ "number": NUMBER })).await.unwrap(), 200);
    boxed.log.seen("the closing to be settled", |line| line["message"] == "delivery settled").await.unwrap();
    patiently("the closing to be over", caller.line.hears_silence(900)).await.unwrap();
    says(&caller, "small_talk").await;
    let message = says(&caller, "request").await;
    says(&caller, "small_talk").await;
    let (_, ear) = caller.hang_up().await.unwrap();
    boxed.log.seen("the call to be settled", |line| line["message"] == "call settled").await.unwrap();

    let first = ear.find(&spoken(AWAY).await);
    assert_eq!(first.len(), 1, "the caller is told once");
    // On the media's clock: what a busy machine takes longer for is heard later.
    assert!(first[0].at_ms < 2_000, "{} ms", first[0].at_ms);
    for said in [
        "This is the answering machine of the kitchen.",
        "I pass that on.",
        ACCEPTED,
        CLOSING,
        "Then say your message.",
        "It is written down.",
    ] {
        assert_eq!(times(&ear, said).await, 1, "{said}");
    }
    assert_eq!(stage.tools.effects("order"), 1);
    assert_eq!(states(&stage.history()), [recado_core::ledger::DeliveryState::Spoken]);

    // The message is what the caller said.
    let listed = messages(&stage, &[]);
    assert!(listed.lines().count() == 2 && listed.contains("600123456"), "{listed}");
    let id = listed.lines().nth(1).unwrap().split(' ').next().unwrap().to_owned();
    let path = messages(&stage, &["--path", &id]);
    let kept = recording(&path);
    let pieces: Vec<&[i16]> = message.chunks_exact(1_600).filter(|piece| loud(piece)).collect();
    let found = pieces.iter().filter(|piece| kept.find(piece).len() == 1).count();
    assert!(pieces.len() >= 4 && found * 4 >= pieces.len() * 3, "{found} of {} are on the disk", pieces.len());
    // The log names it, and nothing else of it.
    assert!(boxed.log.all().iter().any(|line| line["message"] == "a caller's message is kept" && line["message_id"] == id.as_str()));
    assert!(!boxed.log.all().iter().any(|line| line.to_string().contains(path.trim())));
    messages(&stage, &["--delete", &id]);
    assert!(messages(&stage, &[]).contains("No messages."));
    let text = measures(&boxed).await;
    assert!(text.contains("\nrecado_service_away 1") && text.contains("\nrecado_service_takeovers_total 4"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_comes_back_in_a_call_answers_the_next_turn_and_knows_what_the_box_said_meanwhile() {
    if !speaks() {
        return;
    }
    let service = Service::start(vec![refuses(503), refuses(503), replies(&[Reply::Speak(ANSWER, 1_500)])]).await;
    let stage = stage(&service, "").await;
    let boxed = stage.box_runs().await;
    let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
    hears_to_the_end(&caller).await;
    let connected = |line: &Value| line["message"] == "connected to the speech model's service";
    boxed.log.seen("the service to be back", connected).await.unwrap();
    patiently("its session to be set", service.seen.until(|events| of(events, "session.update").count() == 1)).await.unwrap();
    caller.line.say(&speech("small_talk"));
    patiently("an answer to be asked for", service.seen.until(|events| of(events, "response.create").count() == 1)).await.unwrap();
    hears_to_the_end(&caller).await;
    let health = boxed.health().await.unwrap();
    assert!(!health["problems"].to_string().contains("cloud.realtime"), "{health}");
    let (_, ear) = caller.hang_up().await.unwrap();
    // What it took is counted, and what the caller waited for.
    let costs =
        |line: &Value| line["message"] == "what the call's session costs" && line["cost"] == "15.000000" && line["currency"] == "EUR";
    boxed.log.seen("what the call costs", costs).await.unwrap();
    let text = measures(&boxed).await;
    for line in [
        "recado_service_tokens_total{kind=\"output_audio\"} 15",
        "recado_service_cost_millionths_total{currency=\"EUR\"} 15000000",
        "recado_speech_stop_to_first_audio_ms_count 1",
    ] {
        assert!(text.contains(&format!("\n{line}\n")), "{line} is not in {text}");
    }
    let waited = boxed.log.seen("how long the caller waited", |line| line["message"] == "turn answered").await.unwrap();
    let stages = ["turn_end_ms", "first_piece_ms", "ready_ms", "first_audio_ms"].map(|stage| waited[stage].as_u64().expect("a number"));
    assert_eq!(stages.iter().sum::<u64>(), waited["in_all_ms"].as_u64().expect("a number"));
    assert_eq!(times(&ear, AWAY).await, 1);
    assert_eq!(ear.find(&sound_of(ANSWER, 1_500)).len(), 1);
    assert_eq!(stage.tools.effects("order"), 0, "the dialogue's turn was not asked for");
    let sent = service.seen.sent_by_clients();
    let told = |words: &str| sent.iter().any(|event| event["type"] == "conversation.item.create" && event.to_string().contains(words));
    assert!(told("This is the answering machine of the kitchen."), "{sent:?}");
    validator::check(&[Tap::of(&service)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_is_lost_while_it_speaks_is_said_to_be_and_nothing_is_said_or_done_twice() {
    if !speaks() {
        return;
    }
    let first = replies(&[Reply::Speak(GREETING, 1_000), Reply::CallAndCut("order")]);
    let service = Service::start(vec![first, replies(&[Reply::Speak(ANSWER, 1_500)])]).await;
    let stage = stage(&service, "").await;
    let boxed = stage.box_runs().await;
    let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
    hears_to_the_end(&caller).await;
    says(&caller, "request").await;
    stage.tools.asked("order", 1).await.unwrap();
    let ready = |events: &[Value]| of(events, "session.update").count() == 2;
    patiently("another connection", service.seen.until(ready)).await.unwrap();
    says(&caller, "small_talk").await;
    let (_, ear) = caller.hang_up().await.unwrap();
    boxed.log.seen("the call to be settled", |line| line["message"] == "call settled").await.unwrap();
    for (said, heard) in [(LOST, 1), (AWAY, 0), (ACCEPTED, 1), ("I pass that on.", 0)] {
        assert_eq!(times(&ear, said).await, heard, "{said}");
    }
    assert_eq!(ear.find(&sound_of(GREETING, 1_000)).len(), 1);
    assert_eq!(ear.find(&sound_of(ANSWER, 1_500)).len(), 1, "it is taken up again");
    assert_eq!(stage.tools.effects("order"), 1, "what it had asked for is done, once");
    assert!(measures(&boxed).await.contains("\nrecado_service_reconnects_total 1"));
    validator::check(&[Tap::of(&service)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_says_nothing_is_given_up_for_another_connection_and_its_turn_is_answered() {
    if !speaks() {
        return;
    }
    let first = replies(&[Reply::Speak(GREETING, 1_000), Reply::Stall]);
    let service = Service::start(vec![first, replies(&[Reply::Speak(ANSWER, 1_500)])]).await;
    let stage = stage(&service, "silent_ms = 1500\n").await;
    let boxed = stage.box_runs().await;
    let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
    hears_to_the_end(&caller).await;
    says(&caller, "request").await;
    let ready = |events: &[Value]| of(events, "session.update").count() == 2;
    patiently("another connection", service.seen.until(ready)).await.unwrap();
    says(&caller, "small_talk").await;
    let (_, ear) = caller.hang_up().await.unwrap();
    for (said, heard) in [(AWAY, 1), ("I pass that on.", 1), (ACCEPTED, 1), (LOST, 0)] {
        assert_eq!(times(&ear, said).await, heard, "{said}");
    }
    assert_eq!(ear.find(&sound_of(ANSWER, 1_500)).len(), 1);
    let sent = service.seen.sent_by_clients();
    assert!(sent.iter().any(|event| event.to_string().contains("could not hear or answer")), "it is told what it has missed: {sent:?}");
    validator::check(&[Tap::of(&service)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_never_gets_ready_is_waited_for_as_long_as_is_set_and_a_caller_may_hang_up_after_the_last_word() {
    if !speaks() {
        return;
    }
    let service = Service::start(vec![Conduct { hello: Hello::Nothing, ..Conduct::default() }]).await;
    // The box's own dialogue.
    let stage = Stage::set(&service.url(), "[standby]\nwatch = false\n[messages]\nfiles_max = 1\n").await;
    let boxed = stage.box_runs().await;
    let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
    hears_to_the_end(&caller).await;
    caller.line.say(&speech("request"));
    patiently("the caller to have said it", caller.line.has_said()).await.unwrap();
    let (_, ear) = caller.hang_up().await.unwrap();
    assert_eq!((times(&ear, AWAY).await, times(&ear, "You can leave a message now.").await), (1, 1));
    boxed.log.seen("the message to be kept", |line| line["message"] == "a caller's message is kept").await.unwrap();

    // There is no room for another one, and it is said.
    let caller = Caller::dial(boxed.sip, "600999999").await.unwrap();
    hears_to_the_end(&caller).await;
    says(&caller, "request").await;
    let (_, ear) = caller.hang_up().await.unwrap();
    assert_eq!((times(&ear, "Sorry, I could not keep your message.").await, times(&ear, "Your message is kept.").await), (1, 0));
    assert_eq!(messages(&stage, &[]).lines().count(), 2);
    let problems = boxed.health().await.unwrap()["problems"].to_string();
    assert!(problems.contains("messages: 1 messages with ") && problems.contains("callers are told that theirs is not kept"), "{problems}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_sends_silence_or_hardly_a_sound_is_given_up_and_health_names_it_until_it_answers() {
    if !speaks() {
        return;
    }
    // Nothing can be heard of the first answer, and hardly anything of the second.
    for (sounds_ms, told) in [(0, AWAY), (20, LOST)] {
        let first = replies(&[Reply::Speak(GREETING, 1_000), Reply::Mute("Mute.", sounds_ms)]);
        let service = Service::start(vec![first, replies(&[Reply::Speak(ANSWER, 1_500)])]).await;
        let stage = stage(&service, "silent_ms = 1500\n").await;
        let boxed = stage.box_runs().await;
        let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
        hears_to_the_end(&caller).await;
        says(&caller, "request").await;
        let problems = boxed.health().await.unwrap()["problems"].to_string();
        assert!(problems.contains("cloud.realtime: does not answer: the service did not answer in time"), "{problems}");
        assert!(measures(&boxed).await.contains("\nrecado_service_away 1"));
        let ready = |events: &[Value]| of(events, "session.update").count() == 2;
        patiently("another connection", service.seen.until(ready)).await.unwrap();
        says(&caller, "small_talk").await;
        let (_, ear) = caller.hang_up().await.unwrap();
        for (said, heard) in [(told, 1), ("I pass that on.", 1), (ACCEPTED, 1)] {
            assert_eq!(times(&ear, said).await, heard, "{said}");
        }
        assert_eq!(ear.find(&sound_of(ANSWER, 1_500)).len(), 1);
        assert!(!boxed.health().await.unwrap()["problems"].to_string().contains("cloud.realtime"));
        assert!(measures(&boxed).await.contains("\nrecado_service_away 0"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_takes_each_session_and_closes_it_is_named_in_health() {
    if !speaks() {
        return;
    }
    let service = Service::start(vec![Conduct { hello: Hello::SessionAndClose(1012), ..Conduct::default() }]).await;
    let stage = stage(&service, "").await;
    let boxed = stage.box_runs().await;
    let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
    hears_to_the_end(&caller).await;
    let (_, ear) = caller.hang_up().await.unwrap();
    assert_eq!(times(&ear, AWAY).await, 1);
    let problems = boxed.health().await.unwrap()["problems"].to_string();
    assert!(problems.contains("cloud.realtime: does not answer: "), "{problems}");
    assert!(measures(&boxed).await.contains("\nrecado_service_away 1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_one_call_has_found_away_is_not_waited_for_in_the_next_one() {
    if !speaks() {
        return;
    }
    let service = Service::start(vec![refuses(401), Conduct { hello: Hello::Nothing, ..Conduct::default() }]).await;
    // Longer than anybody is waited for here.
    let stage = stage(&service, "takeover_ms = 4500\n").await;
    let boxed = stage.box_runs().await;
    for _ in 0..2 {
        let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
        hears_to_the_end(&caller).await;
        let (_, ear) = caller.hang_up().await.unwrap();
        assert_eq!(times(&ear, AWAY).await, 1);
    }
    assert_eq!(service.seen.connections(), 1, "the second call tries it all the same");
    let given = |line: &&Value| line["message"] == "the response is given by the dialogue that stands by";
    let reasons: Vec<String> = boxed.log.all().iter().filter(given).map(|line| line["reason"].to_string()).collect();
    assert!(reasons.len() == 2 && reasons.iter().all(|reason| reason.contains("refuses the key (401)")), "{reasons:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_is_away_between_calls_is_known_to_be_and_to_be_back() {
    let mut conducts = vec![refuses(503)];
    conducts.push(Conduct::default());
    let service = Service::start(conducts).await;
    let stage = Stage::set(&service.url(), "").await;
    let boxed = stage.box_runs().await;
    let problem = |health: &Value| health["problems"].to_string().contains("cloud.realtime: cannot be reached");
    let until = async |away: bool| {
        while problem(&boxed.health().await.unwrap()) != away {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    patiently("the box to know that it is away", until(true)).await.unwrap();
    patiently("the box to know that it is back", until(false)).await.unwrap();
    assert_eq!(service.seen.connections(), 1, "it was connected to once, and nothing was asked of it");
    assert_eq!(of(&service.seen.sent_by_clients(), "response.create").count(), 0);
}
