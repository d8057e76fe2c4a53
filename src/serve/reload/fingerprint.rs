//! What files look like from outside: whether anything at or below some paths changed since another look, and is at rest.
//!
//! `reload` loads a part when its fingerprint is another one.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::serve::background::Stints;

/// Several ticks of any kernel's clock.
const TICKS: Duration = Duration::from_millis(50);

/// Deeper than any layout of ours; ends a cycle of symbolic links.
const MAX_DEPTH: usize = 8;

/// What a look at the files' metadata tells: whether anything changed since another look.
#[derive(Debug)]
pub struct Fingerprint {
    /// Another one where anything changed.
    pub value: u64,
    /// Whether nothing changed in the last moments. Timestamps come in ticks of some milliseconds, so a file that was
    /// changed in this one can change again and look the same.
    pub at_rest: bool,
    /// Every folder that was found, by a name that has symbolic links only below the paths.
    pub folders: Vec<PathBuf>,
}

/// A folder, and what the files in it look like: a server that read them then has them in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilesSeen {
    /// The folder, without symbolic links.
    pub path: PathBuf,
    /// Another one where anything changed. Programs of one version agree on it.
    pub fingerprint: String,
}

impl FilesSeen {
    /// Looks at everything at and below `folder` now.
    pub fn of(folder: &Path) -> Self {
        Self::new(folder, Fingerprint::of(&[folder.to_owned()]).value)
    }

    pub(crate) fn new(folder: &Path, value: u64) -> Self {
        let path = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        Self { path, fingerprint: format!("{value:016x}") }
    }
}

impl Fingerprint {
    /// Looks at everything at and below `paths`, following symbolic links.
    pub fn of(paths: &[PathBuf]) -> Self {
        let mut hasher = DefaultHasher::new();
        let mut newest = (0, 0);
        let mut folders = Vec::new();
        let mut stints = Stints::begin();
        let mut look = |path: &Path, metadata: &fs::Metadata| {
            stints.pause();
            let changed = (metadata.ctime(), metadata.ctime_nsec());
            newest = newest.max(changed);
            (path, metadata.dev(), metadata.ino(), metadata.size(), metadata.mtime(), metadata.mtime_nsec(), changed)
                .hash(&mut hasher);
            if metadata.is_dir() {
                folders.push(path.to_owned());
            }
        };
        for path in paths {
            // By the name that changes will be told by.
            let path = path.canonicalize().unwrap_or_else(|_| path.clone());
            walk(&path, MAX_DEPTH, &mut look);
        }
        let newest = SystemTime::UNIX_EPOCH + Duration::new(newest.0.max(0) as u64, newest.1 as u32);
        // A time in the future is a clock that was set back: at rest as far as anyone can tell.
        let at_rest = newest.elapsed().map_or(true, |age| age > TICKS);
        Self { value: hasher.finish(), at_rest, folders }
    }
}

/// Shows every file and folder at and below `path` to `visit`, following symbolic links. What cannot be read is left
/// out: loading it will say why.
fn walk(path: &Path, depth: usize, visit: &mut impl FnMut(&Path, &fs::Metadata)) {
    let Ok(metadata) = fs::metadata(path) else { return };
    visit(path, &metadata);
    if depth == 0 || !metadata.is_dir() {
        return;
    }
    let mut below: Vec<_> = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    below.sort();
    for path in below {
        walk(&path, depth - 1, visit);
    }
}
