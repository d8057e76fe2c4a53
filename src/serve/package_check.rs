//! Checks in the background that the packages on disk match the index, after a start and whenever the releases change.
//!
//! Reading many packages takes minutes, so unchanged files are not read again. Errors are shown in
//! [`health`](crate::serve::health); [`package_faults`](crate::serve::package_faults) keeps those packages from being
//! sent.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Weak};
use std::thread;

use chrono::Utc;

use crate::serve::background::{TimeSlice, lower_priority};
use crate::serve::health::{Part, State};
use crate::serve::state::Service;
use countersign_model::digest::Digest;
use countersign_model::text::ErrorChain;
use countersign_model::text::printable::Printable;
use countersign_package::catalog::{self, HostedPackage, ReleaseIndex};

/// How many errors are logged one by one.
const MOST_NAMED: usize = 10;

/// The state of a file when it was verified, and what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct VerifiedFile {
    sha256: Digest,
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

/// Starts the checking thread, which ends with the service.
///
/// # Errors
/// A thread cannot be started.
pub(super) fn start(service: &Arc<Service>, requests: Receiver<()>, releases: PathBuf) -> io::Result<()> {
    service.packages.wake();
    let service = Arc::downgrade(service);
    let work = move || run(&service, &requests, &releases);
    thread::Builder::new().name("packages".to_owned()).spawn(work).map(drop)
}

fn run(service: &Weak<Service>, requests: &Receiver<()>, releases: &Path) {
    lower_priority();
    let mut verified = HashMap::new();
    while requests.recv().is_ok() {
        let is_over = || service.strong_count() == 0;
        let faults = faults(releases, &mut verified, is_over);
        let Some(service) = service.upgrade() else { return };
        note(&service, &faults);
    }
}

/// Checks the packages of the index; returns errors by expected digest.
fn faults(
    releases: &Path,
    verified: &mut HashMap<PathBuf, VerifiedFile>,
    is_over: impl Fn() -> bool,
) -> Vec<(Digest, String)> {
    // Without a valid index, the catalog reports the error.
    let index = ReleaseIndex::read(releases).ok().flatten().unwrap_or_default();
    let mut faults = Vec::new();
    let mut before = std::mem::take(verified);
    for (slug, plugin) in &index.plugins {
        for release in &plugin.releases {
            let Some(package) = &release.package else { continue };
            if is_over() {
                return faults;
            }
            let path = catalog::package_path(releases, slug, &release.version);
            let earlier = before.remove(&path);
            match verify(&path, package, earlier) {
                Ok(file) => drop(verified.insert(path, file)),
                Err(fault) => faults.push((package.sha256, fault)),
            }
        }
    }
    faults
}

/// Reads a package, unless it has not changed since it was verified.
fn verify(path: &Path, package: &HostedPackage, earlier: Option<VerifiedFile>) -> Result<VerifiedFile, String> {
    let look = || VerifiedFile::of(path, package).map_err(|error| format!("{}: {error}", Printable(path.display())));
    let file = look()?;
    if Some(file) == earlier {
        return Ok(file);
    }
    let mut slice = TimeSlice::begin();
    catalog::verify_package(path, package, |_| slice.pause()).map_err(|error| ErrorChain(&error).first_line())?;
    Ok(file)
}

impl VerifiedFile {
    fn of(path: &Path, package: &HostedPackage) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        Ok(Self {
            sha256: package.sha256,
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

/// Logs the result, and why no link can be made, if so.
fn note(service: &Service, faults: &[(Digest, String)]) {
    service.packages.replace(faults.iter().map(|(digest, _)| *digest));
    let snapshot = service.gate.snapshot();
    let is_hosted = snapshot.registry.hosts_packages() || snapshot.catalog.packages() > 0;
    let unlinked = if !is_hosted {
        None
    } else if snapshot.secrets.downloads.is_none() {
        Some("updates have no links: there is no key for downloads".to_owned())
    } else if service.links.public_url().is_none() {
        Some("updates have no links: serve.public_url is not set".to_owned())
    } else {
        None
    };
    let detail = match faults {
        [] => unlinked,
        [(_, fault)] => Some(fault.clone()),
        [(_, fault), rest @ ..] => Some(format!("{fault}; and {} more", rest.len())),
    };
    let state = if detail.is_some() { State::Stale } else { State::Ok };
    if service.health.note(Part::Packages, state, detail.clone(), Utc::now()) {
        match detail {
            Some(detail) if faults.is_empty() => tracing::warn!("{detail}"),
            _ => {
                for (_, fault) in faults.iter().take(MOST_NAMED) {
                    tracing::warn!(%fault, "a package is not the one that was published, and is not sent");
                }
            }
        }
    }
}
