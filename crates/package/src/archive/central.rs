//! Step 2: the central directory (APPNOTE.TXT 4.3.12): every entry's name, kind, sizes and position.

use super::end::Directory;
use super::extra::Extra;
use super::refusal::{ArchiveError, ArchiveRefusal};
use crate::entry_name::{EntryName, MAX_NAME, NameError};
use crate::format::{CENTRAL, CENTRAL_LENGTH, Common, flag, method, u16_at, u32_at};
use crate::read_at::ReadAt;

/// The kinds of files in the upper half of the external attributes, as unix has them (`S_IFMT` and below).
const KIND: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;
const SYMBOLIC_LINK: u32 = 0o120_000;

/// The folder attribute of MS-DOS in the lowest byte.
const DOS_FOLDER: u32 = 0x10;
const DOS_VOLUME: u32 = 0x08;

/// An entry of the directory.
#[derive(Debug)]
pub(super) struct CentralEntry {
    pub name: EntryName,
    pub is_folder: bool,
    pub common: Common,
    pub size: u64,
    pub packed: u64,
    pub header_at: u64,
    pub central_at: u64,
}

impl CentralEntry {
    /// Whether a header has the entry's name; the name of a folder ends with `/`.
    pub(super) fn is_named(&self, header: &[u8]) -> bool {
        let name = if self.is_folder {
            header.strip_suffix(b"/")
        } else {
            Some(header)
        };
        name == Some(self.name.as_str().as_bytes())
    }

    /// An error with the entry's name.
    pub(super) fn refused(&self, reason: ArchiveRefusal) -> ArchiveError {
        ArchiveError::Refused {
            entry: Some(self.name.to_string()),
            reason,
        }
    }
}

/// Reads as many headers as the end record says; they must fill the directory.
pub(super) fn read(source: &impl ReadAt, directory: &Directory) -> Result<Vec<CentralEntry>, ArchiveError> {
    let end = directory
        .at
        .checked_add(directory.size)
        .ok_or(ArchiveRefusal::Directory)?;
    let mut at = directory.at;
    // SECURITY: the archive chose the count, so no memory is reserved for it.
    let mut found = Vec::new();
    for _ in 0..directory.entries {
        let behind_head = at + CENTRAL_LENGTH as u64;
        if behind_head > end {
            return Err(ArchiveRefusal::Count.into());
        }
        let mut head = [0; CENTRAL_LENGTH];
        source.read_exact_at(&mut head, at).map_err(ArchiveError::of_read)?;
        if !head.starts_with(&CENTRAL) {
            return Err(ArchiveRefusal::Count.into());
        }
        let common = Common::parse(&head[8..]);
        let lengths = [common.name_length, common.extra_length, u16_at(&head, 32)].map(usize::from);
        let mut rest = vec![0; lengths.iter().sum()];
        let next = behind_head + rest.len() as u64;
        if next > end {
            return Err(ArchiveRefusal::Count.into());
        }
        source
            .read_exact_at(&mut rest, behind_head)
            .map_err(ArchiveError::of_read)?;
        let (name, rest) = rest.split_at(lengths[0]);
        found.push(listed(&head, common, name, &rest[..lengths[1]], at)?);
        at = next;
    }
    if at == end {
        Ok(found)
    } else {
        Err(ArchiveRefusal::Count.into())
    }
}

fn listed(
    head: &[u8; CENTRAL_LENGTH],
    common: Common,
    raw_name: &[u8],
    extra: &[u8],
    central_at: u64,
) -> Result<CentralEntry, ArchiveError> {
    let shown = || Some(String::from_utf8_lossy(&raw_name[..raw_name.len().min(MAX_NAME)]).into_owned());
    let refused = |reason: ArchiveRefusal| ArchiveError::Refused { entry: shown(), reason };
    let refused_name = |reason: NameError| refused(reason.into());
    let is_folder = raw_name.ends_with(b"/");
    let path = raw_name.strip_suffix(b"/").unwrap_or(raw_name);
    let name = match raw_name {
        b"/" => Err(NameError::Absolute),
        _ => EntryName::from_bytes(path),
    };
    let name = name.map_err(refused_name)?;
    if common.flags & flag::ENCRYPTED != 0 {
        return Err(refused(ArchiveRefusal::Encrypted));
    }
    if common.flags & !flag::KNOWN != 0 {
        return Err(refused(ArchiveRefusal::Flags(common.flags)));
    }
    if !matches!(common.method, method::STORED | method::DEFLATE) {
        return Err(refused(ArchiveRefusal::Method(common.method)));
    }
    if u16_at(head, 32) != 0 {
        return Err(refused(ArchiveRefusal::EntryComment));
    }
    if u16_at(head, 34) != 0 {
        return Err(ArchiveRefusal::Split.into());
    }
    check_kind(u32_at(head, 38), is_folder).map_err(refused)?;
    let extra = Extra::parse(extra, raw_name).map_err(refused)?;
    let numbers = extra.resolve([common.size, common.packed, u32_at(head, 42)]);
    let [size, packed, header_at] = numbers.map_err(refused)?;
    if is_folder && size != 0 {
        return Err(refused(ArchiveRefusal::FolderContent));
    }
    if common.method == method::STORED && size != packed {
        return Err(refused(ArchiveRefusal::Size));
    }
    Ok(CentralEntry {
        name,
        is_folder,
        common,
        size,
        packed,
        header_at,
        central_at,
    })
}

/// Checks the attributes: a regular file or a folder, and the same as the name says.
// SECURITY: check the mode for every system in the header, because some programs always use it.
fn check_kind(attributes: u32, is_folder: bool) -> Result<(), ArchiveRefusal> {
    if attributes & DOS_VOLUME != 0 {
        return Err(ArchiveRefusal::Special);
    }
    match attributes >> 16 & KIND {
        // Programs without unix modes.
        0 if attributes & DOS_FOLDER != 0 && !is_folder => Err(ArchiveRefusal::Kind),
        0 => Ok(()),
        REGULAR if !is_folder => Ok(()),
        FOLDER if is_folder => Ok(()),
        REGULAR | FOLDER => Err(ArchiveRefusal::Kind),
        SYMBOLIC_LINK => Err(ArchiveRefusal::SymbolicLink),
        _ => Err(ArchiveRefusal::Special),
    }
}
