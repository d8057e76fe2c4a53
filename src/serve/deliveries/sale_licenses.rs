//! The licenses of a sale: each is what the facts of the sale grant to its place, with what people changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::Utc;

use countersign_ledger::{ChangeBasis, ChangeOutcome, ChangeRefusal, KnownFacts, LedgerChange, LedgerLicense};
use countersign_mail::address::MailAddress;
use countersign_model::customer::{CustomerAddress, LicenseMails, NewCustomer};
use countersign_model::issued_license::{ChangeScope, Hex128, IssueOrigin, IssuedLicense};
use countersign_model::language::Language;
use countersign_model::license::{Details, License, LicenseStatus, Modules, SiteLimit};
use countersign_model::license_key::LicenseId;
use countersign_model::offer::ShopId;
use countersign_model::period::NEVER;
use countersign_model::remarks::{Author, NewRemarks};
use countersign_model::sale::edits::Sold;
use countersign_model::sale::fact::PlaceName;
use countersign_model::sale::grants::SoldLicense;
use countersign_model::sale::terms::{SoldGrant, Terms};
use countersign_settings::config::CustomerRule;

use crate::serve::customer_numbers::{self, SaidCustomer};
use crate::serve::deliveries::error::{ApplyError, NotOneLicense, ParkReason};
use crate::serve::deliveries::sale_places::{SalePlaces, place_key};

/// Attempts to change a license that others change at the same time.
const ATTEMPTS: usize = 16;

/// Whose key a license gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SaleKey {
    /// Ours.
    Own,
    /// The one that the shop made.
    OfShop,
}

/// The licenses of one sale.
pub(super) struct SaleLicenses<'a> {
    places: SalePlaces<'a>,
    /// The objects of the shop that the delivery names.
    objects: Vec<Hex128>,
    /// The shop's id of the order.
    order: Option<&'a String>,
    key: SaleKey,
    by: SaleChanger,
}

/// What a delivery says of the mails about licenses of its sale.
pub(super) struct SaleMails<'a> {
    pub(super) language: Option<&'a Language>,
    /// What the shop calls things, by price.
    pub(super) words: &'a BTreeMap<ShopId, Box<str>>,
    /// What each price grants.
    pub(super) terms: &'a BTreeMap<ShopId, Terms>,
    pub(super) rule: CustomerRule,
}

/// The author of changes that make licenses follow their sale.
pub(super) struct SaleChanger {
    pub(super) scope: Arc<ChangeScope>,
    pub(super) author: Author,
}

/// A license that follows its sale.
pub(in crate::serve) struct FollowedLicense {
    /// As it is.
    pub(in crate::serve) found: LedgerLicense,
    /// As it follows.
    pub(in crate::serve) license: License,
    sold: Sold,
    /// What the shop grants.
    of_shop: LicenseStatus,
}

impl SaleMails<'_> {
    /// What the shop calls the one price that grants these modules.
    fn product(&self, modules: &Modules) -> Option<Box<str>> {
        if self.rule == CustomerRule::Hash {
            return None;
        }
        let grants = |price: &ShopId| self.terms.get(price).is_some_and(|terms| *terms.modules == *modules);
        let mut named = self.words.iter().filter(|(price, _)| grants(price));
        let (_, words) = named.next()?;
        named.next().is_none().then(|| words.clone())
    }
}

impl<'a> SaleLicenses<'a> {
    /// Those that a delivery changes. `author` is the person who entered what the delivery lacks.
    pub(super) fn new(
        places: SalePlaces<'a>,
        objects: Vec<Hex128>,
        order: Option<&'a String>,
        key: SaleKey,
        author: Author,
    ) -> Self {
        let by = SaleChanger {
            scope: Arc::clone(places.requests.scope()),
            author,
        };
        Self {
            places,
            objects,
            order,
            key,
            by,
        }
    }

    /// Those that somebody else changes.
    pub(super) fn changed_for(places: SalePlaces<'a>, by: SaleChanger) -> Self {
        Self {
            places,
            objects: Vec::new(),
            order: None,
            key: SaleKey::Own,
            by,
        }
    }

    /// The number of the buyer, if a license is to be issued. The row with the address is durable then.
    pub(super) async fn customer(
        &self,
        address: Option<&MailAddress>,
        name: Option<&str>,
        rule: CustomerRule,
    ) -> Result<Option<Hex128>, ApplyError> {
        // An address that mail can be sent to and nobody can be found by is no reason to issue nothing.
        let address = address.and_then(|address| address.reveal().parse::<CustomerAddress>().ok());
        let Some(address) = address else { return Ok(None) };
        if self.missing().map_err(ParkReason::from)?.is_empty() {
            return Ok(None);
        }
        let said = SaidCustomer {
            address: &address,
            name,
            by: self.places.requests.scope(),
        };
        let secrets = self.places.requests.secrets();
        Ok(Some(
            customer_numbers::number(self.places.bindings, secrets, said, rule).await?,
        ))
    }

    /// The customer of a license of the sale, if one is known.
    pub(super) fn holder(&self) -> Option<Hex128> {
        let copies = self.copies(&self.facts()).into_iter();
        let mut found = copies.filter_map(|(place, copy)| self.places.find(&place, copy));
        found.find_map(|found| found.license.details.remarks().holder)
    }

    /// The sale.
    pub(super) fn sale(&self) -> Hex128 {
        self.places.sale
    }

    /// What is known of the sale now.
    fn facts(&self) -> KnownFacts {
        let known = self.places.bindings.sale(self.places.sale);
        known.map(|(_, facts)| facts).unwrap_or_default()
    }

    /// The places whose license is missing, and is to be issued.
    pub(super) fn missing(&self) -> Result<Vec<SoldLicense<Hex128>>, NotOneLicense> {
        let facts = self.facts();
        let licenses = facts.grants().licenses;
        let is_active = |sold: &&SoldLicense<_>| sold.grant.status == LicenseStatus::Active;
        let active = licenses.iter().filter(is_active).count();
        if self.key == SaleKey::OfShop && active > 1 {
            return Err(NotOneLicense(active));
        }
        let mut missing = licenses;
        // SECURITY: who buys for a license of somebody else gets no key of their sale.
        let is_own = |sold: &SoldLicense<_>| !facts.has_bought() || facts.is_place_of(&sold.place, &self.objects);
        missing.retain(|sold| is_active(&sold) && is_own(sold) && self.places.find(&sold.place, sold.copy).is_none());
        Ok(missing)
    }

    /// The licenses at these places that this node issued: another node mails its own.
    pub(super) fn own(&self, places: &[String]) -> Vec<LicenseId> {
        let own = |place: &String| {
            let found = self.places.find_key(place)?;
            self.is_own(place, &found).then_some(found.license.id)
        };
        places.iter().filter_map(own).collect()
    }

    fn is_own(&self, place: &str, found: &IssuedLicense) -> bool {
        let salt = self.places.own_salt(place);
        salt.is_none_or(|salt| found.origin.salt == salt)
    }

    /// Issues what is missing for a customer, who is the same whatever the shop says later. Gives the licenses that this node issued.
    pub(super) async fn issue_missing(&self, customer: Option<Hex128>) -> Result<Vec<LicenseId>, ApplyError> {
        let mut issued = Vec::new();
        for sold in self.missing().map_err(ParkReason::from)? {
            issued.extend(self.issue(&sold, customer).await?);
            // Another node may have recorded a refund meanwhile, and did not see this license yet.
            self.update(&sold.place, sold.copy).await?;
        }
        Ok(issued)
    }

    /// Keeps what is known of the mails about these licenses, where it can be erased.
    pub(super) async fn keep_mails(&self, licenses: &[LicenseId], mails: &SaleMails<'_>) -> Result<(), ApplyError> {
        let scope = self.places.requests.scope();
        let row = |id: &LicenseId| {
            let found = self.places.bindings.issued(id)?;
            let known = LicenseMails {
                language: mails.language.cloned(),
                product: mails.product(&found.license.modules),
                reminders_to: None,
            };
            let holder = found.license.details.remarks().holder;
            (known != LicenseMails::default()).then(|| NewCustomer::of_license(id, holder, scope, known))
        };
        let rows: Vec<_> = licenses.iter().filter_map(row).collect();
        if !rows.is_empty() {
            self.places.bindings.keep_customers(rows).await?;
        }
        Ok(())
    }

    /// Has every license of the sale be as the facts say.
    pub(super) async fn update_all(&self) -> Result<(), ApplyError> {
        for (place, copy) in self.copies(&self.facts()) {
            self.update(&place, copy).await?;
        }
        Ok(())
    }

    /// The licenses that would be other ones than they are if this were known of the sale.
    pub(super) fn changed_by(&self, facts: &KnownFacts) -> Vec<FollowedLicense> {
        let followed = self.copies(facts).into_iter();
        let followed = followed.filter_map(|(place, copy)| self.followed(&place, copy, || Arc::clone(facts)));
        followed
            .filter(|followed| followed.license != followed.found.license)
            .collect()
    }

    /// Every copy of a place that these facts name, or that has a license.
    fn copies(&self, facts: &KnownFacts) -> Vec<(PlaceName<Hex128>, u32)> {
        let mut counts: BTreeMap<PlaceName<Hex128>, u32> = BTreeMap::new();
        for sold in facts.grants().licenses {
            let count = counts.entry(sold.place).or_default();
            *count = (*count).max(sold.copy + 1);
        }
        for place in facts.all_places() {
            counts.entry(place).or_default();
        }
        let mut copies = Vec::new();
        for (place, sold) in counts {
            let mut copy = 0;
            // Beyond what is sold there may be copies that were.
            while copy < sold || self.places.find(&place, copy).is_some() {
                copies.push((place.clone(), copy));
                copy += 1;
            }
        }
        copies
    }

    /// Issues one license; `None` if another node issued it meanwhile.
    async fn issue(
        &self,
        sold: &SoldLicense<Hex128>,
        customer: Option<Hex128>,
    ) -> Result<Option<LicenseId>, ApplyError> {
        let place = place_key(&sold.place, sold.copy);
        let request = self.places.requests.of(&place);
        let secrets = self.places.requests.secrets();
        let new = match self.places.own_salt(&place) {
            Some(salt) => secrets.origin_with(&request, salt),
            None => secrets.new_origin(&request).map_err(ApplyError::Random)?,
        };
        let (id, origin) = match self.key {
            SaleKey::Own => (new.key.id(), new.origin),
            // As of an import: no secret of ours makes this key.
            SaleKey::OfShop => {
                let key = self.facts().key();
                let id = key.ok_or(ApplyError::NoKeyYet { is_late: false })?;
                (
                    id,
                    IssueOrigin {
                        secret: 0,
                        ..new.origin
                    },
                )
            }
        };
        let mut license = License {
            id,
            status: LicenseStatus::Active,
            expires: NEVER,
            modules: Arc::new(Modules::new()),
            sites: SiteLimit::DEFAULT,
            grace_period_hours: None,
            details: Details::default(),
            is_declared: false,
        };
        let mut of_sale = Sold::of(self.places.sale);
        of_sale.offer.clone_from(&sold.offer);
        let (of_sale, in_force) = of_sale.after_shop(sold.grant.clone());
        license.take_sold(&in_force);
        let change = LedgerChange {
            remarks: NewRemarks {
                holder: customer,
                sold: Some(Box::new(of_sale)),
                ..NewRemarks::default()
            },
            author: self.by.author.clone(),
            license,
            reference: self.order.map(|order| secrets.reference(order)),
            scope: Arc::clone(self.places.requests.scope()),
            status_by: None,
            now: Utc::now(),
            basis: ChangeBasis::Issue {
                origin,
                retired: new.retired,
            },
        };
        match self.places.record(change, None).await? {
            ChangeOutcome::Recorded(issued) => Ok(Some(issued.license.id)),
            // An attempt of this node that failed without a word may have been it.
            ChangeOutcome::Repeated(found) => Ok(self.is_own(&place, &found).then_some(found.license.id)),
            ChangeOutcome::Refused(refusal) => Err(ParkReason::Refused(refusal).into()),
        }
    }

    /// Has a license be as the facts say, however many change it at the same time.
    async fn update(&self, place: &PlaceName<Hex128>, copy: u32) -> Result<(), ApplyError> {
        let shop = self.places.requests.scope();
        for _ in 0..ATTEMPTS {
            let Some(followed) = self.followed(place, copy, || self.facts()) else {
                return Ok(());
            };
            let FollowedLicense {
                found,
                license,
                sold,
                of_shop,
            } = followed;
            let current: &IssuedLicense = &found;
            if license == current.license && current.license.details.remarks().sold.as_deref() == Some(&sold) {
                return Ok(());
            }
            let by_shop = license.status == of_shop;
            let status_by = if by_shop {
                Some(shop)
            } else {
                current.status_by.as_ref()
            };
            let wanted = LedgerChange {
                remarks: NewRemarks {
                    sold: Some(Box::new(sold)),
                    ..NewRemarks::default()
                },
                author: self.by.author.clone(),
                status_by: status_by.cloned(),
                license,
                reference: None,
                scope: Arc::clone(&self.by.scope),
                now: Utc::now(),
                basis: ChangeBasis::Revision(current.revision),
            };
            let before = Some(current.license.status);
            match self.places.record(wanted, before).await? {
                ChangeOutcome::Recorded(_) | ChangeOutcome::Repeated(_) => return Ok(()),
                ChangeOutcome::Refused(ChangeRefusal::Revised { .. }) => {}
                ChangeOutcome::Refused(refusal) => return Err(ParkReason::Refused(refusal).into()),
            }
        }
        Err(countersign_ledger::StoreError::Busy.into())
    }

    /// A license as the facts have it; `None` if there is none, or it is revoked. The facts are read after the license: lines of a
    /// sale precede those of its licenses, so that what is older than a license's revision is never written over it, whichever node
    /// applied the other delivery.
    fn followed(
        &self,
        place: &PlaceName<Hex128>,
        copy: u32,
        facts: impl FnOnce() -> KnownFacts,
    ) -> Option<FollowedLicense> {
        let found = self.places.find(place, copy)?;
        if let (SaleKey::OfShop, Some(key)) = (self.key, self.facts().key()) {
            self.places.warn_of_other_key(&found, key);
        }
        let found = self.places.successor_of(found);
        let current: &IssuedLicense = &found;
        // For good.
        if current.license.status == LicenseStatus::Revoked {
            return None;
        }
        let known = current.license.details.remarks().sold.as_deref();
        if known.is_some_and(|sold| self.places.is_of_other(sold.sale)) {
            // Something was bought for it before the facts of this sale were known.
            let license = current.license.id.log_tag();
            tracing::warn!(
                license,
                "a license follows another sale: what this one says changes nothing of it"
            );
            return None;
        }
        let mut sold = known.cloned().unwrap_or_else(|| self.sold(current));
        let granted = facts().grants().licenses;
        let granted = granted
            .into_iter()
            .find(|sold| sold.place == *place && sold.copy == copy);
        // What is not sold anymore is suspended.
        let granted = match granted {
            Some(granted) => {
                sold.offer = granted.offer;
                granted.grant
            }
            None => SoldGrant {
                status: LicenseStatus::Suspended,
                renewal_days: None,
                ..sold.granted(&current.license.sold_grant())
            },
        };
        let of_shop = granted.status;
        let mut license = current.license.clone();
        let (sold, in_force) = sold.after_shop(granted);
        license.take_sold(&in_force);
        Some(FollowedLicense {
            found,
            license,
            sold,
            of_shop,
        })
    }

    /// A license that was sold before facts were kept. If somebody else withdrew it, it stays so.
    fn sold(&self, current: &IssuedLicense) -> Sold {
        let is_theirs = |by: &&Arc<_>| !self.places.requests.is_shop(by);
        match current.status_by.as_ref().filter(is_theirs) {
            Some(_) => Sold::withdrawn(self.places.sale, &current.license.sold_grant()),
            None => Sold::of(self.places.sale),
        }
    }
}
