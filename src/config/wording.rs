//! Sentences for what serde and TOML found wrong.

use std::ops::RangeInclusive;

use super::decode::{DecodeError, Fault};
use super::example;
use super::headers::{HEADERS, is_plain_name};
use super::meant::{self, nearest};
use super::plain_words::{is_table, number_max, thing};
use super::problem::{Problem, Severity};
use super::secret::may_hold_secret;
use super::source::Source;
use super::tree::{Node, Path, TOOLS, Value, is_index};

/// A file that is not TOML.
pub(super) fn syntax(error: &toml::de::Error, source: &Source) -> Problem {
    Problem {
        place: source.place(error.span().map_or(0, |span| span.start)),
        severity: Severity::Error,
        what: format!("this is not TOML: {}", error.message().trim().replace('\n', ", ")),
        instead: String::new(),
    }
}

/// A setting that is not what it must be.
pub(super) fn fault(error: &DecodeError, tree: &Node) -> Problem {
    let path = &error.path;
    let node = tree.at(path);
    let is_header = |key: &&str| !path.parent().key().eq(HEADERS) || is_plain_name(key);
    let key = Some(path.word()).filter(is_header).unwrap_or("X-Branch");
    let is_secret = may_hold_secret(path.keys().iter().map(String::as_str));
    let (what, instead) = match &error.fault {
        Fault::UnknownField { expected } => {
            let known = meant::setting(path.key(), expected);
            let what = match known {
                Some(known) => format!("there is no such setting; did you mean `{known}`?"),
                None => "there is no such setting".to_owned(),
            };
            let instead = match (known, node) {
                (Some(known), Some(node)) => renamed(path, node, known, is_secret, tree),
                _ => format!("one of {}", expected.join(", ")),
            };
            (what, instead)
        }
        Fault::UnknownVariant { found, expected } => {
            let what = if is_secret { "this is not a choice".to_owned() } else { format!("{found:?} is not a choice") };
            let words = expected.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(" or ");
            (what, format!("{key} = {}", nearest(found, expected).map_or(words, |word| format!("{word:?}"))))
        }
        Fault::Missing { field } => (format!("`{field}` is missing"), example_of(path, field)),
        Fault::Mistyped { found, expected } => {
            // A text in the place of a table is all that should stand in it.
            let is_whole_table = found.starts_with("string") && (is_table(expected) || key == TOOLS);
            let (found, node) = if is_secret || is_whole_table { (kind(found), None) } else { (found.as_str(), node) };
            let (what, mut instead) = mistyped(key, found, expected, node);
            if is_table(expected) {
                instead = table(path);
            }
            let in_list = instead.split_once(" = ").filter(|_| is_index(path.key())).map(|(key, value)| format!("{key} = [{value}]"));
            (what, in_list.unwrap_or(instead))
        }
        Fault::Refused(why) => refused(path, why),
    };
    let place = match (&error.fault, node) {
        (_, None) => tree.place.clone(),
        (Fault::UnknownField { .. } | Fault::Missing { .. }, Some(node)) => node.key_place.clone().of_something_else(),
        (_, Some(node)) => node.place.clone(),
    };
    Problem { place, severity: Severity::Error, what: format!("{}: {what}", name_of(path, tree)), instead }
}

/// A setting that must be a number, is none that its type can hold, and what number was meant.
pub(super) struct Mistyped {
    pub problem: Problem,
    /// What the setting is called, where a number was written, which is only outside of its limits.
    number: Option<String>,
    meant: i128,
}

impl Mistyped {
    /// The limits of the setting: what is proposed keeps them.
    pub fn limit(&mut self, key: &str, range: RangeInclusive<u64>, proposed: impl Fn(u64) -> u64) {
        let (least, most) = (*range.start(), *range.end());
        let nearest = u64::try_from(self.meant.max(least.into()).min(most.into())).unwrap_or(most);
        if let (Some(name), true) = (&self.number, i128::from(nearest) != self.meant) {
            self.problem.what = format!("{name}: {} is outside of {least} to {most}", self.meant);
        }
        self.problem.instead = format!("{key} = {}", proposed(nearest));
    }
}

/// What an error says where a number must be, and a number of the type to go on with; none where no number can have been meant.
pub(super) fn mistyped_number(error: &DecodeError, tree: &Node) -> Option<(Mistyped, i64)> {
    let Fault::Mistyped { expected, .. } = &error.fault else { return None };
    let most = number_max(expected)?;
    let node = tree.at(&error.path)?;
    let (meant, number) = match &node.value {
        Value::Integer(number) => (i128::from(*number), true),
        Value::Loose(text) => match text.parse() {
            Ok(number) => (number, true),
            Err(_) => (number_meant(error.path.key(), text)?, false),
        },
        Value::Text(text) => (number_meant(error.path.key(), text)?, false),
        _ => return None,
    };
    let least = i128::from(expected.contains("nonzero"));
    let stand_in = i64::try_from(meant.max(least).min(most.into())).unwrap_or(i64::MAX);
    let number = number.then(|| name_of(&error.path, tree));
    Some((Mistyped { problem: fault(error, tree), number, meant }, stand_in))
}

/// What people call a setting: `sip.listen`, or `tool "weather": url`.
pub(super) fn name_of(path: &Path, tree: &Node) -> String {
    match path.keys() {
        [list, index, rest @ ..] if list == "tools" => {
            let tool = tree.at(&Path::of(list).join(index)).and_then(|tool| match &tool.value {
                Value::Table(entries) => entries.get("name")?.text().filter(|name| !name.is_empty()).map(str::to_owned),
                _ => None,
            });
            let tool = match tool {
                Some(name) => format!("tool {name:?}"),
                None => format!("tool {}", index.parse::<usize>().map_or(0, |index| index.saturating_add(1))),
            };
            if rest.is_empty() { tool } else { format!("{tool}: {}", words(rest)) }
        }
        keys => words(keys),
    }
}

/// Keys without places in lists: line and column say which. Of a header, only a name that plainly is one: it may be what belongs into it.
fn words(keys: &[String]) -> String {
    let around = std::iter::once("").chain(keys.iter().map(String::as_str));
    let shown = keys.iter().zip(around).filter(|(key, _)| !is_index(key));
    shown.map(|(key, around)| if around == HEADERS && !is_plain_name(key) { "…" } else { key }).collect::<Vec<_>>().join(".")
}

/// What a type of our own says after what is wrong: its own proposal.
pub(super) const WRITE_INSTEAD: &str = "; write instead: ";

fn mistyped(key: &str, found: &str, expected: &str, node: Option<&Node>) -> (String, String) {
    let text = node.and_then(Node::text);
    let (wanted, instead) = match expected {
        "a boolean" => ("true or false", format!("{key} = {}", text.and_then(|text| text.parse().ok()).unwrap_or(true))),
        "a string" | "path string" | "socket address" | "IP address" => match found.split('`').nth(1) {
            Some(value) => ("text in quotes", format!("{key} = {value:?}")),
            None => ("text in quotes", format!("{key} = \"…\"")),
        },
        "a sequence" if key == TOOLS => ("one [[tools]] table for each tool", "[[tools]]".to_owned()),
        "a sequence" => match text {
            Some(text) => ("a list", format!("{key} = [{text:?}]")),
            None => ("a list", format!("{key} = […]")),
        },
        number if number_max(number).is_some() => {
            let range = match number_max(number) {
                _ if number.contains("nonzero") => "a whole number, one or more".to_owned(),
                Some(max) if max < u64::MAX && found.starts_with("integer") => format!("a whole number from 0 to {max}"),
                _ => "a whole number, zero or more".to_owned(),
            };
            let instead = match text.and_then(|text| number_meant(key, text)) {
                Some(number) => format!("{key} = {number}"),
                None if number.contains("nonzero") => format!("{key} = 1"),
                None => "a number without quotes, unit or sign".to_owned(),
            };
            return (format!("expected {range}, found {}", thing(found)), instead);
        }
        table if is_table(table) => ("a table", String::new()),
        other => (other, format!("{key} = {other}")),
    };
    (format!("expected {wanted}, found {}", thing(found)), instead)
}

/// What serde calls a value, without the value.
fn kind(found: &str) -> &str {
    match found.split_once(' ') {
        Some(("string", _)) => "a text",
        Some(("integer" | "floating", _)) => "a number",
        Some(("boolean", _)) => "true or false",
        _ => found,
    }
}

/// The number that a text stands for, its unit included where the setting is in milliseconds: `30s` is 30000.
fn number_meant(key: &str, text: &str) -> Option<i128> {
    let text = text.replace(['_', ' '], "");
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(unit_at);
    let factor = match unit {
        "" => 1,
        "ms" if key.contains("_ms") => 1,
        "s" if key.contains("_ms") => 1_000,
        "m" | "min" if key.contains("_ms") => 60_000,
        "h" if key.contains("_ms") => 3_600_000,
        _ => return None,
    };
    digits.parse::<i128>().ok()?.checked_mul(factor)
}

fn refused(path: &Path, why: &str) -> (String, String) {
    let key = path.word();
    let port = if *path == Path::of("http.listen") { 8080 } else { 5060 };
    match why.split_once(WRITE_INSTEAD) {
        Some((what, instead)) => (what.to_owned(), format!("{key} = {instead}")),
        None if why.contains("socket address") => ("this is not an address and port".to_owned(), format!("{key} = \"127.0.0.1:{port}\"")),
        None if why.contains("IP address") => ("this is not an IP address".to_owned(), format!("{key} = \"192.0.2.10\"")),
        None => (why.to_owned(), String::new()),
    }
}

/// The setting `key` of the table at `path`, as somebody could write it.
fn example_of(path: &Path, key: &str) -> String {
    match (words(path.keys()).as_str(), key) {
        (TOOLS, "url") => "url = \"https://crm.example/recado/tickets\"".to_owned(),
        (TOOLS, "name") => "name = \"open_ticket\"".to_owned(),
        (table, key) => example::line(table, key).map_or_else(|| format!("{key} = \"…\""), str::to_owned),
    }
}

/// What stands at `path` under the name that was meant, with its own value where that can be and may be shown.
fn renamed(path: &Path, node: &Node, known: &str, is_secret: bool, tree: &Node) -> String {
    let around = path.parent();
    if meant::is_credential_file(known) {
        return format!("{}, a file that holds it", example_of(&around, known));
    }
    let of_language = code_of_box(tree);
    match (&node.value, example::line(&words(around.keys()), known)) {
        _ if is_secret || may_hold_secret([known]) => example_of(&around, known),
        (Value::Table(_), _) => format!("[{}]", words(around.join(known).keys())),
        // One value for what has one for each language.
        (Value::Text(text) | Value::Loose(text), Some(example)) if example.contains(&format!(" {of_language} = ")) => {
            format!("{known}.{of_language} = {text:?}")
        }
        _ => node.line(known),
    }
}

/// How the table at `path` is begun or, where one is written on a line, an example of it.
fn table(path: &Path) -> String {
    match (words(path.keys()).as_str(), example::line(&words(path.parent().keys()), path.word())) {
        (TOOLS, _) => "[[tools]]".to_owned(),
        (_, Some(example)) => example.to_owned(),
        (whole, None) => format!("[{whole}]"),
    }
}

/// The language of the box, as it is written.
fn code_of_box(tree: &Node) -> &str {
    tree.at(&Path::of("box.language")).and_then(Node::text).filter(|code| *code == "en").unwrap_or("es")
}
