//! What the parts of a cascade have in common: each is a service behind HTTP.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use reqwest::Url;

use super::check::Checker;
use super::endpoint::{Endpoint, KeyHeader, Kind, ReachedBy};
use super::tree::Path;

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
    pub model: &'a str,
    /// A file that holds the key.
    pub key_file: Option<&'a PathBuf>,
    /// How the key is sent.
    pub key_header: KeyHeader,
    /// Further headers.
    pub headers: &'a BTreeMap<String, String>,
    /// A file with further certificate authorities.
    pub ca_file: Option<&'a PathBuf>,
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
        let endpoint = Endpoint { url: self.url, model: self.model, key_file: self.key_file, headers: self.headers, ca_file: self.ca_file };
        let kind = Kind {
            reached_by: ReachedBy::Http,
            url: "https://api.openai.com/v1",
            key_file: self.key,
            key_header: "api-key",
            carries: "what callers say",
        };
        endpoint.check(checker, &place, &kind);
        if let Some((url, name)) = self.shorter() {
            let what = format!("the box adds /{name} itself, and this URL has it already");
            checker.error(&place.join("url"), what, format!("url = {:?}", url.as_str()));
        }
        let timeouts = [
            ("connect_timeout_ms", self.connect_timeout_ms),
            ("answer_timeout_ms", self.answer_timeout_ms),
            ("stall_timeout_ms", self.stall_timeout_ms),
            ("whole_timeout_ms", self.whole_timeout_ms),
        ];
        timeouts.into_iter().for_each(|(key, ms)| checker.within(&place.join(key), ms, TIMEOUT_MS));
    }

    /// What the addresses begin with, where the URL is one of them already, and what it ends in. Without what may be a credential.
    fn shorter(&self) -> Option<(Url, &'static str)> {
        let mut url = Url::parse(self.url).ok().filter(|url| url.has_host() && url.password().is_none() && url.username().is_empty())?;
        let (path, name) = ADDED.iter().find_map(|name| {
            let path = url.path().trim_end_matches('/').strip_suffix(name)?.strip_suffix('/')?;
            Some((path.to_owned(), *name))
        })?;
        url.set_path(&path);
        url.set_query(None);
        url.set_fragment(None);
        Some((url, name))
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

/// What the box adds to the URL of a part.
const ADDED: [&str; 4] = ["chat/completions", "responses", "audio/transcriptions", "models"];
/// Below, no connection over a mobile network comes to be; beyond, no caller waits.
const TIMEOUT_MS: RangeInclusive<u64> = 500..=60_000;
