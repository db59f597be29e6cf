//! `[mcp.NAME]`: servers of the Model Context Protocol, whose tools `[[tools]]` name with `mcp = "NAME"`, or that `tools` leaves to them.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path as FilePath, PathBuf};

use reqwest::Url;
use serde::Deserialize;

use super::check::{Checker, NO_URL};
use super::engines::resolve_program;
use super::headers;
use super::tool_check::NAME_BYTES_MAX;
use super::tree::Path;

/// One server: behind an address (streamable HTTP), or a program on this machine (stdio).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpServer {
    /// Its address, for a server over streamable HTTP: `http://` or `https://`.
    #[serde(default)]
    pub url: Option<String>,
    /// The program that is run, for a server over its standard input and output; no shell is involved.
    #[serde(default)]
    pub program: Option<PathBuf>,
    /// What the program is given.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// Variables of the program, each with the file that holds its value; never logged.
    #[serde(default)]
    pub environment: BTreeMap<String, PathBuf>,
    /// A file whose content is sent as a bearer token; never logged.
    #[serde(default)]
    pub bearer_file: Option<PathBuf>,
    /// Headers sent with each request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// A file with further certificate authorities (PEM) to trust for this URL.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// How long it may take until the server has said what it is (ms).
    #[serde(default = "timeout_ms")]
    pub timeout_ms: u64,
    /// Which of the tools that it offers, and that no `[[tools]]` names, become tools too: names, with `*` for any letters; none when empty.
    #[serde(default)]
    pub tools: Vec<String>,
    /// Which of those do not.
    #[serde(default)]
    pub except: Vec<String>,
    /// What stands before their names here.
    #[serde(default)]
    pub prefix: String,
    /// How many calls it may have under way at the same time, over all its tools. Inquiries and cancels have places of their own.
    #[serde(default = "concurrency")]
    pub concurrency: NonZeroUsize,
}

impl McpServer {
    pub(super) fn resolve(&mut self, base: &FilePath, credential: impl Fn(&PathBuf) -> PathBuf) {
        if let Some(program) = &mut self.program {
            resolve_program(base, program);
        }
        self.ca_file = self.ca_file.as_ref().map(|file| base.join(file));
        self.bearer_file = self.bearer_file.as_ref().map(&credential);
        for file in self.environment.values_mut() {
            *file = credential(file);
        }
    }

    /// Whether a tool that it offers under this name is one of the box, though no `[[tools]]` names it.
    pub fn wants(&self, name: &str) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| fits(pattern, name));
        any(&self.tools) && !any(&self.except)
    }

    /// The tools that are wanted by their whole names.
    pub fn named(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(String::as_str).filter(|name| !name.contains('*'))
    }

    pub(super) fn check(&self, checker: &mut Checker<'_>, place: &Path) {
        self.check_name(checker, place);
        self.check_discovery(checker, place);
        let example = "url = \"https://tools.example/mcp\", or program = \"/usr/local/bin/server\"";
        match (&self.url, &self.program) {
            (Some(url), None) => self.check_http(checker, place, url),
            (None, Some(program)) => self.check_program(checker, place, program),
            (None, None) => checker.error(place, "it does not say where the server is", example),
            (Some(_), Some(_)) => checker.error(&place.join("program"), "a server has an address or is a program, not both", example),
        }
        checker.within(&place.join("timeout_ms"), self.timeout_ms, TIMEOUT_MS_LEAST..=TIMEOUT_MS_MOST);
        checker.within(&place.join("concurrency"), self.concurrency.get() as u64, 1..=CONCURRENCY_MOST);
    }

    /// What is kept of a server stands in a file of its name.
    fn check_name(&self, checker: &mut Checker<'_>, place: &Path) {
        let name = place.key();
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(is_plain) {
            let repaired: String = name.trim().chars().map(|c| if is_plain(c) { c } else { '_' }).take(NAME_BYTES_MAX).collect();
            let repaired = if repaired.is_empty() { "office".to_owned() } else { repaired };
            let what = format!("the name of a server is 1 to {NAME_BYTES_MAX} letters, digits, `_` and `-`");
            checker.error(place, what, format!("[mcp.{repaired}]"));
        }
    }

    fn check_discovery(&self, checker: &mut Checker<'_>, place: &Path) {
        for (key, patterns) in [("tools", &self.tools), ("except", &self.except)] {
            let path = place.join(key);
            if patterns.len() > PATTERNS_MAX {
                checker.error(&path, format!("{} names are more than {PATTERNS_MAX}", patterns.len()), format!("{key} = [\"tables.*\"]"));
            }
            for (index, pattern) in patterns.iter().enumerate() {
                if pattern.trim().is_empty() || pattern.len() > PATTERN_BYTES_MAX {
                    let what = format!("the name of a tool has 1 to {PATTERN_BYTES_MAX} bytes");
                    checker.error(&path.join(index), what, "a name, as the server has it, or \"*\" for every tool");
                }
            }
        }
        if self.prefix.len() > PREFIX_BYTES_MAX || !self.prefix.chars().all(is_plain) {
            let what = format!("a prefix has up to {PREFIX_BYTES_MAX} letters, digits, `_` and `-`, for models take no other names");
            checker.error(&place.join("prefix"), what, "prefix = \"office_\"");
        }
        for (key, written) in [("except", !self.except.is_empty()), ("prefix", !self.prefix.is_empty())] {
            if written && self.tools.is_empty() {
                checker.warning(&place.join(key), "it has no tools but those that [[tools]] name", "tools = [\"*\"]");
            }
        }
    }

    fn check_http(&self, checker: &mut Checker<'_>, place: &Path, text: &str) {
        let example = "url = \"https://tools.example/mcp\"";
        let path = place.join("url");
        match Url::parse(text) {
            Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() && url.port() != Some(0) => {
                if url.password().is_some() || !url.username().is_empty() {
                    let what = "a URL is logged, and this one holds a credential";
                    checker.error(&path, what, "the URL without it, and bearer_file = \"mcp-token\"");
                }
                let on_this_machine = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
                if url.scheme() == "http" && !on_this_machine && self.bearer_file.is_some() {
                    checker.warning(&path, "the bearer token travels unencrypted", "url = \"https://…\"");
                }
            }
            _ => checker.error(&path, NO_URL, example),
        }
        let credential = "bearer_file = \"mcp-token\", a file that holds the token";
        headers::check(checker, &place.join("headers"), &self.headers, &OWN_MCP_HEADERS, credential);
        if let Some(file) = &self.ca_file {
            checker.file_exists(&place.join("ca_file"), file);
        }
        if let Some(file) = &self.bearer_file {
            let instead = "a file in $CREDENTIALS_DIRECTORY, or the path of one that holds the token";
            checker.holds_credential(&place.join("bearer_file"), file, instead);
        }
        if !self.arguments.is_empty() {
            checker.error(&place.join("arguments"), "a server with an address is given none", "program, or no arguments");
        }
        if !self.environment.is_empty() {
            checker.error(&place.join("environment"), "a server with an address has none", "program, or no environment");
        }
    }

    fn check_program(&self, checker: &mut Checker<'_>, place: &Path, program: &FilePath) {
        let path = place.join("program");
        if program.as_os_str().is_empty() {
            checker.error(&path, "it is empty", "the path of a program that recado may run");
        } else if super::engines::is_path(program) {
            checker.program_exists(&path, program);
            checker.only_its_owner_writes(&path, program);
        } else {
            checker.program_is_installed(&path, program);
        }
        for (index, argument) in self.arguments.iter().enumerate().filter(|(_, argument)| argument.contains('\0')) {
            let without = argument.replace('\0', "");
            checker.error(&place.join("arguments").join(index), "an argument holds no NUL", format!("{without:?}"));
        }
        for (name, file) in &self.environment {
            checker.variable_name(&place.join("environment").join(name), name, "API_KEY = \"api-key\"");
            let instead = "a file in $CREDENTIALS_DIRECTORY, or the path of one that holds the value";
            checker.holds_credential(&place.join("environment").join(name), file, instead);
        }
        for (key, written) in
            [("bearer_file", self.bearer_file.is_some()), ("ca_file", self.ca_file.is_some()), ("headers", !self.headers.is_empty())]
        {
            if written {
                checker.error(&place.join(key), "a program is sent nothing over HTTP", "environment, for what it needs to know");
            }
        }
    }
}

/// Whether a name is what a pattern says, in which `*` is any number of any letters.
fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        // The first place that fits leaves most for what comes behind.
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

fn timeout_ms() -> u64 {
    15_000
}

fn concurrency() -> NonZeroUsize {
    NonZeroUsize::MIN.saturating_add(7)
}

/// Below, no connection over a mobile network comes to be.
const TIMEOUT_MS_LEAST: u64 = 100;
/// A server that takes longer to say what it is hangs.
const TIMEOUT_MS_MOST: u64 = 60_000;
/// A box has few descriptors.
const CONCURRENCY_MOST: u64 = 64;
/// As many as a box has tools.
const PATTERNS_MAX: usize = 128;
/// Longer than any name of a tool.
const PATTERN_BYTES_MAX: usize = 256;
/// Leaves half of a name to the server.
const PREFIX_BYTES_MAX: usize = 32;
/// Headers that the protocol's requests carry anyway.
const OWN_MCP_HEADERS: [&str; 12] = [
    "accept",
    "content-type",
    "content-length",
    "transfer-encoding",
    "host",
    "connection",
    "last-event-id",
    "mcp-session-id",
    "mcp-protocol-version",
    "mcp-method",
    "mcp-name",
    "idempotency-key",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_name_in_which_a_star_is_anything() {
        for (pattern, fitting, other) in [
            ("book", &["book"][..], &["", "books", "a book"][..]),
            ("*", &["", "book"], &[]),
            ("tables.*", &["tables.", "tables.book"], &["tables", "my tables.book"]),
            ("*.book", &["tables.book", ".book"], &["book", "tables.books"]),
            ("a*b*c", &["abc", "a-b-b-c", "abcbc"], &["ab", "acb", "abcd"]),
            ("aa*aa", &["aaaa", "aaxaa"], &["aa", "aaa"]),
        ] {
            fitting.iter().for_each(|name| assert!(fits(pattern, name), "{pattern} {name}"));
            other.iter().for_each(|name| assert!(!fits(pattern, name), "{pattern} {name}"));
        }
    }
}
