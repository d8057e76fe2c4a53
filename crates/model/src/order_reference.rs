//! The order of a shop that a license belongs to: how the ledger names it, and its text.
//!
//! The text may be personal. The ledger has an HMAC of it only, so that the text can be erased; `ledger::texts` keeps the
//! text beside the ledger.

use std::fmt;

use crate::issued_license::Hex128;

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
    fn no_text_is_in_what_is_printed_for_a_developer() {
        let reference = OrderReference {
            text: Some("order of Anna".into()),
            ..OrderReference::from(Hex128([1; 16]))
        };
        assert!(!format!("{reference:?}").contains("Anna"));
    }
}
