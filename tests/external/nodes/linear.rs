//! Bindings over several nodes are linearizable, also where sites give seats back: a single list of hosts could have given
//! the same answers.
//! What one node bound, every node knows.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::client::Client;
use super::database::{lines, prepared_cluster};
use super::node::Node;
use crate::support::License;
use crate::support::linear::clock::Clock;
use crate::support::linear::releases::{self, Change, Rules, changes, is_open};
use crate::support::linear::wgl::is_linearizable;
use crate::support::linear::{Event, What, check};
use crate::support::random::Random;
use crate::tools::postgres::Cluster;

const NODES: usize = 3;
const CLIENTS: usize = 64;
/// These ask twice. Of every eighth license only they ask, so that the other checker can check its history, too.
const FEW: usize = 24;
pub const HOSTS: usize = 16;
const SITES: [usize; 3] = [1, 2, 5];

/// How often a license may move in 30 days (`site_moves`).
const MOVES: usize = 5;

/// A node looks at the log four times a second. It may have to wait for a processor.
const LOOK: Duration = Duration::from_secs(2);

/// Licenses that clients bind at the same time, and the history of each.
pub struct Histories {
    pub licenses: Vec<License>,
    /// How many questions and answers there were.
    count: AtomicU64,
    clock: Clock,
    /// How old a yes may be.
    age: Duration,
    events: Vec<Mutex<Vec<Event>>>,
}

impl Histories {
    pub fn new(licenses: usize) -> Self {
        Self {
            licenses: (0..licenses).map(|_| License::new()).collect(),
            count: AtomicU64::new(0),
            clock: Clock::start(),
            age: LOOK,
            events: (0..licenses).map(|_| Mutex::default()).collect(),
        }
    }

    /// Where connections to the database break, so that a node looks at the log less often.
    pub fn with_age(self, age: Duration) -> Self {
        Self { age, ..self }
    }

    /// The tables for the registry.
    pub fn tables(&self) -> Vec<String> {
        let table = |(index, license): (usize, &License)| license.toml(&format!("sites = {}", SITES[index % 3]));
        self.licenses.iter().enumerate().map(table).collect()
    }

    /// How many questions and answers there were.
    pub fn time(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// Lets all clients ask for one license after the other. Of every fourth license, sites also leave.
    pub fn record(&self, nodes: &[Node], licenses: std::ops::Range<usize>) {
        let barrier = Barrier::new(CLIENTS);
        thread::scope(|scope| {
            for number in 0..CLIENTS {
                let licenses = licenses.clone();
                let barrier = &barrier;
                scope.spawn(move || {
                    let mut client = Client::new(nodes, number);
                    let mut random = Random::new((licenses.start * CLIENTS + number) as u64 + 1);
                    for license in licenses {
                        barrier.wait();
                        let host = || format!("site-{}.com", random.below(HOSTS));
                        // The others ask once.
                        let is_among_few = number < FEW;
                        let times = if is_among_few { 2 } else { usize::from(license % 8 != 0) };
                        for host in std::iter::repeat_with(host).take(times) {
                            self.ask(&mut client, license, &host);
                        }
                        if is_among_few && license % 4 == 3 {
                            let host = format!("site-{}.com", random.below(HOSTS));
                            self.leave(&mut client, license, &host);
                            self.ask(&mut client, license, &host);
                        }
                    }
                });
            }
        });
    }

    /// Asks for a seat, and notes what came. Says whether anything came.
    pub fn ask(&self, client: &mut Client<'_>, license: usize, host: &str) -> bool {
        let what = self.note(license, |granted| client.bind_guarded(granted, host));
        !matches!(what, What::Unknown(_))
    }

    /// Gives the seat of a host back, and notes what came.
    fn leave(&self, client: &mut Client<'_>, license: usize, host: &str) {
        self.note(license, |granted| client.release(granted, host));
    }

    fn note(&self, license: usize, ask: impl FnOnce(&License) -> What) -> What {
        self.count.fetch_add(1, Ordering::SeqCst);
        let asked = self.clock.now();
        let what = ask(&self.licenses[license]);
        let answered = self.clock.now();
        self.count.fetch_add(1, Ordering::SeqCst);
        let mut events = self.events[license].lock().unwrap();
        events.push(Event {
            asked,
            answered,
            what: what.clone(),
        });
        what
    }

    /// Fails unless every history is possible. Returns how many questions had no answer.
    pub fn check(&self, cluster: &Cluster) -> usize {
        let mut changes = changes(lines(|sql| cluster.psql(sql)).lines());
        let mut unknown = 0;
        let mut moves = 0;
        for (index, license) in self.licenses.iter().enumerate() {
            let changes = changes.remove(&license.id).unwrap_or_default();
            let history = self.events[index].lock().unwrap();
            let sites = SITES[index % 3];
            unknown += history.iter().filter(|event| is_open(&event.what)).count();
            if history.iter().any(|event| asks_to_leave(&event.what)) {
                let rules = Rules {
                    sites,
                    most_moves: MOVES,
                    age: self.age.as_nanos() as u64,
                };
                releases::check(rules, &changes, &history).unwrap_or_else(|error| {
                    panic!("license {index}, {rules:?}: {error}: {changes:?}, {:#?}", *history)
                });
                moves += changes
                    .iter()
                    .filter(|change| matches!(change, Change::Released(..)))
                    .count();
                continue;
            }
            let list: Vec<_> = changes.iter().map(first_binding).collect();
            check(sites, &list, &history)
                .unwrap_or_else(|error| panic!("license {index}, {sites} sites: {error}: {list:?}, {:#?}", *history));
            // The other checker tries orders: with more seats, clients or open questions there are too many.
            if sites < 5 && history.len() <= 2 * FEW && !history.iter().any(|event| is_open(&event.what)) {
                assert!(
                    is_linearizable(sites, &list, &history),
                    "license {index}, {sites} sites: {list:?}, {:#?}",
                    *history
                );
            }
        }
        if moves > 0 {
            eprintln!(
                "nodes: {} histories, with {moves} seats that were given back",
                self.licenses.len()
            );
        }
        unknown
    }
}

/// The host of a license whose sites never leave.
fn first_binding(change: &Change) -> String {
    match change {
        Change::Bound(host, _) => host.clone(),
        Change::Released(host, ..) => panic!("{host} was released, and nobody asked for it"),
    }
}

/// Whether a host asked to leave.
fn asks_to_leave(what: &What) -> bool {
    matches!(
        what,
        What::Released(_) | What::NotBound(_) | What::TooManyMoves(_) | What::UnknownRelease(_)
    )
}

/// A database, and nodes on it.
fn start(licenses: &[String]) -> (Cluster, Vec<Node>) {
    let cluster = prepared_cluster();
    let nodes = (0..NODES).map(|_| Node::start(licenses, cluster.url("node"))).collect();
    (cluster, nodes)
}

fn bindings_are_linearizable(histories: usize) -> String {
    let started = Instant::now();
    let recorded = Histories::new(histories);
    let (cluster, nodes) = start(&recorded.tables());
    recorded.record(&nodes, 0..histories);
    let asked = started.elapsed();
    assert_eq!(recorded.check(&cluster), 0, "questions without an answer");
    format!(
        "{histories} histories of {CLIENTS} clients at {NODES} nodes in {asked:?}, checked after {:?}",
        started.elapsed()
    )
}

#[test]
fn bindings_over_three_nodes_are_linearizable() {
    eprintln!("nodes: {}", bindings_are_linearizable(400));
}

/// Binds new sites on one node and asks another for updates at once, for some time or up to a number of sites.
fn every_node_knows(sites: usize, time: Duration) -> String {
    let license = License::new();
    let (_cluster, nodes) = start(&[license.toml("sites = \"unlimited\"")]);
    let next = AtomicUsize::new(0);
    let known = AtomicUsize::new(0);
    let started = Instant::now();
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let nodes = &nodes;
            let license = &license;
            let next = &next;
            let known = &known;
            scope.spawn(move || {
                let mut writer = Client::new(nodes, number);
                let mut reader = Client::new(nodes, number + 1);
                while started.elapsed() < time {
                    let site = next.fetch_add(1, Ordering::Relaxed);
                    if site >= sites {
                        return;
                    }
                    let host = format!("site-{site}.com");
                    assert!(matches!(writer.bind(license, &host), What::Bound(_)), "{host}");
                    reader.update(license, &host).unwrap();
                    known.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let known = known.into_inner();
    assert!(known > 100, "{known}");
    format!(
        "{known} of {known} sites known to another node at once, in {:?}",
        started.elapsed()
    )
}

#[test]
fn what_one_node_bound_another_knows_at_once() {
    eprintln!("nodes: {}", every_node_knows(2_000, Duration::from_secs(15)));
}

mod soak {
    use super::*;
    use crate::support::soak::timed;

    #[test]
    #[ignore = "takes long: make soak"]
    fn bindings_over_three_nodes_are_linearizable_ten_thousand_times() {
        timed("linearizability over nodes", || bindings_are_linearizable(10_000));
    }

    #[test]
    #[ignore = "takes long: make soak"]
    fn what_one_node_bound_another_knows_at_once_ten_thousand_times() {
        timed("read after write", || every_node_knows(10_000, Duration::MAX));
    }
}
