//! A search for a part of the address or the name of customers, without regard to case and accents. It keeps no commit waiting.
//!
//! The embedded store keeps all addresses and names in one piece of memory and reads a million in milliseconds; reading the scattered rows
//! took a second. `postgres::text_rows` keeps them in a table of their own.

use std::collections::{BTreeMap, BTreeSet};

use memchr::memmem::Finder;

use crate::error::StoreError;
use countersign_model::issued_license::Hex128;
use countersign_model::stored_text::StoredText;
use countersign_model::text::folded;

/// Ends each address and each name. No text has this byte, as it is not in UTF-8.
const END: u8 = 0xff;

/// The rows between two pauses of a search: some 50 kB.
const ROWS: usize = 1_024;

/// Where customers are searched. Blocks.
pub trait CustomerSearch: Send + Sync {
    /// The names of at most `most` rows that contain `wanted`, which must be [`folded`]; [`Ledger::texts`](crate::Ledger::texts) has the
    /// rows. Calls `pause` between pieces of some 50 kB of memory.
    ///
    /// # Errors
    /// A database does not answer.
    fn first(&self, wanted: &str, most: usize, pause: &mut dyn FnMut()) -> Result<Vec<Hex128>, StoreError>;
}

/// The addresses and names of the embedded store.
#[derive(Clone, Default)]
pub(crate) struct FoldedCustomers {
    /// The folded address of each row, and the folded name.
    text: Vec<u8>,
    /// The rows in the order of `text`: where each ends, and the name under which it is stored.
    rows: Vec<(usize, Hex128)>,
}

impl FoldedCustomers {
    /// Everything in a table.
    pub(crate) fn of(stored: &BTreeMap<Hex128, StoredText>) -> Self {
        let mut search = Self::default();
        search.add(stored);
        search
    }

    /// Adds rows of customers, those that say an address or a name. None of them may be here already.
    pub(crate) fn add(&mut self, stored: &BTreeMap<Hex128, StoredText>) {
        for (name, stored) in stored.iter().filter(|(_, stored)| has(stored)) {
            for part in folded_parts(stored) {
                self.text.extend_from_slice(part.as_bytes());
                self.text.push(END);
            }
            self.rows.push((self.text.len(), *name));
        }
    }

    /// Takes rows out, so that memory has nothing of them.
    pub(crate) fn remove(&mut self, names: &BTreeSet<Hex128>) {
        if names.is_empty() {
            return;
        }
        let text = &mut self.text;
        let mut before = 0;
        let mut length = 0;
        self.rows.retain_mut(|(end, name)| {
            let row = before..*end;
            before = *end;
            if names.contains(name) {
                return false;
            }
            let start = length;
            length += row.len();
            text.copy_within(row, start);
            *end = length;
            true
        });
        text[length..].fill(0);
        text.truncate(length);
    }
}

impl CustomerSearch for FoldedCustomers {
    fn first(&self, wanted: &str, most: usize, pause: &mut dyn FnMut()) -> Result<Vec<Hex128>, StoreError> {
        let finder = Finder::new(wanted.as_bytes());
        let mut found = Vec::new();
        let mut from = 0;
        for mut rows in self.rows.chunks(ROWS) {
            let end = rows.last().map_or(from, |(end, _)| *end);
            while found.len() < most
                && let Some(at) = finder.find(&self.text[from..end])
            {
                let row = rows.partition_point(|(end, _)| *end <= from + at);
                let Some((end, name)) = rows.get(row) else { break };
                (from, rows) = (*end, &rows[row + 1..]);
                found.push(*name);
            }
            from = end;
            if found.len() == most {
                break;
            }
            pause();
        }
        Ok(found)
    }
}

impl Drop for FoldedCustomers {
    // SECURITY: a copy that a search held while a row was taken out has that row.
    fn drop(&mut self) {
        self.text.fill(0);
    }
}

/// The address and the name of a customer's row, [`folded`], where it says them.
pub(crate) fn folded_parts(stored: &StoredText) -> impl Iterator<Item = String> {
    let parts = stored.customer().map(|row| [&row.address, &row.name]);
    let said = parts.into_iter().flatten().flatten();
    said.map(|part| folded(part))
}

/// Whether a search can find this: a row that says an address or a name.
pub(crate) fn has(stored: &StoredText) -> bool {
    stored
        .customer()
        .is_some_and(|row| row.address.is_some() || row.name.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_model::customer::CustomerRow;
    use countersign_model::issued_license::ChangeScope;

    fn row(address: Option<&str>, name: Option<&str>) -> StoredText {
        StoredText::Customer(Box::new(CustomerRow {
            address: address.map(Box::from),
            by: ChangeScope::operator(),
            mails: None,
            name: name.map(Box::from),
            number: Hex128([0; 16]),
            since: None,
            unsubscribed: false,
        }))
    }

    fn table(rows: impl IntoIterator<Item = StoredText>) -> BTreeMap<Hex128, StoredText> {
        let named = rows.into_iter().enumerate();
        named.map(|(at, row)| (Hex128([at as u8; 16]), row)).collect()
    }

    fn found(search: &FoldedCustomers, wanted: &str) -> Vec<u8> {
        let names = search.first(&folded(wanted), usize::MAX, &mut || {}).unwrap();
        names.iter().map(|name| name.0[0]).collect()
    }

    #[test]
    fn no_text_is_found_over_the_end_of_a_part() {
        let rows = table([
            row(Some("anna@b.example"), Some("Änna")),
            row(None, None),
            StoredText::Text("anna's order".into()),
            row(Some("b@b.example"), Some("Anna B")),
        ]);
        let mut search = FoldedCustomers::of(&rows);
        assert_eq!(found(&search, "ANNA"), [0, 3]);
        assert_eq!(found(&search, "exampleanna"), [0; 0]);
        assert_eq!(found(&search, "annab@"), [0; 0]);
        assert_eq!(found(&search, ""), [0, 3]);
        search.remove(&[Hex128([0; 16])].into());
        assert_eq!(found(&search, "anna"), [3]);
    }

    proptest::proptest! {
        #[test]
        fn a_search_finds_the_rows_that_contain_a_text(
            texts in proptest::collection::vec(("[a-cA-CäßÄ@]{0,4}", "[a-cäÄ ]{0,4}"), 0..12),
            removed in proptest::collection::btree_set(0..12_u8, 0..6),
            wanted in "[a-cA-Cäß@ ]{0,3}",
        ) {
            let mut rows = table(texts.iter().map(|(address, name)| row(Some(address), Some(name))));
            let mut search = FoldedCustomers::of(&rows);
            let removed: BTreeSet<_> = removed.into_iter().map(|number| Hex128([number; 16])).collect();
            search.remove(&removed);
            rows.retain(|name, _| !removed.contains(name));
            let wanted = folded(&wanted);
            let contain = rows.iter().filter(|(_, stored)| stored.customer().is_some_and(|row| row.contains(&wanted)));
            let expected: Vec<_> = contain.map(|(name, _)| *name).collect();
            for most in [0, 1, 2, usize::MAX] {
                let first: Vec<_> = expected.iter().take(most).copied().collect();
                proptest::prop_assert_eq!(search.first(&wanted, most, &mut || {}).unwrap(), first);
            }
        }
    }
}
