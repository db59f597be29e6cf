//! Deliberate faults, to see whether the simulator bites. Without the feature `faults`, which no build of the box has, there are
//! none: [`fault`] is a constant, and what it guards is compiled away.

macro_rules! faults {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// Something that the core or the voice does wrong when it is chosen.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Fault {
            $($(#[doc = $doc])* $name,)*
        }

        impl Fault {
            /// Every fault.
            pub const ALL: &'static [Fault] = &[$(Fault::$name),*];

            /// What it does wrong, in words.
            pub fn what(self) -> &'static str {
                match self {
                    $(Fault::$name => concat!($($doc),*).trim_ascii(),)*
                }
            }
        }
    };
}

faults! {
    /// The claim of a delivery is not committed with its state.
    ClaimForgotten,
    /// A result is committed without the closing that it makes due (R3).
    ResultWithoutClosing,
    /// A callback is confirmed before its result is durable (R3).
    ConfirmedBeforeDurable,
    /// A request leaves before its attempt is durable (R1, R2).
    SentBeforeDurable,
    /// An acceptance is told before its operation is durable (R1).
    AcceptedBeforeDurable,
    /// A claim is granted before it is durable (R4).
    ClaimedBeforeDurable,
    /// What may have executed is tried again though its tool is not idempotent (R2).
    MaybeTriedAgain,
    /// An operation that nobody knows the end of is called failed.
    UnknownCalledFailed,
    /// Every result is told as a success.
    EverythingSucceeded,
    /// A result that is on record is overwritten by a later one.
    ResultOverwritten,
    /// The end of a response does not seal its batch.
    SealForgotten,
    /// A batch makes two final deliveries.
    TwoFinals,
    /// A delivery that was being spoken is ready again after a restart, as if nothing had been heard.
    SpokenForgottenAtRestart,
    /// Operations that were open are forgotten at a restart.
    BatchForgottenAtRestart,
    /// The number of the last attempt is lost at a restart.
    AttemptForgottenAtRestart,
    /// What a tool knows nothing of any more is called failed.
    ForgottenCalledFailed,
    /// Anybody may hear a delivery.
    AnybodyHears,
    /// What has become obsolete while it is spoken goes on.
    SupersededGoesOn,
    /// Nothing is ever too old to be told.
    StaleTold,
    /// A claim that was settled is not given back in the store.
    ClaimNeverEnds,
    /// A delivery that is being told may be claimed by another conversation.
    ClaimedTwice,
    /// A claim that ends in doubt, or is cut, spends no attempt and leaves the delivery as it was.
    DoubtForgotten,
    /// What has left the box counts as received.
    SentIsHeard,
    /// What is given to the voice counts as heard.
    ExposureIsTelling,
    /// What was cleared counts as heard.
    ClearedIsHeard,
    /// A report of one generation credits segments of another.
    CreditAcrossGenerations,
    /// History holds what was generated, not what was heard.
    GeneratedIsHistory,
    /// History forgets what was heard of a segment that was cut.
    HeardForgotten,
    /// History forgets what was reported.
    ReportIgnored,
    /// A barge-in cancels the caller's operations.
    BargeInCancels,
    /// A false start cancels the response and clears the voice.
    FalseStartCancels,
    /// A turn that ends is not answered.
    TurnUnanswered,
    /// A new response is asked for while the last one is still being generated.
    TwoGenerations,
    /// A delivery that becomes ready while the caller speaks is dropped.
    DroppedWhileSpeaking,
    /// The floor that was held is never free again.
    FloorLatched,
    /// A claim that was refused is waited for for ever.
    ClaimLatched,
    /// An urgent delivery cuts the caller, whatever its policy.
    UrgentCutsTheCaller,
    /// The agent hangs up over what is ready.
    HangsUpOverReady,
    /// A playback whose next segment is late still counts as playing.
    StarvedStillPlays,
    /// A reply is said in the playback of an announcement.
    Mixed,
    /// A stale command to sound is obeyed.
    StaleCommandObeyed,
    /// The voice goes on while speech is suspected.
    NotPaused,
    /// A frame is lost when the voice goes on.
    ResumeLosesAFrame,
    /// A frame is repeated when the voice goes on.
    ResumeRepeatsAFrame,
    /// What was cleared is still said to its end.
    ClearIgnored,
    /// A cancel request leaves before it is durable that the operation is to be cancelled (R6).
    CancelBeforeDurable,
    /// The caller is told that an operation is being cancelled before that is durable (R6).
    CancelToldBeforeDurable,
    /// What was being cancelled is given up at a restart, and its tool is not asked (R6).
    CancelForgottenAtRestart,
    /// An operation that nobody can be asked to cancel counts as cancelled.
    CancelledOnHope,
    /// What could not be cancelled in time is told as cancelled.
    TooLateToldAsCancelled,
    /// A hand-off has no claim: the delivery may be spoken meanwhile.
    HandOffUnclaimed,
    /// A hand-off that was not acknowledged counts as one that was.
    HandedOffUnacknowledged,
    /// News of progress goes on when the closing is ready.
    ProgressAfterFinal,
    /// News is said that its policy keeps silent.
    SilentNewsSaid,
    /// An older version of a result is told though a later one is known.
    OlderVersionTold,
    /// What a machine heard is credited.
    MachineIsCredited,
    /// What is for the verified party is told to whoever is on the line.
    UnverifiedHears,
    /// A mark that a clear brought back counts as played.
    ClearedMarkIsPlayed,
    /// A result that was taken back is told all the same.
    RetractedIsTold,
    /// The newer operation begins before the one that it replaces has come to its end.
    ReplacedRunsOn,
    /// What is to be confirmed is done again without.
    Unconfirmed,
    /// What the model calls confirmed counts as the caller's consent, whatever was read back and heard.
    ConsentAssumed,
    /// Something random enters the wait before another attempt.
    Random,
}

#[cfg(feature = "faults")]
mod chosen {
    use std::cell::Cell;

    use super::Fault;

    thread_local! {
        static CHOSEN: Cell<Option<Fault>> = const { Cell::new(None) };
        static DRAWN: Cell<u64> = const { Cell::new(0) };
    }

    /// Chooses the fault of this thread.
    pub fn choose(fault: Option<Fault>) {
        CHOSEN.set(fault);
    }

    /// Whether this fault was chosen.
    pub fn fault(fault: Fault) -> bool {
        CHOSEN.get() == Some(fault)
    }

    /// A number that no input explains.
    pub fn unexplained() -> u64 {
        DRAWN.set(DRAWN.get() + 1);
        DRAWN.get()
    }
}

#[cfg(feature = "faults")]
pub use chosen::{choose, fault, unexplained};

/// Whether a fault was chosen: never, in a build of the box.
#[cfg(not(feature = "faults"))]
pub const fn fault(_: Fault) -> bool {
    false
}

/// A number that no input explains: there is none in a build of the box.
#[cfg(not(feature = "faults"))]
pub const fn unexplained() -> u64 {
    0
}
