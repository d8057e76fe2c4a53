//! The log in PostgreSQL, which several nodes share: a [`Backend`] like the files of the embedded store.
//!
//! `session` finds the server, `load` reads the log at the start, and `transaction` appends. Every 250 ms the node looks
//! whether others appended. Memory takes only what a commit under the head's lock has proved. `schema` has the tables.

mod failure;
mod load;
pub(crate) mod nodes;
mod password;
mod report_reader;
mod reports;
pub(crate) mod schema;
mod session;
pub(crate) mod settings;
mod tls;
mod transaction;

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::store::backend::Backend;
use crate::store::backend_error::BackendError;
use crate::store::binding_batch::BindingBatch;
use crate::store::checksum::BindingsByLicense;
use crate::store::ledger_state::LedgerState;
use crate::store::stored_reports::StoredReports;
use crate::store::telemetry;

use failure::{TransactionFailure, failure};
use nodes::{NodeIdentity, NodeSecrets};
use report_reader::ReportReader;
use session::{KnownLog, Session};
use settings::DatabaseSettings;

/// How often a node looks whether others appended.
const FOLLOW_EVERY: Duration = Duration::from_millis(250);

/// How long a transaction may take by this node's clock. Then its connection is dropped; a COMMIT is never cancelled.
const DEADLINE: Duration = Duration::from_secs(5);

/// How long to wait after a failure before the next attempt.
const PAUSE: Duration = Duration::from_millis(500);

/// How often one commit is tried, if other nodes are in its way.
const ATTEMPTS: usize = 5;

/// The shared log, as one node sees it.
pub(super) struct PostgresLog {
    settings: DatabaseSettings,
    runtime: Runtime,
    node: Mutex<NodeState>,
    identity: NodeIdentity,
    reports: Arc<ReportReader>,
}

/// The node's connection, and how far it has read.
struct NodeState {
    session: Option<Session>,
    known: KnownLog,
    /// The last failure, until an attempt succeeds.
    failed: Option<(Instant, LedgerState, Arc<str>)>,
    /// What another node says against this one.
    contested: Option<(LedgerState, Arc<str>)>,
    /// The secrets that `serve` uses.
    secrets: NodeSecrets,
    /// Whether the database waits for a standby; `None` before the first look.
    is_synchronous: Option<bool>,
}

impl PostgresLog {
    /// Connects, and reads all bindings.
    pub(super) fn open(settings: DatabaseSettings, folder: &Path) -> Result<(Self, BindingsByLicense), BackendError> {
        let identity = NodeIdentity::load(folder)?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (session, loaded, epoch) = runtime.block_on(async {
            let session = Session::open(&settings, KnownLog::none()).await?;
            let loaded = load::all(&session.client).await?;
            // What was read is proved: a primary that was replaced does not commit.
            let proved = timeout(DEADLINE, prove(&session)).await;
            let head = proved.unwrap_or_else(|_| Err(no_answer(&session)))?;
            Ok::<_, BackendError>((session, loaded, head.epoch))
        })?;
        tracing::info!(
            server = session.server,
            lines = loaded.end.sequence,
            "read the shared ledger"
        );
        let node = NodeState {
            session: Some(session),
            known: KnownLog { end: loaded.end, epoch },
            failed: None,
            contested: None,
            secrets: NodeSecrets::default(),
            is_synchronous: None,
        };
        let log = Self {
            reports: Arc::new(ReportReader(settings.clone())),
            settings,
            runtime,
            node: Mutex::new(node),
            identity,
        };
        Ok((log, loaded.by_license))
    }

    fn node(&self) -> MutexGuard<'_, NodeState> {
        self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work`, and notes its failure. Directly after a failure the same one is returned.
    fn attempt(&self, work: impl AsyncFnOnce(&mut NodeState) -> Result<(), BackendError>) -> Result<(), BackendError> {
        let mut node = self.node();
        if let Some((_, state, message)) = node.failed.as_ref().filter(|(at, ..)| at.elapsed() < PAUSE) {
            return Err(failure(*state, message));
        }
        if let Some((state, message)) = &node.contested {
            return Err(failure(*state, message));
        }
        let result = self.runtime.block_on(work(&mut node));
        node.failed = result
            .as_ref()
            .err()
            .map(|error| (Instant::now(), error.state, Arc::from(error.message.as_str())));
        result
    }
}

/// Locks the head and commits: everything up to it is durable.
async fn prove(session: &Session) -> Result<transaction::LockedHead, BackendError> {
    let head = transaction::lock_head(session)
        .await
        .map_err(TransactionFailure::error)?;
    transaction::commit(session).await.map_err(TransactionFailure::error)?;
    Ok(head)
}

fn no_answer(session: &Session) -> BackendError {
    failure(
        LedgerState::Unreachable,
        format!("{}: no answer within {} s", session.server, DEADLINE.as_secs()),
    )
}

impl NodeState {
    /// Brings the batch up to the head and commits it.
    async fn commit(&mut self, settings: &DatabaseSettings, batch: &mut BindingBatch<'_>) -> Result<(), BackendError> {
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
    async fn follow(&mut self, settings: &DatabaseSettings, batch: &mut BindingBatch<'_>) -> Result<(), BackendError> {
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

    /// Warns where a failover would lose bindings.
    fn note_standbys(&mut self, standbys: &str) {
        let is_synchronous = !standbys.is_empty();
        if self.is_synchronous.replace(is_synchronous) == Some(is_synchronous) {
            return;
        }
        if is_synchronous {
            tracing::info!(standbys, "the database waits for a standby");
        } else {
            tracing::warn!(
                "the database waits for no standby (synchronous_standby_names is empty): a failover would lose bindings"
            );
        }
    }

    /// Replaces memory with what the log has: a person repaired it.
    async fn load_anew(&mut self, session: Session, batch: &mut BindingBatch<'_>) -> Result<(), BackendError> {
        let loaded = load::all(&session.client).await?;
        let proved = timeout(DEADLINE, prove(&session)).await;
        self.known.epoch = proved.unwrap_or_else(|_| Err(no_answer(&session)))?.epoch;
        self.known.end = loaded.end;
        self.session = Some(session);
        batch.replace_memory(loaded.by_license);
        tracing::warn!(
            lines = self.known.end.sequence,
            "the shared ledger was repaired: read it anew"
        );
        Ok(())
    }
}

impl Backend for PostgresLog {
    fn commit(&self, batch: &mut BindingBatch<'_>) -> Result<(), BackendError> {
        self.attempt(async |node| node.commit(&self.settings, batch).await)
    }

    fn follow(&self, batch: &mut BindingBatch<'_>) -> Result<(), BackendError> {
        self.attempt(async |node| node.follow(&self.settings, batch).await)
    }

    fn follow_every(&self) -> Option<Duration> {
        Some(FOLLOW_EVERY)
    }

    fn probe(&self) -> Result<(), BackendError> {
        self.look()
    }

    fn look(&self) -> Result<(), BackendError> {
        let mut node = self.node();
        if let Some((_, state, message)) = &node.failed {
            return Err(failure(*state, message));
        }
        // Before `serve` announced its secrets, there is nothing to enter.
        let session = (node.secrets != NodeSecrets::default())
            .then(|| node.session.take())
            .flatten();
        let Some(session) = session else { return Ok(()) };
        let sequence = node.known.end.sequence;
        let checked = self.runtime.block_on(async {
            timeout(
                DEADLINE,
                self.identity.check_in(&session.client, &node.secrets, sequence),
            )
            .await
        });
        let checked = checked.unwrap_or_else(|_| Err(no_answer(&session)));
        match &checked {
            Err(error) if !matches!(error.state, LedgerState::SameName | LedgerState::NodesDiffer) => {}
            _ => node.session = Some(session),
        }
        let contested = checked.as_ref().err();
        node.contested = contested.map(|error| (error.state, Arc::from(error.message.as_str())));
        checked
    }

    fn announce(&self, secrets: NodeSecrets) {
        let mut node = self.node();
        let sequence = node.known.end.sequence;
        if let Some(session) = &node.session {
            let entered = self
                .runtime
                .block_on(async { timeout(DEADLINE, self.identity.enter(&session.client, &secrets, sequence)).await });
            if !matches!(entered, Ok(Ok(()))) {
                tracing::warn!("the node could not enter itself in the table of nodes; it tries again");
            }
        }
        node.secrets = secrets;
    }

    fn stored_reports(&self) -> Option<Weak<dyn StoredReports>> {
        let reports: Arc<dyn StoredReports> = self.reports.clone();
        Some(Arc::downgrade(&reports))
    }

    fn catch_up(&self) -> io::Result<bool> {
        Ok(false)
    }

    fn write_reports(&self, batch: &telemetry::Batch) -> io::Result<()> {
        let mut node = self.node();
        let session = node
            .session
            .take()
            .ok_or_else(|| io::Error::other("there is no connection to the database"))?;
        let written = self
            .runtime
            .block_on(async { timeout(DEADLINE, reports::write(&session.client, batch)).await });
        let written = written.unwrap_or_else(|_| Err(io::Error::other("the database does not answer")));
        // After a failure, the next look at the head connects again.
        if written.is_ok() {
            node.session = Some(session);
        }
        written
    }

    fn sync_index(&self) -> io::Result<()> {
        Ok(())
    }
}
