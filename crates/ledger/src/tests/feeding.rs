//! Tests of the feed of lines after a cursor.

use std::path::Path;

use super::*;
use crate::ledger_feed::{FeedCursor, FeedLine, LedgerFeed};
use crate::log::Position;
use crate::log::record::LedgerEvent;
use crate::testing::issued;
use countersign_model::remarks::{Author, NewRemarks};

fn genesis() -> FeedCursor {
    FeedCursor {
        position: Position::genesis(),
        time: at(0),
    }
}

fn bound(lines: &[FeedLine]) -> Vec<String> {
    let hosts = lines.iter().map(|line| match &line.event {
        LedgerEvent::Bound(entry) => entry.binding.host.to_string(),
        other => panic!("{other:?}"),
    });
    hosts.collect()
}

async fn bind(store: &Ledger, license: &License, name: &str, time: i64) {
    let outcome = store.bind(SeatRequest::new(license, &host(name), at(time))).await;
    assert_eq!(outcome.unwrap(), BindOutcome::Bound);
}

#[tokio::test]
async fn lines_come_once_in_order_beside_a_running_store() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path()).unwrap();
    let license = license(1, 9);
    let mut feed = LedgerFeed::new(StoreSource::Folder(folder.path()), genesis());
    let mut all = Vec::new();
    for (number, name) in ["a.com", "b.com", "c.com", "d.com"].into_iter().enumerate() {
        bind(&store, &license, name, number as i64 + 1).await;
        let end = store.ledger_end().unwrap().sequence;
        assert_eq!(end, number as u64 + 1);
        let lines = feed.next(end, 10).unwrap();
        assert_eq!(bound(&lines), [name]);
        assert!(feed.is_at(end) && feed.next(end, 10).unwrap().is_empty());
        all.extend(lines);
    }
    // From each cursor, the rest comes, also in parts and not beyond the end.
    let mut later = LedgerFeed::new(StoreSource::Folder(folder.path()), all[0].cursor);
    assert_eq!(bound(&later.next(4, 2).unwrap()), ["b.com", "c.com"]);
    later.rewind(all[1].cursor);
    assert_eq!(bound(&later.next(3, 9).unwrap()), ["c.com"]);
    assert_eq!(bound(&later.next(4, 9).unwrap()), ["d.com"]);
}

/// The hosts and revisions that lines tell.
fn words(lines: &[FeedLine]) -> Vec<String> {
    let words = lines.iter().map(|line| match &line.event {
        LedgerEvent::Bound(entry) => entry.binding.host.to_string(),
        LedgerEvent::License(issued) => format!("revision {}", issued.revision),
        other => panic!("{other:?}"),
    });
    words.collect()
}

/// All that comes after `cursor`, in parts.
fn rest(path: &Path, cursor: FeedCursor, end: u64) -> Vec<String> {
    let mut feed = LedgerFeed::new(StoreSource::Folder(path), cursor);
    let mut found = Vec::new();
    while !feed.is_at(end) {
        found.extend(words(&feed.next(end, 2).unwrap()));
    }
    found
}

#[tokio::test]
async fn compactions_hide_nothing_and_repeat_nothing_though_all_lines_have_one_time() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let license = license(1, 9);
    let issued = issued(2);
    let store = open(path).unwrap();
    bind(&store, &license, "a.com", 1).await;
    bind(&store, &license, "b.com", 1).await;
    for revision in 0..2 {
        let change = LedgerChange {
            remarks: NewRemarks::default(),
            author: Author::default(),
            license: License {
                status: [LicenseStatus::Active, LicenseStatus::Suspended][revision],
                ..issued.license.clone()
            },
            reference: None,
            scope: issued.scope.clone(),
            status_by: None,
            now: at(1),
            basis: match revision {
                0 => issued.origin.clone().into(),
                _ => ChangeBasis::Revision(1),
            },
        };
        store.change_license(change).await.unwrap();
    }
    bind(&store, &license, "c.com", 1).await;
    let lines = LedgerFeed::new(StoreSource::Folder(path), genesis())
        .next(5, 9)
        .unwrap();
    let mut all = words(&lines);
    assert_eq!(all, ["a.com", "b.com", "revision 1", "revision 2", "c.com"]);
    for (number, name) in ["d.com", "e.com"].into_iter().enumerate() {
        store.close().unwrap();
        maintenance::compact(path, at(number as i64)).unwrap();
        let store = open(path).unwrap();
        bind(&store, &license, name, 1).await;
        store.close().unwrap();
        all.push(name.to_owned());
    }
    // Files with such names that are no ledgers are passed over.
    std::fs::write(path.join("ledger-until-1999.jsonl"), "").unwrap();
    std::fs::write(path.join("ledger-until-2999.jsonl"), "notes\n").unwrap();
    let store = open(path).unwrap();
    let end = store.ledger_end().unwrap().sequence;
    // The license's first line is superseded, but a reader that has not received it still receives it.
    assert_eq!(rest(path, genesis(), end), all);
    for (number, line) in lines.iter().enumerate() {
        assert_eq!(rest(path, line.cursor, end), all[number + 1..], "after {number}");
    }
}

#[tokio::test]
async fn where_a_person_deleted_the_old_lines_what_may_not_have_been_told_comes() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let license = license(1, 9);
    let store = open(path).unwrap();
    for (name, time) in [("a.com", 100), ("b.com", 200), ("c.com", 200), ("d.com", 300)] {
        bind(&store, &license, name, time).await;
    }
    let lines = LedgerFeed::new(StoreSource::Folder(path), genesis())
        .next(4, 9)
        .unwrap();
    store.close().unwrap();
    let aside = maintenance::compact(path, at(400)).unwrap().aside;
    std::fs::remove_file(aside).unwrap();
    let store = open(path).unwrap();
    bind(&store, &license, "e.com", 500).await;
    let end = store.ledger_end().unwrap().sequence;
    assert_eq!(rest(path, lines[1].cursor, end), ["b.com", "c.com", "d.com", "e.com"]);
    // The compaction continues the cursor's own line, so that nothing is in doubt.
    assert_eq!(rest(path, lines[3].cursor, end), ["e.com"]);
    let later = FeedCursor {
        time: at(900),
        ..lines[1].cursor
    };
    assert_eq!(rest(path, later, end), [""; 0]);
    bind(&store, &license, "f.com", 1_000).await;
    assert_eq!(rest(path, later, end + 1), ["f.com"]);
}

#[test]
fn a_ledger_that_is_not_there_is_an_error() {
    let folder = TempDir::new().unwrap();
    let mut feed = LedgerFeed::new(StoreSource::Folder(folder.path()), genesis());
    assert!(matches!(feed.next(1, 9), Err(StoreError::Read { .. })));
}
