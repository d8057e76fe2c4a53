//! Counters of the server: requests by operation and outcome, their latency, connections, and reloads.
//!
//! Each label is an enum, so no client can add one, and memory is bounded. Counting is one atomic addition.
//! `openmetrics` shows the counters together with those of the other parts.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

use chrono::Utc;
use enum_map::{Enum, EnumMap};
use strum::{EnumIter, IntoStaticStr};

use crate::serve::health::Part;
use crate::serve::reply::outcome::Code;
use countersign_files::histogram::Histogram;

pub use prometheus_client::metrics::counter::Counter;

/// A counter for each value of a label.
pub type Counters<L> = EnumMap<L, Counter>;

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum, EnumIter, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Operation {
    /// A validation.
    Validate,
    /// A client that releases its site.
    Release,
    /// An update request.
    Updates,
    /// A site that may go back to an older release.
    Releases,
    /// A site that asks for security releases.
    SecurityUpdates,
    /// A package.
    Downloads,
    /// A package by the license key.
    Packages,
    /// A request of Composer.
    Composer,
    /// The page with first copies, or one of them.
    FirstCopies,
    /// The page to unsubscribe.
    Unsubscribe,
    /// The page to confirm that a site was installed again.
    SiteClaim,
    /// A page for customers.
    Account,
    /// A request of the management API.
    Licenses,
    /// A delivery of a shop.
    Hooks,
    /// A client of Easy Digital Downloads.
    Edd,
    /// A public file, or anything else.
    Public,
}

/// Why a connection was closed before its first request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Refused {
    /// Its address has too many connections.
    Address,
    /// The TLS handshake failed, or the client disconnected.
    Handshake,
    /// The system could not accept a connection, mostly because no file descriptors are left.
    Accept,
}

/// Which timeout closed a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum TimedOut {
    /// The TLS handshake took too long.
    Handshake,
    /// A request head took too long.
    Header,
    /// There was no next request.
    Idle,
    /// The client read nothing of a response.
    Write,
}

/// Whose copy a site says it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ReportedCopy {
    /// The one that it was given.
    Own,
    /// One of another license, site or a day to come.
    Moved,
    /// No key of this server made the build id.
    Unknown,
}

/// All counters.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Requests.
    pub requests: Requests,
    /// Connections.
    pub connections: Arc<ConnectionCounts>,
    /// Bytes of packages that were read to be sent.
    pub downloaded: Counter,
    /// Build ids in validations.
    pub reported_copies: Counters<ReportedCopy>,
}

/// Requests by operation and outcome.
#[derive(Debug, Default)]
pub struct Requests {
    operations: EnumMap<Operation, RequestCounts>,
    abandoned: Counter,
}

/// The requests of one operation.
#[derive(Debug, Default)]
pub struct RequestCounts {
    /// By outcome.
    pub outcomes: Counters<Code>,
    /// From the head to the response.
    pub latency: Histogram,
}

impl Requests {
    /// Counts a request that was answered after `latency`.
    pub fn count(&self, operation: Operation, latency: Duration, code: Code) {
        let counts = self.of(operation);
        counts.latency.observe(latency);
        counts.outcomes[code].inc();
    }

    /// Counts a request that was refused before its time was taken.
    pub fn count_refused(&self, operation: Operation, code: Code) {
        self.of(operation).outcomes[code].inc();
    }

    /// Counts a request as abandoned, unless it is marked as answered.
    pub fn expect_answer(&self) -> UnansweredRequest<'_> {
        UnansweredRequest(&self.abandoned)
    }

    /// Requests whose client disconnected before the answer.
    pub fn abandoned(&self) -> &Counter {
        &self.abandoned
    }

    /// The counters of one operation.
    pub fn of(&self, operation: Operation) -> &RequestCounts {
        &self.operations[operation]
    }
}

/// A request without an answer yet. It is dropped when the client disconnects.
#[derive(Debug)]
pub struct UnansweredRequest<'a>(&'a Counter);

impl UnansweredRequest<'_> {
    /// Marks the request as answered; the answer is counted by its code.
    pub fn answered(self) {
        std::mem::forget(self);
    }
}

impl Drop for UnansweredRequest<'_> {
    fn drop(&mut self) {
        // A panic is answered, too.
        if !thread::panicking() {
            self.0.inc();
        }
    }
}

/// Counters of connections.
#[derive(Debug, Default)]
pub struct ConnectionCounts {
    accepted: Counter,
    closed: Counter,
    evicted: Counter,
    /// Closed before their first request.
    pub refused: Counters<Refused>,
    /// Closed because of a slow client.
    pub timed_out: Counters<TimedOut>,
}

/// Counts a connection as open until it is dropped.
#[derive(Debug)]
pub struct OpenConnection(Arc<ConnectionCounts>);

impl ConnectionCounts {
    /// Counts an accepted connection.
    pub fn open(self: &Arc<Self>) -> OpenConnection {
        self.accepted.inc();
        OpenConnection(Arc::clone(self))
    }

    /// Counts a connection that was closed for a new client.
    pub fn evict(&self) {
        self.evicted.inc();
    }

    /// How many were closed for new clients.
    pub fn evicted(&self) -> &Counter {
        &self.evicted
    }

    /// How many were accepted since the start.
    pub fn accepted(&self) -> &Counter {
        &self.accepted
    }

    /// How many are open.
    pub fn open_now(&self) -> u64 {
        let closed = self.closed.get();
        self.accepted.get().saturating_sub(closed)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.closed.inc();
    }
}

/// Counters of a part's reloads.
#[derive(Debug, Default)]
pub struct Reloads {
    /// The new state is in force.
    pub done: Counters<Part>,
    /// The last good state stayed in force.
    pub failed: Counters<Part>,
    last: EnumMap<Part, AtomicI64>,
}

impl Reloads {
    /// When the state in force was loaded, in seconds since 1970; 0 if at the start.
    pub fn last(&self, part: Part) -> i64 {
        self.last[part].load(Ordering::Relaxed)
    }

    /// Counts a reload of a part, and records its time if it succeeded.
    pub(crate) fn count(&self, part: Part, done: bool) {
        if done {
            self.done[part].inc();
            self.last[part].store(Utc::now().timestamp(), Ordering::Relaxed);
        } else {
            self.failed[part].inc();
        }
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
            .iter()
            .map(|(code, count)| (code, count.get()))
            .filter(|(_, count)| *count > 0)
            .collect();
        assert_eq!(counted, [(Code::Update, 1), (Code::RequestTimeout, 1)]);
        assert_eq!(requests.of(Operation::Updates).latency.read().count(), 2);
        assert!(
            requests
                .of(Operation::Validate)
                .outcomes
                .values()
                .all(|count| count.get() == 0)
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
        assert_eq!(requests.abandoned().get(), 0);
        drop(requests.expect_answer());
        assert_eq!(requests.abandoned().get(), 1);
    }

    #[test]
    fn a_connection_is_open_until_it_is_dropped() {
        let counts = Arc::new(ConnectionCounts::default());
        let held = [counts.open(), counts.open()];
        assert_eq!((counts.accepted().get(), counts.open_now()), (2, 2));
        drop(held);
        assert_eq!((counts.accepted().get(), counts.open_now()), (2, 0));
    }
}
