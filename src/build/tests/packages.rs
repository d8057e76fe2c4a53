//! Builds of plugins whose packages are hosted: what is packed, what is refused, and that what is published never changes.

use std::fs;
use std::io::Cursor;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use crate::build::fixture::{COMMITTED, FILE, Fixture, LINK, SUBMODULE, Silent, entry, header};
use crate::build::report::outcome::{Reason, ReleaseOutcome};
use crate::build::report::summary::summary;
use crate::build::tests::{outcomes, versions};
use crate::build::{BuildReport, Options, PluginReport, run};
use countersign_model::plugin::{PackageOrigin, PackageSettings, Plugin, PluginSource, RepositoryLocation};
use countersign_package::archive::Archive;
use countersign_package::catalog::{ReleaseIndex, verify_all, verify_packages};
use countersign_package::mark::Places;
use countersign_package::writer::PackageWriter;

/// The fixture's plugin with hosted packages.
pub(super) fn hosted(made: &Fixture) -> Plugin {
    let plugin = made.plugin();
    Plugin {
        download_url: String::new(),
        package: Some(PackageSettings::defaults(&plugin.slug)),
        ..plugin
    }
}

fn from_file(made: &Fixture) -> Plugin {
    let mut plugin = hosted(made);
    plugin.package.as_mut().unwrap().from = PackageOrigin::File;
    plugin
}

/// Builds the plugin where these releases may be replaced.
pub(super) fn replacing(made: &Fixture, plugin: Plugin, versions: &[&str]) -> BuildReport {
    let mut options = made.options(false, &[]);
    let replaced = versions
        .iter()
        .map(|version| ("acme".parse().unwrap(), version.parse().unwrap()));
    options.packing.replace = replaced.collect();
    run(&[entry(plugin)], &options, Arc::new(Silent)).unwrap()
}

fn place(made: &Fixture, version: &str) -> PathBuf {
    made.releases().join(format!("acme/{version}.zip"))
}

fn package(made: &Fixture, version: &str) -> Vec<u8> {
    fs::read(place(made, version)).unwrap()
}

/// The names in a published package.
pub(super) fn names(made: &Fixture, version: &str) -> Vec<String> {
    let bytes = package(made, version);
    let archive = Archive::check(&bytes[..]).unwrap();
    archive.files().map(|file| file.name.to_string()).collect()
}

/// The reason of the only tag.
pub(super) fn reason(report: &PluginReport) -> String {
    match &report.tags[..] {
        [tag] => match &tag.outcome {
            ReleaseOutcome::Skipped(reason) | ReleaseOutcome::Failed(reason) => reason.to_string(),
            other => format!("{other:?}"),
        },
        tags => format!("{tags:?}"),
    }
}

/// Hands over an archive with these files in the folder `acme`.
pub(super) fn hand_over(made: &Fixture, version: &str, files: &[(&str, &str)]) {
    let mut out = Cursor::new(Vec::new());
    let folder = "acme".parse().unwrap();
    let mut writer = PackageWriter::new(&mut out, &folder, crate::build::package_folder::TIME);
    for (name, content) in files {
        writer
            .add(name, content.len() as u64, || Ok(content.as_bytes()))
            .unwrap();
    }
    writer.finish(false).unwrap();
    let place = made.packages().join(format!("acme/{version}.zip"));
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::write(place, out.into_inner()).unwrap();
}

#[test]
fn a_release_is_packed_and_its_manifest_has_room_for_the_link() {
    let made = Fixture::new();
    let files = [
        ("acme.php", &*header("1.0")),
        ("inc/a.php", "<?php"),
        (".gitignore", "x"),
        ("inc/.gitkeep", ""),
    ];
    made.tag("1.0", made.commit(&files));
    let report = made.build(hosted(&made));
    assert_eq!(outcomes(&report), ["1.0 built"]);
    assert_eq!(
        names(&made, "1.0"),
        ["acme/acme.php", "acme/build-id.php", "acme/inc/a.php"]
    );
    for field in ["/download_url", "/download_link", "/package"] {
        assert_eq!(made.field("1.0", field), "");
    }
    let bytes = package(&made, "1.0");
    let record = report.releases.releases[0].package.clone().unwrap();
    let archive = Archive::check(&bytes[..]).unwrap();
    let places = Places::of(&archive, &"acme".parse().unwrap()).unwrap();
    assert_eq!((record.size, record.mark), (bytes.len() as u64, places));
    assert!(places.is_some());
    assert_eq!(verify_packages(&made.releases(), |_| ()).unwrap(), 1);
    assert_eq!(verify_all(&made.releases()).unwrap(), 1);
    let again = made.build(hosted(&made));
    assert_eq!(outcomes(&again), ["1.0 unchanged"]);
    let check = made.run(&[entry(hosted(&made))], true, &[]);
    assert!(!check.differs() && !check.failed());
}

#[test]
fn an_unchanged_release_is_not_packed_again_and_a_lost_package_is() {
    let made = Fixture::new();
    let commit = made.release("1.0", "1.0");
    made.build(hosted(&made));
    let bytes = package(&made, "1.0");
    // A build that packs it again misses this file.
    let blob = made
        .git
        .find_commit(commit)
        .unwrap()
        .tree()
        .unwrap()
        .get(0)
        .unwrap()
        .id()
        .to_string();
    let object = made.repository().join(".git/objects").join(&blob[..2]).join(&blob[2..]);
    let elsewhere = made.repository().join("object");
    fs::rename(&object, &elsewhere).unwrap();
    assert_eq!(outcomes(&made.build(hosted(&made))), ["1.0 unchanged"]);
    fs::rename(&elsewhere, &object).unwrap();
    fs::remove_file(place(&made, "1.0")).unwrap();
    assert!(
        made.run(&[entry(hosted(&made))], true, &[]).differs(),
        "--check misses it"
    );
    assert_eq!(outcomes(&made.build(hosted(&made))), ["1.0 built"]);
    assert_eq!(package(&made, "1.0"), bytes);
    fs::write(place(&made, "1.0"), "damaged").unwrap();
    let all = |check| {
        let options = Options {
            all: true,
            ..made.options(check, &[])
        };
        run(&[entry(hosted(&made))], &options, Arc::new(Silent)).unwrap()
    };
    assert!(all(true).differs());
    assert_eq!(outcomes(&all(false).plugins[0]), ["1.0 built"]);
    assert_eq!(package(&made, "1.0"), bytes);
    assert!(!all(true).differs());
}

#[test]
fn the_same_tag_gives_the_same_package_from_a_clone_a_bundle_and_in_another_environment() {
    let made = Fixture::new();
    let files = [
        ("acme.php", &*header("1.0")),
        ("b.txt", "b"),
        ("ä.txt", "a"),
        ("B/c.txt", "c"),
    ];
    let commit = made.commit(&files);
    made.annotate("1.0", commit, "one", COMMITTED);
    made.build(hosted(&made));
    let bytes = package(&made, "1.0");
    let folder = tempfile::tempdir().unwrap();
    let git = |arguments: &[&str]| {
        let done = Command::new("git")
            .args(arguments)
            .current_dir(folder.path())
            .env("LC_ALL", "C")
            .env("TZ", "Asia/Tokyo")
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    let repository = made.repository();
    let repository = repository.to_str().unwrap();
    git(&["clone", "--quiet", "--bare", repository, "clone.git"]);
    git(&[
        "-C",
        repository,
        "bundle",
        "create",
        "--quiet",
        folder.path().join("all.bundle").to_str().unwrap(),
        "--all",
    ]);
    git(&["clone", "--quiet", "all.bundle", "from-bundle"]);
    git(&["-C", "from-bundle", "gc", "--quiet"]);
    for name in ["clone.git", "from-bundle"] {
        let releases = folder.path().join(format!("releases of {name}"));
        let mut plugin = hosted(&made);
        plugin.source.as_mut().unwrap().repository = RepositoryLocation::Folder(folder.path().join(name));
        let options = Options {
            releases: releases.clone(),
            ..made.options(false, &[])
        };
        run(&[entry(plugin)], &options, Arc::new(Silent)).unwrap();
        assert!(fs::read(releases.join("acme/1.0.zip")).unwrap() == bytes, "{name}");
    }
}

#[test]
fn what_is_left_out_is_what_git_archive_leaves_out() {
    let made = Fixture::new();
    let attributes = "/tests export-ignore\n*.md export-ignore\nkeep.md -export-ignore\n[attr]dev export-ignore\n\
                      webpack.* dev\n/docs/ export-ignore\n\"a b.txt\" export-ignore\n*.map export-ignore=no\n\
                      deep/**/x.txt export-ignore\n/src/*.log export-ignore\n";
    let nested = "keep.log !export-ignore\n*.css export-ignore\n/only export-ignore\n*.md -export-ignore\n";
    let php = header("1.0");
    let files: Vec<(&str, &str)> = [
        "tests/a.php",
        "src/tests/b.php",
        "readme.md",
        "keep.md",
        "src/other.md",
        "webpack.js",
        "docs/a",
        "a b.txt",
        "x.map",
        "deep/1/2/x.txt",
        "deep/x.txt",
        "src/a.log",
        "src/keep.log",
        "src/sub/b.log",
        "src/a.css",
        "a.css",
        "src/only",
        "src/sub/only",
        "tests.php",
        "src/docs/a",
    ]
    .iter()
    .map(|name| (*name, "x"))
    .chain([
        ("acme.php", &*php),
        (".gitattributes", attributes),
        ("src/.gitattributes", nested),
    ])
    .collect();
    made.tag("1.0", made.commit(&files));
    made.build(hosted(&made));
    let archived = Command::new("git")
        .args([
            "-c",
            "core.quotePath=false",
            "archive",
            "--format=tar",
            "--prefix=acme/",
            "1.0",
        ])
        .current_dir(made.repository())
        .output()
        .unwrap();
    assert!(archived.status.success());
    let mut listed = tar_names(&archived.stdout);
    // Files of git itself are no part of a plugin.
    listed.retain(|name| !name.contains("/.git"));
    let mut packed = names(&made, "1.0");
    packed.retain(|name| name != "acme/build-id.php");
    assert_eq!(packed, listed);
    assert!(packed.contains(&"acme/src/keep.log".to_owned()) && !packed.contains(&"acme/webpack.js".to_owned()));
}

/// The names of the files in a tar archive, sorted.
fn tar_names(tar: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    let mut at = 0;
    let text = |bytes: &[u8]| {
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        String::from_utf8(bytes[..end].to_vec()).unwrap()
    };
    while at < tar.len() && tar[at] != 0 {
        let size = usize::from_str_radix(text(&tar[at + 124..at + 136]).trim(), 8).unwrap();
        if tar[at + 156] == b'0' {
            names.push(text(&tar[at..at + 100]));
        }
        at += 512 + size.div_ceil(512) * 512;
    }
    names.sort();
    names
}

#[test]
fn a_distignore_and_the_entry_leave_files_out_too() {
    let made = Fixture::new();
    let names_in = |path: &str, name: &str| {
        if path.is_empty() {
            name.to_owned()
        } else {
            format!("{path}/{name}")
        }
    };
    let path = "plugins/acme";
    let files: Vec<(String, String)> = [
        ("acme.php", header("1.0")),
        (".distignore", "node_modules\n/bin\n# x\n".to_owned()),
        ("bin/run", "x".to_owned()),
        ("src/bin/run", "x".to_owned()),
        ("src/node_modules/x.js", "x".to_owned()),
        ("docs/a.txt", "x".to_owned()),
        ("a.map", "x".to_owned()),
        ("keep.map", "x".to_owned()),
    ]
    .map(|(name, text)| (names_in(path, name), text))
    .into_iter()
    .chain([
        (
            "plugins/.gitattributes".to_owned(),
            "acme/src/bin export-ignore\n".to_owned(),
        ),
        ("other.txt".to_owned(), "x".to_owned()),
    ])
    .collect();
    let files: Vec<_> = files.iter().map(|(name, text)| (&**name, &**text)).collect();
    made.tag("1.0", made.commit(&files));
    let mut plugin = hosted(&made);
    plugin.source = plugin.source.map(|source| PluginSource {
        path: path.to_owned(),
        ..source
    });
    plugin.package = plugin.package.map(|package| PackageSettings {
        folder: "Acme_Forms".parse().unwrap(),
        exclude: vec!["/docs".into(), "*.map".into(), "!keep.map".into()],
        mark: false,
        ..package
    });
    assert_eq!(outcomes(&made.build(plugin)), ["1.0 built"]);
    assert_eq!(names(&made, "1.0"), ["Acme_Forms/acme.php", "Acme_Forms/keep.map"]);
}

#[test]
fn what_cannot_be_packed_is_not_published_and_reported_by_name() {
    let lfs = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n";
    let php = header("1.0");
    let acme = ("acme.php", FILE, php.as_bytes());
    type Files<'a> = &'a [(&'a str, u32, &'a [u8])];
    let cases: [(Files<'_>, &str); 13] = [
        (&[acme, ("a", LINK, b"/etc/passwd")], "a is a symbolic link"),
        (&[acme, ("lib/x", SUBMODULE, b"x")], "lib/x is a submodule"),
        (
            &[acme, ("a.bin", FILE, lfs.as_bytes())],
            "a.bin is a pointer of Git LFS, and not the file itself",
        ),
        (
            &[acme, ("Build-ID.php", FILE, b"")],
            "Build-ID.php is where the build id of each download will be",
        ),
        (
            &[acme, ("a.txt", FILE, b""), ("A.txt", FILE, b"")],
            "A.txt differs from a.txt by case only",
        ),
        (
            &[acme, ("a\\b", FILE, b"")],
            "a\\b is refused: its name has a backslash",
        ),
        (
            &[acme, ("OneClick?wsdl.wsdl", FILE, b"")],
            "OneClick?wsdl.wsdl is refused: its name has '?', which names on Windows cannot have",
        ),
        (
            &[acme, ("inc/aux.php", FILE, b"")],
            "inc/aux.php is refused: its name means a device on Windows",
        ),
        (
            &[acme, ("con/x.php", FILE, b"")],
            "con is refused: its name means a device on Windows",
        ),
        (
            &[acme, ("dot.", FILE, b"")],
            "dot. is refused: its name, or that of a folder in it, ends with a dot or a blank",
        ),
        (
            &[acme, ("end /x", FILE, b"")],
            "end  is refused: its name, or that of a folder in it, ends with a dot or a blank",
        ),
        (
            &[acme, ("caf\u{e9}.txt", FILE, b""), ("cafe\u{301}.txt", FILE, b"")],
            "cafe\u{301}.txt is the same as caf\u{e9}.txt in another form of Unicode",
        ),
        (
            &[
                acme,
                (".gitattributes", FILE, b"acme.php export-ignore\n"),
                ("b.txt", FILE, b""),
            ],
            "acme.php: is not there, or has no plugin header",
        ),
    ];
    for (files, expected) in cases {
        let made = Fixture::new();
        made.tag("1.0", made.commit_of(files));
        let report = made.build(hosted(&made));
        assert_eq!(outcomes(&report), ["1.0 skipped unpackable"]);
        let why = reason(&report);
        assert!(
            why.starts_with(&format!("no package can be made of it: {expected}")),
            "{why}"
        );
        let way_out =
            "; leave out what sites do not need with exclude in [package], or hand over an archive: from = \"file\"";
        assert_eq!(why.ends_with(way_out), !expected.ends_with("plugin header"), "{why}");
        assert!(!made.releases().join("acme").exists(), "nothing is left: {expected}");
        // What is left out may be what it likes.
        if expected.starts_with("a is") {
            let mut plugin = hosted(&made);
            plugin.package.as_mut().unwrap().exclude = vec!["/a".into()];
            assert_eq!(outcomes(&made.build(plugin)), ["1.0 built"]);
        }
    }
}

#[test]
fn what_may_break_on_sites_is_warned_of() {
    let warned = |files: &[(&str, &str)], change: &dyn Fn(&mut PackageSettings)| {
        let made = Fixture::new();
        let php = header("1.0");
        let files: Vec<_> = files.iter().copied().chain([("acme.php", &*php)]).collect();
        made.tag("1.0", made.commit(&files));
        let mut plugin = hosted(&made);
        change(plugin.package.as_mut().unwrap());
        let warnings = made.build(plugin).warnings;
        let texts = warnings.iter().map(|warning| warning.remark.to_string());
        texts
            .filter(|text| !text.starts_with("no") && !text.starts_with("the"))
            .collect::<Vec<_>>()
    };
    let hand_over = "let CI build it and hand over the archive: from = \"file\" in the entry's [package]";
    let composer = ("composer.json", r#"{"require":{"php":">=8","acme/lib":"1"}}"#);
    let lacks = format!(
        "composer.json: requires acme/lib, but there is no vendor folder: a package of this tag lacks them; {hand_over}"
    );
    assert_eq!(warned(&[composer], &|_| ()), [lacks]);
    assert_eq!(warned(&[composer, ("vendor/a.php", "<?php")], &|_| ()), [""; 0]);
    assert_eq!(
        warned(&[composer], &|package| package.from = PackageOrigin::File),
        [""; 0]
    );
    assert_eq!(
        warned(&[composer, ("vendor/a.php", "<?php")], &|package| package.exclude =
            vec!["vendor".into()]),
        ["vendor: is not packed (exclude: vendor): code that needs it breaks"]
    );
    assert_eq!(
        warned(
            &[("composer.json", r#"{"require":{"composer/installers":"^2"}}"#)],
            &|_| ()
        ),
        [""; 0],
        "it only says where packages go"
    );
    for files in [
        // Tools that give packages a namespace of the plugin's own write them into a folder of their own.
        &[composer, ("vendor-prefixed/autoload.php", "<?php")][..],
        &[composer, ("vendor_prefixed/autoload.php", "<?php")],
        &[composer, ("third-party/vendor/autoload.php", "<?php")],
        &[
            (
                "composer.json",
                r#"{"require":{"acme/lib":"1"},"extra":{"strauss":{"target_directory":"./inc/own/"}}}"#,
            ),
            ("inc/own/a.php", "<?php"),
        ],
        &[
            (
                "composer.json",
                r#"{"require":{"acme/lib":"1"},"extra":{"mozart":{"dep_directory":"/src/Dependencies/"}}}"#,
            ),
            ("src/Dependencies/a.php", "<?php"),
        ],
        &[
            (
                "composer.json",
                r#"{"require":{"acme/lib":"1"},"config":{"vendor-dir":"lib/packages"}}"#,
            ),
            ("lib/packages/autoload.php", "<?php"),
        ],
    ] {
        assert_eq!(warned(files, &|_| ()), [""; 0], "{files:?}");
    }
    let elsewhere = (
        "composer.json",
        r#"{"require":{"acme/lib":"1"},"config":{"vendor-dir":"lib/packages"}}"#,
    );
    let lacks = format!(
        "composer.json: requires acme/lib, but there is no lib/packages folder: a package of this tag lacks them; {hand_over}"
    );
    assert_eq!(warned(&[elsewhere, ("vendor/a.php", "<?php")], &|_| ()), [lacks]);
    assert_eq!(
        warned(&[elsewhere, ("lib/packages/a.php", "<?php")], &|package| package
            .exclude =
            vec!["/lib/packages".into()]),
        ["lib/packages: is not packed (exclude: /lib/packages): code that needs it breaks"]
    );
    let large = "x".repeat(33 << 20);
    assert_eq!(
        warned(&[("large.bin", &large)], &|_| ()),
        ["large.bin: has 33 MiB; files over 32 MiB fail on sites with little memory"]
    );
    let client = include_str!("../../../clients/wordpress/countersign-client.php");
    let forgotten = warned(&[("inc/client.php", client)], &|_| ());
    assert!(
        forgotten.len() == 2
            && forgotten[0].starts_with("inc/client.php: the client is still in the namespace")
            && forgotten[1].starts_with("inc/client.php: countersign-client-admin.php must be beside it"),
        "{forgotten:?}"
    );
}

#[test]
fn a_built_folder_that_git_ignores_and_code_loads_from_is_warned_of_hosted_here_or_not() {
    let warned = |files: &[(&str, &str)], is_hosted: bool| {
        let made = Fixture::new();
        let php = header("1.0");
        let files: Vec<_> = files.iter().copied().chain([("acme.php", &*php)]).collect();
        made.tag("1.0", made.commit(&files));
        let plugin = if is_hosted { hosted(&made) } else { made.plugin() };
        let warnings = made.build(plugin).warnings;
        let texts = warnings.iter().map(|warning| warning.remark.to_string());
        texts.filter(|text| text.contains("git ignores it")).collect::<Vec<_>>()
    };
    let ignored = (".gitignore", "node_modules\n/build/\ndist\n");
    let loads = (
        "inc/a.php",
        "<?php\nwp_enqueue_script( 'a', plugins_url( 'build/a.js', ACME ) );\n",
    );
    let script = ("package.json", r#"{"scripts":{"build":"webpack"}}"#);
    let hand_over = "; let CI build it and hand over the archive: from = \"file\" in the entry's [package]";
    let lacks = "build: is loaded by inc/a.php:2, and git ignores it: a package of this tag lacks it";
    for script in [Some(script), None] {
        let files: Vec<_> = [ignored, loads].into_iter().chain(script).collect();
        assert_eq!(warned(&files, true), [format!("{lacks}{hand_over}")]);
        assert_eq!(warned(&files, false), [lacks]);
    }
    let page = ("page.html", "<script src=\"assets/dist/x.js\">");
    assert_eq!(
        warned(&[ignored, page], false),
        ["assets/dist: is loaded by page.html:1, and git ignores it: a package of this tag lacks it"]
    );
    let lacks = |folder: &str, place: &str| {
        vec![format!(
            "{folder}: is loaded by {place}, and git ignores it: a package of this tag lacks it"
        )]
    };
    let dist = ("inc/a.php", "<?php\n\nf( 'dist/js/a.js' ); // g\n");
    for rules in [
        "**/dist/*",
        "dist/**",
        "dist/js/*.js",
        "/dist/js/a.js",
        "dist/*\n!dist/index.php",
    ] {
        let found = warned(&[(".gitignore", rules), dist], false);
        assert_eq!(found, lacks("dist", "inc/a.php:3"), "{rules}");
    }
    assert_eq!(
        warned(
            &[("assets/.gitignore", "dist"), ("a.php", "<?php f('assets/dist/a.js');")],
            false
        ),
        lacks("assets/dist", "a.php:1")
    );
    // Composer's autoloader is needed without packages, too.
    let vendor = (
        "inc/a.php",
        "<?php\n# one\nrequire __DIR__ . '/../vendor/autoload.php';\n",
    );
    let own = ("a.php", "<?php\nrequire_once 'vendor-prefixed/autoload.php';\n");
    assert_eq!(
        warned(&[(".gitignore", "/vendor\n"), vendor], false),
        lacks("vendor", "inc/a.php:3")
    );
    assert_eq!(
        warned(&[(".gitignore", "/vendor-prefixed/\n"), own], false),
        lacks("vendor-prefixed", "a.php:2")
    );
    let ignored_vendor = (".gitignore", "vendor\nvendor-prefixed\ndist\n");
    let commented = (
        "inc/a.php",
        "<?php\n// require 'vendor/autoload.php';\n# require 'vendor/autoload.php';\n/* require 'vendor/autoload.php';\n \
         * require 'vendor/autoload.php';\n */ $a = 'x'; // f('dist/a.js');\n/** @see vendor/autoload.php */\n",
    );
    let guarded = (
        "inc/a.php",
        "<?php\nif ( file_exists( __DIR__ . '/../vendor/autoload.php' ) ) {\n\trequire __DIR__ . '/../vendor/autoload.php';\n}\n",
    );
    let page = (
        "page.html",
        "<!-- <script src=\"dist/a.js\"> -->\n<!--\n<script src=\"dist/a.js\">\n-->",
    );
    for file in [commented, guarded, page] {
        assert_eq!(warned(&[ignored_vendor, file], true), [""; 0], "{file:?}");
    }
    // In a text, nothing is a comment.
    let text = ("inc/a.php", "<?php f( 'http://e.example', 'dist/a.js' );\n");
    assert_eq!(warned(&[ignored_vendor, text], false), lacks("dist", "inc/a.php:1"));
    // A script alone, a folder that nobody loads from, one that is committed all the same, one that git does not ignore.
    for files in [
        &[script][..],
        &[ignored, script],
        &[ignored, loads, ("build/a.js", "x")],
        &[(".gitignore", "node_modules\n"), loads],
        &[ignored, ("vendor/a.php", "<?php require 'build/a.php';")],
    ] {
        assert_eq!(warned(files, true), [""; 0], "{files:?}");
    }
}

#[test]
fn what_is_never_packed_stays_out_and_what_was_published_with_it_stays() {
    let made = Fixture::new();
    let php = header("1.0");
    let files = [
        ("acme.php", &*php),
        (".DS_Store", "x"),
        ("inc/._a.php", "x"),
        ("img/Thumbs.db", "x"),
        (".wordpress-org/icon.svg", "x"),
        ("inc/a.php", "<?php"),
    ];
    made.tag("1.0", made.commit(&files));
    made.build(hosted(&made));
    let expected = ["acme/acme.php", "acme/build-id.php", "acme/inc/a.php"];
    assert_eq!(names(&made, "1.0"), expected);
    // As if an older program had packed all of it.
    let other = b"with everything".to_vec();
    fs::write(place(&made, "1.0"), &other).unwrap();
    forge(&made, &other, 1);
    assert_eq!(outcomes(&made.build(hosted(&made))), ["1.0 unchanged"]);
    assert_eq!(package(&made, "1.0"), other);
    // Handed over, it is dropped as well.
    let made = Fixture::new();
    made.release("1.0", "1.0");
    hand_over(
        &made,
        "1.0",
        &[(".DS_Store", "x"), ("acme.php", &php), ("inc/a.php", "<?php")],
    );
    made.build(from_file(&made));
    assert_eq!(names(&made, "1.0"), expected);
}

/// Removes the file with this content from the repository's objects.
fn lose(made: &Fixture, content: &str) {
    let blob = made.git.blob(content.as_bytes()).unwrap().to_string();
    fs::remove_file(made.repository().join(".git/objects").join(&blob[..2]).join(&blob[2..])).unwrap();
}

#[test]
fn a_package_is_refused_for_its_header_before_anything_is_packed() {
    let made = Fixture::new();
    made.tag(
        "1.2-RC1",
        made.commit(&[("acme.php", &header("1.2")), ("large.txt", "large")]),
    );
    lose(&made, "large");
    let refused = "the header has another version: 1.2 in acme.php";
    assert_eq!(reason(&made.build(hosted(&made))), refused);
}

#[test]
fn a_refused_package_is_not_read_again_until_something_changes() {
    let made = Fixture::new();
    let php = header("1.0");
    made.tag(
        "1.0",
        made.commit(&[("acme.php", &*php), ("aux.php", "<?php"), ("readme.txt", "readme")]),
    );
    let first = made.build(hosted(&made));
    let why = reason(&first);
    assert!(
        why.contains("aux.php is refused: its name means a device on Windows"),
        "{why}"
    );
    assert!(why.ends_with(
        "; leave out what sites do not need with exclude in [package], or hand over an archive: from = \"file\""
    ));
    // A build that reads the tag again misses these files.
    lose(&made, "readme");
    lose(&made, &php);
    let again = made.build(hosted(&made));
    assert_eq!((reason(&again), again.releases), (why.clone(), first.releases));
    let all = Options {
        all: true,
        ..made.options(false, &[])
    };
    let report = run(&[entry(hosted(&made))], &all, Arc::new(Silent)).unwrap();
    assert_ne!(reason(&report.plugins[0]), why, "everything is read again");
    // A damaged memory is none, and the build writes it again.
    made.git.blob(php.as_bytes()).unwrap();
    made.git.blob(b"readme").unwrap();
    let memory = made.packages().with_file_name("cache").join("refused/acme.json");
    for damaged in ["", "{", "{\"refused\": 1}", "damaged"] {
        fs::write(&memory, damaged).unwrap();
        assert_eq!(reason(&made.build(hosted(&made))), why, "{damaged}");
        assert!(fs::read_to_string(&memory).unwrap().contains("aux.php"), "{damaged}");
    }
    // Another entry is a new question.
    let mut plugin = hosted(&made);
    plugin.package.as_mut().unwrap().exclude = vec!["aux.php".into()];
    assert_eq!(outcomes(&made.build(plugin)), ["1.0 built"]);
    assert!(
        !fs::read_to_string(&memory).unwrap().contains("aux.php"),
        "it is forgotten"
    );
}

#[test]
fn a_tag_without_a_release_is_not_read_again_until_its_entry_changes() {
    let made = Fixture::new();
    let php = header("1.1");
    made.release("1.0", "1.0");
    made.tag("2.0", made.commit(&[("acme.php", &*php)]));
    let first = outcomes(&made.build(made.plugin()));
    assert_eq!(first, ["1.0 built", "2.0 skipped version_mismatch"]);
    // A build that reads the tag again misses this file.
    lose(&made, &php);
    let again = outcomes(&made.build(made.plugin()));
    assert_eq!(again, ["1.0 unchanged", "2.0 skipped version_mismatch"]);
    let allowed = Plugin {
        allow_version_mismatch: true,
        ..made.plugin()
    };
    assert_eq!(outcomes(&made.build(allowed))[1], "2.0 failed unreadable");
}

#[test]
fn a_package_has_its_headers_version_letter_by_letter() {
    for (is_allowed, expected) in [(false, "1.2-rc1"), (true, "1.2-RC1")] {
        let made = Fixture::new();
        made.release("1.2-RC1", "1.2-rc1");
        let plugin = Plugin {
            allow_version_mismatch: is_allowed,
            ..hosted(&made)
        };
        let report = made.build(plugin);
        assert_eq!(outcomes(&report), ["1.2-RC1 built"]);
        assert_eq!(versions(&report), [expected]);
    }
    let made = Fixture::new();
    made.release("1.3-beta.1", "1.3");
    let report = made.build(hosted(&made));
    assert_eq!(reason(&report), "the header has another version: 1.3 in acme.php");
}

#[test]
fn what_is_published_never_changes_until_it_is_replaced() {
    let made = Fixture::new();
    made.release("1.0", "1.0");
    made.build(hosted(&made));
    let published = made.published();
    // Another tree.
    made.tag("1.0", made.commit(&[("acme.php", &header("1.0")), ("more.txt", "x")]));
    let report = made.run(&[entry(hosted(&made))], false, &[]);
    assert_eq!(outcomes(&report.plugins[0]), ["1.0 failed immutable"]);
    assert!(report.failed() && reason(&report.plugins[0]).ends_with(": its files at the tag"));
    assert!(made.run(&[entry(hosted(&made))], true, &[]).failed(), "--check says so");
    assert_eq!(made.published(), published);
    // No plugin any more.
    made.tag("1.0", made.commit(&[("more.txt", "x")]));
    assert_eq!(outcomes(&made.build(hosted(&made))), ["1.0 failed no_plugin_header"]);
    assert_eq!(made.published(), published);
    // The same tree, tagged at another time: the package would have another one.
    let commit = made.commit(&[("acme.php", &header("1.0"))]);
    made.annotate("1.0", commit, "later", COMMITTED + 60);
    assert_eq!(outcomes(&made.build(hosted(&made))), ["1.0 failed immutable"]);
    assert_eq!(made.published(), published);
    // Another version may be replaced, and then this one.
    assert!(replacing(&made, hosted(&made), &["1.1"]).failed());
    assert_eq!(made.published(), published);
    let replaced = replacing(&made, hosted(&made), &["1.0"]);
    assert_eq!(outcomes(&replaced.plugins[0]), ["1.0 built"]);
    assert_eq!(replaced.plugins[0].tags[0].notes, [Reason::Replaced]);
    assert!(summary(&replaced, false).contains("replaced what was published under the same version: 1.0"));
    assert_ne!(made.published(), published);
    assert_eq!(outcomes(&made.build(hosted(&made))), ["1.0 unchanged"]);
}

#[test]
fn other_settings_do_not_change_a_published_package() {
    let made = Fixture::new();
    made.tag("1.0", made.commit(&[("acme.php", &header("1.0")), ("notes.txt", "x")]));
    made.build(hosted(&made));
    let bytes = package(&made, "1.0");
    let mut plugin = hosted(&made);
    plugin.package.as_mut().unwrap().exclude = vec!["notes.txt".into()];
    let report = made.build(plugin.clone());
    assert_eq!(outcomes(&report), ["1.0 failed immutable"]);
    assert_eq!(package(&made, "1.0"), bytes);
    // What shows on a site may be mended.
    let renamed = Plugin {
        name: "Acme Forms".into(),
        ..hosted(&made)
    };
    assert_eq!(outcomes(&made.build(renamed)), ["1.0 built"]);
    assert_eq!(
        (made.field("1.0", "/name"), package(&made, "1.0")),
        ("Acme Forms".to_owned(), bytes)
    );
    replacing(&made, plugin, &["1.0"]);
    assert_eq!(names(&made, "1.0"), ["acme/acme.php", "acme/build-id.php"]);
}

/// Writes an index in which 1.0 has this package in this form, and other inputs.
fn forge(made: &Fixture, other: &[u8], form: u32) {
    let path = made.releases().join("index.json");
    let mut index: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let release = index.pointer_mut("/plugins/acme/releases/0").unwrap();
    release["inputs"] = serde_json::to_value(countersign_model::digest::Digest::of(b"")).unwrap();
    release["package"]["form"] = form.into();
    release["package"]["size"] = other.len().into();
    release["package"]["sha256"] = serde_json::to_value(countersign_model::digest::Digest::of(other)).unwrap();
    fs::write(&path, serde_json::to_vec(&index).unwrap()).unwrap();
}

#[test]
fn the_published_package_stays_where_the_form_has_another_number() {
    let made = Fixture::new();
    made.release("1.0", "1.0");
    made.build(hosted(&made));
    // As if another form had written it.
    let other = b"another form".to_vec();
    fs::write(place(&made, "1.0"), &other).unwrap();
    forge(&made, &other, 0);
    assert_eq!(outcomes(&made.build(hosted(&made))), ["1.0 unchanged"]);
    assert_eq!(package(&made, "1.0"), other);
    let index = ReleaseIndex::read(&made.releases()).unwrap().unwrap();
    assert_eq!(index.plugins["acme"].releases[0].package.as_ref().unwrap().form, 0);
}

#[test]
fn withholding_a_release_takes_its_package_away_at_once() {
    let made = Fixture::new();
    made.release("1.0", "1.0");
    made.release("1.1", "1.1");
    made.build(hosted(&made));
    let mut plugin = hosted(&made);
    plugin.withhold = vec!["1.1".parse().unwrap()];
    made.build(plugin);
    assert!(place(&made, "1.0").exists() && !place(&made, "1.1").exists());
    let elsewhere = made.plugin();
    made.build(elsewhere);
    assert!(!place(&made, "1.0").exists(), "hosted by somebody else now");
}

#[test]
fn a_release_awaits_the_archive_that_ci_makes() {
    let made = Fixture::new();
    made.release("1.0", "1.0");
    let report = made.run(&[entry(from_file(&made))], false, &[]);
    assert_eq!(outcomes(&report.plugins[0]), ["1.0 awaits"]);
    assert!(!report.failed());
    let text = summary(&report, false);
    assert!(
        text.contains("1 awaiting a package") && text.contains("package add"),
        "{text}"
    );
    assert_eq!(
        report.to_json().pointer("/plugins/0/tags/0/outcome").unwrap(),
        "awaits_package"
    );
    assert_eq!(report.to_json().pointer("/counts/awaiting").unwrap(), 1);

    hand_over(&made, "1.0", &[("acme.php", &header("1.0")), ("vendor/a.php", "<?php")]);
    assert_eq!(outcomes(&made.build(from_file(&made))), ["1.0 built"]);
    assert_eq!(
        names(&made, "1.0"),
        ["acme/acme.php", "acme/build-id.php", "acme/vendor/a.php"]
    );
    assert_eq!(outcomes(&made.build(from_file(&made))), ["1.0 unchanged"]);
    let published = made.published();

    // Another archive for a published release.
    hand_over(&made, "1.0", &[("acme.php", &header("1.0")), ("vendor/b.php", "<?php")]);
    let report = made.build(from_file(&made));
    assert_eq!(outcomes(&report), ["1.0 failed immutable"]);
    assert!(reason(&report).ends_with(": the archive that was handed over"));
    assert_eq!(made.published(), published);
    // One that is cleared away is not missed.
    fs::remove_dir_all(made.packages()).unwrap();
    assert_eq!(outcomes(&made.build(from_file(&made))), ["1.0 unchanged"]);
    assert_eq!(made.published(), published);
    // Unless the package is damaged: it stays published, and the report has both.
    let whole = package(&made, "1.0");
    fs::write(place(&made, "1.0"), "damaged").unwrap();
    let report = made.run(&[entry(from_file(&made))], false, &[]);
    assert_eq!(outcomes(&report.plugins[0]), ["1.0 failed unpackable"]);
    assert_eq!(report.damaged, ["acme/1.0.zip"]);
    fs::write(place(&made, "1.0"), whole).unwrap();
    hand_over(&made, "1.0", &[("acme.php", &header("1.0"))]);
    replacing(&made, from_file(&made), &["1.0"]);
    assert_eq!(names(&made, "1.0"), ["acme/acme.php", "acme/build-id.php"]);
}

#[test]
fn an_archive_that_is_not_the_releases_is_refused() {
    let refused = |files: &[(&str, &str)]| {
        let made = Fixture::new();
        made.release("1.0", "1.0");
        hand_over(&made, "1.0", files);
        let report = made.build(from_file(&made));
        assert_eq!(report.releases.releases, []);
        reason(&report)
    };
    let why = |text: &str| format!("no package can be made of it: {text}");
    assert_eq!(
        refused(&[("acme.php", &header("1.1"))]),
        why("acme.php: its Version is \"1.1\", and must be \"1.0\"")
    );
    assert_eq!(
        refused(&[("b.php", &header("1.0"))]),
        why("acme.php: is not there, or has no plugin header")
    );
    let mark = "acme/build-id.php: each download has its build id in this file; the archive must not have one";
    assert_eq!(
        refused(&[("acme.php", &header("1.0")), ("build-id.php", "")]),
        why(mark)
    );
}

#[test]
fn a_check_writes_no_package_and_an_interrupted_build_leaves_none() {
    let made = Fixture::new();
    made.release("1.0", "1.0");
    let check = made.run(&[entry(hosted(&made))], true, &[]);
    assert!(check.differs() && !made.releases().exists());
    // The folder cannot be written: the index is a folder.
    fs::create_dir_all(made.releases().join(".index.json.new")).unwrap();
    assert!(run(&[entry(hosted(&made))], &made.options(false, &[]), Arc::new(Silent)).is_err());
    assert!(!made.releases().join("acme").exists());
}

#[test]
fn a_damaged_package_of_a_release_that_stays_is_reported() {
    let made = Fixture::new();
    made.release("1.0", "1.0");
    made.build(hosted(&made));
    fs::write(place(&made, "1.0"), "damaged").unwrap();
    let mut broken = hosted(&made);
    broken.source.as_mut().unwrap().repository = RepositoryLocation::Folder("/nowhere".into());
    let report = made.run(&[entry(broken)], false, &[]);
    assert_eq!(report.damaged, ["acme/1.0.zip"]);
    assert!(verify_packages(&made.releases(), |_| ()).is_err());
}
