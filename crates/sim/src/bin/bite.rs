//! Does the simulator bite? `bite [SEEDS [FAULT...]]` plays up to SEEDS seeds against each deliberate fault, and prints which
//! invariant caught it. It ends with 1 if one was not caught.

use std::process::ExitCode;

use recado_core::faults::Fault;
use recado_sim::bite::bite;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Ok(seeds) = arguments.next().map_or(Ok(SEEDS), |seeds| seeds.parse()) else {
        eprintln!("the first argument is how many seeds are played at most against each fault: a number");
        return ExitCode::from(2);
    };
    let names: Vec<String> = arguments.collect();
    let known = |name: &String| Fault::ALL.iter().copied().find(|fault| format!("{fault:?}") == *name).ok_or_else(|| name.clone());
    let faults = match names.iter().map(known).collect::<Result<Vec<Fault>, _>>() {
        Ok(_) if names.is_empty() => Fault::ALL.to_vec(),
        Ok(faults) => faults,
        Err(name) => {
            eprintln!("there is no fault `{name}`; there are {:?}", Fault::ALL);
            return ExitCode::from(2);
        }
    };
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let bites = bite(&faults, seeds, jobs);
    println!("{:<26} {:<11} {:>6}  what is wrong", "fault", "caught by", "seeds");
    for bite in &bites {
        let (by, after) = bite.caught.map_or(("nothing".to_owned(), seeds), |(invariant, after)| (invariant.to_string(), after));
        println!("{:<26} {by:<11} {after:>6}  {}", format!("{:?}", bite.fault), bite.fault.what());
    }
    let missed = bites.iter().filter(|bite| bite.caught.is_none()).count();
    println!("{} of {} faults caught", bites.len() - missed, bites.len());
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Seeds at most: half a minute for each fault that is not caught.
const SEEDS: u64 = 60_000;
