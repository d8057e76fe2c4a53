//! The licenses of a sale: one for each copy of each line, found by its place in the sale.
//!
//! The place is the idempotency key of the license, so that no delivery, however often and wherever it is applied, issues a
//! second one.

use std::sync::Arc;

use chrono::Utc;

use countersign_ledger::{ChangeBasis, ChangeOutcome, ChangeRefusal, LedgerChange};
use countersign_model::issued_license::{Hex128, IssueOrigin, IssuedLicense};
use countersign_model::license::{License, LicenseStatus};
use countersign_model::license_key::LicenseId;
use countersign_model::remarks::{Author, NewRemarks};
use countersign_shops::grant::{GrantedLicense, NotOneLicense};

use crate::serve::deliveries::error::{ApplyError, ParkReason};
use crate::serve::deliveries::known_sale::KnownSale;
use crate::serve::deliveries::sale_places::SalePlaces;
use crate::serve::deliveries::sale_words::{CopyState, PaidEnd, SaleKey};

/// Attempts to change a license that others change at the same time.
const ATTEMPTS: usize = 16;

/// The licenses of one sale.
pub(super) struct SaleLicenses<'a> {
    places: SalePlaces<'a>,
    /// The shop's first id of the sale.
    order: Option<&'a String>,
    key: SaleKey,
    sale: KnownSale<'a>,
}

impl<'a> SaleLicenses<'a> {
    pub(super) fn new(places: SalePlaces<'a>, order: Option<&'a String>, key: SaleKey, sale: KnownSale<'a>) -> Self {
        Self {
            places,
            order,
            key,
            sale,
        }
    }

    /// The sale.
    pub(super) fn sale(&self) -> Hex128 {
        self.places.sale
    }

    /// The places whose license is missing.
    pub(super) fn missing(&self, granted: &[(u32, GrantedLicense)]) -> Vec<(usize, u32)> {
        let places = granted.iter().enumerate();
        let places = places.flat_map(|(line, (count, _))| (0..*count).map(move |copy| (line, copy)));
        places
            .filter(|(line, copy)| self.places.find(*line, *copy).is_none())
            .collect()
    }

    /// The licenses at these places that this node issued: another node mails its own.
    pub(super) fn own(&self, places: &[(usize, u32)]) -> Vec<LicenseId> {
        let own = |(line, copy): &(usize, u32)| {
            let found = self.places.find(*line, *copy)?;
            self.is_own(*line, *copy, &found).then_some(found.license.id)
        };
        places.iter().filter_map(own).collect()
    }

    /// Issues the licenses that are missing, and gives those that this node issued.
    pub(super) async fn issue(&self, granted: &[(u32, GrantedLicense)]) -> Result<Vec<LicenseId>, ApplyError> {
        let mut issued = Vec::new();
        for (line, copy) in self.missing(granted) {
            issued.extend(self.issue_one(line, copy, &granted[line].1).await?);
        }
        Ok(issued)
    }

    fn is_own(&self, line: usize, copy: u32, found: &IssuedLicense) -> bool {
        let salt = self.places.own_salt(&self.places.place(line, copy));
        salt.is_none_or(|salt| found.origin.salt == salt)
    }

    /// Issues one license; `None` if another node issued it meanwhile, or if the money went back before its key came.
    async fn issue_one(
        &self,
        line: usize,
        copy: u32,
        granted: &GrantedLicense,
    ) -> Result<Option<LicenseId>, ApplyError> {
        let place = self.places.place(line, copy);
        let request = self.places.requests.of(&place);
        let secrets = self.places.requests.secrets();
        let new = match self.places.own_salt(&place) {
            Some(salt) => secrets.origin_with(&request, salt),
            None => secrets.new_origin(&request).map_err(ApplyError::Random)?,
        };
        let (id, origin) = match self.key {
            SaleKey::Own => (new.key.id(), new.origin),
            SaleKey::OfShop(None) if self.sale.is_refunded() => return Ok(None),
            SaleKey::OfShop(None) => return Err(ApplyError::NoKeyYet { is_late: false }),
            SaleKey::OfShop(Some(_)) if (line, copy) != (0, 0) => {
                return Err(ParkReason::from(NotOneLicense(copy + 1)).into());
            }
            // As of an import: no secret of ours makes this key.
            SaleKey::OfShop(Some(id)) => (
                id,
                IssueOrigin {
                    secret: 0,
                    ..new.origin
                },
            ),
        };
        let change = LedgerChange {
            remarks: NewRemarks::default(),
            author: Author::default(),
            license: License {
                id,
                status: self.sale.status(),
                expires: granted.expires,
                modules: Arc::clone(&granted.modules),
                sites: granted.sites,
                grace_period_hours: None,
                details: granted.details.clone(),
                is_declared: false,
            },
            reference: self.order.map(|order| secrets.reference(order)),
            scope: Arc::clone(self.places.requests.scope()),
            status_by: None,
            now: Utc::now(),
            basis: ChangeBasis::Issue {
                origin,
                retired: new.retired,
            },
        };
        let issued = match self.places.record(change, None).await? {
            ChangeOutcome::Recorded(issued) => Some(issued.license.id),
            // An attempt of this node that failed without a word may have been it.
            ChangeOutcome::Repeated(found) => self.is_own(line, copy, &found).then_some(found.license.id),
            ChangeOutcome::Refused(refusal) => return Err(ParkReason::Refused(refusal).into()),
        };
        // Another node may have recorded a refund meanwhile, and did not see this license yet.
        self.update(line, copy, |license| {
            match self.sale.status() {
                LicenseStatus::Active => {}
                status => license.status = status,
            }
            CopyState::Unsaid
        })
        .await?;
        Ok(issued)
    }

    /// Has each license end as it is paid for. If nothing later is known, those that are paid for have the sale's status.
    pub(super) async fn pay(&self, granted: &[(u32, GrantedLicense)], end: PaidEnd) -> Result<(), ApplyError> {
        for (line, (count, paid)) in granted.iter().enumerate() {
            for copy in 0..*count {
                self.update(line, copy, |license| {
                    license.expires = match end {
                        PaidEnd::Unknown => license.expires,
                        PaidEnd::Exact => self.sale.end_or(paid.expires),
                        PaidEnd::AtLeast => license.expires.max(self.sale.end_or(paid.expires)),
                    };
                    if !self.sale.is_newest() {
                        return CopyState::Unsaid;
                    }
                    license.status = self.sale.status();
                    // The first order may be told again after fewer were sold: only a renewal sells its copies again.
                    match end {
                        PaidEnd::AtLeast => CopyState::Sold,
                        PaidEnd::Unknown | PaidEnd::Exact => CopyState::Unsaid,
                    }
                })
                .await?;
            }
        }
        Ok(())
    }

    /// Has the licenses grant what is sold now. One more is issued; one less is suspended, until it is sold again. Without an
    /// end of its own, a change moves no end.
    pub(super) async fn change(
        &self,
        sold: &[(u32, GrantedLicense)],
        has_end: bool,
    ) -> Result<Vec<LicenseId>, ApplyError> {
        let mut sold = sold.to_vec();
        let first = self
            .places
            .find(0, 0)
            .map(|first| self.places.successor_of(first).license.expires);
        if let Some(end) = first.filter(|_| !has_end) {
            sold.iter_mut().for_each(|(_, license)| license.expires = end);
        }
        let issued = self.issue(&sold).await?;
        for line in 0.. {
            let mut copy = 0;
            while self.places.find(line, copy).is_some() {
                let now = sold.get(line).filter(|(count, _)| copy < *count);
                self.update(line, copy, |license| {
                    // Another node applies it.
                    if self.sale.has_later_change() {
                        return CopyState::Unsaid;
                    }
                    let Some((_, now)) = now else {
                        license.status = LicenseStatus::Suspended.graver(self.sale.status());
                        return CopyState::Surplus;
                    };
                    license.modules = Arc::clone(&now.modules);
                    license.sites = now.sites;
                    license.take_limits(&now.details);
                    license.status = self.sale.status();
                    if has_end {
                        license.expires = self.sale.end_or(now.expires);
                    }
                    CopyState::Sold
                })
                .await?;
                copy += 1;
            }
            if copy == 0 {
                return Ok(issued);
            }
        }
        Ok(issued)
    }

    /// Gives every license the status of the sale, but those that are suspended because fewer are sold.
    pub(super) async fn follow_status(&self) -> Result<(), ApplyError> {
        for line in 0.. {
            let mut copy = 0;
            while self.places.find(line, copy).is_some() {
                self.update(line, copy, |license| {
                    license.status = self.sale.status();
                    CopyState::Unsaid
                })
                .await?;
                copy += 1;
            }
            if copy == 0 {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Changes a license of the sale, however many change it at the same time: `change` may be called more than once. One that
    /// somebody else suspended or revoked is not brought back, and stays theirs.
    async fn update(
        &self,
        line: usize,
        copy: u32,
        change: impl Fn(&mut License) -> CopyState,
    ) -> Result<(), ApplyError> {
        let shop = self.places.requests.scope();
        let surplus = self.places.requests.surplus();
        for _ in 0..ATTEMPTS {
            let Some(found) = self.places.find(line, copy) else {
                return Ok(());
            };
            let found = self.places.successor_of(found);
            let current: &IssuedLicense = &found;
            let mut license = current.license.clone();
            let state = change(&mut license);
            let is_surplus = current.status_by.as_ref() == Some(surplus);
            let theirs = current.status_by.as_ref().filter(|by| !self.places.is_shop(by));
            let mut status_by = match state {
                CopyState::Surplus => surplus,
                CopyState::Unsaid if is_surplus => surplus,
                CopyState::Unsaid | CopyState::Sold => shop,
            };
            if is_surplus && state == CopyState::Unsaid {
                license.status = license.status.graver(LicenseStatus::Suspended);
            }
            if let Some(theirs) = theirs {
                license.status = license.status.graver(current.license.status);
                if license.status == current.license.status {
                    status_by = theirs;
                }
            }
            // A license that is suspended already notes that it is not sold anymore.
            let is_noted = license.status == LicenseStatus::Active || current.status_by.as_ref() == Some(status_by);
            if license == current.license && is_noted {
                return Ok(());
            }
            let wanted = LedgerChange {
                remarks: NewRemarks::default(),
                author: Author::default(),
                license,
                reference: None,
                scope: Arc::clone(shop),
                status_by: Some(Arc::clone(status_by)),
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
}
