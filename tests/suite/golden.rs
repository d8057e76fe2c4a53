//! Golden trees: `countersign build` on the repositories of each folder in `tests/golden/`, compared byte for byte.
//!
//! A case is an instance: `registry/` as a vendor writes it, and `repositories/*.txt` in the format of
//! [`history`](crate::support::history). `expected/` has the releases and the report.
//! `COUNTERSIGN_BLESS=1 cargo test golden` rewrites it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use countersign::build::FORMAT;
use countersign_model::digest::Digest;

use crate::support::Instance;
use crate::support::history::make_repository;
use crate::support::server::countersign;

#[test]
fn every_golden_case_builds_what_it_expects() {
    let mut differences = Vec::new();
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for case in folders(&cases) {
        let built = build(&case);
        for (name, bytes) in built.iter().filter(|(name, _)| name.ends_with(".json")) {
            let manifest: Value = serde_json::from_slice(bytes).unwrap();
            if manifest["changelog"].as_str().is_some_and(|text| !text.is_empty()) {
                let section = manifest["sections"]["changelog"].as_str();
                assert!(
                    section.is_some_and(|text| !text.is_empty()),
                    "{}: {name}",
                    case.display()
                );
            }
        }
        let expected = case.join("expected");
        if std::env::var_os("COUNTERSIGN_BLESS").is_some() {
            bless(&expected, &built);
        }
        let wanted = files(&expected);
        let names: BTreeSet<_> = built.keys().chain(wanted.keys()).collect();
        for name in names.into_iter().filter(|name| built.get(*name) != wanted.get(*name)) {
            let text = |files: &BTreeMap<String, Vec<u8>>| {
                files.get(name).map_or("no such file\n".into(), |bytes| {
                    String::from_utf8_lossy(bytes).into_owned()
                })
            };
            let path = expected.join(name);
            differences.push(format!(
                "{}\nexpected: {}built: {}",
                path.display(),
                text(&wanted),
                text(&built)
            ));
        }
    }
    assert!(
        differences.is_empty(),
        "{}\nCOUNTERSIGN_BLESS=1 takes what was built",
        differences.join("\n")
    );
}

/// A build skips a tag whose inputs have not changed, and the number of the form is one of them.
#[test]
fn a_change_of_what_is_built_raises_the_format() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let recorded = fs::read_to_string(cases.join("formats.tsv")).unwrap();
    let recorded: BTreeMap<&str, (u32, &str)> = recorded
        .lines()
        .map(|line| {
            let [case, format, digest] = line.split('\t').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            (case, (format.parse().unwrap(), digest))
        })
        .collect();
    let mut lines = String::new();
    let mut unrecorded = Vec::new();
    for case in folders(&cases) {
        let name = case.file_name().unwrap().to_str().unwrap();
        let manifests = files(&case.join("expected/releases"));
        let manifests: Vec<_> = manifests.iter().filter(|(name, _)| *name != "index.json").collect();
        let digest = Digest::of(format!("{manifests:?}").as_bytes()).to_string();
        let (format, known) = recorded.get(name).copied().unwrap_or((0, ""));
        if known == digest {
            lines += &format!("{name}\t{format}\t{digest}\n");
            continue;
        }
        assert!(
            format < FORMAT,
            "{name}: the manifests changed: raise FORMAT in src/build/inputs.rs"
        );
        lines += &format!("{name}\t{FORMAT}\t{digest}\n");
        unrecorded.push(name.to_owned());
    }
    if std::env::var_os("COUNTERSIGN_BLESS").is_some() {
        fs::write(cases.join("formats.tsv"), lines).unwrap();
    } else {
        assert_eq!(
            unrecorded, [""; 0],
            "COUNTERSIGN_BLESS=1 records them in tests/golden/formats.tsv"
        );
    }
}

#[test]
fn the_page_on_tags_tells_what_becomes_of_each_odd_name() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(project.join("docs/tags-and-versions.md")).unwrap();
    let built = build(&project.join("tests/golden/odd-tag-names"));
    let index: Value = serde_json::from_slice(&built["releases/index.json"]).unwrap();
    let version = |plugin: &str, tag: &str| {
        let releases = index["plugins"][plugin]["releases"].as_array().unwrap();
        let release = releases.iter().find(|release| release["tag"] == tag);
        release.map_or("skipped", |release| release["version"].as_str().unwrap())
    };
    let table = page.split("## ").nth(1).unwrap();
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.split(" | ").collect())
        .collect();
    assert_eq!(rows.len(), 10);
    for row in rows {
        let tag = row[0].trim_matches(['|', '`', ' ']);
        assert_eq!(row[1].split(',').next().unwrap(), version("acme-forms", tag), "{tag}");
        if let Some((own, _)) = row[2].split_once(" with `") {
            assert_eq!(own, version("acme-forms-by-pattern", tag), "{tag}");
        }
    }
}

/// The rows of the table below a heading of the page on tags.
fn rows_below(heading: &str) -> Vec<Vec<String>> {
    let page = include_str!("../../docs/tags-and-versions.md");
    let section = page.split(&format!("\n## {heading}\n")).nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| "));
    let cells = |row: &str| row.trim_matches(['|', ' ']).split(" | ").map(str::to_owned).collect();
    rows.skip(1).map(cells).collect()
}

/// The texts in backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// Builds a repository with the release 0.9.0 and this tag. Returns the version of the tag's release, if it is published, and the
/// latest version.
fn published(tag: &str, header: &str) -> (Option<String>, String) {
    let case = tempfile::TempDir::new().unwrap();
    let write = |name: &str, text: &str| {
        let path = case.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let entry =
        "repository = \"../../repositories/acme-forms.git\"\ndownload_url = \"https://dl.example/{version}.zip\"\n";
    write("registry/plugins/acme-forms.toml", entry);
    let release = |tag: &str, version: &str| {
        format!(">>> write acme-forms.php\n<?php\n/*\nPlugin Name: Acme Forms\nVersion: {version}\n*/\n>>> tag {tag}\n")
    };
    let history = format!("A case.\n\n{}{}", release("0.9.0", "0.9.0"), release(tag, header));
    write("repositories/acme-forms.txt", &history);
    let built = build(case.path());
    let index: Value = serde_json::from_slice(&built["releases/index.json"]).unwrap();
    let plugin = &index["plugins"]["acme-forms"];
    let releases = plugin["releases"].as_array().unwrap();
    let release = releases.iter().find(|release| release["tag"] == tag);
    let version = release.map(|release| release["version"].as_str().unwrap().to_owned());
    (version, plugin["latest"].as_str().unwrap().to_owned())
}

#[test]
fn the_page_on_tags_tells_what_becomes_of_each_suffix() {
    let mut tried = 0;
    for row in rows_below("Suffixes") {
        let [suffixes, happens] = &row[..] else {
            panic!("{row:?}")
        };
        let examples = suffixes
            .split('(')
            .skip(1)
            .flat_map(|text| quoted(text.split(')').next().unwrap()));
        for example in examples {
            let version = format!("1.3.0{}", example.trim_start_matches("1.3.0"));
            let (published, latest) = published(&version, &version);
            let (is_published, is_latest) = match happens.as_str() {
                "stable" => (true, true),
                text if text.starts_with("a pre-release of the ") => (true, false),
                "published, and offered to no site" => (true, false),
                text if text.starts_with("not published: ") => (false, false),
                text => panic!("{text}"),
            };
            assert_eq!(
                (published.is_some(), latest == version),
                (is_published, is_latest),
                "{version}: {latest}"
            );
            tried += 1;
        }
    }
    assert_eq!(tried, 17);
}

#[test]
fn the_page_on_tags_tells_what_becomes_of_each_header() {
    let mut tried = 0;
    for row in rows_below("The tag against the header") {
        let [tags, headers, happens] = &row[..] else {
            panic!("{row:?}")
        };
        // Countersign packs no tag here.
        let happens = happens.rsplit("Otherwise ").next().unwrap();
        let expected = happens.strip_prefix("published as ").map(|text| {
            let version = text.split([';', ':', ',', ' ']).next().unwrap();
            version.trim_end_matches('.').to_owned()
        });
        assert!(expected.is_some() || happens.starts_with("skipped"), "{happens}");
        for tag in quoted(tags) {
            for header in quoted(headers) {
                assert_eq!(published(tag, header).0, expected, "{tag} with {header}");
                tried += 1;
            }
        }
    }
    assert_eq!(tried, 8);
}

/// The folders in a folder, sorted.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(folder).unwrap().map(|found| found.unwrap().path());
    let mut folders: Vec<PathBuf> = found.filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

/// `index.json` without the digests of what releases were made from: they differ from one version of the program to
/// the next.
fn without_inputs(index: &[u8]) -> Vec<u8> {
    let lines = std::str::from_utf8(index).unwrap().lines();
    lines
        .filter(|line| !line.trim_start().starts_with("\"inputs\":"))
        .flat_map(|line| [line, "\n"])
        .collect::<String>()
        .into()
}

/// Everything under `releases/`, and the report with the exit code.
fn build(case: &Path) -> BTreeMap<String, Vec<u8>> {
    let instance = Instance::empty();
    for (name, text) in files(&case.join("registry")) {
        instance.write(&format!("registry/{name}"), &String::from_utf8(text).unwrap());
    }
    for (name, history) in files(&case.join("repositories")) {
        let name = name.strip_suffix(".txt").expect("a .txt file describes a repository");
        let path = instance.file(&format!("repositories/{name}.git"));
        make_repository(&String::from_utf8(history).unwrap(), &path);
    }
    let output = countersign(&instance).arg("build").output().unwrap();
    let report = [
        &output.stdout[..],
        format!("exit code {}\n", output.status.code().unwrap()).as_bytes(),
    ]
    .concat();

    let releases = files(&instance.file("releases"));
    let again = countersign(&instance)
        .args(["build", "--check", "--all"])
        .output()
        .unwrap();
    assert_eq!(
        again.status.code(),
        output.status.code(),
        "{}: a second build changes something",
        case.display()
    );
    assert_eq!(files(&instance.file("releases")), releases);

    let mut built: BTreeMap<_, _> = releases
        .into_iter()
        .map(|(name, bytes)| (format!("releases/{name}"), bytes))
        .collect();
    built
        .entry("releases/index.json".into())
        .and_modify(|index| *index = without_inputs(index));
    built.insert("report.txt".into(), report);
    built
}

fn bless(expected: &Path, built: &BTreeMap<String, Vec<u8>>) {
    if expected.exists() {
        fs::remove_dir_all(expected).unwrap();
    }
    for (name, bytes) in built {
        let path = expected.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

/// Every file in a folder and below it, by its path inside.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            found.extend(
                files(&path)
                    .into_iter()
                    .map(|(below, bytes)| (format!("{name}/{below}"), bytes)),
            );
        } else {
            found.insert(name, fs::read(path).unwrap());
        }
    }
    found
}
