//! RTP ports: even ones from a range, each with the odd one after it for RTCP (RFC 3550 11).

use std::collections::{HashSet, VecDeque};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::error::MediaError;
use super::sys;

/// The ports of a box. They are taken at random and rest after use: an old caller's stream must never reach a new call.
#[derive(Debug)]
pub(super) struct Ports {
    address: IpAddr,
    first: u16,
    pairs: u16,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    busy: HashSet<u16>,
    resting: VecDeque<(Instant, u16)>,
}

/// A pair of bound sockets. Dropping it closes them, and lets the ports rest if the far end was [told](Self::tell) of them.
#[derive(Debug)]
pub struct PortPair {
    pub(super) rtp: UdpSocket,
    pub(super) rtcp: UdpSocket,
    port: u16,
    /// Whether anybody may know of it.
    told: bool,
    ports: Arc<Ports>,
}

impl Ports {
    pub(super) fn new(address: IpAddr, range: RangeInclusive<u16>) -> Result<Arc<Self>, MediaError> {
        let (first, last) = (*range.start(), *range.end());
        let even = first.checked_add(first % 2).filter(|even| *even > 0);
        let pairs = even.and_then(|even| u32::from(last).checked_sub(u32::from(even))).map_or(0, |width| width.div_ceil(2));
        match even {
            Some(first) if pairs > 0 => Ok(Arc::new(Self { address, first, pairs: pairs as u16, state: Mutex::default() })),
            _ => Err(MediaError::Range { first, last }),
        }
    }

    /// Binds a pair; `random` chooses where the search begins.
    pub(super) fn reserve(self: &Arc<Self>, now: Instant, random: u32) -> Result<PortPair, MediaError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.resting.front().is_some_and(|(since, _)| now.saturating_duration_since(*since) >= REST) {
            state.resting.pop_front();
        }
        let start = random % u32::from(self.pairs);
        for n in 0..u32::from(self.pairs) {
            let port = self.first + ((start + n) % u32::from(self.pairs)) as u16 * 2;
            if state.busy.contains(&port) || state.resting.iter().any(|(_, resting)| *resting == port) {
                continue;
            }
            let (Ok(rtp), Ok(rtcp)) = (self.bind(port), self.bind(port + 1)) else { continue };
            state.busy.insert(port);
            return Ok(PortPair { rtp, rtcp, port, told: false, ports: Arc::clone(self) });
        }
        Err(MediaError::NoPort { busy: state.busy.len(), resting: state.resting.len() })
    }

    fn bind(&self, port: u16) -> std::io::Result<UdpSocket> {
        let socket = UdpSocket::bind(SocketAddr::new(self.address, port))?;
        socket.set_nonblocking(true)?;
        sys::expedite(&socket);
        Ok(socket)
    }
}

impl PortPair {
    /// The far end is told of it: from now on it has to rest after use.
    pub fn tell(&mut self) {
        self.told = true;
    }

    /// The port of RTP; RTCP has the next.
    pub fn rtp_port(&self) -> u16 {
        self.port
    }

    /// The port of RTCP: the next one (RFC 3550 11).
    pub fn rtcp_port(&self) -> u16 {
        self.rtp_port().saturating_add(1)
    }
}

impl Drop for PortPair {
    fn drop(&mut self) {
        let mut state = self.ports.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.busy.remove(&self.port);
        if self.told {
            state.resting.push_back((Instant::now(), self.port));
        }
    }
}

/// Longer than any far end goes on sending to a call that is over.
const REST: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    const LOCALHOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn ports_are_even_chosen_at_random_and_rest_after_use() {
        let ports = Ports::new(LOCALHOST, 46_001..=46_008).unwrap();
        let now = Instant::now();
        let first = ports.reserve(now, 1).unwrap();
        assert_eq!(first.rtp_port(), 46_004);
        assert_eq!(first.rtcp.local_addr().unwrap().port(), 46_005);
        let used = |mut pair: PortPair| {
            pair.tell();
            pair.rtp_port()
        };
        assert_eq!(ports.reserve(now, 1).unwrap().rtp_port(), 46_006, "nobody was told of it");
        let others: Vec<u16> = (0..2).map(|_| used(ports.reserve(now, 1).unwrap())).collect();
        assert_eq!(others, [46_006, 46_002], "the first rests by then");
        assert!(matches!(ports.reserve(now, 0), Err(MediaError::NoPort { busy: 1, resting: 2 })));
        used(first);
        assert_eq!(ports.reserve(Instant::now() + REST, 1).unwrap().rtp_port(), 46_004);
    }

    #[test]
    fn a_port_that_another_program_holds_is_passed_over() {
        let taken = UdpSocket::bind((LOCALHOST, 46_103)).unwrap();
        let ports = Ports::new(LOCALHOST, 46_102..=46_105).unwrap();
        assert_eq!(ports.reserve(Instant::now(), 0).unwrap().rtp_port(), 46_104);
        drop(taken);
    }

    #[test]
    fn a_range_without_a_pair_is_refused() {
        for (first, last) in [(46_203, 46_204), (46_204, 46_204), (65_535, 65_535), (9, 3)] {
            assert!(matches!(Ports::new(LOCALHOST, first..=last), Err(MediaError::Range { .. })), "{first}-{last}");
        }
    }
}
