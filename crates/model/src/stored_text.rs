//! A text that the store keeps beside the ledger, so that it can be erased: an order, a reason, a note, the name of a person, a customer.
//!
//! The ledger names a text by an HMAC only. `ledger::texts` keeps the text beside the ledger.

use std::fmt;

use chrono::{DateTime, Utc};

use crate::customer::CustomerRow;
use crate::issued_license::Hex128;

/// What the store keeps of a text.
#[derive(Clone, PartialEq, Eq)]
pub enum StoredText {
    /// Its text.
    Text(Box<str>),
    /// Only that the text was erased, and when.
    Erased(DateTime<Utc>),
    /// A customer. It is deleted rather than erased.
    Customer(Box<CustomerRow>),
}

impl StoredText {
    /// The text, unless it was erased.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Erased(_) | Self::Customer(_) => None,
        }
    }

    /// When it was erased.
    pub fn erased_at(&self) -> Option<DateTime<Utc>> {
        match self {
            Self::Erased(time) => Some(*time),
            Self::Text(_) | Self::Customer(_) => None,
        }
    }

    /// The customer, if it is one.
    pub fn customer(&self) -> Option<&CustomerRow> {
        match self {
            Self::Customer(row) => Some(row),
            Self::Text(_) | Self::Erased(_) => None,
        }
    }
}

// SECURITY: the text stays out of logs.
impl fmt::Debug for StoredText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Text(redacted)"),
            Self::Erased(time) => write!(f, "Erased({time})"),
            Self::Customer(row) => write!(f, "{row:?}"),
        }
    }
}

/// The order of a license that is about to be written.
#[derive(Clone, PartialEq, Eq)]
pub struct OrderReference {
    /// The HMAC under the secret in force.
    pub name: Hex128,
    /// HMACs of the same text under retired secrets.
    pub retired: Vec<Hex128>,
    /// The text; `None` where only the HMAC is known.
    pub text: Option<Box<str>>,
}

impl From<Hex128> for OrderReference {
    /// An order of which only the HMAC is known.
    fn from(name: Hex128) -> Self {
        Self {
            name,
            retired: Vec::new(),
            text: None,
        }
    }
}

impl OrderReference {
    /// Every HMAC, the one under the secret in force first.
    pub fn names(&self) -> impl Iterator<Item = Hex128> {
        std::iter::once(self.name).chain(self.retired.iter().copied())
    }
}

// SECURITY: the text stays out of logs.
impl fmt::Debug for OrderReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OrderReference({}, redacted)", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_stored_text_is_in_what_is_printed_for_a_developer() {
        let stored = StoredText::Text("order of Anna".into());
        assert!(!format!("{stored:?}").contains("Anna"));
    }

    #[test]
    fn no_text_of_an_order_is_in_what_is_printed_for_a_developer() {
        let reference = OrderReference {
            text: Some("order of Anna".into()),
            ..OrderReference::from(Hex128([1; 16]))
        };
        assert!(!format!("{reference:?}").contains("Anna"));
    }
}
