//! Whether a package has the keys in it that its statement says its client believes.
//!
//! Who forgets a new key in the plugin's settings publishes a client that takes no release by it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::archive::{Archive, ArchiveError};
use crate::read_at::ReadAt;
use countersign_model::release_key::ReleaseKey;

/// Larger files are not searched: no plugin keeps its settings there.
const MAX_SEARCHED: u64 = 4 << 20;

/// Those of `keys` that no file of the package has in its text, as SSH writes them.
///
/// # Errors
///
/// The archive can no longer be read, or was changed since it was checked.
pub fn absent<R: ReadAt>(archive: &Archive<R>, keys: &[ReleaseKey]) -> Result<Vec<ReleaseKey>, ArchiveError> {
    let mut sought: Vec<_> = keys.iter().map(|key| (key, STANDARD.encode(key.blob()))).collect();
    for file in archive.files().filter(|file| file.size <= MAX_SEARCHED) {
        if sought.is_empty() {
            break;
        }
        let text = archive.read(file)?;
        sought.retain(|(_, base64)| memchr::memmem::find(&text, base64.as_bytes()).is_none());
    }
    Ok(sought.into_iter().map(|(key, _)| key.clone()).collect())
}
