//! The secret of downloads and the retired ones: 32 random bytes each, in files that only their owner can read.
//!
//! The current secret makes links and build ids. Retired ones, kept beside the retired signing keys, only trace old
//! copies and recognize expired links. [`DownloadKey`] has the keys derived from each.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::keys::secret_file::{self, SecretFileError};
use crate::model::download_key::{DownloadKey, SECRET_LENGTH};

/// The prefix and ending of a retired secret's file; its fingerprint is between them.
const RETIRED: (&str, &str) = ("downloads-", ".key");

/// The current secret and the retired ones.
#[derive(Clone, Debug)]
pub struct DownloadKeys {
    current: DownloadKey,
    retired: Vec<DownloadKey>,
}

/// A retired secret. An error in it stops nothing.
#[derive(Debug)]
pub struct RetiredSecret {
    /// Its file.
    pub file: PathBuf,
    /// The derived keys, or why there are none.
    pub key: Result<DownloadKey, DownloadKeyError>,
}

/// Why a secret of downloads is not usable, in one line each. [`DownloadKeyError::hint`] says what to do.
#[derive(Debug, thiserror::Error)]
pub enum DownloadKeyError {
    /// There is no such file.
    #[error("{}: there is no key for downloads", .0.display())]
    Missing(PathBuf),
    /// The file or folder cannot be read.
    #[error("{}: the key for downloads cannot be read: {reason}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Why. Part of the message, so it is not a source.
        reason: io::Error,
    },
    /// Other users can read the file.
    #[error("{}: others can read the key for downloads (mode {mode:04o})", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file is not a secret.
    #[error("{}: not a key for downloads, which is a file of 32 bytes", .0.display())]
    NotAKey(PathBuf),
}

impl DownloadKeyError {
    /// What to do.
    pub fn hint(&self) -> String {
        match self {
            Self::Missing(_) => {
                "restore it from the backup, so that old copies can be traced; if there never was one: \
                                 countersign keys generate --downloads"
                    .to_owned()
            }
            Self::Read { .. } => "let the user that runs the server own the file".to_owned(),
            Self::Exposed { path, .. } => format!("chmod 600 {}", path.display()),
            Self::NotAKey(_) => {
                "restore it from the backup; if no backup has it, move it away and make a new one with \
                                 `countersign keys generate --downloads`"
                    .to_owned()
            }
        }
    }
}

impl DownloadKeys {
    /// Reads the current secret at `path`, and the retired ones in the folder `retired`. The second value has the
    /// errors of unusable retired ones, which are left out.
    ///
    /// # Errors
    /// The current secret is missing or unusable, or the folder cannot be listed.
    pub fn load(path: &Path, retired: &Path) -> Result<(Self, Vec<DownloadKeyError>), DownloadKeyError> {
        let (current, _) = read(path)?;
        let mut keys = Self {
            current,
            retired: Vec::new(),
        };
        let mut errors = Vec::new();
        for secret in retired_secrets(retired)? {
            match secret.key {
                Ok(key) if key.fingerprint() == keys.current.fingerprint() => {}
                Ok(key) => keys.retired.push(key),
                Err(error) => errors.push(error),
            }
        }
        Ok((keys, errors))
    }

    /// The current secret.
    pub fn current(&self) -> &DownloadKey {
        &self.current
    }

    /// The retired ones.
    pub fn retired(&self) -> &[DownloadKey] {
        &self.retired
    }

    /// All of them, the current one first.
    pub fn all(&self) -> impl Iterator<Item = &DownloadKey> {
        std::iter::once(&self.current).chain(&self.retired)
    }
}

/// Reads a secret: the derived keys, and its bytes.
pub fn read(path: &Path) -> Result<(DownloadKey, Zeroizing<[u8; SECRET_LENGTH]>), DownloadKeyError> {
    let not_a_key = || DownloadKeyError::NotAKey(path.to_owned());
    let read = secret_file::read_bytes(path, SECRET_LENGTH as u64 + 1);
    let bytes = read.map_err(|error| match error {
        SecretFileError::Missing => DownloadKeyError::Missing(path.to_owned()),
        SecretFileError::NotAFile => not_a_key(),
        SecretFileError::Exposed(mode) => DownloadKeyError::Exposed {
            path: path.to_owned(),
            mode,
        },
        SecretFileError::Read(reason) => DownloadKeyError::Read {
            path: path.to_owned(),
            reason,
        },
    })?;
    let secret: Zeroizing<[u8; SECRET_LENGTH]> = Zeroizing::new(bytes.as_slice().try_into().map_err(|_| not_a_key())?);
    // From a full disk or a failed copy: no random number generator makes it.
    if secret.iter().all(|byte| *byte == 0) {
        return Err(not_a_key());
    }
    Ok((DownloadKey::new(&secret), secret))
}

/// Where a retired secret is kept.
pub fn retired_file(retired: &Path, key: &DownloadKey) -> PathBuf {
    let (before, after) = RETIRED;
    retired.join(format!("{before}{}{after}", key.fingerprint()))
}

/// All retired secrets by file name; none without the folder.
pub fn retired_secrets(folder: &Path) -> Result<Vec<RetiredSecret>, DownloadKeyError> {
    let failed = |reason| DownloadKeyError::Read {
        path: folder.to_owned(),
        reason,
    };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries.collect::<Result<Vec<_>, _>>().map_err(failed)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(failed(error)),
    };
    let mut files: Vec<_> = entries
        .iter()
        .map(fs::DirEntry::path)
        .filter(|path| is_retired(path))
        .collect();
    files.sort();
    let secret = |file: PathBuf| RetiredSecret {
        key: read(&file).map(|(key, _)| key),
        file,
    };
    Ok(files.into_iter().map(secret).collect())
}

fn is_retired(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (before, after) = RETIRED;
    name.starts_with(before) && name.ends_with(after)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    struct Keys(tempfile::TempDir);

    impl Keys {
        fn new() -> Self {
            let keys = Self(tempfile::tempdir().unwrap());
            fs::create_dir(keys.retired()).unwrap();
            keys
        }

        fn path(&self) -> PathBuf {
            self.0.path().join("downloads.key")
        }

        fn retired(&self) -> PathBuf {
            self.0.path().join("retired")
        }

        fn load(&self) -> Result<(DownloadKeys, Vec<DownloadKeyError>), DownloadKeyError> {
            DownloadKeys::load(&self.path(), &self.retired())
        }
    }

    fn put(path: &Path, bytes: &[u8], mode: u32) {
        fs::write(path, bytes).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_secret_is_32_bytes_that_nobody_else_can_read() {
        let keys = Keys::new();
        let kind = |bytes: &[u8], mode| {
            put(&keys.path(), bytes, mode);
            keys.load()
                .map(drop)
                .map_err(|error| error.to_string().replace(&format!("{}: ", keys.path().display()), ""))
        };
        assert_eq!(kind(&[7; 32], 0o600), Ok(()));
        assert_eq!(kind(&[7; 32], 0o400), Ok(()));
        let not_a_key = || Err("not a key for downloads, which is a file of 32 bytes".to_owned());
        for bytes in [&[][..], &[7; 31], &[7; 33], &[0; 32]] {
            assert_eq!(kind(bytes, 0o600), not_a_key(), "{bytes:?}");
        }
        assert_eq!(
            kind(&[7; 32], 0o640),
            Err("others can read the key for downloads (mode 0640)".to_owned())
        );
        fs::remove_file(keys.path()).unwrap();
        assert!(matches!(keys.load(), Err(DownloadKeyError::Missing(_))));
        fs::create_dir(keys.path()).unwrap();
        assert!(matches!(keys.load(), Err(DownloadKeyError::NotAKey(_))));
    }

    #[test]
    fn retired_secrets_are_found_and_one_that_is_broken_is_told_and_left_out() {
        let keys = Keys::new();
        put(&keys.path(), &[1; 32], 0o600);
        let old = DownloadKey::new(&[2; 32]);
        for (key, bytes, mode) in [
            (&old, [2; 32], 0o600),
            // A rotation that was interrupted before its last step.
            (&DownloadKey::new(&[1; 32]), [1; 32], 0o600),
            (&DownloadKey::new(&[3; 32]), [3; 32], 0o644),
        ] {
            put(&retired_file(&keys.retired(), key), &bytes, mode);
        }
        put(&keys.retired().join("x.private.pem"), b"a signing key", 0o600);
        put(&keys.retired().join(".downloads-0.key.1.tmp"), b"half", 0o600);
        let (loaded, errors) = keys.load().unwrap();
        let fingerprints: Vec<_> = loaded.all().map(DownloadKey::fingerprint).collect();
        assert_eq!(
            fingerprints,
            [DownloadKey::new(&[1; 32]).fingerprint(), old.fingerprint()]
        );
        assert!(
            matches!(&errors[..], [DownloadKeyError::Exposed { mode: 0o644, .. }]),
            "{errors:?}"
        );
        assert_eq!(loaded.retired().len(), 1);
    }

    #[test]
    fn two_secrets_have_two_names_and_a_name_says_nothing_of_the_secret() {
        let name = |byte| DownloadKey::new(&[byte; 32]).fingerprint();
        assert_ne!(name(1), name(2));
        assert_eq!(name(0x41).len(), 16);
        assert!(!name(0x41).contains("4141"));
    }
}
