//! One row of an export as a license. The key is turned into the license's id and dropped.

use chrono::{DateTime, NaiveDate, Utc};
use csv::ByteRecord;

use countersign_model::digest::Digest;
use countersign_model::edd_items::EddName;
use countersign_model::foreign_key;
use countersign_model::issued_license::{Hex128, MAX_REFERENCE};
use countersign_model::license::{LicenseStatus, Modules, SiteLimit};
use countersign_model::license_key::{LicenseId, LicenseKey};

use crate::import::cells::{self, ActiveSite};
use crate::import::columns::{ExportColumns, ExportField, ExportFormat};

/// A license as another system has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedLicense {
    /// Its id here.
    pub id: LicenseId,
    /// Its status here.
    pub status: LicenseStatus,
    /// The last day.
    pub expires: NaiveDate,
    /// How many sites.
    pub sites: SiteLimit,
    /// What it covers, if the row says so itself.
    pub modules: Modules,
    /// The product's name; its plugins have the modules.
    pub product: Option<EddName>,
    /// The product's number.
    pub product_id: Option<u64>,
    /// The sites that are active, and since when if the row says so.
    pub hosts: Vec<ActiveSite>,
    /// What the shop calls it.
    pub reference: Option<String>,
    /// When it was bought.
    pub created: Option<DateTime<Utc>>,
}

/// Why a row is no license. Quotes nothing of the row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// It has more or fewer cells than there are columns.
    #[error("it has {cells} cells, and there are {columns} columns")]
    Cells {
        /// How many it has.
        cells: usize,
        /// How many there are.
        columns: usize,
    },
    /// A cell cannot be read.
    #[error("column {header:?}: {reason}")]
    Cell {
        /// The column, as the file names it.
        header: String,
        /// What is wrong, or expected.
        reason: String,
    },
}

/// Reads a row. `today` is the day in UTC.
///
/// # Errors
/// The first thing in it that cannot be taken.
pub fn read(columns: &ExportColumns, row: &ByteRecord, today: NaiveDate) -> Result<ExportedLicense, RowError> {
    if row.len() != columns.count() {
        return Err(RowError::Cells {
            cells: row.len(),
            columns: columns.count(),
        });
    }
    let is_edd = columns.format() == ExportFormat::Edd;
    let row = RowCells { columns, row };
    let key = row.text(ExportField::Key)?;
    let id = foreign_key::any_id(key).map_err(|error| row.wrong(ExportField::Key, &error.to_string()))?;
    let expires = row.parsed(ExportField::Expires, cells::last_day)?;
    let said = row.text(ExportField::Status)?.to_ascii_lowercase();
    let status = match said.as_str() {
        "active" | "inactive" => LicenseStatus::Active,
        "" if !is_edd => LicenseStatus::Active,
        // Only its date says so here, so the date must.
        "expired" if expires < today => LicenseStatus::Active,
        "expired" => {
            let reason = "it is expired, but its last day is not past: correct one of them";
            return Err(row.wrong(ExportField::Status, reason));
        }
        "disabled" | "suspended" => LicenseStatus::Suspended,
        "revoked" => LicenseStatus::Revoked,
        _ => {
            let reason = "expected active, inactive, expired, disabled, suspended or revoked";
            return Err(row.wrong(ExportField::Status, reason));
        }
    };
    let no_limit = match (is_edd, row.text(ExportField::Sites)?.is_empty()) {
        (true, _) => Some(SiteLimit::Unlimited),
        (false, true) => Some(SiteLimit::DEFAULT),
        (false, false) => None,
    };
    let reference = row.text(ExportField::Reference)?;
    if reference.len() > MAX_REFERENCE {
        return Err(row.wrong(
            ExportField::Reference,
            &format!("it is longer than {MAX_REFERENCE} bytes"),
        ));
    }
    // SECURITY: the reference is stored as it is.
    if LicenseKey::is_in(reference) || foreign_key::any_id(reference).is_ok_and(|other| other == id) {
        return Err(row.wrong(ExportField::Reference, "it has a license key"));
    }
    let created = match row.text(ExportField::Created)? {
        "" => None,
        text if text.starts_with("0000-00-00") => None,
        text => {
            let reason = "expected a date such as 2025-01-31, or a Unix time";
            Some(cells::time(text).ok_or_else(|| row.wrong(ExportField::Created, reason))?)
        }
    };
    let modules = row.parsed(ExportField::Modules, cells::modules)?;
    let product_id = match row.text(ExportField::ProductId)? {
        "" => None,
        text => {
            let id = text.parse::<u64>();
            Some(id.map_err(|_| row.wrong(ExportField::ProductId, "expected a number"))?)
        }
    };
    let product = EddName::new(row.text(ExportField::Product)?);
    if modules.is_empty() && product.is_none() && product_id.is_none() {
        let field = match columns.has(ExportField::Modules) {
            true => ExportField::Modules,
            false => ExportField::Product,
        };
        return Err(row.wrong(field, "it is empty, so the license would grant nothing"));
    }
    Ok(ExportedLicense {
        id,
        status,
        expires,
        sites: row.parsed(ExportField::Sites, |text| cells::limit(text, no_limit))?,
        modules,
        product,
        product_id,
        hosts: row.parsed(ExportField::Hosts, cells::hosts)?,
        reference: (!reference.is_empty()).then(|| reference.to_owned()),
        created,
    })
}

impl ExportedLicense {
    /// A digest of what the row says with these modules. The reference is left out: it may name a person, and a digest of it
    /// could be guessed.
    pub fn content(&self, modules: &Modules) -> Hex128 {
        let text = format!(
            "{}|{}|{}|{modules:?}|{:?}|{:?}",
            self.status.as_str(),
            self.expires,
            self.sites,
            self.created,
            self.hosts
        );
        let digest = Digest::of(text.as_bytes());
        let mut content = [0; 16];
        content.copy_from_slice(&digest.as_bytes()[..16]);
        Hex128(content)
    }
}

struct RowCells<'a> {
    columns: &'a ExportColumns,
    row: &'a ByteRecord,
}

impl<'a> RowCells<'a> {
    fn text(&self, field: ExportField) -> Result<&'a str, RowError> {
        let cell = self.columns.cell(self.row, field);
        let text = std::str::from_utf8(cell).map_err(|_| self.wrong(field, "it is not UTF-8"))?;
        Ok(text.trim())
    }

    fn parsed<T>(&self, field: ExportField, parse: impl Fn(&str) -> Result<T, &'static str>) -> Result<T, RowError> {
        parse(self.text(field)?).map_err(|reason| self.wrong(field, reason))
    }

    fn wrong(&self, field: ExportField, reason: &str) -> RowError {
        RowError::Cell {
            header: self.columns.header(field).to_owned(),
            reason: reason.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::import::csv_rows::CsvRows;

    fn read_all(text: &[u8], format: ExportFormat) -> Vec<Result<ExportedLicense, String>> {
        let mut rows = CsvRows::open(text, b',').unwrap();
        let columns = ExportColumns::find(rows.header(), format, &BTreeMap::new()).unwrap();
        let today = NaiveDate::from_ymd_opt(2026, 11, 25).unwrap();
        let mut read_rows = Vec::new();
        while let Some((_, row)) = rows.next_row().unwrap() {
            read_rows.push(read(&columns, row, today).map_err(|error| error.to_string()));
        }
        read_rows
    }

    const KEY: &str = "cc22c1ec86304b36883440e2e84cddff";

    #[test]
    fn both_versions_of_the_edd_export_say_the_same_license() {
        let new = format!(
            "\"License ID\",\"License Key\",\"License Status\",\"Customer ID\",\"Customer Email\",\"Customer Name\",\"User ID\",\
             \"Product Name\",\"Price ID\",\"Purchase Date\",\"Expiration Date\",\"Activation Limit\",\"Activation Count\",\
             \"Activated URLs\"\r\n\"7\",\"{KEY}\",\"active\",\"3\",\"a@b.c\",\"Ann O\\'Hara\",\"0\",\"Acme Forms\",\"\",\
             \"2025-01-02 03:04:05\",\"1830297599\",\"0\",\"2\",\"a.com/, b.com/\"\r\n"
        );
        let old = format!(
            "Email,License Key,License Status,Product Name,Purchase Date,Expiration Date,Activation Limit,Activation Count,\
             Activated URLs\na@b.c,{KEY},active,Acme Forms,2025-01-02 03:04:05,2027-12-31 23:59:59,Unlimited,2,\
             http://a.com/ - http://b.com\n"
        );
        let new = read_all(new.as_bytes(), ExportFormat::Edd).remove(0).unwrap();
        let old = read_all(old.as_bytes(), ExportFormat::Edd).remove(0).unwrap();
        assert_eq!(new.reference.as_deref(), Some("7"));
        assert_eq!(
            ExportedLicense {
                reference: None,
                ..new.clone()
            },
            old
        );
        assert_eq!((new.sites, new.hosts.len()), (SiteLimit::Unlimited, 2));
        assert_eq!(new.content(&Modules::new()), old.content(&Modules::new()));
    }

    #[test]
    fn a_reference_is_as_long_as_in_the_management_api() {
        let row = |length: usize| {
            let reference = "r".repeat(length);
            let text = format!("key,expires,modules,reference\n{KEY},2027-01-01,forms,{reference}\n");
            read_all(text.as_bytes(), ExportFormat::Csv).remove(0)
        };
        assert!(row(200).is_ok());
        assert!(row(201).unwrap_err().contains("longer than 200 bytes"));
    }

    #[test]
    fn a_key_in_another_column_is_refused() {
        let key = LicenseKey::from_random([7; 20]);
        let dashed = key.reveal().replace('-', "\u{2013}");
        let soft = key.reveal().replace('-', "\u{ad}");
        for (row, column) in [
            (format!("{KEY},2027-01-01,forms,{dashed},"), "reference"),
            (format!("{KEY},2027-01-01,forms,{},", KEY.to_uppercase()), "reference"),
            (format!("{KEY},2027-01-01,{},,", key.reveal()), "modules"),
            (format!("{KEY},2027-01-01,forms,,{}.com", key.reveal()), "hosts"),
            (format!("{KEY},2027-01-01,forms,,{soft}.com"), "hosts"),
        ] {
            let text = format!("key,expires,modules,reference,hosts\n{row}\n");
            let error = read_all(text.as_bytes(), ExportFormat::Csv).remove(0).unwrap_err();
            assert!(
                error.starts_with(&format!("column {column:?}: ")) && error.contains("license key"),
                "{error}"
            );
        }
    }

    #[test]
    fn every_status_is_taken_or_told() {
        let row = |status: &str, expires: &str| {
            let text = format!("key,expires,status,modules\n{KEY},{expires},{status},forms\n");
            read_all(text.as_bytes(), ExportFormat::Csv)
                .remove(0)
                .map(|license| license.status)
        };
        for (status, expected) in [
            ("active", LicenseStatus::Active),
            ("Inactive", LicenseStatus::Active),
            ("", LicenseStatus::Active),
            ("disabled", LicenseStatus::Suspended),
            ("revoked", LicenseStatus::Revoked),
        ] {
            assert_eq!(row(status, "2027-01-01"), Ok(expected), "{status}");
        }
        assert_eq!(row("expired", "2020-01-01"), Ok(LicenseStatus::Active));
        assert!(
            row("expired", "2027-01-01")
                .unwrap_err()
                .contains("last day is not past")
        );
        assert!(
            row("private", "2027-01-01")
                .unwrap_err()
                .contains("\"status\": expected active")
        );
    }

    #[test]
    fn what_cannot_be_taken_is_told_and_never_quoted() {
        let rows = [
            (format!("{KEY},2027-01-01"), "it has 2 cells"),
            ("=HYPERLINK(\"x\"),2027-01-01,forms".to_owned(), "\"key\": "),
            ("=1+1+1+1+1+1+1+1+1,2027-01-01,forms".to_owned(), "\"key\": "),
            ("short,2027-01-01,forms".to_owned(), "fewer than 16"),
            (format!("{KEY},{KEY},forms"), "\"expires\": expected"),
            (format!("{KEY},2027-01-01,"), "would grant nothing"),
            (format!("{KEY},2027-01-01,{KEY} !"), "\"modules\": expected"),
        ];
        let text: String = rows.iter().map(|(row, _)| format!("{row}\n")).collect();
        let text = format!("key,expires,modules\n{text}");
        for (read, (row, expected)) in read_all(text.as_bytes(), ExportFormat::Csv).into_iter().zip(&rows) {
            let error = read.unwrap_err();
            assert!(error.contains(expected), "{row}: {error}");
            assert!(!error.contains(KEY), "{error}");
        }
        let bad = [&b"key,expires,modules\n\xff\xfe0123456789abcdef,2027-01-01,forms\n"[..]].concat();
        assert_eq!(
            read_all(&bad, ExportFormat::Csv).remove(0),
            Err("column \"key\": it is not UTF-8".to_owned())
        );
    }

    #[test]
    fn a_file_without_its_columns_is_refused_and_its_first_line_not_quoted() {
        let columns = |text: &str, format| {
            let rows = CsvRows::open(text.as_bytes(), b',').unwrap();
            ExportColumns::find(rows.header(), format, &BTreeMap::new()).map(|columns| columns.unused().to_vec())
        };
        let error = columns(&format!("{KEY},2027-01-01,forms\n"), ExportFormat::Csv).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the first line has no column for key, expires, modules"
        );
        let error = columns("key,expires,modules,KEY \n", ExportFormat::Csv).unwrap_err();
        assert_eq!(error.to_string(), "the first line has two columns for key");
        let unused = columns("key,expires,modules,E-mail,rejected_line\n", ExportFormat::Csv);
        assert_eq!(unused, Ok(vec!["E-mail".to_owned()]));
    }
}
