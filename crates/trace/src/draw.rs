//! Drawing a conversation in a terminal: the four clocks over time, the deliveries below them, and why they waited.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use recado_core::conversation::{Acoustic, GenerationState, PlaybackState};
use recado_core::gate::Blocker;
use recado_core::ids::DeliveryId;
use recado_core::ledger::OperationState;
use recado_core::time::Time;

use crate::lanes::{Axis, Span};
use crate::life::{Event, name};
use crate::plain::plain;
use crate::story::{DeliveryStory, End, Phase, Story};

/// How it is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// The terminal's width; at least 60.
    pub columns: usize,
    /// Whether it shows colours.
    pub colour: bool,
    /// Whether it shows nothing but ASCII.
    pub ascii: bool,
}

/// A conversation, drawn. `only` shows one delivery, and the time around it.
pub fn story(story: &Story, only: Option<DeliveryId>, look: Look) -> String {
    let deliveries: Vec<&DeliveryStory> = story.deliveries.iter().filter(|told| only.is_none_or(|only| told.delivery == only)).collect();
    let columns = look.columns.max(COLUMNS_MIN) - LABEL;
    let axis = axis(story, only.and(deliveries.first().copied()), columns);
    let mut page = Page { look, text: String::new(), used: BTreeSet::new() };
    page.axis(story.from, &axis);
    page.row("caller", &axis.row(&story.caller, acoustic_weight, |state| look.acoustic(state)), CYAN);
    page.row("generation", &axis.row(&story.generation, generation_weight, |state| look.generation(state)), MAGENTA);
    page.row("playback", &axis.row(&story.playback, playback_weight, |state| look.playback(state)), GREEN);
    page.row("operations", &operations(story, &axis), YELLOW);
    for (number, told) in (1..).zip(&deliveries) {
        page.used.extend(told.phases.iter().map(|phase| phase.what));
        let mut row: Vec<char> = axis.row(&told.phases, phase_weight, |phase| look.phase(phase)).chars().collect();
        for (at, sign) in [(told.ready.unwrap_or(told.offered), look.ready()), (end_of(told), look.end(&told.end))] {
            let column = axis.column(at);
            if at >= axis.from && at <= axis.to {
                row[column.min(columns - 1)] = sign;
            }
        }
        page.row(&format!("delivery {number}"), &row.into_iter().collect::<String>(), BOLD);
    }
    page.legend();
    page.operations(story);
    page.waits(story, &deliveries);
    page.text
}

/// A delivery's life, one event a line.
pub fn life(delivery: DeliveryId, events: &[Event], date: impl Fn(recado_core::Wall) -> String) -> String {
    let mut text = format!("The life of {delivery}:\n");
    for event in events {
        let who = event.session.map_or_else(|| "ledger".to_owned(), |session| session.to_string());
        let _ = writeln!(text, "{}  {:<LIFE_WHO$}  {}", date(event.wall), who, event.what);
    }
    text
}

fn axis(story: &Story, only: Option<&DeliveryStory>, columns: usize) -> Axis {
    let (from, to) = match only {
        Some(told) => {
            let from = told.ready.unwrap_or(told.offered).max(story.from);
            (Time(from.0.saturating_sub(AROUND)).max(story.from), end_of(told).plus(AROUND).min(story.to))
        }
        None => (story.from, story.to),
    };
    Axis { from, to: to.max(from.plus(1)), columns }
}

fn end_of(told: &DeliveryStory) -> Time {
    told.phases.last().map_or(told.offered, |phase| phase.to)
}

/// How many operations run, in each column.
fn operations(story: &Story, axis: &Axis) -> String {
    let running = |from: Time, to: Time| {
        let runs = |span: &Span<OperationState>| !span.what.settled() && span.to > from && span.from < to;
        story.operations.iter().filter(|operation| operation.states.iter().any(runs)).count()
    };
    let sign = |column: usize| match running(axis.time(column), axis.time(column + 1).max(axis.time(column).plus(1))) {
        0 => ' ',
        count @ 1..=9 => char::from(b'0' + count as u8),
        _ => '+',
    };
    (0..axis.columns).map(sign).collect()
}

struct Page {
    look: Look,
    text: String,
    used: BTreeSet<Phase>,
}

impl Page {
    fn axis(&mut self, began: Time, axis: &Axis) {
        let mut labels = vec![' '; axis.columns];
        let mut ticks = vec![if self.look.ascii { '-' } else { '─' }; axis.columns];
        let step = tick_ms(axis);
        let mut at = axis.from.since(began).next_multiple_of(step);
        while began.plus(at) < axis.to {
            let column = axis.column(began.plus(at));
            let label = seconds(at, step);
            if column + label.len() <= axis.columns {
                ticks[column] = if self.look.ascii { '+' } else { '┬' };
                labels[column..column + label.len()].iter_mut().zip(label.chars()).for_each(|(place, letter)| *place = letter);
            }
            at += step;
        }
        for row in [labels, ticks] {
            let _ = writeln!(self.text, "{:LABEL$}{}", "", row.into_iter().collect::<String>().trim_end());
        }
    }

    fn row(&mut self, label: &str, row: &str, colour: &str) {
        let row = row.trim_end();
        let _ = match self.look.colour && !row.is_empty() {
            true => writeln!(self.text, "{label:<LABEL$}{colour}{row}{PLAIN}"),
            false => writeln!(self.text, "{}", format!("{label:<LABEL$}{row}").trim_end()),
        };
    }

    fn legend(&mut self) {
        let look = self.look;
        let (a, g, p) = (Look::acoustic, Look::generation, Look::playback);
        let _ = writeln!(
            self.text,
            "\ncaller {} quiet {} suspected {} speaking {} trailing · generation {} requested {} generating {} complete\n\
             playback {} queued {} playing {} paused {} drained, waits for evidence · operations: how many run",
            a(look, Acoustic::Quiet),
            a(look, Acoustic::Suspected),
            a(look, Acoustic::Speaking),
            a(look, Acoustic::Trailing),
            g(look, GenerationState::Requested),
            g(look, GenerationState::Generating),
            g(look, GenerationState::Complete),
            p(look, PlaybackState::Queued),
            p(look, PlaybackState::Playing),
            p(look, PlaybackState::Paused),
            p(look, PlaybackState::Drained),
        );
        if look.ascii {
            self.text = self.text.replace('·', "|");
        }
        if !self.used.is_empty() {
            let phases: Vec<String> = self.used.iter().map(|phase| format!("{} {}", look.phase(*phase), phase.name())).collect();
            let line = format!("delivery {} ready, {}; its end {}", look.ready(), phases.join(", "), look.ends());
            for line in wrapped(&line, look.columns.max(COLUMNS_MIN)) {
                let _ = writeln!(self.text, "{line}");
            }
        }
    }

    fn operations(&mut self, story: &Story) {
        if story.operations.is_empty() {
            return;
        }
        let _ = writeln!(self.text, "\nOperations");
        for operation in &story.operations {
            let tool = operation.tool.as_deref().map_or_else(|| "(the ledger's trace of this boot is gone)".to_owned(), plain);
            let states: Vec<String> =
                operation.states.iter().map(|span| format!("{} {}", seconds(span.from.since(story.from), 1), name(span.what))).collect();
            let _ = writeln!(self.text, "  {}  {tool}: {}", operation.operation, states.join(", "));
        }
    }

    fn waits(&mut self, story: &Story, deliveries: &[&DeliveryStory]) {
        if deliveries.is_empty() {
            let _ = writeln!(self.text, "\nNo delivery was offered to this conversation.");
            return;
        }
        let _ = writeln!(self.text, "\nWhy they waited");
        for (number, told) in (1..).zip(deliveries) {
            let ready = match told.ready {
                Some(ready) if ready < story.from => "ready before the call".to_owned(),
                Some(ready) => format!("ready at {}", seconds(ready.since(story.from), 1)),
                None => "ready before this start of the box".to_owned(),
            };
            let _ = writeln!(
                self.text,
                "  delivery {number}  {}  {ready}, offered at {}",
                told.delivery,
                seconds(told.offered.since(story.from), 1)
            );
            for (phase, ms) in told.totals() {
                let what = match phase {
                    Phase::Waits(blocker) => format!("waited for {}", meaning(blocker)),
                    Phase::Claim(_) => "waited for its claim to be durable".to_owned(),
                    Phase::Voice => "waited for the voice to begin".to_owned(),
                    Phase::Speaking => "was spoken".to_owned(),
                    Phase::Evidence => "waited for the far end's report".to_owned(),
                };
                let _ = writeln!(self.text, "    {:>9} ms  {:<18} {what}", ms, phase.name());
            }
            let before = told.cuts - u32::from(told.end == End::Cut);
            let cuts = if before > 0 { format!("; cut before: {before}") } else { String::new() };
            let _ = writeln!(self.text, "    at {:>9}  {}{cuts}", seconds(end_of(told).since(story.from), 1), told.end.sentence());
        }
    }
}

impl End {
    /// What it means.
    pub fn sentence(&self) -> &'static str {
        match self {
            Self::Heard => "heard, on evidence",
            Self::Cut => "cut before all of it was heard",
            Self::Uncertain => "uncertain: nobody knows whether it was heard",
            Self::Stale => "stale: kept, and not told",
            Self::Withdrawn => "withdrawn: superseded, or told elsewhere",
            Self::Waits => "not told here: it waits",
        }
    }
}

fn meaning(blocker: Blocker) -> &'static str {
    match blocker {
        Blocker::NoSession => "a call of its party",
        Blocker::IdentityUnknown => "who is on the line to be known",
        Blocker::OnHold => "the call to be taken off hold",
        Blocker::FloorHeld => "the floor to be free",
        Blocker::SpeechSuspected => "a sound that may have been speech",
        Blocker::CallerSpeaking => "the caller to have spoken",
        Blocker::SpeechTrailing => "the caller, who might have gone on",
        Blocker::TurnOpen => "the response that was due",
        Blocker::PlaybackActive => "our own voice to finish",
        Blocker::ReplyUnfinished => "the response to end",
        Blocker::QuietTooShort => "it to be quiet for long enough",
        Blocker::RideOnly => "a response to ride on",
        Blocker::DeliveryActive => "another delivery",
    }
}

impl Look {
    fn pick(self, sign: char, ascii: char) -> char {
        if self.ascii { ascii } else { sign }
    }

    fn acoustic(self, state: Acoustic) -> char {
        match state {
            Acoustic::Quiet => self.pick('·', '.'),
            Acoustic::Suspected => '?',
            Acoustic::Speaking => self.pick('█', '#'),
            Acoustic::Trailing => self.pick('▒', '~'),
        }
    }

    fn generation(self, state: GenerationState) -> char {
        match state {
            GenerationState::Requested => self.pick('░', 'r'),
            GenerationState::Generating => self.pick('█', '#'),
            GenerationState::Complete => self.pick('─', '-'),
            GenerationState::Cancelled | GenerationState::Failed => 'x',
        }
    }

    fn playback(self, state: PlaybackState) -> char {
        match state {
            PlaybackState::Queued => self.pick('░', 'q'),
            PlaybackState::Playing => self.pick('█', '#'),
            PlaybackState::Paused => self.pick('‖', '='),
            PlaybackState::Drained => self.pick('·', '.'),
            PlaybackState::Finished { .. } => self.pick('─', '-'),
            PlaybackState::Cleared { .. } | PlaybackState::Lost => 'x',
        }
    }

    fn phase(self, phase: Phase) -> char {
        match phase {
            Phase::Waits(blocker) => match blocker {
                Blocker::NoSession => 'n',
                Blocker::IdentityUnknown => 'i',
                Blocker::OnHold => 'h',
                Blocker::FloorHeld => 'f',
                Blocker::SpeechSuspected => '?',
                Blocker::CallerSpeaking => 'c',
                Blocker::SpeechTrailing => 't',
                Blocker::TurnOpen => 'o',
                Blocker::PlaybackActive => 'p',
                Blocker::ReplyUnfinished => 'u',
                Blocker::QuietTooShort => 'q',
                Blocker::RideOnly => 'r',
                Blocker::DeliveryActive => 'd',
            },
            Phase::Claim(_) => self.pick('›', '>'),
            Phase::Voice => self.pick('░', 'v'),
            Phase::Speaking => self.pick('█', '#'),
            Phase::Evidence => self.pick('·', '.'),
        }
    }

    fn ready(self) -> char {
        self.pick('◆', '^')
    }

    fn end(self, end: &End) -> char {
        match end {
            End::Heard => self.pick('✓', '!'),
            End::Cut => 'x',
            End::Uncertain => self.pick('≈', '%'),
            End::Stale => self.pick('∅', '0'),
            End::Withdrawn => self.pick('×', '*'),
            End::Waits => self.pick('…', '_'),
        }
    }

    fn ends(self) -> String {
        let all = [
            (End::Heard, "heard"),
            (End::Cut, "cut"),
            (End::Uncertain, "uncertain"),
            (End::Stale, "stale"),
            (End::Withdrawn, "withdrawn"),
            (End::Waits, "it waits"),
        ];
        all.iter().map(|(end, name)| format!("{} {name}", self.end(end))).collect::<Vec<_>>().join(", ")
    }
}

/// The rarer and shorter is seen where states share a column.
fn acoustic_weight(state: Acoustic) -> u8 {
    match state {
        Acoustic::Quiet => 0,
        Acoustic::Trailing => 1,
        Acoustic::Speaking => 2,
        Acoustic::Suspected => 3,
    }
}

fn generation_weight(state: GenerationState) -> u8 {
    match state {
        GenerationState::Complete => 0,
        GenerationState::Requested => 1,
        GenerationState::Generating => 2,
        GenerationState::Cancelled | GenerationState::Failed => 3,
    }
}

fn playback_weight(state: PlaybackState) -> u8 {
    match state {
        PlaybackState::Finished { .. } => 0,
        PlaybackState::Drained => 1,
        PlaybackState::Queued => 2,
        PlaybackState::Playing => 3,
        PlaybackState::Paused => 4,
        PlaybackState::Cleared { .. } | PlaybackState::Lost => 5,
    }
}

fn phase_weight(phase: Phase) -> u8 {
    match phase {
        Phase::Evidence => 0,
        Phase::Speaking => 1,
        Phase::Voice => 2,
        Phase::Claim(_) => 3,
        Phase::Waits(_) => 4,
    }
}

/// Between two marks of the axis: about every twelve columns, at a round time.
fn tick_ms(axis: &Axis) -> u64 {
    let wanted = axis.to.since(axis.from) * COLUMNS_A_TICK / (axis.columns as u64).max(1);
    ROUND_MS.into_iter().find(|step| *step >= wanted).unwrap_or_else(|| wanted.next_multiple_of(3_600_000).max(1))
}

/// So many milliseconds as seconds, as exactly as steps of `step_ms` need.
fn seconds(ms: u64, step_ms: u64) -> String {
    match step_ms {
        step if step.is_multiple_of(1_000) => format!("{}s", ms / 1_000),
        step if step.is_multiple_of(100) => format!("{}.{}s", ms / 1_000, ms % 1_000 / 100),
        _ => format!("{}.{:03}s", ms / 1_000, ms % 1_000),
    }
}

fn wrapped(line: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in line.split(' ') {
        let fits = lines.last().is_some_and(|last| last.chars().count() + word.chars().count() < columns);
        match lines.last_mut() {
            Some(last) if fits || last.is_empty() => {
                if !last.is_empty() {
                    last.push(' ');
                }
                last.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// What stands before each row.
const LABEL: usize = 13;

const COLUMNS_MIN: usize = 60;

const COLUMNS_A_TICK: u64 = 10;

const ROUND_MS: [u64; 16] = [10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000, 600_000];

/// What is shown before and after a delivery that is looked at (ms).
const AROUND: u64 = 1_000;

/// An identifier of a conversation.
const LIFE_WHO: usize = 36;

const BOLD: &str = "\u{1b}[1m";
const CYAN: &str = "\u{1b}[36m";
const GREEN: &str = "\u{1b}[32m";
const MAGENTA: &str = "\u{1b}[35m";
const YELLOW: &str = "\u{1b}[33m";
const PLAIN: &str = "\u{1b}[0m";
