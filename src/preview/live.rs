//! Reads again whenever something changes, and tells everybody who listens.
//!
//! Watches the places a [`PreviewSnapshot`] follows from; where no notification comes (network file systems), looks every two
//! seconds as long as somebody looks at the page. [`routes`](crate::preview::routes) sends each new snapshot's number to the page.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::watch;

use crate::build::draft::WatchedFolder;
use crate::preview::snapshot::PreviewSnapshot;
use crate::preview::target::Target;

/// Files that are written one after the other are read once, this long after the last.
const QUIET: Duration = Duration::from_millis(40);

/// Whoever writes without a pause does not keep the page from changing.
const PATIENCE: Duration = Duration::from_millis(300);

/// Time between looks where no notification comes.
const POLL: Duration = Duration::from_secs(2);

/// The last snapshot, and which one it is.
pub type LatestSnapshot = (u64, Arc<PreviewSnapshot>);

/// Reads once, then on until nobody listens.
///
/// # Errors
/// The machine gives no thread.
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
                // The routes hold one receiver; each page that is open holds another.
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
            // Watched anew, because a folder may have been deleted and made again; and first, so that what changes while it is
            // read is read once more.
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

/// Watches what is there; `None` where the system gives no watcher, and then the poll does its work.
fn watcher(places: &[WatchedFolder], changed: &Sender<()>) -> Option<RecommendedWatcher> {
    let changed = changed.clone();
    let tell = move |event: notify::Result<Event>| {
        // An error means that events were lost. Nobody listens any more when the program ends.
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
        // What cannot be watched is found by looking.
        let _ = watcher.watch(&place.folder, mode);
    }
    Some(watcher)
}

/// Reading is no change, and reading is what we do.
fn is_change(event: &Event) -> bool {
    !matches!(event.kind, EventKind::Access(kind) if kind != AccessKind::Close(AccessMode::Write))
}
