//! Release signatures, checked with OpenSSH: we accept what `ssh-keygen` makes, and both refuse the same.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use countersign_model::release_key::ReleaseKey;
use countersign_package::release::signatures::Signatures;
use countersign_package::release::sshsig::{NAMESPACE, Sshsig};
use ed25519_dalek::{Signer as _, SigningKey};
use sha2::{Digest as _, Sha256, Sha512};

/// A folder with a key of `ssh-keygen`, and the file that says who may sign.
struct Desk {
    folder: tempfile::TempDir,
    key: ReleaseKey,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-C", "anna@acme", "-f"])
            .arg(&path)
            .status();
        assert!(made.unwrap().success());
        let line = fs::read_to_string(path.with_extension("pub")).unwrap();
        let key: ReleaseKey = line.trim_end().parse().unwrap();
        assert_eq!(key.comment(), "anna@acme");
        let desk = Self { folder, key };
        desk.allow(&desk.key);
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn allow(&self, key: &ReleaseKey) {
        let line = format!("signer namespaces=\"{NAMESPACE}\" {key}\n");
        fs::write(self.path("allowed"), line).unwrap();
    }

    /// What `ssh-keygen -Y sign` makes of a message.
    fn sign(&self, message: &[u8], hash: &str) -> String {
        let mut keygen = Command::new("ssh-keygen")
            .args([
                "-q",
                "-Y",
                "sign",
                "-n",
                NAMESPACE,
                "-O",
                &format!("hashalg={hash}"),
                "-f",
            ])
            .arg(self.path("key"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        keygen.stdin.take().unwrap().write_all(message).unwrap();
        let output = keygen.wait_with_output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    }

    /// Whether OpenSSH takes a signature of this message by the allowed key.
    fn openssh(&self, message: &[u8], armored: &str) -> bool {
        openssh(self.folder.path(), "0", message, armored)
    }
}

/// One verification with files of its own, so that several run at once.
fn openssh(folder: &Path, name: &str, message: &[u8], armored: &str) -> bool {
    let signature = folder.join(format!("{name}.sig"));
    fs::write(&signature, armored).unwrap();
    let mut keygen = Command::new("ssh-keygen")
        .args(["-Y", "verify", "-n", NAMESPACE, "-I", "signer", "-f"])
        .arg(folder.join("allowed"))
        .arg("-s")
        .arg(&signature)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // A signature that is refused unread closes the pipe.
    let _ = keygen.stdin.take().unwrap().write_all(message);
    keygen.wait().unwrap().success()
}

/// Whether our own reader takes it.
fn ours(key: &ReleaseKey, message: &[u8], armored: &str) -> bool {
    let keys = std::slice::from_ref(key);
    Signatures::read(armored).is_ok_and(|signatures| signatures.signers(message, keys).len() == 1)
}

/// Bytes that look like nothing, the same in every run.
fn noise(number: u32, length: usize) -> Vec<u8> {
    let blocks = (0_u32..).flat_map(|block| Sha256::digest([number.to_le_bytes(), block.to_le_bytes()].concat()));
    blocks.take(length).collect()
}

fn armored(blob: &[u8]) -> String {
    let base64 = STANDARD.encode(blob);
    let lines: Vec<_> = base64.as_bytes().chunks(70).collect();
    let lines = String::from_utf8(lines.join(&b'\n')).unwrap();
    format!("-----BEGIN SSH SIGNATURE-----\n{lines}\n-----END SSH SIGNATURE-----\n")
}

fn strings(parts: &[&[u8]]) -> Vec<u8> {
    let string = |part: &&[u8]| [&(part.len() as u32).to_be_bytes()[..], part].concat();
    parts.iter().flat_map(string).collect()
}

/// A signature by a hardware key, as PROTOCOL.u2f says it; the key of a test replaces the token's.
fn by_hardware(seed: u8, flags: u8, message: &[u8]) -> (ReleaseKey, String) {
    let secret = SigningKey::from_bytes(&[seed; 32]);
    let name = b"sk-ssh-ed25519@openssh.com";
    let key = strings(&[name, secret.verifying_key().as_bytes(), b"ssh:"]);
    let digest = Sha512::digest(message);
    let head = strings(&[NAMESPACE.as_bytes(), b"", b"sha512", &digest]);
    let behind = [&[flags][..], &42_u32.to_be_bytes()].concat();
    let signed = [&b"SSHSIG"[..], &head].concat();
    let signed = [&Sha256::digest(b"ssh:")[..], &behind, &Sha256::digest(&signed)].concat();
    let signature = secret.sign(&signed).to_bytes();
    let inner = [strings(&[name, &signature]), behind].concat();
    let strings = strings(&[&key, NAMESPACE.as_bytes(), b"", b"sha512", &inner]);
    let blob = [&b"SSHSIG"[..], &1_u32.to_be_bytes(), &strings].concat();
    (ReleaseKey::from_blob(&key).unwrap(), armored(&blob))
}

#[test]
fn what_ssh_keygen_signs_we_take_byte_for_byte() {
    let desk = Desk::new();
    for (number, hash) in [(1, "sha256"), (2, "sha512")] {
        let message = noise(number, 300);
        let signature = desk.sign(&message, hash);
        let read = Sshsig::from_armored(&signature).unwrap();
        assert_eq!((read.armored(), read.key()), (&*signature, &desk.key));
        assert!(ours(&desk.key, &message, &signature) && desk.openssh(&message, &signature));
        assert!(!ours(&desk.key, b"other", &signature) && !desk.openssh(b"other", &signature));
    }
}

#[test]
fn a_hardware_key_is_taken_by_both_and_without_a_touch_by_openssh_alone() {
    let desk = Desk::new();
    let message = b"a release statement";
    let (key, touched) = by_hardware(7, 1, message);
    desk.allow(&key);
    assert!(desk.openssh(message, &touched) && ours(&key, message, &touched));
    let (_, untouched) = by_hardware(7, 0, message);
    assert!(desk.openssh(message, &untouched) && !ours(&key, message, &untouched));
}

#[test]
fn another_namespace_is_refused_by_both() {
    let desk = Desk::new();
    let file = desk.path("message");
    fs::write(&file, "text").unwrap();
    let signed = Command::new("ssh-keygen")
        .args(["-q", "-Y", "sign", "-n", "file", "-f"])
        .args([desk.path("key"), file.clone()])
        .stderr(Stdio::null())
        .status();
    assert!(signed.unwrap().success());
    let signature = fs::read_to_string(desk.path("message.sig")).unwrap();
    assert!(!desk.openssh(b"text", &signature) && !ours(&desk.key, b"text", &signature));
}
