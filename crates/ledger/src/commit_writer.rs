//! The only thread that writes: it takes all waiting requests, commits them together, and answers them.
//!
//! Bindings go to the log first; the index and the reports are written in parts between them. All goes to a [`Backend`].
//! If other nodes share the log, the thread also reads what they append.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::backend::Backend;
use crate::binding_batch::BindingBatch;
use crate::command::{Answer, WaitingRequest};
use crate::error::{BackendError, StoreError};
use crate::health::{CommitCounts, CommitStatus, LedgerFailure};
use crate::memory::BindingMemory;
use crate::pending::{LedgerLook, Message, QUEUE, TextRequest};
use crate::sleep_watch::since_boot;
use crate::telemetry::{self, Reports};

/// Reports written in a turn, if more are waiting. 250 a second are 22 million a day. Writing one costs 6 to 30
/// µs, and no decision depends on it.
const REPORTS_A_TURN: usize = 512;

/// The state of the thread.
pub(super) struct CommitWriter<B> {
    backend: B,
    memory: Arc<BindingMemory>,
    reports: Arc<Reports>,
    status: Arc<Mutex<CommitStatus>>,
    counts: Arc<CommitCounts>,
    /// The shard of reports to write next.
    next_shard: usize,
    turn: FlushBudget,
    /// How many dropped reports were logged.
    dropped: u64,
}

/// Requests that wait for a look at the log.
#[derive(Default)]
struct Refreshes {
    waiting: Vec<Answer<()>>,
    /// Whether one of them needs a transaction that locks the log and commits.
    need_proof: bool,
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

impl<B: Backend> CommitWriter<B> {
    pub(super) fn new(
        backend: B,
        memory: Arc<BindingMemory>,
        reports: Arc<Reports>,
        status: Arc<Mutex<CommitStatus>>,
        counts: Arc<CommitCounts>,
    ) -> Self {
        Self {
            backend,
            memory,
            reports,
            status,
            counts,
            next_shard: 0,
            turn: FlushBudget::NEW,
            dropped: 0,
        }
    }

    /// Commits what waits, until it receives the message to close.
    pub(super) fn run(mut self, queue: &Receiver<Message>, write_behind: Duration) -> Result<(), StoreError> {
        let follow_every = self.backend.follow_every();
        let mut next_follow = follow_every.map(|interval| Instant::now() + interval);
        let mut next_write_behind = Instant::now() + write_behind;
        loop {
            let wake = next_follow.map_or(next_write_behind, |follow| follow.min(next_write_behind));
            let first = queue.recv_timeout(wake.saturating_duration_since(Instant::now()));
            let mut closing = matches!(first, Err(RecvTimeoutError::Disconnected));
            let mut requests = Vec::new();
            let mut refreshes = Refreshes::default();
            let mut texts = Vec::new();
            for message in first.into_iter().chain(queue.try_iter().take(QUEUE)) {
                match message {
                    Message::Request(request) => requests.push(request),
                    Message::Text(request) => texts.push(request),
                    Message::Refresh(look, answer) => {
                        refreshes.need_proof |= look == LedgerLook::Proved;
                        refreshes.waiting.push(answer);
                    }
                    Message::Announce(secrets) => self.backend.announce(secrets),
                    Message::Close => closing = true,
                }
            }
            let must_follow = next_follow.is_some_and(|follow| follow <= Instant::now());
            if must_follow || !requests.is_empty() || !refreshes.waiting.is_empty() {
                self.commit(requests, refreshes);
                next_follow = follow_every.map(|interval| Instant::now() + interval);
            }
            // Afterwards: what came before an erasure may have brought the text.
            texts.into_iter().for_each(|request| self.answer(request));
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

    /// Commits the requests, or only reads what other nodes appended; then answers.
    fn commit(&self, requests: Vec<WaitingRequest>, refreshes: Refreshes) {
        let mut batch = BindingBatch::new(&self.memory, requests);
        let begun = since_boot();
        let result = if batch.len() == 0 && !refreshes.need_proof {
            let followed = self.note(self.backend.follow(&mut batch));
            self.note_clock();
            followed
        } else {
            let started = Instant::now();
            let result = self.note(self.backend.commit(&mut batch));
            self.counts.syncs.observe(started.elapsed());
            result
        };
        if result.is_ok() {
            self.status().note_look(begun, self.backend.end());
        } else {
            self.counts.failures.fetch_add(batch.len() as u64, Ordering::Relaxed);
        }
        batch.complete(result.clone());
        for refresh in refreshes.waiting {
            // It may have left.
            let _ = refresh.send(result.clone());
        }
    }

    /// Reads or erases texts of orders. Who asked may have left.
    fn answer(&self, request: TextRequest) {
        let reason = |error: BackendError| error.message.into();
        match request {
            TextRequest::Find(names, answer) => {
                drop(answer.send(self.backend.find_texts(&names).map_err(reason)));
            }
            TextRequest::Erase(erasure, answer) => {
                drop(answer.send(self.backend.erase_texts(&erasure).map_err(reason)));
            }
            TextRequest::KeepCustomers(new, answer) => {
                drop(answer.send(self.backend.keep_customers(&new).map_err(reason)));
            }
            TextRequest::FindCustomers(numbers, answer) => {
                drop(answer.send(self.backend.find_customers(&numbers).map_err(reason)));
            }
            TextRequest::CustomerSearch(answer) => drop(answer.send(Ok(self.backend.customer_search()))),
            TextRequest::ForgetCustomers(numbers, answer) => {
                drop(answer.send(self.backend.forget_customers(&numbers).map_err(reason)));
            }
        }
    }

    /// Checks whether a failed disk works again, even if nobody binds.
    fn retry(&self) {
        let failing = self.status().is_failing();
        if failing {
            // The result is in the status; nobody waits for it.
            let _ = self.note(self.backend.probe());
        }
    }

    /// Writes the next part of what is waiting; whether there is more. Also detects a replaced store.
    fn write_behind(&mut self) -> bool {
        if let Err(error) = self.backend.look() {
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
        if self.backend.catch_up()? {
            return Ok(true);
        }
        while self.turn.shards > 0 && self.turn.records > 0 {
            let batch = self.reports.take(self.next_shard);
            self.next_shard = (self.next_shard + 1) % telemetry::SHARDS;
            self.turn.shards -= 1;
            if !batch.is_empty() {
                let records = batch.len();
                if let Err(error) = self.backend.write_reports(&batch) {
                    self.reports.put_back(batch);
                    self.turn = FlushBudget::NEW;
                    return Err(error);
                }
                self.turn.records = self.turn.records.saturating_sub(records);
                return Ok(true);
            }
        }
        self.turn = FlushBudget::NEW;
        self.backend.sync_index().map(|()| false)
    }

    /// Records whether the log can be written.
    fn note(&self, result: Result<(), BackendError>) -> Result<(), Arc<str>> {
        let failure = result.err().map(LedgerFailure::from);
        let news = self.status().note(failure.clone());
        let Some(LedgerFailure { state, reason }) = failure else {
            if news {
                tracing::info!("bindings can be written again");
            }
            return Ok(());
        };
        if news {
            tracing::error!(
                state = <&str>::from(state),
                reason = &*reason,
                "bindings cannot be written"
            );
        }
        Err(reason)
    }

    /// Records whether this machine's clock differs from the log's.
    fn note_clock(&self) {
        let mut status = self.status();
        let news = status.note_clock(self.backend.clock_lead());
        match status.clock_differs().map(StoreError::ClockDiffers) {
            Some(error) if news => tracing::error!(%error, "the clocks differ"),
            None if news => tracing::info!("the clocks agree again"),
            _ => {}
        }
    }

    fn status(&self) -> MutexGuard<'_, CommitStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&mut self) -> Result<(), StoreError> {
        self.turn = FlushBudget::LAST;
        while self.write_behind() {}
        let failure = match (self.backend.look(), self.status().index.failure.take()) {
            (Ok(()), None) => return Ok(()),
            (Ok(()), Some(reason)) => StoreError::NotIndexed(reason),
            (Err(error), _) => StoreError::NotDurable(error.message.into()),
        };
        match self.reports.waiting() {
            0 => {}
            lost => tracing::error!(lost, "reports of sites could not be written and are lost"),
        }
        Err(failure)
    }
}

impl<B> Drop for CommitWriter<B> {
    // Also if the thread panics: the store must not seem to work when it writes no more.
    fn drop(&mut self) {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.close();
    }
}
