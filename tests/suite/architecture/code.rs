//! The source code that is compiled into the program, without comments and tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Files by their path: `src/build/mod.rs`, `crates/model/src/slug.rs`.
pub type Sources = BTreeMap<String, String>;

/// Modules of tests, in files and folders of their own.
const TESTS: [&str; 4] = ["tests", "tests.rs", "testing.rs", "fixture.rs"];

/// Attributes of code for tests: of this crate alone, or of other crates, too.
const TEST_ATTRIBUTES: [&str; 2] = ["#[cfg(test)]", "#[cfg(any(test, feature = \"testing\"))]"];

/// Every file of the program and its crates but those of tests.
pub fn sources() -> Sources {
    let mut found = files(&["src", "crates"]);
    found.retain(|path, _| !path.split('/').any(|name| TESTS.contains(&name)));
    assert!(found.len() > 200, "the sources were found");
    found
}

/// Every file that we wrote: the program, its tests, benchmarks and fuzz targets.
pub fn all_files() -> Sources {
    files(&["src", "crates", "tests", "benches", "fuzz/fuzz_targets"])
}

/// Every file below these folders.
fn files(folders: &[&str]) -> Sources {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = BTreeMap::new();
    let mut folders: Vec<_> = folders.iter().map(PathBuf::from).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.insert(path.display().to_string(), fs::read_to_string(entry.path()).unwrap());
            }
        }
    }
    found
}

/// The files without comments and without tests.
pub fn code(sources: &Sources) -> Sources {
    sources
        .iter()
        .map(|(path, source)| (path.clone(), code_of(path, source)))
        .collect()
}

fn code_of(path: &str, source: &str) -> String {
    let lines = without_tests(source);
    let code: Vec<_> = lines
        .into_iter()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    let code = code.join("\n");
    for hidden in ["cfg(test", "cfg!(test", "cfg(all(", "cfg(any(", "#[path"] {
        assert!(
            !code.contains(hidden),
            "{path} has {hidden:?}, which this scan does not understand"
        );
    }
    code
}

/// The lines of a file without those that are compiled for tests only, wherever in the file these are.
///
/// rustfmt ends an item with `;` on its first line, or with a closing bracket where the item began.
fn without_tests(source: &str) -> Vec<&str> {
    let mut kept = Vec::new();
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        if !TEST_ATTRIBUTES.contains(&line.trim()) {
            kept.push(line);
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let is_item = |line: &&str| !line.trim_start().starts_with(['#', '/']);
        let first = lines.by_ref().find(is_item).expect("an attribute has an item");
        let is_end = |line: &str| {
            line.strip_prefix(indent)
                .is_some_and(|rest| rest.starts_with(['}', ')', ']']))
        };
        if !first.ends_with(';') && !first.ends_with("{}") {
            assert!(lines.any(is_end), "the end of {first:?} was found");
        }
    }
    kept
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
    // Why.
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
#[cfg(any(test, feature = \"testing\"))]
pub mod testing {
    hidden!();
}
fn last() {}
";
    let seen = "mod before;\nmod between;\nimpl A {\n\n    fn shown() {}\n}\nfn after() {}\n\nfn last() {}";
    assert_eq!(code_of("a.rs", source), seen);
}

#[test]
fn files_that_are_left_out_are_compiled_for_tests_only() {
    let files = files(&["src", "crates"]);
    for path in files.keys() {
        let names: Vec<_> = path.split('/').collect();
        let Some(at) = names.iter().position(|name| TESTS.contains(name)) else {
            continue;
        };
        let name = names[at].trim_end_matches(".rs");
        let parent = names[..at].join("/");
        let parent = files
            .get(&format!("{parent}.rs"))
            .or(files.get(&format!("{parent}/mod.rs")))
            .or(files.get(&format!("{parent}/lib.rs")))
            .unwrap();
        let is_declared = |attribute: &str| {
            ["mod", "pub mod", "pub(crate) mod", "pub(super) mod"]
                .iter()
                .any(|start| parent.contains(&format!("{attribute}\n{start} {name};")))
        };
        assert!(
            TEST_ATTRIBUTES.into_iter().any(is_declared),
            "{path} is no test, and named as one"
        );
    }
}
