//! Progress, silent updates, contradictions, versions, and results that are taken back.

mod ledger_rig;

use ledger_rig::*;
use recado_core::OperationId;
use recado_core::ledger::*;
use recado_core::policy::{Localised, ProgressPolicy, ToolPolicy};
use serde_json::json;

fn called(change: impl Fn(&mut ToolPolicy)) -> Rig {
    let mut policies = policies();
    change(policies.get_mut("pay").unwrap());
    let mut rig = Rig::with(policies);
    rig.up(CALL, "ana");
    rig
}

fn says_progress(policy: &mut ToolPolicy) {
    policy.progress = ProgressPolicy::Say;
    policy.say.progress = Localised { es: Some("Voy por el {{ progress.percent }} %.".into()), en: None };
}

#[test]
fn progress_is_an_update_and_writes_nothing() {
    let mut rig = called(says_progress);
    let operation = rig.order("pay", 1);
    let commits = rig.commits;
    let request = rig.progress(operation, json!({ "percent": 40 }));
    assert_eq!((rig.answer(request), rig.commits), (Some(CallbackAnswer::Noted), commits));
    assert_eq!(rig.updates(CALL), ["Voy por el 40 %."]);
    assert_eq!(rig.operation(operation), OperationState::Running);
}

#[test]
fn progress_is_withdrawn_before_its_closing_is_offered() {
    let mut rig = called(says_progress);
    let operation = rig.order("pay", 1);
    rig.progress(operation, json!({ "percent": 40 }));
    let update =
        rig.news.iter().find_map(|(_, news)| if let News::Update { envelope, .. } = news { Some(envelope.delivery) } else { None });
    rig.done(operation);
    let closing = rig.waiting().id;
    let place = |wanted: &dyn Fn(&News) -> bool| rig.news.iter().position(|(_, news)| wanted(news)).expect("it was told");
    let withdrawn = place(&|news| matches!(news, News::Withdrawn { delivery } if Some(*delivery) == update));
    let offered = place(&|news| matches!(news, News::Offered(envelope) if envelope.delivery == closing));
    assert!(withdrawn < offered, "I19");
    let late = rig.progress(operation, json!({ "percent": 90 }));
    assert_eq!((rig.answer(late), rig.updates(CALL).len()), (Some(CallbackAnswer::Over), 1));
}

#[test]
fn a_tool_that_reports_without_end_is_heard_seldom_and_not_for_ever() {
    let mut rig = called(says_progress);
    let operation = rig.order("pay", 1);
    for percent in 0..20 {
        rig.progress(operation, json!({ "percent": percent }));
    }
    assert_eq!(rig.updates(CALL), ["Voy por el 0 %."]);
    rig.pass(5_000);
    rig.progress(operation, json!({ "percent": 50 }));
    assert_eq!(rig.updates(CALL).last().map(String::as_str), Some("Voy por el 50 %."), "the latest, not the next in a queue");
    for _ in 0..40 {
        rig.pass(5_000);
        rig.progress(operation, json!({ "percent": 60 }));
    }
    assert_eq!(rig.updates(CALL).len(), 32);
}

#[test]
fn progress_reaches_only_who_may_hear_it_and_only_where_the_policy_says_so() {
    let mut rig = called(|_| {});
    let operation = rig.order("pay", 1);
    let request = rig.progress(operation, json!({}));
    assert_eq!((rig.answer(request), rig.updates(CALL).len()), (Some(CallbackAnswer::Noted), 0), "off by default");
    let mut rig = called(|policy| policy.progress = ProgressPolicy::Silent);
    let operation = rig.order("pay", 1);
    rig.up(OTHERS_CALL, "bea");
    rig.progress(operation, json!({}));
    let of_kind = |news: &News| matches!(news, News::Update { envelope, .. } if envelope.kind == DeliveryKind::Silent);
    assert!(rig.news.iter().any(|(session, news)| *session == CALL && of_kind(news)));
    assert_eq!(rig.updates(OTHERS_CALL).len(), 0, "I14");
    let unknown = rig.progress(OperationId(77), json!({}));
    assert_eq!(rig.answer(unknown), Some(CallbackAnswer::Unknown));
}

#[test]
fn a_contradicting_result_corrects_what_was_told_once_and_the_first_wins() {
    let mut rig = called(|_| {});
    let operation = rig.order("pay", 1);
    rig.done(operation);
    let closing = rig.waiting().id;
    rig.tell(CALL, closing);
    let other = |id: u32| OperationResult::Succeeded(json!({ "id": id }));
    let request = rig.callback(operation, other(8));
    assert_eq!(rig.answer(request), Some(CallbackAnswer::Conflict));
    assert_eq!(rig.store.operations[&operation].result, Some(json!({ "id": 7 })), "the first wins");
    assert_eq!(rig.store.operations[&operation].contradiction, Some(Contradiction::Succeeded(json!({ "id": 8 }))), "the other is kept");
    let correction = rig.waiting();
    assert_eq!(correction.kind, DeliveryKind::Correction);
    assert_eq!(texts(&rig.tell(CALL, correction.id)), ["Una corrección: Pagado 8."]);
    for id in [8, 9] {
        let request = rig.callback(operation, other(id));
        assert_eq!(rig.answer(request), Some(CallbackAnswer::Conflict));
    }
    assert_eq!((rig.store.deliveries.len(), rig.ledger.pending().len()), (2, 0), "once");
}

#[test]
fn a_contradicting_result_takes_the_place_of_an_unheard_closing_and_tells_both() {
    let mut rig = called(|_| {});
    let operation = rig.order("pay", 1);
    rig.done(operation);
    let closing = rig.waiting().id;
    rig.callback(operation, OperationResult::Failed("no".into()));
    assert_eq!(rig.delivery(closing), DeliveryState::Superseded);
    let correction = rig.waiting().id;
    assert_eq!(texts(&rig.tell(CALL, correction)), ["Pagado 7.", "Después ha llegado otra respuesta: Falló."]);
    assert_eq!(rig.store.batches.values().next().unwrap().state, BatchState::Closed);
}

#[test]
fn a_contradiction_that_nobody_would_hear_is_kept_and_not_told() {
    let mut rig = called(|_| {});
    let operation = rig.order("pay", 1);
    rig.done(operation);
    let closing = rig.waiting().id;
    let request = rig.callback(operation, OperationResult::Succeeded(json!({ "id": 7, "at": "10:01" })));
    assert_eq!((rig.answer(request), rig.waiting().id), (Some(CallbackAnswer::Conflict), closing));
    assert!(rig.store.operations[&operation].contradiction.is_some());
}

#[test]
fn a_contradiction_survives_a_restart_and_is_still_only_the_first() {
    let mut rig = called(|_| {});
    let operation = rig.order("pay", 1);
    rig.done(operation);
    let closing = rig.waiting().id;
    rig.tell(CALL, closing);
    rig.crash(0);
    rig.callback(operation, OperationResult::Failed("no".into()));
    assert_eq!(rig.waiting().kind, DeliveryKind::Correction, "told before the restart: corrected after it");
    rig.crash(0);
    rig.callback(operation, OperationResult::Succeeded(json!({ "id": 9 })));
    assert_eq!(rig.store.operations[&operation].contradiction, Some(Contradiction::Failed("no".into())));
    assert_eq!(rig.ledger.pending().len(), 1);
}

fn versioned(policy: &mut ToolPolicy) {
    policy.topic = Some("price".into());
    policy.version_field = Some("meta.version".into());
    policy.idempotency_fields.clear();
}

fn priced(rig: &mut Rig, operation: OperationId, version: i64) {
    rig.callback(operation, OperationResult::Succeeded(json!({ "id": version, "meta": { "version": version } })));
}

#[test]
fn a_later_version_makes_an_untold_one_stale_whichever_was_asked_for_first() {
    for (first, second) in [(3, 4), (4, 3)] {
        let mut rig = called(versioned);
        let (one, other) = (rig.order("pay", 1), rig.order("pay", 2));
        priced(&mut rig, one, first);
        priced(&mut rig, other, second);
        let closing = rig.waiting();
        assert_eq!(closing.clauses[0].text.es.as_deref(), Some("Pagado 4."));
        assert_eq!(rig.store.deliveries.values().filter(|row| row.state == DeliveryState::Suppressed).count(), 1);
        assert_eq!(rig.count(&LedgerMeasure::Suppressed), 1);
    }
}

#[test]
fn a_version_that_comes_after_a_later_one_was_told_is_stale() {
    let mut rig = called(versioned);
    let (one, other) = (rig.order("pay", 1), rig.order("pay", 2));
    priced(&mut rig, other, 4);
    let closing = rig.waiting().id;
    rig.tell(CALL, closing);
    priced(&mut rig, one, 3);
    assert_eq!(rig.ledger.pending(), Vec::<&DeliveryRecord>::new());
}

#[test]
fn a_newer_request_alone_does_not_keep_back_a_result_that_has_a_version() {
    let mut rig = called(versioned);
    let one = rig.order("pay", 1);
    priced(&mut rig, one, 3);
    rig.order("pay", 2);
    assert_eq!(rig.waiting().clauses[0].text.es.as_deref(), Some("Pagado 3."));
}

#[test]
fn a_result_that_is_taken_back_before_it_is_told_is_withdrawn() {
    let mut rig = called(|_| {});
    let operation = rig.order("pay", 1);
    let early = rig.retract(operation);
    assert_eq!(rig.answer(early), Some(CallbackAnswer::Over), "there is no result yet");
    rig.done(operation);
    let closing = rig.waiting().id;
    let request = rig.retract(operation);
    assert_eq!((rig.answer(request), rig.delivery(closing)), (Some(CallbackAnswer::Recorded), DeliveryState::Withdrawn));
    assert_eq!(rig.told(CALL, closing), ["offered", "withdrawn"]);
    let again = rig.retract(operation);
    assert_eq!(rig.answer(again), Some(CallbackAnswer::Recorded), "who lost the answer asks again");
    assert_eq!(rig.store.batches.values().next().unwrap().state, BatchState::Closed);
}

#[test]
fn a_result_that_is_taken_back_stops_its_telling_and_leaves_what_else_was_to_be_told() {
    let mut rig = called(|_| {});
    rig.ask(CALL, 1, 1, "pay", json!({}));
    let pay = rig.accepted().operation;
    rig.ask(CALL, 1, 1, "ticket", json!({}));
    let ticket = rig.accepted().operation;
    rig.seal(CALL, 1);
    rig.done(pay);
    rig.done(ticket);
    let closing = rig.begins(CALL);
    rig.retract(pay);
    assert_eq!(rig.told(CALL, closing).last(), Some(&"withdrawn"), "I10");
    let rest = rig.waiting();
    assert_eq!((rig.delivery(closing), rest.kind), (DeliveryState::Superseded, DeliveryKind::Correction));
    let left = ["Puede que ya te lo haya dicho: Incidencia 7 abierta."];
    assert_eq!(texts(&rig.tell(CALL, rest.id)), left, "it was under way: nobody knows what was heard");
    let (late, again) = (rig.retract(ticket), rig.retract(pay));
    assert_eq!(rig.answer(late), Some(CallbackAnswer::Over), "what has been told can't be taken back");
    assert_eq!(rig.answer(again), Some(CallbackAnswer::Recorded), "and what was taken back stays so");
}

#[test]
fn results_that_are_taken_back_together_leave_one_successor_that_exists() {
    let mut rig = called(|_| {});
    let operations: Vec<_> = ["a", "b", "c"]
        .into_iter()
        .map(|to| {
            rig.ask(CALL, 1, 1, "pay", json!({ "to": to }));
            rig.accepted().operation
        })
        .collect();
    rig.seal(CALL, 1);
    for &operation in &operations {
        rig.done(operation);
    }
    let closing = rig.waiting().id;
    rig.prompt = false;
    rig.claim(CALL, closing);
    rig.retract(operations[0]);
    rig.retract(operations[1]);
    rig.prompt = true;
    rig.durable();
    let rest = rig.waiting();
    assert_eq!(rig.store.deliveries[&closing].superseded_by, Some(rest.id));
    assert_eq!(rest.clauses.iter().map(|clause| clause.operation).collect::<Vec<_>>(), [operations[2]]);
}

#[test]
fn nobody_hears_how_far_something_is_that_they_want_cancelled() {
    let mut rig = called(|policy| policy.progress = ProgressPolicy::Say);
    let operation = rig.order("pay", 1);
    rig.progress(operation, json!({ "percent": 10 }));
    rig.give(Input::Cancel { session: CALL, tool: None, operation: None, verified: true });
    assert_eq!(rig.operation(operation), OperationState::Cancelling);
    assert!(matches!(rig.news.last(), Some((CALL, News::Withdrawn { .. }))), "{:?}", rig.news.last());
    let told = rig.updates(CALL).len();
    rig.pass(20_000);
    let request = rig.progress(operation, json!({ "percent": 50 }));
    assert_eq!((rig.answer(request), rig.updates(CALL).len()), (Some(CallbackAnswer::Noted), told));
}
