//! Reading a trace back, whatever has become of it: cut short by a power cut, full, damaged, foreign, or of a newer version.

use recado_core::time::Wall;
use serde_json::Value;

use crate::line::{Entry, FORMAT, Header, Mark};
use crate::record::expected;
use crate::subject::SubjectKind;

/// Why a text can't be read as a trace. Each says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// There is nothing in it: a box that was stopped at once leaves such a file. It can be removed.
    #[error("it is empty: nothing had been written when the box stopped; it can be removed")]
    Empty,
    /// It is some other file.
    #[error("this is no trace of recado: its first line does not say recado_trace")]
    Foreign,
    /// It was written in a format that this code does not know.
    #[error("it is in format {format}, and this version of recado reads up to {FORMAT}: use the version that wrote it, or a later one")]
    Newer {
        /// The format.
        format: u64,
    },
    /// A line in its middle is damaged.
    #[error("line {line} is damaged ({reason}): take another copy of the file, or cut it before that line")]
    Damaged {
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
}

/// A trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// Its first line.
    pub header: Header,
    /// Its inputs, in order.
    pub entries: Vec<Entry>,
    /// Where inputs are missing: so many, before the entry of this index.
    pub missed: Vec<(usize, u64)>,
    /// How it ends.
    pub ends: Ends,
    /// The part that its end is in.
    last_part: u32,
}

/// How a trace ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// With the end of the machine's life.
    Whole,
    /// It had become as long as it may be.
    Truncated,
    /// In the middle: the call is still up, or the box ended without a word.
    Open,
    /// In the middle of a line: the power was cut, or the line is being written.
    Torn,
}

impl Trace {
    /// Reads a trace.
    ///
    /// # Errors
    /// When it is no trace, one of a newer version, or damaged. An incomplete last line is no error.
    pub fn read(text: &str) -> Result<Self, TraceError> {
        // What a power cut leaves at the end of a file may be zeroes.
        let text = text.trim_end_matches('\0');
        if text.trim().is_empty() {
            return Err(TraceError::Empty);
        }
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        let header = header(first)?;
        let last_part = header.part;
        let mut trace = Self { header, entries: Vec::new(), missed: Vec::new(), ends: Ends::Open, last_part };
        for (at, line) in rest.split_inclusive('\n').enumerate() {
            match (parse(line), line.ends_with('\n')) {
                (Ok(Line::Entry(entry)), _) => trace.entries.push(*entry),
                (Ok(Line::Mark(Mark::Missed(missed))), _) => trace.missed.push((trace.entries.len(), missed)),
                (Ok(Line::Mark(Mark::Truncated(_))), _) => trace.ends = Ends::Truncated,
                (Ok(Line::Mark(Mark::End(_))), _) => trace.ends = Ends::Whole,
                (Err(_), false) => trace.ends = Ends::Torn,
                (Err(reason), true) => return Err(TraceError::Damaged { line: at + 2, reason }),
            }
        }
        Ok(trace)
    }

    /// Whether `next` is the next part of the same trace.
    pub fn is_followed_by(&self, next: &Self) -> bool {
        let (ours, theirs) = (&self.header, &next.header);
        theirs.of == SubjectKind::Ledger && ours.of == theirs.of && ours.boot == theirs.boot && theirs.part == self.last_part + 1
    }

    /// Puts the next part behind this one.
    pub fn append(&mut self, next: Self) {
        let before = self.entries.len();
        let (ours, theirs) = (self.began(), next.began());
        self.entries.extend(next.entries.into_iter().map(|mut entry| {
            // Drift is counted from the first header.
            let unix_ms = expected(theirs, entry.now).saturating_add(entry.wall_drift_ms);
            entry.wall_drift_ms = unix_ms.saturating_sub(expected(ours, entry.now));
            entry.synchronised_otherwise ^= ours.1.synchronised != theirs.1.synchronised;
            entry
        }));
        self.missed.extend(next.missed.into_iter().map(|(at, missed)| (before + at, missed)));
        self.last_part = next.last_part;
        self.ends = next.ends;
    }

    /// The wall clock at an entry.
    pub fn wall(&self, entry: &Entry) -> Wall {
        let unix_ms = expected(self.began(), entry.now).saturating_add(entry.wall_drift_ms);
        Wall { unix_ms, synchronised: self.header.wall.synchronised != entry.synchronised_otherwise }
    }

    fn began(&self) -> (recado_core::Time, Wall) {
        (self.header.now, self.header.wall)
    }
}

/// The first line of a trace.
///
/// # Errors
/// As for [`Trace::read`].
pub fn header(line: &str) -> Result<Header, TraceError> {
    let value: Value = serde_json::from_str(line).map_err(|_| TraceError::Foreign)?;
    match value.get("recado_trace").and_then(Value::as_u64) {
        None => Err(TraceError::Foreign),
        Some(format) if format > u64::from(FORMAT) => Err(TraceError::Newer { format }),
        Some(_) => serde_json::from_value(value).map_err(|error| TraceError::Damaged { line: 1, reason: error.to_string() }),
    }
}

enum Line {
    Entry(Box<Entry>),
    Mark(Mark),
}

fn parse(line: &str) -> Result<Line, String> {
    let value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let read = if value.get("i").is_some() {
        serde_json::from_value(value).map(|entry| Line::Entry(Box::new(entry)))
    } else {
        serde_json::from_value(value).map(Line::Mark)
    };
    read.map_err(|error| error.to_string())
}
