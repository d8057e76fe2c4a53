//! The release that tagging the working tree, or HEAD, would give.

use std::path::PathBuf;

use crate::build::compose::{self, Facts};
use crate::build::draft::release::{DraftPackage, DraftRelease, NextRelease, Origin};
use crate::build::git::repository::Repository;
use crate::build::git::tag::Tagged;
use crate::build::git::working_tree::WorkingTree;
use crate::build::manifest_sink::BuiltRelease;
use crate::build::remark::Remark;
use crate::build::report::outcome::Reason;
use crate::build::source::source_reader::SourceReader;
use crate::build::source::source_tree::SourceTree;
use crate::build::version_check::misread;
use crate::build::{review, tags};
use countersign_model::plugin::Plugin;
use countersign_model::version::Version;
use countersign_package::catalog::Release;

/// The next releases of a plugin; `tagged` has those of its tags.
pub(super) fn next(plugin: &Plugin, repository: &Repository, tagged: &[Release]) -> Vec<NextRelease> {
    let head = repository.head().transpose();
    let commit = head.as_ref().and_then(|head| head.as_ref().ok());
    // Before the first commit there is no time; a time that a manifest cannot have stays empty.
    let time = commit.map_or(-1, |head| head.time);
    let is_tagged = |head: &Tagged| tagged.iter().any(|release| release.commit == head.commit.to_string());
    let folder = plugin.source.as_ref().map_or("", |source| &source.path);

    let working_tree = WorkingTree::of(repository);
    let package_in_folder = working_tree
        .as_ref()
        .and_then(|tree| DraftPackage::of(plugin, tree, &PathBuf::new()));
    let in_folder = working_tree.map(|tree| compose_next(plugin, &tree, &PathBuf::new(), time, tagged));
    let at_head = head.as_ref().map(|head| match head {
        Ok(head) => compose_next(plugin, repository, &head.tree, time, tagged),
        Err(error) => Err(Remark::about("HEAD", error.to_string())),
    });
    let package_at_head = commit.and_then(|head| DraftPackage::of(plugin, repository, &head.tree));
    // The files of an existing release are not a next release, nor is a folder with only invisible differences from
    // them.
    let released = match &at_head {
        Some(Ok(release)) if commit.is_some_and(is_tagged) => Some(release.manifest.clone()),
        _ => None,
    };
    let draft = |origin, built: Result<BuiltRelease, Remark>, package| {
        let is_released = built
            .as_ref()
            .is_ok_and(|built| Some(&built.manifest) == released.as_ref());
        let release = built.map(|mut built| {
            if !is_released {
                built.notes.extend(twin(&built.version, tagged));
            }
            DraftRelease {
                package,
                ..DraftRelease::of(built, folder)
            }
        });
        NextRelease {
            origin,
            release,
            is_released,
        }
    };
    let in_folder = in_folder.map(|built| draft(Origin::WorkingTree, built, package_in_folder));
    in_folder
        .into_iter()
        .chain(at_head.map(|built| draft(Origin::Head, built, package_at_head)))
        .collect()
}

/// Steps 3 and 4 for untagged files.
fn compose_next<F: SourceTree>(
    plugin: &Plugin,
    files: &F,
    root: &F::Id,
    time: i64,
    tagged: &[Release],
) -> Result<BuiltRelease, Remark> {
    let folder = plugin.source.as_ref().map_or("", |source| &source.path);
    let inspected = review::inspect(plugin, files, root, true).remarks;
    let mut reader = SourceReader::new(files, plugin);
    let mut files = reader.read(root).map_err(|reason| {
        let reason = reader.moved(root, &reason).unwrap_or(reason);
        Remark::of(&reason, folder, "", 0)
    })?;
    let header = &files.header;
    let version: Version = header.version.parse().map_err(|_| {
        let reason = Reason::StrangeVersion {
            file: files.main_file.clone(),
            header: header.version.clone(),
        };
        Remark::of(&reason, folder, &files.main_file, header.version_line)
    })?;
    if let Some(reason) = misread(&version) {
        return Err(Remark::of(&reason, folder, &files.main_file, header.version_line));
    }
    let tag = next_tag(plugin, &version, tagged);
    let facts = Facts {
        version: &version,
        tag_version: &version,
        tag: &tag,
        time,
        message: None,
        files: &files,
    };
    let (manifest, note) = compose::manifest(plugin, &facts);
    let notes = std::mem::take(&mut files.notes)
        .into_iter()
        .chain(tags::excluded(plugin, &version))
        .chain(note)
        .collect();
    Ok(BuiltRelease {
        version,
        manifest,
        files,
        notes,
        inspected,
    })
}

/// The tag for a version, in the style of the newest release's tag.
fn next_tag(plugin: &Plugin, version: &Version, tagged: &[Release]) -> String {
    let newest = tagged.first();
    let pattern = newest.and_then(|newest| plugin.tags.iter().find(|tags| tags.version_of(&newest.tag).is_some()));
    pattern
        .or(plugin.tags.first())
        .map_or_else(|| version.to_string(), |pattern| pattern.tag_of(version))
}

/// The existing tag of this version.
fn twin(version: &Version, tagged: &[Release]) -> Option<Reason> {
    let twin = tagged.iter().find(|release| release.version.cmp_php(version).is_eq())?;
    Some(Reason::AlreadyTagged(twin.tag.clone()))
}
