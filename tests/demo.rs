//! The box's main job, as anybody can see it: the demo and the self-test end well.

use std::process::Command;

fn recado(arguments: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_recado")).args(arguments).output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.success(), text)
}

#[test]
fn the_demo_tells_its_story_and_the_contract_holds() {
    if Command::new("espeak-ng").arg("--version").output().is_err() {
        println!("skipped: espeak-ng is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let wav = folder.path().join("call.wav");
    let (well, text) = recado(&["demo", "--wav", wav.to_str().unwrap()]);
    assert!(well, "{text}");
    assert!(text.contains("✓ the ear heard the second closing once, after the restart"), "{text}");
    let recording = hound::WavReader::open(&wav).unwrap();
    assert_eq!(recording.spec().channels, 2);
    assert!(recording.duration() > 30 * 8_000, "half a minute at least, both calls");
}

#[test]
fn the_self_test_needs_no_speech_engine() {
    let empty = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_recado")).arg("self-test").env("PATH", empty.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("self-test passed"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}
