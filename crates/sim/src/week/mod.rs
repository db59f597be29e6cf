//! Seven days of one box: callers come and go, errands take hours and days, a tool is out of reach for one of them, the box dies and is
//! stopped, its clock is set, its store removes what is over, and what tools have said they say again days later.
//!
//! Each tool has its own ledger of what was asked for under which key: at the end, each wish of a caller has had its effect exactly once, each
//! closing has been heard by its party, and nothing waits. The contract's invariants are checked after every step, as everywhere here.
//!
//! * [`plan`] draws a week from a seed · [`shops`] are the tools · [`explore`](mod@explore) goes through seeds · this is the box, and who calls it

pub mod explore;
pub mod plan;
pub mod shops;

pub use explore::{Failure, Report, explore};

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;

use recado_core::conversation::{Cause, Content, Input, ModelEvent, ToolCall};
use recado_core::ids::DeliveryId;
use recado_core::ledger::{DOUBTS_MAX, DeliveryKind, DeliveryRecord, DeliveryState, OperationRecord, OperationState};
use recado_core::policy::Language;
use serde_json::{Value, json};

use self::plan::{DAY, Happening, Plan, Visit, What};
use self::shops::{FLOWERS, Manner, SHOPS, Shops, manner_of, tools};
use crate::play::quietly;
use crate::rig::Rig;
use crate::violation::{Findings, Invariant, Violation};

/// What came of a week.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What was found.
    pub violation: Option<Violation>,
    /// How long it took in virtual time (ms).
    pub virtual_ms: u64,
    /// Everything that was wanted, as one number; zero where that is not asked for.
    pub digest: u64,
    /// What happened in it.
    pub counted: Counted,
}

/// What happened in a week, or in several.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counted {
    /// Calls that were answered.
    pub calls: u64,
    /// What callers wanted.
    pub wishes: u64,
    /// What was done of it, by the tools' own count.
    pub effects: u64,
    /// Starts of the box after the first.
    pub restarts: u64,
    /// Results that tools sent by themselves, all copies.
    pub callbacks: u64,
    /// Requests that were made while the tool could not be reached.
    pub unreached: u64,
    /// Closings that were heard whole.
    pub heard: u64,
    /// Closings that were in doubt after a restart or a cut.
    pub doubted: u64,
    /// Operations of which nobody knows whether they were done.
    pub unknown: u64,
    /// Operations that the store had removed by the end.
    pub removed: u64,
}

impl Counted {
    /// Both together.
    pub fn add(&mut self, other: &Self) {
        let Self { calls, wishes, effects, restarts, callbacks, unreached, heard, doubted, unknown, removed } = other;
        self.calls += calls;
        self.wishes += wishes;
        self.effects += effects;
        self.restarts += restarts;
        self.callbacks += callbacks;
        self.unreached += unreached;
        self.heard += heard;
        self.doubted += doubted;
        self.unknown += unknown;
        self.removed += removed;
    }
}

/// Plays a week twice, and replays the redacted traces that its machines leave (I15).
pub fn twice(plan: &Plan) -> Outcome {
    let mut first = play(plan, true);
    if first.violation.is_none() && play(plan, true) != first {
        let what = "played twice, it had other effects the second time".to_owned();
        first.violation = Some(Violation { invariant: Invariant::I15, at_ms: first.virtual_ms, what });
    }
    first
}

/// Plays a week; `closely` with traces that are replayed, and a digest.
pub fn play(plan: &Plan, closely: bool) -> Outcome {
    let mut week = Week::begin(plan, closely);
    let panicked = quietly(|| week.play(plan));
    let (now, found) = (week.rig.now, week.rig.findings.violation().cloned());
    let digest = week.rig.watch.digest.as_ref().map_or(0, Hasher::finish);
    let counted = week.count();
    let otherwise = quietly(|| drop(week));
    let broken = |invariant: Invariant, what: String| Violation { invariant, at_ms: now, what };
    let core = panicked.map(|what| broken(Invariant::Core, what));
    let replayed = otherwise.map(|what| broken(Invariant::I15, what));
    Outcome { violation: found.or(core).or(replayed), virtual_ms: now, digest, counted }
}

/// A box, and who is around it.
struct Week {
    rig: Rig,
    shops: Shops,
    keep_ms: Option<i64>,
    /// When the store last looked for what has been over for long (ms).
    tended: u64,
    /// Who is on the line.
    callers: Vec<Caller>,
    wishes: Vec<Wish>,
    /// Closings that were seen in doubt.
    doubted: BTreeMap<DeliveryId, u64>,
    calls: u64,
    restarts: u64,
}

/// What somebody wants.
#[derive(Debug, Clone)]
struct Wish {
    party: &'static str,
    tool: &'static str,
    /// No two are the same.
    arguments: Value,
}

struct Caller {
    call: usize,
    party: &'static str,
    visit: Visit,
    /// What they ask for, in one turn.
    wants: Vec<Wish>,
    since: u64,
    /// What they have begun to say, and what the model has made of it.
    spoke: bool,
    asked: bool,
    interrupted: bool,
    spoke_of_cancelling: bool,
    cancelled: bool,
}

impl Week {
    fn begin(plan: &Plan, closely: bool) -> Self {
        let mut rig = if closely { Rig::new(tools()) } else { Rig::without_traces(tools()) };
        rig.findings = Findings::kept();
        rig.by_hand = true;
        rig.store.delay_ms = plan.store_delay_ms;
        rig.watch.digest = closely.then(DefaultHasher::new);
        let shops = Shops::new(plan.away.clone(), plan.lasts_ms.clone());
        Self {
            rig,
            shops,
            keep_ms: plan.keep_ms,
            tended: 0,
            callers: Vec::new(),
            wishes: Vec::new(),
            doubted: BTreeMap::new(),
            calls: 0,
            restarts: 0,
        }
    }

    fn play(&mut self, plan: &Plan) {
        for Happening { at_ms, what } in &plan.happenings {
            self.live_to(*at_ms);
            if self.rig.stopped() {
                return;
            }
            match what {
                What::Calls(visit) => self.calls_in(visit),
                What::Dies { kept } => self.dies(usize::from(*kept)),
                What::Stops => self.stops(),
                What::Clock { ms, synchronised } => {
                    self.rig.wall_jumped_ms += ms;
                    self.rig.wall_synchronised = *synchronised;
                }
                What::SaysAgain { which } => self.shops.says_again(usize::from(*which), &mut self.rig),
            }
        }
        self.live_to(7 * DAY);
        self.ends();
    }

    /// Lets time pass, quickly where nothing goes on.
    fn live_to(&mut self, at_ms: u64) {
        while self.rig.now < at_ms && !self.rig.stopped() {
            let goes_on = !self.callers.is_empty() || self.rig.store.in_flight() > 0 || self.shops.busy(&self.rig);
            let ms = if goes_on { SLICE } else { IDLE_SLICE };
            self.rig.run(ms.min(at_ms - self.rig.now));
            self.shops.attend(&mut self.rig);
            self.attend_callers();
            for record in self.rig.store.deliveries.values().filter(|record| record.state == DeliveryState::Uncertain) {
                self.doubted.entry(record.id).or_insert(self.rig.now);
            }
            if let Some(keep_ms) = self.keep_ms.filter(|_| self.rig.now >= self.tended + TEND) {
                self.tended = self.rig.now;
                self.rig.remove_over(keep_ms);
            }
        }
    }

    fn calls_in(&mut self, visit: &Visit) {
        let party = PARTIES[usize::from(visit.party) % PARTIES.len()];
        if self.callers.iter().any(|caller| caller.party == party) || self.callers.len() >= LINES {
            return;
        }
        let mut wants: Vec<Wish> = visit.wants.iter().zip(0..).map(|(tool, place)| self.wish(party, *tool, place)).collect();
        // What never came to be on record is asked for again, by who was cut off.
        wants.extend(self.wishes.iter().filter(|wish| wish.party == party && self.record(wish).is_none()).cloned());
        let under_way = |wish: &&Wish| wish.party == party && self.record(wish).is_some_and(|record| !record.state.settled());
        wants.extend(self.wishes.iter().filter(under_way).take(usize::from(visit.repeats)).cloned());
        let new = wants.iter().take(visit.wants.len()).cloned().collect::<Vec<_>>();
        self.wishes.extend(new);
        let call = self.rig.dial(Some(party));
        self.calls += 1;
        self.callers.push(Caller {
            call,
            party,
            visit: visit.clone(),
            wants,
            since: self.rig.now,
            spoke: false,
            asked: false,
            interrupted: false,
            spoke_of_cancelling: false,
            cancelled: false,
        });
    }

    fn wish(&self, party: &'static str, tool: u8, place: usize) -> Wish {
        let (tool, _) = SHOPS[usize::from(tool) % SHOPS.len()];
        Wish { party, tool, arguments: json!({ "of": self.wishes.len() + place }) }
    }

    fn record(&self, wish: &Wish) -> Option<&OperationRecord> {
        self.rig.store.operations_ever().find(|record| record.tool == wish.tool && record.arguments == wish.arguments)
    }

    /// Kills the process: it is started again.
    fn dies(&mut self, kept: usize) {
        self.callers.clear();
        self.restarts += 1;
        self.shops.box_died();
        self.rig.crash_keeping(kept);
    }

    /// Told to stop, it ends its calls, begins nothing, commits everything, and is started again.
    fn stops(&mut self) {
        for caller in std::mem::take(&mut self.callers) {
            if !self.rig.calls[caller.call].over {
                self.rig.hang_up(caller.call);
            }
        }
        for _ in 0..5 {
            self.shops.stop(&mut self.rig);
            self.rig.run(SLICE);
        }
        self.dies(usize::MAX);
    }

    fn attend_callers(&mut self) {
        for mut caller in std::mem::take(&mut self.callers) {
            if self.rig.stopped() {
                return;
            }
            self.attend(&mut caller);
            if !self.rig.calls[caller.call].over {
                self.callers.push(caller);
            }
        }
    }

    fn attend(&mut self, caller: &mut Caller) {
        let (at, call) = (self.rig.now - caller.since, caller.call);
        let up = &self.rig.calls[call];
        let told =
            up.quiet() && self.rig.store.claims.values().all(|(session, ..)| *session != up.session) && self.rig.store.in_flight() == 0;
        let leaves = caller.visit.leaves.map_or(at > STAYS && (told || at > STAYS_MAX), |after| at >= after);
        if up.hung_up || leaves {
            return self.rig.hang_up(call);
        }
        if let Some(response) = up.watch.open.filter(|_| self.rig.now >= up.asked_at + 150) {
            let of_a_turn = up.asked.last().is_some_and(|(_, cause)| matches!(cause, Cause::Turn { .. }));
            let content = |text: &str| Content::Text { text: text.into(), language: Language::Es };
            let mut says = vec![ModelEvent::Clause { response, content: content(if of_a_turn { "De acuerdo" } else { "Hola" }) }];
            if of_a_turn && !std::mem::replace(&mut caller.asked, true) {
                says.clear();
                says.extend(caller.wants.iter().enumerate().map(|(place, wish)| {
                    let call_id = format!("call-{place}");
                    let call = ToolCall { call_id, tool: wish.tool.into(), arguments: wish.arguments.clone(), confirmed: false };
                    ModelEvent::ToolCall { response, call }
                }));
            } else if of_a_turn && caller.spoke_of_cancelling && !std::mem::replace(&mut caller.cancelled, true) {
                says.insert(0, ModelEvent::CancelIntent { response, tool: Some(FLOWERS.into()), work: None });
            }
            says.push(ModelEvent::Complete { response });
            says.into_iter().for_each(|said| self.rig.input(call, Input::Model(said)));
        }
        if !caller.wants.is_empty() && at >= ASKS && !std::mem::replace(&mut caller.spoke, true) {
            self.rig.caller_speaks(call, 800);
        }
        if caller.visit.interrupts.is_some_and(|after| at >= after) && !std::mem::replace(&mut caller.interrupted, true) {
            self.rig.caller_speaks(call, 700);
        }
        if caller.visit.cancels && caller.asked && at >= CANCELS && !std::mem::replace(&mut caller.spoke_of_cancelling, true) {
            self.rig.caller_speaks(call, 900);
        }
    }

    /// The week is over: everybody calls until nothing is left to be told, and what was said once is said again.
    fn ends(&mut self) {
        for _ in 0..ROUNDS_MAX {
            if self.rig.stopped() || self.is_over() {
                break;
            }
            self.everybody_calls();
        }
        let left = self.left();
        self.rig.findings.now = self.rig.now;
        self.rig.findings.check(left.is_empty(), Invariant::I13, || format!("a week and {ROUNDS_MAX} calls of everybody later: {left}"));
        let heard = self.rig.watch.told.whole.clone();
        for again in 0..2 * self.shops.results() {
            self.shops.says_again(again, &mut self.rig);
        }
        let effects = self.effects();
        self.everybody_calls();
        let (heard_now, effects_now) = (&self.rig.watch.told.whole, self.effects());
        let nothing_new = *heard_now == heard;
        self.rig.findings.check(nothing_new, Invariant::I1, || "after the end, a result that was repeated is told".into());
        self.rig.findings.check(effects_now == effects, Invariant::I3, || "after the end, a result that was repeated has effects".into());
        self.each_wish_was_done_once();
        self.each_closing_was_heard();
        let unanswered = self.rig.unanswered();
        self.rig.findings.check(unanswered.is_empty(), Invariant::I16, || format!("R3: nobody answers {unanswered:?}"));
    }

    fn everybody_calls(&mut self) {
        for party in 0..PARTIES.len() {
            self.calls_in(&Visit { party: party as u8, ..Visit::default() });
            self.live_to(self.rig.now + 2 * STAYS_MAX);
        }
        self.live_to(self.rig.now + 6 * 3_600_000);
    }

    fn is_over(&self) -> bool {
        self.left().is_empty()
    }

    /// What is not over, in words.
    fn left(&self) -> String {
        let mut left = String::new();
        let asked = self.wishes.iter().filter(|wish| self.record(wish).is_none());
        asked.for_each(|wish| left += &format!("never on record: {wish:?}; "));
        let store = &self.rig.store;
        store.operations.values().filter(|record| !record.state.settled()).for_each(|record| left += &format!("never over: {record:?}; "));
        let open = store.deliveries.values().filter(|record| !record.state.terminal() && !told_in_doubt(record));
        open.for_each(|record| left += &format!("never told: {record:?}; "));
        if !self.shops.all_said() && !self.left_in_doubt() {
            left += "a tool has not said all; ";
        }
        left
    }

    /// Whether only what nobody knows is left of what tools have not said.
    fn left_in_doubt(&self) -> bool {
        let unsaid = self.shops.orders.values().filter(|order| !order.said);
        let state = |of| self.rig.store.operation_ever(of).map(|record| record.state);
        unsaid.into_iter().all(|order| state(order.operation).is_some_and(OperationState::settled))
    }

    fn effects(&self) -> u64 {
        self.shops.orders.values().map(|order| u64::from(order.effects)).sum()
    }

    /// I3, by the tools' own count: one key for each wish, under which it was done exactly once, or not at all where it was refused.
    fn each_wish_was_done_once(&mut self) {
        let mut wrong = Vec::new();
        for wish in &self.wishes {
            let orders = self.shops.orders.values().filter(|order| order.tool == wish.tool && order.wish == wish.arguments);
            let effects: Vec<u32> = orders.map(|order| order.effects).collect();
            let unsent = self.record(wish).is_some_and(|record| record.state == OperationState::Unknown);
            let right = match manner_of(wish.tool) {
                Manner::Refuses => effects == [0],
                // Committed, and cut off before it left: nobody could know that, and it was not tried again.
                Manner::TakesATask | Manner::KnowsNoKeys if unsent => effects.is_empty() || effects == [1],
                _ => effects == [1],
            };
            if !right {
                wrong.push(format!("{wish:?} had these effects, by key: {effects:?}"));
            }
        }
        let keys = self.shops.orders.len();
        self.rig.findings.check(wrong.is_empty(), Invariant::I3, || wrong.join("; "));
        self.rig.findings.check(keys <= self.wishes.len(), Invariant::I3, || format!("{keys} keys for {} wishes", self.wishes.len()));
    }

    /// I1, I2: every closing of the week was heard by its party, and only what was cut or in doubt more than once.
    fn each_closing_was_heard(&mut self) {
        let whole = &self.rig.watch.told.whole;
        let times = |record: &DeliveryRecord| whole.get(&record.id).copied().unwrap_or_default();
        let finals = |record: &&DeliveryRecord| record.kind == DeliveryKind::Final;
        let mut wrong = Vec::new();
        for record in self.rig.store.deliveries_ever().filter(finals) {
            let spoken = record.state == DeliveryState::Spoken || told_in_doubt(record);
            let in_doubt = self.doubted.contains_key(&record.id) || record.attempt > 0;
            let right = spoken && times(record) >= 1 && (in_doubt || times(record) == 1);
            if !right {
                wrong.push(format!("heard {} times: {record:?}", times(record)));
            }
        }
        self.rig.findings.check(wrong.is_empty(), Invariant::I2, || wrong.join("; "));
    }

    fn count(&self) -> Counted {
        let store = &self.rig.store;
        Counted {
            calls: self.calls,
            wishes: self.wishes.len() as u64,
            effects: self.effects(),
            restarts: self.restarts,
            callbacks: self.shops.callbacks,
            unreached: self.shops.unreached,
            heard: self.rig.watch.told.whole.values().map(|times| u64::from(*times)).sum(),
            doubted: self.doubted.len() as u64,
            unknown: store.operations_ever().filter(|record| record.state == OperationState::Unknown).count() as u64,
            removed: store.removed.operations.len() as u64,
        }
    }
}

/// Whether it is visible as uncertain for good: told so often in doubt that it is told no more unless it is asked for.
fn told_in_doubt(record: &DeliveryRecord) -> bool {
    record.state == DeliveryState::Uncertain && record.attempt >= DOUBTS_MAX
}

/// Who calls, by their place.
const PARTIES: [&str; 3] = ["ana", "bea", "eva"];

/// Calls at a time.
const LINES: usize = 2;

/// How long time passes before somebody looks whether something is due (ms), while something goes on and while nothing does.
const SLICE: u64 = 200;
const IDLE_SLICE: u64 = 60_000;

/// How often the store looks for what has been over for long (ms).
const TEND: u64 = 600_000;

/// When a caller says what they want, and when that they want the flowers no more (ms after the call began).
const ASKS: u64 = 5_000;
const CANCELS: u64 = 14_000;

/// How long who waits for what there is to be told stays on the line, and at most (ms).
const STAYS: u64 = 25_000;
const STAYS_MAX: u64 = 240_000;

/// Everything takes three days at most, and begins by the end of the week.
const ROUNDS_MAX: u32 = 24;
