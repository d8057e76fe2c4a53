//! Any bytes as an archive. An accepted archive can be read in one way only, and has a normal form with the same files.
#![no_main]

use std::io::Cursor;
use std::path::{Component, Path};

use countersign_package::archive::Archive;
use countersign_package::check::{Expected, check};
use countersign_package::mark::Places;
use countersign_package::normalize::normalize;
use countersign_package::{MAX_RATIO, MAX_UNPACKED};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let archive = match Archive::check(bytes) {
        Ok(archive) => archive,
        Err(error) => {
            let told = error.to_string();
            assert!(
                !told.contains(char::is_control),
                "a refusal steers no terminal: {told:?}"
            );
            return;
        }
    };
    assert!(archive.unpacked() <= MAX_UNPACKED.min(MAX_RATIO * bytes.len() as u64));
    let mut files = Vec::new();
    for file in archive.files() {
        let path = Path::new(file.name.as_str());
        assert!(
            path.components()
                .all(|component| matches!(component, Component::Normal(_))),
            "{path:?}"
        );
        let content = archive.read(file).expect("what was checked is read");
        assert_eq!((content.len() as u64, crc32fast::hash(&content)), (file.size, file.crc));
        files.push((file.name.to_string(), content));
    }
    // Nothing is in the archive beside what belongs to it: headers, names and data are no longer than the whole.
    let packed: u64 = archive
        .entries()
        .iter()
        .map(|entry| entry.packed + 76 + 2 * entry.name.as_str().len() as u64)
        .sum();
    assert!(packed + 22 <= bytes.len() as u64);

    let found = check(
        &archive,
        &Expected {
            marked: true,
            ..Expected::default()
        },
        |_, _| None,
    )
    .expect("is in memory");
    let Some(folder) = found.folder else { return };
    let id = uuid::Uuid::from_u128(bytes.len() as u128);
    for marked in [false, true] {
        let mut out = Cursor::new(Vec::new());
        let time = chrono::DateTime::UNIX_EPOCH;
        // A mark of its own, or a ratio that the folders' entries hid.
        let Ok(package) = normalize(&archive, &mut out, &folder, time, marked) else {
            continue;
        };
        let mut normal = out.into_inner();
        if let Some(mark) = package.mark {
            mark.patch(id).apply(0, &mut normal);
        }
        let normal = Archive::check(&normal[..]).expect("the normal form is taken");
        if marked {
            assert_eq!(Places::of(&normal, &folder).expect("is in memory"), package.mark);
        }
        let read = normal
            .files()
            .map(|file| (file.name.to_string(), normal.read(file).expect("is in memory")));
        let read: Vec<_> = read
            .filter(|(name, _)| !marked || !name.ends_with("/build-id.php"))
            .collect();
        let expected: Vec<_> = files
            .iter()
            .filter(|(name, _)| !marked || !name.ends_with("/build-id.php"))
            .cloned()
            .collect();
        assert_eq!(read, expected);
    }
});
