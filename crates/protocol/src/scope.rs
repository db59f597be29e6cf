//! The worlds that are explored. What can go wrong is divided among them, so that each is explored to its end in seconds.

use recado_core::policy::UncertainPolicy;

use crate::alphabet::Scope;

/// A world in which nothing goes wrong: one operation that is not idempotent, one conversation.
pub const CALM: Scope = Scope {
    idempotent: &[false],
    attempts_max: 2,
    calls: 1,
    uncertain: UncertainPolicy::Check,
    power_cuts: 0,
    failures: 0,
    cuts: 0,
    doubts: 0,
    lost_answers: 0,
    cancel: false,
    cancellable: false,
    stale: false,
    newer: false,
    overlap: 0,
};

/// Two operations of one batch, of which one is idempotent: the power is cut, calls come and go.
pub const WORK: Scope = Scope { idempotent: &[true, false], attempts_max: 1, calls: 2, power_cuts: 1, ..CALM };

/// Two operations: the caller cancels.
pub const CANCEL: Scope = Scope { idempotent: &[true, false], attempts_max: 1, cancel: true, ..CALM };

/// One operation whose tool takes cancel requests: the caller cancels, an answer is lost, the power is cut.
pub const CANCEL_ASKS: Scope = Scope { calls: 2, power_cuts: 1, lost_answers: 1, cancel: true, cancellable: true, ..CALM };

/// Two operations: the closing is cut, in each of its clauses, and an answer is lost.
pub const CUT: Scope = Scope { idempotent: &[true, false], attempts_max: 1, cuts: 1, lost_answers: 1, ..CALM };

/// Retries: an attempt fails, or its answer is lost, the caller cancels, and the power is cut twice.
pub const RETRY: Scope = Scope { attempts_max: 2, calls: 2, power_cuts: 2, lost_answers: 1, cancel: true, ..CALM };

/// [`RETRY`] with a tool that knows a repeated key.
pub const RETRY_IDEMPOTENT: Scope = Scope { idempotent: &[true], power_cuts: 1, ..RETRY };

/// Telling: calls come and go, closings are cut and left in doubt, reports come late, and the power is cut.
pub const TELL: Scope = Scope { attempts_max: 1, calls: 2, power_cuts: 1, cuts: 1, doubts: 1, ..CALM };

/// [`TELL`], where what is in doubt is not told again.
pub const TELL_SUPPRESS: Scope = Scope { uncertain: UncertainPolicy::Suppress, ..TELL };

/// [`TELL`], where it is told again without a word of doubt.
pub const TELL_REPEAT: Scope = Scope { uncertain: UncertainPolicy::Repeat, ..TELL };

/// Two later conversations compete for what the first one left.
pub const COMPETE: Scope = Scope { attempts_max: 1, calls: 3, doubts: 1, ..CALM };

/// Closings become stale, and obsolete by something newer, also across a power cut.
pub const SUPERSEDE: Scope = Scope { attempts_max: 1, calls: 2, power_cuts: 1, doubts: 1, stale: true, newer: true, ..CALM };

/// A transaction fails, at whatever point, a closing is cut, and the caller cancels.
pub const FAILURE: Scope = Scope { attempts_max: 1, calls: 2, failures: 1, cuts: 1, power_cuts: 1, cancel: true, ..CALM };

/// Those in which every transition is taken by the real ledger in every run of the tests.
pub const COMPARED: [(&str, Scope); 7] = [
    ("cancel", CANCEL),
    ("cancel, by request", CANCEL_ASKS),
    ("retry", RETRY),
    ("retry, idempotent", RETRY_IDEMPOTENT),
    ("tell", TELL),
    ("tell, suppress", TELL_SUPPRESS),
    ("failure", FAILURE),
];

/// All of them, by name.
pub const ALL: [(&str, Scope); 12] = [
    ("work", WORK),
    ("cancel", CANCEL),
    ("cancel, by request", CANCEL_ASKS),
    ("cut", CUT),
    ("retry", RETRY),
    ("retry, idempotent", RETRY_IDEMPOTENT),
    ("tell", TELL),
    ("tell, suppress", TELL_SUPPRESS),
    ("tell, repeat", TELL_REPEAT),
    ("compete", COMPETE),
    ("supersede", SUPERSEDE),
    ("failure", FAILURE),
];
