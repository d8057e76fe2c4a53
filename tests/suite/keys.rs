//! The signing key through every accident: a rotation that is killed, two at once, a key that is missing.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use serde_json::Value;

use crate::support::server::countersign;
use crate::support::{Instance, License, Server};

/// System calls that change something on the disk, and those that make it durable.
const CHANGES: &str = "openat,write,fsync,fdatasync,rename,renameat2,unlink,unlinkat,mkdir,chmod,fchmod,fchmodat";

/// Exit code and everything printed.
fn run(instance: &Instance, arguments: &[&str]) -> (Option<i32>, String) {
    let output = countersign(instance).args(arguments).output().unwrap();
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

/// The ids of the keys, the one that signs first, and whether each private key that no longer signs is kept.
fn keys(instance: &Instance) -> Vec<(String, bool)> {
    let (exit, listed) = run(instance, &["keys", "list", "--json"]);
    assert_eq!(exit, Some(0), "{listed}");
    let rows: Value = serde_json::from_str(&listed).unwrap();
    let row = |row: &Value| (row["key_id"].as_str().unwrap().to_owned(), row.get("private").is_some());
    rows.as_array().unwrap().iter().map(row).collect()
}

/// An instance that has a signing key, and `keys/next.pem` beside it; with both ids.
fn prepared() -> (Instance, String, String) {
    let instance = Instance::new();
    assert_eq!(run(&instance, &["keys", "publish"]).0, Some(0));
    let current = keys(&instance)[0].0.clone();
    let (exit, told) =
        run(&instance, &["keys", "generate", "--bits", "2048", "--out", next(&instance).to_str().unwrap()]);
    assert_eq!(exit, Some(0), "{told}");
    let next = told.lines().next().unwrap().rsplit_once(' ').unwrap().1.to_owned();
    (instance, current, next)
}

fn next(instance: &Instance) -> std::path::PathBuf {
    instance.file("keys/next.pem")
}

/// Every private key in `keys/`, by its bytes; what a killed command left half written is none.
fn private_keys(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.append(&mut private_keys(&entry.path()));
        } else if !entry.file_name().to_string_lossy().starts_with('.') {
            let text = fs::read_to_string(entry.path()).unwrap();
            found.extend(text.contains("PRIVATE KEY").then_some(text));
        }
    }
    found
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}

#[test]
fn a_rotation_that_is_killed_at_any_moment_leaves_a_key_that_works_and_loses_none() {
    let (template, old, new) = prepared();
    let both = private_keys(&template.file("keys"));
    assert_eq!(both.len(), 2);
    let mut signing = BTreeSet::new();
    let mut kills = 0;
    // Each kind of call is counted for itself, so each is gone through until a rotation comes to its end.
    for call in CHANGES.split(',') {
        for number in 1.. {
            let instance = Instance::empty();
            for part in ["keys", "public", "registry"] {
                copy(&template.file(part), &instance.file(part));
            }
            let plain = countersign(&instance);
            let rotation = Command::new("strace")
                .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")])
                .args(["-e", &format!("inject={call}:signal=KILL:when={number}")])
                .arg(plain.get_program())
                .args(plain.get_args())
                .args(["keys", "rotate"])
                .arg(next(&instance))
                .env_clear()
                .env("PATH", std::env::var_os("PATH").unwrap())
                .output()
                .unwrap();
            let left = keys(&instance);
            assert!(left[0].0 == old || left[0].0 == new, "{call} {number}: {left:?}");
            assert_eq!(private_keys(&instance.file("keys")), both, "{call} {number}: a private key is gone");
            signing.insert(left[0].0.clone());
            if rotation.status.success() {
                assert_eq!(left, [(new.clone(), false), (old.clone(), true)]);
                break;
            }
            kills += 1;
            // Whoever runs it again gets what was asked for, and can go back.
            if left[0].0 == old {
                let (exit, told) = run(&instance, &["keys", "rotate", next(&instance).to_str().unwrap()]);
                assert_eq!(exit, Some(0), "{call} {number}: {told}");
            }
            let (exit, told) = run(&instance, &["keys", "rotate", "--back"]);
            assert_eq!((exit, keys(&instance)[0].0.as_str()), (Some(0), old.as_str()), "{call} {number}: {told}");
        }
    }
    assert_eq!(signing, BTreeSet::from([old, new]), "some were killed before the key was in force, some behind it");
    assert!(kills > 30, "{kills}");
}

#[test]
fn of_rotations_at_once_each_is_done_or_told_and_no_key_is_lost() {
    let (instance, ..) = prepared();
    for number in 1..4 {
        let out = instance.file(&format!("keys/next{number}.pem"));
        assert_eq!(run(&instance, &["keys", "generate", "--bits", "2048", "--out", out.to_str().unwrap()]).0, Some(0));
    }
    let before = private_keys(&instance.file("keys"));
    let ended: Vec<_> = thread::scope(|scope| {
        let rotate = |name: &str| run(&instance, &["keys", "rotate", instance.file(name).to_str().unwrap()]);
        let names = ["keys/next.pem", "keys/next1.pem", "keys/next2.pem", "keys/next3.pem"];
        let started: Vec<_> = names.map(|name| scope.spawn(move || rotate(name))).into();
        started.into_iter().map(|rotation| rotation.join().unwrap()).collect()
    });
    let done = ended.iter().filter(|(exit, _)| *exit == Some(0)).count();
    for (exit, told) in &ended {
        let busy = told.contains("another command is changing the keys") && told.contains("\nhint: ");
        assert!(*exit == Some(0) || (*exit == Some(4) && busy), "{exit:?}: {told}");
    }
    assert!(done >= 1, "{ended:?}");
    assert_eq!(private_keys(&instance.file("keys")), before);
    assert_eq!(keys(&instance).len(), done + 1);
}

#[test]
fn a_missing_key_of_an_instance_that_had_one_is_restored_and_not_made_anew() {
    let license = License::new();
    let instance = Instance::with_licenses(&[license.toml("")]);
    assert_eq!(run(&instance, &["keys", "publish"]).0, Some(0));
    let id = keys(&instance)[0].0.clone();
    let server = Server::start(&instance);
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    server.stop();
    fs::remove_file(instance.file("keys/signing.pem")).unwrap();
    let restore = format!("restore {} from the backup (key {id})", instance.file("keys/signing.pem").display());
    for arguments in [
        &["serve", "--listen", "127.0.0.1:0", "--admin-listen", "off"][..],
        &["doctor"],
        &["keys", "list"],
        &["keys", "generate"],
    ] {
        let (exit, told) = run(&instance, arguments);
        assert!(exit != Some(0) && told.contains(&format!("hint: {restore}")), "{arguments:?}: {told}");
        assert!(!instance.file("keys/signing.pem").exists(), "{arguments:?}");
    }
    // The store alone shows it, too: nobody is bound without a key.
    let other = Instance::empty();
    copy(&instance.file("store"), &other.file("store"));
    let (exit, told) = run(&other, &["init"]);
    let hint =
        "keys/signing.pem from the backup (plugins pin it); if no backup has it: countersign init --old-key-is-lost";
    assert!(exit == Some(3) && told.contains(hint), "{told}");
    assert!(!other.file("keys").exists() && !other.file("registry").exists(), "nothing was made");
    assert_eq!(run(&other, &["init", "--old-key-is-lost"]).0, Some(0));
}
