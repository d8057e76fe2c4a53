//! Key files: private ones are readable by their owner only from the first moment, no key is overwritten, and one command at a
//! time changes the keys of a folder.

use std::fs::TryLockError;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use zeroize::Zeroizing;

use crate::commands::Failure;
use crate::commands::keys::error::{KeyCommandError, io_error};
use crate::commands::keys::lost;
use countersign_files::durable_file::{self, Access};
use countersign_files::folder_lock::HeldLock;
use countersign_files::regular_file;
use countersign_model::public_key::PublicKey;
use countersign_settings::config::Paths;
use countersign_settings::keys::signing_key::SigningKey;

/// Larger than a PEM file of a key with 4096 bits, in bytes.
pub(super) const MAX_PEM: u64 = 16 * 1024;

/// A private key as text, with its public half.
pub(super) struct Private {
    pub pem: Zeroizing<String>,
    pub public: PublicKey,
}

/// The public half of the signing key.
pub(super) fn read_key(paths: &Paths) -> Result<PublicKey, Failure> {
    SigningKey::load(&paths.signing_key)
        .map(|key| key.public().clone())
        .map_err(|error| {
            let hint = lost::hint(&error, paths);
            Failure::input(error).hint(hint)
        })
}

/// The public half of a private key. `generate` is the command that creates such a key.
pub(super) fn read_key_made_by(generate: &str, file: &Path) -> Result<PublicKey, Failure> {
    SigningKey::load(file).map(|key| key.public().clone()).map_err(|error| {
        let hint = error.hint_for(generate);
        Failure::of_key(error).hint(hint)
    })
}

/// The folder that a file is in.
pub(super) fn folder_of(file: &Path) -> &Path {
    file.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

pub(super) fn create_folder(file: &Path, access: Access) -> Result<(), KeyCommandError> {
    let folder = folder_of(file);
    durable_file::create_folders(folder, access).map_err(|source| io_error(folder, source))
}

/// Creates a key file. If there is one already, the hint is `otherwise`.
pub(super) fn write_private(path: &Path, key: &[u8], otherwise: &str) -> Result<(), Failure> {
    create_folder(path, Access::Owner)?;
    // SECURITY: 0600 from the first moment; and an overwritten key could not be restored.
    durable_file::create_new(path, key, Access::Owner).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => Failure::from(KeyCommandError::Exists(path.to_owned())).hint(otherwise),
        _ => io_error(path, source).into(),
    })
}

/// Writes or replaces a private key, readable by its owner only.
pub(super) fn put_private(path: &Path, key: &[u8]) -> Result<(), KeyCommandError> {
    let created = durable_file::create_new(path, key, Access::Owner);
    let put = created.or_else(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            // SECURITY: a file that is replaced keeps its permissions.
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
            durable_file::replace(path, key)
        }
        _ => Err(error),
    });
    put.map_err(|source| io_error(path, source))
}

/// The folder of a key, locked against other commands until it is dropped.
pub(super) struct KeysLock {
    _folder: HeldLock,
}

impl KeysLock {
    /// Locks the folder; fails if another command has it.
    pub(super) fn take(folder: &Path) -> Result<Self, Failure> {
        // The folder itself is locked: no lock file is left behind, and the lock ends with the process.
        let opened = regular_file::open_folder(folder).map_err(|source| io_error(folder, source))?;
        let held = HeldLock::take(opened).map_err(|error| match error {
            TryLockError::WouldBlock => Failure::from(KeyCommandError::Busy(folder.to_owned()))
                .hint("check its result with `countersign keys list`, then run this again if needed"),
            TryLockError::Error(source) => io_error(folder, source).into(),
        })?;
        Ok(Self { _folder: held })
    }
}
