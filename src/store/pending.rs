//! A binding that is not durable yet: queued for the next group commit, with everybody who waits for it.
//!
//! `memory` makes one and gives it to `group_commit`, which gives it back with the result.

use std::sync::Arc;

use tokio::sync::watch;

use crate::model::site_host::SiteHost;

use crate::store::error::StoreError;
use crate::store::log::LedgerEntry;

/// How a binding ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindOutcome {
    /// The host is bound, and it is durable.
    Bound,
    /// Every site of the license is another one.
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

/// Tells any number of waiters how a binding ended.
#[derive(Clone)]
pub(crate) struct Ticket(watch::Receiver<Option<Result<(), Arc<str>>>>);

/// Wakes everybody who holds a [`Ticket`].
pub(crate) type Resolve = watch::Sender<Option<Result<(), Arc<str>>>>;

impl PendingWrite {
    /// A binding to be made durable, and what waits for it.
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
