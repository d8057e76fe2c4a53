//! Rows of customers in the table of texts: which of them is newest, and what is written.
//!
//! A row has the HMAC of an address as its name, so one address is one customer, on all nodes. It is written before the line of a license
//! that has the customer's number. An erased customer has no row: nothing reminds of the address.

use std::collections::{BTreeMap, HashMap};

use crate::texts::FoundTexts;
use countersign_model::customer::{CustomerRow, NewCustomer};
use countersign_model::issued_license::Hex128;
use countersign_model::stored_text::StoredText;

/// Sorts the rows by age, the newest first. A customer with several addresses gets mails at that of the first row.
pub(crate) fn newest_first(mut rows: Vec<CustomerRow>) -> Vec<CustomerRow> {
    rows.sort_by_key(|row| std::cmp::Reverse(row.since));
    rows
}

/// The rows to write for customers who may be known, and the number of each. `known` has the rows with their names.
pub(crate) fn rows_of(known: FoundTexts, new: &[NewCustomer]) -> (BTreeMap<Hex128, StoredText>, Vec<Hex128>) {
    let of_customer = |(name, stored): (Hex128, StoredText)| Some((name, stored.customer()?.clone()));
    let mut known: HashMap<Hex128, CustomerRow> = known.into_iter().filter_map(of_customer).collect();
    let mut rows = BTreeMap::new();
    let mut numbers = Vec::new();
    for NewCustomer { names, row } in new {
        let found = names.iter().find_map(|name| known.get(name));
        let row = found.map_or_else(|| row.clone(), |found| found.with(row));
        numbers.push(row.number);
        // Also where a retired secret named it.
        if let Some(name) = names.first()
            && known.get(name) != Some(&row)
        {
            rows.insert(*name, StoredText::Customer(Box::new(row.clone())));
            known.insert(*name, row);
        }
    }
    (rows, numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_model::issued_license::ChangeScope;

    fn row(number: u8, address: Option<&str>) -> CustomerRow {
        CustomerRow {
            address: address.map(Box::from),
            by: ChangeScope::operator(),
            mails: None,
            name: None,
            number: Hex128([number; 16]),
            since: None,
            unsubscribed: false,
        }
    }

    fn new(names: &[u8], row: CustomerRow) -> NewCustomer {
        NewCustomer {
            names: names.iter().map(|name| Hex128([*name; 16])).collect(),
            row,
        }
    }

    fn kept(row: CustomerRow) -> StoredText {
        StoredText::Customer(Box::new(row))
    }

    #[test]
    fn a_known_customer_keeps_the_number_and_gets_what_is_missing() {
        let known = vec![(Hex128([1; 16]), kept(row(10, None)))];
        let (rows, numbers) = rows_of(known, &[new(&[1], row(11, Some("a@b.c")))]);
        assert_eq!(numbers, [Hex128([10; 16])]);
        assert_eq!(rows[&Hex128([1; 16])], kept(row(10, Some("a@b.c"))));
        let known = rows.into_iter().collect();
        let (rows, numbers) = rows_of(known, &[new(&[1], row(11, Some("A@b.c")))]);
        assert_eq!((rows.len(), numbers), (0, vec![Hex128([10; 16])]));
    }

    #[test]
    fn a_row_under_a_retired_secret_is_written_anew_and_two_of_one_request_are_one_customer() {
        let known = vec![(Hex128([1; 16]), kept(row(10, Some("a@b.c"))))];
        let again = new(&[2, 1], row(11, Some("a@b.c")));
        let stranger = new(&[3], row(12, Some("d@b.c")));
        let twice = new(&[3], row(13, Some("d@b.c")));
        let (rows, numbers) = rows_of(known, &[again, stranger, twice]);
        assert_eq!(numbers, [10, 12, 12].map(|number| Hex128([number; 16])));
        assert_eq!(
            rows.keys().copied().collect::<Vec<_>>(),
            [2, 3].map(|name| Hex128([name; 16]))
        );
    }

    #[test]
    fn of_several_addresses_the_one_that_was_named_last_comes_first() {
        let since = |seconds: i64, address: &str| CustomerRow {
            since: chrono::DateTime::from_timestamp(seconds, 0),
            ..row(1, Some(address))
        };
        let rows = newest_first(vec![
            row(1, Some("first@b.c")),
            since(1, "second@b.c"),
            since(2, "third@b.c"),
        ]);
        let addresses: Vec<_> = rows.iter().filter_map(|row| row.address.as_deref()).collect();
        assert_eq!(addresses, ["third@b.c", "second@b.c", "first@b.c"]);
        // The first one is named again.
        let again = row(1, Some("first@b.c")).with(&since(3, "first@b.c"));
        assert_eq!(again, since(3, "first@b.c"));
    }
}
