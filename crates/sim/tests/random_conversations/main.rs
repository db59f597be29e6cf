//! Random interleavings of everything that the outside can do to one or two calls of two parties, with the contract's
//! invariants checked after every step; then the faults stop, and everything must come to its end (I13).
//!
//! `PROPTEST_CASES=100000 cargo test -p recado-core --test random_conversations` looks longer.

mod action;
mod world;

use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;

use proptest::prelude::*;
use recado_core::ledger::DeliveryState;

use self::action::{Action, action};
use self::world::World;

fn play(link_ms: u64, actions: &[Action]) -> World {
    let mut world = World::new(link_ms);
    world.rig.watch.digest = Some(DefaultHasher::new());
    for action in actions {
        world.act(action.clone());
    }
    world.finish();
    world
}

fn link_ms() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0_u64), Just(3), Just(35)]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, max_shrink_iters: 20_000, ..ProptestConfig::with_cases(cases()) })]

    #[test]
    fn whatever_happens_the_invariants_hold_and_nothing_latches(link_ms in link_ms(), actions in prop::collection::vec(action(), 1..70)) {
        let mut world = World::new(link_ms);
        for action in actions {
            world.act(action);
        }
        world.finish();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases() / 20) })]

    #[test]
    fn the_same_inputs_have_the_same_effects(link_ms in link_ms(), actions in prop::collection::vec(action(), 1..70)) {
        let digest = || play(link_ms, &actions).rig.watch.digest.map(|digest| digest.finish());
        assert_eq!(digest(), digest(), "I15");
    }
}

/// Every edge of the contract's acoustic, generation and playback clocks that can be seen from outside.
const EDGES: [(&str, &str); 21] = [
    ("Quiet", "Suspected"),
    ("Suspected", "Quiet"),
    ("Suspected", "Speaking"),
    ("Speaking", "Trailing"),
    ("Trailing", "Speaking"),
    ("Trailing", "Quiet"),
    ("Requested", "Generating"),
    ("Requested", "Complete"),
    ("Requested", "Cancelled"),
    ("Requested", "Failed"),
    ("Generating", "Complete"),
    ("Generating", "Cancelled"),
    ("Generating", "Failed"),
    ("Queued", "Playing"),
    ("Playing", "Paused"),
    ("Paused", "Playing"),
    ("Playing", "Drained"),
    ("Drained", "Finished"),
    ("Queued", "Cleared"),
    ("Playing", "Cleared"),
    ("Paused", "Cleared"),
];

#[test]
fn every_edge_of_the_clocks_is_taken() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = (link_ms(), prop::collection::vec(action(), 40..70));
    let mut taken = BTreeSet::new();
    let mut ends = BTreeSet::new();
    for _ in 0..150 {
        let (link_ms, actions) = strategy.new_tree(&mut runner).unwrap().current();
        let world = play(link_ms, &actions);
        taken.extend(world.rig.calls.iter().flat_map(|call| call.watch.edges.iter().copied()));
        ends.extend(world.rig.store.deliveries.values().map(|record| (record.state, record.attempt.min(3))));
    }
    let missing: Vec<_> = EDGES.iter().filter(|edge| !taken.contains(*edge)).collect();
    assert!(missing.is_empty(), "never taken: {missing:?}; taken: {taken:?}");
    // The conversations are worth their time: closings are told at once, after cuts, and not at all.
    for end in [(DeliveryState::Spoken, 0), (DeliveryState::Spoken, 1), (DeliveryState::Spoken, 3), (DeliveryState::Suppressed, 0)] {
        assert!(ends.contains(&end), "no delivery ends as {end:?}: {ends:?}");
    }
}

/// Conversations of a run: `PROPTEST_CASES`, or what a debug build plays in half a minute.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(CASES)
}

const CASES: u32 = 3_000;
