//! The one thread that writes: takes everything that waits, makes it durable at once, then wakes everybody.
//!
//! One sync serves all who wait, so durability costs a request next to nothing under load. Bindings go first; reports are
//! written between them, a shard at a time. Writes go to a [`Disk`], results to [`Held`].

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

use crate::model::binding::Binding;
use crate::model::license_key::LicenseId;
use crate::model::site_host::SiteHost;

use super::held::{Held, Resolve};
use super::reports::{self, Reports};
use super::{Health, StoreError};

/// Bindings that may wait for the thread.
pub(super) const QUEUE: usize = 4_096;

/// How long reports wait, and how often a failed disk is tried again.
pub(super) const WRITE_BEHIND: Duration = Duration::from_secs(2);

/// What bindings and reports are filed under.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub license: LicenseId,
    pub host: SiteHost,
}

/// A binding on disk, without its key.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    /// Orders the bindings of a license, since a clock may step back.
    #[serde(rename = "seq")]
    pub sequence: u64,
    #[serde(rename = "at")]
    pub bound_at: DateTime<Utc>,
}

/// What was on disk at the start.
#[derive(Debug, Default)]
pub(super) struct Stored {
    /// In the order of binding.
    pub bindings: HashMap<LicenseId, Arc<[Binding]>>,
    /// Greater than that of every record.
    pub next_sequence: u64,
}

/// What the syncer writes to. Nothing is durable before [`Disk::sync`] returned.
pub(super) trait Disk: Send + Sync + 'static {
    /// The record of a binding.
    fn binding(&self, key: &Key) -> io::Result<Option<Record>>;
    /// Writes bindings, all or none; `None` removes one.
    fn write_bindings(&self, changes: &BTreeMap<Key, Option<Record>>) -> io::Result<()>;
    /// Merges reports into those stored.
    fn write_reports(&self, reports: &reports::Batch) -> io::Result<()>;
    /// Returns once everything written is safe from a loss of power.
    fn sync(&self) -> io::Result<()>;
}

/// A binding on its way to the disk.
#[derive(Debug)]
pub(super) struct Job {
    pub license: LicenseId,
    pub binding: Binding,
    pub sequence: u64,
    pub resolve: Resolve,
}

enum Message {
    Bind(Job),
    Close,
}

/// The handle of the thread.
pub(super) struct Syncer {
    queue: SyncSender<Message>,
    status: Arc<Mutex<Status>>,
    thread: Mutex<Option<JoinHandle<Result<(), StoreError>>>>,
}

struct Status {
    failure: Option<Failure>,
    since: DateTime<Utc>,
}

#[derive(Clone, PartialEq)]
enum Failure {
    NotDurable(Arc<str>),
    Closed,
}

impl Syncer {
    pub(super) fn start(disk: impl Disk, held: Arc<Held>, reports: Arc<Reports>, write_behind: Duration) -> Self {
        let (queue, jobs) = sync_channel(QUEUE);
        let status = Arc::new(Mutex::new(Status { failure: None, since: Utc::now() }));
        let (undo, next_shard) = (BTreeMap::new(), 0);
        let writer = Writer { disk, held, reports, status: status.clone(), undo, next_shard };
        let thread = std::thread::Builder::new().name("store".into()).spawn(move || writer.run(&jobs, write_behind));
        if let Err(error) = &thread {
            tracing::error!(%error, "the store's thread does not start");
        }
        Self { queue, status, thread: Mutex::new(thread.ok()) }
    }

    /// Hands over a binding; never blocks.
    pub(super) fn enqueue(&self, job: Job) -> Result<(), StoreError> {
        self.queue.try_send(Message::Bind(job)).map_err(|error| match error {
            TrySendError::Full(_) => StoreError::Busy,
            TrySendError::Disconnected(_) => StoreError::Closed,
        })
    }

    pub(super) fn health(&self) -> Health {
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        let state = match &status.failure {
            None => Ok(()),
            Some(Failure::NotDurable(reason)) => Err(StoreError::NotDurable(reason.clone())),
            Some(Failure::Closed) => Err(StoreError::Closed),
        };
        Health { state, since: status.since }
    }

    /// Writes what waits and ends the thread. Does nothing the second time.
    pub(super) fn close(&self) -> Result<(), StoreError> {
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
    /// How the bindings that failed stood before: the disk may have kept some of a batch that nobody was told of. They go
    /// in front of the next batch, so that a seat given back is never found taken after a restart.
    undo: BTreeMap<Key, Option<Record>>,
    next_shard: usize,
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
            // One shard at a time, so that a binding waits for one sync more at most.
            if Instant::now() >= next_write_behind && !self.write_behind() {
                next_write_behind = Instant::now() + write_behind;
            }
        }
    }

    fn bind(&mut self, jobs: Vec<Job>) {
        let record = |job: &Job| {
            let key = Key { license: job.license, host: job.binding.host.clone() };
            (key, Record { sequence: job.sequence, bound_at: job.binding.bound_at })
        };
        let result = self.commit(jobs.iter().map(record).collect(), &reports::Batch::new());
        for job in jobs {
            self.held.settle(job, result.clone());
        }
    }

    /// Writes the next shard of reports, and what has to be undone; whether there is more to do at once.
    fn write_behind(&mut self) -> bool {
        while self.next_shard < reports::SHARDS {
            let batch = self.reports.take(self.next_shard);
            self.next_shard += 1;
            if batch.is_empty() {
                continue;
            }
            if self.commit(BTreeMap::new(), &batch).is_ok() {
                return true;
            }
            self.reports.put_back(batch);
            break;
        }
        self.next_shard = 0;
        if !self.undo.is_empty() {
            // The result shows in the status, and nobody waits for it.
            let _ = self.commit(BTreeMap::new(), &reports::Batch::new());
        }
        match self.reports.take_dropped() {
            0 => {}
            dropped => tracing::warn!(dropped, "the disk is slower than the sites: reports were dropped"),
        }
        false
    }

    /// Makes bindings and reports durable, together with what has to be undone.
    fn commit(&mut self, bindings: BTreeMap<Key, Record>, reports: &reports::Batch) -> Result<(), Arc<str>> {
        let result = self.try_commit(bindings, reports).map_err(|error| Arc::from(error.to_string()));
        match &result {
            Ok(()) => {
                self.undo.clear();
                if self.set_status(None) {
                    tracing::info!("the store is durable again");
                }
            }
            Err(reason) => {
                if self.set_status(Some(Failure::NotDurable(Arc::clone(reason)))) {
                    tracing::error!(reason = &**reason, "the store does not become durable");
                }
            }
        }
        result
    }

    fn try_commit(&mut self, bindings: BTreeMap<Key, Record>, reports: &reports::Batch) -> io::Result<()> {
        let mut changes = self.undo.clone();
        for (key, record) in bindings {
            if !self.undo.contains_key(&key) {
                self.undo.insert(key.clone(), self.disk.binding(&key)?);
            }
            changes.insert(key, Some(record));
        }
        if !changes.is_empty() {
            self.disk.write_bindings(&changes)?;
        }
        if !reports.is_empty() {
            self.disk.write_reports(reports)?;
        }
        self.disk.sync()
    }

    /// Notes how the disk is; whether that is news.
    fn set_status(&self, failure: Option<Failure>) -> bool {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        let news = status.failure != failure;
        if status.failure.is_some() != failure.is_some() {
            status.since = Utc::now();
        }
        status.failure = failure;
        news
    }

    fn finish(&mut self) -> Result<(), StoreError> {
        self.next_shard = 0;
        while self.write_behind() {}
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        match &status.failure {
            Some(Failure::NotDurable(reason)) => Err(StoreError::NotDurable(reason.clone())),
            _ => Ok(()),
        }
    }
}

impl<D> Drop for Writer<D> {
    // Also where the thread panics: nobody may believe in a store that writes no more.
    fn drop(&mut self) {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        *status = Status { failure: Some(Failure::Closed), since: Utc::now() };
    }
}
