//! The signing pool: threads that sign bytes from a bounded queue.
//!
//! The async workers never wait for RSA. If the queue is full, the request is refused at once.

use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use crossbeam_channel::TrySendError;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::serve::background::lower_priority;
use crate::serve::metrics::Counters;
use crate::serve::signing::queue::{JobReceiver, JobSender, Lane, lanes};
use countersign_files::histogram::Histogram;
use countersign_model::statement::Unsigned;
use countersign_settings::keys::signing_key::SigningKey;

/// How long a thread may hold signed statements, to send them together, while more wait to be signed.
///
/// A worker that wakes for one statement interrupts a signing thread, writes one response, and sleeps again: an eighth of the CPU time
/// of a validation with 2,048 bits.
const BATCH: Duration = Duration::from_millis(2);

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
    answer: oneshot::Sender<Signed>,
}

/// A statement with its signature.
type Signed = Result<Vec<u8>, SignError>;

impl Signer {
    /// Starts the threads; they end when the signer is dropped and the queue is empty.
    ///
    /// # Errors
    /// A thread cannot be started.
    ///
    /// # Panics
    /// There is no runtime, which sends the signed statements.
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
            let batch = SignedBatch::new(Handle::current());
            thread::Builder::new()
                .name(format!("signer-{index}"))
                .spawn(move || work(&jobs, &waits, batch))?;
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

fn work(jobs: &JobReceiver<SigningJob>, waits: &Histogram, mut batch: SignedBatch) {
    lower_priority();
    loop {
        let job = jobs.try_pop().or_else(|| {
            batch.send();
            jobs.pop()
        });
        let Some(job) = job else { return };
        waits.observe(job.queued.elapsed());
        // Nobody waits any more: the client disconnected or its deadline passed.
        if !job.answer.is_closed() {
            batch.push(job.answer, sign(&job.key, &job.unsigned));
        }
    }
}

/// Signed statements of one thread that are not sent yet.
struct SignedBatch {
    signed: Vec<(oneshot::Sender<Signed>, Signed)>,
    /// When the first of them was signed.
    since: Instant,
    runtime: Handle,
}

impl SignedBatch {
    fn new(runtime: Handle) -> Self {
        Self {
            signed: Vec::new(),
            since: Instant::now(),
            runtime,
        }
    }

    /// Adds a statement, and sends all if the first one has waited for [`BATCH`].
    fn push(&mut self, answer: oneshot::Sender<Signed>, signed: Signed) {
        if self.signed.is_empty() {
            self.since = Instant::now();
        }
        self.signed.push((answer, signed));
        if self.since.elapsed() >= BATCH {
            self.send();
        }
    }

    /// Has a worker send all statements, so that it writes their responses in one run.
    fn send(&mut self) {
        let signed = std::mem::take(&mut self.signed);
        if !signed.is_empty() {
            self.runtime.spawn(async move {
                for (answer, signed) in signed {
                    // The client may disconnect now.
                    let _ = answer.send(signed);
                }
            });
        }
    }
}

fn sign(key: &SigningKey, unsigned: &Unsigned) -> Result<Vec<u8>, SignError> {
    let mut signature = vec![0; key.signature_len()];
    key.sign(unsigned.bytes(), &mut signature)
        .map_err(|_| SignError::Failed)?;
    Ok(unsigned.with_signature(&BASE64_STANDARD.encode(signature)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn signed_statements_are_kept_until_the_first_is_old_or_nothing_more_waits() {
        let mut batch = SignedBatch::new(Handle::current());
        let (answer, mut first) = oneshot::channel();
        batch.push(answer, Ok(vec![1]));
        assert!(first.try_recv().is_err(), "it is kept");
        batch.since -= BATCH;
        let (answer, second) = oneshot::channel();
        batch.push(answer, Err(SignError::Failed));
        assert_eq!(
            (first.await, second.await),
            (Ok(Ok(vec![1])), Ok(Err(SignError::Failed)))
        );
        let (answer, third) = oneshot::channel();
        batch.push(answer, Ok(vec![3]));
        batch.send();
        assert_eq!(third.await, Ok(Ok(vec![3])));
        assert!(batch.signed.is_empty());
    }
}
