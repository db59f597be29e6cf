//! Programs that misbehave, as engines: nothing hangs, nothing grows, nothing stays, and what is wrong is said.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures_util::future::Either;
use recado_core::policy::Language;

use super::command::CommandEngine;
use super::piper::Piper;
use super::{SpeechAudio, SpeechError, Synthesiser, Utterance};
use crate::config;

/// A place with audio: `head.wav`, the header of a WAV file at 8 kHz that goes on to its end, and `loud`, some minutes of samples.
pub(super) struct Room(tempfile::TempDir);

impl Room {
    pub fn new() -> Self {
        let room = Self(tempfile::tempdir().unwrap());
        let mut head = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0".to_vec();
        head.extend(8_000_u32.to_le_bytes());
        head.extend(16_000_u32.to_le_bytes());
        head.extend(b"\x02\0\x10\0data\0\0\0\0");
        std::fs::write(room.path("head.wav"), head).unwrap();
        let tone = (0..800_000).map(|at| if at % 32 < 16 { 3_000_i16 } else { -3_000 });
        let loud: Vec<u8> = tone.flat_map(i16::to_le_bytes).collect();
        std::fs::write(room.path("loud"), loud).unwrap();
        room
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The numbers of the processes that were started.
    fn started(&self) -> Vec<u32> {
        let text = std::fs::read_to_string(self.path("started")).unwrap_or_default();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }

    /// A program that is the shell script `body`, run here.
    pub fn script(&self, body: &str) -> PathBuf {
        let (text, path) = (self.path("engine.txt"), self.path("engine"));
        std::fs::write(&text, format!("#!/bin/sh\ncd \"$(dirname \"$0\")\" || exit\necho $$ >>started\n{body}\n")).unwrap();
        // Not by this process: what another test starts meanwhile would inherit the file, open for writing, and nobody could run it.
        assert!(std::process::Command::new("cp").args([&text, &path]).status().unwrap().success());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn command(&self, body: &str) -> config::SpeechCommand {
        config::SpeechCommand {
            program: self.script(body),
            arguments: Vec::new(),
            voices: config::Voices { es: Some("sol".into()), en: None },
            output: config::CommandOutput::Wav,
            rate_hz: None,
            timeout_ms: 60_000,
        }
    }

    /// A Piper that does `each` with `$line`, number `$n`; `say` writes 50 ms for each character of it.
    fn piper(&self, each: &str) -> config::Piper {
        let body = format!(
            "out=$4\nwrote() {{ echo \"INFO:__main__:Wrote $1\" >&2; }}\n\
             say() {{ cat head.wav >\"$out/$n.wav\"; head -c $((${{#1}} * 800)) loud >>\"$out/$n.wav\"; wrote \"$out/$n.wav\"; }}\n\
             n=0\nwhile read -r line; do n=$((n + 1))\n{each}\ndone"
        );
        config::Piper {
            program: self.script(&body),
            models: config::Models { es: Some(self.path("es.onnx")), en: None },
            speaker: None,
            pace_percent: 100,
            load_timeout_ms: 60_000,
            timeout_ms: 60_000,
        }
    }
}

async fn say(engine: &impl Synthesiser, text: &str) -> Result<SpeechAudio, SpeechError> {
    engine.synthesise(&Utterance::new(text, Language::Es)).await
}

/// Waits until a process is not there any more, or is only waited for.
pub(super) async fn gone(pid: u32) {
    let deadline = Instant::now() + Duration::from_secs(30);
    let runs = || std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
    while runs() {
        assert!(Instant::now() < deadline, "{pid} still runs");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until a file holds a number.
pub(super) async fn number_in(path: &Path) -> u32 {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        if let Ok(number) = std::fs::read_to_string(path).unwrap_or_default().trim().parse() {
            return number;
        }
        assert!(Instant::now() < deadline, "nothing in {}", path.display());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn a_program_has_none_of_the_priority_that_the_box_has_for_its_audio_and_gives_way_where_the_box_does() {
    for (of_box, of_program) in [(-5, "0"), (5, "5")] {
        // The nice value is a thread's own.
        let run = move || {
            if !takes_nice_value(of_box) {
                eprintln!("this user may not have the nice value {of_box}: not shown");
                return;
            }
            let room = Room::new();
            let command = CommandEngine::new(&room.command("cat >said\nnice >nice_value\ncat head.wav\nhead -c 16000 loud"));
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(say(&command, "Hola.")).unwrap();
            assert_eq!(std::fs::read_to_string(room.path("nice_value")).unwrap().trim(), of_program);
        };
        std::thread::spawn(run).join().unwrap();
    }
}

/// Gives this thread a nice value; false where it may not have it.
#[allow(unsafe_code)]
fn takes_nice_value(value: i32) -> bool {
    // SAFETY: a call with numbers only.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, value) == 0 }
}

#[tokio::test]
async fn a_command_gets_the_text_at_its_input_its_arguments_without_a_shell_and_no_secret() {
    let room = Room::new();
    let body = "cat >said\nprintf '%s\\n' \"$@\" >arguments\nenv >environment\ncat head.wav\nhead -c 16000 loud";
    let arguments = ["-l", "{language}", "--voice={voice}", "$(touch broken) {words_per_minute}"].map(String::from).into();
    let engine = CommandEngine::new(&config::SpeechCommand { arguments, ..room.command(body) });
    let audio = say(&engine, "hola; touch broken\n[[x]] \u{1}fin").await.unwrap();
    assert_eq!((audio.duration_ms(), &*audio.text), (1_000, "hola; touch broken\n[[x]] \u{1}fin"));
    let read = |name: &str| std::fs::read_to_string(room.path(name)).unwrap();
    assert_eq!(read("said"), "hola; touch broken   x    fin");
    assert_eq!(read("arguments"), "-l\nes\n--voice=sol\n$(touch broken) 160\n");
    assert!(!room.path("broken").exists());
    let names: Vec<String> = read("environment").lines().filter_map(|line| Some(line.split_once('=')?.0.to_owned())).collect();
    assert!(names.contains(&"PATH".to_owned()) && std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    assert!(
        !names.iter().any(|name| name.starts_with("CARGO") || name.starts_with("RECADO") || name == "CREDENTIALS_DIRECTORY"),
        "{names:?}"
    );
    let english = engine.synthesise(&Utterance::new("hello", Language::En)).await;
    assert!(matches!(&english, Err(SpeechError::NoVoiceFor { engine: "command", .. })), "{english:?}");
}

#[tokio::test]
async fn samples_without_a_header_are_at_the_rate_that_is_configured() {
    let room = Room::new();
    let raw = |rate_hz| config::SpeechCommand {
        output: config::CommandOutput::Raw,
        rate_hz: Some(rate_hz),
        ..room.command("head -c 96000 loud")
    };
    assert_eq!(say(&CommandEngine::new(&raw(8_000)), "hola").await.unwrap().duration_ms(), 6_000);
    assert_eq!(say(&CommandEngine::new(&raw(48_000)), "hola").await.unwrap().duration_ms(), 1_000);
    assert!(matches!(say(&CommandEngine::new(&raw(1_000_000)), "hola").await, Err(SpeechError::EngineAudio(_))));
}

#[tokio::test]
async fn what_a_command_does_wrong_is_said_and_bounded() {
    let room = Room::new();
    for (body, told) in [
        ("cat >/dev/null", "silent"),
        ("cat head.wav; head -c 8000 /dev/zero", "silent"),
        ("cat head.wav", "silent"),
        ("echo no such voice >&2; exit 3", "(exit status: 3): no such voice"),
        ("kill -9 $$", "signal: 9"),
        ("echo this is no audio", "not a WAV file"),
        ("head -c 20 head.wav", "ends at byte"),
        ("exec cat /dev/zero", "more than 60 s"),
        ("cat head.wav; exec cat /dev/zero", "more than 60 s"),
        ("cat head.wav; head -c 1000000 loud; head -c 1000000 loud", "more than 60 s"),
        ("head -c 3000000 /dev/zero | tr '\\0' e >&2; exit 3", "eeee"),
    ] {
        let error = say(&CommandEngine::new(&room.command(body)), "hola").await.unwrap_err().to_string();
        assert!(error.contains(told) && error.len() < 2_200, "{body}: {error}");
    }
    for text in ["", "...", "¿?", "\u{200B}"] {
        let refused = say(&CommandEngine::new(&room.command("cat head.wav; head -c 8000 loud")), text).await;
        assert!(matches!(refused, Err(SpeechError::NothingToSay)), "{text:?}: {refused:?}");
    }
    let missing = config::SpeechCommand { program: "/nonexistent/engine".into(), ..room.command("") };
    assert!(say(&CommandEngine::new(&missing), "hola").await.unwrap_err().to_string().contains("correct speech.command.program"));
}

#[tokio::test]
async fn a_command_that_hangs_is_killed_with_what_it_has_started() {
    let room = Room::new();
    let engine = CommandEngine::new(&room.command("sleep 600 & echo $! >child\ncat head.wav; head -c 8000 loud; wait"));
    let child = {
        let hangs = Box::pin(say(&engine, "hola"));
        // It is given up when it has started what it waits for, as it is when its time is over.
        match futures_util::future::select(hangs, Box::pin(number_in(&room.path("child")))).await {
            Either::Left((spoken, _)) => panic!("{spoken:?}"),
            Either::Right((child, _)) => child,
        }
    };
    gone(room.started()[0]).await;
    gone(child).await;
    let engine = CommandEngine::new(&config::SpeechCommand { timeout_ms: 100, ..room.command("exec sleep 600") });
    assert!(matches!(say(&engine, "hola").await, Err(SpeechError::TimedOut(after)) if after == Duration::from_millis(100)));
}

#[tokio::test]
async fn what_a_program_leaves_behind_ends_with_it_also_where_it_ends_well() {
    let room = Room::new();
    let left_behind = "sleep 600 </dev/null >/dev/null 2>&1 & echo $! >child";
    let engine = CommandEngine::new(&room.command(&format!("{left_behind}\ncat head.wav; head -c 8000 loud")));
    assert_eq!(say(&engine, "hola").await.unwrap().duration_ms(), 500);
    gone(number_in(&room.path("child")).await).await;

    let room = Room::new();
    let engine = Piper::new(&room.piper(&format!("say \"$line\"; [ $n = 2 ] && {{ {left_behind}; exit 1; }}")), true);
    assert_eq!(say(&engine, "hola").await.unwrap().duration_ms(), 200);
    gone(number_in(&room.path("child")).await).await;
}

#[tokio::test]
async fn piper_is_started_once_and_each_clause_gets_its_own_audio_also_where_they_come_at_once() {
    let room = Room::new();
    let engine = Piper::new(&room.piper("say \"$line\""), true);
    let lengths = [4, 9, 2, 14, 7, 1];
    let clauses = lengths.map(|length| "a".repeat(length));
    let spoken = futures_util::future::join_all(clauses.iter().map(|clause| say(&engine, clause))).await;
    let spoken: Vec<u64> = spoken.into_iter().map(|audio| audio.unwrap().duration_ms()).collect();
    assert_eq!(spoken, lengths.map(|length| 50 * length as u64));
    let audio = say(&engine, "hola \n a todos").await.unwrap();
    assert_eq!((audio.duration_ms(), audio.heard_text(u64::MAX)), (700, "hola \n a todos"));
    assert_eq!(room.started().len(), 1);
    let english = engine.synthesise(&Utterance::new("hello", Language::En)).await;
    assert!(matches!(&english, Err(SpeechError::NoVoiceFor { engine: "piper", .. })), "{english:?}");
    assert!(matches!(say(&engine, "…").await, Err(SpeechError::NothingToSay)));
}

#[tokio::test]
async fn piper_ends_with_the_engine_and_so_does_where_it_wrote() {
    let room = Room::new();
    let engine = Piper::new(&room.piper("echo \"$out\" >out; say \"$line\""), true);
    say(&engine, "hola").await.unwrap();
    let wrote = PathBuf::from(std::fs::read_to_string(room.path("out")).unwrap().trim());
    assert!(wrote.is_dir() && std::fs::read_dir(&wrote).unwrap().next().is_none(), "nothing that was said stays");
    drop(engine);
    gone(room.started()[0]).await;
    let deadline = Instant::now() + Duration::from_secs(30);
    while wrote.exists() {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_piper_that_dies_or_hangs_is_replaced() {
    // Each dies of its third line, the first of which is a word to begin with.
    let room = Room::new();
    let engine = Piper::new(&room.piper("[ $n = 3 ] && { echo out of memory >&2; exit 7; }\nsay \"$line\""), true);
    for _ in 0..3 {
        assert_eq!(say(&engine, "hola").await.unwrap().duration_ms(), 200);
        let error = say(&engine, "hola").await.unwrap_err();
        assert!(error.is_the_engines() && error.to_string().contains("(exit status: 7): out of memory"), "{error}");
    }
    assert!(room.started().len() >= 3);

    let room = Room::new();
    let hangs = config::Piper {
        timeout_ms: 3_000,
        ..room.piper("[ $n = 2 ] && [ ! -e hung ] && { touch hung; sleep 600 & wait; }\nsay \"$line\"")
    };
    let engine = Piper::new(&hangs, true);
    assert!(matches!(say(&engine, "hola").await, Err(SpeechError::TimedOut(_))));
    gone(room.started()[0]).await;
    assert_eq!(say(&engine, "hola").await.unwrap().duration_ms(), 200);
}

#[tokio::test]
async fn a_piper_that_dies_while_nobody_speaks_is_there_again_when_somebody_does() {
    let room = Room::new();
    let engine = Piper::new(&room.piper("say \"$line\"\n[ $n = 2 ] && [ ! -e died ] && { touch died; exit 1; }"), true);
    say(&engine, "hola").await.unwrap();
    gone(room.started()[0]).await;
    let deadline = Instant::now() + Duration::from_secs(30);
    while room.started().len() < 2 {
        assert!(Instant::now() < deadline, "nobody asked, and it is loaded again");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(say(&engine, "hola").await.unwrap().duration_ms(), 200);
}

#[tokio::test]
async fn a_piper_that_can_not_start_is_tried_less_and_less_and_what_is_wrong_is_said_at_once() {
    let room = Room::new();
    let engine = Piper::new(&room.piper("echo no such model >&2; exit 2"), true);
    for _ in 0..40 {
        let error = say(&engine, "hola").await.unwrap_err();
        assert!(error.to_string().contains("no such model"), "{error}");
    }
    // At once, and then after one second, two …
    assert!(room.started().len() <= 6, "{}", room.started().len());
    let missing = config::Piper { program: "/nonexistent/piper".into(), ..room.piper("") };
    let error = say(&Piper::new(&missing, true), "hola").await.unwrap_err().to_string();
    assert!(error.contains("/nonexistent/piper is not installed") && error.contains("speech.piper.program"), "{error}");
}

#[tokio::test]
async fn a_voice_that_takes_too_long_to_be_loaded_is_waited_for_once() {
    let room = Room::new();
    let hangs = config::Piper { load_timeout_ms: 2_000, ..room.piper("sleep 600 & wait") };
    let error = say(&Piper::new(&hangs, true), "hola").await.unwrap_err().to_string();
    assert!(error.contains("no audio within 2s"), "{error}");
    assert!(room.started().len() <= 1, "{:?}", room.started());
}

#[tokio::test]
async fn where_somebody_else_can_speak_nobody_waits_for_a_voice_to_be_loaded() {
    let room = Room::new();
    let engine = Piper::new(&room.piper("until [ -e go ]; do sleep 0.05; done\nsay \"$line\""), false);
    for _ in 0..200 {
        assert!(matches!(say(&engine, "hola").await, Err(SpeechError::Loading { .. })));
    }
    std::fs::write(room.path("go"), "").unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let audio = loop {
        match say(&engine, "hola").await {
            Ok(audio) => break audio,
            Err(SpeechError::Loading { .. }) => tokio::time::sleep(Duration::from_millis(5)).await,
            Err(other) => panic!("{other}"),
        }
        assert!(Instant::now() < deadline);
    };
    assert_eq!((audio.duration_ms(), room.started().len()), (200, 1));
    let broken = Room::new();
    let engine = Piper::new(&broken.piper("exit 2"), false);
    while !matches!(say(&engine, "hola").await, Err(SpeechError::NotRunning(_))) {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn what_piper_writes_wrongly_is_said_and_the_next_clause_is_spoken() {
    for (wrong, told) in [
        ("echo this is nothing but garbage >\"$out/x.wav\"", "not a WAV file"),
        ("head -c 20 head.wav >\"$out/x.wav\"", "ends at byte"),
        ("{ cat head.wav; head -c 3000000 /dev/zero; } >\"$out/x.wav\"", "more than 60 s"),
        ("{ cat head.wav; head -c 8000 /dev/zero; } >\"$out/x.wav\"", "silent"),
        ("{ head -c 24 head.wav; printf '\\144\\0\\0\\0'; tail -c +29 head.wav; head -c 800 loud; } >\"$out/x.wav\"", "100 Hz"),
        ("true", "could not be run: No such file"),
        // Nothing that it says in between disturbs.
        ("head -c 3000000 /dev/zero | tr '\\0' e >&2; echo >&2; { cat head.wav; head -c 8000 loud; } >\"$out/x.wav\"", ""),
    ] {
        let room = Room::new();
        let engine = Piper::new(
            &room.piper(&format!("if [ $n = 2 ] && [ ! -e done ]; then touch done; {wrong}; wrote \"$out/x.wav\"; else say \"$line\"; fi")),
            true,
        );
        match say(&engine, "hola").await {
            Ok(audio) => assert!(told.is_empty() && audio.duration_ms() == 500, "{wrong}"),
            Err(error) => assert!(!told.is_empty() && error.to_string().contains(told), "{wrong}: {error}"),
        }
        assert_eq!(say(&engine, "hola").await.unwrap().duration_ms(), 200, "{wrong}");
    }
}

#[tokio::test]
async fn a_clause_that_nobody_waits_for_any_more_is_not_spoken() {
    let room = Room::new();
    let engine = Piper::new(&room.piper("until [ $n = 1 ] || [ -e go ]; do sleep 0.05; done\necho \"$line\" >>lines\nsay \"$line\""), true);
    let kept = say(&engine, "uno");
    let cut = say(&engine, "dos");
    {
        let (mut kept, mut cut) = (Box::pin(kept), Box::pin(cut));
        // Both are asked for; the second is given up while the first is spoken.
        let _ = futures_util::future::select(futures_util::future::select(&mut kept, &mut cut), Box::pin(number_in(&room.path("started"))))
            .await;
        drop(cut);
        std::fs::write(room.path("go"), "").unwrap();
        kept.await.unwrap();
    }
    say(&engine, "tres").await.unwrap();
    assert_eq!(std::fs::read_to_string(room.path("lines")).unwrap(), "a.\nuno\ntres\n");
}
