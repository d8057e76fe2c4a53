//! The bounded queue before the signing threads, with one lane for licensed sites and one for all others.
//!
//! Anybody can request refusals for unknown keys, which need a signature, too. Their lane is served only when the
//! lane of licensed sites is empty.

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded, select_biased};
use enum_map::Enum;
use strum::{EnumIter, IntoStaticStr};

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
