//! The private key: signs exact bytes, in a bounded pool of threads of its own.
//!
//! RSASSA-PKCS1-v1_5 with SHA-256 (RFC 8017 section 8.2) through aws-lc-rs, which is constant-time. The async workers
//! never wait for an exponentiation; a full queue is an answer of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeyPair;
use aws_lc_rs::signature::RSA_PKCS1_SHA256;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rsa::pkcs1::DecodeRsaPrivateKey;
use rsa::pkcs8::{DecodePrivateKey, EncodePrivateKey};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::counting::Histogram;
use crate::keys::secret_file::{self, SecretFileError};
use crate::model::public_key::{PublicKey, PublicKeyError};
use crate::model::statement::Unsigned;
use crate::regular_file;
use crate::serve::background::stand_back;
use crate::serve::metrics::label::Counters;
use crate::serve::signing::queue::{Lane, SigningQueue};

/// More than any public key in PEM, in bytes.
const MAX_PUBLIC: u64 = 16 << 10;

/// A signing key in memory, and the public half that checks its signatures.
pub struct SigningKey {
    pair: KeyPair,
    public: PublicKey,
}

/// Why a signing key is not usable. One line each; what to do about it is [`KeyError::hint_for`].
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
    /// The file holds a public key.
    #[error("{}: this is a public key, and the private one is needed", .0.display())]
    Public(PathBuf),
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
    /// What to do about a key that the command `generate` makes.
    pub fn hint_for(&self, generate: &str) -> String {
        match self {
            Self::Missing(_) => format!("make one with `{generate}`"),
            Self::Read { .. } => "let the user that runs the server own the file".to_owned(),
            Self::Exposed { path, .. } => format!("chmod 600 {}", path.display()),
            Self::Public(_) => format!("name the private key, the file that `{generate}` makes"),
            Self::NotAKey(_) | Self::Size { .. } => {
                format!("move it away, and make a new one with `{generate}`")
            }
        }
    }
}

/// Whether a file is a public key in PEM.
fn is_public(path: &Path) -> bool {
    regular_file::read_to_string(path, MAX_PUBLIC).is_ok_and(|pem| PublicKey::from_pem(&pem).is_ok())
}

impl SigningKey {
    /// Reads a private key that nobody but its owner can read.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let not_a_key = || KeyError::NotAKey(path.to_owned());
        // First, so that nobody takes a public key from its readers only to learn that it is none of ours.
        if is_public(path) {
            return Err(KeyError::Public(path.to_owned()));
        }
        let pem = secret_file::read(path).map_err(|error| match error {
            SecretFileError::Missing => KeyError::Missing(path.to_owned()),
            SecretFileError::NotAFile => not_a_key(),
            SecretFileError::Exposed(mode) => KeyError::Exposed { path: path.to_owned(), mode },
            SecretFileError::Read(reason) => KeyError::Read { path: path.to_owned(), reason },
        })?;
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

    /// Signs `message`; `signature` has as many bytes as the key.
    fn sign(&self, message: &[u8], signature: &mut [u8]) -> Result<(), SignError> {
        self.pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, signature).map_err(|_| SignError::Failed)
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
    waits: Arc<Histogram>,
    refused: Counters<Lane>,
}

#[derive(Debug)]
struct Job {
    key: Arc<SigningKey>,
    signing: Signing,
    queued: Instant,
    answer: oneshot::Sender<Result<Signing, SignError>>,
}

/// A statement and the bytes of its signature. Both go to the thread that signs and come back: memory that one thread takes
/// and another one frees costs more.
#[derive(Debug)]
struct Signing {
    unsigned: Unsigned,
    signature: Vec<u8>,
}

impl Signer {
    /// Starts the threads; they end when the signer is dropped and the queue is empty.
    ///
    /// # Errors
    /// The machine gives no thread, or nobody answers: there is no runtime here.
    pub fn start(limit: usize) -> io::Result<Self> {
        let queue = Arc::new(SigningQueue::new(limit));
        let signer = Self { queue, waits: Arc::default(), refused: Counters::default() };
        let answering = Handle::try_current().map_err(io::Error::other)?;
        for index in 0..thread::available_parallelism()?.get() {
            let (queue, waits) = (Arc::clone(&signer.queue), Arc::clone(&signer.waits));
            let answering = answering.clone();
            thread::Builder::new().name(format!("signer-{index}")).spawn(move || work(&queue, &waits, &answering))?;
        }
        Ok(signer)
    }

    /// Signs a statement and returns it with its signature, in standard base64.
    pub async fn sign(&self, lane: Lane, key: Arc<SigningKey>, unsigned: Unsigned) -> Result<Vec<u8>, SignError> {
        let (answer, signed) = oneshot::channel();
        let signature = vec![0; key.pair.public_modulus_len()];
        let job = Job { key, signing: Signing { unsigned, signature }, queued: Instant::now(), answer };
        self.queue.push(lane, job).map_err(|_| {
            self.refused.add(lane);
            SignError::QueueFull
        })?;
        let Signing { unsigned, signature } = signed.await.map_err(|_| SignError::Failed)??;
        Ok(unsigned.with_signature(&BASE64_STANDARD.encode(signature)))
    }

    /// How many statements wait in a lane.
    pub fn waiting(&self, lane: Lane) -> usize {
        self.queue.len(lane)
    }

    /// How long statements waited for a thread.
    pub fn waits(&self) -> &Histogram {
        &self.waits
    }

    /// Statements that found their lane full.
    pub fn refused(&self) -> &Counters<Lane> {
        &self.refused
    }
}

impl Drop for Signer {
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// Signatures that are handed out together, where so many wait: each waking of a thread that answers costs as much as a
/// fifth of a signature of 2,048 bits. Seen with 64 clients: 357 µs an answer in eights, 320 in batches of 32.
const BATCH: usize = 32;

/// Nobody waits longer than this for others' signatures: a slow processor makes ten of 2,048 bits meanwhile.
const BATCH_TIME: Duration = Duration::from_millis(10);

fn work(queue: &SigningQueue<Job>, waits: &Histogram, answering: &Handle) {
    stand_back();
    while let Some(first) = queue.pop() {
        let mut signed = Vec::with_capacity(BATCH);
        let started = Instant::now();
        let more = std::iter::from_fn(|| if started.elapsed() < BATCH_TIME { queue.try_pop() } else { None });
        for Job { key, mut signing, queued, answer } in std::iter::once(first).chain(more).take(BATCH) {
            waits.observe(queued.elapsed());
            // Nobody waits any more: the client hung up or its deadline passed.
            if !answer.is_closed() {
                let result = key.sign(signing.unsigned.bytes(), &mut signing.signature);
                signed.push((answer, result.map(|()| signing)));
            }
        }
        // Handed out by a thread that answers, which need not be woken for each. Seen with 64 clients: 58 µs an answer beyond
        // the signature instead of 83.
        answering.spawn(async move {
            for (answer, signing) in signed {
                let _ = answer.send(signing);
            }
        });
    }
}
