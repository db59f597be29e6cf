//! The whole graph of a model: which edges of the contract's machines are taken in it, and whether every state has a way out.

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::action::Action;
use crate::alphabet::{Machine, View};
use crate::model::{Model, State};

/// Every state that can be reached, and how.
pub struct Graph {
    /// For each state, by which action and from which one it was first reached.
    reached: Vec<Option<(usize, Action)>>,
    /// For each state, from which ones it is reached without a disturbance.
    undisturbed: Vec<Vec<usize>>,
    /// Whether nothing more is owed in it.
    settled: Vec<bool>,
    /// Transitions in all.
    transitions: usize,
    edges: BTreeSet<String>,
}

impl Graph {
    /// Explores a model to its end, in breadth, so that ways are short.
    pub fn explore<M: Machine + Eq>(model: &Model<M>) -> Self {
        let mut graph = Self { reached: Vec::new(), undisturbed: Vec::new(), settled: Vec::new(), transitions: 0, edges: BTreeSet::new() };
        let mut known: HashMap<State<M>, usize> = HashMap::new();
        let mut waiting = VecDeque::new();
        let start = model.start();
        graph.add(&start, None);
        known.insert(start.clone(), 0);
        waiting.push_back((0, start));
        while let Some((from, state)) = waiting.pop_front() {
            for action in model.possible(&state) {
                let next = model.step(&state, &action);
                graph.transitions += 1;
                graph.edges(&state.view, &next.view);
                let to = known.get(&next).copied().unwrap_or_else(|| {
                    let to = graph.add(&next, Some((from, action.clone())));
                    known.insert(next.clone(), to);
                    waiting.push_back((to, next));
                    to
                });
                if !action.disturbs() {
                    graph.undisturbed.iter_mut().skip(to).take(1).for_each(|before| before.push(from));
                }
            }
        }
        graph
    }

    /// How many states there are.
    pub fn states(&self) -> usize {
        self.reached.len()
    }

    /// How many transitions there are.
    pub fn transitions(&self) -> usize {
        self.transitions
    }

    /// The edges that are taken, as `batch Open Sealed`; what first comes into being is not one.
    pub fn edges_taken(&self) -> &BTreeSet<String> {
        &self.edges
    }

    /// The way to a state from which, were all faults to stop now, nothing would lead to everything being told; none if there
    /// is no such state.
    pub fn dead_end(&self) -> Option<Vec<Action>> {
        let mut alive = self.settled.clone();
        let mut waiting: VecDeque<usize> = (0..alive.len()).filter(|&state| self.settled.get(state) == Some(&true)).collect();
        while let Some(state) = waiting.pop_front() {
            for &before in self.undisturbed.get(state).into_iter().flatten() {
                if let Some(known) = alive.get_mut(before).filter(|known| !**known) {
                    *known = true;
                    waiting.push_back(before);
                }
            }
        }
        alive.iter().position(|alive| !alive).map(|state| self.way_to(state))
    }

    fn way_to(&self, mut state: usize) -> Vec<Action> {
        let mut way = Vec::new();
        while let Some(Some((from, action))) = self.reached.get(state) {
            way.push(action.clone());
            state = *from;
        }
        way.reverse();
        way
    }

    fn add<M: Machine>(&mut self, state: &State<M>, by: Option<(usize, Action)>) -> usize {
        self.reached.push(by);
        self.undisturbed.push(Vec::new());
        self.settled.push(state.view.settled() && !state.machine.in_flight());
        self.reached.len() - 1
    }

    fn edges(&mut self, before: &View, after: &View) {
        let mut edge = |what: &str, from: &dyn std::fmt::Debug, to: &dyn std::fmt::Debug| {
            self.edges.insert(format!("{what} {from:?} {to:?}"));
        };
        if let (Some(from), Some(to)) = (before.batch, after.batch)
            && from != to
        {
            edge("batch", &from, &to);
        }
        for (from, to) in before.operations.iter().flatten().zip(after.operations.iter().flatten()) {
            if from.state != to.state {
                edge("operation", &from.state, &to.state);
            }
        }
        for (from, to) in before.deliveries.iter().zip(&after.deliveries) {
            if from.state != to.state {
                edge("delivery", &from.state, &to.state);
            }
        }
    }
}
