//! Links to packages, made for a site that asks for updates and inserted into its manifest; and links to the page with first
//! copies, for mails.
//!
//! At most the beginning of a manifest is copied: the response is sent in pieces around the link.
//! [`downloads`](crate::serve::api::downloads) and [`first_copy_page`](crate::serve::first_copy_page) accept the links.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use chrono::{DateTime, NaiveDate, SecondsFormat, Utc};

use crate::serve::gate::SiteOffer;
use crate::serve::reply::body::Payload;
use countersign_model::download_link::DownloadLink;
use countersign_model::first_copy_link::{self, FirstCopyLink};
use countersign_model::license::{License, LicenseStatus};
use countersign_model::license_key::LicenseId;
use countersign_model::name::Name;
use countersign_model::period::NEVER;
use countersign_model::plugin::Plugin;
use countersign_model::release_rules::VersionLine;
use countersign_model::renewal_token::RenewalToken;
use countersign_model::shop_link::{LicenseLinks, ShopLinks};
use countersign_model::site_host::SiteHost;
use countersign_model::slug::Slug;
use countersign_model::wave::WaveHold;
use countersign_package::catalog::CopyDigests;
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

/// The repository for Composer, whose documents name packages and link to them.
#[derive(Debug)]
pub(crate) struct ComposerRepository {
    /// What names of packages begin with.
    pub vendor: Slug,
    /// What links begin with.
    pub public_url: PublicUrl,
    /// The SHA-1 of packages.
    pub digests: CopyDigests,
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

    /// The link to the page of a license, given out on `day`; `None` if the license covers no plugin whose packages are here.
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
    /// As in [`DownloadLink::line`].
    pub line: Option<VersionLine>,
}

/// So much of a manifest is copied: sending one more piece costs more, and most manifests are shorter.
const MOST_COPIED: usize = 4 * 1024;

/// The beginning of a manifest whose release is held from a site, with the members that say so (interface 2.6).
fn held_start(held: WaveHold, beginning: &[u8]) -> Bytes {
    const MEMBERS: &str = "\"held\":true,\"held_until\":\"2027-01-15T08:00:00Z\",";
    // Every manifest is an object with members.
    let brace = beginning.iter().position(|byte| *byte == b'{');
    let (before, after) = beginning.split_at(brace.map_or(0, |brace| brace + 1));
    let mut start = Vec::with_capacity(beginning.len() + MEMBERS.len());
    start.extend_from_slice(before);
    start.extend_from_slice(b"\"held\":true,");
    if let Some(until) = held.until {
        start.extend_from_slice(b"\"held_until\":\"");
        start.extend_from_slice(until.to_rfc3339_opts(SecondsFormat::Secs, true).as_bytes());
        start.extend_from_slice(b"\",");
    }
    start.extend_from_slice(after);
    start.into()
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

    /// The manifest with the site's link, and with the members of a release that is held from the site. If no link can be made,
    /// its places stay empty, as published; the CMS then shows the update but cannot install it.
    pub fn fill(
        &self,
        offer: SiteOffer<'_>,
        slug: &str,
        holder: LinkHolder<'_>,
        keys: Option<&DownloadKeys>,
    ) -> Payload {
        let offered = offer.release;
        let manifest = &offered.manifest;
        let link = offered.links.zip(keys).and_then(|(places, keys)| {
            let link = self.link(slug, offered.version.as_str(), holder, keys)?;
            Some((places.0, Bytes::from(link)))
        });
        if link.is_none() && offer.held.is_none() {
            return Payload::Whole(manifest.clone());
        }
        let mut pieces = Vec::with_capacity(8);
        let mut sent = 0;
        if let Some(held) = offer.held {
            let end = link.as_ref().map_or(manifest.len(), |(places, _)| places[0]);
            sent = end.min(MOST_COPIED);
            let start = held_start(held, &manifest[..sent]);
            if sent == manifest.len() {
                return Payload::Whole(start);
            }
            pieces.push(start);
        }
        if let Some((places, link)) = link {
            for place in places {
                pieces.push(manifest.slice(sent..place));
                pieces.push(link.clone());
                sent = place;
            }
        }
        pieces.push(manifest.slice(sent..));
        Payload::Pieces(pieces)
    }

    fn link(&self, slug: &str, version: &str, holder: LinkHolder<'_>, keys: &DownloadKeys) -> Option<String> {
        let base = self.public_url.as_ref()?.as_str();
        let LinkHolder {
            license,
            host,
            now,
            line,
        } = holder;
        let key = keys.current();
        let link = DownloadLink::new(key, license, host, now.date_naive());
        let token = link.of_line(line).token(key, slug, version)?;
        let file = file_name(slug, version);
        // Slugs, versions and tokens have no character that URLs or JSON escape.
        Some(format!("{base}{DOWNLOADS}{slug}/{version}/{token}/{file}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_package::catalog::{LinkPlaces, Offered};

    const MANIFEST: &str = r#"{"version":"2.0","download_link":"","download_url":"","package":""}"#;

    fn filled(links: &PackageLinks, keys: Option<&DownloadKeys>, held: Option<WaveHold>) -> String {
        filled_of(MANIFEST, links, keys, held)
    }

    fn filled_of(
        manifest: &'static str,
        links: &PackageLinks,
        keys: Option<&DownloadKeys>,
        held: Option<WaveHold>,
    ) -> String {
        let release = Offered {
            version: "2.0".parse().unwrap(),
            security: false,
            manifest: Bytes::from_static(manifest.as_bytes()),
            links: LinkPlaces::of(manifest.as_bytes()),
        };
        let holder = LinkHolder {
            license: &LicenseId::from_bytes([1; 32]),
            host: &"a.com".parse().unwrap(),
            now: DateTime::from_timestamp(1_800_000_000, 0).unwrap(),
            line: None,
        };
        let release = &release;
        let body = Bytes::from(links.fill(SiteOffer { release, held }, "acme-forms", holder, keys));
        String::from_utf8(body.into()).unwrap()
    }

    #[test]
    fn a_held_release_has_its_members_first_and_its_links_as_ever() {
        let none = PackageLinks::new(None);
        let until = DateTime::from_timestamp(1_800_000_000, 5);
        let [paused, dated] = [None, until].map(|until| Some(WaveHold { until }));
        assert_eq!(filled(&none, None, None), MANIFEST);
        assert_eq!(
            filled(&none, None, paused),
            MANIFEST.replacen('{', "{\"held\":true,", 1)
        );
        let members = "{\"held\":true,\"held_until\":\"2027-01-15T08:00:00Z\",";
        assert_eq!(filled(&none, None, dated), MANIFEST.replacen('{', members, 1));
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("downloads.key");
        std::fs::create_dir(folder.path().join("retired")).unwrap();
        std::fs::write(&key, [1; 32]).unwrap();
        std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let (keys, _) = DownloadKeys::load(&key, &folder.path().join("retired")).unwrap();
        let listen = "127.0.0.1:8080".parse().unwrap();
        let links = PackageLinks::new(PublicUrl::of_loopback(&listen, false));
        let plain = filled(&links, Some(&keys), None);
        assert_eq!(plain.matches("/api/v1/downloads/acme-forms/2.0/").count(), 3, "{plain}");
        assert_eq!(filled(&links, Some(&keys), dated), plain.replacen('{', members, 1));
        let value: serde_json::Value = serde_json::from_str(&filled(&links, Some(&keys), dated)).unwrap();
        assert_eq!((&value["held"], &value["version"]), (&true.into(), &"2.0".into()));
        // A long one is the same, of which not everything is copied.
        let filler = format!("{{\"changelog\":\"{}\",\"version\"", "x".repeat(3 * MOST_COPIED));
        let long: &str = MANIFEST.replacen("{\"version\"", &filler, 1).leak();
        assert_eq!(filled_of(long, &none, None, dated), long.replacen('{', members, 1));
        let plain = filled_of(long, &links, Some(&keys), None);
        assert_eq!(plain.matches("/api/v1/downloads/acme-forms/2.0/").count(), 3);
        assert_eq!(
            filled_of(long, &links, Some(&keys), dated),
            plain.replacen('{', members, 1)
        );
    }
}
