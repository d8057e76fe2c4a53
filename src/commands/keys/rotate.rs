//! Replaces the signing key, and keeps the old one in `retired`.
//!
//! It may be killed at any moment: the old key is copied, the new one is published, and then one rename puts it in
//! force. Before that rename the old key signs, after it the new one.

use std::fs;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use countersign_files::regular_file;
use countersign_settings::config::Paths;
use countersign_settings::keys::signing_key::SigningKey;

use crate::commands::Failure;
use crate::commands::keys::error::{KeyCommandError, io_error};
use crate::commands::keys::files::{KeysLock, MAX_PEM, Private, folder_of, put_private, read_key, read_key_made_by};
use crate::commands::keys::publish::{publish_all, write_public};
use crate::commands::keys::report::KeyInForce;
use crate::commands::keys::retired::{self, keep};
use crate::commands::output::path_text;

/// What to do about the current signing key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Old {
    /// Retire it.
    Retire,
    /// It is missing, and a person says that it is lost.
    Lost,
}

/// Makes the key in `file` the signing key; the file is moved.
pub(super) fn rotate_to(file: &Path, old: Old, paths: &Paths) -> Result<KeyInForce, Failure> {
    let lock = KeysLock::take(folder_of(&paths.signing_key))?;
    let current = current(old, paths)?;
    let new = read_private(file)?;
    if current.as_ref().is_some_and(|current| current.public == new.public) {
        let hint = match is_same_file(file, &paths.signing_key) {
            true => "prepare another with `keys generate --out`",
            false => "a rotation was interrupted after its key was in force: remove this copy",
        };
        return Err(Failure::from(KeyCommandError::Current(file.to_owned())).hint(hint));
    }
    let outcome = replace_current(&lock, paths, current.as_ref(), &new)?;
    fs::remove_file(file).map_err(|source| io_error(file, source))?;
    Ok(outcome)
}

/// Signs again with the key that was retired last.
pub(super) fn rotate_back(old: Old, paths: &Paths) -> Result<KeyInForce, Failure> {
    let current = SigningKey::load(&paths.signing_key).ok();
    let retired = retired::all(paths)?;
    let last = retired.into_iter().rfind(|retired| {
        current
            .as_ref()
            .is_none_or(|key| key.public().key_id() != retired.key_id)
    });
    let Some(last) = last else {
        return Err(Failure::from(KeyCommandError::NothingToGoBackTo(paths.retired_keys.clone())).hint(
            "a rotation keeps the private key there for `keep_retired_days`; restore it from the backup if it was removed",
        ));
    };
    rotate_to(&last.file, old, paths)
}

/// Retires `current`, publishes `new` and puts it in force.
pub(super) fn replace_current(
    _held: &KeysLock,
    paths: &Paths,
    current: Option<&Private>,
    new: &Private,
) -> Result<KeyInForce, Failure> {
    let mut retired = None;
    if let Some(Private { pem, public }) = current {
        // SECURITY: the old key is safe in its new place before its old file changes.
        let private = keep(paths, public.key_id(), pem)?;
        let kept = paths.retired_keys.join(format!("{}.pem", public.key_id()));
        write_public(&kept, public.to_pem().as_bytes())?;
        retired = Some(path_text(&private));
    }
    // Published first, so that no statement names a key that clients cannot get.
    publish_all(paths, &new.public)?;
    put_private(&paths.signing_key, new.pem.as_bytes())?;
    Ok(KeyInForce {
        retired,
        ..KeyInForce::new(&paths.signing_key, &new.public)
    })
}

/// The current signing key; `None` if a person says that it is lost.
pub(super) fn current(old: Old, paths: &Paths) -> Result<Option<Private>, Failure> {
    match (old, read_key(paths)) {
        (Old::Lost, Err(_)) if !exists(&paths.signing_key) => Ok(None),
        (_, Err(failure)) => Err(failure),
        (_, Ok(public)) => Ok(Some(Private {
            pem: read_pem(&paths.signing_key)?,
            public,
        })),
    }
}

fn read_private(file: &Path) -> Result<Private, Failure> {
    let public = read_key_made_by(&format!("countersign keys generate --out {}", file.display()), file)?;
    Ok(Private {
        pem: read_pem(file)?,
        public,
    })
}

fn read_pem(file: &Path) -> Result<Zeroizing<String>, KeyCommandError> {
    regular_file::read_to_string(file, MAX_PEM)
        .map(Zeroizing::new)
        .map_err(|source| io_error(file, source))
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).ok();
    real(one).is_some_and(|path: PathBuf| Some(path) == real(other))
}
