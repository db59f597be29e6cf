//! What can be tried; and, of each protocol that a talk is held over, what is tried of it and what it says.

use recado_core::ResponseId;

use super::report::{Step, Taken, Unknown};
use crate::app::speech_model::SpeechSession;
use crate::cognition::models::Output;
use crate::cognition::models::realtime::session::RenderId;
use crate::cognition::models::{gemini, live, realtime};
use crate::config::GeminiCalls;

/// A service that is tried, as people know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Realtime,
    Live,
    /// With calls of this kind.
    Gemini(GeminiCalls),
    /// The part of a cascade that writes down.
    Transcription,
    /// The part of a cascade that answers.
    Language,
}

impl Kind {
    /// The table of the configuration.
    pub fn table(self) -> &'static str {
        match self {
            Self::Realtime => "cloud.realtime",
            Self::Live => "cloud.live",
            Self::Gemini(_) => "cloud.gemini",
            Self::Transcription => "cloud.transcription",
            Self::Language => "cloud.language",
        }
    }

    /// The protocol.
    pub fn name(self) -> &'static str {
        match self {
            Self::Realtime => "Realtime",
            Self::Live => "Live",
            Self::Gemini(_) => "Gemini Live",
            Self::Transcription | Self::Language => "OpenAI",
        }
    }

    /// What the URL of one begins with that speaks no TLS.
    pub fn plain_scheme(self) -> &'static str {
        match self {
            Self::Realtime | Self::Live | Self::Gemini(_) => "ws://",
            Self::Transcription | Self::Language => "http://",
        }
    }
}

/// Something that a session says, whatever its protocol.
#[derive(Debug)]
pub(super) enum Notice {
    /// The session is set.
    Ready,
    /// To the conversation and the voice.
    Output(Output),
    /// The service takes no session, and says why.
    Refused(String),
    /// The service complains of something that ends nothing.
    Trouble(String),
    /// Nothing more comes of this response, which was cancelled; whether the service says so.
    Cancelled { response: ResponseId, confirmed: bool },
    /// Speech of the text that was to be read.
    Read,
    /// The text is read, or can't be.
    ReadEnded(Result<(), String>),
    /// The service has taken something that the model was told, so much later (ms).
    Acknowledged(u64),
    /// Nothing is done of what the model has delegated.
    NotDone,
    /// Something that a talk has no use for.
    Other,
}

/// A protocol that a talk is held over.
pub(super) trait Tried: SpeechSession {
    /// How its model asks for what is to be done.
    const CALLS: Step;
    /// What is tried last, beside what is tried of each.
    const LAST: &'static [Step];
    /// Whether its session passes on words that come without a sound.
    const WORDS_ALONE: bool = true;
    /// What it gives no means to find out.
    const CANT_TELL: Option<(Step, Unknown)>;

    /// What it says.
    fn notice(said: Self::Said) -> Notice;

    /// A text to be read aloud word for word; none where the protocol can't.
    fn read_aloud(_text: &str) -> Option<Self::Told> {
        None
    }

    /// What it took.
    fn taken(totals: Self::Totals) -> Taken;
}

impl Tried for realtime::session::Session {
    const CALLS: Step = Step::Call;
    const LAST: &'static [Step] = &[Step::Cancel, Step::ReadAloud];
    const CANT_TELL: Option<(Step, Unknown)> = None;

    fn notice(said: Self::Said) -> Notice {
        use realtime::session::Said;
        match said {
            Said::Output(output) => Notice::Output(output),
            Said::Ready => Notice::Ready,
            Said::Refused(fault) => Notice::Refused(fault.words()),
            Said::Trouble(fault) => Notice::Trouble(fault.words()),
            Said::Cancelled { response, confirmed } => Notice::Cancelled { response, confirmed },
            Said::Rendered { .. } => Notice::Read,
            Said::RenderEnded { result, .. } => Notice::ReadEnded(result),
        }
    }

    fn read_aloud(text: &str) -> Option<Self::Told> {
        Some(realtime::Told::Render { render: RenderId(1), text: text.to_owned() })
    }

    fn taken(totals: Self::Totals) -> Taken {
        Taken::Realtime(totals)
    }
}

impl Tried for live::session::Session {
    const CALLS: Step = Step::Delegate;
    const LAST: &'static [Step] = &[Step::Notes];
    const WORDS_ALONE: bool = false;
    const CANT_TELL: Option<(Step, Unknown)> = Some((Step::Cancel, Unknown::NoCancel));

    fn notice(said: Self::Said) -> Notice {
        use live::session::Said;
        match said {
            Said::Output(output) => Notice::Output(output),
            Said::Ready => Notice::Ready,
            Said::Refused(fault) => Notice::Refused(fault.words()),
            Said::Trouble(fault) => Notice::Trouble(fault.words()),
            Said::Acknowledged { after_ms } => Notice::Acknowledged(after_ms),
            Said::NotDone { .. } => Notice::NotDone,
            // It is seen by what is missing.
            Said::Unacknowledged { .. } => Notice::Other,
        }
    }

    fn taken(totals: Self::Totals) -> Taken {
        Taken::Live(totals)
    }
}

impl Tried for gemini::session::Session {
    const CALLS: Step = Step::Call;
    const LAST: &'static [Step] = &[Step::CutOff];
    const CANT_TELL: Option<(Step, Unknown)> = Some((Step::Cancel, Unknown::NotConfirmed));

    fn notice(said: Self::Said) -> Notice {
        use gemini::session::Said;
        match said {
            Said::Output(output) => Notice::Output(output),
            Said::Ready { .. } => Notice::Ready,
            Said::Refused(says) => Notice::Refused(says),
            Said::Trouble(says) => Notice::Trouble(says),
            Said::Cancelled { response } => Notice::Cancelled { response, confirmed: false },
        }
    }

    fn taken(totals: Self::Totals) -> Taken {
        Taken::Gemini(totals)
    }
}
