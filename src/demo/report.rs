//! What the demo shows: a live timeline of the four clocks, then a table of what was promised and what came of it.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde_json::Value;

/// The timeline, one line for each thing that happens.
pub struct Timeline {
    began: Instant,
    colour: bool,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    acoustic: String,
    generation: String,
    playback: String,
    operations: BTreeMap<String, String>,
    words: BTreeMap<String, String>,
}

/// One check of the contract.
#[derive(Debug)]
pub struct Check {
    pub what: String,
    pub found: String,
    pub holds: bool,
}

impl Timeline {
    /// A timeline that begins now.
    pub fn begin() -> Self {
        let timeline = Self { began: Instant::now(), colour: std::io::stdout().is_terminal(), seen: Mutex::default() };
        println!("The four clocks of the box (· nothing due), then what happens: » the story, gate: why a result waits.\n");
        println!("{:>7}  {:<10} {:<11} {:<9} {:<22} what happens", "s", "caller", "generation", "playback", "operations");
        timeline
    }

    /// Something that the caller or the story does.
    pub fn story(&self, text: &str) {
        self.print(&format!("» {text}"), "1");
    }

    /// Listens to a box's log.
    pub fn listener(self: &Arc<Self>) -> impl Fn(&Value) + Send + 'static {
        let timeline = Arc::clone(self);
        move |line| timeline.box_says(line)
    }

    /// A line of the box's log.
    fn box_says(&self, line: &Value) {
        let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        let short = |id: String| id.chars().take(8).collect::<String>();
        match (text("target").as_str(), text("message").as_str()) {
            ("recado::clocks", _) => {
                let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                let state = |name: &str| text(name).trim_start_matches("Some(").trim_end_matches(')').replace("None", "·");
                (seen.acoustic, seen.generation, seen.playback) = (state("acoustic"), state("generation"), state("playback"));
                drop(seen);
                self.print("", "2");
            }
            ("recado::words", message) => {
                let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                let key = format!("{}/{}", text("playback_id"), line["index"]);
                if message == "speak" {
                    seen.words.insert(key, text("text"));
                    drop(seen);
                    self.print(&format!("says “{}”", text("text")), "36");
                } else {
                    drop(seen);
                    self.print(&format!("heard, by evidence: “{}”", text("text")), "32");
                }
            }
            ("recado::gate", _) => {
                let blocker = text("blocker");
                let why = blocker.trim_start_matches("Some(").trim_end_matches(')');
                let why = if why == "None" { String::new() } else { format!(" ({why})") };
                self.print(&format!("gate: {} → {}{why}", short(text("delivery_id")), text("answer")), "33");
            }
            (_, "attempt sent") => {
                let tool = text("tool");
                self.operation(&text("operation_id"), &tool, "runs");
                self.print(&format!("operation {tool}: attempt {}", line["attempt"]), "35");
            }
            (_, "callback") => {
                self.operation(&text("operation_id"), "", "done");
                self.print("a tool reports", "35");
            }
            (_, "delivery settled") => {
                let verdicts: Vec<String> = text("clauses").split("ClauseEvidence { ").skip(1).map(verdict).collect();
                self.print(&format!("closing {}: {}", short(text("delivery_id")), verdicts.join(", ")), "32");
            }
            (_, "call up" | "call settled" | "ready" | "stopped") => self.print(&format!("box: {}", text("message")), "2"),
            _ => {}
        }
    }

    fn operation(&self, id: &str, tool: &str, state: &str) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let known = seen.operations.entry(id.to_owned()).or_default();
        let name = if tool.is_empty() { known.split(' ').next().unwrap_or_default().to_owned() } else { tool.to_owned() };
        *known = format!("{name} {state}");
    }

    fn print(&self, what: &str, colour: &str) {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let operations: Vec<&str> = seen.operations.values().map(String::as_str).collect();
        let at = self.began.elapsed().as_secs_f64();
        let clocks = format!("{at:>7.2}  {:<10} {:<11} {:<9} {:<22}", seen.acoustic, seen.generation, seen.playback, operations.join(", "));
        let what = if self.colour && !what.is_empty() { format!("\x1b[{colour}m{what}\x1b[0m") } else { what.to_owned() };
        let _ = writeln!(std::io::stdout(), "{clocks} {what}");
    }
}

/// `clause: 0, verdict: Heard(Received) }, ` in words.
fn verdict(logged: &str) -> String {
    let (clause, verdict) = logged.split_once(", verdict: ").unwrap_or((logged, ""));
    let clause = match clause.trim_start_matches("clause: ") {
        "short form" => "its short form".to_owned(),
        number => number.parse::<u32>().map_or_else(|_| clause.to_owned(), |clause| format!("clause {}", u64::from(clause) + 1)),
    };
    let verdict = verdict.split(" }").next().unwrap_or_default();
    let verdict = match verdict.strip_prefix("Heard(").map(|level| level.trim_end_matches(')')) {
        Some("Received") => "heard (the far end reported it)".to_owned(),
        Some(level) => format!("heard ({level})"),
        None => verdict.to_lowercase(),
    };
    format!("{clause} {verdict}")
}

/// Prints the checks. How many failed.
pub fn checks(checks: &[Check]) -> usize {
    println!();
    let width = checks.iter().map(|check| check.what.chars().count()).max().unwrap_or(0);
    for Check { what, found, holds } in checks {
        println!("{} {what:<width$}  {found}", if *holds { "✓" } else { "✗" });
    }
    checks.iter().filter(|check| !check.holds).count()
}

/// Prints a table with these headings.
pub fn table(headings: &[&str], rows: &[Vec<String>]) {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(headings.get(column).map(|heading| heading.chars().count())).max().unwrap_or(0)
    };
    println!();
    let line = |cells: Vec<String>| {
        let cells: Vec<String> = cells.iter().enumerate().map(|(at, cell)| format!("{cell:<w$}", w = width(at))).collect();
        println!("{}", cells.join("  ").trim_end());
    };
    line(headings.iter().map(|heading| (*heading).to_owned()).collect());
    rows.iter().for_each(|row| line(row.clone()));
}
