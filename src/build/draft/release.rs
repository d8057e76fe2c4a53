//! Releases in memory: of a tag, or of untagged files, and the package of untagged files: the names, sizes and checksums of its files,
//! and the files that are left out.

use crate::build::manifest_sink::BuiltRelease;
use crate::build::packing::packing_list::{PackedFile, packing_list};
use crate::build::remark::Remark;
use crate::build::review;
use crate::build::source::source_tree::SourceTree;
use countersign_model::manifest::Manifest;
use countersign_model::plugin::{PackageOrigin, Plugin};
use countersign_model::version::Version;
use countersign_package::difference::FileSummary;

/// A manifest in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct DraftRelease {
    /// The version it would be published under.
    pub version: Version,
    /// The manifest.
    pub manifest: Manifest,
    /// Remarks about it.
    pub remarks: Vec<Remark>,
    /// What would be packed; `None` for a release of a tag, and where packages are not made of the plugin's folder.
    pub package: Option<DraftPackage>,
}

/// A release without a tag.
#[derive(Clone, Debug, PartialEq)]
pub struct NextRelease {
    /// Where its files are.
    pub origin: Origin,
    /// The release, or why a tag would not give one.
    pub release: Result<DraftRelease, Remark>,
    /// Whether a tag at HEAD already gives the same.
    pub is_released: bool,
}

/// Where the files of an untagged release are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In the working tree, with uncommitted edits.
    WorkingTree,
    /// In the commit that is checked out.
    Head,
}

impl DraftRelease {
    /// The built release of a plugin in this folder of its repository.
    pub(super) fn of(built: BuiltRelease, folder: &str) -> Self {
        let remarks = review::remarks(&built, folder);
        Self {
            version: built.version,
            manifest: built.manifest,
            remarks,
            package: None,
        }
    }
}

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
