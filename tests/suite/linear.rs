//! Bindings are linearizable, also where sites leave: 64 threads bind 16 hosts at once, and a single list of hosts could have given
//! every answer (`support::linear`).

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use chrono::{NaiveDate, Utc};
use countersign_ledger::{
    self, BindOutcome, Ledger, ReleaseRefusal, ReleaseRequest, Releaser, SeatRequest, SiteReleaseOutcome,
};
use countersign_model::license::{Details, License as Granted, LicenseStatus, SiteLimit};
use countersign_model::license_key::LicenseId;
use countersign_model::site_release::ReleaseHash;
use tempfile::TempDir;

use crate::support::http::Client;
use crate::support::instance::question;
use crate::support::linear::clock::Clock;
use crate::support::linear::releases::{self, Change, How, Rules, changes};
use crate::support::linear::{Event, What, check};
use crate::support::random::Random;
use crate::support::server::countersign;
use crate::support::{Instance, License, Server};

const THREADS: usize = 64;
const HOSTS: usize = 16;

/// Asks, in one of the threads: binds a host to the license of a round, or reads (`None`).
type Ask<'a> = Box<dyn FnMut(usize, Option<String>) -> What + 'a>;

/// Lets the threads ask, each with its own `connect`ion, all of them about one license at a time; every round's
/// history.
fn histories<'a>(rounds: usize, reads: bool, connect: impl Fn() -> Ask<'a> + Sync) -> Vec<Vec<Event>> {
    let clock = AtomicU64::new(0);
    let barrier = Barrier::new(THREADS);
    let histories: Vec<Mutex<Vec<Event>>> = (0..rounds).map(|_| Mutex::default()).collect();
    thread::scope(|scope| {
        for number in 0..THREADS {
            let clock = &clock;
            let barrier = &barrier;
            let histories = &histories;
            let connect = &connect;
            scope.spawn(move || {
                let mut ask = connect();
                let mut random = Random::new(number as u64 + 1);
                for (round, history) in histories.iter().enumerate() {
                    barrier.wait();
                    for turn in 0..3 {
                        let host = format!("site-{}.com", random.below(HOSTS));
                        let host = (turn != 1 || !reads).then_some(host);
                        let asked = clock.fetch_add(1, Ordering::SeqCst);
                        let what = ask(round, host);
                        let answered = clock.fetch_add(1, Ordering::SeqCst);
                        history.lock().unwrap().push(Event { asked, answered, what });
                    }
                }
            });
        }
    });
    histories
        .into_iter()
        .map(|history| history.into_inner().unwrap())
        .collect()
}

fn granted(round: usize, sites: u32) -> Granted {
    let mut id = [0; 32];
    id[..8].copy_from_slice(&(round as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
    Granted {
        is_declared: false,
        id: LicenseId::from_bytes(id),
        status: LicenseStatus::Active,
        expires: NaiveDate::MAX,
        modules: Arc::default(),
        sites: SiteLimit::Limited(NonZeroU32::new(sites).unwrap()),
        grace_period_hours: None,
        details: Details::default(),
    }
}

/// So many rounds on a store of this process.
pub fn in_process(sites: u32, rounds: usize) {
    let folder = TempDir::new().unwrap();
    let store = countersign_ledger::open(&folder.path().join("store")).unwrap();
    let read = |license: &Granted| -> Vec<String> {
        store
            .of(&license.id)
            .iter()
            .map(|binding| binding.host.to_string())
            .collect()
    };
    let store = &store;
    let read = &read;
    let histories = histories(rounds, true, || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        Box::new(move |round, host| {
            let license = granted(round, sites);
            let Some(host) = host else {
                return What::Read(read(&license));
            };
            match runtime
                .block_on(store.bind(SeatRequest::new(&license, &host.parse().unwrap(), Utc::now())))
                .unwrap()
            {
                BindOutcome::Bound => What::Bound(host),
                BindOutcome::Elsewhere { first } => What::Elsewhere(host, first.to_string()),
            }
        })
    });
    for (round, history) in histories.iter().enumerate() {
        let list = read(&granted(round, sites));
        assert_eq!(list.len(), sites as usize, "round {round}");
        check(sites as usize, &list, history).unwrap_or_else(|error| panic!("round {round}, {sites} sites: {error}"));
    }
    eprintln!("linearizability: {rounds} rounds of {THREADS} threads and {HOSTS} hosts with {sites} sites");
}

/// How often a license may move in these tests.
const MOVES: u32 = 5;

/// What a host releases its site with: every second one has a secret, and the others have the key alone.
fn secret(host: &str) -> Option<ReleaseHash> {
    let number = host.bytes().rfind(u8::is_ascii_digit).unwrap();
    (number % 2 == 1).then(|| ReleaseHash::of(host))
}

/// The same with hosts that leave: every third question gives a seat back.
fn with_releases(sites: u32, rounds: usize) {
    const LEAVERS: usize = 16;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let store = countersign_ledger::open(&path).unwrap();
    let clock = Clock::start();
    let barrier = Barrier::new(LEAVERS);
    let histories: Vec<Mutex<Vec<Event>>> = (0..rounds).map(|_| Mutex::default()).collect();
    thread::scope(|scope| {
        for number in 0..LEAVERS {
            let store = &store;
            let clock = &clock;
            let barrier = &barrier;
            let histories = &histories;
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                let mut random = Random::new(number as u64 + 1);
                for (round, history) in histories.iter().enumerate() {
                    let license = granted(round, sites);
                    barrier.wait();
                    for turn in 0..6 {
                        let host = format!("site-{}.com", random.below(8));
                        let asked = clock.now();
                        let what = match turn % 3 {
                            2 => runtime.block_on(leave(store, &license, host)),
                            _ => runtime.block_on(ask(store, &license, host)),
                        };
                        let answered = clock.now();
                        history.lock().unwrap().push(Event { asked, answered, what });
                    }
                }
            });
        }
    });
    store.close().unwrap();
    let ledger = std::fs::read_to_string(path.join("ledger.jsonl")).unwrap();
    let mut changes = changes(ledger.lines());
    let rules = Rules {
        sites: sites as usize,
        most_moves: MOVES as usize,
        age: 0,
    };
    let mut returns = 0;
    for (round, history) in histories.into_iter().enumerate() {
        let changes = changes.remove(&granted(round, sites).id.to_string()).unwrap();
        let is_return = |change: &&Change| matches!(change, Change::Released(_, How::Return, _));
        returns += changes.iter().filter(is_return).count();
        let history = history.into_inner().unwrap();
        releases::check(rules, &changes, &history)
            .unwrap_or_else(|error| panic!("round {round}, {sites} sites: {error}: {changes:?}, {history:#?}"));
    }
    eprintln!("linearizability: {rounds} rounds with releases and {sites} sites, {returns} seats taken back");
    assert!(returns > 0);
}

async fn ask(store: &Ledger, license: &Granted, host: String) -> What {
    let site = host.parse().unwrap();
    let request = SeatRequest {
        release_hash: secret(&host),
        ..SeatRequest::new(license, &site, Utc::now())
    };
    match store.bind(request).await.unwrap() {
        BindOutcome::Bound => What::Bound(host),
        BindOutcome::Elsewhere { first } => What::Elsewhere(host, first.to_string()),
    }
}

async fn leave(store: &Ledger, license: &Granted, host: String) -> What {
    let request = ReleaseRequest {
        license: license.clone(),
        host: host.parse().unwrap(),
        by: Releaser::Site {
            proof: secret(&host),
            most_moves: MOVES,
            successor: None,
        },
        now: Utc::now(),
    };
    match store.release(request).await.unwrap() {
        SiteReleaseOutcome::Released | SiteReleaseOutcome::AlreadyReleased => What::Released(host),
        SiteReleaseOutcome::Refused(ReleaseRefusal::NotBound) => What::NotBound(host),
        SiteReleaseOutcome::Refused(ReleaseRefusal::TooManyMoves) => What::TooManyMoves(host),
        SiteReleaseOutcome::Refused(other) => panic!("{host}: {other:?}"),
    }
}

#[test]
fn bindings_are_linearizable_where_sites_leave() {
    for sites in [1, 2, 5] {
        with_releases(sites, 200);
    }
}

#[test]
fn first_bindings_are_linearizable() {
    for sites in [1, 2, 5] {
        in_process(sites, 500);
    }
}

#[test]
fn first_bindings_are_linearizable_over_http() {
    const ROUNDS: usize = 30;
    for sites in [1, 2, 5] {
        let licenses: Vec<License> = (0..ROUNDS).map(|_| License::new()).collect();
        let tables: Vec<_> = licenses
            .iter()
            .map(|license| license.toml(&format!("sites = {sites}")))
            .collect();
        let instance = Instance::with_licenses(&tables);
        let server = Server::start_with(&instance, &["--signing-queue", "1024"]);
        let histories = histories(ROUNDS, false, || {
            let mut client = Client::connect(server.address);
            let licenses = &licenses;
            Box::new(move |round, host| {
                let host = host.expect("only bindings are asked for");
                let answer = client
                    .post_json("/api/v1/validate-license", &question(&licenses[round], &host))
                    .json();
                match answer["code"].as_str().unwrap() {
                    "ok" => What::Bound(host),
                    _ => What::Elsewhere(host, answer["bound_domain"].as_str().unwrap().to_owned()),
                }
            })
        });
        assert!(server.stop().success());
        let exported = countersign(&instance)
            .args(["bindings", "export"])
            .output()
            .unwrap()
            .stdout;
        let lines = String::from_utf8(exported).unwrap();
        let bound: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for (license, history) in licenses.iter().zip(&histories) {
            let of_license = bound.iter().filter(|line| line["license"] == license.id.as_str());
            let list: Vec<String> = of_license
                .map(|line| line["host"].as_str().unwrap().to_owned())
                .collect();
            check(sites, &list, history).unwrap();
        }
    }
}
