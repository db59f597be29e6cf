//! Failures that users of voice agents reported, each as its kind: what went wrong there must come out right here.

mod a_call;

use a_call::{LONG, done, running, said, turn};
use recado_core::conversation::{Acoustic, Effect, Evidence, Input, Mark, ModelEvent, PlaybackEvent, Purpose, ToolStatus};
use recado_core::gate::Blocker;
use recado_core::ledger::{DeliveryState, OperationState};
use recado_core::policy::RidePosition;
use recado_core::time::Time;
use recado_sim::voice::Count;
use recado_sim::{Rig, policies};
use serde_json::json;

/// What became of the frames of the closing's only clause, which is being told for the first time.
fn closing(rig: &Rig, call: usize) -> Count {
    let voice = &rig.calls[call].voice;
    let clause = voice.purposes.iter().find(|(_, (purpose, _))| matches!(purpose, Purpose::Clause { .. }));
    voice.count(*clause.unwrap().0)
}

fn told_once(rig: &Rig) {
    assert_eq!(rig.closings_heard(), ["Hecho lo de mesa: ya."]);
    assert_eq!(rig.deliveries(), [DeliveryState::Spoken]);
}

#[test]
fn a_result_that_waits_for_the_end_of_a_reply_survives_the_interruption_of_that_reply() {
    let (mut rig, call, ops) = running();
    turn(&mut rig, call);
    rig.reply(call, &[LONG]);
    rig.run(500);
    done(&mut rig, ops[0]);
    rig.run(200);
    turn(&mut rig, call);
    rig.reply(call, &["Muy bien"]);
    rig.run(30_000);
    told_once(&rig);
}

#[test]
fn a_reply_that_ends_while_the_caller_speaks_leaves_the_result_to_the_next_moment_even_after_noise() {
    let (mut rig, call, ops) = running();
    turn(&mut rig, call);
    rig.reply(call, &["Muy bien"]);
    rig.run_until("it is nearly over", |rig| rig.calls[call].voice.far_end.ear.iter().filter(|(at, _)| *at > rig.now - 400).count() > 15);
    done(&mut rig, ops[0]);
    rig.caller_speaks(call, 900);
    rig.run_until("the turn ends", |rig| rig.calls[call].asked.len() == 4);
    let noise = rig.turn(call);
    rig.input(call, Input::Model(ModelEvent::TurnWasNoise { turn: noise }));
    rig.reply(call, &[]);
    rig.run(30_000);
    told_once(&rig);
}

#[test]
fn an_unrelated_question_gets_its_answer_and_the_result_in_the_policys_order() {
    for ride in [RidePosition::First, RidePosition::Last] {
        let mut tools = policies();
        tools.get_mut("mesa").unwrap().ride = ride;
        let mut rig = Rig::new(tools);
        let call = rig.quiet_call(Some("ana"));
        let ops = rig.request(call, &["mesa"]);
        rig.run(3_000);
        rig.caller_speaks(call, 800);
        rig.run(400);
        done(&mut rig, ops[0]);
        rig.run_until("the turn ends", |rig| rig.calls[call].asked.len() == 3);
        rig.reply(call, &["Abrimos a las nueve"]);
        rig.run(20_000);
        let both = match ride {
            RidePosition::First => ["Hecho lo de mesa: ya.", "Abrimos a las nueve"],
            RidePosition::Last => ["Abrimos a las nueve", "Hecho lo de mesa: ya."],
        };
        assert_eq!(said(&rig, call)[2..], both);
        told_once(&rig);
    }
}

#[test]
fn what_the_model_knows_counts_for_nothing_and_it_is_not_given_an_untold_result() {
    let (mut rig, call, ops) = running();
    rig.hold(call, true);
    done(&mut rig, ops[0]);
    rig.run(1_000);
    rig.hold(call, false);
    turn(&mut rig, call);
    // Its answer does not mention the result.
    rig.reply(call, &["Abrimos a las nueve"]);
    let told = rig.calls[call].told.len();
    let outputs = format!("{:?}", rig.calls[call].outputs);
    assert_eq!(told, 0);
    assert!(!outputs.contains("Hecho") && !outputs.contains("\"ya\""), "{outputs}");
    rig.run(20_000);
    told_once(&rig);
    assert_eq!(rig.calls[call].told, ["Hecho lo de mesa: ya."]);
}

#[test]
fn marks_that_a_clear_brings_back_count_for_nothing() {
    let mut rig = Rig::new(policies());
    rig.best = Evidence::Marked;
    let call = rig.dial(Some("ana"));
    rig.calls[call].voice.far_end.rtcp = false;
    rig.reply(call, &["Hola"]);
    rig.run(4_000);
    let ops = rig.request(call, &["mesa", "taxi"]);
    rig.run(3_000);
    for op in &ops {
        done(&mut rig, *op);
    }
    rig.run_until("both clauses have left the box", |rig| rig.closings_heard().len() == 2);
    let clause = |rig: &Rig, of: u32| {
        let is = |purpose: &Purpose| matches!(purpose, Purpose::Clause { clause: Some(clause), .. } if *clause == of);
        *rig.calls[call].voice.purposes.iter().find(|(_, (purpose, _))| is(purpose)).unwrap().0
    };
    let (first, second, now) = (clause(&rig, 0), clause(&rig, 1), Time(rig.now));
    let back = |rig: &mut Rig, segment, back| rig.input(call, Input::Playback(PlaybackEvent::Marked { segment, back, at: now }));
    back(&mut rig, first, Mark::Played);
    back(&mut rig, second, Mark::Cleared);
    rig.run(20);
    let record = rig.store.deliveries.values().next().unwrap();
    assert_eq!(record.attempt, 1, "it was cut");
    assert_eq!(record.clauses.iter().map(|clause| clause.heard).collect::<Vec<_>>(), [Some(Evidence::Marked), None]);
    rig.run_until("the rest is told again", |rig| rig.closings_heard().len() == 3);
    assert_eq!(rig.closings_heard()[2], "Hecho lo de taxi: ya.");
}

#[test]
fn marks_that_come_too_soon_or_were_never_sent_are_doubted() {
    let mut rig = Rig::new(policies());
    rig.best = Evidence::Marked;
    let call = rig.dial(Some("ana"));
    rig.calls[call].voice.far_end.rtcp = false;
    rig.reply(call, &["Hola"]);
    rig.run(4_000);
    let ops = rig.request(call, &["mesa"]);
    rig.run(3_000);
    done(&mut rig, ops[0]);
    rig.run_until("the closing sounds", |rig| rig.closing_frames(call) == 10);
    let segment = rig.calls[call].voice.far_end.ear.last().unwrap().1;
    let at = Time(rig.now);
    let mark = |segment| Input::Playback(PlaybackEvent::Marked { segment, back: Mark::Played, at });
    rig.input(call, mark(segment));
    rig.input(call, mark(recado_core::conversation::SegmentRef { index: 77, ..segment }));
    let doubts = rig.calls[call].outputs.iter().filter(|output| matches!(output, Effect::Doubted { .. })).count();
    assert_eq!(doubts, 2);
    rig.run_until("it is settled", |rig| rig.deliveries() != [DeliveryState::Speaking]);
    assert_eq!(rig.deliveries(), [DeliveryState::Uncertain], "a mark that lies credits nothing");
}

#[test]
fn the_agent_hangs_up_only_after_its_last_words_have_been_heard() {
    let (mut rig, call, ops) = running();
    turn(&mut rig, call);
    let response = rig.last_response(call);
    rig.say(call, response, "Adiós");
    rig.input(call, Input::Model(ModelEvent::HangUp { response }));
    rig.complete(call, response);
    rig.run(300);
    done(&mut rig, ops[0]);
    rig.run_until("it hangs up", |rig| rig.calls[call].hung_up);
    let last = rig.calls[call].voice.far_end.ear.last().unwrap().0;
    assert!(rig.now >= last + 500, "the far end still plays: {} after {last}", rig.now);
    assert_eq!(rig.closings_heard(), ["Hecho lo de mesa: ya."], "and not over what is due");
}

#[test]
fn the_agent_hangs_up_on_a_call_that_stays_on_hold() {
    let (mut rig, call, ops) = running();
    turn(&mut rig, call);
    let response = rig.last_response(call);
    rig.input(call, Input::Model(ModelEvent::HangUp { response }));
    rig.complete(call, response);
    rig.hold(call, true);
    done(&mut rig, ops[0]);
    rig.run(11_000);
    assert!(rig.calls[call].hung_up, "nobody is there to be told anything");
    assert_eq!(rig.deliveries(), [DeliveryState::Ready]);
}

#[test]
fn a_call_on_hold_stays_and_is_told_nothing_until_it_is_taken_back() {
    let (mut rig, call, ops) = running();
    rig.hold(call, true);
    done(&mut rig, ops[0]);
    rig.run(60_000);
    assert!(!rig.calls[call].hung_up && rig.closings_heard().is_empty());
    assert!(rig.calls[call].decisions.iter().any(|decision| decision.blocker == Some(Blocker::OnHold)));
    rig.hold(call, false);
    rig.run(20_000);
    told_once(&rig);
}

#[test]
fn what_was_on_its_way_when_the_call_was_put_on_hold_is_not_credited_without_a_report() {
    let (mut rig, call, ops) = running();
    rig.calls[call].voice.far_end.rtcp = false;
    done(&mut rig, ops[0]);
    rig.run_until("all of it has been sent", |rig| rig.closings_heard().len() == 1);
    rig.run(20);
    rig.hold(call, true);
    rig.run(20_000);
    assert_eq!(rig.deliveries(), [DeliveryState::Uncertain]);
}

/// A closing of which the last frame leaves next, to a far end that sends no reports; the conversation learns of it later.
fn before_the_last_frame() -> (Rig, usize) {
    let mut rig = Rig::new(policies());
    rig.link_ms = 35;
    let call = rig.quiet_call(Some("ana"));
    let ops = rig.request(call, &["mesa"]);
    rig.run(3_000);
    rig.calls[call].voice.far_end.rtcp = false;
    done(&mut rig, ops[0]);
    rig.run_until("the closing sounds", |rig| rig.closing_frames(call) > 0);
    let frames = closing(&rig, call).frames;
    rig.run_until("its last frame is due", |rig| rig.closing_frames(call) == frames - 1);
    rig.run(19);
    (rig, call)
}

#[test]
fn what_left_before_a_hold_and_is_told_of_after_it_is_not_credited_without_a_report() {
    let (mut rig, call) = before_the_last_frame();
    // The last frame leaves, and the conversation learns of the hold before it learns of that.
    rig.calls[call].on_hold = true;
    rig.input(call, Input::Hold(true));
    rig.run(20_000);
    assert_eq!(rig.closings_heard().len(), 1, "all of it has left the box");
    assert_eq!(rig.deliveries(), [DeliveryState::Uncertain]);
}

#[test]
fn a_far_end_that_goes_on_reporting_and_gets_nothing_is_not_believed_to_have_heard() {
    let (mut rig, call, ops) = running();
    rig.run(6_000);
    rig.calls[call].voice.far_end.cut_off = true;
    done(&mut rig, ops[0]);
    rig.run_until("the closing begins", |rig| rig.closing_frames(call) > 0);
    let frames = closing(&rig, call).frames;
    rig.run_until("all of it has been sent", |rig| rig.closing_frames(call) == frames);
    rig.run(15_500);
    assert_ne!(rig.deliveries(), [DeliveryState::Spoken]);
    let doubted = format!("{:?}", rig.calls[call].outputs);
    assert!(doubted.contains("NotReached"), "{doubted}");
    // Once it gets something again, it is told until it has been heard.
    rig.calls[call].voice.far_end.cut_off = false;
    rig.run(90_000);
    assert_eq!(rig.deliveries(), [DeliveryState::Spoken]);
}

#[test]
fn a_result_neither_cuts_what_is_being_said_nor_is_lost_behind_it() {
    let (mut rig, call, ops) = running();
    turn(&mut rig, call);
    rig.reply(call, &[LONG]);
    rig.run(400);
    done(&mut rig, ops[0]);
    rig.run(30_000);
    assert_eq!(said(&rig, call)[2..], [LONG, "Hecho lo de mesa: ya."]);
    assert!(rig.calls[call].truncated.is_empty() && rig.calls[call].cancelled.is_empty());
}

#[test]
fn what_a_cancelled_response_still_says_is_not_heard() {
    let (mut rig, call, _) = running();
    turn(&mut rig, call);
    let old = rig.last_response(call);
    rig.say(call, old, LONG);
    rig.run(600);
    turn(&mut rig, call);
    rig.say(call, old, "y otra cosa");
    rig.complete(call, old);
    rig.reply(call, &["Dígame"]);
    rig.run(10_000);
    assert_eq!(said(&rig, call)[2..], ["Dígame"]);
}

#[test]
fn a_playback_that_can_not_go_on_after_a_false_start_is_said_anew_and_never_shown_as_playing() {
    let (mut rig, call, ops) = running();
    done(&mut rig, ops[0]);
    rig.run_until("the closing sounds", |rig| rig.closing_frames(call) == 10);
    rig.calls[call].voice.deaf = 1;
    rig.cough(call);
    // The rig checks I20 on the way.
    rig.run(30_000);
    assert_eq!(rig.deliveries(), [DeliveryState::Spoken]);
    assert_eq!(rig.closings_heard().len(), 1, "the short form, from its beginning");
}

#[test]
fn noise_in_the_greeting_pauses_it_and_clears_nothing() {
    let mut rig = Rig::new(policies());
    let call = rig.dial(Some("ana"));
    rig.reply(call, &["Hola, le atiende el restaurante"]);
    rig.run(500);
    rig.cough(call);
    rig.run(10_000);
    assert_eq!(said(&rig, call), ["Hola, le atiende el restaurante"]);
    assert!(rig.calls[call].cancelled.is_empty() && rig.calls[call].truncated.is_empty());
}

#[test]
fn nothing_that_was_queued_sounds_after_a_barge_in() {
    let mut rig = Rig::new(policies());
    rig.link_ms = 35;
    let call = rig.quiet_call(Some("ana"));
    turn(&mut rig, call);
    rig.reply(call, &[LONG, LONG, LONG]);
    rig.run(1_000);
    let spoke_at = rig.now;
    rig.caller_speaks(call, 600);
    rig.run(3_000);
    let last = rig.calls[call].voice.far_end.ear.last().unwrap().0;
    assert!(last <= spoke_at + 300, "heard until {last}, the caller spoke at {spoke_at}");
}

#[test]
fn pauses_in_the_callers_speech_are_not_answered_and_a_batch_is_accepted_once() {
    let mut rig = Rig::new(policies());
    let call = rig.quiet_call(Some("ana"));
    rig.caller_speaks_on(call);
    rig.run_until("the turn ends", |rig| rig.calls[call].asked.len() == 2);
    for tool in ["mesa", "taxi", "pago"] {
        rig.ask(call, tool, json!({ "of": tool }));
    }
    let response = rig.last_response(call);
    rig.complete(call, response);
    rig.run(5_000);
    assert_eq!(rig.calls[call].asked.len(), 2);
    assert_eq!(said(&rig, call), ["Hola", "Lo miro, siga."]);
}

#[test]
fn every_call_of_a_tool_gets_its_output_whatever_cuts_the_response() {
    let mut rig = Rig::new(policies());
    let call = rig.quiet_call(Some("ana"));
    turn(&mut rig, call);
    rig.store.delay_ms = 1_500;
    rig.ask(call, "mesa", json!({}));
    // The caller goes on before the store has answered.
    turn(&mut rig, call);
    rig.reply(call, &["Dígame"]);
    rig.run(10_000);
    let outputs = rig.calls[call].outputs.iter().filter(|output| matches!(output, Effect::ToolOutput { .. })).count();
    assert_eq!(outputs, 1);
    assert_eq!(rig.store.operations.values().next().unwrap().state, OperationState::Running, "barge-in cancels no operation");
}

#[test]
fn a_model_that_never_speaks_again_keeps_no_result_back() {
    let (mut rig, call, ops) = running();
    turn(&mut rig, call);
    done(&mut rig, ops[0]);
    rig.run(20_000);
    told_once(&rig);
}

#[test]
fn a_reply_right_after_a_clear_is_heard_from_its_first_frame() {
    let mut rig = Rig::new(policies());
    rig.link_ms = 35;
    let call = rig.quiet_call(Some("ana"));
    turn(&mut rig, call);
    rig.reply(call, &[LONG]);
    rig.run(1_000);
    rig.input(call, Input::Digit('5'));
    rig.reply(call, &["Le escucho ahora mismo"]);
    rig.run(10_000);
    assert_eq!(*said(&rig, call).last().unwrap(), "Le escucho ahora mismo");
    let voice = &rig.calls[call].voice;
    let segment = *voice.purposes.iter().find(|(_, (_, text))| text == "Le escucho ahora mismo").unwrap().0;
    assert_eq!(voice.count(segment).released, voice.count(segment).frames);
}

#[test]
fn a_closing_whose_audio_can_not_be_made_is_never_heard_and_is_tried_again() {
    let (mut rig, call, ops) = running();
    rig.calls[call].voice.engine.failing = 1;
    done(&mut rig, ops[0]);
    rig.run(1_000);
    assert!(rig.deliveries() != [DeliveryState::Spoken]);
    rig.run(20_000);
    assert_eq!(rig.closings_heard().len(), 1);
    assert_eq!(rig.deliveries(), [DeliveryState::Spoken]);
    assert_eq!(rig.store.deliveries.values().next().unwrap().attempt, 1);
}

#[test]
fn a_line_that_hums_for_ever_is_no_caller_and_the_result_is_told() {
    let (mut rig, call, ops) = running();
    let now = rig.now;
    let edges = [(40, Acoustic::Suspected), (180, Acoustic::Speaking)];
    rig.calls[call].edges.extend(edges.map(|(after, to)| (now + after, to, now + after)));
    done(&mut rig, ops[0]);
    rig.run(90_000);
    assert_eq!(rig.deliveries(), [DeliveryState::Spoken]);
}

#[test]
fn the_result_itself_is_the_answer_when_it_is_asked_for_again() {
    let (mut rig, call, ops) = running();
    rig.hold(call, true);
    done(&mut rig, ops[0]);
    rig.run(1_000);
    rig.hold(call, false);
    turn(&mut rig, call);
    let response = rig.last_response(call);
    rig.say(call, response, "A ver");
    rig.ask(call, "mesa", json!({ "of": "mesa" }));
    rig.complete(call, response);
    rig.run(20_000);
    let status = |output: &Effect| match output {
        Effect::ToolOutput { status, .. } => Some(*status),
        _ => None,
    };
    let statuses: Vec<ToolStatus> = rig.calls[call].outputs.iter().filter_map(status).collect();
    assert_eq!(statuses, [ToolStatus::Running, ToolStatus::AboutToBeTold]);
    assert_eq!(said(&rig, call)[2..].iter().filter(|text| text.contains("enseguida")).count(), 0, "{:?}", said(&rig, call));
    told_once(&rig);
    // Asked once more, it has been told.
    turn(&mut rig, call);
    rig.ask(call, "mesa", json!({ "of": "mesa" }));
    rig.run(5_000);
    let statuses: Vec<ToolStatus> = rig.calls[call].outputs.iter().filter_map(status).collect();
    assert_eq!(rig.dispatched.len(), if statuses[2] == ToolStatus::Running { 2 } else { 1 }, "{statuses:?}");
}

#[test]
fn what_left_before_a_hold_and_is_told_of_when_the_hold_has_ended_again_is_not_credited_without_a_report() {
    let (mut rig, call) = before_the_last_frame();
    // The last frame leaves, and before the conversation learns of that there has been a hold.
    rig.calls[call].on_hold = true;
    rig.input(call, Input::Hold(true));
    rig.run(5);
    rig.calls[call].on_hold = false;
    rig.input(call, Input::Hold(false));
    rig.run(16_000);
    let doubted = format!("{:?}", rig.calls[call].outputs);
    assert!(doubted.contains("LeftTooLate"), "{doubted}");
}
