//! The secrets of downloads, issuing and references: created, rotated, and listed with the signing keys.
//!
//! A rotation first copies the old secret to `retired`, and then renames the new one into place, so there is a
//! complete secret at every moment. Links made with the old one expire at once; its marks can still be traced, and what was
//! issued with it is still known.

use std::io;
use std::path::Path;

use serde::Serialize;
use zeroize::Zeroizing;

use countersign_files::durable_file::Access;
use countersign_model::download_key::DownloadKey;
use countersign_model::issuing_key::{IssuingKey, ReferenceKey};
use countersign_model::keyed_mac::SECRET_LENGTH;
use countersign_model::text::printable::Printable;
use countersign_settings::config::Paths;
use countersign_settings::keys::secret_keys::{self, SecretKey, SecretKeyError, SecretUse};

use crate::commands::Failure;
use crate::commands::keys::error::KeyCommandError;
use crate::commands::keys::files::{KeysLock, create_folder, folder_of, put_private, write_private};
use crate::commands::output::path_text;

/// The secret that was created.
#[derive(Debug, Serialize)]
pub(super) struct SecretInForce {
    /// Its fingerprint.
    key_id: String,
    bits: usize,
    file: String,
    /// Where the old one is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    retired: Option<String>,
    #[serde(skip)]
    purpose: SecretUse,
}

impl SecretInForce {
    fn new<K: SecretKey>(file: &Path, key: &K) -> Self {
        Self {
            key_id: key.name(),
            bits: SECRET_LENGTH * 8,
            file: path_text(file),
            retired: None,
            purpose: K::USE,
        }
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let Self {
            key_id,
            bits,
            file,
            retired,
            purpose,
        } = self;
        let mut text = format!("{}: {bits} bits, key {key_id}\n", Printable(file));
        if let Some(retired) = retired {
            let then = match purpose {
                SecretUse::Downloads => "its links are no longer good, and what it marked is still traced",
                SecretUse::Issuing => "license keys that it made stay good; keep it, to tell them again",
                SecretUse::References => "licenses are still found by orders that it hid; keep it",
            };
            text += &format!("{}: the key before it; {then}\n", Printable(retired));
        }
        text
    }
}

/// A secret in the list of keys.
pub(super) struct ListedSecret {
    pub key_id: String,
    pub purpose: SecretUse,
    pub state: &'static str,
    pub file: String,
}

/// Creates the instance's secret for this use. If there is one already, only `rotate` replaces it.
pub(super) fn generate(purpose: SecretUse, rotate: bool, paths: &Paths) -> Result<SecretInForce, Failure> {
    match purpose {
        SecretUse::Downloads => generate_one::<DownloadKey>(rotate, paths),
        SecretUse::Issuing => generate_one::<IssuingKey>(rotate, paths),
        SecretUse::References => generate_one::<ReferenceKey>(rotate, paths),
    }
}

fn generate_one<K: SecretKey>(rotate: bool, paths: &Paths) -> Result<SecretInForce, Failure> {
    let file = file_of(K::USE, paths);
    if !rotate {
        let (key, secret) = random::<K>()?;
        write_private(file, secret.as_slice(), "--rotate retires it and makes another")?;
        return Ok(SecretInForce::new(file, &key));
    }
    let lock = KeysLock::take(folder_of(file))?;
    let (old, secret) = secret_keys::read::<K>(file).map_err(failure)?;
    let (new, new_secret) = random::<K>()?;
    let retired = keep(&lock, paths, &old, &secret)?;
    put_private(file, new_secret.as_slice())?;
    Ok(SecretInForce {
        retired: Some(retired),
        ..SecretInForce::new(file, &new)
    })
}

/// The secrets in force, as far as there are some, and the retired ones.
pub(super) fn list(paths: &Paths) -> Result<Vec<ListedSecret>, Failure> {
    let mut all = list_one::<DownloadKey>(paths)?;
    all.extend(list_one::<IssuingKey>(paths)?);
    all.extend(list_one::<ReferenceKey>(paths)?);
    Ok(all)
}

fn list_one<K: SecretKey>(paths: &Paths) -> Result<Vec<ListedSecret>, Failure> {
    let listed = |key: &K, state, file: &Path| ListedSecret {
        key_id: key.name(),
        purpose: K::USE,
        state,
        file: path_text(file),
    };
    let mut all = Vec::new();
    let current = file_of(K::USE, paths);
    match secret_keys::read::<K>(current) {
        Ok((key, _)) => all.push(listed(&key, "current", current)),
        Err(SecretKeyError::Missing { .. }) => {}
        Err(error) => return Err(failure(error)),
    }
    for secret in secret_keys::retired_secrets::<K>(&paths.retired_keys).map_err(failure)? {
        all.push(listed(&secret.key.map_err(failure)?, "retired", &secret.file));
    }
    Ok(all)
}

fn file_of(purpose: SecretUse, paths: &Paths) -> &Path {
    match purpose {
        SecretUse::Downloads => &paths.downloads_key,
        SecretUse::Issuing => &paths.issuing_key,
        SecretUse::References => &paths.references_key,
    }
}

/// Keeps the secret that is about to be replaced; returns its file.
fn keep<K: SecretKey>(
    _held: &KeysLock,
    paths: &Paths,
    key: &K,
    secret: &[u8; SECRET_LENGTH],
) -> Result<String, KeyCommandError> {
    let file = secret_keys::retired_file(&paths.retired_keys, key);
    create_folder(&file, Access::Owner)?;
    put_private(&file, secret)?;
    Ok(path_text(&file))
}

fn random<K: SecretKey>() -> Result<(K, Zeroizing<[u8; SECRET_LENGTH]>), KeyCommandError> {
    let mut secret = Zeroizing::new([0; SECRET_LENGTH]);
    getrandom::fill(secret.as_mut_slice()).map_err(|error| KeyCommandError::Generate(io::Error::from(error).into()))?;
    Ok((K::derive(&secret), secret))
}

/// An unreadable file is a failure of the system, everything else is wrong input.
pub fn failure(error: SecretKeyError) -> Failure {
    let hint = error.hint();
    let failure = match error {
        SecretKeyError::Read { .. } => Failure::environment(error),
        _ => Failure::input(error),
    };
    failure.hint(hint)
}
