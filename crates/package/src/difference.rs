//! Compares two archives by the names, sizes and CRC-32 of their files.
//!
//! For people: two files with the same size and CRC-32 count as equal. Digests decide whether packages are equal.

use super::archive::{Archive, ArchiveEntry};

/// A file with its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizedFile {
    /// Its name.
    pub name: String,
    /// Its unpacked size in bytes.
    pub size: u64,
}

/// A file with other content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Its name.
    pub name: String,
    /// Its bytes in the older archive.
    pub before: u64,
    /// Its bytes in the newer one.
    pub after: u64,
}

/// The changes, each list sorted by the bytes of the names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackageDifference {
    /// Files only in the newer archive.
    pub added: Vec<SizedFile>,
    /// Files only in the older archive.
    pub removed: Vec<SizedFile>,
    /// Files in both, with other content.
    pub changed: Vec<Changed>,
}

impl PackageDifference {
    /// Whether both have the same files.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}

/// A file to compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSummary {
    /// Its name.
    pub name: String,
    /// Its unpacked size in bytes.
    pub size: u64,
    /// The CRC-32 of its content; `None` if it was not read.
    pub crc: Option<u32>,
}

/// Compares the files of two archives. Folders, dates and the order are ignored.
pub fn difference<A, B>(before: &Archive<A>, after: &Archive<B>) -> PackageDifference
where
    A: super::read_at::ReadAt,
    B: super::read_at::ReadAt,
{
    let before: Vec<_> = before.files().map(summary).collect();
    let after: Vec<_> = after.files().map(summary).collect();
    difference_of(&before, &after)
}

/// Compares two lists of files, each sorted by the bytes of the names.
pub fn difference_of(before: &[FileSummary], after: &[FileSummary]) -> PackageDifference {
    let mut difference = PackageDifference::default();
    let mut older = before.iter().peekable();
    for newer in after {
        while let Some(removed) = older.next_if(|file| file.name < newer.name) {
            difference.removed.push(sized(removed));
        }
        match older.next_if(|file| file.name == newer.name) {
            None => difference.added.push(sized(newer)),
            Some(same) if same.size == newer.size && same_content(same, newer) => {}
            Some(same) => difference.changed.push(Changed {
                name: newer.name.clone(),
                before: same.size,
                after: newer.size,
            }),
        }
    }
    difference.removed.extend(older.map(sized));
    difference
}

/// Whether the checksums are the same, or one is unknown.
fn same_content(a: &FileSummary, b: &FileSummary) -> bool {
    a.crc.zip(b.crc).is_none_or(|(a, b)| a == b)
}

fn summary(file: &ArchiveEntry) -> FileSummary {
    FileSummary {
        name: file.name.to_string(),
        size: file.size,
        crc: Some(file.crc),
    }
}

fn sized(file: &FileSummary) -> SizedFile {
    SizedFile {
        name: file.name.clone(),
        size: file.size,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::testing::zip_of;

    fn between(before: &[(&str, &[u8])], after: &[(&str, &[u8])]) -> PackageDifference {
        let before = zip_of(before);
        let after = zip_of(after);
        difference(
            &Archive::check(&before[..]).unwrap(),
            &Archive::check(&after[..]).unwrap(),
        )
    }

    #[test]
    fn files_are_added_removed_and_changed() {
        let file = |name: &str, size| SizedFile {
            name: name.to_owned(),
            size,
        };
        let found = between(
            &[("f/a", b"a"), ("f/b", b"b"), ("f/c", b"c"), ("f/y", b""), ("f/z", b"")],
            &[
                ("f/0", b"00"),
                ("f/a", b"a"),
                ("f/b", b"B"),
                ("f/c", b"cc"),
                ("f/d", b"d"),
            ],
        );
        let expected = PackageDifference {
            added: vec![file("f/0", 2), file("f/d", 1)],
            removed: vec![file("f/y", 0), file("f/z", 0)],
            changed: vec![
                Changed {
                    name: "f/b".into(),
                    before: 1,
                    after: 1,
                },
                Changed {
                    name: "f/c".into(),
                    before: 1,
                    after: 2,
                },
            ],
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn order_and_folders_do_not_count() {
        let same = between(
            &[("f/a", b"a"), ("f/b", b"b")],
            &[("f/b", b"b"), ("f/", b""), ("f/a", b"a")],
        );
        assert!(same.is_empty());
        assert_eq!(between(&[], &[("a", b"")]).added.len(), 1);
    }
}
