//! What the store has removed, because it had been over for long: the box that still remembers it promises nothing of it any more.

use recado_core::ledger::{CallbackAnswer, OperationResult};
use recado_sim::drive::policies;
use recado_sim::rig::Rig;
use recado_sim::script::Script;
use recado_sim::world::World;
use serde_json::json;

fn says(value: &str) -> OperationResult {
    OperationResult::Succeeded(json!({ "value": value }))
}

#[test]
fn a_late_result_of_what_has_been_removed_is_unknown_and_is_told_to_nobody() {
    let mut rig = Rig::new(policies());
    let call = rig.quiet_call(Some("ana"));
    let operation = rig.request(call, &["mesa"])[0];
    rig.reply(call, &[]);
    rig.done(operation, json!({ "value": "a las nueve" }));
    rig.run(20_000);
    assert_eq!(rig.closings_heard(), ["Hecho lo de mesa: a las nueve."]);
    rig.remove_over(0);
    assert!(rig.store.operations.is_empty(), "it was over");
    let [other, again] = [rig.callback(operation, says("a las diez")), rig.callback(operation, says("a las nueve"))];
    rig.run(1_000);
    assert_eq!([other, again].map(|request| rig.answers[&request].clone()), [CallbackAnswer::Unknown, CallbackAnswer::Unknown]);
    let taken_back = rig.retract(operation);
    assert_eq!(rig.answers[&taken_back], CallbackAnswer::Unknown);
    assert_eq!((rig.missed.len(), rig.store.in_flight()), (1, 0), "it is not tried again");
    let repeated = rig.request(call, &["mesa"]);
    rig.done(repeated[0], json!({ "value": "a las once" }));
    rig.run(20_000);
    assert_eq!(rig.closings_heard(), ["Hecho lo de mesa: a las nueve.", "Hecho lo de mesa: a las once."], "the caller asked again");
}

#[test]
fn what_is_over_and_young_or_not_over_stays() {
    let mut rig = Rig::new(policies());
    let call = rig.quiet_call(Some("ana"));
    let told = rig.request(call, &["mesa"])[0];
    rig.done(told, json!({ "value": "a las nueve" }));
    rig.run(20_000);
    let open = rig.request(call, &["taxi"])[0];
    rig.remove_over(60_000);
    assert_eq!(rig.store.operations.len(), 2, "nothing is so old");
    rig.wall_synchronised = false;
    rig.remove_over(0);
    assert_eq!(rig.store.operations.len(), 2, "nobody knows how old it is");
    rig.wall_synchronised = true;
    rig.remove_over(0);
    assert_eq!(rig.store.operations.keys().collect::<Vec<_>>(), [&open]);
}

#[test]
fn in_what_happens_at_random_the_ledger_meets_what_has_been_removed() {
    let mut met = 0;
    for seed in 0..300 {
        let script = Script::of_seed(seed);
        let mut world = World::new(&script.parameters);
        for event in &script.events {
            world.pass_to(event.at_ms);
            world.act(&event.action);
        }
        world.finish();
        met += world.rig.missed.len();
    }
    assert!(met > 10, "only {met} transactions were about what had been removed");
}
