//! `bindings repair` appends lines of every kind: what shops told of their sales, and seats that sites gave back.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use countersign_ledger::{
    self, BindOutcome, LedgerChange, LedgerState, ReleaseRequest, Releaser, RepairOutcome, SaleChange, SaleOutcome,
    SeatRequest, SiteReleaseOutcome,
};
use countersign_model::issued_license::Hex128;
use countersign_model::license::LicenseStatus;
use countersign_model::sale_state::{SaleEvent, SaleState};
use countersign_model::site_release::ReleaseHash;

use super::database::prepared_cluster;
use super::repair::{Dump, OwnNode, issue};
use crate::support::eventually;
use crate::tools::postgres::Cluster;

const SOON: Duration = Duration::from_secs(20);

impl OwnNode {
    /// What a shop tells of a sale that has these names.
    fn hears(&self, names: &[u8], event: SaleEvent, second: i64) -> SaleOutcome {
        let change = SaleChange {
            names: names.iter().map(|number| Hex128([*number; 16])).collect(),
            event,
            at: DateTime::from_timestamp(second, 0),
            scope: Arc::new("shop:stripe".parse().unwrap()),
            now: Utc::now(),
        };
        self.runtime.block_on(self.bindings.record_sale(change)).unwrap()
    }

    fn sale(&self, name: u8) -> Option<SaleState> {
        self.bindings.sale(Hex128([name; 16]))
    }

    fn bind(&self, issued: &LedgerChange, host: &str, secret: &str) -> bool {
        let host = host.parse().unwrap();
        let request = SeatRequest {
            release_hash: Some(ReleaseHash::of(secret)),
            ..SeatRequest::new(&issued.license, &host, Utc::now())
        };
        self.runtime.block_on(self.bindings.bind(request)).unwrap() == BindOutcome::Bound
    }

    fn release(&self, issued: &LedgerChange, host: &str, secret: &str) {
        let request = ReleaseRequest {
            license: issued.license.clone(),
            host: host.parse().unwrap(),
            by: Releaser::Site {
                proof: Some(ReleaseHash::of(secret)),
                most_moves: 3,
            },
            now: Utc::now(),
        };
        let outcome = self.runtime.block_on(self.bindings.release(request)).unwrap();
        assert_eq!(outcome, SiteReleaseOutcome::Released);
    }

    /// The sites that hold a seat.
    fn holders(&self, issued: &LedgerChange) -> Vec<String> {
        let sites = self.bindings.of(&issued.license.id);
        let held = sites.iter().filter(|binding| !binding.is_released());
        held.map(|binding| binding.host.to_string()).collect()
    }

    fn has_lost_lines(&self) {
        eventually("the node notices", SOON, || {
            self.bindings.health().ledger == LedgerState::LinesLost
        });
    }

    fn serves(&self) {
        eventually("the node serves again", SOON, || {
            self.bindings.health().ledger == LedgerState::Ok
        });
    }

    /// Repairs from what this node kept.
    fn repaired(&self, cluster: &Cluster, dry_run: bool) -> RepairOutcome {
        let files = countersign_ledger::kept_files(self.folder.path()).unwrap();
        assert_eq!(files.len(), 1);
        countersign_ledger::repair_shared(&cluster.url("postgres"), &files, &|_| None, 1, dry_run).unwrap()
    }
}

fn status(status: LicenseStatus) -> SaleEvent {
    SaleEvent::Status(status)
}

#[test]
fn what_shops_told_of_lost_sales_counts_again() {
    let cluster = prepared_cluster();
    let node = OwnNode::start(&cluster);
    node.hears(&[1], SaleEvent::Paid, 1);
    let dump = Dump::of(&cluster);
    // A refund, and another name of the same sale.
    node.hears(&[1, 2], status(LicenseStatus::Revoked), 9);
    node.hears(&[3, 4], SaleEvent::Paid, 2);
    node.hears(&[3], SaleEvent::Changed, 4);
    node.hears(&[5], SaleEvent::Named, 2);
    node.hears(&[6, 7], SaleEvent::Paid, 2);
    dump.restore(&cluster);
    node.has_lost_lines();
    let other = OwnNode::start(&cluster);
    assert_eq!(
        other.sale(1).unwrap().status,
        LicenseStatus::Active,
        "the refund is lost"
    );
    // Delivered again, and newer than what was lost.
    other.hears(&[3], status(LicenseStatus::Suspended), 5);
    for name in [6, 7] {
        other.hears(&[name], SaleEvent::Paid, 3);
    }

    let planned = node.repaired(&cluster, true);
    assert_eq!((planned.sales, planned.unfit_sales), (3, 1), "{planned:?}");
    assert_eq!(cluster.psql("SELECT sequence FROM countersign.head"), "4");
    let repaired = node.repaired(&cluster, false);
    assert_eq!(
        (repaired.sales, repaired.unfit_sales, repaired.anew),
        (3, 1, true),
        "{repaired:?}"
    );
    for node in [&node, &other] {
        node.serves();
        let has_status = |name, status| node.sale(name).is_some_and(|sale| sale.status == status);
        eventually("it knows of the refund and of the suspension", SOON, || {
            has_status(2, LicenseStatus::Revoked) && has_status(3, LicenseStatus::Suspended)
        });
        let refunded = node.sale(1).unwrap();
        assert!(refunded.is_issued);
        assert_eq!(
            (node.sale(2), refunded.status_at),
            (Some(refunded), DateTime::from_timestamp(9, 0))
        );
        let changed = node.sale(3).unwrap();
        assert_eq!((node.sale(4), changed.is_issued), (Some(changed), true));
        assert_eq!(
            (changed.status, changed.changed_at),
            (LicenseStatus::Suspended, DateTime::from_timestamp(4, 0))
        );
        assert!(node.sale(5).is_some());
        assert_ne!(node.sale(6), node.sale(7), "two sales stay two");
        // A delivery that comes again changes nothing.
        let before = cluster.psql("SELECT sequence FROM countersign.head");
        node.hears(&[1, 2], status(LicenseStatus::Revoked), 9);
        node.hears(&[3, 4], SaleEvent::Paid, 2);
        assert_eq!(cluster.psql("SELECT sequence FROM countersign.head"), before);
    }
    let again = node.repaired(&cluster, false);
    assert_eq!((again.sales, again.anew), (0, false), "{again:?}");
}

#[test]
fn seats_that_sites_gave_back_are_free_again() {
    let cluster = prepared_cluster();
    let node = OwnNode::start(&cluster);
    let [left, taken_again, moved] = [issue(1), issue(2), issue(3)];
    for issued in [&left, &taken_again, &moved] {
        node.runtime
            .block_on(node.bindings.change_license(issued.clone()))
            .unwrap();
        assert!(node.bind(issued, "old.example", "a secret"));
    }
    let dump = Dump::of(&cluster);
    node.release(&left, "old.example", "a secret");
    node.release(&taken_again, "old.example", "a secret");
    assert!(node.bind(&taken_again, "old.example", "another secret"));
    node.release(&moved, "old.example", "a secret");
    assert!(node.bind(&moved, "new.example", "a secret"));
    dump.restore(&cluster);
    node.has_lost_lines();
    let other = OwnNode::start(&cluster);
    assert_eq!(other.holders(&moved), ["old.example"]);

    let repaired = node.repaired(&cluster, false);
    assert_eq!((repaired.freed, repaired.bound), (3, 2), "{repaired:?}");
    for node in [&node, &other] {
        node.serves();
        eventually("it knows who moved", SOON, || node.holders(&moved) == ["new.example"]);
        assert_eq!(node.holders(&left), [""; 0]);
        assert_eq!(node.holders(&taken_again), ["old.example"]);
    }
    // The secret that the site has now.
    other.release(&taken_again, "old.example", "another secret");
    assert!(other.bind(&left, "next.example", "a secret"));
    let lines = cluster.psql("SELECT line FROM countersign.ledger WHERE line LIKE '%\"event\":\"released\"%'");
    assert_eq!(lines.lines().count(), 4, "three, and the one just now");
    assert!(lines.lines().all(|line| line.contains("\"how\":\"secret\"")), "{lines}");
}
