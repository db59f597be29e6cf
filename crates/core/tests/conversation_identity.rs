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
    assert!(asks_model(&keys(&mut call, "1")));
    assert!(never_told(&call));
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
    assert!(!call.conversation.next_key_is_secret());
}
