//! Links to packages, made for a site that asks for updates and inserted into its manifest.
//!
//! The manifest is not copied: the response is sent in pieces around the link.
//! [`downloads`](crate::serve::api::downloads) accepts the links.

use bytes::Bytes;
use chrono::{DateTime, Utc};

use crate::serve::reply::body::Payload;
use countersign_model::download_link::DownloadLink;
use countersign_model::license_key::LicenseId;
use countersign_model::site_host::SiteHost;
use countersign_package::catalog::Offered;
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
    base: Option<String>,
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
    pub fn new(public_url: Option<&PublicUrl>) -> Self {
        let base = public_url.map(|url| format!("{}{DOWNLOADS}", url.as_str()));
        Self { base }
    }

    /// Whether the configuration allows links.
    pub fn have_an_address(&self) -> bool {
        self.base.is_some()
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
        let base = self.base.as_ref()?;
        let LinkHolder { license, host, now } = holder;
        let key = keys.current();
        let token = DownloadLink::new(key, license, host, now.date_naive()).token(key, slug, version)?;
        let file = file_name(slug, version);
        // Slugs, versions and tokens have no character that URLs or JSON escape.
        Some(format!("{base}{slug}/{version}/{token}/{file}"))
    }
}
