//! What went over the wire, held against the types of the vendor's own package, by `tools/validate_realtime.py` and
//! `tools/validate_gemini.py`.

use std::path::PathBuf;
use std::process::Command;

use super::gemini_service;
use super::service::{Seen, Service};

/// A vendor's types.
struct Types {
    /// What holds messages against them.
    script: &'static str,
    /// With what.
    arguments: &'static [&'static str],
    /// Where `./dev test` puts the package.
    place: &'static str,
    /// What says that it is elsewhere.
    named: &'static str,
}

const OPENAI: Types = Types {
    script: "tools/validate_realtime.py",
    arguments: &["--sequence", "--quiet"],
    place: "../validator/bin/python3",
    named: "RECADO_VALIDATOR_PYTHON",
};
const GOOGLE: Types = Types {
    script: "tools/validate_gemini.py",
    arguments: &[],
    place: "../validator-gemini/bin/python3",
    named: "RECADO_GEMINI_VALIDATOR_PYTHON",
};

/// What went over the wire in one scenario.
pub struct Tap(Vec<String>);

impl Tap {
    pub fn of(service: &Service) -> Self {
        Self::seen(&service.seen)
    }

    pub fn seen(seen: &Seen) -> Self {
        Self(seen.tap())
    }

    pub fn of_gemini(service: &gemini_service::Service) -> Self {
        Self(service.seen.tap())
    }
}

/// Every event is what the vendor's types say, and comes when it may. Skipped with a message where `./dev test`, which fetches the
/// package, has not been run.
pub fn check(taps: &[Tap]) {
    insist(OPENAI.verdict(taps));
}

/// The same for messages of the Gemini Live protocol.
pub fn check_gemini(taps: &[Tap]) {
    insist(GOOGLE.verdict(taps));
}

fn insist(verdict: Option<Result<usize, String>>) {
    match verdict {
        Some(Ok(_)) => {}
        Some(Err(said)) => panic!("{said}"),
        None => println!("skipped: the vendor's types are not there; `./dev test` fetches them"),
    }
}

/// How many events there were, all of them as the vendor's types say; or what is wrong with them. None where those types are not there.
pub fn verdict(taps: &[Tap]) -> Option<Result<usize, String>> {
    OPENAI.verdict(taps)
}

impl Types {
    fn verdict(&self, taps: &[Tap]) -> Option<Result<usize, String>> {
        let python = self.python()?;
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
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(self.script);
        let output = Command::new(python).arg(script).args(self.arguments).arg(&file).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let all_pass = output.status.success() && said.contains(&format!("{} passed, 0 failed", lines.len()));
        Some(if all_pass { Ok(lines.len()) } else { Err(format!("{said}{}", String::from_utf8_lossy(&output.stderr))) })
    }

    /// The Python that has the vendor's package: as `./dev test` says, or where it has put it.
    fn python(&self) -> Option<PathBuf> {
        if let Some(named) = std::env::var_os(self.named) {
            return Some(named.into());
        }
        let usual = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(self.place);
        usual.exists().then_some(usual)
    }
}
