//! An instance whose signing key is to be rotated, and the content of its `keys/` folder.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::Instance;
use super::server::countersign;

/// Exit code and everything printed.
pub fn run(instance: &Instance, arguments: &[&str]) -> (Option<i32>, String) {
    let output = countersign(instance).args(arguments).output().unwrap();
    (
        output.status.code(),
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap(),
    )
}

/// The ids of the keys, the one that signs first, and whether each private key that no longer signs is kept.
pub fn keys(instance: &Instance) -> Vec<(String, bool)> {
    let (exit, listed) = run(instance, &["keys", "list", "--json"]);
    assert_eq!(exit, Some(0), "{listed}");
    let rows: Value = serde_json::from_str(&listed).unwrap();
    let row = |row: &Value| (row["key_id"].as_str().unwrap().to_owned(), row.get("private").is_some());
    rows.as_array().unwrap().iter().map(row).collect()
}

/// An instance that has a signing key, and `keys/next.pem` beside it; with both ids.
pub fn prepared() -> (Instance, String, String) {
    let instance = Instance::new();
    assert_eq!(run(&instance, &["keys", "publish"]).0, Some(0));
    let current = keys(&instance)[0].0.clone();
    let (exit, told) = run(
        &instance,
        &[
            "keys",
            "generate",
            "--bits",
            "2048",
            "--out",
            next(&instance).to_str().unwrap(),
        ],
    );
    assert_eq!(exit, Some(0), "{told}");
    let next = told.lines().next().unwrap().rsplit_once(' ').unwrap().1.to_owned();
    (instance, current, next)
}

pub fn next(instance: &Instance) -> PathBuf {
    instance.file("keys/next.pem")
}

/// Every private key in `keys/`, by its bytes; what a killed command left half written is none.
pub fn private_keys(folder: &Path) -> BTreeSet<String> {
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

pub fn copy(from: &Path, to: &Path) {
    assert!(
        Command::new("cp")
            .arg("-a")
            .arg(from)
            .arg(to)
            .status()
            .unwrap()
            .success()
    );
}
