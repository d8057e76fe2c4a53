//! How often a node waits for its database: each wait costs the way there and back.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::database::prepared_cluster;
use super::fault_proxy::{Fault, FaultProxy};
use super::node::{code, start};
use crate::support::http::Client;
use crate::support::instance::{Instance, License, question};

const VALIDATE: &str = "/api/v1/validate-license";

#[test]
fn a_binding_waits_for_the_database_twice() {
    const SITES: usize = 60;
    const WAY: Duration = Duration::from_millis(20);
    let license = License::new();
    let own = Instance::with_licenses(&[license.toml("sites = \"unlimited\"")]);
    let cluster = prepared_cluster();
    let proxy = FaultProxy::start(cluster.port);
    let node = start(&own, &proxy.url("node"));
    let mut client = Client::connect(node.address);
    let mut bind = |host: &str| {
        let answer = client.post_json(VALIDATE, &question(&license, host));
        assert_eq!(code(&answer), "ok", "{}", answer.text());
    };
    // It prepares its statements.
    bind("first.example");
    let begun = Instant::now();
    let before = (proxy.turns(), proxy.commits());
    (0..SITES).for_each(|number| bind(&format!("site-{number}.example")));
    let turns = proxy.turns() - before.0;
    let seconds = begun.elapsed().as_secs() as usize;
    // One more where reports are written meanwhile.
    assert!(proxy.commits() - before.1 >= SITES);
    proxy.set(Fault::Delay(WAY));
    let mut times: Vec<_> = (0..15)
        .map(|number| {
            let asked = Instant::now();
            bind(&format!("late-{number}.example"));
            asked.elapsed()
        })
        .collect();
    times.sort_unstable();
    proxy.set(Fault::Pass);
    let (commits, bindings) = under_load(&proxy, &license, &node);
    eprintln!(
        "nodes: {turns} round trips for {SITES} bindings; {:?} a binding where each way takes {WAY:?}; 16 writers: \
         {commits:.0} commits/s, {bindings:.0} bindings/s",
        times[times.len() / 2]
    );
    // It also looks at the head four times a second, says every few seconds that it runs, and writes reports.
    let others = 16 + seconds * 10;
    assert!(
        (2 * SITES..=2 * SITES + others).contains(&turns),
        "{turns} round trips for {SITES} bindings"
    );
}

/// Commits and bindings a second of 16 writers at one node.
fn under_load(proxy: &FaultProxy, license: &License, node: &crate::support::Server) -> (f64, f64) {
    let before = proxy.commits();
    let begun = Instant::now();
    let has_ended = AtomicBool::new(false);
    let bound = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let mut client = Client::connect(node.address);
                while !has_ended.load(Ordering::Relaxed) {
                    let host = format!("load-{}.example", bound.fetch_add(1, Ordering::Relaxed));
                    assert_eq!(code(&client.post_json(VALIDATE, &question(license, &host))), "ok");
                }
            });
        }
        thread::sleep(Duration::from_secs(3));
        has_ended.store(true, Ordering::Relaxed);
    });
    let seconds = begun.elapsed().as_secs_f64();
    let commits = (proxy.commits() - before) as f64 / seconds;
    (commits, bound.into_inner() as f64 / seconds)
}
