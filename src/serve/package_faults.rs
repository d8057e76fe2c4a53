//! Packages that are known not to be the published ones: none of them is sent.
//!
//! [`package_check`](crate::serve::package_check) finds them; a download that fails asks it for another look.

use std::collections::HashSet;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::model::digest::Digest;
use crate::serve::gate::PermittedDownload;
use crate::text::printable::Printable;

/// Packages that are not as they should be, by the digest they should have; asks for another look.
#[derive(Debug)]
pub(crate) struct PackageFaults {
    wake: SyncSender<()>,
    unfit: Mutex<HashSet<Digest>>,
}

impl PackageFaults {
    /// None yet, and what the thread that looks waits for.
    pub(crate) fn new() -> (Self, Receiver<()>) {
        let (wake, woken) = sync_channel(1);
        let unfit = Mutex::default();
        (Self { wake, unfit }, woken)
    }

    /// Asks for a look, and does not wait for it.
    pub(crate) fn wake(&self) {
        // Where a request waits already, one look is enough.
        let _ = self.wake.try_send(());
    }

    /// Whether a package is known not to be the published one.
    pub(crate) fn is_unfit(&self, package: &Digest) -> bool {
        self.unfit().contains(package)
    }

    /// A package could not be sent: it is looked at, and what is wrong with it is told then, once.
    pub(crate) fn look_at(&self, package: &PermittedDownload, error: &io::Error) {
        tracing::debug!(file = %Printable(package.path.display()), %error, "a package cannot be sent");
        self.wake();
    }

    /// Puts what a look at all packages found in the place of what was known.
    pub(super) fn replace(&self, unfit: impl Iterator<Item = Digest>) {
        *self.unfit() = unfit.collect();
    }

    fn unfit(&self) -> MutexGuard<'_, HashSet<Digest>> {
        self.unfit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
