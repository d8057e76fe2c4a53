//! Reload: notices changes on disk, and loads them beside the state in use; `component` puts them in force.
//!
//! Each part has a thread, so that unreadable files, such as on a network file system that hangs, delay no other
//! part. notify and SIGHUP wake it, and a slow poll finds what notify misses. It reads the files when they are quiet.

pub mod component;
pub mod drop_guard;
pub mod error;
pub(crate) mod fingerprint;
pub mod startup;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use std::{io, thread};

use chrono::Utc;

use crate::serve::background::lower_priority;
use crate::serve::reload::component::PartFiles;
use crate::serve::state::Service;
use countersign_files::watch::Watch;

/// A change is read when the files have been quiet for this long: editors and copies are done by then.
const QUIET: Duration = Duration::from_millis(200);

/// After this time, the files are checked even if some are never quiet.
const IMPATIENCE: Duration = Duration::from_millis(1_000);

/// Files that are never quiet for this long are logged. Writing a million licenses takes a tenth of it.
const RESTLESS: Duration = Duration::from_secs(30);

/// How often declarations are compared with the ledger although no file changed. It looks at every one of them.
const COMPARED_EVERY: Duration = Duration::from_secs(60);

/// How many wake-ups may wait. One check finds all changes.
const PENDING: usize = 1;

/// In poll intervals: a part that was not checked for this long has stopped.
const INTERVALS: u32 = 4;

/// The least time for that, because loading a large registry takes seconds.
const LOADING: Duration = Duration::from_secs(10);

/// How long after its last check a part counts as stopped.
pub fn stands_still_after(poll: Duration) -> Duration {
    (poll * INTERVALS).max(LOADING)
}

/// Wakes the threads, which end with the service they reload.
#[derive(Clone, Debug)]
pub struct Reloader(Vec<Wake>);

impl Reloader {
    /// Starts the threads that reload the files of `service`.
    pub fn start(service: &Arc<Service>, files: Vec<PartFiles>, poll: Duration) -> io::Result<Self> {
        files
            .into_iter()
            .map(|files| Wake::start(service, files, poll))
            .collect::<io::Result<_>>()
            .map(Self)
    }

    /// Checks the files now and logs errors again. Does not wait.
    pub fn force(&self) {
        self.0.iter().for_each(Wake::force);
    }
}

/// Wakes the thread of one part.
#[derive(Clone, Debug)]
struct Wake {
    wake: SyncSender<()>,
    /// Whether a reload was requested; the thread resets it when it checks.
    forced: Arc<AtomicBool>,
}

impl Wake {
    fn start(service: &Arc<Service>, file: PartFiles, poll: Duration) -> io::Result<Self> {
        let (wake, woken) = sync_channel(PENDING);
        let reloader = Self {
            wake,
            forced: Arc::default(),
        };
        let service = Arc::downgrade(service);
        let changed = reloader.clone();
        let forced = Arc::clone(&reloader.forced);
        let work = move || {
            // First, so that the watching thread has low priority, too: a build's 20,000 files are many changes.
            lower_priority();
            let watch = Watch::new(file.paths().to_vec(), move || changed.wake());
            Worker {
                service,
                file,
                watch,
                poll,
                woken,
                forced,
            }
            .run();
        };
        thread::Builder::new().name("reload".to_owned()).spawn(work)?;
        Ok(reloader)
    }

    fn force(&self) {
        self.forced.store(true, Ordering::Relaxed);
        self.wake();
    }

    fn wake(&self) {
        // If one waits already, the files are checked anyway.
        let _ = self.wake.try_send(());
    }
}

struct Worker {
    service: Weak<Service>,
    file: PartFiles,
    watch: Watch,
    poll: Duration,
    woken: Receiver<()>,
    forced: Arc<AtomicBool>,
}

impl Worker {
    fn run(&mut self) {
        // Changes between the first check and the watch were not noticed.
        let mut wait = QUIET;
        let mut again = false;
        let mut quiet_at = Instant::now();
        let mut compared = Instant::now();
        loop {
            // Each time, because a path may now be another folder.
            self.watch.resume(self.file.folders());
            match self.woken.recv_timeout(wait) {
                Ok(()) => self.wait_until_quiet(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let forced = self.take_forced();
            let Some(service) = self.service.upgrade() else { return };
            // Reading a part that failed must not count as a change of it.
            let retry = !again;
            again = false;
            self.file.look();
            if self.file.at_rest() {
                quiet_at = Instant::now();
            } else if quiet_at.elapsed() > RESTLESS {
                self.file.note_restless(&service.health);
            }
            if forced || self.file.is_due(retry) {
                // Nothing is noticed while files are read, so they are checked once more.
                self.watch.pause();
                again = true;
                self.file.refresh(&service, forced);
            }
            if compared.elapsed() > COMPARED_EVERY {
                compared = Instant::now();
                self.file.compare(&service);
            }
            service.health.looked(self.file.part(), Utc::now());
            wait = if again || !self.file.at_rest() {
                QUIET
            } else {
                self.poll
            };
        }
    }

    /// Waits until the files are quiet or a reload is requested.
    fn wait_until_quiet(&self) {
        let deadline = Instant::now() + IMPATIENCE;
        while !self.forced.load(Ordering::Relaxed)
            && Instant::now() < deadline
            && self.woken.recv_timeout(QUIET).is_ok()
        {}
    }

    /// Whether a reload was requested.
    fn take_forced(&self) -> bool {
        // First, so that a request from now on gets its own check.
        while self.woken.try_recv().is_ok() {}
        self.forced.swap(false, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::health::Part;

    #[test]
    fn who_insists_often_while_nobody_looks_never_waits_and_is_heard_once() {
        let (wake, woken) = sync_channel(PENDING);
        let reloader = Wake {
            wake,
            forced: Arc::default(),
        };
        let forced = Arc::clone(&reloader.forced);
        let watch = Watch::new(vec![], || ());
        let file = PartFiles::new(Part::Catalog, &[]);
        let worker = Worker {
            service: Weak::new(),
            file,
            watch,
            poll: QUIET,
            woken,
            forced,
        };
        for _ in 0..100 {
            reloader.force();
        }
        assert!(worker.take_forced());
        assert!(
            !worker.take_forced() && worker.woken.try_recv().is_err(),
            "one look is enough"
        );
        reloader.wake();
        assert!(!worker.take_forced(), "a change insists on nothing");
    }
}
