//! Whether keys are the PIN of a party. What refuses looks and lasts the same whether the PIN is wrong or the party has none.

use std::path::PathBuf;
use std::sync::Arc;

use recado_core::conversation::{Pin, VerificationOutcome};
use recado_core::ids::PartyId;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::spawn_blocking;
use tracing::{error, info, warn};

use super::LockOut;
use super::hash::is_pin;
use super::pins::Pins;
use crate::coordination::{Moment, Trial, Verdict, Verification};

/// Compares PINs, a few at a time, on threads of their own, and has the store count.
#[derive(Debug, Clone)]
pub struct Verifier(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    pins_file: PathBuf,
    account: String,
    lock_out: LockOut,
    /// Each comparison takes 19 MiB and a processor for a while: the calls need both.
    at_a_time: Semaphore,
    to_store: mpsc::Sender<Verification>,
}

impl Verifier {
    /// A verifier of the parties of `account`, with the PINs in `pins_file`, which is read each time; the store is asked over `to_store`.
    pub fn new(pins_file: PathBuf, account: String, lock_out: LockOut, to_store: mpsc::Sender<Verification>) -> Self {
        Self(Arc::new(Parts { pins_file, account, lock_out, at_a_time: Semaphore::new(AT_A_TIME), to_store }))
    }

    /// What these keys come to, for `party`. The failure is durable before this returns anything else than
    /// [`VerificationOutcome::Unavailable`].
    pub async fn verify(&self, party: PartyId, keys: Pin, at: Moment) -> VerificationOutcome {
        let outcome = self.outcome(&party, keys, at).await.unwrap_or(VerificationOutcome::Unavailable);
        // Whose word it was says nothing of who it is.
        info!(?outcome, "verification");
        outcome
    }

    async fn outcome(&self, party: &PartyId, keys: Pin, at: Moment) -> Option<VerificationOutcome> {
        let parts = Arc::clone(&self.0);
        let _turn = self.0.at_a_time.acquire().await.ok()?;
        let user = party.0.strip_prefix(&self.0.account).and_then(|rest| rest.strip_prefix('/')).unwrap_or_default().to_owned();
        let read = spawn_blocking(move || Pins::read(&parts.pins_file).map(|pins| pins.hash_of(&user).map(str::to_owned))).await.ok()?;
        let hash = read.inspect_err(|error| error!(%error, "nobody can be verified")).ok()?;
        let (party, lock_out) = (party.clone(), self.0.lock_out);
        let begin = Trial::Begin { party: party.clone(), has_pin: hash.is_some(), at, lock_out };
        if self.ask(begin).await? == Verdict::Locked {
            return Some(VerificationOutcome::Locked);
        }
        if !spawn_blocking(move || is_pin(keys.expose(), hash.as_deref())).await.ok()? {
            return Some(VerificationOutcome::NotVerified);
        }
        // Whether what was held against it is gone decides nothing about who it is.
        let _ = self.ask(Trial::Succeeded { party }).await;
        Some(VerificationOutcome::Verified)
    }

    /// What the store says, once it is durable.
    async fn ask(&self, trial: Trial) -> Option<Verdict> {
        let (answer, answered) = oneshot::channel();
        let asked = Verification::new(trial, move |outcome| drop(answer.send(outcome)));
        self.0.to_store.send(asked).await.ok()?;
        answered.await.ok()?.inspect_err(|error| warn!(%error, "a failed verification could not be put on record: nobody is verified")).ok()
    }
}

/// Comparisons at a time.
const AT_A_TIME: usize = 2;

/// What may wait on its way to the store: at most one of each comparison.
pub const VERIFICATIONS_MAX: usize = 64;
