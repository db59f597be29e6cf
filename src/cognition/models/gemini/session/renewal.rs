//! When a connection is given up for another one, and whether that one goes on with its session.

use recado_core::Time;

use super::Session;

/// How a connection stands.
#[derive(Debug, Default)]
pub(super) struct Renewal {
    /// With what the session can be resumed as it is now.
    pub handle: Option<String>,
    /// When another connection is due.
    due_at: Option<Time>,
    /// Whether it is.
    due: bool,
    /// When it can't wait any longer for the caller to have spoken: the service ends the connection soon after.
    at_last: Option<Time>,
    pressing: bool,
    /// So long is waited, between two turns, for the service to say how the session is resumed.
    handle_until: Option<Time>,
    waited: bool,
}

impl Renewal {
    /// That of a connection that is good until then.
    pub fn until(due_at: Time) -> Self {
        Self { due_at: Some(due_at), ..Self::default() }
    }

    /// The service ends the connection in so many milliseconds.
    pub fn go_away(&mut self, now: Time, left_ms: Option<u64>) {
        self.due = true;
        self.due_at = None;
        self.at_last = left_ms.map(|left| now.plus(left.saturating_sub(AT_LAST_MS)));
        self.wake(now);
    }

    pub fn deadline(&self) -> Option<Time> {
        [self.due_at, self.at_last, self.handle_until].into_iter().flatten().min()
    }

    pub fn wake(&mut self, now: Time) {
        let passed = |at: &mut Option<Time>| at.take_if(|at| now >= *at).is_some();
        self.due |= passed(&mut self.due_at);
        self.pressing |= passed(&mut self.at_last);
        self.waited |= passed(&mut self.handle_until);
    }
}

impl Session {
    /// Replaces the connection where that is due, and nothing is lost by it.
    pub(super) fn renew(&mut self, now: Time) {
        let renewal = &mut self.renewal;
        let quiet = self.caller.is_idle() && !self.activity.is_open();
        // What the caller is saying is kept, and heard on the next connection.
        if !renewal.due || !self.generation.is_idle() || !(quiet || renewal.pressing) {
            return;
        }
        if self.setup.resumption && renewal.handle.is_none() && !renewal.waited && !renewal.pressing {
            renewal.handle_until.get_or_insert(now.plus(HANDLE_MS_MAX));
            return;
        }
        self.reconnect(now, "the session is near its limit");
    }
}

/// So much before its end, a connection is given up in the middle of what the caller says (ms).
const AT_LAST_MS: u64 = 2_000;
/// How long the service may take after a turn to say how the session is resumed (ms).
const HANDLE_MS_MAX: u64 = 2_000;
