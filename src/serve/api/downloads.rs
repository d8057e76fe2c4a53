//! `GET /api/v1/downloads/<slug>/<version>/<token>/<slug>-<version>.zip`: a package, for the site that has the link.
//!
//! path → token → limit → all checks of the link again → conditions and range → limit of bytes → open → send. [`FileBody`] inserts the
//! mark while it sends; nothing is written. Blocking threads look up the site, open the file and read it.

use std::fs::File;
use std::io;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use headers::{ETag, HeaderMapExt};
use tokio::task::spawn_blocking;
use uuid::Uuid;
use warp::http::{HeaderMap, HeaderValue, Method, Request, header};

use crate::serve::gate::{PermittedDownload, Snapshot};
use crate::serve::links;
use crate::serve::net::handler::Sending;
use crate::serve::reply::body::ReplyBody;
use crate::serve::reply::conditions::{self, ContentSelection, Range};
use crate::serve::reply::file_body::{FileBody, FileState, PackageSource};
use crate::serve::reply::file_reply::{self, FilePart};
use crate::serve::reply::outcome::Code;
use crate::serve::reply::problem::Problem;
use crate::serve::state::Service;
use countersign_files::regular_file;
use countersign_ledger::LedgerLook;
use countersign_model::build_id::BuildId;
use countersign_model::download_key::DownloadKey;
use countersign_model::download_link::DownloadLink;
use countersign_model::slug::Slug;
use countersign_model::version::Version;
use countersign_package::MAX_PACKED;
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
struct Download {
    snapshot: Arc<Snapshot>,
    keys: Arc<DownloadKeys>,
    slug: Slug,
    version: Version,
    /// Selects the bucket of the link.
    token: String,
    link: DownloadLink,
    now: DateTime<Utc>,
    headers: HeaderMap,
    /// Whether the method is GET, not HEAD.
    sends_bytes: bool,
}

/// A package to send, and the requested part of it.
struct OpenedPackage {
    file: File,
    opened: FileState,
    permitted: PermittedDownload,
    build_id: Option<Uuid>,
    etag: ETag,
    range: Range,
    is_part: bool,
}

/// A successful result of checking a request.
enum Opened {
    Package(Box<OpenedPackage>),
    NotModified(ETag),
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
    // Before the license and the site are looked up: a condition that fails costs as much as a part that is sent.
    service.limits.check_link(path.token)?;
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
    let download = Arc::new(download);
    let first = open_elsewhere(service, &download).await;
    let look = match &first {
        Err(Problem::Refused(refusal)) if refusal.rests_on_ledger() => {
            service.gate.bindings().refresh(LedgerLook::Read)
        }
        _ => None,
    };
    let opened = match look {
        None => first,
        Some(look) => {
            service.within_deadline(look).await?;
            open_elsewhere(service, &download).await
        }
    };
    match opened? {
        Opened::NotModified(etag) => Ok(file_reply::not_modified(about(etag))),
        Opened::Package(package) => Ok(send(service, *package)),
    }
}

/// Opens the package on a blocking thread. On a disk that hangs, the waiting thread is abandoned.
async fn open_elsewhere(service: &Arc<Service>, download: &Arc<Download>) -> Result<Opened, Problem> {
    let work = {
        let service = Arc::clone(service);
        let download = Arc::clone(download);
        move || download.open(&service)
    };
    let opened = tokio::time::timeout(service.request_timeout, spawn_blocking(work)).await;
    opened
        .map_err(|_| Problem::PackageUnavailable)?
        .map_err(|error| Problem::internal(&error))?
}

/// Parses the link. SECURITY: nothing else of the path is looked up before this.
fn read_link(keys: &DownloadKeys, path: &LinkPath<'_>, now: DateTime<Utc>) -> Result<DownloadLink, Problem> {
    let read = |key: &DownloadKey| DownloadLink::read(key, path.slug.as_str(), path.version.as_str(), path.token);
    match read(keys.current()) {
        Some(link) if now < link.expires => Ok(link),
        Some(_) => Err(Problem::LinkExpired),
        // The site gets a new link with its next update request.
        None if keys.retired().iter().any(|key| read(key).is_some()) => Err(Problem::LinkExpired),
        None => Err(Problem::UnknownLink),
    }
}

impl Download {
    /// Makes all checks of the link again, and opens the package. Blocks.
    fn open(&self, service: &Arc<Service>) -> Result<Opened, Problem> {
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
        let build_id = self.build_id(&permitted)?;
        let etag = etag(&permitted, build_id)?;
        let size = permitted.package.size;
        let wanted = conditions::of(&self.headers, Some(&etag), None, size);
        let range = match wanted {
            ContentSelection::Nothing => return Ok(Opened::NotModified(etag)),
            ContentSelection::Failed => return Err(Problem::PreconditionFailed),
            ContentSelection::NoRange => return Err(Problem::RangeNotSatisfiable(size)),
            ContentSelection::Whole => Range { start: 0, end: size },
            ContentSelection::Part(range) => range,
        };
        let bytes = if self.sends_bytes { range.end - range.start } else { 0 };
        service.limits.check_link_bytes(&self.token, bytes, size)?;
        if service.packages.is_unfit(&permitted.package.sha256) {
            return Err(Problem::PackageUnavailable);
        }
        let (file, opened) = open(&permitted).map_err(|error| {
            service.packages.look_at(&permitted, &error);
            Problem::PackageUnavailable
        })?;
        Ok(Opened::Package(Box::new(OpenedPackage {
            file,
            opened,
            permitted,
            build_id,
            etag,
            range,
            is_part: matches!(wanted, ContentSelection::Part(_)),
        })))
    }

    /// The build id for the package's mark, if it has one. It depends on the link's day, so parts of several
    /// responses fit.
    fn build_id(&self, permitted: &PermittedDownload) -> Result<Option<Uuid>, Problem> {
        if permitted.package.mark.is_none() {
            return Ok(None);
        }
        let key = self.keys.current();
        let slug = self.slug.as_str();
        let version = self.version.as_str();
        let id = BuildId::new(key, &permitted.license, &permitted.host, self.link.day(), slug, version);
        let id =
            id.ok_or_else(|| Problem::internal(&"the clock is before 2026, or behind 2070: there are no build ids"))?;
        Ok(Some(id.encrypt(key)))
    }
}

/// Opens a package with the length in the index.
fn open(permitted: &PermittedDownload) -> io::Result<(File, FileState)> {
    let file = regular_file::open(&permitted.path, MAX_PACKED)?;
    let opened = FileState::of(&file)?;
    let expected = permitted.package.size;
    if opened.size == expected {
        Ok((file, opened))
    } else {
        let found = opened.size;
        Err(io::Error::other(format!(
            "has {found} bytes, and the index says {expected}"
        )))
    }
}

/// The ETag: of the package with this mark.
fn etag(permitted: &PermittedDownload, build_id: Option<Uuid>) -> Result<ETag, Problem> {
    let digest = permitted.package.sha256;
    let text = match build_id {
        Some(id) => format!("\"{digest}-{id}\""),
        None => format!("\"{digest}\""),
    };
    text.parse().map_err(|_| Problem::internal(&"a digest is no tag"))
}

/// Headers of every response about a package.
fn about(etag: ETag) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.typed_insert(etag);
    // SECURITY: a package is for one site, but CDNs store .zip files unless told not to.
    let private = HeaderValue::from_static("private, no-store, no-transform");
    headers.insert(header::CACHE_CONTROL, private);
    headers
}

fn send(service: &Arc<Service>, package: OpenedPackage) -> (Code, Sending) {
    let OpenedPackage {
        file,
        opened,
        permitted,
        build_id,
        etag,
        range,
        is_part,
    } = package;
    let held = permitted.package;
    let mut headers = about(etag);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/zip"));
    // No file name: WordPress would use it for its temporary file, and sites that share a folder would overwrite each
    // other's.
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    let on_change = {
        let service = Arc::clone(service);
        move |error: &io::Error| service.packages.look_at(&permitted, error)
    };
    let source = PackageSource {
        patch: held.mark.zip(build_id).map(|(places, id)| places.patch(id)),
        opened,
        sent: service.metrics.downloaded.clone(),
        on_change: Box::new(on_change),
    };
    let body = FileBody::of_package(file, range, source);
    let part = FilePart {
        range,
        length: held.size,
        is_part,
    };
    file_reply::send(headers, ReplyBody::read_while_sent(body), part)
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
