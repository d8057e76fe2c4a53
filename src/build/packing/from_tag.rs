//! Packs the files of a list, read one after the other from the object database: no more than one is in memory beside those that were
//! read before.

use std::collections::HashMap;
use std::fs::File;

use chrono::{DateTime, Utc};

use crate::build::manifest_sink::PackFailure;
use crate::build::packing::packing_list::{PackingList, WAY_OUT};
use crate::build::report::outcome::Reason;
use crate::build::source::source_tree::SourceTree;
use countersign_package::MAX_PACKED;
use countersign_package::entry_name::FolderName;
use countersign_package::writer::{Package, PackageWriter};

/// The first line of a Git LFS pointer, which replaces a large file, and how long a pointer may be.
const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";
const MAX_LFS_POINTER: usize = 1024;

/// Writes the listed files in the normal form. Takes what `read` has of them.
pub(super) fn pack<F: SourceTree>(
    files: &F,
    list: &PackingList<F::Id>,
    read: &mut HashMap<F::Id, Vec<u8>>,
    folder: &FolderName,
    time: DateTime<Utc>,
    marked: bool,
    out: &File,
) -> Result<Package, PackFailure> {
    let limit = usize::try_from(MAX_PACKED).unwrap_or(usize::MAX);
    let mut writer = PackageWriter::new(out, folder, time);
    for file in &list.files {
        let bytes = match read.remove(&file.id) {
            Some(bytes) => Ok(bytes),
            None => files.bytes(&file.id, limit),
        };
        let bytes = bytes.map_err(|error| PackFailure::Release(Reason::from_object(&file.name, error)))?;
        if bytes.len() <= MAX_LFS_POINTER && bytes.starts_with(LFS_POINTER) {
            let name = &file.name;
            let obstacle = format!("{name} is a pointer of Git LFS, and not the file itself; {WAY_OUT}");
            return Err(PackFailure::Release(Reason::Unpackable(obstacle)));
        }
        writer.add(&file.name, bytes.len() as u64, || Ok(&bytes[..]))?;
    }
    Ok(writer.finish(marked)?)
}
