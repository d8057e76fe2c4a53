//! A license in JSON, as the management API shows it, and the answer with it.

use chrono::{DateTime, NaiveDate, Utc};
use serde::Serialize;
use warp::http::{HeaderName, HeaderValue, StatusCode, header};

use crate::serve::api::licenses::fields::SiteCount;
use crate::serve::found_license::FoundLicense;
use crate::serve::gate::Snapshot;
use crate::serve::license_texts::LicenseTexts;
use crate::serve::links::license_links;
use crate::serve::reply::response::{JSON, Response};
use crate::serve::state::Service;
use countersign_ledger::Ledger;
use countersign_model::issued_license::{ChangeScope, Hex128, IssuedLicense};
use countersign_model::license::{License, LicenseStatus, Modules};
use countersign_model::license_key::{LicenseId, LicenseKey};
use countersign_model::remarks::Metadata;
use countersign_model::rights::Rights;
use countersign_model::shop_link::ShopLinks;
use countersign_model::site_host::SiteHost;
use countersign_model::slug::Slug;
use countersign_model::staging_hosts::StagingRule;
use countersign_registry::Registry;
use countersign_settings::keys::secret_keys::DownloadKeys;

/// What is known of sites at a moment.
#[derive(Clone, Copy)]
pub(super) struct KnownSites<'b> {
    pub(super) bindings: &'b Ledger,
    /// The server's setting.
    pub(super) staging: &'b StagingRule,
    pub(super) registry: &'b Registry,
    /// Where licenses are renewed and upgraded whose offer does not say it.
    pub(super) shop_links: &'b ShopLinks,
    /// What renewal tokens are made with.
    pub(super) downloads: Option<&'b DownloadKeys>,
    pub(super) now: DateTime<Utc>,
}

impl<'b> KnownSites<'b> {
    /// Now.
    pub(super) fn of(service: &'b Service, snapshot: &'b Snapshot) -> Self {
        let gate = &service.gate;
        Self {
            bindings: gate.bindings(),
            staging: &gate.rules().staging,
            registry: &snapshot.registry,
            shop_links: &service.shop_links,
            downloads: snapshot.secrets.downloads.as_deref(),
            now: Utc::now(),
        }
    }
}

/// The most sites that are listed. A license for any number of sites may have many thousands.
const MOST_SITES: usize = 100;

/// A license.
#[derive(Debug, Serialize)]
pub(super) struct LicenseDocument<'a> {
    pub id: LicenseId,
    /// The key. Only in the answer to who issued it.
    #[serde(skip_serializing_if = "Option::is_none")]
    license_key: Option<&'a str>,
    /// Where its buyer downloads the plugins; with the key alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    download_page: Option<String>,
    /// The status that the vendor or a shop set.
    status: LicenseStatus,
    /// The state today: also `expired`.
    standing: &'static str,
    expires: NaiveDate,
    /// The offer that it was sold under.
    #[serde(skip_serializing_if = "Option::is_none")]
    offer: Option<&'a Slug>,
    /// What is bought with it is bought for this license.
    #[serde(skip_serializing_if = "Option::is_none")]
    renewal_token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    renew_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upgrade_url: Option<String>,
    /// Whose license it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    customer: Option<CustomerEntry<'a>>,
    /// Whether a renewal is to come.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    renews: bool,
    modules: &'a Modules,
    sites: SiteCount,
    #[serde(skip_serializing_if = "Option::is_none")]
    grace_period_hours: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    staging_sites: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    site_moves: Option<u16>,
    #[serde(flatten)]
    rights: &'a Rights,
    /// How many sites are bound.
    bound: usize,
    /// How many of `sites` they use: some staging copies use none.
    used_seats: usize,
    /// The first of them.
    hosts: Vec<SiteEntry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replaces: Option<LicenseId>,
    /// The shop's order, unless its text was erased.
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<&'a str>,
    /// What programs noted of it.
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    metadata: &'a Metadata,
    #[serde(flatten)]
    source: Source<'a>,
}

/// A site that uses a license.
#[derive(Debug, Serialize)]
struct SiteEntry {
    host: SiteHost,
    /// Absent if a file of the registry names the host, and it has not asked yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    bound_at: Option<DateTime<Utc>>,
}

/// A customer. Addresses and names are only for callers who may read them.
#[derive(Debug, Serialize)]
struct CustomerEntry<'a> {
    number: Hex128,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    /// As they are written. One who buys with several addresses has several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    addresses: Vec<&'a str>,
}

impl<'a> CustomerEntry<'a> {
    fn new(number: Hex128, texts: &'a LicenseTexts) -> Self {
        Self {
            number,
            name: texts.customer(number).find_map(|row| row.name.as_deref()),
            addresses: texts
                .customer(number)
                .filter_map(|row| row.address.as_deref())
                .collect(),
        }
    }
}

/// Where a license comes from.
#[derive(Debug, Serialize)]
#[serde(tag = "source", rename_all = "lowercase")]
enum Source<'a> {
    /// A file, which people change.
    File {
        /// Its name, and the line from 1.
        file: String,
    },
    /// The ledger.
    Ledger {
        issued_by: &'a ChangeScope,
        issued_at: DateTime<Utc>,
        changed_by: &'a ChangeScope,
        changed_at: DateTime<Utc>,
        revision: u32,
    },
}

impl<'a> Source<'a> {
    fn of_file(registry: &Registry, license: &License) -> Self {
        let place = registry.place(&license.id);
        let name = |(file, line): (&std::path::Path, usize)| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            format!("{name}:{line}")
        };
        Self::File {
            file: place.map(name).unwrap_or_default(),
        }
    }

    fn of_ledger(issued: &'a IssuedLicense) -> Self {
        Self::Ledger {
            issued_by: &issued.origin.scope,
            issued_at: issued.origin.issued,
            changed_by: &issued.scope,
            changed_at: issued.time,
            revision: issued.revision,
        }
    }
}

impl<'a> LicenseDocument<'a> {
    /// A license that was looked up.
    pub(super) fn new(found: &'a FoundLicense<'_>, texts: &'a LicenseTexts, sites: KnownSites<'_>) -> Self {
        match found {
            FoundLicense::Declared(license) => {
                Self::with_source(license, Source::of_file(sites.registry, license), sites)
            }
            FoundLicense::Ledger(issued) => Self::issued(issued, texts, sites),
        }
    }

    /// A license of the ledger.
    pub(super) fn issued(issued: &'a IssuedLicense, texts: &'a LicenseTexts, sites: KnownSites<'_>) -> Self {
        let links = license_links(
            &issued.license,
            sites.registry.offers(),
            sites.shop_links,
            sites.downloads,
        );
        let remarks = issued.license.details.remarks();
        Self {
            reference: texts.order(issued),
            offer: remarks.sold.as_deref().and_then(|sold| sold.offer.as_ref()),
            renewal_token: links.token.map(|token| token.reveal()),
            renew_url: links.renew,
            upgrade_url: links.upgrade,
            customer: remarks.holder.map(|number| CustomerEntry::new(number, texts)),
            ..Self::with_source(&issued.license, Source::of_ledger(issued), sites)
        }
    }

    /// The same with its key, and the page from which its buyer downloads the plugins.
    pub(super) fn with_key(self, key: Option<&'a LicenseKey>, download_page: Option<String>) -> Self {
        let license_key = key.map(LicenseKey::reveal);
        Self {
            license_key,
            download_page: download_page.filter(|_| key.is_some()),
            ..self
        }
    }

    fn with_source(license: &'a License, source: Source<'a>, sites: KnownSites<'_>) -> Self {
        let stored = sites.bindings.of(&license.id);
        let details = &license.details;
        let valid = || stored.iter().filter(|binding| !license.is_void(binding));
        let is_bound = |host: &SiteHost| valid().any(|binding| binding.host == *host);
        let ahead = || details.hosts.iter().filter(|host| !is_bound(host));
        let bound = ahead().count() + valid().count();
        let ahead = ahead().map(|host| SiteEntry::new(host, None));
        let hosts = ahead.chain(valid().map(|binding| SiteEntry::new(&binding.host, Some(binding.bound_at))));
        Self {
            id: license.id,
            license_key: None,
            download_page: None,
            status: license.status,
            standing: license.state(sites.now.date_naive()).word(),
            expires: license.expires,
            offer: None,
            renewal_token: None,
            renew_url: None,
            upgrade_url: None,
            customer: None,
            renews: license.renews(),
            modules: &license.modules,
            sites: license.sites.into(),
            grace_period_hours: license.grace_period_hours,
            staging_sites: details.staging_sites,
            site_moves: details.site_moves,
            rights: &details.rights,
            bound,
            used_seats: license.used_seats(&stored, sites.staging),
            hosts: hosts.take(MOST_SITES).collect(),
            replaces: details.replaces,
            reference: None,
            metadata: &details.remarks().metadata,
            source,
        }
    }

    /// The entity tag (RFC 9110 section 8.8.3): the revision, which each change raises. A file's license has none.
    pub(super) fn tag(&self) -> Option<String> {
        match self.source {
            Source::Ledger { revision, .. } => Some(format!("\"{revision}\"")),
            Source::File { .. } => None,
        }
    }
}

impl SiteEntry {
    fn new(host: &SiteHost, bound_at: Option<DateTime<Utc>>) -> Self {
        Self {
            host: host.clone(),
            bound_at,
        }
    }
}

/// The path of all licenses. That of one adds `/` and its id.
pub const LICENSES: &str = "/api/v1/licenses";

/// An answer, and the headers that only this API has.
#[derive(Debug)]
pub struct LicenseAnswer {
    /// The answer.
    pub response: Response,
    /// `ETag` and `Location`.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

/// The answer with one license.
pub(super) fn answer(status: StatusCode, document: &LicenseDocument<'_>) -> LicenseAnswer {
    let mut headers = Vec::new();
    if let Some(tag) = document.tag().and_then(|tag| HeaderValue::try_from(tag).ok()) {
        headers.push((header::ETAG, tag));
    }
    if status == StatusCode::CREATED
        && let Ok(location) = HeaderValue::try_from(format!("{LICENSES}/{}", document.id))
    {
        headers.push((header::LOCATION, location));
    }
    LicenseAnswer {
        response: Response {
            status,
            // Texts, numbers and times always serialize.
            ..JSON.answer(serde_json::to_vec(document).unwrap_or_default())
        },
        headers,
    }
}
