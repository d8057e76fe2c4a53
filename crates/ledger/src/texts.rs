//! Texts beside the ledger, so that they can be erased: orders of shops, reasons of changes, notes, names of persons, and customers.
//! Lines name a text by an HMAC or a random number; of a customer they have a number that the row has, too.
//!
//! The embedded store has the texts in memory (`table`) and in a file (`file`); `postgres::text_rows` has them in a database.
//! Requests for texts are in [`pending`](crate::pending). The row of a customer has the HMAC of an address as its name, so one address is
//! one customer on all nodes. An erased customer has no row: nothing reminds of the address.

pub(crate) mod customer_search;
pub(crate) mod file;
pub(crate) mod table;

use std::collections::{BTreeMap, HashMap};
use std::io;

use chrono::{DateTime, Utc};

use countersign_model::customer::{CustomerRow, NewCustomer};
use countersign_model::issued_license::{Hex128, IssuedLicense};
use countersign_model::remarks::{Author, NamedText};
use countersign_model::stored_text::{OrderReference, StoredText};

/// What is kept of some texts.
pub type FoundTexts = Vec<(Hex128, StoredText)>;

/// Texts to erase.
#[derive(Clone, Debug)]
pub struct TextErasure {
    /// Every name of the text, or the names of several texts.
    pub names: Vec<Hex128>,
    /// Whether all names are of one text: then it was erased when the first of them was.
    pub is_one: bool,
    /// Whether lines name them. Otherwise they are erased only if something is kept of them.
    pub is_named: bool,
    /// When. A shared ledger uses its own clock.
    pub now: DateTime<Utc>,
}

/// Texts that are erased, durably.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErasedText {
    /// When. Of one text, for the first time.
    pub time: DateTime<Utc>,
    /// How many texts there were until now.
    pub had_texts: usize,
}

impl ErasedText {
    /// The result of an erasure, by what was kept before; `None` if they are unknown.
    pub(crate) fn after(before: &FoundTexts, erasure: &TextErasure, now: DateTime<Utc>) -> Option<Self> {
        let first = before.iter().filter_map(|(_, stored)| stored.erased_at()).min();
        let first = first.filter(|_| erasure.is_one);
        let is_known = erasure.is_named || !before.is_empty();
        is_known.then(|| Self {
            time: first.unwrap_or(now),
            had_texts: before.iter().filter(|(_, stored)| stored.text().is_some()).count(),
        })
    }
}

/// The text of an order whose license is in the ledger.
#[derive(Clone)]
pub(crate) struct NewText {
    /// How the license's line names the order.
    pub name: Hex128,
    /// Every name of the order. If the text was erased under one of them, it is not kept again.
    pub names: Vec<Hex128>,
    /// The text.
    pub text: Box<str>,
}

/// A text with a random name, for a line that is about to be written.
///
/// # Errors
/// The system has no random numbers.
pub fn named_at_random(text: &str) -> io::Result<NamedText> {
    let mut name = [0; 16];
    getrandom::fill(&mut name).map_err(io::Error::other)?;
    Ok(NamedText::random(name, text))
}

/// The texts of one group commit.
#[derive(Default)]
pub(crate) struct NewTexts(Vec<NewText>);

impl NewTexts {
    /// Keeps the text of an order, if the license is of this order. A license that another request changed may be of another.
    pub(crate) fn keep(&mut self, reference: Option<&OrderReference>, license: &IssuedLicense) {
        let Some((reference, name)) = reference.zip(license.reference) else {
            return;
        };
        if let Some(text) = &reference.text
            && reference.names().any(|own| own == name)
        {
            self.0.push(NewText {
                name,
                names: reference.names().collect(),
                text: text.clone(),
            });
        }
    }

    /// Keeps what people wrote of a change that is about to be written.
    pub(crate) fn keep_author(&mut self, author: &Author) {
        author.texts().for_each(|text| self.keep_named(text));
    }

    /// Keeps a text that a line is about to name.
    pub(crate) fn keep_named(&mut self, text: &NamedText) {
        self.0.push(NewText {
            name: text.name,
            names: text.names().collect(),
            text: text.text.clone(),
        });
    }

    pub(crate) fn all(&self) -> &[NewText] {
        &self.0
    }
}

/// Sorts the rows by age, the newest first. A customer with several addresses gets mails at that of the first row.
pub(crate) fn newest_first(mut rows: Vec<CustomerRow>) -> Vec<CustomerRow> {
    rows.sort_by_key(|row| std::cmp::Reverse(row.since));
    rows
}

/// The rows to write for customers who may be known, and the number of each. `known` has the rows with their names. They are written
/// before the line of a license that has the customer's number.
pub(crate) fn customer_rows(known: FoundTexts, new: &[NewCustomer]) -> (BTreeMap<Hex128, StoredText>, Vec<Hex128>) {
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
        let (rows, numbers) = customer_rows(known, &[new(&[1], row(11, Some("a@b.c")))]);
        assert_eq!(numbers, [Hex128([10; 16])]);
        assert_eq!(rows[&Hex128([1; 16])], kept(row(10, Some("a@b.c"))));
        let known = rows.into_iter().collect();
        let (rows, numbers) = customer_rows(known, &[new(&[1], row(11, Some("A@b.c")))]);
        assert_eq!((rows.len(), numbers), (0, vec![Hex128([10; 16])]));
    }

    #[test]
    fn a_row_under_a_retired_secret_is_written_anew_and_two_of_one_request_are_one_customer() {
        let known = vec![(Hex128([1; 16]), kept(row(10, Some("a@b.c"))))];
        let again = new(&[2, 1], row(11, Some("a@b.c")));
        let stranger = new(&[3], row(12, Some("d@b.c")));
        let twice = new(&[3], row(13, Some("d@b.c")));
        let (rows, numbers) = customer_rows(known, &[again, stranger, twice]);
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
