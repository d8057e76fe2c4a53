//! Releases that another machine built: what is verified and refused before anything of them is published.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::build::fixture::{Fixture, entry, files};
use crate::build::tests::packages::{hosted, replacing};
use crate::build::{BuildError, FolderError, FolderOptions, FolderReport, publish_folder};
use countersign_files::folder_lock;
use countersign_package::catalog::{CatalogError, ReleaseIndex, removed_releases, verify_all, verify_packages};

/// A build elsewhere, and the folder of a server.
struct Two {
    made: Fixture,
    server: tempfile::TempDir,
}

impl Two {
    /// A build with 1.0 and 1.1, with packages, that is published.
    fn published() -> Self {
        let made = Fixture::new();
        made.release("1.0", "1.0");
        made.release("1.1", "1.1");
        made.build(hosted(&made));
        let two = Self {
            made,
            server: tempfile::tempdir().unwrap(),
        };
        let report = two.publish(&[]).unwrap();
        assert_eq!((report.added.len(), report.unchanged, report.differs), (2, 0, true));
        two
    }

    fn to(&self) -> PathBuf {
        self.server.path().join("releases")
    }

    fn publish(&self, withdraw: &[&str]) -> Result<FolderReport, FolderError> {
        self.run(false, withdraw, &[])
    }

    fn run(&self, check: bool, withdraw: &[&str], withheld: &[&str]) -> Result<FolderReport, FolderError> {
        let mut options = FolderOptions {
            from: self.made.releases(),
            to: self.to(),
            check,
            withdraw: Default::default(),
            is_withheld: &|_, version| withheld.contains(&version.as_str()),
            patience: Duration::ZERO,
        };
        let slug = "acme".parse().unwrap();
        for version in withdraw {
            options.withdraw.add(&slug, &version.parse().unwrap());
        }
        publish_folder(&options)
    }

    /// Takes the tag away, builds without it, and gives what the server has.
    fn without(&self, tag: &str) -> Vec<(String, String)> {
        let name = format!("refs/tags/{tag}");
        self.made.git.find_reference(&name).unwrap().delete().unwrap();
        self.made.build(hosted(&self.made));
        files(&self.to())
    }

    /// The server's folder is whole, and has these versions.
    #[track_caller]
    fn serves(&self, versions: &[&str]) {
        assert_eq!(verify_all(&self.to()).unwrap(), versions.len());
        assert_eq!(verify_packages(&self.to(), |_| ()).unwrap(), versions.len());
        let index = ReleaseIndex::read(&self.to()).unwrap().unwrap();
        let releases = index.plugins.values().flat_map(|plugin| &plugin.releases);
        let found: Vec<_> = releases.map(|release| release.version.as_str().to_owned()).collect();
        assert_eq!(found, versions);
        // Nothing that the index does not name.
        assert_eq!(
            fs::read_dir(self.to().join("acme")).unwrap().count(),
            2 * versions.len()
        );
    }
}

fn names(releases: &[crate::build::PublishedName]) -> Vec<String> {
    releases.iter().map(ToString::to_string).collect()
}

#[test]
fn what_another_machine_built_is_published_file_by_file_and_the_same_again_changes_nothing() {
    let two = Two::published();
    two.serves(&["1.1", "1.0"]);
    let before = files(&two.to());
    assert_eq!(before, two.made.published());
    let again = two.publish(&[]).unwrap();
    assert_eq!((again.unchanged, again.differs), (2, false));

    two.made.release("1.2", "1.2");
    two.made.build(hosted(&two.made));
    let planned = two.run(true, &[], &[]).unwrap();
    assert_eq!(
        (names(&planned.added), planned.differs),
        (vec!["acme/1.2".to_owned()], true)
    );
    assert_eq!(files(&two.to()), before, "--check writes nothing");
    // What is published need not be brought again.
    fs::remove_file(two.made.releases().join("acme/1.0.json")).unwrap();
    fs::remove_file(two.made.releases().join("acme/1.0.zip")).unwrap();
    two.publish(&[]).unwrap();
    two.serves(&["1.2", "1.1", "1.0"]);
}

#[test]
fn a_release_goes_only_if_the_registry_withholds_it_or_a_person_names_it() {
    let two = Two::published();
    let before = two.without("1.1");
    for check in [true, false] {
        let refused = two.run(check, &["1.0"], &[]).unwrap_err();
        let message = "lacks 1 published release (acme/1.1)";
        assert!(refused.to_string().ends_with(message), "{refused}");
        assert_eq!(files(&two.to()), before);
    }
    let withheld = two.run(true, &[], &["1.1"]).unwrap();
    assert_eq!(names(&withheld.removed), ["acme/1.1"]);
    let refused = two.run(false, &["1.1", "1.0"], &[]).unwrap_err();
    assert!(
        refused.to_string().ends_with("still has acme/1.0 as published"),
        "{refused}"
    );
    let report = two.publish(&["1.1"]).unwrap();
    assert_eq!(
        (names(&report.removed), report.unchanged),
        (vec!["acme/1.1".to_owned()], 1)
    );
    two.serves(&["1.0"]);
    // A server takes it away, because it is listed.
    let removed = removed_releases(&two.to()).releases;
    assert!(removed.has(&"acme".parse().unwrap(), &"1.1".parse().unwrap()));
    assert!(!two.publish(&["1.1"]).unwrap().differs, "it is gone already");
}

#[test]
fn a_published_package_changes_only_if_a_person_names_its_release_and_a_manifest_with_the_entry() {
    let two = Two::published();
    let before = files(&two.to());
    let commit = two.made.commit(&[
        ("acme.php", &crate::build::fixture::header("1.0")),
        ("more.php", "<?php // more\n"),
    ]);
    two.made.tag("1.0", commit);
    replacing(&two.made, hosted(&two.made), &["1.0"]);
    let refused = two.publish(&[]).unwrap_err();
    let message = "changes the package of 1 published release (acme/1.0)";
    assert!(refused.to_string().ends_with(message), "{refused}");
    assert_eq!(files(&two.to()), before);
    assert_eq!(names(&two.publish(&["1.0"]).unwrap().changed), ["acme/1.0"]);
    two.serves(&["1.1", "1.0"]);

    let mut renamed = hosted(&two.made);
    renamed.homepage = "https://acme.example/".to_owned();
    two.made.run(&[entry(renamed)], false, &[]);
    assert_eq!(names(&two.publish(&[]).unwrap().changed), ["acme/1.1", "acme/1.0"]);
    two.serves(&["1.1", "1.0"]);
}

#[test]
fn a_file_that_is_not_as_the_index_says_publishes_nothing() {
    let two = Two::published();
    let before = files(&two.to());
    two.made.release("1.2", "1.2");
    two.made.build(hosted(&two.made));
    for name in ["1.2.json", "1.2.zip"] {
        let path = two.made.releases().join("acme").join(name);
        let whole = fs::read(&path).unwrap();
        let mut other = whole.clone();
        *other.last_mut().unwrap() ^= 1;
        // Cut, changed, and missing.
        for bytes in [Some(&whole[..whole.len() - 1]), Some(&other), None] {
            fs::remove_file(&path).unwrap();
            if let Some(bytes) = bytes {
                fs::write(&path, bytes).unwrap();
            }
            for check in [true, false] {
                let refused = two.run(check, &[], &[]).unwrap_err();
                assert!(matches!(refused, FolderError::Unsound(_)), "{name}: {refused}");
                assert_eq!(files(&two.to()), before, "{name}");
            }
            fs::write(&path, &whole).unwrap();
        }
    }
    two.publish(&[]).unwrap();
    two.serves(&["1.2", "1.1", "1.0"]);

    let index = two.made.releases().join("index.json");
    let text = fs::read_to_string(&index).unwrap();
    fs::write(&index, text.replace("\"latest\": \"1.2\"", "\"latest\": \"1.1\"")).unwrap();
    let refused = two.publish(&[]).unwrap_err();
    assert!(
        matches!(refused, FolderError::Unsound(CatalogError::NotTheLatest { .. })),
        "{refused}"
    );
    fs::remove_file(&index).unwrap();
    let refused = two.publish(&[]).unwrap_err();
    assert!(
        matches!(refused, FolderError::Unsound(CatalogError::NoIndex { .. })),
        "{refused}"
    );
    two.serves(&["1.2", "1.1", "1.0"]);
}

#[test]
fn a_published_file_that_was_damaged_is_put_back() {
    let two = Two::published();
    let before = files(&two.to());
    fs::write(two.to().join("acme/1.0.json"), "{}").unwrap();
    fs::remove_file(two.to().join("acme/1.1.zip")).unwrap();
    fs::write(two.to().join("acme/.1.2.zip.0123456789abcdef.new"), "left over").unwrap();
    let report = two.publish(&[]).unwrap();
    assert_eq!(
        (names(&report.restored), report.unchanged),
        (vec!["acme/1.1".to_owned(), "acme/1.0".to_owned()], 0)
    );
    assert!(report.differs);
    assert_eq!(files(&two.to()), before);
}

#[test]
fn folders_in_each_other_and_a_folder_that_another_publishes_to_are_refused() {
    let two = Two::published();
    let inside = two.to().join("incoming");
    fs::create_dir(&inside).unwrap();
    for (from, to) in [
        (two.to(), two.to()),
        (inside.clone(), two.to()),
        (two.to(), inside.clone()),
    ] {
        let options = FolderOptions {
            from,
            to,
            check: false,
            withdraw: Default::default(),
            is_withheld: &|_, _| true,
            patience: Duration::ZERO,
        };
        let refused = publish_folder(&options).unwrap_err();
        assert!(matches!(refused, FolderError::Nested { .. }), "{refused}");
    }
    let held = folder_lock::hold(&two.to(), Duration::ZERO).unwrap();
    let refused = two.publish(&[]).unwrap_err();
    assert!(
        matches!(refused, FolderError::Build(BuildError::Busy { .. })),
        "{refused}"
    );
    drop(held);
    assert!(!two.publish(&[]).unwrap().differs);
}
