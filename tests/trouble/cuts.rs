//! Where the box stopped its voice in a call. Every phrase ends with silence, and no ear can tell whether that was cut: the
//! trace says it, by packets that the ear has numbered too.

use std::collections::BTreeMap;
use std::path::Path;

use recado::demo::Ear;
use recado::traces::Library;
use recado_core::conversation::{Input, PlaybackEvent, SegmentRef};
use recado_trace::Trace;

/// A segment of which only the beginning left the box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The sequence number of its first packet.
    pub packet: u16,
    /// How much of it left the box (ms).
    pub released_ms: u64,
}

impl Cut {
    /// Whether this is what became of a phrase that seems whole to the ear: it began with this packet, and of what the box
    /// says that it kept back nothing was heard.
    pub fn is_of(self, ear: &Ear, from_ms: u64, to_ms: u64) -> bool {
        let ends_ms = from_ms + self.released_ms;
        let is_first = |(at, packet): &(usize, u16)| *packet == self.packet && (*at / MS) as u64 == from_ms;
        ends_ms < to_ms
            && ear.packets.iter().any(is_first)
            && ear.samples.get(ends_ms as usize * MS..to_ms as usize * MS).is_some_and(|rest| rest.iter().all(|sample| *sample == 0))
    }
}

/// What was cut in the last call of which there is a trace in `directory`.
pub fn last_cuts(directory: &Path) -> Vec<Cut> {
    let last = Library::open(directory).ok().and_then(|library| library.last().ok().map(|book| book.path.clone()));
    let text = last.and_then(|path| std::fs::read(path).ok()).unwrap_or_default();
    Trace::read(&String::from_utf8_lossy(&text)).map_or_else(|_| Vec::new(), |trace| cuts(&trace))
}

fn cuts(trace: &Trace) -> Vec<Cut> {
    let (mut begun, mut cuts): (BTreeMap<SegmentRef, u64>, Vec<Cut>) = Default::default();
    for entry in &trace.entries {
        let Ok(Input::Playback(event)) = serde_json::from_value(entry.input.clone()) else { continue };
        match event {
            PlaybackEvent::Started { segment, packet, .. } => {
                begun.insert(segment, packet);
            }
            PlaybackEvent::Cleared { playback, cut: Some((index, released_ms)), .. } => {
                let packet = begun.get(&SegmentRef { playback, index });
                cuts.extend(packet.map(|packet| Cut { packet: *packet as u16, released_ms }));
            }
            _ => {}
        }
    }
    cuts
}

/// Samples per millisecond.
const MS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_says_where_the_voice_was_stopped() {
        let trace = Trace::read(include_str!("../traces/killed-in-a-call.trace")).expect("a trace");
        let cuts = cuts(&trace);
        assert!(!cuts.is_empty() && cuts.iter().all(|cut| cut.released_ms % 20 == 0), "{cuts:?}");
    }

    #[test]
    fn a_cut_is_of_what_began_with_its_packet_and_was_silent_from_there_on() {
        let ear = Ear { samples: [vec![9_000; 800], vec![0; 800]].concat(), packets: vec![(0, 7), (160, 8)] };
        let cut = |packet, released_ms| Cut { packet, released_ms };
        assert!(cut(7, 100).is_of(&ear, 0, 200));
        assert!(!cut(8, 100).is_of(&ear, 0, 200), "of another phrase");
        assert!(!cut(7, 80).is_of(&ear, 0, 200), "more was heard");
        assert!(!cut(7, 200).is_of(&ear, 0, 200), "all of it left the box");
    }
}
