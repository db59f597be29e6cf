//! A conversation in virtual time, drawn: the clocks, the delivery, and why it waited.

use recado_sim::{Rig, policies};
use recado_trace::draw::{self, Look};
use recado_trace::story::{End, Phase, Story};
use recado_trace::{Trace, life::life};
use serde_json::json;

const PLAIN: Look = Look { columns: 80, colour: false, ascii: true };

/// The taxi's result comes while the caller speaks, and is told on the next response.
fn told_late() -> (Trace, Trace) {
    let mut rig = Rig::new(policies());
    let call = rig.quiet_call(Some("ana"));
    let operations = rig.request(call, &["taxi"]);
    rig.run(3_000);
    rig.caller_speaks(call, 2_000);
    rig.run(500);
    rig.done(operations[0], json!({ "value": "at nine" }));
    rig.run_until("the turn ends", |rig| rig.calls[call].asked.len() == 3);
    rig.reply(call, &["Muy bien"]);
    rig.run(30_000);
    let read = |text: &str| Trace::read(text).unwrap();
    (read(rig.calls[call].trace().unwrap()), read(rig.trace().unwrap()))
}

#[test]
fn each_blocker_is_named_with_how_long_it_held_the_delivery() {
    let (trace, ledger) = told_late();
    let story = Story::of(&trace, Some(&ledger)).unwrap();
    let [told] = &story.deliveries[..] else { panic!("{:?}", story.deliveries) };
    assert_eq!(told.end, End::Heard);
    let names: Vec<String> = told.totals().into_iter().map(|(phase, _)| phase.name()).collect();
    let order = ["caller_speaking", "speech_trailing", "claim, to ride", "speaking", "evidence"];
    let places: Vec<usize> =
        order.iter().map(|name| names.iter().position(|found| found == name).unwrap_or_else(|| panic!("no {name} in {names:?}"))).collect();
    assert!(places.is_sorted(), "{names:?}");
    // The phases follow one another from the offer to the evidence.
    assert_eq!(told.phases.first().map(|phase| phase.from), Some(told.offered));
    assert!(told.phases.windows(2).all(|pair| pair[0].to == pair[1].from), "{:?}", told.phases);
    assert!(matches!(told.phases.last().map(|phase| phase.what), Some(Phase::Evidence | Phase::Speaking)));
    let [operation] = &story.operations[..] else { panic!("{:?}", story.operations) };
    assert_eq!(operation.tool.as_deref(), Some("taxi"));
}

#[test]
fn the_drawing_fits_eighty_columns_of_ascii_and_names_what_was_waited_for() {
    let (trace, ledger) = told_late();
    let story = Story::of(&trace, Some(&ledger)).unwrap();
    for (look, only) in [(PLAIN, None), (PLAIN, Some(story.deliveries[0].delivery)), (Look { columns: 20, ..PLAIN }, None)] {
        let text = draw::story(&story, only, look);
        assert!(text.is_ascii(), "{text}");
        let rows = text.split("\n\n").next().unwrap();
        assert!(rows.lines().all(|line| line.len() <= look.columns.max(60)), "{text}");
        for row in ["caller  ", "generation ", "playback ", "operations ", "delivery 1 "] {
            assert_eq!(rows.lines().filter(|line| line.starts_with(row)).count(), 1, "{row} in\n{text}");
        }
        assert!(text.contains("ms  caller_speaking    waited for the caller to have spoken\n"), "{text}");
        assert!(text.contains("heard, on evidence\n"), "{text}");
    }
    let colours = draw::story(&story, None, Look { columns: 120, colour: true, ascii: false });
    assert!(colours.contains("\u{1b}[36m") && colours.contains('█') && !colours.contains('#'), "{colours}");
}

#[test]
fn a_life_goes_from_ready_over_its_claim_to_heard() {
    let (trace, ledger) = told_late();
    let delivery = Story::of(&trace, None).unwrap().deliveries[0].delivery;
    let events = life(delivery, &[ledger, trace]);
    let place =
        |what: &str| events.iter().position(|event| event.what.starts_with(what)).unwrap_or_else(|| panic!("no {what} in {events:#?}"));
    let order = ["ready", "offered", "caller_speaking", "claimed by ses_", "evidence", "heard", "spoken"].map(place);
    assert!(order.is_sorted(), "{events:#?}");
    assert!(life(recado_core::DeliveryId(1), &[]).is_empty());
}

#[test]
fn a_conversation_without_deliveries_says_so() {
    let mut rig = Rig::new(policies());
    let call = rig.quiet_call(None);
    let trace = Trace::read(rig.calls[call].trace().unwrap()).unwrap();
    let story = Story::of(&trace, None).unwrap();
    assert_eq!(story.party, None);
    assert!(draw::story(&story, None, PLAIN).contains("No delivery was offered to this conversation."));
}
