//! Whether a server still offers what it did when the box started: looked at with each connection, when it says that it has changed, and when it has
//! refused a call. What a box may be asked for is settled while it runs, so that a change is said in the log, once.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::handler::client::ClientHandler;
use rmcp::model::{ClientConfig, ProtocolVersion, ServerCapabilities, SubscriptionFilter};
use rmcp::service::{NotificationContext, Peer};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::catalogue::Catalogue;

/// What a server offered when the box started, and what has been said of changes.
#[derive(Default)]
pub(super) struct Looks {
    known: Mutex<Known>,
    /// Somebody thinks that it has changed.
    wanted: Notify,
}

#[derive(Default)]
struct Known {
    at_start: Option<Catalogue>,
    /// What was last said to have changed.
    said: Option<String>,
}

/// The box, as a server sees it: one that takes note of changes.
pub(super) struct Client {
    pub about: ClientConfig,
    pub looks: Arc<Looks>,
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        self.about.clone()
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.looks.want();
    }
}

impl Looks {
    /// This is what the box starts with.
    pub fn begin_with(&self, catalogue: Catalogue) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).at_start = Some(catalogue);
    }

    /// Something hints at a change.
    pub fn want(&self) {
        self.wanted.notify_one();
    }

    /// What has changed, where it has and this has not been said.
    fn news(&self, now: &Catalogue) -> Option<String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = known.at_start.as_ref()?.changes(now);
        let news = changes.clone().filter(|_| changes != known.said);
        known.said = changes;
        news
    }

    fn has_begun(&self) -> bool {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).at_start.is_some()
    }

    /// Looks at the server `name`, now and whenever there is reason to, for as long as its connection stands.
    pub async fn follow(self: Arc<Self>, name: String, peer: Peer<RoleClient>) {
        let told = async {
            // In the newest form of the protocol, changes are told to those who ask to be told.
            let listens = peer
                .peer_info()
                .is_some_and(|info| info.protocol_version >= ProtocolVersion::V_2026_07_28 && says_when_it_changes(&info.capabilities));
            if listens && let Ok(mut changes) = peer.listen(SubscriptionFilter::builder().tools_list_changed().build()).await {
                while let Ok(Some(_)) = changes.next().await {
                    self.want();
                }
            }
            std::future::pending::<()>().await;
        };
        let looks = async {
            loop {
                if self.has_begun() {
                    // One that does not say what it offers is looked at the next time.
                    let now = timeout(LOOKS_APART, Catalogue::of(&peer)).await.ok().and_then(Result::ok);
                    if let Some(changes) = now.and_then(|now| self.news(&now)) {
                        let what = "an MCP server has changed its tools; what is new can be used when the box is started again";
                        tracing::warn!(server = name, changes, "{what}");
                    }
                    // A server that changes all the time is not looked at all the time.
                    tokio::time::sleep(LOOKS_APART).await;
                }
                self.wanted.notified().await;
            }
        };
        tokio::select! {
            () = told => {}
            () = looks => {}
        }
    }
}

fn says_when_it_changes(capabilities: &ServerCapabilities) -> bool {
    capabilities.tools.as_ref().is_some_and(|tools| tools.list_changed == Some(true))
}

/// The least time between two looks.
const LOOKS_APART: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::catalogue::Offer;
    use super::*;

    #[test]
    fn each_change_is_said_once_and_a_list_that_was_cut_off_has_lost_nothing() {
        let looks = Looks::default();
        assert_eq!(looks.news(&catalogue(&["a"], true)), None, "nobody has asked what it offers");
        looks.begin_with(catalogue(&["a", "b"], true));
        assert_eq!(looks.news(&catalogue(&["b", "a"], true)), None);
        assert_eq!(looks.news(&catalogue(&["a", "c"], true)).as_deref(), Some("new: c; gone: b"));
        assert_eq!(looks.news(&catalogue(&["a", "c"], true)), None);
        assert_eq!(looks.news(&catalogue(&["a"], false)), None);
        assert_eq!(looks.news(&catalogue(&["a", "b"], true)), None);
        assert_eq!(looks.news(&catalogue(&["a", "c"], true)).as_deref(), Some("new: c; gone: b"));
        let mut other = catalogue(&["a", "b"], true);
        other.offers[0].parameters = json!({ "type": "object", "required": ["day"] });
        assert_eq!(looks.news(&other).as_deref(), Some("taking something else: a"));
    }

    fn catalogue(names: &[&str], whole: bool) -> Catalogue {
        let offer = |name: &&str| Offer {
            name: (*name).to_owned(),
            description: String::new(),
            parameters: json!({}),
            idempotent: false,
            taken: false,
            gone_since: None,
        };
        Catalogue { offers: names.iter().map(offer).collect(), whole }
    }
}
