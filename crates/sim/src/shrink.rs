//! Cuts a script that fails down to what is needed (delta debugging: Zeller, Hildebrandt, IEEE TSE 28, 2002).
//!
//! Three kinds of cuts, over and over until none of them helps: events go, in ever smaller groups; time between events goes; what
//! is odd about the box goes. A cut counts if the same invariant is still broken.

use crate::script::{Parameters, Script};
use crate::violation::{Invariant, Violation};

/// The smallest script found that still breaks what `violation` says, with what then breaks. `play` plays one.
pub fn shrink(script: &Script, violation: &Violation, play: impl Fn(&Script) -> Option<Violation>) -> (Script, Violation) {
    let mut found = Found { script: script.clone(), violation: violation.clone(), tries: 0, play };
    loop {
        let before = found.script.clone();
        found.fewer_events();
        found.plainer_box();
        found.less_time();
        if found.script == before || found.tries >= TRIES_MAX {
            return (found.script, found.violation);
        }
    }
}

struct Found<P> {
    script: Script,
    violation: Violation,
    tries: u32,
    play: P,
}

impl<P: Fn(&Script) -> Option<Violation>> Found<P> {
    /// Takes a cut if the same thing still breaks.
    fn takes(&mut self, cut: Script) -> bool {
        if self.tries >= TRIES_MAX || cut == self.script {
            return false;
        }
        self.tries += 1;
        let invariant: Invariant = self.violation.invariant;
        match (self.play)(&cut).filter(|violation| violation.invariant == invariant) {
            Some(violation) => {
                (self.script, self.violation) = (cut, violation);
                true
            }
            None => false,
        }
    }

    fn fewer_events(&mut self) {
        let mut size = self.script.events.len().div_ceil(2);
        while size > 0 {
            let mut at = 0;
            while at < self.script.events.len() {
                let mut cut = self.script.clone();
                cut.events.drain(at..(at + size).min(cut.events.len()));
                if !self.takes(cut) {
                    at += size;
                }
            }
            size /= 2;
        }
    }

    fn plainer_box(&mut self) {
        let plain = Parameters::default();
        let cuts: [fn(&mut Parameters, &Parameters); 11] = [
            |own, plain| own.marks = plain.marks,
            |own, plain| own.line = plain.line,
            |own, plain| own.link_ms = plain.link_ms,
            |own, plain| own.silence_ms = plain.silence_ms,
            |own, plain| own.timers = plain.timers.clone(),
            |own, plain| own.render_ms = plain.render_ms,
            |own, plain| own.store_delay_ms = plain.store_delay_ms,
            |own, plain| own.rtcp = plain.rtcp,
            |own, plain| own.answer_after_ms = plain.answer_after_ms,
            |own, plain| own.report_after_ms = plain.report_after_ms,
            |own, plain| own.keep_ms = plain.keep_ms,
        ];
        for plainer in cuts {
            let mut cut = self.script.clone();
            plainer(&mut cut.parameters, &plain);
            self.takes(cut);
        }
    }

    fn less_time(&mut self) {
        for at in 0..self.script.events.len() {
            for share in [1, 2, 4] {
                let before = at.checked_sub(1).map_or(0, |before| self.script.events[before].at_ms);
                let gap = self.script.events[at].at_ms - before;
                let less = gap / share;
                let mut cut = self.script.clone();
                cut.events[at..].iter_mut().for_each(|event| event.at_ms -= less);
                if less == 0 || self.takes(cut) {
                    break;
                }
            }
        }
    }
}

/// Scripts that are played at most while one is cut.
const TRIES_MAX: u32 = 4_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Action;

    #[test]
    fn only_what_is_needed_is_left() {
        // Broken where somebody coughs, and the box dies more than a second later.
        let breaks = |script: &Script| {
            let cough = script.events.iter().find(|event| matches!(event.action, Action::Cough { .. }))?;
            let crash = script.events.iter().rfind(|event| matches!(event.action, Action::Crash { .. }))?;
            let broken = crash.at_ms > cough.at_ms + 1_000;
            broken.then(|| Violation { invariant: Invariant::I1, at_ms: crash.at_ms, what: String::new() })
        };
        let (script, violation) = (0..).map(Script::of_seed).find_map(|script| breaks(&script).map(|found| (script, found))).unwrap();
        assert!(script.events.len() > 5);
        let (small, found) = shrink(&script, &violation, breaks);
        assert_eq!(small.events.len(), 2, "{small:?}");
        assert_eq!(small.parameters, Parameters::default());
        assert!(small.events[0].at_ms == 0 && found.at_ms < 3_000, "{small:?}");
    }
}
