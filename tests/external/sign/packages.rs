//! Packages that are signed: another one for a signed release, one that CI handed over, and one that is not packed again.

use super::*;

/// The entry of a plugin whose packages CI builds.
fn of_file(vendor: &Vendor) {
    let entry = fs::read_to_string(vendor.instance.file("registry/plugins/acme-forms.toml")).unwrap();
    let entry = format!("{entry}\n[package]\nfrom = \"file\"\n");
    vendor.instance.write("registry/plugins/acme-forms.toml", &entry);
}

/// An archive as CI makes it.
fn archive(vendor: &Vendor, files: &[(&str, &str)]) -> PathBuf {
    let script = "import sys, zipfile\nwith zipfile.ZipFile(sys.argv[1], 'w') as z:\n for name, text in zip(sys.argv[2::2], sys.argv[3::2]): z.writestr(name, text)";
    let zip = vendor.instance.file("package.zip");
    let mut python = Command::new("python3");
    python.args(["-c", script]).arg(&zip);
    for (name, text) in files {
        python.args([name, text]);
    }
    assert!(python.status().unwrap().success());
    zip
}

const MAIN: &str = "<?php\n/*\nPlugin Name: Acme Forms\nVersion: 1.0.0\n*/\n";

#[test]
fn another_package_of_a_signed_release_takes_a_new_statement_with_replace() {
    let vendor = Vendor::new(&["anna"], 1);
    vendor.signs("anna", "1.0.0", &[]);
    assert_eq!(vendor.builds().1[1].1, "built");
    let old = [
        fs::read(vendor.file("1.0.0.json")).unwrap(),
        fs::read(vendor.file("1.0.0.sig")).unwrap(),
    ];
    let forms = vendor.instance.file("forms.git");
    fs::remove_dir_all(&forms).unwrap();
    make_repository(&HISTORY.replace("// first", "// mended"), &forms);
    let key = vendor.key("anna");
    let key = key.to_str().unwrap();
    let (code, told) = vendor.refuses(&["1.0.0", "--key", key]);
    assert!(
        code == 3
            && told.contains("the signed statement says another contents than the tag gives")
            && told.contains("--replace"),
        "{told}"
    );
    let shown = vendor.signs("anna", "1.0.0", &["--replace"]);
    assert!(shown.contains("number 2, a new statement"), "{shown}");
    assert_eq!(
        names(&vendor.file("")),
        ["1.0.0.json", "1.0.0.sig", "1.0.0_1.json", "1.0.0_1.sig"]
    );
    let aside = ["1.0.0_1.json", "1.0.0_1.sig"].map(|name| fs::read(vendor.file(name)).unwrap());
    assert_eq!(aside, old, "the old ones stay");
    let (chain, told) = vendor.chain();
    assert_eq!((chain.head().unwrap().0, told), (2, vec![]));
    assert!(vendor.openssh("anna", "1.0.0"));
    // What is published never changes, until somebody says so.
    assert_eq!(vendor.builds().0, 3);
    let replaced = countersign(&vendor.instance)
        .args(["build", "--replace", "acme-forms/1.0.0"])
        .output()
        .unwrap();
    assert!(
        replaced.status.success(),
        "{}",
        String::from_utf8_lossy(&replaced.stdout)
    );
    let line = &vendor.published("index.json")["plugins"]["acme-forms"]["releases"][0]["signed"];
    assert_eq!(line["number"], 2);
    let again = vendor.signs("anna", "1.0.0", &["--replace"]);
    assert!(!again.contains("a new statement"), "{again}");
}

#[test]
fn a_package_that_ci_built_is_signed_before_or_after_it_is_handed_over() {
    let vendor = Vendor::new(&["anna", "bert"], 2);
    of_file(&vendor);
    let key = vendor.key("anna");
    let (code, told) = vendor.refuses(&["1.0.0", "--key", key.to_str().unwrap()]);
    assert!(
        code == 3 && told.contains("awaits its package") && told.contains("--package"),
        "{told}"
    );
    let built = ("acme-forms/built.js", "let built;\n");
    let zip = archive(&vendor, &[("acme-forms/acme-forms.php", MAIN), built]);
    let zip = zip.to_str().unwrap();
    let shown = vendor.signs("anna", "1.0.0", &["--package", zip, "--diff"]);
    assert!(shown.contains("+let built;"), "{shown}");
    let add = |more: &[&str]| {
        let mut command = countersign(&vendor.instance);
        command.args(["package", "add", "acme-forms", "1.0.0", zip]).args(more);
        assert!(command.output().unwrap().status.success());
    };
    add(&[]);
    // Now it is there, and needs no name.
    assert!(
        vendor
            .signs("bert", "1.0.0", &[])
            .contains("anna, bert: 2 of 2 signatures")
    );
    assert_eq!(vendor.builds().1[1].1, "built");
    // Another archive under the same version is not what was signed.
    archive(&vendor, &[("acme-forms/acme-forms.php", MAIN)]);
    let bert = vendor.key("bert");
    let (code, told) = vendor.refuses(&["1.0.0", "--key", bert.to_str().unwrap(), "--package", zip]);
    assert!(code == 3 && told.contains("says another contents"), "{told}");
}

#[test]
fn a_build_after_another_signature_does_not_pack_again() {
    let vendor = Vendor::new(&["anna", "bert"], 1);
    vendor.signs("anna", "1.0.0", &[]);
    assert_eq!(vendor.builds().1[1].1, "built");
    vendor.signs("bert", "1.0.0", &[]);
    // A build that packs has to read this file.
    let forms = vendor.instance.file("forms.git");
    let git = Command::new("git")
        .arg("-C")
        .arg(&forms)
        .args(["rev-parse", "v1.0.0:src/form.php"])
        .output()
        .unwrap();
    let id = String::from_utf8(git.stdout).unwrap();
    let id = id.trim();
    fs::remove_file(forms.join("objects").join(&id[..2]).join(&id[2..])).unwrap();
    assert_eq!(vendor.builds().1[1].1, "built");
    let manifest = vendor.published("acme-forms/1.0.0.json");
    assert_eq!(manifest["release"]["signatures"].as_array().unwrap().len(), 2);
    fs::remove_file(vendor.instance.file("releases/acme-forms/1.0.0.zip")).unwrap();
    assert_ne!(vendor.builds().0, 0, "without it, nothing can be packed");
}

#[test]
fn another_form_of_packing_is_told_with_both_numbers() {
    let vendor = Vendor::new(&["anna"], 1);
    vendor.signs("anna", "1.0.0", &[]);
    let statement = fs::read_to_string(vendor.file("1.0.0.json")).unwrap();
    let other = statement.replace("\"form\":1,", "\"form\":99,");
    assert_ne!(other, statement);
    fs::write(vendor.file("1.0.0.json"), other).unwrap();
    let by_hand = Command::new("ssh-keygen")
        .args(["-q", "-Y", "sign", "-n", "countersign-release", "-f"])
        .arg(vendor.key("anna"))
        .stdin(fs::File::open(vendor.file("1.0.0.json")).unwrap())
        .output()
        .unwrap();
    fs::write(vendor.file("1.0.0.sig"), by_hand.stdout).unwrap();
    let output = countersign(&vendor.instance).arg("build").output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.code() == Some(3)
            && told.contains("the form of its package: form 99 was signed, and form 1 is packed"),
        "{told}"
    );
    let (code, told) = vendor.refuses(&["1.0.0", "--key", vendor.key("anna").to_str().unwrap()]);
    assert!(
        code == 3
            && told.contains("the signed statement says another form of packing, 99, than form 1 that the tag gives"),
        "{told}"
    );
}

#[test]
fn releases_from_before_signing_stay_published() {
    let vendor = Vendor::new(&["anna"], 1);
    let signing = fs::read_to_string(vendor.instance.file("registry/plugins/acme-forms.toml")).unwrap();
    let before = signing.split("\n[signing]").next().unwrap();
    let place = "registry/plugins/acme-forms.toml";
    vendor.instance.write(place, before);
    assert_eq!(vendor.builds(), (0, outcomes([("1.1.0", "built"), ("1.0.0", "built")])));
    let published = fs::read(vendor.instance.file("releases/index.json")).unwrap();
    vendor.instance.write(place, &signing);
    assert_eq!(
        vendor.builds(),
        (0, outcomes([("1.1.0", "unchanged"), ("1.0.0", "unchanged")]))
    );
    assert_eq!(
        fs::read(vendor.instance.file("releases/index.json")).unwrap(),
        published
    );
    // Signed later, they get their signatures.
    vendor.signs("anna", "1.0.0", &[]);
    assert_eq!(
        vendor.builds(),
        (0, outcomes([("1.1.0", "unchanged"), ("1.0.0", "built")]))
    );
}
