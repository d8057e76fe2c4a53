//! Loads the server's state at the start: what must be there, what may be missing, and what to wait for.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::serve::gate::{Secrets, Snapshot};
use crate::serve::health::Part;
use crate::serve::net::tls::Tls;
use crate::serve::reload::component::{PartFiles, load_secrets};
use crate::serve::reload::drop_guard::{AcceptedDrops, DropGuard};
use crate::serve::reload::error::LoadError;
use countersign_ledger::Ledger;
use countersign_model::license_key::LicenseId;
use countersign_package::catalog::{Catalog, CatalogError};
use countersign_registry::Registry;
use countersign_settings::config::{Paths, PublicUrl, TlsFiles};
use countersign_settings::keys::secret_keys::{SecretKeyError, SecretUse};
use countersign_settings::keys::signing_key::SigningKey;

/// How often to try a catalog that a build is replacing.
const START_TRIES: u32 = 10;

/// The time between two tries.
const BETWEEN_TRIES: Duration = Duration::from_millis(200);

/// The state at the start, and the fingerprints of its files.
#[derive(Debug)]
pub struct StartupState {
    /// To be put in force.
    pub snapshot: Snapshot,
    /// What is wrong with the catalog, which is then empty.
    pub fault: Option<LoadError>,
    /// The certificate, if TLS is configured.
    pub tls: Option<Arc<Tls>>,
    /// The files to watch.
    pub files: Vec<PartFiles>,
    /// When loading began.
    pub started: DateTime<Utc>,
    /// Records the licenses in force for the next start.
    pub drop_guard: DropGuard,
    /// Whether the start accepts a registry that lacks many licenses.
    pub accepts_dropped_licenses: bool,
    /// Where the key for downloads is, or would be.
    pub downloads_key: PathBuf,
    /// Where packages stand.
    pub releases: PathBuf,
}

impl StartupState {
    /// Loads the TLS certificate, too.
    pub fn with_tls(mut self, files: Option<TlsFiles>) -> Result<Self, LoadError> {
        if let Some(files) = files {
            self.files
                .push(PartFiles::new(Part::Tls, &[&files.certificate, &files.key]));
            self.tls = Some(Tls::load(files)?);
        }
        Ok(self)
    }

    /// Fails if the registry lacks many licenses that were last in force and that the ledger does not have. The store is open
    /// by then.
    ///
    /// # Errors
    /// [`LoadError::DropsLicenses`], unless the start accepts it.
    pub fn require_licenses(&self, ledger: &Ledger) -> Result<(), LoadError> {
        let is_in_ledger = |id: &LicenseId| ledger.issued(id).is_some();
        match self.drop_guard.check_start(&self.snapshot.registry, is_in_ledger) {
            Err(error) if self.accepts_dropped_licenses => {
                tracing::warn!(%error, "accepted because of --accept-dropped-licenses");
                Ok(())
            }
            checked => checked,
        }
    }

    /// Fails if packages are hosted and no links to them can be made: links begin with `public_url`.
    pub fn with_links(self, public_url: Option<&PublicUrl>) -> Result<Self, LoadError> {
        if !self.snapshot.registry.hosts_packages() {
            return Ok(self);
        }
        let public_url = public_url.ok_or(LoadError::NoPublicUrl)?;
        if let Some(port) = public_url.port_wordpress_refuses() {
            tracing::warn!(%public_url, port, "WordPress downloads from the ports 80, 443 and 8080 only");
        }
        match &self.snapshot.secrets.downloads {
            Some(_) => Ok(self),
            None => Err(LoadError::SecretKey(SecretKeyError::Missing {
                path: self.downloads_key.clone(),
                purpose: SecretUse::Downloads,
            })),
        }
    }
}

/// Loads everything for a start. The key and the registry must be there; releases may be missing. Whether the registry lacks
/// licenses is found out once the store is open: [`StartupState::require_licenses`].
pub fn load(paths: &Paths, accepted: AcceptedDrops) -> Result<StartupState, LoadError> {
    let started = Utc::now();
    let registry_files = PartFiles::new(Part::Registry, &[&paths.registry]);
    let catalog_files = PartFiles::new(Part::Catalog, &[&paths.releases]);
    let key_files = PartFiles::new(
        Part::Key,
        &[&[paths.signing_key.as_path()][..], &secret_paths(paths)].concat(),
    );
    let key = Arc::new(SigningKey::load(&paths.signing_key)?);
    let secrets = load_secrets(secret_paths(paths), &Secrets::default())?;
    let registry = Arc::new(Registry::load_without_notes(&paths.registry)?);
    let drop_guard = DropGuard::new(&paths.store);
    let (catalog, fault) = match first_catalog(&paths.releases).and_then(|catalog| {
        match drop_guard.check_releases(&catalog, &paths.releases, &registry) {
            Err(error) if accepted.releases => {
                tracing::warn!(%error, "accepted because of --accept-dropped-releases");
                drop_guard.forget_releases();
            }
            checked => checked?,
        }
        Ok(catalog)
    }) {
        Ok(catalog) => (catalog, None),
        Err(error) => {
            tracing::error!(error = error.in_one_line(), "no updates until the releases are right");
            (Catalog::default(), Some(error))
        }
    };
    let catalog_files = if fault.is_some() {
        catalog_files.failed()
    } else {
        catalog_files
    };
    let files = vec![registry_files, catalog_files, key_files];
    let snapshot = Snapshot {
        registry,
        catalog: Arc::new(catalog),
        key,
        secrets,
    };
    snapshot.read_before();
    Ok(StartupState {
        snapshot,
        tls: None,
        files,
        fault,
        started,
        drop_guard,
        accepts_dropped_licenses: accepted.licenses,
        downloads_key: paths.downloads_key.clone(),
        releases: paths.releases.clone(),
    })
}

/// The files of the secrets, and the folder of retired ones.
fn secret_paths(paths: &Paths) -> [&Path; 4] {
    [
        &paths.downloads_key,
        &paths.issuing_key,
        &paths.references_key,
        &paths.retired_keys,
    ]
}

/// The catalog for a start. Waits for a running build.
///
/// # Errors
/// It is broken, for example because a build was killed. The server then starts without updates, so that validations
/// still work.
fn first_catalog(releases: &Path) -> Result<Catalog, LoadError> {
    let mut tries = 1..START_TRIES;
    loop {
        match Catalog::load(releases) {
            // A build replaces manifests before the index.
            Err(CatalogError::Differs { .. }) if tries.next().is_some() => thread::sleep(BETWEEN_TRIES),
            Err(CatalogError::NoIndex { path }) => {
                tracing::warn!(index = %path.display(), "nothing is published yet: run `countersign build`");
                return Ok(Catalog::default());
            }
            loaded => return Ok(loaded?),
        }
    }
}
