//! What waits for the next group commit.
//!
//! `Store` queues requests to bind; `binding_batch` decides them, and answers once their lines are durable.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use tokio::sync::oneshot;

use crate::model::license::License;
use crate::model::site_host::SiteHost;

use crate::store::error::StoreError;
use crate::store::license_changes::{ChangeOutcome, LedgerChange};
use crate::store::log::record;
use crate::store::postgres::nodes::NodeSecrets;

/// The most requests that may wait for the thread.
pub(crate) const QUEUE: usize = record::BATCH - 1;

/// What the thread is asked for.
pub(crate) enum Message {
    /// A seat.
    Bind(BindRequest),
    /// A license to issue or to change.
    Change(ChangeRequest),
    /// All lines that were in the log before this message.
    Refresh(Answer<()>),
    /// Telling other nodes which secrets this one uses.
    Announce(NodeSecrets),
    /// The end.
    Close,
}

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

/// A host that asks for a seat.
#[derive(Debug)]
pub(crate) struct BindRequest {
    pub license: License,
    pub host: SiteHost,
    /// The time of the request.
    pub now: DateTime<Utc>,
    answer: Answer<BindOutcome>,
}

/// A license to issue or to change.
#[derive(Debug)]
pub(crate) struct ChangeRequest {
    pub change: LedgerChange,
    answer: Answer<ChangeOutcome>,
}

impl ChangeRequest {
    /// A request, and what waits for its answer.
    pub(crate) fn new(change: LedgerChange) -> (Self, Pending<ChangeOutcome>) {
        let (answer, pending) = pending();
        (Self { change, answer }, pending)
    }

    pub(crate) fn answer(self, outcome: Result<ChangeOutcome, Arc<str>>) {
        let _ = self.answer.send(outcome);
    }
}

/// Where the answer to a request goes. Its sender may have left.
pub(crate) type Answer<T> = oneshot::Sender<Result<T, Arc<str>>>;

/// Waits for an answer of the group commit.
pub(crate) struct Pending<T>(oneshot::Receiver<Result<T, Arc<str>>>);

impl BindRequest {
    /// A request, and what waits for its answer.
    pub(crate) fn new(license: &License, host: &SiteHost, now: DateTime<Utc>) -> (Self, Pending<BindOutcome>) {
        let (answer, pending) = pending();
        let request = Self {
            license: license.clone(),
            host: host.clone(),
            now,
            answer,
        };
        (request, pending)
    }

    pub(crate) fn answer(self, outcome: Result<BindOutcome, Arc<str>>) {
        let _ = self.answer.send(outcome);
    }
}

/// A question to the group commit, and what waits for its answer.
pub(crate) fn pending<T>() -> (Answer<T>, Pending<T>) {
    let (answer, pending) = oneshot::channel();
    (answer, Pending(pending))
}

impl<T> Pending<T> {
    pub(crate) async fn wait(self) -> Result<T, StoreError> {
        match self.0.await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(reason)) => Err(StoreError::NotDurable(reason)),
            Err(_) => Err(StoreError::Closed),
        }
    }
}
