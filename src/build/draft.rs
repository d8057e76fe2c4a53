//! Drafts: what a build would publish of a plugin, and what its next release would be if it were tagged now; composed in
//! memory from what is on this machine. Nothing is written, nothing is fetched.
//!
//! [`draft`] goes through the same steps 2 to 4 as [`run`](crate::build::run). `countersign preview` shows what comes out.

use std::cell::RefCell;
use std::collections::HashMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::build::compose::{self, Facts};
use crate::build::git::mirror;
use crate::build::git::mirror::MirrorError;
use crate::build::git::repository::{Repository, Tag, Tagged};
use crate::build::git::working_tree::WorkingTree;
use crate::build::manifest_sink::{Composed, Remark, Shelf};
use crate::build::report::outcome::Reason;
use crate::build::review;
use crate::build::source::assets::{self, Artwork};
use crate::build::source::source_reader::SourceReader;
use crate::build::source::source_tree::Files;
use crate::build::{Fetched, PluginReport, Progress, State, build_entry, open, side_by_side, tags};
use crate::catalog::{Release, Releases};
use crate::model::digest::Digest;
use crate::model::manifest::Manifest;
use crate::model::plugin::{self, Plugin};
use crate::model::slug::Slug;
use crate::model::version::Version;
use crate::registry::Complaint;
use crate::registry::plugins::Entry;
use crate::time_limit;

/// A plugin as it would be published.
#[derive(Clone, Debug)]
pub struct Draft {
    /// What its tags give.
    pub tagged: Arc<TaggedReleases>,
    /// What is not tagged yet: the working tree, then HEAD. Neither where the repository is a mirror.
    pub next: Vec<NextRelease>,
    /// Pictures for the CMS that the repository brings.
    pub artwork: Vec<Artwork>,
    /// Where a change may change the draft.
    pub places: Vec<Place>,
}

/// A folder to watch; it need not exist.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Where it is.
    pub folder: PathBuf,
    /// Whether the folders in it count, too.
    pub and_below: bool,
}

/// The releases that tags give, all of them.
#[derive(Debug)]
pub struct TaggedReleases {
    /// What `countersign build --check` would report.
    pub report: PluginReport,
    /// Every manifest, newest first.
    pub releases: Vec<DraftRelease>,
    /// What it follows from; while this is the same, so are the releases.
    key: Key,
}

type Key = (Result<Plugin, Vec<Complaint>>, Vec<Tag>, Option<Releases>);

/// A manifest that is in no folder of releases.
#[derive(Clone, Debug, PartialEq)]
pub struct DraftRelease {
    /// The version it would be published under.
    pub version: Version,
    /// What the CMS would read.
    pub manifest: Manifest,
    /// What there is to know about it.
    pub remarks: Vec<Remark>,
}

/// A release that is not tagged.
#[derive(Clone, Debug, PartialEq)]
pub struct NextRelease {
    /// Where its files are.
    pub origin: Origin,
    /// The release, or why tagging would give none.
    pub release: Result<DraftRelease, Remark>,
    /// Whether it shows nothing that a tag at HEAD does not show already.
    pub is_released: bool,
}

/// Where the files of an untagged release are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In the folder somebody is working in, uncommitted edits included.
    WorkingTree,
    /// In the commit that is checked out.
    Head,
}

/// Drafts plugins side by side: each entry with what is published of it; `before` knows their last drafts.
pub fn all<'a>(
    plugins: &[(Entry, Option<Releases>)],
    cache: &Path,
    limit: Duration,
    before: impl Fn(&Entry) -> Option<&'a Draft> + Sync,
) -> Vec<Draft> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let work = |(entry, published): &(Entry, Option<Releases>)| {
        Ok::<_, Infallible>(draft(entry, published.as_ref(), cache, limit, before(entry)))
    };
    let Ok(drafts) = side_by_side(plugins, cores, work);
    drafts
}

/// Drafts one plugin, on a thread of its own: libgit2 opens what it finds, be it a pipe. A plugin that takes longer than `limit`
/// is broken.
pub fn draft(
    entry: &Entry,
    published: Option<&Releases>,
    cache: &Path,
    limit: Duration,
    before: Option<&Draft>,
) -> Draft {
    let own = (entry.clone(), published.cloned(), cache.to_owned(), before.cloned());
    let work = move || draft_now(&own.0, own.1.as_ref(), &own.2, own.3.as_ref());
    time_limit::within(limit, work).unwrap_or_else(|error| {
        let problem = format!("{}: {error}", crate::build::repository_of(entry));
        let report = PluginReport { state: State::Broken(vec![problem]), ..PluginReport::new(entry) };
        let key = (entry.plugin.clone(), Vec::new(), published.cloned());
        let tagged = Arc::new(TaggedReleases { report, releases: Vec::new(), key });
        Draft { tagged, next: Vec::new(), artwork: Vec::new(), places: Vec::new() }
    })
}

/// Drafts one plugin. `published` is what `releases/` says of it, `cache` has the mirrors of remote repositories; what
/// `before` says of the tags is taken over where nothing it follows from has changed.
fn draft_now(entry: &Entry, published: Option<&Releases>, cache: &Path, before: Option<&Draft>) -> Draft {
    let fetched = fetched(entry, cache);
    let opened = opened(entry, &fetched);
    let tags = opened.as_ref().and_then(|(_, repository)| repository.tags().ok()).unwrap_or_default();
    let key = (entry.plugin.clone(), tags, published.cloned());
    let known = before.filter(|before| before.tagged.key == key && !before.tagged.is_broken());
    let tagged = known.map_or_else(|| Arc::new(tagged(entry, &fetched, key)), |before| before.tagged.clone());
    match opened {
        None => Draft { tagged, next: Vec::new(), artwork: Vec::new(), places: Vec::new() },
        Some((plugin, repository)) => Draft {
            next: next(plugin, &repository, &tagged),
            artwork: assets::all(plugin, &repository),
            places: places(plugin, &repository),
            tagged,
        },
    }
}

/// A picture of the plugin by its name; `None` where there is none of that name, or too large a one.
pub fn picture(entry: &Entry, cache: &Path, name: &str) -> Option<Vec<u8>> {
    let (plugin, repository) = opened(entry, &fetched(entry, cache))?;
    assets::read(plugin, &repository, name)
}

fn opened<'a>(entry: &'a Entry, fetched: &Fetched) -> Option<(&'a Plugin, Repository)> {
    let plugin = entry.plugin.as_ref().ok()?;
    Some((plugin, open(plugin, fetched).ok()?))
}

impl TaggedReleases {
    /// Whether both say the same.
    pub fn same(&self, other: &Self) -> bool {
        self.key == other.key && self.releases == other.releases && (self.report.to_json() == other.report.to_json())
    }

    fn is_broken(&self) -> bool {
        matches!(self.report.state, State::Broken(_))
    }
}

/// The mirror of the plugin's repository as it is, where it has a remote one.
fn fetched(entry: &Entry, cache: &Path) -> Fetched {
    let source = entry.plugin.as_ref().ok().and_then(|plugin| plugin.source.as_ref());
    let Some(plugin::Repository::Url(url)) = source.map(|source| &source.repository) else { return HashMap::new() };
    let untold = |error| {
        let why = if matches!(error, MirrorError::Absent) { "never fetched" } else { "changed since it was fetched" };
        format!("{}: {why}, and a preview fetches nothing: build once", mirror::shown(url))
    };
    HashMap::from([(url.clone(), mirror::existing(cache, url).map_err(untold))])
}

/// Steps 2 to 4 for every tag.
fn tagged(entry: &Entry, fetched: &Fetched, key: Key) -> TaggedReleases {
    let folder = key.0.as_ref().ok().and_then(|plugin| plugin.source.as_ref()).map(|source| source.path.clone());
    let memory = Memory { published: key.2.clone(), folder: folder.unwrap_or_default(), releases: RefCell::default() };
    let Ok(mut report) = build_entry(entry, fetched, &memory, true, &Unheard);
    report.settle(&key.2.clone().unwrap_or_default());
    let mut releases = memory.releases.into_inner();
    // Two tags whose headers say the same version are refused only when all are known.
    releases.retain(|held| report.releases.releases.iter().any(|release| release.tag == held.manifest.tag));
    releases.sort_by(|a, b| b.version.cmp_php(&a.version));
    TaggedReleases { report, releases, key }
}

/// Holds manifests.
struct Memory {
    published: Option<Releases>,
    folder: String,
    releases: RefCell<Vec<DraftRelease>>,
}

impl Shelf for Memory {
    type Error = Infallible;

    fn published(&self, _: &Slug) -> Option<&Releases> {
        self.published.as_ref()
    }

    /// A preview shows every manifest.
    fn stands(&self, _: &Slug, _: &Release) -> bool {
        false
    }

    fn take(&self, _: &Slug, composed: Composed) -> Result<(Digest, bool), Infallible> {
        let release = DraftRelease::of(composed, &self.folder);
        let digest = Digest::of(&release.manifest.to_bytes());
        let published = self.published.iter().flat_map(|published| &published.releases);
        let held = published.filter(|old| old.version == release.version).any(|old| old.sha256 == digest);
        self.releases.borrow_mut().push(release);
        Ok((digest, held))
    }
}

impl DraftRelease {
    fn of(composed: Composed, folder: &str) -> Self {
        let remarks = composed.remarks(folder);
        Self { version: composed.version, manifest: composed.manifest, remarks }
    }
}

/// What would be released if the working tree, or HEAD, were tagged.
fn next(plugin: &Plugin, repository: &Repository, tagged: &TaggedReleases) -> Vec<NextRelease> {
    let head = repository.head().transpose();
    let commit = head.as_ref().and_then(|head| head.as_ref().ok());
    // Before the first commit there is no time; one that no manifest can name leaves it empty.
    let time = commit.map_or(-1, |head| head.time);
    let is_tagged =
        |head: &Tagged| tagged.report.releases.releases.iter().any(|release| release.commit == head.commit.to_string());
    let folder = plugin.source.as_ref().map_or("", |source| &source.path);

    let working_tree = WorkingTree::of(repository);
    let in_folder = working_tree.map(|tree| compose_next(plugin, &tree, &PathBuf::new(), time, tagged));
    let at_head = head.as_ref().map(|head| match head {
        Ok(head) => compose_next(plugin, repository, &head.tree, time, tagged),
        Err(error) => Err(Remark::about("HEAD", error.to_string())),
    });
    // A release's own files are no next release, and neither is a folder that differs from them in nothing that shows.
    let released = match &at_head {
        Some(Ok(release)) if commit.is_some_and(is_tagged) => Some(release.manifest.clone()),
        _ => None,
    };
    let draft = |origin, composed: Result<Composed, Remark>| {
        let is_released = composed.as_ref().is_ok_and(|composed| Some(&composed.manifest) == released.as_ref());
        let release = composed.map(|mut composed| {
            if !is_released {
                composed.notes.extend(twin(&composed.version, tagged));
            }
            DraftRelease::of(composed, folder)
        });
        NextRelease { origin, release, is_released }
    };
    let in_folder = in_folder.map(|composed| draft(Origin::WorkingTree, composed));
    in_folder.into_iter().chain(at_head.map(|composed| draft(Origin::Head, composed))).collect()
}

/// Steps 3 and 4 for files that no tag names.
fn compose_next<F: Files>(
    plugin: &Plugin,
    files: &F,
    root: &F::Id,
    time: i64,
    tagged: &TaggedReleases,
) -> Result<Composed, Remark> {
    let folder = plugin.source.as_ref().map_or("", |source| &source.path);
    let inspected = review::inspect(plugin, files, root, true);
    let mut files = SourceReader::new(files, plugin).read(root).map_err(|reason| Remark::of(&reason, folder, "", 0))?;
    let header = &files.header;
    let version: Version = header.version.parse().map_err(|_| {
        let reason = Reason::StrangeVersion { file: files.main_file.clone(), header: header.version.clone() };
        Remark::of(&reason, folder, &files.main_file, header.version_line)
    })?;
    let tag = next_tag(plugin, &version, tagged);
    let facts = Facts { version: &version, tag_version: &version, tag: &tag, time, message: None, files: &files };
    let (manifest, note) = compose::manifest(plugin, &facts);
    let notes =
        std::mem::take(&mut files.notes).into_iter().chain(tags::barred(plugin, &version)).chain(note).collect();
    Ok(Composed { version, manifest, files, notes, inspected })
}

/// The tag a version would get: named as the newest release's is.
fn next_tag(plugin: &Plugin, version: &Version, tagged: &TaggedReleases) -> String {
    let newest = tagged.report.releases.releases.first();
    let pattern = newest.and_then(|newest| plugin.tags.iter().find(|tags| tags.version_of(&newest.tag).is_some()));
    pattern.or(plugin.tags.first()).map_or_else(|| version.to_string(), |pattern| pattern.tag_of(version))
}

/// The tag that has this version already.
fn twin(version: &Version, tagged: &TaggedReleases) -> Option<Reason> {
    let releases = &tagged.report.releases.releases;
    let twin = releases.iter().find(|release| release.version.cmp_php(version).is_eq())?;
    Some(Reason::AlreadyTagged(twin.tag.clone()))
}

/// Where the plugin's own files and git's references are.
fn places(plugin: &Plugin, repository: &Repository) -> Vec<Place> {
    let flat = |folder: PathBuf| Place { folder, and_below: false };
    let [own, shared] = repository.reference_folders();
    let mut places = vec![flat(own.into()), flat(shared.into())];
    places.push(Place { folder: shared.join("refs"), and_below: true });
    if let (Some(root), Some(source)) = (repository.working_tree(), &plugin.source) {
        let folder = root.join(&source.path);
        let pinned = source.main_file.as_ref().and_then(|file| folder.join(file).parent().map(Path::to_owned));
        places.extend(assets::FOLDERS.map(|name| flat(root.join(name))));
        places.extend(assets::FOLDERS.map(|name| flat(folder.join(name))));
        places.extend([root.into(), folder].map(flat));
        places.extend(pinned.map(flat));
    }
    places.sort();
    places.dedup();
    places
}

/// Hears nothing.
struct Unheard;

impl Progress for Unheard {
    fn fetching(&self, _: &str) {}
    fn tags_found(&self, _: &Slug, _: usize) {}
    fn tags_done(&self, _: usize) {}
    fn plugin_done(&self, _: &PluginReport) {}
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::build::fixture::{FILE, Fixture, LINK, entry, header};

    fn drafted(made: &Fixture, before: Option<&Draft>) -> Draft {
        draft(&entry(made.plugin()), None, Path::new("cache"), LIMIT, before)
    }

    /// `WorkingTree 1.3`, `Head 1.2 released`, …
    fn told(draft: &Draft) -> Vec<String> {
        let told = |next: &NextRelease| {
            let version = match &next.release {
                Ok(release) => release.version.to_string(),
                Err(remark) => remark.to_string(),
            };
            format!("{:?} {version}{}", next.origin, if next.is_released { " released" } else { "" })
        };
        draft.next.iter().map(told).collect()
    }

    fn write(made: &Fixture, version: &str) {
        fs::write(made.repository().join("acme.php"), header(version)).unwrap();
    }

    const LIMIT: Duration = Duration::from_secs(300);

    #[test]
    fn the_working_tree_and_head_are_the_next_release_unless_a_tag_shows_the_same() {
        let made = Fixture::new();
        assert_eq!(told(&drafted(&made, None)), ["WorkingTree no PHP file at the plugin's root has a plugin header"]);
        write(&made, "1.2");
        let unborn = drafted(&made, None);
        assert_eq!(told(&unborn), ["WorkingTree 1.2"], "there is no commit yet");
        assert_eq!(unborn.next[0].release.as_ref().unwrap().manifest.last_updated, "");
        made.git.set_head_detached(made.release("v1.2", "1.2")).unwrap();
        assert_eq!(told(&drafted(&made, None)), ["WorkingTree 1.2 released", "Head 1.2 released"]);
        write(&made, "1.3");
        let draft = drafted(&made, None);
        assert_eq!(told(&draft), ["WorkingTree 1.3", "Head 1.2 released"]);
        let next = draft.next[0].release.as_ref().unwrap();
        assert_eq!(&*next.manifest.tag, "v1.3", "named as the newest tag is");
        assert!(next.remarks.iter().all(|remark| remark.file.is_empty()), "only what is absent: {:?}", next.remarks);
    }

    #[test]
    fn a_version_that_is_tagged_elsewhere_or_barred_is_told_with_its_line() {
        let made = Fixture::new();
        made.release("1.2", "1.2");
        made.git.set_head_detached(made.commit(&[("acme.php", &header("1.2")), ("readme.txt", "x")])).unwrap();
        write(&made, "3.0");
        let mut plugin = made.plugin();
        plugin.withhold = vec!["3.0".parse().unwrap()];
        let draft = draft(&entry(plugin), None, Path::new("cache"), LIMIT, None);
        let remarks: Vec<_> =
            draft.next.iter().map(|next| next.release.as_ref().unwrap().remarks[0].to_string()).collect();
        assert_eq!(
            remarks,
            [
                "acme.php:4: withheld by the entry",
                "acme.php:4: its version is released already, raise it in the plugin header: 1.2",
            ]
        );
    }

    #[test]
    fn what_is_no_version_and_what_is_no_file_gives_no_release() {
        let made = Fixture::new();
        made.git.set_head_detached(made.commit_of(&[("acme.php", LINK, b"/etc/passwd"), ("x", FILE, b"")])).unwrap();
        write(&made, "soon");
        assert_eq!(
            told(&drafted(&made, None)),
            [
                "WorkingTree acme.php:4: the header's version is no version: soon in acme.php",
                "Head acme.php: links and submodules are not followed: acme.php is a symbolic link",
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
        assert_eq!(told(&edited), ["WorkingTree 1.3"]);
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
