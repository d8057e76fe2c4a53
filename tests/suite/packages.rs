//! Packages from the command line: input from CI, the result of a build, and refusals.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use chrono::{DateTime, Utc};
use countersign_package::archive::Archive;
use countersign_package::writer::PackageWriter;
use serde_json::Value;

use crate::support::Instance;
use crate::support::server::countersign;
use crate::support::upstream::{Upstream, without_settings};

/// An instance whose plugin `acme-forms` is in a repository beside it; the entry has these lines more.
struct HostingVendor {
    instance: Instance,
    upstream: Upstream,
}

impl HostingVendor {
    fn new(more: &str) -> Self {
        let upstream = Upstream::new();
        let instance = Instance::new();
        // Nothing was published before.
        fs::remove_dir_all(instance.file("releases")).unwrap();
        let vendor = Self { instance, upstream };
        vendor.write_entry(more);
        vendor
    }

    fn write_entry(&self, more: &str) {
        let repository = self.upstream.repository();
        let text = format!("repository = \"{}\"\n{more}\n", repository.display());
        self.instance.write("registry/plugins/acme-forms.toml", &text);
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = countersign(&self.instance);
        without_settings(&mut command).args(arguments).output().unwrap()
    }

    /// Runs a command that ends with this exit code; gives what it said, on stdout and stderr.
    #[track_caller]
    fn said(&self, exit: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        assert_eq!(output.status.code(), Some(exit), "{arguments:?}: {said}");
        said
    }

    fn build(&self, more: &[&str]) -> (Option<i32>, Value) {
        let output = self.run(&[&["build", "--plugin", "acme-forms", "--json"], more].concat());
        (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
    }

    /// An archive that CI built.
    fn archive(&self, name: &str, version: &str, more: &str, time: &str) -> String {
        let path = self.instance.file(name);
        let time: DateTime<Utc> = time.parse().unwrap();
        let folder = "acme-forms".parse().unwrap();
        let mut writer = PackageWriter::new(fs::File::create(&path).unwrap(), &folder, time);
        let php = format!("<?php\n/*\n * Plugin Name: Acme Forms\n * Version: {version}\n */\n");
        for (name, text) in [("acme-forms.php", &*php), ("vendor/more.php", more)] {
            writer.add(name, text.len() as u64, || Ok(text.as_bytes())).unwrap();
        }
        writer.finish(false).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn package(&self, version: &str) -> PathBuf {
        self.instance.file(&format!("releases/acme-forms/{version}.zip"))
    }
}

const FROM_FILE: &str = "[package]\nfrom = \"file\"";
const TIME: &str = "2026-11-23T10:00:00Z";

/// The outcome of the only tag.
fn outcome(report: &Value) -> &str {
    report["plugins"][0]["tags"][0]["outcome"].as_str().unwrap()
}

#[test]
fn a_release_waits_for_the_archive_that_ci_builds_and_is_published_with_it() {
    let vendor = HostingVendor::new(FROM_FILE);
    vendor.upstream.release("1.0.0");
    let (exit, report) = vendor.build(&[]);
    assert_eq!((exit, outcome(&report)), (Some(0), "awaits_package"));
    assert!(!vendor.package("1.0.0").exists());

    let file = vendor.archive("ci.zip", "1.0.0", "<?php", TIME);
    let said = vendor.said(0, &["package", "add", "acme-forms", "1.0.0", &file]);
    assert!(said.contains("acme-forms 1.0.0: added, "), "{said}");
    assert!(vendor.said(0, &["package", "list"]).contains("waiting"));
    let (exit, report) = vendor.build(&[]);
    assert_eq!((exit, outcome(&report)), (Some(0), "built"));
    let listed = vendor.said(0, &["package", "list"]);
    assert!(listed.contains("published") && !listed.contains("waiting"), "{listed}");
    let archive = Archive::open(&vendor.package("1.0.0")).unwrap();
    let names: Vec<_> = archive.files().map(|file| file.name.to_string()).collect();
    let expected = [
        "acme-forms/acme-forms.php",
        "acme-forms/build-id.php",
        "acme-forms/vendor/more.php",
    ];
    assert_eq!(names, expected);
    // The archive alone may come first, too.
    let file = vendor.archive("ci.zip", "1.1.0", "<?php", TIME);
    vendor.said(0, &["package", "add", "acme-forms", "1.1.0", &file]);
    assert_eq!(vendor.build(&[]).0, Some(0));
    assert!(vendor.said(0, &["package", "list"]).contains("waiting"));
    vendor.upstream.release("1.1.0");
    vendor.build(&[]);
    assert!(vendor.package("1.1.0").exists());
}

#[test]
fn the_same_archive_is_taken_again_and_another_one_is_not() {
    let vendor = HostingVendor::new(FROM_FILE);
    let add = |file: &str, more: &[&str]| {
        [&["package", "add", "acme-forms", "1.0.0", file], more]
            .concat()
            .join("\n")
    };
    let said = |exit, words: String| vendor.said(exit, &words.split('\n').collect::<Vec<_>>());
    let file = vendor.archive("a.zip", "1.0.0", "<?php", TIME);
    said(0, add(&file, &[]));
    let place = vendor.instance.file("packages/acme-forms/1.0.0.zip");
    let bytes = fs::read(&place).unwrap();
    // Its dates are not the archive.
    let later = vendor.archive("b.zip", "1.0.0", "<?php", "2026-11-24T11:11:11Z");
    assert!(said(0, add(&later, &[])).contains("was there already"));
    assert!(said(0, add(&later, &["--replace"])).contains("was there already"));
    let other = vendor.archive("c.zip", "1.0.0", "<?php 1;", TIME);
    let refused = said(3, add(&other, &[]));
    assert!(
        refused.contains("another archive is there") && refused.contains("--replace"),
        "{refused}"
    );
    assert_eq!(fs::read(&place).unwrap(), bytes);
    assert!(said(0, add(&other, &["--replace"])).contains("replaced what was there"));
    assert_ne!(fs::read(&place).unwrap(), bytes);
    let left: Vec<_> = fs::read_dir(place.parent().unwrap()).unwrap().collect();
    assert_eq!(left.len(), 1, "no temporary file is left: {left:?}");
}

#[test]
fn an_archive_is_read_from_stdin() {
    let vendor = HostingVendor::new(FROM_FILE);
    let file = vendor.archive("a.zip", "1.0.0", "<?php", TIME);
    let mut child = countersign(&vendor.instance)
        .args(["package", "add", "acme-forms", "1.0.0", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(&fs::read(&file).unwrap())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["change"], "added");
    let place = vendor.instance.file("packages/acme-forms/1.0.0.zip");
    assert_eq!(document["size"], fs::metadata(place).unwrap().len());
}

#[test]
fn what_cannot_be_the_package_is_not_added() {
    let vendor = HostingVendor::new(FROM_FILE);
    let file = vendor.archive("a.zip", "1.0.1", "<?php", TIME);
    let said = vendor.said(3, &["package", "add", "acme-forms", "1.0.0", &file]);
    assert!(
        said.contains("its Version is \"1.0.1\", and must be \"1.0.0\""),
        "{said}"
    );
    vendor.instance.write("torn.zip", "PK");
    vendor.said(
        3,
        &[
            "package",
            "add",
            "acme-forms",
            "1.0.0",
            vendor.instance.file("torn.zip").to_str().unwrap(),
        ],
    );
    let preview = vendor.archive("preview.zip", "1.1.0-preview.1", "<?php", TIME);
    let said = vendor.said(3, &["package", "add", "acme-forms", "1.1.0-preview.1", &preview]);
    assert!(
        said.contains("PHP takes it for newer than 1.1.0; write -beta.1"),
        "{said}"
    );
    // What not every system can write. Our own writer refuses such names.
    for (name, why) in [
        ("acme-forms/aux.php", "its name means a device on Windows"),
        (
            "acme-forms/what?.php",
            "its name has '?', which names on Windows cannot have",
        ),
        ("acme-forms/cafe\u{301}.txt", "in another form of Unicode"),
    ] {
        let odd = vendor.instance.file("odd.zip");
        let script = "import sys, zipfile\nwith zipfile.ZipFile(sys.argv[1], 'w') as made:\n    \
            made.writestr('acme-forms/acme-forms.php', '<?php\\n/*\\n * Plugin Name: A\\n * Version: 1.0.0\\n */\\n')\n    \
            made.writestr('acme-forms/caf\u{e9}.txt', '')\n    made.writestr(sys.argv[2], '')\n";
        let made = Command::new("python3")
            .args(["-c", script])
            .arg(&odd)
            .arg(name)
            .status();
        assert!(made.unwrap().success());
        let said = vendor.said(3, &["package", "add", "acme-forms", "1.0.0", odd.to_str().unwrap()]);
        assert!(said.contains(why), "{name}: {said}");
    }
    vendor.said(3, &["package", "add", "acme-forms", "1.0.0", "nowhere.zip"]);
    vendor.said(2, &["package", "add", "acme-forms", "../1", &file]);
    assert!(
        vendor
            .said(3, &["package", "add", "acme-none", "1.0.1", &file])
            .contains("there is no plugin acme-none")
    );
    // A file with the comment of `git archive`.
    let mut bytes = fs::read(&file).unwrap();
    let length = bytes.len();
    bytes[length - 2] = 1;
    bytes.push(b'x');
    fs::write(&file, bytes).unwrap();
    assert!(
        vendor
            .said(3, &["package", "add", "acme-forms", "1.0.1", &file])
            .contains("comment")
    );
    let file = vendor.archive("a.zip", "1.0.1", "<?php", TIME);
    for (entry, reason) in [
        ("", "are made of its tags"),
        (
            "download_url = \"https://dl.example/{version}.zip\"",
            "are not hosted here",
        ),
        ("modul = 1", "unknown field \"modul\""),
    ] {
        vendor.write_entry(entry);
        let said = vendor.said(3, &["package", "add", "acme-forms", "1.0.1", &file]);
        assert!(said.contains(reason), "{said}");
    }
    assert!(!vendor.instance.file("packages").exists());
}

#[test]
fn a_package_is_the_same_under_another_umask_locale_and_time_zone() {
    let vendor = HostingVendor::new("");
    vendor.upstream.release("1.0.0");
    assert_eq!(vendor.build(&[]).0, Some(0));
    let bytes = fs::read(vendor.package("1.0.0")).unwrap();
    let script = "umask 077; exec \"$0\" -C \"$1\" --releases \"$1/other\" build --plugin acme-forms";
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_countersign")]);
    shell
        .arg(vendor.instance.path())
        .env("LC_ALL", "tr_TR.UTF-8")
        .env("TZ", "Pacific/Chatham");
    assert!(without_settings(&mut shell).output().unwrap().status.success());
    assert!(fs::read(vendor.instance.file("other/acme-forms/1.0.0.zip")).unwrap() == bytes);
}

#[test]
fn a_moved_tag_does_not_change_what_is_published() {
    let vendor = HostingVendor::new("");
    vendor.upstream.release("1.0.0");
    vendor.build(&[]);
    let bytes = fs::read(vendor.package("1.0.0")).unwrap();
    fs::write(vendor.upstream.folder.path().join("work/more.txt"), "more").unwrap();
    vendor.upstream.git(&["add", "."]);
    vendor.upstream.git(&["commit", "--quiet", "-m", "more"]);
    vendor.upstream.git(&["tag", "--force", "1.0.0"]);
    for arguments in [&["--check"][..], &[], &["--check", "--all"]] {
        let (exit, report) = vendor.build(arguments);
        assert_eq!((exit, outcome(&report)), (Some(3), "failed"), "{arguments:?}");
        assert_eq!(report["plugins"][0]["tags"][0]["reason"]["code"], "immutable");
        assert_eq!(fs::read(vendor.package("1.0.0")).unwrap(), bytes);
    }
    assert_eq!(vendor.build(&["--check", "--replace", "acme-forms/1.0.0"]).0, Some(1));
    let (exit, report) = vendor.build(&["--replace", "acme-forms/1.0.0"]);
    assert_eq!((exit, outcome(&report)), (Some(0), "built"));
    assert_eq!(report["plugins"][0]["tags"][0]["notes"][0]["code"], "replaced");
    assert_ne!(fs::read(vendor.package("1.0.0")).unwrap(), bytes);
    vendor.said(3, &["build", "--replace", "acme-none/1.0.0"]);
    vendor.said(2, &["build", "--replace", "acme-forms"]);
}

#[test]
fn doctor_finds_a_damaged_package() {
    let vendor = HostingVendor::new("");
    vendor.upstream.release("1.0.0");
    vendor.build(&[]);
    let finding = |output: Output| {
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        let findings = document.as_array().unwrap().clone();
        findings.into_iter().find(|finding| finding["part"] == "packages")
    };
    let whole = finding(vendor.run(&["doctor", "--json"])).unwrap();
    assert_eq!(whole["finding"], "1 package, every size and digest verified");
    let mut bytes = fs::read(vendor.package("1.0.0")).unwrap();
    bytes[100] ^= 1;
    fs::write(vendor.package("1.0.0"), bytes).unwrap();
    let damaged = finding(vendor.run(&["doctor", "--json"])).unwrap();
    assert!(
        damaged["finding"]
            .as_str()
            .unwrap()
            .contains("its SHA-256 is not the one in the index"),
        "{damaged}"
    );
}
