//! Watching files: says that something at or below some paths changed, whoever changed it and however.
//!
//! A path may be a symbolic link that is swapped, a folder that is deleted and made again, or not there yet; so its
//! parents are watched too, and everything is watched anew after each look. Changes go to `reload`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

/// Calls back on every change at or below its paths, until it is dropped.
pub struct Watch {
    paths: Vec<PathBuf>,
    changed: Arc<dyn Fn() + Send + Sync>,
    watcher: Option<RecommendedWatcher>,
    /// A watch that fails is logged once; the poll does its work.
    failure: Option<String>,
}

impl Watch {
    /// Watches `paths`, which need not exist.
    pub fn new(paths: Vec<PathBuf>, changed: impl Fn() + Send + Sync + 'static) -> Self {
        let mut watch = Self { paths, changed: Arc::new(changed), watcher: None, failure: None };
        watch.resume();
        watch
    }

    /// Notices nothing until it is resumed: a file that is read is an event as well, and 20,000 of them keep a core busy.
    pub fn pause(&mut self) {
        self.watcher = None;
    }

    /// Watches what the paths lead to now.
    pub fn resume(&mut self) {
        match self.watcher() {
            Ok(watcher) => {
                self.watcher = Some(watcher);
                self.failure = None;
            }
            Err(error) => {
                let error = error.to_string();
                if self.failure.as_ref() != Some(&error) {
                    tracing::warn!(%error, "files cannot be watched; changes are found by polling");
                    self.failure = Some(error);
                }
            }
        }
    }

    fn watcher(&self) -> notify::Result<RecommendedWatcher> {
        let interest: Vec<PathBuf> =
            self.paths.iter().flat_map(|path| [Some(path.clone()), path.canonicalize().ok()]).flatten().collect();
        let changed = Arc::clone(&self.changed);
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // An error means that events were lost.
            if event.map_or(true, |event| is_change(&event) && concerns(&event, &interest)) {
                changed();
            }
        })?;
        for path in &self.paths {
            watch_parent(&mut watcher, path)?;
            let Ok(target) = path.canonicalize() else { continue };
            if target != *path {
                watch_parent(&mut watcher, &target)?;
            }
        }
        // Last, because a folder that is watched twice is watched as it was asked for last.
        for target in self.paths.iter().filter_map(|path| path.canonicalize().ok()).filter(|target| target.is_dir()) {
            watcher.watch(&target, RecursiveMode::Recursive)?;
        }
        Ok(watcher)
    }
}

/// Watches the folder `path` stands in, or the nearest one above that exists.
fn watch_parent(watcher: &mut RecommendedWatcher, path: &Path) -> notify::Result<()> {
    let parents =
        path.ancestors().skip(1).map(|parent| if parent.as_os_str().is_empty() { Path::new(".") } else { parent });
    match parents.into_iter().find(|parent| parent.is_dir()) {
        Some(parent) => watcher.watch(parent, RecursiveMode::NonRecursive),
        None => Ok(()),
    }
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
