//! `[http]`.

use std::net::{Ipv4Addr, SocketAddr};

use reqwest::Url;
use serde::Deserialize;

use super::check::Checker;
use super::tree::Path;

/// The box's own HTTP server: callbacks of tools, health, measures.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    /// Address and port that it listens on.
    pub listen: SocketAddr,
    /// The URL that tools reach it by, where that is another one, such as a reverse proxy's.
    pub advertised: Option<String>,
}

impl Default for Http {
    fn default() -> Self {
        Self { listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)), advertised: None }
    }
}

impl Http {
    /// What callback URLs begin with; no slash at the end.
    pub fn callback_base(&self, listening: SocketAddr) -> String {
        match &self.advertised {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => format!("http://{listening}"),
        }
    }

    pub(super) fn check(&self, checker: &mut Checker<'_>) {
        let (listen, advertised) = (Path::of("http.listen"), Path::of("http.advertised"));
        if !self.listen.ip().is_loopback() {
            let what = format!("others can reach {}: health and measures are shown to whoever asks", self.listen);
            checker.warning(&listen, what, format!("listen = \"127.0.0.1:{}\" and a reverse proxy for the callbacks", self.listen.port()));
        }
        match self.advertised.as_deref().map(Url::parse) {
            Some(Ok(url)) if matches!(url.scheme(), "http" | "https") && url.query().is_none() && url.fragment().is_none() => {}
            Some(_) => checker.error(
                &advertised,
                "this is not an http:// or https:// URL without query and fragment",
                "advertised = \"https://box.example\"",
            ),
            None if self.listen.ip().is_unspecified() => {
                let what = format!("tools can't call back to {}, which stands for every address", self.listen.ip());
                checker.error(
                    &listen,
                    what,
                    format!("advertised = \"http://192.0.2.10:{}\" with this box's own address", self.listen.port()),
                );
            }
            None => {}
        }
    }
}
