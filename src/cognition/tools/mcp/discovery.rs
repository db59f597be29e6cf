//! Tools that a configuration does not name and a server offers: asked for once, when a box starts, or taken from what was kept.
//!
//! What is found joins the configuration's tools here, before anything is made of them: schemas, policies, what a model is offered and what carries
//! attempts out all come from the one list.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::super::schema;
use super::McpServers;
use super::catalogue::{Catalogue, OFFERS_BYTES_MAX, OFFERS_MAX, Offer};
use super::intricacy;
use super::server::{Away, For, Server};
use crate::config::{Config, McpServer, NAME_BYTES_MAX, TOOLS_MAX, Tool};
use crate::outward::bounded_text;

/// A configuration with what its servers offer.
#[derive(Debug)]
pub struct Discovered {
    /// The configuration: its own tools first, and then those that were found.
    pub config: Config,
    /// What somebody should know: servers that are away, tools that can't be used.
    pub notes: Vec<String>,
    /// Servers of which nothing is known, though tools of theirs are wanted, and why: the box has none of these tools until it is started again.
    pub missing: BTreeMap<String, String>,
}

impl McpServers {
    /// Asks the servers whose tools `config` leaves to them what they offer, all at once and for no longer than `within`, and keeps that on disk. One
    /// that does not say it in time is taken at what it offered when it was last asked; what it says later is kept for the next start.
    pub async fn discover(&self, config: &Config, within: Duration) -> Discovered {
        let deadline = Instant::now() + within;
        let mut asked = JoinSet::new();
        for (name, settings) in config.mcp.iter().filter(|(name, settings)| is_of_concern(config, name, settings)) {
            let Some(server) = self.by_name.get(name).map(Arc::clone) else { continue };
            // One that starts beside the box may not be there yet; where something is known of it, nobody waits for it.
            let insists = !matches!(Catalogue::kept(&config.this_box.mcp(), name, settings), Ok(Some(_)));
            let name = name.clone();
            asked.spawn(async move {
                let late = format!("it did not say what it offers within {} ms", within.as_millis());
                (name, ask(&server, insists, deadline, late).await)
            });
        }
        let mut answers = Vec::new();
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok(answer) => answers.push(answer),
                Err(error) => {
                    tracing::error!(%error, "asking an MCP server what it offers has failed by a fault in the box's own software")
                }
            }
        }
        let mut found = Found::default();
        let mut fresh = Vec::new();
        for (name, answer) in answers {
            let Some(settings) = config.mcp.get(&name) else { continue };
            match answer {
                Ok(mut catalogue) => {
                    if let Ok(Some(kept)) = Catalogue::kept(&config.this_box.mcp(), &name, settings) {
                        catalogue.remember(&kept, now_s());
                    }
                    fresh.push(name.clone());
                    found.catalogues.insert(name, catalogue);
                }
                Err(reason) => {
                    found.take_kept(config, &name, settings, Some(&reason));
                    if let Some(server) = self.by_name.get(&name) {
                        tokio::spawn(late(Arc::clone(server), config.clone(), name));
                    }
                }
            }
        }
        let (mut discovered, catalogues) = judged(found, config).await;
        for name in fresh {
            let (Some(settings), Some(catalogue)) = (config.mcp.get(&name), catalogues.get(&name)) else { continue };
            if let Err(error) = kept(config, &name, settings, catalogue.clone()).await {
                let folder = config.this_box.mcp();
                discovered.notes.push(format!("what the MCP server `{name}` offers can't be kept in {}: {error}", folder.display()));
            }
        }
        for (name, catalogue) in catalogues {
            if let Some(server) = self.by_name.get(&name) {
                server.begins_with(catalogue.without_gone());
            }
        }
        discovered
    }
}

/// Waits for what a server offers that has not said it in time, such as one that leaves the newest greeting unanswered, and keeps it for the next start.
async fn late(server: Arc<Server>, config: Config, name: String) {
    let Some(settings) = config.mcp.get(&name) else { return };
    let Ok(mut catalogue) = ask(&server, true, Instant::now() + LATE_WITHIN, String::new()).await else { return };
    if let Ok(Some(kept)) = Catalogue::kept(&config.this_box.mcp(), &name, settings) {
        catalogue.remember(&kept, now_s());
    }
    let found = Found { catalogues: BTreeMap::from([(name.clone(), catalogue.clone())]), ..Found::default() };
    if judged(found, &config).await.1.is_empty() {
        return;
    }
    match kept(&config, &name, settings, catalogue).await {
        Ok(()) => tracing::warn!(
            server = name,
            "an MCP server has said late what it offers: what is new can be used when the box is started again"
        ),
        Err(error) => tracing::warn!(server = name, %error, "what an MCP server has said late that it offers can't be kept"),
    }
}

/// What is found, with what is usable of it, on a thread that may compute: what servers write is only kept once that has come to an end.
async fn judged(found: Found, config: &Config) -> (Discovered, BTreeMap<String, Catalogue>) {
    let of = config.clone();
    let judging = tokio::task::spawn_blocking(move || found.joined(&of));
    judging.await.unwrap_or_else(|error| {
        tracing::error!(%error, "what MCP servers offer could not be judged by a fault in the box's own software");
        let missing = config.mcp.keys().map(|name| (name.clone(), "what it offers could not be judged".to_owned())).collect();
        (Discovered { config: config.clone(), notes: Vec::new(), missing }, BTreeMap::new())
    })
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// `config` with what its servers offered when they were last asked. Nobody is asked.
pub fn with_kept(config: &Config) -> Discovered {
    let mut found = Found::default();
    for (name, settings) in config.mcp.iter().filter(|(name, settings)| is_of_concern(config, name, settings)) {
        found.take_kept(config, name, settings, None);
    }
    found.joined(config).0
}

/// Whether anything depends on what a server says of its tools.
fn is_of_concern(config: &Config, name: &str, settings: &McpServer) -> bool {
    !settings.tools.is_empty() || config.tools.iter().any(|tool| tool.hinted && tool.mcp.as_deref() == Some(name))
}

/// Keeps what a server offers, on a thread that may wait for a disk.
async fn kept(config: &Config, name: &str, settings: &McpServer, catalogue: Catalogue) -> io::Result<()> {
    let (folder, name, settings) = (config.this_box.mcp(), name.to_owned(), settings.clone());
    let keeping = tokio::task::spawn_blocking(move || catalogue.keep(&folder, &name, &settings));
    keeping.await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// Asks a server what it offers, where it `insists` until it can be reached, and not beyond the deadline, at which it is `late`.
async fn ask(server: &Server, insists: bool, deadline: Instant, late: String) -> Result<Catalogue, String> {
    loop {
        let opening = async { server.open(server.place(For::Inquiry).await?).await };
        let away = match timeout_at(deadline, opening).await {
            Ok(Ok(open)) => {
                let listed = timeout_at(deadline, Catalogue::of(&open.peer)).await;
                return listed.map_or_else(|_| Err(late), |listed| listed.map_err(|error| server.faults().told(&error)));
            }
            Ok(Err(away)) => away,
            Err(_) => return Err(late),
        };
        let Away { reason, retry_after_ms } = away;
        let again = Instant::now() + Duration::from_millis(retry_after_ms.max(1));
        if !insists || again >= deadline {
            return Err(reason);
        }
        sleep_until(again).await;
    }
}

/// What is known of servers, on its way into a configuration.
#[derive(Default)]
struct Found {
    catalogues: BTreeMap<String, Catalogue>,
    notes: Vec<String>,
    missing: BTreeMap<String, String>,
}

impl Found {
    fn take_kept(&mut self, config: &Config, name: &str, settings: &McpServer, away: Option<&str>) {
        let reason = away.unwrap_or("it has not been asked yet");
        match Catalogue::kept(&config.this_box.mcp(), name, settings) {
            Ok(Some(catalogue)) => {
                if let Some(reason) = away {
                    self.notes.push(format!("the MCP server `{name}` is taken at what it offered before: {reason}"));
                }
                self.catalogues.insert(name.to_owned(), catalogue);
            }
            Ok(None) if settings.tools.is_empty() => {}
            Ok(None) => drop(self.missing.insert(name.to_owned(), reason.to_owned())),
            Err(error) => {
                let folder = config.this_box.mcp();
                drop(
                    self.missing.insert(
                        name.to_owned(),
                        format!("{reason}, and what was kept of it in {} can't be read: {error}", folder.display()),
                    ),
                );
            }
        }
    }

    fn joined(mut self, config: &Config) -> (Discovered, BTreeMap<String, Catalogue>) {
        let mut joined = config.clone();
        let mut catalogues = std::mem::take(&mut self.catalogues);
        let claims = Claims::of(config, &catalogues);
        for (server, catalogue) in &catalogues {
            let Some(settings) = config.mcp.get(server) else { continue };
            for tool in joined.tools.iter_mut().filter(|tool| tool.hinted && tool.mcp.as_ref() == Some(server)) {
                let name = tool.mcp_tool.as_deref().unwrap_or(&tool.name);
                tool.idempotent |= catalogue.offer(name).is_some_and(|offer| offer.idempotent);
            }
            if !catalogue.whole && !settings.tools.is_empty() {
                let what = format!("more than {OFFERS_MAX} tools or {OFFERS_BYTES_MAX} bytes");
                self.notes.push(format!("the MCP server `{server}` offers {what}: the rest is left out"));
            }
            for name in settings.named().filter(|name| catalogue.whole && catalogue.offer(name).is_none()) {
                self.notes.push(format!("the MCP server `{server}` does not offer `{name}`, which mcp.{server}.tools names"));
            }
        }
        // What is gone takes no place from what is there.
        for gone in [false, true] {
            for (server, catalogue) in &mut catalogues {
                let Some(settings) = config.mcp.get(server) else { continue };
                let of_this_pass = |offer: &&mut Offer| offer.gone_since.is_some() == gone && is_left(config, server, settings, offer);
                for offer in catalogue.offers.iter_mut().filter(of_this_pass) {
                    let taken = claims.refusal(server, settings, offer).map_or(Ok(()), Err);
                    match taken
                        .and_then(|()| fits(&joined.tools, &name_of(settings, offer)))
                        .and_then(|()| tool_of(server, settings, offer))
                    {
                        Ok(tool) => {
                            offer.taken = true;
                            joined.tools.push(tool);
                        }
                        Err(_) if gone => {}
                        Err(reason) => {
                            let name = bounded_text(&offer.name);
                            self.notes.push(format!("the tool `{name}` of the MCP server `{server}` is left out: {reason}"));
                        }
                    }
                }
            }
        }
        if self.notes.len() > NOTES_MAX {
            let more = self.notes.len() - NOTES_MAX;
            self.notes.truncate(NOTES_MAX);
            self.notes.push(format!("and {more} more of the kind"));
        }
        (Discovered { config: joined, notes: self.notes, missing: self.missing }, catalogues)
    }
}

/// Whether a tool is left to its server, and none of those that the configuration names.
fn is_left(config: &Config, server: &str, settings: &McpServer, offer: &Offer) -> bool {
    let is_it = |tool: &Tool| tool.mcp.as_deref() == Some(server) && tool.mcp_tool.as_ref().unwrap_or(&tool.name) == &offer.name;
    settings.wants(&offer.name) && !config.tools.iter().any(is_it)
}

/// Which servers want each name on the box, and whether it is theirs already. What is done under a name must not pass to another server because one is
/// away at a start, or offers more than before.
struct Claims(BTreeMap<String, BTreeMap<String, bool>>);

impl Claims {
    fn of(config: &Config, catalogues: &BTreeMap<String, Catalogue>) -> Self {
        let mut claims: BTreeMap<String, BTreeMap<String, bool>> = BTreeMap::new();
        for (server, catalogue) in catalogues {
            let Some(settings) = config.mcp.get(server) else { continue };
            for offer in catalogue.offers.iter().filter(|offer| is_left(config, server, settings, offer)) {
                *claims.entry(name_of(settings, offer)).or_default().entry(server.clone()).or_default() |= offer.taken;
            }
        }
        Self(claims)
    }

    /// Why `server` can't have the name for this, if it can't.
    fn refusal(&self, server: &str, settings: &McpServer, offer: &Offer) -> Option<String> {
        let name = name_of(settings, offer);
        let claims = self.0.get(&name).filter(|claims| claims.len() > 1)?;
        let mut holders = claims.iter().filter(|(_, taken)| **taken).map(|(server, _)| server.as_str());
        match (holders.next(), holders.next()) {
            (Some(holder), None) if holder == server => None,
            (Some(holder), None) => Some(format!("`{name}` is a tool of the MCP server `{holder}` already: give one of them a `prefix`")),
            _ => {
                let others =
                    claims.keys().filter(|other| *other != server).map(|other| format!("`{other}`")).collect::<Vec<_>>().join(", ");
                Some(format!("the MCP server {others} offers `{name}` too: give one of them a `prefix`"))
            }
        }
    }
}

/// What a tool is called on the box: in letters that models take.
fn name_of(settings: &McpServer, offer: &Offer) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    settings.prefix.chars().chain(offer.name.chars().map(plain)).take(NAME_BYTES_MAX + 1).collect()
}

/// A tool with everything that is not of the server left as it is by default, but that its words are told.
fn tool_of(server: &str, settings: &McpServer, offer: &Offer) -> Result<Tool, String> {
    let name = name_of(settings, offer);
    if offer.name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(format!("models take names of 1 to {NAME_BYTES_MAX} characters"));
    }
    let mut parameters = offer.parameters.clone();
    if let Some(schema) = parameters.as_object_mut() {
        schema.entry("type").or_insert_with(|| json!("object"));
    }
    if parameters.get("type").and_then(Value::as_str) != Some("object") {
        return Err("its arguments do not come as one object".to_owned());
    }
    let bytes = parameters.to_string().len();
    if bytes > PARAMETERS_BYTES_MAX {
        return Err(format!("its inputSchema is {bytes} bytes long; at most {PARAMETERS_BYTES_MAX} are given to a model"));
    }
    schema::compiles(&parameters, PATTERN_BYTES_MAX, intricacy::judge)
        .map_err(|reason| format!("its inputSchema can't be used: {reason}"))?;
    let description: String = offer.description.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect();
    let tool = json!({
        "name": name,
        "description": description,
        "parameters": parameters,
        "mcp": server,
        "mcp_tool": offer.name,
        "idempotent": offer.idempotent,
        "say_done": { "es": SAY_DONE, "en": SAY_DONE },
    });
    let tool: Tool = serde_json::from_value(tool).map_err(|error| error.to_string())?;
    Ok(Tool { discovered: true, gone: offer.gone_since.is_some(), ..tool })
}

fn fits(tools: &[Tool], name: &str) -> Result<(), String> {
    if tools.len() >= TOOLS_MAX {
        return Err(format!("a box has at most {TOOLS_MAX} tools: name fewer in the server's `tools`, or more in `except`"));
    }
    if tools.iter().any(|other| other.name == name) {
        return Err(format!("there is a tool `{name}` already: give the server a `prefix`"));
    }
    if crate::cognition::models::is_own_function(name) {
        return Err(format!("`{name}` is a function of the box's own: give the server a `prefix`"));
    }
    Ok(())
}

/// What a result is told with where nobody has written words for it: its text, or what stands for one in a structure (a tool that returns a text or a
/// number gives both). Of anything else the caller hears that it is done.
const SAY_DONE: &str = "{% set said = result.text if result.text is defined else result.result %}{% if said is string or said is number %}{{ (said ~ '')[:600] }}{% endif %}";

/// A schema is also given to the model, with every session, beside those of all other tools.
const PARAMETERS_BYTES_MAX: usize = 16 * 1024;

/// What one pattern of a schema may become (bytes): those of all tools are kept as long as the box runs.
const PATTERN_BYTES_MAX: usize = 256 * 1024;

/// A server that starts beside the box is there by then.
const LATE_WITHIN: Duration = Duration::from_secs(120);

/// What somebody reads.
const NOTES_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// What is kept of each server, the tools (their names, their servers, whether they are gone), and the notes.
    type Joined = (BTreeMap<String, Catalogue>, Vec<(String, String, bool)>, Vec<String>);

    fn catalogue(names: &[&str]) -> Catalogue {
        let offer = |name: &&str| Offer {
            name: (*name).to_owned(),
            description: String::new(),
            parameters: json!({ "type": "object" }),
            idempotent: false,
            taken: false,
            gone_since: None,
        };
        Catalogue { offers: names.iter().map(offer).collect(), whole: true }
    }

    /// One start of a box with these servers, which offer this and were kept so: what is kept then, and the tools with what they are.
    fn start(offers: &[(&str, &[&str])], kept: &BTreeMap<String, Catalogue>, now_s: u64) -> Joined {
        let server = json!({ "url": "http://127.0.0.1:1/mcp", "tools": ["*"] });
        let servers: serde_json::Map<String, Value> = offers.iter().map(|(name, _)| ((*name).to_owned(), server.clone())).collect();
        let config: Config = serde_json::from_value(json!({ "mcp": servers })).unwrap();
        let mut found = Found::default();
        for (name, offers) in offers {
            let mut catalogue = catalogue(offers);
            if let Some(kept) = kept.get(*name) {
                catalogue.remember(kept, now_s);
            }
            found.catalogues.insert((*name).to_owned(), catalogue);
        }
        let (discovered, catalogues) = found.joined(&config);
        let tools = discovered.config.tools.into_iter().map(|tool| (tool.name, tool.mcp.unwrap(), tool.gone)).collect();
        (catalogues, tools, discovered.notes)
    }

    fn is(name: &str, server: &str, gone: bool) -> (String, String, bool) {
        (name.to_owned(), server.to_owned(), gone)
    }

    #[test]
    fn a_name_that_two_servers_offer_is_neithers_and_stays_with_the_one_that_had_it() {
        let (kept, tools, notes) = start(&[("a", &["book", "x"]), ("b", &["book"])], &BTreeMap::new(), 0);
        assert_eq!(tools, [is("x", "a", false)]);
        assert!(notes.len() == 2 && notes.iter().all(|note| note.contains("offers `book` too: give one of them a `prefix`")), "{notes:?}");
        let (_, tools, _) = start(&[("a", &["x"]), ("b", &["book"])], &kept, 1);
        assert_eq!(tools, [is("x", "a", false), is("book", "b", false)], "it never was the other's");

        let (kept, tools, _) = start(&[("b", &["book"])], &BTreeMap::new(), 0);
        assert_eq!(tools, [is("book", "b", false)]);
        let (kept, tools, notes) = start(&[("a", &["book"]), ("b", &["book"])], &kept, 1);
        assert_eq!(tools, [is("book", "b", false)]);
        assert!(notes.len() == 1 && notes[0].contains("`book` is a tool of the MCP server `b` already"), "{notes:?}");
        let (kept, tools, _) = start(&[("a", &["book"]), ("b", &["book"])], &kept, 2);
        assert_eq!(tools, [is("book", "b", false)], "at each start");
        let (_, tools, _) = start(&[("a", &["book"]), ("b", &[])], &kept, 3);
        assert_eq!(tools, [is("book", "b", true)], "nor does it pass to the other when it is gone");
    }

    #[test]
    fn a_tool_that_is_gone_stays_known_for_thirty_days_and_may_come_back() {
        let (kept, ..) = start(&[("a", &["book", "cancel"])], &BTreeMap::new(), 0);
        let (kept, tools, notes) = start(&[("a", &["book"])], &kept, 100);
        assert_eq!((tools, notes.len()), (vec![is("book", "a", false), is("cancel", "a", true)], 0));
        let month_s = 30 * 24 * 60 * 60;
        let (kept, tools, _) = start(&[("a", &["book"])], &kept, 100 + month_s);
        assert_eq!(tools.len(), 2, "since it was first gone");
        let (_, tools, _) = start(&[("a", &["cancel"])], &kept, 101 + month_s);
        assert_eq!(tools, [is("cancel", "a", false), is("book", "a", true)]);
        let (_, tools, _) = start(&[("a", &["book"])], &kept, 101 + month_s);
        assert_eq!(tools, [is("book", "a", false)]);
    }
}
