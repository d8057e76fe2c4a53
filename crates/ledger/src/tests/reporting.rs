//! Tests of reports: merged, bounded, kept until they can be written.

use super::*;
use crate::stored_reports::ReportRange;

#[tokio::test]
async fn reports_are_merged_and_written_at_the_end() {
    let folder = TempDir::new().unwrap();
    let license = license(1, 1);
    let site = host("a.com");
    let version = |version: &'static str| CheckIn {
        plugin_version: Some(version),
        ..seen(0)
    };
    let expected = SiteReport {
        plugin_version: Some("1.1".into()),
        last_seen: Some(at(9)),
        ..SiteReport::default()
    };

    let store = open(folder.path()).unwrap();
    store.bind(SeatRequest::new(&license, &site, at(1))).await.unwrap();
    for report in [version("1.0"), seen(7), version("1.1")] {
        store.report(&license.id, &store.of(&license.id), &site, &report);
    }
    drop(store);
    let store = open(folder.path()).unwrap();
    store.report(&license.id, &store.of(&license.id), &site, &seen(9));
    store.close().unwrap();
    drop(store);
    let found = reader::open(folder.path()).unwrap().of(&license.id).unwrap();
    assert_eq!(found, [(Binding::new(site, at(1)), expected)]);
}

#[tokio::test]
async fn reports_that_could_not_be_written_are_kept() {
    let (memory, store) = on_memory();
    memory.state.lock().unwrap().refuses_reports = true;
    let license = license(1, 1);
    let site = host("a.com");
    let report = SiteReport {
        last_seen: Some(at(1)),
        ..SiteReport::default()
    };
    store.report(&license.id, &store.of(&license.id), &site, &seen(1));
    assert!(matches!(store.close(), Err(StoreError::NotIndexed(_))));
    let waiting: Vec<telemetry::Batch> = (0..telemetry::SHARDS)
        .map(|shard| store.reports.take(shard))
        .filter(|batch| !batch.is_empty())
        .collect();
    let expected = telemetry::Batch {
        sites: [(license.id, vec![(site, report)])].into(),
        ..telemetry::Batch::default()
    };
    assert_eq!(waiting, [expected]);
}

#[tokio::test]
async fn reports_are_written_and_a_disk_that_works_again_is_noticed_without_anybody_waiting() {
    let memory = Arc::new(Memory::default());
    let store = Arc::new(Ledger::new(
        crate::source::LedgerPlace::Folder(std::path::PathBuf::new()),
        memory.clone(),
        BindingMemory::new(LedgerTables::default()),
        Duration::from_millis(1),
    ));
    memory.hold();
    let license = license(1, 1);
    let site = host("a.com");
    start_binding(&store, &license, "a.com").await;
    memory.wait_for("sync begins", 1);
    store.report(&license.id, &store.of(&license.id), &site, &seen(1));
    memory.end_sync(false);
    memory.wait_for("sync begins", 2);
    assert!(store.health().state.is_err());
    assert_eq!(memory.state.lock().unwrap().reports.len(), 1);
    memory.end_sync(true);
    memory.wait_for("synced", 1);
    let rounds = memory.events().iter().filter(|event| **event == "index synced").count();
    memory.wait_for("index synced", rounds + 1);
    assert!(store.health().state.is_ok());
    assert_eq!(memory.bound(), [""; 0], "a probe binds nobody");
    memory.let_go();
}

#[test]
fn waiting_reports_are_bounded() {
    let reports = Reports::default();
    let license = license(1, 1).id;
    let site = |number| host(&format!("site-{number}.com"));
    for number in 0..262 {
        reports.add(&license, &site(number), &seen(1));
    }
    assert_eq!((reports.dropped(), reports.waiting()), (6, 256));
    assert!(
        !reports.add(&license, &site(0), &seen(2)),
        "nothing is taken until what waits is written"
    );
    let batch = (0..telemetry::SHARDS)
        .map(|shard| reports.take(shard))
        .find(|batch| !batch.is_empty())
        .unwrap();
    assert!(reports.add(&license, &site(0), &seen(2)));
    reports.put_back(batch);
    assert_eq!((reports.dropped(), reports.waiting()), (7, 256));
}

#[tokio::test]
async fn a_report_that_was_dropped_is_counted_each_time_and_taken_once_there_is_room() {
    let (_, store) = on_memory();
    let license = license(1, 1);
    let site = host("a.com");
    store.bind(SeatRequest::new(&license, &site, at(1))).await.unwrap();
    for number in 0..256 {
        store.report(
            &license.id,
            &store.of(&license.id),
            &host(&format!("site-{number}.com")),
            &seen(1),
        );
    }
    for dropped in 1..=3 {
        store.report(&license.id, &store.of(&license.id), &site, &seen(1));
        assert_eq!(store.figures().reports_dropped, dropped);
    }
    for shard in 0..telemetry::SHARDS {
        store.reports.take(shard);
    }
    for _ in 0..2 {
        store.report(&license.id, &store.of(&license.id), &site, &seen(1));
        assert_eq!((store.figures().reports_dropped, store.reports.waiting()), (3, 1));
    }
    assert!(
        store.of(&license.id).news(&site, &seen(1)).is_none(),
        "what was taken is no news"
    );
}

#[tokio::test]
async fn an_index_that_is_not_written_is_told_and_counted_and_binds_all_the_same() {
    let memory = Arc::new(Memory::default());
    let store = Ledger::new(
        crate::source::LedgerPlace::Folder(std::path::PathBuf::new()),
        memory.clone(),
        BindingMemory::new(LedgerTables::default()),
        Duration::from_millis(1),
    );
    memory.state.lock().unwrap().refuses_reports = true;
    let license = license(1, 1);
    let site = host("a.com");
    store.report(&license.id, &store.of(&license.id), &site, &seen(1));
    memory.wait_for("reports refused", 3);
    let health = store.health();
    assert!(matches!(health.state, Err(StoreError::NotIndexed(reason)) if &*reason == "the disk is full"));
    assert_eq!(store.health().since, health.since);
    assert_eq!(
        store.bind(SeatRequest::new(&license, &site, at(1))).await.unwrap(),
        BindOutcome::Bound
    );
    assert!(
        matches!(store.health().state, Err(StoreError::NotIndexed(_))),
        "a good ledger does not hide it"
    );
    let Figures {
        failures,
        index_failures,
        ..
    } = store.figures();
    assert!(failures == 0 && index_failures >= 2, "{failures} {index_failures}");

    memory.state.lock().unwrap().refuses_reports = false;
    let rounds = memory.events().iter().filter(|event| **event == "index synced").count();
    memory.wait_for("index synced", rounds + 2);
    assert!(store.health().state.is_ok());
}

#[tokio::test]
async fn a_closed_store_binds_nobody_and_says_so() {
    let (_, store) = on_memory();
    store.close().unwrap();
    assert!(matches!(
        store
            .bind(SeatRequest::new(&license(1, 1), &host("a.com"), at(1)))
            .await,
        Err(StoreError::Closed)
    ));
    assert!(matches!(store.health().state, Err(StoreError::Closed)));
    store.close().unwrap();
}

#[tokio::test]
async fn hosts_that_a_license_was_refused_to_are_kept_with_their_first_and_last_time() {
    let folder = TempDir::new().unwrap();
    let license = license(1, 1);
    let store = open(folder.path()).unwrap();
    store
        .bind(SeatRequest::new(&license, &host("a.com"), at(1)))
        .await
        .unwrap();
    for (site, seconds) in [("b.com", 5), ("a.com", 6), ("c.com", 7), ("b.com", 8)] {
        store
            .bind(SeatRequest::new(&license, &host(site), at(seconds)))
            .await
            .unwrap();
    }
    store.close().unwrap();
    drop(store);
    let store = open(folder.path()).unwrap();
    assert_eq!(
        store
            .bind(SeatRequest::new(&license, &host("d.com"), at(9)))
            .await
            .unwrap(),
        elsewhere("a.com")
    );
    store.close().unwrap();
    drop(store);
    let refused = reader::open(folder.path()).unwrap().refused().unwrap();
    let found = &refused[&license.id];
    assert_eq!((refused.len(), found.since, found.last), (1, at(5), at(9)));
    assert_eq!(found.hosts(), ["c.com", "b.com", "d.com"].map(host));
}

#[test]
fn waiting_refusals_are_bounded_kept_when_not_written_and_counted_when_dropped() {
    let reports = Reports::default();
    let in_one_shard = |number| {
        let mut bytes = [0; 32];
        bytes[31] = number;
        LicenseId::from_bytes(bytes)
    };
    for number in 0..20 {
        reports.refuse(&in_one_shard(number), &host("a.com"), at(1));
    }
    assert_eq!((reports.waiting(), reports.dropped()), (16, 4));
    let batch = reports.take(0);
    assert_eq!(reports.waiting(), 0);
    reports.refuse(&in_one_shard(0), &host("b.com"), at(2));
    reports.refuse(&in_one_shard(99), &host("b.com"), at(2));
    reports.put_back(batch);
    assert_eq!((reports.waiting(), reports.dropped()), (16, 5));
    let merged = &reports.take(0).refused[&in_one_shard(0)];
    assert_eq!((merged.since, merged.last), (at(1), at(2)));
    assert_eq!(merged.hosts(), ["a.com", "b.com"].map(host));
}

#[tokio::test]
async fn what_is_stored_is_read_page_by_page_until_the_store_is_closed() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path()).unwrap();
    let expected: Vec<(LicenseId, SiteHost)> = [(1, "a.com"), (1, "b.com"), (2, "a.com"), (2, "c.com"), (3, "a.com")]
        .map(|(number, site)| (license(number, 9).id, host(site)))
        .into();
    for (id, site) in &expected {
        store.report(id, &store.of(id), site, &seen(1));
    }
    for number in [1, 2] {
        store
            .bind(SeatRequest::new(&license(number, 1), &host("first.com"), at(1)))
            .await
            .unwrap();
        let refused = store
            .bind(SeatRequest::new(&license(number, 1), &host("second.com"), at(2)))
            .await
            .unwrap();
        assert_eq!(refused, elsewhere("first.com"));
    }
    let stored = store.stored_reports().unwrap();
    store.close().unwrap();
    assert!(store.stored_reports().is_some(), "as long as somebody reads");
    let page = |range: &ReportRange, limit| -> Vec<(LicenseId, SiteHost)> {
        let page = stored.reports(range, limit).unwrap().into_iter();
        page.map(|(license, host, _)| (license, host)).collect()
    };
    let mut range = ReportRange::default();
    let mut found = Vec::new();
    loop {
        let next = page(&range, 2);
        found.extend(next.clone());
        match next.last() {
            Some(last) => range.after = Some(last.clone()),
            None => break,
        }
    }
    assert_eq!(found, expected);
    let of_second = ReportRange {
        license: Some(license(2, 1).id),
        after: None,
    };
    assert_eq!(page(&of_second, 9), expected[2..4]);
    let after_its_first = ReportRange {
        after: Some(expected[2].clone()),
        ..of_second
    };
    assert_eq!(page(&after_its_first, 9), expected[3..4]);

    let refused = stored.refused(None, 1).unwrap();
    assert_eq!((refused.len(), refused[0].0), (1, license(1, 1).id));
    let next = stored.refused(Some(&refused[0].0), 9).unwrap();
    assert_eq!((next.len(), next[0].0), (1, license(2, 1).id));
    drop(stored);
    assert!(store.stored_reports().is_none());
}
