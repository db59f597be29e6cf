//! Why a tool can't be used as it is configured.

use std::path::PathBuf;

use crate::config::SecretError;
use crate::outward::ServiceSetupError;

/// Why a tool can't be used as it is configured. All of these show at start, none in a call.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// Two tools have one name: rename one of them.
    #[error("two tools are called `{tool}`: rename one of them")]
    Duplicate {
        /// The tool.
        tool: String,
    },
    /// The arguments' schema can't be used: correct `parameters`.
    #[error("tool `{tool}`: `parameters` is not a JSON Schema that can be used: {reason}")]
    Schema {
        /// The tool.
        tool: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An address can't be used: correct the setting that holds it.
    #[error("tool `{tool}`: `{setting}` can't be used: {reason}")]
    Url {
        /// The tool.
        tool: String,
        /// The setting that holds it.
        setting: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A header can't be sent: correct or remove it.
    #[error("tool `{tool}`: header `{header}` can't be sent: {reason}")]
    Header {
        /// The tool.
        tool: String,
        /// The header's name. Its value may be a secret and is not repeated.
        header: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The tool's token can't be had: correct its `bearer_file`.
    #[error("tool `{tool}`: `bearer_file`: {error}")]
    Bearer {
        /// The tool.
        tool: String,
        /// Why.
        error: SecretError,
    },
    /// The secret that signs can't be had: correct its `sign_secret_file`.
    #[error("tool `{tool}`: `sign_secret_file`: {reason}")]
    SignSecret {
        /// The tool.
        tool: String,
        /// Why.
        reason: String,
    },
    /// A file that the tool needs can't be used: correct the path, its permissions or its content.
    #[error("tool `{tool}`: `{setting}` {}: {reason}", path.display())]
    File {
        /// The tool.
        tool: String,
        /// The setting that names the file.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// An `https://` tool, and no certificate authority to trust: install them or name a `ca_file`.
    #[error(
        "tool `{tool}`: this box has no certificate authorities to check `https` with{detail}: install the package `ca-certificates`, or set the tool's `ca_file`"
    )]
    NoAuthorities {
        /// The tool.
        tool: String,
        /// What the system's store said, where it said something.
        detail: String,
    },
    /// The HTTP client can't be made: the reason tells which setting it stumbles over.
    #[error("tool `{tool}`: no HTTP client can be made: {reason}")]
    Client {
        /// The tool.
        tool: String,
        /// Why.
        reason: String,
    },
    /// The service of a larger model can't be used as it is configured: correct the setting.
    #[error("tool `{tool}`: {error}")]
    Delegate {
        /// The tool.
        tool: String,
        /// What is wrong.
        error: ServiceSetupError,
    },
    /// A larger model is to use a tool that it can't: there must be one of that name, it must be idempotent, and no larger model itself.
    #[error("tool `{tool}`: delegate.tools: `{used}` is no tool that it could use")]
    NotUsable {
        /// The tool.
        tool: String,
        /// What it is to use.
        used: String,
    },
    /// A server of the Model Context Protocol can't be used as it is configured: correct the setting.
    #[error("mcp.{server}.{setting}: {reason}")]
    Mcp {
        /// The server.
        server: String,
        /// The setting.
        setting: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The webhook can't be used as it is configured: correct the setting.
    #[error("hand_off.{setting}: {reason}")]
    Webhook {
        /// The setting.
        setting: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The address that tools call back can't be used: correct it.
    #[error("the address for callbacks, `{base}`, can't be used: {reason}")]
    CallbackAddress {
        /// The address.
        base: String,
        /// What is wrong with it.
        reason: String,
    },
}
