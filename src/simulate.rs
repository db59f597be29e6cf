//! `recado sim`: the box in virtual time, seed after seed, until something breaks a promise of the contract.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use recado_sim::{Failure, Plan, Report, explore, play, trace, week};

use crate::config::read_text;

/// What is simulated.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// How many seeds are played; without this and --minutes, 20,000.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,
    /// For how many minutes seeds are played.
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u64).range(1..=MINUTES_MAX))]
    minutes: Option<u64>,
    /// Play the seven days of so many boxes instead: errands that take hours and days, calls, restarts, results that come again.
    #[arg(long, value_name = "N", conflicts_with_all = ["seeds", "minutes", "edges"], value_parser = clap::value_parser!(u64).range(1..))]
    weeks: Option<u64>,
    /// On how many threads; by default on every processor.
    #[arg(long, value_name = "J", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// The first seed.
    #[arg(long, value_name = "S", default_value_t = 0)]
    start_seed: u64,
    /// Play the trace in this file instead.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seeds", "minutes", "jobs", "start_seed", "weeks"])]
    replay: Option<PathBuf>,
    /// Where the trace of a failure is written.
    #[arg(long, value_name = "FILE", default_value = "recado-sim.trace")]
    trace: PathBuf,
    /// Print how often each edge of the contract's state machines was taken.
    #[arg(long)]
    edges: bool,
}

/// Why a simulation ends badly.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A promise was broken.
    #[error("{0}")]
    Broken(String),
    /// The trace can't be read.
    #[error("{file}: {error}")]
    File {
        /// Which.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The file holds no trace.
    #[error("{file}: {error}")]
    Trace {
        /// Which.
        file: PathBuf,
        /// Why.
        error: trace::TraceError,
    },
}

/// Simulates, and says what was seen.
pub fn run(options: &Options) -> Result<String, Error> {
    if let Some(file) = &options.replay {
        return replay(file);
    }
    let seeds = options.seeds.unwrap_or(if options.minutes.is_some() { u64::MAX } else { SEEDS });
    let jobs = options.jobs.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    if let Some(weeks) = options.weeks {
        return weeks_told(&week::explore(options.start_seed, weeks, jobs));
    }
    let begun = Instant::now();
    let end = options.minutes.map(|minutes| begun + Duration::from_secs(minutes * 60));
    let plan = Plan { start_seed: options.start_seed, seeds, jobs };
    let report = explore(&plan, || end.is_none_or(|end| Instant::now() < end));
    let text = summary(&report, begun.elapsed(), options.edges);
    match &report.failure {
        None => Ok(text + "the contract held in all of them\n"),
        Some(failure) => {
            let trace = written(failure, &options.trace)?;
            Err(Error::Broken(format!("{text}\n{trace}")))
        }
    }
}

fn summary(report: &Report, took: Duration, edges: bool) -> String {
    let per_second = report.played as f64 / took.as_secs_f64().max(0.001);
    let hours = report.virtual_ms / 3_600_000;
    let mut text = format!(
        "{} conversations in {:.1} s: {per_second:.0} a second; {hours} hours of virtual time\n",
        report.played,
        took.as_secs_f64()
    );
    let all = report.coverage.edges().filter(|(edge, _)| edge.must).count();
    let missing = report.coverage.missing();
    let _ = writeln!(text, "edges of the contract's state machines: {} of {all} taken", all - missing.len());
    missing.iter().for_each(|edge| _ = writeln!(text, "  never taken: {edge}"));
    if edges {
        report.coverage.edges().for_each(|(edge, taken)| _ = writeln!(text, "  {taken:>12}  {edge}"));
    }
    text
}

/// What came of weeks.
fn weeks_told(report: &week::Report) -> Result<String, Error> {
    let week::Counted { calls, wishes, effects, restarts, callbacks, unreached, heard, doubted, unknown, removed } = report.counted;
    let text = format!(
        "{} weeks, {} days of virtual time: {calls} calls and {restarts} restarts; {wishes} wishes, {effects} effects, {unreached} requests that could \
         not be sent, {callbacks} results by callback; {heard} closings heard, {doubted} in doubt at some time, {unknown} operations not known, \
         {removed} removed by the store\n",
        report.played,
        report.virtual_ms / 86_400_000,
    );
    match &report.failure {
        None => Ok(text + "each was done once, each closing was heard, and nothing waits\n"),
        Some(week::Failure { seed, plan, violation }) => Err(Error::Broken(format!("{text}\nseed {seed} breaks {violation}\n\n{plan}"))),
    }
}

/// Writes the trace of a failure, and says where it is.
fn written(failure: &Failure, file: &Path) -> Result<String, Error> {
    let about = format!("{}\nfound by seed {}", failure.violation, failure.seed);
    let trace = trace::to_text(&failure.script, &about);
    fs::write(file, &trace).map_err(|error| Error::File { file: file.to_owned(), error })?;
    let events = failure.script.events.len();
    Ok(format!(
        "seed {} breaks {}\n{} events, cut to {events}; the trace is in {}:\n\n{trace}",
        failure.seed,
        failure.violation,
        failure.events_before,
        file.display()
    ))
}

fn replay(file: &Path) -> Result<String, Error> {
    let text = read_text(file, TRACE_BYTES_MAX).map_err(|error| Error::File { file: file.to_owned(), error })?;
    let script = trace::parse(&text).map_err(|error| Error::Trace { file: file.to_owned(), error })?;
    let outcome = play::twice(&script);
    match outcome.violation {
        Some(violation) => Err(Error::Broken(format!("it breaks {violation}"))),
        None => Ok(format!("{} events and {} s of virtual time: the contract holds\n", script.events.len(), outcome.virtual_ms / 1_000)),
    }
}

/// Seeds of a standard run.
const SEEDS: u64 = 20_000;

/// The longest story is a fraction of it.
const TRACE_BYTES_MAX: u64 = 64 << 20;

/// Two weeks.
const MINUTES_MAX: u64 = 14 * 24 * 60;
