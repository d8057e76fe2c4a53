//! The names that the ledger has for orders of shops and for persons: HMACs under the secrets of references, the retired ones
//! included.

use crate::keys::secret_keys::ReferenceKeys;
use countersign_model::issued_license::Hex128;
use countersign_model::order_reference::OrderReference;
use countersign_model::remarks::NamedText;

/// The longest text of an order that is kept, in bytes. Every way in takes fewer, or as many.
const MAX_REFERENCE: usize = 255;

impl ReferenceKeys {
    /// An order with its text, for a license that is issued.
    pub fn reference(&self, text: &str) -> OrderReference {
        OrderReference {
            name: self.current().hide(text),
            retired: self.retired().iter().map(|key| key.hide(text)).collect(),
            text: (text.len() <= MAX_REFERENCE).then(|| text.into()),
        }
    }

    /// A person who makes a change.
    pub fn person(&self, name: &str) -> NamedText {
        NamedText {
            name: self.current().person(name),
            retired: self.retired().iter().map(|key| key.person(name)).collect(),
            text: name.into(),
        }
    }

    /// How lines of the ledger may name this order.
    pub fn names(&self, text: &str) -> Vec<Hex128> {
        self.all().map(|key| key.hide(text)).collect()
    }
}
