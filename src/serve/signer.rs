//! The private key: signs exact bytes, in a bounded pool of threads of its own.
//!
//! RSASSA-PKCS1-v1_5 with SHA-256 (RFC 8017 section 8.2) through aws-lc-rs, which is constant-time. The async workers
//! never wait for an exponentiation; a full queue is an answer of its own.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io, thread};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeyPair;
use aws_lc_rs::signature::RSA_PKCS1_SHA256;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rsa::pkcs1::DecodeRsaPrivateKey;
use rsa::pkcs8::{DecodePrivateKey, EncodePrivateKey};
use tokio::sync::oneshot;
use zeroize::Zeroizing;

use super::signing_queue::{Lane, SigningQueue};
use crate::model::public_key::{PublicKey, PublicKeyError};

/// More than a key of 4096 bits in PEM, in bytes.
const MAX_PEM: u64 = 16 * 1024;

/// A signing key in memory, and the public half that checks its signatures.
pub struct SigningKey {
    pair: KeyPair,
    public: PublicKey,
}

/// Why a signing key is not usable. One line each; what to do about it is [`KeyError::hint`].
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
        /// Why; shown, so no cause of its own.
        reason: io::Error,
    },
    /// Somebody else on the machine can read the file.
    #[error("{}: others can read the signing key (mode {mode:04o})", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file holds no RSA private key.
    #[error("{}: not an RSA private key in PEM (PKCS #8 or PKCS #1)", .0.display())]
    NotAKey(PathBuf),
    /// The key is too short or too long.
    #[error("{}: {reason}", path.display())]
    Size {
        /// The file.
        path: PathBuf,
        /// Its size, and which are accepted; shown, so no cause of its own.
        reason: PublicKeyError,
    },
}

impl KeyError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Missing(_) => "make one with `countersign keys generate`".to_owned(),
            Self::Read { .. } => "let the user that runs the server own the file".to_owned(),
            Self::Exposed { path, .. } => format!("chmod 600 {}", path.display()),
            Self::NotAKey(_) | Self::Size { .. } => {
                "move it away, and make a new one with `countersign keys generate`".to_owned()
            }
        }
    }
}

impl SigningKey {
    /// Reads a private key that nobody but its owner can read.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let read_error = |reason: io::Error| match reason.kind() {
            io::ErrorKind::NotFound => KeyError::Missing(path.to_owned()),
            _ => KeyError::Read { path: path.to_owned(), reason },
        };
        let not_a_key = || KeyError::NotAKey(path.to_owned());
        // Looked at before it is opened, because opening a pipe waits for its writer.
        if !fs::metadata(path).map_err(read_error)?.is_file() {
            return Err(not_a_key());
        }
        let file = fs::File::open(path).map_err(read_error)?;
        let mode = file.metadata().map_err(read_error)?.permissions().mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(KeyError::Exposed { path: path.to_owned(), mode });
        }
        let mut pem = Zeroizing::new(String::new());
        file.take(MAX_PEM).read_to_string(&mut pem).map_err(read_error)?;
        let private = rsa::RsaPrivateKey::from_pkcs8_pem(&pem)
            .or_else(|_| rsa::RsaPrivateKey::from_pkcs1_pem(&pem))
            .map_err(|_| not_a_key())?;
        let public = PublicKey::new(private.to_public_key())
            .map_err(|reason| KeyError::Size { path: path.to_owned(), reason })?;
        let der = private.to_pkcs8_der().map_err(|_| not_a_key())?;
        let pair = KeyPair::from_pkcs8(der.as_bytes()).map_err(|_| not_a_key())?;
        Ok(Self { pair, public })
    }

    /// The public half.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, SignError> {
        let mut signature = vec![0; self.pair.public_modulus_len()];
        self.pair
            .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature)
            .map_err(|_| SignError::Failed)?;
        Ok(signature)
    }
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SigningKey(redacted, {})", self.public.key_id())
    }
}

/// Why there is no signature.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SignError {
    /// Too many statements wait already.
    #[error("the signing queue is full")]
    QueueFull,
    /// The library refused, or the pool is gone: neither happens with a key that was loaded.
    #[error("signing failed")]
    Failed,
}

/// Threads that sign, one a core, and the queue before them.
#[derive(Debug)]
pub struct Signer {
    queue: Arc<SigningQueue<Job>>,
}

#[derive(Debug)]
struct Job {
    key: Arc<SigningKey>,
    message: Vec<u8>,
    answer: oneshot::Sender<Result<Vec<u8>, SignError>>,
}

impl Signer {
    /// Starts the threads; they end when the signer is dropped and the queue is empty.
    pub fn start(limit: usize) -> io::Result<Self> {
        let signer = Self { queue: Arc::new(SigningQueue::new(limit)) };
        for index in 0..thread::available_parallelism()?.get() {
            let queue = Arc::clone(&signer.queue);
            thread::Builder::new().name(format!("signer-{index}")).spawn(move || work(&queue))?;
        }
        Ok(signer)
    }

    /// Signs `message` and returns the signature in standard base64.
    pub async fn sign(&self, lane: Lane, key: Arc<SigningKey>, message: Vec<u8>) -> Result<String, SignError> {
        let (answer, signature) = oneshot::channel();
        self.queue.push(lane, Job { key, message, answer }).map_err(|_| SignError::QueueFull)?;
        Ok(BASE64_STANDARD.encode(signature.await.map_err(|_| SignError::Failed)??))
    }
}

impl Drop for Signer {
    fn drop(&mut self) {
        self.queue.close();
    }
}

fn work(queue: &SigningQueue<Job>) {
    while let Some(job) = queue.pop() {
        // Nobody waits any more: the client hung up or its deadline passed.
        if !job.answer.is_closed() {
            let _ = job.answer.send(job.key.sign(&job.message));
        }
    }
}
