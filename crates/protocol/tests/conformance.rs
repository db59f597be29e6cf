//! The real ledger does what the specification says, along every transition of every world; and where a rule of the
//! specification is broken, the difference is seen.

use recado_protocol::conformance::compare;
use recado_protocol::scope::{ALL, CUT, RETRY, TELL};
use recado_protocol::specification::Broken;

#[test]
fn the_real_ledger_takes_every_transition_as_specified() {
    for (name, scope) in ALL {
        match compare(scope, None) {
            Ok(compared) => println!("{name}: {compared:?}"),
            Err(difference) => panic!("{name}: {difference:#?}"),
        }
    }
}

#[test]
fn a_broken_specification_differs_from_the_real_ledger() {
    for (scope, broken) in [
        (TELL, Broken::SpeaksBeforeDurable),
        (TELL, Broken::AnswersBeforeDurable),
        (TELL, Broken::ReadyAfterRestart),
        (CUT, Broken::SendsBeforeDurable),
        (RETRY, Broken::RetriesThoughMaybe),
    ] {
        assert!(compare(scope, Some(broken)).is_err(), "{broken:?} makes no difference");
    }
}
