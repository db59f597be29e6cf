//! What requests have made of a service: one that has failed is believed to work when a request says so, and no look.
//!
//! A service that hangs, or has no room, may still give its list of models at once.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::fault::{Again, Fault, Reach};

/// What is held against a service. All calls share it.
#[derive(Debug, Default)]
pub(super) struct Doubt(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    /// Why it did not do what it was last asked; none where it did, or the request was to blame.
    fault: Option<Fault>,
    /// How often it has failed since it last did what a conversation asked for.
    failures: u32,
    /// Before this it is not tried.
    not_before: Option<Instant>,
    /// Until this, whoever tries it is waited for.
    is_tried_until: Option<Instant>,
}

/// What it takes to find out whether a service works.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// A look.
    Look,
    /// A request, which whoever is told this makes, and says what came of it.
    Request,
    /// Nobody finds out now.
    NotYet(Fault),
}

impl Doubt {
    /// What it takes at `now`.
    pub fn proof(&self, now: Instant) -> Proof {
        let mut held = self.lock();
        let Some(fault) = held.fault.clone() else { return Proof::Look };
        let waits = [held.not_before, held.is_tried_until].into_iter().flatten().max().filter(|until| now < *until);
        if let Some(until) = waits {
            let ms = u64::try_from((until - now).as_millis()).unwrap_or(u64::MAX);
            return Proof::NotYet(Fault { again: Again::After(ms), ..fault });
        }
        held.is_tried_until = Some(now + TRIED_AT_MOST);
        Proof::Request
    }

    /// What came of a request of a conversation.
    pub fn learnt<T>(&self, now: Instant, came_of_it: &Result<T, Fault>) {
        match came_of_it {
            Ok(_) => *self.lock() = Held::default(),
            Err(fault) => self.failed(now, fault),
        }
    }

    /// What came of one that was made to find out. That one works is no proof that the next one of a conversation is answered in time.
    pub fn tried(&self, now: Instant, came_of_it: &Result<(), Fault>) {
        self.lock().is_tried_until = None;
        match came_of_it {
            Ok(()) => self.lock().fault = None,
            Err(fault) => self.failed(now, fault),
        }
    }

    fn failed(&self, now: Instant, fault: &Fault) {
        let mut held = self.lock();
        let asked = match (fault.reach, fault.again) {
            // The request is to blame: the service answers.
            (Reach::Answers, Again::Never) => return held.fault = None,
            // Whether there is a connection, a look finds out.
            (Reach::Answers | Reach::Unreachable, _) if held.fault.is_none() => return,
            (_, Again::Never) => LONGEST_WAIT,
            (_, Again::After(ms)) => Duration::from_millis(ms).min(ASKED_MAX),
            (_, Again::Soon) => Duration::ZERO,
        };
        // What a conversation asks for again meanwhile fails for the same reason.
        if held.not_before.is_none_or(|not_before| now >= not_before) {
            held.failures = held.failures.saturating_add(1);
        }
        let doubled = FIRST_WAIT.saturating_mul(1 << held.failures.saturating_sub(1).min(DOUBLINGS_MAX));
        held.not_before = Some(now + doubled.max(asked));
        held.fault = Some(fault.clone());
    }

    /// Nothing that holds the lock can leave it half changed.
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A hiccup is over by the next turn.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Up to [`LONGEST_WAIT`]: a service that is too slow costs a caller their patience no oftener.
const DOUBLINGS_MAX: u32 = 6;
/// Whoever mends a key is in no hurry.
const LONGEST_WAIT: Duration = Duration::from_secs(64);
/// A service that asks for more is asked again all the same: it may not mean it.
const ASKED_MAX: Duration = Duration::from_secs(300);
/// No caller has the patience for a longer request. One that is given up says so; one that ends with its call does not.
const TRIED_AT_MOST: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(reach: Reach, again: Again) -> Result<(), Fault> {
        Err(Fault { reason: "oh".into(), again, reach })
    }

    /// How long nobody finds out (ms); none where somebody does by a request.
    fn waits(doubt: &Doubt, now: Instant) -> Option<u64> {
        match doubt.proof(now) {
            Proof::NotYet(Fault { again: Again::After(ms), .. }) => Some(ms),
            Proof::Request => None,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_service_that_fails_is_tried_by_one_request_at_a_time_with_longer_and_longer_waits() {
        let (doubt, mut now) = (Doubt::default(), Instant::now());
        assert_eq!(doubt.proof(now), Proof::Look);
        for reach in [Reach::Answers, Reach::Unreachable] {
            doubt.learnt(now, &fault(reach, Again::Soon));
            assert_eq!(doubt.proof(now), Proof::Look, "{reach:?}");
        }
        for wait_ms in [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 64_000] {
            doubt.learnt(now, &fault(Reach::Fails, Again::Soon));
            assert_eq!(waits(&doubt, now), Some(wait_ms));
            now += Duration::from_millis(wait_ms);
            assert_eq!(waits(&doubt, now), None);
            assert_eq!(waits(&doubt, now), Some(5_000), "somebody does");
            doubt.tried(now, &Ok(()));
            assert_eq!(doubt.proof(now), Proof::Look);
        }
        doubt.learnt(now, &Ok(()));
        doubt.learnt(now, &fault(Reach::Fails, Again::Soon));
        assert_eq!(waits(&doubt, now), Some(1_000), "it has done what it was asked");
        now += FIRST_WAIT;
        assert_eq!(waits(&doubt, now), None);
        now += TRIED_AT_MOST;
        assert_eq!(waits(&doubt, now), None, "whoever has tried it is gone");
    }

    #[test]
    fn what_a_service_asks_for_is_kept_to_and_tries_that_follow_each_other_count_as_one() {
        let (doubt, now) = (Doubt::default(), Instant::now());
        for (again, wait_ms) in
            [(Again::After(20_000), 20_000), (Again::After(u64::MAX), 300_000), (Again::Never, 64_000), (Again::Soon, 1_000)]
        {
            doubt.learnt(now, &fault(Reach::Refuses, again));
            assert_eq!(waits(&doubt, now), Some(wait_ms), "{again:?}");
        }
        let now = now + FIRST_WAIT;
        doubt.tried(now, &fault(Reach::Refuses, Again::Soon));
        assert_eq!(waits(&doubt, now), Some(2_000));
        doubt.learnt(now, &fault(Reach::Answers, Again::Never));
        assert_eq!(doubt.proof(now), Proof::Look, "the request was to blame");
    }
}
