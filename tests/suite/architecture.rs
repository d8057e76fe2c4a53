//! The arrows between modules, and which file may name which library.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What each module may import of ours. Whatever is not listed may import nothing of ours.
const ARROWS: [(&str, &[&str]); 13] = [
    ("model", &[]),
    ("durable_file", &[]),
    ("regular_file", &[]),
    ("counting", &[]),
    ("registry", &["model", "durable_file", "regular_file"]),
    ("catalog", &["model", "counting", "regular_file"]),
    ("store", &["model", "durable_file", "regular_file", "counting"]),
    ("config", &["model", "regular_file"]),
    ("build", &["registry", "catalog", "model", "durable_file", "regular_file"]),
    ("serve", &["registry", "catalog", "store", "config", "model", "counting", "regular_file"]),
    ("preview", &["build", "registry", "catalog", "model", "regular_file"]),
    (
        "commands",
        &[
            "build",
            "preview",
            "serve",
            "registry",
            "catalog",
            "store",
            "config",
            "model",
            "durable_file",
            "regular_file",
        ],
    ),
    ("cli", &["commands", "config", "model"]),
];

/// Where a library's name may stand.
const LIBRARIES: [(&str, &[&str]); 8] = [
    ("git2::", &["src/build/repository.rs", "src/registry/git.rs", "src/commands/init/demo_repository.rs"]),
    ("sled::", &["src/store/sled.rs"]),
    ("warp::", &["src/serve/", "src/preview/"]),
    ("askama::", &["src/preview/"]),
    ("rustls::", &["src/serve/tls.rs"]),
    ("prometheus_client::", &["src/serve/exposition.rs"]),
    // A site gets a manifest from the catalog, against an entitlement.
    ("published_manifest", &["src/catalog.rs", "src/preview/"]),
    ("RsaPrivateKey", &["src/serve/signer.rs", "src/commands/keys/make.rs"]),
];

fn sources() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![PathBuf::from("src")];
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            if TESTS.iter().any(|name| path.ends_with(name)) {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.insert(path.display().to_string(), fs::read_to_string(entry.path()).unwrap());
            }
        }
    }
    assert!(found.len() > 30, "the sources were found");
    found
}

/// Modules of tests, in files and folders of their own.
const TESTS: [&str; 4] = ["tests", "tests.rs", "testing.rs", "fixture.rs"];

/// Code without comments and without the tests at the foot of a file.
fn code(source: &str) -> String {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn module(path: &str) -> &str {
    let inside = path.strip_prefix("src/").unwrap();
    inside.split(['/', '.']).next().unwrap()
}

#[test]
fn arrows_between_modules_run_one_way() {
    for (path, source) in sources() {
        let module = module(&path);
        if matches!(module, "main" | "lib") {
            continue;
        }
        let allowed = ARROWS.iter().find(|(name, _)| *name == module).map_or(&[][..], |(_, allowed)| *allowed);
        let code = code(&source);
        let imported = code.split("crate::").skip(1).flat_map(|rest| {
            let rest = rest
                .strip_prefix('{')
                .map_or(rest.split(';').next().unwrap(), |group| group.split("};").next().unwrap());
            let first = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap();
            [first.to_owned()]
        });
        for target in imported {
            let fine = target == module || allowed.contains(&target.as_str());
            assert!(fine, "{path} imports crate::{target}; {module} may import {allowed:?}");
        }
        assert!(!code.contains("use crate::{"), "{path}: one `use crate::` a module, so that arrows can be read");
    }
}

#[test]
fn each_library_is_named_only_where_it_belongs() {
    for (path, source) in sources() {
        for (library, allowed) in LIBRARIES {
            let named = code(&source).contains(library);
            assert!(!named || allowed.iter().any(|place| path.starts_with(place)), "{path} names {library}");
        }
    }
}

#[test]
fn every_file_opens_with_what_it_owns() {
    for (path, source) in sources() {
        assert!(source.starts_with("//!"), "{path} does not open with //!");
    }
}
