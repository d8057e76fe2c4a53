//! Pending bindings: queued for the next group commit, with everyone who waits for them.
//!
//! `memory` passes one to `group_commit`, which returns it with the result.

use std::sync::Arc;

use tokio::sync::watch;

use crate::model::site_host::SiteHost;

use crate::store::error::StoreError;
use crate::store::log::LedgerEntry;

/// The result of binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindOutcome {
    /// The host is bound, durably.
    Bound,
    /// The license has no free site, and is bound to other hosts.
    Elsewhere {
        /// The host that was bound first.
        first: SiteHost,
    },
}

/// A binding on its way to the disk.
#[derive(Debug)]
pub(crate) struct PendingWrite {
    pub entry: LedgerEntry,
    pub resolve: Resolve,
}

/// Tells any number of waiters the result of a binding.
#[derive(Clone)]
pub(crate) struct Ticket(watch::Receiver<Option<Result<(), Arc<str>>>>);

/// Wakes everybody who holds a [`Ticket`].
pub(crate) type Resolve = watch::Sender<Option<Result<(), Arc<str>>>>;

impl PendingWrite {
    /// A binding to write, and its waiters.
    pub(crate) fn new(entry: LedgerEntry) -> (Self, Ticket) {
        let (resolve, ticket) = watch::channel(None);
        (Self { entry, resolve }, Ticket(ticket))
    }
}

impl Ticket {
    pub(crate) async fn wait(mut self) -> Result<(), StoreError> {
        match self.0.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(Err(reason))) => Err(StoreError::NotDurable(reason.clone())),
            Ok(_) => Ok(()),
            Err(_) => Err(StoreError::Closed),
        }
    }
}
