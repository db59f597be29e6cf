//! kill -9 at any moment of a call.

use std::time::Duration;

use recado_core::ledger::{DeliveryRecord, DeliveryState};

use crate::phone::{DONE, Phone};
use crate::stage::{Stage, patiently};
use crate::tool_service::SUCCEEDED;

#[test]
fn killed_at_any_moment_nothing_is_lost_nothing_told_twice_and_each_key_has_one_operation() {
    let stage = Stage::set(&["job"]);
    let mut told = Vec::new();
    for round in 0..KILLS {
        let caller = format!("caller{round}");
        let boxed = stage.box_runs();
        let phone = Phone::dial(boxed.sip, &caller);
        // From before the operation is accepted up to after its closing was told.
        let moment = Duration::from_millis(round * 170);
        let begun = std::time::Instant::now();
        let mut reported = false;
        while begun.elapsed() < moment {
            let of_this_call = stage.tools.all().into_iter().find(|asked| asked.who.ends_with(&format!("/{caller}")));
            if let Some(asked) = of_this_call.filter(|_| !reported && begun.elapsed() > moment / 3) {
                reported = asked.report_to(boxed.http, SUCCEEDED) == 200;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        boxed.kill();
        told.push(phone.heard().whole(DONE));
    }
    // A last life: what was accepted ends and is told to whom it belongs, or was told.
    let boxed = stage.box_runs();
    for asked in stage.tools.all() {
        patiently("the result to be taken", || (asked.report_to(boxed.http, SUCCEEDED) == 200).then_some(()));
    }
    patiently("every operation to have its closing", || {
        let history = stage.history();
        let closed = history.operations.iter().all(|operation| history.deliveries.iter().any(|delivery| delivery.batch == operation.batch));
        closed.then_some(())
    });
    let history = stage.history();
    let states: Vec<DeliveryState> = history.deliveries.iter().map(|delivery| delivery.state).collect();
    println!("{} operations, heard before the kill {told:?}, now {states:?}", history.operations.len());
    assert_eq!(history.operations.len(), stage.tools.all().len(), "one operation for each key");
    for delivery in &history.deliveries {
        // One that nobody had heard may have given way to what became known later.
        let counts = |other: &&DeliveryRecord| other.batch == delivery.batch && other.state != DeliveryState::Superseded;
        assert_eq!(history.deliveries.iter().filter(counts).count(), 1, "one closing for each batch");
        let party = delivery.party.as_ref().map(|party| party.0.clone()).unwrap_or_default();
        let round: usize = party.rsplit("caller").next().and_then(|round| round.parse().ok()).expect("a caller");
        match delivery.state {
            DeliveryState::Ready => assert_eq!(told[round], 0, "{party} has heard what is said to be untold"),
            DeliveryState::Uncertain | DeliveryState::Spoken | DeliveryState::Superseded => {}
            other => panic!("{party}: {other:?}"),
        }
    }
    drop(boxed);
}

const KILLS: u64 = 16;
