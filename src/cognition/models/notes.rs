//! What a model is told in words, beside what was said: short, and in English, which every model understands best.

use recado_core::conversation::effect::{Cause, ToolStatus};

/// Why a response is asked for.
pub(super) struct Reason {
    /// In words.
    pub text: String,
    /// Whether it is something that the caller did, and so part of the conversation's history.
    pub by_caller: bool,
}

/// Why a response is asked for, where that is not what the caller said.
pub(super) fn reason(cause: &Cause) -> Option<Reason> {
    let (by_caller, text) = match cause {
        Cause::Turn { .. } | Cause::OwnAccord => return None,
        Cause::Greeting => (false, "The call has begun and nobody has spoken yet. Greet the caller.".to_owned()),
        Cause::Digit { digit, .. } => (true, format!("(The caller pressed the key {digit}.)")),
        Cause::Digits { digits, complete: true, .. } => (true, format!("(The caller keyed in {digits}, which is all that was asked for.)")),
        Cause::Digits { digits, complete: false, .. } if digits.is_empty() => {
            (true, "(The caller was asked for keys and pressed none.)".to_owned())
        }
        Cause::Digits { digits, complete: false, .. } => {
            (true, format!("(The caller keyed in {digits} and then nothing more: it is less than was asked for.)"))
        }
        Cause::Silence { quiet_ms } => {
            let seconds = quiet_ms / 1_000;
            (false, format!("Nobody has spoken for {seconds} seconds. Ask, in a few words, whether the caller is still there."))
        }
    };
    Some(Reason { text, by_caller })
}

/// The box itself has told the caller this.
pub(super) fn told(text: &str) -> String {
    format!("The caller has been told this, in your name; do not repeat it: {text:?}")
}

/// How far an operation is.
pub(super) fn update(text: &str) -> String {
    format!("News of work that is under way, which is no result; the caller has not been told: {text:?}")
}

/// What the caller's wish to cancel came to.
pub(super) fn cancelling(say: &str) -> String {
    format!("What the caller's wish to cancel came to; the caller is told this, in your name: {say:?}")
}

/// What the box says at the moment.
pub(super) fn being_said(text: &str) -> String {
    format!("This is being said to the caller, in your name; whether it was heard is not known yet: {text:?}")
}

/// How far a response was heard.
pub(super) fn cut_off(heard_text: &str) -> String {
    match heard_text.trim() {
        "" => "You were cut off before the caller heard anything of what you were saying.".to_owned(),
        heard => format!("You were cut off: of what you were saying, the caller heard this and no more: {heard:?}"),
    }
}

/// What of a model that can't be stopped did not reach the caller.
pub(super) fn not_heard(text: &str) -> String {
    format!("The caller did not hear this, which you said while there was no room for it: {text:?}")
}

/// What the caller may have heard.
pub(super) fn perhaps_heard(text: &str) -> String {
    format!("Whether the caller heard this is not known: {text:?}")
}

/// Later news of an operation: its call has its output already, or was another connection's.
pub(super) fn later(tool: &str, status: ToolStatus) -> String {
    format!("About {tool}, which was called before: {}", status_words(status))
}

/// An operation that runs, for a connection that did not ask for it.
pub(super) fn under_way(tool: &str) -> String {
    format!("{tool} was called earlier in this call. {}", status_words(ToolStatus::AlreadyRunning))
}

/// How an operation stands; never what came of it.
pub(super) fn status_words(status: ToolStatus) -> &'static str {
    match status {
        ToolStatus::Running => {
            "It runs. Its result is not known yet. The telephone system has told the caller that it is being done, and will tell the result itself: \
             promise nothing, guess nothing, and do not call it again."
        }
        ToolStatus::AlreadyRunning => {
            "It has been asked for before and runs already. The telephone system will tell the caller the result itself: do not call it again."
        }
        ToolStatus::AboutToBeTold => "Its result is ready, and the telephone system is about to tell the caller: do not call it again.",
        ToolStatus::Told => "The caller has been told its result already: do not call it again.",
        ToolStatus::Rejected => "The same thing has been asked for before and is not done again.",
        ToolStatus::NeedsConfirmation => {
            "The same thing has been asked for before, and nothing was done now. Ask whether it is to be done once more; only if the caller says yes, \
             call it again with repeat_confirmed set to true."
        }
        ToolStatus::Refused => "It could not be accepted, and nothing was done. The telephone system has told the caller.",
    }
}

/// What the model is told of what the caller said while it could not answer.
pub(super) const ANSWERED_ELSEWHERE: &str = "The caller has said something here that you could not hear or answer, and the telephone system has answered \
     in your place. Do not guess what it was.";
