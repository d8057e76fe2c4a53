//! What is asked of the ledger for one shop and mode: names of sales as HMACs, and licenses by their places.

use std::sync::Arc;

use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::issuing_key::IssueRequest;
use countersign_model::offer::SalesMode;
use countersign_model::slug::Slug;
use countersign_settings::keys::license_secrets::LicenseSecrets;

/// What requests of one shop and mode have in common.
pub(super) struct SaleRequests<'a> {
    secrets: &'a LicenseSecrets,
    shop: &'a Slug,
    scope: Arc<ChangeScope>,
    surplus: Arc<ChangeScope>,
    mode: SalesMode,
}

impl<'a> SaleRequests<'a> {
    pub(super) fn new(secrets: &'a LicenseSecrets, shop: &'a Slug, mode: SalesMode) -> Self {
        Self {
            secrets,
            shop,
            scope: Arc::new(ChangeScope::of_shop(shop)),
            surplus: Arc::new(ChangeScope::of_surplus(shop)),
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

    pub(super) fn scope(&self) -> &Arc<ChangeScope> {
        &self.scope
    }

    /// The shop, where it sells fewer copies.
    pub(super) fn surplus(&self) -> &Arc<ChangeScope> {
        &self.surplus
    }

    /// HMACs of a shop's ids, those of retired secrets last.
    pub(super) fn hide(&self, names: &[String]) -> Vec<Hex128> {
        // Shops and modes never meet: the same id of another shop is another sale.
        let whole = |name: &String| format!("{}\n{}\n{name}", self.scope, self.mode.as_str());
        let current = names.iter().map(|name| self.secrets.hide(&whole(name)));
        let all = names.iter().flat_map(|name| self.secrets.hidden(&whole(name)));
        let mut hidden: Vec<Hex128> = Vec::new();
        for name in current.chain(all) {
            if !hidden.contains(&name) {
                hidden.push(name);
            }
        }
        hidden
    }
}
