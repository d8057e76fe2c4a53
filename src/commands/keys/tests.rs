//! Keys in a folder of their own: made, rotated, listed and published.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rsa::RsaPrivateKey;
use rsa::pkcs8::LineEnding;
use rsa::rand_core::OsRng;

use super::*;
use crate::commands::keys::files::{read_key, write_private};
use crate::commands::keys::make::generate;
use crate::commands::keys::publish::{list, publish};
use crate::commands::keys::rotate::{rotate_back, rotate_to};
use countersign_model::public_key::PublicKey;
use countersign_settings::config::{PathSettings, Paths, ServeSettings};

struct Instance(tempfile::TempDir, Paths);

impl Instance {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = Config::load(folder.path(), &PathSettings::default(), &ServeSettings::default()).unwrap();
        Self(folder, config.paths)
    }

    fn generate(&self, rotate: bool, out: Option<PathBuf>) -> Result<String, Failure> {
        generate(
            &GenerateArgs {
                bits: 2048,
                rotate,
                downloads: false,
                issuing: false,
                references: false,
                out,
                old_key_is_lost: false,
            },
            &self.1,
        )
        .map(|key| key.text())
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
    let key = read_key(&instance.1).unwrap();
    let published = fs::read_to_string(instance.1.public.join(format!("keys/{}.pem", key.key_id()))).unwrap();
    assert_eq!(PublicKey::from_pem(&published).unwrap(), key);
    let jwks = instance.json("public/.well-known/jwks.json");
    assert_eq!(
        jwks,
        serde_json::json!({ "keys": [serde_json::to_value(key.to_jwk()).unwrap()] })
    );
}

#[test]
fn a_key_is_never_overwritten() {
    let instance = Instance::new();
    let out = instance.0.path().join("other.pem");
    instance.generate(false, Some(out.clone())).unwrap();
    let before = fs::read(&out).unwrap();
    let refused = |out: Option<PathBuf>| {
        let failure = instance.generate(false, out).unwrap_err();
        assert!(failure.exit == Exit::Input && failure.error.to_string().ends_with(".pem: already exists"));
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
    let first = read_key(&instance.1).unwrap();
    instance.generate(true, None).unwrap();
    let second = read_key(&instance.1).unwrap();
    instance.generate(true, None).unwrap();
    assert_eq!(
        fs::metadata(&instance.1.signing_key).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let rows: serde_json::Value = serde_json::from_str(&list(true, &instance.1).unwrap()).unwrap();
    let column = |name: &str| {
        rows.as_array()
            .unwrap()
            .iter()
            .map(|row| row[name].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(column("state"), ["current", "retired", "retired"]);
    assert_eq!(column("bits"), [2048, 2048, 2048]);
    for old in [&first, &second] {
        assert!(column("key_id").contains(&old.key_id().into()));
        let kept = instance.1.retired_keys.join(format!("{}.pem", old.key_id()));
        assert!(
            fs::read_to_string(kept)
                .unwrap()
                .starts_with("-----BEGIN PUBLIC KEY-----")
        );
    }
    assert_eq!(
        instance.json("public/.well-known/jwks.json")["keys"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    assert_eq!(instance.public_keys(), 3);
}

#[test]
fn a_key_is_prepared_pinned_and_only_then_signs() {
    let instance = Instance::new();
    instance.generate(false, None).unwrap();
    let old = read_key(&instance.1).unwrap();
    let next = instance.0.path().join("next.pem");
    let output = instance.generate(false, Some(next.clone())).unwrap();
    let pinned = PublicKey::from_pem(&output[output.find("-----BEGIN PUBLIC KEY-----").unwrap()..]).unwrap();
    assert_eq!(
        (read_key(&instance.1).unwrap(), instance.public_keys()),
        (old.clone(), 1)
    );

    let output = rotate_to(&next, Old::Retire, &instance.1).unwrap().text();
    assert!(
        output.contains(pinned.key_id()) && output.contains(old.key_id()),
        "{output}"
    );
    assert_eq!(read_key(&instance.1).unwrap(), pinned);
    assert_eq!(
        fs::metadata(&instance.1.signing_key).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert!(!next.exists() && instance.1.retired_keys.join(format!("{}.pem", old.key_id())).exists());
    assert_eq!(
        instance.json("public/.well-known/jwks.json")["keys"]
            .as_array()
            .unwrap()
            .len(),
        2
    );

    let failure = rotate_to(&instance.1.signing_key, Old::Retire, &instance.1).unwrap_err();
    assert!(
        failure
            .error
            .to_string()
            .ends_with("signing.pem: is already the signing key"),
        "{}",
        failure.error
    );
    assert!(instance.1.signing_key.exists());
    let make = format!("`countersign keys generate --out {}`", next.display());
    let hint = || rotate_to(&next, Old::Retire, &instance.1).unwrap_err().hint.unwrap();
    assert_eq!(hint(), format!("create one with {make}"));
    write_private(&next, b"no key", "").unwrap();
    assert_eq!(hint(), format!("move it away, and create a new one with {make}"));
    assert_eq!(read_key(&instance.1).unwrap(), pinned);
}

#[test]
fn a_key_made_by_older_tools_is_listed_published_and_rotated() {
    use rsa::pkcs1::EncodeRsaPrivateKey as _;
    let instance = Instance::new();
    let private = RsaPrivateKey::new(&mut OsRng, 2048).unwrap();
    let pem = private.to_pkcs1_pem(LineEnding::LF).unwrap();
    assert!(pem.starts_with("-----BEGIN RSA PRIVATE KEY-----"));
    write_private(&instance.1.signing_key, pem.as_bytes(), "").unwrap();
    let id = PublicKey::new(private.to_public_key()).unwrap().key_id().to_owned();
    assert!(list(false, &instance.1).unwrap().contains(&id));
    assert!(publish(&instance.1).unwrap().text().contains(&id));
    assert!(instance.generate(true, None).unwrap().contains(&id));
}

#[test]
fn publishing_again_removes_nothing() {
    let instance = Instance::new();
    instance.generate(false, None).unwrap();
    let old = instance.1.public.join("keys/of-another-time.pem");
    fs::write(&old, "kept").unwrap();
    let written = publish(&instance.1).unwrap();
    assert_eq!(written.text().lines().count(), 2);
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
    assert!(
        failure.error.to_string().ends_with("retired/old.pem: cannot be used"),
        "{}",
        failure.error
    );
    fs::write(&instance.1.signing_key, "no key").unwrap();
    let failure = publish(&instance.1).unwrap_err();
    let reason = failure.error.to_string();
    assert!(reason.contains("signing.pem: ") && failure.hint.is_some(), "{reason}");
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_retired_private_key_is_kept_for_its_owner_alone_and_signs_again_by_one_command() {
    let instance = Instance::new();
    let paths = &instance.1;
    let private = |id: &str| instance.1.retired_keys.join(format!("{id}.private.pem"));
    instance.generate(false, None).unwrap();
    let first = read_key(paths).unwrap();
    let pem = fs::read(&paths.signing_key).unwrap();
    instance.generate(true, None).unwrap();
    let second = read_key(paths).unwrap();
    let kept = private(first.key_id());
    assert_eq!((mode(&kept), fs::read(&kept).unwrap()), (0o600, pem.clone()));
    let rows: serde_json::Value = serde_json::from_str(&list(true, paths).unwrap()).unwrap();
    assert_eq!(
        (&rows[1]["key_id"], &rows[1]["private"]),
        (&first.key_id().into(), &kept.to_str().unwrap().into())
    );
    assert!(rows[0].get("private").is_none() && list(false, paths).unwrap().contains("retired, private key kept"));

    rotate_back(Old::Retire, paths).unwrap();
    assert_eq!(
        (read_key(paths).unwrap(), fs::read(&paths.signing_key).unwrap()),
        (first.clone(), pem)
    );
    assert!(
        !kept.exists() && private(second.key_id()).exists(),
        "it is moved, and the other one kept"
    );
    rotate_to(&private(second.key_id()), Old::Retire, paths).unwrap();
    assert_eq!(
        (read_key(paths).unwrap(), mode(&paths.signing_key)),
        (second.clone(), 0o600)
    );
    assert!(kept.exists() && !private(second.key_id()).exists());

    // A file that somebody put there with open permissions is closed before the key is written into it.
    fs::write(private(second.key_id()), "").unwrap();
    fs::set_permissions(private(second.key_id()), fs::Permissions::from_mode(0o644)).unwrap();
    rotate_back(Old::Retire, paths).unwrap();
    assert_eq!(mode(&private(second.key_id())), 0o600);
}

#[test]
fn going_back_goes_to_the_key_that_was_retired_last_and_says_where_there_is_none() {
    let instance = Instance::new();
    let paths = &instance.1;
    instance.generate(false, None).unwrap();
    let failure = rotate_back(Old::Retire, paths).unwrap_err();
    assert!(failure.exit == Exit::Input && failure.hint.unwrap().contains("restore it from the backup"));
    let mut ids = vec![];
    for days in [300, 200, 100] {
        ids.push(read_key(paths).unwrap().key_id().to_owned());
        instance.generate(true, None).unwrap();
        let file = paths.retired_keys.join(format!("{}.private.pem", ids.last().unwrap()));
        let then = SystemTime::now() - std::time::Duration::from_secs(days * 24 * 60 * 60);
        fs::File::options()
            .write(true)
            .open(file)
            .unwrap()
            .set_modified(then)
            .unwrap();
    }
    rotate_back(Old::Retire, paths).unwrap();
    assert_eq!(read_key(paths).unwrap().key_id(), ids[2]);
}

#[test]
fn retired_private_keys_are_removed_by_name_or_when_their_time_is_over_and_never_silently() {
    use crate::commands::keys::retired::{all, overdue, remove};
    let instance = Instance::new();
    let paths = &instance.1;
    let mut ids = vec![];
    instance.generate(false, None).unwrap();
    for _ in 0..2 {
        ids.push(read_key(paths).unwrap().key_id().to_owned());
        instance.generate(true, None).unwrap();
    }
    let day = std::time::Duration::from_secs(24 * 60 * 60);
    let now = SystemTime::now() + std::time::Duration::from_secs(60);
    assert_eq!(
        remove(&Which::Overdue { days: 90 }, paths, now + 90 * day)
            .unwrap()
            .text(),
        "No private key is overdue.\n"
    );
    assert_eq!(
        (
            all(paths).unwrap().len(),
            overdue(paths, 90, now + 91 * day).unwrap().len()
        ),
        (2, 2)
    );
    let output = remove(&Which::Named(&ids[..1]), paths, now).unwrap().text();
    assert!(output.contains(&ids[0]) && !output.contains(&ids[1]), "{output}");
    assert_eq!(
        remove(&Which::Named(&ids[..1]), paths, now).unwrap_err().exit,
        Exit::Input
    );
    assert!(
        remove(&Which::Overdue { days: 90 }, paths, now + 91 * day)
            .unwrap()
            .text()
            .contains(&ids[1])
    );
    assert_eq!(all(paths).unwrap(), []);
    for id in &ids {
        assert!(
            paths.retired_keys.join(format!("{id}.pem")).exists(),
            "public halves stay"
        );
    }
}

#[test]
fn where_there_was_a_key_a_new_one_is_made_only_by_who_says_that_it_is_lost() {
    let bindings = |instance: &Instance| {
        fs::create_dir_all(&instance.1.store).unwrap();
        fs::write(instance.1.store.join("ledger.jsonl"), "{}\n").unwrap();
    };
    let rotated = |instance: &Instance| {
        instance.generate(true, None).unwrap();
        fs::remove_dir_all(&instance.1.public).unwrap();
        fs::remove_file(&instance.1.signing_key).unwrap();
    };
    let published = |instance: &Instance| fs::remove_file(&instance.1.signing_key).unwrap();
    type Lose<'a> = &'a dyn Fn(&Instance);
    let traces: [(&str, bool, Lose<'_>); 3] = [
        ("jwks.json", true, &published),
        ("keys/retired", false, &rotated),
        ("store", false, &|instance| {
            fs::remove_dir_all(&instance.1.public).unwrap();
            fs::remove_file(&instance.1.signing_key).unwrap();
            bindings(instance);
        }),
    ];
    for (file, names_key, lose) in traces {
        let instance = Instance::new();
        instance.generate(false, None).unwrap();
        let id = read_key(&instance.1).unwrap().key_id().to_owned();
        lose(&instance);
        for failure in [
            instance.generate(false, None).unwrap_err(),
            instance.generate(true, None).unwrap_err(),
            list(false, &instance.1).unwrap_err(),
        ] {
            let hint = failure.hint.unwrap();
            assert!(
                hint.starts_with("restore ") && hint.contains("from the backup"),
                "{file}: {hint}"
            );
            assert_eq!(hint.contains(&id), names_key, "{file}: {hint}");
        }
        let message = instance.generate(false, None).unwrap_err().error.to_string();
        assert!(
            message.contains("had a signing key") && message.ends_with(file),
            "{message}"
        );
        assert!(!instance.1.signing_key.exists());
        let lost = GenerateArgs {
            downloads: false,
            issuing: false,
            references: false,
            bits: 2048,
            rotate: false,
            out: None,
            old_key_is_lost: true,
        };
        generate(&lost, &instance.1).unwrap();
        assert!(read_key(&instance.1).is_ok());
    }
}

#[test]
fn a_prepared_key_takes_the_place_of_a_lost_one() {
    let instance = Instance::new();
    let paths = &instance.1;
    let next = instance.0.path().join("next.pem");
    instance.generate(false, None).unwrap();
    instance.generate(false, Some(next.clone())).unwrap();
    fs::remove_file(&paths.signing_key).unwrap();
    assert!(
        rotate_to(&next, Old::Retire, paths)
            .unwrap_err()
            .hint
            .unwrap()
            .contains("from the backup")
    );
    rotate_to(&next, Old::Lost, paths).unwrap();
    assert_eq!(mode(&paths.signing_key), 0o600);
    assert!(read_key(paths).is_ok() && !next.exists());
}

#[test]
fn while_one_command_changes_the_keys_another_one_is_refused() {
    let instance = Instance::new();
    let paths = &instance.1;
    instance.generate(false, None).unwrap();
    let before = fs::read(&paths.signing_key).unwrap();
    let held = crate::commands::keys::files::KeysLock::take(paths.signing_key.parent().unwrap()).unwrap();
    for failure in [
        instance.generate(true, None).unwrap_err(),
        rotate_to(&paths.store, Old::Retire, paths).unwrap_err(),
    ] {
        assert!(failure.exit == Exit::Environment && failure.hint.is_some());
        assert!(
            failure
                .error
                .to_string()
                .ends_with("another command is changing the keys"),
            "{}",
            failure.error
        );
    }
    assert_eq!(fs::read(&paths.signing_key).unwrap(), before);
    drop(held);
    instance.generate(true, None).unwrap();
}

#[test]
fn the_key_for_downloads_is_made_once_and_rotated_with_the_old_one_kept() {
    let instance = Instance::new();
    let paths = &instance.1;
    let generate = |rotate| secrets::generate(SecretUse::Downloads, rotate, paths);
    generate(false).unwrap();
    let first = fs::read(&paths.downloads_key).unwrap();
    assert_eq!(first.len(), 32);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&paths.downloads_key), 0o600);
    let refused = generate(false).unwrap_err();
    assert_eq!(refused.hint.unwrap(), "--rotate retires it and makes another");
    assert_eq!(fs::read(&paths.downloads_key).unwrap(), first, "never overwritten");

    let output = generate(true).unwrap().text();
    let second = fs::read(&paths.downloads_key).unwrap();
    assert_ne!(second, first);
    let kept: Vec<_> = fs::read_dir(&paths.retired_keys)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    let [kept] = &kept[..] else { panic!("{kept:?}") };
    assert_eq!((fs::read(kept).unwrap(), mode(kept)), (first, 0o600));
    assert!(
        output.contains(&format!("{}: the key before it", kept.display())),
        "{output}"
    );

    instance.generate(false, None).unwrap();
    let listed: serde_json::Value = serde_json::from_str(&list(true, paths).unwrap()).unwrap();
    let uses: Vec<_> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|key| (&key["use"], &key["state"]))
        .collect();
    let expected = [
        ("signing", "current"),
        ("downloads", "current"),
        ("downloads", "retired"),
    ];
    assert!(
        uses.iter()
            .zip(expected)
            .all(|(found, (purpose, state))| *found.0 == purpose && *found.1 == state),
        "{listed}"
    );
    assert_eq!(uses.len(), 3);
    let table = list(false, paths).unwrap();
    assert_eq!(table.matches(" downloads ").count(), 2, "{table}");
}

#[test]
fn a_key_for_downloads_that_is_broken_or_missing_is_not_rotated() {
    let instance = Instance::new();
    let paths = &instance.1;
    fs::create_dir_all(paths.downloads_key.parent().unwrap()).unwrap();
    let missing = secrets::generate(SecretUse::Downloads, true, paths).unwrap_err();
    assert!(missing.exit == Exit::Input && missing.hint.unwrap().contains("restore it from the backup"));
    write_private(&paths.downloads_key, &[1; 31], "").unwrap();
    let broken = secrets::generate(SecretUse::Downloads, true, paths).unwrap_err();
    assert!(
        broken
            .error
            .to_string()
            .ends_with("not a key for downloads, which is a file of 32 bytes")
    );
    assert_eq!(fs::read(&paths.downloads_key).unwrap(), [1; 31]);
    assert!(!paths.retired_keys.exists());
}

#[test]
fn each_secret_is_made_and_rotated_by_itself() {
    let instance = Instance::new();
    let paths = &instance.1;
    instance.generate(false, None).unwrap();
    for purpose in [SecretUse::Issuing, SecretUse::References] {
        secrets::generate(purpose, false, paths).unwrap();
    }
    let [issuing, references] = [&paths.issuing_key, &paths.references_key].map(|path| fs::read(path).unwrap());
    assert_ne!(issuing, references);
    let output = secrets::generate(SecretUse::Issuing, true, paths).unwrap().text();
    assert!(output.contains("license keys that it made stay good"), "{output}");
    assert_eq!(fs::read(&paths.references_key).unwrap(), references);
    let listed: serde_json::Value = serde_json::from_str(&list(true, paths).unwrap()).unwrap();
    let of = |purpose: &str| {
        listed
            .as_array()
            .unwrap()
            .iter()
            .filter(|key| key["use"] == purpose)
            .count()
    };
    assert_eq!(
        (of("issuing"), of("references"), of("downloads")),
        (2, 1, 0),
        "{listed}"
    );
}
