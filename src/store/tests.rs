//! The store as the server sees it, on a real disk and on one that fails when told to.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::num::NonZeroU32;
use std::sync::{Arc, Condvar, Mutex};

use chrono::{DateTime, NaiveDate, Utc};
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::bindings::Found;
use super::ledger::Entry;
use super::syncer::QUEUE;
use super::*;
use crate::model::binding::{Binding, Report, Stored};
use crate::model::license::{Particulars, Seat, Sites, Status};

fn license(number: u8, sites: u32) -> License {
    License {
        id: LicenseId::from_bytes([number; 32]),
        status: Status::Active,
        expires: NaiveDate::MAX,
        modules: Arc::default(),
        sites: Sites::Limited(NonZeroU32::new(sites).unwrap()),
        grace_period_hours: None,
        particulars: Particulars::default(),
    }
}

fn host(text: &str) -> SiteHost {
    text.parse().unwrap()
}

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(seconds, 0).unwrap()
}

fn seen(seconds: i64) -> Sighting<'static> {
    Sighting { time: at(seconds), build_id: None, plugin_version: None, current_version: None }
}

fn hosts_of(store: &dyn Bindings, license: &License) -> Vec<String> {
    store.of(&license.id).iter().map(|binding| binding.host.to_string()).collect()
}

fn elsewhere(first: &str) -> Outcome {
    Outcome::Elsewhere { first: host(first) }
}

/// A disk in memory that notes what is done to it and, once told to, syncs only as it is told.
#[derive(Default)]
struct Memory {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    ledger: Vec<Entry>,
    reports: reports::Batch,
    /// Whether reports cannot be written.
    refuses_reports: bool,
    events: Vec<&'static str>,
    /// How each next sync ends; without a word the syncer waits. `None`: all go well.
    script: Option<VecDeque<bool>>,
}

impl Memory {
    fn note(&self, event: &'static str) {
        self.state.lock().unwrap().events.push(event);
        self.changed.notify_all();
    }

    fn events(&self) -> Vec<&'static str> {
        self.state.lock().unwrap().events.clone()
    }

    fn bound(&self) -> Vec<String> {
        self.state.lock().unwrap().ledger.iter().map(|entry| entry.binding.host.to_string()).collect()
    }

    /// From now on every sync waits for [`Memory::end_sync`].
    fn hold(&self) {
        self.state.lock().unwrap().script = Some(VecDeque::new());
    }

    fn end_sync(&self, well: bool) {
        self.state.lock().unwrap().script.as_mut().unwrap().push_back(well);
        self.changed.notify_all();
    }

    /// From now on every sync ends well at once.
    fn let_go(&self) {
        self.state.lock().unwrap().script = None;
        self.changed.notify_all();
    }

    /// Blocks until `event` was noted `times` times.
    fn wait_for(&self, event: &str, times: usize) {
        let seen = |state: &mut State| state.events.iter().filter(|noted| **noted == event).count() < times;
        drop(self.changed.wait_while(self.state.lock().unwrap(), seen).unwrap());
    }
}

impl Disk for Arc<Memory> {
    fn append(&self, entries: &[Entry]) -> io::Result<()> {
        self.note("written");
        self.probe()?;
        self.state.lock().unwrap().ledger.extend_from_slice(entries);
        Ok(())
    }

    fn probe(&self) -> io::Result<()> {
        self.note("sync begins");
        let untold = |state: &mut State| state.script.as_ref().is_some_and(VecDeque::is_empty);
        let mut state = self.changed.wait_while(self.state.lock().unwrap(), untold).unwrap();
        let well = state.script.as_mut().and_then(VecDeque::pop_front).unwrap_or(true);
        drop(state);
        self.note(if well { "synced" } else { "sync failed" });
        if well { Ok(()) } else { Err(io::Error::other("the disk is full")) }
    }

    fn catch_up(&self) -> io::Result<bool> {
        Ok(false)
    }

    fn write_reports(&self, reports: &reports::Batch) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        if state.refuses_reports {
            state.events.push("reports refused");
            self.changed.notify_all();
            return Err(io::Error::other("the disk is full"));
        }
        state.reports.extend(reports.clone());
        Ok(())
    }

    fn sync_index(&self) -> io::Result<()> {
        self.note("index synced");
        Ok(())
    }
}

/// A store that writes only what somebody waits for, until it is closed.
fn on_memory() -> (Arc<Memory>, Arc<Store>) {
    const NEVER: Duration = Duration::from_secs(3600);
    let memory = Arc::new(Memory::default());
    (memory.clone(), Arc::new(Store::new(memory, Picture::default(), NEVER)))
}

type Binder = tokio::task::JoinHandle<Result<Outcome, StoreError>>;

/// Binds in a task of its own; returns once the syncer is writing or the task is waiting for another one.
async fn start_binding(store: &Arc<Store>, license: &License, name: &str) -> Binder {
    let (store, license, host) = (store.clone(), license.clone(), host(name));
    let (asked, has_asked) = tokio::sync::oneshot::channel();
    let task = tokio::spawn(async move {
        let mut binding = std::pin::pin!(store.bind(&license, &host, at(1)));
        let mut asked = Some(asked);
        std::future::poll_fn(|context| {
            let answer = binding.as_mut().poll(context);
            asked.take().map(|asked| asked.send(()));
            answer
        })
        .await
    });
    has_asked.await.unwrap();
    task
}

/// Binds one license from 64 hosts at once.
async fn race(store: Arc<dyn Bindings>, license: License) -> Vec<(SiteHost, Outcome)> {
    let mut tasks = JoinSet::new();
    for number in 0..64 {
        let (store, license, host) = (store.clone(), license.clone(), host(&format!("site-{number}.com")));
        tasks.spawn(async move {
            let outcome = store.bind(&license, &host, at(1)).await.unwrap();
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
        let bound = hosts_of(&*store, &license);
        assert_eq!(bound.len(), sites as usize);
        let told_bound: HashSet<_> = outcomes
            .iter()
            .filter(|(_, outcome)| *outcome == Outcome::Bound)
            .map(|(host, _)| host.to_string())
            .collect();
        assert_eq!(told_bound, bound.iter().cloned().collect());
        for (host, outcome) in &outcomes {
            assert!(*outcome == Outcome::Bound || *outcome == elsewhere(&bound[0]), "{host}: {outcome:?}");
        }
    }
}

#[tokio::test]
async fn a_host_that_is_bound_is_answered_without_a_write() {
    let (memory, store) = on_memory();
    let mut license = license(1, 2);
    license.particulars.hosts.push(host("ahead.com"));
    assert_eq!(store.bind(&license, &host("ahead.com"), at(1)).await.unwrap(), Outcome::Bound);
    assert_eq!(memory.events(), [""; 0], "bound by the registry");
    assert_eq!(store.bind(&license, &host("a.com"), at(1)).await.unwrap(), Outcome::Bound);
    let events = memory.events();
    for _ in 0..3 {
        assert_eq!(store.bind(&license, &host("a.com"), at(2)).await.unwrap(), Outcome::Bound);
        assert_eq!(store.bind(&license, &host("b.com"), at(2)).await.unwrap(), elsewhere("ahead.com"));
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
        assert_eq!(task.await.unwrap().unwrap(), Outcome::Bound);
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
        assert_eq!(task.await.unwrap().unwrap(), Outcome::Bound);
    }
    assert_eq!(memory.events().iter().filter(|event| **event == "synced").count(), 2);
}

#[tokio::test]
async fn a_failing_sync_turns_everybody_away_and_gives_the_seats_back() {
    let (memory, store) = on_memory();
    assert!(store.health().state.is_ok());
    memory.hold();
    let (one, two) = (license(1, 1), license(2, 1));
    let tasks = [start_binding(&store, &one, "a.com").await, start_binding(&store, &one, "a.com").await];
    memory.wait_for("sync begins", 1);
    let further = [start_binding(&store, &two, "a.com").await, start_binding(&store, &license(3, 1), "a.com").await];
    memory.end_sync(false);
    memory.end_sync(false);
    for task in further {
        task.await.unwrap().unwrap_err();
    }
    assert_eq!(store.figures().failures, 3, "bindings, not syncs");
    for task in tasks {
        assert!(matches!(task.await.unwrap(), Err(StoreError::NotDurable(reason)) if &*reason == "the disk is full"));
    }
    assert!(matches!(store.health().state, Err(StoreError::NotDurable(_))));

    memory.let_go();
    assert_eq!(store.bind(&two, &host("c.com"), at(2)).await.unwrap(), Outcome::Bound);
    assert!(store.health().state.is_ok());
    assert_eq!(store.bind(&one, &host("b.com"), at(2)).await.unwrap(), Outcome::Bound);
    assert_eq!(hosts_of(&*store, &one), ["b.com"]);
    assert_eq!(memory.bound(), ["c.com", "b.com"]);
}

#[tokio::test]
async fn a_failed_binding_over_a_void_one_leaves_the_void_one() {
    let (memory, store) = on_memory();
    let mut license = license(1, 1);
    store.bind(&license, &host("a.com"), at(1)).await.unwrap();
    let before = store.of(&license.id).to_vec();
    license.particulars.released.all = Some(at(5));
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
    let second = start_binding(&store, &license, "b.com").await;
    memory.wait_for("sync begins", 1);
    memory.end_sync(false);
    memory.end_sync(true);
    first.await.unwrap().unwrap_err();
    assert_eq!(second.await.unwrap().unwrap(), Outcome::Bound);
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
    assert_eq!(store.bind(&license, &host("a.com"), at(2)).await.unwrap(), Outcome::Bound);
    assert_eq!(memory.events(), ["written", "sync begins", "synced"]);
}

#[tokio::test]
async fn a_full_queue_says_so_and_takes_no_seat() {
    let (memory, store) = on_memory();
    memory.hold();
    let numbered = |number: usize| {
        let mut id = [0; 32];
        id[..8].copy_from_slice(&number.to_le_bytes());
        License { id: LicenseId::from_bytes(id), ..license(0, 1) }
    };
    let mut tasks = vec![start_binding(&store, &numbered(0), "a.com").await];
    memory.wait_for("sync begins", 1);
    for number in 1..=QUEUE {
        tasks.push(start_binding(&store, &numbered(number), "a.com").await);
    }
    let late = numbered(QUEUE + 1);
    assert!(matches!(store.bind(&late, &host("a.com"), at(1)).await, Err(StoreError::Busy)));
    memory.let_go();
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap(), Outcome::Bound);
    }
    assert_eq!(store.bind(&late, &host("b.com"), at(1)).await.unwrap(), Outcome::Bound);
}

#[tokio::test]
async fn a_restart_keeps_every_binding_in_order_even_where_the_clock_stepped_back() {
    let folder = TempDir::new().unwrap();
    let license = license(1, 4);
    let store = open(folder.path()).unwrap();
    for (name, seconds) in [("z.com", 300), ("m.com", 200)] {
        store.bind(&license, &host(name), at(seconds)).await.unwrap();
    }
    drop(store);
    let store = open(folder.path()).unwrap();
    for (name, seconds) in [("a.com", 100), ("k.com", 400)] {
        store.bind(&license, &host(name), at(seconds)).await.unwrap();
    }
    let before = store.of(&license.id).to_vec();
    drop(store);
    let store = open(folder.path()).unwrap();
    assert_eq!(hosts_of(&*store, &license), ["z.com", "m.com", "a.com", "k.com"]);
    assert_eq!(store.of(&license.id).to_vec(), before);
    assert_eq!(store.bind(&license, &host("late.com"), at(500)).await.unwrap(), elsewhere("z.com"));
}

#[tokio::test]
async fn a_released_host_makes_room_and_can_be_bound_anew() {
    let folder = TempDir::new().unwrap();
    let mut license = license(1, 1);
    let store = open(folder.path()).unwrap();
    store.bind(&license, &host("old.com"), at(10)).await.unwrap();
    license.particulars.released.hosts.insert(host("old.com"), at(20));
    assert_eq!(store.bind(&license, &host("new.com"), at(30)).await.unwrap(), Outcome::Bound);
    assert_eq!(store.bind(&license, &host("old.com"), at(31)).await.unwrap(), elsewhere("new.com"));

    license.particulars.released.hosts.insert(host("new.com"), at(40));
    // This server's clock is behind the one the release was written with.
    assert_eq!(store.bind(&license, &host("old.com"), at(15)).await.unwrap(), Outcome::Bound);
    assert_eq!(store.bind(&license, &host("new.com"), at(50)).await.unwrap(), elsewhere("old.com"));
    drop(store);
    let store = open(folder.path()).unwrap();
    assert_eq!(hosts_of(&*store, &license), ["new.com", "old.com"]);
    assert_eq!(store.bind(&license, &host("new.com"), at(50)).await.unwrap(), elsewhere("old.com"));
}

/// A picture of a license that is bound to as many sites.
fn bound_to(license: &License, sites: u32) -> Picture {
    let mut gathering = picture::Gathering::default();
    for number in 0..sites {
        let binding = Binding { host: host(&format!("site-{number}.com")), bound_at: at(1) };
        gathering.add(Entry { license: license.id, binding });
    }
    gathering.finish()
}

#[test]
fn a_site_among_20_000_costs_much_the_same_as_one_among_100() {
    // The quickest of 50 times, asked for the last site, and to bind a new one.
    let quickest = |sites| {
        let license = license(1, 100_000);
        let held = Held::new(bound_to(&license, sites));
        let last = host(&format!("site-{}.com", sites - 1));
        let rounds = (0..50).map(|round| {
            let new = host(&format!("new-{round}.com"));
            let started = std::time::Instant::now();
            assert_eq!(license.seat(&held.of(&license.id), &last), Seat::Held);
            let looked_up = started.elapsed();
            let mut job = None;
            let decided = held.decide(&license, &new, at(2), |given| {
                job = Some(given);
                Ok(())
            });
            assert!(matches!(decided, Ok(Decision::UnderWay(_))));
            held.settle(job.unwrap(), Ok(()));
            (looked_up, started.elapsed() - looked_up)
        });
        let (look_ups, bindings): (Vec<_>, Vec<_>) = rounds.unzip();
        assert_eq!(held.count(), sites as usize + 50);
        (look_ups.into_iter().min().unwrap(), bindings.into_iter().min().unwrap())
    };
    let (few, many) = (quickest(100), quickest(20_000));
    assert!(many.0 < few.0 * 10 && many.1 < few.1 * 10, "{few:?} became {many:?}");
}

#[test]
fn who_read_a_license_before_it_was_bound_once_more_keeps_what_there_was() {
    let license = license(1, 100);
    let held = Held::new(bound_to(&license, 2));
    let bind = |name: &str| {
        let mut job = None;
        let decided = held.decide(&license, &host(name), at(5), |given| {
            job = Some(given);
            Ok(())
        });
        assert!(matches!(decided, Ok(Decision::UnderWay(_))), "{name}");
        held.settle(job.unwrap(), Ok(()));
    };
    let at_first = held.of(&license.id);
    bind("a.com");
    let then = held.of(&license.id);
    bind("b.com");
    let now = held.of(&license.id);
    assert_eq!([&at_first, &then, &now].map(|bound| bound.len()), [2, 3, 4]);
    assert_eq!(held.count(), 4);
    assert!(["site-0.com", "site-1.com", "a.com", "b.com"].iter().all(|name| now.find(&host(name)).is_some()));
}

#[test]
fn a_host_is_found_among_many_and_one_bound_again_counts_where_it_was_bound_last() {
    let license = license(1, 100);
    let picture = bound_to(&license, 20);
    let mut bindings = picture.of(&license.id).unwrap().clone();
    for name in ["a.com", "site-7.com", "z.com", "site-0.com"] {
        bindings.add(Binding { host: host(name), bound_at: at(5) });
    }
    let bound = Bound(Some(Found::Settled(&bindings)));
    for binding in bound.iter() {
        assert_eq!(bound.find(&binding.host), Some(binding));
    }
    assert_eq!((bound.len(), bound.find(&host("b.com"))), (22, None));
    let last: Vec<_> = bound[18..].iter().map(|binding| binding.host.as_str()).collect();
    assert_eq!(last, ["a.com", "site-7.com", "z.com", "site-0.com"]);
}

#[tokio::test]
async fn reports_are_merged_and_written_at_the_end() {
    let folder = TempDir::new().unwrap();
    let (license, site) = (license(1, 1), host("a.com"));
    let version = |version: &'static str| Sighting { plugin_version: Some(version), ..seen(0) };
    let expected = Report { plugin_version: Some("1.1".into()), last_seen: Some(at(9)), ..Report::default() };

    let store = open(folder.path()).unwrap();
    store.bind(&license, &site, at(1)).await.unwrap();
    for report in [version("1.0"), seen(7), version("1.1")] {
        store.report(&license.id, &store.of(&license.id), &site, &report);
    }
    drop(store);
    let store = open(folder.path()).unwrap();
    store.report(&license.id, &store.of(&license.id), &site, &seen(9));
    store.close().unwrap();
    drop(store);
    let found = read_only(folder.path()).unwrap().of(&license.id).unwrap();
    assert_eq!(found, [(Binding { host: site, bound_at: at(1) }, expected)]);
}

#[tokio::test]
async fn reports_that_could_not_be_written_are_kept() {
    let (memory, store) = on_memory();
    memory.state.lock().unwrap().refuses_reports = true;
    let (license, site) = (license(1, 1), host("a.com"));
    let report = Report { last_seen: Some(at(1)), ..Report::default() };
    store.report(&license.id, &store.of(&license.id), &site, &seen(1));
    assert!(matches!(store.close(), Err(StoreError::NotIndexed(_))));
    let waiting: reports::Batch = (0..reports::SHARDS).flat_map(|shard| store.reports.take(shard)).collect();
    assert_eq!(waiting, [(license.id, vec![(site, report)])].into());
}

#[tokio::test]
async fn reports_are_written_and_a_disk_that_works_again_is_noticed_without_anybody_waiting() {
    let memory = Arc::new(Memory::default());
    let store = Arc::new(Store::new(memory.clone(), Picture::default(), Duration::from_millis(1)));
    memory.hold();
    let (license, site) = (license(1, 1), host("a.com"));
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
    let (license, site) = (license(1, 1).id, |number| host(&format!("site-{number}.com")));
    for number in 0..262 {
        reports.add(&license, &site(number), &seen(1));
    }
    assert_eq!((reports.dropped(), reports.waiting()), (6, 256));
    assert!(!reports.add(&license, &site(0), &seen(2)), "nothing is taken until what waits is written");
    let batch = (0..reports::SHARDS).map(|shard| reports.take(shard)).find(|batch| !batch.is_empty()).unwrap();
    assert!(reports.add(&license, &site(0), &seen(2)));
    reports.put_back(batch);
    assert_eq!((reports.dropped(), reports.waiting()), (7, 256));
}

#[tokio::test]
async fn a_report_that_was_dropped_is_counted_each_time_and_taken_once_there_is_room() {
    let (_, store) = on_memory();
    let (license, site) = (license(1, 1), host("a.com"));
    store.bind(&license, &site, at(1)).await.unwrap();
    for number in 0..256 {
        store.report(&license.id, &store.of(&license.id), &host(&format!("site-{number}.com")), &seen(1));
    }
    for dropped in 1..=3 {
        store.report(&license.id, &store.of(&license.id), &site, &seen(1));
        assert_eq!(store.figures().reports_dropped, dropped);
    }
    for shard in 0..reports::SHARDS {
        store.reports.take(shard);
    }
    for _ in 0..2 {
        store.report(&license.id, &store.of(&license.id), &site, &seen(1));
        assert_eq!((store.figures().reports_dropped, store.reports.waiting()), (3, 1));
    }
    assert!(store.of(&license.id).news(&site, &seen(1)).is_none(), "what was taken is no news");
}

#[tokio::test]
async fn an_index_that_is_not_written_is_told_and_counted_and_binds_all_the_same() {
    let memory = Arc::new(Memory::default());
    let store = Store::new(memory.clone(), Picture::default(), Duration::from_millis(1));
    memory.state.lock().unwrap().refuses_reports = true;
    let (license, site) = (license(1, 1), host("a.com"));
    store.report(&license.id, &store.of(&license.id), &site, &seen(1));
    memory.wait_for("reports refused", 3);
    let health = store.health();
    assert!(matches!(health.state, Err(StoreError::NotIndexed(reason)) if &*reason == "the disk is full"));
    assert_eq!(store.health().since, health.since);
    assert_eq!(store.bind(&license, &site, at(1)).await.unwrap(), Outcome::Bound);
    assert!(matches!(store.health().state, Err(StoreError::NotIndexed(_))), "a good ledger does not hide it");
    let Figures { failures, index_failures, .. } = store.figures();
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
    assert!(matches!(store.bind(&license(1, 1), &host("a.com"), at(1)).await, Err(StoreError::Closed)));
    assert!(matches!(store.health().state, Err(StoreError::Closed)));
    store.close().unwrap();
}

#[tokio::test]
async fn a_store_in_use_is_not_opened_twice_but_can_be_looked_at() {
    let folder = TempDir::new().unwrap();
    let (path, license) = (folder.path(), license(1, 1));
    let store = open(path).unwrap();
    store.bind(&license, &host("a.com"), at(1)).await.unwrap();
    assert!(matches!(open(path), Err(StoreError::InUse(named)) if named == path));
    assert!(matches!(inspect::rebuild(path), Err(StoreError::InUse(_))));
    assert!(matches!(inspect::compact(path, at(9)), Err(StoreError::InUse(_))));
    let reader = read_only(path).unwrap();
    assert!(reader.is_in_use());
    assert_eq!(reader.of(&license.id).unwrap()[0].0, store.of(&license.id)[0]);
    assert_eq!(reader.verify().unwrap().index, inspect::IndexState::Held);
}

#[test]
fn looking_at_a_store_makes_none() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    assert!(matches!(read_only(&path), Err(StoreError::Missing(_))));
    assert!(!path.exists());
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("store"), "a file").unwrap();
    assert!(matches!(open(&folder.path().join("store")), Err(StoreError::Read { .. })));
}

/// A store that was closed, with bindings of three licenses: its folder, and what it holds.
async fn closed_store() -> (TempDir, Vec<(License, Vec<String>)>) {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path()).unwrap();
    let mut held = Vec::new();
    for number in 1..=3 {
        let license = license(number, 40);
        for site in 0..40 {
            store.bind(&license, &host(&format!("site-{site}.com")), at(site)).await.unwrap();
        }
        let hosts = hosts_of(&*store, &license);
        held.push((license, hosts));
    }
    store.close().unwrap();
    (folder, held)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Flips a bit, zeroes a page, or cuts the end off.
fn damage(file: &Path, random: &mut impl FnMut(usize) -> usize) {
    let mut bytes = std::fs::read(file).unwrap();
    let at = random(bytes.len());
    match random(3) {
        0 => bytes[at] ^= 1 << random(8),
        1 => {
            let (from, length) = (at / 4096 * 4096, bytes.len());
            bytes[from..length.min(from + 4096)].fill(0);
        }
        _ => bytes.truncate(at),
    }
    std::fs::write(file, bytes).unwrap();
}

/// Damages one of `files` 200 times, each time in a fresh copy of the store, and opens it: whatever opens holds
/// everything. Returns how many opened.
async fn survive(files: &[&str]) -> usize {
    let (whole, held) = closed_store().await;
    let mut seed = 0x2545_F491_4F6C_DD1D_u64;
    let mut random = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below as u64) as usize
    };
    let mut opened = 0;
    for round in 0..200 {
        let folder = TempDir::new().unwrap();
        copy(whole.path(), folder.path());
        damage(&folder.path().join(files[round % files.len()]), &mut random);
        match open(folder.path()) {
            Ok(store) => {
                opened += 1;
                for (license, hosts) in &held {
                    assert_eq!(hosts_of(&*store, license), *hosts, "round {round}");
                }
                store.close().unwrap();
            }
            Err(error) => {
                let text = error.to_string();
                assert!(
                    matches!(error, StoreError::Damaged { .. }) && !text.contains('\n'),
                    "round {round}: {error:?}"
                );
            }
        }
    }
    opened
}

#[tokio::test]
async fn a_ledger_that_is_damaged_at_random_is_never_taken_for_a_whole_one() {
    let opened = survive(&["ledger.jsonl"]).await;
    assert_eq!(opened, 0, "the index knows how the ledger ends");
}

#[tokio::test]
async fn an_index_that_is_damaged_at_random_is_made_anew() {
    let opened = survive(&["index/db", "index/db", "index/db", "index/conf"]).await;
    assert_eq!(opened, 200);
}

#[tokio::test]
async fn a_missing_index_is_made_anew_and_a_missing_ledger_is_told() {
    let (folder, held) = closed_store().await;
    std::fs::remove_dir_all(folder.path().join("index")).unwrap();
    let store = open(folder.path()).unwrap();
    assert_eq!(hosts_of(&*store, &held[2].0), held[2].1);
    store.close().unwrap();
    drop(store);
    let verified = read_only(folder.path()).unwrap().verify().unwrap();
    assert_eq!((verified.index, verified.bindings, verified.licenses), (inspect::IndexState::Agrees, 120, 3));

    std::fs::remove_file(folder.path().join("ledger.jsonl")).unwrap();
    assert!(matches!(open(folder.path()), Err(StoreError::Damaged { .. })));
    assert!(!folder.path().join("ledger.jsonl").exists(), "an empty one would hide it");
}

#[tokio::test]
async fn an_index_that_is_behind_is_brought_up_to_the_ledger() {
    let (folder, held) = closed_store().await;
    let early = TempDir::new().unwrap();
    copy(folder.path(), early.path());
    let (late, id) = (license(4, 2), license(4, 2).id);
    let store = open(folder.path()).unwrap();
    store.bind(&late, &host("late.com"), at(99)).await.unwrap();
    store.close().unwrap();
    drop(store);
    // As a crash leaves them: the ledger is on disk, the index is as it was.
    std::fs::copy(folder.path().join("ledger.jsonl"), early.path().join("ledger.jsonl")).unwrap();
    let state = || read_only(early.path()).unwrap().verify().unwrap().index;
    assert_eq!(state(), inspect::IndexState::Behind(1));
    let store = open(early.path()).unwrap();
    assert_eq!((store.of(&id).len(), hosts_of(&*store, &held[0].0)), (1, held[0].1.clone()));
    drop(store);
    assert_eq!(state(), inspect::IndexState::Agrees);

    // The other way round, the ledger has lost what was acknowledged; only a person can want that.
    std::fs::remove_dir_all(folder.path().join("index")).unwrap();
    copy(&early.path().join("index"), &folder.path().join("index"));
    let ledger = std::fs::read_to_string(folder.path().join("ledger.jsonl")).unwrap();
    let cut = ledger.trim_end().rfind('\n').unwrap() + 1;
    std::fs::write(folder.path().join("ledger.jsonl"), &ledger[..cut]).unwrap();
    let error = open(folder.path()).err().unwrap().to_string();
    assert!(error.ends_with("it ends with line 120, and the index knows of line 121"), "{error}");
    assert_eq!(inspect::rebuild(folder.path()).unwrap(), 120);
    assert!(open(folder.path()).unwrap().of(&id).is_empty());
}

#[tokio::test]
async fn a_compacted_store_is_the_same_store_and_continues_the_old_chain() {
    let folder = TempDir::new().unwrap();
    let (path, mut license) = (folder.path(), license(1, 2));
    let store = open(path).unwrap();
    for (name, seconds) in [("a.com", 1), ("b.com", 2), ("a.com", 11)] {
        store.bind(&license, &host(name), at(seconds)).await.unwrap();
        license.particulars.released.hosts.insert(host(name), at(10));
    }
    let before = store.of(&license.id).to_vec();
    assert_eq!(hosts_of(&*store, &license), ["b.com", "a.com"]);
    drop(store);
    let done = inspect::compact(path, at(0)).unwrap();
    assert_eq!(
        (done.kept, done.aside.file_name().unwrap().to_str()),
        (2, Some("ledger-until-1970-01-01T000000Z.jsonl"))
    );
    let lines = |file: &Path| std::fs::read_to_string(file).unwrap().lines().map(str::to_owned).collect::<Vec<_>>();
    let (old, new) = (lines(&done.aside), lines(&path.join("ledger.jsonl")));
    assert_eq!((old.len(), new.len()), (3, 3));
    let digest = crate::model::digest::Digest::of(format!("{}\n", old[2]).as_bytes());
    assert!(new[0].contains(&format!("\"kept\":2,\"previous\":\"{digest}\",\"sequence\":4,")), "{}", new[0]);
    assert_eq!(read_only(path).unwrap().verify().unwrap().index, inspect::IndexState::Agrees);

    let store = open(path).unwrap();
    assert_eq!(store.of(&license.id).to_vec(), before);
    store.bind(&License { id: LicenseId::from_bytes([9; 32]), ..license }, &host("c.com"), at(9)).await.unwrap();
    drop(store);
    assert_eq!(read_only(path).unwrap().verify().unwrap().lines, 7);
    // What was kept was on disk before the ledger got its name, so none of it can be torn.
    std::fs::remove_dir_all(path.join("index")).unwrap();
    std::fs::write(path.join("ledger.jsonl"), format!("{}\n{}\n", new[0], &new[1][..50])).unwrap();
    assert!(matches!(open(path), Err(StoreError::Damaged { .. })));
    std::fs::write(path.join("ledger.jsonl"), format!("{}\n{}\n", new[0], new[1])).unwrap();
    assert!(matches!(open(path), Err(StoreError::Damaged { .. })));
}

#[test]
fn a_new_store_holds_a_ledger_and_its_index_and_nothing_set_aside() {
    let folder = TempDir::new().unwrap();
    for _ in 0..2 {
        drop(open(folder.path()).unwrap());
        let found = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let names: HashSet<_> = found.map(|name| name.into_string().unwrap()).collect();
        assert_eq!(names, ["ledger.jsonl".to_owned(), "index".to_owned()].into());
    }
    assert_eq!(read_only(folder.path()).unwrap().verify().unwrap().index, inspect::IndexState::Agrees);
}

#[test]
fn the_ledger_is_for_its_owner_only_and_a_store_of_another_format_is_left_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().unwrap();
    drop(open(&folder.path().join("store")).unwrap());
    let mode = |path: &str| std::fs::metadata(folder.path().join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("store"), mode("store/ledger.jsonl")), (0o700, 0o600));

    std::fs::create_dir(folder.path().join("old")).unwrap();
    std::fs::write(folder.path().join("old/db"), "sled").unwrap();
    assert!(matches!(open(&folder.path().join("old")), Err(StoreError::Format { .. })));
    assert!(!folder.path().join("old/ledger.jsonl").exists());
}
