//! A license that one node issues is in force on another within a second, and a retry there finds it.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, NaiveDate};
use countersign::model::issued_license::{Hex128, IssueOrigin};
use countersign::model::license::{Details, License as ModelLicense, LicenseStatus, SiteLimit};
use countersign::model::license_key::LicenseKey;
use countersign::store::{self, ChangeBasis, ChangeOutcome, LedgerChange};
use tempfile::TempDir;
use tokio::runtime::Builder;

use super::database::prepared_cluster;
use super::node::{code, instance, start};
use crate::support::eventually;
use crate::support::instance::License;

/// What another node appended is read four times a second.
const A_SECOND: Duration = Duration::from_secs(1);

/// What issues a license for one site and the module `forms`.
pub fn issue(license: &License) -> LedgerChange {
    let key: LicenseKey = license.key.parse().unwrap();
    let scope = Arc::new("token:shop".parse().unwrap());
    LedgerChange {
        license: ModelLicense {
            id: key.id(),
            status: LicenseStatus::Active,
            expires: NaiveDate::from_ymd_opt(9999, 12, 31).unwrap(),
            modules: Arc::new([("forms".parse().unwrap(), Vec::new())].into()),
            sites: SiteLimit::DEFAULT,
            grace_period_hours: None,
            details: Details::default(),
        },
        reference: None,
        scope: Arc::clone(&scope),
        now: DateTime::UNIX_EPOCH,
        basis: ChangeBasis::from(IssueOrigin {
            body: Hex128([1; 16]),
            key: Hex128(*key.id().as_bytes().first_chunk().unwrap()),
            salt: Hex128([3; 16]),
            scope,
            secret: 1,
            issued: DateTime::UNIX_EPOCH,
        }),
    }
}

#[test]
fn a_license_that_one_node_issues_is_in_force_on_another_within_a_second() {
    let cluster = prepared_cluster();
    let license = License::new();
    let in_file = License::new();
    let instance = instance(&[&in_file]);
    let server = start(&instance, &cluster.url("node"));
    assert_eq!(code(&server.validate(&license, "a.com")), "unknown_license");

    let folders = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let [first, second] = folders
        .each_ref()
        .map(|folder| store::open_shared(&cluster.url("node"), folder.path(), false).unwrap());
    let issue = issue(&license);
    let runtime = Builder::new_current_thread().build().unwrap();
    let outcome = runtime.block_on(first.change_license(issue.clone())).unwrap();
    let ChangeOutcome::Recorded(issued) = outcome else {
        panic!("{outcome:?}")
    };
    eventually("the license is in force", A_SECOND, || {
        code(&server.validate(&license, "a.com")) == "ok"
    });

    let again = runtime.block_on(second.change_license(issue.clone())).unwrap();
    assert_eq!(again, ChangeOutcome::Repeated(issued));

    let suspend = LedgerChange {
        license: ModelLicense {
            status: LicenseStatus::Suspended,
            ..issue.license.clone()
        },
        basis: ChangeBasis::Revision(1),
        ..issue
    };
    let outcome = runtime.block_on(second.change_license(suspend)).unwrap();
    assert!(matches!(outcome, ChangeOutcome::Recorded(_)), "{outcome:?}");
    eventually("the license is suspended", A_SECOND, || {
        code(&server.validate(&license, "a.com")) == "suspended"
    });
}
