//! `[tools.command]`: a tool that is a program on the box.

use std::collections::BTreeMap;
use std::path::{Path as FilePath, PathBuf};

use serde::Deserialize;
use serde_json::Value as Json;

use super::check::Checker;
use super::meant::nearest;
use super::tool::Tool;
use super::tree::Path;

/// A program on the box that carries out the attempts of one tool. It may be run because it is named here; no shell is involved.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCommand {
    /// The program, by its path: an absolute one, or one that starts from the configuration file.
    pub program: PathBuf,
    /// Its arguments, each of them one; `{arguments.NAME}` in them stands for an argument of the call.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// What it is given at its input.
    #[serde(default)]
    pub input: ToolInput,
    /// What its output is.
    #[serde(default)]
    pub output: ToolOutput,
    /// What its environment holds besides `PATH`, `HOME`, `LANG`, `LC_ALL` and what names the operation.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Where it runs.
    #[serde(default = "working_dir")]
    pub working_dir: PathBuf,
    /// The address space that each of its processes may have (bytes).
    #[serde(default = "memory_bytes_max")]
    pub memory_bytes_max: u64,
    /// How long each of its processes may compute (s).
    #[serde(default = "cpu_seconds_max")]
    pub cpu_seconds_max: u64,
    /// How many files each of its processes may have open.
    #[serde(default = "open_files_max")]
    pub open_files_max: u64,
    /// What is left of an operation whose program was terminated.
    #[serde(default)]
    pub on_terminate: OnTerminate,
}

/// What a command is given at its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolInput {
    /// The operation as one JSON object.
    #[default]
    Json,
    /// Nothing.
    None,
}

/// What a command's output is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolOutput {
    /// The result as JSON.
    #[default]
    Json,
    /// A text, which becomes the result's `value`.
    Text,
    /// Nothing that anybody wants.
    None,
}

/// What is left of an operation whose program was terminated before it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnTerminate {
    /// Nobody knows.
    #[default]
    Unknown,
    /// Nothing: the program leaves no effect unless it ends well.
    Undone,
}

/// A part of one of a command's arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// What is written there.
    Text(String),
    /// The argument of the call that stands there.
    Argument(String),
}

/// The parts of one of a command's arguments. What is put in is never looked at again.
pub fn pieces(argument: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut rest = argument;
    while let Some(next) = rest.chars().next() {
        let placeholder = rest.strip_prefix(PREFIX).and_then(|from| from.split_once('}')).filter(|(name, _)| !name.contains('{'));
        if let Some((name, after)) = placeholder {
            if !text.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut text)));
            }
            pieces.push(Piece::Argument(name.to_owned()));
            rest = after;
        } else {
            text.push(next);
            rest = rest.get(next.len_utf8()..).unwrap_or_default();
        }
    }
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    pieces
}

impl ToolCommand {
    /// Gives the paths their place.
    pub(super) fn resolve(&mut self, base: &FilePath) {
        // It runs elsewhere than the box was started.
        let absolute = |path: &FilePath| std::path::absolute(base.join(path)).unwrap_or_else(|_| base.join(path));
        self.program = absolute(&self.program);
        self.working_dir = absolute(&self.working_dir);
    }

    pub(super) fn check(&self, checker: &mut Checker<'_>, tool: &Tool, place: &Path) {
        for key in tool.http_keys() {
            let what = "a tool is a program or behind an address, and this one is a program";
            checker.error(&place.join(key), what, format!("[tools.command] without {key}, or {key} without it"));
        }
        let place = place.join("command");
        self.check_program(checker, &place);
        self.check_arguments(checker, tool, &place.join("arguments"));
        for (name, value) in &self.environment {
            let path = place.join("environment").join(name);
            if !checker.variable_name(&path, name, "DOOR_BUS = \"/dev/ttyUSB0\"") {
                continue;
            }
            if name.starts_with("RECADO_") {
                checker.error(&path, "names that begin with RECADO_ are the box's own", "DOOR_BUS = \"/dev/ttyUSB0\"");
            } else if value.contains('\0') {
                checker.error(&path, "a variable holds no NUL", format!("{name} = \"…\""));
            }
        }
        checker.directory_exists(&place.join("working_dir"), &self.working_dir);
        checker.within(&place.join("memory_bytes_max"), self.memory_bytes_max, MEMORY_BYTES_LEAST..=MEMORY_BYTES_MOST);
        checker.within(&place.join("cpu_seconds_max"), self.cpu_seconds_max, 1..=CPU_SECONDS_MOST);
        checker.within(&place.join("open_files_max"), self.open_files_max, OPEN_FILES_LEAST..=OPEN_FILES_MOST);
    }

    fn check_program(&self, checker: &mut Checker<'_>, place: &Path) {
        let path = place.join("program");
        if self.program.as_os_str().is_empty() {
            return checker.error(&path, "it is empty", "program = \"/usr/local/bin/open-door\"");
        }
        checker.program_exists(&path, &self.program);
        checker.only_its_owner_writes(&path, &self.program);
    }

    fn check_arguments(&self, checker: &mut Checker<'_>, tool: &Tool, place: &Path) {
        let declared = tool.parameters.get("properties").and_then(Json::as_object);
        let names: Vec<&str> = declared.map(|fields| fields.keys().map(String::as_str).collect()).unwrap_or_default();
        let required = |name: &str| {
            let required = tool.parameters.get("required").and_then(Json::as_array);
            required.is_some_and(|required| required.iter().any(|field| field == name))
        };
        for (index, argument) in self.arguments.iter().enumerate() {
            let path = place.join(index);
            if argument.contains('\0') {
                checker.error(&path, "an argument holds no NUL", "the argument without it");
            }
            let parts = pieces(argument);
            for part in &parts {
                match part {
                    Piece::Text(text) if text.contains("{arguments") || text.contains("{ arguments") => {
                        checker.error(&path, "this placeholder is not complete", "\"{arguments.door}\"");
                    }
                    Piece::Text(_) => {}
                    Piece::Argument(name) => match declared.and_then(|fields| fields.get(name)) {
                        None => {
                            let instead = match nearest(name, &names) {
                                Some(near) => format!("{{arguments.{near}}}"),
                                None if names.is_empty() => format!("properties.{name} = {{ type = \"string\" }} in parameters"),
                                None => format!("one of {}", names.join(", ")),
                            };
                            checker.error(&path, format!("{name:?} is not among the properties in parameters"), instead);
                        }
                        Some(schema) if !is_scalar(schema) => {
                            let what = format!("{name:?} may be a list or an object, which is no single argument");
                            checker.error(
                                &path,
                                what,
                                "a property of type string, number, integer or boolean; input = \"json\" gives it all",
                            );
                        }
                        Some(_) => {}
                    },
                }
            }
            // What is left out would leave its option behind, which would then take the next argument for its value.
            if let [Piece::Argument(name)] = parts.as_slice()
                && !required(name)
                && let Some(option) = index.checked_sub(1).and_then(|before| self.arguments.get(before))
                && option.starts_with('-')
                && option != END_OF_OPTIONS
            {
                let what = format!("{name:?} is not required, and {option:?} would stand alone without it");
                checker.error(
                    &path,
                    what,
                    format!("\"{option}={{arguments.{name}}}\" as one argument, or {name:?} in parameters.required"),
                );
            }
        }
    }
}

/// Whether a value of this schema is always a text, a number or a truth value.
fn is_scalar(schema: &Json) -> bool {
    let scalar = |word: &Json| matches!(word.as_str(), Some("string" | "number" | "integer" | "boolean"));
    match (schema.get("type"), schema.get("enum").or_else(|| schema.get("const"))) {
        (Some(Json::Array(words)), _) => words.iter().all(|word| scalar(word) || word == "null"),
        (Some(word), _) => scalar(word),
        (None, Some(Json::Array(values))) => values.iter().all(|value| !value.is_array() && !value.is_object()),
        (None, Some(value)) => !value.is_object(),
        (None, None) => false,
    }
}

/// Behind it nothing is taken for an option (POSIX, Utility Syntax Guideline 10).
pub const END_OF_OPTIONS: &str = "--";

/// How a placeholder begins.
const PREFIX: &str = "{arguments.";

fn working_dir() -> PathBuf {
    "/".into()
}

/// Enough for a script's interpreter, and little enough for a board.
fn memory_bytes_max() -> u64 {
    512 * 1024 * 1024
}

fn cpu_seconds_max() -> u64 {
    60
}

fn open_files_max() -> u64 {
    256
}

/// Below, the loader does not map a program's libraries.
const MEMORY_BYTES_LEAST: u64 = 16 * 1024 * 1024;
/// More than any box has.
const MEMORY_BYTES_MOST: u64 = 1024 * 1024 * 1024 * 1024;
/// An hour: longer than any attempt.
const CPU_SECONDS_MOST: u64 = 3_600;
/// Its input, output and error, and its libraries while they are loaded.
const OPEN_FILES_LEAST: u64 = 16;
/// What the service itself may have.
const OPEN_FILES_MOST: u64 = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_cut_at_its_placeholders_and_what_is_none_stays() {
        let text = |text: &str| Piece::Text(text.to_owned());
        let argument = |name: &str| Piece::Argument(name.to_owned());
        assert_eq!(
            pieces("--door={arguments.door}/{arguments.floor}!"),
            [text("--door="), argument("door"), text("/"), argument("floor"), text("!")]
        );
        assert_eq!(pieces("{door} {arguments.{arguments.x}"), [text("{door} {arguments."), argument("x")]);
        assert_eq!(pieces(""), []);
    }
}
