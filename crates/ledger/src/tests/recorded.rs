//! A run of every kind of request, whose ledger is known byte by byte: another way to decide must not change what is written.
//!
//! In one run each request has a commit of its own; in the other, requests of all kinds share one commit. `COUNTERSIGN_BLESS=1` writes the expected files
//! again: only where the ledger's format changes on purpose.

use std::collections::BTreeMap;

use super::*;
use crate::license_imports::ImportInTurn;
use crate::log::Position;
use crate::log::event;
use crate::log::record::LedgerRecord;
use crate::log::{HandedPackage, Handout, SessionMark, SoldTerms};
use crate::sales::{HiddenId, SaleChange, SaleOutcome};
use crate::testing::{issued, sale_fact, sold_terms};
use countersign_model::issued_license::{ChangeScope, Hex128, IssuedLicense};
use countersign_model::license_step::LicenseStep;
use countersign_model::remarks::{Author, NewRemarks};
use countersign_model::reminder::ReminderKind;
use countersign_model::rollout::RolloutStep;
use countersign_model::sale::fact::{Dispute, DisputeStatus, Fact, Names, ShopKey};
use countersign_model::site_release::ReleaseHash;
use countersign_model::stored_text::OrderReference;

/// The kind of line that is read and never written.
const READ_ONLY: &str = "sale";

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests/recorded");

fn change(issued: &IssuedLicense, basis: ChangeBasis, seconds: i64) -> LedgerChange {
    LedgerChange {
        remarks: NewRemarks::default(),
        author: Author::default(),
        license: issued.license.clone(),
        reference: issued.reference.map(OrderReference::from),
        scope: issued.scope.clone(),
        status_by: None,
        now: at(seconds),
        basis,
    }
}

fn step(issued: &IssuedLicense, step: LicenseStep, seconds: i64) -> LedgerChange {
    let revision = None;
    change(issued, ChangeBasis::Step { step, revision }, seconds)
}

fn token(name: &str, step: TokenStep, seconds: i64) -> TokenChange {
    TokenChange {
        author: Author::default(),
        name: name.parse().unwrap(),
        step,
        now: at(seconds),
    }
}

fn create(secret: &str) -> TokenStep {
    TokenStep::Create {
        hash: Digest::of(secret.as_bytes()),
        scopes: ["licenses:write".parse().unwrap()].into(),
    }
}

fn sale(fact: Fact<Hex128>, seconds: i64) -> SaleChange {
    let facts = vec![fact.map(&mut HiddenId::from)];
    let SoldTerms { price, terms, .. } = sold_terms(1);
    let terms = BTreeMap::from([(price, terms)]);
    SaleChange::new(facts, terms, Arc::new("shop:stripe".parse().unwrap()), at(seconds))
}

/// The sale, and whether something became known.
async fn record(store: &Ledger, change: SaleChange) -> (Hex128, bool) {
    match store.record_sale(change).await.unwrap() {
        SaleOutcome::Recorded { sale, is_news, .. } => (sale, is_news),
        other => panic!("{other:?}"),
    }
}

fn names(numbers: &[u8]) -> Fact<Hex128> {
    Fact::Names(Names {
        ids: numbers.iter().map(|number| Hex128([*number; 16])).collect(),
    })
}

fn key(of: u8, license: u8) -> Fact<Hex128> {
    Fact::Key(ShopKey {
        license: LicenseId::from_bytes([license; 32]),
        of: Hex128([of; 16]),
    })
}

fn dispute(of: u8, status: DisputeStatus, second: i64) -> Fact<Hex128> {
    Fact::Dispute(Dispute {
        at: at(second),
        id: Hex128([100; 16]),
        names: Vec::new(),
        of: Hex128([of; 16]),
        status,
    })
}

fn leaves(license: &License, name: &str, by: Releaser, seconds: i64) -> ReleaseRequest {
    ReleaseRequest {
        license: license.clone(),
        host: host(name),
        by,
        now: at(seconds),
    }
}

fn site(secret: Option<&str>) -> Releaser {
    Releaser::Site {
        proof: secret.map(ReleaseHash::of),
        most_moves: 2,
        successor: None,
    }
}

fn import(numbers: &[u8], content: u8, seconds: i64) -> ImportRequest {
    let license = |number: &u8| LicenseImport {
        license: license(*number, 3),
        reference: Some(Hex128([*number; 16]).into()),
        holder: None,
        content: Hex128([content; 16]),
        sites: vec![
            (host(&format!("old-{number}.com")), at(50)),
            (host(&format!("older-{number}.com")), at(40)),
        ],
    };
    ImportRequest {
        licenses: numbers.iter().map(license).collect(),
        now: at(seconds),
    }
}

async fn bind(store: &Ledger, license: &License, name: &str, secret: Option<&str>, seconds: i64) -> BindOutcome {
    let host = host(name);
    let request = SeatRequest {
        release_hash: secret.map(ReleaseHash::of),
        ..SeatRequest::new(license, &host, at(seconds))
    };
    store.bind(request).await.unwrap()
}

/// The first part of the run, and what each request answered.
async fn begin(store: &Ledger) -> Vec<String> {
    let mut said = Vec::new();
    let mut say = |outcome: &dyn std::fmt::Debug| said.push(format!("{outcome:?}"));
    for change in [
        token("shop", create("a"), 101),
        token("shop", create("b"), 102),
        token("desk", create("c"), 103),
        token(
            "shop",
            TokenStep::Use(NaiveDate::from_ymd_opt(2026, 11, 24).unwrap()),
            104,
        ),
        token(
            "shop",
            TokenStep::Use(NaiveDate::from_ymd_opt(2026, 11, 24).unwrap()),
            105,
        ),
        token("desk", TokenStep::Revoke, 106),
        token("desk", create("d"), 107),
        token("nobody", TokenStep::Revoke, 108),
    ] {
        say(&store.change_token(change).await.unwrap());
    }
    for change in [
        sale(sale_fact(1, 201), 201),
        sale(names(&[1, 2]), 202),
        sale(dispute(4, DisputeStatus::Open, 203), 203),
        sale(names(&[2, 4]), 204),
        sale(key(1, 1), 205),
        sale(sale_fact(1, 150), 206),
        sale(key(5, 2), 206),
        sale(names(&[1, 5]), 207),
        sale(sale_fact(6, 208), 208),
        sale(names(&[1, 6]), 209),
    ] {
        say(&record(store, change).await);
    }
    let mut first = issued(1);
    first.license.sites = SiteLimit::Limited(NonZeroU32::new(2).unwrap());
    first.reference = Some(Hex128([7; 16]));
    let second = issued(2);
    let third = issued(3);
    let origin = |issued: &IssuedLicense| ChangeBasis::from(issued.origin.clone());
    for change in [
        change(&first, origin(&first), 301),
        change(&first, origin(&first), 302),
        change(&second, origin(&second), 303),
        step(&first, LicenseStep::Suspend, 304),
        step(&first, LicenseStep::Resume, 305),
        step(
            &second,
            LicenseStep::Renew(NaiveDate::from_ymd_opt(2030, 1, 31).unwrap()),
            306,
        ),
        change(&second, ChangeBasis::Revision(1), 307),
        change(
            &third,
            ChangeBasis::Rekey {
                origin: third.origin.clone(),
                retired: Vec::new(),
                old: second.license.id,
                revision: Some(2),
            },
            308,
        ),
        step(&issued(9), LicenseStep::Revoke, 309),
    ] {
        say(&store.change_license(change).await.unwrap());
    }
    for (name, secret, seconds) in [
        ("a.com", Some("right"), 401),
        ("b.com", None, 402),
        ("c.com", None, 403),
        ("a.com", None, 404),
    ] {
        say(&bind(store, &first.license, name, secret, seconds).await);
    }
    let move_to = LicenseStep::Move {
        from: host("e.com"),
        to: host("d.com"),
        staging: 0.into(),
    };
    let vendor = Releaser::Vendor {
        successor: Some(host("e.com")),
        staging: 0.into(),
    };
    for request in [
        leaves(&first.license, "a.com", site(Some("wrong")), 405),
        leaves(&first.license, "a.com", site(Some("right")), 406),
        leaves(&first.license, "a.com", site(Some("right")), 407),
        leaves(&first.license, "b.com", vendor, 408),
    ] {
        say(&store.release(request).await.unwrap());
    }
    say(&store.change_license(step(&first, move_to, 409)).await.unwrap());
    say(&bind(store, &first.license, "a.com", None, 410).await);
    say(&bind(store, &license(20, 1), "declared.com", None, 411).await);
    say(&store.import(import(&[30, 31], 1, 501)).await.unwrap());
    say(&store.import(import(&[30, 32], 1, 502)).await.unwrap());
    say(&store.import(import(&[30], 2, 503)).await.unwrap());
    said
}

/// What follows a compaction.
async fn go_on(store: &Ledger) -> Vec<String> {
    let mut said = Vec::new();
    let mut say = |outcome: &dyn std::fmt::Debug| said.push(format!("{outcome:?}"));
    say(&store.change_token(token("shop", TokenStep::Revoke, 701)).await.unwrap());
    say(&record(store, sale(dispute(2, DisputeStatus::Won, 702), 702)).await);
    say(&store
        .change_license(step(&issued(1), LicenseStep::ReleaseAll, 703))
        .await
        .unwrap());
    say(&bind(store, &license(20, 2), "second.com", None, 704).await);
    let release = leaves(&license(20, 2), "declared.com", site(None), 705);
    say(&store.release(release).await.unwrap());
    say(&store.import(import(&[31, 33], 3, 706)).await.unwrap());
    let day = NaiveDate::from_ymd_opt(2026, 11, 24);
    for (until, seconds, is_news) in [(day, 707, true), (day, 708, false), (None, 709, true)] {
        let scope = Arc::new(ChangeScope::operator());
        let change = VouchChange::new(license(20, 2).id, until, scope, Author::default(), at(seconds));
        assert_eq!(store.vouch(change).await.unwrap(), is_news);
    }
    said
}

/// The kinds of lines that the requests before do not write.
async fn write_other_kinds(store: &Ledger) -> Vec<String> {
    let mut said = Vec::new();
    let mut say = |outcome: &dyn std::fmt::Debug| said.push(format!("{outcome:?}"));
    let package = HandedPackage {
        plugin: "acme-forms".parse().unwrap(),
        version: "1.0.0".parse().unwrap(),
        host: Some(host("second.com")),
    };
    for (id, what, seconds) in [
        (1, Handout::Key, 801),
        (2, Handout::Package(package), 802),
        (1, Handout::Key, 803),
    ] {
        let new = NewHandout {
            id: Hex128([id; 16]),
            license: license(20, 2).id,
            what,
            scope: Arc::new(ChangeScope::operator()),
            author: Author::default(),
            now: at(seconds),
        };
        say(&store.note_handout(new).await.unwrap());
    }
    for seconds in [804, 805] {
        let claim = ReminderClaim {
            expires: NaiveDate::from_ymd_opt(2026, 12, 31).unwrap(),
            kind: ReminderKind::Before(30),
            licenses: vec![license(20, 2).id],
            mail: Hex128([3; 16]),
            now: at(seconds),
        };
        say(&store.claim_reminder(claim).await.unwrap());
    }
    let switch = ReminderSwitch { on: true, now: at(806) };
    say(&store.switch_reminders(switch).await.unwrap());
    let end = SessionEnd {
        mark: SessionMark::Session(Hex128([4; 16])),
        until: at(9_000),
        now: at(807),
    };
    say(&store.end_session(end.clone()).await.unwrap());
    say(&store.end_session(end).await.unwrap());
    let newest = NewestRelease {
        slug: "acme-forms".parse().unwrap(),
        version: "2.0.0".parse().unwrap(),
        was_served: false,
        first_look: None,
        now: at(808),
    };
    say(&store.see_newest(newest).await.unwrap().is_changed);
    let pause = RolloutChange {
        slug: "acme-forms".parse().unwrap(),
        version: "2.0.0".parse().unwrap(),
        step: RolloutStep::Paused,
        least: None,
        author: Author::default(),
        now: at(809),
    };
    say(&store.change_rollout(pause).await.unwrap().is_changed);
    say(&bind(store, &license(21, 2), "guarded.com", Some("right"), 810).await);
    let seen = SeenHash {
        license: &license(21, 2),
        host: &host("guarded.com"),
        hash: ReleaseHash::of("another"),
        is_active: true,
        may_begin: true,
        now: at(811),
    };
    say(&store.see_hash(seen).await.unwrap());
    let erasure = CustomerErasure {
        number: Hex128([5; 16]),
        author: Author::default(),
        now: at(812),
    };
    say(&store.erase_customer(erasure).await.unwrap());
    said
}

fn expect(name: &str, found: &[u8]) {
    let path = Path::new(FOLDER).join(name);
    if std::env::var_os("COUNTERSIGN_BLESS").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let expected = String::from_utf8(std::fs::read(&path).unwrap()).unwrap();
    let found = String::from_utf8(found.to_vec()).unwrap();
    for (number, (expected, found)) in expected.lines().zip(found.lines()).enumerate() {
        assert_eq!(found, expected, "line {} of {name}", number + 1);
    }
    assert_eq!(found, expected, "{name}");
}

#[tokio::test]
async fn a_recorded_run_writes_the_same_bytes() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let ledger = || std::fs::read(path.join("ledger.jsonl")).unwrap();
    let store = open(path).unwrap();
    let mut said = begin(&store).await;
    store.close().unwrap();
    drop(store);
    expect("first.jsonl", &ledger());
    maintenance::compact(path, at(601)).unwrap();
    expect("compacted.jsonl", &ledger());
    let store = open(path).unwrap();
    said.extend(go_on(&store).await);
    store.close().unwrap();
    expect("continued.jsonl", &ledger());
    drop(store);
    let store = open(path).unwrap();
    said.extend(write_other_kinds(&store).await);
    store.close().unwrap();
    drop(store);
    expect("other-kinds.jsonl", &ledger());
    let written = String::from_utf8(ledger()).unwrap();
    for kind in event::kinds().filter(|kind| *kind != READ_ONLY) {
        let line = format!("{{\"event\":\"{kind}\"");
        assert!(written.contains(&line), "no request of the run writes {line}");
    }
    maintenance::compact(path, at(901)).unwrap();
    expect("compacted-again.jsonl", &ledger());
    expect("answers.txt", (said.join("\n") + "\n").as_bytes());
}

#[tokio::test]
async fn requests_of_all_kinds_in_one_commit_write_the_same_bytes() {
    let memory = BindingMemory::new(LedgerTables::default());
    let full = license(1, 1);
    let [old, new] = [host("old.com"), host("new.com")];
    // An earlier commit bound the site that leaves.
    let earlier = vec![waiting(WantedSeat::from(SeatRequest::new(&full, &old, at(1)))).0];
    let mut batch = BindingBatch::new(&memory, earlier);
    batch.decide(None);
    batch.complete(Ok(()));

    let sold = issued(2);
    let turn = Arc::new(tokio::sync::Mutex::new(())).lock_owned().await;
    let import = ImportInTurn::new(import(&[1, 2, 3], 1, 2), turn);
    let asks = |host| WantedSeat::from(SeatRequest::new(&full, host, at(2)));
    // They are decided by kind. A seat is free because releases come first.
    let requests = vec![
        waiting(import).0,
        waiting(sale(sale_fact(1, 2), 2)).0,
        waiting(token("shop", create("a"), 2)).0,
        waiting(sale(names(&[1, 2]), 2)).0,
        waiting(change(&sold, sold.origin.clone().into(), 2)).0,
        waiting(asks(&new)).0,
        waiting(token("shop", TokenStep::Revoke, 2)).0,
        waiting(step(&sold, LicenseStep::Suspend, 2)).0,
        waiting(asks(&old)).0,
        waiting(leaves(&full, "old.com", site(None), 2)).0,
    ];
    let mut batch = BindingBatch::new(&memory, requests);
    let mut bytes = Vec::new();
    let mut previous = Position::genesis();
    for change in batch.decide(Some(at(3))).to_vec() {
        let synced = 0;
        previous = LedgerRecord {
            previous,
            synced,
            change,
        }
        .write(&mut bytes)
        .unwrap();
    }
    batch.complete(Ok(()));
    expect("commit.jsonl", &bytes);
}
