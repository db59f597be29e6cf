//! The ledger as it is, on the store as it is: nothing that it does is refused, and a restart finds what it left.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use recado::coordination::{Answer, CommitError, Keep, Options, Recovered, Store};
use recado_core::conversation::input::{Evidence, ToolCall};
use recado_core::ids::{BootId, DeliveryId, OperationId, PartyId, ResponseId, SessionId, TurnId};
use recado_core::ledger::{
    AttemptOutcome, CallbackAnswer, CancelOutcome, ClauseEvidence, ClauseVerdict, Effect, Executed, HandOffOutcome, Input, InquiryOutcome,
    Ledger, News, OperationResult, RequestId, Route,
};
use recado_core::policy::{DuplicatePolicy, Language, ToolPolicy, WhenUnheard};
use recado_core::time::{Step, Time, Wall};
use serde_json::json;

use crate::fixtures::{open, path_in, snapshot};

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_store_refuses_nothing_that_the_ledger_asks_for(
        happenings in prop::collection::vec((0..16u8, 0..4u8, 0..6u8), 40..160),
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = path_in(directory.path());
        let mut boot = 1;
        let (store, recovered) = open(&path, boot);
        let mut scene = Scene::new(store, recovered, boot, 0);
        for (what, which, how) in happenings {
            if what == 15 {
                let now = scene.now;
                drop(scene);
                boot += 1;
                let (store, recovered) = open(&path, boot);
                scene = Scene::new(store, recovered, boot, now);
            } else {
                scene.happens(what, which, how);
            }
        }
    }
}

#[test]
fn what_retention_has_removed_is_unknown_to_the_ledger_that_still_remembers_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let keep = Keep { age: Duration::from_secs(86_400), wall: || step(1, 2 * 86_400_000).wall };
    let options = Options { keep: Some(keep), ..Options::new(BootId(1), step(1, 0).wall) };
    let (store, recovered) = Store::open(&path_in(directory.path()), &options).unwrap_or_else(|error| panic!("{error}"));
    let mut scene = Scene::new(store, recovered, 1, 0);
    let (session, response) = (SessionId(1), ResponseId(1));
    let call = ToolCall { call_id: "c".to_owned(), tool: "query".to_owned(), arguments: json!({}), confirmed: false };
    scene.give(Input::SessionUp { session, party: None, language: Language::En });
    scene.give(Input::Accept { session, turn: TurnId(1), response, call });
    scene.give(Input::Seal { session, response });
    let (operation, attempt) = scene.operations[0];
    scene.give(Input::Attempted { operation, attempt, outcome: outcome(0) });
    let delivery = scene.deliveries[0];
    scene.give(Input::Claim { session, delivery, route: Route::Announce });
    scene.give(Input::FirstFrame { session, delivery });
    let heard = ClauseEvidence { clause: 0, verdict: ClauseVerdict::Heard(Evidence::Received) };
    scene.give(Input::Settled { session, delivery, clauses: vec![heard] });
    assert!(scene.store.look_after());

    let request = RequestId(1);
    let unknown = Effect::Answer { request, answer: CallbackAnswer::Unknown };
    let late = Input::Callback { request, operation, result: OperationResult::Failed("no".to_owned()) };
    let effects = scene.ledger.handle(&mut step(1, 86_400_000), late.clone());
    let [Effect::Persist { commit, writes }] = &effects[..] else { panic!("a contradiction is put on record: {effects:?}") };
    let outcome = scene.store.commit(&[(*commit, writes.clone())]).remove(0);
    assert_eq!(outcome, Err(CommitError::Missing("operation")));
    let failed = Input::from(Answer { commit: *commit, outcome });
    assert_eq!(scene.ledger.handle(&mut step(1, 86_400_001), failed), std::slice::from_ref(&unknown));
    assert_eq!(scene.ledger.handle(&mut step(1, 86_400_002), late), [unknown], "whoever asks again");
}

pub struct Scene {
    ledger: Ledger,
    pub store: Store,
    boot: u128,
    pub now: u64,
    pub operations: Vec<(OperationId, u32)>,
    pub deliveries: Vec<DeliveryId>,
    /// What each claim was given to say.
    pub told: BTreeMap<DeliveryId, Vec<u32>>,
    /// Called after each commit.
    pub committed: Box<dyn FnMut()>,
}

impl Scene {
    pub fn new(store: Store, recovered: Recovered, boot: u128, now: u64) -> Self {
        Self::watched(store, recovered, boot, now, || {})
    }

    pub fn watched(store: Store, recovered: Recovered, boot: u128, now: u64, committed: impl FnMut() + 'static) -> Self {
        let snapshot = snapshot(recovered);
        let operations = snapshot.operations.iter().map(|record| (record.id, record.attempt)).collect();
        let deliveries = snapshot.deliveries.iter().map(|record| record.id).collect();
        let policies = BTreeMap::from([
            ("query".to_owned(), ToolPolicy { idempotent: true, ..ToolPolicy::default() }),
            ("effect".to_owned(), ToolPolicy { stale_after_ms: Some(20_000), ..ToolPolicy::default() }),
            (
                "order".to_owned(),
                ToolPolicy {
                    cancellable: true,
                    duplicate: DuplicatePolicy::Replace,
                    idempotency_fields: vec!["n".to_owned()],
                    when_unheard: WhenUnheard::Webhook,
                    hand_off_after_ms: 5_000,
                    ..ToolPolicy::default()
                },
            ),
        ]);
        let (ledger, effects) = Ledger::recover(&mut step(boot, now), BootId(boot), policies, snapshot);
        let committed = Box::new(committed);
        let mut scene = Self { ledger, store, boot, now, operations, deliveries, told: BTreeMap::new(), committed };
        scene.carry_out(effects);
        scene
    }

    fn happens(&mut self, what: u8, which: u8, how: u8) {
        let session = SessionId(u128::from(which % 2) + 1);
        let response = ResponseId(u128::from(how) + 10 * self.boot);
        let operation = self.operations.iter().rev().nth(usize::from(which)).copied();
        let delivery = self.deliveries.iter().rev().nth(usize::from(which / 2)).copied();
        let party = PartyId("tel:+34600000001".to_owned());
        let input = match (what, operation, delivery) {
            (0, ..) => Some(Input::SessionUp { session, party: Some(party), language: Language::En }),
            (1, ..) => Some(Input::SessionOver { session }),
            (2..=4, ..) => {
                let tool = ["query", "effect", "order"][usize::from(how % 3)];
                let call = ToolCall {
                    call_id: "c".to_owned(),
                    tool: tool.to_owned(),
                    arguments: json!({ "n": which, "x": 0.1 + f64::from(what) }),
                    confirmed: false,
                };
                Some(Input::Accept { session, turn: TurnId(u128::from(self.now)), response, call })
            }
            (5, ..) => Some(Input::Seal { session, response }),
            (6, ..) => Some(Input::Cancel { session, tool: None, operation: None, verified: true }),
            (7 | 8, Some((operation, attempt)), _) => Some(Input::Attempted { operation, attempt, outcome: outcome(how) }),
            (9, Some((operation, _)), _) => {
                let result =
                    if how < 3 { OperationResult::Succeeded(json!({ "n": how })) } else { OperationResult::Failed("no".to_owned()) };
                Some(Input::Callback { request: RequestId(self.now), operation, result })
            }
            (10 | 11, _, Some(delivery)) => Some(Input::Claim { session, delivery, route: Route::Announce }),
            (12, _, Some(delivery)) => Some(Input::FirstFrame { session, delivery }),
            (13, _, Some(delivery)) => {
                let verdict = match how {
                    0 => ClauseVerdict::Uncertain,
                    1 => ClauseVerdict::Unheard,
                    _ => ClauseVerdict::Heard(Evidence::Received),
                };
                let told = self.told.get(&delivery).cloned().unwrap_or_default();
                let clauses = told.into_iter().map(|clause| ClauseEvidence { clause, verdict }).collect();
                Some(Input::Settled { session, delivery, clauses })
            }
            (14, ..) => {
                self.now += 1_000 << (2 * u32::from(which));
                Some(Input::Wake)
            }
            (15, Some((operation, _)), _) => Some(Input::Retract { request: RequestId(self.now), operation }),
            _ => None,
        };
        self.now += 10;
        // A response that asked has often ended by the next thing that happens.
        let sealed = matches!(input, Some(Input::Accept { .. })) && how > 1;
        if let Some(input) = input {
            self.give(input);
        }
        if sealed {
            self.give(Input::Seal { session, response });
        }
    }

    pub fn give(&mut self, input: Input) {
        // Each input has identifiers of its own.
        self.now += 1;
        let effects = self.ledger.handle(&mut step(self.boot, self.now), input);
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Persist { commit, writes } => {
                    let outcomes = self.store.commit(&[(commit, writes.clone())]);
                    assert_eq!(outcomes, [Ok(())], "{writes:#?}");
                    (self.committed)();
                    self.give(Input::Durable(commit));
                }
                Effect::Cancel(request) => {
                    let (operation, request) = (request.operation, request.request);
                    self.give(Input::CancelAttempted { operation, request, outcome: cancelled(request) });
                }
                Effect::Inquire(inquiry) => {
                    let (operation, request) = (inquiry.operation, inquiry.request);
                    let outcome = InquiryOutcome::Succeeded(json!({ "of": inquiry.handle }));
                    self.give(Input::Inquired { operation, request, outcome });
                }
                Effect::HandOff(hand_off) => {
                    let outcome = if self.now.is_multiple_of(2) {
                        HandOffOutcome::Acknowledged
                    } else {
                        HandOffOutcome::Failed { error: "no".to_owned(), received: Executed::Maybe, retry_after_ms: None }
                    };
                    self.give(Input::HandOffAttempted { delivery: hand_off.delivery, outcome });
                }
                Effect::Dispatch(dispatch) => self.operations.push((dispatch.operation, dispatch.attempt)),
                Effect::Tell { news: News::Claimed { delivery, clauses }, .. } => {
                    self.told.insert(delivery, clauses.iter().filter_map(|spoken| spoken.clause).collect());
                }
                Effect::Tell { news: News::Offered(envelope), .. } => self.deliveries.push(envelope.delivery),
                Effect::Tell { .. } | Effect::Answer { .. } | Effect::Measured(_) => {}
            }
        }
    }
}

fn outcome(how: u8) -> AttemptOutcome {
    let failed = |executed, retryable| AttemptOutcome::Failed { error: "no".to_owned(), executed, retryable, retry_after_ms: None };
    match how {
        0 => AttemptOutcome::Succeeded(json!({ "total": 12.1 * 3.0 })),
        1 => AttemptOutcome::Deferred,
        2 => failed(Executed::No, true),
        3 => AttemptOutcome::Taken { handle: "task 7".to_owned() },
        4 => AttemptOutcome::Unreachable { reason: "no route".to_owned(), retry_after_ms: None },
        _ => failed(Executed::Maybe, false),
    }
}

fn step(boot: u128, now: u64) -> Step {
    let wall = Wall { unix_ms: 1_800_000_000_000 + i64::try_from(now).unwrap_or_default(), synchronised: true };
    Step::new(Time(now), wall, (boot << 64) + u128::from(now) * 1_000_003)
}

fn cancelled(request: u32) -> CancelOutcome {
    match request % 4 {
        0 => CancelOutcome::Cancelled,
        1 => CancelOutcome::Failed { error: "busy".to_owned(), retryable: true, retry_after_ms: None },
        2 => CancelOutcome::Compensated,
        _ => CancelOutcome::TooLate { result: None },
    }
}
