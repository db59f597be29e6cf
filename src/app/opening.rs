//! Opening the store; and as long as that can't be done, a box that refuses calls and says why.
//!
//! It ends by itself when the cause has gone. A box that ended instead would be started again and again, and nobody could ask it
//! what is wrong.

use std::pin::Pin;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle};
use tracing::{error, info};

use super::run::{AppError, endpoint, seed};
use super::switchboard::admission;
use super::{upkeep, watch};
use crate::admin::{self, AdminError, HealthState, Impact, StoreHealth};
use crate::cognition::tools;
use crate::config::Config;
use crate::coordination::{OpenError, Options, Recovered, Store};
use crate::surface::sip::{Command, EndpointConfig, Server};
use crate::telemetry::{Measures, Seldom};

/// Opens the store, however long that takes. None when the box was told to stop before.
pub async fn open_store(
    config: &Config,
    options: Options,
    health: &HealthState,
    measures: &Measures,
    mut stop: Pin<&mut impl Future<Output = ()>>,
) -> Result<Option<(Store, Recovered)>, AppError> {
    let path = config.this_box.store();
    let (mut refusing, mut wait): (Option<Refusing>, _) = (None, RETRY_FIRST);
    // Checking a large store on a slow card takes longer than a service manager waits to hear from a box.
    let watchdog = tokio::spawn(watch::watch_over(Vec::new(), health.clone()));
    let (mut said, mut seldom) = (String::new(), Seldom::default());
    let opened = loop {
        let opening = tokio::task::spawn_blocking({
            let (path, options) = (path.clone(), options.clone());
            // What was lost, now or before, is known without reading any of it.
            move || (Store::open(&path, &options), upkeep::Beside::of(&path))
        });
        let (outcome, beside) = tokio::select! {
            outcome = patiently(opening, refusing.is_none().then_some(MORE_TIME_EVERY), ask_for_time) => outcome.map_err(|_| AppError::Ended("the opening of the store"))?,
            // What it has done by then is as after a power cut.
            () = &mut stop => break None,
        };
        beside.show(health);
        let problem = match outcome {
            Ok(opened) => break Some(opened),
            Err(error) => told(&error, &path),
        };
        health.store(StoreHealth { writable: false, commit_ms: 0.0, commits_failed: 0 });
        health.raise(watch::STORE, Impact::Refuses, problem.clone());
        if problem != said || seldom.happened(Instant::now()).is_some() {
            error!(problem, "the store can't be opened: calls are refused until it can");
        }
        if refusing.is_none() {
            refusing = Some(Refusing::start(config, health, measures).await?);
        }
        if problem != said {
            // Only where a service manager listens. It has what it waits for: a box that is there and says how it is.
            let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready, sd_notify::NotifyState::Status(&watch::status(health))]);
        }
        said = problem;
        tokio::select! {
            () = tokio::time::sleep(wait) => wait = (wait * 2).min(RETRY_MAX),
            () = &mut stop => break None,
        }
    };
    watchdog.abort();
    if let Some(refusing) = refusing {
        refusing.end().await;
        if opened.is_some() {
            info!("the store is open: calls are taken");
            health.clear(watch::STORE);
        }
    }
    Ok(opened)
}

/// Waits for the store to be opened. While a service manager waits for the box to be ready, it is asked `every` so often for more time: a
/// box that it ended for slowness would begin the check or the change of a large store from the start each time.
async fn patiently<T>(mut opening: JoinHandle<T>, every: Option<Duration>, ask: impl Fn()) -> Result<T, JoinError> {
    let Some(every) = every else { return opening.await };
    let mut asks = watch::every(every);
    loop {
        tokio::select! {
            // At once, too: opening may keep this thread's machine busy for long.
            _ = asks.tick() => ask(),
            outcome = &mut opening => return outcome,
        }
    }
}

fn ask_for_time() {
    // Only where a service manager listens.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::ExtendTimeoutUsec(MORE_TIME_US)]);
}

/// What health says of it: what is wrong, and how it is mended.
fn told(error: &OpenError, path: &std::path::Path) -> String {
    let doctor = if matches!(error, OpenError::InUse { .. }) { "" } else { "; `recado doctor` says more" };
    let shown = path.display();
    match error {
        OpenError::Io { .. } => format!("{error}: check the disk (dmesg) that holds {shown}{doctor}"),
        _ => format!("{error}{doctor}"),
    }
}

/// What is served meanwhile: 503 for calls and callbacks, health and measures.
struct Refusing {
    sip: Server,
    http: JoinHandle<Result<(), AdminError>>,
    stop_http: oneshot::Sender<()>,
}

impl Refusing {
    async fn start(config: &Config, health: &HealthState, measures: &Measures) -> Result<Self, AppError> {
        let sip = Server::start(config.sip.listen, EndpointConfig { admission: admission(true), ..endpoint(config) }, seed())?;
        let listener = admin::listen(config.http.listen).await?;
        let http_address = listener.local_addr().map_err(|error| AppError::System { what: "a socket", error })?;
        let routes = admin::router(health.clone(), measures.clone()).merge(tools::refusing_router());
        let (stop_http, stops) = oneshot::channel::<()>();
        let http = tokio::spawn(admin::serve(listener, routes, async move {
            let _ = stops.await;
        }));
        info!(sip = %sip.address(), http = %http_address, "refusing calls");
        Ok(Self { sip, http, stop_http })
    }

    /// Gives the ports back.
    async fn end(self) {
        let _ = self.sip.commands.send(Command::Shutdown).await;
        self.sip.ended().await;
        let _ = self.stop_http.send(());
        let _ = tokio::time::timeout(HTTP_ENDS, self.http).await;
    }
}

/// How often a service manager is asked for more time, and for how much (µs): some requests may be late on a busy machine.
const MORE_TIME_EVERY: Duration = Duration::from_secs(10);
const MORE_TIME_US: u32 = 60_000_000;

/// The store of a box that has just been started may only need a moment: another instance that ends.
const RETRY_FIRST: Duration = Duration::from_secs(1);

/// Noticed soon enough by whoever has mended the disk; and a damaged file is read as a whole each time.
const RETRY_MAX: Duration = Duration::from_secs(30);

/// Requests under way are answered at once; a client that keeps its connection is not waited for.
const HTTP_ENDS: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_store_that_was_lost_before_is_known_to_health_when_the_store_is_open() {
        let directory = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.this_box.data_dir = Some(directory.path().to_owned());
        let lost = directory.path().join("recado.db.missing-boot_1-1");
        std::fs::write(&lost, b"").unwrap();
        let (health, measures) = (HealthState::new(Instant::now()), Measures::new().unwrap());
        let opens = async |boot| {
            let options = Options::new(recado_core::BootId(boot), recado_core::time::Wall::default());
            open_store(&config, options, &health, &measures, std::pin::pin!(std::future::pending())).await.unwrap().is_some()
        };
        assert!(opens(1).await);
        let report = health.report(Instant::now());
        assert_eq!(report.status, admin::Status::Degraded);
        assert!(report.problems.iter().any(|problem| problem.starts_with("damage: the store was not there")), "{report:?}");
        for file in crate::coordination::lost_stores(&config.this_box.store()) {
            std::fs::remove_file(file).unwrap();
        }
        assert!(opens(2).await);
        assert_eq!(health.report(Instant::now()).problems, Vec::<String>::new());
    }

    #[tokio::test]
    async fn time_is_asked_for_again_and_again_for_as_long_as_the_store_is_opened() {
        // It takes as long as it takes until it has been asked for five times.
        let (asked, mut asks) = tokio::sync::mpsc::unbounded_channel();
        let opening = tokio::spawn(async move {
            for _ in 0..5 {
                asks.recv().await.expect("it is asked");
            }
            "open"
        });
        let opened = patiently(opening, Some(Duration::from_millis(1)), || asked.send(()).expect("it listens"));
        assert_eq!(tokio::time::timeout(Duration::from_secs(20), opened).await.expect("it asks on").unwrap(), "open");
        // Where some requests are late, there is time left.
        assert!(u128::from(MORE_TIME_US) > 3 * MORE_TIME_EVERY.as_micros());
    }

    #[tokio::test]
    async fn a_service_manager_that_has_been_told_that_the_box_is_there_is_asked_for_nothing() {
        let opening = tokio::spawn(tokio::time::sleep(Duration::from_millis(20)));
        patiently(opening, None, || panic!("asked")).await.unwrap();
    }
}
