//! What the server counts of itself: requests by operation and outcome, their latency, and connections.
//!
//! Atomics found by their place, so that counting a request costs tens of nanoseconds. `openmetrics` shows them, with what
//! the other parts count of themselves.

pub mod label;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::histogram::Histogram;
use crate::serve::metrics::label::{Counters, Label, labels};
use crate::serve::reply::outcome::Code;

labels! {
    /// What a request asks for.
    Operation {
        /// A statement.
        Validate = "validate",
        /// A manifest.
        Updates = "updates",
        /// A public file, and everything that is no operation.
        Public = "public",
    }
}

labels! {
    /// Why a connection was closed before its first request.
    Refused {
        /// Its address holds all the connections it may.
        Address = "address",
        /// The client and we share no protocol, or it went away.
        Handshake = "handshake",
        /// The system gave no connection: mostly there are no file descriptors left.
        Accept = "accept",
    }
}

labels! {
    /// Which patience ended a connection.
    TimedOut {
        /// The TLS handshake took too long.
        Handshake = "handshake",
        /// A head took too long.
        Header = "header",
        /// No next request came.
        Idle = "idle",
        /// Nothing was taken of an answer.
        Write = "write",
    }
}

/// What is counted.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Requests.
    pub requests: Requests,
    /// Connections.
    pub connections: Arc<ConnectionCounts>,
}

/// Requests by operation and outcome.
#[derive(Debug, Default)]
pub struct Requests {
    operations: [RequestCounts; Operation::ALL.len()],
    abandoned: AtomicU64,
}

/// The requests of one operation.
#[derive(Debug, Default)]
pub struct RequestCounts {
    /// By outcome.
    pub outcomes: Counters<Code>,
    /// From the head to the answer.
    pub latency: Histogram,
}

impl Requests {
    /// Counts a request that got an answer, or a problem, after `latency`.
    pub fn count(&self, operation: Operation, latency: Duration, code: Code) {
        let counts = self.of(operation);
        counts.latency.observe(latency);
        counts.outcomes.add(code);
    }

    /// Counts a request that was refused before anybody looked at a clock.
    pub fn count_refused(&self, operation: Operation, code: Code) {
        self.of(operation).outcomes.add(code);
    }

    /// Counts a request as abandoned, unless it is told that there is an answer.
    pub fn expect_answer(&self) -> Unanswered<'_> {
        Unanswered(&self.abandoned)
    }

    /// Requests whose clients hung up before there was an answer.
    pub fn abandoned(&self) -> u64 {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// The counts of one operation.
    pub fn of(&self, operation: Operation) -> &RequestCounts {
        &self.operations[operation.place()]
    }
}

/// A request that has no answer yet. It is dropped with the rest of its connection when its client hangs up.
#[derive(Debug)]
pub struct Unanswered<'a>(&'a AtomicU64);

impl Unanswered<'_> {
    /// There is an answer, which is counted by its code.
    pub fn answered(self) {
        std::mem::forget(self);
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        // A panic has an answer.
        if !thread::panicking() {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Connections, from their opening to their end.
#[derive(Debug, Default)]
pub struct ConnectionCounts {
    accepted: AtomicU64,
    closed: AtomicU64,
    evicted: AtomicU64,
    /// Closed before their first request.
    pub refused: Counters<Refused>,
    /// Closed because of a slow client.
    pub timed_out: Counters<TimedOut>,
}

/// A connection that is open as long as this is held.
#[derive(Debug)]
pub struct OpenConnection(Arc<ConnectionCounts>);

impl ConnectionCounts {
    /// Counts a connection that is taken.
    pub fn open(self: &Arc<Self>) -> OpenConnection {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        OpenConnection(Arc::clone(self))
    }

    /// Counts a connection that was closed for another one.
    pub fn evict(&self) {
        self.evicted.fetch_add(1, Ordering::Relaxed);
    }

    /// How many were closed for others.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// How many were taken since the start.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// How many are open.
    pub fn open_now(&self) -> u64 {
        let closed = self.closed.load(Ordering::Relaxed);
        self.accepted().saturating_sub(closed)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.closed.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_counted_once_under_its_operation_and_outcome() {
        let requests = Requests::default();
        requests.count(Operation::Updates, Duration::ZERO, Code::Update);
        requests.count(Operation::Updates, Duration::ZERO, Code::RequestTimeout);
        let counted: Vec<_> = requests
            .of(Operation::Updates)
            .outcomes
            .all()
            .filter(|(_, count)| *count > 0)
            .collect();
        assert_eq!(counted, [(Code::Update, 1), (Code::RequestTimeout, 1)]);
        assert_eq!(requests.of(Operation::Updates).latency.read().count(), 2);
        assert!(
            requests
                .of(Operation::Validate)
                .outcomes
                .all()
                .all(|(_, count)| count == 0)
        );
    }

    #[test]
    fn a_request_whose_client_hangs_up_is_abandoned_and_one_with_an_answer_or_a_panic_is_not() {
        let requests = Requests::default();
        requests.expect_answer().answered();
        let panicked = std::panic::catch_unwind(|| {
            let _unanswered = requests.expect_answer();
            panic!("on purpose");
        });
        assert!(panicked.is_err());
        assert_eq!(requests.abandoned(), 0);
        drop(requests.expect_answer());
        assert_eq!(requests.abandoned(), 1);
    }

    #[test]
    fn a_connection_is_open_until_it_is_dropped() {
        let counts = Arc::new(ConnectionCounts::default());
        let held = [counts.open(), counts.open()];
        assert_eq!((counts.accepted(), counts.open_now()), (2, 2));
        drop(held);
        assert_eq!((counts.accepted(), counts.open_now()), (2, 0));
    }
}
