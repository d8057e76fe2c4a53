//! Links to packages, made for a site that asks for updates and inserted into its manifest; and links to the page with first
//! copies, for mails.
//!
//! The manifest is not copied: the response is sent in pieces around the link.
//! [`downloads`](crate::serve::api::downloads) and [`first_copy_page`](crate::serve::first_copy_page) accept the links.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use chrono::{DateTime, NaiveDate, Utc};

use crate::serve::reply::body::Payload;
use countersign_model::download_link::DownloadLink;
use countersign_model::first_copy_link::{self, FirstCopyLink};
use countersign_model::license::{License, LicenseStatus};
use countersign_model::license_key::LicenseId;
use countersign_model::name::Name;
use countersign_model::period::NEVER;
use countersign_model::plugin::Plugin;
use countersign_model::renewal_token::RenewalToken;
use countersign_model::shop_link::{LicenseLinks, ShopLinks};
use countersign_model::site_host::SiteHost;
use countersign_package::catalog::Offered;
use countersign_registry::offers::Offers;
use countersign_settings::config::PublicUrl;
use countersign_settings::keys::secret_keys::DownloadKeys;

/// The common prefix of all packages' paths.
pub const DOWNLOADS: &str = "/api/v1/downloads/";

/// The part of a link after the token, which browsers and WordPress use as the file's name.
pub fn file_name(slug: &str, version: &str) -> String {
    format!("{slug}-{version}.zip")
}

/// The common prefix of all links.
#[derive(Clone, Debug)]
pub struct PackageLinks {
    public_url: Option<PublicUrl>,
}

/// What links to pages with first copies are made with.
#[derive(Clone, Debug)]
pub struct FirstCopyPages {
    public_url: PublicUrl,
    keys: Arc<DownloadKeys>,
    /// The modules of plugins whose packages are here.
    modules: BTreeSet<Name>,
}

impl FirstCopyPages {
    /// Pages of a server with this public URL and these plugins.
    pub fn new<'p>(public_url: PublicUrl, keys: Arc<DownloadKeys>, plugins: impl Iterator<Item = &'p Plugin>) -> Self {
        let hosted = plugins.filter(|plugin| plugin.hosts_packages());
        Self {
            public_url,
            keys,
            modules: hosted.map(|plugin| plugin.module.clone()).collect(),
        }
    }

    /// The link to the page of a license that is told on `day`; `None` if the license covers no plugin whose packages are here.
    pub fn link(&self, license: &License, day: NaiveDate) -> Option<String> {
        let mut covered = license.modules.keys();
        covered.find(|module| self.modules.contains(*module))?;
        let token = FirstCopyLink::new(&license.id, day).token(self.keys.current())?;
        Some(format!("{}{}{token}", self.public_url.as_str(), first_copy_link::PATH))
    }
}

/// Where a license is renewed and upgraded: as its offer says, or else as the server's settings do. A license that is withdrawn has no
/// such page.
pub fn license_links(
    license: &License,
    offers: &Offers,
    settings: &ShopLinks,
    keys: Option<&DownloadKeys>,
) -> LicenseLinks {
    // What a file declares is not changed by a sale.
    if license.is_declared || license.status == LicenseStatus::Revoked {
        return LicenseLinks::default();
    }
    let sold = license.details.remarks().sold.as_deref();
    let offer = sold.and_then(|sold| offers.named(sold.offer.as_ref()?.as_str()).ok());
    let renew = offer
        .and_then(|offer| offer.links.renew.as_ref())
        .or(settings.renew.as_ref());
    let upgrade = offer
        .and_then(|offer| offer.links.upgrade.as_ref())
        .or(settings.upgrade.as_ref());
    let token = keys.map(|keys| RenewalToken::new(keys.current(), &license.id));
    let has_end = license.expires != NEVER && !license.renews();
    LicenseLinks {
        token,
        renew: renew.filter(|_| has_end).and_then(|link| link.with(token)),
        upgrade: upgrade.and_then(|link| link.with(token)),
    }
}

/// Who gets a link, and when.
#[derive(Clone, Copy, Debug)]
pub struct LinkHolder<'a> {
    /// The license.
    pub license: &'a LicenseId,
    /// The site.
    pub host: &'a SiteHost,
    /// The time of the request.
    pub now: DateTime<Utc>,
}

impl PackageLinks {
    /// Links of a server with this public URL; none without one.
    pub fn new(public_url: Option<PublicUrl>) -> Self {
        Self { public_url }
    }

    /// What they begin with; `None` if the configuration allows no links.
    pub fn public_url(&self) -> Option<&PublicUrl> {
        self.public_url.as_ref()
    }

    /// The manifest with the site's link. If no link can be made, its places stay empty, as published; the CMS then
    /// shows the update but cannot install it.
    pub fn fill(&self, offered: &Offered, slug: &str, holder: LinkHolder<'_>, keys: Option<&DownloadKeys>) -> Payload {
        let manifest = &offered.manifest;
        let link = offered.links.zip(keys).and_then(|(places, keys)| {
            let link = self.link(slug, offered.version.as_str(), holder, keys)?;
            Some((places.0, Bytes::from(link)))
        });
        let Some((places, link)) = link else {
            return Payload::Whole(manifest.clone());
        };
        let mut pieces = Vec::with_capacity(2 * places.len() + 1);
        let mut sent = 0;
        for place in places {
            pieces.push(manifest.slice(sent..place));
            pieces.push(link.clone());
            sent = place;
        }
        pieces.push(manifest.slice(sent..));
        Payload::Pieces(pieces)
    }

    fn link(&self, slug: &str, version: &str, holder: LinkHolder<'_>, keys: &DownloadKeys) -> Option<String> {
        let base = self.public_url.as_ref()?.as_str();
        let LinkHolder { license, host, now } = holder;
        let key = keys.current();
        let token = DownloadLink::new(key, license, host, now.date_naive()).token(key, slug, version)?;
        let file = file_name(slug, version);
        // Slugs, versions and tokens have no character that URLs or JSON escape.
        Some(format!("{base}{DOWNLOADS}{slug}/{version}/{token}/{file}"))
    }
}
