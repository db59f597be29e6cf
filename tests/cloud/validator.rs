//! What went over the wire, held against the types of the vendor's own package, by `tools/validate_realtime.py`.

use std::path::PathBuf;
use std::process::Command;

use super::service::{Seen, Service};

/// What went over the wire in one scenario.
pub struct Tap(Vec<String>);

impl Tap {
    pub fn of(service: &Service) -> Self {
        Self::seen(&service.seen)
    }

    pub fn seen(seen: &Seen) -> Self {
        Self(seen.tap())
    }
}

/// Every event is what the vendor's types say, and comes when it may. Skipped with a message where `./dev test`, which fetches the
/// package, has not been run.
pub fn check(taps: &[Tap]) {
    match verdict(taps) {
        Some(Ok(_)) => {}
        Some(Err(said)) => panic!("{said}"),
        None => println!("skipped: the vendor's types are not there; `./dev test` fetches them"),
    }
}

/// How many events there were, all of them as the vendor's types say; or what is wrong with them. None where those types are not there.
pub fn verdict(taps: &[Tap]) -> Option<Result<usize, String>> {
    let python = python()?;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tap.jsonl");
    // Connections of different services are told apart.
    let lines: Vec<String> = taps
        .iter()
        .enumerate()
        .flat_map(|(n, tap)| tap.0.iter().map(move |line| line.replacen("\"conn\":", &format!("\"conn\":{}", n + 1), 1)))
        .collect();
    assert!(!lines.is_empty());
    std::fs::write(&file, lines.join("\n")).unwrap();
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tools/validate_realtime.py");
    let output = Command::new(python).arg(script).args(["--sequence", "--quiet"]).arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let all_pass = output.status.success() && said.contains(&format!("{} passed, 0 failed", lines.len()));
    Some(if all_pass { Ok(lines.len()) } else { Err(format!("{said}{}", String::from_utf8_lossy(&output.stderr))) })
}

/// The Python that has the vendor's package: as `./dev test` says, or where it has put it.
fn python() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("RECADO_VALIDATOR_PYTHON") {
        return Some(named.into());
    }
    let usual = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("../validator/bin/python3");
    usual.exists().then_some(usual)
}
