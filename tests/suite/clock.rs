//! Clocks that jump while the server runs: statements and expiry follow the clock, bindings and releases stay what they
//! are, and what is measured in durations does not notice.

use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;

use crate::support::http::Client;
use crate::support::instance::question;
use crate::support::server::countersign;
use crate::support::{Instance, License, Server, eventually, post_json};

/// How far the clock jumps: a year back, a year ahead, ten minutes back, and home.
const JUMPS: [(&str, TimeDelta); 4] = [
    ("-365d", TimeDelta::days(-365)),
    ("+365d", TimeDelta::days(365)),
    ("-10m", TimeDelta::minutes(-10)),
    ("+0", TimeDelta::zero()),
];

/// libfaketime, which the Debian package faketime puts into a folder by architecture.
fn library() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").unwrap().map(|entry| entry.unwrap().path());
    let mut found = folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1")).filter(|library| library.exists());
    found.next().expect("faketime is installed: make tools")
}

/// A server whose clock is as far from the machine's as a file in the instance says. Its durations are true: a clock that
/// is set changes no monotonic clock.
fn start(instance: &Instance, flags: &[&str]) -> Server {
    let (library, offset) = (library(), instance.file("offset"));
    jump(instance, "+0");
    Server::start_with_environment(
        instance,
        flags,
        &[
            ("LD_PRELOAD", &library),
            ("FAKETIME_TIMESTAMP_FILE", &offset),
            ("FAKETIME_NO_CACHE", Path::new("1")),
            ("FAKETIME_DONT_FAKE_MONOTONIC", Path::new("1")),
            ("NO_FAKE_STAT", Path::new("1")),
        ],
    )
}

fn jump(instance: &Instance, offset: &str) {
    instance.write("offset", offset);
}

fn time(value: &Value) -> DateTime<Utc> {
    value.as_str().unwrap().parse().unwrap()
}

#[test]
fn statements_and_expiry_follow_a_clock_that_jumps_and_bindings_stay() {
    let (soon, late) = (License::new(), License::new());
    let in_a_month = (Utc::now() + TimeDelta::days(30)).date_naive().to_string();
    let instance =
        Instance::with_licenses(&[soon.toml_with(&in_a_month, "", "forms = []"), late.toml("sites = \"unlimited\"")]);
    let server = start(&instance, &[]);
    assert_eq!(server.validate(&soon, "a.com").code(), "ok");
    let mut bound = Vec::new();
    for (number, (offset, delta)) in JUMPS.into_iter().enumerate() {
        jump(&instance, offset);
        let statement = server.validate(&soon, "a.com").json();
        assert!((time(&statement["issued_at"]) - (Utc::now() + delta)).abs() < TimeDelta::minutes(1), "{statement}");
        let expired = delta > TimeDelta::days(31);
        assert_eq!(statement["code"], if expired { "expired" } else { "ok" }, "{offset}");
        assert_eq!(server.updates(&soon, "a.com", "").status, if expired { 403 } else { 200 }, "{offset}");
        bound.push(format!("site-{number}.com"));
        for site in &bound {
            assert_eq!(server.validate(&late, site).code(), "ok", "{offset}");
        }
        // What is edited is noticed all the same.
        let hours = format!("sites = \"unlimited\"\ngrace_period_hours = {}", number + 1);
        instance.write_licenses(&[soon.toml_with(&in_a_month, "", "forms = []"), late.toml(&hours)]);
        eventually("a reload", Duration::from_secs(5), || {
            server.validate(&late, "site-0.com").json()["grace_period_hours"] == number + 1
        });
        assert_eq!(server.part("store")["state"], "ok");
    }
    assert!(!server.log().contains("ERROR") && !server.log().contains("WARN"), "{}", server.log());
    assert!(server.stop().success());

    // Its times go back and forth, its lines go on.
    let run = |verb: &[&str]| countersign(&instance).arg("bindings").args(verb).output().unwrap();
    assert!(run(&["verify"]).status.success());
    let exported = String::from_utf8(run(&["export"]).stdout).unwrap();
    let lines = exported.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let times: Vec<_> =
        lines.filter(|line| line["license"] == late.id.as_str()).map(|line| time(&line["bound_at"])).collect();
    assert!(times[0] < times[2] && times[2] < times[3] && times[3] < times[1], "{times:?}");
    assert!(run(&["compact"]).status.success() && run(&["rebuild"]).status.success());
    instance.write_licenses(&[late.toml("sites = 1")]);
    let server = start(&instance, &[]);
    for (offset, _) in JUMPS {
        jump(&instance, offset);
        assert_eq!(server.validate(&late, "site-3.com").code(), "ok", "{offset}");
        assert_eq!(server.validate(&late, "never.com").json()["bound_domain"], "site-0.com", "{offset}");
    }
}

#[test]
fn a_release_voids_what_was_bound_before_it_and_nothing_after_whatever_the_clock_says() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    let server = start(&instance, &[]);
    assert_eq!(server.validate(&license, "old.com").code(), "ok");
    let released = Utc::now().to_rfc3339();
    instance.write_licenses(&[
        license.toml("") + &format!("[license.released]\n\"old.com\" = {released}\n\"new.com\" = {released}\n")
    ]);
    // The server's clock is behind the one that the release was written with.
    jump(&instance, "-10m");
    eventually("the release", Duration::from_secs(5), || server.validate(&license, "new.com").code() == "ok");
    for (offset, _) in JUMPS {
        jump(&instance, offset);
        assert_eq!(server.validate(&license, "new.com").code(), "ok", "{offset}: bound after the release");
        assert_eq!(server.validate(&license, "old.com").code(), "bound_elsewhere", "{offset}: bound before it");
    }
}

#[test]
fn rate_limits_and_time_outs_do_not_follow_the_clock() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    let server = start(&instance, &["--requests-per-license", "2", "--request-timeout-seconds", "60"]);
    let question = question(&license, "a.com");
    let mut slow = Client::connect(server.address);
    slow.send(b"GET /healthz HTTP/1.1\r\nHost:").unwrap();
    let ask = || post_json(server.address, "/api/v1/validate-license", &question);
    assert_eq!((ask().status, ask().status), (200, 200));
    for (offset, _) in JUMPS {
        jump(&instance, offset);
        let refused = ask();
        assert_eq!(refused.status, 429, "{offset}");
        let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=30).contains(&wait), "{offset}: {wait} s");
    }
    slow.send(b" test\r\n\r\n").unwrap();
    assert_eq!(slow.receive().unwrap().status, 200, "the time it had did not jump");
}
