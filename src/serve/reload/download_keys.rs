//! Loads the keys for downloads, at the start and at a reload.

use std::path::Path;
use std::sync::Arc;

use crate::keys::download_keys::{DownloadKeyError, DownloadKeys};

/// Loads the current key and the retired ones; `None` if there is none, unless `must_be`.
///
/// # Errors
/// The current key is unusable, or missing although it must exist.
pub(super) fn load(path: &Path, retired: &Path, must_be: bool) -> Result<Option<Arc<DownloadKeys>>, DownloadKeyError> {
    let (keys, unusable) = match DownloadKeys::load(path, retired) {
        Err(DownloadKeyError::Missing(_)) if !must_be => return Ok(None),
        loaded => loaded?,
    };
    for error in unusable {
        tracing::warn!(%error, "links that a retired key for downloads made are taken for guesses");
    }
    Ok(Some(Arc::new(keys)))
}
