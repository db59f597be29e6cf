use recado_core::policy::UncertainPolicy;
use recado_protocol::alphabet::Scope;
fn main() {
    let a: Vec<u8> = std::env::args().skip(1).map(|x| x.parse().unwrap()).collect();
    let idempotent: &'static [bool] = match a[0] { 0 => &[false], 1 => &[true], 2 => &[true, false], 3 => &[false, false], _ => &[true, false, false] };
    let scope = Scope { idempotent, attempts_max: a[1], calls: a[2] as usize, uncertain: UncertainPolicy::Check, power_cuts: a[3], failures: a[4], cuts: a[5], doubts: a[6], lost_answers: a[7], cancel: a[8] > 0, stale: a[9] > 0, newer: a[10] > 0, overlap: 0 };
    let start = std::time::Instant::now();
    match recado_protocol::conformance::compare(scope) {
        Ok(c) => println!("{c:?} {:?}", start.elapsed()),
        Err(d) => println!("{:?}\nspec {}\nreal {}", d.actions, d.specified, d.real),
    }
}
