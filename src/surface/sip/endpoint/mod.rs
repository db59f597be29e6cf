//! The endpoint: the sans-IO face of the SIP side.
//!
//! # Loop contract
//! **One input, drain the outputs, then the next.** An input is [`Endpoint::receive`], [`Endpoint::command`],
//! [`Endpoint::wake`] or [`Endpoint::transmit_failed`]; outputs are drained with [`Endpoint::poll`] until it gives `None`; then
//! [`Endpoint::deadline`] says when to [`Endpoint::wake`]. Debug builds assert it. Outputs are in order: a datagram that comes
//! before an event was decided before it. The outputs of one input are bounded: a handful, or for `Shutdown` and a
//! failed transmission a few for each call.
//!
//! Requests of one dialog are handled strictly in the order of their arrival, each to its end, which is why a re-INVITE directly
//! behind an ACK finds the call established.
//!
//! # Overload
//! Above `transactions_per_source_max` the source's requests are dropped in silence; above `transactions_max` a request
//! is answered 503 with `Retry-After` and without state. Requests within a dialog, and CANCEL, have a reserve above both, so calls can always
//! be ended. Sources that are not allowed get 403 without state. All of it is counted.

mod command;
mod config;
mod event;
mod in_dialog;
mod local;
mod requests;

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::Instant;

pub use command::{Admission, CallHandle, Command};
pub use config::{EndpointConfig, Users};
pub use event::{Counters, EndCause, Event, Incoming, Output, Party};

use super::dialog::{Call, CallState, DialogKey};
use super::error::SipError;
use super::message::{self, Headers, Message, Rejection, Reply, Response, name};
use super::timer::{Timer, Timers};
use super::token::{Seed, Tokens};
use super::transaction::{Caps, ClientTransactions, Intervals, ServerTransactions, TransactionId};

/// A SIP user agent server over UDP, without I/O, clock and randomness of its own.
#[derive(Debug)]
pub struct Endpoint {
    config: EndpointConfig,
    intervals: Intervals,
    tokens: Tokens,
    timers: Timers,
    servers: ServerTransactions,
    clients: ClientTransactions,
    calls: HashMap<CallHandle, Call>,
    dialogs: HashMap<DialogKey, CallHandle>,
    /// INVITEs without a final response, for CANCEL.
    invites: HashMap<TransactionId, CallHandle>,
    /// BYEs of ours without a final response.
    byes: HashMap<TransactionId, CallHandle>,
    admission: Admission,
    outputs: VecDeque<Output>,
    counters: Counters,
    last_id: u64,
}

impl Endpoint {
    /// An endpoint without calls. `seed` is fresh randomness: tags and branches that others could guess would let them
    /// end calls.
    ///
    /// # Errors
    /// [`SipError::BadAdvertisedAddress`].
    pub fn new(config: EndpointConfig, seed: Seed) -> Result<Self, SipError> {
        config.check()?;
        let intervals = Intervals { t1: config.t1, t2: config.t2, t4: config.t4 };
        let caps = Caps { total: config.transactions_max, per_source: config.transactions_per_source_max };
        Ok(Self {
            intervals,
            tokens: Tokens::new(seed),
            timers: Timers::default(),
            servers: ServerTransactions::new(caps, intervals),
            clients: ClientTransactions::new(intervals),
            calls: HashMap::new(),
            dialogs: HashMap::new(),
            invites: HashMap::new(),
            byes: HashMap::new(),
            admission: config.admission,
            outputs: VecDeque::new(),
            counters: Counters::default(),
            last_id: 0,
            config,
        })
    }

    /// Input: a datagram from the SIP socket.
    pub fn receive(&mut self, now: Instant, datagram: &[u8], source: SocketAddr) {
        self.assert_drained();
        self.counters.datagrams += 1;
        match message::parse(datagram) {
            Ok(Message::Request(request)) => self.receive_request(now, &request, source),
            Ok(Message::Response(response)) => self.receive_response(now, &response),
            Ok(Message::KeepAlive) => {}
            Err(rejection) => self.reject_malformed(rejection, source),
        }
    }

    /// Input: a command of the application.
    ///
    /// # Errors
    /// [`SipError::UnknownCall`] and [`SipError::WrongState`], which a race with the far end makes normal: the event that tells
    /// why is on its way or was.
    pub fn command(&mut self, now: Instant, command: Command) -> Result<(), SipError> {
        self.assert_drained();
        match command {
            Command::Ring { call } => self.ring(now, call),
            Command::Accept { call, local } => self.accept(now, call, local),
            Command::Reject { call, status } => self.reject(now, call, status),
            Command::Bye { call } => self.bye(now, call),
            Command::SetAdmission(admission) => {
                self.admission = admission;
                Ok(())
            }
            Command::Shutdown => {
                self.shut_down(now);
                Ok(())
            }
        }
    }

    /// Input: time has passed. Handles one timer that is due; more may be: see [`Endpoint::deadline`].
    pub fn wake(&mut self, now: Instant) {
        self.assert_drained();
        let Some(timer) = self.timers.pop_due(now) else {
            return;
        };
        let again = match timer {
            Timer::G(id) => self.servers.retransmit(now, &mut self.timers, id),
            Timer::E(id) => self.clients.retransmit(now, &mut self.timers, id),
            Timer::H(id) | Timer::I(id) | Timer::J(id) | Timer::L(id) => {
                self.servers.end(&mut self.timers, id);
                None
            }
            Timer::F(id) | Timer::K(id) => {
                self.clients.end(&mut self.timers, id);
                self.bye_done(id);
                None
            }
            Timer::AcceptRetransmit(call) => return self.retransmit_accept(now, call),
            Timer::AcceptTimeout(call) => return self.accept_timed_out(now, call),
            Timer::Unanswered(call) => return self.unanswered(now, call),
        };
        if let Some((datagram, destination)) = again {
            self.outputs.push_back(Output::Transmit { datagram: datagram.to_vec(), destination });
        }
    }

    /// Input: a datagram for `destination` could not be sent. Ends the calls whose answer it was and gives up BYEs; calls
    /// that are up stay (RFC 3261 section 17.2.4).
    pub fn transmit_failed(&mut self, destination: SocketAddr) {
        self.assert_drained();
        for id in self.clients.awaiting(destination) {
            self.clients.end(&mut self.timers, id);
            self.bye_done(id);
        }
        let mut unanswerable: Vec<CallHandle> = self
            .calls
            .iter()
            .filter(|(_, call)| call.state == CallState::Accepted)
            .filter(|(_, call)| call.accepted.as_ref().is_some_and(|accepted| accepted.destination == destination))
            .map(|(handle, _)| *handle)
            .collect();
        // In order, so that the same inputs give the same outputs.
        unanswerable.sort_unstable();
        for handle in unanswerable {
            self.end(handle, EndCause::TransportError);
            self.forget(handle);
        }
    }

    /// When to [`Endpoint::wake`].
    pub fn deadline(&self) -> Option<Instant> {
        self.timers.next_due()
    }

    /// The next output of the last input.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Calls that are not over.
    pub fn calls_open(&self) -> usize {
        self.calls.values().filter(|call| call.state != CallState::Ending).count()
    }

    /// Server transactions that are kept.
    pub fn transactions(&self) -> usize {
        self.servers.len()
    }

    /// BYEs of ours that await their answer.
    pub fn byes_pending(&self) -> usize {
        self.clients.awaiting_count()
    }

    /// Counts so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    fn receive_response(&mut self, now: Instant, response: &Response) {
        match self.clients.receive(now, &mut self.timers, response) {
            // Whatever the answer to our BYE is, 481 included: the dialog is over.
            Some(id) => self.bye_done(id),
            None => self.counters.unmatched += 1,
        }
    }

    fn reject_malformed(&mut self, rejection: Rejection, source: SocketAddr) {
        tracing::debug!(%source, reason = rejection.reason, "malformed SIP message");
        match rejection.answerable {
            Some(headers) if self.is_allowed(source) => {
                self.counters.malformed_answered += 1;
                let reply = Reply::from_headers(&headers, source);
                let tag = self.tokens.fixed(headers.first(name::CALL_ID).unwrap_or_default());
                self.answer_statelessly(&reply, rejection.status, rejection.reason, &tag, Headers::default());
            }
            _ => self.counters.malformed_dropped += 1,
        }
    }

    fn is_allowed(&self, source: SocketAddr) -> bool {
        self.config.allowed_sources.iter().any(|network| network.contains(source.ip()))
    }

    /// Answers without keeping anything: the same request gets the same answer again.
    fn answer_statelessly(&mut self, reply: &Reply, status: u16, reason: &str, tag: &str, mut extra: Headers) {
        extra.push(name::SERVER, self.config.product.as_str());
        let datagram = reply.print(status, reason, tag, &extra, &[]);
        self.outputs.push_back(Output::Transmit { datagram, destination: reply.destination });
    }

    /// Answers within a transaction.
    fn respond(&mut self, now: Instant, id: TransactionId, reply: &Reply, answer: Answer<'_>) -> Vec<u8> {
        let mut extra = answer.extra;
        extra.push(name::SERVER, self.config.product.as_str());
        let datagram = reply.print(answer.status, "", answer.tag, &extra, answer.body);
        if self.servers.respond(now, &mut self.timers, id, answer.status, &datagram) {
            self.outputs.push_back(Output::Transmit { datagram: datagram.clone(), destination: reply.destination });
        }
        datagram
    }

    fn tell(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    fn contact(&self) -> String {
        format!("<sip:{}>", self.config.advertised)
    }

    fn fresh_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn assert_drained(&self) {
        debug_assert!(self.outputs.is_empty(), "loop contract: drain the outputs before the next input");
    }
}

/// An answer within a transaction.
struct Answer<'a> {
    status: u16,
    /// Our tag, for a To without one.
    tag: &'a str,
    extra: Headers,
    body: &'a [u8],
}

impl<'a> Answer<'a> {
    fn status(status: u16, tag: &'a str) -> Self {
        Self { status, tag, extra: Headers::default(), body: &[] }
    }

    fn with(mut self, name: &'static str, value: impl Into<Vec<u8>>) -> Self {
        self.extra.push(name, value);
        self
    }
}

/// What we serve, for Allow.
const ALLOW: &str = "INVITE, ACK, CANCEL, BYE, OPTIONS, INFO, UPDATE, NOTIFY";

/// What we read, for Accept.
const ACCEPT: &str = "application/sdp";
