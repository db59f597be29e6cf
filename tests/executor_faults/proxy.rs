//! Tools behind a proxy.

use axum::response::IntoResponse;
use recado_core::ledger::OperationState::{Failed, Succeeded};
use serde_json::json;
use tokio::io::{AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use super::rig::{scene, tool};
use super::service::{Secure, Service, head};

#[tokio::test]
async fn a_secure_connection_goes_through_the_proxy_and_is_held_against_the_tools_own_name() {
    let secure = Secure::start("tool.invalid", 4096).await;
    let port = secure.port;
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", proxy.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = proxy.accept().await {
            // Names that only the proxy knows.
            let asked = head(&mut stream).await;
            let answer: &[u8] = if asked.starts_with("CONNECT tool.invalid:443 HTTP/1.1\r\n") { b"200 OK" } else { b"403 Forbidden" };
            stream.write_all(&[b"HTTP/1.1 ", answer, b"\r\n\r\n"].concat()).await.unwrap();
            if answer == b"200 OK" {
                let mut behind = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                let _ = copy_bidirectional(&mut stream, &mut behind).await;
            }
        }
    });
    for (host, state, requests) in [("tool.invalid", Succeeded, 1), ("other.invalid", Failed, 1)] {
        let settings = tool(&format!("https://{host}/"), json!({ "proxy": url, "ca_file": secure.authority.path() }));
        let mut scene = scene(settings).await;
        let operation = scene.orders("tool");
        scene.until(|scene| scene.state(operation) == state).await;
        let stored = scene.stored(operation);
        assert_eq!((stored.unreached, stored.maybe_executed), (0, false), "{stored:?}");
        assert_eq!(secure.requests(), requests);
    }
}

#[tokio::test]
async fn a_plain_request_is_handed_to_the_proxy_whole() {
    let proxy = Service::start(|_, _| r#"{"at": "nine"}"#.into_response()).await;
    let mut scene = scene(tool("http://tool.invalid/order", json!({ "proxy": proxy.base }))).await;
    let operation = scene.orders("tool");
    scene.until(|scene| scene.state(operation) == Succeeded).await;
    let [asked] = &proxy.of("/order")[..] else { panic!("{:?}", proxy.all()) };
    assert_eq!(asked.header("host"), "tool.invalid");
}
