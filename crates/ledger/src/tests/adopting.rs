//! Tests of licenses that files declare and the ledger adopts.

use super::*;
use crate::testing::issued;
use countersign_model::issued_license::{ChangeKind, ChangeScope, IssuedLicense};
use countersign_model::license_step::{LicenseStep, StepRefusal};
use countersign_model::remarks::Author;

/// A license with one seat that a file declares.
fn declared() -> License {
    License {
        is_declared: true,
        expires: NaiveDate::from_ymd_opt(2027, 12, 31).unwrap(),
        ..license(7, 1)
    }
}

fn adoption(declared: &License, then: Option<AdoptedStep>) -> AdoptionRequest {
    AdoptionRequest {
        note: None,
        declared: declared.clone(),
        staging: 0.into(),
        then,
        scope: Arc::new(ChangeScope::operator()),
        author: Author::default(),
        now: at(9),
    }
}

fn step(step: LicenseStep) -> Option<AdoptedStep> {
    Some(AdoptedStep::Step(step))
}

fn recorded(outcome: ChangeOutcome) -> Arc<IssuedLicense> {
    match outcome {
        ChangeOutcome::Recorded(license) => license,
        other => panic!("{other:?}"),
    }
}

/// How many lines the ledger in this folder has.
fn lines(path: &Path) -> usize {
    std::fs::read_to_string(path.join("ledger.jsonl"))
        .unwrap()
        .lines()
        .count()
}

#[tokio::test]
async fn a_declared_license_is_adopted_once_with_its_bindings_and_stays_after_a_restart() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let store = open(path).unwrap();
    let declared = declared();
    store
        .bind(SeatRequest::new(&declared, &host("a.com"), at(2)))
        .await
        .unwrap();
    let adopted = recorded(store.adopt(adoption(&declared, None)).await.unwrap());
    assert_eq!(adopted.adopted_grant(), Some(declared.grant_digest()));
    assert_eq!((adopted.revision, adopted.kind), (1, ChangeKind::Issued));
    assert_eq!(
        adopted.license,
        License {
            is_declared: false,
            ..declared.clone()
        }
    );
    let again = store.adopt(adoption(&declared, None)).await.unwrap();
    assert_eq!(again, ChangeOutcome::Repeated(adopted.clone()));
    let otherwise = License {
        sites: SiteLimit::Unlimited,
        ..declared.clone()
    };
    let other = store.adopt(adoption(&otherwise, None)).await.unwrap();
    assert_eq!(other, ChangeOutcome::Refused(ChangeRefusal::Exists));
    let second = store
        .bind(SeatRequest::new(&otherwise, &host("b.com"), at(10)))
        .await
        .unwrap();
    assert_eq!(
        second,
        elsewhere("a.com"),
        "the ledger's license counts, not the declaration"
    );
    store.close().unwrap();
    drop(store);
    let store = open(path).unwrap();
    assert_eq!(*store.issued(&declared.id).unwrap(), *adopted);
    assert_eq!(hosts_of(&store, &declared), ["a.com"]);
    assert_eq!(lines(path), 2);
}

#[tokio::test]
async fn adoption_and_step_are_one_line() {
    let expires = NaiveDate::from_ymd_opt(2030, 1, 1).unwrap();
    for (then, kind) in [
        (LicenseStep::Revoke, ChangeKind::Revoked),
        (LicenseStep::Suspend, ChangeKind::Suspended),
        (LicenseStep::Renew(expires), ChangeKind::Renewed),
        // It is so already.
        (LicenseStep::Resume, ChangeKind::Issued),
    ] {
        let folder = TempDir::new().unwrap();
        let store = open(folder.path()).unwrap();
        let declared = declared();
        let adopted = recorded(store.adopt(adoption(&declared, step(then.clone()))).await.unwrap());
        assert_eq!((adopted.revision, adopted.kind), (1, kind), "{then:?}");
        assert_eq!(adopted.adopted_grant(), Some(declared.grant_digest()));
        assert_eq!(lines(folder.path()), 1, "{then:?}");
        // The same order again finds the license there, and the step done.
        let again = store.adopt(adoption(&declared, step(then))).await.unwrap();
        assert_eq!(again, ChangeOutcome::Repeated(adopted));
        // And another one changes what the ledger has.
        let revoked = recorded_or_repeated(
            store
                .adopt(adoption(&declared, step(LicenseStep::Revoke)))
                .await
                .unwrap(),
        );
        assert_eq!(revoked.license.status, LicenseStatus::Revoked);
    }
}

fn recorded_or_repeated(outcome: ChangeOutcome) -> Arc<IssuedLicense> {
    match outcome {
        ChangeOutcome::Recorded(license) | ChangeOutcome::Repeated(license) => license,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_step_that_is_refused_adopts_nothing() {
    let (_, store) = on_memory();
    let declared = License {
        status: LicenseStatus::Revoked,
        ..declared()
    };
    let outcome = store
        .adopt(adoption(&declared, step(LicenseStep::Resume)))
        .await
        .unwrap();
    let revoked = ChangeRefusal::Step(StepRefusal::Revoked);
    assert_eq!(outcome, ChangeOutcome::Refused(revoked));
    assert!(store.issued(&declared.id).is_none());
    let adopted = recorded(store.adopt(adoption(&declared, None)).await.unwrap());
    assert_eq!(adopted.license.status, LicenseStatus::Revoked);
}

#[tokio::test]
async fn a_declared_license_is_rekeyed_and_revoked_in_one_commit() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path()).unwrap();
    let declared = declared();
    let new = issued(1);
    let rekey = AdoptedStep::Rekey {
        id: new.license.id,
        origin: new.origin.clone(),
        retired: Vec::new(),
    };
    let replacement = recorded(store.adopt(adoption(&declared, Some(rekey.clone()))).await.unwrap());
    assert_eq!(replacement.license.details.replaces, Some(declared.id));
    assert_eq!(replacement.license.expires, declared.expires);
    let old = store.issued(&declared.id).unwrap();
    assert_eq!((old.license.status, old.revision), (LicenseStatus::Revoked, 1));
    assert_eq!(old.adopted_grant(), Some(declared.grant_digest()));
    assert_eq!(lines(folder.path()), 2);
    let again = store.adopt(adoption(&declared, Some(rekey))).await.unwrap();
    assert_eq!(again, ChangeOutcome::Repeated(replacement));
}

#[tokio::test]
async fn what_another_node_adopted_counts_in_the_same_commit() {
    let memory = BindingMemory::new(LedgerTables::default());
    let declared = declared();
    let scope = Arc::new(ChangeScope::operator());
    let mut revoked = declared.adopted(&[][..], &0.into(), &scope, at(3));
    revoked.revision = 1;
    revoked.license.status = LicenseStatus::Revoked;
    let (adopting, adopted) = waiting(adoption(&declared, None));
    let resuming = adoption(&declared, step(LicenseStep::Resume));
    let (resuming, resumed) = waiting(resuming);
    let mut batch = BindingBatch::new(&memory, vec![adopting, resuming]);
    batch.learn(LedgerEvent::License(Arc::new(revoked.clone())));
    assert_eq!(batch.decide(Some(at(5))), []);
    batch.complete(Ok(()));
    assert_eq!(
        adopted.wait().await.unwrap(),
        ChangeOutcome::Repeated(Arc::new(revoked))
    );
    let refusal = ChangeRefusal::Step(StepRefusal::Revoked);
    assert_eq!(resumed.wait().await.unwrap(), ChangeOutcome::Refused(refusal));
}
