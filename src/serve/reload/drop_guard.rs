//! Refuses a registry or an index that takes away, probably by accident, what was in force.
//!
//! A registry may not lack more than a fifth of the declarations that were in force, as after a truncated export. A license that
//! the ledger has is not missing, whatever files declare. An index may lack no release,
//! unless the registry withholds it or a build has removed it ([`removed_releases`]): otherwise an older build wrote the
//! index. A list of removed releases that is older than one that was seen counts for nothing, because it came with such an index.
//!
//! A reload compares with what is in use, a start with what was last in use ([`Accepted`], [`accepted_releases`]). Only
//! a start with `--accept-dropped-licenses` or `--accept-dropped-releases` accepts a loss: never a reload, a signal, the
//! environment or the configuration file, which would also accept the next accident.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::serve::reload::error::LoadError;
use countersign_ledger::{Accepted, AcceptedReleases, accepted_releases};
use countersign_model::license::License;
use countersign_model::license_key::LicenseId;
use countersign_model::slug::Slug;
use countersign_model::version::Version;
use countersign_package::catalog::{Catalog, RemovedReleases, removed_releases};
use countersign_registry::Registry;

/// One license in this many may be missing.
const DROP_AT_MOST_ONE_IN: usize = 5;

/// How many missing releases a message names.
const NAMED: usize = 3;

/// What a start accepts although it is missing.
#[derive(Clone, Copy, Debug, Default)]
pub struct AcceptedDrops {
    /// More than a fifth of the licenses.
    pub licenses: bool,
    /// Any releases.
    pub releases: bool,
}

/// Records the licenses and the releases in force in the store's folder.
#[derive(Debug)]
pub struct DropGuard {
    store: PathBuf,
    /// Whether the store was there before this guard.
    had_store: bool,
    written: Mutex<Option<Accepted>>,
    /// The releases in force; `None` until some were.
    releases: Mutex<Option<AcceptedReleases>>,
}

/// Fails if too many declarations of `held` are missing in `next`. Those that the ledger has are not counted.
///
/// # Errors
/// [`LoadError::DropsLicenses`]
pub(crate) fn check_reload(
    next: &Registry,
    held: &Registry,
    is_in_ledger: impl Fn(&LicenseId) -> bool,
) -> Result<(), LoadError> {
    let counts = |license: &&License| !is_in_ledger(&license.id);
    match next.dropped_since(held).filter(counts).count() {
        0 => Ok(()),
        dropped => check(dropped, held.licenses().filter(counts).count()),
    }
}

fn check(dropped: usize, held: usize) -> Result<(), LoadError> {
    match dropped * DROP_AT_MOST_ONE_IN > held {
        true => Err(LoadError::DropsLicenses { dropped, held }),
        false => Ok(()),
    }
}

impl DropGuard {
    /// The guard for a server with this store's folder, which need not exist yet.
    pub fn new(store: &Path) -> Self {
        Self {
            store: store.to_owned(),
            had_store: store.exists(),
            written: Mutex::default(),
            releases: Mutex::default(),
        }
    }

    /// Compares a catalog that was loaded from `folder` with the releases in force; before a start, with the record of
    /// those last in force. If there is no usable record, accepts the catalog.
    ///
    /// # Errors
    /// [`LoadError::DropsReleases`]
    pub fn check_releases(&self, catalog: &Catalog, folder: &Path, registry: &Registry) -> Result<(), LoadError> {
        let in_force = self.releases.lock().unwrap_or_else(PoisonError::into_inner);
        let recorded = if in_force.is_none() {
            accepted_releases(&self.store).unwrap_or_else(|error| {
                tracing::warn!(%error, "cannot read the record of the releases last in force: this start cannot check whether releases are missing");
                None
            })
        } else {
            None
        };
        let Some(held) = in_force.as_ref().or(recorded.as_ref()) else {
            return Ok(());
        };
        let mut removed = removed_releases(folder);
        if removed.time < held.removed_at {
            // It came back with an index as old as itself.
            removed = RemovedReleases::default();
        }
        let is_withheld = |slug: &Slug, version: &Version| {
            let plugin = registry.plugin(slug.as_str());
            plugin.is_some_and(|plugin| plugin.withholds(version))
        };
        let mut missing: Vec<_> = held
            .releases
            .iter()
            .filter(|&(slug, version)| !catalog.releases().has(slug, version))
            .filter(|&(slug, version)| !removed.releases.has(slug, version) && !is_withheld(slug, version))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        // Newest first.
        missing.sort_by(|(slug, version), (other, old)| slug.cmp(other).then_with(|| old.cmp_php(version)));
        let mut names: Vec<_> = missing
            .iter()
            .take(NAMED)
            .map(|(slug, version)| format!("{slug} {version}"))
            .collect();
        let more = missing.len().checked_sub(NAMED).filter(|more| *more > 0);
        names.extend(more.map(|more| format!("{more} more")));
        Err(LoadError::DropsReleases {
            dropped: missing.len(),
            held: held.releases.count(),
            names: names.join(", "),
        })
    }

    /// Accepts the present releases as a new start, which a person asked for: forgets the releases last in force and the
    /// newest time of a list of removed releases. A wrong clock may have made that time later than any list to come.
    pub fn forget_releases(&self) {
        let mut in_force = self.releases.lock().unwrap_or_else(PoisonError::into_inner);
        *in_force = Some(AcceptedReleases::default());
    }

    /// Records the releases in force and the time of the list of removed releases in `folder`. A failure is only logged.
    pub fn accept_releases(&self, catalog: &Catalog, folder: &Path) {
        let mut in_force = self.releases.lock().unwrap_or_else(PoisonError::into_inner);
        let recorded = || accepted_releases(&self.store).ok().flatten();
        let seen = match &*in_force {
            Some(before) => Some(before.removed_at),
            None => recorded().map(|before| before.removed_at),
        };
        let accepted = AcceptedReleases {
            releases: catalog.releases().clone(),
            removed_at: removed_releases(folder).time.max(seen.unwrap_or_default()),
        };
        if in_force.as_ref() == Some(&accepted) {
            return;
        }
        let accepted = &*in_force.insert(accepted);
        if let Err(error) = countersign_ledger::accept_releases(&self.store, accepted) {
            tracing::warn!(%error, "cannot record the releases in force: the next start compares with an older record");
        }
    }

    /// Compares the registry of a start with the record. Licenses that the ledger has are not counted. If there is no usable
    /// record, logs that and accepts the registry.
    ///
    /// # Errors
    /// [`LoadError::DropsLicenses`]
    pub fn check_start(&self, registry: &Registry, is_in_ledger: impl Fn(&LicenseId) -> bool) -> Result<(), LoadError> {
        let last = match Accepted::read(&self.store) {
            Ok(Some(last)) => last.without(is_in_ledger),
            Ok(None) if !self.had_store => return Ok(()),
            Ok(None) => {
                // Commands make the folder before the first start.
                tracing::info!(
                    "no record of the licenses last in force, as before a first start: this start cannot check whether licenses are missing"
                );
                return Ok(());
            }
            Err(error) => {
                tracing::warn!(%error, "cannot read the record of the licenses last in force: this start cannot check whether licenses are missing");
                return Ok(());
            }
        };
        let dropped = last.dropped(registry.license_count(), |id| registry.license(id).is_some());
        check(dropped, last.licenses())
    }

    /// Records the licenses in force. A failure is logged and has no other effect.
    pub fn accept(&self, registry: &Registry) {
        let accepted = Accepted::new(registry.license_count(), registry.licenses().map(|license| license.id));
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.as_ref() == Some(&accepted) {
            return;
        }
        match accepted.write(&self.store) {
            Ok(()) => *written = Some(accepted),
            Err(error) => {
                tracing::warn!(%error, "cannot record the licenses in force: the next start compares with an older record");
            }
        }
    }
}
