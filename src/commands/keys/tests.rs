//! Keys in a folder of their own: made, rotated, listed and published.

use std::os::unix::fs::PermissionsExt as _;

use rsa::RsaPrivateKey;
use rsa::pkcs8::LineEnding;
use rsa::rand_core::OsRng;

use super::make::{generate, rotate_to, write_private};
use super::publish::{list, publish};
use super::*;
use crate::config::{PathSettings, Paths, ServeSettings};

struct Instance(tempfile::TempDir, Paths);

impl Instance {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = Config::load(folder.path(), &PathSettings::default(), &ServeSettings::default()).unwrap();
        Self(folder, config.paths)
    }

    fn generate(&self, rotate: bool, out: Option<PathBuf>) -> Result<String, Failure> {
        generate(&GenerateArgs { bits: 2048, rotate, out }, &self.1)
    }

    fn json(&self, path: &str) -> serde_json::Value {
        serde_json::from_slice(&fs::read(self.0.path().join(path)).unwrap()).unwrap()
    }

    fn public_keys(&self) -> usize {
        fs::read_dir(self.0.path().join("public/keys")).unwrap().count()
    }
}

#[test]
fn a_private_key_is_its_owners_alone_and_its_public_half_everybodys() {
    let instance = Instance::new();
    instance.generate(false, None).unwrap();
    let path = &instance.1.signing_key;
    assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    let key = read_key(&instance.1.signing_key).unwrap();
    let published = fs::read_to_string(instance.1.public.join(format!("keys/{}.pem", key.key_id()))).unwrap();
    assert_eq!(PublicKey::from_pem(&published).unwrap(), key);
    let jwks = instance.json("public/.well-known/jwks.json");
    assert_eq!(jwks, serde_json::json!({ "keys": [serde_json::to_value(key.to_jwk()).unwrap()] }));
}

#[test]
fn a_key_is_never_overwritten() {
    let instance = Instance::new();
    let out = instance.0.path().join("other.pem");
    instance.generate(false, Some(out.clone())).unwrap();
    let before = fs::read(&out).unwrap();
    let refused = |out: Option<PathBuf>| {
        let failure = instance.generate(false, out).unwrap_err();
        assert!(failure.exit == Exit::Input && failure.error.to_string().ends_with(".pem: is already there"));
        failure.hint.unwrap()
    };
    assert_eq!(refused(Some(out.clone())), "choose another file");
    assert_eq!(fs::read(&out).unwrap(), before);
    assert!(!instance.1.public.exists(), "a key elsewhere is not this instance's");
    instance.generate(false, None).unwrap();
    assert_eq!(refused(None), "--rotate retires it and makes another");
}

#[test]
fn rotation_keeps_the_public_half_of_every_key_before() {
    let instance = Instance::new();
    instance.generate(false, None).unwrap();
    let first = read_key(&instance.1.signing_key).unwrap();
    instance.generate(true, None).unwrap();
    let second = read_key(&instance.1.signing_key).unwrap();
    instance.generate(true, None).unwrap();
    assert_eq!(fs::metadata(&instance.1.signing_key).unwrap().permissions().mode() & 0o777, 0o600);
    let rows: serde_json::Value = serde_json::from_str(&list(true, &instance.1).unwrap()).unwrap();
    let column = |name: &str| rows.as_array().unwrap().iter().map(|row| row[name].clone()).collect::<Vec<_>>();
    assert_eq!(column("state"), ["current", "retired", "retired"]);
    assert_eq!(column("bits"), [2048, 2048, 2048]);
    for old in [&first, &second] {
        assert!(column("key_id").contains(&old.key_id().into()));
        let kept = instance.1.retired_keys.join(format!("{}.pem", old.key_id()));
        assert!(fs::read_to_string(kept).unwrap().starts_with("-----BEGIN PUBLIC KEY-----"));
    }
    assert_eq!(instance.json("public/.well-known/jwks.json")["keys"].as_array().unwrap().len(), 3);
    assert_eq!(instance.public_keys(), 3);
}

#[test]
fn a_key_is_prepared_pinned_and_only_then_signs() {
    let instance = Instance::new();
    instance.generate(false, None).unwrap();
    let old = read_key(&instance.1.signing_key).unwrap();
    let next = instance.0.path().join("next.pem");
    let told = instance.generate(false, Some(next.clone())).unwrap();
    let pinned = PublicKey::from_pem(&told[told.find("-----BEGIN PUBLIC KEY-----").unwrap()..]).unwrap();
    assert_eq!((read_key(&instance.1.signing_key).unwrap(), instance.public_keys()), (old.clone(), 1));

    let told = rotate_to(&next, &instance.1).unwrap();
    assert!(told.contains(pinned.key_id()) && told.contains(old.key_id()), "{told}");
    assert_eq!(read_key(&instance.1.signing_key).unwrap(), pinned);
    assert_eq!(fs::metadata(&instance.1.signing_key).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!next.exists() && instance.1.retired_keys.join(format!("{}.pem", old.key_id())).exists());
    assert_eq!(instance.json("public/.well-known/jwks.json")["keys"].as_array().unwrap().len(), 2);

    let failure = rotate_to(&instance.1.signing_key, &instance.1).unwrap_err();
    assert!(failure.error.to_string().ends_with("signing.pem: is the signing key already"), "{}", failure.error);
    assert!(instance.1.signing_key.exists());
    let make = format!("`countersign keys generate --out {}`", next.display());
    let hint = || rotate_to(&next, &instance.1).unwrap_err().hint.unwrap();
    assert_eq!(hint(), format!("make one with {make}"));
    write_private(&next, "no key", "").unwrap();
    assert_eq!(hint(), format!("move it away, and make a new one with {make}"));
    assert_eq!(read_key(&instance.1.signing_key).unwrap(), pinned);
}

#[test]
fn a_key_made_by_older_tools_is_listed_published_and_rotated() {
    use rsa::pkcs1::EncodeRsaPrivateKey as _;
    let instance = Instance::new();
    let private = RsaPrivateKey::new(&mut OsRng, 2048).unwrap();
    let pem = private.to_pkcs1_pem(LineEnding::LF).unwrap();
    assert!(pem.starts_with("-----BEGIN RSA PRIVATE KEY-----"));
    write_private(&instance.1.signing_key, &pem, "").unwrap();
    let id = PublicKey::new(private.to_public_key()).unwrap().key_id().to_owned();
    assert!(list(false, &instance.1).unwrap().contains(&id));
    assert!(publish(&instance.1).unwrap().contains(&id));
    assert!(instance.generate(true, None).unwrap().contains(&id));
}

#[test]
fn publishing_again_removes_nothing() {
    let instance = Instance::new();
    instance.generate(false, None).unwrap();
    let old = instance.1.public.join("keys/of-another-time.pem");
    fs::write(&old, "kept").unwrap();
    let written = publish(&instance.1).unwrap();
    assert_eq!(written.lines().count(), 2);
    assert_eq!(fs::read(&old).unwrap(), b"kept");
}

#[test]
fn what_is_no_key_is_named_with_its_file() {
    let instance = Instance::new();
    let failure = list(false, &instance.1).unwrap_err();
    assert!(failure.exit == Exit::Input && failure.hint.is_some_and(|hint| hint.contains("keys generate")));
    instance.generate(false, None).unwrap();
    fs::create_dir(&instance.1.retired_keys).unwrap();
    fs::write(instance.1.retired_keys.join("old.pem"), "no key").unwrap();
    let failure = publish(&instance.1).unwrap_err();
    assert!(failure.error.to_string().ends_with("retired/old.pem: cannot be used"), "{}", failure.error);
    fs::write(&instance.1.signing_key, "no key").unwrap();
    let failure = publish(&instance.1).unwrap_err();
    let reason = failure.error.to_string();
    assert!(reason.contains("signing.pem: ") && failure.hint.is_some(), "{reason}");
}
