//! Work that outlives the turn, the call and the box: what a caller has had done over a week, with both ends of the line and all counterparts
//! real. Only the days between are left out; `recado sim` plays those.

use recado_core::conversation::Evidence;
use recado_core::ledger::{DeliveryKind, DeliveryState, OperationState};
use serde_json::json;

use super::instances::shown_as_pending;
use super::sound::{Recording, phrase};
use super::stage::ACCEPTED;
use super::week::{CAR, FAILED, NEVER, TABLE, TAXI, TOO_LATE, Week, flowers};

#[tokio::test(flavor = "multi_thread")]
async fn over_a_week_with_two_restarts_each_errand_is_done_once_and_each_closing_is_heard_once() {
    let Some(week) = Week::begins().await else { return };

    // Monday: three errands at once. One is answered, one accepted, one taken as a task. Then the power fails.
    let boxed = week.box_runs().await;
    let mut caller = week.calls(&boxed).await;
    caller.hears_something().await;
    caller.presses("1").await;
    week.ended("table", OperationState::Succeeded).await;
    week.shops.asked("taxi").await;
    week.garage.has("begun").await;
    let car = week.recorded("car", |car| car.handle.is_some()).await;
    caller.hears_something().await;
    boxed.kill();
    let monday = caller.recording();
    let ordered = week.shops.of("taxi");

    // Nobody is there to take the result. It comes again when somebody is, overtaken by what was said before it.
    let taxi = week.shops.reports("taxi", json!({ "status": "succeeded", "result": { "at": "nine" } }));
    assert_eq!(taxi.arrives_twice().await, [None, None]);

    // Wednesday: two more. One fails; the other one is done when the caller wants it no more.
    let boxed = week.box_runs().await;
    assert_eq!(taxi.arrives_twice().await, [Some(200), Some(200)]);
    let progress = week.shops.reports("taxi", json!({ "status": "progress", "progress": { "percent": 50 } }));
    assert_eq!(progress.arrives_twice().await, [Some(409), Some(409)], "it is over");
    let mut caller = week.calls(&boxed).await;
    caller.hears_something().await;
    caller.presses("2").await;
    week.shops.asked("flowers").await;
    week.ended("cake", OperationState::Failed).await;
    caller.hears_something().await;
    caller.presses("3").await;
    week.ended("flowers", OperationState::TooLate).await;
    boxed.log.seen("evidence", |line| line["message"] == "delivery settled").await.expect("seen");
    let wednesday = caller.hangs_up().await;
    boxed.is_idle().await.expect("idle");
    let left = week.shops.reports("flowers", json!({ "status": "succeeded", "result": flowers() }));
    assert_eq!(left.arrives_twice().await, [Some(200), Some(200)], "what it has said already");
    assert!(boxed.stops().await.expect("it stops").success());

    // Friday: the garage is done, and all of Monday's is told.
    let boxed = week.box_runs().await;
    assert_eq!(week.recorded("car", |_| true).await.handle, car.handle);
    week.garage.may_finish();
    week.ended("car", OperationState::Succeeded).await;
    assert_eq!(taxi.arrives_twice().await, [Some(200), Some(200)], "once more, to a box that does not remember the message");
    let mut caller = week.calls(&boxed).await;
    caller.hears_something().await;
    boxed.log.seen("evidence", |line| line["message"] == "delivery settled").await.expect("seen");
    let friday = caller.hangs_up().await;
    boxed.is_idle().await.expect("idle");

    // Sunday: everybody says once more what they have said, and nobody hears of it.
    for message in [&left, &taxi] {
        assert_eq!(message.arrives_twice().await, [Some(200), Some(200)]);
    }
    let mut caller = week.calls(&boxed).await;
    caller.hears_something().await;
    assert_eq!(taxi.arrives_twice().await, [Some(200), Some(200)]);
    caller.hears_silence(2_500).await;
    let sunday = caller.hangs_up().await;
    boxed.is_idle().await.expect("idle");

    done_once(&week, ordered.len()).await;
    recorded_so(&week);
    let days = [monday, wednesday, friday, sunday];
    heard_once(&days).await;
}

/// What was done is counted where it was done, by the key that came with it.
async fn done_once(week: &Week, taxis_on_monday: usize) {
    for shop in ["table", "taxi", "cake", "flowers"] {
        let orders = week.shops.of(shop);
        assert_eq!(orders.len(), 1, "{shop}: one key for each intent: {orders:?}");
        println!("{shop}: {} requests under one key, {} cancels", orders[0].requests, orders[0].cancels);
    }
    assert_eq!(taxis_on_monday, 1);
    assert_eq!(week.shops.of("flowers")[0].cancels, 1);
    assert_eq!(week.shops.of("table")[0].requests, 1, "what was answered is not asked for again");
    let [asked, begun, done] = ["asked", "begun", "done"].map(|word| week.garage.keys(word));
    assert_eq!((asked.len(), &begun, &done), (1, &asked, &asked), "one call, one task, one effect, under one key");
    assert_ne!(asked, ["without"]);
}

/// The box says the same of it afterwards: by its command, and in its store.
fn recorded_so(week: &Week) {
    assert_eq!(shown_as_pending(&week.config()).lines().last(), Some("Nothing waits and nothing runs."));
    let pending = week.pending();
    assert!(pending.deliveries.is_empty() && pending.operations.is_empty(), "{pending:?}");
    let history = week.history();
    let states: Vec<_> = history.operations.iter().map(|operation| (operation.tool.as_str(), operation.state)).collect();
    use OperationState::{Failed, Succeeded, TooLate};
    let ended = [("table", Succeeded), ("taxi", Succeeded), ("car", Succeeded), ("cake", Failed), ("flowers", TooLate)];
    assert_eq!(states, ended);
    assert!(history.operations.iter().all(|operation| operation.contradiction.is_none()), "{:?}", history.operations);
    let [first, second] = &history.deliveries[..] else { panic!("{:?}", history.deliveries) };
    for (delivery, clauses) in [(first, 2), (second, 3)] {
        assert_eq!((delivery.kind, delivery.state, delivery.attempt), (DeliveryKind::Final, DeliveryState::Spoken, 0));
        assert_eq!(delivery.clauses.iter().map(|clause| clause.heard).collect::<Vec<_>>(), vec![Some(Evidence::Received); clauses]);
    }
}

/// Each closing, by the caller's own recordings of all four calls: each sentence once, in the call that it belongs to.
async fn heard_once(days: &[Recording; 4]) {
    for (sentence, day) in [(FAILED, 1), (TOO_LATE, 1), (TABLE, 2), (TAXI, 2), (CAR, 2)] {
        let phrase = phrase(sentence).await;
        let heard: Vec<usize> = days.iter().map(|day| day.find(&phrase).len()).collect();
        let once: Vec<usize> = (0..days.len()).map(|at| usize::from(at == day)).collect();
        assert_eq!(heard, once, "{sentence}");
        let elsewhere = days.iter().enumerate().filter(|(at, _)| *at != day).map(|(_, day)| day.find_pieces(&phrase).len());
        assert_eq!(elsewhere.sum::<usize>(), 0, "a piece of {sentence:?} in another call");
    }
    for sentence in NEVER {
        let phrase = phrase(sentence).await;
        assert!(days.iter().all(|day| day.find(&phrase).is_empty()), "{sentence}");
    }
    let accepted = phrase(ACCEPTED).await;
    assert!(!days[0].find(&accepted).is_empty() && !days[1].find(&accepted).is_empty(), "what is accepted is said so");
}
