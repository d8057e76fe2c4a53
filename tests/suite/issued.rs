//! Licenses that machines issued: the server takes those of files first, then those of the ledger.

use countersign_ledger::{ChangeBasis, ChangeOutcome, LedgerChange};
use countersign_model::license::{License as ModelLicense, LicenseStatus};
use serde_json::Value;

use crate::support::issued::issue;
use crate::support::server::countersign;
use crate::support::{Instance, License, Server};

fn record(instance: &Instance, change: LedgerChange) {
    let store = countersign_ledger::open(&instance.file("store")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let outcome = runtime.block_on(store.change_license(change)).unwrap();
    assert!(matches!(outcome, ChangeOutcome::Recorded(_)), "{outcome:?}");
    store.close().unwrap();
}

#[test]
fn a_license_of_the_ledger_binds_a_site_is_suspended_and_stays_so_whatever_a_file_declares() {
    let license = License::new();
    let other = License::new();
    let instance = Instance::with_licenses(&[other.toml("")]);
    let change = issue(&license);
    record(&instance, change.clone());
    let server = Server::start(&instance);
    assert_eq!(server.validate(&license, "a.com").code(), "ok");
    assert_eq!(server.validate(&license, "b.com").code(), "bound_elsewhere");
    assert!(server.stop().success());

    let output = countersign(&instance)
        .args(["bindings", "verify", "--json"])
        .output()
        .unwrap();
    let verified: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&verified["issued"], &verified["bindings"]), (&1.into(), &1.into()));

    let suspended = ModelLicense {
        status: LicenseStatus::Suspended,
        ..change.license.clone()
    };
    let basis = ChangeBasis::Revision(1);
    let change = LedgerChange {
        license: suspended,
        basis,
        ..change
    };
    record(&instance, change);
    let server = Server::start(&instance);
    assert_eq!(server.validate(&license, "a.com").code(), "suspended");
    assert!(server.stop().success());

    instance.write_licenses(&[other.toml(""), license.toml("sites = 2")]);
    let server = Server::start(&instance);
    for site in ["a.com", "b.com"] {
        assert_eq!(server.validate(&license, site).code(), "suspended", "{site}");
    }
}
