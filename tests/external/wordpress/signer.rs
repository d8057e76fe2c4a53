//! People who sign releases, without OpenSSH: what `ssh-keygen -Y sign` writes, and what it would never write.

use std::fs;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use countersign_package::archive::Archive;
use countersign_package::release::contents;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256, Sha512};

const NAMESPACE: &str = "countersign-release";
const PLAIN: &str = "ssh-ed25519";
const HARDWARE: &str = "sk-ssh-ed25519@openssh.com";

/// One person's key, in a file or in hardware.
pub struct Signer {
    pair: Ed25519KeyPair,
    kind: &'static str,
}

/// How a signature is made.
pub struct How {
    pub namespace: &'static str,
    pub hash: &'static str,
    pub flags: u8,
}

/// As everybody should.
pub const HOW: How = How {
    namespace: NAMESPACE,
    hash: "sha512",
    flags: 1,
};

impl Signer {
    /// The key of this seed in a file.
    pub fn plain(seed: u8) -> Self {
        Self::new(seed, PLAIN)
    }

    /// The key of this seed in hardware.
    pub fn hardware(seed: u8) -> Self {
        Self::new(seed, HARDWARE)
    }

    fn new(seed: u8, kind: &'static str) -> Self {
        Self {
            pair: Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap(),
            kind,
        }
    }

    /// The public key as OpenSSH writes it.
    pub fn line(&self) -> String {
        format!("{} {}", self.kind, BASE64_STANDARD.encode(self.blob()))
    }

    fn blob(&self) -> Vec<u8> {
        let application: &[&[u8]] = if self.kind == HARDWARE { &[b"ssh:"] } else { &[] };
        texts(&[&[self.kind.as_bytes(), self.pair.public_key().as_ref()], application].concat())
    }

    pub fn sign(&self, message: &[u8]) -> String {
        self.sign_as(message, &HOW)
    }

    pub fn sign_as(&self, message: &[u8], how: &How) -> String {
        let digest = match how.hash {
            "sha512" => Sha512::digest(message).to_vec(),
            // For any other name, too: nobody should look at it.
            _ => Sha256::digest(message).to_vec(),
        };
        let of_message = texts(&[how.namespace.as_bytes(), b"", how.hash.as_bytes(), &digest]);
        let mut signed = [&b"SSHSIG"[..], &of_message].concat();
        let mut tail = Vec::new();
        if self.kind == HARDWARE {
            tail = [&[how.flags][..], &7_u32.to_be_bytes()].concat();
            signed = [&Sha256::digest(b"ssh:")[..], &tail, &Sha256::digest(&signed)].concat();
        }
        let signature = self.pair.sign(&signed);
        let inner = [texts(&[self.kind.as_bytes(), signature.as_ref()]), tail].concat();
        let head = [&b"SSHSIG"[..], &1_u32.to_be_bytes()].concat();
        let rest = texts(&[&self.blob(), how.namespace.as_bytes(), b"", how.hash.as_bytes(), &inner]);
        armored(&[head, rest].concat())
    }
}

/// Each with its length in front.
fn texts(texts: &[&[u8]]) -> Vec<u8> {
    let text = |text: &&[u8]| [&(text.len() as u32).to_be_bytes()[..], text].concat();
    texts.iter().flat_map(text).collect()
}

fn armored(blob: &[u8]) -> String {
    let letters = BASE64_STANDARD.encode(blob);
    let lines: Vec<_> = letters
        .as_bytes()
        .chunks(70)
        .map(|line| std::str::from_utf8(line).unwrap())
        .collect();
    format!(
        "-----BEGIN SSH SIGNATURE-----\n{}\n-----END SSH SIGNATURE-----\n",
        lines.join("\n")
    )
}

/// A package as the server keeps it: the files in one folder, and last the mark that says: nobody. Nothing is compressed.
pub fn package(folder: &str, files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mark = mark_of(NOBODY);
    let mut archive = Vec::new();
    let mut directory = Vec::new();
    let named = files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()));
    let named: Vec<_> = named.chain([("build-id.php", mark.as_bytes())]).collect();
    for (name, bytes) in &named {
        let name = format!("{folder}/{name}");
        let size = (bytes.len() as u32).to_le_bytes();
        let crc = crc32fast::hash(bytes).to_le_bytes();
        // Version 2.0, no flags, stored, a time; then sizes, and the length of the name.
        let common = [&[20, 0, 0, 0, 0, 0, 0, 0, 0x77, 0x5b][..], &crc, &size, &size].concat();
        let length = (name.len() as u16).to_le_bytes();
        let at = (archive.len() as u32).to_le_bytes();
        archive.extend([b"PK\x03\x04", &common[..], &length, &[0, 0], name.as_bytes(), bytes].concat());
        let central = [
            b"PK\x01\x02\x14\0",
            &common[..],
            &length,
            &[0; 12],
            &at,
            name.as_bytes(),
        ]
        .concat();
        directory.extend(central);
    }
    let entries = (named.len() as u16).to_le_bytes();
    let size = (directory.len() as u32).to_le_bytes();
    let at = (archive.len() as u32).to_le_bytes();
    let end = [b"PK\x05\x06\0\0\0\0", &entries[..], &entries, &size, &at, &[0, 0]].concat();
    [archive, directory, end].concat()
}

const NOBODY: &str = "00000000-0000-0000-0000-000000000000";

fn mark_of(uuid: &str) -> String {
    format!("<?php\n// Who this copy was given to. Do not edit.\nreturn '{uuid}';\n")
}

/// The copy of a package for a site with this id, whatever that is.
pub fn copy(package: &[u8], statement: &Value, uuid: &str) -> Vec<u8> {
    let mark = &statement["package"]["mark"];
    let at = |place: &Value| place.as_u64().unwrap() as usize;
    let crc = crc32fast::hash(mark_of(uuid).as_bytes()).to_le_bytes();
    let mut copy = package.to_vec();
    copy[at(&mark["uuid"])..][..36].copy_from_slice(uuid.as_bytes());
    for place in mark["crc"].as_array().unwrap() {
        copy[at(place)..][..4].copy_from_slice(&crc);
    }
    copy
}

/// What is said of a package: the archive as the server keeps it, with nobody's mark.
pub fn statement(slug: &str, version: &str, package: &[u8]) -> Value {
    let places = |part: &[u8]| package.windows(part.len()).rposition(|window| window == part).unwrap();
    let uuid = places(NOBODY.as_bytes());
    let local = package[..uuid].windows(4).rposition(|window| window == b"PK\x03\x04");
    json!({
        "type": "countersign-release-1",
        "slug": slug,
        "version": version,
        "number": 1,
        "previous": null,
        "tag": format!("v{version}"),
        "commit": "0123456789abcdef0123456789abcdef01234567",
        "published": "2026-11-23T15:04:06Z",
        "requires": "6.0",
        "requires_php": "7.4",
        "pins": { "keys": [Signer::plain(1).line()], "threshold": 1 },
        "form": 1,
        "contents": contents::digest(&Archive::check(package).unwrap(), true).unwrap(),
        "package": {
            "sha256": const_hex::encode(Sha256::digest(package)),
            "size": package.len(),
            "mark": { "uuid": uuid, "crc": [local.unwrap() + 14, places(b"PK\x01\x02") + 16] },
        },
    })
}

/// The bytes that are signed. Names and texts are ASCII and sorted here, so this is RFC 8785.
pub fn bytes(statement: &Value) -> Vec<u8> {
    statement.to_string().into_bytes()
}

/// The member of a manifest.
pub fn release(statement: &[u8], signatures: &[String]) -> Value {
    json!({ "statement": BASE64_STANDARD.encode(statement), "signatures": signatures })
}

/// A file of `tests/vectors/release/`.
pub fn vector(name: &str) -> Vec<u8> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/release");
    fs::read(folder.join(name)).unwrap()
}
