//! One step of a dialogue: what is said, called, cancelled.

use recado_core::conversation::input::Content;
use recado_core::policy::{Language, Localised};
use serde_json::Value;

/// One step, checked.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Step {
    /// Tools whose running operations are cancelled, before anything is said.
    pub(super) cancel: Option<Cancel>,
    /// What is said, clause by clause.
    pub(super) say: Vec<Say>,
    /// What is called, after what is said.
    pub(super) calls: Vec<Call>,
    /// Whether the caller confirms what was called last: it is called once more, as confirmed.
    pub(super) confirms: bool,
    /// Keys that are collected after what is said.
    pub(super) collect: Option<Box<Collect>>,
    /// A message that is taken after what is said.
    pub(super) message: Option<Box<TakeMessage>>,
    /// Whether the call ends after this.
    pub(super) hang_up: bool,
}

/// A message that is taken: what the caller says next, until they pause for long enough.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TakeMessage {
    /// How long it may be (s).
    pub(super) seconds: u32,
    /// How long a pause ends it, from where the caller's turn is over (ms).
    pub(super) pause_ms: u64,
    /// What follows when it is kept.
    pub(super) kept: Step,
    /// What follows when it can't be kept.
    pub(super) not_kept: Step,
}

/// Keys that are collected: a PIN, an account number. Nothing else is told meanwhile.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Collect {
    pub(super) digits_max: u8,
    /// The key that ends them before.
    pub(super) end: Option<char>,
    /// How long a pause may be (ms).
    pub(super) wait_ms: u64,
    /// What follows when they have come.
    pub(super) then: Step,
    /// What follows when they have not.
    pub(super) missing: Step,
}

/// Whose operations are cancelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cancel {
    /// All of the caller's that run.
    All,
    /// Those of this tool.
    Tool(String),
}

/// One thing that is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Say {
    /// Words, in at least one language.
    Text(Localised),
    /// A recorded prompt.
    Prompt { name: String, text: String },
}

/// One call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) tool: String,
    /// An object, whose texts may hold placeholders.
    pub(super) arguments: Value,
}

/// What placeholders stand for, when a step is taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts<'a> {
    /// `{{caller}}`: who is on the line; empty when that is not known.
    pub(super) caller: &'a str,
    /// `{{turn}}`: how many turns the caller has taken.
    pub(super) turn: u64,
    /// `{{digit}}`: the key that was pressed; only in the step of a key.
    pub(super) digit: Option<char>,
    /// `{{digits}}`: the keys that were collected; only in the step that follows them.
    pub(super) digits: Option<&'a str>,
}

impl Say {
    /// What is said in `language`, or in the other one where there are no words in it.
    pub(super) fn content(&self, language: Language) -> Option<Content> {
        match self {
            Self::Prompt { name, text } => Some(Content::Prompt { name: name.clone(), text: text.clone() }),
            Self::Text(words) => {
                let text = words.text(language)?.to_owned();
                let written = match language {
                    Language::Es => words.es.is_some(),
                    Language::En => words.en.is_some(),
                };
                Some(Content::Text { text, language: if written { language } else { other(language) } })
            }
        }
    }
}

impl Call {
    /// The arguments with their placeholders filled in.
    pub(super) fn arguments(&self, facts: Facts<'_>) -> Value {
        fill(&self.arguments, facts)
    }
}

/// The names of the placeholders in the texts of `value`.
pub(super) fn placeholders(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => {
            pieces(text).filter_map(|piece| if let Piece::Placeholder(name) = piece { Some(name.to_owned()) } else { None }).collect()
        }
        Value::Array(items) => items.iter().flat_map(placeholders).collect(),
        Value::Object(fields) => fields.values().flat_map(placeholders).collect(),
        _ => Vec::new(),
    }
}

/// `value` with the placeholders of its texts filled in. Depth is bounded by what a dialogue's parser takes.
fn fill(value: &Value, facts: Facts<'_>) -> Value {
    match value {
        Value::String(text) => Value::String(
            pieces(text)
                .map(|piece| match piece {
                    Piece::Words(words) => words.to_owned(),
                    Piece::Placeholder("caller") => facts.caller.to_owned(),
                    Piece::Placeholder("turn") => facts.turn.to_string(),
                    Piece::Placeholder("digit") => facts.digit.map(String::from).unwrap_or_default(),
                    Piece::Placeholder("digits") => facts.digits.unwrap_or_default().to_owned(),
                    // The dialogue's check lets no other through.
                    Piece::Placeholder(_) => String::new(),
                })
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(|item| fill(item, facts)).collect()),
        Value::Object(fields) => Value::Object(fields.iter().map(|(name, field)| (name.clone(), fill(field, facts))).collect()),
        constant => constant.clone(),
    }
}

enum Piece<'a> {
    Words(&'a str),
    /// What stands between `{{` and `}}`, or to the end where it is not closed.
    Placeholder(&'a str),
}

fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    text.split("{{").enumerate().flat_map(|(n, part)| {
        if n == 0 {
            return [Some(Piece::Words(part)), None].into_iter().flatten();
        }
        let (name, rest) = part.split_once("}}").unwrap_or((part, ""));
        [Some(Piece::Placeholder(name.trim())), Some(Piece::Words(rest))].into_iter().flatten()
    })
}

fn other(language: Language) -> Language {
    match language {
        Language::Es => Language::En,
        Language::En => Language::Es,
    }
}

/// How long a message may be (s).
pub(super) const MESSAGE_S_MIN: u32 = 5;
pub(super) const MESSAGE_S_MAX: u32 = 600;

/// The pause that ends a message, after the one that ends a turn (ms): the message has to be kept in five seconds.
pub(super) const MESSAGE_PAUSE_MS_MIN: u64 = 200;
pub(super) const MESSAGE_PAUSE_MS_MAX: u64 = 2_500;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn placeholders_are_filled_in_wherever_a_text_stands_and_constants_stay() {
        let call = Call {
            tool: "t".into(),
            arguments: json!({ "a": "{{caller}}", "b": ["key {{ digit }} in turn {{turn}}!", 3], "c": { "d": true } }),
        };
        let facts = Facts { caller: "+34600", turn: 2, digit: Some('#'), digits: Some("12") };
        assert_eq!(call.arguments(facts), json!({ "a": "+34600", "b": ["key # in turn 2!", 3], "c": { "d": true } }));
        let mut names = placeholders(&call.arguments);
        names.sort();
        assert_eq!(names, ["caller", "digit", "turn"]);
        assert_eq!(placeholders(&json!("{{open")), ["open"]);
    }

    #[test]
    fn words_are_said_in_the_callers_language_or_in_the_one_that_they_are_written_in() {
        let both = Say::Text(Localised { es: Some("hola".into()), en: Some("hello".into()) });
        let spanish = Say::Text(Localised { es: Some("hola".into()), en: None });
        let text = |text: &str, language| Some(Content::Text { text: text.into(), language });
        assert_eq!(both.content(Language::En), text("hello", Language::En));
        assert_eq!(spanish.content(Language::En), text("hola", Language::Es));
    }
}
