//! Output of the `keys` verbs, as text and as JSON (docs/cli-json.md).

use std::path::{Path, PathBuf};

use serde::Serialize;

use countersign_model::public_key::PublicKey;
use countersign_model::text::printable::Printable;

use crate::commands::output::path_text;

/// A private key that was created or put in force.
#[derive(Debug, Serialize)]
pub(super) struct KeyInForce {
    pub key_id: String,
    pub bits: usize,
    /// The file of the private key.
    pub file: String,
    /// Where the old private key is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retired: Option<String>,
    /// The public half in PEM, for a key that is not published yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_key: Option<String>,
}

impl KeyInForce {
    /// A key in this file that replaced none.
    pub(super) fn new(file: &Path, key: &PublicKey) -> Self {
        let key_id = key.key_id().to_owned();
        Self {
            key_id,
            bits: key.bits(),
            file: path_text(file),
            retired: None,
            public_key: None,
        }
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let Self {
            key_id,
            bits,
            file,
            retired,
            public_key,
        } = self;
        let mut text = format!("{}: {bits} bits, key {key_id}\n", Printable(file));
        if let Some(retired) = retired {
            text += &format!(
                "{}: the old key; `keys rotate --back` signs with it again\n",
                Printable(retired)
            );
        }
        text + public_key.as_deref().unwrap_or_default()
    }
}

/// Files of public halves that were written.
#[derive(Debug, Serialize)]
pub(super) struct PublishedKeys {
    written: Vec<String>,
}

impl PublishedKeys {
    /// These files.
    pub(super) fn new(files: &[PathBuf]) -> Self {
        Self {
            written: files.iter().map(|file| path_text(file)).collect(),
        }
    }

    /// For people: a file a line.
    pub(super) fn text(&self) -> String {
        self.written
            .iter()
            .map(|file| format!("{}\n", Printable(file)))
            .collect()
    }
}

/// Retired private keys that were deleted.
#[derive(Debug, Serialize)]
pub(super) struct Removed {
    removed: Vec<String>,
}

impl Removed {
    /// The private keys in these files.
    pub(super) fn new<'a>(files: impl Iterator<Item = &'a Path>) -> Self {
        Self {
            removed: files.map(path_text).collect(),
        }
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        if self.removed.is_empty() {
            return "No private key is overdue.\n".to_owned();
        }
        self.removed
            .iter()
            .map(|file| format!("{}: removed\n", Printable(file)))
            .collect()
    }
}
