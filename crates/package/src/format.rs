//! The records of a zip archive, byte by byte (APPNOTE.TXT 6.3.10, sections 4.3 and 4.4). All numbers are
//! little-endian; a time is in steps of two seconds (4.4.6).

use chrono::{DateTime, Datelike as _, Timelike as _, Utc};

/// Local file header (4.3.7).
pub(super) const LOCAL: [u8; 4] = *b"PK\x03\x04";
/// Data descriptor (4.3.9.3).
pub(super) const DESCRIPTOR: [u8; 4] = *b"PK\x07\x08";
/// Central directory header (4.3.12).
pub(super) const CENTRAL: [u8; 4] = *b"PK\x01\x02";
/// Zip64 end of central directory record (4.3.14).
pub(super) const ZIP64_END: [u8; 4] = *b"PK\x06\x06";
/// Zip64 end of central directory locator (4.3.15).
pub(super) const ZIP64_LOCATOR: [u8; 4] = *b"PK\x06\x07";
/// End of central directory record (4.3.16).
pub(super) const END: [u8; 4] = *b"PK\x05\x06";

/// Bytes of each record without its names, extra fields and comments.
pub(super) const LOCAL_LENGTH: usize = 30;
pub(super) const CENTRAL_LENGTH: usize = 46;
pub(super) const ZIP64_END_LENGTH: usize = 56;
pub(super) const ZIP64_LOCATOR_LENGTH: usize = 20;
pub(super) const END_LENGTH: usize = 22;

/// The offset of the CRC-32 in a local and in a central header.
pub(super) const LOCAL_CRC_AT: u64 = 14;
pub(super) const CENTRAL_CRC_AT: u64 = 16;

/// General purpose bits (4.4.4).
pub(super) mod flag {
    /// Traditional encryption (bit 0), strong encryption (6), a masked directory (13).
    pub(crate) const ENCRYPTED: u16 = 1 | 1 << 6 | 1 << 13;
    /// CRC and sizes follow the data (bit 3).
    pub(crate) const DESCRIPTOR: u16 = 1 << 3;
    /// The compression level (bits 1 and 2).
    pub(crate) const LEVEL: u16 = 3 << 1;
    /// The name is UTF-8 (bit 11).
    pub(crate) const UTF8: u16 = 1 << 11;
    /// The flags that this reader supports.
    pub(crate) const KNOWN: u16 = DESCRIPTOR | LEVEL | UTF8;
}

/// Compression methods (4.4.5).
pub(super) mod method {
    /// Stored without compression.
    pub(crate) const STORED: u16 = 0;
    /// Deflate.
    pub(crate) const DEFLATE: u16 = 8;
}

/// A field that refers to the zip64 extended information (4.4.1.4).
pub(super) const SEE_ZIP64: u32 = u32::MAX;

/// `made by` of the normal form (4.4.2): version 2.0, and unix, so that the upper half of the attributes is a mode.
const MADE_BY: u16 = 3 << 8 | 20;

/// `external file attributes` of the normal form: a regular file, mode 0644.
const REGULAR_0644: u32 = 0o100_644 << 16;

/// The two bytes at `at`, which must exist.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// The four bytes at `at`.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|index| bytes[at + index]))
}

/// The eight bytes at `at`.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|index| bytes[at + index]))
}

/// The common fields of an entry's two headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Common {
    pub flags: u16,
    pub method: u16,
    pub crc: u32,
    pub packed: u32,
    pub size: u32,
    pub name_length: u16,
    pub extra_length: u16,
}

impl Common {
    /// Parses them from the `general purpose bit flag` on.
    pub(super) fn parse(bytes: &[u8]) -> Self {
        Self {
            flags: u16_at(bytes, 0),
            method: u16_at(bytes, 2),
            crc: u32_at(bytes, 8),
            packed: u32_at(bytes, 12),
            size: u32_at(bytes, 16),
            name_length: u16_at(bytes, 20),
            extra_length: u16_at(bytes, 22),
        }
    }
}

/// One entry of the normal form.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub name: String,
    pub method: u16,
    pub crc: u32,
    pub packed: u32,
    pub size: u32,
    /// The position of its local header.
    pub header_at: u32,
}

impl Record {
    /// Version needed, flags, method, time, CRC, sizes, and the lengths of name and extra fields.
    fn common(&self, time: DosTime) -> Vec<u8> {
        let needed: u16 = if self.method == method::STORED { 10 } else { 20 };
        let flags = if self.name.is_ascii() { 0 } else { flag::UTF8 };
        let mut bytes = Vec::with_capacity(26);
        for number in [needed, flags, self.method, time.time, time.date] {
            bytes.extend(number.to_le_bytes());
        }
        for number in [self.crc, self.packed, self.size] {
            bytes.extend(number.to_le_bytes());
        }
        // An `EntryName` has at most 1,024 bytes.
        bytes.extend((self.name.len() as u16).to_le_bytes());
        bytes.extend(0_u16.to_le_bytes());
        bytes
    }

    /// The local file header with the name.
    pub(super) fn local_header(&self, time: DosTime) -> Vec<u8> {
        [&LOCAL, &*self.common(time), self.name.as_bytes()].concat()
    }

    /// The central directory header with the name.
    pub(super) fn central_header(&self, time: DosTime) -> Vec<u8> {
        let mut bytes = [&CENTRAL, &MADE_BY.to_le_bytes()[..], &self.common(time)].concat();
        // Length of the comment, number of the disk, internal attributes.
        bytes.extend([0; 6]);
        bytes.extend(REGULAR_0644.to_le_bytes());
        bytes.extend(self.header_at.to_le_bytes());
        bytes.extend(self.name.as_bytes());
        bytes
    }
}

/// The end of central directory record.
pub(super) fn end_record(entries: u16, size: u32, at: u32) -> Vec<u8> {
    let mut bytes = END.to_vec();
    // This disk, and that of the directory.
    bytes.extend([0; 4]);
    bytes.extend(entries.to_le_bytes());
    bytes.extend(entries.to_le_bytes());
    bytes.extend(size.to_le_bytes());
    bytes.extend(at.to_le_bytes());
    // No comment.
    bytes.extend([0; 2]);
    bytes
}

/// MS-DOS date and time of a header, in UTC. The format has no time zone; another one would give other bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DosTime {
    pub time: u16,
    pub date: u16,
}

impl DosTime {
    /// 1980-01-01 00:00:00.
    const FIRST: Self = Self {
        time: 0,
        date: 1 << 5 | 1,
    };

    /// 2107-12-31 23:59:58.
    const LAST: Self = Self {
        time: 23 << 11 | 59 << 5 | 29,
        date: 127 << 9 | 12 << 5 | 31,
    };
}

impl From<DateTime<Utc>> for DosTime {
    /// The step of the time; the first or last one if it is outside of the range.
    fn from(time: DateTime<Utc>) -> Self {
        let year = match time.year() {
            ..1980 => return Self::FIRST,
            2108.. => return Self::LAST,
            year => year - 1980,
        };
        // All of them fit: hours have 5 bits, minutes 6, and so on.
        Self {
            time: (time.hour() << 11 | time.minute() << 5 | (time.second() / 2)) as u16,
            date: (year.unsigned_abs() << 9 | time.month() << 5 | time.day()) as u16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_their_lengths_and_places() {
        let time = DosTime { time: 1, date: 2 };
        let record = Record {
            name: "a".into(),
            method: method::DEFLATE,
            crc: 0x1122_3344,
            packed: 5,
            size: 6,
            header_at: 7,
        };
        let local = record.local_header(time);
        let central = record.central_header(time);
        assert_eq!((local.len(), central.len()), (LOCAL_LENGTH + 1, CENTRAL_LENGTH + 1));
        assert_eq!(end_record(1, 2, 3).len(), END_LENGTH);
        assert_eq!(u32_at(&local, LOCAL_CRC_AT as usize), record.crc);
        assert_eq!(u32_at(&central, CENTRAL_CRC_AT as usize), record.crc);
        let common = Common {
            flags: 0,
            method: 8,
            crc: record.crc,
            packed: 5,
            size: 6,
            name_length: 1,
            extra_length: 0,
        };
        assert_eq!(
            (Common::parse(&local[6..]), Common::parse(&central[8..])),
            (common.clone(), common)
        );
        assert_eq!(u32_at(&central, 42), 7);
        assert_eq!(u32_at(&central, 38) >> 16, 0o100_644);
    }

    #[test]
    fn times_are_cut_to_two_seconds_and_to_the_range() {
        let of = |text: &str| {
            let DosTime { time, date } = text.parse::<DateTime<Utc>>().unwrap().into();
            let day = (1980 + (date >> 9), date >> 5 & 15, date & 31);
            (day, (time >> 11, time >> 5 & 63, 2 * (time & 31)))
        };
        assert_eq!(of("2026-11-23T15:04:19Z"), ((2026, 11, 23), (15, 4, 18)));
        assert_eq!(of("2026-11-23T15:04:19.999+02:00"), ((2026, 11, 23), (13, 4, 18)));
        assert_eq!(of("1980-01-01T00:00:00Z"), ((1980, 1, 1), (0, 0, 0)));
        assert_eq!(of("1979-12-31T23:59:59Z"), ((1980, 1, 1), (0, 0, 0)));
        assert_eq!(of("2107-12-31T23:59:59Z"), ((2107, 12, 31), (23, 59, 58)));
        assert_eq!(of("2108-01-01T00:00:00Z"), ((2107, 12, 31), (23, 59, 58)));
        // A leap second is the 61st of its minute for chrono.
        assert_eq!(of("2016-12-31T23:59:60Z"), ((2016, 12, 31), (23, 59, 58)));
    }
}
