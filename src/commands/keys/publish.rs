//! Lists the signing key and the retired keys, and writes their public halves where clients look.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use countersign_files::durable_file::{self, Access};
use countersign_files::regular_file;
use countersign_model::keyed_mac::SECRET_LENGTH;
use countersign_model::public_key::{Jwk, PublicKey};
use countersign_model::text::printable::Printable;
use countersign_settings::config::Paths;

use crate::commands::Failure;
use crate::commands::keys::error::{KeyCommandError, io_error};
use crate::commands::keys::files::{MAX_PEM, create_folder, read_key};
use crate::commands::keys::report::PublishedKeys;
use crate::commands::keys::retired;
use crate::commands::keys::secrets;
use crate::commands::output::{self, Table, path_text};

/// What a secret has.
const SECRET_BITS: usize = SECRET_LENGTH * 8;

/// A key, and the file it comes from.
#[derive(Debug)]
struct ListedKey {
    key: PublicKey,
    file: PathBuf,
    current: bool,
}

/// The keys as a table, or as JSON.
pub(super) fn list(json: bool, paths: &Paths) -> Result<String, Failure> {
    #[derive(Serialize)]
    struct KeyRow<'a> {
        key_id: &'a str,
        bits: usize,
        #[serde(rename = "use")]
        purpose: &'static str,
        state: &'static str,
        file: String,
        /// Where its private half is kept, for a retired key.
        #[serde(skip_serializing_if = "Option::is_none")]
        private: Option<String>,
    }
    let current = read_key(paths)?;
    let keys = all_keys(paths, &current)?;
    let state = |listed: &ListedKey| if listed.current { "current" } else { "retired" };
    let retired = retired::all(paths)?;
    let kept = |listed: &ListedKey| {
        let kept = retired
            .iter()
            .find(|kept| !listed.current && kept.key_id == listed.key.key_id());
        kept.map(|kept| path_text(&kept.file))
    };
    let secrets = secrets::list(paths)?;
    if json {
        let rows = keys.iter().map(|listed| {
            let ListedKey { key, file, .. } = listed;
            KeyRow {
                key_id: key.key_id(),
                bits: key.bits(),
                purpose: "signing",
                state: state(listed),
                file: path_text(file),
                private: kept(listed),
            }
        });
        let secrets = secrets.iter().map(|secret| KeyRow {
            key_id: &secret.key_id,
            bits: SECRET_BITS,
            purpose: secret.purpose.word(),
            state: secret.state,
            file: secret.file.clone(),
            private: None,
        });
        return output::json(&rows.chain(secrets).collect::<Vec<_>>());
    }
    let mut table = Table::new(["KEY ID", "BITS", "USE", "STATE", "FILE"]);
    for listed in &keys {
        let ListedKey { key, file, .. } = listed;
        let state = match kept(listed) {
            Some(_) => "retired, private key kept",
            None => state(listed),
        };
        table.row([&key.key_id(), &key.bits(), &"signing", &state, &file.display()]);
    }
    for secret in &secrets {
        let file = Printable(&secret.file);
        table.row([
            &secret.key_id,
            &SECRET_BITS,
            &secret.purpose.word(),
            &secret.state,
            &file,
        ]);
    }
    Ok(table.to_string())
}

/// Publishes every key, and returns the written files.
pub(super) fn publish(paths: &Paths) -> Result<PublishedKeys, Failure> {
    let current = read_key(paths)?;
    publish_all(paths, &current).map(|written| PublishedKeys::new(&written))
}

/// Writes the public halves of `current` and of the retired keys. Keys published before stay.
pub(super) fn publish_all(paths: &Paths, current: &PublicKey) -> Result<Vec<PathBuf>, Failure> {
    #[derive(Serialize)]
    struct Jwks {
        keys: Vec<Jwk>,
    }
    let keys = all_keys(paths, current)?;
    let mut written = Vec::new();
    for ListedKey { key, .. } in &keys {
        let file = paths.public.join("keys").join(format!("{}.pem", key.key_id()));
        write_public(&file, key.to_pem().as_bytes())?;
        written.push(file);
    }
    let file = paths.public.join(".well-known/jwks.json");
    let jwks = Jwks {
        keys: keys.iter().map(|listed| listed.key.to_jwk()).collect(),
    };
    write_public(&file, output::json(&jwks)?.as_bytes())?;
    written.push(file);
    Ok(written)
}

/// The current key, then the retired ones by file name.
fn all_keys(paths: &Paths, current: &PublicKey) -> Result<Vec<ListedKey>, KeyCommandError> {
    let mut keys = vec![ListedKey {
        key: current.clone(),
        file: paths.signing_key.clone(),
        current: true,
    }];
    let folder = &paths.retired_keys;
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries
            .collect::<Result<Vec<_>, _>>()
            .map_err(|source| io_error(folder, source))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => vec![],
        Err(source) => return Err(io_error(folder, source)),
    };
    let is_public = |path: &PathBuf| is_pem(path) && !retired::is_private(path);
    let mut files: Vec<_> = entries.iter().map(fs::DirEntry::path).filter(is_public).collect();
    files.sort();
    for file in files {
        let pem = regular_file::read_to_string(&file, MAX_PEM).map_err(|source| io_error(&file, source))?;
        let key = PublicKey::from_pem(&pem).map_err(|source| KeyCommandError::Public {
            path: file.clone(),
            source,
        })?;
        if key != *current {
            keys.push(ListedKey {
                key,
                file,
                current: false,
            });
        }
    }
    Ok(keys)
}

fn is_pem(path: &Path) -> bool {
    let hidden = path
        .file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with('.'));
    !hidden && path.extension().is_some_and(|extension| extension == "pem")
}

/// Writes or replaces a public half, durably.
pub(super) fn write_public(path: &Path, bytes: &[u8]) -> Result<(), KeyCommandError> {
    create_folder(path, Access::LikeFolder)?;
    durable_file::replace(path, bytes).map_err(|source| io_error(path, source))
}
