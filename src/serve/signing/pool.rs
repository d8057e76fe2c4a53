//! The signing pool: threads that sign bytes from a bounded queue.
//!
//! The async workers never wait for RSA. If the queue is full, the request is refused at once.

use std::sync::Arc;
use std::time::Instant;
use std::{io, thread};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use crossbeam_channel::TrySendError;
use tokio::sync::oneshot;

use crate::serve::background::lower_priority;
use crate::serve::metrics::Counters;
use crate::serve::signing::queue::{JobReceiver, JobSender, Lane, lanes};
use countersign_files::histogram::Histogram;
use countersign_model::statement::Unsigned;
use countersign_settings::keys::signing_key::SigningKey;

/// Why there is no signature.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SignError {
    /// Too many statements are waiting.
    #[error("the signing queue is full")]
    QueueFull,
    /// The library failed, or the pool has ended; neither happens with a loaded key.
    #[error("signing failed")]
    Failed,
}

/// One signing thread for each core, and the queue before them.
#[derive(Debug)]
pub struct Signer {
    queue: JobSender<SigningJob>,
    waits: Arc<Histogram>,
    refused: Counters<Lane>,
}

#[derive(Debug)]
struct SigningJob {
    key: Arc<SigningKey>,
    unsigned: Unsigned,
    queued: Instant,
    answer: oneshot::Sender<Result<Vec<u8>, SignError>>,
}

impl Signer {
    /// Starts the threads; they end when the signer is dropped and the queue is empty.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(limit: usize) -> io::Result<Self> {
        let (queue, jobs) = lanes(limit);
        let jobs = Arc::new(jobs);
        let signer = Self {
            queue,
            waits: Arc::default(),
            refused: Counters::default(),
        };
        for index in 0..thread::available_parallelism()?.get() {
            let jobs = Arc::clone(&jobs);
            let waits = Arc::clone(&signer.waits);
            thread::Builder::new()
                .name(format!("signer-{index}"))
                .spawn(move || work(&jobs, &waits))?;
        }
        Ok(signer)
    }

    /// Signs a statement, and returns it with its signature in base64.
    pub async fn sign(&self, lane: Lane, key: Arc<SigningKey>, unsigned: Unsigned) -> Result<Vec<u8>, SignError> {
        let (answer, signed) = oneshot::channel();
        let job = SigningJob {
            key,
            unsigned,
            queued: Instant::now(),
            answer,
        };
        self.queue.push(lane, job).map_err(|error| match error {
            TrySendError::Full(_) => {
                self.refused[lane].inc();
                SignError::QueueFull
            }
            TrySendError::Disconnected(_) => SignError::Failed,
        })?;
        signed.await.map_err(|_| SignError::Failed)?
    }

    /// How many statements are waiting in a lane.
    pub fn waiting(&self, lane: Lane) -> usize {
        self.queue.len(lane)
    }

    /// How long statements waited for a thread.
    pub fn waits(&self) -> &Histogram {
        &self.waits
    }

    /// Statements refused because their lane was full.
    pub fn refused(&self) -> &Counters<Lane> {
        &self.refused
    }
}

fn work(jobs: &JobReceiver<SigningJob>, waits: &Histogram) {
    lower_priority();
    while let Some(SigningJob {
        key,
        unsigned,
        queued,
        answer,
    }) = jobs.pop()
    {
        waits.observe(queued.elapsed());
        // Nobody waits any more: the client disconnected or its deadline passed.
        if !answer.is_closed() {
            // The same, if that happens now.
            let _ = answer.send(sign(&key, &unsigned));
        }
    }
}

fn sign(key: &SigningKey, unsigned: &Unsigned) -> Result<Vec<u8>, SignError> {
    let mut signature = vec![0; key.signature_len()];
    key.sign(unsigned.bytes(), &mut signature)
        .map_err(|_| SignError::Failed)?;
    Ok(unsigned.with_signature(&BASE64_STANDARD.encode(signature)))
}
