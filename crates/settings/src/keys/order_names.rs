//! The names that the ledger has for orders of shops and for persons, and those that the table of texts has for customers: HMACs under
//! the secrets of references, the retired ones included.

use std::io;

use crate::config::CustomerRule;
use crate::keys::secret_keys::ReferenceKeys;
use countersign_model::customer::{CustomerAddress, CustomerRow, NewCustomer, kept_name};
use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::remarks::NamedText;
use countersign_model::stored_text::OrderReference;

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

    /// How the rows of a customer with this address may be named, the name under the secret in force first.
    pub fn customer_names(&self, address: &CustomerAddress) -> Vec<Hex128> {
        self.all().map(|key| key.customer(address)).collect()
    }

    /// A row for a customer who may be known, with a random number.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn customer(
        &self,
        address: &CustomerAddress,
        name: Option<&str>,
        by: &ChangeScope,
        rule: CustomerRule,
    ) -> io::Result<NewCustomer> {
        let mut number = [0; 16];
        getrandom::fill(&mut number).map_err(io::Error::other)?;
        let is_kept = rule == CustomerRule::Keep;
        Ok(NewCustomer {
            names: self.customer_names(address),
            row: CustomerRow {
                address: is_kept.then(|| address.written().into()),
                by: by.clone(),
                mails: None,
                name: name.filter(|_| is_kept).and_then(kept_name),
                number: Hex128(number),
                since: None,
                unsubscribed: false,
            },
        })
    }

    /// How lines of the ledger may name this order.
    pub fn names(&self, text: &str) -> Vec<Hex128> {
        self.all().map(|key| key.hide(text)).collect()
    }
}
