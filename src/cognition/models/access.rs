//! How the box shows a service in a network who it is.

use std::collections::BTreeMap;
use std::path::Path;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, USER_AGENT};

use crate::cognition::tools::bounded_text;
use crate::config::{KeyHeader, Secret, SecretError};

/// What every request to a service carries. Read once; never shown.
#[derive(Clone)]
pub(super) struct Access {
    headers: HeaderMap,
    key: Option<Secret>,
}

/// Why there is none.
pub(super) enum AccessFault {
    /// A header can't be sent.
    Header {
        /// Its name. Its value may be a secret and is not repeated.
        header: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The key can't be had.
    Key(SecretError),
}

impl Access {
    /// The headers that are configured, and the key of `key_file` as `key_header` says.
    pub fn read(headers: &BTreeMap<String, String>, key_file: Option<&Path>, key_header: KeyHeader) -> Result<Self, AccessFault> {
        let mut all = HeaderMap::new();
        all.insert(USER_AGENT, HeaderValue::from_static(concat!("recado/", env!("CARGO_PKG_VERSION"))));
        for (name, value) in headers {
            let unusable = |reason| AccessFault::Header { header: name.clone(), reason };
            let parsed = HeaderName::try_from(name).map_err(|_| unusable("it is not a header's name"))?;
            let mut value = HeaderValue::try_from(value).map_err(|_| unusable("its value holds characters that a header can't"))?;
            value.set_sensitive(true);
            all.insert(parsed, value);
        }
        let key = key_file.map(Secret::read).transpose().map_err(AccessFault::Key)?;
        if let Some(key) = &key {
            let (name, text) = match key_header {
                KeyHeader::Authorization => (AUTHORIZATION, format!("Bearer {}", key.expose())),
                KeyHeader::ApiKey => (HeaderName::from_static("api-key"), key.expose().to_owned()),
            };
            let unusable = |_| AccessFault::Header { header: name.to_string(), reason: "the key holds characters that a header can't" };
            let mut value = HeaderValue::try_from(text).map_err(unusable)?;
            value.set_sensitive(true);
            all.insert(name, value);
        }
        Ok(Self { headers: all, key })
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// A text without the key, should a service repeat it in what it says.
    pub fn hiding_key(&self, text: &str) -> String {
        match &self.key {
            Some(key) => text.replace(key.expose(), "***"),
            None => text.to_owned(),
        }
    }

    /// What a service says, for people: behind a colon, on one line that is not too long, without the key.
    pub fn quoted(&self, text: &str) -> String {
        // A key that is cut in two would not be found any more.
        let text = bounded_text(&self.hiding_key(text));
        if text.is_empty() { text } else { format!(": {text}") }
    }

    /// The key.
    pub fn key(&self) -> Option<&Secret> {
        self.key.as_ref()
    }
}
