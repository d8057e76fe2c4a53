//! Watching files: says that something at or below some paths changed, whoever changed it and however.
//!
//! A path may be a symbolic link that is swapped, a folder that is deleted and made again, or not there yet; so its
//! parents are watched too, and everything is watched anew after each look. Changes go to `reload`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use notify::event::{AccessKind, AccessMode};
use notify::{ErrorKind, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

/// Calls back on every change at or below its paths, until it is dropped.
pub struct Watch {
    paths: Vec<PathBuf>,
    changed: Arc<dyn Fn() + Send + Sync>,
    watcher: Option<RecommendedWatcher>,
    /// A watch that fails is logged once; the poll does its work.
    failure: Option<String>,
}

impl Watch {
    /// Will watch `paths`, which need not exist.
    pub fn new(paths: Vec<PathBuf>, changed: impl Fn() + Send + Sync + 'static) -> Self {
        Self { paths, changed: Arc::new(changed), watcher: None, failure: None }
    }

    /// Notices nothing until it is resumed: a file that is read is an event as well, and 20,000 of them keep a core busy.
    pub fn pause(&mut self) {
        self.watcher = None;
    }

    /// Watches what the paths lead to now, and these folders below them.
    pub fn resume(&mut self, folders: &[&Path]) {
        let failure = self.try_resume(folders).err().map(|error| error.to_string());
        if let Some(error) = &failure
            && self.failure != failure
        {
            tracing::warn!(error, "not every file can be watched; what is not noticed is found by polling");
        }
        self.failure = failure;
    }

    /// Watches as much as can be. Returns why something could not.
    fn try_resume(&mut self, folders: &[&Path]) -> notify::Result<()> {
        let targets: Vec<PathBuf> = self.paths.iter().filter_map(|path| path.canonicalize().ok()).collect();
        let interest: Vec<PathBuf> = self.paths.iter().chain(&targets).cloned().collect();
        let parents: Vec<PathBuf> = interest.iter().filter_map(|path| parent(path)).map(Path::to_owned).collect();
        let changed = Arc::clone(&self.changed);
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // An error means that events were lost.
            if event.map_or(true, |event| is_change(&event) && concerns(&event, &interest)) {
                changed();
            }
        })?;
        let mut outcome = Ok(());
        for folder in parents.iter().map(PathBuf::as_path).chain(folders.iter().copied()) {
            match watcher.watch(folder, RecursiveMode::NonRecursive) {
                // What is gone meanwhile is a change that another look finds.
                Err(error) if !matches!(error.kind, ErrorKind::PathNotFound) => outcome = outcome.and(Err(error)),
                _ => {}
            }
        }
        self.watcher = Some(watcher);
        outcome
    }
}

/// The folder `path` stands in, or the nearest one above that exists.
fn parent(path: &Path) -> Option<&Path> {
    path.ancestors()
        .skip(1)
        .map(|parent| if parent.as_os_str().is_empty() { Path::new(".") } else { parent })
        .find(|parent| parent.is_dir())
}

/// Reading a file is no change, and reading is what a reload does.
fn is_change(event: &Event) -> bool {
    !matches!(event.kind, EventKind::Access(kind) if kind != AccessKind::Close(AccessMode::Write))
}

fn concerns(event: &Event, interest: &[PathBuf]) -> bool {
    event.need_rescan()
        || event.paths.iter().any(|changed| {
            interest.iter().any(|path| {
                let changed = changed.strip_prefix(".").unwrap_or(changed);
                let path = path.strip_prefix(".").unwrap_or(path);
                changed.starts_with(path) || path.starts_with(changed)
            })
        })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    use super::*;

    /// A folder `releases` with a file in a folder, what watches it, and what it says.
    fn watched() -> (tempfile::TempDir, Watch, Receiver<()>) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("releases/acme")).unwrap();
        fs::write(folder.path().join("releases/acme/1.json"), "").unwrap();
        let (said, heard) = channel();
        let watch = Watch::new(vec![folder.path().join("releases")], move || said.send(()).unwrap());
        (folder, watch, heard)
    }

    /// Whether anything is said from now on.
    fn hears(heard: &Receiver<()>, change: impl FnOnce()) -> bool {
        while heard.try_recv().is_ok() {}
        change();
        let noticed = heard.recv_timeout(Duration::from_millis(500)).is_ok();
        while heard.recv_timeout(Duration::from_millis(50)).is_ok() {}
        noticed
    }

    #[test]
    fn a_change_is_noticed_where_it_is_watched_and_reading_is_none() {
        let (folder, mut watch, heard) = watched();
        let (releases, file) = (folder.path().join("releases"), folder.path().join("releases/acme/1.json"));
        let edit = || fs::write(&file, "{}").unwrap();
        assert!(!hears(&heard, edit), "nothing is watched yet");
        watch.resume(&[&releases, &releases.join("acme")]);
        assert!(hears(&heard, edit));
        assert!(!hears(&heard, || assert_eq!(fs::read_to_string(&file).unwrap(), "{}")));
        assert!(!hears(&heard, || fs::write(folder.path().join("beside"), "").unwrap()));
        watch.pause();
        assert!(!hears(&heard, edit));
        watch.resume(&[&releases, &releases.join("acme")]);
        assert!(hears(&heard, || fs::remove_dir_all(&releases).unwrap()));
        watch.resume(&[]);
        assert!(hears(&heard, || fs::create_dir(&releases).unwrap()), "its parent is watched");
    }

    #[test]
    fn a_folder_that_is_gone_keeps_no_other_from_being_watched() {
        let (folder, mut watch, heard) = watched();
        let acme = folder.path().join("releases/acme");
        watch.resume(&[&folder.path().join("releases/gone"), &acme]);
        assert_eq!(watch.failure, None, "another look finds that it is gone");
        assert!(hears(&heard, || fs::write(acme.join("2.json"), "").unwrap()));
    }
}
