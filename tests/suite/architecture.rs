//! The arrows between modules, and which file may name which library.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What each module may import of ours. Whatever is not listed may import nothing of ours.
const ARROWS: [(&str, &[&str]); 18] = [
    ("time_limit", &[]),
    ("model", &[]),
    ("text", &[]),
    ("regular_file", &[]),
    ("counting", &[]),
    ("durable_file", &["regular_file"]),
    ("keys", &["model", "regular_file"]),
    ("watch", &[]),
    ("registry", &["model", "text", "durable_file", "regular_file"]),
    ("catalog", &["model", "counting", "regular_file"]),
    ("store", &["model", "text", "durable_file", "regular_file", "counting"]),
    ("config", &["model", "text", "regular_file"]),
    ("package", &["model", "text", "regular_file"]),
    ("build", &["registry", "catalog", "model", "text", "durable_file", "regular_file", "time_limit"]),
    (
        "serve",
        &["registry", "catalog", "store", "keys", "watch", "config", "model", "text", "counting", "regular_file"],
    ),
    ("preview", &["build", "registry", "catalog", "model", "text", "regular_file"]),
    (
        "commands",
        &[
            "build",
            "package",
            "preview",
            "serve",
            "registry",
            "catalog",
            "store",
            "config",
            "keys",
            "model",
            "text",
            "durable_file",
            "regular_file",
            "time_limit",
        ],
    ),
    ("cli", &["commands", "config", "model"]),
];

/// Where a library's name may stand.
const LIBRARIES: [(&str, &[&str]); 9] = [
    ("git2::", &["src/build/git/repository.rs", "src/registry/git.rs", "src/commands/init/demo_repository.rs"]),
    ("sled::", &["src/store/index.rs", "src/store/mod.rs"]),
    ("warp::", &["src/serve/", "src/preview/"]),
    ("askama::", &["src/preview/"]),
    ("rustls::", &["src/serve/net/tls.rs"]),
    ("flate2::", &["src/package/deflate.rs", "src/package/archive/content.rs"]),
    ("prometheus_client::", &["src/serve/ops/openmetrics.rs"]),
    // A site gets a manifest from the catalog, against an entitlement.
    ("published_manifest", &["src/catalog.rs", "src/preview/"]),
    ("RsaPrivateKey", &["src/keys/signing_key.rs", "src/commands/keys/make.rs"]),
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

/// Code without comments and without what is compiled for tests only, wherever in a file that stands.
///
/// rustfmt ends an item with `;` on its first line, or with a closing bracket where the item began.
fn code(source: &str) -> String {
    let mut code = Vec::new();
    let mut lines = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    while let Some(line) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            code.push(line);
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let mut item = lines.by_ref().skip_while(|line| line.trim_start().starts_with("#["));
        let first = item.next().expect("an attribute has an item");
        let is_end = |line: &str| line.strip_prefix(indent).is_some_and(|rest| rest.starts_with(['}', ')', ']']));
        if !first.ends_with(';') && !first.ends_with("{}") {
            assert!(item.any(is_end), "the end of {first:?} was found");
        }
    }
    code.join("\n")
}

#[test]
fn all_code_is_looked_at_but_that_of_tests() {
    let source = "\
//! A file.
mod before;
#[cfg(test)]
mod fixture;
mod between;
impl A {
    #[cfg(test)]
    #[allow(dead_code)]
    fn test() {
        if true {
            hidden();
        }
    }

    fn shown() {}
}
#[cfg(test)]
use a::{
    hidden,
};
// A comment.
fn after() {}

#[cfg(test)]
mod tests {
    hidden!();
}
fn last() {}
";
    let seen = "mod before;\nmod between;\nimpl A {\n\n    fn shown() {}\n}\nfn after() {}\n\nfn last() {}";
    assert_eq!(code(source), seen);
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

/// Ways to open a file that wait for a pipe's other end and read a device without end.
const OPENERS: [&str; 12] = [
    "File::open",
    "File::create",
    "File::options",
    "OpenOptions",
    "fs::read(",
    "fs::read_to_string",
    "fs::write",
    "fs::copy",
    "fs::{read",
    "use std::fs::read",
    "warp::fs::file",
    "tokio::fs::",
];

/// Who may open files otherwise.
const OPENS: [&str; 1] = ["src/regular_file.rs"];

#[test]
fn files_are_opened_by_regular_file_alone() {
    for (path, source) in sources() {
        if OPENS.contains(&path.as_str()) {
            continue;
        }
        let code = code(&source);
        let found: Vec<_> = OPENERS.iter().filter(|opener| code.contains(*opener)).collect();
        assert!(found.is_empty(), "{path} opens a file by {found:?}: use regular_file");
    }
}

#[test]
fn every_file_opens_with_what_it_owns() {
    for (path, source) in sources() {
        assert!(source.starts_with("//!"), "{path} does not open with //!");
    }
}
