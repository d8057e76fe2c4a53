//! Has a subscription renew a license, because a person says so: that of an imported license is not known here.

use std::sync::Arc;

use chrono::Utc;

use crate::serve::deliveries::bought_license::{BoughtLicense, NotForLicense};
use crate::serve::deliveries::error::{ApplyError, ParkReason};
use crate::serve::deliveries::sale_licenses::{SaleChanger, SaleLicenses};
use crate::serve::deliveries::sale_places::SalePlaces;
use crate::serve::deliveries::sale_requests::SaleRequests;
use countersign_ledger::{Ledger, SaleChange, SaleOutcome, StoreError};
use countersign_model::issued_license::ChangeScope;
use countersign_model::license_key::LicenseId;
use countersign_model::offer::SalesMode;
use countersign_model::remarks::Author;
use countersign_model::sale::fact::{Attachment, Fact};
use countersign_model::slug::Slug;
use countersign_registry::Registry;
use countersign_settings::config::KeyIssuer;
use countersign_settings::keys::license_secrets::LicenseSecrets;

/// What subscriptions of one shop are attached with.
pub(in crate::serve) struct Attaching<'a> {
    pub(in crate::serve) registry: &'a Registry,
    pub(in crate::serve) bindings: &'a Ledger,
    pub(in crate::serve) secrets: &'a LicenseSecrets,
    pub(in crate::serve) shop: &'a Slug,
    pub(in crate::serve) mode: SalesMode,
    /// Who says so.
    pub(in crate::serve) author: Author,
    /// How they say it: by a command, or at the desk.
    pub(in crate::serve) scope: Arc<ChangeScope>,
}

/// Why a subscription was not attached.
#[derive(Debug, thiserror::Error)]
enum AttachError {
    #[error("there is no such license in the ledger")]
    Unknown,
    #[error("the subscription has a license already: `countersign shop sales list` shows it")]
    HasLicense,
    #[error("the subscription renews another license")]
    OtherLicense,
    #[error("a subscription renews the license already")]
    Renewed,
    #[error(transparent)]
    NotFor(#[from] NotForLicense),
    #[error(transparent)]
    Apply(#[from] ApplyError),
}

impl From<StoreError> for AttachError {
    fn from(error: StoreError) -> Self {
        Self::Apply(error.into())
    }
}

impl Attaching<'_> {
    /// Has this subscription, by its name in facts, renew the license. Whether it did not before, or why it does not.
    ///
    /// # Errors
    /// The ledger cannot be written. The same may be asked again.
    pub(in crate::serve) async fn attach(
        &self,
        subscription: &str,
        license: &LicenseId,
    ) -> Result<Result<bool, String>, StoreError> {
        match self.try_attach(subscription, license).await {
            Ok(is_new) => Ok(Ok(is_new)),
            Err(AttachError::Apply(ApplyError::Store(error))) => Err(error),
            Err(error) => Ok(Err(error.to_string())),
        }
    }

    async fn try_attach(&self, subscription: &str, license: &LicenseId) -> Result<bool, AttachError> {
        let requests = SaleRequests::new(self.secrets, self.shop, self.mode);
        let named = self.bindings.issued(license).ok_or(AttachError::Unknown)?;
        let finder = BoughtLicense::new(self.registry, self.bindings, &requests, KeyIssuer::Own);
        let found = finder.place_of(named)?;
        let id = requests.hide(subscription);
        let bought = found.bought();
        let known = finder.known(&id);
        let attached = known.as_ref().and_then(|(id, facts)| facts.bought_for(id));
        let is_new = attached.is_none();
        match (&known, attached) {
            (_, Some(place)) if !found.is_at(place) => return Err(AttachError::OtherLicense),
            (Some((_, facts)), None) if facts.is_sold() => return Err(AttachError::HasLicense),
            _ => {}
        }
        if is_new && found.is_renewed(self.bindings) {
            return Err(AttachError::Renewed);
        }
        let mut facts = vec![Fact::Attached(Attachment { id, place: bought })];
        facts.extend(finder.base(&found));
        let scope = Arc::new(ChangeScope::of_shop(self.shop));
        let change = SaleChange::new(facts, Default::default(), scope, Utc::now());
        let (sale, facts) = match self.bindings.record_sale(change).await? {
            SaleOutcome::Recorded { sale, facts, .. } => (sale, facts),
            SaleOutcome::TooLong => return Err(ApplyError::from(ParkReason::TooLong).into()),
            SaleOutcome::NoName => return Err(ApplyError::from(ParkReason::NoName).into()),
        };
        let places = SalePlaces {
            registry: self.registry,
            bindings: self.bindings,
            requests: &requests,
            sale,
            is_earlier: facts.is_earlier,
        };
        let by = SaleChanger {
            scope: Arc::clone(&self.scope),
            author: self.author.clone(),
        };
        // Also where an earlier attempt ended before.
        SaleLicenses::changed_for(places, by).update_all().await?;
        Ok(is_new)
    }
}
