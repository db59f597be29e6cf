//! The real voice, heard at the far end.

use super::*;
use recado_core::conversation::Generation;
use recado_core::ids::ResponseId;
use recado_core::policy::Language;

struct Heard {
    voice: Voice,
    now: u64,
    told: Vec<PlaybackEvent>,
    released: Vec<Released>,
}

impl Heard {
    fn new(line: Line) -> Self {
        Self { voice: Voice::new(0, 3, line, false), now: 0, told: Vec::new(), released: Vec::new() }
    }

    fn speak(&mut self, playback: u128, index: u32, text: &str) {
        let content = Content::Text { text: text.into(), language: Language::Es };
        let epoch = self.voice.mouth.epoch();
        self.voice.speak(segment(playback, index), Purpose::Reply { response: ResponseId(1) }, &content, epoch, self.now);
    }

    /// Lets time pass from one thing that happens to the next; says how many there were.
    fn run(&mut self, ms: u64) -> usize {
        let end = self.now + ms;
        let mut steps = 0;
        while self.now < end {
            self.now = self.voice.next(self.now).unwrap_or(end).min(end);
            self.released.extend(self.voice.tick(self.now));
            self.told.extend(std::iter::from_fn(|| self.voice.told()));
            steps += 1;
        }
        steps
    }
}

fn segment(playback: u128, index: u32) -> SegmentRef {
    SegmentRef { playback: PlaybackId(playback), index }
}

#[test]
fn a_silent_call_costs_a_step_for_each_report() {
    let mut heard = Heard::new(Line { delay_ms: 20, ..Line::default() });
    assert_eq!(heard.run(60_000), 12);
    let reports: Vec<u64> = heard
        .told
        .iter()
        .filter_map(|event| if let PlaybackEvent::Report { highest_packet, .. } = event { Some(*highest_packet) } else { None })
        .collect();
    // The last is on its way.
    assert_eq!(reports.len(), 11);
    assert!(reports.windows(2).all(|pair| pair[1] - pair[0] == 250), "{reports:?}");
}

#[test]
fn a_false_start_changes_nothing_but_time_for_the_ear() {
    let mut heard = Heard::new(Line { delay_ms: 20, buffer_ms: 40, ..Line::default() });
    heard.speak(1, 0, "Le cuento una cosa");
    heard.run(400);
    heard.voice.edge(Acoustic::Suspected, 400, 400);
    heard.run(300);
    let edge = heard.voice.edge(Acoustic::Quiet, 700, 700);
    heard.voice.resume(PlaybackId(1), edge.epoch, heard.now);
    heard.run(3_000);
    let frames: Vec<u64> = heard.released.iter().map(|released| released.frame).collect();
    assert_eq!(frames, (0..engine::frames("Le cuento una cosa")).collect::<Vec<u64>>());
    let count = heard.voice.count(segment(1, 0));
    assert_eq!((count.audible, count.audible_to), (count.frames, count.frames));
    assert!(heard.voice.far_end.ear.windows(2).all(|pair| pair[1].0 >= pair[0].0 + FRAME));
}

#[test]
fn commands_that_find_no_room_while_the_media_thread_is_held_up_keep_their_order_and_a_clear_reaches_them() {
    let mut heard = Heard::new(Line::default());
    heard.voice.stall(1_000, 0);
    for index in 0..6 {
        heard.speak(1, index, "Dígame");
    }
    heard.speak(2, 0, "Muy bien");
    heard.run(500);
    assert!(heard.voice.order.holds_back() && heard.released.is_empty());
    heard.voice.clear(PlaybackId(1), heard.now);
    heard.run(3_000);
    // What had room goes before the clear, which comes a few milliseconds later.
    let of_the_first: Vec<_> = heard.released.iter().filter(|released| released.segment.playback == PlaybackId(1)).collect();
    assert!(matches!(of_the_first[..], [Released { segment: SegmentRef { index: 0, .. }, frame: 0, .. }]), "{of_the_first:?}");
    assert!(heard.voice.hears(segment(2, 0)) && !heard.voice.busy());
}

#[test]
fn on_hold_no_packet_leaves_and_what_it_paused_goes_on_in_another_generation() {
    let mut heard = Heard::new(Line::default());
    heard.speak(1, 0, "Le cuento una cosa");
    heard.run(400);
    heard.voice.hold(true, heard.now);
    heard.run(2_000);
    let before = heard.released.len();
    heard.voice.hold(false, heard.now);
    heard.run(8_000);
    assert!((15..25).contains(&before), "{before}");
    let generations: Vec<Generation> = heard
        .told
        .iter()
        .filter_map(|event| match event {
            PlaybackEvent::Started { generation, .. } | PlaybackEvent::Sent { generation, .. } => Some(*generation),
            _ => None,
        })
        .collect();
    assert_eq!(generations, [Generation(0), Generation(2)]);
    assert!(heard.voice.hears(segment(1, 0)));
}

#[test]
fn what_was_under_way_at_a_hang_up_is_not_heard() {
    let mut heard = Heard::new(Line { delay_ms: 40, buffer_ms: 60, ..Line::default() });
    heard.speak(1, 0, "Dígame");
    heard.run(430);
    assert!(matches!(heard.told.last(), Some(PlaybackEvent::Sent { .. })));
    assert!(heard.voice.hears(segment(1, 0)));
    heard.voice.close(heard.now);
    assert!(!heard.voice.hears(segment(1, 0)));
    assert_eq!(heard.voice.heard().count(), 0);
}
