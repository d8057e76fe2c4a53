//! Tests of rollouts: each starts once, over all nodes, a restart, a compaction, and a backup.

use super::*;
use crate::ledger_tables::EventTables;
use crate::log::RolloutEntry;
use crate::rollout_changes::{NewestRelease, RolloutChange, RolloutOutcome};
use chrono::TimeDelta;
use countersign_model::remarks::Author;
use countersign_model::rollout::{PluginRollouts, RolloutMark, RolloutPhase, RolloutStep};
use countersign_model::slug::Slug;
use countersign_model::version::Version;

fn slug() -> Slug {
    "acme-forms".parse().unwrap()
}

fn version(text: &str) -> Version {
    text.parse().unwrap()
}

/// A release that a server sees as the newest of the stable channel.
fn newest(text: &str, seconds: i64) -> NewestRelease {
    NewestRelease {
        slug: slug(),
        version: version(text),
        was_served: false,
        first_look: None,
        now: at(seconds),
    }
}

fn change(text: &str, step: RolloutStep, seconds: i64) -> RolloutChange {
    RolloutChange {
        slug: slug(),
        version: version(text),
        step,
        least: None,
        author: Author::default(),
        now: at(seconds),
    }
}

fn steps(rollouts: &PluginRollouts, text: &str) -> Vec<RolloutStep> {
    let marks = &rollouts.of(&version(text)).unwrap().marks;
    marks.iter().map(|mark| mark.step).collect()
}

#[tokio::test]
async fn what_sites_had_before_is_finished_and_what_is_new_starts_once() {
    use RolloutStep::{Finished, Started};
    let folder = TempDir::new().unwrap();
    let store = open(folder.path()).unwrap();
    assert_eq!(store.rollouts(&slug()), None);
    // The first look at a plugin with a beta beside its latest release.
    let first = |text: &str, beside: &[&str]| NewestRelease {
        first_look: Some(beside.iter().map(|text| version(text)).collect()),
        ..newest(text, 1)
    };
    let both = tokio::join!(
        store.see_newest(first("1.0", &["1.0", "1.1-beta.1"])),
        store.see_newest(first("1.1-beta.1", &["1.0", "1.1-beta.1"])),
    );
    assert!(both.0.unwrap().is_changed && both.1.unwrap().is_changed);
    // A node that looked at the same time, and has a newer release already.
    let newer = store.see_newest(first("1.1", &["1.1"])).await.unwrap();
    assert_eq!(steps(&newer.rollouts, "1.1"), [Started]);
    let three = tokio::join!(
        store.see_newest(newest("1.2", 5)),
        store.see_newest(newest("1.2", 6)),
        store.see_newest(newest("1.2", 7))
    );
    let changed = [three.0, three.1, three.2].map(|outcome| outcome.unwrap().is_changed);
    assert_eq!(changed, [true, false, false]);
    let rollouts = store.rollouts(&slug()).unwrap();
    assert_eq!(steps(&rollouts, "1.0"), [Finished]);
    assert_eq!(steps(&rollouts, "1.1-beta.1"), [Finished]);
    assert_eq!(rollouts.of(&version("1.2")).unwrap().started, at(5));
    // The release before one that was taken back has been with the sites.
    let before = NewestRelease {
        was_served: true,
        ..newest("0.9", 8)
    };
    store.see_newest(before).await.unwrap();
    assert_eq!(steps(&store.rollouts(&slug()).unwrap(), "0.9"), [Finished]);
}

#[tokio::test]
async fn a_pause_lasts_over_restarts_compactions_and_a_backup() {
    use RolloutStep::{Finished, Paused, Resumed, Started};
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    let store = open(&path).unwrap();
    let of = |outcome: RolloutOutcome| outcome.is_changed;
    assert!(of(store.see_newest(newest("2.0", 0)).await.unwrap()));
    assert!(of(store.change_rollout(change("2.0", Paused, 3_600)).await.unwrap()));
    assert!(!of(store.change_rollout(change("2.0", Paused, 3_601)).await.unwrap()));
    assert!(!of(store.change_rollout(change("2.1", Paused, 3_601)).await.unwrap()));
    store.close().unwrap();
    drop(store);
    let backup = std::fs::read(path.join("ledger.jsonl")).unwrap();
    maintenance::compact(&path, at(90_000_000)).unwrap();
    let store = open(&path).unwrap();
    let rollouts = store.rollouts(&slug()).unwrap();
    let rollout = rollouts.of(&version("2.0")).unwrap();
    assert_eq!(
        (rollout.phase(), rollout.running(at(90_000_000))),
        (RolloutPhase::Paused, TimeDelta::hours(1))
    );
    // Its time has not come, whatever this node's clock says.
    let due = RolloutChange {
        least: Some(TimeDelta::hours(2)),
        ..change("2.0", Finished, 90_000_000)
    };
    assert!(!of(store.change_rollout(due.clone()).await.unwrap()));
    assert!(of(store
        .change_rollout(change("2.0", Resumed, 90_000_000))
        .await
        .unwrap()));
    let due = RolloutChange {
        now: at(90_000_000 + 3_600),
        ..due
    };
    assert!(of(store.change_rollout(due).await.unwrap()));
    let expected = [Started, Paused, Resumed, Finished];
    assert_eq!(steps(&store.rollouts(&slug()).unwrap(), "2.0"), expected);
    store.close().unwrap();
    drop(store);
    // A backup has what was known then: the release is still paused, and a newer one that was lost starts again.
    let restored = folder.path().join("restored");
    std::fs::create_dir(&restored).unwrap();
    std::fs::write(restored.join("ledger.jsonl"), backup).unwrap();
    let store = open(&restored).unwrap();
    assert_eq!(steps(&store.rollouts(&slug()).unwrap(), "2.0"), [Started, Paused]);
    assert!(of(store.see_newest(newest("2.1", 90_000_000)).await.unwrap()));
    assert_eq!(steps(&store.rollouts(&slug()).unwrap(), "2.1"), [Started]);
}

#[tokio::test]
async fn a_release_that_is_back_begins_again() {
    use RolloutStep::{Restarted, Started, Withheld};
    let folder = TempDir::new().unwrap();
    let store = open(folder.path()).unwrap();
    store.see_newest(newest("2.0", 0)).await.unwrap();
    store.change_rollout(change("2.0", Withheld, 10)).await.unwrap();
    // Three nodes see that it is back.
    for (seconds, expected) in [(20, true), (21, false), (22, false)] {
        let outcome = store.see_newest(newest("2.0", seconds)).await.unwrap();
        assert_eq!(outcome.is_changed, expected);
    }
    let rollouts = store.rollouts(&slug()).unwrap();
    assert_eq!(steps(&rollouts, "2.0"), [Started, Withheld, Restarted]);
    assert_eq!(
        rollouts.of(&version("2.0")).unwrap().running(at(30)),
        TimeDelta::seconds(10)
    );
}

#[tokio::test]
async fn a_node_that_learns_in_its_commit_that_another_one_started_a_rollout_starts_none() {
    let memory = BindingMemory::new(LedgerTables::default());
    let started = RolloutEntry {
        slug: slug(),
        version: version("2.0"),
        mark: RolloutMark {
            step: RolloutStep::Started,
            time: at(4),
            who: None,
            reason: None,
        },
    };
    for is_known in [true, false] {
        let (request, pending) = waiting(newest("2.0", 9));
        let mut batch = BindingBatch::new(&memory, vec![request]);
        if is_known {
            batch.learn(LedgerEvent::Rollout(started.clone()));
        }
        // The clock of the log counts, not the node's own.
        let lines = batch.decide(Some(at(5))).to_vec();
        match is_known {
            true => assert_eq!(lines, []),
            false => assert_eq!(lines[0].time(), at(5)),
        }
        batch.complete(if is_known { Ok(()) } else { Err("no answer".into()) });
        match (is_known, pending.wait().await) {
            (true, Ok(outcome)) => assert!(!outcome.is_changed && !outcome.rollouts.is_empty()),
            (false, Err(_)) => {}
            (_, other) => panic!("{other:?}"),
        }
        if is_known {
            assert!(memory.events().rollouts.of(&slug()).is_some());
            break;
        }
    }
}

#[test]
fn a_repair_appends_the_steps_that_the_log_lacks_and_none_twice() {
    use RolloutStep::{Paused, Resumed, Started};
    let tables = |marks: &[(RolloutStep, i64)]| {
        let mut tables = EventTables::default();
        for (step, seconds) in marks {
            tables.take(&LedgerEvent::Rollout(RolloutEntry {
                slug: slug(),
                version: version("2.0"),
                mark: RolloutMark {
                    step: *step,
                    time: at(*seconds),
                    who: None,
                    reason: None,
                },
            }));
        }
        tables.rollouts
    };
    let kept = tables(&[(Started, 1), (Paused, 2), (Resumed, 3), (Paused, 4)]);
    let lost = |log: &[(RolloutStep, i64)]| {
        let lost = kept.lost(&tables(log)).into_iter();
        lost.map(|entry| (entry.mark.step, entry.mark.time)).collect::<Vec<_>>()
    };
    assert_eq!(lost(&[(Started, 1), (Paused, 2)]), [(Resumed, at(3)), (Paused, at(4))]);
    assert_eq!(lost(&[]).len(), 4);
    // Steps that were appended again have another time.
    assert_eq!(lost(&[(Started, 1), (Paused, 2), (Resumed, 30), (Paused, 40)]), []);
}
