//! Nodes that stop in the middle of their work and go on later, as on a machine that was paused or slept: nobody waits for
//! them for long, and what they answer afterwards is not of before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use chrono::Utc;
use countersign_ledger::{BindOutcome, ChangeBasis, ChangeOutcome, Ledger, LedgerChange, SeatRequest};
use countersign_model::license::{LicenseDetails, LicenseStatus};
use futures_util::future::join_all;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use super::client::Client;
use super::database::prepared_cluster;
use super::linear::Histories;
use super::node::{Node, code, instance, start};
use crate::support::eventually;
use crate::support::http::Client as Connection;
use crate::support::instance::{License, question};
use crate::support::issued::issue;
use crate::support::server::updates;
use crate::tools::postgres::Cluster;

/// Licenses to bind. Those that are left in the end are bound after all.
const LICENSES: usize = 6_000;

/// Who asks the node that is frozen.
const WRITERS: usize = 4;

/// The longest that the other nodes may wait: 2 s for the timeout of an idle transaction, and their own work on a busy machine.
/// Without the timeout they would wait until the frozen node goes on, which the test lets it do only after them.
const BLOCKED: Duration = Duration::from_secs(30);

/// Whether a transaction has locked the head, and its node has done nothing for a tenth of a second.
fn is_held_idle(cluster: &Cluster) -> bool {
    let held = cluster.psql(
        "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) \
         WHERE relation = 'countersign.head'::regclass AND mode = 'RowShareLock' AND granted \
         AND state = 'idle in transaction' AND state_change < clock_timestamp() - interval '100 ms'",
    );
    held != "0"
}

#[test]
fn a_node_that_freezes_with_the_ledger_locked_blocks_others_until_it_times_out_and_gives_no_seat_twice() {
    let histories = Histories::new(LICENSES);
    let cluster = prepared_cluster();
    let tables = histories.tables();
    let nodes = [(); 3].map(|()| Node::start(&tables, cluster.url("node")));
    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let answered_after = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                let mut client = Client::new(&nodes, 0);
                while !stop.load(Ordering::Relaxed) {
                    let license = next.fetch_add(1, Ordering::Relaxed);
                    let is_known = histories.ask(&mut client, license, "early.com");
                    answered_after.fetch_add(usize::from(is_known && stop.load(Ordering::Relaxed)), Ordering::Relaxed);
                    client.at = 0;
                }
            });
        }
        eventually("it is frozen with the head locked", || {
            nodes[0].freeze();
            thread::sleep(Duration::from_millis(120));
            let holds = is_held_idle(&cluster);
            if !holds {
                nodes[0].thaw();
            }
            holds
        });
        let frozen = Instant::now();
        stop.store(true, Ordering::Relaxed);
        let taken = next.load(Ordering::Relaxed);
        assert!(taken + WRITERS < LICENSES, "{taken}");
        // The seats that it was about to give away, and others.
        let wanted: Vec<_> = (taken.saturating_sub(2 * WRITERS)..taken + WRITERS).collect();
        thread::scope(|scope| {
            for (number, license) in wanted.iter().enumerate() {
                let ask = |at: usize, host: &'static str| {
                    scope.spawn({
                        let histories = &histories;
                        let nodes = &nodes;
                        move || histories.ask(&mut Client::new(nodes, at), *license, host)
                    })
                };
                let one = ask(1 + number % 2, "late.com");
                let other = ask(1 + (number + 1) % 2, "later.com");
                assert!(
                    one.join().unwrap() && other.join().unwrap(),
                    "license {license}: no answer"
                );
            }
            let waited = frozen.elapsed();
            eprintln!("nodes: others waited {waited:?} for a node that froze with the ledger locked");
            assert!(waited < BLOCKED, "{waited:?}");
        });
        nodes[0].thaw();
    });
    // Its own questions are decided again on a new connection.
    assert!(
        answered_after.into_inner() > 0,
        "no question was decided after the freeze"
    );
    let well = "countersign_ledger_state{state=\"ok\"}";
    eventually("it is well again", || nodes[0].metric(well) == Some(1.0));
    let mut client = Client::new(&nodes, 0);
    assert!(histories.ask(&mut client, LICENSES - 1, "again.com"));
    histories.check(&cluster);
}

/// Another node, without a process of its own.
pub struct Other {
    store: Arc<Ledger>,
    runtime: Runtime,
    _folder: TempDir,
}

impl Other {
    pub fn start(address: &str) -> Self {
        let folder = TempDir::new().unwrap();
        Self {
            store: countersign_ledger::open_shared(address, folder.path(), false).unwrap(),
            runtime: Builder::new_current_thread().build().unwrap(),
            _folder: folder,
        }
    }

    pub fn change(&self, change: LedgerChange) {
        let outcome = self.runtime.block_on(self.store.change_license(change)).unwrap();
        assert!(matches!(outcome, ChangeOutcome::Recorded(_)), "{outcome:?}");
    }

    /// Binds sites.
    pub fn bind(&self, license: &LedgerChange, hosts: impl IntoIterator<Item = impl AsRef<str>>) {
        let hosts: Vec<_> = hosts.into_iter().map(|host| host.as_ref().parse().unwrap()).collect();
        for hosts in hosts.chunks(500) {
            let asked = hosts
                .iter()
                .map(|host| self.store.bind(SeatRequest::new(&license.license, host, Utc::now())));
            // They share a commit.
            for outcome in self.runtime.block_on(join_all(asked)) {
                assert_eq!(outcome.unwrap(), BindOutcome::Bound);
            }
        }
    }
}

#[test]
fn the_first_answers_after_a_sleep_are_not_of_before_it() {
    let cluster = prepared_cluster();
    let many = License::new();
    let suspended = License::new();
    let released = License::new();
    let own = instance(&[&License::new()]);
    let node = start(&own, &cluster.url("node"));
    let other = Other::start(&cluster.url("node"));
    let mut unlimited = issue(&many);
    unlimited.license.sites = countersign_model::license::SiteLimit::Unlimited;
    other.change(unlimited.clone());
    for license in [&suspended, &released] {
        other.change(issue(license));
        eventually("the site is bound", || code(&node.validate(license, "a.com")) == "ok");
        assert_eq!(node.updates(license, "a.com", "").status, 200);
    }

    node.signal("STOP");
    let asleep = Instant::now();
    other.bind(&unlimited, (0..5_000).map(|site| format!("site-{site}.com")));
    let changed = |license: &License| LedgerChange {
        basis: ChangeBasis::Revision(1),
        ..issue(license)
    };
    let mut suspend = changed(&suspended);
    suspend.license.status = LicenseStatus::Suspended;
    other.change(suspend);
    let mut release = changed(&released);
    let mut details = LicenseDetails::default();
    details.released.hosts.insert("a.com".parse().unwrap(), Utc::now());
    release.license.details = details.into();
    other.change(release);

    // These wait for the node in their connections. They are the first that it sees.
    let waiting = [
        (
            "POST",
            "/api/v1/validate-license".to_owned(),
            question(&suspended, "a.com").to_string(),
        ),
        ("GET", updates("acme-forms", &suspended, "a.com", ""), String::new()),
        ("GET", updates("acme-forms", &released, "a.com", ""), String::new()),
    ];
    let mut waiting = waiting.map(|(method, target, body)| {
        let mut connection = Connection::connect(node.address);
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        connection.send((head + &body).as_bytes()).unwrap();
        connection
    });
    thread::sleep(Duration::from_secs(3).saturating_sub(asleep.elapsed()));
    node.signal("CONT");
    let woken = Instant::now();
    let codes = waiting
        .each_mut()
        .map(|connection| connection.receive().unwrap().code());
    assert_eq!(codes, ["suspended", "license_suspended", "license_not_bound"]);
    // Also on a busy machine, long before the deadline of a request, 10 s.
    assert!(woken.elapsed() < Duration::from_secs(8), "{:?}", woken.elapsed());
    assert_eq!(node.part("store")["state"], "ok");

    // The same where the database has ended the connections of who slept.
    node.signal("STOP");
    cluster.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'node'");
    eventually("another node is well again", || other.store.health().state.is_ok());
    let mut resume = changed(&suspended);
    resume.basis = ChangeBasis::Revision(2);
    other.change(resume);
    let mut connection = Connection::connect(node.address);
    let body = question(&suspended, "a.com").to_string();
    let head = format!(
        "POST /api/v1/validate-license HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    connection.send((head + &body).as_bytes()).unwrap();
    thread::sleep(Duration::from_millis(1_500));
    node.signal("CONT");
    assert_eq!(connection.receive().unwrap().code(), "ok");
    assert_eq!(node.part("store")["state"], "ok");
}
