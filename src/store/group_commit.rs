//! The one thread that writes: takes everything that waits, makes it durable at once, then wakes everybody.
//!
//! One sync serves all who wait, so durability costs a request next to nothing under load. Bindings go to the ledger
//! first; the index and the reports are written between them, a part at a time. Writes go to a [`Disk`], results to [`Held`].

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

use crate::counting::Histogram;

use crate::store::log::{Entry, record};
use crate::store::memory::{Held, Resolve};
use crate::store::telemetry::{self, Reports};
use crate::store::{Health, StoreError};

/// Bindings that may wait for the thread.
pub(crate) const QUEUE: usize = record::BATCH - 1;

/// How long the index and reports wait, and how often a failed disk is tried again.
pub(crate) const WRITE_BEHIND: Duration = Duration::from_secs(2);

/// Sites whose reports are written in that time, when more of them wait: 250 a second are 22 million a day. Writing one
/// costs 6 to 30 µs, and nothing is decided by it.
const REPORTS_A_TURN: usize = 512;

/// What the syncer writes to.
pub(crate) trait Disk: Send + Sync + 'static {
    /// Writes bindings to the ledger: they are safe from a loss of power when this returns, or they are not there.
    fn append(&self, entries: &[Entry]) -> io::Result<()>;
    /// Whether bindings could be written.
    fn probe(&self) -> io::Result<()>;
    /// Whether the store is still the one that was opened, at the path where the next start looks for it. Costs a few
    /// system calls; one that came back is read whole.
    fn look(&self) -> io::Result<()>;
    /// Files a part of what was appended in the index; whether there was something to file.
    fn catch_up(&self) -> io::Result<bool>;
    /// Merges reports into those stored.
    fn write_reports(&self, reports: &telemetry::Batch) -> io::Result<()>;
    /// Returns once index and reports are safe from a loss of power.
    fn sync_index(&self) -> io::Result<()>;
}

/// A binding on its way to the disk.
#[derive(Debug)]
pub(crate) struct Job {
    pub entry: Entry,
    pub resolve: Resolve,
}

enum Message {
    Bind(Job),
    Close,
}

/// The handle of the thread.
pub(crate) struct Syncer {
    queue: SyncSender<Message>,
    status: Arc<Mutex<Status>>,
    counts: Arc<Counts>,
    thread: Mutex<Option<JoinHandle<Result<(), StoreError>>>>,
}

/// How writing went.
#[derive(Default)]
pub(crate) struct Counts {
    /// How long the ledger took, failures included.
    pub syncs: Histogram,
    /// Bindings that did not become durable.
    pub failures: AtomicU64,
    /// Times that the index or reports could not be written.
    pub index_failures: AtomicU64,
}

struct Status {
    ledger: Condition<Failure>,
    index: Condition<Arc<str>>,
}

#[derive(Clone, PartialEq)]
enum Failure {
    NotDurable(Arc<str>),
    Closed,
}

/// What fails, if something does, and since when it is so.
struct Condition<F> {
    failure: Option<F>,
    since: DateTime<Utc>,
}

impl<F> Condition<F> {
    fn new(failure: Option<F>) -> Self {
        Self { failure, since: Utc::now() }
    }

    /// Whether it began or ceased to fail; what fails may be told in other words each time.
    fn set(&mut self, failure: Option<F>) -> bool {
        let news = self.failure.is_some() != failure.is_some();
        *self = Self { failure, since: if news { Utc::now() } else { self.since } };
        news
    }
}

impl Syncer {
    pub(crate) fn start(disk: impl Disk, held: Arc<Held>, reports: Arc<Reports>, write_behind: Duration) -> Self {
        let (queue, jobs) = sync_channel(QUEUE);
        let status = Status { ledger: Condition::new(None), index: Condition::new(None) };
        let (status, counts) = (Arc::new(Mutex::new(status)), Arc::new(Counts::default()));
        let writer = Writer {
            disk,
            held,
            reports,
            status: status.clone(),
            counts: counts.clone(),
            next_shard: 0,
            turn: Turn::NEW,
            dropped: 0,
        };
        let thread = std::thread::Builder::new().name("store".into()).spawn(move || writer.run(&jobs, write_behind));
        if let Err(error) = &thread {
            tracing::error!(%error, "the store's thread does not start");
        }
        Self { queue, status, counts, thread: Mutex::new(thread.ok()) }
    }

    /// Hands over a binding; never blocks.
    pub(crate) fn enqueue(&self, job: Job) -> Result<(), StoreError> {
        self.queue.try_send(Message::Bind(job)).map_err(|error| match error {
            TrySendError::Full(_) => StoreError::Busy,
            TrySendError::Disconnected(_) => StoreError::Closed,
        })
    }

    pub(crate) fn health(&self) -> Health {
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        let Status { ledger, index } = &*status;
        match (&ledger.failure, &index.failure) {
            (Some(Failure::Closed), _) => Health { state: Err(StoreError::Closed), since: ledger.since },
            (Some(Failure::NotDurable(reason)), _) => {
                Health { state: Err(StoreError::NotDurable(reason.clone())), since: ledger.since }
            }
            (None, Some(reason)) => Health { state: Err(StoreError::NotIndexed(reason.clone())), since: index.since },
            (None, None) => Health { state: Ok(()), since: ledger.since.max(index.since) },
        }
    }

    /// How writing went.
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Writes what waits and ends the thread. Does nothing the second time.
    pub(crate) fn close(&self) -> Result<(), StoreError> {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return Ok(()) };
        // Where nobody takes the message, the thread has ended already.
        let _ = self.queue.send(Message::Close);
        thread.join().unwrap_or(Err(StoreError::Closed))
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        // A failure was logged by the thread.
        let _ = self.close();
    }
}

/// What the thread owns.
struct Writer<D> {
    disk: D,
    held: Arc<Held>,
    reports: Arc<Reports>,
    status: Arc<Mutex<Status>>,
    counts: Arc<Counts>,
    /// The shard of reports that is written next.
    next_shard: usize,
    turn: Turn,
    /// Dropped reports that were logged.
    dropped: u64,
}

/// What is still to be written of the reports before the next sync of the index.
struct Turn {
    shards: usize,
    sites: usize,
}

impl Turn {
    const NEW: Self = Self { shards: telemetry::SHARDS, sites: REPORTS_A_TURN };
    const LAST: Self = Self { sites: usize::MAX, ..Self::NEW };
}

impl<D: Disk> Writer<D> {
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
            // A part at a time, so that a binding waits for one of them more at most: for one sync, and after each
            // 16,384 records for sled to be closed and opened anew.
            if Instant::now() >= next_write_behind && !self.write_behind() {
                self.retry();
                next_write_behind = Instant::now() + write_behind;
            }
        }
    }

    fn bind(&mut self, jobs: Vec<Job>) {
        let entries: Vec<_> = jobs.iter().map(|job| job.entry.clone()).collect();
        let started = Instant::now();
        let result = self.note(self.disk.append(&entries));
        self.counts.syncs.observe(started.elapsed());
        if result.is_err() {
            self.counts.failures.fetch_add(jobs.len() as u64, Ordering::Relaxed);
        }
        for job in jobs {
            self.held.settle(job, result.clone());
        }
    }

    /// A disk that works again shows without anybody binding.
    fn retry(&self) {
        let failing = self.status().ledger.failure.is_some();
        if failing {
            // The result shows in the status, and nobody waits for it.
            let _ = self.note(self.disk.probe());
        }
    }

    /// Writes the next part of what waits; whether there is more to do at once. Also shows a store that was replaced,
    /// without anybody binding.
    fn write_behind(&mut self) -> bool {
        if let Err(error) = self.disk.look() {
            // An index written now would belong to another ledger.
            let _ = self.note(Err(error));
            return false;
        }
        let written = self.try_write_behind();
        match &written {
            // Only a whole turn shows that all of it works.
            Ok(true) => {}
            Ok(false) => {
                if self.status().index.set(None) {
                    tracing::info!("the index and reports are written again");
                }
            }
            Err(error) => {
                self.counts.index_failures.fetch_add(1, Ordering::Relaxed);
                if self.status().index.set(Some(Arc::from(error.to_string()))) {
                    tracing::error!(%error, "the index and reports are not written");
                }
            }
        }
        let dropped = self.reports.dropped();
        if dropped > self.dropped {
            let dropped = dropped - std::mem::replace(&mut self.dropped, dropped);
            tracing::warn!(dropped, "more sites reported than are written: reports were dropped");
        }
        written.unwrap_or(false)
    }

    fn try_write_behind(&mut self) -> io::Result<bool> {
        if self.disk.catch_up()? {
            return Ok(true);
        }
        while self.turn.shards > 0 && self.turn.sites > 0 {
            let batch = self.reports.take(self.next_shard);
            self.next_shard = (self.next_shard + 1) % telemetry::SHARDS;
            self.turn.shards -= 1;
            if !batch.is_empty() {
                let sites = batch.values().map(Vec::len).sum();
                if let Err(error) = self.disk.write_reports(&batch) {
                    self.reports.put_back(batch);
                    self.turn = Turn::NEW;
                    return Err(error);
                }
                self.turn.sites = self.turn.sites.saturating_sub(sites);
                return Ok(true);
            }
        }
        self.turn = Turn::NEW;
        self.disk.sync_index().map(|()| false)
    }

    /// Notes whether the ledger can be written.
    fn note(&self, result: io::Result<()>) -> Result<(), Arc<str>> {
        let result = result.map_err(|error| Arc::from(error.to_string()));
        match &result {
            Ok(()) => {
                if self.status().ledger.set(None) {
                    tracing::info!("the store is durable again");
                }
            }
            Err(reason) => {
                if self.status().ledger.set(Some(Failure::NotDurable(Arc::clone(reason)))) {
                    tracing::error!(reason = &**reason, "the store does not become durable");
                }
            }
        }
        result
    }

    fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&mut self) -> Result<(), StoreError> {
        self.turn = Turn::LAST;
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

impl<D> Drop for Writer<D> {
    // Also where the thread panics: nobody may believe in a store that writes no more.
    fn drop(&mut self) {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.ledger = Condition::new(Some(Failure::Closed));
    }
}
