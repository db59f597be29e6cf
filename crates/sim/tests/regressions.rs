//! What once broke the contract, cut down to what was needed: it holds now.

use std::path::Path;

use recado_sim::{play, trace};

#[test]
fn what_once_broke_the_contract_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/regressions");
    let mut played = 0;
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.extension().is_some_and(|extension| extension == "trace") {
            let text = std::fs::read_to_string(&entry).unwrap();
            let script = trace::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", entry.display()));
            assert_eq!(play::twice(&script).violation, None, "{}", entry.display());
            played += 1;
        }
    }
    assert!(played > 0, "there are traces");
}
