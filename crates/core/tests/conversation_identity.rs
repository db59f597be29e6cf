//! Who may hear it: a caller who is known by their word alone is asked for a PIN, and until it is right hears nothing of
//! what waits but that it does.

mod conversation_rig;

use conversation_rig::*;
use recado_core::conversation::*;
use recado_core::ledger::News;
use recado_core::policy::{Audience, Localised};

const ASK: &str = "key it in";
const AGAIN: &str = "once more";
const NOT_VERIFIED: &str = "it stays";
const WAITING: &str = "something waits";

fn texts() -> Verification {
    let es = |text: &str| Localised { es: Some(text.into()), en: None };
    Verification {
        say_ask: es(ASK),
        say_again: es(AGAIN),
        say_not_verified: es(NOT_VERIFIED),
        say_waiting: es(WAITING),
        ..Verification::default()
    }
}

fn quiet_with(verification: Option<Verification>) -> Call {
    let mut call = Call::with(|settings| settings.verification = verification);
    call.pass(5_000);
    call
}

fn private(call: &mut Call) -> Vec<Effect> {
    call.news(News::Offered(recado_core::ledger::DeliveryEnvelope { audience: Audience::VerifiedParty, ..envelope(1) }))
}

/// A caller who has heard that they are to key a PIN in.
fn asked() -> Call {
    let mut call = quiet_with(Some(texts()));
    assert_eq!(spoken(&private(&mut call)), [ASK], "it has been quiet for long enough");
    call.play(ASK, 2_000);
    call
}

fn keys(call: &mut Call, keys: &str) -> Vec<Effect> {
    keys.chars().flat_map(|key| call.give(Input::Digit(key))).collect()
}

fn given(effects: &[Effect]) -> Vec<(u32, String)> {
    let pin = |effect: &Effect| match effect {
        Effect::Verify { attempt, digits } => Some((*attempt, digits.expose().to_owned())),
        _ => None,
    };
    effects.iter().filter_map(pin).collect()
}

fn outcome(call: &mut Call, attempt: u32, outcome: VerificationOutcome) -> Vec<Effect> {
    call.give(Input::Verified { attempt, outcome })
}

fn asks_model(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::Respond { .. }))
}

fn never_told(call: &Call) -> bool {
    claims(&call.effects).is_empty() && !spoken(&call.effects).iter().any(|text| text.starts_with("closing"))
}

#[test]
fn a_right_pin_has_the_delivery_told_at_once_and_the_model_hears_of_no_key() {
    let mut call = asked();
    let effects = keys(&mut call, "1234#");
    assert_eq!(given(&effects), [(1, "1234".to_owned())]);
    assert!(!asks_model(&effects) && never_told(&call));
    let shown = format!("{effects:?} {:?}", call.conversation);
    assert!(!shown.contains("1234"), "{shown}");
    call.pass(1_000);
    let effects = outcome(&mut call, 1, VerificationOutcome::Verified);
    assert_eq!(claims(&effects).len(), 1);
    assert_eq!(spoken(&call.claimed(1)), ["closing 1"]);
}

#[test]
fn a_wrong_pin_is_asked_for_again_so_many_times_and_then_the_message_stays() {
    let mut call = asked();
    for attempt in 1..=2 {
        keys(&mut call, "9999#");
        assert_eq!(spoken(&outcome(&mut call, attempt, VerificationOutcome::NotVerified)), [AGAIN]);
        call.play(AGAIN, 1_000);
    }
    assert_eq!(given(&keys(&mut call, "8888#")), [(3, "8888".to_owned())]);
    assert_eq!(spoken(&outcome(&mut call, 3, VerificationOutcome::NotVerified)), [NOT_VERIFIED]);
    call.play(NOT_VERIFIED, 1_000);
    assert_eq!(spoken(&call.pass(120_000)), Vec::<String>::new(), "once a call");
    assert!(never_told(&call));
}

#[test]
fn who_is_locked_out_hears_no_more_than_who_was_wrong_too_often() {
    for ends in [VerificationOutcome::Locked, VerificationOutcome::Unavailable] {
        let mut call = asked();
        keys(&mut call, "1234#");
        assert_eq!(spoken(&outcome(&mut call, 1, ends)), [NOT_VERIFIED]);
        assert!(never_told(&call));
    }
}

#[test]
fn a_verifier_that_does_not_answer_holds_the_floor_no_longer_than_its_time_and_its_late_word_counts() {
    let mut call = asked();
    keys(&mut call, "1234#");
    assert_eq!(spoken(&call.pass(4_999)), Vec::<String>::new());
    assert_eq!(spoken(&call.pass(1)), [NOT_VERIFIED]);
    call.play(NOT_VERIFIED, 1_000);
    call.pass(1_000);
    assert_eq!(claims(&outcome(&mut call, 1, VerificationOutcome::Verified)).len(), 1);
}

#[test]
fn a_late_word_is_about_who_was_on_the_line_then() {
    let mut call = asked();
    keys(&mut call, "1234#");
    call.give(Input::Identified(Identity::Unknown));
    outcome(&mut call, 1, VerificationOutcome::Verified);
    call.pass(10_000);
    assert!(never_told(&call));
    let mut call = asked();
    outcome(&mut call, 1, VerificationOutcome::Verified);
    assert!(never_told(&call), "nothing was keyed in yet");
}

#[test]
fn keys_without_an_end_are_given_after_a_pause_and_a_star_begins_anew() {
    let mut call = asked();
    assert_eq!(given(&keys(&mut call, "99*1234")), []);
    assert_eq!(given(&call.pass(7_999)), []);
    assert_eq!(given(&call.pass(1)), [(1, "1234".to_owned())]);
}

#[test]
fn who_keys_nothing_in_gives_the_floor_back_and_keys_are_turns_again() {
    let mut call = asked();
    assert!(!asks_model(&keys(&mut call, "#")));
    call.pass(8_000);
    let told_meanwhile = call.offer(2);
    assert_eq!(claims(&told_meanwhile).len(), 1, "the floor is free");
    call.pass(8_000);
    assert!(asks_model(&keys(&mut call, "1")));
    assert!(!claims(&call.effects).iter().any(|(delivery, _)| *delivery == 1));
}

#[test]
fn who_talks_instead_is_answered_and_not_asked_again() {
    let mut call = quiet_with(Some(texts()));
    private(&mut call);
    call.start(ASK, 4_000);
    call.turn();
    call.cleared(ASK, Some(500));
    call.give(Input::Model(ModelEvent::TurnWasNoise { turn: call.conversation.turn() }));
    call.complete();
    assert!(!spoken(&call.pass(60_000)).iter().any(|text| text == ASK));
    assert!(asks_model(&keys(&mut call, "1")), "no PIN is awaited any more");
    assert!(never_told(&call));
}

#[test]
fn the_first_key_cuts_what_asks_for_it_and_nothing_of_that_is_said_later() {
    let mut call = quiet_with(Some(texts()));
    private(&mut call);
    call.start(ASK, 4_000);
    let effects = keys(&mut call, "1");
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Clear { .. })));
    call.cleared(ASK, Some(100));
    assert_eq!(spoken(&keys(&mut call, "234#")), Vec::<String>::new());
}

#[test]
fn nobody_is_asked_who_is_unknown_or_where_it_is_not_wanted() {
    for verification in [None, Some(Verification { announce_waiting: false, ..texts() })] {
        let mut call = quiet_with(verification);
        private(&mut call);
        call.pass(60_000);
        assert!(spoken(&call.effects).is_empty() && never_told(&call));
    }
    let mut call = quiet_with(Some(texts()));
    call.give(Input::Identified(Identity::Unknown));
    private(&mut call);
    call.pass(60_000);
    assert!(spoken(&call.effects).is_empty());
}

#[test]
fn it_waits_for_the_moment_in_which_the_delivery_would_be_told() {
    let mut call = quiet_with(Some(texts()));
    call.turn();
    call.say("a reply");
    private(&mut call);
    call.play("a reply", 1_000);
    call.complete();
    assert_eq!(spoken(&call.pass(649)), Vec::<String>::new());
    assert_eq!(spoken(&call.pass(1)), [ASK]);
}

#[test]
fn a_machine_is_told_once_that_something_waits_and_nothing_else() {
    let mut call = quiet_with(Some(texts()));
    call.give(Input::Voicemail);
    assert_eq!(spoken(&private(&mut call)), [WAITING]);
    call.play(WAITING, 1_000);
    call.played();
    call.offer(2);
    assert_eq!(spoken(&call.pass(60_000)), Vec::<String>::new());
    assert!(never_told(&call));
}

#[test]
fn what_the_verifier_says_of_a_pin_does_not_count_for_whoever_is_on_the_line_afterwards() {
    let mut call = asked();
    assert_eq!(given(&keys(&mut call, "4321#")), [(1, "4321".to_owned())]);
    call.give(Input::Identified(Identity::Unknown));
    call.give(Input::Identified(Identity::CallersWord));
    let effects = outcome(&mut call, 1, VerificationOutcome::Verified);
    assert_eq!((claims(&effects), spoken(&effects)), (vec![], vec![]), "nobody on this line has been verified");
    call.pass(5_000);
    assert!(never_told(&call));
}

fn told(effects: &[Effect]) -> Vec<VerificationOutcome> {
    let outcome = |effect: &Effect| match effect {
        Effect::Verification { outcome } => Some(*outcome),
        _ => None,
    };
    effects.iter().filter_map(outcome).collect()
}

/// A response of the model that is under way, to something that the caller has said.
fn answers(call: &mut Call) -> recado_core::ResponseId {
    call.give(Input::Digit('1'));
    call.response()
}

#[test]
fn a_model_that_asks_for_a_pin_is_told_what_it_came_to_and_no_key() {
    let mut call = quiet_with(Some(texts()));
    let response = answers(&mut call);
    call.give(Input::Model(ModelEvent::AskForPin { response }));
    call.give(Input::Model(ModelEvent::Complete { response }));
    let effects = keys(&mut call, "4715#");
    assert_eq!(given(&effects), [(1, "4715".to_owned())]);
    assert!(!asks_model(&effects));
    let effects = outcome(&mut call, 1, VerificationOutcome::NotVerified);
    assert_eq!((told(&effects), spoken(&effects).len()), (vec![VerificationOutcome::NotVerified], 0), "the model says it");
    assert!(asks_model(&effects), "it is asked to speak of it");
}

#[test]
fn a_pin_that_the_model_was_told_goes_to_the_verifier_and_opens_what_waits() {
    let mut call = quiet_with(Some(texts()));
    let response = answers(&mut call);
    let effects = call.give(Input::Model(ModelEvent::VerifyCaller { response, pin: "4715".to_owned().into() }));
    assert_eq!(given(&effects), [(1, "4715".to_owned())]);
    private(&mut call);
    call.give(Input::Model(ModelEvent::Complete { response }));
    assert!(never_told(&call));
    let effects = outcome(&mut call, 1, VerificationOutcome::Verified);
    assert_eq!(told(&effects), [VerificationOutcome::Verified]);
    call.pass(5_000);
    assert_eq!(claims(&call.effects).len(), 1);
}

#[test]
fn a_model_that_guesses_is_given_no_more_attempts_than_a_caller() {
    let mut call = quiet_with(Some(texts()));
    let response = answers(&mut call);
    let guesses = |call: &mut Call| call.give(Input::Model(ModelEvent::VerifyCaller { response, pin: "4715".to_owned().into() }));
    for attempt in 1..=3 {
        assert_eq!(given(&guesses(&mut call)).len(), 1);
        outcome(&mut call, attempt, VerificationOutcome::NotVerified);
    }
    let effects = guesses(&mut call);
    assert_eq!((given(&effects).len(), told(&effects)), (0, vec![VerificationOutcome::Locked]));
}

#[test]
fn without_verification_a_model_is_told_that_there_is_none() {
    let mut call = quiet_with(None);
    let response = answers(&mut call);
    let effects = call.give(Input::Model(ModelEvent::AskForPin { response }));
    assert_eq!(told(&effects), [VerificationOutcome::Unavailable]);
    assert!(!call.conversation.next_key_is_secret());
}

#[test]
fn keys_of_a_pin_are_known_to_be_secret_and_are_written_nowhere() {
    let mut call = asked();
    assert!(call.conversation.next_key_is_secret());
    let effects = keys(&mut call, "4715#");
    let written = serde_json::to_string(&effects).unwrap();
    assert!(written.contains("\"0000\"") && !written.contains("4715"), "{written}");
    assert!(call.conversation.next_key_is_secret(), "a key too many");
    outcome(&mut call, 1, VerificationOutcome::Verified);
    assert!(call.conversation.next_key_is_secret(), "a key that comes late");
    call.pass(8_000);
    assert!(!call.conversation.next_key_is_secret());
}

fn coughs(call: &mut Call) {
    call.turn();
    call.give(Input::Model(ModelEvent::TurnWasNoise { turn: call.conversation.turn() }));
    call.complete();
}

fn all_secret(call: &mut Call, pressed: &str) -> Vec<Effect> {
    let mut effects = Vec::new();
    for key in pressed.chars() {
        assert!(call.conversation.next_key_is_secret(), "{key} of {pressed}");
        effects.extend(call.give(Input::Digit(key)));
    }
    assert!(!asks_model(&effects), "{effects:?}");
    effects
}

#[test]
fn a_noise_between_the_keys_of_a_pin_shows_none_of_them_to_the_model() {
    let mut call = asked();
    all_secret(&mut call, "47");
    coughs(&mut call);
    let effects = all_secret(&mut call, "15#");
    assert_eq!(given(&effects), [(1, "4715".to_owned())]);
    outcome(&mut call, 1, VerificationOutcome::Verified);
    assert_eq!(claims(&call.pass(1_000)).len(), 1);
}

#[test]
fn a_noise_that_is_not_known_for_one_shows_the_model_no_key_either() {
    let mut call = asked();
    all_secret(&mut call, "47");
    call.turn();
    assert_eq!(given(&all_secret(&mut call, "15#")), [(1, "4715".to_owned())]);
}

#[test]
fn who_says_something_and_then_keys_nothing_in_is_not_held_to_the_keys_before() {
    let mut call = asked();
    all_secret(&mut call, "4715");
    call.turn();
    call.complete();
    assert_eq!(given(&call.pass(60_000)), []);
    assert!(asks_model(&keys(&mut call, "1")), "no PIN is awaited any more");
}

#[test]
fn keys_behind_the_end_are_secret_until_they_have_paused_for_long_enough() {
    let ends = |ends: VerificationOutcome| {
        let mut call = asked();
        keys(&mut call, "1234#");
        outcome(&mut call, 1, ends);
        call
    };
    let mut call = ends(VerificationOutcome::Locked);
    call.play(NOT_VERIFIED, 9_000);
    call.pass(5_000);
    assert_eq!(given(&all_secret(&mut call, "1234#")), []);
    call.pass(7_999);
    all_secret(&mut call, "1");
    call.pass(8_000);
    assert!(!call.conversation.next_key_is_secret());
    assert!(asks_model(&keys(&mut call, "1")));

    let mut call = asked();
    keys(&mut call, "1234#");
    assert_eq!(spoken(&call.pass(5_000)), [NOT_VERIFIED], "the verifier did not answer");
    all_secret(&mut call, "1234#");
}

#[test]
fn keys_without_end_are_not_kept_from_the_model_for_ever() {
    let mut call = asked();
    keys(&mut call, "1234#");
    outcome(&mut call, 1, VerificationOutcome::Locked);
    call.play(NOT_VERIFIED, 1_000);
    let reached = (0..60).any(|_| {
        call.pass(2_000);
        asks_model(&keys(&mut call, "1"))
    });
    assert!(reached);
}

#[test]
fn the_end_key_behind_a_pin_that_was_complete_cuts_nothing_of_what_it_opened() {
    let mut call = asked();
    assert_eq!(given(&keys(&mut call, "471547154715")).len(), 1);
    call.pass(100);
    outcome(&mut call, 1, VerificationOutcome::Verified);
    call.pass(1_000);
    call.claimed(1);
    call.start("closing 1", 3_000);
    let effects = all_secret(&mut call, "#");
    assert_eq!(clears(&effects), 0);
}

#[test]
fn keys_that_the_model_collects_afterwards_are_for_it() {
    let mut call = asked();
    keys(&mut call, "4715#");
    outcome(&mut call, 1, VerificationOutcome::Verified);
    call.turn();
    let response = call.response();
    call.give(Input::Model(ModelEvent::CollectDigits { response, digits_max: 1, end: None, wait_ms: 5_000 }));
    assert!(!call.conversation.next_key_is_secret());
    assert!(causes(&keys(&mut call, "1")).iter().any(|cause| matches!(cause, Cause::Digits { .. })));
}

#[test]
fn who_has_to_look_for_the_pin_may_key_it_in_late() {
    let mut call = asked();
    call.pass(9_000);
    assert_eq!(given(&all_secret(&mut call, "4715#")), [(1, "4715".to_owned())]);
}

#[test]
fn a_model_is_told_what_it_asked_for_whatever_the_caller_says_meanwhile() {
    for verified in [true, false] {
        let mut call = quiet_with(Some(texts()));
        let response = answers(&mut call);
        call.give(Input::Model(ModelEvent::VerifyCaller { response, pin: "4715".to_owned().into() }));
        call.turn();
        let ends = if verified { VerificationOutcome::Verified } else { VerificationOutcome::NotVerified };
        assert_eq!(told(&outcome(&mut call, 1, ends)), [ends]);
        assert_eq!(told(&call.pass(60_000)), [], "once");
    }
    let mut call = quiet_with(Some(texts()));
    let response = answers(&mut call);
    call.give(Input::Model(ModelEvent::VerifyCaller { response, pin: "4715".to_owned().into() }));
    assert_eq!(told(&call.give(Input::Identified(Identity::Unknown))), [VerificationOutcome::NotVerified]);
}

#[test]
fn what_a_pin_came_to_is_told_when_there_is_room_where_the_caller_speaks_meanwhile() {
    for late in [false, true] {
        let mut call = asked();
        keys(&mut call, "9999#");
        call.turn();
        call.say("a reply");
        call.complete();
        call.start("a reply", 6_000);
        if late {
            call.pass(5_000);
        } else {
            outcome(&mut call, 1, VerificationOutcome::NotVerified);
        }
        assert_eq!(spoken(&call.effects), [ASK, "a reply"], "the model answers first");
        assert_eq!(spoken(&call.sent("a reply", 6_000)), [if late { NOT_VERIFIED } else { AGAIN }]);
    }
}

#[test]
fn nobody_is_asked_whether_they_are_there_or_hung_up_on_while_a_pin_is_awaited() {
    let mut call = Call::with(|settings| {
        settings.verification = Some(texts());
        settings.silence_ms = Some(6_000);
    });
    call.pass(5_000);
    private(&mut call);
    call.play(ASK, 1_000);
    let effects = call.pass(7_000);
    assert!(!asks_model(&effects), "{effects:?}");
    keys(&mut call, "4715");
    assert!(!asks_model(&call.pass(7_999)));

    let mut call = quiet_with(Some(texts()));
    let response = answers(&mut call);
    call.give(Input::Model(ModelEvent::AskForPin { response }));
    call.give(Input::Model(ModelEvent::HangUp { response }));
    call.give(Input::Model(ModelEvent::Complete { response }));
    assert!(!call.pass(7_999).contains(&Effect::HangUp));
}

#[test]
fn a_pause_counts_from_the_end_of_what_the_model_says() {
    let mut call = quiet_with(Some(texts()));
    let response = answers(&mut call);
    call.give(Input::Model(ModelEvent::AskForPin { response }));
    assert_eq!(told(&call.pass(9_000)), [], "the model has not said yet what is wanted");
    call.give(Input::Model(ModelEvent::Complete { response }));
}

#[test]
fn fewer_keys_than_a_pin_has_are_asked_for_again_and_given_to_nobody_but_not_for_ever() {
    let mut call = asked();
    for _ in 1..=2 {
        let effects = all_secret(&mut call, "47#");
        assert_eq!((given(&effects), spoken(&effects)), (vec![], vec![AGAIN.to_owned()]));
        call.play(AGAIN, 1_000);
    }
    all_secret(&mut call, "471");
    let effects = call.pass(8_000);
    assert_eq!((given(&effects), spoken(&effects)), (vec![], vec![NOT_VERIFIED.to_owned()]), "the last key was left out");

    let mut call = quiet_with(Some(texts()));
    let response = answers(&mut call);
    let guess = |call: &mut Call| call.give(Input::Model(ModelEvent::VerifyCaller { response, pin: "47".to_owned().into() }));
    let says: Vec<_> = (0..4).flat_map(|_| guess(&mut call)).collect();
    assert_eq!(given(&says), []);
    use VerificationOutcome::{Locked, NotVerified};
    assert_eq!(told(&says), [NotVerified, NotVerified, Locked, Locked]);
}
