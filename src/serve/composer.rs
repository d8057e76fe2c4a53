//! A repository for Composer under `/composer`, if the setting `composer` names the vendor: `packages.json` for everybody, and each
//! plugin's releases and packages for a person who signs in with a license key or a Composer token, and the address of a
//! bound site.
//!
//! The bytes of a package are always the same for a license, because lock files have their SHA-1: the mark has no site and a fixed day.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use chrono::Utc;
use headers::authorization::Basic;
use headers::{Authorization, HeaderMapExt as _};
use serde_json::{Value, json};
use warp::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};

use crate::serve::api::params::{find_license, license_id, site_host};
use crate::serve::found_license;
use crate::serve::gate::{ComposerAsker, PermittedDownload, Snapshot};
use crate::serve::links::ComposerRepository;
use crate::serve::net::handler::Sending;
use crate::serve::package_answer::{self, PackageQuestion};
use crate::serve::reply::outcome::{Code, Weight};
use crate::serve::reply::problem::Problem;
use crate::serve::reply::response::JSON;
use crate::serve::state::Service;
use countersign_model::composer::{ComposerToken, MARK_DAY};
use countersign_model::entitlement::{ComposerEntitlement, Refusal};
use countersign_model::license_key::LicenseId;
use countersign_model::plugin::PluginKind;
use countersign_model::site_host::SiteHost;
use countersign_model::slug::Slug;
use countersign_package::catalog::ComposerRelease;

/// What the paths begin with.
pub(super) const PATH: &str = "/composer/";

/// What a Composer package is for WordPress, by which the installer finds its folder.
fn package_type(kind: PluginKind) -> &'static str {
    match kind {
        PluginKind::Plugin => "wordpress-plugin",
        PluginKind::Theme => "wordpress-theme",
    }
}

/// The package that knows where WordPress has its plugins.
const INSTALLERS: (&str, &str) = ("composer/installers", "^1.0 || ^2.0");

/// An answer, counted and charged as these say.
pub(super) struct ComposerAnswer {
    pub(super) response: Sending,
    pub(super) code: Code,
    pub(super) weight: Weight,
}

/// What a path asks for.
#[derive(Debug, PartialEq, Eq)]
enum WantedFile<'p> {
    /// Which packages there are.
    Packages,
    /// The releases of a plugin.
    Releases(&'p str),
    /// The package of a release, by its version.
    Package(&'p str, &'p str),
}

impl<'p> WantedFile<'p> {
    /// Parses the path behind [`PATH`]. Composer asks for branches under `<slug>~dev.json`: there are none.
    fn parse(path: &'p str, vendor: &Slug) -> Option<Self> {
        if path == "packages.json" {
            return Some(Self::Packages);
        }
        let (kind, rest) = path.split_once('/')?;
        let name = rest.strip_prefix(vendor.as_str())?.strip_prefix('/')?;
        match kind {
            "p2" => {
                let slug = name.strip_suffix(".json").filter(|slug| !slug.ends_with("~dev"));
                slug.map(Self::Releases)
            }
            "dist" => {
                let (slug, version) = name.strip_suffix(".zip")?.split_once('/')?;
                Some(Self::Package(slug, version))
            }
            _ => None,
        }
    }
}

impl ComposerRepository {
    /// Answers GET and HEAD; `path` is the part behind [`PATH`].
    pub(super) async fn answer<B>(
        &self,
        service: &Arc<Service>,
        client: IpAddr,
        path: &str,
        request: &Request<B>,
    ) -> ComposerAnswer {
        let answered = match WantedFile::parse(path, &self.vendor) {
            None => Err(Problem::NotFound),
            Some(WantedFile::Packages) => Ok((Code::Ok, JSON.answer(self.packages(service)).into_http())),
            Some(WantedFile::Releases(slug)) => self.releases(service, slug, request.headers()).await,
            Some(WantedFile::Package(slug, version)) => self.package(service, (slug, version), request).await,
        };
        match answered {
            Ok((code, response)) => ComposerAnswer {
                response,
                code,
                weight: code.weight(),
            },
            Err(problem) => {
                let code: &str = problem.code().into();
                tracing::debug!(%client, code, "refused a request of Composer");
                refused(&problem)
            }
        }
    }

    /// Which packages there are, and where their releases are.
    fn packages(&self, service: &Service) -> Bytes {
        let snapshot = service.gate.load();
        let has_entry = |slug: &&&Slug| snapshot.registry.plugin(slug.as_str()).is_some();
        let hosted = snapshot.catalog.hosted_plugins();
        let names: Vec<_> = hosted.iter().filter(has_entry).map(|slug| self.name(slug)).collect();
        let document = json!({
            "packages": [],
            "metadata-url": format!("{}{PATH}p2/%package%.json", self.public_url.as_str()),
            "available-packages": names,
        });
        document.to_string().into()
    }

    fn name(&self, slug: &Slug) -> String {
        format!("{}/{slug}", self.vendor)
    }

    /// The releases that the person who signs in may have.
    async fn releases(
        &self,
        service: &Arc<Service>,
        slug: &str,
        headers: &HeaderMap,
    ) -> Result<(Code, Sending), Problem> {
        let asker = asker(service, headers).await?;
        let slug = slug.to_owned();
        let look = move |service: &Arc<Service>| {
            let repository = service.composer.as_ref().ok_or(Problem::NotFound)?;
            let snapshot = service.gate.snapshot();
            let now = Utc::now();
            let entitlement = service
                .gate
                .composer(&snapshot, &asker, &slug, now)
                .map_err(Problem::Refused)?;
            let releases = snapshot.catalog.composer_releases(&entitlement);
            let releases = releases.map_err(|error| Problem::internal(&error))?;
            let plugin = snapshot.registry.plugin(&slug).ok_or(Problem::NotFound)?;
            let offered = releases.filter(|release| !plugin.withholds(&release.version));
            let name = repository.name(&plugin.slug);
            let described = offered.map(|release| {
                let copy = asker.copy(&snapshot, &entitlement, release);
                let sha1 = repository.sha1(&snapshot, release, &copy)?;
                Ok(repository.described(&name, release, &sha1))
            });
            let described: Vec<Value> = described.collect::<Result<_, Problem>>()?;
            Ok(json!({ "packages": { name: described } }).to_string())
        };
        let document = package_answer::decide(service, look).await?;
        Ok((Code::Ok, JSON.answer(document).into_http()))
    }

    /// The SHA-1 of the copy that the license gets.
    fn sha1(
        &self,
        snapshot: &Snapshot,
        release: &ComposerRelease,
        copy: &PermittedDownload,
    ) -> Result<String, Problem> {
        let mark = match release.package.mark {
            None => None,
            Some(_) => Some(package_answer::mark(
                snapshot.secrets.downloads.as_deref(),
                copy,
                MARK_DAY,
            )?),
        };
        let digest = self.digests.sha1(&copy.path, &release.package, mark);
        digest.map_err(|error| {
            tracing::warn!(path = %copy.path.display(), %error, "a package cannot be read");
            Problem::PackageUnavailable
        })
    }

    /// A release as Composer reads it (`composer.json` and the dist of a package).
    fn described(&self, name: &str, release: &ComposerRelease, sha1: &str) -> Value {
        let fields = &release.manifest;
        let mut require = json!({ INSTALLERS.0: INSTALLERS.1 });
        // What a header says is a version, or a text that Composer would refuse.
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        if !fields.requires_php.is_empty() && is_number(&fields.requires_php) {
            require["php"] = format!(">={}", fields.requires_php).into();
        }
        let mut described = json!({
            "name": name,
            "version": release.written,
            "type": package_type(fields.kind),
            "description": fields.description,
            "require": require,
            "dist": {
                "type": "zip",
                "url": format!("{}{PATH}dist/{name}/{}.zip", self.public_url.as_str(), release.version),
                "reference": release.package.sha256.to_string(),
                "shasum": sha1,
            },
        });
        if !fields.homepage.is_empty() {
            described["homepage"] = fields.homepage.as_str().into();
        }
        if let Some((day, time)) = fields.last_updated.split_once(' ') {
            described["time"] = format!("{day}T{time}+00:00").into();
        }
        described
    }

    /// A package.
    async fn package<B>(
        &self,
        service: &Arc<Service>,
        (slug, version): (&str, &str),
        request: &Request<B>,
    ) -> Result<(Code, Sending), Problem> {
        let asker = asker(service, request.headers()).await?;
        let slug = slug.to_owned();
        let version = version.to_owned();
        let headers = request.headers().clone();
        let sends_bytes = request.method() == Method::GET;
        let open = move |service: &Arc<Service>| {
            let snapshot = service.gate.snapshot();
            let entitlement = service.gate.composer(&snapshot, &asker, &slug, Utc::now());
            let entitlement = entitlement.map_err(Problem::Refused)?;
            let plugin = snapshot.registry.plugin(&slug).ok_or(Problem::NotFound)?;
            let releases = snapshot.catalog.composer_releases(&entitlement);
            let mut releases = releases.map_err(|error| Problem::internal(&error))?;
            let release = releases.find(|release| release.version.as_str() == version);
            let release = release.filter(|release| !plugin.withholds(&release.version));
            let copy = asker.copy(&snapshot, &entitlement, release.ok_or(Problem::NoPackage)?);
            let question = PackageQuestion {
                keys: snapshot.secrets.downloads.clone(),
                day: MARK_DAY,
                headers: headers.clone(),
                sends_bytes,
            };
            let bucket = format!("composer {}", asker.id);
            question.open(service, copy, |bytes, size| {
                Ok(service.limits.check_link_bytes(&bucket, bytes, size)?)
            })
        };
        let opened = package_answer::decide(service, open).await?;
        Ok(package_answer::answer(service, opened))
    }
}

/// Who asks: the license of the user name, and the site of the password.
async fn asker(service: &Service, headers: &HeaderMap) -> Result<ComposerAsker, Problem> {
    service.catch_up().await;
    let basic = headers.typed_get::<Authorization<Basic>>();
    let basic = basic.ok_or(Problem::MissingField("license_key"))?;
    let snapshot = service.gate.snapshot();
    let id = match basic.username().parse::<ComposerToken>() {
        Ok(token) => of_token(service, &snapshot, &token).ok_or(Problem::Refused(Refusal::UnknownLicense))?,
        Err(_) => license_id(service, Some(basic.username()))?,
    };
    if find_license(service, &snapshot, &id)?.is_none() {
        return Err(Problem::Refused(Refusal::UnknownLicense));
    }
    let host: SiteHost = site_host(service, &id, basic.password())?;
    Ok(ComposerAsker { id, host })
}

impl ComposerAsker {
    /// The copy of a release that the license gets. It names no site.
    fn copy(
        &self,
        snapshot: &Snapshot,
        entitlement: &ComposerEntitlement<'_>,
        release: &ComposerRelease,
    ) -> PermittedDownload {
        PermittedDownload {
            license: self.id,
            host: None,
            slug: entitlement.slug().clone(),
            version: release.version.clone(),
            path: snapshot.catalog.composer_path(entitlement, release),
            package: release.package,
            is_after_end: false,
        }
    }
}

/// The license of a token that is valid.
fn of_token(service: &Service, snapshot: &Snapshot, token: &ComposerToken) -> Option<LicenseId> {
    let keys = snapshot.secrets.downloads.as_deref()?;
    let found = found_license::beginning_with(&snapshot.registry, service.gate.bindings(), token.beginning())?;
    let number = found.details.rights.composer.number()?;
    let mut keys = std::iter::once(keys.current()).chain(keys.retired());
    keys.any(|key| token.is_of(key, &found.id, number)).then_some(found.id)
}

/// The answer to a request that is refused. Composer shows `warning`, asks for a user name and a password where it has sent none, and
/// stops where they are wrong.
fn refused(problem: &Problem) -> ComposerAnswer {
    let is_sign_in = matches!(
        problem.code(),
        Code::MissingField
            | Code::UnknownLicense
            | Code::MalformedLicenseKey
            | Code::LicenseKeyChecksum
            | Code::MalformedSiteUrl
    );
    let code: &str = problem.code().into();
    let warning = match problem.code() {
        Code::MissingField => {
            "Sign in with the license key or a Composer token as the user name, and the address of a site of the license as the password."
                .to_owned()
        }
        _ => problem.detail().into_owned(),
    };
    let mut answer = JSON.answer(json!({ "warning": warning, "code": code }).to_string());
    answer.status = match is_sign_in {
        true => StatusCode::UNAUTHORIZED,
        false => problem.status(),
    };
    answer.extra = problem.extra();
    let mut response: Sending = answer.into_http();
    if is_sign_in {
        // RFC 7617 section 2.
        let challenge = HeaderValue::from_static("Basic realm=\"Composer\", charset=\"UTF-8\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    ComposerAnswer {
        response,
        code: problem.code(),
        weight: problem.weight(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_packages_of_the_vendor() {
        let vendor: Slug = "acme".parse().unwrap();
        let parse = |path| WantedFile::parse(path, &vendor);
        assert_eq!(parse("packages.json"), Some(WantedFile::Packages));
        assert_eq!(
            parse("p2/acme/acme-forms.json"),
            Some(WantedFile::Releases("acme-forms"))
        );
        assert_eq!(
            parse("dist/acme/acme-forms/1.2.0.zip"),
            Some(WantedFile::Package("acme-forms", "1.2.0"))
        );
        for other in [
            "",
            "packages.json/",
            "p2/other/acme-forms.json",
            "p2/acmeacme-forms.json",
            "p2/acme/acme-forms",
            "p2/acme/acme-forms~dev.json",
            "dist/acme/acme-forms.zip",
            "dist/acme/acme-forms/1.2.0",
            "x/acme/acme-forms.json",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
