//! `recado self-test`: the box on this machine, without a speech engine: a call is answered and its prompt heard, work is
//! accepted and done, and what is owed survives kill -9.

use std::sync::Arc;

use recado_core::ledger::DeliveryState;
use serde_json::json;

use super::DemoError;
use super::caller::Caller;
use super::events::patiently;
use super::process::BoxProcess;
use super::report::{Check, Timeline, checks};
use super::story::{CALLER, Temporary, settings, this_program};
use super::tools::{Manner, Tools};
use crate::coordination::Reader;
use crate::surface::speech::wav;

/// Runs the test and prints what it found.
///
/// # Errors
/// What went wrong; [`DemoError::Contract`] when a check failed.
pub async fn run() -> Result<(), DemoError> {
    let folder = Temporary::create()?;
    let (config, tools) = (folder.0.join("recado.toml"), Tools::start(|_, _| Manner::Accepts).await?);
    let system = |error| DemoError::System { what: "the test's configuration", error };
    let tool =
        format!("[[tools]]\nname = \"table\"\nurl = \"http://{}/table\"\nidempotent = true\nsay_done.en = \"Done.\"\n", tools.address);
    std::fs::write(&config, settings("en", &folder.0) + &tool).map_err(system)?;
    std::fs::write(folder.0.join("dialogue.toml"), DIALOGUE).map_err(system)?;
    std::fs::write(folder.0.join("prompt.wav"), PROMPT).map_err(system)?;
    let timeline = Arc::new(Timeline::begin());
    let program = this_program()?;

    let boxed = BoxProcess::start(&program, &config, timeline.listener()).await?;
    let caller = Caller::dial(boxed.sip, CALLER).await?;
    patiently("the prompt", caller.line.hears_voice(1_000)).await?;
    patiently("its end", caller.line.hears_silence(1_000)).await?;
    tools.asked("table", 1).await?;
    let (_, ear) = caller.hang_up().await?;
    boxed.log.seen("the call to be settled", |line| line["message"] == "call settled").await?;
    boxed.kill();
    let boxed = BoxProcess::start(&program, &config, timeline.listener()).await?;
    tools.asked("table", 2).await?;
    let answer = tools.report("table", json!({})).await?;
    let ended_well = boxed.stops().await.is_ok_and(|status| status.success());
    let store = Reader::open(&folder.0.join("data").join(crate::config::STORE_FILE))?;
    let owed: Vec<DeliveryState> = store.pending()?.deliveries.iter().map(|delivery| delivery.record.state).collect();

    let prompt = wav::read(PROMPT).map_err(|fault| DemoError::Answer(fault.to_string()))?;
    let heard = ear.find(&prompt).len();
    let effects = tools.effects("table");
    let check = |what: &str, found: String, holds| Check { what: what.to_owned(), found, holds };
    let failed = checks(&[
        check("the caller heard the prompt whole", heard.to_string(), heard == 1),
        check("asked twice under one key, one effect", effects.to_string(), effects == 1),
        check("the result was recorded (200)", answer.to_string(), answer == 200),
        check("the box ended well when told to stop", ended_well.to_string(), ended_well),
        check("the closing waits for its party", format!("{owed:?}"), owed == [DeliveryState::Ready]),
    ]);
    if failed > 0 {
        return Err(DemoError::Contract(failed));
    }
    println!("\nself-test passed");
    Ok(())
}

/// Spoken by a recording, so that no speech engine is needed.
const PROMPT: &[u8] = include_bytes!("speech/en/again.wav");

const DIALOGUE: &str = r#"
[prompts.again]
file = "prompt.wav"
text = "Hello, it's me again. The call was cut off."

[greeting]
say = { prompt = "again" }
call = { tool = "table" }

[otherwise]
say = { prompt = "again" }
"#;
