//! The buffer on made-up and on recorded networks, in virtual time.

use super::*;

/// A packet: when it arrives (ms), its timestamp and its samples.
type Arrival = (u64, u32, Vec<i16>);

/// Samples that tell where they come from.
fn ramp(packet: u32, length: usize) -> Vec<i16> {
    (0..length).map(|n| 1_000 + ((packet as usize * length + n) % 7_000) as i16).collect()
}

fn steady(packets: u32, first_timestamp: u32) -> Vec<Arrival> {
    (0..packets).map(|n| (u64::from(n) * 20, first_timestamp.wrapping_add(n * 160), ramp(n, 160))).collect()
}

/// Plays arrivals against ticks every 20 ms (7 ms after the hour, as it were) until 200 ms after the last.
fn play(arrivals: &[Arrival]) -> (JitterBuffer, Vec<(Sound, [i16; 160])>) {
    let mut buffer = JitterBuffer::new();
    let mut frames = Vec::new();
    let end = arrivals.iter().map(|arrival| arrival.0).max().unwrap_or(0) + 200;
    let mut arrivals: Vec<_> = arrivals.to_vec();
    arrivals.sort_by_key(|arrival| arrival.0);
    let mut waiting = arrivals.into_iter().peekable();
    for tick in (7..end).step_by(20) {
        while let Some((at, timestamp, samples)) = waiting.next_if(|arrival| arrival.0 <= tick) {
            buffer.packet(Nanos::from_ms(5_000 + at), timestamp, &samples);
        }
        let mut frame = [0; 160];
        let sound = buffer.tick(Nanos::from_ms(5_000 + tick), &mut frame);
        frames.push((sound, frame));
    }
    (buffer, frames)
}

fn received(frames: &[(Sound, [i16; 160])]) -> Vec<i16> {
    frames.iter().filter(|(sound, _)| *sound == Sound::Received).flat_map(|(_, frame)| frame.to_vec()).collect()
}

#[test]
fn a_steady_line_is_played_whole_in_order_and_soon_over_the_wrap_of_the_timestamp() {
    let arrivals = steady(100, u32::MAX - 4_000);
    let (buffer, frames) = play(&arrivals);
    let whole: Vec<i16> = arrivals.iter().flat_map(|arrival| arrival.2.clone()).collect();
    assert_eq!(received(&frames), whole);
    let first = frames.iter().position(|(sound, _)| *sound == Sound::Received).unwrap();
    assert!(first <= 2, "the first packet waited {first} ticks");
    assert_eq!(buffer.counts(), JitterCounts { placed: 100, ..JitterCounts::default() });
}

#[test]
fn reordered_and_doubled_packets_and_other_lengths_are_put_together_again() {
    let mut arrivals: Vec<Arrival> = Vec::new();
    let whole: Vec<i16> = (0..16_000).map(|n| (n % 9_000) as i16 + 500).collect();
    let (mut start, mut at) = (0usize, 0u64);
    for (n, length) in [80, 240, 160, 160, 480, 80, 160, 240, 160, 160].into_iter().cycle().enumerate() {
        if start + length > whole.len() {
            break;
        }
        let delay = if n % 7 == 3 { 30 } else { 0 };
        arrivals.push((at + delay, start as u32, whole[start..start + length].to_vec()));
        if n % 5 == 0 {
            arrivals.push((at + 5, start as u32, whole[start..start + length].to_vec()));
        }
        start += length;
        at += length as u64 / 8;
    }
    let (buffer, frames) = play(&arrivals);
    let heard = received(&frames);
    let counts = buffer.counts();
    assert!(counts.duplicate >= 10 && counts.late <= 2, "{counts:?}");
    let whole_frames = heard.chunks_exact(160).filter(|frame| whole.windows(160).step_by(80).any(|window| window == *frame)).count();
    // Until the reordering is known, some come too late.
    assert!(whole_frames >= 88 && counts.missing_samples <= 3 * 160, "{whole_frames} of 100 frames, {counts:?}");
}

#[test]
fn lost_packets_are_concealed_counted_and_keep_their_place_in_time() {
    let mut arrivals = steady(200, 1_000);
    arrivals.retain(|(at, ..)| at / 20 % 10 != 5);
    let (buffer, frames) = play(&arrivals);
    let concealed = frames.iter().filter(|(sound, _)| *sound == Sound::Concealed).count();
    assert_eq!(buffer.counts().missing_samples, 20 * 160);
    // At the end it is waited for more that never comes: two more frames.
    assert!((20..=23).contains(&concealed), "{concealed}");
    assert_eq!(received(&frames).len(), 180 * 160);
}

#[test]
fn a_jump_of_the_timestamp_on_the_same_source_is_followed_and_a_stray_packet_is_not() {
    let mut arrivals = steady(100, 1_000);
    for (_, timestamp, _) in &mut arrivals[50..] {
        *timestamp = timestamp.wrapping_add(3_000_000_000);
    }
    arrivals[20].1 = 77_777_777;
    let (buffer, frames) = play(&arrivals);
    assert_eq!(buffer.counts().resyncs, 1);
    // Lost are the stray one and the first of the new timeline, which proved nothing yet.
    assert_eq!(received(&frames).len(), 98 * 160);
}

#[test]
fn a_source_that_pauses_without_counting_the_time_is_heard_again_at_once() {
    let mut arrivals = steady(100, 1_000);
    for (at, ..) in &mut arrivals[50..] {
        *at += 5_000;
    }
    let (_, frames) = play(&arrivals);
    let again = frames[(50 * 20 + 5_000) / 20..].iter().position(|(sound, _)| *sound == Sound::Received).unwrap();
    assert!(again <= 3, "{again} ticks later");
}

#[test]
fn comfort_noise_is_silence_and_not_concealment() {
    let mut buffer = JitterBuffer::new();
    let mut sounds = Vec::new();
    for n in 0..50u32 {
        let now = Nanos::from_ms(1_000 + u64::from(n) * 20);
        match n {
            0..10 | 40.. => drop(buffer.packet(now, n * 160, &ramp(n, 160))),
            10 => buffer.comfort_noise(n * 160),
            _ => {}
        }
        sounds.push(buffer.tick(now, &mut [0; 160]));
    }
    assert!(!sounds.contains(&Sound::Concealed), "{sounds:?}");
    assert!(sounds[45..].iter().all(|sound| *sound == Sound::Received));
    assert_eq!(buffer.counts().missing_samples, 0);
}

#[test]
fn delay_grows_with_jitter_and_shrinks_on_a_calm_line() {
    let mut buffer = JitterBuffer::new();
    let mut delays = Vec::new();
    let mut random = 1u32;
    let mut waiting: Vec<(u64, u32)> = Vec::new();
    for n in 0..1_500u32 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let jitter_ms = if (300..600).contains(&n) { u64::from(random >> 16) % 80 } else { 0 };
        waiting.push((u64::from(n) * 20 + jitter_ms, n * 160));
        let tick = u64::from(n) * 20 + 7;
        waiting.retain(|&(at, timestamp)| {
            let here = at <= tick;
            if here {
                // Words and pauses of one second.
                let samples = if timestamp / 8_000 % 2 == 0 { ramp(timestamp / 160, 160) } else { vec![0; 160] };
                buffer.packet(Nanos::from_ms(at), timestamp, &samples);
            }
            !here
        });
        buffer.tick(Nanos::from_ms(tick), &mut [0; 160]);
        delays.push(buffer.delay_ms(Nanos::from_ms(tick)));
    }
    let mean = |range: std::ops::Range<usize>| delays[range.clone()].iter().sum::<u64>() / range.len() as u64;
    assert!(mean(100..290) <= 50, "calm: {} ms", mean(100..290));
    assert!((60..=160).contains(&mean(450..600)), "in jitter: {} ms", mean(450..600));
    assert!(mean(1_300..1_500) <= 60, "calm again: {} ms", mean(1_300..1_500));
    let counts = buffer.counts();
    assert!(counts.late < 30, "{counts:?}");
}

/// A line of a recording: arrival (ms), sequence number, timestamp, payload octets.
type Row = (u64, u16, u32, usize);

fn recorded(name: &str) -> Option<Vec<Row>> {
    let path = format!("{}/../shared/cases/e_network/arrivals/{name}.arrivals.csv", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).ok()?;
    let row = |line: &str| {
        let cells: Vec<_> = line.split(',').collect();
        let us: u64 = cells.first()?.parse().ok()?;
        Some((us / 1_000, cells.get(1)?.parse().ok()?, cells.get(2)?.parse().ok()?, cells.get(6)?.parse().ok()?))
    };
    Some(text.lines().filter_map(row).collect())
}

#[test]
fn recorded_networks_are_played_with_the_losses_that_they_had() {
    // Name, samples in a payload octet (as a ratio), packets truly lost, most that may be late or resynchronised.
    for (name, samples, octets, lost, late_max) in [
        ("freeswitch-milliwatt-pcmu.flow0", 1, 1, 0, 0),
        ("rtpproxy-call1-ulaw-a.flow0", 1, 1, 0, 3),
        ("rtpproxy-call1-ulaw-o.flow0", 1, 1, 0, 3),
        ("rtpproxy-call1-alaw-a.flow0", 1, 1, 0, 3),
        ("rtpproxy-rtcp-o.flow0", 1, 1, 1, 2),
        ("rtpproxy-dups-a.flow0", 8, 1, 0, 0),
        ("rtpproxy-lost-a.flow0", 8, 1, 321, 20),
        ("webrtc-stereo_pcmu", 1, 2, 0, 0),
        ("webrtc-stereo_pcmu_jitter", 1, 2, 53, 40),
    ] {
        let Some(rows) = recorded(name) else { return println!("skipped: ../shared/cases/e_network is missing") };
        let arrivals: Vec<Arrival> = rows
            .iter()
            .map(|&(at, sequence, timestamp, size)| (at, timestamp, ramp(u32::from(sequence), size * samples / octets)))
            .collect();
        let (buffer, frames) = play(&arrivals);
        let counts = buffer.counts();
        let missing_ms = counts.missing_samples / 8;
        println!("{name}: {} packets, {counts:?}, {} ms in, {missing_ms} ms missing", rows.len(), received(&frames).len() / 8);
        assert!(counts.late + counts.resyncs <= late_max, "{name}: {counts:?}");
        if lost == 0 {
            assert!(missing_ms <= 60 * (late_max + 1), "{name}: {missing_ms} ms missing");
        }
        assert!(counts.placed + counts.late + counts.duplicate + counts.resyncs >= rows.len() as u64, "{name}: {counts:?}");
    }
}
