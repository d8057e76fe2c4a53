//! The gate: decides who gets a statement, a manifest or a package. Nothing else decides this.

pub(crate) mod release;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, Guard};
use chrono::{DateTime, Utc};

use crate::serve::found_license::{self, ChangeError, FoundLicense};
use countersign_ledger::{
    BindOutcome, BoundSites, ChangeOutcome, Ledger, LedgerChange, NodeSecrets, SeatRequest, SeenHash, StoreError,
};
use countersign_model::binding::{CheckIn, Stored};
use countersign_model::channel::Channel;
use countersign_model::download_key::DownloadKey;
use countersign_model::download_link::DownloadLink;
use countersign_model::entitlement::{
    self, ComposerEntitlement, Entitlement, FirstCopyEntitlement, Refusal, SecurityEntitlement,
};
use countersign_model::license::{License, LicenseState};
use countersign_model::license_key::LicenseId;
use countersign_model::manifest::LatestRelease;
use countersign_model::plugin::Plugin;
use countersign_model::release_rules::{BackRefusal, RuledRelease};
use countersign_model::rollout::{HoldRule, OtherClients, PluginRollouts, RolloutPhase, RolloutSettings};
use countersign_model::seat::Seat;
use countersign_model::site_claim::ClaimStep;
use countersign_model::site_host::SiteHost;
use countersign_model::site_release::ReleaseHash;
use countersign_model::slug::Slug;
use countersign_model::statement::Verdict;
use countersign_model::version::Version;
use countersign_model::wave::{self, WaitingSite, WaveHold, WavePosition, WaveWish};
use countersign_model::way_back::{self, WayBack};
use countersign_package::catalog::{Catalog, FoundPackage, HeldPackage, Offered, PublishedRelease};
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

/// Which release a site asks for.
#[derive(Clone, Copy, Debug, Default)]
pub struct UpdateWish<'a> {
    /// The version that it runs; `None` if it does not say.
    pub current: Option<&'a Version>,
    /// What the answer has to be newer than; `None` if the site compares versions itself.
    pub newer_than: Option<&'a Version>,
    /// The channel whose releases it wants.
    pub channel: Channel,
    /// Whether its client knows what "held" means.
    pub holds: bool,
    /// With which share of the sites it wants a release.
    pub wave: Option<WaveWish>,
}

/// A release for a site.
#[derive(Clone, Copy, Debug)]
pub struct SiteOffer<'s> {
    /// The release.
    pub release: &'s Offered,
    /// Whether the site shall not install it by itself yet.
    pub held: Option<WaveHold>,
}

/// A site that asks for a release other than the latest.
#[derive(Clone, Copy, Debug)]
pub struct RequestedSite<'a> {
    /// The license.
    pub id: &'a LicenseId,
    /// The site.
    pub host: &'a SiteHost,
    /// The time of the request.
    pub now: DateTime<Utc>,
}

/// The releases that a site may go back to.
#[derive(Debug)]
pub struct EarlierReleases<'s> {
    /// Proof that it may have them.
    pub entitlement: Entitlement<'s>,
    /// Those of its license.
    channels: BTreeSet<Channel>,
    way: WayBack<'s>,
    catalog: &'s Catalog,
}

/// Who asks for packages with Composer.
#[derive(Clone, Debug)]
pub struct ComposerAsker {
    /// The license.
    pub id: LicenseId,
    /// The site.
    pub host: SiteHost,
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
    /// The hash with which a claim of the site could begin, if its customer is notified.
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
    /// Where the package is.
    pub path: PathBuf,
    /// What it is.
    pub package: HeldPackage,
    /// Whether the license has expired, and the site gets the package because it is a security release.
    pub is_after_end: bool,
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
            // Whatever the license's state is: a site with the bound hash ends a claim.
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

    /// Makes the five entitlement checks and hands out the latest release if it is newer than what the site has; `None` means that
    /// there is nothing for the site now. Reads bindings and never changes them.
    pub fn manifest<'s>(
        &self,
        snapshot: &'s Snapshot,
        license_request: &LicenseRequest<'_>,
        bound: &BoundSites<'_>,
        slug: &str,
        wish: &UpdateWish<'_>,
    ) -> Result<Option<SiteOffer<'s>>, Refusal> {
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
                .unwrap_or(Refusal::TrialSite));
        }
        let plugin = snapshot.registry.plugin(slug);
        let entitlement = entitlement::decide(*license, bound, &self.rules.staging, host, plugin, today)?;
        self.bindings.report(id, bound, host, check_in);
        let channel = match (wish.channel, plugin, license) {
            (Channel::Stable, ..) => Channel::Stable,
            (asked, Some(plugin), Some(license)) => plugin.channels.granted(asked, &license.details.rights.channels),
            _ => Channel::Stable,
        };
        let latest = snapshot.catalog.manifest(&entitlement, channel, wish.newer_than);
        let Some(release) = latest else { return Ok(None) };
        let waits = plugin.and_then(|plugin| {
            let settings = plugin.rollout.as_ref()?;
            let rollouts = self.bindings.rollouts(&plugin.slug)?;
            // Most releases are everybody's, and what a site has already is not held from it.
            let known = rollouts.of(&release.version);
            let is_over = known.is_some_and(|rollout| rollout.phase() == RolloutPhase::Finished);
            let has_it = |current: &Version| wish.newer_than.is_none() && current.cmp_php(&release.version).is_ge();
            if is_over || wish.current.is_some_and(has_it) {
                return None;
            }
            let site = WaitingSite {
                current: wish.current,
                channel,
                position: WavePosition::of(&plugin.slug, &release.version, host, wish.wave),
                is_copy: license.is_some_and(|license| license.is_copy(bound, &self.rules.staging, host)),
                lacks_security: lacks_security(snapshot, plugin, release, channel, wish.current),
            };
            let held = wave::held(&site, &release.version, &rollouts, settings, check_in.time)?;
            Some(HeldOffer {
                held,
                settings,
                rollouts,
            })
        });
        let Some(waiting) = waits else {
            return Ok(Some(SiteOffer { release, held: None }));
        };
        let shown = match (waiting.settings.hold, wish.holds, waiting.settings.others) {
            (HoldRule::Automatic, true, _) => Some(SiteOffer {
                release,
                held: Some(waiting.held),
            }),
            (HoldRule::Automatic, false, OtherClients::Offer) => Some(SiteOffer { release, held: None }),
            _ => {
                let before = snapshot.catalog.manifest_before(&entitlement, channel, wish.newer_than);
                // Otherwise a release would reach everybody when the next one comes.
                let is_ready = |release: &&Offered| waiting.gives_way_to(&release.version, check_in.time);
                before.filter(is_ready).map(|release| SiteOffer { release, held: None })
            }
        };
        Ok(shown)
    }

    /// Makes the same checks for the site of a link, and hands out the package; `None` if that version is not
    /// published. The link has only a tag of its host, by which the host is found. An expired license gets a security release by a link
    /// that [`security_update`](Self::security_update) was answered with, and of a line that the entry still delivers.
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
        let license = found.as_deref().ok_or(Refusal::UnknownLicense)?;
        let plugin = snapshot.registry.plugin(slug.as_str());
        let is_delivered = |plugin: &Plugin| {
            link.line.is_some_and(|line| line <= plugin.security.lines)
                && is_security_release(snapshot, plugin, version)
        };
        match entitlement::require_active(Some(license), today) {
            Err(Refusal::LicenseExpired) if plugin.is_some_and(is_delivered) => {}
            decided => drop(decided?),
        }
        let bound = self.bindings.of(&license.id);
        let tag = link.host_tag();
        let listed = license.details.hosts.tagged(key, tag);
        let host = listed.or_else(|| bound.tagged(key, tag).map(|binding| &binding.host));
        let host = host
            .filter(|host| !self.is_exempt(host))
            .ok_or(Refusal::LicenseNotBound)?;
        let staging = &self.rules.staging;
        let (package, is_after_end) = match entitlement::decide(Some(license), &bound, staging, host, plugin, today) {
            Ok(entitlement) => (snapshot.catalog.package(&entitlement, version), false),
            Err(Refusal::LicenseExpired) => {
                let entitlement = entitlement::decide_security(Some(license), &bound, staging, host, plugin, today)?;
                (snapshot.catalog.security_package(&entitlement, version), true)
            }
            Err(refusal) => return Err(refusal),
        };
        Ok(package.map(|(path, package)| PermittedDownload {
            license: license.id,
            host: Some(host.clone()),
            slug: slug.clone(),
            version: version.clone(),
            path,
            package: *package,
            is_after_end,
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
            return Err(Refusal::TrialSite);
        }
        let bound = self.bindings.of(license);
        let plugin = snapshot.registry.plugin(slug);
        let staging = &self.rules.staging;
        let entitlement = entitlement::decide(found.as_deref(), &bound, staging, host, plugin, today)?.into();
        let newest = newest_package(snapshot, &entitlement, version);
        Ok(newest.map(|found| permitted(found, &entitlement, *license, Some(host))))
    }

    /// Makes the five entitlement checks, and finds out how far back a site with `current` may go.
    pub fn earlier<'s>(
        &self,
        snapshot: &'s Snapshot,
        site: &RequestedSite<'_>,
        slug: &str,
        current: &'s Version,
    ) -> Result<EarlierReleases<'s>, Refusal> {
        let plugin = snapshot.registry.plugin(slug);
        let (license, bound) = self.of_site(snapshot, site)?;
        let staging = &self.rules.staging;
        let today = site.now.date_naive();
        let entitlement = entitlement::decide(license.as_deref(), &bound, staging, site.host, plugin, today)?;
        let plugin = plugin.ok_or(Refusal::UnknownPlugin)?;
        let license = license.as_deref().ok_or(Refusal::UnknownLicense)?;
        Ok(EarlierReleases {
            entitlement,
            channels: license.details.rights.channels.clone(),
            way: WayBack::new(plugin, ruled(snapshot, plugin), current),
            catalog: &snapshot.catalog,
        })
    }

    /// Makes the checks for security releases, and finds the greatest one of the line of `current` that is newer; `None` if there is
    /// none.
    pub fn security_update<'s>(
        &self,
        snapshot: &'s Snapshot,
        site: &RequestedSite<'_>,
        slug: &str,
        current: &Version,
    ) -> Result<(SecurityEntitlement<'s>, Option<&'s Version>), Refusal> {
        let plugin = snapshot.registry.plugin(slug);
        let (license, bound) = self.of_site(snapshot, site)?;
        let staging = &self.rules.staging;
        let today = site.now.date_naive();
        let entitlement = entitlement::decide_security(license.as_deref(), &bound, staging, site.host, plugin, today)?;
        let greatest = |plugin| way_back::security_update(plugin, ruled(snapshot, plugin), current);
        Ok((entitlement, plugin.and_then(greatest)))
    }

    /// The license of a site and what is bound to it, unless the setting `local_hosts` exempts the site.
    fn of_site<'s>(
        &self,
        snapshot: &'s Snapshot,
        site: &RequestedSite<'_>,
    ) -> Result<(Option<FoundLicense<'s>>, BoundSites<'_>), Refusal> {
        let license = self.license(snapshot, site.id);
        if self.is_exempt(site.host) {
            entitlement::require_active(license.as_deref(), site.now.date_naive())?;
            return Err(Refusal::TrialSite);
        }
        Ok((license, self.bindings.of(site.id)))
    }

    /// Makes the checks for a site whose developers fetch packages with Composer.
    pub fn composer<'s>(
        &self,
        snapshot: &'s Snapshot,
        asker: &ComposerAsker,
        slug: &str,
        now: DateTime<Utc>,
    ) -> Result<ComposerEntitlement<'s>, Refusal> {
        let site = RequestedSite {
            id: &asker.id,
            host: &asker.host,
            now,
        };
        let (found, bound) = self.of_site(snapshot, &site)?;
        let plugin = snapshot.registry.plugin(slug);
        let staging = &self.rules.staging;
        entitlement::decide_composer(found.as_deref(), &bound, staging, &asker.host, plugin, now.date_naive())
    }

    /// What a site with an expired license may learn of the latest release; `None` if nothing. What the site runs is noted, so that the
    /// vendor sees whether it lacks a security release.
    pub fn latest_for_expired(
        &self,
        snapshot: &Snapshot,
        license_request: &LicenseRequest<'_>,
        bound: &BoundSites<'_>,
        slug: &str,
        current: Option<&Version>,
    ) -> Option<LatestRelease> {
        let LicenseRequest {
            id,
            license,
            host,
            check_in,
        } = license_request;
        let plugin = snapshot.registry.plugin(slug);
        let entitled = entitlement::decide_notice(*license, bound, host, plugin, check_in.time.date_naive())?;
        if !self.is_exempt(host) {
            self.bindings.report(id, bound, host, check_in);
        }
        snapshot.catalog.latest(&entitled, current)
    }

    /// Whether the license is active and this site holds a seat, or needs none. Reads bindings and never changes them.
    pub(crate) fn is_active_on(&self, license: &License, host: &SiteHost, check_in: &CheckIn<'_>) -> bool {
        if license.state(check_in.time.date_naive()) != LicenseState::Active {
            return false;
        }
        if self.is_exempt(host) {
            return true;
        }
        let bound = self.bindings.of(&license.id);
        let is_held = license.seat(&bound, &self.rules.staging, host) == Seat::Held;
        if is_held {
            self.bindings.report(&license.id, &bound, host, check_in);
        }
        is_held
    }
}

/// A site that has to wait for a release.
struct HeldOffer<'s> {
    held: WaveHold,
    settings: &'s RolloutSettings,
    rollouts: Arc<PluginRollouts>,
}

impl HeldOffer<'_> {
    /// Whether the site may have this release meanwhile.
    fn gives_way_to(&self, version: &Version, now: DateTime<Utc>) -> bool {
        wave::is_for_everybody(version, &self.rollouts, self.settings, now)
    }
}

impl<'s> EarlierReleases<'s> {
    /// All of them, newest first.
    pub fn all(&self) -> impl Iterator<Item = &'s PublishedRelease> {
        let published = self.catalog.published(self.entitlement.slug()).iter();
        published.filter(|release| self.refusal(release).is_none())
    }

    /// The one of this version.
    ///
    /// # Errors
    /// The site may not go back to it.
    pub fn one(&self, version: &Version) -> Result<&'s PublishedRelease, BackRefusal> {
        let mut published = self.catalog.published(self.entitlement.slug()).iter();
        let release = published.find(|release| release.version == *version);
        let release = release.ok_or(BackRefusal::NotPublished)?;
        self.refusal(release).map_or(Ok(release), Err)
    }

    fn refusal(&self, release: &PublishedRelease) -> Option<BackRefusal> {
        let version = &release.version;
        let is_hosted = || self.catalog.hosts(self.entitlement.slug(), version);
        let refusal = self.way.refusal(version, &self.channels);
        refusal.or_else(|| (!is_hosted()).then_some(BackRefusal::NoPackage))
    }
}

impl Snapshot {
    /// Reads the manifests of releases before the latest, of the plugins whose releases come in steps: no other site gets them. Blocks.
    pub(crate) fn read_before(&self) {
        let stepwise = self.registry.plugins().filter(|plugin| plugin.rollout.is_some());
        stepwise.for_each(|plugin| self.catalog.read_before(&plugin.slug));
    }
}

/// The published releases of a plugin, newest first.
pub(crate) fn ruled<'s>(snapshot: &'s Snapshot, plugin: &'s Plugin) -> impl Iterator<Item = RuledRelease<'s>> {
    let published = snapshot.catalog.published(&plugin.slug).iter();
    published.map(|release| RuledRelease {
        version: &release.version,
        security: release.security || plugin.security.names(&release.version),
    })
}

/// Whether a published release is a security release that the plugin's entry does not withhold.
fn is_security_release(snapshot: &Snapshot, plugin: &Plugin, version: &Version) -> bool {
    let is_it = |release: RuledRelease<'_>| release.security && release.version == version;
    !plugin.withholds(version) && ruled(snapshot, plugin).any(is_it)
}

/// Whether a release is a security release, or the site lacks an older one of its channel.
fn lacks_security(
    snapshot: &Snapshot,
    plugin: &Plugin,
    release: &Offered,
    channel: Channel,
    current: Option<&Version>,
) -> bool {
    // The entry may name it after the build.
    let is_security = release.security || plugin.security.names(&release.version);
    let Some(current) = current else {
        return is_security;
    };
    let mut lacked = ruled(snapshot, plugin).take_while(|published| published.version.cmp_php(current).is_gt());
    let is_of_channel = |version: &Version| version.channel().is_some_and(|its| its <= channel);
    is_security || lacked.any(|published| published.security && is_of_channel(published.version))
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
        is_after_end: false,
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
