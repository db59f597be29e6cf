//! How the parts stand: which of them can't be asked, and when it is looked at again.

use recado_core::Time;

use super::asking::Retry;
use super::{Action, Part, Session};
use crate::cognition::models::cascade::http::{Again, Fault, Reach};
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
    looks: Looks,
    backoff: Backoff,
}

/// When a part that is away is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Looks {
    /// Not at all: it refuses for good, which no look finds out.
    Never,
    At(Time),
    UnderWay,
}

impl Standing {
    /// Whether nothing can be answered.
    pub fn is_away(&self) -> bool {
        !self.away.is_empty()
    }

    /// When the next look is due.
    pub fn deadline(&self) -> Option<Time> {
        let due = |away: &Away| match away.looks {
            Looks::At(at) => Some(at),
            Looks::Never | Looks::UnderWay => None,
        };
        self.away.iter().filter_map(due).min()
    }

    fn of(&self, part: Part) -> Availability {
        availability(self.away.iter().find(|away| away.part == part))
    }

    fn whole(&self) -> Availability {
        availability(self.away.first())
    }
}

impl Session {
    /// A request has failed. Its part is away where there is no connection to it, and where it refuses and is not asked again.
    pub(super) fn trouble(&mut self, now: Time, part: Part, fault: &Fault, retry: Retry) {
        self.act(Action::Trouble { part, reason: fault.reason.clone(), again_in_ms: retry.in_ms() });
        let away = match fault.reach {
            Reach::Answers => false,
            Reach::Unreachable => true,
            Reach::Refuses => retry == Retry::Never,
        };
        if away {
            self.stands(part, |away| {
                let refuses = (fault.reach, fault.again) == (Reach::Refuses, Again::Never);
                match away.iter_mut().find(|away| away.part == part) {
                    Some(away) if refuses => away.looks = Looks::Never,
                    Some(_) => {}
                    None => {
                        let mut backoff = Backoff::default();
                        let looks = if refuses { Looks::Never } else { Looks::At(now.plus(wait_ms(&mut backoff))) };
                        away.push(Away { part, reason: fault.reason.clone(), looks, backoff });
                    }
                }
            });
        }
    }

    /// A request has come to something.
    pub(super) fn works(&mut self, part: Part) {
        self.stands(part, |away| away.retain(|away| away.part != part));
    }

    /// What a look has found.
    pub(super) fn looked(&mut self, now: Time, part: Part, result: Result<(), Fault>) {
        let looks_again = |away: &&mut Away| away.part == part && away.looks == Looks::UnderWay;
        match (result, self.standing.away.iter_mut().find(looks_again)) {
            (Ok(()), _) => self.works(part),
            (Err(fault), Some(away)) if fault.again == Again::Never => away.looks = Looks::Never,
            (Err(_), Some(away)) => away.looks = Looks::At(now.plus(wait_ms(&mut away.backoff))),
            // It refuses for good since.
            (Err(_), None) => {}
        }
    }

    /// Has the parts looked at that it is time for.
    pub(super) fn advance_looks(&mut self, now: Time) {
        let mut due = Vec::new();
        for away in &mut self.standing.away {
            if matches!(away.looks, Looks::At(at) if now >= at) {
                away.looks = Looks::UnderWay;
                due.push(Action::Look(away.part));
            }
        }
        self.actions.extend(due);
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

fn wait_ms(backoff: &mut Backoff) -> u64 {
    u64::try_from(backoff.next(None).as_millis()).unwrap_or(u64::MAX)
}
