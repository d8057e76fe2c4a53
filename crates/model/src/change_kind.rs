//! What a change did to a license of the ledger: for the audit trail, and for webhooks.

use crate::license::{License, LicenseStatus};

/// What the line of a license is about. Of several changes in one line, the first of these counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ChangeKind {
    /// It is new.
    Issued,
    /// It is revoked for good.
    Revoked,
    /// It is suspended.
    Suspended,
    /// It is active again.
    Resumed,
    /// It ends later.
    Renewed,
    /// A site lost its seat, or all did.
    Released,
    /// Other terms.
    Changed,
}

impl ChangeKind {
    /// What differs between a license and what it was before.
    pub fn between(before: &License, after: &License) -> Self {
        match after.status {
            status if status == before.status => {}
            LicenseStatus::Revoked => return Self::Revoked,
            LicenseStatus::Suspended => return Self::Suspended,
            LicenseStatus::Active => return Self::Resumed,
        }
        if after.expires > before.expires {
            Self::Renewed
        } else if after.details.released != before.details.released {
            Self::Released
        } else {
            Self::Changed
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use chrono::NaiveDate;

    use super::*;
    use crate::license::{Details, SiteLimit};
    use crate::license_key::LicenseId;

    #[test]
    fn the_gravest_difference_is_named() {
        let day = |day| NaiveDate::from_ymd_opt(2027, 1, day).unwrap();
        let license = License {
            id: LicenseId::from_bytes([1; 32]),
            status: LicenseStatus::Active,
            expires: day(2),
            modules: Arc::default(),
            sites: SiteLimit::DEFAULT,
            grace_period_hours: None,
            details: Details::default(),
            is_declared: false,
        };
        let with = |status, expires, sites| License {
            status,
            expires,
            sites,
            ..license.clone()
        };
        let mut released = license.clone();
        released.details.released.all = chrono::DateTime::from_timestamp(1, 0);
        let several = SiteLimit::Unlimited;
        for (after, kind) in [
            (with(LicenseStatus::Revoked, day(3), several), ChangeKind::Revoked),
            (with(LicenseStatus::Suspended, day(3), several), ChangeKind::Suspended),
            (with(LicenseStatus::Active, day(3), several), ChangeKind::Renewed),
            (with(LicenseStatus::Active, day(1), several), ChangeKind::Changed),
            (released, ChangeKind::Released),
        ] {
            assert_eq!(ChangeKind::between(&license, &after), kind);
        }
        let suspended = with(LicenseStatus::Suspended, day(2), SiteLimit::DEFAULT);
        assert_eq!(ChangeKind::between(&suspended, &license), ChangeKind::Resumed);
    }
}
