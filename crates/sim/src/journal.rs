//! The trace that a simulated machine leaves, as a box writes it: redacted. When the machine's life ends, the trace is read
//! back and replayed, and today's code must decide about the redacted inputs what it decided about the real ones.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use recado_core::ids::BootId;
use recado_core::policy::ToolPolicy;
use recado_core::time::Step;
use recado_trace::redact::Key;
use recado_trace::{Mode, Moment, Redactor, Scribe, Subject, Taken, Trace, Verdict, record, replay};

/// The trace of one machine.
#[derive(Debug)]
pub struct Journal<S> {
    scribe: Scribe,
    text: String,
    of: PhantomData<S>,
}

impl<S: Subject> Journal<S> {
    /// Begins the machine, and its trace.
    pub fn begin(step: &mut Step, boot: BootId, policies: &BTreeMap<String, ToolPolicy>, start: S::Start) -> (S, Self, Vec<S::Effect>) {
        let (moment, start_json) = (Moment::of(step), record::json(&start).expect("a start is JSON"));
        let (machine, effects) = S::begin(step, start);
        let taken = Taken::of(&machine, moment, start_json, &effects).expect("effects are JSON");
        let mut scribe = Scribe::new(S::KIND, boot, "sim", Mode::Redacted, Redactor::of(Key::derive(&[5; 32]), policies.values()), moment);
        let text = scribe.begin::<S>(&taken).expect("a first line");
        (machine, Self { scribe, text, of: PhantomData }, effects)
    }

    /// The trace so far.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// Gives the machine an input, and records it where there is a journal.
pub fn handle<S: Subject>(journal: &mut Option<Journal<S>>, machine: &mut S, step: &mut Step, input: S::Input) -> Vec<S::Effect> {
    let Some(journal) = journal else { return machine.handle(step, input) };
    let (moment, json) = (Moment::of(step), record::json(&input).expect("an input is JSON"));
    let effects = machine.handle(step, input);
    let taken = Taken::of(machine, moment.handled(step), json, &effects).expect("effects are JSON");
    journal.text += &journal.scribe.entry(&taken).expect("a line");
    effects
}

impl<S> Drop for Journal<S> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let trace = Trace::read(&self.text).expect("a trace reads back");
        // Where it can't, a new field of states is taken for words: `recado_trace`'s `place` lists those that are not.
        let inputs = trace.entries.len() + 1;
        assert_eq!(replay(&trace), Ok(Verdict::Same { inputs, missed: None }), "redacted, it is decided otherwise");
    }
}
