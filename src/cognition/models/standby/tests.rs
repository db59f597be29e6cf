//! Which of the two gives a response, step by step.

use recado_core::conversation::Life;
use recado_core::conversation::effect::{Cause, ToolStatus};
use recado_core::conversation::input::{Acoustic, AcousticEdge, AcousticEpoch, Content, ModelEvent, ToolCall};
use recado_core::policy::{Language, Localised};
use recado_core::{ResponseId, Time, TurnId};
use serde_json::json;

use super::takeover::{Action, Input, Takeover};
use super::{Bounds, Standby, Words};
use crate::cognition::models::audio::caller_audio;
use crate::cognition::models::message::LeftMessage;
use crate::cognition::models::port::{AudioFormat, Availability, Capabilities, Command, Model, ModelSession, Opening, Output, OutputKind};
use crate::config::Tool;

const A: ResponseId = ResponseId(1);
const B: ResponseId = ResponseId(2);

fn turn(number: u128) -> Cause {
    Cause::Turn { turn: TurnId(number) }
}

fn can(silence_after_ms: Option<u64>) -> Capabilities {
    Capabilities { output: OutputKind::Text, hears_audio: true, owns_turns: false, cancel: true, truncate: true, silence_after_ms }
}

fn away() -> Availability {
    Availability::Away { reason: "it is gone".to_owned() }
}

/// The machine, and what time it is.
struct Stage {
    takeover: Takeover,
    now: Time,
}

/// What was done, in short: `1` and `2` for what the two are told, and what is said.
fn short(actions: &[Action]) -> Vec<String> {
    let told = |command: &Command| match command {
        Command::Respond { cause, .. } => format!("respond {}", kind(cause)),
        Command::CancelResponse { .. } => "cancel".to_owned(),
        Command::AnsweredElsewhere => "answered elsewhere".to_owned(),
        Command::Reconnect => "reconnect".to_owned(),
        Command::ToolOutput { call_id, .. } => format!("output {call_id}"),
        other => format!("{other:?}"),
    };
    let said = |output: &Output| match output {
        Output::Event(ModelEvent::Clause { content, .. }) => format!("says {}", content.text()),
        Output::Event(ModelEvent::ToolCall { call, .. }) => format!("calls {}", call.call_id),
        Output::Event(ModelEvent::Complete { .. }) => "complete".to_owned(),
        Output::Event(ModelEvent::Failed { .. }) => "failed".to_owned(),
        Output::Words { text, .. } => format!("words {text}"),
        Output::TakenOver { .. } => "taken over".to_owned(),
        Output::Audio { bytes, .. } => format!("{} ms", bytes.len() / 8),
        // It is for whoever knows the service.
        Output::Availability(_) | Output::Answered { .. } => "for others".to_owned(),
        other => format!("{other:?}"),
    };
    let all = actions.iter().map(|action| match action {
        Action::First(command) => format!("1 {}", told(command)),
        Action::Second(command) => format!("2 {}", told(command)),
        Action::Say(output) => said(output),
    });
    all.filter(|action| action != "for others").collect()
}

fn kind(cause: &Cause) -> &'static str {
    match cause {
        Cause::Greeting => "greeting",
        Cause::Turn { .. } => "turn",
        Cause::Digit { .. } => "digit",
        Cause::Digits { .. } => "digits",
        Cause::Silence { .. } => "silence",
        Cause::OwnAccord => "own accord",
    }
}

fn words(response: ResponseId, text: &str) -> Output {
    Output::Words { response, text: text.to_owned() }
}

fn clause(response: ResponseId, text: &str) -> Output {
    Output::Event(ModelEvent::Clause { response, content: Content::Text { text: text.to_owned(), language: Language::En } })
}

fn complete(response: ResponseId) -> Output {
    Output::Event(ModelEvent::Complete { response })
}

fn failed(response: ResponseId) -> Output {
    Output::Event(ModelEvent::Failed { response, reason: "for a reason".to_owned() })
}

fn call(response: ResponseId, call_id: &str) -> Output {
    let call = ToolCall { call_id: call_id.to_owned(), tool: "order".to_owned(), arguments: json!({}), confirmed: false };
    Output::Event(ModelEvent::ToolCall { response, call })
}

impl Stage {
    fn new() -> Self {
        Self::waiting_for_silence(None, None)
    }

    fn waiting_for_silence(first: Option<u64>, second: Option<u64>) -> Self {
        Self::made_of(can(first), can(second))
    }

    fn made_of(first: Capabilities, second: Capabilities) -> Self {
        let text = |text: &str| Localised { en: Some(text.to_owned()), es: None };
        let words = Words { away: text("AWAY"), lost: text("LOST") };
        let bounds = Bounds { connecting_ms: 1_500, silent_ms: 4_000 };
        Self { takeover: Takeover::new(bounds, words, Language::En, first, second), now: Time(0) }
    }

    /// One whose first model speaks itself, and is asked for the response `A` to a turn now.
    fn speaking() -> Self {
        let mut stage = Self::made_of(Capabilities { output: OutputKind::Audio(AudioFormat::Pcmu), ..can(None) }, can(None));
        stage.stands(Availability::Ready);
        stage.respond(A, turn(1));
        stage
    }

    /// At `at` its first model sends so much speech, of this octet and the same with the other sign.
    fn hears(&mut self, at: u64, ms: usize, octet: u8) {
        self.now = Time(at);
        assert!(self.takeover.deadline().is_none_or(|due| due.0 > at), "it was given up before {at} ms");
        let bytes = (0..ms * 8).map(|n| if n % 2 == 0 { octet } else { octet ^ 0x80 }).collect();
        assert_eq!(self.first(Output::Audio { response: A, bytes }), [format!("{ms} ms")], "silence is played in its place");
    }

    /// When its first model is given up, where it sends so much speech every second from the first one on, and nothing else.
    fn given_up_where_it_trickles(ms: u64) -> Option<u64> {
        let mut stage = Self::speaking();
        for second in 1..120 {
            match stage.takeover.deadline() {
                Some(Time(due)) if due <= second * 1_000 => return Some(due),
                _ => stage.hears(second * 1_000, ms as usize, VOICE),
            }
        }
        None
    }

    /// One whose first model can be asked.
    fn ready() -> Self {
        let mut stage = Self::new();
        stage.stands(Availability::Ready);
        stage
    }

    fn give(&mut self, input: Input) -> Vec<String> {
        short(&self.takeover.handle(self.now, input))
    }

    fn stands(&mut self, availability: Availability) -> Vec<String> {
        self.first(Output::Availability(availability))
    }

    fn respond(&mut self, response: ResponseId, cause: Cause) -> Vec<String> {
        self.give(Input::Told(Command::Respond { response, cause }))
    }

    fn first(&mut self, output: Output) -> Vec<String> {
        self.give(Input::First(output))
    }

    fn second(&mut self, output: Output) -> Vec<String> {
        self.give(Input::Second(output))
    }

    /// Time goes on to the deadline, which must be this.
    fn wake_at(&mut self, at: u64) -> Vec<String> {
        assert_eq!(self.takeover.deadline(), Some(Time(at)));
        self.now = Time(at - 1);
        assert_eq!(self.give(Input::Wake), [""; 0], "it is not woken early");
        self.now = Time(at);
        self.give(Input::Wake)
    }
}

/// A voice in μ-law, and nothing.
const VOICE: u8 = 0xa0;
const SILENCE: u8 = 0xff;

#[test]
fn silence_is_no_sign_of_life_and_words_without_a_sound_are_none() {
    let gives_up = ["1 reconnect", "1 cancel", "taken over", "says AWAY", "1 answered elsewhere", "2 respond turn"];
    let mut stage = Stage::speaking();
    for at in (0..4_000).step_by(20) {
        stage.hears(at, 20, SILENCE);
        assert_eq!(stage.first(words(A, "mute ")), ["words mute "]);
    }
    assert_eq!(stage.wake_at(4_000), gives_up);
    // After something was said it is as where nothing more comes.
    let mut stage = Stage::speaking();
    for at in (0..3_000).step_by(20) {
        stage.hears(at, 20, VOICE);
    }
    for at in (3_000..6_900).step_by(20) {
        stage.hears(at, 20, SILENCE);
    }
    assert_eq!(stage.wake_at(6_980)[..4], ["1 reconnect", "1 cancel", "taken over", "says LOST"]);
}

#[test]
fn pauses_between_words_may_be_as_long_as_ever() {
    let mut stage = Stage::speaking();
    stage.hears(3_900, 200, VOICE);
    stage.hears(7_800, 700, VOICE);
    stage.hears(11_700, 20, SILENCE);
    assert_eq!(stage.takeover.deadline(), Some(Time(11_800)));
    stage.hears(11_700, 700, VOICE);
    assert_eq!(stage.takeover.deadline(), Some(Time(15_700)));
}

#[test]
fn speech_that_trickles_is_given_up_before_the_conversation_takes_it_for_failed() {
    for ms in [10_u64, 20, 25, 30, 40, 50, 60, 70, 79] {
        // A conversation sees pieces: of 100 ms, then as long as all before them, up to 400.
        let (mut life, mut before) = (Life::new(Time(0)), 0);
        for whole in [100_u64, 200, 400].into_iter().chain((2..).map(|more| 400 * more)) {
            let at = Time(whole.div_ceil(ms) * 1_000);
            if at >= life.since().plus(5_000) {
                break;
            }
            life.sounds(at, whole - before, 12);
            before = whole;
        }
        let failed = life.since().0 + 5_000;
        let given_up = Stage::given_up_where_it_trickles(ms);
        assert!(given_up.is_some_and(|at| at < failed), "{ms} ms a second: {given_up:?}, the conversation at {failed}");
    }
    assert_eq!(Stage::given_up_where_it_trickles(500), None, "it is slow, and can be followed");
}

#[test]
fn a_scrap_before_the_service_ends_a_response_is_no_answer_and_the_second_gives_one() {
    let mut stage = Stage::speaking();
    stage.hears(100, 300, VOICE);
    assert_eq!(stage.first(failed(A)), ["1 cancel", "taken over", "says LOST", "1 answered elsewhere", "2 respond turn"]);
    let mut stage = Stage::speaking();
    stage.hears(100, 1_500, VOICE);
    assert_eq!(stage.first(failed(A)), ["failed"]);
}

#[test]
fn whether_the_first_has_answered_is_said_for_whoever_knows_its_service() {
    let answered = |stage: &mut Stage| {
        stage.takeover.handle(stage.now, Input::First(complete(A))).contains(&Action::Say(Output::Answered { response: A }))
    };
    let mut stage = Stage::speaking();
    stage.hears(100, 300, VOICE);
    assert!(answered(&mut stage));
    let mut stage = Stage::speaking();
    stage.hears(100, 300, SILENCE);
    assert!(!answered(&mut stage));
}

#[test]
fn the_first_answers_while_it_can() {
    let mut stage = Stage::ready();
    assert_eq!(stage.respond(A, Cause::Greeting), ["1 respond greeting"]);
    assert_eq!(stage.first(words(A, "Hello.")), ["words Hello."]);
    assert_eq!(stage.first(complete(A)), ["complete"]);
    assert_eq!(stage.takeover.deadline(), None);
    assert_eq!(stage.respond(B, turn(1)), ["1 respond turn"]);
    assert_eq!(stage.give(Input::Told(Command::CancelResponse { response: B })), ["1 cancel", "2 cancel"]);
    assert_eq!(stage.first(words(B, "Late.")), [""; 0]);
}

#[test]
fn one_that_is_known_to_be_away_is_not_waited_for_and_the_caller_is_told_once() {
    let mut stage = Stage::new();
    stage.stands(away());
    assert_eq!(stage.respond(A, Cause::Greeting), ["taken over", "says AWAY", "2 respond greeting"]);
    assert_eq!(stage.second(clause(A, "Speak.")), ["says Speak."]);
    assert_eq!(stage.second(complete(A)), ["complete"]);
    assert_eq!(stage.respond(B, turn(1)), ["taken over", "1 answered elsewhere", "2 respond turn"]);
}

#[test]
fn one_that_is_being_connected_to_is_waited_for_and_what_it_says_late_leaves_no_trace() {
    let mut stage = Stage::new();
    stage.now = Time(100);
    assert_eq!(stage.respond(A, Cause::Greeting), ["1 respond greeting"]);
    assert_eq!(stage.wake_at(1_600), ["1 cancel", "taken over", "says AWAY", "2 respond greeting"]);
    stage.stands(Availability::Ready);
    assert_eq!(stage.first(words(A, "Hello.")), [""; 0]);
    assert_eq!(stage.first(complete(A)), [""; 0]);
    assert_eq!(stage.second(clause(A, "Speak.")), ["says Speak."]);
    assert_eq!(stage.second(complete(A)), ["complete"]);
    assert_eq!(stage.respond(B, turn(1)), ["1 respond turn"], "it is taken up again at a turn's end");
}

#[test]
fn one_that_turns_out_to_be_away_is_not_waited_for_any_longer() {
    let mut stage = Stage::new();
    stage.respond(A, turn(1));
    assert_eq!(stage.stands(away()), ["1 cancel", "taken over", "says AWAY", "1 answered elsewhere", "2 respond turn"]);
    let mut stage = Stage::new();
    stage.respond(A, Cause::Greeting);
    assert_eq!(stage.give(Input::FirstEnded), ["1 cancel", "taken over", "says AWAY", "2 respond greeting"]);
}

#[test]
fn one_that_is_connected_and_says_nothing_gets_another_connection_and_its_response_is_given_in_its_place() {
    let mut stage = Stage::new();
    stage.respond(A, turn(1));
    stage.now = Time(1_000);
    stage.stands(Availability::Ready);
    let gives_up = ["1 reconnect", "1 cancel", "taken over", "says AWAY", "1 answered elsewhere", "2 respond turn"];
    assert_eq!(stage.wake_at(4_000), gives_up);
    // A connection that is lost late leaves no time to wait for another one.
    let mut stage = Stage::ready();
    stage.respond(A, turn(1));
    stage.now = Time(2_000);
    assert_eq!(stage.stands(Availability::Connecting)[..2], ["1 cancel", "taken over"]);
}

#[test]
fn a_response_that_the_service_can_not_give_is_given_in_its_place_unless_it_has_begun() {
    let mut stage = Stage::ready();
    stage.respond(A, turn(1));
    assert_eq!(stage.first(failed(A)), ["1 cancel", "taken over", "says AWAY", "1 answered elsewhere", "2 respond turn"]);
    stage.second(complete(A));
    stage.respond(B, turn(2));
    stage.first(clause(B, "I think"));
    assert_eq!(stage.first(failed(B)), ["failed"], "the service is there, and has cut itself off");
}

#[test]
fn one_that_is_lost_while_it_speaks_is_said_to_be_and_what_it_has_said_is_not_said_again() {
    let mut stage = Stage::ready();
    stage.respond(A, turn(1));
    stage.first(clause(A, "I think"));
    stage.first(Output::Audio { response: A, bytes: vec![1] });
    assert_eq!(stage.stands(Availability::Connecting), [""; 0]);
    let lost = ["1 cancel", "taken over", "says LOST", "1 answered elsewhere", "2 respond turn"];
    assert_eq!(stage.first(failed(A)), lost);
    assert_eq!(stage.second(clause(A, "Speak.")), ["says Speak."]);
    assert_eq!(stage.second(complete(A)), ["complete"]);
    assert_eq!(stage.first(failed(A)), [""; 0]);
    stage.stands(away());
    assert_eq!(stage.respond(B, turn(2)), ["taken over", "1 answered elsewhere", "2 respond turn"], "the caller knows");
    // One that falls silent is lost too.
    let mut stage = Stage::ready();
    stage.respond(A, turn(1));
    stage.now = Time(3_000);
    stage.first(clause(A, "I think"));
    assert_eq!(stage.wake_at(7_000)[..4], ["1 reconnect", "1 cancel", "taken over", "says LOST"]);
}

#[test]
fn a_tool_that_was_called_before_the_loss_stays_called_and_none_is_called_in_its_place() {
    let mut stage = Stage::ready();
    stage.respond(A, turn(1));
    assert_eq!(stage.first(call(A, "call_1")), ["calls call_1"]);
    stage.stands(Availability::Connecting);
    assert_eq!(stage.first(failed(A)), ["1 cancel", "taken over", "says LOST", "complete"]);
    assert_eq!(stage.takeover.deadline(), None);
    let output =
        |call_id: &str| Input::Told(Command::ToolOutput { call_id: call_id.to_owned(), operation: None, status: ToolStatus::Running });
    assert_eq!(stage.give(output("call_1")), ["1 output call_1"]);
    // The two may have calls of the same name.
    stage.stands(away());
    stage.respond(B, turn(2));
    assert_eq!(stage.second(call(B, "call_1")), ["calls standby_call_1"]);
    assert_eq!(stage.give(output("standby_call_1")), ["2 output call_1"]);
}

#[test]
fn a_call_that_it_has_ended_before_the_loss_ends_and_nothing_is_asked_of_the_caller() {
    let mut stage = Stage::ready();
    stage.respond(A, turn(1));
    stage.first(words(A, "Goodbye."));
    stage.first(Output::Event(ModelEvent::HangUp { response: A }));
    stage.stands(Availability::Connecting);
    assert_eq!(stage.first(failed(A)), ["1 cancel", "complete"]);
    assert_eq!(stage.takeover.deadline(), None);
}

#[test]
fn a_caller_who_has_not_heard_that_it_is_away_is_told_with_the_next_response() {
    let heard = |heard_text: &str| Input::Told(Command::Truncate { response: A, heard_ms: 300, heard_text: heard_text.to_owned() });
    for (heard_text, told) in [("", true), ("AW", true), ("AWAY", false), ("AWAY Speak", false)] {
        let mut stage = Stage::new();
        stage.stands(away());
        stage.respond(A, Cause::Greeting);
        stage.give(Input::Told(Command::CancelResponse { response: A }));
        stage.give(heard(heard_text));
        assert_eq!(stage.respond(B, turn(1)).contains(&"says AWAY".to_owned()), told, "{heard_text:?}");
    }
    // Another response's cut says nothing of it.
    let mut stage = Stage::new();
    stage.stands(away());
    stage.respond(A, Cause::Greeting);
    stage.second(complete(A));
    stage.respond(B, turn(1));
    stage.give(Input::Told(Command::Truncate { response: B, heard_ms: 0, heard_text: String::new() }));
    assert!(!stage.respond(A, turn(2)).contains(&"says AWAY".to_owned()));
}

#[test]
fn what_was_cut_before_it_could_be_said_is_not_taken_for_told() {
    let mut stage = Stage::new();
    stage.stands(away());
    stage.respond(A, Cause::Greeting);
    // No word of it has come as far as the voice: nothing is known of what was heard.
    stage.give(Input::Told(Command::CancelResponse { response: A }));
    assert!(stage.respond(B, turn(1)).contains(&"says AWAY".to_owned()));
    // What is cancelled later says nothing of it.
    stage.second(complete(B));
    stage.respond(A, turn(2));
    stage.give(Input::Told(Command::CancelResponse { response: A }));
    assert!(!stage.respond(B, turn(3)).contains(&"says AWAY".to_owned()));
}

#[test]
fn who_has_heard_that_it_is_away_is_not_told_again_where_a_later_word_of_a_loss_was_cut() {
    let mut stage = Stage::new();
    stage.stands(away());
    stage.respond(A, Cause::Greeting);
    stage.second(complete(A));
    stage.stands(Availability::Ready);
    stage.respond(B, turn(1));
    stage.first(clause(B, "I think"));
    stage.stands(Availability::Connecting);
    assert!(stage.first(failed(B)).contains(&"says LOST".to_owned()));
    stage.second(complete(B));
    stage.give(Input::Told(Command::Truncate { response: B, heard_ms: 300, heard_text: "I think".to_owned() }));
    stage.stands(away());
    assert!(!stage.respond(A, turn(2)).contains(&"says AWAY".to_owned()));
}

#[tokio::test]
async fn the_last_that_the_caller_says_reaches_the_second_before_the_call_ends() {
    /// A model that says nothing, and keeps what it hears.
    struct Hears(std::sync::Arc<std::sync::Mutex<usize>>);
    impl Model for Hears {
        fn capabilities(&self) -> Capabilities {
            can(None)
        }
        fn open(&self, _opening: Opening) -> ModelSession {
            let (heard, mut hears) = caller_audio();
            let (session, mut commands, said) = ModelSession::new(Some(heard));
            let count = self.0.clone();
            tokio::spawn(async move {
                while commands.recv().await.is_some() {}
                while hears.next().await.is_some() {
                    *count.lock().unwrap() += 1;
                }
                drop(said);
            });
            session
        }
    }
    let (first, second) = (std::sync::Arc::default(), std::sync::Arc::<std::sync::Mutex<usize>>::default());
    let bounds = Bounds { connecting_ms: 1_500, silent_ms: 4_000 };
    let nothing = Localised { en: None, es: None };
    let words = Words { away: nothing.clone(), lost: nothing };
    let standby = Standby::new(Box::new(Hears(first)), Box::new(Hears(second.clone())), bounds, words);
    let mut session = standby.open(Opening { session: recado_core::SessionId(1), party: None, language: Language::En });
    // Its task runs only when this test waits: all of it is there when the call ends.
    for n in 0..20 {
        session.handle.audio.as_ref().expect("it hears").push(&[n; 160]);
    }
    drop(session.handle);
    while session.outputs.recv().await.is_some() {}
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(*second.lock().unwrap(), 20);
}

#[test]
fn keys_go_to_whoever_has_asked_for_them_and_to_the_one_that_is_there() {
    let keys = |turn| Cause::Digits { turn: TurnId(turn), digits: "12".to_owned(), complete: true };
    let wants = |response| Output::Event(ModelEvent::CollectDigits { response, digits_max: 2, end: None, wait_ms: 5_000 });
    let mut stage = Stage::new();
    stage.stands(away());
    stage.respond(A, turn(1));
    stage.second(wants(A));
    stage.second(complete(A));
    stage.stands(Availability::Ready);
    assert_eq!(stage.respond(B, keys(2)), ["2 respond digits"]);
    stage.second(complete(B));
    assert_eq!(stage.respond(A, keys(3)), ["1 respond digits"], "these are nobody's");
    stage.first(wants(A));
    stage.first(complete(A));
    stage.stands(away());
    assert_eq!(stage.respond(B, keys(4)), ["taken over", "2 respond turn"], "it does not know what they are for");
}

#[test]
fn a_message_is_taken_to_its_end_though_the_service_is_back() {
    let mut stage = Stage::new();
    stage.stands(away());
    stage.respond(A, Cause::Greeting);
    stage.second(Output::TakesMessage(true));
    stage.second(complete(A));
    stage.stands(Availability::Ready);
    assert!(stage.takeover.takes_message());
    assert_eq!(stage.respond(B, turn(1)), ["1 answered elsewhere", "2 respond turn"]);
    stage.second(Output::TakesMessage(false));
    assert_eq!(stage.second(clause(B, "Kept.")), ["says Kept."]);
    stage.second(complete(B));
    assert_eq!(stage.respond(A, turn(2)), ["1 respond turn"]);
}

#[test]
fn what_became_of_a_message_is_told_by_the_second_where_the_first_has_gone_meanwhile() {
    let left = || LeftMessage::Kept { seconds: 4, is_cut: false };
    let tells = |action: &Action| {
        let (Action::First(command) | Action::Second(command)) = action else { return false };
        *command == Command::TellOfMessage { response: B, left: left() }
    };
    let mut stage = Stage::ready();
    stage.respond(A, turn(1));
    stage.first(Output::WantsMessage { response: A });
    stage.stands(away());
    let tell = |stage: &mut Stage| stage.takeover.handle(Time(0), Input::Told(Command::TellOfMessage { response: B, left: left() }));
    let actions = tell(&mut stage);
    assert!(matches!(actions.last(), Some(last @ Action::Second(_)) if tells(last)), "{actions:?}");
    assert_eq!(actions.iter().filter(|action| tells(action)).count(), 1, "{actions:?}");
    let mut stage = Stage::ready();
    let actions = tell(&mut stage);
    assert!(matches!(&actions[..], [first @ Action::First(_)] if tells(first)), "{actions:?}");
    let taken_over = stage.takeover.handle(Time(0), Input::First(Output::Availability(away())));
    assert!(taken_over.iter().any(|action| matches!(action, Action::Second(_)) && tells(action)), "{taken_over:?}");
}

#[test]
fn a_silence_is_for_the_one_that_leads_where_it_wants_to_be_asked() {
    let silence = || Cause::Silence { quiet_ms: 5_000 };
    let mut stage = Stage::waiting_for_silence(None, Some(5_000));
    stage.stands(Availability::Ready);
    assert_eq!(stage.respond(A, silence()), ["complete"]);
    stage.stands(away());
    assert_eq!(stage.respond(B, silence())[2..], ["2 respond silence"]);
    let mut stage = Stage::waiting_for_silence(Some(5_000), None);
    assert_eq!(stage.respond(A, silence()), ["1 respond silence"]);
}

#[test]
fn what_the_first_wanted_to_say_of_its_own_accord_nobody_says_in_its_place_nor_into_a_message() {
    let wants = || Output::Event(ModelEvent::WantsToSpeak);
    let mut stage = Stage::ready();
    assert_eq!(stage.first(wants()).len(), 1);
    assert_eq!(stage.respond(A, Cause::OwnAccord), ["1 respond own accord"]);
    assert_eq!(stage.stands(away()), ["1 cancel", "complete"], "the caller has asked for nothing, and misses nothing");
    assert_eq!(stage.respond(B, Cause::OwnAccord), ["complete"]);
    assert_eq!(stage.respond(A, turn(1))[..2], ["taken over", "says AWAY"]);
    stage.second(Output::TakesMessage(true));
    stage.second(complete(A));
    stage.stands(Availability::Ready);
    assert_eq!(stage.first(wants()), [""; 0]);
    assert_eq!(stage.respond(B, Cause::OwnAccord), ["complete"], "it had asked before");
}

#[test]
fn what_concerns_no_response_reaches_both() {
    let mut stage = Stage::ready();
    let told = Command::Told { delivery: recado_core::DeliveryId(1), text: "It is done.".to_owned() };
    assert_eq!(stage.takeover.handle(Time(0), Input::Told(told.clone())), [Action::First(told.clone()), Action::Second(told)]);
}

#[test]
fn the_boxs_own_dialogue_can_be_held_and_takes_a_message() {
    let schemas = crate::cognition::tools::Schemas::compile(&Vec::<Tool>::new()).unwrap();
    assert!(crate::cognition::models::Dialogue::parse(super::DIALOGUE, &schemas).unwrap().takes_messages());
}

#[test]
fn what_the_caller_does_while_a_message_is_taken_is_not_told_to_the_first_but_how_it_ends() {
    let edge = |to| AcousticEdge { to, epoch: AcousticEpoch(1), at: Time(0) };
    let told = |command: &Command, to| *command == Command::Acoustic(edge(to));
    for (last, learns) in
        [(Acoustic::Trailing, Acoustic::Quiet), (Acoustic::Quiet, Acoustic::Quiet), (Acoustic::Speaking, Acoustic::Speaking)]
    {
        let mut stage = Stage::ready();
        let mut give = |input| stage.takeover.handle(Time(0), input);
        assert_eq!(give(Input::Told(Command::Acoustic(edge(Acoustic::Trailing)))).len(), 2, "both are told");
        give(Input::Second(Output::TakesMessage(true)));
        for to in [Acoustic::Speaking, last] {
            let actions = give(Input::Told(Command::Acoustic(edge(to))));
            assert!(matches!(&actions[..], [Action::Second(command)] if told(command, to)), "{actions:?}");
        }
        let over = give(Input::Second(Output::TakesMessage(false)));
        assert!(matches!(&over[0], Action::First(command) if told(command, learns)), "{last:?}: {over:?}");
        assert_eq!(give(Input::Told(Command::Acoustic(edge(Acoustic::Suspected)))).len(), 2);
        give(Input::Second(Output::TakesMessage(true)));
        assert_eq!(give(Input::Second(Output::TakesMessage(false))).len(), 1, "nothing was missed");
    }
}
