//! Signs statements. Threads with the key take requests from a bounded queue, which has one lane for licensed sites and one for all
//! others. The async workers never wait for RSA. If the queue is full, the request is refused at once.
//!
//! Anybody can request refusals for unknown keys, which need a signature, too. Their lane is served only when the
//! lane of licensed sites is empty.

use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded, select_biased};
use enum_map::Enum;
use strum::{EnumIter, IntoStaticStr};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::serve::background::lower_priority;
use crate::serve::metrics::Counters;
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

/// A lane of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum, EnumIter, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Lane {
    /// The license is known.
    Licensed,
    /// The key is not known.
    Unknown,
}

/// The sending side.
#[derive(Debug)]
pub struct JobSender<T> {
    licensed: Sender<T>,
    unknown: Sender<T>,
}

/// The receiving side, for the signing threads.
#[derive(Debug)]
pub struct JobReceiver<T> {
    licensed: Receiver<T>,
    unknown: Receiver<T>,
}

/// Two empty lanes of at most `limit` jobs each.
pub fn lanes<T>(limit: usize) -> (JobSender<T>, JobReceiver<T>) {
    let (licensed, take_licensed) = bounded(limit);
    let (unknown, take_unknown) = bounded(limit);
    (
        JobSender { licensed, unknown },
        JobReceiver {
            licensed: take_licensed,
            unknown: take_unknown,
        },
    )
}

impl<T> JobSender<T> {
    /// Puts `job` at the end of its lane.
    ///
    /// # Errors
    /// The lane is full, or the signing threads have ended.
    pub fn push(&self, lane: Lane, job: T) -> Result<(), TrySendError<T>> {
        self.lane(lane).try_send(job)
    }

    /// How many are waiting in `lane`.
    pub fn len(&self, lane: Lane) -> usize {
        self.lane(lane).len()
    }

    fn lane(&self, lane: Lane) -> &Sender<T> {
        match lane {
            Lane::Licensed => &self.licensed,
            Lane::Unknown => &self.unknown,
        }
    }
}

impl<T> JobReceiver<T> {
    /// A job that waits.
    pub fn try_pop(&self) -> Option<T> {
        let job = self.licensed.try_recv();
        job.or_else(|_| self.unknown.try_recv()).ok()
    }

    /// Waits for a job; `None` when the sender is dropped and both lanes are empty.
    pub fn pop(&self) -> Option<T> {
        let job = select_biased! {
            recv(self.licensed) -> job => job,
            recv(self.unknown) -> job => job,
        };
        // A lane without a sender fails at once, but the other one may still have jobs.
        job.or_else(|_| self.licensed.recv())
            .or_else(|_| self.unknown.recv())
            .ok()
    }
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

    #[test]
    fn licensed_sites_go_first_and_each_lane_keeps_its_order() {
        let (sender, receiver) = lanes(2);
        sender.push(Lane::Unknown, "unknown 1").unwrap();
        sender.push(Lane::Unknown, "unknown 2").unwrap();
        assert!(matches!(
            sender.push(Lane::Unknown, "unknown 3"),
            Err(TrySendError::Full(_))
        ));
        sender.push(Lane::Licensed, "licensed 1").unwrap();
        assert_eq!(
            (receiver.pop(), receiver.pop()),
            (Some("licensed 1"), Some("unknown 1"))
        );
        sender.push(Lane::Licensed, "licensed 2").unwrap();
        sender.push(Lane::Licensed, "licensed 3").unwrap();
        assert_eq!((sender.len(Lane::Licensed), sender.len(Lane::Unknown)), (2, 1));
        assert_eq!(
            (receiver.pop(), receiver.pop()),
            (Some("licensed 2"), Some("licensed 3"))
        );
        assert_eq!(receiver.pop(), Some("unknown 2"));
    }

    #[test]
    fn what_was_put_in_before_the_end_is_taken_out() {
        let (sender, receiver) = lanes(2);
        sender.push(Lane::Unknown, "unknown").unwrap();
        sender.push(Lane::Licensed, "licensed").unwrap();
        drop(sender);
        assert_eq!(
            [receiver.pop(), receiver.pop(), receiver.pop()],
            [Some("licensed"), Some("unknown"), None]
        );
    }

    #[test]
    fn who_waits_is_woken_by_a_job_and_by_the_end() {
        let (sender, receiver) = lanes(1);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| (receiver.pop(), receiver.pop()));
            sender.push(Lane::Licensed, 1).unwrap();
            drop(sender);
            assert_eq!(waiting.join().unwrap(), (Some(1), None));
        });
    }

    #[test]
    fn without_a_thread_that_signs_there_is_no_place_in_a_lane() {
        let (sender, receiver) = lanes(1);
        drop(receiver);
        assert!(matches!(
            sender.push(Lane::Licensed, 1),
            Err(TrySendError::Disconnected(1))
        ));
    }
}
