//! One delivery: the contract's life cycle.

use recado_core::ledger::{DeliveryKind, DeliveryState};
use recado_core::policy::UncertainPolicy;

use super::Rules;
use crate::alphabet::{Call, DeliveryView, SHORT, Verdict, Word};

/// A delivery, with what only this life of the process knows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Delivery {
    pub row: DeliveryView,
    /// The claim behind `row.claim`.
    pub claim: Option<Claim>,
    /// Who has had it in this life of the process: their evidence counts, however late.
    pub tellers: u8,
}

/// Who tells it now.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Claim {
    pub call: Call,
    /// Whether it was `Uncertain` before.
    pub doubted: bool,
    /// Whether a frame may have been released.
    pub frames: bool,
    pub told: Vec<Word>,
}

impl Delivery {
    pub fn ready(kind: DeliveryKind, clauses: Vec<(usize, bool)>) -> Self {
        let row = DeliveryView { kind, state: DeliveryState::Ready, attempt: 0, clauses, claim: None };
        Self { row, claim: None, tellers: 0 }
    }

    pub fn waits(&self) -> bool {
        self.claim.is_none() && matches!(self.row.state, DeliveryState::Ready | DeliveryState::Uncertain)
    }

    /// What is said: everything, what was not heard yet, or the short form after a cut with nothing heard.
    fn words(&self) -> Vec<Word> {
        let none_heard = self.row.clauses.iter().all(|(_, heard)| !heard);
        if self.row.state != DeliveryState::Uncertain && self.row.attempt > 0 && none_heard {
            return vec![SHORT];
        }
        (0..).zip(&self.row.clauses).filter(|(_, (_, heard))| !heard).map(|(word, _)| word).collect()
    }

    pub fn grant(&mut self, call: Call) -> Vec<Word> {
        let words = self.words();
        let doubted = self.row.state == DeliveryState::Uncertain;
        self.claimed(Some(Claim { call, doubted, frames: false, told: words.clone() }));
        self.row.state = DeliveryState::Speaking;
        self.tellers |= 1 << call;
        words
    }

    pub fn first_frame(&mut self, call: Call) {
        if let Some(claim) = self.claim.as_mut().filter(|claim| claim.call == call) {
            claim.frames = true;
        }
    }

    pub fn release(&mut self, call: Call) {
        if let Some(claim) = self.take(|claim| claim.call == call) {
            self.row.state = before(&claim);
        }
    }

    /// The conversation is gone, or one that lost its claim.
    pub fn lose(&mut self, call: Call, rules: &Rules) {
        if let Some(claim) = self.take(|claim| claim.call == call) {
            if claim.frames { self.doubt(rules) } else { self.row.state = before(&claim) }
        }
    }

    /// What a power cut leaves of it.
    pub fn restored(&mut self) {
        self.tellers = 0;
        if let Some(claim) = self.claim.as_mut() {
            (claim.frames, claim.doubted) = (true, false);
            claim.told.clear();
        }
    }

    /// Restart: what was `Speaking` may have been heard.
    pub fn recover(&mut self, rules: &Rules) {
        self.take(|_| true);
        if self.row.state == DeliveryState::Speaking {
            if rules.ready_after_restart() { self.row.state = DeliveryState::Ready } else { self.doubt(rules) }
        }
    }

    /// Evidence. Says who else must stop.
    pub fn settled(&mut self, call: Call, evidence: &[(Word, Verdict)], rules: &Rules) -> Option<Call> {
        if self.row.state.terminal() || self.tellers & (1 << call) == 0 {
            return None;
        }
        for &(word, verdict) in evidence {
            for (index, clause) in (0..).zip(&mut self.row.clauses) {
                clause.1 |= verdict == Verdict::Heard && (word == index || word == SHORT);
            }
        }
        let heard = self.row.clauses.iter().all(|(_, heard)| *heard);
        let ended = self.take(|claim| claim.call == call && ended_by(claim, evidence, heard));
        match ended {
            _ if heard => {
                self.row.state = DeliveryState::Spoken;
                self.take(|_| true).map(|claim| claim.call)
            }
            Some(claim) => {
                self.ended(&claim, evidence, rules);
                None
            }
            None => None,
        }
    }

    /// Told no more. Says who must stop.
    pub fn end(&mut self, state: DeliveryState) -> Option<Call> {
        if self.row.state.terminal() {
            return None;
        }
        self.row.state = state;
        self.take(|_| true).map(|claim| claim.call)
    }

    fn ended(&mut self, claim: &Claim, evidence: &[(Word, Verdict)], rules: &Rules) {
        let known = |word: &Word| evidence.iter().find(|(about, _)| about == word).map(|(_, verdict)| *verdict);
        let is = |what: fn(Option<Verdict>) -> bool| claim.told.iter().any(|word| what(known(word)));
        let cut = is(|verdict| matches!(verdict, None | Some(Verdict::Unheard)));
        // What may have been heard stays in doubt, whatever was cut after it.
        if !cut || is(|verdict| verdict == Some(Verdict::Uncertain)) {
            self.doubt(rules);
        } else {
            self.row.state = before(claim);
            self.row.attempt += 1;
        }
    }

    fn doubt(&mut self, rules: &Rules) {
        self.row.attempt += 1;
        self.row.state = match rules.uncertain {
            UncertainPolicy::Check | UncertainPolicy::Repeat => DeliveryState::Uncertain,
            UncertainPolicy::Suppress => DeliveryState::Suppressed,
        };
    }

    fn take(&mut self, which: impl FnOnce(&Claim) -> bool) -> Option<Claim> {
        let taken = self.claim.take_if(|claim| which(claim));
        self.row.claim = self.claim.as_ref().map(|claim| claim.call);
        taken
    }

    fn claimed(&mut self, claim: Option<Claim>) {
        self.row.claim = claim.as_ref().map(|claim| claim.call);
        self.claim = claim;
    }
}

/// Whether evidence is about this claim, and not late news of an earlier one.
fn ended_by(claim: &Claim, evidence: &[(Word, Verdict)], heard: bool) -> bool {
    let given = evidence.iter().all(|(word, _)| claim.told.contains(word));
    let account = claim.told.iter().all(|word| evidence.iter().any(|(about, _)| about == word));
    given && (claim.frames || (account && !heard))
}

fn before(claim: &Claim) -> DeliveryState {
    if claim.doubted { DeliveryState::Uncertain } else { DeliveryState::Ready }
}
