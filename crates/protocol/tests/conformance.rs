//! The real ledger does what the specification says, along every transition of every world; and where a rule of the
//! specification is broken, the difference is seen.

use recado_protocol::alphabet::Scope;
use recado_protocol::conformance::compare;
use recado_protocol::scope::{ALL, COMPARED, CUT, RETRY, TELL};
use recado_protocol::specification::Broken;

fn conforms(scopes: &[(&str, Scope)]) {
    for (name, scope) in scopes {
        match compare(*scope, None) {
            Ok(compared) => println!("{name}: {} states, {} transitions", compared.states, compared.transitions),
            Err(difference) => panic!("{name}: {difference:#?}"),
        }
    }
}

#[test]
fn the_real_ledger_takes_every_transition_as_specified() {
    conforms(&COMPARED);
}

#[test]
#[ignore = "takes minutes: all worlds, for when the ledger or the specification has changed"]
fn the_real_ledger_takes_every_transition_of_every_world_as_specified() {
    conforms(&ALL);
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
