//! Signatures of messages, as Standard Webhooks has them: `webhook-id`, `webhook-timestamp` (seconds since 1970) and
//! `webhook-signature`, which is `v1,` and the base64 of the HMAC-SHA-256 (RFC 2104) of `id.timestamp.body` under a shared secret.
//!
//! What this box sends is signed by the same code that checks what is sent to it. The secret is one line: `whsec_` and base64 stands for
//! the bytes that it encodes, anything else for itself.
//!
//! The identifier names a message, not a request: one that is sent again has the same. The timestamp is this box's own clock, which may be
//! wrong until it is synchronised.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::header::{HeaderMap, HeaderValue};
use sha2::Sha256;

use crate::config::Secret;

/// Signs messages, and checks their signatures, under one secret.
#[derive(Clone)]
pub(super) struct Signer {
    key: Hmac<Sha256>,
}

/// What is known of a message whose signature is right.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Signed<'h> {
    /// Its identifier.
    pub id: &'h str,
    /// When it was signed, by its sender's clock (s since 1970).
    pub timestamp: i64,
}

impl Signer {
    /// Reads the secret.
    ///
    /// # Errors
    /// Why it can't be used, in words that don't repeat it.
    pub fn read(path: &Path) -> Result<Self, String> {
        let secret = Secret::read(path).map_err(|error| error.to_string())?;
        Self::new(&secret)
            .ok_or_else(|| format!("the credential file {} begins with `{PREFIX}`, and what follows is not base64", path.display()))
    }

    /// None where it says that it is encoded and is not.
    pub fn new(secret: &Secret) -> Option<Self> {
        let key = match secret.expose().strip_prefix(PREFIX) {
            Some(encoded) => STANDARD.decode(encoded).ok().filter(|key| !key.is_empty())?,
            None => secret.expose().as_bytes().to_vec(),
        };
        // A key of any length will do (RFC 2104 section 3).
        Hmac::new_from_slice(&key).ok().map(|key| Self { key })
    }

    /// The headers that sign the message `id`, at present.
    pub fn headers(&self, id: &str, body: &[u8]) -> HeaderMap {
        self.headers_at(id, unix_s(), body)
    }

    fn headers_at(&self, id: &str, timestamp: i64, body: &[u8]) -> HeaderMap {
        let signature = STANDARD.encode(self.mac(id, &timestamp.to_string(), body).finalize().into_bytes());
        let mut headers = HeaderMap::new();
        // Identifiers are made here, of characters that a header takes.
        if let (Ok(id), Ok(signature)) = (HeaderValue::try_from(id), HeaderValue::try_from(format!("{VERSION}{signature}"))) {
            headers.insert(ID, id);
            headers.insert(TIMESTAMP, HeaderValue::from(timestamp));
            headers.insert(SIGNATURE, signature);
        }
        headers
    }

    /// Whether these headers sign this body: one of the signatures must be right. None where they don't.
    pub fn check<'h>(&self, headers: &'h HeaderMap, body: &[u8]) -> Option<Signed<'h>> {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let (id, timestamp, signatures) = (text(ID)?, text(TIMESTAMP)?, text(SIGNATURE)?);
        if id.is_empty() || id.len() > ID_BYTES_MAX {
            return None;
        }
        let mac = self.mac(id, timestamp, body);
        let right = |signature: &str| {
            let signature = signature.strip_prefix(VERSION).and_then(|encoded| STANDARD.decode(encoded).ok());
            // In time that does not depend on where they differ.
            signature.is_some_and(|signature| mac.clone().verify_slice(&signature).is_ok())
        };
        let timestamp = timestamp.parse().ok()?;
        signatures.split(' ').take(SIGNATURES_MAX).any(right).then_some(Signed { id, timestamp })
    }

    fn mac(&self, id: &str, timestamp: &str, body: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.key.clone();
        for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
            mac.update(part);
        }
        mac
    }
}

fn unix_s() -> i64 {
    // A clock before 1970 is wrong in any case.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Names the message.
pub(super) const ID: &str = "webhook-id";
/// When it was signed (s since 1970).
pub(super) const TIMESTAMP: &str = "webhook-timestamp";
/// The signatures, separated by spaces.
pub(super) const SIGNATURE: &str = "webhook-signature";

/// Before a symmetric signature.
const VERSION: &str = "v1,";
/// Before a secret that is encoded.
const PREFIX: &str = "whsec_";
/// While a secret is being replaced there are two.
const SIGNATURES_MAX: usize = 8;
/// Many times what anybody's identifiers have.
const ID_BYTES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn signer(secret: &str) -> Signer {
        Signer::new(&Secret::from(secret)).unwrap()
    }

    /// The reference comes from `printf 'msg_1.1700000000.{"a":1}' | openssl dgst -sha256 -mac HMAC -macopt hexkey:… -binary | base64`.
    #[test]
    fn a_signature_is_what_standard_webhooks_says() {
        let headers = signer("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3").headers_at("msg_1", 1_700_000_000, br#"{"a":1}"#);
        assert_eq!(headers[ID], "msg_1");
        assert_eq!(headers[TIMESTAMP], "1700000000");
        assert_eq!(headers[SIGNATURE], "v1,WUgAXU8H0NQ1/7M+TtMwKma2b74a3/TCgekiM3YUdN8=");
        let raw = signer("0123456789abcdef01234567").headers_at("msg_1", 1_700_000_000, br#"{"a":1}"#);
        assert_eq!(raw[SIGNATURE], headers[SIGNATURE], "the same bytes, written otherwise");
    }

    #[test]
    fn what_was_altered_is_not_signed() {
        let signer = signer("s3cret of both");
        let headers = signer.headers_at("msg_1", 7, b"body");
        assert_eq!(signer.check(&headers, b"body"), Some(Signed { id: "msg_1", timestamp: 7 }));
        assert_eq!(signer.check(&headers, b"Body"), None);
        assert_eq!(super::tests::signer("another").check(&headers, b"body"), None);
        for (name, value) in [(ID, "msg_2"), (ID, ""), (TIMESTAMP, "8"), (TIMESTAMP, "soon"), (SIGNATURE, "v1,"), (SIGNATURE, "v2,AAAA")] {
            let mut altered = headers.clone();
            altered.insert(name, HeaderValue::from_static(value));
            assert_eq!(signer.check(&altered, b"body"), None, "{name}: {value}");
            altered.remove(name);
            assert_eq!(signer.check(&altered, b"body"), None, "no {name}");
        }
    }

    #[test]
    fn one_right_signature_among_several_is_enough() {
        let signer = signer("s3cret of both");
        let mut headers = signer.headers_at("msg_1", 7, b"body");
        let right = headers[SIGNATURE].to_str().unwrap().to_owned();
        headers.insert(SIGNATURE, HeaderValue::try_from(format!("v1a,AAAA v1,AAAA {right}")).unwrap());
        assert!(signer.check(&headers, b"body").is_some());
        headers.insert(SIGNATURE, HeaderValue::try_from(format!("{}{right}", "v1,AAAA ".repeat(SIGNATURES_MAX))).unwrap());
        assert!(signer.check(&headers, b"body").is_none(), "no more are looked at than anybody needs");
    }

    #[test]
    fn a_secret_that_says_that_it_is_encoded_and_is_not_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for secret in ["whsec_", "whsec_s3cret of both"] {
            std::fs::write(file.path(), secret).unwrap();
            let error = Signer::read(file.path()).err().unwrap();
            assert!(error.contains("is not base64") && !error.contains("s3cret"), "{error}");
        }
    }
}
