//! The places of a sale: one for each copy of what was sold. The place is the idempotency key of its license, so that no delivery,
//! however often and wherever it is applied, issues a second one.

use crate::serve::deliveries::sale_requests::SaleRequests;
use crate::serve::found_license::{self, ChangeError};
use countersign_ledger::{ChangeOutcome, Ledger, LedgerChange, LedgerLicense};
use countersign_model::digest::Digest;
use countersign_model::issued_license::Hex128;
use countersign_model::license::{License, LicenseStatus};
use countersign_model::license_key::LicenseId;
use countersign_model::sale::fact::PlaceName;
use countersign_registry::Registry;

/// How many new keys of a customer are followed.
const MOST_KEYS: usize = 16;

/// The places of one sale.
#[derive(Clone, Copy)]
pub(super) struct SalePlaces<'a> {
    pub(super) registry: &'a Registry,
    pub(super) bindings: &'a Ledger,
    pub(super) requests: &'a SaleRequests<'a>,
    pub(super) sale: Hex128,
    /// Whether deliveries of it were applied before facts were kept: places had other names then.
    pub(super) is_earlier: bool,
}

/// The idempotency key of a copy of a place.
pub(super) fn place_key(place: &PlaceName<Hex128>, copy: u32) -> String {
    match place {
        PlaceName::Item { number, subscription } => format!("item/{subscription}/{number}/{copy}"),
        PlaceName::Line { number, payment, price } => format!("line/{payment}/{price}/{number}/{copy}"),
        // Nothing is issued for it.
        PlaceName::License { license } => format!("license/{license}/{copy}"),
    }
}

impl SalePlaces<'_> {
    /// The license of a copy of a place.
    pub(super) fn find(&self, place: &PlaceName<Hex128>, copy: u32) -> Option<LedgerLicense> {
        let number = match place {
            PlaceName::License { license } if copy == 0 => {
                return self.bindings.issued_beginning_with(&license.0);
            }
            PlaceName::License { .. } => return None,
            PlaceName::Item { number, .. } | PlaceName::Line { number, .. } => number,
        };
        let found = self.find_key(&place_key(place, copy));
        let earlier = || self.find_key(&format!("{}/{number}/{copy}", self.sale));
        // Nothing was bought for a license then: such a place is another one.
        let is_bought = || {
            let known = self.bindings.sale(self.sale);
            known.is_some_and(|(_, facts)| facts.is_bought(place))
        };
        found.or_else(|| (self.is_earlier && !is_bought()).then(earlier).flatten())
    }

    /// Whether this is the name of another sale.
    pub(super) fn is_of_other(&self, name: Hex128) -> bool {
        let known = self.bindings.sale(name);
        known.is_some_and(|(sale, _)| sale != self.sale)
    }

    /// The license of this place, whichever secret it was issued with.
    pub(super) fn find_key(&self, place: &str) -> Option<LedgerLicense> {
        let keys = self.requests.secrets().request_keys(&self.requests.of(place));
        keys.into_iter().find_map(|key| self.bindings.issued_for(key))
    }

    /// The license that took the place of this one when somebody gave the customer a new key; the same one if nobody did.
    pub(super) fn successor_of(&self, mut found: LedgerLicense) -> LedgerLicense {
        for _ in 0..MOST_KEYS {
            // Only a new key revokes a license in the name of somebody else and has a successor.
            let current = &found.license;
            let is_shops = found.status_by.as_ref().is_none_or(|by| self.requests.is_shop(by));
            if current.status != LicenseStatus::Revoked || is_shops {
                break;
            }
            let replaces = |license: &License| license.details.replaces == Some(current.id);
            match self.bindings.issued_after(None, 1, &replaces).pop() {
                Some(successor) => found = successor,
                None => break,
            }
        }
        found
    }

    /// Has the ledger issue a license, or change one whose status is `before`. The log tells of a license that is new, and of
    /// a status that changed: nothing of the buyer, the order or the key.
    pub(super) async fn record(
        &self,
        change: LedgerChange,
        before: Option<LicenseStatus>,
    ) -> Result<ChangeOutcome, ChangeError> {
        let outcome = found_license::change(self.registry, self.bindings, change).await?;
        if let ChangeOutcome::Recorded(recorded) = &outcome {
            let license = recorded.license.id.log_tag();
            let shop = self.requests.shop().as_str();
            match (before, recorded.license.status) {
                (None, status) => tracing::info!(license, shop, status = status.as_str(), "issued"),
                (Some(before), status) if before == status => {}
                (Some(_), LicenseStatus::Active) => tracing::info!(license, shop, "resumed"),
                (Some(_), LicenseStatus::Suspended) => tracing::info!(license, shop, "suspended"),
                (Some(_), LicenseStatus::Revoked) => tracing::info!(license, shop, "revoked"),
            }
        }
        Ok(outcome)
    }

    /// Says so if a license of the sale has another key than the shop mails.
    pub(super) fn warn_of_other_key(&self, found: &LedgerLicense, key: LicenseId) {
        if key != found.license.id {
            tracing::warn!(
                license = found.license.id.log_tag(),
                "a sale has a license with another key: no site can use the one that the shop mails"
            );
        }
    }

    /// The salt of what this node issues for a place, by which it knows its own licenses; `None` if there is no other node.
    pub(super) fn own_salt(&self, place: &str) -> Option<Hex128> {
        let node = self.bindings.node()?;
        let digest = Digest::of(format!("salt\n{node}\n{place}").as_bytes());
        Some(Hex128::first_half(digest))
    }
}
