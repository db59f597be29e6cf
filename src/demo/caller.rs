//! The caller's telephone: as little of a SIP user agent client (RFC 3261 13.2, 15.1) as a call takes.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::UdpSocket;

use super::DemoError;
use super::events::patiently;
use super::line::Line;
use crate::app::random;

/// A call that is up.
pub struct Caller {
    signalling: Signalling,
    /// Its audio.
    pub line: Line,
}

/// The signalling of a call that is up. Its audio is whose port was named.
pub struct Signalling {
    socket: UdpSocket,
    dialog: Dialog,
}

struct Dialog {
    user: String,
    local: SocketAddr,
    remote: SocketAddr,
    call_id: String,
    from_tag: String,
    to: String,
}

impl Caller {
    /// Dials a box as `user` and waits until it answers.
    ///
    /// # Errors
    /// It does not answer, or not with 200.
    pub async fn dial(sip: SocketAddr, user: &str) -> Result<Self, DemoError> {
        let (line, rtp_port) = Line::open().map_err(system)?;
        let (signalling, rtp, rtcp) = Signalling::dial(sip, user, rtp_port).await?;
        line.connect(rtp, rtcp);
        Ok(Self { signalling, line })
    }

    /// Hangs up, and gives what was said and what was heard.
    ///
    /// # Errors
    /// The box does not answer.
    pub async fn hang_up(self) -> Result<(Vec<i16>, super::Ear), DemoError> {
        self.signalling.hang_up().await?;
        Ok(self.line.close())
    }

    /// Waits until the box hangs up, and answers it. What was said and what was heard.
    ///
    /// # Errors
    /// It does not.
    pub async fn is_hung_up(self) -> Result<(Vec<i16>, super::Ear), DemoError> {
        self.signalling.is_hung_up().await?;
        Ok(self.line.close())
    }

    /// The box is gone; nobody answers any more. What was said and what was heard.
    pub fn dropped(self) -> (Vec<i16>, super::Ear) {
        self.line.close()
    }
}

impl Signalling {
    /// Dials a box as `user`, for audio that is received at `rtp_port` and the port after it, and waits until it answers: where it receives RTP
    /// and RTCP.
    ///
    /// # Errors
    /// It does not answer, or not with 200.
    pub async fn dial(sip: SocketAddr, user: &str, rtp_port: u16) -> Result<(Self, SocketAddr, SocketAddr), DemoError> {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).await.map_err(system)?;
        socket.connect(sip).await.map_err(system)?;
        let local = socket.local_addr().map_err(system)?;
        let (call_id, from_tag) = (format!("{:032x}", random()), format!("{:016x}", random() as u64));
        let mut dialog = Dialog { user: user.to_owned(), local, remote: sip, call_id, from_tag, to: format!("<sip:recado@{sip}>") };
        let sdp = format!(
            "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio {rtp_port} RTP/AVP 0 101\r\n\
             a=rtpmap:0 PCMU/8000\r\na=rtpmap:101 telephone-event/8000\r\na=fmtp:101 0-15\r\na=ptime:20\r\n"
        );
        let invite = dialog.request("INVITE", 1, &sdp);
        let answer = transact(&socket, &invite, "INVITE").await?;
        let status = answer.split(' ').nth(1).unwrap_or_default();
        if status != "200" {
            return Err(DemoError::Answer(answer.lines().next().unwrap_or_default().to_owned()));
        }
        dialog.to = header(&answer, "To").unwrap_or(&dialog.to).to_owned();
        socket.send(dialog.request("ACK", 1, "").as_bytes()).await.map_err(system)?;
        let rtp = media(&answer).ok_or_else(|| DemoError::Answer("an SDP without audio".to_owned()))?;
        let rtcp = answer
            .lines()
            .find_map(|text| text.strip_prefix("a=rtcp:")?.split(' ').next()?.trim().parse().ok())
            .map_or(SocketAddr::new(rtp.ip(), rtp.port() + 1), |port| SocketAddr::new(rtp.ip(), port));
        Ok((Self { socket, dialog }, rtp, rtcp))
    }

    /// Hangs up.
    ///
    /// # Errors
    /// The box does not answer.
    pub async fn hang_up(self) -> Result<(), DemoError> {
        let bye = self.dialog.request("BYE", 2, "");
        transact(&self.socket, &bye, "BYE").await.map(drop)
    }

    async fn is_hung_up(&self) -> Result<(), DemoError> {
        let mut buffer = vec![0; 65_536];
        let bye = async {
            loop {
                // A box that is gone is refused by the system; a request that is cut is none.
                let Ok(length) = self.socket.recv(&mut buffer).await else { continue };
                let request = String::from_utf8_lossy(buffer.get(..length).unwrap_or_default()).into_owned();
                if request.starts_with("BYE ") {
                    return request;
                }
            }
        };
        let bye = patiently("the box to hang up", bye).await?;
        let kept = ["Via", "From", "To", "Call-ID", "CSeq"].map(|name| format!("{name}: {}\r\n", header(&bye, name).unwrap_or_default()));
        let answer = format!("SIP/2.0 200 OK\r\n{}Content-Length: 0\r\n\r\n", kept.concat());
        self.socket.send(answer.as_bytes()).await.map_err(system)?;
        Ok(())
    }
}

fn system(error: std::io::Error) -> DemoError {
    DemoError::System { what: "the caller's telephone", error }
}

impl Dialog {
    fn request(&self, method: &str, sequence: u32, sdp: &str) -> String {
        let Self { user, local, remote, call_id, from_tag, to } = self;
        let branch = format!("z9hG4bK{:032x}", random());
        let kind = if sdp.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
        format!(
            "{method} sip:recado@{remote} SIP/2.0\r\nVia: SIP/2.0/UDP {local};branch={branch};rport\r\nMax-Forwards: 70\r\n\
             From: <sip:{user}@{local}>;tag={from_tag}\r\nTo: {to}\r\nCall-ID: {call_id}\r\nCSeq: {sequence} {method}\r\n\
             Contact: <sip:{user}@{local}>\r\n{kind}Content-Length: {}\r\n\r\n{sdp}",
            sdp.len()
        )
    }
}

/// Sends a request until it is answered finally (RFC 3261 17.1: every half second, which is enough on loopback).
async fn transact(socket: &UdpSocket, request: &str, method: &str) -> Result<String, DemoError> {
    let mut buffer = vec![0; 65_536];
    for _ in 0..20 {
        socket.send(request.as_bytes()).await.map_err(system)?;
        let deadline = tokio::time::Instant::now() + Duration::from_millis(500);
        while let Ok(received) = tokio::time::timeout_at(deadline, socket.recv(&mut buffer)).await {
            let Some(answer) = received.ok().and_then(|length| buffer.get(..length)) else { continue };
            let answer = String::from_utf8_lossy(answer).into_owned();
            let is_final = answer.starts_with("SIP/2.0 ") && !answer.starts_with("SIP/2.0 1");
            if is_final && header(&answer, "CSeq").is_some_and(|sequence| sequence.ends_with(method)) {
                return Ok(answer);
            }
        }
    }
    Err(DemoError::Waited(format!("the answer to {method}")))
}

fn header<'a>(message: &'a str, name: &str) -> Option<&'a str> {
    message.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.trim().eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

fn media(sdp: &str) -> Option<SocketAddr> {
    let port = sdp.lines().find_map(|line| line.strip_prefix("m=audio ")?.split(' ').next()?.parse().ok())?;
    let address = sdp.lines().find_map(|line| line.strip_prefix("c=IN IP4 ")?.trim().parse().ok())?;
    Some(SocketAddr::new(address, port))
}
