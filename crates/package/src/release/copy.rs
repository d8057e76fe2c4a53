//! Whether a copy of a package, marked or not, is the one that a statement is about.
//!
//! The bytes around the mark must be the signed ones, and the mark must be one that we could have made: an id of the right
//! form, and its CRC-32 in both places. The client does the same before it unpacks.

use std::io;

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::mark::{self, Places};
use crate::read_at::ReadAt;
use crate::release::statement::{SignedMark, SignedPackage};
use countersign_model::digest::Digest;

/// Bytes that are hashed at once.
const PIECE: usize = 1 << 16;

/// Letters of an id.
const UUID_LENGTH: usize = 36;

/// Why a file is not a copy of the signed package.
#[derive(Debug, thiserror::Error)]
pub enum CopyMismatch {
    /// It cannot be read.
    #[error("cannot be read")]
    Read(#[from] io::Error),
    /// More or fewer bytes.
    #[error("it has {found} bytes, and the signed package has {expected}")]
    Size {
        /// Of the file.
        found: u64,
        /// Of the package.
        expected: u64,
    },
    /// The mark's place has something else than a build id.
    #[error("no build id is in the place that is signed for it")]
    BuildId,
    /// The mark's CRC-32 is wrong in one of its places.
    #[error("the checksum of its build id is wrong")]
    Crc,
    /// Other bytes.
    #[error("its bytes are not those that were signed")]
    Bytes,
}

impl From<SignedMark> for Places {
    fn from(mark: SignedMark) -> Self {
        let [local_crc, central_crc] = mark.crc;
        Self {
            local_crc,
            id: mark.uuid,
            central_crc,
        }
    }
}

impl From<Places> for SignedMark {
    fn from(places: Places) -> Self {
        Self {
            crc: [places.local_crc, places.central_crc],
            uuid: places.id,
        }
    }
}

/// Checks a copy, and gives the build id in it; `None` where it is nobody's copy.
///
/// # Errors
///
/// Why it is not a copy of that package.
pub fn check<R: ReadAt>(copy: &R, package: &SignedPackage) -> Result<Option<Uuid>, CopyMismatch> {
    let found = copy.size()?;
    let expected = package.size;
    if found != expected {
        return Err(CopyMismatch::Size { found, expected });
    }
    let id = match package.mark {
        None => None,
        Some(mark) => Some(build_id(copy, mark)?),
    };
    let unmark = package.mark.map(|mark| Places::from(mark).patch(Uuid::nil()));
    let mut digest = Sha256::new();
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    while at < expected {
        // At most 64 KiB.
        let length = (expected - at).min(PIECE as u64) as usize;
        let part = &mut piece[..length];
        copy.read_exact_at(part, at)?;
        if let Some(unmark) = &unmark {
            unmark.apply(at, part);
        }
        digest.update(part);
        at += length as u64;
    }
    match Digest::from_bytes(digest.finalize().into()) == package.sha256 {
        true => Ok(id.filter(|id| !id.is_nil())),
        false => Err(CopyMismatch::Bytes),
    }
}

/// The id in its place: a UUIDv8 in small letters, or the nil UUID of nobody's copy.
fn build_id<R: ReadAt>(copy: &R, SignedMark { crc, uuid }: SignedMark) -> Result<Uuid, CopyMismatch> {
    let mut letters = [0; UUID_LENGTH];
    copy.read_exact_at(&mut letters, uuid)?;
    let text = std::str::from_utf8(&letters).map_err(|_| CopyMismatch::BuildId)?;
    let id = Uuid::try_parse(text).map_err(|_| CopyMismatch::BuildId)?;
    let is_right_form = id.is_nil() || id.get_version_num() == 8 && id.get_variant() == uuid::Variant::RFC4122;
    if !is_right_form || id.hyphenated().to_string() != text {
        return Err(CopyMismatch::BuildId);
    }
    for at in crc {
        let mut found = [0; 4];
        copy.read_exact_at(&mut found, at)?;
        if u32::from_le_bytes(found) != mark::crc(id) {
            return Err(CopyMismatch::Crc);
        }
    }
    Ok(id)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::writer::PackageWriter;

    const ID: Uuid = Uuid::from_u128(0x0123_4567_89ab_8def_8123_4567_89ab_cdef);

    fn package(marked: bool) -> (SignedPackage, Vec<u8>) {
        let mut out = Cursor::new(Vec::new());
        let folder = "acme".parse().unwrap();
        let mut writer = PackageWriter::new(&mut out, &folder, "2026-11-23T15:04:19Z".parse().unwrap());
        writer.add("acme.php", 5, || Ok(&b"<?php"[..])).unwrap();
        let written = writer.finish(marked).unwrap();
        let bytes = out.into_inner();
        let signed = SignedPackage {
            mark: written.mark.map(SignedMark::from),
            sha256: Digest::of(&bytes),
            size: written.size,
        };
        (signed, bytes)
    }

    fn copy(package: &SignedPackage, bytes: &[u8], id: Uuid) -> Vec<u8> {
        let mut copy = bytes.to_vec();
        Places::from(package.mark.unwrap()).patch(id).apply(0, &mut copy);
        copy
    }

    fn refusal(bytes: &[u8], package: &SignedPackage) -> String {
        check(&bytes, package).unwrap_err().to_string()
    }

    #[test]
    fn the_package_and_every_copy_of_it_are_right() {
        let (signed, bytes) = package(true);
        assert_eq!(check(&&bytes[..], &signed).unwrap(), None);
        assert_eq!(check(&&copy(&signed, &bytes, ID)[..], &signed).unwrap(), Some(ID));
        let (unmarked, bytes) = package(false);
        assert_eq!(check(&&bytes[..], &unmarked).unwrap(), None);
    }

    #[test]
    fn a_changed_byte_anywhere_is_found() {
        for id in [Uuid::nil(), ID] {
            let (signed, bytes) = package(true);
            let right = copy(&signed, &bytes, id);
            for at in 0..right.len() {
                let mut wrong = right.clone();
                wrong[at] ^= 0x20;
                assert!(check(&&wrong[..], &signed).is_err(), "{at}");
            }
        }
        let (signed, bytes) = package(true);
        assert!(refusal(&bytes[1..], &signed).ends_with(&format!("the signed package has {}", signed.size)));
        assert!(refusal(&[&bytes[..], b"x"].concat(), &signed).starts_with("it has "));
    }

    #[test]
    fn ids_that_we_do_not_make_and_wrong_checksums_are_refused() {
        let (signed, bytes) = package(true);
        let random = Uuid::from_u128(0x0123_4567_89ab_4def_8123_4567_89ab_cdef);
        let variant = Uuid::from_u128(0x0123_4567_89ab_8def_c123_4567_89ab_cdef);
        let build_id = "no build id is in the place that is signed for it";
        for id in [random, variant] {
            assert_eq!(refusal(&copy(&signed, &bytes, id), &signed), build_id);
        }
        let right = copy(&signed, &bytes, ID);
        let SignedMark { crc, uuid } = signed.mark.unwrap();
        let id_at = uuid as usize;
        let mut capitals = right.clone();
        capitals[id_at..id_at + UUID_LENGTH].make_ascii_uppercase();
        assert_eq!(refusal(&capitals, &signed), build_id);
        for at in crc {
            for wrong_crc in [*b"PK\x05\x06", [0; 4], mark::crc(Uuid::nil()).to_le_bytes()] {
                let mut wrong = right.clone();
                wrong[at as usize..at as usize + 4].copy_from_slice(&wrong_crc);
                assert_eq!(refusal(&wrong, &signed), "the checksum of its build id is wrong");
            }
        }
        let mut moved = signed.clone();
        moved.mark = Some(SignedMark { crc, uuid: uuid - 1 });
        assert_eq!(refusal(&right, &moved), build_id);
    }
}
