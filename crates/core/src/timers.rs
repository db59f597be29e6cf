//! The one table of timers: each with its meaning, its default and what ends it. All in milliseconds.
//!
//! No blocker of the gate may latch: [`ends`] says of each what ends it, whatever the rest of the world does.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::gate::Blocker;

macro_rules! timers {
    ($($(#[$doc:meta])* $name:ident = $default_ms:literal;)*) => {
        /// A timer of a conversation.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Timer {
            $($(#[$doc])* $name,)*
        }

        impl Timer {
            /// Every timer.
            pub const ALL: &'static [Timer] = &[$(Timer::$name),*];

            /// How long it is unless it is set otherwise (ms).
            pub const fn default_ms(self) -> u64 {
                match self {
                    $(Timer::$name => $default_ms,)*
                }
            }
        }
    };
}

timers! {
    /// Quiet before a delivery is announced. Ends: time; speech or playback starts it anew.
    MinQuiet = 650;
    /// Quiet before progress is told: it may not take a window that the caller was about to use. Ends: as above.
    MinQuietProgress = 1_500;
    /// How long progress may wait for quiet. Ends: being told; time (its moment has passed: dropped).
    ProgressMax = 4_000;
    /// How long several deliveries share one window. Ends: time; a response, speech, a hold.
    WindowMax = 20_000;
    /// Suspicion of speech that nothing confirmed; the listener retracts after a second itself. Ends: confirmation,
    /// retraction; time (taken as a retraction).
    SuspectedMax = 1_250;
    /// Speech without a pause: nobody speaks so long, a horn or a line that hums does. Ends: a pause; time (the turn is over).
    SpeakingMax = 60_000;
    /// A pause that the listener neither ends nor takes for the end of the turn. Ends: speech, quiet; time (the turn is over).
    TrailingMax = 5_000;
    /// A model that was asked and says nothing that can be heard. Ends: any event of the response but silence; time (failed).
    GenerationSilentMax = 5_000;
    /// A response that does not end, however much is heard of it. Ends: its end; time (failed).
    GenerationMax = 120_000;
    /// A response that has asked for operations and goes on, without asking for more. Ends: its end; time (their batch is sealed).
    BatchOpenMax = 10_000;
    /// A segment that was given to the voice and has not begun, with nothing before it. Ends: its first frame; time (given up).
    RenderMax = 6_000;
    /// A playing segment past its end; a playing playback whose next segment has not begun (I20). Ends: its last frame, the
    /// next first one; time (given up; no longer playing).
    PlaybackStalledMax = 1_000;
    /// A paused playback that was told to go on. Ends: its going on, a new suspicion; time (stopped, and said anew).
    ResumeMax = 1_000;
    /// A clear that the voice has not confirmed. Ends: the confirmation; time (taken as cleared where it was last seen).
    ClearMax = 500;
    /// A claim that the ledger has not answered: longer than a stall of a memory card. Ends: the answer; time (given back).
    ClaimMax = 5_000;
    /// A claim that was not granted. Ends: time; then the gate may claim again.
    ClaimAgain = 1_000;
    /// A response held back for the delivery that is to ride on it. Ends: the claim's answer; time (it goes without).
    RideHoldMax = 1_000;
    /// An acceptance that the ledger has not answered holds back what follows it. Ends: the answer; time (what follows goes on).
    AcceptMax = 3_000;
    /// A wish to cancel that the ledger has not answered holds back what follows it. Ends: the answer; time (the caller hears
    /// that there is none, and what follows goes on).
    CancelMax = 3_000;
    /// The floor held for somebody who does not give it back. Ends: its being given back; time.
    FloorMax = 60_000;
    /// A question whether something is to be done, that nobody answers. Ends: the answer to the caller's next turn; time (over: it is
    /// asked again before it is done).
    ConsentMax = 30_000;
    /// A PIN that was given to the verifier. Ends: its outcome; time (taken as not verified).
    VerifyMax = 5_000;
    /// A segment that waits for its report; reports come about every five seconds. Ends: the report; time (settled without).
    EvidenceMax = 15_000;
    /// A segment that was settled as uncertain, and may still be reported on. Ends: the report; time (forgotten).
    EvidenceLateMax = 60_000;
    /// Evidence after the end of a call; see [`EVIDENCE_AFTER_END`]. Ends: time.
    EvidenceAfterEnd = 1_000;
    /// What the far end still plays before we hang up. Ends: time.
    HangUpTail = 700;
    /// Deliveries told before we hang up. Ends: the last of them; time.
    HangUpMax = 10_000;
}

/// How long after the end of a call its evidence is waited for (ms): so long the sockets stay.
pub const EVIDENCE_AFTER_END: u64 = Timer::EvidenceAfterEnd.default_ms();

/// The timers of a conversation: the defaults, but for those that are set.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timers {
    set: BTreeMap<Timer, u64>,
}

impl Timers {
    /// How long `timer` is (ms).
    pub fn ms(&self, timer: Timer) -> u64 {
        self.set.get(&timer).copied().unwrap_or(timer.default_ms())
    }

    /// These timers, with `timer` set to `ms`.
    pub fn with(mut self, timer: Timer, ms: u64) -> Self {
        self.set.insert(timer, ms);
        self
    }
}

/// What ends a blocker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// At the latest the last of these timers.
    Timers(&'static [Timer]),
    /// Only the outside, and waiting for it is what is promised.
    Outside(&'static str),
}

/// What ends `blocker`, whatever else happens or fails to.
pub const fn ends(blocker: Blocker) -> End {
    match blocker {
        Blocker::NoSession => End::Outside("a call of the party"),
        Blocker::IdentityUnknown => End::Outside("who is on the line becomes known well enough; the end of the call"),
        Blocker::OnHold => End::Outside("the far end takes the call back; the end of the call"),
        Blocker::RideOnly => End::Outside("the caller's next turn; the end of the call"),
        Blocker::FloorHeld => End::Timers(&[Timer::FloorMax, Timer::ConsentMax, Timer::VerifyMax]),
        Blocker::SpeechSuspected => End::Timers(&[Timer::SuspectedMax]),
        Blocker::CallerSpeaking => End::Timers(&[Timer::SpeakingMax]),
        Blocker::SpeechTrailing => End::Timers(&[Timer::TrailingMax]),
        Blocker::TurnOpen => End::Timers(&[
            Timer::GenerationSilentMax,
            Timer::GenerationMax,
            Timer::AcceptMax,
            Timer::CancelMax,
            Timer::RideHoldMax,
            Timer::RenderMax,
        ]),
        Blocker::PlaybackActive => End::Timers(&[
            Timer::RenderMax,
            Timer::PlaybackStalledMax,
            Timer::ResumeMax,
            Timer::ClearMax,
            Timer::AcceptMax,
            Timer::CancelMax,
        ]),
        Blocker::ReplyUnfinished => {
            End::Timers(&[Timer::GenerationSilentMax, Timer::GenerationMax, Timer::AcceptMax, Timer::CancelMax, Timer::ClaimMax])
        }
        Blocker::QuietTooShort => End::Timers(&[Timer::MinQuiet, Timer::MinQuietProgress]),
        Blocker::DeliveryActive => {
            End::Timers(&[Timer::ClaimMax, Timer::ClaimAgain, Timer::RenderMax, Timer::PlaybackStalledMax, Timer::ResumeMax])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_is_its_default_unless_it_is_set() {
        let timers = Timers::default().with(Timer::MinQuiet, 900);
        assert_eq!(timers.ms(Timer::MinQuiet), 900);
        assert_eq!(timers.ms(Timer::ClaimMax), Timer::ClaimMax.default_ms());
    }
}
