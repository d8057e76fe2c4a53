//! Step 1: the end records, which say where the directory is (APPNOTE.TXT 4.3.14 to 4.3.16).
//!
//! The end record is the last in the file. Zip64 records may come before it if they say the same, because some
//! programs write them without need.

use super::refusal::{ArchiveError, ArchiveRefusal};
use crate::MAX_ENTRIES;
use crate::format::{
    END, END_LENGTH, SEE_ZIP64, ZIP64_END, ZIP64_END_LENGTH, ZIP64_LOCATOR, ZIP64_LOCATOR_LENGTH, u16_at, u32_at,
    u64_at,
};
use crate::read_at::ReadAt;

/// The longest comment.
const MAX_COMMENT: u64 = 65_535;

/// Where the central directory is.
#[derive(Debug)]
pub(super) struct Directory {
    pub at: u64,
    pub size: u64,
    pub entries: u64,
}

/// Finds the directory, which must end where the end records begin.
pub(super) fn locate(source: &impl ReadAt, size: u64) -> Result<Directory, ArchiveError> {
    let end_at = size.checked_sub(END_LENGTH as u64).ok_or(ArchiveRefusal::NotZip)?;
    let mut end = [0; END_LENGTH];
    source.read_exact_at(&mut end, end_at).map_err(ArchiveError::of_read)?;
    if !end.starts_with(&END) {
        return Err(why_not(source, size)?.into());
    }
    // It announces a comment that is missing.
    if u16_at(&end, 20) != 0 {
        return Err(ArchiveRefusal::CutOff.into());
    }
    let disk = u16_at(&end, 4);
    let directory_disk = u16_at(&end, 6);
    let entries_here = u16_at(&end, 8);
    let entries = u16_at(&end, 10);
    let length = u32_at(&end, 12);
    let at = u32_at(&end, 16);

    // Decided by where the directory ends, not by a signature, which may be the end of a name.
    let ends_here = u64::from(at) + u64::from(length) == end_at;
    let zip64 = if ends_here { None } else { Some(zip64(source, end_at)?) };
    let directory = match zip64 {
        Some((zip64, zip64_at)) => {
            let says = |number: u64, field: u32, most: u32| field == most || u64::from(field) == number;
            let agree = says(0, disk.into(), 0xffff)
                && says(0, directory_disk.into(), 0xffff)
                && says(zip64.entries, entries_here.into(), 0xffff)
                && says(zip64.entries, entries.into(), 0xffff)
                && says(zip64.size, length, SEE_ZIP64)
                && says(zip64.at, at, SEE_ZIP64);
            if !agree || zip64.at.checked_add(zip64.size) != Some(zip64_at) {
                return Err(ArchiveRefusal::Zip64.into());
            }
            zip64
        }
        None => {
            if (disk, directory_disk) != (0, 0) || entries_here != entries {
                return Err(ArchiveRefusal::Split.into());
            }
            Directory {
                at: at.into(),
                size: length.into(),
                entries: entries.into(),
            }
        }
    };
    if directory.entries > MAX_ENTRIES as u64 {
        return Err(ArchiveRefusal::TooManyEntries.into());
    }
    Ok(directory)
}

/// The content of the zip64 records before the end record, and where they begin.
fn zip64(source: &impl ReadAt, end_at: u64) -> Result<(Directory, u64), ArchiveError> {
    let records = (ZIP64_END_LENGTH + ZIP64_LOCATOR_LENGTH) as u64;
    let zip64_at = end_at.checked_sub(records).ok_or(ArchiveRefusal::Directory)?;
    let mut bytes = [0; ZIP64_END_LENGTH + ZIP64_LOCATOR_LENGTH];
    source
        .read_exact_at(&mut bytes, zip64_at)
        .map_err(ArchiveError::of_read)?;
    let (record, locator) = bytes.split_at(ZIP64_END_LENGTH);
    if !record.starts_with(&ZIP64_END) || !locator.starts_with(&ZIP64_LOCATOR) {
        return Err(ArchiveRefusal::Directory.into());
    }
    // The length after its first twelve bytes; "extensible data" is refused.
    let is_plain = u64_at(record, 4) == (ZIP64_END_LENGTH - 12) as u64;
    let disks = (u32_at(record, 16), u32_at(record, 20), u32_at(locator, 4));
    let entries = u64_at(record, 32);
    let agree = u64_at(locator, 8) == zip64_at && u64_at(record, 24) == entries;
    // Some programs write 0 disks.
    if !is_plain || disks != (0, 0, 0) || u32_at(locator, 16) > 1 || !agree {
        return Err(ArchiveRefusal::Zip64.into());
    }
    Ok((
        Directory {
            at: u64_at(record, 48),
            size: u64_at(record, 40),
            entries,
        },
        zip64_at,
    ))
}

/// Why the file does not end with an end record: something follows it, or it is missing.
fn why_not(source: &impl ReadAt, size: u64) -> Result<ArchiveRefusal, ArchiveError> {
    let length = size.min(MAX_COMMENT + END_LENGTH as u64);
    // At most 64 KiB and a few bytes.
    let mut bytes = vec![0; length as usize];
    source
        .read_exact_at(&mut bytes, size - length)
        .map_err(ArchiveError::of_read)?;
    let Some(at) = bytes.windows(END_LENGTH).rposition(|window| window.starts_with(&END)) else {
        return Ok(ArchiveRefusal::NotZip);
    };
    let behind = (bytes.len() - at - END_LENGTH) as u64;
    let comment = u64::from(u16_at(&bytes, at + 20));
    Ok(if comment == behind {
        ArchiveRefusal::Comment(behind)
    } else {
        ArchiveRefusal::Behind(behind.saturating_sub(comment))
    })
}
