//! A conversation with services that do what a test says.

use recado_core::conversation::effect::{Cause, HeardText, Purpose, Standing, ToolStatus};
use recado_core::conversation::input::{Acoustic, AcousticEdge, AcousticEpoch, Evidence, ModelEvent, SegmentRef};
use recado_core::ledger::Cancellation;
use recado_core::policy::Language;
use recado_core::{BatchId, DeliveryId, OperationId, PlaybackId, ResponseId, Time, TurnId};
use serde_json::json;

use super::*;
use crate::cognition::language::wire::{AskedCall, Tokens};
use crate::cognition::models::LeftMessage;

/// A session and its services.
struct Stage {
    session: Session,
    now: Time,
    turns: u128,
}

impl Stage {
    fn new(speculates: bool) -> Self {
        let tool = toml::from_str(
            "name = 'order'\ndescription = 'Orders'\nurl = 'http://127.0.0.1/'\n\
             parameters = { type = 'object', required = ['item'], additionalProperties = false, properties = { item = { type = 'string' } } }",
        );
        let setup = Setup::new(Language::Es, "Sé breve.".into(), &[tool.unwrap()], true, speculates, 4_500).unwrap();
        Self { session: Session::new(setup, []), now: Time(1_000), turns: 0 }
    }

    fn give(&mut self, input: Input) -> Vec<Action> {
        self.session.handle(self.now, input)
    }

    fn tell(&mut self, command: Command) -> Vec<Action> {
        self.give(Input::Command(command))
    }

    fn respond(&mut self, response: ResponseId, cause: Cause) -> Vec<Action> {
        self.tell(Command::Respond { response, cause })
    }

    fn acoustic(&mut self, to: Acoustic) -> Vec<Action> {
        self.tell(Command::Acoustic(AcousticEdge { to, epoch: AcousticEpoch(1), at: self.now }))
    }

    /// The caller speaks for a second, and pauses.
    fn caller_pauses(&mut self) -> Vec<Action> {
        self.acoustic(Acoustic::Suspected);
        self.acoustic(Acoustic::Speaking);
        self.give(Input::Caller(vec![500; 8_000]));
        self.acoustic(Acoustic::Trailing)
    }

    /// The caller's turn is over.
    fn turn_ends(&mut self, response: ResponseId) -> Vec<Action> {
        let mut actions = self.acoustic(Acoustic::Quiet);
        self.turns += 1;
        actions.extend(self.respond(response, Cause::Turn { turn: TurnId(self.turns) }));
        actions
    }

    /// The caller says something.
    fn caller_says(&mut self, response: ResponseId, words: &str) -> Vec<Action> {
        let mut actions = self.caller_pauses();
        actions.extend(self.turn_ends(response));
        let job = written(&actions);
        self.writes_down(job, words)
    }

    fn writes_down(&mut self, job: JobId, words: &str) -> Vec<Action> {
        self.give(Input::WrittenDown { job, result: Ok(Transcript { text: words.into(), usage: tokens(10) }) })
    }

    fn answers(&mut self, job: JobId, text: &str) -> Vec<Action> {
        self.give(Input::Answer { job, event: AnswerEvent::Text(text.into()) })
    }

    fn ends(&mut self, job: JobId, calls: &[(&str, &str)]) -> Vec<Action> {
        let calls = calls.iter().map(|(name, arguments)| AskedCall { name: (*name).into(), arguments: (*arguments).into() }).collect();
        self.give(Input::Answer { job, event: AnswerEvent::Ended { calls } })
    }

    fn fails(&mut self, job: JobId, again: Again) -> Vec<Action> {
        self.give(Input::AnswerFailed { job, fault: Fault { reach: Reach::Answers, reason: "oh".into(), again } })
    }

    /// The caller hears a segment of a response.
    fn hears(&mut self, index: u32, response: ResponseId, text: &str, standing: Standing) {
        let segment = SegmentRef { playback: PlaybackId(1), index };
        let purpose = Purpose::Reply { response };
        let actions = self.tell(Command::Heard(HeardText { segment, purpose, text: text.into(), heard_ms: 1, standing }));
        assert_eq!(actions, []);
    }

    fn later(&mut self, ms: u64) -> Vec<Action> {
        self.now = self.now.plus(ms);
        self.give(Input::Wake)
    }
}

use crate::cognition::language::http::{Again, Reach};

fn tokens(input: u64) -> Tokens {
    Tokens { input, ..Tokens::default() }
}

/// The one request to write something down.
fn written(actions: &[Action]) -> JobId {
    let mut jobs = actions.iter().filter_map(|action| match action {
        Action::WriteDown { job, .. } => Some(*job),
        _ => None,
    });
    let job = jobs.next().unwrap_or_else(|| panic!("nothing is to be written down: {actions:?}"));
    assert_eq!(jobs.next(), None);
    job
}

/// The one request for an answer, and what the model is told with it, a line each.
fn asked(actions: &[Action]) -> (JobId, Vec<String>) {
    let mut jobs = actions.iter().filter_map(|action| match action {
        Action::Ask { job, lines } => Some((*job, lines.iter().map(shown).collect())),
        _ => None,
    });
    let job = jobs.next().unwrap_or_else(|| panic!("nothing is asked: {actions:?}"));
    assert_eq!(jobs.next(), None);
    job
}

fn shown(line: &Line) -> String {
    match line {
        Line::Message { role, text } => format!("{role:?}: {text}").to_lowercase().replacen("assistant", "model", 1),
        Line::Calls(calls) => {
            let calls = calls.iter().map(|call| {
                let output: serde_json::Value = serde_json::from_str(&call.output).unwrap();
                format!("{} {}({}) = {}", call.call_id, call.name, call.arguments, output["status"].as_str().unwrap())
            });
            calls.collect::<Vec<_>>().join("; ")
        }
    }
}

fn asks_nothing(actions: &[Action]) -> bool {
    !actions.iter().any(|action| matches!(action, Action::Ask { .. } | Action::WriteDown { .. }))
}

fn events(actions: &[Action]) -> Vec<ModelEvent> {
    let events = actions.iter().filter_map(|action| match action {
        Action::Say(Output::Event(event)) => Some(event.clone()),
        _ => None,
    });
    events.collect()
}

/// What is said of `A`, or of any response.
fn said(actions: &[Action]) -> Vec<String> {
    let words = events(actions).into_iter().filter_map(|event| match event {
        ModelEvent::Clause { content, .. } => Some(content.text().to_owned()),
        _ => None,
    });
    words.collect()
}

fn failure(actions: &[Action]) -> String {
    match events(actions).pop() {
        Some(ModelEvent::Failed { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

const A: ResponseId = ResponseId(1);
const B: ResponseId = ResponseId(2);
const SETTLED: Standing = Standing::Settled(Evidence::Received);
const GREET: &str = "user: (the call has begun and nobody has spoken yet. greet the caller.)";

#[test]
fn a_greeting_is_asked_for_at_once_said_in_sentences_and_complete() {
    let mut stage = Stage::new(false);
    let (job, lines) = asked(&stage.respond(A, Cause::Greeting));
    assert_eq!(lines, [GREET]);
    assert_eq!(said(&stage.answers(job, "Buenos días, aquí ")), [""; 0]);
    assert_eq!(said(&stage.answers(job, "la cocina. ¿Qué **de")), ["Buenos días, aquí la cocina. "]);
    assert_eq!(said(&stage.answers(job, "sea**? ")), [""; 0]);
    assert_eq!(said(&stage.answers(job, "😀")), ["¿Qué desea? "]);
    let end = stage.ends(job, &[]);
    assert_eq!(events(&end), [ModelEvent::Complete { response: A }], "nobody says a picture");
    assert_eq!(stage.answers(job, "Y más. Y más."), [], "nothing comes after the end");
}

#[test]
fn a_turn_is_written_down_and_answered_with_all_that_was_heard_before() {
    let mut stage = Stage::new(false);
    let (job, _) = asked(&stage.respond(A, Cause::Greeting));
    stage.answers(job, "Buenos días. Aquí la cocina.");
    stage.ends(job, &[]);
    stage.hears(0, A, "Buenos días. ", SETTLED);
    stage.hears(1, A, "Aquí la", Standing::Provisional);
    let (job, lines) = asked(&stage.caller_says(B, " Una mesa, por favor. "));
    assert_eq!(
        lines,
        [
            "model: buenos días. ",
            "system: this is being said to the caller, in your name; whether it was heard is not known yet: \"aquí la\"",
            "user: una mesa, por favor.",
        ]
    );
    stage.ends(job, &[("order", "{\"item\":\"mesa\"}")]);
    assert_eq!(stage.session.totals().transcription, tokens(10).written_down());
    stage.hears(1, A, "Aquí la cocina.", SETTLED);
    let (_, lines) = asked(&stage.caller_says(A, "¿Y bien?"));
    assert_eq!(lines[0], "model: buenos días. aquí la cocina.", "what is known now takes the place of what was not");
}

#[test]
fn what_is_cut_is_remembered_only_as_far_as_it_was_heard() {
    let mut stage = Stage::new(false);
    let (job, _) = asked(&stage.respond(A, Cause::Greeting));
    stage.answers(job, "Buenos días, aquí la cocina. Hoy tenemos gambas. Y ");
    let cancelled = stage.tell(Command::CancelResponse { response: A });
    assert_eq!(cancelled, [Action::Abort(job)]);
    assert_eq!(stage.answers(job, "más cosas. "), [], "it is not wanted any more");
    stage.hears(0, A, "Buenos días, aquí", SETTLED);
    stage.tell(Command::Truncate { response: A, heard_ms: 900, heard_text: "Buenos días, aquí".into() });
    let (_, lines) = asked(&stage.caller_says(B, "Oiga."));
    assert_eq!(
        lines,
        [
            "model: buenos días, aquí",
            "system: you were cut off: of what you were saying, the caller heard this and no more: \"buenos días, aquí\"",
            "user: oiga.",
        ]
    );
}

#[test]
fn a_call_has_one_output_from_the_first_and_news_of_it_come_after_and_never_its_result() {
    let mut stage = Stage::new(false);
    let (job, _) = asked(&stage.caller_says(A, "Una paella."));
    stage.answers(job, "Ahora mismo.");
    let end = stage.ends(job, &[("order", "{\"item\":\"paella\"}"), ("end_call", "")]);
    let [ModelEvent::Clause { .. }, ModelEvent::ToolCall { call, .. }, ModelEvent::HangUp { .. }, ModelEvent::Complete { .. }] =
        &events(&end)[..]
    else {
        panic!("{end:?}")
    };
    assert_eq!((call.tool.as_str(), &call.arguments, call.confirmed), ("order", &json!({ "item": "paella" }), false));
    let (job, lines) = asked(&stage.respond(B, Cause::Silence { quiet_ms: 9_000 }));
    assert_eq!(lines[1], "call_1 order({\"item\":\"paella\"}) = pending; call_2 end_call() = done");
    assert!(lines[2].starts_with("system: nobody has spoken for 9 seconds."), "{lines:?}");
    stage.ends(job, &[("cancel_work", "{}")]);
    stage.tell(Command::ToolOutput { call_id: "call_1".into(), operation: Some(OperationId(1)), status: ToolStatus::Running });
    stage.tell(Command::Told { delivery: DeliveryId(1), text: "Hecho.".into() });
    stage.tell(Command::ToolOutput { call_id: "call_1".into(), operation: Some(OperationId(1)), status: ToolStatus::Told });
    stage.tell(Command::Update { delivery: DeliveryId(2), text: "A medias.".into() });
    stage.tell(Command::Cancelling(Cancellation { cancelling: vec![], ended: vec![], refused: vec![], say: "Ya no.".into() }));
    let (_, lines) = asked(&stage.caller_says(A, "¿Y?"));
    let expected = [
        "user: una paella.",
        "call_1 order({\"item\":\"paella\"}) = running; call_2 end_call() = done",
        "call_3 cancel_work({}) = done",
        "system: the caller has been told this, in your name; do not repeat it: \"hecho.\"",
        "system: about order, which was called before: the caller has been told its result already: do not call it again.",
        "system: news of work that is under way, which is no result; the caller has not been told: \"a medias.\"",
        "system: what the caller's wish to cancel came to; the caller is told this, in your name: \"ya no.\"",
        "user: ¿y?",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn a_message_that_the_model_wants_taken_is_no_turn_of_the_callers_and_what_became_of_it_is_asked_to_be_told() {
    let mut stage = Stage::new(false);
    let (job, _) = asked(&stage.caller_says(A, "Un recado."));
    stage.answers(job, "Puede hablar.");
    let end = stage.ends(job, &[("take_message", "{}")]);
    assert!(end.contains(&Action::Say(Output::WantsMessage { response: A })), "{end:?}");
    let (_, lines) = asked(&stage.tell(Command::TellOfMessage { response: B, left: LeftMessage::Kept { seconds: 120, is_cut: true } }));
    assert_eq!(lines[lines.len() - 2], "call_1 take_message({}) = taking");
    assert!(lines[lines.len() - 1].starts_with("system: the caller's message was too long. its first 120 seconds"), "{lines:?}");
}

#[test]
fn a_call_that_can_not_be_taken_is_corrected_and_not_for_ever() {
    let mut stage = Stage::new(false);
    let (mut job, _) = asked(&stage.caller_says(A, "Una paella."));
    stage.answers(job, "Ahora mismo. Un ");
    for (calls, status) in [([("ordr", "{}")], "call_1 ordr({}) = not_accepted"), ([("order", "{no")], "call_2 order({no) = not_accepted")]
    {
        let again = stage.ends(job, &calls);
        assert!(events(&again).iter().all(|event| matches!(event, ModelEvent::Clause { .. })), "{again:?}");
        let (next, lines) = asked(&again);
        assert_eq!(lines[lines.len() - 2], status);
        assert!(lines.last().unwrap().ends_with("\"ahora mismo. un\""), "what was said is not said again: {lines:?}");
        job = next;
    }
    let mut well = Stage { session: Session::new(Arc::clone(&stage.session.setup), []), ..Stage::new(false) };
    let (first, _) = asked(&well.caller_says(A, "Una paella."));
    let (second, _) = asked(&well.ends(first, &[("order", "{}")]));
    let end = events(&well.ends(second, &[("order", "{\"item\":\"paella\"}")]));
    assert!(matches!(&end[..], [ModelEvent::ToolCall { .. }, ModelEvent::Complete { .. }]), "{end:?}");
    let reason = failure(&stage.ends(job, &[("order", "[]")]));
    assert!(reason.contains("called a function in a way that can't be taken") && reason.contains("must be a JSON object"), "{reason}");
}

#[test]
fn a_request_that_failed_is_made_again_while_nothing_was_said_and_the_caller_waits() {
    let mut stage = Stage::new(false);
    let (job, lines) = asked(&stage.respond(A, Cause::Greeting));
    stage.answers(job, "Buenos ");
    let failed = stage.fails(job, Again::Soon);
    assert_eq!(failed, [Action::Trouble { part: Part::Language, reason: "oh".into(), again_in_ms: Some(500) }]);
    assert_eq!(stage.session.deadline(), Some(stage.now.plus(500)));
    assert_eq!(stage.later(499), []);
    let (job, again) = asked(&stage.later(1));
    assert_eq!(again, lines);
    stage.fails(job, Again::After(2_000));
    let (job, _) = asked(&stage.later(2_000));
    assert_eq!(said(&stage.answers(job, "Buenas tardes a todos. ¿Qué")), ["Buenas tardes a todos. "], "and nothing of the first");
    assert_eq!(failure(&stage.fails(job, Again::Soon)), "oh", "part of it was said");
    assert_eq!(stage.session.deadline(), None);
}

#[test]
fn nobody_waits_for_longer_than_the_caller_does() {
    for again in [Again::Never, Again::After(4_501), Again::After(u64::MAX)] {
        let mut stage = Stage::new(false);
        let (job, _) = asked(&stage.respond(A, Cause::Greeting));
        assert_eq!(failure(&stage.fails(job, again)), "oh", "{again:?}");
    }
    let mut stage = Stage::new(false);
    let (mut job, _) = asked(&stage.respond(A, Cause::Greeting));
    for wait_ms in [500, 1_000, 2_000] {
        stage.fails(job, Again::Soon);
        (job, _) = asked(&stage.later(wait_ms));
    }
    assert_eq!(failure(&stage.fails(job, Again::Soon)), "oh");
    let (job, _) = asked(&stage.respond(B, Cause::Greeting));
    stage.now = stage.now.plus(4_200);
    assert_eq!(failure(&stage.fails(job, Again::Soon)), "oh", "its time is over");
}

#[test]
fn a_model_that_writes_slowly_is_heard_clause_by_clause_and_then_word_by_word() {
    let mut stage = Stage::new(false);
    let (job, _) = asked(&stage.respond(A, Cause::Greeting));
    assert_eq!(said(&stage.answers(job, "Pues sí, ")), [""; 0]);
    assert_eq!(stage.session.deadline(), None, "it may go on with the clause");
    assert_eq!(said(&stage.answers(job, "señora, y")), [""; 0]);
    assert_eq!(stage.session.deadline(), Some(stage.now.plus(1_000)));
    assert_eq!(said(&stage.later(999)), [""; 0]);
    assert_eq!(said(&stage.later(1)), ["Pues sí, señora, "]);
    stage.later(1_000);
    assert_eq!(said(&stage.answers(job, " la mesa que usted quiere es")), [""; 0], "there is no clause");
    assert_eq!(stage.session.deadline(), Some(stage.now.plus(1_000)));
    assert_eq!(said(&stage.later(1_000)), ["y la mesa que usted quiere "]);
    assert_eq!(said(&stage.answers(job, " suya. ")), [""; 0]);
    assert_eq!(said(&stage.ends(job, &[])), ["es suya. "]);
    assert_eq!(stage.session.deadline(), None);
    // A sentence that ends in time is said whole.
    let (job, _) = asked(&stage.respond(B, Cause::Greeting));
    stage.answers(job, "Bien, pues. Lo ");
    stage.later(900);
    assert_eq!(said(&stage.answers(job, "miro, claro. Un")), ["Lo miro, claro. "]);
    assert_eq!(said(&stage.later(999)), [""; 0], "the next one has its own time");
}

#[test]
fn thoughts_that_nothing_begins_are_not_said_once_the_service_has_sent_some() {
    let mut stage = Stage::new(true);
    let was_thought = |stage: &mut Stage, job| stage.give(Input::Answer { job, event: AnswerEvent::WasThought });
    // It can't be known of the first.
    let (job, _) = asked(&stage.respond(A, Cause::Greeting));
    assert_eq!(said(&stage.answers(job, "They want a table. Maybe for")), ["They want a table. "]);
    assert_eq!(said(&was_thought(&mut stage, job)), [""; 0]);
    assert_eq!(stage.session.deadline(), None, "nothing is left of it");
    assert_eq!(said(&stage.answers(job, "Muy bien, señora. ¿Para")), ["Muy bien, señora. "]);
    assert_eq!(said(&stage.ends(job, &[])), ["¿Para"]);
    let (job, _) = asked(&stage.respond(B, Cause::Greeting));
    assert_eq!(said(&stage.answers(job, "They want it for four. And, well, there may")), [""; 0]);
    assert_eq!(stage.session.deadline(), None);
    assert_eq!(said(&stage.later(3_000)), [""; 0]);
    assert_eq!(said(&was_thought(&mut stage, job)), [""; 0]);
    assert_eq!(said(&stage.answers(job, "Para cuatro, muy bien. ¿Hoy")), ["Para cuatro, muy bien. "]);
    assert_eq!(said(&stage.ends(job, &[])), ["¿Hoy"]);
    // Nor is what is begun ahead.
    let job = written(&stage.caller_pauses());
    let (job, _) = asked(&stage.writes_down(job, "Hoy."));
    stage.answers(job, "It is for today. There is");
    assert_eq!(said(&stage.turn_ends(ResponseId(3))), [""; 0]);
    // Where it has none, it is all answer.
    assert_eq!(said(&stage.ends(job, &[])), ["It is for today. ", "There is"]);
}

#[test]
fn what_was_called_well_is_not_asked_for_again_when_there_is_nothing_more_to_say() {
    let mut stage = Stage::new(false);
    let (job, _) = asked(&stage.caller_says(A, "Una paella."));
    let (again, _) = asked(&stage.ends(job, &[("order", "{\"item\":\"paella\"}"), ("ordr", "{}")]));
    assert_eq!(events(&stage.ends(again, &[])), [ModelEvent::Complete { response: A }]);
    assert_eq!(stage.session.deadline(), None);
    // Where nothing was called well, it is.
    let (job, _) = asked(&stage.caller_says(B, "Una paella."));
    let (again, _) = asked(&stage.ends(job, &[("ordr", "{}")]));
    let nothing = stage.ends(again, &[]);
    assert!(matches!(&nothing[..], [Action::Trouble { again_in_ms: Some(500), .. }]), "{nothing:?}");
}

#[test]
fn an_answer_of_nothing_is_none() {
    let mut stage = Stage::new(false);
    let (job, _) = asked(&stage.respond(A, Cause::Greeting));
    stage.answers(job, "🙂");
    let nothing = stage.ends(job, &[]);
    assert!(
        matches!(&nothing[..], [Action::Trouble { reason, again_in_ms: Some(500), .. }] if reason == "the model said nothing"),
        "{nothing:?}"
    );
    let (job, _) = asked(&stage.later(500));
    stage.answers(job, "Hola, diga.");
    assert_eq!(events(&stage.ends(job, &[])).last(), Some(&ModelEvent::Complete { response: A }));
}

#[test]
fn noise_is_said_to_be_noise_unless_something_is_still_to_be_answered() {
    let mut stage = Stage::new(false);
    let noise = events(&stage.caller_says(A, "[ruido]"));
    assert_eq!(noise, [ModelEvent::TurnWasNoise { turn: TurnId(1) }, ModelEvent::Complete { response: A }]);
    let (job, lines) = asked(&stage.caller_says(A, "Una mesa."));
    assert_eq!(lines, ["user: una mesa."], "nothing is left of the noise");
    assert_eq!(stage.tell(Command::CancelResponse { response: A }), [Action::Abort(job)]);
    let (job, lines) = asked(&stage.caller_says(B, ""));
    assert_eq!(lines, ["user: una mesa."], "the table was not answered yet");
    stage.answers(job, "Muy bien. Hecho.");
    stage.ends(job, &[]);
    let noise = events(&stage.caller_says(A, "..."));
    assert_eq!(noise[0], ModelEvent::TurnWasNoise { turn: TurnId(4) });
    // Nothing was heard at all.
    stage.turns = 8;
    let nothing = events(&stage.turn_ends(B));
    assert_eq!(nothing, [ModelEvent::TurnWasNoise { turn: TurnId(9) }, ModelEvent::Complete { response: B }]);
}

#[test]
fn words_are_not_lost_with_the_response_that_waits_for_them() {
    let mut stage = Stage::new(false);
    stage.caller_pauses();
    let first = written(&stage.turn_ends(A));
    assert_eq!(stage.tell(Command::CancelResponse { response: A }), [], "it goes on being written down");
    stage.caller_pauses();
    let second = written(&stage.turn_ends(B));
    assert!(asks_nothing(&stage.writes_down(second, "Para cuatro.")), "what was said before is not known yet");
    let (_, lines) = asked(&stage.writes_down(first, "Una mesa."));
    assert_eq!(lines, ["user: una mesa. para cuatro."]);
}

#[test]
fn what_can_not_be_written_down_fails_and_it_is_remembered_that_something_was_said() {
    let mut stage = Stage::new(false);
    stage.caller_pauses();
    let mut job = written(&stage.turn_ends(A));
    let fails = |job, again| Input::WrittenDown { job, result: Err(Fault { reason: "deaf".into(), again, reach: Reach::Answers }) };
    for wait_ms in [500, 1_000] {
        let failed = stage.give(fails(job, Again::Soon));
        assert_eq!(failed, [Action::Trouble { part: Part::Transcription, reason: "deaf".into(), again_in_ms: Some(wait_ms) }]);
        job = written(&stage.later(wait_ms));
    }
    assert_eq!(failure(&stage.give(fails(job, Again::Never))), "what the caller said could not be written down: deaf");
    let (_, lines) = asked(&stage.caller_says(B, "¿Oiga?"));
    assert_eq!(lines, ["system: the caller said something here that was not written down.", "user: ¿oiga?"]);
}

#[test]
fn what_takes_too_long_to_be_written_down_is_given_up_and_what_is_said_after_it_is_answered() {
    let mut stage = Stage::new(false);
    stage.caller_pauses();
    let first = written(&stage.turn_ends(A));
    stage.tell(Command::CancelResponse { response: A });
    stage.later(2_000);
    stage.caller_pauses();
    let second = written(&stage.turn_ends(B));
    assert!(asks_nothing(&stage.writes_down(second, "¿Oiga?")), "what was said first may still come");
    assert_eq!(stage.session.deadline(), Some(Time(5_500)));
    assert_eq!(stage.later(2_499), []);
    let actions = stage.later(1);
    assert!(actions.contains(&Action::Abort(first)), "{actions:?}");
    assert_eq!(given_up(&actions), [Part::Transcription]);
    let (_, lines) = asked(&actions);
    assert_eq!(lines, ["system: the caller said something here that was not written down.", "user: ¿oiga?"]);
    // Somebody still waits for it.
    let mut stage = Stage::new(false);
    stage.caller_pauses();
    written(&stage.turn_ends(A));
    assert_eq!(failure(&stage.later(4_500)), "what the caller said could not be written down: it took longer than 4500 ms");
}

#[test]
fn keys_are_part_of_the_conversation() {
    let mut stage = Stage::new(false);
    let (job, lines) = asked(&stage.respond(A, Cause::Digit { turn: TurnId(1), digit: '5' }));
    assert_eq!(lines, ["user: (the caller pressed the key 5.)"]);
    let collects = events(&stage.ends(job, &[("collect_keys", "{\"digits_max\":4}")]));
    assert!(matches!(collects[0], ModelEvent::CollectDigits { digits_max: 4, .. }));
    let (_, lines) = asked(&stage.respond(B, Cause::Digits { turn: TurnId(2), digits: "4729".into(), complete: true }));
    assert_eq!(lines.last().unwrap(), "user: (the caller keyed in 4729, which is all that was asked for.)");
}

#[test]
fn one_response_is_asked_for_at_a_time() {
    let mut stage = Stage::new(false);
    let (job, _) = asked(&stage.respond(A, Cause::Greeting));
    assert!(asks_nothing(&stage.respond(B, Cause::Silence { quiet_ms: 1_000 })));
    stage.answers(job, "Hola, diga.");
    let (job, _) = asked(&stage.ends(job, &[]));
    assert_eq!(stage.tell(Command::CancelResponse { response: B }), [Action::Abort(job)]);
    for n in 0..9 {
        let refused = stage.respond(ResponseId(10 + n), Cause::Greeting);
        assert_eq!(refused.iter().any(|action| matches!(action, Action::Say(Output::Event(ModelEvent::Failed { .. })))), n == 9, "{n}");
    }
    let refused = stage.respond(ResponseId(30), Cause::Greeting);
    assert_eq!(failure(&refused), "too many responses are asked for at a time");
}

#[test]
fn an_answer_that_was_begun_in_the_pause_is_said_when_the_turn_is_over() {
    let mut stage = Stage::new(true);
    let job = written(&stage.caller_pauses());
    let (answer, lines) = asked(&stage.writes_down(job, "Una mesa."));
    assert_eq!(lines, ["user: una mesa."]);
    assert_eq!(stage.answers(answer, "Muy bien, una mesa. ¿Para "), [], "not before it is asked for");
    let turn = stage.turn_ends(A);
    assert!(asks_nothing(&turn), "{turn:?}");
    assert_eq!(said(&turn), ["Muy bien, una mesa. "]);
    stage.answers(answer, "cuántos?");
    assert_eq!(said(&stage.ends(answer, &[])), ["¿Para cuántos?"]);
    stage.hears(0, A, "Muy bien, una mesa. ¿Para cuántos?", SETTLED);

    // An answer that is there already, with a call.
    let job = written(&stage.caller_pauses());
    let (answer, lines) = asked(&stage.writes_down(job, "Cuatro."));
    assert_eq!(lines, ["user: una mesa.", "model: muy bien, una mesa. ¿para cuántos?", "user: cuatro."]);
    assert_eq!(stage.ends(answer, &[("order", "{\"item\":\"mesa\"}")]), []);
    let turn = events(&stage.turn_ends(B));
    assert!(matches!(&turn[..], [ModelEvent::ToolCall { .. }, ModelEvent::Complete { response: B }]), "{turn:?}");
    assert_eq!((stage.session.totals().begun_ahead, stage.session.totals().dropped), (2, 0));
}

#[test]
fn what_was_begun_in_a_pause_is_dropped_without_trace_when_the_caller_goes_on() {
    let mut stage = Stage::new(true);
    let first = written(&stage.caller_pauses());
    assert_eq!(stage.acoustic(Acoustic::Speaking), [Action::Abort(first)]);
    assert_eq!(stage.writes_down(first, "Una"), [], "too late");
    stage.give(Input::Caller(vec![500; 8_000]));
    let second = written(&stage.acoustic(Acoustic::Trailing));
    let (answer, _) = asked(&stage.writes_down(second, "Una mesa."));
    stage.answers(answer, "Muy bien, una mesa. Hecho está. ");
    assert_eq!(stage.acoustic(Acoustic::Speaking), [Action::Abort(answer)]);
    let job = written(&stage.acoustic(Acoustic::Trailing));
    let (answer, _) = asked(&stage.writes_down(job, "Una mesa."));
    stage.ends(answer, &[("order", "{\"item\":\"mesa\"}")]);
    assert_eq!(stage.acoustic(Acoustic::Speaking), [], "all of it has come, but for what it took");
    stage.give(Input::Answer { job: answer, event: AnswerEvent::Usage(tokens(9)) });
    stage.give(Input::Caller(vec![500; 8_000]));
    let third = written(&stage.acoustic(Acoustic::Trailing));
    let (_, lines) = asked(&stage.writes_down(third, "Una mesa para cuatro."));
    assert_eq!(lines, ["user: una mesa para cuatro."]);
    let turn = stage.turn_ends(A);
    assert_eq!(events(&turn), []);
    let totals = stage.session.totals();
    assert_eq!((totals.begun_ahead, totals.dropped), (4, 3));
    assert_eq!((totals.language, totals.transcription), (tokens(9).answered(), tokens(40).written_down()), "it costs all the same");
}

#[test]
fn the_words_of_a_pause_are_those_of_the_turn_also_when_they_come_after_its_end_or_are_none() {
    let mut stage = Stage::new(true);
    let job = written(&stage.caller_pauses());
    assert!(asks_nothing(&stage.turn_ends(A)), "it is being written down already");
    let (_, lines) = asked(&stage.writes_down(job, "Una mesa."));
    assert_eq!(lines, ["user: una mesa."]);
    stage.tell(Command::CancelResponse { response: A });
    let mut stage = Stage::new(true);
    let job = written(&stage.caller_pauses());
    assert!(asks_nothing(&stage.writes_down(job, "(tos)")), "there is nothing to answer");
    assert_eq!(events(&stage.turn_ends(A))[0], ModelEvent::TurnWasNoise { turn: TurnId(1) });
}

#[test]
fn an_answer_begun_in_a_pause_that_does_not_know_what_has_come_meanwhile_is_begun_anew() {
    let mut stage = Stage::new(true);
    let job = written(&stage.caller_pauses());
    let (answer, _) = asked(&stage.writes_down(job, "¿Y la mesa?"));
    stage.answers(answer, "No lo sé todavía. Un ");
    stage.tell(Command::Told { delivery: DeliveryId(1), text: "La mesa está.".into() });
    let turn = stage.turn_ends(A);
    assert!(turn.contains(&Action::Abort(answer)));
    let (_, lines) = asked(&turn);
    assert_eq!(lines, ["system: the caller has been told this, in your name; do not repeat it: \"la mesa está.\"", "user: ¿y la mesa?"]);
    assert_eq!(said(&turn), [""; 0]);

    // What was heard turns out to be less; a call has come to something else; the caller is told something.
    let hears_less = |stage: &mut Stage| stage.hears(0, B, "Hola, buenos", SETTLED);
    let call_runs = |stage: &mut Stage| {
        let status = ToolStatus::AboutToBeTold;
        assert_eq!(stage.tell(Command::ToolOutput { call_id: "call_1".into(), operation: Some(OperationId(1)), status }), []);
    };
    let is_told = |stage: &mut Stage| drop(stage.tell(Command::Update { delivery: DeliveryId(2), text: "A medias.".into() }));
    for (what, comes) in [("less was heard", &hears_less as &dyn Fn(&mut Stage)), ("a call", &call_runs), ("an update", &is_told)] {
        let (mut stage, answer) = answer_begun_after_a_call();
        comes(&mut stage);
        let turn = stage.turn_ends(A);
        assert!(turn.contains(&Action::Abort(answer)), "{what}: {turn:?}");
        asked(&turn);
    }
}

/// The caller has heard something after a call of a tool, and pauses; an answer is begun.
fn answer_begun_after_a_call() -> (Stage, JobId) {
    let mut stage = Stage::new(true);
    let job = written(&stage.caller_pauses());
    let (job, _) = asked(&stage.writes_down(job, "Una mesa."));
    stage.turn_ends(B);
    stage.answers(job, "Hola, buenos días.");
    stage.ends(job, &[("order", "{\"item\":\"mesa\"}")]);
    stage.tell(Command::ToolOutput { call_id: "call_1".into(), operation: Some(OperationId(1)), status: ToolStatus::Running });
    let job = written(&stage.caller_pauses());
    stage.hears(0, B, "Hola, buenos días.", Standing::Provisional);
    let (answer, _) = asked(&stage.writes_down(job, "Hola."));
    (stage, answer)
}

#[test]
fn an_answer_begun_in_a_pause_is_said_where_the_request_for_it_would_say_the_same_now() {
    let settled = |stage: &mut Stage| stage.hears(0, B, "Hola, buenos días.", SETTLED);
    let in_doubt = |stage: &mut Stage| stage.hears(0, B, "Hola, buenos días.", Standing::Uncertain);
    let nothing_heard = |stage: &mut Stage| stage.hears(1, B, "", Standing::Provisional);
    let a_closing = |stage: &mut Stage| {
        let segment = SegmentRef { playback: PlaybackId(2), index: 0 };
        let purpose = Purpose::Clause { delivery: DeliveryId(1), clause: Some(0) };
        let text = "Un resultado.".into();
        stage.tell(Command::Heard(HeardText { segment, purpose, text, heard_ms: 1, standing: Standing::Provisional }));
    };
    let known_already = |stage: &mut Stage| {
        let (there, back) = ("Hola, buenos", "Hola, buenos días.");
        stage.hears(0, B, there, Standing::Provisional);
        stage.hears(0, B, back, Standing::Provisional);
    };
    for (what, comes) in [
        ("evidence", &settled as &dyn Fn(&mut Stage)),
        ("a doubt", &in_doubt),
        ("nothing of a segment", &nothing_heard),
        ("a part of a closing, which is told whole", &a_closing),
        ("less and then all", &known_already),
    ] {
        let (mut stage, answer) = answer_begun_after_a_call();
        comes(&mut stage);
        let turn = stage.turn_ends(A);
        assert!(asks_nothing(&turn) && !turn.contains(&Action::Abort(answer)), "{what}: {turn:?}");
        assert_eq!(said(&stage.answers(answer, "Muy buenas. Diga")), ["Muy buenas. "], "{what}");
    }
}

#[test]
fn what_is_asked_ahead_is_what_would_be_asked_for_the_turn() {
    let (mut asked_ahead, mut asked_then) = (Stage::new(true), Stage::new(false));
    for stage in [&mut asked_ahead, &mut asked_then] {
        let mut actions = stage.caller_pauses();
        actions.extend(stage.turn_ends(A));
        let job = written(&actions);
        // Nobody answers it: the caller goes on.
        let (answer, _) = asked(&stage.writes_down(job, "Una mesa."));
        stage.answers(answer, "Muy");
        stage.tell(Command::CancelResponse { response: A });
    }
    let job = written(&asked_ahead.caller_pauses());
    let (_, ahead) = asked(&asked_ahead.writes_down(job, "Para cuatro."));
    let (_, then) = asked(&asked_then.caller_says(B, "Para cuatro."));
    assert_eq!((&ahead, ahead.len()), (&then, 1));
}

#[test]
fn a_sound_that_never_ends_is_one_turn_and_nothing_of_it_is_begun_or_written_down_after_that() {
    let mut stage = Stage::new(true);
    stage.acoustic(Acoustic::Suspected);
    stage.acoustic(Acoustic::Speaking);
    stage.give(Input::Caller(vec![500; 8_000]));
    // The conversation takes it for over.
    let music = written(&stage.respond(A, Cause::Turn { turn: TurnId(1) }));
    assert_eq!(events(&stage.writes_down(music, "[música]"))[0], ModelEvent::TurnWasNoise { turn: TurnId(1) });
    stage.give(Input::Caller(vec![500; 80_000]));
    for to in [Acoustic::Trailing, Acoustic::Quiet] {
        assert_eq!(stage.acoustic(to), [], "nothing is begun for it");
        stage.give(Input::Caller(vec![0; 8_000]));
    }
    stage.acoustic(Acoustic::Suspected);
    stage.acoustic(Acoustic::Speaking);
    stage.give(Input::Caller(vec![7; 8_000]));
    let paused = stage.acoustic(Acoustic::Trailing);
    let samples = paused.iter().find_map(|action| match action {
        Action::WriteDown { samples, .. } => Some(samples.clone()),
        _ => None,
    });
    assert!(samples.is_some_and(|samples| samples.len() == 12_000 && !samples.contains(&500)), "half a second before it, and no music");
}

#[test]
fn a_request_of_a_pause_that_failed_is_made_again_for_the_turn() {
    let mut stage = Stage::new(true);
    let job = written(&stage.caller_pauses());
    let (answer, _) = asked(&stage.writes_down(job, "Una mesa."));
    assert!(asks_nothing(&stage.fails(answer, Again::Soon)));
    let turn = stage.turn_ends(A);
    assert!(matches!(&turn[..], [Action::Trouble { part: Part::Language, again_in_ms: Some(500), .. }]), "{turn:?}");
    let (_, lines) = asked(&stage.later(500));
    assert_eq!(lines, ["user: una mesa."]);
}

#[test]
fn what_has_failed_in_a_pause_costs_the_turn_no_time_but_what_the_service_wants() {
    for (again, due_in_ms) in [(Again::Soon, 0), (Again::After(2_500), 2_400)] {
        let mut stage = Stage::new(true);
        let mut job = written(&stage.caller_pauses());
        let deaf = |job, again| Input::WrittenDown { job, result: Err(Fault { reason: "deaf".into(), again, reach: Reach::Answers }) };
        for wait_ms in [500, 1_000] {
            stage.give(deaf(job, Again::Soon));
            job = written(&stage.later(wait_ms));
        }
        stage.give(deaf(job, again));
        stage.later(100);
        let mut turn = stage.turn_ends(A);
        if due_in_ms > 0 {
            assert!(asks_nothing(&turn), "{turn:?}");
            turn = stage.later(due_in_ms);
        }
        job = written(&turn);
        for wait_ms in [500, 1_000] {
            let failed = stage.give(deaf(job, Again::Soon));
            assert!(matches!(failed[..], [Action::Trouble { again_in_ms: Some(ms), .. }] if ms == wait_ms), "{again:?}: {failed:?}");
            if due_in_ms > 0 {
                break;
            }
            job = written(&stage.later(wait_ms));
        }
    }
}

#[test]
fn keys_in_a_pause_are_answered_first_and_what_was_begun_is_no_answer_to_them() {
    let mut stage = Stage::new(true);
    let job = written(&stage.caller_pauses());
    let (answer, _) = asked(&stage.writes_down(job, "Una mesa."));
    let key = stage.respond(A, Cause::Digit { turn: TurnId(7), digit: '1' });
    assert!(key.contains(&Action::Abort(answer)), "{key:?}");
    let (_, lines) = asked(&key);
    assert_eq!(lines, ["user: (the caller pressed the key 1.)"]);
}

#[test]
fn what_the_box_says_itself_is_told_with_what_it_is() {
    let mut stage = Stage::new(false);
    let segment = |index| SegmentRef { playback: PlaybackId(2), index };
    let heard = |index, purpose, text: &str| {
        Command::Heard(HeardText { segment: segment(index), purpose, text: text.into(), heard_ms: 1, standing: Standing::Uncertain })
    };
    stage.tell(heard(0, Purpose::Acceptance { batch: BatchId(1) }, "Lo miro."));
    stage.tell(heard(1, Purpose::Clause { delivery: DeliveryId(1), clause: Some(0) }, "Un resultado."));
    let (_, lines) = asked(&stage.respond(A, Cause::Greeting));
    assert_eq!(lines, ["system: whether the caller heard this is not known: \"lo miro.\"", GREET]);
}

/// How a part, and all of them, are found to stand.
fn found(actions: &[Action]) -> Vec<(Option<Part>, bool)> {
    let found = |action: &Action| match action {
        Action::Stands { part, availability } => Some((Some(*part), *availability == Availability::Ready)),
        Action::Available(availability) => Some((None, *availability == Availability::Ready)),
        _ => None,
    };
    actions.iter().filter_map(found).collect()
}

fn looks(actions: &[Action]) -> usize {
    actions.iter().filter(|action| **action == Action::Look(Part::Language)).count()
}

#[test]
fn a_part_that_cannot_be_connected_to_is_away_at_once_and_looked_at_until_it_is_back() {
    let mut stage = Stage::new(true);
    let (job, _) = asked(&stage.respond(A, Cause::Greeting));
    let fault = Fault { reason: "oh".into(), again: Again::Soon, reach: Reach::Unreachable };
    let actions = stage.give(Input::AnswerFailed { job, fault: fault.clone() });
    assert_eq!(found(&actions), [(Some(Part::Language), false), (None, false)]);
    stage.tell(Command::CancelResponse { response: A });
    assert!(stage.session.deadline().is_some());
    assert!(asks_nothing(&stage.caller_pauses()), "somebody else answers");
    stage.tell(Command::AnsweredElsewhere);
    assert_eq!(looks(&stage.later(500)), 1);
    assert_eq!(looks(&stage.later(500)), 0, "one at a time");
    let looked = |result| Input::Looked { part: Part::Language, result };
    assert_eq!(found(&stage.give(looked(Err(fault)))), []);
    assert_eq!((looks(&stage.later(999)), looks(&stage.later(1))), (0, 1), "with longer pauses");
    assert_eq!(found(&stage.give(looked(Ok(())))), [(Some(Part::Language), true), (None, true)]);
    assert_eq!(stage.session.deadline(), None);
    let (_, lines) = asked(&stage.caller_says(B, "¿Hola?"));
    assert!(lines[0].contains("could not hear or answer"), "{lines:?}");
}

#[test]
fn a_part_that_refuses_for_good_is_away_until_a_request_works_and_a_request_that_is_refused_says_nothing_of_it() {
    let mut stage = Stage::new(false);
    let fails = |stage: &mut Stage, response, again, reach| {
        let (job, _) = asked(&stage.respond(response, Cause::Greeting));
        stage.give(Input::AnswerFailed { job, fault: Fault { reason: "oh".into(), again, reach } })
    };
    assert_eq!(found(&fails(&mut stage, A, Again::Never, Reach::Answers)), []);
    assert_eq!(found(&fails(&mut stage, B, Again::Soon, Reach::Refuses)), [], "it is asked again");
    stage.tell(Command::CancelResponse { response: B });
    let refused = fails(&mut stage, A, Again::Never, Reach::Refuses);
    assert_eq!(found(&refused), [(Some(Part::Language), false), (None, false)]);
    // A look is no sooner than is asked for.
    assert_eq!(looks(&stage.later(500)), 1);
    let fault = Fault { reason: "oh".into(), again: Again::After(30_000), reach: Reach::Refuses };
    assert_eq!(found(&stage.give(Input::Looked { part: Part::Language, result: Err(fault) })), []);
    assert_eq!((looks(&stage.later(29_999)), looks(&stage.later(1))), (0, 1));
    let (job, _) = asked(&stage.respond(B, Cause::Greeting));
    assert_eq!(found(&stage.answers(job, "Buenos ")), [(Some(Part::Language), true), (None, true)]);
}

/// What of these parts is believed until a request works.
fn given_up(actions: &[Action]) -> Vec<Part> {
    let parts = actions.iter().filter_map(|action| match action {
        Action::GaveUp { part, fault } if fault.reach == Reach::Fails => Some(*part),
        _ => None,
    });
    parts.collect()
}

#[test]
fn the_part_that_was_waited_for_in_vain_is_away_and_the_other_is_not() {
    // What answers hangs.
    let mut stage = Stage::new(false);
    let (job, _) = asked(&stage.caller_says(A, "Una mesa."));
    stage.later(4_500);
    let gives_up = stage.tell(Command::Reconnect);
    assert_eq!(given_up(&gives_up), [Part::Language]);
    assert_eq!(found(&gives_up), [(Some(Part::Language), false), (None, false)]);
    assert!(
        matches!(&gives_up[0], Action::Trouble { reason, .. } if reason == "the service did not answer within 4500 ms"),
        "{gives_up:?}"
    );
    assert_eq!(stage.tell(Command::CancelResponse { response: A }), [Action::Abort(job)], "and that is all");
    stage.tell(Command::AnsweredElsewhere);
    assert!(asks_nothing(&stage.caller_pauses()));
    // What writes down took almost all of the time, or all of it.
    for answers in [true, false] {
        let mut stage = Stage::new(false);
        stage.caller_pauses();
        let job = written(&stage.turn_ends(A));
        stage.later(4_000);
        if answers {
            asked(&stage.writes_down(job, "Una mesa."));
        }
        stage.later(400);
        assert_eq!(given_up(&stage.tell(Command::Reconnect)), [Part::Transcription], "{answers}");
    }
    // It stops in the middle of what it says.
    let mut stage = Stage::new(false);
    let (job, _) = asked(&stage.caller_says(A, "Una mesa."));
    stage.answers(job, "Muy bien, una mesa. ¿Para ");
    stage.later(4_500);
    assert_eq!(given_up(&stage.tell(Command::Reconnect)), [Part::Language]);
    assert_eq!(given_up(&Stage::new(false).tell(Command::Reconnect)), [], "nothing is waited for");
}

#[test]
fn a_response_that_is_given_up_when_the_callers_patience_is_over_says_the_same_of_its_part_and_one_that_is_cut_before_does_not() {
    for (waits_ms, found_away) in [(4_499, false), (4_500, true)] {
        let mut stage = Stage::new(false);
        asked(&stage.respond(A, Cause::Greeting));
        stage.later(waits_ms);
        assert_eq!(!given_up(&stage.tell(Command::CancelResponse { response: A })).is_empty(), found_away, "{waits_ms}");
    }
    let mut stage = Stage::new(false);
    let (job, _) = asked(&stage.respond(A, Cause::Greeting));
    stage.answers(job, "Buenos días a todos. Y ");
    stage.later(9_000);
    assert_eq!(given_up(&stage.tell(Command::CancelResponse { response: A })), [], "it was listened to");
}

#[test]
fn a_part_that_does_nothing_of_what_it_is_asked_is_away_when_it_is_not_asked_again_and_one_that_is_cut_off_is_not() {
    let mut stage = Stage::new(false);
    let (mut job, _) = asked(&stage.respond(A, Cause::Greeting));
    let breaks = |job| Input::AnswerFailed { job, fault: Fault::failing("oh") };
    for wait_ms in [500, 1_000, 2_000] {
        assert_eq!(found(&stage.give(breaks(job))), []);
        (job, _) = asked(&stage.later(wait_ms));
    }
    assert_eq!(found(&stage.give(breaks(job))), [(Some(Part::Language), false), (None, false)]);
    let mut stage = Stage::new(false);
    let (job, _) = asked(&stage.respond(A, Cause::Greeting));
    stage.answers(job, "Buenos días a todos. Y ");
    assert_eq!(found(&stage.give(breaks(job))), []);
}

#[test]
fn a_part_that_is_known_to_be_away_is_away_from_the_beginning_and_looked_at_at_once() {
    let mut stage = Stage::new(true);
    stage.session = Session::new(Arc::clone(&stage.session.setup), [(Part::Language, "it is gone".to_owned())]);
    assert_eq!(stage.session.availability(), Availability::Away { reason: "it is gone".into() });
    assert_eq!(stage.session.deadline(), Some(Time(0)));
    assert_eq!(looks(&stage.later(0)), 1);
    assert!(asks_nothing(&stage.caller_pauses()));
    let back = stage.give(Input::Looked { part: Part::Language, result: Ok(()) });
    assert_eq!(found(&back), [(Some(Part::Language), true), (None, true)]);
}

#[test]
fn what_somebody_else_has_answered_is_not_written_down_any_more() {
    let mut stage = Stage::new(false);
    let mut actions = stage.caller_pauses();
    actions.extend(stage.turn_ends(A));
    let job = written(&actions);
    stage.tell(Command::CancelResponse { response: A });
    assert!(stage.tell(Command::AnsweredElsewhere).contains(&Action::Abort(job)));
    let (_, lines) = asked(&stage.respond(B, Cause::Greeting));
    assert!(lines.iter().any(|line| line.contains("could not hear or answer")), "{lines:?}");
}

#[test]
fn what_somebody_else_has_answered_is_forgotten_and_what_this_one_has_is_not() {
    let mut stage = Stage::new(false);
    let (job, _) = asked(&stage.caller_says(A, "Una mesa."));
    stage.answers(job, "Muy bien. ");
    stage.ends(job, &[]);
    asked(&stage.caller_says(B, "Mi mensaje es este."));
    stage.tell(Command::CancelResponse { response: B });
    stage.tell(Command::AnsweredElsewhere);
    let (_, lines) = asked(&stage.respond(A, Cause::Greeting));
    assert!(lines.contains(&"user: una mesa.".to_owned()) && !lines.iter().any(|line| line.contains("mensaje")), "{lines:?}");
}

#[test]
fn what_is_written_down_without_counting_tokens_is_counted_by_its_length() {
    let mut stage = Stage::new(false);
    let mut actions = stage.caller_pauses();
    actions.extend(stage.turn_ends(A));
    let job = written(&actions);
    stage.give(Input::WrittenDown { job, result: Ok(Transcript { text: "Hola".into(), usage: Tokens::default() }) });
    assert_eq!(stage.session.totals().transcription, Usage { audio_ms: 1_000, ..Usage::default() });
    // What was given up costs the same where its words come all the same.
    let mut stage = Stage::new(true);
    let dropped = written(&stage.caller_pauses());
    stage.acoustic(Acoustic::Speaking);
    stage.give(Input::Caller(vec![500; 4_000]));
    let wanted = written(&stage.acoustic(Acoustic::Trailing));
    for (job, audio_ms) in [(dropped, 1_000), (wanted, 2_500)] {
        stage.give(Input::WrittenDown { job, result: Ok(Transcript { text: "Hola".into(), usage: Tokens::default() }) });
        assert_eq!(stage.session.totals().transcription, Usage { audio_ms, ..Usage::default() });
    }
}
