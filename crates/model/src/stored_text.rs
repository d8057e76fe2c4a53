//! A text that the store keeps beside the ledger, so that it can be erased: an order, a reason, a note, the name of a person, a customer.

use std::fmt;

use chrono::{DateTime, Utc};

use crate::customer::CustomerRow;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_in_what_is_printed_for_a_developer() {
        let stored = StoredText::Text("order of Anna".into());
        assert!(!format!("{stored:?}").contains("Anna"));
    }
}
