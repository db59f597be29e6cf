//! Real calls, and what is none.

use super::rig::*;
use super::*;

/// The datagrams of a capture (pcap or pcapng, IPv4 over Ethernet or loopback): when (ms), from where, and what.
fn capture(name: &str) -> Option<Vec<(u64, SocketAddr, Vec<u8>)>> {
    let path = format!("{}/../shared/cases/b_captures/{name}", env!("CARGO_MANIFEST_DIR"));
    let Ok(bytes) = std::fs::read(&path) else {
        println!("skipped: {path} is missing");
        return None;
    };
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut frames: Vec<(u64, &[u8])> = Vec::new();
    let mut link = 1;
    if word(0) == 0x0A0D_0D0A {
        let mut at = 0;
        while at + 12 <= bytes.len() {
            match word(at) {
                1 => link = word(at + 8) & 0xFFFF,
                6 => {
                    let us = u64::from(word(at + 12)) << 32 | u64::from(word(at + 16));
                    frames.push((us, &bytes[at + 28..at + 28 + word(at + 20) as usize]));
                }
                _ => {}
            }
            at += word(at + 4) as usize;
        }
    } else {
        link = word(20);
        let mut at = 24;
        while at + 16 <= bytes.len() {
            let end = at + 16 + word(at + 8) as usize;
            frames.push((u64::from(word(at)) * 1_000_000 + u64::from(word(at + 4)), &bytes[at + 16..end]));
            at = end;
        }
    }
    let origin = frames.first()?.0;
    let datagram = |(us, frame): (u64, &[u8])| {
        let ip = &frame[if link == 1 { 14 } else { 4 }..];
        let udp = &ip[usize::from(ip[0] & 15) * 4..];
        let source = SocketAddr::from(([ip[12], ip[13], ip[14], ip[15]], u16::from_be_bytes([udp[0], udp[1]])));
        ((us - origin) / 1_000, source, udp[8..usize::from(u16::from_be_bytes([udp[4], udp[5]]))].to_vec())
    };
    Some(frames.into_iter().map(datagram).collect())
}

/// Plays one source of a capture to a session; yields what happened.
fn replay(packets: &[(u64, SocketAddr, Vec<u8>)], source: SocketAddr) -> Rig {
    let mut plan = plan();
    plan.remote.rtp = source;
    let mut rig = Rig::new(plan);
    let mut packets = packets.iter().filter(|(_, from, _)| *from == source).peekable();
    let origin = packets.peek().map_or(0, |packet| packet.0);
    while packets.peek().is_some() {
        while let Some((ms, _, data)) = packets.next_if(|(ms, ..)| 1_000 + ms - origin <= rig.ms) {
            rig.session.rtp(Nanos::from_ms(1_000 + ms - origin), data, source);
            rig.drain();
        }
        rig.tick();
    }
    rig
}

#[test]
fn keys_in_real_captures_are_told_as_their_list_has_them() {
    let Some(packets) = capture("rtpproxy-dtmf-2833.pcap") else { return };
    for (port, keys) in [(19_438, "1234567890*#5"), (56_890, "54321#")] {
        let source = packets.iter().find(|(_, source, _)| source.port() == port).unwrap().1;
        let rig = replay(&packets, source);
        let digits: String =
            rig.events.iter().filter_map(|event| if let MediaEvent::Digit { digit, .. } = event { Some(*digit) } else { None }).collect();
        // The list says in which order they came: `*` before `0` in the first.
        let expected = if keys.len() == 13 { "123456789*0#5" } else { keys };
        assert_eq!(digits, expected);
    }
}

#[test]
fn real_calls_are_heard_and_a_test_tone_is_not_speech() {
    for (name, speaks) in [
        ("rtpproxy-call1-ulaw-a.pcap", true),
        ("rtpproxy-call1-ulaw-o.pcap", true),
        ("rtpproxy-call1-alaw-a.pcap", true),
        ("rtpproxy-rtcp-o.pcap", true),
        ("freeswitch-milliwatt-pcmu.pcap", false),
    ] {
        let Some(packets) = capture(name) else { return };
        let rig = replay(&packets, packets[0].1);
        let states = rig.states();
        println!("{name}: {states:?} {:?}", rig.session.counts());
        assert_eq!(states.contains(&Acoustic::Speaking), speaks, "{name}: {states:?}");
        assert_eq!(rig.session.counts().invalid, 0, "{name}");
    }
}

#[test]
fn garbage_is_counted_and_survived() {
    let mut rig = Rig::new(plan());
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/cases/c_malformed/webrtc-fuzz-corpus");
    let mut random = 1u32;
    for length in 0..400 {
        let data: Vec<u8> = (0..length)
            .map(|_| {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (random >> 24) as u8
            })
            .collect();
        let source = rig.source;
        rig.session.rtp(Nanos::from_ms(rig.ms), &data, source);
        rig.session.rtcp(Nanos::from_ms(rig.ms), &data, source);
        rig.drain();
    }
    assert!(rig.session.counts().invalid > 0);
    let Ok(folders) = std::fs::read_dir(folder) else { return println!("skipped in part: {folder} is missing") };
    for file in folders.flatten().filter_map(|folder| std::fs::read_dir(folder.path()).ok()).flatten().flatten() {
        let data = std::fs::read(file.path()).unwrap();
        let source = rig.source;
        rig.session.rtp(Nanos::from_ms(rig.ms), &data, source);
        rig.session.rtcp(Nanos::from_ms(rig.ms), &data, source);
        rig.tick();
    }
}
