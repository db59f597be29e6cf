//! A ledger in memory with one tool: what it decides and what the caller hears is what a box would decide and say.

use std::collections::{BTreeMap, VecDeque};

use recado_core::conversation::input::ToolCall;
use recado_core::ledger::{
    CancelRequest, ClauseEvidence, ClauseVerdict, Dispatch, Effect, Input, Inquiry, Ledger, News, OperationRecord, Route, Snapshot, Write,
};
use recado_core::policy::{Language, ToolPolicy};
use recado_core::{BootId, DeliveryId, OperationId, PartyId, ResponseId, SessionId, Step, Time, TurnId, Wall};
use serde_json::Value;

/// What the ledger wants done outside.
#[derive(Debug)]
pub(super) enum Wanted {
    Attempt(Dispatch),
    Cancel(CancelRequest),
    Inquiry(Inquiry),
}

pub(super) struct Rehearsal {
    ledger: Ledger,
    tool: String,
    /// Milliseconds since it began.
    now: u64,
    seed: u128,
    /// What the ledger wants, oldest first: one operation wants a few things in all.
    pub wanted: VecDeque<Wanted>,
    /// What the conversation was told, oldest first.
    news: Vec<News>,
    /// What the caller was asked first, where they were.
    pub read_back: Option<String>,
    /// The operation, as it was last put on record.
    pub record: Option<OperationRecord>,
}

impl Rehearsal {
    /// A call by a party that nobody else is, so that no key of its operation was ever used; `random` makes it so.
    pub fn new(tool: &str, policy: ToolPolicy, language: Language, random: u128) -> Self {
        let mut step = Step::new(Time(0), Wall::default(), random);
        let policies = BTreeMap::from([(tool.to_owned(), policy)]);
        let (ledger, _) = Ledger::recover(&mut step, BOOT, policies, Snapshot::default());
        let mut rehearsal = Self {
            ledger,
            tool: tool.to_owned(),
            now: 0,
            seed: random,
            wanted: VecDeque::new(),
            news: Vec::new(),
            read_back: None,
            record: None,
        };
        let party = Some(PartyId(format!("recado tools|{random:032x}")));
        rehearsal.give(Input::SessionUp { session: SESSION, party, language });
        rehearsal
    }

    /// Gives it an input; everything that it wants put on record is.
    pub fn give(&mut self, input: Input) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            self.seed = self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).wrapping_add(1);
            let mut step = Step::new(Time(self.now), Wall::default(), self.seed);
            for effect in self.ledger.handle(&mut step, input) {
                match effect {
                    Effect::Persist { commit, writes } => {
                        for write in writes {
                            if let Write::CreateOperation(record) | Write::UpdateOperation(record) = write {
                                self.record = Some(record);
                            }
                        }
                        inputs.push_back(Input::Durable(commit));
                    }
                    Effect::Dispatch(dispatch) => self.wanted.push_back(Wanted::Attempt(dispatch)),
                    Effect::Cancel(request) => self.wanted.push_back(Wanted::Cancel(request)),
                    Effect::Inquire(inquiry) => self.wanted.push_back(Wanted::Inquiry(inquiry)),
                    Effect::Tell { news, .. } => self.news.push(news),
                    Effect::HandOff(_) | Effect::Answer { .. } | Effect::Measured(_) => {}
                }
            }
        }
    }

    /// Asks for the operation; where it is read back first, the caller agrees in the next turn. What they hear at once when it is accepted, or why nothing is done.
    pub fn ask(&mut self, arguments: Value) -> Result<String, String> {
        self.accept(TurnId(1), arguments.clone(), false);
        let read_back = self.news.iter().find_map(|news| match news {
            News::ReadBack { read_back, say, .. } => Some((*read_back, say.clone())),
            _ => None,
        });
        if let Some((read_back, say)) = read_back {
            self.read_back = Some(say);
            self.give(Input::ReadBackHeard { session: SESSION, read_back, turn: TurnId(1) });
            self.accept(TurnId(2), arguments, true);
        }
        let answer = self.news.iter().find_map(|news| match news {
            News::Accepted(acceptance) => Some(Ok(acceptance.say.clone())),
            News::Refused { reason, .. } => Some(Err(reason.clone())),
            _ => None,
        });
        answer.unwrap_or_else(|| Err("the ledger gave no answer".to_owned()))
    }

    fn accept(&mut self, turn: TurnId, arguments: Value, confirmed: bool) {
        let response = ResponseId(turn.0);
        let call = ToolCall { call_id: "call".to_owned(), tool: self.tool.clone(), arguments, confirmed };
        self.give(Input::Accept { session: SESSION, turn, response, call });
        self.give(Input::Seal { session: SESSION, response });
    }

    /// The operation that was asked for.
    pub fn operation(&self) -> Option<OperationId> {
        self.record.as_ref().map(|record| record.id)
    }

    /// The first attempt, taken out of what is wanted.
    pub fn attempt(&mut self) -> Option<Dispatch> {
        match self.wanted.pop_front() {
            Some(Wanted::Attempt(dispatch)) => Some(dispatch),
            _ => None,
        }
    }

    /// When the ledger wants to be woken (ms since it began).
    pub fn deadline(&self) -> Option<u64> {
        self.ledger.deadline().map(|at| at.0)
    }

    /// So much time has gone by since it began.
    pub fn at(&mut self, now: u64) {
        self.now = self.now.max(now);
        if self.deadline().is_some_and(|at| at <= self.now) {
            self.give(Input::Wake);
        }
    }

    /// What the caller wants cancelled is everything.
    pub fn cancel(&mut self) -> Option<CancelRequest> {
        self.give(Input::Cancel { session: SESSION, tool: None, operation: None, verified: true });
        let at = self.wanted.iter().position(|wanted| matches!(wanted, Wanted::Cancel(_)))?;
        match self.wanted.remove(at) {
            Some(Wanted::Cancel(request)) => Some(request),
            _ => None,
        }
    }

    /// What the caller hears as news: that it waits, or how far it is.
    pub fn updates(&self) -> Vec<String> {
        self.news.iter().filter_map(|news| if let News::Update { text, .. } = news { Some(text.clone()) } else { None }).collect()
    }

    /// The closing that waits.
    fn waiting(&self) -> Option<DeliveryId> {
        self.ledger.pending().first().map(|record| record.id)
    }

    /// Whether the operation's closing waits to be told.
    pub fn closes(&self) -> bool {
        self.waiting().is_some()
    }

    /// What the caller hears of how it ended.
    pub fn told(&mut self) -> Option<String> {
        let delivery = self.waiting()?;
        let before = self.news.len();
        self.give(Input::Claim { session: SESSION, delivery, route: Route::Announce });
        self.news.iter().skip(before).find_map(|news| match news {
            News::Claimed { clauses, .. } => Some(clauses.iter().map(|spoken| spoken.text.as_str()).collect::<Vec<_>>().join(" ")),
            _ => None,
        })
    }

    /// What the caller hears instead after it was cut before a whole clause of it was heard.
    pub fn told_after_a_cut(&mut self) -> Option<String> {
        let delivery = self.waiting()?;
        self.told()?;
        self.give(Input::FirstFrame { session: SESSION, delivery });
        let clauses = vec![ClauseEvidence { clause: 0, verdict: ClauseVerdict::Unheard }];
        self.give(Input::Settled { session: SESSION, delivery, clauses });
        self.told()
    }
}

const BOOT: BootId = BootId(1);
const SESSION: SessionId = SessionId(1);
