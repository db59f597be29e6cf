//! Whole calls over a network that loses, delays, repeats and reorders, in virtual time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::random::Random;
use super::rig::{Caller, OFFER, Rig, header, local_media, status};
use crate::surface::sip::{Command, EndCause, Event};

/// A datagram on its way.
enum Flight {
    ToBox(String),
    ToPhone(String),
}

/// The far end: repeats its requests as RFC 3261 asks, acknowledges every 200, hangs up after a second.
struct Phone {
    caller: Caller,
    /// The request that awaits its final response, when to repeat it, and the interval.
    pending: Option<(String, Instant, Duration)>,
    acknowledgement: Option<String>,
    hang_up_at: Option<Instant>,
    done: bool,
}

struct World {
    rig: Rig,
    phone: Phone,
    random: Random,
    flights: BTreeMap<(Instant, u64), Flight>,
    sequence: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rig = Rig::new();
        let mut caller = Caller::new("c1");
        let invite = caller.invite(OFFER);
        let pending = Some((invite, rig.now, T1 / 2));
        let phone = Phone { caller, pending, acknowledgement: None, hang_up_at: None, done: false };
        rig.now += Duration::from_secs(1);
        Self { rig, phone, random: Random::new(seed), flights: BTreeMap::new(), sequence: 0 }
    }

    /// 15 % are lost, 5 % come twice; each takes 1 to 250 ms, so they overtake each other.
    fn launch(&mut self, datagram: &str, to_box: bool) {
        let copies = match self.random.below(100) {
            0..15 => 0,
            15..20 => 2,
            _ => 1,
        };
        for _ in 0..copies {
            let delay = u64::try_from(1 + self.random.below(250)).expect("small");
            self.sequence += 1;
            let flight = if to_box { Flight::ToBox(datagram.into()) } else { Flight::ToPhone(datagram.into()) };
            self.flights.insert((self.rig.now + Duration::from_millis(delay), self.sequence), flight);
        }
    }

    fn send_from_box(&mut self, datagrams: Vec<String>) {
        for datagram in datagrams {
            self.launch(&datagram, false);
        }
    }

    /// Until the phone is done and nothing runs any more.
    fn run(&mut self) {
        let mut told = 0;
        loop {
            let phone_at = [self.phone.pending.as_ref().map(|(_, at, _)| *at), self.phone.hang_up_at];
            let box_at = self.rig.endpoint.deadline();
            let flight_at = self.flights.first_key_value().map(|((at, _), _)| *at);
            let Some(next) = phone_at.into_iter().chain([box_at, flight_at]).flatten().min() else {
                return;
            };
            self.rig.now = self.rig.now.max(next);
            if flight_at == Some(next) {
                self.land();
            } else if box_at == Some(next) {
                self.rig.endpoint.wake(self.rig.now);
                let sent = self.rig.drain();
                self.send_from_box(sent);
            } else {
                self.phone_acts();
            }
            // The application accepts at once.
            if let Some(Event::Incoming(incoming)) = self.rig.events.get(told) {
                let call = incoming.call;
                let sent = self.rig.command(Command::Accept { call, local: local_media() });
                self.send_from_box(sent);
            }
            told = self.rig.events.len();
        }
    }

    fn land(&mut self) {
        match self.flights.pop_first() {
            Some((_, Flight::ToBox(datagram))) => {
                let sent = self.rig.receive(&datagram);
                self.send_from_box(sent);
            }
            Some((_, Flight::ToPhone(datagram))) => self.phone_hears(&datagram),
            None => {}
        }
    }

    fn phone_acts(&mut self) {
        let now = self.rig.now;
        if self.phone.hang_up_at.is_some_and(|at| at <= now) {
            self.phone.hang_up_at = None;
            let bye = self.phone.caller.next("BYE", "");
            self.phone.pending = Some((bye, now, T1 / 2));
        }
        if let Some((request, at, interval)) = &mut self.phone.pending {
            *interval = (*interval * 2).min(T1 * 8);
            *at = now + *interval;
            let request = request.clone();
            self.launch(&request, true);
        }
    }

    fn phone_hears(&mut self, message: &str) {
        if message.starts_with("BYE ") {
            // Our BYE crossed the phone's, or followed an ACK that never came: 200, and it is over.
            let answer = super::rig::answer(message, 200);
            self.launch(&answer, true);
            self.phone.pending = None;
            self.phone.hang_up_at = None;
            self.phone.done = true;
            return;
        }
        match (status(message), header(message, "CSeq")) {
            (200, "1 INVITE") => {
                if self.phone.acknowledgement.is_none() {
                    self.phone.caller.learn(message);
                    self.phone.acknowledgement = Some(self.phone.caller.ack(""));
                    self.phone.pending = None;
                    self.phone.hang_up_at = Some(self.rig.now + Duration::from_secs(1));
                }
                let acknowledgement = self.phone.acknowledgement.clone().expect("made above");
                self.launch(&acknowledgement, true);
            }
            // 481: the box had ended it already.
            (200 | 481, "2 BYE") => {
                self.phone.pending = None;
                self.phone.done = true;
            }
            (100..200, _) => {}
            other => panic!("{other:?}: {message}"),
        }
    }
}

#[test]
fn every_call_over_a_lossy_network_begins_and_ends_exactly_once() {
    let mut by_caller = 0;
    for seed in 1..=CALLS {
        let mut world = World::new(seed);
        world.run();
        let events = &world.rig.events;
        assert!(world.phone.done, "seed {seed}: the phone has its answer");
        assert!(matches!(events.first(), Some(Event::Incoming(_))), "seed {seed}: {events:?}");
        assert!(matches!(events.last(), Some(Event::Ended { .. })), "seed {seed}: {events:?}");
        let count = |wanted: fn(&Event) -> bool| events.iter().filter(|event| wanted(event)).count();
        assert_eq!(count(|event| matches!(event, Event::Incoming(_))), 1, "seed {seed}: {events:?}");
        assert_eq!(count(|event| matches!(event, Event::Ended { .. })), 1, "seed {seed}: {events:?}");
        assert!(count(|event| matches!(event, Event::Established { .. })) <= 1, "seed {seed}: {events:?}");
        by_caller += count(|event| matches!(event, Event::Ended { cause: EndCause::Bye, .. }));
        assert_eq!((world.rig.endpoint.transactions(), world.rig.endpoint.calls_open()), (0, 0), "seed {seed}");
    }
    assert_eq!(by_caller as u64, CALLS, "repetition beats this loss each time");
}

const T1: Duration = Duration::from_millis(500);
const CALLS: u64 = 300;
