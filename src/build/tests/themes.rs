//! Builds of themes: look-alikes of real ones, and the report on those that are not in their place.

use std::fs;

use serde_json::{Value, json};

use crate::build::fixture::{FILE, Fixture, entry, header};
use crate::build::tests::packages::{hand_over, hosted, names, reason};
use crate::build::tests::{outcomes, with_source};
use crate::build::{PluginReport, draft};
use countersign_model::plugin::{PackageOrigin, Plugin, PluginKind};
use countersign_package::catalog::verify_all;

/// The fixture's entry with `type = "theme"` and hosted packages.
fn theme(made: &Fixture) -> Plugin {
    Plugin {
        kind: PluginKind::Theme,
        ..hosted(made)
    }
}

/// A stylesheet with a theme header and more lines of it.
fn style(version: &str, more: &str) -> String {
    format!("@charset \"UTF-8\";\n/*!\nTheme Name: Acme\nVersion: {version}\n{more}*/\nbody {{ margin: 0 }}\n")
}

fn manifest(made: &Fixture, version: &str) -> Value {
    serde_json::from_slice(&fs::read(made.releases().join(format!("acme/{version}.json"))).unwrap()).unwrap()
}

/// The warnings of a build, each behind its file.
fn warnings(report: &PluginReport) -> Vec<String> {
    report
        .warnings
        .iter()
        .map(|warning| warning.remark.to_string())
        .collect()
}

/// The warning about a theme without templates.
const MISSING: &str = "style.css: it has no index.php and no templates/index.html: WordPress calls such a theme broken";

#[test]
fn a_theme_gives_a_manifest_and_a_package_as_a_plugin_does() {
    let made = Fixture::new();
    let css = "/* stylelint-disable */\n/**\n * Theme Name:        Acme &amp; Co\n * Theme URI:         https://acme.example/theme/?a=1&b=2\n\
               \x20* Description:       For <em>shops</em>.\n * Author:            Acme GmbH\n * Author URI:        https://acme.example\n\
               \x20* Version:           2.1.0\n * Requires at least: 6.6\n * Tested up to:      6.9\n * Requires PHP:      8.1\n\
               \x20* Requires Plugins:  woocommerce, Not A Slug, acme-forms, woocommerce\n * Text Domain:       acme\n\
               \x20* Tags:              blog, one-column\n * Update URI:        https://updates.acme.example/acme\n */\n/* stylelint-enable */\n";
    let readme = "=== Acme theme ===\nContributors: acme\nTested up to: 6.8\nStable tag: 2.1.0\n\nA theme from its readme.\n\n\
                  == Changelog ==\n\n= 2.1.0 =\n* New header\n\n= 2.0.0 =\n* First\n";
    let commit = made.commit(&[
        ("style.css", css),
        ("readme.txt", readme),
        ("functions.php", "<?php\n// Not a plugin.\n"),
        ("index.php", "<?php get_header();\n"),
        ("acme.php", &header("9.9")),
        (".gitattributes", "/tests export-ignore\n"),
        ("tests/a.php", "<?php\n"),
    ]);
    made.tag("2.1.0", commit);
    let report = made.build(theme(&made));
    assert_eq!(outcomes(&report), ["2.1.0 built"]);
    assert_eq!(warnings(&report), [""; 0]);

    let built = manifest(&made, "2.1.0");
    for (field, expected) in [
        ("type", json!("theme")),
        ("slug", json!("acme")),
        ("name", json!("Acme & Co")),
        ("version", json!("2.1.0")),
        ("new_version", json!("2.1.0")),
        ("homepage", json!("https://acme.example/theme/?a=1&b=2")),
        ("url", json!("https://acme.example/theme/?a=1&b=2")),
        ("details_url", json!("https://acme.example/theme/?a=1&b=2")),
        ("author", json!("Acme GmbH")),
        ("author_homepage", json!("https://acme.example")),
        ("description", json!("For shops.")),
        ("requires", json!("6.6")),
        ("tested", json!("6.9")),
        ("requires_php", json!("8.1")),
        ("requires_plugins", json!(["acme-forms", "woocommerce"])),
        ("changelog", json!("- New header")),
    ] {
        assert_eq!(built[field], expected, "{field}");
    }
    assert_eq!(
        names(&made, "2.1.0"),
        [
            "acme/acme.php",
            "acme/build-id.php",
            "acme/functions.php",
            "acme/index.php",
            "acme/readme.txt",
            "acme/style.css",
        ]
    );
    assert_eq!(verify_all(&made.releases()).unwrap(), 1);
    assert_eq!(outcomes(&made.build(theme(&made))), ["2.1.0 unchanged"]);

    // A plugin's manifest has none of these members.
    let other = Fixture::new();
    other.release("1.0", "1.0");
    other.build(hosted(&other));
    let plugin = manifest(&other, "1.0");
    for field in ["type", "details_url", "requires_plugins"] {
        assert_eq!(plugin.get(field), None, "{field}");
    }
}

#[test]
fn a_theme_needs_a_template_unless_it_is_a_child_or_a_block_theme() {
    for (files, more, warns) in [
        (&["functions.php"][..], "", true),
        (&["src/index.php", "template/index.html"], "", true),
        (&["index.php"], "", false),
        (&["templates/index.html", "theme.json"], "", false),
        (&["block-templates/index.html"], "", false),
        (&["functions.php"], "Template: storefront\n", false),
        (&["functions.php"], "Template:\n", true),
    ] {
        let made = Fixture::new();
        let css = style(
            "1.0",
            &format!("Theme URI: https://acme.example\nRequires at least: 6.6\n{more}"),
        );
        let mut content = vec![("style.css", &*css), ("changelog.txt", "= 1.0 =\n* First\n")];
        content.extend(files.iter().map(|file| (*file, "<?php\n")));
        made.tag("1.0", made.commit(&content));
        let report = made.build(theme(&made));
        assert_eq!(outcomes(&report), ["1.0 built"]);
        assert_eq!(warnings(&report), vec![MISSING; usize::from(warns)], "{files:?} {more}");
    }
    // What the entry leaves out is not in the package.
    let made = Fixture::new();
    let css = style("1.0", "Theme URI: https://acme.example\nRequires at least: 6.6\n");
    made.tag("1.0", made.commit(&[("style.css", &css), ("index.php", "<?php\n")]));
    let mut plugin = theme(&made);
    plugin.package.as_mut().unwrap().exclude = vec!["/index.php".to_owned()];
    assert_eq!(
        warnings(&made.build(plugin)),
        ["no changelog has an entry for 1.0", MISSING]
    );
}

#[test]
fn what_wordpress_shows_of_a_theme_is_missed_and_nothing_else() {
    let made = Fixture::new();
    let css = style("1.0", "");
    made.tag("1.0", made.commit(&[("style.css", &css), ("index.php", "<?php\n")]));
    assert_eq!(
        warnings(&made.build(theme(&made))),
        [
            "there is no Theme URI: WordPress opens that page when somebody looks at the details of an update",
            "no changelog has an entry for 1.0",
            "the CMS version it requires is missing (Requires at least)",
        ]
    );
}

#[test]
fn a_theme_in_a_subfolder_is_named_and_never_guessed() {
    let made = Fixture::new();
    let css = style("1.0", "");
    made.tag(
        "1.0",
        made.commit(&[("theme/style.css", &css), ("index.php", "<?php\n")]),
    );
    let report = made.build(theme(&made));
    assert_eq!(outcomes(&report), ["1.0 skipped moved"]);
    let why = reason(&report);
    assert_eq!(why, "it seems to be in another folder; set path: theme");
    let plugin = theme(&made);
    assert_eq!(outcomes(&made.build(with_source(plugin, "theme", None))), ["1.0 built"]);
    assert_eq!(names(&made, "1.0"), ["acme/build-id.php", "acme/style.css"]);

    // Two could be meant, so none is named.
    let made = Fixture::new();
    let other = style("1.0", "Template: one\n");
    let files = [
        ("one/style.css", &*css),
        ("two/style.css", &other),
        ("style.css", "body {}\n"),
    ];
    made.tag("1.0", made.commit(&files));
    assert_eq!(outcomes(&made.build(theme(&made))), ["1.0 skipped no_theme_header"]);
}

#[test]
fn an_entry_of_the_wrong_type_is_refused_with_what_to_write() {
    let made = Fixture::new();
    made.tag(
        "1.0",
        made.commit(&[("acme.php", &header("1.0")), ("style.css", "body {}\n")]),
    );
    let report = made.build(theme(&made));
    assert_eq!(outcomes(&report), ["1.0 skipped no_theme"]);
    assert_eq!(
        reason(&report),
        "a plugin; remove type = \"theme\" from the entry: acme.php"
    );
    let css = style("1.0", "");
    made.tag("1.0", made.commit(&[("acme.php", &header("1.0")), ("style.css", &css)]));
    let report = made.build(hosted(&made));
    assert_eq!(outcomes(&report), ["1.0 skipped theme"]);
    assert_eq!(
        reason(&report),
        "a theme; set type = \"theme\", or main_file if it is a plugin"
    );
    // The other type is another input, so the same tag is read again.
    assert_eq!(outcomes(&made.build(theme(&made))), ["1.0 built"]);
    assert_eq!(outcomes(&made.build(theme(&made))), ["1.0 unchanged"]);
}

#[test]
fn the_stylesheet_of_a_theme_is_checked_as_a_main_file_is() {
    let made = Fixture::new();
    for (tag, version) in [("1.0", "0.9"), ("1.1", "v1.1"), ("1.2", ""), ("1.3", "1.3.0")] {
        made.tag(
            tag,
            made.commit(&[("style.css", &style(version, "")), ("index.php", "<?php\n")]),
        );
    }
    let link = made.commit_of(&[
        ("style.css", crate::build::fixture::LINK, b"a.css"),
        ("a.css", FILE, b""),
    ]);
    made.tag("1.4", link);
    let report = made.build(theme(&made));
    assert_eq!(
        outcomes(&report),
        [
            "1.0 skipped version_mismatch",
            "1.1 skipped misread_header",
            "1.2 skipped no_version",
            "1.3 built",
            "1.4 skipped not_followed"
        ]
    );
    assert_eq!(manifest(&made, "1.3.0")["version"], "1.3.0");
}

#[test]
fn an_archive_of_a_theme_that_ci_built_is_taken() {
    let made = Fixture::new();
    let css = style("1.0", "");
    made.tag("1.0", made.commit(&[("style.css", &css), ("index.php", "<?php\n")]));
    let mut plugin = theme(&made);
    plugin.package.as_mut().unwrap().from = PackageOrigin::File;
    assert_eq!(outcomes(&made.build(plugin.clone())), ["1.0 awaits"]);
    let files = [("dist/app.js", "1"), ("index.php", "<?php\n"), ("style.css", &*css)];
    hand_over(&made, "1.0", &files);
    assert_eq!(outcomes(&made.build(plugin.clone())), ["1.0 built"]);
    assert_eq!(
        names(&made, "1.0"),
        [
            "acme/build-id.php",
            "acme/dist/app.js",
            "acme/index.php",
            "acme/style.css"
        ]
    );
    // An archive of a plugin is not a theme's.
    let made = Fixture::new();
    made.tag("1.0", made.commit(&[("style.css", &css), ("index.php", "<?php\n")]));
    hand_over(&made, "1.0", &[("acme.php", &header("1.0"))]);
    let mut plugin = theme(&made);
    plugin.package.as_mut().unwrap().from = PackageOrigin::File;
    let report = made.build(plugin);
    assert_eq!(
        reason(&report),
        "no package can be made of it: style.css: is not there, or has no theme header"
    );
}

#[test]
fn a_draft_of_a_theme_says_where_it_is() {
    let made = Fixture::new();
    let root = made.repository();
    fs::create_dir(root.join("theme")).unwrap();
    fs::write(root.join("theme/style.css"), style("1.0", "")).unwrap();
    let draft = |plugin: Plugin| {
        let read = std::time::Duration::from_secs(60);
        draft::draft(&entry(plugin), None, &made.releases(), read, None)
    };
    let next = draft(theme(&made)).next;
    let remark = next[0].release.as_ref().unwrap_err();
    assert_eq!(remark.to_string(), "it seems to be in another folder; set path: theme");
    let next = draft(with_source(theme(&made), "theme", None)).next;
    assert_eq!(next[0].release.as_ref().unwrap().manifest.kind, PluginKind::Theme);
}
