//! `[box]`.

use std::path::{Path as FilePath, PathBuf};

use recado_core::policy::Language;
use serde::Deserialize;

use super::MESSAGES_DIRECTORY;
use super::check::Checker;
use super::tree::Path;

/// Who this box is.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ThisBox {
    /// Its name in logs, measures and callbacks.
    pub name: String,
    /// The language that it speaks.
    pub language: Language,
    /// Where it keeps what must survive a power cut; see [`ThisBox::data_dir`].
    pub data_dir: Option<PathBuf>,
    /// Whose box it is. A party is an account and a caller's normalised user: boxes of one account know each other's callers.
    pub account: String,
}

impl Default for ThisBox {
    fn default() -> Self {
        Self { name: "recado".into(), language: Language::default(), data_dir: None, account: "default".into() }
    }
}

impl ThisBox {
    /// Where it keeps what must survive a power cut: as configured, else systemd's `$STATE_DIRECTORY`, else `data` in the
    /// directory that the box was started in.
    pub fn data_dir(&self) -> &FilePath {
        self.data_dir.as_deref().unwrap_or(FilePath::new("data"))
    }

    /// The store's file.
    pub fn store(&self) -> PathBuf {
        self.data_dir().join(STORE_FILE)
    }

    /// The traces' directory.
    pub fn traces(&self) -> PathBuf {
        self.data_dir().join(TRACES_DIRECTORY)
    }

    /// The directory of callers' messages.
    pub fn messages(&self) -> PathBuf {
        self.data_dir().join(MESSAGES_DIRECTORY)
    }

    /// The directory of what servers of `[mcp]` offered when they were last asked.
    pub fn mcp(&self) -> PathBuf {
        self.data_dir().join(MCP_DIRECTORY)
    }

    pub(super) fn check(&self, checker: &mut Checker<'_>) {
        for (key, value) in [("name", &self.name), ("account", &self.account)] {
            let path = Path::of("box").join(key);
            if value.trim().is_empty() {
                checker.error(&path, "it is empty", format!("{key} = \"front-desk\""));
            } else if value.chars().count() > NAME_CHARS_MAX || value.chars().any(char::is_control) {
                let what = format!("a name has at most {NAME_CHARS_MAX} characters and no line breaks");
                checker.error(&path, what, format!("{key} = \"front-desk\""));
            }
        }
        checker.keeps(&Path::of("box.data_dir"), self.data_dir(), "data_dir = \"/var/lib/recado\"");
    }
}

/// It is a label of every measure and stands in every log line.
const NAME_CHARS_MAX: usize = 64;

/// The store's file in the data directory.
pub const STORE_FILE: &str = "recado.db";

/// The traces' directory in the data directory.
pub const TRACES_DIRECTORY: &str = "traces";

/// The directory of what servers offer, in the data directory.
const MCP_DIRECTORY: &str = "mcp";
