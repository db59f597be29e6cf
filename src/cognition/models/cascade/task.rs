//! The task of one call: the one place that has a clock and makes requests.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use recado_core::conversation::input::ModelEvent;
use recado_core::{ResponseId, Time};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until};
use tracing::{Instrument, Span, info, warn};

use super::model::Observer;
use super::session::{Action, Input, JobId, Part, Session, Setup, Totals};
use crate::cognition::language::http::{Endpoint, Fault, Language, Transcription};
use crate::cognition::language::wire::{AnswerEvent, Line};
use crate::cognition::models::audio::CallerAudio;
use crate::cognition::models::port::{Availability, Command, Output};

/// The parts, which all calls share.
#[derive(Debug)]
pub(super) struct Parts {
    pub transcription: Transcription,
    pub language: Language,
    pub setup: Arc<Setup>,
    /// Who is told how they stand, and what calls take.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Parts {
    /// Where a part is.
    pub fn endpoint(&self, part: Part) -> &Endpoint {
        match part {
            Part::Transcription => self.transcription.endpoint(),
            Part::Language => self.language.endpoint(),
        }
    }

    /// Whether a part can be asked, and answers before a caller has lost patience.
    ///
    /// # Errors
    /// Why not.
    pub async fn look(&self, part: Part) -> Result<(), Fault> {
        let patience = Duration::from_millis(self.setup.patience_ms());
        match part {
            Part::Transcription => self.transcription.look(patience).await,
            Part::Language => self.language.look(patience).await,
        }
    }

    /// The parts that other calls, or whoever looks between them, have found away, and why.
    fn known_to_be_away(&self) -> impl Iterator<Item = (Part, String)> {
        let known = |part| match self.observer.as_ref()?.known(part) {
            Availability::Away { reason } => Some((part, reason)),
            Availability::Connecting | Availability::Ready => None,
        };
        [Part::Transcription, Part::Language].into_iter().filter_map(known)
    }
}

/// The task's own.
pub(super) struct Task {
    parts: Arc<Parts>,
    session: Session,
    began: Instant,
    requests: JoinSet<()>,
    handles: BTreeMap<JobId, AbortHandle>,
    /// Where requests say what comes of them.
    says: mpsc::Sender<Input>,
    /// What the call has not taken yet.
    pending: VecDeque<Output>,
}

impl Task {
    /// A task, and where its requests say what comes of them.
    pub fn new(parts: Arc<Parts>) -> (Self, mpsc::Receiver<Input>) {
        let (says, came) = mpsc::channel(CAME_MAX);
        let session = Session::new(Arc::clone(&parts.setup), parts.known_to_be_away());
        let availability = session.availability();
        let task = Self {
            parts,
            session,
            began: Instant::now(),
            requests: JoinSet::new(),
            handles: BTreeMap::new(),
            says,
            // Its requests need no connection that stands.
            pending: VecDeque::from([Output::Availability(availability)]),
        };
        (task, came)
    }

    /// Runs until the call wants nothing more of it.
    pub async fn run(
        mut self,
        mut came: mpsc::Receiver<Input>,
        mut commands: mpsc::Receiver<Command>,
        mut hears: CallerAudio,
        said: mpsc::Sender<Output>,
    ) {
        loop {
            let deadline = self.session.deadline().map(|at| self.began + Duration::from_millis(at.0));
            tokio::select! {
                // Commands first, so that a cancel comes before what it cancels; a pause comes after what was said before it.
                biased;
                command = commands.recv() => match command {
                    Some(command) => {
                        hears.heard_before(&command).for_each(|frame| self.give(Input::Caller(frame.to_vec())));
                        self.tell(command);
                    }
                    None => break,
                },
                place = said.reserve(), if !self.pending.is_empty() => match (place, self.pending.pop_front()) {
                    (Ok(place), Some(output)) => place.send(output),
                    _ => break,
                },
                Some(frame) = hears.next() => self.give(Input::Caller(frame.to_vec())),
                // Where the call takes nothing, nothing more is read.
                Some(input) = came.recv(), if self.pending.len() < PENDING_MAX => self.give(input),
                Some(_) = self.requests.join_next() => self.handles.retain(|_, handle| !handle.is_finished()),
                () = sleep_until(deadline.unwrap_or(self.began)), if deadline.is_some() => self.give(Input::Wake),
            }
        }
        // What is under way ends with the task; what it would have taken, nobody knows.
        let Totals { language, transcription, begun_ahead, dropped } = self.session.totals();
        info!(
            input_tokens = language.input_text.saturating_add(language.cached_text),
            output_tokens = language.output_text,
            cached_tokens = language.cached_text,
            transcription_tokens = transcription.transcription,
            transcription_ms = transcription.audio_ms,
            begun_ahead,
            dropped,
            frames_lost = hears.dropped(),
            "the cascade's session has ended"
        );
        if let Some(observer) = &self.parts.observer {
            observer.took(Part::Transcription, &transcription);
            observer.took(Part::Language, &language);
        }
    }

    fn tell(&mut self, command: Command) {
        if let Command::CancelResponse { response } = command {
            self.pending.retain(|output| clause_of(output) != Some(response));
        }
        self.give(Input::Command(command));
    }

    fn give(&mut self, input: Input) {
        self.tell_what_works(&input);
        let now = Time(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX));
        for action in self.session.handle(now, input) {
            match action {
                Action::WriteDown { job, samples } => self.write_down(job, samples),
                Action::Ask { job, lines } => self.ask(job, lines),
                Action::Abort(job) => {
                    if let Some(handle) = self.handles.remove(&job) {
                        handle.abort();
                    }
                }
                Action::Say(output) => self.pending.push_back(output),
                Action::Available(availability) => self.pending.push_back(Output::Availability(availability)),
                Action::Stands { part, availability } => {
                    if let Some(observer) = &self.parts.observer {
                        observer.stands(part, &availability);
                    }
                }
                Action::Look(part) => self.look(part),
                Action::GaveUp { part, fault } => self.parts.endpoint(part).gave_up(fault),
                Action::Trouble { part, reason, again_in_ms } => {
                    let part = match part {
                        Part::Transcription => "transcription",
                        Part::Language => "language",
                    };
                    warn!(part, reason, again_in_ms, "a part of the cascade has not done what it was asked");
                }
            }
        }
    }

    /// What works in this call, another one may have found away.
    fn tell_what_works(&self, input: &Input) {
        let works = match input {
            Input::WrittenDown { result: Ok(_), .. } => Part::Transcription,
            Input::Answer { event: AnswerEvent::Ended { .. }, .. } => Part::Language,
            _ => return,
        };
        if let Some(observer) = &self.parts.observer {
            observer.stands(works, &Availability::Ready);
        }
    }

    fn write_down(&mut self, job: JobId, samples: Arc<[i16]>) {
        let (parts, says) = (Arc::clone(&self.parts), self.says.clone());
        let request = async move {
            let result = parts.transcription.write_down(&samples).await;
            // Nobody waits for it where the task has ended.
            let _ = says.send(Input::WrittenDown { job, result }).await;
        };
        self.handles.insert(job, self.requests.spawn(request.instrument(Span::current())));
    }

    fn look(&mut self, part: Part) {
        let (parts, says) = (Arc::clone(&self.parts), self.says.clone());
        let look = async move {
            let result = parts.look(part).await;
            let _ = says.send(Input::Looked { part, result }).await;
        };
        self.requests.spawn(look.instrument(Span::current()));
    }

    fn ask(&mut self, job: JobId, lines: Vec<Line>) {
        let (parts, says) = (Arc::clone(&self.parts), self.says.clone());
        let request = async move {
            let Parts { language, setup, .. } = &*parts;
            let event = |event| Input::Answer { job, event };
            if let Err(fault) = language.answer(setup.instructions(), setup.offered(), &lines, &says, event).await {
                let _ = says.send(Input::AnswerFailed { job, fault }).await;
            }
        };
        self.handles.insert(job, self.requests.spawn(request.instrument(Span::current())));
    }
}

/// The response that a clause is of.
fn clause_of(output: &Output) -> Option<ResponseId> {
    match output {
        Output::Event(ModelEvent::Clause { response, .. }) => Some(*response),
        _ => None,
    }
}

/// So much of what comes waits here before nothing more is read.
const CAME_MAX: usize = 64;
/// So much waits for a call, which takes what comes at once.
const PENDING_MAX: usize = 64;
