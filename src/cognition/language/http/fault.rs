//! Why a request came to nothing.

use std::time::Duration;

use super::super::wire::Unusable;
use crate::outward::bounded_text;

/// Why a request came to nothing, in words without the key, and whether another one may come to something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Why.
    pub reason: String,
    /// Whether to try again.
    pub again: Again,
    /// What it says of the service.
    pub reach: Reach,
}

/// What a fault says of the service that was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// It answers: the fault is of this request alone.
    Answers,
    /// There is no connection to it.
    Unreachable,
    /// It answers, and does what is asked for nobody who asks as this box does: now, or ever.
    Refuses,
    /// It has not answered in time, or not to the end.
    Fails,
}

/// Whether to try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// It would come to the same.
    Never,
    /// A little later.
    Soon,
    /// Not before so long (ms): the service asks for that.
    After(u64),
}

impl Fault {
    /// One of this answer alone, which may go by.
    pub fn passing(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), again: Again::Soon, reach: Reach::Answers }
    }

    /// One that comes of the service taking longer than this.
    pub fn slow(patience: Duration) -> Self {
        Self::failing(format!("the service did not answer within {} ms", patience.as_millis()))
    }

    /// One of the service, which may go by.
    pub fn failing(reason: impl Into<String>) -> Self {
        Self { reach: Reach::Fails, ..Self::passing(reason) }
    }

    /// One that stays.
    pub fn lasting(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), again: Again::Never, reach: Reach::Answers }
    }
}

impl From<Unusable> for Fault {
    fn from(unusable: Unusable) -> Self {
        let reason = bounded_text(&unusable.to_string());
        if unusable.passes() { Self::failing(reason) } else { Self::lasting(reason) }
    }
}
