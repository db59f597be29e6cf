//! The lines of a trace.
//!
//! | line | holds |
//! | --- | --- |
//! | first | [`Header`]: format, code version, whose trace it is, what it began with |
//! | each further one | [`Entry`]: one input, when it came, and what came of it |
//! | `{"missed":n}` | so many inputs were not written: a replay ends here |
//! | `{"truncated":true}` | the trace is as long as it may be: nothing follows |
//! | `{"end":true}` | the conversation was over, or the box stopped |

use recado_core::conversation::Clocks;
use recado_core::ids::BootId;
use recado_core::time::{Step, Time, Wall};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::fact::Fact;
use crate::subject::SubjectKind;

/// The format that this code writes, and the newest that it reads.
pub const FORMAT: u32 = 1;

/// What of people's words is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// None of them.
    #[default]
    Redacted,
    /// All of them.
    Full,
}

/// The first line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The format; see [`FORMAT`].
    pub recado_trace: u32,
    /// What it is a trace of.
    pub of: SubjectKind,
    /// The version of the code that wrote it.
    pub version: String,
    /// The life of the process that wrote it. Times of one boot can be compared.
    pub boot: BootId,
    /// A long trace is cut into parts, counted from 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub part: u32,
    /// What of people's words it holds.
    pub mode: Mode,
    /// When it begins.
    #[serde(rename = "t")]
    pub now: Time,
    /// The same by the wall clock.
    pub wall: Wall,
    /// What its beginning was handled with; none in further parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin: Option<Begin>,
}

/// How the machine began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Begin {
    /// What its identifiers grew from.
    #[serde(rename = "s")]
    pub seed: Seed,
    /// What it began with.
    pub start: Value,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// One input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// When it was handled.
    #[serde(rename = "t")]
    pub now: Time,
    /// How far the wall clock is from where the header's clocks say that it should be (ms).
    #[serde(rename = "w", default, skip_serializing_if = "is_zero_ms")]
    pub wall_drift_ms: i64,
    /// Whether the wall clock has been, or is no longer, synchronised since the header.
    #[serde(rename = "y", default, skip_serializing_if = "is_false")]
    pub synchronised_otherwise: bool,
    /// What its identifiers grew from; none where it drew none.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<Seed>,
    /// The input.
    #[serde(rename = "i")]
    pub input: Value,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What came of an input.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// The digest of its effects; empty where there are none.
    #[serde(rename = "d", default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// The kinds of its effects, in order.
    #[serde(rename = "k", default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
    /// What of them is written in clear.
    #[serde(rename = "f", default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<Fact>,
    /// When it wants to be woken from now on, where that has changed.
    #[serde(rename = "z", default, with = "changed", skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Option<Time>>,
    /// What the clocks show from now on, where that has changed.
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub clocks: Option<Clocks>,
}

/// A line that is no input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// So many inputs were not written.
    Missed(u64),
    /// The trace is as long as it may be.
    Truncated(bool),
    /// The machine's life is over.
    End(bool),
}

/// What comes with an input, as it is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Monotonic time.
    pub now: Time,
    /// The wall clock.
    pub wall: Wall,
    /// What its identifiers grow from; none where it drew none.
    pub seed: Option<Seed>,
}

impl Moment {
    /// The moment of `step`, before it is handled.
    pub fn of(step: &Step) -> Self {
        Self { now: step.now, wall: step.wall, seed: Some(Seed(step.ids.seed())) }
    }

    /// The same, once `step` has been handled: a seed that nothing was drawn from need not be known.
    #[must_use]
    pub fn handled(self, step: &Step) -> Self {
        Self { seed: self.seed.filter(|seed| seed.0 != step.ids.seed()), ..self }
    }
}

/// The seed of a step's identifiers, written as 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub u128);

impl Serialize for Seed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{:032x}", self.0))
    }
}

impl<'de> Deserialize<'de> for Seed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        u128::from_str_radix(&text, 16).map(Self).map_err(serde::de::Error::custom)
    }
}

/// What has changed, and may have changed to nothing: `null` is not the same as nothing written.
mod changed {
    use super::{Deserialize, Deserializer, Serialize, Serializer, Time};

    pub fn serialize<S: Serializer>(value: &Option<Option<Time>>, serializer: S) -> Result<S::Ok, S::Error> {
        value.flatten().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<Time>>, D::Error> {
        Option::<Time>::deserialize(deserializer).map(Some)
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_zero_ms(ms: &i64) -> bool {
    *ms == 0
}

fn is_false(flag: &bool) -> bool {
    !flag
}
