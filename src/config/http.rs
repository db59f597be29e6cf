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
            checker.warning(
                &listen,
                what,
                format!("listen = \"127.0.0.1:{}\" and a reverse proxy for the callbacks", port_of(self.listen)),
            );
        }
        if self.listen.port() == 0 && (!self.listen.ip().is_loopback() || self.advertised.is_some()) {
            let what = "nobody can find a port that is chosen at each start, and tools call back after a restart too";
            checker.error(&listen, what, format!("listen = \"{}\"", SocketAddr::new(self.listen.ip(), 8080)));
        }
        match self.advertised.as_deref().map(Url::parse) {
            Some(Ok(url)) if !url.username().is_empty() || url.password().is_some() => {
                let what = "the URL that every tool is given, and logs, holds a credential";
                checker.error(&advertised, what, "the URL without it: a callback proves itself with its own token");
            }
            Some(Ok(url)) if url.port() == Some(0) => {
                checker.error(&advertised, "nobody can be reached at port 0", "advertised = \"https://box.example\"");
            }
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
                    format!("advertised = \"http://192.0.2.10:{}\" with this box's own address", port_of(self.listen)),
                );
            }
            None => {}
        }
    }
}

/// The port to propose: the one that was written, where it is one.
fn port_of(listen: SocketAddr) -> u16 {
    if listen.port() == 0 { 8080 } else { listen.port() }
}
