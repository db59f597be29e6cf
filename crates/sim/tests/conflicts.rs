//! The twelve conflicts that every release must survive, by name. Each checks state and effects, not only text.

mod a_call;

use a_call::{LONG, running, said};
use recado_core::conversation::{Input, ModelEvent, Purpose};
use recado_core::gate::{Blocker, DeliveryDecision};
use recado_core::ids::OperationId;
use recado_core::ledger::{BatchState, CallbackAnswer, DeliveryState, OperationResult, OperationState};
use recado_core::policy::Priority;
use recado_sim::{Rig, policies};
use serde_json::json;

/// What the mission asks of every conflict: one effect, one closing heard, nothing left pending, nothing cancelled.
fn told_once(rig: &Rig, operations: &[OperationId], closing: &[&str]) {
    for operation in operations {
        let sent = rig.dispatched.iter().filter(|dispatch| dispatch.operation == *operation).count();
        assert_eq!(sent, 1, "side_effect_count");
        assert_eq!(rig.store.operations[operation].state, OperationState::Succeeded, "not cancelled by barge-in");
    }
    assert_eq!(rig.closings_heard(), closing, "what the ear heard");
    let finals = rig.store.deliveries.len();
    assert_eq!(finals, rig.store.batches.len(), "final_delivery_count");
    assert!(rig.deliveries().iter().all(|state| *state == DeliveryState::Spoken), "pending is empty: {:?}", rig.deliveries());
    assert!(rig.store.batches.values().all(|batch| batch.state == BatchState::Closed));
    assert!(rig.store.claims.is_empty());
}

fn blockers(rig: &Rig, call: usize) -> Vec<Blocker> {
    rig.calls[call].decisions.iter().filter_map(|decision| decision.blocker).collect()
}

#[test]
fn result_while_the_caller_speaks() {
    let (mut rig, call, ops) = running();
    rig.caller_speaks(call, 2_000);
    rig.run(500);
    rig.done(ops[0], json!({ "value": "a las nueve" }));
    rig.run(1_000);
    assert!(rig.closings_heard().is_empty());
    assert!(blockers(&rig, call).contains(&Blocker::CallerSpeaking));
    rig.run_until("the turn ends", |rig| rig.calls[call].asked.len() == 3);
    rig.reply(call, &["Muy bien"]);
    rig.run(30_000);
    told_once(&rig, &ops, &["Hecho lo de mesa: a las nueve."]);
    // It rode on the response that was due, before the response's own words.
    let said = said(&rig, call);
    assert_eq!(said[said.len() - 2..], ["Hecho lo de mesa: a las nueve.", "Muy bien"]);
}

#[test]
fn result_during_playback() {
    let (mut rig, call, ops) = running();
    rig.caller_speaks(call, 400);
    rig.run(1_500);
    rig.reply(call, &[LONG]);
    rig.run(800);
    rig.done(ops[0], json!({ "value": "a las nueve" }));
    rig.run(500);
    assert!(blockers(&rig, call).contains(&Blocker::PlaybackActive));
    rig.run(30_000);
    told_once(&rig, &ops, &["Hecho lo de mesa: a las nueve."]);
    let heard: Vec<_> = rig.calls[call].voice.heard().collect();
    let (closing, before) = (heard[heard.len() - 1].0, heard[heard.len() - 2].0);
    let first_frame = rig.calls[call].voice.far_end.ear.iter().map(|(at, _)| *at).find(|at| *at > before).unwrap();
    assert!(first_frame >= before + 650, "min_quiet is counted from the end of audible playback");
    assert!(closing > first_frame);
}

#[test]
fn two_tools_of_a_batch_finish_in_reverse_order() {
    let mut rig = Rig::new(policies());
    let call = rig.quiet_call(Some("ana"));
    let ops = rig.request(call, &["mesa", "taxi"]);
    assert_eq!(ops.len(), 2);
    rig.run(3_000);
    rig.done(ops[1], json!({ "value": "en camino" }));
    rig.run(5_000);
    assert!(rig.store.deliveries.is_empty(), "the batch is not drained");
    rig.done(ops[0], json!({ "value": "a las nueve" }));
    rig.run(30_000);
    told_once(&rig, &ops, &["Hecho lo de mesa: a las nueve.", "Hecho lo de taxi: en camino."]);
    let acceptances = rig.calls[call].voice.heard().filter(|(_, purpose, _)| matches!(purpose, Purpose::Acceptance { .. })).count();
    assert_eq!(acceptances, 1, "one acceptance per batch");
}

#[test]
fn a_callback_arrives_twice() {
    let mut rig = Rig::new(policies());
    let call = rig.quiet_call(Some("ana"));
    let ops = rig.request(call, &["mesa"]);
    let attempt = rig.attempt_of(ops[0]);
    rig.report(ops[0], attempt, recado_core::ledger::AttemptOutcome::Deferred);
    let result = || OperationResult::Succeeded(json!({ "value": "a las nueve" }));
    let first = rig.callback(ops[0], result());
    let racing = rig.callback(ops[0], result());
    assert!(rig.answers.is_empty(), "R3: no answer before it is durable");
    rig.run(10);
    let late = rig.callback(ops[0], result());
    let unknown = rig.callback(OperationId(7), result());
    rig.run(30_000);
    for request in [first, racing, late] {
        assert_eq!(rig.answers[&request], CallbackAnswer::Recorded);
    }
    assert_eq!(rig.answers[&unknown], CallbackAnswer::Unknown);
    told_once(&rig, &ops, &["Hecho lo de mesa: a las nueve."]);
    // Another result than the one on record is no repeat: it is told as a correction.
    let different = rig.callback(ops[0], OperationResult::Succeeded(json!({ "value": "a las diez" })));
    rig.run(30_000);
    assert_eq!(rig.answers[&different], CallbackAnswer::Conflict);
    assert_eq!(rig.closings_heard().last().map(String::as_str), Some("Una corrección: Hecho lo de mesa: a las diez."));
}

#[test]
fn a_callback_that_contradicts_the_first_is_kept_and_told_as_a_correction_once() {
    let mut rig = Rig::new(policies());
    let call = rig.quiet_call(Some("ana"));
    let ops = rig.request(call, &["mesa"]);
    let result = |value: &str| OperationResult::Succeeded(json!({ "value": value }));
    let first = rig.callback(ops[0], result("a las nueve"));
    rig.run(10);
    let others = ["a las diez", "a las diez", "a las once"].map(|value| rig.callback(ops[0], result(value)));
    rig.run(30_000);
    assert_eq!(rig.answers[&first], CallbackAnswer::Recorded);
    assert!(others.iter().all(|request| rig.answers[request] == CallbackAnswer::Conflict), "{:?}", rig.answers);
    let heard = rig.closings_heard();
    assert_eq!(heard, ["Hecho lo de mesa: a las nueve.", "Una corrección: Hecho lo de mesa: a las diez."]);
    assert!(rig.deliveries().iter().all(|state| *state == DeliveryState::Spoken), "{:?}", rig.deliveries());
}

#[test]
fn interrupted_before_the_closing_is_heard() {
    let (mut rig, call, ops) = running();
    rig.done(ops[0], json!({ "value": "a las nueve" }));
    rig.run_until("the closing sounds", |rig| rig.closing_frames(call) == 30);
    rig.caller_speaks(call, 500);
    rig.run(400);
    assert_eq!(rig.calls[call].voice.heard().filter(|(_, purpose, _)| matches!(purpose, Purpose::Clause { .. })).count(), 0);
    rig.run_until("the turn ends", |rig| rig.calls[call].asked.len() == 3);
    assert_eq!(rig.store.operations[&ops[0]].state, OperationState::Succeeded);
    rig.reply(call, &["Dígame"]);
    rig.run(30_000);
    told_once(&rig, &ops, &["Listo mesa."]);
    assert_eq!(rig.store.deliveries.values().next().unwrap().attempt, 1);
}

#[test]
fn interrupted_after_one_clause_the_rest_is_told() {
    let mut rig = Rig::new(policies());
    let call = rig.quiet_call(Some("ana"));
    let ops = rig.request(call, &["mesa", "taxi"]);
    rig.run(3_000);
    for op in &ops {
        rig.done(*op, json!({ "value": "ya" }));
    }
    rig.run_until("the first clause has been heard", |rig| rig.closings_heard().len() == 1);
    rig.run(300);
    rig.caller_speaks(call, 500);
    rig.run_until("the turn ends", |rig| rig.calls[call].asked.len() == 3);
    rig.reply(call, &["Dígame"]);
    rig.run(40_000);
    told_once(&rig, &ops, &["Hecho lo de mesa: ya.", "Hecho lo de taxi: ya."]);
}

#[test]
fn explicit_cancel() {
    let (mut rig, call, ops) = running();
    rig.caller_speaks(call, 600);
    rig.run(1_600);
    assert_eq!(rig.store.operations[&ops[0]].state, OperationState::Running, "a turn alone cancels nothing");
    let response = rig.last_response(call);
    rig.input(call, Input::Model(ModelEvent::CancelIntent { response, tool: Some("mesa".into()), work: None }));
    rig.run(10);
    assert_eq!(rig.store.operations[&ops[0]].state, OperationState::Cancelling, "R6: durable first");
    rig.reply(call, &["De acuerdo"]);
    // The tool had already done it.
    rig.done(ops[0], json!({ "value": "a las nueve" }));
    rig.run(40_000);
    assert_eq!(rig.store.operations[&ops[0]].state, OperationState::TooLate);
    assert_eq!(rig.closings_heard().len(), 1, "said truthfully, once");
    assert_eq!(rig.deliveries(), [DeliveryState::Spoken]);
}

#[test]
fn a_cancel_intent_of_a_response_that_the_caller_cut_cancels_nothing() {
    let (mut rig, call, ops) = running();
    rig.caller_speaks(call, 600);
    rig.run(1_600);
    let cut = rig.last_response(call);
    rig.say(call, cut, LONG);
    rig.run(800);
    rig.caller_speaks(call, 600);
    rig.run(1_600);
    assert_ne!(rig.last_response(call), cut);
    rig.input(call, Input::Model(ModelEvent::CancelIntent { response: cut, tool: None, work: None }));
    rig.run(100);
    assert_eq!(rig.store.operations[&ops[0]].state, OperationState::Running);
}

#[test]
fn a_model_that_fails_after_a_cancel_intent_is_answered_for_by_what_came_of_it() {
    let mut rig = Rig::new(policies());
    let call = rig.quiet_call(Some("ana"));
    rig.request(call, &["mesa"]);
    rig.run(3_000);
    rig.caller_speaks(call, 600);
    rig.run(1_600);
    let response = rig.last_response(call);
    rig.input(call, Input::Model(ModelEvent::CancelIntent { response, tool: None, work: None }));
    rig.run(10);
    rig.input(call, Input::Model(ModelEvent::Failed { response, reason: "gone".into() }));
    rig.run(4_000);
    let said: Vec<_> = rig.calls[call].voice.heard().map(|(_, purpose, text)| (purpose, text)).skip(2).collect();
    assert!(matches!(said[..], [(Purpose::Cancellation, _)]), "{said:?}");
}

#[test]
fn channel_drops_with_deliveries_pending() {
    let mut rig = Rig::new(policies());
    let call = rig.quiet_call(Some("ana"));
    let ops = rig.request(call, &["mesa"]);
    rig.run(1_000);
    rig.hang_up(call);
    rig.run(2_000);
    assert!(rig.calls[call].conversation.finished());
    rig.done(ops[0], json!({ "value": "a las nueve" }));
    rig.run(1_000);
    assert_eq!(rig.deliveries(), [DeliveryState::Ready]);
    let stranger = rig.quiet_call(Some("luis"));
    rig.run(5_000);
    assert!(rig.closings_heard().is_empty(), "nothing about one party is spoken to another");
    rig.hang_up(stranger);
    rig.quiet_call(Some("ana"));
    rig.run(20_000);
    told_once(&rig, &ops, &["Hecho lo de mesa: a las nueve."]);
}

#[test]
fn restart_after_the_effect_and_before_the_follow_up() {
    for in_flight_kept in [false, true] {
        let mut rig = Rig::new(policies());
        let call = rig.quiet_call(Some("ana"));
        let ops = rig.request(call, &["mesa"]);
        rig.run(1_000);
        let key = rig.dispatched[0].intent_key.clone();
        // The tool did it; its answer and the power cut come at once.
        rig.done(ops[0], json!({ "value": "a las nueve" }));
        rig.crash(in_flight_kept);
        rig.run(10);
        if in_flight_kept {
            assert!(rig.dispatched.is_empty(), "what is known is not asked again");
        } else {
            assert_eq!(rig.dispatched.len(), 1);
            assert_eq!(rig.dispatched[0].intent_key, key, "the same key, so that the tool recognises the repeat");
            rig.done(ops[0], json!({ "value": "a las nueve" }));
        }
        rig.quiet_call(Some("ana"));
        rig.run(20_000);
        assert_eq!(rig.closings_heard(), ["Hecho lo de mesa: a las nueve."]);
        assert_eq!(rig.deliveries(), [DeliveryState::Spoken]);
    }
}

#[test]
fn a_new_intent_makes_an_update_obsolete() {
    let mut with_topic = policies();
    for policy in with_topic.values_mut() {
        policy.topic = Some("cena".into());
    }
    let mut rig = Rig::new(with_topic);
    let call = rig.quiet_call(Some("ana"));
    let old = rig.request(call, &["mesa"]);
    rig.run(2_000);
    // The result comes while the caller already asks for something else about the same thing.
    rig.caller_speaks(call, 1_200);
    rig.run(300);
    rig.done(old[0], json!({ "value": "a las nueve" }));
    rig.run_until("the turn ends", |rig| rig.calls[call].asked.len() == 3);
    rig.ask(call, "taxi", json!({}));
    let response = rig.last_response(call);
    rig.complete(call, response);
    rig.run(100);
    let new = rig.dispatched.last().unwrap().operation;
    rig.done(new, json!({ "value": "en camino" }));
    rig.run(40_000);
    assert_eq!(rig.closings_heard(), ["Hecho lo de taxi: en camino."]);
    let mut states = rig.deliveries();
    states.sort();
    assert_eq!(states, [DeliveryState::Spoken, DeliveryState::Superseded]);
    assert_eq!(rig.store.operations[&old[0]].state, OperationState::Succeeded, "the operation itself was not cancelled");
}

#[test]
fn a_stale_update_is_kept_and_never_told() {
    let mut stale = policies();
    stale.get_mut("mesa").unwrap().stale_after_ms = Some(2_000);
    let mut rig = Rig::new(stale);
    let call = rig.quiet_call(Some("ana"));
    let ops = rig.request(call, &["mesa"]);
    rig.run(2_000);
    rig.caller_speaks(call, 4_000);
    rig.run(300);
    rig.done(ops[0], json!({ "value": "a las nueve" }));
    rig.run_until("the turn ends", |rig| rig.calls[call].asked.len() == 3);
    rig.reply(call, &["Dígame"]);
    rig.run(20_000);
    assert!(rig.closings_heard().is_empty());
    assert_eq!(rig.deliveries(), [DeliveryState::Suppressed]);
}

#[test]
fn urgent_interrupts_and_normal_waits() {
    for (priority, cuts) in [(Priority::Urgent, true), (Priority::Normal, false)] {
        let mut tools = policies();
        tools.get_mut("pago").unwrap().priority = priority;
        let mut rig = Rig::new(tools);
        let call = rig.quiet_call(Some("ana"));
        let ops = rig.request(call, &["pago"]);
        rig.run(3_000);
        rig.caller_speaks(call, 400);
        rig.run(1_500);
        rig.reply(call, &["Le cuento una cosa que es bastante larga y no se acaba"]);
        rig.run(1_000);
        rig.done(ops[0], json!({ "value": "datos incorrectos" }));
        rig.run(30_000);
        let said = said(&rig, call);
        let closing = said.iter().position(|text| text.starts_with("Hecho lo de pago")).unwrap();
        if cuts {
            assert!(said[closing + 1..].iter().any(|text| text.ends_with("no se acaba")), "the cut reply is finished: {said:?}");
        } else {
            assert_eq!(said[closing - 1], "Le cuento una cosa que es bastante larga y no se acaba");
        }
        assert_eq!(rig.deliveries(), [DeliveryState::Spoken]);
        assert_eq!(rig.closings_heard().len(), 1);
    }
}

#[test]
fn urgent_waits_for_the_caller() {
    let mut tools = policies();
    tools.get_mut("pago").unwrap().priority = Priority::Urgent;
    let mut rig = Rig::new(tools);
    let call = rig.quiet_call(Some("ana"));
    let ops = rig.request(call, &["pago"]);
    rig.run(3_000);
    rig.caller_speaks(call, 3_000);
    rig.run(500);
    rig.done(ops[0], json!({ "value": "ya" }));
    rig.run(2_000);
    assert!(rig.closings_heard().is_empty());
    let quiet = rig.now + 1_200;
    rig.run_until("the turn ends", |rig| rig.calls[call].asked.len() == 3);
    assert!(rig.now <= quiet);
    rig.reply(call, &["Dígame"]);
    rig.run(20_000);
    told_once(&rig, &ops, &["Hecho lo de pago: ya."]);
}

#[test]
fn audio_generated_that_the_far_end_has_not_played() {
    let (mut rig, call, ops) = running();
    rig.calls[call].voice.far_end.rtcp = false;
    rig.done(ops[0], json!({ "value": "a las nueve" }));
    rig.run_until("all of it has been sent", |rig| rig.closings_heard().len() == 1);
    rig.run(1_000);
    assert_eq!(rig.deliveries(), [DeliveryState::Speaking], "sent is not heard");
    // The far end had reported before; then its reports say that most of it was lost.
    rig.calls[call].voice.far_end.rtcp = true;
    rig.calls[call].voice.far_end.lost = 60;
    rig.run_until("it is uncertain", |rig| rig.deliveries() == [DeliveryState::Uncertain]);
    // Uncertain has its own policy: it is told again, with a hedge.
    rig.run(20_000);
    let heard = rig.closings_heard();
    assert_eq!(heard.len(), 2);
    assert!(rig.calls[call].voice.heard().any(|(_, purpose, _)| matches!(purpose, Purpose::Clause { clause: None, .. })), "with a hedge");
    assert_eq!(rig.deliveries(), [DeliveryState::Spoken]);
    assert_eq!(rig.store.operations[&ops[0]].attempt, 1);
}

#[test]
fn a_far_end_that_never_reports_is_believed_after_a_while_and_that_is_said() {
    let mut rig = Rig::new(policies());
    let call = rig.dial(Some("ana"));
    rig.calls[call].voice.far_end.rtcp = false;
    rig.reply(call, &["Hola"]);
    rig.run(4_000);
    let ops = rig.request(call, &["mesa"]);
    rig.run(3_000);
    rig.done(ops[0], json!({ "value": "a las nueve" }));
    rig.run(25_000);
    told_once(&rig, &ops, &["Hecho lo de mesa: a las nueve."]);
    let delivery = rig.store.deliveries.values().next().unwrap();
    assert_eq!(delivery.clauses[0].heard, Some(recado_core::conversation::Evidence::Sent));
}

#[test]
fn false_speech_started() {
    let quiet_line = |cough: bool| {
        let mut rig = Rig::new(policies());
        let call = rig.quiet_call(Some("ana"));
        let ops = rig.request(call, &["mesa"]);
        rig.run(3_000);
        rig.done(ops[0], json!({ "value": "a las nueve y media de la noche" }));
        rig.run_until("the closing sounds", |rig| rig.closing_frames(call) == 30);
        if cough {
            rig.cough(call);
        }
        rig.run(30_000);
        told_once(&rig, &ops, &["Hecho lo de mesa: a las nueve y media de la noche."]);
        assert!(rig.calls[call].cancelled.is_empty());
        let ear = &rig.calls[call].voice.far_end.ear;
        let longest_gap = ear.windows(2).filter(|pair| pair[0].1 == pair[1].1).map(|pair| pair[1].0 - pair[0].0).max().unwrap();
        (ear.len(), longest_gap)
    };
    let (frames, _) = quiet_line(false);
    let (frames_with_cough, gap) = quiet_line(true);
    assert_eq!(frames, frames_with_cough, "the same samples, none lost, none repeated");
    assert!((200..=400).contains(&gap), "paused for as long as the suspicion lasted: {gap}");
}

#[test]
fn every_decision_carries_its_reason() {
    let mut rig = Rig::new(policies());
    let call = rig.quiet_call(Some("ana"));
    let ops = rig.request(call, &["mesa"]);
    rig.run(2_000);
    rig.caller_speaks(call, 1_000);
    rig.run(300);
    rig.done(ops[0], json!({ "value": "ya" }));
    rig.run_until("the turn ends", |rig| rig.calls[call].asked.len() == 3);
    rig.reply(call, &[]);
    rig.run(20_000);
    let decisions = &rig.calls[call].decisions;
    for decision in decisions {
        let speaks = matches!(decision.answer, DeliveryDecision::DeliverNow { .. });
        assert_eq!(decision.blocker.is_none(), speaks, "{decision:?}");
    }
    assert!(blockers(&rig, call).starts_with(&[Blocker::CallerSpeaking, Blocker::SpeechTrailing]), "{decisions:?}");
}
