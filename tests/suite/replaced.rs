//! A store that is replaced, truncated, appended to or removed while the server runs: the server acknowledges nothing
//! that the next start would not find, reports it, and recovers when the right file is back. No other process gets
//! the path meanwhile.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::start::ended;
use crate::support::server::{countersign, countersign_in};
use crate::support::{Instance, License, Server, eventually, get};

/// What is done to the ledger, and what brings the right one back.
struct Harm {
    name: &'static str,
    harm: fn(&Path),
    heal: fn(&Path),
}

const LEDGER: &str = "ledger.jsonl";

fn put_aside_back(store: &Path) {
    fs::rename(store.join("aside"), store.join(LEDGER)).unwrap();
}

/// In place, so that it is the same file again.
fn write_back(store: &Path) {
    let saved = fs::read(store.with_file_name("saved.jsonl")).unwrap();
    fs::write(store.join(LEDGER), saved).unwrap();
}

/// Removes a folder in which a server may still make files, which can make one removal fail.
fn remove_folder(folder: &Path) {
    eventually("the folder is gone", || {
        fs::remove_dir_all(folder).map_or_else(|e| e.kind() == ErrorKind::NotFound, |()| true)
    });
}

/// Each from outside, with a whole copy of the ledger at `saved.jsonl` beside the store.
const HARMS: [Harm; 6] = [
    Harm {
        name: "mv ledger.jsonl aside",
        harm: |store| fs::rename(store.join(LEDGER), store.join("aside")).unwrap(),
        heal: put_aside_back,
    },
    Harm {
        name: "mv copy ledger.jsonl",
        harm: |store| {
            fs::rename(store.join(LEDGER), store.join("aside")).unwrap();
            fs::copy(store.with_file_name("saved.jsonl"), store.join("copy")).unwrap();
            fs::rename(store.join("copy"), store.join(LEDGER)).unwrap();
        },
        heal: put_aside_back,
    },
    Harm {
        name: "cp older ledger.jsonl",
        harm: |store| {
            let saved = fs::read_to_string(store.with_file_name("saved.jsonl")).unwrap();
            fs::write(store.join(LEDGER), saved.split_inclusive('\n').next().unwrap()).unwrap();
        },
        heal: write_back,
    },
    Harm {
        name: ": >ledger.jsonl",
        harm: |store| fs::write(store.join(LEDGER), "").unwrap(),
        heal: write_back,
    },
    Harm {
        name: "echo >>ledger.jsonl",
        harm: |store| {
            OpenOptions::new()
                .append(true)
                .open(store.join(LEDGER))
                .unwrap()
                .write_all(b"{}\n")
                .unwrap();
        },
        heal: write_back,
    },
    Harm {
        name: "mv store elsewhere",
        harm: |store| {
            fs::rename(store, store.with_file_name("elsewhere")).unwrap();
            fs::create_dir(store).unwrap();
        },
        heal: |store| {
            fs::remove_dir(store).expect("nothing was written into the folder in its place");
            fs::rename(store.with_file_name("elsewhere"), store).unwrap();
        },
    },
];

fn is_failing(server: &Server) -> bool {
    server.part("store")["state"] == "failing" && get(server.admin, "/readyz").status == 503
}

/// An instance with a license for any number of sites, two of which are bound, and its server.
fn bound() -> (Instance, License, Server) {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("sites = \"unlimited\"")]);
    let server = Server::start(&instance);
    for site in ["a.com", "b.com"] {
        assert_eq!(server.validate(&license, site).code(), "ok");
    }
    fs::copy(instance.file("store/ledger.jsonl"), instance.file("saved.jsonl")).unwrap();
    (instance, license, server)
}

#[test]
fn nothing_is_acknowledged_while_the_ledger_is_another_one_and_everything_is_once_it_is_back() {
    for Harm { name, harm, heal } in HARMS {
        let (instance, license, server) = bound();
        let store = instance.file("store");
        harm(&store);
        let harmed = fs::read(store.join(LEDGER)).ok();
        for _ in 0..2 {
            let refused = server.validate(&license, "c.com");
            assert_eq!(
                (refused.status, refused.code().as_str()),
                (503, "store_unavailable"),
                "{name}"
            );
            assert_eq!(
                server.validate(&license, "a.com").code(),
                "ok",
                "{name}: bound sites are served"
            );
            assert_eq!(server.updates(&license, "a.com", "").status, 200, "{name}");
        }
        assert!(is_failing(&server), "{name}");
        assert_eq!(fs::read(store.join(LEDGER)).ok(), harmed, "{name}: nothing is written");
        heal(&store);
        eventually(name, || server.part("store")["state"] == "ok");
        assert_eq!(get(server.admin, "/readyz").status, 200, "{name}");
        assert_eq!(server.validate(&license, "d.com").code(), "ok", "{name}");
        let lines = server.log().lines().filter(|line| line.contains("ERROR")).count();
        assert_eq!(lines, 1, "{name}: {}", server.log());
        assert!(server.stop().success(), "{name}");
        let verified = countersign(&instance).args(["bindings", "verify"]).output().unwrap();
        let stdout = String::from_utf8(verified.stdout).unwrap();
        assert!(
            stdout.contains("bindings     3,") && stdout.contains("agrees"),
            "{name}: {stdout}"
        );
    }
}

#[test]
fn readyz_tells_of_a_ledger_that_is_another_one_also_while_nobody_binds() {
    for Harm { name, harm, .. } in HARMS {
        let (instance, _, server) = bound();
        harm(&instance.file("store"));
        eventually(name, || is_failing(&server));
        let detail = server.part("store")["detail"].as_str().unwrap().to_owned();
        assert!(
            detail.contains("ledger.jsonl") && detail.contains("until the right file is back"),
            "{name}: {detail}"
        );
        // Also at the end, with reports that nobody will find.
        assert_eq!(server.stop().code(), Some(4), "{name}");
    }
}

#[test]
fn a_file_that_comes_back_with_the_right_length_and_the_wrong_content_is_not_taken_for_the_ledger() {
    let (instance, license, server) = bound();
    let store = instance.file("store");
    let ledger = fs::read_to_string(store.join(LEDGER)).unwrap();
    fs::write(store.join(LEDGER), "").unwrap();
    assert_eq!(server.validate(&license, "c.com").status, 503);
    fs::write(store.join(LEDGER), ledger.replace("a.com", "x.com")).unwrap();
    assert_eq!(server.validate(&license, "c.com").status, 503);
    eventually("reported", || {
        let detail = server.part("store")["detail"].as_str().unwrap_or_default().to_owned();
        detail.contains("is back, but with different content: line 2 of the file")
    });
    fs::write(store.join(LEDGER), ledger).unwrap();
    eventually("the right one", || server.validate(&license, "c.com").code() == "ok");
}

/// A second server on the same path is refused.
fn assert_refused(instance: &Path, how: &str) {
    let mut second = countersign_in(instance);
    second.args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "off"]);
    let output = ended(second);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(4) && stderr.contains("in use by another process"),
        "{how}: {stderr}"
    );
}

#[test]
fn no_second_server_starts_where_the_store_was_removed_under_the_first() {
    type Removal = (&'static str, fn(&Path));
    let harms: [Removal; 5] = [
        ("rm -r store", remove_folder),
        ("rm -r store; mkdir store", |store| {
            remove_folder(store);
            fs::create_dir(store).unwrap();
        }),
        ("mv store elsewhere", |store| {
            fs::rename(store, store.with_file_name("elsewhere")).unwrap();
        }),
        ("the ledger alone is moved into a new folder", |store| {
            fs::rename(store, store.with_file_name("elsewhere")).unwrap();
            fs::remove_file(store.with_file_name(".store.lock")).unwrap();
            fs::create_dir(store).unwrap();
            fs::rename(store.with_file_name("elsewhere").join(LEDGER), store.join(LEDGER)).unwrap();
        }),
        ("rm -r store/*", |store| {
            remove_folder(&store.join("index"));
            fs::remove_file(store.join(LEDGER)).unwrap();
        }),
    ];
    for (how, harm) in harms {
        let (instance, license, server) = bound();
        harm(&instance.file("store"));
        assert_refused(instance.path(), how);
        assert_eq!(server.validate(&license, "a.com").code(), "ok", "{how}");
        server.kill();
        // Nobody has it any more, and what a killed process leaves behind holds nothing.
        remove_folder(&instance.file("store"));
        assert!(Server::start(&instance).stop().success(), "{how}");
        assert!(
            !instance.file(".store.lock").exists(),
            "{how}: the lock file goes with the server"
        );
    }
}

#[test]
fn a_lock_file_that_somebody_deletes_is_made_again() {
    let (instance, _, server) = bound();
    fs::remove_file(instance.file(".store.lock")).unwrap();
    eventually("the lock file", || instance.file(".store.lock").exists());
    remove_folder(&instance.file("store"));
    assert_refused(instance.path(), "with a lock file that was deleted before");
    drop(server);
}

#[test]
fn a_store_that_is_reached_by_another_name_is_the_same_store() {
    let (instance, license, server) = bound();
    let other = Instance::with_licenses(&[license.toml("sites = \"unlimited\"")]);
    symlink(instance.file("store"), other.file("store")).unwrap();
    assert_refused(other.path(), "through a symbolic link");
    server.stop();

    // And where the server came through the link, both the link's name and the folder's are held.
    let server = Server::start(&other);
    assert_eq!(server.validate(&license, "c.com").code(), "ok");
    fs::rename(instance.file("store"), instance.file("elsewhere")).unwrap();
    assert_refused(instance.path(), "the folder's name");
    fs::remove_file(other.file("store")).unwrap();
    fs::create_dir(other.file("store")).unwrap();
    assert_refused(other.path(), "the link's name");
    assert_eq!(
        server.validate(&license, "d.com").status,
        503,
        "it is not where the next start looks for it"
    );
}

#[test]
fn a_store_whose_parent_cannot_be_written_to_is_held_by_its_folder() {
    let (instance, license, server) = bound();
    server.stop();
    // A folder simulates a parent in which nothing can be made: root may write anywhere.
    fs::create_dir(instance.file(".store.lock")).unwrap();
    let server = Server::start(&instance);
    assert_eq!(server.validate(&license, "c.com").code(), "ok");
    assert_refused(instance.path(), "the folder's own lock");
    assert!(server.stop().success());
    assert!(instance.file(".store.lock").is_dir());
}
