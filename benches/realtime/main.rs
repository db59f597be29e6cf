//! Calls that a Realtime service leads, measured from outside, over real SIP: how soon the voice stops when a caller breaks in and what
//! the model then remembers, how long audio is on its way through the box, and what a call costs next to the least that it could cost.
//!
//! `cargo bench --bench realtime -- [barge-in] [cost]`. The box is the real binary. The service and the callers are cheap, and a process
//! apart from it; the floor is one too. Times are of one clock, `CLOCK_MONOTONIC`; they hold the machine's other work.

mod barge_in;
mod clock;
mod cost;
mod floor;
mod service;
mod table;
mod telephone;

use std::path::Path;

use recado::demo::BoxProcess;
use tempfile::TempDir;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, service, calls] = &arguments[..]
        && mode == floor::MODE
    {
        return floor::run(service, calls.parse().expect("a number of calls"));
    }
    // `cargo test --benches` only wants to know that it starts.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let wanted = |name: &str| {
        let mut named = arguments.iter().filter(|argument| !argument.starts_with("--")).peekable();
        named.peek().is_none() || named.any(|argument| argument == name)
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
    println!("load of the machine before: {}", load());
    if wanted("barge-in") {
        runtime.block_on(barge_in::measure());
    }
    if wanted("cost") {
        runtime.block_on(cost::measure());
    }
    println!("load of the machine after: {}", load());
}

/// A box whose calls the service at `url` leads.
async fn box_for(url: &str, more: &str) -> (BoxProcess, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("recado.toml");
    let settings = format!(
        "[box]\nlanguage = 'en'\ndata_dir = '{}'\n[sip]\nlisten = '127.0.0.1:0'\ncalls_max = 64\n[http]\nlisten = '127.0.0.1:0'\n\
         [media]\nports = '20000-20999'\n[log]\nformat = 'json'\nlevel = 'info'\n[model]\nkind = 'realtime'\n\
         [cloud.realtime]\nurl = '{url}'\nmodel = 'speaks'\n{more}\n",
        folder.path().join("data").display()
    );
    std::fs::write(&file, settings).expect("a file");
    (BoxProcess::start(Path::new(env!("CARGO_BIN_EXE_recado")), &file, |_| ()).await.expect("a box"), folder)
}

fn load() -> String {
    let averages = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{} runnable in the last minute, on {processors} processors", averages.split(' ').next().unwrap_or("?"))
}
