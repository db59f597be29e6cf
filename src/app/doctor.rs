//! `recado doctor`: how the store is, in words; what is wrong with it, and what mends it; where it is wanted, whether the speech engine answers.

use std::fmt::Write as _;
use std::path::Path;

use recado_core::BootId;
use serde::Serialize;

use super::UNDER_SYSTEMD;
use super::clock::{random, wall};
use super::engines::{self, Answer};
use super::running::{self, is_of_the_store};
use super::upkeep::{foreign_text, lost_text, unreadable_rows};
use crate::config::Config;
use crate::coordination::{
    Contents, Examination, OpenError, Options, RESERVE_ROOM_BYTES, examine, in_the_way, is_disk_full, is_missing, mend,
};

/// What the doctor says.
#[derive(Debug, Serialize)]
pub struct Diagnosis {
    /// What was found.
    #[serde(flatten)]
    pub examination: Examination,
    /// Whether the speech engines answer, where they were asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub speech: Vec<Answer>,
    /// Whether the clock is synchronised: ages are judged only then.
    pub clock_synchronised: bool,
    /// What was mended, a sentence each.
    pub mended: Vec<String>,
    /// What is wrong, and what mends it, a sentence each.
    pub problems: Vec<String>,
    /// What somebody should know, though nothing is wrong now.
    pub remarks: Vec<String>,
}

/// Looks at the store, and mends what can be mended where that is wanted and the box does not run. Asks the speech engines only where that is
/// wanted.
pub fn doctor(config: &Config, mends: bool, asks_engines: bool) -> Diagnosis {
    let path = std::path::absolute(config.this_box.store()).unwrap_or_else(|_| config.this_box.store());
    let (mut mended, mut problems, mut remarks) = (Vec::new(), Vec::new(), Vec::new());
    if mends && (path.exists() || is_missing(&path)) {
        let options = Options { backups: config.store.backups, ..Options::new(BootId(random()), wall()) };
        match mend(&path, &options) {
            Ok(done) => mended = done,
            Err(OpenError::InUse { .. }) => {
                remarks.push("The box runs, and mends by itself what can be mended: nothing was done.".to_owned())
            }
            Err(error) => problems.push(format!("It could not be mended: {error}.")),
        }
    }
    let now = wall();
    let examination = examine(&path, now);
    if !path.exists() && !examination.is_missing {
        let shown = path.display();
        remarks.push(format!("It was looked for at {shown}. Under systemd a box keeps it in /var/lib/recado: {UNDER_SYSTEMD}."));
    }
    judge(&examination, config.store.backups, &mut problems, &mut remarks);
    if !now.synchronised {
        remarks.push("The clock is not synchronised: nothing goes stale over a restart, and nothing is removed for its age.".to_owned());
    }
    let speech = if asks_engines { ask_the_engines(config, &mut problems) } else { Vec::new() };
    let unasked = speech.iter().find_map(Answer::unasked);
    let box_says = examination.in_use_by.is_some() && ask_the_box(config, unasked.is_some(), &mut problems, &mut remarks);
    match unasked {
        // What is given to it alone, as systemd gives keys, it has tried.
        Some(why) if box_says => remarks.push(format!("{why}; the box runs, and says itself how it is.")),
        Some(why) => problems.push(format!(
            "{why}; where systemd gives it to the box alone (LoadCredential=), ask while the box runs, which then says itself how it is."
        )),
        None => {}
    }
    Diagnosis { examination, speech, clock_synchronised: now.synchronised, mended, problems, remarks }
}

fn judge(found: &Examination, backups_kept: u32, problems: &mut Vec<String>, remarks: &mut Vec<String>) {
    let runs = found.in_use_by.is_some();
    if found.is_missing {
        problems.push(missing_text(&found.path));
    } else {
        problems.extend(found.unreadable.clone());
    }
    if let Some(contents) = &found.contents {
        judge_contents(contents, runs, problems, remarks);
        judge_space(found, contents, backups_kept, problems);
        problems.extend(unreadable_rows(&contents.findings, &found.path).map(|text| format!("{text}.")));
    }
    if found.set_aside_under_way {
        problems.push("A damaged store is being set aside; a start of the box, or --mend, goes on with it.".to_owned());
    }
    let in_the_way = in_the_way(&found.path);
    match (found.reserve || found.contents.is_none(), runs) {
        (true, _) => {}
        (false, false) if found.reserve_can_be_made && in_the_way.is_empty() => {
            remarks.push("There is no reserve for a full disk: a start of the box, or --mend, makes it.".to_owned());
        }
        (false, _) => {
            let by = if runs { "the box makes it when there is" } else { "a start of the box, or --mend, makes it then" };
            let room = size(RESERVE_ROOM_BYTES);
            problems.push(format!("There is no reserve for a full disk: see that {room} are free on its disk; {by}."));
        }
    }
    for file in &found.readable_by_others {
        problems.push(format!("{} can be read by others: --mend makes it private, while the box does not run.", file.display()));
    }
    for file in &found.of_root {
        problems.push(format!(
            "{} belongs to root, and the box, which another user runs, can't open it: --mend as root gives it to that user.",
            file.display()
        ));
    }
    for directory in &in_the_way {
        problems.push(format!("{}: nothing can be made there until then.", OpenError::Directory { path: directory.clone() }));
    }
    if !runs {
        for file in found.leftovers.iter().filter(|file| !in_the_way.contains(file)) {
            problems.push(format!("{} was left behind by something that was cut short: --mend removes it.", file.display()));
        }
    }
    for backup in &found.backups {
        if let Some(what) = &backup.damage {
            problems.push(format!("The backup {} is no good ({what}): check the disk; remove it.", backup.file.display()));
        }
    }
    if backups_kept > 0 && found.backups.is_empty() && found.contents.is_some() {
        remarks.push("There is no backup yet: the box makes one when it has started, and then one a day.".to_owned());
    }
    problems.extend(lost_text(&found.set_aside).into_iter().chain(foreign_text(&found.foreign)).map(|text| format!("{text}.")));
}

/// What keeps a start from being well, though nothing is wrong with the file.
fn judge_space(found: &Examination, contents: &Contents, backups_kept: u32, problems: &mut Vec<String>) {
    let Some(free) = found.free_bytes else { return };
    if found.in_use_by.is_none() && (free < START_BYTES || is_disk_full(&found.path)) {
        problems.push("The disk is full: a start refuses calls until there is space; free some.".to_owned());
    }
    if backups_kept > 0 && found.is_backup_due && free < contents.backup_bytes {
        let (needed, free) = (size(contents.backup_bytes), size(free));
        problems.push(format!("There is no room for a backup, and one is due: it needs {needed}, and {free} are free; free some space."));
    }
}

/// Adds what is wrong with the speech engines.
fn ask_the_engines(config: &Config, problems: &mut Vec<String>) -> Vec<Answer> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let answers = match runtime {
        Ok(runtime) => {
            let answers = runtime.block_on(engines::ask(config));
            // A thread that is stuck in a name look-up is not waited for.
            runtime.shutdown_background();
            answers
        }
        Err(error) => {
            problems.push(format!("The speech engine can't be asked: {error}."));
            return Vec::new();
        }
    };
    for Answer { engine, problem, .. } in &answers {
        problems.extend(problem.as_ref().map(|problem| format!("The speech engine {engine} does not speak: {problem}.")));
    }
    answers
}

/// Adds what only a running box knows, of its speech too where that is wanted. Whether it answered.
fn ask_the_box(config: &Config, speech_is_wanted: bool, problems: &mut Vec<String>, remarks: &mut Vec<String>) -> bool {
    let listen = config.http.listen;
    match running::problems(listen, speech_is_wanted) {
        Ok(said) => {
            for problem in said {
                let (part, sentence) = problem.split_once(": ").unwrap_or(("", &problem));
                if !is_of_the_store(part) {
                    problems.push(format!("The box says of {part}: {sentence}."));
                } else if !problems.iter().any(|known| sentence.starts_with(known.trim_end_matches('.'))) {
                    problems.push(format!("The box says: {sentence}."));
                }
            }
            true
        }
        Err(why) => {
            remarks.push(format!("The box could not be asked at {listen} how it is ({why}): see its /health."));
            false
        }
    }
}

fn missing_text(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!(
        "The store is not there, though one has been: find out what took it. A start of the box, or --mend, puts the newest good backup or an \
         empty store in its place. To begin anew, move every file away whose name begins with {name}."
    )
}

fn judge_contents(contents: &Contents, runs: bool, problems: &mut Vec<String>, remarks: &mut Vec<String>) {
    let damage = if contents.integrity == "ok" { contents.findings.damage.as_ref() } else { Some(&contents.integrity) };
    if let Some(damage) = damage {
        let by = if runs { "when the box next meets it" } else { "at the next start, or with --mend" };
        problems.push(format!("The store is damaged ({damage}): it is set aside {by}, and a backup takes its place."));
    }
    match contents.schema {
        (found, known) if found > known => problems
            .push(format!("It has schema {found}, this version knows up to {known}: use the version that wrote it, or a later one.")),
        (found, known) if found < known => {
            remarks.push(format!("It has schema {found}; the next start changes it to {known}, after a backup."))
        }
        _ => {}
    }
    for broken in &contents.broken_rules {
        let (rule, rows) = (broken.rule, broken.rows.join(", "));
        problems.push(format!("A rule is broken, which is a fault of the program: report it. The rule: {rule}. Not so: {rows}."));
    }
    if contents.without_log {
        let text = "The disk can't be written: a start refuses calls until it can. What is said here is without the latest commits, which are in \
             the log.";
        problems.push(text.to_owned());
    }
    if contents.reopened > 0 {
        remarks.push(format!(
            "Its file was opened again {} times after the disk had failed, or its files were taken: look at dmesg.",
            contents.reopened
        ));
    }
    remarks.extend(contents.losses.iter().map(|loss| format!("Set aside: {loss}.")));
}

impl Diagnosis {
    /// Whether nothing is wrong.
    pub fn is_well(&self) -> bool {
        self.problems.is_empty()
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let found = &self.examination;
        let _ = writeln!(text, "The store is {}.", found.path.display());
        match found.in_use_by {
            Some(0) => text.push_str("A box has it open.\n"),
            Some(pid) => {
                let _ = writeln!(text, "Process {pid} has it open.");
            }
            None => text.push_str("No box has it open.\n"),
        }
        let _ = writeln!(text, "Files:");
        for (name, bytes) in &found.files {
            let _ = writeln!(text, "  {name}: {}", size(*bytes));
        }
        if let Some(free) = found.free_bytes {
            let _ = writeln!(text, "  free on its disk: {}", size(free));
        }
        let yes = |is: bool| if is { "yes" } else { "no" };
        let _ = writeln!(text, "Reserve for a full disk: {}. Clock synchronised: {}.", yes(found.reserve), yes(self.clock_synchronised));
        if let Some(contents) = &found.contents {
            contents_text(&mut text, contents);
        }
        for Answer { engine, ms, .. } in &self.speech {
            if let Some(ms) = ms {
                let _ = writeln!(text, "The speech engine {engine} speaks: a word took {ms} ms.");
            }
        }
        let mut list = |title: &str, lines: &[String]| {
            if !lines.is_empty() {
                let _ = writeln!(text, "{title}:\n  {}", lines.join("\n  "));
            }
        };
        list("Mended", &self.mended);
        list("To know", &self.remarks);
        list("Wrong", &self.problems);
        if self.is_well() {
            text.push_str("All is well.\n");
        }
        text
    }
}

fn contents_text(text: &mut String, contents: &Contents) {
    let settings: Vec<String> = contents.settings.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    let _ = writeln!(text, "Schema {}; {}. Full check: {}.", contents.schema.0, settings.join(", "), contents.integrity);
    for (what, states) in [("Operations", &contents.operations), ("Batches", &contents.batches), ("Deliveries", &contents.deliveries)] {
        let states: Vec<String> = states.iter().map(|(state, number)| format!("{number} {state}")).collect();
        let _ = writeln!(text, "{what}: {}.", if states.is_empty() { "none".to_owned() } else { states.join(", ") });
    }
    for waiting in &contents.waiting {
        let age = waiting.age_ms.map_or_else(String::new, |ms| format!(" for {} min", ms / 60_000));
        let _ = writeln!(text, "  {} {} waits{age}: {}.", waiting.delivery, waiting.state, waiting.why);
    }
}

/// A number of bytes as people read it.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_024 => format!("{bytes} B"),
        1_024..1_048_576 => format!("{} KiB", bytes / 1_024),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

/// What a start writes before calls are taken: that it began, and the index of the log.
const START_BYTES: u64 = 128 << 10;
