//! Callers who break in, again and again: when the voice stops, when the service is told, and whether what the model then remembers is
//! what the caller has heard. And how long the first speech of an answer is on its way.

use std::path::Path;
use std::time::Duration;

use recado::surface::speech::wav;

use super::box_for;
use super::clock::now_us;
use super::service::{Manner, Noted, Service, What};
use super::table;
use super::telephone::{Came, Telephone};

/// Speaks at twice the pace of speech, longer than anybody listens here.
const SPEAKS: Manner = Manner { pace: 2, answer_ms: 40_000 };
/// Calls at once.
const CALLS: usize = 4;

/// One trial.
struct Trial {
    /// When the caller's first loud packet went, and the last packet of what was said.
    spoke_us: u64,
    over_us: u64,
}

/// What came of them.
#[derive(Default)]
struct Found {
    stop_ms: Vec<f64>,
    truncated_ms: Vec<f64>,
    error_ms: Vec<f64>,
    asked_ms: Vec<f64>,
    first_ms: Vec<f64>,
    lost: usize,
}

pub async fn measure() {
    let trials = std::env::var("RECADO_BENCH_TRIALS").ok().and_then(|trials| trials.parse().ok()).unwrap_or(100_usize);
    let service = Service::start(SPEAKS).await;
    let (boxed, _folder) = box_for(&service.url(), "").await;
    let mut telephones = Vec::new();
    for n in 0..CALLS {
        // The connections of the service come in the order of the calls.
        telephones.push(Telephone::dial(boxed.sip, &format!("60012345{n}")).await);
        while service.noted().iter().filter(|noted| noted.what == What::FirstDelta).count() <= n {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    let mut talks = tokio::task::JoinSet::new();
    for (n, telephone) in telephones.into_iter().enumerate() {
        talks.spawn(async move {
            let mut done = Vec::new();
            for trial in 0..trials.div_ceil(CALLS) {
                done.push(break_in(&telephone, n, trial).await);
            }
            let came = telephone.came();
            telephone.hang_up().await;
            (n, done, came)
        });
    }
    let mut found = Found::default();
    while let Some(talk) = talks.join_next().await {
        let (n, done, came) = talk.expect("no panic");
        let noted: Vec<Noted> = service.noted().into_iter().filter(|noted| noted.connection == n).collect();
        judge(&mut found, &done, &came, &noted);
    }
    table::head(&format!("a caller breaks in ({CALLS} calls at once)"));
    table::distribution("first loud packet -> last audible packet of the answer", "ms", &found.stop_ms);
    table::distribution("first loud packet -> conversation.item.truncate", "ms", &found.truncated_ms);
    table::distribution("audio_end_ms less what the caller's recording holds", "ms", &found.error_ms);
    table::distribution("last packet of what is said -> response.create", "ms", &found.asked_ms);
    table::distribution("first audio delta -> first audible packet", "ms", &found.first_ms);
    println!("trials of which something did not come: {}", found.lost);
}

/// Listens for a while, and breaks in.
async fn break_in(telephone: &Telephone, n: usize, trial: usize) -> Trial {
    let said = clip(n + trial);
    let heard_from = now_us();
    while telephone.came().iter().filter(|came| came.loud && came.at_us > heard_from).count() < 50 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // At any moment of a frame and of a piece.
    tokio::time::sleep(Duration::from_micros((n * 7_919 + trial * 104_729) as u64 % 900_000)).await;
    let spoke_us = telephone.say(&said).await;
    let over_us = spoke_us + (said.len() / 8) as u64 * 1_000;
    tokio::time::sleep(Duration::from_micros(over_us.saturating_sub(now_us()))).await;
    Trial { spoke_us, over_us }
}

fn judge(found: &mut Found, trials: &[Trial], came: &[Came], noted: &[Noted]) {
    let after = |at_us: u64, is: fn(&What) -> bool| noted.iter().find(|noted| noted.at_us > at_us && is(&noted.what)).copied();
    for (trial, next) in trials.iter().zip(trials.iter().skip(1)) {
        let ms = |at_us: u64| (at_us as f64 - trial.spoke_us as f64) / 1_000.0;
        let truncated = after(trial.spoke_us, |what| matches!(what, What::Truncated { .. }));
        let asked = after(trial.spoke_us, |what| *what == What::Asked);
        let delta = noted.iter().rfind(|noted| noted.at_us < trial.spoke_us && noted.what == What::FirstDelta);
        let next_delta = after(trial.spoke_us, |what| *what == What::FirstDelta);
        let (Some(truncated), Some(asked), Some(delta), Some(next_delta)) = (truncated, asked, delta, next_delta) else {
            found.lost += 1;
            continue;
        };
        if next_delta.at_us > next.spoke_us {
            found.lost += 1;
            continue;
        }
        let loud = |from_us: u64, to_us: u64| came.iter().filter(move |came| came.loud && came.at_us > from_us && came.at_us < to_us);
        let last_us = loud(trial.spoke_us, next_delta.at_us).next_back().map_or(trial.spoke_us, |came| came.at_us);
        found.stop_ms.push(ms(last_us));
        found.truncated_ms.push(ms(truncated.at_us));
        found.asked_ms.push((asked.at_us as f64 - trial.over_us as f64) / 1_000.0);
        if let What::Truncated { audio_end_ms } = truncated.what {
            let heard_ms = loud(delta.at_us, next_delta.at_us).count() as f64 * 20.0;
            found.error_ms.push(audio_end_ms as f64 - heard_ms);
        }
        if let Some(first) = loud(next_delta.at_us, u64::MAX).next() {
            found.first_ms.push((first.at_us - next_delta.at_us) as f64 / 1_000.0);
        }
    }
}

/// A second of what somebody says, from the first loud packet on.
fn clip(n: usize) -> Vec<i16> {
    const SAID: [&str; 8] =
        ["en/interruption", "es/request", "en/again", "es/small_talk", "en/second_request", "es/interruption", "en/request", "es/again"];
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/demo/speech/{}.wav", SAID[n % SAID.len()]));
    let samples = wav::load(&file).expect("a recording");
    let loud = |frame: &[i16]| frame.iter().map(|sample| i64::from(*sample).pow(2)).sum::<i64>() > 500_i64.pow(2) * 160;
    let begins = samples.chunks(160).position(loud).expect("somebody speaks") * 160;
    samples[begins..begins + 160 * 60].to_vec()
}
