//! The lease of an endpoint in a shared database. A thread renews it, so that a slow receiver does not cost the lease.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use countersign_ledger::{EndpointLease, HeldLease, StoreError, since_boot};

/// The time between two looks at the lease. Most of them ask the database nothing.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The lease of one endpoint.
pub(super) struct SenderLease(Arc<SharedLease>);

struct SharedLease {
    lease: Mutex<EndpointLease>,
    /// Until when it lasts, in milliseconds since the machine was started.
    until: AtomicU64,
}

impl SenderLease {
    /// Keeps the lease until the server stops.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn start(address: &str, endpoint: &str, node: &str, is_stopping: Arc<AtomicBool>) -> io::Result<Self> {
        let shared = Arc::new(SharedLease {
            lease: Mutex::new(EndpointLease::new(address, endpoint, node)),
            until: AtomicU64::new(0),
        });
        let renewed = Arc::downgrade(&shared);
        let name = format!("lease {endpoint}");
        thread::Builder::new().name(name).spawn(move || {
            while !is_stopping.load(Ordering::Relaxed) {
                let Some(shared) = renewed.upgrade() else { return };
                // The thread that sends asks again, and tells the failure.
                let _ = shared.hold();
                drop(shared);
                thread::sleep(LOOK_EVERY);
            }
        })?;
        Ok(Self(shared))
    }

    /// Takes or renews the lease if it is time; `None` while another node holds it.
    pub(super) fn hold(&self) -> Result<Option<HeldLease>, StoreError> {
        self.0.hold()
    }

    /// Whether it lasts. Asks nothing.
    pub(super) fn is_held(&self) -> bool {
        since_boot() < Duration::from_millis(self.0.until.load(Ordering::Relaxed))
    }

    /// Stores the progress of the endpoint; `false` if another node holds the lease by now.
    pub(super) fn save(&self, term: i64, progress: &str) -> Result<bool, StoreError> {
        let mut lease = self.0.lock();
        let saved = lease.save(term, progress);
        self.0.note(&lease);
        saved
    }

    /// Ends it. If that fails, it ends by itself.
    pub(super) fn give_up(&self) {
        if !self.is_held() {
            return;
        }
        let mut lease = self.0.lock();
        let _ = lease.give_up();
        self.0.note(&lease);
    }
}

impl SharedLease {
    fn hold(&self) -> Result<Option<HeldLease>, StoreError> {
        let mut lease = self.lock();
        let held = lease.hold();
        self.note(&lease);
        held
    }

    fn note(&self, lease: &EndpointLease) {
        let until = u64::try_from(lease.until().as_millis()).unwrap_or(u64::MAX);
        self.until.store(until, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, EndpointLease> {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
