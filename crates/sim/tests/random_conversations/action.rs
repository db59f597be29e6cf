//! What the outside can do, and how often.

use proptest::prelude::*;

/// What the outside does. Calls, tools and attempts are picked from those that there are.
#[derive(Debug, Clone)]
pub enum Action {
    Pass(u64),
    Speak {
        call: u8,
        ms: u64,
    },
    /// With a pause in the middle.
    SpeakOn {
        call: u8,
    },
    Cough {
        call: u8,
    },
    Digit {
        call: u8,
    },
    Hold {
        call: u8,
        on: bool,
    },
    Floor {
        call: u8,
        on: bool,
    },
    HangUp {
        call: u8,
    },
    Dial {
        party: u8,
    },
    Renegotiate {
        call: u8,
    },
    /// A whole answer of the model, as most are.
    Answer {
        call: u8,
        clauses: u8,
        tools: Vec<u8>,
    },
    Clause {
        call: u8,
        of: u8,
        long: bool,
    },
    Ask {
        call: u8,
        of: u8,
        tool: u8,
        argument: u8,
        same_id: bool,
    },
    /// Something newer is asked for on a topic, on the latest line.
    Newer {
        other: bool,
    },
    Complete {
        call: u8,
        of: u8,
    },
    Fail {
        call: u8,
        of: u8,
    },
    Goodbye {
        call: u8,
    },
    Cancel {
        call: u8,
        tool: Option<u8>,
    },
    Noise {
        call: u8,
    },
    Report {
        which: u8,
        how: u8,
    },
    Callback {
        which: u8,
        how: u8,
    },
    Render {
        call: u8,
        ms: u64,
    },
    Mute {
        call: u8,
        segments: u32,
    },
    Stall {
        call: u8,
        ms: u64,
    },
    Rtcp {
        call: u8,
        on: bool,
    },
    Lose {
        call: u8,
        frames: u64,
    },
    ReportLate {
        call: u8,
        ms: u64,
    },
    StoreDelay(u64),
    StoreFails(bool),
    Crash {
        kept: usize,
    },
}

pub fn action() -> impl Strategy<Value = Action> {
    let call = || 0..2_u8;
    let of = || prop_oneof![6 => Just(0_u8), 1 => Just(1)];
    prop_oneof![
        12 => (1..400_u64).prop_map(Action::Pass),
        12 => (400..6_000_u64).prop_map(Action::Pass),
        8 => (call(), 200..3_000_u64).prop_map(|(call, ms)| Action::Speak { call, ms }),
        2 => call().prop_map(|call| Action::SpeakOn { call }),
        4 => call().prop_map(|call| Action::Cough { call }),
        1 => call().prop_map(|call| Action::Digit { call }),
        1 => (call(), any::<bool>()).prop_map(|(call, on)| Action::Hold { call, on }),
        1 => (call(), any::<bool>()).prop_map(|(call, on)| Action::Floor { call, on }),
        1 => call().prop_map(|call| Action::HangUp { call }),
        3 => prop_oneof![3 => Just(0_u8), 1 => Just(1), 1 => Just(2)].prop_map(|party| Action::Dial { party }),
        1 => call().prop_map(|call| Action::Renegotiate { call }),
        16 => (call(), 0..4_u8, prop::collection::vec(0..8_u8, 0..3))
            .prop_map(|(call, clauses, tools)| Action::Answer { call, clauses, tools }),
        4 => (call(), of(), any::<bool>()).prop_map(|(call, of, long)| Action::Clause { call, of, long }),
        4 => (call(), of(), 0..8_u8, 0..3_u8, any::<bool>())
            .prop_map(|(call, of, tool, argument, same_id)| Action::Ask { call, of, tool, argument, same_id }),
        2 => any::<bool>().prop_map(|other| Action::Newer { other }),
        4 => (call(), of()).prop_map(|(call, of)| Action::Complete { call, of }),
        2 => (call(), of()).prop_map(|(call, of)| Action::Fail { call, of }),
        1 => call().prop_map(|call| Action::Goodbye { call }),
        1 => (call(), prop::option::of(0..8_u8)).prop_map(|(call, tool)| Action::Cancel { call, tool }),
        1 => call().prop_map(|call| Action::Noise { call }),
        14 => (any::<u8>(), 0..7_u8).prop_map(|(which, how)| Action::Report { which, how }),
        3 => (any::<u8>(), 0..3_u8).prop_map(|(which, how)| Action::Callback { which, how }),
        1 => (call(), prop_oneof![Just(0_u64), Just(30), Just(400), Just(3_000), Just(9_000)])
            .prop_map(|(call, ms)| Action::Render { call, ms }),
        1 => (call(), 1..3_u32).prop_map(|(call, segments)| Action::Mute { call, segments }),
        1 => (call(), 100..8_000_u64).prop_map(|(call, ms)| Action::Stall { call, ms }),
        1 => (call(), any::<bool>()).prop_map(|(call, on)| Action::Rtcp { call, on }),
        1 => (call(), 1..200_u64).prop_map(|(call, frames)| Action::Lose { call, frames }),
        1 => (call(), 100..20_000_u64).prop_map(|(call, ms)| Action::ReportLate { call, ms }),
        1 => prop_oneof![Just(0_u64), Just(3), Just(300), Just(4_000), Just(7_000)].prop_map(Action::StoreDelay),
        1 => any::<bool>().prop_map(Action::StoreFails),
        1 => prop_oneof![Just(0_usize), Just(1), Just(usize::MAX)].prop_map(|kept| Action::Crash { kept }),
    ]
}
