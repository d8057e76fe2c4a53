//! Converts an archive to the normal form.

use std::io::{self, Seek, Write};

use chrono::{DateTime, Utc};

use super::archive::{Archive, ArchiveError, ArchiveRefusal};
use super::entry_name::FolderName;
use super::read_at::ReadAt;
use super::writer::{Package, PackageWriter, WriteError};

/// Why an archive was not converted.
#[derive(Debug, thiserror::Error)]
pub enum NormalizeError {
    /// A file is outside of the folder.
    #[error("{name}: is not in the folder {folder}", name = countersign_model::text::printable::Printable(.name))]
    Outside {
        /// Its name.
        name: String,
        /// The top-level folder.
        folder: String,
    },
    /// The archive was changed since it was checked, or can no longer be read.
    #[error(transparent)]
    Archive(ArchiveError),
    /// The package cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Writes the files of an archive, which must all be in `folder`, in the normal form. Drops entries of folders, and files
/// that are [never packed](super::entry_name::is_never_packed).
///
/// # Errors
///
/// A file is outside of the folder, the archive was changed or cannot be read, or the package cannot be written.
pub fn normalize<R: ReadAt, W: Write + Seek>(
    archive: &Archive<R>,
    out: W,
    folder: &FolderName,
    time: DateTime<Utc>,
    marked: bool,
) -> Result<Package, NormalizeError> {
    let mut writer = PackageWriter::new(out, folder, time);
    for file in archive.files().filter(|file| !file.is_never_packed()) {
        let outside = || NormalizeError::Outside {
            name: file.name.to_string(),
            folder: folder.to_string(),
        };
        let name = file.name.below(folder).ok_or_else(outside)?;
        let added = writer.add(name, file.size, || Ok(archive.content(file)));
        added.map_err(|error| match error {
            WriteError::Read { source, .. } if is_refusal(&source) => {
                NormalizeError::Archive(ArchiveError::of_content(&file.name, source))
            }
            error => NormalizeError::Write(error),
        })?;
    }
    Ok(writer.finish(marked)?)
}

/// Whether the content did not match the headers.
fn is_refusal(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<ArchiveRefusal>())
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::archive::testing::{Made, field, zip};

    fn normal(bytes: &[u8], marked: bool) -> Result<Vec<u8>, NormalizeError> {
        let mut out = Cursor::new(Vec::new());
        let archive = Archive::check(bytes).unwrap();
        let time = "2026-11-23T15:04:19Z".parse().unwrap();
        let package = normalize(&archive, &mut out, &"f".parse().unwrap(), time, marked)?;
        assert_eq!(package.size, out.get_ref().len() as u64);
        Ok(out.into_inner())
    }

    #[test]
    fn one_content_has_one_form_however_it_was_packed() {
        let code = b"<?php echo 'hello hello hello hello';";
        let plain = [Made::stored("f/a.php", code), Made::stored("f/b/c", b"c")];
        let expected = normal(&zip(&plain), true).unwrap();
        let times = field(0x5455, b"\x03\0\0\0\0");
        let foreign = [
            Made::stored("f/b/", b""),
            Made::deflated("f/b/c", b"c")
                .with_descriptor(true, false)
                .local_extra(&times),
            Made::stored("f/", b"").attributes(0o040_755 << 16 | 0x10),
            Made::deflated("f/a.php", code).attributes(0o100_755 << 16),
        ];
        assert_eq!(normal(&zip(&foreign), true).unwrap(), expected);
        assert_ne!(normal(&zip(&plain), false).unwrap(), expected);
    }

    #[test]
    fn what_is_never_packed_is_dropped() {
        let plain = || vec![Made::stored("f/a.php", b"<?php"), Made::stored("f/b/c", b"c")];
        let mut littered = plain();
        for name in [
            "f/.DS_Store",
            "f/b/Thumbs.db",
            "__MACOSX/f/._a.php",
            "f/.wordpress-org/icon.svg",
        ] {
            littered.push(Made::stored(name, b"x"));
        }
        assert_eq!(
            normal(&zip(&littered), true).unwrap(),
            normal(&zip(&plain()), true).unwrap()
        );
    }

    #[test]
    fn the_normal_form_is_its_own() {
        let unmarked = normal(
            &zip(&[
                Made::deflated("f/a", b"a a a a a a a a a a a"),
                Made::stored("f/b", b""),
            ]),
            false,
        );
        let unmarked = unmarked.unwrap();
        assert_eq!(normal(&unmarked, false).unwrap(), unmarked);
    }

    #[test]
    fn what_is_outside_of_the_folder_and_a_mark_of_its_own_are_named() {
        let refusal = |name: &str| normal(&zip(&[Made::stored(name, b"")]), true).unwrap_err().to_string();
        assert_eq!(refusal("g/a"), "g/a: is not in the folder f");
        assert_eq!(refusal("f"), "f: is not in the folder f");
        assert_eq!(refusal("f/build-id.php"), "f/build-id.php: is there twice");
    }
}
