//! Clocks that differ: the times of bindings are the database's and never go back, and a node whose clock is wrong says so
//! until it is right again.

use std::path::Path;
use std::process::Command;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;

use super::database::{prepare, prepared_cluster};
use super::node::{code, instance};
use crate::support::http::get;
use crate::support::instance::{Instance, License};
use crate::support::server::countersign;
use crate::support::{Server, eventually};
use crate::tools::postgres::Cluster;
use crate::tools::preload;

const DIFFERS: &str = "countersign_ledger_state{state=\"clock_differs\"}";
const OFFSET: &str = "countersign_clock_offset_seconds";

/// A program of an instance whose clock is as far from the machine's as a file in the instance says.
fn with_clock(instance: &Instance) -> Command {
    let mut command = countersign(instance);
    command
        .env("LD_PRELOAD", preload::clock())
        .env("CLOCK_OFFSET", instance.file("offset"));
    command
}

pub fn set(instance: &Instance, offset: i64) {
    instance.write("offset", &offset.to_string());
}

pub fn start(instance: &Instance, cluster: &Cluster) -> Server {
    Server::start_command(with_clock(instance), &["--store", &cluster.url("node")])
}

/// The times of all lines, in the order of the ledger.
fn times(cluster: &Cluster) -> Vec<DateTime<Utc>> {
    let lines = cluster.psql("SELECT line FROM countersign.ledger ORDER BY sequence");
    let time = |line: &str| {
        serde_json::from_str::<Value>(line).unwrap()["time"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap()
    };
    lines.lines().map(time).collect()
}

fn is_about_now(time: DateTime<Utc>) -> bool {
    (time - Utc::now()).abs() < TimeDelta::minutes(1)
}

#[test]
fn a_node_whose_clock_is_wrong_says_so_and_binds_with_the_time_of_the_database() {
    let cluster = prepared_cluster();
    let licenses: Vec<License> = (0..5).map(|_| License::new()).collect();
    let all: Vec<_> = licenses.iter().collect();
    let instances = [instance(&all), instance(&all)];
    for own in &instances {
        set(own, 0);
    }
    let [wrong, right] = instances.each_ref().map(|own| start(own, &cluster));
    assert_eq!(code(&wrong.validate(&licenses[0], "a.com")), "ok");
    eventually("the first look", || {
        wrong.metric(OFFSET).is_some_and(|offset| offset.abs() < 1.0)
    });
    assert_eq!(wrong.metric(DIFFERS), Some(0.0));

    let jumps = [(3_600, "ahead of"), (-3_600, "behind")];
    for ((offset, said), license) in jumps.into_iter().zip(&licenses[1..]) {
        set(&instances[0], offset);
        eventually("the metric shows the offset", || {
            wrong
                .metric(OFFSET)
                .is_some_and(|told| (told - offset as f64).abs() < 5.0)
        });
        assert_eq!(wrong.metric(DIFFERS), Some(1.0));
        let ready = get(wrong.admin, "/readyz");
        // The other node is the better one.
        assert_eq!((ready.status, get(right.admin, "/readyz").status), (503, 200));
        let part = wrong.part("store");
        assert_eq!(part["state"], "failing");
        let detail = part["detail"].as_str().unwrap();
        assert!(detail.contains(&format!("s {said} the database's")), "{detail}");
        let doctor = with_clock(&instances[0])
            .args(["--store", &cluster.url("node"), "doctor"])
            .output()
            .unwrap();
        let told = String::from_utf8(doctor.stdout).unwrap();
        assert!(told.contains(&format!("s {said} the server's")), "{told}");
        assert_eq!(doctor.status.code(), Some(3), "{told}");

        // It goes on. Its statements have its own time, and its lines have the database's.
        let statement = wrong.validate(license, "a.com").json();
        assert_eq!(statement["code"], "ok");
        let issued: DateTime<Utc> = statement["issued_at"].as_str().unwrap().parse().unwrap();
        assert!(is_about_now(issued - TimeDelta::seconds(offset)), "{statement}");
        assert_eq!(code(&right.validate(license, "b.com")), "bound_elsewhere");
    }
    assert_eq!(code(&right.validate(&licenses[3], "a.com")), "ok");
    set(&instances[0], 0);
    eventually("the clock is right again", || get(wrong.admin, "/readyz").status == 200);
    assert_eq!(wrong.metric(DIFFERS), Some(0.0));
    let times = times(&cluster);
    assert_eq!(times.len(), 4);
    assert!(
        times.is_sorted() && times.iter().copied().all(is_about_now),
        "{times:?}"
    );
    wrong.signal("TERM");
    eventually("the node has stopped", || wrong.log().contains("INFO stopped"));
    // From ahead to behind it stays one fault.
    assert_eq!(wrong.log().matches("the clocks differ").count(), 1, "{}", wrong.log());
    assert_eq!(wrong.log().matches("the clocks agree again").count(), 1);
}

#[test]
fn no_line_is_older_than_the_one_before_also_where_the_clock_of_the_database_goes_back() {
    let license = License::new();
    let own = Instance::with_licenses(&[license.toml("sites = \"unlimited\"")]);
    set(&own, 0);
    let cluster = Cluster::start_with_clock(Path::new(&own.file("offset")));
    prepare(&cluster);
    // Only the database reads the file.
    let node = Server::start_command(countersign(&own), &["--store", &cluster.url("node")]);
    for (number, offset) in [0, 600, -3_600, 60].into_iter().enumerate() {
        set(&own, offset);
        eventually("the database has another clock", || {
            node.metric(OFFSET)
                .is_some_and(|told| (told + offset as f64).abs() < 5.0)
        });
        assert_eq!(code(&node.validate(&license, &format!("site-{number}.com"))), "ok");
    }
    let times = times(&cluster);
    assert!(times.is_sorted(), "{times:?}");
    // It was ten minutes ahead, and time stood still until it had caught up.
    assert_eq!(times[1], times[2]);
    assert_eq!(times[2], times[3]);
    assert!(is_about_now(times[1] - TimeDelta::minutes(10)), "{times:?}");
}
