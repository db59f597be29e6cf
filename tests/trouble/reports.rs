//! The tools' side of the story: each reports what it has done after a while, until the box has taken it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use recado::demo::{Asked, Tools};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// Reports, for each thing that the tools are asked, that it is done: some time after it was first asked, until the box says 200.
/// What is reported is the same each time; every third one is reported once more.
pub fn reported(tools: Tools, after_ms: [u64; 8]) -> Reports {
    let taken = Arc::new(AtomicBool::new(true));
    let all_taken = Arc::clone(&taken);
    let task = tokio::spawn(async move {
        let mut known: Vec<Known> = Vec::new();
        loop {
            tokio::time::sleep(Duration::from_millis(50)).await;
            for asked in tools.all() {
                let number = known.iter().position(|known| known.told == told(&asked)).unwrap_or(known.len());
                if number == known.len() {
                    let due = Instant::now() + Duration::from_millis(after_ms[number % after_ms.len()]);
                    known.push(Known { told: told(&asked).to_owned(), due, left: if number.is_multiple_of(3) { 2 } else { 1 } });
                }
                let known = &mut known[number];
                // A box that is down, or has just been killed, does not answer: later, then.
                if known.left > 0 && Instant::now() >= known.due && asked.report(&report()).await.is_ok_and(|status| status == 200) {
                    known.left -= 1;
                }
            }
            all_taken.store(known.iter().all(|known| known.left == 0), Ordering::Relaxed);
        }
    });
    Reports { task, taken }
}

/// Reports under way, until dropped.
pub struct Reports {
    task: JoinHandle<()>,
    /// Whether the box has taken all of them.
    taken: Arc<AtomicBool>,
}

impl Reports {
    /// Waits until the box has taken every report, or for so long that something must be wrong.
    pub async fn are_taken(&self) {
        let begun = Instant::now();
        while !self.taken.load(Ordering::Relaxed) && begun.elapsed() < TAKEN_WITHIN {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Reports {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What was asked for, and when it is reported.
struct Known {
    told: String,
    due: Instant,
    /// Reports that the box has not taken yet.
    left: u32,
}

/// The sentence that its closing is to say.
pub fn told(asked: &Asked) -> &str {
    asked.arguments["told"].as_str().unwrap_or_default()
}

fn report() -> Value {
    json!({ "status": "succeeded", "result": { "done": true } })
}

/// A report is due within seconds of the request, and is taken at once by a box that is up.
const TAKEN_WITHIN: Duration = Duration::from_secs(30);
