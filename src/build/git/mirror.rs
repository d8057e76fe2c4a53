//! Mirrors of remote repositories: bare, with tags only, one cache folder per URL, fetched incrementally.
//!
//! A first fetch goes to a temporary folder, which is renamed when it is complete. Local repositories are read in
//! place. [`repository`](crate::build::git::repository) reads mirrors.

use std::fs::{self, DirBuilder, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use url::Url;

use crate::build::git::credentials::Credentials;
use crate::build::git::git_command::{Git, GitError};
use crate::build::git::mirror_folder::{is_ours, is_own_folder, is_tidy, tidy};
use countersign_files::folder_lock::{self, HeldLock};
use countersign_files::regular_file;
use countersign_model::digest::Digest;
use countersign_model::git_hosts::GitHost;

/// A process that changes a mirror locks this file.
const LOCK: &str = "lock";

/// The mirrors of this machine, and how to update them.
#[derive(Clone, Debug)]
pub struct Mirrors {
    /// Their folder.
    pub cache: PathBuf,
    /// Do not fetch.
    pub offline: bool,
    /// Time limit of a fetch, including the wait for another build that fetches the same URL.
    pub timeout: Duration,
    /// Size limit of a mirror in bytes.
    pub limit: u64,
    /// Hosts that may be fetched from.
    pub allowed: Vec<GitHost>,
    /// A token for one host.
    pub credentials: Option<Credentials>,
}

/// Why a mirror cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    /// ssh would take the host for an option.
    #[error("not an address: a host must not begin with '-'")]
    Strange,
    /// The host is not in the vendor's list.
    #[error("allowed_git_hosts does not allow it: to fetch from it, add {0:?}")]
    NotAllowed(String),
    /// Another user could write to it, or something in it was changed since the last fetch.
    #[error("its mirror was changed after it was fetched: build once without --offline")]
    Distrusted,
    /// It was never fetched, and `--offline` forbids fetching.
    #[error("it has no mirror yet, and --offline forbids fetching one")]
    Absent,
    /// Another build is fetching it.
    #[error("another build is fetching it")]
    Busy,
    /// A file or folder in the cache cannot be written.
    #[error("{}: cannot be written", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// git failed. The old mirror stays.
    #[error("cannot be fetched")]
    Fetch(#[from] GitError),
}

impl Mirrors {
    /// Updates the mirror of `url` and returns its folder.
    pub fn update(&self, url: &Url) -> Result<PathBuf, MirrorError> {
        if url.authority().starts_with('-') {
            return Err(MirrorError::Strange);
        }
        if self.offline {
            return existing(&self.cache, url);
        }
        if !self.allowed.iter().any(|host| host.allows(url)) {
            return Err(MirrorError::NotAllowed(GitHost::that_allows(url)));
        }
        let (folder, mirror) = places(&self.cache, url);
        let git = Git::new(self.credentials.as_ref(), url.scheme(), self.timeout, self.limit);
        let write = |source| MirrorError::Write {
            path: folder.clone(),
            source,
        };
        // SECURITY: releases to customers are made from it.
        let own = || DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        own().map_err(write)?;
        let path = folder.join(LOCK);
        if !is_own_folder(&folder).map_err(write)? || !may_be_locked(&path).map_err(write)? {
            remove(&folder).and_then(|()| own()).map_err(write)?;
        }
        let _lock = lock(&path, &git)?;
        // Under the lock: git makes a link for a moment when it begins a repository.
        if !is_ours(&folder, &folder).map_err(write)? {
            empty(&folder).map_err(write)?;
        }
        let fetched = if mirror.exists() {
            tidy(&mirror).map_err(write)?;
            fetch_into_old(&git, &mirror, url)?
        } else {
            false
        };
        if !fetched {
            make(&git, &folder.join("new"), &mirror, url)?;
        }
        // Also git's own files, so that the next reader can tell whether somebody else wrote to it.
        tidy(&mirror).map_err(write)?;
        Ok(mirror)
    }
}

/// The mirror of `url` as of the last fetch; writes nothing.
///
/// # Errors
/// It was never fetched, or was changed since.
pub(crate) fn existing(cache: &Path, url: &Url) -> Result<PathBuf, MirrorError> {
    let (folder, mirror) = places(cache, url);
    match mirror.exists() {
        false => Err(MirrorError::Absent),
        true if is_ours(&folder, &mirror).unwrap_or(false) && is_tidy(&mirror) => Ok(mirror),
        true => Err(MirrorError::Distrusted),
    }
}

/// The URL without possible secrets.
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // Fails for a URL without a host, which has no password either.
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.into()
}

/// The folder of a mirror, and in it the mirror with the name of the repository, which a main file may have, too.
fn places(cache: &Path, url: &Url) -> (PathBuf, PathBuf) {
    let digest = Digest::of(url.as_str().as_bytes()).to_string();
    let folder = cache.join(format!(
        "{}-{}",
        plain(url.host_str().unwrap_or("local")),
        &digest[..16]
    ));
    let name = url.path().trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let mirror = folder.join(format!("{}.git", plain(name.strip_suffix(".git").unwrap_or(name))));
    (folder, mirror)
}

/// A name for a folder: no separator, no leading dot, not too long.
fn plain(name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') {
            c
        } else {
            '-'
        }
    };
    let name: String = name.trim_start_matches('.').chars().take(64).map(plain).collect();
    if name.is_empty() { "repository".into() } else { name }
}

/// Whether the lock is a regular file, or is missing.
fn may_be_locked(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(found.is_file()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// Waits for other builds within git's time limit.
fn lock(path: &Path, git: &Git<'_>) -> Result<Option<HeldLock>, MirrorError> {
    let file = regular_file::create(path, 0o600).map_err(|source| MirrorError::Write {
        path: path.to_owned(),
        source,
    })?;
    match folder_lock::wait(file, git.time_left(), || ()) {
        Ok(held) => Ok(Some(held)),
        Err(TryLockError::WouldBlock) => Err(MirrorError::Busy),
        // Some network file systems have no locks.
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

/// Fetches; `false` if the mirror is damaged and must be fetched from scratch.
fn fetch_into_old(git: &Git<'_>, mirror: &Path, url: &Url) -> Result<bool, GitError> {
    let Err(error) = fetch(git, mirror, url) else {
        return Ok(true);
    };
    if let GitError::TooLarge(_) = error {
        // A partial fetch is useless. If it cannot be removed now, the next fetch removes it.
        let _ = fs::remove_dir_all(mirror);
    }
    let GitError::Failed(message) = &error else {
        return Err(error);
    };
    // This process holds the lock of the mirror, so a git lock file is left from a killed process.
    let locked = message.contains(".lock': File exists");
    let is_whole = || git.run(mirror, &["rev-list", "--quiet", "--objects", "--all"]);
    if locked || matches!(is_whole(), Err(GitError::Failed(_))) {
        Ok(false)
    } else {
        Err(error)
    }
}

/// Fetches the mirror into the folder `new`, and renames it when it is complete.
fn make(git: &Git<'_>, new: &Path, mirror: &Path, url: &Url) -> Result<(), MirrorError> {
    let write = |source| MirrorError::Write {
        path: mirror.to_owned(),
        source,
    };
    remove(new).map_err(write)?;
    let made = git.run(new, &["init", "--quiet", "--bare", "--template="]);
    if let Err(error) = made.and_then(|()| fetch(git, new, url)) {
        // What cannot be removed now is removed before the next try.
        let _ = remove(new);
        return Err(error.into());
    }
    remove(mirror).and_then(|()| fs::rename(new, mirror)).map_err(write)
}

fn fetch(git: &Git<'_>, mirror: &Path, url: &Url) -> Result<(), GitError> {
    let options = [
        "fetch",
        "--quiet",
        "--prune",
        "--no-tags",
        "--no-recurse-submodules",
        "--no-write-fetch-head",
    ];
    // SECURITY: arguments after `--` are never options.
    let what = ["--", url.as_str(), "+refs/tags/*:refs/tags/*"];
    git.run(mirror, &[&options[..], &what].concat())
}

/// Removes everything but the lock, which this process holds.
fn empty(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else if entry.file_name() != LOCK {
            fs::remove_file(entry.path())?;
        }
    }
    fs::set_permissions(folder, Permissions::from_mode(0o700))
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn mirrors(cache: &Path) -> Mirrors {
        let allowed = ["file://", "example.com", "-oProxyCommand=id"].map(str::parse);
        Mirrors {
            cache: cache.to_owned(),
            offline: false,
            timeout: Duration::from_secs(60),
            limit: u64::MAX,
            allowed: allowed.into_iter().flatten().collect(),
            credentials: None,
        }
    }

    #[test]
    fn a_mirror_is_called_as_its_repository_in_a_folder_of_its_own() {
        let place = |url: &str| places(Path::new("cache"), &url.parse().unwrap());
        for (url, host, name) in [
            ("https://example.com/acme/forms.git", "example.com-", "forms.git"),
            ("https://example.com/acme/forms/", "example.com-", "forms.git"),
            ("ssh://git@example.com:22/a%2F..%2Fb", "example.com-", "a-2F..-2Fb.git"),
            ("ssh://[::1]/~/..git", "---1--", "repository.git"),
            ("file:///", "local-", "repository.git"),
        ] {
            let (folder, mirror) = place(url);
            assert_eq!(mirror, folder.join(name), "{url}");
            let digest = folder
                .to_str()
                .unwrap()
                .strip_prefix("cache/")
                .unwrap()
                .strip_prefix(host)
                .unwrap();
            assert!(
                digest.len() == 16 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()),
                "{url}: {folder:?}"
            );
        }
        assert_ne!(
            place("https://example.com/acme").0,
            place("https://example.com/other/acme").0
        );
    }

    #[test]
    fn what_may_be_a_secret_is_not_shown() {
        for (url, expected) in [
            (
                "https://me:canary@example.com/acme?token=canary#canary",
                "https://me@example.com/acme",
            ),
            ("file:///srv/acme", "file:///srv/acme"),
        ] {
            assert_eq!(shown(&url.parse().unwrap()), expected);
        }
    }

    #[test]
    fn a_host_that_ssh_would_take_for_an_option_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for url in [
            "ssh://-oProxyCommand=id/acme",
            "ssh://-oProxyCommand=id@example.com/acme",
        ] {
            let refused = mirrors(folder.path()).update(&url.parse().unwrap());
            assert!(matches!(refused, Err(MirrorError::Strange)), "{url}");
        }
    }

    #[test]
    fn mirrors_are_for_their_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("cache");
        mirrors(&cache).update(&"file:///nowhere".parse().unwrap()).unwrap_err();
        let place = fs::read_dir(&cache).unwrap().next().unwrap().unwrap();
        assert_eq!(place.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn what_another_build_has_made_so_far_stays_and_a_lock_that_is_no_file_goes() {
        let folder = tempfile::tempdir().unwrap();
        let url: Url = "file:///nowhere/forms.git".parse().unwrap();
        let (folder, _) = places(folder.path(), &url);
        let mut mirrors = mirrors(folder.parent().unwrap());
        let update = |mirrors: &Mirrors| mirrors.update(&url).unwrap_err();
        assert!(matches!(update(&mirrors), MirrorError::Fetch(_)));
        let held = lock(&folder.join(LOCK), &Git::new(None, "file", Duration::ZERO, 0)).unwrap();
        // `git init` makes such a link to find out whether the file system has links.
        fs::create_dir(folder.join("new")).unwrap();
        let link = folder.join("new/tXbY7k");
        symlink("testing", &link).unwrap();
        mirrors.timeout = Duration::from_millis(60);
        assert!(matches!(update(&mirrors), MirrorError::Busy));
        assert!(fs::symlink_metadata(&link).is_ok());
        drop(held);
        mirrors.timeout = Duration::from_secs(60);
        assert!(matches!(update(&mirrors), MirrorError::Fetch(_)));
        assert!(!folder.join("new").exists());

        fs::remove_file(folder.join(LOCK)).unwrap();
        symlink("elsewhere", folder.join(LOCK)).unwrap();
        assert!(matches!(update(&mirrors), MirrorError::Fetch(_)));
        assert!(may_be_locked(&folder.join(LOCK)).unwrap());
    }

    #[test]
    fn who_waits_for_another_build_waits_no_longer_than_a_fetch_may_take() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let _held = lock(&path, &Git::new(None, "file", Duration::ZERO, 0)).unwrap();
        assert!(matches!(
            lock(&path, &Git::new(None, "file", Duration::from_millis(60), 0)),
            Err(MirrorError::Busy)
        ));
    }
}
