//! Responses: one at a time is asked for, others wait. The service names none of them, so what comes is told apart by what was asked, and
//! by the ends of turns that are still owed.

use std::collections::{BTreeSet, VecDeque};

use recado_core::conversation::input::ModelEvent;
use recado_core::{ResponseId, Time};

use super::{Said, Session, State};
use crate::cognition::models::notes::{self, Role};
use crate::cognition::models::words::Words;

#[derive(Debug, Default)]
pub(super) struct Generation {
    waiting: VecDeque<Request>,
    active: Option<Active>,
    /// A turn of the service's that nobody wants has not ended: what comes is of it.
    owed: Option<Owed>,
    /// An earlier turn is over, and its end may still be said until then.
    tail: Option<Time>,
    /// An earlier turn was interrupted, and words of it may still come until then.
    late_words: Option<Time>,
}

#[derive(Debug)]
struct Request {
    response: ResponseId,
    /// What it answers of what was not said.
    text: Option<(Role, String)>,
    /// What it answers of what the caller said, where the service has not been sent it yet.
    heard: Option<Vec<u8>>,
    /// How often the model called something that can't be taken.
    corrections: u32,
}

/// The response that was asked for.
#[derive(Debug)]
pub(super) struct Active {
    pub response: ResponseId,
    corrections: u32,
    /// Whether anything of it has come.
    pub came: bool,
    /// Its words, and the sound that came before any of them.
    pub words: Words,
    /// Whether all its words have come.
    pub all_words: bool,
    /// All of it has been made: its last words are waited for until then.
    ending: Option<Time>,
    /// The calls that were taken.
    pub calls: BTreeSet<String>,
    /// Why the last thing that came of it, a call, can't be taken.
    pub refused_call: Option<String>,
}

#[derive(Debug)]
struct Owed {
    /// When something of it came last.
    last: Time,
    /// Whether anything of it has come.
    came: bool,
    /// So long its end is waited for, where something else has been asked for.
    until: Option<Time>,
}

impl Generation {
    pub fn deadline(&self) -> Option<Time> {
        let owed = self.owed.as_ref().and_then(|owed| owed.until);
        let ending = self.active.as_ref().and_then(|active| active.ending);
        [owed, ending].into_iter().flatten().min()
    }

    /// Whether a response is under way that is wanted.
    pub fn is_wanted(&self) -> bool {
        self.active.is_some()
    }

    pub fn is_idle(&self) -> bool {
        self.active.is_none() && self.waiting.is_empty()
    }

    /// The response that speaks or calls with what comes now.
    pub fn speaks(&mut self, now: Time) -> Option<&mut Active> {
        if let Some(owed) = &mut self.owed {
            (owed.last, owed.came) = (now, true);
            return None;
        }
        let active = self.active.as_mut()?;
        // A turn that is over says nothing more, and its end need not be said.
        self.tail = None;
        active.came = true;
        active.refused_call = None;
        Some(active)
    }

    /// The response whose words come now: they may be late ones of a turn that was interrupted.
    pub fn writes(&mut self, now: Time) -> Option<&mut Active> {
        let late = self.late_words.is_some_and(|until| now < until);
        let active = self.active.as_mut().filter(|active| active.came || !late)?;
        self.owed.is_none().then_some(active)
    }

    /// What comes is of a turn that nobody asked for, or that is dropped already. Says whether that is news.
    pub fn drop_unasked(&mut self, now: Time) -> bool {
        let news = self.owed.is_none();
        self.owe(now, true);
        news
    }

    /// The turn that is under way is not wanted, or not any more.
    fn owe(&mut self, now: Time, came: bool) {
        let until = self.owed.take().and_then(|owed| owed.until).filter(|_| self.active.is_some());
        self.owed = Some(Owed { last: now, came, until });
    }

    pub fn begin_connection(&mut self) {
        (self.owed, self.tail, self.late_words) = (None, None, None);
    }

    /// Something else is asked for, by what began to be sent at `since`: the end of what came before is waited for, unless it has been over
    /// for long, or is one that was interrupted before anything came of it, of which nothing may ever come.
    fn asks(&mut self, now: Time, since: Time) {
        let Some(owed) = &mut self.owed else { return };
        let until = match owed.came {
            _ if owed.last.plus(QUIET_MS) <= now => now,
            true => now.plus(OWED_MS_MAX),
            false => since.plus(UNDER_WAY_MS_MAX),
        };
        if until <= now {
            self.owed = None;
            self.tail = Some(now.plus(TAIL_MS_MAX));
        } else {
            owed.until = Some(until);
        }
    }

    /// Whether the end that is said may be that of an earlier turn.
    fn is_tail(&self, now: Time) -> bool {
        self.tail.is_some_and(|until| now < until) && self.active.as_ref().is_none_or(|active| !active.came)
    }

    /// All that wait, which wait no longer.
    pub fn drain(&mut self) -> impl Iterator<Item = ResponseId> + use<> {
        std::mem::take(&mut self.waiting).into_iter().map(|request| request.response)
    }
}

impl Session {
    pub(super) fn respond(&mut self, response: ResponseId, note: Option<notes::Note>, answers_turn: bool) {
        if let State::Gone { reason } = &self.state {
            let reason = reason.clone();
            return self.failed(response, &reason);
        }
        if self.generation.waiting.len() == WAITING_MAX {
            return self.failed(response, "too many responses are asked for at a time");
        }
        let text = note.map(|note| {
            if note.of_history {
                self.context.of_history(note.role, note.text.clone());
            }
            (note.role, note.text)
        });
        // What is said while another one is under way is not mixed with what comes next.
        let heard = (answers_turn && !self.activity.is_open()).then(|| self.caller.take());
        if answers_turn {
            self.caller.turn_ended();
        }
        self.generation.waiting.push_back(Request { response, text, heard, corrections: 0 });
    }

    /// Asks for the next response where that can be done, hears what the caller says, and gives up the connection where one is due.
    pub(super) fn advance(&mut self, now: Time) {
        while self.ready() && self.generation.active.is_none() {
            let Some(request) = self.generation.waiting.pop_front() else { break };
            self.ask(now, request);
        }
        if self.ready() {
            self.stream(now);
            self.renew(now);
        }
    }

    fn ask(&mut self, now: Time, request: Request) {
        let Request { response, mut text, heard, corrections } = request;
        self.answer_open_calls();
        let spoken = self.activity.is_open();
        let since = self.activity.since().filter(|_| spoken).unwrap_or(now);
        match heard {
            Some(heard) if heard.len() >= HEARD_BYTES_LEAST => {
                if !spoken {
                    self.begin_activity(now);
                }
                for piece in heard.chunks(PIECE_BYTES_MAX) {
                    self.hear_this(piece.to_vec());
                }
                self.utterance_ended();
                self.end_activity(text);
            }
            _ if spoken => {
                self.send_heard();
                self.caller.committed();
                self.utterance_ended();
                self.end_activity(text);
            }
            heard => {
                if heard.is_some() {
                    text.get_or_insert_with(|| (Role::System, notes::not_understood()));
                }
                self.ask_in_text(now, text);
            }
        }
        self.generation.asks(now, since);
        self.generation.active = Some(Active {
            response,
            corrections,
            came: false,
            words: Words::default(),
            all_words: false,
            ending: None,
            calls: BTreeSet::new(),
            refused_call: None,
        });
    }

    /// There is no cancel in the protocol: what still comes of it is dropped, and whatever is asked next interrupts it.
    pub(super) fn cancel(&mut self, now: Time, response: ResponseId) {
        if let Some(place) = self.generation.waiting.iter().position(|request| request.response == response)
            && let Some(request) = self.generation.waiting.remove(place)
        {
            request.heard.into_iter().for_each(|heard| self.caller.give_back(heard));
            for (role, text) in request.text.into_iter().filter(|(role, _)| *role == Role::User) {
                self.context.know(role, text);
            }
        }
        if let Some(active) = self.generation.active.take_if(|active| active.response == response) {
            self.generation.owe(now, active.came);
            // A service that waits for an answer would wait for ever.
            self.answer_open_calls();
            self.say(Said::Cancelled { response });
        }
    }

    /// What the service was saying is cut off, by what it was sent.
    pub(super) fn interrupted(&mut self, now: Time) {
        let generation = &mut self.generation;
        if generation.owed.is_none() && generation.active.as_ref().is_some_and(|active| active.came) {
            self.fail_active(now, "the service broke off its response, which nobody asked for");
        }
        let generation = &mut self.generation;
        generation.owed = None;
        generation.tail = Some(now.plus(TAIL_MS_MAX));
        generation.late_words = Some(now.plus(LATE_WORDS_MS_MAX));
    }

    /// All of the response has been made; its last words may still be on their way.
    pub(super) fn generation_complete(&mut self, now: Time) {
        let generation = &mut self.generation;
        if generation.owed.is_none()
            && !generation.is_tail(now)
            && let Some(active) = &mut generation.active
        {
            active.ending.get_or_insert(now.plus(WORDS_MS_MAX));
            self.all_came(now);
        }
    }

    /// The response ends as soon as its last words have come.
    pub(super) fn all_came(&mut self, now: Time) {
        let whole = |active: &mut Active| active.ending.is_some() && active.all_words;
        if let Some(active) = self.generation.active.take_if(whole) {
            self.made(now, active);
        }
    }

    /// All of the response has come, and the service has yet to say that its turn is over.
    fn made(&mut self, now: Time, active: Active) {
        self.generation.owe(now, true);
        self.ended(active, None);
    }

    pub(super) fn turn_complete(&mut self, now: Time, reason: Option<&str>, goes_on: bool) {
        let generation = &mut self.generation;
        let of_another = generation.is_tail(now);
        (generation.tail, generation.late_words) = (None, None);
        if generation.owed.is_some() {
            // What the model says more of it, nobody has asked for.
            if !goes_on || generation.active.is_some() {
                generation.owed = None;
            }
        } else if !(of_another || goes_on && reason.is_none())
            && let Some(active) = generation.active.take()
        {
            self.ended(active, reason);
        }
    }

    fn ended(&mut self, mut active: Active, reason: Option<&str>) {
        let response = active.response;
        let pieces = active.words.finish();
        self.say_pieces(response, pieces);
        self.closes = 0;
        let refused = match reason {
            Some(MALFORMED) => Some(active.refused_call.unwrap_or_else(|| "it could not be read".to_owned())),
            Some(reason) => {
                return self.failed(response, &format!("the service says why it gives no other response: {reason}"));
            }
            None => active.refused_call,
        };
        match refused {
            None => self.say_event(ModelEvent::Complete { response }),
            Some(reason) if active.corrections < CORRECTIONS_MAX => {
                let text = Some((Role::System, notes::correct(&reason)));
                let request = Request { response, text, heard: None, corrections: active.corrections + 1 };
                self.generation.waiting.push_front(request);
            }
            Some(reason) => self.failed(response, &format!("the model called a function in a way that can't be taken: {reason}")),
        }
    }

    /// The response that was asked for can't be given; what still comes of it is dropped.
    pub(super) fn fail_active(&mut self, now: Time, reason: &str) {
        let Some(mut active) = self.generation.active.take() else { return };
        self.generation.owe(now, active.came);
        let pieces = active.words.finish();
        self.say_pieces(active.response, pieces);
        self.failed(active.response, reason);
    }

    /// The service says in words that it can't give the response: nothing more comes of it. Says whether there was one.
    pub(super) fn refused(&mut self, now: Time, reason: &str) -> bool {
        let was_asked = self.generation.active.is_some();
        if was_asked {
            self.fail_active(now, reason);
            self.generation.owed = None;
        }
        was_asked
    }

    pub(super) fn generation_wake(&mut self, now: Time) {
        let over = |owed: &mut Owed| owed.until.is_some_and(|until| now >= until);
        self.generation.owed.take_if(over);
        let over = |active: &mut Active| active.ending.is_some_and(|until| now >= until);
        if let Some(active) = self.generation.active.take_if(over) {
            self.made(now, active);
        }
    }
}

/// A conversation asks for one at a time, and cancels it before it asks for another one.
const WAITING_MAX: usize = 8;
/// How long the end of a turn that nobody wants is waited for, once something else has been asked for (ms).
const OWED_MS_MAX: u64 = 2_000;
/// How long something of a turn may still be under way that was interrupted before anything of it had come (ms).
const UNDER_WAY_MS_MAX: u64 = 600;
/// A turn of which nothing has come for so long is over, though the service has not said so (ms): it makes one faster than it sounds.
const QUIET_MS: u64 = 1_000;
/// How long the end of a turn that is over may still be said (ms).
const TAIL_MS_MAX: u64 = 2_000;
/// How long words of a turn that was interrupted may still come (ms).
const LATE_WORDS_MS_MAX: u64 = 500;
/// How long the last words of a response may take after its sound (ms): there is more of that to be heard.
const WORDS_MS_MAX: u64 = 250;
/// A model that can't make a call after being told twice what is wrong with it won't.
const CORRECTIONS_MAX: u32 = 2;
/// Of less, 100 ms, nobody can say what it was.
const HEARD_BYTES_LEAST: usize = 100 * super::INPUT_BYTES_PER_MS;
/// A second at a time: no message is large.
const PIECE_BYTES_MAX: usize = 1_000 * super::INPUT_BYTES_PER_MS;
/// What the service calls a call that can't be read.
const MALFORMED: &str = "MALFORMED_FUNCTION_CALL";
