//! Changes one license of the ledger by a step: looks it up, decides, and tries again if somebody else was first.
//!
//! The management API does so for programs, and the admin listener for commands.

use std::sync::Arc;

use chrono::Utc;

use crate::keys::license_secrets::NewOrigin;
use crate::model::issued_license::{ChangeScope, IssuedLicense};
use crate::model::license::License;
use crate::model::license_key::LicenseId;
use crate::registry::Registry;
use crate::serve::found_license::{self, ChangeError, FoundLicense};
use crate::serve::license_steps::{LicenseStep, StepRefusal};
use crate::store::{
    Bindings, ChangeBasis, ChangeOutcome, ChangeRefusal, LedgerChange, LedgerLicense, LedgerLook, StoreError,
};

/// How often to try if others change the same license all the time.
const ATTEMPTS: usize = 5;

/// Which revision a change is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedRevision {
    /// Whichever it has.
    Any,
    /// This one.
    Only(u32),
}

/// Why a license of the ledger was not found or not changed.
#[derive(Debug, thiserror::Error)]
pub enum LicenseChangeError {
    /// Nobody has this license.
    #[error("there is no license with this id")]
    NoSuchLicense,
    /// It was changed since.
    #[error("the license was changed since")]
    Revised,
    /// The license does not allow the step.
    #[error(transparent)]
    Step(#[from] StepRefusal),
    /// It stands in a file, or the ledger could not be written.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The ledger refused the change.
    #[error("the license has too many modules, features or hosts")]
    Refused(ChangeRefusal),
    /// Others change it all the time.
    #[error("others change the license all the time; try again")]
    Contended,
}

impl From<StoreError> for LicenseChangeError {
    fn from(error: StoreError) -> Self {
        Self::Change(error.into())
    }
}

/// Reads what other nodes appended.
pub async fn refresh(bindings: &dyn Bindings) -> Result<(), StoreError> {
    match bindings.refresh(LedgerLook::Read) {
        Some(refresh) => refresh.await,
        None => Ok(()),
    }
}

/// The license of the ledger with this id.
///
/// # Errors
/// There is none, or it stands in a file.
pub async fn find(
    registry: &Registry,
    bindings: &dyn Bindings,
    id: &LicenseId,
) -> Result<LedgerLicense, LicenseChangeError> {
    if found_license::find(registry, bindings, id).is_none() {
        // Another node may have issued it a moment ago.
        refresh(bindings).await?;
    }
    match found_license::find(registry, bindings, id) {
        None => Err(LicenseChangeError::NoSuchLicense),
        Some(FoundLicense::Ledger(issued)) => Ok(issued),
        Some(FoundLicense::File(_)) => {
            let (file, line) = registry.place(id).ok_or(LicenseChangeError::NoSuchLicense)?;
            let file = file.to_owned();
            Err(ChangeError::InFile { file, line }.into())
        }
    }
}

/// Gives a license a new key: the new license grants the same, and the old one is revoked in the same commit. A retry with the
/// same key of the request finds both.
///
/// # Errors
/// There is no such license, it stands in a file, or nothing was written.
pub async fn rekey(
    registry: &Registry,
    bindings: &dyn Bindings,
    new: &NewOrigin,
    id: LicenseId,
    expected: ExpectedRevision,
) -> Result<ChangeOutcome, LicenseChangeError> {
    let old = find(registry, bindings, &id).await?;
    let change = LedgerChange {
        license: License {
            id: new.key.id(),
            ..old.license.clone()
        },
        reference: None,
        scope: Arc::clone(&new.origin.scope),
        status_by: None,
        now: Utc::now(),
        basis: ChangeBasis::Rekey {
            origin: new.origin.clone(),
            retired: new.retired.clone(),
            old: id,
            revision: match expected {
                ExpectedRevision::Any => None,
                ExpectedRevision::Only(revision) => Some(revision),
            },
        },
    };
    let outcome = found_license::change(registry, bindings, change).await?;
    if matches!(outcome, ChangeOutcome::Recorded(_)) {
        tracing::info!(license = id.log_tag(), by = %new.origin.scope, new = new.key.id().log_tag(), "rekeyed");
    }
    Ok(outcome)
}

/// Takes a step; returns the license as it is then, and whether it changed. What is so already is not written again.
///
/// # Errors
/// The step is not possible, or nothing was written.
pub async fn apply(
    registry: &Registry,
    bindings: &dyn Bindings,
    scope: &Arc<ChangeScope>,
    id: LicenseId,
    expected: ExpectedRevision,
    step: &LicenseStep,
) -> Result<(Arc<IssuedLicense>, bool), LicenseChangeError> {
    for _ in 0..ATTEMPTS {
        let current = find(registry, bindings, &id).await?;
        if let ExpectedRevision::Only(revision) = expected
            && revision != current.revision
        {
            // This node may not have read the revision that the caller saw.
            refresh(bindings).await?;
            if find(registry, bindings, &id).await?.revision != revision {
                return Err(LicenseChangeError::Revised);
            }
            continue;
        }
        let now = Utc::now();
        let (license, status_by) = match step.applied(&current.license, &bindings.of(&id), now)? {
            Some(license) => (license, None),
            // Who withdraws what somebody else has withdrawn already keeps it so, whatever the other does.
            None if step.withdraws() && current.status_by.as_ref() != Some(scope) => {
                (current.license.clone(), Some(Arc::clone(scope)))
            }
            None => return Ok((Arc::new((*current).clone()), false)),
        };
        let change = LedgerChange {
            license,
            reference: None,
            scope: Arc::clone(scope),
            status_by,
            now,
            basis: ChangeBasis::Revision(current.revision),
        };
        match found_license::change(registry, bindings, change).await? {
            ChangeOutcome::Recorded(issued) => {
                tracing::info!(license = id.log_tag(), by = %scope, revision = issued.revision, "changed");
                return Ok((issued, true));
            }
            ChangeOutcome::Repeated(issued) => return Ok((issued, false)),
            ChangeOutcome::Refused(ChangeRefusal::Revised { .. }) if expected == ExpectedRevision::Any => {}
            ChangeOutcome::Refused(ChangeRefusal::Revised { .. }) => return Err(LicenseChangeError::Revised),
            ChangeOutcome::Refused(refusal) => return Err(LicenseChangeError::Refused(refusal)),
        }
    }
    Err(LicenseChangeError::Contended)
}
