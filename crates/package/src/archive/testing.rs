//! Archives made by hand for tests: valid ones, which a test then damages.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests alone use it, of this crate and of others"
)]

use std::io::Write as _;

use crate::format::{CENTRAL_LENGTH, Record, end_record, method};

/// An entry. Tests change its bytes; [`zip`] sets its position.
#[derive(Clone)]
pub struct Made {
    /// Local header and name.
    pub local: Vec<u8>,
    pub data: Vec<u8>,
    /// What follows the data.
    pub descriptor: Vec<u8>,
    /// Central header and name.
    pub central: Vec<u8>,
}

impl Made {
    pub fn stored(name: &str, content: &[u8]) -> Self {
        Self::new(name, content, content.to_vec(), method::STORED)
    }

    pub fn deflated(name: &str, content: &[u8]) -> Self {
        Self::new(name, content, deflate(content), method::DEFLATE)
    }

    fn new(name: &str, content: &[u8], data: Vec<u8>, method: u16) -> Self {
        let record = Record {
            name: name.to_owned(),
            method,
            crc: crc32fast::hash(content),
            packed: data.len() as u32,
            size: content.len() as u32,
            header_at: 0,
        };
        let time = chrono::DateTime::UNIX_EPOCH.into();
        let central = record.central_header(time);
        let made = Self {
            local: record.local_header(time),
            data,
            descriptor: Vec::new(),
            central,
        };
        if name.ends_with('/') {
            made.attributes(0o040_755 << 16 | 0x10)
        } else {
            made
        }
    }

    /// Sets a number in both headers, at its offset from the flags: flags 0, method 2, crc 8, packed 12, size 16.
    pub fn both16(mut self, at: usize, number: u16) -> Self {
        put(&mut self.local, 6 + at, &number.to_le_bytes());
        put(&mut self.central, 8 + at, &number.to_le_bytes());
        self
    }

    pub fn both32(mut self, at: usize, number: u32) -> Self {
        put(&mut self.local, 6 + at, &number.to_le_bytes());
        put(&mut self.central, 8 + at, &number.to_le_bytes());
        self
    }

    pub fn attributes(mut self, attributes: u32) -> Self {
        put(&mut self.central, 38, &attributes.to_le_bytes());
        self
    }

    /// Sets another name of the same length in both headers.
    pub fn raw_name(mut self, name: &[u8]) -> Self {
        put(&mut self.local, 30, name);
        put(&mut self.central, CENTRAL_LENGTH, name);
        self
    }

    pub fn local_extra(mut self, extra: &[u8]) -> Self {
        put(&mut self.local, 28, &(extra.len() as u16).to_le_bytes());
        self.local.extend(extra);
        self
    }

    pub fn central_extra(mut self, extra: &[u8]) -> Self {
        put(&mut self.central, 30, &(extra.len() as u16).to_le_bytes());
        self.central.extend(extra);
        self
    }

    /// Moves sizes and CRC after the data, and sets zeros in the local header.
    pub fn with_descriptor(mut self, has_signature: bool, is_long: bool) -> Self {
        let known = self.local[14..26].to_vec();
        let crc = &known[..4];
        let packed = &known[4..8];
        let size = &known[8..];
        let long = if is_long { &[0; 4][..] } else { &[] };
        let signature = if has_signature { &b"PK\x07\x08"[..] } else { &[] };
        self.descriptor = [signature, crc, packed, long, size, long].concat();
        put(&mut self.local, 14, &[0; 12]);
        let flags = u16::from_le_bytes([self.local[6], self.local[7]]) | 8;
        self.both16(0, flags)
    }
}

pub fn put(bytes: &mut [u8], at: usize, new: &[u8]) {
    bytes[at..at + new.len()].copy_from_slice(new);
}

pub fn deflate(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::new(9));
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// An extra field.
pub fn field(id: u16, data: &[u8]) -> Vec<u8> {
    [&id.to_le_bytes()[..], &(data.len() as u16).to_le_bytes(), data].concat()
}

/// The parts of an archive: local headers with data, and the directory.
pub fn parts(entries: &[Made], start: usize) -> (Vec<u8>, Vec<u8>) {
    let mut file = Vec::new();
    let mut directory = Vec::new();
    for entry in entries {
        let mut central = entry.central.clone();
        let at = (start + file.len()) as u32;
        // Keeps what a test has set.
        if central[42..46] == [0; 4] {
            put(&mut central, 42, &at.to_le_bytes());
        }
        directory.extend(central);
        file.extend([&entry.local[..], &entry.data, &entry.descriptor].concat());
    }
    (file, directory)
}

/// A whole archive.
pub fn zip(entries: &[Made]) -> Vec<u8> {
    let (file, directory) = parts(entries, 0);
    let end = end_record(entries.len() as u16, directory.len() as u32, file.len() as u32);
    [file, directory, end].concat()
}

/// A whole archive of these files.
pub fn zip_of(files: &[(&str, &[u8])]) -> Vec<u8> {
    let entries: Vec<_> = files
        .iter()
        .map(|(name, content)| Made::deflated(name, content))
        .collect();
    zip(&entries)
}
