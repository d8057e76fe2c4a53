//! Drafts: what a build would publish of a plugin, and what its next release would be if it were tagged now. They are
//! built in memory from local files; nothing is written or fetched.
//!
//! [`draft`] takes the same steps 2 to 4 as [`run`](crate::build::run). `countersign preview` shows the result.

mod memory;
mod next;
mod release;

use std::collections::HashMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::build::draft::memory::Memory;
use crate::build::fetch::{self, Fetched};
use crate::build::git::mirror::{self, MirrorError};
use crate::build::git::repository::Repository;
use crate::build::git::tag::Tag;
use crate::build::git::working_tree::WorkingTree;
use crate::build::plugin_build::build_entry;
use crate::build::progress::NoProgress;
use crate::build::report::plugin_report::{MayGo, PluginReport, PluginState};
use crate::build::side_by_side::side_by_side;
use crate::build::source::assets::{self, Artwork};
use crate::build::source::source_reader::SourceReader;
use countersign_files::time_limit;
use countersign_model::plugin::{self, Plugin, PluginKind};
use countersign_package::catalog::Releases;
use countersign_registry::Diagnostic;
use countersign_registry::plugins::PluginEntry;

pub use release::{DraftPackage, DraftRelease, NextRelease, Origin};

/// The draft of a plugin.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The releases of its tags.
    pub tagged: Arc<TaggedReleases>,
    /// What is not tagged yet: the working tree, then HEAD. Empty for a mirror.
    pub next: Vec<NextRelease>,
    /// Images for the CMS in the repository.
    pub artwork: Vec<Artwork>,
    /// The paths on which the draft depends.
    pub places: Vec<WatchedFolder>,
}

/// The releases of all tags.
#[derive(Debug)]
pub struct TaggedReleases {
    /// The report, as of `countersign build --check`.
    pub report: PluginReport,
    /// Every manifest, newest first.
    pub releases: Vec<DraftRelease>,
    /// Digest of the inputs: while it is the same, so are the releases.
    key: Key,
}

type Key = (Result<Plugin, Vec<Diagnostic>>, Vec<Tag>, Option<Releases>);

/// Drafts several plugins in parallel: each entry with its published releases. `before` has their last drafts.
pub fn all<'a>(
    plugins: &[(PluginEntry, Option<Releases>)],
    cache: &Path,
    limit: Duration,
    before: impl Fn(&PluginEntry) -> Option<&'a Draft> + Sync,
) -> Vec<Draft> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let work = |(entry, published): &(PluginEntry, Option<Releases>)| {
        Ok::<_, Infallible>(draft(entry, published.as_ref(), cache, limit, before(entry)))
    };
    let Ok(drafts) = side_by_side(plugins, cores, work);
    drafts
}

/// Drafts one plugin on a thread of its own, because libgit2 opens whatever it finds, even a pipe. A plugin that
/// takes longer than `limit` counts as broken.
pub fn draft(
    entry: &PluginEntry,
    published: Option<&Releases>,
    cache: &Path,
    limit: Duration,
    before: Option<&Draft>,
) -> Draft {
    let own = (entry.clone(), published.cloned(), cache.to_owned(), before.cloned());
    let work = move || draft_now(&own.0, own.1.as_ref(), &own.2, own.3.as_ref());
    time_limit::within(limit, work).unwrap_or_else(|error| {
        let problem = format!("{}: {error}", fetch::repository_of(entry));
        let report = PluginReport {
            state: PluginState::Broken(vec![problem]),
            ..PluginReport::new(entry)
        };
        let key = (entry.plugin.clone(), Vec::new(), published.cloned());
        let tagged = Arc::new(TaggedReleases {
            report,
            releases: Vec::new(),
            key,
        });
        Draft {
            tagged,
            next: Vec::new(),
            artwork: Vec::new(),
            places: Vec::new(),
        }
    })
}

/// Drafts one plugin. `published` has its published releases, `cache` the mirrors of remote repositories. The tags'
/// releases in `before` are reused if their inputs are the same.
fn draft_now(entry: &PluginEntry, published: Option<&Releases>, cache: &Path, before: Option<&Draft>) -> Draft {
    let fetched = fetched(entry, cache);
    let opened = opened(entry, &fetched);
    let tags = opened
        .as_ref()
        .and_then(|(_, repository)| repository.tags().ok())
        .unwrap_or_default();
    let key = (entry.plugin.clone(), tags, published.cloned());
    let known = before.filter(|before| before.tagged.key == key && !before.tagged.is_broken());
    let tagged = known.map_or_else(
        || Arc::new(tagged(entry, &fetched, key)),
        |before| before.tagged.clone(),
    );
    match opened {
        None => Draft {
            tagged,
            next: Vec::new(),
            artwork: Vec::new(),
            places: Vec::new(),
        },
        Some((plugin, repository)) => Draft {
            next: next::next(plugin, &repository, &tagged.report.releases.releases),
            artwork: assets::all(plugin, &repository),
            places: places(plugin, &repository),
            tagged,
        },
    }
}

/// What the working tree of a plugin without a registry entry says that it is, or without one HEAD.
pub fn kind(entry: &PluginEntry, limit: Duration) -> PluginKind {
    let own = entry.clone();
    let is_theme = move || {
        let (plugin, repository) = opened(&own, &HashMap::new())?;
        if let Some(tree) = WorkingTree::of(&repository) {
            return Some(SourceReader::new(&tree, plugin).is_theme(&PathBuf::new()));
        }
        let head = repository.head().ok().flatten()?;
        Some(SourceReader::new(&repository, plugin).is_theme(&head.tree))
    };
    match time_limit::within(limit, is_theme) {
        Ok(Some(true)) => PluginKind::Theme,
        _ => PluginKind::Plugin,
    }
}

/// The image with this name; `None` if it is missing or too large.
pub fn picture(entry: &PluginEntry, cache: &Path, name: &str) -> Option<Vec<u8>> {
    let (plugin, repository) = opened(entry, &fetched(entry, cache))?;
    assets::read(plugin, &repository, name)
}

fn opened<'a>(entry: &'a PluginEntry, fetched: &Fetched) -> Option<(&'a Plugin, Repository)> {
    let plugin = entry.plugin.as_ref().ok()?;
    Some((plugin, fetch::open(plugin, fetched).ok()?))
}

impl TaggedReleases {
    /// Whether both have the same content.
    pub fn same(&self, other: &Self) -> bool {
        self.key == other.key && self.releases == other.releases && (self.report.to_json() == other.report.to_json())
    }

    fn is_broken(&self) -> bool {
        matches!(self.report.state, PluginState::Broken(_))
    }
}

/// The existing mirror of the plugin's repository, if that is remote.
fn fetched(entry: &PluginEntry, cache: &Path) -> Fetched {
    let source = entry.plugin.as_ref().ok().and_then(|plugin| plugin.source.as_ref());
    let Some(plugin::RepositoryLocation::Url(url)) = source.map(|source| &source.repository) else {
        return HashMap::new();
    };
    let unreadable = |error| {
        let why = if matches!(error, MirrorError::Absent) {
            "never fetched"
        } else {
            "changed since it was fetched"
        };
        format!(
            "{}: {why}; a preview does not fetch: run `countersign build` once",
            mirror::shown(url)
        )
    };
    HashMap::from([(url.clone(), mirror::existing(cache, url).map_err(unreadable))])
}

/// Steps 2 to 4 for every tag.
fn tagged(entry: &PluginEntry, fetched: &Fetched, key: Key) -> TaggedReleases {
    let folder = key
        .0
        .as_ref()
        .ok()
        .and_then(|plugin| plugin.source.as_ref())
        .map(|source| source.path.clone());
    let memory = Memory::new(key.2.clone(), folder.unwrap_or_default());
    let Ok(mut report) = build_entry(entry, fetched, &memory, None, true, &NoProgress);
    report.choose_published(&key.2.clone().unwrap_or_default(), MayGo::All);
    let mut releases = memory.into_releases();
    // Two tags with the same version in their headers can be refused only when all are known.
    releases.retain(|held| {
        report
            .releases
            .releases
            .iter()
            .any(|release| release.tag == held.manifest.tag)
    });
    releases.sort_by(|a, b| b.version.cmp_php(&a.version));
    TaggedReleases { report, releases, key }
}

/// A folder to watch; it need not exist.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WatchedFolder {
    /// Where it is.
    pub folder: PathBuf,
    /// Whether to watch its subfolders, too.
    pub and_below: bool,
}

/// The paths of the plugin's own files and of git's references.
pub(super) fn places(plugin: &Plugin, repository: &Repository) -> Vec<WatchedFolder> {
    let flat = |folder: PathBuf| WatchedFolder {
        folder,
        and_below: false,
    };
    let [own, shared] = repository.reference_folders();
    let mut places = vec![flat(own.into()), flat(shared.into())];
    places.push(WatchedFolder {
        folder: shared.join("refs"),
        and_below: true,
    });
    if let (Some(root), Some(source)) = (repository.working_tree(), &plugin.source) {
        let folder = root.join(&source.path);
        let pinned = source
            .main_file
            .as_ref()
            .and_then(|file| folder.join(file).parent().map(Path::to_owned));
        places.extend(assets::FOLDERS.map(|name| flat(root.join(name))));
        places.extend(assets::FOLDERS.map(|name| flat(folder.join(name))));
        places.extend([root.into(), folder].map(flat));
        places.extend(pinned.map(flat));
    }
    places.sort();
    places.dedup();
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::fixture::{FILE, Fixture, LINK, entry, header};
    use std::fs;

    fn drafted(made: &Fixture, before: Option<&Draft>) -> Draft {
        draft(&entry(made.plugin()), None, Path::new("cache"), LIMIT, before)
    }

    /// `WorkingTree 1.3`, `Head 1.2 released`, …
    fn listed(draft: &Draft) -> Vec<String> {
        let line = |next: &NextRelease| {
            let version = match &next.release {
                Ok(release) => release.version.to_string(),
                Err(remark) => remark.to_string(),
            };
            format!(
                "{:?} {version}{}",
                next.origin,
                if next.is_released { " released" } else { "" }
            )
        };
        draft.next.iter().map(line).collect()
    }

    fn write(made: &Fixture, version: &str) {
        fs::write(made.repository().join("acme.php"), header(version)).unwrap();
    }

    const LIMIT: Duration = Duration::from_secs(300);

    #[test]
    fn the_working_tree_and_head_are_the_next_release_unless_a_tag_shows_the_same() {
        let made = Fixture::new();
        assert_eq!(
            listed(&drafted(&made, None)),
            ["WorkingTree no PHP file at the plugin's root has a plugin header"]
        );
        write(&made, "1.2");
        let unborn = drafted(&made, None);
        assert_eq!(listed(&unborn), ["WorkingTree 1.2"], "there is no commit yet");
        assert_eq!(unborn.next[0].release.as_ref().unwrap().manifest.last_updated, "");
        made.git.set_head_detached(made.release("v1.2", "1.2")).unwrap();
        assert_eq!(
            listed(&drafted(&made, None)),
            ["WorkingTree 1.2 released", "Head 1.2 released"]
        );
        write(&made, "1.3");
        let draft = drafted(&made, None);
        assert_eq!(listed(&draft), ["WorkingTree 1.3", "Head 1.2 released"]);
        let next = draft.next[0].release.as_ref().unwrap();
        assert_eq!(&*next.manifest.tag, "v1.3", "named as the newest tag is");
        assert!(
            next.remarks.iter().all(|remark| remark.file.is_empty()),
            "only what is absent: {:?}",
            next.remarks
        );
    }

    #[test]
    fn a_version_that_is_tagged_elsewhere_or_barred_is_reported_with_its_line() {
        let made = Fixture::new();
        made.release("1.2", "1.2");
        made.git
            .set_head_detached(made.commit(&[("acme.php", &header("1.2")), ("readme.txt", "x")]))
            .unwrap();
        write(&made, "3.0");
        let mut plugin = made.plugin();
        plugin.withhold = vec!["3.0".parse().unwrap()];
        let draft = draft(&entry(plugin), None, Path::new("cache"), LIMIT, None);
        let remarks: Vec<_> = draft
            .next
            .iter()
            .map(|next| next.release.as_ref().unwrap().remarks[0].to_string())
            .collect();
        assert_eq!(
            remarks,
            [
                "acme.php:4: withheld by the entry",
                "acme.php:4: its version is already released; raise it in the header: 1.2",
            ]
        );
    }

    #[test]
    fn what_is_no_version_and_what_is_no_file_gives_no_release() {
        let made = Fixture::new();
        made.git
            .set_head_detached(made.commit_of(&[("acme.php", LINK, b"/etc/passwd"), ("x", FILE, b"")]))
            .unwrap();
        write(&made, "soon");
        assert_eq!(
            listed(&drafted(&made, None)),
            [
                "WorkingTree acme.php:4: the header's Version is not a version: soon in acme.php",
                "Head acme.php: links and submodules are not followed: acme.php is a symbolic link",
            ]
        );
    }

    #[test]
    fn a_version_that_sites_would_misread_gives_no_release() {
        let made = Fixture::new();
        made.release("1.2", "1.2");
        write(&made, "1.3-preview.1");
        assert_eq!(
            listed(&drafted(&made, None)),
            [
                "WorkingTree acme.php:4: sites misread the version's suffix: PHP takes it for newer than 1.3; write -beta.1"
            ]
        );
    }

    #[test]
    fn tags_are_read_again_only_where_something_changed() {
        let made = Fixture::new();
        made.release("1.2", "1.2");
        let first = drafted(&made, None);
        write(&made, "1.3");
        let edited = drafted(&made, Some(&first));
        assert!(Arc::ptr_eq(&edited.tagged, &first.tagged));
        assert_eq!(listed(&edited), ["WorkingTree 1.3"]);
        made.release("1.3", "1.3");
        let tagged = drafted(&made, Some(&edited));
        assert!(!Arc::ptr_eq(&tagged.tagged, &first.tagged));
        assert_eq!(tagged.tagged.releases.len(), 2);
    }

    #[test]
    fn a_draft_is_what_a_build_publishes() {
        let made = Fixture::new();
        made.release("v1.0", "1.0");
        made.release("1.1", "1.1");
        made.release("broken", "1.1");
        let drafted = drafted(&made, None);
        made.run(&[entry(made.plugin())], false, &[]);
        for release in &drafted.tagged.releases {
            let published = fs::read(made.releases().join(format!("acme/{}.json", release.version))).unwrap();
            assert_eq!(release.manifest.to_bytes(), published);
        }
        assert_eq!(drafted.tagged.releases.len(), 2);
    }
}
