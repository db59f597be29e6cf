//! The whole configuration: one field for each table.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use recado_core::policy::WhenUnheard;
use serde::Deserialize;

use super::check::Checker;
use super::engines::resolve_program;
use super::meant::nearest;
use super::source::Sources;
use super::tool_check::NAME_BYTES_MAX;
use super::tree::Path;
use super::{
    Cloud, Gate, HandOff, Http, Identity, Listen, Log, McpServer, Media, Messages, Model, ModelKind, Sip, Speech, Standby, Store, ThisBox,
    Tool, Trace,
};

/// Everything that a box is told before it starts.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// `[box]`: who this box is.
    #[serde(rename = "box")]
    pub this_box: ThisBox,
    /// `[sip]`: signalling.
    pub sip: Sip,
    /// `[media]`: RTP.
    pub media: Media,
    /// `[listen]`: when the caller is taken to speak.
    pub listen: Listen,
    /// `[speech]`: text to speech.
    pub speech: Speech,
    /// `[gate]`: when results may be told.
    pub gate: Gate,
    /// `[identity]`: how it is known who is on the line.
    pub identity: Identity,
    /// `[model]`: what leads the conversation.
    pub model: Model,
    /// `[cloud]`: speech models in a network.
    pub cloud: Cloud,
    /// `[standby]`: what answers while the service that leads calls is away.
    pub standby: Standby,
    /// `[messages]`: where messages of callers are kept.
    pub messages: Messages,
    /// `[http]`: callbacks, health and measures.
    pub http: Http,
    /// `[hand_off]`: the other way for what nobody has come to hear.
    pub hand_off: Option<HandOff>,
    /// `[store]`: how the store keeps itself.
    pub store: Store,
    /// `[log]`: what is written to stderr.
    pub log: Log,
    /// `[trace]`: what is written of what was decided, and why.
    pub trace: Trace,
    /// `[mcp.NAME]`: servers whose tools `[[tools]]` name.
    pub mcp: BTreeMap<String, McpServer>,
    /// `[[tools]]`: what callers can ask for.
    pub tools: Vec<Tool>,
}

impl Config {
    /// The tool of this name.
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// Gives every path its place: relative ones start from the configuration file, those of credentials from the credentials
    /// directory where the file is there, recordings from the data directory, and the data directory from where the box runs.
    pub(super) fn resolve(&mut self, sources: &Sources) {
        let base = sources.base_dir();
        if let (None, Some(state_dir)) = (&self.this_box.data_dir, &sources.state_dir) {
            self.this_box.data_dir = Some(state_dir.clone());
        }
        self.model.dialogue = base.join(&self.model.dialogue);
        self.standby.dialogue = self.standby.dialogue.as_ref().map(|file| base.join(file));
        if let Some(recordings) = &mut self.media.recordings {
            *recordings = self.this_box.data_dir().join(&*recordings);
        }
        let credential = |file: &PathBuf| {
            let found = sources.credentials_dir.as_ref().map(|directory| directory.join(file)).filter(|file| file.is_file());
            found.unwrap_or_else(|| base.join(file))
        };
        self.identity.pins_file = self.identity.pins_file.as_ref().map(credential);
        for tool in &mut self.tools {
            tool.ca_file = tool.ca_file.as_ref().map(|file| base.join(file));
            tool.bearer_file = tool.bearer_file.as_ref().map(credential);
            tool.resolve_delegate(base, credential);
            tool.sign_secret_file = tool.sign_secret_file.as_ref().map(credential);
            tool.command.iter_mut().for_each(|command| command.resolve(base));
        }
        for server in self.mcp.values_mut() {
            server.resolve(base, credential);
        }
        if let Some(hand_off) = &mut self.hand_off {
            hand_off.ca_file = hand_off.ca_file.as_ref().map(|file| base.join(file));
            hand_off.secret_file = credential(&hand_off.secret_file);
        }
        if let Some(realtime) = &mut self.cloud.realtime {
            realtime.resolve(base, credential);
        }
        if let Some(gemini) = &mut self.cloud.gemini {
            gemini.resolve(base, credential);
        }
        if let Some(live) = &mut self.cloud.live {
            live.resolve(base, credential);
        }
        if let Some(speech) = &mut self.cloud.speech {
            speech.resolve(base, credential);
        }
        resolve_program(base, &mut self.speech.program);
        if let Some(piper) = &mut self.speech.piper {
            piper.models.resolve(base);
            resolve_program(base, &mut piper.program);
        }
        if let Some(command) = &mut self.speech.command {
            resolve_program(base, &mut command.program);
        }
        if let Some(transcription) = &mut self.cloud.transcription {
            transcription.resolve(base, credential);
        }
        if let Some(language) = &mut self.cloud.language {
            language.resolve(base, credential);
        }
    }

    /// Gives what is not written, and depends on something else that is, its default.
    pub(super) fn default_by_kind(&mut self, checker: &Checker<'_>) {
        for (tool, place) in self.tools.iter_mut().zip(&checker.tools()) {
            tool.default_by_kind(checker, place);
        }
    }

    /// Everything that types alone don't rule out.
    pub(super) fn check(&self, checker: &mut Checker<'_>) {
        self.this_box.check(checker);
        self.sip.check(checker);
        self.media.check(checker, &self.sip, &self.http);
        self.listen.check(checker);
        self.speech.check(checker, self.this_box.language, &self.cloud);
        self.gate.check(checker);
        self.identity.check(checker);
        self.model.check(checker, &self.cloud);
        if let Some(realtime) = &self.cloud.realtime {
            realtime.check(checker);
        }
        if let Some(transcription) = &self.cloud.transcription {
            transcription.check(checker);
        }
        if let Some(language) = &self.cloud.language {
            language.check(checker);
        }
        if let Some(gemini) = &self.cloud.gemini {
            gemini.check(checker);
        }
        if let Some(live) = &self.cloud.live {
            live.check(checker);
            if self.model.kind == ModelKind::Live {
                live.check_delegate(checker, &self.tools);
            }
        }
        if let Some(speech) = &self.cloud.speech {
            speech.check(checker, self.this_box.language);
        }
        self.standby.check(checker);
        self.messages.check(checker);
        self.http.check(checker);
        if let Some(hand_off) = &self.hand_off {
            hand_off.check(checker);
        }
        self.store.check(checker);
        self.log.check(checker);
        self.trace.check(checker);
        // Two ports that are chosen at each start are two.
        if self.sip.listen == self.http.listen && self.sip.listen.port() != 0 {
            let busy = |port| self.media.ports.contains(port) || port == self.sip.listen.port();
            let free = (8080..=u16::MAX).find(|port| !busy(*port)).unwrap_or(8080);
            let instead = format!("listen = \"{}\"", SocketAddr::new(self.http.listen.ip(), free));
            checker.warning(&Path::of("http.listen"), "the same address and port as sip.listen, which is easily confused", instead);
        }
        for (name, server) in &self.mcp {
            server.check(checker, &Path::of("mcp").join(name));
        }
        let places = checker.tools();
        if self.tools.len() > TOOLS_MAX {
            let what = format!("{} tools are more than {TOOLS_MAX}", self.tools.len());
            checker.error(&Path::of("tools"), what, "fewer tools: a caller can't be offered so many");
        }
        for (index, (tool, place)) in self.tools.iter().zip(&places).enumerate() {
            tool.check(checker, place, self.this_box.language);
            tool.check_audience(checker, place, &self.identity);
            tool.check_window(checker, place, &self.store);
            tool.check_delegate(checker, place, &self.tools);
            if let Some(server) = tool.mcp.as_ref().filter(|server| !self.mcp.contains_key(*server)) {
                let known: Vec<_> = self.mcp.keys().map(String::as_str).collect();
                let instead = match nearest(server, &known) {
                    Some(near) => format!("mcp = {near:?}"),
                    None => format!("a table [mcp.{server}] with url or program"),
                };
                checker.error(&place.join("mcp"), format!("there is no table [mcp.{server}]"), instead);
            }
            if tool.when_unheard == WhenUnheard::Webhook && self.hand_off.is_none() {
                let instead = "a table [hand_off] with url and secret_file, or when_unheard = \"wait\"";
                checker.error(&place.join("when_unheard"), "there is no webhook to hand its results off to", instead);
            }
            let first = self.tools.iter().zip(&places).take(index).find(|(earlier, _)| earlier.name == tool.name);
            if let (Some((_, first)), false) = (first, tool.name.is_empty()) {
                let what = format!("this name is taken by the tool at {}", checker.place(&first.join("name")));
                checker.error(&place.join("name"), what, format!("name = {:?}", self.free_name(&tool.name)));
            }
        }
    }
}

impl Config {
    /// A name like this one that no tool has.
    fn free_name(&self, name: &str) -> String {
        let numbered = |number: usize| {
            let end = format!("_{number}");
            name.chars().take(NAME_BYTES_MAX - end.len()).collect::<String>() + &end
        };
        // Of one more than there are tools, one is free.
        (2..self.tools.len() + 3).map(numbered).find(|free| self.tool(free).is_none()).unwrap_or_default()
    }
}

/// Each tool costs room in every prompt; the largest realtime models take 128.
pub const TOOLS_MAX: usize = 128;
