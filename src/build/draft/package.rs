//! The package of an untagged release: the names, sizes and checksums of its files, and the files that are left out.

use crate::build::packing::packing_list::{PackedFile, packing_list};
use crate::build::source::source_tree::SourceTree;
use countersign_model::plugin::{PackageOrigin, Plugin};
use countersign_package::difference::FileSummary;

/// How many bytes of files to read for checksums; the other files are compared by size.
const MAX_READ: u64 = 64 << 20;

/// The package of an untagged release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftPackage {
    /// The top-level folder.
    pub folder: String,
    /// The files to pack, sorted by the bytes of their names.
    pub files: Vec<FileSummary>,
    /// The files to leave out, with the rule for each.
    pub left_out: Vec<(String, String)>,
    /// Files that cannot be packed: the release would not be published.
    pub obstacles: Vec<String>,
}

impl DraftPackage {
    /// The package of the plugin's folder below `root`; `None` if packages are not made of it.
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

    /// The total size of the files in bytes.
    pub fn unpacked(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }
}
