//! Every signature is read by three that share no code: OpenSSH, our Rust, and our PHP with and without sodium.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use countersign_model::release_key::ReleaseKey;
use countersign_package::release::signatures::Signatures;
use countersign_package::release::sshsig::NAMESPACE;
use serde_json::{Value, json};

use super::signatures::{base64, php, polyfills, text};
use super::signer::vector;
use crate::support::random::Random;

/// How many signatures each key makes, and how many keys there are.
const EACH: usize = 100;
const KEYS: usize = 10;

/// A message, and the text of a signature.
struct Signed {
    message: Vec<u8>,
    signature: String,
}

impl Signed {
    fn for_php(&self) -> Value {
        json!({ "signature": self.signature, "message": base64(&self.message) })
    }

    /// The keys that our Rust finds in it.
    fn rust(&self, keys: &[ReleaseKey]) -> Vec<ReleaseKey> {
        Signatures::read(&self.signature).map_or_else(
            |_| Vec::new(),
            |read| read.signers(&self.message, keys).into_iter().cloned().collect(),
        )
    }

    /// Whether OpenSSH takes it from the one that `allowed` names. Each call has a `name` of its own, so that several run at once.
    fn openssh(&self, allowed: &Path, name: &str) -> bool {
        let signature = allowed.with_file_name(format!("{name}.sig"));
        fs::write(&signature, &self.signature).unwrap();
        let mut keygen = Command::new("ssh-keygen")
            .args(["-Y", "verify", "-n", NAMESPACE, "-I", "signer", "-f"])
            .arg(allowed)
            .arg("-s")
            .arg(&signature)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // A signature that is refused unread closes the pipe.
        let _ = keygen.stdin.take().unwrap().write_all(&self.message);
        keygen.wait().unwrap().success()
    }
}

/// A file that lets this key sign.
fn allow(folder: &Path, name: &str, key: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, format!("signer namespaces=\"{NAMESPACE}\" {key}\n")).unwrap();
    path
}

/// Does this with each, on two threads.
fn in_parallel<T: Sync>(all: &[T], check: impl Fn(usize, &T) + Sync) {
    let all: Vec<_> = all.iter().enumerate().collect();
    let check = &check;
    std::thread::scope(|scope| {
        for half in all.chunks(all.len().div_ceil(2)) {
            scope.spawn(move || half.iter().for_each(|(number, one)| check(*number, one)));
        }
    });
}

/// A new key of `ssh-keygen` as a line, and random messages with what it signs of them.
fn key_with_signatures(folder: &Path, key: usize, random: &mut Random) -> (String, Vec<Signed>) {
    let path = folder.join(format!("key-{key}"));
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f"])
        .arg(&path)
        .status();
    assert!(made.unwrap().success());
    let files: Vec<PathBuf> = (0..EACH).map(|number| folder.join(format!("{key}-{number}"))).collect();
    for file in &files {
        let bytes: Vec<u8> = (0..random.below(2_000)).map(|_| random.below(256) as u8).collect();
        fs::write(file, bytes).unwrap();
    }
    let hash = ["hashalg=sha512", "hashalg=sha256"][key % 2];
    let output = Command::new("ssh-keygen")
        .args(["-q", "-Y", "sign", "-n", NAMESPACE, "-O", hash, "-f"])
        .arg(&path)
        .args(&files)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let signed = files.iter().map(|file| Signed {
        message: fs::read(file).unwrap(),
        signature: fs::read_to_string(file.with_extension("sig")).unwrap(),
    });
    let line = fs::read_to_string(path.with_extension("pub")).unwrap();
    (line.trim_end().to_owned(), signed.collect())
}

#[test]
fn all_three_take_a_thousand_random_signatures_and_say_who_signed() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(0x0C00_5195_1E57_1C4E);
    let (lines, signed): (Vec<_>, Vec<_>) = (0..KEYS)
        .map(|key| key_with_signatures(folder.path(), key, &mut random))
        .unzip();
    let signed: Vec<Signed> = signed.into_iter().flatten().collect();
    assert_eq!(signed.len(), 1_000);

    let keys: Vec<ReleaseKey> = lines.iter().map(|line| line.parse().unwrap()).collect();
    let named = |key: usize, line: &String| allow(folder.path(), &format!("allowed-{key}"), line);
    let allowed: Vec<_> = lines.iter().enumerate().map(|(key, line)| named(key, line)).collect();
    in_parallel(&signed, |number, one| {
        let key = number / EACH;
        assert_eq!(one.rust(&keys), [keys[key].clone()], "Rust: {number}");
        assert!(
            one.openssh(&allowed[key], &format!("{number}-good")),
            "OpenSSH: {number}"
        );
        let other = &allowed[(key + 1) % KEYS];
        // Another key's file is as wrong for each of the thousand; some are enough.
        let is_asked = number.is_multiple_of(10);
        assert!(!is_asked || !one.openssh(other, &format!("{number}-bad")), "{number}");
    });

    let given: Vec<_> = signed.iter().map(Signed::for_php).collect();
    let newest = polyfills().pop().unwrap();
    for polyfill in [None, Some(newest.as_path())] {
        let said = php(json!({ "keys": lines, "signatures": given }), polyfill);
        let signers = said["signers"].as_array().unwrap();
        assert_eq!(signers.len(), signed.len());
        for (number, signer) in signers.iter().enumerate() {
            assert_eq!(signer, &said["keys"][number / EACH], "PHP: {number}");
        }
        let seconds = said["seconds"].as_f64().unwrap() / signed.len() as f64;
        eprintln!("polyfill {}: {:.1} ms each", polyfill.is_some(), seconds * 1_000.0);
        assert!(seconds < 0.2, "{seconds} s for a signature");
    }
}

/// The lowest bit of the version. OpenSSH 9.2 takes version 0 for 1 (sshsig.c asks whether it is greater than 1), and
/// the version is not signed. We do not.
const VERSION_0: usize = 72;

fn armored(blob: &[u8]) -> String {
    let base64 = BASE64_STANDARD.encode(blob);
    let lines: Vec<_> = base64.as_bytes().chunks(70).collect();
    let lines = String::from_utf8(lines.join(&b'\n')).unwrap();
    format!("-----BEGIN SSH SIGNATURE-----\n{lines}\n-----END SSH SIGNATURE-----\n")
}

/// The same with each bit of the decoded signature turned around, one at a time.
fn flipped(signed: &Signed) -> Vec<Signed> {
    let inside = signed.signature.lines().filter(|line| !line.starts_with("-----"));
    let blob = BASE64_STANDARD.decode(inside.collect::<String>()).unwrap();
    assert_eq!(armored(&blob), signed.signature);
    let turned = |bit: usize| {
        let mut blob = blob.clone();
        blob[bit / 8] ^= 1 << (bit % 8);
        Signed {
            message: signed.message.clone(),
            signature: armored(&blob),
        }
    };
    (0..blob.len() * 8).map(turned).collect()
}

#[test]
fn all_three_refuse_a_signature_with_one_other_bit() {
    let folder = tempfile::tempdir().unwrap();
    let lines: Vec<String> = text("keys.pub").lines().map(str::to_owned).collect();
    let keys: Vec<ReleaseKey> = lines.iter().map(|line| line.parse().unwrap()).collect();
    for (file, signer) in [("anna.sig", "anna@acme"), ("token.sig", "token@acme")] {
        let whole = Signed {
            message: vector("statement.json"),
            signature: text(file),
        };
        let line = lines.iter().find(|line| line.ends_with(&format!(" {signer}"))).unwrap();
        let allowed = allow(folder.path(), signer, line);
        assert!(whole.openssh(&allowed, "whole") && whole.rust(&keys).len() == 1);
        let flipped = flipped(&whole);
        assert!(flipped.len() > 1_000);
        in_parallel(&flipped, |bit, one| {
            assert!(one.rust(&keys).is_empty(), "Rust: {file}, bit {bit}");
            assert_eq!(
                one.openssh(&allowed, &bit.to_string()),
                bit == VERSION_0,
                "{file}, bit {bit}"
            );
        });
        let newest = polyfills().pop().unwrap();
        for polyfill in [None, Some(newest.as_path())] {
            let given: Vec<_> = flipped.iter().chain([&whole]).map(Signed::for_php).collect();
            let said = php(json!({ "keys": lines, "signatures": given }), polyfill);
            let signers = said["signers"].as_array().unwrap();
            let believed: Vec<_> = (0..signers.len()).filter(|&at| signers[at] != json!("")).collect();
            assert_eq!(believed, [flipped.len()], "PHP: {file}");
        }
    }
}
