//! What is known of services that many use: that they want a key, and how.

use reqwest::Url;

use super::check::Checker;
use super::endpoint::{EndpointSettings, KeyHeader, Kind};
use super::tree::Path;

/// A service that takes nobody without a key.
struct Known {
    /// Its host; with a dot before it, how that ends.
    host: &'static str,
    /// How it takes keys, the usual way first.
    takes: &'static [KeyHeader],
}

/// Checks the table at `place`, of a service of this kind, against what is known of it.
pub(super) fn check(checker: &mut Checker<'_>, settings: &EndpointSettings<'_>, place: &Path, kind: &Kind) {
    let Ok(url) = Url::parse(settings.url) else { return };
    let host = url.host_str().unwrap_or_default();
    let Some(known) = KNOWN.iter().find(|known| known.is(host)) else { return };
    if settings.key_file.is_none() {
        let instead = format!("key_file = {:?}, a file that holds it", kind.key_file);
        checker.error(&place.join("key_file"), format!("{host} takes nobody without a key"), instead);
    } else if !known.takes.contains(&settings.key_header) {
        let what = format!("{host} does not look for a key in {}", settings.key_header.name());
        let instead = known.takes.first().map_or_else(String::new, |usual| format!("key_header = {:?}", usual.name()));
        checker.error(&place.join("key_header"), what, instead);
    }
}

impl Known {
    fn is(&self, host: &str) -> bool {
        host == self.host || self.host.starts_with('.') && host.ends_with(self.host)
    }
}

/// Google's also take OpenAI's way, for the same key.
const KNOWN: [Known; 3] = [
    Known { host: "api.openai.com", takes: &[KeyHeader::Authorization] },
    Known { host: ".openai.azure.com", takes: &[KeyHeader::ApiKey, KeyHeader::Authorization] },
    Known { host: "generativelanguage.googleapis.com", takes: &[KeyHeader::XGoogApiKey, KeyHeader::Authorization] },
];
