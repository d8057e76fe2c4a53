//! The keys for downloads, for a start and for a reload: what is missing, and what is only told.

use std::path::Path;
use std::sync::Arc;

use crate::keys::download_keys::{DownloadKeyError, DownloadKeys};

/// Reads the key in force and those before it; `None` where there is none, and `must_be` does not say that there was one.
///
/// # Errors
/// The key in force cannot be used, or is missing although it must be there.
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
