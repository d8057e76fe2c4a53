//! Watches files and folders, and reports that something changed, no matter who changed it and how.
//!
//! A path may be a symbolic link that is replaced, a folder that is deleted and created again, or absent. So its
//! parents are watched, too, and all watches are renewed after each check. The server reloads what changed. Why no
//! library waits for quiet: docs/decisions/0012-no-debouncer-for-watched-files.md.

use std::io;
use std::path::{self, Path, PathBuf};
use std::sync::Arc;

use notify::event::{AccessKind, AccessMode};
use notify::{ErrorKind, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

/// Calls back on every change while it watches.
pub struct Watch {
    paths: Vec<PathBuf>,
    changed: Arc<dyn Fn() + Send + Sync>,
    watcher: Option<RecommendedWatcher>,
    /// A failed watch is logged once; polling replaces it.
    failing: bool,
}

impl Watch {
    /// Prepares to watch `paths`, which need not exist.
    pub fn new(paths: Vec<PathBuf>, changed: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            paths,
            changed: Arc::new(changed),
            watcher: None,
            failing: false,
        }
    }

    /// Stops watching until it is resumed: reading a file is an event, too, and 20,000 of them keep a core busy.
    pub fn pause(&mut self) {
        self.watcher = None;
    }

    /// Watches the current targets of the paths, and these folders below them.
    pub fn resume<'a>(&mut self, folders: impl Iterator<Item = &'a Path>) {
        let failure = match self.watcher(folders) {
            // The old watcher is dropped only when the new one works.
            Ok((watcher, failure)) => {
                self.watcher = Some(watcher);
                failure
            }
            Err(error) => Some(error),
        };
        if let Some(error) = &failure
            && !self.failing
        {
            tracing::warn!(%error, "cannot watch every file; polling finds the other changes");
        }
        self.failing = failure.is_some();
    }

    /// Watches as much as possible, and returns what could not be watched.
    fn watcher<'a>(
        &self,
        folders: impl Iterator<Item = &'a Path>,
    ) -> notify::Result<(RecommendedWatcher, Option<notify::Error>)> {
        let targets: Vec<PathBuf> = self.paths.iter().filter_map(|path| path.canonicalize().ok()).collect();
        let places: Vec<WatchedPath> = self
            .paths
            .iter()
            .chain(&targets)
            .filter_map(|path| WatchedPath::of(path))
            .collect();
        let interest: Vec<PathBuf> = places.iter().map(|place| place.path.clone()).collect();
        let changed = Arc::clone(&self.changed);
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // An error means that events were lost.
            if event.map_or(true, |event| is_change(&event) && concerns(&event, &interest)) {
                changed();
            }
        })?;
        let mut failure = None;
        // Parents first: if a folder has two names, its events have the name that was watched last.
        for folder in places
            .iter()
            .map(|place| place.folder.clone())
            .chain(folders.map(Path::to_owned))
        {
            let failed = watcher.watch(&folder, RecursiveMode::NonRecursive).err();
            // What is gone since it was listed is a change, which the next check finds.
            failure = failure.or(failed.filter(|error| !is_gone(error)));
        }
        Ok((watcher, failure))
    }
}

/// Where a path is, by names without symbolic links, which is how events name files.
struct WatchedPath {
    /// The folder of the path, or the nearest parent that exists.
    folder: PathBuf,
    /// The path there.
    path: PathBuf,
}

impl WatchedPath {
    fn of(path: &Path) -> Option<Self> {
        // A relative path may have no parent in its name.
        let path = path::absolute(path).ok()?;
        let parent = path.ancestors().skip(1).find(|parent| parent.is_dir())?;
        let folder = parent.canonicalize().ok()?;
        Some(Self {
            path: folder.join(path.strip_prefix(parent).ok()?),
            folder,
        })
    }
}

fn is_gone(error: &notify::Error) -> bool {
    match &error.kind {
        ErrorKind::PathNotFound => true,
        ErrorKind::Io(error) => matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
        _ => false,
    }
}

/// Reading a file is not a change: builds, backups and the preview read files, too.
pub fn is_change(event: &Event) -> bool {
    !matches!(event.kind, EventKind::Access(kind) if kind != AccessKind::Close(AccessMode::Write))
}

fn concerns(event: &Event, interest: &[PathBuf]) -> bool {
    event.need_rescan()
        || event.paths.iter().any(|changed| {
            interest
                .iter()
                .any(|path| changed.starts_with(path) || path.starts_with(changed))
        })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    use super::*;

    /// A folder with `releases/acme/1.json`, a watcher of `paths` there, and its reports.
    fn watched(paths: &[&str]) -> (tempfile::TempDir, PathBuf, Watch, Receiver<()>) {
        let made = tempfile::tempdir().unwrap();
        let folder = made.path().canonicalize().unwrap();
        fs::create_dir_all(folder.join("releases/acme")).unwrap();
        fs::write(folder.join("releases/acme/1.json"), "").unwrap();
        symlink("releases", folder.join("current")).unwrap();
        let (said, heard) = channel();
        let watch = Watch::new(paths.iter().map(|path| folder.join(path)).collect(), move || {
            // At the end of a test nobody listens.
            let _ = said.send(());
        });
        (made, folder, watch, heard)
    }

    /// Whether a change is reported within this many milliseconds.
    fn hears(heard: &Receiver<()>, within: u64, change: impl FnOnce()) -> bool {
        // By then, earlier changes have been reported.
        while heard.recv_timeout(Duration::from_millis(300)).is_ok() {}
        change();
        heard.recv_timeout(Duration::from_millis(within)).is_ok()
    }

    fn notices(heard: &Receiver<()>, change: impl FnOnce()) -> bool {
        hears(heard, 10_000, change)
    }

    fn ignores(heard: &Receiver<()>, change: impl FnOnce()) -> bool {
        !hears(heard, 300, change)
    }

    #[test]
    fn a_change_is_noticed_while_and_where_it_is_watched_and_reading_is_none() {
        let (_made, folder, mut watch, heard) = watched(&["releases"]);
        let releases = folder.join("releases");
        let acme = releases.join("acme");
        let file = releases.join("acme/1.json");
        let folders = || [&releases, &acme].into_iter().map(PathBuf::as_path);
        let edit = || fs::write(&file, "{}").unwrap();
        assert!(ignores(&heard, edit), "nothing is watched yet");
        watch.resume(folders());
        assert!(notices(&heard, edit));
        assert!(ignores(&heard, || assert_eq!(fs::read_to_string(&file).unwrap(), "{}")));
        assert!(ignores(&heard, || fs::write(folder.join("beside"), "").unwrap()));
        watch.pause();
        assert!(ignores(&heard, edit));
        watch.resume(folders());
        assert!(notices(&heard, || fs::remove_dir_all(&releases).unwrap()));
        watch.pause();
        watch.resume([].into_iter());
        assert!(
            notices(&heard, || fs::create_dir(&releases).unwrap()),
            "its parent is watched"
        );
    }

    #[test]
    fn a_file_that_is_replaced_and_removed_at_once_is_noticed() {
        let (_made, folder, mut watch, heard) = watched(&["releases/acme/1.json"]);
        let file = folder.join("releases/acme/1.json");
        watch.resume([].into_iter());
        assert!(notices(&heard, || {
            let draft = file.with_extension("draft");
            fs::write(&draft, "{}").unwrap();
            fs::rename(&draft, &file).unwrap();
            fs::remove_file(&file).unwrap();
        }));
    }

    #[test]
    fn a_symbolic_link_is_watched_and_what_is_behind_it() {
        let (_made, folder, mut watch, heard) = watched(&["current"]);
        let target = folder.join("releases");
        watch.resume([&*target].into_iter());
        assert!(notices(&heard, || fs::write(target.join("index.json"), "").unwrap()));
        assert!(notices(&heard, || fs::rename(&target, folder.join("aside")).unwrap()));
        assert!(notices(&heard, || fs::remove_file(folder.join("current")).unwrap()));
    }

    #[test]
    fn a_path_below_a_symbolic_link_is_watched_there_or_not_yet_there() {
        for path in ["current/index.json", "current/acme/later/index.json"] {
            // The parent of the other name gives the folder another name.
            let (_made, folder, mut watch, heard) = watched(&[path, "releases/missing"]);
            watch.resume([].into_iter());
            let there = folder.join(path.replace("current", "releases"));
            let make = || {
                fs::create_dir_all(there.parent().unwrap()).unwrap();
                fs::write(&there, "").unwrap();
            };
            assert!(notices(&heard, make), "{path}");
        }
    }

    #[test]
    fn a_folder_that_is_gone_keeps_no_other_from_being_watched_and_is_no_failure() {
        let (_made, folder, mut watch, heard) = watched(&["releases"]);
        let gone = folder.join("releases/gone");
        let acme = folder.join("releases/acme");
        watch.resume([&*gone, &acme.join("1.json/below"), &acme].into_iter());
        assert!(!watch.failing);
        assert!(notices(&heard, || fs::write(acme.join("2.json"), "").unwrap()));
    }
}
