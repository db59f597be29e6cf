//! The specification, explored to its end in every world: all laws hold, no state is a dead end, and every edge of the
//! contract's machines is taken.

use std::collections::BTreeSet;

use recado_protocol::graph::Graph;
use recado_protocol::model::Model;
use recado_protocol::scope::ALL;
use recado_protocol::specification::Specification;
use stateright::{Checker, Model as _};

#[test]
fn every_law_holds_in_every_state() {
    for (name, scope) in ALL {
        let checker = Model::<Specification>::new(scope).checker().spawn_bfs().join();
        println!("{name}: {} states, {} transitions, depth {}", checker.unique_state_count(), checker.state_count(), checker.max_depth());
        if let Some((law, path)) = checker.discoveries().into_iter().next() {
            panic!("{name}: {law}: {:?}", path.into_actions());
        }
        assert!(checker.is_done() && checker.unique_state_count() > 1_000, "{name} is explored to its end");
    }
}

#[test]
fn no_state_is_a_dead_end_and_every_edge_is_taken() {
    let mut taken = BTreeSet::new();
    for (name, scope) in ALL {
        let graph = Graph::explore(&Model::<Specification>::new(scope));
        println!("{name}: {} states, {} transitions", graph.states(), graph.transitions());
        assert_eq!(graph.dead_end(), None, "{name}: were the faults to stop here, something would never be told");
        taken.extend(graph.edges_taken().iter().cloned());
    }
    let missing: Vec<_> = EDGES.iter().filter(|edge| !taken.contains(**edge)).collect();
    assert!(missing.is_empty(), "never taken: {missing:?}");
    let more: Vec<_> = taken.iter().filter(|edge| !EDGES.contains(&edge.as_str())).collect();
    assert!(more.is_empty(), "not in the contract: {more:?}");
}

/// Every edge of the contract's three machines that is taken today, as the store sees it: `Claimed` is `Speaking` there. Not
/// yet: `Accepted` (an operation is stored with its first attempt), `HandedOff`, `Withdrawn`. Not here: `Ready` to
/// `Spoken`, which needs audio that fails between two clauses; the ledger's random tests take it.
const EDGES: [&str; 34] = [
    "batch Drained Closed",
    "batch Open Sealed",
    "batch Sealed Drained",
    "delivery Ready Speaking",
    "delivery Ready Superseded",
    "delivery Ready Suppressed",
    "delivery Speaking Ready",
    "delivery Speaking Spoken",
    "delivery Speaking Superseded",
    "delivery Speaking Suppressed",
    "delivery Speaking Uncertain",
    "delivery Uncertain Speaking",
    "delivery Uncertain Spoken",
    "delivery Uncertain Superseded",
    "delivery Uncertain Suppressed",
    "operation Cancelling Cancelled",
    "operation Cancelling Compensated",
    "operation Cancelling TooLate",
    "operation Cancelling Unknown",
    "operation RetryWait Cancelling",
    "operation RetryWait Failed",
    "operation RetryWait Running",
    "operation RetryWait Succeeded",
    "operation RetryWait Unknown",
    "operation Running Cancelling",
    "operation Running Failed",
    "operation Running RetryWait",
    "operation Running Succeeded",
    "operation Running Unknown",
    "operation Unknown Cancelled",
    "operation Unknown Compensated",
    "operation Unknown Failed",
    "operation Unknown Succeeded",
    "operation Unknown TooLate",
];
