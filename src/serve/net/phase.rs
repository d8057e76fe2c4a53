//! What a connection is doing: its service says so, its [stream](crate::serve::net::timeouts) acts on it, and the table of
//! [connections](crate::serve::net::connection_table) chooses by it whom to close for a new client.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use futures_util::task::AtomicWaker;

use crate::serve::coarse_clock;

/// What a connection is doing; its service says so, and its stream acts on it. One that waits for a request may be evicted.
#[derive(Debug, Default)]
pub struct Phase {
    step: AtomicU8,
    /// Since when it waits, in milliseconds of [`coarse_clock`].
    since: AtomicU64,
    /// The connection's task, which closes it when it was evicted.
    task: AtomicWaker,
}

/// It is being opened: a TLS handshake is under way.
pub(super) const OPENING: u8 = 0;
/// Its first head is awaited, and nothing of it has arrived.
pub(super) const NEW: u8 = 1;
/// A head is arriving.
pub(super) const HEAD: u8 = 2;
/// A request is being worked on; it has a deadline of its own.
pub(super) const BUSY: u8 = 3;
/// The last request is answered, and the answer is not yet sent.
pub(super) const ANSWERED: u8 = 4;
/// All of the answer was handed to the stream, and some of it may not be on its way.
pub(super) const HANDED_OVER: u8 = 5;
/// The next request is awaited.
pub(super) const IDLE: u8 = 6;
/// It is to be closed for another connection, unless a request arrives first.
pub(super) const EVICTED: u8 = 7;
/// The same in the middle of a handshake or a head: what else arrives of it does not keep it open.
pub(super) const CUT_OFF: u8 = 8;

/// A head or a handshake that takes no longer than this is not cut off for another connection: it crosses the world twice.
pub(super) const UNDISTURBED: Duration = Duration::from_secs(1);

impl Phase {
    /// The first byte of a head arrived.
    pub(super) fn head_begins(&self) {
        self.step.store(HEAD, Ordering::Relaxed);
    }

    /// What it is doing now: one of the steps above.
    pub(super) fn step(&self) -> u8 {
        self.step.load(Ordering::Relaxed)
    }

    /// The connection is open, and nothing has arrived.
    pub fn opened(&self) {
        self.begin_to_wait(NEW);
    }

    /// Something arrived before the first request: a TLS handshake.
    pub fn opening(&self) {
        self.step.store(OPENING, Ordering::Relaxed);
    }

    /// The head of a request was read. Where the connection was to be closed, it is not: the request came first.
    pub fn busy(&self) {
        self.step.store(BUSY, Ordering::Relaxed);
    }

    /// The request has its answer.
    pub fn answered(&self) {
        self.step.store(ANSWERED, Ordering::Relaxed);
    }

    /// The answer's last byte was taken from its body.
    pub(super) fn handed_over(&self) {
        self.change(ANSWERED, HANDED_OVER);
    }

    /// Everything that was handed to the stream is on its way.
    pub(super) fn flushed(&self) {
        if self.step.load(Ordering::Relaxed) == HANDED_OVER {
            self.begin_to_wait(IDLE);
        }
    }

    pub(super) fn begin_to_wait(&self, step: u8) {
        self.since
            .store(coarse_clock::now().as_millis() as u64, Ordering::Relaxed);
        self.step.store(step, Ordering::Release);
    }

    /// Since when it waits for a request of which nothing has arrived, by the coarse clock; `None` where it does not.
    pub fn waits_since(&self) -> Option<Duration> {
        let waits = matches!(self.step.load(Ordering::Acquire), NEW | IDLE);
        waits.then(|| Duration::from_millis(self.since.load(Ordering::Relaxed)))
    }

    /// Closes the connection, if it waits for a request. A request that arrives first is answered all the same.
    pub fn evict(&self) -> bool {
        let evicted = self.change(IDLE, EVICTED) || self.change(NEW, EVICTED);
        if evicted {
            self.task.wake();
        }
        evicted
    }

    /// Since when a handshake or a head has been arriving that takes longer than an honest one; `None` where none does.
    pub fn dawdles_since(&self, now: Duration) -> Option<Duration> {
        let arrives = matches!(self.step.load(Ordering::Acquire), OPENING | HEAD);
        let since = Duration::from_millis(self.since.load(Ordering::Relaxed));
        (arrives && now.saturating_sub(since) > UNDISTURBED).then_some(since)
    }

    /// Closes the connection in the middle of its handshake or head.
    pub fn cut_off(&self) -> bool {
        let cut_off = self.change(HEAD, CUT_OFF) || self.change(OPENING, CUT_OFF);
        if cut_off {
            self.task.wake();
        }
        cut_off
    }

    /// Whether it is to be closed for another connection.
    pub fn is_evicted(&self) -> bool {
        matches!(self.step.load(Ordering::Relaxed), EVICTED | CUT_OFF)
    }

    /// Whether it is to be closed without waiting for what has begun to arrive.
    pub fn is_cut_off(&self) -> bool {
        self.step.load(Ordering::Relaxed) == CUT_OFF
    }

    /// Wakes this task when the connection is evicted.
    pub fn wake_when_evicted(&self, task: &Waker) {
        self.task.register(task);
    }

    pub(super) fn change(&self, from: u8, to: u8) -> bool {
        self.step
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// It has waited since then.
    #[cfg(test)]
    pub fn wait_from(&self, since: Duration) {
        self.since.store(since.as_millis() as u64, Ordering::Relaxed);
        self.step.store(IDLE, Ordering::Relaxed);
    }

    /// A head has been arriving since then.
    #[cfg(test)]
    pub fn dawdle_from(&self, since: Duration) {
        self.since.store(since.as_millis() as u64, Ordering::Relaxed);
        self.step.store(HEAD, Ordering::Relaxed);
    }
}

/// Held by an answer's body: when it is dropped, all of the answer was handed to the stream.
#[derive(Debug)]
pub struct HandOver(pub Arc<Phase>);

impl Drop for HandOver {
    fn drop(&mut self) {
        self.0.handed_over();
    }
}
