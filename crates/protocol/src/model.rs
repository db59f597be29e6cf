//! The model: a machine in the world, with what must always hold.

use stateright::Property;

use crate::action::{Action, actions};
use crate::alphabet::{Machine, Scope, View};
use crate::laws::laws;
use crate::specification::{Broken, Specification};
use crate::world::World;

/// A machine in the world.
#[derive(Debug, Clone)]
pub struct Model<M> {
    /// How large the world is.
    pub scope: Scope,
    /// The rule that is broken.
    pub broken: Option<Broken>,
    initial: M,
}

/// One state of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State<M> {
    /// The box.
    pub machine: M,
    /// What is around it.
    pub world: World,
    /// What is durable in it.
    pub view: View,
}

impl<M: Machine> Model<M> {
    /// The protocol as it should be.
    pub fn new(scope: Scope) -> Self {
        Self { scope, broken: None, initial: M::new(&scope) }
    }

    /// Everything that can happen in a state.
    pub fn possible(&self, state: &State<M>) -> Vec<Action> {
        let mut possible = Vec::new();
        actions(&self.scope, self.broken, state, &mut possible);
        possible
    }

    /// The first state.
    pub fn start(&self) -> State<M> {
        State { machine: self.initial.clone(), world: World::new(&self.scope), view: self.initial.view() }
    }

    /// The state after an action.
    pub fn step(&self, state: &State<M>, action: &Action) -> State<M> {
        let mut next = state.clone();
        if let Some(input) = next.world.act(&self.scope, self.broken, action) {
            let outputs = next.machine.give(&self.scope, &input);
            next.world.see(&outputs);
            next.view = next.machine.view();
            next.world.look(&next.view);
        }
        next
    }
}

impl Model<Specification> {
    /// The protocol with one rule broken.
    pub fn broken(scope: Scope, broken: Broken) -> Self {
        Self { scope, broken: Some(broken), initial: Specification::broken(&scope, Some(broken)) }
    }
}

impl<M: Machine> stateright::Model for Model<M> {
    type State = State<M>;
    type Action = Action;

    fn init_states(&self) -> Vec<State<M>> {
        vec![self.start()]
    }

    fn actions(&self, state: &State<M>, possible: &mut Vec<Action>) {
        actions(&self.scope, self.broken, state, possible);
    }

    fn next_state(&self, state: &State<M>, action: Action) -> Option<State<M>> {
        Some(self.step(state, &action))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        laws().into_iter().map(|(name, holds)| Property::always(name, holds)).collect()
    }
}
