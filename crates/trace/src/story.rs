//! What a conversation's trace tells people: the clocks over time, and for each delivery what it waited for.

use std::collections::{BTreeMap, BTreeSet};

use recado_core::conversation::{Acoustic, Clocks, GenerationState, Input, PlaybackEvent, PlaybackState, SegmentRef};
use recado_core::gate::{Blocker, DeliveryDecision};
use recado_core::ids::{DeliveryId, OperationId, SessionId};
use recado_core::ledger::{ClauseEvidence, ClauseVerdict, News, OperationState, Route};
use recado_core::time::Time;
use serde::Serialize;

use crate::fact::Fact;
use crate::lanes::{Span, Track};
use crate::life::{name, operations_of};
use crate::line::{Entry, Outcome};
use crate::read::Trace;
use crate::subject::ConversationStart;

/// A conversation as it went.
#[derive(Debug, Clone)]
pub struct Story {
    /// The conversation.
    pub session: SessionId,
    /// Whom it was with, as the trace names them.
    pub party: Option<String>,
    /// When it began.
    pub from: Time,
    /// When the trace ends.
    pub to: Time,
    /// The caller's clock.
    pub caller: Vec<Span<Acoustic>>,
    /// The generation clock.
    pub generation: Vec<Span<GenerationState>>,
    /// The playback clock.
    pub playback: Vec<Span<PlaybackState>>,
    /// The operations of this conversation, or of what was offered to it.
    pub operations: Vec<OperationLife>,
    /// The deliveries that were offered, in the order in which they were.
    pub deliveries: Vec<DeliveryStory>,
    /// When the channel was over.
    pub over: Option<Time>,
}

/// An operation while the conversation lasted.
#[derive(Debug, Clone)]
pub struct OperationLife {
    /// The operation.
    pub operation: OperationId,
    /// Its tool, where it is known.
    pub tool: Option<String>,
    /// Its states.
    pub states: Vec<Span<OperationState>>,
}

/// A delivery as this conversation saw it.
#[derive(Debug, Clone)]
pub struct DeliveryStory {
    /// The delivery.
    pub delivery: DeliveryId,
    /// The operations that it closes.
    pub operations: Vec<OperationId>,
    /// When it became ready; none where that was before this boot.
    pub ready: Option<Time>,
    /// When it was offered.
    pub offered: Time,
    /// What it waited for and what happened to it, one after the other.
    pub phases: Vec<Span<Phase>>,
    /// How often it was cut here.
    pub cuts: u32,
    /// How it ended here.
    pub end: End,
}

/// What a delivery does at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It waits for what the gate named.
    Waits(Blocker),
    /// Its claim is being committed.
    Claim(Route),
    /// Its words have been given to the voice; none has sounded.
    Voice,
    /// It is spoken.
    Speaking,
    /// All of it has left the box; the far end has not reported.
    Evidence,
}

/// How a delivery ended in this conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// It was heard.
    Heard,
    /// It was cut before all of it was heard.
    Cut,
    /// Nobody knows whether it was heard.
    Uncertain,
    /// It was stale, and is kept without being told.
    Stale,
    /// It is not to be told here any more: superseded, or told elsewhere.
    Withdrawn,
    /// It waits for the party's next call.
    Waits,
}

impl Story {
    /// The story of a conversation's trace. `ledger` is the trace of the same boot's ledger, for the operations.
    ///
    /// # Errors
    /// When the trace does not begin as a conversation of today does.
    pub fn of(trace: &Trace, ledger: Option<&Trace>) -> Result<Self, String> {
        let begin = trace.header.begin.as_ref().ok_or("its beginning is missing")?;
        let start: ConversationStart = serde_json::from_value(begin.start.clone()).map_err(|error| error.to_string())?;
        let mut teller = Teller::default();
        teller.outcome(trace.header.now, None, &begin.outcome);
        for entry in &trace.entries {
            teller.entry(entry);
        }
        let to = trace.entries.last().map_or(trace.header.now, |entry| entry.now);
        let session = start.channel.session;
        let offered: BTreeSet<OperationId> = teller.deliveries.iter().flat_map(|told| told.operations.clone()).collect();
        let operations = match ledger {
            Some(ledger) => operations_of(ledger, session, &offered, trace.header.now, to),
            None => teller.operations(to),
        };
        Ok(Self {
            session,
            party: start.channel.party.map(|party| party.0),
            from: trace.header.now,
            to,
            caller: teller.caller.until(to),
            generation: teller.generation.until(to),
            playback: teller.playback.until(to),
            operations,
            deliveries: teller.deliveries.into_iter().map(|delivery| delivery.until(to)).collect(),
            over: teller.over,
        })
    }
}

impl DeliveryStory {
    /// How long each phase lasted in all (ms), in the order in which they first came.
    pub fn totals(&self) -> Vec<(Phase, u64)> {
        let mut totals: Vec<(Phase, u64)> = Vec::new();
        for phase in &self.phases {
            let ms = phase.to.since(phase.from);
            match totals.iter_mut().find(|(known, _)| *known == phase.what) {
                Some((_, total)) => *total += ms,
                None => totals.push((phase.what, ms)),
            }
        }
        totals
    }
}

impl Phase {
    /// Its name, for people: a blocker's is the contract's.
    pub fn name(self) -> String {
        match self {
            Self::Waits(blocker) => name(blocker),
            Self::Claim(route) => format!("claim, to {}", name(route)),
            Self::Voice => "the voice".to_owned(),
            Self::Speaking => "speaking".to_owned(),
            Self::Evidence => "evidence".to_owned(),
        }
    }
}

/// Follows a trace from line to line.
#[derive(Debug)]
struct Teller {
    caller: Track<Acoustic>,
    generation: Track<GenerationState>,
    playback: Track<PlaybackState>,
    deliveries: Vec<Told>,
    accepted: BTreeMap<OperationId, (Time, Option<Time>)>,
    over: Option<Time>,
}

impl Default for Teller {
    fn default() -> Self {
        Self {
            caller: Track::new(),
            generation: Track::new(),
            playback: Track::new(),
            deliveries: Vec::new(),
            accepted: BTreeMap::new(),
            over: None,
        }
    }
}

/// A delivery that is being followed.
#[derive(Debug)]
struct Told {
    delivery: DeliveryId,
    operations: Vec<OperationId>,
    ready: Option<Time>,
    offered: Time,
    phases: Track<Phase>,
    /// Segments that have not left the box.
    segments: BTreeSet<SegmentRef>,
    cuts: u32,
    end: End,
}

impl Told {
    fn until(self, end: Time) -> DeliveryStory {
        let Self { delivery, operations, ready, offered, phases, cuts, end: how, .. } = self;
        DeliveryStory { delivery, operations, ready, offered, phases: phases.until(end), cuts, end: how }
    }

    fn ends(&mut self, at: Time, end: End) {
        self.phases.becomes(at, None);
        self.end = end;
    }
}

impl Teller {
    fn entry(&mut self, entry: &Entry) {
        // What has another form in today's code is left out of the drawing.
        let input = serde_json::from_value::<Input>(entry.input.clone()).ok();
        if let Some(input) = &input {
            self.input(entry.now, input);
        }
        self.outcome(entry.now, input.as_ref(), &entry.outcome);
    }

    fn input(&mut self, now: Time, input: &Input) {
        match input {
            Input::ChannelOver => self.over = self.over.or(Some(now)),
            Input::News(News::Offered(envelope) | News::Update { envelope, .. }) => {
                for operation in &envelope.operations {
                    self.accepted.entry(*operation).or_insert((now, None)).1.get_or_insert(envelope.ready_at.unwrap_or(now));
                }
                match self.told(envelope.delivery) {
                    Some(told) => told.end = End::Waits,
                    None => self.deliveries.push(Told {
                        delivery: envelope.delivery,
                        operations: envelope.operations.clone(),
                        ready: envelope.ready_at,
                        offered: now,
                        phases: Track::new(),
                        segments: BTreeSet::new(),
                        cuts: 0,
                        end: End::Waits,
                    }),
                }
            }
            Input::News(News::Accepted(acceptance)) => {
                self.accepted.entry(acceptance.operation).or_insert((now, None));
            }
            Input::News(News::Withdrawn { delivery }) => {
                if let Some(told) = self.told(*delivery).filter(|told| told.end == End::Waits) {
                    told.ends(now, End::Withdrawn);
                }
            }
            Input::Playback(PlaybackEvent::Sent { segment, .. }) => {
                for told in &mut self.deliveries {
                    if told.segments.remove(segment) && told.segments.is_empty() {
                        told.phases.becomes(now, Some(Phase::Evidence));
                    }
                }
            }
            _ => {}
        }
    }

    fn outcome(&mut self, now: Time, input: Option<&Input>, outcome: &Outcome) {
        if let Some(Clocks { acoustic, generation, playback }) = outcome.clocks {
            self.caller.becomes(now, Some(acoustic));
            self.generation.becomes(now, generation);
            self.playback.becomes(now, playback);
        }
        for fact in &outcome.facts {
            self.fact(now, input, fact);
        }
    }

    fn fact(&mut self, now: Time, input: Option<&Input>, fact: &Fact) {
        let delivery = match fact {
            Fact::Decided(decision) => decision.delivery,
            Fact::Claim { delivery, .. }
            | Fact::Release { delivery }
            | Fact::Speak { delivery, .. }
            | Fact::FirstFrame { delivery }
            | Fact::Settled { delivery, .. }
            | Fact::Suppress { delivery } => *delivery,
            Fact::Operation { .. } | Fact::Delivery { .. } | Fact::Claimed { .. } => return,
        };
        let Some(told) = self.told(delivery) else { return };
        match fact {
            Fact::Decided(decision) => match (decision.blocker, decision.answer) {
                // Where it may go now, the claim follows.
                (_, DeliveryDecision::AttachToNextResponse) | (None, _) => {}
                // What it is kept from while it is being claimed is itself.
                (Some(Blocker::DeliveryActive), _) if matches!(told.phases.now(), Some(Phase::Claim(_))) => {}
                (Some(blocker), _) => told.phases.becomes(now, Some(Phase::Waits(blocker))),
            },
            Fact::Claim { route, .. } => told.phases.becomes(now, Some(Phase::Claim(*route))),
            // Given back: it is offered anew, and asked about.
            Fact::Release { .. } if matches!(input, Some(Input::News(News::Claimed { .. }))) => {}
            Fact::Release { .. } => told.phases.becomes(now, None),
            Fact::Speak { segment, .. } => {
                if told.segments.is_empty() && !matches!(told.phases.now(), Some(Phase::Speaking)) {
                    told.phases.becomes(now, Some(Phase::Voice));
                }
                told.segments.insert(*segment);
            }
            Fact::FirstFrame { .. } => told.phases.becomes(now, Some(Phase::Speaking)),
            Fact::Settled { clauses, .. } => {
                told.segments.clear();
                let end = verdict(clauses);
                told.cuts += u32::from(end == End::Cut);
                told.ends(now, end);
            }
            Fact::Suppress { .. } => told.ends(now, End::Stale),
            Fact::Operation { .. } | Fact::Delivery { .. } | Fact::Claimed { .. } => {}
        }
    }

    fn told(&mut self, delivery: DeliveryId) -> Option<&mut Told> {
        self.deliveries.iter_mut().find(|told| told.delivery == delivery)
    }

    /// The operations as the conversation knows them: accepted, and told ready.
    fn operations(&self, to: Time) -> Vec<OperationLife> {
        let life = |(&operation, &(from, ready)): (&OperationId, &(Time, Option<Time>))| OperationLife {
            operation,
            tool: None,
            states: vec![Span { from, to: ready.unwrap_or(to), what: OperationState::Running }],
        };
        self.accepted.iter().map(life).collect()
    }
}

fn verdict(clauses: &[ClauseEvidence]) -> End {
    let any = |of: fn(&ClauseVerdict) -> bool| clauses.iter().any(|clause| of(&clause.verdict));
    if any(|verdict| matches!(verdict, ClauseVerdict::Unheard)) {
        End::Cut
    } else if any(|verdict| matches!(verdict, ClauseVerdict::Uncertain)) {
        End::Uncertain
    } else {
        End::Heard
    }
}
