//! When a delivery may be told: held floors, who is on the line, windows that are shared, waiting for too long, progress.

mod a_call;

use a_call::{LONG, done, running, running_with, said, turn};
use recado_core::conversation::{Cause, Effect, Identity, Input, ModelEvent, Purpose, Standing};
use recado_core::gate::{Blocker, DeliveryDecision};
use recado_core::ids::{BatchId, DeliveryId};
use recado_core::ledger::{DeliveryEnvelope, DeliveryKind, DeliveryState, LedgerMeasure, News};
use recado_core::policy::{Audience, CanInterrupt, Priority, RidePosition};
use recado_core::time::{Time, Wall};
use recado_core::timers::Timer;
use recado_sim::{Rig, policies};
use serde_json::json;

fn blocked_by(rig: &Rig, call: usize, blocker: Blocker) -> bool {
    rig.calls[call].decisions.iter().any(|decision| decision.blocker == Some(blocker))
}

/// From the beginning of the last frame of a clause to the first one of the next (ms), where nothing was said between them.
fn gaps(rig: &Rig, call: usize) -> Vec<u64> {
    let ear = &rig.calls[call].voice.far_end.ear;
    let clause = |at: usize| matches!(rig.calls[call].voice.purposes[&ear[at].1].0, Purpose::Clause { .. });
    (1..ear.len()).filter(|at| clause(*at) && clause(at - 1) && ear[*at].1 != ear[at - 1].1).map(|at| ear[at].0 - ear[at - 1].0).collect()
}

/// The model asks for a PIN of four keys.
fn asks_for_pin(rig: &mut Rig, call: usize) {
    turn(rig, call);
    let response = rig.last_response(call);
    rig.say(call, response, "Marque su clave");
    rig.input(call, Input::Model(ModelEvent::CollectDigits { response, digits_max: 4, end: Some('#'), wait_ms: 5_000 }));
    rig.complete(call, response);
    rig.run(2_000);
}

fn digits(rig: &Rig, call: usize) -> Option<(&str, bool)> {
    rig.calls[call].asked.iter().find_map(|(_, cause)| match cause {
        Cause::Digits { digits, complete, .. } => Some((digits.as_str(), *complete)),
        _ => None,
    })
}

#[test]
fn nothing_is_told_while_a_pin_is_typed_and_its_keys_are_one_turn() {
    for (keys, typed) in [("1234", "1234"), ("12#", "12")] {
        let (mut rig, call, ops) = running();
        asks_for_pin(&mut rig, call);
        done(&mut rig, ops[0]);
        let asked = rig.calls[call].asked.len();
        for key in keys.chars() {
            assert_eq!(rig.calls[call].asked.len(), asked, "a key that is collected opens no turn");
            rig.run(1_500);
            rig.input(call, Input::Digit(key));
        }
        assert!(blocked_by(&rig, call, Blocker::FloorHeld) && rig.closings_heard().is_empty());
        assert_eq!(digits(&rig, call), Some((typed, true)));
        rig.reply(call, &["Gracias"]);
        rig.run(20_000);
        assert_eq!(rig.closings_heard(), ["Hecho lo de mesa: ya."]);
    }
}

#[test]
fn a_pin_that_is_not_typed_to_its_end_gives_the_floor_back_in_time() {
    let (mut rig, call, ops) = running();
    asks_for_pin(&mut rig, call);
    done(&mut rig, ops[0]);
    rig.input(call, Input::Digit('1'));
    rig.run(4_900);
    assert_eq!(digits(&rig, call), None);
    rig.run(200);
    assert_eq!(digits(&rig, call), Some(("1", false)));
    rig.reply(call, &["No me ha llegado entera"]);
    rig.run(20_000);
    assert_eq!(rig.closings_heard(), ["Hecho lo de mesa: ya."]);
}

#[test]
fn a_first_key_cuts_what_asks_for_it_and_noise_ends_no_collecting() {
    let (mut rig, call, _) = running_with(&[], |_| {});
    turn(&mut rig, call);
    let response = rig.last_response(call);
    rig.say(call, response, "Marque su clave, por favor, cuando quiera y sin prisa");
    rig.input(call, Input::Model(ModelEvent::CollectDigits { response, digits_max: 4, end: None, wait_ms: 9_000 }));
    rig.complete(call, response);
    rig.run(600);
    rig.input(call, Input::Digit('1'));
    rig.run(100);
    assert!(rig.calls[call].voice.heard().all(|(_, _, text)| !text.contains("clave")));
    turn(&mut rig, call);
    let noise = rig.turn(call);
    rig.input(call, Input::Model(ModelEvent::TurnWasNoise { turn: noise }));
    rig.reply(call, &[]);
    rig.run(500);
    for key in ['2', '3', '4'] {
        rig.input(call, Input::Digit(key));
    }
    assert_eq!(digits(&rig, call), Some(("1234", true)));
    // What the caller says instead, and is answered, ends it.
    rig.reply(call, &[]);
    asks_for_pin(&mut rig, call);
    turn(&mut rig, call);
    rig.reply(call, &["Como quiera"]);
    rig.run(3_000);
    let asked = rig.calls[call].asked.len();
    rig.input(call, Input::Digit('7'));
    assert!(matches!(rig.calls[call].asked[asked].1, Cause::Digit { digit: '7', .. }));
}

#[test]
fn the_floor_is_held_until_each_of_its_holders_has_given_it_back() {
    let (mut rig, call, ops) = running();
    asks_for_pin(&mut rig, call);
    rig.calls[call].floor_held = true;
    rig.input(call, Input::FloorHeld(true));
    done(&mut rig, ops[0]);
    "1234".chars().for_each(|key| rig.input(call, Input::Digit(key)));
    assert_eq!(digits(&rig, call), Some(("1234", true)), "the other holder takes no keys away");
    rig.reply(call, &["Gracias"]);
    rig.run(10_000);
    assert!(rig.closings_heard().is_empty(), "the keys have come, and the other one still holds it");
    asks_for_pin(&mut rig, call);
    rig.calls[call].floor_held = false;
    rig.input(call, Input::FloorHeld(false));
    rig.run(2_000);
    assert!(rig.closings_heard().is_empty(), "the other one has given it back, and keys are collected");
    rig.input(call, Input::Digit('#'));
    rig.reply(call, &["Gracias"]);
    rig.run(20_000);
    assert_eq!(rig.closings_heard(), ["Hecho lo de mesa: ya."]);
}

#[test]
fn a_hang_up_ends_the_collecting() {
    let (mut rig, call, ops) = running();
    asks_for_pin(&mut rig, call);
    rig.hang_up(call);
    rig.run(3_000);
    assert!(rig.calls[call].conversation.finished());
    done(&mut rig, ops[0]);
    rig.quiet_call(Some("ana"));
    rig.run(20_000);
    assert_eq!(rig.closings_heard(), ["Hecho lo de mesa: ya."]);
}

#[test]
fn what_is_for_the_verified_party_waits_until_it_is_verified() {
    let (mut rig, call, ops) = running_with(&["mesa"], |policy| policy.audience = Audience::VerifiedParty);
    done(&mut rig, ops[0]);
    rig.run(20_000);
    assert!(rig.closings_heard().is_empty() && blocked_by(&rig, call, Blocker::IdentityUnknown));
    rig.input(call, Input::Identified(Identity::Verified));
    rig.run(20_000);
    assert_eq!(rig.closings_heard(), ["Hecho lo de mesa: ya."]);
    assert_eq!(rig.deliveries(), [DeliveryState::Spoken]);
}

#[test]
fn what_is_being_told_stops_when_it_is_not_known_any_more_who_hears_it() {
    let (mut rig, call, ops) = running();
    done(&mut rig, ops[0]);
    rig.run_until("the closing sounds", |rig| rig.closing_frames(call) == 20);
    rig.input(call, Input::Identified(Identity::Unknown));
    rig.run(20_000);
    assert!(rig.closing_frames(call) <= 21, "I14");
    assert_eq!(rig.deliveries(), [DeliveryState::Ready]);
    rig.input(call, Input::Identified(Identity::CallersWord));
    rig.run(20_000);
    assert_eq!(rig.deliveries(), [DeliveryState::Spoken]);
}

#[test]
fn the_agent_does_not_wait_with_hanging_up_for_what_this_caller_may_not_hear() {
    let (mut rig, call, ops) = running_with(&["mesa"], |policy| policy.audience = Audience::VerifiedParty);
    done(&mut rig, ops[0]);
    turn(&mut rig, call);
    let response = rig.last_response(call);
    rig.say(call, response, "Adiós");
    rig.input(call, Input::Model(ModelEvent::HangUp { response }));
    rig.complete(call, response);
    rig.run(3_000);
    assert!(rig.calls[call].hung_up);
    assert_eq!(rig.deliveries(), [DeliveryState::Ready]);
}

#[test]
fn a_machine_that_answers_is_told_nothing_and_credits_nothing() {
    let (mut rig, call, ops) = running();
    rig.calls[call].voice.far_end.next_report = rig.now + 60_000;
    done(&mut rig, ops[0]);
    rig.run_until("all of it has been sent", |rig| rig.closings_heard().len() == 1);
    rig.input(call, Input::Voicemail);
    rig.calls[call].voice.far_end.next_report = rig.now + 100;
    rig.run(30_000);
    assert_eq!(rig.deliveries(), [DeliveryState::Ready], "a report on what a machine heard is no evidence");
    assert_eq!(rig.closings_heard().len(), 1);
    rig.hang_up(call);
    rig.run(2_000);
    rig.quiet_call(Some("ana"));
    rig.run(20_000);
    assert_eq!(rig.deliveries(), [DeliveryState::Spoken]);
}

#[test]
fn several_that_are_ready_share_one_window_urgent_first_then_the_oldest() {
    let (mut rig, call, ops) = running_with(&["mesa", "taxi", "pago"], |_| {});
    rig.hold(call, true);
    for op in &ops {
        done(&mut rig, *op);
        rig.run(50);
    }
    rig.hold(call, false);
    rig.run(30_000);
    assert_eq!(rig.closings_heard(), ["Hecho lo de mesa: ya.", "Hecho lo de taxi: ya.", "Hecho lo de pago: ya."]);
    let gaps = gaps(&rig, call);
    assert_eq!(gaps.len(), 2);
    assert!(gaps.iter().all(|gap| *gap < 650), "no new min_quiet between them: {gaps:?}");
}

#[test]
fn a_window_that_is_over_keeps_later_ones_from_nobody() {
    let (mut rig, call, ops) = running_with(&["mesa", "taxi", "pago"], |_| {});
    done(&mut rig, ops[0]);
    rig.run(30_000);
    done(&mut rig, ops[1]);
    done(&mut rig, ops[2]);
    rig.run(10_000);
    assert_eq!(rig.closings_heard().len(), 3);
    let gaps = gaps(&rig, call);
    assert!(gaps[0] > 20_000 && gaps[1] < 650, "{gaps:?}");
}

#[test]
fn an_urgent_one_goes_before_older_ones() {
    let mut tools = policies();
    tools.get_mut("pago").unwrap().priority = Priority::Urgent;
    let mut rig = Rig::new(tools);
    let call = rig.quiet_call(Some("ana"));
    let first = rig.request(call, &["mesa"]);
    rig.run(3_000);
    let second = rig.request(call, &["pago"]);
    rig.run(3_000);
    rig.hold(call, true);
    done(&mut rig, first[0]);
    rig.run(50);
    done(&mut rig, second[0]);
    rig.run(50);
    rig.hold(call, false);
    rig.run(30_000);
    assert_eq!(rig.closings_heard(), ["Hecho lo de pago: ya.", "Hecho lo de mesa: ya."]);
}

#[test]
fn a_window_is_shared_only_for_so_long() {
    let (mut rig, call, ops) = running_with(&["mesa", "taxi"], |_| {});
    rig.settings.timers = rig.settings.timers.clone().with(Timer::WindowMax, 1_000);
    // The window of this call is as short as a closing is long.
    rig.hang_up(call);
    rig.run(2_000);
    for op in &ops {
        done(&mut rig, *op);
    }
    let again = rig.quiet_call(Some("ana"));
    rig.run(20_000);
    let gaps = gaps(&rig, again);
    assert!(!gaps.is_empty() && gaps.iter().all(|gap| *gap >= 650), "{gaps:?}");
}

#[test]
fn quiet_is_what_the_policy_says() {
    let (mut rig, call, ops) = running_with(&["mesa"], |policy| policy.min_quiet_ms = Some(2_500));
    turn(&mut rig, call);
    rig.reply(call, &["Dígame"]);
    rig.run_until("it has been said", |rig| rig.calls[call].voice.heard().count() == 3);
    let spoken = rig.now;
    done(&mut rig, ops[0]);
    rig.run_until("the closing sounds", |rig| rig.closing_frames(call) > 0);
    assert!((2_500..2_700).contains(&(rig.now - spoken)), "{}", rig.now - spoken);
}

#[test]
fn what_waits_for_too_long_rides_on_what_is_being_said() {
    for (max_wait_ms, ride, rides) in
        [(3_000, RidePosition::First, true), (3_000, RidePosition::Last, true), (600_000, RidePosition::First, false)]
    {
        let (mut rig, call, ops) = running_with(&["mesa"], |policy| (policy.max_wait_ms, policy.ride) = (max_wait_ms, ride));
        turn(&mut rig, call);
        let response = rig.last_response(call);
        rig.say(call, response, LONG);
        rig.run(500);
        done(&mut rig, ops[0]);
        // The model goes on and on.
        for _ in 0..8 {
            rig.run(2_000);
            rig.say(call, response, LONG);
        }
        rig.complete(call, response);
        rig.run(40_000);
        let closing = said(&rig, call).iter().position(|text| text.starts_with("Hecho")).unwrap();
        let last = said(&rig, call).iter().rposition(|text| *text == LONG).unwrap();
        assert_eq!(closing < last, rides && ride == RidePosition::First, "{:?}", said(&rig, call));
        assert_eq!(rig.measured.contains(&LedgerMeasure::NextTurnResync), rides);
        assert_eq!(rig.deliveries(), [DeliveryState::Spoken]);
    }
}

/// News of progress, as the ledger tells it.
#[test]
fn a_claim_that_is_given_back_does_not_begin_the_wait_anew() {
    let (mut rig, call, ops) = running_with(&["mesa"], |policy| policy.max_wait_ms = 8_000);
    rig.hold(call, true);
    done(&mut rig, ops[0]);
    let ready = rig.now;
    rig.run(100);
    rig.store.delay_ms = 3_000;
    rig.hold(call, false);
    rig.run_until("it is claimed", |rig| rig.store.in_flight() > 0);
    rig.store.delay_ms = 3;
    // The claim is granted while something else is being said, and goes back.
    turn(&mut rig, call);
    let response = rig.last_response(call);
    for _ in 0..4 {
        rig.say(call, response, LONG);
        rig.run(2_000);
    }
    rig.complete(call, response);
    let rides = rig.calls[call].decisions.iter().find(|decision| decision.answer == DeliveryDecision::AttachToNextResponse);
    let waited_ms = rides.map(|decision| decision.at.since(Time(ready)));
    assert!(waited_ms.is_some_and(|waited_ms| (8_000..8_100).contains(&waited_ms)), "{waited_ms:?}");
}

fn progress(rig: &mut Rig, call: usize, batch: BatchId, text: &str) -> DeliveryId {
    news(rig, call, DeliveryKind::Progress, batch, text)
}

fn news(rig: &mut Rig, call: usize, kind: DeliveryKind, batch: BatchId, text: &str) -> DeliveryId {
    let delivery = DeliveryId(u128::from(rig.now) << 8);
    let envelope = DeliveryEnvelope {
        delivery,
        sequence: 0,
        kind,
        batch,
        priority: Priority::Normal,
        can_interrupt: CanInterrupt::Agent,
        ride: RidePosition::First,
        strict: false,
        audience: Audience::SameParty,
        max_wait_ms: 30_000,
        min_quiet_ms: None,
        ready_at: Some(Time(rig.now)),
        ready_wall: Wall::default(),
        stale_after_ms: None,
        attempt: 0,
        ride_only: false,
        operations: Vec::new(),
    };
    rig.input(call, Input::News(News::Update { envelope, text: text.into() }));
    delivery
}

fn batch(rig: &Rig) -> BatchId {
    *rig.store.batches.keys().next().unwrap()
}

#[test]
fn progress_is_told_in_a_quiet_moment_and_is_never_the_closing() {
    let (mut rig, call, ops) = running();
    let of = batch(&rig);
    progress(&mut rig, call, of, "Ya está en cocina");
    rig.run(5_000);
    assert_eq!(said(&rig, call)[2..], ["Ya está en cocina"]);
    rig.hold(call, true);
    done(&mut rig, ops[0]);
    rig.run(1_000);
    rig.hold(call, false);
    rig.run(20_000);
    assert_eq!(rig.closings_heard(), ["Hecho lo de mesa: ya."], "news of progress is no receipt");
}

#[test]
fn progress_that_finds_no_moment_is_dropped_and_the_model_knows_of_it() {
    for busy in ["the agent speaks", "the caller speaks", "on hold", "the floor is held"] {
        let (mut rig, call, _) = running();
        match busy {
            "the agent speaks" => {
                turn(&mut rig, call);
                rig.reply(call, &[LONG]);
                rig.run(500);
            }
            "the caller speaks" => {
                rig.caller_speaks(call, 2_000);
                rig.run(500);
            }
            "on hold" => rig.hold(call, true),
            _ => {
                rig.calls[call].floor_held = true;
                rig.input(call, Input::FloorHeld(true));
            }
        }
        let of = batch(&rig);
        let delivery = progress(&mut rig, call, of, "Ya está en cocina");
        let dropped = |rig: &Rig| {
            let decided =
                |decision: &recado_core::conversation::Decision| decision.delivery == delivery && decision.answer == DeliveryDecision::Drop;
            rig.calls[call].decisions.iter().any(decided)
        };
        assert!(dropped(&rig), "{busy}");
        if busy == "on hold" {
            rig.hold(call, false);
        }
        rig.run(10_000);
        assert!(!said(&rig, call).contains(&"Ya está en cocina"), "{busy}");
        assert!(rig.calls[call].outputs.iter().any(|output| matches!(output, Effect::Update { .. })));
    }
}

#[test]
fn progress_that_is_being_spoken_stops_when_its_closing_is_ready() {
    let (mut rig, call, ops) = running();
    let of = batch(&rig);
    progress(&mut rig, call, of, "Ya está en cocina y la llevan a la mesa");
    rig.run_until("it sounds", |rig| rig.calls[call].voice.far_end.ear.last().is_some_and(|(at, _)| *at == rig.now));
    rig.run(300);
    done(&mut rig, ops[0]);
    rig.run(20_000);
    assert_eq!(said(&rig, call)[2..], ["Hecho lo de mesa: ya."], "I19");
}

#[test]
fn progress_that_waits_for_quiet_is_cleared_by_its_closing_and_by_what_comes_later() {
    let (mut rig, call, ops) = running();
    turn(&mut rig, call);
    rig.reply(call, &["Dígame"]);
    rig.run_until("it has been said", |rig| rig.calls[call].voice.heard().count() == 3);
    rig.run(40);
    let of = batch(&rig);
    progress(&mut rig, call, of, "uno");
    rig.run(20);
    progress(&mut rig, call, of, "dos");
    rig.run(3_000);
    assert_eq!(said(&rig, call)[3..], ["dos"]);
    rig.run(40);
    progress(&mut rig, call, of, "tres");
    done(&mut rig, ops[0]);
    rig.run(20_000);
    assert_eq!(said(&rig, call)[4..], ["Hecho lo de mesa: ya."]);
}

#[test]
fn silent_news_is_for_the_model_alone() {
    let (mut rig, call, _) = running();
    let of = batch(&rig);
    news(&mut rig, call, DeliveryKind::Silent, of, "en cocina");
    rig.run(10_000);
    assert_eq!(said(&rig, call).len(), 2);
    assert!(rig.calls[call].outputs.iter().any(|output| matches!(output, Effect::Update { text, .. } if text == "en cocina")));
}

#[test]
fn a_caller_who_speaks_cuts_progress_and_it_is_not_taken_up_again() {
    let (mut rig, call, _) = running();
    let of = batch(&rig);
    progress(&mut rig, call, of, "Ya está en cocina y la llevan a la mesa");
    rig.run_until("it sounds", |rig| rig.calls[call].voice.far_end.ear.last().is_some_and(|(at, _)| *at == rig.now));
    rig.run(300);
    turn(&mut rig, call);
    let noise = rig.turn(call);
    rig.input(call, Input::Model(ModelEvent::TurnWasNoise { turn: noise }));
    rig.reply(call, &[]);
    rig.run(10_000);
    assert_eq!(said(&rig, call).len(), 2, "{:?}", said(&rig, call));
}

#[test]
fn after_an_urgent_cut_every_turn_of_the_caller_is_answered() {
    let mut tools = policies();
    tools.get_mut("pago").unwrap().priority = Priority::Urgent;
    tools.get_mut("pago").unwrap().can_interrupt = CanInterrupt::Caller;
    let mut rig = Rig::new(tools);
    let call = rig.quiet_call(Some("ana"));
    let ops = rig.request(call, &["pago"]);
    rig.run(3_000);
    rig.caller_speaks(call, 2_500);
    rig.run(800);
    done(&mut rig, ops[0]);
    rig.run_until("it is told over the caller", |rig| rig.closing_frames(call) > 10);
    rig.run_until("the turn ends", |rig| rig.calls[call].asked.len() == 3);
    rig.reply(call, &["Le respondo"]);
    rig.run(20_000);
    assert_eq!(said(&rig, call)[2..], ["Hecho lo de pago: ya.", "Le respondo"]);
    assert_eq!(rig.deliveries(), [DeliveryState::Spoken]);
}

#[test]
fn a_truncation_counts_what_the_model_said_over_all_playbacks_and_nothing_that_the_box_said() {
    let (mut rig, call, ops) = running();
    rig.caller_speaks(call, 600);
    rig.run(300);
    done(&mut rig, ops[0]);
    rig.run_until("the turn ends", |rig| rig.calls[call].asked.len() == 3);
    // The closing rides first; then the reply, which a hold cuts; its rest follows the hold.
    rig.reply(call, &["Muy bien", LONG]);
    rig.run_until("the reply sounds", |rig| said(rig, call).contains(&"Muy bien"));
    rig.run(800);
    rig.hold(call, true);
    rig.run(1_000);
    rig.hold(call, false);
    rig.run(900);
    turn(&mut rig, call);
    let (_, heard_ms, heard_text) = rig.calls[call].truncated.last().unwrap().clone();
    assert!(heard_text.starts_with("Muy bien Le cuento"), "{heard_text}");
    let whole: u64 = ["Muy bien", LONG].iter().map(|text| (text.chars().count() as u64 * 60).div_ceil(20) * 20).sum();
    assert!(heard_ms > 480 + 800 && heard_ms <= whole, "{heard_ms} of {whole}");
}

#[test]
fn what_the_model_had_said_and_nobody_heard_is_cut_from_its_memory() {
    let (mut rig, call, _) = running_with(&[], |_| {});
    turn(&mut rig, call);
    rig.store.delay_ms = 2_500;
    rig.ask(call, "mesa", json!({}));
    let response = rig.last_response(call);
    rig.say(call, response, LONG);
    rig.run(500);
    // It waits behind the acceptance, when the caller goes on.
    turn(&mut rig, call);
    assert_eq!(*rig.calls[call].truncated.last().unwrap(), (response, 0, String::new()));
}

#[test]
fn history_has_a_provisional_tail_that_evidence_replaces() {
    let (mut rig, call, _) = running_with(&[], |_| {});
    rig.calls[call].voice.far_end.next_report = rig.now + 12_000;
    turn(&mut rig, call);
    rig.reply(call, &["Muy bien"]);
    rig.run(2_000);
    turn(&mut rig, call);
    let of_it = |rig: &Rig| -> Vec<Standing> {
        rig.calls[call].history.iter().filter(|heard| heard.text == "Muy bien").map(|heard| heard.standing).collect()
    };
    assert_eq!(of_it(&rig), [Standing::Provisional], "the model knows, with the turn, what was probably heard");
    rig.reply(call, &["Dígame"]);
    rig.run(12_000);
    assert!(matches!(of_it(&rig)[..], [Standing::Provisional, Standing::Settled(_)]), "{:?}", of_it(&rig));
}
