//! The file of rows that were not taken: as they were, with the line and the reason in two more columns.
//!
//! `license import` ignores these columns, so the file can be mended and imported.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use csv::{ByteRecord, Writer, WriterBuilder};

use crate::commands::Failure;
use countersign_files::durable_file::{Access, PendingFile};
use countersign_shops::import::columns::REJECT_PREFIX;

/// The file cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be written", path.display())]
struct RejectsError {
    path: PathBuf,
    source: io::Error,
}

/// The file while it is written. Only its owner may read it: it has keys.
pub(super) struct Rejects {
    path: PathBuf,
    pending: PendingFile,
    writer: Writer<BufWriter<File>>,
    columns: usize,
}

impl Rejects {
    /// Begins a file with the export's columns. It replaces `path` once it is complete.
    pub(super) fn begin(path: &Path, header: &ByteRecord, delimiter: u8) -> Result<Self, Failure> {
        let failed = |source| {
            Failure::environment(RejectsError {
                path: path.to_owned(),
                source,
            })
        };
        let pending = PendingFile::begin(path, Access::Owner).map_err(failed)?;
        let file = pending.file().try_clone().map_err(failed)?;
        // A row may have too few cells: that is a reason to be here.
        let writer = WriterBuilder::new()
            .flexible(true)
            .delimiter(delimiter)
            .from_writer(BufWriter::new(file));
        let mut rejects = Self {
            path: path.to_owned(),
            pending,
            writer,
            columns: header.len(),
        };
        let is_ours = |cell: &&[u8]| cell.starts_with(REJECT_PREFIX.as_bytes());
        let mut cells: Vec<Vec<u8>> = header
            .iter()
            .filter(|cell| !is_ours(cell))
            .map(<[u8]>::to_vec)
            .collect();
        cells.extend(["line", "reason"].map(|name| format!("{REJECT_PREFIX}{name}").into_bytes()));
        rejects.columns = cells.len() - 2;
        rejects.write(&cells)?;
        Ok(rejects)
    }

    /// Adds a row.
    pub(super) fn add(&mut self, row: &ByteRecord, line: u64, reason: &str) -> Result<(), Failure> {
        let mut cells: Vec<Vec<u8>> = row.iter().take(self.columns).map(<[u8]>::to_vec).collect();
        cells.resize(self.columns, Vec::new());
        cells.extend([line.to_string().into_bytes(), reason.as_bytes().to_vec()]);
        self.write(&cells)
    }

    fn write(&mut self, cells: &[Vec<u8>]) -> Result<(), Failure> {
        let written = self.writer.write_record(cells);
        written.map_err(|error| self.failed(io::Error::other(error)))
    }

    fn failed(&self, source: io::Error) -> Failure {
        let path = self.path.clone();
        Failure::environment(RejectsError { path, source })
    }

    /// Puts the file in its place.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        if let Err(error) = self.writer.flush() {
            return Err(self.failed(error));
        }
        let Self {
            path, pending, writer, ..
        } = self;
        drop(writer);
        pending
            .put()
            .map_err(|source| Failure::environment(RejectsError { path, source }))
    }
}
