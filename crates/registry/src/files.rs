//! The registry's files: from a folder, or from a revision of the folder's git repository.
//!
//! Decides which files belong to the registry; `lines` checks that they are complete.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Diagnostic, RegistryError};
use crate::git::{EntryKind, Revision};
use crate::lines::{ByteSource, LineReader, MEBIBYTE};
use countersign_files::regular_file;

/// The file with who may use the desk, in the registry's folder itself.
pub(super) const PEOPLE: &str = "desk.toml";

/// Size limit of a TOML file.
const MAX_TOML: u64 = 64 * MEBIBYTE;

/// Size limit of a plugin entry, an offer or the file with people, which have a few lines.
const MAX_ENTRY: u64 = MEBIBYTE;

/// Size limit of a JSONL file with one license a line.
const MAX_JSONL: u64 = 1024 * MEBIBYTE;

/// An entry of `plugins/` or `licenses/`.
#[derive(Debug)]
pub struct DirEntry {
    /// Its path, as a person would type it.
    pub file: PathBuf,
    /// Its name in the folder.
    pub name: String,
    /// What kind of entry it is.
    pub kind: EntryKind,
}

/// The registry's files, from its folder or from a revision.
pub struct RegistryFiles {
    folder: PathBuf,
    revision: Option<Revision>,
}

impl RegistryFiles {
    /// The files in the folder now.
    pub fn folder(path: &Path) -> Self {
        Self {
            folder: path.to_owned(),
            revision: None,
        }
    }

    /// The files in revision `rev` (whatever `git rev-parse` accepts) of the repository around `folder`.
    pub fn revision(folder: &Path, rev: &str) -> Result<Self, RegistryError> {
        Ok(Self {
            folder: folder.to_owned(),
            revision: Some(Revision::open(folder, rev)?),
        })
    }

    /// The file of this name in the registry's folder itself, if it is there.
    pub(super) fn top_file(&self, name: &str) -> Result<Option<DirEntry>, RegistryError> {
        let file = self.folder.join(name);
        let kind = match &self.revision {
            Some(revision) => revision.kind(name)?,
            None => match std::fs::symlink_metadata(&file) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                // Reading it gives the error.
                _ => Some(kind_of(&file)),
            },
        };
        let name = name.to_owned();
        Ok(kind.map(|kind| DirEntry { file, name, kind }))
    }

    /// The entries of `subfolder`, sorted by name, without hidden files, `*.md` and the backups of editors.
    pub fn list(&self, subfolder: &str) -> Result<Vec<DirEntry>, RegistryError> {
        let folder = self.folder.join(subfolder);
        let names = match &self.revision {
            Some(revision) => revision.list(subfolder)?,
            None => list_folder(&folder).map_err(|source| match source.kind() {
                io::ErrorKind::NotFound => RegistryError::NoFolder { path: folder.clone() },
                _ => RegistryError::List {
                    path: folder.clone(),
                    source,
                },
            })?,
        };
        let counts = |name: &str| !name.starts_with('.') && ![".md", "~", ".swp"].iter().any(|end| name.ends_with(end));
        let mut listed: Vec<_> = names
            .into_iter()
            .filter(|(name, _)| counts(name))
            .map(|(name, kind)| DirEntry {
                file: folder.join(&name),
                name,
                kind,
            })
            .collect();
        listed.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(listed)
    }

    /// The text of a file, if it is a file, not too large, UTF-8 and complete.
    pub fn text(&self, listed: &DirEntry) -> Result<String, Diagnostic> {
        let mut text = String::new();
        let mut lines = self.lines(listed)?;
        while let Some((_, line)) = lines.next()? {
            text += line;
        }
        Ok(text)
    }

    /// The bytes of a file of at most `limit` bytes that need not end with a newline.
    pub(super) fn bytes(&self, listed: &DirEntry, limit: u64) -> Result<Vec<u8>, Diagnostic> {
        let complain = |message: String| Err(Diagnostic::of_file(&listed.file, message));
        match self.source(listed, limit)?.whole(limit) {
            Ok(bytes) => Ok(bytes),
            Err(error) => complain(format!("cannot be read: {error}")),
        }
    }

    /// The same, line by line. Whether the file is complete shows at its last line.
    pub fn lines<'a>(&self, listed: &'a DirEntry) -> Result<LineReader<'a>, Diagnostic> {
        let limit = limit_of(&listed.file);
        let source = self.source(listed, limit)?;
        Ok(LineReader::new(&listed.file, source, limit))
    }

    /// Where the bytes of a file come from, if it is a file that is not too large.
    fn source(&self, listed: &DirEntry, limit: u64) -> Result<ByteSource, Diagnostic> {
        let complain = |message: &str| Err(Diagnostic::of_file(&listed.file, message));
        match listed.kind {
            EntryKind::File => {}
            EntryKind::Folder => return complain("unexpected directory"),
            EntryKind::Link => return complain("a symbolic link is not followed in a revision"),
            EntryKind::Special => return complain("not a regular file"),
        }
        let source = match &self.revision {
            Some(revision) => revision.read(&self.folder, &listed.file, limit).map(ByteSource::held),
            None => match ByteSource::open(&listed.file, limit) {
                Err(error) if regular_file::is_unsuitable(&error) => return complain(&error.to_string()),
                opened => opened.map_err(|error| error.to_string()),
            },
        };
        source.or_else(|reason| complain(&format!("cannot be read: {reason}")))
    }
}

/// Size limit of a file in bytes, by its name.
pub(super) fn limit_of(file: &Path) -> u64 {
    match (file.parent().and_then(Path::file_name), file.extension()) {
        _ if file.file_name().is_some_and(|name| name == PEOPLE) => MAX_ENTRY,
        (Some(folder), _) if folder == "plugins" || folder == "offers" => MAX_ENTRY,
        (_, Some(extension)) if extension == "jsonl" => MAX_JSONL,
        _ => MAX_TOML,
    }
}

fn list_folder(folder: &Path) -> io::Result<Vec<(String, EntryKind)>> {
    std::fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| (entry.file_name().to_string_lossy().into_owned(), kind_of(&entry.path()))))
        .collect()
}

fn kind_of(path: &Path) -> EntryKind {
    // Follows symbolic links, because that is how files are mounted into containers.
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => EntryKind::File,
        Ok(metadata) if metadata.is_dir() => EntryKind::Folder,
        Ok(_) => EntryKind::Special,
        // Reading it gives the error.
        Err(_) => EntryKind::File,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, RegistryFiles) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("plugins")).unwrap();
        let files = RegistryFiles::folder(folder.path());
        (folder, files)
    }

    fn reason(files: &RegistryFiles, listed: &DirEntry) -> String {
        files.text(listed).unwrap_err().message
    }

    #[test]
    fn what_is_no_whole_file_of_reasonable_size_is_not_read() {
        let (folder, files) = folder();
        let plugins = folder.path().join("plugins");
        std::fs::File::create(plugins.join("a.toml"))
            .unwrap()
            .set_len(MAX_ENTRY + 1)
            .unwrap();
        std::os::unix::fs::symlink("nowhere", plugins.join("b.toml")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(plugins.join("c.toml")).unwrap();
        std::fs::create_dir(plugins.join("d.toml")).unwrap();
        let reasons: Vec<_> = files
            .list("plugins")
            .unwrap()
            .iter()
            .map(|listed| reason(&files, listed))
            .collect();
        assert_eq!(
            reasons,
            [
                "is larger than the limit of 1 MiB",
                "cannot be read: No such file or directory (os error 2)",
                "not a regular file",
                "unexpected directory",
            ]
        );
    }

    #[test]
    fn a_symbolic_link_in_a_folder_is_followed() {
        let (folder, files) = folder();
        std::fs::write(folder.path().join("elsewhere"), "text\n").unwrap();
        std::os::unix::fs::symlink("../elsewhere", folder.path().join("plugins/a.toml")).unwrap();
        assert_eq!(files.text(&files.list("plugins").unwrap()[0]).unwrap(), "text\n");
    }

    #[test]
    fn a_name_cannot_steer_the_terminal_on_which_it_is_complained_about() {
        let (folder, files) = folder();
        std::fs::create_dir(folder.path().join("plugins/\x1b[2J.toml")).unwrap();
        let diagnostic = files.text(&files.list("plugins").unwrap()[0]).unwrap_err().to_string();
        assert!(
            diagnostic.ends_with(r"plugins/\u{1b}[2J.toml: unexpected directory"),
            "{diagnostic}"
        );
    }
}
