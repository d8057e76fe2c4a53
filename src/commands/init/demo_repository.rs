//! Creates the demo's plugin repositories with git2: a commit and a tag for each version, always with the same ids.
//!
//! Each tree has the plugin's main file with a real header, and a readme.txt with a growing changelog. `countersign
//! build` reads them like any other repository.

use std::path::Path;

use git2::build::CheckoutBuilder;
use git2::{Commit, ObjectType, Oid, Repository, RepositoryInitOptions, Signature, Time};

pub(super) use git2::Error;

/// A plugin of the demo.
pub(super) struct DemoPlugin {
    /// The name of its folder and main file.
    pub slug: &'static str,
    /// Its display name.
    pub name: &'static str,
    main_file: &'static str,
    readme: &'static str,
    /// Oldest first.
    releases: &'static [DemoRelease],
}

struct DemoRelease {
    version: &'static str,
    /// An annotated tag has a message; a lightweight one is only a name.
    annotated: bool,
    notes: &'static [&'static str],
}

/// Noon UTC on 2 March 2026, the time of the first release. Each further one is four weeks later.
const FIRST_RELEASE: i64 = 1_772_452_800;
const FOUR_WEEKS: i64 = 28 * 24 * 3600;

/// The plugin that both demo licenses cover.
pub(super) const ACME_FORMS: DemoPlugin = DemoPlugin {
    slug: "acme-forms",
    name: "Acme Forms",
    main_file: include_str!("demo/acme-forms.php"),
    readme: include_str!("demo/acme-forms.txt"),
    releases: &[
        DemoRelease {
            version: "1.0.0",
            annotated: false,
            notes: &["First release."],
        },
        DemoRelease {
            version: "1.0.1",
            annotated: false,
            notes: &["Fixed: quotes in a message arrived with backslashes."],
        },
        DemoRelease {
            version: "1.1.0",
            annotated: false,
            notes: &["New: a word of thanks after sending."],
        },
        DemoRelease {
            version: "1.2.0",
            annotated: true,
            notes: &[
                "New: all texts can be translated.",
                "Fixed: an empty message is not sent any more.",
            ],
        },
        DemoRelease {
            version: "2.0.0-beta.1",
            annotated: false,
            notes: &["New: several forms on one page."],
        },
    ],
};

/// The plugin that only the larger demo license covers.
pub(super) const ACME_PDF: DemoPlugin = DemoPlugin {
    slug: "acme-pdf",
    name: "Acme PDF",
    main_file: include_str!("demo/acme-pdf.php"),
    readme: include_str!("demo/acme-pdf.txt"),
    releases: &[
        DemoRelease {
            version: "1.0.0",
            annotated: false,
            notes: &["First release."],
        },
        DemoRelease {
            version: "1.1.0",
            annotated: true,
            notes: &["New: the button's text can be translated."],
        },
    ],
};

/// Creates the repository of `plugin` in the folder `path`, which must not exist, with its files checked out.
pub(super) fn write(path: &Path, plugin: &DemoPlugin) -> Result<(), Error> {
    let options = &mut RepositoryInitOptions::new();
    let repository = Repository::init_opts(path, options.no_reinit(true).mkpath(true).initial_head("main"))?;
    let mut parent: Option<Commit<'_>> = None;
    for (index, release) in plugin.releases.iter().enumerate() {
        let time = Time::new(FIRST_RELEASE + FOUR_WEEKS * index as i64, 0);
        let author = Signature::new("Acme", "plugins@example.com", &time)?;
        let tree = repository.find_tree(write_tree(&repository, plugin, index)?)?;
        let message = format!("Release {}\n", release.version);
        let parents: Vec<_> = parent.iter().collect();
        let commit = repository.commit(Some("HEAD"), &author, &author, &message, &tree, &parents)?;
        let target = repository.find_object(commit, Some(ObjectType::Commit))?;
        if release.annotated {
            let message = format!("{} {}\n\n{}", plugin.name, release.version, bullets(release));
            repository.tag(release.version, &target, &author, &message, false)?;
        } else {
            repository.tag_lightweight(release.version, &target, false)?;
        }
        parent = Some(repository.find_commit(commit)?);
    }
    repository.checkout_head(Some(CheckoutBuilder::new().force()))
}

/// The tree of the release at `index`.
fn write_tree(repository: &Repository, plugin: &DemoPlugin, index: usize) -> Result<Oid, Error> {
    const FILE: i32 = 0o100644;
    let version = plugin.releases[index].version;
    let newest_first = plugin.releases[..=index].iter().rev();
    let changelog: Vec<_> = newest_first
        .map(|old| format!("= {} =\n\n{}", old.version, bullets(old)))
        .collect();
    let readme = plugin
        .readme
        .replace("{version}", version)
        .replace("{changelog}\n", &changelog.join("\n"));
    let main_file = plugin.main_file.replace("{version}", version);
    let mut tree = repository.treebuilder(None)?;
    tree.insert(
        format!("{}.php", plugin.slug),
        repository.blob(main_file.as_bytes())?,
        FILE,
    )?;
    tree.insert("readme.txt", repository.blob(readme.as_bytes())?, FILE)?;
    tree.write()
}

fn bullets(release: &DemoRelease) -> String {
    release.notes.iter().map(|note| format!("* {note}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(repository: &Repository, spec: &str) -> String {
        let blob = repository.revparse_single(spec).unwrap().peel_to_blob().unwrap();
        String::from_utf8(blob.content().to_vec()).unwrap()
    }

    #[test]
    fn every_tag_has_its_version_in_the_header_and_its_own_changelog_on_top() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("acme-forms");
        write(&path, &ACME_FORMS).unwrap();
        let repository = Repository::open(&path).unwrap();
        let tags = repository.tag_names(None).unwrap();
        assert_eq!(tags.len(), ACME_FORMS.releases.len());
        for (index, release) in ACME_FORMS.releases.iter().enumerate() {
            let version = release.version;
            let main_file = text(&repository, &format!("{version}:acme-forms.php"));
            assert!(
                main_file.contains(&format!("\n * Version:           {version}\n")),
                "{version}"
            );
            let readme = text(&repository, &format!("{version}:readme.txt"));
            let (_, changelog) = readme.split_once("== Changelog ==\n\n").unwrap();
            assert!(changelog.starts_with(&format!("= {version} =\n\n* ")), "{changelog}");
            assert_eq!(changelog.matches(" =\n").count(), index + 1);
        }
        assert!(
            repository.statuses(None).unwrap().is_empty(),
            "the files are checked out"
        );
    }

    #[test]
    fn the_repository_has_the_same_ids_every_time() {
        let folder = tempfile::tempdir().unwrap();
        let head = |name: &str| {
            let path = folder.path().join(name);
            write(&path, &ACME_PDF).unwrap();
            Repository::open(path).unwrap().head().unwrap().target().unwrap()
        };
        assert_eq!(head("one"), head("two"));
    }

    #[test]
    fn an_existing_repository_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &ACME_PDF).unwrap();
        assert!(write(folder.path(), &ACME_PDF).is_err());
    }
}
