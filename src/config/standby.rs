//! `[standby]` and `[messages]`.

use std::path::PathBuf;

use recado_core::policy::Localised;
use serde::Deserialize;

use super::check::Checker;
use super::tree::Path;

/// What answers while the service that leads calls is away.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Standby {
    /// Whether anything does.
    pub enabled: bool,
    /// The dialogue that is followed; a relative path starts from the configuration file. The box's own, which takes a message, where
    /// none is given.
    pub dialogue: Option<PathBuf>,
    /// How long a service that is being connected to is waited for, from a response being asked for (ms).
    pub takeover_ms: u64,
    /// How long a service that is connected may say nothing, from a response being asked for or from what last came of it (ms).
    pub silent_ms: u64,
    /// What the caller is told before the dialogue first speaks in a call.
    pub say_away: Localised,
    /// What the caller is told where the service was lost while it spoke.
    pub say_lost: Localised,
    /// Whether the service is connected to at the start, and from time to time while it is away, to know whether it can be.
    pub watch: bool,
}

/// Where messages of callers are kept: in `DATA_DIR/messages`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Messages {
    /// How many there may be.
    pub files_max: u64,
    /// How large they may be, all together.
    pub bytes_max: u64,
}

impl Default for Standby {
    fn default() -> Self {
        Self {
            enabled: true,
            dialogue: None,
            takeover_ms: 1_500,
            silent_ms: 4_000,
            say_away: Localised {
                es: Some("Ahora mismo el asistente no puede atenderle.".into()),
                en: Some("The assistant can't answer just now.".into()),
            },
            say_lost: Localised {
                es: Some("Se ha cortado la línea con el asistente.".into()),
                en: Some("I have lost the line to the assistant.".into()),
            },
            watch: true,
        }
    }
}

impl Default for Messages {
    fn default() -> Self {
        Self { files_max: 200, bytes_max: 256 << 20 }
    }
}

impl Standby {
    pub(super) fn check(&self, checker: &mut Checker<'_>) {
        let table = Path::of("standby");
        if let (true, Some(dialogue)) = (self.enabled, &self.dialogue) {
            checker.file_exists(&table.join("dialogue"), dialogue);
        }
        checker.within(&table.join("takeover_ms"), self.takeover_ms, TAKEOVER_MS_LEAST..=SILENT_MS_MOST);
        checker.within(&table.join("silent_ms"), self.silent_ms, SILENT_MS_LEAST..=SILENT_MS_MOST);
    }
}

impl Messages {
    pub(super) fn check(&self, checker: &mut Checker<'_>) {
        let table = Path::of("messages");
        checker.within(&table.join("files_max"), self.files_max, 1..=FILES_MOST);
        checker.within(&table.join("bytes_max"), self.bytes_max, BYTES_LEAST..=BYTES_MOST);
    }
}

/// The messages' directory in the data directory.
pub const MESSAGES_DIRECTORY: &str = "messages";

/// Below, no service is connected to in time.
const TAKEOVER_MS_LEAST: u64 = 200;
/// Below, a service that thinks is taken for one that is away.
const SILENT_MS_LEAST: u64 = 1_000;
/// A little less than a conversation waits (ms): a response that has not begun after five seconds has failed.
pub const SILENT_MS_MOST: u64 = 4_500;
/// Whoever listens to them looks through them.
const FILES_MOST: u64 = 10_000;
/// A message of a minute.
const BYTES_LEAST: u64 = 1 << 20;
/// More is a disk of its own.
const BYTES_MOST: u64 = 1 << 36;
