//! What becomes of what is said and done while a message is being left, step by step.

use std::time::Duration;

use recado_core::conversation::effect::Cause;
use recado_core::conversation::input::{Acoustic, AcousticEdge, AcousticEpoch, ModelEvent};
use recado_core::policy::Language;
use recado_core::{PartyId, ResponseId, SessionId, Time, TurnId};

use super::leaving::{Action, Input, Leaving};
use crate::cognition::models::message::{LeftMessage, Message, NotKept, WhyNotKept};
use crate::cognition::models::port::{Command, Opening, Output};

const A: ResponseId = ResponseId(1);
const B: ResponseId = ResponseId(2);
const C: ResponseId = ResponseId(3);
const PAUSE: Option<Duration> = Some(Duration::from_millis(1_500));

fn turn(n: u128) -> Cause {
    Cause::Turn { turn: TurnId(n) }
}

fn key(digit: char) -> Cause {
    Cause::Digit { turn: TurnId(9), digit }
}

fn edge(to: Acoustic) -> Command {
    Command::Acoustic(AcousticEdge { to, epoch: AcousticEpoch(1), at: Time(0) })
}

fn opening() -> Opening {
    Opening { session: SessionId(1), party: Some(PartyId("box/600123456".to_owned())), language: Language::En }
}

fn wants(response: ResponseId) -> Input {
    Input::Said(Output::WantsMessage { response })
}

/// What happens, in a few words.
fn in_words(actions: Vec<Action>) -> Vec<String> {
    let words = actions.into_iter().map(|action| match action {
        Action::Say(Output::TakesMessage(takes)) => format!("takes {takes}"),
        Action::Say(Output::Event(ModelEvent::Complete { response })) => format!("complete {}", response.0),
        Action::Say(Output::Event(ModelEvent::CollectDigits { response, digits_max: 1, end: None, .. })) => {
            format!("floor {}", response.0)
        }
        Action::Say(Output::Event(ModelEvent::WantsToSpeak)) => "wants to speak".to_owned(),
        Action::Tell(Command::Respond { response, .. }) => format!("respond {}", response.0),
        Action::Tell(Command::CancelResponse { response }) => format!("cancel {}", response.0),
        Action::Tell(Command::Acoustic(edge)) => format!("{:?}", edge.to),
        Action::Tell(Command::TellOfMessage { response, left }) => match left {
            LeftMessage::Kept { seconds, is_cut } => format!("tell {}: kept {seconds} s, cut {is_cut}", response.0),
            LeftMessage::NotKept { seconds, why } => format!("tell {}: {seconds} s not kept, {why:?}", response.0),
            LeftMessage::NothingSaid { digits } => format!("tell {}: nothing but {digits}", response.0),
        },
        other => panic!("{other:?}"),
    });
    words.collect()
}

/// A call whose model has asked for a message.
struct Stage(Leaving);

impl Stage {
    fn asked() -> Self {
        let mut stage = Self(Leaving::new(opening()));
        assert_eq!(stage.respond(A, turn(1)), ["respond 1"]);
        assert_eq!(stage.give(wants(A)), ["takes true", "floor 1"]);
        stage
    }

    fn give(&mut self, input: Input) -> Vec<String> {
        in_words(self.0.handle(input))
    }

    fn tell(&mut self, command: Command) -> Vec<String> {
        self.give(Input::Told(command))
    }

    fn respond(&mut self, response: ResponseId, cause: Cause) -> Vec<String> {
        self.tell(Command::Respond { response, cause })
    }

    /// The caller says so many frames, and pauses. Nothing of it is the model's.
    fn speaks(&mut self, frames: std::ops::Range<i16>) {
        for to in [Acoustic::Suspected, Acoustic::Speaking] {
            assert_eq!(self.tell(edge(to)), [""; 0]);
        }
        self.hears(frames);
        for to in [Acoustic::Trailing, Acoustic::Quiet] {
            assert_eq!(self.tell(edge(to)), [""; 0]);
        }
    }

    fn hears(&mut self, frames: std::ops::Range<i16>) {
        frames.for_each(|n| assert!(self.0.takes(&[n; 160])));
    }

    fn ends(&mut self) -> Message {
        self.0.end_message().expect("a message")
    }
}

fn frames(message: &Message) -> Vec<i16> {
    message.samples.chunks(160).map(|frame| frame[0]).collect()
}

#[test]
fn what_the_caller_says_is_the_message_and_the_model_is_told_what_became_of_it_and_hears_what_comes_after() {
    let mut stage = Stage::asked();
    stage.speaks(0..60);
    assert_eq!(stage.0.ends_after(), None, "nobody waits for its end");
    assert_eq!(stage.respond(B, turn(2)), [""; 0]);
    assert_eq!(stage.0.ends_after(), PAUSE);
    let message = stage.ends();
    assert_eq!(frames(&message), (0..60).collect::<Vec<_>>());
    assert_eq!((message.session, message.party, message.is_cut), (SessionId(1), opening().party, false));
    assert_eq!(stage.give(Input::Kept(Ok(()))), ["takes false", "Quiet", "tell 2: kept 2 s, cut false"]);
    assert!(!stage.0.is_under_way() && !stage.0.takes(&[7; 160]));
    assert_eq!(stage.tell(edge(Acoustic::Suspected)), ["Suspected"]);
    assert_eq!(stage.respond(C, turn(3)), ["respond 3"]);
    assert_eq!(stage.give(wants(C)), ["takes true", "floor 3"], "one more");
}

#[test]
fn who_goes_on_after_a_pause_goes_on_with_the_same_message() {
    let mut stage = Stage::asked();
    stage.speaks(0..40);
    stage.respond(B, turn(2));
    assert_eq!(stage.tell(edge(Acoustic::Suspected)), [""; 0]);
    assert_eq!(stage.0.ends_after(), Some(super::ENDS_WITHIN), "a sound may be the caller");
    assert_eq!(stage.tell(Command::CancelResponse { response: B }), [""; 0], "the model knows of none");
    assert_eq!(stage.0.ends_after(), None);
    stage.speaks(40..80);
    stage.respond(C, turn(3));
    assert_eq!(frames(&stage.ends()), (0..80).collect::<Vec<_>>());
    assert_eq!(stage.give(Input::Kept(Ok(())))[2], "tell 3: kept 2 s, cut false");
}

#[test]
fn who_goes_on_before_they_are_told_leaves_more_of_it_and_is_told_once_when_all_of_it_is_kept() {
    // The disk may be faster than the caller, or not.
    for kept_first in [true, false] {
        let mut stage = Stage::asked();
        stage.speaks(0..60);
        stage.respond(B, turn(2));
        assert_eq!(stage.ends().samples.len(), 60 * 160);
        assert_eq!(stage.tell(Command::CancelResponse { response: B }), [""; 0]);
        if kept_first {
            assert_eq!(stage.give(Input::Kept(Ok(()))), [""; 0]);
        }
        stage.speaks(60..160);
        assert_eq!(stage.respond(C, turn(3)), [""; 0]);
        if !kept_first {
            assert_eq!(stage.0.ends_after(), None, "one after the other");
            assert_eq!(stage.give(Input::Kept(Ok(()))), [""; 0]);
        }
        assert_eq!(stage.0.ends_after(), PAUSE);
        assert_eq!(frames(&stage.ends()), (60..160).collect::<Vec<_>>());
        assert_eq!(stage.give(Input::Kept(Ok(())))[2], "tell 3: kept 4 s, cut false");
    }
}

#[test]
fn a_cough_while_it_is_written_is_no_more_of_it() {
    let mut stage = Stage::asked();
    stage.speaks(0..60);
    stage.respond(B, turn(2));
    stage.ends();
    for to in [Acoustic::Suspected, Acoustic::Quiet] {
        stage.tell(edge(to));
    }
    assert_eq!(stage.give(Input::Kept(Ok(())))[2], "tell 2: kept 2 s, cut false");
}

#[test]
fn what_is_not_kept_or_is_too_long_is_told_as_that() {
    for (error, why) in [(NotKept::Full, WhyNotKept::Full), (NotKept::Failed("/secret/path".to_owned()), WhyNotKept::NotWritten)] {
        let mut stage = Stage::asked();
        stage.speaks(0..40);
        stage.respond(B, turn(2));
        stage.ends();
        assert_eq!(stage.give(Input::Kept(Err(error)))[2], format!("tell 2: 1 s not kept, {why:?}"));
    }
    let mut stage = Stage::asked();
    stage.speaks(0..6_100);
    stage.respond(B, turn(2));
    let message = stage.ends();
    assert_eq!((message.samples.len(), message.is_cut), (120 * 8_000, true));
    // They have been too long: what they add is none of it.
    assert_eq!(stage.tell(Command::CancelResponse { response: B }), [""; 0]);
    stage.speaks(0..40);
    assert_eq!(stage.give(Input::Kept(Ok(()))), [""; 0]);
    assert_eq!(stage.respond(C, turn(3))[2], "tell 3: kept 120 s, cut true");
}

#[test]
fn a_key_ends_it_at_once_and_where_nothing_was_said_there_is_none() {
    let mut stage = Stage::asked();
    stage.speaks(0..40);
    assert_eq!(stage.respond(B, key('#')), [""; 0]);
    assert_eq!(stage.0.ends_after(), Some(Duration::ZERO));
    assert_eq!(frames(&stage.ends()).len(), 40);
    // What is said after it is no more of it.
    stage.speaks(0..40);
    assert!(stage.0.end_message().is_none());
    assert_eq!(stage.give(Input::Kept(Ok(())))[2], "tell 2: kept 1 s, cut false");

    let mut stage = Stage::asked();
    assert_eq!(stage.respond(B, key('5')), ["takes false", "tell 2: nothing but 5"]);
    assert!(!stage.0.is_under_way());
    assert_eq!(stage.respond(C, key('5')), ["respond 3"]);

    let keys = |digits: &str, complete| Cause::Digits { turn: TurnId(9), digits: digits.to_owned(), complete };
    let mut stage = Stage::asked();
    assert_eq!(stage.respond(B, keys("", false))[1], "tell 2: nothing but ", "for too long");
    for (complete, after) in [(true, Some(Duration::ZERO)), (false, PAUSE)] {
        let mut stage = Stage::asked();
        stage.speaks(0..40);
        assert_eq!(stage.respond(B, keys(if complete { "5" } else { "" }, complete)), [""; 0]);
        assert_eq!(stage.0.ends_after(), after, "the floor is not held for ever, and that ends no message");
    }
}

#[test]
fn who_hangs_up_in_the_middle_has_left_what_they_said_and_who_says_nothing_has_not() {
    let mut stage = Stage::asked();
    stage.tell(edge(Acoustic::Suspected));
    stage.tell(edge(Acoustic::Speaking));
    stage.hears(0..30);
    assert_eq!(frames(&stage.ends()).len(), 30);
    let mut stage = Stage::asked();
    stage.hears(0..30);
    assert!(stage.0.end_message().is_none());
}

#[test]
fn nobody_breaks_in_on_it_and_what_is_no_speech_passes() {
    let mut stage = Stage::asked();
    let wishes = || Input::Said(Output::Event(ModelEvent::WantsToSpeak));
    assert_eq!(stage.give(wishes()), [""; 0]);
    assert_eq!(stage.respond(B, Cause::OwnAccord), ["complete 2"]);
    assert_eq!(stage.respond(B, Cause::Silence { quiet_ms: 9_000 }), ["respond 2"], "they may still say it");
    assert_eq!(stage.tell(Command::CancelResponse { response: B }), ["cancel 2"], "the model gives this one");
    let told = Command::Told { delivery: recado_core::DeliveryId(1), text: "It is done.".to_owned() };
    assert_eq!(stage.0.handle(Input::Told(told.clone())), [Action::Tell(told)]);
    stage.speaks(0..40);
    assert_eq!(stage.respond(C, turn(2)), [""; 0]);
    stage.ends();
    stage.give(Input::Kept(Ok(())));
    assert_eq!(stage.give(wishes()), ["wants to speak"]);
}

#[test]
fn what_was_said_before_it_is_the_models_to_answer_and_the_message_is_still_taken() {
    let mut stage = Stage(Leaving::new(opening()));
    stage.respond(A, turn(1));
    for to in [Acoustic::Suspected, Acoustic::Speaking, Acoustic::Trailing] {
        assert_eq!(stage.tell(edge(to)), [format!("{to:?}")]);
    }
    assert_eq!(stage.give(wants(A)), ["takes true", "floor 1"]);
    assert_eq!(stage.tell(edge(Acoustic::Quiet)), [""; 0]);
    assert_eq!(stage.respond(B, turn(2)), ["Quiet", "respond 2"]);
    stage.speaks(0..40);
    assert_eq!(stage.respond(C, turn(3)), [""; 0]);
    assert_eq!(frames(&stage.ends()).len(), 40);
}

#[test]
fn what_comes_of_an_earlier_response_takes_no_message() {
    let mut stage = Stage(Leaving::new(opening()));
    stage.respond(A, turn(1));
    stage.respond(B, turn(2));
    assert_eq!(stage.give(wants(A)), [""; 0]);
    assert!(!stage.0.is_under_way());
}
