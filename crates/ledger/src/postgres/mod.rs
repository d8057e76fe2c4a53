//! The log in PostgreSQL, which several nodes share: a [`Backend`] like the files of the embedded store.
//!
//! `session` finds the server, `load` reads the log at the start, and `transaction` appends. Every 250 ms the node looks
//! whether others appended. Memory takes only what a commit under the head's lock has proved. `schema` has the tables.

pub(super) mod day_rows;
pub(super) mod endpoint_lease;
mod failure;
pub mod inspection;
mod kept_lines;
mod kept_memory;
mod kept_seal;
mod load;
mod lost_lines;
pub(crate) mod node_queues;
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
pub(crate) mod shared_repair;
mod start;
mod statements;
mod text_erasure;
mod text_rows;
mod transaction;

use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use chrono::TimeDelta;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::backend::Backend;
use crate::binding_batch::BindingBatch;
use crate::error::{BackendError, StoreError};
use crate::ledger_tables::LedgerTables;
use crate::lock;
use crate::log::Position;
use crate::sleep_watch::{SleepWatch, since_boot};
use crate::stored_reports::StoredReports;
use crate::telemetry;
use crate::texts::customer_search::CustomerSearch;
use crate::texts::{ErasedText, FoundTexts, TextErasure};
use countersign_model::customer::{CustomerRow, NewCustomer};
use countersign_model::issued_license::Hex128;

use failure::failure;
use kept_lines::KeptLines;
use node_state::{DEADLINE, NodeState};
use nodes::{NodeIdentity, NodeSecrets};
use report_reader::ReportReader;
use session::KnownLog;
use settings::DatabaseSettings;
use start::{NodeStart, start};

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
    /// How old memory was at the start.
    age_at_start: Duration,
    reports: Arc<ReportReader>,
    sleep_watch: Arc<SleepWatch>,
}

impl PostgresLog {
    /// Connects, and reads the whole log. `folder` is this node's own; it is created.
    pub(super) fn open(
        address: &str,
        folder: &Path,
        is_synchronous_assumed: bool,
    ) -> Result<(Self, LedgerTables), StoreError> {
        lock::make_folder(folder).map_err(|source| StoreError::Read {
            path: folder.to_owned(),
            source,
        })?;
        let settings = DatabaseSettings::parse(address).map_err(StoreError::Address)?;
        Self::load(settings, folder, is_synchronous_assumed).map_err(StoreError::shared)
    }

    fn load(
        settings: DatabaseSettings,
        folder: &Path,
        is_synchronous_assumed: bool,
    ) -> Result<(Self, LedgerTables), BackendError> {
        let identity = NodeIdentity::load(folder)?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let started = runtime.block_on(start(&settings, folder))?;
        let NodeStart {
            session,
            loaded,
            epoch,
            age,
        } = started;
        let known = KnownLog { end: loaded.end, epoch };
        let node = NodeState::new(session, known, KeptLines::in_folder(folder), is_synchronous_assumed);
        let log = Self {
            reports: Arc::new(ReportReader(settings.clone())),
            sleep_watch: Arc::new(SleepWatch::new(since_boot())),
            settings,
            runtime,
            node: Mutex::new(node),
            identity,
            age_at_start: age,
        };
        Ok((log, loaded.tables))
    }

    fn node(&self) -> MutexGuard<'_, NodeState> {
        self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work`, and notes its failure. Directly after a failure the same one is returned.
    fn attempt(
        &self,
        batch: &mut BindingBatch<'_>,
        work: impl AsyncFnOnce(&mut NodeState, &mut BindingBatch<'_>) -> Result<(), BackendError>,
    ) -> Result<(), BackendError> {
        let mut node = self.node();
        self.sleep_watch.beat(since_boot());
        let sleeps = self.sleep_watch.sleeps();
        if let Some((_, state, message)) = node.failed.as_ref().filter(|(at, ..)| at.elapsed() < PAUSE) {
            return Err(failure(*state, message));
        }
        if let Some((state, message)) = &node.contested {
            return Err(failure(*state, message));
        }
        let epoch = node.known.epoch;
        let result = self.wait_for(work(&mut node, batch));
        let known = node.known;
        let result = match result {
            Ok(()) => {
                node.kept.remove_if_restored(epoch == known.epoch);
                Ok(())
            }
            Err(error) => Err(node.kept.after(error, known, batch.memory())),
        };
        node.note(&result);
        if result.is_ok() {
            self.sleep_watch.has_looked(sleeps);
        }
        result
    }

    /// Waits for the database.
    fn wait_for<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(self.sleep_watch.beating(work))
    }
}

impl Backend for PostgresLog {
    fn commit(&self, batch: &mut BindingBatch<'_>) -> Result<(), BackendError> {
        self.attempt(batch, async |node, batch| node.commit(&self.settings, batch).await)
    }

    fn follow(&self, batch: &mut BindingBatch<'_>) -> Result<(), BackendError> {
        self.attempt(batch, async |node, batch| node.follow(&self.settings, batch).await)
    }

    fn find_texts(&self, names: &[Hex128]) -> Result<FoundTexts, BackendError> {
        let mut node = self.node();
        self.wait_for(node.find_texts(&self.settings, names))
    }

    fn erase_texts(&self, erasure: &TextErasure) -> Result<Option<ErasedText>, BackendError> {
        let mut node = self.node();
        self.wait_for(node.erase_texts(&self.settings, erasure))
    }

    fn keep_customers(&self, new: &[NewCustomer]) -> Result<Vec<Hex128>, BackendError> {
        let mut node = self.node();
        self.wait_for(node.keep_customers(&self.settings, new))
    }

    fn find_customers(&self, numbers: &BTreeSet<Hex128>) -> Result<Vec<CustomerRow>, BackendError> {
        let mut node = self.node();
        self.wait_for(node.find_customers(&self.settings, numbers))
    }

    fn customer_search(&self) -> Arc<dyn CustomerSearch> {
        Arc::<ReportReader>::clone(&self.reports)
    }

    fn forget_customers(&self, numbers: &[Hex128]) -> Result<usize, BackendError> {
        let mut node = self.node();
        self.wait_for(node.forget_customers(&self.settings, numbers))
    }

    fn end(&self) -> Option<Position> {
        Some(self.node().known.end)
    }

    fn age_at_start(&self) -> Option<Duration> {
        Some(self.age_at_start)
    }

    fn follow_every(&self) -> Option<Duration> {
        Some(FOLLOW_EVERY)
    }

    fn clock_lead(&self) -> Option<TimeDelta> {
        self.node().clock_lead
    }

    fn sleep_watch(&self) -> Option<Arc<SleepWatch>> {
        Some(Arc::clone(&self.sleep_watch))
    }

    fn node(&self) -> Option<&str> {
        Some(self.identity.name())
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
        if node.session.is_none() || node.secrets == NodeSecrets::default() {
            return Ok(());
        }
        let checked = self.wait_for(node.check_in(&self.settings, &self.identity));
        node.note_check_in(&checked);
        checked
    }

    fn announce(&self, secrets: NodeSecrets) {
        let mut node = self.node();
        let sequence = node.known.end.sequence;
        if let Some(session) = &node.session {
            let entered = self
                .wait_for(async { timeout(DEADLINE, self.identity.enter(&session.client, &secrets, sequence)).await });
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
        let written = self.wait_for(async { timeout(DEADLINE, reports::write(&session.client, batch)).await });
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
