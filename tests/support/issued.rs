//! A license that a machine issues: what the ledger is asked, and what the API answers.

use std::sync::Arc;

use chrono::{DateTime, NaiveDate};
use countersign_ledger::{ChangeBasis, LedgerChange};
use countersign_model::issued_license::{Hex128, IssueOrigin};
use countersign_model::license::{Details, License as ModelLicense, LicenseStatus, SiteLimit};
use countersign_model::license_key::LicenseKey;
use countersign_model::remarks::{Author, NewRemarks};

use super::http::Response;
use super::instance::License;

/// What issues a license for one site and the module `forms`, for the request that this byte names.
pub fn issue_as(license: &License, request: u8) -> LedgerChange {
    let key: LicenseKey = license.key.parse().unwrap();
    let scope = Arc::new("token:shop".parse().unwrap());
    LedgerChange {
        remarks: NewRemarks::default(),
        author: Author::default(),
        license: ModelLicense {
            id: key.id(),
            status: LicenseStatus::Active,
            expires: NaiveDate::from_ymd_opt(9999, 12, 31).unwrap(),
            modules: Arc::new([("forms".parse().unwrap(), Vec::new())].into()),
            sites: SiteLimit::DEFAULT,
            grace_period_hours: None,
            details: Details::default(),
            is_declared: false,
        },
        reference: None,
        scope: Arc::clone(&scope),
        status_by: None,
        now: DateTime::from_timestamp(1_700_000_000, 0).unwrap(),
        basis: ChangeBasis::from(IssueOrigin {
            body: Hex128([request; 16]),
            key: Hex128([request; 16]),
            salt: Hex128([3; 16]),
            scope,
            secret: 1,
            issued: DateTime::UNIX_EPOCH,
        }),
    }
}

/// The same for a request that no other license has.
pub fn issue(license: &License) -> LedgerChange {
    let mut change = issue_as(license, 1);
    let key = Hex128(*change.license.id.as_bytes().first_chunk().unwrap());
    if let ChangeBasis::Issue { origin, .. } = &mut change.basis {
        origin.key = key;
    }
    change
}

/// The license of the API's answer, as sites know it.
pub fn license_of(answer: &Response) -> License {
    let told = answer.json();
    License {
        id: told["id"].as_str().unwrap().to_owned(),
        key: told["license_key"]
            .as_str()
            .unwrap_or_else(|| panic!("{told}"))
            .to_owned(),
    }
}
