//! A failover loses nothing that was acknowledged, and a primary whose Patroni is frozen answers reads beside the new
//! one: what the tests of nodes take for granted.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::eventually;
use crate::tools::patroni::{Patroni, Replication};
use crate::tools::postgres::{Version, psql};

const WRITERS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn a_failover_loses_nothing_and_a_frozen_leader_is_replaced() {
    let mut patroni = Patroni::start(Replication::Strict);
    let started = Instant::now();
    let url = patroni.url("postgres");
    psql(Version::Debian, &url, "CREATE TABLE line (sequence bigint PRIMARY KEY)").unwrap();

    let acknowledged = Mutex::new(Vec::new());
    let next = AtomicU32::new(0);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let sequence = next.fetch_add(1, Ordering::Relaxed);
                    if psql(Version::Debian, &url, &format!("INSERT INTO line VALUES ({sequence})")).is_ok() {
                        acknowledged.lock().unwrap().push(sequence);
                    }
                }
            });
        }
        let wait_for_more = || {
            let enough = acknowledged.lock().unwrap().len() + 20;
            eventually("writes", PATIENCE, || acknowledged.lock().unwrap().len() >= enough);
        };
        wait_for_more();
        let killed = Instant::now();
        let old = patroni.kill_primary();
        eventually("another primary", PATIENCE, || {
            patroni.primary().is_some_and(|new| new != old)
        });
        wait_for_more();
        eprintln!(
            "nodes: writes again {:?} after kill -9 of the primary",
            killed.elapsed()
        );
        stop.store(true, Ordering::Relaxed);
    });
    let acknowledged = acknowledged.into_inner().unwrap();
    let lines = psql(Version::Debian, &url, "SELECT sequence FROM line").unwrap();
    let lines: Vec<u32> = lines.lines().map(|line| line.parse().unwrap()).collect();
    for sequence in &acknowledged {
        assert!(lines.contains(sequence), "{sequence} was acknowledged and is lost");
    }

    patroni.wait_for_sync_standby();
    let frozen = patroni.primary().unwrap();
    patroni.freeze(frozen);
    eventually("another primary", PATIENCE, || {
        patroni.primary().is_some_and(|new| new != frozen)
    });
    let new = patroni.primary().unwrap();
    // It has the lock before it takes writes.
    eventually("the new primary takes writes", PATIENCE, || {
        patroni
            .psql_of(new, "SELECT pg_is_in_recovery()")
            .is_ok_and(|answer| answer == "f")
    });
    assert_eq!(patroni.psql_of(frozen, "SELECT pg_is_in_recovery()").unwrap(), "f");
    patroni.psql_of(new, "INSERT INTO line VALUES (-1)").unwrap();
    let count = "SELECT count(*) FROM line WHERE sequence = -1";
    assert_eq!(patroni.psql_of(frozen, count).unwrap(), "0");
    patroni.thaw(frozen);
    eventually("the old primary follows the new one", PATIENCE, || {
        patroni.psql_of(frozen, count).is_ok_and(|count| count == "1")
    });
    eprintln!(
        "nodes: {} acknowledged, {:?} in all",
        acknowledged.len(),
        started.elapsed()
    );
}
