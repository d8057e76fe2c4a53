//! `countersign sign` with OpenSSH's own keys and agent, from a tag to a signature in the registry.

mod ci;
mod hardware;
mod packages;
mod patience;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use countersign_registry::RegistryFiles;
use countersign_registry::release_chain::{self, ReleaseChain};
use serde_json::{Value, json};

use crate::support::history::make_repository;
use crate::support::server::countersign;
use crate::support::{Instance, License, Server, eventually};

const HISTORY: &str = "\
>>> write acme-forms.php
<?php
/*
Plugin Name: Acme Forms
Version: 1.0.0
Requires at least: 6.1
Requires PHP: 7.4
*/
>>> write src/form.php
<?php // first
>>> tag v1.0.0
>>> write acme-forms.php
<?php
/*
Plugin Name: Acme Forms
Version: 1.1.0
*/
>>> write src/form.php
<?php // second
>>> write src/more.php
<?php
>>> tag v1.1.0
";

/// An instance whose plugin has two releases, and people with keys.
struct Vendor {
    instance: Instance,
}

impl Vendor {
    fn new(people: &[&str], threshold: usize) -> Self {
        let instance = Instance::empty();
        instance.write("countersign.toml", "");
        instance.write("registry/licenses/licenses.toml", "# none\n");
        fs::create_dir(instance.file("ssh")).unwrap();
        make_repository(HISTORY, &instance.file("forms.git"));
        let vendor = Self { instance };
        for person in people {
            vendor.make_key(person, "");
        }
        vendor.decide(people, threshold);
        vendor
    }

    fn key(&self, person: &str) -> PathBuf {
        self.instance.file("ssh").join(person)
    }

    fn make_key(&self, person: &str, passphrase: &str) {
        let mut keygen = Command::new("ssh-keygen");
        keygen
            .args(["-q", "-t", "ed25519", "-N", passphrase, "-C", person, "-f"])
            .arg(self.key(person));
        assert!(keygen.status().unwrap().success());
    }

    fn line(&self, person: &str) -> String {
        fs::read_to_string(self.key(person).with_extension("pub"))
            .unwrap()
            .trim()
            .to_owned()
    }

    fn decide(&self, people: &[&str], threshold: usize) {
        let keys: Vec<_> = people
            .iter()
            .map(|person| format!("\"{}\"", self.line(person)))
            .collect();
        let entry = format!(
            "repository = \"../../forms.git\"\n\n[signing]\nkeys = [{}]\nthreshold = {threshold}\n",
            keys.join(", ")
        );
        self.instance.write("registry/plugins/acme-forms.toml", &entry);
    }

    /// Without an agent, a home or a terminal.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = countersign(&self.instance);
        command
            .args(["sign", "acme-forms"])
            .args(arguments)
            .stdin(Stdio::null());
        command.env_remove("SSH_AUTH_SOCK").env("HOME", self.instance.path());
        command.env("SSH_ASKPASS_REQUIRE", "never");
        command
    }

    fn signs(&self, person: &str, version: &str, more: &[&str]) -> String {
        let key = self.key(person);
        let output = self
            .command(&[&[version, "--key", key.to_str().unwrap()], more].concat())
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{told}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn refuses(&self, arguments: &[&str]) -> (i32, String) {
        let output = self.command(arguments).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    }

    fn chain(&self) -> (ReleaseChain, Vec<String>) {
        let files = RegistryFiles::folder(&self.instance.file("registry"));
        let slug = "acme-forms".parse().unwrap();
        let (chain, told) = release_chain::load(&files, &slug, &[]).unwrap();
        (chain, told.iter().map(ToString::to_string).collect())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.instance.file("registry/signatures/acme-forms").join(name)
    }

    /// Whether OpenSSH takes the first signature of a release as this person's.
    fn openssh(&self, person: &str, version: &str) -> bool {
        let allowed = self.instance.file("allowed");
        fs::write(&allowed, format!("signer {}\n", self.line(person))).unwrap();
        let verify = Command::new("ssh-keygen")
            .args(["-Y", "verify", "-n", "countersign-release", "-I", "signer", "-f"])
            .arg(allowed)
            .arg("-s")
            .arg(self.file(&format!("{version}.sig")))
            .stdin(fs::File::open(self.file(&format!("{version}.json"))).unwrap())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        verify.unwrap().success()
    }
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_release_is_shown_and_signed_and_the_next_one_continues_the_chain() {
    let vendor = Vendor::new(&["anna"], 1);
    let shown = vendor.signs("anna", "1.0.0", &[]);
    assert!(
        shown.contains("number 1, a new statement\ntag        v1.0.0, commit "),
        "{shown}"
    );
    assert!(shown.contains("the first release that is signed"), "{shown}");
    assert!(shown.contains("signed by  anna: 1 of 1 signatures\n"), "{shown}");
    assert!(vendor.openssh("anna", "1.0.0"));
    vendor.signs("anna", "1.1.0", &[]);
    let (chain, told) = vendor.chain();
    assert_eq!(told, [""; 0]);
    let [first, second] = chain.releases() else { panic!() };
    assert_eq!(
        (first.statement.requires.as_str(), first.statement.requires_php.as_str()),
        ("6.1", "7.4")
    );
    assert_eq!(
        (second.statement.number, second.statement.previous),
        (2, Some(first.link().1))
    );
    assert_eq!(
        names(&vendor.file("")),
        ["1.0.0.json", "1.0.0.sig", "1.1.0.json", "1.1.0.sig"]
    );
    assert_eq!(names(&vendor.instance.file("cache")), [""; 0], "nothing is left behind");
}

#[test]
fn several_people_add_to_one_file_and_nobody_twice() {
    let vendor = Vendor::new(&["anna", "bert"], 2);
    assert!(vendor.signs("anna", "1.0.0", &[]).contains("anna: 1 of 2 signatures"));
    let once = fs::read(vendor.file("1.0.0.sig")).unwrap();
    let statement = fs::read(vendor.file("1.0.0.json")).unwrap();
    vendor.signs("anna", "1.0.0", &[]);
    assert_eq!(fs::read(vendor.file("1.0.0.sig")).unwrap(), once);
    assert!(
        vendor
            .signs("bert", "1.0.0", &[])
            .contains("anna, bert: 2 of 2 signatures")
    );
    assert_eq!(
        fs::read(vendor.file("1.0.0.json")).unwrap(),
        statement,
        "the statement is written once"
    );
    assert_eq!(vendor.chain().1, [""; 0]);
}

#[test]
fn a_conflict_that_git_left_is_resolved_by_signing_again() {
    let vendor = Vendor::new(&["anna", "bert"], 2);
    let sig = vendor.file("1.0.0.sig");
    vendor.signs("anna", "1.0.0", &[]);
    let by_anna = fs::read_to_string(&sig).unwrap();
    fs::remove_file(&sig).unwrap();
    vendor.signs("bert", "1.0.0", &[]);
    let by_bert = fs::read_to_string(&sig).unwrap();
    fs::write(
        &sig,
        format!("<<<<<<< HEAD\n{by_anna}=======\n{by_bert}>>>>>>> theirs\n"),
    )
    .unwrap();
    assert!(vendor.chain().1[0].ends_with("run `countersign sign acme-forms 1.0.0` again"));
    assert!(
        vendor
            .signs("anna", "1.0.0", &[])
            .contains("anna, bert: 2 of 2 signatures")
    );
    assert_eq!(vendor.chain().1, [""; 0]);
}

#[test]
fn two_releases_that_were_signed_at_once_become_a_chain_again() {
    let vendor = Vendor::new(&["anna"], 1);
    vendor.signs("anna", "1.0.0", &[]);
    let aside = ["json", "sig"].map(|end| {
        let path = vendor.file(&format!("1.0.0.{end}"));
        let content = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        (path, content)
    });
    vendor.signs("anna", "1.1.0", &[]);
    for (path, content) in aside {
        fs::write(path, content).unwrap();
    }
    assert!(
        vendor.chain().1[0].contains("number 1 is that of 1.0.0.json, too"),
        "{:?}",
        vendor.chain().1
    );
    vendor.signs("anna", "1.1.0", &[]);
    let (chain, told) = vendor.chain();
    assert_eq!((chain.head().unwrap().0, told), (2, vec![]));
}

#[test]
fn a_dry_run_writes_nothing_and_json_tells_everything() {
    let vendor = Vendor::new(&["anna"], 1);
    let dry = vendor.signs("anna", "1.0.0", &["--dry-run", "--diff"]);
    assert!(
        dry.contains("+<?php // first\n") && dry.contains("nothing was written: --dry-run"),
        "{dry}"
    );
    assert!(!vendor.file("1.0.0.json").exists());
    let told: Value = serde_json::from_str(&vendor.signs("anna", "1.0.0", &["--json"])).unwrap();
    assert_eq!(
        (&told["statement"]["number"], &told["signed_by"][0]),
        (&1.into(), &"anna".into())
    );
    assert_eq!(told["changes"]["since"], Value::Null);
}

#[test]
fn what_cannot_sign_is_told_before_anything_is_written() {
    let vendor = Vendor::new(&["anna"], 1);
    let (code, told) = vendor.refuses(&["1.0.0"]);
    assert!(
        code == 3 && told.contains("no key of [signing] is in the ssh agent or in ~/.ssh"),
        "{told}"
    );
    vendor.make_key("eve", "");
    let eve = vendor.key("eve");
    let (code, told) = vendor.refuses(&["1.0.0", "--key", eve.to_str().unwrap()]);
    assert!(code == 3 && told.contains("this key is not in [signing]"), "{told}");
    fs::remove_file(eve.with_extension("pub")).unwrap();
    let (code, told) = vendor.refuses(&["1.0.0", "--key", eve.to_str().unwrap()]);
    assert!(code == 3 && told.contains("this key is not in [signing]"), "{told}");
    let (code, told) = vendor.refuses(&["9.0.0", "--key", vendor.key("anna").to_str().unwrap()]);
    assert!(code == 3 && told.contains("no tag gives version 9.0.0"), "{told}");
    let rsa = vendor.key("rsa");
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "rsa", "-N", "", "-f"])
        .arg(&rsa)
        .status();
    assert!(made.unwrap().success());
    let (code, told) = vendor.refuses(&["1.0.0", "--key", rsa.to_str().unwrap()]);
    assert!(
        code == 3 && told.contains("a key of a type that cannot sign releases"),
        "{told}"
    );
    vendor.make_key("fred", "secret");
    vendor.decide(&["anna", "fred"], 1);
    let (code, told) = vendor.refuses(&["1.0.0", "--key", vendor.key("fred").to_str().unwrap()]);
    assert!(code == 4 && told.contains("ssh-keygen made no signature"), "{told}");
    let no_openssh = vendor
        .command(&["1.0.0", "--offline", "--key", vendor.key("anna").to_str().unwrap()])
        .env("PATH", vendor.instance.path())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&no_openssh.stderr);
    assert!(
        no_openssh.status.code() == Some(4) && told.contains("ssh-keygen cannot be run"),
        "{told}"
    );
    assert!(!vendor.file("").exists());
}

#[test]
fn another_package_than_the_tag_gives_is_refused() {
    let vendor = Vendor::new(&["anna"], 1);
    let script = "import sys, zipfile\nwith zipfile.ZipFile(sys.argv[1], 'w') as z:\n for name, text in zip(sys.argv[2::2], sys.argv[3::2]): z.writestr(name, text)";
    let zip = vendor.instance.file("package.zip");
    let pack = |files: &[(&str, &str)]| {
        let mut python = Command::new("python3");
        python.args(["-c", script]).arg(&zip);
        for (name, text) in files {
            python.args([name, text]);
        }
        assert!(python.status().unwrap().success());
        let key = vendor.key("anna");
        vendor.refuses(&[
            "1.0.0",
            "--key",
            key.to_str().unwrap(),
            "--package",
            zip.to_str().unwrap(),
        ])
    };
    let main = "<?php\n/*\nPlugin Name: Acme Forms\nVersion: 1.0.0\nRequires at least: 6.1\nRequires PHP: 7.4\n*/\n";
    let (code, told) = pack(&[
        ("acme-forms/acme-forms.php", main),
        ("acme-forms/src/form.php", "<?php // first\n"),
    ]);
    assert!(code == 3 && told.contains("only the packing differs"), "{told}");
    let (code, told) = pack(&[
        ("acme-forms/acme-forms.php", main),
        ("acme-forms/src/form.php", "<?php // other\n"),
        ("acme-forms/backdoor.php", "<?php\n"),
    ]);
    assert!(code == 3 && told.contains("acme-forms/backdoor.php is added"), "{told}");
    assert!(told.contains("acme-forms/src/form.php differs"), "{told}");
}

#[test]
fn a_key_in_the_agent_signs_without_its_file() {
    let vendor = Vendor::new(&["anna"], 1);
    let socket = vendor.instance.file("agent");
    let mut agent = Command::new("ssh-agent")
        .args(["-D", "-a"])
        .arg(&socket)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    crate::support::eventually("the agent listens", || socket.exists());
    let added = Command::new("ssh-add")
        .arg("-q")
        .arg(vendor.key("anna"))
        .env("SSH_AUTH_SOCK", &socket)
        .status();
    assert!(added.unwrap().success());
    fs::remove_file(vendor.key("anna")).unwrap();
    let output = vendor
        .command(&["1.0.0"])
        .env("SSH_AUTH_SOCK", &socket)
        .output()
        .unwrap();
    agent.kill().unwrap();
    agent.wait().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(vendor.openssh("anna", "1.0.0"));
}

impl Vendor {
    /// The outcome of each release of a build, and its exit code.
    fn builds(&self) -> (i32, Vec<(String, String)>) {
        let output = countersign(&self.instance).args(["build", "--json"]).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let tags = report["plugins"][0]["tags"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let outcomes = tags.map(|tag| {
            let missing = &tag["signatures"];
            let good = if missing.is_null() {
                String::new()
            } else {
                format!(" {}/{}", missing["good"], missing["needed"])
            };
            (text(&tag["version"]), text(&tag["outcome"]) + &good)
        });
        (output.status.code().unwrap(), outcomes.collect())
    }

    fn published(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.instance.file("releases").join(name)).unwrap()).unwrap()
    }
}

fn outcomes(of: [(&str, &str); 2]) -> Vec<(String, String)> {
    of.map(|(version, outcome)| (version.to_owned(), outcome.to_owned()))
        .to_vec()
}

#[test]
fn a_build_publishes_what_enough_people_signed_and_a_later_signature_without_packing() {
    let vendor = Vendor::new(&["anna", "bert", "carl"], 2);
    assert_eq!(
        vendor.builds(),
        (
            0,
            outcomes([("1.1.0", "awaits_signatures 0/2"), ("1.0.0", "awaits_signatures 0/2")])
        )
    );
    assert!(!vendor.instance.file("releases/acme-forms").exists());
    vendor.signs("anna", "1.0.0", &[]);
    assert_eq!(vendor.builds().1[1].1, "awaits_signatures 1/2");
    vendor.signs("bert", "1.0.0", &[]);
    assert_eq!(
        vendor.builds(),
        (0, outcomes([("1.1.0", "awaits_signatures 0/2"), ("1.0.0", "built")]))
    );
    let manifest = vendor.published("acme-forms/1.0.0.json");
    let statement = fs::read(vendor.file("1.0.0.json")).unwrap();
    let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &statement);
    assert_eq!(manifest["release"]["statement"], encoded);
    let signatures: Vec<_> = manifest["release"]["signatures"]
        .as_array()
        .unwrap()
        .iter()
        .map(|text| text.as_str().unwrap())
        .collect();
    assert_eq!(
        signatures.concat(),
        fs::read_to_string(vendor.file("1.0.0.sig")).unwrap()
    );
    let line = &vendor.published("index.json")["plugins"]["acme-forms"]["releases"][0]["signed"];
    assert_eq!(
        (&line["number"], line["statement"].as_str().unwrap().len()),
        (&1.into(), 64)
    );
    assert_eq!(vendor.builds().1[1].1, "unchanged");

    let package = vendor.instance.file("releases/acme-forms/1.0.0.zip");
    let written = fs::metadata(&package).unwrap();
    vendor.signs("carl", "1.0.0", &[]);
    assert_eq!(vendor.builds().1[1].1, "built");
    assert_eq!(
        vendor.published("acme-forms/1.0.0.json")["release"]["signatures"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    let now = fs::metadata(&package).unwrap();
    assert_eq!((now.ino(), now.ctime_nsec()), (written.ino(), written.ctime_nsec()));
}

#[test]
fn a_release_by_a_removed_key_stays_and_a_new_one_needs_the_new_keys() {
    let vendor = Vendor::new(&["anna", "bert"], 1);
    vendor.signs("anna", "1.0.0", &[]);
    assert_eq!(vendor.builds().1[1].1, "built");
    vendor.decide(&["bert"], 1);
    assert_eq!(
        vendor.builds(),
        (
            0,
            outcomes([("1.1.0", "awaits_signatures 0/1"), ("1.0.0", "unchanged")])
        )
    );
    vendor.signs("bert", "1.1.0", &[]);
    assert_eq!(
        vendor.builds(),
        (0, outcomes([("1.1.0", "built"), ("1.0.0", "unchanged")]))
    );
    let check = countersign(&vendor.instance)
        .args(["build", "--check", "--all"])
        .output()
        .unwrap();
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
}

#[test]
fn a_tag_that_moved_after_the_signature_is_not_published() {
    let vendor = Vendor::new(&["anna"], 1);
    vendor.signs("anna", "1.0.0", &[]);
    fs::remove_dir_all(vendor.instance.file("forms.git")).unwrap();
    make_repository(
        &HISTORY.replace("// first", "// backdoor"),
        &vendor.instance.file("forms.git"),
    );
    let (code, told) = vendor.builds();
    assert_eq!((code, told[1].1.as_str()), (3, "failed"));
    assert!(!vendor.instance.file("releases/acme-forms").exists());
    let output = countersign(&vendor.instance).arg("build").output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        told.contains("not the release that was signed") && told.contains("awaits 1 of 1 signatures"),
        "{told}"
    );
}

#[test]
fn a_signature_of_something_else_is_a_mistake_in_the_registry() {
    let vendor = Vendor::new(&["anna"], 1);
    vendor.signs("anna", "1.0.0", &[]);
    vendor.signs("anna", "1.1.0", &[]);
    fs::copy(vendor.file("1.0.0.sig"), vendor.file("1.1.0.sig")).unwrap();
    let output = countersign(&vendor.instance).arg("build").output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(3));
    assert!(
        told.contains("1.1.0.sig:1:1: not a signature of the statement beside it"),
        "{told}"
    );
    assert!(!vendor.instance.file("releases/acme-forms").exists());
}

#[test]
fn the_page_checks_a_release_with_openssh_and_coreutils_alone() {
    const PAGE: &str = include_str!("../../docs/signing.md");
    let script: String = PAGE
        .split("```sh\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect::<Vec<_>>()
        .join("cd ..\n");
    let vendor = Vendor::new(&["anna", "bert"], 2);
    vendor.signs("anna", "1.0.0", &[]);
    vendor.signs("bert", "1.0.0", &[]);
    vendor.builds();
    let desk = tempfile::tempdir().unwrap();
    let file = |name: &str| desk.path().join(name);
    for name in ["1.0.0.json", "1.0.0.sig"] {
        fs::copy(vendor.file(name), file(name)).unwrap();
    }
    let keys = [vendor.line("anna"), vendor.line("bert")];
    fs::write(file("keys"), keys.join("\n") + "\n").unwrap();
    fs::write(file("signers"), format!("anna {}\nbert {}\n", keys[0], keys[1])).unwrap();
    let package = fs::read(vendor.instance.file("releases/acme-forms/1.0.0.zip")).unwrap();
    // A copy of somebody, and not the package as it is kept.
    let statement: Value = serde_json::from_slice(&fs::read(file("1.0.0.json")).unwrap()).unwrap();
    let place = |value: &Value| value.as_u64().unwrap();
    let mark = &statement["package"]["mark"];
    let places = countersign_package::mark::Places {
        local_crc: place(&mark["crc"][0]),
        id: place(&mark["uuid"]),
        central_crc: place(&mark["crc"][1]),
    };
    let mut copy = package.clone();
    let id = uuid::Uuid::from_u128(0x0123_4567_89ab_8def_8123_4567_89ab_cdef);
    places.patch(id).apply(0, &mut copy);
    let program = Path::new(env!("CARGO_BIN_EXE_countersign"));
    let path = format!(
        "{}:{}",
        program.parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let run = |package: &[u8]| {
        let _ = fs::remove_dir_all(file("copy"));
        fs::write(file("package.zip"), package).unwrap();
        let mut shell = Command::new("bash");
        shell
            .args(["-euo", "pipefail", "-c", &script])
            .current_dir(desk.path())
            .env("PATH", &path);
        let output = shell.output().unwrap();
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        (output.status.success(), text.concat())
    };
    for package in [&package, &copy] {
        let (is_good, told) = run(package);
        assert!(is_good, "{told}");
        assert_eq!(
            told.matches("Good \"countersign-release\" signature for ").count(),
            2,
            "{told}"
        );
        assert!(told.contains("is the package that was signed."), "{told}");
    }
    assert!(run(&copy).1.contains(&id.to_string()));
    let other = fs::read(vendor.instance.file("forms.git/HEAD")).unwrap();
    assert!(!run(&other).0);
    fs::copy(vendor.file("1.0.0.sig"), file("1.0.0.sig")).unwrap();
    let mut changed = package.clone();
    *changed.last_mut().unwrap() ^= 1;
    fs::write(file("package.zip"), changed).unwrap();
    let verify = |more: &[&str]| {
        let mut command = Command::new(program);
        command.args([
            "verify",
            "--release",
            "package.zip",
            "--signatures",
            "1.0.0.sig",
            "--signers",
            "keys",
        ]);
        let output = command.args(more).current_dir(desk.path()).output().unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (code, told) = verify(&[]);
    assert!(
        code == Some(3) && told.contains("not the package that was signed"),
        "{told}"
    );
    fs::write(file("package.zip"), &package).unwrap();
    assert_eq!(verify(&["--threshold", "2", "--json"]).0, Some(0));
    let (code, told) = verify(&["--threshold", "3"]);
    assert!(code == Some(3) && told.contains("2 of 3 signatures are good"), "{told}");
}

impl Vendor {
    /// Tells `build` how many sites run what.
    fn installed(&self, sites: &[(&str, u64)]) -> PathBuf {
        let versions: Vec<_> = sites
            .iter()
            .map(|(version, sites)| json!({ "version": version, "sites": sites }))
            .collect();
        let counts = json!({ "plugins": [{ "slug": "acme-forms", "versions": versions }] });
        self.instance.write("installed.json", &counts.to_string());
        self.instance.file("installed.json")
    }

    /// What `build` prints with these arguments: for people, and for programs.
    fn build(&self, arguments: &[&str]) -> (String, String, Value) {
        let run = |more: &[&str]| {
            let output = countersign(&self.instance)
                .args(["build", "--check"])
                .args([arguments, more].concat())
                .output()
                .unwrap();
            assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap())
        };
        let [text, notes] = run(&[]);
        let [json, _] = run(&["--json"]);
        (text, notes, serde_json::from_str(&json).unwrap())
    }

    /// Two releases by Anna's key, of which sites have the first; then the second is signed by Bert's, the only one in the
    /// entry.
    fn with_a_change_of_keys(leave_behind: &str) -> Self {
        let vendor = Self::new(&["anna", "bert"], 1);
        vendor.decide(&["anna"], 1);
        vendor.signs("anna", "1.0.0", &[]);
        assert_eq!(vendor.builds().1[1].1, "built");
        vendor.decide(&["bert"], 1);
        let entry = fs::read_to_string(vendor.instance.file("registry/plugins/acme-forms.toml")).unwrap();
        vendor
            .instance
            .write("registry/plugins/acme-forms.toml", &(entry + leave_behind));
        vendor
    }
}

#[test]
fn a_release_that_sites_in_the_field_would_not_take_waits_and_their_number_is_told() {
    let vendor = Vendor::with_a_change_of_keys("");
    let installed = vendor.installed(&[("1.0.0", 37), ("0.9.0", 4)]);
    let installed = installed.to_str().unwrap();
    let line = vendor.line("anna");
    let anna: countersign_model::release_key::ReleaseKey = line.rsplit_once(' ').unwrap().0.parse().unwrap();
    let who = format!("they run 1.0.0; 1 more signature needed, by {}", anna.known_as());
    let shown = vendor.signs("bert", "1.1.0", &["--installed", installed]);
    let warned = format!("WARNING    with this signature, the release would leave 37 sites behind: {who}\n");
    assert!(shown.contains(&warned), "{shown}");
    let before_the_key = shown.find("WARNING").unwrap();
    assert!(before_the_key < shown.find("signed by").unwrap(), "{shown}");

    let (text, notes, json) = vendor.build(&["--installed", installed]);
    let told = format!("  not published: release 1.1.0 would leave 37 sites behind: {who}\n");
    assert!(text.contains(&told), "{text}");
    assert!(!notes.contains("is not known"), "{notes}");
    let tag = &json["plugins"][0]["tags"][0];
    assert_eq!(tag["outcome"], "leaves_behind");
    let left = &tag["left_behind"][0];
    assert_eq!(
        (&left["version"], &left["sites"], &left["keys"][0], &left["allowed"]),
        (&json!("1.0.0"), &json!(37), &json!(anna.known_as()), &json!(false))
    );
    assert_eq!(vendor.builds().1[0].1, "leaves_behind", "without the file, too");
    assert!(!vendor.instance.file("releases/acme-forms/1.1.0.json").exists());

    // Nobody runs it any more.
    let gone = vendor.installed(&[("1.0.0", 0), ("0.9.0", 41)]);
    let (_, _, json) = vendor.build(&["--installed", gone.to_str().unwrap()]);
    assert_eq!(json["plugins"][0]["tags"][0]["outcome"], "built");

    // The removed key signs for those who believe it.
    let shown = vendor.signs("anna", "1.1.0", &["--installed", installed]);
    assert!(!shown.contains("WARNING    with this"), "{shown}");
    assert!(shown.contains("signed by  bert: 1 of 1 signatures\n"), "{shown}");
    assert_eq!(
        vendor.builds(),
        (0, outcomes([("1.1.0", "built"), ("1.0.0", "unchanged")]))
    );
    let manifest = vendor.published("acme-forms/1.1.0.json");
    assert_eq!(manifest["release"]["signatures"].as_array().unwrap().len(), 2);
}

#[test]
fn where_the_number_of_sites_is_unknown_it_is_said_why() {
    let vendor = Vendor::with_a_change_of_keys("");
    vendor.signs("bert", "1.1.0", &[]);
    let (text, notes, json) = vendor.build(&[]);
    let told = "  not published: release 1.1.0 would leave sites (their number is unknown) behind: they may run 1.0.0; 1 more ";
    assert!(text.contains(told), "{text}");
    assert!(
        notes.contains("note: which versions sites run is not known: no server has run here\nhint: save it "),
        "{notes}"
    );
    assert_eq!(json["plugins"][0]["tags"][0]["left_behind"][0]["sites"], Value::Null);
    let elsewhere = countersign(&vendor.instance)
        .args(["build", "--installed", "countersign.toml"])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&elsewhere.stderr);
    assert!(
        elsewhere.status.code() == Some(3) && told.contains("countersign.toml: does not say what sites run"),
        "{told}"
    );
}

#[test]
fn an_entry_may_let_sites_be_left_behind_and_it_is_told_how_many() {
    let vendor = Vendor::with_a_change_of_keys("leave_behind = '<1.1'\n");
    let installed = vendor.installed(&[("1.0.0", 1)]);
    let installed = ["--installed", installed.to_str().unwrap()];
    let shown = vendor.signs("bert", "1.1.0", &installed);
    assert!(shown.contains("(leave_behind of the entry allows it)"), "{shown}");
    let (text, _, json) = vendor.build(&installed);
    let told = "leaves sites behind, as leave_behind of its entry allows: 1 site behind: it runs 1.0.0; 1 more ";
    assert!(text.contains(told), "{text}");
    assert_eq!(json["plugins"][0]["tags"][0]["notes"][0]["code"], "leaves_behind");
    assert_eq!(vendor.builds().1[0].1, "built");
}

#[test]
fn what_sites_reported_is_read_from_the_running_server_and_from_the_store_of_a_stopped_one() {
    let license = License::new();
    let vendor = Vendor::with_a_change_of_keys("module = 'forms'\n");
    let entry = fs::read_to_string(vendor.instance.file("registry/plugins/acme-forms.toml")).unwrap();
    let entry = format!("module = 'forms'\n{}", entry.replace("module = 'forms'\n", ""));
    vendor.instance.write("registry/plugins/acme-forms.toml", &entry);
    vendor.instance.write(
        "registry/licenses/licenses.toml",
        &license.toml_with("2099-12-31", "sites = 5", "forms = []"),
    );
    vendor.signs("bert", "1.1.0", &[]);
    for more in [&["keys", "generate"][..], &["keys", "generate", "--downloads"]] {
        let made = countersign(&vendor.instance).args(more).output().unwrap();
        assert!(made.status.success(), "{made:?}");
    }
    let server = Server::start(&vendor.instance);
    for host in ["a.example", "b.example", "c.example"] {
        assert_eq!(server.validate(&license, host).code(), "ok");
        let version = if host == "c.example" { "1.1.0" } else { "1.0.0" };
        let asked = server.updates(&license, host, &format!("&current_version={version}"));
        assert_eq!(asked.status, 200);
    }
    let counted = || {
        let counted = countersign(&vendor.instance)
            .args(["bindings", "installed"])
            .output()
            .unwrap();
        String::from_utf8(counted.stdout).unwrap()
    };
    let expected = [["acme-forms", "1.1.0", "1"], ["acme-forms", "1.0.0", "2"]];
    let rows = |told: &str| -> Vec<Vec<String>> {
        let rows = told.lines().skip(1);
        rows.map(|line| line.split_whitespace().map(str::to_owned).collect())
            .collect()
    };
    // What sites report is stored some seconds later.
    eventually("the reports are stored", || rows(&counted()) == expected);
    let built = || {
        let (text, notes, _) = vendor.build(&[]);
        let told = text.contains("release 1.1.0 would leave 2 sites behind: they run 1.0.0; ");
        assert!(told, "{text}{notes}");
    };
    built();
    server.stop();
    built();
    assert_eq!(rows(&counted()), expected);
}

#[test]
fn a_pinned_key_that_is_nowhere_in_the_package_is_warned_of() {
    let vendor = Vendor::new(&["anna", "bert"], 1);
    let shown = vendor.signs("anna", "1.0.0", &[]);
    for who in ["anna", "bert"] {
        let warned =
            format!("WARNING    {who} of [signing] is nowhere in the package: its client would not accept it\n");
        assert!(shown.contains(&warned), "{shown}");
    }
    let (text, _, json) = vendor.build(&[]);
    assert!(
        text.contains("warning, 1.0.0: the release key bert is nowhere in the package"),
        "{text}"
    );
    let warnings = json["plugins"][0]["warnings"].as_array().unwrap().iter();
    let of_keys = warnings.filter(|told| told["message"].as_str().unwrap().contains("the release key"));
    assert_eq!(of_keys.count(), 2, "{json}");

    let settings = format!(
        "<?php return ['release_keys' => ['{}']]; // first\n",
        vendor.line("anna")
    );
    fs::remove_dir_all(vendor.instance.file("forms.git")).unwrap();
    make_repository(
        &HISTORY.replace("<?php // second\n", &settings),
        &vendor.instance.file("forms.git"),
    );
    let shown = vendor.signs("anna", "1.1.0", &[]);
    assert!(
        !shown.contains("WARNING    anna") && shown.contains("WARNING    bert of [signing] is nowhere"),
        "{shown}"
    );
}
