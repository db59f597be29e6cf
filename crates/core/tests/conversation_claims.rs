//! Claims of a conversation: what is answered late, refused or withdrawn, and the closing that is itself the answer.

mod conversation_rig;

use conversation_rig::*;
use recado_core::DeliveryId;
use recado_core::conversation::*;
use recado_core::ledger::{News, Repeat, RepeatAnswer, Route, Standing as Stands};
use recado_core::policy::{Priority, RidePosition};

const ANNOUNCE: Route = Route::Announce;

/// The closing of what is asked for again waits to be told.
fn about_to_be_told(number: u128) -> Option<Repeat> {
    Some(Repeat { standing: Stands::AboutToBeTold, answer: RepeatAnswer::Reused, delivery: Some(DeliveryId(number)) })
}

/// A call that has been quiet for a while.
fn quiet() -> Call {
    let mut call = Call::new();
    call.pass(5_000);
    call
}

#[test]
fn a_claim_that_was_refused_is_asked_for_again_after_a_second_and_not_before() {
    let mut call = quiet();
    assert_eq!(claims(&call.offer(1)), [(1, ANNOUNCE)]);
    assert_eq!(claims(&call.claim_refused(1)), []);
    call.give(Input::Wake);
    assert_eq!(claims(&call.pass(999)), []);
    assert_eq!(claims(&call.pass(1)), [(1, ANNOUNCE)]);
}

#[test]
fn a_claim_that_is_not_answered_is_given_up_and_its_late_grant_given_back() {
    let mut call = quiet();
    call.offer(1);
    assert_eq!(claims(&call.pass(4_999)), []);
    assert_eq!(claims(&call.pass(1_000)), []);
    call.give(Input::Hold(true));
    let late = call.claimed(1);
    assert_eq!((released(&late), spoken(&late).len()), (vec![1], 0), "nobody waits for it any more");
    call.offer(1);
    call.give(Input::Hold(false));
    assert_eq!(claims(&call.pass(650)), [(1, ANNOUNCE)]);
    assert_eq!(spoken(&call.claimed(1)), ["closing 1"]);
}

#[test]
fn a_late_grant_serves_the_claim_that_was_asked_for_since_and_the_second_answer_is_given_back() {
    let mut call = quiet();
    call.offer(1);
    assert_eq!(claims(&call.pass(6_000)), [(1, ANNOUNCE)], "given up after five seconds, and asked for again after one more");
    assert_eq!(spoken(&call.claimed(1)), ["closing 1"]);
    let second = call.claimed(1);
    assert_eq!((released(&second), spoken(&second).len()), (vec![1], 0));
}

#[test]
fn a_late_refusal_is_of_the_claim_that_was_given_up_and_not_of_the_one_asked_for_since() {
    let mut call = quiet();
    call.offer(1);
    call.pass(6_000);
    call.claim_refused(1);
    assert_eq!(claims(&call.pass(1_500)), [], "one claim is under way");
    assert_eq!(spoken(&call.claimed(1)), ["closing 1"]);
}

#[test]
fn a_refusal_or_a_grant_of_another_delivery_leaves_a_claim_as_it_is() {
    let mut call = quiet();
    call.offer(1);
    call.claim_refused(2);
    let stray = call.claimed(3);
    assert_eq!((released(&stray), spoken(&stray).len()), (vec![3], 0), "nobody asked for it");
    assert_eq!(claims(&call.pass(1_500)), []);
    assert_eq!(spoken(&call.claimed(1)), ["closing 1"]);
}

#[test]
fn what_is_withdrawn_while_it_is_claimed_is_given_back_and_another_claim_is_not() {
    let mut call = quiet();
    call.offer(1);
    call.news(News::Withdrawn { delivery: DeliveryId(2) });
    call.offer(2);
    call.news(News::Withdrawn { delivery: DeliveryId(2) });
    assert_eq!(spoken(&call.claimed(1)), ["closing 1"]);
    let mut call = quiet();
    call.offer(1);
    call.news(News::Withdrawn { delivery: DeliveryId(1) });
    let late = call.claimed(1);
    assert_eq!((released(&late), spoken(&late).len()), (vec![1], 0));
}

#[test]
fn several_closings_share_a_window_for_so_long_and_are_then_told_with_a_new_pause_between_them() {
    let mut call = Call::with(|settings| settings.timers = timers(recado_core::timers::Timer::WindowMax, 3_000));
    call.pass(5_000);
    call.offer(1);
    call.claimed(1);
    for number in 2..=4 {
        call.offer(number);
    }
    assert_eq!(claims(&call.play("closing 1", 1_000)), [(2, ANNOUNCE)], "in one window without a pause");
    call.claimed(2);
    assert_eq!(claims(&call.play("closing 2", 1_999)), [(3, ANNOUNCE)]);
    call.claimed(3);
    assert_eq!(claims(&call.play("closing 3", 1)), [], "the window is over");
    assert_eq!(claims(&call.pass(649)), []);
    assert_eq!(claims(&call.pass(1)), [(4, ANNOUNCE)]);
}

#[test]
fn what_grows_stale_while_it_waits_is_suppressed_without_anything_happening() {
    let mut call = Call::new();
    call.give(Input::Hold(true));
    let mut stale = envelope(1);
    stale.stale_after_ms = Some(10_000);
    call.news(News::Offered(stale));
    assert_eq!(asked(&call.pass(10_000)), []);
    assert_eq!(asked(&call.pass(1)), [recado_core::ledger::Input::Suppress { delivery: DeliveryId(1) }]);
}

/// The caller asks for what is about to be told, and the model calls the tool.
fn asks_again(call: &mut Call) -> recado_core::ResponseId {
    let response = call.turn();
    call.call_tool("c");
    response
}

/// A closing that waits behind a hold that is over, so that it has not been announced.
fn waiting() -> Call {
    let mut call = Call::new();
    call.give(Input::FloorHeld(true));
    call.offer(1);
    call
}

#[test]
fn the_closing_that_is_asked_for_is_itself_the_answer() {
    let mut call = waiting();
    let response = asks_again(&mut call);
    let effects = call.accepted("c", response, about_to_be_told(1), "in a moment");
    assert_eq!(spoken(&effects), Vec::<String>::new());
    call.say("and then");
    assert_eq!(claims(&call.give(Input::FloorHeld(false))), [(1, Route::Ride)]);
    assert_eq!(spoken(&call.claimed(1)), ["closing 1", "and then"], "in the place of the answer, and what follows after it");
}

#[test]
fn a_closing_that_is_not_granted_to_the_response_that_asks_for_it_leaves_the_plain_answer() {
    let mut call = waiting();
    let response = asks_again(&mut call);
    call.accepted("c", response, about_to_be_told(1), "in a moment");
    call.give(Input::FloorHeld(false));
    assert_eq!(spoken(&call.claim_refused(1)), ["in a moment"]);
    let mut call = waiting();
    let response = asks_again(&mut call);
    call.accepted("c", response, about_to_be_told(1), "in a moment");
    assert_eq!(spoken(&call.give(Input::Identified(Identity::Unknown))), ["in a moment"], "not for whoever is on the line now");
    let mut call = waiting();
    let response = asks_again(&mut call);
    call.accepted("c", response, about_to_be_told(1), "in a moment");
    assert_eq!(spoken(&call.news(News::Withdrawn { delivery: DeliveryId(1) })), ["in a moment"]);
}

#[test]
fn a_closing_that_does_not_wait_here_is_no_answer_and_one_that_is_asked_for_twice_is_one() {
    let mut call = waiting();
    let response = asks_again(&mut call);
    let effects = call.accepted("c", response, about_to_be_told(2), "in a moment");
    assert_eq!(spoken(&effects), ["in a moment"]);
    let mut call = waiting();
    let response = asks_again(&mut call);
    call.call_tool("d");
    call.accepted("c", response, about_to_be_told(1), "in a moment");
    call.accepted("d", response, about_to_be_told(1), "in a moment");
    call.give(Input::FloorHeld(false));
    call.complete();
    assert_eq!(spoken(&call.claimed(1)), ["closing 1"]);
    call.play("closing 1", 1_000);
    assert_eq!(call.conversation.clocks().generation, None, "nothing of it is left to say");
}

#[test]
fn what_rides_on_the_response_already_answers_a_call_for_the_same_thing() {
    let mut call = waiting();
    let response = call.turn();
    assert_eq!(claims(&call.give(Input::FloorHeld(false))), [(1, Route::Ride)]);
    call.call_tool("c");
    assert_eq!(spoken(&call.claimed(1)), ["closing 1"]);
    call.say("and then");
    assert_eq!(spoken(&call.accepted("c", response, about_to_be_told(1), "in a moment")), ["and then"]);
}

#[test]
fn a_reply_without_words_waits_for_what_is_to_ride_on_it() {
    let mut call = waiting();
    call.turn();
    assert_eq!(claims(&call.give(Input::FloorHeld(false))), [(1, Route::Ride)]);
    call.complete();
    assert_eq!(call.conversation.clocks().generation, Some(GenerationState::Complete));
    assert_eq!(spoken(&call.claimed(1)), ["closing 1"]);
}

#[test]
fn a_reply_that_is_being_said_does_not_wait_for_what_is_to_ride_late_on_it() {
    let mut call = waiting();
    call.turn();
    call.say("one");
    call.start("one", 1_000);
    let mut overdue = envelope(2);
    overdue.max_wait_ms = 0;
    call.give(Input::FloorHeld(false));
    assert_eq!(claims(&call.news(News::Offered(overdue))), [(2, Route::Ride)]);
    assert_eq!(spoken(&call.say("two")), ["two"]);
}

#[test]
fn two_refusals_of_one_response_are_said_once_and_each_is_told_to_the_model() {
    let mut call = Call::new();
    let response = call.turn();
    for call_id in ["c", "d"] {
        call.call_tool(call_id);
    }
    let refused = |call_id: &str| News::Refused { call_id: call_id.into(), response, reason: "full".into(), say: "not now".into() };
    let mut effects = call.news(refused("c"));
    assert_eq!(spoken(&effects), ["not now"]);
    effects.extend(call.news(refused("d")));
    assert_eq!(spoken(&effects), ["not now"]);
    let told = |effect: &&Effect| matches!(effect, Effect::ToolOutput { operation: None, status: ToolStatus::Refused, .. });
    assert_eq!(effects.iter().filter(told).count(), 2);
}

#[test]
fn an_answer_to_an_earlier_response_is_not_said_in_a_later_one() {
    let mut call = Call::new();
    let earlier = call.turn();
    call.call_tool("c");
    call.turn();
    let effects = call.accepted("c", earlier, None, "on it");
    assert_eq!(spoken(&effects), Vec::<String>::new(), "the turn that asked for it is over");
    assert!(matches!(effects[0], Effect::ToolOutput { status: ToolStatus::Running, .. }));
}

#[test]
fn an_acceptance_that_the_ledger_takes_too_long_for_does_not_hold_back_what_follows_and_is_said_when_it_comes() {
    let mut call = Call::new();
    let response = call.turn();
    call.call_tool("c");
    call.say("meanwhile");
    assert_eq!(spoken(&call.pass(2_999)), Vec::<String>::new());
    assert_eq!(spoken(&call.pass(1)), ["meanwhile"]);
    assert_eq!(spoken(&call.accepted("c", response, None, "on it")), ["on it"]);
}

#[test]
fn of_several_claims_that_were_given_up_each_has_its_own_late_refusal() {
    let mut call = quiet();
    call.offer(1);
    call.offer(2);
    assert_eq!(claims(&call.pass(5_000)), [(2, ANNOUNCE)]);
    assert_eq!(claims(&call.pass(5_000)), [(1, ANNOUNCE)], "given up, too");
    call.claim_refused(1);
    call.claim_refused(2);
    assert_eq!(claims(&call.pass(1_500)), [], "one claim is under way");
    assert_eq!(spoken(&call.claimed(1)), ["closing 1"]);
}

#[test]
fn a_response_that_says_something_else_has_not_answered_what_is_asked_for_again() {
    let mut call = waiting();
    let response = call.turn();
    call.say("one");
    call.start("one", 5_000);
    call.call_tool("c");
    call.say("and then");
    assert_eq!(spoken(&call.accepted("c", response, about_to_be_told(1), "in a moment")), Vec::<String>::new());
    assert_eq!(claims(&call.give(Input::FloorHeld(false))), [(1, Route::Ride)]);
    assert_eq!(spoken(&call.claimed(1)), ["closing 1", "and then"]);
}

#[test]
fn a_closing_that_waits_for_the_end_of_the_response_is_the_answer_already_and_no_other_is_claimed_meanwhile() {
    let mut call = Call::new();
    call.give(Input::FloorHeld(true));
    let mut last = envelope(1);
    last.ride = RidePosition::Last;
    call.news(News::Offered(last));
    let response = call.turn();
    assert_eq!(claims(&call.give(Input::FloorHeld(false))), [(1, Route::Ride)]);
    assert_eq!(spoken(&call.claimed(1)), Vec::<String>::new(), "the model may have more to say");
    assert_eq!(claims(&call.offer(2)), []);
    call.call_tool("c");
    assert_eq!(spoken(&call.accepted("c", response, about_to_be_told(1), "in a moment")), Vec::<String>::new());
    assert_eq!(spoken(&call.complete()), ["closing 1"]);
}

#[test]
fn an_urgent_closing_is_told_while_a_response_that_has_begun_waits_for_the_store() {
    let mut call = Call::new();
    call.turn();
    call.say("one");
    call.play("one", 1_000);
    call.call_tool("c");
    let mut urgent = envelope(1);
    urgent.priority = Priority::Urgent;
    assert_eq!(claims(&call.news(News::Offered(urgent))), [(1, ANNOUNCE)]);
    assert_eq!(spoken(&call.claimed(1)), ["closing 1"]);
}

#[test]
fn what_was_granted_too_late_and_given_back_has_waited_since_it_was_first_offered() {
    let mut call = quiet();
    let mut patient = envelope(1);
    patient.max_wait_ms = 8_000;
    call.news(News::Offered(patient.clone()));
    call.pass(5_000);
    call.give(Input::FloorHeld(true));
    assert_eq!(released(&call.claimed(1)), [1]);
    call.news(News::Offered(patient));
    call.turn();
    call.say("one");
    call.start("one", 10_000);
    assert_eq!(claims(&call.give(Input::FloorHeld(false))), [], "it waits for the end of what is being said");
    assert_eq!(claims(&call.pass(1_399)), []);
    assert_eq!(claims(&call.pass(1)), [(1, Route::Ride)], "eight seconds after it was offered");
}

#[test]
fn a_late_grant_of_an_announcement_does_not_serve_a_claim_for_a_place_in_the_response() {
    let mut call = quiet();
    assert_eq!(claims(&call.offer(1)), [(1, ANNOUNCE)]);
    call.give(Input::FloorHeld(true));
    call.pass(5_000);
    call.turn();
    assert_eq!(claims(&call.give(Input::FloorHeld(false))), [(1, Route::Ride)]);
    let late = call.claimed(1);
    assert_eq!((released(&late), spoken(&late).len()), (vec![1], 0));
    call.claim_refused(1);
    assert_eq!(claims(&call.offer(1)), [(1, Route::Ride)], "the claim has gone back, and it is offered again");
    assert_eq!(spoken(&call.claimed(1)), ["closing 1"]);
}
