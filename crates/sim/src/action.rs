//! What the outside can do. A script is a list of these, with times; every one of them makes sense at any time, so that a list
//! stays a script whatever is cut out of it.

use recado_core::conversation::VerificationOutcome;
use serde::{Deserialize, Serialize};

/// What the outside does. Calls, responses, operations and attempts are picked from those that there are; where there is none,
/// nothing happens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// A caller dials in, if there is a line left.
    Dial {
        /// Who: 0 and 1 are known parties, any other is not.
        party: u8,
    },
    /// The caller hangs up.
    HangUp {
        /// The call.
        call: u8,
    },
    /// The caller says something.
    Speak {
        /// The call.
        call: u8,
        /// For how long (ms).
        ms: u64,
    },
    /// The caller says something, with a pause in the middle.
    SpeakOn {
        /// The call.
        call: u8,
    },
    /// A sound that is suspected to be speech and is none.
    Cough {
        /// The call.
        call: u8,
        /// For how long it is suspected (ms).
        ms: u64,
    },
    /// The caller presses a key.
    Digit {
        /// The call.
        call: u8,
    },
    /// The far end puts the call on hold, or takes it back.
    Hold {
        /// The call.
        call: u8,
        /// On hold.
        on: bool,
    },
    /// The floor is held for something else, or free again.
    Floor {
        /// The call.
        call: u8,
        /// Held.
        on: bool,
    },
    /// A re-INVITE: whoever hears now may be somebody else.
    Renegotiate {
        /// The call.
        call: u8,
    },
    /// The model gives a whole answer, as most are.
    Answer {
        /// The call.
        call: u8,
        /// How many clauses.
        clauses: u8,
        /// The tools that it asks for.
        tools: Vec<u8>,
    },
    /// The model says a clause.
    Clause {
        /// The call.
        call: u8,
        /// Of the latest response (0) or one before it.
        of: u8,
        /// Whether it is a long one.
        long: bool,
    },
    /// The model sends speech in which nothing can be heard.
    Silence {
        /// The call.
        call: u8,
        /// Of the latest response (0) or one before it.
        of: u8,
        /// How many pieces.
        pieces: u8,
    },
    /// The model says that something has been done, of which it knows nothing.
    Lie {
        /// The call.
        call: u8,
        /// The tool that it speaks of.
        tool: u8,
    },
    /// The model asks for an operation.
    Ask {
        /// The call.
        call: u8,
        /// Of the latest response (0) or one before it.
        of: u8,
        /// The tool.
        tool: u8,
        /// What for.
        argument: u8,
        /// Whether it calls the call by a name that it has used before.
        same_id: bool,
        /// What else it says, which does not make it another request where the tool names what does.
        #[serde(default)]
        note: u8,
        /// Whether it says that the caller has confirmed it.
        #[serde(default)]
        confirmed: bool,
    },
    /// The model ends a response.
    Complete {
        /// The call.
        call: u8,
        /// Of the latest response (0) or one before it.
        of: u8,
    },
    /// The model fails, or its connection does.
    Fail {
        /// The call.
        call: u8,
        /// Of the latest response (0) or one before it.
        of: u8,
    },
    /// The model wants to hang up.
    Goodbye {
        /// The call.
        call: u8,
    },
    /// The model says that the caller wants operations cancelled.
    Cancel {
        /// The call.
        call: u8,
        /// The tool, or all.
        tool: Option<u8>,
    },
    /// The model wants to say something of its own accord.
    Chime {
        /// The call.
        call: u8,
    },
    /// The model says that the turn was noise.
    Noise {
        /// The call.
        call: u8,
    },
    /// An executor reports on an attempt.
    Report {
        /// Which of those that are out.
        which: u8,
        /// How it went.
        how: Answered,
        /// Whether it goes on to report on the same attempt.
        again: bool,
    },
    /// A result comes from outside.
    Callback {
        /// Which of the operations that were ever sent.
        which: u8,
        /// Whether it says that it took effect.
        done: bool,
        /// Which of two results it says.
        value: u8,
    },
    /// A tool, or its executor, answers a cancel request.
    CancelAnswer {
        /// Which of those that are out.
        which: u8,
        /// How it went.
        how: CancelAnswered,
        /// Whether it answers the same request once more.
        again: bool,
    },
    /// A tool answers how an operation stands.
    InquiryAnswer {
        /// Which of the inquiries that are out.
        which: u8,
        /// What it says.
        how: InquiryAnswered,
        /// Whether it answers the same inquiry once more.
        again: bool,
    },
    /// The other way answers a hand-off.
    HandOffAnswer {
        /// Which of those that are out.
        which: u8,
        /// How it went.
        how: HandOffAnswered,
    },
    /// A tool says how far it is.
    Progress {
        /// Which of the latest three operations that were sent.
        which: u8,
    },
    /// Who gave a result takes it back.
    Retract {
        /// Which of the operations that were ever sent.
        which: u8,
    },
    /// Who is on the line is known better, or less well.
    Identify {
        /// The call.
        call: u8,
        /// Not at all (0), by the caller's word (1), verified (2).
        level: u8,
    },
    /// The caller keys something in that may be their PIN, and the hash key.
    Pin {
        /// The call.
        call: u8,
        /// How many keys.
        keys: u8,
    },
    /// The verifier says what the oldest PIN came to that it was given in a call.
    Verdict {
        /// The call.
        call: u8,
        /// What it came to.
        how: VerificationOutcome,
        /// Whether it says so once more.
        again: bool,
    },
    /// A machine answered.
    Voicemail {
        /// The call.
        call: u8,
    },
    /// The model wants keys collected.
    Collect {
        /// The call.
        call: u8,
        /// Of the latest response (0) or one before it.
        of: u8,
        /// So many are all.
        digits: u8,
    },
    /// The caller presses the key that ends what is collected.
    Hash {
        /// The call.
        call: u8,
    },
    /// A mark comes back sooner than what it stands behind was played, or one that was never sent.
    FalseMark {
        /// The call.
        call: u8,
        /// Whether it was ever sent.
        sent: bool,
    },
    /// Rendering a segment takes so long from now on (ms).
    Render {
        /// The call.
        call: u8,
        /// How long (ms).
        ms: u64,
    },
    /// The next segments can't be made.
    Mute {
        /// The call.
        call: u8,
        /// How many.
        segments: u32,
    },
    /// The media thread is held up.
    Stall {
        /// The call.
        call: u8,
        /// For how long (ms).
        ms: u64,
    },
    /// The far end begins to report, or ceases to.
    Rtcp {
        /// The call.
        call: u8,
        /// Reports.
        on: bool,
    },
    /// The next frames are lost on their way.
    Lose {
        /// The call.
        call: u8,
        /// How many.
        frames: u64,
    },
    /// Nothing of ours reaches the far end any more, while its reports go on; or it does again.
    CutOff {
        /// The call.
        call: u8,
        /// Cut off.
        on: bool,
    },
    /// The next report comes later.
    ReportLate {
        /// The call.
        call: u8,
        /// By how much (ms).
        ms: u64,
    },
    /// A commit takes so long from now on (ms).
    StoreDelay {
        /// How long (ms).
        ms: u64,
    },
    /// The disk is full, or has room again.
    StoreFails {
        /// Full.
        on: bool,
    },
    /// The store removes what has been over for so long, if the wall clock is known to be right.
    Remove {
        /// How long (ms).
        age_ms: u32,
    },
    /// The wall clock jumps, and is known to be right or not.
    Clock {
        /// By how much (ms).
        ms: i64,
        /// Known to be synchronised.
        synchronised: bool,
    },
    /// The process dies, and comes back.
    Crash {
        /// So many of the commits in flight have reached the disk.
        kept: u8,
    },
}

/// How an attempt went, as its executor says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answered {
    /// Done.
    Done,
    /// The tool has it; the result comes by callback.
    Deferred,
    /// The tool has it, under a name of its own.
    Taken,
    /// It has not left the box, for its tool can't be reached.
    Unreachable,
    /// It provably did not happen; trying again may help.
    NotDone,
    /// Nobody knows whether it happened. It did.
    Maybe,
    /// It did not happen, and trying again is of no use.
    Refused,
}

/// What becomes of a cancel request. What the tool then says is the truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelAnswered {
    /// Its executor still has the attempt, and recalls it.
    Recalled,
    /// What has not taken effect will not; what has is undone.
    Undone,
    /// It has taken effect, and stays so.
    TooLate,
    /// The same, and the answer holds the result.
    TooLateWithResult,
    /// There is nobody to ask.
    Unsupported,
    /// Nobody answered in time: another request may help.
    Failed,
    /// It failed for good.
    Refused,
}

/// What a tool says of how an operation stands. What it says is the truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InquiryAnswered {
    /// How it ended: what it still has, it has done.
    Ended,
    /// It still has it.
    Running,
    /// It does not know it any more.
    Forgotten,
    /// Nobody answered in time: another inquiry may help.
    Unanswered,
    /// It failed for good.
    Refused,
    /// There is nobody to ask.
    Unsupported,
}

/// What becomes of a hand-off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandOffAnswered {
    /// It was received, and acknowledged.
    Acknowledged,
    /// It was not received.
    Refused,
    /// It was received, and the acknowledgement is lost.
    Lost,
}

/// An action, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Virtual time since the script began (ms). A box that is down when it is due does it once it is back.
    pub at_ms: u64,
    /// What.
    pub action: Action,
}
