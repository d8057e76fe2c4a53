//! The only thread that writes: it takes all waiting bindings, makes them durable with one sync, and wakes the waiters.
//!
//! Under load, many requests share a sync, so durability costs each of them little. Bindings go to the ledger first;
//! the index and the reports are written in parts between them. Writes go to a [`Backend`], results to a callback of
//! the caller. If a write fails, such as on a full disk, all of its bindings fail, and the thread tries again.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::store::backend::Backend;
use crate::store::commit_status::{CommitCounts, CommitStatus, FailureState, LedgerFailure};
use crate::store::error::StoreError;
use crate::store::health::StoreHealth;
use crate::store::log::record;
use crate::store::pending::PendingWrite;
use crate::store::telemetry::{self, Reports};

/// The most bindings that may wait for the thread.
pub(crate) const QUEUE: usize = record::BATCH - 1;

/// How long the index and reports wait, and the time between retries of a failed disk.
pub(crate) const WRITE_BEHIND: Duration = Duration::from_secs(2);

/// Reports written in that time, if more are waiting. 250 a second are 22 million a day. Writing one costs 6 to 30
/// µs, and no decision depends on it.
const REPORTS_A_TURN: usize = 512;

enum Message {
    Bind(PendingWrite),
    Close,
}

/// The handle of the thread.
pub(crate) struct GroupCommit {
    queue: SyncSender<Message>,
    status: Arc<Mutex<CommitStatus>>,
    counts: Arc<CommitCounts>,
    thread: Mutex<Option<JoinHandle<Result<(), StoreError>>>>,
}

impl GroupCommit {
    /// Starts the thread. It calls `on_commit` with each binding once it is durable or has failed.
    pub(crate) fn start(
        disk: impl Backend,
        on_commit: impl Fn(PendingWrite, Result<(), Arc<str>>) + Send + 'static,
        reports: Arc<Reports>,
        write_behind: Duration,
    ) -> Self {
        let (queue, jobs) = sync_channel(QUEUE);
        let status = Arc::new(Mutex::new(CommitStatus::new()));
        let counts = Arc::new(CommitCounts::default());
        let writer = CommitWriter {
            disk,
            on_commit,
            reports,
            status: status.clone(),
            counts: counts.clone(),
            next_shard: 0,
            turn: FlushBudget::NEW,
            dropped: 0,
        };
        let thread = std::thread::Builder::new()
            .name("store".into())
            .spawn(move || writer.run(&jobs, write_behind));
        if let Err(error) = &thread {
            tracing::error!(%error, "cannot start the store's thread");
        }
        Self {
            queue,
            status,
            counts,
            thread: Mutex::new(thread.ok()),
        }
    }

    /// Queues a binding; never blocks.
    pub(crate) fn enqueue(&self, job: PendingWrite) -> Result<(), StoreError> {
        self.queue.try_send(Message::Bind(job)).map_err(|error| match error {
            TrySendError::Full(_) => StoreError::Busy,
            TrySendError::Disconnected(_) => StoreError::Closed,
        })
    }

    pub(crate) fn health(&self) -> StoreHealth {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).health()
    }

    /// The counters.
    pub(crate) fn counts(&self) -> &CommitCounts {
        &self.counts
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

/// The state of the thread.
struct CommitWriter<D, C> {
    disk: D,
    on_commit: C,
    reports: Arc<Reports>,
    status: Arc<Mutex<CommitStatus>>,
    counts: Arc<CommitCounts>,
    /// The shard of reports to write next.
    next_shard: usize,
    turn: FlushBudget,
    /// How many dropped reports were logged.
    dropped: u64,
}

/// Reports that are still to be written before the next sync of the index.
struct FlushBudget {
    shards: usize,
    records: usize,
}

impl FlushBudget {
    const NEW: Self = Self {
        shards: telemetry::SHARDS,
        records: REPORTS_A_TURN,
    };
    const LAST: Self = Self {
        records: usize::MAX,
        ..Self::NEW
    };
}

impl<D: Backend, C: Fn(PendingWrite, Result<(), Arc<str>>)> CommitWriter<D, C> {
    fn run(mut self, queue: &Receiver<Message>, write_behind: Duration) -> Result<(), StoreError> {
        let mut next_write_behind = Instant::now() + write_behind;
        loop {
            let first = queue.recv_timeout(next_write_behind.saturating_duration_since(Instant::now()));
            let mut closing = matches!(first, Err(RecvTimeoutError::Disconnected));
            let mut jobs = Vec::new();
            for message in first.into_iter().chain(queue.try_iter().take(QUEUE)) {
                match message {
                    Message::Bind(job) => jobs.push(job),
                    Message::Close => closing = true,
                }
            }
            if !jobs.is_empty() {
                self.bind(jobs);
            }
            if closing {
                return self.finish();
            }
            // In parts, so that a binding waits for one part at most: for one sync, and after every 16,384 records
            // for sled to be closed and opened again.
            if Instant::now() >= next_write_behind && !self.write_behind() {
                self.retry();
                next_write_behind = Instant::now() + write_behind;
            }
        }
    }

    fn bind(&mut self, jobs: Vec<PendingWrite>) {
        let entries: Vec<_> = jobs.iter().map(|job| job.entry.clone()).collect();
        let started = Instant::now();
        let result = self.note(self.disk.append(&entries));
        self.counts.syncs.observe(started.elapsed());
        if result.is_err() {
            self.counts.failures.fetch_add(jobs.len() as u64, Ordering::Relaxed);
        }
        for job in jobs {
            (self.on_commit)(job, result.clone());
        }
    }

    /// Checks whether a failed disk works again, even if nobody binds.
    fn retry(&self) {
        let failing = self.status().ledger.failure.is_some();
        if failing {
            // The result is in the status; nobody waits for it.
            let _ = self.note(self.disk.probe());
        }
    }

    /// Writes the next part of what is waiting; whether there is more. Also detects a replaced store.
    fn write_behind(&mut self) -> bool {
        if let Err(error) = self.disk.look() {
            // An index written now would belong to another ledger.
            let _ = self.note(Err(error));
            return false;
        }
        let written = self.try_write_behind();
        match &written {
            // Only a complete turn shows that everything works.
            Ok(true) => {}
            Ok(false) => {
                if self.status().index.set(None) {
                    tracing::info!("the index and reports can be written again");
                }
            }
            Err(error) => {
                self.counts.index_failures.fetch_add(1, Ordering::Relaxed);
                if self.status().index.set(Some(Arc::from(error.to_string()))) {
                    tracing::error!(%error, "the index and reports cannot be written");
                }
            }
        }
        let dropped = self.reports.dropped();
        if dropped > self.dropped {
            let dropped = dropped - std::mem::replace(&mut self.dropped, dropped);
            tracing::warn!(
                dropped,
                "dropped reports of sites, because they came faster than they were written"
            );
        }
        written.unwrap_or(false)
    }

    fn try_write_behind(&mut self) -> io::Result<bool> {
        if self.disk.catch_up()? {
            return Ok(true);
        }
        while self.turn.shards > 0 && self.turn.records > 0 {
            let batch = self.reports.take(self.next_shard);
            self.next_shard = (self.next_shard + 1) % telemetry::SHARDS;
            self.turn.shards -= 1;
            if !batch.is_empty() {
                let records = batch.len();
                if let Err(error) = self.disk.write_reports(&batch) {
                    self.reports.put_back(batch);
                    self.turn = FlushBudget::NEW;
                    return Err(error);
                }
                self.turn.records = self.turn.records.saturating_sub(records);
                return Ok(true);
            }
        }
        self.turn = FlushBudget::NEW;
        self.disk.sync_index().map(|()| false)
    }

    /// Records whether the ledger can be written.
    fn note(&self, result: io::Result<()>) -> Result<(), Arc<str>> {
        let result = result.map_err(|error| Arc::from(error.to_string()));
        match &result {
            Ok(()) => {
                if self.status().ledger.set(None) {
                    tracing::info!("bindings can be written again");
                }
            }
            Err(reason) => {
                if self
                    .status()
                    .ledger
                    .set(Some(LedgerFailure::NotDurable(Arc::clone(reason))))
                {
                    tracing::error!(reason = &**reason, "bindings cannot be written");
                }
            }
        }
        result
    }

    fn status(&self) -> MutexGuard<'_, CommitStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&mut self) -> Result<(), StoreError> {
        self.turn = FlushBudget::LAST;
        while self.write_behind() {}
        let failure = match (self.disk.look(), self.status().index.failure.take()) {
            (Ok(()), None) => return Ok(()),
            (Ok(()), Some(reason)) => StoreError::NotIndexed(reason),
            (Err(error), _) => StoreError::NotDurable(Arc::from(error.to_string())),
        };
        match self.reports.waiting() {
            0 => {}
            lost => tracing::error!(lost, "reports of sites could not be written and are lost"),
        }
        Err(failure)
    }
}

impl<D, C> Drop for CommitWriter<D, C> {
    // Also if the thread panics: the store must not seem to work when it writes no more.
    fn drop(&mut self) {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.ledger = FailureState::new(Some(LedgerFailure::Closed));
    }
}
