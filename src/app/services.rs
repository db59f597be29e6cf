//! How the service that leads calls stands, as its calls and a light watch between them know it: what health and measures show.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch as watch_channel;
use tracing::{info, warn};

use crate::admin::{HealthState, Impact};
use crate::cognition::models::{Availability, Usage};
use crate::config::Prices;
use crate::telemetry::{Measures, ServiceMeasures};

/// The service that leads calls: what is known of it, and how it is looked at.
pub struct Service {
    /// What is known of it.
    pub services: Services,
    /// Looks whether it can be reached; why not, in words.
    pub look: Box<dyn Fn() -> Look + Send + Sync>,
}

/// A look at a service.
pub type Look = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

impl Service {
    /// The service that `services` knows, and how it is looked at.
    pub fn new<F>(services: Services, look: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        Self { services, look: Box::new(move || Box::pin(look())) }
    }
}

/// What is known of the service that leads calls, or of the services that do so together. Clones share it; nothing here waits.
#[derive(Debug, Clone)]
pub struct Services {
    facts: Arc<watch_channel::Sender<Facts>>,
    /// The table of the configuration that it stands in, by which health calls it.
    table: &'static str,
    prices: Option<Prices>,
}

#[derive(Debug, Clone, Default)]
struct Facts {
    /// Why each that can't be reached can't, by its table.
    away: BTreeMap<&'static str, Away>,
    /// Why each that can be reached is believed to answer nobody, by its table.
    unanswering: BTreeMap<&'static str, String>,
    /// Connections of each, one after another, that were lost before anything was said on them.
    lost: BTreeMap<&'static str, u32>,
    usage: Usage,
    measures: ServiceMeasures,
}

/// What was found of a service that can't be reached.
#[derive(Debug, Clone)]
struct Away {
    /// Why it can't be.
    reason: String,
    /// When that was last found.
    found: Instant,
}

impl Services {
    /// No service: nothing is known of any.
    pub fn none() -> Self {
        Self::new("", None)
    }

    /// The service of `table`, of which nothing is known yet, and what it charges.
    pub fn new(table: &'static str, prices: Option<Prices>) -> Self {
        Self { facts: Arc::new(watch_channel::Sender::new(Facts::default())), table, prices }
    }

    /// The service of `table`, which leads calls together with this one.
    pub fn beside(&self, table: &'static str, prices: Option<Prices>) -> Self {
        Self { facts: Arc::clone(&self.facts), table, prices }
    }

    /// A call's session with it has ended, and took this. What it costs is logged, where that is known.
    pub fn took(&self, usage: &Usage) {
        let cost = self.prices.as_ref().map(|prices| (usage.cost_millionths(prices), &prices.currency));
        if let Some((millionths, currency)) = cost {
            info!(
                table = self.table,
                cost = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000),
                currency,
                "what the call's session costs"
            );
        }
        self.facts.send_modify(|facts| {
            facts.usage.add(usage);
            facts.measures.tokens = facts.usage.tokens().to_vec();
            facts.measures.audio_ms = facts.usage.audio_ms;
            if let Some((millionths, currency)) = cost {
                let (all, of) = facts.measures.cost.get_or_insert_with(|| (0, currency.clone()));
                *all = all.saturating_add(millionths);
                of.clone_from(currency);
            }
        });
    }

    /// A call, or whoever looks, has found how it stands.
    pub fn stands(&self, availability: &Availability) {
        self.facts.send_if_modified(|facts| {
            let away = match availability {
                Availability::Connecting => return false,
                Availability::Ready => None,
                Availability::Away { reason } => Some(reason.clone()),
            };
            let changed = facts.away.get(self.table).map(|away| &away.reason) != away.as_ref();
            match away {
                Some(reason) => {
                    // Now it is known why calls had no answer, and of which; and whoever looks sees when it is back.
                    facts.unanswering.clear();
                    facts.away.insert(self.table, Away { reason, found: Instant::now() })
                }
                None => facts.away.remove(self.table),
            };
            facts.measure_away() || changed
        });
    }

    /// How it stands at `now`, as far as anybody has found: one that nobody has found away of late is ready.
    pub fn availability(&self, now: Instant) -> Availability {
        let facts = self.facts.borrow();
        let away = facts.away.get(self.table).filter(|away| now.saturating_duration_since(away.found) < FOUND_HOLDS);
        away.map_or(Availability::Ready, |away| Availability::Away { reason: away.reason.clone() })
    }

    /// A connection that stood is replaced by another one.
    pub fn reconnected(&self) {
        self.facts.send_modify(|facts| facts.measures.reconnects += 1);
    }

    /// The dialogue that stands by has given a response in its place. Where none is known to be away, it is one that can be reached and does not
    /// answer: a look at it shows nothing, so this stands until it has answered.
    pub fn taken_over(&self, reason: &str) {
        self.facts.send_modify(|facts| {
            facts.measures.takeovers += 1;
            if facts.away.is_empty() {
                facts.unanswering.insert(self.table, reason.to_owned());
            }
            facts.measure_away();
        });
    }

    /// A connection that stood was lost before anything was said on it.
    pub fn lost_unheard(&self, reason: &str) {
        self.facts.send_modify(|facts| {
            let lost = facts.lost.entry(self.table).or_default();
            *lost = lost.saturating_add(1);
            if *lost >= LOST_UNHEARD_MAX {
                let reason = format!("{lost} connections, one after another, were lost before it said anything: {reason}");
                facts.unanswering.insert(self.table, reason);
            }
            facts.measure_away();
        });
    }

    /// It has given an answer.
    pub fn answers(&self) {
        self.facts.send_if_modified(|facts| {
            facts.lost.remove(self.table);
            let changed = facts.unanswering.remove(self.table).is_some();
            facts.measure_away() || changed
        });
    }

    /// Shows in health and measures what is known. `instead` says what happens to calls while it is away. Runs until it is dropped.
    pub async fn show(self, instead: &'static str, health: HealthState, measures: Measures) {
        let mut facts = self.facts.subscribe();
        // Each that something is wrong with, and whether it is away.
        let mut shown: BTreeMap<&'static str, bool> = BTreeMap::new();
        loop {
            let now = facts.borrow_and_update().clone();
            let problems = now.problems();
            shown.keys().filter(|table| !problems.contains_key(*table)).for_each(|table| health.clear(table));
            for (table, problem) in &problems {
                match (now.away.get(table), shown.get(table)) {
                    (Some(_), Some(true)) | (None, Some(_)) => {}
                    (Some(Away { reason, .. }), _) => warn!(service = table, reason, "a service that leads calls can't be reached"),
                    (None, None) => warn!(service = table, problem, "a service that leads calls gives no answers"),
                }
                health.raise(table, Impact::Degrades, format!("{problem}: {instead}"));
            }
            shown = problems.into_keys().map(|table| (table, now.away.contains_key(table))).collect();
            measures.service(&now.measures);
            if facts.changed().await.is_err() {
                return;
            }
        }
    }

    /// Looks whether it can be reached: at the start, and again and again while it can't be, with pauses that double from `pause` on. Runs
    /// until it is dropped.
    pub async fn watch<F: Future<Output = Result<(), String>>>(self, look: impl Fn() -> F, pause: Duration) {
        let mut facts = self.facts.subscribe();
        loop {
            let mut wait = pause;
            while let Err(reason) = look().await {
                self.stands(&Availability::Away { reason });
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(pause * PAUSE_GROWS_MAX);
            }
            self.stands(&Availability::Ready);
            // Then calls see how it is.
            if facts.wait_for(|facts| facts.away.contains_key(self.table)).await.is_err() {
                return;
            }
            info!(table = self.table, "the service that leads calls is looked at until it is back");
            tokio::time::sleep(pause).await;
        }
    }
}

impl Facts {
    /// What is wrong with each, by its table.
    fn problems(&self) -> BTreeMap<&'static str, String> {
        let unanswering = self.unanswering.iter().map(|(table, reason)| (*table, format!("does not answer: {reason}")));
        unanswering.chain(self.away.iter().map(|(table, away)| (*table, format!("cannot be reached: {}", away.reason)))).collect()
    }

    /// Whether the measure of it has changed.
    fn measure_away(&mut self) -> bool {
        let away = Some(!self.away.is_empty() || !self.unanswering.is_empty());
        std::mem::replace(&mut self.measures.away, away) != away
    }
}

/// So many connections that are lost one after another before anything was said on them are no accident any more.
const LOST_UNHEARD_MAX: u32 = 3;

/// The first pause between two looks at a service that is away.
pub const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// So much longer they become: a minute.
const PAUSE_GROWS_MAX: u32 = 12;
/// What was found holds for so long, for a call that begins: until the next look at the latest, where somebody looks. After that the call finds
/// out itself: a service that was away an hour ago may lead it.
const FOUND_HOLDS: Duration = Duration::from_secs(90);

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Instant;

    use super::*;
    use crate::app::until;

    #[tokio::test]
    async fn health_says_that_it_is_away_and_why_until_it_is_back_and_nobody_looks_while_it_is_there() {
        let (services, health) = (Services::new("cloud.realtime", None), HealthState::new(Instant::now()));
        let measures = Measures::new().unwrap();
        let looks = Arc::new(AtomicU32::new(0));
        tokio::spawn(services.clone().show("calls are answered by the local dialogue", health.clone(), measures.clone()));
        let counted = looks.clone();
        let (back, is_back) = watch_channel::channel(false);
        let look = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            let there = *is_back.borrow();
            async move { if there { Ok(()) } else { Err("nobody is there".to_owned()) } }
        };
        tokio::spawn(services.clone().watch(look, Duration::from_millis(1)));
        let problems = || health.report(Instant::now()).problems;
        until(|| looks.load(Ordering::Relaxed) > 3).await;
        assert_eq!(problems(), ["cloud.realtime: cannot be reached: nobody is there: calls are answered by the local dialogue"]);
        back.send_replace(true);
        until(|| problems().is_empty()).await;
        let looked = looks.load(Ordering::Relaxed);
        // A call finds it away.
        services.taken_over("it says nothing");
        services.stands(&Availability::Away { reason: "it has gone".to_owned() });
        assert_eq!(looks.load(Ordering::Relaxed), looked, "nobody has looked meanwhile");
        until(|| looks.load(Ordering::Relaxed) > looked).await;
        until(|| problems().is_empty()).await;
        let prices = toml::from_str("currency = 'EUR'\noutput_audio = 64").unwrap();
        let services = Services { prices: Some(prices), ..services };
        for _ in 0..2 {
            services.took(&Usage { output_audio: 500, ..Usage::default() });
        }
        until(|| measures.render().contains("recado_service_cost_millionths_total{currency=\"EUR\"} 64000")).await;
        assert!(measures.render().contains("recado_service_tokens_total{kind=\"output_audio\"} 1000"));
        for (kind, _) in Usage::default().tokens() {
            assert!(measures.render().contains(&format!("recado_service_tokens_total{{kind=\"{kind}\"}}")), "{kind} is not shown");
        }
        until(|| measures.render().contains("recado_service_away 0")).await;
        assert!(measures.render().contains("recado_service_takeovers_total 1"));
    }

    #[tokio::test]
    async fn one_that_can_be_reached_and_does_not_answer_is_named_until_it_does_and_no_look_clears_it() {
        let (services, health) = (Services::new("cloud.realtime", None), HealthState::new(Instant::now()));
        let measures = Measures::new().unwrap();
        tokio::spawn(services.clone().show("oh", health.clone(), measures.clone()));
        let shows = async |wanted: &[&str], away: &str| {
            until(|| health.report(Instant::now()).problems == wanted).await;
            until(|| measures.render().contains(&format!("recado_service_away {away}\n"))).await;
        };
        services.stands(&Availability::Ready);
        shows(&[], "0").await;
        // It is silent, and the dialogue answers in its place.
        services.taken_over("it says nothing");
        let silent = ["cloud.realtime: does not answer: it says nothing: oh"];
        shows(&silent, "1").await;
        services.stands(&Availability::Ready);
        services.stands(&Availability::Connecting);
        shows(&silent, "1").await;
        services.answers();
        shows(&[], "0").await;
        // It takes sessions and closes them.
        for _ in 1..LOST_UNHEARD_MAX {
            services.lost_unheard("it is closed");
            services.stands(&Availability::Ready);
        }
        shows(&[], "0").await;
        services.lost_unheard("it is closed");
        services.stands(&Availability::Ready);
        let lost = "cloud.realtime: does not answer: 3 connections, one after another, were lost before it said anything: it is closed: oh";
        shows(&[lost], "1").await;
        services.answers();
        services.lost_unheard("it is closed");
        shows(&[], "0").await;
        // One that is known to be away needs no other reason.
        services.stands(&Availability::Away { reason: "it is gone".to_owned() });
        services.taken_over("it is gone");
        shows(&["cloud.realtime: cannot be reached: it is gone: oh"], "1").await;
        services.stands(&Availability::Ready);
        shows(&[], "0").await;
    }

    #[test]
    fn what_was_found_of_a_service_is_believed_by_a_call_that_begins_soon_after() {
        let services = Services::new("cloud.realtime", None);
        let found = Availability::Away { reason: "it is gone".to_owned() };
        services.stands(&found);
        let later = Instant::now() + FOUND_HOLDS;
        assert_eq!(services.availability(Instant::now()), found);
        assert_eq!(services.availability(later), Availability::Ready, "nobody has looked for long");
        assert!(FOUND_HOLDS > LOOK_AGAIN * PAUSE_GROWS_MAX, "between two looks it is known");
        services.stands(&Availability::Ready);
        assert_eq!(services.availability(Instant::now()), Availability::Ready);
    }

    #[tokio::test]
    async fn of_services_that_lead_calls_together_health_names_those_that_are_away() {
        let (language, health) = (Services::new("cloud.language", None), HealthState::new(Instant::now()));
        let transcription = language.beside("cloud.transcription", None);
        let measures = Measures::new().unwrap();
        tokio::spawn(language.clone().show("oh", health.clone(), measures.clone()));
        let problems = async |wanted: &[&str]| until(|| health.report(Instant::now()).problems == wanted).await;
        let away = |reason: &str| Availability::Away { reason: reason.to_owned() };
        language.taken_over("nobody knows which does not answer");
        problems(&["cloud.language: does not answer: nobody knows which does not answer: oh"]).await;
        transcription.stands(&away("it hears nothing"));
        problems(&["cloud.transcription: cannot be reached: it hears nothing: oh"]).await;
        language.stands(&away("it is gone"));
        transcription.stands(&Availability::Ready);
        problems(&["cloud.language: cannot be reached: it is gone: oh"]).await;
        assert!(measures.render().contains("recado_service_away 1"));
        language.stands(&Availability::Ready);
        problems(&[]).await;
        until(|| measures.render().contains("recado_service_away 0")).await;
    }
}
