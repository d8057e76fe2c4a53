//! The file of rows that were not taken: as they were, with the line and the reason in two more columns, or members.
//!
//! `license import` ignores these, so the file can be mended and imported.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use csv::{ByteRecord, Writer, WriterBuilder};

use crate::commands::Failure;
use countersign_files::durable_file::{Access, PendingFile};
use countersign_shops::import::columns::REJECT_PREFIX;
use countersign_shops::import::export_file::RowText;

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
    writer: RejectWriter,
}

enum RejectWriter {
    /// Rows with this many columns before those of the line and the reason.
    Csv {
        writer: Box<Writer<BufWriter<File>>>,
        columns: usize,
    },
    /// An object a line.
    Json(BufWriter<File>),
}

impl Rejects {
    /// Begins a file with the export's columns; without a header it is one of JSON. It replaces `path` once it is complete.
    pub(super) fn begin(path: &Path, header: Option<&ByteRecord>, delimiter: u8) -> Result<Self, Failure> {
        let failed = |source| {
            Failure::environment(RejectsError {
                path: path.to_owned(),
                source,
            })
        };
        let pending = PendingFile::begin(path, Access::Owner).map_err(failed)?;
        let file = BufWriter::new(pending.file().try_clone().map_err(failed)?);
        let writer = match header {
            None => RejectWriter::Json(file),
            Some(header) => {
                let is_ours = |cell: &&[u8]| cell.starts_with(REJECT_PREFIX.as_bytes());
                let mut cells: Vec<Vec<u8>> = header
                    .iter()
                    .filter(|cell| !is_ours(cell))
                    .map(<[u8]>::to_vec)
                    .collect();
                let columns = cells.len();
                cells.extend(["line", "reason"].map(|name| format!("{REJECT_PREFIX}{name}").into_bytes()));
                // A row may have too few cells: that is a reason to be here.
                let mut writer = WriterBuilder::new()
                    .flexible(true)
                    .delimiter(delimiter)
                    .from_writer(file);
                let written = writer.write_record(&cells);
                written.map_err(|error| failed(io::Error::other(error)))?;
                RejectWriter::Csv {
                    writer: Box::new(writer),
                    columns,
                }
            }
        };
        Ok(Self {
            path: path.to_owned(),
            pending,
            writer,
        })
    }

    /// Adds a row.
    pub(super) fn add(&mut self, row: &RowText<'_>, line: u64, reason: &str) -> Result<(), Failure> {
        let written = match (&mut self.writer, row) {
            (RejectWriter::Csv { writer, columns }, RowText::Cells(row)) => {
                let mut cells: Vec<&[u8]> = row.iter().take(*columns).collect();
                cells.resize(*columns, &[]);
                let line = line.to_string();
                cells.extend([line.as_bytes(), reason.as_bytes()]);
                writer.write_record(cells).map_err(io::Error::other)
            }
            (RejectWriter::Json(writer), RowText::Json(value)) => {
                let members = row.members().unwrap_or_else(|| vec![("value".to_owned(), *value)]);
                let kept = members.iter().filter(|(name, _)| !name.starts_with(REJECT_PREFIX));
                let mut text = format!(
                    "{{\"{REJECT_PREFIX}line\":{line},\"{REJECT_PREFIX}reason\":{}",
                    serde_json::Value::from(reason)
                );
                for (name, value) in kept {
                    text += &format!(",{}:{}", serde_json::Value::from(&**name), value.get());
                }
                text += "}\n";
                writer.write_all(text.as_bytes())
            }
            _ => Err(io::Error::other("a row of another form")),
        };
        written.map_err(|error| self.failed(error))
    }

    fn failed(&self, source: io::Error) -> Failure {
        let path = self.path.clone();
        Failure::environment(RejectsError { path, source })
    }

    /// Puts the file in its place.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        let flushed = match &mut self.writer {
            RejectWriter::Csv { writer, .. } => writer.flush(),
            RejectWriter::Json(writer) => writer.flush(),
        };
        flushed.map_err(|error| self.failed(error))?;
        let Self {
            path, pending, writer, ..
        } = self;
        drop(writer);
        pending
            .put()
            .map_err(|source| Failure::environment(RejectsError { path, source }))
    }
}
