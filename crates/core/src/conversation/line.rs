//! The line: its end, hold, who is on it, silence on it and who may break it, and hanging up.

use super::barge_in::Why;
use super::effect::{Cause, Effect};
use super::input::Identity;
use super::{Conversation, Cx};
use crate::faults::{Fault, fault};
use crate::gate::Blocker;
use crate::time::Time;
use crate::timers::Timer;

impl Conversation {
    pub(super) fn channel_over(&mut self, cx: &mut Cx) {
        if self.over.is_some() {
            return;
        }
        self.over = Some(cx.now);
        self.hang_up = None;
        self.floor_held_since = None;
        self.collecting = None;
        self.read_backs.clear();
        self.verifying.over();
        self.close_reply(cx);
        self.late = None;
        self.deferred.clear();
        self.cut_by_caller.clear();
        self.updates.clear();
        self.cut_current(cx, Why::Over);
    }

    pub(super) fn hold(&mut self, cx: &mut Cx, on: bool) {
        if on && !self.on_hold() {
            self.cut_current(cx, Why::Hold);
            self.stop_measuring();
            self.nothing_is_heard_from(cx.now);
        }
        self.held_since = on.then(|| self.held_since.unwrap_or(cx.now));
        self.window_since = None;
        // What the far end played to the caller meanwhile is not known: quiet begins anew.
        self.playback_ended = cx.now;
    }

    pub(super) fn on_hold(&self) -> bool {
        self.held_since.is_some()
    }

    /// Who is on the line is known better, or less well. What they may not hear is not said to its end (I14).
    pub(super) fn identified(&mut self, cx: &mut Cx, identity: Identity) {
        let another = identity < self.identity;
        if another {
            self.verifying.another_caller();
        }
        self.identity = identity;
        if another {
            // Who is on the line now has been asked nothing.
            self.nobody_consents(cx);
        }
        self.stop_verifying(cx);
        for delivery in self.told_without_right() {
            self.stop_telling(cx, delivery);
        }
        // No reply waits for what may not be told.
        for delivery in self.withheld() {
            self.closing_not_granted(delivery);
        }
        self.settle_told(cx);
    }

    /// A machine answered. What is said to it is heard by nobody, or by anybody: nothing is told to it, and nothing credits.
    pub(super) fn machine_answered(&mut self, cx: &mut Cx) {
        if std::mem::replace(&mut self.voicemail, true) {
            return;
        }
        self.updates.clear();
        self.nobody_consents(cx);
        self.stop_verifying(cx);
        for delivery in self.being_told() {
            self.stop_telling(cx, delivery);
        }
        self.nothing_was_heard(cx);
    }

    /// Whether nobody has anything to say, and the call is not about to end.
    pub(super) fn has_room(&self) -> bool {
        self.idle() && self.hang_up.is_none() && !self.hung_up
    }

    /// The model speaks of its own accord where there is room. Its wish does not wait: what it wanted to say is about that moment.
    pub(super) fn let_model_speak(&mut self, cx: &mut Cx) {
        if std::mem::take(&mut self.wants_to_speak) && self.has_room() {
            self.request(cx, Cause::OwnAccord);
        }
    }

    pub(super) fn silence_due(&self) -> Option<Time> {
        let silence_ms = self.settings.silence_ms?;
        self.has_room().then(|| self.quiet_since().plus(silence_ms))
    }

    pub(super) fn break_silence(&mut self, cx: &mut Cx) {
        if self.silence_due().is_some_and(|due| due <= cx.now) {
            let quiet_ms = cx.now.since(self.quiet_since());
            // The next silence is counted from here, even if the model has nothing to say.
            self.playback_ended = cx.now;
            self.request(cx, Cause::Silence { quiet_ms });
        }
    }

    pub(super) fn hang_up_due(&self) -> Option<Time> {
        let since = self.hang_up?;
        if self.hung_up || self.over.is_some() {
            return None;
        }
        let told_by = since.plus(self.ms(Timer::HangUpMax));
        if self.on_hold() {
            return Some(told_by); // Nobody is there to be told anything.
        }
        if !self.idle() {
            return None;
        }
        let tail = self.quiet_since().plus(self.ms(Timer::HangUpTail));
        // The agent does not hang up over what is ready and may be told here.
        Some(if self.owes_this_party() && !fault(Fault::HangsUpOverReady) { tail.max(told_by) } else { tail })
    }

    /// Whether something waits that whoever is on the line may hear, without having to ask for it.
    fn owes_this_party(&self) -> bool {
        let withheld = |blocker| matches!(blocker, Blocker::NoSession | Blocker::IdentityUnknown | Blocker::RideOnly);
        self.offers.values().any(|offer| !offer.blocker().is_some_and(withheld))
    }

    pub(super) fn hang_up_when_told(&mut self, cx: &mut Cx) {
        if self.hang_up_due().is_some_and(|due| due <= cx.now) {
            self.hung_up = true;
            cx.out.push(Effect::HangUp);
        }
    }
}
