//! Tools that no configuration names: found at servers that others have written, kept, and done.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use recado::cognition::tools::{Discovered, McpServers, Sent, mcp_tools, with_kept};
use recado::config::{Config, Tool};
use recado_core::ledger::{AttemptOutcome, Dispatch, Executed, OperationState};
use recado_core::{IntentKey, OperationId};
use serde_json::{Value, json};

use super::counterpart::{Everything, FastMcp, odd};
use super::scene::{PATIENCE, Scene, Setup};

/// A box that keeps its data there and leaves its tools to a server, with `more` tools of its own.
fn config(folder: &tempfile::TempDir, server: &Value, left: Value, more: Value) -> Config {
    let mut server = server.clone();
    let fields = server.as_object_mut().expect("a table");
    fields.extend(left.as_object().expect("a table").clone());
    let config = json!({ "box": { "data_dir": folder.path() }, "mcp": { "office": server }, "tools": more });
    serde_json::from_value(config).expect("a configuration")
}

async fn discovered(config: &Config, within: Duration) -> Discovered {
    // Already installed by another test: the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    McpServers::new(&config.mcp).expect("servers").discover(config, within).await
}

fn names(config: &Config) -> Vec<&str> {
    config.tools.iter().map(|tool| tool.name.as_str()).collect()
}

fn tool<'a>(config: &'a Config, name: &str) -> &'a Tool {
    config.tool(name).unwrap_or_else(|| panic!("{name} is not among {:?}", names(config)))
}

#[tokio::test]
async fn what_a_server_offers_becomes_tools_by_its_own_words_and_is_done() {
    let Some(server) = FastMcp::over_http() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let own = json!([{ "name": "fetch", "mcp": "office", "mcp_tool": "quick" }]);
    let left = json!({ "tools": ["*"], "except": ["dy*"], "prefix": "office_" });
    let Discovered { config, notes, missing } = discovered(&config(&folder, &server.settings(), left, own), PATIENCE).await;
    assert!(notes.is_empty() && missing.is_empty(), "{notes:?} {missing:?}");
    assert_eq!(names(&config)[0], "fetch");
    let found: BTreeSet<&str> = names(&config).into_iter().skip(1).collect();
    assert_eq!(found, BTreeSet::from(["office_refusing", "office_slow", "office_reading", "office_repeatable"]));
    let reading = tool(&config, "office_reading");
    assert_eq!(reading.description, "When the shop is open.");
    assert_eq!(reading.parameters["properties"]["day"]["type"], "string");
    assert!(reading.idempotent && tool(&config, "office_repeatable").idempotent && !tool(&config, "office_refusing").idempotent);
    let mut scene = Scene::new(&Setup::of(config)).await;
    let operation = scene.asks("office_reading", json!({ "day": "Monday" }));
    scene.until(|scene| scene.state(operation) == OperationState::Succeeded).await;
    assert_eq!(scene.tells(), ["On Monday from nine to two"]);
    assert_eq!(server.effects("reading"), ["reading Monday"]);
}

#[tokio::test]
async fn what_a_tool_says_of_itself_counts_where_nothing_is_written() {
    let Some(server) = FastMcp::over_http() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let own =
        json!([{ "name": "repeatable", "mcp": "office" }, { "name": "reading", "mcp": "office" }, { "name": "quick", "mcp": "office" }]);
    let mut config = config(&folder, &server.settings(), json!({}), own);
    // As it is loaded from a file in which `idempotent` stands in the second only.
    config.tools[0].hinted = true;
    config.tools[2].hinted = true;
    let found = discovered(&config, PATIENCE).await.config;
    assert_eq!(found.tools.iter().map(|tool| tool.idempotent).collect::<Vec<_>>(), [true, false, false]);
    assert_eq!(names(&found), ["repeatable", "reading", "quick"], "none was left to the server");
}

#[tokio::test]
async fn a_server_that_is_away_is_taken_at_what_it_offered_before() {
    let Some(server) = FastMcp::over_http() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let config = config(&folder, &server.settings(), json!({ "tools": ["*"] }), json!([]));
    assert_eq!(with_kept(&config).missing.keys().collect::<Vec<_>>(), ["office"], "it has never been asked");
    let there = discovered(&config, PATIENCE).await;
    assert_eq!(with_kept(&config).config, there.config);
    drop(server);
    let away = discovered(&config, PATIENCE).await;
    assert_eq!(away.config, there.config);
    let [note] = &away.notes[..] else { panic!("{:?}", away.notes) };
    assert!(note.starts_with("the MCP server `office` is taken at what it offered before: "), "{note}");
    let mut scene = Scene::new(&Setup::of(away.config)).await;
    let operation = scene.asks("reading", json!({ "day": "Monday" }));
    scene.until(|scene| scene.state(operation) == OperationState::RetryWait).await;
    // Another server of that name is not taken at the word of the first.
    let mut other = config.clone();
    other.mcp.get_mut("office").expect("there").url = Some("http://127.0.0.1:1/mcp".to_owned());
    let other = discovered(&other, PATIENCE).await;
    assert!(other.missing.contains_key("office") && other.config.tools.is_empty());
}

#[tokio::test]
async fn a_server_that_comes_back_with_other_tools_refuses_what_is_gone_and_the_next_start_has_what_is_new() {
    let Some(mut server) = FastMcp::over_http() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let config = config(&folder, &server.settings(), json!({ "tools": ["re*", "later"] }), json!([]));
    let started = discovered(&config, PATIENCE).await;
    assert_eq!(BTreeSet::from_iter(names(&started.config)), BTreeSet::from(["refusing", "reading", "repeatable"]));
    let [note] = &started.notes[..] else { panic!("{:?}", started.notes) };
    assert_eq!(note, "the MCP server `office` does not offer `later`, which mcp.office.tools names");
    let mut scene = Scene::new(&Setup::of(started.config)).await;
    server.is_killed_and_starts_again(true);
    let gone = scene.asks("reading", json!({ "day": "Monday" }));
    scene.until(|scene| scene.state(gone) == OperationState::Failed).await;
    assert!(server.effects("reading").is_empty());
    let next = discovered(&config, PATIENCE).await.config;
    let offered: BTreeSet<&str> = next.tools.iter().filter(|tool| !tool.gone).map(|tool| tool.name.as_str()).collect();
    assert_eq!(offered, BTreeSet::from(["refusing", "repeatable", "later"]));
    assert!(tool(&next, "reading").gone, "what it has begun is still asked after");
}

#[tokio::test]
async fn that_a_server_has_changed_its_tools_stands_in_the_log() {
    let Some(mut server) = FastMcp::over_http() else { return };
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).with_max_level(tracing::Level::WARN).finish();
    let _logs_here = tracing::subscriber::set_default(subscriber);
    let folder = tempfile::tempdir().expect("a folder");
    let config = config(&folder, &server.settings(), json!({ "tools": ["reading"] }), json!([]));
    let servers = McpServers::new(&config.mcp).expect("servers");
    let started = servers.discover(&config, PATIENCE).await;
    server.is_killed_and_starts_again(true);
    let port = mcp_tools(&servers, &started.config.tools, None).expect("tools").remove("reading").expect("found").port;
    let outcome = port.attempt(dispatch("reading"), Sent::default()).await;
    assert!(matches!(outcome, AttemptOutcome::Failed { executed: Executed::No, retryable: false, .. }), "{outcome:?}");
    let seen = async {
        while !log.text().contains("has changed its tools") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, seen).await.expect("it is said");
    assert!(log.text().contains("new: later; gone: reading"), "{}", log.text());
}

fn dispatch(tool: &str) -> Dispatch {
    let arguments = json!({ "day": "Monday" });
    Dispatch { operation: OperationId(7), attempt: 1, tool: tool.to_owned(), arguments, intent_key: IntentKey("ana|reading|1".to_owned()) }
}

/// What is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("no panic")).into_owned()
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> tracing_subscriber::fmt::MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn the_protocols_own_example_is_discovered_and_called_over_http() {
    let Some(server) = Everything::over_http().await else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let left = json!({ "tools": ["*"], "prefix": "x_" });
    let Discovered { config, notes, missing } = discovered(&config(&folder, &server.settings(), left, json!([])), PATIENCE).await;
    assert!(notes.is_empty() && missing.is_empty(), "{notes:?} {missing:?}");
    assert!(config.tools.len() > 5, "{:?}", names(&config));
    let mut scene = Scene::new(&Setup::of(config)).await;
    let operation = scene.asks("x_echo", json!({ "message": "hello" }));
    scene.until(|scene| scene.state(operation) == OperationState::Succeeded).await;
    assert_eq!(scene.tells(), ["Echo: hello"]);
}

#[tokio::test]
async fn the_protocols_own_example_is_discovered_as_a_program() {
    let Some(server) = Everything::as_program() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let found = discovered(&config(&folder, &server.settings(), json!({ "tools": ["echo", "get-*"] }), json!([])), PATIENCE).await;
    assert!(found.notes.is_empty() && names(&found.config).contains(&"echo"), "{:?} {:?}", found.notes, names(&found.config));
    assert!(names(&found.config).iter().all(|name| *name == "echo" || name.starts_with("get-")));
}

#[tokio::test]
async fn tools_that_no_model_could_be_offered_are_left_out_one_by_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let object = json!({ "type": "object" });
    let mut tools = vec![
        json!({ "name": "good", "inputSchema": object }),
        json!({ "name": "good", "inputSchema": object }),
        json!({ "name": "end_call", "inputSchema": object }),
        json!({ "name": "tables.book/now", "inputSchema": {} }),
        json!({ "name": "", "inputSchema": object }),
        json!({ "name": "n".repeat(65), "inputSchema": object }),
        json!({ "name": "list", "inputSchema": { "type": "array" } }),
        json!({ "name": "wrong", "inputSchema": { "type": "object", "properties": { "day": { "type": "intger" } } } }),
        json!({ "name": "elsewhere", "inputSchema": { "type": "object", "$ref": "http://127.0.0.1:9/schema" } }),
        json!({ "name": "heavy", "inputSchema": { "type": "object", "description": "x".repeat(20_000) } }),
    ];
    tools.push(json!({ "name": "last", "description": "d".repeat(9_000), "inputSchema": object }));
    let settings = odd(json!([{ "tools": tools }])).await;
    let Discovered { config, notes, .. } = discovered(&config(&folder, &settings, json!({ "tools": ["*"] }), json!([])), PATIENCE).await;
    assert_eq!(names(&config), ["good", "tables_book_now", "last"]);
    assert_eq!(tool(&config, "tables_book_now").mcp_tool.as_deref(), Some("tables.book/now"));
    assert_eq!(tool(&config, "last").description.len(), 1_024);
    for (said, why) in [
        ("good", "there is a tool `good` already: give the server a `prefix`"),
        ("end_call", "is a function of the box's own"),
        ("``", "models take names of 1 to 64 characters"),
        ("nnn", "models take names of 1 to 64 characters"),
        ("list", "its arguments do not come as one object"),
        ("wrong", "its inputSchema can't be used: "),
        ("elsewhere", "its inputSchema can't be used: "),
        ("heavy", "at most 16384 are given to a model"),
    ] {
        assert!(notes.iter().any(|note| note.contains(said) && note.contains(why)), "{said}: {notes:#?}");
    }
    assert_eq!(notes.len(), 8, "{notes:#?}");
}

#[tokio::test]
async fn a_server_with_more_tools_than_a_box_can_have_gives_it_as_many_as_it_takes() {
    let folder = tempfile::tempdir().expect("a folder");
    let tool = |number: usize| json!({ "name": format!("tool_{number}"), "inputSchema": { "type": "object" } });
    let page = |first: usize| json!({ "tools": (first..first + 100).map(tool).collect::<Vec<_>>(), "nextCursor": "more" });
    let settings = odd(Value::Array((0..100).map(|number| page(number * 100)).collect())).await;
    let Discovered { config, notes, .. } = discovered(&config(&folder, &settings, json!({ "tools": ["*"] }), json!([])), PATIENCE).await;
    assert_eq!(config.tools.len(), 128);
    assert!(notes.iter().any(|note| note.contains("offers more than 512 tools")), "{notes:#?}");
    assert!(notes.len() <= 21 && notes.last().is_some_and(|note| note.ends_with("more of the kind")), "{notes:#?}");
}

#[tokio::test]
async fn a_list_without_an_end_an_answer_without_measure_and_what_is_no_list_keep_no_box_from_starting() {
    let endless = Value::Array(vec![json!({ "tools": [], "nextCursor": "more" }); 1_000]);
    let vast = json!([{ "tools": [{ "name": "vast", "description": "x".repeat(8 * 1024 * 1024), "inputSchema": { "type": "object" } }] }]);
    let nonsense = json!([{ "tools": "none" }]);
    for (pages, missing) in [(endless, false), (vast, true), (nonsense, true)] {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = odd(pages).await;
        let found = discovered(&config(&folder, &settings, json!({ "tools": ["*"] }), json!([])), PATIENCE).await;
        assert!(found.config.tools.is_empty());
        assert_eq!(found.missing.contains_key("office"), missing, "{found:?}");
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_is_not_waited_for_longer_than_there_is_time() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let folder = tempfile::tempdir().expect("a folder");
    let settings = json!({ "url": format!("http://{}/mcp", silent.local_addr().expect("an address")) });
    let found = discovered(&config(&folder, &settings, json!({ "tools": ["*"] }), json!([])), Duration::from_millis(300)).await;
    assert_eq!(found.missing["office"], "it did not say what it offers within 300 ms");
}

#[tokio::test]
async fn what_a_server_says_late_is_kept_for_the_next_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = odd(json!([{ "tools": [{ "name": "late", "inputSchema": { "type": "object" } }] }])).await;
    let config = config(&folder, &settings, json!({ "tools": ["*"] }), json!([]));
    let found = discovered(&config, Duration::ZERO).await;
    assert!(found.config.tools.is_empty() && found.missing.contains_key("office"), "{found:?}");
    let kept = async {
        while names(&with_kept(&config).config) != ["late"] {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, kept).await.expect("it is kept");
}

#[tokio::test]
async fn a_schema_that_leads_on_without_end_keeps_no_box_from_starting_and_is_no_tool() {
    let folder = tempfile::tempdir().expect("a folder");
    let twice = |place: String| json!({ "allOf": [{ "$ref": place }, { "$ref": place }] });
    let mut levels: serde_json::Map<String, Value> =
        (0..40).map(|level| (format!("a{level}"), twice(format!("#/$defs/a{}", level + 1)))).collect();
    levels.insert("a40".to_owned(), json!({ "type": "object" }));
    let hostile = json!({ "type": "object", "$defs": levels, "$ref": "#/$defs/a0" });
    let tools = json!([{ "name": "hostile", "inputSchema": hostile }, { "name": "good", "inputSchema": { "type": "object" } }]);
    let settings = odd(json!([{ "tools": tools }])).await;
    let Discovered { config, notes, .. } = discovered(&config(&folder, &settings, json!({ "tools": ["*"] }), json!([])), PATIENCE).await;
    assert_eq!(names(&config), ["good"]);
    assert!(notes.iter().any(|note| note.contains("`hostile`") && note.contains("its references lead")), "{notes:#?}");
}
