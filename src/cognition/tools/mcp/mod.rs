//! Tools of servers that speak the Model Context Protocol: over HTTP, or as programs on this machine.
//!
//! A server has one connection (`server`), made when it is first needed and shared by all its tools. A tool (`tool`) is called with
//! `tools/call` and never twice by the protocol's client itself: whether it is called once more is the ledger's decision. What a server makes a
//! task of (`io.modelcontextprotocol/tasks`) is taken under the task's identifier, which the ledger keeps and asks with. What its answers and
//! faults mean stands in `meaning`.
//!
//! What a server offers (`catalogue`) is asked for when a box starts, and joins the tools that its configuration
//! names (`discovery`); that it has changed since then is said in the log (`looks`).

mod catalogue;
mod discovery;
#[cfg(test)]
mod faults;
mod intricacy;
mod looks;
mod meaning;
mod process;
mod server;
mod tool;

use std::collections::BTreeMap;
use std::sync::Arc;

use recado_core::ledger;
use tokio::sync::mpsc;

use super::error::ToolError;
use super::executor::Slot;
use crate::config::{McpServer, Tool};
use crate::outward::SystemAuthorities;
pub use discovery::{Discovered, with_kept};
use server::Server;
use tool::McpTool;

/// The servers of a configuration, with the ways to them.
pub struct McpServers {
    by_name: BTreeMap<String, Arc<Server>>,
}

impl McpServers {
    /// Reads their files; no server is asked for anything yet, and no program started.
    ///
    /// # Errors
    /// The first setting that can't be used.
    pub fn new(settings: &BTreeMap<String, McpServer>) -> Result<Self, ToolError> {
        let mut authorities = None;
        let mut by_name = BTreeMap::new();
        for (name, settings) in settings {
            let system = || SystemAuthorities::load();
            let server = Server::new(name, settings, || authorities.get_or_insert_with(system))?;
            by_name.insert(name.clone(), Arc::new(server));
        }
        Ok(Self { by_name })
    }
}

/// Those of `tools` that `servers` have, ready for an [`super::Executor`]. News of how far a task is goes to `news`, and is dropped where that is full.
///
/// # Errors
/// The first setting that can't be used.
pub fn mcp_tools(
    servers: &McpServers,
    tools: &[Tool],
    news: Option<&mpsc::Sender<ledger::Input>>,
) -> Result<BTreeMap<String, Slot>, ToolError> {
    let mut slots = BTreeMap::new();
    for tool in tools {
        let Some(of) = &tool.mcp else { continue };
        let Some(server) = servers.by_name.get(of) else {
            let reason = format!("there is no table [mcp.{of}], which the tool `{}` names", tool.name);
            return Err(ToolError::Mcp { server: of.clone(), setting: "url", reason });
        };
        let port = Arc::new(McpTool::new(tool, Arc::clone(server), news.cloned()));
        if slots.insert(tool.name.clone(), Slot { port, concurrency: tool.concurrency }).is_some() {
            return Err(ToolError::Duplicate { tool: tool.name.clone() });
        }
    }
    Ok(slots)
}
