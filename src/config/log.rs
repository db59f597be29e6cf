//! `[log]`.

use serde::Deserialize;
use tracing_subscriber::filter::Targets;

use super::check::Checker;
use super::tree::Path;

/// What is written to stderr.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// How a line looks.
    pub format: LogFormat,
    /// What is written: a level, and others for parts of the house, as in `info,recado::surface::sip=debug`. What servers of the Model Context
    /// Protocol send is written only where `rmcp` is named: it may be anybody's.
    pub level: String,
}

/// How a log line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Human,
    /// One JSON object a line, for machines.
    Json,
}

impl Default for Log {
    fn default() -> Self {
        Self { format: LogFormat::Human, level: "info".into() }
    }
}

impl Log {
    pub(super) fn check(&self, checker: &mut Checker<'_>) {
        let levels_known = self.level.split(',').all(|part| {
            let level = part.split_once('=').map_or(part, |(_, level)| level);
            LEVELS.contains(&level.trim().to_lowercase().as_str())
        });
        if !levels_known || self.level.parse::<Targets>().is_err() {
            let what = format!("{:?} is not a level ({})", self.level, LEVELS.join(", "));
            checker.error(&Path::of("log.level"), what, "level = \"info,recado::surface::sip=debug\"");
        }
    }
}

/// Most quiet first. A target without a level would show everything of it, which nobody means.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
