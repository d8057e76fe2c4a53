//! The file of an export: CSV or JSON, with its columns, read as often as it is asked for.

use std::borrow::Cow;
use std::collections::BTreeMap;

use csv::ByteRecord;
use serde_json::value::RawValue;

use countersign_model::foreign_key;
use countersign_model::license_key::LicenseId;

use crate::import::columns::{ColumnError, ExportColumns};
use crate::import::csv_rows::{CsvError, CsvRows};
use crate::import::export_field::ExportField;
use crate::import::exported_license::{self, RowError};
use crate::import::json_rows::{self, JsonError, JsonRecords};
use crate::import::preset::{ExportForm, Preset};

/// Why a file is not read at all.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// It is no CSV file.
    #[error(transparent)]
    Csv(#[from] CsvError),
    /// It is no JSON file.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// Its columns do not make licenses.
    #[error(transparent)]
    Columns(#[from] ColumnError),
}

/// An export in memory.
#[derive(Debug)]
pub struct ExportFile<'t> {
    text: &'t [u8],
    delimiter: u8,
    columns: ExportColumns,
    /// The header of a CSV file.
    header: ByteRecord,
    /// The licenses of a JSON file.
    records: Option<JsonRecords<'t>>,
}

impl<'t> ExportFile<'t> {
    /// Reads the header, or finds the licenses. `given` are columns or members that replace those of the preset.
    ///
    /// # Errors
    /// Nothing of it can be read.
    pub fn read(
        text: &'t [u8],
        preset: &'static Preset,
        delimiter: u8,
        given: &BTreeMap<ExportField, String>,
    ) -> Result<Self, ExportError> {
        match preset.form {
            ExportForm::Csv => {
                let rows = CsvRows::open(text, delimiter)?;
                let header = rows.header().clone();
                Ok(Self {
                    text,
                    delimiter,
                    columns: ExportColumns::find(&header, preset, given)?,
                    header,
                    records: None,
                })
            }
            ExportForm::Json { list } => {
                if text.starts_with(&[0xFF, 0xFE]) || text.starts_with(&[0xFE, 0xFF]) {
                    return Err(CsvError::Utf16.into());
                }
                let records = JsonRecords::find(text, list)?;
                let mut columns = ExportColumns::of_members(preset, given);
                columns.leave_out(records.unused(&columns));
                Ok(Self {
                    text,
                    delimiter,
                    columns,
                    header: ByteRecord::new(),
                    records: Some(records),
                })
            }
        }
    }

    /// The place of each field.
    pub fn columns(&self) -> &ExportColumns {
        &self.columns
    }

    /// The first row of a CSV file; `None` for JSON.
    pub fn header(&self) -> Option<&ByteRecord> {
        self.records.is_none().then_some(&self.header)
    }

    /// All rows from the beginning.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn rows(&self) -> Result<ExportRows<'_, 't>, CsvError> {
        Ok(ExportRows {
            file: self,
            csv: match self.records {
                None => Some(CsvRows::open(self.text, self.delimiter)?),
                Some(_) => None,
            },
            next: 0,
        })
    }
}

/// The rows of an export, one after the other.
pub struct ExportRows<'f, 't> {
    file: &'f ExportFile<'t>,
    csv: Option<CsvRows<&'t [u8]>>,
    next: usize,
}

/// A row as the file has it.
#[derive(Clone, Debug)]
pub enum RowText<'t> {
    /// The cells of a row.
    Cells(ByteRecord),
    /// A value of a JSON file.
    Json(&'t RawValue),
}

/// A row of an export.
#[derive(Clone, Debug)]
pub struct ExportRow<'t> {
    /// The line where it begins, or the number of a license of a JSON file, from 1.
    pub line: u64,
    /// Its text in the file.
    pub text: RowText<'t>,
}

impl<'t> ExportRows<'_, 't> {
    /// The next row; `None` at the end.
    ///
    /// # Errors
    /// The file cannot be read further.
    pub fn next_row(&mut self) -> Result<Option<ExportRow<'t>>, CsvError> {
        if let Some(csv) = &mut self.csv {
            let row = csv.next_row()?;
            return Ok(row.map(|(line, row)| ExportRow {
                line,
                text: RowText::Cells(row.clone()),
            }));
        }
        let record = self.file.records.as_ref().and_then(|records| records.get(self.next));
        self.next += 1;
        Ok(record.map(|record| ExportRow {
            line: self.next as u64,
            text: RowText::Json(record),
        }))
    }
}

impl RowText<'_> {
    /// The cells of the columns.
    ///
    /// # Errors
    /// A member of a license is missing, is there twice, or is neither a text nor a number.
    pub fn cells(&self, columns: &ExportColumns) -> Result<Cow<'_, ByteRecord>, RowError> {
        match self {
            Self::Cells(cells) => Ok(Cow::Borrowed(cells)),
            Self::Json(record) => json_rows::cells(columns, record).map(Cow::Owned),
        }
    }

    /// The id of its key, although it may be no license for another reason; `None` if the key cannot be read.
    pub fn key_id(&self, columns: &ExportColumns) -> Option<LicenseId> {
        match self {
            Self::Cells(cells) => exported_license::key_id(columns, cells),
            Self::Json(record) => foreign_key::any_id(&json_rows::key(columns, record)?).ok(),
        }
    }

    /// The members of a license of a JSON file, as the file has them; `None` if it has none.
    pub fn members(&self) -> Option<Vec<(String, &RawValue)>> {
        match self {
            Self::Cells(_) => None,
            Self::Json(record) => json_rows::members(record),
        }
    }
}
