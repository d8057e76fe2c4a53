//! A license of a request, whatever it comes from: the ledger, or a declaration in a file of the registry.
//!
//! The ledger is the home. A declaration is in force only while the ledger has no license with its id, so that a license that
//! was revoked in the ledger never comes back by a file.

use std::ops::Deref;
use std::path::PathBuf;

use countersign_ledger::{ChangeOutcome, Ledger, LedgerChange, LedgerLicense, StoreError};
use countersign_model::issued_license::Hex128;
use countersign_model::license::License;
use countersign_model::license_key::LicenseId;
use countersign_registry::Registry;

/// A license that was looked up.
#[derive(Debug)]
pub enum FoundLicense<'a> {
    /// The ledger has it.
    Ledger(LedgerLicense),
    /// A file declares it, and the ledger does not have it.
    Declared(&'a License),
}

impl FoundLicense<'_> {
    /// How the ledger names the order of its license.
    pub fn order(&self) -> Option<Hex128> {
        match self {
            Self::Ledger(issued) => issued.reference,
            Self::Declared(_) => None,
        }
    }
}

impl Deref for FoundLicense<'_> {
    type Target = License;

    fn deref(&self) -> &License {
        match self {
            Self::Ledger(issued) => &issued.license,
            Self::Declared(license) => license,
        }
    }
}

/// The license with this id.
pub fn find<'a>(registry: &'a Registry, bindings: &Ledger, id: &LicenseId) -> Option<FoundLicense<'a>> {
    let declared = || registry.license(id).map(FoundLicense::Declared);
    bindings.issued(id).map(FoundLicense::Ledger).or_else(declared)
}

/// The license whose id begins so.
pub fn beginning_with<'a>(registry: &'a Registry, bindings: &Ledger, beginning: &[u8]) -> Option<FoundLicense<'a>> {
    let declared = || registry.license_beginning_with(beginning).map(FoundLicense::Declared);
    let issued = bindings.issued_beginning_with(beginning);
    issued.map(FoundLicense::Ledger).or_else(declared)
}

/// The declarations in force, sorted by id: those that the ledger has no license for.
pub fn declared_alone<'a>(registry: &'a Registry, bindings: &Ledger) -> impl Iterator<Item = &'a License> {
    registry
        .licenses()
        .filter(move |license| bindings.issued(&license.id).is_none())
}

/// Why a license was not issued or changed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// A file declares the license, and the ledger does not have it.
    #[error("{}:{line} declares the license; change it there", file.display())]
    Declared {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// The ledger could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Issues or changes a license of the ledger.
///
/// # Errors
/// A file declares the license, or nothing was written. After the latter, the same request may be sent again.
pub async fn change(
    registry: &Registry,
    bindings: &Ledger,
    change: LedgerChange,
) -> Result<ChangeOutcome, ChangeError> {
    if !bindings.may_issue() {
        return Err(StoreError::Differs.into());
    }
    let id = &change.license.id;
    if let Some((file, line)) = registry.place(id)
        && bindings.issued(id).is_none()
    {
        let file = file.to_owned();
        return Err(ChangeError::Declared { file, line });
    }
    Ok(bindings.change_license(change).await?)
}

#[cfg(test)]
mod tests;
