//! Texts beside the ledger, so that they can be erased: orders of shops, reasons of changes, notes, names of persons, and customers.
//! Lines name a text by an HMAC or a random number; of a customer they have a number that the row has, too.
//!
//! The embedded store has the texts in memory (`table`) and in a file (`file`); `postgres::text_rows` has them in a database.
//! `customers` has what is particular to customers; requests for texts are in [`pending`](crate::pending).

pub(crate) mod customer_search;
pub(crate) mod customers;
pub(crate) mod file;
pub(crate) mod table;

use std::io;

use chrono::{DateTime, Utc};

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
