//! What is kept of orders, and the result of erasing the text of one.

use chrono::{DateTime, Utc};

use countersign_model::issued_license::Hex128;
use countersign_model::order_reference::StoredReference;

/// What is kept of some orders.
pub type FoundReferences = Vec<(Hex128, StoredReference)>;

/// The order whose text is erased.
#[derive(Clone, Debug)]
pub(crate) struct ReferenceErasure {
    /// Every name of the order.
    pub names: Vec<Hex128>,
    /// Whether a license is of this order. Otherwise it is erased only if something is kept of it.
    pub has_license: bool,
    /// When. A shared ledger uses its own clock.
    pub now: DateTime<Utc>,
}

/// An order whose text is erased, durably.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErasedReference {
    /// When it was erased for the first time.
    pub time: DateTime<Utc>,
    /// Whether there was a text until now.
    pub had_text: bool,
}

impl ErasedReference {
    /// The result of an erasure, by what was kept before; `None` if the order is unknown.
    pub(crate) fn after(before: &FoundReferences, erasure: &ReferenceErasure, now: DateTime<Utc>) -> Option<Self> {
        let first = before.iter().filter_map(|(_, stored)| stored.erased_at()).min();
        let is_known = erasure.has_license || !before.is_empty();
        is_known.then(|| Self {
            time: first.unwrap_or(now),
            had_text: before.iter().any(|(_, stored)| stored.text().is_some()),
        })
    }
}
