//! x
use recado_core::policy::UncertainPolicy;
use recado_protocol::alphabet::Scope;
use recado_protocol::model::Model;
use recado_protocol::specification::Specification;
use stateright::{Checker, Model as _};

#[test]
fn try_it() {
    let scope = Scope {
        idempotent: &[true, false],
        attempts_max: 2,
        calls: 2,
        uncertain: UncertainPolicy::Check,
        power_cuts: 1,
        failures: 0,
        cuts: 1,
        doubts: 1,
        lost_answers: 1,
        cancel: false,
        stale: false,
        newer: false,
        overlap: 0,
    };
    let start = std::time::Instant::now();
    let checker = Model::<Specification>::new(scope).checker().threads(2).spawn_bfs().join();
    println!("{} states, {} transitions, depth {}, {:?}", checker.unique_state_count(), checker.state_count(), checker.max_depth(), start.elapsed());
    for (name, path) in checker.discoveries() {
        println!("{name}: {:#?}", path.clone().into_actions());
        println!("{:#?}", path.into_states().last());
    }
    checker.assert_properties();
}
