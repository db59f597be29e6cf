//! `[hand_off]`.

use std::path::PathBuf;

use reqwest::Url;
use serde::Deserialize;

use super::check::{Checker, NO_URL};
use super::tree::Path;

/// The webhook that takes closings which nobody has come to hear.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandOff {
    /// Where they are POSTed: `http://` or `https://`.
    pub url: String,
    /// A file with the secret that signs them, which the receiver knows too; never logged.
    pub secret_file: PathBuf,
    /// A file with further certificate authorities (PEM) to trust for this URL.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// How long it may take to answer (ms).
    #[serde(default = "timeout_ms")]
    pub timeout_ms: u64,
}

impl HandOff {
    pub(super) fn check(&self, checker: &mut Checker<'_>) {
        let place = Path::of("hand_off");
        match Url::parse(&self.url) {
            Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() && url.port() != Some(0) => {
                let bare = url.password().is_none() && url.username().is_empty();
                if !bare {
                    let instead = "the URL without it: what is sent is signed with secret_file";
                    checker.error(&place.join("url"), "a URL is logged, and this one holds a credential", instead);
                }
                let on_this_machine = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
                if url.scheme() == "http" && !on_this_machine && bare {
                    checker.warning(&place.join("url"), "what callers asked for travels unencrypted", "url = \"https://…\"");
                }
            }
            Ok(url) if url.port() == Some(0) => {
                let what = "nobody can be reached at port 0";
                checker.error(&place.join("url"), what, "url = \"https://crm.example/recado/unheard\"");
            }
            _ => {
                checker.error(&place.join("url"), NO_URL, "url = \"https://crm.example/recado/unheard\"");
            }
        }
        let instead = "a file in $CREDENTIALS_DIRECTORY, or the path of one that holds the secret";
        checker.holds_credential(&place.join("secret_file"), &self.secret_file, instead);
        if let Some(file) = &self.ca_file {
            checker.file_exists(&place.join("ca_file"), file);
        }
        checker.within(&place.join("timeout_ms"), self.timeout_ms, TIMEOUT_MS_LEAST..=TIMEOUT_MS_MOST);
    }
}

fn timeout_ms() -> u64 {
    10_000
}

/// Below, no connection over a mobile network comes to be.
const TIMEOUT_MS_LEAST: u64 = 100;
/// A webhook only takes note: a minute is long.
const TIMEOUT_MS_MOST: u64 = 60_000;
