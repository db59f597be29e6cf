use recado_core::policy::UncertainPolicy;
use recado_protocol::alphabet::Scope;
use recado_protocol::model::Model;
use recado_protocol::specification::Specification;
use stateright::{Checker, Model as _};
fn main() {
    let a: Vec<u8> = std::env::args().skip(1).map(|x| x.parse().unwrap()).collect();
    let idempotent: &'static [bool] = match a[0] { 0 => &[false], 1 => &[true], 2 => &[true, false], 3 => &[false, false], _ => &[true, false, false] };
    let scope = Scope { idempotent, attempts_max: a[1], calls: a[2] as usize, uncertain: UncertainPolicy::Check, power_cuts: a[3], failures: a[4], cuts: a[5], doubts: a[6], lost_answers: a[7], cancel: a[8] > 0, stale: a[9] > 0, newer: a[10] > 0, overlap: 0 };
    let start = std::time::Instant::now();
    let checker = Model::<Specification>::new(scope).checker().timeout(std::time::Duration::from_secs(100)).spawn_bfs().join();
    println!("{} states, {} transitions, depth {}, {:?} done {}", checker.unique_state_count(), checker.state_count(), checker.max_depth(), start.elapsed(), checker.is_done());
    for (name, path) in checker.discoveries() {
        println!("{name}: {:?}", path.clone().into_actions());
        println!("{:#?}", path.into_states().last());
    }
}
