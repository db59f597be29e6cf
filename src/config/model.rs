//! `[model]`.

use std::path::PathBuf;

use serde::Deserialize;

use super::check::Checker;
use super::tree::Path;

/// What leads the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Model {
    /// Which kind of model.
    pub kind: ModelKind,
    /// The scripted model's dialogue; a relative path starts from the configuration file.
    pub dialogue: PathBuf,
}

/// The kinds of model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelKind {
    /// Follows a dialogue that was written beforehand; needs no network.
    #[default]
    Scripted,
}

impl Default for Model {
    fn default() -> Self {
        Self { kind: ModelKind::Scripted, dialogue: "dialogue.toml".into() }
    }
}

impl Model {
    pub(super) fn check(&self, checker: &mut Checker<'_>) {
        match self.kind {
            ModelKind::Scripted => checker.file_exists(&Path::of("model.dialogue"), &self.dialogue),
        }
    }
}
