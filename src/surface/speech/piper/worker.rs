//! Whoever looks after one process: gives it clause after clause, and replaces it when it dies or hangs.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::running::Running;
use super::{Desk, Loaded};
use crate::surface::speech::error::SpeechError;

/// A clause to be spoken.
#[derive(Debug)]
pub(super) struct Request {
    pub text: String,
    pub answer: oneshot::Sender<Result<Vec<i16>, SpeechError>>,
}

/// How a process is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is being loaded, or nobody has wanted it yet.
    Loading,
    /// It speaks.
    Ready,
    /// It does not run, for this reason.
    Down(String),
}

pub(super) struct Worker {
    program: Arc<Loaded>,
    standing: watch::Sender<Standing>,
    running: Option<Running>,
    /// Deaths and hangs since a clause was last spoken.
    failures: u32,
    not_before: Instant,
}

impl Worker {
    /// Starts to look after a process, which is loaded at once. Ends when the desk is gone.
    pub fn start(program: Arc<Loaded>) -> Desk {
        let (requests, wanted) = mpsc::channel(REQUESTS_MAX);
        let standing = watch::Sender::new(Standing::Loading);
        let desk = Desk { requests, standing: standing.subscribe() };
        let worker = Self { program, standing, running: None, failures: 0, not_before: Instant::now() };
        tokio::spawn(worker.work(wanted));
        desk
    }

    async fn work(mut self, mut requests: mpsc::Receiver<Request>) {
        loop {
            self.load().await;
            let next = tokio::select! {
                biased;
                died = died(&mut self.running) => {
                    self.failed(&died);
                    continue;
                }
                next = requests.recv() => next,
            };
            let Some(Request { text, answer }) = next else { return };
            self.load().await;
            // Whoever wanted it may have been cut off meanwhile.
            if answer.is_closed() {
                continue;
            }
            let spoken = match &mut self.running {
                Some(running) => running.say(&text, self.program.timeout).await,
                None => Err(self.why_not()),
            };
            match (&spoken, self.running.is_some()) {
                (Ok(_), _) => self.failures = 0,
                // What it wrote can't be used, which says nothing about the next clause.
                (Err(SpeechError::EngineAudio(_) | SpeechError::AudioTooLong { .. }), _) | (Err(_), false) => {}
                (Err(error), true) => self.failed(error),
            }
            let _ = answer.send(spoken);
        }
    }

    /// Sees that it runs, unless it failed a moment ago.
    async fn load(&mut self) {
        if self.running.is_some() || Instant::now() < self.not_before {
            return;
        }
        self.standing.send_replace(Standing::Loading);
        let loaded = async {
            let mut running = Running::start(&self.program).await?;
            // A first word, for it does not say when it is there.
            running.say(FIRST_WORD, self.program.load_timeout).await?;
            Ok(running)
        };
        match loaded.await {
            Ok(running) => {
                self.running = Some(running);
                self.standing.send_replace(Standing::Ready);
            }
            Err(error) => {
                // Whoever waits has waited for the loading already, and is not made to wait for another one.
                self.failures = self.failures.max(1);
                self.failed(&error);
            }
        }
    }

    /// It has died, hangs, or can't be started: it is ended, and another one started, later each time.
    fn failed(&mut self, error: &SpeechError) {
        self.running = None;
        let wait = match self.failures {
            0 => Duration::ZERO,
            failures => FIRST_WAIT.saturating_mul(1 << (failures - 1).min(DOUBLINGS_MAX)),
        };
        self.failures = self.failures.saturating_add(1);
        self.not_before = Instant::now() + wait;
        tracing::warn!(model = %self.program.model.display(), %error, again_in_ms = wait.as_millis() as u64, "piper is started again");
        self.standing.send_replace(Standing::Down(error.to_string()));
    }

    fn why_not(&self) -> SpeechError {
        SpeechError::NotRunning(match &*self.standing.borrow() {
            Standing::Down(problem) => problem.clone(),
            Standing::Loading | Standing::Ready => "piper does not run".to_owned(),
        })
    }
}

/// Waits until a process that runs has ended.
async fn died(running: &mut Option<Running>) -> SpeechError {
    match running {
        Some(running) => running.ended().await,
        None => std::future::pending().await,
    }
}

/// A word in any language.
const FIRST_WORD: &str = "a.";
/// As many clauses as a few calls ask for at once.
const REQUESTS_MAX: usize = 64;
/// The first death costs nothing but the loading.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Up to 64 s.
const DOUBLINGS_MAX: u32 = 6;
