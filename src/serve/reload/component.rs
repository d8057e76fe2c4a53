//! A part of the server's state and its files: reloaded when they change; if that fails, the last good state stays.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use chrono::Utc;

use crate::serve::gate::{Secrets, Snapshot};
use crate::serve::health::{Health, Part, State};
use crate::serve::reload::drop_guard;
use crate::serve::reload::error::LoadError;
use crate::serve::reload::fingerprint::{FilesSeen, Fingerprint};
use crate::serve::state::Service;
use countersign_model::text::printable::Printable;
use countersign_package::catalog::{Catalog, CatalogError};
use countersign_registry::Registry;
use countersign_settings::keys::license_secrets::LicenseSecrets;
use countersign_settings::keys::secret_keys::{SecretKey, SecretKeyError, SecretKeys};
use countersign_settings::keys::signing_key::SigningKey;

/// By then, nearly all requests that still use the old state are over.
const LET_GO_PATIENCE: Duration = Duration::from_secs(1);

/// The time between two checks for them.
const LET_GO_PAUSE: Duration = Duration::from_millis(5);

/// A part and the last check of its files.
#[derive(Debug)]
pub struct PartFiles {
    part: Part,
    paths: Vec<PathBuf>,
    /// The last check.
    looked: Fingerprint,
    /// The fingerprint of the files when they were read, if they were at rest.
    read: Option<u64>,
    failed: bool,
    /// Whether there is a last good state.
    loaded: bool,
}

impl PartFiles {
    /// The files of a part that is about to be loaded. They are checked before they are read, so that no change is
    /// missed.
    pub(crate) fn new(part: Part, paths: &[&Path]) -> Self {
        let paths: Vec<PathBuf> = paths.iter().map(|path| path.to_path_buf()).collect();
        let looked = Fingerprint::of(&paths);
        let read = looked.at_rest.then_some(looked.value);
        Self {
            part,
            paths,
            looked,
            read,
            failed: false,
            loaded: true,
        }
    }

    /// There is no good state of it yet.
    pub(crate) fn failed(self) -> Self {
        Self {
            failed: true,
            loaded: false,
            ..self
        }
    }

    /// Their part.
    pub(crate) fn part(&self) -> Part {
        self.part
    }

    /// Their paths.
    pub(crate) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// The folders among them and below.
    pub(crate) fn folders(&self) -> impl Iterator<Item = &Path> {
        self.looked.folders.iter().map(PathBuf::as_path)
    }

    /// Checks them again.
    pub(crate) fn look(&mut self) {
        let mut looked = Fingerprint::of(&self.paths);
        // Changes in a new folder could not be noticed.
        looked.at_rest &= looked.folders == self.looked.folders;
        self.looked = looked;
    }

    /// Whether they were at rest: a file that is being written may look complete too early.
    pub(crate) fn at_rest(&self) -> bool {
        self.looked.at_rest
    }

    /// Whether to load the part: its files changed since they were read, or it failed and a retry is due.
    pub(crate) fn is_due(&self, retry: bool) -> bool {
        self.looked.at_rest && (self.read != Some(self.looked.value) || self.failed && retry)
    }

    /// Records that the files are never quiet, so that they may be incomplete.
    pub(crate) fn note_restless(&mut self, health: &Health) {
        // As soon as they are quiet, they are loaded, even if they look the same.
        self.failed = true;
        let state = if self.loaded { State::Stale } else { State::Failing };
        let path = self.looked.newest.display();
        let detail = format!("its files keep changing, so they are not read: {path}");
        if health.note(self.part, state, Some(detail), Utc::now()) {
            let part: &str = self.part.into();
            tracing::warn!(part, file = %Printable(path), "files keep changing; they are read when they stop changing");
        }
    }

    /// Loads the part from the checked files.
    pub(crate) fn refresh(&mut self, service: &Service, forced: bool) {
        self.read = self.looked.at_rest.then_some(self.looked.value);
        let started = Instant::now();
        let outcome = self.load(service);
        self.failed = outcome.is_err();
        service.reloads.count(self.part, outcome.is_ok());
        let part: &str = self.part.into();
        match outcome {
            Ok(()) => {
                self.loaded = true;
                service.health.note(self.part, State::Ok, None, Utc::now());
                self.compare(service);
                self.tell(&service.health);
                tracing::info!(part, milliseconds = started.elapsed().as_millis(), "reloaded");
            }
            Err(error) => {
                let error = error.in_one_line();
                let state = if self.loaded { State::Stale } else { State::Failing };
                let news = service.health.note(self.part, state, Some(error.clone()), Utc::now());
                if news || forced {
                    let left = if self.loaded {
                        "the last good state stays in force"
                    } else {
                        "there is no good state yet"
                    };
                    tracing::warn!(part, %error, "not reloaded; {left}");
                }
            }
        }
    }

    /// Compares the registry in force with the ledger, which other nodes change, too.
    pub(crate) fn compare(&self, service: &Service) {
        if self.part == Part::Registry && !self.failed {
            service.note_declarations();
        }
    }

    /// Records which files of the registry are in use.
    pub(crate) fn tell(&self, health: &Health) {
        if let (Part::Registry, Some(folder)) = (self.part, self.paths.first()) {
            // Files that were not at rest will be read again.
            let FilesSeen { path, fingerprint } = FilesSeen::new(folder, self.read.unwrap_or_default());
            health.note_registry(&path, self.read.map(|_| fingerprint));
        }
    }

    fn load(&self, service: &Service) -> Result<(), LoadError> {
        let Some(path) = self.paths.first() else { return Ok(()) };
        // Loading may take long; no other part waits for it.
        let held = match self.part {
            Part::Registry => {
                let registry = Arc::new(Registry::load_without_notes(path)?);
                let held = Arc::clone(&service.gate.snapshot().registry);
                let bindings = service.gate.bindings();
                drop_guard::check_reload(&registry, &held, |id| bindings.issued(id).is_some())?;
                let before = service.gate.change(|next| next.registry = Arc::clone(&registry));
                // An entry may have its first rollout.
                service.gate.snapshot().read_before();
                service.drop_guard.accept(&registry);
                service.packages.wake();
                service.rollouts.wake();
                before
            }
            Part::Catalog => {
                let held = service.gate.snapshot();
                let catalog = match Catalog::load(path) {
                    // There is still nothing published.
                    Err(CatalogError::NoIndex { .. }) if held.catalog.releases().count() == 0 => Catalog::default(),
                    loaded => loaded?,
                };
                service.drop_guard.check_releases(&catalog, path, &held.registry)?;
                let catalog = Arc::new(catalog);
                let next = Snapshot {
                    catalog: Arc::clone(&catalog),
                    ..Snapshot::clone(&service.gate.snapshot())
                };
                next.read_before();
                drop(next);
                let before = service.gate.change(|next| next.catalog = Arc::clone(&catalog));
                // The registry may have changed meanwhile.
                service.gate.snapshot().read_before();
                service.drop_guard.accept_releases(&catalog, path);
                service.packages.wake();
                service.rollouts.wake();
                before
            }
            Part::Key => {
                let key = Arc::new(SigningKey::load(path)?);
                let secrets = self.load_secrets(service)?;
                let before = service.gate.change(|next| {
                    next.key = key;
                    next.secrets = secrets;
                });
                service.packages.wake();
                before
            }
            Part::Tls => return service.tls.as_ref().map_or(Ok(()), |tls| Ok(tls.reload()?)),
            Part::Store | Part::Packages => return Ok(()),
        };
        let_go(&held);
        Ok(())
    }
}

impl PartFiles {
    /// The other secrets, which belong to the same part as the signing key.
    fn load_secrets(&self, service: &Service) -> Result<Secrets, LoadError> {
        let held = service.gate.snapshot().secrets.clone();
        match &self.paths[..] {
            [_, downloads, issuing, references, retired] => {
                Ok(load_secrets([downloads, issuing, references, retired], &held)?)
            }
            _ => Ok(held),
        }
    }
}

/// Waits until no request uses the old state, so that this thread frees it: a million licenses take a while.
fn let_go(held: &Arc<Snapshot>) {
    let deadline = Instant::now() + LET_GO_PATIENCE;
    while Arc::strong_count(held) > 1 && Instant::now() < deadline {
        thread::sleep(LET_GO_PAUSE);
    }
}

/// Loads the secrets that there are, from the files of downloads, issuing and references, and the folder of retired keys.
/// What was `held` before must not vanish.
///
/// # Errors
/// A secret is unusable, or missing although it must exist.
pub(super) fn load_secrets(paths: [&Path; 4], held: &Secrets) -> Result<Secrets, SecretKeyError> {
    let [downloads, issuing, references, retired] = paths;
    let must_issue = held.licensing.is_some();
    let downloads = load_one(downloads, retired, held.downloads.is_some())?;
    let issuing = load_one(issuing, retired, must_issue)?;
    // Neither is of use without the other.
    let references = load_one(references, retired, issuing.is_some())?;
    let licensing = issuing
        .zip(references)
        .map(|(issuing, references)| LicenseSecrets::new(issuing, references));
    Ok(Secrets {
        downloads: downloads.map(Arc::new),
        licensing: licensing.map(Arc::new),
    })
}

/// Loads the current key and the retired ones; `None` if there is none, unless `must_be`.
fn load_one<K: SecretKey>(path: &Path, retired: &Path, must_be: bool) -> Result<Option<SecretKeys<K>>, SecretKeyError> {
    let (keys, unusable) = match SecretKeys::load(path, retired) {
        Err(SecretKeyError::Missing { .. }) if !must_be => return Ok(None),
        loaded => loaded?,
    };
    for error in unusable {
        tracing::warn!(%error, "a retired key is left out: what it made is not recognized");
    }
    Ok(Some(keys))
}
