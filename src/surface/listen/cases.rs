//! The listener on recorded audio: a table of what each file does to the acoustic clock.

use std::path::{Path, PathBuf};

use recado_core::conversation::{Acoustic, AcousticEdge};
use recado_core::time::Time;

use super::listener::Listener;
use super::profile::Profile;
use super::voice::voice;
use crate::g711::Codec;

/// Plays samples as packets of 20 ms, with 40 ms in the jitter buffer, and 3 s of silence behind them. Returns the edges with
/// the time at which each was known.
fn edges(profile: &Profile, samples: &[i16]) -> Vec<(u64, AcousticEdge)> {
    let mut listener = Listener::new(profile.clone());
    let mut edges = Vec::new();
    let mut delayed = [[0i16; 160]; 2];
    let silence = vec![0; 24_000];
    for (n, frame) in samples.chunks_exact(160).chain(silence.chunks_exact(160)).enumerate() {
        let now = 20 * (n as u64 + 1);
        edges.extend(listener.arrived(Time(now), frame).map(|edge| (now, edge)));
        let ordered = std::mem::replace(&mut delayed[n % 2], frame.try_into().unwrap());
        edges.extend(listener.ordered(Time(now + 5), Time(now.saturating_sub(40)), &ordered).map(|edge| (now + 5, edge)));
    }
    edges
}

fn states(edges: &[(u64, AcousticEdge)]) -> Vec<Acoustic> {
    edges.iter().map(|(_, edge)| edge.to).collect()
}

#[test]
fn a_voice_is_suspected_confirmed_and_ends_and_each_edge_has_its_epoch() {
    let mut samples = vec![0; 8_000];
    samples.extend(voice(1_200));
    let edges = edges(&Profile::responsive(), &samples);
    let states = states(&edges);
    assert_eq!(states[..2], [Acoustic::Suspected, Acoustic::Speaking], "{edges:?}");
    assert_eq!(states[states.len() - 2..], [Acoustic::Trailing, Acoustic::Quiet], "{edges:?}");
    assert!(edges.iter().zip(1..).all(|((_, edge), epoch)| edge.epoch.0 == epoch));
    let at = |n: usize| (edges[n].0, edges[n].1.at.0);
    let (known, began) = at(0);
    assert!(known <= 1_060 && (1_000..=1_040).contains(&began), "{edges:?}");
    assert!(at(1).0 <= 1_300, "{edges:?}");
    // What ended is dated back to the last of the sound.
    let (trailing, quiet) = (at(edges.len() - 2), at(edges.len() - 1));
    assert_eq!(trailing.1, quiet.1, "{edges:?}");
    assert!((1_400..=2_260).contains(&quiet.1) && quiet.0 >= quiet.1 + 500, "{edges:?}");
}

#[test]
fn a_knock_is_suspected_at_most_and_retracted_within_a_second() {
    let mut samples = vec![0; 4_000];
    samples.extend(voice(60));
    let edges = edges(&Profile::responsive(), &samples);
    assert_eq!(states(&edges), [Acoustic::Suspected, Acoustic::Quiet], "{edges:?}");
    assert!(edges[1].0 - edges[0].0 <= 1_000);
}

#[test]
fn a_pause_inside_a_sentence_is_trailing_and_goes_back_to_speaking() {
    let mut samples = voice(800);
    samples.extend([0; 8 * 320]);
    samples.extend(voice(800));
    let states = states(&edges(&Profile::balanced(), &samples));
    assert_eq!(states[..4], [Acoustic::Suspected, Acoustic::Speaking, Acoustic::Trailing, Acoustic::Speaking]);
    assert_eq!(states.iter().filter(|state| **state == Acoustic::Quiet).count(), 1, "{states:?}");
}

#[test]
fn keys_and_tones_in_the_band_of_speech_are_never_speech() {
    let tone = |frequencies: &[f32]| -> Vec<i16> {
        (0..8_000)
            .map(|n| {
                let value: f32 = frequencies.iter().map(|f| (2.0 * std::f32::consts::PI * f * n as f32 / 8_000.0).sin()).sum();
                (5_000.0 * value) as i16
            })
            .collect()
    };
    for frequencies in [&[770.0, 1_336.0][..], &[425.0], &[1_004.0], &[350.0, 440.0]] {
        let states = states(&edges(&Profile::responsive(), &tone(frequencies)));
        assert!(states.is_empty(), "{frequencies:?}: {states:?}");
    }
}

struct Recording {
    name: String,
    samples: Vec<i16>,
    /// Speech by the labels (ms), pauses below 800 ms inside it left in.
    turns: Vec<(i64, i64)>,
}

fn recordings() -> Option<Vec<Recording>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/cases/a_audio");
    let folders = std::fs::read_dir(&root).ok()?;
    let mut files: Vec<PathBuf> =
        folders.flatten().filter_map(|folder| std::fs::read_dir(folder.path()).ok()).flatten().flatten().map(|file| file.path()).collect();
    files.retain(|file| file.to_string_lossy().ends_with(".ulaw.wav"));
    files.sort();
    Some(files.iter().filter_map(|file| recording(&root, file)).collect())
}

fn recording(root: &Path, file: &Path) -> Option<Recording> {
    let bytes = std::fs::read(file).ok()?;
    let data = bytes.windows(4).position(|window| window == b"data")? + 8;
    let samples = bytes.get(data..)?.iter().map(|&octet| Codec::Pcmu.decode_sample(octet)).collect();
    let labels = std::fs::read_to_string(file.to_string_lossy().replace(".ulaw.wav", ".labels.tsv")).unwrap_or_default();
    let mut turns: Vec<(i64, i64)> = Vec::new();
    for line in labels.lines() {
        let [start, end, "speech"] = line.split('\t').collect::<Vec<_>>()[..] else { continue };
        let ms = |text: &str| text.parse::<f64>().ok().map(|seconds| (seconds * 1_000.0) as i64);
        let (start, end) = (ms(start)?, ms(end)?);
        match turns.last_mut() {
            Some(turn) if start - turn.1 < 800 => turn.1 = end,
            _ => turns.push((start, end)),
        }
    }
    Some(Recording { name: file.strip_prefix(root).ok()?.to_string_lossy().replace(".ulaw.wav", ""), samples, turns })
}

/// Latencies of the turns that begin in quiet, and how many were not confirmed at all.
#[derive(Default)]
struct Latencies {
    suspected: Vec<i64>,
    speaking: Vec<i64>,
    missed: usize,
}

impl Latencies {
    fn add(&mut self, turns: &[(i64, i64)], edges: &[(u64, AcousticEdge)]) {
        for &(start, end) in turns {
            let before = edges.iter().take_while(|(known, _)| (*known as i64) < start - 60).last();
            if before.is_some_and(|(_, edge)| edge.to != Acoustic::Quiet) {
                continue;
            }
            let first = |to| {
                let mut known = edges.iter().filter(|(_, edge)| edge.to == to).map(|(known, _)| *known as i64);
                known.find(|known| (start - 60..end + 300).contains(known)).map(|known| known - start)
            };
            self.suspected.extend(first(Acoustic::Suspected));
            match first(Acoustic::Speaking) {
                Some(latency) => self.speaking.push(latency),
                None => self.missed += 1,
            }
        }
    }
}

fn percentiles(values: &mut [i64]) -> String {
    values.sort_unstable();
    let at = |percent: usize| values.get(values.len() * percent / 100).copied().unwrap_or(0);
    format!("n {} p50 {} p90 {} p95 {}", values.len(), at(50), at(90), at(95))
}

#[test]
fn recorded_noise_never_takes_the_floor_and_recorded_speech_does() {
    let Some(recordings) = recordings() else { return println!("skipped: ../shared/cases/a_audio is missing") };
    for (name, profile) in [("responsive", Profile::responsive()), ("balanced", Profile::balanced()), ("patient", Profile::patient())] {
        let mut latencies = Latencies::default();
        println!("{name}: file | turns | suspected | speaking");
        for recording in &recordings {
            let edges = edges(&profile, &recording.samples);
            let count = |to| edges.iter().filter(|(_, edge)| edge.to == to).count();
            let started = edges.windows(2).filter(|pair| (pair[0].1.to, pair[1].1.to) == (Acoustic::Suspected, Acoustic::Speaking)).count();
            println!("{} | {} | {} | {started}", recording.name, recording.turns.len(), count(Acoustic::Suspected));
            latencies.add(&recording.turns, &edges);
            assert!(edges.last().is_none_or(|(_, edge)| edge.to == Acoustic::Quiet), "{} latched", recording.name);
            assert!(edges.windows(2).all(|pair| pair[0].1.at <= pair[1].1.at), "{}: time went back", recording.name);
            let babble = ["coffee-shop", "office-ambience"].iter().any(|room| recording.name.contains(room));
            if recording.name.starts_with("inband_dtmf") || (recording.name.starts_with("nonspeech") && !babble) {
                assert_eq!(started, 0, "{name}: {} took the floor", recording.name);
            }
            if recording.name.starts_with("short_utterances") {
                assert!(started > 0, "{name}: {} was not heard", recording.name);
            }
        }
        let heard = latencies.speaking.len();
        println!("{name}: suspected {}", percentiles(&mut latencies.suspected));
        println!("{name}: speaking {}; missed {}", percentiles(&mut latencies.speaking), latencies.missed);
        assert!(latencies.missed * 8 < heard, "{name}: {} of {heard} turns were missed", latencies.missed);
    }
}
