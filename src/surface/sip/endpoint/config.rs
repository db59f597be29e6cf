//! Settings of the endpoint.

use std::net::SocketAddr;
use std::time::Duration;

use super::command::Admission;
use crate::surface::Network;
use crate::surface::sip::error::SipError;

/// Who we are, whom we serve, and our limits.
#[derive(Debug, Clone)]
pub struct EndpointConfig {
    /// What callers reach us at: goes into Contact and Via.
    pub advertised: SocketAddr,
    /// Whom calls may be for.
    pub users: Users,
    /// From where requests are taken; from elsewhere they get 403. None means nobody.
    pub allowed_sources: Vec<Network>,
    /// Calls at the same time; one more gets 486.
    pub calls_max: usize,
    /// Server transactions at the same time. Each lives up to 64*T1 after its answer and holds about a
    /// kilobyte, at the very most nine.
    pub transactions_max: usize,
    /// Of these, from one address. A PBX is one address: 20 calls a second take 1,300.
    pub transactions_per_source_max: usize,
    /// `Server` and `User-Agent`.
    pub product: String,
    /// RFC 3261 T1: round-trip estimate.
    pub t1: Duration,
    /// RFC 3261 T2: longest retransmission interval.
    pub t2: Duration,
    /// RFC 3261 T4: longest life of a datagram in the network.
    pub t4: Duration,
    /// How long the application may leave a call unanswered before it gets 480.
    pub unanswered_max: Duration,
    /// Seconds, for the `Retry-After` of overload.
    pub retry_after_s: u32,
    /// Whether calls are taken from the start.
    pub admission: Admission,
}

impl EndpointConfig {
    /// The defaults: any user, callers from private networks only, 16 calls.
    pub fn new(advertised: SocketAddr) -> Self {
        Self {
            advertised,
            users: Users::Any,
            allowed_sources: LOCAL_NETWORKS.iter().filter_map(|network| network.parse().ok()).collect(),
            calls_max: 16,
            transactions_max: 8192,
            transactions_per_source_max: 4096,
            product: concat!("recado/", env!("CARGO_PKG_VERSION")).to_owned(),
            t1: Duration::from_millis(500),
            t2: Duration::from_secs(4),
            t4: Duration::from_secs(5),
            unanswered_max: Duration::from_secs(180),
            retry_after_s: 10,
            admission: Admission::Open,
        }
    }

    pub(super) fn check(&self) -> Result<(), SipError> {
        if self.advertised.ip().is_unspecified() || self.advertised.port() == 0 {
            return Err(SipError::BadAdvertisedAddress(self.advertised));
        }
        Ok(())
    }
}

/// Whom calls may be for, by the user part of the Request-URI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Users {
    /// Anybody.
    Any,
    /// These; others get 404.
    Listed(Vec<String>),
}

impl Users {
    pub(super) fn accept(&self, user: Option<&str>) -> bool {
        match self {
            Users::Any => true,
            Users::Listed(users) => user.is_some_and(|user| users.iter().any(|listed| listed == user)),
        }
    }
}

/// Private, shared, link-local and loopback networks (RFC 1918, 6598, 3927, 4193, 4291).
const LOCAL_NETWORKS: [&str; 9] =
    ["127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16", "::1/128", "fc00::/7", "fe80::/10"];
