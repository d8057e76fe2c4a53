//! The columns of an export: which header, or which member of its JSON, is which field.

use std::collections::BTreeMap;

use csv::ByteRecord;
use strum::IntoEnumIterator as _;

use crate::import::export_field::ExportField;
use crate::import::preset::{Preset, ReportedMember};

/// Why the columns of a file do not make licenses. A header is not quoted: a file without one begins with a key.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ColumnError {
    /// Columns that every license needs are missing.
    #[error("the first line has no column for {}", .0.join(", "))]
    Missing(Vec<String>),
    /// A column that `--column` names is not there.
    #[error("the first line has no column {header:?}, which --column names for {field}")]
    NotThere {
        /// The field.
        field: &'static str,
        /// The header that was given.
        header: String,
    },
    /// Two columns are one field.
    #[error("the first line has two columns for {0}")]
    Twice(&'static str),
}

/// The place of each field in a row.
#[derive(Debug)]
pub struct ExportColumns {
    preset: &'static Preset,
    places: BTreeMap<ExportField, usize>,
    names: BTreeMap<ExportField, String>,
    reported: Vec<(usize, &'static ReportedMember)>,
    unused: Vec<String>,
    count: usize,
}

impl ExportColumns {
    /// Finds the columns in the header of a CSV file. `given` are headers that replace those of the preset.
    ///
    /// # Errors
    /// A column is missing, or is there twice.
    pub fn find(
        header: &ByteRecord,
        preset: &'static Preset,
        given: &BTreeMap<ExportField, String>,
    ) -> Result<Self, ColumnError> {
        let headers: Vec<String> = header
            .iter()
            .map(|cell| String::from_utf8_lossy(cell).trim().to_owned())
            .collect();
        let plain = |text: &str| text.trim().to_lowercase();
        let mut places = BTreeMap::new();
        let mut names = BTreeMap::new();
        for field in ExportField::iter() {
            let is_it = |header: &String| match given.get(&field) {
                Some(wanted) => plain(header) == plain(wanted),
                None => preset.headers(field).contains(&plain(header).as_str()),
            };
            let mut found = headers.iter().enumerate().filter(|(_, header)| is_it(header));
            match (found.next(), found.next()) {
                (Some(_), Some(_)) => return Err(ColumnError::Twice(field.name())),
                (Some((place, header)), None) => {
                    places.insert(field, place);
                    names.insert(field, header.clone());
                }
                (None, _) => {
                    if let Some(header) = given.get(&field) {
                        return Err(ColumnError::NotThere {
                            field: field.name(),
                            header: header.clone(),
                        });
                    }
                }
            }
        }
        let is_there = |one_of: &&&[ExportField]| one_of.iter().any(|field| places.contains_key(field));
        let missing: Vec<_> = preset.required.iter().filter(|one_of| !is_there(one_of)).collect();
        if !missing.is_empty() {
            return Err(ColumnError::Missing(
                missing.iter().map(|one_of| shown(one_of[0], preset)).collect(),
            ));
        }
        let place_of = |header: &str| headers.iter().position(|found| plain(found) == header);
        let reported: Vec<_> = preset
            .reported
            .iter()
            .filter_map(|member| Some((place_of(member.header)?, member)))
            .collect();
        let unused = headers.iter().enumerate().filter(|(place, header)| {
            let is_used = places
                .values()
                .chain(reported.iter().map(|(place, _)| place))
                .any(|used| used == place);
            !is_used && !header.is_empty() && !header.starts_with(REJECT_PREFIX)
        });
        Ok(Self {
            preset,
            unused: unused.map(|(_, header)| header.clone()).collect(),
            places,
            names,
            reported,
            count: headers.len(),
        })
    }

    /// The columns of a JSON file, which has none: a row has a cell for each field, and then one for each member that is reported.
    pub(super) fn of_members(preset: &'static Preset, given: &BTreeMap<ExportField, String>) -> Self {
        let name = |field: ExportField| {
            let of_preset = || preset.headers(field).first().map(|path| (*path).to_owned());
            given.get(&field).cloned().or_else(of_preset)
        };
        let names: BTreeMap<_, _> = ExportField::iter()
            .filter_map(|field| Some((field, name(field)?)))
            .collect();
        let places: BTreeMap<_, _> = names.keys().enumerate().map(|(place, field)| (*field, place)).collect();
        let first = places.len();
        let reported = preset.reported.iter().enumerate();
        Self {
            preset,
            reported: reported.map(|(number, member)| (first + number, member)).collect(),
            count: first + preset.reported.len(),
            places,
            names,
            unused: Vec::new(),
        }
    }

    /// Says which members of a JSON file say nothing of a license here.
    pub(super) fn leave_out(&mut self, unused: Vec<String>) {
        self.unused = unused;
    }

    /// Where the export comes from.
    pub fn preset(&self) -> &'static Preset {
        self.preset
    }

    /// How many columns a row has.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The headers of columns that say nothing of a license here.
    pub fn unused(&self) -> &[String] {
        &self.unused
    }

    /// Whether there is a column for this field.
    pub fn has(&self, field: ExportField) -> bool {
        self.places.contains_key(&field)
    }

    /// The fields, in the order of their names.
    pub(super) fn fields(&self) -> impl Iterator<Item = (ExportField, &str)> {
        self.names.iter().map(|(field, name)| (*field, &**name))
    }

    /// The bytes of a field; empty where there is no such column.
    pub fn cell<'r>(&self, row: &'r ByteRecord, field: ExportField) -> &'r [u8] {
        self.places
            .get(&field)
            .and_then(|place| row.get(*place))
            .unwrap_or_default()
    }

    /// The columns that are reported if they have a value, and their cells.
    pub(super) fn reported<'r>(
        &self,
        row: &'r ByteRecord,
    ) -> impl Iterator<Item = (&'static ReportedMember, &'r [u8])> {
        let cell = |(place, member): &(usize, &'static ReportedMember)| (*member, row.get(*place).unwrap_or_default());
        self.reported.iter().map(cell)
    }

    /// The header of a field, as the file has it.
    pub fn header(&self, field: ExportField) -> &str {
        self.names.get(&field).map_or(field.name(), |name| name)
    }
}

/// The name of a field, and its header in an export of this system if that differs.
fn shown(field: ExportField, preset: &Preset) -> String {
    let name = field.name();
    match preset.headers(field).first() {
        Some(header) if *header != name => format!("{name} (\"{header}\")"),
        _ => name.to_owned(),
    }
}

/// How the columns begin that a file of rejects has in addition.
pub const REJECT_PREFIX: &str = "rejected_";
