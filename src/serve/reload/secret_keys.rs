//! Loads the keys for downloads, issuing and references, at the start and at a reload.

use std::path::Path;
use std::sync::Arc;

use crate::serve::gate::Secrets;
use countersign_settings::keys::license_secrets::LicenseSecrets;
use countersign_settings::keys::secret_keys::{SecretKey, SecretKeyError, SecretKeys};

/// Loads the secrets that there are, from the files of downloads, issuing and references, and the folder of retired keys.
/// What was `held` before must not vanish.
///
/// # Errors
/// A secret is unusable, or missing although it must exist.
pub(super) fn load(paths: [&Path; 4], held: &Secrets) -> Result<Secrets, SecretKeyError> {
    let [downloads, issuing, references, retired] = paths;
    let must_issue = held.licensing.is_some();
    let downloads = load_one(downloads, retired, held.downloads.is_some())?;
    let issuing = load_one(issuing, retired, must_issue)?;
    // Neither is of use without the other.
    let references = load_one(references, retired, issuing.is_some())?;
    let licensing = issuing
        .zip(references)
        .map(|(issuing, references)| LicenseSecrets::new(issuing, references));
    Ok(Secrets {
        downloads: downloads.map(Arc::new),
        licensing: licensing.map(Arc::new),
    })
}

/// Loads the current key and the retired ones; `None` if there is none, unless `must_be`.
fn load_one<K: SecretKey>(path: &Path, retired: &Path, must_be: bool) -> Result<Option<SecretKeys<K>>, SecretKeyError> {
    let (keys, unusable) = match SecretKeys::load(path, retired) {
        Err(SecretKeyError::Missing { .. }) if !must_be => return Ok(None),
        loaded => loaded?,
    };
    for error in unusable {
        tracing::warn!(%error, "a retired key is left out: what it made is not recognized");
    }
    Ok(Some(keys))
}
