//! What was heard of a delivery, as a log line says it.

use std::fmt;

use recado_core::ledger::{ClauseEvidence, SpokenClause};

/// What was heard of each clause. A short form tells all of them, and is called so.
pub fn settled(clauses: &[ClauseEvidence]) -> Vec<Settled<'_>> {
    clauses.iter().map(Settled).collect()
}

/// What was heard of one clause.
pub struct Settled<'a>(&'a ClauseEvidence);

impl fmt::Debug for Settled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(evidence) = self;
        match evidence.clause {
            SpokenClause::SHORT => {
                f.debug_struct("ClauseEvidence").field("clause", &format_args!("short form")).field("verdict", &evidence.verdict).finish()
            }
            _ => evidence.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use recado_core::ledger::ClauseVerdict;

    use super::*;

    #[test]
    fn a_short_form_has_a_name_and_other_clauses_their_numbers() {
        let said = |clause| format!("{:?}", settled(&[ClauseEvidence { clause, verdict: ClauseVerdict::Unheard }]));
        assert_eq!(said(SpokenClause::SHORT), "[ClauseEvidence { clause: short form, verdict: Unheard }]");
        assert_eq!(said(1), "[ClauseEvidence { clause: 1, verdict: Unheard }]");
    }
}
