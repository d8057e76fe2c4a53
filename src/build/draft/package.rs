//! What would be packed of a release that is not tagged yet: names, sizes and checksums, and what is left out by which rule.

use crate::build::packing::packing_list::{PackedFile, packing_list};
use crate::build::source::source_tree::SourceTree;
use crate::model::plugin::{PackageOrigin, Plugin};
use crate::package::difference::FileSummary;

/// Bytes of files that are read for their checksums; further ones are compared by their sizes.
const MAX_READ: u64 = 64 << 20;

/// The package that a release would have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftPackage {
    /// The folder on top.
    pub folder: String,
    /// What is packed below it, sorted by the bytes of the names.
    pub files: Vec<FileSummary>,
    /// What is left out, and by which rule.
    pub left_out: Vec<(String, String)>,
    /// What would be packed and cannot be: the release would not be published.
    pub obstacles: Vec<String>,
}

impl DraftPackage {
    /// The package that is made of the plugin's folder below `root`; `None` where packages are not made of it.
    pub(super) fn of<F: SourceTree>(plugin: &Plugin, files: &F, root: &F::Id) -> Option<Self> {
        let settings = plugin.package.as_ref();
        let settings = settings.filter(|settings| settings.from == PackageOrigin::Tag)?;
        let path = plugin.source.as_ref().map_or("", |source| &source.path);
        let folder = settings.folder.to_string();
        let list = match packing_list(files, root, path, settings) {
            Ok(list) => list,
            Err(reason) => {
                return Some(Self {
                    folder,
                    files: Vec::new(),
                    left_out: Vec::new(),
                    obstacles: vec![reason.to_string()],
                });
            }
        };
        let mut read = 0;
        let summary = |file: PackedFile<F::Id>| {
            let size = files.size(&file.id).unwrap_or_default();
            read += size;
            let limit = usize::try_from(size).ok().filter(|_| read <= MAX_READ);
            let bytes = limit.and_then(|limit| files.bytes(&file.id, limit).ok());
            FileSummary {
                name: file.name,
                size,
                crc: bytes.map(|bytes| crc32fast::hash(&bytes)),
            }
        };
        Some(Self {
            folder,
            files: list.files.into_iter().map(summary).collect(),
            left_out: list
                .left_out
                .into_iter()
                .map(|file| (file.name, file.rule.to_string()))
                .collect(),
            obstacles: list.obstacles.iter().map(ToString::to_string).collect(),
        })
    }

    /// The bytes of all files.
    pub fn unpacked(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }
}
