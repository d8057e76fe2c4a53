//! The queue of the group commit: everything that waits for the thread of `commit_writer`.
//!
//! Under load, many requests share a sync, so durability costs each of them little. If the log cannot be written, such
//! as on a full disk, all requests of a commit fail, and the thread tries again.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::backend::Backend;
use crate::command::{self, LedgerCommand};
use crate::commit_writer::CommitWriter;
use crate::error::StoreError;
use crate::health::{CommitCounts, CommitStatus, Figures, StoreHealth};
use crate::log::Position;
use crate::memory::BindingMemory;
use crate::pending::{Message, QUEUE};
use crate::postgres::nodes::NodeSecrets;
use crate::sleep_watch::{SleepWatch, since_boot};
use crate::telemetry::Reports;

/// How long the index and reports wait, and the time between retries of a failed disk.
pub(crate) const WRITE_BEHIND: Duration = Duration::from_secs(2);

/// The handle of the thread.
pub(crate) struct GroupCommit {
    queue: SyncSender<Message>,
    status: Arc<Mutex<CommitStatus>>,
    counts: Arc<CommitCounts>,
    /// Whether other nodes may append to the log.
    is_shared: bool,
    sleep_watch: Option<Arc<SleepWatch>>,
    thread: Mutex<Option<JoinHandle<Result<(), StoreError>>>>,
}

impl GroupCommit {
    /// Starts the thread, which alone changes `memory`.
    pub(crate) fn start(
        backend: impl Backend,
        memory: Arc<BindingMemory>,
        reports: Arc<Reports>,
        write_behind: Duration,
    ) -> Self {
        let (queue, messages) = sync_channel(QUEUE);
        let is_shared = backend.follow_every().is_some();
        let sleep_watch = backend.sleep_watch();
        let status = Arc::new(Mutex::new(CommitStatus::new(backend.age_at_start(), backend.end())));
        let counts = Arc::new(CommitCounts::default());
        let writer = CommitWriter::new(backend, memory, reports, status.clone(), counts.clone());
        let thread = std::thread::Builder::new()
            .name("store".into())
            .spawn(move || writer.run(&messages, write_behind));
        if let Err(error) = &thread {
            tracing::error!(%error, "cannot start the store's thread");
        }
        Self {
            queue,
            status,
            counts,
            is_shared,
            sleep_watch,
            thread: Mutex::new(thread.ok()),
        }
    }

    /// Whether other nodes may append to the log, so that memory may be outdated.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Whether this process slept, and memory is as old as that.
    pub(crate) fn is_behind(&self) -> bool {
        let watch = self.sleep_watch.as_ref();
        watch.is_some_and(|watch| watch.is_behind(since_boot()))
    }

    /// Queues a message; never blocks. While a shared log is away, nothing is queued: the thread may be waiting for it.
    pub(crate) fn enqueue(&self, message: Message) -> Result<(), StoreError> {
        if self.is_shared {
            let refusal = self.status().refusal();
            refusal.map_or(Ok(()), Err)?;
        }
        self.queue.try_send(message).map_err(|error| match error {
            TrySendError::Full(_) => StoreError::Busy,
            TrySendError::Disconnected(_) => StoreError::Closed,
        })
    }

    /// Has a command decided, and waits until its lines are durable.
    pub(crate) async fn ask<C: LedgerCommand>(&self, command: C) -> Result<C::Outcome, StoreError> {
        let (request, pending) = command::waiting(command);
        self.enqueue(Message::Request(request))?;
        pending.wait().await
    }

    /// Tells other nodes which secrets this one uses. Waits if the queue is full.
    pub(crate) fn announce(&self, secrets: NodeSecrets) {
        if self.is_shared {
            // If nobody receives it, the thread has ended.
            let _ = self.queue.send(Message::Announce(secrets));
        }
    }

    pub(crate) fn health(&self) -> StoreHealth {
        self.status().health()
    }

    /// The last durable line that this node knows.
    pub(crate) fn ledger_end(&self) -> Option<Position> {
        self.status().end
    }

    fn status(&self) -> MutexGuard<'_, CommitStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds its counters to `figures`.
    pub(crate) fn figures(&self, figures: Figures) -> Figures {
        Figures {
            syncs: self.counts.syncs.read(),
            failures: self.counts.failures.load(Ordering::Relaxed),
            index_failures: self.counts.index_failures.load(Ordering::Relaxed),
            ..figures
        }
    }

    /// Writes what is waiting and ends the thread. Calling it again does nothing.
    pub(crate) fn close(&self) -> Result<(), StoreError> {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return Ok(()) };
        // If nobody receives the message, the thread has ended already.
        let _ = self.queue.send(Message::Close);
        thread.join().unwrap_or(Err(StoreError::Closed))
    }
}

impl Drop for GroupCommit {
    fn drop(&mut self) {
        // The thread has logged a failure.
        let _ = self.close();
    }
}
