//! A box with one tool, called `tool`.

use recado::config::HandOff;
use serde_json::{Value, json};

pub use super::scene::{Scene, Setup};

/// A box whose tool has these settings.
pub fn setup(tool: Value) -> Setup {
    Setup::new(vec![serde_json::from_value(tool).expect("a tool")])
}

/// A box, and a caller.
pub async fn scene(tool: Value) -> Scene {
    Scene::new(&setup(tool)).await
}

/// The same, with another way for what nobody has come to hear.
pub async fn scene_with_webhook(tool: Value, webhook: HandOff) -> Scene {
    Scene::new(&setup(tool).with_webhook(webhook)).await
}

/// A tool with texts that show what is said.
pub fn tool(url: &str, more: Value) -> Value {
    let mut tool = json!({
        "name": "tool",
        "url": url,
        "timeout_ms": 30_000,
        "retry": { "attempts_max": 2, "backoff_ms": 1, "backoff_ms_max": 5 },
        "status_after_ms": 250,
        "progress": "say",
        "say_done": { "en": "Done: {{ result.at }}." },
        "say_failed": { "en": "Failed: {{ error }}." },
        "say_unknown": { "en": "Nobody knows." },
        "say_waiting": { "en": "It waits." },
        "say_progress": { "en": "It is at {{ progress.percent }}." },
        "say_too_late": { "en": "Too late: {{ result.at }}." },
        "say_compensated": { "en": "Undone." },
        "say_cancelled": { "en": "Off." },
    });
    for (key, value) in more.as_object().expect("settings") {
        tool[key] = value.clone();
    }
    tool
}
