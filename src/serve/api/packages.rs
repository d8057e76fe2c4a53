//! `GET /api/v1/packages/<slug>` and `…/<slug>/<version>`: a package by the license key.
//!
//! With the address of a bound site it is what a link of an update answer gives. Without one it is a first copy, and counts.

use std::net::IpAddr;
use std::sync::Arc;

use chrono::Utc;
use warp::http::{Method, Request};

use crate::serve::api::downloads::Download;
use crate::serve::api::params::{find_license, license_id, site_host};
use crate::serve::api::updates;
use crate::serve::first_copies::CopyRecipient;
use crate::serve::net::handler::Sending;
use crate::serve::package_answer::{self, PackageQuestion};
use crate::serve::reply::outcome::Code;
use crate::serve::reply::problem::Problem;
use crate::serve::state::Service;
use countersign_model::download_link::DownloadLink;
use countersign_model::license_key::LicenseId;
use countersign_model::site_host::SiteHost;
use countersign_model::slug::Slug;
use countersign_model::version::Version;

/// A parsed path, without the common prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PackagePath {
    slug: Slug,
    /// `None` for the newest.
    version: Option<Version>,
}

impl PackagePath {
    fn parse(path: &str) -> Option<Self> {
        let (slug, version) = match path.split_once('/') {
            None => (path, None),
            Some((slug, version)) => (slug, Some(version.parse().ok()?)),
        };
        Some(Self {
            slug: slug.parse().ok()?,
            version,
        })
    }
}

/// Answers GET and HEAD; `path` is the part after the common prefix.
pub async fn reply<B>(
    service: &Arc<Service>,
    client: IpAddr,
    path: &str,
    request: &Request<B>,
) -> Result<(Code, Sending), Problem> {
    let path = PackagePath::parse(path).ok_or(Problem::NotFound)?;
    service.catch_up().await;
    let question = updates::parse(request.headers(), request.uri().query().unwrap_or_default())?;
    let id = license_id(service, question.license_key.as_deref())?;
    let site_url = question.site_url.or(question.domain);
    let host = match site_url {
        Some(url) => Some(site_host(service, &id, &url)?),
        None if service.first_copies.are_on() => None,
        None => return Err(Problem::MissingField("site_url")),
    };
    find_license(service, &service.gate.snapshot(), &id)?;
    match host {
        Some(host) => for_site(service, id, host, path, request).await,
        None => first_copy(service, id, client, path, request).await,
    }
}

/// The package of a bound site, by the link that its update answer would have.
async fn for_site<B>(
    service: &Arc<Service>,
    id: LicenseId,
    host: SiteHost,
    path: PackagePath,
    request: &Request<B>,
) -> Result<(Code, Sending), Problem> {
    let now = Utc::now();
    let find = {
        let host = host.clone();
        move |service: &Arc<Service>| {
            let snapshot = service.gate.snapshot();
            let release = (path.slug.as_str(), path.version.as_ref());
            let permitted = service.gate.package_for(&snapshot, &id, &host, release, now);
            permitted.map_err(Problem::Refused)?.ok_or(Problem::NoPackage)
        }
    };
    let permitted = package_answer::decide(service, find).await?;
    let snapshot = service.gate.snapshot();
    // Without a key, no package is hosted.
    let keys = snapshot.secrets.downloads.clone().ok_or(Problem::NoPackage)?;
    let key = keys.current();
    let link = DownloadLink::new(key, &id, &host, now.date_naive());
    let token = link.token(key, permitted.slug.as_str(), permitted.version.as_str());
    let token = token.ok_or_else(|| Problem::internal(&"the clock is behind 2106: there are no links"))?;
    let download = Download {
        snapshot,
        keys,
        slug: permitted.slug,
        version: permitted.version,
        token,
        link,
        now,
        headers: request.headers().clone(),
        sends_bytes: request.method() == Method::GET,
    };
    download.answer(service).await
}

/// A package for a customer with the key.
async fn first_copy<B>(
    service: &Arc<Service>,
    id: LicenseId,
    client: IpAddr,
    path: PackagePath,
    request: &Request<B>,
) -> Result<(Code, Sending), Problem> {
    let now = Utc::now();
    let headers = request.headers().clone();
    let sends_bytes = request.method() == Method::GET;
    let open = move |service: &Arc<Service>| {
        let snapshot = service.gate.snapshot();
        let found = service.gate.license(&snapshot, &id);
        let release = (path.slug.as_str(), path.version.as_ref());
        let permitted = service.gate.first_copy(&snapshot, found.as_deref(), release, now);
        let code = match &permitted {
            Ok(Some(_)) => "permitted",
            Ok(None) => "not_found",
            Err(_) => "refused",
        };
        tracing::debug!(license = id.log_tag(), plugin = %path.slug, code, "asked for a first copy");
        let permitted = permitted.map_err(Problem::Refused)?.ok_or(Problem::NoPackage)?;
        let keys = snapshot.secrets.downloads.clone();
        let recipient = CopyRecipient::new(keys.as_ref().map(|keys| keys.current()), &id, client, now);
        let question = PackageQuestion {
            keys,
            day: now.date_naive(),
            headers: headers.clone(),
            sends_bytes,
        };
        let opened = question.open(service, permitted, |bytes, size| {
            service
                .first_copies
                .take(service.gate.bindings(), &id, recipient, (bytes, size))
        })?;
        if sends_bytes {
            tracing::info!(license = id.log_tag(), plugin = %path.slug, "gave a first copy");
        }
        Ok(opened)
    };
    let opened = package_answer::decide(service, open).await?;
    Ok(package_answer::answer(service, opened))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_a_plugin_and_perhaps_a_version() {
        let newest = PackagePath::parse("acme-forms").unwrap();
        assert_eq!((newest.slug.as_str(), newest.version), ("acme-forms", None));
        let one = PackagePath::parse("acme-forms/1.2.0").unwrap();
        assert_eq!(one.version.unwrap().as_str(), "1.2.0");
        for other in [
            "",
            "Acme",
            "acme/",
            "acme/x",
            "acme/1.0/",
            "acme/1.0/x",
            "../1.0",
            "acme/%31.0",
        ] {
            assert_eq!(PackagePath::parse(other), None, "{other}");
        }
    }
}
