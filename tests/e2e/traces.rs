//! What a call leaves behind: a trace that shows why a closing waited, and about which today's code decides the same.

use std::process::{Command, Output};

use serde_json::json;

use super::sound::callers_speech;
use super::stage::{PROGRAM, Stage};
use super::talk::{DIALOGUE, asks_for_a_table};

fn recado(stage: &Stage, arguments: &[&str]) -> Output {
    let output = Command::new(PROGRAM).args(arguments).env("LANG", "C.UTF-8").output().expect("recado runs");
    assert!(output.status.success(), "{arguments:?} beside {}: {output:?}", stage.config().display());
    output
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_leaves_a_trace_that_names_what_its_closing_waited_for() {
    let Some(stage) = Stage::set(DIALOGUE).await else { return };
    let boxed = stage.box_runs().await;
    let mut caller = stage.calls("alice", &boxed).await;
    asks_for_a_table(&stage, &mut caller).await;
    let long = "While you do that let me tell you that we are coming by train, and that we may be a little late.";
    let saying = caller.says(&callers_speech(long).await).await;
    caller.has_said_ms(&saying, 2_000).await;
    assert_eq!(stage.tools.report("table", json!({ "guest": "Alice Liddell" })).await.expect("an answer"), 200);
    caller.has_said(&saying).await;
    caller.hears_something().await;
    boxed.log.seen("evidence", |line| line["message"] == "delivery settled").await.expect("the closing is heard");
    caller.hangs_up().await;
    boxed.is_idle().await.expect("the call is over");
    assert!(boxed.stops().await.expect("it stops").success(), "the box ends well");

    let config = stage.config();
    let config = config.to_str().expect("a path");
    let drawn = recado(&stage, &["trace", "--last", "-c", config]);
    let drawn = String::from_utf8(drawn.stdout).expect("text");
    assert!(drawn.contains("\ndelivery 1 ") && drawn.contains(" ms  caller_speaking    waited for the caller to have spoken\n"), "{drawn}");
    assert!(drawn.contains("heard, on evidence") && !drawn.contains("alice"), "{drawn}");

    let files: Vec<String> = std::fs::read_dir(config.replace("recado.toml", "data/traces"))
        .expect("traces")
        .map(|entry| entry.expect("a file").path().display().to_string())
        .collect();
    assert_eq!(files.len(), 2, "the call's and the ledger's: {files:?}");
    let replayed = recado(&stage, &[&["replay"][..], &files.iter().map(String::as_str).collect::<Vec<_>>()].concat());
    let replayed = String::from_utf8(replayed.stdout).expect("text");
    assert_eq!(
        replayed.lines().filter(|line| line.contains("decides the same about") && line.ends_with(" inputs.")).count(),
        2,
        "{replayed}"
    );
    for file in files {
        let text = std::fs::read_to_string(&file).expect("readable");
        for word in ["alice", "Alice", "Liddell", "token"] {
            assert!(!text.contains(word), "{word} in {file}");
        }
    }
}
