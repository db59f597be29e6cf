//! The least that a call led by a Realtime service could cost: what comes as RTP goes to a WebSocket in base64 and JSON, what comes from
//! there goes out as RTP, every 20 ms. Nobody is listened to, nothing is decided, nothing is on record.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::{SinkExt, StreamExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::{MissedTickBehavior, interval};
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use super::service::field;

/// The first argument of a process that is the floor.
pub const MODE: &str = "--floor";

/// Carries so many calls, on one thread, for ever. Says on which ports, a line each.
pub fn run(service: &str, calls: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        for _ in 0..calls {
            let rtp = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
            println!("{}", rtp.local_addr().expect("an address").port());
            tokio::spawn(carry(rtp, service.to_owned()));
        }
        std::future::pending::<()>().await;
    });
}

async fn carry(rtp: UdpSocket, service: String) {
    let request = format!("ws://{service}/v1/realtime?model=m").into_client_request().expect("a request");
    let tcp = TcpStream::connect(&service).await.expect("a service");
    tcp.set_nodelay(true).expect("a socket");
    let (mut socket, _) = client_async(request, tcp).await.expect("a service");
    socket.send(Message::text(r#"{"type":"response.create","response":{"metadata":{}}}"#)).await.expect("a service");
    let mut every = interval(Duration::from_millis(20));
    every.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (mut to_say, mut to, mut packet, mut n) = (VecDeque::<u8>::new(), None::<SocketAddr>, [0; 512], 0_u32);
    loop {
        tokio::select! {
            came = rtp.recv_from(&mut packet) => {
                let Ok((length, from)) = came else { return };
                to = Some(from);
                let audio = STANDARD.encode(&packet[12..length]);
                let event = format!(r#"{{"type":"input_audio_buffer.append","audio":"{audio}"}}"#);
                if socket.send(Message::text(event)).await.is_err() {
                    return;
                }
            }
            message = socket.next() => {
                let Some(Ok(message)) = message else { return };
                if let Message::Text(text) = message
                    && text.contains("output_audio.delta")
                    && let Some(delta) = field(&text, "\"delta\":\"")
                {
                    to_say.extend(STANDARD.decode(delta).unwrap_or_default());
                }
            }
            _ = every.tick() => {
                let Some(to) = to else { continue };
                let mut out = [0xff; 172];
                out[..12].copy_from_slice(&[0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
                out[2..4].copy_from_slice(&(n as u16).to_be_bytes());
                out[4..8].copy_from_slice(&(n * 160).to_be_bytes());
                n += 1;
                let whole = to_say.len().min(160);
                for (place, octet) in out[12..].iter_mut().zip(to_say.drain(..whole)) {
                    *place = octet;
                }
                let _ = rtp.send_to(&out, to).await;
            }
        }
    }
}
