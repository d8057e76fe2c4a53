//! Serves the files of `public/` to anyone: regular files below the folder, with names that may be public.
//!
//! name → open below the folder → search for a private key → conditions (RFC 9110 section 13) → range → bytes.
//! `folder` has what must not be in the folder at all.

pub mod folder;
pub(crate) mod private_key;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use headers::{ETag, HeaderMapExt, LastModified};
use mime_guess::Mime;
use percent_encoding::percent_decode_str;
use tokio::task::spawn_blocking;
use warp::http::{HeaderMap, HeaderValue, header};

use crate::serve::net::handler::Sending;
use crate::serve::reply::body::ReplyBody;
use crate::serve::reply::conditions::{self, ContentSelection, Range};
use crate::serve::reply::file_body::FileBody;
use crate::serve::reply::file_reply::{self, FilePart};
use crate::serve::reply::outcome::Code;
use crate::serve::reply::problem::Problem;
use countersign_files::regular_file;

/// Up to this size, a file is read at once and closed before it is sent.
const AT_ONCE: usize = 64 * 1024;

/// The file that a request for a folder gets.
const INDEX: &str = "index.html";

/// Endings of files that editors, patches and copies leave behind, or are still writing.
const LEFTOVERS: [&str; 9] = ["~", ".swp", ".swo", ".swx", ".bak", ".orig", ".rej", ".old", ".tmp"];

/// A file that may be served.
struct ServableFile {
    file: File,
    length: u64,
    modified: LastModified,
    etag: Option<ETag>,
    kind: Mime,
    /// Its content, if it is short.
    whole: Option<Bytes>,
}

/// Answers GET and HEAD for a URL path with a file in `public`.
pub async fn reply(public: &Path, headers: &HeaderMap, path: &str) -> Result<(Code, Sending), Problem> {
    let found = find(public, path).await?;
    let wanted = conditions::of(headers, found.etag.as_ref(), Some(&found.modified), found.length);
    let range = match wanted {
        ContentSelection::Nothing => return Ok(file_reply::not_modified(about(&found))),
        ContentSelection::Failed => return Err(Problem::PreconditionFailed),
        ContentSelection::NoRange => return Err(Problem::RangeNotSatisfiable(found.length)),
        ContentSelection::Whole => Range {
            start: 0,
            end: found.length,
        },
        ContentSelection::Part(range) => range,
    };
    Ok(send(found, range, matches!(wanted, ContentSelection::Part(_))))
}

/// Whether there is a file at this URL path, for a request with another method.
pub async fn is_there(public: &Path, path: &str) -> bool {
    find(public, path).await.is_ok()
}

async fn find(public: &Path, path: &str) -> Result<ServableFile, Problem> {
    let name = name(path).ok_or(Problem::NotFound)?;
    let public = public.to_owned();
    let found = spawn_blocking(move || open(&public, name)).await;
    // The client does not learn why.
    found
        .map_err(|error| Problem::internal(&error))?
        .map_err(|_| Problem::NotFound)
}

/// The path of a file relative to the folder, if its name may be public. The path of a folder ends in `/`.
// SECURITY: only this function checks the name. What is above the folder is out of reach in any case.
fn name(path: &str) -> Option<String> {
    let name = percent_decode_str(path.strip_prefix('/').unwrap_or(path))
        .decode_utf8()
        .ok()?;
    if name.is_empty() {
        return Some("/".to_owned());
    }
    let folder = name.strip_suffix('/').unwrap_or(&name);
    let seen = folder
        .split('/')
        .enumerate()
        .all(|(depth, part)| depth == 0 && part == ".well-known" || is_seen(part));
    seen.then(|| name.into_owned())
}

fn is_seen(part: &str) -> bool {
    let small = part.to_ascii_lowercase();
    let is_leftover = LEFTOVERS.iter().any(|end| small.ends_with(end)) || part.starts_with('#') && part.ends_with('#');
    let is_odd = part.contains(|sign: char| sign == '\\' || sign.is_control());
    !part.is_empty() && !part.starts_with('.') && !is_leftover && !is_odd
}

fn open(public: &Path, name: String) -> io::Result<ServableFile> {
    let path = PathBuf::from(name.trim_end_matches('/'));
    let opened = match name.ends_with('/') {
        true => regular_file::open_beneath(public, &path.join(INDEX)).map(|file| (file, path.join(INDEX))),
        false => match regular_file::open_beneath(public, &path) {
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                regular_file::open_beneath(public, &path.join(INDEX)).map(|file| (file, path.join(INDEX)))
            }
            opened => opened.map(|file| (file, path)),
        },
    };
    let (file, path) = opened?;
    let metadata = file.metadata()?;
    let mut start = Vec::with_capacity(metadata.len().min(private_key::SEARCHED) as usize + 1);
    (&file).take(private_key::SEARCHED).read_to_end(&mut start)?;
    // SECURITY: a key that was put into the folder by mistake is not published yet.
    if private_key::is_in(&start) {
        tracing::warn!(file = %path.display(), "not serving a private key in the public folder: move it away");
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let modified = in_http(metadata.modified()?);
    let whole = (metadata.len() <= AT_ONCE as u64 && start.len() <= AT_ONCE).then(|| Bytes::from(start));
    let length = whole.as_ref().map_or(metadata.len(), |whole| whole.len() as u64);
    let nanoseconds = modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    Ok(ServableFile {
        file,
        length,
        modified: modified.into(),
        etag: format!("\"{nanoseconds:x}-{length:x}\"").parse().ok(),
        kind: mime_guess::from_path(&path).first_or_octet_stream(),
        whole,
    })
}

/// A time that HTTP can write: the years from 1970 to 9999 (RFC 9110 section 5.6.7). A file may have any other.
fn in_http(time: SystemTime) -> SystemTime {
    /// 9999-12-31T23:59:59Z.
    const LAST: Duration = Duration::from_secs(253_402_300_799);
    time.clamp(UNIX_EPOCH, UNIX_EPOCH + LAST)
}

/// The headers of every response about a file.
fn about(found: &ServableFile) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.typed_insert(found.modified);
    if let Some(etag) = found.etag.clone() {
        headers.typed_insert(etag);
    }
    headers
}

fn send(found: ServableFile, range: Range, is_part: bool) -> (Code, Sending) {
    let mut headers = about(&found);
    if let Ok(kind) = HeaderValue::from_str(found.kind.as_ref()) {
        headers.insert(header::CONTENT_TYPE, kind);
    }
    let body = match found.whole {
        Some(whole) => ReplyBody::from(whole.slice(range.start as usize..range.end as usize)),
        None => ReplyBody::read_while_sent(FileBody::new(found.file, range)),
    };
    let length = found.length;
    let part = FilePart { range, length, is_part };
    file_reply::send(headers, body, part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_meant_to_be_seen_are_and_others_are_not() {
        for (path, expected) in [
            ("/", "/"),
            ("/index.html", "index.html"),
            ("/keys/abc.pem", "keys/abc.pem"),
            ("/keys/", "keys/"),
            ("/.well-known/jwks.json", ".well-known/jwks.json"),
            ("/a%20b/%C3%A4.txt", "a b/ä.txt"),
            ("/a..b/c#d", "a..b/c#d"),
        ] {
            assert_eq!(name(path).as_deref(), Some(expected), "{path}");
        }
        for path in [
            "/.env",
            "/.git/config",
            "/.git/",
            "/a/.well-known/b",
            "/.well-known/.x",
            "/.",
            "/..",
            "/../x",
            "/a/../b",
            "/%2e%2e/x",
            "/%2eenv",
            "/a~",
            "/a.bak",
            "/A.BAK",
            "/a.php.swp",
            "/a.orig",
            "/#a#",
            "/%23a%23",
            "/a/b~/c",
            "/a.tmp",
            "//etc/passwd",
            "/a//b",
            "/a\\b",
            "/a%5cb",
            "/a%00",
            "/a%0ab",
            "/%ff",
        ] {
            assert_eq!(name(path), None, "{path}");
        }
    }
}
