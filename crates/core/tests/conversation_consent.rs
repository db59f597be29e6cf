//! Consent: what is read back holds the floor until it is answered, and counts only once it was heard. And what the caller asks the box
//! itself.

mod conversation_rig;

use conversation_rig::*;
use recado_core::conversation::*;
use recado_core::ledger::{self, News, WorkItem, WorkState};
use recado_core::policy::Audience;
use recado_core::{OperationId, ResponseId, TurnId};
use serde_json::json;

const ASKS: &str = "¿Lo hago?";

/// The caller has asked for something that is read back.
fn asked_for(call: &mut Call) -> ResponseId {
    let response = call.turn();
    call.call_tool("c");
    call.news(News::ReadBack { call_id: "c".into(), response, read_back: 0, say: ASKS.into() });
    call.say("Un momento.");
    call.complete();
    response
}

fn heard_in(effects: &[Effect]) -> Vec<TurnId> {
    let of = |input| if let ledger::Input::ReadBackHeard { turn, .. } = input { Some(turn) } else { None };
    asked(effects).into_iter().filter_map(of).collect()
}

fn over(effects: &[Effect]) -> usize {
    asked(effects).iter().filter(|input| matches!(input, ledger::Input::ReadBackOver { .. })).count()
}

fn needs_consent(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::ToolOutput { operation: None, status: ToolStatus::NeedsConsent, .. }))
}

#[test]
fn a_read_back_comes_after_all_that_the_model_says_and_counts_when_it_has_been_said_to_its_end() {
    let mut call = Call::new();
    asked_for(&mut call);
    assert!(needs_consent(&call.effects));
    let said: Vec<String> = call.given().into_iter().map(|(_, text)| text).collect();
    assert_eq!(said, ["Un momento.", ASKS]);
    let turn = call.conversation.turn();
    assert_eq!(heard_in(&call.play("Un momento.", 500)), []);
    assert_eq!(heard_in(&call.play(ASKS, 800)), [turn]);
}

#[test]
fn no_closing_comes_between_the_question_and_the_answer_to_the_next_turn() {
    let mut call = Call::new();
    asked_for(&mut call);
    call.play("Un momento.", 500);
    call.play(ASKS, 800);
    assert_eq!(claims(&call.offer(1)), []);
    assert_eq!(claims(&call.pass(5_000)), [], "it would take the question away");
    call.turn();
    call.say("Muy bien.");
    let answered = call.complete();
    assert_eq!(over(&answered), 0, "one may ask back");
    assert_eq!(claims(&answered), [(1, ledger::Route::Ride)], "it may be told with the answer");
}

#[test]
fn a_question_that_nobody_answers_is_over_in_time_and_one_that_is_answered_twice_too() {
    let mut call = Call::new();
    asked_for(&mut call);
    call.play("Un momento.", 500);
    call.play(ASKS, 800);
    call.offer(1);
    let passed = call.pass(30_000);
    assert_eq!((over(&passed), claims(&passed).len()), (1, 1), "nothing latches");

    let mut call = Call::new();
    asked_for(&mut call);
    call.play("Un momento.", 500);
    call.play(ASKS, 800);
    let counts: Vec<usize> = (0..2)
        .map(|_| {
            call.turn();
            over(&call.complete())
        })
        .collect();
    assert_eq!(counts, [0, 1]);
}

#[test]
fn a_question_that_was_cut_or_is_doubted_was_not_heard() {
    let mut call = Call::new();
    asked_for(&mut call);
    call.play("Un momento.", 500);
    call.start(ASKS, 800);
    call.turn();
    call.cleared(ASKS, Some(300));
    assert_eq!(heard_in(&call.effects), []);
    assert_eq!(over(&call.complete()), 1, "the turn that cut it has its answer, and nothing holds the floor");

    let mut call = Call::new();
    asked_for(&mut call);
    call.play("Un momento.", 500);
    call.start(ASKS, 800);
    call.give(Input::Voicemail);
    assert_eq!(over(&call.effects), 1, "a machine consents to nothing");
    assert_eq!(heard_in(&call.sent(ASKS, 800)), []);
}

#[test]
fn a_cough_is_no_answer_to_a_question() {
    let mut call = Call::new();
    asked_for(&mut call);
    call.play("Un momento.", 500);
    call.play(ASKS, 800);
    call.turn();
    let turn = call.conversation.turn();
    let noise = call.give(Input::Model(ModelEvent::TurnWasNoise { turn }));
    assert_eq!(heard_in(&noise), [turn], "consent comes in a turn after it");
    assert_eq!(over(&call.complete()), 0);
    assert_eq!(claims(&call.offer(1)), []);
    assert_eq!(claims(&call.pass(5_000)), [], "the question stands");
}

#[test]
fn what_is_read_back_to_a_caller_who_has_gone_on_is_not_said_and_is_no_question() {
    let mut call = Call::new();
    let response = call.turn();
    call.call_tool("c");
    call.turn();
    let late = call.news(News::ReadBack { call_id: "c".into(), response, read_back: 0, say: ASKS.into() });
    assert!(needs_consent(&late));
    assert_eq!((over(&late), spoken(&late).len()), (1, 0));
}

#[test]
fn a_question_that_is_over_before_it_was_said_is_not_asked() {
    let mut call = Call::new();
    asked_for(&mut call);
    call.give(Input::Hold(true));
    call.cleared("Un momento.", None);
    assert_eq!(over(&call.pass(31_000)), 1);
    call.effects.clear();
    call.give(Input::Hold(false));
    call.pass(1_000);
    assert_eq!(spoken(&call.effects), ["Un momento."], "what else was cut goes on");

    let mut call = Call::new();
    let response = call.turn();
    for read_back in 0..9 {
        let call_id = format!("c{read_back}");
        call.call_tool(&call_id);
        call.news(News::ReadBack { call_id, response, read_back, say: format!("¿{read_back}?") });
    }
    call.complete();
    let said = spoken(&call.effects);
    assert!(said.contains(&"¿8?".to_owned()) && !said.contains(&"¿0?".to_owned()), "{said:?}");
    assert_eq!(over(&call.effects), 1);
}

#[test]
fn what_is_called_twice_in_one_response_is_asked_once() {
    let mut call = Call::new();
    let response = call.turn();
    for call_id in ["c", "d"] {
        call.call_tool(call_id);
        call.news(News::ReadBack { call_id: call_id.into(), response, read_back: 0, say: ASKS.into() });
    }
    call.complete();
    assert_eq!(spoken(&call.effects), [ASKS]);
    assert_eq!(heard_in(&call.play(ASKS, 800)).len(), 1);
}

#[test]
fn who_wants_it_cancelled_has_not_consented() {
    let mut call = Call::new();
    asked_for(&mut call);
    call.play("Un momento.", 500);
    call.play(ASKS, 800);
    let response = call.turn();
    let cancels = call.give(Input::Model(ModelEvent::CancelIntent { response, tool: None, work: None }));
    let order: Vec<bool> = asked(&cancels)
        .iter()
        .filter_map(|input| match input {
            ledger::Input::ReadBackOver { .. } => Some(true),
            ledger::Input::Cancel { .. } => Some(false),
            _ => None,
        })
        .collect();
    assert_eq!(order, [true, false], "the ledger knows before it looks for what to cancel");
}

/// A listing that is being said to somebody who is verified, with a question behind it.
fn told_to_the_verified(begin: bool) -> Call {
    let mut call = Call::new();
    call.give(Input::Identified(Identity::Verified));
    let response = call.turn();
    call.call_tool("c");
    call.news(News::ReadBack { call_id: "c".into(), response, read_back: 0, say: ASKS.into() });
    call.give(Input::Model(ModelEvent::ListWork { response }));
    call.news(News::Work { asked: true, work: vec![item(1, Audience::SameCall), item(2, Audience::VerifiedParty)] });
    call.say("Y eso es todo.");
    call.complete();
    if begin {
        call.start(PRIVATE, 2_000);
        call.pass(200);
    }
    call
}

const PRIVATE: &str = "Esto es lo que tengo. Pago 1. Pago 2.";

#[test]
fn the_boxs_own_words_stop_where_who_is_on_the_line_may_not_hear_them_any_more() {
    for (fallen, begin) in [(Input::Identified(Identity::CallersWord), true), (Input::Voicemail, true), (Input::Voicemail, false)] {
        let mut call = told_to_the_verified(begin);
        let playback = call.segment(PRIVATE).playback;
        call.effects.clear();
        let fell = call.give(fallen.clone());
        assert_eq!((over(&fell), clears(&fell)), (1, 1), "{fallen:?}: whoever it is now has been asked nothing");
        let at = recado_core::Time(call.now);
        call.give(Input::Playback(PlaybackEvent::Cleared { playback, cut: None, at }));
        call.pass(40_000);
        let said = spoken(&call.effects);
        assert!(!said.iter().any(|said| said.contains("Pago") || said == ASKS), "{fallen:?}: {said:?}");
    }
}

#[test]
fn what_anybody_in_the_call_may_hear_goes_on() {
    let mut call = Call::new();
    let response = call.turn();
    call.give(Input::Model(ModelEvent::ListWork { response }));
    call.news(News::Work { asked: true, work: vec![item(1, Audience::SameCall)] });
    call.complete();
    assert_eq!(clears(&call.give(Input::Identified(Identity::Unknown))), 0);
}

fn item(number: u128, audience: Audience) -> WorkItem {
    let (operation, tool, arguments, state) = (OperationId(number), "pay".into(), json!({}), WorkState::Running);
    WorkItem { operation, tool, arguments, age_ms: None, state, audience, say: format!("Pago {number}.") }
}

fn named(effects: &[Effect]) -> Vec<(String, u128)> {
    let of = |effect: &Effect| match effect {
        Effect::Work { work } => Some(work.iter().map(|item| (item.name.clone(), item.operation.0)).collect::<Vec<_>>()),
        _ => None,
    };
    effects.iter().rev().find_map(of).unwrap_or_default()
}

#[test]
fn what_runs_is_said_where_it_was_asked_for_and_its_names_hold_for_the_call() {
    let mut call = Call::new();
    let told = call.news(News::Work { asked: false, work: vec![item(1, Audience::SameParty), item(2, Audience::VerifiedParty)] });
    assert_eq!(named(&told), [("w1".to_owned(), 1)], "who is not verified learns nothing of the other one");
    assert_eq!(spoken(&told).len(), 0);
    let response = call.turn();
    assert_eq!(asked(&call.give(Input::Model(ModelEvent::ListWork { response }))).len(), 1);
    call.complete();
    let listed = call.news(News::Work { asked: true, work: vec![item(3, Audience::SameParty), item(1, Audience::SameParty)] });
    assert_eq!(named(&listed), [("w2".to_owned(), 3), ("w1".to_owned(), 1)]);
    assert_eq!(spoken(&listed), ["Esto es lo que tengo. Pago 3. Pago 1."]);
}

#[test]
fn what_is_cancelled_by_its_short_name_is_that_operation_and_a_name_of_nothing_cancels_nothing() {
    let mut call = Call::new();
    call.news(News::Work { asked: false, work: vec![item(1, Audience::SameParty), item(4, Audience::SameParty)] });
    for (name, meant) in [("w2", Some(OperationId(4))), ("w9", None), ("pay", None), ("w0", None)] {
        let response = call.turn();
        let effects = call.give(Input::Model(ModelEvent::CancelIntent { response, tool: None, work: Some(name.into()) }));
        let cancels: Vec<_> = asked(&effects).into_iter().filter(|input| matches!(input, ledger::Input::Cancel { .. })).collect();
        match meant {
            Some(_) => assert!(matches!(&cancels[..], [ledger::Input::Cancel { operation, .. }] if *operation == meant), "{cancels:?}"),
            None => assert_eq!((cancels.len(), spoken(&effects)), (0, vec!["No hay nada en marcha que cancelar.".to_owned()]), "{name}"),
        }
        call.complete();
    }
}

#[test]
fn the_last_closing_is_said_once_more_as_what_it_is_and_no_other_words_are_made_up_for_it() {
    let repeat = |call: &mut Call| {
        let response = call.turn();
        let said = spoken(&call.give(Input::Model(ModelEvent::RepeatLast { response })));
        call.complete();
        said
    };
    let mut call = Call::new();
    assert_eq!(repeat(&mut call), ["En esta llamada todavía no te he contado ningún resultado."]);
    call.play("En esta llamada todavía no te he contado ningún resultado.", 900);
    call.pass(5_000);
    call.offer(1);
    call.claimed(1);
    call.play("closing 1", 1_000);
    assert_eq!(repeat(&mut call), ["Te lo repito: closing 1"], "its report is still to come");
    let again = call.play("Te lo repito: closing 1", 1_000);
    assert!(!asked(&again).iter().any(|input| matches!(input, ledger::Input::FirstFrame { .. })), "it is no delivery");
    call.played();
    assert_eq!(repeat(&mut call), ["Te lo repito: closing 1"]);
    call.give(Input::Identified(Identity::Unknown));
    call.cleared("Te lo repito: closing 1", None);
    assert_eq!(repeat(&mut call), ["En esta llamada todavía no te he contado ningún resultado."], "not to somebody who is not known");
}
