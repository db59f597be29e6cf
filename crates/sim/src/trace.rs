//! A script as text: one line for the box, and one for each thing that happens, so that a failure is read, cut and kept.
//!
//! ```text
//! recado simulation 1
//! # I13 at 14310 ms: idle since 11200, and nothing is told
//! box answer_after_ms=null link_ms=0 min_quiet_ms=650 …
//! 0 dial party=0
//! 5600 speak call=0 ms=800
//! ```
//!
//! Values are JSON. Lines that begin with `#` and empty ones are nothing.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::action::{Action, Event};
use crate::script::{Parameters, Script};

/// Why a text is no script.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// It is something else.
    #[error("this is no trace of a simulation: its first line must be `{HEAD}`")]
    Head,
    /// There is no line for the box.
    #[error("no line says what the box is set up with: one must begin with `box`, before the first event")]
    NoBox,
    /// A line can't be read.
    #[error("line {line}: {what}")]
    Line {
        /// Which, from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
}

/// A script as text; `about` says what it shows.
pub fn to_text(script: &Script, about: &str) -> String {
    let mut text = format!("{HEAD}\n");
    for line in about.lines() {
        let _ = writeln!(text, "# {line}");
    }
    let _ = writeln!(text, "box{}", fields(&script.parameters));
    for event in &script.events {
        let _ = writeln!(text, "{}", line(event));
    }
    text
}

/// An event as a line of text.
pub fn line(event: &Event) -> String {
    let action = serde_json::to_value(&event.action).unwrap_or_default();
    let (name, inner) = action.as_object().and_then(|named| named.iter().next()).map_or(("", &Value::Null), |(name, of)| (name, of));
    format!("{} {name}{}", event.at_ms, fields(inner))
}

fn fields(of: &impl serde::Serialize) -> String {
    let mut text = String::new();
    if let Ok(Value::Object(map)) = serde_json::to_value(of) {
        for (name, value) in &map {
            let _ = write!(text, " {name}={value}");
        }
    }
    text
}

/// Reads a script.
pub fn parse(text: &str) -> Result<Script, TraceError> {
    let mut lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty() && !line.starts_with('#'));
    if lines.next().is_none_or(|(head, _)| head.trim() != HEAD) {
        return Err(TraceError::Head);
    }
    let mut parameters = None;
    let mut events: Vec<Event> = Vec::new();
    for (text, line) in lines {
        let error = |what: String| TraceError::Line { line, what };
        let mut words = text.split_whitespace();
        let first = words.next().unwrap_or_default();
        if first == "box" {
            parameters = Some(serde_json::from_value::<Parameters>(map(words).map_err(error)?).map_err(|e| error(e.to_string()))?);
            continue;
        }
        let at_ms = first.parse().map_err(|_| error(format!("`{first}` is no time in milliseconds")))?;
        if events.last().is_some_and(|before| before.at_ms > at_ms) {
            return Err(error("it is earlier than the one before it".into()));
        }
        let name = words.next().ok_or_else(|| error("nothing happens: a word is missing after the time".into()))?;
        let named = Value::Object(Map::from_iter([(name.to_owned(), map(words).map_err(error)?)]));
        let action = serde_json::from_value::<Action>(named).map_err(|e| error(e.to_string()))?;
        events.push(Event { at_ms, action });
    }
    Ok(Script { parameters: parameters.ok_or(TraceError::NoBox)?, events })
}

fn map<'a>(words: impl Iterator<Item = &'a str>) -> Result<Value, String> {
    let one = |word: &str| {
        let (name, value) = word.split_once('=').ok_or_else(|| format!("`{word}` is not of the form name=value"))?;
        Ok((name.to_owned(), serde_json::from_str(value).map_err(|error| format!("{name}: {error}"))?))
    };
    words.map(one).collect::<Result<Map<String, Value>, String>>().map(Value::Object)
}

const HEAD: &str = "recado simulation 1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_reads_back_as_it_was_written() {
        for seed in 0..200 {
            let script = Script::of_seed(seed);
            assert_eq!(parse(&to_text(&script, "why\nin two lines")), Ok(script));
        }
    }

    #[test]
    fn what_is_wrong_with_a_text_is_said_with_its_line() {
        assert_eq!(parse("seed 7"), Err(TraceError::Head));
        assert_eq!(parse("recado simulation 1\n0 dial party=0\n"), Err(TraceError::NoBox));
        let text = to_text(&Script { parameters: Parameters::default(), events: Vec::new() }, "");
        for (line, says) in [
            ("x dial party=0", "no time"),
            ("3", "a word is missing"),
            ("3 dial", "missing field `party`"),
            ("3 dial party", "name=value"),
            ("3 sing song=1", "unknown variant `sing`"),
        ] {
            let error = parse(&format!("{text}{line}\n")).unwrap_err().to_string();
            assert!(error.starts_with("line 3: ") && error.contains(says), "{error}");
        }
        let backwards = format!("{text}5 dial party=0\n4 dial party=0\n");
        assert!(parse(&backwards).unwrap_err().to_string().contains("line 4: it is earlier"));
    }
}
