//! Entitlements and refusals: proof that a site may have a plugin's manifest, or the reason why not.

use std::collections::BTreeSet;

use chrono::NaiveDate;
use enum_map::Enum;

use crate::binding::Stored;
use crate::channel::{Channel, ChannelRights};
use crate::license::{License, LicenseState};
use crate::plugin::{AfterExpiry, Plugin};
use crate::seat::Seat;
use crate::site_host::SiteHost;
use crate::slug::Slug;
use crate::staging_hosts::StagingRule;

/// Proof that a site may have the manifest of one plugin. Only [`decide`] makes one.
///
/// The catalog needs this proof to give a manifest, so serving without a check does not compile:
///
/// ```compile_fail,E0451
/// use countersign_model::entitlement::Entitlement;
/// let slug = "acme-forms".parse().unwrap();
/// let forged = Entitlement { slug: &slug };
/// ```
///
/// Without the last line it compiles, so that nothing but that line is refused:
///
/// ```
/// use countersign_model::entitlement::Entitlement;
/// let slug: countersign_model::slug::Slug = "acme-forms".parse().unwrap();
/// fn made_elsewhere(entitlement: &Entitlement) -> bool {
///     entitlement.slug().as_str() == "acme-forms"
/// }
/// ```
#[derive(Debug)]
pub struct Entitlement<'a> {
    slug: &'a Slug,
}

impl Entitlement<'_> {
    /// The plugin.
    pub fn slug(&self) -> &Slug {
        self.slug
    }
}

/// Why a site may not have a manifest.
#[derive(Clone, Copy, Debug, Enum, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// No license has this key.
    UnknownLicense,
    /// The license is past its last day.
    LicenseExpired,
    /// The vendor suspended the license.
    LicenseSuspended,
    /// The vendor revoked the license.
    LicenseRevoked,
    /// The site never validated the license.
    LicenseNotBound,
    /// The site is on localhost or in a private network, which the setting `local_hosts` lets try the plugin without a seat.
    TrialSite,
    /// The license has no free site, and is bound to other sites.
    BoundElsewhere,
    /// No plugin has this slug.
    UnknownPlugin,
    /// The plugin's registry entry has no repository.
    SourceNotConfigured,
    /// The license does not cover the plugin's module.
    PluginNotCovered,
}

impl Refusal {
    /// Whether it rests on licenses and bindings, which another node may have changed in the ledger. Such a refusal needs a
    /// second look.
    pub fn rests_on_ledger(self) -> bool {
        !matches!(self, Self::UnknownPlugin | Self::SourceNotConfigured)
    }
}

/// The license, if there is one and it is active on `today` (UTC).
pub fn require_active(license: Option<&License>, today: NaiveDate) -> Result<&License, Refusal> {
    let license = license.ok_or(Refusal::UnknownLicense)?;
    match license.state(today) {
        LicenseState::Active => Ok(license),
        LicenseState::Expired => Err(Refusal::LicenseExpired),
        LicenseState::Suspended => Err(Refusal::LicenseSuspended),
        LicenseState::Revoked => Err(Refusal::LicenseRevoked),
    }
}

/// Makes the five entitlement checks of the interface (section 4.2).
///
/// The license and its binding are checked first, so that a stranger does not learn which plugins exist. `stored` are
/// the license's durable bindings; `staging` is the server's setting; `today` is the day in UTC.
pub fn decide<'a>(
    license: Option<&License>,
    stored: &(impl Stored + ?Sized),
    staging: &StagingRule,
    host: &SiteHost,
    plugin: Option<&'a Plugin>,
    today: NaiveDate,
) -> Result<Entitlement<'a>, Refusal> {
    let license = require_active(license, today)?;
    let slug = held_and_covered(license, stored, staging, host, plugin)?;
    Ok(Entitlement { slug })
}

/// Proof that a site may learn which release is the latest, and no more: its license has expired, but passes all other
/// checks. Only [`decide_notice`] makes one.
#[derive(Debug)]
pub struct NoticeEntitlement<'a> {
    slug: &'a Slug,
}

impl NoticeEntitlement<'_> {
    /// The plugin.
    pub fn slug(&self) -> &Slug {
        self.slug
    }
}

/// Proof that a site may have a plugin's security releases, although its license may have expired. Only [`decide_security`] makes
/// one.
#[derive(Debug)]
pub struct SecurityEntitlement<'a> {
    slug: &'a Slug,
}

impl<'a> SecurityEntitlement<'a> {
    /// The plugin.
    pub fn slug(&self) -> &'a Slug {
        self.slug
    }
}

/// Makes the checks of [`decide`]. A license that has expired passes too, if the plugin's entry delivers security releases to expired
/// licenses, for as long after the end as it says.
pub fn decide_security<'a>(
    license: Option<&License>,
    stored: &(impl Stored + ?Sized),
    staging: &StagingRule,
    host: &SiteHost,
    plugin: Option<&'a Plugin>,
    today: NaiveDate,
) -> Result<SecurityEntitlement<'a>, Refusal> {
    let license = license.ok_or(Refusal::UnknownLicense)?;
    let delivers = || {
        let rules = plugin.map(|plugin| &plugin.security).filter(|rules| rules.delivers);
        rules.is_some_and(|rules| today <= rules.lasts.after(license.last_day()))
    };
    match require_active(Some(license), today) {
        Err(Refusal::LicenseExpired) if delivers() => {}
        decided => drop(decided?),
    }
    let slug = held_and_covered(license, stored, staging, host, plugin)?;
    Ok(SecurityEntitlement { slug })
}

/// Proof that a person with a license's key or a link from its mail may have a plugin's package before any site is bound. Only
/// [`decide_first_copy`] makes one.
#[derive(Debug)]
pub struct FirstCopyEntitlement<'a> {
    slug: &'a Slug,
}

impl FirstCopyEntitlement<'_> {
    /// The plugin.
    pub fn slug(&self) -> &Slug {
        self.slug
    }
}

/// A site that may have the manifest may have the package.
impl<'a> From<Entitlement<'a>> for FirstCopyEntitlement<'a> {
    fn from(entitlement: Entitlement<'a>) -> Self {
        Self { slug: entitlement.slug }
    }
}

/// Proof that a site may fetch releases with Composer: all of its channel, or those of the days before its license ended. Only
/// [`decide_composer`] makes one.
#[derive(Debug)]
pub struct ComposerEntitlement<'a> {
    slug: &'a Slug,
    listed: BTreeSet<Channel>,
    rights: &'a ChannelRights,
    until: Option<NaiveDate>,
}

impl<'a> ComposerEntitlement<'a> {
    /// The plugin.
    pub fn slug(&self) -> &'a Slug {
        self.slug
    }

    /// Whether it may have a release of this channel and this day.
    pub fn includes(&self, channel: Channel, released: NaiveDate) -> bool {
        self.rights.granted(channel, &self.listed) == channel && self.until.is_none_or(|last| released <= last)
    }
}

/// Makes the checks of [`decide`]. A license that has expired passes if the plugin's entry leaves it what was released before.
pub fn decide_composer<'a>(
    license: Option<&License>,
    stored: &(impl Stored + ?Sized),
    staging: &StagingRule,
    host: &SiteHost,
    plugin: Option<&'a Plugin>,
    today: NaiveDate,
) -> Result<ComposerEntitlement<'a>, Refusal> {
    let license = license.ok_or(Refusal::UnknownLicense)?;
    let keeps_earlier = plugin.is_some_and(|plugin| plugin.after_expiry == AfterExpiry::Earlier);
    let until = match require_active(Some(license), today) {
        Ok(_) => None,
        Err(Refusal::LicenseExpired) if keeps_earlier => Some(license.last_day()),
        Err(refusal) => return Err(refusal),
    };
    let slug = held_and_covered(license, stored, staging, host, plugin)?;
    let plugin = plugin.ok_or(Refusal::UnknownPlugin)?;
    Ok(ComposerEntitlement {
        slug,
        listed: license.details.rights.channels.clone(),
        rights: &plugin.channels,
        until,
    })
}

/// Makes the checks of [`decide`] except for the site: the license is active, and covers the plugin.
pub fn decide_first_copy<'a>(
    license: Option<&License>,
    plugin: Option<&'a Plugin>,
    today: NaiveDate,
) -> Result<FirstCopyEntitlement<'a>, Refusal> {
    let slug = covered(require_active(license, today)?, plugin)?;
    Ok(FirstCopyEntitlement { slug })
}

/// Whether a site with an expired license may learn of the latest release: the license is bound to this site and
/// covers the plugin.
pub fn decide_notice<'a>(
    license: Option<&License>,
    stored: &(impl Stored + ?Sized),
    host: &SiteHost,
    plugin: Option<&'a Plugin>,
    today: NaiveDate,
) -> Option<NoticeEntitlement<'a>> {
    let license = license.filter(|license| matches!(license.state(today), LicenseState::Expired))?;
    let slug = held_and_covered(license, stored, &StagingRule::NONE, host, plugin).ok()?;
    Some(NoticeEntitlement { slug })
}

/// The plugin's slug, if the license is bound to this site and covers the plugin.
fn held_and_covered<'a>(
    license: &License,
    stored: &(impl Stored + ?Sized),
    staging: &StagingRule,
    host: &SiteHost,
    plugin: Option<&'a Plugin>,
) -> Result<&'a Slug, Refusal> {
    match license.seat(stored, staging, host) {
        Seat::Held => {}
        Seat::Free => return Err(Refusal::LicenseNotBound),
        Seat::Taken { .. } => return Err(Refusal::BoundElsewhere),
    }
    covered(license, plugin)
}

/// The plugin's slug, if it has releases here and the license covers it.
fn covered<'a>(license: &License, plugin: Option<&'a Plugin>) -> Result<&'a Slug, Refusal> {
    let plugin = plugin.ok_or(Refusal::UnknownPlugin)?;
    if plugin.source.is_none() {
        return Err(Refusal::SourceNotConfigured);
    }
    if !license.modules.contains_key(&plugin.module) {
        return Err(Refusal::PluginNotCovered);
    }
    Ok(&plugin.slug)
}
