//! The gate: decides who gets a statement, a manifest or a package. Nothing else decides this.

pub(crate) mod active;
pub(crate) mod release;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, Guard};
use chrono::{DateTime, Utc};

use crate::serve::found_license::{self, ChangeError, FoundLicense};
use countersign_ledger::{
    BindOutcome, BoundSites, ChangeOutcome, Ledger, LedgerChange, NodeSecrets, SeatRequest, SeenHash, StoreError,
};
use countersign_model::binding::{CheckIn, Stored};
use countersign_model::download_key::DownloadKey;
use countersign_model::download_link::DownloadLink;
use countersign_model::entitlement::{self, FirstCopyEntitlement, Refusal};
use countersign_model::license::{License, LicenseState};
use countersign_model::license_key::LicenseId;
use countersign_model::manifest::LatestRelease;
use countersign_model::site_claim::ClaimStep;
use countersign_model::site_host::SiteHost;
use countersign_model::site_release::ReleaseHash;
use countersign_model::slug::Slug;
use countersign_model::statement::Verdict;
use countersign_model::version::Version;
use countersign_package::catalog::{Catalog, FoundPackage, HeldPackage, Offered};
use countersign_registry::Registry;
use countersign_settings::config::SeatRules;
use countersign_settings::keys::license_secrets::LicenseSecrets;
use countersign_settings::keys::secret_keys::DownloadKeys;
use countersign_settings::keys::signing_key::SigningKey;

/// The registry, releases and key at one moment. Replaced as a whole; a request takes it once.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Plugins and licenses.
    pub registry: Arc<Registry>,
    /// Manifests.
    pub catalog: Arc<Catalog>,
    /// The signing key.
    pub key: Arc<SigningKey>,
    /// The other secrets.
    pub secrets: Secrets,
}

/// Secrets that only some instances need. Nodes share them.
#[derive(Clone, Debug, Default)]
pub struct Secrets {
    /// The keys that make links and build ids; `None` where no package was ever hosted.
    pub downloads: Option<Arc<DownloadKeys>>,
    /// The keys that issue licenses; `None` where no machine issues any.
    pub licensing: Option<Arc<LicenseSecrets>>,
}

/// The current snapshot and the store of bindings.
pub struct Gate {
    snapshot: ArcSwap<Snapshot>,
    /// Locked while a part is replaced, because each part has its own thread.
    changing: Mutex<()>,
    bindings: Arc<Ledger>,
    rules: SeatRules,
}

/// A site's request about a license.
#[derive(Debug)]
pub struct LicenseRequest<'a> {
    /// The license.
    pub id: &'a LicenseId,
    /// The license in the registry or in the ledger, if its key is known.
    pub license: Option<&'a License>,
    /// The site.
    pub host: &'a SiteHost,
    /// The time of the request, and what the site reports.
    pub check_in: CheckIn<'a>,
}

/// What a site sends of its secrets with a validation.
#[derive(Clone, Copy, Debug, Default)]
pub struct SentHashes {
    /// The hash of the secret that shall release the site, if this validation binds it.
    pub release_hash: Option<ReleaseHash>,
    /// The hash of the secret with which a person takes the seat back that the site moved away from.
    pub proof: Option<ReleaseHash>,
}

/// The result of a validation.
#[derive(Debug)]
pub struct Decision {
    /// The answer to "am I licensed?".
    pub verdict: Verdict,
    /// The first bound host, if the license is bound to another site.
    pub bound_domain: Option<SiteHost>,
    /// The hash with which a claim of the site could begin, if its customer is told.
    pub new_claim: Option<ReleaseHash>,
}

/// A package that may be sent.
#[derive(Debug)]
pub struct PermittedDownload {
    /// By which license.
    pub license: LicenseId,
    /// The site; `None` for a first copy, before any site is bound.
    pub host: Option<SiteHost>,
    /// The plugin.
    pub slug: Slug,
    /// The release.
    pub version: Version,
    /// Where the package stands.
    pub path: PathBuf,
    /// What it is.
    pub package: HeldPackage,
}

impl Gate {
    /// A gate with this snapshot and these bindings.
    pub fn new(snapshot: Snapshot, bindings: Arc<Ledger>, rules: SeatRules) -> Self {
        bindings.announce(secrets_of(&snapshot));
        Self {
            snapshot: ArcSwap::from_pointee(snapshot),
            changing: Mutex::default(),
            bindings,
            rules,
        }
    }

    /// The current snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// The current snapshot, for an answer without waiting: avoids a counter that all cores share.
    pub fn load(&self) -> Guard<Arc<Snapshot>> {
        self.snapshot.load()
    }

    /// Replaces the snapshot and returns the old one. Running requests finish with the one they took.
    pub fn change(&self, change: impl FnOnce(&mut Snapshot)) -> Arc<Snapshot> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.snapshot();
        let mut next = Snapshot::clone(&before);
        change(&mut next);
        let secrets = secrets_of(&next);
        if secrets != secrets_of(&before) {
            self.bindings.announce(secrets);
        }
        self.snapshot.store(Arc::new(next));
        before
    }

    /// The store of bindings.
    pub fn bindings(&self) -> &Ledger {
        &self.bindings
    }

    /// The server's settings about seats.
    pub(crate) fn rules(&self) -> &SeatRules {
        &self.rules
    }

    /// The same for work on another thread.
    pub fn shared_bindings(&self) -> Arc<Ledger> {
        Arc::clone(&self.bindings)
    }

    /// The license with this id: of a file, or else of the ledger.
    pub fn license<'s>(&self, snapshot: &'s Snapshot, id: &LicenseId) -> Option<FoundLicense<'s>> {
        found_license::find(&snapshot.registry, &self.bindings, id)
    }

    /// Issues or changes a license of the ledger.
    ///
    /// # Errors
    /// A file has the license, or nothing was written.
    pub async fn change_license(&self, change: LedgerChange) -> Result<ChangeOutcome, ChangeError> {
        found_license::change(&self.snapshot().registry, &self.bindings, change).await
    }

    /// Checks a license for a site, and binds the site if there is a free seat, or one that it may take back. Only an active
    /// license binds.
    ///
    /// # Errors
    /// The binding could not be written to disk; nothing was decided.
    pub async fn validate(
        &self,
        license_request: &LicenseRequest<'_>,
        sent: SentHashes,
    ) -> Result<Decision, StoreError> {
        let LicenseRequest {
            id,
            license,
            host,
            check_in,
        } = license_request;
        if !self.bindings.may_issue() {
            return Err(StoreError::Differs);
        }
        let Some(license) = license else {
            return Ok(Decision {
                verdict: Verdict::UnknownLicense,
                bound_domain: None,
                new_claim: None,
            });
        };
        let now = check_in.time;
        let state = license.state(now.date_naive());
        let request = SeatRequest {
            license,
            host,
            release_hash: sent.release_hash,
            proof: sent.proof,
            staging: &self.rules.staging,
            now,
        };
        let (verdict, bound_domain) = match state {
            LicenseState::Expired => (Verdict::Expired, None),
            LicenseState::Suspended => (Verdict::Suspended, None),
            LicenseState::Revoked => (Verdict::Revoked, None),
            LicenseState::Active if self.is_exempt(host) => (Verdict::Ok, None),
            LicenseState::Active => match self.bindings.bind(request).await? {
                BindOutcome::Bound => {
                    self.bindings.report(id, &self.bindings.of(id), host, check_in);
                    (Verdict::Ok, None)
                }
                BindOutcome::Elsewhere { first } => (Verdict::BoundElsewhere, Some(first)),
            },
        };
        let mut new_claim = None;
        if let Some(hash) = sent.release_hash.filter(|_| !self.is_exempt(host)) {
            // Whatever the license's state is: who has the bound hash ends a claim.
            let seen = SeenHash {
                license,
                host,
                hash,
                is_active: state == LicenseState::Active,
                may_begin: true,
                now,
            };
            match self.bindings.step_after(&seen) {
                None => {}
                Some(ClaimStep::Begun) => new_claim = Some(hash),
                Some(_) => {
                    let seen = SeenHash {
                        may_begin: false,
                        ..seen
                    };
                    if let Some(step) = self.bindings.see_hash(seen).await? {
                        tracing::info!(license = id.log_tag(), site = %host, step = <&str>::from(step), "a site that was installed again");
                    }
                }
            }
        }
        Ok(Decision {
            verdict,
            bound_domain,
            new_claim,
        })
    }

    /// Makes the five entitlement checks and hands out the latest release if it is newer than `current`; `None` means
    /// that the site is up to date. Reads bindings and never changes them.
    pub fn manifest<'s>(
        &self,
        snapshot: &'s Snapshot,
        license_request: &LicenseRequest<'_>,
        bound: &BoundSites<'_>,
        slug: &str,
        current: Option<&Version>,
    ) -> Result<Option<&'s Offered>, Refusal> {
        let LicenseRequest {
            id,
            license,
            host,
            check_in,
        } = license_request;
        let today = check_in.time.date_naive();
        if self.is_exempt(host) {
            // Under this rule such a host has no binding, even if it was bound under another rule.
            return Err(entitlement::require_active(*license, today)
                .err()
                .unwrap_or(Refusal::LicenseNotBound));
        }
        let plugin = snapshot.registry.plugin(slug);
        let entitlement = entitlement::decide(*license, bound, &self.rules.staging, host, plugin, today)?;
        self.bindings.report(id, bound, host, check_in);
        Ok(snapshot.catalog.manifest(&entitlement, current))
    }

    /// Makes the same checks for the site of a link, and hands out the package; `None` if that version is not
    /// published. The link has only a tag of its host, by which the host is found.
    pub fn package(
        &self,
        snapshot: &Snapshot,
        link: &DownloadLink,
        key: &DownloadKey,
        (slug, version): (&Slug, &Version),
        now: DateTime<Utc>,
    ) -> Result<Option<PermittedDownload>, Refusal> {
        let today = now.date_naive();
        let found = found_license::beginning_with(&snapshot.registry, &self.bindings, &link.license);
        let license = entitlement::require_active(found.as_deref(), today)?;
        let bound = self.bindings.of(&license.id);
        let tag = link.host_tag();
        let listed = license.details.hosts.tagged(key, tag);
        let host = listed.or_else(|| bound.tagged(key, tag).map(|binding| &binding.host));
        let host = host
            .filter(|host| !self.is_exempt(host))
            .ok_or(Refusal::LicenseNotBound)?;
        let plugin = snapshot.registry.plugin(slug.as_str());
        let entitlement = entitlement::decide(Some(license), &bound, &self.rules.staging, host, plugin, today)?;
        let package = snapshot.catalog.package(&entitlement, version);
        Ok(package.map(|(path, package)| PermittedDownload {
            license: license.id,
            host: Some(host.clone()),
            slug: slug.clone(),
            version: version.clone(),
            path,
            package: *package,
        }))
    }

    /// Makes the checks that need no site, and hands out the package of this version, or of the newest one; `None` if it is not
    /// published, withheld or a pre-release.
    pub fn first_copy(
        &self,
        snapshot: &Snapshot,
        license: Option<&License>,
        (slug, version): (&str, Option<&Version>),
        now: DateTime<Utc>,
    ) -> Result<Option<PermittedDownload>, Refusal> {
        let plugin = snapshot.registry.plugin(slug);
        let entitlement = entitlement::decide_first_copy(license, plugin, now.date_naive())?;
        let newest = newest_package(snapshot, &entitlement, version);
        let license = license.map(|license| license.id);
        Ok(newest
            .zip(license)
            .map(|(found, license)| permitted(found, &entitlement, license, None)))
    }

    /// Makes the five entitlement checks for a site, and hands out the package of this version, or of the newest one; `None` as
    /// for a first copy.
    pub fn package_for(
        &self,
        snapshot: &Snapshot,
        license: &LicenseId,
        host: &SiteHost,
        (slug, version): (&str, Option<&Version>),
        now: DateTime<Utc>,
    ) -> Result<Option<PermittedDownload>, Refusal> {
        let today = now.date_naive();
        let found = self.license(snapshot, license);
        if self.is_exempt(host) {
            entitlement::require_active(found.as_deref(), today)?;
            return Err(Refusal::LicenseNotBound);
        }
        let bound = self.bindings.of(license);
        let plugin = snapshot.registry.plugin(slug);
        let staging = &self.rules.staging;
        let entitlement = entitlement::decide(found.as_deref(), &bound, staging, host, plugin, today)?.into();
        let newest = newest_package(snapshot, &entitlement, version);
        Ok(newest.map(|found| permitted(found, &entitlement, *license, Some(host))))
    }

    /// What a site with an expired license may learn of the latest release; `None` if nothing.
    pub fn latest_for_expired(
        &self,
        snapshot: &Snapshot,
        license_request: &LicenseRequest<'_>,
        bound: &BoundSites<'_>,
        slug: &str,
        current: Option<&Version>,
    ) -> Option<LatestRelease> {
        let today = license_request.check_in.time.date_naive();
        let plugin = snapshot.registry.plugin(slug);
        let entitled = entitlement::decide_notice(license_request.license, bound, license_request.host, plugin, today)?;
        snapshot.catalog.latest(&entitled, current)
    }
}

/// The newest stable package that the plugin's entry does not withhold, or the one of this version.
fn newest_package<'s>(
    snapshot: &'s Snapshot,
    entitlement: &FirstCopyEntitlement<'_>,
    version: Option<&Version>,
) -> Option<FoundPackage<'s>> {
    let plugin = snapshot.registry.plugin(entitlement.slug().as_str());
    let is_wanted = |candidate: &Version| {
        version.is_none_or(|version| version == candidate) && plugin.is_some_and(|plugin| !plugin.withholds(candidate))
    };
    snapshot.catalog.newest_package(entitlement, is_wanted)
}

/// The download of a package that was found.
fn permitted(
    found: FoundPackage<'_>,
    entitlement: &FirstCopyEntitlement<'_>,
    license: LicenseId,
    host: Option<&SiteHost>,
) -> PermittedDownload {
    PermittedDownload {
        license,
        host: host.cloned(),
        slug: entitlement.slug().clone(),
        version: found.version.clone(),
        path: found.path,
        package: *found.package,
    }
}

/// What other nodes may know of the secrets in use.
fn secrets_of(snapshot: &Snapshot) -> NodeSecrets {
    let Secrets { downloads, licensing } = &snapshot.secrets;
    NodeSecrets {
        key_id: snapshot.key.public().key_id().to_string(),
        downloads: downloads
            .as_ref()
            .map(|keys| keys.current().fingerprint())
            .unwrap_or_default(),
        licensing: licensing.as_ref().map(|keys| keys.fingerprint()).unwrap_or_default(),
    }
}
