//! The stage of a scene: a folder with a configuration, a speech engine and the tools' service.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use recado::coordination::{History, Reader};
use recado::demo::{Asked, Manner, Tools};
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::box_process::BoxProcess;
use crate::phone::{ACCEPTED, DONE, FAILED, UNKNOWN, WORDS, sample};

pub struct Stage {
    pub folder: TempDir,
    pub tools: Tools,
}

impl Stage {
    /// A box that greets and asks for the tools `names`; each is served by the tools' service under its name. The tool `at_once`
    /// answers with its result, others report it when the test says so.
    pub fn set(names: &[&str]) -> Self {
        let (folder, tools) = (tempfile::tempdir().expect("a folder"), block_on(Tools::start(manners)).expect("the tools' service"));
        let stage = Self { folder, tools };
        let mut settings = settings(stage.folder.path());
        for name in names {
            settings += &tool(name, &format!("http://{}/{name}", stage.tools.address), "idempotent = true\n");
        }
        stage.writes("recado.toml", &settings);
        let calls: Vec<String> =
            names.iter().map(|name| format!("{{ tool = {name:?}, arguments = {{ who = \"{{{{caller}}}}\" }} }}")).collect();
        let calls = if calls.is_empty() { String::new() } else { format!("call = [{}]\n", calls.join(", ")) };
        stage.writes("dialogue.toml", &format!("[greeting]\nsay.en = \"Hello.\"\n{calls}[otherwise]\nsay.en = \"Yes?\"\n"));
        for (name, hz) in [("words", WORDS), ("accepted", ACCEPTED), ("done", DONE), ("failed", FAILED), ("unknown", UNKNOWN)] {
            std::fs::write(stage.path(&format!("{name}.wav")), wav(hz)).expect("written");
        }
        // Behaves as the files beside it say: hang, fail.
        let here = stage.folder.path().display();
        stage.engine(&format!(
            "cd {here}\n[ \"$1\" = --version ] && [ ! -e fail ] && exec echo engine\n[ -e hang ] && echo $$ >> hung && exec sleep 600\n\
             echo >> asked\n[ -e fail ] && exit 1\nread text\ncase $text in *Nothing?has*) exec cat failed.wav;; *done*) exec cat done.wav;; *failed*) exec cat failed.wav;;\n\
             *know*) exec cat unknown.wav;; *On?it*) exec cat accepted.wav;; *) exec cat words.wav;; esac"
        ));
        stage
    }

    /// Makes the shell script `body` the speech engine.
    pub fn engine(&self, body: &str) {
        self.writes("engine", &format!("#!/bin/sh\n{body}\n"));
        std::fs::set_permissions(self.path("engine"), std::fs::Permissions::from_mode(0o755)).expect("executable");
    }

    /// Adds to the configuration.
    pub fn configures(&self, text: &str) {
        let settings = std::fs::read_to_string(self.config()).expect("read");
        self.writes("recado.toml", &(settings + text));
    }

    /// Replaces in the configuration.
    pub fn changes(&self, from: &str, to: &str) {
        let settings = std::fs::read_to_string(self.config()).expect("read");
        assert!(settings.contains(from), "{settings}");
        self.writes("recado.toml", &settings.replace(from, to));
    }

    /// Writes a file.
    pub fn writes(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("written");
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn config(&self) -> PathBuf {
        self.path("recado.toml")
    }

    pub fn box_runs(&self) -> BoxProcess {
        BoxProcess::start(&self.config())
    }

    /// Waits until `tool` has been asked `requests` times under one key. What is known of it then.
    pub fn asked(&self, tool: &str, requests: u32) -> Asked {
        patiently(&format!("{tool} to be asked {requests} times"), || {
            self.tools.all().into_iter().find(|asked| asked.tool == tool && asked.requests >= requests)
        })
    }

    /// What the store holds.
    pub fn history(&self) -> History {
        self.history_in(&self.path("data"))
    }

    /// What the store in `data_dir` holds.
    pub fn history_in(&self, data_dir: &Path) -> History {
        Reader::open(&data_dir.join(recado::config::STORE_FILE)).and_then(|store| store.history()).expect("a store")
    }
}

fn manners(tool: &str, _: u32) -> Manner {
    if tool == "at_once" { Manner::Answers(json!({})) } else { Manner::Accepts }
}

/// Waits in a test that is no task: what the tools' service and the box's process need of tokio runs beside.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("threads"));
    RUNTIME.block_on(future)
}

/// A tool whose closings have a tone each.
pub fn tool(name: &str, url: &str, more: &str) -> String {
    format!(
        "[[tools]]\nname = {name:?}\nurl = {url:?}\nsay_accepted.en = \"On it.\"\nsay_done.en = \"It is done.\"\nsay_failed.en = \"It failed.\"\n\
         say_unknown.en = \"I don't know.\"\n{more}"
    )
}

/// Waits until something is there; the machine may be busy.
pub fn patiently<T>(what: &str, mut there: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + WAIT;
    loop {
        if let Some(found) = there() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn settings(folder: &Path) -> String {
    let here = folder.display();
    static RTP: AtomicU16 = AtomicU16::new(0);
    let first = 48_000 + RTP.fetch_add(1, Ordering::Relaxed) % 80 * 200;
    format!(
        "[box]\nlanguage = \"en\"\ndata_dir = \"{here}/data\"\n[sip]\nlisten = \"127.0.0.1:0\"\n[http]\nlisten = \"127.0.0.1:0\"\n\
         [media]\nports = \"{first}-{}\"\n[log]\nformat = \"json\"\nlevel = \"info\"\n[speech]\nprogram = \"{here}/engine\"\n",
        first + 199
    )
}

/// 0.6 s of a tone.
fn wav(hz: u32) -> Vec<u8> {
    let samples: Vec<u8> = (0..4_800).flat_map(|at| sample(hz, at).to_le_bytes()).collect();
    let mut file = b"RIFF".to_vec();
    file.extend((36 + samples.len() as u32).to_le_bytes());
    file.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    file.extend(8_000_u32.to_le_bytes());
    file.extend(16_000_u32.to_le_bytes());
    file.extend(b"\x02\0\x10\0data");
    file.extend((samples.len() as u32).to_le_bytes());
    file.extend(samples);
    file
}

const WAIT: Duration = Duration::from_secs(40);
