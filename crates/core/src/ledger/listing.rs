//! What runs for a party, or waits to be told to it, as a caller and a model may know it: that it is there, never what came of it. And what a
//! tool is asked to do, in words.

use serde_json::{Map, Value};

use super::batch::Batch;
use super::effect::{Effect, News, WorkItem, WorkState};
use super::input::Standing;
use super::machine::Ledger;
use super::record::{OperationRecord, OperationState};
use super::say::{Sayer, clean};
use super::work::Ask;
use crate::ids::SessionId;
use crate::policy::{Audience, Language, ToolPolicy};
use crate::time::Step;

impl Ledger {
    /// Tells a conversation what of its party's runs, or waits to be told. Unasked, nothing is told where there is nothing.
    pub(super) fn list_work(&self, session: SessionId, asked: bool, step: &Step, effects: &mut Vec<Effect>) {
        let Some(listener) = self.world.sessions.get(&session) else { return };
        let theirs = |batch: &&Batch| batch.record.session == session || (listener.party.is_some() && batch.record.party == listener.party);
        let mut work: Vec<WorkItem> = Vec::new();
        for batch in self.lanes.values().filter_map(|lane| lane.batch.as_ref()).filter(theirs) {
            let standing = batch.standing().0;
            for operation in &batch.operations {
                let record = &operation.record;
                let policy = self.world.policy(&record.tool);
                let here = policy.audience != Audience::SameCall || record.session == session;
                if let Some(state) = state(record, standing).filter(|_| here) {
                    work.push(item(policy, record, state, listener.language, step));
                }
            }
        }
        work.drain(..work.len().saturating_sub(WORK_MAX));
        if asked || !work.is_empty() {
            self.emit(Effect::Tell { session, news: News::Work { asked, work } }, effects);
        }
    }

    /// Whether the caller has consented to what is asked for.
    pub(super) fn consented(&mut self, ask: &Ask) -> bool {
        let listener = self.world.sessions.get_mut(&ask.session);
        listener.is_some_and(|listener| listener.consents.given(&ask.call, ask.turn))
    }

    /// What is asked for is read back to the caller; nothing is done.
    pub(super) fn read_back(&mut self, ask: &Ask, effects: &mut Vec<Effect>) {
        let Some(listener) = self.world.sessions.get_mut(&ask.session) else { return };
        let read_back = listener.consents.ask(&ask.call, ask.response);
        let policy = self.world.policy(&ask.call.tool);
        let say = self.world.sayer.read_back(policy, &ask.call.tool, &ask.call.arguments, ask.language);
        let news = News::ReadBack { call_id: ask.call.call_id.clone(), response: ask.response, read_back, say };
        self.emit(Effect::Tell { session: ask.session, news }, effects);
    }

    /// Something has become of a read-back of this conversation.
    pub(super) fn consents(&mut self, session: SessionId, become_of_it: impl FnOnce(&mut super::consent::Consents)) {
        if let Some(listener) = self.world.sessions.get_mut(&session) {
            become_of_it(&mut listener.consents);
        }
    }
}

/// How an operation stands, whose batch stands so; none where it is over.
fn state(record: &OperationRecord, batch: Standing) -> Option<WorkState> {
    match (record.state, batch) {
        (_, Standing::Told) => None,
        (OperationState::Cancelling, _) => Some(WorkState::Cancelling),
        (OperationState::RetryWait, _) => Some(WorkState::Waiting),
        (state, _) if !state.settled() => Some(WorkState::Running),
        (_, Standing::Running) => Some(WorkState::Ended),
        (_, Standing::AboutToBeTold) => Some(WorkState::AboutToBeTold),
    }
}

fn item(policy: &ToolPolicy, record: &OperationRecord, state: WorkState, language: Language, step: &Step) -> WorkItem {
    let what = about(policy, &record.tool, &record.arguments, language);
    WorkItem {
        operation: record.id,
        tool: record.tool.clone(),
        arguments: shown(policy, &record.arguments),
        age_ms: step.wall.age_ms(record.accepted),
        state,
        audience: policy.audience,
        say: format!("{what}: {}.", state_words(state, language)),
    }
}

/// The arguments that may be shown, each as it is.
fn shown(policy: &ToolPolicy, arguments: &Value) -> Value {
    let Value::Object(fields) = without_private(arguments, "", &policy.private_fields) else { return Value::Object(Map::new()) };
    Value::Object(fields.into_iter().filter(|(_, value)| !value.is_null()).take(FIELDS_MAX).collect())
}

/// What is left of a value at this path when what is private is taken out of it.
fn without_private(value: &Value, path: &str, private: &[String]) -> Value {
    match value {
        Value::Object(fields) => {
            let under = |name: &String| if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let left = fields.iter().map(|(name, value)| (name, value, under(name))).filter(|(_, _, at)| !private.contains(at));
            Value::Object(left.map(|(name, value, at)| (name.clone(), without_private(value, &at, private))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(|item| without_private(item, path, private)).collect()),
        other => other.clone(),
    }
}

/// What a tool does or is to do, in few words: what its author says of it, and its arguments as far as they may be said.
fn about(policy: &ToolPolicy, tool: &str, arguments: &Value, language: Language) -> String {
    in_words(policy, tool, &shown(policy, arguments), language, VALUE_CHARS_MAX)
}

/// What a tool is to do, with all that it would be done with, but for what is private.
pub(super) fn whole(policy: &ToolPolicy, tool: &str, arguments: &Value, language: Language) -> String {
    in_words(policy, tool, &without_private(arguments, "", &policy.private_fields), language, usize::MAX)
}

fn in_words(policy: &ToolPolicy, tool: &str, arguments: &Value, language: Language, chars_max: usize) -> String {
    let what = clean(&policy.description);
    let what = what.trim_end_matches(['.', '…', ' ']);
    let what = if what.is_empty() { plain(tool) } else { what.to_owned() };
    match spoken(arguments, language, chars_max) {
        Some(said) => format!("{what}, {said}"),
        None => what,
    }
}

fn plain(name: &str) -> String {
    name.replace(['_', '-'], " ")
}

/// A value as it can be said.
fn spoken(value: &Value, language: Language, chars_max: usize) -> Option<String> {
    let all = |said: Vec<String>| (!said.is_empty()).then(|| said.join(", "));
    match value {
        Value::String(text) => Some(clean(text).chars().take(chars_max).collect()).filter(|text: &String| !text.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(yes) => Some(yes_or_no(*yes, language).to_owned()),
        Value::Null => None,
        Value::Array(items) => all(items.iter().filter_map(|item| spoken(item, language, chars_max)).collect()),
        Value::Object(fields) => {
            let said = |(name, value): (&String, &Value)| Some(format!("{} {}", plain(name), spoken(value, language, chars_max)?));
            all(fields.iter().filter_map(said).collect())
        }
    }
}

fn yes_or_no(yes: bool, language: Language) -> &'static str {
    match (yes, language) {
        (true, Language::Es) => "sí",
        (true, Language::En) => "yes",
        (false, _) => "no",
    }
}

/// The read-back where its tool has no words of its own for it.
pub(super) fn plain_read_back(what: &str, language: Language) -> String {
    match language {
        Language::Es => format!("Voy a hacer esto: {what}. ¿Lo hago?"),
        Language::En => format!("I am going to do this: {what}. Shall I?"),
    }
}

fn state_words(state: WorkState, language: Language) -> &'static str {
    match (state, language) {
        (WorkState::Running, Language::Es) => "en marcha",
        (WorkState::Running, Language::En) => "under way",
        (WorkState::Waiting, Language::Es) => "a la espera de otro intento",
        (WorkState::Waiting, Language::En) => "waiting for another try",
        (WorkState::Cancelling, Language::Es) => "se está cancelando",
        (WorkState::Cancelling, Language::En) => "being cancelled",
        (WorkState::Ended, Language::Es) => "ha terminado, y te cuento cómo ha ido cuando acabe el resto",
        (WorkState::Ended, Language::En) => "it has ended, and I'll tell you how it went when the rest has",
        (WorkState::AboutToBeTold, Language::Es) => "ha terminado, y ahora te cuento cómo ha ido",
        (WorkState::AboutToBeTold, Language::En) => "it has ended, and I'm about to tell you how it went",
    }
}

/// What the caller hears of what runs for them, each operation in its own words.
pub fn say_work<'a>(items: impl Iterator<Item = &'a WorkItem>, language: Language) -> String {
    let said: Vec<&str> = items.map(|item| item.say.as_str()).take(SAID_MAX).collect();
    match (said.is_empty(), language) {
        (true, Language::Es) => "No tengo nada en marcha ni nada pendiente de contarte.".to_owned(),
        (true, Language::En) => "I have nothing under way, and nothing left to tell you.".to_owned(),
        (false, Language::Es) => format!("Esto es lo que tengo. {}", said.join(" ")),
        (false, Language::En) => format!("This is what I have. {}", said.join(" ")),
    }
}

/// What the caller hears who wants what they were told last once more, or who was told nothing yet.
pub fn say_again(told: Option<&str>, language: Language) -> String {
    match (told, language) {
        (Some(told), Language::Es) => format!("Te lo repito: {told}"),
        (Some(told), Language::En) => format!("Once more: {told}"),
        (None, Language::Es) => "En esta llamada todavía no te he contado ningún resultado.".to_owned(),
        (None, Language::En) => "I haven't told you any result in this call yet.".to_owned(),
    }
}

/// What the caller hears where there is nothing of what they want cancelled.
pub fn say_nothing_to_cancel(language: Language) -> String {
    Sayer::new().cancelling(false, false, false, language)
}

/// Operations that are told of at once, the latest ones: more than anybody can keep apart.
const WORK_MAX: usize = 16;
/// So many are said: more than that nobody listens to.
const SAID_MAX: usize = 5;
/// Arguments of an operation that are shown.
const FIELDS_MAX: usize = 12;
/// A longer text says nothing more about which operation it is (letters).
const VALUE_CHARS_MAX: usize = 120;
