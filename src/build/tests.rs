//! Whole builds of repositories with the oddities that real ones have.

mod from_folder;
mod huge_trees;
mod incremental;
mod packages;
mod removals;
mod themes;

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use crate::build::fixture::{COMMITTED, FILE, Fixture, LINK, SUBMODULE, Silent, entry, header};
use crate::build::report::outcome::{Reason, ReleaseOutcome, TagOutcome};
use crate::build::report::summary::summary;
use crate::build::source::testing::process_time;
use crate::build::{BuildError, BuildReport, Options, PluginReport, PluginState, Progress, run};
use countersign_model::plugin::{PackageSettings, Plugin, PluginSource, RepositoryLocation};
use countersign_model::slug::Slug;
use countersign_package::catalog::{ReleaseIndex, verify_all};

/// `v1.0 built`, `latest skipped not_a_version`, …, by tag.
fn outcomes(report: &PluginReport) -> Vec<String> {
    let line = |tag: &TagOutcome| match &tag.outcome {
        ReleaseOutcome::Built => format!("{} built", tag.tag),
        ReleaseOutcome::Unchanged => format!("{} unchanged", tag.tag),
        ReleaseOutcome::Skipped(reason) => format!("{} skipped {}", tag.tag, reason.code()),
        ReleaseOutcome::Failed(reason) => format!("{} failed {}", tag.tag, reason.code()),
        ReleaseOutcome::AwaitsPackage => format!("{} awaits", tag.tag),
        ReleaseOutcome::LeavesBehind(left) => format!("{} leaves {} behind", tag.tag, left.len()),
        ReleaseOutcome::AwaitsSignatures { good, needed, .. } => format!("{} has {good} of {needed}", tag.tag),
    };
    let mut lines: Vec<_> = report.tags.iter().map(line).collect();
    lines.sort();
    lines
}

fn versions(report: &PluginReport) -> Vec<String> {
    report
        .releases
        .releases
        .iter()
        .map(|release| release.version.to_string())
        .collect()
}

fn with_source(mut plugin: Plugin, path: &str, main_file: Option<&str>) -> Plugin {
    let source = plugin.source.as_mut().unwrap();
    source.path = path.into();
    source.main_file = main_file.map(Into::into);
    plugin
}

#[test]
fn every_kind_of_tag_gives_its_commit_or_a_reason() {
    let made = Fixture::new();
    let light = made.release("1.0", "1.0");
    let commit = made.commit(&[("acme.php", &header("1.1"))]);
    made.annotate("v1.1", commit, "Release", COMMITTED + 60);
    let commit = made.commit(&[("acme.php", &header("1.2"))]);
    let inner = made.annotate("inner", commit, "Inner", COMMITTED + 60);
    made.annotate("1.2", inner, "Outer", COMMITTED + 120);
    made.tag("1.3", made.git.find_commit(light).unwrap().tree_id());
    made.tag("1.4", made.git.blob(b"blob").unwrap());
    made.git
        .reference_symbolic("refs/tags/1.5", "refs/tags/absent", true, "")
        .unwrap();
    // A branch of a tag's name that says something else.
    made.git.reference("refs/heads/1.0", commit, true, "").unwrap();

    let report = made.build(made.plugin());
    assert_eq!(
        outcomes(&report),
        [
            "1.0 built",
            "1.2 built",
            "1.3 skipped not_a_commit",
            "1.4 skipped not_a_commit",
            "1.5 failed unreadable",
            "inner skipped not_a_version",
            "v1.1 built",
        ]
    );
    let commits: Vec<_> = report
        .releases
        .releases
        .iter()
        .map(|release| release.commit.clone())
        .collect();
    assert_eq!(commits[0], commit.to_string());
    assert_eq!(commits[2], light.to_string());
    assert_eq!(
        made.field("1.0", "/last_updated"),
        "2026-11-20 10:17:03",
        "the commit's time, in UTC"
    );
    assert_eq!(
        made.field("1.1", "/last_updated"),
        "2026-11-20 10:18:03",
        "the tagger's time"
    );
    assert_eq!(
        made.field("1.2", "/last_updated"),
        "2026-11-20 10:19:03",
        "the outer tag's time"
    );
    assert_eq!(made.field("1.2", "/changelog"), "Outer");
    assert_eq!(verify_all(&made.releases()).unwrap(), 3);
}

#[test]
fn each_odd_tag_name_has_its_outcome() {
    let made = Fixture::new();
    for (tag, version) in [
        ("0.3.01", "0.3.01"),
        ("3.1.0.1.1", "3.1.0.1.1"),
        ("20210617", "20210617"),
        ("v2.0+7", "2.0"),
    ] {
        made.release(tag, version);
    }
    for tag in [
        "v.1.14.1",
        "release-1.7.10",
        "acme/1.2.3",
        "2.5.2@332589",
        "latest",
        "v",
        "1.2-1",
        "V1.2",
    ] {
        made.release(tag, "1.0");
    }
    let report = made.build(made.plugin());
    let (built, skipped): (Vec<_>, Vec<_>) = outcomes(&report).into_iter().partition(|line| line.ends_with("built"));
    assert_eq!(
        built,
        ["0.3.01 built", "20210617 built", "3.1.0.1.1 built", "v2.0+7 built"]
    );
    assert_eq!(
        skipped,
        [
            "1.2-1 skipped version_mismatch",
            "2.5.2@332589 skipped not_a_version",
            "V1.2 skipped other_pattern",
            "acme/1.2.3 skipped other_pattern",
            "latest skipped not_a_version",
            "release-1.7.10 skipped other_pattern",
            "v skipped not_a_version",
            "v.1.14.1 skipped other_pattern",
        ]
    );
    assert_eq!(versions(&report), ["20210617", "3.1.0.1.1", "2.0", "0.3.01"]);
}

#[test]
fn a_version_that_sites_would_misread_is_refused_with_what_to_write() {
    let made = Fixture::new();
    for tag in [
        "1.2",
        "1.2-1",
        "1.2-patch.1",
        "1.3.0-alpha1",
        "1.3.0-beta.1",
        "1.3.0-RC1",
        "1.3.0-dev",
        "1.3.0-preview.1",
        "1.3.0-pre",
        "1.3.0-Beta2",
        "1.4-pro",
        "1.4-stable",
    ] {
        made.release(tag, tag);
    }
    let report = made.run(&[entry(made.plugin())], false, &[]);
    let plugin = &report.plugins[0];
    assert_eq!(
        outcomes(plugin),
        [
            "1.2 built",
            "1.2-1 built",
            "1.2-patch.1 built",
            "1.3.0-Beta2 skipped misread_suffix",
            "1.3.0-RC1 built",
            "1.3.0-alpha1 built",
            "1.3.0-beta.1 built",
            "1.3.0-dev built",
            "1.3.0-pre skipped misread_suffix",
            "1.3.0-preview.1 skipped misread_suffix",
            "1.4-pro skipped other_pattern",
            "1.4-stable built",
        ]
    );
    assert_eq!(plugin.releases.latest.as_ref().unwrap().as_str(), "1.2-patch.1");
    let text = summary(&report, true);
    let line =
        "sites misread the version's suffix: 1.3.0-preview.1 (PHP takes it for newer than 1.3.0; write -beta.1), ";
    assert!(text.contains(line), "{text}");
    let line = "newest not published: 1.4-pro: a version, but the entry's tags lack its pattern: {version}-pro";
    assert!(text.contains(line), "{text}");
}

#[test]
fn a_word_about_the_edition_has_its_pattern_with_packages_too() {
    for word in ["built", "pro", "premium", "plus", "stable"] {
        let made = Fixture::new();
        let tag = format!("1.2-{word}");
        made.release(&tag, "1.2");
        let plugin = Plugin {
            download_url: String::new(),
            package: Some(PackageSettings::defaults(&"acme".parse().unwrap())),
            ..made.plugin()
        };
        let report = made.build(plugin.clone());
        let (newest, reason) = report.missing_newest().unwrap();
        assert_eq!(
            (newest, reason),
            (&*tag, Reason::OtherPattern(format!("{{version}}-{word}"))),
            "{word}"
        );
        let plugin = Plugin {
            tags: vec![format!("{{version}}-{word}").parse().unwrap()],
            ..plugin
        };
        assert_eq!(outcomes(&made.build(plugin)), [format!("{tag} built")]);
    }
}

#[test]
fn each_tag_with_a_word_about_the_edition_has_its_pattern() {
    let made = Fixture::new();
    for tag in ["1.0-built", "1.1-built", "1.2-premium"] {
        made.release(tag, tag.split('-').next().unwrap());
    }
    made.release("2.0", "2.0");
    let built_summary = |plugin: Plugin| {
        let report = made.run(&[entry(plugin)], false, &[]);
        assert_eq!(report.plugins[0].missing_newest(), None);
        summary(&report, false)
    };
    let built =
        "a version, but the entry's tags lack its pattern: 1.1-built ({version}-built), 1.0-built ({version}-built)";
    let text = built_summary(made.plugin());
    assert!(text.contains(&format!("  note on 2, {built}")), "{text}");
    // And a tag that was built before.
    let text = built_summary(made.plugin());
    assert!(text.contains(&format!("  note on 2, {built}")), "{text}");
    let text = built_summary(Plugin {
        download_url: String::new(),
        package: Some(PackageSettings::defaults(&"acme".parse().unwrap())),
        ..made.plugin()
    });
    let skipped = "skipped 3, a version, but the entry's tags lack its pattern: 1.2-premium ({version}-premium), 1.1-built ({version}-built), ";
    assert!(text.contains(skipped), "{text}");
}

#[test]
fn a_theme_with_a_plugins_file_is_a_theme() {
    let made = Fixture::new();
    let style = "/*\nTheme Name: Acme\nVersion: 1.0\n*/";
    made.tag(
        "1.0",
        made.commit(&[("acme.php", &header("1.0")), ("style.css", style)]),
    );
    made.tag(
        "1.1",
        made.commit(&[("acme.php", &header("1.1")), ("style.css", "p { color: red }")]),
    );
    let report = made.build(made.plugin());
    assert_eq!(outcomes(&report), ["1.0 skipped theme", "1.1 built"]);
    let report = made.build(with_source(made.plugin(), "", Some("acme.php")));
    assert_eq!(
        outcomes(&report),
        ["1.0 built", "1.1 unchanged"],
        "the entry says that it is a plugin"
    );
}

#[test]
fn a_fourth_number_of_zero_finds_the_entry_without_it_where_nothing_else_fits() {
    let readme = |entries: &str| {
        format!(
            "=== Acme ===\n\nForms.\n\n== Changelog ==\n\n{entries}\n\n== Upgrade Notice ==\n\n= 1.117.1 =\nBack up.\n"
        )
    };
    for (entries, expected, is_warned) in [
        ("= 1.117.1 =\n* A fix.\n\n= 1.117.0 =\n* Old.", "- A fix.", true),
        ("= 1.117.1.0 =\n* Exact.\n\n= 1.117.1 =\n* A fix.", "- Exact.", false),
        ("= 1.117 =\n* Old.", "", false),
    ] {
        let made = Fixture::new();
        let files = [("acme.php", &*header("1.117.1.0")), ("readme.txt", &readme(entries))];
        made.tag("1.117.1.0", made.commit(&files));
        let report = made.build(made.plugin());
        assert_eq!(made.field("1.117.1.0", "/changelog"), expected, "{entries}");
        assert_eq!(made.field("1.117.1.0", "/upgrade_notice"), "Back up.");
        let note = Reason::ChangelogOf("1.117.1".parse().unwrap());
        assert_eq!(report.tags[0].notes.contains(&note), is_warned, "{entries}");
    }
}

#[test]
fn what_a_tags_message_says_is_shown_where_there_is_no_changelog() {
    let made = Fixture::new();
    let commit = made.commit(&[("acme.php", &header("1.0"))]);
    made.annotate("1.0", commit, "1.0\n\n* Fixed a & more\n* Fixed again\n", COMMITTED);
    let commit = made.commit(&[("acme.php", &header("1.1-rc.1"))]);
    made.annotate("1.1-rc.1", commit, "1.1 Release Candidate One", COMMITTED);
    made.build(made.plugin());
    assert_eq!(made.field("1.0", "/changelog"), "- Fixed a & more\n- Fixed again");
    assert_eq!(
        made.field("1.0", "/sections/changelog"),
        "<p>- Fixed a &amp; more<br>\n- Fixed again</p>"
    );
    for field in ["/changelog", "/sections/changelog"] {
        assert_eq!(made.field("1.1-rc.1", field), "", "{field}");
    }
}

#[test]
fn a_letter_for_a_digit_makes_no_version_and_is_reported_with_what_is_meant() {
    let made = Fixture::new();
    made.release("v1.1", "1.1");
    for tag in ["v1.2.O", "1.l", "1.IO", "1.1O", "1.O.1"] {
        made.release(tag, "1.2.0");
    }
    for tag in ["1.2-l10n", "1.0-o2", "1.0-lo"] {
        made.release(tag, tag);
    }
    let report = made.run(&[entry(made.plugin())], false, &[]);
    let slips: Vec<_> = outcomes(&report.plugins[0])
        .into_iter()
        .filter(|line| line.contains("letter"))
        .collect();
    assert_eq!(
        slips,
        [
            "1.1O skipped letter_for_digit",
            "1.IO skipped letter_for_digit",
            "1.O.1 skipped letter_for_digit",
            "1.l skipped letter_for_digit",
            "v1.2.O skipped letter_for_digit",
        ]
    );
    let text = summary(&report, false);
    let line = "newest not published: 1.1O: not a version: it has a letter in place of a digit: did you mean 1.10?\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn a_tag_name_is_encoded_in_addresses_and_escaped_in_reports() {
    let made = Fixture::new();
    made.release("ü{slug}%/1.0", "1.0");
    made.release("\u{202e}\u{9b}31m", "1.1");
    let plugin = Plugin {
        tags: vec!["ü{slug}%/{version}".parse().unwrap()],
        ..made.plugin()
    };
    let report = made.run(&[entry(plugin)], false, &[]);
    assert_eq!(
        made.field("1.0", "/download_url"),
        "https://example.com/acme/%C3%BC%7Bslug%7D%25%2F1.0/acme-1.0.zip"
    );
    assert_eq!(made.field("1.0", "/tag"), "ü{slug}%/1.0");
    let text = summary(&report, false);
    assert!(text.contains(r"\u{202e}\u{9b}31m"), "{text}");
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
}

/// A plugin with everything the CMS shows, and PHP that parses.
const COMPLETE: [(&str, &str); 3] = [
    ("acme.php", "<?php\n/*\n * Plugin Name: Acme\n * Version: 1.0\n */\n"),
    (
        "readme.txt",
        "=== Acme ===\nRequires at least: 6.0\nTested up to: 6.8\n\nForms.\n\n== Changelog ==\n= 1.0 =\n* First\n",
    ),
    ("inc/more.php", "<?php\nreturn 1;\n"),
];

fn with_pictures(plugin: Plugin) -> Plugin {
    let picture = |size: &str| {
        [(size.to_owned(), "https://example.com/picture.png".to_owned())]
            .into_iter()
            .collect()
    };
    Plugin {
        icons: picture("1x"),
        banners: picture("low"),
        ..plugin
    }
}

fn warnings(report: &PluginReport) -> Vec<String> {
    report
        .warnings
        .iter()
        .map(|warning| format!("{} {}", warning.version, warning.remark))
        .collect()
}

#[test]
fn a_build_warns_of_each_thing_the_newest_release_lacks() {
    let cases: [(&[(&str, &str)], &str); 10] = [
        (
            &[("readme.txt", "")],
            "1.0 there is no readme.txt: the details window shows only the plugin header",
        ),
        (
            &[("readme.txt", "=== Acme ===\nRequires at least: 6\n")],
            "1.0 readme.txt:2: \"6\" is not a version such as 6.5 or 6.5.1",
        ),
        (
            &[
                ("CHANGELOG.md", "x"),
                (
                    "readme.txt",
                    "=== Acme ===\nTested up to: 6.8\nRequires at least: 6.0\n",
                ),
            ],
            "1.0 no changelog has an entry for 1.0",
        ),
        (
            &[("inc/more.php", "<?php\n\nfunction {\n")],
            "1.0 inc/more.php:3: does not parse: syntax error, unexpected token",
        ),
        (
            &[
                ("vendor/a.php", "<?php function {"),
                ("tests/a.php", "<?php function {"),
            ],
            "",
        ),
        (
            &[(
                "composer.json",
                "{\"require\": {\"php\": \">=8\", \"acme/lib\": \"^1\", \"b/b\": \"1\"}}",
            )],
            "1.0 composer.json: requires acme/lib and 1 more, but there is no vendor folder",
        ),
        (
            &[(
                "composer.json",
                "{\"require\": {\"php\": \">=8\", \"ext-json\": \"*\"}}",
            )],
            "",
        ),
        (
            &[
                ("composer.json", "{\"require\": {\"a/b\": \"1\"}}"),
                ("vendor/autoload.php", "<?php"),
            ],
            "",
        ),
        (&[("composer.json", "no JSON")], ""),
        (&[], ""),
    ];
    for (changes, expected) in cases {
        let made = Fixture::new();
        let kept = COMPLETE
            .iter()
            .filter(|(name, _)| !changes.iter().any(|(changed, _)| changed == name));
        let files: Vec<_> = kept
            .chain(changes)
            .filter(|(_, text)| !text.is_empty())
            .copied()
            .collect();
        made.tag("1.0", made.commit(&files));
        let warnings = warnings(&made.build(with_pictures(made.plugin())));
        let is_warned = warnings.iter().any(|warning| warning.starts_with(expected));
        assert!(
            if expected.is_empty() {
                warnings.is_empty()
            } else {
                is_warned
            },
            "{changes:?}: {warnings:?}"
        );
    }
}

#[test]
fn a_build_says_that_pictures_of_the_repository_have_no_address() {
    let made = Fixture::new();
    let pictures = [
        ("assets/icon.svg", "<svg/>"),
        ("assets/banner-772x250.png", "x"),
        ("assets/logo.png", "x"),
    ];
    made.tag("1.0", made.commit(&[&COMPLETE[..], &pictures].concat()));
    let found = warnings(&made.build(made.plugin()));
    let hint = "upload them and set their URLs in [icons] and [banners] of the entry";
    assert_eq!(
        found,
        [format!(
            "1.0 the CMS shows no icons and no banners: the repository has banner-772x250.png and 1 more; {hint}"
        )]
    );
    let bare = Fixture::new();
    bare.tag("1.0", bare.commit(&COMPLETE));
    let only_icons = Plugin {
        banners: Default::default(),
        ..with_pictures(bare.plugin())
    };
    assert_eq!(
        warnings(&bare.build(only_icons)),
        ["1.0 the CMS shows no banners: set their URLs in [banners] of the entry"]
    );
}

#[test]
fn warnings_are_about_the_newest_release_and_the_newest_stable_one_and_stay_when_nothing_changed() {
    let made = Fixture::new();
    for version in ["0.9", "1.0", "2.0-beta1"] {
        made.release(version, version);
    }
    let tags = |report: &PluginReport| {
        let mut tags: Vec<_> = report.warnings.iter().map(|warning| warning.tag.clone()).collect();
        tags.dedup();
        tags
    };
    let first = made.build(made.plugin());
    assert_eq!(tags(&first), ["2.0-beta1", "1.0"]);
    let again = made.build(made.plugin());
    assert_eq!(
        outcomes(&again),
        ["0.9 unchanged", "1.0 unchanged", "2.0-beta1 unchanged"]
    );
    assert_eq!(again.warnings, first.warnings);
}

#[test]
fn the_summary_counts_what_its_lines_tell() {
    let made = Fixture::new();
    made.release("1.0", "1.0");
    made.release("1.1", "1.1");
    made.release("latest", "1.1");
    made.release("1.2", "1.1");
    made.build(made.plugin());
    made.git.find_reference("refs/tags/1.0").unwrap().delete().unwrap();
    let broken = Plugin {
        slug: "other".parse().unwrap(),
        ..made.plugin()
    };
    let broken = Plugin {
        source: broken.source.map(|source| PluginSource {
            repository: RepositoryLocation::Folder("/nowhere".into()),
            ..source
        }),
        ..broken
    };
    let text = summary(&made.run(&[entry(made.plugin()), entry(broken)], false, &[]), false);
    let total = text.lines().last().unwrap();
    let lines = |start: &str| text.lines().filter(|line| line.trim_start().starts_with(start)).count();
    let warnings = lines("warning, ") + lines("newest not published");
    assert_eq!(lines("other  broken"), 1, "{text}");
    assert_eq!(lines("removed 1: 1.0"), 1, "{text}");
    assert_eq!(lines("skipped 1, "), 2, "{text}");
    assert!(warnings > 2, "{text}");
    let expected = format!("2 skipped, 0 failed, 1 plugin broken, 1 release removed, {warnings} warnings");
    assert!(total.ends_with(&expected), "{text}");
}

#[test]
fn faq_and_installation_are_sections_where_the_readme_has_them() {
    let made = Fixture::new();
    let readme = "=== Acme ===\n\n== Installation ==\n1. Upload\n\n== Frequently Asked Questions ==\n= Why? =\n<script>x</script>Because.\n";
    made.tag(
        "1.0",
        made.commit(&[("acme.php", &header("1.0")), ("readme.txt", readme)]),
    );
    made.release("0.9", "0.9");
    made.build(made.plugin());
    assert_eq!(
        made.field("1.0", "/sections/installation"),
        "<ol>\n<li>Upload</li>\n</ol>"
    );
    assert_eq!(made.field("1.0", "/sections/faq"), "<h4>Why?</h4>\nBecause.");
    let without = fs::read_to_string(made.releases().join("acme/0.9.json")).unwrap();
    assert!(
        !without.contains("faq") && !without.contains("installation"),
        "{without}"
    );
}

#[test]
fn the_index_says_which_releases_are_security_releases() {
    let made = Fixture::new();
    for (version, notice) in [("1.0", "Save first."), ("1.1", "Security: update now."), ("1.2", "")] {
        let readme = format!("=== Acme ===\n\n== Upgrade Notice ==\n= {version} =\n{notice}\n");
        made.tag(
            version,
            made.commit(&[("acme.php", &header(version)), ("readme.txt", &readme)]),
        );
    }
    made.build(made.plugin());
    let index = ReleaseIndex::read(&made.releases()).unwrap().unwrap();
    let releases = &index.plugins["acme"].releases;
    let listed: Vec<_> = releases
        .iter()
        .map(|release| (release.version.as_str(), release.security))
        .collect();
    assert_eq!(listed, [("1.2", false), ("1.1", true), ("1.0", false)]);
    let text = fs::read_to_string(made.releases().join("index.json")).unwrap();
    assert_eq!(
        text.matches("security").count(),
        1,
        "only security releases have the member: {text}"
    );
}

#[test]
fn an_upgrade_notice_of_no_version_is_a_warning_of_the_build() {
    for (notice, is_warned) in [("Back up first.", true), ("= 1.0 =\nBack up first.", false)] {
        let made = Fixture::new();
        let (name, readme) = COMPLETE[1];
        let readme = format!("{readme}\n== Upgrade Notice ==\n\n{notice}\n");
        made.tag("1.0", made.commit(&[COMPLETE[0], (name, &readme), COMPLETE[2]]));
        let warnings = warnings(&made.build(with_pictures(made.plugin())));
        let expected = "1.0 readme.txt:11: the Upgrade Notice is below no version heading such as = 1.2 =, so it belongs to no release";
        let expected = if is_warned {
            vec![expected.to_owned()]
        } else {
            Vec::new()
        };
        assert_eq!(warnings, expected, "{notice}");
    }
}

#[test]
fn one_of_a_kind_is_counted_in_the_singular() {
    let made = Fixture::new();
    made.release("1.0", "1.0");
    let text = summary(&made.run(&[entry(made.plugin())], false, &[]), false);
    assert!(
        text.contains("  1 tag: 1 built") && text.contains("1 plugin, 1 tag: 1 built"),
        "{text}"
    );
}

#[test]
fn versions_that_are_equal_to_php_at_different_commits_are_an_error_and_change_nothing() {
    let made = Fixture::new();
    made.release("1.0-beta1", "1.0-beta1");
    made.release("0.9", "0.9");
    made.build(made.plugin());
    let before = made.published();
    made.release("v1.0beta1", "1.0beta1");

    let report = made.build(made.plugin());
    assert_eq!(
        outcomes(&report),
        [
            "0.9 unchanged",
            "1.0-beta1 failed conflicting_tags",
            "v1.0beta1 failed conflicting_tags"
        ]
    );
    assert_eq!(made.published(), before);
    assert_eq!(report.kept.len(), 1);
}

#[test]
fn tags_whose_headers_make_them_one_version_are_an_error() {
    let made = Fixture::new();
    made.release("1.2", "1.2");
    made.commit(&[]);
    let commit = made.commit(&[("acme.php", &header("1.2")), ("more.txt", "")]);
    made.tag("1.2.0", commit);
    let report = made.build(made.plugin());
    assert_eq!(
        outcomes(&report),
        ["1.2 failed conflicting_tags", "1.2.0 failed conflicting_tags"]
    );
    assert_eq!(made.published().len(), 1, "the index and no manifest, staged or not");
}

#[test]
fn versions_that_differ_in_zero_parts_at_one_commit_are_one_release() {
    for header in ["1.2", "1.2.0"] {
        let made = Fixture::new();
        let commit = made.release("1.2", header);
        made.tag("1.2.0", commit);
        let report = made.build(made.plugin());
        assert_eq!(outcomes(&report), ["1.2 skipped same_as", "1.2.0 built"]);
        assert_eq!(versions(&report), [header]);
        assert_eq!(verify_all(&made.releases()).unwrap(), 1);
    }
}

#[test]
fn versions_that_are_equal_to_php_at_one_commit_are_one_release() {
    let made = Fixture::new();
    let commit = made.release("1.0", "1.0");
    made.tag("v1.0", commit);
    assert_eq!(
        outcomes(&made.build(made.plugin())),
        ["1.0 built", "v1.0 skipped same_as"]
    );
    made.annotate("v1.0", commit, "Release", COMMITTED);
    assert_eq!(
        outcomes(&made.build(made.plugin())),
        ["1.0 skipped same_as", "v1.0 built"]
    );
}

#[test]
fn latest_is_the_greatest_stable_version_to_php() {
    let made = Fixture::new();
    for version in ["1.9", "1.10", "2.0-beta1", "1.10-pl1"] {
        made.release(version, version);
    }
    let report = made.build(made.plugin());
    assert_eq!(versions(&report), ["2.0-beta1", "1.10-pl1", "1.10", "1.9"]);
    assert_eq!(report.releases.latest.unwrap().as_str(), "1.10-pl1");
}

#[test]
fn the_entry_withholds_versions_and_sets_a_range() {
    let made = Fixture::new();
    for version in ["1.0", "2.0", "2.1", "3.0-beta1"] {
        made.release(version, version);
    }
    let mut plugin = made.plugin();
    plugin.withhold = vec!["2.1.0".parse().unwrap()];
    plugin.versions = ">=2, <3".parse().unwrap();
    let report = made.build(plugin);
    assert_eq!(
        outcomes(&report),
        [
            "1.0 skipped outside_versions",
            "2.0 built",
            "2.1 skipped withheld",
            "3.0-beta1 skipped outside_versions"
        ]
    );
    assert!(
        report.missing_newest().is_none(),
        "what the entry leaves out is not missed"
    );
}

#[test]
fn the_main_file_is_found_without_a_hint() {
    let made = Fixture::new();
    let release = |version: &str, files: &[&str]| {
        let header = header(version);
        let mut files: Vec<_> = files.iter().map(|name| (*name, header.as_str())).collect();
        files.push(("index.php", "<?php // Silence is golden."));
        made.tag(version, made.commit(&files));
    };
    release("1.0", &["acme.php", "zzz.php"]);
    release("1.1", &["acme-repository.php", "zzz.php"]);
    release("1.2", &["zzz.php"]);
    release("1.3", &["aaa.php", "zzz.php"]);
    release("1.4", &["includes/zzz.php"]);
    assert_eq!(
        outcomes(&made.build(made.plugin())),
        [
            "1.0 built",
            "1.1 built",
            "1.2 built",
            "1.3 skipped ambiguous",
            "1.4 skipped moved"
        ]
    );
    // A pinned file decides; where it is absent the search decides.
    assert_eq!(
        outcomes(&made.build(with_source(made.plugin(), "", Some("aaa.php")))),
        [
            "1.0 unchanged",
            "1.1 unchanged",
            "1.2 unchanged",
            "1.3 built",
            "1.4 skipped moved"
        ]
    );
    assert_eq!(
        outcomes(&made.build(with_source(made.plugin(), "", Some("includes/zzz.php"))))[4],
        "1.4 built"
    );
}

#[test]
fn what_is_no_plugin_is_refused_with_its_own_reason() {
    let made = Fixture::new();
    let acme = header("1.0");
    let large = "x".repeat((2 << 20) + 1);
    let cases: [(&str, &str, u32, &[u8]); 6] = [
        ("1.0 skipped theme", "style.css", FILE, b"/*\nTheme Name: Acme\n*/"),
        (
            "1.1 skipped no_version",
            "acme.php",
            FILE,
            b"<?php\n/*\nPlugin Name: Acme\n*/",
        ),
        ("1.2 skipped not_followed", "acme.php", LINK, b"/etc/passwd"),
        ("1.3 skipped not_followed", "acme.php", SUBMODULE, b"x"),
        ("1.4 skipped too_large", "acme.php", FILE, large.as_bytes()),
        ("1.5 skipped moved", "src/acme.php", FILE, acme.as_bytes()),
    ];
    for (outcome, path, mode, contents) in cases {
        made.tag(&outcome[..3], made.commit_of(&[(path, mode, contents)]));
    }
    assert_eq!(outcomes(&made.build(made.plugin())), cases.map(|(outcome, ..)| outcome));
}

#[test]
fn a_readme_that_cannot_be_used_is_noted_and_the_next_one_is_read() {
    let made = Fixture::new();
    let acme = header("1.0");
    let large = "x".repeat((4 << 20) + 1);
    let commit = made.commit_of(&[
        ("acme.php", FILE, acme.as_bytes()),
        ("ReadMe.txt", LINK, b"../../etc/passwd"),
        ("README.md", FILE, b"=== Acme ===\nTested up to: 6.9\n\nForms."),
        ("CHANGELOG.md", FILE, large.as_bytes()),
        ("changes.txt", FILE, b"= 1.0 =\n\nFirst."),
    ]);
    made.tag("1.0", commit);
    let report = made.build(made.plugin());
    assert_eq!(outcomes(&report), ["1.0 built"]);
    assert_eq!(report.tags[0].notes.len(), 2, "{:?}", report.tags[0].notes);
    assert_eq!(made.field("1.0", "/tested"), "6.9");
    assert_eq!(made.field("1.0", "/changelog"), "First.");
}

#[test]
fn a_monorepo_gives_each_plugin_its_own_tags_and_folder() {
    let made = Fixture::new();
    let commit = made.commit(&[
        ("plugins/acme/acme.php", &header("1.0")),
        ("plugins/other/other.php", &header("2.0")),
    ]);
    made.tag("acme/1.0", commit);
    made.tag("other/2.0", commit);
    made.tag("acme/0.9", made.commit(&[("acme.php", &header("0.9"))]));
    made.tag("acme/0.8", made.commit_of(&[("plugins", LINK, b"elsewhere")]));
    let mut plugin = with_source(made.plugin(), "plugins/acme", None);
    plugin.tags = vec!["acme/{version}".parse().unwrap()];
    assert_eq!(
        outcomes(&made.build(plugin)),
        [
            "acme/0.8 skipped not_followed",
            "acme/0.9 skipped path_absent",
            "acme/1.0 built",
            "other/2.0 skipped other_name"
        ]
    );
    assert_eq!(
        made.field("1.0", "/download_url"),
        "https://example.com/acme/acme%2F1.0/acme-1.0.zip"
    );
}

#[test]
fn a_header_that_names_another_version_stops_a_stable_release() {
    let made = Fixture::new();
    made.release("1.0", "1.0.0");
    made.release("1.1", "1.0");
    made.release("1.2-beta1", "1.2");
    let report = made.build(made.plugin());
    assert_eq!(
        outcomes(&report),
        ["1.0 built", "1.1 skipped version_mismatch", "1.2-beta1 built"]
    );
    assert_eq!(
        versions(&report),
        ["1.2-beta1", "1.0.0"],
        "1.0 is offered as the installed plugin will call itself"
    );
    let codes: Vec<Vec<_>> = report
        .tags
        .iter()
        .map(|tag| tag.notes.iter().map(Reason::code).collect())
        .collect();
    assert_eq!(
        codes,
        [vec!["version_mismatch"], vec![], vec!["written_as"]],
        "newest first"
    );
    assert_eq!(report.missing_newest().unwrap().0, "1.1");

    let allowed = Plugin {
        allow_version_mismatch: true,
        ..made.plugin()
    };
    assert_eq!(versions(&made.build(allowed)), ["1.2-beta1", "1.1", "1.0.0"]);
}

#[test]
fn missing_and_damaged_objects_fail_their_tag_and_nothing_else() {
    let made = Fixture::new();
    let object = |id: git2::Oid| {
        let hex = id.to_string();
        made.git.path().join("objects").join(&hex[..2]).join(&hex[2..])
    };
    made.release("1.0", "1.0");
    let gone = made.release("1.1", "1.1");
    let tree = made.git.find_commit(made.release("1.2", "1.2")).unwrap().tree_id();
    let blob = made
        .git
        .find_tree(made.git.find_commit(made.release("1.3", "1.3")).unwrap().tree_id())
        .unwrap();
    let blob = blob.get_name("acme.php").unwrap().id();
    fs::remove_file(object(gone)).unwrap();
    fs::remove_file(object(tree)).unwrap();
    let mut bytes = fs::read(object(blob)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    fs::remove_file(object(blob)).unwrap();
    fs::write(object(blob), bytes).unwrap();
    fs::write(made.git.path().join("refs/tags/1.4"), "").unwrap();

    let report = made.build(made.plugin());
    assert_eq!(
        outcomes(&report),
        [
            "1.0 built",
            "1.1 failed unreadable",
            "1.2 failed unreadable",
            "1.3 failed unreadable",
            "1.4 failed unreadable"
        ]
    );
    assert_eq!(verify_all(&made.releases()).unwrap(), 1);
}

#[test]
fn a_damaged_pack_fails_the_tags_in_it_or_the_plugin_and_is_reported() {
    let made = Fixture::new();
    let mut packer = made.git.packbuilder().unwrap();
    for version in ["1.0", "1.1", "1.2"] {
        packer.insert_commit(made.release(version, version)).unwrap();
    }
    packer.write(&made.git.path().join("objects/pack"), 0).unwrap();
    for folder in fs::read_dir(made.git.path().join("objects")).unwrap() {
        let folder = folder.unwrap();
        if folder.file_name().len() == 2 {
            fs::remove_dir_all(folder.path()).unwrap();
        }
    }
    let mut packs = fs::read_dir(made.git.path().join("objects/pack"))
        .unwrap()
        .map(|file| file.unwrap().path());
    let pack = packs.find(|path| path.extension().unwrap() == "pack").unwrap();
    let whole = fs::read(&pack).unwrap();
    fs::remove_file(&pack).unwrap();
    let build_with = |bytes: &[u8]| {
        fs::write(&pack, bytes).unwrap();
        made.run(&[entry(made.plugin())], true, &[])
    };
    let releases = |report: &BuildReport| report.plugins[0].releases.clone();
    let good = releases(&build_with(&whole));
    assert_eq!(good.releases.len(), 3);

    // Some bits mean nothing, such as the compression level. Whatever means something is noticed.
    let mut noticed = 0;
    for position in 12..whole.len() - 20 {
        let mut bytes = whole.clone();
        bytes[position] ^= 1 << (position % 8);
        let report = build_with(&bytes);
        assert!(
            report.failed() || releases(&report) == good,
            "byte {position}: {:?}",
            report.plugins[0]
        );
        noticed += usize::from(report.failed());
    }
    assert!(noticed > (whole.len() - 32) * 9 / 10);
    assert!(build_with(&whole[..whole.len() / 2]).failed());
}

#[test]
fn the_entry_speaks_before_the_header_and_the_header_before_the_readme() {
    let made = Fixture::new();
    let php = "<?php\n/*\nPlugin Name: From header\nVersion: 1.0\nRequires PHP: 8.1\nAuthor: Header\n\
               Plugin URI: javascript:alert(1)\nAuthor URI: https://header.example/\n*/";
    let readme = "=== From readme ===\nTested up to: 6.9\nRequires PHP: 7.0\nRequires at least: 6.0\n\nShort.\n\n\
                  == Description ==\n\nLong.\n\n== Changelog ==\n\n= 1.0 =\n\nFirst.\n\n= 0.9 =\n\nZeroth.\n";
    made.tag("1.0", made.commit(&[("acme.php", php), ("readme.txt", readme)]));
    made.build(Plugin {
        author: "Entry".into(),
        ..made.plugin()
    });
    for (field, expected) in [
        ("name", "From header"),
        ("author", "Entry"),
        ("author_homepage", "https://header.example/"),
        ("homepage", ""),
        ("tested", "6.9"),
        ("requires", "6.0"),
        ("requires_php", "8.1"),
        ("description", "Short."),
        ("changelog", "First."),
        ("new_version", "1.0"),
    ] {
        assert_eq!(made.field("1.0", &format!("/{field}")), expected, "{field}");
    }
    assert_eq!(made.field("1.0", "/sections/description").trim(), "<p>Long.</p>");
    assert!(made.field("1.0", "/sections/changelog").contains("Zeroth."));
}

#[test]
fn a_release_whose_tag_fails_later_stays_published() {
    let made = Fixture::new();
    let commit = made.release("1.0", "1.0");
    made.build(made.plugin());
    let before = made.published();
    let hex = commit.to_string();
    fs::remove_file(made.git.path().join("objects").join(&hex[..2]).join(&hex[2..])).unwrap();
    // Another name, so that the tag has to be read again.
    let report = made.build(Plugin {
        name: "Acme Forms".into(),
        ..made.plugin()
    });
    assert_eq!(outcomes(&report), ["1.0 failed unreadable"]);
    assert_eq!(made.published(), before);
}

#[test]
fn two_builds_are_byte_equal_and_the_second_writes_nothing() {
    let made = Fixture::new();
    made.release("v1.0", "1.0");
    made.release("v1.1", "1.1");
    let report = made.build(made.plugin());
    assert_eq!((report.added.len(), report.changed.len()), (2, 0));
    let first = made.published();
    let written = |name: &str| fs::metadata(made.releases().join(name)).unwrap().modified().unwrap();
    let times = (written("index.json"), written("acme/1.0.json"));

    assert_eq!(
        outcomes(&made.build(made.plugin())),
        ["v1.0 unchanged", "v1.1 unchanged"]
    );
    assert_eq!(made.published(), first);
    assert_eq!((written("index.json"), written("acme/1.0.json")), times);

    fs::remove_dir_all(made.releases()).unwrap();
    made.build(made.plugin());
    assert_eq!(made.published(), first);
}

#[test]
fn check_writes_nothing_and_tells_what_would_change() {
    let made = Fixture::new();
    made.release("1.0", "1.0");
    let report = made.run(&[entry(made.plugin())], true, &[]);
    assert!(report.differs());
    assert!(!made.releases().exists());

    made.release("1.1", "1.1");
    made.build(made.plugin());
    assert!(!made.run(&[entry(made.plugin())], true, &[]).differs());

    made.release("1.1", "1.1.0");
    made.release("1.2", "1.2");
    let before = made.published();
    let mut plugin = made.plugin();
    plugin.withhold = vec!["1.0".parse().unwrap()];
    let report = made.run(&[entry(plugin)], true, &[]);
    let text = summary(&report, false);
    for line in ["would add 2: 1.2, 1.1.0", "would remove 2: 1.1, 1.0"] {
        assert!(text.contains(line), "{text}");
    }
    assert_eq!(made.published(), before);
}

#[test]
fn a_moved_tag_changes_its_release() {
    let made = Fixture::new();
    made.release("1.0", "1.0");
    made.build(made.plugin());
    made.tag("1.0", made.commit(&[("acme.php", &header("1.0")), ("new.txt", "")]));
    let report = made.build(made.plugin());
    assert_eq!(
        (report.added.len(), report.changed.len()),
        (0, 1),
        "the index names the commit"
    );
}

#[test]
fn a_broken_entry_keeps_what_was_published_and_stops_no_other() {
    let made = Fixture::new();
    made.release("1.0", "1.0");
    let other = Plugin {
        slug: "other".parse().unwrap(),
        ..with_source(made.plugin(), "", Some("acme.php"))
    };
    made.run(&[entry(made.plugin()), entry(other.clone())], false, &[]);
    let before = made.published();

    made.release("1.1", "1.1");
    let mut broken = made.plugin();
    broken.source.as_mut().unwrap().repository = RepositoryLocation::Folder(made.releases());
    let report = made.run(&[entry(broken), entry(other)], false, &[]);
    assert!(report.failed());
    assert!(matches!(&report.plugins[0].state, PluginState::Broken(_)));
    let after = made.published();
    assert!(
        before
            .iter()
            .filter(|(name, _)| name.starts_with("acme/"))
            .all(|file| after.contains(file))
    );
    assert!(after.iter().any(|(name, _)| name == "other/1.1.json"));
    assert_eq!(verify_all(&made.releases()).unwrap(), 3);
}

#[test]
fn a_file_address_is_mirrored_and_one_that_leads_nowhere_is_reported() {
    let made = Fixture::new();
    made.release("1.0", "1.0");
    let at = |address: &str| {
        let mut plugin = made.plugin();
        plugin.source.as_mut().unwrap().repository = RepositoryLocation::Url(address.parse().unwrap());
        made.build(plugin)
    };
    let here = url::Url::from_directory_path(made.repository()).unwrap();
    assert_eq!(outcomes(&at(here.as_str())), ["1.0 built"]);
    let PluginState::Broken(problems) = at("file:///nowhere/acme.git").state else {
        panic!()
    };
    assert!(
        problems[0].starts_with("file:///nowhere/acme.git: cannot be fetched: fatal: "),
        "{problems:?}"
    );
}

#[test]
fn a_repository_of_another_user_is_reported_with_what_git_asks_for() {
    let made = Fixture::new();
    made.release("1.0", "1.0");
    for folder in [made.repository().clone(), made.repository().join(".git")] {
        let changed = std::os::unix::fs::chown(folder, Some(12_345), None);
        changed.expect("only root gives a folder to another user: run the tests as root");
    }
    let PluginState::Broken(problems) = made.build(made.plugin()).state else {
        panic!("it was read");
    };
    let folder = made.repository().canonicalize().unwrap();
    let folder = folder.display();
    let message = format!(
        "{folder}: the repository belongs to another user; if you trust it, run `git config --global --add safe.directory {folder}` as the user that builds"
    );
    assert_eq!(problems, [message]);
}

#[test]
fn a_repository_that_lost_its_tags_unpublishes_nothing() {
    let made = Fixture::new();
    made.release("1.0", "1.0");
    made.build(made.plugin());
    let before = made.published();
    made.git.find_reference("refs/tags/1.0").unwrap().delete().unwrap();
    assert!(matches!(made.build(made.plugin()).state, PluginState::Broken(_)));
    assert_eq!(made.published(), before);
}

#[test]
fn a_plugin_that_left_the_registry_goes_only_when_all_are_built() {
    let made = Fixture::new();
    made.release("1.0", "1.0");
    let other = Plugin {
        slug: "other".parse().unwrap(),
        ..made.plugin()
    };
    made.run(&[entry(made.plugin()), entry(other.clone())], false, &[]);
    let all = made.published();

    let nameless = || countersign_registry::plugins::PluginEntry {
        slug: None,
        plugin: Err(vec![]),
        ..entry(made.plugin())
    };
    made.run(&[entry(made.plugin()), nameless()], false, &[]);
    made.run(&[entry(made.plugin())], false, &["acme"]);
    assert_eq!(made.published(), all);

    let report = made.run(&[entry(made.plugin())], false, &[]);
    assert_eq!(report.gone.len(), 1);
    assert!(!made.releases().join("other").exists());
    assert_eq!(verify_all(&made.releases()).unwrap(), 1);
}

#[test]
fn only_the_named_plugins_are_built() {
    let made = Fixture::new();
    made.release("1.0", "1.0");
    let entries = [
        entry(made.plugin()),
        entry(Plugin {
            slug: "other".parse().unwrap(),
            ..made.plugin()
        }),
    ];
    made.run(&entries, false, &[]);
    made.release("1.1", "1.1");
    let report = made.run(&entries, false, &["other"]);
    assert_eq!(report.plugins.len(), 1);
    let index = ReleaseIndex::read(&made.releases()).unwrap().unwrap();
    assert_eq!(index.plugins["acme"].releases.len(), 1);
    assert_eq!(index.plugins["other"].releases.len(), 2);
    let unknown = run(&entries, &made.options(false, &["acne"]), Arc::new(Silent));
    assert!(matches!(unknown, Err(BuildError::UnknownPlugin(_))));
}

#[test]
fn an_entry_without_repository_publishes_nothing() {
    let made = Fixture::new();
    made.release("1.0", "1.0");
    made.build(made.plugin());
    let report = made.build(Plugin {
        source: None,
        ..made.plugin()
    });
    assert_eq!(report.state, PluginState::NoSource);
    assert_eq!(report.removed.len(), 1);
    assert_eq!(made.published().len(), 1);
}

#[test]
fn nothing_is_exchanged_or_removed_before_the_new_index_is_on_the_disk() {
    let made = Fixture::new();
    made.release("1.0", "1.0");
    made.release("1.1", "1.1");
    made.build(made.plugin());
    // A folder in the way of the index' temporary file: it cannot be written, for root neither.
    let obstacle = made.releases().join(".index.json.new");
    fs::create_dir(&obstacle).unwrap();
    let index = fs::read(made.releases().join("index.json")).unwrap();

    made.release("1.2", "1.2");
    let plugin = Plugin {
        withhold: vec!["1.0".parse().unwrap()],
        ..made.plugin()
    };
    let error = run(&[entry(plugin.clone())], &made.options(false, &[]), Arc::new(Silent)).unwrap_err();
    assert!(error.to_string().contains("index.json"), "{error}");
    assert_eq!(fs::read(made.releases().join("index.json")).unwrap(), index);
    assert!(
        !made.releases().join("acme/1.2.json").exists(),
        "the new manifest waits for the index"
    );
    assert!(
        made.releases().join("acme/1.0.json").exists(),
        "removal comes after the index"
    );
    assert_eq!(verify_all(&made.releases()).unwrap(), 2);

    fs::remove_dir(obstacle).unwrap();
    made.build(plugin);
    assert!(!made.releases().join("acme/1.0.json").exists());
    assert_eq!(verify_all(&made.releases()).unwrap(), 2);
}

#[test]
fn a_manifest_that_cannot_be_staged_leaves_everything_as_it_was() {
    let made = Fixture::new();
    made.release("1.0", "1.0");
    made.build(made.plugin());
    let before = made.published();
    // A file where a folder is needed: nothing can be written there, for root neither.
    fs::write(made.releases().join("blocked"), "").unwrap();
    made.release("1.1", "1.1");
    made.release("1.2", "1.2");
    let blocked = Plugin {
        slug: "blocked".parse().unwrap(),
        ..made.plugin()
    };
    let entries = [entry(made.plugin()), entry(blocked)];
    assert!(run(&entries, &made.options(false, &[]), Arc::new(Silent)).is_err());
    fs::remove_file(made.releases().join("blocked")).unwrap();
    assert_eq!(made.published(), before);
}

#[test]
fn what_a_build_that_was_cut_off_left_behind_is_removed_and_other_files_stay() {
    let made = Fixture::new();
    made.release("1.0", "1.0");
    made.build(made.plugin());
    for name in ["acme/.0.9.json.new", "acme/0.9.json", "acme/notes.json", "README"] {
        fs::write(made.releases().join(name), "").unwrap();
    }
    made.build(made.plugin());
    let names: Vec<_> = made.published().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["README", "acme/1.0.json", "acme/notes.json", "index.json"]);
}

#[test]
fn an_edited_manifest_is_written_anew_or_reported() {
    let made = Fixture::new();
    made.release("1.0", "1.0");
    made.build(made.plugin());
    let before = made.published();
    let manifest = made.releases().join("acme/1.0.json");
    fs::write(&manifest, "{}").unwrap();
    let report = made.run(
        &[entry(Plugin {
            slug: "other".parse().unwrap(),
            ..made.plugin()
        })],
        false,
        &["other"],
    );
    assert_eq!(report.damaged, ["acme/1.0.json"]);
    assert!(report.failed());
    assert_eq!(outcomes(&made.build(made.plugin())), ["1.0 built"]);
    assert_eq!(made.published(), before);
}

#[test]
fn a_second_build_in_the_same_folder_is_refused() {
    let made = Fixture::new();
    fs::create_dir(made.releases()).unwrap();
    let held = fs::File::open(made.releases()).unwrap();
    held.lock().unwrap();
    let options = Options {
        read_timeout: Duration::from_millis(100),
        ..made.options(false, &[])
    };
    let refused = run(&[entry(made.plugin())], &options, Arc::new(Silent));
    assert!(matches!(refused, Err(BuildError::Busy { .. })), "{refused:?}");
}

/// Publishes from another build while this one reads.
struct Overtaking<F>(F);

impl<F: Fn() + Send + Sync> Progress for Overtaking<F> {
    fn fetching(&self, _: &str) {}
    fn tags_found(&self, _: &Slug, _: usize) {
        self.0();
    }
    fn tags_done(&self, _: usize) {}
    fn plugin_done(&self, _: &PluginReport) {}
}

#[test]
fn a_build_that_another_one_overtook_publishes_nothing_older() {
    let made = Fixture::new();
    made.release("1.0", "1.0");
    made.build(made.plugin());
    let options = made.options(false, &[]);
    made.release("1.1", "1.1");
    // Its own tags are listed by then.
    let options_of_the_other = made.options(false, &[]);
    let plugin = made.plugin();
    let done = std::sync::atomic::AtomicBool::new(false);
    let overtake = move || {
        if !done.swap(true, std::sync::atomic::Ordering::Relaxed) {
            run(&[entry(plugin.clone())], &options_of_the_other, Arc::new(Silent)).unwrap();
        }
    };
    let refused = run(&[entry(made.plugin())], &options, Arc::new(Overtaking(overtake)));
    assert!(matches!(refused, Err(BuildError::Overtaken { .. })), "{refused:?}");
    assert!(made.releases().join("acme/1.1.json").exists());
    let names: Vec<_> = made.published().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["acme/1.0.json", "acme/1.1.json", "index.json"]);
    made.build(made.plugin());
}

#[test]
fn a_repository_that_hangs_is_reported_and_holds_up_neither_its_build_nor_another() {
    let made = Fixture::new();
    made.release("1.0", "1.0");
    let hanging = Fixture::new();
    hanging.release("1.0", "1.0");
    let pipe = hanging.git.path().join("packed-refs");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let stuck = Plugin {
        slug: "stuck".parse().unwrap(),
        ..hanging.plugin()
    };
    let options = Options {
        read_timeout: Duration::from_secs(2),
        ..made.options(false, &[])
    };
    let report = run(&[entry(made.plugin()), entry(stuck)], &options, Arc::new(Silent)).unwrap();
    let PluginState::Broken(problems) = &report.plugins[1].state else {
        panic!("{:?}", report.plugins[1].state)
    };
    assert!(
        problems[0]
            .contains("acme-repository/: not done within 2 s: it has too much to read, or a file does not respond"),
        "{problems:?}"
    );
    assert_eq!(outcomes(&report.plugins[0]), ["1.0 built"]);
    assert!(made.releases().join("acme/1.0.json").exists());
    // The thread that was left alone is still there.
    assert_eq!(outcomes(&made.build(made.plugin())), ["1.0 unchanged"]);
}

#[test]
fn a_link_to_the_releases_is_written_through() {
    let made = Fixture::new();
    made.release("1.0", "1.0");
    let real = made.releases().with_file_name("real");
    fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, made.releases()).unwrap();
    made.build(made.plugin());
    assert!(real.join("index.json").exists());
    assert!(made.releases().is_symlink());
}

#[test]
fn two_thousand_tags_are_read_in_a_few_seconds() {
    let made = Fixture::new();
    let readme = format!(
        "=== Acme ===\nTested up to: 6.9\n\n== Description ==\n{}",
        "Long text.\n".repeat(2_000)
    );
    for number in 0..2_000 {
        let version = format!("1.{number}");
        let commit = made.commit(&[("acme.php", &header(&version)), ("readme.txt", &readme)]);
        made.annotate(&version, commit, "Release", COMMITTED);
    }
    let start = process_time();
    let report = made.build(made.plugin());
    assert_eq!(report.counts().built, 2_000);
    let took = process_time() - start;
    // Half of it may be of other tests at the same time.
    assert!(took.as_secs() < 40, "{took:?}");
}

#[test]
fn where_the_index_cannot_be_written_no_manifest_is_exchanged() {
    let made = Fixture::new();
    made.release("1.0", "1.0");
    made.build(made.plugin());
    let before = made.published();
    let occupied = made.releases().join(".index.json.new");
    fs::create_dir(&occupied).unwrap();
    let renamed = || Plugin {
        name: "Another name".to_owned(),
        ..made.plugin()
    };
    let failed = run(&[entry(renamed())], &made.options(false, &[]), Arc::new(Silent)).unwrap_err();
    assert!(failed.to_string().contains(".index.json.new"), "{failed}");
    fs::remove_dir(&occupied).unwrap();
    assert_eq!(made.published(), before);

    // A folder of a manifest's name is passed over.
    fs::create_dir(made.releases().join("acme/9.0.0.json")).unwrap();
    assert_eq!(made.build(renamed()).counts().built, 1);
}
