//! One release from a person's SSH key to a customer's site: OpenSSH, `build`, `sign`, the server, WordPress, `verify`. Nothing
//! between them changes an answer.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::site::{Core, Site};
use super::vendor::{Vendor, with_settings};
use super::{HOST, licensed};
use crate::support::server::countersign;
use crate::support::{Instance, eventually};

/// Makes a key without a passphrase, and gives its public line.
fn make_key(path: &Path) -> String {
    let mut keygen = Command::new("ssh-keygen");
    keygen
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "anna", "-f"])
        .arg(path);
    assert!(keygen.status().unwrap().success());
    let line = fs::read_to_string(path.with_extension("pub")).unwrap();
    line.trim().to_owned()
}

/// Runs the program without an agent or a home, and gives what it printed.
fn run(instance: &Instance, arguments: &[&str]) -> Output {
    let mut command = countersign(instance);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .env_remove("SSH_AUTH_SOCK")
        .env("SSH_ASKPASS_REQUIRE", "never")
        .env("HOME", instance.path());
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{arguments:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// The outcome of a version in a build, and how many signatures it has and needs.
fn outcome(instance: &Instance, version: &str) -> (String, Value) {
    let report: Value = serde_json::from_slice(&run(instance, &["build", "--json"]).stdout).unwrap();
    let tags = report["plugins"][0]["tags"].as_array().unwrap();
    let tag = tags.iter().find(|tag| tag["version"] == version).unwrap();
    (tag["outcome"].as_str().unwrap().to_owned(), tag["signatures"].clone())
}

#[test]
fn a_release_goes_from_a_signature_to_a_site_and_without_one_nowhere() {
    let keys = tempfile::tempdir().unwrap();
    let anna = keys.path().join("anna");
    let line = make_key(&anna);
    let pins = format!("'release_keys' => ['{line}']");
    let pinned = with_settings(&pins);
    let (license, table) = licensed();
    let vendor = Vendor::hosting_with(&[table], &pinned);
    let instance = &vendor.instance;
    let mut site = Site::new(Core::Newest, HOST, &vendor.front);
    site.install("acme-forms", &vendor.package("1.0.0"));
    site.press("acme-forms", "activate", &license.key);
    // The package as WordPress downloaded it, which it deletes later.
    site.neighbour(
        "add_filter('pre_unzip_file', function ($result, $file) { \
         copy($file, SITE . '/copy.zip'); return $result; }, 10, 2);",
    );
    let entry = fs::read_to_string(instance.file("registry/plugins/acme-forms.toml")).unwrap();
    let signing = format!("{entry}\n[signing]\nkeys = [\"{line}\"]\nthreshold = 1\n");
    instance.write("registry/plugins/acme-forms.toml", &signing);

    vendor.tag("1.1.0", &pinned);
    let (told, signatures) = outcome(instance, "1.1.0");
    assert_eq!(told, "awaits_signatures");
    assert_eq!((&signatures["good"], &signatures["needed"]), (&0.into(), &1.into()));
    assert!(!instance.file("releases/acme-forms/1.1.0.json").exists());
    assert_eq!(vendor.offered(), "1.0.0");
    site.check_again();
    assert!(!site.row().1, "nothing is offered before somebody signed");

    run(
        instance,
        &["sign", "acme-forms", "1.1.0", "--key", anna.to_str().unwrap()],
    );
    assert_eq!(vendor.offered(), "1.0.0", "a signature alone publishes nothing");
    assert_eq!(outcome(instance, "1.1.0").0, "built");
    let package = instance.file("releases/acme-forms/1.1.0.zip");
    let written = fs::metadata(&package).unwrap();
    assert_eq!(outcome(instance, "1.1.0").0, "unchanged");
    let now = fs::metadata(&package).unwrap();
    assert_eq!((now.ino(), now.ctime_nsec()), (written.ino(), written.ctime_nsec()));
    eventually("the server has the release", || vendor.offered() == "1.1.0");

    site.check_again();
    assert!(site.row().1, "the signed release is offered");
    let answer = site.update_now();
    assert_eq!(answer["success"], true, "{answer}");
    assert!(site.row().0.contains("Version 1.1.0"));
    assert_eq!(site.vendor_sees("acme-forms")["active"], true);
    let mark = fs::read_to_string(site.file("wp-content/plugins/acme-forms/build-id.php")).unwrap();
    let id = mark.split('\'').nth(1).unwrap();
    assert!(!id.starts_with("00000000-"), "{mark}");

    let copy = site.file("copy.zip");
    assert_ne!(fs::read(&copy).unwrap(), fs::read(&package).unwrap());
    let signers = keys.path().join("signers");
    fs::write(&signers, format!("{line}\n")).unwrap();
    let signature = instance.file("registry/signatures/acme-forms/1.1.0.sig");
    let [copy, signature, signers] = [&copy, &signature, &signers].map(|path| path.to_str().unwrap());
    let verified = run(
        instance,
        &[
            "verify",
            "--release",
            copy,
            "--signatures",
            signature,
            "--signers",
            signers,
        ],
    );
    let told = String::from_utf8_lossy(&verified.stdout);
    assert!(told.contains(id), "verify names the mark {id}: {told}");

    vendor.tag("1.2.0", &pinned);
    assert_eq!(outcome(instance, "1.2.0").0, "awaits_signatures");
    assert!(!instance.file("releases/acme-forms/1.2.0.json").exists());
    assert_eq!(vendor.offered(), "1.1.0");
    site.check_again();
    assert!(!site.row().1, "an unsigned release is not offered");
    assert_eq!(site.complaints(), [""; 0]);
}
