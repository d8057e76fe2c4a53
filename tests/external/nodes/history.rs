//! The history of several nodes: each counts for itself, and a day is written once.

use chrono::{Days, NaiveTime, Utc};
use serde_json::{Value, json};

use super::clock_skew::{set, start};
use super::database::prepared_cluster;
use super::node::{code, instance};
use crate::support::eventually;
use crate::support::instance::{License, question};
use crate::support::server::{Server, countersign};

#[test]
fn a_day_of_two_nodes_is_written_once() {
    let cluster = prepared_cluster();
    let license = License::new();
    let instances = [instance(&[&license]), instance(&[&license])];
    let now = Utc::now();
    let midnight = (now.date_naive() + Days::new(1)).and_time(NaiveTime::MIN).and_utc();
    let until_midnight = (midnight - now).num_seconds();
    let set_all = |seconds: i64| instances.iter().for_each(|own| set(own, until_midnight + seconds));
    // Ten minutes before the day ends.
    set_all(-600);
    let [first, second] = instances.each_ref().map(|own| start(own, &cluster));
    let mut asked = question(&license, "a.com");
    asked["plugin"] = json!("acme-forms");
    asked["php_version"] = json!("8.3.1");
    let validate = |node: &Server, times: usize| {
        for _ in 0..times {
            assert_eq!(code(&node.ask(&asked)), "ok");
        }
    };
    validate(&first, 1);
    validate(&second, 2);
    assert_eq!(second.updates(&license, "a.com", "&current_version=1.0.0").status, 200);
    // A node that starts again counts for itself.
    first.stop();
    let first = start(&instances[0], &cluster);
    validate(&first, 4);

    let day = now.date_naive();
    let psql = |sql: &str| {
        cluster
            .psql(&sql.replace("DAY", &format!("day = '{day}'")))
            .trim()
            .to_owned()
    };
    let stored =
        "SELECT sum((counts->'validations'->>'ok')::int) FROM countersign.history WHERE DAY AND slug = 'acme-forms'";
    set_all(60);
    eventually("both nodes stored the day", || psql(stored) == "7");
    let rows = "SELECT count(*) FROM countersign.history WHERE DAY AND slug = 'acme-forms'";
    assert_eq!(psql(rows), "3", "a row for each run of a node");

    set_all(360);
    eventually("the day is finished", || {
        psql("SELECT count(*) FROM countersign.history WHERE DAY AND node <> ''") == "0"
    });
    // What comes later changes nothing.
    validate(&first, 1);
    first.stop();
    second.stop();
    assert_eq!((psql(rows).as_str(), psql(stored).as_str()), ("1", "7"));
    let mut command = countersign(&instances[1]);
    command.env("COUNTERSIGN_STORE", cluster.url("node"));
    let printed = command
        .args(["usage", "--history", "acme-forms", "--json"])
        .output()
        .unwrap();
    let printed: Value = serde_json::from_slice(&printed.stdout).unwrap();
    let lines = printed["history"].as_array().unwrap();
    let line = lines.iter().find(|line| line["day"] == json!(day)).unwrap();
    let counts = &line["counts"];
    assert_eq!(counts["validations"], json!({ "ok": 7 }), "{printed}");
    assert_eq!(
        (&counts["php"], &counts["sites"]),
        (&json!({ "8.3": 7 }), &json!({ "1.0.0": 1 })),
        "{printed}"
    );
}
