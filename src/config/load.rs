//! The layers, one over the other, into one typed and checked configuration. Every problem is reported, not only the first.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path as FilePath, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use toml::de::DeTable;

use super::check::Checker;
use super::decode::{DecodeError, Fault};
use super::file::open_file;
use super::problem::{Place, Problem, Problems, Severity};
use super::source::{ENVIRONMENT_PREFIX, Source, Sources};
use super::tree::{Node, Path, Value};
use super::wording::Mistyped;
use super::{Config, wording};

/// How far a check looks beyond the settings, at what they point at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Not at all: for those who need the settings alone, and may be others than the box, to whom its credentials are not given.
    Settings,
    /// At the files that are named.
    Files,
    /// At those, and whether the speech engine has the voices: it is started for each.
    Engine {
        /// How long it is waited for. One that has not answered by then is not complained of.
        answers_within: Duration,
    },
}

impl Config {
    /// Reads, merges and checks, as deep as is said. What comes back with a configuration are warnings only.
    ///
    /// Reads files: to be done once, before the runtime starts.
    ///
    /// # Errors
    /// Everything that is wrong, when anything is that keeps the box from starting; also voices that the engine has not, where it was asked.
    pub fn load(sources: &Sources, depth: Depth) -> Result<(Config, Problems), Problems> {
        let mut problems = Vec::new();
        let Some(mut tree) = merge(sources, &mut problems) else { return Err(Problems::new(problems)) };
        let Decoded { config, broken, mut mistyped } = decode(&mut tree, &mut problems);
        let config = config.map(|mut config| {
            config.resolve(sources);
            let mut checker = Checker::new(&tree, &broken, &mut mistyped, &mut problems, depth);
            config.default_by_kind(&checker);
            config.check(&mut checker);
            config
        });
        problems.extend(mistyped.into_values().map(|mistyped| mistyped.problem));
        let problems = Problems::new(problems);
        let Some(config) = config else { return Err(problems) };
        if problems.fatal() { Err(problems) } else { Ok((config, problems)) }
    }
}

/// The layers as one tree; none when one of them can't be read, since what it would have said is then not known.
fn merge(sources: &Sources, problems: &mut Vec<Problem>) -> Option<Node> {
    let mut root = Node::root(Place::WholeFile(sources.file.display().to_string().into()));
    let mut complete = true;
    for file in std::iter::once(sources.file.clone()).chain(drop_ins(&sources.file, problems)) {
        match read(&file).map(|text| Source::new(&file, text)) {
            Ok(source) => {
                let (document, errors) = DeTable::parse_recoverable(source.text());
                complete &= errors.is_empty();
                problems.extend(errors.iter().map(|error| wording::syntax(error, &source)));
                root.overlay(Node::of_toml(&document, &source));
            }
            Err(why) => {
                complete = false;
                problems.push(whole_file(&file, &why.0, &why.1));
            }
        }
    }
    for (name, value) in &sources.environment {
        let path = Path::of(&name.strip_prefix(ENVIRONMENT_PREFIX).unwrap_or(name).to_lowercase().replace("__", "."));
        lay(&mut root, &path, value, Place::Environment(name.as_str().into()), problems);
    }
    for flag in &sources.flags {
        match flag.split_once('=') {
            Some((path, value)) => lay(&mut root, &Path::of(path.trim()), value, Place::of_flag(flag), problems),
            None => problems.push(Problem {
                place: Place::of_flag(flag),
                severity: Severity::Error,
                what: "there is no `=` between setting and value".into(),
                instead: "--set sip.calls_max=4".into(),
            }),
        }
    }
    complete.then_some(root)
}

/// Lays one setting of the environment or of a flag over the others.
fn lay(root: &mut Node, path: &Path, value: &str, place: Place, problems: &mut Vec<Problem>) {
    if path.keys().len() > KEYS_MAX {
        let what = format!("there is no setting with {} parts", path.keys().len());
        let place = place.of_something_else();
        return problems.push(Problem { place, severity: Severity::Error, what, instead: "sip.calls_max=4".into() });
    }
    root.overlay(Node::of_setting(path, value, place));
}

/// What a tree could be read as.
struct Decoded {
    config: Option<Config>,
    /// The paths of what was wrong.
    broken: BTreeSet<Path>,
    /// Those among them where a number must be, and it can be told which one was meant.
    mistyped: BTreeMap<Path, Mistyped>,
}

/// Deserialises as often as something is wrong, each time without what was.
fn decode(tree: &mut Node, problems: &mut Vec<Problem>) -> Decoded {
    let (mut broken, mut mistyped) = (BTreeSet::new(), BTreeMap::new());
    for _ in 0..PROBLEMS_MAX {
        match Config::deserialize(&*tree) {
            Ok(config) => return Decoded { config: Some(config), broken, mistyped },
            Err(error) => {
                let reported = broken.contains(&subject(&error));
                if let (false, Some((meant, stand_in))) = (reported, wording::mistyped_number(&error, tree)) {
                    mistyped.insert(error.path.clone(), meant);
                    broken.insert(error.path.clone());
                    if let Some(node) = tree.at_mut(&error.path) {
                        node.value = Value::Integer(stand_in);
                    }
                    continue;
                }
                if !reported {
                    problems.push(wording::fault(&error, tree));
                }
                broken.insert(subject(&error));
                take_out(tree, &error, reported);
            }
        }
    }
    Decoded { config: None, broken, mistyped }
}

/// The setting that an error is about: what is missing, not what lacks it.
fn subject(error: &DecodeError) -> Path {
    match &error.fault {
        Fault::Missing { field } => error.path.join(field),
        _ => error.path.clone(),
    }
}

/// Takes the cause of an error out of the tree. In the place of what is missing comes an empty text, so that the rest of its
/// table can be read; where that does not help, the whole table goes.
fn take_out(tree: &mut Node, error: &DecodeError, again: bool) {
    let removed = if let Fault::Missing { field } = error.fault {
        match tree.at_mut(&error.path) {
            Some(node) => {
                let place = node.place.clone();
                if let Value::Table(entries) = &mut node.value {
                    let stand_in = Node { value: Value::Text(String::new()), key_place: place.clone(), place };
                    entries.insert(field.to_owned(), stand_in);
                }
                return;
            }
            None => error.path.clone(),
        }
    } else if again {
        error.path.parent()
    } else {
        error.path.clone()
    };
    if let Some(node) = tree.at_mut(&removed) {
        node.value = Value::Removed;
    }
}

/// `<file>.d/*.toml`, sorted by name.
fn drop_ins(file: &FilePath, problems: &mut Vec<Problem>) -> Vec<PathBuf> {
    let directory = PathBuf::from(format!("{}.d", file.display()));
    if !directory.is_dir() {
        return Vec::new();
    }
    match std::fs::read_dir(&directory).and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect()) {
        Ok(paths) => {
            let paths: Vec<PathBuf> = paths;
            let mut files: Vec<_> =
                paths.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "toml")).collect();
            files.sort();
            files
        }
        Err(error) => {
            problems.push(whole_file(&directory, &format!("can't be listed: {error}"), "a directory that recado may read, or none"));
            Vec::new()
        }
    }
}

/// The text of a configuration file, or what is wrong with it and what to do.
fn read(file: &FilePath) -> Result<String, (String, String)> {
    let unreadable = |error: std::io::Error| {
        (format!("can't be read: {error}"), "the path of a configuration file, as in `-c config/recado.toml`".to_owned())
    };
    let mut text = Vec::new();
    open_file(file).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text)).map_err(unreadable)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err((format!("is larger than {FILE_BYTES_MAX} bytes"), "smaller files in its `.d` directory".to_owned()));
    }
    String::from_utf8(text)
        .map_err(|error| (format!("is not UTF-8 (byte {})", error.utf8_error().valid_up_to()), "the same text saved as UTF-8".to_owned()))
}

fn whole_file(file: &FilePath, what: &str, instead: &str) -> Problem {
    Problem {
        place: Place::WholeFile(file.display().to_string().into()),
        severity: Severity::Error,
        what: what.to_owned(),
        instead: instead.to_owned(),
    }
}

/// A configuration is written by people; a file beyond this was given by mistake.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Tables within tables: deeper than any schema of arguments, and shallow enough for any stack.
const KEYS_MAX: usize = 64;

/// After so many mistyped settings a file is of another kind, and each costs another reading.
const PROBLEMS_MAX: usize = 200;
