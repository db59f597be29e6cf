//! The real ledger held against the specification: both go along every transition that there is, and nothing that can be seen
//! of them may differ.

use std::collections::HashSet;

use crate::action::Action;
use crate::alphabet::{Machine, Output, Scope};
use crate::model::{Model, State};
use crate::real::Real;
use crate::specification::{Broken, Specification};

/// What was compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compared {
    /// States of the specification.
    pub states: usize,
    /// Transitions, each taken by both.
    pub transitions: usize,
}

/// Where the two differ.
#[derive(Debug, Clone)]
pub struct Difference {
    /// The way there; the last action is the one that they disagree on.
    pub actions: Vec<Action>,
    /// What came out of the specification, and what is durable in it.
    pub specified: String,
    /// What came out of the ledger, and what is durable in it.
    pub real: String,
}

struct Frame {
    state: State<Specification>,
    real: Real,
    left: Vec<Action>,
    /// The action that led here.
    by: Option<Action>,
}

/// Takes the real ledger along every transition of the specification's graph, each once. With a rule broken in the
/// specification they must differ.
///
/// # Errors
/// The first difference: in what comes out, in what is durable, or in whether a transaction is in flight.
pub fn compare(scope: Scope, broken: Option<Broken>) -> Result<Compared, Box<Difference>> {
    let model = match broken {
        Some(broken) => Model::broken(scope, broken),
        None => Model::<Specification>::new(scope),
    };
    let mut compared = Compared { states: 1, transitions: 0 };
    let start = model.start();
    let mut known = HashSet::from([start.clone()]);
    let mut path = vec![frame(&model, start, Real::new(&scope), None)];
    while let Some(top) = path.last_mut() {
        let Some(action) = top.left.pop() else {
            path.pop();
            continue;
        };
        let mut next = top.state.clone();
        let mut real = top.real.clone();
        compared.transitions += 1;
        if let Some(input) = next.world.act(&scope, broken, &action) {
            let specified = next.machine.give(&scope, &input);
            next.world.see(&specified);
            let (specified, done) = (sorted(specified), sorted(real.give(&scope, &input)));
            next.view = next.machine.view();
            next.world.look(&next.view);
            let same = specified == done && next.view == real.view() && next.machine.in_flight() == real.in_flight();
            if !same {
                let actions = path.iter().filter_map(|frame| frame.by.clone()).chain([action]).collect();
                return Err(Box::new(Difference {
                    actions,
                    specified: format!("{specified:?}\n{:?}", next.view),
                    real: format!("{done:?}\n{:?}", real.view()),
                }));
            }
        }
        if known.insert(next.clone()) {
            compared.states += 1;
            path.push(frame(&model, next, real, Some(action)));
        }
    }
    Ok(compared)
}

fn frame(model: &Model<Specification>, state: State<Specification>, real: Real, by: Option<Action>) -> Frame {
    let left = model.possible(&state);
    Frame { state, real, left, by }
}

/// In which order different things leave the box in one step is nobody's concern.
fn sorted(mut outputs: Vec<Output>) -> Vec<Output> {
    outputs.sort();
    outputs
}
