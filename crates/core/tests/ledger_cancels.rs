//! Cancels: `Cancelling` is durable before anybody is asked or told (R6), and how it ends is said truthfully.

mod ledger_rig;

use ledger_rig::*;
use recado_core::ledger::*;
use recado_core::policy::Localised;
use serde_json::json;

/// A call with tools of which `ticket` can be asked to cancel.
fn called() -> Rig {
    let mut policies = policies();
    policies.get_mut("ticket").unwrap().cancellable = true;
    let mut rig = Rig::with(policies);
    rig.up(CALL, "ana");
    rig
}

fn cancel(rig: &mut Rig, tool: &str) {
    rig.give(Input::Cancel { session: CALL, tool: Some(tool.into()), operation: None, verified: true });
}

fn failed(retryable: bool) -> CancelOutcome {
    CancelOutcome::Failed { error: "busy".into(), retryable, retry_after_ms: None }
}

#[test]
fn nothing_is_asked_or_told_before_cancelling_is_durable() {
    let mut rig = called();
    let operation = rig.order("ticket", 1);
    rig.prompt = false;
    let news = rig.news.len();
    cancel(&mut rig, "ticket");
    assert_eq!((rig.cancels.len(), rig.news.len()), (0, news));
    rig.durable();
    assert_eq!(rig.operation(operation), OperationState::Cancelling);
    assert_eq!(rig.cancellation().cancelling, [operation]);
    let [request] = &rig.cancels[..] else { panic!("{:?}", rig.cancels) };
    assert_eq!((request.operation, request.request, request.tool.as_str()), (operation, 1, "ticket"));
    assert_eq!(request.intent_key, rig.dispatched[0].intent_key);
}

#[test]
fn each_word_of_the_tool_ends_it_and_is_told_as_what_it_is() {
    let too_late = CancelOutcome::TooLate { result: Some(json!({ "id": 9 })) };
    for (outcome, state, text) in [
        (CancelOutcome::Cancelled, OperationState::Cancelled, "He cancelado lo que pediste."),
        (CancelOutcome::Compensated, OperationState::Compensated, "Lo que pediste se hizo y se ha deshecho."),
        (too_late, OperationState::TooLate, "No ha dado tiempo a cancelarlo. Incidencia 9 abierta."),
    ] {
        let mut rig = called();
        let operation = rig.order("ticket", 1);
        cancel(&mut rig, "ticket");
        rig.cancel_answered(operation, outcome);
        assert_eq!(rig.operation(operation), state);
        let delivery = rig.waiting().id;
        assert_eq!(texts(&rig.tell(CALL, delivery)), [text]);
        assert_eq!(rig.store.batches.values().next().unwrap().state, BatchState::Closed);
    }
}

#[test]
fn an_attempt_that_is_recalled_was_never_sent_and_is_cancelled() {
    for tool in ["pay", "ticket"] {
        let mut rig = called();
        let operation = rig.order(tool, 1);
        cancel(&mut rig, tool);
        rig.attempt_failed(operation, 1, Executed::No);
        rig.cancel_answered(operation, CancelOutcome::Recalled);
        assert_eq!((rig.operation(operation), rig.sent(operation)), (OperationState::Cancelled, 1));
        let mut rig = called();
        let operation = rig.order(tool, 1);
        cancel(&mut rig, tool);
        rig.cancel_answered(operation, CancelOutcome::Recalled);
        assert_eq!(rig.operation(operation), OperationState::Cancelled, "in whichever order the reports come");
    }
}

#[test]
fn what_waits_for_another_attempt_is_cancelled_without_asking_anybody() {
    let mut rig = called();
    let operation = rig.order("pay", 1);
    rig.attempt_failed(operation, 1, Executed::No);
    assert_eq!(rig.operation(operation), OperationState::RetryWait);
    cancel(&mut rig, "pay");
    assert_eq!((rig.operation(operation), rig.cancels.len()), (OperationState::Cancelled, 0));
    rig.pass(600_000);
    assert_eq!(rig.sent(operation), 1, "never sent again");
}

#[test]
fn a_tool_that_can_not_be_asked_runs_on_and_is_told_as_too_late_or_unknown() {
    for (result, state) in [(true, OperationState::TooLate), (false, OperationState::Unknown)] {
        let mut rig = called();
        let operation = rig.order("pay", 1);
        cancel(&mut rig, "pay");
        rig.cancel_answered(operation, CancelOutcome::Unsupported);
        assert_eq!(rig.operation(operation), OperationState::Cancelling, "it runs on");
        if result {
            rig.done(operation);
        } else {
            rig.pass(300_000);
        }
        assert_eq!((rig.operation(operation), rig.cancels.len()), (state, 1));
    }
}

#[test]
fn a_cancel_request_that_fails_is_repeated_with_back_off_and_then_given_up() {
    let mut rig = called();
    let operation = rig.order("ticket", 1);
    cancel(&mut rig, "ticket");
    for request in 1..=5 {
        assert_eq!(rig.cancels.last().unwrap().request, request);
        rig.cancel_answered(operation, failed(true));
        assert_eq!(rig.cancels.len(), request as usize, "not at once");
        rig.pass(20_000);
    }
    assert_eq!((rig.cancels.len(), rig.operation(operation)), (5, OperationState::Cancelling), "the attempt is still out");
    rig.attempt_failed(operation, 1, Executed::Maybe);
    assert_eq!(rig.operation(operation), OperationState::Unknown);
    let mut rig = called();
    let operation = rig.order("ticket", 1);
    cancel(&mut rig, "ticket");
    rig.cancel_answered(operation, failed(false));
    rig.pass(200_000);
    assert_eq!(rig.cancels.len(), 1, "what can't help is not repeated");
    rig.pass(100_000);
    assert_eq!(rig.operation(operation), OperationState::Unknown, "the deadline ends it");
}

#[test]
fn an_attempt_that_may_have_taken_effect_leaves_it_to_the_tool_to_say() {
    let mut rig = called();
    let operation = rig.order("ticket", 1);
    rig.attempt_failed(operation, 1, Executed::Maybe);
    cancel(&mut rig, "ticket");
    assert_eq!((rig.operation(operation), rig.cancels.len()), (OperationState::Cancelling, 1));
    rig.cancel_answered(operation, CancelOutcome::Cancelled);
    assert_eq!(rig.operation(operation), OperationState::Cancelled);
    let mut rig = called();
    let operation = rig.order("ticket", 1);
    rig.attempt_failed(operation, 1, Executed::Maybe);
    cancel(&mut rig, "ticket");
    rig.cancel_answered(operation, CancelOutcome::Unsupported);
    assert_eq!(rig.operation(operation), OperationState::Unknown);
}

#[test]
fn too_late_without_a_result_waits_for_the_result_that_is_on_its_way() {
    let mut rig = called();
    let operation = rig.order("ticket", 1);
    cancel(&mut rig, "ticket");
    rig.cancel_answered(operation, CancelOutcome::TooLate { result: None });
    assert_eq!(rig.operation(operation), OperationState::Cancelling);
    rig.done(operation);
    assert_eq!(rig.operation(operation), OperationState::TooLate);
    assert_eq!(rig.waiting().clauses[0].text.es.as_deref(), Some("No ha dado tiempo a cancelarlo. Incidencia 7 abierta."));
    let mut rig = called();
    let operation = rig.order("ticket", 1);
    cancel(&mut rig, "ticket");
    rig.cancel_answered(operation, CancelOutcome::TooLate { result: None });
    rig.pass(300_000);
    assert_eq!(rig.operation(operation), OperationState::TooLate, "the tool has said so, result or not");
}

#[test]
fn a_result_that_comes_while_it_is_being_cancelled_decides_and_what_undoes_it_afterwards_is_a_correction() {
    let mut rig = called();
    let operation = rig.order("ticket", 1);
    cancel(&mut rig, "ticket");
    rig.done(operation);
    assert_eq!(rig.operation(operation), OperationState::TooLate);
    let closing = rig.waiting().id;
    rig.tell(CALL, closing);
    rig.cancel_answered(operation, CancelOutcome::Compensated);
    assert_eq!(rig.operation(operation), OperationState::TooLate, "the first wins");
    let correction = rig.waiting();
    assert_eq!(correction.kind, DeliveryKind::Correction);
    assert_eq!(texts(&rig.tell(CALL, correction.id)), ["Una corrección: Lo que pediste se hizo y se ha deshecho."]);
}

#[test]
fn a_result_that_comes_after_too_late_was_told_without_it_is_kept_and_told() {
    let mut rig = called();
    let operation = rig.order("ticket", 1);
    rig.attempt_failed(operation, 1, Executed::Maybe);
    cancel(&mut rig, "ticket");
    rig.cancel_answered(operation, CancelOutcome::TooLate { result: None });
    let closing = rig.waiting().id;
    assert_eq!(texts(&rig.tell(CALL, closing)), ["No ha dado tiempo a cancelarlo. Lo que pediste está hecho."]);
    let first = rig.done(operation);
    assert_eq!(rig.answer(first), Some(CallbackAnswer::Recorded), "it is the first result, and contradicts nothing");
    assert_eq!(rig.store.operations[&operation].known_result(), Some(&json!({ "id": 7 })));
    assert_eq!(rig.count(&LedgerMeasure::RepeatedResult), 0);
    let correction = rig.waiting().id;
    assert_eq!(texts(&rig.tell(CALL, correction)), ["Una corrección: Incidencia 7 abierta."]);
    let other = || OperationResult::Succeeded(json!({ "id": 8 }));
    let answers = |rig: &mut Rig| {
        let requests =
            [rig.done(operation), rig.callback(operation, other()), rig.callback(operation, OperationResult::Failed("no".into()))];
        requests.map(|request| rig.answer(request))
    };
    let alike = [Some(CallbackAnswer::Recorded), Some(CallbackAnswer::Conflict), Some(CallbackAnswer::Conflict)];
    assert_eq!(answers(&mut rig), alike);
    assert!(rig.ledger.pending().is_empty(), "it has been told");
    rig.crash(0);
    rig.up(CALL, "ana");
    assert_eq!(answers(&mut rig), alike, "also after a restart");
    for number in 2..=1_002 {
        let later = rig.order("pay", number);
        rig.done(later);
        let delivery = rig.waiting().id;
        rig.tell(CALL, delivery);
    }
    assert_eq!(rig.ledger.operation(operation), None, "its batch has left memory");
    assert_eq!(answers(&mut rig), alike, "and where its batch has left memory");
}

#[test]
fn a_result_that_comes_before_too_late_is_told_is_told_with_it() {
    let mut rig = called();
    let operation = rig.order("ticket", 1);
    rig.attempt_failed(operation, 1, Executed::Maybe);
    cancel(&mut rig, "ticket");
    rig.cancel_answered(operation, CancelOutcome::TooLate { result: None });
    let result = rig.done(operation);
    assert_eq!(rig.answer(result), Some(CallbackAnswer::Recorded));
    let closing = rig.waiting().id;
    assert_eq!(texts(&rig.tell(CALL, closing)), ["No ha dado tiempo a cancelarlo. Incidencia 7 abierta."]);
}

#[test]
fn a_result_that_adds_nothing_to_what_was_told_as_too_late_is_kept_and_not_told_again() {
    let mut rig = called();
    rig.policies.get_mut("ticket").unwrap().say.done = Localised { es: Some("Incidencia abierta.".into()), en: None };
    rig.crash(0);
    rig.up(CALL, "ana");
    let operation = rig.order("ticket", 1);
    rig.attempt_failed(operation, 1, Executed::Maybe);
    cancel(&mut rig, "ticket");
    rig.cancel_answered(operation, CancelOutcome::TooLate { result: None });
    let closing = rig.waiting().id;
    assert_eq!(texts(&rig.tell(CALL, closing)), ["No ha dado tiempo a cancelarlo. Incidencia abierta."]);
    let result = rig.done(operation);
    assert_eq!(rig.answer(result), Some(CallbackAnswer::Recorded));
    assert_eq!(rig.store.operations[&operation].known_result(), Some(&json!({ "id": 7 })));
    assert!(rig.ledger.pending().is_empty());
}

#[test]
fn a_failure_contradicts_what_was_too_late_to_cancel_and_a_result_after_it_finds_no_room() {
    let mut rig = called();
    let operation = rig.order("ticket", 1);
    rig.attempt_failed(operation, 1, Executed::Maybe);
    cancel(&mut rig, "ticket");
    rig.cancel_answered(operation, CancelOutcome::TooLate { result: None });
    let failed = rig.callback(operation, OperationResult::Failed("no".into()));
    assert_eq!(rig.answer(failed), Some(CallbackAnswer::Conflict));
    let result = rig.done(operation);
    assert_eq!(rig.answer(result), Some(CallbackAnswer::Conflict), "what is not on record is not confirmed");
    assert_eq!(rig.store.operations[&operation].contradiction, Some(Contradiction::Failed("no".into())));
}

#[test]
fn what_the_tool_says_is_too_late_to_cancel_is_not_cancelled_for_a_report_that_nothing_was_done() {
    let mut rig = called();
    let operation = rig.order("ticket", 1);
    cancel(&mut rig, "ticket");
    rig.cancel_answered(operation, CancelOutcome::TooLate { result: None });
    assert_eq!(rig.operation(operation), OperationState::Cancelling, "its result may come yet");
    rig.attempt_failed(operation, 1, Executed::No);
    assert_eq!(rig.operation(operation), OperationState::TooLate);
    let closing = rig.waiting().id;
    assert_eq!(texts(&rig.tell(CALL, closing)), ["No ha dado tiempo a cancelarlo. Lo que pediste está hecho."]);
}

#[test]
fn too_late_without_a_result_after_it_was_given_up_is_told_without_one() {
    let too_late = CancelOutcome::TooLate { result: None };
    let given_up = || {
        let mut rig = called();
        rig.policies.get_mut("ticket").unwrap().say.done = Localised { es: Some("Abierta: {{ result }}.".into()), en: None };
        rig.crash(0);
        rig.up(CALL, "ana");
        let operation = rig.order("ticket", 1);
        cancel(&mut rig, "ticket");
        rig.pass(300_000);
        assert_eq!(rig.operation(operation), OperationState::Unknown);
        (rig, operation)
    };
    let (mut rig, operation) = given_up();
    let closing = rig.waiting().id;
    rig.tell(CALL, closing);
    rig.cancel_answered(operation, too_late.clone());
    let record = &rig.store.operations[&operation];
    assert_eq!((record.state, &record.result, &record.error), (OperationState::TooLate, &None, &None), "nothing is made up");
    let correction = rig.waiting().id;
    let said = ["Una corrección: No ha dado tiempo a cancelarlo. Lo que pediste está hecho."];
    assert_eq!(texts(&rig.tell(CALL, correction)), said);

    let (mut rig, operation) = given_up();
    rig.done(operation);
    assert_eq!(rig.operation(operation), OperationState::Succeeded);
    rig.cancel_answered(operation, too_late);
    assert_eq!(rig.store.operations[&operation].contradiction, None, "a result that is on record stands");
}

#[test]
fn a_restart_resumes_a_cancel() {
    let mut rig = called();
    let asked = rig.order("ticket", 1);
    let unasked = rig.order("pay", 2);
    rig.give(Input::Cancel { session: CALL, tool: None, operation: None, verified: true });
    assert_eq!(rig.cancels.len(), 2);
    rig.crash(0);
    assert_eq!(rig.operation(unasked), OperationState::Unknown, "nobody can be asked, and it may have taken effect");
    assert_eq!(rig.operation(asked), OperationState::Cancelling);
    assert_eq!((rig.cancels.len(), rig.cancels[2].operation), (3, asked));
    rig.cancel_answered(asked, CancelOutcome::Cancelled);
    assert_eq!((rig.operation(asked), rig.sent(asked)), (OperationState::Cancelled, 1));
}

#[test]
fn a_crash_before_cancelling_is_durable_has_asked_nobody_and_goes_on_as_if_it_had_not_been_said() {
    let mut rig = called();
    let operation = rig.order("ticket", 1);
    rig.prompt = false;
    cancel(&mut rig, "ticket");
    rig.crash(0);
    rig.prompt = true;
    rig.durable();
    assert_eq!((rig.operation(operation), rig.cancels.len()), (OperationState::Running, 0));
    assert_eq!(rig.sent(operation), 2, "idempotent: sent again");
}

#[test]
fn a_wish_to_cancel_what_has_ended_is_answered_by_its_closing() {
    let mut rig = called();
    let operation = rig.order("pay", 1);
    rig.done(operation);
    cancel(&mut rig, "pay");
    assert_eq!(rig.cancellation().ended, [operation]);
    assert_eq!(rig.operation(operation), OperationState::Succeeded);
    let delivery = rig.waiting().id;
    rig.tell(CALL, delivery);
    cancel(&mut rig, "pay");
    let nothing = rig.cancellation();
    assert_eq!((nothing.cancelling.len(), nothing.ended.len()), (0, 0));
    assert_eq!(nothing.say, "No hay nada en marcha que cancelar.");
}

#[test]
fn a_batch_with_a_success_a_failure_a_cancel_and_an_unknown_closes_once_and_tells_each() {
    let mut rig = called();
    let mut operations = Vec::new();
    for (tool, to) in [("pay", "a"), ("pay", "b"), ("ticket", "c"), ("pay", "d")] {
        rig.ask(CALL, 1, 1, tool, json!({ "to": to }));
        operations.push(rig.accepted().operation);
    }
    rig.seal(CALL, 1);
    cancel(&mut rig, "ticket");
    rig.cancel_answered(operations[2], CancelOutcome::Cancelled);
    rig.done(operations[0]);
    rig.callback(operations[1], OperationResult::Failed("no".into()));
    assert!(rig.ledger.pending().is_empty(), "one is still running");
    rig.pass(300_000);
    let closing = rig.waiting();
    assert_eq!(closing.kind, DeliveryKind::Final);
    assert_eq!(texts(&rig.tell(CALL, closing.id)), ["Pagado 7.", "Falló.", "ticket: he cancelado lo que pediste.", "No se sabe."]);
    assert_eq!(rig.store.deliveries.len(), 1);
}

#[test]
fn a_cancel_answer_for_another_request_or_after_the_end_changes_nothing() {
    let mut rig = called();
    let operation = rig.order("ticket", 1);
    cancel(&mut rig, "ticket");
    rig.give(Input::CancelAttempted { operation, request: 7, outcome: CancelOutcome::Cancelled });
    assert_eq!(rig.operation(operation), OperationState::Cancelling);
    rig.cancel_answered(operation, CancelOutcome::Cancelled);
    let commits = rig.commits;
    rig.cancel_answered(operation, CancelOutcome::Compensated);
    assert_eq!((rig.operation(operation), rig.commits), (OperationState::Cancelled, commits));
}

#[test]
fn a_tool_that_acts_after_it_said_that_it_had_cancelled_is_reported() {
    let mut rig = called();
    let operation = rig.order("ticket", 1);
    cancel(&mut rig, "ticket");
    rig.cancel_answered(operation, CancelOutcome::Cancelled);
    let closing = rig.waiting().id;
    rig.tell(CALL, closing);
    let request = rig.done(operation);
    assert_eq!(rig.answer(request), Some(CallbackAnswer::Conflict));
    assert_eq!(rig.operation(operation), OperationState::Cancelled, "the first wins");
    let correction = rig.waiting();
    assert_eq!(texts(&rig.tell(CALL, correction.id)), ["Una corrección: Incidencia 7 abierta."]);
}

#[test]
fn a_wish_that_concerns_several_batches_gets_one_answer() {
    let mut rig = called();
    let ended = rig.order("pay", 1);
    rig.done(ended);
    let runs = rig.order("ticket", 2);
    rig.prompt = false;
    rig.give(Input::Cancel { session: CALL, tool: None, operation: None, verified: true });
    let answers = |rig: &Rig| rig.news.iter().filter(|(_, news)| matches!(news, News::Cancelling(_))).count();
    assert_eq!(answers(&rig), 0, "not before all of it is on record");
    rig.durable();
    assert_eq!(answers(&rig), 1);
    let answer = rig.cancellation();
    assert_eq!((answer.cancelling, answer.ended), (vec![runs], vec![ended]));
    assert_eq!(answer.say, "Intento cancelarlo; te digo cómo queda.");
}

#[test]
fn every_wish_to_cancel_is_answered() {
    let mut rig = called();
    let operation = rig.order("ticket", 1);
    cancel(&mut rig, "ticket");
    let answers = |rig: &Rig| rig.news.iter().filter(|(_, news)| matches!(news, News::Cancelling(_))).count();
    cancel(&mut rig, "ticket");
    assert_eq!((answers(&rig), rig.cancellation().cancelling), (2, vec![operation]), "being cancelled already");
    rig.prompt = false;
    rig.done(operation);
    cancel(&mut rig, "pay");
    rig.durable();
    assert_eq!((answers(&rig), rig.cancellation().say.as_str()), (3, "No hay nada en marcha que cancelar."), "busy with another tool");
    cancel(&mut rig, "unheard of");
    assert_eq!(answers(&rig), 4, "no tool of that name");
}

#[test]
fn a_wish_that_can_not_be_put_on_record_is_refused_truthfully() {
    let mut rig = called();
    let operation = rig.order("ticket", 1);
    rig.prompt = false;
    cancel(&mut rig, "ticket");
    rig.fail();
    let answer = rig.cancellation();
    assert_eq!((answer.cancelling, answer.refused), (vec![], vec![operation]));
    assert_eq!(answer.say, "Ahora mismo no puedo cancelarlo; sigue en marcha.");
    rig.prompt = true;
    rig.pass(60_000);
    assert_eq!((rig.operation(operation), rig.cancels.len()), (OperationState::Running, 0), "as it was told");
}
