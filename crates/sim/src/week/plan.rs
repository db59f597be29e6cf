//! What happens in a week, drawn from a seed before any of it is played: a list from which anything may be cut.

use std::fmt;
use std::ops::Range;

use crate::random::Random;

/// A week.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// For how long the store keeps what is over (ms); for ever where there is none.
    pub keep_ms: Option<i64>,
    /// How long a commit takes (ms).
    pub store_delay_ms: u64,
    /// When one of the tools can't be reached, for a day (ms).
    pub away: Range<u64>,
    /// How long what is accepted takes, one errand after the other (ms).
    pub lasts_ms: Vec<u64>,
    /// What happens, in the order of time.
    pub happenings: Vec<Happening>,
}

/// One thing that happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Happening {
    /// When (ms).
    pub at_ms: u64,
    /// What.
    pub what: What,
}

/// What can happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// Somebody calls.
    Calls(Visit),
    /// The box dies, with so many of the commits that are in flight having reached the disk.
    Dies {
        /// How many.
        kept: u8,
    },
    /// The box is told to stop, and is started again: its calls end, what has not left it is handed back, all is committed.
    Stops,
    /// Somebody sets the clock.
    Clock {
        /// By how much it jumps (ms).
        ms: i64,
        /// Whether it is known to be right from now on.
        synchronised: bool,
    },
    /// A tool says once more what it has said of one of its errands, be it days ago, and after it how far it was.
    SaysAgain {
        /// Of which, of all that it has said.
        which: u8,
    },
}

/// What somebody who calls does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Visit {
    /// Who it is, by their place.
    pub party: u8,
    /// What they want, by the tools' places: all of it in one turn.
    pub wants: Vec<u8>,
    /// Whether they also ask for something of theirs that is under way.
    pub repeats: bool,
    /// Whether they want their flowers cancelled, which are on their way.
    pub cancels: bool,
    /// When they say something that was not called for (ms).
    pub interrupts: Option<u64>,
    /// When they hang up, whatever goes on (ms); where there is none, when all has been told.
    pub leaves: Option<u64>,
}

impl Plan {
    /// The week of a seed.
    pub fn of_seed(seed: u64) -> Self {
        let random = &mut Random::new(seed ^ WEEKS);
        let away = random.below(6 * DAY);
        let mut happenings = Vec::new();
        for day in 0..7 {
            for _ in 0..random.between(2, 6) {
                happenings.push(Happening { at_ms: day * DAY + random.below(DAY), what: What::Calls(visit(random)) });
            }
            for _ in 0..random.below(4) {
                happenings.push(Happening { at_ms: day * DAY + random.below(DAY), what: trouble(random) });
            }
        }
        // Two calls at a time, and what ends the box in the middle of one.
        for _ in 0..random.between(2, 6) {
            let beside = happenings.get(random.below(happenings.len() as u64) as usize).map_or(0, |beside| beside.at_ms);
            // Often while what is wanted is on its way.
            let at_ms = beside + if random.chance(50) { random.between(6_000, 8_000) } else { random.between(200, 40_000) };
            let what = match random.below(3) {
                0 => What::Calls(visit(random)),
                1 => What::Stops,
                _ => What::Dies { kept: random.pick(&[0, 1, 2, 255]) },
            };
            happenings.push(Happening { at_ms, what });
        }
        happenings.sort_by_key(|happening| happening.at_ms);
        Self {
            keep_ms: random.pick(&[None, Some(3_600_000), Some(DAY as i64), Some(3 * DAY as i64)]),
            store_delay_ms: random.pick(&[0, 3, 40]),
            away: away..away + DAY,
            lasts_ms: (0..random.between(5, 12))
                .map(|_| random.pick(&[1_000, 60_000, 3_600_000, DAY, 3 * DAY]) + random.below(60_000))
                .collect(),
            happenings,
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { keep_ms, store_delay_ms, away, lasts_ms, happenings } = self;
        writeln!(f, "a week: keep_ms={keep_ms:?} store_delay_ms={store_delay_ms} away={away:?} lasts_ms={lasts_ms:?}")?;
        happenings.iter().try_for_each(|Happening { at_ms, what }| writeln!(f, "{at_ms} {what:?}"))
    }
}

fn visit(random: &mut Random) -> Visit {
    Visit {
        party: random.byte(0, 2),
        wants: (0..random.pick(&[0, 1, 1, 2, 3, 3])).map(|_| random.byte(0, 6)).collect(),
        repeats: random.chance(25),
        cancels: random.chance(25),
        interrupts: random.chance(30).then(|| random.between(3_000, 25_000)),
        leaves: random.chance(30).then(|| random.between(2_000, 30_000)),
    }
}

fn trouble(random: &mut Random) -> What {
    match random.below(8) {
        0 => What::Dies { kept: random.pick(&[0, 1, 2, 255]) },
        1 => What::Stops,
        2 | 3 => What::Clock { ms: random.pick(&[0, 3_600_000, -3_600_000, DAY as i64, -40_000]), synchronised: random.chance(70) },
        _ => What::SaysAgain { which: random.byte(0, 255) },
    }
}

/// A day (ms).
pub const DAY: u64 = 24 * 3_600_000;

/// The weeks of the seeds have nothing to do with their other stories.
const WEEKS: u64 = 0x7765_656b;
