//! A call with operations that run, and what is done in most stories about one.

#![allow(dead_code, reason = "each file of scenarios uses its own part")]

use recado_core::ids::OperationId;
use recado_core::policy::ToolPolicy;
use recado_sim::{Rig, policies};
use serde_json::json;

/// Words that take more than two seconds.
pub const LONG: &str = "Le cuento una cosa que es bastante larga";

/// A call in which one operation runs.
pub fn running() -> (Rig, usize, Vec<OperationId>) {
    running_with(&["mesa"], |_| {})
}

/// A call in which these operations run, each asked for by itself, with tools whose policies are changed so.
pub fn running_with(tools: &[&str], change: impl Fn(&mut ToolPolicy)) -> (Rig, usize, Vec<OperationId>) {
    let mut all = policies();
    all.values_mut().for_each(change);
    let mut rig = Rig::new(all);
    let call = rig.quiet_call(Some("ana"));
    let mut ops = Vec::new();
    for tool in tools {
        ops.extend(rig.request(call, &[tool]));
        rig.run(3_000);
    }
    (rig, call, ops)
}

/// It is done.
pub fn done(rig: &mut Rig, operation: OperationId) {
    rig.done(operation, json!({ "value": "ya" }));
}

/// The caller's turn is over, and a response is asked for.
pub fn turn(rig: &mut Rig, call: usize) {
    let asked = rig.calls[call].asked.len();
    rig.caller_speaks(call, 500);
    rig.run_until("the turn ends", |rig| rig.calls[call].asked.len() > asked);
}

/// What the ear heard to its end in a call, in order.
pub fn said(rig: &Rig, call: usize) -> Vec<&str> {
    rig.calls[call].voice.heard().map(|(_, _, text)| text).collect()
}
