//! `doctor` beside a running server: the state from `/readyz`, and its own checks.

use std::fs;
use std::time::Duration;

use serde_json::Value;

use crate::support::server::countersign;
use crate::support::shop::SECRET;
use crate::support::{Instance, License, Server, eventually, get};

/// Exit code and findings, each as `verdict part finding`.
fn doctor(instance: &Instance) -> (Option<i32>, Vec<String>) {
    let output = countersign(instance).args(["doctor", "--json"]).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let findings: Value = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout}"));
    let text = |finding: &Value, name: &str| finding[name].as_str().unwrap().to_owned();
    let line = |finding: &Value| ["verdict", "part", "finding"].map(|name| text(finding, name)).join(" ");
    (
        output.status.code(),
        findings.as_array().unwrap().iter().map(line).collect(),
    )
}

fn has(findings: &[String], start: &str) -> bool {
    findings.iter().any(|finding| finding.starts_with(start))
}

#[test]
fn doctor_gives_the_verdict_of_readyz_and_its_exit_code() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    let server = Server::start_limitable(&instance, &[]);
    let version = env!("CARGO_PKG_VERSION");
    let (exit, findings) = doctor(&instance);
    assert!(
        exit == Some(0) && has(&findings, &format!("ok server ready, version {version}")),
        "{findings:#?}"
    );

    // The files are as they should be: only the server knows that it cannot write.
    server.limit_files("0");
    eventually("the store fails", || {
        server.validate(&license, "a.com");
        get(server.admin, "/readyz").status == 503
    });
    let (exit, findings) = doctor(&instance);
    assert!(
        exit == Some(3) && has(&findings, &format!("broken server not ready, version {version}")),
        "{findings:#?}"
    );
    assert!(has(&findings, "broken server store is failing since "), "{findings:#?}");
    server.limit_files("unlimited");
    eventually("the store is well again", || get(server.admin, "/readyz").status == 200);
    assert_eq!(doctor(&instance).0, Some(0));

    // A part whose file is broken is served from its last good version: ready, and a restart would fail.
    instance.write("registry/licenses/licenses.toml", "[[license]\n");
    eventually("the registry is stale", || server.part("registry")["state"] == "stale");
    assert_eq!(get(server.admin, "/readyz").status, 200);
    let (exit, findings) = doctor(&instance);
    assert!(exit == Some(3) && has(&findings, "broken registry "), "{findings:#?}");
    assert!(
        has(&findings, "ok server ready") && has(&findings, "warning server registry is stale since "),
        "{findings:#?}"
    );
}

#[test]
fn doctor_tells_a_server_that_does_not_answer_from_none_and_from_another_instances() {
    let instance = Instance::new();
    let (exit, findings) = doctor(&instance);
    assert!(
        exit == Some(0) && has(&findings, "warning server not running"),
        "{findings:#?}"
    );
    let server = Server::start(&instance);
    let other = Instance::new();
    fs::create_dir(other.file("store")).unwrap();
    fs::write(other.file("store/ledger.jsonl"), "").unwrap();
    let socket = instance.file("store/admin.sock");
    other.write("countersign.toml", &format!("serve.admin_socket = {socket:?}\n"));
    let (exit, findings) = doctor(&other);
    assert!(
        exit == Some(3)
            && findings
                .iter()
                .any(|found| found.contains("is not the one of this store")),
        "{findings:#?}"
    );
    // As with an older server, or one whose unit lacks AF_UNIX.
    let aside = instance.file("store/aside.sock");
    fs::rename(&socket, &aside).unwrap();
    let (exit, findings) = doctor(&instance);
    let missing = format!(
        "warning server running, but not checked: commands cannot reach the server: there is no {}",
        socket.display()
    );
    assert!(exit == Some(0) && has(&findings, &missing), "{findings:#?}");
    fs::rename(&aside, &socket).unwrap();
    server.signal("STOP");
    let (exit, findings) = doctor(&instance);
    server.signal("CONT");
    assert!(
        exit == Some(3) && has(&findings, "broken server running, but not checked: the server on "),
        "{findings:#?}"
    );
    server.kill();
    assert!(socket.exists(), "a killed server leaves it");
    assert!(has(&doctor(&instance).1, "warning server not running"));
}

#[test]
fn doctor_verifies_every_manifest_and_not_only_those_that_sites_get() {
    let instance = Instance::with_licenses(&[License::new().toml("")]);
    instance.publish_all("releases", "1.3.0", &[("1.3.0", false), ("1.2.0", false)]);
    let (_, findings) = doctor(&instance);
    assert!(
        has(&findings, "ok catalog 2 releases, every digest verified"),
        "{findings:#?}"
    );
    instance.write("releases/acme-forms/1.2.0.json", "{}");
    let (exit, findings) = doctor(&instance);
    assert_eq!(exit, Some(3));
    let damaged =
        |finding: &String| finding.starts_with("broken catalog ") && finding.contains("1.2.0.json: its SHA-256");
    assert!(findings.iter().any(damaged), "{findings:#?}");
}

#[test]
fn doctor_looks_at_repositories_free_space_and_overdue_keys() {
    let instance = Instance::new();
    let (exit, findings) = doctor(&instance);
    let missing = format!(
        "warning source {}/src: not a readable git repository",
        instance.path().display()
    );
    assert!(
        exit == Some(0)
            && findings
                .iter()
                .any(|found| found.replace("registry/plugins/../../", "") == missing
                    || found.starts_with("warning source ")),
        "{findings:#?}"
    );
    assert!(has(&findings, "ok space store, releases, keys: "), "{findings:#?}");
    let made = std::process::Command::new("git")
        .args(["init", "-q"])
        .arg(instance.file("src"))
        .status()
        .unwrap();
    assert!(made.success());
    assert!(has(&doctor(&instance).1, "ok source 1 repository can be read"));

    assert!(!findings.iter().any(|found| found.contains("killed")), "{findings:#?}");
    for left in [
        "keys/.signing.pem.0123456789abcdef.tmp",
        "keys/retired/.a.private.pem.0123456789abcdef.tmp",
    ] {
        instance.write_secret(left, "half a key");
        let warning = format!(
            "warning key {}: left by a command that was killed",
            instance.file(left).display()
        );
        assert!(has(&doctor(&instance).1, &warning), "{left}");
        fs::remove_file(instance.file(left)).unwrap();
    }

    let rotate = || {
        countersign(&instance)
            .args(["keys", "generate", "--rotate", "--bits", "2048"])
            .status()
            .unwrap()
    };
    assert!(rotate().success());
    let retired = fs::read_dir(instance.file("keys/retired"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let private = retired
        .into_iter()
        .find(|path| path.to_string_lossy().ends_with(".private.pem"))
        .unwrap();
    let kept = format!(
        "ok key {}: retired 0 days ago; `keys rotate --back` signs with it again",
        private.display()
    );
    assert!(has(&doctor(&instance).1, &kept));
    let age = Duration::from_secs(91 * 24 * 60 * 60);
    let then = std::time::SystemTime::now() - age;
    fs::File::options()
        .write(true)
        .open(&private)
        .unwrap()
        .set_modified(then)
        .unwrap();
    let (exit, findings) = doctor(&instance);
    let overdue = format!("warning key {}: retired 91 days ago, more than 90", private.display());
    assert!(exit == Some(0) && has(&findings, &overdue), "{findings:#?}");
    instance.write("countersign.toml", "[keys]\nkeep_retired_days = 91\n");
    assert!(!has(&doctor(&instance).1, &overdue));
    instance.write("countersign.toml", "");
    let removed = countersign(&instance)
        .args(["keys", "remove", "--overdue"])
        .output()
        .unwrap();
    assert!(String::from_utf8(removed.stdout).unwrap().contains("removed") && !private.exists());
}

/// An import of two licenses with a mistyped module, and offers with mistakes.
fn with_mistyped_names() -> Instance {
    let mistyped = License::new().toml("").replace("forms", "froms");
    let revoked = License::new().toml("status = 'revoked'").replace("forms", "gone");
    let instance = Instance::with_licenses(&[mistyped, revoked]);
    let offer = |shop: &str, module: &str, product: &str| {
        format!("shop = '{shop}'\nproducts = ['{product}']\nperiod = '1y'\n[modules]\n{module} = []\n")
    };
    instance.write("registry/offers/right.toml", &offer("stripe", "forms", "a"));
    instance.write("registry/offers/elsewhere.toml", &offer("strpe", "forms", "b"));
    instance.write("registry/offers/mistyped.toml", &offer("stripe", "acme-froms", "c"));
    instance.write("countersign.toml", "[shops.stripe]\n");
    let rows = ["a", "b"].map(|end| format!("0123456789abcdef0123456789abcde{end},2099-01-01,froms\n"));
    instance.write("export.csv", &format!("key,expires,modules\n{}", rows.concat()));
    instance
}

#[test]
fn doctor_warns_of_modules_that_no_plugin_has_of_shops_without_a_table_and_of_keys_that_are_refused() {
    let instance = with_mistyped_names();
    instance.write_secret("keys/shops/stripe.secret", SECRET);
    let server = Server::start(&instance);
    let imported = countersign(&instance)
        .args(["license", "import", "--from", "csv", "--json"])
        .arg(instance.file("export.csv"))
        .output()
        .unwrap();
    let stderr = String::from_utf8(imported.stderr).unwrap();
    let note = "no plugin of the registry has the module of lines 2, 3 (did you mean \"forms\"?)";
    assert!(stderr.contains(&format!("note: {note}\n")), "{stderr}");
    let document: Value = serde_json::from_slice(&imported.stdout).unwrap();
    assert!(
        document["notes"].as_array().unwrap().contains(&note.into()),
        "{document}"
    );

    assert!(server.stop().success());

    let (_, findings) = doctor(&instance);
    let expected = [
        "warning license 3 licenses grant the module \"froms\", but no plugin belongs to it (did you mean \"forms\"?)",
        "warning license 2 licenses with keys that were made elsewhere, and the server refuses",
        "warning offer offer elsewhere is for the shop \"strpe\", but countersign.toml has no table [shops.strpe] (did you mean \"stripe\"?)",
        "warning offer offer mistyped grants the module \"acme-froms\", but no plugin belongs to it",
    ];
    for warned in expected {
        assert!(has(&findings, warned), "{warned}: {findings:#?}");
    }
    let warned = findings
        .iter()
        .filter(|finding| finding.starts_with("warning license ") || finding.starts_with("warning offer "));
    assert_eq!(warned.count(), expected.len(), "{findings:#?}");

    instance.write("countersign.toml", "[shops.stripe]\n[serve]\nforeign_keys = true\n");
    let (_, findings) = doctor(&instance);
    assert!(!has(&findings, expected[1]), "{findings:#?}");
}

#[test]
fn shop_offers_warns_of_modules_and_shops_that_do_not_exist() {
    let instance = with_mistyped_names();
    let output = countersign(&instance)
        .args(["shop", "offers", "--json"])
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let warnings: Vec<_> = stderr.lines().filter(|line| line.starts_with("warning: ")).collect();
    assert_eq!(
        warnings,
        [
            "warning: offer elsewhere is for the shop \"strpe\", but countersign.toml has no table [shops.strpe] (did you mean \"stripe\"?)",
            "warning: offer mistyped grants the module \"acme-froms\", but no plugin belongs to it",
        ]
    );
    instance.write("registry/plugins/broken.toml", "x = 1\n");
    let output = countersign(&instance).args(["shop", "offers"]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        stderr.contains("no plugin belongs to it; 1 plugin file cannot be read\n"),
        "{stderr}"
    );
}

/// A build that skipped the only tag would skip it again: `doctor` gives the reason and does not ask for another build.
#[test]
fn of_a_plugin_without_a_release_doctor_says_what_a_build_says() {
    let instance = Instance::empty();
    let git = |arguments: &[&str]| {
        let mut command = std::process::Command::new("git");
        let command = command.arg("-C").arg(instance.file("acme"));
        let identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"];
        let output = command.args(identity).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    fs::create_dir(instance.file("acme")).unwrap();
    git(&["init", "-q"]);
    let header = |version: &str| format!("<?php\n/*\n * Plugin Name: Acme\n * Version: {version}\n */\n");
    instance.write("acme/acme.php", &header("1.0"));
    git(&["add", "-A"]);
    git(&["commit", "-qm", "Begin"]);
    instance.write("registry/plugins/acme.toml", "repository = \"../../acme\"\n");
    instance.write("registry/licenses/licenses.toml", "\n");
    let built = |exit: i32| {
        let output = countersign(&instance).args(["build"]).output().unwrap();
        assert_eq!(output.status.code(), Some(exit), "{output:?}");
    };
    let finding = || {
        let output = countersign(&instance).args(["doctor", "--json"]).output().unwrap();
        let findings: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        let of_plugin = |finding: &&Value| finding["finding"].as_str().unwrap().starts_with("acme ");
        findings.iter().find(of_plugin).map(|finding| {
            let text = |name: &str| finding[name].as_str().unwrap().to_owned();
            (text("finding"), text("hint"))
        })
    };
    built(0);
    let (reason, hint) = finding().unwrap();
    assert_eq!(
        reason,
        "acme has a source and nothing to offer: its repository has no tags"
    );
    assert!(hint.starts_with("tag a release"), "{hint}");

    git(&["tag", "1.1"]);
    built(0);
    let (reason, hint) = finding().unwrap();
    let expected = "tag 1.1: the header has another version: 1.0 in acme.php";
    assert_eq!(reason, format!("acme has a source and nothing to offer: {expected}"));
    assert_eq!(hint, "correct it; `countersign build --plugin acme` lists every tag");

    git(&["tag", "1.0"]);
    let (reason, hint) = finding().unwrap();
    assert_eq!(reason, "acme has a source and nothing to offer");
    assert_eq!(hint, "run `countersign build --plugin acme`");
    built(0);
    let (reason, hint) = finding().unwrap();
    assert_eq!(
        reason,
        format!("acme offers an older release than its newest tag: {expected}")
    );
    assert_eq!(hint, "correct it; `countersign build --plugin acme` lists every tag");
    git(&["tag", "-d", "1.1"]);
    assert_eq!(finding(), None);
}
