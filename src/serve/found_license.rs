//! A license of a request, whatever it comes from: the registry's files, which people write, or the ledger.
//!
//! The files come first: an id that stands in a file is that file's, and no machine changes it.

use std::ops::Deref;
use std::path::PathBuf;

use countersign_ledger::{Bindings, ChangeOutcome, LedgerChange, LedgerLicense, StoreError};
use countersign_model::issued_license::Hex128;
use countersign_model::license::License;
use countersign_model::license_key::LicenseId;
use countersign_registry::Registry;

/// A license that was looked up.
#[derive(Debug)]
pub enum FoundLicense<'a> {
    /// It stands in a file.
    File(&'a License),
    /// A machine issued it.
    Ledger(LedgerLicense),
}

impl FoundLicense<'_> {
    /// How the ledger names the order of a license that a machine issued.
    pub fn order(&self) -> Option<Hex128> {
        match self {
            Self::File(_) => None,
            Self::Ledger(issued) => issued.reference,
        }
    }

    /// Whether people decide about it. What a file says does not depend on the ledger.
    pub fn is_in_file(&self) -> bool {
        matches!(self, Self::File(_))
    }
}

impl Deref for FoundLicense<'_> {
    type Target = License;

    fn deref(&self) -> &License {
        match self {
            Self::File(license) => license,
            Self::Ledger(issued) => &issued.license,
        }
    }
}

/// The license with this id.
pub fn find<'a>(registry: &'a Registry, bindings: &dyn Bindings, id: &LicenseId) -> Option<FoundLicense<'a>> {
    let issued = || bindings.issued(id).map(FoundLicense::Ledger);
    registry.license(id).map(FoundLicense::File).or_else(issued)
}

/// The license whose id begins so.
pub fn beginning_with<'a>(
    registry: &'a Registry,
    bindings: &dyn Bindings,
    beginning: &[u8; 16],
) -> Option<FoundLicense<'a>> {
    let issued = || bindings.issued_beginning_with(beginning).map(FoundLicense::Ledger);
    let in_file = registry.license_beginning_with(beginning).map(FoundLicense::File);
    in_file.or_else(issued)
}

/// Why a license was not issued or changed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// A file has the license.
    #[error("the license stands in {}:{line}; change it there", file.display())]
    InFile {
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
/// A file has the license, or nothing was written. After the latter, the same request may be sent again.
pub async fn change(
    registry: &Registry,
    bindings: &dyn Bindings,
    change: LedgerChange,
) -> Result<ChangeOutcome, ChangeError> {
    if !bindings.may_issue() {
        return Err(StoreError::Differs.into());
    }
    if let Some((file, line)) = registry.place(&change.license.id) {
        let file = file.to_owned();
        return Err(ChangeError::InFile { file, line });
    }
    Ok(bindings.change_license(change).await?)
}
