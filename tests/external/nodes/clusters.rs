//! The servers that the tests of nodes stand on do what those tests take for granted.

use crate::support::eventually;
use crate::tools::daemon::family;
use crate::tools::postgres::pgbouncer::{Pgbouncer, PoolMode};
use crate::tools::postgres::{Cluster, Version, psql};

#[test]
fn a_cluster_survives_a_stop_and_a_kill_and_leaves_nothing_behind() {
    let mut cluster = Cluster::start();
    cluster.psql("CREATE TABLE line (sequence bigint PRIMARY KEY)");
    cluster.psql("INSERT INTO line VALUES (1)");
    cluster.stop();
    assert!(cluster.try_psql("postgres", "SELECT 1").is_err());
    cluster.restart();
    cluster.psql("INSERT INTO line VALUES (2)");
    // A server that answers may still be starting its other processes.
    eventually("its processes are there", || family(cluster.pid()).len() > 3);
    let before = family(cluster.pid());
    cluster.kill();
    eventually("all its processes end", || running(&before) == 0);
    cluster.restart();
    assert_eq!(cluster.psql("SELECT sequence FROM line ORDER BY 1"), "1\n2");
    eventually("the log says it was killed", || {
        cluster.log().contains("was not properly shut down")
    });

    let of_last = family(cluster.pid());
    let data = cluster.data();
    // A test that fails ends it, too.
    let failed = std::thread::spawn(move || {
        let _cluster = cluster;
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(failed.join().is_err());
    eventually("all its processes end", || running(&of_last) == 0);
    eventually("its folder is gone", || !data.exists());
}

fn running(pids: &[u32]) -> usize {
    let state = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    let is_running = |pid: &&u32| state(pid).is_some_and(|stat| !stat.contains(") Z "));
    pids.iter().filter(is_running).count()
}

#[test]
fn roles_need_passwords_where_they_are_asked_for() {
    let cluster = Cluster::start();
    cluster.psql("CREATE ROLE node LOGIN PASSWORD 'right'");
    assert_eq!(psql(Version::Debian, &cluster.url("node"), "SELECT 1").unwrap(), "1");
    cluster.require_passwords();
    let with = |password: &str| cluster.url(&format!("node:{password}"));
    assert_eq!(psql(Version::Debian, &with("right"), "SELECT 1").unwrap(), "1");
    let error = psql(Version::Debian, &with("wrong"), "SELECT 1").unwrap_err();
    assert!(error.contains("password authentication failed"), "{error}");
}

#[test]
fn a_commit_waits_for_the_standby_and_a_promoted_standby_has_it() {
    let cluster = Cluster::start();
    let mut standby = cluster.standby();
    cluster.psql("CREATE TABLE line (sequence bigint PRIMARY KEY)");
    cluster.psql("INSERT INTO line VALUES (1)");
    assert!(standby.try_psql("postgres", "INSERT INTO line VALUES (2)").is_err());
    standby.freeze();
    let cut = "SET statement_timeout = '200ms'; SET application_name = 'late'; INSERT INTO line VALUES (2)";
    std::thread::scope(|scope| {
        let late = scope.spawn(|| cluster.psql(cut));
        eventually("a commit waits for the standby", || {
            cluster.psql("SELECT wait_event FROM pg_stat_activity WHERE application_name = 'late'") == "SyncRep"
        });
        standby.thaw();
        late.join().unwrap();
    });
    standby.restart();
    cluster.wait_for_standby();
    cluster.psql("INSERT INTO line VALUES (3)");
    drop(cluster);
    standby.promote();
    standby.psql("INSERT INTO line VALUES (4)");
    assert_eq!(standby.psql("SELECT count(*) FROM line"), "4");
}

#[test]
fn a_pooler_in_transaction_mode_mixes_sessions_and_one_in_session_mode_does_not() {
    let cluster = Cluster::start();
    let pids = |mode| {
        let pooler = Pgbouncer::start(&cluster, mode, "postgres", 4);
        psql(
            Version::Debian,
            &pooler.url(),
            "SELECT pg_backend_pid(); SET synchronous_commit = off",
        )
        .unwrap();
        psql(Version::Debian, &pooler.url(), "SHOW synchronous_commit").unwrap()
    };
    assert_eq!(pids(PoolMode::Session), "on");
    assert_eq!(pids(PoolMode::Transaction), "off");
}

#[test]
fn a_newer_server_runs_as_well() {
    let old = Cluster::start();
    let new = Cluster::start_with(Version::Newest, "fsync = on");
    let major = |cluster: &Cluster| -> u32 { cluster.psql("SHOW server_version_num").parse::<u32>().unwrap() / 10_000 };
    assert!(major(&old) < major(&new));
    assert_eq!(old.psql("SHOW fsync"), "off");
    assert_eq!(new.psql("SHOW fsync"), "on");
}
