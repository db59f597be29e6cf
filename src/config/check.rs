//! What a check has at hand: where each setting stands, and whether it was written at all.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::Path as FilePath;

use super::problem::{Place, Problem, Severity};
use super::tree::{Node, Path, Value};
use super::wording;

/// Collects problems and gives each the place where its setting was written.
pub(super) struct Checker<'a> {
    tree: &'a Node,
    broken: &'a BTreeSet<Path>,
    problems: &'a mut Vec<Problem>,
}

impl<'a> Checker<'a> {
    /// A checker over what was written in `tree`; what is `broken` has been reported before and is left alone.
    pub fn new(tree: &'a Node, broken: &'a BTreeSet<Path>, problems: &'a mut Vec<Problem>) -> Self {
        Self { tree, broken, problems }
    }

    /// The box can't start with this.
    pub fn error(&mut self, path: &Path, what: impl Display, instead: impl Into<String>) {
        self.report(Severity::Error, path, what, instead.into());
    }

    /// Somebody should know this.
    pub fn warning(&mut self, path: &Path, what: impl Display, instead: impl Into<String>) {
        self.report(Severity::Warning, path, what, instead.into());
    }

    /// A number must lie within `range`.
    pub fn within(&mut self, path: &Path, value: u64, range: RangeInclusive<u64>) {
        if !range.contains(&value) {
            let (least, most) = (range.start(), range.end());
            let nearest = value.clamp(*least, *most);
            self.error(path, format!("{value} is outside of {least} to {most}"), format!("{} = {nearest}", path.key()));
        }
    }

    /// A file must be there and must be a file.
    pub fn file_exists(&mut self, path: &Path, file: &FilePath) {
        if !file.is_file() {
            let what = if file.is_dir() { "is a directory" } else { "does not exist" };
            self.error(path, format!("the file {} {what}", file.display()), "the path of a file that recado may read");
        }
    }

    /// Whether a setting was written in any layer.
    pub fn written(&self, path: &Path) -> bool {
        self.tree.at(path).is_some_and(|node| !matches!(node.value, Value::Removed))
    }

    /// Where in the tree the tools that could be read stand, in the order of the typed ones.
    pub fn tools(&self) -> Vec<Path> {
        let list = Path::of("tools");
        match self.tree.at(&list).map(|node| &node.value) {
            Some(Value::List(items)) => {
                let read = items.iter().enumerate().filter(|(_, node)| !matches!(node.value, Value::Removed));
                read.map(|(index, _)| list.join(index)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Where a setting, or the nearest thing around it that was written, stands.
    pub fn place(&self, path: &Path) -> Place {
        let around = std::iter::successors(Some(path.clone()), |path| (!path.keys().is_empty()).then(|| path.parent()));
        let mut nodes = around.map(|path| self.tree.at(&path).map(|node| (node, path)));
        match nodes.find_map(|found| found) {
            Some((node, found)) if found == *path && !matches!(node.value, Value::Table(_)) => node.place.clone(),
            Some((node, _)) => node.key_place.clone(),
            None => self.tree.place.clone(),
        }
    }

    fn report(&mut self, severity: Severity, path: &Path, what: impl Display, instead: String) {
        let reported = self.broken.iter().any(|broken| broken.contains(path) || path.contains(broken));
        if !reported {
            let what = format!("{}: {what}", wording::name_of(path, self.tree));
            self.problems.push(Problem { place: self.place(path), severity, what, instead });
        }
    }
}
