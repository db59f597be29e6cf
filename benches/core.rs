//! The core's share: one input of a conversation, one of the ledger, and a whole operation from asked to heard, without
//! store and sound; with and without traces. The ratio to quote is against the 20 ms of a media tick.

use std::collections::BTreeMap;
use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use recado::admin::HealthState;
use recado::telemetry::Measures;
use recado::traces::{Keeper, Kept, Traced, Traces};
use recado_core::conversation::{
    Acoustic, AcousticEdge, AcousticEpoch, Channel, Content, Conversation, Effect, Evidence, Generation, Input, ModelEvent, PlaybackEvent,
    Purpose, SegmentRef, Settings, ToolCall,
};
use recado_core::ids::{BootId, PartyId, ResponseId, SessionId, TurnId};
use recado_core::ledger::{self, AttemptOutcome, Ledger, Snapshot};
use recado_core::policy::{Language, ToolPolicy};
use recado_core::time::{Step, Time, Wall};
use recado_trace::redact::Key;
use recado_trace::subject::{ConversationStart, LedgerStart};
use recado_trace::{Mode, Moment, Redactor, Scribe, SubjectKind, Taken, record};

fn step(now: u64) -> Step {
    Step::new(Time(now), Wall { unix_ms: 1_700_000_000_000 + now as i64, synchronised: true }, u128::from(now + 1) << 64)
}

fn channel() -> Channel {
    Channel {
        session: SessionId(1),
        party: Some(PartyId("bench/1".into())),
        language: Language::Es,
        best: Evidence::Received,
        far_buffer_ms: 120,
    }
}

/// A box without sound and disk: what is said is heard at once, what is committed is durable at once.
struct Bare {
    now: u64,
    ledger: Traced<Ledger>,
    conversation: Traced<Conversation>,
    inputs: u64,
}

impl Bare {
    fn begin(traces: &Traces) -> Self {
        let policy = ToolPolicy { idempotent: true, ..ToolPolicy::default() };
        let policies = BTreeMap::from([("table".to_owned(), policy)]);
        let start = LedgerStart { boot: BootId(1), policies, snapshot: Snapshot::default() };
        let (ledger, _) = Traced::<Ledger>::begin(traces, "boot_1", &mut step(0), start);
        let start = ConversationStart { settings: Settings::default(), channel: channel() };
        let (conversation, effects) = Traced::<Conversation>::begin(traces, "ses_1", &mut step(1), start);
        let mut bare = Self { now: 1, ledger, conversation, inputs: 0 };
        bare.carry_out(effects);
        bare
    }

    fn conversation(&mut self, input: Input) {
        self.now += 5;
        self.inputs += 1;
        let effects = self.conversation.handle(&mut step(self.now), input);
        self.carry_out(effects);
    }

    fn ledger(&mut self, input: ledger::Input) {
        self.inputs += 1;
        let effects = self.ledger.handle(&mut step(self.now), input);
        for effect in effects {
            match effect {
                ledger::Effect::Persist { commit, .. } => self.ledger(ledger::Input::Durable(commit)),
                ledger::Effect::Dispatch(dispatch) => self.ledger(ledger::Input::Attempted {
                    operation: dispatch.operation,
                    attempt: dispatch.attempt,
                    outcome: AttemptOutcome::Succeeded(serde_json::json!({ "at": "nine" })),
                }),
                ledger::Effect::Tell { news, .. } => self.conversation(Input::News(news)),
                // Nothing is cancelled, asked about or handed off here.
                ledger::Effect::Answer { .. }
                | ledger::Effect::Measured(_)
                | ledger::Effect::Cancel(_)
                | ledger::Effect::Inquire(_)
                | ledger::Effect::HandOff(_) => {}
            }
        }
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Speak { segment, .. } => self.heard(segment),
                Effect::Ledger(input) => self.ledger(*input),
                _ => {}
            }
        }
    }

    fn heard(&mut self, segment: SegmentRef) {
        let (packet, generation) = (self.now, Generation(1));
        self.conversation(Input::Playback(PlaybackEvent::Ready { segment, duration_ms: 5, words: Vec::new(), near_silent: false }));
        self.conversation(Input::Playback(PlaybackEvent::Started { segment, at: Time(self.now), packet, generation }));
        self.conversation(Input::Playback(PlaybackEvent::Sent { segment, at: Time(self.now), packet, generation }));
        self.conversation(Input::Playback(PlaybackEvent::Report {
            generation,
            highest_packet: packet,
            cumulative_lost: 0,
            at: Time(self.now),
        }));
    }

    /// The caller asks, the tool answers, the closing is told and heard.
    fn errand(&mut self, epoch: u64) {
        for (offset, to) in [(1, Acoustic::Suspected), (2, Acoustic::Speaking), (3, Acoustic::Trailing), (4, Acoustic::Quiet)] {
            let edge = AcousticEdge { to, epoch: AcousticEpoch(epoch + offset), at: Time(self.now) };
            self.now += 200;
            let effects = self.conversation.handle(&mut step(self.now), Input::Acoustic(edge));
            self.inputs += 1;
            let asked =
                effects.iter().find_map(|effect| if let Effect::Respond { response, .. } = effect { Some(*response) } else { None });
            self.carry_out(effects);
            if let Some(response) = asked {
                let call = ToolCall {
                    call_id: "1".into(),
                    tool: "table".into(),
                    arguments: serde_json::json!({ "turn": epoch }),
                    confirmed: false,
                };
                self.conversation(Input::Model(ModelEvent::ToolCall { response, call }));
                let content = Content::Text { text: "Muy bien".into(), language: Language::Es };
                self.conversation(Input::Model(ModelEvent::Clause { response, content }));
                self.conversation(Input::Model(ModelEvent::Complete { response }));
            }
        }
        self.now += 2_000;
        self.conversation(Input::Wake);
    }
}

/// A ledger with so many operations open, each in a batch of its own.
fn busy(open: u64) -> Ledger {
    let policies = BTreeMap::from([("table".to_owned(), ToolPolicy { idempotent: true, ..ToolPolicy::default() })]);
    let (mut ledger, _) = Ledger::recover(&mut step(0), BootId(1), policies, Snapshot::default());
    let session = SessionId(1);
    ledger.handle(&mut step(1), ledger::Input::SessionUp { session, party: None, language: Language::Es });
    for number in 0..open {
        let arguments = serde_json::json!({ "number": number });
        let call = ToolCall { call_id: "1".into(), tool: "table".into(), arguments, confirmed: false };
        let (turn, response) = (TurnId(number.into()), ResponseId(number.into()));
        let mut effects = ledger.handle(&mut step(number + 2), ledger::Input::Accept { session, turn, response, call });
        while let Some(effect) = effects.pop() {
            if let ledger::Effect::Persist { commit, .. } = effect {
                effects.extend(ledger.handle(&mut step(number + 2), ledger::Input::Durable(commit)));
            }
        }
    }
    ledger
}

fn core(criterion: &mut Criterion) {
    criterion.bench_function("ledger: an input and the next deadline, with 8,000 operations open", |bencher| {
        let mut ledger = busy(8_000);
        bencher.iter(|| {
            ledger.handle(&mut step(9_000), ledger::Input::Wake);
            black_box(ledger.deadline())
        });
    });
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("traces");
    let kept = Kept { directory, mode: Mode::Redacted, files_max: 10, bytes_max: 64 << 20, file_bytes_max: 4 << 20 };
    let (measures, health) = (Measures::new().expect("measures"), HealthState::new(std::time::Instant::now()));
    let redactor = Redactor::of(Key::derive(&[1; 32]), []);
    let (keeper, traces) = Keeper::start(kept, BootId(1), redactor.clone(), measures, health).expect("a folder that can be written");
    for (traces, how) in [(&Traces::off(), ""), (&traces, ", recorded")] {
        criterion.bench_function(&format!("conversation: one input that changes nothing{how}"), |bencher| {
            let mut bare = Bare::begin(traces);
            bencher.iter(|| black_box(bare.conversation.handle(&mut step(bare.now), Input::Wake)));
        });
        criterion.bench_function(&format!("an errand, from asked to heard (about 30 inputs){how}"), |bencher| {
            let mut bare = Bare::begin(traces);
            let mut epoch = 0;
            bencher.iter(|| {
                bare.errand(epoch);
                epoch += 4;
            });
        });
    }
    criterion.bench_function("a trace's line, redacted (on the keeper's thread)", |bencher| {
        let bare = Bare::begin(&Traces::off());
        let moment = Moment::of(&step(5));
        let content = Content::Text { text: "La mesa para dos está reservada a las nueve.".into(), language: Language::Es };
        let segment = SegmentRef { playback: recado_core::PlaybackId(1), index: 0 };
        let purpose = Purpose::Reply { response: ResponseId(1) };
        let effects = [Effect::Speak { segment, content: content.clone(), purpose, epoch: AcousticEpoch(3) }];
        let input = record::json(&Input::Model(ModelEvent::Clause { response: ResponseId(1), content })).expect("JSON");
        let taken = Taken::of(&*bare.conversation, moment, input, &effects).expect("JSON");
        let mut scribe = Scribe::new(SubjectKind::Conversation, BootId(1), "bench", Mode::Redacted, redactor.clone(), moment);
        bencher.iter(|| black_box(scribe.entry(&taken)));
    });
    drop(traces);
    keeper.join();
}

criterion_group!(benches, core);
criterion_main!(benches);
