//! The texts of orders that one group commit keeps with its lines.

use countersign_model::issued_license::{Hex128, IssuedLicense};
use countersign_model::order_reference::OrderReference;

/// The text of an order whose license is in the ledger.
#[derive(Clone)]
pub(crate) struct NewReference {
    /// How the license's line names the order.
    pub name: Hex128,
    /// Every name of the order. If the text was erased under one of them, it is not kept again.
    pub names: Vec<Hex128>,
    /// The text.
    pub text: Box<str>,
}

/// The texts of one group commit.
#[derive(Default)]
pub(crate) struct ReferenceTexts(Vec<NewReference>);

impl ReferenceTexts {
    /// Keeps the text of an order, if the license is of this order. A license that another request changed may be of another.
    pub(crate) fn keep(&mut self, reference: Option<&OrderReference>, license: &IssuedLicense) {
        let Some((reference, name)) = reference.zip(license.reference) else {
            return;
        };
        if let Some(text) = &reference.text
            && reference.names().any(|own| own == name)
        {
            self.0.push(NewReference {
                name,
                names: reference.names().collect(),
                text: text.clone(),
            });
        }
    }

    pub(crate) fn all(&self) -> &[NewReference] {
        &self.0
    }
}
