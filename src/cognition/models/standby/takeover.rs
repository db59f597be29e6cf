//! Which of the two models gives a response, as a pure state machine: no I/O, no clock, no randomness.

use recado_core::conversation::Life;
use recado_core::conversation::effect::Cause;
use recado_core::conversation::input::{Acoustic, AcousticEdge, Content, ModelEvent};
use recado_core::policy::Language;
use recado_core::{ResponseId, Time};

use super::{Bounds, Words};
use crate::cognition::models::audible::audible_ms;
use crate::cognition::models::heard::holds;
use crate::cognition::models::message::LeftMessage;
use crate::cognition::models::port::{AudioFormat, Availability, Capabilities, Command, Output};

/// What happens.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Input {
    /// The conversation tells the model something.
    Told(Command),
    /// The first model says something.
    First(Output),
    /// The first model has ended its session.
    FirstEnded,
    /// The second model says something.
    Second(Output),
    /// The deadline may have come.
    Wake,
}

/// What is done about it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    /// Tell the first model.
    First(Command),
    /// Tell the second model.
    Second(Command),
    /// Say this to the conversation.
    Say(Output),
}

/// Which of the two models gives a response.
#[derive(Debug)]
pub(super) struct Takeover {
    bounds: Bounds,
    words: Words,
    language: Language,
    /// What the first model's own speech is coded in, where it speaks itself.
    format: Option<AudioFormat>,
    /// How long nobody may speak before each of the two wants to be asked (ms).
    silence_ms: (Option<u64>, Option<u64>),
    availability: Availability,
    giving: Option<Giving>,
    /// Whose the keys are that are collected.
    collects: Option<Who>,
    /// Whether the second model has the caller's next words for a message.
    takes_message: bool,
    /// What the caller did last while their words were a message, which the first model has not been told.
    untold: Option<AcousticEdge>,
    /// Where the caller was last told that the assistant can be away, and in which words; none where they were not.
    introduced: Option<Introduced>,
    /// Whether they were told so before that, and have heard it.
    knows: bool,
    actions: Vec<Action>,
}

/// One of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    First,
    Second,
}

/// Words that tell the caller that the assistant can be away.
#[derive(Debug)]
struct Introduced {
    response: ResponseId,
    words: String,
    /// Whether the caller has heard them, as far as is known.
    is_heard: bool,
}

/// What a response is asked for.
#[derive(Debug, Clone)]
enum Why {
    Cause(Cause),
    /// For the caller to be told what became of their message.
    Message(LeftMessage),
}

impl Why {
    fn asks(self, response: ResponseId) -> Command {
        match self {
            Self::Cause(cause) => Command::Respond { response, cause },
            Self::Message(left) => Command::TellOfMessage { response, left },
        }
    }
}

/// The response that is due.
#[derive(Debug)]
struct Giving {
    response: ResponseId,
    why: Why,
    who: Who,
    /// Whether its model still answers.
    life: Life,
    /// Whether its model has said or done anything.
    began: bool,
    /// Whether that is an answer, and no scrap of one.
    answered: bool,
    /// Whether its model has called a tool, or asked for a cancel.
    acted: bool,
    /// Whether its model has ended the call with it.
    hangs_up: bool,
}

impl Giving {
    /// More of its model's own speech has come, of which so much can be heard.
    fn sounds(&mut self, now: Time, ms: u64) {
        self.life.sounds(now, ms, SLOWER_MAX);
        self.began |= self.life.speaks();
        self.answered |= self.life.answers();
    }
}

impl Takeover {
    pub fn new(bounds: Bounds, words: Words, language: Language, first: Capabilities, second: Capabilities) -> Self {
        Self {
            bounds,
            words,
            language,
            format: first.output.format(),
            silence_ms: (first.silence_after_ms, second.silence_after_ms),
            availability: Availability::Connecting,
            giving: None,
            collects: None,
            takes_message: false,
            untold: None,
            introduced: None,
            knows: false,
            actions: Vec::new(),
        }
    }

    /// Takes an input at `now`, and says what is to be done about it, in order.
    pub fn handle(&mut self, now: Time, input: Input) -> Vec<Action> {
        match input {
            Input::Told(command) => self.told(now, command),
            Input::First(Output::Availability(availability)) => self.stands(now, availability),
            Input::First(output) => self.first(now, output),
            Input::FirstEnded => self.stands(now, Availability::Away { reason: "the model has ended its session".to_owned() }),
            Input::Second(output) => self.second(output),
            Input::Wake => self.wake(now),
        }
        std::mem::take(&mut self.actions)
    }

    /// When the first model has had its time, if it is waited for.
    pub fn deadline(&self) -> Option<Time> {
        let giving = self.giving.as_ref().filter(|giving| giving.who == Who::First)?;
        let ms = match self.availability {
            Availability::Connecting => self.bounds.connecting_ms,
            Availability::Ready => self.bounds.silent_ms,
            Availability::Away { .. } => 0,
        };
        Some(giving.life.since().plus(ms))
    }

    /// Whether what the caller says is a message, which is nobody else's.
    pub fn takes_message(&self) -> bool {
        self.takes_message
    }

    fn told(&mut self, now: Time, command: Command) {
        match command {
            Command::Respond { response, cause } => self.respond(now, response, Why::Cause(cause)),
            Command::TellOfMessage { response, left } => self.respond(now, response, Why::Message(left)),
            Command::CancelResponse { response } => {
                self.giving.take_if(|giving| giving.response == response);
                // What had come as far as the voice is told next.
                self.introduction_is_heard(response, "");
                self.both(Command::CancelResponse { response });
            }
            Command::ToolOutput { call_id, operation, status } => match call_id.strip_prefix(CALLS_OF_SECOND) {
                Some(call_id) => self.tell_second(Command::ToolOutput { call_id: call_id.to_owned(), operation, status }),
                None => self.tell_first(Command::ToolOutput { call_id, operation, status }),
            },
            Command::Truncate { response, heard_ms, heard_text } => {
                self.introduction_is_heard(response, &heard_text);
                self.both(Command::Truncate { response, heard_ms, heard_text });
            }
            Command::Acoustic(edge) if self.takes_message => {
                self.untold = Some(edge);
                self.tell_second(Command::Acoustic(edge));
            }
            command => self.both(command),
        }
    }

    /// The caller broke in on a response, and heard so much of it.
    fn introduction_is_heard(&mut self, response: ResponseId, heard_text: &str) {
        if let Some(introduced) = self.introduced.as_mut().filter(|introduced| introduced.response == response) {
            introduced.is_heard = holds(heard_text, &introduced.words);
        }
    }

    /// Whether the caller has been told that the assistant can be away.
    fn is_introduced(&self) -> bool {
        self.knows || self.introduced.as_ref().is_some_and(|introduced| introduced.is_heard)
    }

    /// What the caller says is a message, or is one no longer: then the first model learns whether they speak.
    fn message(&mut self, takes: bool) {
        self.takes_message = takes;
        if !takes && let Some(edge) = self.untold.take() {
            // A pause in a message is the end of it.
            let to = if edge.to == Acoustic::Trailing { Acoustic::Quiet } else { edge.to };
            self.tell_first(Command::Acoustic(AcousticEdge { to, ..edge }));
        }
    }

    fn respond(&mut self, now: Time, response: ResponseId, why: Why) {
        let leader = if matches!(self.availability, Availability::Away { .. }) { Who::Second } else { Who::First };
        self.giving = Some(Giving {
            response,
            why: why.clone(),
            who: leader,
            life: Life::new(now),
            began: false,
            answered: false,
            acted: false,
            hangs_up: false,
        });
        match &why {
            Why::Cause(Cause::Turn { .. } | Cause::Digit { .. }) if self.takes_message => self.second_goes_on(),
            Why::Cause(Cause::Digits { .. }) if self.collects == Some(Who::Second) => self.second_goes_on(),
            Why::Cause(Cause::OwnAccord) if self.takes_message => self.say_event(ModelEvent::Complete { response }),
            Why::Cause(Cause::Silence { .. }) if self.waits_for_no_silence(leader) => self.say_event(ModelEvent::Complete { response }),
            _ => match self.availability.clone() {
                Availability::Away { reason } => self.take_over(&reason),
                Availability::Connecting | Availability::Ready => self.tell_first(why.asks(response)),
            },
        }
        if matches!(self.giving.as_ref().map(|giving| &giving.why), Some(Why::Cause(Cause::Digits { .. }))) {
            self.collects = None;
        }
    }

    fn waits_for_no_silence(&self, who: Who) -> bool {
        let (first, second) = self.silence_ms;
        match who {
            Who::First => first.is_none(),
            Who::Second => second.is_none(),
        }
    }

    /// The second model goes on with what it has asked the caller for.
    fn second_goes_on(&mut self) {
        let Some(giving) = self.giving.as_mut() else { return };
        giving.who = Who::Second;
        let (response, why) = (giving.response, giving.why.clone());
        self.answered_elsewhere(&why);
        self.tell_second(why.asks(response));
    }

    /// How the first model's service stands has changed.
    fn stands(&mut self, now: Time, availability: Availability) {
        if self.availability == availability {
            return;
        }
        self.availability = availability.clone();
        self.say(Output::Availability(availability.clone()));
        if let Availability::Away { reason } = availability {
            self.first_fails(&reason);
        }
        self.wake(now);
    }

    fn first(&mut self, now: Time, output: Output) {
        if self.takes_message && output == Output::Event(ModelEvent::WantsToSpeak) {
            return; // Nobody breaks in on a message.
        }
        let Some(response) = response_of(&output) else { return self.say(output) };
        let Some(giving) = self.giving.as_mut().filter(|giving| giving.who == Who::First && giving.response == response) else {
            return; // It comes too late, and leaves no trace.
        };
        match &output {
            Output::Event(ModelEvent::Complete { .. }) => {
                let answered = giving.began;
                self.giving = None;
                if answered {
                    self.say(Output::Answered { response });
                }
            }
            Output::Event(ModelEvent::Failed { reason, .. }) => {
                if giving.answered && self.availability == Availability::Ready {
                    // The service ended it, and has not gone.
                    self.giving = None;
                } else {
                    let reason = reason.clone();
                    return self.first_fails(&reason);
                }
            }
            // Nobody hears words whose sound does not come.
            Output::Words { .. } => {}
            Output::Audio { bytes, .. } => giving.sounds(now, self.format.map_or(0, |format| audible_ms(bytes, format))),
            output => {
                giving.life.heard_of(now);
                (giving.began, giving.answered) = (true, true);
                giving.acted |= matches!(
                    output,
                    Output::WantsMessage { .. }
                        | Output::Event(
                            ModelEvent::ToolCall { .. }
                                | ModelEvent::CancelIntent { .. }
                                | ModelEvent::ListWork { .. }
                                | ModelEvent::RepeatLast { .. }
                                | ModelEvent::AskForPin { .. }
                                | ModelEvent::VerifyCaller { .. }
                        )
                );
                giving.hangs_up |= matches!(output, Output::Event(ModelEvent::HangUp { .. }));
                if matches!(output, Output::Event(ModelEvent::CollectDigits { .. })) {
                    self.collects = Some(Who::First);
                }
            }
        }
        self.say(output);
    }

    fn second(&mut self, output: Output) {
        match &output {
            Output::TakesMessage(takes) => self.message(*takes),
            output => {
                let of = response_of(output);
                let theirs = |giving: &&mut Giving| giving.who == Who::Second && Some(giving.response) == of;
                if self.giving.as_mut().filter(theirs).is_none() {
                    return;
                }
            }
        }
        let output = match output {
            Output::Event(ModelEvent::ToolCall { response, mut call }) => {
                // The two name their calls without knowing of each other.
                call.call_id.insert_str(0, CALLS_OF_SECOND);
                Output::Event(ModelEvent::ToolCall { response, call })
            }
            Output::Event(event @ (ModelEvent::Complete { .. } | ModelEvent::Failed { .. })) => {
                self.giving = None;
                Output::Event(event)
            }
            Output::Event(event @ ModelEvent::CollectDigits { .. }) => {
                self.collects = Some(Who::Second);
                Output::Event(event)
            }
            output => output,
        };
        self.say(output);
    }

    fn wake(&mut self, now: Time) {
        if self.deadline().is_none_or(|due| due > now) {
            return;
        }
        match self.availability {
            Availability::Ready => {
                self.tell_first(Command::Reconnect);
                self.first_fails("the service did not answer in time");
            }
            _ => self.first_fails("the service could not be connected to in time"),
        }
    }

    /// The first model does not give the response that is due, or no more of it.
    fn first_fails(&mut self, reason: &str) {
        let Some(giving) = self.giving.as_ref().filter(|giving| giving.who == Who::First) else { return };
        let &Giving { response, began, acted, hangs_up, .. } = giving;
        self.tell_first(Command::CancelResponse { response });
        if !began {
            return self.take_over(reason);
        }
        if hangs_up {
            // It has said goodbye, and the call ends.
            return self.say_event(ModelEvent::Complete { response });
        }
        // What has been said and asked for stands. Of what the second model would do, nothing is done twice.
        self.say(Output::TakenOver { response, reason: reason.to_owned() });
        let lost = self.words.lost.clone();
        self.introduce(response, lost.text(self.language));
        if acted {
            self.say_event(ModelEvent::Complete { response });
        } else {
            self.ask_second();
        }
    }

    /// The second model gives the response that is due.
    fn take_over(&mut self, reason: &str) {
        let Some(giving) = self.giving.as_ref() else { return };
        let response = giving.response;
        if let Why::Cause(Cause::OwnAccord) = giving.why {
            // The caller has asked for nothing, and misses nothing.
            return self.say_event(ModelEvent::Complete { response });
        }
        self.say(Output::TakenOver { response, reason: reason.to_owned() });
        if !self.is_introduced() {
            let away = self.words.away.clone();
            self.introduce(response, away.text(self.language));
        }
        self.ask_second();
    }

    fn ask_second(&mut self) {
        let Some(giving) = self.giving.as_mut() else { return };
        giving.who = Who::Second;
        let (response, mut why) = (giving.response, giving.why.clone());
        self.answered_elsewhere(&why);
        if let Why::Cause(Cause::Digits { turn, .. }) = why {
            // The other one had asked for them.
            why = Why::Cause(Cause::Turn { turn });
        }
        self.tell_second(why.asks(response));
    }

    /// What the caller said is not for the first model to answer, now or later.
    fn answered_elsewhere(&mut self, why: &Why) {
        if matches!(why, Why::Cause(Cause::Turn { .. })) {
            self.tell_first(Command::AnsweredElsewhere);
        }
    }

    /// The caller is told, in these words, that the assistant can be away.
    fn introduce(&mut self, response: ResponseId, text: Option<&str>) {
        let (language, text) = (self.language, text.unwrap_or_default().to_owned());
        self.knows = self.is_introduced();
        self.introduced = Some(Introduced { response, words: text.clone(), is_heard: true });
        if !text.is_empty() {
            self.say_event(ModelEvent::Clause { response, content: Content::Text { text, language } });
        }
    }

    fn say_event(&mut self, event: ModelEvent) {
        if matches!(event, ModelEvent::Complete { .. }) {
            self.giving = None;
        }
        self.say(Output::Event(event));
    }

    fn say(&mut self, output: Output) {
        self.actions.push(Action::Say(output));
    }

    fn tell_first(&mut self, command: Command) {
        self.actions.push(Action::First(command));
    }

    fn tell_second(&mut self, command: Command) {
        self.actions.push(Action::Second(command));
    }

    fn both(&mut self, command: Command) {
        self.tell_first(command.clone());
        self.tell_second(command);
    }
}

/// The response that something belongs to, where it belongs to one.
fn response_of(output: &Output) -> Option<ResponseId> {
    match output {
        Output::Event(event) => event.response(),
        Output::Words { response, .. }
        | Output::Audio { response, .. }
        | Output::WantsMessage { response }
        | Output::TakenOver { response, .. }
        | Output::Answered { response } => Some(*response),
        Output::Availability(_) | Output::TakesMessage(_) => None,
    }
}

/// A model's own speech may come so many times slower than it sounds. A conversation, which sees it in pieces, waits for longer: what it gives up is not
/// given by the second model.
const SLOWER_MAX: u64 = 6;

/// What the names of the second model's calls begin with.
const CALLS_OF_SECOND: &str = "standby_";
