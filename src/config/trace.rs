//! `[trace]`.

use serde::Deserialize;

use super::check::Checker;
use super::tree::Path;

/// What is written of what was decided, and why.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Trace {
    /// What of people's words is in it.
    pub mode: TraceMode,
    /// Traces that are kept; the oldest are removed.
    pub files_max: u64,
    /// All of them together (bytes); the oldest are removed.
    pub bytes_max: u64,
    /// One of them (bytes): a conversation's ends there, the ledger's goes on in a further file.
    pub file_bytes_max: u64,
}

/// What of people's words is in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TraceMode {
    /// None: letters and digits are replaced, parties have pseudonyms.
    #[default]
    Redacted,
    /// All.
    Full,
    /// There are no traces.
    Off,
}

impl Default for Trace {
    fn default() -> Self {
        Self { mode: TraceMode::Redacted, files_max: 1_000, bytes_max: 64 << 20, file_bytes_max: 4 << 20 }
    }
}

impl Trace {
    pub(super) fn check(&self, checker: &mut Checker<'_>) {
        let table = Path::of("trace");
        checker.within(&table.join("files_max"), self.files_max, 2..=FILES_MAX);
        checker.within(&table.join("file_bytes_max"), self.file_bytes_max, FILE_BYTES_MIN..=FILE_BYTES_MAX);
        // The file that is being written, and the ledger's, must fit.
        checker.within(&table.join("bytes_max"), self.bytes_max, self.file_bytes_max.clamp(FILE_BYTES_MIN, FILE_BYTES_MAX) * 4..=BYTES_MAX);
    }
}

/// A directory with more is slow on a memory card.
const FILES_MAX: u64 = 100_000;

/// A call of a few minutes fits.
const FILE_BYTES_MIN: u64 = 64 << 10;

/// What is read back whole.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// A terabyte: beyond it, it is a mistake.
const BYTES_MAX: u64 = 1 << 40;
