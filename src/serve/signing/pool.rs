//! The signing pool: threads of its own that sign exact bytes, behind a bounded queue.
//!
//! The async workers never wait for an exponentiation; a full queue is an answer of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::histogram::Histogram;
use crate::keys::signing_key::SigningKey;
use crate::model::statement::Unsigned;
use crate::serve::background::stand_back;
use crate::serve::metrics::label::Counters;
use crate::serve::signing::queue::{Lane, SigningQueue};

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
        let signature = vec![0; key.signature_len()];
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
                signed.push((answer, result.map(|()| signing).map_err(|_| SignError::Failed)));
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
