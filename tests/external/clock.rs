//! Clocks that jump while the server runs: statements and expiry follow the clock, bindings and releases stay, and
//! durations are not affected.

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;

use crate::support::http::Client;
use crate::support::instance::question;
use crate::support::server::countersign;
use crate::support::{Instance, License, Server, eventually, post_json, request};
use crate::tools::preload;

/// How far the clock jumps: a year back, a year ahead, ten minutes back, and home.
const JUMPS: [TimeDelta; 4] = [
    TimeDelta::days(-365),
    TimeDelta::days(365),
    TimeDelta::minutes(-10),
    TimeDelta::zero(),
];

/// A server whose clock is as far from the machine's as a file in the instance says. Its durations are true: who sets a
/// clock changes no monotonic one.
fn start(instance: &Instance, flags: &[&str]) -> Server {
    jump(instance, TimeDelta::zero());
    let offset = instance.file("offset");
    Server::start_with_environment(
        instance,
        flags,
        &[("LD_PRELOAD", preload::clock()), ("CLOCK_OFFSET", &offset)],
    )
}

fn jump(instance: &Instance, delta: TimeDelta) {
    instance.write("offset", &delta.num_seconds().to_string());
}

fn time(value: &Value) -> DateTime<Utc> {
    value.as_str().unwrap().parse().unwrap()
}

#[test]
fn statements_and_expiry_follow_a_clock_that_jumps_and_bindings_stay() {
    let soon = License::new();
    let late = License::new();
    let in_a_month = (Utc::now() + TimeDelta::days(30)).date_naive().to_string();
    let instance = Instance::with_licenses(&[
        soon.toml_with(&in_a_month, "", "forms = []"),
        late.toml("sites = \"unlimited\""),
    ]);
    let server = start(&instance, &[]);
    assert_eq!(server.validate(&soon, "a.com").code(), "ok");
    let mut bound = Vec::new();
    for (number, delta) in JUMPS.into_iter().enumerate() {
        jump(&instance, delta);
        let statement = server.validate(&soon, "a.com").json();
        assert!(
            (time(&statement["issued_at"]) - (Utc::now() + delta)).abs() < TimeDelta::minutes(1),
            "{statement}"
        );
        let expired = delta > TimeDelta::days(31);
        assert_eq!(statement["code"], if expired { "expired" } else { "ok" }, "{delta}");
        assert_eq!(
            server.updates(&soon, "a.com", "").status,
            if expired { 403 } else { 200 },
            "{delta}"
        );
        bound.push(format!("site-{number}.com"));
        for site in &bound {
            assert_eq!(server.validate(&late, site).code(), "ok", "{delta}");
        }
        // What is edited is noticed all the same.
        let hours = format!("sites = \"unlimited\"\ngrace_period_hours = {}", number + 1);
        instance.write_licenses(&[soon.toml_with(&in_a_month, "", "forms = []"), late.toml(&hours)]);
        eventually("a reload", || {
            server.validate(&late, "site-0.com").json()["grace_period_hours"] == number + 1
        });
        assert_eq!(server.part("store")["state"], "ok");
    }
    assert!(
        !server.log().contains("ERROR") && !server.log().contains("WARN"),
        "{}",
        server.log()
    );
    assert!(server.stop().success());

    // Its times go back and forth, its lines go on.
    let run = |verb: &[&str]| countersign(&instance).arg("bindings").args(verb).output().unwrap();
    assert!(run(&["verify"]).status.success());
    let exported = String::from_utf8(run(&["export"]).stdout).unwrap();
    let lines = exported
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let times: Vec<_> = lines
        .filter(|line| line["license"] == late.id.as_str())
        .map(|line| time(&line["bound_at"]))
        .collect();
    assert!(
        times[0] < times[2] && times[2] < times[3] && times[3] < times[1],
        "{times:?}"
    );
    assert!(run(&["compact"]).status.success() && run(&["rebuild"]).status.success());
    instance.write_licenses(&[late.toml("sites = 1")]);
    let server = start(&instance, &["--accept-dropped-licenses"]);
    for delta in JUMPS {
        jump(&instance, delta);
        assert_eq!(server.validate(&late, "site-3.com").code(), "ok", "{delta}");
        assert_eq!(
            server.validate(&late, "never.com").json()["bound_domain"],
            "site-0.com",
            "{delta}"
        );
    }
}

#[test]
fn seven_days_after_a_sale_a_retry_is_told_the_key_only_where_the_token_may_read_keys() {
    let instance = Instance::new();
    let run = |arguments: &[&str]| {
        let output = countersign(&instance).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    for secret in ["--issuing", "--references"] {
        run(&["keys", "generate", secret]);
    }
    let server = start(&instance, &[]);
    let sell = |bearer: &str| {
        let headers = [("Authorization", bearer), ("Idempotency-Key", "order-1")];
        let body = br#"{ "modules": { "forms": [] }, "expires": "never" }"#;
        request(server.address, "POST", "/api/v1/licenses", &headers, body)
    };
    let token = |scopes: &[&str]| {
        let scopes: Vec<_> = scopes.iter().flat_map(|scope| ["--scope", scope]).collect();
        let token = run(&[&["token", "create", "shop"], &scopes[..]].concat());
        format!("Bearer {}", token.trim())
    };
    let seller = token(&["licenses:write"]);
    let sold = sell(&seller);
    assert_eq!(sold.status, 201, "{}", sold.text());
    let key = sold.json()["license_key"].clone();
    assert!(key.is_string());
    let again = |bearer: &str, expected: &Value| {
        let answer = sell(bearer);
        assert_eq!((answer.status, &answer.json()["license_key"]), (200, expected));
    };
    for (delta, expected) in [
        (TimeDelta::days(7) - TimeDelta::minutes(1), &key),
        (TimeDelta::days(7) + TimeDelta::minutes(1), &Value::Null),
        (TimeDelta::zero(), &key),
    ] {
        jump(&instance, delta);
        again(&seller, expected);
    }
    // The name of the token is what a retry goes by.
    run(&["token", "revoke", "shop"]);
    let reader = token(&["licenses:write", "keys:read"]);
    jump(&instance, TimeDelta::days(365));
    again(&reader, &key);
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
    jump(&instance, TimeDelta::minutes(-10));
    eventually("the release", || server.validate(&license, "new.com").code() == "ok");
    for delta in JUMPS {
        jump(&instance, delta);
        assert_eq!(
            server.validate(&license, "new.com").code(),
            "ok",
            "{delta}: bound after the release"
        );
        assert_eq!(
            server.validate(&license, "old.com").code(),
            "bound_elsewhere",
            "{delta}: bound before it"
        );
    }
}

#[test]
fn a_release_by_a_command_whose_clock_is_behind_the_servers_frees_the_seat() {
    let license = License::new();
    for release in [&["--host", "old.com"][..], &["--all"]] {
        let instance = Instance::with_licenses(&[license.toml("")]);
        let server = start(&instance, &[]);
        jump(&instance, TimeDelta::minutes(10));
        assert_eq!(server.validate(&license, "old.com").code(), "ok");
        let run = |arguments: &[&str]| {
            let output = countersign(&instance).args(arguments).output().unwrap();
            // The doctor finds no server at the configured address.
            assert!(output.status.success() || arguments == ["doctor"], "{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        assert!(run(&["doctor"]).contains("a site was bound at "), "a clock differs");
        run(&[&["license", "release", &license.id], release].concat());
        assert_eq!(server.validate(&license, "new.com").code(), "ok");
        assert_eq!(server.validate(&license, "old.com").code(), "bound_elsewhere");
        let shown = run(&["license", "show", &license.id]);
        assert!(shown.contains("note: new.com was bound at "), "{shown}");
        // Again, while the first release is in the future for this machine.
        run(&[&["license", "release", &license.id], &["--all"][..]].concat());
        assert_eq!(server.validate(&license, "next.com").code(), "ok");
    }
}

#[test]
fn rate_limits_and_time_outs_do_not_follow_the_clock() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    let server = start(
        &instance,
        &["--requests-per-license", "2", "--header-timeout-seconds", "60"],
    );
    let question = question(&license, "a.com");
    let mut slow = Client::connect(server.address);
    slow.send(b"GET /index.html HTTP/1.1\r\nHost:").unwrap();
    let ask = || post_json(server.address, "/api/v1/validate-license", &question);
    assert_eq!((ask().status, ask().status), (200, 200));
    for delta in JUMPS {
        jump(&instance, delta);
        let refused = ask();
        assert_eq!(refused.status, 429, "{delta}");
        let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=30).contains(&wait), "{delta}: {wait} s");
    }
    slow.send(b" test\r\n\r\n").unwrap();
    assert_eq!(slow.receive().unwrap().status, 200, "the time it had did not jump");
}
