//! A run with every commit point of an operation's life, by the real ledger on the real store.

use std::sync::{Arc, Mutex, PoisonError};

use recado::coordination::Recovered;
use recado_core::conversation::input::{Evidence, ToolCall};
use recado_core::ids::{PartyId, ResponseId, SessionId, TurnId};
use recado_core::ledger::{
    AttemptOutcome, ClauseEvidence, ClauseVerdict, CommitId, Executed, Input, OperationResult, RequestId, Route, Write,
};
use recado_core::policy::Language;
use serde_json::json;

use super::disk::Event;
use super::rig::{Watched, contents, look};
use crate::fixtures::{accepted, open, succeeded};
use crate::ledger::Scene;

/// What was recorded.
pub struct Recorded {
    pub events: Vec<Event>,
    /// The store's contents after so many commits were acknowledged; the first is before any.
    pub contents: Vec<String>,
}

/// Notes the contents, and that one more commit is acknowledged.
#[derive(Clone)]
struct Recorder(Arc<Watched>, Arc<Mutex<Vec<String>>>);

impl Recorder {
    fn committed(&self) {
        let mut contents_after = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        contents_after.push(contents(&look(&self.0.path())));
        self.0.disk.acknowledged(contents_after.len() - 1);
    }
}

/// Tells it, from a store that is not there to one that has been closed.
pub fn record() -> Recorded {
    let watched = Arc::new(Watched::new());
    let recorder = Recorder(Arc::clone(&watched), Arc::default());
    let path = watched.path();
    let (store, recovered) = open(&path, 1);
    assert_eq!(recovered, Recovered { next_sequence: 1, ..Recovered::default() });
    // The store is there, and nothing is in it.
    recorder.committed();
    let scene = Scene::watched(store, recovered, 1, 0, {
        let recorder = recorder.clone();
        move || recorder.committed()
    });
    first_call(scene);
    // The box is started again: claims of the first boot end, batches are sealed.
    let (store, recovered) = open(&path, 2);
    let scene = Scene::watched(store, recovered, 2, 1_000_000, {
        let recorder = recorder.clone();
        move || recorder.committed()
    });
    second_call(scene);
    let (mut store, _) = open(&path, 3);
    // Several commits in one transaction.
    for chunk in [900..903u128, 903..910] {
        let lives = chunk.map(|number| (CommitId(0), accepted(number).into_iter().chain(succeeded(number)).collect::<Vec<Write>>()));
        assert!(store.commit(&lives.collect::<Vec<_>>()).iter().all(Result::is_ok));
        recorder.committed();
    }
    drop(store);
    let contents = recorder.1.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Recorded { events: watched.disk.events(), contents }
}

const SESSION: SessionId = SessionId(1);
const OTHER: SessionId = SessionId(2);

fn first_call(mut scene: Scene) {
    up(&mut scene, SESSION);
    // Accepted, its result, told and heard.
    ask(&mut scene, SESSION, "query", 1);
    report(&mut scene, AttemptOutcome::Succeeded(json!({ "n": 1 })));
    tell(&mut scene, SESSION, ClauseVerdict::Heard(Evidence::Received));
    // Taken, its result by callback, told, nobody knows whether it was heard; told again and heard.
    ask(&mut scene, SESSION, "effect", 2);
    report(&mut scene, AttemptOutcome::Deferred);
    callback(&mut scene, 7, OperationResult::Succeeded(json!({ "n": 2 })));
    tell(&mut scene, SESSION, ClauseVerdict::Uncertain);
    tell(&mut scene, SESSION, ClauseVerdict::Heard(Evidence::Sent));
    // Failed provably, tried again, failed for good; claimed and given back, cut, told.
    ask(&mut scene, SESSION, "query", 3);
    let failed = |executed, retryable| AttemptOutcome::Failed { error: "no".to_owned(), executed, retryable, retry_after_ms: None };
    report(&mut scene, failed(Executed::No, true));
    scene.now += 120_000;
    scene.give(Input::Wake);
    report(&mut scene, failed(Executed::No, false));
    let delivery = *scene.deliveries.last().expect("a closing");
    scene.give(Input::Claim { session: SESSION, delivery, route: Route::Ride });
    scene.give(Input::Release { session: SESSION, delivery });
    tell(&mut scene, SESSION, ClauseVerdict::Unheard);
    tell(&mut scene, SESSION, ClauseVerdict::Heard(Evidence::Received));
    // An effect that nobody knows of, told so; then it is known after all: a correction.
    ask(&mut scene, SESSION, "effect", 4);
    report(&mut scene, failed(Executed::Maybe, false));
    tell(&mut scene, SESSION, ClauseVerdict::Heard(Evidence::Received));
    callback(&mut scene, 8, OperationResult::Succeeded(json!({ "n": 4 })));
    tell(&mut scene, SESSION, ClauseVerdict::Heard(Evidence::Received));
    // Cancelled while it waits to be tried again.
    ask(&mut scene, SESSION, "query", 5);
    report(&mut scene, failed(Executed::No, true));
    scene.give(Input::Cancel { session: SESSION, tool: None, operation: None, verified: true });
    // Stale before it is told.
    ask(&mut scene, SESSION, "effect", 6);
    report(&mut scene, AttemptOutcome::Succeeded(json!({ "n": 6 })));
    scene.now += 60_000;
    scene.give(Input::Suppress { delivery: *scene.deliveries.last().expect("a closing") });
    // Two in one batch that finish the other way round; claimed and speaking when the box is started again, beside one that runs.
    for number in [10, 11] {
        call(&mut scene, SESSION, "query", number, 77);
    }
    scene.give(Input::Seal { session: SESSION, response: ResponseId(77) });
    let [first, second] = [scene.operations.len() - 2, scene.operations.len() - 1];
    for index in [second, first] {
        let (operation, attempt) = scene.operations[index];
        scene.give(Input::Attempted { operation, attempt, outcome: AttemptOutcome::Succeeded(json!({ "n": 7 })) });
    }
    let delivery = *scene.deliveries.last().expect("a closing");
    scene.give(Input::Claim { session: SESSION, delivery, route: Route::Announce });
    scene.give(Input::FirstFrame { session: SESSION, delivery });
    ask(&mut scene, SESSION, "effect", 12);
    ask(&mut scene, SESSION, "query", 13);
}

fn second_call(mut scene: Scene) {
    up(&mut scene, OTHER);
    let delivery = *scene.deliveries.last().expect("a closing");
    scene.give(Input::Claim { session: OTHER, delivery, route: Route::Announce });
    scene.give(Input::FirstFrame { session: OTHER, delivery });
    scene.give(Input::SessionOver { session: OTHER });
}

fn up(scene: &mut Scene, session: SessionId) {
    scene.give(Input::SessionUp { session, party: Some(PartyId("tel:+34600000001".to_owned())), language: Language::En });
}

/// A response that asks for one operation, and ends.
fn ask(scene: &mut Scene, session: SessionId, tool: &str, number: u64) {
    call(scene, session, tool, number, number);
    scene.give(Input::Seal { session, response: ResponseId(u128::from(number)) });
}

fn call(scene: &mut Scene, session: SessionId, tool: &str, number: u64, response: u64) {
    scene.now += 10;
    let call =
        ToolCall { call_id: "c".to_owned(), tool: tool.to_owned(), arguments: json!({ "n": number, "x": 0.1 + 0.2 }), confirmed: false };
    scene.give(Input::Accept { session, turn: TurnId(u128::from(number)), response: ResponseId(u128::from(response)), call });
}

fn report(scene: &mut Scene, outcome: AttemptOutcome) {
    scene.now += 10;
    let (operation, attempt) = *scene.operations.last().expect("an operation");
    scene.give(Input::Attempted { operation, attempt, outcome });
}

fn callback(scene: &mut Scene, request: u64, result: OperationResult) {
    let (operation, _) = *scene.operations.last().expect("an operation");
    scene.give(Input::Callback { request: RequestId(request), operation, result });
}

/// The last closing is claimed, spoken, and settled with this verdict on each of its clauses.
fn tell(scene: &mut Scene, session: SessionId, verdict: ClauseVerdict) {
    scene.now += 10;
    let delivery = *scene.deliveries.last().expect("a closing");
    scene.give(Input::Claim { session, delivery, route: Route::Announce });
    scene.give(Input::FirstFrame { session, delivery });
    let told = scene.told.remove(&delivery).unwrap_or_else(|| panic!("{delivery} was not claimed"));
    let clauses = told.into_iter().map(|clause| ClauseEvidence { clause, verdict }).collect();
    scene.give(Input::Settled { session, delivery, clauses });
}
