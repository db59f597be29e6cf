//! What a box with this configuration will do, in a few lines for the person who wrote it.

use std::fmt::{self, Display, Write};

use recado_core::policy::{Language, Priority};
use reqwest::Url;

use super::{Config, Engine, McpServer, ModelKind, TraceMode, Way};

impl Config {
    /// A short summary, one thing a line. It names files and never shows what is in those that hold credentials.
    pub fn summary(&self) -> impl Display {
        Summary(self).to_string()
    }
}

struct Summary<'a>(&'a Config);

impl Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(config) = self;
        let language = match config.this_box.language {
            Language::Es => "Spanish",
            Language::En => "English",
        };
        let data_dir = config.this_box.data_dir();
        let from = if data_dir.is_relative() { ", below where it is started" } else { "" };
        writeln!(
            f,
            "{} speaks {language} for account {:?} and keeps its data in {}{from}.",
            config.this_box.name,
            config.this_box.account,
            data_dir.display()
        )?;
        self.calls(f)?;
        self.leads(f)?;
        self.speech(f)?;
        writeln!(f, "It tells results after {} ms of quiet.", config.gate.min_quiet_ms)?;
        writeln!(f, "Health and measures: http://{}; callbacks: {}.", config.http.listen, config.http.callback_base(config.http.listen))?;
        if let Some(service) = config.cloud.realtime.as_ref().filter(|_| config.model.kind != ModelKind::Realtime) {
            let (model, url) = (&service.model, origin(&service.url));
            writeln!(f, "The speech model {model} at {url} can be tried out (recado cloud test); calls are not led by it.")?;
        }
        let others = [
            (ModelKind::Live, "live", config.cloud.live.as_ref().map(|service| service.endpoint())),
            (ModelKind::Gemini, "gemini", config.cloud.gemini.as_ref().map(|service| service.endpoint())),
        ];
        for (kind, word, service) in others {
            if let Some(service) = service.filter(|_| config.model.kind != kind) {
                let (model, url) = (service.model, origin(service.url));
                writeln!(f, "The speech model {model} at {url} does not lead calls: model.kind = {word:?} lets it.")?;
            }
        }
        if let Some(hand_off) = &config.hand_off {
            writeln!(f, "Results that nobody comes to hear go to {}, where a tool says so.", origin(&hand_off.url))?;
        }
        let traces = config.this_box.traces();
        match config.trace.mode {
            TraceMode::Redacted => writeln!(f, "Traces of calls, without words and numbers, are kept in {}.", traces.display())?,
            TraceMode::Full => writeln!(f, "Traces of calls, with every word that is said, are kept in {}.", traces.display())?,
            TraceMode::Off => writeln!(f, "No traces are kept.")?,
        }
        let leaves = |settings: &McpServer| !settings.tools.is_empty();
        for (name, settings) in config.mcp.iter().filter(|(_, settings)| leaves(settings)) {
            let which = settings.tools.join(", ");
            writeln!(f, "The MCP server {name} is asked at each start what it offers of {which}: that are tools too.")?;
        }
        if config.tools.is_empty() {
            let others = if config.mcp.values().any(leaves) { " of its own" } else { "" };
            return writeln!(f, "It has no tools{others}.");
        }
        writeln!(f, "Tools:")?;
        config.tools.iter().try_for_each(|tool| {
            let mut traits = String::new();
            if tool.idempotent {
                write!(traits, ", idempotent, up to {} attempts", tool.retry.attempts_max)?;
            }
            if tool.cancel_url.is_some() || tool.mcp.is_some() {
                traits.push_str(", can be cancelled");
            }
            if tool.compensate_url.is_some() {
                traits.push_str(", can be undone");
            }
            if tool.status_url.is_some() {
                traits.push_str(", says how it stands");
            }
            if tool.priority == Priority::Urgent {
                traits.push_str(", urgent");
            }
            if tool.bearer_file.is_some() {
                traits.push_str(", with a credential");
            }
            if tool.sign_secret_file.is_some() {
                traits.push_str(", signed");
            }
            if let Some(proxy) = &tool.proxy {
                write!(traits, ", through {}", origin(proxy))?;
            }
            let does = match tool.way() {
                Some(Way::Delegate(delegate)) => format!("asks the model {} at {}", delegate.model, origin(&delegate.url)),
                Some(Way::Command(command)) => format!("runs {}", command.program.display()),
                Some(Way::Mcp(server)) => format!("of the MCP server {server}"),
                Some(Way::Http(url)) => format!("POST {}", origin(url)),
                None => "nowhere".to_owned(),
            };
            writeln!(f, "  {}: {does}, within {}{traits}", tool.name, duration(tool.deadline_ms))
        })
    }
}

impl Summary<'_> {
    /// What leads calls, and what does while that is away.
    fn leads(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(config) = self;
        let cloud = &config.cloud;
        let speech_model = |model: &str, url: &str| format!("the speech model {model} at {}", origin(url));
        let leads = match config.model.kind {
            ModelKind::Scripted => return writeln!(f, "It follows the dialogue {}.", config.model.dialogue.display()),
            ModelKind::Realtime => cloud.realtime.as_ref().map(|service| speech_model(&service.model, &service.url)),
            ModelKind::Live => cloud.live.as_ref().map(|service| speech_model(&service.model, &service.url)),
            ModelKind::Gemini => cloud.gemini.as_ref().map(|service| speech_model(&service.model, &service.url)),
            ModelKind::Cascade => cloud.transcription.as_ref().zip(cloud.language.as_ref()).map(|(hears, answers)| {
                let (from, at) = (origin(&hears.url), origin(&answers.url));
                format!("the model {} at {at}, which reads what {} at {from} writes down", answers.model, hears.model)
            }),
        };
        // That there is none is an error, and no box starts with it.
        let Some(leads) = leads else { return Ok(()) };
        writeln!(f, "Calls are led by {leads}.")?;
        self.delegates(f)?;
        match (&config.standby.dialogue, config.standby.enabled) {
            (Some(dialogue), true) => writeln!(f, "While it is away, they follow the dialogue {}.", dialogue.display()),
            (None, true) => writeln!(f, "While it is away, callers can leave a message in {}.", config.this_box.messages().display()),
            (_, false) => writeln!(f, "While it is away, nothing takes its place."),
        }
    }

    /// What becomes of what the service that leads calls delegates, where it is one that does.
    fn delegates(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(config) = self;
        let Some(live) = config.cloud.live.as_ref().filter(|_| config.model.kind == ModelKind::Live) else { return Ok(()) };
        match live.delegate(&config.tools) {
            Ok(Some(delegate)) => {
                writeln!(f, "What it delegates is done by {}, which is given the task as {}.", delegate.tool, delegate.parameter)
            }
            _ => writeln!(f, "What it delegates is not done: there is no tool for it."),
        }
    }

    /// What speaks, where it is not the usual engine.
    fn speech(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(config) = self;
        let speech = &config.speech;
        match (speech.engine, &config.cloud.speech, &speech.command) {
            (Engine::EspeakNg, ..) => return Ok(()),
            (Engine::Http, Some(service), _) => write!(f, "It speaks through the model {} at {}", service.model, origin(&service.url))?,
            (Engine::Command, _, Some(command)) => write!(f, "It speaks through {}", command.program.display())?,
            (engine, ..) => write!(f, "It speaks with {}", engine.name())?,
        }
        writeln!(f, "{}", if speech.stand_in() { ", and with espeak-ng where that does not." } else { "." })
    }

    fn calls(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(config) = self;
        let sip = &config.sip;
        let networks = sip.allow.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let users = if sip.users.is_empty() { "any user".to_owned() } else { sip.users.join(", ") };
        writeln!(f, "It answers SIP at {} (known to phones as {}) for {users}, from {networks}.", sip.listen, sip.advertised())?;
        write!(f, "Up to {} calls of at most {} each, RTP on ports {}", sip.calls_max, duration(sip.call_ms_max), config.media.ports)?;
        match &config.media.recordings {
            Some(directory) => writeln!(f, "; calls are recorded to {}.", directory.display()),
            None => writeln!(f, "; calls are not recorded."),
        }
    }
}

/// Scheme, host and port of a URL: the rest of it often holds a key.
fn origin(url: &str) -> String {
    Url::parse(url).map_or_else(|_| "…".to_owned(), |url| url.origin().ascii_serialization())
}

/// Milliseconds in the largest unit that they are whole in.
fn duration(ms: u64) -> String {
    match ms {
        ms if ms % 3_600_000 == 0 && ms > 0 => format!("{} h", ms / 3_600_000),
        ms if ms % 60_000 == 0 && ms > 0 => format!("{} min", ms / 60_000),
        ms if ms % 1_000 == 0 => format!("{} s", ms / 1_000),
        ms => format!("{ms} ms"),
    }
}
