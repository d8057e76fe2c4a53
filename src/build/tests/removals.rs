//! Releases that a build would take back: what a clone lacks, what the registry no longer has, and what somebody accepts.

use std::fs;
use std::sync::Arc;

use crate::build::fixture::{Fixture, Silent, entry};
use crate::build::report::summary::summary;
use crate::build::tests::versions;
use crate::build::{BuildReport, Options, PluginState, run};
use countersign_model::plugin::Plugin;
use countersign_package::catalog::{ReleaseIndex, removed_releases};
use countersign_registry::plugins::PluginEntry;

/// Ten releases, 1.0 to 1.9, that are published.
fn ten() -> Fixture {
    let made = Fixture::new();
    for minor in 0..10 {
        made.release(&format!("1.{minor}"), &format!("1.{minor}"));
    }
    made.build(made.plugin());
    made
}

fn untag(made: &Fixture, tags: &[&str]) {
    for tag in tags {
        let name = format!("refs/tags/{tag}");
        made.git.find_reference(&name).unwrap().delete().unwrap();
    }
}

/// A build where nobody accepts that releases go.
fn careful(made: &Fixture, entries: &[PluginEntry]) -> BuildReport {
    let options = Options {
        accepts_removed: false,
        ..made.options(false, &[])
    };
    run(entries, &options, Arc::new(Silent)).unwrap()
}

/// What the only plugin's entry gave: its problem, or none.
fn problem(report: &BuildReport) -> Option<&str> {
    match &report.plugins[0].state {
        PluginState::Broken(problems) => Some(&problems[0]),
        _ => None,
    }
}

#[test]
fn a_shallow_clone_that_lacks_a_published_tag_takes_nothing_back() {
    let made = ten();
    let before = made.published();
    let head = made.git.find_reference("refs/tags/1.0").unwrap().target().unwrap();
    fs::write(made.repository().join(".git/shallow"), format!("{head}\n")).unwrap();
    // One in ten, which a whole clone might have deleted.
    untag(&made, &["1.3"]);
    let message = "the clone is shallow and lacks 1 tag of published releases (1.3): fetch the tags: `git fetch \
                --unshallow --tags`";
    for accepts_removed in [false, true] {
        let options = Options {
            accepts_removed,
            ..made.options(false, &[])
        };
        let report = run(&[entry(made.plugin())], &options, Arc::new(Silent)).unwrap();
        assert_eq!(problem(&report), Some(message));
        assert!(report.failed());
        assert_eq!(made.published(), before);
    }
    // What the entry withholds need not be there, and a clone with all tags is as good as a whole one.
    let mut plugin = made.plugin();
    plugin.withhold = vec!["1.3.0".parse().unwrap()];
    let report = careful(&made, &[entry(plugin)]);
    assert_eq!((problem(&report), report.plugins[0].removed.len()), (None, 1));
    assert_eq!(versions(&report.plugins[0]).len(), 9);
}

#[test]
fn a_partial_clone_that_lacks_a_published_tag_takes_nothing_back() {
    let made = ten();
    untag(&made, &["1.3"]);
    made.git
        .config()
        .unwrap()
        .set_bool("remote.origin.promisor", true)
        .unwrap();
    let report = careful(&made, &[entry(made.plugin())]);
    let message =
        "the clone is partial and lacks 1 tag of published releases (1.3): fetch the tags: `git fetch --tags`";
    assert_eq!(
        problem(&report),
        Some(message),
        "such a clone has its history, so git would refuse --unshallow"
    );
    assert_eq!(versions(&report.plugins[0]).len(), 10);
}

#[test]
fn a_release_whose_tag_is_gone_stays_until_somebody_accepts_that_it_goes() {
    for tag in ["1.9", "1.3"] {
        let made = ten();
        let before = made.published();
        untag(&made, &[tag]);
        // A new release waits for the answer, too.
        made.release("2.0", "2.0");
        let report = careful(&made, &[entry(made.plugin())]);
        let message = format!(
            "a build would remove 1 of 10 published releases: {tag}; if the clone only lacks its tag, run `git fetch --tags`; \
             if you mean it, run `countersign build --accept-removed`"
        );
        assert_eq!(problem(&report), Some(&*message));
        assert_eq!((report.counts().built, report.plugins[0].kept.len()), (0, 10));
        assert!(report.failed() && !report.differs());
        assert!(summary(&report, false).contains(&message));
        assert_eq!(made.published(), before);
        assert!(!made.releases().join("removed.json").exists());
        let report = made.run(&[entry(made.plugin())], false, &[]);
        assert_eq!((problem(&report), report.plugins[0].removed.len()), (None, 1));
        assert_eq!(versions(&report.plugins[0])[0], "2.0");
    }
}

#[test]
fn a_tag_that_moved_to_a_commit_without_the_plugin_takes_no_release_back() {
    let made = ten();
    let before = made.published();
    let empty = made.commit(&[("readme.md", "Nothing.")]);
    made.tag("1.9", empty);
    let report = careful(&made, &[entry(made.plugin())]);
    let message = "a build would remove 1 of 10 published releases: 1.9; if you mean it, run `countersign build \
                --accept-removed`";
    assert_eq!(problem(&report), Some(message));
    assert_eq!(made.published(), before);
}

#[test]
fn withheld_releases_go_unasked_and_also_where_the_repository_cannot_be_read() {
    let made = ten();
    let withholding = |versions: &[&str]| Plugin {
        withhold: versions.iter().map(|version| version.parse().unwrap()).collect(),
        ..made.plugin()
    };
    let report = careful(&made, &[entry(withholding(&["1.5", "1.6", "1.7", "1.8"]))]);
    assert_eq!((problem(&report), report.plugins[0].removed.len()), (None, 4));
    let mut plugin = withholding(&["1.5", "1.6", "1.7", "1.8", "1.9"]);
    plugin.source.as_mut().unwrap().repository =
        countersign_model::plugin::RepositoryLocation::Folder("/nowhere".into());
    let report = careful(&made, &[entry(plugin)]);
    assert!(problem(&report).is_some());
    assert_eq!(versions(&report.plugins[0]), ["1.4", "1.3", "1.2", "1.1", "1.0"]);
    assert_eq!(report.plugins[0].releases.latest, Some("1.4".parse().unwrap()));
    assert!(!made.releases().join("acme/1.9.json").exists());
}

#[test]
fn other_patterns_other_versions_and_no_repository_are_asked_about_and_another_spelling_is_not() {
    let made = ten();
    let before = made.published();
    let patterns = Plugin {
        tags: vec!["v{version}".parse().unwrap()],
        ..made.plugin()
    };
    let versions = Plugin {
        versions: ">=1.5".parse().unwrap(),
        ..made.plugin()
    };
    let source = Plugin {
        source: None,
        ..made.plugin()
    };
    for plugin in [patterns, versions, source] {
        let report = careful(&made, &[entry(plugin)]);
        assert!(problem(&report).unwrap().contains("--accept-removed"));
        assert_eq!(made.published(), before);
    }
    // The same tag is now released as its header writes it.
    let made = Fixture::new();
    made.release("1.0", "1.0");
    made.build(made.plugin());
    let commit = made.commit(&[("acme.php", &crate::build::fixture::header("1.0.0"))]);
    made.tag("1.0", commit);
    let report = careful(&made, &[entry(made.plugin())]);
    assert_eq!((problem(&report), report.plugins[0].added.len()), (None, 1));
}

#[test]
fn a_plugin_that_left_the_registry_stays_until_somebody_accepts_that_it_goes() {
    let made = Fixture::new();
    made.release("1.0", "1.0");
    let other = Plugin {
        slug: "other".parse().unwrap(),
        ..made.plugin()
    };
    made.run(&[entry(made.plugin()), entry(other)], false, &[]);
    let before = made.published();
    let report = careful(&made, &[entry(made.plugin())]);
    let state = PluginState::Broken(vec![
        "it is no longer in the registry, and a build would remove 1 of 1 published release: 1.0; if you mean it, run \
         `countersign build --accept-removed`"
            .into(),
    ]);
    assert_eq!(
        (report.plugins[1].state == state, report.gone.len()),
        (true, 0),
        "{report:?}"
    );
    assert_eq!(made.published(), before);
    let report = made.run(&[entry(made.plugin())], false, &[]);
    assert_eq!(report.gone.len(), 1);
}

#[test]
fn a_security_release_goes_only_if_the_entry_withholds_it() {
    for is_named in [true, false] {
        let made = Fixture::new();
        made.release("1.0", "1.0");
        let notice = "=== Acme ===\n\n== Upgrade Notice ==\n= 1.1 =\nSecurity: update now.\n";
        let header = crate::build::fixture::header("1.1");
        let readme = if is_named { "" } else { notice };
        made.tag("1.1", made.commit(&[("acme.php", &header), ("readme.txt", readme)]));
        made.release("1.2", "1.2");
        let mut plugin = made.plugin();
        if is_named {
            plugin.security.releases = vec!["1.1.0".parse().unwrap()];
        }
        made.build(plugin.clone());
        let before = made.published();
        untag(&made, &["1.0", "1.1"]);
        let asked = careful(&made, &[entry(plugin.clone())]);
        let hint = "of security releases (1.1), only those go that `withhold` of the entry names";
        assert!(problem(&asked).unwrap().ends_with(hint), "{asked:?}");
        // Somebody accepts that releases go: not this one, and with it none.
        let accepted = made.run(&[entry(plugin.clone())], false, &[]);
        let message = "a build would remove 1 security release, which sites with older releases need: 1.1; only those go \
                    that `withhold` of the entry names";
        assert_eq!(problem(&accepted), Some(message));
        assert!(accepted.failed());
        assert_eq!(made.published(), before);
        plugin.withhold = vec!["1.1".parse().unwrap()];
        let withheld = made.run(&[entry(plugin)], false, &[]);
        assert_eq!(
            (problem(&withheld), versions(&withheld.plugins[0])),
            (None, vec!["1.2".to_owned()])
        );
        assert!(
            withheld.plugins[0]
                .warnings
                .iter()
                .all(|warning| !warning.tag.is_empty())
        );
    }
}

#[test]
fn a_security_release_that_is_not_published_is_a_warning_with_the_nearest_one_that_is() {
    let made = ten();
    for (named, nearest) in [("1.31", "1.3"), ("7", "1.9"), ("0.2", "1.0")] {
        let mut plugin = made.plugin();
        plugin.security.releases = ["1.4.0", named].map(|version| version.parse().unwrap()).into();
        let report = made.build(plugin.clone());
        let of_entry = |report: &crate::build::PluginReport| -> Vec<String> {
            let warnings = report.warnings.iter().filter(|warning| warning.tag.is_empty());
            warnings
                .map(|warning| format!("{}: {}", warning.version, warning.remark))
                .collect()
        };
        let file = &report.file;
        let message = format!(
            "{named}: {file}: `security` names this version, and no such release is published; the nearest one is {nearest}"
        );
        assert_eq!(of_entry(&report), [message]);
        // Withheld: nobody shall get it.
        plugin.withhold = vec![named.parse().unwrap()];
        assert_eq!(of_entry(&made.build(plugin)), [""; 0]);
    }
}

#[test]
fn removed_releases_are_listed_until_they_are_published_again() {
    let made = ten();
    let listed = || {
        let removed = removed_releases(&made.releases());
        let mut all: Vec<_> = removed
            .releases
            .iter()
            .map(|(slug, version)| format!("{slug} {version}"))
            .collect();
        all.sort();
        all
    };
    assert_eq!(listed(), [""; 0]);
    assert!(!made.releases().join("removed.json").exists());
    untag(&made, &["1.0", "1.1"]);
    made.run(&[entry(made.plugin())], true, &[]);
    assert_eq!(listed(), [""; 0], "a check writes nothing");
    made.build(made.plugin());
    assert_eq!(listed(), ["acme 1.0", "acme 1.1"]);
    made.release("1.1", "1.1");
    made.build(made.plugin());
    assert_eq!(listed(), ["acme 1.0"]);
    fs::write(made.releases().join("removed.json"), "damaged").unwrap();
    made.run(&[], false, &[]);
    assert_eq!(listed().len(), 9);
    assert_eq!(
        ReleaseIndex::read(&made.releases()).unwrap(),
        Some(ReleaseIndex::default())
    );
}
