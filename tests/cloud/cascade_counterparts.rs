//! The cascade against services that others have written: `llmock`, which breaks its answers on demand and judges the client; `aimock`; and
//! a Whisper behind the transcription interface.
//!
//! Each is skipped with a message where it is not there: `./dev test` fetches the first, `./dev cascade-test` the others.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use recado::cognition::models::ModelSession;
use recado::demo::{Caller, patiently};
use recado_core::ResponseId;
use recado_core::conversation::effect::Cause;
use recado_core::conversation::input::ModelEvent;
use reqwest::Client;
use serde_json::json;

use super::cascade::{all_of, complete, failure, model, respond, says, turn_ends};
use super::http_service::{Conduct, HttpService};
use super::llmock::{Llmock, REFUSAL};
use super::stage::{Stage, hears_to_the_end, open, speaks, speech};

/// A service of others, as a process. It ends when this is dropped.
pub struct Counterpart {
    process: Child,
    pub url: String,
}

impl Counterpart {
    /// Starts what `variable` names, or what lies at `usual` among what `./dev` has fetched; none where neither is there. `arguments` gives it
    /// a port, and `ready` is a path that it answers at.
    pub async fn start(variable: &str, usual: &str, arguments: impl Fn(u16) -> Vec<String>, ready: &str) -> Option<Self> {
        let named = std::env::var_os(variable).map(PathBuf::from);
        let usual = Path::new(env!("CARGO_TARGET_TMPDIR")).join("..").join(usual);
        let Some(program) = named.or_else(|| usual.exists().then_some(usual)) else {
            println!("skipped: {variable} names no program, and ./dev has fetched none");
            return None;
        };
        // A port that was free a moment ago.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(program);
        command.args(arguments(port)).stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null());
        let process = command.spawn().unwrap();
        let counterpart = Self { process, url: format!("http://127.0.0.1:{port}") };
        let answers = async {
            while client().get(format!("{}{ready}", counterpart.url)).send().await.is_err() {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(90), answers).await.expect("it answers");
        Some(counterpart)
    }
}

impl Drop for Counterpart {
    fn drop(&mut self) {
        // It has ended by itself where this fails.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The test's own client.
pub fn client() -> Client {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let tls = tls.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth();
    Client::builder().tls_backend_preconfigured(tls).no_proxy().build().unwrap()
}

/// The settings of a cascade whose parts are there.
fn settings(transcription: &str, language: &str, more: &str) -> String {
    format!(
        "[model]\nkind = 'cascade'\n[cloud.transcription]\nurl = '{transcription}/v1'\nmodel = 'whisper-1'\n\
         [cloud.language]\nurl = '{language}/v1'\nmodel = 'gpt-4o'\nspeculate = false\n{more}\n"
    )
}

async fn greeted(session: &mut ModelSession, n: u128) -> (String, Vec<ModelEvent>) {
    respond(session, ResponseId(n), Cause::Greeting);
    all_of(session, ResponseId(n)).await
}

#[tokio::test]
async fn llmock_says_that_the_client_handles_every_fault_of_both_interfaces() {
    let Some(llmock) = Llmock::start().await else { return };
    let mut n = 0;
    for api in ["chat-completions", "responses"] {
        let more = format!("api = '{api}'\nconnect_timeout_ms = 500\nanswer_timeout_ms = 800\nstall_timeout_ms = 800");
        let mut session = open(&model(&settings(llmock.url(), llmock.url(), &more)));
        for (what, behaviors) in Llmock::behaviors("Good morning to you. What may I do for you today?") {
            llmock.behaves(what, &behaviors).await;
            n += 1;
            let (words, events) = greeted(&mut session, n).await;
            if what == REFUSAL {
                assert!(failure(&events).contains("refuses the key (401)"), "{api}: {what}: {events:?}");
            } else {
                assert!(complete(&events) && words.starts_with("Good morning to you. "), "{api}: {what}: {words}: {events:?}");
            }
        }
    }
    llmock.passes().await;
}

#[tokio::test]
async fn aimock_hears_the_words_and_answers_them_over_both_interfaces() {
    let directory = tempfile::tempdir().unwrap();
    let call = json!({ "name": "order", "arguments": "{\"item\":\"paella\"}" });
    let fixtures = json!({ "fixtures": [
        { "match": { "userMessage": "A paella, please." }, "response": { "toolCalls": [call] } },
        { "match": { "userMessage": "Greet the caller" }, "response": { "content": "Good morning to you. What would you like?" } },
        { "match": { "endpoint": "transcription" }, "response": { "transcription": { "text": "A paella, please." } } },
    ] });
    let file = directory.path().join("fixtures.json");
    std::fs::write(&file, fixtures.to_string()).unwrap();
    let serve = |port: u16| vec!["--port".into(), port.to_string(), "--fixtures".into(), file.display().to_string()];
    let Some(aimock) = Counterpart::start("RECADO_AIMOCK_PROGRAM", "aimock/node_modules/.bin/llmock", serve, "/__aimock/journal").await
    else {
        return;
    };
    for (api, stream) in [("chat-completions", "false"), ("responses", "true")] {
        let settings = settings(&aimock.url, &aimock.url, &format!("api = '{api}'"))
            .replace("'whisper-1'", &format!("'whisper-1'\nstream = {stream}"));
        let mut session = open(&model(&settings));
        let (words, events) = greeted(&mut session, 1).await;
        assert_eq!((words.as_str(), complete(&events)), ("Good morning to you. What would you like?", true), "{api}: {events:?}");
        says(&session, &[1_000; 8_000]);
        turn_ends(&session, ResponseId(2));
        let (_, events) = all_of(&mut session, ResponseId(2)).await;
        let [ModelEvent::ToolCall { call, .. }, ModelEvent::Complete { .. }] = &events[..] else { panic!("{api}: {events:?}") };
        assert_eq!((call.tool.as_str(), &call.arguments), ("order", &json!({ "item": "paella" })));
        println!("aimock, {api}, transcription with stream = {stream}: greeted in words, heard, and asked for an order");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whisper_writes_down_what_a_caller_says_over_real_sip() {
    if !speaks() {
        return;
    }
    let serve = |port: u16| vec![port.to_string()];
    let Some(whisper) = Counterpart::start("RECADO_WHISPER", "whisper/serve", serve, "/health").await else { return };
    let language = HttpService::start(vec![Conduct::wrote("")], vec![Conduct::says("Good morning to you.")]).await;
    let more = "answer_timeout_ms = 60000\nwhole_timeout_ms = 60000";
    let settings = settings(&whisper.url, &format!("http://{}", language.address), "");
    let stage = Stage::with_model(&settings.replace("'whisper-1'", &format!("'whisper-1'\n{more}")), "").await;
    let boxed = stage.box_runs().await;
    let caller = Caller::dial(boxed.sip, "600123456").await.unwrap();
    hears_to_the_end(&caller).await;
    // Whoever takes longer than the conversation waits for is excused, and its words reach the model with the next turn.
    for name in ["again", "request", "interruption", "interruption"] {
        caller.line.say(&speech(name));
        patiently("the caller to have said it", caller.line.has_said()).await.unwrap();
        hears_to_the_end(&caller).await;
    }
    caller.hang_up().await.unwrap();
    let heard = heard(&language.seen);
    let found: Vec<&str> = SPOKEN.into_iter().filter(|word| heard.contains(word)).collect();
    println!("Whisper wrote down: {heard}\nof the words {SPOKEN:?}, {} of {} reached the model: {found:?}", found.len(), SPOKEN.len());
    assert!(found.len() * 4 >= SPOKEN.len() * 3, "{heard}");
}

/// All that the model was told of the caller's words.
fn heard(seen: &super::http_service::Seen) -> String {
    let messages = seen.asked().iter().flat_map(|request| request.messages()).collect::<Vec<_>>();
    let words = messages
        .iter()
        .filter(|message| message["role"] == "user" && !message["content"].as_str().is_some_and(|text| text.starts_with('(')))
        .filter_map(|message| message["content"].as_str());
    words.collect::<Vec<_>>().join(" ").to_lowercase()
}

/// Words of "Hello, it's me again. The call was cut off.", "Hello, I need a table for two tonight, and a taxi at eight as well." and "Oh, wait a
/// moment. I can't hear you well."
const SPOKEN: [&str; 12] =
    ["me again", "call", "cut off", "need", "table", "for two", "taxi", "as well", "wait", "moment", "can't hear", "you well"];
