//! The sales of shops in memory, and what the committing thread decides of them.
//!
//! A delivery names its sale by all ids that it knows. Under the ledger's lock, one of them that is known finds the sale, on
//! whichever node it became known, and the others become known too.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use chrono::{DateTime, Utc};

use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::sale_state::{SaleEvent, SaleState};

use crate::log::record::LedgerEvent;
use crate::log::{MAX_NAMES, SaleEntry};

/// What a delivery says of a sale.
#[derive(Clone, Debug)]
pub struct SaleChange {
    /// HMACs of the shop's ids, at least one and at most [`MAX_NAMES`](crate::MAX_NAMES).
    pub names: Vec<Hex128>,
    /// What happened.
    pub event: SaleEvent,
    /// When, by the shop's clock.
    pub at: Option<DateTime<Utc>>,
    /// The shop.
    pub scope: Arc<ChangeScope>,
    /// When the delivery is applied. A shared ledger uses its own clock.
    pub now: DateTime<Utc>,
}

/// The result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaleOutcome {
    /// It is known, durably.
    Recorded {
        /// The sale.
        state: SaleState,
        /// Whether the event counts. One that is older than what is known does not.
        counts: bool,
    },
    /// The names are of two sales that both have licenses. Nothing was changed.
    TwoSales,
}

/// All sales of the ledger.
#[derive(Debug, Default)]
pub(crate) struct SaleTable {
    states: HashMap<Hex128, SaleState>,
    /// From a name to the sale that it was first known of.
    names: HashMap<Hex128, Hex128>,
}

impl SaleTable {
    /// Takes a line.
    pub(crate) fn take(&mut self, entry: &SaleEntry) {
        let id = entry.state.id;
        for name in &entry.names {
            // A sale that turned out to be this one.
            if *name != id {
                self.states.remove(name);
            }
            self.names.insert(*name, id);
        }
        self.states.insert(id, entry.state);
    }

    /// The sale of a name.
    fn id_of(&self, name: Hex128) -> Option<Hex128> {
        let mut id = *self.names.get(&name)?;
        // Sales that turned out to be one form a chain that ends at the one with a state.
        while let Some(next) = self.names.get(&id).filter(|next| **next != id) {
            id = *next;
        }
        Some(id)
    }
}

/// The sales of one group commit, before memory has them.
pub(crate) struct SaleBatch<'m> {
    memory: &'m SaleMemory,
    ahead: Vec<SaleEntry>,
    table: SaleTable,
}

impl<'m> SaleBatch<'m> {
    pub(crate) fn new(memory: &'m SaleMemory) -> Self {
        Self {
            memory,
            ahead: Vec::new(),
            table: SaleTable::default(),
        }
    }

    /// Forgets what was learned and decided.
    pub(crate) fn begin_again(&mut self) {
        self.ahead.clear();
        self.table = SaleTable::default();
    }

    /// Takes the sale of a line.
    pub(crate) fn take(&mut self, entry: SaleEntry) {
        self.table.take(&entry);
        self.ahead.push(entry);
    }

    /// Every line that was taken, in order.
    pub(crate) fn into_entries(self) -> Vec<SaleEntry> {
        self.ahead
    }

    fn of(&self, name: Hex128) -> Option<SaleState> {
        let memory = self.memory.table();
        let mut id = self.table.id_of(name).or_else(|| memory.id_of(name))?;
        // What is ahead may say that a sale of memory is another one.
        while let Some(next) = self
            .table
            .id_of(id)
            .or_else(|| memory.id_of(id))
            .filter(|next| *next != id)
        {
            id = next;
        }
        self.table.states.get(&id).or_else(|| memory.states.get(&id)).copied()
    }

    /// Decides one delivery; its line, if it changes anything, is added to `appended`.
    pub(crate) fn decide(
        &mut self,
        change: &SaleChange,
        clock: Option<DateTime<Utc>>,
        appended: &mut Vec<LedgerEvent>,
    ) -> SaleOutcome {
        let mut known: Vec<SaleState> = Vec::new();
        for name in &change.names {
            known.extend(
                self.of(*name)
                    .filter(|state| !known.iter().any(|other| other.id == state.id)),
            );
        }
        if known.iter().filter(|state| state.is_issued).count() > 1 {
            return SaleOutcome::TwoSales;
        }
        let Some(first) = change.names.first() else {
            return SaleOutcome::TwoSales;
        };
        let united = known.iter().copied().reduce(SaleState::united);
        let before = united.unwrap_or(SaleState::new(*first));
        let (state, counts) = before.after(change.event, change.at);
        let is_new = |name: &&Hex128| self.of(**name).is_none_or(|known| known.id != state.id);
        let mut names: Vec<_> = change.names.iter().filter(is_new).copied().collect();
        names.extend(known.iter().map(|known| known.id).filter(|id| *id != state.id));
        names.sort_unstable();
        names.dedup();
        if !names.is_empty() || known.first() != Some(&state) {
            let entry = SaleEntry {
                state,
                names,
                scope: Arc::clone(&change.scope),
                time: clock.unwrap_or(change.now),
            };
            appended.push(LedgerEvent::Sale(Arc::new(entry.clone())));
            self.take(entry);
        }
        SaleOutcome::Recorded { state, counts }
    }
}

/// The sales in memory. Only the thread of `commit_writer` changes them, after their lines are durable.
#[derive(Default)]
pub(crate) struct SaleMemory(RwLock<SaleTable>);

impl SaleMemory {
    pub(crate) fn new(table: SaleTable) -> Self {
        Self(RwLock::new(table))
    }

    fn table(&self) -> std::sync::RwLockReadGuard<'_, SaleTable> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sale with this id or name.
    pub(crate) fn of(&self, name: Hex128) -> Option<SaleState> {
        let table = self.table();
        table.states.get(&table.id_of(name)?).copied()
    }

    /// Every sale with its names, at most [`MAX_NAMES`] at once.
    pub(crate) fn all(&self) -> Vec<(SaleState, Vec<Hex128>)> {
        let table = self.table();
        let mut names: HashMap<Hex128, Vec<Hex128>> = HashMap::new();
        for name in table.names.keys() {
            if let Some(id) = table.id_of(*name) {
                names.entry(id).or_default().push(*name);
            }
        }
        let of_sale = |(id, state): (&Hex128, &SaleState)| {
            let names = names.get(id).map_or(&[][..], Vec::as_slice);
            names
                .chunks(MAX_NAMES)
                .map(|part| (*state, part.to_vec()))
                .collect::<Vec<_>>()
        };
        table.states.iter().flat_map(of_sale).collect()
    }

    /// Puts durable lines in force.
    pub(crate) fn add(&self, entries: Vec<SaleEntry>) {
        if entries.is_empty() {
            return;
        }
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        entries.iter().for_each(|entry| table.take(entry));
    }

    /// Replaces all sales.
    pub(crate) fn replace(&self, anew: SaleTable) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = anew;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_model::license::LicenseStatus;

    fn change(names: &[u8], event: SaleEvent, second: i64) -> SaleChange {
        SaleChange {
            names: names.iter().map(|number| Hex128([*number; 16])).collect(),
            event,
            at: DateTime::from_timestamp(second, 0),
            scope: Arc::new("shop:stripe".parse().unwrap()),
            now: DateTime::from_timestamp(100, 0).unwrap(),
        }
    }

    /// Decides in one commit each, as several nodes would one after the other.
    fn decide(memory: &SaleMemory, change: &SaleChange) -> (SaleOutcome, usize) {
        let mut appended = Vec::new();
        let mut batch = SaleBatch::new(memory);
        let outcome = batch.decide(change, None, &mut appended);
        memory.add(batch.into_entries());
        (outcome, appended.len())
    }

    fn recorded(outcome: SaleOutcome) -> SaleState {
        match outcome {
            SaleOutcome::Recorded { state, .. } => state,
            SaleOutcome::TwoSales => panic!(),
        }
    }

    #[test]
    fn every_name_of_a_delivery_finds_the_sale_and_a_repetition_writes_nothing() {
        let memory = SaleMemory::default();
        let (first, lines) = decide(&memory, &change(&[1, 2], SaleEvent::Paid, 1));
        assert_eq!((recorded(first).id, lines), (Hex128([1; 16]), 1));
        assert_eq!(decide(&memory, &change(&[1, 2], SaleEvent::Paid, 1)), (first, 0));
        let revoked = SaleEvent::Status(LicenseStatus::Revoked);
        let (second, lines) = decide(&memory, &change(&[3, 2], revoked, 5));
        assert_eq!(
            (recorded(second).id, recorded(second).is_issued, lines),
            (Hex128([1; 16]), true, 1)
        );
        assert_eq!(memory.of(Hex128([3; 16])).unwrap().status, LicenseStatus::Revoked);
        let (late, lines) = decide(&memory, &change(&[3], SaleEvent::Status(LicenseStatus::Active), 4));
        assert_eq!(
            (late, lines),
            (
                SaleOutcome::Recorded {
                    state: recorded(second),
                    counts: false
                },
                0
            )
        );
    }

    #[test]
    fn two_sales_that_are_one_become_one_unless_both_have_licenses() {
        let memory = SaleMemory::default();
        decide(&memory, &change(&[1], SaleEvent::Status(LicenseStatus::Revoked), 9));
        decide(&memory, &change(&[2], SaleEvent::Named, 1));
        decide(&memory, &change(&[3], SaleEvent::Paid, 1));
        let (one, _) = decide(&memory, &change(&[1, 2, 3], SaleEvent::Named, 2));
        let one = recorded(one);
        assert_eq!((one.id, one.status), (Hex128([3; 16]), LicenseStatus::Revoked));
        for name in 1..=3 {
            assert_eq!(memory.of(Hex128([name; 16])), Some(one));
        }
        decide(&memory, &change(&[4], SaleEvent::Paid, 1));
        assert_eq!(
            decide(&memory, &change(&[4, 2], SaleEvent::Named, 3)),
            (SaleOutcome::TwoSales, 0)
        );
    }

    #[test]
    fn what_is_decided_in_one_commit_counts_for_the_next_in_it() {
        let memory = SaleMemory::default();
        let mut appended = Vec::new();
        let mut batch = SaleBatch::new(&memory);
        let first = recorded(batch.decide(&change(&[1, 2], SaleEvent::Paid, 1), None, &mut appended));
        let second = recorded(batch.decide(&change(&[2, 3], SaleEvent::Named, 1), None, &mut appended));
        assert_eq!((first.id, appended.len()), (second.id, 2));
        batch.begin_again();
        assert_eq!(batch.into_entries(), []);
    }
}
