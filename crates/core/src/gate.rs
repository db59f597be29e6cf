//! The gate (`ActivityGate`): may this delivery be told now?
//!
//! A pure function of what is going on. It is asked again at every input that could change its answer, and once more
//! when the claim is durable. The first rule that applies answers, and every refusal names what it waits for.

use serde::{Deserialize, Serialize};

use crate::conversation::input::Acoustic;
use crate::policy::{CanInterrupt, Priority};

/// What is going on, as far as the gate is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelSnapshot {
    /// Whether the call is up.
    pub live: bool,
    /// Whether who is on the line is known well enough for this delivery.
    pub identified: bool,
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
    /// How quiet it must have been (ms).
    pub min_quiet_ms: u64,
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
    /// Whether it only rides: it has been cut too often.
    pub ride_only: bool,
}

/// The gate's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeliveryDecision {
    /// It is over for this delivery.
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

/// Answers for one delivery. The numbers are the rules of the contract's table.
pub fn decide(asked: &Asked, channel: &ChannelSnapshot) -> (DeliveryDecision, Option<Blocker>) {
    use DeliveryDecision::{
        AttachToNextResponse, DeliverNow, Drop, Hold, QueueAfterPlayback, QueueUntilFree, QueueUntilQuiet, SuppressAndPersist,
    };
    let until_quiet = QueueUntilQuiet { min_quiet_ms: channel.min_quiet_ms };
    if asked.terminal {
        return (Drop, None); // 1
    }
    if asked.stale {
        return (SuppressAndPersist, None); // 2
    }
    if !channel.live {
        return (Hold, Some(Blocker::NoSession)); // 3
    }
    if !channel.identified {
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
    if channel.playback.is_some() {
        return (QueueAfterPlayback, Some(Blocker::PlaybackActive)); // 9
    }
    if channel.reply_unfinished {
        return (QueueAfterPlayback, Some(Blocker::ReplyUnfinished)); // 9
    }
    if channel.quiet_ms < channel.min_quiet_ms && !channel.window_open {
        return (until_quiet, Some(Blocker::QuietTooShort)); // 10
    }
    if asked.ride_only {
        return (Hold, Some(Blocker::RideOnly));
    }
    (DeliverNow { interrupt: false }, None) // 11
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
        _ => above_what_plays && asked.can_interrupt == CanInterrupt::Caller,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: ChannelSnapshot = ChannelSnapshot {
        live: true,
        identified: true,
        on_hold: false,
        floor_held: false,
        acoustic: Acoustic::Quiet,
        turn_open: false,
        playback: None,
        reply_unfinished: false,
        quiet_ms: 650,
        window_open: false,
        min_quiet_ms: 650,
    };

    const NORMAL: Asked =
        Asked { terminal: false, stale: false, priority: Priority::Normal, can_interrupt: CanInterrupt::Agent, ride_only: false };

    const URGENT: Asked = Asked { priority: Priority::Urgent, ..NORMAL };

    #[test]
    fn the_first_rule_that_applies_answers() {
        use DeliveryDecision::*;
        let until_quiet = QueueUntilQuiet { min_quiet_ms: 650 };
        let everything = ChannelSnapshot {
            live: false,
            identified: false,
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
        channel.identified = true;
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
    }
}
