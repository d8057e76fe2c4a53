//! Changes to licenses of the ledger: what is asked for, and what the committing thread decides.
//!
//! A retry finds its license by the key of its origin, under the ledger's lock: two nodes never issue twice for one
//! request. [`binding_batch`](crate::store::binding_batch) has the lines appended with those of bindings.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::model::issued_license::{ChangeScope, Hex128, IssueOrigin, IssuedLicense};
use crate::model::license::License;
use crate::model::license_key::LicenseId;

use crate::store::issued_licenses::IssuedLicenses;
use crate::store::log::license_line;
use crate::store::log::record::{self, LedgerEvent};

/// A license to issue or to change.
#[derive(Clone, Debug)]
pub struct LedgerChange {
    /// The license as it shall be. Its note is not kept.
    pub license: License,
    /// An HMAC of the shop's order.
    pub reference: Option<Hex128>,
    /// Who asks for it.
    pub scope: Arc<ChangeScope>,
    /// When. A shared ledger uses its own clock.
    pub now: DateTime<Utc>,
    /// Whether it is new.
    pub basis: ChangeBasis,
}

/// What a change is based on.
#[derive(Clone, Debug)]
pub enum ChangeBasis {
    /// Nothing: the license is issued.
    Issue(IssueOrigin),
    /// This revision of the license.
    Revision(u32),
}

/// The result of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeOutcome {
    /// It is in force, durably.
    Recorded(Arc<IssuedLicense>),
    /// The same request issued this license before. It is as it is now.
    Repeated(Arc<IssuedLicense>),
    /// Nothing was changed.
    Refused(ChangeRefusal),
}

/// Why a license was not issued or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeRefusal {
    /// Another request has the same idempotency key.
    OtherRequest,
    /// There is a license with this id.
    Exists,
    /// The ledger has no license with this id.
    Unknown,
    /// The license has another revision by now.
    Revised {
        /// Its revision.
        revision: u32,
    },
    /// It does not fit a line of the ledger: it has too many modules, features or hosts.
    TooLong,
}

/// The licenses of one group commit, before memory has them.
pub(crate) struct LicenseBatch<'m> {
    memory: &'m IssuedLicenses,
    /// Those of lines that were learned or decided.
    ahead: HashMap<LicenseId, Arc<IssuedLicense>>,
    by_key: HashMap<Hex128, LicenseId>,
}

impl<'m> LicenseBatch<'m> {
    pub(crate) fn new(memory: &'m IssuedLicenses) -> Self {
        Self {
            memory,
            ahead: HashMap::new(),
            by_key: HashMap::new(),
        }
    }

    /// Forgets what was learned and decided.
    pub(crate) fn begin_again(&mut self) {
        self.ahead.clear();
        self.by_key.clear();
    }

    /// Takes the license of a line.
    pub(crate) fn take(&mut self, license: Arc<IssuedLicense>) {
        self.by_key.insert(license.origin.key, license.license.id);
        self.ahead.insert(license.license.id, license);
    }

    /// Every license that was taken, as it is now.
    pub(crate) fn into_licenses(self) -> impl Iterator<Item = Arc<IssuedLicense>> {
        self.ahead.into_values()
    }

    fn of(&self, id: &LicenseId) -> Option<Arc<IssuedLicense>> {
        let in_memory = || self.memory.of(id).map(|held| held.to_shared());
        self.ahead.get(id).cloned().or_else(in_memory)
    }

    fn of_key(&self, key: Hex128) -> Option<Arc<IssuedLicense>> {
        match self.by_key.get(&key) {
            Some(id) => self.of(id),
            None => self.of(&self.memory.of_key(key)?.license.id),
        }
    }

    /// Decides a change; its line, if it has one, is added to `appended`.
    pub(crate) fn decide(
        &mut self,
        change: &LedgerChange,
        clock: Option<DateTime<Utc>>,
        appended: &mut Vec<LedgerEvent>,
    ) -> ChangeOutcome {
        match self.changed(change, clock) {
            Ok(ChangeOutcome::Recorded(license)) => {
                appended.push(LedgerEvent::License(Arc::clone(&license)));
                self.take(Arc::clone(&license));
                ChangeOutcome::Recorded(license)
            }
            Ok(outcome) => outcome,
            Err(refusal) => ChangeOutcome::Refused(refusal),
        }
    }

    fn changed(&self, change: &LedgerChange, clock: Option<DateTime<Utc>>) -> Result<ChangeOutcome, ChangeRefusal> {
        let id = change.license.id;
        let now = clock.unwrap_or(change.now);
        let (origin, revision, time) = match &change.basis {
            ChangeBasis::Issue(origin) => {
                if let Some(first) = self.of_key(origin.key) {
                    return match first.origin.body == origin.body {
                        true => Ok(ChangeOutcome::Repeated(first)),
                        false => Err(ChangeRefusal::OtherRequest),
                    };
                }
                if self.of(&id).is_some() {
                    return Err(ChangeRefusal::Exists);
                }
                (origin.clone(), 1, now)
            }
            ChangeBasis::Revision(expected) => {
                let current = self.of(&id).ok_or(ChangeRefusal::Unknown)?;
                let revision = current.revision;
                if revision != *expected {
                    return Err(ChangeRefusal::Revised { revision });
                }
                let next = revision.checked_add(1).ok_or(ChangeRefusal::Revised { revision })?;
                // Never before the revision before, whatever happens to the clock.
                (current.origin.clone(), next, now.max(current.time))
            }
        };
        let mut license = change.license.clone();
        if !license.details.note.is_empty() {
            license.details.note.clear();
        }
        let license = IssuedLicense {
            license,
            origin,
            reference: change.reference,
            revision,
            scope: Arc::clone(&change.scope),
            time,
        };
        match license_line::longest(&license) <= record::MAX {
            true => Ok(ChangeOutcome::Recorded(Arc::new(license))),
            false => Err(ChangeRefusal::TooLong),
        }
    }
}
