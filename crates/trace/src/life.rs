//! What the ledgers' traces tell of operations and deliveries: their states, once durable, over calls and restarts.

use std::collections::{BTreeMap, BTreeSet};

use recado_core::ids::{BootId, DeliveryId, OperationId, SessionId};
use recado_core::ledger::{CommitId, Input, OperationState};
use recado_core::time::{Time, Wall};
use serde::Serialize;

use crate::fact::Fact;
use crate::lanes::{Span, Track};
use crate::read::Trace;
use crate::story::{OperationLife, Story};
use crate::subject::{LedgerStart, SubjectKind};

/// Something in a delivery's life.
#[derive(Debug, Clone, Serialize)]
pub struct Event {
    /// The life of the process that it happened in.
    pub boot: BootId,
    /// When, on that boot's clock (ms).
    pub at_ms: u64,
    /// When, by the wall clock.
    pub wall: Wall,
    /// The conversation that saw it; none for the ledger.
    pub session: Option<SessionId>,
    /// What.
    pub what: String,
}

/// The life of a delivery over all these traces, whose order is that in which the boots were. Empty where none knows it.
pub fn life(delivery: DeliveryId, traces: &[Trace]) -> Vec<Event> {
    let mut boots: Vec<BootId> = Vec::new();
    let mut events: Vec<(usize, Event)> = Vec::new();
    for trace in traces {
        let boot = trace.header.boot;
        let order = boots.iter().position(|known| *known == boot).unwrap_or_else(|| {
            boots.push(boot);
            boots.len() - 1
        });
        let found = match trace.header.of {
            SubjectKind::Ledger => of_ledger(delivery, trace),
            SubjectKind::Conversation => of_conversation(delivery, trace),
        };
        events.extend(found.into_iter().map(|event| (order, event)));
    }
    // Within a boot by its clock; over boots never by time. The sort keeps the order of what came at once.
    events.sort_by_key(|(order, event)| (*order, event.at_ms));
    events.into_iter().map(|(_, event)| event).collect()
}

/// Operations of a conversation, or of what it was offered, between two times.
pub(crate) fn operations_of(
    ledger: &Trace,
    session: SessionId,
    offered: &BTreeSet<OperationId>,
    from: Time,
    to: Time,
) -> Vec<OperationLife> {
    let mut lives: BTreeMap<OperationId, (String, Track<OperationState>)> = BTreeMap::new();
    let mut order: Vec<OperationId> = Vec::new();
    if let Some(start) = start(ledger) {
        for record in start.snapshot.operations.iter().filter(|record| record.session == session || offered.contains(&record.id)) {
            let (_, track) = lives.entry(record.id).or_insert_with(|| (record.tool.clone(), Track::new()));
            track.becomes(ledger.header.now, Some(record.state));
            order.push(record.id);
        }
    }
    for (now, fact) in durable(ledger) {
        if let Fact::Operation { operation, session: of, tool, state, .. } = fact
            && (of == session || offered.contains(&operation))
        {
            let (_, track) = lives.entry(operation).or_insert_with(|| {
                order.push(operation);
                (tool, Track::new())
            });
            track.becomes(now, Some(state));
        }
    }
    let within = |span: &Span<OperationState>| span.to >= from && span.from <= to;
    let mut life = |operation: OperationId| {
        let (tool, track) = lives.remove(&operation)?;
        let states = track.until(to.max(from)).into_iter().filter(within).collect();
        Some(OperationLife { operation, tool: Some(tool), states })
    };
    order.into_iter().filter_map(&mut life).filter(|life| !life.states.is_empty()).collect()
}

/// The facts of a ledger's trace, when they became durable.
fn durable(trace: &Trace) -> Vec<(Time, Fact)> {
    let mut waiting: BTreeMap<CommitId, Vec<Fact>> = BTreeMap::new();
    let mut facts = Vec::new();
    let begun = trace.header.begin.iter().flat_map(|begin| begin.outcome.facts.clone());
    begun.for_each(|fact| keep(&mut waiting, fact));
    for entry in &trace.entries {
        match serde_json::from_value::<Input>(entry.input.clone()) {
            Ok(Input::Durable(commit)) => {
                facts.extend(waiting.remove(&commit).unwrap_or_default().into_iter().map(|fact| (entry.now, fact)));
            }
            Ok(Input::CommitFailed { commit, .. }) => drop(waiting.remove(&commit)),
            _ => {}
        }
        entry.outcome.facts.iter().cloned().for_each(|fact| keep(&mut waiting, fact));
    }
    facts
}

fn keep(waiting: &mut BTreeMap<CommitId, Vec<Fact>>, fact: Fact) {
    if let Fact::Operation { commit, .. } | Fact::Delivery { commit, .. } | Fact::Claimed { commit, .. } = &fact {
        waiting.entry(*commit).or_default().push(fact);
    }
}

fn of_ledger(delivery: DeliveryId, trace: &Trace) -> Vec<Event> {
    let event = |at: Time, what: String| {
        let unix_ms = trace.header.wall.unix_ms.saturating_add(i64::try_from(at.since(trace.header.now)).unwrap_or(0));
        let wall = Wall { unix_ms, ..trace.header.wall };
        Event { boot: trace.header.boot, at_ms: at.0, wall, session: None, what }
    };
    let mut events = Vec::new();
    if let Some(record) = start(trace).into_iter().flat_map(|start| start.snapshot.deliveries).find(|record| record.id == delivery) {
        events.push(event(trace.header.now, format!("the box starts; on record it is {}", name(record.state))));
    }
    for (now, fact) in durable(trace) {
        match fact {
            Fact::Delivery { delivery: of, state, attempt, superseded_by, .. } if of == delivery => {
                let by = superseded_by.map_or(String::new(), |by| format!(" by {by}"));
                let cut = if attempt > 0 { format!(", cut or in doubt {attempt} times") } else { String::new() };
                events.push(event(now, format!("{}{by}{cut}", name(state))));
            }
            Fact::Claimed { delivery: of, session, route, .. } if of == delivery => {
                events.push(event(now, format!("claimed by {session}, to {}", name(route))));
            }
            _ => {}
        }
    }
    events
}

fn of_conversation(delivery: DeliveryId, trace: &Trace) -> Vec<Event> {
    let Ok(story) = Story::of(trace, None) else { return Vec::new() };
    let Some(told) = story.deliveries.iter().find(|told| told.delivery == delivery) else { return Vec::new() };
    let event = |at: Time, what: String| {
        let unix_ms = trace.header.wall.unix_ms.saturating_add(i64::try_from(at.since(trace.header.now)).unwrap_or(0));
        let wall = Wall { unix_ms, ..trace.header.wall };
        Event { boot: trace.header.boot, at_ms: at.0, wall, session: Some(story.session), what }
    };
    let mut events = vec![event(told.offered, "offered".to_owned())];
    events.extend(told.phases.iter().map(|phase| {
        let (name, ms) = (phase.what.name(), phase.to.since(phase.from));
        event(phase.from, format!("{name}, for {ms} ms"))
    }));
    let ended = told.phases.last().map_or(told.offered, |phase| phase.to);
    events.push(event(ended, told.end.sentence().to_owned()));
    events
}

fn start(trace: &Trace) -> Option<LedgerStart> {
    serde_json::from_value(trace.header.begin.as_ref()?.start.clone()).ok()
}

/// What the contract calls a state, a route or a blocker.
pub(crate) fn name(what: impl Serialize) -> String {
    serde_json::to_value(what).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}
