//! Licenses of the ledger, for tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, NaiveDate};

use countersign_model::api_token::ApiToken;
use countersign_model::change_kind::ChangeKind;
use countersign_model::digest::Digest;
use countersign_model::issued_license::{Hex128, IssueOrigin, IssuedLicense};
use countersign_model::license::{Details, License, LicenseStatus, SiteLimit};
use countersign_model::license_key::LicenseId;

/// A license that the token `shop` issued.
pub(crate) fn issued(number: u8) -> IssuedLicense {
    let scope = Arc::new("token:shop".parse().unwrap());
    IssuedLicense {
        license: License {
            id: LicenseId::from_bytes([number; 32]),
            status: LicenseStatus::Active,
            expires: NaiveDate::from_ymd_opt(9999, 12, 31).unwrap(),
            modules: Arc::new(BTreeMap::from([("forms".parse().unwrap(), Vec::new())])),
            sites: SiteLimit::DEFAULT,
            grace_period_hours: None,
            details: Details::default(),
            is_declared: false,
        },
        origin: IssueOrigin {
            body: Hex128([number; 16]),
            key: Hex128([number; 16]),
            salt: Hex128([number; 16]),
            scope: Arc::clone(&scope),
            secret: 1,
            issued: DateTime::from_timestamp(1, 0).unwrap(),
        },
        reference: None,
        kind: ChangeKind::Issued,
        revision: 1,
        scope,
        status_by: None,
        time: DateTime::from_timestamp(1, 0).unwrap(),
    }
}

/// A token that may change licenses, whose secret is its name.
pub(crate) fn api_token(name: &str) -> ApiToken {
    let time = DateTime::from_timestamp(1, 0).unwrap();
    ApiToken {
        name: name.parse().unwrap(),
        hash: Digest::of(name.as_bytes()),
        scopes: ["licenses:write".parse().unwrap()].into(),
        issued: time,
        used: None,
        revoked: false,
        time,
        who: None,
        reason: None,
    }
}
