//! `GET /api/v1/downloads/<slug>/<version>/<token>/<slug>-<version>.zip`: a package, for the site that has the link.
//!
//! path → token → limit → all checks of the link again → conditions and range → open → limit of bytes → send
//! ([`package_answer`]).

use std::sync::Arc;

use chrono::{DateTime, Utc};
use warp::http::{HeaderMap, Method, Request};

use crate::serve::gate::Snapshot;
use crate::serve::links;
use crate::serve::net::handler::Sending;
use crate::serve::package_answer::{self, Opened, PackageQuestion};
use crate::serve::reply::outcome::Code;
use crate::serve::reply::problem::Problem;
use crate::serve::state::Service;
use countersign_model::download_key::DownloadKey;
use countersign_model::download_link::DownloadLink;
use countersign_model::slug::Slug;
use countersign_model::version::Version;
use countersign_settings::keys::secret_keys::DownloadKeys;

/// A parsed path of a link, without the common prefix.
#[derive(Debug, PartialEq, Eq)]
pub struct LinkPath<'a> {
    /// The plugin.
    pub slug: Slug,
    /// The release.
    pub version: Version,
    /// The token.
    pub token: &'a str,
}

impl<'a> LinkPath<'a> {
    /// Parses the four parts. Nothing in them is escaped, so each link has one text.
    pub fn parse(path: &'a str) -> Option<Self> {
        let mut parts = path.split('/');
        let slug: Slug = parts.next()?.parse().ok()?;
        let version: Version = parts.next()?.parse().ok()?;
        let token = parts.next()?;
        let is_named = parts.next()? == links::file_name(slug.as_str(), version.as_str());
        (is_named && parts.next().is_none()).then_some(Self { slug, version, token })
    }
}

/// A site's download request, with proof that the link is valid.
pub(super) struct Download {
    /// The state in force.
    pub snapshot: Arc<Snapshot>,
    /// The keys of the link.
    pub keys: Arc<DownloadKeys>,
    /// The plugin.
    pub slug: Slug,
    /// The release.
    pub version: Version,
    /// Selects the bucket of the link.
    pub token: String,
    /// Who may have it.
    pub link: DownloadLink,
    /// When.
    pub now: DateTime<Utc>,
    /// Conditions and range.
    pub headers: HeaderMap,
    /// Whether the method is GET, not HEAD.
    pub sends_bytes: bool,
}

/// Answers GET and HEAD; `path` is the part after [`links::DOWNLOADS`].
pub async fn reply<B>(service: &Arc<Service>, path: &str, request: &Request<B>) -> Result<(Code, Sending), Problem> {
    let path = LinkPath::parse(path).ok_or(Problem::NotFound)?;
    service.catch_up().await;
    let snapshot = service.gate.snapshot();
    // Without a key, there never was a link.
    let keys = snapshot.secrets.downloads.clone().ok_or(Problem::UnknownLink)?;
    let now = Utc::now();
    let link = read_link(&keys, &path, now)?;
    let download = Download {
        snapshot,
        keys,
        token: path.token.to_owned(),
        slug: path.slug,
        version: path.version,
        link,
        now,
        headers: request.headers().clone(),
        sends_bytes: request.method() == Method::GET,
    };
    download.answer(service).await
}

/// Parses the link. SECURITY: nothing else of the path is looked up before this.
fn read_link(keys: &DownloadKeys, path: &LinkPath<'_>, now: DateTime<Utc>) -> Result<DownloadLink, Problem> {
    let read = |key: &DownloadKey| DownloadLink::read(key, path.slug.as_str(), path.version.as_str(), path.token);
    valid_link(keys, read, |link| now < link.expires)
}

/// Reads a link with the current key.
///
/// # Errors
///
/// [`Problem::LinkExpired`] after the link's time, and for a link that a retired key made; [`Problem::UnknownLink`] for any other text.
pub(in crate::serve) fn valid_link<L>(
    keys: &DownloadKeys,
    read: impl Fn(&DownloadKey) -> Option<L>,
    lasts: impl Fn(&L) -> bool,
) -> Result<L, Problem> {
    match read(keys.current()) {
        Some(link) if lasts(&link) => Ok(link),
        Some(_) => Err(Problem::LinkExpired),
        // The site gets a new link with its next update request.
        None if keys.retired().iter().any(|key| read(key).is_some()) => Err(Problem::LinkExpired),
        None => Err(Problem::UnknownLink),
    }
}

impl Download {
    /// The package, or why the site does not get it.
    pub(super) async fn answer(self, service: &Arc<Service>) -> Result<(Code, Sending), Problem> {
        // Before the license and the site are looked up: a condition that fails costs as much as a part that is sent.
        service.limits.check_link(&self.token)?;
        let download = Arc::new(self);
        let opened = package_answer::decide(service, move |service| download.open(service)).await?;
        Ok(package_answer::answer(service, opened))
    }

    /// Makes all checks of the link again, and opens the package. Blocks.
    fn open(&self, service: &Service) -> Result<Opened, Problem> {
        let key = self.keys.current();
        let release = (&self.slug, &self.version);
        let permitted = service.gate.package(&self.snapshot, &self.link, key, release, self.now);
        let code = match &permitted {
            Ok(Some(_)) => "permitted",
            Ok(None) => "not_found",
            Err(_) => "refused",
        };
        tracing::debug!(plugin = %self.slug, version = %self.version, code, "asked for a package");
        let permitted = permitted.map_err(Problem::Refused)?.ok_or(Problem::NoPackage)?;
        let question = PackageQuestion {
            keys: Some(Arc::clone(&self.keys)),
            day: self.link.day(),
            headers: self.headers.clone(),
            sends_bytes: self.sends_bytes,
        };
        let charge = |bytes, size| Ok(service.limits.check_link_bytes(&self.token, bytes, size)?);
        question.open(service, permitted, charge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_four_parts_and_the_last_repeats_the_first_two() {
        let path = LinkPath::parse("acme-forms/1.2.0-beta.1/token/acme-forms-1.2.0-beta.1.zip").unwrap();
        assert_eq!(
            (path.slug.as_str(), path.version.as_str(), path.token),
            ("acme-forms", "1.2.0-beta.1", "token")
        );
        for other in [
            "",
            "acme/1.0/token",
            "acme/1.0/token/acme-1.0.zip/",
            "acme/1.0/token/acme-1.1.zip",
            "acme/1.0/token/acme-1.0.ZIP",
            "acme/1.0/token/x/acme-1.0.zip",
            "/acme/1.0/token/acme-1.0.zip",
            "Acme/1.0/token/Acme-1.0.zip",
            "acme/v1.0/token/acme-v1.0.zip",
            "../1.0/token/..-1.0.zip",
            "acme/%31.0/token/acme-%31.0.zip",
        ] {
            assert_eq!(LinkPath::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_link_of_a_key_that_was_replaced_is_too_old_and_no_guess() {
        let folder = tempfile::tempdir().unwrap();
        let [current, retired] = ["downloads.key", "retired/downloads-1.key"].map(|name| folder.path().join(name));
        let [new, old, other] = [1, 2, 3].map(|byte| [byte; 32]);
        std::fs::create_dir(folder.path().join("retired")).unwrap();
        for (path, secret) in [(&current, new), (&retired, old)] {
            std::fs::write(path, secret).unwrap();
            let owner = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            std::fs::set_permissions(path, owner).unwrap();
        }
        let (keys, _) = DownloadKeys::load(&current, &folder.path().join("retired")).unwrap();
        let now: DateTime<Utc> = "2026-11-23T12:00:00Z".parse().unwrap();
        let license = countersign_model::license_key::LicenseId::from_bytes([7; 32]);
        let read = |secret: [u8; 32], day: &str| {
            let key = DownloadKey::new(&secret);
            let link = DownloadLink::new(&key, &license, &"a.com".parse().unwrap(), day.parse().unwrap());
            let token = link.token(&key, "acme", "1.0").unwrap();
            let path = format!("acme/1.0/{token}/acme-1.0.zip");
            read_link(&keys, &LinkPath::parse(&path).unwrap(), now).map(drop)
        };
        assert_eq!(read(new, "2026-11-23"), Ok(()));
        assert_eq!(read(new, "2026-11-20"), Ok(()), "the fourth midnight is that of today");
        assert_eq!(read(new, "2026-11-19"), Err(Problem::LinkExpired));
        assert_eq!(read(old, "2026-11-23"), Err(Problem::LinkExpired));
        assert_eq!(read(other, "2026-11-23"), Err(Problem::UnknownLink));
    }
}
