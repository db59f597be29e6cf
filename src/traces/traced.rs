//! A machine that is recorded while it runs.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use recado_core::time::Step;
use recado_trace::{Moment, Subject, Taken, record};

use super::keeper::{Message, Traces};

/// A machine and its trace.
#[derive(Debug)]
pub struct Traced<S> {
    machine: S,
    recording: Option<Recording>,
}

/// One trace that is being written.
#[derive(Debug)]
struct Recording {
    traces: Traces,
    id: u64,
    life: Arc<Life>,
    /// Inputs that did not find room in the queue.
    missed: u64,
}

/// Shared with the keeper: when only the keeper holds it, nothing more will come.
#[derive(Debug, Default)]
pub(super) struct Life {
    /// Whether the machine's life came to its end.
    pub over: AtomicBool,
}

impl<S: Subject> Traced<S> {
    /// Begins a machine; its trace is called `name`.
    pub fn begin(traces: &Traces, name: &str, step: &mut Step, start: S::Start) -> (Self, Vec<S::Effect>) {
        let noted = traces.on().then(|| (Moment::of(step), record::json(&start)));
        let (machine, effects) = S::begin(step, start);
        let recording = noted.and_then(|(moment, start)| {
            let taken = Taken::of(&machine, moment, start?, &effects)?;
            let life = Arc::<Life>::default();
            let id = traces.begin::<S>(name, Arc::clone(&life), moment, taken)?;
            Some(Recording { traces: traces.clone(), id, life, missed: 0 })
        });
        (Self { machine, recording }, effects)
    }

    /// Gives the machine an input.
    pub fn handle(&mut self, step: &mut Step, input: S::Input) -> Vec<S::Effect> {
        let Some(recording) = &mut self.recording else { return self.machine.handle(step, input) };
        let written = self.machine.written(&input);
        let (moment, input_json) = (Moment::of(step), record::json(written.as_ref().unwrap_or(&input)));
        let effects = self.machine.handle(step, input);
        let taken = input_json.and_then(|input| Taken::of(&self.machine, moment.handled(step), input, &effects));
        recording.take(taken);
        effects
    }

    /// The machine's life is over.
    pub fn end(&self) {
        if let Some(recording) = &self.recording {
            recording.life.over.store(true, Ordering::Relaxed);
        }
    }
}

impl<S> Deref for Traced<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.machine
    }
}

impl Recording {
    fn take(&mut self, taken: Option<Taken>) {
        let sent = match taken {
            Some(taken) => {
                let missed = std::mem::take(&mut self.missed);
                let sent = self.traces.send(Message::Input { id: self.id, missed, taken });
                self.missed = if sent { 0 } else { missed };
                sent
            }
            None => false,
        };
        if !sent {
            self.missed += 1;
            self.traces.missed();
        }
    }
}
