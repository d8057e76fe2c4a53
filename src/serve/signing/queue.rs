//! The queue before the signing threads: bounded, with a lane for licensed sites and one for everybody else.
//!
//! Refusals of unknown keys cost a signature too, and anybody can ask for them. They wait in a lane of their own that is
//! served only when no licensed site waits.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

use crate::serve::metrics::label::labels;

labels! {
    /// Where a statement waits.
    Lane {
        /// The license is known.
        Licensed = "licensed",
        /// The key is not known.
        Unknown = "unknown",
    }
}

/// Two lanes of at most `limit` each.
#[derive(Debug)]
pub struct SigningQueue<T> {
    lanes: Mutex<Lanes<T>>,
    filled: Condvar,
    limit: usize,
}

#[derive(Debug)]
struct Lanes<T> {
    licensed: VecDeque<T>,
    unknown: VecDeque<T>,
    /// Threads that wait for a job: where there is none, nobody is woken, which costs a system call.
    waiting: usize,
    closed: bool,
}

impl<T> Lanes<T> {
    fn next(&mut self) -> Option<T> {
        self.licensed.pop_front().or_else(|| self.unknown.pop_front())
    }
}

impl<T> SigningQueue<T> {
    /// An empty queue.
    pub fn new(limit: usize) -> Self {
        let lanes = Lanes { licensed: VecDeque::new(), unknown: VecDeque::new(), waiting: 0, closed: false };
        Self { lanes: Mutex::new(lanes), filled: Condvar::new(), limit }
    }

    /// Puts `job` at the end of its lane, or gives it back where the lane is full.
    pub fn push(&self, lane: Lane, job: T) -> Result<(), T> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let lanes = &mut *lanes;
        let lane = match lane {
            Lane::Licensed => &mut lanes.licensed,
            Lane::Unknown => &mut lanes.unknown,
        };
        if lane.len() >= self.limit {
            return Err(job);
        }
        lane.push_back(job);
        if lanes.waiting > 0 {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// How many wait in `lane`.
    pub fn len(&self, lane: Lane) -> usize {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        match lane {
            Lane::Licensed => lanes.licensed.len(),
            Lane::Unknown => lanes.unknown.len(),
        }
    }

    /// Waits for a job; `None` when the queue is closed and empty.
    pub fn pop(&self) -> Option<T> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match lanes.next() {
                Some(job) => return Some(job),
                None if lanes.closed => return None,
                None => {
                    lanes.waiting += 1;
                    lanes = self.filled.wait(lanes).unwrap_or_else(PoisonError::into_inner);
                    lanes.waiting -= 1;
                }
            }
        }
    }

    /// A job, if one waits.
    pub fn try_pop(&self) -> Option<T> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).next()
    }

    /// Lets the threads that wait go, once nothing is left to do.
    pub fn close(&self) {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.filled.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licensed_sites_go_first_and_each_lane_keeps_its_order() {
        let queue = SigningQueue::new(2);
        queue.push(Lane::Unknown, "unknown 1").unwrap();
        queue.push(Lane::Unknown, "unknown 2").unwrap();
        assert_eq!(queue.push(Lane::Unknown, "unknown 3"), Err("unknown 3"), "its lane is full");
        queue.push(Lane::Licensed, "licensed 1").unwrap();
        queue.push(Lane::Licensed, "licensed 2").unwrap();
        queue.close();
        let served: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(served, ["licensed 1", "licensed 2", "unknown 1", "unknown 2"]);
    }

    #[test]
    fn who_waits_is_woken_by_a_job_and_by_the_close() {
        let queue = SigningQueue::new(1);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| (queue.pop(), queue.try_pop(), queue.pop()));
            queue.push(Lane::Licensed, 1).unwrap();
            queue.close();
            assert_eq!(waiting.join().unwrap(), (Some(1), None, None));
        });
    }
}
