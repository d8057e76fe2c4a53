//! Tests of opening, reading, damaging and compacting a store on a real disk.

use super::*;

#[tokio::test]
async fn a_store_in_use_is_not_opened_twice_but_can_be_looked_at() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let license = license(1, 1);
    let store = open(path).unwrap();
    store
        .bind(SeatRequest::new(&license, &host("a.com"), at(1)))
        .await
        .unwrap();
    assert!(matches!(open(path), Err(StoreError::InUse(named)) if named == path));
    assert!(matches!(maintenance::rebuild(path, false), Err(StoreError::InUse(_))));
    assert!(matches!(maintenance::compact(path, at(9)), Err(StoreError::InUse(_))));
    let reader = reader::open(path).unwrap();
    assert!(reader.is_in_use());
    assert_eq!(reader.of(&license.id).unwrap()[0].0, store.of(&license.id)[0]);
    assert_eq!(reader.verify().unwrap().index, reader::IndexState::Held);
}

#[test]
fn looking_at_a_store_makes_none() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store");
    assert!(matches!(reader::open(&path), Err(StoreError::Missing(_))));
    assert!(!path.exists());
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("store"), "a file").unwrap();
    assert!(matches!(
        open(&folder.path().join("store")),
        Err(StoreError::Read { .. })
    ));
}

/// A store that was closed, with bindings of three licenses: its folder, and what it holds.
async fn closed_store() -> (TempDir, Vec<(License, Vec<String>)>) {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path()).unwrap();
    let mut held = Vec::new();
    for number in 1..=3 {
        let license = license(number, 40);
        for site in 0..40 {
            store
                .bind(SeatRequest::new(&license, &host(&format!("site-{site}.com")), at(site)))
                .await
                .unwrap();
        }
        let hosts = hosts_of(&store, &license);
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
            let from = at / 4096 * 4096;
            let length = bytes.len();
            bytes[from..length.min(from + 4096)].fill(0);
        }
        _ => bytes.truncate(at),
    }
    std::fs::write(file, bytes).unwrap();
}

/// Damages one of `files` 200 times, each time in a fresh copy of the store, and opens it. A store that opens must have
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
                    assert_eq!(hosts_of(&store, license), *hosts, "round {round}");
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
    assert_eq!(hosts_of(&store, &held[2].0), held[2].1);
    store.close().unwrap();
    drop(store);
    let verified = reader::open(folder.path()).unwrap().verify().unwrap();
    assert_eq!(
        (verified.index, verified.bindings, verified.licenses),
        (reader::IndexState::Agrees, 120, 3)
    );

    std::fs::remove_file(folder.path().join("ledger.jsonl")).unwrap();
    assert!(matches!(open(folder.path()), Err(StoreError::Damaged { .. })));
    assert!(
        !folder.path().join("ledger.jsonl").exists(),
        "an empty one would hide it"
    );
}

#[tokio::test]
async fn an_index_that_is_behind_is_brought_up_to_the_ledger() {
    let (folder, held) = closed_store().await;
    let early = TempDir::new().unwrap();
    copy(folder.path(), early.path());
    let late = license(4, 2);
    let id = license(4, 2).id;
    let store = open(folder.path()).unwrap();
    store
        .bind(SeatRequest::new(&late, &host("late.com"), at(99)))
        .await
        .unwrap();
    store.close().unwrap();
    drop(store);
    // As after a crash: the ledger is on disk, the index is older.
    std::fs::copy(folder.path().join("ledger.jsonl"), early.path().join("ledger.jsonl")).unwrap();
    let state = || reader::open(early.path()).unwrap().verify().unwrap().index;
    assert_eq!(state(), reader::IndexState::Behind(1));
    let store = open(early.path()).unwrap();
    assert_eq!(
        (store.of(&id).len(), hosts_of(&store, &held[0].0)),
        (1, held[0].1.clone())
    );
    drop(store);
    assert_eq!(state(), reader::IndexState::Agrees);

    // The reverse: the ledger has lost acknowledged bindings. Only a person can accept that.
    std::fs::remove_dir_all(folder.path().join("index")).unwrap();
    copy(&early.path().join("index"), &folder.path().join("index"));
    let ledger = std::fs::read_to_string(folder.path().join("ledger.jsonl")).unwrap();
    let cut = ledger.trim_end().rfind('\n').unwrap() + 1;
    std::fs::write(folder.path().join("ledger.jsonl"), &ledger[..cut]).unwrap();
    let error = open(folder.path()).err().unwrap().to_string();
    assert!(
        error.ends_with("it ends with sequence 120, but the index has sequence 121"),
        "{error}"
    );
    // Nothing is dropped without consent, and the index still has it.
    for _ in 0..2 {
        let refused = maintenance::rebuild(folder.path(), false).unwrap();
        assert_eq!((refused.bindings, refused.compared, refused.done), (120, true, false));
        let lacking: Vec<_> = refused
            .lacking
            .iter()
            .map(|(license, binding)| (*license, binding.host.as_str()))
            .collect();
        assert_eq!(lacking, [(id, "late.com")]);
        assert!(open(folder.path()).is_err());
    }
    let done = maintenance::rebuild(folder.path(), true).unwrap();
    assert_eq!((done.bindings, done.lacking.len(), done.done), (120, 1, true));
    let again = maintenance::rebuild(folder.path(), false).unwrap();
    assert_eq!(
        (again.bindings, again.lacking.len(), again.done),
        (120, 0, true),
        "an index that agrees lacks nothing"
    );
    assert!(open(folder.path()).unwrap().of(&id).is_empty());
}

#[test]
fn a_store_is_compacted_as_often_as_somebody_asks_within_one_second() {
    let folder = TempDir::new().unwrap();
    drop(open(folder.path()).unwrap());
    let asides = [0, 0, 0].map(|second| maintenance::compact(folder.path(), at(second)).unwrap().aside);
    assert!(
        asides.is_sorted() && asides[0] != asides[1] && asides[1] != asides[2],
        "{asides:?}"
    );
    let sizes = asides.map(|aside| std::fs::metadata(aside).unwrap().len());
    assert!(sizes[0] == 0 && sizes[1] > 0 && sizes[2] > 0, "{sizes:?}");
}

#[tokio::test]
async fn a_compacted_store_is_the_same_store_and_continues_the_old_chain() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let mut license = license(1, 2);
    let store = open(path).unwrap();
    for (name, seconds) in [("a.com", 1), ("b.com", 2), ("a.com", 11)] {
        store
            .bind(SeatRequest::new(&license, &host(name), at(seconds)))
            .await
            .unwrap();
        license.details.released.hosts.insert(host(name), at(10));
    }
    let before = store.of(&license.id).to_vec();
    assert_eq!(hosts_of(&store, &license), ["b.com", "a.com"]);
    drop(store);
    let done = maintenance::compact(path, at(0)).unwrap();
    assert_eq!(
        (done.kept, done.aside.file_name().unwrap().to_str()),
        (2, Some("ledger-until-1970-01-01T000000Z.jsonl"))
    );
    let lines = |file: &Path| {
        std::fs::read_to_string(file)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let old = lines(&done.aside);
    let new = lines(&path.join("ledger.jsonl"));
    assert_eq!((old.len(), new.len()), (3, 3));
    let digest = countersign_model::digest::Digest::of(format!("{}\n", old[2]).as_bytes());
    assert!(
        new[0].contains(&format!("\"kept\":2,\"previous\":\"{digest}\",\"sequence\":4,")),
        "{}",
        new[0]
    );
    assert_eq!(
        reader::open(path).unwrap().verify().unwrap().index,
        reader::IndexState::Agrees
    );

    let store = open(path).unwrap();
    assert_eq!(store.of(&license.id).to_vec(), before);
    store
        .bind(SeatRequest::new(
            &License {
                id: LicenseId::from_bytes([9; 32]),
                ..license
            },
            &host("c.com"),
            at(9),
        ))
        .await
        .unwrap();
    drop(store);
    let verified = reader::open(path).unwrap().verify().unwrap();
    assert_eq!((verified.lines, verified.sequence), (4, 7));
    // A line of the file differs from its sequence, which counts through all compactions.
    let told = |ledger: String| {
        std::fs::write(path.join("ledger.jsonl"), ledger).unwrap();
        reader::open(path).unwrap().verify().unwrap_err().to_string()
    };
    let error = told(format!(
        "{}\n{}\n{}\n",
        new[0],
        new[1].replace("b.com", "d.com"),
        new[2]
    ));
    let place = format!(
        "line 3 of the file (byte {}): does not continue line 2",
        new[0].len() + new[1].len() + 2
    );
    assert!(error.contains(&place), "{error}");
    let error = told(new.join("\n") + "\n");
    assert!(
        error.ends_with("it ends with sequence 6, but the index has sequence 7"),
        "{error}"
    );
    // Kept lines were on disk before the ledger got its name, so they cannot be torn.
    std::fs::remove_dir_all(path.join("index")).unwrap();
    std::fs::write(path.join("ledger.jsonl"), format!("{}\n{}\n", new[0], &new[1][..50])).unwrap();
    assert!(matches!(open(path), Err(StoreError::Damaged { .. })));
    std::fs::write(path.join("ledger.jsonl"), format!("{}\n{}\n", new[0], new[1])).unwrap();
    assert!(matches!(open(path), Err(StoreError::Damaged { .. })));
}

#[test]
fn a_new_store_holds_a_ledger_its_index_and_texts_and_nothing_set_aside() {
    let folder = TempDir::new().unwrap();
    for _ in 0..2 {
        drop(open(folder.path()).unwrap());
        let found = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        let names: HashSet<_> = found.map(|name| name.into_string().unwrap()).collect();
        assert_eq!(
            names,
            ["ledger.jsonl", "texts.jsonl", "index"].map(str::to_owned).into()
        );
    }
    assert_eq!(
        reader::open(folder.path()).unwrap().verify().unwrap().index,
        reader::IndexState::Agrees
    );
}

#[test]
fn the_ledger_is_for_its_owner_only_and_a_store_of_another_format_is_left_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().unwrap();
    drop(open(&folder.path().join("store")).unwrap());
    let mode = |path: &str| {
        std::fs::metadata(folder.path().join(path))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!((mode("store"), mode("store/ledger.jsonl")), (0o700, 0o600));

    std::fs::create_dir(folder.path().join("old")).unwrap();
    std::fs::write(folder.path().join("old/db"), "sled").unwrap();
    assert!(matches!(
        open(&folder.path().join("old")),
        Err(StoreError::Format { .. })
    ));
    assert!(!folder.path().join("old/ledger.jsonl").exists());
}

#[tokio::test]
async fn a_compaction_that_fails_leaves_the_ledger_and_nothing_else() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let license = license(1, 2);
    let store = open(path).unwrap();
    store
        .bind(SeatRequest::new(&license, &host("a.com"), at(1)))
        .await
        .unwrap();
    drop(store);
    let before = std::fs::read(path.join("ledger.jsonl")).unwrap();
    // Nothing can be written where the new ledger would be.
    let new = path.join(".ledger.jsonl.new");
    std::fs::create_dir(&new).unwrap();
    let failed = maintenance::compact(path, at(0)).unwrap_err();
    assert!(matches!(failed, StoreError::NotCompacted { .. }), "{failed:?}");
    assert_eq!(std::fs::read(path.join("ledger.jsonl")).unwrap(), before);
    std::fs::remove_dir(&new).unwrap();

    // Nor does the rest of a killed compaction take space for ever.
    std::fs::write(&new, "half").unwrap();
    drop(open(path).unwrap());
    assert!(!new.exists());
}

/// Appends a line of a kind that no version has, continuing what the ledger ends with.
fn append_of_newer_version(ledger: &Path, kind: &str) {
    let mut bytes = std::fs::read(ledger).unwrap();
    let start = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n');
    let last = &bytes[start.map_or(0, |at| at + 1)..];
    let previous = crate::log::record::previous_of(last).unwrap();
    let line = format!(
        "{{\"event\":\"{kind}\",\"plugin\":\"acme\",\"previous\":\"{}\",\"sequence\":{},\"synced\":1}}\n",
        countersign_model::digest::Digest::of(last),
        previous.sequence + 2
    );
    bytes.extend_from_slice(line.as_bytes());
    std::fs::write(ledger, bytes).unwrap();
}

#[tokio::test]
async fn a_line_of_a_newer_version_is_named_as_such_wherever_a_ledger_is_read() {
    let (folder, _) = closed_store().await;
    let path = folder.path();
    let ledger = path.join("ledger.jsonl");
    append_of_newer_version(&ledger, "ballot");
    let mut feed = crate::ledger_feed::LedgerFeed::new(
        crate::StoreSource::Folder(path),
        crate::ledger_feed::FeedCursor {
            position: crate::log::Position::genesis(),
            time: at(0),
        },
    );
    let fed = feed.next(u64::MAX, 1000).unwrap();
    // A reader keeps a store from being opened.
    let verified = || reader::open(path).unwrap().verify().unwrap_err();
    let errors = [
        open(path).err().unwrap(),
        verified(),
        reader::open(path).unwrap().current(|_| ()).unwrap_err(),
        reader::bindings_of(path, &license(1, 9).id).unwrap_err(),
        crate::maintenance::compact(path, at(9)).err().unwrap(),
        feed.next(u64::MAX, 1000).unwrap_err(),
    ];
    let line = fed.len() + 1;
    for error in errors {
        let told = error.to_string();
        assert!(
            told.starts_with(&format!(
                "{}: a newer version of countersign wrote the ledger: line {line} ",
                ledger.display()
            )) && told.contains("\"ballot\""),
            "{told}"
        );
    }

    // What follows it does not continue it: one of the two was changed.
    append_of_newer_version(&ledger, "ballot");
    let text = std::fs::read_to_string(&ledger).unwrap();
    std::fs::write(&ledger, text.replacen("acme", "acmf", 1)).unwrap();
    assert!(matches!(open(path), Err(StoreError::Damaged { .. })));
}

#[tokio::test]
async fn a_known_line_whose_kind_was_changed_is_damaged() {
    let (folder, _) = closed_store().await;
    let ledger = folder.path().join("ledger.jsonl");
    let text = std::fs::read_to_string(&ledger).unwrap();
    for changed in [
        text.replacen("\"bound\"", "\"bouna\"", 1),
        // The last one: the index knows its digest.
        text.chars()
            .rev()
            .collect::<String>()
            .replacen("\"dnuob\"", "\"anuob\"", 1)
            .chars()
            .rev()
            .collect(),
        text.replacen("\"bound\"", "\"BOUND\"", 1),
    ] {
        assert_ne!(changed, text);
        std::fs::write(&ledger, changed).unwrap();
        let error = open(folder.path()).err().unwrap();
        assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    }
}
