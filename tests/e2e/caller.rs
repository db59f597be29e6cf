//! The caller: baresip without a screen, driven over its control port, and what it recorded.

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::slice::ChunksExact;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::time::Duration;

use recado::demo::{Events, patiently};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::sound::{FRAME, MS, Recording, growing_wav, voiced, write_wav};

/// A call that is up. Its baresip ends when it is dropped.
pub struct Caller {
    child: Child,
    control: OwnedWriteHalf,
    events: Arc<Events>,
    folder: PathBuf,
    /// Up to where the recording of what was heard has been listened to (samples).
    listened: usize,
    commands: usize,
}

/// How a telephone is set.
#[derive(Debug, Clone, Copy)]
pub struct Telephone {
    /// As SDP names it.
    pub codec: &'static str,
    /// RTP and RTCP on one port (RFC 5761).
    pub rtcp_mux: bool,
}

impl Default for Telephone {
    fn default() -> Self {
        Self { codec: "PCMU", rtcp_mux: false }
    }
}

/// Where the caller's own speech stands in the recording of what it heard (ms).
#[derive(Debug, Clone, Copy)]
pub struct Said {
    pub begins_ms: usize,
    pub ends_ms: usize,
}

/// What a caller is saying.
pub struct Saying {
    /// From where on it is in the recording of what was said (samples).
    from: usize,
    length: usize,
}

impl Caller {
    /// Dials the box as `user` and waits until the call is up.
    pub async fn dials(folder: &Path, user: &str, telephone: Telephone, sip: SocketAddr) -> Self {
        let mut starts = 0;
        let (child, stream, folder) = loop {
            starts += 1;
            match start(folder, user, telephone).await {
                Some(started) => break started,
                None => assert!(starts < STARTS_MAX, "baresip does not start: see {}", folder.display()),
            }
        };
        let (read, control) = stream.into_split();
        let events = Arc::new(Events::default());
        tokio::spawn(follow(read, Arc::clone(&events)));
        let mut caller = Self { child, control, events, folder, listened: 0, commands: 0 };
        caller.command("dial", &format!("sip:recado@{sip}")).await;
        caller.event("CALL_ESTABLISHED").await;
        caller
    }

    /// Says `speech`, at once, instead of what is being said. Gives what is needed to know when it has been said.
    pub async fn says(&mut self, speech: &[i16]) -> Saying {
        let file = self.folder.join(format!("say-{}.wav", self.commands));
        write_wav(&file, speech);
        let from = self.recorded("enc").len();
        self.command("ausrc", &format!("aufile,{}", file.display())).await;
        Saying { from, length: speech.len() }
    }

    /// Waits until `ms` of it have been said.
    pub async fn has_said_ms(&mut self, saying: &Saying, ms: usize) -> Said {
        let said = async {
            loop {
                let (said, heard) = (self.recorded("enc"), self.recorded("dec").len());
                let frames = said.get(saying.from..).unwrap_or_default().chunks(FRAME);
                if let Some(onset) = frames.enumerate().find_map(|(at, frame)| voiced(frame).then_some(saying.from + at * FRAME))
                    && said.len() >= onset + ms * MS
                {
                    // Both recordings go on at the same pace; they did not begin at the same moment.
                    let begins_ms = (heard + onset).saturating_sub(said.len()) / MS;
                    return Said { begins_ms, ends_ms: begins_ms + ms };
                }
                tokio::time::sleep(POLL).await;
            }
        };
        let said = patiently("the caller to speak", said).await.expect("it speaks");
        // What comes now is listened to, not what came before.
        self.listened = self.listened.max(said.ends_ms * MS);
        said
    }

    /// Waits until all of it has been said.
    pub async fn has_said(&mut self, saying: &Saying) -> Said {
        self.has_said_ms(saying, saying.length / MS).await
    }

    /// Puts the box on hold, or takes it back.
    pub async fn holds(&mut self, on_hold: bool) {
        self.command(if on_hold { "hold" } else { "resume" }, "").await;
    }

    /// The telephone loses its power: no BYE, no RTCP.
    pub fn loses_power(mut self) -> Recording {
        let _ = self.child.kill();
        self.recording()
    }

    /// Presses keys (RFC 4733).
    pub async fn presses(&mut self, keys: &str) {
        self.command("sndcode", keys).await;
    }

    /// Waits until the box has talked for `ms` more.
    pub async fn hears_voice(&mut self, ms: usize) {
        self.listens(&format!("{ms} ms of voice"), |mut frames| {
            let mut heard = 0;
            frames.position(|frame| {
                heard += usize::from(voiced(frame)) * FRAME;
                heard >= ms * MS
            })
        })
        .await;
    }

    /// Waits until the box has been silent for `ms`.
    pub async fn hears_silence(&mut self, ms: usize) {
        self.listens(&format!("{ms} ms of silence"), |mut frames| {
            let mut silent = 0;
            frames.position(|frame| {
                silent = if voiced(frame) { 0 } else { silent + FRAME };
                silent >= ms * MS
            })
        })
        .await;
    }

    /// What has been heard so far is not listened to any more.
    pub fn listens_from_now(&mut self) {
        self.listened = self.recorded("dec").len();
    }

    /// Waits for what the box says next, and for its end.
    pub async fn hears_something(&mut self) {
        self.hears_voice(300).await;
        self.hears_silence(700).await;
    }

    async fn listens(&mut self, what: &str, found: impl Fn(ChunksExact<'_, i16>) -> Option<usize>) {
        let from = self.listened;
        let until = async {
            loop {
                let heard = self.recorded("dec");
                if let Some(frames) = found(heard.get(from..).unwrap_or_default().chunks_exact(FRAME)) {
                    return from + (frames + 1) * FRAME;
                }
                tokio::time::sleep(POLL).await;
            }
        };
        self.listened = patiently(what, until).await.expect("heard");
    }

    /// Hangs up. What was heard.
    pub async fn hangs_up(mut self) -> Recording {
        self.command("hangup", "").await;
        self.ends().await
    }

    /// Waits until the call is over. What was heard.
    pub async fn ends(self) -> Recording {
        self.event("CALL_CLOSED").await;
        Recording { samples: self.recorded("dec") }
    }

    /// Nobody is there any more. What was heard.
    pub fn recording(self) -> Recording {
        Recording { samples: self.recorded("dec") }
    }

    /// Waits until the box has hung up.
    pub async fn is_hung_up(&self) {
        let closed = self.event("CALL_CLOSED").await;
        println!("baresip says: {}", closed["param"]);
    }

    async fn event(&self, name: &str) -> Value {
        self.events.seen(name, |event| event["type"] == name).await.expect("seen")
    }

    async fn command(&mut self, command: &str, parameters: &str) {
        self.commands += 1;
        let token = self.commands.to_string();
        let message = json!({ "command": command, "params": parameters, "token": token }).to_string();
        self.control.write_all(format!("{}:{message},", message.len()).as_bytes()).await.expect("baresip listens");
        let answer =
            self.events.seen("baresip's answer", |event| event["response"] == true && event["token"] == *token).await.expect("an answer");
        let data = answer["data"].as_str().unwrap_or_default();
        assert!(answer["ok"] == true && !data.contains("failed"), "{command}: {answer}");
    }

    /// One of the two recordings, as far as it goes by now.
    fn recorded(&self, side: &str) -> Vec<i16> {
        let files = std::fs::read_dir(self.folder.join("dump")).expect("the folder").filter_map(Result::ok);
        let suffix = format!("-{side}.wav");
        growing_wav(files.map(|file| file.path()).find(|path| path.to_string_lossy().ends_with(&suffix)).map(Into::into))
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a baresip in a folder of its own. None when another program was quicker to take one of its ports.
async fn start(folder: &Path, user: &str, telephone: Telephone) -> Option<(Child, TcpStream, PathBuf)> {
    static CALLERS: AtomicUsize = AtomicUsize::new(0);
    let folder = folder.join(format!("{user}-{}", CALLERS.fetch_add(1, Ordering::Relaxed)));
    std::fs::create_dir_all(folder.join("dump")).expect("a folder");
    let control = write_settings(&folder, user, telephone);
    let output = |name: &str| std::fs::File::create(folder.join(name)).expect("a file");
    let mut command = Command::new("baresip");
    command.arg("-f").arg(&folder).stdin(Stdio::null()).stdout(output("stdout")).stderr(output("stderr"));
    let mut child = command.spawn().expect("baresip starts");
    patiently("baresip's control port", async {
        loop {
            if let Ok(stream) = TcpStream::connect(control).await {
                return Some((child, stream, folder));
            }
            if child.try_wait().expect("a child").is_some() {
                return None;
            }
            tokio::time::sleep(POLL).await;
        }
    })
    .await
    .expect("it listens")
}

/// Its configuration, on ports that are free. Where it is controlled.
fn write_settings(folder: &Path, user: &str, telephone: Telephone) -> SocketAddr {
    // It takes the next port too, for TLS.
    let sip = UdpSocket::bind(("127.0.0.1", 0)).and_then(|socket| socket.local_addr()).expect("a free port");
    let control = TcpListener::bind(("127.0.0.1", 0)).and_then(|socket| socket.local_addr()).expect("a free port");
    static RTP: AtomicU16 = AtomicU16::new(0);
    let rtp = RTP_FIRST + RTP.fetch_add(1, Ordering::Relaxed) % RTP_RANGES * RTP_PORTS;
    let silence = folder.join("silence.wav");
    write_wav(&silence, &[]);
    let mut settings = String::new();
    for module in ["g711", "aufile", "sndfile"] {
        settings += &format!("module {module}.so\n");
    }
    settings += "module_tmp uuid.so\nmodule_tmp account.so\nmodule_app menu.so\nmodule_app ctrl_tcp.so\n";
    settings += &format!(
        "module_path {MODULES}\nsip_listen {sip}\nnet_interface 127.0.0.1\nrtp_ports {rtp}-{}\nctrl_tcp_listen {control}\n\
         audio_source aufile,{}\nsnd_path {}\nrtcp_mux {}\n",
        rtp + RTP_PORTS - 1,
        silence.display(),
        folder.join("dump").display(),
        if telephone.rtcp_mux { "yes" } else { "no" }
    );
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("written");
    write("config", &settings);
    write("accounts", &format!("<sip:{user}@{sip}>;regint=0;audio_codecs={}/8000/1\n", telephone.codec));
    write("contacts", "");
    control
}

/// Reads netstrings (`LENGTH:text,`) to their end.
async fn follow(mut read: OwnedReadHalf, events: Arc<Events>) {
    let mut unread: VecDeque<u8> = VecDeque::new();
    let mut buffer = [0; 4_096];
    while let Ok(length @ 1..) = read.read(&mut buffer).await {
        unread.extend(&buffer[..length]);
        while let Some(colon) = unread.iter().position(|octet| *octet == b':') {
            let digits = unread.iter().take(colon).map(|octet| char::from(*octet)).collect::<String>();
            let length: usize = digits.parse().expect("a netstring");
            if unread.len() < colon + length + 2 {
                break;
            }
            let text: Vec<u8> = unread.drain(..colon + length + 2).skip(colon + 1).take(length).collect();
            events.push(serde_json::from_slice(&text).expect("JSON"));
        }
    }
}

/// Between two looks at a recording.
const POLL: Duration = Duration::from_millis(20);

/// Ports are looked for and then taken: in between, others may take them.
const STARTS_MAX: u32 = 5;

/// Where Debian has them.
pub const MODULES: &str = "/usr/lib/baresip/modules";

/// Below the ports that the system gives away, and apart from those of the boxes.
const RTP_FIRST: u16 = 30_000;
const RTP_PORTS: u16 = 20;
const RTP_RANGES: u16 = 70;
