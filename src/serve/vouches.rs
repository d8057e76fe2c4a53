//! Vouching for licenses: a person says that what looks like sharing is fine until a day. Commands, the management API and the desk
//! share it.
//!
//! A license that somebody vouched for is in no list of findings and raises no suspicion. It works as before.

use std::collections::HashSet;
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};
use serde::Serialize;

use crate::serve::found_license;
use crate::serve::ledger_licenses::refresh;
use countersign_ledger::{Ledger, StoreError, VouchChange, VouchEntry};
use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::license_key::LicenseId;
use countersign_model::period::Period;
use countersign_model::remarks::Author;
use countersign_registry::Registry;

/// The most years that somebody vouches for a license at once.
pub const MOST_YEARS: u32 = 5;

/// Why nobody vouched for a license.
#[derive(Debug, thiserror::Error)]
pub enum VouchError {
    /// Nobody has this license.
    #[error("there is no license with this id")]
    NoSuchLicense,
    /// The day is past.
    #[error("{0} is past")]
    Past(NaiveDate),
    /// The day is too far away.
    #[error("{0} is more than {MOST_YEARS} years ahead")]
    TooFar(NaiveDate),
    /// Nothing was written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A license that somebody vouched for, as reports list it.
#[derive(Clone, Debug, Serialize)]
pub struct VouchedLicense {
    /// The license.
    pub license: LicenseId,
    /// The last day.
    pub until: NaiveDate,
    /// Since when.
    pub time: DateTime<Utc>,
    /// The token, the command or the desk.
    pub by: ChangeScope,
    /// The person. Absent if nobody was named, the name was erased, or the caller may not read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// Why; absent as above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl VouchedLicense {
    /// What `entry` says, with the texts that `text` has; `None` if it takes a word back.
    pub fn of(entry: &VouchEntry, text: impl Fn(Hex128) -> Option<String>) -> Option<Self> {
        Some(Self {
            license: entry.license,
            until: entry.until?,
            time: entry.time,
            by: ChangeScope::clone(&entry.scope),
            who: entry.who.and_then(&text),
            reason: entry.reason.and_then(&text),
        })
    }
}

/// The last day if nobody says another one: a year ahead.
pub fn usual_end(today: NaiveDate) -> NaiveDate {
    Period::Months(12).after(today)
}

/// The latest last day.
pub fn latest_end(today: NaiveDate) -> NaiveDate {
    Period::Months(12 * MOST_YEARS).after(today)
}

/// The licenses that are fine on this day.
pub fn fine_licenses(ledger: &Ledger, today: NaiveDate) -> HashSet<LicenseId> {
    ledger.vouches(today).iter().map(|entry| entry.license).collect()
}

/// Vouches for a license through the day `until`, or takes that back with `None`; whether anything changed. What is so already is
/// not written again.
///
/// # Errors
/// There is no such license, the day is past or too far away, or nothing was written.
pub async fn vouch(
    registry: &Registry,
    ledger: &Ledger,
    (scope, mut author): (&Arc<ChangeScope>, Author),
    license: LicenseId,
    until: Option<NaiveDate>,
    now: DateTime<Utc>,
) -> Result<bool, VouchError> {
    if !ledger.may_issue() {
        return Err(StoreError::Differs.into());
    }
    let today = now.date_naive();
    if let Some(until) = until {
        if until < today {
            return Err(VouchError::Past(until));
        }
        if until > latest_end(today) {
            return Err(VouchError::TooFar(until));
        }
    }
    refresh(ledger).await?;
    if found_license::find(registry, ledger, &license).is_none() {
        return Err(VouchError::NoSuchLicense);
    }
    // Texts have random names, so only here is the same reason the same.
    if let Some(reason) = &author.reason
        && let Some(before) = ledger.vouch_of(&license, today).filter(|before| before.until == until)
        && let Some(name) = before.reason
    {
        let kept = ledger.texts(vec![name]).await?;
        if kept.iter().any(|(_, stored)| stored.text() == Some(&*reason.text)) {
            author.reason = None;
        }
    }
    let change = VouchChange::new(license, until, Arc::clone(scope), author, now);
    let changed = ledger.vouch(change).await?;
    if changed {
        let until = until.map(|day| day.to_string());
        tracing::info!(license = license.log_tag(), by = %scope, until, "somebody vouched for a license, or took that back");
    }
    Ok(changed)
}
