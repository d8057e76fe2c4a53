//! The texts beside licenses that an answer shows: orders, and customers for whom may read them. What was erased has none.

use std::collections::{BTreeSet, HashMap};

use countersign_ledger::{Ledger, StoreError};
use countersign_model::customer::CustomerRow;
use countersign_model::issued_license::{Hex128, IssuedLicense};
use countersign_model::license::License;
use countersign_model::stored_text::{OrderReference, StoredText};

use crate::serve::found_license::FoundLicense;

/// What is kept beside some licenses.
#[derive(Debug, Default)]
pub(super) struct LicenseTexts {
    orders: HashMap<Hex128, StoredText>,
    /// None for callers who may not read them.
    customers: Option<Vec<CustomerRow>>,
}

impl LicenseTexts {
    /// What is kept of the orders of licenses.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) async fn of<'l>(
        bindings: &Ledger,
        licenses: impl IntoIterator<Item = &'l IssuedLicense>,
    ) -> Result<Self, StoreError> {
        let orders = licenses.into_iter().filter_map(|issued| issued.reference);
        Self::of_orders(bindings, orders.collect()).await
    }

    /// What is kept of licenses that were found.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) async fn of_found(bindings: &Ledger, found: &[FoundLicense<'_>]) -> Result<Self, StoreError> {
        Self::of_orders(bindings, found.iter().filter_map(FoundLicense::order).collect()).await
    }

    async fn of_orders(bindings: &Ledger, names: Vec<Hex128>) -> Result<Self, StoreError> {
        let mut texts = Self::default();
        if !names.is_empty() {
            texts.orders = bindings.texts(names).await?.into_iter().collect();
        }
        Ok(texts)
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
        let found = Self::of_orders(bindings, order.names().collect()).await?;
        if found.orders.values().any(|stored| stored.erased_at().is_some()) {
            return Ok(found);
        }
        let text = order.text.clone().map(StoredText::Text);
        let each = |name| Some((name, text.clone()?));
        Ok(Self {
            orders: order.names().filter_map(each).collect(),
            ..found
        })
    }

    /// Reads the customers of licenses, too, for a caller who may read them.
    ///
    /// # Errors
    /// They cannot be read.
    pub(super) async fn with_customers<'l>(
        self,
        bindings: &Ledger,
        licenses: impl IntoIterator<Item = &'l License>,
    ) -> Result<Self, StoreError> {
        let holders = licenses
            .into_iter()
            .filter_map(|license| license.details.remarks().holder);
        let numbers: BTreeSet<_> = holders.collect();
        let rows = match numbers.is_empty() {
            true => Vec::new(),
            false => bindings.customers(numbers).await?,
        };
        Ok(Self {
            customers: Some(rows),
            ..self
        })
    }

    /// The text of a license's order.
    pub(super) fn order(&self, issued: &IssuedLicense) -> Option<&str> {
        self.orders.get(&issued.reference?)?.text()
    }

    /// The rows of a customer: one for each address.
    pub(super) fn customer(&self, number: Hex128) -> impl Iterator<Item = &CustomerRow> {
        let rows = self.customers.iter().flatten();
        rows.filter(move |row| row.number == number && row.is_of_address())
    }
}
