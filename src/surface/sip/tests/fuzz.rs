//! Mutated messages: whatever comes, no panic, no leak, and an answer never larger than sense.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::random::Random;
use super::rig::{Caller, OFFER, Rig, caller_address, case_path, local_media};
use crate::surface::sip::{Command, Event};

#[test]
fn mutated_messages_neither_panic_nor_leak() {
    let corpus = corpus();
    let mut random = Random::new(0x5eed_0001);
    let mut rig = Rig::new();
    for round in 0..INPUTS {
        let mut datagram = corpus[random.below(corpus.len())].clone();
        for _ in 0..=random.below(4) {
            mutate(&mut datagram, &corpus, &mut random);
        }
        rig.receive_from(&datagram, caller_address());
        while let Some(event) = rig.events.pop() {
            if let Event::Incoming(incoming) = event {
                let command = match random.below(3) {
                    0 => Command::Accept { call: incoming.call, local: local_media() },
                    1 => Command::Reject { call: incoming.call, status: 486 },
                    _ => Command::Ring { call: incoming.call },
                };
                rig.command(command);
            }
        }
        assert!(rig.sent.iter().all(|(datagram, _)| datagram.len() < 2 * DATAGRAM_BYTES));
        rig.sent.clear();
        if round % 64 == 0 {
            rig.pass(Duration::from_secs(1));
        }
    }
    rig.pass(Duration::from_secs(600));
    assert_eq!((rig.endpoint.transactions(), rig.endpoint.calls_open(), rig.endpoint.deadline()), (0, 0, None));
}

fn mutate(datagram: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Random) {
    let at = random.below(datagram.len() + 1);
    match random.below(7) {
        0 => datagram.truncate(at),
        1 => datagram.insert(at, random.byte()),
        2 => {
            if let Some(byte) = datagram.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        3 => {
            let end = (at + random.below(40)).min(datagram.len());
            datagram.drain(at..end);
        }
        4 => {
            let end = (at + random.below(80)).min(datagram.len());
            let piece = datagram[at..end].to_vec();
            let to = random.below(datagram.len() + 1);
            datagram.splice(to..to, piece);
        }
        5 => {
            let other = &corpus[random.below(corpus.len())];
            let from = random.below(other.len() + 1);
            datagram.truncate(at);
            datagram.extend_from_slice(&other[from..]);
        }
        _ => {
            let token = TOKENS[random.below(TOKENS.len())];
            datagram.splice(at..at, token.iter().copied());
        }
    }
    datagram.truncate(DATAGRAM_BYTES);
}

fn corpus() -> Vec<Vec<u8>> {
    let mut caller = Caller::new("c1");
    let mut corpus: Vec<Vec<u8>> =
        ["INVITE", "OPTIONS", "BYE", "INFO", "UPDATE", "REGISTER"].iter().map(|method| caller.next(method, OFFER).into_bytes()).collect();
    corpus.push(caller.ack(OFFER).into_bytes());
    corpus.push(caller.with_branch("CANCEL", "").into_bytes());
    corpus.push(super::rig::answer(&caller.request("BYE", ""), 200).into_bytes());
    let root = case_path("c_malformed");
    for folder in ["rfc4475", "rfc5118", "sipgo-fuzz"] {
        add_files(&root.join(folder), &mut corpus);
    }
    let own = corpus.len();
    let mut descriptions = Vec::new();
    for folder in ["sdp-transform", "webrtc-fuzz-corpus/sdp"] {
        add_files(&root.join(folder), &mut descriptions);
    }
    for description in descriptions {
        let mut invite = caller.next("INVITE", "").replace("Content-Length: 0", "Content-Type: application/sdp").into_bytes();
        invite.extend_from_slice(&description);
        corpus.push(invite);
    }
    println!("{own} messages, {} descriptions", corpus.len() - own);
    corpus
}

fn add_files(folder: &Path, corpus: &mut Vec<Vec<u8>>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        println!("skipped: {} is not there", folder.display());
        return;
    };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    corpus.extend(paths.iter().filter_map(|path| std::fs::read(path).ok()));
}

const INPUTS: u32 = 100_000;
const DATAGRAM_BYTES: usize = 8192;
const TOKENS: [&[u8]; 14] =
    [b"\r\n", b"\r\n\r\n", b"\r\n ", b",", b";", b";;", b"\"", b"<", b">", b":", b"%", b"[::1]", b"18446744073709551616", b"\xff\xfe\0"];
