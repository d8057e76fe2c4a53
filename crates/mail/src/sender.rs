//! Sends the mails of a running server, on a thread of its own. [`sending`](super::sending) does the work.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};

use crate::account::MailAccount;
use crate::license_source::LicenseSource;
use crate::queue::MailQueue;
use crate::sending::SenderThread;

/// The running thread.
#[derive(Debug)]
pub struct MailSender {
    queue: Arc<MailQueue>,
    is_stopping: Arc<AtomicBool>,
    ended: Receiver<()>,
}

impl MailSender {
    /// Starts the thread. `registry` has the texts.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(
        queue: Arc<MailQueue>,
        account: MailAccount,
        registry: PathBuf,
        source: Arc<dyn LicenseSource>,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let is_stopping = Arc::new(AtomicBool::new(false));
        let (end, ended) = bounded(0);
        let work = SenderThread::new(
            Arc::clone(&queue),
            account,
            registry,
            source,
            runtime,
            Arc::clone(&is_stopping),
        );
        thread::Builder::new().name("mail".to_owned()).spawn(move || {
            work.run();
            drop(end);
        })?;
        Ok(Self {
            queue,
            is_stopping,
            ended,
        })
    }

    /// Stops the thread once it has sent its current mail. Waits at most `patience`.
    pub fn stop(self, patience: Duration) {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.queue.wake();
        let _ = self.ended.recv_timeout(patience);
    }
}
