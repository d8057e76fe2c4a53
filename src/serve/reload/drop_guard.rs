//! Refuses a registry that lacks more than a fifth of the licenses, probably by accident, such as a truncated export.
//!
//! A reload compares with the registry in use, a start with the last one in use ([`Accepted`]). Only a start with
//! `--accept-dropped-licenses` accepts such a registry: never a reload, a signal, the environment or the
//! configuration file, which would also accept the next accident.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::registry::Registry;
use crate::serve::reload::error::LoadError;
use crate::store::Accepted;

/// One license in this many may be missing.
const DROP_AT_MOST_ONE_IN: usize = 5;

/// Records the licenses in force in the store's folder.
#[derive(Debug)]
pub struct DropGuard {
    store: PathBuf,
    written: Mutex<Option<Accepted>>,
}

/// Fails if too many licenses are missing.
///
/// # Errors
/// [`LoadError::DropsLicenses`]
pub(crate) fn check(dropped: usize, held: usize) -> Result<(), LoadError> {
    match dropped * DROP_AT_MOST_ONE_IN > held {
        true => Err(LoadError::DropsLicenses { dropped, held }),
        false => Ok(()),
    }
}

impl DropGuard {
    /// The guard for a server with this store's folder, which need not exist yet.
    pub fn new(store: &Path) -> Self {
        Self {
            store: store.to_owned(),
            written: Mutex::default(),
        }
    }

    /// Compares the registry of a start with the record. If there is no usable record, logs that and accepts the
    /// registry.
    ///
    /// # Errors
    /// [`LoadError::DropsLicenses`]
    pub fn check_start(&self, registry: &Registry) -> Result<(), LoadError> {
        let last = match Accepted::read(&self.store) {
            Ok(Some(last)) => last,
            Ok(None) if !self.store.exists() => return Ok(()),
            Ok(None) => {
                tracing::warn!(
                    "no record of the licenses last in force: this start cannot check whether licenses are missing"
                );
                return Ok(());
            }
            Err(error) => {
                tracing::warn!(%error, "cannot read the record of the licenses last in force: this start cannot check whether licenses are missing");
                return Ok(());
            }
        };
        let dropped = last.dropped(registry.license_count(), |id| registry.license(id).is_some());
        check(dropped, last.licenses())
    }

    /// Records the licenses in force. A failure is logged and has no other effect.
    pub fn accept(&self, registry: &Registry) {
        let accepted = Accepted::new(registry.license_count(), registry.licenses().map(|license| license.id));
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.as_ref() == Some(&accepted) {
            return;
        }
        match accepted.write(&self.store) {
            Ok(()) => *written = Some(accepted),
            Err(error) => {
                tracing::warn!(%error, "cannot record the licenses in force: the next start compares with an older record");
            }
        }
    }
}
