//! `recado run`: everything opened in order, served until told to stop, and closed in the reverse order.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use recado_core::BootId;
use recado_core::conversation::Settings;
use recado_core::ledger::{ClaimRecord, Ledger, Snapshot};
use recado_core::policy::Language;
use recado_trace::redact::Key;
use recado_trace::subject::LedgerStart;
use recado_trace::{Mode, Redactor};
use tokio::sync::{mpsc, oneshot, watch as watch_channel};
use tracing::{info, warn};

use super::call::House;
use super::clock::{Clock, random, wall};
use super::discovered::with_discovered;
use super::engines;
use super::ledger_task::LedgerTask;
use super::opening::open_store;
use super::prepare::{CheckError, Prepared, prepare};
use super::running::SPEECH;
use super::services::LOOK_AGAIN;
use super::switchboard::{self, Switchboard};
use super::upkeep;
use super::watch::{self, Pulse};
use crate::admin::{self, AdminError, HealthState, Impact};
use crate::cognition::tools::{self, BoxSecret, CallbackAddress, Executor, McpServers, Signers, ToolError, Webhook};
use crate::config::{Config, ModelKind, Trace, TraceMode};
use crate::coordination::{Keep, Options, Recovered};
use crate::identity::{VERIFICATIONS_MAX, Verifier};
use crate::surface::media::{MediaConfig, MediaError, MediaHandle};
use crate::surface::sip::{EndpointConfig, Server, SipError, Users};
use crate::surface::voice::{Speaker, SpeechState};
use crate::telemetry::{Measures, TelemetryError};
use crate::traces::{Keeper, Kept, Traced, Traces};

/// Why a box can't run. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// What the settings point at is wrong.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// A tool can't be used as it is configured.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// The media path can't be started.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// The signalling can't be started.
    #[error(transparent)]
    Sip(#[from] SipError),
    /// The HTTP server can't be started.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// Measures or logs can't be set up.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// A part of the house ended by itself, which is a fault in it: the log has the rest. Start the box again; the service
    /// manager does.
    #[error("{0} ended by itself: start the box again, and report what its log says")]
    Ended(&'static str),
    /// The system refuses what every program needs.
    #[error("the system refuses {what}: {error}")]
    System {
        /// What.
        what: &'static str,
        /// Why.
        error: std::io::Error,
    },
}

/// Runs a box, whose settings stand in `file`, until SIGTERM or SIGINT; calls are ended with BYE and everything is committed before it returns.
///
/// # Errors
/// What keeps it from starting. Nothing has been served then. A store that can't be opened does not: the box then refuses calls and
/// says why, until it can.
pub fn run(config: &Config, file: &str) -> Result<(), AppError> {
    let system = |what| move |error| AppError::System { what, error };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build().map_err(system("threads"))?;
    // From here on a signal to stop is heeded, however early it comes, and also while the store is opened anew.
    let told = {
        let _context = runtime.enter();
        told_to_stop()
    };
    let mut stop = std::pin::pin!(told);
    let mut suspect = false;
    let ended = loop {
        match runtime.block_on(serve(config, file, suspect, stop.as_mut())) {
            Ok(Ended::ToOpenTheStoreAnew) => suspect = true,
            Ok(Ended::Told) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    // A thread that is stuck in a name look-up must not keep the box from ending.
    runtime.shutdown_timeout(Duration::from_secs(1));
    ended
}

/// Why a box that was served has ended well.
enum Ended {
    /// It was told to.
    Told,
    /// The store has to be read anew: its file is damaged, or says more than this process knows.
    ToOpenTheStoreAnew,
}

async fn serve(config: &Config, file: &str, suspect: bool, mut stop: Pin<&mut impl Future<Output = ()>>) -> Result<Ended, AppError> {
    let started = Instant::now();
    let clock = Clock::start();
    let (health, measures) = (HealthState::new(started), Measures::new()?);
    let servers = McpServers::new(&config.mcp)?;
    let config = &with_discovered(config, &servers, &health).await;
    let Prepared { schemas, model, engine, prompts, services, looked_at, messages } = prepare(config, file, &health)?;
    let voices = [Language::Es, Language::En].map(|language| (language, engines::voice(config, language)));
    let speaker = Arc::new(Speaker::new(engine, voices.into(), prompts));

    let boot = BootId(random());
    let keep = config.store.keep().map(|age| Keep { age, wall });
    let options = Options { backups: config.store.backups, keep, suspect, ..Options::new(boot, wall()) };
    let Some((store, recovered)) = open_store(config, options, &health, &measures, stop.as_mut()).await? else {
        info!("stopped");
        return Ok(Ended::Told);
    };
    let secret = BoxSecret::new(*store.callback_secret().expose());
    let trace_key = Key::derive(store.callback_secret().expose());
    let http = admin::listen(config.http.listen).await?;
    let http_address = http.local_addr().map_err(|error| AppError::System { what: "a socket", error })?;
    let callback_base = config.http.callback_base(http_address);
    let address = CallbackAddress::new(&callback_base, secret.clone())?;

    let (to_ledger, from_calls) = mpsc::channel(TO_LEDGER_MAX);
    let (reports, from_tools) = mpsc::channel(REPORTS_MAX);
    let slots = tools::slots(config, &servers, Some(&address), Some(&reports))?;
    let signers = Signers::of(&config.tools)?;
    let webhook = config.hand_off.as_ref().map(|settings| Webhook::new(settings, reports.clone())).transpose()?;
    let (answers, from_store) = mpsc::channel(ANSWERS_MAX);
    let (callback_queue, callbacks) = mpsc::channel(CALLBACKS_MAX);
    let (to_store, verifications) = mpsc::channel(VERIFICATIONS_MAX);
    let store = store
        .start(move |answer| {
            // The ledger's task takes every answer until all are in; it is gone only when the process ends.
            let _ = answers.blocking_send(answer.into());
        })
        .map_err(|error| AppError::System { what: "a thread for the store", error })?;
    // What is known of it is known to the first who asks, and to the first caller.
    watch::store_health(&health, &store.stats(), None, Duration::ZERO);
    let policies: BTreeMap<_, _> = config.tools.iter().map(|tool| (tool.name.clone(), tool.policy())).collect();
    let found = (recovered.operations.len(), recovered.deliveries.len());
    let (keeper, traces) = keep_traces(config, boot, Redactor::of(trace_key, policies.values()), &measures, &health);
    let start = LedgerStart { boot, policies, snapshot: snapshot(recovered) };
    let (ledger, recovery) = Traced::<Ledger>::begin(&traces, &boot.to_string(), &mut clock.step(), start);
    let executor = Executor::start(slots, CONCURRENCY, reports);
    let (stop_ledger, ledger_stops) = oneshot::channel();
    let (anew, mut wanted_anew) = watch_channel::channel(None);
    let upkeep_anew = anew.clone();
    // Whatever can fail is done before the ledger's task begins: a box that can't take calls asks for no work either.
    if let Some(folder) = &config.media.recordings {
        std::fs::create_dir_all(folder).map_err(|error| AppError::System { what: "the folder for recordings", error })?;
    }
    let media = MediaHandle::start(MediaConfig {
        address: config.sip.listen.ip(),
        ports: config.media.ports.first..=config.media.ports.last,
        calls_max: config.sip.calls_max as usize,
        origin: clock.origin(),
        realtime: config.media.realtime,
    })?;
    let refuses = health.refuses();
    let sip = Server::start(config.sip.listen, EndpointConfig { admission: switchboard::admission(refuses), ..endpoint(config) }, seed())?;
    let listening = sip.address();
    let (ledger_pulse, calls_pulse, media_pulse) = (Pulse::new(clock), Pulse::new(clock), Pulse::new(clock));
    let media_progress = media.progress();
    let ledger_task = LedgerTask {
        clock,
        ledger,
        recovery,
        store,
        executor,
        webhook,
        from_calls,
        from_tools,
        from_store,
        callbacks,
        verifications,
        measures: measures.clone(),
        health: health.clone(),
        pulse: ledger_pulse.clone(),
        anew,
        stop: ledger_stops,
    };
    let mut ledger_task = tokio::spawn(ledger_task.run());
    let capabilities = model.capabilities();
    let account = config.this_box.account.clone();
    let verifier = |file: &PathBuf| Verifier::new(file.clone(), account.clone(), config.identity.lock_out(), to_store, health.clone());
    let house = Arc::new(House {
        clock,
        boot,
        verifier: config.identity.pins_file.as_ref().map(verifier),
        model,
        speaker: Arc::clone(&speaker),
        schemas,
        settings: Settings {
            timers: config.gate.timers(config.this_box.language),
            silence_ms: capabilities.silence_after_ms,
            verification: config.identity.verification(),
            ..Settings::default()
        },
        language: config.this_box.language,
        call_ms_max: config.sip.call_ms_max,
        to_ledger,
        measures: measures.clone(),
        traces,
        services: services.clone(),
    });
    let settings = switchboard::Settings {
        advertised: config.sip.advertised(),
        ring: Duration::from_millis(config.sip.ring_ms),
        account,
        identity: config.identity.clone(),
        silent_after_s: u32::try_from(config.sip.rtp_silence_ms / 1_000).unwrap_or(u32::MAX),
        also_from: config.media.also_from.as_slice().into(),
        profile: config.listen.profile(),
        recordings: config.media.recordings.clone(),
    };
    let (stop_calls, calls_stop) = oneshot::channel();
    let switchboard = Switchboard {
        house,
        settings,
        sip,
        media,
        health: health.clone(),
        refuses,
        measures: measures.clone(),
        pulse: calls_pulse.clone(),
    };
    let mut calls = tokio::spawn(switchboard.run(calls_stop));
    let routes = admin::router(health.clone(), measures.clone()).merge(tools::router(secret, signers, callback_queue, ANSWER_WITHIN, wall));
    let (stop_http, http_stops) = oneshot::channel::<()>();
    let http_server = tokio::spawn(admin::serve(http, routes, async move {
        let _ = http_stops.await;
    }));

    let (operations, deliveries) = found;
    info!(sip = %listening, http = %http_address, boot_id = %boot, operations, deliveries, ready_ms = started.elapsed().as_millis() as u64, "ready");
    // Only where a service manager listens; elsewhere it is no fault that nobody does.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready, sd_notify::NotifyState::Status(&watch::status(&health))]);
    let mut beside = tokio::task::JoinSet::new();
    beside.spawn(watch::follow_media(media_progress, media_pulse.clone()));
    beside.spawn(watch::watch_over(vec![("ledger", ledger_pulse), ("calls", calls_pulse), ("media", media_pulse)], health.clone()));
    let looking = upkeep::Looking::default();
    beside.spawn(upkeep::keep_store(config.this_box.store(), config.store.backups, health.clone(), upkeep_anew, looking.clone()));
    if let Some(messages) = messages {
        beside.spawn(messages.follow_room());
    }
    if !looked_at.is_empty() {
        let instead = if config.standby.enabled { BY_DIALOGUE } else { BY_NOBODY };
        beside.spawn(services.clone().show(instead, health.clone(), measures.clone()));
        for service in looked_at.into_iter().filter(|_| config.standby.watch) {
            beside.spawn(async move { service.services.watch(|| (service.look)(), LOOK_AGAIN).await });
        }
    }
    beside.spawn(async move { measures.keep_up().await });
    beside.spawn(speech_health(speaker.state(), health.clone()));
    beside.spawn(engines::keep_ready(speaker, engines::languages(config), said_at_once(config), engines::LOOK_AGAIN));

    let ended = tokio::select! {
        () = &mut stop => Ok(Ended::Told),
        _ = &mut calls => Err(AppError::Ended("the switchboard")),
        _ = &mut ledger_task => Err(AppError::Ended("the ledger")),
        () = to_be_opened_anew(&mut wanted_anew, &health) => Ok(Ended::ToOpenTheStoreAnew),
    };
    match &ended {
        Ok(Ended::Told) => drop(sd_notify::notify(&[sd_notify::NotifyState::Stopping])),
        Ok(Ended::ToOpenTheStoreAnew) => {
            drop(sd_notify::notify(&[sd_notify::NotifyState::Status("opening the store anew")]));
            warn!("the calls are over: the store is opened anew");
        }
        Err(error) => {
            warn!(%error, "the box stops, to be started again");
            drop(sd_notify::notify(&[sd_notify::NotifyState::Stopping]));
        }
    }
    // The reverse order: calls first, then what records what they heard.
    if stop_calls.send(()).is_ok() && !calls.is_finished() {
        let _ = calls.await;
    }
    let _ = stop_http.send(());
    if stop_ledger.send(()).is_ok() && !ledger_task.is_finished() {
        let _ = ledger_task.await;
    }
    let _ = tokio::time::timeout(Duration::from_secs(1), http_server).await;
    if let Some(keeper) = keeper {
        keeper.join();
    }
    if matches!(ended, Ok(Ended::ToOpenTheStoreAnew)) {
        drop(beside);
        looking.ended().await;
    }
    info!("stopped");
    ended
}

/// Waits until the store has to be opened anew, and then until the calls are over that are up: a caller is not cut off for it at
/// once, and not waited for for ever.
async fn to_be_opened_anew(wanted: &mut watch_channel::Receiver<Option<String>>, health: &HealthState) {
    if wanted.wait_for(Option::is_some).await.is_err() {
        // The ledger's task is gone, which is seen to elsewhere.
        std::future::pending::<()>().await;
    }
    let until = Instant::now() + CALLS_END_WITHIN;
    let mut looks = watch::beats();
    while health.calls_up() > 0 && Instant::now() < until {
        looks.tick().await;
    }
}

/// Begins to keep traces, unless there are to be none. A box that can't keep them takes calls all the same.
fn keep_traces(config: &Config, boot: BootId, redactor: Redactor, measures: &Measures, health: &HealthState) -> (Option<Keeper>, Traces) {
    let mode = match config.trace.mode {
        TraceMode::Off => return (None, Traces::off()),
        TraceMode::Redacted => Mode::Redacted,
        TraceMode::Full => Mode::Full,
    };
    let directory = config.this_box.traces();
    let Trace { files_max, bytes_max, file_bytes_max, .. } = config.trace;
    let kept = Kept { directory: directory.clone(), mode, files_max, bytes_max, file_bytes_max };
    match Keeper::start(kept, boot, redactor, measures.clone(), health.clone()) {
        Ok((keeper, traces)) => (Some(keeper), traces),
        Err(error) => {
            let directory = directory.display();
            warn!(%directory, %error, "traces can't be kept");
            health.raise(
                "traces",
                Impact::Degrades,
                format!("{directory} can't be used ({error}): make it writable and start the box again, or set trace.mode = \"off\""),
            );
            (None, Traces::off())
        }
    }
}

/// What the box says at once: what was accepted, and that the service that leads calls is away.
fn said_at_once(config: &Config) -> Vec<String> {
    let accepted = config.tools.iter().map(|tool| &tool.say_accepted);
    let standby = [&config.standby.say_away, &config.standby.say_lost];
    let standby = standby.into_iter().filter(|_| config.standby.enabled && config.model.kind != ModelKind::Scripted);
    standby.chain(accepted).filter_map(|words| words.text(config.this_box.language)).map(str::to_owned).collect()
}

/// Shows in health whether the speech engine works and has the voices that are wanted. Runs until it is dropped.
async fn speech_health(mut state: watch_channel::Receiver<SpeechState>, health: HealthState) {
    let mut told = SpeechState::default();
    loop {
        let now = state.borrow_and_update().clone();
        if now.engine.is_empty() {
            health.clear(SPEECH);
        } else if now.engine != told.engine {
            // What is wrong in each language is mostly the same.
            let problem = now.engine.values().cloned().collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join("; ");
            warn!(problem, "the speech engine does not work");
            health.raise(SPEECH, Impact::Degrades, problem);
        }
        if now.voices != told.voices {
            let problem = now.voices.values().cloned().collect::<Vec<_>>().join("; ");
            warn!(problem, "a voice is missing");
            health.raise("voices", Impact::Degrades, problem);
        }
        told = now;
        if state.changed().await.is_err() {
            return;
        }
    }
}

pub(super) fn endpoint(config: &Config) -> EndpointConfig {
    let mut endpoint = EndpointConfig::new((config.sip.advertised(), config.sip.listen.port()).into());
    if !config.sip.users.is_empty() {
        endpoint.users = Users::Listed(config.sip.users.clone());
    }
    endpoint.allowed_sources = config.sip.allow.clone();
    endpoint.calls_max = config.sip.calls_max as usize;
    endpoint
}

pub(super) fn seed() -> crate::surface::sip::Seed {
    let mut seed = [0; 32];
    let (first, second) = seed.split_at_mut(16);
    first.copy_from_slice(&random().to_ne_bytes());
    second.copy_from_slice(&random().to_ne_bytes());
    seed
}

pub(super) fn snapshot(recovered: Recovered) -> Snapshot {
    Snapshot {
        operations: recovered.operations,
        batches: recovered.batches,
        deliveries: recovered.deliveries,
        claims: recovered
            .claims
            .into_iter()
            .map(|(delivery, session, boot, route)| ClaimRecord { delivery, session, boot, route })
            .collect(),
        next_sequence: recovered.next_sequence,
        occurrence_floor: recovered.occurrence_floor,
    }
}

/// Registers for the signals that end a box, and waits for one.
fn told_to_stop() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    let signals = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    async {
        match signals {
            (Ok(mut term), Ok(mut int)) => tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            },
            // Without handlers the system's default ends the process, as by a power cut: nothing is lost.
            _ => std::future::pending().await,
        }
    }
}

/// How long calls may go on over a store that records nothing: each promise in them is refused.
const CALLS_END_WITHIN: Duration = Duration::from_secs(60);

/// Threads of the runtime; the media path has one of its own.
const WORKERS: usize = 2;

/// Attempts under way at a time, over all tools.
const CONCURRENCY: NonZeroUsize = NonZeroUsize::new(64).expect("64 is not zero");

/// Inputs of calls that may wait for the ledger, which answers each within microseconds.
const TO_LEDGER_MAX: usize = 4_096;

/// Reports of attempts that may wait; further attempts wait with theirs.
const REPORTS_MAX: usize = 256;

/// Answers of the store that may wait; the store's thread waits with the rest.
const ANSWERS_MAX: usize = 1_024;

/// Callbacks that may wait; further ones are answered 503 and come again.
const CALLBACKS_MAX: usize = 256;

/// How long a callback's sender waits for its result to be durable. A card stalls for half a second now and then.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// What health says of calls while the service that leads them is away.
const BY_DIALOGUE: &str = "calls are answered by the local dialogue";
const BY_NOBODY: &str = "callers are asked to say again what they want";
