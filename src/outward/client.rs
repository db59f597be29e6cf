//! The HTTP clients of this box: each does what it is asked, there and once, and trusts whom it is told to.

use std::path::Path;
use std::time::Duration;

use reqwest::{Client, Url};
use rustls::{ClientConfig, RootCertStore};

use super::trust::{ClientFault, SystemAuthorities, tls};

/// How a client uses connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Connections {
    /// How long one may take until it stands; none where what is asked has a time of its own that bounds it.
    pub connect_timeout: Option<Duration>,
    /// How long one that nothing is asked on is kept.
    pub idle_kept: Duration,
    /// How many such are kept; none where that is bounded by how much is asked at a time.
    pub idle_max: Option<usize>,
}

/// A client for what is at `url`: by `https` it trusts the system's authorities and those in `ca_file`.
pub(crate) fn client_for(url: &Url, ca_file: Option<&Path>, connections: Connections) -> Result<Client, ClientFault> {
    match url.scheme() {
        "https" => SystemAuthorities::load().client(ca_file, connections),
        _ => plain_client(None, connections),
    }
}

/// A client for HTTP without TLS, through a proxy where there is one. Without authorities, nothing can be reached by `https`, and nothing is.
pub(crate) fn plain_client(proxy: Option<&Url>, connections: Connections) -> Result<Client, ClientFault> {
    build(tls(RootCertStore::empty()).map_err(ClientFault::Client)?, connections, proxy)
}

impl SystemAuthorities {
    /// A client that trusts these, and those in `ca_file`.
    pub(crate) fn client(&self, ca_file: Option<&Path>, connections: Connections) -> Result<Client, ClientFault> {
        build(self.tls(ca_file)?, connections, None)
    }

    /// The same through a proxy.
    pub(crate) fn client_through(
        &self,
        proxy: Option<&Url>,
        ca_file: Option<&Path>,
        connections: Connections,
    ) -> Result<Client, ClientFault> {
        build(self.tls(ca_file)?, connections, proxy)
    }
}

fn build(tls: ClientConfig, connections: Connections, proxy: Option<&Url>) -> Result<Client, ClientFault> {
    let mut builder = Client::builder()
        .tls_backend_preconfigured(tls)
        // Where else something is asked, and whether once more, is for whoever asks to say.
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        // The environment's is never used: what a box asks, and through whom, stands in its configuration.
        .no_proxy()
        .referer(false)
        .pool_idle_timeout(connections.idle_kept)
        .user_agent(USER_AGENT);
    if let Some(timeout) = connections.connect_timeout {
        builder = builder.connect_timeout(timeout);
    }
    if let Some(idle_max) = connections.idle_max {
        builder = builder.pool_max_idle_per_host(idle_max);
    }
    if let Some(proxy) = proxy {
        builder = builder.proxy(reqwest::Proxy::all(proxy.clone()).map_err(|error| ClientFault::Client(error.to_string()))?);
    }
    builder.build().map_err(|error| ClientFault::Client(error.to_string()))
}

/// What this box calls itself.
pub(crate) const USER_AGENT: &str = concat!("recado/", env!("CARGO_PKG_VERSION"));
