//! Steps 3 and 4 for the tag of one release: the plugin's own files, its version, and the manifest of both.

use crate::build::compose::{self, Facts};
use crate::build::git::repository::Repository;
use crate::build::manifest_sink::BuiltRelease;
use crate::build::report::outcome::Reason;
use crate::build::source::source_reader::SourceReader;
use crate::build::tags::Chosen;
use crate::build::version_check;
use countersign_model::plugin::Plugin;

/// Reads the plugin's files at a tag and composes the manifest, or says why there is no release.
pub(super) fn compose(
    plugin: &Plugin,
    reader: &mut SourceReader<'_, Repository>,
    chosen: &Chosen,
) -> Result<BuiltRelease, Reason> {
    let mut files = reader.read(&chosen.tagged.tree)?;
    let (version, note) =
        version_check::published_version(plugin, &chosen.version, &files.main_file, &files.header.version)?;
    let facts = Facts {
        version: &version,
        tag_version: &chosen.version,
        tag: &chosen.tag.name,
        time: chosen.tagged.time,
        message: chosen.tagged.message.as_deref(),
        files: &files,
    };
    let (manifest, built) = compose::manifest(plugin, &facts);
    let notes = std::mem::take(&mut files.notes)
        .into_iter()
        .chain(note)
        .chain(built)
        .collect();
    Ok(BuiltRelease {
        version,
        manifest,
        files,
        notes,
        inspected: Vec::new(),
    })
}
