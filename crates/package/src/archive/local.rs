//! Step 3: walks through the file from entry to entry (APPNOTE.TXT 4.3.7 to 4.3.9). Each begins where the last one
//! ends, so nothing is hidden between them and nothing belongs to two.

use super::central::CentralEntry;
use super::content::ArchiveEntry;
use super::extra::Extra;
use super::refusal::{ArchiveError, ArchiveRefusal};
use crate::format::{Common, DESCRIPTOR, LOCAL, LOCAL_LENGTH, flag, u32_at, u64_at};
use crate::read_at::ReadAt;

/// Lengths of a data descriptor: without and with its signature, with sizes of four and of eight bytes.
const DESCRIPTOR_LENGTHS: [u64; 4] = [12, 16, 20, 24];

/// Walks through the entries, which are sorted by position, up to the directory.
pub(super) fn follow(
    source: &impl ReadAt,
    listed: Vec<CentralEntry>,
    directory_at: u64,
) -> Result<Vec<ArchiveEntry>, ArchiveError> {
    let mut expected = 0;
    let mut ends = listed
        .iter()
        .skip(1)
        .map(|next| next.header_at)
        .chain([directory_at])
        .collect::<Vec<_>>()
        .into_iter();
    let mut entries = Vec::with_capacity(listed.len());
    let is_empty = listed.is_empty();
    for entry in listed {
        if entry.header_at > expected {
            return Err(entry.refused(ArchiveRefusal::Gap(entry.header_at - expected)));
        }
        if entry.header_at < expected {
            return Err(entry.refused(ArchiveRefusal::Overlap));
        }
        let data_at = data_at(source, &entry, directory_at)?;
        let end = ends.next().unwrap_or(directory_at);
        check_end(source, &entry, data_at, end)?;
        expected = end;
        entries.push(ArchiveEntry {
            name: entry.name,
            is_folder: entry.is_folder,
            size: entry.size,
            packed: entry.packed,
            crc: entry.common.crc,
            method: entry.common.method,
            header_at: entry.header_at,
            data_at,
            central_at: entry.central_at,
        });
    }
    if is_empty && directory_at != 0 {
        return Err(ArchiveRefusal::Directory.into());
    }
    Ok(entries)
}

/// Compares the local header with the directory, and returns where the data begin.
fn data_at(source: &impl ReadAt, entry: &CentralEntry, directory_at: u64) -> Result<u64, ArchiveError> {
    let refused = |reason| entry.refused(reason);
    let behind_head = entry.header_at + LOCAL_LENGTH as u64;
    if behind_head > directory_at {
        return Err(refused(ArchiveRefusal::Overlap));
    }
    let mut head = [0; LOCAL_LENGTH];
    source
        .read_exact_at(&mut head, entry.header_at)
        .map_err(ArchiveError::of_read)?;
    if !head.starts_with(&LOCAL) {
        return Err(refused(ArchiveRefusal::NoHeader));
    }
    let local = Common::parse(&head[6..]);
    let mut rest = vec![0; usize::from(local.name_length) + usize::from(local.extra_length)];
    let data_at = behind_head + rest.len() as u64;
    if data_at > directory_at {
        return Err(refused(ArchiveRefusal::Overlap));
    }
    source
        .read_exact_at(&mut rest, behind_head)
        .map_err(ArchiveError::of_read)?;
    let (name, extra) = rest.split_at(local.name_length.into());
    if !entry.is_named(name) {
        return Err(refused(ArchiveRefusal::Disagree("name")));
    }
    let extra = Extra::parse(extra, name).map_err(refused)?;
    compare(&local, &extra, entry).map_err(refused)?;
    Ok(data_at)
}

/// Whether the two headers agree. Dates may differ: no program depends on them.
fn compare(local: &Common, extra: &Extra, entry: &CentralEntry) -> Result<(), ArchiveRefusal> {
    let listed = &entry.common;
    if local.flags != listed.flags {
        return Err(ArchiveRefusal::Disagree("set of flags"));
    }
    if local.method != listed.method {
        return Err(ArchiveRefusal::Disagree("compression method"));
    }
    let [size, packed] = extra.resolve([local.size, local.packed])?;
    // With a data descriptor, these were unknown and are zero.
    let is_open = local.flags & flag::DESCRIPTOR != 0;
    let agrees = |said: u64, known: u64| said == known || (is_open && said == 0);
    if !agrees(local.crc.into(), listed.crc.into()) {
        return Err(ArchiveRefusal::Disagree("CRC-32"));
    }
    if !agrees(size, entry.size) || !agrees(packed, entry.packed) {
        return Err(ArchiveRefusal::Disagree("size"));
    }
    Ok(())
}

/// The data, with a descriptor if there is one, must end where the next entry begins.
fn check_end(source: &impl ReadAt, entry: &CentralEntry, data_at: u64, end: u64) -> Result<(), ArchiveError> {
    let refused = |reason| entry.refused(reason);
    let data_end = data_at
        .checked_add(entry.packed)
        .ok_or_else(|| refused(ArchiveRefusal::Overlap))?;
    let behind = end
        .checked_sub(data_end)
        .ok_or_else(|| refused(ArchiveRefusal::Overlap))?;
    if entry.common.flags & flag::DESCRIPTOR == 0 {
        return if behind == 0 {
            Ok(())
        } else {
            Err(refused(ArchiveRefusal::Tail(behind)))
        };
    }
    if !DESCRIPTOR_LENGTHS.contains(&behind) {
        return Err(refused(ArchiveRefusal::Descriptor));
    }
    let mut buffer = [0; 24];
    // One of the four lengths.
    let descriptor = &mut buffer[..behind as usize];
    source
        .read_exact_at(descriptor, data_end)
        .map_err(ArchiveError::of_read)?;
    if describes(descriptor, entry) {
        Ok(())
    } else {
        Err(refused(ArchiveRefusal::Descriptor))
    }
}

/// Whether a data descriptor (4.3.9) agrees with the directory.
fn describes(descriptor: &[u8], entry: &CentralEntry) -> bool {
    let has_signature = matches!(descriptor.len(), 16 | 24);
    let fields = match descriptor.strip_prefix(&DESCRIPTOR) {
        Some(fields) if has_signature => fields,
        _ if has_signature => return false,
        _ => descriptor,
    };
    let (packed, size) = match fields.len() {
        12 => (u32_at(fields, 4).into(), u32_at(fields, 8).into()),
        _ => (u64_at(fields, 4), u64_at(fields, 12)),
    };
    u32_at(fields, 0) == entry.common.crc && packed == entry.packed && size == entry.size
}
