//! A node's connection and how far it has read: commits, follows, and rereads the whole log after a repair.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::timeout;

use crate::binding_batch::BindingBatch;
use crate::error::{BackendError, LedgerState};
use crate::postgres::failure::{TransactionFailure, failure, lines_lost, older};
use crate::postgres::kept_lines::KeptLines;
use crate::postgres::load::PlainHead;
use crate::postgres::nodes::{NodeIdentity, NodeSecrets};
use crate::postgres::session::{KnownLog, Session};
use crate::postgres::settings::DatabaseSettings;
use crate::postgres::{load, transaction};

/// How long a transaction may take by this node's clock. Then its connection is dropped; a COMMIT is never cancelled.
pub(super) const DEADLINE: Duration = Duration::from_secs(5);

/// An answer that takes longer says nothing about the database's clock.
const SLOW: TimeDelta = TimeDelta::seconds(1);

/// How often one commit is tried, if other nodes are in its way.
const ATTEMPTS: usize = 5;

/// The node's connection, and how far it has read.
pub(super) struct NodeState {
    pub session: Option<Session>,
    pub known: KnownLog,
    /// The server that was the last not to answer in time. It is used where no other can be.
    pub silent: Option<String>,
    /// The last failure, until an attempt succeeds.
    pub failed: Option<(Instant, LedgerState, Arc<str>)>,
    /// What the node kept when the log lost lines.
    pub kept: KeptLines,
    /// What another node says against this one.
    pub contested: Option<(LedgerState, Arc<str>)>,
    /// The secrets that `serve` uses.
    pub secrets: NodeSecrets,
    /// Whether the database waits for a standby; `None` before the first look.
    pub is_synchronous: Option<bool>,
    /// How far this node's clock is ahead of the database's, as of the last look that shows it well.
    pub clock_lead: Option<TimeDelta>,
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

/// The same within the time limit, for who does not choose another server for a silent one.
pub(super) async fn prove_in_time(session: &Session) -> Result<transaction::LockedHead, BackendError> {
    let proved = timeout(DEADLINE, prove(session)).await;
    proved.unwrap_or_else(|_| Err(no_answer(session)))
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
    /// A node that has read so much and has not failed yet.
    pub(super) fn new(
        session: Option<Session>,
        known: KnownLog,
        kept: KeptLines,
        is_synchronous_assumed: bool,
    ) -> Self {
        Self {
            session,
            known,
            silent: None,
            failed: None,
            kept,
            contested: None,
            secrets: NodeSecrets::default(),
            is_synchronous: None,
            clock_lead: None,
            is_synchronous_assumed,
        }
    }

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

    /// Notes a server that did not answer in time.
    pub(super) fn silence(&mut self, session: &Session) -> BackendError {
        self.silent = Some(session.server.clone());
        no_answer(session)
    }

    pub(super) async fn open(&self, settings: &DatabaseSettings) -> Result<Session, BackendError> {
        Session::open(settings, self.known, self.silent.as_deref()).await
    }

    /// Says in the table of nodes that this one runs. A connection that has ended is replaced.
    pub(super) async fn check_in(
        &mut self,
        settings: &DatabaseSettings,
        identity: &NodeIdentity,
    ) -> Result<(), BackendError> {
        let mut last = Ok(());
        for _ in 0..2 {
            let session = match self.session.take() {
                Some(session) => session,
                None => self.open(settings).await?,
            };
            let checked = identity.check_in(&session.client, &self.secrets, self.known.end.sequence);
            let Ok(checked) = timeout(DEADLINE, checked).await else {
                return Err(self.silence(&session));
            };
            if checked.is_ok() || is_contested(&checked) {
                self.session = Some(session);
                return checked;
            }
            last = checked;
        }
        last
    }

    /// Brings the batch up to the head and commits it.
    pub(super) async fn commit(
        &mut self,
        settings: &DatabaseSettings,
        batch: &mut BindingBatch<'_>,
    ) -> Result<(), BackendError> {
        let mut last = None;
        let mut has_reconnected = false;
        for _ in 0..ATTEMPTS {
            batch.begin_again();
            let session = match self.session.take() {
                Some(session) => session,
                None => self.open(settings).await?,
            };
            let run = timeout(DEADLINE, transaction::run(&session, self.known, batch)).await;
            match run {
                Ok(Ok(end)) => {
                    self.known.end = end;
                    self.session = Some(session);
                    return Ok(());
                }
                // Its session is dropped, and with it the transaction.
                Ok(Err(TransactionFailure::Again(error))) => last = Some(error),
                // It may have ended while this node slept.
                Ok(Err(TransactionFailure::Gone(error))) if !has_reconnected => {
                    has_reconnected = true;
                    last = Some(error);
                }
                Ok(Err(failed)) => return Err(failed.error()),
                Err(_) => return Err(self.silence(&session)),
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
        let (session, head) = self.look(settings).await?;
        let is_news = head.sequence != self.known.end.sequence || head.digest != self.known.end.digest.to_string();
        self.note_standbys(&head.standbys);
        match head.epoch.cmp(&self.known.epoch) {
            Ordering::Greater => return self.load_again(session, batch).await,
            Ordering::Less => return Err(lines_lost(older(self.known.end))),
            Ordering::Equal => {}
        }
        self.session = Some(session);
        match is_news {
            true => self.commit(settings, batch).await,
            false => Ok(()),
        }
    }

    /// The head, and the connection that showed it. A connection may have ended while nobody used it, or while this node
    /// slept: then a new one is asked.
    async fn look(&mut self, settings: &DatabaseSettings) -> Result<(Session, PlainHead), BackendError> {
        if let Some(session) = self.session.take() {
            let asked = Utc::now();
            match timeout(DEADLINE, session.look()).await {
                Ok(Ok(head)) => {
                    self.note_clock(asked, head.clock, Utc::now());
                    return Ok((session, head));
                }
                Ok(Err(error)) => tracing::debug!(error = error.message, "connecting again"),
                Err(_) => return Err(self.silence(&session)),
            }
        }
        let session = self.open(settings).await?;
        let head = timeout(DEADLINE, session.look()).await;
        let head = head.unwrap_or_else(|_| Err(self.silence(&session)))?;
        Ok((session, head))
    }

    /// Compares this node's clock with the database's, which was read between two moments.
    fn note_clock(&mut self, asked: DateTime<Utc>, clock: DateTime<Utc>, answered: DateTime<Utc>) {
        let time = answered - asked;
        // After a slow answer, or where a clock was set meanwhile, nobody knows.
        if (TimeDelta::zero()..SLOW).contains(&time) {
            self.clock_lead = Some(asked + time / 2 - clock);
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
    async fn load_again(&mut self, session: Session, batch: &mut BindingBatch<'_>) -> Result<(), BackendError> {
        let loaded = load::all(&session.client).await?;
        let proved = timeout(DEADLINE, prove(&session)).await;
        self.known.epoch = proved.unwrap_or_else(|_| Err(self.silence(&session)))?.epoch;
        self.known.end = loaded.end;
        self.session = Some(session);
        batch.replace_memory(loaded.tables);
        tracing::warn!(
            lines = self.known.end.sequence,
            "the shared ledger was compacted or repaired: read it again"
        );
        Ok(())
    }
}
