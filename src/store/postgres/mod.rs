//! The log in PostgreSQL, which several nodes share: a [`Backend`] like the files of the embedded store.
//!
//! `session` finds the server, `load` reads the log at the start, and `transaction` appends. Every 250 ms the node looks
//! whether others appended. Memory takes only what a commit under the head's lock has proved. `schema` has the tables.

mod failure;
pub mod inspection;
mod load;
mod node_state;
pub(crate) mod nodes;
mod password;
mod report_reader;
mod reports;
pub(crate) mod schema;
mod session;
pub(crate) mod settings;
pub(crate) mod shared_compaction;
pub(super) mod shared_copy;
pub(super) mod shared_reader;
mod tls;
mod transaction;

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::store::backend::Backend;
use crate::store::backend_error::BackendError;
use crate::store::binding_batch::BindingBatch;
use crate::store::checksum::BindingsByLicense;
use crate::store::issued_licenses::IssuedTable;
use crate::store::stored_reports::StoredReports;
use crate::store::telemetry;

use failure::failure;
use node_state::{DEADLINE, NodeState, no_answer, prove};
use nodes::{NodeIdentity, NodeSecrets};
use report_reader::ReportReader;
use session::{KnownLog, Session};
use settings::DatabaseSettings;

/// How often a node looks whether others appended.
const FOLLOW_EVERY: Duration = Duration::from_millis(250);

/// How long to wait after a failure before the next attempt.
const PAUSE: Duration = Duration::from_millis(500);

/// The shared log, as one node sees it.
pub(super) struct PostgresLog {
    settings: DatabaseSettings,
    runtime: Runtime,
    node: Mutex<NodeState>,
    identity: NodeIdentity,
    reports: Arc<ReportReader>,
}

impl PostgresLog {
    /// Connects, and reads the whole log.
    pub(super) fn open(
        settings: DatabaseSettings,
        folder: &Path,
        is_synchronous_assumed: bool,
    ) -> Result<(Self, BindingsByLicense, IssuedTable), BackendError> {
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
            is_synchronous_assumed,
        };
        let log = Self {
            reports: Arc::new(ReportReader(settings.clone())),
            settings,
            runtime,
            node: Mutex::new(node),
            identity,
        };
        Ok((log, loaded.by_license, loaded.issued))
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
        node.note(&result);
        result
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
        if checked.is_ok() || node_state::is_contested(&checked) {
            node.session = Some(session);
        }
        node.note_check_in(&checked);
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
