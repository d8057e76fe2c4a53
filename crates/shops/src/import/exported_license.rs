//! One row of an export as a license. The key is turned into the license's id and dropped.

use std::collections::BTreeMap;
use std::fmt;

use chrono::{DateTime, Days, NaiveDate, Utc};
use csv::ByteRecord;

use countersign_model::customer::CustomerAddress;
use countersign_model::digest::Digest;
use countersign_model::edd_items::EddName;
use countersign_model::foreign_key;
use countersign_model::issued_license::{Hex128, MAX_REFERENCE};
use countersign_model::license::{LicenseStatus, Modules, SiteLimit};
use countersign_model::license_key::{LicenseId, LicenseKey};
use countersign_model::period::{self, NEVER};

pub use crate::import::cells::DateOrder;
use crate::import::cells::{self, ActiveSite, EndCell, SitesCell};
use crate::import::columns::ExportColumns;
use crate::import::export_field::ExportField;
use crate::import::preset::{NoNumber, ReportedMember, ReportedWhen, StatusMeaning};

/// The longest mail address, in bytes (RFC 5321).
const MAX_ADDRESS: usize = 254;

/// The longest word of a status that an error shows. The shortest key is longer.
const MAX_WORD: usize = foreign_key::MIN_LENGTH - 1;

/// What a person says of an export.
#[derive(Clone, Debug, Default)]
pub struct RowRules {
    /// The day in UTC.
    pub today: NaiveDate,
    /// The last day of licenses without one; `None` refuses them, unless the system means something by it.
    pub no_end: Option<NaiveDate>,
    /// The order of day and month; `None` refuses dates in which it is not clear.
    pub date_order: Option<DateOrder>,
    /// Words for the status, in lower case, and what they mean. They go before those of the preset.
    pub statuses: BTreeMap<String, StatusMeaning>,
    /// The number of sites of licenses without one.
    pub sites: Option<SiteLimit>,
}

/// A row that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadRow {
    /// A license.
    License(Box<ExportedLicense>),
    /// No license of anybody, by the word for its status.
    Skipped {
        /// A word of the preset, or of the rules.
        word: String,
    },
}

/// A license as another system has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedLicense {
    /// Its id here.
    pub id: LicenseId,
    /// A digest of the key as it is written. Two keys that differ in case only have one id.
    pub spelling: Hex128,
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
    /// Which of the product's prices was paid.
    pub price: Option<String>,
    /// The sites that are active, and since when if the row says so.
    pub hosts: Vec<ActiveSite>,
    /// What the shop calls it.
    pub reference: Option<String>,
    /// The order in which it was bought.
    pub order: Option<String>,
    /// The subscription that renews it.
    pub subscription: Option<String>,
    /// The buyer's mail address, as it is written.
    pub customer: Option<String>,
    /// The buyer's name.
    pub name: Option<String>,
    /// When it was bought.
    pub created: Option<DateTime<Utc>>,
    /// What was taken that the row does not say.
    pub assumed: Vec<Assumption>,
    /// What the row says and no license has here.
    pub left_out: Vec<&'static str>,
}

/// What was taken although a row does not say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Assumption {
    /// It is expired, and its last day is not past.
    SuspendedBeforeItsEnd,
    /// It has no end, which means this one.
    End(NaiveDate),
    /// It has no number of sites, which means this one; 0 for any number.
    Sites(u32),
}

impl fmt::Display for Assumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SuspendedBeforeItsEnd => f.write_str("expired, and the end is not past: suspended"),
            Self::End(NEVER) => f.write_str("no end: lifetime"),
            Self::End(day) => write!(f, "no end: {day}"),
            Self::Sites(0) => f.write_str("no number of sites: unlimited"),
            Self::Sites(number) => write!(f, "no number of sites: {number}"),
        }
    }
}

/// Why a row is no license. Quotes nothing of the row but a short word for its status.
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
    /// A cell or a member cannot be read.
    #[error("{kind} {header:?}: {reason}")]
    Cell {
        /// `column`, or `member`.
        kind: &'static str,
        /// The column, as the file names it, or the path of the member.
        header: String,
        /// What is wrong, or expected.
        reason: String,
    },
    /// A value of a JSON file is no license.
    #[error("{0}")]
    Record(&'static str),
}

/// The id of a row's key; `None` if it has none that can be read.
pub(super) fn key_id(columns: &ExportColumns, row: &ByteRecord) -> Option<LicenseId> {
    let key = std::str::from_utf8(columns.cell(row, ExportField::Key)).ok()?;
    foreign_key::any_id(key.trim()).ok()
}

/// Reads a row.
///
/// # Errors
/// The first thing in it that cannot be taken.
pub fn read(columns: &ExportColumns, row: &ByteRecord, rules: &RowRules) -> Result<ReadRow, RowError> {
    if row.len() != columns.count() {
        return Err(RowError::Cells {
            cells: row.len(),
            columns: columns.count(),
        });
    }
    let row = RowCells { columns, row, rules };
    let said = row.text(ExportField::Status)?.to_ascii_lowercase();
    let meaning = row.meaning(&said)?;
    if meaning == StatusMeaning::Skip {
        return Ok(ReadRow::Skipped { word: said });
    }
    let id = row.key()?;
    let mut assumed = Vec::new();
    let created = row.created()?;
    let expires = row.end(created, &mut assumed)?;
    let status = match meaning {
        // Only its date says so here, so the date must.
        StatusMeaning::Expired if expires >= rules.today => {
            assumed.push(Assumption::SuspendedBeforeItsEnd);
            LicenseStatus::Suspended
        }
        StatusMeaning::Active | StatusMeaning::Expired | StatusMeaning::Skip => LicenseStatus::Active,
        StatusMeaning::Suspended => LicenseStatus::Suspended,
        StatusMeaning::Revoked => LicenseStatus::Revoked,
    };
    let sites = row.sites(&mut assumed)?;
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
        let fields = [ExportField::Modules, ExportField::Product, ExportField::ProductId];
        let field = fields.into_iter().find(|field| columns.has(*field));
        let reason = "it is empty, so the license would grant nothing";
        return Err(row.wrong(field.unwrap_or(ExportField::Modules), reason));
    }
    let mut left_out: Vec<_> = columns.reported(row.row).filter_map(reported).collect();
    let customer = row.person(ExportField::Customer, &mut left_out);
    let name = row.person(ExportField::Name, &mut left_out);
    Ok(ReadRow::License(Box::new(ExportedLicense {
        id,
        spelling: row.spelling()?,
        status,
        expires,
        sites,
        modules,
        product,
        product_id,
        price: row.named(ExportField::Price, id)?,
        hosts: row.parsed(ExportField::Hosts, cells::hosts)?,
        reference: row.named(ExportField::Reference, id)?,
        order: row.named(ExportField::Order, id)?,
        subscription: row.named(ExportField::Subscription, id)?,
        customer,
        name,
        created,
        assumed,
        left_out,
    })))
}

/// What the report says of a cell, if its value counts.
fn reported((member, cell): (&'static ReportedMember, &[u8])) -> Option<&'static str> {
    let cell = cell.trim_ascii();
    let counts = match member.when {
        ReportedWhen::IsGiven => !cell.is_empty() && !cell.eq_ignore_ascii_case(b"null"),
        ReportedWhen::Is(values) => values.iter().any(|value| cell.eq_ignore_ascii_case(value.as_bytes())),
    };
    counts.then_some(member.what)
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
        short_digest(&text)
    }
}

fn short_digest(text: &str) -> Hex128 {
    let digest = Digest::of(text.as_bytes());
    let mut short = [0; 16];
    short.copy_from_slice(&digest.as_bytes()[..16]);
    Hex128(short)
}

struct RowCells<'a> {
    columns: &'a ExportColumns,
    row: &'a ByteRecord,
    rules: &'a RowRules,
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

    fn key(&self) -> Result<LicenseId, RowError> {
        let key = self.text(ExportField::Key)?;
        let is_formula = key.starts_with("=\"") && key.ends_with('"');
        if is_formula || key.starts_with('\'') {
            let reason = "it has a sign of a spreadsheet before the key: write the key alone";
            return Err(self.wrong(ExportField::Key, reason));
        }
        foreign_key::any_id(key).map_err(|error| self.wrong(ExportField::Key, &error.to_string()))
    }

    /// A digest of the key as it is written; of a key of ours in its one form.
    fn spelling(&self) -> Result<Hex128, RowError> {
        let key = self.text(ExportField::Key)?;
        Ok(match key.parse::<LicenseKey>() {
            Ok(key) => short_digest(key.reveal()),
            Err(_) => short_digest(key),
        })
    }

    /// What the word for the status means.
    fn meaning(&self, word: &str) -> Result<StatusMeaning, RowError> {
        let words = self.columns.preset().statuses;
        let of_preset = || {
            words
                .iter()
                .find(|(known, _)| *known == word)
                .map(|(_, meaning)| *meaning)
        };
        let meaning = self.rules.statuses.get(word).copied().or_else(of_preset);
        meaning.ok_or_else(|| {
            let known: Vec<_> = words
                .iter()
                .map(|(word, _)| *word)
                .filter(|word| !word.is_empty())
                .collect();
            // SECURITY: a short word is no key.
            let is_short = word.len() <= MAX_WORD
                && word
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b" _-".contains(&byte));
            let shown = match (word, is_short) {
                ("", _) => "it is empty".to_owned(),
                (word, true) => format!("\"{word}\" is unknown"),
                _ => "its word is unknown".to_owned(),
            };
            let reason = format!(
                "{shown}, expected {}; --status WORD=STATE says what a word means",
                known.join(", ")
            );
            self.wrong(ExportField::Status, &reason)
        })
    }

    fn created(&self) -> Result<Option<DateTime<Utc>>, RowError> {
        match self.text(ExportField::Created)? {
            "" => Ok(None),
            text if text.starts_with(cells::NO_DATE) || text.eq_ignore_ascii_case("null") => Ok(None),
            text => match cells::time(text, self.rules.date_order) {
                Ok(time) => Ok(Some(time)),
                Err(reason) => Err(self.wrong(ExportField::Created, reason)),
            },
        }
    }

    /// The last day: of its cell, or so many days after it was bought, or what no end means.
    fn end(&self, created: Option<DateTime<Utc>>, assumed: &mut Vec<Assumption>) -> Result<NaiveDate, RowError> {
        let field = ExportField::Expires;
        let order = self.rules.date_order;
        if let EndCell::Day(day) = self.parsed(field, |text| cells::end(text, order))? {
            return Ok(day);
        }
        if let Some(days) = self.parsed(ExportField::ValidFor, cells::days)? {
            let Some(created) = created else {
                let reason = "it counts from when the license was bought, and the row does not say when";
                return Err(self.wrong(ExportField::ValidFor, reason));
            };
            let day = created.date_naive().checked_add_days(Days::new(days));
            return Ok(day.and_then(period::last_day).unwrap_or(NEVER));
        }
        let of_preset = self.columns.preset().empty_end_is_lifetime.then_some(NEVER);
        let day = self.rules.no_end.or(of_preset).ok_or_else(|| {
            let reason = "it is empty: --no-end lifetime or a date says what that means";
            self.wrong(field, reason)
        })?;
        assumed.push(Assumption::End(day));
        Ok(day)
    }

    /// How many sites: of its cell, or what no number means.
    fn sites(&self, assumed: &mut Vec<Assumption>) -> Result<SiteLimit, RowError> {
        let field = ExportField::Sites;
        let preset = self.columns.preset();
        let no_number = match self.parsed(field, cells::sites)? {
            SitesCell::Limit(limit) => return Ok(limit),
            SitesCell::Empty => preset.no_sites,
            SitesCell::Zero => preset.zero_sites,
        };
        let limit = match (no_number, self.rules.sites) {
            (NoNumber::Means(limit), _) => return Ok(limit),
            (_, Some(limit)) | (NoNumber::Assumed(limit), None) => limit,
            (NoNumber::Unknown, None) => {
                let reason = "it is no number of sites: --sites N or unlimited says what that means";
                return Err(self.wrong(field, reason));
            }
        };
        assumed.push(Assumption::Sites(match limit {
            SiteLimit::Limited(limit) => limit.get(),
            SiteLimit::Unlimited => 0,
        }));
        Ok(limit)
    }

    /// A text of the shop, such as the number of an order.
    fn named(&self, field: ExportField, id: LicenseId) -> Result<Option<String>, RowError> {
        let text = self.text(field)?;
        if text.len() > MAX_REFERENCE {
            return Err(self.wrong(field, &format!("it is longer than {MAX_REFERENCE} bytes")));
        }
        if text.chars().any(char::is_control) {
            return Err(self.wrong(field, "it has a control character"));
        }
        // SECURITY: it may be stored as it is.
        if LicenseKey::is_in(text) || foreign_key::any_id(text).is_ok_and(|other| other == id) {
            return Err(self.wrong(field, "it has a license key"));
        }
        Ok((!text.is_empty()).then(|| text.to_owned()))
    }

    /// An address or a name, without line ends and with single blanks. One that cannot be one is counted: a license does not
    /// depend on it.
    fn person(&self, field: ExportField, left_out: &mut Vec<&'static str>) -> Option<String> {
        let text = self.text(field);
        let text = text.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
        if text.as_ref().is_ok_and(String::is_empty) {
            return None;
        }
        let is_one = |text: &String| {
            text.len() <= MAX_ADDRESS && !text.chars().any(char::is_control) && !LicenseKey::is_in(text)
        };
        let is_address = |text: &String| field != ExportField::Customer || text.parse::<CustomerAddress>().is_ok();
        let person = text.ok().filter(is_one).filter(is_address);
        if person.is_none() {
            left_out.push(match field {
                ExportField::Customer => "customers that are no mail address",
                _ => "names that cannot be read",
            });
        }
        person
    }

    fn wrong(&self, field: ExportField, reason: &str) -> RowError {
        RowError::Cell {
            kind: self.columns.preset().form.parts(),
            header: self.columns.header(field).to_owned(),
            reason: reason.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::export_file::ExportFile;
    use crate::import::preset::Preset;

    fn rules() -> RowRules {
        RowRules {
            today: "2026-11-25".parse().unwrap(),
            ..RowRules::default()
        }
    }

    fn read_by(text: &[u8], preset: &str, rules: &RowRules) -> Vec<Result<ReadRow, String>> {
        let preset = Preset::named(preset).unwrap();
        let file = ExportFile::read(text, preset, b',', &BTreeMap::new()).unwrap();
        let mut rows = file.rows().unwrap();
        let mut read_rows = Vec::new();
        while let Some(row) = rows.next_row().unwrap() {
            let license = row.text.cells(file.columns());
            let license = license.and_then(|cells| read(file.columns(), &cells, rules));
            read_rows.push(license.map_err(|error| error.to_string()));
        }
        read_rows
    }

    fn license(read: Result<ReadRow, String>) -> Result<ExportedLicense, String> {
        read.map(|read| match read {
            ReadRow::License(license) => *license,
            ReadRow::Skipped { word } => panic!("skipped by {word:?}"),
        })
    }

    fn read_all(text: &[u8], preset: &str) -> Vec<Result<ExportedLicense, String>> {
        read_by(text, preset, &rules()).into_iter().map(license).collect()
    }

    fn one(text: &str, preset: &str, rules: &RowRules) -> Result<ExportedLicense, String> {
        license(read_by(text.as_bytes(), preset, rules).remove(0))
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
        let new = read_all(new.as_bytes(), "edd").remove(0).unwrap();
        let old = read_all(old.as_bytes(), "edd").remove(0).unwrap();
        assert_eq!(new.reference.as_deref(), Some("7"));
        assert_eq!(new.customer.as_deref(), Some("a@b.c"));
        assert_eq!(new.name.as_deref(), Some("Ann O\\'Hara"));
        assert_eq!(
            ExportedLicense {
                reference: None,
                name: None,
                ..new.clone()
            },
            old
        );
        assert_eq!((new.sites, new.hosts.len()), (SiteLimit::Unlimited, 2));
        assert_eq!(new.content(&Modules::new()), old.content(&Modules::new()));
    }

    #[test]
    fn a_license_of_each_api_is_read_from_its_members() {
        let freemius = r#"{"licenses":[{"id":"9","plugin_id":"12","user_id":"5","plan_id":"3","quota":null,"expiration":null,
            "secret_key":"sk_123FGqM456Pa786WtOp%^+67Y+;sX","is_cancelled":false,"is_block_features":false,
            "created":"2025-01-02 03:04:05","parent_license_id":"8","products":[],"email":"a@b.c"}]}"#;
        let read = one(freemius, "freemius", &rules()).unwrap();
        assert_eq!(
            (read.expires, read.sites, read.status),
            (NEVER, SiteLimit::Unlimited, LicenseStatus::Active)
        );
        assert_eq!(
            (read.product_id, read.price.as_deref(), read.reference.as_deref()),
            (Some(12), Some("3"), Some("9"))
        );
        assert_eq!(read.left_out.len(), 2, "{:?}", read.left_out);
        let cancelled = freemius.replace("\"is_cancelled\":false", "\"is_cancelled\":1");
        assert_eq!(
            one(&cancelled, "freemius", &rules()).unwrap().status,
            LicenseStatus::Suspended
        );

        let lemon = r#"{"data":[{"type":"license-keys","id":"1","attributes":{"order_id":7,"product_id":12,"user_name":"Ann",
            "user_email":"a@b.c","key":"80e15db5-c796-436b-850c-8f9c98a48abe","activation_limit":5,"instances_count":0,
            "disabled":0,"status":"inactive","expires_at":"2027-12-31T23:59:59.000000Z",
            "created_at":"2025-05-24T14:15:07.000000Z"}}]}"#;
        let read = one(lemon, "lemon-squeezy", &rules()).unwrap();
        assert_eq!(
            (read.expires.to_string(), read.sites.to_string()),
            ("2027-12-31".to_owned(), "5".to_owned())
        );
        assert_eq!((read.order.as_deref(), read.name.as_deref()), (Some("7"), Some("Ann")));
        let unlimited = lemon.replace("\"activation_limit\":5", "\"activation_limit\":null");
        assert_eq!(
            one(&unlimited, "lemon-squeezy", &rules()).unwrap().sites,
            SiteLimit::Unlimited
        );

        let surecart = r#"{"object":"list","data":[{"id":"x","object":"license","activation_limit":null,
            "key":"ab3364fc-a094-41ae-8ed5-b1cfd1d27203","revokes_at":1830297599,"status":"revoked","created_at":1769674954,
            "customer":{"id":"c","email":"a@b.c","name":"Ann"},"purchase":{"id":"p7","product":"0dbe616f-ddc8"}}]}"#;
        let read = one(surecart, "surecart", &rules()).unwrap();
        assert_eq!(
            (read.expires.to_string(), read.status),
            ("2027-12-31".to_owned(), LicenseStatus::Revoked)
        );
        assert_eq!(
            (read.order.as_deref(), read.customer.as_deref()),
            (Some("p7"), Some("a@b.c"))
        );
        assert_eq!(read.product, EddName::new("0dbe616f-ddc8"));
        // Not expanded, the members are ids: an id is no address.
        let ids = surecart
            .replace(r#"{"id":"c","email":"a@b.c","name":"Ann"}"#, "\"c\"")
            .replace(
                r#"{"id":"p7","product":"0dbe616f-ddc8"}"#,
                "\"p7\",\"product\":\"0dbe616f-ddc8\"",
            );
        let read = one(&ids, "surecart", &rules()).unwrap();
        assert_eq!((read.order.as_deref(), read.customer), (Some("p7"), None));

        let keygen = r#"{"data":[{"id":"l9","type":"licenses","attributes":{"name":"x","key":"C1B6DE-39A6E3-DE1529-8559A0-4AF593",
            "expiry":"2027-12-31T23:59:59.123Z","status":"EXPIRING","maxMachines":3,"created":"2025-01-02T20:26:53.464Z"},
            "relationships":{"product":{"data":{"type":"products","id":"p1"}},"policy":{"data":{"id":"q2"}}}}]}"#;
        let read = one(keygen, "keygen", &rules()).unwrap();
        assert_eq!(
            (read.expires.to_string(), read.sites.to_string()),
            ("2027-12-31".to_owned(), "3".to_owned())
        );
        assert_eq!((read.price.as_deref(), read.product), (Some("q2"), EddName::new("p1")));
        let banned = keygen.replace("EXPIRING", "BANNED");
        assert_eq!(one(&banned, "keygen", &rules()).unwrap().status, LicenseStatus::Revoked);
        let signed = keygen.replace("C1B6DE", &"a".repeat(129));
        assert!(one(&signed, "keygen", &rules()).unwrap_err().contains("more than 128"));
    }

    const LMFWC: &str = "order_id,product_id,license_key,created_at,expires_at,valid_for,source,status\n";

    #[test]
    fn stock_of_lmfwc_is_skipped_and_days_count_from_the_day_of_its_creation() {
        let read =
            |row: &str, rules: &RowRules| read_by(format!("{LMFWC}{row}\n").as_bytes(), "lmfwc", rules).remove(0);
        let five = RowRules {
            sites: Some(SiteLimit::Unlimited),
            ..rules()
        };
        let sold = format!("7,12,{KEY},2025-01-01 10:00:00,,365,1,SOLD");
        let error = read(&sold, &rules()).unwrap_err();
        assert!(error.contains("--sites N"), "{error}");
        let taken = license(read(&sold, &five)).unwrap();
        assert_eq!(
            (taken.expires.to_string(), taken.order.as_deref()),
            ("2026-01-01".to_owned(), Some("7"))
        );
        assert_eq!(taken.assumed, [Assumption::Sites(0)]);
        let lifetime = license(read(&sold.replace(",365,", ",,"), &five)).unwrap();
        assert_eq!((lifetime.expires, lifetime.assumed[0]), (NEVER, Assumption::End(NEVER)));
        let dated = license(read(&sold.replace(",,365,", ",2027-12-31,365,"), &five)).unwrap();
        assert_eq!(dated.expires.to_string(), "2027-12-31");
        let stock = sold.replace("SOLD", "ACTIVE");
        assert_eq!(
            read(&stock, &five),
            Ok(ReadRow::Skipped {
                word: "active".to_owned()
            })
        );
        let taken = RowRules {
            statuses: [("active".to_owned(), StatusMeaning::Active)].into(),
            ..five.clone()
        };
        assert_eq!(license(read(&stock, &taken)).unwrap().status, LicenseStatus::Active);
        let inactive = license(read(&sold.replace("SOLD", "INACTIVE"), &five)).unwrap();
        assert_eq!(inactive.status, LicenseStatus::Suspended);
        for (row, expected) in [
            (sold.replace("2025-01-01 10:00:00", ""), "\"valid_for\": it counts from"),
            (
                sold.replace(",365,", ",1y,"),
                "\"valid_for\": expected a number of days",
            ),
            (sold.replace("SOLD", "3"), "\"status\": \"3\" is unknown"),
        ] {
            let error = read(&row, &five).unwrap_err();
            assert!(error.contains(expected), "{row}: {error}");
        }
    }

    #[test]
    fn an_empty_end_and_no_number_of_sites_become_nothing_by_silence() {
        let row = |expires: &str, sites: &str| format!("key,expires,modules,sites\n{KEY},{expires},forms,{sites}\n");
        let error = one(&row("", "1"), "csv", &rules()).unwrap_err();
        assert!(error.contains("\"expires\": it is empty: --no-end"), "{error}");
        let assuming = RowRules {
            no_end: Some("2027-01-01".parse().unwrap()),
            sites: SiteLimit::Limited(std::num::NonZeroU32::new(3).unwrap()).into(),
            ..rules()
        };
        let read = one(&row("", ""), "csv", &assuming).unwrap();
        assert_eq!(
            (read.expires.to_string(), read.sites.to_string()),
            ("2027-01-01".to_owned(), "3".to_owned())
        );
        assert_eq!(read.assumed, [Assumption::End(read.expires), Assumption::Sites(3)]);
        // What a row says itself stays as it is.
        let read = one(&row("2028-01-01", "7"), "csv", &assuming).unwrap();
        assert_eq!(
            (read.expires.to_string(), read.sites.to_string(), read.assumed),
            ("2028-01-01".to_owned(), "7".to_owned(), vec![])
        );
        for sites in ["", "0", "null"] {
            let read = one(&row("lifetime", sites), "csv", &rules()).unwrap();
            assert_eq!(
                (read.sites, &read.assumed[..]),
                (SiteLimit::DEFAULT, &[Assumption::Sites(1)][..]),
                "{sites}"
            );
        }
        for sites in ["-1", "1.5", "many", "4294967296"] {
            assert!(
                one(&row("lifetime", sites), "csv", &assuming)
                    .unwrap_err()
                    .contains("\"sites\": expected"),
                "{sites}"
            );
        }
        let edd = |expires: &str, limit: &str| {
            format!(
                "License Key,License Status,Product Name,Expiration Date,Activation Limit,Activated URLs\n\
                 {KEY},active,Acme Forms,{expires},{limit},\n"
            )
        };
        let read = one(&edd("", "0"), "edd", &rules()).unwrap();
        assert_eq!(
            (read.expires, read.sites, &read.assumed[..]),
            (NEVER, SiteLimit::Unlimited, &[Assumption::End(NEVER)][..])
        );
        assert!(one(&edd("0", ""), "edd", &rules()).unwrap_err().contains("--sites N"));
    }

    #[test]
    fn a_reference_is_as_long_as_in_the_management_api() {
        let row = |length: usize| {
            let reference = "r".repeat(length);
            let text = format!("key,expires,modules,reference\n{KEY},2027-01-01,forms,{reference}\n");
            read_all(text.as_bytes(), "csv").remove(0)
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
            (format!("{KEY},2027-01-01,forms,{dashed},,"), "reference"),
            (format!("{KEY},2027-01-01,forms,{},,", KEY.to_uppercase()), "reference"),
            (format!("{KEY},2027-01-01,forms,,,{KEY}"), "order"),
            (format!("{KEY},2027-01-01,{},,,", key.reveal()), "modules"),
            (format!("{KEY},2027-01-01,forms,,{}.com,", key.reveal()), "hosts"),
            (format!("{KEY},2027-01-01,forms,,{soft}.com,"), "hosts"),
        ] {
            let text = format!("key,expires,modules,reference,hosts,order\n{row}\n");
            let error = read_all(text.as_bytes(), "csv").remove(0).unwrap_err();
            assert!(
                error.starts_with(&format!("column {column:?}: ")) && error.contains("license key"),
                "{error}"
            );
        }
    }

    #[test]
    fn what_another_system_says_of_the_sale_is_read_and_a_name_in_the_wrong_letters_stops_nothing() {
        let read = |row: &[u8]| {
            let text = [
                &b"key,expires,modules,customer,name,subscription,order\n"[..],
                KEY.as_bytes(),
                b",never,forms,",
                row,
            ]
            .concat();
            read_all(&text, "csv").remove(0)
        };
        let whole = read(b"Ann@Example.com,Ann,sub_1,7\n").unwrap();
        assert_eq!(
            (whole.customer.as_deref(), whole.name.as_deref()),
            (Some("Ann@Example.com"), Some("Ann"))
        );
        assert_eq!(
            (whole.subscription.as_deref(), whole.order.as_deref()),
            (Some("sub_1"), Some("7"))
        );
        let lines = read(b"a@b.c,\"Ann O'Hara, \nDr.\",,\n").unwrap();
        assert_eq!(lines.name.as_deref(), Some("Ann O'Hara, Dr."));
        let odd = read(b"Ann,\xc4nn,,\n").unwrap();
        assert_eq!((odd.customer, odd.name, odd.left_out.len()), (None, None, 2));
        assert!(read(b",,,\xc4\n").unwrap_err().contains("\"order\": it is not UTF-8"));
        assert!(
            read(b",,a\0b,\n")
                .unwrap_err()
                .contains("\"subscription\": it has a control character")
        );
    }

    #[test]
    fn every_status_is_taken_or_reported() {
        let row = |status: &str, expires: &str| {
            let text = format!("key,expires,status,modules\n{KEY},{expires},{status},forms\n");
            read_all(text.as_bytes(), "csv")
                .remove(0)
                .map(|license| (license.status, license.assumed.len()))
        };
        for (status, expected) in [
            ("active", LicenseStatus::Active),
            ("Inactive", LicenseStatus::Active),
            ("", LicenseStatus::Active),
            ("disabled", LicenseStatus::Suspended),
            ("revoked", LicenseStatus::Revoked),
        ] {
            assert_eq!(row(status, "2027-01-01").map(|read| read.0), Ok(expected), "{status}");
        }
        assert_eq!(row("expired", "2020-01-01"), Ok((LicenseStatus::Active, 1)));
        assert_eq!(row("expired", "2027-01-01"), Ok((LicenseStatus::Suspended, 2)));
        let error = row("private", "2027-01-01").unwrap_err();
        assert!(
            error.contains("\"status\": \"private\" is unknown, expected active") && error.contains("--status"),
            "{error}"
        );
        let error = row(KEY, "2027-01-01").unwrap_err();
        assert!(error.contains("its word is unknown") && !error.contains(KEY), "{error}");
        let given = RowRules {
            statuses: [
                ("private".to_owned(), StatusMeaning::Revoked),
                ("draft".to_owned(), StatusMeaning::Skip),
            ]
            .into(),
            ..rules()
        };
        let text = format!("key,expires,status,modules\n{KEY},never,Private,forms\n,,DRAFT,\n");
        let read = read_by(text.as_bytes(), "csv", &given);
        assert_eq!(license(read[0].clone()).unwrap().status, LicenseStatus::Revoked);
        assert_eq!(
            read[1],
            Ok(ReadRow::Skipped {
                word: "draft".to_owned()
            })
        );
    }

    #[test]
    fn what_cannot_be_taken_is_reported_and_never_quoted() {
        let rows = [
            (format!("{KEY},2027-01-01"), "it has 2 cells"),
            ("=HYPERLINK(\"x y\"),2027-01-01,forms".to_owned(), "\"key\": "),
            (
                format!("\"=\"\"{KEY}\"\"\",2027-01-01,forms"),
                "\"key\": it has a sign of a spreadsheet",
            ),
            (
                format!("'{KEY},2027-01-01,forms"),
                "\"key\": it has a sign of a spreadsheet",
            ),
            ("short,2027-01-01,forms".to_owned(), "fewer than 16"),
            (format!("{KEY},{KEY},forms"), "\"expires\": expected"),
            (
                format!("{KEY},31/12/2027,forms"),
                "\"expires\": 31/12/2027 and 12/31/2027 look alike",
            ),
            (format!("{KEY},2027-01-01,"), "would grant nothing"),
            (format!("{KEY},2027-01-01,{KEY} !"), "\"modules\": expected"),
        ];
        let text: String = rows.iter().map(|(row, _)| format!("{row}\n")).collect();
        let text = format!("key,expires,modules\n{text}");
        for (read, (row, expected)) in read_all(text.as_bytes(), "csv").into_iter().zip(&rows) {
            let error = read.unwrap_err();
            assert!(error.contains(expected), "{row}: {error}");
            assert!(!error.contains(KEY), "{error}");
        }
        let bad = [&b"key,expires,modules\n\xff\xfe0123456789abcdef,2027-01-01,forms\n"[..]].concat();
        assert_eq!(
            read_all(&bad, "csv").remove(0),
            Err("column \"key\": it is not UTF-8".to_owned())
        );
    }

    #[test]
    fn keys_that_differ_in_case_have_one_id_and_two_spellings() {
        let ours = LicenseKey::from_random([7; 20]);
        let dashless = ours.reveal().replace('-', "").to_lowercase();
        let upper = KEY.to_uppercase();
        let text = format!(
            "key,expires,modules\n{KEY},never,forms\n{upper},never,forms\n{},never,forms\n{dashless},never,forms\n",
            ours.reveal()
        );
        let read: Vec<_> = read_all(text.as_bytes(), "csv")
            .into_iter()
            .map(Result::unwrap)
            .collect();
        assert_eq!(read[0].id, read[1].id);
        assert_ne!(read[0].spelling, read[1].spelling);
        assert_eq!(
            (read[2].id, read[2].spelling),
            (read[3].id, read[3].spelling),
            "a key of ours has one form"
        );
    }

    #[test]
    fn a_file_without_its_columns_is_refused_and_its_first_line_not_quoted() {
        let columns = |text: &str| {
            let preset = Preset::named("csv").unwrap();
            ExportFile::read(text.as_bytes(), preset, b',', &BTreeMap::new())
                .map(|file| file.columns().unused().to_vec())
                .map_err(|error| error.to_string())
        };
        assert_eq!(
            columns(&format!("{KEY},2027-01-01,forms\n")).unwrap_err(),
            "the first line has no column for key, expires, modules"
        );
        let error = columns("key,expires,modules,KEY \n").unwrap_err();
        assert_eq!(error, "the first line has two columns for key");
        let unused = columns("key,expires,modules,E-mail,rejected_line\n");
        assert_eq!(unused, Ok(vec!["E-mail".to_owned()]));
    }
}
