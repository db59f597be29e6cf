//! All tools of a configuration, whatever carries them out.

use std::collections::BTreeMap;

use recado_core::ledger;
use tokio::sync::mpsc;

use super::callbacks::CallbackAddress;
use super::command::commands;
use super::delegate::delegates;
use super::error::ToolError;
use super::executor::Slot;
use super::http::http_tools;
use super::mcp::{McpServers, mcp_tools};
use crate::config::{Config, Tool};

/// The tools of `config`, and of its `servers`, ready for an [`super::Executor`]. Reads their files and the system's certificate authorities, and asks nobody for anything.
///
/// Results that come later are POSTed to the `callback` address; news of how far operations are go to `reports`, as far as there is room.
///
/// # Errors
/// The first setting that can't be used.
pub fn slots(
    config: &Config,
    servers: &McpServers,
    callback: Option<&CallbackAddress>,
    reports: Option<&mpsc::Sender<ledger::Input>>,
) -> Result<BTreeMap<String, Slot>, ToolError> {
    let tools = &config.tools;
    // What a larger model uses itself answers at once: a result that comes back later would be taken for the whole operation's.
    let used = |tool: &&Tool| tools.iter().filter_map(|other| other.delegate.as_ref()).any(|delegate| delegate.tools.contains(&tool.name));
    let used: Vec<Tool> = tools.iter().filter(used).cloned().collect();
    let mut of_models = http_tools(&used, None, None)?;
    of_models.extend(commands(&used)?);
    let mut slots = http_tools(tools, callback, reports)?;
    for more in [commands(tools)?, mcp_tools(servers, tools, reports)?, delegates(tools, config.this_box.language, &of_models, reports)?] {
        for (name, slot) in more {
            if slots.contains_key(&name) {
                return Err(ToolError::Duplicate { tool: name });
            }
            slots.insert(name, slot);
        }
    }
    Ok(slots)
}
