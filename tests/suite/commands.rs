//! The commands as a person uses them, beside a running server.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::server::{countersign, countersign_in};
use crate::support::stored::files_in;
use crate::support::{Instance, License, Server, eventually_within, get};

/// What a change of a file may take: less than the 30 seconds after which the poll finds it.
const LIVE: Duration = Duration::from_secs(20);

fn succeeds(instance: &Instance, arguments: &[&str]) -> String {
    let output = countersign(instance).args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn fails(instance: &Instance, arguments: &[&str]) -> (i32, String) {
    fails_in(instance.path(), arguments)
}

fn fails_in(instance: &Path, arguments: &[&str]) -> (i32, String) {
    let mut command = countersign_in(instance);
    if arguments == ["serve"] {
        // Another program may have the usual ports.
        command.args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "off"]);
    } else {
        command.args(arguments);
    }
    let output = command.output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn what_license_commands_decide_is_live_in_the_running_server() {
    let instance = Instance::issuing(&[]);
    let server = Server::start(&instance);
    let issue = [
        "license",
        "issue",
        "--module",
        "forms=pdf",
        "--expires",
        "2099-01-01",
        "--json",
    ];
    let issued: Value = serde_json::from_str(&succeeds(&instance, &issue)).unwrap();
    let text = |name: &str| issued[name].as_str().unwrap().to_owned();
    let license = License {
        key: text("license_key"),
        id: text("id"),
    };
    let code = |site: &str| server.validate(&license, site).code();

    eventually_within("issue", LIVE, || code("a.com") == "ok");
    assert_eq!(server.validate(&license, "a.com").json()["features"]["forms"][0], "pdf");
    succeeds(&instance, &["license", "suspend", &license.id]);
    eventually_within("suspend", LIVE, || code("a.com") == "suspended");
    succeeds(&instance, &["license", "resume", &license.id[..12]]);
    eventually_within("resume", LIVE, || code("a.com") == "ok");
    succeeds(
        &instance,
        &["license", "renew", &license.key, "--expires", "2098-01-01"],
    );
    eventually_within("renew", LIVE, || {
        server.validate(&license, "a.com").json()["expires"] == "2098-01-01"
    });

    assert_eq!(code("b.com"), "bound_elsewhere");
    succeeds(&instance, &["license", "release", &license.id, "--host", "a.com"]);
    eventually_within("release", LIVE, || code("b.com") == "ok");
    assert_eq!(server.validate(&license, "a.com").json()["bound_domain"], "b.com");
    let shown = succeeds(&instance, &["license", "show", &license.id]);
    assert!(
        shown.contains("a.com ") && shown.contains("released") && shown.contains("b.com "),
        "{shown}"
    );

    succeeds(&instance, &["license", "revoke", &license.id]);
    eventually_within("revoke", LIVE, || code("b.com") == "revoked");
    let (exit, error) = fails(&instance, &["license", "resume", &license.id]);
    assert!(exit == 3 && error.contains("hint: "), "{error}");
    let listed: Value = serde_json::from_str(&succeeds(&instance, &["license", "list", "--json"])).unwrap();
    assert_eq!(listed.as_array().map(Vec::len), Some(1));
    server.stop();
    let shown: Value = serde_json::from_str(&succeeds(&instance, &["license", "show", &license.id, "--json"])).unwrap();
    let hosts: Vec<&str> = shown["bindings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|b| b["host"].as_str().unwrap())
        .collect();
    assert_eq!(hosts, ["a.com", "b.com"]);
}

#[test]
fn a_rotated_key_signs_what_is_new_and_the_retired_one_still_verifies_what_is_old() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    succeeds(&instance, &["keys", "publish"]);
    let server = Server::start(&instance);
    let old = server.validate(&license, "a.com");
    let old_id = old.json()["key_id"].as_str().unwrap().to_owned();
    fs::write(instance.file("old.json"), &old.body).unwrap();

    succeeds(&instance, &["keys", "generate", "--rotate", "--bits", "2048"]);
    eventually_within("rotate", LIVE, || {
        server.validate(&license, "a.com").json()["key_id"] != old_id.as_str()
    });
    let new = server.validate(&license, "a.com");
    let new_id = new.json()["key_id"].as_str().unwrap().to_owned();
    fs::write(instance.file("new.json"), &new.body).unwrap();

    let jwks = get(server.address, "/.well-known/jwks.json").json();
    let published: Vec<&str> = jwks["keys"]
        .as_array()
        .unwrap()
        .iter()
        .map(|key| key["kid"].as_str().unwrap())
        .collect();
    assert!(
        published.contains(&old_id.as_str()) && published.contains(&new_id.as_str()),
        "{published:?}"
    );
    for (id, other, file) in [(&old_id, &new_id, "old.json"), (&new_id, &old_id, "new.json")] {
        let served = get(server.address, &format!("/keys/{id}.pem")).body;
        let pem = instance.file(&format!("public/keys/{id}.pem"));
        assert_eq!(fs::read(&pem).unwrap(), served);
        let verify = |key: &str| {
            let key = instance.file(&format!("public/keys/{key}.pem"));
            countersign(&instance)
                .arg("verify")
                .arg(instance.file(file))
                .arg("--key")
                .arg(key)
                .output()
                .unwrap()
        };
        let granted = String::from_utf8(verify(id).stdout).unwrap();
        assert!(
            granted.contains("a.com") && granted.contains("forms") && granted.contains("2099-12-31"),
            "{granted}"
        );
        assert_eq!(verify(other).status.code(), Some(3), "another key does not verify it");
    }
    let (exit, error) = fails(&instance, &["keys", "generate"]);
    assert!(
        exit != 0 && error.contains("hint: "),
        "a key is never overwritten: {error}"
    );
}

#[test]
fn init_makes_a_working_instance_and_never_overwrites() {
    let folder = TempDir::new().unwrap();
    let target = folder.path().join("new");
    let init = || {
        Command::new(env!("CARGO_BIN_EXE_countersign"))
            .arg("init")
            .arg(&target)
            .output()
            .unwrap()
    };
    assert!(init().status.success());
    let run = |verb: &str| {
        Command::new(env!("CARGO_BIN_EXE_countersign"))
            .arg("-C")
            .arg(&target)
            .arg(verb)
            .output()
            .unwrap()
    };
    assert!(run("build").status.success());
    let looked_over = String::from_utf8(run("doctor").stdout).unwrap();
    assert!(
        !looked_over.contains("BROKEN")
            && looked_over.matches("warning").count() == 1
            && looked_over.contains("not running"),
        "{looked_over}"
    );

    let before = fs::read(target.join("keys/signing.pem")).unwrap();
    let again = init();
    assert_eq!(again.status.code(), Some(3));
    let error = String::from_utf8(again.stderr).unwrap();
    assert!(
        error.contains("already has countersign.toml") && error.contains("hint: "),
        "{error}"
    );
    assert_eq!(fs::read(target.join("keys/signing.pem")).unwrap(), before);
}

#[test]
fn a_build_of_a_revision_takes_the_registry_as_it_was_merged() {
    let folder = TempDir::new().unwrap();
    let demo = folder.path().join("demo");
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program)
            .current_dir(&demo)
            .args(arguments)
            .output()
            .unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    let program = env!("CARGO_BIN_EXE_countersign");
    assert!(
        Command::new(program)
            .current_dir(folder.path())
            .args(["init", "--demo"])
            .output()
            .unwrap()
            .status
            .success()
    );
    let git = |arguments: &[&str]| {
        let settings = ["-c", "user.name=Test", "-c", "user.email=test@example.com"];
        assert_eq!(run("git", &[&settings[..], arguments].concat()).0, 0, "{arguments:?}");
    };
    git(&["init", "-q", "-b", "main"]);
    git(&["add", "registry"]);
    git(&["commit", "-qm", "registry"]);
    let entry = demo.join("registry/plugins/acme-pdf.toml");
    let merged = fs::read_to_string(&entry).unwrap();
    fs::write(
        &entry,
        merged.replace("#withhold = [\"1.0.1\"]", "withhold = [\"1.1.0\"]"),
    )
    .unwrap();
    assert_ne!(fs::read_to_string(&entry).unwrap(), merged);

    let index =
        || -> Value { serde_json::from_str(&fs::read_to_string(demo.join("releases/index.json")).unwrap()).unwrap() };
    assert_eq!(
        run(program, &["build", "--rev", "main", "--check"]).0,
        1,
        "there is something to build"
    );
    assert!(!demo.join("releases/index.json").exists(), "a check writes nothing");
    assert_eq!(run(program, &["build", "--rev", "main"]).0, 0);
    assert_eq!(index()["plugins"]["acme-pdf"]["latest"], "1.1.0");
    assert_eq!(run(program, &["build", "--rev", "main", "--check"]).0, 0);
    let (exit, summary) = run(program, &["build", "--check"]);
    assert!(
        exit == 1 && summary.contains("acme-pdf") && summary.contains("1.1.0"),
        "{summary}"
    );
    let licenses = demo.join("registry/licenses/broken.toml");
    fs::write(&licenses, "[[license]]\nexpire = 2026-01-01\n").unwrap();
    let (exit, stderr) = fails_in(&demo, &["build", "--check"]);
    assert!(
        exit == 3 && stderr.contains("registry/licenses/broken.toml:2:1: unknown field"),
        "{stderr}"
    );
    fs::remove_file(licenses).unwrap();
    let (nobody, stdout) = std::io::pipe().unwrap();
    drop(nobody);
    let mut unread = Command::new(program);
    let unread = unread
        .current_dir(&demo)
        .args(["build", "--check", "--json"])
        .stdout(stdout)
        .output()
        .unwrap();
    assert_eq!(
        (
            unread.status.code(),
            String::from_utf8_lossy(&unread.stderr).contains("panicked")
        ),
        (Some(1), false)
    );
    assert_eq!(run(program, &["build", "--plugin", "acme-pdf"]).0, 0);
    assert_eq!(
        index()["plugins"]["acme-pdf"]["latest"],
        "1.0.0",
        "the working folder's entry withholds it"
    );
    assert_eq!(
        index()["plugins"]["acme-forms"]["latest"],
        "1.2.0",
        "the other plugin stayed"
    );
    let (exit, stderr) = fails_in(&demo, &["build", "--rev", "NOSUCH"]);
    let message = "error: DEMO/registry: its git repository has no commit \"NOSUCH\"\nhint: give an existing commit, branch or tag";
    assert!(
        exit == 3 && stderr.replace(demo.to_str().unwrap(), "DEMO").starts_with(message),
        "{stderr}"
    );
    let nowhere = Instance::new();
    let (exit, stderr) = fails(&nowhere, &["build", "--rev", "HEAD"]);
    assert_eq!(exit, 3);
    assert!(
        stderr.contains("not in a git repository\nhint: keep registry/ in a git repository"),
        "{stderr}"
    );
}

#[test]
fn a_folder_that_is_no_instance_is_said_to_be_none_and_is_left_alone() {
    let folder = TempDir::new().unwrap();
    let empty = folder.path().join("empty");
    let missing = folder.path().join("nosuch");
    fs::create_dir(&empty).unwrap();
    for path in [&empty, &missing] {
        for verb in [
            &["build"][..],
            &["serve"],
            &["license", "list"],
            &["bindings", "verify"],
            &["keys", "generate"],
            &["keys", "list"],
            &["doctor"],
        ] {
            let expected = format!(
                "error: {} is not an instance: it has no countersign.toml and no registry\n\
                 hint: give an instance's folder with -C, or create one with `countersign init`\n",
                path.display()
            );
            assert_eq!(fails_in(path, verb), (3, expected), "{verb:?}");
        }
        assert!(
            fails_in(path, &["preview", "--print"])
                .1
                .contains("\nhint: give an instance's folder with -C, or a plugin's")
        );
    }
    assert!(!missing.exists() && fs::read_dir(&empty).unwrap().count() == 0);

    let works = |arguments: &[&str]| {
        countersign_in(&missing)
            .args(arguments)
            .output()
            .unwrap()
            .status
            .success()
    };
    let key = folder.path().join("next.pem");
    assert!(works(&[
        "keys",
        "generate",
        "--bits",
        "2048",
        "--out",
        key.to_str().unwrap()
    ]));
    let instance = Instance::new();
    let parts = ["registry", "releases", "signing-key"].map(|part| {
        let path = instance.file(if part == "signing-key" {
            "keys/signing.pem"
        } else {
            part
        });
        (format!("COUNTERSIGN_{}", part.to_uppercase().replace('-', "_")), path)
    });
    let doctor = countersign_in(&missing).arg("doctor").envs(parts).output().unwrap();
    assert!(doctor.status.success(), "the environment says where everything is");
}

#[test]
fn what_is_no_address_network_date_or_time_is_reported_with_an_example() {
    let folder = TempDir::new().unwrap();
    let date = "expected a date such as 2027-12-31";
    let time = "expected a time such as 2027-01-31T12:00:00Z";
    let period = "expected a date such as 2027-12-31, a period such as +1y, +6m, +2w or +30d, or never";
    let listen = "expected an address or a name with a port, such as 127.0.0.1:8080, localhost:8080 or :8080";
    for (line, expected) in [
        ("serve --listen 8080", listen),
        (
            "serve --admin-listen on",
            "expected \"off\" or an address with a port, such as 127.0.0.1:8081",
        ),
        (
            "serve --proxies 127.0.0.1,proxy",
            "expected an address such as 127.0.0.1 or a network such as 10.0.0.0/8",
        ),
        ("license issue --module a --expires 31.12.2027", period),
        ("license renew 01234567 --expires 2027-02-29", period),
        ("license list --expires-before tomorrow", date),
        ("verify answer.json --key key.pem --at 2027-01-31", time),
    ] {
        let (exit, error) = fails_in(folder.path(), &line.split(' ').collect::<Vec<_>>());
        assert!(
            exit == 2 && error.lines().next().unwrap().ends_with(&format!(": {expected}")),
            "{line}: {error}"
        );
    }
}

#[test]
fn sites_of_a_license_in_a_file_are_released_and_moved_in_the_ledger_and_no_file_changes() {
    let [license, several, listing, revoked] = [(); 4].map(|()| License::new());
    let instance = Instance::with_licenses(&[
        license.toml(""),
        several.toml("sites = 3"),
        listing.toml("sites = 2\nhosts = [\"listed.com\"]"),
        revoked.toml("status = \"revoked\""),
    ]);
    let file = || fs::read_to_string(instance.file("registry/licenses/licenses.toml")).unwrap();
    let before = file();
    let shift = |license: &License, from: &str, to: &str| {
        let mut command = countersign(&instance);
        command.args(["license", "move", &license.id, "--from", from, "--to", to]);
        let output = command.output().unwrap();
        let both = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(both).unwrap())
    };
    let (code, output) = shift(&license, "a.com", "b.com");
    assert!(
        code == 3 && output.contains("the site that shall leave is not bound"),
        "{output}"
    );

    let server = Server::start(&instance);
    let code = |license: &License, site: &str| server.validate(license, site).code();
    assert_eq!(code(&license, "a.com"), "ok");
    // In force when the command returns, again and again.
    for (from, to) in [("a.com", "b.com"), ("b.com", "a.com"), ("a.com", "c.com")] {
        let expected = format!("License {} is now moved from {from} to {to}.\n", &license.id[..12]);
        assert_eq!(shift(&license, from, to), (0, expected));
        assert_eq!([code(&license, from), code(&license, to)], ["bound_elsewhere", "ok"]);
    }
    let (exit, output) = shift(&license, "a.com", "c.com");
    assert!(exit == 0 && output.contains("is already moved"), "{output}");
    for (license, from, to, reason) in [
        (&license, "x.com", "y.com", "the site that shall leave is not bound"),
        (&listing, "listed.com", "y.com", "licenses.toml binds listed.com (line "),
        (&revoked, "a.com", "y.com", "the license is revoked"),
    ] {
        let (exit, output) = shift(license, from, to);
        assert!(exit == 3 && output.contains(reason), "{output}");
    }
    // The vendor's moves are none of the customer's.
    let review = succeeds(&instance, &["review"]);
    assert!(!review.contains(&license.id[..12]), "{review}");

    for site in ["a.com", "b.com", "staging.b.com", "c.com"] {
        assert_eq!(code(&several, site), "ok");
    }
    succeeds(&instance, &["license", "release", &several.id, "--all"]);
    let shown: Value = serde_json::from_str(&succeeds(&instance, &["license", "show", &several.id, "--json"])).unwrap();
    let bindings = shown["bindings"].as_array().unwrap();
    assert!(
        bindings.len() == 4 && bindings.iter().all(|binding| binding["released"] == true),
        "{shown}"
    );
    for site in ["d.com", "e.com", "f.com"] {
        assert_eq!(code(&several, site), "ok");
    }
    assert_eq!(code(&several, "a.com"), "bound_elsewhere", "no 72 hours to come back");
    let (exit, stderr) = fails(&instance, &["license", "release", &listing.id, "--all"]);
    assert!(exit == 3 && stderr.contains("binds listed.com"), "{stderr}");
    assert_eq!(file(), before);
    assert!(server.stop().success());
    succeeds(&instance, &["bindings", "verify"]);
    // Without a server, the command does the same.
    let (exit, output) = shift(&license, "c.com", "d.com");
    assert!(exit == 0 && output.contains("is now moved"), "{output}");
}

/// The hosts and states in the table of `license show`.
fn shown_sites(instance: &Instance, license: &str) -> Vec<String> {
    let text = succeeds(instance, &["license", "show", license]);
    assert!(!text.contains("No site has validated it yet"), "{text}");
    let (_, table) = text.split_once("\n\n").unwrap();
    let rows = table.lines().skip(1).map(|row| {
        let mut cells = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
        format!("{} {}", cells.next().unwrap(), cells.nth(1).unwrap())
    });
    rows.collect()
}

#[test]
fn a_site_that_got_its_seat_by_host_or_move_is_shown_before_it_validates() {
    let in_file = License::new();
    let instance = Instance::issuing(&[in_file.toml("")]);
    let server = Server::start(&instance);
    let issue = ["license", "issue", "--module", "forms", "--expires", "+1y"];
    let issue = [&issue[..], &["--host", "a.com", "--json"]].concat();
    let issued: Value = serde_json::from_str(&succeeds(&instance, &issue)).unwrap();
    let ahead = License {
        key: issued["license_key"].as_str().unwrap().to_owned(),
        id: issued["id"].as_str().unwrap().to_owned(),
    };
    assert_eq!(shown_sites(&instance, &ahead.id), ["a.com bound ahead"]);
    assert_eq!(server.validate(&ahead, "a.com").code(), "ok");
    assert_eq!(server.validate(&ahead, "b.com").code(), "bound_elsewhere");
    assert_eq!(shown_sites(&instance, &ahead.id), ["a.com bound ahead"]);

    assert_eq!(server.validate(&in_file, "a.com").code(), "ok");
    let id = &in_file.id;
    succeeds(&instance, &["license", "move", id, "--from", "a.com", "--to", "b.com"]);
    assert_eq!(shown_sites(&instance, id), ["a.com released", "b.com bound"]);
}

#[test]
fn a_change_is_in_force_when_the_command_returns() {
    let instance = Instance::issuing(&[]);
    let server = Server::start(&instance);
    let run = |arguments: &[&str]| {
        serde_json::from_str::<Value>(&succeeds(&instance, &[arguments, &["--json"]].concat())).unwrap()
    };
    let issued = run(&["license", "issue", "--module", "forms", "--expires", "+1y"]);
    let text = |name: &str| issued[name].as_str().unwrap().to_owned();
    let license = License {
        key: text("license_key"),
        id: text("id"),
    };
    let code = |license: &License, site: &str| server.validate(license, site).code();
    for _ in 0..3 {
        assert_eq!(code(&license, "a.com"), "ok");
        let suspended = run(&["license", "suspend", &license.id]);
        assert_eq!(suspended["license"]["status"], "suspended");
        assert_eq!(code(&license, "a.com"), "suspended");
        run(&["license", "resume", &license.id]);
    }
    run(&["license", "move", &license.id, "--from", "a.com", "--to", "b.com"]);
    assert_eq!(code(&license, "a.com"), "bound_elsewhere");
    assert_eq!(server.validate(&license, "a.com").json()["bound_domain"], "b.com");
    run(&["license", "sites", &license.id, "2"]);
    assert_eq!([code(&license, "a.com"), code(&license, "b.com")], ["ok", "ok"]);
    let rekeyed = run(&["license", "rekey", &license.id]);
    let text = |name: &str| rekeyed[name].as_str().unwrap().to_owned();
    let new = License {
        key: text("license_key"),
        id: text("id"),
    };
    assert_eq!(text("replaces"), license.id);
    assert_eq!(
        [
            code(&license, "a.com"),
            code(&new, "c.com"),
            code(&new, "a.com"),
            code(&new, "b.com")
        ],
        ["revoked", "ok", "ok", "bound_elsewhere"]
    );
    let shown = |license: &License| succeeds(&instance, &["license", "show", &license.id]);
    assert!(
        shown(&new).contains(&format!("\nreplaces     {}\n", &license.id[..12])),
        "{}",
        shown(&new)
    );
    assert!(
        shown(&license).contains(&format!("\nreplaced by  {}\n", &new.id[..12])),
        "{}",
        shown(&license)
    );
}

#[test]
fn wait_returns_when_the_server_uses_the_files_and_says_why_it_does_not() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    let waits = || fails(&instance, &["wait", "1"]);
    let (exit, error) = waits();
    assert!(
        exit == 4 && error.starts_with("error: commands cannot reach the server\ncaused by: there is no "),
        "{error}"
    );
    let other = Instance::new();
    let registry = other.file("registry");
    let elsewhere = Server::start_with(&instance, &["--registry", registry.to_str().unwrap()]);
    let (exit, error) = waits();
    assert!(exit == 4 && error.contains("serves another registry: "), "{error}");
    elsewhere.kill();
    let (exit, error) = waits();
    assert!(
        exit == 4 && error.contains("\ncaused by: nobody listens on "),
        "{error}"
    );
    let mut early = countersign(&instance).arg("wait").spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let server = Server::start(&instance);
    assert!(early.wait().unwrap().success(), "it waits for a server that starts");
    for _ in 0..5 {
        for (status, code) in [("suspended", "suspended"), ("active", "ok")] {
            instance.write_licenses(&[license.toml(&format!("status = \"{status}\""))]);
            succeeds(&instance, &["wait"]);
            assert_eq!(server.validate(&license, "a.com").code(), code);
        }
    }
    instance.write("registry/plugins/acme-maps.toml", "modul = \"maps\"\n");
    let (exit, error) = waits();
    assert!(
        exit == 4 && error.contains("has not reloaded the registry within 1 s: ") && error.contains("modul"),
        "{error}"
    );
    assert!(
        error.starts_with("warning: the server does not reload the registry until"),
        "{error}"
    );
}

#[test]
fn no_command_writes_into_the_registry_and_a_declared_license_is_changed_by_a_person() {
    let [license, lined] = [License::new(), License::new()];
    let instance = Instance::issuing(&[license.toml("")]);
    let line = format!(
        r#"{{"id":"{}","expires":"2099-12-31","modules":{{"forms":[]}}}}"#,
        lined.id
    );
    instance.write("registry/licenses/export.jsonl", &format!("{line}\n"));
    let before = files_in(&instance.file("registry"));
    let refused = |arguments: &[&str], license: &License| {
        let (exit, stderr) = fails(
            &instance,
            &[&["license", arguments[0], &license.id], &arguments[1..]].concat(),
        );
        let declared = format!("license {} is declared in ", &license.id[..12]);
        assert!(exit == 3 && stderr.contains(&declared), "{stderr}");
        stderr
    };
    for (arguments, write) in [
        (&["suspend"][..], "write `status = \"suspended\"`"),
        (&["resume"], "write `status = \"active\"`"),
        (&["revoke"], "write `status = \"revoked\"`"),
        (&["renew", "--expires", "2098-01-01"], "write `expires = 2098-01-01`"),
        (&["sites", "5"], "write `sites = 5`"),
        (&["rekey"], "write `status = \"revoked\"`; or --adopt"),
    ] {
        let stderr = refused(arguments, &license);
        assert!(
            stderr.contains("hint: in ") && stderr.contains("licenses.toml:1 ") && stderr.contains(write),
            "{stderr}"
        );
    }
    let stderr = refused(&["renew", "--expires", "never"], &lined);
    assert!(
        stderr.contains("export.jsonl:1 write `\"expires\":\"9999-12-31\"`"),
        "{stderr}"
    );
    let issue = [
        "license",
        "issue",
        "--module",
        "forms=pdf",
        "--expires",
        "+1y",
        "--note",
        "Zoë's",
    ];
    succeeds(&instance, &issue);
    assert_eq!(files_in(&instance.file("registry")), before);

    // A declaration is pasted by a person; its key is not in what is redirected into the file.
    let output = countersign(&instance).args(issue).arg("--declare").output().unwrap();
    let [table, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    let key = stderr.lines().last().unwrap().to_owned();
    assert!(!table.contains(&key), "{table}");
    assert_eq!(files_in(&instance.file("registry")), before);
    instance.write("registry/licenses/new.toml", &table);
    let server = Server::start(&instance);
    let shown = succeeds(&instance, &["license", "show", &key]);
    assert!(
        shown.contains("note         Zoë's") && shown.contains("new.toml:1"),
        "{shown}"
    );
    let id = shown.lines().next().unwrap().rsplit(' ').next().unwrap().to_owned();
    let declared = License { key, id };
    assert_eq!(
        server.validate(&declared, "a.com").json()["features"]["forms"][0],
        "pdf"
    );
}

#[test]
fn a_declared_license_is_adopted_with_a_change_or_by_an_import_and_no_file_brings_it_back() {
    let all: Vec<License> = (0..4).map(|_| License::new()).collect();
    let [stolen, single, lost, other] = &all[..] else {
        unreachable!()
    };
    let table = |license: &License| license.toml("sites = 2\nnote = \"Anna's\"");
    let tables: Vec<_> = all.iter().map(table).collect();
    let instance = Instance::issuing(&tables);
    let server = Server::start(&instance);
    let code = |license: &License, site: &str| server.validate(license, site).code();
    for license in &all {
        assert_eq!(code(license, "a.com"), "ok");
    }
    // In force on return, and for good, whatever the file says.
    let suspend = [
        "license",
        "suspend",
        &stolen.id,
        "--adopt",
        "--reason",
        "The key was stolen",
    ];
    let stdout = succeeds(&instance, &suspend);
    assert_eq!(stdout, format!("License {} is now suspended.\n", &stolen.id[..12]));
    assert_eq!(code(stolen, "a.com"), "suspended");
    let changed = |license: &License| license.toml("sites = 3\nnote = \"Anna's\"");
    instance.write_licenses(&all.iter().map(changed).collect::<Vec<_>>());
    succeeds(&instance, &["wait"]);
    assert_eq!(
        [code(stolen, "a.com"), code(stolen, "b.com")],
        ["suspended", "suspended"]
    );
    let history = succeeds(&instance, &["license", "history", &stolen.id]);
    assert!(history.contains("The key was stolen"), "{history}");
    succeeds(&instance, &["license", "resume", &stolen.id]);
    assert_eq!(code(stolen, "a.com"), "ok", "its sites stay bound");

    // One by its id, and a new key for one.
    let adopt = |what: &str| succeeds(&instance, &["license", "import", what, "--from", "registry"]);
    assert!(adopt(&single.id).starts_with("1 license taken into the ledger, 0 there already.\n"));
    assert!(adopt(&single.id[..12]).starts_with("0 licenses taken into the ledger, 1 there already.\n"));
    let rekeyed = succeeds(&instance, &["license", "rekey", &lost.id, "--adopt"]);
    assert_eq!(code(lost, "a.com"), "revoked");
    let new = License {
        key: rekeyed.trim().to_owned(),
        id: String::new(),
    };
    assert_eq!(code(&new, "a.com"), "ok");

    // A whole file: the rest of it.
    let file = instance.file("registry/licenses/licenses.toml");
    let stdout = adopt(file.to_str().unwrap());
    assert!(
        stdout.starts_with("1 license taken into the ledger, 3 there already.\n"),
        "{stdout}"
    );
    instance.write_licenses(&["# none any more\n".to_owned()]);
    succeeds(&instance, &["wait"]);
    for license in [stolen, single, other] {
        let shown = succeeds(&instance, &["license", "show", &license.id]);
        assert!(shown.contains("\nnote         Anna's\n"), "{shown}");
    }
    assert_eq!(
        [code(other, "a.com"), code(single, "b.com"), code(other, "d.com")],
        ["ok", "ok", "ok"]
    );
    let (exit, stderr) = fails(
        &instance,
        &["license", "import", file.to_str().unwrap(), "--from", "registry"],
    );
    assert!(
        exit == 3 && stderr.contains("declares no license of this registry"),
        "{stderr}"
    );
    server.stop();
    // Without a server, the command adopts by itself.
    let late = License::new();
    instance.write_licenses(&[late.toml("")]);
    succeeds(&instance, &["license", "revoke", &late.id, "--adopt"]);
    let server = Server::start(&instance);
    assert_eq!(server.validate(&late, "a.com").code(), "revoked");
}

/// Something that is wrong with an instance, and verbs that all meet it.
struct Fault {
    what: &'static str,
    make: fn(&Instance),
    exit: i32,
    verbs: &'static [&'static str],
}

const FAULTS: &[Fault] = &[
    Fault {
        what: "a configuration with a mistake",
        make: |instance| instance.write("countersign.toml", "zzz = 1\n"),
        exit: 3,
        verbs: &[
            "build",
            "serve",
            "license list",
            "license revoke 00000000",
            "bindings export",
            "keys list",
            "doctor",
            "preview --print",
        ],
    },
    Fault {
        what: "a configuration that cannot be read",
        make: |instance| fs::create_dir(instance.file("countersign.toml")).unwrap(),
        exit: 4,
        verbs: &[
            "build",
            "serve",
            "license list",
            "bindings export",
            "keys list",
            "doctor",
            "preview --print",
        ],
    },
    Fault {
        what: "a license file with a mistake",
        make: |instance| instance.write("registry/licenses/b.toml", "x = 1\n"),
        exit: 3,
        verbs: &[
            "serve",
            "license list",
            "license show 00000000",
            "license revoke 00000000",
            "license issue --module forms --expires never",
            "build --check --offline",
            "doctor",
        ],
    },
    Fault {
        what: "no folder of licenses",
        make: |instance| fs::remove_dir_all(instance.file("registry/licenses")).unwrap(),
        exit: 3,
        verbs: &[
            "serve",
            "license list",
            "license show 00000000",
            "license revoke 00000000",
            "doctor",
        ],
    },
    Fault {
        what: "no signing key",
        make: |instance| fs::remove_file(instance.file("keys/signing.pem")).unwrap(),
        exit: 3,
        verbs: &["serve", "keys list", "keys publish", "doctor"],
    },
    Fault {
        what: "a signing key that others can read",
        make: |instance| {
            assert!(
                Command::new("chmod")
                    .arg("644")
                    .arg(instance.file("keys/signing.pem"))
                    .status()
                    .unwrap()
                    .success()
            );
        },
        exit: 3,
        verbs: &["serve", "keys list", "keys publish", "doctor"],
    },
    Fault {
        what: "a ledger that was changed",
        make: |instance| {
            instance.write_secret("store/ledger.jsonl", "{}\n{}\n");
        },
        exit: 3,
        verbs: &["serve", "bindings verify", "bindings export", "doctor"],
    },
];

#[test]
fn the_same_fault_has_the_same_exit_code_whatever_verb_meets_it() {
    for Fault {
        what,
        make,
        exit,
        verbs,
    } in FAULTS
    {
        for verb in *verbs {
            let instance = Instance::new();
            make(&instance);
            let (code, error) = fails(&instance, &verb.split(' ').collect::<Vec<_>>());
            assert_eq!(code, *exit, "{what}: {verb}: {error}");
        }
    }
}

#[test]
fn an_error_of_a_verb_that_was_asked_for_json_is_json_on_the_last_line_of_stderr() {
    let instance = Instance::new();
    for (line, exit, error) in [
        ("license show 00000000 --json", 3, "there is no license 00000000"),
        (
            "license list --json --nosuch",
            2,
            "unexpected argument '--nosuch' found",
        ),
        (
            "license issue --json --module form --expires never",
            3,
            "no plugin of the registry has the module form (did you mean \"forms\"?)",
        ),
        (
            "keys list --json --signing-key nosuch.pem",
            3,
            "nosuch.pem: there is no signing key",
        ),
        (
            "verify --json nosuch.json --key nosuch.pem",
            3,
            "nosuch.json: cannot be read",
        ),
    ] {
        let (code, stderr) = fails(&instance, &line.split(' ').collect::<Vec<_>>());
        let failure: Value =
            serde_json::from_str(stderr.lines().last().unwrap()).unwrap_or_else(|_| panic!("{line}: {stderr}"));
        assert_eq!(
            (code, &failure["exit_code"], &failure["error"]),
            (exit, &exit.into(), &error.into()),
            "{line}"
        );
        assert!(
            failure["caused_by"].is_array() && (failure["hint"].is_string() || failure["hint"].is_null()),
            "{failure}"
        );
        let members: Vec<&String> = failure.as_object().unwrap().keys().collect();
        assert_eq!(members, ["caused_by", "error", "exit_code", "hint"], "{line}");
    }
}

#[test]
fn no_command_s_help_shows_the_flags_for_paths_and_help_paths_shows_each_once() {
    let paths = Command::new(env!("CARGO_BIN_EXE_countersign"))
        .args(["help", "paths"])
        .output()
        .unwrap();
    let paths = String::from_utf8(paths.stdout).unwrap();
    for verb in [
        &["license", "issue"][..],
        &["build"],
        &["serve"],
        &["keys", "list"],
        &["doctor"],
        &["preview"],
    ] {
        let help = |flag: &str| {
            let output = Command::new(env!("CARGO_BIN_EXE_countersign"))
                .args(verb)
                .arg(flag)
                .output()
                .unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let short = help("-h");
        let long = help("--help");
        for path in [
            "--registry",
            "--releases",
            "--cache",
            "--public",
            "--store",
            "--signing-key",
            "--retired-keys",
        ] {
            assert!(!short.contains(&format!("{path} ")), "{verb:?}: {short}");
            assert!(!long.contains(&format!("{path} ")), "{verb:?}: {long}");
            assert_eq!(paths.matches(&format!("      {path} <")).count(), 1, "{paths}");
        }
        assert!(long.contains("countersign help paths"), "{verb:?}: {long}");
    }
}

#[test]
fn a_public_key_in_the_place_of_a_private_one_is_said_to_be_one_whatever_its_mode() {
    let instance = Instance::new();
    let public = &crate::support::instance::shared_keys().public;
    instance.write("next.pem", public);
    let next = instance.file("next.pem");
    let (exit, error) = fails(&instance, &["keys", "rotate", next.to_str().unwrap()]);
    assert!(
        exit == 3 && error.contains("this is a public key, but the private key is needed"),
        "{error}"
    );
    instance.write("keys/signing.pem", public);
    for verb in [&["serve"][..], &["keys", "list"]] {
        let (exit, error) = fails(&instance, verb);
        assert!(exit == 3 && error.contains("this is a public key"), "{verb:?}: {error}");
    }
}

#[test]
fn a_misnamed_file_among_the_plugins_is_reported_and_counts_as_none() {
    let instance = Instance::empty();
    instance.write("registry/plugins/Acme Forms.toml", "# planned\n");
    instance.write("registry/plugins/acme-maps.toml", "# planned\n");
    let output = countersign(&instance).args(["build", "--check"]).output().unwrap();
    let summary = String::from_utf8(output.stdout).unwrap();
    assert!(
        summary.contains("\n1 plugin, 1 file not named after a plugin, 0 tags: "),
        "{summary}"
    );
    assert!(summary.contains("its name must be <slug>.toml"), "{summary}");
}

#[test]
fn a_variable_that_is_no_setting_is_warned_of_and_its_value_is_not_shown() {
    let instance = Instance::new();
    let output = countersign(&instance)
        .args(["license", "list"])
        .env("COUNTERSIGN_GIT_TOKN", "s3cret")
        .output()
        .unwrap();
    let warning = "warning: the environment variable COUNTERSIGN_GIT_TOKN is not a setting (did you mean COUNTERSIGN_GIT_TOKEN?)\n";
    assert_eq!(
        (output.status.code(), &*String::from_utf8_lossy(&output.stderr)),
        (Some(0), warning)
    );
    assert!(succeeds(&instance, &["license", "list"]).starts_with("ID"));
}

#[test]
fn every_verb_has_help_with_examples_and_wrong_usage_exits_2() {
    let verbs = [
        "init",
        "build",
        "serve",
        "license",
        "bindings",
        "keys",
        "package",
        "verify",
        "doctor",
        "completions",
        "manual",
    ];
    let program = || Command::new(env!("CARGO_BIN_EXE_countersign"));
    let help = String::from_utf8(program().arg("--help").output().unwrap().stdout).unwrap();
    for verb in verbs {
        assert!(help.contains(&format!("\n  {verb} ")), "{verb} is listed");
        let help = String::from_utf8(program().args([verb, "--help"]).output().unwrap().stdout).unwrap();
        assert!(help.contains("Example"), "{verb} --help has examples");
        assert_eq!(
            program().args([verb, "--no-such-flag"]).output().unwrap().status.code(),
            Some(2),
            "{verb}"
        );
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = program().args(["completions", shell]).output().unwrap().stdout;
        assert!(
            String::from_utf8(script).unwrap().contains("_COUNTERSIGN_COMPLETE"),
            "{shell}"
        );
    }
    let page = String::from_utf8(program().arg("manual").output().unwrap().stdout).unwrap();
    assert!(page.contains(".SH NAME") && page.contains("countersign"));
}

/// What bash offers for the last of `words`, with the script that `completions bash` prints.
pub fn bash_offers(folder: &Path, words: &[&str]) -> Vec<String> {
    let program = Path::new(env!("CARGO_BIN_EXE_countersign"));
    let script = "source <(countersign completions bash); COMP_WORDS=(countersign \"$@\"); COMP_CWORD=$#
        _clap_complete_countersign countersign \"${@: -1}\" x; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let path = format!(
        "{}:{}",
        program.parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let mut command = Command::new("bash");
    command
        .args(["--norc", "-c", script, "bash"])
        .args(words)
        .current_dir(folder)
        .env("PATH", path);
    let output = command.env_remove("COUNTERSIGN_INSTANCE").output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let offered = String::from_utf8(output.stdout).unwrap();
    offered
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| line.trim().to_owned())
        .collect()
}

#[test]
fn bash_completes_verbs_plugins_modules_and_licenses() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    let folder = instance.path();
    assert_eq!(bash_offers(folder, &["lic"]), ["license"]);
    assert_eq!(bash_offers(folder, &["license", "susp"]), ["suspend"]);
    let slugs = bash_offers(folder, &["build", "--plugin", ""]);
    assert!(slugs.contains(&"acme-forms".to_owned()), "{slugs:?}");
    assert_eq!(bash_offers(folder, &["license", "issue", "--module", "for"]), ["forms"]);
    assert_eq!(
        bash_offers(folder, &["license", "show", &license.id[..4]]),
        [&license.id[..12]]
    );
    assert_eq!(
        bash_offers(folder, &["license", "show", &license.id[..14]]),
        [&license.id[..]]
    );

    let elsewhere = tempfile::tempdir().unwrap();
    let there = folder.to_str().unwrap();
    assert_eq!(
        bash_offers(elsewhere.path(), &["-C", there, "license", "show", &license.id[..4]]),
        [&license.id[..12]]
    );
    let offered = bash_offers(elsewhere.path(), &["license", "show", &license.id[..4]]);
    assert!(
        offered.is_empty(),
        "no instance, no candidates and no error: {offered:?}"
    );
    instance.write("registry/licenses/broken.toml", "[[license");
    assert!(
        bash_offers(folder, &["license", "show", &license.id[..4]]).is_empty(),
        "no error either"
    );
}

#[test]
fn licenses_are_listed_by_the_host_they_are_bound_to_and_times_in_the_future_are_shown() {
    let bound = License::new();
    let named = License::new();
    let ahead = License::new();
    let instance = Instance::with_licenses(&[
        bound.toml("sites = 2"),
        named.toml("hosts = [\"a.com\"]"),
        ahead.toml("released = { \"c.com\" = 2999-01-01T00:00:00Z }"),
    ]);
    let server = Server::start(&instance);
    assert_eq!(server.validate(&bound, "a.com").code(), "ok");
    assert_eq!(server.validate(&bound, "b.com").code(), "ok");
    server.stop();
    let listed = |host: &str| {
        let text = succeeds(&instance, &["license", "list", "--host", host, "--json"]);
        let found: Value = serde_json::from_str(&text).unwrap();
        let mut ids: Vec<String> = found
            .as_array()
            .unwrap()
            .iter()
            .map(|license| license["id"].as_str().unwrap().to_owned())
            .collect();
        ids.sort();
        ids
    };
    let mut both = [bound.id.clone(), named.id.clone()];
    both.sort();
    assert_eq!(listed("a.com"), both);
    assert_eq!(listed("b.com"), [&*bound.id]);
    assert!(listed("c.com").is_empty());
    succeeds(&instance, &["license", "release", &bound.id, "--host", "b.com"]);
    assert!(listed("b.com").is_empty(), "a released site is not bound");

    let shown: Value = serde_json::from_str(&succeeds(&instance, &["license", "show", &ahead.id, "--json"])).unwrap();
    let future = shown["future"].as_array().unwrap();
    assert!(
        future.len() == 1 && future[0].as_str().unwrap().contains("2999-01-01"),
        "{future:?}"
    );
}

#[test]
fn a_command_that_finds_nothing_to_do_says_so() {
    let instance = Instance::new();
    for (verb, reason) in [
        (["list"].as_slice(), "waits or is parked"),
        (&["retry"], "waits or is parked"),
        (&["drop"], "is parked"),
    ] {
        for (room, thing) in [("shop", "delivery"), ("mail", "mail"), ("webhook", "message")] {
            let verb = [&[room, "parked"], verb, &["--all"]].concat();
            assert_eq!(
                succeeds(&instance, &verb),
                format!("No {thing} {reason}.\n"),
                "{verb:?}"
            );
        }
    }
    for (room, thing) in [("shop", "a delivery"), ("mail", "a mail"), ("webhook", "a message")] {
        let (exit, stderr) = fails(&instance, &[room, "parked", "drop", "5f0c2b7"]);
        let expected = format!("5f0c2b7: expected 8 or more of the first digits of the id of {thing}");
        assert!(exit == 2 && stderr.contains(&expected), "{stderr}");
    }
}

#[test]
fn what_is_mistaken_is_reported_with_what_was_meant() {
    let instance = Instance::new();
    for (arguments, exit, expected) in [
        (
            &["import", "licenses.csv"][..],
            2,
            "there is 'countersign license import'",
        ),
        (
            &["trace", "nofile"],
            3,
            "hint: give a build id, or an archive or folder that can be read",
        ),
        (
            &["usage", "acme-none"],
            3,
            "there is no plugin acme-none\nhint: give the name of a file",
        ),
        (
            &["usage", "acme-bare"],
            3,
            "no release of acme-bare is published, and no site reports it\nhint: `countersign build` publishes",
        ),
        (
            &["license", "revoke", "0123456789ab"],
            3,
            "there is no license 0123456789ab",
        ),
    ] {
        let (code, stderr) = fails(&instance, arguments);
        assert!(
            code == exit && stderr.contains(expected),
            "{arguments:?}: {code} {stderr}"
        );
    }
    let (exit, stderr) = fails(&instance, &["license", "import", "nofile.csv", "--from", "edd"]);
    assert!(exit == 3 && stderr.contains("nofile.csv cannot be opened"), "{stderr}");
    instance.write("export.csv", "Key,Status\nx,active\n");
    let file = instance.file("export.csv");
    let (exit, stderr) = fails(
        &instance,
        &["license", "import", file.to_str().unwrap(), "--from", "edd"],
    );
    let expected = "no column for key (\"license key\"), status (\"license status\"), expires (\"expiration date\")";
    assert!(exit == 3 && stderr.contains(expected), "{stderr}");
}

#[test]
fn a_secret_that_is_missing_is_reported_with_the_command_that_makes_it() {
    let instance = Instance::new();
    let settings = "[shops.stripe]\n[webhooks.crm]\nurl = \"https://crm.example/in\"\n";
    instance.write("countersign.toml", settings);
    let doctor = countersign(&instance).args(["doctor"]).output().unwrap();
    let stdout = String::from_utf8(doctor.stdout).unwrap();
    let shops = instance.file("keys/shops");
    let shops = shops.display();
    let command = format!("(umask 077; mkdir -p {shops}; cat > {shops}/stripe.secret)");
    assert!(stdout.contains(&command), "{stdout}");
    assert!(
        stdout.contains("hint: make it: countersign webhook secret crm\n"),
        "{stdout}"
    );
    let written = Command::new("sh")
        .args(["-c", &format!("umask 022; echo whsec_of_the_test | {command}")])
        .status()
        .unwrap();
    assert!(written.success());
    let doctor = countersign(&instance).args(["doctor"]).output().unwrap();
    let stdout = String::from_utf8(doctor.stdout).unwrap();
    assert!(stdout.contains("stripe at /hooks/stripe"), "{stdout}");
}
