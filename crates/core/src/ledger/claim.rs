//! A claim: who tells a delivery now. One per delivery, over sessions and boots (I17), durable before the first frame (R4).

use super::effect::SpokenClause;
use super::record::{ClauseEvidence, DeliveryRecord, DeliveryState, Route};
use super::say::{hedge, unhedged};
use crate::ids::{BootId, SessionId};
use crate::policy::{Language, UncertainPolicy};

/// The claim of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claim {
    /// The conversation that tells it.
    pub session: SessionId,
    /// The life of the process that the conversation belongs to.
    pub boot: BootId,
    /// The way that it is told.
    pub route: Route,
    /// Whether it was `Uncertain` when it was claimed: that doubt outlives a claim that is given back or cut.
    pub doubted: bool,
    /// Whether its first frame has been released.
    pub frames: bool,
    /// The clauses that it was given to say.
    pub told: Vec<u32>,
}

impl Claim {
    /// Whether this conversation tells it.
    pub fn spoken_by(&self, session: SessionId) -> bool {
        self.session == session && self.route != Route::HandOff
    }

    /// Whether evidence from its conversation is about this claim, and so ends it, rather than late news of an earlier one:
    ///
    /// * about clauses that it was not given: of an earlier one;
    /// * before its first frame: of an earlier one, except an account of everything that it was given (its audio failed);
    ///   where that leaves nothing unheard, an earlier one was heard.
    pub fn ended_by(&self, evidence: &[ClauseEvidence], all_heard: bool) -> bool {
        let given = evidence.iter().all(|known| self.told.contains(&known.clause));
        let account = self.told.iter().all(|told| evidence.iter().any(|known| known.clause == *told));
        given && (self.frames || evidence.is_empty() || (account && !all_heard))
    }
}

impl SpokenClause {
    /// The clause number of a short form. It tells every clause of its delivery at once, so evidence for it counts for all of
    /// them; no delivery has so many clauses.
    pub const SHORT: u32 = u32::MAX;
}

/// What a session that claims this delivery is given to say.
///
/// * never cut: every clause;
/// * cut with some heard: those not heard yet;
/// * cut with none heard: the short form, where there is one; otherwise every clause;
/// * in doubt: everything not known to be heard, after one hedge where the policy says so.
pub(super) fn words(record: &DeliveryRecord, language: Language) -> Vec<SpokenClause> {
    let doubted = record.state == DeliveryState::Uncertain;
    let short = record.short.text(language).filter(|_| !doubted && record.attempt > 0);
    if let Some(text) = short.filter(|_| record.clauses.iter().all(|clause| clause.heard.is_none())) {
        return vec![SpokenClause { clause: Some(SpokenClause::SHORT), text: text.to_owned() }];
    }
    let before = (doubted && record.uncertain == UncertainPolicy::Check).then(|| SpokenClause { clause: None, text: hedge(language) });
    // What a clause brought along from a closing before is said once, and first.
    let alone = |text| if before.is_some() { unhedged(text) } else { text };
    let unheard = record.clauses.iter().zip(0_u32..).filter(|(clause, _)| clause.heard.is_none());
    let clauses = unheard.map(|(clause, index)| {
        let text = alone(clause.text.text(language).unwrap_or_default()).to_owned();
        SpokenClause { clause: Some(index), text }
    });
    before.iter().cloned().chain(clauses).collect()
}
