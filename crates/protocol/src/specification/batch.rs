//! A batch: when it drains and closes, and how a correction takes the place of what nobody is being told.

use recado_core::ledger::{BatchState, DeliveryKind, DeliveryState};

use super::delivery::Delivery;
use super::operation::Operation;
use crate::alphabet::View;

/// A batch with everything that closes with it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Batch {
    pub state: BatchState,
    /// By their places; none that has not been accepted.
    pub operations: Vec<Option<Operation>>,
    /// In the order of their sequence.
    pub deliveries: Vec<Delivery>,
}

impl Batch {
    pub fn new(operations: usize) -> Self {
        Self { state: BatchState::Open, operations: vec![None; operations], deliveries: Vec::new() }
    }

    pub fn view(&self) -> View {
        View {
            batch: Some(self.state),
            operations: self.operations.iter().map(|operation| operation.as_ref().map(|operation| operation.row)).collect(),
            deliveries: self.deliveries.iter().map(|delivery| delivery.row.clone()).collect(),
        }
    }

    /// Everything of it that is written.
    pub fn rows(&self) -> (View, Vec<(bool, bool)>) {
        (self.view(), self.operations.iter().flatten().map(|operation| (operation.error, operation.result_missing)).collect())
    }

    pub fn operation(&mut self, operation: usize) -> Option<&mut Operation> {
        self.operations.get_mut(operation).and_then(Option::as_mut)
    }

    /// What a power cut leaves of it.
    pub fn restored(&mut self) {
        self.operations.iter_mut().flatten().for_each(Operation::restored);
        self.deliveries.iter_mut().for_each(Delivery::restored);
    }

    /// Whether a delivery may be claimed: it waits, and no later one is just being told.
    pub fn claimable(&self, delivery: usize) -> bool {
        self.deliveries.get(delivery).is_some_and(Delivery::waits) && self.deliveries.iter().skip(delivery + 1).all(|d| d.claim.is_none())
    }

    /// Whether time changes something of it now.
    pub fn restless(&self) -> bool {
        self.complete() || self.operations.iter().flatten().any(Operation::restless)
    }

    fn complete(&self) -> bool {
        self.state == BatchState::Sealed && self.operations.iter().flatten().all(Operation::settled)
    }

    /// One edge at a time, and only what is sealed durably drains.
    pub fn follow(&mut self, before: Option<BatchState>) {
        if before == Some(BatchState::Sealed) && self.complete() {
            self.state = BatchState::Drained;
            let all = self.accepted().into_iter().map(|operation| (operation, false)).collect();
            self.deliveries.push(Delivery::ready(DeliveryKind::Final, all));
        }
        let told = self.deliveries.iter().all(|delivery| delivery.row.state.terminal());
        if before == Some(BatchState::Drained) && self.state == BatchState::Drained && told {
            self.state = BatchState::Closed;
        }
    }

    /// An operation that the closing calls unknown is known now.
    pub fn correct(&mut self, operation: usize) {
        if self.deliveries.iter().any(|delivery| delivery.row.kind == DeliveryKind::Final) {
            self.deliveries.push(Delivery::ready(DeliveryKind::Correction, vec![(operation, false)]));
        }
    }

    /// A delivery that waits although a later correction is about the same would tell what is no longer true: whatever of both
    /// is not heard yet becomes one delivery, and those that wait are superseded by it.
    pub fn fold(&mut self) {
        while let Some(old) = (0..self.deliveries.len()).find(|&old| self.claimable(old) && !self.later(old).is_empty()) {
            let later = self.later(old);
            let newest_first = || later.iter().rev().chain([&old]);
            let clause = |delivery: usize, of: usize| self.deliveries.get(delivery)?.row.clauses.iter().find(|(about, _)| *about == of);
            let merged: Vec<(usize, bool)> =
                self.accepted().into_iter().filter_map(|of| newest_first().find_map(|&delivery| clause(delivery, of).copied())).collect();
            let last = later.last().copied().unwrap_or(old);
            let enough = merged.iter().all(|&(of, heard)| heard || clause(last, of).is_some());
            let by = if enough { last } else { self.deliveries.len() };
            if !enough {
                self.deliveries.push(Delivery::ready(DeliveryKind::Correction, merged));
            }
            for index in later.into_iter().chain([old]).filter(|&index| index != by) {
                if let Some(delivery) = self.deliveries.get_mut(index).filter(|delivery| delivery.waits()) {
                    delivery.end(DeliveryState::Superseded);
                }
            }
        }
    }

    /// Deliveries after this one that are about the same and stand.
    fn later(&self, old: usize) -> Vec<usize> {
        let about = |delivery: &Delivery| delivery.row.clauses.iter().map(|(of, _)| *of).collect::<Vec<usize>>();
        let Some(of) = self.deliveries.get(old).map(about) else { return Vec::new() };
        let stands =
            |delivery: &Delivery| delivery.row.state != DeliveryState::Superseded && about(delivery).iter().any(|one| of.contains(one));
        (old + 1..self.deliveries.len()).filter(|&index| self.deliveries.get(index).is_some_and(stands)).collect()
    }

    /// Drops what was made and replaced in one transaction: nobody has seen it.
    pub fn drop_unseen(&mut self, durable: usize) {
        let mut index = 0;
        self.deliveries.retain(|delivery| {
            index += 1;
            index <= durable || delivery.row.state != DeliveryState::Superseded
        });
    }

    /// The places of the operations that it has.
    fn accepted(&self) -> Vec<usize> {
        (0..self.operations.len()).filter(|&of| self.operations.get(of).is_some_and(Option::is_some)).collect()
    }
}
