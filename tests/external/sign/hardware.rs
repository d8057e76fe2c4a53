//! Keys in a token: OpenSSH with a provider of our own in the token's place, and every reader of what it signs.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use super::*;

/// The provider, compiled once.
fn provider() -> &'static Path {
    static LIBRARY: LazyLock<(tempfile::TempDir, PathBuf)> = LazyLock::new(|| {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("provider.so");
        let gcc = Command::new("gcc")
            .args(["-Wall", "-Werror", "-O1", "-shared", "-fPIC", "-o"])
            .arg(&library)
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools/sk/provider.c"))
            .arg("-l:libcrypto.so.3")
            .status();
        assert!(gcc.expect("gcc is installed").success());
        (folder, library)
    });
    &LIBRARY.1
}

fn make_token(vendor: &Vendor, person: &str, more: &[&str]) {
    let mut keygen = Command::new("ssh-keygen");
    keygen
        .env("SSH_SK_PROVIDER", provider())
        .args(["-q", "-t", "ed25519-sk", "-N", "", "-C", person])
        .args(more)
        .arg("-f")
        .arg(vendor.key(person))
        .stderr(Stdio::null());
    assert!(keygen.status().unwrap().success());
}

fn sign(vendor: &Vendor, person: &str, environment: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = vendor.command(&["1.0.0", "--key", vendor.key(person).to_str().unwrap()]);
    command
        .env("SSH_SK_PROVIDER", provider())
        .envs(environment.iter().copied());
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), told)
}

/// Whether the client of WordPress takes the signatures of the release, by this key.
fn php(vendor: &Vendor, person: &str) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let statement = fs::read(vendor.file("1.0.0.json")).unwrap();
    let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, statement);
    let signature = fs::read_to_string(vendor.file("1.0.0.sig")).unwrap();
    let input = json!({
        "client": root.join("clients/wordpress"),
        "keys": [vendor.line(person)],
        "signatures": [{ "signature": signature, "message": encoded }],
        "statements": [encoded],
    });
    vendor.instance.write("input", &input.to_string());
    let output = Command::new("php")
        .arg(root.join("tests/tools/wordpress/release.php"))
        .stdin(fs::File::open(vendor.instance.file("input")).unwrap())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let said: Value = serde_json::from_str(text.split_once('\n').unwrap().1).unwrap();
    assert!(said["statements"][0].is_object(), "{said}");
    said["keys"][0].is_string() && said["signers"][0] == said["keys"][0]
}

fn verify(vendor: &Vendor, person: &str) -> Option<i32> {
    vendor.instance.write("signers", &format!("{}\n", vendor.line(person)));
    let mut command = countersign(&vendor.instance);
    command
        .args(["verify", "--release"])
        .arg(vendor.instance.file("releases/acme-forms/1.0.0.zip"))
        .arg("--signatures")
        .arg(vendor.file("1.0.0.sig"))
        .arg("--signers")
        .arg(vendor.instance.file("signers"));
    command.output().unwrap().status.code()
}

#[test]
fn a_key_in_a_token_signs_and_every_reader_takes_it() {
    let vendor = Vendor::new(&[], 1);
    make_token(&vendor, "token", &[]);
    vendor.decide(&["token"], 1);
    let (code, told) = sign(&vendor, "token", &[]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("touch the token, within 600 s"), "{told}");
    assert!(vendor.openssh("token", "1.0.0"), "OpenSSH");
    assert!(php(&vendor, "token"), "PHP");
    assert_eq!(vendor.builds().1[1].1, "built");
    assert_eq!(verify(&vendor, "token"), Some(0));
}

#[test]
fn a_token_that_nobody_touched_signs_for_openssh_alone() {
    let vendor = Vendor::new(&[], 1);
    make_token(&vendor, "token", &[]);
    make_token(&vendor, "lazy", &["-O", "no-touch-required"]);
    vendor.decide(&["token", "lazy"], 1);
    for (person, environment) in [("lazy", &[][..]), ("token", &[("SK_TEST_LIES", "1")])] {
        let (code, told) = sign(&vendor, person, environment);
        assert_eq!(code, Some(4), "{person}: {told}");
        assert!(
            told.contains("a signature that is not taken")
                && told.contains("hint: make the key without `-O no-touch-required`"),
            "{person}: {told}"
        );
        assert!(!vendor.file("1.0.0.sig").exists());
    }
    // A person who signs without our command gets no further, either.
    assert_eq!(sign(&vendor, "token", &[]).0, Some(0));
    let by_hand = Command::new("ssh-keygen")
        .env("SSH_SK_PROVIDER", provider())
        .args(["-q", "-Y", "sign", "-n", "countersign-release", "-f"])
        .arg(vendor.key("lazy"))
        .stdin(fs::File::open(vendor.file("1.0.0.json")).unwrap())
        .output()
        .unwrap();
    assert!(by_hand.status.success());
    fs::write(vendor.file("1.0.0.sig"), by_hand.stdout).unwrap();
    assert!(vendor.openssh("lazy", "1.0.0"), "OpenSSH does not ask");
    assert!(!php(&vendor, "lazy"), "PHP");
    let (_, told) = vendor.chain();
    assert!(told[0].contains("1.0.0.sig:1:1: "), "{told:?}");
    let output = countersign(&vendor.instance).arg("build").output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(!vendor.instance.file("releases/acme-forms").exists());
}
