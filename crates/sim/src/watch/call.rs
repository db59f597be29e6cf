//! One call: what an input may lead to (I5, I11, I18), and the edges of its clocks.

use std::collections::BTreeSet;

use recado_core::conversation::{
    Acoustic, AcousticEpoch, Cause, Content, Edge, Effect, Evidence, Input, ModelEvent, PlaybackEvent, Purpose, Verification,
    VerificationOutcome,
};
use recado_core::ids::ResponseId;
use recado_core::ledger;
use recado_core::timers::{Timer, Timers};

use super::frames::Frames;
use super::history::History;
use crate::edges::{self, Machine};
use crate::violation::{Findings, Invariant};
use crate::voice::Voice;

/// What was seen of one call.
#[derive(Debug, Default)]
pub struct CallWatch {
    acoustic: Acoustic,
    on_hold: bool,
    epoch: AcousticEpoch,
    /// The response that is being generated.
    pub open: Option<ResponseId>,
    answers_turn: bool,
    said: bool,
    /// Since when a failed response must be answered for (ms).
    pub owed_since: Option<u64>,
    /// Since when the model wishes to hang up (ms).
    pub(super) hang_up_wish: Option<u64>,
    /// By which response.
    wished_by: Option<ResponseId>,
    pub(super) waiting_since: Option<u64>,
    /// Whether keys are being collected: from the model's wish to the response that is asked for when they have come.
    pub(crate) collecting: bool,
    /// Whether a PIN is awaited, or what the verifier says of one: the keys are no turns then. It may be over when this still says so, for what ends
    /// it is time.
    pub(crate) asks_pin: bool,
    /// Until when it is at the latest (ms).
    asks_pin_until: u64,
    /// How long that may last (ms).
    pin_ms: u64,
    /// Until when keys may be those of a PIN that was asked for, too late or too many, at the latest (ms).
    pin_keys_until: u64,
    /// How long after it they may be (ms).
    pin_tail_ms: u64,
    /// How many PINs have been given to the verifier.
    pins: u32,
    /// What is being read back, until it is over: the floor may be held for it.
    pub(crate) read_backs: BTreeSet<u64>,
    /// Whether the response that is being generated answers speech, and wants no keys.
    answers_speech: bool,
    /// Whether the model has been heard of since the response was asked for.
    generating: bool,
    /// What left the box.
    pub frames: Frames,
    /// What counts as heard.
    pub history: History,
}

/// What an input may lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum May {
    /// Only time: a suspicion, its retraction, a refused command (I11).
    OnlyWait,
    /// A turn ended: it is answered (I18).
    Answer,
    /// The model asks.
    AskLedger,
    /// A deadline has come: a model that was silent for too long has failed.
    Wake,
    /// Anything but what changes an operation (I5).
    Anything,
}

impl CallWatch {
    /// Of a call whose channel gives evidence up to `best`, and in which these timers hold.
    pub fn of(best: Evidence, timers: &Timers) -> Self {
        let pin_ms = timers.ms(Timer::FloorMax) + timers.ms(Timer::VerifyMax);
        let pin_tail_ms = timers.ms(Timer::FloorMax);
        Self { history: History::of(best), pin_ms, pin_tail_ms, ..Self::default() }
    }

    /// A PIN has been given to the verifier.
    pub(crate) fn pin_given(&mut self, attempt: u32) {
        self.pins = attempt;
    }

    /// Time has gone by.
    pub(crate) fn in_time(&mut self, now: u64) {
        self.asks_pin &= now <= self.asks_pin_until;
    }

    /// An input goes to the conversation.
    pub fn input(&mut self, input: &Input, findings: &mut Findings) -> May {
        match input {
            Input::Playback(event) => {
                self.history.told(event, findings.now);
                match event {
                    // Without a voice, nobody is answered.
                    PlaybackEvent::Failed { .. } => {
                        self.owed_since = None;
                        May::Anything
                    }
                    PlaybackEvent::Refused { .. } => May::OnlyWait,
                    _ => May::Anything,
                }
            }
            Input::Acoustic(edge) if edge.epoch > self.epoch => {
                let from = std::mem::replace(&mut self.acoustic, edge.to);
                findings.edge(Machine::Acoustic, edges::acoustic(from), edges::acoustic(edge.to), || format!("{edge:?}"));
                self.epoch = edge.epoch;
                // Who goes on talking is not hung up on.
                self.hang_up_wish = self.hang_up_wish.filter(|_| edge.to != Acoustic::Speaking);
                match (from, edge.to) {
                    (Acoustic::Quiet, Acoustic::Suspected) | (Acoustic::Suspected, Acoustic::Quiet) => May::OnlyWait,
                    (Acoustic::Speaking | Acoustic::Trailing, Acoustic::Quiet) => May::Answer,
                    _ => {
                        self.owed_since = None;
                        May::Anything
                    }
                }
            }
            // Keys that are collected are answered together.
            Input::Digit(_) if self.collecting || self.asks_pin || findings.now <= self.pin_keys_until => May::Anything,
            Input::Digit(_) => {
                self.hang_up_wish = None;
                May::Answer
            }
            Input::Hold(_) | Input::ChannelOver => {
                self.on_hold = *input == Input::Hold(true);
                if *input != Input::Hold(false) {
                    self.history.stops_listening(findings.now);
                }
                self.owed_since = None;
                May::Anything
            }
            Input::Model(event) => self.model(event, findings),
            // Whoever may try again is asked again.
            Input::Verified { attempt, outcome } if *attempt == self.pins => {
                self.asks_pin &= *outcome == VerificationOutcome::NotVerified;
                self.asks_pin_until = findings.now + self.pin_ms;
                self.pin_keys_until = self.asks_pin_until + self.pin_tail_ms;
                May::Anything
            }
            Input::News(ledger::News::ReadBack { read_back, .. }) => {
                self.read_backs.insert(*read_back);
                May::Anything
            }
            Input::Voicemail => {
                self.history.machine_heard();
                May::Anything
            }
            Input::Wake => May::Wake,
            _ => May::Anything,
        }
    }

    /// What the playback clock did, which can't be seen from outside: that evidence is awaited, and settled.
    pub fn took(&self, taken: &[Edge], findings: &mut Findings) {
        for edge in taken {
            if let Edge::Playback { playback, from, to } = edge {
                findings.edge(Machine::Playback, edges::playback(*from), edges::playback(*to), || playback.to_string());
            }
        }
    }

    fn generates(&mut self, to: &'static str, findings: &mut Findings) {
        let from = if self.generating { "Generating" } else { "Requested" };
        findings.edge(Machine::Generation, from, to, String::new);
        self.generating = to == "Generating";
    }

    fn model(&mut self, event: &ModelEvent, findings: &mut Findings) -> May {
        match event {
            // Nobody hears it, and the model is no more alive for it.
            ModelEvent::Clause { content, .. } if content.is_silence() => {}
            ModelEvent::Clause { response, .. } | ModelEvent::ToolCall { response, .. } if self.open == Some(*response) => {
                self.said = true;
                if !self.generating {
                    self.generates("Generating", findings);
                }
            }
            ModelEvent::Complete { response } if self.open == Some(*response) => {
                self.generates("Complete", findings);
                // What the caller said instead of the keys has its answer.
                self.collecting &= !self.answers_speech;
                self.open = None;
            }
            ModelEvent::Failed { response, .. } if self.open == Some(*response) => self.failed(findings),
            ModelEvent::CollectDigits { response, .. } if self.open == Some(*response) => {
                (self.collecting, self.answers_speech) = (true, false);
            }
            ModelEvent::TurnWasNoise { .. } => self.answers_speech = false,
            ModelEvent::HangUp { response } if self.open == Some(*response) && self.hang_up_wish.is_none() => {
                (self.hang_up_wish, self.wished_by) = (Some(findings.now), Some(*response));
            }
            _ => {}
        }
        May::AskLedger
    }

    fn failed(&mut self, findings: &mut Findings) {
        self.generates("Failed", findings);
        self.open = None;
        if self.answers_turn && !self.said {
            self.owed_since = Some(findings.now);
        }
    }

    /// The conversation wants this.
    pub fn effects(&mut self, may: May, effects: &[Effect], voice: &Voice, over: bool, findings: &mut Findings) {
        for effect in effects {
            match effect {
                Effect::Respond { response, cause } => {
                    findings
                        .check(self.open.is_none(), Invariant::I18, || format!("{response} is asked for while {:?} is open", self.open));
                    let room = may == May::AskLedger && self.acoustic == Acoustic::Quiet && !self.on_hold && !over;
                    findings.check(*cause != Cause::OwnAccord || room, Invariant::I18, || format!("{response} is asked for by nobody"));
                    self.open = Some(*response);
                    self.answers_turn = matches!(cause, Cause::Turn { .. } | Cause::Digit { .. } | Cause::Digits { .. });
                    self.answers_speech = matches!(cause, Cause::Turn { .. });
                    self.collecting &= !matches!(cause, Cause::Digit { .. } | Cause::Digits { .. });
                    (self.said, self.generating, self.owed_since) = (false, false, None);
                }
                // What came of a wish to cancel is an answer to the turn that held it.
                Effect::Cancelling(cancellation) if !cancellation.say.is_empty() => self.said = true,
                Effect::Speak { purpose: Purpose::Identity, content, .. } => {
                    if asks_for_keys(content) {
                        (self.asks_pin, self.asks_pin_until) = (true, findings.now + self.pin_ms);
                    }
                    self.pin_keys_until = findings.now + self.pin_ms + self.pin_tail_ms;
                }
                Effect::CancelResponse { .. } if may == May::OnlyWait => {
                    findings.check(false, Invariant::I11, || format!("a false start cancels a response: {effects:?}"));
                }
                Effect::CancelResponse { response } if self.open == Some(*response) => match may {
                    // What it wished for still holds: it was late, and nothing took its place.
                    May::Wake => self.failed(findings),
                    _ => {
                        // What it wished for goes with it.
                        self.hang_up_wish = self.hang_up_wish.filter(|_| self.wished_by != Some(*response));
                        self.generates("Cancelled", findings);
                        self.open = None;
                    }
                },
                Effect::Clear { playback } => {
                    let begun = may == May::OnlyWait && voice.begun(*playback);
                    findings.check(!begun, Invariant::I11, || format!("a false start clears what has begun: {effects:?}"));
                    self.history.clears(*playback, findings.now);
                    if may != May::OnlyWait {
                        // Cut before it could be said: by the caller, or because the voice did not get it out.
                        self.owed_since = None;
                    }
                }
                Effect::Ledger(asked) => {
                    if let ledger::Input::ReadBackOver { read_back, .. } = &**asked {
                        self.read_backs.remove(read_back);
                    }
                    use ledger::Input::{Accept, Attempted, Callback, Cancel};
                    let operates = matches!(**asked, Accept { .. } | Attempted { .. } | Callback { .. } | Cancel { .. });
                    let allowed = !operates || may == May::AskLedger;
                    findings.check(allowed, Invariant::I5, || format!("nobody but the model changes an operation: {asked:?}"));
                }
                _ => {}
            }
        }
        let answered = || effects.iter().any(|effect| matches!(effect, Effect::Respond { .. }));
        let answers = may != May::Answer || over || answered();
        findings.check(answers, Invariant::I18, || format!("a turn that ended is not answered: {effects:?}"));
    }
}

fn asks_for_keys(content: &Content) -> bool {
    let texts = Verification::default();
    [texts.say_ask, texts.say_again].iter().any(|text| text.es.as_deref() == Some(content.text()))
}
