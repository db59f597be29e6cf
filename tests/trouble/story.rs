//! The story: what the box is set to, what the caller asks for in each of the box's lives, and what each closing says.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use recado::coordination::{History, Pending, Reader};
use recado::demo::{Caller, Manner, Tools};
use recado::surface::speech::wav;

use crate::cuts::{Cut, last_cuts};
use crate::random::Random;

/// Where a story takes place.
pub struct Stage {
    folder: PathBuf,
    /// Where the store is.
    data: PathBuf,
    pub tools: Tools,
    pub sip: SocketAddr,
    pub http: SocketAddr,
}

/// How the caller behaves in one life of the box.
#[derive(Debug, Clone)]
pub struct Manners {
    /// After how much of a closing the caller begins to speak (ms).
    pub interrupts_after_ms: Option<u64>,
    /// Whether the caller hangs up at the end, or stays on the line.
    pub hangs_up: bool,
}

impl Manners {
    pub fn draw(random: &mut Random) -> Self {
        let interrupts_after_ms = random.once_in(2).then(|| 400 + random.below(1_600));
        Self { interrupts_after_ms, hangs_up: random.once_in(2) }
    }
}

impl Stage {
    /// A stage in `folder`, where the box is a process of this test.
    pub async fn set(folder: PathBuf) -> Self {
        let data = folder.join("data");
        let setting = format!("data_dir = {data:?}\n");
        Self::with(folder, data, &setting).await
    }

    /// A stage for a box that is a service, with its configuration in `folder`; its store will be in `state`.
    pub async fn of_service(folder: PathBuf, state: PathBuf) -> Self {
        Self::with(folder, state, "").await
    }

    /// The box's ports stay the same over its lives, as those of any box that is called back.
    async fn with(folder: PathBuf, data: PathBuf, data_setting: &str) -> Self {
        let (sip, http) = addresses();
        let tools = Tools::start(|_, _| Manner::Accepts).await.expect("the tools' service");
        std::fs::create_dir_all(&folder).expect("a folder");
        let stage = Self { folder, data, tools, sip, http };
        std::fs::write(stage.config(), stage.settings(data_setting)).expect("written");
        stage.next_life(None);
        stage
    }

    pub fn config(&self) -> PathBuf {
        self.folder.join("recado.toml")
    }

    /// What the box will say and call in the next life: what is asked for in life `asks`, or nothing new.
    pub fn next_life(&self, asks: Option<usize>) {
        // Long enough to be heard by a caller on a machine that has much else to do.
        let mut dialogue = "[greeting]\nsay.en = \"Hello, what can I do for you today?\"\n[otherwise]\nsay.en = \"Go ahead.\"\n".to_owned();
        if let Some(life) = asks {
            let ([table, transfer, invoice], doubt) = (sentences(life), doubt(life));
            dialogue += &format!(
                "[[turn]]\ncall = [{{ tool = \"table\", arguments.told = {table:?} }}, \
                 {{ tool = {NOT_IDEMPOTENT:?}, arguments.told = {transfer:?}, arguments.doubt = {doubt:?} }}]\n\
                 [[turn]]\nsay.en = \"I see.\"\n[[turn]]\ncall = {{ tool = \"invoice\", arguments.told = {invoice:?} }}\n"
            );
        }
        std::fs::write(self.folder.join("dialogue.toml"), dialogue).expect("written");
    }

    fn settings(&self, data_setting: &str) -> String {
        static RTP: AtomicU16 = AtomicU16::new(0);
        let rtp = RTP_FIRST + RTP.fetch_add(1, Ordering::Relaxed) % RTP_RANGES * RTP_PORTS;
        let Self { tools, sip, http, .. } = self;
        let mut settings = format!(
            "[box]\nlanguage = \"en\"\n{data_setting}[sip]\nlisten = \"{sip}\"\nrtp_silence_ms = 5000\n[http]\nlisten = \"{http}\"\n\
             [media]\nports = \"{rtp}-{}\"\n[log]\nformat = \"json\"\nlevel = \"info,recado::words=debug,recado::clocks=debug\"\n",
            rtp + RTP_PORTS - 1
        );
        for tool in ["table", NOT_IDEMPOTENT, "invoice"] {
            settings += &format!(
                "[[tools]]\nname = {tool:?}\nurl = \"http://{}/{tool}\"\nidempotent = {}\nsay_accepted.en = {ACCEPTED:?}\n\
                 say_done.en = \"{{{{ arguments.told }}}}\"\n",
                tools.address,
                tool != NOT_IDEMPOTENT
            );
            if tool == NOT_IDEMPOTENT {
                settings += "say_unknown.en = \"{{ arguments.doubt }}\"\n";
            }
        }
        settings
    }

    /// What the store holds, where there is one yet.
    pub fn history(&self) -> Option<History> {
        self.store()?.history().ok()
    }

    /// What waits and what runs.
    pub fn pending(&self) -> Option<Pending> {
        self.store()?.pending().ok()
    }

    /// Where the box stopped its voice in the last call.
    pub fn cuts(&self) -> Vec<Cut> {
        last_cuts(&self.data.join(recado::config::TRACES_DIRECTORY))
    }

    /// Waits until nothing runs and nothing waits any more, or for so long that something must be wrong.
    pub async fn is_settled(&self) {
        let begun = Instant::now();
        let is_settled = || self.pending().is_some_and(|pending| pending.operations.is_empty() && pending.deliveries.is_empty());
        while !is_settled() && begun.elapsed() < SETTLED_WITHIN {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn store(&self) -> Option<Reader> {
        Reader::open(&self.data.join(recado::config::STORE_FILE)).ok()
    }
}

/// What the caller does in a life in which something is asked for.
pub async fn asks(caller: &Caller, manners: &Manners) {
    let line = &caller.line;
    line.hears_voice(200).await;
    line.hears_silence(600).await;
    says(caller).await;
    // The acceptance, then the closing.
    line.hears_voice(300).await;
    line.hears_silence(500).await;
    line.hears_voice(manners.interrupts_after_ms.unwrap_or(500)).await;
    if manners.interrupts_after_ms.is_none() {
        line.hears_silence(800).await;
    }
    says(caller).await;
    line.hears_voice(200).await;
    line.hears_silence(1_000).await;
    says(caller).await;
    line.hears_voice(300).await;
    line.hears_silence(3_000).await;
}

/// Says something that takes three seconds.
pub async fn says(caller: &Caller) {
    caller.line.say(&wav::read(SPEECH).expect("a recording"));
    caller.line.has_said().await;
}

/// What the closings of the operations of a life say: no two of a story are alike.
pub fn sentences(life: usize) -> [&'static str; 3] {
    SENTENCES[life % SENTENCES.len()]
}

/// What the closing says where nobody knows whether the second of them was done.
pub fn doubt(life: usize) -> &'static str {
    DOUBTS[life % DOUBTS.len()]
}

/// Lives in which something new can be asked for.
pub const LIVES_MAX: usize = SENTENCES.len();

const SENTENCES: [[&str; 3]; 4] = [
    ["Your table is booked for nine.", "The money has reached your landlord.", "The invoice went out by mail."],
    ["The doctor sees you on Monday.", "We paid the water bill.", "Your parcel waits at the station."],
    ["Two cinema seats are yours.", "The rent for the garage is settled.", "A plumber comes this afternoon."],
    ["The train leaves at seven sharp.", "Your brother got his birthday gift.", "The library keeps that novel."],
];

const DOUBTS: [&str; SENTENCES.len()] = [
    "Please ask at home whether they got paid.",
    "Nobody knows about that water.",
    "Look at your bank statement tomorrow.",
    "Perhaps he has nothing to unwrap.",
];

pub const ACCEPTED: &str = "I'm on it, please go on.";
pub const HEDGE: &str = "I may have told you already:";

/// The tool whose request is never repeated where it may have been carried out.
pub const NOT_IDEMPOTENT: &str = "transfer";

/// Whether the box's speech engine, which also says what is to be listened for, is there.
pub fn speech_is_there() -> bool {
    let there = std::process::Command::new("espeak-ng").arg("--version").output().is_ok();
    if !there {
        println!("skipped: espeak-ng is not installed");
    }
    there
}

/// Two ports that are free, below those that the system gives to callers, which come and go while a box is down.
fn addresses() -> (SocketAddr, SocketAddr) {
    static NEXT: OnceLock<AtomicU16> = OnceLock::new();
    let next = NEXT.get_or_init(|| AtomicU16::new((std::process::id() * 16 % u32::from(PORTS)) as u16));
    loop {
        let port = PORT_FIRST + next.fetch_add(2, Ordering::Relaxed) % PORTS;
        let (sip, http) = (SocketAddr::from(([127, 0, 0, 1], port)), SocketAddr::from(([127, 0, 0, 1], port + 1)));
        if UdpSocket::bind(sip).is_ok() && TcpListener::bind(http).is_ok() {
            return (sip, http);
        }
    }
}

/// The program under test.
pub fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_recado"))
}

const SPEECH: &[u8] = include_bytes!("../../src/demo/speech/en/interruption.wav");

/// The longest is evidence, which comes within fifteen seconds of each closing.
const SETTLED_WITHIN: Duration = Duration::from_secs(90);

const PORT_FIRST: u16 = 5_200;
const PORTS: u16 = 4_000;

/// Apart from the ports of other tests.
const RTP_FIRST: u16 = 36_000;
const RTP_PORTS: u16 = 200;
const RTP_RANGES: u16 = 50;
