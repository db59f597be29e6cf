//! `[mcp.NAME]`: servers of the Model Context Protocol, whose tools `[[tools]]` name with `mcp = "NAME"`.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path as FilePath, PathBuf};

use reqwest::Url;
use serde::Deserialize;

use super::check::{Checker, NO_URL};
use super::engines::resolve_program;
use super::headers;
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
    /// How many requests it may have under way at the same time, over all its tools.
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

    pub(super) fn check(&self, checker: &mut Checker<'_>, place: &Path) {
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
            checker.error(&path, "it is empty", "program = \"…\": the path of the server, or its name where it is installed");
        } else if super::engines::is_path(program) {
            checker.program_exists(&path, program);
        } else {
            checker.program_is_installed(&path, program);
        }
        for (name, file) in &self.environment {
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
