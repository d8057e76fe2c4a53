//! Secrets of 32 random bytes, in files that only their owner can read: one in force and retired ones for each use.
//!
//! The secret for downloads signs links and encrypts build ids. Retired ones only trace old copies and recognize expired links. The
//! secrets of issuing and of references are in [`issuing_key`](countersign_model::issuing_key): retired ones know what was issued
//! with them. Retired secrets lie beside the retired signing keys.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::keys::secret_file::{self, SecretFileError};
use countersign_files::regular_file;
use countersign_model::download_key::DownloadKey;
use countersign_model::issuing_key::{IssuingKey, ReferenceKey};
use countersign_model::keyed_mac::SECRET_LENGTH;

/// What a secret is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::EnumIter)]
#[strum(serialize_all = "lowercase")]
pub enum SecretUse {
    /// Links to packages, and build ids.
    Downloads,
    /// The keys of licenses that machines issue.
    Issuing,
    /// Hiding the orders of shops in the ledger.
    References,
}

impl SecretUse {
    /// The word for it in commands, file names and messages.
    pub fn word(self) -> &'static str {
        self.into()
    }

    /// What is lost with it.
    fn loss(self) -> &'static str {
        match self {
            Self::Downloads => "so that old copies can be traced",
            Self::Issuing => "so that issued license keys can be shown again",
            Self::References => "so that licenses are found by their orders",
        }
    }
}

/// Keys that are derived from a secret.
pub trait SecretKey: Clone {
    /// What the secret is for.
    const USE: SecretUse;

    /// Derives the keys.
    fn derive(secret: &[u8; SECRET_LENGTH]) -> Self;

    /// Names the secret without saying anything of it: 16 hexadecimal digits.
    fn name(&self) -> String;
}

impl SecretKey for DownloadKey {
    const USE: SecretUse = SecretUse::Downloads;

    fn derive(secret: &[u8; SECRET_LENGTH]) -> Self {
        Self::new(secret)
    }

    fn name(&self) -> String {
        self.fingerprint()
    }
}

impl SecretKey for IssuingKey {
    const USE: SecretUse = SecretUse::Issuing;

    fn derive(secret: &[u8; SECRET_LENGTH]) -> Self {
        Self::new(secret)
    }

    fn name(&self) -> String {
        self.fingerprint()
    }
}

impl SecretKey for ReferenceKey {
    const USE: SecretUse = SecretUse::References;

    fn derive(secret: &[u8; SECRET_LENGTH]) -> Self {
        Self::new(secret)
    }

    fn name(&self) -> String {
        self.fingerprint()
    }
}

/// The secret in force for one use, and the retired ones.
#[derive(Clone, Debug)]
pub struct SecretKeys<K> {
    current: K,
    retired: Vec<K>,
}

/// The secrets of downloads.
pub type DownloadKeys = SecretKeys<DownloadKey>;
/// The secrets of issued licenses.
pub type IssuingKeys = SecretKeys<IssuingKey>;
/// The secrets of references.
pub type ReferenceKeys = SecretKeys<ReferenceKey>;

/// A retired secret. An error in it stops nothing.
#[derive(Debug)]
pub struct RetiredSecret<K> {
    /// Its file.
    pub file: PathBuf,
    /// The derived keys, or why there are none.
    pub key: Result<K, SecretKeyError>,
}

/// Why a secret is not usable, in one line each. [`SecretKeyError::hint`] says what to do.
#[derive(Debug, thiserror::Error)]
pub enum SecretKeyError {
    /// There is no such file.
    #[error("{}: there is no key for {}", path.display(), purpose.word())]
    Missing {
        /// The file.
        path: PathBuf,
        /// What it is for.
        purpose: SecretUse,
    },
    /// The file or folder cannot be read.
    #[error("{}: the key for {} cannot be read: {reason}", path.display(), purpose.word())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What it is for.
        purpose: SecretUse,
        /// Why. Part of the message, so it is not a source.
        reason: io::Error,
    },
    /// Other users can read the file.
    #[error("{}: others can read the key for {} (mode {mode:04o})", path.display(), purpose.word())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// What it is for.
        purpose: SecretUse,
        /// Its permission bits.
        mode: u32,
    },
    /// The file is not a secret.
    #[error("{}: not a key for {}, which is a file of {SECRET_LENGTH} bytes", path.display(), purpose.word())]
    NotAKey {
        /// The file.
        path: PathBuf,
        /// What it is for.
        purpose: SecretUse,
    },
}

impl SecretKeyError {
    /// What to do.
    pub fn hint(&self) -> String {
        match self {
            Self::Missing { purpose, .. } => format!(
                "restore it from the backup, {}; if there never was one: countersign keys generate --{}",
                purpose.loss(),
                purpose.word()
            ),
            Self::Read { .. } => "let the user that runs the server own the file".to_owned(),
            Self::Exposed { path, .. } => regular_file::exposed_hint(path),
            Self::NotAKey { purpose, .. } => format!(
                "restore it from the backup; if no backup has it, move it away and make a new one with \
                 `countersign keys generate --{}`",
                purpose.word()
            ),
        }
    }
}

impl<K: SecretKey> SecretKeys<K> {
    /// Reads the current secret at `path`, and the retired ones in the folder `retired`. The second value has the
    /// errors of unusable retired ones, which are left out.
    ///
    /// # Errors
    /// The current secret is missing or unusable, or the folder cannot be listed.
    pub fn load(path: &Path, retired: &Path) -> Result<(Self, Vec<SecretKeyError>), SecretKeyError> {
        let (current, _) = read::<K>(path)?;
        let mut keys = Self {
            current,
            retired: Vec::new(),
        };
        let mut errors = Vec::new();
        for secret in retired_secrets::<K>(retired)? {
            match secret.key {
                Ok(key) if key.name() == keys.current.name() => {}
                Ok(key) => keys.retired.push(key),
                Err(error) => errors.push(error),
            }
        }
        Ok((keys, errors))
    }

    /// The current secret.
    pub fn current(&self) -> &K {
        &self.current
    }

    /// The retired ones.
    pub fn retired(&self) -> &[K] {
        &self.retired
    }

    /// All of them, the current one first.
    pub fn all(&self) -> impl Iterator<Item = &K> {
        std::iter::once(&self.current).chain(&self.retired)
    }
}

/// Reads a secret: the derived keys, and its bytes.
pub fn read<K: SecretKey>(path: &Path) -> Result<(K, Zeroizing<[u8; SECRET_LENGTH]>), SecretKeyError> {
    let purpose = K::USE;
    let not_a_key = || SecretKeyError::NotAKey {
        path: path.to_owned(),
        purpose,
    };
    let read = secret_file::read_bytes(path, SECRET_LENGTH as u64 + 1);
    let bytes = read.map_err(|error| match error {
        SecretFileError::Missing => SecretKeyError::Missing {
            path: path.to_owned(),
            purpose,
        },
        SecretFileError::NotAFile => not_a_key(),
        SecretFileError::Exposed(mode) => SecretKeyError::Exposed {
            path: path.to_owned(),
            purpose,
            mode,
        },
        SecretFileError::Read(reason) => SecretKeyError::Read {
            path: path.to_owned(),
            purpose,
            reason,
        },
    })?;
    let secret: Zeroizing<[u8; SECRET_LENGTH]> = Zeroizing::new(bytes.as_slice().try_into().map_err(|_| not_a_key())?);
    // From a full disk or a failed copy: no random number generator makes it.
    if secret.iter().all(|byte| *byte == 0) {
        return Err(not_a_key());
    }
    Ok((K::derive(&secret), secret))
}

/// Where a retired secret is kept: `<use>-<fingerprint>.key`.
pub fn retired_file<K: SecretKey>(retired: &Path, key: &K) -> PathBuf {
    retired.join(format!("{}-{}.key", K::USE.word(), key.name()))
}

/// All retired secrets of a use by file name; none without the folder.
pub fn retired_secrets<K: SecretKey>(folder: &Path) -> Result<Vec<RetiredSecret<K>>, SecretKeyError> {
    let failed = |reason| SecretKeyError::Read {
        path: folder.to_owned(),
        purpose: K::USE,
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
        .filter(|path| is_retired(path, K::USE))
        .collect();
    files.sort();
    let secret = |file: PathBuf| RetiredSecret {
        key: read(&file).map(|(key, _)| key),
        file,
    };
    Ok(files.into_iter().map(secret).collect())
}

fn is_retired(path: &Path, purpose: SecretUse) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let rest = name
        .strip_prefix(purpose.word())
        .and_then(|rest| rest.strip_prefix('-'));
    rest.is_some_and(|rest| rest.ends_with(".key"))
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

        fn load(&self) -> Result<(DownloadKeys, Vec<SecretKeyError>), SecretKeyError> {
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
            kind(&[7; 32], 0o644),
            Err("others can read the key for downloads (mode 0644)".to_owned())
        );
        fs::remove_file(keys.path()).unwrap();
        assert!(matches!(keys.load(), Err(SecretKeyError::Missing { .. })));
        fs::create_dir(keys.path()).unwrap();
        assert!(matches!(keys.load(), Err(SecretKeyError::NotAKey { .. })));
    }

    #[test]
    fn retired_secrets_are_found_and_one_that_is_broken_is_reported_and_left_out() {
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
            matches!(&errors[..], [SecretKeyError::Exposed { mode: 0o644, .. }]),
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
