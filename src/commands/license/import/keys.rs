//! Which rows of an export have one key. The whole file is read for that before anything is imported, since these rows may
//! be anywhere in it.

use std::collections::HashMap;

use countersign_model::issued_license::Hex128;
use countersign_model::license_key::LicenseId;
use countersign_shops::import::csv_rows::CsvError;
use countersign_shops::import::export_file::ExportFile;

use crate::commands::license::import::reader::{RowReader, RowResult};

/// The rows of one key.
struct KeyRows {
    first: u64,
    /// How many are licenses.
    licenses: usize,
    spelling: Hex128,
    /// A row that has the key in other letters.
    otherwise_spelled: Option<u64>,
    /// A row that cannot be taken.
    refused: Option<u64>,
}

/// The keys of a file.
pub(super) struct Keys(HashMap<LicenseId, KeyRows>);

/// What a license's key says of the other rows.
pub(super) enum KeyVerdict {
    /// No other row has it.
    Alone,
    /// So many rows have it.
    OneOf(usize),
    /// This row has it, but for the case of its letters.
    OtherCase(u64),
    /// This row has it, and cannot be taken.
    OtherRefused(u64),
}

impl Keys {
    /// Reads the file up to its end, or to where it cannot be read further.
    ///
    /// # Errors
    /// Nothing of it can be read.
    pub(super) fn find(file: &ExportFile<'_>, reader: &RowReader<'_>) -> Result<Self, CsvError> {
        let mut keys: HashMap<LicenseId, KeyRows> = HashMap::new();
        let mut refused = Vec::new();
        let mut rows = file.rows()?;
        while let Ok(Some(row)) = rows.next_row() {
            match reader.read(&row.text) {
                RowResult::License(license) => {
                    let rows = keys.entry(license.id).or_insert_with(|| KeyRows {
                        first: row.line,
                        licenses: 0,
                        spelling: license.spelling,
                        otherwise_spelled: None,
                        refused: None,
                    });
                    rows.licenses += 1;
                    if rows.spelling != license.spelling {
                        rows.otherwise_spelled.get_or_insert(row.line);
                    }
                }
                RowResult::Refused { id: Some(id), .. } => refused.push((id, row.line)),
                RowResult::Refused { id: None, .. } | RowResult::Skipped(_) => {}
            }
        }
        for (id, line) in refused {
            if let Some(rows) = keys.get_mut(&id) {
                rows.refused.get_or_insert(line);
            }
        }
        Ok(Self(keys))
    }

    /// What is to be done with a license.
    pub(super) fn verdict(&self, id: &LicenseId, spelling: Hex128) -> KeyVerdict {
        let Some(rows) = self.0.get(id) else {
            return KeyVerdict::Alone;
        };
        match (rows.otherwise_spelled, rows.refused) {
            (Some(other), _) if spelling == rows.spelling => KeyVerdict::OtherCase(other),
            (Some(_), _) => KeyVerdict::OtherCase(rows.first),
            // One without the modules of another would take them away, once that one is mended.
            (None, Some(refused)) => KeyVerdict::OtherRefused(refused),
            (None, None) if rows.licenses == 1 => KeyVerdict::Alone,
            (None, None) => KeyVerdict::OneOf(rows.licenses),
        }
    }
}
