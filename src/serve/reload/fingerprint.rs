//! Fingerprints of files: whether anything at or below some paths has changed since another check, and is at rest.
//!
//! `reload` loads a part when its fingerprint changes.

use std::collections::HashSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::serve::background::TimeSlice;

/// Several ticks of any kernel's clock.
const TICKS: Duration = Duration::from_millis(50);

/// Deeper than any of our folders; stops at cycles of symbolic links.
const MAX_DEPTH: usize = 8;

/// The metadata of files, condensed.
#[derive(Debug)]
pub(crate) struct Fingerprint {
    /// Differs if anything changed.
    pub value: u64,
    /// Whether nothing changed in the last moments. Timestamps have ticks of some milliseconds, so a file can change
    /// again in the same tick and look the same.
    pub at_rest: bool,
    /// Every folder found, by a name that has symbolic links only below the paths.
    pub folders: Vec<PathBuf>,
    /// The last change.
    pub newest: PathBuf,
}

/// A folder and its fingerprint: a server that read these files has them in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilesSeen {
    /// The folder, without symbolic links.
    pub path: PathBuf,
    /// Differs if anything changed. Programs of the same version compute the same.
    pub fingerprint: String,
}

impl FilesSeen {
    /// The current fingerprint of everything at and below `folder`.
    pub fn of(folder: &Path) -> Self {
        Self::new(folder, Fingerprint::of(&[folder.to_owned()]).value)
    }

    pub(crate) fn new(folder: &Path, value: u64) -> Self {
        let path = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        Self {
            path,
            fingerprint: format!("{value:016x}"),
        }
    }
}

impl Fingerprint {
    /// The current fingerprint of everything at and below `paths`, following symbolic links.
    pub(crate) fn of(paths: &[PathBuf]) -> Self {
        let mut hasher = DefaultHasher::new();
        let mut newest = (0, 0);
        let mut newest_path = PathBuf::new();
        let mut folders = Vec::new();
        let mut time_slice = TimeSlice::begin();
        let mut look = |path: &Path, metadata: &fs::Metadata| {
            time_slice.pause();
            let changed = (metadata.ctime(), metadata.ctime_nsec());
            if changed > newest {
                newest = changed;
                newest_path = path.to_owned();
            }
            (
                path,
                metadata.dev(),
                metadata.ino(),
                metadata.size(),
                metadata.mtime(),
                metadata.mtime_nsec(),
                changed,
            )
                .hash(&mut hasher);
            if metadata.is_dir() {
                folders.push(path.to_owned());
            }
        };
        let mut walked = HashSet::new();
        for path in paths {
            // By the name that events will have.
            let path = path.canonicalize().unwrap_or_else(|_| path.clone());
            walk(&path, MAX_DEPTH, &mut walked, &mut look);
        }
        let newest = SystemTime::UNIX_EPOCH + Duration::new(newest.0.max(0) as u64, newest.1 as u32);
        // A future time means that a clock was set back. It counts as at rest.
        let at_rest = newest.elapsed().map_or(true, |age| age > TICKS);
        Self {
            value: hasher.finish(),
            at_rest,
            folders,
            newest: newest_path,
        }
    }
}

/// Passes every file and folder at and below `path` to `visit`, following symbolic links. Skips what cannot be read,
/// because loading it gives the error, and hidden files, because they are temporary and nobody loads them.
///
/// `walked` has the visited folders, by device and inode: otherwise five links to `.` would be 700,000 folders.
fn walk(path: &Path, depth: usize, walked: &mut HashSet<(u64, u64)>, visit: &mut impl FnMut(&Path, &fs::Metadata)) {
    let Ok(metadata) = fs::metadata(path) else { return };
    visit(path, &metadata);
    if depth == 0 || !metadata.is_dir() || !walked.insert((metadata.dev(), metadata.ino())) {
        return;
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let is_read = |entry: &fs::DirEntry| !entry.file_name().as_encoded_bytes().starts_with(b".");
    let mut below: Vec<_> = entries.filter(is_read).map(|entry| entry.path()).collect();
    below.sort();
    for path in below {
        walk(&path, depth - 1, walked, visit);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::time::Instant;

    use super::*;

    #[test]
    fn links_in_a_circle_are_walked_once() {
        let folder = tempfile::tempdir().unwrap();
        for name in 0..20 {
            symlink(".", folder.path().join(format!("link{name}"))).unwrap();
        }
        let started = Instant::now();
        let seen = Fingerprint::of(&[folder.path().to_owned()]);
        assert_eq!(seen.folders.len(), 21, "the folder, and its links as what they are");
        assert!(started.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn what_nobody_loads_is_not_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let paths = [folder.path().to_owned()];
        fs::write(folder.path().join("export.jsonl"), "").unwrap();
        fs::write(folder.path().join(".export.jsonl.tmp"), "").unwrap();
        let before = Fingerprint::of(&paths);
        fs::write(folder.path().join(".export.jsonl.tmp"), "a line").unwrap();
        assert_eq!(Fingerprint::of(&paths).value, before.value);
        // The folder may have got its files in the same tick.
        std::thread::sleep(TICKS);
        fs::write(folder.path().join("export.jsonl"), "a line").unwrap();
        let after = Fingerprint::of(&paths);
        assert_ne!(after.value, before.value);
        assert!(after.newest.ends_with("export.jsonl"), "{:?}", after.newest);
    }
}
