//! The SIP server against SIPp, over loopback. Skipped with a message where `sipp` (Debian: sip-tester) is not installed.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command as Process, Stdio};

use recado::surface::sip::{Command, Counters, EndCause, EndpointConfig, Event, LocalMedia, Server};

/// What the application saw.
#[derive(Debug, Default)]
struct Seen {
    incoming: u32,
    established: u32,
    renegotiated: u32,
    ended_by_caller: u32,
    ended_otherwise: Vec<EndCause>,
}

#[test]
fn two_hundred_plain_calls_at_twenty_a_second_all_succeed() {
    let Some((seen, counters)) = run(&["-sn", "uac", "-m", "200", "-r", "20", "-mp", "21000"]) else {
        return;
    };
    assert_eq!((seen.incoming, seen.established, seen.ended_by_caller), (200, 200, 200), "{seen:?}");
    assert_eq!((counters.malformed_answered, counters.malformed_dropped), (0, 0), "{counters:?}");
}

#[test]
fn with_every_seventh_datagram_lost_both_ways_all_calls_succeed() {
    let arguments = ["-sn", "uac", "-m", "100", "-r", "20", "-lost", "15", "-mp", "22000"];
    let Some((seen, counters)) = run(&arguments) else {
        return;
    };
    assert_eq!(seen.incoming, 100, "{seen:?}");
    assert!(counters.retransmissions > 0, "{counters:?}");
    // SIPp takes a repeated 200 of the INVITE for that of its BYE: where it lost both its ACK and its BYE, it is content
    // and gone, and the call is still open here when the server is shut down.
    let left = seen.ended_otherwise.len();
    assert!(seen.ended_otherwise.iter().all(|cause| *cause == EndCause::LocalBye), "{seen:?}");
    assert_eq!(seen.ended_by_caller as usize + left, 100, "each call ends once: {seen:?}");
    assert!(left < 15, "{seen:?}");
}

#[test]
fn a_re_invite_directly_behind_the_ack_succeeds_in_every_call() {
    let directory = tempfile::tempdir().expect("a directory");
    let scenario = directory.path().join("reinvite.xml");
    std::fs::write(&scenario, REINVITE_BEHIND_ACK).expect("written");
    let path = scenario.to_string_lossy().into_owned();
    let Some((seen, _)) = run(&["-sf", &path, "-m", "200", "-r", "50", "-mp", "23000"]) else {
        return;
    };
    assert_eq!((seen.established, seen.renegotiated, seen.ended_by_caller), (200, 200, 200), "{seen:?}");
    assert!(seen.ended_otherwise.is_empty(), "{seen:?}");
}

/// Scenarios of other projects, where they are there: (file, calls, what the application does when the call is up).
#[test]
fn scenarios_of_other_projects_succeed() {
    const JAMBONZ: &str = "jambonz__jambonz-feature-server/test/scenarios";
    const DRACHTIO: &str = "drachtio__drachtio-server/test/scenarios";
    let scenarios = [
        (format!("{DRACHTIO}/uac-options-expect-200.xml"), Manner::Listen),
        (format!("{JAMBONZ}/uac-success-send-bye.xml"), Manner::Listen),
        (format!("{JAMBONZ}/uac-success-received-bye.xml"), Manner::HangUp),
        (format!("{JAMBONZ}/uac-expect-603.xml"), Manner::Reject(603)),
        (format!("{JAMBONZ}/uac-invite-expect-480.xml"), Manner::Reject(480)),
        (format!("{JAMBONZ}/uac-expect-500.xml"), Manner::Reject(500)),
    ];
    for (index, (scenario, manner)) in scenarios.into_iter().enumerate() {
        let Some(path) = case_path(&format!("d_sipp/{scenario}")) else {
            println!("skipped: {scenario} is not there");
            continue;
        };
        let port = (24_000 + index * 100).to_string();
        let Some((seen, _)) = run_with(&["-sf", &path, "-m", "2", "-mp", &port, "-key", "from", "sipp", "-key", "to", "box"], manner)
        else {
            return;
        };
        println!("{scenario}: {seen:?}");
    }
}

fn case_path(path: &str) -> Option<String> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut roots = ["../shared/cases", "../../shared/cases"].into_iter().map(|root| manifest.join(root).join(path));
    Some(roots.find(|path| path.is_file())?.to_string_lossy().into_owned())
}

/// What the application does with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Listen,
    HangUp,
    Reject(u16),
}

fn run(arguments: &[&str]) -> Option<(Seen, Counters)> {
    run_with(arguments, Manner::Listen)
}

/// Runs SIPp as caller against a server that accepts everything; `None` if there is no SIPp.
fn run_with(arguments: &[&str], manner: Manner) -> Option<(Seen, Counters)> {
    if Process::new("sipp").arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        println!("skipped: sipp is not installed");
        return None;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("runtime");
    runtime.block_on(async {
        let loopback: SocketAddr = "127.0.0.1:0".parse().expect("address");
        let mut config = EndpointConfig::new(loopback);
        config.calls_max = 300;
        let server = Server::start(loopback, config, [3; 32]).expect("started");
        let address = server.address().to_string();
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let caller = tokio::task::spawn_blocking(move || call(&address, &arguments));
        tokio::pin!(caller);
        let mut server = server;
        let mut seen = Seen::default();
        let output = loop {
            tokio::select! {
                event = server.events.recv() => answer(&server, event.expect("running"), manner, &mut seen).await,
                output = &mut caller => break output.expect("ran"),
            }
        };
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
        server.commands.send(Command::Shutdown).await.expect("running");
        while let Some(event) = server.events.recv().await {
            answer(&server, event, manner, &mut seen).await;
        }
        let counters = *server.counters.borrow();
        server.ended().await;
        Some((seen, counters))
    })
}

async fn answer(server: &Server, event: Event, manner: Manner, seen: &mut Seen) {
    match event {
        Event::Incoming(incoming) => {
            seen.incoming += 1;
            let address = "127.0.0.1".parse().expect("address");
            let local = LocalMedia { address, rtp_port: 40000, rtcp_port: 40001, rtcp_mux: false };
            let call = incoming.call;
            // After a shutdown nobody takes commands any more.
            let answers = match manner {
                Manner::Listen | Manner::HangUp => {
                    vec![Command::Ring { call }, Command::Accept { call, local }]
                }
                Manner::Reject(status) => vec![Command::Reject { call, status }],
            };
            for answer in answers {
                let _ = server.commands.send(answer).await;
            }
        }
        Event::Established { call, .. } => {
            seen.established += 1;
            if manner == Manner::HangUp {
                let _ = server.commands.send(Command::Bye { call }).await;
            }
        }
        Event::Renegotiated { .. } => seen.renegotiated += 1,
        Event::Ended { cause: EndCause::Bye, .. } => seen.ended_by_caller += 1,
        Event::Ended { cause, .. } => seen.ended_otherwise.push(cause),
        Event::Asserted { .. } | Event::Digit { .. } => {}
    }
}

fn call(address: &str, arguments: &[String]) -> std::process::Output {
    let free = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port");
    Process::new("sipp")
        .arg(address)
        .args(["-i", "127.0.0.1", "-p", &free.port().to_string(), "-nostdin", "-timeout", "38", "-timeout_error"])
        .args(arguments)
        .current_dir(Path::new(env!("CARGO_TARGET_TMPDIR")))
        .env("TERM", "dumb")
        .output()
        .expect("sipp runs")
}

/// INVITE, ACK and at once a re-INVITE to another RTP port, ACK, BYE.
const REINVITE_BEHIND_ACK: &str = r#"<?xml version="1.0" encoding="ISO-8859-1" ?>
<scenario name="re-INVITE behind ACK">
  <send retrans="500"><![CDATA[
    INVITE sip:box@[remote_ip]:[remote_port] SIP/2.0
    Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
    From: <sip:sipp@[local_ip]:[local_port]>;tag=[pid]x[call_number]
    To: <sip:box@[remote_ip]:[remote_port]>
    Call-ID: [call_id]
    CSeq: 1 INVITE
    Contact: <sip:sipp@[local_ip]:[local_port]>
    Max-Forwards: 70
    Content-Type: application/sdp
    Content-Length: [len]

    v=0
    o=- 1 1 IN IP4 [local_ip]
    s=-
    c=IN IP4 [local_ip]
    t=0 0
    m=audio 30000 RTP/AVP 0
  ]]></send>
  <recv response="100" optional="true"/>
  <recv response="180" optional="true"/>
  <recv response="200"/>
  <send><![CDATA[
    ACK sip:box@[remote_ip]:[remote_port] SIP/2.0
    Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
    From: <sip:sipp@[local_ip]:[local_port]>;tag=[pid]x[call_number]
    To: <sip:box@[remote_ip]:[remote_port]>[peer_tag_param]
    Call-ID: [call_id]
    CSeq: 1 ACK
    Max-Forwards: 70
    Content-Length: 0
  ]]></send>
  <send retrans="500"><![CDATA[
    INVITE sip:box@[remote_ip]:[remote_port] SIP/2.0
    Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
    From: <sip:sipp@[local_ip]:[local_port]>;tag=[pid]x[call_number]
    To: <sip:box@[remote_ip]:[remote_port]>[peer_tag_param]
    Call-ID: [call_id]
    CSeq: 2 INVITE
    Contact: <sip:sipp@[local_ip]:[local_port]>
    Max-Forwards: 70
    Content-Type: application/sdp
    Content-Length: [len]

    v=0
    o=- 1 2 IN IP4 [local_ip]
    s=-
    c=IN IP4 [local_ip]
    t=0 0
    m=audio 30002 RTP/AVP 0
  ]]></send>
  <recv response="200"/>
  <send><![CDATA[
    ACK sip:box@[remote_ip]:[remote_port] SIP/2.0
    Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
    From: <sip:sipp@[local_ip]:[local_port]>;tag=[pid]x[call_number]
    To: <sip:box@[remote_ip]:[remote_port]>[peer_tag_param]
    Call-ID: [call_id]
    CSeq: 2 ACK
    Max-Forwards: 70
    Content-Length: 0
  ]]></send>
  <send retrans="500"><![CDATA[
    BYE sip:box@[remote_ip]:[remote_port] SIP/2.0
    Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
    From: <sip:sipp@[local_ip]:[local_port]>;tag=[pid]x[call_number]
    To: <sip:box@[remote_ip]:[remote_port]>[peer_tag_param]
    Call-ID: [call_id]
    CSeq: 3 BYE
    Max-Forwards: 70
    Content-Length: 0
  ]]></send>
  <recv response="200"/>
</scenario>
"#;
