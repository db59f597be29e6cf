//! `[sip]`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde::Deserialize;

use super::check::Checker;
use super::tree::Path;
use crate::surface::Network;

/// Signalling: where calls come in, from whom, and their limits.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sip {
    /// Address and port (UDP) that SIP is received on.
    pub listen: SocketAddr,
    /// The address that phones are told to reach; see [`Sip::advertised`].
    pub advertised: Option<IpAddr>,
    /// User parts that calls are accepted for; any when empty.
    pub users: Vec<String>,
    /// Networks that requests are accepted from.
    pub allow: Vec<Network>,
    /// Calls at a time; a further one is told 486 (Busy Here).
    pub calls_max: u32,
    /// How long it rings before it answers (ms).
    pub ring_ms: u64,
    /// How long a call may take (ms).
    pub call_ms_max: u64,
    /// After how long without a packet from the far end a call is ended (ms).
    pub rtp_silence_ms: u64,
}

impl Default for Sip {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 5060)),
            advertised: None,
            users: Vec::new(),
            allow: Network::loopback(),
            calls_max: 20,
            ring_ms: 0,
            call_ms_max: 3_600_000,
            rtp_silence_ms: 30_000,
        }
    }
}

impl Sip {
    /// The address that phones are told to reach, in Contact and in SDP.
    pub fn advertised(&self) -> IpAddr {
        self.advertised.unwrap_or(self.listen.ip())
    }

    /// Whether requests from `source` are accepted.
    pub fn allows(&self, source: IpAddr) -> bool {
        self.allow.iter().any(|network| network.contains(source))
    }

    pub(super) fn check(&self, checker: &mut Checker<'_>) {
        let at = |key| Path::of("sip").join(key);
        checker.within(&at("calls_max"), self.calls_max.into(), 1..=CALLS_MAX);
        checker.within(&at("ring_ms"), self.ring_ms, 0..=RING_MS_MAX);
        checker.within(&at("call_ms_max"), self.call_ms_max, CALL_MS_LEAST..=CALL_MS_MOST);
        checker.within(&at("rtp_silence_ms"), self.rtp_silence_ms, RTP_SILENCE_MS_LEAST..=RTP_SILENCE_MS_MOST);
        self.check_reach(checker, &at("listen"), &at("advertised"), &at("allow"));
        for (index, user) in self.users.iter().enumerate() {
            let stray = |c: char| c.is_whitespace() || matches!(c, '@' | ':' | '<' | '>');
            if user.is_empty() || user.chars().any(stray) {
                let what = format!("{user:?} is not the user part of an address, which is what stands before the @");
                let part = user.trim_start_matches("sip:").split('@').next().unwrap_or_default().replace(stray, "");
                let part = if part.is_empty() { "recado" } else { &part };
                checker.error(&at("users").join(index), what, format!("users = [{part:?}]"));
            }
        }
    }

    /// A box that others can reach says whom it listens to and where it is.
    fn check_reach(&self, checker: &mut Checker<'_>, listen: &Path, advertised: &Path, allow: &Path) {
        let others = !self.listen.ip().is_loopback() || self.advertised.is_some_and(|address| !address.is_loopback());
        if self.listen.port() == 0 && others {
            checker.error(
                listen,
                "phones can't find a port that is chosen at each start",
                format!("listen = \"{}\"", SocketAddr::new(self.listen.ip(), 5060)),
            );
        }
        if self.allow.is_empty() {
            checker.error(allow, "an empty list accepts nobody", "allow = [\"127.0.0.0/8\"]");
        } else if !self.listen.ip().is_loopback() && !checker.written(allow) {
            let what = format!("others can reach {}, and `allow` does not say whose calls are accepted", self.listen);
            checker.error(listen, what, format!("allow = [\"{}\"] with the networks of your phones", example_network(self.listen.ip())));
        } else if !self.listen.ip().is_loopback() && self.allow.iter().all(Network::is_loopback) {
            let what = format!("others can reach {}, but only this machine is accepted", self.listen);
            checker.warning(allow, what, format!("allow = [\"{}\"]", example_network(self.listen.ip())));
        }
        if self.allow.iter().any(Network::is_everybody) {
            let what = "it accepts calls from the whole internet, scanners included";
            checker.warning(allow, what, format!("allow = [\"{}\"]", example_network(self.listen.ip())));
        }
        if self.advertised().is_unspecified() {
            let (path, what) = match self.advertised {
                Some(address) => (advertised, format!("phones can't call {address}")),
                None => {
                    (listen, format!("{} stands for every address, and `advertised` does not say which one phones reach", self.listen.ip()))
                }
            };
            checker.error(path, what, "advertised = \"192.0.2.10\" with this box's own address");
        } else if self.advertised.is_some() && self.advertised().is_ipv4() != self.listen.is_ipv4() && !self.listen.ip().is_unspecified() {
            let what = format!("{} and listen {} are of different IP versions", self.advertised(), self.listen);
            checker.error(advertised, what, format!("advertised = \"{}\"", self.listen.ip()));
        }
    }
}

fn example_network(listen: IpAddr) -> &'static str {
    if listen.is_ipv4() { "192.168.0.0/16" } else { "fd00::/8" }
}

/// The box is measured with dozens of calls; beyond this a configuration is a slip.
pub(super) const CALLS_MAX: u64 = 500;
/// Callers give up before a minute, and proxies cancel at three.
const RING_MS_MAX: u64 = 60_000;
/// A call shorter than this can't hold a turn and its answer.
const CALL_MS_LEAST: u64 = 10_000;
/// A day.
const CALL_MS_MOST: u64 = 86_400_000;
/// Phones that suppress silence send nothing for seconds.
const RTP_SILENCE_MS_LEAST: u64 = 5_000;
/// A call whose phone is gone holds its ports and its party for so long.
const RTP_SILENCE_MS_MOST: u64 = 600_000;
