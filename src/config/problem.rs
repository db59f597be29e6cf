//! What is wrong with a configuration, where it stands, and what to write instead.

use std::fmt;
use std::sync::Arc;

use super::secret::may_hold_secret;

/// Where something stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In a file; line and column count from one.
    File {
        /// The file, as it was named.
        name: Arc<str>,
        /// The line.
        line: usize,
        /// The column, in characters.
        column: usize,
    },
    /// A whole file, such as one that can't be read.
    WholeFile(Arc<str>),
    /// An environment variable.
    Environment(Arc<str>),
    /// A flag of the command line, as far as it may be repeated.
    Flag(Arc<str>),
}

impl Place {
    /// A flag of the command line. Its value is left out where it may be a credential or hold one.
    pub(super) fn of_flag(flag: &str) -> Self {
        let is_of_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        match flag.split_once('=') {
            Some((key, value)) => {
                let is_whole_table = value.contains('{') || !key.contains('.');
                let hides = is_whole_table || value.contains(SCHEME_ENDS) || may_hold_secret(key.split('.'));
                if hides { Self::flag_without_value(key) } else { Self::Flag(flag.into()) }
            }
            // Where the key ends, nobody knows.
            None => match flag.find(|c| !is_of_key(c)) {
                Some(end) => Self::Flag(format!("{}…", flag.split_at(end).0).into()),
                None => Self::Flag(flag.into()),
            },
        }
    }

    /// This place, where what is wrong is not the value that stands there: of a setting that there is not, it may be anything.
    pub(super) fn of_something_else(self) -> Self {
        match &self {
            Self::Flag(flag) => flag.split_once('=').map_or(self.clone(), |(key, _)| Self::flag_without_value(key)),
            _ => self,
        }
    }

    fn flag_without_value(key: &str) -> Self {
        Self::Flag(format!("{key}=…").into())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { name, line, column } => write!(f, "{name}:{line}:{column}"),
            Self::WholeFile(name) => f.write_str(name),
            Self::Environment(name) => write!(f, "environment variable {name}"),
            Self::Flag(flag) => write!(f, "flag --set {flag}"),
        }
    }
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The box does not start.
    Error,
    /// The box starts; somebody should know.
    Warning,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// How bad.
    pub severity: Severity,
    /// What is wrong, beginning with the setting that it is about.
    pub what: String,
    /// What to write instead.
    pub instead: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = if self.severity == Severity::Warning { "warning: " } else { "" };
        write!(f, "{}: {severity}{}", without_credentials(&self.place.to_string()), without_credentials(&self.what))?;
        if self.instead.is_empty() {
            return Ok(());
        }
        write!(f, "; write instead: {}", without_credentials(&self.instead))
    }
}

/// Everything that is wrong with a configuration, in the order of the files.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", lines(.0))]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// The problems, sorted by place, each once.
    pub(super) fn new(mut problems: Vec<Problem>) -> Self {
        problems.sort_by(|a, b| a.place.cmp(&b.place));
        // One unclosed bracket within another is one thing to mend.
        problems.dedup();
        Self(problems)
    }

    /// Whether the box must not start.
    pub fn fatal(&self) -> bool {
        self.0.iter().any(|problem| problem.severity == Severity::Error)
    }

    /// Each problem.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter()
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A text without the user and the password of the URLs in it: what was written is quoted, also where it is wrong, and anything may
/// stand in a password. So all is left out up to the last `@`: from the first `://` on, or, where that was forgotten, from where the value begins.
fn without_credentials(text: &str) -> String {
    let Some((before, after)) = text.rsplit_once('@') else { return text.to_owned() };
    let hidden_from = match before.find(SCHEME_ENDS) {
        Some(scheme_ends) => Some(scheme_ends + SCHEME_ENDS.len()),
        None => {
            let value = before.rfind('"').or_else(|| before.find('=')).map(|begins| begins + 1);
            value.filter(|begins| before.split_at(*begins).1.contains(':'))
        }
    };
    match hidden_from {
        Some(from) => format!("{}***@{after}", before.split_at(from).0),
        None => text.to_owned(),
    }
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

/// What stands between the scheme of a URL and what may be a credential.
const SCHEME_ENDS: &str = "://";
