//! Responses in the conversation: one at a time is asked for; others wait.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use recado_core::conversation::input::ModelEvent;
use recado_core::{ResponseId, Time};

use super::outbox::About;
use super::speech::Spoken;
use super::{Said, Session, State};
use crate::cognition::models::notes;
use crate::cognition::models::realtime::wire::{CallFacts, ClientBody, Item, ItemFacts, ResponseFacts, ResponseSettings};

#[derive(Debug, Default)]
pub(super) struct Generation {
    waiting: VecDeque<Request>,
    active: Option<Active>,
    /// Whether the service gives back what is told it with a request: a response that is not named is then nobody's here.
    names_responses: bool,
    /// A response that nobody here asked for is under way: nothing is asked for until it ends, or then.
    busy_until: Option<Time>,
}

#[derive(Debug)]
struct Request {
    response: ResponseId,
    /// What the model is told before.
    note: Option<Item>,
    turn: Turn,
    /// How often it was asked for and found another one under way.
    found_busy: u32,
    /// How often the model called something that can't be taken.
    corrections: u32,
}

/// What a response answers of the caller's speech.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// Nothing.
    None,
    /// An item is to be made of it, as soon as there is a connection.
    ToCommit,
    /// The service is about to make an item of it.
    Awaited { until: Time },
    /// This connection has it as an item.
    Committed { connection: u64 },
}

/// The response that is under way.
#[derive(Debug)]
pub(super) struct Active {
    pub response: ResponseId,
    request: Request,
    /// The event that asked for it.
    asked_by: String,
    /// The service's name for it, once it has one.
    id: Option<String>,
    /// Cancelled; until then the service may say so.
    cancelled: Option<Time>,
    /// The functions that its items call, by item.
    pub functions: BTreeMap<String, String>,
    /// The calls that were taken or refused.
    pub calls: BTreeSet<String>,
    /// Why a call of it could not be taken.
    pub refused_call: Option<String>,
}

impl Generation {
    pub fn deadline(&self) -> Option<Time> {
        let next = match (&self.active, self.waiting.front()) {
            (Some(active), _) => return active.cancelled,
            (None, Some(request)) => request,
            (None, None) => return None,
        };
        match next.turn {
            _ if self.busy_until.is_some() => self.busy_until,
            Turn::Awaited { until } => Some(until),
            _ => None,
        }
    }

    /// The response under way, where it has this name and is still wanted.
    pub fn heard_of(&mut self, response_id: &str) -> Option<&mut Active> {
        self.active_as(response_id).filter(|active| !active.is_cancelled())
    }

    /// The response under way, where it has this name.
    pub fn active_as(&mut self, response_id: &str) -> Option<&mut Active> {
        self.active.as_mut().filter(|active| active.id.as_deref() == Some(response_id))
    }

    /// The service has made an item of what it heard.
    pub fn committed(&mut self, connection: u64) {
        self.awaited_becomes(Turn::Committed { connection });
    }

    /// The connection is gone, and what the service was about to make an item of is sent on the next one.
    pub fn begin_connection(&mut self) {
        self.awaited_becomes(Turn::ToCommit);
        self.busy_until = None;
        self.names_responses = false;
    }

    fn awaited_becomes(&mut self, turn: Turn) {
        for request in &mut self.waiting {
            if matches!(request.turn, Turn::Awaited { .. }) {
                request.turn = turn;
            }
        }
    }

    /// All that wait, which wait no longer.
    pub fn drain(&mut self) -> impl Iterator<Item = ResponseId> + use<> {
        std::mem::take(&mut self.waiting).into_iter().map(|request| request.response)
    }

    fn is_idle(&self) -> bool {
        self.active.is_none() && self.waiting.is_empty() && self.busy_until.is_none()
    }
}

impl Active {
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.is_some()
    }
}

impl Session {
    pub(super) fn respond(&mut self, now: Time, response: ResponseId, note: Option<notes::Note>, answers_turn: bool) {
        if let State::Gone { reason } = &self.state {
            let reason = reason.clone();
            return self.failed(response, &reason);
        }
        if self.generation.waiting.len() == WAITING_MAX {
            return self.failed(response, "too many responses are asked for at a time");
        }
        let note = note.map(|note| {
            let item = Item::message(note.role, note.text);
            if note.of_history {
                self.memory.note(item.clone());
            }
            item
        });
        let turn = match answers_turn {
            false => Turn::None,
            true if !self.ready() => Turn::ToCommit,
            true if self.caller.awaits_service() => Turn::Awaited { until: now.plus(SERVICE_TURN_MS) },
            true if self.caller.service_detects() => Turn::Committed { connection: self.connection },
            true => self.commit(),
        };
        if answers_turn {
            self.caller.turn_ended();
        }
        self.generation.waiting.push_back(Request { response, note, turn, found_busy: 0, corrections: 0 });
    }

    /// Makes an item of what the caller said.
    fn commit(&mut self) -> Turn {
        self.send_caller_audio();
        let enough = self.caller.can_commit();
        self.caller.committed();
        if !enough {
            return Turn::None;
        }
        self.outbox.send(About::Other, ClientBody::AudioCommit);
        Turn::Committed { connection: self.connection }
    }

    /// Asks for the next response, where that can be done; or for a new connection, where nothing is under way and one is due.
    pub(super) fn advance(&mut self, now: Time) {
        if !self.ready() {
            return;
        }
        if self.generation.busy_until.is_some_and(|until| now >= until) {
            self.generation.busy_until = None;
        }
        while self.generation.active.is_none() && self.generation.busy_until.is_none() {
            let Some(request) = self.generation.waiting.front() else { break };
            let turn = match request.turn {
                Turn::Awaited { until } if now < until => return,
                Turn::Awaited { .. } | Turn::ToCommit => self.commit(),
                turn => turn,
            };
            let Some(mut request) = self.generation.waiting.pop_front() else { break };
            request.turn = turn;
            match turn {
                Turn::Committed { connection } if connection != self.connection => {
                    self.failed(request.response, "what the caller said was lost with the connection to the service");
                }
                _ => self.create(request),
            }
        }
        if self.renewal_due && self.generation.is_idle() && self.renders.is_empty() && self.caller.is_idle() {
            self.reconnect("the session is near its limit");
        }
    }

    fn create(&mut self, mut request: Request) {
        self.answer_open_calls();
        if let Some(item) = request.note.take() {
            self.outbox.send(About::Other, ClientBody::ItemCreate { item });
        }
        let response = ResponseSettings { metadata: [(METADATA, request.response.to_string())].into(), ..ResponseSettings::default() };
        let asked_by = self.outbox.send(About::Create, ClientBody::ResponseCreate { response });
        self.generation.active = Some(Active {
            response: request.response,
            request,
            asked_by,
            id: None,
            cancelled: None,
            functions: BTreeMap::new(),
            calls: BTreeSet::new(),
            refused_call: None,
        });
    }

    pub(super) fn cancel(&mut self, now: Time, response: ResponseId) {
        self.generation.waiting.retain(|request| request.response != response);
        let Some(active) = self.generation.active.as_mut() else { return };
        if active.response == response && active.cancelled.is_none() {
            active.cancelled = Some(now.plus(CANCEL_MS_MAX));
            let response_id = active.id.clone();
            self.outbox.send(About::Cancel, ClientBody::ResponseCancel { response_id });
        }
    }

    pub(super) fn response_created(&mut self, response: ResponseFacts) {
        if self.renders.created(&response) {
            return;
        }
        let named: Option<ResponseId> = response.metadata.get(METADATA).and_then(|name| name.parse().ok());
        self.generation.names_responses |= named.is_some();
        let may_be_unnamed = !self.generation.names_responses;
        match self.generation.active.as_mut() {
            Some(active) if active.id.is_none() && named.map_or(may_be_unnamed, |named| named == active.response) => {
                active.id = Some(response.id.clone());
                let (of, wanted) = (active.response, active.cancelled.is_none());
                if wanted && self.spoken.back().is_none_or(|spoken| spoken.response != of) {
                    if self.spoken.len() == SPOKEN_MAX {
                        self.spoken.pop_front();
                    }
                    self.spoken.push_back(Spoken::new(of));
                }
            }
            // One that was cancelled before it began: the cancel found nothing to cancel then.
            _ if named.is_some() => {
                self.outbox.send(About::Cancel, ClientBody::ResponseCancel { response_id: Some(response.id) });
            }
            _ => {}
        }
    }

    pub(super) fn item_added(&mut self, response_id: &str, item: ItemFacts) {
        if let (Some(active), Some(name)) = (self.generation.active_as(response_id), item.name)
            && active.functions.len() < FUNCTIONS_MAX
        {
            active.functions.insert(item.id, name);
        }
    }

    pub(super) fn item_done(&mut self, response_id: &str, item: ItemFacts) {
        if item.kind == "function_call" {
            if item.status.as_deref() == Some("incomplete") {
                return;
            }
            let ItemFacts { id, call_id, name, arguments, .. } = item;
            self.call(response_id, CallFacts { item_id: id, call_id, name, arguments: arguments.unwrap_or_default() });
        } else {
            let words = item.content.iter().find_map(|part| part.transcript.as_deref());
            self.words_complete(response_id, &item.id, words);
        }
    }

    pub(super) fn response_done(&mut self, response: ResponseFacts) {
        if let Some(usage) = response.usage {
            self.usage.add(usage);
        }
        if self.renders.done(&response, &mut self.outbox) {
            return;
        }
        // Whoever's it was, another one can be asked for now.
        self.generation.busy_until = None;
        let ours = |active: &mut Active| active.id.as_ref() == Some(&response.id);
        let Some(active) = self.generation.active.take_if(ours) else { return };
        if active.cancelled.is_some() {
            let confirmed = response.status.as_deref() == Some("cancelled");
            return self.outbox.say(Said::Cancelled { response: active.response, confirmed });
        }
        self.speech_ended(active.response);
        match (response.failure(), active.refused_call) {
            (Some(reason), _) => self.failed(active.response, &reason),
            (None, None) => self.say_event(ModelEvent::Complete { response: active.response }),
            (None, Some(_)) if active.request.corrections < CORRECTIONS_MAX => {
                let corrections = active.request.corrections + 1;
                self.generation.waiting.push_front(Request { corrections, ..active.request });
            }
            (None, Some(reason)) => {
                self.failed(active.response, &format!("the model called a function in a way that can't be taken: {reason}"));
            }
        }
    }

    /// The response that is under way, or asked for, can't be given.
    pub(super) fn fail_active(&mut self, reason: &str) {
        match self.generation.active.take() {
            Some(active) if active.cancelled.is_some() => {
                self.outbox.say(Said::Cancelled { response: active.response, confirmed: false });
            }
            Some(active) => {
                self.speech_ended(active.response);
                self.failed(active.response, reason);
            }
            None => {}
        }
    }

    /// The service found another response under way: ours is asked for again when that one has ended, or a little later.
    pub(super) fn found_busy(&mut self, now: Time, event_id: Option<&str>) {
        // Where it had a name already, that was the other one's.
        let meant = |active: &mut Active| event_id.is_none_or(|event_id| event_id == active.asked_by);
        let Some(active) = self.generation.active.take_if(meant) else { return };
        self.generation.busy_until = Some(now.plus(BUSY_MS));
        if active.cancelled.is_some() {
            self.outbox.say(Said::Cancelled { response: active.response, confirmed: true });
        } else if active.request.found_busy < FOUND_BUSY_MAX {
            let found_busy = active.request.found_busy + 1;
            self.generation.waiting.push_front(Request { found_busy, ..active.request });
        } else {
            self.failed(active.response, "the service goes on with another response that nobody asked for");
        }
    }

    /// The service has nothing to cancel: what was cancelled has ended, or never began.
    pub(super) fn nothing_to_cancel(&mut self) {
        let cancelled = |active: &mut Active| active.cancelled.is_some();
        if let Some(active) = self.generation.active.take_if(cancelled) {
            self.outbox.say(Said::Cancelled { response: active.response, confirmed: true });
        }
    }

    /// Whether a response has been asked for of which nothing has come.
    pub(super) fn awaits_response(&self) -> bool {
        self.generation.active.as_ref().is_some_and(|active| active.id.is_none())
    }

    /// A cancel that the service says nothing about is taken for done.
    pub(super) fn give_up_cancel(&mut self, now: Time) {
        let late = |active: &mut Active| active.cancelled.is_some_and(|until| now >= until);
        if let Some(active) = self.generation.active.take_if(late) {
            self.outbox.say(Said::Cancelled { response: active.response, confirmed: false });
        }
    }
}

/// Where the response's metadata name it.
const METADATA: &str = "recado_response";
/// A conversation asks for one at a time, and cancels it before it asks for another one.
const WAITING_MAX: usize = 8;
/// How long a service that detects turns may take to make an item of what it heard (ms).
const SERVICE_TURN_MS: u64 = 3_000;
/// How long the service may take to say that a response is cancelled (ms).
const CANCEL_MS_MAX: u64 = 2_000;
/// How long a response that nobody asked for is waited for before ours is tried again (ms).
const BUSY_MS: u64 = 1_000;
/// As often; then the caller has waited long enough.
const FOUND_BUSY_MAX: u32 = 4;
/// A model that can't make a call after being told twice what is wrong with it won't.
const CORRECTIONS_MAX: u32 = 2;
/// The last few can still be cut to what was heard.
const SPOKEN_MAX: usize = 8;
/// More calls than anybody asks for in one turn.
const FUNCTIONS_MAX: usize = 64;
