//! What servers offer beside what a configuration names, found out when a box starts, and what is said where it can't be.

use std::time::Duration;

use tracing::{info, warn};

use crate::admin::{HealthState, Impact};
use crate::cognition::tools::{Discovered, McpServers};
use crate::config::Config;

/// `config` with the tools that its servers offer. A server that is away keeps no box from starting: what it offered before counts, and where nothing is
/// known, `health` says that its tools are missing.
pub(super) async fn with_discovered(config: &Config, servers: &McpServers, health: &HealthState) -> Config {
    let Discovered { config: joined, notes, missing } = servers.discover(config, DISCOVERED_WITHIN).await;
    for note in &notes {
        warn!("{note}");
    }
    for (server, reason) in &missing {
        warn!(server, reason, "the tools that an MCP server offers are not known: the box starts without them");
    }
    if !missing.is_empty() {
        let away = missing.iter().map(|(server, reason)| format!("`{server}`: {reason}")).collect::<Vec<_>>().join("; ");
        let sentence = format!("the box has started without the tools of {away}: start it again when that can be reached");
        health.raise(PART, Impact::Degrades, sentence);
    }
    let found: Vec<&str> = joined.tools.iter().filter(|tool| tool.discovered && !tool.gone).map(|tool| tool.name.as_str()).collect();
    if !found.is_empty() {
        info!(tools = found.join(", "), "MCP servers offer these tools too");
    }
    joined
}

/// What health calls it.
const PART: &str = "mcp";

/// A box that starts is waited for by callers.
pub(super) const DISCOVERED_WITHIN: Duration = Duration::from_secs(5);
