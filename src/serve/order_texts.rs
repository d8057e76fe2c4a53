//! The texts of the orders of licenses that an answer shows. An order whose text was erased has none.

use std::collections::HashMap;

use countersign_ledger::{Ledger, StoreError};
use countersign_model::issued_license::{Hex128, IssuedLicense};
use countersign_model::order_reference::OrderReference;
use countersign_model::stored_text::StoredText;

/// What is kept of some orders.
#[derive(Debug, Default)]
pub(super) struct OrderTexts(HashMap<Hex128, StoredText>);

impl OrderTexts {
    /// What is kept of the orders of licenses, by what their lines name.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) async fn of(
        bindings: &Ledger,
        orders: impl IntoIterator<Item = Option<Hex128>>,
    ) -> Result<Self, StoreError> {
        let names: Vec<_> = orders.into_iter().flatten().collect();
        match names.is_empty() {
            true => Ok(Self::default()),
            false => Ok(Self(bindings.texts(names).await?.into_iter().collect())),
        }
    }

    /// What is kept of an order whose license is about to be issued, or was issued by an earlier request: its text, unless it
    /// was erased.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) async fn of_order(bindings: &Ledger, order: Option<&OrderReference>) -> Result<Self, StoreError> {
        let Some(order) = order else {
            return Ok(Self::default());
        };
        let found = Self::of(bindings, order.names().map(Some)).await?;
        if found.0.values().any(|stored| stored.erased_at().is_some()) {
            return Ok(found);
        }
        let text = order.text.clone().map(StoredText::Text);
        let each = |name| Some((name, text.clone()?));
        Ok(Self(order.names().filter_map(each).collect()))
    }

    /// The text of a license's order.
    pub(super) fn of_license(&self, issued: &IssuedLicense) -> Option<&str> {
        self.0.get(&issued.reference?)?.text()
    }
}
