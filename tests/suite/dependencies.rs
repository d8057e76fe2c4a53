//! The rules of deny.toml for dependencies (licenses, sources, bans), checked with `cargo metadata`.
//!
//! `make deny` also runs cargo-deny, if that is installed. This test needs only cargo.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use toml::Table;

fn rules() -> Table {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deny.toml");
    fs::read_to_string(path).unwrap().parse().unwrap()
}

/// Whether a package of `cargo metadata` is the program or one of its crates: those have no source, and lie in this folder.
fn is_ours(package: &Value) -> bool {
    let manifest = package["manifest_path"].as_str().unwrap();
    package["source"].is_null() && Path::new(manifest).starts_with(env!("CARGO_MANIFEST_DIR"))
}

/// Every package of the targets that deny.toml names, without our own.
fn packages(rules: &Table) -> Vec<Value> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version", "1", "--locked", "--offline"]);
    for target in rules["graph"]["targets"].as_array().unwrap() {
        cargo.args(["--filter-platform", target.as_str().unwrap()]);
    }
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let found: Vec<_> = packages.filter(|package| !is_ours(package)).cloned().collect();
    assert!(found.len() > 100, "{}", found.len());
    found
}

/// Whether an SPDX expression can be met with the licenses that `is_allowed`. Older packages write `/` for `OR`.
fn is_met(expression: &str, is_allowed: &dyn Fn(&str) -> bool) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let met = any(&mut words, is_allowed);
    assert!(words.next().is_none(), "{expression}");
    met
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(words: &mut Words, is_allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut met = all(words, is_allowed);
    while words.next_if_eq(&"OR").is_some() {
        met |= all(words, is_allowed);
    }
    met
}

fn all(words: &mut Words, is_allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut met = one(words, is_allowed);
    while words.next_if_eq(&"AND").is_some() {
        met &= one(words, is_allowed);
    }
    met
}

fn one(words: &mut Words, is_allowed: &dyn Fn(&str) -> bool) -> bool {
    let word = words.next().expect("a license");
    if word == "(" {
        let met = any(words, is_allowed);
        assert_eq!(words.next(), Some(")"));
        return met;
    }
    match words.next_if_eq(&"WITH") {
        Some(_) => is_allowed(&format!("{word} WITH {}", words.next().expect("an exception"))),
        None => is_allowed(word),
    }
}

#[test]
fn an_expression_of_licenses_is_met_by_one_side_of_or_and_both_of_and() {
    let mit = |license: &str| license == "MIT";
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("MIT/Apache-2.0", true),
        ("Apache-2.0 OR MIT", true),
        ("Apache-2.0 AND MIT", false),
        ("(Apache-2.0 OR MIT) AND MIT", true),
        ("(Apache-2.0 OR MIT) AND Unicode-3.0", false),
        ("MIT WITH exception", false),
        ("GPL-2.0 OR Apache-2.0 AND MIT", false),
    ] {
        assert_eq!(is_met(expression, &mit), expected, "{expression}");
    }
}

#[test]
fn every_dependency_has_a_license_and_a_source_that_are_allowed_and_is_not_banned() {
    let rules = rules();
    let allowed = rules["licenses"]["allow"].as_array().unwrap();
    let is_allowed = |license: &str| allowed.iter().any(|entry| entry.as_str() == Some(license));
    let banned = rules["bans"]["deny"].as_array().unwrap();
    let mut wrong = Vec::new();
    for package in packages(&rules) {
        let named = format!(
            "{} {}",
            package["name"].as_str().unwrap(),
            package["version"].as_str().unwrap()
        );
        if !package["license"]
            .as_str()
            .is_some_and(|license| is_met(license, &is_allowed))
        {
            wrong.push(format!("{named}: license {}", package["license"]));
        }
        if package["source"] != "registry+https://github.com/rust-lang/crates.io-index" {
            wrong.push(format!("{named}: source {}", package["source"]));
        }
        if banned
            .iter()
            .any(|ban| ban["crate"].as_str() == package["name"].as_str())
        {
            wrong.push(format!("{named}: banned"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let wildcards = rules["bans"]["wildcards"].as_str();
    let manifest: Table = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
        .unwrap()
        .parse()
        .unwrap();
    for (name, dependency) in manifest["workspace"]["dependencies"].as_table().unwrap() {
        if dependency.get("path").is_some() {
            continue; // A crate of this workspace.
        }
        let version = dependency.as_str().or_else(|| dependency.get("version")?.as_str());
        assert!(
            version.is_some_and(|version| version != "*") || wildcards != Some("deny"),
            "{name}: any version"
        );
    }
}
