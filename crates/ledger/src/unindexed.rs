//! Bindings of the ledger that the index does not have yet.

use std::collections::VecDeque;

use crate::log::record::LedgerEvent;
use crate::log::{LedgerEntry, Position};

/// Bindings that are in the ledger, but not in the index yet.
pub(super) struct Unindexed {
    pub(super) limit: usize,
    /// The first ones, at most `limit`.
    pub(super) next: VecDeque<(LedgerEntry, Position)>,
    /// Whether there are more than `next`.
    pub(super) more: bool,
}

impl Unindexed {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            next: VecDeque::new(),
            more: false,
        }
    }

    /// Takes the bindings of these lines; the index has nothing else.
    pub(super) fn add(&mut self, lines: impl IntoIterator<Item = (LedgerEvent, Position)>) {
        let bindings = lines
            .into_iter()
            .filter_map(|(change, at)| Some((change.binding()?, at)));
        for line in bindings {
            self.more |= self.next.len() >= self.limit;
            if !self.more {
                self.next.push_back(line);
            }
        }
    }
}
