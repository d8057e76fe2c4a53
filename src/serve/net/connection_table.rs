//! The table of a listener's connections, up to a limit. If it is full, the connection that has been idle longest is
//! closed for a new client; if none is idle, the one whose head or handshake takes longest.
//!
//! `timeouts` updates the phase of each connection; `listener` asks for a slot before it serves a connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::serve::coarse_clock;
use crate::serve::metrics::ConnectionCounts;
use crate::serve::net::phase::Phase;

/// How long a connection may take to close for another one before the next one is closed, too.
const CLOSING: Duration = Duration::from_millis(50);

/// One scan of the table finds this fraction of it to close, so that not every new client needs a scan.
const FOUND_AT_ONCE: usize = 64;

/// The connections of a listener.
#[derive(Debug)]
pub(crate) struct ConnectionTable {
    permits: Arc<Semaphore>,
    entries: Mutex<TableEntries>,
    counts: Arc<ConnectionCounts>,
}

#[derive(Debug, Default)]
struct TableEntries {
    held: HashMap<u64, Arc<Phase>>,
    next: u64,
    /// Connections that waited when the table was last looked at, and since when; the one that waited longest is
    /// last.
    waiting: Vec<(Duration, u64)>,
    /// The same for heads and handshakes that take too long; used if no connection is idle.
    dawdling: Vec<(Duration, u64)>,
}

/// A slot in the table; free again when it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    table: Arc<ConnectionTable>,
    number: u64,
    _permit: Option<OwnedSemaphorePermit>,
}

impl ConnectionTable {
    /// An empty table for at most `connections`.
    pub(crate) fn new(connections: usize, counts: Arc<ConnectionCounts>) -> Arc<Self> {
        let permits = Arc::new(Semaphore::new(connections.min(Semaphore::MAX_PERMITS)));
        Arc::new(Self {
            permits,
            entries: Mutex::default(),
            counts,
        })
    }

    /// A slot for a connection in `phase`. If none is free, idle connections are closed; if none is idle, this waits.
    pub(crate) async fn place(self: &Arc<Self>, phase: Arc<Phase>) -> ConnectionSlot {
        let permit = loop {
            if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
                break Some(permit);
            }
            self.evict();
            // The semaphore is never closed.
            if let Ok(permit) = tokio::time::timeout(CLOSING, Arc::clone(&self.permits).acquire_owned()).await {
                break permit.ok();
            }
        };
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let number = entries.next;
        entries.next += 1;
        entries.held.insert(number, phase);
        ConnectionSlot {
            table: Arc::clone(self),
            number,
            _permit: permit,
        }
    }

    /// Closes the connection that has been idle longest, or else the one whose head or handshake takes longest.
    /// Returns whether there was one.
    pub(crate) fn evict(&self) -> bool {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let evicted = entries.evict() || {
            entries.look(coarse_clock::now());
            entries.evict() || entries.cut_off()
        };
        if evicted {
            self.counts.evict();
        }
        evicted
    }
}

impl TableEntries {
    /// Closes one of the connections found idle, if it has been idle since.
    fn evict(&mut self) -> bool {
        while let Some((since, number)) = self.waiting.pop() {
            if self
                .held
                .get(&number)
                .is_some_and(|phase| phase.waits_since() == Some(since) && phase.evict())
            {
                return true;
            }
        }
        false
    }

    /// The same for one whose head or handshake took too long.
    fn cut_off(&mut self) -> bool {
        while let Some((_, number)) = self.dawdling.pop() {
            if self.held.get(&number).is_some_and(|phase| phase.cut_off()) {
                return true;
            }
        }
        false
    }

    fn look(&mut self, now: Duration) {
        self.waiting = self.longest(super::phase::Phase::waits_since);
        if self.waiting.is_empty() {
            self.dawdling = self.longest(|phase| phase.dawdles_since(now));
        }
    }

    /// Of the connections with a time in `since`, the few with the earliest ones; the earliest is last.
    fn longest(&self, since: impl Fn(&Phase) -> Option<Duration>) -> Vec<(Duration, u64)> {
        let mut found: Vec<_> = self
            .held
            .iter()
            .filter_map(|(number, phase)| Some((since(phase)?, *number)))
            .collect();
        found.sort_unstable_by(|one, other| other.cmp(one));
        let few = (self.held.len() / FOUND_AT_ONCE).max(1);
        found.drain(..found.len().saturating_sub(few));
        found
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut entries = self.table.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.held.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(since: u64) -> Arc<Phase> {
        let phase = Phase::default();
        phase.wait_from(Duration::from_millis(since));
        Arc::new(phase)
    }

    fn table(connections: usize) -> Arc<ConnectionTable> {
        ConnectionTable::new(connections, Arc::default())
    }

    #[tokio::test]
    async fn they_are_closed_in_the_order_in_which_they_began_to_wait() {
        let table = table(300);
        let phases: Vec<_> = [5, 3, 9, 1]
            .map(waiting)
            .into_iter()
            .chain((10..206).map(waiting))
            .collect();
        let mut places = Vec::new();
        for phase in &phases {
            places.push(table.place(Arc::clone(phase)).await);
        }
        let mut closed = Vec::new();
        while table.evict() {
            let found: Vec<usize> = (0..phases.len()).filter(|&at| phases[at].is_evicted()).collect();
            closed.extend(found.into_iter().filter(|at| !closed.contains(at)).collect::<Vec<_>>());
        }
        let expected: Vec<usize> = [3, 1, 0, 2].into_iter().chain(4..200).collect();
        assert_eq!(closed, expected);
    }

    #[tokio::test]
    async fn what_was_found_waiting_and_works_now_is_not_closed() {
        let table = table(200);
        let phases: Vec<_> = (0..128).map(waiting).collect();
        let mut places = Vec::new();
        for phase in &phases {
            places.push(table.place(Arc::clone(phase)).await);
        }
        assert!(table.evict() && phases[0].is_evicted(), "this look found two");
        phases[1].busy();
        drop(places.remove(2));
        assert!(table.evict());
        assert!(!phases[1].is_evicted() && !phases[2].is_evicted() && phases[3].is_evicted());
    }

    #[tokio::test]
    async fn heads_that_take_long_go_where_nothing_waits_the_longest_first_and_new_ones_stay() {
        let table = table(100);
        let now = coarse_clock::now();
        let ago = |seconds: f64| now.saturating_sub(Duration::from_secs_f64(seconds));
        let phases: Vec<_> = [3.0, 9.0, 0.0].map(|_| Arc::new(Phase::default())).into();
        phases
            .iter()
            .zip([3.0, 9.0, 0.0])
            .for_each(|(phase, seconds)| phase.dawdle_from(ago(seconds)));
        let idle = waiting(ago(2.0).as_millis() as u64);
        let mut places = Vec::new();
        for phase in phases.iter().chain([&idle]) {
            places.push(table.place(Arc::clone(phase)).await);
        }
        assert!(table.evict() && idle.is_evicted() && !idle.is_cut_off());
        assert!(table.evict() && phases[1].is_cut_off() && !phases[0].is_evicted());
        assert!(table.evict() && phases[0].is_cut_off());
        assert!(
            !table.evict() && !phases[2].is_evicted(),
            "an honest head takes up to a second"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn where_all_work_a_newcomer_waits_and_where_one_begins_to_wait_it_goes() {
        let table = table(1);
        let working = Arc::new(Phase::default());
        working.busy();
        let place = table.place(Arc::clone(&working)).await;
        let newcomer = table.place(Arc::default());
        tokio::pin!(newcomer);
        assert!(
            tokio::time::timeout(Duration::from_secs(60), &mut newcomer)
                .await
                .is_err()
        );
        assert!(!working.is_evicted());
        working.wait_from(Duration::from_millis(1));
        assert!(
            tokio::time::timeout(Duration::from_secs(1), &mut newcomer)
                .await
                .is_err()
        );
        assert!(working.is_evicted());
        drop(place);
        newcomer.await;
    }
}
