//! `GET /api/v1/releases/<plugin>`: which older releases a site may go back to, and `…/<version>`: the manifest of one of them.
//! `GET /api/v1/security-updates/<plugin>`: the security release that a site gets although its license has expired.
//!
//! They read manifests of releases that are not the latest, which is slow, and rare. The catalog keeps what the list shows.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use chrono::Utc;
use serde::Serialize;
use warp::http::HeaderMap;

use crate::serve::api::params::{MAX_VERSION, at_most, find_license, license_id, site_host};
use crate::serve::api::updates;
use crate::serve::gate::{EarlierReleases, RequestedSite, SiteOffer, Snapshot};
use crate::serve::links::LinkHolder;
use crate::serve::package_answer;
use crate::serve::reply::outcome::Code;
use crate::serve::reply::problem::Problem;
use crate::serve::reply::response::{JSON, Response};
use crate::serve::state::Service;
use countersign_model::manifest::ReleaseProof;
use countersign_model::release_rules::{BackRefusal, VersionLine};
use countersign_model::version::Version;
use countersign_model::way_back;
use countersign_package::catalog::{ListedRelease, Offered};
use countersign_package::release::signatures::Signatures;
use countersign_package::release::statement::ReleaseStatement;

/// What is asked for of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::serve) enum WantedRelease {
    /// Which releases the site may go back to.
    Earlier,
    /// The manifest of one of them.
    Version(Version),
    /// The security release for a site whose license may have expired.
    Security,
}

#[derive(Serialize)]
struct EarlierRelease {
    version: Version,
    last_updated: String,
    security: bool,
}

/// Answers GET and HEAD; `path` is the part behind `/api/v1/releases/`: a plugin, and perhaps a version.
pub(in crate::serve) async fn earlier(
    service: &Arc<Service>,
    path: &str,
    headers: &HeaderMap,
    query: &str,
) -> Result<(Code, Response), Problem> {
    match path.split_once('/') {
        None => reply(service, path, WantedRelease::Earlier, headers, query).await,
        Some((slug, version)) => {
            let version = version.parse().map_err(|_| Problem::NotFound)?;
            reply(service, slug, WantedRelease::Version(version), headers, query).await
        }
    }
}

/// Answers GET and HEAD.
pub(in crate::serve) async fn security(
    service: &Arc<Service>,
    slug: &str,
    headers: &HeaderMap,
    query: &str,
) -> Result<(Code, Response), Problem> {
    reply(service, slug, WantedRelease::Security, headers, query).await
}

async fn reply(
    service: &Arc<Service>,
    slug: &str,
    wanted: WantedRelease,
    headers: &HeaderMap,
    query: &str,
) -> Result<(Code, Response), Problem> {
    service.catch_up().await;
    let question = updates::parse(headers, query)?;
    let id = license_id(service, question.license_key.as_deref())?;
    let site_url = question.site_url.or(question.domain);
    let host = site_host(service, &id, &site_url.ok_or(Problem::MissingField("site_url"))?)?;
    let current = question
        .current_version
        .ok_or(Problem::MissingField("current_version"))?;
    at_most(MAX_VERSION, "current_version", Some(&current))?;
    let current: Version = current
        .parse()
        .map_err(|_| Problem::Malformed("'current_version' is not a version.".to_owned()))?;
    if find_license(service, &service.gate.snapshot(), &id)?.is_none() {
        return Err(Problem::Refused(
            countersign_model::entitlement::Refusal::UnknownLicense,
        ));
    }
    let slug = slug.to_owned();
    let look = move |service: &Arc<Service>| {
        let snapshot = service.gate.snapshot();
        let site = RequestedSite {
            id: &id,
            host: &host,
            now: Utc::now(),
        };
        let answer = |offered: &Offered, line: Option<VersionLine>| {
            let holder = LinkHolder {
                license: &id,
                host: &host,
                now: site.now,
                line,
            };
            let offer = SiteOffer {
                release: offered,
                held: None,
            };
            let keys = snapshot.secrets.downloads.as_deref();
            let body = service.links.fill(offer, &slug, holder, keys);
            Response {
                body,
                ..JSON.answer(Bytes::new())
            }
        };
        match &wanted {
            WantedRelease::Security => {
                let found = service.gate.security_update(&snapshot, &site, &slug, &current);
                let (entitlement, release) = found.map_err(Problem::Refused)?;
                let read = match release {
                    None => None,
                    Some(release) => {
                        let read = snapshot.catalog.security_manifest(&entitlement, release);
                        read.map_err(|error| Problem::internal(&error))?
                    }
                };
                Ok(match read {
                    Some(offered) => {
                        let line = VersionLine::narrowest(&current, &offered.version);
                        (Code::Update, answer(&offered, Some(line)))
                    }
                    None => (Code::UpToDate, JSON.answer(Bytes::from_static(b"{}"))),
                })
            }
            WantedRelease::Version(version) => {
                let back = SiteWayBack::new(service, &snapshot, &site, &slug, &current)?;
                Ok((Code::Update, answer(&back.manifest(version)?, None)))
            }
            WantedRelease::Earlier => {
                let back = SiteWayBack::new(service, &snapshot, &site, &slug, &current)?;
                let releases = serde_json::json!({ "releases": back.list()? });
                Ok((Code::Ok, Response::json(&releases)))
            }
        }
    };
    package_answer::decide(service, look).await
}

/// The releases that a site may go back to, and what people signed of the newest one.
struct SiteWayBack<'s> {
    earlier: EarlierReleases<'s>,
    snapshot: &'s Snapshot,
    newest: Option<&'s ReleaseProof>,
}

impl<'s> SiteWayBack<'s> {
    fn new(
        service: &Service,
        snapshot: &'s Snapshot,
        site: &RequestedSite<'_>,
        slug: &str,
        current: &'s Version,
    ) -> Result<Self, Problem> {
        let earlier = service.gate.earlier(snapshot, site, slug, current);
        let earlier = earlier.map_err(Problem::Refused)?;
        let newest = snapshot.catalog.newest(earlier.entitlement.slug());
        let newest = newest
            .map(|newest| snapshot.catalog.listed(&earlier.entitlement, newest))
            .transpose()
            .map_err(|error| Problem::internal(&error))?;
        Ok(Self {
            newest: newest.flatten().and_then(|newest| newest.release.as_ref()),
            earlier,
            snapshot,
        })
    }

    /// The newest ones.
    fn list(&self) -> Result<Vec<EarlierRelease>, Problem> {
        let plugin = self.snapshot.registry.plugin(self.earlier.entitlement.slug().as_str());
        let mut releases = Vec::new();
        for release in self.earlier.all() {
            let Some(listed) = self.listed(&release.version)? else {
                continue;
            };
            let is_named = plugin.is_some_and(|plugin| plugin.security.names(&release.version));
            releases.push(EarlierRelease {
                version: release.version.clone(),
                last_updated: listed.last_updated.clone(),
                security: release.security || is_named,
            });
            if releases.len() == way_back::MOST {
                break;
            }
        }
        Ok(releases)
    }

    /// The manifest of the one of this version.
    fn manifest(&self, version: &Version) -> Result<Offered, Problem> {
        let release = self.earlier.one(version).map_err(Problem::NotBackTo)?;
        if self.listed(&release.version)?.is_none() {
            return Err(Problem::NotBackTo(BackRefusal::LeftBehind));
        }
        if !self.list()?.iter().any(|listed| listed.version == release.version) {
            return Err(Problem::NotBackTo(BackRefusal::TooFar));
        }
        let Snapshot { catalog, .. } = self.snapshot;
        let offered = catalog.manifest_of(&self.earlier.entitlement, &release.version);
        let offered = offered.map_err(|error| Problem::internal(&error))?;
        offered.ok_or(Problem::NotBackTo(BackRefusal::NotPublished))
    }

    /// What is shown of a release; `None` if a site that went back to it would be left behind for good.
    fn listed(&self, version: &Version) -> Result<Option<&'s ListedRelease>, Problem> {
        let listed = self.snapshot.catalog.listed(&self.earlier.entitlement, version);
        let listed = listed.map_err(|error| Problem::internal(&error))?;
        Ok(listed.filter(|listed| believes(listed.release.as_ref(), self.newest)))
    }
}

/// Whether sites with the older release take the newest one: enough of the keys that the older one pins have signed it.
fn believes(older: Option<&ReleaseProof>, newest: Option<&ReleaseProof>) -> bool {
    let Some(older) = older else { return true };
    let statement = |proof: &ReleaseProof| BASE64_STANDARD.decode(&proof.statement).ok();
    let pins = statement(older).and_then(|bytes| Some(ReleaseStatement::read(&bytes).ok()?.pins));
    let (Some(pins), Some(newest)) = (pins, newest) else {
        return false;
    };
    let signed = statement(newest).zip(Signatures::read_unsorted(&newest.signatures.concat()).ok());
    signed.is_some_and(|(bytes, signatures)| signatures.signers(&bytes, &pins.keys).len() >= pins.threshold)
}
