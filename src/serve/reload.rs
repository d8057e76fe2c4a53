//! Reload: notices what changed on disk and has it loaded beside what is in force; `component` swaps it in.
//!
//! A thread for each part, so that files which do not let themselves be read (a network file system that does not answer) hold up
//! no other part. notify wakes it, SIGHUP wakes it, and a slow poll wakes it where notify sees nothing.

pub mod component;
mod download_keys;
pub mod drop_guard;
pub mod error;
pub(crate) mod fingerprint;
pub mod history;
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
use crate::watch::Watch;

/// A change is looked at when the files have been quiet for so long: an editor or a copy is done by then.
const QUIET: Duration = Duration::from_millis(200);

/// The files are looked at after so long even where some are never quiet: what is at rest need not wait for what is not.
const IMPATIENCE: Duration = Duration::from_millis(1_000);

/// Files that were never quiet for so long are told of. An export of a million licenses is written in a tenth of it.
const RESTLESS: Duration = Duration::from_secs(30);

/// Wakes that may wait: whatever changed meanwhile, one look finds it.
const PENDING: usize = 1;

/// Several of the poll's intervals: a part that was not looked at for so long stands still.
const INTERVALS: u32 = 4;

/// However short an interval is, loading a large registry takes some seconds.
const LOADING: Duration = Duration::from_secs(10);

/// How long after its last look a part stands still.
pub fn stands_still_after(poll: Duration) -> Duration {
    (poll * INTERVALS).max(LOADING)
}

/// Wakes the threads, which end with the service they reload.
#[derive(Clone, Debug)]
pub struct Reloader(Vec<Wake>);

impl Reloader {
    /// Starts the threads that keep `service` in step with the files it was loaded from.
    pub fn start(service: &Arc<Service>, files: Vec<PartFiles>, poll: Duration) -> io::Result<Self> {
        files
            .into_iter()
            .map(|files| Wake::start(service, files, poll))
            .collect::<io::Result<_>>()
            .map(Self)
    }

    /// Looks at the files now, changed or not, and logs what is wrong with them once more. Does not wait for that.
    pub fn force(&self) {
        self.0.iter().for_each(Wake::force);
    }
}

/// Wakes the thread of one part.
#[derive(Clone, Debug)]
struct Wake {
    wake: SyncSender<()>,
    /// Whether somebody insists; the thread takes it back when it looks.
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
            // First, so that the thread that watches stands back, too: a build's 20,000 files are many changes.
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
        // Where one waits already, the files are looked at anyway.
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
        // What changed between the start's look and the watch was not noticed.
        let mut wait = QUIET;
        let mut again = false;
        let mut quiet_at = Instant::now();
        loop {
            // Each time anew: a folder may be another one now.
            self.watch.resume(self.file.folders());
            match self.woken.recv_timeout(wait) {
                Ok(()) => self.wait_until_quiet(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let forced = self.take_forced();
            let Some(service) = self.service.upgrade() else { return };
            // What failed is not tried once more only because it was read.
            let retry = !again;
            again = false;
            self.file.look();
            if self.file.at_rest() {
                quiet_at = Instant::now();
            } else if quiet_at.elapsed() > RESTLESS {
                self.file.note_restless(&service.health);
            }
            if forced || self.file.is_due(retry) {
                // Nothing is noticed while files are read, so they are looked at once more.
                self.watch.pause();
                again = true;
                self.file.refresh(&service, forced);
            }
            service.health.looked(self.file.part(), Utc::now());
            wait = if again || !self.file.at_rest() {
                QUIET
            } else {
                self.poll
            };
        }
    }

    /// Waits until the files are quiet or somebody insists.
    fn wait_until_quiet(&self) {
        let deadline = Instant::now() + IMPATIENCE;
        while !self.forced.load(Ordering::Relaxed)
            && Instant::now() < deadline
            && self.woken.recv_timeout(QUIET).is_ok()
        {}
    }

    /// Whether somebody insisted, however often.
    fn take_forced(&self) -> bool {
        // First, so that who insists from now on is heard in a round of their own.
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
