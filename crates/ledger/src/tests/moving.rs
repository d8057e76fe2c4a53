//! Tests of sites that their clients release: with a secret or the key alone, often, at once, and after a restart.

use std::sync::LazyLock;

use super::*;
use crate::log::ReleaseEntry;
use crate::reader::IndexState;
use crate::testing::issued;
use countersign_model::issued_license::IssuedLicense;
use countersign_model::license_step::{LicenseStep, StepRefusal};
use countersign_model::remarks::{Author, NewRemarks};
use countersign_model::site_claim::ClaimStep;
use countersign_model::site_release::{ReleaseHash, ReleasedBy, SiteMove, SiteRelease};
use countersign_model::staging_hosts::StagingRule;

const HOUR: i64 = 3_600;

fn guarded<'a>(license: &'a License, host: &'a SiteHost, secret: &str, seconds: i64) -> SeatRequest<'a> {
    SeatRequest {
        release_hash: Some(ReleaseHash::of(secret)),
        ..SeatRequest::new(license, host, at(seconds))
    }
}

fn leaves(license: &License, name: &str, secret: Option<&str>, seconds: i64) -> ReleaseRequest {
    ReleaseRequest {
        license: license.clone(),
        host: host(name),
        by: Releaser::Site {
            proof: secret.map(ReleaseHash::of),
            most_moves: 5,
            successor: None,
        },
        now: at(seconds),
    }
}

/// Releases a seat, and gives it to `to` with the hash of `secret`.
fn moves_to(
    license: &License,
    from: &str,
    proof: Option<&str>,
    to: &str,
    secret: &str,
    seconds: i64,
) -> ReleaseRequest {
    ReleaseRequest {
        by: Releaser::Site {
            proof: proof.map(ReleaseHash::of),
            most_moves: 5,
            successor: Some(Successor {
                host: host(to),
                release_hash: Some(ReleaseHash::of(secret)),
                staging: StagingRule::NONE,
            }),
        },
        ..leaves(license, from, None, seconds)
    }
}

/// A person's click on the old host: its old secret, and the hash of a new one.
async fn takes_back(store: &Ledger, license: &License, name: &str, secrets: [&str; 2], seconds: i64) -> BindOutcome {
    let host = host(name);
    let request = SeatRequest {
        proof: Some(ReleaseHash::of(secrets[0])),
        ..guarded(license, &host, secrets[1], seconds)
    };
    store.bind(request).await.unwrap()
}

async fn bind(store: &Ledger, license: &License, name: &str, seconds: i64) -> BindOutcome {
    let host = host(name);
    store.bind(SeatRequest::new(license, &host, at(seconds))).await.unwrap()
}

async fn release(store: &Ledger, request: ReleaseRequest) -> Result<(), ReleaseRefusal> {
    match store.release(request).await.unwrap() {
        SiteReleaseOutcome::Released | SiteReleaseOutcome::AlreadyReleased => Ok(()),
        SiteReleaseOutcome::Refused(refusal) => Err(refusal),
    }
}

/// How each release of the license happened.
fn moves(store: &Ledger, license: &License) -> Vec<(String, ReleasedBy)> {
    let bound = store.of(&license.id);
    let moves = bound.moves().iter();
    moves.map(|release| (release.host.to_string(), release.by)).collect()
}

#[tokio::test]
async fn a_binding_with_a_hash_is_released_with_its_secret_only_and_never_taken_back() {
    let (_, store) = on_memory();
    let license = license(1, 1);
    let old = host("old.com");
    store.bind(guarded(&license, &old, "right", 1)).await.unwrap();
    // A later hash changes nothing.
    store.bind(guarded(&license, &old, "thief", 2)).await.unwrap();
    for wrong in [None, Some(""), Some("thief")] {
        let refused = release(&store, leaves(&license, "old.com", wrong, 3)).await;
        assert_eq!(refused, Err(ReleaseRefusal::WrongSecret), "{wrong:?}");
    }
    assert_eq!(bind(&store, &license, "new.com", 3).await, elsewhere("old.com"));
    let right = || leaves(&license, "old.com", Some("right"), 4);
    assert_eq!(release(&store, right()).await, Ok(()));
    assert_eq!(release(&store, right()).await, Ok(()), "the first answer was lost");
    assert_eq!(bind(&store, &license, "new.com", 5).await, BindOutcome::Bound);
    assert_eq!(bind(&store, &license, "old.com", 6).await, elsewhere("new.com"));
    assert_eq!(moves(&store, &license), [("old.com".into(), ReleasedBy::Secret)]);
    let stranger = release(&store, leaves(&license, "stranger.com", None, 7)).await;
    assert_eq!(stranger, Err(ReleaseRefusal::NotBound));
}

#[tokio::test]
async fn a_host_that_was_released_by_the_key_alone_takes_its_seat_back_for_72_hours() {
    let (_, store) = on_memory();
    let license = license(1, 2);
    for name in ["a.com", "old.com"] {
        bind(&store, &license, name, 1).await;
    }
    assert_eq!(release(&store, leaves(&license, "old.com", None, 10)).await, Ok(()));
    assert_eq!(bind(&store, &license, "thief.com", 11).await, BindOutcome::Bound);
    assert_eq!(
        bind(&store, &license, "other.com", 12).await,
        elsewhere("a.com"),
        "who never had a seat has nothing to take back"
    );
    let just_in_time = 10 + 72 * HOUR - 1;
    assert_eq!(
        bind(&store, &license, "old.com", just_in_time).await,
        BindOutcome::Bound
    );
    assert_eq!(
        bind(&store, &license, "thief.com", just_in_time).await,
        elsewhere("a.com")
    );
    assert_eq!(
        moves(&store, &license),
        [
            ("old.com".into(), ReleasedBy::Key),
            ("thief.com".into(), ReleasedBy::Taken)
        ]
    );
    // The same again, too late.
    assert_eq!(
        release(&store, leaves(&license, "old.com", None, just_in_time)).await,
        Ok(())
    );
    bind(&store, &license, "thief.com", just_in_time).await;
    let late = just_in_time + 72 * HOUR;
    assert_eq!(bind(&store, &license, "old.com", late).await, elsewhere("a.com"));
}

#[tokio::test]
async fn what_the_vendor_released_or_bound_is_the_vendors() {
    let (_, store) = on_memory();
    let mut license = license(1, 1);
    bind(&store, &license, "old.com", 1).await;
    assert_eq!(release(&store, leaves(&license, "old.com", None, 2)).await, Ok(()));
    bind(&store, &license, "new.com", 3).await;
    let mut by_vendor = license.clone();
    by_vendor.details.released.hosts.insert(host("old.com"), at(4));
    assert_eq!(bind(&store, &by_vendor, "old.com", 5).await, elsewhere("new.com"));
    license.details.hosts.push(host("new.com"));
    let refused = release(&store, leaves(&license, "new.com", None, 6)).await;
    assert_eq!(refused, Err(ReleaseRefusal::BoundByVendor));
}

#[tokio::test]
async fn a_license_moves_five_times_in_30_days_and_a_return_is_no_move() {
    let (_, store) = on_memory();
    let license = license(1, 1);
    let mut second = 0;
    for number in 0..5 {
        let name = format!("site-{number}.com");
        second += 1;
        assert_eq!(bind(&store, &license, &name, second).await, BindOutcome::Bound);
        assert_eq!(release(&store, leaves(&license, &name, None, second)).await, Ok(()));
    }
    // Back and forth: the last one takes its seat back.
    bind(&store, &license, "new.com", 6).await;
    assert_eq!(bind(&store, &license, "site-4.com", 7).await, BindOutcome::Bound);
    let month = 30 * 24 * HOUR;
    for (seconds, expected) in [
        (8, Err(ReleaseRefusal::TooManyMoves)),
        (month, Err(ReleaseRefusal::TooManyMoves)),
        (month + 1, Ok(())),
    ] {
        let released = release(&store, leaves(&license, "site-4.com", None, seconds)).await;
        assert_eq!(released, expected, "after {seconds} s");
    }
}

#[tokio::test]
async fn a_site_that_comes_back_before_another_left_did_not_move() {
    let (_, store) = on_memory();
    let license = license(1, 1);
    let stay = async |name: &str, second| {
        let host = host(name);
        let request = guarded(&license, &host, "secret", second);
        assert_eq!(store.bind(request).await.unwrap(), BindOutcome::Bound);
    };
    let leave = async |name: &str, second| release(&store, leaves(&license, name, Some("secret"), second)).await;
    // A plugin that is deleted and installed again, ten times.
    for second in 0..10 {
        stay("a.com", second).await;
        assert_eq!(leave("a.com", second).await, Ok(()));
    }
    assert_eq!(store.moves(at(10)).len(), 1, "it has left");
    stay("a.com", 10).await;
    assert_eq!(store.moves(at(10)), []);
    // Five moves are left.
    for name in ["a.com", "b.com", "a.com", "b.com", "a.com"] {
        stay(name, 11).await;
        assert_eq!(leave(name, 11).await, Ok(()));
    }
    stay("b.com", 12).await;
    assert_eq!(leave("b.com", 12).await, Err(ReleaseRefusal::TooManyMoves));
}

#[tokio::test]
async fn a_license_has_no_more_releases_in_30_days_than_the_ledger_can_bear() {
    let (_, store) = on_memory();
    let license = license(1, 1);
    let site = host("a.com");
    let mut released = 0;
    loop {
        store.bind(guarded(&license, &site, "secret", 1)).await.unwrap();
        match release(&store, leaves(&license, "a.com", Some("secret"), 1)).await {
            Ok(()) => released += 1,
            refused => break assert_eq!((refused, released), (Err(ReleaseRefusal::TooManyMoves), 100)),
        }
    }
}

#[tokio::test]
async fn a_seat_that_is_released_goes_to_one_of_those_who_wait_with_it() {
    let (memory, store) = on_memory();
    let license = license(1, 1);
    bind(&store, &license, "old.com", 1).await;
    memory.hold();
    let first = start_binding(&store, &super::license(2, 1), "busy.com").await;
    memory.wait_for("sync begins", 2);
    // These share one commit: two releases of one site, and two who want its seat.
    let releasing: Vec<_> = (0..2)
        .map(|_| {
            let store = store.clone();
            let request = leaves(&license, "old.com", None, 2);
            let (asked, has_asked) = tokio::sync::oneshot::channel();
            let task = tokio::spawn(async move {
                let mut release = std::pin::pin!(store.release(request));
                let mut asked = Some(asked);
                std::future::poll_fn(|context| {
                    let answer = release.as_mut().poll(context);
                    asked.take().map(|asked| asked.send(()));
                    answer
                })
                .await
            });
            (task, has_asked)
        })
        .collect();
    let mut tasks = Vec::new();
    for (task, has_asked) in releasing {
        has_asked.await.unwrap();
        tasks.push(task);
    }
    memory.let_go();
    let mut outcomes = Vec::new();
    for task in tasks {
        outcomes.push(task.await.unwrap().unwrap());
    }
    assert_eq!(
        outcomes,
        [SiteReleaseOutcome::Released, SiteReleaseOutcome::AlreadyReleased]
    );
    first.await.unwrap().unwrap();
    let mut binders = Vec::new();
    for name in ["x.com", "y.com"] {
        binders.push(start_binding(&store, &license, name).await);
    }
    let mut bound = 0;
    for binder in binders {
        bound += usize::from(binder.await.unwrap().unwrap() == BindOutcome::Bound);
    }
    assert_eq!(bound, 1);
    assert_eq!(moves(&store, &license).len(), 1, "the second release had nothing to do");
}

#[tokio::test]
async fn a_release_that_cannot_be_written_releases_nothing() {
    let (memory, store) = on_memory();
    let license = license(1, 1);
    bind(&store, &license, "old.com", 1).await;
    memory.hold();
    memory.end_sync(false);
    let failed = store.release(leaves(&license, "old.com", None, 2)).await;
    assert!(matches!(failed, Err(StoreError::NotDurable(_))), "{failed:?}");
    memory.let_go();
    assert_eq!(bind(&store, &license, "new.com", 3).await, elsewhere("old.com"));
}

#[tokio::test]
async fn releases_and_hashes_outlive_a_restart_a_lost_index_and_a_compaction() {
    let folder = TempDir::new().unwrap();
    let license = license(1, 3);
    {
        let store = open(folder.path()).unwrap();
        for name in ["a.com", "old.com"] {
            bind(&store, &license, name, 1).await;
        }
        let safe = host("safe.com");
        store.bind(guarded(&license, &safe, "right", 1)).await.unwrap();
        for seconds in [2, 4] {
            assert_eq!(
                release(&store, leaves(&license, "old.com", None, seconds)).await,
                Ok(())
            );
            bind(&store, &license, "old.com", seconds + 1).await;
        }
        assert_eq!(release(&store, leaves(&license, "old.com", None, 6)).await, Ok(()));
        bind(&store, &license, "thief.com", 7).await;
        store.close().unwrap();
    }
    let expected: Vec<_> = (0..3).map(|_| ("old.com".to_owned(), ReleasedBy::Key)).collect();
    for what in ["restart", "lost index", "compaction"] {
        match what {
            "lost index" => std::fs::remove_dir_all(folder.path().join("index")).unwrap(),
            "compaction" => {
                let compacted = maintenance::compact(folder.path(), at(8)).unwrap();
                assert_eq!(compacted.kept, 4);
            }
            _ => {}
        }
        let exported = {
            let mut released = Vec::new();
            let reader = read_only(StoreSource::Folder(folder.path())).unwrap();
            reader
                .export(|_, binding| released.push((binding.host.to_string(), binding.is_released())))
                .unwrap();
            released
        };
        let of_license = bindings_of(StoreSource::Folder(folder.path()), &license.id).unwrap();
        let listed: Vec<_> = of_license
            .iter()
            .map(|binding| (binding.host.to_string(), binding.is_released()))
            .collect();
        for bound in [exported, listed] {
            let released: Vec<_> = bound.iter().filter(|(_, released)| *released).collect();
            assert_eq!(
                (bound.len(), released.len(), &*released[0].0),
                (4, 1, "old.com"),
                "{what}"
            );
        }
        let store = open(folder.path()).unwrap();
        assert_eq!(moves(&store, &license), expected, "{what}");
        assert_eq!(bind(&store, &license, "b.com", 9).await, elsewhere("a.com"), "{what}");
        let wrong = release(&store, leaves(&license, "safe.com", None, 9)).await;
        assert_eq!(wrong, Err(ReleaseRefusal::WrongSecret), "{what}");
        store.close().unwrap();
    }
    // Much later, only the releases that still end a binding are kept.
    let store = open(folder.path()).unwrap();
    assert_eq!(bind(&store, &license, "old.com", 10).await, BindOutcome::Bound);
    store.close().unwrap();
    drop(store);
    maintenance::compact(folder.path(), at(40 * 24 * HOUR)).unwrap();
    let ledger = std::fs::read_to_string(folder.path().join("ledger.jsonl")).unwrap();
    let kept: Vec<_> = ledger.lines().filter(|line| line.contains("\"released\"")).collect();
    assert_eq!(kept.len(), 1, "{ledger}");
    assert!(kept[0].contains("thief.com") && kept[0].contains("\"how\":\"return\""));
    assert_eq!(
        bind(&open(folder.path()).unwrap(), &license, "b.com", 41 * 24 * HOUR).await,
        elsewhere("a.com")
    );
}

#[tokio::test]
async fn a_move_gives_the_seat_to_the_new_host_in_one_line_and_counts_once() {
    let (_, store) = on_memory();
    let license = license(1, 1);
    let old = host("old.com");
    store.bind(guarded(&license, &old, "old", 1)).await.unwrap();
    for wrong in [None, Some("thief")] {
        let refused = release(&store, moves_to(&license, "old.com", wrong, "evil.com", "evil", 2)).await;
        assert_eq!(refused, Err(ReleaseRefusal::WrongSecret), "{wrong:?}");
    }
    let stranger = moves_to(&license, "stranger.com", Some("old"), "evil.com", "evil", 2);
    assert_eq!(release(&store, stranger).await, Err(ReleaseRefusal::NotBound));
    assert_eq!(bind(&store, &license, "new.com", 2).await, elsewhere("old.com"));

    let request = || moves_to(&license, "old.com", Some("old"), "new.com", "new", 3);
    let outcomes = [
        store.release(request()).await.unwrap(),
        store.release(request()).await.unwrap(),
    ];
    assert_eq!(
        outcomes,
        [SiteReleaseOutcome::Released, SiteReleaseOutcome::AlreadyReleased]
    );
    let held = store.of(&license.id);
    let new = held.find(&host("new.com")).unwrap();
    assert_eq!(
        (new.bound_at, new.release_hash()),
        (at(3), Some(ReleaseHash::of("new")))
    );
    let moved = held.moves()[0].moved.clone().unwrap();
    assert_eq!(
        (moved.to.as_str(), moved.hash),
        ("new.com", Some(ReleaseHash::of("old")))
    );
    assert_eq!((held.moves().len(), store.moves(at(4))[0].1.len()), (1, 1));
    drop(held);
    // The old host asks as ever: its secret was not sent, so nothing comes back by itself.
    let asks = guarded(&license, &old, "old", 5);
    assert_eq!(store.bind(asks).await.unwrap(), elsewhere("new.com"));
    // The new host moves on with its own secret only.
    let refused = release(
        &store,
        moves_to(&license, "new.com", Some("old"), "evil.com", "evil", 6),
    )
    .await;
    assert_eq!(refused, Err(ReleaseRefusal::WrongSecret));
}

#[tokio::test]
async fn a_refused_move_leaves_everything_as_it_was() {
    let (_, store) = on_memory();
    let mut license = license(1, 2);
    let staging = StagingRule::from(1);
    for (name, seconds) in [("a.com", 1), ("old.com", 2)] {
        store
            .bind(guarded(&license, &host(name), "right", seconds))
            .await
            .unwrap();
    }
    // A staging copy holds no seat, so its move needs one more.
    let copy = host("staging.old.com");
    let request = SeatRequest {
        staging: &staging,
        ..guarded(&license, &copy, "right", 3)
    };
    assert_eq!(store.bind(request).await.unwrap(), BindOutcome::Bound);
    let with_copies = |from: &str, to: &str| {
        let mut request = moves_to(&license, from, Some("right"), to, "new", 4);
        if let Releaser::Site {
            successor: Some(successor),
            ..
        } = &mut request.by
        {
            successor.staging = staging.clone();
        }
        request
    };
    let before = store.of(&license.id).to_vec();
    let refused = release(&store, with_copies("staging.old.com", "new.com")).await;
    assert_eq!(refused, Err(ReleaseRefusal::NoSeat));
    assert_eq!(
        (store.of(&license.id).to_vec(), moves(&store, &license)),
        (before, Vec::new())
    );
    // The site itself moves below its own name, and the copy stays.
    assert_eq!(
        release(&store, with_copies("old.com", "shop.old.com")).await,
        Err(ReleaseRefusal::NoSeat)
    );
    assert_eq!(
        release(&store, with_copies("old.com", "old.example.com")).await,
        Err(ReleaseRefusal::NoSeat)
    );
    license.sites = SiteLimit::Limited(NonZeroU32::new(3).unwrap());
    assert_eq!(
        release(
            &store,
            moves_to(&license, "old.com", Some("right"), "shop.old.com", "new", 5)
        )
        .await,
        Ok(())
    );
    // A host that is bound keeps its place and its hash.
    assert_eq!(
        release(
            &store,
            moves_to(&license, "shop.old.com", Some("new"), "a.com", "other", 6)
        )
        .await,
        Ok(())
    );
    let held = store.of(&license.id);
    let kept = held.find(&host("a.com")).unwrap();
    assert_eq!(
        (kept.bound_at, kept.release_hash()),
        (at(1), Some(ReleaseHash::of("right")))
    );
    assert!(held.moves().last().is_some_and(|release| release.moved.is_none()));
}

#[tokio::test]
async fn the_old_host_takes_its_seat_back_once_with_its_old_secret_within_72_hours() {
    let (_, store) = on_memory();
    let license = license(1, 2);
    let old = host("old.com");
    bind(&store, &license, "a.com", 1).await;
    store.bind(guarded(&license, &old, "old", 1)).await.unwrap();
    assert_eq!(
        release(&store, moves_to(&license, "old.com", Some("old"), "new.com", "new", 10)).await,
        Ok(())
    );
    let just_in_time = 10 + 72 * HOUR - 1;
    for wrong in ["new", "thief", ""] {
        let refused = takes_back(&store, &license, "old.com", [wrong, "fresh"], just_in_time).await;
        assert_eq!(refused, elsewhere("a.com"), "{wrong}");
    }
    let elsewhere_too = takes_back(&store, &license, "evil.com", ["old", "evil"], just_in_time).await;
    assert_eq!(elsewhere_too, elsewhere("a.com"), "the secret is the old host's only");
    assert_eq!(
        takes_back(&store, &license, "old.com", ["old", "fresh"], just_in_time).await,
        BindOutcome::Bound
    );
    assert_eq!(
        bind(&store, &license, "new.com", just_in_time).await,
        elsewhere("a.com")
    );
    assert_eq!(
        moves(&store, &license),
        [
            ("old.com".into(), ReleasedBy::Secret),
            ("new.com".into(), ReleasedBy::Taken)
        ]
    );
    assert_eq!(store.moves(at(just_in_time))[0].1.len(), 1, "the return is no move");
    // Once: the old secret is worth nothing any more, neither to move nor to return.
    let again = moves_to(&license, "old.com", Some("old"), "new.com", "new", just_in_time);
    assert_eq!(release(&store, again).await, Err(ReleaseRefusal::WrongSecret));
    let onwards = moves_to(&license, "old.com", Some("fresh"), "new.com", "new", just_in_time);
    assert_eq!(release(&store, onwards).await, Ok(()));
    assert_eq!(
        takes_back(&store, &license, "old.com", ["old", "fresher"], just_in_time).await,
        elsewhere("a.com")
    );
    let late = just_in_time + 72 * HOUR;
    assert_eq!(
        takes_back(&store, &license, "old.com", ["fresh", "fresher"], late).await,
        elsewhere("a.com")
    );
}

#[tokio::test]
async fn a_thief_who_moves_on_at_once_does_not_keep_the_seat() {
    let (_, store) = on_memory();
    let license = license(1, 1);
    store
        .bind(guarded(&license, &host("old.com"), "backup", 1))
        .await
        .unwrap();
    for (from, proof, to, secret) in [
        ("old.com", "backup", "evil.com", "evil"),
        ("evil.com", "evil", "worse.com", "worse"),
    ] {
        assert_eq!(
            release(&store, moves_to(&license, from, Some(proof), to, secret, 2)).await,
            Ok(())
        );
    }
    assert_eq!(
        takes_back(&store, &license, "old.com", ["backup", "fresh"], 3).await,
        BindOutcome::Bound
    );
    assert_eq!(bind(&store, &license, "worse.com", 4).await, elsewhere("old.com"));
    // The thief has left evil.com himself, and may take that back only from worse.com, which holds nothing.
    assert_eq!(
        takes_back(&store, &license, "worse.com", ["worse", "x"], 4).await,
        elsewhere("old.com")
    );
}

#[tokio::test]
async fn a_seat_released_by_the_key_alone_is_taken_back_once_for_each_release() {
    let (_, store) = on_memory();
    let license = license(1, 1);
    bind(&store, &license, "old.com", 1).await;
    let mut second = 1;
    for _ in 0..5 {
        second += 1;
        assert_eq!(
            release(
                &store,
                moves_to(&license, "old.com", None, "thief.com", "thief", second)
            )
            .await,
            Ok(())
        );
        assert_eq!(bind(&store, &license, "old.com", second + 1).await, BindOutcome::Bound);
        assert_eq!(
            bind(&store, &license, "thief.com", second + 2).await,
            elsewhere("old.com")
        );
        second += 2;
    }
    let refused = release(
        &store,
        moves_to(&license, "old.com", None, "thief.com", "thief", second),
    )
    .await;
    assert_eq!(refused, Err(ReleaseRefusal::TooManyMoves));
}

#[tokio::test]
async fn no_other_site_gets_the_seat_between_release_and_binding() {
    let (memory, store) = on_memory();
    let license = license(1, 1);
    store.bind(guarded(&license, &host("old.com"), "old", 1)).await.unwrap();
    memory.hold();
    let first = start_binding(&store, &super::license(2, 1), "busy.com").await;
    memory.wait_for("sync begins", 2);
    // These share one commit with the move.
    let mut others = Vec::new();
    for name in ["x.com", "y.com", "old.com"] {
        others.push(start_binding(&store, &license, name).await);
    }
    let moving = tokio::spawn({
        let store = store.clone();
        let request = moves_to(&license, "old.com", Some("old"), "new.com", "new", 2);
        async move { store.release(request).await }
    });
    tokio::task::yield_now().await;
    memory.let_go();
    assert_eq!(moving.await.unwrap().unwrap(), SiteReleaseOutcome::Released);
    first.await.unwrap().unwrap();
    for other in others {
        let outcome = other.await.unwrap().unwrap();
        let is_old = outcome == BindOutcome::Bound;
        // old.com may have asked before the move was decided.
        assert!(
            is_old || outcome == elsewhere("old.com") || outcome == elsewhere("new.com"),
            "{outcome:?}"
        );
    }
    assert_eq!(bind(&store, &license, "x.com", 3).await, elsewhere("new.com"));
    assert_eq!(bind(&store, &license, "new.com", 3).await, BindOutcome::Bound);
}

#[tokio::test]
async fn moves_outlive_a_restart_a_lost_index_compactions_and_an_import_of_lines() {
    let folder = TempDir::new().unwrap();
    let license = license(1, 1);
    {
        let store = open(folder.path()).unwrap();
        store.bind(guarded(&license, &host("old.com"), "old", 1)).await.unwrap();
        for (from, proof, to, secret, seconds) in [
            ("old.com", "old", "new.com", "new", 10),
            ("new.com", "new", "newer.com", "newer", 20),
        ] {
            let request = moves_to(&license, from, Some(proof), to, secret, seconds);
            assert_eq!(release(&store, request).await, Ok(()));
        }
        store.close().unwrap();
    }
    let state = |path: &Path| {
        let store = open(path).unwrap();
        let bound = store.of(&license.id);
        let bindings: Vec<_> = bound
            .iter()
            .map(|binding| (binding.host.to_string(), binding.bound_at, binding.release_hash()))
            .collect();
        let found = (bindings, bound.moves().to_vec(), store.moves(at(30)).len());
        drop(bound);
        store.close().unwrap();
        found
    };
    let exported = |path: &Path| {
        let mut found = Vec::new();
        let reader = read_only(StoreSource::Folder(path)).unwrap();
        reader
            .export(|_, binding| found.push((binding.host.to_string(), binding.is_released())))
            .unwrap();
        found
    };
    let expected = state(folder.path());
    let hosts: Vec<_> = expected.0.iter().map(|(host, ..)| host.as_str()).collect();
    assert_eq!(hosts, ["old.com", "new.com", "newer.com"]);
    assert_eq!((expected.0[2].2, expected.1.len()), (Some(ReleaseHash::of("newer")), 2));
    let held = [("old.com", true), ("new.com", true), ("newer.com", false)].map(|(host, void)| (host.to_owned(), void));
    std::fs::remove_dir_all(folder.path().join("index")).unwrap();
    assert_eq!(state(folder.path()), expected, "lost index");
    for compaction in 0..2 {
        assert_eq!(exported(folder.path()), held, "{compaction}");
        let compacted = maintenance::compact(folder.path(), at(30)).unwrap();
        assert_eq!(compacted.kept, 3);
        assert_eq!(state(folder.path()), expected, "{compaction}");
        let verified = read_only(StoreSource::Folder(folder.path())).unwrap().verify().unwrap();
        assert_eq!((verified.index, verified.bindings), (IndexState::Agrees, 3));
    }
    let mut lines = String::new();
    let reader = read_only(StoreSource::Folder(folder.path())).unwrap();
    reader.event_lines(|line| lines.push_str(line)).unwrap();
    assert_eq!(lines.matches("\"to\":").count(), 2, "{lines}");

    // Much later old.com is bound again: only what still binds or ends a binding is kept.
    let month = 40 * 24 * HOUR;
    {
        let store = open(folder.path()).unwrap();
        let request = moves_to(&license, "newer.com", Some("newer"), "old.com", "oldest", month);
        assert_eq!(release(&store, request).await, Ok(()));
        store.close().unwrap();
    }
    maintenance::compact(folder.path(), at(2 * month)).unwrap();
    let (bindings, releases, moves) = state(folder.path());
    let hosts: Vec<_> = bindings.iter().map(|(host, ..)| host.as_str()).collect();
    let said: Vec<_> = releases.iter().map(|release| release.host.as_str()).collect();
    assert_eq!(hosts, ["new.com", "newer.com", "old.com"]);
    assert_eq!(
        (said, moves),
        (vec!["newer.com"], 1),
        "the earlier ones are too old to count"
    );
    let store = open(folder.path()).unwrap();
    assert_eq!(bind(&store, &license, "x.com", 2 * month).await, elsewhere("old.com"));
}

fn bound_by(license: &License, name: &str, seconds: i64) -> LedgerEvent {
    LedgerEvent::Bound(LedgerEntry {
        license: license.id,
        binding: Binding::new(host(name), at(seconds)),
    })
}

#[tokio::test]
async fn a_node_learns_what_another_one_released() {
    let memory = BindingMemory::new(LedgerTables::default());
    let license = license(1, 1);
    let new = host("new.com");
    let (request, pending) = waiting(WantedSeat::from(SeatRequest::new(&license, &new, at(9))));
    let mut batch = BindingBatch::new(&memory, vec![request]);
    let bound = |name: &str, seconds| bound_by(&license, name, seconds);
    batch.learn(bound("a.com", 1));
    let release = SiteRelease::new(host("a.com"), at(2), ReleasedBy::Key);
    batch.learn(LedgerEvent::Released(ReleaseEntry::new(license.id, release)));
    assert_eq!(batch.decide(Some(at(5))), [bound("new.com", 5)]);
    batch.complete(Ok(()));
    assert_eq!(pending.wait().await.unwrap(), BindOutcome::Bound);
    let held = memory.of(&license.id);
    assert_eq!((held.len(), held.moves().len()), (2, 1));
    assert!(held[0].is_released() && !held[1].is_released());
}

#[tokio::test]
async fn a_node_learns_where_another_one_moved_a_site() {
    let memory = BindingMemory::new(LedgerTables::default());
    let license = license(1, 1);
    let old = host("old.com");
    let takes_back = SeatRequest {
        proof: Some(ReleaseHash::of("old")),
        ..SeatRequest::new(&license, &old, at(9))
    };
    let (request, pending) = waiting(WantedSeat::from(takes_back));
    let mut batch = BindingBatch::new(&memory, vec![request]);
    let mut binding = LedgerEntry {
        license: license.id,
        binding: Binding::new(old.clone(), at(1)).guarded(Some(ReleaseHash::of("old"))),
    };
    batch.learn(LedgerEvent::Bound(binding.clone()));
    let mut release = SiteRelease::new(old.clone(), at(2), ReleasedBy::Secret);
    release.moved = Some(Box::new(SiteMove {
        to: host("new.com"),
        hash: binding.binding.release_hash(),
    }));
    binding.binding = Binding::new(host("new.com"), at(2));
    batch.learn(LedgerEvent::Released(ReleaseEntry {
        successor: Some(binding.binding),
        ..ReleaseEntry::new(license.id, release)
    }));
    let left = SiteRelease::new(host("new.com"), at(5), ReleasedBy::Taken);
    let expected = [
        LedgerEvent::Released(ReleaseEntry::new(license.id, left)),
        bound_by(&license, "old.com", 5),
    ];
    assert_eq!(batch.decide(Some(at(5))), expected);
    batch.complete(Ok(()));
    assert_eq!(pending.wait().await.unwrap(), BindOutcome::Bound);
}

fn with_copies<'a>(license: &'a License, host: &'a SiteHost, seconds: i64) -> SeatRequest<'a> {
    SeatRequest {
        staging: &ONE_COPY,
        ..SeatRequest::new(license, host, at(seconds))
    }
}

static ONE_COPY: LazyLock<StagingRule> = LazyLock::new(|| StagingRule {
    sites: 1,
    hosts: ["*.stage.example".parse().unwrap()].into_iter().collect(),
});

/// Asks memory, which may say yes, and then the thread that commits, which must say the same.
async fn bind_beside_copies(store: &Ledger, license: &License, name: &str, seconds: i64) -> BindOutcome {
    let host = host(name);
    store.bind(with_copies(license, &host, seconds)).await.unwrap()
}

#[tokio::test]
async fn memory_and_the_committing_thread_agree_about_staging_copies() {
    for names in [
        [
            "example.com",
            "a.example.com",
            "b.example.com",
            "other.com",
            "x.a.example.com",
        ],
        [
            "example.com",
            "a.stage.example",
            "b.stage.example",
            "other.com",
            "x.a.stage.example",
        ],
        [
            "stage.example",
            "a.stage.example",
            "b.stage.example",
            "c.stage.example",
            "x.a.stage.example",
        ],
    ] {
        all_orders_agree(names).await;
    }
}

async fn all_orders_agree(names: [&str; 5]) {
    // Every order of asking, each also with all that ask in one commit.
    for first in 0..names.len() {
        for second in (0..names.len()).filter(|second| *second != first) {
            let rest = (0..names.len()).filter(|at| ![first, second].contains(at));
            let order: Vec<_> = [first, second].into_iter().chain(rest).map(|at| names[at]).collect();
            let license = license(1, 2);
            let (_, store) = on_memory();
            let mut bound = Vec::new();
            for name in &order {
                let is_free = license.seat(&store.of(&license.id), &ONE_COPY, &host(name)) == Seat::Free;
                let outcome = bind_beside_copies(&store, &license, name, 1).await;
                assert_eq!(outcome == BindOutcome::Bound, is_free, "{order:?} {name}");
                bound.extend((outcome == BindOutcome::Bound).then(|| (*name).to_owned()));
            }
            assert_eq!(hosts_of(&store, &license), bound, "{order:?}");
            assert!(
                license.seat_use(&store.of(&license.id), &ONE_COPY).seats <= 2,
                "{order:?}"
            );

            let (memory, store) = on_memory();
            memory.hold();
            let hosts: Vec<_> = order.iter().map(|name| host(name)).collect();
            let mut asked: Vec<_> = hosts
                .iter()
                .map(|host| Box::pin(store.bind(with_copies(&license, host, 1))))
                .collect();
            // The first poll queues the request.
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            for request in &mut asked {
                let _ = request.as_mut().poll(&mut context);
            }
            memory.let_go();
            for request in asked {
                request.await.unwrap();
            }
            assert_eq!(hosts_of(&store, &license), bound, "{order:?} at once");
        }
    }
}

#[tokio::test]
async fn who_takes_a_seat_back_takes_it_from_a_site_and_its_staging_copy() {
    // A copy leaves only if its seat is needed; under a staging host, it is a copy of any site elsewhere.
    for (thieves, stays) in [
        (["thief.com", "a.thief.com"], false),
        (["a.thief.com", "thief.com"], false),
        (["thief.com", "a.stage.example"], true),
        (["a.stage.example", "thief.com"], false),
    ] {
        let (_, store) = on_memory();
        let license = license(1, 1);
        bind_beside_copies(&store, &license, "old.com", 1).await;
        assert_eq!(release(&store, leaves(&license, "old.com", None, 2)).await, Ok(()));
        for thief in thieves {
            assert_eq!(bind_beside_copies(&store, &license, thief, 3).await, BindOutcome::Bound);
        }
        assert_eq!(
            bind_beside_copies(&store, &license, "old.com", 4).await,
            BindOutcome::Bound
        );
        let held = |name: &str| license.seat(&store.of(&license.id), &ONE_COPY, &host(name)) == Seat::Held;
        let copy = thieves.iter().find(|thief| thief.starts_with("a.")).unwrap();
        assert_eq!(
            ["old.com", "thief.com", copy].map(held),
            [true, false, stays],
            "{thieves:?}"
        );
        assert_eq!(
            bind_beside_copies(&store, &license, "thief.com", 5).await,
            elsewhere(if stays { copy } else { "old.com" })
        );
    }
}

#[tokio::test]
async fn a_copy_that_stays_when_its_site_leaves_keeps_the_seat() {
    for (copy, other) in [
        ("staging.example.com", "other.com"),
        ("a.stage.example", "b.stage.example"),
    ] {
        let (_, store) = on_memory();
        let license = license(1, 1);
        for name in ["example.com", copy] {
            assert_eq!(bind_beside_copies(&store, &license, name, 1).await, BindOutcome::Bound);
        }
        assert_eq!(release(&store, leaves(&license, "example.com", None, 2)).await, Ok(()));
        assert_eq!(bind_beside_copies(&store, &license, other, 3).await, elsewhere(copy));
        assert_eq!(release(&store, leaves(&license, copy, None, 4)).await, Ok(()));
        assert_eq!(bind_beside_copies(&store, &license, other, 5).await, BindOutcome::Bound);
    }
}

#[tokio::test]
async fn of_200_sites_under_a_staging_host_that_ask_in_one_commit_one_needs_no_seat() {
    // Alone, each needs a seat; beside a site elsewhere, one does not, whenever that site asks.
    for (elsewhere, expected) in [(None, 1), (Some(0), 2), (Some(100), 2), (Some(200), 2)] {
        let (memory, store) = on_memory();
        let license = license(1, 1);
        let mut names: Vec<_> = (0..200).map(|number| format!("s{number}.stage.example")).collect();
        if let Some(place) = elsewhere {
            names.insert(place, "example.com".to_owned());
        }
        let hosts: Vec<_> = names.iter().map(|name| host(name)).collect();
        memory.hold();
        let mut asked: Vec<_> = hosts
            .iter()
            .map(|host| Box::pin(store.bind(with_copies(&license, host, 1))))
            .collect();
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        for request in &mut asked {
            let _ = request.as_mut().poll(&mut context);
        }
        memory.let_go();
        let mut bound = 0;
        for request in asked {
            bound += usize::from(request.await.unwrap() == BindOutcome::Bound);
        }
        assert_eq!(
            (bound, hosts_of(&store, &license).len()),
            (expected, expected),
            "{elsewhere:?}"
        );
        assert_eq!(license.used_seats(&store.of(&license.id), &ONE_COPY), 1);
    }
}

/// A move of a license of the ledger from a.com to b.com.
fn moving(license: &IssuedLicense, seconds: i64) -> LedgerChange {
    LedgerChange {
        remarks: NewRemarks::default(),
        author: Author::default(),
        license: license.license.clone(),
        reference: None,
        scope: Arc::clone(&license.scope),
        status_by: None,
        now: at(seconds),
        basis: ChangeBasis::Step {
            step: LicenseStep::Move {
                from: host("a.com"),
                to: host("b.com"),
                staging: 1.into(),
            },
            revision: None,
        },
    }
}

#[tokio::test]
async fn a_move_knows_who_left_and_who_came_in_the_same_commit() {
    let issued = issued(1);
    let license = &issued.license;
    let memory = BindingMemory::new(LedgerTables::default());
    memory.issued.add([Arc::new(issued.clone())]);
    memory.add([bound_by(license, "a.com", 1)]);
    let decide = |requests| {
        let mut batch = BindingBatch::new(&memory, requests);
        batch.decide(None);
        batch.complete(Ok(()));
    };
    let c = host("c.com");
    let (leaves, left) = waiting(leaves(license, "a.com", None, 2));
    let (asks, came) = waiting(WantedSeat::from(SeatRequest::new(license, &c, at(2))));
    let (moves, moved) = waiting(moving(&issued, 2));
    decide(vec![moves, asks, leaves]);
    assert_eq!(left.wait().await.unwrap(), SiteReleaseOutcome::Released);
    assert_eq!(came.wait().await.unwrap(), BindOutcome::Bound);
    let refused = ChangeOutcome::Refused(ChangeRefusal::Step(StepRefusal::NotBound));
    assert_eq!(moved.wait().await.unwrap(), refused);
}

#[tokio::test]
async fn who_asked_before_a_move_is_decided_by_the_license_after_it() {
    let issued = issued(1);
    let license = &issued.license;
    let memory = BindingMemory::new(LedgerTables::default());
    memory.issued.add([Arc::new(issued.clone())]);
    memory.add([bound_by(license, "a.com", 1)]);
    let (moves, moved) = waiting(moving(&issued, 2));
    let mut batch = BindingBatch::new(&memory, vec![moves]);
    batch.decide(None);
    batch.complete(Ok(()));
    assert!(matches!(moved.wait().await.unwrap(), ChangeOutcome::Recorded(after) if after.revision == 2));
    // With the license as it was before the move, a.com has the seat, and can leave.
    let c = host("c.com");
    let (leaves, left) = waiting(leaves(license, "a.com", None, 3));
    let (asks, came) = waiting(WantedSeat::from(SeatRequest::new(license, &c, at(3))));
    let mut batch = BindingBatch::new(&memory, vec![asks, leaves]);
    assert_eq!(batch.decide(None), []);
    batch.complete(Ok(()));
    let not_bound = SiteReleaseOutcome::Refused(ReleaseRefusal::NotBound);
    assert_eq!(left.wait().await.unwrap(), not_bound);
    assert_eq!(came.wait().await.unwrap(), elsewhere("b.com"));
}

#[tokio::test]
async fn a_claim_is_durable_and_stays_while_it_waits() {
    let folder = TempDir::new().unwrap();
    let license = license(1, 9);
    let see = async |store: &Ledger, name: &str, secret: &str, seconds: i64| {
        let seen = SeenHash {
            license: &license,
            host: &host(name),
            hash: ReleaseHash::of(secret),
            is_active: true,
            may_begin: true,
            now: at(seconds),
        };
        store.see_hash(seen).await.unwrap()
    };
    const DAY: i64 = 24 * HOUR;
    {
        let store = open(folder.path()).unwrap();
        for number in 0..7 {
            let site = host(&format!("site-{number}.com"));
            store.bind(guarded(&license, &site, "old", 1)).await.unwrap();
        }
        // One without a hash has nothing to claim.
        bind(&store, &license, "bare.com", 1).await;
        assert_eq!(see(&store, "bare.com", "new", 2).await, None);
        assert_eq!(see(&store, "nobody.com", "new", 2).await, None);
        for number in 0..7 {
            let begun = see(&store, &format!("site-{number}.com"), "new", 2).await;
            assert_eq!(begun, (number < 5).then_some(ClaimStep::Begun), "{number}");
        }
        assert_eq!(see(&store, "site-0.com", "old", 3).await, Some(ClaimStep::Ended));
        store.close().unwrap();
    }
    // The one that ended is forgotten after 30 days; those that wait are not.
    let compacted = maintenance::compact(folder.path(), at(40 * DAY)).unwrap();
    assert_eq!(compacted.kept, 8);
    let store = open(folder.path()).unwrap();
    let waiting: Vec<_> = store.claims().into_iter().map(|entry| entry.claim.step).collect();
    assert_eq!(waiting, [ClaimStep::Begun; 4]);
    assert_eq!(see(&store, "site-1.com", "new", 13 * DAY).await, None);
    assert_eq!(see(&store, "site-1.com", "new", 41 * DAY).await, Some(ClaimStep::Taken));
    let bound = store.of(&license.id);
    assert_eq!(
        bound.find(&host("site-1.com")).unwrap().release_hash(),
        Some(ReleaseHash::of("new"))
    );
    assert_eq!(bound.len(), 8);
}
