//! Configurations that are wrong, in many ways: each is told with its place, alike by `check` and by `run`.

use std::process::{Command, Stdio};

use crate::box_process::command;
use crate::stage::Stage;

#[test]
fn every_wrong_configuration_is_told_with_its_place_by_check_and_by_run() {
    let stage = Stage::set(&["job"]);
    let good = std::fs::read_to_string(stage.config()).expect("read");
    let dialogue = std::fs::read_to_string(stage.path("dialogue.toml")).expect("read");
    let deep = format!("x = {}1{}\n", "[".repeat(5_000), "]".repeat(5_000));
    let settings: Vec<(&str, Vec<u8>, &str)> = vec![
        ("no TOML", b"[sip\nlisten = ".to_vec(), "recado.toml:"),
        ("not text", vec![0xff, 0xfe, 0, 1, 2], "recado.toml"),
        ("nested deeply", deep.into_bytes(), "recado.toml"),
        ("an unknown section", good.replace("[sip]", "[spi]").into_bytes(), "spi"),
        ("an unknown key", good.replace("data_dir", "datadir").into_bytes(), "datadir"),
        ("a wrong type", good.replace("ports = \"", "ports = 7 # \"").into_bytes(), "media.ports"),
        ("a bad address", good.replacen("127.0.0.1:0", "localhorst", 1).into_bytes(), "sip.listen"),
        ("a port range without a pair", good.replace("ports = \"", "ports = \"9-9\" # \"").into_bytes(), "media.ports"),
        ("a bad level", good.replace("\"info\"", "\"loud\"").into_bytes(), "log.level"),
        (
            "a tool twice",
            format!("{good}\n[[tools]]\nname = \"job\"\nurl = \"http://127.0.0.1/\"\nsay_done.en = \"x\"\n").into_bytes(),
            "job",
        ),
        ("a URL that is none", good.replace("url = \"http", "url = \"gopher").into_bytes(), "url"),
        ("a template that is broken", good.replace("It is done.", "{{ result.").into_bytes(), "say_done"),
        ("a negative time", format!("{good}timeout_ms = -1\n").into_bytes(), "timeout_ms"),
        ("a huge number", format!("{good}deadline_ms = 99999999999999999999\n").into_bytes(), "recado.toml"),
    ];
    for (what, text, says) in &settings {
        std::fs::write(stage.config(), text).expect("written");
        fails_alike(&stage, what, says);
    }
    stage.writes("recado.toml", &good);
    let dialogues: Vec<(&str, String, &str)> = vec![
        ("no dialogue", String::new(), "dialogue.toml"),
        ("a tool that there is not", dialogue.replace("\"job\"", "\"jbo\""), "jbo"),
        ("no TOML in it", "[greeting".into(), "line"),
        ("an unknown word", dialogue.replace("[otherwise]", "[otherwize]"), "otherwize"),
        ("a prompt that there is not", dialogue.replace("say.en = \"Yes?\"", "say.prompt = \"yes\""), "yes"),
        ("too long", "# \n".repeat(2_000_000), "dialogue.toml"),
    ];
    for (what, text, says) in &dialogues {
        stage.writes("dialogue.toml", text);
        fails_alike(&stage, what, says);
    }
    std::fs::remove_file(stage.path("dialogue.toml")).expect("removed");
    fails_alike(&stage, "the dialogue's file is missing", "dialogue.toml");
    std::fs::remove_file(stage.config()).expect("removed");
    fails_alike(&stage, "the file is missing", "recado.toml");
}

fn fails_alike(stage: &Stage, what: &str, says: &str) {
    let check = Command::new(env!("CARGO_BIN_EXE_recado")).args(["check", "-c"]).arg(stage.config()).output().expect("it ran");
    let mut running = command(&stage.config()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut waited = 0;
    while running.try_wait().expect("a child").is_none() {
        std::thread::sleep(std::time::Duration::from_millis(10));
        waited += 1;
        if waited > 2_000 {
            let _ = running.kill();
        }
    }
    let run = running.wait_with_output().expect("it ran");
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (checked, ran) = (said(&check.stderr), said(&run.stderr));
    println!("{what}: {}", checked.chars().take(300).collect::<String>());
    assert_eq!((check.status.code(), run.status.code()), (Some(1), Some(1)), "{what}: {checked} {ran}");
    assert!(checked.contains(says) && !checked.contains("panicked"), "{what}: {checked}");
    assert_eq!(checked, ran, "{what}");
}
