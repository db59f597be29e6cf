//! The HTTP clients of tools and of the webhook.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::{Client, Url};

use super::error::ToolError;
use crate::config::Tool;
use crate::outward::{ClientFault, Connections, SystemAuthorities, plain_client};

/// The HTTP clients of all tools: one for each distinct way of trusting and of using connections.
pub(super) struct Clients {
    system: SystemAuthorities,
    made: HashMap<ClientKind, Client>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ClientKind {
    https: bool,
    ca_file: Option<PathBuf>,
    proxy: Option<Url>,
    reuses_connections: bool,
}

impl Clients {
    pub(super) fn new(system: SystemAuthorities) -> Self {
        Self { system, made: HashMap::new() }
    }

    /// The client for `tool`, shared with tools that need the same.
    ///
    /// A tool that is not idempotent gets a new connection for each attempt: on a kept one, a tool that closes it in
    /// the same instant would leave a request of which nobody knows whether it arrived, and which can't be repeated.
    pub(super) fn client(&mut self, tool: &Tool, proxy: Option<Url>, https: bool) -> Result<Client, ToolError> {
        self.shared(tool.ca_file.as_deref(), proxy, tool.idempotent, https).map_err(|fault| fault.of_tool(&tool.name))
    }

    /// The client for the webhook, whose requests may be repeated.
    pub(super) fn webhook(&mut self, ca_file: Option<&Path>, https: bool) -> Result<Client, ToolError> {
        self.shared(ca_file, None, true, https).map_err(ClientFault::of_webhook)
    }

    fn shared(&mut self, ca_file: Option<&Path>, proxy: Option<Url>, reuses_connections: bool, https: bool) -> Result<Client, ClientFault> {
        let ca_file = ca_file.filter(|_| https).map(Path::to_owned);
        let kind = ClientKind { https, ca_file, proxy, reuses_connections };
        if let Some(client) = self.made.get(&kind) {
            return Ok(client.clone());
        }
        let connections = Connections {
            connect_timeout: Some(CONNECT_TIMEOUT),
            idle_kept: IDLE_CONNECTION_KEPT,
            idle_max: Some(if reuses_connections { IDLE_CONNECTIONS_MAX } else { 0 }),
        };
        let proxy = kind.proxy.as_ref();
        let client = match https {
            true => self.system.client_through(proxy, kind.ca_file.as_deref(), connections)?,
            false => plain_client(proxy, connections)?,
        };
        self.made.insert(kind, client.clone());
        Ok(client)
    }

    /// How many have been made.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.made.len()
    }
}

impl ClientFault {
    fn of_tool(self, tool: &str) -> ToolError {
        let tool = tool.to_owned();
        match self {
            Self::File { path, reason } => ToolError::File { tool, setting: "ca_file", path, reason },
            Self::NoAuthorities { detail } => ToolError::NoAuthorities { tool, detail },
            Self::Client(reason) => ToolError::Client { tool, reason },
        }
    }

    fn of_webhook(self) -> ToolError {
        let (setting, reason) = match self {
            Self::File { path, reason } => ("ca_file", format!("{} {reason}", path.display())),
            Self::NoAuthorities { detail } => {
                ("ca_file", format!("this box has no certificate authorities to check `https` with{detail}: name them there"))
            }
            Self::Client(reason) => ("url", format!("no HTTP client can be made: {reason}")),
        };
        ToolError::Webhook { setting, reason }
    }
}

/// Long enough for two lost SYNs and a TLS handshake; a tool's own `timeout_ms` still bounds the whole attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Shorter than the 5 s after which common servers close an idle connection.
const IDLE_CONNECTION_KEPT: Duration = Duration::from_secs(4);

/// As many as one tool's attempts at a time commonly leave behind.
const IDLE_CONNECTIONS_MAX: usize = 4;
