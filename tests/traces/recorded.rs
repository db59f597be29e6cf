//! The traces of `recado demo`: a call with interruptions, the box killed in its middle, started again, and called again. When
//! a change of what is decided is meant, `./dev traces` writes them anew, and the change is seen in the diff.

use std::path::{Path, PathBuf};

use recado::traces::show::replay_files;

#[test]
fn todays_code_decides_what_was_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "trace"));
    assert!(files.len() >= 4, "two calls and two ledgers: {files:?}");
    let replayed = replay_files(&files);
    assert!(
        replayed.same && replayed.errors.is_empty(),
        "{}{:#?}\nIs the change meant? Then record them anew: ./dev traces",
        replayed.text,
        replayed.errors
    );
    assert_eq!(replayed.text.matches("decides the same about").count(), files.len(), "{}", replayed.text);
}

#[test]
fn what_was_recorded_names_nobody_and_tells_no_words_of_a_call() {
    for name in ["killed-in-a-call", "called-again"] {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/traces/{name}.trace"))).unwrap();
        for word in ["mesa", "taxi a", "600123456", "nueve", "Perdone", "default/"] {
            assert!(!text.contains(word), "{word} in {name}");
        }
    }
}
