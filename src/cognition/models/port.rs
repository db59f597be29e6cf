//! The port behind which every voice model stands.

use recado_core::conversation::VerificationOutcome;
use recado_core::conversation::effect::{Cause, Effect, HeardText, NamedWork, ToolStatus};
use recado_core::conversation::input::{AcousticEdge, ModelEvent};
use recado_core::ledger::Cancellation;
use recado_core::policy::Language;
use recado_core::{DeliveryId, OperationId, PartyId, ResponseId, SessionId};
use tokio::sync::mpsc;

use super::audio::CallerAudioSender;
use super::message::LeftMessage;

/// A voice model. One is made at start and opened once for each conversation.
pub trait Model: Send + Sync {
    /// What it can do. Does not change.
    fn capabilities(&self) -> Capabilities;

    /// Opens a session for one conversation, at once: a model that has to connect does so behind it, and says
    /// [`ModelEvent::Failed`] for every response that it can't give.
    ///
    /// Called inside a tokio runtime.
    fn open(&self, opening: Opening) -> ModelSession;
}

/// What a model can do. What it can't, the box does, or goes without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// What its responses are made of.
    pub output: OutputKind,
    /// Whether it hears the caller: it is then given [`super::CallerAudio`] and the acoustic edges. One that does not
    /// hear is given neither.
    pub hears_audio: bool,
    /// Whether it decides itself when the caller's turn is over, and responds without being asked.
    pub owns_turns: bool,
    /// Whether a response can be cancelled in the middle. Where it can't, what still comes of it is discarded.
    pub cancel: bool,
    /// Whether its memory can be cut to what was heard. Where it can't, it goes on believing that all was heard.
    pub truncate: bool,
    /// How long nobody may say anything before it wants to be asked with [`Cause::Silence`] (ms); never, where none.
    pub silence_after_ms: Option<u64>,
}

/// What the responses of a model are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputKind {
    /// Clauses, as text or as recorded prompts, for the box to speak.
    Text,
    /// Speech in this format, with its words beside it; and clauses, should it have any.
    Audio(AudioFormat),
    /// The same, and the speech comes as it is spoken, no faster.
    PacedAudio(AudioFormat),
}

impl OutputKind {
    /// What its speech is coded in, where it makes its own.
    pub fn format(self) -> Option<AudioFormat> {
        match self {
            Self::Text => None,
            Self::Audio(format) | Self::PacedAudio(format) => Some(format),
        }
    }
}

/// A format of a model's speech.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AudioFormat {
    /// G.711 μ-law at 8 kHz: goes to a telephone as it is.
    Pcmu,
    /// G.711 A-law at 8 kHz: goes to a telephone as it is.
    Pcma,
    /// 16-bit little-endian samples.
    Linear16 {
        /// Samples per second.
        rate_hz: u32,
    },
}

/// What a model is told when its session opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// The conversation.
    pub session: SessionId,
    /// Who is on the line, where it is known.
    pub party: Option<PartyId>,
    /// The language that the call is held in.
    pub language: Language,
}

/// A model's session: its two ends, which may be kept apart.
#[derive(Debug)]
pub struct ModelSession {
    /// Where the model is told.
    pub handle: ModelHandle,
    /// What the model says. Closed when it will say nothing more.
    pub outputs: mpsc::Receiver<Output>,
}

/// Where a model is told. The session ends when this is dropped.
#[derive(Debug)]
pub struct ModelHandle {
    commands: mpsc::Sender<Command>,
    /// Where the caller's audio goes, for a model that hears.
    pub audio: Option<CallerAudioSender>,
}

/// What a model is told in a conversation. Most are the conversation's effects that are meant for it.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Give a response. For [`Cause::Turn`], the caller's turn is over.
    Respond {
        /// The response.
        response: ResponseId,
        /// Why.
        cause: Cause,
    },
    /// Give a response that tells the caller what became of the message that this model wanted taken
    /// ([`Output::WantsMessage`]). The caller has said nothing else.
    TellOfMessage {
        /// The response.
        response: ResponseId,
        /// What became of it.
        left: LeftMessage,
    },
    /// Give no more of this response.
    CancelResponse {
        /// The response.
        response: ResponseId,
    },
    /// Remember this response only as far as it was heard.
    Truncate {
        /// The response.
        response: ResponseId,
        /// How much of it was heard (ms).
        heard_ms: u64,
        /// What of it was heard, cut at a word.
        heard_text: String,
    },
    /// The output of a tool call.
    ToolOutput {
        /// The model's name for the call.
        call_id: String,
        /// The operation; none when the call was refused.
        operation: Option<OperationId>,
        /// How it stands; never an untold result.
        status: ToolStatus,
    },
    /// As context: the box itself has told the caller this.
    Told {
        /// The delivery.
        delivery: DeliveryId,
        /// The words.
        text: String,
    },
    /// As context: how far an operation is. Never a result, and nothing that has been told.
    Update {
        /// What the news is called.
        delivery: DeliveryId,
        /// The words.
        text: String,
    },
    /// As context: what of the caller's is under way, or waits to be told. Never a result.
    Work(Vec<NamedWork>),
    /// As context: what the verification of the caller came to, which the model asked for.
    Verification(VerificationOutcome),
    /// What the caller's wish to cancel came to; the box itself says so.
    Cancelling(Cancellation),
    /// What the caller heard of a segment. What is provisional may still prove otherwise: a later one about the same segment
    /// takes its place.
    Heard(HeardText),
    /// The caller began, paused or ended speaking: for a model that hears and does not own turns.
    Acoustic(AcousticEdge),
    /// As context: the caller has said something that another model answered. What this one has of it is to be forgotten.
    AnsweredElsewhere,
    /// Its service does not answer: give up the connection for another one. Models without connections ignore it.
    Reconnect,
}

/// What a model says.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// An event for the conversation. A clause is for the box's own voice, whatever the model's responses are made of.
    Event(ModelEvent),
    /// The words of the speech that follows.
    Words {
        /// The response.
        response: ResponseId,
        /// The words.
        text: String,
    },
    /// Speech of a response, in the declared format, after the words that it says.
    Audio {
        /// The response.
        response: ResponseId,
        /// The encoded samples; none where it pauses, and what has come of it need not wait for more.
        bytes: Vec<u8>,
    },
    /// How its service stands, whenever that changes. Until a model has said something of it, it is taken to be connecting: one whose requests
    /// need no connection that stands says at once that it is ready.
    Availability(Availability),
    /// Whether what the caller says next is a message, which this model takes, however often they pause in it.
    TakesMessage(bool),
    /// What the caller says from now on is to be taken as a message, for which this response asks: it is not this model's to hear or answer until
    /// [`Command::TellOfMessage`].
    WantsMessage {
        /// The response.
        response: ResponseId,
    },
    /// Another model gives this response, in place of the one that was asked first.
    TakenOver {
        /// The response.
        response: ResponseId,
        /// Why, in words.
        reason: String,
    },
    /// The model that was asked first has given this response, to its end.
    Answered {
        /// The response.
        response: ResponseId,
    },
}

/// How the service of a model stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Availability {
    /// It is being connected to, for the first time or after a connection that stood: what is asked for may soon be given.
    Connecting,
    /// It can be asked.
    Ready,
    /// There is no connection, and none is about to be: what is asked for is not given.
    Away {
        /// Why, in words.
        reason: String,
    },
}

impl Command {
    /// The response of which nothing more is wanted with this.
    pub fn cancels(&self) -> Option<ResponseId> {
        match self {
            Self::CancelResponse { response } => Some(*response),
            _ => None,
        }
    }
}

impl Output {
    /// Whether it is speech of this response, or words of it.
    pub fn is_speech_of(&self, of: ResponseId) -> bool {
        matches!(self, Self::Words { response, .. } | Self::Audio { response, .. } if *response == of)
    }
}

/// The model does not take its commands: it hangs or is gone, and its session can't go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CommandRefused {
    /// So many commands wait already that the model hangs: open another session.
    #[error("the model has not taken its last {COMMANDS_MAX} commands: its session can't go on")]
    Stuck,
    /// The model has ended its session: open another one.
    #[error("the model has ended its session")]
    Gone,
}

impl ModelSession {
    /// A session, and the model's own ends of it.
    pub fn new(audio: Option<CallerAudioSender>) -> (Self, mpsc::Receiver<Command>, mpsc::Sender<Output>) {
        let (commands, taken) = mpsc::channel(COMMANDS_MAX);
        let (said, outputs) = mpsc::channel(OUTPUTS_MAX);
        (Self { handle: ModelHandle { commands, audio }, outputs }, taken, said)
    }

    /// What comes next of a session; for ever nothing, where there is none. None when it has ended.
    pub async fn next(session: &mut Option<Self>) -> Option<Output> {
        match session {
            Some(session) => session.outputs.recv().await,
            None => std::future::pending().await,
        }
    }
}

impl ModelHandle {
    /// Tells the model, without waiting: a conversation never waits for its model.
    pub fn tell(&self, command: Command) -> Result<(), CommandRefused> {
        self.commands.try_send(command).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => CommandRefused::Stuck,
            mpsc::error::TrySendError::Closed(_) => CommandRefused::Gone,
        })
    }
}

impl TryFrom<Effect> for Command {
    /// An effect that is for somebody else.
    type Error = Box<Effect>;

    fn try_from(effect: Effect) -> Result<Self, Box<Effect>> {
        Ok(match effect {
            Effect::Respond { response, cause } => Self::Respond { response, cause },
            Effect::CancelResponse { response } => Self::CancelResponse { response },
            Effect::Truncate { response, heard_ms, heard_text } => Self::Truncate { response, heard_ms, heard_text },
            Effect::ToolOutput { call_id, operation, status } => Self::ToolOutput { call_id, operation, status },
            Effect::Told { delivery, text } => Self::Told { delivery, text },
            Effect::Update { delivery, text } => Self::Update { delivery, text },
            Effect::Work { work } => Self::Work(work),
            Effect::Verification { outcome } => Self::Verification(outcome),
            Effect::Cancelling(cancellation) => Self::Cancelling(cancellation),
            Effect::Heard(heard) => Self::Heard(heard),
            other => return Err(Box::new(other)),
        })
    }
}

/// A turn makes a handful of commands; so many waiting are minutes of a model that does not listen.
const COMMANDS_MAX: usize = 256;

/// A response of clauses, or several seconds of speech in pieces; beyond it the model waits.
const OUTPUTS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_model_that_takes_no_commands_is_stuck_and_one_that_left_is_gone() {
        let (session, commands, _said) = ModelSession::new(None);
        let cancel = Command::CancelResponse { response: ResponseId(1) };
        for _ in 0..COMMANDS_MAX {
            assert_eq!(session.handle.tell(cancel.clone()), Ok(()));
        }
        assert_eq!(session.handle.tell(cancel.clone()), Err(CommandRefused::Stuck));
        drop(commands);
        assert_eq!(session.handle.tell(cancel), Err(CommandRefused::Gone));
    }

    #[test]
    fn an_effect_for_the_model_becomes_its_command_and_others_come_back() {
        let respond = Effect::Respond { response: ResponseId(1), cause: Cause::Greeting };
        assert_eq!(Command::try_from(respond), Ok(Command::Respond { response: ResponseId(1), cause: Cause::Greeting }));
        assert_eq!(Command::try_from(Effect::HangUp), Err(Box::new(Effect::HangUp)));
    }
}
