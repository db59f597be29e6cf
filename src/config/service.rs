//! What services in a network have in common: where they are, and how the box shows who it is.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path as FilePath;

use reqwest::Url;
use serde::Deserialize;

use super::check::Checker;
use super::headers;
use super::tree::Path;

/// How the key is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyHeader {
    /// `Authorization: Bearer …`
    #[default]
    Authorization,
    /// `api-key: …`, as Azure takes it.
    ApiKey,
}

/// How a service is reached.
pub(super) struct Access<'a> {
    /// Where.
    pub url: &'a str,
    /// The schemes of such a URL, unencrypted and encrypted.
    pub schemes: (&'a str, &'a str),
    /// A line that could be written instead.
    pub example: &'a str,
    /// What a file with its key may be called.
    pub key: &'a str,
    /// The file that is.
    pub key_file: Option<&'a FilePath>,
    /// Further headers.
    pub headers: &'a BTreeMap<String, String>,
    /// Those that the box sets itself.
    pub own_headers: &'a [&'a str],
    /// A file with further certificate authorities.
    pub ca_file: Option<&'a FilePath>,
}

impl Access<'_> {
    /// Checks what stands in the table at `place`, and gives the URL, where it is one.
    pub fn check(&self, checker: &mut Checker<'_>, place: &Path) -> Option<Url> {
        let url = self.check_url(checker, &place.join("url"));
        let credential = format!("key_file = {:?}, a file that holds the key", self.key);
        headers::check(checker, &place.join("headers"), self.headers, self.own_headers, &credential);
        if let Some(file) = self.key_file {
            let instead = "a file in $CREDENTIALS_DIRECTORY, or the path of one that holds the key";
            checker.holds_credential(&place.join("key_file"), file, instead);
        }
        if let Some(file) = self.ca_file {
            checker.file_exists(&place.join("ca_file"), file);
        }
        url
    }

    fn check_url(&self, checker: &mut Checker<'_>, path: &Path) -> Option<Url> {
        let (plain, secure) = self.schemes;
        let url = match Url::parse(self.url) {
            Ok(url) if [plain, secure].contains(&url.scheme()) && url.has_host() => url,
            // It is not repeated: its path or its query may hold a credential.
            _ => {
                checker.error(path, format!("this is not a {secure}:// or {plain}:// URL"), self.example);
                return None;
            }
        };
        if url.port() == Some(0) {
            checker.error(path, "nobody can be reached at port 0", self.example);
        }
        if url.password().is_some() || !url.username().is_empty() {
            let instead = format!("the URL without it, and key_file = {:?}", self.key);
            checker.error(path, "a URL is logged, and this one holds a credential", instead);
        }
        if url.query_pairs().any(|(name, _)| CREDENTIAL_PARAMETERS.contains(&name.to_lowercase().as_str())) {
            let instead = format!("the URL without it, key_file = {:?} and key_header = \"api-key\"", self.key);
            checker.error(path, "a URL is logged, and the query of this one holds a credential", instead);
        }
        let on_this_machine = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
        if url.scheme() == plain && !on_this_machine {
            let instead = format!("url = \"{secure}://…\"");
            checker.warning(path, "what callers say travels unencrypted, and so does the key", instead);
        }
        Some(url)
    }
}

/// A part of a cascade, behind HTTP: how it is reached.
#[derive(Debug, Clone, Copy)]
pub struct HttpPart<'a> {
    /// The table that it is configured in.
    pub table: &'static str,
    /// What a file with its key may be called.
    pub(super) key: &'static str,
    /// What its addresses begin with.
    pub url: &'a str,
    /// The model, by the service's name for it.
    pub model: &'a String,
    /// A file that holds the key.
    pub key_file: Option<&'a FilePath>,
    /// How the key is sent.
    pub key_header: KeyHeader,
    /// Further headers.
    pub headers: &'a BTreeMap<String, String>,
    /// A file with further certificate authorities.
    pub ca_file: Option<&'a FilePath>,
    /// How long a connection may take until it stands (ms).
    pub connect_timeout_ms: u64,
    /// How long the first of an answer may take (ms).
    pub answer_timeout_ms: u64,
    /// How long an answer may pause (ms).
    pub stall_timeout_ms: u64,
    /// How long all of it may take (ms).
    pub whole_timeout_ms: u64,
}

impl HttpPart<'_> {
    pub(super) fn check(&self, checker: &mut Checker<'_>) {
        let place = Path::of(self.table);
        let access = Access {
            url: self.url,
            schemes: ("http", "https"),
            example: "url = \"https://api.openai.com/v1\"",
            key: self.key,
            key_file: self.key_file,
            headers: self.headers,
            own_headers: &OWN_HTTP_HEADERS,
            ca_file: self.ca_file,
        };
        access.check(checker, &place);
        check_names(checker, &place, &[("model", Some(self.model))]);
        let timeouts = [
            ("connect_timeout_ms", self.connect_timeout_ms),
            ("answer_timeout_ms", self.answer_timeout_ms),
            ("stall_timeout_ms", self.stall_timeout_ms),
            ("whole_timeout_ms", self.whole_timeout_ms),
        ];
        timeouts.into_iter().for_each(|(key, ms)| checker.within(&place.join(key), ms, TIMEOUT_MS));
    }

    /// The address of what the service calls `name`, under its own; none where that is none.
    pub fn address(&self, name: &str) -> Option<Url> {
        let mut url = Url::parse(self.url).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())?;
        let path = format!("{}/{name}", url.path().trim_end_matches('/'));
        url.set_path(&path);
        Some(url)
    }
}

pub(super) fn connect_timeout_ms() -> u64 {
    3_000
}

/// Conversations wait for 5 s, and some services answer before that with a reason.
pub(super) fn answer_timeout_ms() -> u64 {
    10_000
}

pub(super) fn stall_timeout_ms() -> u64 {
    5_000
}

pub(super) fn whole_timeout_ms() -> u64 {
    60_000
}

/// Names that a service has given, by their settings in the table at `place`.
pub(super) fn check_names(checker: &mut Checker<'_>, place: &Path, names: &[(&str, Option<&String>)]) {
    for (key, name) in names {
        let Some(name) = name else { continue };
        if name.trim() != *name || name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
            let what = format!("{name:?} is not a name that a service has");
            checker.error(&place.join(*key), what, format!("the {key} by the service's own name"));
        }
    }
}

/// What services call a key in a query.
const CREDENTIAL_PARAMETERS: [&str; 5] = ["key", "api-key", "api_key", "token", "access_token"];
/// No service has longer names.
const NAME_BYTES_MAX: usize = 128;
/// Time-outs of a service (ms): below, no connection over a mobile network comes to be; beyond, no caller waits.
pub(super) const TIMEOUT_MS: RangeInclusive<u64> = 500..=60_000;
/// Headers that a request carries anyway.
const OWN_HTTP_HEADERS: [&str; 9] =
    ["api-key", "host", "connection", "content-type", "content-length", "transfer-encoding", "accept", "accept-encoding", "user-agent"];
