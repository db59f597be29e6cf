//! `recado trace` and `recado replay`: what they print.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use recado_core::ids::{DeliveryId, SessionId};
use recado_core::time::{Time, Wall};
use recado_trace::draw::{self, Look};
use recado_trace::life::{Event, life};
use recado_trace::read::Ends;
use recado_trace::replay::{Difference, ReplayError};
use recado_trace::story::Story;
use recado_trace::{Fact, Mode, SubjectKind, Trace, Verdict, plain, replay};
use serde_json::{Value, json};

use super::library::{Library, ReadError, join, read_file};
use crate::telemetry::utc;

/// Why a trace can't be shown.
#[derive(Debug, thiserror::Error)]
pub enum ShowError {
    /// It can't be had.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It can't be replayed.
    #[error("{}: {error}", path.display())]
    Replay {
        /// Which.
        path: PathBuf,
        /// Why.
        error: ReplayError,
    },
    /// It can't be drawn.
    #[error("{}: it can't be drawn: {reason}; `recado replay` may say more", path.display())]
    Draw {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// No trace knows the delivery.
    #[error("no trace in {} knows the delivery {delivery}; `recado pending` shows what waits", directory.display())]
    NoDelivery {
        /// The delivery.
        delivery: DeliveryId,
        /// Where it was looked for.
        directory: PathBuf,
    },
    /// What is known of it can't be written as JSON.
    #[error("it can't be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// What is to be shown.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// A conversation, or a file.
    pub name: Option<String>,
    /// The latest conversation.
    pub last: bool,
    /// One delivery.
    pub delivery: Option<DeliveryId>,
    /// As JSON.
    pub json: bool,
}

/// Shows what is asked for; without anything, what there is. `directory` is where traces are.
///
/// # Errors
/// What can't be read or drawn, and what to do about it.
pub fn trace(directory: &Path, asked: &Asked, look: Look) -> Result<String, ShowError> {
    let file = asked.name.as_deref().map(Path::new).filter(|path| path.is_file());
    if let Some(path) = file {
        let library =
            path.parent().and_then(|beside| Library::open(if beside.as_os_str().is_empty() { Path::new(".") } else { beside }).ok());
        return one(path, read_file(path)?, library.as_ref(), asked, look);
    }
    let library = Library::open(directory)?;
    let book = match &asked.name {
        Some(name) => library.conversation(name)?,
        None if asked.last => library.last()?,
        None => {
            return match asked.delivery {
                Some(delivery) => lives(directory, &library, delivery, asked.json),
                None => list(directory, &library, asked.json),
            };
        }
    };
    one(&book.path, read_file(&book.path)?, Some(&library), asked, look)
}

/// What a replay of files found.
#[derive(Debug)]
pub struct Replayed {
    /// What it says of those that could be replayed.
    pub text: String,
    /// Those that could not.
    pub errors: Vec<ShowError>,
    /// Whether today's code decides the same about all of them.
    pub same: bool,
}

/// Replays these files; the parts of one ledger's trace are taken together.
pub fn replay_files(files: &[PathBuf]) -> Replayed {
    let mut replayed = Replayed { text: String::new(), errors: Vec::new(), same: true };
    let mut traces: Vec<(&Path, Trace)> = Vec::new();
    for file in files {
        match read_file(file) {
            Ok(trace) => match traces.iter_mut().find(|(_, before)| before.is_followed_by(&trace)) {
                Some((_, before)) => before.append(trace),
                None => traces.push((file, trace)),
            },
            Err(error) => replayed.errors.push(error.into()),
        }
    }
    for (path, trace) in traces {
        let text = &mut replayed.text;
        match replay(&trace) {
            Ok(Verdict::Same { inputs, missed }) => {
                let _ = writeln!(text, "{}: decides the same about {inputs} inputs{}.", path.display(), reach(&trace, missed));
            }
            Ok(Verdict::Differs(difference)) => {
                replayed.same = false;
                let _ = write!(text, "{}: ", path.display());
                differs(text, &trace, &difference);
            }
            Err(error) => replayed.errors.push(ShowError::Replay { path: path.to_owned(), error }),
        }
    }
    replayed.text = plain(&replayed.text);
    replayed
}

/// How far a trace reaches, where it is not whole.
fn reach(trace: &Trace, missed: Option<u64>) -> String {
    match (missed, trace.ends) {
        (Some(missed), _) => format!(", up to where {missed} are missing: the box could not write them"),
        (None, Ends::Whole) => String::new(),
        (None, Ends::Truncated) => ", which is as far as the trace goes: it had become as long as it may be".to_owned(),
        (None, Ends::Open) => ", which is as far as the trace goes: its end has not been written".to_owned(),
        (None, Ends::Torn) => ", which is as far as the trace goes: its last line is incomplete and left out".to_owned(),
    }
}

fn differs(text: &mut String, trace: &Trace, difference: &Difference) {
    let Difference { input, at_ms, told, then, kinds, effects, deadlines } = difference;
    let _ = match told {
        Some(told) => {
            writeln!(text, "decides otherwise from input {input} on, {} s after the beginning:\n  it is told       {told}", ms(*at_ms))
        }
        None => writeln!(text, "decides otherwise from its beginning on:"),
    };
    let list = |kinds: &[String]| if kinds.is_empty() { "nothing".to_owned() } else { kinds.join(", ") };
    let _ = writeln!(text, "  recado {:<9} {}", trace.header.version, list(&then.kinds));
    for fact in &then.facts {
        let _ = writeln!(text, "    decided        {}", serde_json::to_string(fact).unwrap_or_default());
    }
    let _ = writeln!(text, "  today's code     {}", list(kinds));
    effects.iter().for_each(|effect| {
        let _ = writeln!(text, "    effect         {effect}");
    });
    if let Some((before, now)) = deadlines {
        let at = |time: &Option<Time>| {
            time.map_or("never".to_owned(), |time| format!("{} s after the beginning", ms(time.since(trace.header.now))))
        };
        let _ = writeln!(text, "  it wanted to be woken {}, and today {}", at(before), at(now));
    }
    if trace.header.mode == Mode::Redacted {
        let _ = writeln!(text, "  (words and numbers are redacted)");
    }
}

fn one(path: &Path, trace: Trace, library: Option<&Library>, asked: &Asked, look: Look) -> Result<String, ShowError> {
    if trace.header.of == SubjectKind::Ledger {
        return ledger(path, trace, library, asked);
    }
    let ledger = library.and_then(|library| library.ledger(trace.header.boot));
    let story = Story::of(&trace, ledger.as_ref()).map_err(|reason| ShowError::Draw { path: path.to_owned(), reason })?;
    if let Some(delivery) = asked.delivery.filter(|wanted| story.deliveries.iter().all(|told| told.delivery != *wanted)) {
        return Err(ShowError::NoDelivery { delivery, directory: path.to_owned() });
    }
    if asked.json {
        return Ok(plain(&serde_json::to_string_pretty(&as_json(&trace, &story, asked.delivery))?) + "\n");
    }
    let text = format!(
        "{}\nwith {}, from {} on, for {} s; recado {}, {}{}\n",
        story.session,
        story.party.as_deref().unwrap_or("an anonymous caller"),
        date(trace.header.wall),
        ms(story.to.since(story.from)),
        trace.header.version,
        match trace.header.mode {
            Mode::Redacted => "redacted",
            Mode::Full => "with every word",
        },
        state(&trace),
    );
    // The drawing below has its own colours, and shows what comes from outside as plain text.
    let mut text = plain(&text);
    text.push('\n');
    text += &draw::story(&story, asked.delivery, look);
    if let Some(delivery) = asked.delivery {
        let traces = library.map_or_else(Vec::new, everything);
        let _ = write!(text, "\n{}", draw::life(delivery, &life(delivery, &traces), moment));
    }
    Ok(text)
}

/// A ledger's trace: how long it is, and the lives of its deliveries.
fn ledger(path: &Path, trace: Trace, library: Option<&Library>, asked: &Asked) -> Result<String, ShowError> {
    let trace = library.and_then(|library| library.ledger(trace.header.boot)).unwrap_or(trace);
    let mut deliveries: Vec<DeliveryId> = Vec::new();
    let begun = trace.header.begin.iter().flat_map(|begin| &begin.outcome.facts);
    for fact in begun.chain(trace.entries.iter().flat_map(|entry| &entry.outcome.facts)) {
        if let Fact::Delivery { delivery, .. } = fact
            && !deliveries.contains(delivery)
            && asked.delivery.is_none_or(|wanted| wanted == *delivery)
        {
            deliveries.push(*delivery);
        }
    }
    if let (Some(delivery), true) = (asked.delivery, deliveries.is_empty()) {
        return Err(ShowError::NoDelivery { delivery, directory: path.to_owned() });
    }
    let traces = [trace];
    let lives: Vec<(DeliveryId, Vec<Event>)> = deliveries.into_iter().map(|delivery| (delivery, life(delivery, &traces))).collect();
    let [trace] = traces;
    if asked.json {
        let lives: Vec<Value> = lives.iter().map(|(delivery, events)| json!({ "delivery": delivery, "life": events })).collect();
        let whole =
            json!({ "boot": trace.header.boot, "version": trace.header.version, "inputs": trace.entries.len(), "deliveries": lives });
        return Ok(plain(&serde_json::to_string_pretty(&whole)?) + "\n");
    }
    let mut text = format!(
        "The ledger of {}, from {} on: {} inputs; recado {}{}\n",
        trace.header.boot,
        date(trace.header.wall),
        trace.entries.len(),
        trace.header.version,
        state(&trace)
    );
    for (delivery, events) in lives {
        let _ = write!(text, "\n{}", draw::life(delivery, &events, moment));
    }
    Ok(plain(&text))
}

fn lives(directory: &Path, library: &Library, delivery: DeliveryId, as_json: bool) -> Result<String, ShowError> {
    let events = life(delivery, &everything(library));
    if events.is_empty() {
        return Err(ShowError::NoDelivery { delivery, directory: directory.to_owned() });
    }
    if as_json {
        return Ok(serde_json::to_string_pretty(&json!({ "delivery": delivery, "life": events }))? + "\n");
    }
    Ok(draw::life(delivery, &events, moment))
}

/// Everything that can be read, the parts of ledgers' traces joined.
fn everything(library: &Library) -> Vec<Trace> {
    join(library.books().iter().filter_map(|book| read_file(&book.path).ok()).collect())
}

fn list(directory: &Path, library: &Library, as_json: bool) -> Result<String, ShowError> {
    let conversations: Vec<_> = library.conversations().collect();
    if as_json {
        let all: Vec<Value> = conversations
            .iter()
            .map(|(book, session)| {
                let party = book.channel.as_ref().and_then(|channel| channel.party.as_ref());
                json!({ "session": session, "began": book.header.wall, "party": party, "boot": book.header.boot, "bytes": book.bytes, "file": book.path })
            })
            .collect();
        let unreadable: Vec<String> = library.unreadable.iter().map(ToString::to_string).collect();
        return Ok(plain(&serde_json::to_string_pretty(&json!({ "conversations": all, "unreadable": unreadable }))?) + "\n");
    }
    let mut text = format!("In {}:\n", directory.display());
    for (book, session) in &conversations {
        let party = book.channel.as_ref().and_then(|channel| channel.party.as_ref());
        let party = party.map_or("an anonymous caller", |party| party.0.as_str());
        let _ = writeln!(text, "{session}  {}  {:>9} bytes  {party}", date(book.header.wall), book.bytes);
    }
    if conversations.is_empty() {
        text.push_str("No conversation has left a trace.\n");
    }
    library.unreadable.iter().for_each(|error| {
        let _ = writeln!(text, "{error}");
    });
    Ok(plain(&text))
}

/// What is to be known of a trace that is not whole.
fn state(trace: &Trace) -> String {
    let missed: u64 = trace.missed.iter().map(|(_, missed)| missed).sum();
    let missed = if missed > 0 { format!("; {missed} inputs are missing") } else { String::new() };
    let end = match trace.ends {
        Ends::Whole => "",
        Ends::Truncated => "; truncated: it had become as long as it may be",
        Ends::Open => "; its end has not been written: the call is up, or the box ended without a word",
        Ends::Torn => "; its last line is incomplete",
    };
    missed + end
}

fn as_json(trace: &Trace, story: &Story, only: Option<DeliveryId>) -> Value {
    let since = |at: Time| at.since(story.from);
    let decided = trace.header.begin.iter().flat_map(|begin| &begin.outcome.facts);
    let decided = decided.chain(trace.entries.iter().flat_map(|entry| &entry.outcome.facts)).filter_map(|fact| match fact {
        Fact::Decided(decision) if only.is_none_or(|only| only == decision.delivery) => {
            Some(json!({ "at_ms": since(decision.at), "decision": decision }))
        }
        _ => None,
    });
    let deliveries = story.deliveries.iter().filter(|told| only.is_none_or(|only| only == told.delivery)).map(|told| {
        let phases: Vec<Value> =
            told.phases.iter().map(|phase| json!({ "from_ms": since(phase.from), "to_ms": since(phase.to), "what": phase.what })).collect();
        let totals: serde_json::Map<String, Value> = told.totals().into_iter().map(|(phase, ms)| (phase.name(), ms.into())).collect();
        json!({
            "delivery": told.delivery, "operations": told.operations, "ready_ms": told.ready.map(since), "offered_ms": since(told.offered),
            "phases": phases, "ms": totals, "cuts": told.cuts, "end": told.end,
        })
    });
    let spans = |spans: Vec<(Time, Time, Value)>| -> Vec<Value> {
        spans.into_iter().map(|(from, to, state)| json!({ "from_ms": since(from), "to_ms": since(to), "state": state })).collect()
    };
    macro_rules! states {
        ($lane:expr) => {
            spans($lane.iter().map(|span| (span.from, span.to, json!(span.what))).collect())
        };
    }
    let operations: Vec<Value> = story
        .operations
        .iter()
        .map(|life| json!({ "operation": life.operation, "tool": life.tool, "states": states!(life.states) }))
        .collect();
    let session: SessionId = story.session;
    json!({
        "session": session, "party": story.party, "boot": trace.header.boot, "version": trace.header.version, "mode": trace.header.mode,
        "began": trace.header.wall, "lasted_ms": since(story.to), "whole": trace.ends == Ends::Whole && trace.missed.is_empty(),
        "caller": states!(story.caller), "generation": states!(story.generation), "playback": states!(story.playback),
        "operations": operations, "deliveries": deliveries.collect::<Vec<_>>(), "decisions": decided.collect::<Vec<_>>(),
    })
}

/// Milliseconds as seconds.
fn ms(ms: u64) -> String {
    format!("{}.{:03}", ms / 1_000, ms % 1_000)
}

fn date(wall: Wall) -> String {
    let doubt = if wall.synchronised { "" } else { " (clock not set)" };
    format!("{}{doubt}", utc(wall.unix_ms))
}

/// A date, to the millisecond.
fn moment(wall: Wall) -> String {
    date(wall).replacen(" UTC", &format!(".{:03} UTC", wall.unix_ms.rem_euclid(1_000)), 1)
}
