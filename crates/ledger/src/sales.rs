//! What shops say of their sales, and what the committing thread decides.
//!
//! A delivery names its sale by all ids that it knows. Under the ledger's lock, one of them that is known finds the sale, on
//! whichever node it became known, and the others become known too.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::sale_state::{SaleEvent, SaleState};

use crate::command::{CommitTurn, LedgerCommand};
use crate::draft::CommitDraft;
use crate::log::SaleEntry;
use crate::log::record::LedgerEvent;

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

/// The sale of a name, as this commit knows it.
fn known(draft: &CommitDraft<'_>, name: Hex128) -> Option<SaleState> {
    let ahead = &draft.events.sales;
    let memory = &draft.memory.events().sales;
    let id_of = |name| ahead.id_of(name).or_else(|| memory.id_of(name));
    let mut id = id_of(name)?;
    // What is ahead may say that a sale of memory is another one.
    while let Some(next) = id_of(id).filter(|next| *next != id) {
        id = next;
    }
    ahead.state(id).or_else(|| memory.state(id))
}

impl LedgerCommand for SaleChange {
    type Outcome = SaleOutcome;
    const TURN: CommitTurn = CommitTurn::Sale;
    const MOST_LINES: usize = 1;

    fn decide(&self, draft: &mut CommitDraft<'_>) -> SaleOutcome {
        let mut known: Vec<SaleState> = Vec::new();
        for name in &self.names {
            let state = self::known(draft, *name);
            known.extend(state.filter(|state| !known.iter().any(|other| other.id == state.id)));
        }
        if known.iter().filter(|state| state.is_issued).count() > 1 {
            return SaleOutcome::TwoSales;
        }
        let Some(first) = self.names.first() else {
            return SaleOutcome::TwoSales;
        };
        let united = known.iter().copied().reduce(SaleState::united);
        let before = united.unwrap_or(SaleState::new(*first));
        let (state, counts) = before.after(self.event, self.at);
        let is_new = |name: &&Hex128| self::known(draft, **name).is_none_or(|known| known.id != state.id);
        let mut names: Vec<_> = self.names.iter().filter(is_new).copied().collect();
        names.extend(known.iter().map(|known| known.id).filter(|id| *id != state.id));
        names.sort_unstable();
        names.dedup();
        if !names.is_empty() || known.first() != Some(&state) {
            let entry = SaleEntry {
                state,
                names,
                scope: Arc::clone(&self.scope),
                time: draft.now(self.now),
            };
            draft.append(LedgerEvent::Sale(Arc::new(entry)));
        }
        SaleOutcome::Recorded { state, counts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger_tables::LedgerTables;
    use crate::memory::BindingMemory;
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
    fn decide(memory: &BindingMemory, change: &SaleChange) -> (SaleOutcome, usize) {
        let mut draft = CommitDraft::new(memory);
        let outcome = change.decide(&mut draft);
        let lines = draft.appended().len();
        draft.put_in_force();
        (outcome, lines)
    }

    fn recorded(outcome: SaleOutcome) -> SaleState {
        match outcome {
            SaleOutcome::Recorded { state, .. } => state,
            SaleOutcome::TwoSales => panic!(),
        }
    }

    #[test]
    fn every_name_of_a_delivery_finds_the_sale_and_a_repetition_writes_nothing() {
        let memory = BindingMemory::new(LedgerTables::default());
        let (first, lines) = decide(&memory, &change(&[1, 2], SaleEvent::Paid, 1));
        assert_eq!((recorded(first).id, lines), (Hex128([1; 16]), 1));
        assert_eq!(decide(&memory, &change(&[1, 2], SaleEvent::Paid, 1)), (first, 0));
        let revoked = SaleEvent::Status(LicenseStatus::Revoked);
        let (second, lines) = decide(&memory, &change(&[3, 2], revoked, 5));
        assert_eq!(
            (recorded(second).id, recorded(second).is_issued, lines),
            (Hex128([1; 16]), true, 1)
        );
        assert_eq!(
            memory.events().sales.of(Hex128([3; 16])).unwrap().status,
            LicenseStatus::Revoked
        );
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
        let memory = BindingMemory::new(LedgerTables::default());
        decide(&memory, &change(&[1], SaleEvent::Status(LicenseStatus::Revoked), 9));
        decide(&memory, &change(&[2], SaleEvent::Named, 1));
        decide(&memory, &change(&[3], SaleEvent::Paid, 1));
        let (one, _) = decide(&memory, &change(&[1, 2, 3], SaleEvent::Named, 2));
        let one = recorded(one);
        assert_eq!((one.id, one.status), (Hex128([3; 16]), LicenseStatus::Revoked));
        for name in 1..=3 {
            assert_eq!(memory.events().sales.of(Hex128([name; 16])), Some(one));
        }
        decide(&memory, &change(&[4], SaleEvent::Paid, 1));
        assert_eq!(
            decide(&memory, &change(&[4, 2], SaleEvent::Named, 3)),
            (SaleOutcome::TwoSales, 0)
        );
    }

    #[test]
    fn what_is_decided_in_one_commit_counts_for_the_next_in_it() {
        let memory = BindingMemory::new(LedgerTables::default());
        let mut draft = CommitDraft::new(&memory);
        let first = recorded(change(&[1, 2], SaleEvent::Paid, 1).decide(&mut draft));
        let second = recorded(change(&[2, 3], SaleEvent::Named, 1).decide(&mut draft));
        assert_eq!((first.id, draft.appended().len()), (second.id, 2));
    }
}
