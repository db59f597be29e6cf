//! What must be true of headers that a configuration adds to a request.

use std::collections::BTreeMap;

use reqwest::header::{HeaderName, HeaderValue};

use super::check::Checker;
use super::tree::Path;

/// Headers at `path`: none of them may be one of `own`, which the box sets itself, or hold a credential, which is given as
/// `credential` says.
pub(super) fn check(checker: &mut Checker<'_>, path: &Path, headers: &BTreeMap<String, String>, own: &[&str], credential: &str) {
    for (name, value) in headers {
        let path = path.join(name);
        let lower = name.to_lowercase();
        if CREDENTIAL_HEADERS.contains(&lower.as_str()) {
            checker.error(&path, "credentials don't stand in a configuration", credential);
        } else if own.contains(&lower.as_str()) {
            checker.error(&path, "the box sets this header itself", "nothing: leave it out");
        }
        if HeaderName::from_bytes(name.as_bytes()).is_err() {
            checker.error(&path, "this is not the name of a header", "X-Branch = \"…\"");
        }
        if HeaderValue::from_str(value).is_err() {
            checker.error(
                &path,
                "the value of a header has no line breaks or control characters",
                format!("{} = \"…\"", if is_plain_name(name) { name } else { "X-Branch" }),
            );
        }
    }
}

/// Whether a header's name plainly is one: words of letters with hyphens between them. Somebody may have written there what belongs into
/// the header, and that is not repeated.
pub(super) fn is_plain_name(name: &str) -> bool {
    let is_word = |word: &str| (1..=WORD_BYTES_MAX).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_alphabetic());
    name.len() <= NAME_BYTES_MAX && name.split('-').all(is_word)
}

/// The tables of headers.
pub(super) const HEADERS: &str = "headers";
/// As in `Safety-Identifier`, with room.
const WORD_BYTES_MAX: usize = 16;
const NAME_BYTES_MAX: usize = 40;
/// Headers that carry credentials.
const CREDENTIAL_HEADERS: [&str; 4] = ["authorization", "proxy-authorization", "cookie", "x-api-key"];
