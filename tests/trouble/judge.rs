//! The judge: what was heard, asked and recorded over all lives of a box, held against what it promises.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use recado::coordination::History;
use recado::demo::{Asked, Ear};
use recado::surface::speech::espeak::EspeakNg;
use recado::surface::speech::{Synthesiser, Utterance};
use recado_core::ids::DeliveryId;
use recado_core::ledger::{DeliveryState, OperationRecord, OperationState};
use recado_core::policy::Language;

use crate::reports::told;
use crate::story::{ACCEPTED, HEDGE, NOT_IDEMPOTENT, doubt, sentences};

/// One life of the box, from its start to its end.
#[derive(Default)]
pub struct Life {
    /// What was asked for in it, by its number.
    pub asks: Option<usize>,
    /// How many of those must be on record, so far did it get.
    pub owes: usize,
    /// What the caller heard in it.
    pub ear: Ear,
    /// The deliveries when it was ready, before anybody called.
    pub begins: States,
    /// The deliveries when it had ended.
    pub ends: States,
}

/// States of deliveries.
pub type States = BTreeMap<DeliveryId, DeliveryState>;

pub fn states(history: Option<History>) -> States {
    history.into_iter().flat_map(|history| history.deliveries).map(|delivery| (delivery.id, delivery.state)).collect()
}

/// What came of a story.
#[derive(Debug, Default)]
pub struct Verdict {
    /// What the box promises and did not keep.
    pub faults: Vec<String>,
    pub operations: usize,
    pub effects: usize,
    /// Operations of which nobody knows whether they were done.
    pub not_known: usize,
    /// Closings that were heard whole, each repetition counted.
    pub heard: usize,
    /// Those that were heard again, each right after the hedge.
    pub hedged: usize,
    /// Deliveries that were being spoken when a life ended.
    pub uncertain: usize,
}

impl Verdict {
    /// Both together.
    pub fn and(mut self, other: Self) -> Self {
        self.faults.extend(other.faults);
        self.operations += other.operations;
        self.effects += other.effects;
        self.not_known += other.not_known;
        self.heard += other.heard;
        self.hedged += other.hedged;
        self.uncertain += other.uncertain;
        self
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { faults, operations, effects, not_known, heard, hedged, uncertain } = self;
        write!(
            f,
            "{operations} operations, {effects} effects, {not_known} not known, {heard} closings heard, {hedged} of them again with a hedge; {uncertain} uncertain"
        )?;
        match faults.len() {
            0 => write!(f, ": kept"),
            _ => write!(f, ": BROKEN\n         {}", faults.join("\n         ")),
        }
    }
}

/// Judges a story whose last life lasted until nothing waited any more.
pub async fn judge(lives: &[Life], history: &History, asked: &[Asked]) -> Verdict {
    let mut verdict = Verdict { operations: history.operations.len(), effects: asked.len(), ..Verdict::default() };
    effects(history, asked, &mut verdict);
    records(lives, history, &mut verdict);
    for asks in lives.iter().filter_map(|life| life.asks) {
        let of = |sentence: &str| history.operations.iter().find(|operation| operation.arguments["told"] == sentence);
        let [table, transfer, invoice] = sentences(asks);
        let doubt = doubt(asks);
        let [table_told, transfer_told] = [wordings(table, None), wordings(transfer, Some(table))];
        let doubt_told = wordings(doubt, Some(table));
        let beside = [transfer_told.as_slice(), &doubt_told].concat();
        closing(lives, Closing { of: of(table), done: &table_told, not_known: &[], beside: &beside }, &mut verdict).await;
        closing(lives, Closing { of: of(transfer), done: &transfer_told, not_known: &doubt_told, beside: &table_told }, &mut verdict).await;
        closing(lives, Closing { of: of(invoice), done: &wordings(invoice, None), not_known: &[], beside: &[] }, &mut verdict).await;
    }
    for life in lives {
        let Some(asks) = life.asks else { continue };
        let is_asked = |operation: &&OperationRecord| sentences(asks).iter().any(|sentence| operation.arguments["told"] == *sentence);
        let recorded = history.operations.iter().filter(is_asked).count();
        if recorded == 0 && !life.ear.find(&phrase(ACCEPTED).await).is_empty() {
            verdict.faults.push(format!("an acceptance was heard in life {asks}, and nothing is on record"));
        }
        if recorded < life.owes {
            verdict.faults.push(format!("{recorded} operations of life {asks} are on record, which got as far as {}", life.owes));
        }
    }
    verdict
}

/// What a closing may be heard as: alone; as a correction, where it was in doubt; in one piece with the hedge, where a correction of
/// something else in its batch has taken it over; or in one piece with what is before it in the batch, where that was cut before
/// any of it was heard. Such a piece begins as that alone does.
fn wordings(sentence: &str, after: Option<&str>) -> Vec<String> {
    let new = [sentence.to_owned(), format!("A correction: {sentence}")];
    let before = after.into_iter().flat_map(|before| [before.to_owned(), after_hedge(before)]);
    let in_one_piece: Vec<String> = before.flat_map(|before| new.each_ref().map(|new| format!("{before} {new}"))).collect();
    new.into_iter().chain([after_hedge(sentence)]).chain(in_one_piece).collect()
}

fn after_hedge(sentence: &str) -> String {
    format!("{HEDGE} {sentence}")
}

/// Side effects: one key for each intent, one request for each key that may not be repeated, and each on record.
fn effects(history: &History, asked: &[Asked], verdict: &mut Verdict) {
    let mut keys: HashMap<&str, u32> = HashMap::new();
    for one in asked {
        *keys.entry(told(one)).or_default() += 1;
        if one.tool == NOT_IDEMPOTENT && one.requests > 1 {
            verdict.faults.push(format!("{} was asked {} times for {:?}, which may not be repeated", one.tool, one.requests, told(one)));
        }
        if !history.operations.iter().any(|operation| operation.arguments == one.arguments) {
            verdict.faults.push(format!("{:?} was asked of {} and is not on record", told(one), one.tool));
        }
    }
    for (sentence, keys) in keys.into_iter().filter(|(_, keys)| *keys > 1) {
        verdict.faults.push(format!("{sentence:?} had {keys} effects"));
    }
    for operation in &history.operations {
        let (id, state) = (operation.id, operation.state);
        let is_known = asked.iter().any(|one| one.arguments == operation.arguments);
        match state {
            OperationState::Succeeded if is_known => {}
            OperationState::Succeeded => verdict.faults.push(format!("operation {id} succeeded, and its tool knows nothing of it")),
            // Its request was about to leave: nobody but the tool knows whether it did, and the tool never reports.
            OperationState::Unknown if operation.tool == NOT_IDEMPOTENT && !is_known => verdict.not_known += 1,
            _ if is_known => verdict.faults.push(format!("operation {id} is left {state:?}, and its tool has reported that it is done")),
            _ => verdict.faults.push(format!("operation {id} of {} is left {state:?}, and was never asked for", operation.tool)),
        }
        if history.operations.iter().any(|other| other.id != id && other.arguments == operation.arguments) {
            verdict.faults.push(format!("operation {id} is on record under another id too"));
        }
    }
}

/// The store: each batch has its closing, each closing has ended, and doubt arises only where speech was open.
fn records(lives: &[Life], history: &History, verdict: &mut Verdict) {
    for operation in &history.operations {
        if !history.deliveries.iter().any(|delivery| delivery.batch == operation.batch) {
            verdict.faults.push(format!("operation {} has no closing", operation.id));
        }
    }
    for delivery in history.deliveries.iter().filter(|delivery| !delivery.state.terminal()) {
        verdict.faults.push(format!("delivery {} is left {:?}", delivery.id, delivery.state));
    }
    for pair in lives.windows(2) {
        for (id, before) in &pair[0].ends {
            let after = pair[1].begins.get(id);
            let was_open = matches!(before, DeliveryState::Speaking | DeliveryState::Uncertain);
            match after {
                None => verdict.faults.push(format!("delivery {id} is gone after a restart")),
                Some(DeliveryState::Uncertain) if !was_open => {
                    verdict.faults.push(format!("delivery {id} became doubtful though it was {before:?}"));
                }
                Some(after) if before.terminal() && after != before => {
                    verdict.faults.push(format!("delivery {id} was {before:?} and became {after:?} by a restart"));
                }
                Some(_) => verdict.uncertain += usize::from(*before == DeliveryState::Speaking),
            }
        }
    }
}

/// What one operation of a batch may be told as.
struct Closing<'a> {
    /// Its record, where there is one.
    of: Option<&'a OperationRecord>,
    /// How it sounds that it is done.
    done: &'a [String],
    /// How it sounds that this is not known.
    not_known: &'a [String],
    /// What else its batch is told as.
    beside: &'a [String],
}

/// Where a phrase was heard whole (ms since the call began).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    from_ms: u64,
    to_ms: u64,
    /// Whether the hedge is the beginning of it.
    is_hedged: bool,
}

impl Place {
    /// Whether the next thing that is said begins at `from_ms`.
    fn is_right_before(&self, from_ms: u64) -> bool {
        self.from_ms < from_ms && self.to_ms.abs_diff(from_ms) <= APART_MS
    }
}

/// Where any of these was heard; the first of them is the sentence alone.
async fn places(life: &Life, wordings: &[String]) -> Vec<Place> {
    let mut places = Vec::new();
    let hedged = wordings.first().map(|sentence| after_hedge(sentence));
    for wording in wordings {
        let phrase = phrase(wording).await;
        places.extend(life.ear.find(&phrase).iter().map(|heard| {
            let (from_ms, to_ms) = (heard.at_ms, heard.at_ms + phrase.len() as u64 / 8);
            Place { from_ms, to_ms, is_hedged: hedged.as_ref() == Some(wording) }
        }));
    }
    places.sort_unstable();
    places
}

/// What the ear holds of one closing, against what is on record.
async fn closing(lives: &[Life], closing: Closing<'_>, verdict: &mut Verdict) {
    let done = times_heard(lives, closing.done, closing.beside, verdict).await;
    let not_known = times_heard(lives, closing.not_known, closing.beside, verdict).await;
    let Some(sentence) = closing.done.first() else { return };
    let Some(operation) = closing.of else {
        if done + not_known > 0 {
            verdict.faults.push(format!("{sentence:?}, or that it is not known, was heard, and is not on record"));
        }
        return;
    };
    match operation.state {
        OperationState::Succeeded if done == 0 => verdict.faults.push(format!("{sentence:?} is done, and was never heard whole")),
        OperationState::Succeeded => {}
        state if done > 0 => verdict.faults.push(format!("{sentence:?} was heard, and its operation is {state:?}")),
        OperationState::Unknown if not_known == 0 => {
            verdict.faults.push(format!("whether {sentence:?} is not known, and that was never heard whole"));
        }
        _ => {}
    }
}

/// How often a closing was heard, in any of its wordings; each time after it was heard whole, a word of doubt must come right
/// before it, or before what is told with it.
async fn times_heard(lives: &[Life], wordings: &[String], beside: &[String], verdict: &mut Verdict) -> usize {
    let mut heard = 0;
    for (number, life) in lives.iter().enumerate() {
        let own = places(life, wordings).await;
        if own.is_empty() {
            continue;
        }
        let (hedges, beside) = (places(life, &[HEDGE.to_owned()]).await, places(life, beside).await);
        for place in own {
            if heard > 0 && (place.is_hedged || is_hedged(place.from_ms, &hedges, &beside)) {
                verdict.hedged += 1;
            } else if heard > 0 {
                let (sentence, at) = (&wordings[0], place.from_ms);
                verdict.faults.push(format!("{sentence:?} was heard again in life {number}, at {at} ms, without a word of doubt"));
            }
            heard += 1;
        }
    }
    verdict.heard += heard;
    heard
}

/// Whether the hedge is what was said before `from_ms`, or before what is told together with it.
fn is_hedged(mut from_ms: u64, hedges: &[Place], beside: &[Place]) -> bool {
    while !hedges.iter().any(|hedge| hedge.is_right_before(from_ms)) {
        let Some(before) = beside.iter().find(|other| other.is_right_before(from_ms)) else { return false };
        from_ms = before.from_ms;
    }
    true
}

/// Between two clauses of one delivery is a short pause, and little more.
const APART_MS: u64 = 500;

/// How `text` sounds when the box says it.
async fn phrase(text: &str) -> Arc<[i16]> {
    static KNOWN: LazyLock<Mutex<HashMap<String, Arc<[i16]>>>> = LazyLock::new(Mutex::default);
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(samples) = known().get(text) {
        return Arc::clone(samples);
    }
    let audio = EspeakNg::default().synthesise(&Utterance::new(text, Language::En)).await.expect("espeak-ng speaks");
    let samples: Arc<[i16]> = audio.samples_8khz.to_vec().into();
    known().insert(text.to_owned(), Arc::clone(&samples));
    samples
}

#[cfg(test)]
mod tests {
    use recado_core::ids::{BatchId, IntentKey, OperationId, SessionId, TurnId};
    use recado_core::time::Wall;
    use serde_json::json;

    use super::*;
    use crate::story::speech_is_there;

    fn asked(tool: &str, sentence: &str, requests: u32) -> Asked {
        let arguments = json!({ "told": sentence });
        let (operation, url, token) = (String::new(), String::new(), String::new());
        Asked { tool: tool.into(), arguments, operation, requests, cancels: 0, url, token }
    }

    fn operation(tool: &str, sentence: &str, state: OperationState) -> OperationRecord {
        OperationRecord {
            id: OperationId(1),
            intent_key: IntentKey("key".into()),
            batch: BatchId(1),
            ordinal: 0,
            party: None,
            session: SessionId(1),
            turn: TurnId(1),
            tool: tool.into(),
            arguments: json!({ "told": sentence }),
            state,
            attempt: 1,
            unreached: 0,
            handle: None,
            maybe_executed: false,
            result: None,
            error: None,
            contradiction: None,
            accepted: Wall::default(),
        }
    }

    #[tokio::test]
    async fn the_judge_hears_what_was_lost_and_what_was_told_twice() {
        if !speech_is_there() {
            return;
        }
        let [first, second, _] = sentences(0);
        let heard = async |texts: &[&str]| {
            let mut samples = Vec::new();
            for text in texts {
                samples.extend_from_slice(&phrase(text).await);
            }
            Life { ear: Ear { samples }, ..Life::default() }
        };
        let (told, doubtful, other) = (wordings(first, None), wordings(doubt(0), None), wordings(second, None));
        let faults = async |lives: &[Life], state: Option<OperationState>| {
            let mut verdict = Verdict::default();
            let record = state.map(|state| operation("table", first, state));
            closing(lives, Closing { of: record.as_ref(), done: &told, not_known: &doubtful, beside: &other }, &mut verdict).await;
            (verdict.faults.len(), verdict.heard, verdict.hedged)
        };
        let (done, not_known) = (Some(OperationState::Succeeded), Some(OperationState::Unknown));
        let (once, other) = (heard(&[second, first]).await, heard(&[second]).await);
        assert_eq!(faults(&[other, once], done).await, (0, 1, 0));
        let (once, again) = (heard(&[first]).await, heard(&[first]).await);
        assert_eq!(faults(&[once, again], done).await, (1, 2, 0), "told twice");
        let (once, hedged) = (heard(&[first]).await, heard(&[HEDGE, first]).await);
        assert_eq!(faults(&[once, hedged], done).await, (0, 2, 1));
        let (once, hedged) = (heard(&[first]).await, heard(&[HEDGE, second, first]).await);
        assert_eq!(faults(&[once, hedged], done).await, (0, 2, 1), "hedged with what is told before it");
        let (once, of_another) = (heard(&[first]).await, heard(&[HEDGE, ACCEPTED, first]).await);
        assert_eq!(faults(&[once, of_another], done).await, (1, 2, 0), "the hedge was of something else");
        assert_eq!(faults(&[heard(&[HEDGE, first, first]).await], done).await, (1, 2, 0), "the hedge was of the first time");
        let in_one_piece = after_hedge(first);
        assert_eq!(faults(&[heard(&[&in_one_piece]).await], done).await, (0, 1, 0), "hedged in one piece");
        assert_eq!(faults(&[heard(&[first, &in_one_piece]).await], done).await, (0, 2, 1), "and heard again so");
        assert_eq!(faults(&[heard(&[&in_one_piece, first]).await], done).await, (1, 2, 0), "hedged only the first time");
        let of_another = after_hedge(second);
        assert_eq!(faults(&[heard(&[first, &of_another, first]).await], done).await, (1, 2, 0), "the hedge is of another alone");
        let pieces = wordings(first, Some(second));
        for piece in &pieces {
            let mut verdict = Verdict::default();
            assert_eq!(times_heard(&[heard(&[piece]).await], &pieces, &[], &mut verdict).await, 1, "{piece}");
        }
        assert_eq!(faults(&[heard(&[second]).await], done).await, (1, 0, 0), "lost");
        assert_eq!(faults(&[heard(&[first]).await], not_known).await, (1, 1, 0), "not known to be done");
        assert_eq!(faults(&[heard(&[second]).await], not_known).await, (1, 0, 0), "not known, and not told");
        assert_eq!(faults(&[heard(&[doubt(0)]).await], not_known).await, (0, 1, 0));
        assert_eq!(faults(&[heard(&[doubt(0), doubt(0)]).await], not_known).await, (1, 2, 0), "told twice that it is not known");
        assert_eq!(faults(&[heard(&[doubt(0)]).await], done).await, (1, 1, 0), "done, and told as not known");
        assert_eq!(faults(&[heard(&[first]).await], None).await, (1, 1, 0), "never accepted");
    }

    #[tokio::test]
    async fn the_judge_wants_on_record_what_a_life_got_as_far_as() {
        if !speech_is_there() {
            return;
        }
        let life = |owes| [Life { asks: Some(0), owes, ..Life::default() }];
        let nothing = History { operations: Vec::new(), deliveries: Vec::new() };
        assert!(judge(&life(0), &nothing, &[]).await.faults.is_empty());
        assert_eq!(judge(&life(1), &nothing, &[]).await.faults.len(), 1);
    }

    #[test]
    fn the_judge_takes_not_known_only_of_what_may_not_be_repeated_and_was_never_reported() {
        let [first, second, _] = sentences(0);
        let of = |tool: &str, state, asked: &[Asked]| {
            let sentence = if tool == NOT_IDEMPOTENT { second } else { first };
            let history = History { operations: vec![operation(tool, sentence, state)], deliveries: Vec::new() };
            let mut verdict = Verdict::default();
            effects(&history, asked, &mut verdict);
            (verdict.faults.len(), verdict.not_known)
        };
        let table = [asked("table", first, 1)];
        assert_eq!(of("table", OperationState::Succeeded, &table), (0, 0));
        assert_eq!(of("table", OperationState::Succeeded, &[]), (1, 0));
        assert_eq!(of("table", OperationState::Unknown, &table), (1, 0));
        assert_eq!(of("table", OperationState::Unknown, &[]), (1, 0));
        assert_eq!(of("table", OperationState::Failed, &table), (1, 0));
        assert_eq!(of(NOT_IDEMPOTENT, OperationState::Unknown, &[]), (0, 1));
        assert_eq!(of(NOT_IDEMPOTENT, OperationState::Unknown, &[asked(NOT_IDEMPOTENT, second, 1)]), (1, 0));
        assert_eq!(of(NOT_IDEMPOTENT, OperationState::Failed, &[]), (1, 0));
    }

    #[test]
    fn the_judge_counts_effects_that_nobody_may_have_had() {
        let history = History { operations: Vec::new(), deliveries: Vec::new() };
        let [first, second, _] = sentences(0);
        let mut verdict = Verdict::default();
        effects(&history, &[asked("table", first, 1), asked("table", first, 1), asked(NOT_IDEMPOTENT, second, 2)], &mut verdict);
        let faults = verdict.faults.join("; ");
        for fault in ["had 2 effects", "was asked 2 times", "is not on record"] {
            assert!(faults.contains(fault), "{fault}: {faults}");
        }
    }

    #[test]
    fn the_judge_finds_doubt_and_loss_that_a_restart_made() {
        let (ready, spoken) = (DeliveryId(1), DeliveryId(2));
        let ends: States = [(ready, DeliveryState::Ready), (spoken, DeliveryState::Spoken)].into();
        let begins: States = [(ready, DeliveryState::Uncertain)].into();
        let history = History { operations: Vec::new(), deliveries: Vec::new() };
        let mut verdict = Verdict::default();
        records(&[Life { ends, ..Life::default() }, Life { begins, ..Life::default() }], &history, &mut verdict);
        assert_eq!((verdict.faults.len(), verdict.uncertain), (2, 0), "{:?}", verdict.faults);
    }
}
