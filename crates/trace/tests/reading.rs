//! Traces in every state that a file can be in, and what a replay says when today's code decides otherwise.

use recado_core::conversation::{Acoustic, Channel, Evidence, Settings};
use recado_core::ids::{BootId, SessionId};
use recado_core::policy::Language;
use recado_core::time::{Step, Time, Wall};
use recado_core::{PartyId, conversation::Conversation, conversation::Input};
use recado_trace::read::Ends;
use recado_trace::redact::Key;
use recado_trace::replay::{Difference, ReplayError};
use recado_trace::story::Story;
use recado_trace::subject::ConversationStart;
use recado_trace::{Mode, Moment, Redactor, Scribe, Subject, SubjectKind, Taken, Trace, TraceError, Verdict, record, replay};

/// The trace of a short call: greeted, on hold for a while, over.
fn short_call(mode: Mode) -> String {
    let step =
        |now: u64| Step::new(Time(now), Wall { unix_ms: 1_700_000_000_000 + now as i64, synchronised: true }, u128::from(now + 1) << 64);
    let start = ConversationStart {
        settings: Settings::default(),
        channel: Channel {
            session: SessionId(7),
            party: Some(PartyId("box/612345678".into())),
            language: Language::Es,
            best: Evidence::Received,
            far_buffer_ms: 120,
        },
    };
    let mut first = step(100);
    let (moment, json) = (Moment::of(&first), record::json(&start).unwrap());
    let (mut conversation, effects) = <Conversation as Subject>::begin(&mut first, start);
    let redactor = Redactor::of(Key::derive(&[3; 32]), []);
    let mut scribe = Scribe::new(SubjectKind::Conversation, BootId(1), "0.0.1", mode, redactor, moment);
    let mut text = scribe.begin::<Conversation>(&Taken::of(&conversation, moment, json, &effects).unwrap()).unwrap();
    let inputs =
        [(200, Input::Hold(true)), (900, Input::Hold(false)), (950, Input::Digit('7')), (1_000, Input::ChannelOver), (2_000, Input::Wake)];
    for (now, input) in inputs {
        let mut step = step(now);
        let (moment, json) = (Moment::of(&step), record::json(&input).unwrap());
        let effects = conversation.handle(&mut step, input);
        text += &scribe.entry(&Taken::of(&conversation, moment.handled(&step), json, &effects).unwrap()).unwrap();
    }
    text
}

#[test]
fn a_whole_trace_decides_the_same_redacted_and_in_full() {
    for mode in [Mode::Redacted, Mode::Full] {
        let text = short_call(mode);
        assert_eq!(text.contains("612345678"), mode == Mode::Full, "{text}");
        let trace = Trace::read(&text).unwrap();
        assert_eq!(trace.ends, Ends::Open);
        assert_eq!(replay(&trace), Ok(Verdict::Same { inputs: 6, missed: None }));
        let ended = Trace::read(&(text + "{\"end\":true}\n")).unwrap();
        assert_eq!(ended.ends, Ends::Whole);
    }
}

#[test]
fn where_it_decides_otherwise_is_said_with_what_it_does_today() {
    let text = short_call(Mode::Redacted);
    // As if the code of then had done something else about the key.
    let lines: Vec<&str> = text.lines().collect();
    let digest = lines[3].split("\"d\":\"").nth(1).unwrap().split('"').next().unwrap();
    let trace = Trace::read(&text.replace(digest, "0123456789abcdef")).unwrap();
    let Ok(Verdict::Differs(difference)) = replay(&trace) else { panic!("it differs") };
    let Difference { input, at_ms, told, then, kinds, effects, deadlines } = *difference;
    assert_eq!((input, at_ms, told.as_deref(), deadlines), (3, 850, Some("{\"Digit\":\"0\"}"), None));
    assert_eq!((then.digest.as_str(), &then.kinds), ("0123456789abcdef", &kinds));
    assert!(effects.iter().any(|effect| effect.starts_with("{\"Respond\"")), "{effects:?}");
}

#[test]
fn another_deadline_is_another_decision() {
    let text = short_call(Mode::Redacted);
    let first = text.lines().next().unwrap();
    let deadline = first.split("\"z\":").nth(1).unwrap().split([',', '}']).next().unwrap();
    let trace = Trace::read(&text.replacen(&format!("\"z\":{deadline}"), "\"z\":77", 1)).unwrap();
    let Ok(Verdict::Differs(difference)) = replay(&trace) else { panic!("it differs") };
    assert_eq!(difference.deadlines, Some((Some(Time(77)), Some(Time(deadline.parse().unwrap())))));
}

#[test]
fn what_a_power_cut_leaves_is_read_up_to_there() {
    let text = short_call(Mode::Redacted);
    for cut in [text.len() - 1, text.len() - 20] {
        let trace = Trace::read(&text[..cut]).unwrap();
        let (ends, entries) = if cut == text.len() - 1 { (Ends::Open, 5) } else { (Ends::Torn, 4) };
        assert_eq!((trace.ends, trace.entries.len()), (ends, entries));
        assert_eq!(replay(&trace), Ok(Verdict::Same { inputs: entries + 1, missed: None }));
    }
    let zeroes = format!("{}\0\0\0\0", &text[..text.len() - 20]);
    assert_eq!(Trace::read(&zeroes).unwrap().ends, Ends::Torn);
}

#[test]
fn a_replay_ends_where_inputs_are_missing_and_a_drawing_does_not() {
    let text = short_call(Mode::Redacted);
    let mut lines: Vec<String> = text.lines().map(|line| format!("{line}\n")).collect();
    lines[2] = "{\"missed\":1}\n".to_owned();
    let trace = Trace::read(&lines.concat()).unwrap();
    assert_eq!(replay(&trace), Ok(Verdict::Same { inputs: 2, missed: Some(1) }));
    let story = Story::of(&trace, None).unwrap();
    assert_eq!((story.from, story.to, story.over), (Time(100), Time(2_000), Some(Time(1_000))));
    assert!(story.caller.iter().all(|span| span.what == Acoustic::Quiet), "{:?}", story.caller);
}

#[test]
fn what_is_no_trace_or_a_damaged_or_newer_one_is_told_apart() {
    let text = short_call(Mode::Redacted);
    assert_eq!(Trace::read(""), Err(TraceError::Empty));
    assert_eq!(Trace::read("\0\0\0"), Err(TraceError::Empty));
    assert_eq!(Trace::read("INVITE sip:box SIP/2.0\r\n"), Err(TraceError::Foreign));
    assert_eq!(Trace::read("{\"some\":\"json\"}\n"), Err(TraceError::Foreign));
    let newer = text.replacen("\"recado_trace\":1", "\"recado_trace\":9", 1);
    assert_eq!(Trace::read(&newer), Err(TraceError::Newer { format: 9 }));
    let lines: Vec<&str> = text.lines().collect();
    let damaged = [lines[0], "{\"t\":1,\"i\":", lines[2], ""].join("\n");
    assert!(matches!(Trace::read(&damaged), Err(TraceError::Damaged { line: 2, .. })));
    let of_another_form = text.replace("\"Hold\":true", "\"Hold\":\"please\"");
    let trace = Trace::read(&of_another_form).unwrap();
    let Err(ReplayError::Form { what, version, .. }) = replay(&trace) else { panic!("it can't be replayed") };
    assert_eq!((what.as_str(), version.as_str()), ("input 1", "0.0.1"));
    let without_beginning = Trace::read(&text.replacen("\"begin\"", "\"begun\"", 1)).unwrap();
    assert_eq!(replay(&without_beginning), Err(ReplayError::NoBeginning { part: 0 }));
}

#[test]
fn whatever_stands_in_a_file_nothing_panics() {
    let text = short_call(Mode::Redacted);
    let mut seed = 1_u64;
    for _ in 0..2_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut bytes = text.clone().into_bytes();
        let at = (seed >> 33) as usize % bytes.len();
        match seed % 3 {
            0 => bytes[at] = (seed >> 25) as u8,
            1 => bytes.truncate(at),
            _ => drop(bytes.drain(at..(at + 9).min(text.len()))),
        }
        if let Ok(trace) = Trace::read(&String::from_utf8_lossy(&bytes)) {
            let _ = replay(&trace);
            let _ = Story::of(&trace, None);
        }
    }
}
