//! The private key that signs statements, from a file that only its owner can read.
//!
//! RSASSA-PKCS1-v1_5 with SHA-256 (RFC 8017 section 8.2) through aws-lc-rs, which is constant-time. The server's
//! signing pool signs with it; `doctor` and `keys` use only its public half.

use std::io;
use std::path::{Path, PathBuf};

use aws_lc_rs::error::Unspecified;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeyPair;
use aws_lc_rs::signature::RSA_PKCS1_SHA256;
use rsa::pkcs1::DecodeRsaPrivateKey;
use rsa::pkcs8::{DecodePrivateKey, EncodePrivateKey};

use crate::keys::secret_file::{self, SecretFileError};
use countersign_files::regular_file;
use countersign_model::public_key::{PublicKey, PublicKeyError};

/// Larger than any PEM file of a public key, in bytes.
const MAX_PUBLIC: u64 = 16 << 10;

/// A signing key in memory, with its public half.
pub struct SigningKey {
    pair: KeyPair,
    public: PublicKey,
}

/// Why a signing key is not usable, in one line each. [`KeyError::hint_for`] says what to do.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// There is no such file.
    #[error("{}: there is no signing key", .0.display())]
    Missing(PathBuf),
    /// The file cannot be read.
    #[error("{}: the signing key cannot be read: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why. Part of the message, so it is not a source.
        reason: io::Error,
    },
    /// Other users can read the file.
    #[error("{}: others can read the signing key (mode {mode:04o})", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file holds a public key.
    #[error("{}: this is a public key, but the private key is needed", .0.display())]
    Public(PathBuf),
    /// The file has no RSA private key.
    #[error("{}: not an RSA private key in PEM (PKCS #8 or PKCS #1)", .0.display())]
    NotAKey(PathBuf),
    /// The key is too short or too long.
    #[error("{}: {reason}", path.display())]
    Size {
        /// The file.
        path: PathBuf,
        /// Its size, and the sizes that are accepted. Part of the message, so it is not a source.
        reason: PublicKeyError,
    },
}

impl KeyError {
    /// What to do. `generate` is the command that creates such a key.
    pub fn hint_for(&self, generate: &str) -> String {
        match self {
            Self::Missing(_) => format!("create one with `{generate}`"),
            Self::Read { .. } => "make the server's user the owner of the file".to_owned(),
            Self::Exposed { path, .. } => regular_file::exposed_hint(path),
            Self::Public(_) => format!("give the private key: the file that `{generate}` creates"),
            Self::NotAKey(_) | Self::Size { .. } => {
                format!("move it away, and create a new one with `{generate}`")
            }
        }
    }
}

/// Whether a file is a public key in PEM.
fn is_public(path: &Path) -> bool {
    regular_file::read_to_string(path, MAX_PUBLIC).is_ok_and(|pem| PublicKey::from_pem(&pem).is_ok())
}

impl SigningKey {
    /// Reads a private key that only its owner can read.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let not_a_key = || KeyError::NotAKey(path.to_owned());
        // First, so that the message is not about permissions if the file is a public key.
        if is_public(path) {
            return Err(KeyError::Public(path.to_owned()));
        }
        let pem = secret_file::read(path).map_err(|error| match error {
            SecretFileError::Missing => KeyError::Missing(path.to_owned()),
            SecretFileError::NotAFile => not_a_key(),
            SecretFileError::Exposed(mode) => KeyError::Exposed {
                path: path.to_owned(),
                mode,
            },
            SecretFileError::Read(reason) => KeyError::Read {
                path: path.to_owned(),
                reason,
            },
        })?;
        let private = rsa::RsaPrivateKey::from_pkcs8_pem(&pem)
            .or_else(|_| rsa::RsaPrivateKey::from_pkcs1_pem(&pem))
            .map_err(|_| not_a_key())?;
        let public = PublicKey::new(private.to_public_key()).map_err(|reason| KeyError::Size {
            path: path.to_owned(),
            reason,
        })?;
        let der = private.to_pkcs8_der().map_err(|_| not_a_key())?;
        let pair = KeyPair::from_pkcs8(der.as_bytes()).map_err(|_| not_a_key())?;
        Ok(Self { pair, public })
    }

    /// The public half.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// The length of a signature in bytes: that of the key's modulus.
    pub fn signature_len(&self) -> usize {
        self.pair.public_modulus_len()
    }

    /// Signs `message` into `signature`, which is [`SigningKey::signature_len`] bytes long.
    ///
    /// # Errors
    /// The library fails, which does not happen with a loaded key.
    pub fn sign(&self, message: &[u8], signature: &mut [u8]) -> Result<(), Unspecified> {
        self.pair
            .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, signature)
    }
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SigningKey(redacted, {})", self.public.key_id())
    }
}
