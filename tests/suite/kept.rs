//! Instances that earlier versions left: store, keys, registry, releases and settings. Each later program has to open them.
//!
//! An archive in `tests/data/kept/` is of the version in its name. `cargo test --test suite kept::keep -- --ignored` makes the one of this
//! version; a release adds it (RELEASING.md).

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::support::server::{Server, countersign_in};

const HOST: &str = "shop.kept.example";
const CUSTOMER: &str = "anna@kept.example";
const REASON: &str = "paid by an invoice";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/kept")
}

fn done(instance: &Path, arguments: &[&str]) -> Output {
    let output = countersign_in(instance).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?} {output:?}");
    output
}

fn json_of(instance: &Path, arguments: &[&str]) -> Value {
    let output = done(instance, &[arguments, &["--json"]].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {output:?}"))
}

fn tar(arguments: &[&str]) {
    assert!(Command::new("tar").args(arguments).status().unwrap().success());
}

fn validate(server: &Server, kept: &Value, host: &str) -> String {
    let question = json!({ "license_key": kept["key"], "site_url": format!("https://{host}") });
    server.ask(&question).code()
}

#[test]
#[ignore = "writes into the repository"]
fn keep() {
    let work = tempfile::tempdir().unwrap();
    let instance = work.path().join("instance");
    done(work.path(), &["init", "--demo", instance.to_str().unwrap()]);
    done(&instance, &["build"]);
    let issue = [
        "license",
        "issue",
        "--module",
        "acme-forms",
        "--expires",
        "never",
        "--sites",
        "2",
    ];
    let issued = json_of(
        &instance,
        &[&issue[..], &["--customer", CUSTOMER, "--note", "a friend"]].concat(),
    );
    let id = issued["id"].as_str().unwrap();
    let mut kept = json!({ "key": issued["license_key"], "license": id });
    let server = Server::start_in(&instance, &[]);
    assert_eq!(validate(&server, &kept, HOST), "ok");
    for step in [&["suspend", id, "--reason", REASON][..], &["resume", id]] {
        done(&instance, &[&["license"], step].concat());
    }
    let report = json_of(&instance, &["usage", "--history"]);
    kept["history_days"] = json!(report["days"].as_array().map_or(0, Vec::len));
    assert!(server.stop().success());
    fs::write(instance.join("kept.json"), kept.to_string()).unwrap();
    fs::create_dir_all(folder()).unwrap();
    let archive = folder().join(format!("{}.tar.gz", env!("CARGO_PKG_VERSION")));
    tar(&["-czf", archive.to_str().unwrap(), "-C", instance.to_str().unwrap(), "."]);
}

#[test]
fn what_earlier_versions_left_is_opened_and_works() {
    let archives = fs::read_dir(folder()).unwrap();
    let archives: Vec<_> = archives.map(|entry| entry.unwrap().path()).collect();
    assert!(!archives.is_empty());
    for archive in archives {
        let work = tempfile::tempdir().unwrap();
        let instance = work.path();
        tar(&["-xzf", archive.to_str().unwrap(), "-C", instance.to_str().unwrap()]);
        let kept: Value = serde_json::from_reader(File::open(instance.join("kept.json")).unwrap()).unwrap();
        let id = kept["license"].as_str().unwrap();

        // Commands read it before any server did.
        done(instance, &["bindings", "verify"]);
        let found = json_of(instance, &["license", "list", "--find", "anna@kept"]);
        assert_eq!(found[0]["id"], id, "{found}");
        let history = json_of(instance, &["license", "history", id]);
        let events = history["events"].as_array().unwrap();
        assert!(events.iter().any(|event| event["reason"] == REASON), "{history}");
        let noted = json_of(instance, &["license", "list", "--note", "a friend"]);
        assert_eq!(noted[0]["id"], id, "{noted}");

        // A server serves it: the site keeps its seat and gets a signed update, and another one gets the second seat.
        let server = Server::start_in(instance, &[]);
        for host in [HOST, "second.kept.example"] {
            assert_eq!(validate(&server, &kept, host), "ok", "{}", server.log());
        }
        assert_eq!(validate(&server, &kept, "third.kept.example"), "bound_elsewhere");
        let sites = json_of(instance, &["license", "show", id]);
        assert_eq!(sites["bindings"].as_array().unwrap().len(), 2, "{sites}");
        let report = json_of(instance, &["usage", "--history"]);
        let days = report["days"].as_array().map_or(0, Vec::len) as u64;
        assert!(days >= kept["history_days"].as_u64().unwrap(), "{report}");
        assert!(server.stop().success());

        // What is published stays, byte for byte.
        let index = fs::read(instance.join("releases/index.json")).unwrap();
        done(instance, &["build"]);
        assert_eq!(fs::read(instance.join("releases/index.json")).unwrap(), index);
    }
}

#[test]
fn the_long_version_says_the_commit_and_the_formats() {
    let version = |flag: &str| {
        let output = countersign_in(Path::new(".")).arg(flag).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let short = format!("countersign {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(version("-V"), short);
    let long = version("--version");
    let lines: Vec<_> = long
        .strip_prefix(&short)
        .unwrap_or_else(|| panic!("{long}"))
        .lines()
        .collect();
    assert!(lines[0].starts_with("commit "), "{long}");
    let formats = lines[1].strip_prefix("formats: ").unwrap_or_else(|| panic!("{long}"));
    let names: Vec<_> = formats
        .split(", ")
        .filter_map(|format| format.split_once(' '))
        .collect();
    assert_eq!(
        names.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        ["ledger", "tables", "manifests", "packages"]
    );
    assert!(names.iter().all(|(_, number)| number.parse::<u32>().is_ok()), "{long}");
}
