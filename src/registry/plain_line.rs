//! A line of an export that is plainly right, read fast: a million of them shall be in force two seconds after a change.
//!
//! Only spellings of a license that the [reader](crate::registry::reader) takes without a complaint are taken here, and few of them;
//! every other line goes to the reader, which also knows what is wrong with it and where.

use std::num::NonZeroU32;
use std::sync::Arc;

use chrono::NaiveDate;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::model::license::{License, Modules, Particulars, ParticularsHeld, Sites, Status};
use crate::model::license_key::LicenseKey;

use crate::registry::Notes;
use crate::registry::license::MAX_GRACE_PERIOD_HOURS;

/// The usual fields, without escapes in their texts. `hosts` and `released` are unusual.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlainLine<'a> {
    id: &'a str,
    expires: &'a str,
    #[serde(borrow)]
    modules: &'a RawValue,
    #[serde(borrow, default, deserialize_with = "given")]
    status: Option<&'a str>,
    #[serde(default, deserialize_with = "given")]
    sites: Option<NonZeroU32>,
    #[serde(default, deserialize_with = "given")]
    grace_period_hours: Option<u16>,
    #[serde(default)]
    note: &'a str,
}

/// A value and never `null`, which serde would take for a field that is not there.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

impl<'a> PlainLine<'a> {
    /// The line's fields; `None` where the reader has to look.
    pub fn read(line: &'a str) -> Option<Self> {
        // serde would also take an array for a struct, field after field.
        if line.trim_start().starts_with('{') { serde_json::from_str(line).ok() } else { None }
    }

    /// The text of its modules.
    pub fn modules(&self) -> &'a str {
        self.modules.get()
    }

    /// The license, if nothing is wrong with it but perhaps its `modules`, which the reader took before.
    pub fn license(&self, modules: Arc<Modules>, notes: Notes) -> Option<License> {
        let grace_period_hours = self.grace_period_hours;
        if grace_period_hours.is_some_and(|hours| hours > MAX_GRACE_PERIOD_HOURS) || LicenseKey::is_in(self.note) {
            return None;
        }
        Some(License {
            id: self.id.parse().ok()?,
            status: self.status.map_or(Some(Status::Active), status)?,
            expires: date(self.expires)?,
            modules,
            sites: self.sites.map_or(Sites::DEFAULT, Sites::Limited),
            grace_period_hours,
            particulars: match notes {
                Notes::Kept => ParticularsHeld { note: self.note.to_owned(), ..ParticularsHeld::default() }.into(),
                Notes::Skipped => Particulars::default(),
            },
        })
    }
}

/// By its name only: serde would also take `{"revoked":null}` for an enum.
fn status(text: &str) -> Option<Status> {
    [Status::Active, Status::Suspended, Status::Revoked].into_iter().find(|status| status.as_str() == text)
}

/// `YYYY-MM-DD` and nothing else.
fn date(text: &str) -> Option<NaiveDate> {
    let digits = |from: usize, to: usize| {
        let digits = text.get(from..to)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u32>().ok())?
    };
    let dashes = text.len() == 10 && [4, 7].iter().all(|&at| text.as_bytes()[at] == b'-');
    let (year, month, day) = (digits(0, 4)?, digits(5, 7)?, digits(8, 10)?);
    if dashes { NaiveDate::from_ymd_opt(year as i32, month, day) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::licenses::testing::{ID, load};

    const MODULES: &str = r#""modules":{"forms":["pdf"]}"#;

    fn line(fields: &str) -> String {
        format!(r#"{{"id":"{ID}","expires":"2027-12-31",{MODULES}{fields}}}"#)
    }

    fn plain(line: &str, modules: Arc<Modules>) -> Option<License> {
        PlainLine::read(line)?.license(modules, Notes::Kept)
    }

    #[test]
    fn a_plain_line_says_what_the_reader_reads() {
        for fields in
            ["", r#","status":"suspended""#, r#","sites":3,"grace_period_hours":0"#, r#","note":"order 7, ü""#]
        {
            let line = line(fields);
            let (licenses, complaints) = load(&[("a.jsonl", &(line.clone() + "\n"))]);
            assert_eq!(complaints, [""; 0]);
            let license = licenses.iter().next().unwrap();
            assert_eq!(plain(&line, license.modules.clone()).as_ref(), Some(license));
        }
    }

    #[test]
    fn what_is_unusual_or_wrong_is_left_to_the_reader() {
        let key = LicenseKey::from_random([7; 20]);
        for fields in [
            r#","hosts":["a.com"]"#,
            r#","released":{}"#,
            r#","sites":"unlimited""#,
            r#","sites":0"#,
            r#","sites":null"#,
            r#","status":"on""#,
            r#","status":null"#,
            r#","status":{"revoked":null}"#,
            r#","grace_period_hours":8761"#,
            r#","note":"a\nb""#,
            r#","note":null"#,
            r#","note":"a","note":"b""#,
            r#","expire":"2027-12-31""#,
            &format!(r#","note":"{}""#, key.reveal()),
        ] {
            assert!(plain(&line(fields), Arc::default()).is_none(), "{fields}");
        }
        for wrong in ["2027-1-31", "2027-02-30", "+027-01-01", "2027-01-01 ", "2027/01/01", ""] {
            assert!(plain(&line("").replace("2027-12-31", wrong), Arc::default()).is_none(), "{wrong}");
        }
        assert!(plain(&line("").replace(ID, key.reveal()), Arc::default()).is_none());
    }

    #[test]
    fn what_is_refused_on_its_own_is_refused_after_a_line_with_the_same_modules() {
        let array = format!(r#"["{ID}","2027-12-31",{{"forms":["pdf"]}},"active",3,72,"x"]"#);
        for (wrong, complaint) in [
            (array, "1: expected an object, found an array"),
            (line(r#","status":{"revoked":null}"#), r#"134: "status" must be a string, not a table"#),
        ] {
            let (licenses, complaints) = load(&[("a.jsonl", &format!("{wrong}\n"))]);
            assert_eq!((licenses.len(), complaints), (0, vec![format!("a.jsonl:1:{complaint}")]));
            let good = line("").replacen('0', "1", 1);
            let (licenses, complaints) = load(&[("a.jsonl", &format!("{good}\n{wrong}\n"))]);
            assert_eq!((licenses.len(), complaints), (1, vec![format!("a.jsonl:2:{complaint}")]));
        }
    }

    #[test]
    fn a_wrong_line_among_plain_ones_is_still_found_with_its_place() {
        let other = |digit: &str| line("").replacen('0', digit, 1);
        let text = [other("1"), other("2"), other("3").replace("12-31", "13-31"), other("4")].join("\n") + "\n";
        let (licenses, complaints) = load(&[("a.jsonl", &text)]);
        assert_eq!(complaints, [r#"a.jsonl:3:84: "expires" must be a string such as "2027-12-31""#]);
        assert_eq!(licenses.len(), 3);
    }
}
