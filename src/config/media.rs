//! `[media]`.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;

use super::check::Checker;
use super::port_range::PortRange;
use super::sip::CALLS_MAX;
use super::tree::Path;
use super::{Http, Sip};
use crate::surface::Network;

/// RTP: its ports, its thread, its recordings.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Media {
    /// UDP ports; a call takes two.
    pub ports: PortRange,
    /// Whether the media thread asks for FIFO scheduling, where the system permits it.
    pub realtime: bool,
    /// Networks that a call's RTP is taken from, besides the address that its SDP names and the one that its signalling comes from.
    pub also_from: Vec<Network>,
    /// Where calls are recorded, one file each; off when not given. A relative path starts from the data directory.
    pub recordings: Option<PathBuf>,
}

impl Default for Media {
    fn default() -> Self {
        Self {
            ports: PortRange { first: FIRST_PROPOSED, last: FIRST_PROPOSED + 999 },
            realtime: true,
            also_from: Vec::new(),
            recordings: None,
        }
    }
}

impl Media {
    pub(super) fn check(&self, checker: &mut Checker<'_>, sip: &Sip, http: &Http) {
        let (path, pairs) = (Path::of("media.ports"), self.ports.pairs());
        // Other limits speak for themselves.
        let calls_max = sip.calls_max.clamp(1, u32::try_from(CALLS_MAX).unwrap_or(u32::MAX));
        let taken = taken(sip, http);
        if pairs < calls_max {
            let what = format!("{} holds {pairs} pairs of ports, and sip.calls_max = {calls_max} calls take one each", self.ports);
            checker.error(&path, what, format!("ports = \"{}\"", free(self.ports.first, calls_max, &taken)));
        } else if let Some((setting, address)) = taken.iter().find(|(_, address)| self.ports.contains(address.port())) {
            let port = address.port();
            if checker.written(&path) {
                let what = format!("{} holds port {port}, which is that of {setting} = \"{address}\"", self.ports);
                checker.error(&path, what, format!("ports = \"{}\"", free(FIRST_PROPOSED, calls_max, &taken)));
            } else {
                let what = format!("port {port} is one of those for media, media.ports = \"{}\"", self.ports);
                let usual = if *setting == SIP_LISTEN { 5060 } else { 8080 };
                let instead = format!("listen = \"{}\"", SocketAddr::new(address.ip(), usual));
                checker.error(&Path::of(setting), what, instead);
            }
        }
        if let Some(index) = self.also_from.iter().position(Network::is_everybody) {
            let what = "whoever sends first to a call's port is listened to and answered, wherever from";
            checker.warning(
                &Path::of("media.also_from").join(index),
                what,
                "also_from = [\"192.0.2.0/24\"] with the networks of your media relays",
            );
        }
        if let Some(recordings) = &self.recordings {
            checker.keeps(&Path::of("media.recordings"), recordings, "recordings = \"recordings\"");
        }
    }
}

/// What listens where calls' media comes in too, with its port. TCP has ports of its own; a firewall's rules and people confuse them.
fn taken(sip: &Sip, http: &Http) -> Vec<(&'static str, SocketAddr)> {
    let (sip, http) = (sip.listen, http.listen);
    let same_address = sip.ip() == http.ip() || sip.ip().is_unspecified() || http.ip().is_unspecified();
    let http = same_address.then_some(("http.listen", http));
    // One that is chosen at each start is chosen among those that are free.
    std::iter::once((SIP_LISTEN, sip)).chain(http).filter(|(_, address)| address.port() != 0).collect()
}

/// A range for so many calls that holds nothing that is taken: from the first one on where it can be.
fn free(first: u16, calls_max: u32, taken: &[(&str, SocketAddr)]) -> PortRange {
    let needed = calls_max.saturating_mul(PORTS_PER_CALL * WITH_REST);
    // Two are taken at most, so one of three ranges that share no port holds neither.
    let firsts = [
        u32::from(first).next_multiple_of(2),
        u32::from(FIRST_PROPOSED),
        u32::from(FIRST_PROPOSED) + 10_000,
        u32::from(FIRST_PROPOSED) + 20_000,
    ];
    let ranges = firsts.into_iter().filter_map(|first| {
        let last = u16::try_from(first.checked_add(needed.max(1))? - 1).ok()?;
        Some(PortRange { first: u16::try_from(first).ok()?, last })
    });
    let mut ranges = ranges.filter(|range| taken.iter().all(|(_, address)| !range.contains(address.port())));
    ranges.next().unwrap_or(Media::default().ports)
}

const SIP_LISTEN: &str = "sip.listen";
/// Below the ports that systems give to whoever asks for any.
const FIRST_PROPOSED: u16 = 20_000;
/// One for RTP, one for RTCP.
const PORTS_PER_CALL: u32 = 2;
/// Ports rest after a call; with as many again, the next one need not wait for them.
const WITH_REST: u32 = 2;
