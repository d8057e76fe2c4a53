//! The secret of downloads: created, rotated, and listed with the signing keys.
//!
//! A rotation first copies the old secret to `retired`, and then renames the new one into place, so there is a
//! complete secret at every moment. Links made with the old one expire at once; its marks can still be traced.

use std::io;
use std::path::Path;

use serde::Serialize;
use zeroize::Zeroizing;

use crate::config::Paths;
use crate::durable_file::Access;
use crate::keys::download_keys::{self, DownloadKeyError};
use crate::model::download_key::{DownloadKey, SECRET_LENGTH};
use crate::text::printable::Printable;

use crate::commands::Failure;
use crate::commands::keys::error::KeyCommandError;
use crate::commands::keys::files::{create_folder, folder_of, put_private, write_private};
use crate::commands::keys::keys_lock::KeysLock;
use crate::commands::output::path_text;

/// The secret that was created.
#[derive(Debug, Serialize)]
pub(super) struct DownloadKeyInForce {
    /// Its fingerprint.
    key_id: String,
    bits: usize,
    file: String,
    /// Where the old one is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    retired: Option<String>,
}

impl DownloadKeyInForce {
    fn new(file: &Path, key: &DownloadKey) -> Self {
        Self {
            key_id: key.fingerprint(),
            bits: SECRET_LENGTH * 8,
            file: path_text(file),
            retired: None,
        }
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let Self {
            key_id,
            bits,
            file,
            retired,
        } = self;
        let mut text = format!("{}: {bits} bits, key {key_id}\n", Printable(file));
        if let Some(retired) = retired {
            text += &format!(
                "{}: the key before it; its links are no longer good, and what it marked is still traced\n",
                Printable(retired)
            );
        }
        text
    }
}

/// A secret in the list of keys.
pub(super) struct ListedSecret {
    pub key_id: String,
    pub state: &'static str,
    pub file: String,
}

/// Creates the instance's secret. If there is one already, only `rotate` replaces it.
pub(super) fn generate(rotate: bool, paths: &Paths) -> Result<DownloadKeyInForce, Failure> {
    if !rotate {
        return create(paths);
    }
    let lock = KeysLock::take(folder_of(&paths.downloads_key))?;
    let (old, secret) = download_keys::read(&paths.downloads_key).map_err(failure)?;
    let (new, new_secret) = random()?;
    let retired = keep(&lock, paths, &old, &secret)?;
    put_private(&paths.downloads_key, new_secret.as_slice())?;
    Ok(DownloadKeyInForce {
        retired: Some(retired),
        ..DownloadKeyInForce::new(&paths.downloads_key, &new)
    })
}

/// Creates a secret if there is none.
pub(super) fn create(paths: &Paths) -> Result<DownloadKeyInForce, Failure> {
    let (key, secret) = random()?;
    let otherwise = "--rotate retires it and makes another";
    write_private(&paths.downloads_key, secret.as_slice(), otherwise)?;
    Ok(DownloadKeyInForce::new(&paths.downloads_key, &key))
}

/// The current secret, if there is one, and the retired ones.
pub(super) fn list(paths: &Paths) -> Result<Vec<ListedSecret>, Failure> {
    let listed = |key: &DownloadKey, state, file: &Path| ListedSecret {
        key_id: key.fingerprint(),
        state,
        file: path_text(file),
    };
    let mut all = Vec::new();
    match download_keys::read(&paths.downloads_key) {
        Ok((key, _)) => all.push(listed(&key, "current", &paths.downloads_key)),
        Err(DownloadKeyError::Missing(_)) => {}
        Err(error) => return Err(failure(error)),
    }
    for secret in download_keys::retired_secrets(&paths.retired_keys).map_err(failure)? {
        all.push(listed(&secret.key.map_err(failure)?, "retired", &secret.file));
    }
    Ok(all)
}

/// Keeps the secret that is about to be replaced; returns its file.
fn keep(
    _held: &KeysLock,
    paths: &Paths,
    key: &DownloadKey,
    secret: &[u8; SECRET_LENGTH],
) -> Result<String, KeyCommandError> {
    let file = download_keys::retired_file(&paths.retired_keys, key);
    create_folder(&file, Access::Owner)?;
    put_private(&file, secret)?;
    Ok(path_text(&file))
}

fn random() -> Result<(DownloadKey, Zeroizing<[u8; SECRET_LENGTH]>), KeyCommandError> {
    let mut secret = Zeroizing::new([0; SECRET_LENGTH]);
    getrandom::fill(secret.as_mut_slice()).map_err(|error| KeyCommandError::Generate(io::Error::from(error).into()))?;
    Ok((DownloadKey::new(&secret), secret))
}

/// An unreadable file is a failure of the system, everything else is wrong input.
pub fn failure(error: DownloadKeyError) -> Failure {
    let hint = error.hint();
    let failure = match error {
        DownloadKeyError::Read { .. } => Failure::environment(error),
        _ => Failure::input(error),
    };
    failure.hint(hint)
}
