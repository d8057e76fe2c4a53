//! Reload: notices what changed on disk, loads it beside what is in force, and swaps it in; keeps the old on any failure.
//!
//! One thread of its own. notify wakes it, SIGHUP wakes it, and a slow poll wakes it where notify sees nothing. What it
//! loads goes to the gate; what it thinks of it goes to `health` and, once, to the log.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use std::{io, thread};

use chrono::{DateTime, Utc};

use super::Service;
use super::fingerprint::Fingerprint;
use super::gate::Snapshot;
use super::health::{Part, State};
use super::label::{Counters, Label};
use super::priority::stand_back;
use super::signer::{KeyError, SigningKey};
use super::tls::{Tls, TlsError};
use super::watch::Watch;
use crate::catalog::{Catalog, CatalogError};
use crate::config::{Paths, TlsFiles};
use crate::model::error_chain::ErrorChain;
use crate::registry::{Registry, RegistryError};

/// A change is looked at when the files have been quiet for so long: an editor or a copy is done by then.
const QUIET: Duration = Duration::from_millis(200);

/// The files are looked at after so long even where some are never quiet: what is at rest need not wait for what is not.
const IMPATIENCE: Duration = Duration::from_millis(1_000);

/// Requests that still hold what was replaced are over after so long, nearly all of them.
const LET_GO_PATIENCE: Duration = Duration::from_secs(1);

/// How often they are looked for.
const LET_GO_PAUSE: Duration = Duration::from_millis(5);

/// Wakes that may wait: whatever changed meanwhile, one look finds it.
const PENDING: usize = 1;

/// How often a catalog that a build is just replacing is tried at start.
const START_TRIES: u32 = 10;

/// A reload that drops more than one in so many licenses is refused: it looks like an accident.
const DROP_AT_MOST_ONE_IN: usize = 5;

/// A part that cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The registry is wrong or cannot be read.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The releases are wrong or cannot be read.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// There is no usable signing key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// There is no usable certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The registry is fine, but so much smaller that it looks like an accident.
    #[error("it drops {dropped} of {held} licenses; if that is meant, send SIGHUP")]
    DropsLicenses {
        /// How many of the licenses held are gone.
        dropped: usize,
        /// How many are held.
        held: usize,
    },
}

/// What is in force at the start, and what its files looked like.
#[derive(Debug)]
pub struct Loaded {
    /// To be put in force.
    pub snapshot: Snapshot,
    /// What is wrong with the catalog, which is empty then.
    pub fault: Option<CatalogError>,
    /// Shown to whoever connects, where TLS is spoken.
    pub tls: Option<Arc<Tls>>,
    /// What is to be watched.
    pub files: Vec<File>,
    /// When loading began, which is the first thing a server does.
    pub started: DateTime<Utc>,
}

impl Loaded {
    /// Loads what TLS is spoken with, too.
    pub fn with_tls(mut self, files: Option<TlsFiles>) -> Result<Self, LoadError> {
        if let Some(files) = files {
            self.files.push(File::new(Part::Tls, &[&files.certificate, &files.key]));
            self.tls = Some(Tls::load(files)?);
        }
        Ok(self)
    }
}

/// How often each part was loaded again.
#[derive(Debug, Default)]
pub struct Reloads {
    /// What was loaded is in force.
    pub done: Counters<Part>,
    /// The last good state stayed in force.
    pub failed: Counters<Part>,
    last: [AtomicI64; Part::ALL.len()],
}

impl Reloads {
    /// When what is in force was loaded, in seconds since 1970; 0 where that was at the start.
    pub fn last(&self, part: Part) -> i64 {
        self.last[part.place()].load(Ordering::Relaxed)
    }

    fn count(&self, part: Part, done: bool) {
        if done {
            self.done.add(part);
            self.last[part.place()].store(Utc::now().timestamp(), Ordering::Relaxed);
        } else {
            self.failed.add(part);
        }
    }
}

/// Loads everything for a start. Without a key there is nothing to say, and without a registry nothing true; without
/// releases there is.
pub fn load(paths: &Paths) -> Result<Loaded, LoadError> {
    let started = Utc::now();
    // Looked at before they are read, so that no change falls between.
    let mut files = vec![
        File::new(Part::Registry, &[&paths.registry]),
        File::new(Part::Catalog, &[&paths.releases]),
        File::new(Part::Key, &[&paths.signing_key]),
    ];
    let key = Arc::new(SigningKey::load(&paths.signing_key)?);
    let registry = Arc::new(Registry::load_without_notes(&paths.registry)?);
    let (catalog, fault) = first_catalog(&paths.releases);
    files[1].failed = fault.is_some();
    files[1].loaded = fault.is_none();
    Ok(Loaded { snapshot: Snapshot { registry, catalog: Arc::new(catalog), key }, tls: None, files, fault, started })
}

/// The catalog for a start. A build that is under way is waited for; one that was killed must not keep licenses from
/// being validated, so a broken catalog is an empty one, and its fault comes back with it.
fn first_catalog(releases: &Path) -> (Catalog, Option<CatalogError>) {
    let mut tries = 1..START_TRIES;
    loop {
        match Catalog::load(releases) {
            Ok(catalog) => return (catalog, None),
            // A build replaces manifests before the index.
            Err(CatalogError::Differs { .. }) if tries.next().is_some() => thread::sleep(QUIET),
            Err(CatalogError::NoIndex { path }) => {
                tracing::warn!(index = %path.display(), "nothing is published yet: run `countersign build`");
                return (Catalog::default(), None);
            }
            Err(error) => {
                tracing::error!(
                    error = ErrorChain(&error).first_line(),
                    "no updates until `countersign build` has mended the releases"
                );
                return (Catalog::default(), Some(error));
            }
        }
    }
}

/// Wakes the thread, which ends with the service it reloads.
#[derive(Clone, Debug)]
pub struct Reloader {
    wake: SyncSender<()>,
    /// Whether somebody insists; the thread takes it back when it looks.
    forced: Arc<AtomicBool>,
}

impl Reloader {
    /// Starts the thread that keeps `service` in step with the files it was loaded from.
    pub fn start(service: &Arc<Service>, files: Vec<File>, poll: Duration) -> io::Result<Self> {
        let (wake, woken) = sync_channel(PENDING);
        let reloader = Self { wake, forced: Arc::default() };
        let changed = reloader.clone();
        let watch = Watch::new(files.iter().flat_map(|file| file.paths.clone()).collect(), move || {
            changed.wake();
        });
        let forced = Arc::clone(&reloader.forced);
        let mut worker = Worker { service: Arc::downgrade(service), files, watch, poll, woken, forced };
        thread::Builder::new().name("reload".to_owned()).spawn(move || worker.run())?;
        Ok(reloader)
    }

    /// Looks at the files now and takes over what is good, whatever it drops. Does not wait for that.
    pub fn force(&self) {
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
    files: Vec<File>,
    watch: Watch,
    poll: Duration,
    woken: Receiver<()>,
    forced: Arc<AtomicBool>,
}

/// A part and what was last seen of its files.
#[derive(Debug)]
pub struct File {
    part: Part,
    paths: Vec<PathBuf>,
    seen: Option<u64>,
    failed: bool,
    /// Whether it ever was in force, so that there is a last good state.
    loaded: bool,
}

impl Worker {
    fn run(&mut self) {
        stand_back();
        // What changed between the start's look and the watch was not noticed.
        let mut wait = QUIET;
        loop {
            match self.woken.recv_timeout(wait) {
                Ok(()) => self.settle(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let forced = self.take_forced();
            let Some(service) = self.service.upgrade() else { return };
            // Watched anew before it is read: a folder may be another one now, and no change may fall between.
            self.watch.renew();
            wait = self.poll;
            for file in &mut self.files {
                if !file.refresh(&service, forced) {
                    wait = QUIET;
                }
            }
        }
    }

    /// Waits until the files are quiet or somebody insists.
    fn settle(&self) {
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

impl File {
    fn new(part: Part, paths: &[&Path]) -> Self {
        let paths: Vec<PathBuf> = paths.iter().map(|path| path.to_path_buf()).collect();
        let print = Fingerprint::of(&paths);
        Self { part, paths, seen: print.at_rest.then_some(print.value), failed: false, loaded: true }
    }

    /// Loads the part if its files changed and are at rest. Returns whether they are.
    fn refresh(&mut self, service: &Service, forced: bool) -> bool {
        let print = Fingerprint::of(&self.paths);
        let unchanged = self.seen == Some(print.value);
        if unchanged && !self.failed && !forced {
            return true;
        }
        // What is being written in place may look whole before it is.
        if !print.at_rest && !forced {
            return false;
        }
        self.seen = print.at_rest.then_some(print.value);
        let started = Instant::now();
        let outcome = self.load(service, forced);
        self.failed = outcome.is_err();
        service.reloads.count(self.part, outcome.is_ok());
        let part = self.part.name();
        match outcome {
            Ok(()) => {
                self.loaded = true;
                service.health.note(self.part, State::Ok, None, Utc::now());
                tracing::info!(part, milliseconds = started.elapsed().as_millis(), "reloaded");
            }
            Err(error) => {
                let error = ErrorChain(&error).first_line();
                let state = if self.loaded { State::Stale } else { State::Failing };
                let news = service.health.note(self.part, state, Some(error.clone()), Utc::now());
                if news || forced {
                    let left =
                        if self.loaded { "the last good state stays in force" } else { "there is no good state yet" };
                    tracing::warn!(part, %error, "not reloaded; {left}");
                }
            }
        }
        print.at_rest
    }

    fn load(&self, service: &Service, forced: bool) -> Result<(), LoadError> {
        let Some(path) = self.paths.first() else { return Ok(()) };
        let held = service.gate.snapshot();
        let mut next = Snapshot::clone(&held);
        match self.part {
            Part::Registry => {
                next.registry = Arc::new(Registry::load_without_notes(path)?);
                if !forced {
                    refuse_an_accident(&held.registry, &next.registry)?;
                }
            }
            Part::Catalog => match Catalog::load(path) {
                // Still nothing published.
                Err(CatalogError::NoIndex { .. }) if held.catalog.releases() == 0 => {}
                loaded => next.catalog = Arc::new(loaded?),
            },
            Part::Key => next.key = Arc::new(SigningKey::load(path)?),
            Part::Tls => return service.tls.as_ref().map_or(Ok(()), |tls| Ok(tls.reload()?)),
            Part::Store => {}
        }
        // This thread is the only one that replaces the snapshot.
        let licenses = next.registry.license_count();
        let renumbered = self.part == Part::Registry && !next.registry.numbers_as(&held.registry);
        service.gate.replace(next);
        if renumbered {
            service.limits.count_licenses(licenses);
        }
        let_go(&held);
        Ok(())
    }
}

/// Waits until no request holds what was replaced, so that this thread frees it: a million licenses take a while.
fn let_go(held: &Arc<Snapshot>) {
    let deadline = Instant::now() + LET_GO_PATIENCE;
    while Arc::strong_count(held) > 1 && Instant::now() < deadline {
        thread::sleep(LET_GO_PAUSE);
    }
}

fn refuse_an_accident(held: &Registry, next: &Registry) -> Result<(), LoadError> {
    let dropped = held.licenses().filter(|license| next.license(&license.id).is_none()).count();
    let held = held.licenses().count();
    if dropped * DROP_AT_MOST_ONE_IN > held { Err(LoadError::DropsLicenses { dropped, held }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_insists_often_while_nobody_looks_never_waits_and_is_heard_once() {
        let (wake, woken) = sync_channel(PENDING);
        let reloader = Reloader { wake, forced: Arc::default() };
        let forced = Arc::clone(&reloader.forced);
        let watch = Watch::new(vec![], || ());
        let worker = Worker { service: Weak::new(), files: vec![], watch, poll: QUIET, woken, forced };
        for _ in 0..100 {
            reloader.force();
        }
        assert!(worker.take_forced());
        assert!(!worker.take_forced() && worker.woken.try_recv().is_err(), "one look is enough");
        reloader.wake();
        assert!(!worker.take_forced(), "a change insists on nothing");
    }
}
