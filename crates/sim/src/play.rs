//! Plays a script, and says what was found.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use crate::edges::Coverage;
use crate::script::Script;
use crate::violation::{Invariant, Violation};
use crate::world::World;

/// What playing a script came to.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What was found.
    pub violation: Option<Violation>,
    /// The edges that were taken.
    pub coverage: Coverage,
    /// How long it took in virtual time (ms).
    pub virtual_ms: u64,
    /// Everything that was wanted, as one number; zero where that is not asked for.
    pub digest: u64,
}

/// Plays a script.
pub fn play(script: &Script) -> Outcome {
    playing(script, false)
}

/// Plays a script twice (I15: the same inputs and seed give the same effects), and replays the redacted traces that it leaves.
pub fn twice(script: &Script) -> Outcome {
    let mut first = playing(script, true);
    if first.violation.is_none() {
        let second = playing(script, true);
        if second.digest != first.digest {
            let what = "played twice, it had other effects the second time".to_owned();
            first.violation = Some(Violation { invariant: Invariant::I15, at_ms: first.virtual_ms, what });
        }
    }
    first
}

fn playing(script: &Script, closely: bool) -> Outcome {
    let mut world = if closely { World::with_traces(&script.parameters) } else { World::new(&script.parameters) };
    world.rig.watch.digest = closely.then(DefaultHasher::new);
    let panicked = quietly(|| {
        for event in &script.events {
            world.pass_to(event.at_ms);
            if world.rig.findings.violation().is_some() {
                return;
            }
            world.act(&event.action);
        }
        world.finish();
    });
    let rig = &world.rig;
    let (now, found, coverage) = (rig.now, rig.findings.violation().cloned(), rig.findings.coverage.clone());
    let digest = rig.watch.digest.as_ref().map_or(0, Hasher::finish);
    // The traces end, and are replayed.
    let otherwise = quietly(|| drop(world));
    let broken = |invariant: Invariant, what: String| Violation { invariant, at_ms: now, what };
    let core = panicked.map(|what| broken(Invariant::Core, what));
    let replayed = otherwise.map(|what| broken(Invariant::I15, what));
    Outcome { violation: found.or(core).or(replayed), coverage, virtual_ms: now, digest }
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
    static WHERE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs what may panic, without a word on stderr: what it said, and where.
pub(crate) fn quietly(run: impl FnOnce()) -> Option<String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if QUIET.get() {
                let place = info.location().map(ToString::to_string).unwrap_or_default();
                WHERE.with_borrow_mut(|known| *known = place);
            } else {
                before(info);
            }
        }));
    });
    QUIET.set(true);
    let result = catch_unwind(AssertUnwindSafe(run));
    QUIET.set(false);
    result.err().map(|panic| format!("{} ({})", said(&*panic), WHERE.with_borrow(Clone::clone)))
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without words".to_owned())
}
