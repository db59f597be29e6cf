//! The contract's twelve measures, in conversations of which the answers are known: from what the ear and the caller did, at
//! the times at which they did it.

use std::collections::BTreeMap;

use recado_core::conversation::{Effect, MeasureName, Purpose};
use recado_core::ledger::{AttemptOutcome, DeliveryState, LedgerMeasure};
use recado_sim::voice::FRAME;
use recado_sim::{Rig, policies};
use serde_json::json;

/// What was measured: each time that was taken, by name.
fn times(rig: &Rig) -> BTreeMap<&'static str, Vec<u64>> {
    let mut times: BTreeMap<&'static str, Vec<u64>> = BTreeMap::new();
    for output in rig.calls.iter().flat_map(|call| &call.outputs) {
        if let Effect::Measured(measure) = output {
            times.entry(measure.name.as_str()).or_default().push(measure.value);
        }
    }
    for measure in &rig.measured {
        let (name, ms) = match measure {
            LedgerMeasure::AcceptToStartMs(ms) => ("operation_accept_to_start_ms", *ms),
            LedgerMeasure::OperationDurationMs(ms) => ("operation_duration_ms", *ms),
            LedgerMeasure::CompleteToDeliveryReadyMs(ms) => ("operation_complete_to_delivery_ready_ms", *ms),
            _ => continue,
        };
        times.entry(name).or_default().push(ms);
    }
    times
}

/// The four rates, as numerator and denominator: side effects and closings that came twice, stale ones, and those that rode.
#[derive(Debug, PartialEq, Eq)]
struct Rates {
    side_effect: (usize, usize),
    delivery: (usize, usize),
    stale: (usize, usize),
    resync: (usize, usize),
}

fn rates(rig: &Rig) -> Rates {
    let count = |measure: LedgerMeasure| rig.measured.iter().filter(|known| **known == measure).count();
    let spoken = count(LedgerMeasure::Spoken);
    Rates {
        side_effect: (count(LedgerMeasure::DuplicateSideEffect), count(LedgerMeasure::OperationSettled)),
        delivery: (count(LedgerMeasure::DuplicateDelivery), spoken),
        stale: (count(LedgerMeasure::StaleDelivery), spoken),
        resync: (count(LedgerMeasure::NextTurnResync), spoken),
    }
}

/// One operation, settled; one closing, heard, of which nothing is remarkable.
const ONCE: Rates = Rates { side_effect: (0, 1), delivery: (0, 1), stale: (0, 1), resync: (0, 1) };

/// When the first frame of a segment of this kind left, over all calls that are left.
fn first_frame(rig: &Rig, of: impl Fn(&Purpose) -> bool) -> u64 {
    let frames = rig.calls.iter().flat_map(|call| call.voice.far_end.ear.iter().map(move |frame| (frame, &call.voice.purposes)));
    frames.filter(|((_, segment), purposes)| of(&purposes[segment].0)).map(|((at, _), _)| *at).min().expect("it sounded")
}

fn acceptance(purpose: &Purpose) -> bool {
    matches!(purpose, Purpose::Acceptance { .. })
}

fn closing(purpose: &Purpose) -> bool {
    matches!(purpose, Purpose::Clause { .. })
}

/// A call in which a table was asked for and its acceptance was heard; also when the caller fell silent, and when they asked.
fn asked(rig: &mut Rig) -> (usize, recado_core::OperationId, u64, u64) {
    let call = rig.quiet_call(Some("ana"));
    let silent = rig.now + 600;
    rig.caller_speaks(call, 600);
    rig.run(1_600);
    let asked = rig.now;
    rig.ask(call, "mesa", json!({}));
    let response = rig.last_response(call);
    rig.complete(call, response);
    rig.run(3_000);
    (call, rig.dispatched[0].operation, silent, asked)
}

#[test]
fn a_closing_that_is_announced_and_heard() {
    let mut rig = Rig::new(policies());
    let (_, operation, silent, asked) = asked(&mut rig);
    let done = rig.now;
    rig.done(operation, json!({ "value": "a las nueve" }));
    rig.run(30_000);
    let times = times(&rig);
    assert_eq!(times["speech_stop_to_acceptance_audio_ms"], [first_frame(&rig, acceptance) - silent]);
    assert_eq!(times["operation_accept_to_start_ms"], [rig.store.delay_ms]);
    assert_eq!(times["operation_duration_ms"], [done - asked]);
    assert_eq!(times["operation_complete_to_delivery_ready_ms"], [rig.store.delay_ms]);
    assert_eq!(times["delivery_ready_to_first_audio_ms"], [first_frame(&rig, closing) - done]);
    let gaps = &times["generated_to_played_gap_ms"];
    assert_eq!(gaps.len(), 3, "greeting, acceptance, closing");
    assert!(gaps.iter().all(|gap| *gap <= FRAME), "nothing was in the way of what was rendered: {gaps:?}");
    assert!(!times.contains_key("barge_in_to_playback_stop_ms") && !times.contains_key("cancelled_response_unheard_ms"));
    assert_eq!(rates(&rig), ONCE);
}

#[test]
fn a_closing_that_rides_on_the_next_response() {
    let mut rig = Rig::new(policies());
    let (call, operation, ..) = asked(&mut rig);
    rig.caller_speaks(call, 2_000);
    rig.run(500);
    let done = rig.now;
    rig.done(operation, json!({ "value": "a las nueve" }));
    rig.run_until("the turn ends", |rig| rig.calls[call].asked.len() == 3);
    rig.reply(call, &["Muy bien"]);
    rig.run(30_000);
    assert_eq!(times(&rig)["delivery_ready_to_first_audio_ms"], [first_frame(&rig, closing) - done]);
    assert_eq!(rates(&rig), Rates { resync: (1, 1), ..ONCE });
}

#[test]
fn a_closing_that_is_cut_while_it_rides_and_then_announced() {
    let mut rig = Rig::new(policies());
    let (call, operation, ..) = asked(&mut rig);
    rig.caller_speaks(call, 2_000);
    rig.run(500);
    let done = rig.now;
    rig.done(operation, json!({ "value": "a las nueve" }));
    rig.run_until("the turn ends", |rig| rig.calls[call].asked.len() == 3);
    rig.reply(call, &["Muy bien"]);
    rig.run_until("the closing sounds", |rig| rig.closing_frames(call) > 0);
    rig.caller_speaks(call, 500);
    rig.run_until("the turn ends", |rig| rig.calls[call].asked.len() == 4);
    rig.reply(call, &["Dígame"]);
    rig.run(40_000);
    assert_eq!(rig.deliveries(), [DeliveryState::Spoken]);
    let times = times(&rig);
    assert_eq!(times["delivery_ready_to_first_audio_ms"], [first_frame(&rig, closing) - done], "a delivery's first audio comes once");
    assert_eq!(times["barge_in_to_playback_stop_ms"], [0], "the voice pauses by itself");
    let rode = rates(&rig).resync.0;
    assert!(rode <= 1, "a rate of what was heard is at most one");
    assert_eq!(rates(&rig), Rates { resync: (rode, 1), ..ONCE });
}

#[test]
fn a_reply_that_the_caller_interrupts() {
    let mut rig = Rig::new(policies());
    let call = rig.quiet_call(Some("ana"));
    let turns = rig.calls[call].asked.len();
    rig.caller_speaks(call, 500);
    rig.run_until("the turn ends", |rig| rig.calls[call].asked.len() > turns);
    rig.reply(call, &["Le cuento una cosa que es bastante larga"]);
    rig.run(1_000);
    rig.caller_speaks(call, 500);
    rig.run(5_000);
    let times = times(&rig);
    assert_eq!(times["barge_in_to_playback_stop_ms"], [0]);
    let mut counts = rig.calls[call].voice.far_end.counts.values().map(|count| (count.frames * FRAME, count.released * FRAME));
    let (frames, released) = counts.find(|(frames, released)| released < frames).expect("the reply was cut");
    // What had left and was still on its way counts as unheard.
    assert_eq!(times["cancelled_response_unheard_ms"], [frames - released + recado_sim::watch::FAR_BUFFER]);
    assert_eq!(rates(&rig), Rates { side_effect: (0, 0), delivery: (0, 0), stale: (0, 0), resync: (0, 0) });
}

#[test]
fn a_closing_that_is_told_again_after_doubt() {
    let mut rig = Rig::new(policies());
    let (call, operation, ..) = asked(&mut rig);
    rig.done(operation, json!({ "value": "a las nueve" }));
    rig.run_until("the closing sounds", |rig| rig.closing_frames(call) > 0);
    rig.calls[call].voice.far_end.losing = 40;
    rig.run_until("it is in doubt", |rig| rig.deliveries() == [DeliveryState::Uncertain]);
    assert_eq!(rates(&rig).delivery, (0, 0), "it is counted when it is told again, not when it may be");
    rig.run(40_000);
    assert_eq!(rates(&rig), Rates { delivery: (1, 1), ..ONCE });
}

#[test]
fn a_closing_that_becomes_stale_between_its_claim_and_its_first_frame() {
    let mut policies = policies();
    policies.get_mut("mesa").unwrap().stale_after_ms = Some(1_000);
    let mut rig = Rig::new(policies);
    let (call, operation, ..) = asked(&mut rig);
    rig.calls[call].voice.engine.render_ms = 2_000;
    rig.done(operation, json!({ "value": "a las nueve" }));
    rig.run(30_000);
    assert_eq!(rates(&rig), Rates { stale: (1, 1), ..ONCE });
}

#[test]
fn an_operation_that_is_settled_in_another_life_of_the_box() {
    let mut rig = Rig::new(policies());
    let (_, operation, ..) = asked(&mut rig);
    rig.crash(false);
    rig.run(100);
    let call = rig.quiet_call(Some("ana"));
    rig.done(operation, json!({ "value": "a las nueve" }));
    rig.run(30_000);
    assert_eq!(rig.calls[call].told.len(), 1);
    assert!(!times(&rig).contains_key("operation_duration_ms"), "nobody knows how long the box was off");
    assert_eq!(rates(&rig), ONCE);
}

#[test]
fn an_effect_that_happened_twice() {
    let mut policies = policies();
    policies.get_mut("mesa").unwrap().idempotent = false;
    let mut rig = Rig::new(policies);
    let (_, operation, ..) = asked(&mut rig);
    rig.done(operation, json!({ "value": "a las nueve" }));
    // An executor that breaks R2.
    rig.report(operation, 2, AttemptOutcome::Succeeded(json!({ "value": "a las nueve" })));
    rig.run(30_000);
    assert_eq!(rates(&rig), Rates { side_effect: (1, 1), ..ONCE });
}

#[test]
fn every_name_is_the_contracts() {
    let names = [
        MeasureName::SpeechStopToAcceptanceAudioMs,
        MeasureName::BargeInToPlaybackStopMs,
        MeasureName::DeliveryReadyToFirstAudioMs,
        MeasureName::GeneratedToPlayedGapMs,
        MeasureName::CancelledResponseUnheardMs,
        MeasureName::SpeechStopToTurnEndMs,
        MeasureName::TurnEndToFirstPieceMs,
        MeasureName::FirstPieceToReadyMs,
        MeasureName::ReadyToFirstAudioMs,
        MeasureName::SpeechStopToFirstAudioMs,
    ];
    assert!(names.iter().all(|name| name.as_str().ends_with("_ms")));
}
