//! A script: what a box is set up with and what happens to it, drawn from a seed before anything is played. A failure is then a
//! list to cut.
//!
//! Not only what happens is drawn, but also how likely each kind of thing is (swarm testing: Groce et al., ISSTA 2012): a box in
//! which nobody ever hangs up goes to places that one in which everything happens never sees.

use recado_core::conversation::VerificationOutcome;
use recado_core::timers::{Timer, Timers};
use serde::{Deserialize, Serialize};

use crate::action::{Action, Answered, CancelAnswered, Event, HandOffAnswered, InquiryAnswered};
use crate::random::Random;
use crate::voice::Line;
use crate::world::TOOLS;

/// What a simulated box is set up with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// How long an event takes from the media path to the conversation, and a command back (ms).
    pub link_ms: u64,
    /// The network, and the far end's jitter buffer.
    pub line: Line,
    /// After so much silence the model is asked whether it has something to say (ms); never where there is none.
    pub silence_ms: Option<u64>,
    /// The conversations' timers.
    pub timers: Timers,
    /// How long rendering a segment takes at first (ms).
    pub render_ms: u64,
    /// How long a commit takes at first (ms).
    pub store_delay_ms: u64,
    /// Whether far ends report at first.
    pub rtcp: bool,
    /// After how long the model answers by itself (ms); where there is none, only when the script says so.
    pub answer_after_ms: Option<u64>,
    /// After how long a tool does what it was asked by itself (ms); where there is none, only when the script says so.
    pub report_after_ms: Option<u64>,
    /// Whether the channels have marks. Nothing is lost on those.
    #[serde(default)]
    pub marks: bool,
    /// For how long the store keeps what is over (ms); where there is none, it removes only what the script says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_ms: Option<u32>,
}

impl Default for Parameters {
    /// Where nothing is odd.
    fn default() -> Self {
        Self {
            link_ms: 0,
            line: Line::default(),
            silence_ms: None,
            timers: Timers::default(),
            render_ms: 30,
            store_delay_ms: 3,
            rtcp: true,
            answer_after_ms: None,
            report_after_ms: None,
            marks: false,
            keep_ms: None,
        }
    }
}

/// A box, and what happens to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// What the box is set up with.
    pub parameters: Parameters,
    /// What happens, in the order of time.
    pub events: Vec<Event>,
}

impl Script {
    /// The script of a seed.
    pub fn of_seed(seed: u64) -> Self {
        let random = &mut Random::new(seed);
        let parameters = parameters(random);
        let weights = weights(random);
        let tools = its_tools(random);
        let total: u64 = weights.iter().sum();
        let short_gaps = random.pick(&[20, 50, 80]);
        let length = random.pick(&[8, 15, 25, 25, 40, 60]);
        let mut at_ms = 0;
        let mut events = vec![Event { at_ms, action: Action::Dial { party: 0 } }];
        for _ in 0..length {
            at_ms += if random.chance(short_gaps) { random.between(1, 400) } else { random.between(400, 6_000) };
            events.push(Event { at_ms, action: action(random, &weights, total, &tools) });
        }
        Self { parameters, events }
    }
}

fn parameters(random: &mut Random) -> Parameters {
    let often = random.chance(60);
    let marks = random.chance(15);
    let mut line = line(random);
    if marks {
        (line.lost, line.repeated, line.overtaken, line.jitter_ms) = (0, 0, 0, 0);
    }
    Parameters {
        link_ms: random.pick(&[0, 0, 3, 35]),
        line,
        marks,
        silence_ms: random.pick(&[None, None, None, Some(9_000)]),
        timers: timers(random),
        render_ms: random.pick(&[30, 30, 0, 400]),
        store_delay_ms: random.pick(&[3, 3, 0, 40, 300]),
        rtcp: random.chance(80),
        answer_after_ms: if often { Some(random.pick(&[150, 600, 2_500])) } else { None },
        report_after_ms: random.pick(&[None, None, Some(300), Some(4_000)]),
        // Nothing of a box may hang on how long what is over is kept.
        keep_ms: random.pick(&[None, None, Some(0), Some(10_000)]),
    }
}

/// Some timers are longer or shorter than by default: nothing that is promised may hang on their exact length. Not all may be both:
/// what the listener retracts must still be suspected then, and a second is promised for what plays without frames (I20).
fn timers(random: &mut Random) -> Timers {
    let mut timers = Timers::default();
    for _ in 0..random.pick(&[0, 0, 1, 3]) {
        let timer = random.pick(Timer::ALL);
        let ms = timer.default_ms();
        let (shorter, longer) = match timer {
            Timer::SuspectedMax | Timer::ClearMax | Timer::EvidenceLateMax => (ms, ms * 2),
            Timer::PlaybackStalledMax => (ms / 2, ms),
            _ => (ms / 2, ms * 3),
        };
        timers = timers.with(timer, random.pick(&[shorter, longer]));
    }
    timers
}

/// Lines from which word of a frame that was played out comes back within what the box takes for the far end's buffer.
fn line(random: &mut Random) -> Line {
    let even = Line { seed: random.draw(), delay_ms: random.below(25), buffer_ms: random.below(40), ..Line::default() };
    match random.below(5) {
        0 => Line::default(),
        1 | 2 => even,
        _ => Line {
            delay_ms: even.delay_ms / 2,
            buffer_ms: even.buffer_ms / 2,
            jitter_ms: random.below(12),
            lost: random.pick(&[0, 5, 20, 39]),
            repeated: random.pick(&[0, 5]),
            overtaken: random.pick(&[0, 20]),
            reports_lost: random.pick(&[0, 50, 300]),
            ..even
        },
    }
}

/// A kind of thing that happens: how likely it is, and how one of it is drawn.
type Kind = (u64, fn(&mut Random, &[u8]) -> Action);

/// Everything that happens.
const KINDS: [Kind; 50] = [
    (24, |random, _| Action::Speak { call: call(random), ms: random.between(200, 3_000) }),
    (4, |random, _| Action::SpeakOn { call: call(random) }),
    (10, |random, _| Action::Cough { call: call(random), ms: random.pick(&[300, 60, 900, 1_000]) }),
    (2, |random, _| Action::Digit { call: call(random) }),
    (2, |random, _| Action::Hold { call: call(random), on: random.chance(60) }),
    (2, |random, _| Action::Floor { call: call(random), on: random.chance(60) }),
    (4, |random, _| Action::HangUp { call: call(random) }),
    (8, |random, _| Action::Dial { party: random.pick(&[0, 0, 0, 1, 2]) }),
    (8, |random, _| Action::Renegotiate { call: call(random) }),
    (30, |random, tools| Action::Answer { call: call(random), clauses: random.byte(0, 3), tools: some_tools(random, tools) }),
    (10, |random, _| Action::Clause { call: call(random), of: of(random), long: random.chance(50) }),
    (6, |random, _| Action::Silence { call: call(random), of: of(random), pieces: random.pick(&[1, 4, 60]) }),
    (2, |random, tools| Action::Lie { call: call(random), tool: tool(random, tools) }),
    (10, |random, tools| Action::Ask {
        call: call(random),
        of: of(random),
        tool: tool(random, tools),
        argument: random.byte(0, 2),
        same_id: random.chance(50),
        note: random.pick(&[0, 0, 0, 1, 2]),
        confirmed: random.chance(30),
    }),
    (8, |random, _| Action::Complete { call: call(random), of: of(random) }),
    (4, |random, _| Action::Fail { call: call(random), of: of(random) }),
    (8, |random, _| Action::Goodbye { call: call(random) }),
    (4, |random, tools| Action::Cancel { call: call(random), tool: if random.chance(50) { Some(tool(random, tools)) } else { None } }),
    (2, |random, _| Action::Noise { call: call(random) }),
    (24, |random, _| Action::Report { which: random.byte(0, 255), how: Answered::Done, again: random.chance(20) }),
    (5, |random, _| Action::Report { which: random.byte(0, 255), how: Answered::Deferred, again: random.chance(20) }),
    (5, |random, _| Action::Report { which: random.byte(0, 255), how: Answered::NotDone, again: random.chance(20) }),
    (5, |random, _| Action::Report { which: random.byte(0, 255), how: Answered::Maybe, again: random.chance(20) }),
    (3, |random, _| Action::Report { which: random.byte(0, 255), how: Answered::Refused, again: random.chance(20) }),
    (6, |random, _| Action::Callback { which: random.byte(0, 255), done: random.chance(66), value: random.byte(0, 1) }),
    (2, |random, _| Action::Render { call: call(random), ms: random.pick(&[0, 30, 400, 3_000, 9_000]) }),
    (4, |random, _| match random.below(3) {
        0 => Action::Mute { call: call(random), segments: random.pick(&[1, 2]) },
        1 => Action::Stall { call: call(random), ms: random.between(100, 8_000) },
        _ => Action::ReportLate { call: call(random), ms: random.between(100, 20_000) },
    }),
    (2, |random, _| Action::Rtcp { call: call(random), on: random.chance(50) }),
    (4, |random, _| Action::Lose { call: call(random), frames: random.between(1, 200) }),
    (3, |random, _| Action::CutOff { call: call(random), on: random.chance(40) }),
    (3, |random, _| match random.below(2) {
        0 => Action::StoreDelay { ms: random.pick(&[0, 3, 300, 4_000, 7_000]) },
        _ => Action::StoreFails { on: random.chance(50) },
    }),
    (1, |random, _| Action::Clock { ms: random.pick(&[0, 3_600_000, 40_000, -40_000, -3_600_000]), synchronised: random.chance(60) }),
    (2, |random, _| Action::Crash { kept: random.pick(&[0, 1, 2, 255]) }),
    // The same again, or nearly so.
    (8, |random, tools| Action::Ask {
        call: call(random),
        of: 0,
        tool: tool(random, tools),
        argument: 0,
        same_id: false,
        note: random.byte(0, 2),
        confirmed: random.chance(50),
    }),
    (8, |random, _| Action::CancelAnswer { which: random.byte(0, 255), how: cancel_answered(random), again: random.chance(15) }),
    (6, |random, _| Action::HandOffAnswer {
        which: random.byte(0, 255),
        how: random.pick(&[HandOffAnswered::Acknowledged, HandOffAnswered::Refused, HandOffAnswered::Lost]),
    }),
    (10, |random, _| Action::Progress { which: random.byte(0, 255) }),
    (3, |random, _| Action::Retract { which: random.byte(0, 255) }),
    (3, |random, _| Action::Identify { call: call(random), level: random.pick(&[0, 1, 2, 2]) }),
    (1, |random, _| Action::Voicemail { call: call(random) }),
    (2, |random, _| Action::Collect { call: call(random), of: of(random), digits: random.byte(1, 4) }),
    (2, |random, _| Action::Hash { call: call(random) }),
    (2, |random, _| Action::FalseMark { call: call(random), sent: random.chance(75) }),
    (5, |random, _| Action::Remove { age_ms: random.pick(&[0, 0, 2_000, 20_000, 3_600_000]) }),
    (4, |random, _| Action::Chime { call: call(random) }),
    (5, |random, _| Action::Report { which: random.byte(0, 255), how: Answered::Taken, again: random.chance(20) }),
    (5, |random, _| Action::Report { which: random.byte(0, 255), how: Answered::Unreachable, again: random.chance(20) }),
    (8, |random, _| Action::InquiryAnswer { which: random.byte(0, 255), how: inquiry_answered(random), again: random.chance(15) }),
    (5, |random, _| Action::Pin { call: call(random), keys: random.byte(0, 6) }),
    (8, |random, _| Action::Verdict { call: call(random), how: verdict(random), again: random.chance(15) }),
];

/// How likely each kind of thing is in this script: some never happen, others all the time.
fn weights(random: &mut Random) -> [u64; KINDS.len()] {
    KINDS.map(|(weight, _)| weight * random.pick(&[0, 1, 1, 1, 1, 1, 3, 8]))
}

fn action(random: &mut Random, weights: &[u64], total: u64, tools: &[u8]) -> Action {
    let mut left = random.below(total);
    for (weight, (_, draw)) in weights.iter().zip(KINDS) {
        if left < *weight {
            return draw(random, tools);
        }
        left -= weight;
    }
    Action::Speak { call: 0, ms: 400 }
}

fn call(random: &mut Random) -> u8 {
    random.pick(&[0, 0, 1])
}

/// Mostly of the latest response.
fn of(random: &mut Random) -> u8 {
    random.pick(&[0, 0, 0, 0, 0, 0, 1])
}

/// The tools of this script: often only a few, so that the same things are asked for again.
fn its_tools(random: &mut Random) -> Vec<u8> {
    let all = 0..u8::try_from(TOOLS.len()).unwrap_or(u8::MAX);
    let few: Vec<u8> = (0..random.pick(&[1, 2, 4, 4, 0])).map(|_| random.byte(0, all.end - 1)).collect();
    if few.is_empty() { all.collect() } else { few }
}

fn tool(random: &mut Random, tools: &[u8]) -> u8 {
    random.pick(tools)
}

fn some_tools(random: &mut Random, tools: &[u8]) -> Vec<u8> {
    (0..random.below(3)).map(|_| tool(random, tools)).collect()
}

/// Mostly that it is the party, or not.
fn verdict(random: &mut Random) -> VerificationOutcome {
    use VerificationOutcome::{Locked, NotVerified, Unavailable, Verified};
    random.pick(&[Verified, Verified, Verified, NotVerified, NotVerified, NotVerified, Locked, Unavailable])
}

/// Mostly what a tool that can be asked answers.
fn cancel_answered(random: &mut Random) -> CancelAnswered {
    use CancelAnswered::{Failed, Recalled, Refused, TooLate, TooLateWithResult, Undone, Unsupported};
    random.pick(&[Undone, Undone, Undone, TooLate, TooLateWithResult, Recalled, Unsupported, Failed, Refused])
}

/// Mostly the truth about how it stands.
fn inquiry_answered(random: &mut Random) -> InquiryAnswered {
    use InquiryAnswered::{Ended, Forgotten, Refused, Running, Unanswered, Unsupported};
    random.pick(&[Ended, Ended, Ended, Running, Running, Unanswered, Forgotten, Refused, Unsupported])
}
