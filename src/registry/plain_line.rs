//! A line of an export that is plainly right, read fast: a million of them shall be in force two seconds after a change.
//!
//! Only spellings of a license that the [reader](super::reader) takes without a complaint are taken here, and few of them;
//! every other line goes to the reader, which also knows what is wrong with it and where.

use std::num::NonZeroU32;
use std::sync::Arc;

use chrono::NaiveDate;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::model::license::{License, Modules, Released, Sites, Status};
use crate::model::license_key::LicenseKey;

use super::licenses::MAX_GRACE_PERIOD_HOURS;

/// The usual fields, without escapes in their texts. `hosts` and `released` are unusual.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlainLine<'a> {
    id: &'a str,
    expires: &'a str,
    #[serde(borrow)]
    modules: &'a RawValue,
    #[serde(default, deserialize_with = "given")]
    status: Option<Status>,
    #[serde(default, deserialize_with = "given")]
    sites: Option<NonZeroU32>,
    #[serde(default, deserialize_with = "given")]
    grace_period_hours: Option<u32>,
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
        serde_json::from_str(line).ok()
    }

    /// The text of its modules.
    pub fn modules(&self) -> &'a str {
        self.modules.get()
    }

    /// The license, if nothing is wrong with it but perhaps its `modules`, which the reader took before.
    pub fn license(&self, modules: Arc<Modules>) -> Option<License> {
        let grace_period_hours = self.grace_period_hours;
        if grace_period_hours.is_some_and(|hours| hours > MAX_GRACE_PERIOD_HOURS) || LicenseKey::is_in(self.note) {
            return None;
        }
        Some(License {
            id: self.id.parse().ok()?,
            status: self.status.unwrap_or(Status::Active),
            expires: date(self.expires)?,
            modules,
            sites: self.sites.map_or(Sites::DEFAULT, Sites::Limited),
            grace_period_hours,
            hosts: Vec::new(),
            released: Released::default(),
            note: self.note.to_owned(),
        })
    }
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
