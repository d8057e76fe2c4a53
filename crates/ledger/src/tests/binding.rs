//! Tests of binding: concurrency, failing syncs, restarts and releases.

use super::*;

/// Binds one license from 64 hosts at once.
async fn race(store: Arc<Ledger>, license: License) -> Vec<(SiteHost, BindOutcome)> {
    let mut tasks = JoinSet::new();
    for number in 0..64 {
        let store = store.clone();
        let license = license.clone();
        let host = host(&format!("site-{number}.com"));
        tasks.spawn(async move {
            let outcome = store.bind(SeatRequest::new(&license, &host, at(1))).await.unwrap();
            (host, outcome)
        });
    }
    tasks.join_all().await
}

#[tokio::test(flavor = "multi_thread")]
async fn of_64_hosts_at_once_exactly_as_many_are_bound_as_there_are_sites() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path()).unwrap();
    for (round, sites) in (0..100).zip([1, 3].into_iter().cycle()) {
        let license = license(round, sites);
        let outcomes = race(store.clone(), license.clone()).await;
        let bound = hosts_of(&store, &license);
        assert_eq!(bound.len(), sites as usize);
        let told_bound: HashSet<_> = outcomes
            .iter()
            .filter(|(_, outcome)| *outcome == BindOutcome::Bound)
            .map(|(host, _)| host.to_string())
            .collect();
        assert_eq!(told_bound, bound.iter().cloned().collect());
        for (host, outcome) in &outcomes {
            assert!(
                *outcome == BindOutcome::Bound || *outcome == elsewhere(&bound[0]),
                "{host}: {outcome:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_host_that_is_bound_is_answered_without_a_write() {
    let (memory, store) = on_memory();
    let mut license = license(1, 2);
    license.details.hosts.push(host("ahead.com"));
    assert_eq!(
        store
            .bind(SeatRequest::new(&license, &host("ahead.com"), at(1)))
            .await
            .unwrap(),
        BindOutcome::Bound
    );
    assert_eq!(memory.events(), [""; 0], "bound by the registry");
    assert_eq!(
        store
            .bind(SeatRequest::new(&license, &host("a.com"), at(1)))
            .await
            .unwrap(),
        BindOutcome::Bound
    );
    let events = memory.events();
    for _ in 0..3 {
        assert_eq!(
            store
                .bind(SeatRequest::new(&license, &host("a.com"), at(2)))
                .await
                .unwrap(),
            BindOutcome::Bound
        );
        assert_eq!(
            store
                .bind(SeatRequest::new(&license, &host("b.com"), at(2)))
                .await
                .unwrap(),
            elsewhere("ahead.com")
        );
    }
    assert_eq!(memory.events(), events);
}

#[tokio::test]
async fn nobody_is_told_before_the_sync_has_returned() {
    let (memory, store) = on_memory();
    memory.hold();
    let license = license(1, 1);
    let first = start_binding(&store, &license, "a.com").await;
    let again = start_binding(&store, &license, "a.com").await;
    let other = start_binding(&store, &license, "b.com").await;
    memory.wait_for("sync begins", 1);
    assert!(!first.is_finished() && !again.is_finished() && !other.is_finished());
    assert!(store.of(&license.id).is_empty(), "only what is durable shows");
    memory.end_sync(true);
    for task in [first, again] {
        assert_eq!(task.await.unwrap().unwrap(), BindOutcome::Bound);
    }
    assert_eq!(other.await.unwrap().unwrap(), elsewhere("a.com"));
    memory.note("told");
    assert_eq!(memory.events(), ["written", "sync begins", "synced", "told"]);
}

#[tokio::test]
async fn one_sync_serves_all_who_wait() {
    let (memory, store) = on_memory();
    memory.hold();
    let mut tasks = vec![start_binding(&store, &license(0, 1), "a.com").await];
    memory.wait_for("sync begins", 1);
    for number in 1..100 {
        tasks.push(start_binding(&store, &license(number, 1), "a.com").await);
    }
    memory.let_go();
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap(), BindOutcome::Bound);
    }
    assert_eq!(memory.events().iter().filter(|event| **event == "synced").count(), 2);
}

#[tokio::test]
async fn a_failing_sync_turns_everybody_away_and_gives_the_seats_back() {
    let (memory, store) = on_memory();
    assert!(store.health().state.is_ok());
    memory.hold();
    let one = license(1, 1);
    let two = license(2, 1);
    let tasks = [
        start_binding(&store, &one, "a.com").await,
        start_binding(&store, &one, "a.com").await,
    ];
    memory.wait_for("sync begins", 1);
    let further = [
        start_binding(&store, &two, "a.com").await,
        start_binding(&store, &license(3, 1), "a.com").await,
    ];
    memory.end_sync(false);
    memory.end_sync(false);
    for task in further {
        task.await.unwrap().unwrap_err();
    }
    assert_eq!(store.figures().failures, 4, "requests, not syncs");
    for task in tasks {
        assert!(matches!(task.await.unwrap(), Err(StoreError::NotDurable(reason)) if &*reason == "the disk is full"));
    }
    assert!(matches!(store.health().state, Err(StoreError::NotDurable(_))));

    memory.let_go();
    assert_eq!(
        store.bind(SeatRequest::new(&two, &host("c.com"), at(2))).await.unwrap(),
        BindOutcome::Bound
    );
    assert!(store.health().state.is_ok());
    assert_eq!(
        store.bind(SeatRequest::new(&one, &host("b.com"), at(2))).await.unwrap(),
        BindOutcome::Bound
    );
    assert_eq!(hosts_of(&store, &one), ["b.com"]);
    assert_eq!(memory.bound(), ["c.com", "b.com"]);
}

#[tokio::test]
async fn a_failed_binding_over_a_void_one_leaves_the_void_one() {
    let (memory, store) = on_memory();
    let mut license = license(1, 1);
    store
        .bind(SeatRequest::new(&license, &host("a.com"), at(1)))
        .await
        .unwrap();
    let before = store.of(&license.id).to_vec();
    license.details.released.all = Some(at(5));
    memory.hold();
    let task = start_binding(&store, &license, "a.com").await;
    memory.wait_for("sync begins", 2);
    memory.end_sync(false);
    task.await.unwrap().unwrap_err();
    memory.let_go();
    assert_eq!(store.of(&license.id).to_vec(), before);
}

#[tokio::test]
async fn whoever_waits_for_a_seat_gets_it_when_the_other_fails() {
    let (memory, store) = on_memory();
    memory.hold();
    let license = license(1, 1);
    let first = start_binding(&store, &license, "a.com").await;
    memory.wait_for("sync begins", 1);
    let second = start_binding(&store, &license, "b.com").await;
    memory.end_sync(false);
    memory.end_sync(true);
    first.await.unwrap().unwrap_err();
    assert_eq!(second.await.unwrap().unwrap(), BindOutcome::Bound);
    assert_eq!(memory.bound(), ["b.com"]);
}

#[tokio::test]
async fn a_waiter_who_leaves_neither_loses_nor_repeats_a_binding() {
    let (memory, store) = on_memory();
    memory.hold();
    let license = license(1, 1);
    let task = start_binding(&store, &license, "a.com").await;
    memory.wait_for("sync begins", 1);
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    let other = start_binding(&store, &license, "b.com").await;
    memory.end_sync(true);
    assert_eq!(other.await.unwrap().unwrap(), elsewhere("a.com"));
    assert_eq!(
        store
            .bind(SeatRequest::new(&license, &host("a.com"), at(2)))
            .await
            .unwrap(),
        BindOutcome::Bound
    );
    assert_eq!(memory.events(), ["written", "sync begins", "synced"]);
}

#[tokio::test]
async fn a_full_queue_says_so_and_takes_no_seat() {
    let (memory, store) = on_memory();
    memory.hold();
    let numbered = |number: usize| {
        let mut id = [0; 32];
        id[..8].copy_from_slice(&number.to_le_bytes());
        License {
            id: LicenseId::from_bytes(id),
            ..license(0, 1)
        }
    };
    let mut tasks = vec![start_binding(&store, &numbered(0), "a.com").await];
    memory.wait_for("sync begins", 1);
    for number in 1..=QUEUE {
        tasks.push(start_binding(&store, &numbered(number), "a.com").await);
    }
    let late = numbered(QUEUE + 1);
    assert!(matches!(
        store.bind(SeatRequest::new(&late, &host("a.com"), at(1))).await,
        Err(StoreError::Busy)
    ));
    memory.let_go();
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap(), BindOutcome::Bound);
    }
    assert_eq!(
        store
            .bind(SeatRequest::new(&late, &host("b.com"), at(1)))
            .await
            .unwrap(),
        BindOutcome::Bound
    );
}

#[tokio::test]
async fn a_restart_keeps_every_binding_in_order_even_where_the_clock_stepped_back() {
    let folder = TempDir::new().unwrap();
    let license = license(1, 4);
    let store = open(folder.path()).unwrap();
    for (name, seconds) in [("z.com", 300), ("m.com", 200)] {
        store
            .bind(SeatRequest::new(&license, &host(name), at(seconds)))
            .await
            .unwrap();
    }
    drop(store);
    let store = open(folder.path()).unwrap();
    for (name, seconds) in [("a.com", 100), ("k.com", 400)] {
        store
            .bind(SeatRequest::new(&license, &host(name), at(seconds)))
            .await
            .unwrap();
    }
    let before = store.of(&license.id).to_vec();
    drop(store);
    let store = open(folder.path()).unwrap();
    assert_eq!(hosts_of(&store, &license), ["z.com", "m.com", "a.com", "k.com"]);
    assert_eq!(store.of(&license.id).to_vec(), before);
    assert_eq!(
        store
            .bind(SeatRequest::new(&license, &host("late.com"), at(500)))
            .await
            .unwrap(),
        elsewhere("z.com")
    );
}

#[tokio::test]
async fn a_released_host_makes_room_and_can_be_bound_anew() {
    let folder = TempDir::new().unwrap();
    let mut license = license(1, 1);
    let store = open(folder.path()).unwrap();
    store
        .bind(SeatRequest::new(&license, &host("old.com"), at(10)))
        .await
        .unwrap();
    license.details.released.hosts.insert(host("old.com"), at(20));
    assert_eq!(
        store
            .bind(SeatRequest::new(&license, &host("new.com"), at(30)))
            .await
            .unwrap(),
        BindOutcome::Bound
    );
    assert_eq!(
        store
            .bind(SeatRequest::new(&license, &host("old.com"), at(31)))
            .await
            .unwrap(),
        elsewhere("new.com")
    );

    license.details.released.hosts.insert(host("new.com"), at(40));
    // This server's clock is behind the one that the release was written with.
    assert_eq!(
        store
            .bind(SeatRequest::new(&license, &host("old.com"), at(15)))
            .await
            .unwrap(),
        BindOutcome::Bound
    );
    assert_eq!(
        store
            .bind(SeatRequest::new(&license, &host("new.com"), at(50)))
            .await
            .unwrap(),
        elsewhere("old.com")
    );
    drop(store);
    let store = open(folder.path()).unwrap();
    assert_eq!(hosts_of(&store, &license), ["new.com", "old.com"]);
    assert_eq!(
        store
            .bind(SeatRequest::new(&license, &host("new.com"), at(50)))
            .await
            .unwrap(),
        elsewhere("old.com")
    );
}
