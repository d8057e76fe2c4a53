//! A checked entry of an archive's directory. `central` and `local` make it.

use crate::entry_name::{EntryName, is_never_packed};

/// A file or a folder in an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveEntry {
    /// Its name; that of a folder without the final `/`.
    pub name: EntryName,
    /// Whether it is a folder.
    pub is_folder: bool,
    /// Its unpacked size in bytes.
    pub size: u64,
    /// Its size in the archive in bytes.
    pub packed: u64,
    /// The CRC-32 of its content.
    pub crc: u32,
    pub(crate) method: u16,
    pub(crate) header_at: u64,
    pub(crate) data_at: u64,
    pub(crate) central_at: u64,
}

impl ArchiveEntry {
    /// Whether it, or a folder in its name, is [never packed](is_never_packed).
    pub fn is_never_packed(&self) -> bool {
        self.name.as_str().split('/').any(is_never_packed)
    }
}
