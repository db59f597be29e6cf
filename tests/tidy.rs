//! The style that a machine can see: long files, impure calls in the core, `unwrap` outside of tests, rooms without a
//! description, dead links in the documents.

use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn no_file_is_longer_than_six_hundred_lines() {
    let long: Vec<String> = sources()
        .into_iter()
        .filter(|file| !is_test(file))
        .map(|file| (read(&file).lines().count(), file))
        .filter(|(lines, _)| *lines > LINES_MAX)
        .map(|(lines, file)| format!("{} has {lines} lines", file.display()))
        .collect();
    assert!(long.is_empty(), "one idea each: {long:#?}");
}

#[test]
fn the_core_and_its_traces_read_no_clock_and_do_no_input_or_output() {
    let forbidden = [
        "Instant::now",
        "SystemTime",
        "tokio::",
        "std::fs",
        "std::net",
        "std::thread",
        "std::env",
        "rand::",
        "getrandom",
        "HashMap",
        "println!",
    ];
    let pure = ["crates/core/src", "crates/trace/src", "crates/voice/src"];
    let found = lines_with(&forbidden, |file| pure.iter().any(|folder| file.starts_with(folder)));
    assert!(found.is_empty(), "the core is pure, and so are its traces and the voice: {found:#?}");
}

#[test]
fn outside_of_tests_nothing_is_unwrapped() {
    // `expect` states its invariant; `unwrap` states none. Where randomness is missing there is no box to run.
    let found = lines_with(&[".unwrap()", "panic!(", "todo!(", "unimplemented!("], |file| !is_test(file));
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn nothing_is_left_to_be_done_in_comments() {
    let found = lines_with(&["TODO", "FIXME", "XXX", "HACK"], |_| true);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn every_room_says_what_it_is_for() {
    let silent: Vec<PathBuf> = sources().into_iter().filter(|file| !read(file).starts_with("//!")).collect();
    assert!(silent.is_empty(), "a file begins with what it is for: {silent:#?}");
}

#[test]
fn links_between_documents_are_alive() {
    let mut dead = Vec::new();
    let documents = ["README.md", "docs/using.md", "docs/operating.md", "docs/architecture.md", "docs/building.md", "docs/guarantees.md"];
    for document in documents {
        let text = read(Path::new(document));
        let folder = Path::new(document).parent().unwrap_or(Path::new(""));
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap_or_default();
            if !file.is_empty() && !file.contains("://") && !root().join(folder).join(file).exists() {
                dead.push(format!("{document}: {target}"));
            }
        }
    }
    assert!(dead.is_empty(), "{dead:#?}");
}

/// Lines of code, tests and comments apart, that hold one of these words, in files for which `which` holds.
fn lines_with(words: &[&str], which: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for file in sources().into_iter().filter(|file| which(file)) {
        let text = read(&file);
        // By this house's habit tests come last.
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        for (number, line) in code.lines().enumerate() {
            let is_comment = line.trim_start().starts_with("//");
            if !is_comment && words.iter().any(|word| line.contains(word)) {
                found.push(format!("{}:{}: {}", file.display(), number + 1, line.trim()));
            }
        }
    }
    found
}

/// Whether a file holds nothing but tests, by its name or its folder.
fn is_test(file: &Path) -> bool {
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    stem.ends_with("tests") || stem.ends_with("faults") || stem == "cases" || file.iter().any(|part| part == "tests")
}

/// The sources of the packages, relative to the root.
fn sources() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in ["src", "crates/core/src", "crates/voice/src", "crates/sim/src", "crates/trace/src", "crates/protocol/src"] {
        collect(&root().join(folder), &mut files);
    }
    let mut files: Vec<PathBuf> = files.into_iter().filter_map(|file| Some(file.strip_prefix(root()).ok()?.to_owned())).collect();
    files.sort();
    files
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            collect(&entry, files);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            files.push(entry);
        }
    }
}

fn read(file: &Path) -> String {
    fs::read_to_string(root().join(file)).unwrap()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Beyond it a file holds more than one idea.
const LINES_MAX: usize = 600;
