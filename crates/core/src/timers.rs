//! The one table of timers: each with its meaning, its default and what ends it. All in milliseconds.
//!
//! No blocker of the gate may latch: for each there is an entry here that ends it, whatever the rest of the world does.
//!
//! | timer | meaning | what ends it |
//! | --- | --- | --- |
//! | [`MIN_QUIET`] | quiet before a delivery is announced | time; speech or playback starts it anew |
//! | [`WINDOW_MAX`] | how long several deliveries share one window | time |
//! | [`SUSPECTED_MAX`] | suspicion of speech that nothing confirmed | confirmation, retraction, time (taken as a retraction) |
//! | [`GENERATION_SILENT_MAX`] | a model that was asked and says nothing | any event of the response; time (failed) |
//! | [`RENDER_MAX`] | a segment that was given to the voice and has not begun | its first frame; time (given up) |
//! | [`PLAYBACK_STALLED_MAX`] | a playing segment past its end; a playback whose next segment has not begun | its last frame; the next first one; time (given up; no longer playing) |
//! | [`CLEAR_MAX`] | a clear that the voice has not confirmed | the confirmation; time (taken as cleared where it was last seen) |
//! | [`CLAIM_MAX`] | a claim that the ledger has not answered | the answer; time (given back) |
//! | [`CLAIM_AGAIN`] | a claim that was not granted | time; then the gate may claim again |
//! | [`RIDE_HOLD_MAX`] | a response held back for the delivery that is to ride on it | the claim's answer; time (it goes without) |
//! | [`ACCEPT_MAX`] | an acceptance that the ledger has not answered holds back what follows it | the answer; time (what follows goes on) |
//! | [`EVIDENCE_MAX`] | a segment that waits for its report | the report; time (settled without one) |
//! | [`EVIDENCE_LATE_MAX`] | a segment that was settled as uncertain, and may still be reported on | the report; time (forgotten) |
//! | [`EVIDENCE_AFTER_END`] | evidence after the end of a call | time |
//! | [`HANG_UP_TAIL`] | what the far end still plays before we hang up | time |
//! | [`HANG_UP_MAX`] | deliveries told before we hang up | the last of them; time |

/// Quiet before a delivery is announced, by default.
pub const MIN_QUIET: u64 = 650;

/// How long several deliveries share one window.
pub const WINDOW_MAX: u64 = 20_000;

/// How long speech may be suspected without being confirmed. The listener retracts after a second itself.
pub const SUSPECTED_MAX: u64 = 1_250;

/// How long a model may say nothing after it was asked.
pub const GENERATION_SILENT_MAX: u64 = 5_000;

/// How long a segment may take from being given to the voice to its first frame, when nothing is before it.
pub const RENDER_MAX: u64 = 6_000;

/// How long a playing segment may be past its end, and a playing playback without frames (I20).
pub const PLAYBACK_STALLED_MAX: u64 = 1_000;

/// How long the voice may take to confirm a clear.
pub const CLEAR_MAX: u64 = 500;

/// How long the ledger may take to answer a claim. Longer than a stall of a memory card.
pub const CLAIM_MAX: u64 = 5_000;

/// How long after a claim that was not granted the gate may claim again.
pub const CLAIM_AGAIN: u64 = 1_000;

/// How long a response is held back for the delivery that is to ride on it.
pub const RIDE_HOLD_MAX: u64 = 1_000;

/// How long the ledger may take to answer an acceptance before what follows it is spoken first.
pub const ACCEPT_MAX: u64 = 3_000;

/// How long a segment waits for its report. Reports come about every five seconds.
pub const EVIDENCE_MAX: u64 = 15_000;

/// How long after its last frame late evidence of a segment still counts. No report is later.
pub const EVIDENCE_LATE_MAX: u64 = 60_000;

/// How long after the end of a call its evidence is waited for.
pub const EVIDENCE_AFTER_END: u64 = 1_000;

/// What the far end still plays before we hang up.
pub const HANG_UP_TAIL: u64 = 700;

/// How long we stay on the line to tell what is ready before we hang up.
pub const HANG_UP_MAX: u64 = 10_000;
