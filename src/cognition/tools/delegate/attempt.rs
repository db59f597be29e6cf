//! One attempt: the model is asked, uses its tools, and is asked again with what came of them, until it answers.

use std::time::Duration;

use minijinja::context;
use minijinja::value::Serde;
use recado_core::ledger::{AttemptOutcome, Dispatch, Executed, Input, template_environment};
use recado_core::policy::Language;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tracing::{info, warn};

use super::answer::{Answer, Progress, Writing};
use super::own_tools::{OwnTools, refused};
use super::words;
use crate::cognition::language::http::{self, Again, Fault, Reach};
use crate::cognition::language::wire::{Line, MadeCall, Tokens};
use crate::cognition::models::Role;
use crate::cognition::models::transport::Backoff;
use crate::cognition::tools::port::{Sent, failed};

/// A model, and how it is asked. Does not change.
pub(super) struct Model {
    pub asked: http::Language,
    pub own: OwnTools,
    pub language: Language,
    /// A template over `arguments`; none for the box's own.
    pub instructions: Option<String>,
    /// The argument that is the question.
    pub question: Option<String>,
    pub rounds_max: u32,
    /// How long one attempt may take.
    pub timeout: Duration,
    /// Who is told how far an attempt is.
    pub reports: Option<mpsc::Sender<Input>>,
}

/// Why there is no answer.
enum Stop {
    /// What the service says, or that it says nothing.
    Fault(Fault),
    /// It would come to the same again.
    Lasting(String),
    /// Nobody wants it any more.
    Ended,
}

/// What an attempt has taken.
#[derive(Debug, Default)]
struct Taken {
    rounds: u32,
    calls: usize,
    tokens: Tokens,
}

impl Model {
    pub async fn attempt(&self, dispatch: Dispatch, sent: Sent) -> AttemptOutcome {
        let deadline = Instant::now() + self.timeout;
        let mut taken = Taken::default();
        let came_of_it = timeout_at(deadline, self.answer(&dispatch, &sent, deadline, &mut taken)).await;
        let Taken { rounds, calls, tokens: Tokens { input, cached, output } } = taken;
        let (operation, attempt) = (dispatch.operation, dispatch.attempt);
        info!(operation_id = %operation, attempt, rounds, calls, input_tokens = input, cached_tokens = cached, output_tokens = output, "a larger model was asked");
        match came_of_it {
            Ok(Ok(answer)) => AttemptOutcome::Succeeded(json!({ "answer": answer })),
            Ok(Err(Stop::Fault(fault))) => {
                warn!(operation_id = %operation, attempt, reason = fault.reason, "a larger model has not answered");
                outcome(fault, sent.end())
            }
            Ok(Err(Stop::Lasting(reason))) => failed(reason, sent.end(), false),
            Ok(Err(Stop::Ended)) => failed("it was given up before it had an answer", sent.end(), true),
            Err(_) => failed(format!("the model gave no complete answer within {} ms", self.timeout.as_millis()), sent.end(), true),
        }
    }

    async fn answer(&self, dispatch: &Dispatch, sent: &Sent, deadline: Instant, taken: &mut Taken) -> Result<String, Stop> {
        let instructions = self.told(&dispatch.arguments).map_err(Stop::Lasting)?;
        let mut lines = vec![Line::message(Role::User, self.question(&dispatch.arguments))];
        let mut progress = Progress::new(dispatch.operation, self.reports.clone());
        for round in 1..=self.rounds_max {
            let is_last = round == self.rounds_max;
            if is_last && round > 1 {
                lines.push(Line::message(Role::System, words::last_round(self.language)));
            }
            let answer = self.ask(&instructions, &lines, sent, deadline, (&mut progress, taken)).await.map_err(Stop::Fault)?;
            if answer.calls.is_empty() {
                return Ok(answer.spoken());
            }
            if is_last {
                break;
            }
            if !answer.text.trim().is_empty() {
                lines.push(Line::message(Role::Assistant, answer.text));
            }
            let mut made = Vec::new();
            for (at, asked) in answer.calls.into_iter().enumerate() {
                let output = match at < CALLS_MAX {
                    true => self.own.call(dispatch, &asked, sent).await.ok_or(Stop::Ended)?,
                    false => refused("too many calls at a time: make fewer, and this one again if you need it"),
                };
                taken.calls += 1;
                // Services' own names for calls are not always different.
                made.push(MadeCall { call_id: format!("call_{}", taken.calls), name: asked.name, arguments: asked.arguments, output });
            }
            lines.push(Line::Calls(made));
        }
        Err(Stop::Lasting(format!("the model had no answer after {} rounds", self.rounds_max)))
    }

    /// Asks it once, and again where that may help: of an answer that broke off nothing is kept.
    async fn ask(
        &self,
        instructions: &str,
        lines: &[Line],
        sent: &Sent,
        deadline: Instant,
        (progress, taken): (&mut Progress, &mut Taken),
    ) -> Result<Answer, Fault> {
        taken.rounds += 1;
        let mut backoff = Backoff::default();
        for retries_left in (0..=RETRIES_MAX).rev() {
            let fault = match self.request(instructions, lines, progress).await {
                Ok(answer) => {
                    taken.tokens.add(answer.tokens);
                    if !answer.calls.is_empty() || !answer.spoken().is_empty() {
                        return Ok(answer);
                    }
                    Fault::failing("the model answered without a word")
                }
                Err(fault) => fault,
            };
            let asked = match fault.again {
                Again::Never => return Err(fault),
                Again::Soon => None,
                Again::After(ms) => Some(Duration::from_millis(ms)),
            };
            let wait = backoff.next(asked);
            // What can't be reached waits without an attempt, as long as it has done nothing. Longer waits are the ledger's to make.
            let waits_elsewhere = fault.reach == Reach::Unreachable && !sent.is_marked() || asked.is_some_and(|asked| asked > WAIT_MAX);
            if retries_left == 0 || waits_elsewhere || Instant::now() + wait >= deadline {
                return Err(fault);
            }
            tokio::time::sleep(wait).await;
        }
        Err(Fault::failing("the model gave no answer"))
    }

    async fn request(&self, instructions: &str, lines: &[Line], progress: &mut Progress) -> Result<Answer, Fault> {
        let (says, mut came) = mpsc::channel(EVENTS_MAX);
        let mut writing = Writing::default();
        let asking = async move { self.asked.answer(instructions, self.own.offered(), lines, &says, std::convert::identity).await };
        let taking = async {
            while let Some(event) = came.recv().await {
                if writing.take(event) {
                    progress.tell(&writing, Instant::now());
                }
            }
        };
        let (asked, ()) = tokio::join!(asking, taking);
        asked.map(|()| writing.end())
    }

    /// What it is told of its task.
    fn told(&self, arguments: &Value) -> Result<String, String> {
        let Some(template) = &self.instructions else { return Ok(words::instructions(self.language).to_owned()) };
        let values = context! { arguments => Serde(arguments) };
        template_environment()
            .render_str(template, values)
            .map_err(|error| format!("the tool's delegate.instructions can't be made of these arguments: {error}"))
    }

    /// What it is asked.
    fn question(&self, arguments: &Value) -> String {
        match self.question.as_ref().and_then(|name| arguments.get(name)) {
            Some(Value::String(question)) => question.clone(),
            Some(other) => other.to_string(),
            None => arguments.to_string(),
        }
    }
}

/// What a fault of the service is for an attempt of which so much is known.
fn outcome(fault: Fault, executed: Executed) -> AttemptOutcome {
    let Fault { reason, again, reach } = fault;
    let retry_after_ms = match again {
        Again::After(ms) => Some(ms),
        Again::Soon | Again::Never => None,
    };
    let (error, retryable) = match (reach, again) {
        (Reach::Unreachable, Again::Soon | Again::After(_)) if executed == Executed::No => {
            return AttemptOutcome::Unreachable { reason, retry_after_ms };
        }
        // Whom the box does not trust may be trusted a little later: after a restart its clock may be in the past.
        (Reach::Unreachable, _) => (reason, true),
        (Reach::Refuses, Again::Never) => {
            (format!("{reason}: look at the key, its credit, the url and the model in the tool's [tools.delegate]"), false)
        }
        (_, Again::Never) => (reason, false),
        (_, Again::Soon | Again::After(_)) => (reason, true),
    };
    AttemptOutcome::Failed { error, executed, retryable, retry_after_ms }
}

/// So often a request is made again, as in a call.
const RETRIES_MAX: u32 = 3;
/// A service that wants to be left alone for longer is not waited for within an attempt.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// So many calls of one answer are carried out.
const CALLS_MAX: usize = 16;
/// So much of an answer waits before nothing more is read.
const EVENTS_MAX: usize = 64;
