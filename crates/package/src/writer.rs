//! Writes normal form 1 of a package: the same files, folder and time give the same bytes on every machine.
//!
//! Names are sorted by their bytes, below one folder. Each file is deflated by one encoder, or STORED if that is not
//! larger. All entries have the same time (UTC) and mode 0644. There is no zip64, data descriptor, extra field,
//! comment or entry of a folder. The [`mark`], if any, is last. Other bytes need another number of the form:
//! `tests/vectors/package` checks them.

use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::collision::{self, Collision};
use super::deflate::{CopyError, Deflater};
use super::entry_name::{EntryName, FolderName, NameError};
use super::format::{CENTRAL_CRC_AT, DosTime, LOCAL_CRC_AT, LOCAL_LENGTH, Record, end_record, method};
use super::mark::{self, Places};
use super::{MAX_ENTRIES, MAX_PACKED, MAX_RATIO, MAX_UNPACKED};

/// The number of the normal form.
pub const FORM: u32 = 1;

/// A written package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Package {
    /// Size in bytes.
    pub size: u64,
    /// The number of entries, with the mark.
    pub entries: usize,
    /// The total size of the files in bytes.
    pub unpacked: u64,
    /// The positions of the mark, if it has one.
    pub mark: Option<Places>,
}

/// Why a package was not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The name of a file is refused.
    #[error("{name}: {reason}", name = countersign_model::text::printable::Printable(.name))]
    Name {
        /// Its name.
        name: String,
        /// Why.
        reason: NameError,
    },
    /// Two names collide.
    #[error("{name}: {collision}", name = countersign_model::text::printable::Printable(.name))]
    Collision {
        /// One of their names.
        name: String,
        /// How they collide.
        collision: Collision,
    },
    /// The files are not sorted by name.
    #[error("{name}: comes behind a file whose name is greater")]
    Order {
        /// The name.
        name: String,
    },
    /// A file cannot be read.
    #[error("{name}: cannot be read", name = countersign_model::text::printable::Printable(.name))]
    Read {
        /// Its name.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// A file has another length than announced.
    #[error("{name}: changed its size while it was packed", name = countersign_model::text::printable::Printable(.name))]
    Size {
        /// Its name.
        name: String,
    },
    /// The package cannot be written.
    #[error("the package cannot be written")]
    Write(#[source] io::Error),
    /// Too many entries without zip64.
    #[error("the package has more than 65,535 files")]
    TooManyEntries,
    /// Too large for a download.
    #[error("the package is larger than 512 MiB")]
    TooLarge,
    /// Too large for a site.
    #[error("the files of the package are larger than 2 GiB")]
    TooLargeUnpacked,
    /// The compression ratio is so high that programs may take it for an attack.
    #[error("the files of the package are more than 200 times larger than the package")]
    Ratio,
}

/// Writes files one after the other. It holds their names in memory, but no content.
pub struct PackageWriter<'a, W: Write + Seek> {
    out: BufWriter<W>,
    folder: &'a FolderName,
    time: DosTime,
    deflater: Deflater,
    records: Vec<Record>,
    position: u64,
    unpacked: u64,
}

impl<'a, W: Write + Seek> PackageWriter<'a, W> {
    /// A writer to an empty output. Every file is below `folder` and has this `time`.
    pub fn new(out: W, folder: &'a FolderName, time: DateTime<Utc>) -> Self {
        Self {
            out: BufWriter::with_capacity(1 << 16, out),
            folder,
            time: time.into(),
            deflater: Deflater::new(),
            records: Vec::new(),
            position: 0,
            unpacked: 0,
        }
    }

    /// Adds a file of `size` bytes. `name` is the part after the folder, and must be greater than the last one.
    ///
    /// `open` returns a reader of its content. It is called again if deflate does not make the file smaller, so that
    /// the file is STORED.
    ///
    /// # Errors
    ///
    /// The name is refused or out of order, the file cannot be read, or the package becomes too large. Then the
    /// output is invalid.
    pub fn add<R: Read>(
        &mut self,
        name: &str,
        size: u64,
        mut open: impl FnMut() -> io::Result<R>,
    ) -> Result<(), WriteError> {
        let name = self.checked_name(name)?;
        if self.records.last().is_some_and(|last| *last.name > *name) {
            return Err(WriteError::Order { name });
        }
        let failed = |error: CopyError, name: &str| match error {
            CopyError::Read(source) => WriteError::Read {
                name: name.to_owned(),
                source,
            },
            CopyError::Write(source) => WriteError::Write(source),
            CopyError::Size => WriteError::Size { name: name.to_owned() },
        };
        let cannot_open = |source| WriteError::Read {
            name: name.clone(),
            source,
        };
        let mut record = self.begin(name.clone(), size)?;
        let reader = open().map_err(cannot_open)?;
        let deflated = self
            .deflater
            .deflate(reader, size, &mut self.out)
            .map_err(|error| failed(error, &record.name))?;
        let written = match deflated {
            Some(written) => written,
            None => {
                record.method = method::STORED;
                let data_at = self.position + (LOCAL_LENGTH + record.name.len()) as u64;
                self.out.seek(SeekFrom::Start(data_at)).map_err(WriteError::Write)?;
                let reader = open().map_err(cannot_open)?;
                self.deflater
                    .store(reader, size, &mut self.out)
                    .map_err(|error| failed(error, &record.name))?
            }
        };
        record.crc = written.crc;
        self.end(record, written.packed)
    }

    /// Adds the mark if `marked`, and writes the directory.
    ///
    /// # Errors
    ///
    /// Names collide, the package is too large, or its compression ratio is too high.
    pub fn finish(mut self, marked: bool) -> Result<Package, WriteError> {
        let mark_header_at = marked.then_some(self.position);
        if marked {
            self.add_mark()?;
        }
        self.check_names()?;
        let directory_at = self.position;
        let mut mark_central_at = 0;
        for record in &self.records {
            mark_central_at = self.position;
            let header = record.central_header(self.time);
            self.out.write_all(&header).map_err(WriteError::Write)?;
            self.position += header.len() as u64;
        }
        let size = self.position - directory_at;
        let entries = u16::try_from(self.records.len()).map_err(|_| WriteError::TooManyEntries)?;
        // The limit is below 4 GiB.
        let end = end_record(entries, fits(size)?, fits(directory_at)?);
        self.out
            .write_all(&end)
            .and_then(|()| self.out.flush())
            .map_err(WriteError::Write)?;
        let size = self.position + end.len() as u64;
        if size > MAX_PACKED {
            return Err(WriteError::TooLarge);
        }
        if self.unpacked > MAX_RATIO * size {
            return Err(WriteError::Ratio);
        }
        let places = |header_at| {
            let name_length = (self.folder.as_str().len() + 1 + mark::FILE.len()) as u64;
            Places {
                local_crc: header_at + LOCAL_CRC_AT,
                id: header_at + LOCAL_LENGTH as u64 + name_length + mark::ID_AT,
                central_crc: mark_central_at + CENTRAL_CRC_AT,
            }
        };
        let mark = mark_header_at.map(places);
        Ok(Package {
            size,
            entries: self.records.len(),
            unpacked: self.unpacked,
            mark,
        })
    }

    /// The mark is STORED, so that an id can be inserted without moving anything else.
    fn add_mark(&mut self) -> Result<(), WriteError> {
        let content = mark::content(Uuid::nil());
        let name = self.checked_name(mark::FILE)?;
        let mut record = self.begin(name, content.len() as u64)?;
        record.method = method::STORED;
        record.crc = mark::crc(Uuid::nil());
        self.out.write_all(content.as_bytes()).map_err(WriteError::Write)?;
        self.end(record, content.len() as u64)
    }

    fn checked_name(&self, name: &str) -> Result<String, WriteError> {
        let name = format!("{}/{name}", self.folder);
        match name.parse::<EntryName>() {
            Ok(_) => Ok(name),
            Err(reason) => Err(WriteError::Name { name, reason }),
        }
    }

    /// Leaves space for the header of a file.
    fn begin(&mut self, name: String, size: u64) -> Result<Record, WriteError> {
        if self.records.len() == MAX_ENTRIES {
            return Err(WriteError::TooManyEntries);
        }
        self.unpacked = self.unpacked.saturating_add(size);
        if self.unpacked > MAX_UNPACKED {
            return Err(WriteError::TooLargeUnpacked);
        }
        let header_at = fits(self.position)?;
        let record = Record {
            name,
            method: method::DEFLATE,
            crc: 0,
            packed: 0,
            size: fits(size)?,
            header_at,
        };
        self.out
            .write_all(&record.local_header(self.time))
            .map_err(WriteError::Write)?;
        Ok(record)
    }

    /// Writes the header of a file whose data are already written.
    fn end(&mut self, mut record: Record, packed: u64) -> Result<(), WriteError> {
        record.packed = fits(packed)?;
        let header = record.local_header(self.time);
        let end = self.position + header.len() as u64 + packed;
        let rewrite = |out: &mut BufWriter<W>| {
            out.seek(SeekFrom::Start(self.position))?;
            out.write_all(&header)?;
            out.seek(SeekFrom::Start(end))
        };
        rewrite(&mut self.out).map_err(WriteError::Write)?;
        self.position = end;
        self.records.push(record);
        if end > MAX_PACKED {
            Err(WriteError::TooLarge)
        } else {
            Ok(())
        }
    }

    fn check_names(&self) -> Result<(), WriteError> {
        let names = self.records.iter().map(|record| (&*record.name, false));
        let found = collision::find(names).map(|(name, collision)| (name.to_owned(), collision));
        found.map_or(Ok(()), |(name, collision)| {
            Err(WriteError::Collision { name, collision })
        })
    }
}

/// A size or offset for a header.
fn fits(number: u64) -> Result<u32, WriteError> {
    u32::try_from(number).map_err(|_| WriteError::TooLarge)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;
    use crate::archive::Archive;

    fn time() -> DateTime<Utc> {
        "2026-11-23T15:04:19Z".parse().unwrap()
    }

    fn folder() -> FolderName {
        "acme".parse().unwrap()
    }

    fn written(files: &[(String, Vec<u8>)], marked: bool) -> Result<(Package, Vec<u8>), WriteError> {
        let mut out = Cursor::new(Vec::new());
        let folder = folder();
        let mut writer = PackageWriter::new(&mut out, &folder, time());
        for (name, content) in files {
            writer.add(name, content.len() as u64, || Ok(&content[..]))?;
        }
        let package = writer.finish(marked)?;
        Ok((package, out.into_inner()))
    }

    fn refusal(files: &[(&str, &[u8])]) -> String {
        let files: Vec<_> = files
            .iter()
            .map(|(name, content)| ((*name).to_owned(), content.to_vec()))
            .collect();
        written(&files, true).unwrap_err().to_string()
    }

    #[test]
    fn headers_are_those_of_the_form() {
        let files = [
            ("a.php".to_owned(), b"<?php ".repeat(20)),
            ("é.bin".to_owned(), vec![7]),
        ];
        let (package, bytes) = written(&files, true).unwrap();
        let archive = Archive::check(&bytes[..]).unwrap();
        assert_eq!((package.size, package.entries), (bytes.len() as u64, 3));
        assert_eq!(package.unpacked, archive.unpacked());
        for (entry, method, flags) in archive
            .entries()
            .iter()
            .zip([8_u16, 0, 0])
            .zip([0_u16, 0, 0x800])
            .map(|((a, b), c)| (a, b, c))
        {
            let central = &bytes[entry.central_at as usize..];
            let needed: &[u8] = if method == 8 { &[20, 0] } else { &[10, 0] };
            assert_eq!(
                (&central[4..6], &central[6..8]),
                (&[20_u8, 3][..], needed),
                "{}",
                entry.name
            );
            assert_eq!(
                (&central[8..10], &central[10..12]),
                (&flags.to_le_bytes()[..], &method.to_le_bytes()[..])
            );
            // 15:04:18 on 2026-11-23.
            let time = 15_u16 << 11 | 4 << 5 | 9;
            let date = 46_u16 << 9 | 11 << 5 | 23;
            assert_eq!(central[12..16], [time.to_le_bytes(), date.to_le_bytes()].concat());
            // No extra field, comment, disk or internal attribute; mode 0100644.
            assert_eq!(central[30..38], [0; 8]);
            assert_eq!(central[38..42], (0o100_644_u32 << 16).to_le_bytes());
        }
    }

    #[test]
    fn names_are_checked_like_those_of_an_archive_from_outside() {
        assert_eq!(
            refusal(&[("../a", b"")]),
            "acme/../a: its name has the component \".\" or \"..\""
        );
        assert_eq!(refusal(&[("a\\b", b"")]), "acme/a\\b: its name has a backslash");
        assert_eq!(refusal(&[("", b"")]), "acme/: its name has an empty component");
        assert_eq!(
            refusal(&[("b", b""), ("a", b"")]),
            "acme/a: comes behind a file whose name is greater"
        );
        assert_eq!(refusal(&[("a", b""), ("a", b"")]), "acme/a: is there twice");
        assert_eq!(
            refusal(&[("A", b""), ("a", b"")]),
            "acme/A: differs from acme/a by case only"
        );
        assert_eq!(
            refusal(&[("a", b""), ("a/b", b"")]),
            "acme/a: is a folder in the name of acme/a/b"
        );
        assert_eq!(refusal(&[("build-id.php", b"")]), "acme/build-id.php: is there twice");
        assert_eq!(
            refusal(&[("Build-ID.php", b"")]),
            "acme/Build-ID.php: differs from acme/build-id.php by case only"
        );
    }

    #[test]
    fn what_the_reader_takes_for_an_attack_is_not_written() {
        let zeros = vec![0; 4 << 20];
        assert!(matches!(written(&[("a".into(), zeros)], false), Err(WriteError::Ratio)));
        let folder = folder();
        let mut writer = PackageWriter::new(io::empty(), &folder, time());
        let huge = writer.add("a", MAX_UNPACKED + 1, || Ok(io::empty()));
        assert!(matches!(huge, Err(WriteError::TooLargeUnpacked)));
    }

    #[test]
    fn a_package_has_as_many_entries_as_fit_the_mark_among_them() {
        let files = |count: usize| {
            (0..count)
                .map(|number| (format!("{number:05}"), Vec::new()))
                .collect::<Vec<_>>()
        };
        let (package, bytes) = written(&files(MAX_ENTRIES - 1), true).unwrap();
        assert_eq!(package.entries, MAX_ENTRIES);
        assert_eq!(Archive::check(&bytes[..]).unwrap().entries().len(), MAX_ENTRIES);
        assert!(matches!(
            written(&files(MAX_ENTRIES), true),
            Err(WriteError::TooManyEntries)
        ));
    }

    #[test]
    fn a_file_that_cannot_be_read_or_grows_is_named() {
        let folder = folder();
        let failing = || -> io::Result<&[u8]> { Err(io::ErrorKind::PermissionDenied.into()) };
        let mut writer = PackageWriter::new(Cursor::new(Vec::new()), &folder, time());
        assert_eq!(
            writer.add("a", 3, failing).unwrap_err().to_string(),
            "acme/a: cannot be read"
        );
        let mut writer = PackageWriter::new(Cursor::new(Vec::new()), &folder, time());
        let grown = writer.add("a", 3, || Ok(&b"abcd"[..])).unwrap_err();
        assert_eq!(grown.to_string(), "acme/a: changed its size while it was packed");
    }

    fn some_files() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
        let content = prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..200),
            (any::<u8>(), 0..40_000_usize).prop_map(|(seed, length)| {
                (0..length)
                    .map(|at| (at as u8).wrapping_mul(seed) ^ (at >> 7) as u8)
                    .collect()
            }),
        ];
        proptest::collection::btree_map("[a-z]{1,3}(/[a-z]{1,3}){0,2}\\.(php|js)", content, 0..9)
            .prop_map(|files| files.into_iter().collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_is_written_is_read_back(files in some_files(), marked: bool) {
            let outcome = written(&files, marked);
            // Generated contents may compress too well; names like `a.js/b.php` beside `a.js` may collide, and
            // `aux.js` is a device.
            prop_assume!(!matches!(
                outcome,
                Err(WriteError::Ratio | WriteError::Collision { .. } | WriteError::Name { .. })
            ));
            let (package, bytes) = outcome.unwrap();
            prop_assert_eq!(&written(&files, marked).unwrap().1, &bytes, "the same bytes again");
            let archive = Archive::check(&bytes[..]);
            prop_assert!(archive.is_ok(), "{}", archive.unwrap_err());
            let archive = archive.unwrap();
            prop_assert_eq!(Places::of(&archive, &folder()).unwrap(), package.mark);
            let read: Vec<_> = archive
                .files()
                .filter(|file| file.name.as_str() != "acme/build-id.php")
                .map(|file| (file.name.below(&folder()).unwrap().to_owned(), archive.read(file).unwrap()))
                .collect();
            prop_assert_eq!(read, files);
        }
    }
}
