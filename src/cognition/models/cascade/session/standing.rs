//! How the parts stand: which of them can't be asked, and when it is looked at again.

use std::time::Duration;

use recado_core::Time;

use super::asking::Retry;
use super::{Action, Part, Session};
use crate::cognition::language::http::{Again, Fault, Reach};
use crate::cognition::models::port::Availability;
use crate::cognition::models::transport::Backoff;

/// How the parts stand.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// Those that can't be asked.
    away: Vec<Away>,
}

#[derive(Debug)]
struct Away {
    part: Part,
    reason: String,
    /// When it is looked at; none while that is under way.
    look_at: Option<Time>,
    backoff: Backoff,
}

impl Standing {
    /// Those that are known to be away before a call has asked them anything, and why: they are looked at at once.
    pub fn of_known(away: impl IntoIterator<Item = (Part, String)>) -> Self {
        let at_once = |(part, reason)| Away { part, reason, look_at: Some(Time(0)), backoff: Backoff::default() };
        Self { away: away.into_iter().map(at_once).collect() }
    }

    /// Whether nothing can be answered.
    pub fn is_away(&self) -> bool {
        !self.away.is_empty()
    }

    /// When the next look is due.
    pub fn deadline(&self) -> Option<Time> {
        self.away.iter().filter_map(|away| away.look_at).min()
    }

    /// How all of them stand together.
    pub fn whole(&self) -> Availability {
        availability(self.away.first())
    }

    fn of(&self, part: Part) -> Availability {
        availability(self.away.iter().find(|away| away.part == part))
    }
}

impl Session {
    /// A request has failed. Its part is away where there is no connection to it, and where it is to blame and not asked again.
    pub(super) fn trouble(&mut self, now: Time, part: Part, fault: &Fault, retry: Retry) {
        self.act(Action::Trouble { part, reason: fault.reason.clone(), again_in_ms: retry.in_ms() });
        let away = match fault.reach {
            Reach::Answers => false,
            Reach::Unreachable => true,
            Reach::Refuses | Reach::Fails => retry == Retry::Never,
        };
        if away {
            self.is_away(now, part, fault);
        }
    }

    /// Nobody waits any longer for what this part was asked: it is away until a request works.
    pub(super) fn give_up(&mut self, now: Time, part: Part) {
        let fault = Fault::slow(Duration::from_millis(self.setup.patience_ms));
        self.act(Action::Trouble { part, reason: fault.reason.clone(), again_in_ms: None });
        self.is_away(now, part, &fault);
        self.act(Action::GaveUp { part, fault });
    }

    fn is_away(&mut self, now: Time, part: Part, fault: &Fault) {
        self.stands(part, |away| {
            if !away.iter().any(|away| away.part == part) {
                let mut backoff = Backoff::default();
                let look_at = Some(now.plus(wait_ms(&mut backoff, fault)));
                away.push(Away { part, reason: fault.reason.clone(), look_at, backoff });
            }
        });
    }

    /// A request has come to something.
    pub(super) fn works(&mut self, part: Part) {
        self.stands(part, |away| away.retain(|away| away.part != part));
    }

    /// What a look has found.
    pub(super) fn looked(&mut self, now: Time, part: Part, result: Result<(), Fault>) {
        match (result, self.standing.away.iter_mut().find(|away| away.part == part)) {
            (Ok(()), _) => self.works(part),
            (Err(fault), Some(away)) => away.look_at = Some(now.plus(wait_ms(&mut away.backoff, &fault))),
            // A request has come to something meanwhile.
            (Err(_), None) => {}
        }
    }

    /// Has the parts looked at that it is time for.
    pub(super) fn advance_looks(&mut self, now: Time) {
        let due = |away: &mut Away| away.look_at.take_if(|at| now >= *at).map(|_| Action::Look(away.part));
        self.actions.extend(self.standing.away.iter_mut().filter_map(due));
    }

    /// Says what changes with this.
    fn stands(&mut self, part: Part, change: impl FnOnce(&mut Vec<Away>)) {
        let (stood, whole) = (self.standing.of(part), self.standing.whole());
        change(&mut self.standing.away);
        let (stands, now) = (self.standing.of(part), self.standing.whole());
        if stands != stood {
            self.act(Action::Stands { part, availability: stands });
        }
        if now != whole {
            self.act(Action::Available(now));
        }
    }
}

fn availability(away: Option<&Away>) -> Availability {
    away.map_or(Availability::Ready, |away| Availability::Away { reason: away.reason.clone() })
}

/// How long until the next look, and no less than the service asked for.
fn wait_ms(backoff: &mut Backoff, fault: &Fault) -> u64 {
    let asked = match fault.again {
        Again::After(ms) => Some(Duration::from_millis(ms)),
        Again::Soon | Again::Never => None,
    };
    u64::try_from(backoff.next(asked).as_millis()).unwrap_or(u64::MAX)
}
