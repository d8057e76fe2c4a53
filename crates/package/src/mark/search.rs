//! Finds the id of a copy, in a zip archive or in a folder with its files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::FILE;
use crate::archive::{Archive, ArchiveError};
use crate::read_at::ReadAt;
use countersign_files::regular_file;

/// Size limit of a mark; somebody may have added a line.
const MAX_FILE: u64 = 4_096;

/// The most files and folders to search.
const MAX_VISITED: usize = 500_000;

/// The deepest folder to search.
const MAX_DEPTH: usize = 64;

/// An id that was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoundId {
    /// The file with the id.
    pub file: PathBuf,
    /// The id; nil in a stored package.
    pub id: Uuid,
}

/// Why a folder was not searched.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// A folder or a mark cannot be read.
    #[error("{}: cannot be read", path.display())]
    Read {
        /// The folder or file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There are too many files.
    #[error("{}: has more than 500,000 files, or folders more than 64 deep", path.display())]
    TooLarge {
        /// The folder to search.
        path: PathBuf,
    },
}

/// The id in a file, even if its quotes, spaces or case were changed.
pub fn id(file: &[u8]) -> Option<Uuid> {
    let text = String::from_utf8_lossy(file);
    text.split("return").skip(1).find_map(|rest| {
        let quoted = rest.trim_start().strip_prefix(['\'', '"'])?;
        Uuid::try_parse(quoted.get(..36)?).ok()
    })
}

/// The ids anywhere in an archive, which may have been packed again.
///
/// # Errors
///
/// The archive can no longer be read.
pub fn in_archive<R: ReadAt>(archive: &Archive<R>) -> Result<Vec<FoundId>, ArchiveError> {
    let mut found = Vec::new();
    for file in archive
        .files()
        .filter(|file| file.name.file_name() == FILE && file.size <= MAX_FILE)
    {
        if let Some(id) = id(&archive.read(file)?) {
            found.push(FoundId {
                file: file.name.as_str().into(),
                id,
            });
        }
    }
    Ok(found)
}

/// The ids in a folder and its subfolders. Symbolic links are not followed.
///
/// # Errors
///
/// A folder or mark cannot be read, or there are too many files.
pub fn in_folder(folder: &Path) -> Result<Vec<FoundId>, SearchError> {
    let too_large = || SearchError::TooLarge {
        path: folder.to_owned(),
    };
    let failed = |path: &Path| {
        let path = path.to_owned();
        |source| SearchError::Read { path, source }
    };
    let mut found = Vec::new();
    let mut visited = 0;
    let mut folders = vec![(folder.to_owned(), 0)];
    while let Some((path, depth)) = folders.pop() {
        for entry in fs::read_dir(&path).map_err(failed(&path))? {
            let entry = entry.map_err(failed(&path))?;
            let kind = entry.file_type().map_err(failed(&entry.path()))?;
            visited += 1;
            if visited > MAX_VISITED || depth > MAX_DEPTH {
                return Err(too_large());
            }
            if kind.is_dir() {
                folders.push((entry.path(), depth + 1));
            } else if kind.is_file() && entry.file_name() == FILE {
                found.extend(in_file(&entry.path())?);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn in_file(path: &Path) -> Result<Option<FoundId>, SearchError> {
    let opened = regular_file::open_unlinked(path, MAX_FILE);
    let read = opened.and_then(|file| {
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut io::Read::take(file, MAX_FILE), &mut bytes)?;
        Ok(bytes)
    });
    match read {
        Ok(bytes) => Ok(id(&bytes).map(|id| FoundId {
            file: path.to_owned(),
            id,
        })),
        // Too large for a mark, or no longer a file.
        Err(error) if regular_file::is_unsuitable(&error) => Ok(None),
        Err(source) => Err(SearchError::Read {
            path: path.to_owned(),
            source,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::testing::zip_of;
    use crate::mark::content;

    const ID: Uuid = Uuid::from_u128(0x0123_4567_89ab_8def_8123_4567_89ab_cdef);

    #[test]
    fn an_id_is_found_also_where_somebody_edited_the_file() {
        let ours = content(ID);
        for text in [
            ours.clone(),
            ours.replace('\n', "\r\n"),
            ours.replace('\'', "\""),
            ours.to_uppercase().replace("RETURN", "return"),
            format!("\u{feff}{ours}\n// nulled"),
            format!("<?php // we return nothing\nreturn   '{ID}';"),
        ] {
            assert_eq!(id(text.as_bytes()), Some(ID), "{text}");
        }
        assert_eq!(id(content(Uuid::nil()).as_bytes()), Some(Uuid::nil()));
        for text in [
            "",
            "<?php return '';",
            "<?php return 'ä0123456789012345678901234567890123456';",
            "return",
        ] {
            assert_eq!(id(text.as_bytes()), None, "{text}");
        }
        assert_eq!(id(b"return '\xff"), None);
    }

    #[test]
    fn ids_are_found_wherever_they_are_in_a_zip() {
        let mark = content(ID);
        let nil = content(Uuid::nil());
        let long = " ".repeat(5_000) + &content(ID);
        let bytes = zip_of(&[
            ("wp/plugins/acme/build-id.php", mark.as_bytes()),
            ("acme/build-id.php", nil.as_bytes()),
            ("acme/other.php", mark.as_bytes()),
            ("long/build-id.php", long.as_bytes()),
            ("none/build-id.php", b"<?php"),
        ]);
        let archive = Archive::check(&bytes[..]).unwrap();
        let found = |file: &str, id| FoundId { file: file.into(), id };
        let expected = [
            found("acme/build-id.php", Uuid::nil()),
            found("wp/plugins/acme/build-id.php", ID),
        ];
        assert_eq!(in_archive(&archive).unwrap(), expected);
    }

    #[test]
    fn ids_are_found_in_a_folder_and_no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        for path in ["site/wp-content/plugins/acme", "site/empty", "elsewhere"] {
            fs::create_dir_all(at(path)).unwrap();
        }
        let mark = at("site/wp-content/plugins/acme/build-id.php");
        regular_file::write(&mark, content(ID).as_bytes()).unwrap();
        regular_file::write(&at("elsewhere/build-id.php"), content(Uuid::nil()).as_bytes()).unwrap();
        std::os::unix::fs::symlink("../elsewhere", at("site/linked")).unwrap();
        std::os::unix::fs::symlink("../../elsewhere/build-id.php", at("site/empty/build-id.php")).unwrap();
        assert_eq!(in_folder(&at("site")).unwrap(), [FoundId { file: mark, id: ID }]);
        assert_eq!(in_folder(&at("site/empty")).unwrap(), []);
        assert!(matches!(in_folder(&at("missing")), Err(SearchError::Read { .. })));
        let deep = at("site/empty").join("d/".repeat(MAX_DEPTH + 2));
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("file"), "").unwrap();
        assert!(matches!(in_folder(&at("site")), Err(SearchError::TooLarge { .. })));
    }
}
