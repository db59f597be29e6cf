//! The life cycle of deliveries: offers, cuts, doubt, corrections, age.

mod ledger_rig;

use ledger_rig::*;
use recado_core::DeliveryId;
use recado_core::ledger::*;
use recado_core::policy::{Language, Localised, ToolPolicy, UncertainPolicy};
use serde_json::json;

fn ready(policy: impl Fn(&mut ToolPolicy)) -> (Rig, DeliveryId) {
    let mut policies = policies();
    policies.values_mut().for_each(policy);
    let mut rig = Rig::with(policies);
    rig.up(CALL, "ana");
    let operation = rig.order("pay", 1);
    rig.done(operation);
    let delivery = rig.waiting().id;
    (rig, delivery)
}

fn speak(rig: &mut Rig, delivery: DeliveryId, verdicts: &[(u32, ClauseVerdict)]) {
    rig.claim(CALL, delivery);
    rig.give(Input::FirstFrame { session: CALL, delivery });
    rig.settled(CALL, delivery, verdicts);
}

/// A closing of three clauses: two operations, one with a long text.
fn long() -> (Rig, DeliveryId) {
    let mut policies = policies();
    let sentence = "Esta es una frase bastante larga que cuenta con detalle lo que ha pasado con la incidencia de hoy por la mañana.";
    policies.get_mut("ticket").unwrap().say.done = Localised { es: Some(format!("{sentence} {sentence}")), en: None };
    let mut rig = Rig::with(policies);
    rig.up(CALL, "ana");
    rig.ask(CALL, 1, 1, "pay", json!({}));
    let first = rig.accepted().operation;
    rig.ask(CALL, 1, 1, "ticket", json!({}));
    let second = rig.accepted().operation;
    rig.seal(CALL, 1);
    rig.done(first);
    rig.done(second);
    let delivery = rig.waiting();
    assert_eq!(delivery.clauses.len(), 3);
    (rig, delivery.id)
}

#[test]
fn a_closing_cut_after_some_clauses_goes_on_at_the_first_unheard_one() {
    let (mut rig, delivery) = long();
    speak(&mut rig, delivery, &[(0, HEARD), (1, UNHEARD), (2, UNHEARD)]);
    assert_eq!((rig.delivery(delivery), rig.waiting().attempt), (DeliveryState::Ready, 1));
    let told: Vec<_> = rig.tell(CALL, delivery).iter().map(|spoken| spoken.clause).collect();
    assert_eq!(told, [Some(1), Some(2)]);
    assert_eq!(rig.delivery(delivery), DeliveryState::Spoken);
}

#[test]
fn a_clause_that_was_never_given_to_the_voice_is_unheard() {
    let (mut rig, delivery) = long();
    speak(&mut rig, delivery, &[(0, HEARD)]);
    assert_eq!((rig.delivery(delivery), rig.waiting().attempt), (DeliveryState::Ready, 1));
}

#[test]
fn after_three_cuts_a_closing_only_rides() {
    let (mut rig, delivery) = ready(|_| {});
    for cut in 0..3 {
        let number = if cut == 0 { 0 } else { SpokenClause::SHORT };
        speak(&mut rig, delivery, &[(number, UNHEARD)]);
    }
    let ride_only: Vec<bool> =
        rig.news.iter().filter_map(|(_, news)| if let News::Offered(envelope) = news { Some(envelope.ride_only) } else { None }).collect();
    assert_eq!(ride_only, [false, false, false, true]);
}

#[test]
fn a_closing_in_doubt_is_told_again_with_a_hedge_and_counted() {
    let (mut rig, delivery) = ready(|_| {});
    speak(&mut rig, delivery, &[(0, UNCERTAIN)]);
    assert_eq!((rig.delivery(delivery), rig.waiting().attempt), (DeliveryState::Uncertain, 1));
    assert_eq!(rig.told(CALL, delivery).last(), Some(&"offered"));
    let told = rig.tell(CALL, delivery);
    assert_eq!(texts(&told), ["Puede que ya te lo haya dicho:", "Pagado 7."]);
    assert_eq!(told[0].clause, None);
    assert_eq!((rig.count(&LedgerMeasure::Uncertain), rig.count(&LedgerMeasure::DuplicateDelivery)), (1, 1));
}

#[test]
fn a_closing_in_doubt_is_repeated_plainly_or_not_at_all_where_the_policy_says_so() {
    let (mut rig, delivery) = ready(|policy| policy.uncertain = UncertainPolicy::Repeat);
    speak(&mut rig, delivery, &[(0, UNCERTAIN)]);
    assert_eq!(texts(&rig.tell(CALL, delivery)), ["Pagado 7."]);
    let (mut rig, delivery) = ready(|policy| policy.uncertain = UncertainPolicy::Suppress);
    speak(&mut rig, delivery, &[(0, UNCERTAIN)]);
    assert_eq!(rig.delivery(delivery), DeliveryState::Suppressed);
    assert!(rig.ledger.pending().is_empty());
}

#[test]
fn a_closing_told_in_doubt_so_often_stays_visible_until_it_is_asked_for() {
    let (mut rig, delivery) = ready(|_| {});
    for _ in 0..DOUBTS_MAX {
        speak(&mut rig, delivery, &[(0, UNCERTAIN)]);
    }
    assert_eq!((rig.delivery(delivery), rig.waiting().attempt), (DeliveryState::Uncertain, DOUBTS_MAX));
    let offered = |rig: &Rig| rig.told(CALL, delivery).iter().filter(|what| **what == "offered").count();
    assert_eq!(offered(&rig), DOUBTS_MAX as usize, "nobody is told for ever what nobody confirms");
    rig.claim(CALL, delivery);
    assert_eq!(rig.delivery(delivery), DeliveryState::Uncertain, "nor by a claim that was under way");
    // Who asks again is told.
    rig.ask(CALL, 2, 2, "pay", json!({ "number": "1" }));
    assert_eq!(offered(&rig), DOUBTS_MAX as usize + 1);
    let told = rig.tell(CALL, delivery);
    assert_eq!(texts(&told), ["Puede que ya te lo haya dicho:", "Pagado 7."]);
    assert_eq!(rig.delivery(delivery), DeliveryState::Spoken);
}

#[test]
fn doubt_outlives_a_claim_that_is_given_back_or_cut() {
    let (mut rig, delivery) = ready(|_| {});
    speak(&mut rig, delivery, &[(0, UNCERTAIN)]);
    rig.claim(CALL, delivery);
    rig.give(Input::Release { session: CALL, delivery });
    assert_eq!((rig.delivery(delivery), rig.waiting().attempt), (DeliveryState::Uncertain, 1));
    speak(&mut rig, delivery, &[(0, UNHEARD)]);
    assert_eq!((rig.delivery(delivery), rig.waiting().attempt), (DeliveryState::Uncertain, 2));
    assert_eq!(rig.count(&LedgerMeasure::Uncertain), 1, "the same doubt is counted once");
}

#[test]
fn late_evidence_turns_doubt_into_spoken_and_stops_a_repeat_under_way() {
    let (mut rig, delivery) = ready(|_| {});
    speak(&mut rig, delivery, &[(0, UNCERTAIN)]);
    rig.over(CALL);
    rig.up(LATER_CALL, "ana");
    rig.claim(LATER_CALL, delivery);
    rig.give(Input::FirstFrame { session: LATER_CALL, delivery });
    rig.settled(CALL, delivery, &[(0, HEARD)]);
    assert_eq!(rig.delivery(delivery), DeliveryState::Spoken);
    assert_eq!(rig.told(LATER_CALL, delivery), ["offered", "claimed", "withdrawn"]);
    rig.settled(LATER_CALL, delivery, &[(0, UNHEARD)]);
    assert_eq!(rig.delivery(delivery), DeliveryState::Spoken, "nothing unmakes it");
}

#[test]
fn late_evidence_of_the_long_form_stops_the_short_form_of_the_same_call() {
    let (mut rig, delivery) = ready(|_| {});
    speak(&mut rig, delivery, &[(0, UNHEARD)]);
    rig.claim(CALL, delivery);
    rig.settled(CALL, delivery, &[(0, HEARD)]);
    assert_eq!(rig.delivery(delivery), DeliveryState::Spoken);
    assert_eq!(rig.told(CALL, delivery).last(), Some(&"withdrawn"));
}

#[test]
fn late_evidence_while_the_claim_of_a_repeat_is_being_committed_withdraws_the_repeat() {
    let (mut rig, delivery) = ready(|_| {});
    speak(&mut rig, delivery, &[(0, UNCERTAIN)]);
    rig.prompt = false;
    rig.claim(CALL, delivery);
    rig.settled(CALL, delivery, &[(0, HEARD)]);
    rig.prompt = true;
    rig.durable();
    assert_eq!(rig.delivery(delivery), DeliveryState::Spoken);
    assert_eq!(rig.told(CALL, delivery)[2..], ["offered", "claimed", "withdrawn"]);
    assert!(rig.store.claims.is_empty());
}

#[test]
fn late_evidence_of_a_part_leaves_a_claim_that_has_released_no_frame_as_it_is() {
    let (mut rig, delivery) = long();
    speak(&mut rig, delivery, &[(0, UNCERTAIN), (1, UNCERTAIN), (2, UNCERTAIN)]);
    rig.prompt = false;
    rig.claim(CALL, delivery);
    rig.settled(CALL, delivery, &[(0, HEARD)]);
    rig.prompt = true;
    rig.durable();
    let row = &rig.store.deliveries[&delivery];
    assert_eq!((row.state, row.attempt), (DeliveryState::Speaking, 1), "it is being told: no attempt is spent");
    assert!(row.clauses[0].heard.is_some() && rig.store.claims.contains_key(&delivery));
    assert_eq!(rig.told(CALL, delivery).last(), Some(&"claimed"));
    rig.give(Input::FirstFrame { session: CALL, delivery });
    rig.settled(CALL, delivery, &[(0, UNHEARD), (1, HEARD), (2, HEARD)]);
    assert_eq!(rig.delivery(delivery), DeliveryState::Spoken);
}

#[test]
fn a_claim_whose_audio_failed_before_any_frame_spends_an_attempt() {
    let (mut rig, delivery) = long();
    rig.claim(CALL, delivery);
    rig.settled(CALL, delivery, &[(0, UNHEARD), (1, UNHEARD), (2, UNHEARD)]);
    assert_eq!((rig.delivery(delivery), rig.waiting().attempt), (DeliveryState::Ready, 1));
    assert!(rig.store.claims.is_empty());
}

#[test]
fn evidence_from_a_conversation_that_never_had_it_credits_nothing() {
    let (mut rig, delivery) = ready(|_| {});
    rig.up(LATER_CALL, "ana");
    rig.settled(LATER_CALL, delivery, &[(0, HEARD)]);
    assert_eq!(rig.delivery(delivery), DeliveryState::Ready);
}

#[test]
fn a_lost_conversation_leaves_ready_what_had_no_frame_and_in_doubt_what_had() {
    for (frames, state, attempt) in [(false, DeliveryState::Ready, 0), (true, DeliveryState::Uncertain, 1)] {
        let (mut rig, delivery) = ready(|_| {});
        rig.claim(CALL, delivery);
        if frames {
            rig.give(Input::FirstFrame { session: CALL, delivery });
        }
        rig.over(CALL);
        assert_eq!((rig.delivery(delivery), rig.waiting().attempt), (state, attempt));
    }
}

#[test]
fn the_first_conversation_comes_first_and_others_get_what_it_leaves() {
    let mut rig = Rig::new();
    rig.up(CALL, "ana");
    rig.up(LATER_CALL, "ana");
    let operation = rig.order("pay", 1);
    rig.done(operation);
    let delivery = rig.waiting().id;
    assert_eq!((rig.told(CALL, delivery), rig.told(LATER_CALL, delivery)), (vec!["offered"], vec![]));
    rig.claim(LATER_CALL, delivery);
    assert_eq!(rig.told(LATER_CALL, delivery), ["refused"]);
    rig.over(CALL);
    assert_eq!(rig.told(LATER_CALL, delivery), ["refused", "offered"]);
}

#[test]
fn what_has_no_party_is_told_in_its_own_conversation_only() {
    let mut rig = Rig::new();
    rig.up(CALL, "");
    rig.up(LATER_CALL, "");
    let operation = rig.order("pay", 1);
    rig.done(operation);
    let delivery = rig.waiting().id;
    assert_eq!((rig.told(CALL, delivery), rig.told(LATER_CALL, delivery)), (vec!["offered"], vec![]));
    rig.over(CALL);
    rig.claim(LATER_CALL, delivery);
    assert_eq!(rig.told(LATER_CALL, delivery), ["refused"]);
}

#[test]
fn a_closing_is_told_in_the_language_of_the_conversation_that_tells_it() {
    let (mut rig, delivery) = ready(|_| {});
    speak(&mut rig, delivery, &[(0, UNCERTAIN)]);
    rig.over(CALL);
    rig.parties.insert(LATER_CALL, Some(recado_core::PartyId("ana".into())));
    rig.give(Input::SessionUp { session: LATER_CALL, party: Some(recado_core::PartyId("ana".into())), language: Language::En });
    assert_eq!(texts(&rig.tell(LATER_CALL, delivery)), ["I may have told you already:", "EN Pagado 7."]);
}

#[test]
fn a_closing_that_grows_stale_is_suppressed_and_its_batch_closes() {
    let (mut rig, delivery) = ready(|policy| policy.stale_after_ms = Some(60_000));
    rig.pass(60_000);
    assert_eq!(rig.delivery(delivery), DeliveryState::Ready);
    rig.pass(1);
    assert_eq!(rig.delivery(delivery), DeliveryState::Suppressed);
    assert_eq!(rig.told(CALL, delivery), ["offered", "withdrawn"]);
    assert_eq!(rig.store.batches.values().next().unwrap().state, BatchState::Closed);
    assert_eq!(rig.count(&LedgerMeasure::Suppressed), 1);
}

#[test]
fn staleness_is_judged_when_the_claim_is_committed() {
    let (mut rig, delivery) = ready(|policy| policy.stale_after_ms = Some(60_000));
    rig.pass(59_900);
    rig.prompt = false;
    rig.claim(CALL, delivery);
    rig.pass(200);
    rig.durable();
    assert_eq!(rig.told(CALL, delivery), ["offered", "refused"]);
    rig.durable();
    assert_eq!(rig.delivery(delivery), DeliveryState::Suppressed);
}

#[test]
fn over_a_restart_age_is_judged_only_between_synchronised_clocks() {
    for (synchronised, state) in [(true, DeliveryState::Suppressed), (false, DeliveryState::Ready)] {
        let (mut rig, delivery) = ready(|policy| policy.stale_after_ms = Some(60_000));
        rig.now = 5;
        rig.wall = recado_core::Wall { unix_ms: wall(3_600_000).unix_ms, synchronised };
        rig.crash(0);
        assert_eq!(rig.delivery(delivery), state);
    }
}

#[test]
fn what_is_stale_by_the_wall_clock_is_suppressed_also_when_the_first_commit_of_that_fails() {
    let (mut rig, delivery) = ready(|policy| policy.stale_after_ms = Some(60_000));
    rig.wall = wall(3_600_000);
    rig.prompt = false;
    rig.crash(0);
    rig.fail();
    rig.prompt = true;
    rig.pass(1_000);
    assert_eq!(rig.delivery(delivery), DeliveryState::Suppressed);
}

#[test]
fn an_unknown_that_was_heard_is_corrected_as_what_it_is() {
    let mut rig = Rig::new();
    rig.up(CALL, "ana");
    let operation = rig.order("pay", 1);
    rig.attempt_failed(operation, 1, Executed::Maybe);
    let closing = rig.waiting().id;
    assert_eq!(texts(&rig.tell(CALL, closing)), ["No se sabe."]);
    let request = rig.done(operation);
    assert_eq!(rig.answer(request), Some(CallbackAnswer::Recorded));
    let correction = rig.waiting();
    assert_eq!(correction.kind, DeliveryKind::Correction);
    assert_eq!(texts(&rig.tell(CALL, correction.id)), ["Una corrección: Pagado 7."]);
    assert_eq!(rig.delivery(closing), DeliveryState::Spoken);
}

#[test]
fn a_correction_that_takes_an_unheard_closings_place_tells_everything() {
    let mut rig = Rig::new();
    rig.up(CALL, "ana");
    rig.ask(CALL, 1, 1, "pay", json!({}));
    let first = rig.accepted().operation;
    rig.ask(CALL, 1, 1, "ticket", json!({}));
    let second = rig.accepted().operation;
    rig.seal(CALL, 1);
    rig.done(second);
    rig.attempt_failed(first, 1, Executed::Maybe);
    let closing = rig.waiting().id;
    rig.done(first);
    let correction = rig.waiting().id;
    assert_eq!(texts(&rig.tell(CALL, correction)), ["Pagado 7.", "Incidencia 7 abierta."]);
    assert_eq!(rig.delivery(closing), DeliveryState::Superseded);
}

#[test]
fn a_closing_cut_while_its_correction_waits_is_folded_into_it_without_what_was_heard() {
    let mut rig = Rig::new();
    rig.up(CALL, "ana");
    rig.ask(CALL, 1, 1, "ticket", json!({}));
    let first = rig.accepted().operation;
    rig.ask(CALL, 1, 1, "pay", json!({}));
    let second = rig.accepted().operation;
    rig.seal(CALL, 1);
    rig.done(first);
    rig.attempt_failed(second, 1, Executed::Maybe);
    let closing = rig.begins(CALL);
    rig.done(second);
    assert_eq!(rig.delivery(closing), DeliveryState::Speaking, "it is being spoken: the correction waits behind it");
    rig.settled(CALL, closing, &[(0, HEARD), (1, UNHEARD)]);
    let correction = rig.waiting().id;
    assert_eq!(rig.delivery(closing), DeliveryState::Superseded);
    assert_eq!(texts(&rig.tell(CALL, correction)), ["Una corrección: Pagado 7."]);
    assert_eq!(rig.store.batches.values().next().unwrap().state, BatchState::Closed);
}

#[test]
fn a_closing_cut_while_its_correction_is_being_told_is_not_told_before_that_has_ended() {
    let mut rig = Rig::new();
    rig.up(CALL, "ana");
    let operation = rig.order("pay", 1);
    rig.attempt_failed(operation, 1, Executed::Maybe);
    let closing = rig.begins(CALL);
    rig.done(operation);
    let correction = rig.ledger.pending()[1].id;
    rig.claim(CALL, correction);
    rig.settled(CALL, closing, &[(0, UNHEARD)]);
    assert_eq!((rig.delivery(closing), rig.told(CALL, closing).last()), (DeliveryState::Ready, Some(&"claimed")));
    rig.claim(CALL, closing);
    assert_eq!(rig.told(CALL, closing).last(), Some(&"refused"));
    rig.settled(CALL, correction, &[(0, HEARD)]);
    assert_eq!((rig.delivery(closing), rig.delivery(correction)), (DeliveryState::Superseded, DeliveryState::Spoken));
    assert_eq!(rig.store.batches.values().next().unwrap().state, BatchState::Closed);
}

#[test]
fn callers_who_never_call_again_do_not_keep_others_from_being_served() {
    let mut rig = Rig::new();
    rig.up(CALL, "ana");
    let first = rig.order("pay", 1);
    rig.done(first);
    for number in 2..=9_000 {
        let operation = rig.order("pay", number);
        rig.done(operation);
    }
    rig.over(CALL);
    rig.up(OTHERS_CALL, "bea");
    for number in 1..=1_100 {
        rig.ask(OTHERS_CALL, number, number, "ticket", json!({ "number": number.to_string() }));
        rig.seal(OTHERS_CALL, number);
    }
    assert_eq!(rig.refusals(), 0);
    let given_up: Vec<_> = rig.store.deliveries.values().filter(|row| row.state == DeliveryState::Suppressed).collect();
    assert!((1_000..=1_100).contains(&given_up.len()), "one for each that is new: {}", given_up.len());
    assert!(given_up.iter().any(|row| row.clauses[0].operation == first), "the oldest first");
    assert_eq!(rig.count(&LedgerMeasure::Suppressed), given_up.len());
}
