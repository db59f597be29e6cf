//! Our voice: when it sounds, when it falls silent, and what is told of it.

use rtp_rs::{RtpPacketBuilder, Seq};

use super::rig::*;
use super::*;

#[test]
fn packets_leave_every_twenty_milliseconds_on_one_timeline_from_the_first_on() {
    let mut rig = Rig::new(plan());
    rig.silence(200);
    rig.speak(segment(1, 0), 100);
    rig.silence(2_000);
    assert_eq!(rig.sent.len(), 110);
    for (n, packet) in rig.sent.iter().enumerate() {
        assert_eq!(packet.sequence, 65_500u16.wrapping_add(n as u16));
        assert_eq!(packet.timestamp, (u32::MAX - 1_000).wrapping_add(160 * n as u32));
        assert_eq!(packet.marker, n == 0, "packet {n}");
        assert_eq!(packet.silent(), !(10..15).contains(&n), "packet {n}");
    }
    assert!(rig.sent.windows(2).all(|pair| pair[1].at_ms - pair[0].at_ms == 20));
}

#[test]
fn a_segment_is_started_and_sent_with_the_packets_that_carried_it() {
    let mut rig = Rig::new(plan());
    rig.silence(800);
    rig.speak(segment(1, 0), 50);
    rig.silence(100);
    let first = 65_500 + 40;
    assert_eq!(
        rig.playback_events(),
        [
            PlaybackEvent::Started { segment: segment(1, 0), at: recado_core::time::Time(1_805), packet: first, generation: Generation(0) },
            PlaybackEvent::Sent {
                segment: segment(1, 0),
                at: recado_core::time::Time(1_845),
                packet: first + 2,
                generation: Generation(0)
            },
        ]
    );
}

#[test]
fn a_voice_that_may_be_the_callers_silences_ours_at_the_next_frame_and_no_sample_is_lost() {
    let mut rig = Rig::new(plan());
    rig.silence(1_000);
    rig.speak(segment(1, 0), 2_000);
    rig.silence(500);
    let began = rig.ms;
    rig.hear(&voice(60));
    rig.silence(1_200);
    assert_eq!(rig.states(), [Acoustic::Suspected, Acoustic::Quiet]);
    let last_loud = rig.sent.iter().rev().find(|packet| !packet.silent()).unwrap().at_ms;
    assert!(last_loud < began + 40, "still speaking {} ms after the caller began", last_loud - began);

    let epoch = rig.session.listener.epoch();
    rig.command(Command::Playback(PlaybackCommand::Resume { playback: PlaybackId(1), epoch: AcousticEpoch(epoch.0 - 1) }));
    rig.silence(40);
    rig.command(Command::Playback(PlaybackCommand::Resume { playback: PlaybackId(1), epoch }));
    rig.silence(2_000);
    let heard: Vec<u8> = rig.sent.iter().filter(|packet| !packet.silent()).flat_map(|packet| packet.payload.clone()).collect();
    assert_eq!(heard, audio(2_000).octets.to_vec());
    let events = rig.playback_events();
    let [
        PlaybackEvent::Started { .. },
        PlaybackEvent::Paused { released_ms, .. },
        refused,
        PlaybackEvent::Resumed { .. },
        PlaybackEvent::Sent { .. },
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert!((500..=540).contains(released_ms), "{released_ms}");
    assert_eq!(*refused, PlaybackEvent::Refused { segment: segment(1, 0), epoch });
}

#[test]
fn a_command_to_sound_from_before_the_callers_voice_is_refused() {
    let mut rig = Rig::new(plan());
    rig.silence(1_000);
    let before = rig.session.listener.epoch();
    rig.hear(&voice(600));
    assert_eq!(rig.states()[..2], [Acoustic::Suspected, Acoustic::Speaking]);
    let epoch = rig.session.listener.epoch();
    rig.command(Command::Playback(PlaybackCommand::Speak { segment: segment(1, 0), audio: audio(100), last: true, epoch: before }));
    rig.silence(200);
    assert!(rig.sent.iter().all(Sent::silent));
    assert!(rig.playback_events().contains(&PlaybackEvent::Refused { segment: segment(1, 0), epoch }), "{epoch:?}");
    assert_eq!(rig.session.counts().refused, 1);
}

#[test]
fn a_clear_works_at_once_ends_the_generation_and_late_audio_of_it_is_discarded() {
    let mut rig = Rig::new(plan());
    rig.silence(100);
    let epoch = rig.session.listener.epoch();
    rig.command(Command::Playback(PlaybackCommand::Speak { segment: segment(1, 0), audio: audio(400), last: false, epoch }));
    rig.speak(segment(1, 1), 400);
    rig.silence(60);
    rig.command(Command::Playback(PlaybackCommand::Clear { playback: PlaybackId(1) }));
    rig.command(Command::Playback(PlaybackCommand::Append { segment: segment(1, 0), audio: audio(400), last: true }));
    rig.silence(200);
    assert_eq!(rig.sent.iter().filter(|packet| !packet.silent()).count(), 3);
    rig.speak(segment(2, 0), 20);
    rig.silence(40);
    rig.command(Command::Playback(PlaybackCommand::Clear { playback: PlaybackId(9) }));
    let events = rig.playback_events();
    assert!(matches!(events[0], PlaybackEvent::Started { generation: Generation(0), .. }));
    assert!(matches!(events[1], PlaybackEvent::Cleared { playback: PlaybackId(1), cut: Some((0, 60)), .. }), "{events:?}");
    assert!(matches!(events[2], PlaybackEvent::Started { generation: Generation(1), .. }));
    assert!(matches!(events[4], PlaybackEvent::Cleared { playback: PlaybackId(9), cut: None, .. }));
}

#[test]
fn on_hold_nothing_is_sent_the_timeline_goes_on_and_the_voice_goes_on_after_it() {
    let mut rig = Rig::new(plan());
    rig.silence(100);
    rig.speak(segment(1, 0), 400);
    rig.silence(100);
    rig.command(Command::Remote(Remote { direction: Direction::RecvOnly, ..remote() }));
    let before = rig.sent.len();
    rig.silence(1_000);
    assert_eq!(rig.sent.len(), before);
    rig.command(Command::Remote(remote()));
    rig.silence(500);
    let (last, next) = (&rig.sent[before - 1], &rig.sent[before]);
    assert_eq!(next.sequence, last.sequence.wrapping_add(1));
    assert_eq!(next.timestamp.wrapping_sub(last.timestamp), 51 * 160);
    assert!(next.marker && !rig.sent[before + 1].marker);
    let heard: Vec<u8> = rig.sent.iter().filter(|packet| !packet.silent()).flat_map(|packet| packet.payload.clone()).collect();
    assert_eq!(heard, audio(400).octets.to_vec());
    let events = rig.playback_events();
    assert!(matches!(events[1], PlaybackEvent::Paused { released_ms: 100, .. }), "{events:?}");
    assert!(matches!(events[2], PlaybackEvent::Resumed { .. }), "{events:?}");
    assert!(matches!(events[3], PlaybackEvent::Sent { generation: Generation(2), .. }), "{events:?}");
}

#[test]
fn nobody_taking_events_loses_none_about_playback() {
    let mut rig = Rig::new(plan());
    rig.silence(20);
    let mut accepted = 0;
    let packet = RtpPacketBuilder::new().payload_type(101).sequence(Seq::from(1)).ssrc(THEIRS).payload(&[1, 10, 0, 160]).build().unwrap();
    // What was accepted until then is said after that, with the pauses between.
    for n in 0..3_000u32 {
        let now = Nanos::from_ms(rig.ms);
        if n < 2_000 && rig.session.takes_commands() {
            let epoch = rig.session.listener.epoch();
            rig.session
                .command(now, Command::Playback(PlaybackCommand::Speak { segment: segment(1, n), audio: audio(20), last: true, epoch }));
            accepted += 1;
        }
        let mut digit = packet.clone();
        digit[4..8].copy_from_slice(&n.to_be_bytes());
        rig.session.rtp(now, &digit, rig.source);
        rig.session.tick(now);
        while rig.session.packet().is_some() {}
        rig.ms += 20;
    }
    rig.drain();
    let events = rig.playback_events();
    let count = |of: fn(&PlaybackEvent) -> bool| events.iter().filter(|event| of(event)).count();
    let sent = count(|event| matches!(event, PlaybackEvent::Sent { .. }));
    let refused = count(|event| matches!(event, PlaybackEvent::Refused { .. }));
    assert!(sent > 30, "{sent}");
    assert_eq!(sent + refused, accepted, "what found no room is told too");
    assert!(rig.session.counts().coalesced > 0);
}
