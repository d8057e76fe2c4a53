//! A license that one node issues is in force on another within a second, and a retry there finds it.

use std::time::Duration;

use countersign_ledger::{ChangeBasis, ChangeOutcome, LedgerChange};
use countersign_model::license::{License as ModelLicense, LicenseStatus};
use tempfile::TempDir;
use tokio::runtime::Builder;

use super::database::prepared_cluster;
use super::node::{code, instance, start};
use crate::support::eventually_within;
use crate::support::instance::License;
use crate::support::issued::issue;

/// What another node appended is read four times a second.
const A_SECOND: Duration = Duration::from_secs(1);

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
        .map(|folder| countersign_ledger::open_shared(&cluster.url("node"), folder.path(), false).unwrap());
    let issue = issue(&license);
    let runtime = Builder::new_current_thread().build().unwrap();
    let outcome = runtime.block_on(first.change_license(issue.clone())).unwrap();
    let ChangeOutcome::Recorded(issued) = outcome else {
        panic!("{outcome:?}")
    };
    eventually_within("the license is in force", A_SECOND, || {
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
    eventually_within("the license is suspended", A_SECOND, || {
        code(&server.validate(&license, "a.com")) == "suspended"
    });
}
