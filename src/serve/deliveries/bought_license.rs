//! What is bought for a license that the customer has, with a renewal token or because a person says so: one more line of its place.

use std::collections::BTreeMap;

use crate::serve::deliveries::sale_places::SalePlaces;
use crate::serve::deliveries::sale_requests::SaleRequests;
use countersign_ledger::{HiddenId, KnownFacts, Ledger, LedgerLicense};
use countersign_model::issued_license::Hex128;
use countersign_model::license::LicenseStatus;
use countersign_model::license_key::LicenseId;
use countersign_model::offer::{SalesMode, ShopId};
use countersign_model::renewal_token::{NotARenewalToken, RenewalToken};
use countersign_model::sale::fact::{BoughtFor, Fact, LicenseBase, PlaceName};
use countersign_model::sale::grants::MOST_LICENSES;
use countersign_model::sale::terms::{SoldGrant, Terms};
use countersign_registry::Registry;
use countersign_settings::config::KeyIssuer;
use countersign_settings::keys::secret_keys::DownloadKeys;

/// How many earlier keys of a customer are followed.
const MOST_KEYS: usize = 16;

/// Why something was not bought for a license, but is a sale of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotForLicense {
    #[error(transparent)]
    NoToken(#[from] NotARenewalToken),
    #[error("no license has this renewal token")]
    Unknown,
    #[error("a file of the registry declares the license: `countersign license adopt` moves it into the ledger")]
    Declared,
    #[error("the license is revoked")]
    Revoked,
    #[error("another shop, or the other mode of this one, sold the license")]
    OtherShop,
    #[error("a test sale is not for a license that no shop sold")]
    Test,
    #[error("the license covers nothing of what was sold")]
    NothingInCommon,
    #[error("the shop makes the license keys")]
    KeysOfShop,
}

/// Finds licenses that something is bought for, and their places.
pub(super) struct BoughtLicense<'a> {
    registry: &'a Registry,
    bindings: &'a Ledger,
    requests: &'a SaleRequests<'a>,
    keys: KeyIssuer,
}

/// A license that something may be bought for.
pub(super) struct FoundPlace {
    place: PlaceName<Hex128>,
    copy: u32,
    license: LedgerLicense,
    /// What it grants, if nothing was sold to it before.
    base: Option<SoldGrant>,
}

impl FoundPlace {
    /// What is bought for it, as facts say it.
    pub(super) fn bought(&self) -> BoughtFor<HiddenId> {
        BoughtFor {
            copy: self.copy,
            modules: self.license.license.modules.keys().cloned().collect(),
            place: self.place.clone().map(&mut HiddenId::from),
        }
    }

    /// Whether this is its place.
    pub(super) fn is_at(&self, bought: &BoughtFor<Hex128>) -> bool {
        (&bought.place, bought.copy) == (&self.place, self.copy)
    }

    /// Whether a subscription renews it.
    pub(super) fn is_renewed(&self, bindings: &Ledger) -> bool {
        let sale = bindings.sale(*self.place.origin());
        sale.is_some_and(|(_, facts)| facts.is_renewed(&self.place, self.copy))
    }
}

impl<'a> BoughtLicense<'a> {
    pub(super) fn new(
        registry: &'a Registry,
        bindings: &'a Ledger,
        requests: &'a SaleRequests<'a>,
        keys: KeyIssuer,
    ) -> Self {
        Self {
            registry,
            bindings,
            requests,
            keys,
        }
    }

    /// Names the license in the facts of a delivery, unless the ledger knows already what the same objects were bought for. `terms`
    /// is what the prices of the facts grant, `secrets` are what genuine tokens are made with. The log tells of a sale that names a
    /// license and is a sale of its own.
    pub(super) fn name(
        &self,
        facts: &mut Vec<Fact<HiddenId>>,
        token: Result<RenewalToken, NotARenewalToken>,
        secrets: Option<&DownloadKeys>,
        terms: &BTreeMap<ShopId, Terms>,
    ) {
        let mut objects: Vec<_> = facts.iter_mut().filter_map(Fact::purchase).collect();
        let known: Vec<bool> = objects.iter().map(|(id, _)| self.known(id).is_some()).collect();
        objects.retain(|(id, _)| {
            let is_bought = |(id, facts): (Hex128, KnownFacts)| facts.bought_for(&id).is_some();
            !self.known(id).is_some_and(is_bought)
        });
        if objects.is_empty() {
            return;
        }
        let shop = self.requests.shop().as_str();
        let found = match token
            .map_err(NotForLicense::from)
            .and_then(|token| self.find(token, secrets))
        {
            Ok(found) => found,
            Err(reason) => {
                // Each later word about it says the same.
                if known.contains(&false) {
                    tracing::warn!(shop, %reason, "what was bought for a license is a sale of its own");
                }
                return;
            }
        };
        let tag = found.license.license.id.log_tag();
        let covered = &found.license.license.modules;
        let mut sold = terms.values().filter(|terms| !terms.is_nothing).peekable();
        let is_common = |terms: &Terms| terms.modules.keys().any(|name| covered.contains_key(name));
        if sold.peek().is_some() && !sold.any(is_common) {
            if known.contains(&false) {
                let reason = NotForLicense::NothingInCommon;
                tracing::warn!(shop, license = tag, %reason, "what was bought for a license is a sale of its own");
            }
            return;
        }
        let bought = found.bought();
        for (_, place) in objects {
            *place = Some(bought.clone());
        }
        facts.extend(self.base(&found));
        tracing::info!(shop, license = tag, "bought for a license");
    }

    /// What is known of an object, and the id that the ledger has for it.
    pub(super) fn known(&self, id: &HiddenId) -> Option<(Hex128, KnownFacts)> {
        let mut ids = std::iter::once(id.current).chain(id.retired.iter().copied());
        ids.find_map(|id| Some((id, self.bindings.sale(id)?.1)))
    }

    /// What a license grants, for the first thing that is bought for it where no shop had sold it.
    pub(super) fn base(&self, found: &FoundPlace) -> Option<Fact<HiddenId>> {
        match (&found.place, &found.base) {
            (PlaceName::License { license }, Some(grant)) => Some(Fact::Base(LicenseBase {
                grant: grant.clone(),
                license: (*license).into(),
                shop: self.shop(),
            })),
            _ => None,
        }
    }

    /// This shop and mode, as a license's base names them.
    fn shop(&self) -> HiddenId {
        self.requests.hide("shop")
    }

    fn find(&self, token: RenewalToken, keys: Option<&DownloadKeys>) -> Result<FoundPlace, NotForLicense> {
        if self.keys == KeyIssuer::Shop {
            return Err(NotForLicense::KeysOfShop);
        }
        let is_genuine = |id: &LicenseId| keys.is_some_and(|keys| keys.all().any(|key| token.is_of(key, id)));
        let issued = self.bindings.issued_beginning_with(token.beginning());
        let Some(named) = issued.filter(|found| is_genuine(&found.license.id)) else {
            let declared = self.registry.license_beginning_with(token.beginning());
            return Err(match declared.filter(|license| is_genuine(&license.id)) {
                Some(_) => NotForLicense::Declared,
                None => NotForLicense::Unknown,
            });
        };
        self.place_of(named)
    }

    /// The place of a license, or of the one with a newer key that took its place.
    pub(super) fn place_of(&self, named: LedgerLicense) -> Result<FoundPlace, NotForLicense> {
        let first = self.first(named.license.id, named.license.details.replaces);
        // Of no sale yet: only to follow new keys.
        let current = self.places(Hex128([0; 16]), false).successor_of(named);
        if current.license.status == LicenseStatus::Revoked {
            return Err(NotForLicense::Revoked);
        }
        let sold = current.license.details.remarks().sold.as_deref();
        let sale = sold.and_then(|sold| self.bindings.sale(sold.sale));
        let id = first_half(&first);
        let own = PlaceName::License { license: id };
        match (sold, sale) {
            // Issued by a person, imported, or sold before facts were kept.
            (None, _) if self.requests.mode() == SalesMode::Test => Err(NotForLicense::Test),
            (None, _) => Ok(FoundPlace {
                place: own,
                copy: 0,
                base: Some(SoldGrant {
                    status: LicenseStatus::Active,
                    ..current.license.sold_grant()
                }),
                license: current,
            }),
            (Some(_), Some((_, facts))) if facts.base(&id).is_some() => {
                let shop = self.shop();
                let by = facts.base(&id).map(|base| base.shop);
                let is_by = |shop: &Hex128| Some(*shop) == by;
                if !std::iter::once(&shop.current).chain(&shop.retired).any(is_by) {
                    return Err(NotForLicense::OtherShop);
                }
                Ok(FoundPlace {
                    place: own,
                    copy: 0,
                    license: current,
                    base: None,
                })
            }
            (Some(_), Some((sale, facts))) => {
                let places = self.places(sale, facts.is_earlier);
                let (place, copy) = place_of(places, &facts, &first).ok_or(NotForLicense::OtherShop)?;
                Ok(FoundPlace {
                    place,
                    copy,
                    license: current,
                    base: None,
                })
            }
            (Some(_), None) => Err(NotForLicense::OtherShop),
        }
    }

    fn places(&self, sale: Hex128, is_earlier: bool) -> SalePlaces<'_> {
        SalePlaces {
            registry: self.registry,
            bindings: self.bindings,
            requests: self.requests,
            sale,
            is_earlier,
        }
    }

    /// The license that the customer had first, whose key others took the place of.
    fn first(&self, mut first: LicenseId, mut before: Option<LicenseId>) -> LicenseId {
        for _ in 0..MOST_KEYS {
            let Some(found) = before.and_then(|id| self.bindings.issued(&id)) else {
                break;
            };
            first = found.license.id;
            before = found.license.details.replaces;
        }
        first
    }
}

/// The place of a license in its sale, and the number of its copy.
fn place_of(places: SalePlaces<'_>, facts: &KnownFacts, license: &LicenseId) -> Option<(PlaceName<Hex128>, u32)> {
    facts.all_places().into_iter().find_map(|place| {
        let copies = (0..MOST_LICENSES).map_while(|copy| Some((copy, places.find(&place, copy)?)));
        let mut copies = copies.filter(|(_, found)| found.license.id == *license);
        let (copy, _) = copies.next()?;
        Some((place.clone(), copy))
    })
}

fn first_half(license: &LicenseId) -> Hex128 {
    Hex128(std::array::from_fn(|at| license.as_bytes()[at]))
}
