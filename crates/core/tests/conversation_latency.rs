//! How long a caller waits for an answer, stage by stage, and what is not measured; and what a response that goes on after a cut is
//! remembered as.

mod conversation_rig;

use conversation_rig::{Call, claims, envelope, measured};
use recado_core::Time;
use recado_core::conversation::*;
use recado_core::ledger::{News, Route};
use recado_core::policy::Priority;

const STAGES: [MeasureName; 5] = [
    MeasureName::SpeechStopToTurnEndMs,
    MeasureName::TurnEndToFirstPieceMs,
    MeasureName::FirstPieceToReadyMs,
    MeasureName::ReadyToFirstAudioMs,
    MeasureName::SpeechStopToFirstAudioMs,
];

/// What was measured of each stage, over the whole call.
fn stages(call: &Call) -> [Vec<u64>; 5] {
    STAGES.map(|name| measured(&call.effects, name))
}

fn nothing_was_measured(call: &Call) -> bool {
    stages(call).iter().all(Vec::is_empty)
}

/// The audio of these words is there, and their first frame leaves so much later.
fn sounds_after(call: &mut Call, text: &str, ms: u64) {
    let segment = call.segment(text);
    call.give(Input::Playback(PlaybackEvent::Ready { segment, duration_ms: 1_000, words: vec![], near_silent: false }));
    call.pass(ms);
    call.give(Input::Playback(PlaybackEvent::Started { segment, at: Time(call.now), packet: 1, generation: Generation(0) }));
}

#[test]
fn each_stage_of_an_answer_is_measured_and_all_of_them() {
    let mut call = Call::new();
    call.turn();
    call.pass(300);
    call.say("a");
    call.pass(50);
    sounds_after(&mut call, "a", 20);
    assert_eq!(stages(&call), [vec![400], vec![300], vec![50], vec![20], vec![770]]);
    // Once for each turn, however many pieces follow.
    call.say("b");
    call.complete();
    call.pass(1_000);
    call.sent("a", 1_000);
    call.play("b", 500);
    call.played();
    assert_eq!(stages(&call)[4], [770]);
    call.turn();
    call.say("c");
    sounds_after(&mut call, "c", 0);
    assert_eq!(stages(&call)[4], [770, 400]);
}

#[test]
fn an_acceptance_is_an_answer_from_where_there_is_one_to_say() {
    let mut call = Call::new();
    let response = call.turn();
    call.pass(200);
    call.call_tool("c1");
    call.complete();
    call.pass(30);
    call.accepted("c1", response, None, "I am on it");
    call.pass(10);
    sounds_after(&mut call, "I am on it", 20);
    assert_eq!(stages(&call), [vec![400], vec![230], vec![10], vec![20], vec![660]]);
    let mut call = Call::new();
    let response = call.turn();
    call.call_tool("c1");
    call.pass(30);
    call.news(News::Refused { call_id: "c1".into(), response, reason: "full".into(), say: "I can't".into() });
    sounds_after(&mut call, "I can't", 0);
    assert_eq!(stages(&call)[1], [30]);
}

#[test]
fn what_answers_no_speech_is_not_measured() {
    let mut call = Call::greeting(|_| {});
    call.say("hello");
    call.complete();
    call.play("hello", 500);
    call.played();
    call.give(Input::Digit('1'));
    call.say("one");
    call.complete();
    call.play("one", 500);
    assert!(nothing_was_measured(&call));
}

#[test]
fn an_answer_that_a_sound_delays_or_a_turn_cancels_is_not_measured() {
    // A false start before its first frame.
    let mut call = Call::new();
    call.turn();
    call.say("a");
    call.moves(Acoustic::Suspected);
    call.pass(500);
    call.moves(Acoustic::Quiet);
    sounds_after(&mut call, "a", 0);
    assert!(nothing_was_measured(&call));
    // The caller goes on: only the answer to all that they said counts, from its end.
    let mut call = Call::new();
    call.turn();
    call.pass(100);
    call.turn();
    call.pass(50);
    call.say("b");
    sounds_after(&mut call, "b", 0);
    assert_eq!(stages(&call)[4], [450]);
    // A hold.
    let mut call = Call::new();
    call.turn();
    call.say("a");
    call.give(Input::Hold(true));
    call.pass(5_000);
    call.give(Input::Hold(false));
    call.start("a", 1_000);
    assert!(nothing_was_measured(&call));
}

#[test]
fn an_answer_that_a_closing_is_told_before_is_not_measured() {
    for priority in [Priority::Normal, Priority::Urgent] {
        let mut call = Call::new();
        call.turn();
        let mut closing = envelope(1);
        closing.priority = priority;
        assert_eq!(claims(&call.news(News::Offered(closing))), [(1, Route::Ride)], "nothing sounds that could be interrupted");
        call.claimed(1);
        call.say("a");
        call.complete();
        sounds_after(&mut call, "closing 1", 20);
        call.sent("closing 1", 1_000);
        sounds_after(&mut call, "a", 20);
        assert!(nothing_was_measured(&call), "{:?}", stages(&call));
    }
}

#[test]
fn an_excuse_for_a_model_that_failed_is_no_answer() {
    let mut call = Call::new();
    let response = call.turn();
    call.give(Input::Model(ModelEvent::Failed { response, reason: "it is gone".into() }));
    let (_, excuse) = call.given().pop().expect("an excuse");
    call.start(&excuse, 1_000);
    assert!(nothing_was_measured(&call));
}

#[test]
fn a_turn_of_which_it_is_not_known_when_it_ended_is_not_measured() {
    let mut call = Call::new();
    for to in [Acoustic::Suspected, Acoustic::Speaking] {
        call.pass(400);
        call.moves(to);
    }
    // Its pause was not told.
    call.pass(2_000);
    call.moves(Acoustic::Quiet);
    call.say("a");
    sounds_after(&mut call, "a", 0);
    assert!(nothing_was_measured(&call));
}

#[test]
fn what_was_heard_of_clauses_is_put_together_as_it_was_written() {
    let mut call = Call::new();
    call.turn();
    for text in ["One, ", "two, ", "three. ", "four."] {
        call.say(text);
    }
    call.play("One, ", 500);
    call.play("two, ", 500);
    call.start("three. ", 500);
    call.pass(400);
    call.moves(Acoustic::Suspected);
    call.moves(Acoustic::Speaking);
    let effects = call.cleared("three. ", Some(400));
    let heard: Vec<&str> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Truncate { heard_text, .. } => Some(heard_text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(heard, ["One, two, "]);
}
