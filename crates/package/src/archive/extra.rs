//! Extra fields of a header (APPNOTE.TXT 4.5): zip64 sizes, and a second name. Others do not affect the content.

use super::refusal::ArchiveRefusal;
use crate::format::{SEE_ZIP64, u16_at, u64_at};

/// Zip64 extended information (4.5.3).
const ZIP64: u16 = 0x0001;
/// Info-ZIP Unicode path (4.6.9): some programs use this name instead of the header's.
const UNICODE_PATH: u16 = 0x7075;

/// The relevant extra fields of a header.
#[derive(Debug, Default)]
pub(super) struct Extra {
    /// The numbers of the zip64 field, in order: unpacked size, packed size, offset of the header.
    zip64: Option<Vec<u64>>,
}

impl Extra {
    /// Parses the fields of an entry with this name.
    pub(super) fn parse(mut bytes: &[u8], name: &[u8]) -> Result<Self, ArchiveRefusal> {
        let mut extra = Self::default();
        while !bytes.is_empty() {
            let (head, rest) = bytes.split_at_checked(4).ok_or(ArchiveRefusal::Extra)?;
            let (data, rest) = rest
                .split_at_checked(u16_at(head, 2).into())
                .ok_or(ArchiveRefusal::Extra)?;
            match u16_at(head, 0) {
                ZIP64 if extra.zip64.is_some() => return Err(ArchiveRefusal::Extra),
                ZIP64 => extra.zip64 = Some(numbers(data)?),
                // A version, the CRC-32 of the header's name, and the name.
                UNICODE_PATH if data.get(5..) != Some(name) => return Err(ArchiveRefusal::OtherName),
                _ => {}
            }
            bytes = rest;
        }
        Ok(extra)
    }

    /// Replaces fields that refer to zip64 by the zip64 numbers.
    ///
    /// A zip64 number for any other field must be the same: programs differ in which one they use.
    pub(super) fn resolve<const N: usize>(&self, fields: [u32; N]) -> Result<[u64; N], ArchiveRefusal> {
        let refers = fields.contains(&SEE_ZIP64);
        let Some(zip64) = &self.zip64 else {
            return if refers {
                Err(ArchiveRefusal::NeedsZip64)
            } else {
                Ok(fields.map(u64::from))
            };
        };
        let plain = fields.map(u64::from);
        if !refers {
            let agrees = zip64.iter().zip(plain).all(|(zip64, plain)| *zip64 == plain);
            return if agrees { Ok(plain) } else { Err(ArchiveRefusal::Zip64) };
        }
        let mut numbers = zip64.iter();
        let mut resolved = plain;
        for (field, number) in fields.iter().zip(&mut resolved) {
            if *field == SEE_ZIP64 {
                *number = *numbers.next().ok_or(ArchiveRefusal::Zip64)?;
            }
        }
        if numbers.next().is_none() {
            Ok(resolved)
        } else {
            Err(ArchiveRefusal::Zip64)
        }
    }
}

/// The eight-byte numbers of the field. A disk number of four bytes may follow three of them.
fn numbers(data: &[u8]) -> Result<Vec<u64>, ArchiveRefusal> {
    let (numbers, disk) = data.split_at(data.len() / 8 * 8);
    let is_disk = numbers.len() == 24 && disk == [0; 4];
    if numbers.len() > 24 || !(disk.is_empty() || is_disk) {
        return Err(ArchiveRefusal::Zip64);
    }
    Ok(numbers.chunks_exact(8).map(|number| u64_at(number, 0)).collect())
}
