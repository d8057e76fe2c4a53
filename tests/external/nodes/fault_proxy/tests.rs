//! The proxy with a real server behind it, and psql in front.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::{AtCommit, Fault, FaultProxy};
use crate::support::eventually;
use crate::tools::postgres::{Cluster, Version, psql, psql_command};

fn write(sequence: u32) -> String {
    format!("BEGIN; INSERT INTO line VALUES ({sequence}); COMMIT")
}

struct Scene {
    proxy: FaultProxy,
    cluster: Cluster,
}

impl Scene {
    fn new() -> Self {
        let cluster = Cluster::start();
        cluster.psql("CREATE TABLE line (sequence bigint)");
        Self {
            proxy: FaultProxy::start(cluster.port),
            cluster,
        }
    }

    fn ask(&self, sql: &str) -> Result<String, String> {
        psql(Version::Debian, &self.proxy.url("postgres"), sql)
    }

    /// A psql that may wait.
    fn spawn(&self, sql: &str) -> Child {
        let mut command = psql_command(Version::Debian, &self.proxy.url("postgres"), sql);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn lines(&self) -> String {
        self.cluster
            .psql("SELECT string_agg(sequence::text, ' ' ORDER BY sequence) FROM line")
    }
}

#[test]
fn the_proxy_passes_delays_and_refuses() {
    let scene = Scene::new();
    assert_eq!(scene.ask("SELECT repeat('a', 1000000)").unwrap().len(), 1_000_000);
    scene.ask(&write(1)).unwrap();
    assert_eq!(scene.proxy.commits(), 1);

    scene.proxy.set(Fault::Delay(Duration::from_millis(100)));
    let started = Instant::now();
    scene.ask("SELECT 1").unwrap();
    assert!(
        started.elapsed() >= Duration::from_millis(400),
        "{:?}",
        started.elapsed()
    );

    scene.proxy.set(Fault::Refuse);
    assert!(scene.ask("SELECT 1").unwrap_err().contains("closed the connection"));
    scene.proxy.set(Fault::Pass);
    assert_eq!(scene.ask("SELECT 1").unwrap(), "1");
}

#[test]
fn a_commit_is_cut_before_within_and_after_its_answer() {
    let scene = Scene::new();
    let order = [AtCommit::CutBefore, AtCommit::CutInAnswer, AtCommit::CutAfter];
    for (sequence, what) in (1..).zip(order) {
        scene.proxy.at_commit(2, what);
        scene.ask(&write(sequence * 10)).unwrap();
        assert!(scene.proxy.is_armed());
        let error = scene.ask(&write(sequence)).unwrap_err();
        assert!(error.contains("closed the connection"), "{error}");
        assert!(!scene.proxy.is_armed());
    }
    // What was cut within or after the answer is there.
    assert_eq!(scene.lines(), "2 3 10 20 30");
    // And the word alone is seen, as a driver sends it.
    scene.proxy.at_commit(1, AtCommit::CutBefore);
    assert!(scene.ask("commit ;").is_err());
    scene.proxy.at_commit(1, AtCommit::CutBefore);
    scene.ask("SELECT 'not a COMMIT'").unwrap();
    assert!(scene.proxy.is_armed());
}

#[test]
fn a_held_commit_is_done_and_only_its_client_waits() {
    let scene = Scene::new();
    scene.proxy.at_commit(1, AtCommit::Hold);
    let mut held = scene.spawn(&write(1));
    eventually("the commit is held", || !scene.proxy.is_armed());
    scene.ask(&write(2)).unwrap();
    assert_eq!(scene.lines(), "1 2");
    assert!(held.try_wait().unwrap().is_none());
    scene.proxy.cut();
    assert!(!held.wait().unwrap().success());
}

#[test]
fn what_is_sent_into_a_silence_arrives_after_it_and_so_does_an_end() {
    let scene = Scene::new();
    scene
        .cluster
        .psql("ALTER SYSTEM SET client_connection_check_interval = 10");
    scene.cluster.psql("SELECT pg_reload_conf()");
    // Two clients that wait: one by way of the proxy, one without it.
    let sleep = |name: &str| format!("SET application_name = '{name}'; SELECT pg_sleep(600)");
    let mut silent = scene.spawn(&sleep("silent"));
    let mut direct = psql_command(Version::Debian, &scene.cluster.url("postgres"), &sleep("direct"));
    let mut direct = direct.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let sleepers = || {
        scene.cluster.psql(
            "SELECT string_agg(application_name, ' ' ORDER BY application_name) FROM pg_stat_activity \
             WHERE wait_event = 'PgSleep'",
        )
    };
    eventually("both wait", || sleepers() == "direct silent");

    scene.proxy.set(Fault::Silence);
    let mut late = scene.spawn(&write(1));
    for client in [&mut silent, &mut direct] {
        client.kill().unwrap();
        client.wait().unwrap();
    }
    eventually("the server notices the end of the direct one", || {
        sleepers() != "direct silent"
    });
    assert_eq!(sleepers(), "silent");
    // A client that asks later and directly is done before.
    for sequence in 2..5 {
        scene.cluster.psql(&write(sequence));
    }
    assert_eq!(scene.lines(), "2 3 4");
    assert!(late.try_wait().unwrap().is_none());

    scene.proxy.set(Fault::Pass);
    assert!(late.wait().unwrap().success());
    assert_eq!(scene.lines(), "1 2 3 4");
    eventually("the server notices the end of the other one", || sleepers().is_empty());
}
