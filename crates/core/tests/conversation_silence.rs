//! A model whose speech can't be heard: silence is played in its place, and is neither life nor an answer.

mod conversation_rig;

use conversation_rig::{Call, clears, measured, spoken};
use recado_core::conversation::*;
use recado_core::timers::Timer;

const SORRY: &str = "Perdone, ahora no le he podido responder. ¿Me lo repite?";

/// The model sends a piece of speech, of which so much can be heard, under a name of its own.
fn speech(call: &mut Call, name: &str, audible_ms: u64) -> Vec<Effect> {
    let content = Content::Speech { piece: 0, audible_ms, text: name.into() };
    let response = call.response();
    call.give(Input::Model(ModelEvent::Clause { response, content }))
}

fn failed(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::CancelResponse { .. }))
}

#[test]
fn a_model_that_sends_only_silence_has_failed_as_soon_as_one_that_sends_nothing_and_the_caller_hears_so() {
    let mut call = Call::new();
    call.turn();
    let asked = call.now;
    for piece in 0..12 {
        speech(&mut call, &format!("silence {piece}"), 0);
        call.play(&format!("silence {piece}"), 400);
        assert!(!failed(&call.effects), "at {} ms", call.now - asked);
    }
    let effects = call.pass(Timer::GenerationSilentMax.default_ms() - (call.now - asked));
    assert!(failed(&effects));
    assert_eq!(spoken(&effects), [SORRY]);
    assert!(measured(&call.effects, MeasureName::SpeechStopToFirstAudioMs).is_empty(), "silence and an excuse are no answer");
}

#[test]
fn silence_that_comes_all_at_once_does_not_keep_the_caller_from_what_is_said_instead() {
    let mut call = Call::new();
    call.turn();
    for piece in 0..150 {
        speech(&mut call, &format!("silence {piece}"), 0);
    }
    for piece in 0..12 {
        call.play(&format!("silence {piece}"), 400);
    }
    let effects = call.pass(Timer::GenerationSilentMax.default_ms() - 12 * 400);
    assert!(failed(&effects));
    assert_eq!(spoken(&effects), [SORRY]);
    // What the voice has of the silence already is over soon.
    assert_eq!(call.given().len(), 12 + 2 + 1);
    assert_eq!(clears(&call.effects), 0);
}

#[test]
fn too_much_silence_to_wait_for_the_voice_is_a_failure_and_no_answer() {
    let mut call = Call::new();
    call.turn();
    for piece in 0..700 {
        speech(&mut call, &format!("silence {piece}"), 0);
    }
    assert!(failed(&call.effects));
    call.play("silence 0", 400);
    call.play("silence 1", 400);
    assert_eq!(spoken(&call.effects).last().map(String::as_str), Some(SORRY));
}

#[test]
fn silence_after_an_answer_is_the_end_of_it_and_nobody_excuses_themselves() {
    let mut call = Call::new();
    call.turn();
    speech(&mut call, "an answer", 1_000);
    call.play("an answer", 1_000);
    let said = call.now;
    for piece in 0..9 {
        speech(&mut call, &format!("silence {piece}"), 0);
        call.play(&format!("silence {piece}"), 400);
    }
    let effects = call.pass(Timer::GenerationSilentMax.default_ms());
    assert!(failed(&effects) && call.now - said < 2 * Timer::GenerationSilentMax.default_ms());
    assert!(!spoken(&call.effects).iter().any(|said| said == SORRY));
    assert!(call.effects.iter().any(|effect| matches!(effect, Effect::Truncate { heard_ms: 4_600, .. })), "{:?}", call.effects);
}

#[test]
fn silence_before_and_between_words_is_played_in_its_place_and_counted_where_the_model_is_cut() {
    let mut call = Call::new();
    call.turn();
    let turn_ended = call.now;
    for (name, audible_ms) in [("breath", 0), ("one", 400), ("pause", 0), ("two", 400)] {
        speech(&mut call, name, audible_ms);
    }
    for name in ["breath", "one", "pause"] {
        call.play(name, 400);
    }
    call.start("two", 400);
    assert_eq!(spoken(&call.effects), ["breath", "one", "pause", "two"]);
    // The first that is heard ends the wait, not the first that leaves.
    assert_eq!(measured(&call.effects, MeasureName::SpeechStopToFirstAudioMs), [turn_ended + 400 - (turn_ended - 400)]);
    call.pass(400);
    call.moves(Acoustic::Suspected);
    call.moves(Acoustic::Speaking);
    call.cleared("two", Some(400));
    let heard = |effect: &Effect| if let Effect::Truncate { heard_ms, .. } = effect { Some(*heard_ms) } else { None };
    assert_eq!(call.effects.iter().find_map(heard), Some(1_400), "all of it up to where it was cut, less what had not arrived");
}

#[test]
fn a_pause_of_silence_between_words_may_be_as_long_as_one_of_nothing() {
    let mut call = Call::new();
    call.turn();
    call.pass(4_900);
    speech(&mut call, "well", 300);
    call.pass(4_900);
    speech(&mut call, "pause", 0);
    assert!(!failed(&call.effects));
    speech(&mut call, "then", 500);
    assert!(!failed(&call.pass(4_900)));
    assert!(failed(&call.pass(100)));
}

#[test]
fn a_model_that_fails_after_a_scrap_of_an_answer_has_given_none() {
    let mut call = Call::new();
    call.turn();
    speech(&mut call, "a", 100);
    call.play("a", 100);
    call.pass(2_400);
    speech(&mut call, "b", 100);
    call.play("b", 100);
    let effects = call.pass(Timer::GenerationSilentMax.default_ms());
    assert!(failed(&effects));
    assert_eq!(spoken(&effects), [SORRY]);
    call.play(SORRY, 2_000);
    // The model remembers of it what was heard.
    assert!(call.effects.iter().any(|effect| matches!(effect, Effect::Truncate { .. })));
    // One that has said or done something whole has answered, however short it is.
    let mut call = Call::new();
    call.turn();
    call.say("Sí.");
    call.play("Sí.", 200);
    assert_eq!(spoken(&call.pass(Timer::GenerationSilentMax.default_ms())), [""; 0]);
}

#[test]
fn a_model_of_which_no_more_than_a_click_is_heard_now_and_then_has_failed_and_given_no_answer() {
    let mut call = Call::new();
    call.turn();
    let asked = call.now;
    for piece in 0.. {
        speech(&mut call, &format!("click {piece}"), 20);
        let effects = call.play(&format!("click {piece}"), 400);
        if failed(&effects) {
            assert_eq!(spoken(&effects), [SORRY]);
            break;
        }
        assert!(call.now - asked < 3 * Timer::GenerationSilentMax.default_ms());
    }
}

#[test]
fn silence_at_the_end_of_a_response_keeps_nobody_waiting() {
    let mut call = Call::new();
    call.turn();
    speech(&mut call, "an answer", 1_000);
    for piece in 0..150 {
        speech(&mut call, &format!("silence {piece}"), 0);
    }
    call.complete();
    call.play("an answer", 1_000);
    call.offer(1);
    call.play("silence 0", 400);
    call.play("silence 1", 400);
    call.pass(Timer::MinQuiet.default_ms());
    assert_eq!(conversation_rig::claims(&call.effects), [(1, recado_core::ledger::Route::Announce)]);
    assert_eq!(call.given().len(), 3);
}
