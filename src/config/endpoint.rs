//! A service in a network: where it is, and with what it is asked. What the tables of `[cloud]` have in common is declared and checked here.
//!
//! The settings are laid into each table by a macro, not flattened out of a type of their own: only so is an unknown setting refused, and known
//! by its place what is wrong with a known one.

use std::collections::BTreeMap;
use std::path::Path as FilePath;

use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;

use super::check::Checker;
use super::headers;
use super::known_services;
use super::secret::Secret;
use super::tree::Path;

/// Declares the table of a service: what all of them say of where it is, and what it says beside that.
macro_rules! service_table {
    ($(#[$about:meta])* pub struct $Service:ident in $table:literal, key_header = $key_header:literal, { $($own:tt)* }) => {
        $(#[$about])*
        #[serde(deny_unknown_fields)]
        pub struct $Service {
            /// Where it is: `wss://` or `ws://` for a connection that stands; for requests `https://` or `http://`, what their addresses begin with.
            pub url: String,
            /// The model, by the service's name for it; Azure's deployment.
            pub model: String,
            /// A file that holds the key; never logged. None where the service asks for none.
            #[serde(default)]
            pub key_file: Option<std::path::PathBuf>,
            /// How the key is sent.
            #[serde(default = $key_header)]
            pub key_header: $crate::config::KeyHeader,
            /// Further headers of what is sent.
            #[serde(default)]
            pub headers: std::collections::BTreeMap<String, String>,
            /// A file with further certificate authorities (PEM) to trust for this URL.
            #[serde(default)]
            pub ca_file: Option<std::path::PathBuf>,
            $($own)*
        }

        impl $Service {
            /// What it says of where its service is, and with what that is asked.
            pub fn endpoint(&self) -> $crate::config::endpoint::EndpointSettings<'_> {
                let Self { url, model, key_file, key_header, headers, ca_file, .. } = self;
                let (key_file, ca_file) = (key_file.as_deref(), ca_file.as_deref());
                $crate::config::endpoint::EndpointSettings { table: $table, url, model, key_file, key_header: *key_header, headers, ca_file }
            }

            /// Gives its files their place, where it names them.
            pub(super) fn resolve(
                &mut self,
                base: &std::path::Path,
                credential: impl Fn(&std::path::PathBuf) -> std::path::PathBuf,
            ) {
                self.ca_file = self.ca_file.as_ref().map(|file| base.join(file));
                self.key_file = self.key_file.as_ref().map(credential);
            }
        }
    };
}
pub(super) use service_table;

/// What a table says of where its service is, and with what it is asked.
#[derive(Debug, Clone, Copy)]
pub struct EndpointSettings<'a> {
    /// The table.
    pub table: &'static str,
    /// `url`.
    pub url: &'a str,
    /// `model`.
    pub model: &'a str,
    /// `key_file`.
    pub key_file: Option<&'a FilePath>,
    /// `key_header`.
    pub key_header: KeyHeader,
    /// `headers`.
    pub headers: &'a BTreeMap<String, String>,
    /// `ca_file`.
    pub ca_file: Option<&'a FilePath>,
}

/// What is said of a service of some kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    /// How it is reached.
    pub reached_by: ReachedBy,
    /// A URL to propose.
    pub url: &'static str,
    /// A key's file to propose.
    pub key_file: &'static str,
    /// How such a key is sent, where it stands in a URL.
    pub key_header: &'static str,
    /// What travels to it.
    pub carries: &'static str,
}

/// How a service is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReachedBy {
    /// A WebSocket: `wss://` or `ws://`.
    WebSocket,
    /// Requests: `https://` or `http://`.
    Http,
}

/// How the key is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyHeader {
    /// `Authorization: Bearer …`
    #[default]
    Authorization,
    /// `api-key: …`, as Azure takes it.
    ApiKey,
    /// `x-goog-api-key: …`, as Google takes it.
    XGoogApiKey,
}

impl KeyHeader {
    /// Its name in a configuration, which is also the header's.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Authorization => "authorization",
            Self::ApiKey => "api-key",
            Self::XGoogApiKey => "x-goog-api-key",
        }
    }
}

impl EndpointSettings<'_> {
    /// Where the table stands.
    pub(super) fn place(&self) -> Path {
        Path::of(self.table)
    }

    /// Checks the table, of a service of this kind.
    pub(super) fn check(&self, checker: &mut Checker<'_>, kind: &Kind) {
        self.check_at(checker, &self.place(), kind);
    }

    /// The same for a table that stands at `place`.
    pub(super) fn check_at(&self, checker: &mut Checker<'_>, place: &Path, kind: &Kind) {
        self.check_url(checker, &place.join("url"), kind);
        check_name(checker, place, "model", self.model);
        let Kind { key_file: example, .. } = kind;
        let own = kind.reached_by.own_headers();
        let credential = format!("key_file = {example:?}, a file that holds the key");
        headers::check(checker, &place.join("headers"), self.headers, own, &credential);
        if let Some(file) = self.key_file {
            let instead = "a file in $CREDENTIALS_DIRECTORY, or the path of one that holds the key";
            checker.holds_credential(&place.join("key_file"), file, instead);
        }
        if let Some(file) = self.ca_file {
            checker.file_exists(&place.join("ca_file"), file);
        }
        known_services::check(checker, self, place, kind);
    }

    /// The address of what a service behind HTTP calls `name`: under its own, unless that is the one of `name` already; none where that is none.
    pub(super) fn address(&self, name: &str) -> Option<Url> {
        let mut url = Url::parse(self.url).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())?;
        let base = url.path().trim_end_matches('/');
        if !base.ends_with(&format!("/{name}")) {
            let path = format!("{base}/{name}");
            url.set_path(&path);
        }
        Some(url)
    }

    fn check_url(&self, checker: &mut Checker<'_>, path: &Path, kind: &Kind) {
        let (secure, plain) = kind.reached_by.schemes();
        let example = format!("url = {:?}", kind.url);
        let url = match Url::parse(self.url) {
            Ok(url) if (url.scheme() == secure || url.scheme() == plain) && url.has_host() => url,
            // It is not repeated: its path or its query may hold a credential.
            _ => return checker.error(path, format!("this is not a {secure}:// or {plain}:// URL"), example),
        };
        if url.port() == Some(0) {
            checker.error(path, "nobody can be reached at port 0", example);
        }
        let key_file = kind.key_file;
        if url.password().is_some() || !url.username().is_empty() {
            let instead = format!("the URL without it, and key_file = {key_file:?}");
            checker.error(path, "a URL is logged, and this one holds a credential", instead);
        }
        if url.query_pairs().any(|(name, _)| CREDENTIAL_PARAMETERS.contains(&name.to_lowercase().as_str())) {
            let instead = format!("the URL without it, key_file = {key_file:?} and key_header = {:?}", kind.key_header);
            checker.error(path, "a URL is logged, and the query of this one holds a credential", instead);
        }
        if let Some((_, model)) = url.query_pairs().find(|(name, value)| name == "model" && *value != self.model) {
            let what = format!("it asks for the model {:?}, and `model` for another one", model.as_ref());
            checker.error(path, what, "the URL without its model");
        }
        let on_this_machine = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
        if url.scheme() == plain && !on_this_machine {
            let what = format!("{} travels unencrypted, and so does the key", kind.carries);
            checker.warning(path, what, format!("url = \"{secure}://…\""));
        }
    }
}

impl ReachedBy {
    /// The scheme with TLS, and the one without.
    fn schemes(self) -> (&'static str, &'static str) {
        match self {
            Self::WebSocket => ("wss", "ws"),
            Self::Http => ("https", "http"),
        }
    }

    /// Headers that the box sets itself.
    fn own_headers(self) -> &'static [&'static str] {
        match self {
            Self::WebSocket => &WEB_SOCKET_HEADERS,
            Self::Http => &HTTP_HEADERS,
        }
    }
}

/// A name that a service gives to what it has must look like one: the setting `key` of the table at `place`.
pub(super) fn check_name(checker: &mut Checker<'_>, place: &Path, key: &str, name: &str) {
    if name.trim() != name || name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        checker.error(
            &place.join(key),
            format!("{name:?} is not a name that a service has"),
            format!("the {key} by the service's own name"),
        );
    }
}

/// The headers that a service is asked with. No log shows their values.
///
/// # Errors
/// The name of the header that can't be sent, and why.
pub fn request_headers(
    headers: &BTreeMap<String, String>,
    key_header: KeyHeader,
    key: Option<&Secret>,
) -> Result<HeaderMap, (String, &'static str)> {
    let mut sent = HeaderMap::new();
    let mut send = |name: HeaderName, value: &str, reason| {
        let mut value = HeaderValue::from_str(value).map_err(|_| (name.to_string(), reason))?;
        value.set_sensitive(true);
        sent.insert(name, value);
        Ok(())
    };
    for (name, value) in headers {
        let named = HeaderName::try_from(name).map_err(|_| (name.clone(), "it is not a header's name"))?;
        send(named, value, "its value holds characters that a header can't")?;
    }
    if let Some(key) = key {
        let (name, value) = match key_header {
            KeyHeader::Authorization => (AUTHORIZATION, format!("Bearer {}", key.expose())),
            KeyHeader::ApiKey => (HeaderName::from_static("api-key"), key.expose().to_owned()),
            KeyHeader::XGoogApiKey => (HeaderName::from_static("x-goog-api-key"), key.expose().to_owned()),
        };
        send(name, &value, "the key holds characters that a header can't")?;
    }
    Ok(sent)
}

/// Headers that a WebSocket carries anyway.
const WEB_SOCKET_HEADERS: [&str; 10] = [
    "api-key",
    "x-goog-api-key",
    "host",
    "connection",
    "upgrade",
    "sec-websocket-key",
    "sec-websocket-version",
    "sec-websocket-protocol",
    "sec-websocket-extensions",
    "user-agent",
];
/// Headers that a request carries anyway.
const HTTP_HEADERS: [&str; 12] = [
    "api-key",
    "x-goog-api-key",
    "host",
    "connection",
    "content-type",
    "content-length",
    "content-encoding",
    "transfer-encoding",
    "accept",
    "accept-encoding",
    "expect",
    "user-agent",
];
/// What services call a key in a query.
const CREDENTIAL_PARAMETERS: [&str; 12] =
    ["key", "api-key", "api_key", "apikey", "subscription-key", "token", "access_token", "auth", "sig", "signature", "secret", "password"];
/// No service has longer names.
const NAME_BYTES_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_goes_where_the_service_takes_it_and_no_value_is_shown() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("key"), "s3cr3t").unwrap();
        let key = Secret::read(&directory.path().join("key")).unwrap();
        let further = BTreeMap::from([("X-Branch".to_owned(), "12".to_owned())]);
        for (header, name, value) in [
            (KeyHeader::Authorization, "authorization", "Bearer s3cr3t"),
            (KeyHeader::ApiKey, "api-key", "s3cr3t"),
            (KeyHeader::XGoogApiKey, "x-goog-api-key", "s3cr3t"),
        ] {
            let sent = request_headers(&further, header, Some(&key)).unwrap();
            assert_eq!(
                (sent.len(), &sent[name], &sent["x-branch"]),
                (2, &HeaderValue::from_str(value).unwrap(), &HeaderValue::from_static("12"))
            );
            assert!(!format!("{sent:?}").contains("s3cr3t"));
        }
        assert!(request_headers(&BTreeMap::new(), KeyHeader::default(), None).unwrap().is_empty());
        let unusable = BTreeMap::from([("no header".to_owned(), "1".to_owned())]);
        assert_eq!(request_headers(&unusable, KeyHeader::default(), None), Err(("no header".to_owned(), "it is not a header's name")));
    }
}
