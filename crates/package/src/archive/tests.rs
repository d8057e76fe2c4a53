//! Tests with valid and hostile archives, made by hand.

use proptest::prelude::*;

use super::testing::{Made, deflate, field, parts, put, zip, zip_of};
use super::*;
use crate::entry_name::NameError;
use crate::format::{END_LENGTH, end_record};

/// The reader's result for an archive.
fn result(bytes: &[u8]) -> String {
    match Archive::check(bytes) {
        Ok(archive) => format!("taken: {} entries", archive.entries().len()),
        Err(error) => error.to_string(),
    }
}

fn reason(bytes: &[u8]) -> ArchiveRefusal {
    Archive::check(bytes).unwrap_err().reason().unwrap().clone()
}

/// The reader's result for one entry between two valid ones.
fn result_of(entry: Made) -> String {
    let [first, last] = [Made::stored("f/a", b"first"), Made::deflated("f/z", b"last last last")];
    result(&zip(&[first, entry, last]))
}

const TAKEN: &str = "taken: 3 entries";

fn file() -> Made {
    Made::deflated("f/file", b"content content content")
}

#[test]
fn files_and_folders_of_foreign_programs_are_taken() {
    assert_eq!(result_of(file()), TAKEN);
    assert_eq!(result_of(Made::stored("f/sub/", b"")), TAKEN);
    assert_eq!(result_of(Made::deflated("f/sub/", b"")), TAKEN);
    assert_eq!(
        result_of(Made::stored("f/", b"").attributes(0o040_755 << 16 | 0x10)),
        TAKEN
    );
    // MS-DOS: no mode.
    assert_eq!(result_of(file().attributes(0x20)), TAKEN);
    assert_eq!(result_of(Made::stored("f/ä", b"x")), TAKEN);
    // Without the flag for it, as macOS writes it.
    assert_eq!(result_of(Made::stored("f/ä", b"x").both16(0, 0)), TAKEN);
    assert_eq!(result_of(file().both16(0, 2)), TAKEN);
    for (has_signature, is_long) in [(false, false), (true, false), (false, true), (true, true)] {
        assert_eq!(result_of(file().with_descriptor(has_signature, is_long)), TAKEN);
        assert_eq!(
            result_of(Made::stored("f/x", b"x").with_descriptor(has_signature, is_long)),
            TAKEN
        );
    }
    // Times, as Info-ZIP writes them; and another date in one of the headers.
    let times = field(0x5455, b"\x01\0\0\0\0");
    assert_eq!(result_of(file().local_extra(&times).central_extra(&times)), TAKEN);
    let mut dated = file();
    put(&mut dated.local, 10, &[1, 2, 3, 4]);
    assert_eq!(result_of(dated), TAKEN);
    assert_eq!(result(&zip(&[])), "taken: 0 entries");
}

#[test]
fn entries_are_in_the_order_of_their_names_and_are_read() {
    let bytes = zip_of(&[("f/b", b"b".repeat(10_000).as_slice()), ("f/a", b""), ("f/B2", b"B2")]);
    let archive = Archive::check(&bytes[..]).unwrap();
    let read: Vec<_> = archive
        .files()
        .map(|file| (file.name.as_str(), archive.read(file).unwrap().len() as u64, file.size))
        .collect();
    assert_eq!(read, [("f/B2", 2, 2), ("f/a", 0, 0), ("f/b", 10_000, 10_000)]);
    let start = archive.read_start(archive.files().last().unwrap(), 10).unwrap();
    assert_eq!(
        (start, archive.unpacked(), archive.size()),
        (b"b".repeat(10), 10_002, bytes.len() as u64)
    );
}

#[test]
fn zip64_that_is_not_needed_is_taken_and_wrong_one_is_refused() {
    let sizes = |size: u64, packed: u64| field(1, &[size.to_le_bytes(), packed.to_le_bytes()].concat());
    let content = b"content content content";
    let packed = deflate(content).len() as u64;
    let see = |entry: Made| entry.both32(12, u32::MAX).both32(16, u32::MAX);
    let both = |extra: &[u8]| see(file()).local_extra(extra).central_extra(extra);
    assert_eq!(result_of(both(&sizes(23, packed))), TAKEN);
    assert_eq!(result_of(file().local_extra(&sizes(23, packed))), TAKEN);
    assert_eq!(result_of(see(file())), "f/file: needs zip64");
    assert_eq!(
        result_of(both(&sizes(23, packed)[..12])),
        "f/file: has a broken extra field"
    );
    assert_eq!(
        result_of(both(&field(1, &23_u64.to_le_bytes()))),
        "f/file: the zip64 records are wrong"
    );
    // One size in the header, and another one in zip64.
    assert_eq!(
        result_of(file().central_extra(&sizes(24, packed))),
        "f/file: the zip64 records are wrong"
    );
    assert_eq!(
        result_of(file().local_extra(&sizes(24, packed))),
        "f/file: the zip64 records are wrong"
    );
    let twice = [sizes(23, packed), sizes(23, packed)].concat();
    assert_eq!(result_of(both(&twice)), "f/file: has a broken extra field");
    let huge = see(file())
        .local_extra(&sizes(23, packed))
        .central_extra(&sizes(1 << 40, packed));
    assert_eq!(result_of(huge), "the files in the archive are larger than 2 GiB");

    let (file, directory) = parts(&[file()], 0);
    let zip64 = |entries: u64, end: &[u8]| {
        let numbers = |numbers: &[u64]| {
            numbers
                .iter()
                .flat_map(|number| number.to_le_bytes())
                .collect::<Vec<u8>>()
        };
        let record = [
            &b"PK\x06\x06"[..],
            &numbers(&[44]),
            &[45, 3, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &numbers(&[entries, entries, directory.len() as u64, file.len() as u64]),
        ];
        let at = (file.len() + directory.len()) as u64;
        let locator = [&b"PK\x06\x07\0\0\0\0"[..], &at.to_le_bytes(), &1_u32.to_le_bytes()];
        [&file[..], &directory, &record.concat(), &locator.concat(), end].concat()
    };
    let plain = end_record(1, directory.len() as u32, file.len() as u32);
    let referring = end_record(u16::MAX, u32::MAX, u32::MAX);
    assert_eq!(result(&zip64(1, &plain)), "taken: 1 entries");
    assert_eq!(result(&zip64(1, &referring)), "taken: 1 entries");
    assert_eq!(reason(&zip64(2, &plain)), ArchiveRefusal::Zip64);
    assert_eq!(reason(&zip64(2, &referring)), ArchiveRefusal::Count);
    assert_eq!(reason(&zip64(65_536, &referring)), ArchiveRefusal::TooManyEntries);
    let bytes = [&file[..], &directory, &referring].concat();
    assert_eq!(reason(&bytes), ArchiveRefusal::Directory);
}

#[test]
fn nothing_stands_before_between_or_behind_the_entries() {
    let right = zip(&[file(), Made::stored("f/z", b"z")]);
    let length = right.len();
    assert_eq!(reason(b""), ArchiveRefusal::NotZip);
    assert_eq!(
        reason(b"<?php // a file that is no archive at all"),
        ArchiveRefusal::NotZip
    );
    assert_eq!(reason(&[&right[..], b"!"].concat()), ArchiveRefusal::Behind(1));
    assert_eq!(
        reason(&[&right[..], &right].concat()),
        ArchiveRefusal::Directory,
        "two archives"
    );
    let mut comment = [&right[..], b"hello"].concat();
    put(&mut comment, length - 2, &[5, 0]);
    assert_eq!(reason(&comment), ArchiveRefusal::Comment(5));
    comment.truncate(length);
    assert_eq!(reason(&comment), ArchiveRefusal::CutOff);
    comment.extend(b"hello, more");
    assert_eq!(reason(&comment), ArchiveRefusal::Behind(6));
    // An end record inside of a comment: the outer one is not at the end.
    let mut nested = [&right[..], &end_record(0, 0, 0)].concat();
    put(&mut nested, length - 2, &[22, 0]);
    assert_eq!(reason(&nested), ArchiveRefusal::Directory);

    assert_eq!(
        reason(&[b"#!/bin/sh\n", &right[..]].concat()),
        ArchiveRefusal::Directory,
        "offsets not moved"
    );
    let (file_part, directory) = parts(&[file(), Made::stored("f/z", b"z")], 10);
    let end = |entries, at: usize| end_record(entries, directory.len() as u32, at as u32);
    let prepended = [
        b"#!/bin/sh\n",
        &file_part[..],
        &directory,
        &end(2, 10 + file_part.len()),
    ]
    .concat();
    assert_eq!(
        result(&prepended),
        "f/file: 10 bytes before this entry belong to nothing"
    );

    let (file_part, directory) = parts(&[file(), Made::stored("f/z", b"z")], 0);
    let end = |entries, at: usize| end_record(entries, directory.len() as u32, at as u32);
    let at = file_part.len();
    let gap = [&file_part[..], b"hidden", &directory, &end(2, at + 6)].concat();
    assert_eq!(
        result(&gap),
        "f/z: 6 bytes behind the data of this entry belong to nothing"
    );
    let two = [&file_part[..], &directory, &directory, &end(2, at + directory.len())].concat();
    assert_eq!(
        result(&two),
        format!(
            "f/z: {} bytes behind the data of this entry belong to nothing",
            directory.len()
        ),
        "two directories"
    );
    assert_eq!(
        reason(&[&file_part[..], &directory, &directory, &end(2, at)].concat()),
        ArchiveRefusal::Directory
    );
    for entries in [0, 1, 3] {
        assert_eq!(
            reason(&[&file_part[..], &directory, &end(entries, at)].concat()),
            ArchiveRefusal::Count,
            "{entries}"
        );
    }
    let mut split = right.clone();
    put(&mut split, length - END_LENGTH + 4, &[1]);
    assert_eq!(reason(&split), ArchiveRefusal::Split);
    assert_eq!(
        reason(&[&b"only this"[..], &end_record(0, 0, 9)].concat()),
        ArchiveRefusal::Directory
    );
}

#[test]
fn no_two_entries_share_data() {
    let first = Made::stored("f/a", b"same");
    let mut second = Made::stored("f/b", b"same");
    // Both headers at 0: the builder keeps `1`, so that the first one is found again.
    let bytes = zip(&[first.clone(), second.clone()]);
    let directory_at = 2 * first.local.len() + 8;
    let mut shared = bytes;
    put(&mut shared, directory_at + first.central.len() + 42, &[0; 4]);
    assert!(
        matches!(reason(&shared), ArchiveRefusal::Overlap | ArchiveRefusal::Tail(_)),
        "{}",
        result(&shared)
    );

    // A header inside of another's data.
    let inner = [&second.local[..], b"same"].concat();
    let outer = Made::stored("f/a", &inner);
    put(&mut second.central, 42, &(outer.local.len() as u32).to_le_bytes());
    let hollow = Made {
        local: Vec::new(),
        data: Vec::new(),
        ..second
    };
    assert_eq!(
        result(&zip(&[outer, hollow])),
        "f/a: overlaps with another entry or with the directory"
    );

    let mut long = file();
    put(&mut long.local, 18, &1_000_u32.to_le_bytes());
    put(&mut long.central, 20, &1_000_u32.to_le_bytes());
    assert_eq!(
        result_of(long),
        "f/file: overlaps with another entry or with the directory"
    );
    let mut elsewhere = file();
    put(&mut elsewhere.central, 42, &3_u32.to_le_bytes());
    assert_eq!(
        result(&zip(&[elsewhere])),
        "f/file: 3 bytes before this entry belong to nothing"
    );
}

#[test]
fn both_headers_and_the_descriptor_agree() {
    let changed = |at: usize, new: &[u8]| {
        let mut entry = file();
        put(&mut entry.local, at, new);
        result_of(entry)
    };
    assert_eq!(
        changed(0, b"XX"),
        "f/file: has no local header where the directory says"
    );
    assert_eq!(
        changed(6, &[2, 0]),
        "f/file: has another set of flags in its local header than in the directory"
    );
    assert_eq!(
        changed(8, &[0]),
        "f/file: has another compression method in its local header than in the directory"
    );
    assert_eq!(
        changed(14, &[1, 2, 3, 4]),
        "f/file: has another CRC-32 in its local header than in the directory"
    );
    assert_eq!(
        changed(18, &[1]),
        "f/file: has another size in its local header than in the directory"
    );
    assert_eq!(
        changed(22, &[1]),
        "f/file: has another size in its local header than in the directory"
    );
    assert_eq!(
        changed(30, b"x"),
        "f/file: has another name in its local header than in the directory"
    );

    let wrong = "f/file: has a data descriptor that disagrees with the directory";
    for at in [0, 4, 8, 12] {
        let mut entry = file().with_descriptor(true, false);
        entry.descriptor[at] ^= 1;
        assert_eq!(result_of(entry), wrong, "{at}");
    }
    let mut missing = file().with_descriptor(true, false);
    missing.descriptor.clear();
    assert_eq!(result_of(missing), wrong);
    let mut other = file().with_descriptor(true, false);
    put(&mut other.local, 22, &[1]);
    assert_eq!(
        result_of(other),
        "f/file: has another size in its local header than in the directory"
    );
    let mut more = file().with_descriptor(true, false);
    more.descriptor.extend(b"more");
    assert_eq!(result_of(more), wrong);
    let mut unannounced = file();
    unannounced.descriptor = file().with_descriptor(true, false).descriptor;
    assert_eq!(
        result_of(unannounced),
        "f/file: 16 bytes behind the data of this entry belong to nothing"
    );
}

#[test]
fn only_files_and_folders_that_every_program_reads_alike_are_taken() {
    assert_eq!(result_of(file().both16(0, 1)), "f/file: is encrypted");
    assert_eq!(result_of(file().both16(0, 1 << 6 | 1)), "f/file: is encrypted");
    assert_eq!(result_of(file().both16(0, 1 << 13)), "f/file: is encrypted");
    assert_eq!(
        result_of(file().both16(0, 1 << 5)),
        "f/file: has flags with an unknown meaning (0x0020)"
    );
    for method in [1, 9, 12, 14, 93, 99] {
        let message = format!("f/file: is compressed by method {method}; only STORED (0) and deflate (8) are taken");
        assert_eq!(result_of(file().both16(2, method)), message);
    }
    for (mode, message) in [
        (0o120_777, "f/file: is a symbolic link"),
        (0o020_644, "f/file: is neither a file nor a folder"),
        (0o060_644, "f/file: is neither a file nor a folder"),
        (0o010_644, "f/file: is neither a file nor a folder"),
        (0o140_644, "f/file: is neither a file nor a folder"),
        (
            0o040_755,
            "f/file: is a folder by its attributes or by its name, and not by both",
        ),
    ] {
        assert_eq!(result_of(file().attributes(mode << 16)), message, "{mode:o}");
        // For every system in the header.
        let mut foreign = file().attributes(mode << 16);
        foreign.central[5] = 0;
        assert_eq!(result_of(foreign), message, "{mode:o}");
    }
    let folder = || Made::stored("f/sub/", b"");
    assert_eq!(
        result_of(folder().attributes(0o120_777 << 16)),
        "f/sub/: is a symbolic link"
    );
    assert!(result_of(folder().attributes(0o100_644 << 16)).ends_with("and not by both"));
    assert!(result_of(file().attributes(0x10)).ends_with("and not by both"));
    assert_eq!(
        result_of(file().attributes(0x08)),
        "f/file: is neither a file nor a folder"
    );
    assert_eq!(
        result_of(Made::stored("f/sub/", b"x").attributes(0)),
        "f/sub/: is a folder and has content"
    );
    let mut comment = file();
    put(&mut comment.central, 32, &[4]);
    comment.central.extend(b"note");
    assert_eq!(result_of(comment), "f/file: has a comment");
    let path = |name: &[u8]| field(0x7075, &[b"\x01\0\0\0\0", name].concat());
    assert_eq!(
        result_of(file().central_extra(&path(b"f/evil"))),
        "f/file: has another name in an extra field"
    );
    assert_eq!(
        result_of(file().local_extra(&path(b"f/evil"))),
        "f/file: has another name in an extra field"
    );
    assert_eq!(result_of(file().local_extra(&path(b"f/file"))), TAKEN);
    assert_eq!(
        result_of(file().central_extra(b"\x01\0\xff")),
        "f/file: has a broken extra field"
    );
    assert_eq!(
        result_of(file().local_extra(&field(0x5455, b"x")[..4])),
        "f/file: has a broken extra field"
    );
}

#[test]
fn dangerous_names_are_refused() {
    let name = |raw: &[u8]| result_of(Made::stored(&"x".repeat(raw.len()), b"").attributes(0).raw_name(raw));
    assert_eq!(name(b"/etc/passwd"), "/etc/passwd: its name is an absolute path");
    assert_eq!(name(b"/"), "/: its name is an absolute path");
    assert_eq!(
        name(b"f/../../x"),
        "f/../../x: its name has the component \".\" or \"..\""
    );
    assert_eq!(name(b"../"), "../: its name has the component \".\" or \"..\"");
    assert_eq!(name(b"f//x"), "f//x: its name has an empty component");
    assert_eq!(name(b"f/sub//"), "f/sub//: its name has an empty component");
    assert_eq!(name(b""), ": its name has an empty component");
    assert_eq!(name(b"f\\x"), "f\\x: its name has a backslash");
    assert_eq!(name(b"f/\x1b[2J"), "f/\\u{1b}[2J: its name has a control character");
    assert_eq!(name(b"f/\xff"), "f/\u{fffd}: its name is not UTF-8");
    assert_eq!(
        name(b"C:/x"),
        "C:/x: its name has ':', which names on Windows cannot have"
    );
    for (raw, reason) in [
        (&b"f/x?wsdl.wsdl"[..], NameError::Reserved('?')),
        (b"f/aux.php", NameError::Device),
        (b"f/con/", NameError::Device),
        (b"f/dot.", NameError::End),
        (b"f/end /x", NameError::End),
    ] {
        assert_eq!(name(raw), format!("{}: {reason}", String::from_utf8_lossy(raw)));
    }
    let long = NameError::TooLong.to_string();
    assert!(name(&b"a".repeat(256)).ends_with(&long) && name(&b"a/".repeat(600)).ends_with(&long));
    assert!(name(&b"a".repeat(60_000)).ends_with(&long));
    assert_eq!(result_of(Made::stored("f/a", b"")), "f/a: is there twice");
    assert_eq!(
        result_of(Made::stored("f/A", b"")),
        "f/A: differs from f/a by case only"
    );
    assert_eq!(result_of(Made::stored("F/b", b"")), "f/a: differs from F by case only");
    assert_eq!(
        result_of(Made::stored("f/a/b", b"")),
        "f/a: is a folder in the name of f/a/b"
    );
    assert_eq!(
        result_of(Made::stored("f/a/", b"")),
        "f/a: is a folder in the name of f/a"
    );
}

#[test]
fn contents_are_what_the_headers_say() {
    let content = b"content content content";
    let other_crc = file().both32(8, 7);
    assert_eq!(result_of(other_crc), "f/file: has another CRC-32 than its headers say");
    for size in [22, 24, 0] {
        assert_eq!(
            result_of(file().both32(16, size)),
            "f/file: has another size than its headers say",
            "{size}"
        );
    }
    assert_eq!(
        result_of(Made::stored("f/s", b"abc").both32(16, 2)),
        "f/s: has another size than its headers say"
    );
    let with_data = |data: Vec<u8>| {
        let mut entry = file().both32(12, data.len() as u32);
        entry.data = data;
        result_of(entry)
    };
    let broken = "f/file: has a broken deflate stream";
    let packed = deflate(content);
    assert_eq!(with_data(packed.clone()), TAKEN);
    assert_eq!(
        with_data([&packed[..], b"!"].concat()),
        broken,
        "bytes behind the stream"
    );
    assert_eq!(with_data(packed[..packed.len() - 2].to_vec()), broken, "cut off");
    assert_eq!(with_data(Vec::new()), broken);
    assert_eq!(with_data(b"\xff\xff\xff\xff".to_vec()), broken);
}

#[test]
fn bombs_are_refused_before_and_while_they_are_unpacked() {
    let zeros = vec![0; 10 << 20];
    assert_eq!(reason(&zip_of(&[("f/zeros", &zeros)])), ArchiveRefusal::Ratio);
    // One that pretends to be small.
    let liar = Made::deflated("f/zeros", &zeros).both32(16, 1_000);
    assert_eq!(result(&zip(&[liar])), "f/zeros: has another size than its headers say");
    let three = [1, 2, 3].map(|number| Made::deflated(&format!("f/{number}"), b"x").both32(16, 1 << 30));
    assert_eq!(reason(&zip(&three)), ArchiveRefusal::TooLargeUnpacked);
    #[derive(Debug)]
    struct Huge;
    impl ReadAt for Huge {
        fn size(&self) -> io::Result<u64> {
            Ok(MAX_PACKED + 1)
        }
        fn read_exact_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }
    assert!(matches!(
        Archive::check(Huge).unwrap_err().reason(),
        Some(ArchiveRefusal::TooLarge)
    ));
}

#[test]
fn as_many_entries_are_taken_as_the_end_record_can_count() {
    let names: Vec<_> = (0..65_535).map(|number| format!("f/{number}")).collect();
    let entries: Vec<_> = names.iter().map(|name| Made::stored(name, b"")).collect();
    assert_eq!(result(&zip(&entries)), "taken: 65535 entries");
}

#[test]
fn a_file_is_opened_and_what_is_none_is_an_error_of_reading() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zip");
    std::fs::write(&path, zip(&[file()])).unwrap();
    assert_eq!(Archive::open(&path).unwrap().entries().len(), 1);
    assert!(matches!(Archive::open(folder.path()), Err(ArchiveError::Read(_))));
}

#[test]
fn a_file_that_changes_after_the_check_is_noticed_while_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zip");
    let entry = Made::stored("f/file", b"content");
    let content_at = entry.local.len() as u64;
    std::fs::write(&path, zip(&[entry])).unwrap();
    let archive = Archive::open(&path).unwrap();
    let changed = regular_file::open_to_write(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&changed, b"C", content_at).unwrap();
    let error = archive.read(&archive.entries()[0]).unwrap_err();
    assert_eq!(error.reason(), Some(&ArchiveRefusal::Crc));
    changed.set_len(content_at).unwrap();
    let error = archive.read(&archive.entries()[0]).unwrap_err();
    assert_eq!(error.reason(), Some(&ArchiveRefusal::CutOff));
}

proptest! {
    #[test]
    fn a_changed_byte_is_refused_or_changes_no_content(at: proptest::sample::Index, bit in 0..8_u8) {
        let right = zip(&[file().with_descriptor(true, false), Made::stored("f/z", b"stored")]);
        let contents = |bytes: &[u8]| {
            let archive = Archive::check(bytes).ok()?;
            Some(archive.files().map(|file| (file.name.to_string(), archive.read(file).unwrap())).collect::<Vec<_>>())
        };
        let mut changed = right.clone();
        changed[at.index(right.len())] ^= 1 << bit;
        if let Some(found) = contents(&changed) {
            prop_assert_eq!(found, contents(&right).unwrap());
        }
    }

    #[test]
    fn a_cut_archive_is_refused(at: proptest::sample::Index) {
        let right = zip(&[file(), Made::stored("f/z", b"stored")]);
        prop_assert!(Archive::check(&right[..at.index(right.len())]).is_err());
    }
}
