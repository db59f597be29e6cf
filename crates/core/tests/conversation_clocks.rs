//! The four clocks of a call as they are seen from outside, and what they wait for.

mod conversation_rig;

use conversation_rig::*;
use recado_core::conversation::*;
use recado_core::ledger::{self, Cancellation, ClauseEvidence, ClauseVerdict, News, SpokenClause};
use recado_core::policy::{CanInterrupt, Language, Priority};
use recado_core::timers::Timer;
use recado_core::{DeliveryId, ResponseId, Time};

/// A response of these words, given to the voice; the first of them sounds.
fn saying(texts: &[&str]) -> Call {
    let mut call = Call::new();
    call.turn();
    texts.iter().for_each(|text| {
        call.say(text);
    });
    call.complete();
    call.start(texts[0], 2_000);
    call
}

#[test]
fn the_clocks_show_a_reply_until_it_is_said_and_its_audio_until_it_is_known_to_be_heard() {
    let mut call = Call::new();
    let shown = |call: &Call| (call.conversation.clocks().generation, call.conversation.clocks().playback);
    assert_eq!(shown(&call), (None, None));
    let response = call.turn();
    assert_eq!(shown(&call), (Some(GenerationState::Requested), None));
    call.say("one");
    let generation = |from, to| Edge::Generation { response, from, to };
    assert_eq!(call.edges, [generation(GenerationState::Requested, GenerationState::Generating)]);
    call.complete();
    assert_eq!(call.edges, [generation(GenerationState::Generating, GenerationState::Complete)]);
    assert_eq!(shown(&call), (Some(GenerationState::Complete), Some(PlaybackState::Queued)));
    call.start("one", 1_000);
    let playback = call.segment("one").playback;
    assert_eq!(call.edges, [Edge::Playback { playback, from: PlaybackState::Queued, to: PlaybackState::Playing }]);
    call.pass(1_000);
    assert_eq!(shown(&call), (Some(GenerationState::Complete), Some(PlaybackState::Playing)));
    call.sent("one", 1_000);
    assert_eq!(call.edges, [Edge::Playback { playback, from: PlaybackState::Playing, to: PlaybackState::Drained }]);
    assert_eq!(shown(&call), (None, Some(PlaybackState::Drained)));
    call.played();
    let finished = PlaybackState::Finished { heard_ms: 1_000 };
    assert_eq!(call.edges, [Edge::Playback { playback, from: PlaybackState::Drained, to: finished }]);
    assert_eq!(shown(&call), (None, None));
    call.moves(Acoustic::Suspected);
    assert_eq!(call.edges, [Edge::Acoustic { from: Acoustic::Quiet, to: Acoustic::Suspected }]);
    assert_eq!(Call::greeting_in(Language::En, |_| {}).conversation.language(), Language::En);
}

#[test]
fn a_playback_finishes_when_the_last_of_its_own_segments_is_settled() {
    let mut call = saying(&["one", "two"]);
    call.pass(2_000);
    call.sent("one", 2_000);
    call.played();
    let playback = call.segment("one").playback;
    call.play("two", 1_000);
    assert_eq!(call.conversation.clocks().playback, Some(PlaybackState::Drained), "of the second nothing is known");
    call.turn();
    call.say("three");
    call.complete();
    call.play("three", 500);
    let other = call.segment("three").playback;
    call.played();
    let finished = |heard_ms| PlaybackState::Finished { heard_ms };
    let edges = [(playback, 3_000), (other, 500)].map(|(playback, heard_ms)| Edge::Playback {
        playback,
        from: PlaybackState::Drained,
        to: finished(heard_ms),
    });
    assert!(call.edges.len() == 2 && edges.iter().all(|edge| call.edges.contains(edge)), "{:?}", call.edges);
}

#[test]
fn a_response_that_is_complete_is_not_cancelled_when_its_words_are_cut() {
    let mut call = saying(&["one two three four"]);
    call.moves(Acoustic::Suspected);
    let effects = call.moves(Acoustic::Speaking);
    assert_eq!(clears(&effects), 1);
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::CancelResponse { .. })));
    assert!(!call.edges.iter().any(|edge| matches!(edge, Edge::Generation { .. })), "{:?}", call.edges);
}

#[test]
fn what_was_cut_says_how_much_was_heard_and_how_much_was_not() {
    let mut call = saying(&["one", "two"]);
    call.pass(2_000);
    call.sent("one", 2_000);
    call.start("two", 1_000);
    call.pass(500);
    call.moves(Acoustic::Suspected);
    call.moves(Acoustic::Speaking);
    let effects = call.cleared("two", Some(500));
    assert_eq!(measured(&effects, MeasureName::CancelledResponseUnheardMs), [700], "what lay in the far end's buffer was not");
    let playback = call.segment("two").playback;
    let cleared = PlaybackState::Cleared { heard_ms: 2_300 };
    assert!(call.edges.contains(&Edge::Playback { playback, from: PlaybackState::Playing, to: cleared }), "{:?}", call.edges);
    assert_eq!(doubts(&effects), []);
    let mut call = Call::new();
    call.turn();
    call.say("never made");
    call.moves(Acoustic::Suspected);
    call.moves(Acoustic::Speaking);
    let effects = call.cleared("never made", None);
    assert!(measured(&effects, MeasureName::CancelledResponseUnheardMs).is_empty());
}

#[test]
fn a_clear_that_is_never_confirmed_is_taken_as_done_where_the_voice_was_last_seen_and_doubted() {
    let mut call = saying(&["one two three four five six seven eight nine ten"]);
    call.pass(1_200);
    call.moves(Acoustic::Suspected);
    let segment = call.given()[0].0;
    call.give(Input::Playback(PlaybackEvent::Paused { segment, released_ms: 1_200, at: Time(call.now) }));
    call.moves(Acoustic::Speaking);
    assert_eq!(doubts(&call.pass(499)), []);
    let effects = call.pass(1);
    assert_eq!(doubts(&effects), [Doubt::ClearUnconfirmed]);
    assert_eq!(heard(&effects), [("one two three four five".to_owned(), Standing::Settled(Evidence::Sent))], "half of it, at a word's end");
}

#[test]
fn the_end_of_a_hold_that_was_none_cuts_nothing() {
    let mut call = saying(&["one"]);
    assert_eq!(clears(&call.give(Input::Hold(false))), 0);
    assert_eq!(clears(&call.give(Input::Hold(true))), 1);
}

#[test]
fn the_model_speaks_of_its_own_accord_where_there_is_room_at_that_moment_and_not_later() {
    let wish = || Input::Model(ModelEvent::WantsToSpeak);
    let mut call = Call::new();
    assert_eq!(causes(&call.give(wish())), [Cause::OwnAccord]);
    assert_eq!(causes(&call.give(wish())), [], "it is asked already");
    call.say("one");
    call.complete();
    let response = call.response();
    call.start("one", 3_000);
    assert_eq!(causes(&call.give(wish())), [], "it is speaking");
    call.sent("one", 3_000);
    for held in [Input::FloorHeld(true), Input::FloorHeld(false), Input::Hold(true), Input::Hold(false)] {
        let room = matches!(held, Input::FloorHeld(false) | Input::Hold(false));
        assert_eq!(causes(&call.give(held)), [], "what was wished for before is forgotten");
        if !room {
            assert_eq!(causes(&call.give(wish())), []);
        }
    }
    call.moves(Acoustic::Suspected);
    assert_eq!(causes(&call.give(wish())), [], "the caller may be speaking");
    call.moves(Acoustic::Quiet);
    assert_eq!(causes(&call.give(wish())), [Cause::OwnAccord]);
    assert_ne!(call.response(), response);
    let response = call.response();
    call.give(Input::Model(ModelEvent::CollectDigits { response, digits_max: 4, end: None, wait_ms: 3_000 }));
    call.complete();
    assert_eq!(causes(&call.give(wish())), [], "keys are being pressed");
    assert!(matches!(causes(&call.pass(3_000))[..], [Cause::Digits { .. }]));
    let response = call.response();
    call.give(Input::Model(ModelEvent::HangUp { response }));
    call.complete();
    assert_eq!(causes(&call.give(wish())), [], "the call is about to end");
    call.give(Input::ChannelOver);
    assert_eq!(causes(&call.give(wish())), []);
}

#[test]
fn silence_is_broken_once_nothing_is_going_on_and_not_when_the_call_is_to_end() {
    let quiet = |settings: &mut Settings| settings.silence_ms = Some(10_000);
    let mut call = Call::with(quiet);
    assert_eq!(causes(&call.pass(9_999)), []);
    assert_eq!(causes(&call.pass(1)), [Cause::Silence { quiet_ms: 10_000 }]);
    call.complete();
    call.turn();
    call.say("one");
    call.complete();
    let response = call.response();
    call.start("one", 30_000);
    assert_eq!(causes(&call.pass(30_000)), [], "it is speaking");
    call.sent("one", 30_000);
    call.give(Input::FloorHeld(true));
    assert_eq!(causes(&call.pass(15_000)), [], "the floor is held");
    call.give(Input::FloorHeld(false));
    call.give(Input::Hold(true));
    assert_eq!(causes(&call.pass(15_000)), [], "on hold");
    call.give(Input::Hold(false));
    call.moves(Acoustic::Suspected);
    call.moves(Acoustic::Speaking);
    assert_eq!(causes(&call.pass(15_000)), [], "the caller speaks");
    call.moves(Acoustic::Trailing);
    call.moves(Acoustic::Quiet);
    assert_ne!(call.response(), response);
    let response = call.response();
    call.give(Input::Model(ModelEvent::HangUp { response }));
    call.complete();
    let effects = call.pass(60_000);
    assert_eq!(causes(&effects), [], "it hangs up, and what comes after that is silence");
    assert!(effects.contains(&Effect::HangUp));
}

#[test]
fn the_call_is_not_hung_up_before_the_last_word_has_been_said_and_while_the_caller_speaks() {
    let mut call = Call::new();
    let response = call.turn();
    call.say("goodbye");
    call.give(Input::Model(ModelEvent::HangUp { response }));
    call.complete();
    call.start("goodbye", 3_000);
    assert!(!call.pass(3_000).contains(&Effect::HangUp));
    call.sent("goodbye", 3_000);
    call.moves(Acoustic::Suspected);
    assert!(!call.pass(1_000).contains(&Effect::HangUp), "something is heard of the caller");
    assert!(call.moves(Acoustic::Quiet).contains(&Effect::HangUp));
}

/// Something is offered that may be told although the caller speaks.
fn urgent_over_the_caller() -> Call {
    let mut call = Call::new();
    call.pass(5_000);
    call.moves(Acoustic::Suspected);
    call.moves(Acoustic::Speaking);
    let mut urgent = envelope(1);
    (urgent.priority, urgent.can_interrupt) = (Priority::Urgent, CanInterrupt::Caller);
    call.news(News::Offered(urgent));
    call
}

#[test]
fn an_urgent_announcement_over_the_caller_goes_on_when_the_turn_ends_and_is_told_to_the_model_as_far_as_it_is_heard() {
    let mut call = urgent_over_the_caller();
    call.claimed(1);
    call.start("closing 1", 2_000);
    call.pass(1_800);
    let closing = [("closing".to_owned(), Standing::Provisional)];
    assert_eq!(heard(&call.moves(Acoustic::Trailing)), closing);
    let effects = call.moves(Acoustic::Quiet);
    assert_eq!((clears(&effects), causes(&effects).len()), (0, 1));
    assert_eq!(heard(&effects), closing);
    let turn_open = |effect: &Effect| if let Effect::Decided(decision) = effect { Some(decision.snapshot.turn_open) } else { None };
    assert_eq!(call.offer(2).iter().find_map(turn_open), Some(false), "what sounds is not the response");
}

#[test]
fn a_model_is_given_up_when_it_is_silent_and_not_while_it_is_heard_of() {
    let mut call = Call::new();
    let response = call.turn();
    for text in ["one", "two", "three"] {
        assert_eq!(call.conversation.clocks().generation.map(|state| state < GenerationState::Complete), Some(true));
        call.pass(4_000);
        call.say(text);
    }
    let failed = |effects: &[Effect]| effects.contains(&Effect::CancelResponse { response });
    assert!(!failed(&call.pass(4_999)));
    assert!(failed(&call.pass(1)));
}

#[test]
fn the_voice_is_given_only_so_much_ahead() {
    let mut call = Call::new();
    call.turn();
    let texts: Vec<String> = (0..20).map(|number| format!("word {number}")).collect();
    texts.iter().for_each(|text| {
        call.say(text);
    });
    assert_eq!(call.given().len(), 16);
    call.play(&texts[0], 100);
    assert_eq!(call.given().len(), 17);
    let mut call = Call::new();
    call.turn();
    let texts: Vec<String> = (0..5).map(|number| format!("{number}{}", "x".repeat(124))).collect();
    texts.iter().for_each(|text| {
        call.say(text);
    });
    assert_eq!(call.given().len(), 2, "250 characters");
}

#[test]
fn a_segment_that_never_sounds_is_given_up_and_what_follows_is_said_anew() {
    let mut call = Call::new();
    call.turn();
    call.say("stuck");
    call.say("two");
    call.complete();
    assert_eq!(clears(&call.pass(5_999)), 0);
    assert_eq!(clears(&call.pass(1)), 1);
    assert_eq!(spoken(&call.cleared("stuck", None)), ["two"]);
}

#[test]
fn a_segment_whose_audio_can_not_be_made_is_skipped_and_one_that_is_refused_for_a_sound_is_said_anew() {
    let mut call = Call::new();
    call.turn();
    call.say("one");
    call.complete();
    let segment = call.segment("one");
    call.give(Input::Playback(PlaybackEvent::Failed { segment, reason: "no voice".into() }));
    let lost = Edge::Playback { playback: segment.playback, from: PlaybackState::Queued, to: PlaybackState::Lost };
    assert_eq!((call.edges.as_slice(), call.conversation.clocks().generation), (&[lost][..], None));
    let mut call = Call::new();
    call.turn();
    call.say("one");
    call.moves(Acoustic::Suspected);
    let segment = call.segment("one");
    call.give(Input::Playback(PlaybackEvent::Refused { segment, epoch: AcousticEpoch(5) }));
    assert_eq!(spoken(&call.moves(Acoustic::Quiet)), ["one"]);
}

#[test]
fn an_announcement_that_is_refused_for_a_sound_before_it_began_goes_back_and_one_that_has_begun_goes_on() {
    let mut call = Call::new();
    call.pass(5_000);
    call.offer(1);
    call.claimed(1);
    call.moves(Acoustic::Suspected);
    let segment = call.segment("closing 1");
    let effects = call.give(Input::Playback(PlaybackEvent::Refused { segment, epoch: AcousticEpoch(9) }));
    assert_eq!(clears(&effects), 1);
    assert_eq!(released(&call.cleared("closing 1", None)), [1], "no attempt is spent");
    let mut call = Call::new();
    call.pass(5_000);
    call.offer(1);
    let clauses = ["one", "two"].into_iter().zip(0..).map(|(text, clause)| SpokenClause { clause: Some(clause), text: text.into() });
    call.news(News::Claimed { delivery: recado_core::DeliveryId(1), clauses: clauses.collect() });
    call.start("one", 1_000);
    call.moves(Acoustic::Suspected);
    let segment = call.segment("two");
    assert_eq!(clears(&call.give(Input::Playback(PlaybackEvent::Refused { segment, epoch: AcousticEpoch(9) }))), 0);
    call.moves(Acoustic::Quiet);
    assert_eq!(call.given().iter().filter(|(_, text)| text == "two").count(), 2, "it is said anew");
}

#[test]
fn a_playback_whose_next_segment_is_long_in_coming_is_no_longer_playing() {
    let mut call = saying(&["one", "two"]);
    call.pass(2_000);
    call.sent("one", 2_000);
    call.pass(999);
    assert_eq!(call.conversation.clocks().playback, Some(PlaybackState::Playing));
    call.pass(1);
    assert_eq!(call.conversation.clocks().playback, Some(PlaybackState::Queued));
}

#[test]
fn a_false_start_pauses_and_goes_on_and_the_end_is_expected_so_much_later() {
    let mut call = saying(&["one"]);
    call.pass(1_000);
    call.moves(Acoustic::Suspected);
    let segment = call.segment("one");
    call.give(Input::Playback(PlaybackEvent::Paused { segment, released_ms: 1_000, at: Time(call.now) }));
    assert_eq!(call.conversation.clocks().playback, Some(PlaybackState::Paused));
    call.pass(1_000);
    let effects = call.moves(Acoustic::Quiet);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Resume { .. })));
    call.give(Input::Playback(PlaybackEvent::Resumed { segment, at: Time(call.now) }));
    assert_eq!(call.conversation.clocks().playback, Some(PlaybackState::Playing));
    assert_eq!(clears(&call.pass(1_999)), 0, "one second is left of it, and one more is allowed");
    assert_eq!(clears(&call.pass(1)), 1);
}

#[test]
fn what_a_wish_to_cancel_came_to_is_said_only_where_there_is_something_to_say_and_somebody_to_hear_it() {
    let cancelling = |say: &str| News::Cancelling(Cancellation { cancelling: vec![], ended: vec![], refused: vec![], say: say.into() });
    let mut call = Call::new();
    assert_eq!(spoken(&call.news(cancelling(""))), Vec::<String>::new());
    assert_eq!(spoken(&call.news(cancelling("I'm trying"))), ["I'm trying"]);
    call.give(Input::ChannelOver);
    assert_eq!(spoken(&call.news(cancelling("I'm trying"))), Vec::<String>::new());
}

#[test]
fn keys_are_collected_as_long_as_something_is_going_on_and_end_with_a_pause() {
    let collecting = || {
        let mut call = Call::new();
        let response = call.turn();
        call.give(Input::Model(ModelEvent::CollectDigits { response, digits_max: 8, end: Some('#'), wait_ms: 2_000 }));
        call
    };
    let digits = |digits: &str, effects: &[Effect]| {
        causes(effects).iter().any(|cause| matches!(cause, Cause::Digits { digits: collected, complete: false, .. } if collected == digits))
    };
    let mut call = collecting();
    assert!(!digits("", &call.pass(4_000)), "the model has not ended");
    call.say("your number");
    call.complete();
    call.start("your number", 4_000);
    assert!(!digits("", &call.pass(4_000)), "it is being said");
    call.sent("your number", 4_000);
    call.give(Input::Hold(true));
    assert!(!digits("", &call.pass(4_000)), "on hold");
    call.give(Input::Hold(false));
    call.give(Input::Digit('4'));
    assert!(!digits("4", &call.pass(1_999)));
    assert!(digits("4", &call.pass(1)));
    let mut call = collecting();
    call.complete();
    call.moves(Acoustic::Suspected);
    call.moves(Acoustic::Speaking);
    call.pass(4_000);
    assert_eq!(causes(&call.give(Input::Digit('4'))), [], "the caller talks and keys: it is still collected");
}

#[test]
fn news_of_progress_waits_a_little_for_quiet_and_each_piece_for_itself() {
    let update = |number, min_quiet_ms| {
        let mut progress = envelope(number);
        (progress.kind, progress.min_quiet_ms) = (recado_core::ledger::DeliveryKind::Progress, min_quiet_ms);
        News::Update { envelope: progress, text: format!("progress {number}") }
    };
    let decided = |effects: &[Effect]| -> Vec<_> {
        let of = |effect: &Effect| if let Effect::Decided(decision) = effect { Some((decision.delivery.0, decision.answer)) } else { None };
        effects.iter().filter_map(of).collect()
    };
    let mut call = Call::new();
    for number in [1, 2] {
        call.news(update(number, None));
    }
    call.news(News::Withdrawn { delivery: recado_core::DeliveryId(2) });
    assert_eq!(spoken(&call.pass(1_499)), Vec::<String>::new());
    assert_eq!(spoken(&call.pass(1)), ["progress 1"]);
    let mut call = Call::with(|settings| settings.timers = timers(Timer::ProgressMax, 4_000));
    call.news(update(1, Some(6_000)));
    assert_eq!(decided(&call.pass(3_999)), []);
    assert_eq!(decided(&call.pass(1)), [(1, recado_core::gate::DeliveryDecision::Drop)], "its moment has passed");
}

#[test]
fn what_a_machine_hears_counts_for_nothing_and_what_must_be_heard_for_certain_is_in_doubt_without_a_report() {
    let mut call = Call::new();
    call.turn();
    call.say("one");
    call.complete();
    call.start("one", 1_000);
    call.pass(1_000);
    call.give(Input::Voicemail);
    assert_eq!(doubts(&call.sent("one", 1_000)), [Doubt::Voicemail]);
    for (strict, expected) in [(true, vec![Doubt::NotBest]), (false, vec![])] {
        let mut call = Call::new();
        call.pass(5_000);
        let mut closing = envelope(1);
        closing.strict = strict;
        call.news(News::Offered(closing));
        call.claimed(1);
        call.play("closing 1", 1_000);
        assert_eq!(doubts(&call.pass(20_000)), expected);
    }
}

#[test]
fn what_was_on_its_way_when_the_call_was_put_on_hold_is_in_doubt_without_a_report() {
    let mut call = saying(&["one"]);
    call.pass(2_000);
    call.sent("one", 2_000);
    call.pass(BUFFER - 1);
    call.give(Input::Hold(true));
    assert_eq!(doubts(&call.pass(20_000)), [Doubt::LeftTooLate]);
}

#[test]
fn nothing_overtakes_a_segment_that_may_still_be_refused() {
    let mut call = Call::new();
    call.turn();
    call.say("one");
    call.moves(Acoustic::Suspected);
    call.moves(Acoustic::Quiet);
    assert_eq!(spoken(&call.say("two")), Vec::<String>::new(), "the first was given before the sound");
    assert_eq!(spoken(&call.start("one", 1_000)), ["two"]);
}

#[test]
fn nothing_is_given_to_the_voice_on_hold_and_after_the_end() {
    let mut call = Call::new();
    call.turn();
    call.give(Input::Hold(true));
    assert_eq!(spoken(&call.say("one")), Vec::<String>::new());
    assert_eq!(spoken(&call.give(Input::Hold(false))), ["one"]);
    call.give(Input::ChannelOver);
    assert_eq!(spoken(&call.say("two")), Vec::<String>::new());
}

/// What the model is told that was heard of a response that was cut.
fn truncated(effects: &[Effect]) -> Vec<(ResponseId, u64, &str)> {
    let of = |effect| match effect {
        &Effect::Truncate { response, heard_ms, ref heard_text } => Some((response, heard_ms, heard_text.as_str())),
        _ => None,
    };
    effects.iter().filter_map(of).collect()
}

/// A response was cut in the middle by something that turns out to have been noise while the answer to that is being said.
fn cut_by_noise() -> (Call, ResponseId) {
    let mut call = saying(&["one two three four", "five"]);
    let response = call.response();
    call.pass(1_200);
    call.moves(Acoustic::Suspected);
    call.moves(Acoustic::Speaking);
    assert_eq!(truncated(&call.cleared("one two three four", Some(1_200))), [(response, 1_000, "one two")]);
    call.moves(Acoustic::Trailing);
    call.moves(Acoustic::Quiet);
    call.say("pardon");
    call.start("pardon", 1_000);
    let turn = call.conversation.turn();
    let effects = call.give(Input::Model(ModelEvent::TurnWasNoise { turn }));
    assert_eq!(spoken(&effects), Vec::<String>::new(), "not into another response");
    call.pass(1_000);
    assert_eq!(spoken(&call.sent("pardon", 1_000)), ["three four", "five"]);
    (call, response)
}

#[test]
fn what_noise_had_cut_goes_on_after_what_is_being_said_and_to_its_end_before_anything_else() {
    let (mut call, _) = cut_by_noise();
    assert_eq!(spoken(&call.say("and then")), Vec::<String>::new());
    assert_eq!(spoken(&call.play("three four", 1_000)), Vec::<String>::new());
    assert_eq!(spoken(&call.play("five", 500)), ["and then"]);
}

#[test]
fn a_response_that_is_cut_again_after_noise_is_known_with_all_that_was_heard_of_it() {
    let (mut call, response) = cut_by_noise();
    call.start("three four", 1_000);
    call.pass(700);
    call.moves(Acoustic::Suspected);
    call.moves(Acoustic::Speaking);
    assert_eq!(truncated(&call.cleared("three four", Some(700))), [(response, 1_500, "one two three")]);
}

#[test]
fn what_was_said_of_a_response_before_the_cut_counts_and_what_could_not_be_said_does_not() {
    let mut call = Call::new();
    let response = call.turn();
    call.say("one");
    call.say("lost");
    let segment = call.segment("lost");
    call.give(Input::Playback(PlaybackEvent::Ready { segment, duration_ms: 800, words: vec![], near_silent: false }));
    call.give(Input::Playback(PlaybackEvent::Failed { segment, reason: "no room".into() }));
    call.play("one", 1_000);
    call.say("two three four");
    call.start("two three four", 1_000);
    call.pass(700);
    call.moves(Acoustic::Suspected);
    call.moves(Acoustic::Speaking);
    assert_eq!(truncated(&call.cleared("two three four", Some(700))), [(response, 1_500, "one two")]);
}

#[test]
fn a_response_that_says_more_than_is_listened_to_is_known_by_what_was_said_of_it() {
    let mut call = Call::new();
    let response = call.turn();
    let mut effects = Vec::new();
    for n in 0..2_000 {
        effects.extend(call.say(&n.to_string()));
    }
    let cancelled = |effect: &&Effect| **effect == Effect::CancelResponse { response };
    assert_eq!(effects.iter().filter(cancelled).count(), 1);
    let mut said = 0;
    while let Some((_, text)) = call.given().get(said).cloned() {
        effects.extend(call.play(&text, 400));
        said += 1;
    }
    // Pieces of a model's own speech are 400 ms, and services make up to three and a half minutes of it.
    assert!((525..2_000).contains(&said), "{said}");
    let heard: Vec<String> = (0..said).map(|n| n.to_string()).collect();
    assert_eq!(truncated(&effects), [(response, said as u64 * 400, heard.join(" ").as_str())]);
}

#[test]
fn a_response_that_falls_silent_after_its_words_is_known_by_them() {
    let mut call = Call::new();
    let response = call.turn();
    call.say("one");
    let mut effects = call.play("one", 1_000);
    effects.extend(call.pass(10_000));
    assert_eq!(truncated(&effects), [(response, 1_000, "one")]);
}

#[test]
fn a_playback_finishes_on_its_own_evidence_though_that_of_another_is_still_to_come() {
    let mut call = saying(&["one"]);
    call.pass(2_000);
    call.sent("one", 2_000);
    call.turn();
    call.say("two");
    call.complete();
    call.play("two", 1_000);
    let playback = call.segment("one").playback;
    let (generation, highest_packet, at) = (Generation(0), 100, Time(call.now));
    call.give(Input::Playback(PlaybackEvent::Report { generation, highest_packet, cumulative_lost: 0, at }));
    let finished = PlaybackState::Finished { heard_ms: 2_000 };
    assert_eq!(call.edges, [Edge::Playback { playback, from: PlaybackState::Drained, to: finished }]);
    assert_eq!(call.conversation.clocks().playback, Some(PlaybackState::Drained), "the other one");
}

#[test]
fn each_clause_of_an_announcement_over_the_caller_is_told_to_the_model_once() {
    let mut call = urgent_over_the_caller();
    let clauses = ["one two", "three four"].into_iter().zip(0..);
    let clauses = clauses.map(|(text, clause)| SpokenClause { clause: Some(clause), text: text.into() });
    call.news(News::Claimed { delivery: DeliveryId(1), clauses: clauses.collect() });
    call.play("one two", 1_000);
    call.start("three four", 1_000);
    call.pass(700);
    let told = ["one two", "three"].map(|text| (text.to_owned(), Standing::Provisional));
    assert_eq!(heard(&call.moves(Acoustic::Trailing)), told);
    call.pass(500);
    assert_eq!(heard(&call.moves(Acoustic::Quiet)), told[1..], "what still sounds is told again, and not what has been said");
}

/// A reply of one clause, all of which has left the box and that the far end has not reported on.
fn said_and_not_reported() -> Call {
    let mut call = saying(&["one"]);
    call.pass(2_000);
    call.sent("one", 2_000);
    call.pass(1_000);
    call
}

#[test]
fn what_was_heard_is_told_in_the_pause_and_the_request_for_an_answer_adds_nothing_to_it() {
    let told = [("one".to_owned(), Standing::Provisional)];
    let mut call = said_and_not_reported();
    for to in [Acoustic::Suspected, Acoustic::Speaking] {
        assert_eq!(heard(&call.moves(to)), []);
        call.pass(300);
    }
    assert_eq!(heard(&call.moves(Acoustic::Trailing)), told, "the turn may be over: an answer may be begun");
    call.pass(600);
    let effects = call.moves(Acoustic::Quiet);
    assert_eq!((heard(&effects), causes(&effects).len()), (vec![], 1), "it knows what one that was begun knows");

    // It is told once, however often the caller pauses, and what is settled meanwhile is settled.
    let mut call = said_and_not_reported();
    for to in [Acoustic::Suspected, Acoustic::Speaking] {
        call.moves(to);
    }
    assert_eq!(heard(&call.moves(Acoustic::Trailing)), told);
    call.moves(Acoustic::Speaking);
    assert_eq!(heard(&call.moves(Acoustic::Trailing)), []);
    assert_eq!(heard(&call.report()), [("one".to_owned(), Standing::Settled(Evidence::Received))]);
    assert_eq!(heard(&call.moves(Acoustic::Quiet)), []);

    // A pause whose beginning was coalesced away is one too.
    let mut call = said_and_not_reported();
    assert_eq!(heard(&call.moves(Acoustic::Trailing)), told);
}

#[test]
fn a_clause_that_waits_for_evidence_behind_too_much_else_is_in_doubt_and_not_forgotten() {
    let mut call = Call::new();
    call.pass(5_000);
    call.offer(1);
    call.claimed(1);
    call.play("closing 1", 20);
    call.turn();
    let settled = |effects: &[Effect]| -> Vec<Vec<ClauseEvidence>> {
        let of = |input| if let ledger::Input::Settled { clauses, .. } = input { Some(clauses) } else { None };
        asked(effects).into_iter().filter_map(of).collect()
    };
    let mut say = |number: u32| {
        let text = format!("word {number}");
        call.say(&text);
        settled(&call.play(&text, 20))
    };
    assert!((1..256).all(|number| say(number).is_empty()));
    assert_eq!(say(256), [[ClauseEvidence { clause: 0, verdict: ClauseVerdict::Uncertain }]]);
}

#[test]
fn what_is_reported_counts_once_the_far_end_has_played_it() {
    let mut call = saying(&["one"]);
    call.pass(2_000);
    call.sent("one", 2_000);
    assert_eq!(call.report(), [], "it may still lie in the jitter buffer");
    assert_eq!(call.pass(BUFFER - 1), []);
    assert_eq!(heard(&call.pass(1)), [("one".to_owned(), Standing::Settled(Evidence::Received))]);
}

#[test]
fn what_lay_in_the_jitter_buffer_when_the_call_ended_or_was_put_on_hold_is_in_doubt_whatever_is_reported() {
    for end in [Input::ChannelOver, Input::Hold(true)] {
        for (played_ms, standing) in [(BUFFER - 1, Standing::Uncertain), (BUFFER, Standing::Settled(Evidence::Received))] {
            for reported_before in [false, true] {
                let mut call = saying(&["one"]);
                call.pass(2_000);
                call.sent("one", 2_000);
                let mut effects = if reported_before { call.report() } else { vec![] };
                effects.extend(call.pass(played_ms));
                effects.extend(call.give(end.clone()));
                // With its goodbye, say.
                effects.extend(call.report());
                assert_eq!(heard(&effects), [("one".to_owned(), standing)], "{end:?} after {played_ms} ms, {reported_before}");
                let too_late = |effect: &Effect| matches!(effect, Effect::Doubted { doubt: Doubt::LeftTooLate, .. });
                assert_eq!(effects.iter().any(too_late), standing == Standing::Uncertain);
            }
        }
    }
}

#[test]
fn keys_that_are_being_collected_are_counted_and_not_shown_to_who_looks_at_the_conversation() {
    let mut call = Call::new();
    let response = call.turn();
    call.give(Input::Model(ModelEvent::CollectDigits { response, digits_max: 12, end: Some('#'), wait_ms: 2_000 }));
    call.complete();
    "739146280".chars().for_each(|key| {
        call.give(Input::Digit(key));
    });
    let shown = format!("{:?}", call.conversation);
    assert!(shown.contains("Collecting { 9 of 12 }") && !shown.contains("739146280"), "{shown}");
}

#[test]
fn the_batch_of_a_response_that_goes_on_is_sealed_when_it_has_not_asked_for_more_for_a_while() {
    let mut call = Call::new();
    let response = call.turn();
    let seals = |effects: &[Effect]| -> Vec<ResponseId> {
        let asked = asked(effects).into_iter();
        asked.filter_map(|input| if let ledger::Input::Seal { response, .. } = input { Some(response) } else { None }).collect()
    };
    call.call_tool("one");
    let goes_on = |call: &mut Call, ms: u64| -> Vec<ResponseId> {
        let said: Vec<ResponseId> =
            (0..ms / 1_000).flat_map(|_| [call.say("and so on"), call.pass(1_000)]).flat_map(|effects| seals(&effects)).collect();
        said
    };
    assert!(goes_on(&mut call, 6_000).is_empty(), "it may ask for more");
    call.call_tool("two");
    assert!(goes_on(&mut call, 9_000).is_empty(), "that is of the same batch");
    assert_eq!(goes_on(&mut call, 1_000), [response]);
    assert!(goes_on(&mut call, 20_000).is_empty(), "it is sealed once");
    call.call_tool("three");
    assert_eq!(seals(&call.complete()), [response], "what it asks for later is sealed at its end");
}
