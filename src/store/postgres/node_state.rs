//! A node's connection and how far it has read: commits, follows, and reads everything anew after a repair.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout;

use crate::store::backend_error::BackendError;
use crate::store::binding_batch::BindingBatch;
use crate::store::ledger_state::LedgerState;
use crate::store::postgres::failure::{TransactionFailure, failure};
use crate::store::postgres::nodes::NodeSecrets;
use crate::store::postgres::session::{KnownLog, Session};
use crate::store::postgres::settings::DatabaseSettings;
use crate::store::postgres::{load, transaction};

/// How long a transaction may take by this node's clock. Then its connection is dropped; a COMMIT is never cancelled.
pub(super) const DEADLINE: Duration = Duration::from_secs(5);

/// How often one commit is tried, if other nodes are in its way.
const ATTEMPTS: usize = 5;

/// The node's connection, and how far it has read.
pub(super) struct NodeState {
    pub session: Option<Session>,
    pub known: KnownLog,
    /// The last failure, until an attempt succeeds.
    pub failed: Option<(Instant, LedgerState, Arc<str>)>,
    /// What another node says against this one.
    pub contested: Option<(LedgerState, Arc<str>)>,
    /// The secrets that `serve` uses.
    pub secrets: NodeSecrets,
    /// Whether the database waits for a standby; `None` before the first look.
    pub is_synchronous: Option<bool>,
    /// Whether the operator says that a failover loses nothing without a standby.
    pub is_synchronous_assumed: bool,
}

/// Locks the head and commits: everything up to it is durable.
pub(super) async fn prove(session: &Session) -> Result<transaction::LockedHead, BackendError> {
    let head = transaction::lock_head(session)
        .await
        .map_err(TransactionFailure::error)?;
    transaction::commit(session).await.map_err(TransactionFailure::error)?;
    Ok(head)
}

pub(super) fn no_answer(session: &Session) -> BackendError {
    failure(
        LedgerState::Unreachable,
        format!("{}: no answer within {} s", session.server, DEADLINE.as_secs()),
    )
}

/// Whether another node speaks against this one. The connection is well then.
pub(super) fn is_contested(result: &Result<(), BackendError>) -> bool {
    let state = result.as_ref().err().map(|error| error.state);
    matches!(state, Some(LedgerState::SameName | LedgerState::NodesDiffer))
}

impl NodeState {
    /// Notes the result of an attempt.
    pub(super) fn note(&mut self, result: &Result<(), BackendError>) {
        let failed = result.as_ref().err();
        self.failed = failed.map(|error| (Instant::now(), error.state, Arc::from(error.message.as_str())));
    }

    /// Notes what the table of nodes says.
    pub(super) fn note_check_in(&mut self, result: &Result<(), BackendError>) {
        self.contested = None;
        match result {
            Err(error) if is_contested(result) => {
                self.contested = Some((error.state, Arc::from(error.message.as_str())));
            }
            result => self.note(result),
        }
    }

    /// Brings the batch up to the head and commits it.
    pub(super) async fn commit(
        &mut self,
        settings: &DatabaseSettings,
        batch: &mut BindingBatch<'_>,
    ) -> Result<(), BackendError> {
        let mut last = None;
        for _ in 0..ATTEMPTS {
            batch.begin_again();
            let session = match self.session.take() {
                Some(session) => session,
                None => Session::open(settings, self.known).await?,
            };
            let run = timeout(DEADLINE, transaction::run(&session, self.known.end, batch)).await;
            match run {
                Ok(Ok(end)) => {
                    self.known.end = end;
                    self.session = Some(session);
                    return Ok(());
                }
                // Its session is dropped, and with it the transaction.
                Ok(Err(TransactionFailure::Again(error))) => last = Some(error),
                Ok(Err(failed)) => return Err(failed.error()),
                Err(_) => return Err(no_answer(&session)),
            }
        }
        Err(last.unwrap_or_else(|| failure(LedgerState::Unreachable, "other nodes are always first")))
    }

    /// Reads the head, and what is new before it.
    pub(super) async fn follow(
        &mut self,
        settings: &DatabaseSettings,
        batch: &mut BindingBatch<'_>,
    ) -> Result<(), BackendError> {
        let session = match self.session.take() {
            Some(session) => session,
            None => Session::open(settings, self.known).await?,
        };
        let head = timeout(DEADLINE, load::head(&session.client)).await;
        let head = head.unwrap_or_else(|_| Err(no_answer(&session)))?;
        let is_news = head.sequence != self.known.end.sequence || head.digest != self.known.end.digest.to_string();
        self.note_standbys(&head.standbys);
        if head.epoch != self.known.epoch {
            return self.load_anew(session, batch).await;
        }
        self.session = Some(session);
        match is_news {
            true => self.commit(settings, batch).await,
            false => Ok(()),
        }
    }

    /// Warns where a failover would lose bindings: at the first look, and when that changes.
    fn note_standbys(&mut self, standbys: &str) {
        let is_synchronous = !standbys.trim().is_empty();
        if self.is_synchronous.replace(is_synchronous) == Some(is_synchronous) {
            return;
        }
        if is_synchronous {
            tracing::info!(standbys, "the database waits for a standby");
        } else if !self.is_synchronous_assumed {
            tracing::warn!(
                "the database waits for no standby (synchronous_standby_names is empty): a failover would lose bindings"
            );
        }
    }

    /// Replaces memory with what the log has: a person compacted or repaired it.
    async fn load_anew(&mut self, session: Session, batch: &mut BindingBatch<'_>) -> Result<(), BackendError> {
        let loaded = load::all(&session.client).await?;
        let proved = timeout(DEADLINE, prove(&session)).await;
        self.known.epoch = proved.unwrap_or_else(|_| Err(no_answer(&session)))?.epoch;
        self.known.end = loaded.end;
        self.session = Some(session);
        batch.replace_memory(loaded.by_license, loaded.issued);
        tracing::warn!(
            lines = self.known.end.sequence,
            "the shared ledger was compacted or repaired: read it anew"
        );
        Ok(())
    }
}
