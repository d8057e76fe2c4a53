//! Nodes that are killed, and connections that break at a COMMIT: no seat is given twice, and none is lost.

use std::thread;
use std::time::{Duration, Instant};

use super::database::prepared_cluster;
use super::fault_proxy::{AtCommit, FaultProxy};
use super::linear::Histories;
use super::node::Node;
use crate::support::eventually;
use crate::support::random::Random;

const NODES: usize = 3;
/// Licenses in each round.
const LICENSES: usize = 6;

/// Each round has one fault at a node, while clients bind.
fn rounds(rounds: usize) -> String {
    let started = Instant::now();
    // A connection that is held keeps its node from looking for 5 s.
    let histories = Histories::new(rounds * LICENSES).with_age(Duration::from_secs(12));
    let cluster = prepared_cluster();
    let proxies: Vec<_> = (0..NODES).map(|_| FaultProxy::start(cluster.port)).collect();
    let tables = histories.tables();
    let nodes: Vec<_> = proxies
        .iter()
        .map(|proxy| Node::start(&tables, proxy.url("node")))
        .collect();
    let mut random = Random::new(4);
    let mut kills = 0;
    let mut broken = 0;
    for round in 0..rounds {
        let at = random.below(NODES);
        let begun = histories.time();
        let at_commit = match round % 10 {
            1 => Some(AtCommit::CutBefore),
            3 | 7 => Some(AtCommit::CutAfter),
            5 => Some(AtCommit::CutInAnswer),
            9 => Some(AtCommit::Hold),
            _ => None,
        };
        if let Some(what) = at_commit {
            proxies[at].at_commit(1 + random.below(5), what);
        }
        let when = begun + 50 + random.below(300) as u64;
        let first = round * LICENSES;
        thread::scope(|scope| {
            scope.spawn(|| histories.record(&nodes, first..first + LICENSES));
            if at_commit.is_none() {
                eventually("questions", || histories.time() >= when);
                nodes[at].kill();
                kills += 1;
            }
        });
        if at_commit.is_none() {
            nodes[at].restart();
        } else if !proxies[at].is_armed() {
            broken += 1;
        }
    }
    let unknown = histories.check(&cluster);
    assert!(kills >= rounds / 4 && broken >= rounds / 4, "{kills}, {broken}");
    assert!(unknown > 0, "no fault hit a question");
    format!(
        "{kills} kills, {broken} broken commits, {unknown} questions without an answer, in {:?}",
        started.elapsed()
    )
}

#[test]
fn killed_nodes_and_broken_commits_give_no_seat_twice_and_lose_none() {
    eprintln!("nodes: {}", rounds(20));
}

mod soak {
    use super::*;
    use crate::support::soak::timed;

    #[test]
    #[ignore = "takes long: make soak"]
    fn five_hundred_killed_nodes_and_broken_commits_give_no_seat_twice_and_lose_none() {
        timed("killed nodes", || rounds(500));
    }
}
