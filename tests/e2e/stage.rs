//! The stage of a scene: a folder with a configuration, and the tools' service.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use recado::coordination::{History, Pending, Reader};
use recado::demo::{BoxProcess, Manner, Tools};
use serde_json::json;
use tempfile::TempDir;

use super::caller::{Caller, MODULES, Telephone};

/// The tools' acceptance, and closings.
pub const ACCEPTED: &str = "I'm on it. Please go on.";
pub const CLOSING: &str = "You have your table for two, tonight at half past nine, next to the window.";
pub const SHORT: &str = "A window seat is yours.";
pub const TAXI: &str = "The taxi picks you up at nine o'clock sharp.";
pub const TAXI_SENT_AWAY: &str = "Nobody will come to fetch you, for I sent the driver home.";
pub const CINEMA: &str = "Two cinema tickets are waiting at the counter.";
pub const THEATRE: &str = "The theatre begins at a quarter to eight.";
pub const ALARM: &str = "Somebody has opened your garage door.";

/// The box's program.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_recado");

/// A tool that takes effect, and then does not answer the first request under a key.
pub const MUTE: &str = "mute";

/// The tools: name, closing, further settings.
const TOOLS: [(&str, &str, &str); 6] = [
    ("table", CLOSING, SHORT_FORM),
    (MUTE, CLOSING, SHORT_FORM),
    (
        "taxi",
        TAXI,
        "cancel_url = \"SERVICE/taxi/cancel\"\nsay_compensated.en = \"Nobody will come to fetch you, for I sent the driver home.\"",
    ),
    ("cinema", CINEMA, "topic = \"evening\""),
    ("theatre", THEATRE, "topic = \"evening\""),
    ("alarm", ALARM, "priority = \"urgent\""),
];

const SHORT_FORM: &str = "say_short.en = \"A window seat is yours.\"";

/// Everything of a scene.
pub struct Stage {
    folder: TempDir,
    pub tools: Tools,
}

impl Stage {
    /// A stage for a box with this dialogue; none where baresip or espeak-ng is missing.
    pub async fn set(dialogue: &str) -> Option<Self> {
        if !(is_there("baresip", "-h") && is_there("espeak-ng", "--version") && Path::new(MODULES).is_dir()) {
            println!("skipped: baresip (Debian: baresip-core) or espeak-ng is not installed");
            return None;
        }
        let (folder, tools) = (tempfile::tempdir().expect("a folder"), Tools::start(manners).await.expect("the tools' service"));
        let mut settings = settings(folder.path(), "rtp_silence_ms = 5000\n");
        for (tool, closing, further) in TOOLS {
            let further = further.replace("SERVICE", &format!("http://{}", tools.address));
            settings += &format!(
                "[[tools]]\nname = {tool:?}\nurl = \"http://{}/{tool}\"\nidempotent = true\nsay_accepted.en = {ACCEPTED:?}\n\
                 say_done.en = {closing:?}\n{further}\n",
                tools.address
            );
        }
        std::fs::write(folder.path().join("recado.toml"), settings).expect("written");
        std::fs::write(folder.path().join("dialogue.toml"), dialogue).expect("written");
        Some(Self { folder, tools })
    }

    /// Starts the box of this stage.
    pub async fn box_runs(&self) -> BoxProcess {
        starts(&self.config()).await
    }

    /// `user` calls the box.
    pub async fn calls(&self, user: &str, boxed: &BoxProcess) -> Caller {
        self.calls_with(Telephone::default(), user, boxed).await
    }

    /// `user` calls the box with this telephone.
    pub async fn calls_with(&self, telephone: Telephone, user: &str, boxed: &BoxProcess) -> Caller {
        Caller::dials(self.folder.path(), user, telephone, boxed.sip).await
    }

    /// The box's configuration.
    pub fn config(&self) -> PathBuf {
        self.folder.path().join("recado.toml")
    }

    /// What the store holds.
    pub fn history(&self) -> History {
        self.claims_have_ended();
        self.store().history().expect("readable")
    }

    /// Waits until no call has a claim any more: a call's last commit may come a moment after its end.
    pub fn claims_have_ended(&self) {
        let waits_until = Instant::now() + Duration::from_secs(5);
        while self.pending().deliveries.iter().any(|delivery| delivery.claim.is_some()) {
            assert!(Instant::now() < waits_until, "a claim outlives its call: {:?}", self.pending());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What the store says that waits.
    pub fn pending(&self) -> Pending {
        self.store().pending().expect("readable")
    }

    fn store(&self) -> Reader {
        Reader::open(&self.folder.path().join("data").join(recado::config::STORE_FILE)).expect("a store")
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("scene-{}", std::process::id()));
            let kept = kept.join(self.folder.path().file_name().unwrap_or_default());
            let copied = std::fs::create_dir_all(&kept).is_ok()
                && Command::new("cp").arg("-a").arg(self.folder.path()).arg(&kept).status().is_ok_and(|status| status.success());
            if copied {
                println!("what the scene left is in {}", kept.display());
            }
        }
    }
}

fn manners(tool: &str, request: u32) -> Manner {
    match (tool == MUTE, request) {
        (true, 1) => Manner::IsMute,
        (true, _) => Manner::Answers(json!({ "done": "before" })),
        (false, _) => Manner::Accepts,
    }
}

/// Starts the box with this configuration.
pub async fn starts(config: &Path) -> BoxProcess {
    BoxProcess::start(PROGRAM.as_ref(), config, |_| ()).await.expect("the box starts")
}

/// Settings of a box that keeps everything in `folder`, on loopback, on ports that are free; `sip` are further ones of `[sip]`.
pub fn settings(folder: &Path, sip: &str) -> String {
    static RTP: AtomicU16 = AtomicU16::new(0);
    let data = folder.join("data");
    let first = RTP_FIRST + RTP.fetch_add(1, Ordering::Relaxed) % RTP_RANGES * RTP_PORTS;
    format!(
        "[box]\nlanguage = \"en\"\ndata_dir = {data:?}\n[sip]\nlisten = \"127.0.0.1:0\"\n{sip}[http]\nlisten = \"127.0.0.1:0\"\n\
         [media]\nports = \"{first}-{}\"\n[log]\nformat = \"json\"\nlevel = \"info,recado::words=debug,recado::clocks=debug\"\n",
        first + RTP_PORTS - 1
    )
}

/// Whether `program` can be started.
pub fn is_there(program: &str, argument: &str) -> bool {
    Command::new(program).arg(argument).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Below the ports that the system gives away: twelve ranges, each with room for a flood.
const RTP_FIRST: u16 = 10_000;
const RTP_PORTS: u16 = 1_600;
const RTP_RANGES: u16 = 12;
