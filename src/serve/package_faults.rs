//! Packages that do not match the index, and must not be sent.
//!
//! [`package_check`](crate::serve::package_check) finds them; a failed download requests another check.

use std::collections::HashSet;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::serve::gate::PermittedDownload;
use countersign_model::digest::Digest;
use countersign_model::text::printable::Printable;

/// Wrong packages by expected digest; requests checks.
#[derive(Debug)]
pub(crate) struct PackageFaults {
    wake: SyncSender<()>,
    unfit: Mutex<HashSet<Digest>>,
}

impl PackageFaults {
    /// None yet, and the receiver for the checking thread.
    pub(crate) fn new() -> (Self, Receiver<()>) {
        let (wake, woken) = sync_channel(1);
        let unfit = Mutex::default();
        (Self { wake, unfit }, woken)
    }

    /// Requests a check, without waiting for it.
    pub(crate) fn wake(&self) {
        // If a request is waiting, one check is enough.
        let _ = self.wake.try_send(());
    }

    /// Whether a package is known to be wrong.
    pub(crate) fn is_unfit(&self, package: &Digest) -> bool {
        self.unfit().contains(package)
    }

    /// Records that a package could not be sent. It is checked, and its error is logged once.
    pub(crate) fn look_at(&self, package: &PermittedDownload, error: &io::Error) {
        tracing::debug!(file = %Printable(package.path.display()), %error, "a package cannot be sent");
        self.wake();
    }

    /// Replaces the known errors by those of a full check.
    pub(super) fn replace(&self, unfit: impl Iterator<Item = Digest>) {
        *self.unfit() = unfit.collect();
    }

    fn unfit(&self) -> MutexGuard<'_, HashSet<Digest>> {
        self.unfit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
