//! Tells the vendor's own services what happens: a thread for each endpoint, so that one that is slow delays no other.
//!
//! The ledger is the queue: an endpoint has a cursor in it, and catches up when it is there again. Of several nodes, one
//! tells an endpoint at a time.

mod copy_events;
pub mod endpoint;
mod endpoint_thread;
mod kept_messages;
mod ledger_events;
mod progress_place;
mod sender_lease;
mod sending;
mod time_events;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};

use crate::serve::state::Service;

use endpoint::{Endpoint, EndpointCounts};
use endpoint_thread::EndpointThread;

/// The running threads.
#[derive(Debug)]
pub struct Webhooks {
    threads: Vec<Receiver<()>>,
    is_stopping: Arc<AtomicBool>,
}

impl Webhooks {
    /// Starts a thread for each endpoint.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(super) fn start(service: &Arc<Service>, endpoints: Vec<Endpoint>) -> io::Result<Self> {
        let is_stopping = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        let mut counts = Vec::new();
        for endpoint in endpoints {
            let own = Arc::new(EndpointCounts::new(endpoint.config.name.clone()));
            counts.push(Arc::clone(&own));
            let (end, ended) = bounded(0);
            let name = format!("webhook {}", endpoint.config.name);
            let work = EndpointThread::new(Arc::clone(service), endpoint, own, Arc::clone(&is_stopping))?;
            thread::Builder::new().name(name).spawn(move || {
                work.run();
                drop(end);
            })?;
            threads.push(ended);
        }
        service.webhooks.get_or_init(|| counts);
        Ok(Self { threads, is_stopping })
    }

    /// Stops the threads once they have sent their current messages. Waits for each at most `patience`.
    pub(super) fn stop(self, patience: Duration) {
        self.is_stopping.store(true, Ordering::Relaxed);
        for ended in self.threads {
            let _ = ended.recv_timeout(patience);
        }
    }
}
