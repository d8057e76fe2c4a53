//! A sale as this node knows it at the moment, while one delivery of it is applied.
//!
//! Asked after a license was read: lines of a sale precede those of its licenses, so that what is older than a license's revision
//! is never written over it, whichever node applied the other delivery.

use chrono::{DateTime, NaiveDate, Utc};

use crate::serve::gate::Gate;
use countersign_model::issued_license::Hex128;
use countersign_model::license::LicenseStatus;
use countersign_model::sale_state::SaleState;

/// A sale, and the delivery.
pub(super) struct KnownSale<'a> {
    pub(super) gate: &'a Gate,
    /// The sale.
    pub(super) id: Hex128,
    /// The shop's time of the delivery.
    pub(super) delivered_at: Option<DateTime<Utc>>,
}

impl KnownSale<'_> {
    /// The status of its licenses.
    pub(super) fn status(&self) -> LicenseStatus {
        self.state().license_status()
    }

    /// The end that the shop named; if it named none, that of the offer.
    pub(super) fn end_or(&self, of_offer: NaiveDate) -> NaiveDate {
        self.state().until().map_or(of_offer, |until| until.date_naive())
    }

    /// Whether the money went back.
    pub(super) fn is_refunded(&self) -> bool {
        self.state().status == LicenseStatus::Revoked
    }

    /// Whether a later change of what is sold is known than the delivery.
    pub(super) fn has_later_change(&self) -> bool {
        self.delivered_at.is_some() && self.state().changed_at > self.delivered_at
    }

    /// Whether nothing later than the delivery is known of the subscription.
    pub(super) fn is_newest(&self) -> bool {
        let state = self.state();
        self.delivered_at >= state.subscription.at.max(state.changed_at)
    }

    fn state(&self) -> SaleState {
        let known = self.gate.bindings().sale(self.id);
        known.unwrap_or_else(|| SaleState::new(self.id))
    }
}
