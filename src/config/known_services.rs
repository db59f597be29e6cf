//! What is known of services that many use: which key they want, and how. And which ends of an address the box adds itself.

use std::path::PathBuf;

use reqwest::Url;

use super::check::Checker;
use super::endpoint::KeyHeader;
use super::tree::Path;
use super::{Cloud, example};

/// A service that takes nobody without a key.
struct Known {
    /// Its host, or how that ends, with a dot before it.
    host: &'static str,
    /// How it takes keys, the usual way first.
    takes: &'static [KeyHeader],
}

/// A table of a service.
struct Table<'a> {
    name: &'static str,
    url: &'a str,
    key_file: Option<&'a PathBuf>,
    key_header: KeyHeader,
    /// What is added to its address, for each request.
    adds: &'static [&'static str],
}

/// Checks the tables of `cloud` against what is known.
pub(super) fn check(checker: &mut Checker<'_>, cloud: &Cloud) {
    // The tables have types of their own, with these in common.
    macro_rules! table {
        ($field:ident, $name:literal, $adds:expr) => {
            cloud.$field.as_ref().map(|service| Table {
                name: $name,
                url: &service.url,
                key_file: service.key_file.as_ref(),
                key_header: service.key_header,
                adds: $adds,
            })
        };
    }
    let tables = [
        table!(realtime, "cloud.realtime", &[]),
        table!(live, "cloud.live", &[]),
        table!(gemini, "cloud.gemini", &[]),
        table!(speech, "cloud.speech", &[]),
        table!(transcription, "cloud.transcription", &["/audio/transcriptions", "/models"]),
        table!(language, "cloud.language", &["/chat/completions", "/responses", "/models"]),
    ];
    tables.iter().flatten().for_each(|table| table.check(checker));
}

impl Table<'_> {
    fn check(&self, checker: &mut Checker<'_>) {
        let Ok(url) = Url::parse(self.url) else { return };
        let place = Path::of(self.name);
        let path = url.path().trim_end_matches('/');
        if let Some(added) = self.adds.iter().find(|added| path.ends_with(*added)) {
            let what = format!("it ends in {added}, which is put behind it for each request");
            checker.error(&place.join("url"), what, "the URL without that end");
        }
        let host = url.host_str().unwrap_or_default();
        let Some(known) = KNOWN.iter().find(|known| known.is(host)) else { return };
        if self.key_file.is_none() {
            let instead = example::line(self.name, "key_file").unwrap_or("key_file = \"key\"");
            checker.error(
                &place.join("key_file"),
                format!("{host} takes nobody without a key"),
                format!("{instead}, a file that holds it"),
            );
        } else if !known.takes.contains(&self.key_header) {
            let what = format!("{host} does not look for a key in {}", self.key_header.name());
            let instead = known.takes.first().map_or_else(String::new, |usual| format!("key_header = {:?}", usual.name()));
            checker.error(&place.join("key_header"), what, instead);
        }
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
