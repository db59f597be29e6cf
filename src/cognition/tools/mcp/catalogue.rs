//! What a server offers: asked for page by page, within bounds, and kept on disk for the next start.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rmcp::RoleClient;
use rmcp::model::{PaginatedRequestParams, Tool as Offered};
use rmcp::service::{Peer, ServiceError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::config::{McpServer, read_text};
use crate::outward::bounded_text;

/// One tool that a server offers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Offer {
    /// Its name there.
    pub name: String,
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
    /// Whether it says of itself that the same call may be made twice: `idempotentHint`, or `readOnlyHint`.
    pub idempotent: bool,
    /// Whether it has become a tool of the box: its name there is this server's.
    #[serde(default)]
    pub taken: bool,
    /// Since when the server does not offer it any more (s since 1970), where that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone_since: Option<u64>,
}

/// What a server offers, in its order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Catalogue {
    pub offers: Vec<Offer>,
    /// Whether that is all: more is not taken than [`OFFERS_MAX`] tools, [`OFFERS_BYTES_MAX`] bytes and [`PAGES_MAX`] pages.
    pub whole: bool,
}

/// What came of asking for it.
pub(super) type Listed = Result<Catalogue, ServiceError>;

impl Catalogue {
    /// Asks for it.
    ///
    /// # Errors
    /// The server did not answer, or with something else.
    pub async fn of(peer: &Peer<RoleClient>) -> Listed {
        let (mut offers, mut bytes, mut cursor) = (Vec::new(), 0, None);
        for _ in 0..PAGES_MAX {
            let page = peer.list_tools(Some(PaginatedRequestParams::default().with_cursor(cursor))).await?;
            for offered in page.tools {
                let offer = Offer::of(offered);
                bytes += offer.name.len() + offer.description.len() + offer.parameters.to_string().len();
                if offers.len() == OFFERS_MAX || bytes > OFFERS_BYTES_MAX {
                    return Ok(Self { offers, whole: false });
                }
                offers.push(offer);
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(Self { offers, whole: true });
            }
        }
        Ok(Self { offers, whole: false })
    }

    /// The one of this name, if it is offered.
    pub fn offer(&self, name: &str) -> Option<&Offer> {
        self.offers.iter().find(|offer| offer.name == name && offer.gone_since.is_none())
    }

    /// Takes over from what was `kept` what this server's tools were to the box. Those that were the box's and are not offered any more are gone, and stay
    /// known for [`GONE_KEPT_S`]: what they have begun may still be asked for.
    pub fn remember(&mut self, kept: &Self, now_s: u64) {
        for offer in &mut self.offers {
            offer.taken = kept.offers.iter().any(|kept| kept.name == offer.name && kept.taken);
        }
        for offer in kept.offers.iter().filter(|offer| offer.taken) {
            if self.offer(&offer.name).is_some() {
                continue;
            }
            let since = offer.gone_since.unwrap_or(now_s).min(now_s);
            if now_s - since <= GONE_KEPT_S && self.offers.len() < OFFERS_MAX + GONE_MAX {
                self.offers.push(Offer { gone_since: Some(since), ..offer.clone() });
            }
        }
    }

    /// What is offered now.
    pub fn without_gone(mut self) -> Self {
        self.offers.retain(|offer| offer.gone_since.is_none());
        self
    }

    /// What differs in `now`, in words: tools that are new, gone, or take something else.
    pub fn changes(&self, now: &Self) -> Option<String> {
        let beyond = |of: &Self, other: &Self| -> Vec<String> {
            let names = of.offers.iter().filter(|offer| other.offer(&offer.name).is_none()).map(|offer| offer.name.clone());
            // What is not in a list that was cut off may be behind its end.
            if other.whole { names.collect() } else { Vec::new() }
        };
        let takes_other = |offer: &&Offer| now.offer(&offer.name).is_some_and(|now| now.parameters != offer.parameters);
        let changed = self.offers.iter().filter(takes_other).map(|offer| offer.name.clone()).collect();
        let words = |(what, names): (&str, Vec<String>)| {
            let more = if names.len() > NAMES_SHOWN_MAX { " and more" } else { "" };
            let shown = names.iter().take(NAMES_SHOWN_MAX).map(|name| bounded_text(name)).collect::<Vec<_>>().join(", ");
            (!names.is_empty()).then(|| format!("{what}: {shown}{more}"))
        };
        let found = [("new", beyond(now, self)), ("gone", beyond(self, now)), ("taking something else", changed)];
        let found: Vec<String> = found.into_iter().filter_map(words).collect();
        (!found.is_empty()).then(|| found.join("; "))
    }

    /// What was kept of the server `name`, if it is the one that `settings` are of.
    ///
    /// # Errors
    /// Something is there and can't be read.
    pub fn kept(folder: &Path, name: &str, settings: &McpServer) -> io::Result<Option<Self>> {
        let text = match read_text(&file(folder, name), KEPT_BYTES_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let kept: Kept = serde_json::from_str(&text).map_err(io::Error::other)?;
        Ok((kept.of == whose(settings)).then_some(kept.catalogue))
    }

    /// Keeps it: once this returns, it or what was kept before is there, whole, after a power cut. What is kept already is not written again.
    ///
    /// # Errors
    /// The disk takes nothing.
    pub fn keep(&self, folder: &Path, name: &str, settings: &McpServer) -> io::Result<()> {
        if Self::kept(folder, name, settings).is_ok_and(|kept| kept.as_ref() == Some(self)) {
            return Ok(());
        }
        let kept = Kept { of: whose(settings), catalogue: self.clone() };
        let text = serde_json::to_vec_pretty(&kept).map_err(io::Error::other)?;
        fs::create_dir_all(folder)?;
        let (target, new) = (file(folder, name), folder.join(format!("{name}.json.new")));
        let mut writing = File::create(&new)?;
        writing.write_all(&text).and_then(|()| writing.sync_all())?;
        fs::rename(&new, &target)?;
        File::open(folder)?.sync_all()
    }
}

impl Offer {
    fn of(offered: Offered) -> Self {
        let description: String = offered.description.unwrap_or_default().chars().take(DESCRIPTION_CHARS_MAX).collect();
        let hints = offered.annotations.unwrap_or_default();
        Self {
            name: offered.name.into_owned(),
            description,
            parameters: Value::Object((*offered.input_schema).clone()),
            idempotent: hints.idempotent_hint == Some(true) || hints.read_only_hint == Some(true),
            taken: false,
            gone_since: None,
        }
    }
}

/// A file of the folder of what is kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    of: String,
    #[serde(flatten)]
    catalogue: Catalogue,
}

fn file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.json"))
}

/// Where a server is, as what need not be read by anybody: an address may hold a key.
fn whose(settings: &McpServer) -> String {
    let place = format!("{:?}\n{:?}\n{:?}", settings.url, settings.program, settings.arguments);
    Sha256::digest(place).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// More than the largest servers offer, and far more than a model can be given.
pub(super) const OFFERS_MAX: usize = 512;
/// All names, descriptions and schemas together: a megabyte on a box's disk.
pub(super) const OFFERS_BYTES_MAX: usize = 1024 * 1024;
/// A server whose list does not end has none.
pub(super) const PAGES_MAX: usize = 64;
/// What the common models take for a function.
const DESCRIPTION_CHARS_MAX: usize = 1_024;
/// What is taken, written with line breaks and indents.
const KEPT_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// A line of the log stays one.
const NAMES_SHOWN_MAX: usize = 8;
/// Longer than operations are asked after, also those that nobody knows the end of: thirty days.
const GONE_KEPT_S: u64 = 30 * 24 * 60 * 60;
/// As many as a box has tools.
const GONE_MAX: usize = 128;
