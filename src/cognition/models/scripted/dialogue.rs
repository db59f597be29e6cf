//! A dialogue, read from TOML and checked: against itself, and against the tools that it calls.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::path::PathBuf;

use recado_core::policy::Localised;
use serde::de::{DeserializeOwned, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use toml::Spanned;

use super::error::DialogueError;
use super::step::{
    Call, Cancel, Collect, Facts, MESSAGE_PAUSE_MS_MAX, MESSAGE_PAUSE_MS_MIN, MESSAGE_S_MAX, MESSAGE_S_MIN, Say, Step, TakeMessage,
    placeholders,
};
use crate::cognition::models::message::{MESSAGE_PAUSE_MS, MESSAGE_S};
use crate::cognition::tools::Schemas;

/// A dialogue that can be held: every name in it exists, every constant fits its tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Dialogue {
    pub(super) greeting: Step,
    pub(super) turns: Vec<Step>,
    pub(super) after_turns: AfterTurns,
    pub(super) otherwise: Step,
    pub(super) digits: BTreeMap<char, Step>,
    /// How long nobody may have said anything (ms), and what follows: in order, the first silence first.
    pub(super) silences: Vec<(u64, Step)>,
    prompts: BTreeMap<String, Prompt>,
    takes_messages: bool,
}

/// A recorded prompt.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prompt {
    /// The WAV file, relative to the file that the dialogue stands in.
    pub file: PathBuf,
    /// The words that it says: what history keeps and a cut is placed in.
    pub text: String,
}

/// What answers a turn after the last `[[turn]]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AfterTurns {
    /// The step `[otherwise]`, for every further turn.
    #[default]
    Otherwise,
    /// The first `[[turn]]` again, and so on round.
    Cycle,
}

impl Dialogue {
    /// Reads a dialogue and checks its calls against `schemas`. The first fault is told, with its line.
    pub fn parse(text: &str, schemas: &Schemas) -> Result<Self, DialogueError> {
        if text.len() > DIALOGUE_BYTES_MAX {
            return Err(DialogueError::TooLong { size_bytes: text.len(), bytes_max: DIALOGUE_BYTES_MAX });
        }
        let document: Document = toml::from_str(text).map_err(|error| DialogueError::Toml {
            line: error.span().map_or(1, |span| line(text, &span)),
            message: crate::config::plainly(error.message()),
        })?;
        Check { text, schemas, prompts: &document.prompts, takes_messages: Cell::new(false) }.document(&document)
    }

    /// The recorded prompts, by name.
    pub fn prompts(&self) -> &BTreeMap<String, Prompt> {
        &self.prompts
    }

    /// Whether any of its steps takes a message.
    pub fn takes_messages(&self) -> bool {
        self.takes_messages
    }

    /// How long nobody may say anything before this dialogue has something to say about it (ms); never, where none.
    pub fn silence_after_ms(&self) -> Option<u64> {
        self.silences.iter().map(|(after_ms, _)| *after_ms).min()
    }
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    prompts: BTreeMap<String, Prompt>,
    greeting: Option<Spanned<RawStep>>,
    #[serde(default)]
    turn: Vec<Spanned<RawStep>>,
    #[serde(default)]
    after_turns: AfterTurns,
    otherwise: Spanned<RawStep>,
    #[serde(default)]
    digit: BTreeMap<Spanned<String>, Spanned<RawStep>>,
    #[serde(default)]
    silence: Vec<Spanned<RawStep>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStep {
    /// Only for a silence.
    after_s: Option<Spanned<u32>>,
    #[serde(default)]
    cancel: Option<Spanned<String>>,
    #[serde(default)]
    say: OneOrMany<RawSay>,
    #[serde(default)]
    call: OneOrMany<RawCall>,
    collect: Option<Box<Spanned<RawCollect>>>,
    message: Option<Box<Spanned<RawMessage>>>,
    #[serde(default)]
    confirm: bool,
    #[serde(default)]
    hang_up: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMessage {
    seconds: Option<u32>,
    pause_ms: Option<u64>,
    kept: Spanned<RawStep>,
    not_kept: Spanned<RawStep>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCollect {
    digits: u8,
    end: Option<String>,
    wait_s: Option<u32>,
    then: Spanned<RawStep>,
    missing: Option<Spanned<RawStep>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSay {
    es: Option<Spanned<String>>,
    en: Option<Spanned<String>>,
    prompt: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCall {
    tool: Spanned<String>,
    #[serde(default)]
    arguments: toml::Table,
}

/// One table, or a list of them.
struct OneOrMany<T>(Vec<T>);

/// Where a step stands: what may be written in it.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// The key that it belongs to.
    digit: Option<char>,
    /// Whether it follows keys that were collected.
    digits: bool,
    is_silence: bool,
}

/// What a dialogue is checked against.
struct Check<'a> {
    text: &'a str,
    schemas: &'a Schemas,
    prompts: &'a BTreeMap<String, Prompt>,
    /// Whether a step that was checked takes a message.
    takes_messages: Cell<bool>,
}

impl Check<'_> {
    fn document(&self, document: &Document) -> Result<Dialogue, DialogueError> {
        let steps = document.turn.len() + document.silence.len() + document.digit.len();
        if steps > STEPS_MAX {
            return Err(DialogueError::TooMany { line: 1, what: "steps", max: STEPS_MAX });
        }
        let mut digits = BTreeMap::new();
        for (key, step) in &document.digit {
            let digit = self.key(key)?;
            digits.insert(digit, self.step(step, Place { digit: Some(digit), ..Place::default() })?);
        }
        let greeting = document.greeting.as_ref().map(|step| self.step(step, Place::default())).transpose()?;
        Ok(Dialogue {
            greeting: greeting.unwrap_or_default(),
            turns: document.turn.iter().map(|step| self.step(step, Place::default())).collect::<Result<_, _>>()?,
            after_turns: document.after_turns,
            otherwise: self.step(&document.otherwise, Place::default())?,
            digits,
            silences: document.silence.iter().map(|step| self.silence(step)).collect::<Result<_, _>>()?,
            prompts: self.prompts.clone(),
            takes_messages: self.takes_messages.get(),
        })
    }

    fn silence(&self, step: &Spanned<RawStep>) -> Result<(u64, Step), DialogueError> {
        let (after_s, line) = match &step.get_ref().after_s {
            Some(after_s) => (*after_s.get_ref(), self.line(&after_s.span())),
            None => (0, self.line(&step.span())),
        };
        if !(SILENCE_S_MIN..=SILENCE_S_MAX).contains(&after_s) {
            return Err(DialogueError::Silence { line, min: SILENCE_S_MIN, max: SILENCE_S_MAX });
        }
        Ok((u64::from(after_s) * 1_000, self.step(step, Place { is_silence: true, ..Place::default() })?))
    }

    /// A key of RFC 4733: `0`–`9`, `*`, `#`, `A`–`D`.
    fn key(&self, key: &Spanned<String>) -> Result<char, DialogueError> {
        let mut characters = key.get_ref().chars();
        match (characters.next(), characters.next()) {
            (Some(digit @ ('0'..='9' | '*' | '#' | 'A'..='D')), None) => Ok(digit),
            _ => Err(DialogueError::Key {
                line: self.line(&key.span()),
                reason: format!("`{}` is no key: write `[digit.1]`, `[digit.\"*\"]` or `[digit.\"#\"]`", key.get_ref()),
            }),
        }
    }

    fn step(&self, step: &Spanned<RawStep>, place: Place) -> Result<Step, DialogueError> {
        let line = self.line(&step.span());
        let step = step.get_ref();
        if let Some(after_s) = step.after_s.as_ref().filter(|_| !place.is_silence) {
            let message = "`after_s` belongs to `[[silence]]`: remove it here".to_owned();
            return Err(DialogueError::Toml { line: self.line(&after_s.span()), message });
        }
        let asks = step.collect.is_some() || step.message.is_some() || step.confirm;
        if step.say.0.is_empty() && step.call.0.is_empty() && step.cancel.is_none() && !asks && !step.hang_up {
            return Err(DialogueError::EmptyStep { line });
        }
        if step.say.0.len() > SAY_MAX {
            return Err(DialogueError::TooMany { line, what: "things to say in this step", max: SAY_MAX });
        }
        if step.call.0.len() > CALLS_MAX {
            return Err(DialogueError::TooMany { line, what: "calls in this step", max: CALLS_MAX });
        }
        Ok(Step {
            cancel: step.cancel.as_ref().map(|cancel| self.cancel(cancel)).transpose()?,
            say: step.say.0.iter().map(|say| self.say(say, line)).collect::<Result<_, _>>()?,
            calls: step.call.0.iter().map(|call| self.call(call, place)).collect::<Result<_, _>>()?,
            collect: step.collect.as_ref().map(|collect| self.collect(collect)).transpose()?,
            message: step.message.as_ref().map(|message| self.message(message, step)).transpose()?,
            confirms: step.confirm,
            hang_up: step.hang_up,
        })
    }

    fn message(&self, message: &Spanned<RawMessage>, step: &RawStep) -> Result<Box<TakeMessage>, DialogueError> {
        let line = self.line(&message.span());
        let message = message.get_ref();
        let fault = |reason: String| Err(DialogueError::Message { line, reason });
        if step.collect.is_some() || step.hang_up {
            return fault("`message` takes what the caller says next: remove `collect` and `hang_up` from its step".to_owned());
        }
        let seconds = message.seconds.unwrap_or(MESSAGE_S);
        if !(MESSAGE_S_MIN..=MESSAGE_S_MAX).contains(&seconds) {
            return fault(format!("`seconds` must be between {MESSAGE_S_MIN} and {MESSAGE_S_MAX}"));
        }
        let pause_ms = message.pause_ms.unwrap_or(MESSAGE_PAUSE_MS);
        if !(MESSAGE_PAUSE_MS_MIN..=MESSAGE_PAUSE_MS_MAX).contains(&pause_ms) {
            return fault(format!("`pause_ms` must be between {MESSAGE_PAUSE_MS_MIN} and {MESSAGE_PAUSE_MS_MAX}"));
        }
        self.takes_messages.set(true);
        let kept = self.step(&message.kept, Place::default())?;
        let not_kept = self.step(&message.not_kept, Place::default())?;
        Ok(Box::new(TakeMessage { seconds, pause_ms, kept, not_kept }))
    }

    fn collect(&self, collect: &Spanned<RawCollect>) -> Result<Box<Collect>, DialogueError> {
        let line = self.line(&collect.span());
        let collect = collect.get_ref();
        let fault = |reason: String| Err(DialogueError::Collect { line, reason });
        if !(1..=COLLECTED_MAX).contains(&collect.digits) {
            return fault(format!("`digits` must be between 1 and {COLLECTED_MAX}"));
        }
        let end = match collect.end.as_deref() {
            None => None,
            Some("*") => Some('*'),
            Some("#") => Some('#'),
            Some(other) => return fault(format!("`{other}` can't end the keys: write `end = \"#\"` or `end = \"*\"`")),
        };
        let wait_s = collect.wait_s.unwrap_or(WAIT_S);
        if !(WAIT_S_MIN..=WAIT_S_MAX).contains(&wait_s) {
            return fault(format!("`wait_s` must be between {WAIT_S_MIN} and {WAIT_S_MAX} seconds"));
        }
        let then = self.step(&collect.then, Place { digits: true, ..Place::default() })?;
        let missing = collect.missing.as_ref().map(|step| self.step(step, Place::default())).transpose()?.unwrap_or_default();
        Ok(Box::new(Collect { digits_max: collect.digits, end, wait_ms: u64::from(wait_s) * 1_000, then, missing }))
    }

    fn say(&self, say: &RawSay, step_line: usize) -> Result<Say, DialogueError> {
        let words = [&say.es, &say.en].into_iter().flatten();
        for text in words.clone() {
            let line = self.line(&text.span());
            if text.get_ref().trim().is_empty() {
                return Err(DialogueError::Say { line, reason: "there are no words in it: write some, or leave the language out".into() });
            }
            if text.get_ref().chars().count() > SAY_CHARS_MAX {
                let reason = format!("it is longer than {SAY_CHARS_MAX} characters: split it into a list");
                return Err(DialogueError::Say { line, reason });
            }
        }
        let Some(prompt) = &say.prompt else {
            if words.count() == 0 {
                return Err(DialogueError::Say {
                    line: step_line,
                    reason: "something to say has neither `es` nor `en` nor `prompt`".into(),
                });
            }
            let text = |text: &Option<Spanned<String>>| text.as_ref().map(|text| text.get_ref().clone());
            return Ok(Say::Text(Localised { es: text(&say.es), en: text(&say.en) }));
        };
        let line = self.line(&prompt.span());
        if words.count() > 0 {
            let reason = "a prompt brings its own words: remove `es` and `en`, or `prompt`".into();
            return Err(DialogueError::Say { line, reason });
        }
        let name = prompt.get_ref().clone();
        match self.prompts.get(&name) {
            Some(Prompt { text, .. }) => Ok(Say::Prompt { name, text: text.clone() }),
            None => {
                let known: Vec<&str> = self.prompts.keys().map(String::as_str).collect();
                let known = if known.is_empty() { "none is declared".to_owned() } else { known.join(", ") };
                Err(DialogueError::UnknownPrompt { line, name, known })
            }
        }
    }

    fn cancel(&self, cancel: &Spanned<String>) -> Result<Cancel, DialogueError> {
        match cancel.get_ref().as_str() {
            ALL_TOOLS => Ok(Cancel::All),
            tool if self.schemas.names().any(|name| name == tool) => Ok(Cancel::Tool(tool.to_owned())),
            other => {
                let names: Vec<&str> = self.schemas.names().collect();
                let reason = format!("there is no tool `{other}` to cancel: write `\"*\"` for all, or one of: {}", names.join(", "));
                Err(DialogueError::Tool { line: self.line(&cancel.span()), reason })
            }
        }
    }

    fn call(&self, call: &RawCall, place: Place) -> Result<Call, DialogueError> {
        let line = self.line(&call.tool.span());
        let fault = |reason: String| DialogueError::Tool { line, reason };
        let arguments = json(&toml::Value::Table(call.arguments.clone())).map_err(fault)?;
        let named = placeholders(&arguments);
        let digit = place.digit;
        let possible = match place {
            Place { digit: Some(_), .. } => "{{caller}}, {{turn}} and {{digit}}",
            Place { digits: true, .. } => "{{caller}}, {{turn}} and {{digits}}",
            _ => "{{caller}} and {{turn}}",
        };
        let known = |name: &str| match name {
            "caller" | "turn" => true,
            "digit" => digit.is_some(),
            "digits" => place.digits,
            _ => false,
        };
        if let Some(name) = named.iter().find(|name| !known(name)) {
            return Err(DialogueError::Placeholder { line, name: name.clone(), possible });
        }
        let call = Call { tool: call.tool.get_ref().clone(), arguments };
        // Who calls, in which turn and what they will have pressed is not known yet; everything else is, and must fit.
        if named.iter().all(|name| name == "digit") {
            let arguments = call.arguments(Facts { caller: "", turn: 0, digit, digits: None });
            self.schemas.check(&call.tool, &arguments).map_err(|refused| fault(refused.to_string()))?;
        } else if !self.schemas.names().any(|name| name == call.tool) {
            self.schemas.check(&call.tool, &call.arguments).map_err(|refused| fault(refused.to_string()))?;
        }
        Ok(call)
    }

    fn line(&self, span: &Range<usize>) -> usize {
        line(self.text, span)
    }
}

fn line(text: &str, span: &Range<usize>) -> usize {
    let before = text.as_bytes().get(..span.start).unwrap_or(text.as_bytes());
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}

/// TOML as JSON: dates become text as they are written.
fn json(value: &toml::Value) -> Result<Value, String> {
    Ok(match value {
        toml::Value::String(text) => Value::from(text.as_str()),
        toml::Value::Integer(number) => Value::from(*number),
        toml::Value::Float(number) => {
            serde_json::Number::from_f64(*number).map(Value::Number).ok_or("JSON knows neither `inf` nor `nan`")?
        }
        toml::Value::Boolean(flag) => Value::from(*flag),
        toml::Value::Datetime(date) => Value::from(date.to_string()),
        toml::Value::Array(items) => Value::Array(items.iter().map(json).collect::<Result<_, _>>()?),
        toml::Value::Table(fields) => {
            Value::Object(fields.iter().map(|(name, field)| Ok((name.clone(), json(field)?))).collect::<Result<_, String>>()?)
        }
    })
}

impl<T> Default for OneOrMany<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tables<T>(PhantomData<T>);

        impl<'de, T: DeserializeOwned> Visitor<'de> for Tables<T> {
            type Value = OneOrMany<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table `{ … }`, or a list of tables `[{ … }, { … }]`")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(|one| OneOrMany(vec![one]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut many = Vec::new();
                while let Some(one) = list.next_element()? {
                    many.push(one);
                }
                Ok(OneOrMany(many))
            }
        }

        deserializer.deserialize_any(Tables(PhantomData))
    }
}

/// What `cancel` says for all tools: no tool can be called so.
const ALL_TOOLS: &str = "*";

/// Longer than any dialogue that a person writes.
const DIALOGUE_BYTES_MAX: usize = 256 * 1024;

/// Turns, keys and silences together.
const STEPS_MAX: usize = 256;

/// Clauses of one step: nobody listens longer.
const SAY_MAX: usize = 16;

/// Calls of one step, which close together.
const CALLS_MAX: usize = 8;

/// One clause: about half a minute of speech (characters).
const SAY_CHARS_MAX: usize = 500;

/// Keys that can be collected at once: longer than an account number.
const COLLECTED_MAX: u8 = 32;

/// A pause that ends the keys, where none is written; what may be written (s).
const WAIT_S: u32 = 6;
const WAIT_S_MIN: u32 = 2;
const WAIT_S_MAX: u32 = 30;

/// A shorter silence is a pause in somebody's thoughts (s).
const SILENCE_S_MIN: u32 = 2;

/// A longer one is a forgotten receiver, which other limits end (s).
const SILENCE_S_MAX: u32 = 600;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::Tool;

    #[test]
    fn the_example_dialogue_is_right() {
        let dialogue = Dialogue::parse(include_str!("../../../../config/dialogue.toml"), &schemas()).unwrap();
        assert!(dialogue.turns.iter().any(|step| step.calls.len() == 2), "two tools in one turn");
        assert!(!dialogue.digits.is_empty() && !dialogue.silences.is_empty() && !dialogue.prompts().is_empty());
        assert!(dialogue.turns.iter().chain(dialogue.digits.values()).any(|step| step.cancel.is_some()), "a cancel");
        assert!(dialogue.turns.iter().any(|step| step.hang_up), "a goodbye");
    }

    #[test]
    fn a_fault_is_told_with_its_line_and_what_to_do() {
        let faults = [
            ("[otherwise]\nsya = { es = 'a' }", 2, "there is no `sya` here; write one of "),
            ("[otherwise]\nsay = { es = 'a', fr = 'b' }", 2, "there is no `fr` here; write one of `es`, `en`"),
            ("[otherwise]\nsay = 'hola'", 2, "a list of tables"),
            ("[otherwise]\nsay = [", 2, ""),
            ("[greeting]\nsay = { es = 'a' }", 1, "`otherwise` is missing"),
            ("[otherwise]\nhang_up = false", 1, "does nothing"),
            ("[otherwise]\nsay = { es = ' ' }", 2, "no words"),
            ("[otherwise]\nsay = [{ es = 'a' },\n {}]", 1, "neither `es` nor `en` nor `prompt`"),
            ("[otherwise]\nsay = [{ es = 'a' },\n { prompt = 'bye' }]", 3, "no prompt `bye`"),
            ("[prompts.bye]\nfile='a.wav'\ntext='a'\n[otherwise]\nsay = { prompt = 'bye', es = 'a' }", 5, "its own words"),
            ("[otherwise]\nhang_up = true\n[digit.11]\nhang_up = true", 3, "no key"),
            ("[otherwise]\nhang_up = true\n[digit.a]\nhang_up = true", 3, "no key"),
            ("[otherwise]\nhang_up = true\n[[silence]]\nhang_up = true", 3, "`after_s` must be between"),
            ("[otherwise]\nhang_up = true\n[[silence]]\nafter_s = 1\nhang_up = true", 4, "`after_s` must be between"),
            ("[otherwise]\nhang_up = true\nafter_s = 5", 3, "belongs to `[[silence]]`"),
            ("[otherwise]\ncancel = 'nothing'", 2, "no tool `nothing`"),
            ("[otherwise]\ncall = { tool = 'nothing' }", 2, "no tool `nothing`"),
            ("[otherwise]\ncall = { tool = 'nothing', arguments = { a = '{{caller}}' } }", 2, "no tool `nothing`"),
            ("[otherwise]\ncall = [\n{ tool = 'book_table', arguments = { people = 99 } }]", 3, "/people"),
            (
                "[otherwise]\ncall = { tool = 'book_table', arguments = { people = 2, day = '{{digit}}' } }",
                2,
                "`{{digit}}` can't be filled in here",
            ),
            ("[otherwise]\ncall = { tool = 'book_table', arguments = { people = nan } }", 2, "`nan`"),
            ("[otherwise]\nmessage = { seconds = 1, kept = { hang_up = true }, not_kept = { hang_up = true } }", 2, "between 5 and 600"),
            (
                "[otherwise]\nmessage = { pause_ms = 9000, kept = { hang_up = true }, not_kept = { hang_up = true } }",
                2,
                "between 200 and 2500",
            ),
            ("[otherwise]\nmessage = { kept = { hang_up = true } }", 2, "`not_kept` is missing"),
            (
                "[otherwise]\nhang_up = true\nmessage = { kept = { hang_up = true }, not_kept = { hang_up = true } }",
                3,
                "remove `collect` and `hang_up`",
            ),
            ("[otherwise]\ncollect = { digits = 0, then = { hang_up = true } }", 2, "between 1 and 32"),
            ("[otherwise]\ncollect = { digits = 4, end = '7', then = { hang_up = true } }", 2, "can't end the keys"),
            ("[otherwise]\ncollect = { digits = 4, wait_s = 90, then = { hang_up = true } }", 2, "between 2 and 30 seconds"),
            ("[otherwise]\ncollect = { digits = 4 }", 2, "`then` is missing"),
            (
                "[otherwise]\ncall = { tool = 'book_table', arguments = { people = 2, day = '{{digits}}' } }",
                2,
                "`{{digits}}` can't be filled in here",
            ),
            ("after_turns = 'never'\n[otherwise]\nhang_up = true", 1, "never"),
        ];
        for (text, line, words) in faults {
            let error = Dialogue::parse(text, &schemas()).unwrap_err();
            let shown = error.to_string();
            assert!(
                shown.starts_with(&format!("line {line}: ")) && shown.contains(words),
                "{text}\n  gives: {shown}\n  wanted: line {line}, {words}"
            );
        }
    }

    #[test]
    fn what_is_too_much_is_refused() {
        let clauses = "{ es = 'a' },".repeat(SAY_MAX + 1);
        let error = Dialogue::parse(&format!("[otherwise]\nsay = [{clauses}]"), &schemas()).unwrap_err();
        assert!(matches!(error, DialogueError::TooMany { .. }), "{error}");
        let steps = "[[turn]]\nhang_up = true\n".repeat(STEPS_MAX + 1);
        let error = Dialogue::parse(&format!("{steps}[otherwise]\nhang_up = true"), &schemas()).unwrap_err();
        assert!(matches!(error, DialogueError::TooMany { .. }), "{error}");
        let error = Dialogue::parse(&"#".repeat(DIALOGUE_BYTES_MAX + 1), &schemas()).unwrap_err();
        assert!(matches!(error, DialogueError::TooLong { .. }), "{error}");
    }

    #[test]
    fn a_constant_of_a_keys_step_is_checked_with_the_key_filled_in() {
        let text = |people: &str| {
            format!("[otherwise]\nhang_up = true\n[digit.7]\ncall = {{ tool = 'order', arguments = {{ item = {people} }} }}")
        };
        assert!(Dialogue::parse(&text("'{{digit}}'"), &schemas()).is_ok());
        assert!(Dialogue::parse(&text("'x{{digit}}'"), &schemas()).is_err());
    }

    /// Random bytes never break the parser.
    #[test]
    fn no_text_breaks_the_parser() {
        let example = include_str!("../../../../config/dialogue.toml");
        let schemas = schemas();
        for at in (0..example.len()).filter(|at| example.is_char_boundary(*at)).step_by(37) {
            let _ = Dialogue::parse(&example[..at], &schemas);
            let _ = Dialogue::parse(&example[at..], &schemas);
        }
    }

    fn schemas() -> Schemas {
        let tool = |name: &str, parameters: Value| -> Tool {
            serde_json::from_value(json!({ "name": name, "url": "http://127.0.0.1:1/", "parameters": parameters })).unwrap()
        };
        Schemas::compile(&[
            tool(
                "book_table",
                json!({ "type": "object", "properties": { "people": { "type": "integer", "maximum": 12 }, "day": { "type": "string" } } }),
            ),
            tool("send_confirmation", json!({ "type": "object", "required": ["to"] })),
            tool("order", json!({ "type": "object", "properties": { "item": { "type": "string", "pattern": "^[0-9]$" } } })),
        ])
        .unwrap()
    }
}
