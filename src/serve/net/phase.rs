//! The phase of a connection. Its service sets it, its [stream](crate::serve::net::timeouts) enforces time limits by
//! it, and the [connection table](crate::serve::net::connection_table) chooses by it which connection to close for a
//! new client.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use futures_util::task::AtomicWaker;

use crate::serve::coarse_clock;

/// The phase of a connection. An idle connection may be evicted.
#[derive(Debug, Default)]
pub struct Phase {
    step: AtomicU8,
    /// Since when it is idle, in milliseconds of [`coarse_clock`].
    since: AtomicU64,
    /// The connection's task, which closes it when it is evicted.
    task: AtomicWaker,
}

/// It is being opened: the TLS handshake is running.
pub(super) const OPENING: u8 = 0;
/// Waiting for the first byte of the first head.
pub(super) const NEW: u8 = 1;
/// A head is arriving.
pub(super) const HEAD: u8 = 2;
/// A request is being answered, with a deadline of its own.
pub(super) const BUSY: u8 = 3;
/// The last request is answered, but its response is not sent yet.
pub(super) const ANSWERED: u8 = 4;
/// The stream has the whole response, but may not have sent it.
pub(super) const HANDED_OVER: u8 = 5;
/// Waiting for the next request.
pub(super) const IDLE: u8 = 6;
/// To be closed for another connection, unless a request arrives first.
pub(super) const EVICTED: u8 = 7;
/// The same during a handshake or head: more bytes do not save it.
pub(super) const CUT_OFF: u8 = 8;

/// A head or handshake is not interrupted before this time, which is enough for two round trips around the world.
pub(super) const UNDISTURBED: Duration = Duration::from_secs(1);

impl Phase {
    /// The first byte of a head arrived.
    pub(super) fn head_begins(&self) {
        self.step.store(HEAD, Ordering::Relaxed);
    }

    /// The current phase: one of the constants above.
    pub(super) fn step(&self) -> u8 {
        self.step.load(Ordering::Relaxed)
    }

    /// The connection is open; nothing has arrived.
    pub fn opened(&self) {
        self.begin_to_wait(NEW);
    }

    /// Something arrived before the first request: a TLS handshake.
    pub fn opening(&self) {
        self.step.store(OPENING, Ordering::Relaxed);
    }

    /// The head of a request was read. If the connection was to be closed, it stays: the request came first.
    pub fn busy(&self) {
        self.step.store(BUSY, Ordering::Relaxed);
    }

    /// The request was answered.
    pub fn answered(&self) {
        self.step.store(ANSWERED, Ordering::Relaxed);
    }

    /// The last byte of the response was taken from its body.
    pub(super) fn handed_over(&self) {
        self.change(ANSWERED, HANDED_OVER);
    }

    /// Everything the stream got was sent.
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

    /// Since when it is idle, by the coarse clock; `None` if it is not.
    pub fn waits_since(&self) -> Option<Duration> {
        let waits = matches!(self.step.load(Ordering::Acquire), NEW | IDLE);
        waits.then(|| Duration::from_millis(self.since.load(Ordering::Relaxed)))
    }

    /// Closes the connection if it is idle. A request that arrives first is still answered.
    pub fn evict(&self) -> bool {
        let evicted = self.change(IDLE, EVICTED) || self.change(NEW, EVICTED);
        if evicted {
            self.task.wake();
        }
        evicted
    }

    /// Since when a handshake or head has been arriving, if it takes too long.
    pub fn dawdles_since(&self, now: Duration) -> Option<Duration> {
        let arrives = matches!(self.step.load(Ordering::Acquire), OPENING | HEAD);
        let since = Duration::from_millis(self.since.load(Ordering::Relaxed));
        (arrives && now.saturating_sub(since) > UNDISTURBED).then_some(since)
    }

    /// Closes the connection during its handshake or head.
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

    /// Whether it is to be closed even if a request has begun to arrive.
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

    /// It has been idle since then.
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

/// Held by a response's body: when it is dropped, the stream has the whole response.
#[derive(Debug)]
pub struct HandOver(pub Arc<Phase>);

impl Drop for HandOver {
    fn drop(&mut self) {
        self.0.handed_over();
    }
}
