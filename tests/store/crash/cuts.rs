//! Power cuts: after each operation of a run, and of the recovery from a cut.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;

use super::disk::{LUCKS, Luck};
use super::rig::{Cut, Watched, contents, cuts, integrity, look, try_all};
use super::story;
use crate::fixtures::open;
use crate::ledger::Scene;

#[test]
fn a_power_cut_at_any_operation_of_any_commit_loses_nothing_that_was_acknowledged() {
    let recorded = story::record();
    let cuts = cuts(&recorded.events, 0, &LUCKS, 1);
    let (tried, wrong) = try_all(cuts, |cut, path| judge(&recorded.contents, cut, path));
    println!("{} events, {} commits, {tried} cuts", recorded.events.len(), recorded.contents.len() - 1);
    assert!(recorded.contents.len() > 40 && tried > 1_000, "the run is too short to prove anything");
    assert!(wrong.is_empty(), "{} of {tried} cuts, such as: {:#?}", wrong.len(), &wrong[..wrong.len().min(5)]);
}

#[test]
fn a_power_cut_while_the_box_recovers_from_a_power_cut_loses_nothing_either() {
    let recorded = story::record();
    let mut tried_in_all = 0;
    for cut in cuts(&recorded.events, 0, &[Luck::Torn], 2).skip(60).step_by(recorded.events.len() / 5) {
        let watched = Watched::with(&cut.files);
        let (store, recovered) = open(&watched.path(), 50);
        let before = contents(&look(&watched.path()));
        drop(Scene::new(store, recovered, 50, 10_000_000));
        let events = watched.disk.events();
        let again = cuts(&events, cut.files.len(), &[Luck::Torn, Luck::Nothing], 3).map(|second| Cut { opened: cut.opened, ..second });
        let (tried, wrong) = try_all(again, |_, path| {
            let (store, recovered) = open(path, 60);
            // Recovery commits batch by batch: a row may be as before or as after it, but none is lost.
            let found = contents(&look(path));
            let there = |row: &str| found.lines().any(|is| identity(is) == identity(row));
            if let Some(row) = before.lines().find(|row| !row.starts_with("claim") && !there(row)) {
                return Err(format!("lost: {row}"));
            }
            drop(Scene::new(store, recovered, 60, 10_000_000));
            recovered_well(&look(path))
        });
        tried_in_all += tried;
        assert!(wrong.is_empty(), "after {}: {:#?}", cut.after, &wrong[..wrong.len().min(5)]);
    }
    println!("{tried_in_all} cuts of recoveries");
    assert!(tried_in_all > 100, "the recoveries did nothing");
}

#[test]
fn a_store_that_does_not_flush_each_commit_is_found_out() {
    for (synchronous, loses) in [("FULL", false), ("NORMAL", true), ("OFF", true)] {
        let watched = Arc::new(Watched::new());
        let path = watched.path();
        drop(open(&path, 1));
        let connection = Connection::open(&path).expect("a database");
        connection.pragma_update(None, "synchronous", synchronous).expect("a setting");
        let first = watched.disk.events().len();
        let mut expected = vec![contents(&connection)];
        for number in 1..=30 {
            let sql = format!(
                "INSERT INTO batch (batch_id, session_id, response_id, language, state) VALUES ('bat_{number}', 'ses_1', 'rsp_1', 'en', 'open')"
            );
            connection.execute(&sql, []).expect("a commit");
            expected.push(contents(&connection));
            watched.disk.acknowledged(number);
        }
        let events = watched.disk.events();
        let (tried, wrong) = try_all(cuts(&events, first, &LUCKS, 4), |cut, path| is_one_of(&expected, cut, &look(path)));
        println!("synchronous = {synchronous}: {} of {tried} cuts lose what was acknowledged", wrong.len());
        assert_eq!(!wrong.is_empty(), loses, "synchronous = {synchronous}: {:#?}", &wrong[..wrong.len().min(5)]);
    }
}

/// What was acknowledged is there, what was in flight is there or not, the file is whole, and the ledger goes on with it.
fn judge(expected: &[String], cut: &Cut, path: &Path) -> Result<(), String> {
    let (store, recovered) = open(path, 40);
    let connection = look(path);
    is_one_of(expected, cut, &connection)?;
    drop(Scene::new(store, recovered, 40, 10_000_000));
    recovered_well(&connection)
}

fn is_one_of(expected: &[String], cut: &Cut, connection: &Connection) -> Result<(), String> {
    let is = contents(connection);
    let known = &expected[cut.acknowledged..expected.len().min(cut.acknowledged + 2)];
    if known.contains(&is) {
        return integrity(connection);
    }
    let as_after = expected.iter().position(|earlier| *earlier == is);
    Err(format!("the store is as after {as_after:?} commits"))
}

/// What a restart has to bring about, before anybody calls.
fn recovered_well(connection: &Connection) -> Result<(), String> {
    integrity(connection)?;
    let rules = [
        ("a claim of an earlier boot", "claim"),
        ("a delivery that is being spoken by nobody", "delivery WHERE state IN ('claimed', 'speaking')"),
        ("an open batch", "batch WHERE state = 'open' AND EXISTS (SELECT 1 FROM operation AS o WHERE o.batch_id = batch.batch_id)"),
        (
            "a batch whose operations are settled and that has no closing",
            "batch WHERE EXISTS (SELECT 1 FROM operation AS o WHERE o.batch_id = batch.batch_id)
             AND NOT EXISTS (SELECT 1 FROM operation AS o WHERE o.batch_id = batch.batch_id
                             AND o.state IN ('accepted', 'running', 'retry_wait', 'cancelling'))
             AND NOT EXISTS (SELECT 1 FROM delivery AS d WHERE d.batch_id = batch.batch_id AND d.kind = 'final')",
        ),
    ];
    for (what, from) in rules {
        let found: i64 = connection.query_row(&format!("SELECT count(*) FROM {from}"), [], |row| row.get(0)).expect(from);
        if found > 0 {
            return Err(format!("after the recovery there is {what}"));
        }
    }
    Ok(())
}

/// The table and the identifier of a row.
fn identity(row: &str) -> &str {
    row.match_indices(' ').nth(2).map_or(row, |(end, _)| &row[..end])
}
