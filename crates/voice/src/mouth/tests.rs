//! A mouth in virtual time: what leaves, and what is told of it.

use super::*;
use crate::playback::BREATH_FRAMES;

/// Audio that is only counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Samples(usize);

impl Audio for Samples {
    fn samples(&self) -> usize {
        self.0
    }
}

struct Rig {
    mouth: Mouth<Samples>,
    now: Time,
    told: Vec<PlaybackEvent>,
    left: Vec<Released>,
}

impl Rig {
    fn new() -> Self {
        Self { mouth: Mouth::new(100, true), now: Time(0), told: Vec::new(), left: Vec::new() }
    }

    fn command(&mut self, command: PlaybackCommand<Samples>) {
        let told = &mut self.told;
        self.mouth.command(command, self.now, &mut |event| told.push(event));
    }

    fn speak(&mut self, playback: u128, index: u32, frames: usize) {
        let epoch = self.mouth.epoch();
        self.command(PlaybackCommand::Speak { segment: segment(playback, index), audio: Samples(frames * 160), last: true, epoch });
    }

    fn edge(&mut self, to: Acoustic) {
        let edge = AcousticEdge { to, epoch: AcousticEpoch(self.mouth.epoch().0 + 1), at: self.now };
        let told = &mut self.told;
        self.mouth.edge(edge, self.now, &mut |event| told.push(event));
    }

    fn renegotiate(&mut self, sends: bool) {
        let told = &mut self.told;
        self.mouth.renegotiated(sends, self.now, &mut |event| told.push(event));
    }

    fn report(&mut self, highest: u32, lost: i64) {
        let told = &mut self.told;
        self.mouth.report(highest, lost, self.now, &mut |event| told.push(event));
    }

    /// So many frame intervals pass.
    fn run(&mut self, intervals: u64) {
        for _ in 0..intervals {
            let told = &mut self.told;
            match self.mouth.frame(self.now, |_, _| (), &mut |event| told.push(event)) {
                Some(released) => self.left.push(released),
                None => {
                    self.mouth.silence(1);
                }
            }
            self.now = self.now.plus(20);
        }
    }

    fn told(&mut self) -> Vec<PlaybackEvent> {
        std::mem::take(&mut self.told)
    }
}

fn segment(playback: u128, index: u32) -> SegmentRef {
    SegmentRef { playback: PlaybackId(playback), index }
}

#[test]
fn a_segment_starts_and_ends_with_the_packets_that_carry_it() {
    let mut rig = Rig::new();
    rig.run(5);
    rig.speak(1, 0, 3);
    rig.run(5);
    let generation = Generation(0);
    let expected = [
        PlaybackEvent::Started { segment: segment(1, 0), at: Time(100), packet: 105, generation },
        PlaybackEvent::Sent { segment: segment(1, 0), at: Time(140), packet: 107, generation },
    ];
    assert_eq!(rig.told(), expected);
    assert_eq!(rig.left.iter().map(|released| released.packet).collect::<Vec<_>>(), [105, 106, 107]);
    assert!(rig.mouth.is_empty());
    assert_eq!(rig.mouth.spent(), Some(Samples(480)));
}

#[test]
fn a_suspicion_pauses_and_only_a_resumption_of_its_own_epoch_goes_on() {
    let mut rig = Rig::new();
    rig.speak(1, 0, 4);
    rig.run(2);
    rig.edge(Acoustic::Suspected);
    rig.run(10);
    assert!(rig.mouth.next_frame_in().is_none());
    let suspected = rig.mouth.epoch();
    rig.edge(Acoustic::Quiet);
    rig.told();
    rig.command(PlaybackCommand::Resume { playback: PlaybackId(1), epoch: suspected });
    let epoch = rig.mouth.epoch();
    assert_eq!(rig.told(), [PlaybackEvent::Refused { segment: segment(1, 0), epoch }]);
    rig.command(PlaybackCommand::Resume { playback: PlaybackId(9), epoch });
    assert_eq!(rig.told(), [], "another playback");
    rig.command(PlaybackCommand::Resume { playback: PlaybackId(1), epoch });
    rig.run(5);
    assert!(matches!(rig.told()[..], [PlaybackEvent::Resumed { .. }, PlaybackEvent::Sent { packet: 113, .. }]));
    assert_eq!(rig.left.len(), 4);
}

#[test]
fn what_was_decided_before_the_clock_moved_is_refused_and_handed_back() {
    let mut rig = Rig::new();
    let before = rig.mouth.epoch();
    rig.edge(Acoustic::Suspected);
    rig.command(PlaybackCommand::Speak { segment: segment(1, 0), audio: Samples(160), last: true, epoch: before });
    assert_eq!(rig.told(), [PlaybackEvent::Refused { segment: segment(1, 0), epoch: rig.mouth.epoch() }]);
    assert_eq!(rig.mouth.spent(), Some(Samples(160)));
    rig.run(3);
    assert_eq!(rig.left, []);
}

#[test]
fn a_clear_ends_the_generation_and_a_report_closes_it_once() {
    let mut rig = Rig::new();
    rig.speak(1, 0, 10);
    rig.run(4);
    rig.command(PlaybackCommand::Clear { playback: PlaybackId(1) });
    assert_eq!(rig.told()[1], PlaybackEvent::Cleared { playback: PlaybackId(1), cut: Some((0, 80)), at: Time(80) });
    rig.speak(2, 0, 2);
    rig.run(4);
    assert!(matches!(rig.told()[..], [PlaybackEvent::Started { generation: Generation(1), .. }, PlaybackEvent::Sent { .. }]));
    rig.report(0x7_0000 + 105, 1);
    let told: Vec<(u32, u64)> = rig
        .told()
        .iter()
        .map(|event| match event {
            PlaybackEvent::Report { generation, highest_packet, cumulative_lost: 1, .. } => (generation.0, *highest_packet),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(told, [(0, 103), (1, 105)]);
    rig.report(300, 0);
    assert_eq!(rig.told(), [], "a packet that was never sent");
}

#[test]
fn what_only_the_hold_paused_goes_on_after_it_and_what_the_caller_paused_does_not() {
    let mut rig = Rig::new();
    rig.speak(1, 0, 10);
    rig.run(2);
    rig.renegotiate(false);
    rig.renegotiate(true);
    assert!(matches!(
        rig.told()[..],
        [PlaybackEvent::Started { .. }, PlaybackEvent::Paused { released_ms: 40, .. }, PlaybackEvent::Resumed { .. }]
    ));
    assert_eq!(rig.mouth.generation(), Generation(2));
    rig.renegotiate(false);
    rig.edge(Acoustic::Suspected);
    rig.edge(Acoustic::Quiet);
    rig.renegotiate(true);
    assert!(rig.mouth.next_frame_in().is_none(), "the conversation decides whether it goes on");
    rig.renegotiate(false);
    rig.command(PlaybackCommand::Resume { playback: PlaybackId(1), epoch: rig.mouth.epoch() });
    rig.told();
    rig.renegotiate(true);
    assert!(matches!(rig.told()[..], [PlaybackEvent::Resumed { .. }]), "decided on hold, done after it");
}

#[test]
fn after_the_close_nothing_is_accepted_and_late_reports_still_count() {
    let mut rig = Rig::new();
    rig.speak(1, 0, 10);
    rig.run(2);
    rig.mouth.close();
    assert!(rig.mouth.is_empty());
    rig.told();
    rig.speak(1, 1, 1);
    rig.report(101, 0);
    assert!(matches!(rig.told()[..], [PlaybackEvent::Refused { .. }, PlaybackEvent::Report { highest_packet: 101, .. }]));
}

#[test]
fn who_speaks_up_in_the_pause_after_a_segment_cuts_nothing_of_it() {
    let mut rig = Rig::new();
    rig.speak(1, 0, 3);
    rig.speak(1, 1, 3);
    rig.run(4);
    assert!(matches!(rig.told()[..], [PlaybackEvent::Started { .. }, PlaybackEvent::Sent { segment: sent, .. }] if sent == segment(1, 0)));
    rig.edge(Acoustic::Suspected);
    assert!(matches!(rig.told()[..], [PlaybackEvent::Paused { segment: at, released_ms: 0, .. }] if at == segment(1, 1)));
    rig.command(PlaybackCommand::Clear { playback: PlaybackId(1) });
    assert!(matches!(rig.told()[..], [PlaybackEvent::Cleared { cut: Some((1, 0)), .. }]));
    // And behind the last one there is nothing to pause.
    rig.edge(Acoustic::Quiet);
    rig.speak(2, 0, 3);
    rig.run(8);
    assert!(matches!(rig.told()[..], [PlaybackEvent::Started { .. }, PlaybackEvent::Sent { .. }]));
    rig.edge(Acoustic::Suspected);
    assert_eq!(rig.told(), []);
}

#[test]
fn the_pause_between_two_segments_is_over_when_silence_has_left_for_it() {
    let mut rig = Rig::new();
    rig.speak(1, 0, 2);
    rig.speak(1, 1, 1);
    rig.run(2 + BREATH_FRAMES + 1);
    let packets: Vec<u64> = rig.left.iter().map(|released| released.packet).collect();
    assert_eq!(packets, [100, 101, 102 + BREATH_FRAMES]);
    // Silence that leaves anyway is no longer for it.
    rig.run(BREATH_FRAMES);
    rig.speak(2, 0, 1);
    assert_eq!(rig.mouth.next_frame_in(), Some(0));
}
