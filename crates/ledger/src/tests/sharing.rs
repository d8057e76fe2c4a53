//! Tests of a batch that learns what other nodes appended.

use super::*;
use crate::command::Pending;
use crate::log::{Position, ReleaseEntry};
use countersign_model::site_release::{ReleasedBy, SiteRelease};

fn entry(license: &License, name: &str) -> LedgerEntry {
    LedgerEntry {
        license: license.id,
        binding: Binding::new(host(name), at(1)),
    }
}

fn asked(license: &License, names: &[&str]) -> (Vec<WaitingRequest>, Vec<Pending<BindOutcome>>) {
    names
        .iter()
        .map(|name| waiting(WantedSeat::from(SeatRequest::new(license, &host(name), at(9)))))
        .unzip()
}

async fn outcomes(pending: Vec<Pending<BindOutcome>>) -> Vec<Result<BindOutcome, String>> {
    let mut outcomes = Vec::new();
    for pending in pending {
        outcomes.push(pending.wait().await.map_err(|error| error.to_string()));
    }
    outcomes
}

#[tokio::test]
async fn a_seat_that_another_node_gave_away_is_taken_and_in_force_only_after_the_commit() {
    let memory = BindingMemory::new(LedgerTables::default());
    let license = license(1, 2);
    let (requests, pending) = asked(&license, &["a.com", "b.com", "b.com", "c.com"]);
    let mut batch = BindingBatch::new(&memory, requests);
    batch.learn(LedgerEvent::Bound(entry(&license, "a.com")));
    // The clock of the log counts, not the node's own.
    assert_eq!(
        batch.decide(Some(at(5))),
        [LedgerEvent::Bound(LedgerEntry {
            binding: Binding::new(host("b.com"), at(5)),
            license: license.id,
        })]
    );
    assert_eq!(memory.count(), 0);
    batch.complete(Ok(()));
    assert_eq!(memory.count(), 2);
    let bound = Ok(BindOutcome::Bound);
    assert_eq!(
        outcomes(pending).await,
        [bound.clone(), bound.clone(), bound, Ok(elsewhere("a.com"))]
    );
}

#[tokio::test]
async fn another_attempt_forgets_the_first_and_a_failure_leaves_memory_as_it_was() {
    let memory = BindingMemory::new(LedgerTables::default());
    let license = license(1, 1);
    let (requests, pending) = asked(&license, &["b.com"]);
    let mut batch = BindingBatch::new(&memory, requests);
    batch.learn(LedgerEvent::Bound(entry(&license, "a.com")));
    assert_eq!(batch.decide(None).len(), 0);
    batch.begin_again();
    assert_eq!(
        batch.decide(None).len(),
        1,
        "the first primary had a line that was lost"
    );
    batch.complete(Err("no answer".into()));
    assert_eq!(memory.count(), 0);
    let told = outcomes(pending).await;
    assert_eq!(
        told,
        [Err("the binding could not be written to the ledger: no answer".into())]
    );
}

#[tokio::test]
async fn what_an_unconfirmed_attempt_decided_counts_if_its_line_is_in_the_log() {
    for is_there in [true, false] {
        let memory = BindingMemory::new(LedgerTables::default());
        let license = license(1, 1);
        let (requests, pending) = asked(&license, &["a.com"]);
        let mut batch = BindingBatch::new(&memory, requests);
        let own = batch.decide(Some(at(5)))[0].clone();
        let [sent, other] = [7, 8].map(|sequence| Position {
            sequence,
            ..Position::genesis()
        });
        batch.send(sent);
        batch.begin_again();
        if is_there {
            batch.learn(own);
            batch.read_to(sent);
        }
        // Others went on from it: the site left, and another one took the seat.
        let release = SiteRelease::new(host("a.com"), at(6), ReleasedBy::Secret);
        batch.learn(LedgerEvent::Released(ReleaseEntry::new(license.id, release)));
        batch.learn(LedgerEvent::Bound(entry(&license, "b.com")));
        batch.read_to(other);
        assert_eq!(batch.decide(Some(at(7))).len(), 0);
        batch.complete(Ok(()));
        let expected = if is_there {
            BindOutcome::Bound
        } else {
            elsewhere("b.com")
        };
        assert_eq!(outcomes(pending).await, [Ok(expected)]);
        let stored = memory.of(&license.id);
        let held = stored.iter().filter(|binding| !license.is_void(binding));
        let hosts: Vec<_> = held.map(|binding| binding.host.to_string()).collect();
        assert_eq!(hosts, ["b.com"]);
    }
}

#[test]
fn a_repaired_log_takes_the_place_of_memory() {
    let memory = BindingMemory::new(LedgerTables::default());
    let kept = license(1, 5);
    let lost = license(2, 5);
    memory.add([entry(&kept, "a.com"), entry(&lost, "a.com")].map(LedgerEvent::Bound));
    let mut builder = checksum::BindingsBuilder::default();
    builder.add(entry(&kept, "b.com"));
    let mut batch = BindingBatch::new(&memory, Vec::new());
    batch.replace_memory(LedgerTables {
        by_license: builder.finish(),
        ..LedgerTables::default()
    });
    batch.complete(Ok(()));
    assert!(memory.of(&lost.id).is_empty());
    let hosts: Vec<_> = memory
        .of(&kept.id)
        .iter()
        .map(|binding| binding.host.to_string())
        .collect();
    assert_eq!(hosts, ["b.com"]);
    memory.add([LedgerEvent::Bound(entry(&lost, "c.com"))]);
    assert_eq!(memory.of(&lost.id).len(), 1);
}
