//! The real ledger as the model's state: explored to its end, with inputs that come while a transaction is in flight, which
//! the specification leaves outside.

use recado_protocol::alphabet::Scope;
use recado_protocol::graph::Graph;
use recado_protocol::model::Model;
use recado_protocol::real::Real;
use recado_protocol::scope::CALM;
use stateright::{Checker, Model as _};

fn explore(name: &str, scope: Scope) {
    let checker = Model::<Real>::new(scope).checker().spawn_dfs().join();
    println!("{name}: {} states, {} transitions, depth {}", checker.unique_state_count(), checker.state_count(), checker.max_depth());
    if let Some((law, path)) = checker.discoveries().into_iter().next() {
        panic!("{name}: {law}: {:?}", path.into_actions());
    }
    assert!(checker.is_done() && checker.unique_state_count() > 1_000, "{name} is explored to its end");
}

const BUSY: Scope = Scope { attempts_max: 1, overlap: 1, ..CALM };

#[test]
fn with_inputs_that_overtake_a_transaction_every_law_holds() {
    explore("two inputs wait", Scope { overlap: 2, ..BUSY });
    explore("cancel", Scope { cancel: true, ..BUSY });
    explore("power cut", Scope { calls: 2, power_cuts: 1, ..BUSY });
    explore("cut", Scope { cuts: 1, ..BUSY });
}

#[test]
fn with_inputs_that_overtake_a_transaction_no_state_is_a_dead_end() {
    let graph = Graph::explore(&Model::<Real>::new(Scope { failures: 1, ..BUSY }));
    println!("{} states, {} transitions", graph.states(), graph.transitions());
    assert_eq!(graph.dead_end(), None);
}
