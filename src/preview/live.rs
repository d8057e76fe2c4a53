//! Reads a new snapshot whenever something changes, and tells all listeners.
//!
//! Watches the paths that a [`PreviewSnapshot`] depends on. Network file systems send no notifications, so it also
//! checks every two seconds while a page is open. [`routes`](crate::preview::routes) sends the number of each new
//! snapshot to the page.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::watch;

use crate::build::draft::WatchedFolder;
use crate::preview::snapshot::PreviewSnapshot;
use crate::preview::target::Target;
use countersign_files::watch::is_change;

/// Files that are written one after the other are read together, this long after the last one.
const QUIET: Duration = Duration::from_millis(40);

/// If files are written without a pause, they are read after this time.
const PATIENCE: Duration = Duration::from_millis(300);

/// Time between checks without notifications.
const POLL: Duration = Duration::from_secs(2);

/// The last snapshot and its number.
pub type LatestSnapshot = (u64, Arc<PreviewSnapshot>);

/// Reads once, then whenever something changes, until nobody listens.
///
/// # Errors
/// A thread cannot be started.
pub fn start(target: Arc<Target>) -> std::io::Result<watch::Receiver<LatestSnapshot>> {
    let (changed, changes) = channel();
    let snapshot = PreviewSnapshot::read(&target, None);
    let places = snapshot.places(&target);
    let (latest, readers) = watch::channel((0, Arc::new(snapshot)));
    let live = Live {
        target,
        latest,
        changed,
        changes,
        places,
        watcher: None,
    };
    thread::Builder::new()
        .name("preview".into())
        .spawn(move || live.run())?;
    Ok(readers)
}

struct Live {
    target: Arc<Target>,
    latest: watch::Sender<LatestSnapshot>,
    changed: Sender<()>,
    changes: Receiver<()>,
    places: Vec<WatchedFolder>,
    watcher: Option<RecommendedWatcher>,
}

impl Live {
    fn run(mut self) {
        self.read();
        while !self.latest.is_closed() {
            match self.changes.recv_timeout(POLL) {
                Ok(()) => self.wait_for_quiet(),
                // The routes hold one receiver; each open page holds another.
                Err(RecvTimeoutError::Timeout) if self.latest.receiver_count() < 2 => continue,
                Err(_) => {}
            }
            self.read();
        }
    }

    fn wait_for_quiet(&self) {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE && self.changes.recv_timeout(QUIET).is_ok() {}
    }

    fn read(&mut self) {
        loop {
            // Watched again, because a folder may have been deleted and created again. Before reading, so that
            // changes during the read are read again.
            self.watcher = watcher(&self.places, &self.changed);
            let (number, before) = self.latest.borrow().clone();
            let snapshot = PreviewSnapshot::read(&self.target, Some(&before));
            let places = snapshot.places(&self.target);
            if !snapshot.shows_the_same(&before) {
                self.latest.send_replace((number + 1, Arc::new(snapshot)));
            }
            if places == self.places {
                return;
            }
            self.places = places;
        }
    }
}

/// Watches what exists; `None` if the system has no watcher. Then polling must do.
fn watcher(places: &[WatchedFolder], changed: &Sender<()>) -> Option<RecommendedWatcher> {
    let changed = changed.clone();
    let tell = move |event: notify::Result<Event>| {
        // An error means that events were lost. When the program ends, nobody listens.
        if event.map_or(true, |event| is_change(&event)) {
            let _ = changed.send(());
        }
    };
    let mut watcher = notify::recommended_watcher(tell).ok()?;
    for place in places.iter().filter(|place| place.folder.is_dir()) {
        let mode = if place.and_below {
            RecursiveMode::Recursive
        } else {
            RecursiveMode::NonRecursive
        };
        // Polling finds what cannot be watched.
        let _ = watcher.watch(&place.folder, mode);
    }
    Some(watcher)
}
