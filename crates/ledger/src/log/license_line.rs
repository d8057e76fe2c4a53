//! The line of a license that a machine issued or changed: the whole license, in the order of RFC 8785.
//!
//! Texts are ASCII without escapes, as in [`record`](crate::log::record), which calls this.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};
use serde::{Deserialize, Serialize};

use countersign_model::digest::Digest;
use countersign_model::issued_license::{ChangeKind, ChangeScope, Hex128, IssueOrigin, IssuedLicense};
use countersign_model::license::{License, LicenseDetails, LicenseStatus, Modules, ReleaseTimes, SiteLimit};
use countersign_model::license_key::LicenseId;
use countersign_model::remarks::{Metadata, Remarks};
use countersign_model::rights::Rights;
use countersign_model::sale::edits::Sold;
use countersign_model::site_host::SiteHost;

use crate::log::license_words;
use crate::log::line_event::{ChangesBy, EventLine, EventTexts, LineEvent, append};
use crate::log::position::Position;

/// The releases of a license: times by host, and `"*"` for all hosts.
const ALL_HOSTS: &str = "*";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LicenseLine {
    event: LicenseTag,
    expires: NaiveDate,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    grace_period_hours: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    holder: Option<Hex128>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    hosts: Vec<SiteHost>,
    kind: ChangeKind,
    license: LicenseId,
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    metadata: Metadata,
    modules: Modules,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note_ref: Option<Hex128>,
    origin: OriginMembers,
    previous: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason_ref: Option<Hex128>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reference: Option<Hex128>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    released: BTreeMap<String, DateTime<Utc>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    renewal_days: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replaces: Option<LicenseId>,
    revision: u32,
    #[serde(default, skip_serializing_if = "Rights::is_empty")]
    rights: Rights,
    scope: ChangeScope,
    sequence: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    site_moves: Option<u16>,
    sites: SiteLimit,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sold: Option<Box<Sold>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    staging_sites: Option<u16>,
    status: LicenseStatus,
    /// Absent if it is who made the change, or if the license is active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status_by: Option<ChangeScope>,
    synced: u64,
    time: DateTime<Utc>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    who: Option<Hex128>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum LicenseTag {
    License,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OriginMembers {
    body: Hex128,
    issued: DateTime<Utc>,
    key: Hex128,
    salt: Hex128,
    scope: ChangeScope,
    secret: u32,
}

impl LicenseLine {
    /// The line of this license after `previous`.
    pub(super) fn new(issued: &IssuedLicense, previous: Position, synced: u64) -> Self {
        let IssuedLicense {
            kind,
            license,
            origin,
            reference,
            revision,
            scope,
            status_by,
            time,
        } = issued;
        let LicenseDetails {
            hosts,
            released,
            replaces,
            staging_sites,
            site_moves,
            renewal_days,
            rights,
            note: _,
            remarks: _,
        } = &*license.details;
        let remarks = license.details.remarks();
        let of_hosts = released.hosts.iter().map(|(host, time)| (host.to_string(), *time));
        let of_all = released.all.map(|time| (ALL_HOSTS.to_owned(), time));
        Self {
            event: LicenseTag::License,
            expires: license.expires,
            grace_period_hours: license.grace_period_hours,
            holder: remarks.holder,
            hosts: hosts.to_vec(),
            kind: *kind,
            license: license.id,
            metadata: remarks.metadata.clone(),
            modules: Modules::clone(&license.modules),
            note_ref: remarks.note,
            origin: OriginMembers {
                body: origin.body,
                issued: origin.issued,
                key: origin.key,
                salt: origin.salt,
                scope: ChangeScope::clone(&origin.scope),
                secret: origin.secret,
            },
            previous: previous.digest,
            reason_ref: remarks.reason,
            reference: *reference,
            released: of_hosts.chain(of_all).collect(),
            renewal_days: *renewal_days,
            replaces: *replaces,
            revision: *revision,
            rights: rights.clone(),
            scope: ChangeScope::clone(scope),
            sequence: previous.sequence + 1,
            site_moves: *site_moves,
            sites: license.sites,
            sold: remarks.sold.clone(),
            staging_sites: *staging_sites,
            status: license.status,
            status_by: status_by.as_deref().filter(|by| *by != &**scope).cloned(),
            synced,
            time: *time,
            who: remarks.who,
        }
    }
}

impl EventLine for LicenseLine {
    type Event = Arc<IssuedLicense>;

    fn place(&self) -> (u64, Digest, u64) {
        (self.sequence, self.previous, self.synced)
    }

    fn event(self) -> serde_json::Result<Self::Event> {
        let mut released = ReleaseTimes::default();
        for (host, time) in self.released {
            if host == ALL_HOSTS {
                released.all = Some(time);
            } else {
                let host = host.parse::<SiteHost>().map_err(serde::de::Error::custom)?;
                released.hosts.insert(host, time);
            }
        }
        let scope = Arc::new(self.scope);
        let origin_scope = match self.origin.scope == *scope {
            true => scope.clone(),
            false => Arc::new(self.origin.scope),
        };
        let by = self.status_by.map_or_else(|| Arc::clone(&scope), Arc::new);
        let status_by = (self.status != LicenseStatus::Active).then_some(by);
        let remarks = Remarks {
            holder: self.holder,
            metadata: self.metadata,
            note: self.note_ref,
            reason: self.reason_ref,
            sold: self.sold,
            who: self.who,
        };
        let details = LicenseDetails {
            hosts: self.hosts.into(),
            released,
            note: String::new(),
            replaces: self.replaces,
            staging_sites: self.staging_sites,
            site_moves: self.site_moves,
            renewal_days: self.renewal_days,
            rights: self.rights,
            remarks: remarks.held(),
        };
        let issued = IssuedLicense {
            license: License {
                id: self.license,
                status: self.status,
                expires: self.expires,
                modules: Arc::new(self.modules),
                sites: self.sites,
                grace_period_hours: self.grace_period_hours,
                details: details.into(),
                is_declared: false,
            },
            origin: IssueOrigin {
                body: self.origin.body,
                key: self.origin.key,
                salt: self.origin.salt,
                scope: origin_scope,
                secret: self.origin.secret,
                issued: self.origin.issued,
            },
            reference: self.reference,
            kind: self.kind,
            revision: self.revision,
            scope,
            status_by,
            time: self.time,
        };
        Ok(Arc::new(issued))
    }
}

impl LineEvent for IssuedLicense {
    fn write(&self, bytes: &mut Vec<u8>, previous: Position, synced: u64) -> serde_json::Result<()> {
        append(bytes, &LicenseLine::new(self, previous, synced))
    }

    fn time(&self) -> DateTime<Utc> {
        self.time
    }

    fn license(&self) -> Option<&LicenseId> {
        Some(&self.license.id)
    }

    fn texts(&self) -> EventTexts {
        let remarks = self.license.details.remarks();
        EventTexts {
            note: remarks.note,
            reason: remarks.reason,
            who: remarks.who,
        }
    }

    fn scope(&self) -> Option<&ChangeScope> {
        Some(&self.scope)
    }

    fn words(&self) -> (&'static str, Vec<String>) {
        (self.kind.into(), license_words::first(self))
    }

    fn change(&self) -> Option<ChangesBy> {
        Some(match self.scope.is_shop() {
            true => ChangesBy::Anyone,
            false => ChangesBy::People,
        })
    }
}

/// How long the line of this license can be at most, with its line feed.
pub(crate) fn longest(issued: &IssuedLicense) -> usize {
    let last = Position {
        sequence: u64::MAX - 1,
        ..Position::genesis()
    };
    let latest = IssuedLicense {
        time: DateTime::<Utc>::MAX_UTC,
        ..issued.clone()
    };
    let line = LicenseLine::new(&latest, last, u64::MAX);
    // What cannot be written is too long.
    serde_json::to_vec(&line).map_or(usize::MAX, |line| line.len() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::record::{LedgerEvent, LedgerRecord};
    use crate::testing::{issued, written};

    #[test]
    fn a_license_is_canonical_json_and_reads_as_itself() {
        let mut whole = issued(1);
        whole.license.sites = SiteLimit::Unlimited;
        whole.license.grace_period_hours = Some(0);
        whole.license.details.hosts = vec!["a.com".parse().unwrap()].into();
        whole.license.details.staging_sites = Some(u16::MAX);
        whole.license.details.site_moves = Some(0);
        whole.license.details.renewal_days = Some(3);
        whole.license.details.replaces = Some(LicenseId::from_bytes([9; 32]));
        whole.license.details.released.all = DateTime::from_timestamp(3, 0);
        let released_at = DateTime::from_timestamp(4, 5).unwrap();
        let host = "1.example".parse().unwrap();
        whole.license.details.released.hosts.insert(host, released_at);
        whole.reference = Some(Hex128([7; 16]));
        let remarks = Remarks {
            holder: Some(Hex128([1; 16])),
            metadata: serde_json::from_str(r#"{"a":"\"é\\","license":"x"}"#).unwrap(),
            note: Some(Hex128([2; 16])),
            reason: Some(Hex128([3; 16])),
            sold: Some(Box::new(Sold::of(Hex128([5; 16])))),
            who: Some(Hex128([4; 16])),
        };
        whole.license.details.remarks = remarks.held();
        whole.scope = Arc::new("shop:stripe".parse().unwrap());
        let mut suspended = whole.clone();
        suspended.license.status = LicenseStatus::Suspended;
        suspended.status_by = Some(Arc::clone(&suspended.scope));
        let mut surplus = suspended.clone();
        surplus.status_by = Some(Arc::new("surplus:stripe".parse().unwrap()));
        for license in [issued(1), whole, suspended, surplus] {
            written(LedgerEvent::License(Arc::new(license)));
        }
    }

    #[test]
    fn a_note_stays_out_of_the_ledger() {
        let mut noted = issued(1);
        noted.license.details.note = "Jane Doe".into();
        let line = serde_json::to_string(&LicenseLine::new(&noted, Position::genesis(), 0)).unwrap();
        assert!(!line.contains("Jane"), "{line}");
    }

    #[test]
    fn what_is_no_license_is_refused() {
        let line = serde_json::to_string(&LicenseLine::new(&issued(1), Position::genesis(), 0)).unwrap() + "\n";
        assert!(LedgerRecord::read(line.as_bytes()).is_ok());
        for (part, other) in [
            ("\"sites\":1", "\"sites\":0"),
            ("\"sites\":1", "\"sites\":\"many\""),
            ("\"status\":\"active\"", "\"status\":\"lost\""),
            ("token:shop", "shop"),
            ("\"revision\":1", "\"revision\":-1"),
            ("\"revision\":1", "\"Note\":\"\",\"revision\":1"),
            ("\"modules\"", "\"metadata\":{\"A\":\"b\"},\"modules\""),
            ("\"revision\":1", "\"revision\":1,\"who\":\"Anna\""),
        ] {
            let bad = line.replace(part, other);
            assert_ne!(bad, line, "{part}");
            assert!(LedgerRecord::read(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
