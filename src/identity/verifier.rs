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
use crate::admin::{HealthState, Impact};
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
    health: HealthState,
}

impl Parts {
    /// The PINs, as the file has them now.
    fn pins(&self) -> Option<Pins> {
        match Pins::read(&self.pins_file) {
            Ok(pins) => {
                self.health.clear(PART);
                Some(pins)
            }
            Err(error) => {
                error!(%error, "nobody can be verified");
                self.health.raise(PART, Impact::Degrades, format!("nobody can be verified: {error}"));
                None
            }
        }
    }
}

impl Verifier {
    /// A verifier of the parties of `account`, with the PINs in `pins_file`, which is read each time; the store is asked over `to_store`.
    /// Whether the file can be read is shown in `health`.
    pub fn new(pins_file: PathBuf, account: String, lock_out: LockOut, to_store: mpsc::Sender<Verification>, health: HealthState) -> Self {
        let verifier = Self(Arc::new(Parts { pins_file, account, lock_out, at_a_time: Semaphore::new(AT_A_TIME), to_store, health }));
        let _ = verifier.0.pins();
        verifier
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
        let hash = spawn_blocking(move || parts.pins().map(|pins| pins.hash_of(&user).map(str::to_owned))).await.ok()??;
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

/// What it is called in health.
const PART: &str = "pins";

/// Comparisons at a time.
const AT_A_TIME: usize = 2;

/// What may wait on its way to the store: at most one of each comparison.
pub const VERIFICATIONS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use recado_core::ids::BootId;
    use recado_core::time::{Time, Wall};

    use super::super::{hash, keep};
    use super::*;
    use crate::coordination::{Options, Store, Writer};

    /// A verifier and a real store, in one folder, in one life of the process.
    struct Rig {
        verifier: Verifier,
        passing: tokio::task::JoinHandle<Writer>,
        boot: BootId,
        health: HealthState,
    }

    impl Rig {
        fn start(folder: &Path, boot: u128) -> Self {
            let boot = BootId(boot);
            let (store, _) = Store::open(&folder.join("store").join("recado.db"), &Options::new(boot, Wall::default())).unwrap();
            let writer = store.start(|_| ()).unwrap();
            let (to_store, mut asked) = mpsc::channel(VERIFICATIONS_MAX);
            let lock_out = LockOut { after: 3, lasts_ms: 60_000 };
            let health = HealthState::new(std::time::Instant::now());
            let verifier = Verifier::new(folder.join("pins"), "main".into(), lock_out, to_store, health.clone());
            let passing = tokio::spawn(async move {
                while let Some(verification) = asked.recv().await {
                    writer.verification(verification);
                }
                writer
            });
            Self { verifier, passing, boot, health }
        }

        async fn says(&self, party: &str, keys: &str) -> VerificationOutcome {
            let at = Moment { boot: self.boot, now: Time(1_000), wall: Wall::default() };
            self.verifier.verify(PartyId(party.into()), keys.to_owned().into(), at).await
        }

        /// Ends it, as a process does.
        async fn ends(self) {
            drop(self.verifier);
            drop(self.passing.await.unwrap());
        }
    }

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let hash = hash("4715").unwrap();
        keep(&folder.path().join("pins"), |pins| pins.set("ana", hash)).unwrap();
        folder
    }

    #[tokio::test]
    async fn the_right_pin_of_the_right_party_alone_verifies() {
        let folder = folder();
        let rig = Rig::start(folder.path(), 1);
        assert_eq!(rig.says("main/ana", "4715").await, VerificationOutcome::Verified);
        for (party, keys) in [("main/ana", "4716"), ("main/bob", "4715"), ("other/ana", "4715"), ("mainana", "4715"), ("ana", "4715")] {
            assert_eq!(rig.says(party, keys).await, VerificationOutcome::NotVerified, "{party} {keys}");
        }
        rig.ends().await;
    }

    #[tokio::test]
    async fn who_has_no_pin_is_locked_out_as_who_has_one_and_a_restart_changes_nothing() {
        let folder = folder();
        let rig = Rig::start(folder.path(), 1);
        for party in ["main/ana", "main/bob"] {
            for _ in 0..3 {
                assert_eq!(rig.says(party, "9032").await, VerificationOutcome::NotVerified, "{party}");
            }
            assert_eq!(rig.says(party, "4715").await, VerificationOutcome::Locked, "{party}");
        }
        rig.ends().await;
        let rig = Rig::start(folder.path(), 2);
        assert_eq!(rig.says("main/ana", "4715").await, VerificationOutcome::Locked);
        rig.ends().await;
    }

    #[tokio::test]
    async fn a_right_pin_begins_the_count_anew() {
        let folder = folder();
        let rig = Rig::start(folder.path(), 1);
        for keys in ["9032", "9032", "4715", "9032", "9032", "4715"] {
            let right = if keys == "4715" { VerificationOutcome::Verified } else { VerificationOutcome::NotVerified };
            assert_eq!(rig.says("main/ana", keys).await, right);
        }
        rig.ends().await;
    }

    #[tokio::test]
    async fn calls_at_the_same_time_have_no_more_guesses_than_one() {
        let folder = folder();
        let rig = Rig::start(folder.path(), 1);
        let guesses = |keys| rig.says("main/ana", keys);
        let (a, b, c, d, e, f) =
            tokio::join!(guesses("1111"), guesses("2222"), guesses("3333"), guesses("4444"), guesses("5555"), guesses("6666"));
        let outcomes = [a, b, c, d, e, f];
        assert_eq!(outcomes.iter().filter(|outcome| **outcome == VerificationOutcome::NotVerified).count(), 3, "{outcomes:?}");
        assert_eq!(outcomes.iter().filter(|outcome| **outcome == VerificationOutcome::Locked).count(), 3, "{outcomes:?}");
        rig.ends().await;
    }

    #[tokio::test]
    async fn without_the_file_or_the_store_nobody_is_verified() {
        let folder = folder();
        let rig = Rig::start(folder.path(), 1);
        std::fs::rename(folder.path().join("pins"), folder.path().join("elsewhere")).unwrap();
        let degraded = || serde_json::to_string(&rig.health.report(std::time::Instant::now())).unwrap().contains("nobody can be verified");
        assert!(!degraded());
        assert_eq!(rig.says("main/ana", "4715").await, VerificationOutcome::Unavailable);
        assert!(degraded());
        std::fs::rename(folder.path().join("elsewhere"), folder.path().join("pins")).unwrap();
        assert_eq!(rig.says("main/ana", "4715").await, VerificationOutcome::Verified, "it is read each time");
        assert!(!degraded());
        let Rig { verifier, passing, boot, .. } = rig;
        passing.abort();
        let at = Moment { boot, now: Time(1_000), wall: Wall::default() };
        assert!(passing.await.is_err(), "the ledger's task is gone");
        assert_eq!(verifier.verify(PartyId("main/ana".into()), "4715".to_owned().into(), at).await, VerificationOutcome::Unavailable);
    }
}
