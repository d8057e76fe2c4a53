//! Builds that read only what changed: they give what a build from nothing gives, and what they skip they do not read.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use git2::Oid;
use proptest::prelude::*;
use proptest::sample::{Index as Choice, select};

use crate::build::fixture::{COMMITTED, Fixture, Silent, entry, header};
use crate::build::report::outcome::ReleaseOutcome;
use crate::build::tests::outcomes;
use crate::build::{BuildReport, Options, run};
use countersign_model::digest::Digest;
use countersign_model::plugin::Plugin;
use countersign_package::catalog::ReleaseIndex;

const VERSIONS: [&str; 6] = ["0.9", "1.0", "1.0.0", "1.1", "1.2-beta1", "2.0"];
const PREFIXES: [&str; 3] = ["", "v", "acme/"];

/// Something that happens between two builds.
#[derive(Clone, Debug)]
enum Change {
    /// A tag is made, or moved: its name, the version in the header, and the text of the readme.
    Tag {
        prefix: &'static str,
        version: &'static str,
        header: &'static str,
        text: u8,
    },
    /// The same with a tag object; `text` is also its message.
    Annotate {
        prefix: &'static str,
        version: &'static str,
        header: &'static str,
        text: u8,
    },
    /// A second tag on the commit of another.
    Alias {
        of: Choice,
        prefix: &'static str,
        version: &'static str,
    },
    Untag(Choice),
    /// The commit of a tag disappears, so that the tag fails, and comes back with the next change.
    Lose(Choice),
    Entry(Edit),
    /// A manifest is edited on the disk.
    Damage(Choice),
    /// A manifest is deleted.
    Delete(Choice),
    DeleteIndex,
    /// The index is one that knows nothing of inputs.
    OldIndex,
}

#[derive(Clone, Debug)]
enum Edit {
    Name(u8),
    Withhold(Option<&'static str>),
    Versions(&'static str),
    Tags(&'static [&'static str]),
    DownloadUrl(&'static str),
    AllowMismatch(bool),
    Banner(bool),
}

fn change() -> impl Strategy<Value = Change> {
    let name = || (select(&PREFIXES[..]), select(&VERSIONS[..]));
    let tagged = || (name(), select(&VERSIONS[..]), 0..3_u8, any::<bool>());
    let tag = tagged().prop_map(|((prefix, version), other, text, agrees)| Change::Tag {
        prefix,
        version,
        header: if agrees { version } else { other },
        text,
    });
    let annotate = tagged().prop_map(|((prefix, version), other, text, agrees)| Change::Annotate {
        prefix,
        version,
        header: if agrees { version } else { other },
        text,
    });
    let edit = prop_oneof![
        (0..2_u8).prop_map(Edit::Name),
        select(vec![None, Some("1.0"), Some("2.0")]).prop_map(Edit::Withhold),
        select(vec!["*", "<2", ">=1"]).prop_map(Edit::Versions),
        select(vec![
            &["{version}", "v{version}"][..],
            &["{version}"],
            &["acme/{version}", "{version}"]
        ])
        .prop_map(Edit::Tags),
        select(vec![
            "https://example.com/{tag}.zip",
            "https://example.org/{version}.zip"
        ])
        .prop_map(Edit::DownloadUrl),
        any::<bool>().prop_map(Edit::AllowMismatch),
        any::<bool>().prop_map(Edit::Banner),
    ];
    prop_oneof![
        6 => tag,
        4 => annotate,
        2 => (any::<Choice>(), name()).prop_map(|(of, (prefix, version))| Change::Alias { of, prefix, version }),
        2 => any::<Choice>().prop_map(Change::Untag),
        2 => any::<Choice>().prop_map(Change::Lose),
        4 => edit.prop_map(Change::Entry),
        1 => any::<Choice>().prop_map(Change::Damage),
        1 => any::<Choice>().prop_map(Change::Delete),
        1 => Just(Change::DeleteIndex),
        1 => Just(Change::OldIndex),
    ]
}

/// A repository and its entry, with what happens to them.
struct World {
    made: Fixture,
    plugin: Plugin,
    tags: BTreeMap<String, Oid>,
    /// An object's file that was moved away, and where it belongs.
    lost: Option<(std::path::PathBuf, Vec<u8>)>,
}

impl World {
    fn new() -> Self {
        let made = Fixture::new();
        let plugin = made.plugin();
        Self {
            made,
            plugin,
            tags: BTreeMap::new(),
            lost: None,
        }
    }

    fn commit(&self, version: &str, text: u8) -> Oid {
        let readme = format!("=== Acme ===\n\nText {text}.\n\n== Changelog ==\n= {version} =\n* Change {text}\n");
        self.made
            .commit(&[("acme.php", &header(version)), ("readme.txt", &readme)])
    }

    fn apply(&mut self, change: &Change) {
        if let Some((place, bytes)) = self.lost.take() {
            fs::write(place, bytes).unwrap();
        }
        match change {
            Change::Tag {
                prefix,
                version,
                header,
                text,
            } => {
                let commit = self.commit(header, *text);
                self.tag(format!("{prefix}{version}"), commit);
            }
            Change::Annotate {
                prefix,
                version,
                header,
                text,
            } => {
                let commit = self.commit(header, *text);
                let name = format!("{prefix}{version}");
                let time = COMMITTED + i64::from(*text);
                let tag = self.made.annotate(&name, commit, &format!("Message {text}"), time);
                self.tags.insert(name, tag);
            }
            Change::Alias { of, prefix, version } => {
                if let Some((_, target)) = self.pick(of) {
                    self.tag(format!("{prefix}{version}"), target);
                }
            }
            Change::Untag(of) => {
                if let Some((name, _)) = self.pick(of) {
                    self.made
                        .git
                        .find_reference(&format!("refs/tags/{name}"))
                        .unwrap()
                        .delete()
                        .unwrap();
                    self.tags.remove(&name);
                }
            }
            Change::Lose(of) => {
                if let Some((_, target)) = self.pick(of) {
                    let id = target.to_string();
                    let place = self
                        .made
                        .repository()
                        .join(".git/objects")
                        .join(&id[..2])
                        .join(&id[2..]);
                    let bytes = fs::read(&place).unwrap();
                    fs::remove_file(&place).unwrap();
                    self.lost = Some((place, bytes));
                }
            }
            Change::Entry(edit) => self.edit(edit),
            Change::Damage(of) => {
                if let Some(place) = self.manifest(of) {
                    let edited = fs::read_to_string(&place).unwrap().replace("Acme", "Evil");
                    fs::write(place, edited).unwrap();
                }
            }
            Change::Delete(of) => {
                if let Some(place) = self.manifest(of) {
                    fs::remove_file(place).unwrap();
                }
            }
            Change::DeleteIndex => drop(fs::remove_file(self.made.releases().join("index.json"))),
            Change::OldIndex => without_inputs(&self.made.releases()),
        }
    }

    fn tag(&mut self, name: String, target: Oid) {
        self.made.tag(&name, target);
        self.tags.insert(name, target);
    }

    fn edit(&mut self, edit: &Edit) {
        let plugin = &mut self.plugin;
        match edit {
            Edit::Name(name) => plugin.name = format!("Name {name}"),
            Edit::Withhold(version) => {
                plugin.withhold = version.iter().map(|version| version.parse().unwrap()).collect();
            }
            Edit::Versions(versions) => plugin.versions = versions.parse().unwrap(),
            Edit::Tags(tags) => plugin.tags = tags.iter().map(|tags| tags.parse().unwrap()).collect(),
            Edit::DownloadUrl(url) => plugin.download_url = (*url).to_owned(),
            Edit::AllowMismatch(allow) => plugin.allow_version_mismatch = *allow,
            Edit::Banner(named) => {
                let banner = ("low".to_owned(), "https://example.com/banner.png".to_owned());
                plugin.banners = named.then_some(banner).into_iter().collect();
            }
        }
    }

    fn pick(&self, of: &Choice) -> Option<(String, Oid)> {
        let tags: Vec<_> = self.tags.iter().collect();
        (!tags.is_empty())
            .then(|| of.get(&tags))
            .map(|(name, target)| ((*name).clone(), **target))
    }

    fn manifest(&self, of: &Choice) -> Option<std::path::PathBuf> {
        let folder = self.made.releases().join("acme");
        let mut places: Vec<_> = fs::read_dir(folder)
            .into_iter()
            .flatten()
            .map(|file| file.unwrap().path())
            .collect();
        places.sort();
        (!places.is_empty()).then(|| of.get(&places).clone())
    }

    /// Builds on top of what is published.
    fn build(&self) -> BuildReport {
        self.made.run(&[entry(self.plugin.clone())], false, &[])
    }

    /// Builds into an empty folder; gives the report and every file.
    fn build_from_nothing(&self) -> (BuildReport, Vec<(String, String)>) {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            releases: folder.path().to_owned(),
            ..self.made.options(false, &[])
        };
        let report = run(&[entry(self.plugin.clone())], &options, Arc::new(Silent)).unwrap();
        (report, crate::build::fixture::files(folder.path()))
    }
}

/// Makes the index one that an older version wrote.
fn without_inputs(releases: &Path) {
    let Ok(Some(mut index)) = ReleaseIndex::read(releases) else {
        return;
    };
    index
        .plugins
        .values_mut()
        .flat_map(|plugin| &mut plugin.releases)
        .for_each(|release| release.inputs = None);
    fs::write(releases.join("index.json"), index.to_bytes()).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn any_sequence_of_changes_ends_in_what_a_build_from_nothing_gives(changes in prop::collection::vec(change(), 1..14)) {
        let mut world = World::new();
        for change in &changes {
            world.apply(change);
            world.build();
            let (report, files) = world.build_from_nothing();
            // Where a tag fails, what was published of it stays; a build from nothing has nothing that could.
            let fails = |tag: &crate::build::tests::TagOutcome| matches!(tag.outcome, ReleaseOutcome::Failed(_));
            let is_broken = report.plugins[0].state != crate::build::tests::PluginState::Read || world.tags.is_empty();
            if !is_broken && !report.plugins[0].tags.iter().any(fails) {
                prop_assert_eq!(world.made.published(), files, "after {:?}", change);
            }
        }
    }
}

/// Takes every commit of the repository away; what is read now fails.
fn lose_all(made: &Fixture) {
    fs::rename(
        made.repository().join(".git/objects"),
        made.repository().join(".git/gone"),
    )
    .unwrap();
    fs::create_dir(made.repository().join(".git/objects")).unwrap();
}

#[test]
fn a_tag_that_did_not_change_is_not_read_again() {
    let made = Fixture::new();
    for version in ["1.0", "1.1", "1.2"] {
        made.release(version, version);
    }
    let commit = made.commit(&[("acme.php", &header("2.0"))]);
    made.annotate("v2.0", commit, "Two", COMMITTED);
    made.build(made.plugin());
    let published = made.published();
    lose_all(&made);

    let report = made.build(made.plugin());
    assert_eq!(
        outcomes(&report),
        ["1.0 unchanged", "1.1 unchanged", "1.2 unchanged", "v2.0 unchanged"]
    );
    assert_eq!(made.published(), published);

    let all = Options {
        all: true,
        ..made.options(true, &[])
    };
    let report = run(&[entry(made.plugin())], &all, Arc::new(Silent)).unwrap();
    assert_eq!(report.counts().failed, 4, "--all trusts nothing");
}

#[test]
fn a_forged_index_is_found_out_and_mended_by_a_build_of_everything() {
    let made = Fixture::new();
    made.release("1.0", "1.0");
    made.release("1.1", "1.1");
    made.build(made.plugin());
    let genuine = made.published();
    let place = made.releases().join("acme/1.1.json");
    let forged = fs::read_to_string(&place)
        .unwrap()
        .replace("https://example.com", "https://evil.example");
    fs::write(&place, &forged).unwrap();
    let mut index = ReleaseIndex::read(&made.releases()).unwrap().unwrap();
    let release = index.plugins.values_mut().next().unwrap().releases.first_mut().unwrap();
    release.sha256 = Digest::of(forged.as_bytes());
    fs::write(made.releases().join("index.json"), index.to_bytes()).unwrap();

    let build = |check| {
        let options = Options {
            all: true,
            ..made.options(check, &[])
        };
        run(&[entry(made.plugin())], &options, Arc::new(Silent)).unwrap()
    };
    let report = build(true);
    assert!(report.differs());
    assert_eq!(outcomes(&report.plugins[0]), ["1.0 unchanged", "1.1 built"]);
    build(false);
    assert_eq!(made.published(), genuine);
}

#[test]
fn an_index_of_an_older_version_is_taken_and_completed_and_that_is_no_difference() {
    let made = Fixture::new();
    made.release("1.0", "1.0");
    made.build(made.plugin());
    let published = made.published();
    without_inputs(&made.releases());
    let report = made.run(&[entry(made.plugin())], true, &[]);
    assert!(!report.differs());
    let report = made.build(made.plugin());
    assert_eq!(outcomes(&report), ["1.0 unchanged"]);
    assert_eq!(made.published(), published);
}

/// Waits until a file that is written now is younger than one written before: the kernel's times go in steps of some
/// milliseconds.
fn pass_time() {
    std::thread::sleep(std::time::Duration::from_millis(20));
}

#[test]
fn a_manifest_that_is_older_than_its_index_is_not_read_again_but_by_a_build_of_everything() {
    let made = Fixture::new();
    made.release("1.0", "1.0");
    made.build(made.plugin());
    let place = made.releases().join("acme/1.0.json");
    let index = made.releases().join("index.json");
    let genuine = made.published();

    // What somebody edits is younger than the index, and is made again.
    fs::write(&place, "edited").unwrap();
    assert_eq!(outcomes(&made.build(made.plugin())), ["1.0 built"]);
    assert_eq!(made.published(), genuine);

    // A person who writes the index, too, hides the edit from a build that trusts the index.
    fs::write(&place, "edited").unwrap();
    pass_time();
    fs::write(&index, fs::read(&index).unwrap()).unwrap();
    assert_eq!(outcomes(&made.build(made.plugin())), ["1.0 unchanged"]);
    let all = Options {
        all: true,
        ..made.options(false, &[])
    };
    run(&[entry(made.plugin())], &all, Arc::new(Silent)).unwrap();
    assert_eq!(made.published(), genuine);
}

#[test]
fn an_index_whose_time_is_no_witness_vouches_for_nothing() {
    let made = Fixture::new();
    made.release("1.0", "1.0");
    made.build(made.plugin());
    let folder = made.releases().join("acme");
    let index = made.releases().join("index.json");
    let genuine = made.published();
    let set_time = |ahead: i64| {
        let now = std::time::SystemTime::now();
        let hour = std::time::Duration::from_secs(3_600);
        let time = if ahead > 0 { now + hour } else { now - hour };
        fs::File::options()
            .write(true)
            .open(&index)
            .unwrap()
            .set_modified(time)
            .unwrap();
    };
    for ahead in [1, -1] {
        fs::write(folder.join("1.0.json"), "edited").unwrap();
        set_time(ahead);
        assert_eq!(outcomes(&made.build(made.plugin())), ["1.0 built"]);
        assert_eq!(made.published(), genuine);
    }

    // A file from elsewhere brings its old time.
    let other = made.releases().with_file_name("other.json");
    fs::write(&other, "of a backup").unwrap();
    pass_time();
    fs::write(&index, fs::read(&index).unwrap()).unwrap();
    pass_time();
    fs::rename(&other, folder.join("1.0.json")).unwrap();
    assert_eq!(outcomes(&made.build(made.plugin())), ["1.0 built"]);
    assert_eq!(made.published(), genuine);
}

#[test]
fn a_damaged_manifest_is_reported_by_every_build_also_after_one_that_writes_the_index() {
    let made = Fixture::new();
    made.release("1.0", "1.0");
    made.build(made.plugin());
    fs::write(made.releases().join("acme/1.0.json"), "damaged").unwrap();
    let other = || Plugin {
        slug: "other".parse().unwrap(),
        ..made.plugin()
    };
    for _ in 0..3 {
        let report = made.run(&[entry(made.plugin()), entry(other())], false, &["other"]);
        assert_eq!(report.damaged, ["acme/1.0.json"]);
        pass_time();
    }
}

/// Writes into a manifest when its plugin is done, before anything is published.
struct Editing(std::path::PathBuf);

impl crate::build::Progress for Editing {
    fn fetching(&self, _address: &str) {}
    fn tags_found(&self, _plugin: &countersign_model::slug::Slug, _tags: usize) {}
    fn tags_done(&self, _tags: usize) {}
    fn plugin_done(&self, _report: &crate::build::PluginReport) {
        pass_time();
        fs::write(&self.0, "edited").unwrap();
        pass_time();
    }
}

#[test]
fn a_manifest_that_is_edited_while_others_are_published_is_found_by_the_next_build() {
    let made = Fixture::new();
    made.release("1.0", "1.0");
    made.build(made.plugin());
    made.release("1.1", "1.1");
    let editing = Arc::new(Editing(made.releases().join("acme/1.0.json")));
    run(&[entry(made.plugin())], &made.options(false, &[]), editing).unwrap();
    assert_eq!(outcomes(&made.build(made.plugin())), ["1.0 built", "1.1 unchanged"]);
}
