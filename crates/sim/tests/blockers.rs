//! Every blocker of the gate, and what ends it: its timers whatever else fails, or only the outside. Nothing latches.

use recado_core::conversation::{Acoustic, Identity, Input};
use recado_core::gate::Blocker;
use recado_core::policy::Audience;
use recado_core::timers::{End, Timer, Timers, ends};
use recado_sim::{Rig, policies};
use serde_json::json;

/// A box in which one closing waits for this, and what ends the wait where time does not.
struct Waiting {
    rig: Rig,
    call: usize,
    outside: fn(&mut Rig, usize),
}

fn nothing(_: &mut Rig, _: usize) {}

/// Edges of the caller's clock, and then no more: the listener hangs.
fn stands_in(rig: &mut Rig, call: usize, states: &[Acoustic]) {
    let now = rig.now;
    rig.calls[call].edges.extend(states.iter().zip(1..).map(|(to, step)| (now + 50 * step, *to, now + 50 * step)));
    rig.run(50 * (states.len() as u64) + 20);
}

fn waiting_for(blocker: Blocker, timers: Timers) -> Waiting {
    let mut tools = policies();
    if blocker == Blocker::IdentityUnknown {
        tools.get_mut("mesa").unwrap().audience = Audience::VerifiedParty;
    }
    let mut rig = Rig::new(tools);
    rig.settings.timers = timers;
    let call = rig.quiet_call(Some("ana"));
    let ops = rig.request(call, &["mesa"]);
    rig.run(3_000);
    let done = |rig: &mut Rig| {
        rig.done(ops[0], json!({ "value": "ya" }));
        rig.run(20);
    };
    let mut outside: fn(&mut Rig, usize) = nothing;
    match blocker {
        Blocker::NoSession => {
            rig.hang_up(call);
            done(&mut rig);
            outside = |rig, _| {
                rig.quiet_call(Some("ana"));
            };
        }
        Blocker::IdentityUnknown => {
            done(&mut rig);
            outside = |rig, call| rig.input(call, Input::Identified(Identity::Verified));
        }
        Blocker::OnHold => {
            rig.hold(call, true);
            done(&mut rig);
            outside = |rig, call| rig.hold(call, false);
        }
        Blocker::FloorHeld => {
            rig.calls[call].floor_held = true;
            rig.input(call, Input::FloorHeld(true));
            done(&mut rig);
        }
        Blocker::SpeechSuspected => {
            stands_in(&mut rig, call, &[Acoustic::Suspected]);
            done(&mut rig);
        }
        Blocker::CallerSpeaking => {
            stands_in(&mut rig, call, &[Acoustic::Suspected, Acoustic::Speaking]);
            done(&mut rig);
        }
        Blocker::SpeechTrailing => {
            stands_in(&mut rig, call, &[Acoustic::Suspected, Acoustic::Speaking, Acoustic::Trailing]);
            done(&mut rig);
        }
        Blocker::TurnOpen => {
            rig.caller_speaks(call, 500);
            rig.run_until("the turn ends", |rig| rig.calls[call].asked.len() == 3);
            done(&mut rig);
        }
        Blocker::PlaybackActive => {
            rig.caller_speaks(call, 500);
            rig.run_until("the turn ends", |rig| rig.calls[call].asked.len() == 3);
            rig.reply(call, &["Le cuento una cosa que es bastante larga"]);
            rig.run(500);
            // The voice pauses, and never goes on.
            rig.calls[call].voice.deaf = u32::MAX;
            rig.cough(call);
            rig.run(400);
            done(&mut rig);
        }
        Blocker::ReplyUnfinished => {
            rig.caller_speaks(call, 500);
            rig.run_until("the turn ends", |rig| rig.calls[call].asked.len() == 3);
            let response = rig.last_response(call);
            rig.say(call, response, "Veamos");
            rig.run(1_500);
            done(&mut rig);
        }
        Blocker::QuietTooShort => {
            rig.caller_speaks(call, 500);
            rig.run_until("the turn ends", |rig| rig.calls[call].asked.len() == 3);
            rig.reply(call, &["Dígame"]);
            rig.run_until("it has been said", |rig| rig.calls[call].voice.heard().count() == 3);
            rig.run(20);
            done(&mut rig);
        }
        Blocker::RideOnly => {
            done(&mut rig);
            // A hold cuts it and leaves no turn behind.
            for _ in 0..3 {
                rig.run_until("it sounds", |rig| rig.calls[call].voice.far_end.ear.last().is_some_and(|(at, _)| *at == rig.now));
                rig.run(200);
                rig.hold(call, true);
                rig.run(600);
                rig.hold(call, false);
            }
            outside = |rig, call| {
                rig.caller_speaks(call, 300);
                rig.run(1_500);
                rig.reply(call, &["Dígame"]);
            };
        }
        Blocker::DeliveryActive => {
            // The store takes the claim of the one before, and does not answer.
            let other = rig.request(call, &["taxi"]);
            rig.run(3_000);
            rig.hold(call, true);
            rig.done(other[0], json!({ "value": "ya" }));
            done(&mut rig);
            rig.run(100);
            rig.store.delay_ms = 20_000;
            rig.hold(call, false);
            rig.run(2_000);
        }
    }
    Waiting { rig, call, outside }
}

#[test]
fn every_blocker_is_ended_by_what_the_table_of_timers_says() {
    for (percent, &blocker) in [50, 100, 200].into_iter().flat_map(|percent| Blocker::ALL.iter().map(move |blocker| (percent, blocker))) {
        // Whatever the timers are.
        let ms = |timer: Timer| timer.default_ms() * percent / 100;
        let timers = Timer::ALL.iter().fold(Timers::default(), |timers, timer| timers.with(*timer, ms(*timer)));
        let Waiting { mut rig, call, outside } = waiting_for(blocker, timers);
        let seen = |rig: &Rig| rig.calls[call].decisions.iter().any(|decision| decision.blocker == Some(blocker));
        match ends(blocker) {
            End::Timers(timers) => {
                assert!(seen(&rig), "{blocker:?} is not what it waits for: {:?}", rig.calls[call].decisions);
                let patience: u64 = timers.iter().map(|timer| ms(*timer)).sum();
                rig.run(patience + 40_000);
            }
            End::Outside(what) => {
                rig.run(100_000);
                assert!(seen(&rig), "{blocker:?} is not what it waits for: {:?}", rig.calls[call].decisions);
                assert!(!rig.closings_heard().iter().any(|text| text.contains("mesa")), "{blocker:?} ends without {what}");
                outside(&mut rig, call);
                rig.run(30_000);
            }
        }
        let told = rig.closings_heard();
        assert!(told.iter().any(|text| text.contains("mesa")), "{blocker:?} latches: {told:?}, {:?}", rig.calls[call].decisions);
    }
}
