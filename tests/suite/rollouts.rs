//! Rollouts over HTTP: who gets a release, who is held from it, and what people do about it.

use serde_json::{Value, json};

use crate::hosted::{SECRET, put_secret};
use crate::management::{Shop, run, stdout_json, token};
use crate::support::cli_json::Page;
use crate::support::instance::{LATEST, manifest};
use crate::support::server::countersign;
use crate::support::{Instance, License, Response, Server, eventually, request};

/// So few sites get a release at once that those of the tests do not.
const STEPS: &str = "steps = [\"0h 0.001%\", \"72h 100%\"]";

fn entry(instance: &Instance, rollout: &str) {
    let text = format!(
        "module = \"forms\"\nrepository = \"../../src\"\ndownload_url = \"https://dl.example/{{version}}.zip\"\n{rollout}\n"
    );
    instance.write("registry/plugins/acme-forms.toml", &text);
}

/// Publishes these releases, of which those with a sign are security releases.
fn publish(instance: &Instance, latest: &str, versions: &[&str]) {
    let releases: Vec<_> = versions
        .iter()
        .map(|version| (version.trim_end_matches('!'), version.ends_with('!')))
        .collect();
    instance.publish_all("releases", latest, &releases);
}

/// How far each release is, the newest first: `1.3.0 running`.
fn phases(instance: &Instance) -> Vec<String> {
    let report = stdout_json(instance, &["rollout", "acme-forms", "show"]);
    Page::read().check("rollout", &report);
    let releases = report["releases"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    releases
        .map(|release| format!("{} {}", text(&release["version"]), text(&release["phase"])))
        .collect()
}

fn await_phases(instance: &Instance, expected: &[&str]) {
    eventually("the ledger has the rollouts", || phases(instance) == expected);
}

/// What a site gets: the version, and whether it is held and until when.
fn offered(response: &Response) -> (String, bool, bool) {
    assert_eq!(response.status, 200, "{}", response.text());
    let answer = response.json();
    let version = answer["version"].as_str().unwrap_or_default().to_owned();
    (version, answer["held"] == json!(true), answer["held_until"].is_string())
}

fn got(version: &str, is_held: bool, has_date: bool) -> (String, bool, bool) {
    (version.to_owned(), is_held, has_date)
}

/// A license with two sites, one of them a staging copy, on a server whose sites have 1.2.0.
fn begun(rollout: &str) -> (License, Instance, Server) {
    let license = License::new();
    let instance = Instance::issuing(&[license.toml("sites = 3")]);
    entry(&instance, &format!("[rollout]\n{STEPS}\n{rollout}"));
    publish(&instance, LATEST, &[LATEST, "1.1.0"]);
    let server = Server::start(&instance);
    for host in ["a.com", "staging.a.com", "b.com"] {
        assert_eq!(server.validate(&license, host).code(), "ok");
    }
    await_phases(&instance, &["1.2.0 finished"]);
    (license, instance, server)
}

#[test]
fn a_new_release_is_held_from_sites_until_their_turn_and_what_was_there_before_is_not() {
    let (license, instance, server) = begun("");
    let ask = |server: &Server, host: &str, more: &str| server.updates(&license, host, more);
    assert_eq!(
        ask(&server, "a.com", "&current_version=1.1.0&holds=1").text(),
        manifest(LATEST)
    );
    publish(&instance, "1.3.0", &["1.3.0", LATEST, "1.1.0"]);
    await_phases(&instance, &["1.3.0 running", "1.2.0 finished"]);

    let held = ask(&server, "a.com", "&current_version=1.2.0&holds=1");
    assert_eq!(offered(&held), got("1.3.0", true, true));
    // Nothing else is changed: the members are behind the first brace.
    let text = held.text();
    let rest = text.split_once("Z\",").unwrap().1;
    assert!(text.starts_with("{\"held\":true,\"held_until\":\"20"), "{text}");
    assert_eq!(format!("{{{rest}"), manifest("1.3.0"));
    // Clients that do not know of it get what everybody may have.
    assert_eq!(ask(&server, "a.com", "&current_version=1.1.0").text(), manifest(LATEST));
    assert_eq!(ask(&server, "a.com", "").text(), manifest(LATEST));
    assert_eq!(ask(&server, "a.com", "&current_version=1.2.0").text(), "{}");
    assert_eq!(ask(&server, "a.com", "&current_version=1.3.0&holds=1").text(), "{}");
    for never_held in [
        "&current_version=1.2.0&wave=first",
        "&current_version=1.2.0&wave=first&holds=1",
    ] {
        assert_eq!(
            ask(&server, "a.com", never_held).text(),
            manifest("1.3.0"),
            "{never_held}"
        );
    }
    assert_eq!(
        ask(&server, "staging.a.com", "&current_version=1.2.0").text(),
        manifest("1.3.0")
    );
    assert_eq!(
        offered(&ask(&server, "b.com", "&current_version=1.2.0&wave=last&holds=1")),
        got("1.3.0", true, true)
    );
    let twice = ask(&server, "a.com", "&holds=1&holds=1");
    assert_eq!((twice.status, twice.code().as_str()), (400, "malformed_request"));

    // A security release, and what comes after it, is for everybody who lacks it.
    publish(&instance, "1.4.0", &["1.4.0", "1.3.1!", "1.3.0", LATEST, "1.1.0"]);
    await_phases(&instance, &["1.4.0 running", "1.3.0 running", "1.2.0 finished"]);
    assert_eq!(
        ask(&server, "a.com", "&current_version=1.2.0").text(),
        manifest("1.4.0")
    );
    assert_eq!(
        offered(&ask(&server, "a.com", "&current_version=1.3.1&holds=1")),
        got("1.4.0", true, true)
    );
    // It was among the first that got a release whose rollout had not ended.
    assert_eq!(
        ask(&server, "a.com", "&current_version=1.3.0").text(),
        manifest("1.4.0")
    );
    // The release before is not for everybody yet.
    assert_eq!(ask(&server, "a.com", "&current_version=1.3.1").text(), "{}");
}

#[test]
fn a_release_that_the_entry_names_as_a_security_release_later_is_for_everybody_before_the_next_build() {
    let (license, instance, server) = begun("");
    publish(&instance, "1.3.0", &["1.3.0", LATEST, "1.1.0"]);
    await_phases(&instance, &["1.3.0 running", "1.2.0 finished"]);
    let ask = || server.updates(&license, "a.com", "&current_version=1.2.0&holds=1");
    assert_eq!(offered(&ask()), got("1.3.0", true, true));
    entry(&instance, &format!("security = [\"1.3.0\"]\n[rollout]\n{STEPS}\n"));
    eventually("the entry is in force", || ask().text() == manifest("1.3.0"));
    entry(&instance, &format!("[rollout]\n{STEPS}\n"));
    eventually("the entry is in force", || offered(&ask()) == got("1.3.0", true, true));
}

#[test]
fn a_person_pauses_resumes_and_finishes_a_rollout_and_a_restart_changes_nothing() {
    let (license, instance, server) = begun("");
    publish(&instance, "1.3.0", &["1.3.0", LATEST]);
    await_phases(&instance, &["1.3.0 running", "1.2.0 finished"]);
    let site = "&current_version=1.2.0&holds=1";
    let reason = "white pages on PHP 7.4";
    let paused = stdout_json(&instance, &["rollout", "acme-forms", "pause", "--reason", reason]);
    Page::read().check("rollout", &paused);
    let last = paused["releases"][0]["events"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .clone();
    assert_eq!((&last["step"], &last["reason"]), (&json!("paused"), &json!(reason)));
    assert!(last["who"].is_string() && paused["releases"][0]["next"].is_null());
    // Not even a site that has its turn.
    for more in [site, "&current_version=1.2.0&holds=1&wave=first"] {
        assert_eq!(
            offered(&server.updates(&license, "a.com", more)),
            got("1.3.0", true, false)
        );
    }
    let again = countersign(&instance)
        .args(["rollout", "acme-forms", "pause"])
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&again.stderr).into_owned();
    assert_eq!(again.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("there is no rollout to pause"), "{stderr}");

    assert!(server.stop().success());
    // Without a server, the command opens the store.
    assert_eq!(phases(&instance), ["1.3.0 paused", "1.2.0 finished"]);
    let server = Server::start(&instance);
    assert_eq!(
        offered(&server.updates(&license, "a.com", site)),
        got("1.3.0", true, false)
    );
    let resumed = run(&instance, &["rollout", "acme-forms", "resume"]);
    let text = String::from_utf8(resumed.stdout).unwrap();
    assert!(
        text.contains("The rollout of acme-forms 1.3.0 is running at 0.001 % of the sites."),
        "{text}"
    );
    assert_eq!(
        offered(&server.updates(&license, "a.com", site)),
        got("1.3.0", true, true)
    );
    run(&instance, &["rollout", "acme-forms", "finish", "--release", "1.3.0"]);
    assert_eq!(server.updates(&license, "a.com", site).text(), manifest("1.3.0"));
    let table = String::from_utf8(run(&instance, &["rollout", "acme-forms", "show"]).stdout).unwrap();
    assert!(
        table.contains("RELEASE") && table.contains("finished") && table.contains("100 %"),
        "{table}"
    );
}

#[test]
fn a_release_that_is_taken_back_is_left_by_its_sites_and_begins_again_when_it_is_back() {
    let (license, instance, server) = begun("");
    publish(&instance, "1.3.0", &["1.3.0", LATEST]);
    await_phases(&instance, &["1.3.0 running", "1.2.0 finished"]);
    publish(&instance, LATEST, &[LATEST]);
    await_phases(&instance, &["1.3.0 withheld", "1.2.0 finished"]);
    assert_eq!(
        server.updates(&license, "a.com", "&current_version=1.1.0").text(),
        manifest(LATEST)
    );
    // The fix comes to those at once that have the release, and to the others in steps, also after a pause.
    publish(&instance, "1.3.1", &["1.3.1", LATEST]);
    await_phases(&instance, &["1.3.1 running", "1.3.0 withheld", "1.2.0 finished"]);
    for paused in [false, true] {
        if paused {
            run(&instance, &["rollout", "acme-forms", "pause"]);
        }
        assert_eq!(
            server.updates(&license, "a.com", "&current_version=1.3.0").text(),
            manifest("1.3.1")
        );
        assert_eq!(
            offered(&server.updates(&license, "a.com", "&current_version=1.2.0&holds=1")),
            got("1.3.1", true, !paused)
        );
    }
    publish(&instance, LATEST, &[LATEST]);
    await_phases(&instance, &["1.3.1 withheld", "1.3.0 withheld", "1.2.0 finished"]);
    publish(&instance, "1.3.1", &["1.3.1", LATEST]);
    await_phases(&instance, &["1.3.1 running", "1.3.0 withheld", "1.2.0 finished"]);
    let report = stdout_json(&instance, &["rollout", "acme-forms", "show"]);
    let events = report["releases"][0]["events"].as_array().unwrap().iter();
    let steps: Vec<_> = events.map(|event| event["step"].as_str().unwrap().to_owned()).collect();
    assert_eq!(steps, ["started", "paused", "withheld", "restarted"]);
}

#[test]
fn an_entry_says_whether_buttons_wait_and_what_other_clients_get() {
    let (license, instance, server) = begun("hold = \"all\"");
    publish(&instance, "1.3.0", &["1.3.0", LATEST]);
    await_phases(&instance, &["1.3.0 running", "1.2.0 finished"]);
    let ask = |more: &str| server.updates(&license, "a.com", more).text();
    for holds in ["", "&holds=1"] {
        assert_eq!(ask(&format!("&current_version=1.1.0{holds}")), manifest(LATEST));
        assert_eq!(ask(&format!("&current_version=1.2.0{holds}")), "{}");
    }
    entry(&instance, &format!("[rollout]\n{STEPS}\nothers = \"offer\""));
    eventually("the entry is in force", || {
        ask("&current_version=1.2.0") == manifest("1.3.0")
    });
    assert_eq!(
        offered(&server.updates(&license, "a.com", "&current_version=1.2.0&holds=1")),
        got("1.3.0", true, true)
    );
    entry(&instance, "");
    eventually("the entry is in force", || {
        ask("&current_version=1.2.0&holds=1") == manifest("1.3.0")
    });
    let show = countersign(&instance)
        .args(["rollout", "acme-forms", "show"])
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&show.stderr).into_owned();
    assert_eq!(show.status.code(), Some(3), "{stderr}");
    assert!(
        stderr.contains("has no [rollout]") && stderr.contains("hint:"),
        "{stderr}"
    );
}

#[test]
fn programs_with_a_token_read_and_change_rollouts() {
    let shop = Shop::open(&[]);
    put_secret(&shop.instance, "keys/downloads.key", &SECRET);
    entry(&shop.instance, &format!("[rollout]\n{STEPS}"));
    let reader = token(&shop.instance, "reader", &["rollouts:read"]);
    let writer = token(&shop.instance, "ci", &["rollouts:write"]);
    let send = |bearer: &str, method: &str, path: &str, body: &str| {
        let headers = [("Authorization", bearer), ("Content-Type", "application/json")];
        request(
            shop.server.address,
            method,
            &format!("/api/v1/rollouts/{path}"),
            &headers,
            body.as_bytes(),
        )
    };
    let show = || {
        let mut command = countersign(&shop.instance);
        command.args(["rollout", "acme-forms", "show"]).output().unwrap()
    };
    eventually("the entry is in force", || show().status.success());
    await_phases(&shop.instance, &["1.2.0 finished"]);
    publish(&shop.instance, "1.3.0", &["1.3.0", LATEST]);
    await_phases(&shop.instance, &["1.3.0 running", "1.2.0 finished"]);
    let read = send(&reader, "GET", "acme-forms", "");
    assert_eq!(
        (read.status, &read.json()["releases"][0]["share"]),
        (200, &json!(0.001)),
        "{}",
        read.text()
    );
    for (bearer, method, path, status) in [
        (&reader, "POST", "acme-forms/pause", 403),
        (&shop.bearer, "GET", "acme-forms", 403),
        (&writer, "POST", "acme-forms", 405),
        (&writer, "GET", "acme-forms/pause", 405),
        (&writer, "POST", "acme-forms/start", 404),
        (&writer, "POST", "acme-forms/pause/now", 404),
        (&writer, "GET", "acme-none", 404),
        (&writer, "GET", "acme-maps", 404),
        (&writer, "GET", "", 404),
    ] {
        let answer = send(bearer, method, path, "{}");
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.text());
    }
    let paused = send(&writer, "POST", "acme-forms/pause", "{\"reason\":\"tickets\"}");
    assert_eq!(paused.status, 200, "{}", paused.text());
    let release = &paused.json()["releases"][0];
    assert_eq!(
        (&release["phase"], &release["events"][1]["who"]),
        (&json!("paused"), &json!("token:ci"))
    );
    let again = send(&writer, "POST", "acme-forms/pause", "");
    assert_eq!(
        (again.status, again.code().as_str()),
        (409, "conflict"),
        "{}",
        again.text()
    );
    assert_eq!(
        send(&writer, "POST", "acme-forms/finish", "{\"version\":\"1.3.0\"}").status,
        200
    );
    assert_eq!(phases(&shop.instance), ["1.3.0 finished", "1.2.0 finished"]);
}
