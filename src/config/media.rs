//! `[media]`.

use std::path::PathBuf;

use serde::Deserialize;

use super::check::Checker;
use super::port_range::PortRange;
use super::tree::Path;

/// RTP: its ports, its thread, its recordings.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Media {
    /// UDP ports; a call takes two.
    pub ports: PortRange,
    /// Whether the media thread asks for FIFO scheduling, where the system permits it.
    pub realtime: bool,
    /// Where calls are recorded, one file each; off when not given. A relative path starts from the data directory.
    pub recordings: Option<PathBuf>,
}

impl Default for Media {
    fn default() -> Self {
        Self { ports: PortRange { first: 20_000, last: 20_999 }, realtime: true, recordings: None }
    }
}

impl Media {
    pub(super) fn check(&self, checker: &mut Checker<'_>, calls_max: u32) {
        let (path, pairs) = (Path::of("media.ports"), self.ports.pairs());
        if pairs < calls_max {
            let first = self.ports.first.next_multiple_of(2);
            let needed = calls_max.saturating_mul(PORTS_PER_CALL * WITH_REST).saturating_sub(1);
            let last = u16::try_from(u32::from(first).saturating_add(needed));
            let instead = last.map_or_else(|_| "ports = \"20000-20999\"".to_owned(), |last| format!("ports = \"{first}-{last}\""));
            let what = format!("{} holds {pairs} pairs of ports, and sip.calls_max = {calls_max} calls take one each", self.ports);
            checker.error(&path, what, instead);
        }
        if let Some(recordings) = self.recordings.as_ref().filter(|recordings| recordings.is_file()) {
            let what = format!("{} is a file", recordings.display());
            checker.error(&Path::of("media.recordings"), what, "recordings = \"recordings\"");
        }
    }
}

/// One for RTP, one for RTCP.
const PORTS_PER_CALL: u32 = 2;
/// Ports rest after a call; with as many again, the next one need not wait for them.
const WITH_REST: u32 = 2;
