//! Grants sales what their offers grant today, because a person says so.

use std::sync::Arc;

use chrono::Utc;

use crate::serve::deliveries::error::ApplyError;
use crate::serve::deliveries::sale_licenses::{FollowedLicense, SaleChanger, SaleLicenses};
use crate::serve::deliveries::sale_places::SalePlaces;
use crate::serve::deliveries::sale_requests::SaleRequests;
use countersign_ledger::{KnownSale, Ledger, SaleChange, SaleOutcome, StoreError};
use countersign_model::issued_license::ChangeScope;
use countersign_model::offer::{Offer, ShopId};
use countersign_model::remarks::Author;
use countersign_model::sale::facts::SaleFacts;
use countersign_model::sale::terms::Terms;
use countersign_registry::Registry;
use countersign_settings::keys::license_secrets::LicenseSecrets;

/// What sales are granted again with.
pub(in crate::serve) struct Regranting<'a> {
    pub(in crate::serve) registry: &'a Registry,
    pub(in crate::serve) bindings: &'a Ledger,
    pub(in crate::serve) secrets: &'a LicenseSecrets,
    pub(in crate::serve) offer: &'a Offer,
    /// Who says so.
    pub(in crate::serve) author: Author,
}

impl Regranting<'_> {
    /// The licenses of a sale that the offer of today changes. With `is_real`, they are changed when it returns.
    ///
    /// # Errors
    /// The ledger cannot be written, or a license cannot be changed: then the reason.
    pub(in crate::serve) async fn regrant(
        &self,
        sale: &KnownSale,
        is_real: bool,
    ) -> Result<Result<Vec<FollowedLicense>, String>, StoreError> {
        match self.try_regrant(sale, is_real).await {
            Ok(licenses) => Ok(Ok(licenses)),
            Err(ApplyError::Store(error)) => Err(error),
            Err(error) => Ok(Err(error.to_string())),
        }
    }

    async fn try_regrant(&self, sale: &KnownSale, is_real: bool) -> Result<Vec<FollowedLicense>, ApplyError> {
        let offers = self.registry.offers().of_sale(&self.offer.shop, &sale.facts);
        let of_offer = offers.into_iter().filter(|(_, offer)| offer.name == self.offer.name);
        let prices: Vec<ShopId> = of_offer.map(|(price, _)| price).collect();
        let is_remembered = |price: &ShopId| sale.facts.terms().keys().any(|(_, known)| known == price);
        if !prices.iter().any(is_remembered) {
            return Ok(Vec::new());
        }
        let terms = Terms::from(self.offer);
        let mut facts = SaleFacts::clone(&sale.facts);
        let changed = facts.regrant(|price| prices.contains(price).then(|| terms.clone()));
        let requests = SaleRequests::new(self.secrets, &self.offer.shop, self.offer.mode);
        let places = SalePlaces {
            registry: self.registry,
            bindings: self.bindings,
            requests: &requests,
            sale: sale.id,
            is_earlier: sale.facts.is_earlier,
        };
        let scope = Arc::new(ChangeScope::operator());
        let by = SaleChanger {
            scope: Arc::clone(&scope),
            author: self.author.clone(),
        };
        let licenses = SaleLicenses::changed_for(places, by);
        let followed = licenses.changed_by(&Arc::new(facts));
        if !is_real {
            return Ok(followed);
        }
        if changed > 0 {
            let terms = prices.iter().map(|price| (price.clone(), terms.clone())).collect();
            let mut change = SaleChange::new(Vec::new(), terms, scope, Utc::now());
            change.sale = Some(sale.id);
            change.regranted = prices;
            if let SaleOutcome::TooLong = self.bindings.record_sale(change).await? {
                return Err(crate::serve::deliveries::error::ParkReason::TooLong.into());
            }
        }
        // Also where an earlier attempt ended before.
        licenses.update_all().await?;
        Ok(followed)
    }
}
