//! Tests of licenses that machines issue and change.

use super::*;
use crate::command::Pending;
use crate::testing::issued;
use countersign_model::issued_license::{Hex128, IssuedLicense};
use countersign_model::license_step::LicenseStep;
use countersign_model::name::Name;
use countersign_model::remarks::{Author, NamedText, NewRemarks, Remarks};
use countersign_model::stored_text::StoredText;

fn issue(license: &IssuedLicense) -> LedgerChange {
    LedgerChange {
        remarks: NewRemarks::default(),
        author: Author::default(),
        license: license.license.clone(),
        reference: license.reference.map(Into::into),
        scope: license.scope.clone(),
        status_by: None,
        now: license.time,
        basis: license.origin.clone().into(),
    }
}

fn suspend(license: &IssuedLicense, revision: u32) -> LedgerChange {
    let license_change = issue(license);
    LedgerChange {
        license: License {
            status: LicenseStatus::Suspended,
            ..license_change.license
        },
        basis: ChangeBasis::Revision(revision),
        ..license_change
    }
}

fn refused(refusal: ChangeRefusal) -> ChangeOutcome {
    ChangeOutcome::Refused(refusal)
}

#[tokio::test]
async fn an_issued_license_is_there_after_a_restart_a_rebuilt_index_and_a_compaction() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let first = issued(1);
    let second = issued(2);
    let store = open(path).unwrap();
    for license in [&first, &second] {
        let outcome = store.change_license(issue(license)).await.unwrap();
        assert_eq!(outcome, ChangeOutcome::Recorded(Arc::new(license.clone())));
        assert_eq!(*store.issued(&license.license.id).unwrap(), *license);
    }
    store
        .bind(SeatRequest::new(&first.license, &host("a.com"), at(2)))
        .await
        .unwrap();
    store.change_license(suspend(&first, 1)).await.unwrap();
    store.close().unwrap();
    drop(store);

    let status = |store: &Ledger| {
        let first = store.issued(&first.license.id).unwrap();
        (first.license.status, first.revision, store.issued_count())
    };
    let expected = (LicenseStatus::Suspended, 2, 2);
    for step in ["restart", "rebuild", "compact"] {
        match step {
            "rebuild" => assert!(maintenance::rebuild(path, false).unwrap().done),
            "compact" => assert_eq!(maintenance::compact(path, at(9)).unwrap().kept, 1),
            _ => {}
        }
        let verified = reader::open(path).unwrap().verify().unwrap();
        assert_eq!((verified.bindings, verified.issued), (1, 2), "{step}");
        let store = open(path).unwrap();
        assert_eq!(status(&store), expected, "{step}");
        assert_eq!(hosts_of(&store, &first.license), ["a.com"], "{step}");
        let again = store.change_license(issue(&second)).await.unwrap();
        assert_eq!(again, ChangeOutcome::Repeated(Arc::new(second.clone())), "{step}");
        store.close().unwrap();
    }
}

#[tokio::test]
async fn a_request_issues_once_and_a_change_needs_the_revision_that_it_saw() {
    let (_, store) = on_memory();
    let first = issued(1);
    let ask = |change| store.change_license(change);
    assert_eq!(ask(suspend(&first, 1)).await.unwrap(), refused(ChangeRefusal::Unknown));
    ask(issue(&first)).await.unwrap();

    // A retry has a new salt, and so another id.
    let mut retry = issued(2);
    retry.origin.key = first.origin.key;
    retry.origin.body = first.origin.body;
    let repeated = ask(issue(&retry)).await.unwrap();
    assert_eq!(repeated, ChangeOutcome::Repeated(Arc::new(first.clone())));
    assert!(store.memory.issued.of(&retry.license.id).is_none());
    retry.origin.body = Hex128([9; 16]);
    assert_eq!(ask(issue(&retry)).await.unwrap(), refused(ChangeRefusal::OtherRequest));
    let mut same_id = issued(1);
    same_id.origin.key = Hex128([9; 16]);
    assert_eq!(ask(issue(&same_id)).await.unwrap(), refused(ChangeRefusal::Exists));

    let suspended = ask(suspend(&first, 1)).await.unwrap();
    assert!(matches!(suspended, ChangeOutcome::Recorded(license) if license.revision == 2));
    let revised = refused(ChangeRefusal::Revised { revision: 2 });
    assert_eq!(ask(suspend(&first, 1)).await.unwrap(), revised);
}

#[tokio::test]
async fn a_license_that_fits_no_line_is_refused_and_a_note_is_not_kept() {
    let (_, store) = on_memory();
    let mut noted = issued(1);
    noted.license.details.note = "Jane Doe".into();
    store.change_license(issue(&noted)).await.unwrap();
    assert_eq!(
        store.memory.issued.of(&noted.license.id).unwrap().license.details.note,
        ""
    );

    let mut long = issued(2);
    let name = |number: usize| -> Name { format!("{}{number}", "x".repeat(60)).parse().unwrap() };
    long.license.modules = Arc::new((0..100).map(|number| (name(number), Vec::new())).collect());
    let outcome = store.change_license(issue(&long)).await.unwrap();
    assert_eq!(outcome, refused(ChangeRefusal::TooLong));
}

#[tokio::test]
async fn a_license_that_cannot_be_written_is_not_in_force() {
    let (memory, store) = on_memory();
    memory.hold();
    let license = issued(1);
    let task = {
        let store = store.clone();
        let change = issue(&license);
        tokio::spawn(async move { store.change_license(change).await })
    };
    tokio::task::spawn_blocking({
        let memory = memory.clone();
        move || memory.wait_for("sync begins", 1)
    })
    .await
    .unwrap();
    assert!(store.memory.issued.of(&license.license.id).is_none());
    memory.end_sync(false);
    assert!(matches!(task.await.unwrap(), Err(StoreError::NotDurable(_))));
    assert!(store.memory.issued.of(&license.license.id).is_none());
    memory.let_go();
    let outcome = store.change_license(issue(&license)).await.unwrap();
    assert_eq!(outcome, ChangeOutcome::Recorded(Arc::new(license)));
}

fn asked(change: LedgerChange) -> (WaitingRequest, Pending<ChangeOutcome>) {
    waiting(change)
}

#[tokio::test]
async fn what_another_node_issued_answers_a_retry_here_and_another_attempt_forgets_it() {
    let memory = BindingMemory::new(LedgerTables::default());
    let theirs = issued(1);
    let mut retry = issued(2);
    retry.origin.key = theirs.origin.key;
    retry.origin.body = theirs.origin.body;
    let (request, pending) = asked(issue(&retry));
    let mut batch = BindingBatch::new(&memory, vec![request]);
    assert_eq!(batch.len(), 1);
    batch.learn(LedgerEvent::License(Arc::new(theirs.clone())));
    assert_eq!(batch.decide(Some(at(5))).len(), 0);
    batch.complete(Ok(()));
    let repeated = ChangeOutcome::Repeated(Arc::new(theirs.clone()));
    assert_eq!(pending.wait().await.unwrap(), repeated);
    assert_eq!(*memory.issued.of(&theirs.license.id).unwrap(), theirs);

    let memory = BindingMemory::new(LedgerTables::default());
    let (request, pending) = asked(issue(&retry));
    let mut batch = BindingBatch::new(&memory, vec![request]);
    batch.learn(LedgerEvent::License(Arc::new(theirs.clone())));
    batch.begin_again();
    // The clock of the log counts, not the node's own.
    let appended = batch.decide(Some(at(5))).to_vec();
    assert!(matches!(&appended[..], [LedgerEvent::License(license)] if license.time == at(5)));
    batch.complete(Ok(()));
    assert!(matches!(pending.wait().await.unwrap(), ChangeOutcome::Recorded(_)));
    assert!(memory.issued.of(&theirs.license.id).is_none());
}

fn rekey(old: &IssuedLicense, new: &IssuedLicense, revision: Option<u32>) -> LedgerChange {
    LedgerChange {
        basis: ChangeBasis::Rekey {
            origin: new.origin.clone(),
            retired: Vec::new(),
            old: old.license.id,
            revision,
        },
        now: at(9),
        ..issue(new)
    }
}

#[tokio::test]
async fn a_new_key_and_the_end_of_the_old_one_are_one_commit() {
    let (memory, store) = on_memory();
    let mut old = issued(1);
    old.license.sites = SiteLimit::Unlimited;
    old.license.details.staging_sites = Some(3);
    old.license.details.hosts = vec![host("a.com")].into();
    old.reference = Some(Hex128([7; 16]));
    let new = issued(2);
    store.change_license(issue(&old)).await.unwrap();
    let stale = store.change_license(rekey(&old, &new, Some(2))).await.unwrap();
    assert_eq!(stale, refused(ChangeRefusal::Revised { revision: 1 }));
    let status = |license: &IssuedLicense| store.issued(&license.license.id).map(|found| found.license.status);

    // A commit that fails leaves both as they were.
    memory.hold();
    memory.end_sync(false);
    assert!(store.change_license(rekey(&old, &new, None)).await.is_err());
    assert_eq!((status(&old), status(&new)), (Some(LicenseStatus::Active), None));
    memory.let_go();
    let syncs = |memory: &Memory| memory.events().iter().filter(|event| **event == "sync begins").count();
    let before = syncs(&memory);
    let rekeyed = store.change_license(rekey(&old, &new, Some(1))).await.unwrap();
    assert_eq!(syncs(&memory), before + 1);
    let ChangeOutcome::Recorded(replacement) = &rekeyed else {
        panic!("{rekeyed:?}")
    };
    let details = &replacement.license.details;
    assert_eq!(details.replaces, Some(old.license.id));
    assert_eq!((details.staging_sites, details.hosts.len()), (Some(3), 0));
    assert_eq!(
        (replacement.license.sites, replacement.reference),
        (SiteLimit::Unlimited, old.reference)
    );
    assert_eq!(
        (status(&old), status(&new)),
        (Some(LicenseStatus::Revoked), Some(LicenseStatus::Active))
    );

    // A retry finds both, whatever it says of the revision; another request does not.
    let again = store.change_license(rekey(&old, &new, Some(1))).await.unwrap();
    assert_eq!(again, ChangeOutcome::Repeated(replacement.clone()));
    let other = store.change_license(rekey(&old, &issued(3), None)).await.unwrap();
    assert_eq!(other, refused(ChangeRefusal::Revoked));
    let nobody = store.change_license(rekey(&issued(4), &issued(3), None)).await.unwrap();
    assert_eq!(nobody, refused(ChangeRefusal::Unknown));
}

#[tokio::test]
async fn a_retry_revokes_the_old_license_if_power_failed_between_the_two_lines() {
    let (_, store) = on_memory();
    let old = issued(1);
    let new = issued(2);
    for license in [&old, &new] {
        store.change_license(issue(license)).await.unwrap();
    }
    let again = store.change_license(rekey(&old, &new, None)).await.unwrap();
    assert_eq!(again, ChangeOutcome::Repeated(Arc::new(new)));
    assert_eq!(
        store.issued(&old.license.id).unwrap().license.status,
        LicenseStatus::Revoked
    );
}

fn text(name: u8, text: &str) -> NamedText {
    NamedText::random([name; 16], text)
}

#[tokio::test]
async fn what_people_write_of_a_change_stands_beside_the_ledger_and_what_stays_with_the_license_stays() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let store = open(path).unwrap();
    let license = issued(1);
    let by = |who: &str, reason| Author {
        who: Some(text(1, who)),
        reason: Some(reason),
    };
    let first = LedgerChange {
        author: by("Anna Author", text(2, "as agreed")),
        remarks: NewRemarks {
            sold: None,
            holder: Some(Hex128([8; 16])),
            metadata: Some(serde_json::from_str("{\"seller\":\"7\"}").unwrap()),
            note: Some(Some(text(3, "friend of Bob"))),
        },
        ..issue(&license)
    };
    store.change_license(first.clone()).await.unwrap();
    let noted = |store: &Ledger| {
        store
            .issued(&license.license.id)
            .unwrap()
            .license
            .details
            .remarks()
            .clone()
    };
    let expected = Remarks {
        holder: Some(Hex128([8; 16])),
        metadata: serde_json::from_str("{\"seller\":\"7\"}").unwrap(),
        note: Some(Hex128([3; 16])),
        reason: Some(Hex128([2; 16])),
        sold: None,
        who: Some(Hex128([1; 16])),
    };
    assert_eq!(noted(&store), expected);
    // A retry writes nothing, also no other text.
    let again = LedgerChange {
        author: by("Anna Author", text(4, "again")),
        ..first
    };
    assert!(matches!(
        store.change_license(again).await.unwrap(),
        ChangeOutcome::Repeated(_)
    ));
    // The next change is nobody's that is known.
    store.change_license(suspend(&license, 1)).await.unwrap();
    assert_eq!(noted(&store), expected.lasting());
    // A note alone is a change, and nothing is none.
    let step = |remarks: NewRemarks, reason| LedgerChange {
        basis: ChangeBasis::Step {
            step: LicenseStep::Suspend,
            revision: None,
        },
        remarks,
        author: by("Anna Author", reason),
        ..issue(&license)
    };
    let other_note = NewRemarks {
        note: Some(Some(text(5, "no friend"))),
        ..NewRemarks::default()
    };
    let changed = store
        .change_license(step(other_note, text(6, "a quarrel")))
        .await
        .unwrap();
    assert!(
        matches!(&changed, ChangeOutcome::Recorded(license) if license.revision == 3),
        "{changed:?}"
    );
    assert_eq!(noted(&store).note, Some(Hex128([5; 16])));
    // A new key is for the same customer.
    let rekeyed = LedgerChange {
        author: by("Bert", text(7, "lost")),
        ..rekey(&license, &issued(2), None)
    };
    store.change_license(rekeyed).await.unwrap();
    for id in [license.license.id, issued(2).license.id] {
        let remarks = store.issued(&id).unwrap().license.details.remarks().clone();
        assert_eq!(
            (remarks.holder, remarks.reason),
            (expected.holder, Some(Hex128([7; 16])))
        );
        assert_eq!(
            (&remarks.metadata, remarks.note),
            (&expected.metadata, Some(Hex128([5; 16])))
        );
    }
    let names = (1..=9).map(|name| Hex128([name; 16])).collect();
    let mut kept = store.texts(names).await.unwrap();
    kept.sort_by_key(|(name, _)| *name);
    let texts: Vec<_> = kept
        .iter()
        .map(|(Hex128(name), stored)| (name[0], stored.text().unwrap()))
        .collect();
    assert_eq!(
        texts,
        [
            (1, "Anna Author"),
            (2, "as agreed"),
            (3, "friend of Bob"),
            (5, "no friend"),
            (6, "a quarrel"),
            (7, "lost")
        ]
    );
    store.close().unwrap();
    drop(store);
    let ledger = std::fs::read_to_string(path.join("ledger.jsonl")).unwrap();
    assert!(
        !ledger.contains("Anna") && !ledger.contains("lost") && !ledger.contains("friend"),
        "{ledger}"
    );
    let store = open(path).unwrap();
    assert_eq!(noted(&store).note, Some(Hex128([5; 16])));
    let erasure = TextErasure {
        names: vec![Hex128([1; 16])],
        is_one: true,
        is_named: true,
        now: at(20),
    };
    store.erase_texts(erasure).await.unwrap().unwrap();
    let erased = store.texts(vec![Hex128([1; 16])]).await.unwrap();
    assert!(matches!(erased[..], [(_, StoredText::Erased(time))] if time == at(20)));
}

#[tokio::test]
async fn a_compaction_keeps_the_lines_of_a_license_for_four_hundred_days() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let license = issued(1);
    let store = open(path).unwrap();
    let at_second = |change: LedgerChange, second| LedgerChange {
        now: at(second),
        ..change
    };
    store.change_license(at_second(issue(&license), 1)).await.unwrap();
    store.change_license(at_second(suspend(&license, 1), 2)).await.unwrap();
    let resume = LedgerChange {
        license: license.license.clone(),
        ..suspend(&license, 2)
    };
    store.change_license(at_second(resume, 3)).await.unwrap();
    store.close().unwrap();
    drop(store);
    let revisions = || {
        let events = crate::history(crate::StoreSource::Folder(path), &license.license.id).unwrap();
        let revision = |event: &LedgerEvent| match event {
            LedgerEvent::License(issued) => issued.revision,
            other => panic!("{other:?}"),
        };
        events.iter().map(revision).collect::<Vec<_>>()
    };
    assert_eq!(revisions(), [3, 2, 1]);
    let days = 400 * 86_400;
    for (now, expected) in [(days, &[3, 2, 1][..]), (days + 1, &[3, 2]), (days * 9, &[3])] {
        maintenance::compact(path, at(now)).unwrap();
        assert_eq!(revisions(), expected, "{now}");
    }
    let store = open(path).unwrap();
    assert_eq!(store.issued(&license.license.id).unwrap().revision, 3);
}
