//! How one tool is asked, whatever it is asked: with which client, headers, credential and signature, and within which time.

use std::path::Path;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, RequestBuilder, StatusCode, Url};

use super::breaker::Endpoint;
use super::error::ToolError;
use super::signature::Signer;
use crate::config::{OWN_HEADERS, Secret, SecretError, Tool};
use crate::outward::{quoted, reason_given};

/// What every request to one tool has in common.
#[derive(Clone)]
pub(super) struct Asking {
    client: Client,
    headers: HeaderMap,
    /// What it is sent, and may repeat.
    token: Option<Secret>,
    pub signer: Option<Signer>,
    /// What is asked.
    pub endpoint: Endpoint,
    /// How long an answer may take until it is complete.
    pub timeout: Duration,
}

impl Asking {
    /// Reads the tool's files.
    pub fn new(tool: &Tool, client: Client, endpoint: Endpoint, timeout: Duration) -> Result<Self, ToolError> {
        let mut headers = headers(tool)?;
        let token = match &tool.bearer_file {
            Some(path) => {
                let (token, value) = bearer(path).map_err(|error| ToolError::Bearer { tool: tool.name.clone(), error })?;
                headers.insert(AUTHORIZATION, value);
                Some(token)
            }
            None => None,
        };
        let unusable = |reason| ToolError::SignSecret { tool: tool.name.clone(), reason };
        let signer = tool.sign_secret_file.as_deref().map(Signer::read).transpose().map_err(unusable)?;
        Ok(Self { client, headers, token, signer, endpoint, timeout })
    }

    /// Its answer had this status. One that refuses a request as it is shows that it is there, whatever is made of it.
    pub fn heard(&self, status: StatusCode) {
        if status.is_client_error() && !matches!(status.as_u16(), 408 | 425 | 429) {
            self.endpoint.answered();
        }
    }

    /// A request whose body will be `body`, signed as the message `id` where the tool has a secret. A request without a body is signed with
    /// an empty one.
    pub fn request(&self, method: Method, url: &Url, id: &str, body: &[u8]) -> RequestBuilder {
        let mut request = self.client.request(method, url.clone()).headers(self.headers.clone());
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        match &self.signer {
            Some(signer) => request.headers(signer.headers(id, body)),
            None => request,
        }
    }

    /// What an answer's body says of the reason, without what the tool was sent in confidence.
    pub fn reason(&self, body: &[u8]) -> Option<String> {
        reason_given(body, self.token.as_ref())
    }

    /// What the tool said, as it may become part of an error.
    pub fn quoted(&self, text: &str) -> String {
        quoted(text, self.token.as_ref())
    }
}

fn headers(tool: &Tool) -> Result<HeaderMap, ToolError> {
    let mut headers = HeaderMap::new();
    for (name, value) in &tool.headers {
        let unusable = |reason: &str| ToolError::Header { tool: tool.name.clone(), header: name.clone(), reason: reason.to_owned() };
        let parsed = HeaderName::try_from(name).map_err(|_| unusable("it is not a header's name"))?;
        if OWN_HEADERS.contains(&parsed.as_str()) {
            return Err(unusable("this one is set by the box itself"));
        }
        if parsed == AUTHORIZATION && tool.bearer_file.is_some() {
            return Err(unusable("`bearer_file` sets it too: remove one of them"));
        }
        let mut value = HeaderValue::try_from(value).map_err(|_| unusable("its value holds characters that a header can't"))?;
        value.set_sensitive(true);
        headers.insert(parsed, value);
    }
    Ok(headers)
}

/// The token, and the header that it is sent as.
fn bearer(path: &Path) -> Result<(Secret, HeaderValue), SecretError> {
    let token = Secret::read(path)?;
    let value = HeaderValue::try_from(format!("Bearer {}", token.expose()));
    let mut value = value.map_err(|_| SecretError::Malformed { path: path.to_owned() })?;
    value.set_sensitive(true);
    Ok((token, value))
}
