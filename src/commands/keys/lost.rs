//! Detects that an instance's signing key is missing, and says what to do.
//!
//! Plugins pin the key and reject a new one. So a missing key should be restored from the backup; a new one is
//! created only when a person says that no backup has it.

use std::path::{Path, PathBuf};

use crate::commands::store::store_source;
use countersign_files::regular_file;
use countersign_settings::config::Paths;
use countersign_settings::keys::signing_key::KeyError;

/// Larger than a set of a thousand keys, in bytes.
const MAX_JWKS: u64 = 4 << 20;

/// Evidence that there was a signing key.
#[derive(Debug, PartialEq, Eq)]
pub struct Trace {
    /// The file or folder.
    pub file: PathBuf,
    /// The id of the missing key, if known.
    pub key_id: Option<String>,
}

/// Looks for a key's public half, keys retired before it, and sites bound with it.
pub fn trace(paths: &Paths) -> Option<Trace> {
    let jwks = paths.public.join(".well-known/jwks.json");
    if let Some(key_id) = first_published(&jwks) {
        return Some(Trace {
            file: jwks,
            key_id: Some(key_id),
        });
    }
    let folders = [paths.public.join("keys"), paths.retired_keys.clone()];
    let file = folders.into_iter().find(|folder| has_pem(folder));
    let file = file.or_else(|| {
        countersign_ledger::has_bindings(store_source(paths)).then(|| match &paths.database {
            Some(address) => address.into(),
            None => paths.store.clone(),
        })
    });
    file.map(|file| Trace { file, key_id: None })
}

impl Trace {
    /// What to do; `otherwise` is the command for a key that is lost for good.
    pub fn hint(&self, signing_key: &Path, otherwise: &str) -> String {
        let which = match &self.key_id {
            Some(id) => format!("key {id}"),
            None => "plugins pin it".to_owned(),
        };
        format!(
            "restore {} from the backup ({which}); if no backup has it: countersign {otherwise}",
            signing_key.display()
        )
    }
}

/// What to do about a signing key that cannot be loaded.
pub fn hint(error: &KeyError, paths: &Paths) -> String {
    match (error, trace(paths)) {
        (KeyError::Missing(_), Some(trace)) => trace.hint(&paths.signing_key, "keys generate --old-key-is-lost"),
        (KeyError::NotAKey(_) | KeyError::Size { .. }, Some(trace)) => {
            format!(
                "move it away and {}",
                trace.hint(&paths.signing_key, "keys generate --old-key-is-lost")
            )
        }
        _ => error.hint_for("countersign keys generate"),
    }
}

/// The first key of the published set: the signing key, which `keys publish` writes first.
fn first_published(jwks: &Path) -> Option<String> {
    let set: serde_json::Value = serde_json::from_str(&regular_file::read_to_string(jwks, MAX_JWKS).ok()?).ok()?;
    set["keys"][0]["kid"].as_str().map(str::to_owned)
}

fn has_pem(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .any(|path| path.extension().is_some_and(|extension| extension == "pem"))
}
