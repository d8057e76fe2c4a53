//! The ledger of bindings for an operator: damaged, truncated, on a full disk, and beside a running server.

use std::fs;
use std::io::Read;
use std::os::unix::fs::chown;
use std::process::Stdio;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::support::server::countersign;
use crate::support::{Instance, License, Server, eventually, get};

const LEDGER: &str = "store/ledger.jsonl";
/// An instance whose license for any number of sites is bound to `a.com`, `b.com` and `c.com`; no server runs.
fn bound() -> (Instance, License) {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("sites = \"unlimited\"")]);
    let server = Server::start(&instance);
    for site in ["a.com", "b.com", "c.com"] {
        assert_eq!(server.validate(&license, site).code(), "ok");
    }
    assert!(server.stop().success());
    // From here on, only who is bound already stays active.
    instance.write_licenses(&[license.toml("sites = 1")]);
    (instance, license)
}

/// Exit code, stdout and stderr of a command.
fn run(instance: &Instance, arguments: &[&str]) -> (i32, String, String) {
    let output = countersign(instance).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn assert_bound(server: &Server, license: &License, sites: &[&str]) {
    for site in sites {
        assert_eq!(server.validate(license, site).code(), "ok", "{site}");
    }
    assert_eq!(server.validate(license, "never.com").code(), "bound_elsewhere");
}

#[test]
fn a_broken_chain_refuses_to_start_and_says_where() {
    let (instance, _) = bound();
    let ledger = fs::read_to_string(instance.file(LEDGER)).unwrap();
    fs::write(instance.file(LEDGER), ledger.replace("\"b.com\"", "\"d.com\"")).unwrap();
    let (exit, stdout, stderr) = run(
        &instance,
        &["serve", "--listen", "127.0.0.1:0", "--admin-listen", "off"],
    );
    assert_eq!((exit, stdout.as_str()), (3, ""));
    let place = ledger.match_indices('\n').nth(1).unwrap().0 + 1;
    let expected = format!(
        "error: {}: the ledger is damaged: line 3 of the file (byte {place}): does not continue line 2: one of the two was changed\nhint: ",
        instance.file(LEDGER).display()
    );
    assert!(stderr.contains(&expected), "{stderr}");
    let (exit, _, stderr) = run(&instance, &["bindings", "verify"]);
    assert!(exit == 3 && stderr.starts_with(&expected), "{stderr}");
    assert_eq!(
        run(&instance, &["bindings", "rebuild"]).0,
        3,
        "not an index of a ledger that lies"
    );
    assert_eq!(run(&instance, &["bindings", "compact"]).0, 3);
    assert_eq!(run(&instance, &["doctor"]).0, 3);
}

fn is_of_a_newer_version(instance: &Instance, what: &str) {
    let commands: [&[&str]; 6] = [
        &["serve", "--listen", "127.0.0.1:0", "--admin-listen", "off"],
        &["bindings", "verify"],
        &["bindings", "rebuild"],
        &["bindings", "compact"],
        &["bindings", "export", "--all"],
        &["doctor"],
    ];
    for command in commands {
        let (exit, stdout, stderr) = run(instance, command);
        let output = stdout + &stderr;
        assert_eq!(exit, 3, "{command:?}: {output}");
        let what = format!("a newer version of countersign wrote the ledger: line 4 of the file {what}");
        assert!(output.contains(&what), "{command:?}: {output}");
        assert!(
            output.contains("run the version of countersign that wrote it"),
            "{command:?}: {output}"
        );
        assert!(!output.contains("the ledger is damaged"), "{command:?}: {output}");
    }
}

#[test]
fn a_line_of_an_unknown_kind_is_of_a_newer_version_and_no_command_calls_it_damaged() {
    let (instance, _) = bound();
    let ledger = fs::read_to_string(instance.file(LEDGER)).unwrap();
    let last = ledger.lines().last().unwrap();
    let previous = const_hex::encode(Sha256::digest(format!("{last}\n")));
    let kind = format!(
        "{{\"event\":\"ballot\",\"plugin\":\"acme-forms\",\"previous\":\"{previous}\",\"sequence\":4,\"synced\":3}}\n"
    );
    let member = format!(
        "{{\"event\":\"bound\",\"floor\":7,\"host\":\"new.example\",\"license\":\"{}\",\"previous\":\"{previous}\",\
         \"sequence\":4,\"synced\":3,\"time\":\"2026-11-26T10:00:00Z\"}}\n",
        "ab".repeat(32)
    );
    for (line, what) in [
        (&member, "has the member \"floor\""),
        (&kind, "is of the kind \"ballot\""),
    ] {
        fs::write(instance.file(LEDGER), format!("{ledger}{line}")).unwrap();
        is_of_a_newer_version(&instance, what);
    }
    let events = "{\"event\":\"ballot\",\"plugin\":\"acme-forms\"}\n";
    instance.write("events.jsonl", events);
    let path = |name| instance.file(name).display().to_string();
    let (exit, _, stderr) = run(
        &instance,
        &["bindings", "import", &path("events.jsonl"), "--store", &path("other")],
    );
    assert_eq!(exit, 3, "{stderr}");
    assert!(
        stderr.contains("a newer version of countersign wrote these events: line 1 is of the kind \"ballot\""),
        "{stderr}"
    );
}

#[test]
fn a_torn_end_is_cut_and_logged_but_nothing_that_was_acknowledged() {
    let (instance, license) = bound();
    let whole = fs::read(instance.file(LEDGER)).unwrap();
    let torn = [&whole[..], &whole[..100]].concat();
    fs::write(instance.file(LEDGER), torn).unwrap();
    let (exit, stdout, _) = run(&instance, &["bindings", "verify"]);
    let expected = "up to line 3 of the file (sequence 3)\ntorn end     the rest was never acknowledged; the next start removes it\n";
    assert!(exit == 0 && stdout.contains(expected), "it is no fault: {stdout}");
    let verified = || serde_json::from_str::<Value>(&run(&instance, &["bindings", "verify", "--json"]).1).unwrap();
    assert!(
        verified()["torn_end"]
            .as_str()
            .unwrap()
            .contains("the next start removes it")
    );
    let doctor = run(&instance, &["doctor"]).1;
    assert!(
        doctor.contains("the ledger's last line is torn, and was never acknowledged"),
        "{doctor}"
    );
    let server = Server::start(&instance);
    assert!(
        server.log().contains("was never acknowledged") && server.log().contains("line=4"),
        "{}",
        server.log()
    );
    assert_bound(&server, &license, &["a.com", "b.com", "c.com"]);
    server.stop();
    assert_eq!(fs::read(instance.file(LEDGER)).unwrap(), whole);
    assert_eq!(verified().get("torn_end"), None);

    fs::write(instance.file(LEDGER), &whole[..whole.len() - 9]).unwrap();
    let (exit, _, stderr) = run(
        &instance,
        &["serve", "--listen", "127.0.0.1:0", "--admin-listen", "off"],
    );
    assert!(
        exit == 3 && stderr.contains("it ends with sequence 2, but the index has sequence 3"),
        "{stderr}"
    );
}

#[test]
fn an_index_that_is_lost_is_made_anew_and_logged() {
    let (instance, license) = bound();
    for damage in ["removed", "overwritten"] {
        match damage {
            "removed" => fs::remove_dir_all(instance.file("store/index")).unwrap(),
            _ => fs::write(instance.file("store/index/db"), [0xA5; 4096]).unwrap(),
        }
        // An index that is not there is no fault of the ledger; one that says something else may be.
        assert_eq!(
            run(&instance, &["bindings", "verify"]).0,
            if damage == "removed" { 0 } else { 3 },
            "{damage}"
        );
        let server = Server::start(&instance);
        assert!(server.log().contains("rebuilding it"), "{damage}: {}", server.log());
        assert_bound(&server, &license, &["a.com", "b.com", "c.com"]);
        server.stop();
        let (exit, stdout, _) = run(&instance, &["bindings", "verify", "--json"]);
        let verified: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(
            (exit, &verified["index"], &verified["bindings"]),
            (0, &"agrees".into(), &3.into()),
            "{damage}"
        );
    }
}

#[test]
fn the_ledger_is_proved_and_exported_while_a_server_runs_and_changed_only_when_none_does() {
    let (instance, license) = bound();
    let server = Server::start(&instance);
    let (exit, stdout, _) = run(&instance, &["bindings", "verify"]);
    assert!(
        exit == 0
            && stdout.contains("up to line 3 of the file (sequence 3)\n")
            && stdout.contains("in use by a server"),
        "{stdout}"
    );
    for verb in ["rebuild", "compact"] {
        let (exit, _, stderr) = run(&instance, &["bindings", verb]);
        assert!(
            exit == 4 && stderr.contains("in use by another process") && stderr.contains("\nhint: "),
            "{stderr}"
        );
    }
    let exported = || run(&instance, &["bindings", "export"]).1;
    let lines: Vec<Value> = exported()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let hosts: Vec<&str> = lines.iter().map(|line| line["host"].as_str().unwrap()).collect();
    assert_eq!(
        (hosts, &lines[0]["license"]),
        (vec!["a.com", "b.com", "c.com"], &license.id.as_str().into())
    );
    server.stop();

    let before = exported();
    for verb in ["rebuild", "compact"] {
        assert_eq!(run(&instance, &["bindings", verb]).0, 0);
        assert_eq!(exported(), before, "{verb}");
    }
    // Root can give the ledger to the user of a server; another user who runs this has no other user's ledger to meet.
    if chown(instance.file(LEDGER), Some(12_345), None).is_ok() {
        for verb in ["rebuild", "compact"] {
            let (exit, _, stderr) = run(&instance, &["bindings", verb]);
            let expected =
                "belongs to another user, of uid 12345\nhint: run this as the user of the server: sudo -u '#12345' ";
            assert!(exit == 4 && stderr.contains(expected), "{stderr}");
        }
        assert_eq!(exported(), before, "who only reads may be anybody");
    }
    let ledger = fs::read_to_string(instance.file(LEDGER)).unwrap();
    fs::write(instance.file(LEDGER), ledger.replace("c.com", "d.com")).unwrap();
    let (exit, stdout, stderr) = run(&instance, &["bindings", "export"]);
    assert!(
        (exit, &*stdout) == (3, "") && stderr.contains("\nhint: "),
        "{stdout}{stderr}"
    );
    fs::write(instance.file(LEDGER), ledger).unwrap();
    let server = Server::start(&instance);
    assert_bound(&server, &license, &["a.com", "b.com", "c.com"]);
}

#[test]
fn a_full_disk_turns_new_sites_away_serves_bound_ones_and_is_well_again_by_itself() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("sites = \"unlimited\"")]);
    let server = Server::start_limitable(&instance, &[]);
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    let before = fs::read(instance.file(LEDGER)).unwrap();
    // The index's files neither; a line more is cut off in its middle.
    server.limit_files(&(before.len() + 100).to_string());
    for _ in 0..3 {
        let refused = server.validate(&license, "b.com");
        assert_eq!(
            (refused.status, &refused.json()["code"]),
            (503, &"store_unavailable".into())
        );
        assert_eq!(server.validate(&license, "a.com").code(), "ok");
        assert_eq!(server.updates(&license, "a.com", "").status, 200);
        assert_eq!(server.part("store")["state"], "failing");
    }
    assert_eq!(
        fs::read(instance.file(LEDGER)).unwrap(),
        before,
        "the torn line was cut"
    );
    server.limit_files("unlimited");
    eventually("the store is well again", || server.part("store")["state"] == "ok");
    assert_eq!(get(server.admin, "/readyz").status, 200);
    assert_eq!(server.validate(&license, "b.com").code(), "ok");
    assert!(server.stop().success());
    let (exit, stdout, stderr) = run(&instance, &["bindings", "verify"]);
    assert!(exit == 0 && stdout.contains("agrees"), "{stdout}{stderr}");
}

#[test]
fn an_index_that_cannot_be_written_shows_on_readyz_and_in_the_metrics_while_sites_are_bound() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("sites = \"unlimited\"")]);
    let server = Server::start_limitable(&instance, &[]);
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    // Room for some lines of the ledger, and none for the index.
    server.limit_files(&(fs::metadata(instance.file(LEDGER)).unwrap().len() + 1_000).to_string());
    assert_eq!(server.validate(&license, "b.com").code(), "ok");
    eventually("the index has failed twice", || {
        server.metric("countersign_index_failures_total") >= Some(2.0)
    });
    assert_eq!(server.part("store")["state"], "stale");
    assert_eq!(get(server.admin, "/readyz").status, 200);
    assert_eq!(server.metric("countersign_ledger_failures_total"), Some(0.0));
    assert_eq!(server.validate(&license, "c.com").code(), "ok");
    assert_eq!(
        server.log().matches("the index and reports cannot be written").count(),
        1,
        "{}",
        server.log()
    );
    server.limit_files("unlimited");
    eventually("the store is well again", || server.part("store")["state"] == "ok");
    assert!(server.stop().success());
    let (exit, stdout, stderr) = run(&instance, &["bindings", "verify"]);
    assert!(exit == 0 && stdout.contains("agrees"), "{stdout}{stderr}");
}

#[test]
fn an_export_that_nobody_reads_keeps_no_server_from_starting() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("sites = \"unlimited\"")]);
    let server = Server::start(&instance);
    // More than a pipe holds, 64 KiB.
    for number in 0..800 {
        assert_eq!(
            server.validate(&license, &format!("host-{number}.example")).code(),
            "ok"
        );
    }
    assert!(server.stop().success());
    let mut export = countersign(&instance)
        .args(["bindings", "export"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0];
    export.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    let server = Server::start(&instance);
    assert_eq!(server.validate(&license, "host-7.example").code(), "ok");
    let mut rest = String::new();
    export.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
    assert_eq!(rest.lines().count(), 800);
    assert!(export.wait().unwrap().success());
}
