//! A dialogue that is held, by what it says.

use recado_core::conversation::input::{AcousticEdge, AcousticEpoch};
use recado_core::{PartyId, SessionId, Time};
use serde_json::json;
use tokio::time::timeout;

use super::*;
use crate::cognition::models::message::{NotKept, WhyNotKept};
use crate::cognition::tools::Schemas;
use crate::config::Tool;

#[test]
fn the_nth_turn_gets_the_nth_answer_and_further_ones_the_one_for_all_others() {
    let mut held = held("");
    let said: Vec<String> = (1..=5).map(|turn| words(&respond(&mut held, turn_of(turn)))).collect();
    assert_eq!(said, ["uno", "dos|dos bis", "otro", "otro", "otro"]);
}

#[test]
fn a_dialogue_that_cycles_begins_again_from_its_first_turn() {
    let mut held = held("after_turns = 'cycle'\n");
    let said: Vec<String> = (1..=5).map(|turn| words(&respond(&mut held, turn_of(turn)))).collect();
    assert_eq!(said, ["uno", "dos|dos bis", "uno", "dos|dos bis", "uno"]);
}

#[test]
fn a_turn_that_is_answered_again_is_counted_once() {
    let mut held = held("");
    assert_eq!(words(&respond(&mut held, turn_of(1))), "uno");
    assert_eq!(words(&respond(&mut held, turn_of(1))), "uno");
    assert_eq!(words(&respond(&mut held, turn_of(2))), "dos|dos bis");
}

#[test]
fn a_key_has_its_own_step_counts_as_no_turn_and_fills_in_what_it_calls() {
    let mut held = held("");
    let events = respond(&mut held, Cause::Digit { turn: TurnId(1), digit: '7' });
    let expected = ToolCall {
        call_id: "call_1".into(),
        tool: "order".into(),
        arguments: json!({ "item": "7", "by": "+34600", "turn": "0" }),
        confirmed: false,
    };
    assert_eq!(events[0], ModelEvent::CancelIntent { response: R, tool: Some("order".into()), work: None });
    assert_eq!(events[2], ModelEvent::ToolCall { response: R, call: expected });
    assert_eq!(words(&respond(&mut held, Cause::Digit { turn: TurnId(2), digit: '8' })), "otro");
    assert_eq!(words(&respond(&mut held, turn_of(3))), "uno");
}

#[test]
fn a_step_that_confirms_calls_once_more_what_was_called_last_and_once() {
    let mut held = held("[digit.1]\nconfirm = true\n");
    let called = |events: &[ModelEvent]| -> Vec<ToolCall> {
        let of = |event: &ModelEvent| if let ModelEvent::ToolCall { call, .. } = event { Some(call.clone()) } else { None };
        events.iter().filter_map(of).collect()
    };
    let one = |turn| Cause::Digit { turn: TurnId(turn), digit: '1' };
    assert_eq!(called(&respond(&mut held, one(1))), [], "nothing was called");
    let first = called(&respond(&mut held, Cause::Digit { turn: TurnId(2), digit: '7' }));
    let again = called(&respond(&mut held, one(3)));
    assert_eq!(again.len(), 1);
    assert_eq!((again[0].confirmed, &again[0].arguments, &again[0].tool), (true, &first[0].arguments, &first[0].tool));
    assert_ne!(again[0].call_id, first[0].call_id);
    assert_eq!(called(&respond(&mut held, one(4))), []);
}

#[test]
fn keys_that_a_step_wants_are_collected_and_their_step_is_told_them() {
    let mut held = held("");
    let asks = respond(&mut held, Cause::Digit { turn: TurnId(1), digit: '9' });
    assert_eq!(asks[1], ModelEvent::CollectDigits { response: R, digits_max: 4, end: Some('#'), wait_ms: 5_000 });
    let digits = |digits: &str, complete| Cause::Digits { turn: TurnId(2), digits: digits.into(), complete };
    let events = respond(&mut held, digits("1234", true));
    assert!(matches!(&events[0], ModelEvent::ToolCall { call, .. } if call.arguments == json!({ "item": "1234" })), "{events:?}");
    respond(&mut held, Cause::Digit { turn: TurnId(3), digit: '9' });
    assert_eq!(words(&respond(&mut held, digits("12", false))), "faltan");
    assert_eq!(respond(&mut held, digits("12", true)), [ModelEvent::Complete { response: R }], "nobody asked for any");
}

#[test]
fn silences_in_a_row_get_on_and_anything_from_the_caller_begins_them_anew() {
    let mut held = held("");
    let silence = |quiet_ms| Cause::Silence { quiet_ms };
    assert_eq!(words(&respond(&mut held, silence(4_999))), "");
    assert_eq!(words(&respond(&mut held, silence(5_000))), "¿hola?");
    assert_eq!(words(&respond(&mut held, silence(9_000))), "", "the second one takes longer");
    let last = respond(&mut held, silence(10_000));
    assert_eq!(words(&last), "adiós");
    assert_eq!(last[last.len() - 2..], [ModelEvent::HangUp { response: R }, ModelEvent::Complete { response: R }]);
    assert_eq!(words(&respond(&mut held, silence(10_000))), "adiós", "the last one stands for all further ones");
    respond(&mut held, turn_of(1));
    assert_eq!(words(&respond(&mut held, silence(5_000))), "¿hola?");
}

#[test]
fn every_response_ends_also_one_that_has_nothing_to_say() {
    let mut held = held("");
    assert_eq!(respond(&mut held, Cause::Greeting), [ModelEvent::Complete { response: R }]);
}

#[test]
fn the_same_commands_give_the_same_events() {
    let run = || {
        let mut held = held("");
        (1..20)
            .flat_map(|n| respond(&mut held, if n % 3 == 0 { Cause::Digit { turn: TurnId(n), digit: '7' } } else { turn_of(n) }))
            .collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}

#[tokio::test]
async fn a_session_says_its_events_in_order() {
    let mut session = Scripted::new(dialogue(""), None).open(opening());
    session.handle.tell(Command::Respond { response: R, cause: turn_of(2) }).unwrap();
    let mut said = Vec::new();
    while said.last() != Some(&ModelEvent::Complete { response: R }) {
        match session.outputs.recv().await {
            Some(Output::Event(event)) => said.push(event),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(words(&said), "uno");
}

#[tokio::test]
async fn a_session_that_is_dropped_ends_also_in_the_middle_of_a_response() {
    let (session, commands, said) = ModelSession::new(None);
    let held = Held::new(Arc::new(dialogue("")), opening());
    let holding = Holding {
        held,
        messages: None,
        kept_within: KEPT_WITHIN,
        asked: Instant::now(),
        ends: None,
        keeping: None,
        pending: VecDeque::new(),
    };
    let holding = tokio::spawn(holding.hold(commands, caller_audio().1, said));
    for turn in 1..100 {
        session.handle.tell(Command::Respond { response: R, cause: turn_of(turn) }).unwrap();
    }
    tokio::task::yield_now().await;
    assert!(!holding.is_finished(), "more is to be said than anybody takes");
    drop(session);
    holding.await.unwrap();
}

#[tokio::test]
async fn nothing_more_of_a_cancelled_response_is_said() {
    let mut session = Scripted::new(dialogue(""), None).open(opening());
    let other = ResponseId(2);
    // The session's task runs only when this test waits: the cancel is there before the first event goes out.
    session.handle.tell(Command::Respond { response: R, cause: turn_of(1) }).unwrap();
    session.handle.tell(Command::CancelResponse { response: R }).unwrap();
    session.handle.tell(Command::Respond { response: other, cause: turn_of(2) }).unwrap();
    loop {
        match session.outputs.recv().await {
            Some(Output::Event(event)) => {
                assert_eq!(event.response(), Some(other), "{event:?}");
                if event == (ModelEvent::Complete { response: other }) {
                    return;
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

const LEAVES_A_MESSAGE: &str = "[greeting]\nsay = { es = 'diga' }\n[greeting.message]\nseconds = 5\n\
    kept = { say = { es = 'guardado' } }\nnot_kept = { say = { es = 'perdido' } }\n";

/// Where a test looks for messages.
#[derive(Debug)]
struct Kept(std::sync::Mutex<Vec<Message>>, Result<(), NotKept>);

impl Messages for Kept {
    fn keep(&self, message: Message) -> Keeping {
        self.0.lock().unwrap().push(message);
        Box::pin(std::future::ready(self.1.clone()))
    }
}

/// A session that has asked for a message, and where messages go.
async fn asked_for_a_message(result: Result<(), NotKept>) -> (ModelSession, Arc<Kept>) {
    let kept = Arc::new(Kept(std::sync::Mutex::default(), result));
    let mut session = Scripted::new(dialogue(LEAVES_A_MESSAGE), Some(kept.clone())).open(opening());
    assert_eq!(ask(&mut session, Cause::Greeting).await, "+diga");
    (session, kept)
}

/// What a response comes to: `+` and `-` where a message begins and ends to be taken, and the words.
async fn ask(session: &mut ModelSession, cause: Cause) -> String {
    session.handle.tell(Command::Respond { response: R, cause }).unwrap();
    let mut said = String::new();
    loop {
        match tokio::time::timeout(Duration::from_secs(60), session.outputs.recv()).await.expect("an end within a minute") {
            Some(Output::TakesMessage(takes)) => said.push(if takes { '+' } else { '-' }),
            Some(Output::Event(ModelEvent::Clause { content, .. })) => said.push_str(content.text()),
            Some(Output::Event(ModelEvent::Complete { response: R })) => return said,
            other => panic!("{other:?}"),
        }
    }
}

async fn speak(session: &ModelSession, frames: std::ops::Range<i16>) {
    let edge = |to| Command::Acoustic(AcousticEdge { to, epoch: AcousticEpoch(0), at: Time(0) });
    session.handle.tell(edge(Acoustic::Suspected)).unwrap();
    session.handle.tell(edge(Acoustic::Speaking)).unwrap();
    for n in frames {
        session.handle.audio.as_ref().expect("it hears").push(&[n; 160]);
        // It takes one after the other.
        tokio::task::yield_now().await;
    }
    session.handle.tell(edge(Acoustic::Trailing)).unwrap();
    session.handle.tell(edge(Acoustic::Quiet)).unwrap();
}

#[tokio::test]
async fn a_message_is_what_the_caller_says_with_its_pauses_and_they_are_told_that_it_is_kept_when_it_is() {
    let (mut session, kept) = asked_for_a_message(Ok(())).await;
    speak(&session, 0..40).await;
    // A pause that sounds like its end: they are asked about it, and go on.
    session.handle.tell(Command::Respond { response: ResponseId(9), cause: turn_of(1) }).unwrap();
    session.handle.tell(Command::CancelResponse { response: ResponseId(9) }).unwrap();
    speak(&session, 40..80).await;
    assert_eq!(ask(&mut session, turn_of(2)).await, "-guardado");
    let messages = kept.0.lock().unwrap().clone();
    assert_eq!(messages.len(), 1);
    assert_eq!(frames(&messages[0]), (0..80).collect::<Vec<i16>>());
    assert_eq!((messages[0].session, &messages[0].party, messages[0].is_cut), (SessionId(1), &opening().party, false));
    assert_eq!(ask(&mut session, turn_of(3)).await, "uno", "the message was no turn of the dialogue");
}

#[test]
fn what_became_of_a_message_that_was_left_with_another_model_is_said_in_the_callers_language() {
    for language in [Language::Es, Language::En] {
        let mut held = Held::new(Arc::new(dialogue(LEAVES_A_MESSAGE)), Opening { language, ..opening() });
        let mut said = |left: LeftMessage| {
            let mut outputs = VecDeque::new();
            held.take(Command::TellOfMessage { response: R, left }, &mut outputs);
            assert_eq!(outputs.pop_back(), Some(Output::Event(ModelEvent::Complete { response: R })));
            super::words(outputs.iter())
        };
        let kept = said(LeftMessage::Kept { seconds: 4, is_cut: false });
        let long = said(LeftMessage::Kept { seconds: 120, is_cut: true });
        let lost = said(LeftMessage::NotKept { seconds: 4, why: WhyNotKept::Full });
        let none = said(LeftMessage::NothingSaid { digits: "5".to_owned() });
        assert_eq!(long, cut(language, 120));
        assert!(kept != lost && lost != none && none != kept && !kept.is_empty() && !lost.is_empty() && !none.is_empty());
    }
}

#[tokio::test]
async fn a_message_that_is_not_kept_or_is_cut_is_said_to_be_so() {
    let (mut session, _) = asked_for_a_message(Err(NotKept::Full)).await;
    speak(&session, 0..40).await;
    assert_eq!(ask(&mut session, turn_of(1)).await, "-perdido");
    let (mut session, kept) = asked_for_a_message(Ok(())).await;
    speak(&session, 0..300).await;
    let said = ask(&mut session, turn_of(1)).await;
    assert_eq!(said, format!("-{}guardado", cut(Language::Es, 5)));
    assert!(kept.0.lock().unwrap()[0].is_cut);
    let mut alone = Scripted::new(dialogue(LEAVES_A_MESSAGE), None).open(opening());
    ask(&mut alone, Cause::Greeting).await;
    speak(&alone, 0..40).await;
    assert_eq!(ask(&mut alone, turn_of(1)).await, "-perdido", "nobody keeps any");
}

#[tokio::test]
async fn a_caller_who_hangs_up_after_the_last_word_has_left_a_message_and_one_who_says_nothing_has_not() {
    for (frames, messages) in [(0..40, 1), (0..0, 0)] {
        let (session, kept) = asked_for_a_message(Ok(())).await;
        if !frames.is_empty() {
            speak(&session, frames).await;
        }
        let ModelSession { handle, mut outputs } = session;
        drop(handle);
        while outputs.recv().await.is_some() {}
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert_eq!(kept.0.lock().unwrap().len(), messages);
    }
}

/// The caller breaks in on what they are told, of which they have heard so much.
async fn speak_over(session: &ModelSession, heard_text: &str, frames: std::ops::Range<i16>) {
    let edge = |to| Command::Acoustic(AcousticEdge { to, epoch: AcousticEpoch(0), at: Time(0) });
    let hear = async |n: i16| {
        session.handle.audio.as_ref().expect("it hears").push(&[n; 160]);
        tokio::task::yield_now().await;
    };
    let (first, middle) = (frames.start, i16::midpoint(frames.start, frames.end));
    // Its first sound comes before it is known for one.
    hear(first).await;
    session.handle.tell(edge(Acoustic::Suspected)).unwrap();
    session.handle.tell(edge(Acoustic::Speaking)).unwrap();
    for n in first + 1..middle {
        hear(n).await;
    }
    session.handle.tell(cut_at(heard_text)).unwrap();
    for n in middle..frames.end {
        hear(n).await;
    }
    session.handle.tell(edge(Acoustic::Trailing)).unwrap();
    session.handle.tell(edge(Acoustic::Quiet)).unwrap();
}

fn cut_at(heard_text: &str) -> Command {
    Command::Truncate { response: R, heard_ms: 0, heard_text: heard_text.to_owned() }
}

/// The first sample of each frame of a message.
fn frames(message: &Message) -> Vec<i16> {
    message.samples.chunks(160).map(|frame| frame[0]).collect()
}

#[tokio::test]
async fn who_goes_on_before_they_have_heard_that_it_is_kept_leaves_one_more_message_and_hears_it_when_all_are_there() {
    let (mut session, kept) = asked_for_a_message(Ok(())).await;
    speak(&session, 0..40).await;
    assert_eq!(ask(&mut session, turn_of(1)).await, "-guardado");
    speak_over(&session, "", 40..80).await;
    // They pause in it, too.
    session.handle.tell(Command::Respond { response: ResponseId(9), cause: turn_of(2) }).unwrap();
    session.handle.tell(Command::CancelResponse { response: ResponseId(9) }).unwrap();
    speak(&session, 80..90).await;
    assert_eq!(ask(&mut session, turn_of(3)).await, "+-guardado");
    speak_over(&session, "guar", 90..120).await;
    assert_eq!(ask(&mut session, turn_of(4)).await, "+-guardado");
    let messages: Vec<Vec<i16>> = kept.0.lock().unwrap().iter().map(frames).collect();
    assert_eq!(messages, [(0..40).collect::<Vec<_>>(), (40..90).collect(), (90..120).collect()]);
    // Who has heard it has ended.
    speak_over(&session, "guardado", 120..150).await;
    assert_eq!(ask(&mut session, turn_of(5)).await, "uno");
    assert_eq!(kept.0.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn who_goes_on_before_it_is_said_at_all_leaves_one_more_message() {
    let (mut session, kept) = asked_for_a_message(Ok(())).await;
    speak(&session, 0..40).await;
    assert_eq!(ask(&mut session, turn_of(1)).await, "-guardado");
    session.handle.tell(Command::Acoustic(AcousticEdge { to: Acoustic::Speaking, epoch: AcousticEpoch(0), at: Time(0) })).unwrap();
    session.handle.tell(Command::CancelResponse { response: R }).unwrap();
    speak(&session, 40..80).await;
    assert_eq!(ask(&mut session, turn_of(2)).await, "+-guardado");
    assert_eq!(kept.0.lock().unwrap().iter().map(frames).collect::<Vec<_>>(), [(0..40).collect::<Vec<_>>(), (40..80).collect()]);
}

#[tokio::test]
async fn who_goes_on_before_they_have_heard_that_it_is_kept_and_hangs_up_has_left_both_parts() {
    for (heard_text, parts) in [("", 2), ("guardado", 1)] {
        let (mut session, kept) = asked_for_a_message(Ok(())).await;
        speak(&session, 0..40).await;
        assert_eq!(ask(&mut session, turn_of(1)).await, "-guardado");
        speak_over(&session, heard_text, 40..80).await;
        let ModelSession { handle, mut outputs } = session;
        drop(handle);
        while outputs.recv().await.is_some() {}
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert_eq!(kept.0.lock().unwrap().len(), parts, "{heard_text:?} was heard");
    }
}

#[tokio::test]
async fn that_a_message_is_not_kept_or_is_cut_is_said_until_it_is_heard_and_what_is_said_over_it_is_no_message() {
    let long = cut(Language::Es, 5);
    for (result, length, words) in [(Err(NotKept::Full), 40, ["", "perdido"]), (Ok(()), 300, [long.as_str(), "guardado"])] {
        let told = words.concat();
        let (mut session, kept) = asked_for_a_message(result).await;
        speak(&session, 0..length).await;
        assert_eq!(ask(&mut session, turn_of(1)).await, format!("-{told}"));
        speak_over(&session, "per", 300..340).await;
        assert_eq!(ask(&mut session, turn_of(2)).await, format!("+-{told}"));
        speak_over(&session, &words.join(" "), 340..380).await;
        assert_eq!(ask(&mut session, turn_of(3)).await, "uno");
        assert_eq!(kept.0.lock().unwrap().len(), 1, "half a message is none");
    }
}

#[tokio::test]
async fn a_key_over_it_does_what_it_says_once_the_caller_knows_of_a_message_that_is_not_kept() {
    let key = || Cause::Digit { turn: TurnId(3), digit: '8' };
    for (result, told, after_key) in [(Ok(()), "-guardado", "otro"), (Err(NotKept::Full), "-perdido", "+-perdido")] {
        let (mut session, kept) = asked_for_a_message(result).await;
        speak(&session, 0..40).await;
        assert_eq!(ask(&mut session, turn_of(1)).await, told);
        session.handle.tell(cut_at("")).unwrap();
        assert_eq!(ask(&mut session, key()).await, after_key);
        assert_eq!(ask(&mut session, key()).await, "otro");
        assert_eq!(kept.0.lock().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn what_is_said_over_thanks_that_ask_for_another_message_belongs_to_the_first_one_until_they_are_heard() {
    let again = "kept = { say = { es = '¿otro?' }, message = { kept = { say = { es = 'los dos' } }, not_kept = { say = { es = 'no' } } } }";
    let asks = LEAVES_A_MESSAGE.replace("kept = { say = { es = 'guardado' } }\n", &format!("{again}\n"));
    let kept = Arc::new(Kept(std::sync::Mutex::default(), Ok(())));
    let mut session = Scripted::new(dialogue(&asks), Some(kept.clone())).open(opening());
    assert_eq!(ask(&mut session, Cause::Greeting).await, "+diga");
    speak(&session, 0..40).await;
    assert_eq!(ask(&mut session, turn_of(1)).await, "-+¿otro?");
    speak_over(&session, "", 40..80).await;
    assert_eq!(ask(&mut session, turn_of(2)).await, "-+¿otro?");
    speak_over(&session, "¿otro?", 80..120).await;
    assert_eq!(ask(&mut session, turn_of(3)).await, "-los dos");
    let messages: Vec<Vec<i16>> = kept.0.lock().unwrap().iter().map(frames).collect();
    assert_eq!(messages, [(0..40).collect::<Vec<_>>(), (40..80).collect(), (80..120).collect()]);
}

/// A disk that takes its time: what is on its way to it, and where its answer is waited for.
#[derive(Debug, Default)]
struct Slow(std::sync::Mutex<Vec<(Message, Option<Answer>)>>);

type Answer = tokio::sync::oneshot::Sender<Result<(), NotKept>>;

impl Messages for Slow {
    fn keep(&self, message: Message) -> Keeping {
        let (answer, answered) = tokio::sync::oneshot::channel();
        self.0.lock().unwrap().push((message, Some(answer)));
        Box::pin(async move { answered.await.unwrap_or(Err(NotKept::Nobody)) })
    }
}

impl Slow {
    /// Waits until this message is on its way.
    async fn has(&self, number: usize) {
        let comes = async {
            while self.0.lock().unwrap().len() < number {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(60), comes).await.expect("it is on its way within a minute");
    }

    fn answers(&self, number: usize, result: Result<(), NotKept>) {
        let answer = self.0.lock().unwrap()[number - 1].1.take().expect("it has no answer yet");
        answer.send(result).expect("it is waited for");
    }

    /// The first sample of each frame of a message.
    fn frames(&self, number: usize) -> Vec<i16> {
        frames(&self.0.lock().unwrap()[number - 1].0)
    }
}

/// A session whose caller has left a message, which is on its way to the disk.
async fn message_on_its_way() -> (ModelSession, Arc<Slow>) {
    let slow = Arc::new(Slow::default());
    // However busy the machine is.
    let scripted = Scripted { kept_within: Duration::from_secs(60), ..Scripted::new(dialogue(LEAVES_A_MESSAGE), Some(slow.clone())) };
    let mut session = scripted.open(opening());
    assert_eq!(ask(&mut session, Cause::Greeting).await, "+diga");
    speak(&session, 0..40).await;
    session.handle.tell(Command::Respond { response: ResponseId(9), cause: turn_of(1) }).unwrap();
    slow.has(1).await;
    (session, slow)
}

#[tokio::test]
async fn who_goes_on_while_the_message_is_on_its_way_to_the_disk_is_told_that_it_is_kept_when_all_of_it_is() {
    for answers_first in [true, false] {
        let (mut session, slow) = message_on_its_way().await;
        session.handle.tell(Command::CancelResponse { response: ResponseId(9) }).unwrap();
        speak(&session, 40..80).await;
        if answers_first {
            slow.answers(1, Ok(()));
        }
        let asked = tokio::spawn(async move {
            let said = ask(&mut session, turn_of(2)).await;
            (said, session)
        });
        if !answers_first {
            tokio::task::yield_now().await;
            slow.answers(1, Ok(()));
        }
        slow.has(2).await;
        assert!(!asked.is_finished(), "the rest is not kept yet");
        slow.answers(2, Ok(()));
        let (said, mut session) = asked.await.unwrap();
        assert_eq!(said, "-guardado");
        assert_eq!((slow.frames(1), slow.frames(2)), ((0..40).collect(), (40..80).collect()));
        assert_eq!(ask(&mut session, turn_of(3)).await, "uno");
    }
}

#[tokio::test]
async fn who_goes_on_after_a_message_that_could_not_be_kept_is_told_that_it_is_not() {
    let (mut session, slow) = message_on_its_way().await;
    session.handle.tell(Command::CancelResponse { response: ResponseId(9) }).unwrap();
    speak(&session, 40..80).await;
    slow.answers(1, Err(NotKept::Full));
    assert_eq!(ask(&mut session, turn_of(2)).await, "-perdido");
    assert_eq!(slow.0.lock().unwrap().len(), 1, "half a message is none");
}

#[tokio::test]
async fn who_goes_on_while_the_message_is_on_its_way_and_hangs_up_has_left_both_parts() {
    let (session, slow) = message_on_its_way().await;
    session.handle.tell(Command::CancelResponse { response: ResponseId(9) }).unwrap();
    speak(&session, 40..80).await;
    drop(session);
    slow.answers(1, Ok(()));
    slow.has(2).await;
    assert_eq!(slow.frames(2), (40..80).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_key_before_the_message_does_what_it_says_and_silence_does_not_end_the_waiting_for_it() {
    let (mut session, kept) = asked_for_a_message(Ok(())).await;
    assert_eq!(ask(&mut session, Cause::Silence { quiet_ms: 5_000 }).await, "¿hola?");
    speak(&session, 0..40).await;
    assert_eq!(ask(&mut session, turn_of(1)).await, "-guardado");
    assert_eq!(ask(&mut session, Cause::Greeting).await, "+diga");
    assert_eq!(ask(&mut session, Cause::Digit { turn: TurnId(3), digit: '8' }).await, "-otro");
    assert_eq!(kept.0.lock().unwrap().len(), 1);
}

const R: ResponseId = ResponseId(1);

fn turn_of(turn: u128) -> Cause {
    Cause::Turn { turn: TurnId(turn) }
}

fn respond(held: &mut Held, cause: Cause) -> Vec<ModelEvent> {
    let mut outputs = VecDeque::new();
    held.take(Command::Respond { response: R, cause }, &mut outputs);
    events(outputs)
}

fn events(outputs: VecDeque<Output>) -> Vec<ModelEvent> {
    let events = outputs.into_iter().map(|output| match output {
        Output::Event(event) => event,
        other => panic!("{other:?}"),
    });
    events.collect()
}

fn words(events: &[ModelEvent]) -> String {
    let texts: Vec<&str> = events
        .iter()
        .filter_map(|event| match event {
            ModelEvent::Clause { content: Content::Text { text, language: Language::Es }, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    texts.join("|")
}

fn held(head: &str) -> Held {
    Held::new(Arc::new(dialogue(head)), opening())
}

fn opening() -> Opening {
    Opening { session: SessionId(1), party: Some(PartyId("+34600".into())), language: Language::Es }
}

fn dialogue(head: &str) -> Dialogue {
    let order: Tool = serde_json::from_value(json!({ "name": "order", "url": "http://127.0.0.1:1/" })).unwrap();
    let text = format!("{head}{DIALOGUE}");
    Dialogue::parse(&text, &Schemas::compile(&[order]).unwrap()).unwrap()
}

const DIALOGUE: &str = r#"
[[turn]]
say = { es = "uno", en = "one" }
[[turn]]
say = [{ es = "dos" }, { es = "dos bis" }]
[otherwise]
say = { es = "otro" }
[digit.7]
cancel = "order"
say = { es = "siete" }
call = { tool = "order", arguments = { item = "{{digit}}", by = "{{caller}}", turn = "{{turn}}" } }
[digit.9]
say = { es = "su clave" }
[digit.9.collect]
digits = 4
end = '#'
wait_s = 5
then = { call = { tool = "order", arguments = { item = "{{digits}}" } } }
missing = { say = { es = "faltan" } }
[[silence]]
after_s = 5
say = { es = "¿hola?" }
[[silence]]
after_s = 10
say = { es = "adiós" }
hang_up = true
"#;
