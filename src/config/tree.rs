//! What was written, before it has types: values that know where they stand, merged over the layers.

use std::collections::BTreeMap;
use std::fmt;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::Place;
use super::source::Source;

/// The way to a setting: `sip.listen` is `["sip", "listen"]`, the second tool's URL `["tools", "1", "url"]`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct Path(Vec<String>);

impl Path {
    /// The path whose keys are separated by dots in `dotted`.
    pub fn of(dotted: &str) -> Self {
        Self(dotted.split('.').map(str::to_owned).collect())
    }

    /// This path, one key further.
    pub fn join(&self, key: impl ToString) -> Self {
        let mut keys = self.0.clone();
        keys.push(key.to_string());
        Self(keys)
    }

    /// This path under `key`.
    pub fn within(mut self, key: impl ToString) -> Self {
        self.0.insert(0, key.to_string());
        self
    }

    /// The last key; empty at the root.
    pub fn key(&self) -> &str {
        self.0.last().map_or("", String::as_str)
    }

    /// What this path is in; the root is in itself.
    pub fn parent(&self) -> Self {
        Self(self.0.split_last().map(|(_, front)| front.to_vec()).unwrap_or_default())
    }

    /// Whether `inner` is this setting or in it.
    pub fn contains(&self, inner: &Path) -> bool {
        inner.0.starts_with(&self.0)
    }

    /// The last key that is a word: that of the list for something in it.
    pub fn word(&self) -> &str {
        self.0.iter().rev().find(|key| !is_index(key)).map_or("", String::as_str)
    }

    /// Its keys, the outermost first.
    pub fn keys(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub value: Value,
    /// Where the value stands.
    pub place: Place,
    /// Where its key stands, which for a table is its header.
    pub key_place: Place,
}

/// A value without its type of our own.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Text(String),
    /// From the environment or a flag, where nobody writes quotes: its type is the one that its setting expects.
    Loose(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    List(Vec<Node>),
    Table(BTreeMap<String, Node>),
    /// A value that has been reported and taken out; it stays so that its neighbours in a list keep their numbers.
    Removed,
}

impl Node {
    /// An empty table, to merge the layers into.
    pub fn root(place: Place) -> Self {
        Self { value: Value::Table(BTreeMap::new()), key_place: place.clone(), place }
    }

    /// The tree of a parsed document.
    pub fn of_toml(document: &Spanned<DeTable<'_>>, source: &Source) -> Self {
        let place = source.place(document.span().start);
        Self { value: table_of(document.get_ref(), source), key_place: place.clone(), place }
    }

    /// A single setting of an outer layer, such as `sip.calls_max` with `4`.
    pub fn of_setting(path: &Path, text: &str, place: Place) -> Self {
        let leaf = Self::of_inline(text, &place).unwrap_or_else(|| Self {
            value: Value::Loose(text.to_owned()),
            key_place: place.clone(),
            place: place.clone(),
        });
        path.keys().iter().rev().fold(leaf, |inner, key| Self {
            value: Value::Table(BTreeMap::from([(key.clone(), inner)])),
            key_place: place.clone(),
            place: place.clone(),
        })
    }

    /// A list or a table in the notation of TOML; none where the text is something else, such as `[::1]:5060`.
    fn of_inline(text: &str, place: &Place) -> Option<Self> {
        let parsed = DeValue::parse(text).ok()?;
        matches!(parsed.get_ref(), DeValue::Array(_) | DeValue::Table(_)).then(|| {
            let mut node =
                Self { value: value_of(parsed.get_ref(), &Source::unnamed(text)), key_place: place.clone(), place: place.clone() };
            node.stand_at(place);
            node
        })
    }

    /// `key` with this value, as it would stand in a file.
    pub fn line(&self, key: &str) -> String {
        match &self.value {
            Value::Text(text) | Value::Loose(text) => format!("{key} = {text:?}"),
            Value::Integer(number) => format!("{key} = {number}"),
            Value::Float(number) => format!("{key} = {number}"),
            Value::Boolean(boolean) => format!("{key} = {boolean}"),
            Value::List(_) => format!("{key} = […]"),
            Value::Table(_) | Value::Removed => format!("[{key}]"),
        }
    }

    /// Lays `over` over this: tables key by key, `[[tools]]` one after the other, everything else whole.
    pub fn overlay(&mut self, over: Node) {
        self.overlay_at(over, 0);
    }

    /// What stands at `path`.
    pub fn at(&self, path: &Path) -> Option<&Node> {
        path.keys().iter().try_fold(self, |node, key| match &node.value {
            Value::Table(entries) => entries.get(key),
            Value::List(items) => items.get(key.parse::<usize>().ok()?),
            _ => None,
        })
    }

    /// What stands at `path`, to be changed.
    pub fn at_mut(&mut self, path: &Path) -> Option<&mut Node> {
        path.keys().iter().try_fold(self, |node, key| match &mut node.value {
            Value::Table(entries) => entries.get_mut(key),
            Value::List(items) => items.get_mut(key.parse::<usize>().ok()?),
            _ => None,
        })
    }

    /// The text that stands here.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) | Value::Loose(text) => Some(text),
            _ => None,
        }
    }

    fn overlay_at(&mut self, over: Node, depth: usize) {
        match (&mut self.value, over.value) {
            (Value::Table(below), Value::Table(above)) => {
                for (key, node) in above {
                    match below.get_mut(&key) {
                        Some(Node { value: Value::List(tools), .. }) if depth == 0 && key == TOOLS => match node.value {
                            Value::List(further) => tools.extend(further),
                            _ => drop(below.insert(key, node)),
                        },
                        Some(existing) => existing.overlay_at(node, depth + 1),
                        None => drop(below.insert(key, node)),
                    }
                }
            }
            (below, above) => {
                *below = above;
                self.place = over.place;
                self.key_place = over.key_place;
            }
        }
    }

    fn stand_at(&mut self, place: &Place) {
        self.place = place.clone();
        self.key_place = place.clone();
        match &mut self.value {
            Value::List(items) => items.iter_mut().for_each(|item| item.stand_at(place)),
            Value::Table(entries) => entries.values_mut().for_each(|entry| entry.stand_at(place)),
            _ => {}
        }
    }
}

fn table_of(table: &DeTable<'_>, source: &Source) -> Value {
    Value::Table(
        table
            .iter()
            .map(|(key, value)| {
                let node = Node {
                    value: value_of(value.get_ref(), source),
                    place: source.place(value.span().start),
                    key_place: source.place(key.span().start),
                };
                (key.get_ref().to_string(), node)
            })
            .collect(),
    )
}

fn value_of(value: &DeValue<'_>, source: &Source) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        // A number too large for its type is left as it was written: whatever reads it says what is wrong with it.
        DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(number) => Value::Integer(number),
            Err(_) => Value::Loose(integer.as_str().to_owned()),
        },
        DeValue::Float(float) => match float.as_str().parse() {
            Ok(number) => Value::Float(number),
            Err(_) => Value::Text(float.as_str().to_owned()),
        },
        DeValue::Boolean(boolean) => Value::Boolean(*boolean),
        DeValue::Datetime(date) => Value::Text(date.to_string()),
        DeValue::Array(items) => Value::List(
            items
                .iter()
                .map(|item| {
                    let place = source.place(item.span().start);
                    Node { value: value_of(item.get_ref(), source), key_place: place.clone(), place }
                })
                .collect(),
        ),
        DeValue::Table(table) => table_of(table, source),
    }
}

/// Whether a key is a place in a list.
pub(super) fn is_index(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_digit())
}

/// The one list that layers add to: a tool may come in a file of its own.
pub(super) const TOOLS: &str = "tools";
