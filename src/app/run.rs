//! `recado run`: everything opened in order, served until told to stop, and closed in the reverse order.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use recado_core::BootId;
use recado_core::conversation::Settings;
use recado_core::ledger::{ClaimRecord, Ledger, Snapshot};
use recado_core::policy::Language;
use tokio::sync::{mpsc, oneshot};
use tracing::{info, warn};

use super::call::House;
use super::clock::{Clock, random, wall};
use super::ledger_task::LedgerTask;
use super::prepare::{CheckError, Prepared, prepare};
use super::switchboard::{self, Switchboard};
use super::watch::{self, Pulse};
use crate::admin::{self, AdminError, HealthState, Impact};
use crate::cognition::models::{Model, Scripted};
use crate::cognition::tools::{self, BoxSecret, CallbackAddress, Executor, ToolError, Webhook};
use crate::config::Config;
use crate::coordination::{OpenError, Options, Recovered, Store};
use crate::surface::media::{MediaConfig, MediaError, MediaHandle};
use crate::surface::sip::{EndpointConfig, Server, SipError, Users};
use crate::surface::speech::espeak::EspeakNg;
use crate::surface::speech::phrases::Phrases;
use crate::surface::speech::{SpeechAudio, Synthesiser, Voice};
use crate::surface::voice::Speaker;
use crate::telemetry::{Measures, TelemetryError};

/// Why a box can't run. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The store can't be opened.
    #[error(transparent)]
    Store(#[from] OpenError),
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
/// What keeps it from starting. Nothing has been served then.
pub fn run(config: &Config, file: &str) -> Result<(), AppError> {
    let system = |what| move |error| AppError::System { what, error };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build().map_err(system("threads"))?;
    let ended = runtime.block_on(serve(config, file));
    // A thread that is stuck in a name look-up must not keep the box from ending.
    runtime.shutdown_timeout(Duration::from_secs(1));
    ended
}

async fn serve(config: &Config, file: &str) -> Result<(), AppError> {
    let started = Instant::now();
    // From here on a signal to stop is heeded, however early it comes.
    let stop = told_to_stop();
    let clock = Clock::start();
    let (health, measures) = (HealthState::new(started), Measures::new()?);
    let Prepared { schemas, dialogue, prompts } = prepare(config, file)?;
    let model = Scripted::new(dialogue);
    let speaker = Arc::new(speaker(config, prompts));

    let boot = BootId(random());
    let (store, recovered) = Store::open(&config.this_box.store(), &Options::new(boot, wall()))?;
    let secret = BoxSecret::new(*store.callback_secret().expose());
    let http = admin::listen(config.http.listen).await?;
    let http_address = http.local_addr().map_err(|error| AppError::System { what: "a socket", error })?;
    let callback_base = config.http.callback_base(http_address);
    let address = CallbackAddress::new(&callback_base, secret.clone())?;
    let slots = tools::http_tools(&config.tools, Some(&address))?;

    let (to_ledger, from_calls) = mpsc::channel(TO_LEDGER_MAX);
    let (reports, from_tools) = mpsc::channel(REPORTS_MAX);
    let webhook = config.hand_off.as_ref().map(|settings| Webhook::new(settings, reports.clone())).transpose()?;
    let (answers, from_store) = mpsc::channel(ANSWERS_MAX);
    let (callback_queue, callbacks) = mpsc::channel(CALLBACKS_MAX);
    let store = store
        .start(move |answer| {
            // The ledger's task takes every answer until all are in; it is gone only when the process ends.
            let _ = answers.blocking_send(answer.into());
        })
        .map_err(|error| AppError::System { what: "a thread for the store", error })?;
    let policies = config.tools.iter().map(|tool| (tool.name.clone(), tool.policy())).collect();
    let found = (recovered.operations.len(), recovered.deliveries.len());
    let (ledger, recovery) = Ledger::recover(&mut clock.step(), boot, policies, snapshot(recovered));
    let executor = Executor::start(slots, CONCURRENCY, reports);
    let (stop_ledger, ledger_stops) = oneshot::channel();
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
    let sip = Server::start(config.sip.listen, endpoint(config), seed())?;
    let listening = sip.address();
    let (ledger_pulse, calls_pulse) = (Pulse::new(clock), Pulse::new(clock));
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
        measures: measures.clone(),
        health: health.clone(),
        pulse: ledger_pulse.clone(),
        stop: ledger_stops,
    };
    let mut ledger_task = tokio::spawn(ledger_task.run());
    let capabilities = model.capabilities();
    let house = Arc::new(House {
        clock,
        model: Box::new(model),
        speaker: Arc::clone(&speaker),
        schemas,
        settings: Settings { min_quiet_ms: config.gate.min_quiet_ms, silence_ms: capabilities.silence_after_ms, ..Settings::default() },
        language: config.this_box.language,
        call_ms_max: config.sip.call_ms_max,
        to_ledger,
        measures: measures.clone(),
    });
    let settings = switchboard::Settings {
        advertised: config.sip.advertised(),
        ring: Duration::from_millis(config.sip.ring_ms),
        account: config.this_box.account.clone(),
        silent_after_s: u32::try_from(config.sip.rtp_silence_ms / 1_000).unwrap_or(u32::MAX),
        profile: config.listen.profile(),
        recordings: config.media.recordings.clone(),
    };
    let (stop_calls, calls_stop) = oneshot::channel();
    let switchboard =
        Switchboard { house, settings, sip, media, health: health.clone(), measures: measures.clone(), pulse: calls_pulse.clone() };
    let mut calls = tokio::spawn(switchboard.run(calls_stop));
    let routes = admin::router(health.clone(), measures.clone()).merge(tools::router(secret, callback_queue, ANSWER_WITHIN));
    let (stop_http, http_stops) = oneshot::channel::<()>();
    let http_server = tokio::spawn(admin::serve(http, routes, async move {
        let _ = http_stops.await;
    }));

    let (operations, deliveries) = found;
    info!(sip = %listening, http = %http_address, boot_id = %boot, operations, deliveries, ready_ms = started.elapsed().as_millis() as u64, "ready");
    // Only where a service manager listens; elsewhere it is no fault that nobody does.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    let mut beside = tokio::task::JoinSet::new();
    beside.spawn(watch::feed_watchdog(vec![("ledger", ledger_pulse), ("calls", calls_pulse)]));
    beside.spawn(watch::count_deliveries(config.this_box.store(), measures.clone()));
    beside.spawn(async move { measures.keep_up().await });
    beside.spawn(speech_health(speaker.state(), health));
    beside.spawn(warm_up(config.this_box.language, acceptances(config), speaker));

    let ended = tokio::select! {
        () = stop => None,
        _ = &mut calls => Some("the switchboard"),
        _ = &mut ledger_task => Some("the ledger"),
    };
    if let Some(part) = ended {
        warn!(part, "ended by itself: the box stops, to be started again");
    }
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
    // The reverse order: calls first, then what records what they heard.
    if stop_calls.send(()).is_ok() && !calls.is_finished() {
        let _ = calls.await;
    }
    let _ = stop_http.send(());
    if stop_ledger.send(()).is_ok() && !ledger_task.is_finished() {
        let _ = ledger_task.await;
    }
    let _ = tokio::time::timeout(Duration::from_secs(1), http_server).await;
    info!("stopped");
    ended.map_or(Ok(()), |part| Err(AppError::Ended(part)))
}

fn speaker(config: &Config, prompts: BTreeMap<String, SpeechAudio>) -> Speaker {
    let engine: Arc<dyn Synthesiser> = Arc::new(Phrases::new(EspeakNg::new(&config.speech.program), PHRASES_BYTES_MAX));
    let voice = |language| {
        let name = config.speech.voices.of(language).map(Into::into);
        (language, Voice { name, words_per_minute: config.speech.words_per_minute, ..Voice::default() })
    };
    Speaker::new(engine, [Language::Es, Language::En].map(voice).into(), prompts)
}

fn acceptances(config: &Config) -> Vec<String> {
    config.tools.iter().filter_map(|tool| tool.say_accepted.text(config.this_box.language)).map(str::to_owned).collect()
}

/// Renders what every call needs at once, so that the first caller does not wait for it, and so that an engine that does not
/// work is known before.
async fn warm_up(language: Language, texts: Vec<String>, speaker: Arc<Speaker>) {
    for text in texts {
        if speaker.warm_up(&text, language).await.is_err() {
            return;
        }
    }
}

/// Shows in health whether the speech engine works. Runs until it is dropped.
async fn speech_health(mut state: tokio::sync::watch::Receiver<Option<String>>, health: HealthState) {
    loop {
        match state.borrow_and_update().clone() {
            Some(problem) => {
                warn!(problem, "the speech engine does not work");
                health.raise("speech", Impact::Degrades, problem);
            }
            None => health.clear("speech"),
        }
        if state.changed().await.is_err() {
            return;
        }
    }
}

fn endpoint(config: &Config) -> EndpointConfig {
    let mut endpoint = EndpointConfig::new((config.sip.advertised(), config.sip.listen.port()).into());
    if !config.sip.users.is_empty() {
        endpoint.users = Users::Listed(config.sip.users.clone());
    }
    endpoint.allowed_sources = config.sip.allow.clone();
    endpoint.calls_max = config.sip.calls_max as usize;
    endpoint
}

fn seed() -> crate::surface::sip::Seed {
    let mut seed = [0; 32];
    let (first, second) = seed.split_at_mut(16);
    first.copy_from_slice(&random().to_ne_bytes());
    second.copy_from_slice(&random().to_ne_bytes());
    seed
}

fn snapshot(recovered: Recovered) -> Snapshot {
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

/// Rendered phrases kept in memory: about four minutes of speech.
const PHRASES_BYTES_MAX: usize = 4 << 20;
