//! `recado tools`: what tools a box has, what their policies will do, and one attempt to try a tool out. No store is touched, and no box needs to run.

mod call;
mod explain;
mod list;
mod rehearsal;
mod ways;

use std::time::Duration;

use recado_core::policy::Language;
use tokio::signal::unix::{SignalKind, signal};

use crate::cognition::tools::{ArgumentsRefused, Discovered, McpServers, ToolError, with_kept};
use crate::config::{Config, Tool};

pub use call::{Call, called};
pub use explain::explained;
pub use list::listed;

/// Why a tool can't be shown or tried out.
#[derive(Debug, thiserror::Error)]
pub enum ToolsError {
    /// There is no such tool: name one of those that there are.
    #[error("there is no tool {name:?}; there are: {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// The arguments are not JSON: write an object, in quotes for the shell.
    #[error("the arguments are not JSON: {0}; write them as in '{{\"people\": 2}}'")]
    NotJson(serde_json::Error),
    /// The arguments are not what the tool takes: correct them as it says, as a model would have to.
    #[error("{0}")]
    Refused(#[from] ArgumentsRefused),
    /// A tool that is not idempotent, or that callers are asked about first, is asked only when that is wanted.
    #[error("{name} {why}, and this does it for real: add --yes if that is what you want")]
    ForReal {
        /// The tool.
        name: String,
        /// Why that has to be said.
        why: &'static str,
    },
    /// The tool can't be used as it is configured: the words say why.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// The operation was not taken: the words say why.
    #[error("nothing was done: {0}")]
    NotAccepted(String),
    /// Nothing can be run here: the words say why.
    #[error("the tool can't be asked here: {0}")]
    Runtime(std::io::Error),
    /// It was interrupted (SIGINT, SIGTERM), and what it had started was ended.
    #[error("it was interrupted: what had been asked by then may have been done all the same")]
    Interrupted,
    /// What was found can't be written as JSON.
    #[error("what was found can't be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// `config` with the tools that its servers offer: when they were last asked, or, where `ask` says so, now, which is kept for the next start of a
/// box. And what somebody should know, a line each.
///
/// # Errors
/// A server's settings can't be used.
pub fn with_offered(config: &Config, ask: bool) -> Result<(Config, Vec<String>), ToolsError> {
    let Discovered { config, mut notes, missing } = if ask {
        let servers = McpServers::new(&config.mcp)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ToolsError::Runtime)?;
        let found = runtime.block_on(unless_interrupted(async { Ok(servers.discover(config, ASKED_FOR).await) }));
        // Programs that were started end with them.
        drop((servers, runtime));
        found?
    } else {
        with_kept(config)
    };
    let instead = if ask { "" } else { ": `recado tools --discover` asks it" };
    notes.extend(missing.iter().map(|(server, reason)| format!("what the MCP server `{server}` offers is not known: {reason}{instead}")));
    Ok((config, notes))
}

/// What comes of `work`, or that it was interrupted: then it is dropped, and what it has started, which is in a group of its own that no terminal
/// signals, ends with it.
async fn unless_interrupted<T>(work: impl Future<Output = Result<T, ToolsError>>) -> Result<T, ToolsError> {
    let mut interrupted = signal(SignalKind::interrupt()).map_err(ToolsError::Runtime)?;
    let mut terminated = signal(SignalKind::terminate()).map_err(ToolsError::Runtime)?;
    tokio::select! {
        done = work => done,
        _ = interrupted.recv() => Err(ToolsError::Interrupted),
        _ = terminated.recv() => Err(ToolsError::Interrupted),
    }
}

/// Somebody waits for the answer, and a program may have to start first.
const ASKED_FOR: Duration = Duration::from_secs(30);

/// The tool of this name.
fn found<'a>(config: &'a Config, name: &str) -> Result<&'a Tool, ToolsError> {
    config.tool(name).ok_or_else(|| {
        let names: Vec<&str> = config.tools.iter().map(|tool| tool.name.as_str()).collect();
        ToolsError::Unknown { name: name.to_owned(), known: if names.is_empty() { "none".to_owned() } else { names.join(", ") } }
    })
}

/// The one of two texts that is in the box's language.
fn either<'a>(language: Language, es: &'a str, en: &'a str) -> &'a str {
    match language {
        Language::Es => es,
        Language::En => en,
    }
}

/// Milliseconds in the largest unit that they are whole in.
fn duration(ms: u64) -> String {
    match ms {
        ms if ms > 0 && ms % 86_400_000 == 0 => format!("{} d", ms / 86_400_000),
        ms if ms > 0 && ms % 3_600_000 == 0 => format!("{} h", ms / 3_600_000),
        ms if ms > 0 && ms % 60_000 == 0 => format!("{} min", ms / 60_000),
        ms if ms % 1_000 == 0 => format!("{} s", ms / 1_000),
        ms => format!("{ms} ms"),
    }
}
