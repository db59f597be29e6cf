//! The judge: what was heard, asked and recorded over all lives of a box, held against what it promises.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use recado::coordination::History;
use recado::demo::{Asked, Ear};
use recado::surface::speech::espeak::EspeakNg;
use recado::surface::speech::{Synthesiser, Utterance};
use recado_core::ids::DeliveryId;
use recado_core::ledger::{DeliveryState, OperationState};
use recado_core::policy::Language;

use crate::reports::told;
use crate::story::{ACCEPTED, HEDGE, NOT_IDEMPOTENT, sentences};

/// One life of the box, from its start to its end.
#[derive(Default)]
pub struct Life {
    /// What was asked for in it, by its number.
    pub asks: Option<usize>,
    /// What the caller said in it, on the same timeline as what it heard.
    pub said: Vec<i16>,
    /// What the caller heard in it.
    pub ear: Ear,
    /// The deliveries when it was ready, before anybody called.
    pub begins: States,
    /// The deliveries when it had ended.
    pub ends: States,
}

impl Life {
    /// Whether the caller began to speak over the end of a phrase, which was cut then: what is missing is the silence that ends
    /// every phrase, and no ear can tell that from the silence that follows.
    fn is_talked_over(&self, at_ms: u64, length: usize) -> bool {
        let end = at_ms as usize * 8 + length;
        let tail = self.said.get(end.saturating_sub(TAIL).min(self.said.len())..end.min(self.said.len())).unwrap_or_default();
        tail.chunks(160).any(|frame| frame.iter().any(|sample| sample.unsigned_abs() > SILENT))
    }
}

/// What may be silent at the end of a phrase (samples): half a second.
const TAIL: usize = 4_000;

/// What the codec makes of silence stays below.
const SILENT: u16 = 300;

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
    /// Closings that were heard whole, each repetition counted.
    pub heard: usize,
    /// Those that were heard again, each after the hedge.
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
        self.heard += other.heard;
        self.hedged += other.hedged;
        self.uncertain += other.uncertain;
        self
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { faults, operations, effects, heard, hedged, uncertain } = self;
        write!(
            f,
            "{operations} operations, {effects} effects, {heard} closings heard, {hedged} of them again with a hedge; {uncertain} uncertain"
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
    for life in lives.iter().filter_map(|life| life.asks) {
        for (at, sentence) in sentences(life).into_iter().enumerate() {
            let operation = history.operations.iter().find(|operation| operation.arguments["told"] == sentence);
            // What was in doubt is told as a correction. The first two are one batch: cut before any of it was heard, it is told
            // again in one piece, which begins as the first alone does.
            let mut wordings = vec![sentence.to_owned(), format!("A correction: {sentence}")];
            if at == 1 {
                wordings.push(sentences(life)[..2].join(" "));
            }
            closing(lives, sentence, &wordings, operation.map(|operation| operation.state), &mut verdict).await;
        }
    }
    for life in lives {
        let Some(asks) = life.asks else { continue };
        let accepted = !life.ear.find(&phrase(ACCEPTED).await).is_empty();
        let recorded =
            history.operations.iter().any(|operation| sentences(asks).iter().any(|sentence| operation.arguments["told"] == *sentence));
        if accepted && !recorded {
            verdict.faults.push(format!("an acceptance was heard in life {asks}, and nothing is on record"));
        }
    }
    verdict
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
        let is_known = asked.iter().any(|one| one.arguments == operation.arguments);
        if operation.state == OperationState::Succeeded && !is_known {
            verdict.faults.push(format!("operation {} succeeded, and its tool knows nothing of it", operation.id));
        }
        if !matches!(operation.state, OperationState::Succeeded | OperationState::Unknown | OperationState::Failed) {
            verdict.faults.push(format!("operation {} is left {:?}", operation.id, operation.state));
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

/// What the ear holds of one closing's sentence, in any of its wordings.
async fn closing(lives: &[Life], sentence: &str, wordings: &[String], operation: Option<OperationState>, verdict: &mut Verdict) {
    let hedge = phrase(HEDGE).await;
    let (mut heard, mut whole) = (0, 0);
    for (number, life) in lives.iter().enumerate() {
        let mut places = Vec::new();
        for wording in wordings {
            let phrase = phrase(wording).await;
            places.extend(life.ear.find(&phrase).iter().map(|heard| (heard.at_ms, life.is_talked_over(heard.at_ms, phrase.len()))));
        }
        places.sort_unstable();
        for (at, talked_over) in places {
            if whole > 0 && life.ear.find(&hedge).iter().any(|hedge| hedge.at_ms < at) {
                verdict.hedged += 1;
            } else if whole > 0 {
                verdict.faults.push(format!("{sentence:?} was heard again in life {number}, at {at} ms, without a word of doubt"));
            }
            heard += 1;
            whole += usize::from(!talked_over);
        }
    }
    verdict.heard += heard;
    match operation {
        None if heard > 0 => verdict.faults.push(format!("{sentence:?} was heard, and is not on record")),
        Some(OperationState::Succeeded) if heard == 0 => verdict.faults.push(format!("{sentence:?} is done, and was never heard whole")),
        Some(state) if state != OperationState::Succeeded && heard > 0 => {
            verdict.faults.push(format!("{sentence:?} was heard, and its operation is {state:?}"));
        }
        _ => {}
    }
}

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
    use serde_json::json;

    use super::*;
    use crate::story::speech_is_there;

    fn asked(tool: &str, sentence: &str, requests: u32) -> Asked {
        let arguments = json!({ "told": sentence });
        let (operation, url, token) = (String::new(), String::new(), String::new());
        Asked { tool: tool.into(), arguments, operation, requests, cancels: 0, url, token }
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
        let wordings = [first.to_owned()];
        let faults = async |lives: &[Life], state| {
            let mut verdict = Verdict::default();
            closing(lives, first, &wordings, state, &mut verdict).await;
            (verdict.faults.len(), verdict.heard, verdict.hedged)
        };
        let done = Some(OperationState::Succeeded);
        let (once, other) = (heard(&[second, first]).await, heard(&[second]).await);
        assert_eq!(faults(&[other, once], done).await, (0, 1, 0));
        let (once, again) = (heard(&[first]).await, heard(&[first]).await);
        assert_eq!(faults(&[once, again], done).await, (1, 2, 0), "told twice");
        let cut = Life { said: vec![9_000; phrase(first).await.len()], ..heard(&[first]).await };
        assert_eq!(faults(&[cut, heard(&[first]).await], done).await, (0, 2, 0), "cut, and told again");
        let (once, hedged) = (heard(&[first]).await, heard(&[HEDGE, first]).await);
        assert_eq!(faults(&[once, hedged], done).await, (0, 2, 1));
        assert_eq!(faults(&[heard(&[second]).await], done).await, (1, 0, 0), "lost");
        assert_eq!(faults(&[heard(&[first]).await], Some(OperationState::Unknown)).await, (1, 1, 0), "not known to be done");
        assert_eq!(faults(&[heard(&[first]).await], None).await, (1, 1, 0), "never accepted");
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
