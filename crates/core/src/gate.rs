//! The gate (`ActivityGate`): may this delivery be told now?
//!
//! A pure function of what is going on. It is asked again at every input that could change its answer, and once more
//! when the claim is durable. The first rule that applies answers, and every refusal names what it waits for.

use serde::{Deserialize, Serialize};

use crate::conversation::input::{Acoustic, Identity};
use crate::faults::{Fault, fault};
use crate::policy::{Audience, CanInterrupt, Priority};

/// What is going on, as far as the gate is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelSnapshot {
    /// Whether the call is up, and somebody hears.
    pub live: bool,
    /// How well it is known who is on the line.
    pub identity: Identity,
    /// Whether the call belongs to a party: without one, only its own deliveries are offered to it.
    pub has_party: bool,
    /// Whether the call is on hold.
    pub on_hold: bool,
    /// Whether the floor is held: PIN, consent, digits being collected.
    pub floor_held: bool,
    /// The caller's acoustic clock.
    pub acoustic: Acoustic,
    /// Whether a response is due and none of its audio has been released.
    pub turn_open: bool,
    /// The priority of what our voice is saying, queued, playing or paused; none when it says nothing.
    pub playback: Option<Priority>,
    /// Whether the response that is being spoken has not ended: a pause inside it is no window.
    pub reply_unfinished: bool,
    /// How long it has been quiet, since the end of audible playback or of the caller's speech, whichever is later (ms).
    pub quiet_ms: u64,
    /// Whether a window that an earlier delivery opened is still open: no new `min_quiet` is asked.
    pub window_open: bool,
}

/// What the gate must know of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Whether nothing can happen to it any more.
    pub terminal: bool,
    /// Whether its policy makes it stale.
    pub stale: bool,
    /// How soon it wants to be heard.
    pub priority: Priority,
    /// What it may cut, when urgent.
    pub can_interrupt: CanInterrupt,
    /// Whether it only rides, or waits to be asked for: it has been cut too often.
    pub ride_only: bool,
    /// Who must be on the line to hear it.
    pub audience: Audience,
    /// How quiet it must have been (ms).
    pub min_quiet_ms: u64,
    /// Whether it may ride on a response that is being spoken: it has waited for too long, or has just been asked for.
    pub rides_late: bool,
    /// Whether it is dropped rather than told late.
    pub droppable: bool,
}

/// The gate's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeliveryDecision {
    /// It is over for this delivery, or its moment has passed.
    Drop,
    /// Stale: it is kept, and never told.
    SuppressAndPersist,
    /// Nobody who may hear it is on the line.
    Hold,
    /// Until a hold, a transfer or a held floor ends.
    QueueUntilFree,
    /// Until the caller has been quiet for so long (ms).
    QueueUntilQuiet {
        /// Milliseconds of quiet.
        min_quiet_ms: u64,
    },
    /// As part of the next response.
    AttachToNextResponse,
    /// Until our own voice has finished.
    QueueAfterPlayback,
    /// Now.
    DeliverNow {
        /// Whether it cuts what goes on.
        interrupt: bool,
    },
}

/// What a delivery waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blocker {
    /// No session that may hear it is live.
    NoSession,
    /// Who is on the line is not known well enough.
    IdentityUnknown,
    /// The call is on hold.
    OnHold,
    /// The floor is held.
    FloorHeld,
    /// Speech is suspected.
    SpeechSuspected,
    /// The caller speaks.
    CallerSpeaking,
    /// The caller may go on.
    SpeechTrailing,
    /// A response is due, and none of its audio has been released.
    TurnOpen,
    /// Our voice is queued, playing or paused.
    PlaybackActive,
    /// The response has not ended.
    ReplyUnfinished,
    /// It has not been quiet for long enough.
    QuietTooShort,
    /// It only rides, and no response is due.
    RideOnly,
    /// Another delivery is being claimed or spoken.
    DeliveryActive,
}

impl Blocker {
    /// Every blocker. What ends each is said by [`crate::timers::ends`].
    pub const ALL: &'static [Blocker] = &[
        Self::NoSession,
        Self::IdentityUnknown,
        Self::OnHold,
        Self::FloorHeld,
        Self::SpeechSuspected,
        Self::CallerSpeaking,
        Self::SpeechTrailing,
        Self::TurnOpen,
        Self::PlaybackActive,
        Self::ReplyUnfinished,
        Self::QuietTooShort,
        Self::RideOnly,
        Self::DeliveryActive,
    ];
}

/// Answers for one delivery.
pub fn decide(asked: &Asked, channel: &ChannelSnapshot) -> (DeliveryDecision, Option<Blocker>) {
    match rules(asked, channel) {
        // It waits for quiet, and never in a queue behind speech.
        (answer, blocker) if asked.droppable && blocker.is_some_and(|blocker| blocker != Blocker::QuietTooShort) => {
            debug_assert!(!matches!(answer, DeliveryDecision::DeliverNow { .. }));
            (DeliveryDecision::Drop, blocker)
        }
        answered => answered,
    }
}

/// The numbers are the rules of the contract's table.
fn rules(asked: &Asked, channel: &ChannelSnapshot) -> (DeliveryDecision, Option<Blocker>) {
    use DeliveryDecision::{
        AttachToNextResponse, DeliverNow, Drop, Hold, QueueAfterPlayback, QueueUntilFree, QueueUntilQuiet, SuppressAndPersist,
    };
    let until_quiet = QueueUntilQuiet { min_quiet_ms: asked.min_quiet_ms };
    if asked.terminal {
        return (Drop, None); // 1
    }
    if asked.stale {
        return (SuppressAndPersist, None); // 2
    }
    if !channel.live {
        return (Hold, Some(Blocker::NoSession)); // 3
    }
    if !known_well_enough(asked.audience, channel.identity, channel.has_party) {
        return (Hold, Some(Blocker::IdentityUnknown)); // 4
    }
    if channel.on_hold {
        return (QueueUntilFree, Some(Blocker::OnHold)); // 5
    }
    if channel.floor_held {
        return (QueueUntilFree, Some(Blocker::FloorHeld)); // 5
    }
    if interrupts(asked, channel) {
        return (DeliverNow { interrupt: true }, None); // 6
    }
    match channel.acoustic {
        Acoustic::Quiet => {}
        Acoustic::Suspected => return (until_quiet, Some(Blocker::SpeechSuspected)), // 7
        Acoustic::Speaking => return (until_quiet, Some(Blocker::CallerSpeaking)),
        Acoustic::Trailing => return (until_quiet, Some(Blocker::SpeechTrailing)),
    }
    if channel.turn_open {
        return (AttachToNextResponse, Some(Blocker::TurnOpen)); // 8
    }
    if asked.rides_late && channel.reply_unfinished {
        return (AttachToNextResponse, Some(Blocker::ReplyUnfinished)); // 8, for what need not wait for the next one
    }
    if channel.playback.is_some() {
        return (QueueAfterPlayback, Some(Blocker::PlaybackActive)); // 9
    }
    if channel.reply_unfinished {
        return (QueueAfterPlayback, Some(Blocker::ReplyUnfinished)); // 9
    }
    let shares_window = channel.window_open && !asked.droppable;
    if channel.quiet_ms < asked.min_quiet_ms && !shares_window {
        return (until_quiet, Some(Blocker::QuietTooShort)); // 10
    }
    if asked.ride_only {
        return (Hold, Some(Blocker::RideOnly));
    }
    (DeliverNow { interrupt: false }, None) // 11
}

/// Whether it is known well enough who is on the line for a delivery with this audience.
pub(crate) fn known_well_enough(audience: Audience, identity: Identity, has_party: bool) -> bool {
    match audience {
        Audience::SameCall => true,
        Audience::SameParty => identity >= Identity::CallersWord || !has_party,
        Audience::VerifiedParty => identity == Identity::Verified || fault(Fault::UnverifiedHears),
    }
}

/// Whether an urgent delivery may cut what goes on. Where nothing audible goes on there is nothing to cut: a turn that
/// is open is answered first, with the delivery riding on it.
fn interrupts(asked: &Asked, channel: &ChannelSnapshot) -> bool {
    if asked.priority != Priority::Urgent || asked.ride_only {
        return false;
    }
    let above_what_plays = channel.playback.is_none_or(|playing| playing < asked.priority);
    match channel.acoustic {
        Acoustic::Quiet => above_what_plays && channel.playback.is_some(),
        _ => above_what_plays && (asked.can_interrupt == CanInterrupt::Caller || fault(Fault::UrgentCutsTheCaller)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: ChannelSnapshot = ChannelSnapshot {
        live: true,
        identity: Identity::CallersWord,
        has_party: true,
        on_hold: false,
        floor_held: false,
        acoustic: Acoustic::Quiet,
        turn_open: false,
        playback: None,
        reply_unfinished: false,
        quiet_ms: 650,
        window_open: false,
    };

    const NORMAL: Asked = Asked {
        terminal: false,
        stale: false,
        priority: Priority::Normal,
        can_interrupt: CanInterrupt::Agent,
        ride_only: false,
        audience: Audience::SameParty,
        min_quiet_ms: 650,
        rides_late: false,
        droppable: false,
    };

    const URGENT: Asked = Asked { priority: Priority::Urgent, ..NORMAL };

    #[test]
    fn the_first_rule_that_applies_answers() {
        use DeliveryDecision::*;
        let until_quiet = QueueUntilQuiet { min_quiet_ms: 650 };
        let everything = ChannelSnapshot {
            live: false,
            identity: Identity::Unknown,
            on_hold: true,
            floor_held: true,
            acoustic: Acoustic::Speaking,
            turn_open: true,
            playback: Some(Priority::Normal),
            reply_unfinished: true,
            quiet_ms: 0,
            ..IDLE
        };
        // One obstacle after the other is taken away, in the order of the table.
        let stale = Asked { stale: true, ..NORMAL };
        assert_eq!(decide(&Asked { terminal: true, ..stale }, &everything), (Drop, None));
        assert_eq!(decide(&stale, &everything), (SuppressAndPersist, None));
        assert_eq!(decide(&NORMAL, &everything), (Hold, Some(Blocker::NoSession)));
        let mut channel = ChannelSnapshot { live: true, ..everything };
        assert_eq!(decide(&NORMAL, &channel), (Hold, Some(Blocker::IdentityUnknown)));
        channel.identity = Identity::CallersWord;
        assert_eq!(decide(&NORMAL, &channel), (QueueUntilFree, Some(Blocker::OnHold)));
        channel.on_hold = false;
        assert_eq!(decide(&NORMAL, &channel), (QueueUntilFree, Some(Blocker::FloorHeld)));
        channel.floor_held = false;
        assert_eq!(decide(&NORMAL, &channel), (until_quiet, Some(Blocker::CallerSpeaking)));
        channel.acoustic = Acoustic::Trailing;
        assert_eq!(decide(&NORMAL, &channel), (until_quiet, Some(Blocker::SpeechTrailing)));
        channel.acoustic = Acoustic::Suspected;
        assert_eq!(decide(&NORMAL, &channel), (until_quiet, Some(Blocker::SpeechSuspected)));
        channel.acoustic = Acoustic::Quiet;
        assert_eq!(decide(&NORMAL, &channel), (AttachToNextResponse, Some(Blocker::TurnOpen)));
        channel.turn_open = false;
        assert_eq!(decide(&NORMAL, &channel), (QueueAfterPlayback, Some(Blocker::PlaybackActive)));
        channel.playback = None;
        assert_eq!(decide(&NORMAL, &channel), (QueueAfterPlayback, Some(Blocker::ReplyUnfinished)));
        channel.reply_unfinished = false;
        channel.quiet_ms = 649;
        assert_eq!(decide(&NORMAL, &channel), (until_quiet, Some(Blocker::QuietTooShort)));
        channel.quiet_ms = 650;
        assert_eq!(decide(&NORMAL, &channel), (DeliverNow { interrupt: false }, None));
    }

    #[test]
    fn a_stale_result_is_suppressed_before_its_urgency_is_asked() {
        let talking = ChannelSnapshot { playback: Some(Priority::Normal), ..IDLE };
        assert_eq!(decide(&Asked { stale: true, ..URGENT }, &talking), (DeliveryDecision::SuppressAndPersist, None));
    }

    #[test]
    fn urgent_cuts_the_agent_and_waits_for_the_caller() {
        let agent = ChannelSnapshot { playback: Some(Priority::Normal), quiet_ms: 0, ..IDLE };
        assert_eq!(decide(&URGENT, &agent).0, DeliveryDecision::DeliverNow { interrupt: true });
        for acoustic in [Acoustic::Suspected, Acoustic::Speaking, Acoustic::Trailing] {
            let caller = ChannelSnapshot { acoustic, ..agent };
            assert!(matches!(decide(&URGENT, &caller).0, DeliveryDecision::QueueUntilQuiet { .. }));
            let both = Asked { can_interrupt: CanInterrupt::Caller, ..URGENT };
            assert_eq!(decide(&both, &caller).0, DeliveryDecision::DeliverNow { interrupt: true });
        }
    }

    #[test]
    fn urgent_does_not_cut_another_urgent_nor_a_held_floor() {
        let urgent_playing = ChannelSnapshot { playback: Some(Priority::Urgent), ..IDLE };
        assert_eq!(decide(&URGENT, &urgent_playing).0, DeliveryDecision::QueueAfterPlayback);
        let over_the_caller = ChannelSnapshot { acoustic: Acoustic::Speaking, ..urgent_playing };
        let both = Asked { can_interrupt: CanInterrupt::Caller, ..URGENT };
        assert!(matches!(decide(&both, &over_the_caller).0, DeliveryDecision::QueueUntilQuiet { .. }), "nor while the caller speaks");
        let held = ChannelSnapshot { playback: Some(Priority::Normal), floor_held: true, ..IDLE };
        assert_eq!(decide(&URGENT, &held).0, DeliveryDecision::QueueUntilFree);
    }

    #[test]
    fn a_shared_window_asks_no_new_quiet() {
        let just_spoke = ChannelSnapshot { quiet_ms: 20, window_open: true, ..IDLE };
        assert_eq!(decide(&NORMAL, &just_spoke).0, DeliveryDecision::DeliverNow { interrupt: false });
    }

    #[test]
    fn what_was_cut_too_often_rides_and_is_not_announced() {
        let asked = Asked { ride_only: true, ..URGENT };
        assert_eq!(decide(&asked, &IDLE), (DeliveryDecision::Hold, Some(Blocker::RideOnly)));
        let open = ChannelSnapshot { turn_open: true, ..IDLE };
        assert_eq!(decide(&asked, &open).0, DeliveryDecision::AttachToNextResponse);
        let speaking = ChannelSnapshot { playback: Some(Priority::Normal), ..IDLE };
        assert_eq!(decide(&asked, &speaking).0, DeliveryDecision::QueueAfterPlayback, "nor does its urgency cut anything");
    }

    #[test]
    fn who_must_be_on_the_line_is_the_deliverys_own_matter() {
        let told = |audience, identity, has_party| {
            let channel = ChannelSnapshot { identity, has_party, ..IDLE };
            decide(&Asked { audience, ..NORMAL }, &channel) == (DeliveryDecision::DeliverNow { interrupt: false }, None)
        };
        assert!(told(Audience::SameParty, Identity::CallersWord, true));
        assert!(!told(Audience::SameParty, Identity::Unknown, true), "whoever it was may have handed the telephone on");
        assert!(told(Audience::SameParty, Identity::Unknown, false), "of a call without a party only its own is offered");
        assert!(told(Audience::SameCall, Identity::Unknown, true));
        for identity in [Identity::Unknown, Identity::CallersWord] {
            assert!(!told(Audience::VerifiedParty, identity, true) && !told(Audience::VerifiedParty, identity, false));
        }
        assert!(told(Audience::VerifiedParty, Identity::Verified, true));
    }

    #[test]
    fn what_has_waited_too_long_rides_on_what_is_being_said_and_is_still_announced() {
        let overdue = Asked { rides_late: true, ..NORMAL };
        let speaking = ChannelSnapshot { playback: Some(Priority::Normal), reply_unfinished: true, quiet_ms: 0, ..IDLE };
        assert_eq!(decide(&NORMAL, &speaking).0, DeliveryDecision::QueueAfterPlayback);
        assert_eq!(decide(&overdue, &speaking).0, DeliveryDecision::AttachToNextResponse);
        assert_eq!(decide(&overdue, &IDLE).0, DeliveryDecision::DeliverNow { interrupt: false });
        let announced = ChannelSnapshot { reply_unfinished: false, ..speaking };
        assert_eq!(decide(&overdue, &announced).0, DeliveryDecision::QueueAfterPlayback, "there is no response to ride on");
    }

    #[test]
    fn progress_is_dropped_when_busy_and_waits_only_for_quiet() {
        let progress = Asked { droppable: true, ..NORMAL };
        for busy in [
            ChannelSnapshot { acoustic: Acoustic::Speaking, ..IDLE },
            ChannelSnapshot { playback: Some(Priority::Normal), ..IDLE },
            ChannelSnapshot { turn_open: true, ..IDLE },
            ChannelSnapshot { reply_unfinished: true, ..IDLE },
            ChannelSnapshot { on_hold: true, ..IDLE },
            ChannelSnapshot { floor_held: true, ..IDLE },
        ] {
            assert_eq!(decide(&progress, &busy).0, DeliveryDecision::Drop, "{busy:?}");
        }
        assert!(matches!(decide(&progress, &ChannelSnapshot { quiet_ms: 0, ..IDLE }).0, DeliveryDecision::QueueUntilQuiet { .. }));
        assert_eq!(decide(&progress, &IDLE).0, DeliveryDecision::DeliverNow { interrupt: false });
    }

    #[test]
    fn only_what_is_urgent_and_may_be_announced_interrupts_whatever_its_policy_covers() {
        let speaking = ChannelSnapshot { acoustic: Acoustic::Speaking, quiet_ms: 0, ..IDLE };
        let normal = Asked { can_interrupt: CanInterrupt::Caller, ..NORMAL };
        assert_eq!(decide(&normal, &speaking), (DeliveryDecision::QueueUntilQuiet { min_quiet_ms: 650 }, Some(Blocker::CallerSpeaking)));
        let agent = ChannelSnapshot { playback: Some(Priority::Normal), ..IDLE };
        assert_eq!(decide(&Asked { ride_only: true, ..URGENT }, &agent).0, DeliveryDecision::QueueAfterPlayback);
    }
}
