//! A package as the answer to a request: conditions, range, file and mark. Callers have decided who gets it.
//!
//! [`FileBody`] inserts the mark while it sends; nothing is written. Blocking threads open the file.

use std::fs::File;
use std::io;
use std::sync::Arc;

use chrono::{NaiveDate, Utc};
use headers::{ETag, HeaderMapExt};
use tokio::task::spawn_blocking;
use uuid::Uuid;
use warp::http::{HeaderMap, HeaderValue, header};

use crate::serve::gate::PermittedDownload;
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
use countersign_package::MAX_PACKED;
use countersign_settings::keys::secret_keys::DownloadKeys;

/// What a request asks of a package.
pub(crate) struct PackageQuestion {
    /// `None` where no package has a mark.
    pub keys: Option<Arc<DownloadKeys>>,
    /// The day of the mark. On one day, parts of several responses fit.
    pub day: NaiveDate,
    /// Conditions and range.
    pub headers: HeaderMap,
    /// Whether the method is not HEAD.
    pub sends_bytes: bool,
}

/// A package to send, and the requested part of it.
pub(crate) struct OpenedPackage {
    file: File,
    opened: FileState,
    permitted: PermittedDownload,
    build_id: Option<Uuid>,
    etag: ETag,
    range: Range,
    is_part: bool,
}

/// A successful result of checking a request.
pub(crate) enum Opened {
    /// All of it, or a part.
    Package(Box<OpenedPackage>),
    /// The client has it.
    NotModified(ETag),
}

/// Does blocking work for a request, and again after a look at the shared ledger where the first no rests on it. On a disk that
/// hangs, the waiting thread is abandoned.
pub(crate) async fn decide<T: Send + 'static>(
    service: &Arc<Service>,
    work: impl Fn(&Arc<Service>) -> Result<T, Problem> + Clone + Send + 'static,
) -> Result<T, Problem> {
    let first = elsewhere(service, work.clone()).await;
    let look = match &first {
        Err(Problem::Refused(refusal)) if refusal.rests_on_ledger() => {
            service.gate.bindings().refresh(LedgerLook::Read)
        }
        _ => None,
    };
    match look {
        None => first,
        Some(look) => {
            service.within_deadline(look).await?;
            elsewhere(service, work).await
        }
    }
}

async fn elsewhere<T: Send + 'static>(
    service: &Arc<Service>,
    work: impl FnOnce(&Arc<Service>) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let work = {
        let service = Arc::clone(service);
        move || work(&service)
    };
    let done = tokio::time::timeout(service.request_timeout, spawn_blocking(work)).await;
    done.map_err(|_| Problem::PackageUnavailable)?
        .map_err(|error| Problem::internal(&error))?
}

impl PackageQuestion {
    /// Opens a package for this request. `charge` gets the bytes that will be sent and the size of the package, and may refuse.
    /// Blocks.
    pub(crate) fn open(
        &self,
        service: &Service,
        permitted: PermittedDownload,
        charge: impl FnOnce(u64, u64) -> Result<(), Problem>,
    ) -> Result<Opened, Problem> {
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
        if service.packages.is_unfit(&permitted.package.sha256) {
            return Err(Problem::PackageUnavailable);
        }
        let (file, opened) = open(&permitted).map_err(|error| {
            service.packages.look_at(&permitted, &error);
            Problem::PackageUnavailable
        })?;
        // At last: what cannot be sent costs nothing.
        let bytes = if self.sends_bytes { range.end - range.start } else { 0 };
        charge(bytes, size)?;
        if bytes > 0 && range.start == 0 {
            let PermittedDownload { slug, version, .. } = &permitted;
            let snapshot = service.gate.load();
            let is_newest = snapshot.catalog.newest(slug) == Some(version);
            let now = Utc::now();
            service.tally.download(slug, version, is_newest, now);
            if permitted.is_after_end {
                service.tally.security_delivery(slug, version, now);
            }
            let plugin = snapshot.registry.plugin(slug.as_str());
            if plugin.is_some_and(|plugin| plugin.rollout.is_some()) {
                service.taken.note(&permitted, now);
            }
        }
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

    /// The build id for the package's mark, if it has one.
    fn build_id(&self, permitted: &PermittedDownload) -> Result<Option<Uuid>, Problem> {
        if permitted.package.mark.is_none() {
            return Ok(None);
        }
        mark(self.keys.as_deref(), permitted, self.day).map(Some)
    }
}

/// The build id in the mark of a copy of this day.
pub(crate) fn mark(keys: Option<&DownloadKeys>, copy: &PermittedDownload, day: NaiveDate) -> Result<Uuid, Problem> {
    let key = keys
        .ok_or_else(|| Problem::internal(&"there is no key for downloads, and the package has a mark"))?
        .current();
    let id = copy.build_id(key, day);
    let id =
        id.ok_or_else(|| Problem::internal(&"the clock is before 2026, or behind 2070: there are no build ids"))?;
    Ok(id.encrypt(key))
}

impl PermittedDownload {
    fn build_id(&self, key: &DownloadKey, day: NaiveDate) -> Option<BuildId> {
        let slug = self.slug.as_str();
        let version = self.version.as_str();
        match &self.host {
            Some(host) => BuildId::new(key, &self.license, host, day, slug, version),
            None => BuildId::first_copy(key, &self.license, day, slug, version),
        }
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
    // SECURITY: a package is for one license, but CDNs store .zip files unless told not to.
    let private = HeaderValue::from_static("private, no-store, no-transform");
    headers.insert(header::CACHE_CONTROL, private);
    headers
}

/// The answer. It names no file: WordPress would use that for its temporary file, and sites that share a folder would overwrite
/// each other's.
pub(crate) fn answer(service: &Arc<Service>, opened: Opened) -> (Code, Sending) {
    let OpenedPackage {
        file,
        opened,
        permitted,
        build_id,
        etag,
        range,
        is_part,
    } = match opened {
        Opened::NotModified(etag) => return file_reply::not_modified(about(etag)),
        Opened::Package(package) => *package,
    };
    let held = permitted.package;
    let mut headers = about(etag);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/zip"));
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
