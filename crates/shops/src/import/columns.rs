//! The columns of an export: which header stands for which field, in each format and its versions.

use std::collections::BTreeMap;
use std::fmt;

use csv::ByteRecord;
use strum::{EnumIter, IntoEnumIterator as _};

/// Where an export comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// "Export License Keys" of EDD Software Licensing: the nine columns of 3.0 to 3.5, or the fourteen since 3.6.
    Edd,
    /// A plain CSV with the fields' names as columns.
    Csv,
}

/// What a column may say of a license.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumIter)]
pub enum ExportField {
    /// The license key.
    Key,
    /// Its status.
    Status,
    /// The last day, or the second after which it is over.
    Expires,
    /// How many sites.
    Sites,
    /// The sites that use it.
    Hosts,
    /// What the shop calls it.
    Reference,
    /// When it was bought.
    Created,
    /// Modules and features.
    Modules,
    /// The product's name.
    Product,
    /// The product's number.
    ProductId,
}

impl ExportField {
    /// The field's name, as `--column` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Status => "status",
            Self::Expires => "expires",
            Self::Sites => "sites",
            Self::Hosts => "hosts",
            Self::Reference => "reference",
            Self::Created => "created",
            Self::Modules => "modules",
            Self::Product => "product",
            Self::ProductId => "product_id",
        }
    }

    /// The field with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::iter().find(|field| field.name() == name)
    }

    /// The name of the field, and its header in this format if that differs.
    fn shown(self, format: ExportFormat) -> String {
        let name = self.name();
        match self.headers(format).first() {
            Some(header) if *header != name => format!("{name} (\"{header}\")"),
            _ => name.to_owned(),
        }
    }

    /// The headers that stand for it, in lower case.
    fn headers(self, format: ExportFormat) -> &'static [&'static str] {
        match (format, self) {
            (ExportFormat::Edd, Self::Key) => &["license key"],
            (ExportFormat::Edd, Self::Status) => &["license status"],
            (ExportFormat::Edd, Self::Expires) => &["expiration date"],
            (ExportFormat::Edd, Self::Sites) => &["activation limit"],
            (ExportFormat::Edd, Self::Hosts) => &["activated urls"],
            (ExportFormat::Edd, Self::Reference) => &["license id"],
            (ExportFormat::Edd, Self::Created) => &["purchase date"],
            (ExportFormat::Edd, Self::Modules) => &[],
            (ExportFormat::Edd, Self::Product) => &["product name"],
            (ExportFormat::Edd, Self::ProductId) => &["product id", "download id"],
            (ExportFormat::Csv, Self::Modules) => &["modules", "module"],
            (ExportFormat::Csv, Self::Key) => &["key"],
            (ExportFormat::Csv, Self::Status) => &["status"],
            (ExportFormat::Csv, Self::Expires) => &["expires"],
            (ExportFormat::Csv, Self::Sites) => &["sites"],
            (ExportFormat::Csv, Self::Hosts) => &["hosts"],
            (ExportFormat::Csv, Self::Reference) => &["reference"],
            (ExportFormat::Csv, Self::Created) => &["created"],
            (ExportFormat::Csv, Self::Product) => &["product"],
            (ExportFormat::Csv, Self::ProductId) => &["product_id"],
        }
    }
}

impl fmt::Display for ExportField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

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

/// Where each field stands in a row.
#[derive(Debug)]
pub struct ExportColumns {
    format: ExportFormat,
    places: BTreeMap<ExportField, usize>,
    names: BTreeMap<ExportField, String>,
    unused: Vec<String>,
    count: usize,
}

impl ExportColumns {
    /// Finds the columns in the header. `given` are headers that stand for other fields than by the format's own rule.
    ///
    /// # Errors
    /// A column is missing, or is there twice.
    pub fn find(
        header: &ByteRecord,
        format: ExportFormat,
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
                None => field.headers(format).contains(&plain(header).as_str()),
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
        let required: &[&[ExportField]] = match format {
            // Without the limit and the sites, a license would be another one than in the shop.
            ExportFormat::Edd => &[
                &[ExportField::Key],
                &[ExportField::Status],
                &[ExportField::Expires],
                &[ExportField::Sites],
                &[ExportField::Hosts],
                &[ExportField::Product, ExportField::ProductId],
            ],
            ExportFormat::Csv => &[
                &[ExportField::Key],
                &[ExportField::Expires],
                &[ExportField::Modules, ExportField::Product, ExportField::ProductId],
            ],
        };
        let is_there = |one_of: &&&[ExportField]| one_of.iter().any(|field| places.contains_key(field));
        let missing: Vec<_> = required.iter().filter(|one_of| !is_there(one_of)).collect();
        if !missing.is_empty() {
            return Err(ColumnError::Missing(
                missing.iter().map(|one_of| one_of[0].shown(format)).collect(),
            ));
        }
        let unused = headers.iter().enumerate().filter(|(place, header)| {
            !places.values().any(|used| used == place) && !header.is_empty() && !header.starts_with(REJECT_PREFIX)
        });
        Ok(Self {
            format,
            unused: unused.map(|(_, header)| header.clone()).collect(),
            places,
            names,
            count: headers.len(),
        })
    }

    /// Where the export comes from.
    pub fn format(&self) -> ExportFormat {
        self.format
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

    /// The bytes of a field; empty where there is no such column.
    pub fn cell<'r>(&self, row: &'r ByteRecord, field: ExportField) -> &'r [u8] {
        self.places
            .get(&field)
            .and_then(|place| row.get(*place))
            .unwrap_or_default()
    }

    /// The header of a field, as the file has it.
    pub fn header(&self, field: ExportField) -> &str {
        self.names.get(&field).map_or(field.name(), |name| name)
    }
}

/// How the columns begin that a file of rejects has in addition.
pub const REJECT_PREFIX: &str = "rejected_";
