//! Small scenarios that random interleavings led to: each was a defect, and stays as a test.

mod a_call;

use a_call::{LONG, done, running, said, turn};
use recado_core::conversation::{Acoustic, Cause, Identity, Input, ModelEvent, Purpose, Settings};
use recado_core::ledger::DeliveryState;
use recado_core::policy::{Audience, DuplicatePolicy, Localised};
use recado_core::time::Time;
use recado_sim::action::CancelAnswered;
use recado_sim::{Rig, policies};
use serde_json::json;

#[test]
fn a_segment_that_a_false_start_made_stale_is_said_anew_and_what_sounds_is_not_cut() {
    let mut rig = Rig::new(policies());
    let call = rig.quiet_call(Some("ana"));
    turn(&mut rig, call);
    let response = rig.last_response(call);
    rig.say(call, response, LONG);
    rig.run(600);
    // Rendered only when speech is suspected already: the mouth refuses it.
    rig.calls[call].voice.engine.render_ms = 500;
    rig.cough(call);
    rig.run(20);
    rig.say(call, response, "y otra");
    rig.say(call, response, "y otra más");
    rig.complete(call, response);
    rig.run(15_000);
    assert_eq!(said(&rig, call), ["Hola", LONG, "y otra", "y otra más"]);
    assert!(rig.calls[call].cancelled.is_empty());
}

#[test]
fn a_resume_that_comes_too_late_leaves_the_playback_paused() {
    let mut rig = Rig::new(policies());
    rig.link_ms = 35;
    let call = rig.quiet_call(Some("ana"));
    turn(&mut rig, call);
    rig.reply(call, &[LONG]);
    rig.run(1_000);
    // The second suspicion begins while the order to go on after the first is under way.
    let now = rig.now;
    let edges = [(40, Acoustic::Suspected), (340, Acoustic::Quiet), (360, Acoustic::Suspected), (700, Acoustic::Quiet)];
    rig.calls[call].edges.extend(edges.map(|(after, to)| (now + after, to, now + after)));
    rig.run(15_000);
    assert_eq!(said(&rig, call), ["Hola", LONG]);
}

#[test]
fn a_claim_that_takes_long_while_a_reply_waits_for_it_keeps_nobody_busy() {
    let (mut rig, call, ops) = running();
    rig.caller_speaks(call, 500);
    rig.run(300);
    done(&mut rig, ops[0]);
    rig.run(100);
    rig.store.delay_ms = 4_000;
    rig.run_until("the turn ends", |rig| rig.calls[call].asked.len() == 3);
    rig.reply(call, &["Muy bien"]);
    rig.run(40_000);
    assert_eq!(rig.closings_heard(), ["Hecho lo de mesa: ya."]);
}

#[test]
fn an_acceptance_that_the_store_holds_up_during_a_hold_keeps_nobody_busy_and_is_said_afterwards() {
    let mut rig = Rig::new(policies());
    let call = rig.quiet_call(Some("ana"));
    turn(&mut rig, call);
    rig.store.delay_ms = 5_000;
    rig.ask(call, "mesa", json!({}));
    let response = rig.last_response(call);
    rig.complete(call, response);
    rig.hold(call, true);
    rig.run(10_000);
    rig.hold(call, false);
    rig.run(5_000);
    assert_eq!(said(&rig, call), ["Hola", "Lo miro, siga."]);
}

#[test]
fn an_acceptance_that_comes_after_its_reply_was_given_up_is_said_all_the_same() {
    let mut rig = Rig::new(policies());
    let call = rig.quiet_call(Some("ana"));
    turn(&mut rig, call);
    rig.store.delay_ms = 6_000;
    rig.ask(call, "mesa", json!({}));
    let response = rig.last_response(call);
    rig.complete(call, response);
    rig.run(12_000);
    assert_eq!(said(&rig, call), ["Hola", "Lo miro, siga."]);
}

#[test]
fn a_model_that_fails_after_asking_for_an_operation_is_answered_for_by_its_acceptance() {
    let mut rig = Rig::new(policies());
    let call = rig.quiet_call(Some("ana"));
    turn(&mut rig, call);
    rig.store.delay_ms = 6_000;
    rig.ask(call, "mesa", json!({}));
    let response = rig.last_response(call);
    rig.input(call, Input::Model(ModelEvent::Failed { response, reason: "gone".into() }));
    rig.run(12_000);
    assert_eq!(said(&rig, call), ["Hola", "Lo miro, siga."]);
}

#[test]
fn a_claim_that_was_refused_keeps_nobody_busy_while_another_delivery_is_told() {
    let mut rig = Rig::new(policies());
    let call = rig.quiet_call(Some("ana"));
    let first = rig.request(call, &["mesa"]);
    rig.run(3_000);
    let second = rig.request(call, &["taxi"]);
    rig.run(3_000);
    rig.hold(call, true);
    done(&mut rig, first[0]);
    done(&mut rig, second[0]);
    rig.run(1_000);
    rig.hold(call, false);
    rig.store.failing = true;
    rig.run_until("a claim is asked for", |rig| rig.store.in_flight() > 0);
    // The first claim is refused, and the second is long in coming.
    rig.store.delay_ms = 3_000;
    rig.run(3);
    rig.store.failing = false;
    rig.run(5_000);
    rig.store.delay_ms = 3;
    rig.run(60_000);
    assert_eq!(rig.closings_heard().len(), 2);
}

#[test]
fn what_was_lost_before_a_barge_in_is_not_charged_to_what_follows_it() {
    let (mut rig, call, ops) = running();
    rig.calls[call].voice.far_end.lost = 60;
    rig.run(6_000);
    turn(&mut rig, call);
    rig.reply(call, &[LONG]);
    rig.run(1_000);
    // The barge-in ends the generation; the closing comes before the next report.
    rig.calls[call].voice.far_end.next_report = rig.now + 7_000;
    done(&mut rig, ops[0]);
    turn(&mut rig, call);
    rig.reply(call, &[]);
    rig.run(30_000);
    assert_eq!(rig.closings_heard(), ["Hecho lo de mesa: ya."]);
    assert_eq!(rig.deliveries(), [DeliveryState::Spoken]);
}

#[test]
fn a_turn_that_is_called_noise_before_the_clear_is_confirmed_resumes_the_cut_reply() {
    let mut rig = Rig::new(policies());
    rig.link_ms = 35;
    let call = rig.quiet_call(Some("ana"));
    turn(&mut rig, call);
    rig.reply(call, &[LONG]);
    rig.run(1_000);
    rig.caller_speaks(call, 400);
    rig.run_until("the caller cuts it", |rig| rig.calls[call].conversation.clocks().acoustic == Acoustic::Speaking);
    let turn = rig.turn(call);
    rig.input(call, Input::Model(ModelEvent::TurnWasNoise { turn }));
    rig.run(2_000);
    rig.reply(call, &[]);
    rig.run(5_000);
    let last = said(&rig, call).last().copied().unwrap_or_default();
    assert!(last != "Hola" && LONG.ends_with(last), "{last}");
    assert!(rig.calls[call].voice.heard().all(|(_, purpose, _)| matches!(purpose, Purpose::Reply { .. })));
}

#[test]
fn a_turn_whose_response_fails_gets_an_answer_even_when_a_delivery_rode_on_it() {
    let (mut rig, call, ops) = running();
    rig.caller_speaks(call, 500);
    rig.run(300);
    done(&mut rig, ops[0]);
    rig.run(12_000);
    let apology = Settings::default().say_no_answer.es.unwrap();
    assert_eq!(said(&rig, call)[2..], ["Hecho lo de mesa: ya.", apology.as_str()]);
}

#[test]
fn a_closing_whose_last_frame_leaves_just_as_it_is_given_up_is_not_told_again() {
    let mut rig = Rig::new(policies());
    rig.link_ms = 35;
    let call = rig.quiet_call(Some("ana"));
    let ops = rig.request(call, &["mesa"]);
    rig.run(3_000);
    done(&mut rig, ops[0]);
    rig.run_until("the closing sounds", |rig| rig.closing_frames(call) == 30);
    rig.calls[call].voice.stall(1_010, rig.now);
    rig.run(30_000);
    assert_eq!(rig.closings_heard(), ["Hecho lo de mesa: ya."]);
    assert_eq!(rig.deliveries(), [DeliveryState::Spoken]);
}

#[test]
fn what_was_sent_after_the_far_end_was_last_heard_of_is_not_credited_without_a_report() {
    let mut rig = Rig::new(policies());
    let call = rig.quiet_call(Some("ana"));
    let ops = rig.request(call, &["mesa"]);
    rig.run(6_000);
    rig.calls[call].voice.far_end.rtcp = false;
    let since = Time(rig.now);
    done(&mut rig, ops[0]);
    rig.run_until("all of it has been sent", |rig| rig.closings_heard().len() == 1);
    rig.run(2_000);
    rig.input(call, Input::FarEndSilent { since });
    rig.hang_up(call);
    rig.run(2_000);
    assert_eq!(rig.deliveries(), [DeliveryState::Uncertain]);
}

#[test]
fn late_evidence_stops_the_repeat_that_is_under_way() {
    let mut rig = Rig::new(policies());
    let call = rig.quiet_call(Some("ana"));
    let ops = rig.request(call, &["mesa"]);
    rig.run(6_000);
    // The far end has lost much before, and does not report on the closing in time.
    rig.calls[call].voice.far_end.lost = 60;
    rig.run(6_000);
    rig.calls[call].voice.far_end.rtcp = false;
    rig.done(ops[0], json!({ "value": "a las nueve y media de la noche" }));
    rig.run_until("it is told again", |rig| rig.calls[call].voice.heard().filter(|heard| heard.2.starts_with("Puede que")).count() == 1);
    rig.run(500);
    rig.calls[call].voice.far_end.rtcp = true;
    rig.calls[call].voice.far_end.next_report = rig.now;
    rig.run(20_000);
    assert_eq!(rig.closings_heard().len(), 1, "the repeat was stopped");
    assert_eq!(rig.deliveries(), [DeliveryState::Spoken]);
    assert_eq!(rig.calls[call].told.len(), 1, "the model is told what was told");
}

#[test]
fn a_playback_that_is_paused_before_its_first_frame_goes_on_as_queued() {
    let mut rig = Rig::new(policies());
    rig.link_ms = 3;
    let call = rig.quiet_call(Some("ana"));
    turn(&mut rig, call);
    // Its audio reaches the mouth just after a frame has left, and suspicion comes before the next one.
    let (now, ready) = (rig.now, (rig.now + 60) / 20 * 20 + 1);
    rig.calls[call].voice.engine.render_ms = ready - now - rig.link_ms;
    let edges = [(ready + 2, Acoustic::Suspected), (ready + 302, Acoustic::Quiet)];
    rig.calls[call].edges.extend(edges.map(|(at, to)| (at, to, at)));
    rig.reply(call, &["Dígame"]);
    // The rig checks I20 on the way.
    rig.run(5_000);
    assert_eq!(said(&rig, call), ["Hola", "Dígame"]);
}

#[test]
fn a_model_that_does_not_stop_is_cancelled_and_the_voice_is_given_no_more_than_it_holds() {
    let mut rig = Rig::new(policies());
    let call = rig.quiet_call(Some("ana"));
    turn(&mut rig, call);
    let response = rig.last_response(call);
    for _ in 0..1_000 {
        rig.say(call, response, LONG);
    }
    assert_eq!(rig.calls[call].cancelled, [response]);
    // The voice of the rig takes no more than the real one.
    rig.run(5_000_000);
    assert!((641..=684).contains(&said(&rig, call).len()), "what was said before it was cancelled is heard: {}", said(&rig, call).len());
}

#[test]
fn a_closing_of_many_operations_is_given_to_the_voice_bit_by_bit_and_heard_whole() {
    let mut tools = policies();
    let long = tools["mesa"].clone();
    for at in 0..12 {
        let mut policy = long.clone();
        policy.say.done = Localised { es: Some(format!("Lo de {at} {}", "ya está hecho ".repeat(8).trim())), en: None };
        tools.insert(format!("t{at}"), policy);
    }
    let names: Vec<String> = (0..12).map(|at| format!("t{at}")).collect();
    let mut rig = Rig::new(tools);
    let call = rig.quiet_call(Some("ana"));
    let ops = rig.request(call, &names.iter().map(String::as_str).collect::<Vec<_>>());
    rig.run(3_000);
    for op in ops {
        rig.done(op, json!({}));
    }
    rig.run(150_000);
    assert_eq!(rig.closings_heard().len(), 12);
    assert_eq!(rig.deliveries(), [DeliveryState::Spoken]);
}

#[test]
fn the_agent_does_not_hang_up_over_a_delivery_whose_claim_was_refused() {
    let (mut rig, call, ops) = running();
    turn(&mut rig, call);
    let response = rig.last_response(call);
    rig.say(call, response, "Adiós");
    rig.input(call, Input::Model(ModelEvent::HangUp { response }));
    rig.complete(call, response);
    rig.run(200);
    done(&mut rig, ops[0]);
    rig.run(10);
    rig.store.failing = true;
    rig.run_until("it is claimed", |rig| rig.store.in_flight() > 0);
    rig.run(5);
    rig.store.failing = false;
    rig.run_until("the agent hangs up", |rig| rig.calls[call].hung_up);
    assert_eq!(rig.closings_heard(), ["Hecho lo de mesa: ya."]);
}

#[test]
fn a_closing_that_becomes_obsolete_while_it_is_told_stops_at_once() {
    let mut with_topic = policies();
    for policy in with_topic.values_mut() {
        policy.topic = Some("cena".into());
    }
    let mut rig = Rig::new(with_topic);
    let first = rig.quiet_call(Some("ana"));
    let ops = rig.request(first, &["mesa"]);
    rig.run(3_000);
    rig.done(ops[0], json!({ "value": "a las nueve" }));
    rig.run_until("the closing sounds", |rig| rig.closing_frames(first) == 30);
    // The same party asks for something newer, on another line.
    let second = rig.dial(Some("ana"));
    rig.ask(second, "taxi", json!({}));
    rig.run(5_000);
    assert!(rig.closing_frames(first) <= 31, "{}", rig.closing_frames(first));
    assert_eq!(rig.deliveries(), [DeliveryState::Superseded]);
}

#[test]
fn a_model_that_wants_keys_and_falls_silent_keeps_nobody_busy() {
    let mut rig = Rig::new(policies());
    let call = rig.dial(Some("ana"));
    let response = rig.last_response(call);
    rig.input(call, Input::Model(ModelEvent::CollectDigits { response, digits_max: 2, end: Some('#'), wait_ms: 3_000 }));
    // The rig checks that it rests once it has been woken.
    rig.run(5_100);
    let digits = |cause: &Cause| matches!(cause, Cause::Digits { complete: false, .. });
    assert!(rig.calls[call].asked.iter().any(|(_, cause)| digits(cause)), "{:?}", rig.calls[call].asked);
}

#[test]
fn a_reply_does_not_wait_for_a_closing_that_whoever_is_on_the_line_may_not_hear() {
    let mut tools = policies();
    tools.get_mut("saldo").unwrap().audience = Audience::VerifiedParty;
    let mut rig = Rig::new(tools);
    let call = rig.quiet_call(Some("ana"));
    let ops = rig.request(call, &["saldo"]);
    rig.run(3_000);
    done(&mut rig, ops[0]);
    rig.run(500);
    // Asked for again, it is about to be told, but not to somebody who has given only their word.
    turn(&mut rig, call);
    rig.ask(call, "saldo", json!({ "of": "saldo" }));
    let response = rig.last_response(call);
    rig.complete(call, response);
    rig.run(1_000);
    assert!(rig.calls[call].voice.busy(), "the acceptance is said at once");
    rig.run(4_000);
    assert!(rig.closings_heard().is_empty());
    rig.input(call, Input::Identified(Identity::Verified));
    rig.run(8_000);
    assert_eq!(rig.closings_heard(), ["Hecho lo de saldo: ya."]);
}

#[test]
fn a_claim_that_is_granted_late_is_not_taken_for_another_route() {
    let (mut rig, call, ops) = running();
    done(&mut rig, ops[0]);
    rig.run(10);
    // The claim of the announcement is given up before the store has answered, and the caller speaks.
    rig.store.delay_ms = 6_000;
    rig.run(3_000);
    rig.caller_speaks(call, 400);
    rig.run(3_000);
    rig.reply(call, &["Muy bien"]);
    rig.store.delay_ms = 3;
    rig.run(30_000);
    assert_eq!(rig.closings_heard(), ["Hecho lo de mesa: ya."]);
    assert_eq!(rig.deliveries(), [DeliveryState::Spoken]);
}

#[test]
fn a_model_that_repeats_itself_after_another_call_has_asked_runs_nothing() {
    let mut rig = Rig::new(policies());
    let first = rig.quiet_call(Some("ana"));
    let one = rig.request(first, &["mesa"]);
    rig.run(3_000);
    done(&mut rig, one[0]);
    rig.run(12_000);
    let second = rig.quiet_call(Some("ana"));
    let two = rig.request(second, &["mesa"]);
    assert_eq!(two.len(), 1, "the caller asks again, and it is done again");
    rig.run(3_000);
    done(&mut rig, two[0]);
    rig.run(12_000);
    // In the first call nobody has said anything since.
    rig.ask(first, "mesa", json!({ "of": "mesa" }));
    rig.run(3_000);
    assert_eq!(rig.dispatched.len(), 2);
}

#[test]
fn of_a_chain_of_requests_that_replace_each_other_only_one_runs_at_a_time() {
    let mut tools = policies();
    let policy = tools.get_mut("envio").unwrap();
    (policy.duplicate, policy.cancellable, policy.idempotency_fields) = (DuplicatePolicy::Replace, true, vec!["of".into()]);
    let mut rig = Rig::new(tools);
    rig.by_hand = true;
    let call = rig.quiet_call(Some("ana"));
    turn(&mut rig, call);
    for note in 0..4 {
        rig.ask(call, "envio", json!({ "of": 1, "note": note }));
    }
    rig.run(1_000);
    assert_eq!(rig.dispatched.len(), 1, "the first is being cancelled, and its tool has not answered");
    let request = rig.cancels.remove(0);
    rig.answer_cancel(&request, CancelAnswered::Undone);
    rig.run(1_000);
    let notes: Vec<_> = rig.dispatched.iter().map(|dispatch| dispatch.arguments["note"].clone()).collect();
    assert_eq!(notes, [json!(0), json!(3)]);
}

/// What the ear heard of cancels, and of answers that there are none, in order.
fn said_of_cancels(rig: &Rig, call: usize) -> Vec<&str> {
    let of_cancels = |purpose: &Purpose, text: &str| matches!(purpose, Purpose::Cancellation) || text.contains("no le he podido");
    rig.calls[call].voice.heard().filter(|(_, purpose, text)| of_cancels(purpose, text)).map(|(_, _, text)| text).collect()
}

#[test]
fn every_wish_to_cancel_in_a_response_is_answered_and_what_follows_it_waits_for_that() {
    let mut rig = Rig::new(policies());
    let call = rig.quiet_call(Some("ana"));
    rig.request(call, &["mesa"]);
    rig.run(3_000);
    turn(&mut rig, call);
    let response = rig.last_response(call);
    rig.store.delay_ms = 1_000;
    for tool in ["mesa", "taxi"] {
        rig.input(call, Input::Model(ModelEvent::CancelIntent { response, tool: Some(tool.into()), work: None }));
    }
    rig.reply(call, &["Dígame"]);
    rig.run(12_000);
    let said = said(&rig, call);
    let [first, second, last] = said[said.len() - 3..] else { panic!("{said:?}") };
    let mut answers = [first, second];
    answers.sort_unstable();
    assert_eq!(answers, ["Intento cancelarlo; te digo cómo queda.", "No hay nada en marcha que cancelar."]);
    assert_eq!(last, "Dígame");
    assert_eq!(said_of_cancels(&rig, call).len(), 2, "each once");
}

#[test]
fn a_wish_to_cancel_that_the_store_never_answers_holds_nothing_up_and_the_caller_hears_that_there_is_no_answer() {
    let mut rig = Rig::new(policies());
    let call = rig.quiet_call(Some("ana"));
    let ops = rig.request(call, &["mesa", "taxi"]);
    done(&mut rig, ops[1]);
    rig.run(3_000);
    turn(&mut rig, call);
    let response = rig.last_response(call);
    rig.store.delay_ms = 60_000;
    for _ in 0..2 {
        rig.input(call, Input::Model(ModelEvent::CancelIntent { response, tool: None, work: None }));
        rig.run(100);
    }
    rig.reply(call, &["Dígame"]);
    rig.run(12_000);
    assert_eq!(said_of_cancels(&rig, call), ["Perdone, ahora no le he podido responder. ¿Me lo repite?"], "once");
    assert_eq!(said(&rig, call).last(), Some(&"Dígame"), "what follows goes on");
    // Should the answers come after all, they are said.
    rig.run(80_000);
    assert_eq!(said_of_cancels(&rig, call)[1..], ["Intento cancelarlo; te digo cómo queda."; 2]);
}
