//! Changes one license of the ledger by a step: looks it up, and has the ledger's thread decide.
//!
//! The management API does so for programs, and the admin socket for commands.

use std::sync::Arc;

use chrono::Utc;

use crate::keys::license_secrets::NewOrigin;
use crate::model::issued_license::{ChangeScope, IssuedLicense};
use crate::model::license::License;
use crate::model::license_key::LicenseId;
use crate::model::license_step::{LicenseStep, StepRefusal};
use crate::registry::Registry;
use crate::serve::found_license::{self, ChangeError, FoundLicense};
use crate::store::{
    Bindings, ChangeBasis, ChangeOutcome, ChangeRefusal, LedgerChange, LedgerLicense, LedgerLook, StoreError,
};

/// Which revision a change is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedRevision {
    /// Whichever it has.
    Any,
    /// This one.
    Only(u32),
}

impl ExpectedRevision {
    fn only(self) -> Option<u32> {
        match self {
            Self::Any => None,
            Self::Only(revision) => Some(revision),
        }
    }
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
            revision: expected.only(),
        },
    };
    let outcome = found_license::change(registry, bindings, change).await?;
    if matches!(outcome, ChangeOutcome::Recorded(_)) {
        tracing::info!(license = id.log_tag(), by = %new.origin.scope, new = new.key.id().log_tag(), "rekeyed");
    }
    Ok(outcome)
}

/// Takes a step; returns the license as it is then, and whether it changed. What is so already is not written again. The
/// ledger's thread decides, so that nobody gets or loses a seat meanwhile.
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
    let current = find(registry, bindings, &id).await?;
    let change = LedgerChange {
        license: current.license.clone(),
        reference: None,
        scope: Arc::clone(scope),
        status_by: None,
        now: Utc::now(),
        basis: ChangeBasis::Step {
            step: step.clone(),
            revision: expected.only(),
        },
    };
    match found_license::change(registry, bindings, change).await? {
        ChangeOutcome::Recorded(issued) => {
            tracing::info!(license = id.log_tag(), by = %scope, revision = issued.revision, "changed");
            Ok((issued, true))
        }
        ChangeOutcome::Repeated(issued) => Ok((issued, false)),
        ChangeOutcome::Refused(ChangeRefusal::Step(refusal)) => Err(refusal.into()),
        ChangeOutcome::Refused(ChangeRefusal::Revised { .. }) => Err(LicenseChangeError::Revised),
        ChangeOutcome::Refused(refusal) => Err(LicenseChangeError::Refused(refusal)),
    }
}
