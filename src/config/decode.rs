//! From the tree to typed settings, through serde. Errors keep their parts and the way to the setting that they are about.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer, StrDeserializer};
use serde::de::{self, DeserializeSeed, Deserializer, Expected, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;

use super::tree::{Node, Path, Value};

/// Why a tree is not a configuration.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DecodeError {
    /// The setting.
    pub path: Path,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What can be wrong with a setting.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fault {
    /// There is no such setting here.
    UnknownField { expected: &'static [&'static str] },
    /// A word that is none of those that stand to choice.
    UnknownVariant { found: String, expected: &'static [&'static str] },
    /// A value of another type, or outside of its type's range.
    Mistyped { found: String, expected: String },
    /// A setting that must be there. The path is that of what lacks it.
    Missing { field: &'static str },
    /// A type of our own refused the value and says why.
    Refused(String),
}

impl DecodeError {
    fn of(fault: Fault) -> Self {
        Self { path: Path::default(), fault }
    }

    fn within(self, key: impl ToString) -> Self {
        Self { path: self.path.within(key), fault: self.fault }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.path, self.fault)
    }
}

impl std::error::Error for DecodeError {}

impl de::Error for DecodeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::of(Fault::Refused(message.to_string()))
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::of(Fault::Mistyped { found: found.to_string(), expected: expected.to_string() })
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::of(Fault::UnknownVariant { found: variant.to_owned(), expected })
    }

    fn unknown_field(_: &str, expected: &'static [&'static str]) -> Self {
        Self::of(Fault::UnknownField { expected })
    }

    fn missing_field(field: &'static str) -> Self {
        Self::of(Fault::Missing { field })
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match &self.value {
            Value::Text(text) => visitor.visit_borrowed_str(text),
            Value::Loose(text) => match text.parse::<i64>() {
                Ok(number) => visitor.visit_i64(number),
                Err(_) => match text.parse() {
                    Ok(boolean) => visitor.visit_bool(boolean),
                    Err(_) => visitor.visit_borrowed_str(text),
                },
            },
            Value::Integer(number) => visitor.visit_i64(*number),
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Boolean(boolean) => visitor.visit_bool(*boolean),
            Value::List(items) => SeqAccessDeserializer::new(Items { items: items.iter().enumerate() }).deserialize_any(visitor),
            Value::Table(entries) => {
                MapAccessDeserializer::new(Entries { entries: entries.iter(), current: None }).deserialize_any(visitor)
            }
            Value::Removed => visitor.visit_unit(),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match &self.value {
            Value::Loose(text) => visitor.visit_borrowed_str(text),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        match self.text() {
            Some(text) => {
                let word: StrDeserializer<'_, DecodeError> = text.into_deserializer();
                word.deserialize_enum(name, variants, visitor)
            }
            None => self.deserialize_any(Word { variants }).map(|never| match never {}),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier
        ignored_any
    }
}

impl<'de> IntoDeserializer<'de, DecodeError> for &'de Node {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// Refuses whatever stands where one of a few words must.
struct Word {
    variants: &'static [&'static str],
}

impl Visitor<'_> for Word {
    type Value = std::convert::Infallible;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.variants.iter().map(|word| format!("{word:?}")).collect();
        f.write_str(&words.join(" or "))
    }
}

struct Entries<'de> {
    entries: std::collections::btree_map::Iter<'de, String, Node>,
    current: Option<(&'de str, &'de Node)>,
}

impl<'de> de::MapAccess<'de> for Entries<'de> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DecodeError> {
        self.current =
            self.entries.by_ref().map(|(key, node)| (key.as_str(), node)).find(|(_, node)| !matches!(node.value, Value::Removed));
        match self.current {
            Some((key, _)) => {
                let word: StrDeserializer<'_, DecodeError> = key.into_deserializer();
                seed.deserialize(word).map(Some).map_err(|error| error.within(key))
            }
            None => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, DecodeError> {
        match self.current.take() {
            Some((key, node)) => seed.deserialize(node).map_err(|error| error.within(key)),
            None => Err(de::Error::custom("a value was asked for before its key")),
        }
    }
}

struct Items<'de> {
    items: std::iter::Enumerate<std::slice::Iter<'de, Node>>,
}

impl<'de> de::SeqAccess<'de> for Items<'de> {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, DecodeError> {
        match self.items.by_ref().find(|(_, node)| !matches!(node.value, Value::Removed)) {
            Some((index, node)) => seed.deserialize(node).map(Some).map_err(|error| error.within(index)),
            None => Ok(None),
        }
    }
}
