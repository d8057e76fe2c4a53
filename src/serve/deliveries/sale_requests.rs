//! What is asked of the ledger for one shop and mode: ids as HMACs, and licenses by their places.

use std::sync::Arc;

use countersign_ledger::HiddenId;
use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::issuing_key::IssueRequest;
use countersign_model::offer::SalesMode;
use countersign_model::slug::Slug;
use countersign_settings::config::ShopConfig;
use countersign_settings::keys::license_secrets::LicenseSecrets;

/// What requests of one shop and mode have in common.
pub(super) struct SaleRequests<'a> {
    secrets: &'a LicenseSecrets,
    shop: &'a Slug,
    scope: Arc<ChangeScope>,
    surplus: ChangeScope,
    mode: SalesMode,
}

impl<'a> SaleRequests<'a> {
    pub(super) fn new(secrets: &'a LicenseSecrets, shop: &'a Slug, mode: SalesMode) -> Self {
        Self {
            secrets,
            shop,
            scope: Arc::new(ChangeScope::of_shop(shop)),
            surplus: ChangeScope::of_surplus(shop),
            mode,
        }
    }

    pub(super) fn secrets(&self) -> &LicenseSecrets {
        self.secrets
    }

    pub(super) fn shop(&self) -> &Slug {
        self.shop
    }

    /// The request for the license of a place in a sale.
    pub(super) fn of<'r>(&'r self, place: &'r str) -> IssueRequest<'r> {
        IssueRequest {
            scope: &self.scope,
            mode: self.mode,
            idempotency_key: place,
            // Several deliveries may ask for the same license, each in its own words.
            body: place.as_bytes(),
        }
    }

    pub(super) fn mode(&self) -> SalesMode {
        self.mode
    }

    pub(super) fn scope(&self) -> &Arc<ChangeScope> {
        &self.scope
    }

    /// Whether this is the shop, also as older versions named it where it sold fewer.
    pub(super) fn is_shop(&self, scope: &ChangeScope) -> bool {
        *scope == *self.scope || *scope == self.surplus
    }

    /// HMACs of an id of the shop.
    pub(super) fn hide(&self, id: &str) -> HiddenId {
        let whole = ShopConfig::sale_name(self.shop, self.mode, id);
        let current: Hex128 = self.secrets.hide(&whole);
        let mut retired: Vec<Hex128> = self.secrets.hidden(&whole).into_iter().collect();
        retired.retain(|id| *id != current);
        HiddenId { current, retired }
    }
}
