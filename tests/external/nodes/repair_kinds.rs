//! `bindings repair` appends lines of every kind: what shops told of their sales, seats that sites gave back, and licenses that
//! people vouched for.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};
use countersign_ledger::{
    self, BindOutcome, HiddenId, KnownFacts, LedgerChange, LedgerState, ReleaseRequest, Releaser, RepairOutcome,
    SaleChange, SaleOutcome, SeatRequest, SiteReleaseOutcome, StoreSource, Successor, VouchChange,
};
use countersign_model::issued_license::{ChangeScope, Hex128};
use countersign_model::license_key::LicenseId;
use countersign_model::remarks::{Author, NamedText};
use countersign_model::sale::fact::{Fact, Names, Payment, Refund, Subscription, SubscriptionStatus};
use countersign_model::site_release::ReleaseHash;

use super::database::prepared_cluster;
use super::repair::{Dump, OwnNode, issue};
use crate::support::eventually;
use crate::tools::postgres::Cluster;

impl OwnNode {
    /// What a shop says of a sale.
    fn hears(&self, fact: Fact<Hex128>) -> SaleOutcome {
        let facts = vec![fact.map(&mut HiddenId::from)];
        let scope = Arc::new("shop:stripe".parse().unwrap());
        let change = SaleChange::new(facts, BTreeMap::new(), scope, Utc::now());
        self.runtime.block_on(self.bindings.record_sale(change)).unwrap()
    }

    fn sale(&self, name: u8) -> Option<(Hex128, KnownFacts)> {
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
                successor: None,
            },
            now: Utc::now(),
        };
        let outcome = self.runtime.block_on(self.bindings.release(request)).unwrap();
        assert_eq!(outcome, SiteReleaseOutcome::Released);
    }

    fn moves(&self, issued: &LedgerChange, [from, to]: [&str; 2], [old, new]: [&str; 2]) {
        let request = ReleaseRequest {
            license: issued.license.clone(),
            host: from.parse().unwrap(),
            by: Releaser::Site {
                proof: Some(ReleaseHash::of(old)),
                most_moves: 3,
                successor: Some(Successor {
                    host: to.parse().unwrap(),
                    release_hash: Some(ReleaseHash::of(new)),
                    staging: 1.into(),
                }),
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
        eventually("the node notices", || {
            self.bindings.health().ledger == LedgerState::LinesLost
        });
    }

    fn serves(&self) {
        eventually("the node serves again", || {
            self.bindings.health().ledger == LedgerState::Ok
        });
    }

    /// Repairs from what this node kept.
    fn repaired(&self, cluster: &Cluster, dry_run: bool) -> RepairOutcome {
        let kept = || countersign_ledger::kept_files(self.folder.path()).unwrap();
        eventually("what it knows is kept", || !kept().is_empty());
        let files = kept();
        assert_eq!(files.len(), 1);
        countersign_ledger::repair_shared(&cluster.url("postgres"), &files, &|_| None, &1.into(), dry_run).unwrap()
    }
}

fn at(second: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(second, 0).unwrap()
}

fn payment(number: u8, second: i64) -> Fact<Hex128> {
    Fact::Payment(Payment {
        amount: Some(100),
        at: at(second),
        id: Hex128([number; 16]),
        is_valid: true,
        lines: Vec::new(),
        names: Vec::new(),
        paid: Some(at(second)),
        place: None,
        renews: Vec::new(),
        subscription: None,
    })
}

fn refund(of: u8, second: i64) -> Fact<Hex128> {
    Fact::Refund(Refund {
        amount: 100,
        at: at(second),
        id: Hex128([100 + of; 16]),
        is_approved: true,
        names: Vec::new(),
        of: Hex128([of; 16]),
    })
}

/// A subscription that named these ends.
fn subscription(number: u8, ends: i64, second: i64) -> Fact<Hex128> {
    Fact::Subscription(Subscription {
        at: at(second),
        due_days: None,
        ended: None,
        ends: Some(at(ends)),
        free: None,
        id: Hex128([number; 16]),
        items: Vec::new(),
        parent: None,
        place: None,
        removed: Vec::new(),
        renews: true,
        resubscribes: None,
        status: SubscriptionStatus::Active,
    })
}

fn names(numbers: &[u8]) -> Fact<Hex128> {
    Fact::Names(Names {
        ids: numbers.iter().map(|number| Hex128([*number; 16])).collect(),
    })
}

#[test]
fn licenses_that_people_vouched_for_are_fine_again() {
    let cluster = prepared_cluster();
    let node = OwnNode::start(&cluster);
    let day = NaiveDate::from_ymd_opt(2099, 1, 1).unwrap();
    let license = |number: u8| LicenseId::from_bytes([number; 32]);
    let vouch = |node: &OwnNode, number: u8, until: Option<NaiveDate>| {
        let scope = Arc::new(ChangeScope::operator());
        let author = Author {
            who: Some(NamedText::random([9; 16], "Erika")),
            reason: Some(NamedText::random([number; 16], "an agency")),
        };
        let change = VouchChange::new(license(number), until, scope, author, Utc::now());
        assert!(node.runtime.block_on(node.bindings.vouch(change)).unwrap());
    };
    vouch(&node, 1, Some(day));
    let dump = Dump::of(&cluster);
    vouch(&node, 1, None);
    vouch(&node, 2, Some(day));
    vouch(&node, 3, Some(day));
    let lost = node.bindings.vouch_of(&license(2), day);
    dump.restore(&cluster);
    node.has_lost_lines();
    let other = OwnNode::start(&cluster);
    let is_fine = |number| other.bindings.vouch_of(&license(number), day).is_some();
    assert_eq!([1, 2, 3].map(is_fine), [true, false, false]);
    // What somebody says since counts.
    let later = day.succ_opt().unwrap();
    vouch(&other, 3, Some(later));

    node.repaired(&cluster, true);
    assert_eq!([1, 2, 3].map(is_fine), [true, false, true]);
    node.repaired(&cluster, false);
    for node in [&node, &other] {
        node.serves();
        eventually("what was lost is in force again", || {
            let of = |number| node.bindings.vouch_of(&license(number), day);
            of(1).is_none() && of(2) == lost && of(3).and_then(|entry| entry.until) == Some(later)
        });
    }
    let url = cluster.url("node");
    let source = StoreSource::Database(&url);
    let read = countersign_ledger::read_only(source).unwrap().vouches(day).unwrap();
    assert_eq!(read, node.bindings.vouches(day));
    let history = countersign_ledger::history(source, &license(1)).unwrap();
    assert_eq!(history.len(), 2, "{history:?}");
    let before = cluster.psql("SELECT sequence FROM countersign.head");
    node.repaired(&cluster, false);
    assert_eq!(cluster.psql("SELECT sequence FROM countersign.head"), before);
}

#[test]
fn what_shops_said_of_lost_sales_counts_again() {
    let cluster = prepared_cluster();
    let node = OwnNode::start(&cluster);
    node.hears(payment(1, 1));
    let dump = Dump::of(&cluster);
    // A refund, another name of the same sale, and words that newer ones replaced.
    node.hears(refund(1, 9));
    node.hears(names(&[1, 2]));
    node.hears(subscription(3, 100, 2));
    node.hears(subscription(3, 200, 4));
    node.hears(payment(6, 2));
    node.hears(names(&[6, 7]));
    let known = [1, 3, 6].map(|name| node.sale(name).unwrap());
    dump.restore(&cluster);
    node.has_lost_lines();
    let other = OwnNode::start(&cluster);
    assert_ne!(other.sale(1), Some(known[0].clone()), "the refund is lost");
    // Said again, and something newer.
    other.hears(payment(6, 2));
    other.hears(refund(6, 9));

    let planned = node.repaired(&cluster, true);
    assert_eq!(planned.sales, 3, "{planned:?}");
    let repaired = node.repaired(&cluster, false);
    assert_eq!((repaired.sales, repaired.nodes_reload), (3, true), "{repaired:?}");
    for node in [&node, &other] {
        node.serves();
        eventually("it knows of all that was lost", || {
            node.sale(1).map(|(_, facts)| facts) == Some(Arc::clone(&known[0].1))
                && node.sale(3).map(|(_, facts)| facts) == Some(Arc::clone(&known[1].1))
        });
        assert_eq!(node.sale(1), node.sale(2));
        assert_eq!(node.sale(6), node.sale(7));
        let both = node.sale(6).unwrap().1;
        assert_eq!(both.facts().len(), known[2].1.facts().len() + 1, "what is newer stays");
        // A delivery that comes again changes nothing.
        let before = cluster.psql("SELECT sequence FROM countersign.head");
        node.hears(refund(1, 9));
        node.hears(subscription(3, 100, 2));
        assert_eq!(cluster.psql("SELECT sequence FROM countersign.head"), before);
    }
    let again = node.repaired(&cluster, false);
    assert_eq!((again.sales, again.nodes_reload), (0, false), "{again:?}");
}

#[test]
fn seats_that_sites_gave_back_are_free_again() {
    let cluster = prepared_cluster();
    let node = OwnNode::start(&cluster);
    let [left, taken_again, moved, at_once] = [issue(1), issue(2), issue(3), issue(4)];
    for issued in [&left, &taken_again, &moved, &at_once] {
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
    node.moves(&at_once, ["old.example", "new.example"], ["a secret", "a new secret"]);
    dump.restore(&cluster);
    node.has_lost_lines();
    let other = OwnNode::start(&cluster);
    assert_eq!(other.holders(&moved), ["old.example"]);

    let repaired = node.repaired(&cluster, false);
    assert_eq!((repaired.freed, repaired.bound), (4, 2), "{repaired:?}");
    for node in [&node, &other] {
        node.serves();
        eventually("it knows who moved", || node.holders(&moved) == ["new.example"]);
        assert_eq!(node.holders(&at_once), ["new.example"]);
        assert_eq!(node.holders(&left), [""; 0]);
        assert_eq!(node.holders(&taken_again), ["old.example"]);
    }
    // The secret that the site has now.
    other.release(&taken_again, "old.example", "another secret");
    assert!(other.bind(&left, "next.example", "a secret"));
    let lines = cluster.psql("SELECT line FROM countersign.ledger WHERE line LIKE '%\"event\":\"released\"%'");
    assert_eq!(lines.lines().count(), 5, "four, and the one just now");
    // The move is one still, so the old host may take its seat back, and the new one moves on with its own secret.
    assert_eq!(lines.matches("\"to\":\"new.example\"").count(), 1);
    other.moves(&at_once, ["new.example", "newer.example"], ["a new secret", "x"]);
    assert!(lines.lines().all(|line| line.contains("\"how\":\"secret\"")), "{lines}");
}
