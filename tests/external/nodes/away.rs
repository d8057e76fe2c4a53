//! The database is away while sites ask: bound ones are answered as fast as before, new ones are asked to come back, and all
//! is well soon after it is there again.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::database::prepared_cluster;
use super::node::{code, start};
use crate::support::http::Client;
use crate::support::instance::question;
use crate::support::server::updates;
use crate::support::{Instance, License, eventually};
use crate::tools::postgres::Cluster;

const NODES: usize = 2;

/// Threads that ask for bound sites: every other one asks a node whose database stays.
const BOUND: usize = 4;

/// Threads that ask for new sites.
const NEW: usize = 2;

/// Sites that are bound before.
const SITES: usize = 50;

/// How the database is away.
#[derive(Clone, Copy, Debug)]
enum Away {
    /// Nobody listens.
    Killed,
    /// Connections stay open, and nothing answers.
    Frozen,
}

/// When a question was asked, and how long its answer took.
type Asked = (Instant, Duration);

struct Load<'a> {
    license: &'a License,
    addresses: [SocketAddr; NODES],
    /// A node on another database, which is never away: what is slow there, too, is the machine.
    beside: SocketAddr,
    stop: AtomicBool,
    next: AtomicUsize,
    bound: Mutex<Vec<Asked>>,
    bound_beside: Mutex<Vec<Asked>>,
    /// For each new site, which node was asked, when it answered, and whether it bound it.
    new: Mutex<Vec<(usize, Instant, bool)>>,
}

impl Load<'_> {
    /// Asks for bound sites. Each gets its answer, whatever happens.
    fn ask_for_bound(&self, number: usize) {
        let is_beside = number % 2 == 1;
        let noted = if is_beside { &self.bound_beside } else { &self.bound };
        let mut client = Client::connect(match is_beside {
            true => self.beside,
            false => self.addresses[number / 2 % NODES],
        });
        for turn in 0.. {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let host = format!("bound-{}.com", (turn * BOUND + number) % SITES);
            let asked = Instant::now();
            let answer = match turn % 4 {
                0 => client.post_json("/api/v1/validate-license", &question(self.license, &host)),
                _ => client.request("GET", &updates("acme-forms", self.license, &host, ""), &[], b""),
            };
            let time = asked.elapsed();
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert!(turn % 4 != 0 || code(&answer) == "ok", "{}", answer.text());
            noted.lock().unwrap().push((asked, time));
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Asks for new sites. Each is bound or asked to come back.
    fn ask_for_new(&self, number: usize) {
        let at = number % NODES;
        let mut client = Client::connect(self.addresses[at]);
        while !self.stop.load(Ordering::Relaxed) {
            let host = format!("new-{}.com", self.next.fetch_add(1, Ordering::Relaxed));
            let answer = client.post_json("/api/v1/validate-license", &question(self.license, &host));
            let is_bound = match (answer.status, code(&answer).as_str()) {
                (200, "ok") => true,
                (503, "store_unavailable") => {
                    assert!(answer.header("retry-after").is_some());
                    false
                }
                _ => panic!("{}", answer.text()),
            };
            self.new.lock().unwrap().push((at, Instant::now(), is_bound));
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Whether every node has bound a new site since then.
    fn binds_since(&self, since: Instant) -> bool {
        let new = self.new.lock().unwrap();
        (0..NODES).all(|node| {
            new.iter()
                .any(|(at, told, is_bound)| *at == node && *told > since && *is_bound)
        })
    }
}

/// Of the sites that asked in this time: how many, and the 99th percentile of their times.
fn between(asked: &Mutex<Vec<Asked>>, from: Instant, to: Instant) -> (usize, Duration) {
    let all = asked.lock().unwrap();
    let in_time = all.iter().filter(|(asked, _)| (from..to).contains(asked));
    let mut times: Vec<_> = in_time.map(|(_, time)| *time).collect();
    times.sort();
    (times.len(), times[times.len() * 99 / 100])
}

/// Ends the load also where a check fails.
struct EndOf<'a>(&'a AtomicBool);

impl Drop for EndOf<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn take_away(cluster: &mut Cluster, how: Away) {
    match how {
        Away::Killed => cluster.kill(),
        Away::Frozen => cluster.freeze(),
    }
}

fn bring_back(cluster: &mut Cluster, how: Away) {
    match how {
        Away::Killed => cluster.restart(),
        Away::Frozen => cluster.thaw(),
    }
}

/// Takes the database away for some time in each of these ways. The 99th percentile may be twice that of a node whose
/// database stays, at the same time, and `slack` for noise.
fn away(ways: &[Away], time: Duration, slack: Duration) -> String {
    let mut cluster = prepared_cluster();
    let license = License::new();
    let instances = [(); NODES].map(|()| Instance::with_licenses(&[license.toml("sites = \"unlimited\"")]));
    let nodes = instances.each_ref().map(|own| start(own, &cluster.url("node")));
    let other = prepared_cluster();
    let own = Instance::with_licenses(&[license.toml("sites = \"unlimited\"")]);
    let beside = start(&own, &other.url("node"));
    for site in 0..SITES {
        let host = format!("bound-{site}.com");
        assert_eq!(code(&beside.validate(&license, &host)), "ok");
        assert_eq!(code(&nodes[0].validate(&license, &host)), "ok");
        eventually("the other knows it", || {
            nodes[1].updates(&license, &host, "").status == 200
        });
    }
    let load = Load {
        license: &license,
        addresses: nodes.each_ref().map(|node| node.address),
        beside: beside.address,
        stop: AtomicBool::new(false),
        next: AtomicUsize::new(0),
        bound: Mutex::default(),
        bound_beside: Mutex::default(),
        new: Mutex::default(),
    };
    let mut told = Vec::new();
    thread::scope(|scope| {
        for number in 0..BOUND {
            let load = &load;
            scope.spawn(move || load.ask_for_bound(number));
        }
        for number in 0..NEW {
            let load = &load;
            scope.spawn(move || load.ask_for_new(number));
        }
        let _end = EndOf(&load.stop);
        for how in ways {
            let begun = Instant::now();
            eventually("new sites are bound", || load.binds_since(begun));
            let gone = Instant::now();
            take_away(&mut cluster, *how);
            thread::sleep(time);
            let refused = load
                .new
                .lock()
                .unwrap()
                .last()
                .is_some_and(|(_, _, is_bound)| !is_bound);
            let end = Instant::now();
            bring_back(&mut cluster, *how);
            let back = Instant::now();
            eventually("new sites are bound again", || load.binds_since(back));
            let well = back.elapsed();
            assert!(refused, "a new site was bound without a database");
            let (answers, during) = between(&load.bound, gone, end);
            let (_, there) = between(&load.bound_beside, gone, end);
            assert!(
                during <= 2 * there + slack,
                "{how:?}: 99 % of the answers within {during:?}, and within {there:?} where the database is there"
            );
            told.push(format!(
                "{how:?} for {time:?}: all {answers} bound sites answered, p99 {during:?}, {there:?} where the database is \
                 there; new sites bound {well:?} after it was back"
            ));
        }
    });
    told.join("; ")
}

#[test]
fn while_the_database_is_away_bound_sites_notice_nothing() {
    // A busy machine makes noise. Whoever waited for the database would wait for two seconds and more.
    let slack = Duration::from_secs(1);
    eprintln!(
        "nodes: {}",
        away(&[Away::Killed, Away::Frozen], Duration::from_secs(10), slack)
    );
}

mod soak {
    use super::*;
    use crate::support::soak::timed;

    #[test]
    #[ignore = "takes long: make soak"]
    fn while_the_database_is_away_for_five_minutes_bound_sites_notice_nothing() {
        let slack = Duration::from_millis(10);
        timed("database away", || {
            away(&[Away::Killed, Away::Frozen], Duration::from_secs(300), slack)
        });
    }
}
