//! The line of a sale: its state and the names that became known, in the order of RFC 8785.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use countersign_model::digest::Digest;
use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::license::LicenseStatus;
use countersign_model::license_key::LicenseId;
use countersign_model::sale_state::{CauseState, SaleState};

use crate::log::event::{EventLine, LedgerEvent};
use crate::log::{Position, SaleEntry};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SaleLine {
    event: SaleTag,
    issued: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    items_changed_at: Option<DateTime<Utc>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    items_until: Option<DateTime<Utc>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<LicenseId>,
    names: Vec<Hex128>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    paid_until: Option<DateTime<Utc>>,
    #[serde(default = "active", skip_serializing_if = "is_active")]
    payment_dispute: LicenseStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payment_dispute_at: Option<DateTime<Utc>>,
    previous: Digest,
    sale: Hex128,
    scope: ChangeScope,
    sequence: u64,
    status: LicenseStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status_at: Option<DateTime<Utc>>,
    #[serde(default = "active", skip_serializing_if = "is_active")]
    subscription: LicenseStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    subscription_at: Option<DateTime<Utc>>,
    synced: u64,
    time: DateTime<Utc>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SaleTag {
    Sale,
}

fn active() -> LicenseStatus {
    LicenseStatus::Active
}

fn is_active(status: &LicenseStatus) -> bool {
    *status == LicenseStatus::Active
}

impl SaleLine {
    /// The line of this sale after `previous`.
    pub(super) fn new(entry: &SaleEntry, previous: Position, synced: u64) -> Self {
        let SaleEntry {
            state,
            names,
            scope,
            time,
        } = entry;
        Self {
            event: SaleTag::Sale,
            issued: state.is_issued,
            items_changed_at: state.changed_at,
            items_until: state.changed_until,
            key: state.key,
            names: names.clone(),
            paid_until: state.paid_until,
            payment_dispute: state.dispute.status,
            payment_dispute_at: state.dispute.at,
            previous: previous.digest,
            sale: state.id,
            scope: ChangeScope::clone(scope),
            sequence: previous.sequence + 1,
            status: state.status,
            status_at: state.status_at,
            subscription: state.subscription.status,
            subscription_at: state.subscription.at,
            synced,
            time: *time,
        }
    }
}

impl EventLine for SaleLine {
    fn place(&self) -> (u64, Digest, u64) {
        (self.sequence, self.previous, self.synced)
    }

    fn event(self) -> serde_json::Result<LedgerEvent> {
        let entry = SaleEntry {
            state: SaleState {
                id: self.sale,
                is_issued: self.issued,
                status: self.status,
                status_at: self.status_at,
                dispute: CauseState {
                    status: self.payment_dispute,
                    at: self.payment_dispute_at,
                },
                subscription: CauseState {
                    status: self.subscription,
                    at: self.subscription_at,
                },
                changed_at: self.items_changed_at,
                changed_until: self.items_until,
                paid_until: self.paid_until,
                key: self.key,
            },
            names: self.names,
            scope: Arc::new(self.scope),
            time: self.time,
        };
        Ok(LedgerEvent::Sale(Arc::new(entry)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::MAX_NAMES;
    use crate::log::record::{LedgerRecord, MAX};

    #[test]
    fn a_sale_is_canonical_json_and_reads_as_itself_and_the_longest_fits_a_line() {
        let latest = DateTime::<Utc>::MAX_UTC;
        for time in [DateTime::from_timestamp(7, 0).unwrap(), latest] {
            let state = SaleState {
                id: Hex128([1; 16]),
                is_issued: true,
                status: LicenseStatus::Suspended,
                status_at: Some(time).filter(|time| *time == latest),
                dispute: CauseState {
                    status: LicenseStatus::Suspended,
                    at: Some(time),
                },
                subscription: CauseState {
                    status: LicenseStatus::Suspended,
                    at: Some(time).filter(|time| *time == latest),
                },
                changed_at: Some(time),
                changed_until: Some(time),
                paid_until: Some(time).filter(|time| *time == latest),
                key: Some(LicenseId::from_bytes([9; 32])).filter(|_| time == latest),
            };
            let entry = SaleEntry {
                state,
                names: vec![Hex128([2; 16]); 2 * MAX_NAMES],
                scope: Arc::new(format!("shop:{}", "x".repeat(64)).parse().unwrap()),
                time,
            };
            let line = LedgerRecord {
                previous: Position::genesis(),
                synced: 0,
                change: LedgerEvent::Sale(Arc::new(entry)),
            };
            let mut bytes = Vec::new();
            line.write(&mut bytes).unwrap();
            assert!(bytes.len() + 40 < MAX);
            let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
            let canonical = serde_json_canonicalizer::to_string(&value).unwrap() + "\n";
            assert_eq!(String::from_utf8(bytes.clone()).unwrap(), canonical);
            assert_eq!(LedgerRecord::read(&bytes).unwrap(), line);
        }
    }
}
