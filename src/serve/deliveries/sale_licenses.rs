//! The licenses of a sale: one for each copy of each line, found by its place in the sale.
//!
//! The place is the idempotency key of the license, so that no delivery, however often and wherever it is applied, issues a
//! second one.

use std::sync::Arc;

use chrono::Utc;

use crate::model::digest::Digest;
use crate::model::issued_license::{Hex128, IssuedLicense};
use crate::model::license::{License, LicenseStatus};
use crate::model::license_key::LicenseId;
use crate::serve::gate::Gate;
use crate::shop::grant::GrantedLicense;
use crate::store::{ChangeBasis, ChangeOutcome, ChangeRefusal, LedgerChange, LedgerLicense};

use crate::serve::deliveries::error::{ApplyError, ParkReason};
use crate::serve::deliveries::sale_requests::SaleRequests;

/// How many new keys of a customer are followed.
const MOST_KEYS: usize = 16;

/// Attempts to change a license that others change at the same time.
const ATTEMPTS: usize = 16;

/// What a payment says of the end.
#[derive(Clone, Copy, Debug)]
pub(super) enum PaidEnd {
    /// Nothing: the offer's period counts, and a change may say more.
    Unknown,
    /// The end of the first period.
    Exact,
    /// The end of a further period. It shortens nothing.
    AtLeast,
}

/// The licenses of one sale.
pub(super) struct SaleLicenses<'a> {
    gate: &'a Gate,
    requests: &'a SaleRequests<'a>,
    sale: Hex128,
    /// The shop's first id of the sale.
    order: Option<&'a String>,
    /// Whether a part of the delivery's work may be done.
    has_begun: bool,
}

impl<'a> SaleLicenses<'a> {
    pub(super) fn new(
        gate: &'a Gate,
        requests: &'a SaleRequests<'a>,
        sale: Hex128,
        order: Option<&'a String>,
        has_begun: bool,
    ) -> Self {
        Self {
            gate,
            requests,
            sale,
            order,
            has_begun,
        }
    }

    /// Issues the licenses that are missing, and gives them. Of a delivery whose work had begun, those that this node issued
    /// are given, too: their mail may be missing.
    pub(super) async fn issue(&self, granted: &[(u32, GrantedLicense)]) -> Result<Vec<LicenseId>, ApplyError> {
        let mut issued = Vec::new();
        for (line, (count, license)) in granted.iter().enumerate() {
            for copy in 0..*count {
                match self.find(line, copy)? {
                    None => issued.extend(self.issue_one(line, copy, license).await?),
                    Some(found) if self.may_lack_mail(line, copy, &found) => issued.push(found.license.id),
                    Some(_) => {}
                }
            }
        }
        Ok(issued)
    }

    /// Whether this node may have issued a license and ended before its mail was in the queue. Each node mails what it issued,
    /// so that a license that two nodes heard of is mailed by one.
    fn may_lack_mail(&self, line: usize, copy: u32, found: &IssuedLicense) -> bool {
        let is_own = self
            .own_salt(&self.place(line, copy))
            .is_none_or(|salt| found.origin.salt == salt);
        self.has_begun && found.revision == 1 && is_own
    }

    /// The salt of what this node issues for a place, by which it knows its own licenses; `None` if there is no other node.
    fn own_salt(&self, place: &str) -> Option<Hex128> {
        let node = self.gate.bindings().node()?;
        let digest = Digest::of(format!("salt\n{node}\n{place}").as_bytes());
        let mut salt = [0; 16];
        salt.copy_from_slice(&digest.as_bytes()[..16]);
        Some(Hex128(salt))
    }

    /// Issues one license; `None` if another node issued it meanwhile.
    async fn issue_one(
        &self,
        line: usize,
        copy: u32,
        granted: &GrantedLicense,
    ) -> Result<Option<LicenseId>, ApplyError> {
        let place = self.place(line, copy);
        let request = self.requests.of(&place);
        let secrets = self.requests.secrets();
        let new = match self.own_salt(&place) {
            Some(salt) => secrets.origin_with(&request, salt),
            None => secrets.new_origin(&request).map_err(ApplyError::Random)?,
        };
        let change = LedgerChange {
            license: License {
                id: new.key.id(),
                status: self.status(),
                expires: granted.expires,
                modules: Arc::clone(&granted.modules),
                sites: granted.sites,
                grace_period_hours: None,
                details: granted.details.clone(),
            },
            reference: self.order.map(|order| secrets.reference(order)),
            scope: Arc::clone(self.requests.scope()),
            now: Utc::now(),
            basis: ChangeBasis::Issue {
                origin: new.origin,
                retired: new.retired,
            },
        };
        let issued = match self.gate.change_license(change).await? {
            ChangeOutcome::Recorded(issued) => Some(issued.license.id),
            // An attempt of this node that failed without a word may have been it.
            ChangeOutcome::Repeated(found) => self.may_lack_mail(line, copy, &found).then_some(found.license.id),
            ChangeOutcome::Refused(refusal) => return Err(ParkReason::Refused(refusal).into()),
        };
        // Another node may have recorded a refund meanwhile, and did not see this license yet.
        self.update(line, copy, |license| match self.status() {
            LicenseStatus::Active => {}
            status => license.status = status,
        })
        .await?;
        Ok(issued)
    }

    /// Has each license end as it is paid for. If nothing newer is known, those that are paid for have the sale's status.
    pub(super) async fn pay(
        &self,
        granted: &[(u32, GrantedLicense)],
        end: PaidEnd,
        is_newest: bool,
    ) -> Result<(), ApplyError> {
        for (line, (count, paid)) in granted.iter().enumerate() {
            for copy in 0..*count {
                self.update(line, copy, |license| {
                    license.expires = match end {
                        PaidEnd::Unknown => license.expires,
                        PaidEnd::Exact => paid.expires,
                        PaidEnd::AtLeast => license.expires.max(paid.expires),
                    };
                    if is_newest {
                        license.status = self.status();
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
        let first = self.find(0, 0)?.map(|first| self.successor_of(first).license.expires);
        if let Some(end) = first.filter(|_| !has_end) {
            sold.iter_mut().for_each(|(_, license)| license.expires = end);
        }
        let issued = self.issue(&sold).await?;
        for line in 0.. {
            let mut copy = 0;
            while self.find(line, copy)?.is_some() {
                let now = sold.get(line).filter(|(count, _)| copy < *count);
                self.update(line, copy, |license| match now {
                    None => license.status = LicenseStatus::Suspended,
                    Some((_, now)) => {
                        license.modules = Arc::clone(&now.modules);
                        license.sites = now.sites;
                        license.take_limits(&now.details);
                        license.status = self.status();
                        license.expires = if has_end { now.expires } else { license.expires };
                    }
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

    /// Gives every license the status of the sale.
    pub(super) async fn follow_status(&self) -> Result<(), ApplyError> {
        for line in 0.. {
            let mut copy = 0;
            while self.find(line, copy)?.is_some() {
                self.update(line, copy, |license| license.status = self.status())
                    .await?;
                copy += 1;
            }
            if copy == 0 {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The status of the sale as this node knows it now. Read after the license: lines of a sale precede those of its
    /// licenses, so that a status that is older than a license's revision is never written over it.
    fn status(&self) -> LicenseStatus {
        let sale = self.gate.bindings().sale(self.sale);
        sale.map_or(LicenseStatus::Active, |sale| sale.license_status())
    }

    /// Changes a license of the sale, however many change it at the same time. One that somebody else suspended or revoked is
    /// not brought back, and stays theirs.
    async fn update(&self, line: usize, copy: u32, change: impl Fn(&mut License)) -> Result<(), ApplyError> {
        for _ in 0..ATTEMPTS {
            let Some(found) = self.find(line, copy)? else {
                return Ok(());
            };
            let found = self.successor_of(found);
            let current: &IssuedLicense = &found;
            let mut license = current.license.clone();
            change(&mut license);
            let mut scope = self.requests.scope();
            if current.scope != *scope {
                license.status = license.status.graver(current.license.status);
                if license.status == current.license.status && license.status != LicenseStatus::Active {
                    scope = &current.scope;
                }
            }
            if license == current.license {
                return Ok(());
            }
            let wanted = LedgerChange {
                license,
                reference: None,
                scope: Arc::clone(scope),
                now: Utc::now(),
                basis: ChangeBasis::Revision(current.revision),
            };
            match self.gate.change_license(wanted).await? {
                ChangeOutcome::Recorded(_) | ChangeOutcome::Repeated(_) => return Ok(()),
                ChangeOutcome::Refused(ChangeRefusal::Revised { .. }) => {}
                ChangeOutcome::Refused(refusal) => return Err(ParkReason::Refused(refusal).into()),
            }
        }
        Err(crate::store::StoreError::Busy.into())
    }

    /// The license of this place, whichever secret it was issued with.
    fn find(&self, line: usize, copy: u32) -> Result<Option<LedgerLicense>, ApplyError> {
        let place = self.place(line, copy);
        let keys = self.requests.secrets().request_keys(&self.requests.of(&place));
        Ok(keys.into_iter().find_map(|key| self.gate.bindings().issued_for(key)))
    }

    /// The license that took the place of this one when somebody gave the customer a new key; the same one if nobody did.
    fn successor_of(&self, mut found: LedgerLicense) -> LedgerLicense {
        for _ in 0..MOST_KEYS {
            // Only a new key revokes a license in the name of somebody else and has a successor.
            let current = &found.license;
            if current.status != LicenseStatus::Revoked || found.scope == *self.requests.scope() {
                break;
            }
            let replaces = |license: &License| license.details.replaces == Some(current.id);
            match self.gate.bindings().issued_after(None, 1, &replaces).pop() {
                Some(successor) => found = successor,
                None => break,
            }
        }
        found
    }

    fn place(&self, line: usize, copy: u32) -> String {
        format!("{}/{line}/{copy}", self.sale)
    }
}
