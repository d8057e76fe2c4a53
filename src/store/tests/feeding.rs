//! Tests of the feed of lines after a cursor.

use super::*;
use crate::store::ledger_feed::{FeedCursor, FeedLine, LedgerFeed};
use crate::store::log::Position;
use crate::store::log::record::LedgerEvent;

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

async fn bind(store: &dyn Bindings, license: &License, name: &str, time: i64) {
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
        bind(&*store, &license, name, number as i64 + 1).await;
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

#[tokio::test]
async fn after_a_compaction_only_what_is_later_comes() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path()).unwrap();
    let license = license(1, 9);
    for (number, name) in ["a.com", "b.com", "c.com"].into_iter().enumerate() {
        bind(&*store, &license, name, number as i64 + 1).await;
    }
    let source = StoreSource::Folder(folder.path());
    let lines = LedgerFeed::new(source, genesis()).next(3, 9).unwrap();
    store.close().unwrap();
    maintenance::compact(folder.path(), at(9)).unwrap();
    let store = open(folder.path()).unwrap();
    bind(&*store, &license, "d.com", 10).await;
    let end = store.ledger_end().unwrap().sequence;
    for (line, expected) in [(&lines[1], vec!["c.com", "d.com"]), (&lines[2], vec!["d.com"])] {
        let mut feed = LedgerFeed::new(source, line.cursor);
        let found = feed.next(end, 9).unwrap().into_iter();
        let found: Vec<_> = found
            .filter(|line| !matches!(line.event, LedgerEvent::Compacted(_)))
            .collect();
        assert_eq!(bound(&found), expected);
        assert!(feed.is_at(end));
    }
}

#[test]
fn a_ledger_that_is_not_there_is_an_error() {
    let folder = TempDir::new().unwrap();
    let mut feed = LedgerFeed::new(StoreSource::Folder(folder.path()), genesis());
    assert!(matches!(feed.next(1, 9), Err(StoreError::Read { .. })));
}
