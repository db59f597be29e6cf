//! The model has teeth: with one rule of the contract broken, it finds the caller or the account that suffers from it.

use std::collections::BTreeSet;

use recado_protocol::action::Action;
use recado_protocol::alphabet::Scope;
use recado_protocol::laws;
use recado_protocol::model::Model;
use recado_protocol::scope::{CALM, COMPETE, CUT, RETRY, TELL};
use recado_protocol::specification::Broken;
use stateright::{Checker, HasDiscoveries, Model as _};

/// The shortest way in which a broken rule breaks a law.
fn counterexample(scope: Scope, broken: Broken, law: &'static str) -> Vec<Action> {
    let finish = HasDiscoveries::AllOf(BTreeSet::from([law]));
    let checker = Model::broken(scope, broken).checker().finish_when(finish).spawn_bfs().join();
    let path = checker.discovery(law).map(|path| path.into_actions());
    println!("{broken:?} breaks {law:?}: {path:?}");
    path.unwrap_or_else(|| panic!("{broken:?} is not refuted by {law:?}, but by {:?}", checker.discoveries().keys()))
}

fn cuts_power(path: &[Action]) -> bool {
    path.iter().any(|action| matches!(action, Action::PowerCut { .. }))
}

#[test]
fn to_speak_before_the_claim_is_durable_tells_it_twice_after_a_power_cut() {
    let path = counterexample(TELL, Broken::SpeaksBeforeDurable, laws::AGAIN_ONLY_IN_DOUBT);
    assert!(cuts_power(&path));
    counterexample(TELL, Broken::SpeaksBeforeDurable, laws::SPEAKING_IS_CLAIMED);
}

#[test]
fn to_answer_before_the_result_is_durable_loses_it_in_a_power_cut() {
    counterexample(TELL, Broken::AnswersBeforeDurable, laws::ACKNOWLEDGED_IS_DURABLE);
}

#[test]
fn to_send_before_the_attempt_is_durable_does_it_twice_after_a_power_cut() {
    let path = counterexample(RETRY, Broken::SendsBeforeDurable, laws::ONE_EFFECT);
    assert!(cuts_power(&path));
    counterexample(CALM, Broken::SendsBeforeDurable, laws::ACCEPTED_IS_DURABLE);
    counterexample(RETRY, Broken::SendsBeforeDurable, laws::SENT_IS_DURABLE);
}

#[test]
fn to_make_what_was_speaking_ready_again_tells_it_twice_after_a_power_cut() {
    let path = counterexample(TELL, Broken::ReadyAfterRestart, laws::AGAIN_ONLY_IN_DOUBT);
    assert!(cuts_power(&path));
}

#[test]
fn to_credit_an_ended_playback_takes_for_heard_what_was_not() {
    let path = counterexample(CUT, Broken::CreditsEndedPlayback, laws::SPOKEN_WAS_HEARD);
    assert!(path.iter().any(|action| matches!(action, Action::EndedReport(_))));
}

#[test]
fn to_retry_though_it_may_have_been_executed_does_it_twice() {
    // A lost answer is enough.
    counterexample(Scope { lost_answers: 1, ..CALM }, Broken::RetriesThoughMaybe, laws::ONE_EFFECT);
}

#[test]
fn to_share_a_claim_has_two_conversations_tell_the_same_thing() {
    counterexample(COMPETE, Broken::ClaimIsShared, laws::ONE_TELLER);
}
