//! The mark: the file `build-id.php` at the end of a package, which identifies a copy.
//!
//! It is STORED and has a fixed length, so a copy differs from the package in only three places: the id, and the
//! CRC-32 in both headers. [`Patch`] inserts them into any part of a download. [`search`] finds the id of a copy.

pub mod search;

use uuid::Uuid;

use super::archive::{Archive, ArchiveError};
use super::entry_name::FolderName;
use super::format::{CENTRAL_CRC_AT, LOCAL_CRC_AT, method};
use super::read_at::ReadAt;

/// The mark's name in the top-level folder.
pub const FILE: &str = "build-id.php";

const BEFORE: &str = "<?php\n// Who this copy was given to. Do not edit.\nreturn '";
const AFTER: &str = "';\n";

/// The position of the id in the file.
pub(super) const ID_AT: u64 = BEFORE.len() as u64;

/// The length of an id.
const ID_LENGTH: usize = 36;

/// The file with an id. The stored package has the nil UUID.
pub fn content(id: Uuid) -> String {
    format!("{BEFORE}{id}{AFTER}")
}

/// The CRC-32 of the file for an id.
pub fn crc(id: Uuid) -> u32 {
    crc32fast::hash(content(id).as_bytes())
}

/// The positions of the mark in a package, in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Places {
    /// The CRC-32 in the local header: four bytes.
    pub local_crc: u64,
    /// The id in the data: 36 bytes.
    pub id: u64,
    /// The CRC-32 in the central directory: four bytes.
    pub central_crc: u64,
}

impl Places {
    /// The positions in a package in normal form; `None` if its last file is not a mark.
    ///
    /// # Errors
    ///
    /// The archive can no longer be read.
    pub fn of<R: ReadAt>(archive: &Archive<R>, folder: &FolderName) -> Result<Option<Self>, ArchiveError> {
        let mark = archive.files().max_by_key(|file| file.header_at);
        let Some(mark) = mark.filter(|mark| mark.name.below(folder) == Some(FILE)) else {
            return Ok(None);
        };
        let expected = content(Uuid::nil()).len();
        if mark.method != method::STORED || mark.size != expected as u64 {
            return Ok(None);
        }
        let found = archive.read(mark)?;
        let is_ours = found.starts_with(BEFORE.as_bytes()) && found.ends_with(AFTER.as_bytes());
        let id = std::str::from_utf8(&found[BEFORE.len()..expected - AFTER.len()]).ok();
        let is_id = id.is_some_and(|id| Uuid::try_parse(id).is_ok_and(|parsed| parsed.to_string() == id));
        Ok((is_ours && is_id).then_some(Self {
            local_crc: mark.header_at + LOCAL_CRC_AT,
            id: mark.data_at + ID_AT,
            central_crc: mark.central_at + CENTRAL_CRC_AT,
        }))
    }

    /// The content of these places in a copy for `id`.
    pub fn patch(self, id: Uuid) -> Patch {
        let mut letters = [0; ID_LENGTH];
        id.hyphenated().encode_lower(&mut letters);
        Patch {
            places: self,
            id: letters,
            crc: crc(id).to_le_bytes(),
        }
    }
}

/// A mark to insert into the bytes of a download. Made once for each download.
#[derive(Clone, Copy, Debug)]
pub struct Patch {
    places: Places,
    id: [u8; ID_LENGTH],
    crc: [u8; 4],
}

impl Patch {
    /// Inserts the mark into a part of the package that begins at its byte `start`.
    pub fn apply(&self, start: u64, part: &mut [u8]) {
        let Places {
            local_crc,
            id,
            central_crc,
        } = self.places;
        overlay(start, part, local_crc, &self.crc);
        overlay(start, part, id, &self.id);
        overlay(start, part, central_crc, &self.crc);
    }
}

/// Copies the part of `bytes`, whose place begins at byte `at`, into a part that begins at byte `start`.
fn overlay(start: u64, part: &mut [u8], at: u64, bytes: &[u8]) {
    let from = start.max(at);
    let to = start
        .saturating_add(part.len() as u64)
        .min(at.saturating_add(bytes.len() as u64));
    if from < to {
        // Both differences are within one of the two slices.
        let in_part = (from - start) as usize..(to - start) as usize;
        let in_bytes = (from - at) as usize..(to - at) as usize;
        part[in_part].copy_from_slice(&bytes[in_bytes]);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;
    use crate::archive::testing::{Made, zip};
    use crate::writer::PackageWriter;

    const ID: Uuid = Uuid::from_u128(0x0123_4567_89ab_8def_8123_4567_89ab_cdef);

    fn package() -> (Places, Vec<u8>) {
        let mut out = Cursor::new(Vec::new());
        let folder = "acme".parse().unwrap();
        let mut writer = PackageWriter::new(&mut out, &folder, "2026-11-23T15:04:19Z".parse().unwrap());
        writer.add("acme.php", 5, || Ok(&b"<?php"[..])).unwrap();
        let package = writer.finish(true).unwrap();
        (package.mark.unwrap(), out.into_inner())
    }

    fn marked(id: Uuid) -> Vec<u8> {
        let (places, mut bytes) = package();
        places.patch(id).apply(0, &mut bytes);
        bytes
    }

    #[test]
    fn the_mark_is_the_file_that_was_agreed() {
        let nil =
            "<?php\n// Who this copy was given to. Do not edit.\nreturn '00000000-0000-0000-0000-000000000000';\n";
        assert_eq!(content(Uuid::nil()), nil);
        assert_eq!(crc(Uuid::nil()), crc32fast::hash(nil.as_bytes()));
        assert_eq!(content(ID).len(), nil.len());
    }

    #[test]
    fn a_marked_copy_is_an_archive_with_right_checksums_and_differs_in_three_places() {
        let (places, bytes) = package();
        let copy = marked(ID);
        let archive = Archive::check(&copy[..]).unwrap();
        let mark = archive.files().find(|file| file.name.file_name() == FILE).unwrap();
        assert_eq!(archive.read(mark).unwrap(), content(ID).into_bytes());
        assert_eq!(Places::of(&archive, &"acme".parse().unwrap()).unwrap(), Some(places));
        let differing = |at: &u64| bytes[*at as usize] != copy[*at as usize];
        let within = |at: u64| {
            [(places.local_crc, 4), (places.id, 36), (places.central_crc, 4)]
                .iter()
                .any(|(from, length)| (*from..from + length).contains(&at))
        };
        assert!((0..bytes.len() as u64).filter(differing).all(within));
        assert_eq!(marked(Uuid::nil()), bytes);
    }

    #[test]
    fn two_parts_make_the_whole_wherever_it_is_cut() {
        let (places, bytes) = package();
        let whole = marked(ID);
        let patch = places.patch(ID);
        for cut in 0..=bytes.len() {
            let mut first = bytes[..cut].to_vec();
            let mut second = bytes[cut..].to_vec();
            patch.apply(0, &mut first);
            patch.apply(cut as u64, &mut second);
            assert_eq!([first, second].concat(), whole, "{cut}");
        }
    }

    #[test]
    fn every_range_around_the_mark_is_that_of_the_whole() {
        let (places, bytes) = package();
        let whole = marked(ID);
        let patch = places.patch(ID);
        // The archive is small: all ranges there are.
        for start in 0..bytes.len() {
            for end in start..=bytes.len() {
                let mut part = bytes[start..end].to_vec();
                patch.apply(start as u64, &mut part);
                assert_eq!(part, whole[start..end], "{start}..{end}");
            }
        }
    }

    proptest! {
        #[test]
        fn pieces_of_any_length_make_the_whole(id: u128, lengths in proptest::collection::vec(0..50_usize, 1..9)) {
            let (places, mut bytes) = package();
            let id = Uuid::from_u128(id);
            let patch = places.patch(id);
            let mut lengths = lengths.into_iter().cycle();
            let mut start = 0;
            while start < bytes.len() {
                let end = (start + lengths.next().unwrap() + 1).min(bytes.len());
                patch.apply(start as u64, &mut bytes[start..end]);
                start = end;
            }
            prop_assert_eq!(&bytes, &marked(id));
            prop_assert!(Archive::check(&bytes[..]).is_ok());
        }

        #[test]
        fn a_part_that_begins_anywhere_is_no_overflow(start: u64, length in 0..9_usize) {
            let (places, _) = package();
            places.patch(ID).apply(start, &mut vec![0; length]);
        }
    }

    #[test]
    fn only_the_last_file_as_we_write_it_is_a_mark_with_places() {
        let places = |entries: &[Made]| {
            let bytes = zip(entries);
            Places::of(&Archive::check(&bytes[..]).unwrap(), &"acme".parse().unwrap()).unwrap()
        };
        let right = content(ID);
        let other = |content: &str| Made::stored("acme/build-id.php", content.as_bytes());
        assert!(places(&[Made::stored("acme/z", b""), other(&right)]).is_some());
        assert_eq!(places(&[other(&right), Made::stored("acme/z", b"")]), None, "not last");
        assert_eq!(places(&[Made::deflated("acme/build-id.php", right.as_bytes())]), None);
        assert_eq!(places(&[Made::stored("else/build-id.php", right.as_bytes())]), None);
        assert_eq!(places(&[Made::stored("acme/sub/build-id.php", right.as_bytes())]), None);
        assert_eq!(places(&[other(&right.to_uppercase())]), None);
        assert_eq!(places(&[other(&right.replace("89ab", "89AB"))]), None, "capitals");
        assert_eq!(places(&[other(&right.replace("89ab", "89zz"))]), None);
        assert_eq!(places(&[other(&right[1..])]), None);
        assert_eq!(places(&[]), None);
    }
}
