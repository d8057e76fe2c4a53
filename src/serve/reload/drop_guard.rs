//! A registry that drops more than a fifth of the licenses looks like an accident, such as an export that was cut off.
//!
//! A reload compares with what is in force, a start with what was in force last ([`Accepted`]), and both answer the same.
//! Only a start that is told to (`serve --accept-dropped-licenses`) takes such a registry: never a reload, a signal, the
//! environment or the configuration file, which would wave the next accident through, too.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::registry::Registry;
use crate::serve::reload::error::LoadError;
use crate::store::Accepted;

/// One license in so many may go.
const DROP_AT_MOST_ONE_IN: usize = 5;

/// Keeps what is in force in the store's folder.
#[derive(Debug)]
pub struct DropGuard {
    store: PathBuf,
    written: Mutex<Option<Accepted>>,
}

/// Refuses what drops too many.
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
    /// The guard of the server with the store in that folder, which need not be there yet.
    pub fn new(store: &Path) -> Self {
        Self {
            store: store.to_owned(),
            written: Mutex::default(),
        }
    }

    /// Compares the registry of a start with what was in force last. What cannot be compared is logged and no refusal.
    ///
    /// # Errors
    /// [`LoadError::DropsLicenses`]
    pub fn check_start(&self, registry: &Registry) -> Result<(), LoadError> {
        let last = match Accepted::read(&self.store) {
            Ok(Some(last)) => last,
            Ok(None) if !self.store.exists() => return Ok(()),
            Ok(None) => {
                tracing::warn!(
                    "nothing tells which licenses were in force last: this start cannot notice that many are gone"
                );
                return Ok(());
            }
            Err(error) => {
                tracing::warn!(%error, "which licenses were in force last cannot be read: this start cannot notice that many are gone");
                return Ok(());
            }
        };
        let dropped = last.dropped(registry.license_count(), |id| registry.license(id).is_some());
        check(dropped, last.licenses())
    }

    /// Notes what is in force now. A failure is logged: it keeps no registry from being in force.
    pub fn accept(&self, registry: &Registry) {
        let accepted = Accepted::new(registry.license_count(), registry.licenses().map(|license| license.id));
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.as_ref() == Some(&accepted) {
            return;
        }
        match accepted.write(&self.store) {
            Ok(()) => *written = Some(accepted),
            Err(error) => {
                tracing::warn!(%error, "which licenses are in force cannot be noted: the next start compares with older ones");
            }
        }
    }
}
